//! What travels: samples of declared series under a source's sequence number.
//!
//! A batch arrives from outside, so each series and each value is either good or carries why it is not: a bad
//! one is rejected with its reason and its neighbours are taken.

use crate::{Error, Reason, Sample, SeriesDef, SeriesId, Tenant};

/// Who sends: a random 128-bit number (a UUID) that a sender keeps for as long as it counts its batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u128);

/// Series and samples under one `(source, sequence)`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Who sends.
    pub source: SourceId,
    /// Rises by one from batch to batch of a source.
    pub sequence: u64,
    /// Whose series these are.
    pub tenant: Tenant,
    /// The series that the batch declares.
    pub series: Vec<Result<SeriesDef, Error>>,
    /// Series that the receiver knows already; samples count them on behind `series`.
    pub known: Vec<SeriesId>,
    /// The samples, in the sender's order; verdicts name them by index.
    pub samples: Vec<Result<Sample, Reason>>,
}
