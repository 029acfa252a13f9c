//! Prometheus's text format 0.0.4, and 1.0.0, which adds quoted names.
//!
//! Invariants: a type applies to the samples after it; a sample without a type is of unknown type. A metric that
//! appears again later continues.

use std::borrow::Cow;
use std::collections::HashMap;

use ogive_model::{METRIC_NAME, MetricKind};

use super::line::{Cursor, LineResult, unescape};
use super::number::number;
use super::point::{Exposition, Family, Meter, Point, Value, temporality};
use super::series::Series;
use crate::Error;

pub(super) fn decode(body: &str, is_whole: bool) -> Result<Exposition<'_>, Error> {
    let mut reader = Reader { out: Exposition::default(), families: HashMap::new(), last: ("", MetricKind::Unknown) };
    let mut meter = Meter::new(body);
    for (at, line) in body.split_inclusive('\n').enumerate() {
        let ended = line.strip_suffix('\n');
        let line = ended.unwrap_or(line);
        let read = match ended {
            None if !is_whole => Err("the last line has no end: something may be cut off"),
            _ => reader.line(line.strip_suffix('\r').unwrap_or(line)),
        };
        read.map_err(|what| Error::Line { line: at + 1, what })?;
        meter.pay(&reader.out)?;
    }
    Ok(reader.out)
}

struct Reader<'a> {
    out: Exposition<'a>,
    /// Index of each family.
    families: HashMap<Cow<'a, str>, usize>,
    /// Name of the last sample, and what it was found to be.
    last: (&'a str, MetricKind),
}

impl<'a> Reader<'a> {
    fn line(&mut self, line: &'a str) -> LineResult<()> {
        let line = line.trim_start_matches([' ', '\t']);
        if line.is_empty() {
            return Ok(());
        }
        match line.strip_prefix('#') {
            Some(comment) => self.comment(comment),
            None => self.sample(line),
        }
    }

    fn comment(&mut self, comment: &'a str) -> LineResult<()> {
        let mut cursor = Cursor::tolerant(comment);
        cursor.skip();
        let word = cursor.word();
        if !matches!(word, "HELP" | "TYPE") {
            return Ok(());
        }
        cursor.skip();
        let name = cursor.described()?;
        if !cursor.rest.is_empty() && !cursor.rest.starts_with([' ', '\t']) {
            return Err("a metric's name has characters that need quotes");
        }
        cursor.skip();
        let families = &mut self.out.families;
        let index = *self.families.entry(name.clone()).or_insert_with(|| {
            families.push(Family { name, kind: MetricKind::Unknown, help: "".into(), unit: "".into() });
            families.len() - 1
        });
        if word == "HELP" {
            families[index].help = unescape(cursor.rest, false);
            return Ok(());
        }
        let kind =
            MetricKind::parse(cursor.rest.trim_end_matches([' ', '\t'])).ok_or("the type of a metric is not known")?;
        families[index].kind = kind;
        self.last = ("", MetricKind::Unknown);
        Ok(())
    }

    fn sample(&mut self, line: &'a str) -> LineResult<()> {
        let mut cursor = Cursor::tolerant(line);
        let mut name = Cow::Borrowed("");
        let raw = cursor.series(|label, value| {
            if label == METRIC_NAME {
                name = value.text();
            }
            Ok(())
        })?;
        if !cursor.rest.starts_with([' ', '\t']) && !raw.ends_with('}') {
            return Err(match cursor.rest {
                "" => "a series has no value",
                _ => "a metric's name has characters that need quotes",
            });
        }
        cursor.skip();
        let value = match cursor.word() {
            "" => return Err("a series has no value"),
            word => number(word).ok_or("a value is not a number")?,
        };
        cursor.skip();
        let time_ms = match cursor.word() {
            "" => None,
            word => Some(word.parse().map_err(|_| "a time is not a whole number of milliseconds")?),
        };
        cursor.skip();
        if !cursor.rest.is_empty() {
            return Err("something stands behind the time of a sample");
        }
        let kind = self.kind(raw, &name);
        let bound = match kind {
            MetricKind::Histogram | MetricKind::GaugeHistogram => Some("le"),
            MetricKind::Summary => Some("quantile"),
            _ => None,
        };
        self.out.points.push(Point {
            series: Series::from_text(raw, bound),
            temporality: temporality(kind, &name),
            time_ms,
            start_ms: None,
            value: Value::Float(value),
            exemplars: Vec::new(),
            has_native: false,
        });
        Ok(())
    }

    /// The type of the metric that the series `name` belongs to.
    fn kind(&mut self, raw: &'a str, name: &str) -> MetricKind {
        let bare = &raw[..raw.find(['{', ' ', '\t']).unwrap_or(raw.len())];
        if !bare.is_empty() && bare == self.last.0 {
            return self.last.1;
        }
        let of = |name: &str| self.families.get(name).map(|index| self.out.families[*index].kind);
        let of_part = |suffix: &str| name.strip_suffix(suffix).and_then(of);
        let is_histogram = |kind: &MetricKind| matches!(kind, MetricKind::Histogram | MetricKind::GaugeHistogram);
        let is_distribution = |kind: &MetricKind| is_histogram(kind) || *kind == MetricKind::Summary;
        let found = of(name)
            .or_else(|| of_part("_bucket").filter(is_histogram))
            .or_else(|| of_part("_count").filter(is_distribution))
            .or_else(|| of_part("_sum").filter(is_distribution));
        let kind = found.unwrap_or(MetricKind::Unknown);
        self.last = (bare, kind);
        kind
    }
}
