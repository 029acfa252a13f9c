//! Encodes requests: `ExportMetricsServiceRequest` from series.
//!
//! Format: opentelemetry-proto, `collector/metrics/v1`. `job` becomes `service.name` (`NAMESPACE/NAME` becomes
//! `service.namespace` too) and `instance` becomes `service.instance.id`, attributes of a resource; the other labels
//! are those of the points. Values counted since a start become a cumulative sum or histogram, cells deltas, states
//! gauges. A sum is monotonic unless one of its values is negative. A distribution with base-2 bins keeps its scale,
//! one with explicit bounds its bounds; others are converted to scale [`SCALE`].
//! Invariants: OTLP has no gauge of distributions and no fractions of observations: such samples are left out, and
//! counted.
//! Limits: [`BINS_MAX`] bins of a sign, which the format writes including the empty ones between; a wider distribution
//! gets a lower scale.

use std::collections::BTreeMap;

use ogive_hist::{Bins, Histogram, Scheme};
use ogive_model::{HistogramValue, Kind, Labels, METRIC_NAME, SeriesData, Temporality};

use crate::protobuf::write;

/// Bins 4.4 % wide, as remote write gets them.
const SCALE: i32 = 4;
/// 2,048 bins: 128 powers of two at [`SCALE`]; collectors keep 160 and lower the scale themselves.
const BINS_MAX: i64 = 2_048;
/// The lowest scale that OTLP's receivers take.
const SCALE_LEAST: i32 = -10;
/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;

/// A request, and how many samples are not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The message; empty when no sample is in it.
    pub body: Vec<u8>,
    /// Samples that OTLP has no form for.
    pub unfit: u32,
}

/// The request that writes the numbers and distributions of `series`; texts are left out.
#[must_use]
pub fn write(series: &[SeriesData]) -> Written {
    let (mut resources, mut unfit) = (BTreeMap::<[&str; 2], Vec<u8>>::new(), 0);
    for one in series {
        let (metric, left_out) = metric(one);
        unfit += left_out;
        if let Some(metric) = metric {
            let labels = ["job", "instance"].map(|name| one.labels.get(name));
            write::bytes(resources.entry(labels).or_default(), 2, &metric);
        }
    }
    let mut body = Vec::new();
    for (labels, scope) in resources {
        let mut out = Vec::new();
        write::bytes(&mut out, 1, &resource(labels));
        write::bytes(&mut out, 2, &scope);
        write::bytes(&mut body, 1, &out);
    }
    Written { body, unfit }
}

fn resource([job, instance]: [&str; 2]) -> Vec<u8> {
    let mut out = Vec::new();
    let (namespace, name) = job.split_once('/').unwrap_or(("", job));
    for (key, value) in [("service.namespace", namespace), ("service.name", name), ("service.instance.id", instance)] {
        if !value.is_empty() {
            write::bytes(&mut out, 1, &attribute(key, value));
        }
    }
    out
}

/// A `KeyValue` with a text.
fn attribute(key: &str, value: &str) -> Vec<u8> {
    let (mut out, mut any) = (Vec::new(), Vec::new());
    write::bytes(&mut any, 1, value.as_bytes());
    write::bytes(&mut out, 1, key.as_bytes());
    write::bytes(&mut out, 2, &any);
    out
}

/// The metric of a series, if it has points, and how many of its samples are none.
fn metric(series: &SeriesData) -> (Option<Vec<u8>>, u32) {
    let (field, data, unfit) = match series.meta.kind {
        Kind::Float => numbers(series),
        Kind::Histogram => distributions(series),
        Kind::Text => return (None, 0),
    };
    if data.is_empty() {
        return (None, unfit);
    }
    let mut out = Vec::new();
    write::bytes(&mut out, 1, series.labels.metric_name().as_bytes());
    if !series.meta.unit.is_empty() {
        write::bytes(&mut out, 3, series.meta.unit.as_bytes());
    }
    write::bytes(&mut out, field, &data);
    (Some(out), unfit)
}

/// The labels that are no attributes of the resource.
fn attributes(out: &mut Vec<u8>, field: u32, labels: &Labels) {
    for (name, value) in labels.iter().filter(|(name, _)| ![METRIC_NAME, "job", "instance"].contains(name)) {
        write::bytes(out, field, &attribute(name, value));
    }
}

