//! Samples as batches of bounded size, numbered from 1.
//!
//! Invariants: where a batch ends follows from its samples alone.
//! Limits: [`SAMPLES_MAX`], [`BYTES_MAX`]; of the places of bad samples [`PLACES_MAX`] a reason.

use std::collections::{BTreeMap, HashMap};

use ogive_model::{Batch, Sample, SeriesDef, SourceId, Tenant, Value};

use crate::Error;

/// 20,000 samples in a batch: a request takes some tens of milliseconds, and an import that is interrupted repeats no
/// more than a few.
pub const SAMPLES_MAX: usize = 20_000;
/// 4 MiB of labels, texts and bins in a batch, estimated: an eighth of the limit of a request.
pub const BYTES_MAX: usize = 4 << 20;
/// 20 places for each reason: enough to look at.
pub const PLACES_MAX: usize = 20;

/// Memory of a sample in addition to its bins or text.
const SAMPLE_BYTES: usize = 24;

/// A batch, and the position in the file of each of its samples.
#[derive(Debug)]
pub struct Numbered {
    /// With its source and number.
    pub batch: Batch,
    /// Line (or row, or series) of each sample, from 1.
    pub places: Vec<u64>,
}

/// Input that was refused for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedInput {
    /// How often.
    pub count: u64,
    /// The first places, and what is wrong there.
    pub places: Vec<(u64, String)>,
}

/// Receives batches; returns false to stop.
pub type Take<'t> = dyn FnMut(Numbered) -> bool + 't;

/// Receives bad places: the place, the reason, what is wrong.
pub type Note<'t> = dyn FnMut(u64, &'static str, &str) + 't;

/// Gathers samples.
pub struct Batches<'t> {
    source: SourceId,
    tenant: Tenant,
    take: &'t mut Take<'t>,
    note: &'t mut Note<'t>,
    sequence: u64,
    open: Numbered,
    index: HashMap<u128, u32>,
    bytes: usize,
    samples: u64,
    bad: BTreeMap<&'static str, RefusedInput>,
}

impl<'t> Batches<'t> {
    /// Batches of a source, which are passed to `take`.
    pub fn new(source: SourceId, tenant: Tenant, take: &'t mut Take<'t>, note: &'t mut Note<'t>) -> Self {
        let open = Numbered { batch: Batch::default(), places: Vec::new() };
        let (index, bad) = (HashMap::new(), BTreeMap::new());
        Self { source, tenant, take, note, sequence: 0, open, index, bytes: 0, samples: 0, bad }
    }

    /// Adds a sample of the series with the key `key`, which `define` declares.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the receiver stopped.
    pub fn sample(
        &mut self,
        place: u64,
        key: u128,
        define: impl FnOnce() -> Result<SeriesDef, String>,
        start_ns: Option<i64>,
        time_ns: i64,
        value: Value,
    ) -> Result<(), Error> {
        let bytes = SAMPLE_BYTES + value_bytes(&value);
        if self.open.places.len() == SAMPLES_MAX || self.bytes + bytes > BYTES_MAX {
            self.flush()?;
        }
        let series = match self.index.get(&key) {
            Some(series) => *series,
            None => match define() {
                Ok(series) => self.declare(key, series),
                Err(what) => {
                    self.bad(place, "labels_invalid", &what);
                    return Ok(());
                }
            },
        };
        self.bytes += bytes;
        self.open.batch.samples.push(Ok(Sample { series, time_ns, start_ns, value }));
        self.open.places.push(place);
        Ok(())
    }

    fn declare(&mut self, key: u128, series: SeriesDef) -> u32 {
        let number =
            u32::try_from(self.open.batch.series.len()).expect("a batch has fewer series than samples and one");
        self.bytes += series.labels.memory_bytes();
        self.open.batch.series.push(Ok(series));
        self.index.insert(key, number);
        number
    }

    /// Adds a batch that was made elsewhere, unchanged.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the receiver stopped.
    pub fn batch(&mut self, batch: Batch, places: Vec<u64>) -> Result<(), Error> {
        assert_eq!(batch.samples.len(), places.len(), "a place for each sample");
        self.flush()?;
        self.open = Numbered { batch, places };
        self.flush()
    }

    /// Counts refused input.
    pub fn bad(&mut self, place: u64, reason: &'static str, what: &str) {
        let bad = self.bad.entry(reason).or_default();
        bad.count += 1;
        if bad.places.len() < PLACES_MAX {
            bad.places.push((place, what.to_owned()));
        }
        (self.note)(place, reason, what);
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.open.places.is_empty() {
            return Ok(());
        }
        self.sequence += 1;
        self.samples += self.open.places.len() as u64;
        let mut full = std::mem::replace(&mut self.open, Numbered { batch: Batch::default(), places: Vec::new() });
        (full.batch.source, full.batch.sequence) = (self.source, self.sequence);
        full.batch.tenant = self.tenant.clone();
        self.index.clear();
        self.bytes = 0;
        if (self.take)(full) { Ok(()) } else { Err(Error::Stopped) }
    }

    /// Passes on the last batch, if it `is_whole`; returns how many samples were passed on, and what was refused.
    #[must_use]
    pub fn finish(mut self, is_whole: bool) -> (u64, BTreeMap<&'static str, RefusedInput>) {
        if is_whole {
            // A receiver that stopped was noticed before.
            let _ = self.flush();
        }
        (self.samples, self.bad)
    }
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Float(_) => 0,
        Value::Text(text) => text.len(),
        Value::Histogram(one) => 48 + 4 * (one.positive.len() + one.negative.len()),
        Value::FloatHistogram(one) => 48 + 10 * (one.positive.len() + one.negative.len()),
    }
}
