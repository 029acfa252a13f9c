//! Relays bytes both ways between two streams.
//!
//! Format: a plain stream is bytes; a framed one is described in docs/formats/fleet.md: the end of the data is a frame
//! of its own, so that a connection that breaks cannot be taken for one that has sent everything.
//! Invariants: bytes arrive whole and in order; the end of one direction is passed on and leaves the other open; what
//! ends early ends both. At most one payload for each direction is held, so a reader that is slow slows its writer
//! down.
//! Limits: [`PAYLOAD_BYTES_MAX`]; nothing moves for [`IDLE`] at most.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};

/// 16 KiB: as much as a record of TLS holds.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 16 << 10;
/// The length before a payload.
pub(crate) const HEAD_BYTES: usize = 2;
const _: () = assert!(PAYLOAD_BYTES_MAX <= u16::MAX as usize);
/// 10 minutes without a byte: a session of a person who went for a coffee stays, a forgotten one ends.
pub const IDLE: Duration = Duration::from_secs(600);
/// Silence is measured in eighths, so that it ends within an eighth of its limit.
const IDLE_PARTS: u32 = 8;

/// How a stream carries its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    Framed,
}

/// One of the two streams.
#[derive(Debug)]
pub struct Side<S> {
    stream: S,
    form: Form,
    name: &'static str,
}

impl<S> Side<S> {
    /// A program or its client; `name` is for people.
    pub const fn plain(stream: S, name: &'static str) -> Self {
        Self { stream, form: Form::Plain, name }
    }

    /// Somebody else who relays.
    pub const fn framed(stream: S, name: &'static str) -> Self {
        Self { stream, form: Form::Framed, name }
    }
}

/// How a relay ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Both directions have sent all that they had.
    Whole,
    /// One of the streams broke.
    Broken(String),
    /// Nothing moved for so long.
    Idle(Duration),
    /// It was cut, and why.
    Cut(String),
}

impl fmt::Display for End {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => out.write_str("closed by both ends"),
            Self::Broken(why) => write!(out, "broken: {why}"),
            Self::Idle(length) => write!(out, "closed, as no byte moved for {} s", length.as_secs()),
            Self::Cut(why) => write!(out, "closed: {why}"),
        }
    }
}

/// What a relay did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relayed {
    /// How it ended.
    pub end: End,
    /// Bytes from the first stream to the second.
    pub sent: u64,
    /// Bytes from the second stream to the first.
    pub received: u64,
}

/// Relays between two streams until both directions have ended, one breaks, no byte has moved for `idle`, or `cut` says
/// why to end.
pub async fn relay<A, B>(near: Side<A>, far: Side<B>, idle: Duration, cut: impl Future<Output = String>) -> Relayed
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (sent, received) = (AtomicU64::new(0), AtomicU64::new(0));
    let Side { stream, form: near_form, name: near_name } = near;
    let (near_read, near_write) = split(stream);
    let Side { stream, form: far_form, name: far_name } = far;
    let (far_read, far_write) = split(stream);
    let out = forward((near_read, near_form, near_name), (far_write, far_form, far_name), &sent);
    let back = forward((far_read, far_form, far_name), (near_write, near_form, near_name), &received);
    let end = tokio::select! {
        moved = async { tokio::try_join!(out, back) } => moved.map_or_else(End::Broken, |_| End::Whole),
        () = silence(&sent, &received, idle) => End::Idle(idle),
        why = cut => End::Cut(why),
    };
    // ORDERING: Relaxed here and below; each count is read on its own.
    Relayed { end, sent: sent.load(Ordering::Relaxed), received: received.load(Ordering::Relaxed) }
}

