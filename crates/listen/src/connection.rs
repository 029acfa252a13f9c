//! Connections: lines from a byte stream, wherever its segments end.
//!
//! Format: lines that end with `\n`; on a Unix socket also DogStatsD's frames, each message preceded by its length as a
//! little-endian u32. A message is shorter than 64 KiB, so the third and fourth byte of its length are 0, which no line
//! contains. Syslog and GELF have framings of their own.
//! Invariants: a line is accepted once its end has arrived; an incomplete line at the end of a connection is counted as
//! truncated.
//! Threads: one task per connection.
//! Limits: [`LINE_BYTES_MAX`] for a line, [`FRAME_BYTES_MAX`] for a frame, [`LARGE_MESSAGES`] messages above
//! [`SMALL_BYTES`] at a time for each socket, and the number of connections and idle time set by the options.

use std::sync::Arc;
use std::time::Duration;

use ogive_protocol::lines::{Fault, LINE_BYTES_MAX};
use ogive_protocol::syslog::framing::{FramedMessage, Framing};
use ogive_protocol::{gelf, syslog};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::intake::Intake;

/// As a datagram.
const FRAME_BYTES_MAX: usize = 64 * 1024;

/// What is read at once.
pub(super) const READ_BYTES: usize = 64 * 1024;

/// How long a sender waits before it is looked whether there is room.
const PAUSE: Duration = Duration::from_millis(20);

/// At the end, what a sender wrote before is read for so long.
pub(super) const LAST_READ: Duration = Duration::from_millis(50);

/// A connection holds this much of a message without asking.
pub(super) const SMALL_BYTES: usize = syslog::MESSAGE_BYTES_MAX;

/// 64 messages of up to 1 MiB that a socket's connections hold; others with large ones are read when there is room.
pub(super) const LARGE_MESSAGES: usize = 64;

/// How a connection's bytes are messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Lines,
    LinesOrFrames,
    Syslog,
    Gelf,
}

/// How a connection is read.
#[derive(Clone)]
pub(super) struct Rules {
    pub(super) layout: Layout,
    pub(super) idle: Duration,
    /// [`LARGE_MESSAGES`] of one socket.
    pub(super) large: Arc<Semaphore>,
}

/// The bytes of a connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// What `future` gives, or nothing when the end comes first.
pub(super) async fn until<T>(ending: &watch::Receiver<bool>, future: impl Future<Output = T>) -> Option<T> {
    let mut ending = ending.clone();
    tokio::select! {
        out = future => Some(out),
        _ = ending.wait_for(|ending| *ending) => None,
    }
}

/// Reads `stream` until it ends.
pub(super) async fn serve(
    mut stream: impl Stream,
    intake: Arc<dyn Intake>,
    rules: Rules,
    mut ending: watch::Receiver<bool>,
) {
    let mut splitter = Messages::new(rules.layout);
    let mut buffer = vec![0; READ_BYTES];
    let mut permit = None;
    loop {
        while !(intake.has_room() && may_hold(splitter.held(), &rules.large, &mut permit) || *ending.borrow()) {
            tokio::time::sleep(PAUSE).await;
        }
        let ends = *ending.borrow();
        let patience = if ends { LAST_READ } else { rules.idle };
        let read = tokio::select! {
            read = stream.read(&mut buffer) => read,
            () = tokio::time::sleep(patience) => {
                if !ends {
                    intake.lost("idle_connection", 1);
                }
                break;
            }
            _ = ending.wait_for(|ending| *ending), if !ends => continue,
        };
        let Ok(length @ 1..) = read else { break };
        if !splitter.add(&buffer[..length], &*intake) {
            break;
        }
    }
    splitter.end(&*intake);
}

/// Whether a connection that holds so much may hold more.
fn may_hold(held: usize, large: &Arc<Semaphore>, permit: &mut Option<OwnedSemaphorePermit>) -> bool {
    if held <= SMALL_BYTES {
        *permit = None;
    } else if permit.is_none() {
        *permit = large.clone().try_acquire_owned().ok();
        return permit.is_some();
    }
    true
}

