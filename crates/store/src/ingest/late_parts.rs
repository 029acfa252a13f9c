//! Which sealed parts of a shard's head are rows for a late sample, so that they are packed again in their turn.
//!
//! Invariants: the parts are packed in the order in which they became rows, except that the newest of a series waits: a
//! sender that goes through old times works on one part of each series, however many series there are, and packs it
//! once. A part is packed at most once for each time that it became rows.
//! Limits: the bytes that [`BYTES_MAX`] allows a shard, and beside them one part of each series and a third as many. A
//! part is counted as it was when it became rows, and may be twice as large; each takes 32 bytes here.

use std::collections::VecDeque;

use crate::ingest::column::LateRows;

/// 4 MiB a shard: 64 parts of histograms, 1,000 of floats. A sender that alternates between so many old times packs
/// none.
const BYTES_MAX: u64 = 4 << 20;
/// Four parts are looked at for each that becomes rows or is sealed: of those that wait for nothing, a third as many as
/// of the others are left at most, and a sample never waits for the packing of many.
pub(crate) const LOOKS_MAX: usize = 4;

/// A part that is rows, or the two that it was divided into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LatePart {
    /// The slot of its series.
    pub(crate) index: u32,
    /// Its number, from 1 on.
    pub(crate) number: u32,
    pub(crate) rows: LateRows,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct LateParts {
    /// The oldest first, but for those that had to wait.
    queue: VecDeque<LatePart>,
    bytes: u64,
    bytes_max: u64,
    /// Of the newest part.
    number: u32,
}

impl Default for LateParts {
    fn default() -> Self {
        Self::new(BYTES_MAX)
    }
}

impl LateParts {
    pub(crate) const fn new(bytes_max: u64) -> Self {
        Self { queue: VecDeque::new(), bytes: 0, bytes_max, number: 0 }
    }

    /// Takes a part that became rows. Gives its number.
    pub(crate) fn add(&mut self, index: u32, rows: LateRows) -> u32 {
        // After four thousand million parts, one may wait for another's sake.
        self.number = self.number.wrapping_add(1).max(1);
        self.put(LatePart { index, number: self.number, rows });
        self.number
    }

    /// Puts a part behind the others.
    pub(crate) fn put(&mut self, part: LatePart) {
        self.bytes += part.rows.bytes;
        self.queue.push_back(part);
    }

    /// Takes the part out whose turn it is, if there are more bytes than may be.
    pub(crate) fn pop(&mut self) -> Option<LatePart> {
        if self.bytes <= self.bytes_max {
            return None;
        }
        let part = self.queue.pop_front();
        self.bytes -= part.map_or(0, |part| part.rows.bytes);
        debug_assert!(!self.queue.is_empty() || self.bytes == 0, "no part takes {} bytes", self.bytes);
        part
    }

    /// There are no parts any more.
    pub(crate) fn clear(&mut self) {
        self.queue = VecDeque::new();
        self.bytes = 0;
    }

    /// How many parts became rows since the start.
    #[cfg(test)]
    pub(crate) const fn count(&self) -> u32 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_their_turn_above_the_limit_and_not_at_it() {
        let mut parts = LateParts::new(100);
        let rows = |bytes| LateRows { times: [0; 2], bytes };
        assert_eq!((parts.add(7, rows(60)), parts.add(8, rows(40))), (1, 2));
        assert!(parts.pop().is_none(), "as many bytes as may be");
        assert_eq!(parts.add(7, rows(1)), 3);
        let oldest = parts.pop().unwrap();
        assert_eq!((oldest.index, oldest.number), (7, 1));
        assert!(parts.pop().is_none());
        parts.put(oldest);
        assert_eq!(parts.pop().map(|part| part.number), Some(2), "one that was put back waits for the others");
        parts.clear();
        assert_eq!((parts.bytes, parts.add(1, rows(200)), parts.pop().is_some()), (0, 4, true));
        assert!(parts.pop().is_none());
    }
}
