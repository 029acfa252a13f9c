use ogive_hist::{BinPlacement, Histogram, Scheme};
use ogive_model::{Exemplar, Kind, Reason, Sample, SourceId, Temporality, Tenant, Value};
use proptest::prelude::*;

use super::*;
use crate::Error;
use crate::mutations::mutations;
use crate::protobuf::write;

const TIME: u64 = 1_700_000_060_000_000_000;
const START: u64 = 1_700_000_000_000_000_000;

/// A message that `fill` fills.
fn message(fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    fill(&mut out);
    out
}

fn fixed(out: &mut Vec<u8>, field: u32, value: u64) {
    // On the wire a double is 64 bits as any others.
    write::double(out, field, f64::from_bits(value));
}

fn text_value(text: &str) -> Vec<u8> {
    message(|out| write::bytes(out, 1, text.as_bytes()))
}

fn attribute(name: &str, value: &[u8]) -> Vec<u8> {
    message(|out| {
        write::bytes(out, 1, name.as_bytes());
        write::bytes(out, 2, value);
    })
}

fn resource(attributes: &[(&str, &str)]) -> Vec<u8> {
    message(|out| {
        for (name, value) in attributes {
            write::bytes(out, 1, &attribute(name, &text_value(value)));
        }
    })
}

const SERVICE: &[(&str, &str)] =
    &[("service.name", "cart"), ("service.namespace", "shop"), ("service.instance.id", "i-7"), ("host.name", "h1")];

/// A request of one resource and one scope.
fn request(attributes: &[(&str, &str)], metrics: &[Vec<u8>]) -> Vec<u8> {
    let scope = message(|out| {
        write::bytes(out, 1, &message(|out| write::bytes(out, 1, b"lib")));
        metrics.iter().for_each(|metric| write::bytes(out, 2, metric));
    });
    let group = message(|out| {
        write::bytes(out, 1, &resource(attributes));
        write::bytes(out, 2, &scope);
    });
    message(|out| write::bytes(out, 1, &group))
}

fn metric(name: &str, unit: &str, field: u32, data: &[u8]) -> Vec<u8> {
    message(|out| {
        write::bytes(out, 1, name.as_bytes());
        write::bytes(out, 2, b"help");
        write::bytes(out, 3, unit.as_bytes());
        write::bytes(out, field, data);
    })
}

/// The data of a metric: points, then a temporality and whether it only grows.
fn data(points: &[Vec<u8>], temporality: u64, monotonic: u64) -> Vec<u8> {
    message(|out| {
        points.iter().for_each(|point| write::bytes(out, 1, point));
        write::number(out, 2, temporality);
        write::number(out, 3, monotonic);
    })
}

/// A number point with one attribute.
fn number(value: f64) -> Vec<u8> {
    number_at(value, START, TIME)
}

fn number_at(value: f64, start: u64, time: u64) -> Vec<u8> {
    message(|out| {
        write::bytes(out, 7, &attribute("http.route", &text_value("/a")));
        fixed(out, 2, start);
        fixed(out, 3, time);
        write::double(out, 4, value);
    })
}

