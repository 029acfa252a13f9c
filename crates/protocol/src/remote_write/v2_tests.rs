//! Requests of version 2.0 written by hand, and their decoded form.

use ogive_model::{Error as SeriesError, Exemplar, Kind, Reason, SourceId, Temporality, Tenant, Value};
use proptest::prelude::*;

use super::*;
use crate::mutations::mutations;
use crate::protobuf::write;

/// Texts as they are put in the table.
#[derive(Default)]
struct Request {
    symbols: Vec<String>,
    series: Vec<Vec<u8>>,
}

impl Request {
    fn new() -> Self {
        Self { symbols: vec![String::new()], series: Vec::new() }
    }

    fn place(&mut self, text: &str) -> u32 {
        let found = self.symbols.iter().position(|symbol| symbol == text);
        let place = found.unwrap_or_else(|| {
            self.symbols.push(text.to_owned());
            self.symbols.len() - 1
        });
        place as u32
    }

    fn refs(&mut self, labels: &[(&str, &str)]) -> Vec<u8> {
        let places = labels.iter().flat_map(|(name, value)| [self.place(name), self.place(value)]).collect::<Vec<_>>();
        message(|out| places.iter().for_each(|place| write::varint(out, u64::from(*place))))
    }

    fn series(&mut self, labels: &[(&str, &str)], rest: impl FnOnce(&mut Self, &mut Vec<u8>)) {
        let mut series = Vec::new();
        let refs = self.refs(labels);
        write::bytes(&mut series, 1, &refs);
        rest(self, &mut series);
        self.series.push(series);
    }

    fn metadata(&mut self, out: &mut Vec<u8>, kind: u64, help: &str, unit: &str) {
        let (help, unit) = (self.place(help), self.place(unit));
        let fields = [(1, kind), (3, help.into()), (4, unit.into())];
        write::bytes(
            out,
            5,
            &message(|out| fields.iter().for_each(|(field, value)| write::number(out, *field, *value))),
        );
    }

    fn body(&self) -> Vec<u8> {
        message(|out| {
            self.symbols.iter().for_each(|symbol| write::bytes(out, 4, symbol.as_bytes()));
            self.series.iter().for_each(|series| write::bytes(out, 5, series));
        })
    }
}

fn message(build: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    build(&mut out);
    out
}

fn sample(value: f64, time_ms: i64, start_ms: i64) -> Vec<u8> {
    message(|out| {
        write::double(out, 1, value);
        write::number(out, 2, time_ms as u64);
        write::number(out, 3, start_ms as u64);
    })
}

/// Two observations in 1..2, of schema 0.
fn histogram(time_ms: i64, hint: u64) -> Vec<u8> {
    message(|out| {
        write::number(out, 1, 2);
        write::double(out, 3, 2.5);
        write::bytes(out, 11, &message(|out| [(1, 2), (2, 1)].iter().for_each(|(f, v)| write::number(out, *f, *v))));
        write::bytes(out, 12, &message(|out| write::varint(out, 4)));
        write::number(out, 14, hint);
        write::number(out, 15, time_ms as u64);
    })
}

fn read(body: &[u8], known: Option<&KnownSeries>) -> Result<(DecodedRequest, Vec<String>), Error> {
    let mut learnt = Vec::new();
    let learn = |reported: &Metadata<'_>| {
        learnt.push(format!("{} {} {:?} {}", reported.family, reported.kind.as_str(), reported.help, reported.unit));
    };
    v2::read(body, &Tenant::default(), SourceId(7), 3, known, learn).map(|read| (read, learnt))
}

