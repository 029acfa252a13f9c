//! Encodes metric families that a server exposes for scraping: delimited `io.prometheus.client.MetricFamily` messages.
//!
//! Format: `io/prometheus/client/metrics.proto` of github.com/prometheus/client_model; each message is preceded by its
//! length. Histograms are native; those with explicit bounds, for which that message has no native form, are classic.

use ogive_hist::{Histogram, Scheme};
use ogive_model::{HistogramValue, Labels, METRIC_NAME};

use crate::protobuf::write;
use crate::remote_read::native::{Fields, Written, known, put_fields, sum};

/// The label that says which process a series is of. Samples without it have it with an empty value, as Prometheus' own
/// pages do: a scraper that honours labels then puts no other one there.
pub const INSTANCE: &str = "instance";

/// What a family is: codes of `MetricType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FamilyKind {
    /// Counts since some start.
    Counter = 0,
    /// States.
    Gauge = 1,
    /// Nobody said.
    Untyped = 3,
    /// Distributions since some start.
    Histogram = 4,
    /// Distributions that are states.
    GaugeHistogram = 5,
}

/// A sample of a family.
#[derive(Clone, Copy, Debug)]
pub enum FamilyValue<'a> {
    /// A number.
    Float(f64),
    /// A distribution.
    Histogram(&'a HistogramValue),
}

/// Fields of `io.prometheus.client.Histogram`.
const FIELDS: Fields = Fields {
    count: [1, 4],
    sum: 2,
    schema: 5,
    zero_threshold: 6,
    zero: [7, 8],
    negative_spans: 9,
    negative: [10, 11],
    positive_spans: 12,
    positive: [13, 14],
};

/// Appends the family `name` with `samples`: labels, milliseconds since 1970 and value of each.
pub fn put_family<'a>(
    out: &mut Vec<u8>,
    name: &str,
    kind: FamilyKind,
    samples: impl Iterator<Item = (&'a Labels, i64, FamilyValue<'a>)>,
) {
    let mut family = Vec::new();
    write::bytes(&mut family, 1, name.as_bytes());
    write::number(&mut family, 3, kind as u64);
    for (labels, time_ms, value) in samples {
        write::bytes(&mut family, 4, &metric(labels, time_ms, kind, value));
    }
    write::varint(out, family.len() as u64);
    out.extend_from_slice(&family);
}

fn metric(labels: &Labels, time_ms: i64, kind: FamilyKind, value: FamilyValue<'_>) -> Vec<u8> {
    let (mut out, mut part) = (Vec::new(), Vec::new());
    let own = labels.iter().filter(|(name, _)| *name != METRIC_NAME);
    for (name, value) in own.chain(labels.get(INSTANCE).is_empty().then_some((INSTANCE, ""))) {
        part.clear();
        write::bytes(&mut part, 1, name.as_bytes());
        write::bytes(&mut part, 2, value.as_bytes());
        write::bytes(&mut out, 1, &part);
    }
    part.clear();
    let field = match value {
        FamilyValue::Float(value) => {
            write::double(&mut part, 1, value);
            match kind {
                FamilyKind::Counter => 3,
                FamilyKind::Gauge => 2,
                _ => 5,
            }
        }
        FamilyValue::Histogram(HistogramValue::Integer(histogram)) => {
            put_histogram(&mut part, histogram);
            7
        }
        FamilyValue::Histogram(HistogramValue::Float(histogram)) => {
            put_histogram(&mut part, histogram);
            7
        }
    };
    write::bytes(&mut out, field, &part);
    write::number(&mut out, 6, time_ms as u64);
    out
}

fn put_histogram<C: Written>(out: &mut Vec<u8>, histogram: &Histogram<C>) {
    if let Scheme::Custom { bounds } = &histogram.scheme {
        return put_classic(out, histogram, bounds);
    }
    let (schema, histogram) = known(histogram);
    put_fields(out, &FIELDS, schema, &histogram);
    if histogram.zero_threshold == 0.0 && histogram.positive.is_empty() && histogram.negative.is_empty() {
        // Nothing else says of an empty one that it is native: a span of no bins does.
        write::bytes(out, FIELDS.positive_spans, &[]);
    }
}

