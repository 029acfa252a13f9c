//! One pass over many instants must say at each of them what an instant query says there, whatever the data.

use std::sync::Arc;

use ogive_hist::{CounterReset, Histogram, Scheme};
use ogive_model::{
    HistogramValue, Kind, Labels, Ms, Select, SelectError, Selection, SeriesData, SeriesMeta, Temporality, WallMs,
};
use ogive_query::value::{Point, Series};
use ogive_query::{Engine, EngineOptions, Error, Value};
use proptest::prelude::*;

/// Prometheus' staleness marker.
const STALE: f64 = f64::from_bits(0x7ff0_0000_0000_0002);

struct Fixed(Vec<SeriesData>);

impl Select for Fixed {
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        let wanted = |series: &&SeriesData| selection.matchers.iter().all(|m| m.matches(series.labels.get(&m.name)));
        let inside = |time: i64| selection.range.contains_ms(time);
        let cut = |series: &SeriesData| {
            let mut out = series.clone();
            let floats = series.floats.times.iter().zip(&series.floats.values).filter(|(time, _)| inside(**time));
            (out.floats.times, out.floats.values) = floats.map(|(time, value)| (*time, *value)).unzip();
            let histograms = series.histograms.times.iter().zip(&series.histograms.values);
            let histograms = histograms.filter(|(time, _)| inside(**time));
            (out.histograms.times, out.histograms.values) = histograms.map(|(t, value)| (*t, value.clone())).unzip();
            out
        };
        Ok(self.0.iter().filter(wanted).map(cut).collect())
    }
}

/// What one scrape of a series found.
#[derive(Clone, Debug)]
enum Scraped {
    Nothing,
    Float(f64),
    Exponential { scale: i8, counts: Vec<u8>, gauge: bool },
    Custom { bounds: u8, counts: Vec<u8> },
}

fn found() -> impl Strategy<Value = Scraped> {
    prop_oneof![
        2 => Just(Scraped::Nothing),
        8 => (0..40_u8).prop_map(|value| Scraped::Float(f64::from(value) / 2.0 - 3.0)),
        1 => prop_oneof![Just(STALE), Just(f64::NAN), Just(f64::INFINITY)].prop_map(Scraped::Float),
        4 => (0..3_i8, proptest::collection::vec(0..9_u8, 0..5), any::<bool>())
            .prop_map(|(scale, counts, gauge)| Scraped::Exponential { scale, counts, gauge }),
        2 => (1..4_u8, proptest::collection::vec(0..9_u8, 0..4))
            .prop_map(|(bounds, counts)| Scraped::Custom { bounds, counts }),
    ]
}

fn histogram(scheme: Scheme, counts: &[u8]) -> Histogram<f64> {
    let mut out = Histogram::new(scheme);
    out.positive = (0..).zip(counts.iter().map(|count| f64::from(*count))).collect();
    out.recount();
    out.sum = Some(out.count * 1.5);
    out
}

fn series(number: usize, scrapes: &[Scraped], temporality: Temporality) -> SeriesData {
    let labels = [("__name__", "m_total".to_owned()), ("n", number.to_string()), ("parity", (number % 2).to_string())];
    let mut out = SeriesData::new(
        Labels::new(labels).unwrap(),
        SeriesMeta { kind: Kind::Float, temporality, unit: String::new(), width_ms: 10_000 },
    );
    for (at, found) in scrapes.iter().enumerate() {
        let time = at as i64 * 10_000 + number as i64 * 700;
        let value = match found {
            Scraped::Nothing => continue,
            Scraped::Float(value) => {
                out.floats.times.push(time);
                out.floats.values.push(*value);
                continue;
            }
            Scraped::Exponential { scale, counts, gauge } => {
                let mut value = histogram(Scheme::Exp2 { scale: *scale }, counts);
                value.reset = if *gauge { CounterReset::Gauge } else { CounterReset::Unknown };
                value
            }
            Scraped::Custom { bounds, counts } => {
                let most = usize::from(*bounds) + 1;
                let bounds: Arc<[f64]> = (1..=*bounds).map(f64::from).collect();
                histogram(Scheme::Custom { bounds }, &counts[..counts.len().min(most)])
            }
        };
        out.histograms.times.push(time);
        out.histograms.values.push(HistogramValue::Float(value));
    }
    out
}

