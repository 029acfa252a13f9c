//! Several threads answer what one does: the same rows in the same order, bit for bit, with the same remarks and
//! statistics.

use ogive_hist::Histogram;
use ogive_model::{
    HistogramValue, Kind, Labels, Ms, Opening, Select, SelectError, Selection, SeriesData, SeriesDef, SeriesMeta,
    SeriesSet, Temporality, WallMs,
};
use ogive_query::{Engine, EngineOptions, Error, QueryResult};

/// 100 counters, 100 cells of histograms, and a few series that are odd; all under one name where it says so.
struct Fixed(Vec<SeriesData>);

impl Select for Fixed {
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        let wanted = |one: &&SeriesData| selection.matchers.iter().all(|m| m.matches(one.labels.get(&m.name)));
        let found: Vec<SeriesData> = self.0.iter().filter(wanted).cloned().collect();
        let samples: usize = found.iter().map(|one| one.floats.times.len() + one.histograms.times.len()).sum();
        let limit = selection.samples_max;
        if samples > limit { Err(SelectError::TooManySamples { limit }) } else { Ok(found) }
    }
}

fn series(name: &str, number: usize, kind: Kind, temporality: Temporality) -> SeriesData {
    let labels =
        [("__name__", name.to_owned()), ("group", format!("g{}", number % 7)), ("number", format!("{number:03}"))];
    SeriesData::new(
        Labels::new(labels).unwrap(),
        SeriesMeta { kind, temporality, unit: String::new(), width_ms: 1_000 },
    )
}

fn store() -> Fixed {
    let mut all = Vec::new();
    let mut random = 5_u64;
    let mut unit = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 11) as f64 / (1_u64 << 53) as f64
    };
    for number in 0..100 {
        let mut one = series("work", number, Kind::Float, Temporality::Cumulative);
        let mut total = 0.0;
        for time in 1..=60_i64 {
            total += unit() * 1e6;
            one.floats.times.push(time * 1_000);
            one.floats.values.push(total / 3.0);
        }
        all.push(one);
    }
    for number in 0..100 {
        let mut one = series("took", number, Kind::Histogram, Temporality::Delta);
        for time in 1..=60_i64 {
            let mut cell = Histogram::log_linear();
            (0..5).for_each(|_| cell.record(unit()));
            one.histograms.times.push(time * 1_000);
            one.histograms.values.push(HistogramValue::Integer(cell));
        }
        all.push(one);
    }
    // A float among the histograms: sums of both are remarked on.
    let mut odd = series("took", 55, Kind::Float, Temporality::Delta);
    (odd.floats.times, odd.floats.values) = (vec![30_000], vec![1.0]);
    all.push(odd);
    all.sort_by(|a, b| (&a.labels, a.meta.kind).cmp(&(&b.labels, b.meta.kind)));
    Fixed(all)
}

fn engine(threads: usize) -> Engine {
    Engine::new(EngineOptions { threads, ..EngineOptions::default() })
}

/// Everything that two answers can differ in; NaN has its bits.
fn text(result: &QueryResult) -> String {
    format!("{:?} {:?} {:?} {:?}", result.value, result.warnings, result.infos, result.stats)
}

#[test]
fn threads_change_nothing() {
    let store = store();
    for query in [
        "work",
        "rate(work[10s])",
        "sum by (group) (rate(work[10s]))",
        "avg(work)",
        "stddev without (number) (work)",
        "quantile(0.3, work)",
        "topk(3, work)",
        "took",
        "histogram_quantile(0.9, sum by (group) (rate(took[10s])))",
        "sum(took)",
        "sum(took) + sum(took)",
        "max_over_time(took[5s])",
        "count_values(\"n\", work)",
        "sum(irate(work[10s])) / count(took)",
        "absent(work)",
        "sum_over_time(sum by (group) (work)[20s:5s])",
    ] {
        let one = engine(1).range(&store, query, WallMs(5_000), WallMs(60_000), Ms(5_000)).unwrap();
        for threads in [2, 3, 8, 200] {
            let other = engine(threads).range(&store, query, WallMs(5_000), WallMs(60_000), Ms(5_000)).unwrap();
            assert_eq!(text(&one), text(&other), "{query} by {threads} threads");
        }
    }
}

