//! Messages from a role to its writer and back, one packet of a SOCK_SEQPACKET socket each.
//!
//! *Format*, little endian: kind u8, thread u32, then by kind: `S`, `P` JSON; `L` text; `R` signal i32, code i32, address u64,
//! instruction, stack, frame and link pointers u64, the name of the thread in 16 bytes, then the activity as text; `M` a part of /proc/self/maps; `K` an address u64 and
//! the memory there; `E` nothing. The answer to `E` is `A` with the number of the report as u64, 0 when it was not written.

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
