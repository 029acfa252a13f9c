//! When what a rule or an expression gives is what was expected.

use std::collections::BTreeMap;

use ogive_hist::{Bins, Histogram};
use ogive_model::Labels;
use ogive_query::value;

use super::file::{ExpectedAlert, ExpectedSample};
use super::notation;
use crate::rules::alert::Alert;
use ogive_query::points::{self, Point};

/// Labels and annotations of an alert, to be compared and shown.
pub(crate) type AlertText = (BTreeMap<String, String>, BTreeMap<String, String>);

/// The expected alert; a test does not state the label `alertname`.
pub(crate) fn expected_alert(expected: &ExpectedAlert, alert: &str) -> AlertText {
    let mut labels = expected.exp_labels.clone();
    labels.insert("alertname".to_owned(), alert.to_owned());
    (labels, expected.exp_annotations.clone())
}

/// The actual alert.
pub(crate) fn found_alert(alert: &Alert) -> AlertText {
    let labels = alert.labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    (labels, alert.annotations.iter().cloned().collect())
}

/// The lines that show an alert.
pub(crate) fn alert_lines(alert: &AlertText) -> Vec<String> {
    let braced = |pairs: &BTreeMap<String, String>| {
        let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        format!("{{{}}}", pairs.join(", "))
    };
    vec![format!("Labels:{}", braced(&alert.0)), format!("Annotations:{}", braced(&alert.1))]
}

/// A sample, to be compared and shown.
pub(crate) struct SampleText {
    pub(crate) labels: Labels,
    pub(crate) value: Point,
}

impl SampleText {
    /// The expected sample.
    pub(crate) fn expected(expected: &ExpectedSample) -> Result<Self, String> {
        let text = expected.labels.as_deref().unwrap_or("");
        // A missing text means no labels.
        let labels = if text.is_empty() { Ok(Labels::empty()) } else { notation::labels(text) };
        let labels = labels.map_err(|error| format!("labels {text:?}: {error}"))?;
        let value = match expected.histogram.as_deref().filter(|text| !text.is_empty()) {
            None => Point::Float(expected.value.unwrap_or(0.0)),
            Some(text) => {
                match points::parse(text).map_err(|error| format!("histogram {text:?}: {error}"))?.as_slice() {
                    [point @ Point::Histogram(..)] => point.clone(),
                    _ => return Err(format!("histogram {text:?}: expected one histogram")),
                }
            }
        };
        Ok(Self { labels, value })
    }

    /// The actual sample.
    pub(crate) fn found(labels: &Labels, value: &value::Point) -> Self {
        let value = match value {
            value::Point::Float(value) => Point::Float(*value),
            value::Point::Histogram(histogram) => Point::Histogram(Box::new((**histogram).clone()), false),
        };
        Self { labels: labels.clone(), value }
    }

    /// Whether they are the same.
    pub(crate) fn is(&self, found: &Self, fuzzy: bool) -> bool {
        self.labels == found.labels
            && match (&self.value, &found.value) {
                (Point::Float(a), Point::Float(b)) => a == b || (fuzzy && (a.next_up() == *b || a.next_down() == *b)),
                (Point::Histogram(a, hinted), Point::Histogram(b, _)) => histogram(a, *hinted, b),
                _ => false,
            }
    }

    /// The line that shows it.
    pub(crate) fn line(&self) -> String {
        let value = match &self.value {
            Point::Float(value) => format!("{value:E}"),
            Point::Histogram(histogram, _) => format!("{histogram:?}"),
            Point::Missing => "_".to_owned(),
        };
        format!("{} {value}", self.labels)
    }
}

/// Whether two histograms are the same; empty bins do not count, nor a counter reset that the test does not name.
fn histogram(wanted: &Histogram<f64>, hinted: bool, got: &Histogram<f64>) -> bool {
    wanted.scheme == got.scheme
        && wanted.zero_threshold == got.zero_threshold
        && wanted.count == got.count
        && wanted.sum.unwrap_or(0.0) == got.sum.unwrap_or(0.0)
        && wanted.zero == got.zero
        && bins(&wanted.positive, &got.positive)
        && bins(&wanted.negative, &got.negative)
        && (!hinted || wanted.reset == got.reset)
}

fn bins(wanted: &Bins<f64>, got: &Bins<f64>) -> bool {
    let full = |bins: &Bins<f64>| bins.iter().filter(|(_, count)| *count != 0.0).collect::<Vec<_>>();
    full(wanted) == full(got)
}