fn fixed64(out: &mut Vec<u8>, field: u32, value: u64) {
    write::varint(out, u64::from(field) << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Nanoseconds of a time of the store; what is before 1970 is not known to OTLP.
fn ns(time_ms: i64) -> u64 {
    u64::try_from(time_ms).unwrap_or(0).saturating_mul(MS)
}

/// When the sample at `row` began: as it was sent, or a cell's width before its end; 0 when that is not known.
fn start_ns(series: &SeriesData, starts: &[i64], row: usize, time_ms: i64) -> u64 {
    match (starts.get(row).copied().unwrap_or(0), series.meta.temporality) {
        (_, Temporality::Gauge) => 0,
        (start, _) if start > 0 => ns(start),
        (_, Temporality::Delta) if series.meta.width_ms > 0 => ns(time_ms - i64::from(series.meta.width_ms)),
        _ => 0,
    }
}

fn aggregation(temporality: Temporality) -> u64 {
    match temporality {
        Temporality::Gauge => 0,
        Temporality::Delta => 1,
        Temporality::Cumulative => 2,
    }
}

fn numbers(series: &SeriesData) -> (u32, Vec<u8>, u32) {
    let (mut out, floats) = (Vec::new(), &series.floats);
    for (row, (time, value)) in floats.times.iter().zip(&floats.values).enumerate() {
        let mut point = Vec::new();
        times(&mut point, start_ns(series, &floats.starts, row, *time), *time);
        write::double(&mut point, 4, *value);
        attributes(&mut point, 7, &series.labels);
        write::bytes(&mut out, 1, &point);
    }
    if out.is_empty() || series.meta.temporality == Temporality::Gauge {
        return (5, out, 0);
    }
    write::number(&mut out, 2, aggregation(series.meta.temporality));
    let is_monotonic = !floats.values.iter().any(|value| *value < 0.0);
    write::number(&mut out, 3, u64::from(is_monotonic));
    (7, out, 0)
}

fn times(out: &mut Vec<u8>, start_ns: u64, time_ms: i64) {
    if start_ns > 0 {
        fixed64(out, 2, start_ns);
    }
    fixed64(out, 3, ns(time_ms));
}

fn distributions(series: &SeriesData) -> (u32, Vec<u8>, u32) {
    let (mut out, mut unfit, histograms) = (Vec::new(), 0, &series.histograms);
    let is_explicit = histograms.values.iter().any(|value| {
        matches!(value, HistogramValue::Integer(histogram) if matches!(histogram.scheme, Scheme::Custom { .. }))
    });
    for (row, (time, value)) in histograms.times.iter().zip(&histograms.values).enumerate() {
        let start_ns = start_ns(series, &histograms.starts, row, *time);
        let point = match value {
            _ if series.meta.temporality == Temporality::Gauge => None,
            HistogramValue::Float(_) => None,
            HistogramValue::Integer(histogram) => point(histogram, start_ns, *time, &series.labels, is_explicit),
        };
        match point {
            Some(point) => write::bytes(&mut out, 1, &point),
            None => unfit += 1,
        }
    }
    if !out.is_empty() {
        write::number(&mut out, 2, aggregation(series.meta.temporality));
    }
    (if is_explicit { 9 } else { 10 }, out, unfit)
}

/// A point of the metric's shape; none when the distribution has the other one.
fn point(
    histogram: &Histogram<u64>,
    start_ns: u64,
    time_ms: i64,
    labels: &Labels,
    is_explicit: bool,
) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    times(&mut out, start_ns, time_ms);
    match (&histogram.scheme, is_explicit) {
        (Scheme::Custom { bounds }, true) => {
            attributes(&mut out, 9, labels);
            let counts: Vec<u64> = (0..=bounds.len() as i32).map(|index| histogram.positive.get(index)).collect();
            totals(&mut out, histogram, counts.iter().sum());
            let packed = |values: &mut dyn Iterator<Item = [u8; 8]>| values.flatten().collect::<Vec<u8>>();
            write::bytes(&mut out, 6, &packed(&mut counts.iter().map(|count| count.to_le_bytes())));
            write::bytes(&mut out, 7, &packed(&mut bounds.iter().map(|bound| bound.to_le_bytes())));
            extremes(&mut out, [11, 12], histogram);
        }
        (Scheme::Custom { .. }, false) | (_, true) => return None,
        _ => {
            let (scale, histogram) = narrowed(histogram);
            attributes(&mut out, 1, labels);
            let sides = histogram.positive.total() + histogram.negative.total();
            totals(&mut out, &histogram, histogram.zero + sides);
            write::signed(&mut out, 6, i64::from(scale));
            fixed64(&mut out, 7, histogram.zero);
            for (field, bins) in [(8, &histogram.positive), (9, &histogram.negative)] {
                if !bins.is_empty() {
                    write::bytes(&mut out, field, &buckets(bins));
                }
            }
            extremes(&mut out, [12, 13], &histogram);
            write::double(&mut out, 14, histogram.zero_threshold);
        }
    }
    Some(out)
}

/// Count and sum: of those that are in bins, since a count that its bins do not add up to is refused. A sum that has
/// something else in it too is not known.
fn totals(out: &mut Vec<u8>, histogram: &Histogram<u64>, binned: u64) {
    fixed64(out, 4, binned);
    if let Some(sum) = histogram.sum.filter(|_| histogram.nan == 0) {
        write::double(out, 5, sum);
    }
}

fn extremes(out: &mut Vec<u8>, fields: [u32; 2], histogram: &Histogram<u64>) {
    for (field, value) in fields.into_iter().zip([histogram.min, histogram.max]) {
        if let Some(value) = value {
            write::double(out, field, value);
        }
    }
}

/// The distribution in base-2 bins of which there are not too many, and their scale.
fn narrowed(histogram: &Histogram<u64>) -> (i32, Histogram<u64>) {
    let (mut scale, mut out) = match histogram.scheme {
        Scheme::Exp2 { scale } => (i32::from(scale), histogram.clone()),
        _ => (SCALE, histogram.convert(&exp2(SCALE)).0),
    };
    let width = |bins: &Bins<u64>| match (bins.indexes().first(), bins.indexes().last()) {
        (Some(first), Some(last)) => i64::from(*last) - i64::from(*first) + 1,
        _ => 0,
    };
    let mut shift = 0;
    while scale - shift > SCALE_LEAST && width(&out.positive).max(width(&out.negative)) >> shift >= BINS_MAX {
        shift += 1;
    }
    if shift > 0 {
        scale -= shift;
        out = out.convert(&exp2(scale)).0;
    }
    (scale, out)
}

fn exp2(scale: i32) -> Scheme {
    Scheme::exp2(scale).expect("scales from -10 to 20 are schemes")
}

/// `Buckets`: the first bin's index, one lower than here, and the counts of all up to the last one.
fn buckets(bins: &Bins<u64>) -> Vec<u8> {
    let (first, last) = (bins.indexes()[0], *bins.indexes().last().expect("there is a first"));
    assert!(i64::from(last) - i64::from(first) <= 2 * BINS_MAX, "{first}..={last} was narrowed");
    let mut out = Vec::new();
    write::signed(&mut out, 1, i64::from(first) - 1);
    let mut packed = Vec::new();
    (first..=last).for_each(|index| write::varint(&mut packed, bins.get(index)));
    write::bytes(&mut out, 2, &packed);
    out
}

#[cfg(test)]
mod tests {
    use ogive_model::{FloatColumn, SeriesMeta, SourceId, Tenant, TextColumn, Value};

    use super::*;
    use crate::otlp::{Context, Options, read_metrics};

    fn series(name: &str, kind: Kind, temporality: Temporality) -> SeriesData {
        let meta = SeriesMeta { kind, temporality, unit: String::new(), width_ms: 1_000 };
        SeriesData::new(Labels::new([("__name__", name), ("job", "shop/cart"), ("route", "/a")]).unwrap(), meta)
    }

    fn with(temporality: Temporality, histogram: &Histogram<u64>) -> SeriesData {
        let mut out = series("cells_seconds", Kind::Histogram, temporality);
        out.histograms.times.push(3_000);
        out.histograms.values.push(HistogramValue::Integer(histogram.clone()));
        out
    }

    fn recorded(scheme: Scheme, values: &[f64]) -> Histogram<u64> {
        let mut out = Histogram::new(scheme);
        values.iter().for_each(|value| out.record(*value));
        out
    }

    /// What our own reader takes a request for: time, start, temporality and value of each sample.
    fn read(body: &[u8]) -> Vec<(i64, Option<i64>, Temporality, Value)> {
        let (tenant, options) = (Tenant::default(), Options::default());
        let context =
            Context { tenant: &tenant, source: SourceId(1), sequence: 1, options: &options, known: None, now_ns: 0 };
        let read = read_metrics(body, &context).unwrap();
        let named = |name: &str| name == "cells_seconds" || name.starts_with("level") || name.starts_with("done");
        let of = |sample: &ogive_model::Sample| {
            let def = read.batch.series[sample.series as usize].as_ref().unwrap();
            named(def.labels.metric_name()).then(|| {
                assert_eq!((def.labels.get("job"), def.labels.get("route")), ("shop/cart", "/a"));
                (sample.time_ms(), sample.start_ns, def.meta.temporality, sample.value.clone())
            })
        };
        read.batch.samples.iter().filter_map(|sample| of(sample.as_ref().unwrap())).collect()
    }

    #[test]
    fn numbers_are_read_as_they_were_meant() {
        let mut level = series("level", Kind::Float, Temporality::Gauge);
        level.floats = FloatColumn { times: vec![1_000, 2_000], values: vec![1.5, -2.0], ..FloatColumn::default() };
        let mut done = series("done", Kind::Float, Temporality::Cumulative);
        done.floats =
            FloatColumn { times: vec![2_000], values: vec![7.0], starts: vec![500], ..FloatColumn::default() };
        let written = write(&[level, done]);
        let found = read(&written.body);
        assert_eq!(written.unfit, 0);
        assert_eq!(found[0], (1_000, None, Temporality::Gauge, Value::Float(1.5)));
        assert_eq!(found[1].3, Value::Float(-2.0));
        assert_eq!(found[2], (2_000, Some(500_000_000), Temporality::Cumulative, Value::Float(7.0)));
    }

    #[test]
    fn distributions_keep_their_bins_where_the_format_has_them() {
        let values = [0.5, 0.5, 2.0, -1.0, 0.0, 1e-9];
        let exponential = recorded(Scheme::exp2(3).unwrap(), &values);
        let explicit = recorded(Scheme::custom(vec![1.0, 2.5]).unwrap(), &values);
        for histogram in [&exponential, &explicit] {
            let found = read(&write(&[with(Temporality::Delta, histogram)]).body);
            let (time, start, temporality, Value::Histogram(read)) = &found[0] else { panic!("{found:?}") };
            assert_eq!((*time, *start, *temporality), (3_000, Some(2_000_000_000), Temporality::Delta));
            assert_eq!(
                (&read.positive, &read.negative, read.zero),
                (&histogram.positive, &histogram.negative, histogram.zero)
            );
            assert_eq!((read.sum, read.min, read.max, read.count), (histogram.sum, histogram.min, histogram.max, 6));
        }
        let decimal = recorded(Scheme::LogLinear10, &values);
        let found = read(&write(&[with(Temporality::Cumulative, &decimal)]).body);
        let (_, _, Temporality::Cumulative, Value::Histogram(read)) = &found[0] else { panic!("{found:?}") };
        assert_eq!((&read.scheme, read.total(), read.sum), (&exp2(SCALE), 6, decimal.sum));
    }

    /// The format writes each bin between the first and the last one: of two far ones at a high scale a thousand
    /// million.
    #[test]
    fn far_bins_get_a_lower_scale_and_no_observation_is_lost() {
        let far = recorded(Scheme::exp2(20).unwrap(), &[1e-300, 1.0, 1e300, -3.0]);
        let written = write(&[with(Temporality::Delta, &far)]);
        assert!(written.body.len() < 20_000, "{} bytes", written.body.len());
        let found = read(&written.body);
        let Value::Histogram(read) = &found[0].3 else { panic!("{found:?}") };
        assert_eq!((read.total(), read.negative.total(), read.sum), (4, 1, far.sum));
    }

    #[test]
    fn what_the_format_has_no_form_for_is_counted() {
        let histogram = recorded(Scheme::exp2(3).unwrap(), &[1.0]);
        let mut floats = series("cells_seconds", Kind::Histogram, Temporality::Delta);
        floats.histograms.times.push(1_000);
        floats.histograms.values.push(HistogramValue::Float(Histogram::new(Scheme::exp2(3).unwrap())));
        let mut text = series("log", Kind::Text, Temporality::Gauge);
        text.texts = TextColumn { times: vec![1], values: vec!["a".into()] };
        let all = [with(Temporality::Gauge, &histogram), floats, text];
        assert_eq!(write(&all), Written { body: Vec::new(), unfit: 2 });
        // Observations that are no number are in the count of a cell and in no bin of it.
        let mut strange = histogram;
        strange.record(f64::NAN);
        let found = read(&write(&[with(Temporality::Delta, &strange)]).body);
        let Value::Histogram(read) = &found[0].3 else { panic!("{found:?}") };
        assert_eq!(read.count, 1);
    }
}
