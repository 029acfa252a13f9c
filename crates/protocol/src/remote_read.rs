//! Prometheus remote read: the messages `prometheus.ReadRequest` and `prometheus.ReadResponse`.
//!
//! Format: `prompb/{remote,types}.proto` of github.com/prometheus/prometheus. An answer holds samples; a client that would
//! take chunks takes these too.
//! Limits: [`QUERIES_MAX`] of a request, [`MATCHERS_MAX`] of a query.

use ogive_hist::{Bins, Count, CounterReset, Histogram, Scheme};
use ogive_model::{HistogramValue, MatchOp, Matcher, SeriesData, Temporality, TimeRange};

use crate::Error;
use crate::protobuf::{Fields, write};

/// 64 queries: Prometheus sends one.
pub const QUERIES_MAX: usize = 64;
/// 128 matchers: as many as a series has labels.
pub const MATCHERS_MAX: usize = 128;

/// What a histogram of another scheme is converted to: bins 4.4 % wide, finer than those of any scheme that Ogive records.
const SCALE: i32 = 4;
/// The schemas that every Prometheus with native histograms reads.
const SCALES: std::ops::RangeInclusive<i32> = -4..=8;
const CUSTOM: i64 = -53;

/// One question of a request.
#[derive(Clone, Debug)]
pub struct Query {
    /// All must hold.
    pub matchers: Vec<Matcher>,
    /// When; both ends of the request are inside.
    pub range: TimeRange,
}

/// The questions of the request in `message`.
///
/// # Errors
/// When the message is broken, a matcher is wrong, or a limit is passed.
pub fn queries(message: &[u8]) -> Result<Vec<Query>, Error> {
    let mut queries = Vec::new();
    for field in Fields::new(message) {
        let (1, query) = field? else { continue };
        within("the number of queries", queries.len() + 1, QUERIES_MAX)?;
        queries.push(query_of(query.bytes("a query is not a message")?)?);
    }
    Ok(queries)
}

fn query_of(message: &[u8]) -> Result<Query, Error> {
    let (mut start, mut end, mut matchers) = (0, 0, Vec::new());
    for field in Fields::new(message) {
        match field? {
            (1, time) => start = time.varint("a query's start is not a number")? as i64,
            (2, time) => end = time.varint("a query's end is not a number")? as i64,
            (3, matcher) => {
                within("the number of matchers", matchers.len() + 1, MATCHERS_MAX)?;
                matchers.push(matcher_of(matcher.bytes("a matcher is not a message")?)?);
            }
            _ => {}
        }
    }
    Ok(Query { matchers, range: TimeRange { start_ms: start.saturating_sub(1), end_ms: end } })
}

fn matcher_of(message: &[u8]) -> Result<Matcher, Error> {
    let (mut op, mut name, mut value) = (MatchOp::Equal, "", "");
    for field in Fields::new(message) {
        match field? {
            (1, code) => {
                op = match code.varint("a matcher's type is not a number")? {
                    0 => MatchOp::Equal,
                    1 => MatchOp::NotEqual,
                    2 => MatchOp::Regex,
                    3 => MatchOp::NotRegex,
                    _ => return Err(Error::Malformed { what: "a matcher's type is not known" }),
                }
            }
            (2, text) => name = text.text("a matcher's name is not UTF-8")?,
            (3, text) => value = text.text("a matcher's value is not UTF-8")?,
            _ => {}
        }
    }
    Matcher::new(name, op, value).map_err(|_| Error::Malformed { what: "a matcher's regular expression is wrong" })
}

fn within(what: &'static str, found: usize, limit: usize) -> Result<(), Error> {
    if found > limit { Err(Error::TooLarge { what, found: found as u64, limit: limit as u64 }) } else { Ok(()) }
}

/// The answer, query by query.
#[derive(Debug, Default)]
pub struct Answer {
    message: Vec<u8>,
}

