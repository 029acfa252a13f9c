//! Interval logs: one histogram a line, as HdrHistogram's log writer and jHiccup make them.
//!
//! Format: `docs/formats/hdrhistogram.md`, "Interval log". Lines are given one by one; no file is opened here.

use super::{decode_base64, encode_base64};
use crate::{Error, Histogram};

/// A year in seconds: if a first start is more than this before the start time, it is relative to that.
const YEAR_SECONDS: f64 = 365.0 * 86_400.0;

/// 4 MiB: four times the base64 of a histogram with all counts of five digits.
const LINE_BYTES_MAX: usize = 4 << 20;

/// The contents of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// Nothing: an empty line or the legend.
    Nothing,
    /// A comment, without its `#`.
    Comment(String),
    /// A histogram.
    Interval(Box<Interval>),
}

/// One histogram and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// Whose it is.
    pub tag: Option<String>,
    /// Its start, in seconds since 1970 if the log says so, otherwise since the log's own start.
    pub start: f64,
    /// How long it is, in seconds.
    pub length: f64,
    /// The greatest value, in a unit that the writer chose (milliseconds in jHiccup's).
    pub max: f64,
    /// The measurements.
    pub histogram: Histogram,
}

/// Reads a log line by line.
#[derive(Clone, Debug)]
pub struct Log {
    unit: f64,
    start: Option<f64>,
    base: Option<f64>,
}

impl Log {
    /// A log whose values are in units worth `unit`: 1e-9 for nanoseconds in seconds.
    #[must_use]
    pub fn new(unit: f64) -> Self {
        Self { unit, start: None, base: None }
    }

    /// The start time, in seconds since 1970, once a line gives it.
    #[must_use]
    pub fn start_time(&self) -> Option<f64> {
        self.start
    }

    /// Parses a line, without its end.
    ///
    /// # Errors
    /// [`Error::HdrLog`] for an invalid line, and those of [`decode_base64`].
    pub fn line(&mut self, line: &str) -> Result<Entry, Error> {
        let line = line.trim();
        if line.len() > LINE_BYTES_MAX {
            return Err(Error::HdrLog("the line is longer than 4 MiB"));
        }
        if let Some(comment) = line.strip_prefix('#') {
            self.times(comment)?;
            return Ok(Entry::Comment(comment.to_owned()));
        }
        if line.is_empty() || line.starts_with("\"StartTimestamp\"") {
            return Ok(Entry::Nothing);
        }
        self.interval(line).map(|interval| Entry::Interval(Box::new(interval)))
    }

    /// Reads the times in a comment.
    fn times(&mut self, comment: &str) -> Result<(), Error> {
        for (name, time) in [("[StartTime:", &mut self.start), ("[BaseTime:", &mut self.base)] {
            if let Some(rest) = comment.strip_prefix(name) {
                let number = rest.split([' ', ']', '(']).find(|word| !word.is_empty()).unwrap_or_default();
                *time = Some(seconds(number, "the log's start or base time is not a number of seconds")?);
            }
        }
        Ok(())
    }

    fn interval(&mut self, line: &str) -> Result<Interval, Error> {
        let (tag, rest) = match line.strip_prefix("Tag=") {
            Some(rest) => {
                let (tag, rest) = rest.split_once(',').ok_or(Error::HdrLog("nothing follows the tag"))?;
                (Some(tag.to_owned()), rest)
            }
            None => (None, line),
        };
        let mut fields = rest.splitn(4, ',');
        let mut field = || fields.next().ok_or(Error::HdrLog("an interval is start,length,max,base64"));
        let start = seconds(field()?, "an interval's start is not a number of seconds")?;
        let length = seconds(field()?, "an interval's length is not a number of seconds")?;
        let max = seconds(field()?, "an interval's greatest value is not a number")?;
        let histogram = decode_base64(field()?, self.unit)?;
        let begin = *self.start.get_or_insert(start);
        let base = *self.base.get_or_insert(if start < begin - YEAR_SECONDS { begin } else { 0.0 });
        Ok(Interval { tag, start: base + start, length, max, histogram })
    }
}

fn seconds(text: &str, reason: &'static str) -> Result<f64, Error> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite()).ok_or(Error::HdrLog(reason))
}

/// The line of an interval, without its end. `start` is written unchanged: for a log relative to a base time, the
/// caller subtracts that first.
///
/// # Errors
/// [`Error::HdrLog`] for a tag with a comma, a space or a line end, and those of [`super::encode`].
pub fn format_interval(interval: &Interval) -> Result<String, Error> {
    let tag = match &interval.tag {
        Some(tag) if tag.is_empty() || tag.contains([',', ' ', '\r', '\n']) => {
            return Err(Error::HdrLog("a tag has no comma, space or line end and is not empty"));
        }
        Some(tag) => format!("Tag={tag},"),
        None => String::new(),
    };
    let (start, length, max) = (interval.start, interval.length, interval.max);
    Ok(format!("{tag}{start:.3},{length:.3},{max:.3},{}", encode_base64(&interval.histogram)?))
}
