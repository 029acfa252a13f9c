//! Cases: lines, and what the filters of a file make of them. `ogive filter test` runs them.

use crate::case::{Case, Lines, Stored};
use crate::outgoing::Part;
use crate::stage::{Filtered, Stage};
use ogive_model::{
    Batch, Exemplar, Kind, Labels, METRIC_NAME, MonoNs, Sample, SeriesDef, SeriesMeta, Temporality, Tenant, Value,
};

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was compared.
    pub what: String,
    /// As the case has it.
    pub expected: String,
    /// The actual value.
    pub found: String,
}

/// The time of the lines in cases.
const TIME_NS: i64 = 1_700_000_000_500_000_000;

impl Case {
    /// Runs it; empty when everything is as expected.
    ///
    /// # Errors
    /// A sentence when the case cannot be run.
    pub fn run(&self, stage: &Stage) -> Result<Vec<Failure>, String> {
        let labels = self.labels.iter().map(|(name, value)| (&**name, &**value));
        let name = (!self.labels.contains_key(METRIC_NAME)).then_some((METRIC_NAME, "log"));
        let labels = Labels::new(labels.chain(name)).map_err(|error| error.to_string())?;
        let lines = match &self.line {
            Lines::One(line) => std::slice::from_ref(line),
            Lines::More(lines) => lines,
        };
        let first = lines.first().ok_or("a case has a line")?;
        if !self.at.is_empty() && self.at.len() != lines.len() {
            return Err(format!("at has {} seconds for {} lines", self.at.len(), lines.len()));
        }
        // Each case begins without sessions.
        stage.forget_sessions();
        let mut failures = Failures::default();
        let (_, fields) = stage.explain(labels.clone(), first.clone());
        for (name, expected) in &self.fields {
            failures.compare(&format!("the field {name}"), expected, fields.get(name).unwrap_or("(none)"));
        }
        let parts = match stage.apply(self.batch(&labels, lines), MonoNs(0)) {
            Filtered::Changed(parts) => parts,
            Filtered::Untouched(batch) => {
                vec![Part { origins: vec![None; batch.samples.len()], known: Vec::new(), batch }]
            }
            Filtered::Unknown(_) => return Err("a case names no series by their identity".into()),
        };
        self.compare_lines(&parts, &mut failures);
        self.compare_cells(&parts, &mut failures);
        Ok(failures.0)
    }

    fn batch(&self, labels: &Labels, lines: &[String]) -> Batch {
        let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        let sample = |(at, line): (usize, &String)| {
            let after_ns = self.at.get(at).map_or(at as i64 * 1_000_000, |seconds| (seconds * 1e9).round() as i64);
            let time_ns = TIME_NS.saturating_add(after_ns);
            Ok(Sample { series: 0, time_ns, start_ns: None, value: Value::Text(line.clone()) })
        };
        Batch {
            series: vec![Ok(SeriesDef { labels: labels.clone(), meta })],
            samples: lines.iter().enumerate().map(sample).collect(),
            ..Batch::default()
        }
    }

    fn compare_lines(&self, parts: &[Part], failures: &mut Failures) {
        let found: Vec<_> = samples(parts)
            .filter_map(|(tenant, series, sample)| match &sample.value {
                Value::Text(text) if Exemplar::explained(&series.labels).is_none() => {
                    Some((tenant, &series.labels, &**text))
                }
                _ => None,
            })
            .collect();
        let texts: Vec<&str> = found.iter().map(|(.., text)| *text).collect();
        match &self.stored {
            None => {}
            Some(Stored::Any(is_stored)) => failures.compare("whether it is stored", is_stored, !texts.is_empty()),
            Some(Stored::One(text)) => failures.compare("the stored line", [text], texts),
            Some(Stored::More(lines)) => failures.compare("the stored lines", lines, texts),
        }
        for (name, expected) in &self.series {
            let label = found.first().map_or("(nothing is stored)", |(_, labels, _)| labels.get(name));
            failures.compare(&format!("the label {name}"), expected, label);
        }
        if let Some(tenant) = &self.tenant {
            failures.compare(
                "the tenant",
                tenant,
                found.first().map_or("(nothing is stored)", |(tenant, ..)| tenant.as_str()),
            );
        }
    }

    fn compare_cells(&self, parts: &[Part], failures: &mut Failures) {
        for (name, expected) in &self.numbers {
            let mut wanted = ogive_hist::Histogram::log_linear();
            expected.iter().for_each(|number| wanted.record(*number));
            let mut found = ogive_hist::Histogram::log_linear();
            for (_, series, sample) in samples(parts) {
                if let Value::Histogram(histogram) = &sample.value
                    && series.labels.metric_name() == name
                {
                    let _ = found.merge(histogram);
                }
            }
            let shown = |histogram: &ogive_hist::Histogram| {
                let bins: Vec<_> = histogram.buckets().map(|bucket| format!("{bucket:?}")).collect();
                format!("{} numbers, sum {:?} {}", histogram.count, histogram.sum_or_estimate(), bins.join(" "))
            };
            failures.compare(&format!("the numbers {name}"), shown(&wanted), shown(&found));
        }
        for (name, expected) in &self.counts {
            let counted = samples(parts).filter_map(|(_, series, sample)| match sample.value {
                Value::Float(count) if series.labels.metric_name() == name => Some(count),
                _ => None,
            });
            failures.compare(&format!("the count {name}"), expected, counted.fold(0.0, |sum, count| sum + count));
        }
    }
}

/// Every good sample with its tenant and series.
fn samples(parts: &[Part]) -> impl Iterator<Item = (&Tenant, &SeriesDef, &Sample)> {
    parts.iter().flat_map(|Part { batch, .. }| {
        batch.samples.iter().flatten().filter_map(|sample| {
            let series = batch.series.get(sample.series as usize)?.as_ref().ok()?;
            Some((&batch.tenant, series, sample))
        })
    })
}

#[derive(Default)]
struct Failures(Vec<Failure>);

impl Failures {
    fn compare(&mut self, what: &str, expected: impl std::fmt::Debug, found: impl std::fmt::Debug) {
        let (expected, found) = (format!("{expected:?}"), format!("{found:?}"));
        if expected != found {
            self.0.push(Failure { what: what.to_owned(), expected, found });
        }
    }
}