const QUERIES: &[&str] = &[
    "m_total",
    "m_total offset 15s",
    "rate(m_total[45s])",
    "increase(m_total[25s] offset 5s)",
    "delta(m_total[45s])",
    "irate(m_total[45s])",
    "idelta(m_total[45s])",
    "increase(m_total[30s] anchored)",
    "rate(m_total[30s] smoothed)",
    "m_total smoothed",
    "sum_over_time(m_total[40s])",
    "avg_over_time(m_total[40s])",
    "min_over_time(m_total[40s]) + max_over_time(m_total[30s])",
    "count_over_time(m_total[40s])",
    "first_over_time(m_total[40s])",
    "last_over_time(m_total[40s])",
    "quantile_over_time(0.3, m_total[40s])",
    "stddev_over_time(m_total[40s])",
    "mad_over_time(m_total[40s])",
    "resets(m_total[60s])",
    "changes(m_total[60s])",
    "changes(m_total[30s] anchored)",
    "deriv(m_total[60s])",
    "predict_linear(m_total[60s], 30)",
    "ts_of_max_over_time(m_total[60s])",
    "absent_over_time(m_total[10s])",
    "absent(m_total)",
    "timestamp(m_total)",
    "sum(m_total)",
    "avg by (parity) (m_total)",
    "sum by (parity) (rate(m_total[45s]))",
    "max(m_total) - min(m_total)",
    "quantile(0.5, m_total)",
    "stddev(m_total)",
    "count by (parity) (m_total)",
    "count_values(\"v\", m_total)",
    "topk(2, m_total)",
    "histogram_quantile(0.9, m_total)",
    "histogram_quantile(0.5, sum(rate(m_total[45s])))",
    "histogram_fraction(0, 2, m_total)",
    "histogram_count(sum(m_total))",
    "m_total + on(n) group_left m_total",
    "m_total > 2 or m_total offset 10s",
    "m_total and m_total{parity=\"1\"}",
    "m_total unless on(parity) m_total{n=\"0\"}",
    "sum_over_time((m_total * 2)[40s:7s])",
    "max_over_time(sum(rate(m_total[30s]))[1m:10s])",
    "m_total * 3 - m_total",
    "-m_total",
    "clamp(m_total, 0, 3)",
    "scalar(m_total{n=\"0\"})",
    "vector(time()) + m_total",
];

/// Points by labels, as texts that distinguish NaN from NaN but hold all bits that matter.
fn at(rows: &[Series], time: i64) -> Vec<String> {
    let mut out: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            let float = row.floats.iter().find(|(at, _)| *at == time).map(|(_, value)| Point::Float(*value));
            let histogram = row.histograms.iter().find(|(at, _)| *at == time);
            let point = float.or_else(|| histogram.map(|(_, value)| Point::Histogram(value.clone())))?;
            Some(text(&row.labels, &point))
        })
        .collect();
    out.sort();
    out
}

fn text(labels: &Labels, point: &Point) -> String {
    match point {
        Point::Float(value) => format!("{labels} {value:e}"),
        Point::Histogram(value) => format!("{labels} {value:?}"),
    }
}

fn check(store: &Fixed, query: &str) -> Result<(), TestCaseError> {
    let engine = Engine::new(EngineOptions { lookback: Ms(25_000), ..EngineOptions::default() });
    let (start, end, step) = (5_000, 140_000, 9_000);
    let range = engine.range(store, query, WallMs(start), WallMs(end), Ms(step));
    for time in (start..=end).step_by(9_000) {
        let instant = engine.instant(store, query, WallMs(time));
        let (Ok(range), Ok(instant)) = (&range, &instant) else {
            // An error at any instant is an error of the whole; the other way round, some instant has it.
            if instant.is_err() {
                prop_assert!(range.is_err(), "{query} at {time}: {instant:?}");
            }
            continue;
        };
        let Value::Matrix(rows) = &range.value else { panic!("not a matrix") };
        let mut expected: Vec<String> = match &instant.value {
            Value::Vector(samples) => samples.iter().map(|sample| text(&sample.labels, &sample.value)).collect(),
            Value::Scalar { value, .. } => vec![text(&Labels::empty(), &Point::Float(*value))],
            other => panic!("{other:?}"),
        };
        expected.sort();
        prop_assert_eq!(at(rows, time), expected, "{} at {}", query, time);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]
    #[test]
    fn each_step_is_an_instant_query(
        scrapes in proptest::collection::vec(proptest::collection::vec(found(), 14), 1..4),
        delta in prop_oneof![4 => Just(false), 1 => Just(true)],
    ) {
        let temporality = if delta { Temporality::Delta } else { Temporality::Cumulative };
        let store = Fixed(scrapes.iter().enumerate().map(|(n, scrapes)| series(n, scrapes, temporality)).collect());
        for query in QUERIES {
            check(&store, query)?;
        }
    }
}

