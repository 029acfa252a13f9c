//! Classic histograms (`_bucket`, `_sum`, `_count`) as native ones with custom bounds: `load_with_nhcb`.

use std::collections::BTreeMap;

use ogive_hist::{Histogram, Scheme};
use ogive_model::{Labels, METRIC_NAME};

use super::store::{Sample, Stored};

/// What is known of one histogram at one time. Buckets are cumulative, by the order of their bounds' bits.
#[derive(Default)]
struct Classic {
    buckets: Vec<(f64, f64)>,
    count: Option<f64>,
    sum: f64,
}

/// The native forms of all classic histograms among `series`.
pub(crate) fn converted(
    series: &BTreeMap<Labels, BTreeMap<i64, Sample>>,
) -> Result<BTreeMap<Labels, BTreeMap<i64, Sample>>, String> {
    let mut found: BTreeMap<Labels, BTreeMap<i64, Classic>> = BTreeMap::new();
    for (labels, samples) in series {
        let name = labels.metric_name();
        let Some((base, part)) = name.rsplit_once('_') else { continue };
        let bound = labels.get("le").parse::<f64>().ok().filter(|bound| !bound.is_nan());
        if !matches!((part, bound), ("bucket", Some(_)) | ("count" | "sum", _)) {
            continue;
        }
        let key = labels.with("le", "").with(METRIC_NAME, base);
        for (time, (value, _)) in samples {
            let Stored::Float(value) = value else { continue };
            let classic = found.entry(key.clone()).or_default().entry(*time).or_default();
            match (part, bound) {
                ("bucket", Some(bound)) => classic.buckets.push((bound, *value)),
                ("count", _) => classic.count = Some(*value),
                _ => classic.sum = *value,
            }
        }
    }
    let native = |classic: Classic| classic.native().map(|value| (Stored::Histogram(Box::new(value)), 0));
    let series = |samples: BTreeMap<i64, Classic>| {
        samples.into_iter().map(|(time, classic)| Ok((time, native(classic)?))).collect::<Result<_, String>>()
    };
    found.into_iter().map(|(labels, samples)| Ok((labels, series(samples)?))).collect()
}

impl Classic {
    fn native(mut self) -> Result<Histogram<f64>, String> {
        self.buckets.sort_by(|left, right| left.0.total_cmp(&right.0));
        let last = self.buckets.last().map_or(0.0, |(_, count)| *count);
        let total = self.count.unwrap_or(last);
        if self.buckets.last().is_none_or(|(bound, _)| *bound != f64::INFINITY) {
            self.buckets.push((f64::INFINITY, total));
        }
        let bounds = self.buckets.iter().map(|(bound, _)| *bound).filter(|bound| *bound != f64::INFINITY).collect();
        let mut out = Histogram::new(Scheme::Custom { bounds });
        let mut below = 0.0;
        for (index, (bound, count)) in (0..).zip(&self.buckets) {
            if *count < below {
                return Err(format!("the bucket up to {bound} holds {count}, less than {below} below it"));
            }
            if *count > below {
                out.positive.push(index, count - below);
            }
            below = *count;
        }
        if below != total {
            return Err(format!("the last bucket holds {below} and the count is {total}"));
        }
        out.count = total;
        out.sum = Some(self.sum);
        Ok(out)
    }
}
