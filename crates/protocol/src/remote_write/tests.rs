//! Requests written by hand, and their decoded form.

use super::v1::*;
use super::*;
use crate::mutations::mutations;
use crate::protobuf::write;
use ogive_hist::{CounterReset, Scheme};
use ogive_model::{Error as SeriesError, Kind, Reason, SourceId, Temporality, Tenant, Value};
use proptest::prelude::*;

fn message(build: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    build(&mut out);
    out
}

fn label(name: &str, value: &str) -> Vec<u8> {
    message(|out| {
        write::bytes(out, 1, name.as_bytes());
        write::bytes(out, 2, value.as_bytes());
    })
}

fn sample(value: f64, time_ms: i64) -> Vec<u8> {
    message(|out| {
        write::double(out, 1, value);
        write::number(out, 2, time_ms as u64);
    })
}

/// Bins of 0.5..1 (3), 1..2 (0), 2..4 (5) and 64..128 (1), two in the zero bin, and one observation that is no number.
fn native(build: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    message(|out| {
        write::number(out, 1, 12);
        write::double(out, 3, f64::NAN);
        write::signed(out, 4, 0);
        write::double(out, 5, 1e-9);
        write::number(out, 6, 2);
        write::bytes(out, 11, &message(|out| write::number(out, 2, 3)));
        write::bytes(
            out,
            11,
            &message(|out| [(1, 8), (2, 1)].map(|(f, v)| write::number(out, f, v)).into_iter().collect()),
        );
        write::bytes(
            out,
            12,
            &message(|out| [6, 5, 10, 7].map(|delta| write::varint(out, delta)).into_iter().collect()),
        );
        write::number(out, 14, 2);
        write::number(out, 15, 1_700_000_000_123);
        build(out);
    })
}

fn request(series: &[Vec<u8>]) -> Vec<u8> {
    message(|out| series.iter().for_each(|series| write::bytes(out, 1, series)))
}

fn only_series(request: &[u8]) -> TimeSeries<'_> {
    match parts(request).collect::<Result<Vec<_>, _>>().unwrap().as_slice() {
        [Part::Series(series)] => *series,
        other => panic!("{other:?}"),
    }
}

#[test]
fn labels_samples_and_metadata_come_out() {
    let series = message(|out| {
        write::bytes(out, 1, &label("__name__", "up"));
        write::bytes(out, 1, &label("job", "naïve"));
        write::bytes(out, 2, &sample(0.5, 1_700_000_000_000));
        write::bytes(out, 2, &sample(f64::from_bits(0x7ff0_0000_0000_0002), -5));
        write::bytes(out, 3, b"");
    });
    let mut body = request(std::slice::from_ref(&series));
    let metadata = message(|out| {
        write::number(out, 1, 1);
        write::bytes(out, 2, b"http_requests");
        write::bytes(out, 4, b"Requests.");
        write::bytes(out, 5, b"s");
    });
    write::bytes(&mut body, 3, &metadata);
    let parts: Vec<_> = parts(&body).map(Result::unwrap).collect();
    let [Part::Series(series), Part::Metadata(metadata)] = parts.as_slice() else { panic!("{parts:?}") };
    let labels: Vec<_> = series.labels().map(Result::unwrap).collect();
    assert_eq!(labels, [("__name__", "up"), ("job", "naïve")]);
    assert_eq!(
        series.label_bytes().unwrap().len(),
        2 * 2 + label("__name__", "up").len() + label("job", "naïve").len()
    );
    let samples: Vec<_> = series.samples().map(Result::unwrap).collect();
    assert_eq!((samples[0].value, samples[0].time_ms), (0.5, 1_700_000_000_000));
    assert_eq!((samples[1].value.to_bits(), samples[1].time_ms), (0x7ff0_0000_0000_0002, -5));
    assert_eq!(series.exemplars().count(), 1);
    let expected = Metadata { kind: MetricKind::Counter, family: "http_requests", help: "Requests.", unit: "s" };
    assert_eq!(*metadata, expected);
}

#[test]
fn labels_behind_samples_are_refused_as_bytes_and_read_as_labels() {
    let body = request(&[message(|out| {
        write::bytes(out, 2, &sample(1.0, 1));
        write::bytes(out, 1, &label("a", "b"));
    })]);
    let series = only_series(&body);
    assert!(series.label_bytes().is_err());
    assert_eq!(series.labels().map(Result::unwrap).collect::<Vec<_>>(), [("a", "b")]);
    assert_eq!(series.samples().count(), 1);
}

