//! Beats and Logstash's lumberjack output: windows of events, each acknowledged when it is durable.
//!
//! Invariants: an acknowledgement never names an event that is neither durable nor counted as one that can never be
//! stored. A window is stored in pieces of [`PIECE_EVENTS`] or [`PIECE_BYTES`], each known again by its contents when a
//! client sends it once more, also to a server that was restarted: it counts once. While the store has no room, a
//! client gets an acknowledgement of what is stored of its window each [`KEEP_ALIVE`].
//! Threads: a task for each connection, which reads on when a piece is stored.
//! Limits: those of the stream ([`ogive_protocol::beats::frames`]); [`LARGE_MESSAGES`] connections hold more than
//! [`SMALL_BYTES`]; a client that is silent inside a window for [`PATIENCE`] is disconnected, others after the options'
//! idle time.
//! Failure: that of [`DurableStore`].

use std::sync::Arc;
use std::time::Duration;

use ogive_door::Door;
use ogive_door::counters::{Ledger, Protocol};
use ogive_door::numbers::{AGAIN_SECONDS, Content};
use ogive_model::Tenant;
use ogive_protocol::beats::feed;
use ogive_protocol::beats::frames::{FrameError, Frames, acknowledgement};
use ogive_protocol::lines::Fault;
use ogive_protocol::{Gather, beats, fingerprint};
use tokio::io::AsyncReadExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::Options;
use super::connection::{LARGE_MESSAGES, READ_BYTES, SMALL_BYTES, Stream, until};
use super::durable::{DurableStore, PATIENCE, written};

/// 5,000 events of a window are stored at once: an fsync costs each a microsecond. Beats' windows have 2,048 at most.
const PIECE_EVENTS: usize = 5_000;

/// 4 MiB of events: 64 connections hold a quarter of a gigabyte.
const PIECE_BYTES: usize = 4 << 20;

/// 3 s: clients give up after 30 s without a word, unless configured otherwise.
const KEEP_ALIVE: Duration = Duration::from_secs(3);

/// Whether a connection goes on.
type GoesOn = bool;

/// What the connections of Beats share.
pub(super) struct Beats {
    durable: DurableStore,
    tenant: Tenant,
    idle: Duration,
    /// [`KEEP_ALIVE`], or less for tests.
    keep_alive: Duration,
    large: Arc<Semaphore>,
}

impl Beats {
    pub(super) fn new(door: Arc<Door>, options: &Options) -> Self {
        let large = Arc::new(Semaphore::new(LARGE_MESSAGES));
        let durable = DurableStore::new(door, Protocol::Beats, AGAIN_SECONDS);
        Self { durable, tenant: options.line_tenant.clone(), idle: options.idle(), keep_alive: KEEP_ALIVE, large }
    }

    fn ledger(&self) -> &Ledger {
        self.durable.ledger()
    }

    pub(super) fn lost(&self, reason: &'static str, count: u64) {
        self.ledger().unreadable(reason, count);
    }