/// Rows of floats alone are folded in another way than rows that may hold histograms; a sign before the expression asks
/// for the latter.
#[test]
fn what_is_folded_in_floats_is_what_is_folded_in_points() {
    const OPERATORS: &[&str] =
        &["sum", "avg", "min", "max", "count", "group", "stddev", "stdvar", "quantile by (parity) (0.3, "];
    const FOLDED: &[&str] = &[
        "m_total",
        "m_total offset 15s",
        "m_total @ 60",
        "rate(m_total[45s])",
        "increase(m_total[25s] offset 5s)",
        "delta(m_total[45s])",
        "irate(m_total[45s])",
        "last_over_time(m_total[40s])",
        "quantile_over_time(0.3, m_total[40s])",
        "resets(m_total[60s])",
    ];
    let engine = |options| Engine::new(EngineOptions { lookback: Ms(25_000), ..options });
    let bits = |value: &Value| format!("{value:?}");
    let config = ProptestConfig { cases: 20, ..ProptestConfig::default() };
    let scrapes = proptest::collection::vec(proptest::collection::vec(found(), 14), 1..6);
    proptest!(config, |(scrapes in scrapes, delta in any::<bool>(), floats in any::<bool>(), delayed in any::<bool>())| {
        let temporality = if delta { Temporality::Delta } else { Temporality::Cumulative };
        let only_floats = |one: &Scraped| if floats && !matches!(one, Scraped::Float(_)) { Scraped::Nothing } else { one.clone() };
        let of = |(n, scrapes): (usize, &Vec<Scraped>)| {
            series(n, &scrapes.iter().map(only_floats).collect::<Vec<_>>(), temporality)
        };
        let store = Fixed(scrapes.iter().enumerate().map(of).collect());
        let options = EngineOptions { delayed_name_removal: delayed, step_stats: true, ..EngineOptions::default() };
        for operator in OPERATORS {
            for folded in FOLDED {
                let query = |sign: &str| match operator.strip_suffix(", ") {
                    Some(quantile) => format!("{quantile}, {sign}{folded})"),
                    None => format!("{operator} by (parity) ({sign}{folded})"),
                };
                let (start, end, step) = (WallMs(5_000), WallMs(140_000), Ms(9_000));
                let ask = |sign| engine(options.clone()).range(&store, &query(sign), start, end, step);
                match (ask(""), ask("+")) {
                    (Ok(one), Ok(other)) => {
                        prop_assert_eq!(bits(&one.value), bits(&other.value), "{}", query(""));
                        prop_assert_eq!(one.warnings.len(), other.warnings.len(), "{}", query(""));
                        prop_assert_eq!(one.infos.len(), other.infos.len(), "{}", query(""));
                        prop_assert_eq!(one.stats, other.stats, "{}", query(""));
                    }
                    (one, other) => prop_assert_eq!(one.is_err(), other.is_err(), "{}", query("")),
                }
            }
        }
    });
}

/// A store that refuses to give more than it is asked for at most.
struct Refusing(Fixed);

impl Select for Refusing {
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        let series = self.0.select(selection)?;
        let samples: usize = series.iter().map(|one| one.floats.times.len()).sum();
        if samples > selection.samples_max {
            return Err(SelectError::TooManySamples { limit: selection.samples_max });
        }
        Ok(series)
    }
}

#[test]
fn a_long_range_is_answered_in_slices() {
    let scrapes: Vec<Scraped> = (0..200_u8).map(|value| Scraped::Float(f64::from(value))).collect();
    let store = Refusing(Fixed((0..3).map(|n| series(n, &scrapes, Temporality::Cumulative)).collect()));
    let ask = |options: EngineOptions, query: &str| {
        Engine::new(options).range(&store, query, WallMs(0), WallMs(2_000_000), Ms(7000))
    };
    for query in ["sum by (parity) (rate(m_total[45s]))", "m_total * end()", "max_over_time(m_total[50s:9s])"] {
        let whole = ask(EngineOptions::default(), query).unwrap();
        let limits = EngineOptions { samples_read_max: 120, ..EngineOptions::default() };
        let sliced = ask(limits, query).unwrap();
        assert_eq!(sliced.value, whole.value, "{query}");
        assert_eq!((sliced.warnings, sliced.infos), (whole.warnings, whole.infos), "{query}");
        assert!(sliced.stats.samples_read > whole.stats.samples_read, "{query} was not read in slices");
    }
    let few = EngineOptions { samples_read_max: 10, ..EngineOptions::default() };
    let answer = ask(few, "m_total");
    assert!(matches!(answer, Err(Error::Select(SelectError::TooManySamples { limit: 10 }))), "{answer:?}");
}

