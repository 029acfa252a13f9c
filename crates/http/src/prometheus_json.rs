//! Query results as the Prometheus HTTP API writes them.
//!
//! Format: times are seconds with a millisecond fraction, values are strings as Go prints them, `resultType` stands
//! before `result`; a native histogram is `{"count","sum","buckets":[[rule,lo,hi,count]..]}`, the rule telling which
//! edges belong to the bucket. Buckets that count nothing are left out.

use std::cmp::Ordering;
use std::io::Write as _;
use std::ops::Range;

use ogive_hist::Histogram;
use ogive_model::{Labels, float};
use ogive_query::value::{InstantSample, Point, QueryResult, Series, Value};

use super::pieces::Written;

/// The envelope of a query's result, with `stats` inside its data if requested.
pub(crate) struct Answer {
    result: QueryResult,
    stats: Option<serde_json::Value>,
    at: WritePosition,
}

/// Where the writing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WritePosition {
    Head,
    /// An element of the result, and a point of it: those of a series are its numbers and then its distributions.
    Element(usize, usize),
    Tail,
}

/// 64 points in a step: some kilobytes, unless they are distributions.
const POINTS_STEP: usize = 64;

impl Answer {
    pub(crate) const fn new(result: QueryResult, stats: Option<serde_json::Value>) -> Self {
        Self { result, stats, at: WritePosition::Head }
    }

