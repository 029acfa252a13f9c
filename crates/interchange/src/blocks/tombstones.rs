//! Tombstones of a block: times of series that were deleted.
//!
//! Format: `0130BA30`, version 1 (u8), entries of a series' reference (varint), first and last time (signed varints,
//! milliseconds), and CRC32C of the entries (big-endian).

use std::collections::HashMap;

use super::reader::{Reader, Truncated};
use crate::Error;

const MAGIC: u32 = 0x0130_BA30;
const HEADER_BYTES: usize = 5;

/// Deleted ranges, by the series' reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tombstones(HashMap<u64, Vec<(i64, i64)>>);

impl Tombstones {
    /// Reads the file.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub fn read(file: &[u8]) -> Result<Self, Error> {
        let wrong = |what: &str| Error::Unreadable(format!("tombstones: {what}"));
        if file.len() < HEADER_BYTES + 4 || Reader(file).u32() != Ok(MAGIC) || file[4] != 1 {
            return Err(wrong("it does not begin as one of Prometheus' does"));
        }
        let (entries, checksum) = file[HEADER_BYTES..].split_at(file.len() - HEADER_BYTES - 4);
        if Reader(checksum).u32() != Ok(crc32c::crc32c(entries)) {
            return Err(wrong("its checksum is wrong"));
        }
        let mut reader = Reader(entries);
        let mut out: HashMap<u64, Vec<(i64, i64)>> = HashMap::new();
        while !reader.0.is_empty() {
            let mut entry = || -> Result<_, Truncated> { Ok((reader.varint()?, (reader.signed()?, reader.signed()?))) };
            let (reference, range) = entry().map_err(|_| wrong("an entry is cut"))?;
            out.entry(reference).or_default().push(range);
        }
        Ok(Self(out))
    }

    /// Whether the sample of a series at that time was deleted.
    #[must_use]
    pub fn covers(&self, reference: u64, time_ms: i64) -> bool {
        let ranges = self.0.get(&reference);
        ranges.is_some_and(|ranges| ranges.iter().any(|(first, last)| (*first..=*last).contains(&time_ms)))
    }
}
