//! What travels: samples of declared series under a source's sequence number.
//!
//! A batch arrives from outside, so each series and each value is either good or carries why it is not: a bad
//! one is rejected with its reason and its neighbours are taken.

use crate::{Error, Reason, Sample, SeriesDef, SeriesId, Tenant};

/// The sender: a random 128-bit number (a UUID) that a sender keeps for as long as it counts its batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u128);

/// What makes two batches of a tenant the same one: sent again, it is not taken again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BatchId {
    /// The sender.
    pub source: SourceId,
    /// Rises by one from batch to batch of a source.
    pub sequence: u64,
}

/// Series and samples under one [`BatchId`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The sender.
    pub source: SourceId,
    /// Rises by one from batch to batch of a source.
    pub sequence: u64,
    /// Whose series these are.
    pub tenant: Tenant,
    /// The series that the batch declares.
    pub series: Vec<Result<SeriesDef, Error>>,
    /// Series that the receiver knows already; samples number them after `series`.
    pub known: Vec<SeriesId>,
    /// The samples, in the sender's order; verdicts name them by index.
    pub samples: Vec<Result<Sample, Reason>>,
}

impl Batch {
    /// Its identity among the batches of its tenant.
    #[must_use]
    pub fn id(&self) -> BatchId {
        BatchId { source: self.source, sequence: self.sequence }
    }

    /// Gives it another identity.
    pub fn set_id(&mut self, id: BatchId) {
        BatchId { source: self.source, sequence: self.sequence } = id;
    }

    /// The reasons of samples that no message of the batch contains: the sample or its series breaks a rule, or it has
    /// no series.
    pub fn left_out(&self) -> impl Iterator<Item = Reason> + '_ {
        self.samples.iter().filter_map(|sample| match sample {
            Err(reason) => Some(*reason),
            Ok(sample) => match self.series.get(sample.series as usize) {
                Some(series) => series.is_err().then_some(Reason::LabelsInvalid),
                None => {
                    (sample.series as usize - self.series.len() >= self.known.len()).then_some(Reason::SeriesUnknown)
                }
            },
        })
    }
}
