//! Floats as they are stored answer what they answer one by one: the same values bit for bit, remarks and statistics.

use ogive_model::{
    FloatColumn, FloatHead, FloatRun, HistogramColumn, Kind, Labels, Ms, Opening, ReadSeries, RunTimes, RunValues,
    STALE, Select, SelectError, Selection, SeriesData, SeriesDef, SeriesMeta, SeriesSet, Temporality, TextColumn,
    WallMs,
};
use ogive_query::{Engine, EngineOptions, QueryResult};
use proptest::prelude::*;

const STEP_MS: i64 = 10_000;

const QUERIES: [&str; 16] = [
    "f_total",
    "sum(f_total)",
    "sum by (g) (f_total offset 15s)",
    "max without (n) (f_total @ 200)",
    "topk(2, f_total)",
    "timestamp(f_total)",
    "count(f_total)",
    "rate(f_total[50s])",
    "sum by (g) (rate(f_total[35s]))",
    "sum by (g) (increase(f_total[2m]))",
    "avg(delta(f_total[1m]))",
    "sum(rate(f_total[1m] offset 20s))",
    "sum(rate(f_total[1m] @ 200))",
    "sum(increase(f_total[1s]))",
    "sum(irate(f_total[1m]))",
    "sum(max_over_time(rate(f_total[40s])[1m:10s]))",
];

/// How a store gives its floats.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Whole,
    /// In runs of so many.
    Runs(usize),
}

struct Store {
    series: Vec<SeriesData>,
    form: Form,
}

struct Set {
    series: Vec<SeriesData>,
    read: ReadSeries,
    form: Form,
}

impl Select for Store {
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        let cut = |series: &SeriesData| {
            let mut out = SeriesData { floats: FloatColumn::default(), ..series.clone() };
            let inside = |(time, _): &(&i64, &f64)| selection.range.contains_ms(**time);
            for (time, value) in series.floats.times.iter().zip(&series.floats.values).filter(inside) {
                out.floats.times.push(*time);
                out.floats.values.push(*value);
            }
            out
        };
        Ok(self.series.iter().map(cut).collect())
    }

    fn open<'a>(
        &'a self,
        selection: &Selection,
        _opening: &Opening<'_>,
    ) -> Result<Box<dyn SeriesSet + 'a>, SelectError> {
        let partial = self.select_partial(selection)?;
        Ok(Box::new(Set { series: partial.series.clone(), read: ReadSeries::from(partial), form: self.form }))
    }
}

impl SeriesSet for Set {
    fn count(&self) -> usize {
        self.read.count()
    }

    fn take(&self, number: usize) -> Result<Vec<SeriesData>, SelectError> {
        self.read.take(number)
    }

