//! Samples of a server, metric by metric, in parts that it gives at once.

use std::collections::BTreeSet;

use ogive_model::{Batch, Labels, METRIC_NAME, MatchOp, Matcher, Ms, WallMs};
use serde_json::Value;

use crate::cli::client::{Failure, Server, Session};

/// A second: shorter parts are not tried.
const PART_MIN: Ms = Ms::from_secs(1);

const FRAME: &str = "application/x-ogive-batch-flatbuffer";

/// How a metric that is too large for one response is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    /// Part of time by part of time.
    Time,
    /// Series by series, and each by parts of time.
    Series,
}

/// See the module.
pub(super) struct Reading<'s> {
    session: Session<'s>,
    matchers: Vec<Matcher>,
    start: WallMs,
    end: WallMs,
    parts: Parts,
    metrics: Vec<String>,
    seen: BTreeSet<Labels>,
    /// Series that were read.
    pub(super) series: u64,
    /// Why it was not read to the end.
    pub(super) failure: Option<Failure>,
}

/// Why a reading ended.
enum End {
    Failure(Failure),
    Writer(anyhow::Error),
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// The consumer of what was read.
type Take<'t> = dyn FnMut(&Batch) -> anyhow::Result<()> + 't;

impl<'s> Reading<'s> {
    pub(super) fn new(
        server: &'s Server,
        selector: &str,
        start: WallMs,
        end: WallMs,
        parts: Parts,
    ) -> Result<Self, Failure> {
        let matchers = ogive_query::parse_plain_selector(selector)
            .map_err(|error| Failure::Usage(format!("{selector}: {error}")))?;
        let session = server.session()?;
        let (seen, series, failure) = (BTreeSet::new(), 0, None);
        let mut out = Self { session, matchers, start, end, parts, metrics: Vec::new(), seen, series, failure };
        let matched = written(out.matchers.iter());
        let [start, end] = [start, end].map(seconds);
        let params = [("match[]", &*matched), ("start", &*start), ("end", &*end), ("classic_views", "false")];
        let found = out.list("/api/v1/label/__name__/values", &params)?;
        out.metrics = found.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Ok(out)
    }

    fn list(&self, path: &str, params: &[(&str, &str)]) -> Result<Vec<Value>, Failure> {
        let body = self.session.get(path, params, "application/json")?;
        let mut answer: Value = serde_json::from_slice(&body)
            .map_err(|error| Failure::Unreachable(format!("the answer is none of an Ogive: {error}")))?;
        match answer["data"].take() {
            Value::Array(found) => Ok(found),
            _ => Err(Failure::Unreachable("the answer is none of an Ogive".into())),
        }
    }

    /// Passes everything to `take`. A refusal by the server is in `failure`.
    ///
    /// # Errors
    /// Those of `take`.
    pub(super) fn each(&mut self, take: &mut Take<'_>) -> anyhow::Result<()> {
        for metric in std::mem::take(&mut self.metrics) {
            match self.metric(&metric, take) {
                Ok(()) => {}
                Err(End::Writer(error)) => return Err(error),
                Err(End::Failure(failure)) => {
                    self.failure = Some(failure);
                    return Ok(());
                }
            }
            self.series += self.seen.len() as u64;
            self.seen.clear();
        }
        Ok(())
    }

    /// An error where not everything was read, so that no file gets its name.
    pub(super) fn ended_well(&self) -> anyhow::Result<()> {
        if self.failure.is_some() {
            anyhow::bail!("the file is not whole");
        }
        Ok(())
    }

