//! OpenMetrics line by line: files with the history of many series, larger than memory.
//!
//! Format: the lines of OpenMetrics 1.0, each sample with its time in seconds, as `promtool tsdb create-blocks-from
//! openmetrics` reads them. Unlike in a scraped exposition, a line that breaks a rule affects only itself, a metric may
//! appear again later, and times need not ascend.
//! Invariants: a type applies to the following lines of its metric, until the next type.

use std::borrow::Cow;

use ogive_model::{Kind, METRIC_NAME, MetricKind, SeriesMeta};

use super::line::{Cursor, LineResult};
use super::number::{milliseconds, number};
use super::point::temporality;
use super::series::Series;
use crate::remote_write::meta_of_name;

/// Reads lines, and keeps the last type.
#[derive(Debug, Default)]
pub struct Backfill {
    family: String,
    kind: Option<MetricKind>,
}

/// A sample of a line.
#[derive(Debug)]
pub struct Timed<'a> {
    /// Of which series.
    pub series: Series<'a>,
    /// What is known of the series.
    pub meta: SeriesMeta,
    /// When it was, milliseconds since the Unix epoch.
    pub time_ms: i64,
    /// What it is.
    pub value: f64,
    /// Whether single events stand behind it, which are left out.
    pub has_exemplars: bool,
}

impl Backfill {
    /// Reads a line without its end; none for a comment.
    ///
    /// # Errors
    /// The rule that the line breaks, as a sentence.
    pub fn line<'a>(&mut self, line: &'a str) -> Result<Option<Timed<'a>>, &'static str> {
        let line = line.trim_matches([' ', '\t', '\r']);
        if line.is_empty() {
            return Ok(None);
        }
        if let Some(comment) = line.strip_prefix('#') {
            return self.comment(comment).map(|()| None);
        }
        self.sample(line).map(Some)
    }

    fn comment(&mut self, comment: &str) -> LineResult<()> {
        let mut cursor = Cursor::tolerant(comment);
        cursor.skip();
        if cursor.word() != "TYPE" {
            return Ok(());
        }
        cursor.skip();
        let name = cursor.described()?;
        self.family = name.into_owned();
        cursor.skip();
        self.kind = MetricKind::parse(cursor.rest);
        if self.kind.is_none() { Err("the type of a metric is not known") } else { Ok(()) }
    }

    fn sample<'a>(&self, line: &'a str) -> LineResult<Timed<'a>> {
        let mut cursor = Cursor::tolerant(line);
        let mut name = Cow::Borrowed("");
        let raw = cursor.series(|label, value| {
            if label == METRIC_NAME {
                name = value.text();
            }
            Ok(())
        })?;
        cursor.skip();
        let value = match cursor.word() {
            "" => return Err("a series has no value"),
            word if word.starts_with('{') => return Err("a distribution in one value is not read from files"),
            word => number(word).ok_or("a value is not a number")?,
        };
        cursor.skip();
        let time_ms = match cursor.word() {
            "" | "#" => return Err("a sample has no time"),
            word => {
                number(word).and_then(milliseconds).ok_or("a time is not a number of seconds that can be stored")?
            }
        };
        cursor.skip();
        let has_exemplars = cursor.rest.starts_with("# ");
        if !has_exemplars && !cursor.rest.is_empty() {
            return Err("something stands behind the time of a sample");
        }
        let kind = self.kind_of(&name);
        let bound = match kind {
            Some(MetricKind::Histogram | MetricKind::GaugeHistogram) => Some("le"),
            Some(MetricKind::Summary) => Some("quantile"),
            _ => None,
        };
        let mut meta = meta_of_name(Kind::Float, &name);
        if let Some(kind) = kind.filter(|kind| *kind != MetricKind::Unknown) {
            meta.temporality = temporality(kind, &name);
        }
        Ok(Timed { series: Series::from_text(raw, bound), meta, time_ms, value, has_exemplars })
    }

    /// The last type, when it is that of the metric that the series `name` belongs to.
    fn kind_of(&self, name: &str) -> Option<MetricKind> {
        let kind = self.kind?;
        let rest = kind.family(name).strip_prefix(&*self.family)?;
        matches!(rest, "" | "_total" | "_created" | "_info").then_some(kind)
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::Temporality;

    use super::*;

    fn shown(lines: &str) -> Vec<String> {
        let mut reader = Backfill::default();
        let show = |line| match reader.line(line) {
            Ok(None) => None,
            Err(what) => Some(what.to_owned()),
            Ok(Some(one)) => {
                let labels: Vec<String> =
                    one.series.labels().iter().map(|(name, value)| format!("{name}={value}")).collect();
                Some(format!("{} {:?} {} {}", labels.join(","), one.meta.temporality, one.time_ms, one.value))
            }
        };
        lines.lines().filter_map(show).collect()
    }

    #[test]
    fn lines_are_samples_with_a_time_or_say_what_is_wrong() {
        let lines = "# HELP rpc Calls.\n# TYPE rpc histogram\nrpc_bucket{le=\"1\"} 4 1.5 # {a=\"b\"} 1\nrpc_count 4 1.5\nother_total 7 -1\n\
            # TYPE temp gauge\ntemp{room=\"a b\"} NaN 1700000000.123\ntemp 1\ntemp x 1\ntemp 1 x\ntemp 1 1 1\ntemp{ 1 1\n# EOF\n";
        let expected = [
            "__name__=rpc_bucket,le=1.0 Cumulative 1500 4",
            "__name__=rpc_count Cumulative 1500 4",
            "__name__=other_total Cumulative -1000 7",
            "__name__=temp,room=a b Gauge 1700000000123 NaN",
            "a sample has no time",
            "a value is not a number",
            "a time is not a number of seconds that can be stored",
            "something stands behind the time of a sample",
            "a label's name is missing, or has characters that need quotes",
        ];
        assert_eq!(shown(lines), expected);
        let mut reader = Backfill::default();
        assert!(reader.line("a 1 1 # {b=\"c\"} 2").unwrap().unwrap().has_exemplars);
        assert_eq!(reader.line("# TYPE a thing").unwrap_err(), "the type of a metric is not known");
        assert_eq!(meta_of_name(Kind::Float, "a").temporality, Temporality::Gauge);
    }

    #[test]
    fn any_line_is_read_without_a_panic() {
        let good = b"# TYPE a summary\na{quantile=\"0.5\",b=\"\\\"c\"} 1e3 17.5 # {t=\"u\"} 1";
        crate::mutations::smoke(read, good, 20_000, crate::mutations::TEXT);
        fn read(bytes: &[u8]) {
            let mut reader = Backfill::default();
            for line in String::from_utf8_lossy(bytes).lines() {
                if let Ok(Some(one)) = reader.line(line) {
                    let _ = one.series.labels();
                }
            }
        }
    }
}