    /// Reads `stream` until it ends.
    pub(super) async fn serve(&self, mut stream: impl Stream, ending: watch::Receiver<bool>) {
        let mut window = Window::default();
        let mut buffer = vec![0; READ_BYTES];
        let mut permit = None;
        loop {
            let patience = if window.is_cut() { self.idle.min(PATIENCE) } else { self.idle };
            let read = tokio::time::timeout(patience, until(&ending, stream.read(&mut buffer))).await;
            if read.is_err() {
                self.lost("idle_connection", 1);
            }
            // What is cut by the end of this server was not acknowledged and comes again.
            let Ok(Some(Ok(length @ 1..))) = read else { break };
            self.ledger().bytes.add(length as u64);
            match self.take(&buffer[..length], &mut window, &mut permit, &mut stream, &ending).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(broken) => return self.lost(broken.as_str(), 1),
            }
        }
        if window.is_cut() {
            self.lost(Fault::Cut.as_str(), 1);
        }
    }

    /// Takes the next bytes of a connection, and stores what is complete.
    async fn take(
        &self,
        mut bytes: &[u8],
        window: &mut Window,
        permit: &mut Option<OwnedSemaphorePermit>,
        stream: &mut impl Stream,
        ending: &watch::Receiver<bool>,
    ) -> Result<GoesOn, FrameError> {
        loop {
            let limit = if permit.is_some() { usize::MAX } else { SMALL_BYTES };
            let now_ns = self.durable.door.clock.wall();
            // Compressed bytes may be much to read.
            let step = tokio::task::block_in_place(|| {
                window.add(&mut bytes, limit, now_ns, |fault| self.lost(fault.as_str(), 1))
            })?;
            match step {
                Step::Read => return Ok(true),
                Step::Large => match until(ending, self.large.clone().acquire_owned()).await {
                    Some(acquired) => *permit = acquired.ok(),
                    None => return Ok(false),
                },
                Step::Piece(piece) => {
                    if !self.store(piece, stream, ending).await {
                        return Ok(false);
                    }
                    *permit = None;
                }
            }
        }
    }

    /// Stores a piece and acknowledges it.
    async fn store(&self, piece: Piece, stream: &mut impl Stream, ending: &watch::Receiver<bool>) -> GoesOn {
        let [before, done] = [piece.before, piece.sequence].map(|sequence| acknowledgement(piece.version, sequence));
        if !piece.gather.is_empty() {
            let mut storing = std::pin::pin!(self.stored(piece, ending));
            loop {
                match tokio::time::timeout(self.keep_alive, &mut storing).await {
                    Ok(true) => break,
                    Ok(false) => return false,
                    Err(_) if written(stream, &before).await => {}
                    Err(_) => return false,
                }
            }
        }
        written(stream, &done).await
    }

    /// Stores a piece; false when this server ends before it is.
    async fn stored(&self, mut piece: Piece, ending: &watch::Receiver<bool>) -> bool {
        let batch = piece.gather.take(Default::default(), 0, &self.tenant);
        let fingerprint = || fingerprint(&self.tenant, "beats", &piece.fingerprints);
        let Some(content) = Content::from_any_batch(&batch, piece.is_timed, fingerprint) else { return true };
        self.durable.store(batch, Some(content), ending).await
    }
}

/// What comes of bytes that were added.
enum Step {
    /// They are all taken.
    Read,
    /// The next are taken when the connection may hold more.
    Large,
    /// Events to be stored before the next are taken.
    Piece(Piece),
}

/// Events of a window that are stored at once.
#[derive(Default)]
struct Piece {
    gather: Gather,
    /// Those of its events, in their order.
    fingerprints: Vec<u8>,
    is_timed: bool,
    version: beats::frames::Version,
    /// What of the window is stored before it; 0 for nothing.
    before: u32,
    /// The last of its events.
    sequence: u32,
}

/// The window that a connection is in.
#[derive(Default)]
struct Window {
    frames: Frames,
    piece: Piece,
    events: usize,
    untimed: usize,
    bytes: usize,
    /// What of it is stored; 0 for nothing.
    stored: u32,
}

impl Window {
    /// Takes bytes until a piece is complete or more than `limit` is held.
    fn add(
        &mut self,
        bytes: &mut &[u8],
        limit: usize,
        now_ns: i64,
        mut lost: impl FnMut(Fault),
    ) -> Result<Step, FrameError> {
        loop {
            if self.bytes + self.frames.held() > limit {
                return Ok(Step::Large);
            }
            let Some(found) = self.frames.next(bytes)? else { return Ok(Step::Read) };
            self.events += 1;
            self.bytes += found.content.len();
            match feed(found.content, now_ns, &mut self.piece.gather) {
                Ok(taken) => {
                    self.piece.fingerprints.extend_from_slice(&taken.fingerprint.to_le_bytes());
                    self.untimed += usize::from(!taken.is_timed);
                }
                Err(fault) => lost(fault),
            }
            let (sequence, is_last) = (found.sequence, found.is_last);
            if is_last || self.events >= PIECE_EVENTS || self.bytes >= PIECE_BYTES {
                return Ok(Step::Piece(self.cut(sequence, is_last)));
            }
        }
    }

