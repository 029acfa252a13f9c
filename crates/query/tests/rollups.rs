//! Answers from rollups are those from the samples, and need far fewer of them.

use std::sync::atomic::{AtomicUsize, Ordering};

use ogive_hist::Histogram;
use ogive_model::{
    Aggregate, CounterReading, HistogramValue, Kind, Labels, Ms, Resolution, RollupUse, Select, SelectError, Selection,
    SeriesData, SeriesMeta, Temporality, TimeRange, WallMs, restarted,
};
use ogive_query::Engine;
use ogive_query::value::{Point, QueryResult, Series, Value};
use proptest::prelude::*;

/// A store of a few series of one-second samples that can answer in cells of 10 s.
struct Rolled {
    series: Vec<SeriesData>,
    /// Rollups are not asked for but what there is: the samples are gone.
    gone: bool,
    /// Never answers with rollups.
    plain: bool,
    samples: AtomicUsize,
}

const CELL: i64 = 10_000;

impl Select for Rolled {
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        let (start_ms, end_ms) = (selection.range.start.0, selection.range.end.0);
        let mut out = Vec::new();
        for data in &self.series {
            if !data.labels.match_all(&selection.matchers) {
                continue;
            }
            let delta = data.meta.temporality == Temporality::Delta;
            let serves = match selection.resolution {
                _ if self.plain => false,
                _ if self.gone => true,
                Resolution::Aligned { step: Ms(step_ms), use_as } => {
                    step_ms % CELL == 0
                        && match use_as {
                            RollupUse::Together => data.meta.kind == Kind::Float || delta,
                            RollupUse::Numbers => data.meta.kind == Kind::Float,
                            RollupUse::Last => data.meta.kind == Kind::Float && !delta,
                        }
                }
                _ => false,
            };
            let inner = if self.gone {
                (start_ms, end_ms)
            } else {
                ((start_ms + CELL - 1).div_euclid(CELL) * CELL, end_ms.div_euclid(CELL) * CELL)
            };
            let mut found = cut(data, selection.range);
            if serves && inner.0 < inner.1 {
                let part = |a: i64, b: i64| cut(data, TimeRange::from_ms(a, b));
                found = rolled(&part(inner.0, inner.1), delta);
                append(&mut found, part(start_ms, inner.0), true);
                append(&mut found, part(inner.1, end_ms), false);
            }
            // ORDERING: Relaxed; a count that is read after the query.
            self.samples.fetch_add(found.floats.times.len() + found.histograms.times.len(), Ordering::Relaxed);
            if !found.floats.times.is_empty() || !found.histograms.times.is_empty() {
                out.push(found);
            }
        }
        Ok(out)
    }
}

fn cut(data: &SeriesData, range: TimeRange) -> SeriesData {
    let mut out = data.clone();
    let keep: Vec<bool> = data.floats.times.iter().map(|time| range.contains_ms(*time)).collect();
    let mut at = 0;
    out.floats.values.retain(|_| (keep[at], at += 1).0);
    out.floats.times.retain(|time| range.contains_ms(*time));
    let keep: Vec<bool> = data.histograms.times.iter().map(|time| range.contains_ms(*time)).collect();
    let mut at = 0;
    out.histograms.values.retain(|_| (keep[at], at += 1).0);
    out.histograms.times.retain(|time| range.contains_ms(*time));
    out
}

/// Puts samples before or behind rows of a rollup.
fn append(out: &mut SeriesData, samples: SeriesData, before: bool) {
    let singles = samples.floats.times.iter().zip(&samples.floats.values);
    let singles: Vec<Aggregate> = singles.map(|(time, value)| Aggregate::from_sample(*time, *value, 0)).collect();
    let at = |length: usize| if before { 0 } else { length };
    let place = at(out.floats.times.len());
    out.floats.times.splice(place..place, samples.floats.times);
    out.floats.values.splice(place..place, samples.floats.values);
    out.floats.aggregates.splice(place..place, singles);
    let place = at(out.histograms.times.len());
    out.histograms.times.splice(place..place, samples.histograms.times);
    out.histograms.values.splice(place..place, samples.histograms.values);
}