#[test]
fn hostile_queries_end_in_an_error() {
    let scrapes = vec![Scraped::Float(1.0); 10];
    let store = Fixed(vec![series(0, &scrapes, Temporality::Cumulative)]);
    let engine = Engine::new(EngineOptions::default());
    let refused = |query: &str| {
        let answer = engine.instant(&store, query, WallMs(50_000));
        assert!(matches!(answer, Err(Error::Evaluate { .. } | Error::TooManySamples { .. })), "{query}: {answer:?}");
    };
    refused("sum_over_time(m_total[100y:1ms])");
    refused("count_over_time(vector(1)[200y:1s])");
    let answer = engine.range(&store, "m_total", WallMs(i64::MIN), WallMs(i64::MAX), Ms(1));
    assert!(answer.is_err(), "{answer:?}");
    assert!(engine.range(&store, "m_total", WallMs(0), WallMs(10), Ms(0)).is_err());
    assert!(engine.range(&store, "m_total[5m]", WallMs(0), WallMs(10), Ms(1)).is_err());
    for time in [i64::MIN, i64::MAX] {
        assert!(engine.instant(&store, "m_total", WallMs(time)).is_err());
    }
    // The furthest times are like any other.
    for time in [-(i64::MAX / 4), i64::MAX / 4] {
        let answer = engine.instant(&store, "rate(m_total[5m] offset 1y) + m_total @ 3 smoothed", WallMs(time));
        assert!(answer.is_ok(), "{time}: {answer:?}");
    }
}

#[test]
fn the_deepest_query_that_parses_fits_the_stack() {
    let store = Fixed(vec![series(0, &[Scraped::Float(2.0), Scraped::Float(3.0)], Temporality::Cumulative)]);
    let engine = Engine::new(EngineOptions::default());
    let around = [("-(", ")"), ("abs(", ")"), ("sum(", ")"), ("1 + (", ")"), ("last_over_time(", "[1m:10s])")];
    for (open, close) in around {
        let mut depth = 0;
        for levels in 1..=ogive_query::DEPTH_MAX {
            let query = format!("{}m_total{}", open.repeat(levels), close.repeat(levels));
            if ogive_query::parse(&query).is_err() {
                break;
            }
            depth = levels;
        }
        assert!(depth >= 30, "{open}: {depth}");
        let query = format!("{}m_total{}", open.repeat(depth), close.repeat(depth));
        assert!(engine.instant(&store, &query, WallMs(10_000)).is_ok(), "{open}");
    }
}

#[test]
fn floats_and_histograms_of_one_label_set_are_one_series() {
    let mut floats = series(0, &[Scraped::Float(2.0), Scraped::Nothing], Temporality::Cumulative);
    let exponential = Scraped::Exponential { scale: 0, counts: vec![1, 2], gauge: false };
    let mut histograms = series(0, &[Scraped::Nothing, exponential], Temporality::Cumulative);
    floats.meta.kind = Kind::Float;
    histograms.meta.kind = Kind::Histogram;
    let store = Fixed(vec![floats, histograms]);
    let engine = Engine::new(EngineOptions::default());
    let answer = engine.range(&store, "m_total", WallMs(0), WallMs(10_000), Ms(10_000)).unwrap();
    let Value::Matrix(rows) = answer.value else { panic!("not a matrix") };
    assert_eq!((rows.len(), rows[0].floats.len(), rows[0].histograms.len()), (1, 1, 1));
    let answer = engine.instant(&store, "rate(m_total[1m])", WallMs(10_000)).unwrap();
    assert_eq!(answer.warnings.len(), 1, "{:?}", answer.warnings);
    // A counter and cells under one label set: each is read as what it is, and at an instant the newest counts.
    let Fixed(mut both) = store;
    both[1].meta.temporality = Temporality::Delta;
    let store = Fixed(both);
    let answer = engine.range(&store, "m_total", WallMs(0), WallMs(10_000), Ms(10_000)).unwrap();
    assert!(matches!(answer.value, Value::Matrix(rows) if rows.len() == 1));
    let answer = engine.instant(&store, "histogram_count(increase(m_total[5s]))", WallMs(10_000)).unwrap();
    let Value::Vector(samples) = answer.value else { panic!("not a vector") };
    assert_eq!(samples[0].value, Point::Float(3.0));
}