fn packed(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn doubles(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn explicit(count: u64, sum: f64, counts: &[u64], bounds: &[f64]) -> Vec<u8> {
    message(|out| {
        fixed(out, 2, START);
        fixed(out, 3, TIME);
        fixed(out, 4, count);
        write::double(out, 5, sum);
        write::bytes(out, 6, &packed(counts));
        write::bytes(out, 7, &doubles(bounds));
    })
}

fn buckets(offset: i64, counts: &[u64]) -> Vec<u8> {
    message(|out| {
        write::signed(out, 1, offset);
        let mut packed = Vec::new();
        counts.iter().for_each(|count| write::varint(&mut packed, *count));
        write::bytes(out, 2, &packed);
    })
}

/// An exponential point: count, scale, zero count and threshold, and the bins of both signs.
fn exponential(
    count: u64,
    scale: i64,
    zero: u64,
    threshold: f64,
    positive: (i64, &[u64]),
    negative: (i64, &[u64]),
) -> Vec<u8> {
    message(|out| {
        fixed(out, 2, START);
        fixed(out, 3, TIME);
        fixed(out, 4, count);
        write::double(out, 5, 2.5);
        write::signed(out, 6, scale);
        fixed(out, 7, zero);
        write::bytes(out, 8, &buckets(positive.0, positive.1));
        write::bytes(out, 9, &buckets(negative.0, negative.1));
        write::double(out, 12, -2.0);
        write::double(out, 13, 8.0);
        write::double(out, 14, threshold);
    })
}

fn with_options(body: &[u8], options: &Options, known: Option<&KnownSeries>) -> Result<DecodedRequest, Error> {
    let tenant = Tenant::default();
    let context = Context { tenant: &tenant, source: SourceId(7), sequence: 3, options, known, now_ns: 99 };
    read_metrics(body, &context)
}

fn read(body: &[u8]) -> DecodedRequest {
    with_options(body, &Options::default(), None).unwrap()
}

fn logs(body: &[u8]) -> Result<DecodedRequest, Error> {
    let (tenant, options) = (Tenant::default(), Options::default());
    let context =
        Context { tenant: &tenant, source: SourceId(7), sequence: 3, options: &options, known: None, now_ns: 99 };
    read_logs(body, &context)
}

/// Series and value of each good sample.
fn reported(read: &DecodedRequest) -> Vec<(String, Temporality, &Sample)> {
    let samples = read.batch.samples.iter().flatten();
    samples
        .map(|sample| {
            let series = read.batch.series[sample.series as usize].as_ref().unwrap();
            (series.labels.to_string(), series.meta.temporality, sample)
        })
        .collect()
}

fn reasons(read: &DecodedRequest) -> Vec<Option<Reason>> {
    read.batch.samples.iter().map(|sample| sample.as_ref().err().copied()).collect()
}

#[test]
fn numbers_become_series_with_the_names_of_prometheus() {
    let body = request(
        SERVICE,
        &[
            metric("http.server.active", "{request}", 5, &data(&[number(3.0)], 0, 0)),
            metric("http.server.requests", "1", 7, &data(&[number(4.0)], 2, 1)),
            metric("queue.size", "By", 7, &data(&[number(-5.0)], 2, 0)),
            metric("work", "s", 7, &data(&[number(6.0)], 1, 1)),
        ],
    );
    let read = read(&body);
    let labels = "{http_route=\"/a\", instance=\"i-7\", job=\"shop/cart\"}";
    let series: Vec<_> = reported(&read)
        .into_iter()
        .map(|(name, temporality, sample)| (name, temporality, sample.value.clone()))
        .collect();
    let expected = [
        (format!("http_server_active{labels}"), Temporality::Gauge, Value::Float(3.0)),
        (format!("http_server_requests_total{labels}"), Temporality::Cumulative, Value::Float(4.0)),
        (format!("queue_size_bytes{labels}"), Temporality::Gauge, Value::Float(-5.0)),
        (format!("work_seconds_total{labels}"), Temporality::Delta, Value::Float(6.0)),
        (
            "target_info{host_name=\"h1\", instance=\"i-7\", job=\"shop/cart\"}".to_owned(),
            Temporality::Gauge,
            Value::Float(1.0),
        ),
    ];
    assert_eq!(series, expected);
    let delta = read.batch.samples[3].as_ref().unwrap();
    assert_eq!((delta.start_ns, delta.time_ns), (Some(START as i64), TIME as i64));
    assert_eq!(read.batch.series[3].as_ref().unwrap().meta.unit, "s");
    assert_eq!((read.points, &read.origins[..]), (4, &[Some(0), Some(1), Some(2), Some(3), None][..]));
    let metadata: Vec<_> = read.metadata.iter().map(|of| (of.metric.as_str(), of.kind.as_str(), &*of.unit)).collect();
    assert_eq!(metadata[1], ("http_server_requests_total", "counter", "1"));
    assert_eq!((metadata[2].1, metadata.len()), ("gauge", 4));
}

#[test]
fn options_decide_about_names_and_labels() {
    let body = request(SERVICE, &[metric("work.time", "s", 5, &data(&[number(1.0)], 0, 0))]);
    let of = |options: &Options| reported(&with_options(&body, options, None).unwrap())[0].0.clone();
    let kept = Options { translation: Translation { escape: false, suffixes: true }, ..Options::default() };
    assert_eq!(of(&kept), "work.time_seconds{http.route=\"/a\", instance=\"i-7\", job=\"shop/cart\"}");
    let more = Options { promoted: vec!["host.name".into()], scope_labels: true, ..Options::default() };
    let expected = "work_time_seconds{host_name=\"h1\", http_route=\"/a\", instance=\"i-7\", job=\"shop/cart\", otel_scope_name=\"lib\"}";
    assert_eq!(of(&more), expected);
}

#[test]
fn attributes_that_become_one_label_are_joined_and_ours_stand_above_theirs() {
    let point = message(|out| {
        for (name, value) in [("b.c", "1"), ("b_c", "2"), ("job", "theirs"), ("__name__", "theirs"), ("empty", "")] {
            write::bytes(out, 7, &attribute(name, &text_value(value)));
        }
        fixed(out, 3, TIME);
        fixed(out, 6, (-3_i64).cast_unsigned());
    });
    let read = read(&request(SERVICE, &[metric("m", "", 5, &data(&[point], 0, 0))]));
    let (labels, _, sample) = &reported(&read)[0];
    assert_eq!(labels, "m{b_c=\"1;2\", instance=\"i-7\", job=\"shop/cart\"}");
    assert_eq!((&sample.value, sample.start_ns), (&Value::Float(-3.0), None));
}

#[test]
fn histograms_stay_what_they_are() {
    let body = request(
        &[],
        &[
            metric("a", "s", 9, &data(&[explicit(6, 2.5, &[1, 0, 5], &[0.1, 0.5])], 1, 0)),
            metric("b", "s", 9, &data(&[explicit(6, 2.5, &[], &[])], 2, 0)),
            metric("c", "s", 10, &data(&[exponential(12, 3, 2, 0.25, (-4, &[1, 0, 4]), (7, &[5]))], 1, 0)),
        ],
    );
    let read = read(&body);
    let histograms: Vec<&Histogram<u64>> = reported(&read)
        .iter()
        .map(|(_, _, sample)| match &sample.value {
            Value::Histogram(histogram) => &**histogram,
            other => panic!("{other:?}"),
        })
        .collect();
    let [a, b, c] = histograms[..] else { panic!("{histograms:?}") };
    assert_eq!(a.scheme, Scheme::custom(vec![0.1, 0.5]).unwrap());
    assert_eq!((a.positive.iter().collect::<Vec<_>>(), a.count, a.sum), (vec![(0, 1), (2, 5)], 6, Some(2.5)));
    // Bounds and counts are not needed to know how many there were and what they add up to.
    assert_eq!((b.positive.iter().collect::<Vec<_>>(), b.count, b.sum), (vec![(0, 6)], 6, Some(2.5)));
    assert_eq!(c.scheme, Scheme::Exp2 { scale: 3 });
    assert_eq!((c.zero, c.zero_threshold, c.count, c.sum), (2, 0.25, 12, Some(2.5)));
    assert_eq!(c.positive.iter().collect::<Vec<_>>(), [(-3, 1), (-1, 4)]);
    assert_eq!(c.negative.iter().collect::<Vec<_>>(), [(8, 5)]);
    assert_eq!((c.min, c.max), (Some(-2.0), Some(8.0)));
    assert_eq!(
        reported(&read).iter().map(|reported| reported.1).collect::<Vec<_>>()[..2],
        [Temporality::Delta, Temporality::Cumulative]
    );
}

#[test]
fn a_summary_becomes_its_quantiles_sum_and_count() {
    let quantile = |quantile, value| {
        message(|out| {
            write::double(out, 1, quantile);
            write::double(out, 2, value);
        })
    };
    let point = message(|out| {
        fixed(out, 3, TIME);
        fixed(out, 4, 9);
        write::double(out, 5, 4.5);
        write::bytes(out, 6, &quantile(0.5, 0.2));
        write::bytes(out, 6, &quantile(0.99, 2.0));
    });
    let read = read(&request(&[], &[metric("rpc", "s", 11, &data(&[point], 0, 0))]));
    let reported: Vec<_> =
        reported(&read).into_iter().map(|(name, kind, sample)| (name, kind, sample.value.clone())).collect();
    let expected = [
        ("rpc_seconds{quantile=\"0.5\"}".to_owned(), Temporality::Gauge, Value::Float(0.2)),
        ("rpc_seconds{quantile=\"0.99\"}".to_owned(), Temporality::Gauge, Value::Float(2.0)),
        ("rpc_seconds_sum".to_owned(), Temporality::Cumulative, Value::Float(4.5)),
        ("rpc_seconds_count".to_owned(), Temporality::Cumulative, Value::Float(9.0)),
    ];
    assert_eq!(reported, expected);
    assert_eq!((read.points, read.origins), (1, vec![Some(0); 4]));
}

#[test]
fn exemplars_are_texts_beside_their_series() {
    let exemplar = message(|out| {
        fixed(out, 2, TIME - 5);
        write::double(out, 3, 0.25);
        write::bytes(out, 4, &[0, 0xf0]);
        write::bytes(out, 5, &[0x4b, 0xf9]);
        write::bytes(out, 7, &attribute("user.id", &text_value("u\"1")));
    });
    let point = message(|out| {
        out.extend_from_slice(&number(1.0));
        write::bytes(out, 5, &exemplar);
    });
    let read = read(&request(&[], &[metric("m", "", 7, &data(&[point], 2, 1))]));
    let reported = reported(&read);
    assert_eq!(reported[1].0, "m_total_exemplar{http_route=\"/a\"}");
    let Value::Text(text) = &reported[1].2.value else { panic!("{reported:?}") };
    let exemplar = Exemplar::from_text(text).unwrap();
    assert_eq!(exemplar.labels.to_string(), "{span_id=\"00f0\", trace_id=\"4bf9\", user_id=\"u\\\"1\"}");
    assert_eq!((exemplar.value, reported[1].2.time_ns), (0.25, TIME as i64 - 5));
    assert_eq!(read.origins, [Some(0), None]);
}

#[test]
fn nothing_recorded_ends_a_series_or_is_counted() {
    let nothing = |field| {
        message(|out| {
            fixed(out, 3, TIME);
            write::number(out, field, 1);
        })
    };
    let body = request(
        &[],
        &[
            metric("a", "", 5, &data(&[nothing(8)], 0, 0)),
            metric("b", "", 10, &data(&[nothing(10)], 2, 0)),
            metric("c", "", 7, &data(&[nothing(8)], 1, 1)),
            metric("d", "", 11, &data(&[nothing(8)], 0, 0)),
        ],
    );
    let read = read(&body);
    let stale = |value: f64| value.to_bits() == 0x7ff0_0000_0000_0002;
    for (name, _, sample) in reported(&read) {
        match &sample.value {
            Value::Float(value) => assert!(stale(*value), "{name}"),
            Value::Histogram(histogram) => assert!(stale(histogram.sum.unwrap()), "{name}"),
            Value::Text(_) | Value::FloatHistogram(_) => panic!("{name}"),
        }
    }
    assert_eq!((read.points, read.unrecorded, read.batch.samples.len()), (4, 1, 4));
}

#[test]
fn each_bad_point_has_its_own_verdict() {
    let bad = [
        // Scales that no histogram has.
        (10, exponential(1, -11, 0, 0.0, (0, &[1]), (0, &[])), Reason::HistogramInvalid, "-10..=20"),
        (10, exponential(1, 21, 0, 0.0, (0, &[1]), (0, &[])), Reason::HistogramInvalid, "-10..=20"),
        (10, exponential(1, 1 << 40, 0, 0.0, (0, &[1]), (0, &[])), Reason::HistogramInvalid, "-10..=20"),
        // Counts that do not add up.
        (10, exponential(5, 3, 1, 0.0, (0, &[1]), (0, &[1])), Reason::HistogramInvalid, "the bins hold 3"),
        (10, exponential(2, 3, 1, 0.0, (0, &[1]), (0, &[1])), Reason::HistogramInvalid, "the bins hold 3"),
        (10, exponential(1, 3, u64::MAX, 0.0, (0, &[1]), (0, &[1])), Reason::HistogramInvalid, "2^64"),
        (9, explicit(7, 2.5, &[1, 0, 5], &[0.1, 0.5]), Reason::HistogramInvalid, "the bins hold 6"),
        // Bins that are nowhere, thresholds that are none.
        (10, exponential(1, 3, 0, 0.0, (i64::from(i32::MAX), &[1]), (0, &[])), Reason::HistogramInvalid, "32 bits"),
        (10, exponential(1, 3, 0, -1.0, (0, &[1]), (0, &[])), Reason::HistogramInvalid, "threshold"),
        (10, exponential(1, 3, 0, f64::NAN, (0, &[1]), (0, &[])), Reason::HistogramInvalid, "threshold"),
        // Bounds.
        (9, explicit(1, 1.0, &[0, 0, 1], &[0.5, 0.1]), Reason::HistogramInvalid, "ascend"),
        (9, explicit(1, 1.0, &[0, 0, 1], &[0.5, f64::INFINITY]), Reason::HistogramInvalid, "finite"),
        (9, explicit(1, 1.0, &[1], &[0.5]), Reason::HistogramInvalid, "2 bins, and 1 counts"),
        (9, explicit(1, 1.0, &[], &[0.5]), Reason::HistogramInvalid, "2 bins, and 0 counts"),
        // Points that say too little, or what cannot be.
        (7, message(|out| fixed(out, 3, TIME)), Reason::PointInvalid, "no value"),
        (7, number_at(1.0, 0, 0), Reason::PointInvalid, "no time"),
        (7, number_at(1.0, 0, u64::MAX), Reason::TimeTooNew, "2262"),
        (7, message(|out| write::bytes(out, 3, b"x")), Reason::PointInvalid, "64 bit number"),
        (7, vec![0x0a, 200], Reason::PointInvalid, "ends in the middle"),
    ];
    for (field, point, reason, word) in &bad {
        let good = if *field == 7 { number(1.0) } else { explicit(1, 1.0, &[1], &[]) };
        let good_field = if *field == 7 { 7 } else { 9 };
        let body = request(
            &[],
            &[
                metric("bad", "", *field, &data(std::slice::from_ref(point), 1, 1)),
                metric("good", "", good_field, &data(&[good], 1, 1)),
            ],
        );
        let read = read(&body);
        assert_eq!(reasons(&read), [Some(*reason), None], "{word}: {:?}", read.details);
        assert!(read.details[0].1.contains(word), "{:?} does not say {word:?}", read.details);
        assert_eq!((read.points, &read.origins[..]), (2, &[Some(0), Some(1)][..]));
        let (count, sentence) = read.rejected(&[(0, *reason)]);
        assert!(count == 1 && sentence.contains(word), "{sentence}");
    }
    // Neither delta nor cumulative.
    let read = read(&request(&[], &[metric("m", "", 9, &data(&[explicit(1, 1.0, &[1], &[])], 0, 0))]));
    assert_eq!(reasons(&read), [Some(Reason::PointInvalid)]);
}

#[test]
fn what_the_store_judges_is_passed_on_with_a_sentence() {
    // A start behind the time is the store's to reject; one that is the time itself says nothing.
    let points = [number_at(1.0, TIME + 1, TIME), number_at(1.0, TIME, TIME)];
    let read = read(&request(&[], &[metric("m", "", 7, &data(&points, 1, 1))]));
    let starts: Vec<_> = read.batch.samples.iter().map(|sample| sample.as_ref().unwrap().start_ns).collect();
    assert_eq!(starts, [Some(TIME as i64 + 1), None]);
    assert_eq!(read.details, [(0, "the point begins after it ends".to_owned())]);
}

#[test]
fn observations_that_are_no_number_are_in_the_count_alone() {
    let read = read(&request(&[], &[metric("m", "", 9, &data(&[explicit(7, f64::NAN, &[1, 5], &[0.1])], 1, 0))]));
    let Value::Histogram(histogram) = &reported(&read)[0].2.value else { panic!() };
    assert_eq!((histogram.nan, histogram.count), (1, 7));
}

#[test]
fn labels_that_cannot_be_spoil_their_own_points() {
    let deep = (0..200).fold(text_value("x"), |inner, _| {
        let list = message(|out| write::bytes(out, 1, &inner));
        message(|out| write::bytes(out, 5, &list))
    });
    let long = "v".repeat(ogive_model::Labels::VALUE_BYTES_MAX + 1);
    for (value, word) in [(deep, "nested"), (text_value(&long), "limit"), (vec![0x0a, 1, 0xff], "UTF-8")] {
        let point = message(|out| {
            write::bytes(out, 7, &attribute("a", &value));
            fixed(out, 3, TIME);
            write::double(out, 4, 1.0);
        });
        let read = read(&request(&[], &[metric("m", "", 5, &data(&[point, number(2.0)], 0, 0))]));
        assert!(read.batch.series[0].is_err() && read.batch.series[1].is_ok());
        assert!(read.details[0].1.contains(word), "{:?}", read.details);
    }
    let nameless = read(&request(&[], &[metric("", "", 5, &data(&[number(1.0)], 0, 0))]));
    assert!(nameless.batch.series[0].is_err());
}

#[test]
fn too_many_points_are_refused_before_they_take_memory() {
    let points: Vec<u8> = (0..=POINTS_MAX).flat_map(|_| [0x0a, 0]).collect();
    let body = request(&[], &[metric("m", "", 7, &points)]);
    let limit = POINTS_MAX as u64;
    let refused = with_options(&body, &Options::default(), None);
    assert!(matches!(refused, Err(Error::TooLarge { limit: found, .. }) if found == limit), "{refused:?}");
}

#[test]
fn known_series_are_named_by_identity() {
    let known = KnownSeries::default();
    let body = |value: f64| {
        let other = message(|out| {
            write::bytes(out, 7, &attribute("http.route", &text_value("/b")));
            fixed(out, 3, TIME);
            write::double(out, 4, value);
        });
        request(SERVICE, &[metric("m", "", 5, &data(&[number(value), other], 0, 0))])
    };
    let first = with_options(&body(1.0), &Options::default(), Some(&known)).unwrap();
    assert_eq!((first.batch.series.len(), first.batch.known.len()), (3, 0));
    known.remember(&first.declared);
    let second = with_options(&body(2.0), &Options::default(), Some(&known)).unwrap();
    assert_eq!((second.batch.series.len(), second.batch.known.len()), (0, 3));
    let tenant = Tenant::default();
    let ids: Vec<_> = first.batch.series.iter().map(|series| series.as_ref().unwrap().id(&tenant)).collect();
    assert_eq!(second.batch.known, ids);
    // The same points in a metric of another kind are other series.
    let sum = request(SERVICE, &[metric("m", "", 7, &data(&[number(1.0)], 2, 1))]);
    assert_eq!(with_options(&sum, &Options::default(), Some(&known)).unwrap().batch.series.len(), 1);
}

fn log_request(records: &[Vec<u8>]) -> Vec<u8> {
    request(SERVICE, records)
}

#[test]
fn log_records_become_lines_of_json() {
    let record = message(|out| {
        fixed(out, 1, TIME);
        write::number(out, 2, 13);
        write::bytes(out, 3, b"Warning");
        write::bytes(out, 5, &text_value("disk \"a\"\nis full"));
        write::bytes(out, 6, &attribute("code", &message(|out| write::number(out, 3, 28))));
        write::bytes(out, 9, &[0xab; 16]);
        fixed(out, 11, TIME + 5);
    });
    let bare = message(|out| write::bytes(out, 3, b"error"));
    let observed = message(|out| fixed(out, 11, 77));
    let read = logs(&log_request(&[record, bare, observed])).unwrap();
    let reported: Vec<_> = reported(&read)
        .into_iter()
        .map(|(name, _, sample)| match &sample.value {
            Value::Text(text) => (name, sample.time_ns, text.clone()),
            other => panic!("{other:?}"),
        })
        .collect();
    let of = "instance=\"i-7\", job=\"shop/cart\", otel_scope_name=\"lib\"";
    let full = format!(
        "{{\"body\":\"disk \\\"a\\\"\\nis full\",\"attributes\":{{\"code\":28}},\"severity\":\"Warning\",\
         \"trace_id\":\"{}\",\"time_ns\":\"{TIME}\",\"observed_ns\":\"{}\"}}",
        "ab".repeat(16),
        TIME + 5
    );
    let expected = [
        (format!("log{{{of}, severity=\"WARN\"}}"), TIME as i64, full),
        (format!("log{{{of}, severity=\"ERROR\"}}"), 99, "{\"body\":null,\"severity\":\"error\"}".to_owned()),
        (format!("log{{{of}}}"), 77, "{\"body\":null,\"observed_ns\":\"77\"}".to_owned()),
    ];
    assert_eq!(reported, expected);
    assert_eq!((read.points, read.untimed), (3, 1));
    assert!(read.batch.series.iter().flatten().all(|series| series.meta.kind == Kind::Text));
}

#[test]
fn answers_are_the_messages_that_senders_read() {
    assert_eq!(partial_success(0, ""), b"");
    assert_eq!(partial_success(300, "why"), b"\x0a\x08\x08\xac\x02\x12\x03why");
    assert_eq!(status(8, "busy", None), b"\x08\x08\x12\x04busy");
    let retry = status(8, "busy", Some(1));
    assert!(retry.ends_with(b"google.rpc.RetryInfo\x12\x04\x0a\x02\x08\x01"));
}

/// Everything that a decoder takes, mutated: it ends, and never takes more samples than there are bytes.
#[test]
fn mutated_requests_are_read_or_refused() {
    let exemplar = message(|out| write::double(out, 3, 0.25));
    let point = message(|out| {
        out.extend_from_slice(&number(1.0));
        write::bytes(out, 5, &exemplar);
    });
    let good = request(
        SERVICE,
        &[
            metric("a", "s", 7, &data(&[point], 2, 1)),
            metric("b", "s", 9, &data(&[explicit(6, 2.5, &[1, 0, 5], &[0.1, 0.5])], 1, 0)),
            metric("c", "s", 10, &data(&[exponential(12, 3, 2, 0.25, (-4, &[1, 0, 4]), (7, &[5]))], 1, 0)),
            metric("d", "s", 11, &data(&[message(|out| fixed(out, 3, TIME))], 1, 0)),
        ],
    );
    mutations(&good, 20_000, 4, &[], |body| {
        if let Ok(read) = with_options(body, &Options::default(), None) {
            assert!(read.batch.samples.len() <= body.len());
            assert_eq!(read.batch.samples.len(), read.origins.len());
        }
        let _ = logs(body);
    });
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(body: Vec<u8>) {
        let _ = with_options(&body, &Options::default(), None);
        let _ = logs(&body);
    }

    /// A bin of OTLP holds what ours of the next index does: the bin that a value is recorded in here is the one that
    /// an SDK names one lower.
    #[test]
    fn exponential_bins_hold_what_they_held(scale in -10_i64..=20, exponent in -300.0_f64..300.0, count in 1..u64::MAX) {
        let value = 10_f64.powf(exponent);
        let scheme = Scheme::exp2(scale as i32).unwrap();
        let BinPlacement::Positive(index) = scheme.place(value, 0.0) else { panic!() };
        let (low, high) = scheme.bounds(true, index);
        prop_assert!(low < value && value <= high);
        let otlp = i64::from(index) - 1;
        let point = exponential(count, scale, 0, 0.0, (otlp, &[count]), (0, &[]));
        let read = read(&request(&[], &[metric("m", "", 10, &data(&[point], 1, 0))]));
        let Value::Histogram(histogram) = &reported(&read)[0].2.value else { panic!() };
        prop_assert_eq!(histogram.positive.iter().collect::<Vec<_>>(), [(index, count)]);
    }

    /// Every observation that a sender counted is in a bin.
    #[test]
    fn explicit_counts_are_conserved(counts in prop::collection::vec(0..1_000_000_u64, 1..40)) {
        let bounds: Vec<f64> = (1..counts.len()).map(|bound| bound as f64).collect();
        let point = explicit(counts.iter().sum(), 1.0, &counts, &bounds);
        let read = read(&request(&[], &[metric("m", "", 9, &data(&[point], 1, 0))]));
        let Value::Histogram(histogram) = &reported(&read)[0].2.value else { panic!() };
        let held: Vec<u64> = (0..counts.len()).map(|index| histogram.positive.get(index as i32)).collect();
        prop_assert_eq!(held, counts);
    }
}