fn rolled(data: &SeriesData, delta: bool) -> SeriesData {
    let mut out = SeriesData { rollup_ms: CELL as u32, ..data.clone() };
    (out.floats, out.histograms) = Default::default();
    let end = |time: i64| (time + CELL - 1).div_euclid(CELL) * CELL;
    let (times, values) = (&data.floats.times, &data.floats.values);
    let reading = |time: i64| CounterReading { time, start: 0 };
    let mut from = 0;
    while from < times.len() {
        let count = times[from..].iter().take_while(|time| end(**time) == end(times[from])).count();
        let rows = from..from + count;
        let mut one = Aggregate::from_sample(times[from], values[from], 0);
        for at in rows.start + 1..rows.end {
            let value = values[at];
            one.count += 1;
            one.sum += value;
            (one.min, one.max) = (one.min.min(value), one.max.max(value));
            if value < values[at - 1] || restarted(reading(times[at - 1]), reading(times[at])) {
                one.resets += values[at - 1];
            }
        }
        let last = rows.end - 1;
        out.floats.times.push(if delta { end(times[last]) } else { times[last] });
        out.floats.values.push(if delta { one.sum } else { values[last] });
        out.floats.aggregates.push(one);
        from = rows.end;
    }
    for (time, value) in data.histograms.times.iter().zip(&data.histograms.values) {
        let HistogramValue::Integer(value) = value else { unreachable!("all are of integer counts") };
        match out.histograms.values.last_mut() {
            Some(HistogramValue::Integer(cell)) if delta && out.histograms.times.last() == Some(&end(*time)) => {
                cell.merge(value).unwrap();
            }
            _ => {
                out.histograms.times.push(if delta { end(*time) } else { *time });
                out.histograms.values.push(HistogramValue::Integer(value.clone()));
            }
        }
    }
    if delta {
        out.meta.width_ms = CELL as u32;
    }
    out
}

fn series(name: &str, kind: Kind, temporality: Temporality) -> SeriesData {
    SeriesData {
        labels: Labels::new([("__name__", name)]).unwrap(),
        meta: SeriesMeta { kind, temporality, unit: "s".into(), width_ms: 1000 },
        floats: Default::default(),
        histograms: Default::default(),
        texts: Default::default(),
        rollup_ms: 0,
    }
}

/// Seconds with a value each, some of them missing.
fn any_store() -> impl Strategy<Value = Vec<SeriesData>> {
    let seconds = || proptest::collection::btree_map(1..300_i64, 0..100_u32, 1..200);
    (seconds(), seconds(), seconds(), seconds()).prop_map(|(gauges, counts, deltas, cells)| {
        let mut gauge = series("gauge", Kind::Float, Temporality::Gauge);
        let mut counter = series("requests_total", Kind::Float, Temporality::Cumulative);
        let mut delta = series("delta", Kind::Float, Temporality::Delta);
        let mut histogram = series("cells", Kind::Histogram, Temporality::Delta);
        for (data, values) in [(&mut gauge, &gauges), (&mut delta, &deltas)] {
            data.floats.times = values.keys().map(|second| second * 1000).collect();
            data.floats.values = values.values().map(|value| f64::from(*value)).collect();
        }
        let mut total = 0.0;
        for (second, more) in counts {
            // Once in a while it begins anew.
            total = if more > 95 { f64::from(more - 95) } else { total + f64::from(more) };
            counter.floats.times.push(second * 1000 - 300);
            counter.floats.values.push(total);
        }
        for (second, value) in cells {
            let mut cell = Histogram::log_linear();
            cell.record_n(f64::from(value) / 8.0, u64::from(value % 5) + 1);
            histogram.histograms.times.push(second * 1000);
            histogram.histograms.values.push(HistogramValue::Integer(cell));
        }
        let mut all = vec![gauge, counter, delta, histogram];
        all.sort_by(|a, b| a.labels.cmp(&b.labels));
        all
    })
}

fn store(series: &[SeriesData], plain: bool) -> Rolled {
    Rolled { series: series.to_vec(), gone: false, plain, samples: AtomicUsize::new(0) }
}

