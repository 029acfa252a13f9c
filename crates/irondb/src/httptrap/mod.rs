//! Bodies of HTTPTrap: JSON of metrics, as brokers of Circonus take it.
//!
//! Format: one or several JSON objects behind each other. A value is a metric named by the keys that lead to it, with
//! backticks between; elements of lists are named by their index. An object with `_value` is one metric: `_type` is `i
//! I l L n` (a number), `s` (a text), `h` (a histogram of what was measured since the last one) or `H` (one that counts
//! on); `_ts` is its time in milliseconds since 1970; with the flag `+` in `_fl` values of one name and time are added
//! up, with `~` their mean is taken. A histogram is base64 (OpenHistogram's), `"H[1.2]=3"`, a number, or a list of
//! these. null is no measurement. Strings quoted by Go's rules, and its NaN, are read although they are no JSON: a
//! client writes them.
//! Invariants: keys that repeat in one object are as many measurements. A metric that breaks a rule spoils only itself;
//! text that is no JSON refuses the body.
//! Limits: [`DEPTH_MAX`]; what the body unfolds to, as for every protocol.

mod checks;
mod histogram;
mod metric;
mod quoting;
mod tree;

use std::borrow::Cow;
use std::collections::HashMap;

use ogive_hist::Histogram;
use ogive_model::{Batch, BatchId, Kind, Sample, SeriesMeta, Temporality, Tenant, Value};
use ogive_protocol::lines::{Fault, Faults, Names, Pairs};
use ogive_protocol::{Error, Gather, untyped};
use ogive_stream::Key;

use crate::name;

use metric::{Metric, Scalar, number};

pub use checks::{Admission, TrapCheck, TrapChecks, parse_uuid};
pub use metric::DEPTH_MAX;

/// Metrics whose faults are described: the first few are enough for a person.
const DETAILS_MAX: usize = 20;

/// 1 s: the assumed interval of a histogram with a time: brokers flush histograms every second.
const POINT_NS: i64 = 1_000_000_000;

/// How a body is read.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The check that it belongs to: the label `check_uuid`.
    pub check: &'a str,
    /// When a metric without a time was measured, nanoseconds since 1970.
    pub now_ns: i64,
    /// How names and categories are written.
    pub names: Names,
}

/// A body that was read.
#[derive(Debug, Default)]
pub struct Trapped {
    /// The measurements.
    pub batch: Batch,
    /// Metrics that became samples.
    pub metrics: u64,
    /// Metrics that did not.
    pub faults: Faults,
    /// The first of them, with their errors.
    pub details: Vec<(String, Fault)>,
    /// Histograms without a time of their own.
    pub untimed: u64,
}

/// Why a whole body is refused.
#[derive(Debug)]
pub enum Refused {
    /// It is no JSON, or too deep; a sentence with the place.
    Malformed(String),
    /// It unfolds to more than a request may.
    TooLarge(Error),
}

/// Decodes `body` into the batch `sequence` of `source`. `accepts` decides whether the check may have a series with
/// this name; a name that it refuses is a [`Fault::Cells`].
///
/// # Errors
/// [`Refused`]; then nothing of the body is accepted.
pub fn read(
    body: &[u8],
    tenant: &Tenant,
    BatchId { source, sequence }: BatchId,
    options: &Options<'_>,
    accepts: &mut dyn FnMut(&str) -> bool,
) -> Result<Trapped, Refused> {
    let mut read = |body: &[u8]| attempt(body, options, accepts);
    let (mut out, gather) = match read(body) {
        Err(Refused::Malformed(why)) => match quoting::mended(body) {
            Some(mended) => read(&mended)?,
            None => return Err(Refused::Malformed(why)),
        },
        read => read?,
    };
    out.batch = { gather }.take(source, sequence, tenant);
    Ok(out)
}