    fn head(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"status":"success","data":{"resultType":""#);
        let kind: &[u8] = match &self.result.value {
            Value::Scalar { .. } => b"scalar",
            Value::String { .. } => b"string",
            Value::Vector(_) => b"vector",
            Value::Matrix(_) => b"matrix",
        };
        out.extend_from_slice(kind);
        out.extend_from_slice(br#"","result":["#);
        self.at = WritePosition::Element(0, 0);
    }

    /// An element, or some points of one.
    fn element(&mut self, out: &mut Vec<u8>, element: usize, point: usize) {
        let next = WritePosition::Element(element + 1, 0);
        self.at = match &self.result.value {
            Value::Scalar { time: at, value } => {
                time(out, at.0);
                out.extend_from_slice(b",\"");
                number(out, *value);
                out.push(b'"');
                WritePosition::Tail
            }
            Value::String { time: at, value } => {
                time(out, at.0);
                out.push(b',');
                string(out, value);
                WritePosition::Tail
            }
            Value::Vector(samples) => match samples.get(element) {
                None => WritePosition::Tail,
                Some(sample) => {
                    separate(out, element);
                    instant(out, sample);
                    next
                }
            },
            Value::Matrix(rows) => match rows.get(element) {
                None => WritePosition::Tail,
                Some(row) => {
                    let from = point;
                    if from == 0 {
                        separate(out, element);
                    }
                    let to = from + POINTS_STEP;
                    if series(out, row, from..to) { next } else { WritePosition::Element(element, to) }
                }
            },
        };
    }

    fn tail(&self, out: &mut Vec<u8>) {
        out.push(b']');
        if let Some(stats) = &self.stats {
            write!(out, ",\"stats\":{stats}").expect("writes to memory");
        }
        out.push(b'}');
        notes(out, &self.result.warnings, &self.result.infos);
        if self.result.stats.rollup_ms > 0 {
            write!(out, ",\"resolution_ms\":{}", self.result.stats.rollup_ms).expect("writes to memory");
        }
        out.extend_from_slice(b"}\n");
    }
}

impl Written for Answer {
    fn step(&mut self, out: &mut Vec<u8>) -> bool {
        match self.at {
            WritePosition::Head => self.head(out),
            WritePosition::Element(element, point) => self.element(out, element, point),
            WritePosition::Tail => {
                self.tail(out);
                return false;
            }
        }
        true
    }
}

fn separate(out: &mut Vec<u8>, at: usize) {
    if at > 0 {
        out.push(b',');
    }
}

/// `,"warnings":[..],"infos":[..]`, each only if it has entries.
pub(crate) fn notes(out: &mut Vec<u8>, warnings: &[String], infos: &[String]) {
    for (name, texts) in [("warnings", warnings), ("infos", infos)] {
        if !texts.is_empty() {
            write!(out, ",\"{name}\":").expect("writes to memory");
            serde_json::to_writer(&mut *out, texts).expect("texts are JSON");
        }
    }
}

fn instant(out: &mut Vec<u8>, sample: &InstantSample) {
    out.extend_from_slice(b"{\"metric\":");
    labels(out, &sample.labels);
    match &sample.value {
        Point::Float(value) => {
            out.extend_from_slice(b",\"value\":");
            float_point(out, sample.time.0, *value);
        }
        Point::Histogram(value) => {
            out.extend_from_slice(b",\"histogram\":");
            histogram_point(out, sample.time.0, value);
        }
    }
    out.push(b'}');
}

/// Writes some of a series' points, its head before the first and its end behind the last; true when it has ended.
fn series(out: &mut Vec<u8>, series: &Series, points: Range<usize>) -> bool {
    if points.start == 0 {
        out.extend_from_slice(b"{\"metric\":");
        labels(out, &series.labels);
    }
    let floats = series.floats.len();
    let all = floats + series.histograms.len();
    for point in points.start..points.end.min(all) {
        if point < floats {
            out.extend_from_slice(if point == 0 { b",\"values\":[" } else { b"," });
            float_point(out, series.floats[point].0, series.floats[point].1);
        } else {
            out.extend_from_slice(if point == floats { b",\"histograms\":[" } else { b"," });
            let (time_ms, value) = &series.histograms[point - floats];
            histogram_point(out, *time_ms, value);
        }
        if point + 1 == floats || point + 1 == all {
            out.push(b']');
        }
    }
    if points.end >= all {
        out.push(b'}');
    }
    points.end >= all
}

fn float_point(out: &mut Vec<u8>, time_ms: i64, value: f64) {
    out.push(b'[');
    time(out, time_ms);
    out.extend_from_slice(b",\"");
    number(out, value);
    out.extend_from_slice(b"\"]");
}

fn histogram_point(out: &mut Vec<u8>, time_ms: i64, value: &Histogram<f64>) {
    out.push(b'[');
    time(out, time_ms);
    out.extend_from_slice(b",{\"count\":\"");
    number(out, value.count);
    out.extend_from_slice(b"\",\"sum\":\"");
    number(out, value.sum_or_estimate());
    out.push(b'"');
    let mut first = true;
    for bucket in value.buckets() {
        out.extend_from_slice(if first { b",\"buckets\":[" } else { b"," });
        first = false;
        write!(out, "[{},\"", bucket.closed.prometheus_rule()).expect("writes to memory");
        number(out, bucket.lo);
        out.extend_from_slice(b"\",\"");
        number(out, bucket.hi);
        out.extend_from_slice(b"\",\"");
        number(out, bucket.count);
        out.extend_from_slice(b"\"]");
    }
    if !first {
        out.push(b']');
    }
    out.extend_from_slice(b"}]");
}

/// An object of label names and values.
pub(crate) fn labels(out: &mut Vec<u8>, labels: &Labels) {
    out.push(b'{');
    for (at, (name, value)) in labels.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        string(out, name);
        out.push(b':');
        string(out, value);
    }
    out.push(b'}');
}

/// A JSON string.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a text is JSON");
}

/// Milliseconds, of an instant or a span, as seconds: `1.5` as `1.500`, whole ones without a point.
pub(crate) fn time(out: &mut Vec<u8>, ms: i64) {
    if ms < 0 {
        out.push(b'-');
    }
    let (seconds, fraction) = (ms.unsigned_abs() / 1000, ms.unsigned_abs() % 1000);
    digits(out, seconds, 1);
    if fraction > 0 {
        out.push(b'.');
        digits(out, fraction, 3);
    }
}

