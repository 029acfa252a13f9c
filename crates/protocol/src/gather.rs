//! Gathers samples of lines into a batch: each series is declared once, found by the bytes with which the sender names
//! it.
//!
//! Limits: those of the room passed in, so that a few long tags before thousands of fields do not become gigabytes.

use std::collections::HashMap;

use ogive_model::{Batch, Kind, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Tenant, Value};
use ogive_stream::Key;

use crate::Error;
use crate::lines::Fault;
use crate::room::{ENTRY_BYTES, Room, sample_bytes, series_bytes};

/// See the module.
#[derive(Debug, Default)]
pub struct Gather {
    series: Vec<SeriesDef>,
    samples: Vec<Sample>,
    index: HashMap<Key, u32>,
    room: Room,
}

impl Gather {
    /// For a body of `body` bytes.
    #[must_use]
    pub fn new(body: usize) -> Self {
        Self { room: Room::new(body), ..Self::default() }
    }

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

    /// The number of the series called `key`, and room for a sample without bins or text; `define` declares a new one.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when the body unfolds to more than it may; inside, what is wrong with the series.
    pub fn number(
        &mut self,
        key: Key,
        define: impl FnOnce() -> Result<SeriesDef, Fault>,
    ) -> Result<Result<u32, Fault>, Error> {
        // The sample that follows.
        self.room.take(sample_bytes(Ok(&Value::Float(0.0))))?;
        if let Some(number) = self.index.get(&key) {
            return Ok(Ok(*number));
        }
        let series = match define() {
            Ok(series) => series,
            Err(fault) => return Ok(Err(fault)),
        };
        self.room.take(series_bytes(Some(&series)) + ENTRY_BYTES)?;
        let number = self.series.len() as u32;
        self.series.push(series);
        self.index.insert(key, number);
        Ok(Ok(number))
    }

    pub(crate) fn push(&mut self, series: u32, time_ns: i64, value: Value) {
        self.samples.push(Sample { series, time_ns, start_ns: None, value });
    }

    /// Adds a sample, with room for all of it.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when the body unfolds to more than it may.
    pub fn push_sample(&mut self, sample: Sample) -> Result<(), Error> {
        self.room.take(sample_bytes(Ok(&sample.value)))?;
        self.samples.push(sample);
        Ok(())
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

/// What is known of a series of numbers or texts whose protocol has no types: a name that ends in `_total` is of a
/// counter, by the convention of OpenMetrics, every other number a state.
#[must_use]
pub fn untyped(kind: Kind, name: &str) -> SeriesMeta {
    let counts = kind == Kind::Float && name.ends_with("_total");
    let temporality = if counts { Temporality::Cumulative } else { Temporality::Gauge };
    SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 }
}