    /// The events up to this one.
    fn cut(&mut self, sequence: u32, is_last: bool) -> Piece {
        let piece = std::mem::take(&mut self.piece);
        let (before, is_timed, version) = (self.stored, self.untimed == 0, self.frames.version());
        self.stored = if is_last { 0 } else { sequence };
        (self.events, self.untimed, self.bytes) = (0, 0, 0);
        Piece { before, sequence, is_timed, version, ..piece }
    }

    fn is_cut(&self) -> bool {
        self.frames.is_cut()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use ogive_door::backend::Refusal;
    use ogive_door::memory::Memory;
    use ogive_probe::Clock;
    use tokio::io::{AsyncWriteExt, DuplexStream};

    use super::*;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        options: Options,
    }

    /// A server of Beats whose store has this to say.
    fn beats(refusal: Option<Refusal>) -> (Arc<Memory>, Arc<Beats>) {
        let memory = Arc::new(Memory::default());
        *memory.refusal.lock().unwrap() = refusal;
        let door = Door::fresh(memory.clone(), Clock::global(), watch::channel(false).1);
        let options = Arguments::parse_from(["ogive"]).options;
        let beats = Beats { keep_alive: Duration::from_millis(20), ..Beats::new(door, &options) };
        (memory, Arc::new(beats))
    }

    fn events(range: std::ops::RangeInclusive<u32>) -> Vec<u8> {
        let json = br#"{"message":"x"}"#;
        let event = |at: u32| [&b"2J"[..], &at.to_be_bytes(), &(json.len() as u32).to_be_bytes(), json].concat();
        range.flat_map(event).collect()
    }

    async fn answer(client: &mut DuplexStream) -> [u8; 6] {
        let mut answer = [0; 6];
        client.read_exact(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn while_the_store_has_no_room_a_client_hears_what_is_stored() {
        let (memory, beats) = beats(None);
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let (end, ending) = watch::channel(false);
        let served = tokio::spawn({
            let beats = beats.clone();
            async move { beats.serve(server, ending).await }
        });
        let (first, last) = (PIECE_EVENTS as u32, PIECE_EVENTS as u32 + 10);
        client.write_all(&[&b"2W"[..], &last.to_be_bytes(), &events(1..=first)].concat()).await.unwrap();
        assert_eq!(answer(&mut client).await, acknowledgement(Default::default(), first));
        for refusal in [Refusal::Busy, Refusal::Failed("no".into())] {
            *memory.refusal.lock().unwrap() = Some(refusal);
            client.write_all(&events(first + 1..=last)).await.unwrap();
            assert_eq!(answer(&mut client).await, acknowledgement(Default::default(), first));
            *memory.refusal.lock().unwrap() = None;
            while answer(&mut client).await != acknowledgement(Default::default(), last) {}
            // The next window begins where nothing is stored of it.
            let opening = [&b"2W"[..], &last.to_be_bytes(), &events(1..=first)].concat();
            client.write_all(&opening).await.unwrap();
            assert_eq!(answer(&mut client).await, acknowledgement(Default::default(), first));
        }
        end.send(true).unwrap();
        served.await.unwrap();
        assert_eq!(beats.ledger().unreadable_total(), 1, "the window that was open");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_end_of_the_server_leaves_what_is_not_stored_without_acknowledgement() {
        let (_, beats) = beats(Some(Refusal::Failed("no".into())));
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let (end, ending) = watch::channel(false);
        let served = tokio::spawn(async move { beats.serve(server, ending).await });
        client.write_all(&[&b"2W\0\0\0\x02"[..], &events(1..=2)].concat()).await.unwrap();
        assert_eq!(answer(&mut client).await, acknowledgement(Default::default(), 0));
        end.send(true).unwrap();
        served.await.unwrap();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert!(rest.chunks(6).all(|answer| answer == acknowledgement(Default::default(), 0)), "{rest:?}");
    }
}
