//! Requests are decoded, and responses can be decoded again.

use ogive_hist::{CounterReset, Histogram, Scheme};
use ogive_model::{
    HistogramValue, Kind, Labels, SeriesData, SeriesMeta, SourceId, Temporality, Tenant, TimeRange, Value,
};
use proptest::prelude::*;

use super::*;
use crate::protobuf::write;
use crate::remote_write::v1;

pub(super) fn series(labels: &[(&str, &str)], kind: Kind, temporality: Temporality) -> SeriesData {
    SeriesData {
        labels: Labels::new(labels.iter().copied()).unwrap(),
        meta: SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 },
        floats: Default::default(),
        histograms: Default::default(),
        texts: Default::default(),
        rollup_ms: 0,
    }
}

fn queries_of(message: &[u8]) -> Result<Vec<Query>, Error> {
    request(message).map(|request| request.queries)
}

/// An answer's first result is laid out as a write request: what is read there was written here.
fn read_back(series: &[SeriesData]) -> Vec<(String, i64, Value)> {
    let mut answer = Answer::default();
    answer.push(series);
    let (1, result) = Fields::new(answer.bytes()).next().unwrap().unwrap() else { panic!() };
    let read = v1::read(result.bytes("it").unwrap(), &Tenant::default(), SourceId(1), 1, None, |_| {}).unwrap();
    let name = |at: u32| read.batch.series[at as usize].as_ref().unwrap().labels.to_string();
    let samples = read.batch.samples.iter().map(|sample| sample.as_ref().unwrap());
    samples.map(|one| (name(one.series), one.time_ns / 1_000_000, one.value.clone())).collect()
}

#[test]
fn floats_and_histograms_come_back() {
    let labels = [("__name__", "a"), ("job", "x")];
    let mut floats = series(&labels, Kind::Float, Temporality::Gauge);
    floats.floats.times = vec![5, 6];
    floats.floats.values = vec![0.5, f64::from_bits(0x7ff0_0000_0000_0002)];
    let mut whole = Histogram::new(Scheme::exp2(3).unwrap());
    [0.001, 0.5, 0.51, -2.0, 0.0, 700.0].iter().for_each(|value| whole.record(*value));
    let mut custom = Histogram::<f64>::new(Scheme::custom([1.0, 10.0]).unwrap());
    custom.record_n(5.0, 2.5);
    custom.record_n(500.0, 1.5);
    let mut histograms = series(&labels, Kind::Histogram, Temporality::Cumulative);
    histograms.histograms.times = vec![5, 6];
    histograms.histograms.values = vec![HistogramValue::Integer(whole.clone()), HistogramValue::Float(custom.clone())];
    let texts = series(&[("__name__", "b")], Kind::Text, Temporality::Gauge);
    let back = read_back(&[floats, histograms, texts]);
    assert_eq!(back.len(), 4);
    assert!(back.iter().all(|one| one.0 == "a{job=\"x\"}"), "{back:?}");
    assert_eq!((back[0].1, &back[0].2), (5, &Value::Float(0.5)));
    assert!(matches!(back[1].2, Value::Float(value) if value.to_bits() == 0x7ff0_0000_0000_0002));
    let Value::Histogram(read) = &back[2].2 else { panic!("{back:?}") };
    assert_eq!((&read.positive, &read.negative, read.zero, read.count), (&whole.positive, &whole.negative, 1, 6));
    assert_eq!(read.sum, whole.sum);
    let Value::FloatHistogram(read) = &back[3].2 else { panic!("{back:?}") };
    assert_eq!((&read.positive, read.count, &read.scheme), (&custom.positive, 4.0, &custom.scheme));
}

#[test]
fn cells_come_as_states_in_a_scheme_that_prometheus_knows() {
    let mut cell = Histogram::log_linear();
    (1..=1_000).for_each(|value| cell.record(f64::from(value)));
    let mut cells = series(&[("__name__", "a")], Kind::Histogram, Temporality::Delta);
    cells.histograms.times = vec![5];
    cells.histograms.values = vec![HistogramValue::Integer(cell.clone())];
    let back = read_back(&[cells]);
    let Value::Histogram(read) = &back[0].2 else { panic!("{back:?}") };
    assert_eq!((read.count, read.sum, read.reset), (1_000, cell.sum, CounterReset::Gauge));
    assert_eq!(read.scheme, Scheme::exp2(4).unwrap());
}

