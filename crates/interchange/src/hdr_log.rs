//! Interval logs of HdrHistogram: a cell for each interval.

use std::io::BufRead;

use ogive_hist::hdr::{Entry, Log};
use ogive_model::{Kind, SeriesDef, SeriesMeta, Temporality, Value};
use twox_hash::XxHash3_128;

use crate::{Batches, Error, lines};

/// 4 MiB and a bit: as much as the log's own reader accepts.
const LINE_BYTES_MAX: usize = 5 << 20;

/// Properties of a log that it does not contain itself.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// Labels of the series, `__name__` among them. An interval's tag is the label `tag`.
    pub labels: Vec<(String, String)>,
    /// The value of one unit: 1e-9 for nanoseconds in seconds.
    pub worth: f64,
    /// Base unit of the series.
    pub unit: String,
}

/// Reads a log.
///
/// # Errors
/// Those of the file, and [`Error::Stopped`].
pub fn read(input: &mut dyn BufRead, meaning: &LogSettings, out: &mut Batches<'_>) -> Result<(), Error> {
    let mut log = Log::new(meaning.worth);
    lines::each(input, LINE_BYTES_MAX, out, |number, line, out| {
        let interval = match log.line(line) {
            Ok(Entry::Interval(interval)) => interval,
            Ok(_) => return Ok(()),
            Err(error) => {
                out.bad(number, "line_malformed", &error.to_string());
                return Ok(());
            }
        };
        let (from, to) = (interval.start * 1e3, (interval.start + interval.length) * 1e3);
        // Below 2^53 milliseconds the conversion is exact.
        if !(from >= 0.0 && from.round() < to.round() && to < 9e12) {
            out.bad(number, "time_invalid", "the interval has no length, or its time cannot be stored");
            return Ok(());
        }
        let tag = interval.tag.unwrap_or_default();
        let key = XxHash3_128::oneshot(tag.as_bytes());
        let define = || {
            let labels = meaning.labels.iter().map(|(name, value)| (&**name, &**value)).chain([("tag", &*tag)]);
            let meta = SeriesMeta {
                kind: Kind::Histogram,
                temporality: Temporality::Delta,
                unit: meaning.unit.clone(),
                width_ms: 0,
            };
            SeriesDef::new(labels, meta).map_err(|error| error.to_string())
        };
        let times = (Some(from.round() as i64 * 1_000_000), to.round() as i64 * 1_000_000);
        out.sample(number, key, define, times.0, times.1, Value::Histogram(Box::new(interval.histogram)))
    })
}