impl Answer {
    /// Adds what was found for the next query: `series` by ascending labels. Texts, which Prometheus has none of, are left out.
    pub fn push(&mut self, series: &[SeriesData]) {
        let mut result = Vec::new();
        let mut at = 0;
        while at < series.len() {
            // Floats and histograms of the same labels are one series there.
            let same = series[at..].iter().take_while(|one| one.labels == series[at].labels).count();
            put_series(&mut result, &series[at..at + same]);
            at += same;
        }
        write::bytes(&mut self.message, 1, &result);
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.message
    }
}

fn put_series(result: &mut Vec<u8>, same: &[SeriesData]) {
    if same.iter().all(|series| series.floats.times.is_empty() && series.histograms.times.is_empty()) {
        return;
    }
    let mut out = Vec::new();
    for (name, value) in same[0].labels.iter() {
        let mut label = Vec::new();
        write::bytes(&mut label, 1, name.as_bytes());
        write::bytes(&mut label, 2, value.as_bytes());
        write::bytes(&mut out, 1, &label);
    }
    let mut piece = Vec::new();
    for series in same {
        for (time, value) in series.floats.times.iter().zip(&series.floats.values) {
            piece.clear();
            write::double(&mut piece, 1, *value);
            write::number(&mut piece, 2, *time as u64);
            write::bytes(&mut out, 2, &piece);
        }
        let is_state = series.meta.temporality != Temporality::Cumulative;
        for (time, value) in series.histograms.times.iter().zip(&series.histograms.values) {
            piece.clear();
            match value {
                HistogramValue::Integer(histogram) => put_histogram(&mut piece, histogram, is_state),
                HistogramValue::Float(histogram) => put_histogram(&mut piece, histogram, is_state),
            }
            write::number(&mut piece, 15, *time as u64);
            write::bytes(&mut out, 4, &piece);
        }
    }
    write::bytes(result, 1, &out);
}

/// How a count is written: as an integer and a difference to the one before, or as a double.
trait Written: Count {
    /// Fields of the count and of the zero bin.
    const FIELDS: [u32; 2];

    fn put(self, out: &mut Vec<u8>, field: u32);
    /// Appends to the packed counts of one sign, behind `before`.
    fn pack(self, before: Self, out: &mut Vec<u8>);
    /// The field of the packed counts of the positive bins.
    const POSITIVE: u32;
    /// The field of the packed counts of the negative bins.
    const NEGATIVE: u32;
}

impl Written for u64 {
    const FIELDS: [u32; 2] = [1, 6];
    const POSITIVE: u32 = 12;
    const NEGATIVE: u32 = 9;

    fn put(self, out: &mut Vec<u8>, field: u32) {
        write::number(out, field, self);
    }

    fn pack(self, before: Self, out: &mut Vec<u8>) {
        let difference = self.wrapping_sub(before) as i64;
        write::varint(out, ((difference << 1) ^ (difference >> 63)) as u64);
    }
}

impl Written for f64 {
    const FIELDS: [u32; 2] = [2, 7];
    const POSITIVE: u32 = 13;
    const NEGATIVE: u32 = 10;

    fn put(self, out: &mut Vec<u8>, field: u32) {
        write::double(out, field, self);
    }