#[test]
fn an_integer_histogram_comes_out() {
    let body = request(&[message(|out| write::bytes(out, 4, &native(|_| {})))]);
    let native = only_series(&body).histograms().next().unwrap().unwrap();
    assert_eq!(native.time_ms, 1_700_000_000_123);
    let Ok(Counts::Integer(histogram)) = native.histogram else { panic!("{native:?}") };
    assert_eq!(histogram.scheme, Scheme::Exp2 { scale: 0 });
    assert_eq!((histogram.count, histogram.zero, histogram.nan), (12, 2, 1));
    assert_eq!(histogram.reset, CounterReset::NotReset);
    assert_eq!(histogram.positive.iter().collect::<Vec<_>>(), [(0, 3), (2, 5), (7, 1)]);
    assert!(histogram.sum.unwrap().is_nan());
}

#[test]
fn a_float_histogram_with_custom_bounds_comes_out() {
    let body = request(&[message(|out| {
        let histogram = message(|out| {
            write::double(out, 2, 2.5);
            write::double(out, 3, 7.0);
            write::signed(out, 4, -53);
            write::bytes(
                out,
                11,
                &message(|out| [(1, 2), (2, 2)].map(|(f, v)| write::number(out, f, v)).into_iter().collect()),
            );
            write::double(out, 13, 0.5);
            write::double(out, 13, 2.0);
            let bounds = [0.1_f64, 0.5, 1.0].map(f64::to_le_bytes).concat();
            write::bytes(out, 16, &bounds);
        });
        write::bytes(out, 4, &histogram);
    })]);
    let native = only_series(&body).histograms().next().unwrap().unwrap();
    let Ok(Counts::Float(histogram)) = native.histogram else { panic!("{native:?}") };
    assert_eq!(histogram.scheme, Scheme::custom([0.1, 0.5, 1.0]).unwrap());
    assert_eq!(histogram.positive.iter().collect::<Vec<_>>(), [(1, 0.5), (2, 2.0)]);
    assert_eq!((histogram.count, histogram.sum), (2.5, Some(7.0)));
}

#[test]
fn histograms_that_break_a_rule_say_which() {
    let refused = |build: &dyn Fn(&mut Vec<u8>)| {
        let bytes = native(build);
        Native::read(&bytes).unwrap().histogram.unwrap_err()
    };
    assert!(refused(&|out| write::number(out, 1, 10)).contains("below the sum"));
    assert!(refused(&|out| write::double(out, 3, 1.0)).contains("the sum is a number"));
    assert!(refused(&|out| write::signed(out, 4, 60)).contains("schema"));
    assert!(refused(&|out| write::number(out, 12, 1)).contains("spans"));
    assert!(refused(&|out| write::double(out, 13, 1.0)).contains("float counts"));
    assert!(refused(&|out| write::double(out, 7, 1.0)).contains("zero bin"));
    assert!(refused(&|out| write::number(out, 14, 9)).contains("reset hint"));
    assert!(refused(&|out| write::double(out, 5, -1.0)).contains("zero threshold"));
    let back = |out: &mut Vec<u8>| {
        write::bytes(out, 11, &message(|out| write::signed(out, 1, -1)));
    };
    assert!(refused(&back).contains("begins before"));
    let far = |out: &mut Vec<u8>| {
        write::bytes(
            out,
            11,
            &message(|out| [(1, u64::MAX - 1), (2, 1)].map(|(f, v)| write::number(out, f, v)).into_iter().collect()),
        );
        write::number(out, 12, 0);
    };
    assert!(refused(&far).contains("index"));
}

#[test]
fn a_span_that_lies_about_its_length_takes_no_memory() {
    let bytes = message(|out| {
        write::number(out, 1, 1);
        write::bytes(out, 11, &message(|out| write::number(out, 2, u64::MAX)));
        write::number(out, 12, 2);
    });
    assert!(Native::read(&bytes).unwrap().histogram.unwrap_err().contains("spans"));
}

#[test]
fn a_broken_series_leaves_its_neighbour() {
    let bad = message(|out| write::bytes(out, 1, &message(|out| write::bytes(out, 1, &[0xff]))));
    let good = message(|out| write::bytes(out, 1, &label("__name__", "good")));
    let body = request(&[bad, good]);
    let series: Vec<_> = parts(&body).map(Result::unwrap).collect();
    let [Part::Series(bad), Part::Series(good)] = series.as_slice() else { panic!("{series:?}") };
    assert!(bad.labels().next().unwrap().is_err());
    assert_eq!(good.labels().next().unwrap().unwrap(), ("__name__", "good"));
}

/// Reads everything there is in `body`.
fn read_all(body: &[u8]) -> usize {
    let mut read = 0;
    for part in parts(body) {
        if let Ok(Part::Series(series)) = part {
            read += series.labels().count() + series.samples().count() + series.histograms().count();
            read += series.exemplars().count() + usize::from(series.label_bytes().is_ok());
        }
    }
    read
}

