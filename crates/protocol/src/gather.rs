//! Samples of lines, gathered into a batch: each series is declared once, found by the bytes that a sender names it with.
//!
//! Limits: [`LABEL_BYTES_MAX`] of declared labels, so that a few long tags before thousands of fields do not become
//! gigabytes; 100,000 series and 500,000 samples, as any batch.

use std::collections::HashMap;

use ogive_model::{Batch, Kind, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Tenant, Value};
use ogive_stream::Key;

use crate::Error;
use crate::lines::Fault;

/// 32 MiB: as many bytes as the largest batch has as a frame.
pub const LABEL_BYTES_MAX: usize = 32 << 20;

/// See the module.
#[derive(Debug, Default)]
pub struct Gather {
    series: Vec<SeriesDef>,
    samples: Vec<Sample>,
    index: HashMap<Key, u32>,
    label_bytes: usize,
}

impl Gather {
    /// Samples so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Series so far.
    #[must_use]
    pub fn series(&self) -> usize {
        self.series.len()
    }

    /// The number of the series called `key`.
    pub(crate) fn number(
        &mut self,
        key: Key,
        define: impl FnOnce() -> Result<SeriesDef, Fault>,
    ) -> Result<Result<u32, Fault>, Error> {
        if let Some(number) = self.index.get(&key) {
            return Ok(Ok(*number));
        }
        let series = match define() {
            Ok(series) => series,
            Err(fault) => return Ok(Err(fault)),
        };
        self.label_bytes += series.labels.memory_bytes();
        if self.label_bytes > LABEL_BYTES_MAX {
            let (found, limit) = (self.label_bytes as u64, LABEL_BYTES_MAX as u64);
            return Err(Error::TooLarge { what: "the size of the labels of all series", found, limit });
        }
        let number = self.series.len() as u32;
        self.series.push(series);
        self.index.insert(key, number);
        Ok(Ok(number))
    }

    pub(crate) fn push(&mut self, series: u32, time_ns: i64, value: Value) {
        self.samples.push(Sample { series, time_ns, start_ns: None, value });
    }

    /// What was gathered, as a batch; the next begins.
    #[must_use]
    pub fn take(&mut self, source: SourceId, sequence: u64, tenant: &Tenant) -> Batch {
        let Self { series, samples, .. } = std::mem::take(self);
        let series = series.into_iter().map(Ok).collect();
        let samples = samples.into_iter().map(Ok).collect();
        Batch { source, sequence, tenant: tenant.clone(), series, known: Vec::new(), samples }
    }
}

/// What is known of a series of numbers or texts whose protocol has no types: a name that ends in `_total` is of a counter, by
/// the convention of OpenMetrics, every other number a state.
pub(crate) fn untyped(kind: Kind, name: &str) -> SeriesMeta {
    let counts = kind == Kind::Float && name.ends_with("_total");
    let temporality = if counts { Temporality::Cumulative } else { Temporality::Gauge };
    SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 }
}
