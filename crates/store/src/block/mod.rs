//! Block: one immutable file with the samples of a time range and an index to find them.
//!
//! Invariants: a file with a block's name is complete (it is written under another name, fsynced, then renamed); its
//! series ascend by labels, then kind; its bytes never change.
//! Format: docs/formats/block.md. Every part that is read separately has a CRC32C that is verified at each read.
//! Failure: bytes that fail their checksum are [`crate::Error::Corrupt`] with path and offset; the rest of the block
//! can still be read.

mod ahead;
mod budget;
mod cache;
#[cfg(test)]
mod cache_tests;
mod format;
mod identities;
mod index;
mod piece;
mod postings;
mod reader;
pub(crate) mod scrub;
mod sealed;
mod series;
mod series_reader;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod text_tests;
mod writer;

pub use crate::codec::dictionary::Effort;
pub(crate) use ahead::Ahead;
pub use budget::Budget;
pub(crate) use cache::{BlockCache, CacheFigures, Lookup};
pub use piece::{Piece, WholeChunk};
#[cfg(test)]
pub(crate) use postings::LIST_MAX as POSTINGS_LIST_MAX;
pub use reader::Block;
#[doc(hidden)]
pub use sealed::sealed;
pub(crate) use series::{ChunkEntry, Entry};
pub(crate) use series_reader::Walk;
pub use writer::{write, write_as};

use ogive_model::{Ms, Tenant, TimeRange, WallMs};

use crate::class::Classes;
use crate::window::Window;

/// Identity of a block in its store. Ids rise in the order of writing and are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u64);

/// What the manifest knows of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockMeta {
    /// Identity.
    pub id: BlockId,
    /// Whose samples these are.
    pub tenant: Tenant,
    /// Width of the cells of a rollup, milliseconds; 0 for samples as they came.
    pub resolution_ms: u32,
    /// All samples are inside.
    pub window: Window,
    /// Time of its first sample, milliseconds.
    pub time_min: WallMs,
    /// Time of its last sample, milliseconds.
    pub time_max: WallMs,
    /// Number of series.
    pub series: u64,
    /// Number of samples.
    pub samples: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Generation of the manifest that brought the newest of what is in it.
    pub arrived: u64,
    /// Deletions up to this generation are carried out in it, or are not meant for it.
    pub cleaned: u64,
    /// Of a rollup: it holds everything finer of its window that arrived up to this generation. Of raw samples: the
    /// classes that retention has dropped from it.
    pub rolled: u64,
}

impl BlockMeta {
    /// About how many of its samples are inside `window`, as if they were spread evenly over its own.
    pub(crate) fn samples_inside(&self, window: Window) -> u64 {
        let (own, other) = (self.window.range(), window.range());
        let common = own.end.min(other.end).since(own.start.max(other.start)).max(Ms::ZERO);
        let length = own.length().max(Ms(1));
        debug_assert!(common <= length, "{common} of a window of {length}");
        u64::try_from(u128::from(self.samples) * common.0 as u128 / length.0 as u128).unwrap_or(u64::MAX)
    }

    /// The times of its samples.
    pub(crate) fn times(&self) -> TimeRange {
        TimeRange { start: self.time_min.saturating_sub(Ms(1)), end: self.time_max }
    }

    /// What retention has dropped from it.
    pub(crate) const fn dropped(&self) -> Classes {
        Classes::from_stored(if self.resolution_ms == 0 { self.rolled } else { 0 })
    }
}

/// How the names of block files end.
pub const BLOCK_SUFFIX: &str = ".block";

/// Name of the file of block `id`: 16 hexadecimal digits, so that names sort as ids do.
#[must_use]
pub fn file_name(id: BlockId) -> String {
    format!("{:016x}{BLOCK_SUFFIX}", id.0)
}

/// The id in a block file's name.
#[must_use]
pub fn parse_file_name(name: &str) -> Option<BlockId> {
    let digits = name.strip_suffix(BLOCK_SUFFIX).filter(|digits| digits.len() == 16)?;
    let id = BlockId(u64::from_str_radix(digits, 16).ok()?);
    (file_name(id) == name).then_some(id)
}

/// The key of a label in the fst: UTF-8 has no byte 0xFF, so name and value come apart again, and all values of
/// a name lie together in their order.
fn label_key(name: &str, value: &str) -> Vec<u8> {
    [name.as_bytes(), &[0xff], value.as_bytes()].concat()
}