/// Seeded mutations of a good request: the reader ends, and neither panics nor reads more than there are bytes.
#[test]
fn mutated_requests_are_read_or_refused() {
    let series = message(|out| {
        write::bytes(out, 1, &label("__name__", "up"));
        write::bytes(out, 2, &sample(0.5, 1_700_000_000_000));
        write::bytes(out, 4, &native(|_| {}));
    });
    let good = request(&[series.clone(), series]);
    mutations(&good, 20_000, 4, &[], |body| assert!(read_all(body) <= 8 * body.len() + 8));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(body: Vec<u8>) {
        read_all(&body);
    }
}

fn read_batch(body: &[u8]) -> DecodedRequest {
    read(body, &Tenant::default(), SourceId(7), 3, None, |_| {}).unwrap()
}

#[test]
fn a_request_becomes_a_batch() {
    let named = |name: &str, rest: &dyn Fn(&mut Vec<u8>)| {
        message(|out| {
            write::bytes(out, 1, &label("__name__", name));
            rest(out);
        })
    };
    let stale = f64::from_bits(0x7ff0_0000_0000_0002);
    let body = request(&[
        named("up", &|out| [(1.0, 5), (stale, 6)].iter().for_each(|(v, t)| write::bytes(out, 2, &sample(*v, *t)))),
        named("requests_total", &|out| write::bytes(out, 2, &sample(3.0, 5))),
        named("latency", &|out| write::bytes(out, 4, &native(|_| {}))),
        named("nothing", &|_| {}),
    ]);
    let read = read_batch(&body);
    let kinds: Vec<_> = read
        .batch
        .series
        .iter()
        .map(|series| {
            let series = series.as_ref().unwrap();
            (series.labels.metric_name(), series.meta.kind, series.meta.temporality)
        })
        .collect();
    let expected = [
        ("up", Kind::Float, Temporality::Gauge),
        ("requests_total", Kind::Float, Temporality::Cumulative),
        ("latency", Kind::Histogram, Temporality::Cumulative),
    ];
    assert_eq!(kinds, expected);
    assert_eq!((read.batch.source, read.batch.sequence, read.batch.samples.len()), (SourceId(7), 3, 4));
    let second = read.batch.samples[1].as_ref().unwrap();
    assert!(matches!(second.value, Value::Float(value) if value.to_bits() == stale.to_bits()));
    assert_eq!((second.series, second.time_ns), (0, 6_000_000));
    assert!(read.details.is_empty());
}

#[test]
fn what_breaks_a_rule_is_one_samples_error() {
    let body = request(&[
        message(|out| {
            write::bytes(out, 1, &label("job", "nameless"));
            write::bytes(out, 2, &sample(1.0, 5));
        }),
        message(|out| {
            write::bytes(out, 1, &label("__name__", "late"));
            write::bytes(out, 2, &sample(1.0, i64::MAX));
            write::bytes(out, 4, &native(|out| write::number(out, 1, 2)));
            write::bytes(out, 2, &sample(2.0, 5));
        }),
    ]);
    let read = read_batch(&body);
    assert_eq!(read.batch.series[0], Err(SeriesError::NoMetricName));
    let reasons: Vec<_> = read.batch.samples.iter().map(|sample| sample.as_ref().err().copied()).collect();
    assert_eq!(reasons, [None, Some(Reason::TimeTooNew), None, Some(Reason::HistogramInvalid)]);
    let details: Vec<_> = read.details.iter().map(|(sample, _)| *sample).collect();
    assert_eq!(details, [0, 3]);
}

#[test]
fn known_series_are_named_by_identity_and_new_ones_declared() {
    let series = |name: &str| {
        message(|out| {
            write::bytes(out, 1, &label("__name__", name));
            write::bytes(out, 2, &sample(1.0, 5));
            write::bytes(out, 4, &native(|_| {}));
        })
    };
    let known = KnownSeries::default();
    let tenant = Tenant::default();
    let of = |body: &[u8], tenant: &Tenant| read(body, tenant, SourceId(7), 3, Some(&known), |_| {}).unwrap();
    let first = of(&request(&[series("a")]), &tenant);
    assert_eq!((first.batch.series.len(), first.batch.known.len()), (2, 0));
    known.remember(&first.declared);
    assert_eq!(known.len(), 2);

    let second = of(&request(&[series("a"), series("b"), series("a")]), &tenant);
    let ids: Vec<_> = first.batch.series.iter().map(|series| series.as_ref().unwrap().id(&tenant)).collect();
    assert_eq!(second.batch.known, [ids[0], ids[1], ids[0], ids[1]]);
    assert_eq!(second.batch.series.len(), 2);
    let numbers: Vec<_> = second.batch.samples.iter().map(|sample| sample.as_ref().unwrap().series).collect();
    assert_eq!(numbers, [2, 3, 0, 1, 4, 5]);

    let other = of(&request(&[series("a")]), &Tenant::new("other").unwrap());
    assert_eq!((other.batch.series.len(), other.batch.known.len()), (2, 0), "another tenant's series is another");
}