/// A half of a side.
type Half<S> = (S, Form, &'static str);

async fn forward<R, W>(mut from: Half<R>, mut to: Half<W>, moved: &AtomicU64) -> Result<(), String>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (from_name, to_name) = (from.2, to.2);
    let mut buffer = vec![0; HEAD_BYTES + PAYLOAD_BYTES_MAX];
    loop {
        let count = take(&mut from.0, from.1, &mut buffer).await;
        let count = count.map_err(|error| format!("from {from_name}: {}", shown(&error)))?;
        assert!(count <= PAYLOAD_BYTES_MAX, "{count} bytes were taken");
        give(&mut to.0, to.1, &mut buffer[..HEAD_BYTES + count])
            .await
            .map_err(|error| format!("to {to_name}: {}", shown(&error)))?;
        if count == 0 {
            return Ok(());
        }
        // ORDERING: Relaxed; see above.
        moved.fetch_add(count as u64, Ordering::Relaxed);
    }
}

fn shown(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the connection ended before its data did".into(),
        _ => error.to_string(),
    }
}

/// The length that a head states.
pub(crate) fn payload_bytes(head: [u8; HEAD_BYTES]) -> io::Result<usize> {
    let count = usize::from(u16::from_le_bytes(head));
    if count > PAYLOAD_BYTES_MAX {
        let message = format!("a frame of {count} bytes; {PAYLOAD_BYTES_MAX} are the most");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(count)
}

/// Reads some bytes to behind the head in `buffer`; none at the end of the data.
pub(crate) async fn take<R: AsyncRead + Unpin>(from: &mut R, form: Form, buffer: &mut [u8]) -> io::Result<usize> {
    let payload = &mut buffer[HEAD_BYTES..];
    if form == Form::Plain {
        return from.read(payload).await;
    }
    let mut head = [0; HEAD_BYTES];
    from.read_exact(&mut head).await?;
    let count = payload_bytes(head)?;
    from.read_exact(&mut payload[..count]).await?;
    Ok(count)
}

/// Writes what stands behind the head in `buffer`; nothing there is the end of the data.
pub(crate) async fn give<W: AsyncWrite + Unpin>(to: &mut W, form: Form, buffer: &mut [u8]) -> io::Result<()> {
    let count = buffer.len() - HEAD_BYTES;
    match form {
        Form::Framed => {
            let head = u16::try_from(count).expect("a payload within its limit").to_le_bytes();
            buffer[..HEAD_BYTES].copy_from_slice(&head);
            to.write_all(buffer).await?;
        }
        Form::Plain if count == 0 => {
            // Who has closed both directions meanwhile has read all that it wanted.
            return to.shutdown().await.or_else(|error| match error.kind() {
                io::ErrorKind::NotConnected => Ok(()),
                _ => Err(error),
            });
        }
        Form::Plain => to.write_all(&buffer[HEAD_BYTES..]).await?,
    }
    to.flush().await
}

/// Returns when neither count has grown for `idle`.
async fn silence(sent: &AtomicU64, received: &AtomicU64, idle: Duration) {
    // ORDERING: Relaxed; see above.
    let sum = || sent.load(Ordering::Relaxed).wrapping_add(received.load(Ordering::Relaxed));
    let (mut before, mut parts) = (sum(), 0);
    while parts < IDLE_PARTS {
        tokio::time::sleep(idle / IDLE_PARTS).await;
        let now = sum();
        parts = if now == before { parts + 1 } else { 0 };
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::io::{DuplexStream, duplex};

    use super::*;

    fn bytes(count: usize, seed: u8) -> Vec<u8> {
        (0..count).map(|at| (at * 7 + at / 251) as u8 ^ seed).collect()
    }

    async fn run(near: Side<DuplexStream>, far: Side<DuplexStream>) -> Relayed {
        relay(near, far, IDLE, pending()).await
    }

    /// A client, a server, and between them the three who relay: the operator, the server of the fleet, and the broker.
    /// The buffers are small, so that everybody waits for everybody.
    #[tokio::test]
    async fn bytes_pass_all_who_relay_and_ends_are_passed_on() {
        let pair = || duplex(1_000);
        let ((mut client, a), (b, c), (d, e), (f, mut target)) = (pair(), pair(), pair(), pair());
        let relays = [
            tokio::spawn(run(Side::plain(a, "client"), Side::framed(b, "server"))),
            tokio::spawn(run(Side::framed(c, "operator"), Side::framed(d, "broker"))),
            tokio::spawn(run(Side::framed(e, "server"), Side::plain(f, "target"))),
        ];
        let (out, back) = (bytes(300_000, 1), bytes(200_000, 2));
        let (sent, answer) = (out.clone(), back.clone());
        let served = tokio::spawn(async move {
            let mut found = Vec::new();
            // To the end, which only a half that was closed has; then it answers.
            target.read_to_end(&mut found).await.unwrap();
            target.write_all(&answer).await.unwrap();
            target.shutdown().await.unwrap();
            found
        });
        client.write_all(&sent).await.unwrap();
        client.shutdown().await.unwrap();
        let mut found = Vec::new();
        client.read_to_end(&mut found).await.unwrap();
        assert!(found == back && served.await.unwrap() == out);
        for relay in relays {
            assert_eq!(relay.await.unwrap(), Relayed { end: End::Whole, sent: 300_000, received: 200_000 });
        }
    }

    #[tokio::test]
    async fn a_stream_is_as_its_format_says() {
        let example = include_bytes!("../../../vectors/fleet/stream.bin");
        let ((mut client, a), (b, mut server)) = (duplex(100), duplex(100));
        let relay = tokio::spawn(run(Side::plain(a, "client"), Side::framed(b, "server")));
        client.write_all(b"hello").await.unwrap();
        client.shutdown().await.unwrap();
        let mut found = vec![0; example.len()];
        server.read_exact(&mut found).await.unwrap();
        assert_eq!(found, example);
        server.write_all(example).await.unwrap();
        let mut said = String::new();
        client.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "hello");
        assert_eq!(relay.await.unwrap(), Relayed { end: End::Whole, sent: 5, received: 5 });
    }

    /// How a relay ends whose far side sends `bytes` and is gone.
    async fn ended(bytes: &[u8]) -> End {
        let ((_client, a), (b, mut server)) = (duplex(100_000), duplex(100_000));
        server.write_all(bytes).await.unwrap();
        drop(server);
        run(Side::plain(a, "client"), Side::framed(b, "server")).await.end
    }

    #[tokio::test]
    async fn a_stream_that_is_cut_anywhere_is_broken() {
        let whole = b"\x03\0abc\0\0";
        for length in 0..whole.len() {
            let End::Broken(why) = ended(&whole[..length]).await else { panic!("{length} bytes are whole") };
            assert_eq!(why, "from server: the connection ended before its data did", "{length}");
        }
        let most = u16::try_from(PAYLOAD_BYTES_MAX).unwrap();
        let End::Broken(why) = ended(&(most + 1).to_le_bytes()).await else { panic!("it is too long") };
        assert!(why.contains("a frame of 16385 bytes"), "{why}");
        assert_eq!(payload_bytes(most.to_le_bytes()).unwrap(), PAYLOAD_BYTES_MAX);
    }

    #[tokio::test]
    async fn silence_and_whoever_may_end_it_end_a_relay() {
        let ((_client, a), (b, _server)) = (duplex(10), duplex(10));
        let idle = Duration::from_millis(80);
        let relayed = relay(Side::plain(a, "client"), Side::framed(b, "server"), idle, pending()).await;
        assert_eq!(relayed.end, End::Idle(idle));
        let ((_client, a), (b, _server)) = (duplex(10), duplex(10));
        let cut = async { "revoked".to_owned() };
        let relayed = relay(Side::plain(a, "client"), Side::framed(b, "server"), IDLE, cut).await;
        assert_eq!(relayed.end.to_string(), "closed: revoked");
    }
}