#[test]
fn everything_of_a_request_becomes_a_batch() {
    let mut request = Request::new();
    request.series(&[("__name__", "a_total"), ("job", "x")], |request, out| {
        write::bytes(out, 2, &sample(1.0, 9, 0));
        write::bytes(out, 2, &sample(2.0, 10, 7));
        let refs = request.refs(&[("trace_id", "t1")]);
        write::bytes(
            out,
            4,
            &message(|out| {
                write::bytes(out, 1, &refs);
                write::double(out, 2, 0.5);
                write::number(out, 3, 8);
            }),
        );
        // An exemplar without a time has that of the last sample.
        write::bytes(out, 4, &[]);
        request.metadata(out, 1, "How many.", "");
        write::number(out, 6, 5);
    });
    request.series(&[("__name__", "h_seconds")], |_, out| write::bytes(out, 3, &histogram(9, 0)));
    request.series(&[("__name__", "g_seconds")], |_, out| write::bytes(out, 3, &histogram(9, 3)));
    let (read, learnt) = read(&request.body(), None).unwrap();
    assert_eq!(learnt, ["a_total counter \"How many.\" "]);
    let series: Vec<_> = read.batch.series.iter().map(|series| series.as_ref().unwrap()).collect();
    let reported: Vec<_> =
        series.iter().map(|one| (one.labels.to_string(), one.meta.kind, one.meta.temporality)).collect();
    let expected = [
        ("a_total{job=\"x\"}", Kind::Float, Temporality::Cumulative),
        ("a_total_exemplar{job=\"x\"}", Kind::Text, Temporality::Gauge),
        ("h_seconds", Kind::Histogram, Temporality::Cumulative),
        ("g_seconds", Kind::Histogram, Temporality::Gauge),
    ];
    assert_eq!(reported, expected.map(|(labels, kind, temporality)| (labels.to_owned(), kind, temporality)));
    let samples: Vec<_> = read.batch.samples.iter().map(|sample| sample.as_ref().unwrap()).collect();
    let times: Vec<_> = samples.iter().map(|one| (one.series, one.time_ns, one.start_ns)).collect();
    let ms = |ms: i64| ms * 1_000_000;
    let expected = [
        (0, ms(9), Some(ms(5))),
        (0, ms(10), Some(ms(7))),
        (1, ms(8), None),
        (1, ms(10), None),
        (2, ms(9), None),
        (3, ms(9), None),
    ];
    assert_eq!(times, expected);
    assert_eq!(read.kinds, [Kind::Float, Kind::Float, Kind::Text, Kind::Text, Kind::Histogram, Kind::Histogram]);
    let Value::Text(text) = &samples[2].value else { panic!("{:?}", samples[2]) };
    let exemplar = Exemplar::from_text(text).unwrap();
    assert_eq!((exemplar.labels.get("trace_id"), exemplar.value), ("t1", 0.5));
    let Value::Histogram(histogram) = &samples[4].value else { panic!("{:?}", samples[4]) };
    assert_eq!((histogram.count, histogram.sum), (2, Some(2.5)));
}

#[test]
fn starts_that_say_nothing_are_left_out() {
    let mut request = Request::new();
    request.series(&[("__name__", "a")], |_, out| {
        for start in [9, 10, i64::MAX, -1] {
            write::bytes(out, 2, &sample(1.0, 9, start));
        }
    });
    let (read, _) = read(&request.body(), None).unwrap();
    assert!(read.batch.samples.iter().flatten().all(|sample| sample.start_ns.is_none()), "{:?}", read.batch);
}

#[test]
fn a_series_is_known_again_in_another_table() {
    let known = KnownSeries::default();
    let labels = [("__name__", "a"), ("job", "x")];
    let all = |out: &mut Vec<u8>| {
        write::bytes(out, 2, &sample(1.0, 9, 0));
        write::bytes(out, 3, &histogram(9, 0));
        write::bytes(out, 4, &[]);
    };
    let mut request = Request::new();
    request.series(&labels, |_, out| all(out));
    let (first, _) = read(&request.body(), Some(&known)).unwrap();
    assert_eq!((first.batch.series.len(), first.batch.known.len()), (3, 0));
    known.remember(&first.declared);
    let mut request = Request::new();
    request.series(&[("job", "a"), ("__name__", "x")], |_, out| write::bytes(out, 2, &sample(1.0, 9, 0)));
    request.series(&labels, |_, out| all(out));
    let (second, _) = read(&request.body(), Some(&known)).unwrap();
    let ids: Vec<_> = first.batch.series.iter().map(|one| one.as_ref().unwrap().id(&Tenant::default())).collect();
    assert_eq!((second.batch.series.len(), second.batch.known), (1, ids));
}

#[test]
fn each_thing_is_learnt_once_and_parts_under_their_metric() {
    let mut request = Request::new();
    for name in ["h_bucket", "h_bucket", "h_count"] {
        request.series(&[("job", "x"), ("__name__", name)], |request, out| {
            write::bytes(out, 2, &sample(1.0, 9, 0));
            request.metadata(out, 3, "A histogram.", "s");
        });
    }
    request.series(&[("__name__", "n_sum")], |request, out| {
        write::bytes(out, 3, &histogram(9, 0));
        request.metadata(out, 3, "", "");
    });
    request.series(&[("__name__", "silent")], |request, out| request.metadata(out, 0, "", ""));
    request.series(&[("job", "nameless")], |request, out| request.metadata(out, 1, "", ""));
    // Places that are not in the table stand for nothing.
    request.series(&[("__name__", "far")], |_, out| {
        write::bytes(
            out,
            5,
            &message(|out| [(1, 2), (3, 999), (4, u64::MAX)].iter().for_each(|(f, v)| write::number(out, *f, *v))),
        );
    });
    let (_, learnt) = read(&request.body(), None).unwrap();
    let expected = [
        "h histogram \"A histogram.\" s",
        "h histogram \"A histogram.\" s",
        "n_sum histogram \"\" ",
        "far gauge \"\" ",
    ];
    assert_eq!(learnt, expected);
}

