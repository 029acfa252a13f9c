//! The bits of Prometheus's chunks, read most significant first.
//!
//! Format: `tsdb/docs/format/chunks.md` of github.com/prometheus/prometheus. `remote_read/bits.rs` writes them.

use crate::Error;

/// Bits of a number by how many ones stand in front of it.
const SIZES: [u32; 9] = [0, 3, 6, 9, 12, 18, 25, 56, 64];

/// What is left of a chunk.
#[derive(Clone, Debug)]
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    /// Bits that were read.
    at: usize,
}

impl<'a> BitReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next `count` bits, at most 64.
    pub(crate) fn take(&mut self, count: u32) -> Result<u64, Error> {
        assert!(count <= 64, "{count} bits of a number of 64");
        if self.bytes.len() * 8 - self.at < count as usize {
            return Err(Error::Truncated { what: "a chunk" });
        }
        let (mut value, mut left) = (0, count);
        while left > 0 {
            let free = 8 - (self.at % 8) as u32;
            let taken = left.min(free);
            let piece = u64::from(self.bytes[self.at / 8]) >> (free - taken) & ((1 << taken) - 1);
            value = value << taken | piece;
            self.at += taken as usize;
            left -= taken;
        }
        Ok(value)
    }

    /// A number in seven bits a byte, the lowest first.
    pub(crate) fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(8)?;
            value |= (byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::Malformed { what: "a number of a chunk is longer than ten bytes" })
    }

    /// The same of either sign.
    pub(crate) fn zigzag(&mut self) -> Result<i64, Error> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn ones(&mut self, most: u32) -> Result<u32, Error> {
        for count in 0..most {
            if self.take(1)? == 0 {
                return Ok(count);
            }
        }
        Ok(most)
    }

    /// A number that is mostly small.
    pub(crate) fn unsigned(&mut self) -> Result<u64, Error> {
        let size = SIZES[self.ones(8)? as usize];
        self.take(size)
    }

    /// A number that is mostly small and of either sign.
    pub(crate) fn signed(&mut self) -> Result<i64, Error> {
        let size = SIZES[self.ones(8)? as usize];
        Ok(widened(self.take(size)?, size))
    }

    /// By how much a step of time is longer than the one before.
    pub(crate) fn more_time(&mut self) -> Result<i64, Error> {
        let size = [0, 14, 17, 20, 64][self.ones(4)? as usize];
        Ok(widened(self.take(size)?, size))
    }
}

/// A number of `size` bits whose range goes from -(2^(size-1) - 1) to 2^(size-1).
fn widened(value: u64, size: u32) -> i64 {
    if (1..64).contains(&size) && value > 1 << (size - 1) { value as i64 - (1 << size) } else { value as i64 }
}

/// A double among others, of which those that follow share most bits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct XorReader {
    bits: u64,
    front: u32,
    behind: u32,
}

impl XorReader {
    /// The first one, which stands whole.
    pub(crate) fn new(bits: &mut BitReader<'_>) -> Result<Self, Error> {
        Ok(Self { bits: bits.take(64)?, front: 0, behind: 0 })
    }

    pub(crate) fn value(self) -> f64 {
        f64::from_bits(self.bits)
    }

    /// Passes on to the next one.
    pub(crate) fn pass(&mut self, bits: &mut BitReader<'_>) -> Result<(), Error> {
        if bits.take(1)? == 1 {
            if bits.take(1)? == 1 {
                let (front, count) = (bits.take(5)? as u32, bits.take(6)? as u32);
                let count = if count == 0 { 64 } else { count };
                self.behind = 64_u32
                    .checked_sub(front + count)
                    .ok_or(Error::Malformed { what: "a double of a chunk has more than 64 bits" })?;
                self.front = front;
            }
            self.bits ^= bits.take(64 - self.front - self.behind)? << self.behind;
        }
        Ok(())
    }
}