#[test]
fn limits_and_cancellation_hold_for_all_threads_together() {
    let store = store();
    for threads in [1, 2, 8] {
        let limited = |samples_max| {
            Engine::new(EngineOptions {
                threads,
                samples_max,
                samples_read_max: samples_max,
                ..EngineOptions::default()
            })
        };
        // 100 series of 11 samples in the window.
        let enough = limited(6_000).instant(&store, "sum(increase(work[60s]))", WallMs(60_000));
        assert!(enough.is_ok(), "{enough:?}");
        let found = limited(5_999).instant(&store, "sum(increase(work[60s]))", WallMs(60_000));
        assert!(
            matches!(found, Err(Error::Select(SelectError::TooManySamples { limit: 5_999 }))),
            "{threads} threads: {found:?}"
        );
        // Histograms count by their bins, which the evaluator does.
        let found = limited(6_001).instant(&store, "sum(increase(took[60s]))", WallMs(60_000));
        assert!(matches!(found, Err(Error::TooManySamples { limit: 6_001 })), "{threads} threads: {found:?}");
        let requested = std::sync::atomic::AtomicUsize::new(0);
        // ORDERING: Relaxed; a count.
        let late = || requested.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 20;
        let found = engine(threads).range_until(&store, "sum(work)", WallMs(5_000), WallMs(60_000), Ms(5_000), &late);
        assert!(matches!(found, Err(Error::Cancelled)), "{threads} threads: {found:?}");
    }
}

/// The same series, of which it says that they are too many to be held.
struct Large(Fixed);

impl Select for Large {
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        self.0.select(selection)
    }

    fn open<'a>(
        &'a self,
        selection: &Selection,
        opening: &Opening<'_>,
    ) -> Result<Box<dyn SeriesSet + 'a>, SelectError> {
        Ok(Box::new(Heavy(self.0.open(selection, opening)?)))
    }
}

struct Heavy<'a>(Box<dyn SeriesSet + 'a>);

impl SeriesSet for Heavy<'_> {
    fn count(&self) -> usize {
        self.0.count()
    }

    fn take(&self, number: usize) -> Result<Vec<SeriesData>, SelectError> {
        self.0.take(number)
    }

    fn describe(&self, number: usize) -> Result<Vec<SeriesDef>, SelectError> {
        self.0.describe(number)
    }

    fn rollup_ms(&self) -> u32 {
        self.0.rollup_ms()
    }

    fn samples_about(&self) -> usize {
        usize::MAX
    }

    fn warnings(&self) -> Vec<String> {
        self.0.warnings()
    }
}

/// A selector that occurs twice is read once and held when it is little, and each time a series at a time when it is
/// much.
#[test]
fn selectors_that_occur_twice_answer_the_same_whether_they_are_held_or_not() {
    let (little, much) = (store(), Large(store()));
    for query in [
        "work / work",
        "sum(rate(work[5s])) / count(rate(work[5s]))",
        "sum by (group) (took) or avg(took)",
        "histogram_count(increase(took[9s])) - histogram_count(increase(took[9s]))",
    ] {
        for threads in [1, 3] {
            let mut texts = [&little as &dyn Select, &much].map(|store| {
                let mut result =
                    engine(threads).range(store, query, WallMs(10_000), WallMs(60_000), Ms(5_000)).unwrap();
                let read = std::mem::take(&mut result.stats.series_read);
                result.stats.samples_read = 0;
                (text(&result), read)
            });
            assert!(texts[0].1 < texts[1].1, "{query}: what is not held is read twice: {} {}", texts[0].1, texts[1].1);
            texts[1].1 = texts[0].1;
            assert_eq!(texts[0], texts[1], "{query}");
        }
    }
}
