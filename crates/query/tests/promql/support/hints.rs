//! Counter reset hints as a Prometheus store gives them back.
//!
//! Its chunks remember only how each of them began: the samples behind the first of a chunk go on from the one
//! before them, and a reset that the store finds begins a new chunk.

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
    if now.count < before.count {
        return CounterReset::Reset;
    }
    if now.scheme != before.scheme || now.zero_threshold != before.zero_threshold {
        return CounterReset::Unknown;
    }
    let fell = now.zero < before.zero
        || any_fell(&before.positive, &now.positive)
        || any_fell(&before.negative, &now.negative);
    if fell { CounterReset::Reset } else { CounterReset::NotReset }
}

fn any_fell(before: &Bins<f64>, now: &Bins<f64>) -> bool {
    before.iter().any(|(index, count)| now.get(index) < count)
}