/// The two digits of each number below 100.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// A whole number of at least `width` digits. A third of the time that formatting takes, and a response is mostly
/// these.
fn digits(out: &mut Vec<u8>, mut number: u64, width: usize) {
    let mut text = [b'0'; 20];
    let mut at = text.len();
    while number >= 10 {
        at -= 2;
        text[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if number > 0 {
        at -= 1;
        text[at] = b'0' + number as u8;
    }
    out.extend_from_slice(&text[at.min(text.len() - width)..]);
}

/// Writes `value` when it is a decimal number of at most fifteen digits with at most six decimals, as measured values
/// often are. Every decimal number of fifteen digits has a double of its own, so no shorter one reads back as the same.
fn decimal(out: &mut Vec<u8>, value: f64) -> bool {
    const DIGITS_MAX: f64 = 1e15;
    for (places, factor) in [(0, 1.0), (2, 1e2), (6, 1e6)] {
        let wanted = value.abs() * factor;
        // NaN and infinity are not below it either.
        if wanted.partial_cmp(&DIGITS_MAX) != Some(Ordering::Less) {
            return false;
        }
        // Without SSE 4.1 `round` is a library call, which costs as much as the rest. Where adding a half gives another
        // integer than `round`, the value does not have so few places, and the comparison below fails.
        let scaled = (wanted + 0.5) as i64;
        if scaled as f64 / factor != value.abs() {
            continue;
        }
        if value.is_sign_negative() {
            out.push(b'-');
        }
        let (scaled, factor) = (scaled.unsigned_abs(), factor as u64);
        digits(out, scaled / factor, 1);
        if scaled % factor > 0 {
            out.push(b'.');
            digits(out, scaled % factor, places);
            while out.last() == Some(&b'0') {
                out.pop();
            }
        }
        return true;
    }
    false
}

/// A number as Go's `strconv` prints it: the shortest digits that read back, without an exponent from 1e-6 up to 1e21.
pub(crate) fn number(out: &mut Vec<u8>, value: f64) {
    if decimal(out, value) {
        return;
    }
    if let Some(word) = float::word(value) {
        out.extend_from_slice(word.as_bytes());
    } else if value == 0.0 || (1e-6..1e21).contains(&value.abs()) {
        write!(out, "{value}").expect("writes to memory");
    } else {
        out.extend_from_slice(float::scientific(value).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ogive_model::WallMs;

    use super::*;

    /// All of an answer.
    fn answer(result: QueryResult) -> String {
        let (mut out, mut answer) = (Vec::new(), Answer::new(result, None));
        while answer.step(&mut out) {}
        String::from_utf8(out).unwrap()
    }

    fn text(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_those_of_go() {
        let check = |value: f64, expected: &str| assert_eq!(text(|out| number(out, value)), expected);
        check(0.0, "0");
        check(-0.0, "-0");
        check(1.0, "1");
        check(0.1, "0.1");
        check(1e20, "100000000000000000000");
        check(1e21, "1e+21");
        check(1.5e-7, "1.5e-07");
        check(1e-6, "0.000001");
        check(f64::MAX, "1.7976931348623157e+308");
        check(f64::NAN, "NaN");
        check(f64::INFINITY, "+Inf");
        check(f64::NEG_INFINITY, "-Inf");
        check(-12.5, "-12.5");
        check(100.0, "100");
        check(1e-5, "0.00001");
        check(999_999_999.999_999, "999999999.999999");
        check(0.1 + 0.2, "0.30000000000000004");
    }

    #[test]
    fn decimal_numbers_are_written_as_the_shortest_digits_too() {
        let mut state = 7_u64;
        for _ in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let whole = (state >> 14) as i64 - (1 << 49);
            let factor = [1.0, 10.0, 100.0, 1e3, 1e6, 1e7][(state % 6) as usize];
            let value = (whole >> ((state >> 40) % 50)) as f64 / factor;
            let expected = if value != 0.0 && value.abs() < 1e-6 { continue } else { format!("{value}") };
            assert_eq!(text(|out| number(out, value)), expected);
        }
    }

    #[test]
    fn whole_numbers_have_all_their_digits() {
        for power in 0..20_u32 {
            for number in
                [10_u64.pow(power), 10_u64.pow(power) - 1, 10_u64.pow(power) / 7, u64::MAX / 10_u64.pow(power)]
            {
                for width in [1, 3, 6] {
                    assert_eq!(text(|out| digits(out, number, width)), format!("{number:0width$}"));
                }
            }
        }
    }

    #[test]
    fn times_keep_their_milliseconds() {
        let check = |ms: i64, expected: &str| assert_eq!(text(|out| time(out, ms)), expected);
        check(1_700_000_000_000, "1700000000");
        check(1_700_000_000_010, "1700000000.010");
        check(-1_500, "-1.500");
        check(-1, "-0.001");
    }

    #[test]
    fn a_vector_with_a_histogram_is_as_documented() {
        let mut histogram = Histogram::log_linear();
        [-0.5, 0.0, 0.25, 0.25].into_iter().for_each(|value| histogram.record(value));
        let sample = |labels: Labels, value| InstantSample { labels, time: WallMs(1_500), value };
        let result = QueryResult {
            value: Value::Vector(vec![
                sample(Labels::new([("__name__", "a\"b")]).unwrap(), Point::Float(1.5)),
                sample(Labels::empty(), Point::Histogram(Arc::new(histogram.to_float()))),
            ]),
            warnings: vec!["careful".into()],
            ..empty()
        };
        assert_eq!(
            answer(result),
            concat!(
                r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"a\"b"},"#,
                r#""value":[1.500,"1.5"]},{"metric":{},"histogram":[1.500,{"count":"4","sum":"0","buckets":["#,
                r#"[0,"-0.51","-0.5","1"],[3,"-0","0","1"],[1,"0.25","0.26","2"]]}]}]},"warnings":["careful"]}"#,
                "\n"
            )
        );
    }

    /// The rules of custom buckets as Prometheus has them: the first holds its lower edge, minus infinity, too; no
    /// other does.
    #[test]
    fn the_first_custom_bucket_is_closed_at_both_ends() {
        let check = |bounds: &[f64], values: &[f64], expected: &str| {
            let mut histogram = Histogram::<u64>::new(ogive_hist::Scheme::Custom { bounds: bounds.to_vec().into() });
            values.iter().for_each(|value| histogram.record(*value));
            let body = text(|out| histogram_point(out, 0, &histogram.to_float()));
            let buckets = body.split_once("\"buckets\":").unwrap().1;
            assert_eq!(buckets, format!("{expected}}}]"));
        };
        check(&[1.0, 2.0], &[0.5, 1.5, 9.0], r#"[[3,"-Inf","1","1"],[0,"1","2","1"],[0,"2","+Inf","1"]]"#);
        check(&[-1.0, 2.0], &[-3.0, 0.0], r#"[[3,"-Inf","-1","1"],[0,"-1","2","1"]]"#);
        check(&[1.0, 2.0], &[1.5], r#"[[0,"1","2","1"]]"#);
    }

    fn empty() -> QueryResult {
        let stats = ogive_query::QueryStats::default();
        QueryResult {
            value: Value::Vector(Vec::new()),
            warnings: Vec::new(),
            infos: Vec::new(),
            stats,
            held: Default::default(),
        }
    }

    /// A series of many points is written in steps, and comes out as if it were written whole.
    #[test]
    fn series_are_the_same_whole_and_in_steps() {
        for (floats, histograms) in [(0, 1), (1, 0), (POINTS_STEP, 0), (POINTS_STEP, 1), (3 * POINTS_STEP + 1, 70)] {
            let series = Series {
                labels: Labels::empty(),
                floats: (0..floats).map(|at| (at as i64, 1.0)).collect(),
                histograms: (0..histograms)
                    .map(|at| (at as i64, Arc::new(Histogram::log_linear().to_float())))
                    .collect(),
            };
            let body = answer(QueryResult { value: Value::Matrix(vec![series.clone(), series]), ..empty() });
            let body: serde_json::Value = serde_json::from_str(&body).unwrap();
            for one in body["data"]["result"].as_array().unwrap() {
                let length = |name: &str| one[name].as_array().map_or(0, Vec::len);
                assert_eq!((length("values"), length("histograms")), (floats, histograms));
            }
            assert_eq!(body["data"]["result"].as_array().unwrap().len(), 2);
        }
    }

    #[test]
    fn matrices_scalars_and_strings_are_as_documented() {
        let check = |value: Value, expected: &str| {
            let body = answer(QueryResult { value, ..empty() });
            assert_eq!(body, format!("{{\"status\":\"success\",\"data\":{expected}}}\n"));
        };
        check(Value::Scalar { time: WallMs(1000), value: f64::NAN }, r#"{"resultType":"scalar","result":[1,"NaN"]}"#);
        check(Value::String { time: WallMs(0), value: "x".into() }, r#"{"resultType":"string","result":[0,"x"]}"#);
        let series = Series {
            labels: Labels::empty(),
            floats: vec![(0, 1.0), (1, 2.0)],
            histograms: vec![(2, Arc::new(Histogram::log_linear().to_float()))],
        };
        check(
            Value::Matrix(vec![series]),
            r#"{"resultType":"matrix","result":[{"metric":{},"values":[[0,"1"],[0.001,"2"]],"histograms":[[0.002,{"count":"0","sum":"0"}]]}]}"#,
        );
    }
}