fn rows(result: QueryResult) -> Vec<Series> {
    match result.value {
        Value::Matrix(rows) => rows,
        Value::Vector(samples) => {
            let one = |sample: ogive_query::value::InstantSample| {
                let mut row = Series { labels: sample.labels, floats: Vec::new(), histograms: Vec::new() };
                match sample.value {
                    Point::Float(value) => row.floats.push((sample.time.0, value)),
                    Point::Histogram(value) => row.histograms.push((sample.time.0, value)),
                }
                row
            };
            samples.into_iter().map(one).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// Equal up to the last bits of sums.
fn assert_same(found: &[Series], expected: &[Series], query: &str) {
    assert_eq!(found.len(), expected.len(), "{query}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.labels, expected.labels, "{query}");
        assert_eq!(found.floats.len(), expected.floats.len(), "{query}");
        for (a, b) in found.floats.iter().zip(&expected.floats) {
            let near = (a.1 - b.1).abs() <= 1e-9 * a.1.abs().max(1.0);
            assert!(a.0 == b.0 && (near || a.1.to_bits() == b.1.to_bits()), "{query}: {a:?} for {b:?}");
        }
        assert_eq!(format!("{:?}", found.histograms), format!("{:?}", expected.histograms), "{query}");
    }
}

const QUERIES: [&str; 16] = [
    "rate(requests_total[1m])",
    "increase(requests_total[50s])",
    "sum(rate(requests_total[1m] offset 20s))",
    "avg_over_time(gauge[30s])",
    "sum_over_time(gauge[30s])",
    "min_over_time(gauge[1m])",
    "max_over_time(gauge[1m])",
    "count_over_time(gauge[30s])",
    "first_over_time(gauge[30s])",
    "last_over_time(gauge[30s])",
    "present_over_time(delta[30s])",
    "increase(delta[30s])",
    "max_over_time(delta[30s])",
    "histogram_quantile(0.9, increase(cells[1m]))",
    "rate(cells[30s])",
    "gauge",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn an_aligned_answer_is_that_of_the_samples(series in any_store(), start in 1..10_i64, step in 1..4_i64) {
        let engine = Engine::default();
        for query in QUERIES {
            let (coarse, fine) = (store(&series, false), store(&series, true));
            let (from, to) = (start * CELL, 300_000);
            let found = engine.range(&coarse, query, WallMs(from), WallMs(to), Ms(step * CELL)).unwrap();
            let expected = engine.range(&fine, query, WallMs(from), WallMs(to), Ms(step * CELL)).unwrap();
            prop_assert_eq!(&found.infos, &expected.infos, "{}", query);
            prop_assert!(found.stats.samples_read <= expected.stats.samples_read);
            assert_same(&rows(found), &rows(expected), query);
        }
    }

    /// One window may begin and end anywhere: its ends are read as they came.
    #[test]
    fn one_window_needs_no_alignment(series in any_store(), at in 60_000..300_000_i64) {
        let engine = Engine::default();
        for query in &QUERIES[..15] {
            let (coarse, fine) = (store(&series, false), store(&series, true));
            let found = engine.instant(&coarse, query, WallMs(at)).unwrap();
            let expected = engine.instant(&fine, query, WallMs(at)).unwrap();
            // Of cells a single fine one can look like a coarse one.
            prop_assert!(found.infos == expected.infos || query.contains("cells"), "{}: {:?}", query, found.infos);
            assert_same(&rows(found), &rows(expected), query);
        }
    }
}

fn hundred_of(temporality: Temporality) -> Vec<SeriesData> {
    let mut data = series("m_total", Kind::Float, temporality);
    data.floats.times = (1..=1000).map(|second| second * 1000).collect();
    data.floats.values = (1..=1000).map(f64::from).collect();
    vec![data]
}

#[test]
fn what_looks_at_each_sample_is_reported_when_these_are_gone() {
    let engine = Engine::default();
    let series = hundred_of(Temporality::Gauge);
    let gone = Rolled { gone: true, ..store(&series, false) };
    let info = |query: &str, from: i64| {
        let result = engine.range(&gone, query, WallMs(from), WallMs(900_000), Ms(CELL)).unwrap();
        assert_eq!(result.stats.rollup_ms, CELL as u32);
        result.infos
    };
    assert!(info("max_over_time(m_total[1m])", 100_000).is_empty());
    assert!(info("m_total", 100_000).is_empty());
    for (query, from) in
        [("stddev_over_time(m_total[1m])", 100_000), ("max_over_time(m_total[1m])", 100_001), ("m_total", 100_001)]
    {
        let infos = info(query, from);
        assert!(
            infos.iter().any(|info| info.contains("approximate, from a rollup to cells of 10s")),
            "{query}: {infos:?}"
        );
    }
}

#[test]
fn an_unaligned_range_is_answered_from_samples() {
    let engine = Engine::default();
    let series = hundred_of(Temporality::Cumulative);
    let read = |from: i64, step: i64, query: &str| {
        let coarse = store(&series, false);
        engine.range(&coarse, query, WallMs(from), WallMs(900_000), Ms(step)).unwrap().stats.rollup_ms
    };
    assert_eq!(read(100_000, CELL, "rate(m_total[1m])"), CELL as u32);
    assert_eq!(read(100_000, CELL, "m_total"), CELL as u32);
    for (from, step, query) in [
        (100_001, CELL, "rate(m_total[1m])"),
        (100_000, 1000, "rate(m_total[1m])"),
        (100_000, CELL, "rate(m_total[61s])"),
        (100_000, CELL, "stddev_over_time(m_total[1m])"),
        (100_000, CELL, "rate(m_total[1m] offset 1s)"),
        (100_001, CELL, "m_total"),
    ] {
        assert_eq!(read(from, step, query), 0, "{query} from {from} by {step}");
    }
}
