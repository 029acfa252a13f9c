//! Counter reset hints as a Prometheus store gives them back.
//!
//! A sample behind the first of a chunk goes on from the one before it. A gauge, a reset, or another scheme begins a
//! new chunk, whose first sample has no hint, unless its sender gave one (github.com/prometheus/prometheus, issue
//! 15346).

use std::collections::BTreeMap;

use ogive_hist::{Bins, CounterReset, Histogram};

use super::store::{Sample, Stored};

/// Sets the hints of a series' histograms.
pub(crate) fn rewrite(samples: &mut BTreeMap<i64, Sample>) {
    let mut before: Option<Box<Histogram<f64>>> = None;
    for (value, _) in samples.values_mut() {
        let Stored::Histogram(histogram) = value else {
            before = None;
            continue;
        };
        histogram.reset = hint(before.as_deref(), histogram);
        before = Some(histogram.clone());
    }
}

fn hint(before: Option<&Histogram<f64>>, now: &Histogram<f64>) -> CounterReset {
    if matches!(now.reset, CounterReset::Gauge | CounterReset::Reset) {
        return now.reset;
    }
    let Some(before) = before else { return CounterReset::Unknown };
    if before.reset == CounterReset::Gauge {
        return CounterReset::Unknown;
    }
    let fell = now.count < before.count
        || now.zero < before.zero
        || any_fell(&before.positive, &now.positive)
        || any_fell(&before.negative, &now.negative);
    // A new chunk says nothing of the one before it, even when a reset made it begin.
    let new_chunk = fell || now.scheme != before.scheme || now.zero_threshold != before.zero_threshold;
    if new_chunk { CounterReset::Unknown } else { CounterReset::NotReset }
}

fn any_fell(before: &Bins<f64>, now: &Bins<f64>) -> bool {
    before.iter().any(|(index, count)| now.get(index) < count)
}