    fn pack(self, _: Self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
}

fn put_histogram<C: Written>(out: &mut Vec<u8>, histogram: &Histogram<C>, is_state: bool) {
    let converted;
    let (schema, histogram) = match &histogram.scheme {
        Scheme::Exp2 { scale } if SCALES.contains(&i32::from(*scale)) => (i64::from(*scale), histogram),
        Scheme::Custom { .. } => (CUSTOM, histogram),
        other => {
            let scale = match other {
                Scheme::Exp2 { scale } => i32::from(*scale).clamp(*SCALES.start(), *SCALES.end()),
                _ => SCALE,
            };
            converted = histogram.convert(&Scheme::exp2(scale).expect("a known scale")).0;
            (i64::from(scale), &converted)
        }
    };
    histogram.count.put(out, C::FIELDS[0]);
    // Observations that are no number are in the count and in no bin: Prometheus knows them by a sum that is none.
    let sum = histogram.sum.filter(|_| histogram.nan == C::ZERO);
    write::double(out, 3, sum.unwrap_or(f64::NAN));
    write::signed(out, 4, schema);
    write::double(out, 5, histogram.zero_threshold);
    histogram.zero.put(out, C::FIELDS[1]);
    put_side(out, &histogram.negative, [8, C::NEGATIVE]);
    put_side(out, &histogram.positive, [11, C::POSITIVE]);
    let reset = match histogram.reset {
        _ if is_state => 3,
        CounterReset::Unknown => 0,
        CounterReset::Reset => 1,
        CounterReset::NotReset => 2,
        CounterReset::Gauge => 3,
    };
    write::number(out, 14, reset);
    if let Scheme::Custom { bounds } = &histogram.scheme {
        let packed: Vec<u8> = bounds.iter().flat_map(|bound| bound.to_le_bytes()).collect();
        write::bytes(out, 16, &packed);
    }
}

/// The bins of one sign: runs of neighbours as spans, and the counts.
fn put_side<C: Written>(out: &mut Vec<u8>, bins: &Bins<C>, [spans, counts]: [u32; 2]) {
    let (mut packed, mut before) = (Vec::new(), C::ZERO);
    let mut end = 0;
    let mut run: Option<(i64, u64)> = None;
    let put_span = |out: &mut Vec<u8>, (offset, length): (i64, u64)| {
        let mut span = Vec::new();
        write::signed(&mut span, 1, offset);
        write::number(&mut span, 2, length);
        write::bytes(out, spans, &span);
    };
    for (index, count) in bins.iter() {
        let index = i64::from(index);
        match &mut run {
            Some((_, length)) if index == end => *length += 1,
            _ => {
                if let Some(run) = run.replace((index - end, 1)) {
                    put_span(out, run);
                }
            }
        }
        end = index + 1;
        count.pack(before, &mut packed);
        before = count;
    }
    if let Some(run) = run {
        put_span(out, run);
        write::bytes(out, counts, &packed);
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::{Kind, Labels, SeriesMeta, SourceId, Tenant, Value};
    use proptest::prelude::*;

    use super::*;
    use crate::remote_write::v1;

    fn series(labels: &[(&str, &str)], kind: Kind, temporality: Temporality) -> SeriesData {
        SeriesData {
            labels: Labels::new(labels.iter().copied()).unwrap(),
            meta: SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 },
            floats: Default::default(),
            histograms: Default::default(),
            texts: Default::default(),
            rollup_ms: 0,
        }
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
        histograms.histograms.values =
            vec![HistogramValue::Integer(whole.clone()), HistogramValue::Float(custom.clone())];
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
        assert_eq!(read.scheme, Scheme::exp2(SCALE).unwrap());
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
        let request = |matchers: &[Vec<u8>]| {
            let mut query = Vec::new();
            write::number(&mut query, 1, 1_000);
            write::number(&mut query, 2, 2_000);
            matchers.iter().for_each(|matcher| write::bytes(&mut query, 3, matcher));
            let mut out = Vec::new();
            write::bytes(&mut out, 1, &query);
            out
        };
        let read = queries(&request(&[matcher(0, "__name__", "up"), matcher(3, "job", "a|b")])).unwrap();
        assert_eq!(read[0].range, TimeRange { start_ms: 999, end_ms: 2_000 });
        assert_eq!((read[0].matchers[0].op, read[0].matchers[1].op), (MatchOp::Equal, MatchOp::NotRegex));
        assert!(read[0].matchers[1].matches("c") && !read[0].matchers[1].matches("a"));
        assert!(matches!(queries(&request(&[matcher(4, "a", "b")])), Err(Error::Malformed { .. })));
        assert!(matches!(queries(&request(&[matcher(2, "a", "(")])), Err(Error::Malformed { .. })));
        let many = vec![matcher(0, "a", "b"); MATCHERS_MAX];
        assert!(queries(&request(&many)).is_ok());
        assert!(matches!(queries(&request(&[&many[..], &many[..1]].concat())), Err(Error::TooLarge { .. })));
        assert!(matches!(queries(&request(&[]).repeat(QUERIES_MAX + 1)), Err(Error::TooLarge { .. })));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(body: Vec<u8>) {
            let _ = queries(&body);
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
}
