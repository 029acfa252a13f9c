//! A sample that came behind what a forward has read of its second.

use ogive_model::{Sample, SeriesDef, SeriesId, WallMs};

/// Which series a sample is of.
#[derive(Clone, Debug, PartialEq)]
pub enum Key {
    /// Its batch has its labels.
    Declared(SeriesDef),
    /// Its labels are in the store.
    Known(SeriesId),
}

/// A sample that arrived too late for what was read; its index into a batch's series is meaningless.
#[derive(Clone, Debug, PartialEq)]
pub struct LateSample {
    /// Its series.
    pub key: Key,
    /// As received.
    pub sample: Sample,
}

impl LateSample {
    /// Its stored time.
    pub(crate) fn time(&self) -> WallMs {
        WallMs(self.sample.time_ms())
    }
}