#[test]
fn a_request_is_read_and_its_rules_are_kept() {
    let matcher = |code: u64, name: &str, value: &str| {
        let mut out = Vec::new();
        write::number(&mut out, 1, code);
        write::bytes(&mut out, 2, name.as_bytes());
        write::bytes(&mut out, 3, value.as_bytes());
        out
    };
    let encoded = |matchers: &[Vec<u8>]| {
        let mut query = Vec::new();
        write::number(&mut query, 1, 1_000);
        write::number(&mut query, 2, 2_000);
        matchers.iter().for_each(|matcher| write::bytes(&mut query, 3, matcher));
        let mut out = Vec::new();
        write::bytes(&mut out, 1, &query);
        out
    };
    let read = queries_of(&encoded(&[matcher(0, "__name__", "up"), matcher(3, "job", "a|b")])).unwrap();
    assert_eq!(read[0].range, TimeRange::from_ms(999, 2_000));
    assert_eq!((read[0].matchers[0].op, read[0].matchers[1].op), (MatchOp::Equal, MatchOp::NotRegex));
    assert!(read[0].matchers[1].matches("c") && !read[0].matchers[1].matches("a"));
    assert!(matches!(queries_of(&encoded(&[matcher(4, "a", "b")])), Err(Error::Malformed { .. })));
    assert!(matches!(queries_of(&encoded(&[matcher(2, "a", "(")])), Err(Error::Malformed { .. })));
    let many = vec![matcher(0, "a", "b"); MATCHERS_MAX];
    assert!(queries_of(&encoded(&many)).is_ok());
    assert!(matches!(queries_of(&encoded(&[&many[..], &many[..1]].concat())), Err(Error::TooLarge { .. })));
    assert!(matches!(queries_of(&encoded(&[]).repeat(QUERIES_MAX + 1)), Err(Error::TooLarge { .. })));
}

#[test]
fn the_first_form_of_answer_that_is_known_is_given() {
    let packed = |forms: &[u8]| {
        let mut out = Vec::new();
        write::bytes(&mut out, 2, forms);
        out
    };
    let chunks = |message: &[u8]| request(message).map(|request| request.chunks);
    for (forms, expected) in [(&[][..], false), (&[0], false), (&[1, 0], true), (&[7, 1, 0], true), (&[0, 1], false)] {
        assert_eq!(chunks(&packed(forms)).unwrap(), expected, "{forms:?}");
        let single: Vec<u8> = forms.iter().flat_map(|form| [0x10, *form]).collect();
        assert_eq!(chunks(&single).unwrap(), expected, "{forms:?}");
    }
    assert!(matches!(chunks(&packed(&[7])), Err(Error::Malformed { .. })));
    assert!(chunks(&packed(&[0x80])).is_err(), "a number that is cut off");
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(body: Vec<u8>) {
        let _ = request(&body);
    }

    #[test]
    fn any_bins_come_back(values in proptest::collection::vec((-1e6_f64..1e6, 1_u64..1000), 0..50), scale in -4..=8) {
        let mut whole = Histogram::new(Scheme::exp2(scale).unwrap());
        values.iter().for_each(|(value, count)| whole.record_n(*value, *count));
        let mut one = series(&[("__name__", "a")], Kind::Histogram, Temporality::Cumulative);
        one.histograms.times = vec![5];
        one.histograms.values = vec![HistogramValue::Integer(whole.clone())];
        let back = read_back(&[one]);
        let Value::Histogram(read) = &back[0].2 else { panic!("{back:?}") };
        prop_assert_eq!((&read.positive, &read.negative), (&whole.positive, &whole.negative));
        prop_assert_eq!((read.count, read.zero), (whole.count, whole.zero));
    }
}