    fn metric(&mut self, metric: &str, take: &mut Take<'_>) -> Result<(), End> {
        let name = Matcher::new(METRIC_NAME, MatchOp::Equal, metric).expect("a plain value is no pattern");
        let others = self.matchers.iter().filter(|matcher| matcher.name != METRIC_NAME);
        let selector = written(std::iter::once(&name).chain(others));
        if self.parts == Parts::Time {
            return self.range(&selector, self.start, self.end, None, take);
        }
        match self.cells(&selector, self.start, self.end) {
            Ok(batch) => self.give(batch, None, take),
            Err(failure) if is_too_much(&failure) => {
                let [start, end] = [self.start, self.end].map(seconds);
                let params = [("match[]", &*selector), ("start", &*start), ("end", &*end), ("classic_views", "false")];
                for found in self.list("/api/v1/series", &params)? {
                    let pairs = found.as_object().into_iter().flatten();
                    let pairs = pairs.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
                    let labels = Labels::new(pairs).map_err(|error| Failure::Unreachable(error.to_string()))?;
                    let matchers: Vec<Matcher> = labels
                        .iter()
                        .map(|(name, value)| Matcher::new(name, MatchOp::Equal, value).expect("no pattern"))
                        .collect();
                    let selector = written(matchers.iter());
                    self.range(&selector, self.start, self.end, Some(&labels), take)?;
                }
                Ok(())
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// Reads a range, in halves where it is too much.
    fn range(
        &mut self,
        selector: &str,
        start: WallMs,
        end: WallMs,
        only: Option<&Labels>,
        take: &mut Take<'_>,
    ) -> Result<(), End> {
        match self.cells(selector, start, end) {
            Ok(batch) => self.give(batch, only, take),
            Err(failure) if is_too_much(&failure) && end - start > PART_MIN => {
                let middle = start + (end - start) / 2;
                self.range(selector, start, middle, only, take)?;
                self.range(selector, middle + Ms(1), end, only, take)
            }
            Err(failure) => Err(failure.into()),
        }
    }

    fn give(&mut self, mut batch: Batch, only: Option<&Labels>, take: &mut Take<'_>) -> Result<(), End> {
        if let Some(labels) = only {
            // A selector fits series that have more labels, too.
            let is_it: Vec<bool> =
                batch.series.iter().map(|series| matches!(series, Ok(series) if series.labels == *labels)).collect();
            batch.samples.retain(|sample| matches!(sample, Ok(sample) if is_it[sample.series as usize]));
        }
        if batch.samples.is_empty() {
            return Ok(());
        }
        for series in batch.series.iter().flatten().filter(|series| only.is_none_or(|only| series.labels == *only)) {
            self.seen.insert(series.labels.clone());
        }
        take(&batch).map_err(End::Writer)
    }

    fn cells(&self, selector: &str, start: WallMs, end: WallMs) -> Result<Batch, Failure> {
        let [start, end] = [start, end].map(seconds);
        let params = [("match[]", selector), ("start", &*start), ("end", &*end)];
        let frame = self.session.get("/v1/cells", &params, FRAME)?;
        Batch::decode_wide(&frame).map_err(|error| Failure::Unreachable(format!("the answer of the server: {error}")))
    }
}

fn is_too_much(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused { status: 413 | 422, .. })
}

fn seconds(time: WallMs) -> String {
    format!("{}.{:03}", time.to_secs(), time.0.rem_euclid(1000))
}

/// Matchers as a selector.
fn written<'m>(matchers: impl Iterator<Item = &'m Matcher>) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"));
    let all: Vec<String> = matchers
        .map(|matcher| {
            let operator = matcher.op.as_str();
            format!("{}{operator}{}", quoted(&matcher.name), quoted(&matcher.value))
        })
        .collect();
    format!("{{{}}}", all.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_that_is_written_is_the_one_that_was_read() {
        for text in ["up{job=\"a\\\"b\\\\\\n\"}", "{__name__=~\"a|b\",\"x.y\"!=\"ä\"}", "{a!~\"c.*\",__name__=\"b\"}"]
        {
            let matchers = |text: &str| ogive_query::parse_plain_selector(text).unwrap();
            let all = matchers(text);
            assert_eq!(matchers(&written(all.iter())), all, "{text}");
        }
        assert_eq!([seconds(WallMs(1_700_000_000_007)), seconds(WallMs(-1))], ["1700000000.007", "-1.999"]);
    }
}