/// The contents of `body`, without its batch, and its samples.
fn attempt(
    body: &[u8],
    options: &Options<'_>,
    accepts: &mut dyn FnMut(&str) -> bool,
) -> Result<(Trapped, Gather), Refused> {
    let mut reader = Reader {
        options,
        accepts,
        gather: Gather::new(body.len()),
        sums: HashMap::new(),
        out: Trapped::default(),
        too_large: None,
    };
    let parsed = tree::read(body, &mut |name, metric| reader.take(name, metric));
    if let Some(error) = reader.too_large.take() {
        return Err(Refused::TooLarge(error));
    }
    parsed.map_err(Refused::Malformed)?;
    reader.finish_sums();
    match reader.too_large {
        Some(error) => Err(Refused::TooLarge(error)),
        None => Ok((reader.out, reader.gather)),
    }
}

/// How a metric's flags combine several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combine {
    Sum,
    Mean,
}

struct Reader<'o> {
    options: &'o Options<'o>,
    accepts: &'o mut dyn FnMut(&str) -> bool,
    gather: Gather,
    /// Values that are added up, by series and time.
    sums: HashMap<(u32, i64), (Combine, f64, u64)>,
    out: Trapped,
    too_large: Option<Error>,
}

impl Reader<'_> {
    /// Adds a metric. False ends decoding: the body is too large.
    fn take(&mut self, name: &str, metric: Metric<'_>) -> bool {
        match self.store(name, metric) {
            Ok(Ok(taken)) => self.out.metrics += taken,
            Ok(Err(fault)) => {
                self.out.faults.count(fault);
                if self.out.details.len() < DETAILS_MAX {
                    self.out.details.push((name.chars().take(200).collect(), fault));
                }
            }
            Err(error) => self.too_large = Some(error),
        }
        self.too_large.is_none()
    }

    fn store(&mut self, name: &str, metric: Metric<'_>) -> Result<Result<u64, Fault>, Error> {
        if metric.values.iter().all(|value| *value == Scalar::Null) {
            return Ok(Ok(0));
        }
        if metric.values.iter().any(|value| matches!(value, Scalar::Number(number) if !number.is_finite())) {
            return Ok(Err(Fault::Value));
        }
        let time_ns = match metric.time_ms {
            None => Ok(self.options.now_ns),
            Some(time) => time.and_then(|ms| ms.checked_mul(1_000_000).ok_or(Fault::Time)),
        };
        let time_ns = match time_ns {
            Ok(time_ns) => time_ns,
            Err(fault) => return Ok(Err(fault)),
        };
        let temporality = match metric.kind.as_deref() {
            Some("h") => Temporality::Delta,
            Some("H") => Temporality::Cumulative,
            Some("s") => return self.store_text(name, &metric.values, time_ns),
            Some("i" | "I" | "l" | "L" | "n") => return self.store_numbers(name, &metric, time_ns),
            None if metric.values.iter().any(|value| matches!(value, Scalar::Text(_))) => {
                return self.store_text(name, &metric.values, time_ns);
            }
            None => return self.store_numbers(name, &metric, time_ns),
            Some(_) => return Ok(Err(Fault::Type)),
        };
        let histogram = match histogram::read(&metric.values) {
            Ok(histogram) => histogram,
            Err(fault) => return Ok(Err(fault)),
        };
        // A sample with a time is recognised by it when it is sent again.
        let is_point = temporality == Temporality::Delta && metric.time_ms.is_some();
        let start_ns = is_point.then(|| time_ns.saturating_sub(POINT_NS));
        let stored = self.store_histogram(name, histogram, temporality, start_ns, time_ns)?;
        self.out.untimed += u64::from(stored.is_ok() && metric.time_ms.is_none());
        Ok(stored)
    }

    fn store_histogram(
        &mut self,
        name: &str,
        histogram: Histogram<u64>,
        temporality: Temporality,
        start_ns: Option<i64>,
        time_ns: i64,
    ) -> Result<Result<u64, Fault>, Error> {
        let meta = SeriesMeta { kind: Kind::Histogram, temporality, unit: String::new(), width_ms: 0 };
        match self.series(name, meta)? {
            Ok(series) => self.gather.push_sample(Sample {
                series,
                time_ns,
                start_ns,
                value: Value::Histogram(histogram.into()),
            })?,
            Err(fault) => return Ok(Err(fault)),
        }
        Ok(Ok(1))
    }

    fn store_text(&mut self, name: &str, values: &[Scalar<'_>], time_ns: i64) -> Result<Result<u64, Fault>, Error> {
        let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        let series = match self.series(name, meta)? {
            Ok(series) => series,
            Err(fault) => return Ok(Err(fault)),
        };
        let mut count = 0;
        for value in values {
            let text = match value {
                Scalar::Null => continue,
                Scalar::Text(text) => text.clone().into_owned(),
                Scalar::Number(number) => number.to_string(),
            };
            self.gather.push_sample(Sample { series, time_ns, start_ns: None, value: Value::Text(text) })?;
            count += 1;
        }
        Ok(Ok(count))
    }

    fn store_numbers(&mut self, name: &str, metric: &Metric<'_>, time_ns: i64) -> Result<Result<u64, Fault>, Error> {
        let mut numbers = Vec::with_capacity(metric.values.len());
        for value in &metric.values {
            match value {
                Scalar::Null => {}
                Scalar::Number(number) => numbers.push(*number),
                Scalar::Text(text) => match number(text) {
                    Ok(number) => numbers.push(number),
                    Err(fault) => return Ok(Err(fault)),
                },
            }
        }
        let meta = untyped(Kind::Float, name::parse(name).map_or(name, |name| name.base));
        let series = match self.series(name, meta)? {
            Ok(series) => series,
            Err(fault) => return Ok(Err(fault)),
        };
        let combine = match () {
            () if metric.flags.contains('+') => Some(Combine::Sum),
            () if metric.flags.contains('~') => Some(Combine::Mean),
            () => None,
        };
        let count = numbers.len() as u64;
        for number in numbers {
            let Some(combine) = combine else {
                self.gather.push_sample(Sample { series, time_ns, start_ns: None, value: Value::Float(number) })?;
                continue;
            };
            let sum = self.sums.entry((series, time_ns)).or_insert((combine, 0.0, 0));
            *sum = (combine, sum.1 + number, sum.2 + 1);
        }
        Ok(Ok(count))
    }

    fn finish_sums(&mut self) {
        let mut sums: Vec<_> = self.sums.drain().collect();
        sums.sort_unstable_by_key(|(at, _)| *at);
        for ((series, time_ns), (combine, sum, count)) in sums {
            let value = if combine == Combine::Mean { sum / count as f64 } else { sum };
            if let Err(error) =
                self.gather.push_sample(Sample { series, time_ns, start_ns: None, value: Value::Float(value) })
            {
                self.too_large = Some(error);
                return;
            }
        }
    }

    /// The number of the series of a metric.
    fn series(&mut self, name: &str, meta: SeriesMeta) -> Result<Result<u32, Fault>, Error> {
        let Self { options, accepts, gather, .. } = self;
        let key = Key::new(meta.kind as u64 * 4 + meta.temporality as u64, name.as_bytes());
        gather.number(key, || {
            let parsed = name::parse(name)?;
            if !accepts(name) {
                return Err(Fault::Cells);
            }
            let mut pairs = Pairs::named(options.names.metric(parsed.base));
            pairs.add("check_uuid".into(), options.check.into())?;
            for (category, value) in parsed.tags.iter().filter(|(_, value)| !value.is_empty()) {
                pairs.add(options.names.label(category), Cow::Borrowed(value))?;
            }
            pairs.series(meta)
        })
    }
}

#[cfg(test)]
mod tests;
