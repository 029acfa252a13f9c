//! The files of a block: read at places, and numbers from bytes in memory.

use std::io;

/// A file that is read at given offsets.
pub trait ReadAt {
    /// Its length.
    fn bytes(&self) -> u64;
    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// The file's, and `UnexpectedEof` when it ends before.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for Vec<u8> {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).ok().and_then(|from| self.get(from..)?.get(..buffer.len()));
        buffer.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// The rest of some bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'b>(pub(super) &'b [u8]);

/// The bytes end too early, or a number is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Truncated;

impl<'b> Reader<'b> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'b [u8], Truncated> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Truncated> {
        Ok(u32::from_be_bytes(self.take(4)?.try_into().expect("four bytes")))
    }

    pub(super) fn u64(&mut self) -> Result<u64, Truncated> {
        Ok(u64::from_be_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    pub(super) fn varint(&mut self) -> Result<u64, Truncated> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Truncated)
    }

    pub(super) fn signed(&mut self) -> Result<i64, Truncated> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }
}
