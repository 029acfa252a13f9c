//! Stores and recorded cells that several tests ask.

use std::collections::BTreeMap;

use ogive_hist::Histogram;
use ogive_model::{
    FloatColumn, HistogramColumn, HistogramValue, Kind, Labels, Select, SelectError, Selection, SeriesData, SeriesMeta,
    Temporality, TimeRange, WallMs,
};
use ogive_query::value::{InstantSample, Point};
use ogive_query::{Engine, EngineOptions, QueryResult, Value};

/// Series as they are; reads are cut to the range that was asked for.
pub(crate) struct Fixed(pub(crate) Vec<SeriesData>);

impl Select for Fixed {
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        let wanted = |series: &&SeriesData| selection.matchers.iter().all(|m| m.matches(series.labels.get(&m.name)));
        Ok(self.0.iter().filter(wanted).map(|series| cut(series, selection.range)).collect())
    }
}

pub(crate) fn cut(series: &SeriesData, range: TimeRange) -> SeriesData {
    let mut out =
        SeriesData { floats: FloatColumn::default(), histograms: HistogramColumn::default(), ..series.clone() };
    for (time, value) in series.floats.times.iter().zip(&series.floats.values).filter(|(t, _)| range.contains_ms(**t)) {
        out.floats.times.push(*time);
        out.floats.values.push(*value);
    }
    let histograms = series.histograms.times.iter().zip(&series.histograms.values);
    for (time, value) in histograms.filter(|(time, _)| range.contains_ms(**time)) {
        out.histograms.times.push(*time);
        out.histograms.values.push(value.clone());
    }
    out
}

pub(crate) fn series(labels: &[(&str, &str)], kind: Kind, temporality: Temporality) -> SeriesData {
    SeriesData::new(
        Labels::new(labels.iter().copied()).unwrap(),
        SeriesMeta { kind, temporality, unit: "s".to_owned(), width_ms: 1000 },
    )
}

/// Numbers that look like latencies, the same each time.
pub(crate) struct Latencies(pub(crate) u64);

impl Latencies {
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (self.0 >> 11) as f64 / (1_u64 << 53) as f64;
        // A long tail over four decades.
        0.0005 * (unit * 9.0).exp()
    }
}

/// One cell a second for `seconds`, of two routes on three hosts, with the raw samples of each.
pub(crate) struct Recorded {
    pub(crate) store: Fixed,
    /// By route and second.
    pub(crate) raw: BTreeMap<(&'static str, i64), Vec<f64>>,
    /// By route and second, the hosts merged.
    pub(crate) cells: BTreeMap<(&'static str, i64), Histogram>,
}

pub(crate) fn record(seconds: i64) -> Recorded {
    let mut random = Latencies(7);
    let mut out = Recorded { store: Fixed(Vec::new()), raw: BTreeMap::new(), cells: BTreeMap::new() };
    for route in ["/login", "/search"] {
        for host in ["a", "b", "c"] {
            let labels = [("__name__", "rpc_seconds"), ("route", route), ("host", host)];
            let mut one = series(&labels, Kind::Histogram, Temporality::Delta);
            for second in 1..=seconds {
                let mut cell = Histogram::log_linear();
                for _ in 0..(second + host.len() as i64) % 7 {
                    let value = random.next();
                    cell.record(value);
                    out.raw.entry((route, second)).or_default().push(value);
                }
                out.cells.entry((route, second)).or_insert_with(Histogram::log_linear).merge(&cell).unwrap();
                one.histograms.times.push(second * 1000);
                one.histograms.values.push(HistogramValue::Integer(cell));
            }
            out.store.0.push(one);
        }
    }
    out
}

impl Recorded {
    /// The raw samples of the cells of `route` in (from, to], ascending.
    pub(crate) fn sorted(&self, route: &'static str, from: i64, to: i64) -> Vec<f64> {
        let mut out: Vec<f64> =
            self.raw.range((route, from + 1)..=(route, to)).flat_map(|(_, values)| values.iter().copied()).collect();
        out.sort_by(f64::total_cmp);
        out
    }

    /// The merge of the cells of `route` in (from, to].
    pub(crate) fn merged(&self, route: &'static str, from: i64, to: i64) -> Histogram {
        let mut out = Histogram::log_linear();
        for (_, cell) in self.cells.range((route, from + 1)..=(route, to)) {
            out.merge(cell).unwrap();
        }
        out
    }
}

pub(crate) fn engine() -> Engine {
    Engine::new(EngineOptions::default())
}

pub(crate) fn instant(store: &Fixed, query: &str, seconds: i64) -> QueryResult {
    engine().instant(store, query, WallMs(seconds * 1000)).unwrap()
}

pub(crate) fn vector(result: QueryResult) -> Vec<InstantSample> {
    match result.value {
        Value::Vector(samples) => samples,
        other => panic!("not a vector: {other:?}"),
    }
}

pub(crate) fn route_of(labels: &Labels) -> &'static str {
    if labels.get("route") == "/login" { "/login" } else { "/search" }
}

pub(crate) fn float(point: &Point) -> f64 {
    match point {
        Point::Float(value) => *value,
        Point::Histogram(histogram) => panic!("not a float: {histogram:?}"),
    }
}

pub(crate) fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found} is not {expected}");
}