/// Finds the messages of a stream, as its protocol has them.
enum Messages {
    Lines(Splitter),
    Syslog(Framing),
    Gelf(gelf::stream::Framing),
}

impl Messages {
    fn new(layout: Layout) -> Self {
        match layout {
            Layout::Lines => Self::Lines(Splitter::new(false)),
            Layout::LinesOrFrames => Self::Lines(Splitter::new(true)),
            Layout::Syslog => Self::Syslog(Framing::default()),
            Layout::Gelf => Self::Gelf(gelf::stream::Framing::default()),
        }
    }

    /// Bytes of a message that can be larger than [`SMALL_BYTES`].
    fn held(&self) -> usize {
        match self {
            Self::Lines(_) | Self::Syslog(_) => 0,
            Self::Gelf(framing) => framing.held(),
        }
    }

    /// Takes the next bytes; false when the connection makes no sense any more.
    fn add(&mut self, bytes: &[u8], intake: &dyn Intake) -> bool {
        match self {
            Self::Lines(splitter) => splitter.add(bytes, intake),
            Self::Syslog(framing) => {
                let taken = framing.add(bytes, |found| take(found, intake));
                if taken.is_err() {
                    intake.lost("length_invalid", 1);
                }
                taken.is_ok()
            }
            Self::Gelf(framing) => {
                framing.add(bytes, |found| take(found, intake));
                true
            }
        }
    }

    /// The connection has ended.
    fn end(&mut self, intake: &dyn Intake) {
        match self {
            Self::Lines(splitter) => splitter.end(intake),
            Self::Syslog(framing) if framing.is_cut() => intake.lost(Fault::Cut.as_str(), 1),
            Self::Gelf(framing) if framing.is_cut() => intake.lost(Fault::Cut.as_str(), 1),
            Self::Syslog(_) | Self::Gelf(_) => {}
        }
    }
}

fn take(found: FramedMessage<'_>, intake: &dyn Intake) {
    match found {
        FramedMessage::Message(message) => intake.take(message),
        FramedMessage::TooLong => intake.lost(Fault::TooLong.as_str(), 1),
    }
}

/// How the bytes of a stream are messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Not known yet: the first four bytes decide.
    Unknown,
    Lines,
    Frames,
}

/// Finds the messages of a stream.
struct Splitter {
    form: Form,
    /// The beginning of a message whose end has not arrived.
    rest: Vec<u8>,
    /// Within a line that is too long.
    skips: bool,
}

impl Splitter {
    fn new(may_frame: bool) -> Self {
        Self { form: if may_frame { Form::Unknown } else { Form::Lines }, rest: Vec::new(), skips: false }
    }

    /// Takes the next bytes; false when the connection makes no sense any more.
    fn add(&mut self, bytes: &[u8], intake: &dyn Intake) -> bool {
        if self.form == Form::Unknown {
            self.rest.extend_from_slice(bytes);
            self.form = match self.rest.as_slice() {
                [_, _, 0, 0, ..] => Form::Frames,
                [_, _, _, _, ..] => Form::Lines,
                _ => return true,
            };
            let bytes = std::mem::take(&mut self.rest);
            return self.add(&bytes, intake);
        }
        match self.form {
            Form::Frames => self.frames(bytes, intake),
            Form::Lines | Form::Unknown => {
                self.lines(bytes, intake);
                true
            }
        }
    }

