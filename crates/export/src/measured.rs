//! What was measured, and the batches that carry it.
//!
//! *Invariants*: a batch has its samples in the order of the values, and reads back as them.

use std::hash::{BuildHasher, Hasher, RandomState};

use ogive_hist::Histogram;
use ogive_model::{Batch, Sample, SeriesDef, SourceId, Tenant, Value, WallNs};

/// One value that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Its series.
    pub series: SeriesDef,
    /// End of the interval that it covers.
    pub time: WallNs,
    /// The value.
    pub value: Value,
}

/// The end of a cell.
#[derive(Clone, Copy, Debug)]
pub struct CellEnd {
    /// The time at which it ends.
    pub time: WallNs,
    /// It is the last one.
    pub is_last: bool,
}

impl Measured {
    /// A batch of these values. Neighbours of one series share its declaration.
    #[must_use]
    pub fn batch(source: SourceId, sequence: u64, tenant: Tenant, values: Vec<Self>) -> Batch {
        let samples = Vec::with_capacity(values.len());
        let mut out = Batch { source, sequence, tenant, samples, ..Batch::default() };
        for Self { series, time, value } in values {
            if !matches!(out.series.last(), Some(Ok(last)) if *last == series) {
                out.series.push(Ok(series));
            }
            let series = out.series.len() as u32 - 1;
            out.samples.push(Ok(Sample { series, time_ns: time.0, start_ns: None, value }));
        }
        out
    }

    pub(crate) fn from_batch(batch: Batch) -> Vec<Self> {
        let Batch { series, samples, .. } = batch;
        let measured = |sample: Sample| {
            let series = series.get(sample.series as usize)?.as_ref().ok()?.clone();
            Some(Self { series, time: WallNs(sample.time_ns), value: sample.value })
        };
        samples.into_iter().flatten().filter_map(measured).collect()
    }
}

/// 128 random bits that identify this process, from the seeds that the standard library takes from the system.
#[must_use]
pub fn random_source() -> SourceId {
    let half = || u128::from(RandomState::new().build_hasher().finish());
    SourceId(half() << 64 | half())
}

/// Adds a cell if it is not empty.
pub(crate) fn push_cell(out: &mut Vec<Measured>, series: &SeriesDef, time: WallNs, cell: Histogram) {
    if cell.count > 0 {
        out.push(Measured { series: series.clone(), time, value: Value::Histogram(Box::new(cell)) });
    }
}
