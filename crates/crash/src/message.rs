//! Messages from a role to its writer and back, one packet of a SOCK_SEQPACKET socket each.
//!
//! *Format*, little endian: kind u8, thread u32, then by kind: `S`, `P` JSON; `L` text; `R` signal i32, code i32,
//! address u64, instruction, stack, frame and link pointers u64, the name of the thread in 16 bytes, then the activity
//! as text; `M` a part of /proc/self/maps; `K` an address u64 and the memory there; `T` a message that is in flight
//! (see [`Trace`]); `E` nothing. The answer to `E` is `A` with the number of the report as u64, 0 when it was not
//! written.

use ogive_probe::POINTS_MAX;

use crate::report::{TraceInFlight, TracePoint};

/// Bytes before what a kind holds.
pub(crate) const HEAD_BYTES: usize = 5;
/// 64 KiB: above a chunk of memory (4 KiB and 13 bytes), a log record (some 16 KiB) and a configuration.
pub(crate) const PACKET_BYTES_MAX: usize = 64 << 10;
/// Fixed bytes of `R` behind the head.
pub(crate) const REGISTERS_BYTES: usize = 48;

/// Bytes of a thread's name behind the registers, zeros at its end.
pub(crate) const NAME_BYTES: usize = 16;

pub(crate) const START: u8 = b'S';
pub(crate) const LOG: u8 = b'L';
pub(crate) const PANIC: u8 = b'P';
pub(crate) const REGISTERS: u8 = b'R';
pub(crate) const MAPS: u8 = b'M';
pub(crate) const MEMORY: u8 = b'K';
pub(crate) const TRACE: u8 = b'T';
pub(crate) const END: u8 = b'E';
pub(crate) const STORED: u8 = b'A';

/// Registers at a crash, and what the signal says of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Registers {
    /// 0: a panic.
    pub(crate) signal: i32,
    pub(crate) code: i32,
    pub(crate) address: u64,
    pub(crate) instruction: u64,
    pub(crate) stack: u64,
    pub(crate) frame: u64,
    /// The return address, on machines that have it in a register; else 0.
    pub(crate) link: u64,
}

impl Registers {
    pub(crate) fn to_bytes(self) -> [u8; REGISTERS_BYTES] {
        let mut out = [0; REGISTERS_BYTES];
        out[0..4].copy_from_slice(&self.signal.to_le_bytes());
        out[4..8].copy_from_slice(&self.code.to_le_bytes());
        let words = [self.address, self.instruction, self.stack, self.frame, self.link];
        for (at, word) in words.into_iter().enumerate() {
            out[8 + 8 * at..16 + 8 * at].copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let half = |at: usize| Some(i32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        Some(Self {
            signal: half(0)?,
            code: half(4)?,
            address: word(8)?,
            instruction: word(16)?,
            stack: word(24)?,
            frame: word(32)?,
            link: word(40)?,
        })
    }
}

/// Bytes of a trace: its head, and 12 points whose names are cut at [`TRACE_NAME_BYTES`].
pub(crate) const TRACE_BYTES_MAX: usize = 9 + (1 + TRACE_NAME_BYTES) + POINTS_MAX * (9 + TRACE_NAME_BYTES);
/// 64 bytes: as long as a name of a path or point may be.
const TRACE_NAME_BYTES: usize = 64;

/// A message of a measured path that is in flight: whether the thread of the crash stamped it u8, its age in
/// nanoseconds u64, the length of the path's name u8 and the name, then for each point nanoseconds since the first u64,
/// the length of its name u8 and it.
pub(crate) struct Trace {
    bytes: [u8; TRACE_BYTES_MAX],
    length: usize,
}

impl Trace {
    /// In a signal handler: without the heap.
    pub(crate) fn new(is_of_thread: bool, age_ns: u64, path: &str) -> Self {
        let mut trace = Self { bytes: [0; TRACE_BYTES_MAX], length: 0 };
        trace.put(&[u8::from(is_of_thread)]);
        trace.put(&age_ns.to_le_bytes());
        trace.name(path);
        trace
    }

    /// One more point; one that there is no room for is left out.
    pub(crate) fn point(&mut self, ns: u64, name: &str) {
        if self.length + 9 + TRACE_NAME_BYTES <= self.bytes.len() {
            self.put(&ns.to_le_bytes());
            self.name(name);
        }
    }

    /// What the packet holds.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn name(&mut self, name: &str) {
        let name = &name.as_bytes()[..name.len().min(TRACE_NAME_BYTES)];
        self.put(&[name.len() as u8]);
        self.put(name);
    }
}

/// What [`Trace`] made.
pub(crate) fn parse_trace(body: &[u8]) -> Option<TraceInFlight> {
    fn number(rest: &mut &[u8]) -> Option<u64> {
        let (head, behind) = rest.split_first_chunk::<8>()?;
        *rest = behind;
        Some(u64::from_le_bytes(*head))
    }
    fn name(rest: &mut &[u8]) -> Option<String> {
        let (length, behind) = rest.split_first()?;
        let (name, behind) = behind.split_at_checked(usize::from(*length))?;
        *rest = behind;
        Some(String::from_utf8_lossy(name).into_owned())
    }
    let (is_of_thread, mut rest) = body.split_first()?;
    let age_seconds = number(&mut rest)? as f64 / 1e9;
    let mut trace =
        TraceInFlight { path: name(&mut rest)?, is_of_thread: *is_of_thread != 0, age_seconds, points: Vec::new() };
    while !rest.is_empty() && trace.points.len() < POINTS_MAX {
        let seconds = number(&mut rest)? as f64 / 1e9;
        trace.points.push(TracePoint { name: name(&mut rest)?, seconds });
    }
    Some(trace)
}

/// The head of a message.
pub(crate) fn head(kind: u8, thread: u32) -> [u8; HEAD_BYTES] {
    let [a, b, c, d] = thread.to_le_bytes();
    [kind, a, b, c, d]
}

/// Kind, thread and what the kind holds.
pub(crate) fn parse(packet: &[u8]) -> Option<(u8, u32, &[u8])> {
    let (head, rest) = packet.split_at_checked(HEAD_BYTES)?;
    Some((head[0], u32::from_le_bytes(head[1..].try_into().ok()?), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_comes_back_and_a_cut_is_no_panic() {
        let mut trace = Trace::new(true, 3_000_000_000, "Path");
        (0..POINTS_MAX as u64 + 3).for_each(|at| trace.point(at * 1_000_000_000, &"n".repeat(100)));
        let read = parse_trace(trace.bytes()).unwrap();
        assert_eq!((read.path.as_str(), read.is_of_thread, read.age_seconds), ("Path", true, 3.0));
        assert_eq!(read.points.len(), POINTS_MAX);
        assert_eq!(read.points[2], TracePoint { name: "n".repeat(TRACE_NAME_BYTES), seconds: 2.0 });
        for end in 0..trace.bytes().len() {
            let _ = parse_trace(&trace.bytes()[..end]);
        }
        assert_eq!(parse_trace(&[]), None);
    }

    #[test]
    fn registers_come_back_and_a_cut_is_none() {
        let one = Registers { signal: 11, code: -6, address: 1, instruction: 2, stack: 3, frame: 4, link: u64::MAX };
        let bytes = one.to_bytes();
        assert_eq!(Registers::from_bytes(&bytes), Some(one));
        for end in 0..bytes.len() {
            assert_eq!(Registers::from_bytes(&bytes[..end]), None, "{end}");
        }
        assert_eq!(parse(&head(END, 7)), Some((END, 7, &[][..])));
        assert_eq!(parse(&head(END, 7)[..4]), None);
    }
}