    fn lines(&mut self, mut bytes: &[u8], intake: &dyn Intake) {
        if self.skips {
            let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return };
            (self.skips, bytes) = (false, &bytes[end + 1..]);
        }
        if let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') {
            let (whole, after) = bytes.split_at(end + 1);
            if self.rest.is_empty() {
                intake.take(whole);
            } else {
                self.rest.extend_from_slice(whole);
                intake.take(&self.rest);
                self.rest.clear();
            }
            bytes = after;
        }
        if self.rest.len() + bytes.len() > LINE_BYTES_MAX {
            intake.lost(Fault::TooLong.as_str(), 1);
            self.rest.clear();
            self.skips = true;
        } else {
            self.rest.extend_from_slice(bytes);
        }
    }

    fn frames(&mut self, bytes: &[u8], intake: &dyn Intake) -> bool {
        self.rest.extend_from_slice(bytes);
        let mut from = 0;
        while let Some((length, behind)) = self.rest[from..].split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            if length > FRAME_BYTES_MAX {
                intake.lost(Fault::TooLong.as_str(), 1);
                self.rest.clear();
                return false;
            }
            let Some(message) = behind.get(..length) else { break };
            intake.take(message);
            from += 4 + length;
        }
        self.rest.drain(..from);
        true
    }

    /// The connection has ended.
    fn end(&mut self, intake: &dyn Intake) {
        if !self.rest.is_empty() {
            intake.lost(Fault::Cut.as_str(), 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use ogive_door::outbox::Outbox;

    /// Keeps what it is given.
    #[derive(Default)]
    struct RecordingIntake {
        taken: Mutex<Vec<u8>>,
        lost: Mutex<Vec<&'static str>>,
    }

    impl Intake for RecordingIntake {
        fn take(&self, message: &[u8]) {
            let mut taken = self.taken.lock().unwrap();
            taken.extend_from_slice(message);
            if !message.ends_with(b"\n") {
                taken.push(b'\n');
            }
        }
        fn lost(&self, reason: &'static str, _: u64) {
            self.lost.lock().unwrap().push(reason);
        }
        fn has_room(&self) -> bool {
            true
        }
        fn hand_on(&self, _: &Outbox, _: bool) {}
    }

    /// What comes of a stream that arrives in pieces of `size`.
    fn split(stream: &[u8], size: usize, may_frame: bool) -> (String, Vec<&'static str>) {
        let (kept, mut splitter) = (RecordingIntake::default(), Splitter::new(may_frame));
        let _ = stream.chunks(size).all(|piece| splitter.add(piece, &kept));
        splitter.end(&kept);
        (String::from_utf8(kept.taken.into_inner().unwrap()).unwrap(), kept.lost.into_inner().unwrap())
    }

    #[test]
    fn lines_are_whole_wherever_segments_end() {
        for size in 1..20 {
            for may_frame in [false, true] {
                let (taken, lost) = split(b"a:1|c\nbc:2|c\r\n\nd:3|c\nrest", size, may_frame);
                assert_eq!((taken.as_str(), lost), ("a:1|c\nbc:2|c\r\n\nd:3|c\n", vec!["line_cut"]), "{size}");
            }
        }
        assert_eq!(split(b"a", 1, true), (String::new(), vec!["line_cut"]));
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_once() {
        for size in [100, 7_000, 100_000] {
            let long = format!("a:1|c\n{}\nb:2|c\n", "x".repeat(5 * LINE_BYTES_MAX));
            let (taken, lost) = split(long.as_bytes(), size, false);
            if size < LINE_BYTES_MAX {
                assert_eq!((taken.as_str(), lost), ("a:1|c\nb:2|c\n", vec!["line_too_long"]), "{size}");
            } else {
                // Whole in one piece: the decoder refuses it.
                assert_eq!((taken.len(), lost), (long.len(), vec![]), "{size}");
            }
        }
    }

    #[test]
    fn frames_are_distinguished_from_lines() {
        let frame = |message: &str| [&(message.len() as u32).to_le_bytes()[..], message.as_bytes()].concat();
        let stream = [frame("a:1|c\nb:2|c"), frame(""), frame("c:3|c\n")].concat();
        for size in 1..stream.len() {
            let (taken, lost) = split(&stream, size, true);
            assert_eq!((taken.replace("\n\n", "\n").as_str(), lost), ("a:1|c\nb:2|c\nc:3|c\n", vec![]), "{size}");
        }
        let (_, lost) = split(&stream[..stream.len() - 1], 5, true);
        assert_eq!(lost, ["line_cut"]);
        let lie = [frame("a:1|c"), u32::MAX.to_le_bytes().to_vec(), b"b:2|c".to_vec()].concat();
        assert_eq!(split(&lie, 7, true), ("a:1|c\n".into(), vec!["line_too_long"]));
    }
}