    fn take_floats(&self, number: usize, each: &mut dyn FnMut(FloatRun<'_>)) -> Result<Option<FloatHead>, SelectError> {
        let Form::Runs(length) = self.form else { return Ok(None) };
        let FloatColumn { times, values, .. } = &self.series[number].floats;
        for (times, values) in times.chunks(length).zip(values.chunks(length)) {
            each_run(times, values, each);
        }
        // What counts them, and gives them once.
        self.read.take_floats(number, &mut |_| ())
    }

    fn describe(&self, number: usize) -> Result<Vec<SeriesDef>, SelectError> {
        self.read.describe(number)
    }

    fn rollup_ms(&self) -> u32 {
        0
    }

    fn samples_about(&self) -> usize {
        self.read.samples_about()
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// As a store has them: evenly spaced times and decimals where they are such.
fn each_run(times: &[i64], values: &[f64], each: &mut dyn FnMut(FloatRun<'_>)) {
    let step = if times.len() > 1 { times[1] - times[0] } else { STEP_MS };
    let is_regular = times.windows(2).all(|pair| pair[1] - pair[0] == step);
    let regular = RunTimes::Regular { first: times[0], step, count: times.len() };
    let power = 100.0;
    let integers: Vec<i64> = values.iter().map(|value| (value * power).round() as i64).collect();
    let is_same = |(integer, value): (&i64, &f64)| (*integer as f64 / power).to_bits() == value.to_bits();
    let is_decimal = integers.iter().zip(values).all(is_same);
    each(FloatRun {
        times: if is_regular { regular } else { RunTimes::Each(times) },
        values: if is_decimal { RunValues::Decimals { integers: &integers, power } } else { RunValues::Floats(values) },
    });
}

/// Samples, with what is unusual among them.
#[derive(Clone, Debug)]
struct Shape {
    /// Some are missing or late.
    gaps: bool,
    /// Counters are reset.
    resets: bool,
    stale: bool,
    /// Not decimals, infinite, not a number.
    odd: bool,
    /// A counter, or a gauge.
    rises: bool,
}

fn series(number: usize, steps: i64, shape: &Shape, random: &mut impl FnMut(u64) -> u64) -> SeriesData {
    let mut floats = FloatColumn::default();
    let mut value = random(100) as f64;
    for step in 0..steps {
        if shape.gaps && random(9) == 0 {
            continue;
        }
        value = match random(12) {
            0 if shape.resets => random(3) as f64,
            _ if shape.rises => ((value * 100.0).round() + random(400) as f64) / 100.0,
            _ => ((value * 100.0).round() + random(400) as f64 - 200.0) / 100.0,
        };
        let odd = [f64::NAN, f64::INFINITY, 1.0 / 3.0, -0.0];
        let stored = match random(15) {
            0 if shape.stale => f64::from_bits(STALE),
            1 if shape.odd => odd[random(4) as usize],
            _ => value,
        };
        floats.times.push(step * STEP_MS + if shape.gaps { random(3) as i64 * 100 } else { 0 });
        floats.values.push(stored);
    }
    let labels = [("__name__", "f_total".into()), ("g", format!("g{}", number % 2)), ("n", number.to_string())];
    let temporality = if shape.rises { Temporality::Cumulative } else { Temporality::Gauge };
    SeriesData {
        labels: Labels::new(labels).unwrap(),
        meta: SeriesMeta { kind: Kind::Float, temporality, unit: String::new(), width_ms: 0 },
        floats,
        histograms: HistogramColumn::default(),
        texts: TextColumn::default(),
        rollup_ms: 0,
    }
}

/// Everything that the answers say.
fn answers(store: &Store, query: &str, (start, end, step): (i64, i64, i64)) -> Vec<String> {
    let engine = Engine::new(EngineOptions { lookback: Ms(25_000), ..EngineOptions::default() });
    let all =
        [engine.range(store, query, WallMs(start), WallMs(end), Ms(step)), engine.instant(store, query, WallMs(end))];
    let text = |answer| match answer {
        Ok(QueryResult { value, warnings, infos, stats, .. }) => {
            let (series, samples) = (stats.series_read, stats.samples_read);
            format!("{value:?} {warnings:?} {infos:?} {series} {samples}")
        }
        Err(error) => format!("{error}"),
    };
    all.map(text).into()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn runs_answer_what_whole_series_do(
        (gaps, resets, stale) in any::<(bool, bool, bool)>(), (odd, rises) in any::<(bool, bool)>(), steps in 1..60_i64,
        length in 1..70_usize, start in -40_000..300_000_i64, step in prop_oneof![Just(10_000_i64), Just(30_000), 1..90_000_i64],
        seed in any::<u64>(),
    ) {
        let mut state = seed | 1;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let shape = Shape { gaps, resets, stale, odd, rises };
        let all: Vec<SeriesData> = (0..3).map(|number| series(number, steps, &shape, &mut random)).collect();
        let grid = (start, start + step * 12, step);
        for query in QUERIES {
            let expected = answers(&Store { series: all.clone(), form: Form::Whole }, query, grid);
            for form in [Form::Runs(length), Form::Runs(usize::MAX)] {
                prop_assert_eq!(&answers(&Store { series: all.clone(), form }, query, grid), &expected, "{} {:?}", query, form);
            }
        }
    }
}
