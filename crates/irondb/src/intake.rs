//! Records as a batch.
//!
//! Invariants: a record that breaks a rule spoils only itself, and is counted. A histogram that counts what was
//! measured since the last one is a cell of one millisecond that ends at its time: a stream has one histogram in a
//! millisecond, and who sends it again changes nothing; two brokers of a cluster that see one second put their number
//! into the milliseconds.
//! Limits: what the body unfolds to, as for every protocol.

use std::fmt::Write as _;

use ogive_hist::Histogram;
use ogive_model::{Batch, BatchId, Kind, STALE, Sample, SeriesMeta, Temporality, Tenant, Value};
use ogive_protocol::lines::{Fault, Faults};
use ogive_protocol::{Error, Gather, untyped};
use ogive_stream::Key;

use crate::flat::Malformed;
use crate::identity;
use crate::record::{Counting, Datum, Record, Tags};

/// Records whose faults are described: the first few are enough for a person.
const DETAILS_MAX: usize = 20;

/// Why a whole body is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// It does not match its type; a sentence with the position.
    #[error("{0}")]
    Malformed(String),
    /// It unfolds to more than a request may.
    #[error(transparent)]
    TooLarge(#[from] Error),
}

impl From<Malformed> for Refused {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed.to_string())
    }
}

/// A body that was read.
#[derive(Debug, Default)]
pub struct ParsedBody {
    /// The measurements.
    pub batch: Batch,
    /// Records that were accepted.
    pub records: u64,
    /// Records that were not.
    pub faults: Faults,
    /// The first of them, with their errors.
    pub details: Vec<(String, Fault)>,
}

/// See the module.
#[derive(Debug)]
pub struct Intake {
    gather: Gather,
    /// The name of the series that is looked up.
    key: String,
    out: ParsedBody,
}

impl Intake {
    /// For a body of that many bytes.
    #[must_use]
    pub fn new(body: usize) -> Self {
        Self { gather: Gather::new(body), key: String::new(), out: ParsedBody::default() }
    }

    /// Adds a record, or counts its error.
    ///
    /// # Errors
    /// [`Refused`], for the whole body.
    pub fn take(&mut self, record: &Record<'_>) -> Result<(), Refused> {
        match self.put(record)? {
            // The parts of a rollup are one record.
            Ok(()) => self.out.records += u64::from(record.part.is_none()),
            Err(fault) => self.fault(fault, &record.name),
        }
        Ok(())
    }

    /// Counts input that could not become a record.
    pub fn fault(&mut self, fault: Fault, about: &str) {
        self.out.faults.count(fault);
        if self.out.details.len() < DETAILS_MAX {
            self.out.details.push((about.chars().take(200).collect(), fault));
        }
    }

    /// The accepted records, as the batch `sequence` of `source`.
    #[must_use]
    pub fn finish(mut self, tenant: &Tenant, BatchId { source, sequence }: BatchId) -> ParsedBody {
        self.out.batch = self.gather.take(source, sequence, tenant);
        self.out
    }

    /// Samples so far.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.gather.len()
    }

    /// Adds a record without counting it; the inner result is its error.
    ///
    /// # Errors
    /// [`Refused`], for the whole body.
    pub fn put(&mut self, record: &Record<'_>) -> Result<Result<(), Fault>, Refused> {
        let time_ns = record.time_ms.checked_mul(1_000_000).filter(|time| *time > 0);
        let Some(time_ns) = time_ns else { return Ok(Err(Fault::Time)) };
        let mut temporality = Temporality::Gauge;
        let (kind, value, times) = match &record.value {
            Datum::Number(number) if number.is_nan() => return Ok(Err(Fault::Value)),
            Datum::Number(number) => (Kind::Float, Value::Float(*number), (None, time_ns)),
            Datum::NoNumber => (Kind::Float, Value::Float(f64::from_bits(STALE)), (None, time_ns)),
            Datum::Text(text) => (Kind::Text, Value::Text(text.clone().into_owned()), (None, time_ns)),
            // Nothing is stored when nothing was measured.
            Datum::Nothing => return Ok(Ok(())),
            Datum::Bins(_, counting) | Datum::Histogram(_, counting) => {
                let histogram = match &record.value {
                    Datum::Bins(bins, _) => {
                        let mut all = Histogram::log_linear();
                        let mut is_whole = true;
                        bins.each(|bin, count| {
                            is_whole &= bin.is_valid() && all.total().checked_add(count).is_some();
                            if is_whole {
                                all.record_bin(bin, count);
                            }
                        })?;
                        if !is_whole {
                            return Ok(Err(Fault::Value));
                        }
                        Box::new(all)
                    }
                    Datum::Histogram(histogram, _) => histogram.clone(),
                    _ => unreachable!("the arm is of histograms"),
                };
                temporality = if *counting == Counting::On { Temporality::Cumulative } else { Temporality::Delta };
                let Some(times) = cell(*counting, time_ns) else { return Ok(Err(Fault::Time)) };
                (Kind::Histogram, Value::Histogram(histogram), times)
            }
        };
        let series = match self.series(record, kind, temporality)? {
            Ok(series) => series,
            Err(fault) => return Ok(Err(fault)),
        };
        let (start_ns, time_ns) = times;
        self.gather.push_sample(Sample { series, time_ns, start_ns, value })?;
        Ok(Ok(()))
    }

    /// The number of the series of a record.
    fn series(
        &mut self,
        record: &Record<'_>,
        kind: Kind,
        temporality: Temporality,
    ) -> Result<Result<u32, Fault>, Refused> {
        let Self { gather, key, .. } = self;
        key.clear();
        if let Err(fault) = record.check.write(key) {
            return Ok(Err(fault));
        }
        let check_bytes = key.len();
        write!(key, "{} {} ", record.account, record.part.unwrap_or("")).expect("a String takes all");
        let name_from = key.len();
        key.push_str(&record.name);
        if let Tags::Vector(tags) = &record.tags {
            for (number, tag) in tags.texts().enumerate() {
                key.push_str(if number == 0 { "|ST[" } else { "," });
                key.push_str(tag?);
            }
            key.push(']');
        }
        let (check, name) = (&key[..check_bytes], &key[name_from..]);
        let number = Key::new(kind as u64 * 4 + temporality as u64, key.as_bytes());
        let number = gather.number(number, || {
            let base = name.split_once("|ST[").map_or(name, |(base, _)| base);
            let meta = match kind {
                Kind::Float => untyped(kind, base),
                _ => SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 },
            };
            identity::series(check, record.account, name, record.part, meta)
        })?;
        Ok(number)
    }
}

/// Start and end of the interval of a histogram with this time.
fn cell(counting: Counting, time_ns: i64) -> Option<(Option<i64>, i64)> {
    match counting {
        Counting::On => Some((None, time_ns)),
        Counting::Since => Some((Some(time_ns - 1_000_000), time_ns)),
        Counting::During(ms) if ms <= 1_000 => Some((Some(time_ns - 1_000_000), time_ns)),
        Counting::During(ms) => Some((Some(time_ns), time_ns.checked_add(ms.checked_mul(1_000_000)?)?)),
    }
}