/// Cumulative counts below each bound.
fn put_classic<C: Written>(out: &mut Vec<u8>, histogram: &Histogram<C>, bounds: &[f64]) {
    histogram.count.put(out, FIELDS.count[C::KIND]);
    write::double(out, FIELDS.sum, sum(histogram));
    let mut total = C::ZERO;
    let mut bucket = Vec::new();
    for (at, bound) in (0..).zip(bounds) {
        total = total.plus(histogram.positive.get(at));
        bucket.clear();
        // The counts of a bucket are fields 1, of integers, and 4, of floats.
        total.put(&mut bucket, FIELDS.count[C::KIND]);
        write::double(&mut bucket, 2, *bound);
        write::bytes(out, 3, &bucket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::{Format, Value, decode};
    use crate::remote_write::Counts;

    fn labels(name: &str) -> Labels {
        Labels::new([("__name__", name), ("job", "a")]).unwrap()
    }

    #[test]
    fn a_scraper_reads_back_what_was_put() {
        let mut whole = Histogram::<u64>::new(Scheme::exp2(3).unwrap());
        [0.001, 0.5, 0.51, -2.0, 0.0, 700.0].iter().for_each(|value| whole.record(*value));
        let empty =
            Histogram::<u64> { sum: Some(0.0), zero_threshold: 0.0, ..Histogram::new(Scheme::exp2(0).unwrap()) };
        let float = whole.to_float();
        let mut out = Vec::new();
        let (plain, native) = (labels("a_total"), labels("rpc_seconds"));
        put_family(&mut out, "a_total", FamilyKind::Counter, [(&plain, 5, FamilyValue::Float(2.5))].into_iter());
        let values = [whole.clone(), empty.clone()]
            .map(HistogramValue::Integer)
            .into_iter()
            .chain([HistogramValue::Float(float)]);
        let values: Vec<HistogramValue> = values.collect();
        let samples = values.iter().map(|value| (&native, 6, FamilyValue::Histogram(value)));
        put_family(&mut out, "rpc_seconds", FamilyKind::Histogram, samples);
        let read = decode(Format::Protobuf, &out).unwrap();
        // Its classic form, of a sum and a count, is read beside a native one.
        let points: Vec<_> = read.points.iter().filter(|point| !point.has_native).collect();
        assert_eq!(points.len(), 4);
        assert!(matches!(&points[0].value, Value::Float(value) if *value == 2.5));
        assert_eq!(points[0].time_ms, Some(5));
        let Value::Histogram(Ok(Counts::Integer(found))) = &points[1].value else { panic!("{:?}", points[1].value) };
        assert_eq!((&found.positive, &found.negative), (&whole.positive, &whole.negative));
        assert_eq!((found.count, found.zero, found.sum, &found.scheme), (6, 1, whole.sum, &whole.scheme));
        let Value::Histogram(Ok(Counts::Integer(found))) = &points[2].value else { panic!("an empty one is native") };
        assert_eq!((found.count, &found.scheme), (0, &empty.scheme));
        let Value::Histogram(Ok(Counts::Float(found))) = &points[3].value else { panic!("{:?}", points[3].value) };
        assert_eq!((&found.positive, found.count, found.sum), (&whole.to_float().positive, 6.0, whole.sum));
    }

    #[test]
    fn explicit_bounds_are_classic_buckets() {
        let mut custom = Histogram::<u64>::new(Scheme::custom([1.0, 10.0]).unwrap());
        [0.5, 5.0, 6.0, 11.0].iter().for_each(|value| custom.record(*value));
        let (mut out, name) = (Vec::new(), labels("size"));
        let value = HistogramValue::Integer(custom);
        put_family(&mut out, "size", FamilyKind::Histogram, [(&name, 5, FamilyValue::Histogram(&value))].into_iter());
        let read = decode(Format::Protobuf, &out).unwrap();
        let reported: Vec<String> = read
            .points
            .iter()
            .map(|point| {
                let labels = point.series.labels();
                let of =
                    |name: &str| labels.iter().find(|label| label.0 == name).map_or("", |label| &*label.1).to_owned();
                let Value::Float(value) = point.value else { panic!("{:?}", point.value) };
                format!("{} {} {value}", of("__name__"), of("le"))
            })
            .collect();
        for line in ["size_bucket 1.0 1", "size_bucket 10.0 3", "size_bucket +Inf 4", "size_sum  22.5", "size_count  4"]
        {
            assert!(reported.contains(&line.to_owned()), "{line} is not in {reported:?}");
        }
    }
}