#[test]
fn what_breaks_a_rule_is_one_samples_error() {
    let wrong_refs = |refs: &[u64]| {
        message(|out| {
            write::bytes(out, 1, &message(|out| refs.iter().for_each(|place| write::varint(out, *place))));
            write::bytes(out, 2, &sample(1.0, 9, 0));
        })
    };
    let mut request = Request::new();
    request.series(&[("__name__", "good")], |_, out| write::bytes(out, 2, &sample(1.0, 9, 0)));
    request.series(&[("job", "nameless")], |_, out| write::bytes(out, 2, &sample(1.0, 9, 0)));
    request.series(&[("__name__", "a"), ("x", "1"), ("x", "2")], |_, out| write::bytes(out, 2, &sample(1.0, 9, 0)));
    request.series(&[("__name__", "a"), ("", "1")], |_, out| write::bytes(out, 2, &sample(1.0, 9, 0)));
    request.series(&[("__name__", "")], |_, out| write::bytes(out, 4, &[]));
    let many: Vec<u64> = std::iter::repeat_n([1, 2], 129).flatten().collect();
    for refs in [&[1, 2, 1][..], &[1, 99], &[1, u64::MAX], &[], &many] {
        request.series.push(wrong_refs(refs));
    }
    request.series(&[("__name__", "late")], |_, out| {
        write::bytes(out, 2, &sample(1.0, i64::MAX, 0));
        write::bytes(out, 3, &message(|out| write::number(out, 1, 2)));
    });
    let (read, _) = read(&request.body(), None).unwrap();
    let reasons: Vec<_> = read.batch.samples.iter().map(|sample| sample.as_ref().err().copied()).collect();
    let none = [None; 10];
    assert_eq!(reasons, [&none[..], &[Some(Reason::TimeTooNew), Some(Reason::HistogramInvalid)]].concat());
    let errors: Vec<_> = read.batch.series.iter().filter_map(|series| series.as_ref().err()).collect();
    assert_eq!(errors.len(), 9, "{errors:?}");
    assert!(
        matches!(errors[1], SeriesError::DuplicateLabel { .. }) && matches!(errors[8], SeriesError::TooLarge { .. })
    );
    assert_eq!(read.batch.samples.len(), 12);
}

#[test]
fn places_one_at_a_time_or_in_pieces_are_the_same() {
    let mut request = Request::new();
    let refs = request.refs(&[("__name__", "a"), ("job", "x")]);
    request.series.push(message(|out| {
        write::number(out, 1, u64::from(refs[0]));
        write::bytes(out, 2, &sample(1.0, 9, 0));
        write::bytes(out, 1, &refs[1..]);
    }));
    let (read, _) = read(&request.body(), None).unwrap();
    assert_eq!(read.batch.series[0].as_ref().unwrap().labels.to_string(), "a{job=\"x\"}");
}

#[test]
fn tables_have_rules() {
    let body = message(|out| write::bytes(out, 4, b"first"));
    assert!(matches!(read(&body, None), Err(Error::Malformed { .. })));
    let body = message(|out| write::bytes(out, 4, &[0xff]));
    assert!(matches!(read(&body, None), Err(Error::Malformed { .. })));
    let mut body = [0x22, 0].repeat(v2::SYMBOLS_MAX);
    assert!(read(&body, None).is_ok());
    body.extend([0x22, 0]);
    assert!(matches!(read(&body, None), Err(Error::TooLarge { .. })));
    assert_eq!(read(&[], None).unwrap().0.batch.samples.len(), 0);
}

fn full() -> Vec<u8> {
    let mut request = Request::new();
    request.series(&[("__name__", "a"), ("job", "x")], |request, out| {
        write::bytes(out, 2, &sample(1.0, 9, 3));
        write::bytes(out, 3, &histogram(9, 0));
        let refs = request.refs(&[("trace_id", "t1")]);
        write::bytes(out, 4, &message(|out| write::bytes(out, 1, &refs)));
        request.metadata(out, 3, "h", "s");
        write::number(out, 6, 5);
    });
    request.body()
}

/// Twenty thousand damaged requests from one seed: each is read or refused, and none makes much of little.
#[test]
fn damaged_requests_end() {
    mutations(&full(), 20_000, 4, &[], |body| {
        if let Ok((read, _)) = read(body, None) {
            assert!(read.batch.samples.len() <= body.len() && read.kinds.len() == read.batch.samples.len());
        }
    });
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(body: Vec<u8>) {
        let _ = read(&body, None);
    }
}
