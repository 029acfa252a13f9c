//! Counters of a node, for each of its clusters.

use ogive_door::counter::Counter;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Rows that a majority has.
    pub(crate) rows: Counter,
    /// Bytes of them.
    pub(crate) row_bytes: Counter,
    /// Pieces in them.
    pub(crate) pieces: Counter,
    /// Writes that found no majority, and were tried again.
    pub(crate) retried: Counter,
    /// Of those the ones that one copy took meanwhile.
    pub(crate) visible: Counter,
    /// Segments of the label index that a majority has.
    pub(crate) segments: Counter,
    /// Rows and segments that were read and are not what was written.
    pub(crate) corrupt: Counter,
    /// Pieces that were read twice, of one identity, with different samples.
    pub(crate) conflicts: Counter,
    /// Reads that no majority answered.
    pub(crate) unions: Counter,
    /// Samples that were acknowledged and break a rule that only their series shows.
    pub(crate) dropped: Counter,
    /// Pieces that had had their time before they were written.
    pub(crate) expired: Counter,
    /// Records of the spool that its disk has lost.
    pub(crate) lost: Counter,
}
