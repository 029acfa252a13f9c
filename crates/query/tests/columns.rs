//! Histograms as columns answer what they answer one by one: the same values bit for bit, remarks and statistics.

use ogive_hist::{CounterReset, Histogram, Scheme};
use ogive_model::{
    FloatColumn, HistogramColumn, HistogramValue, Kind, Labels, Ms, Opening, ReadSeries, STALE, Select, SelectError,
    Selection, SeriesColumns, SeriesData, SeriesDef, SeriesMeta, SeriesSet, Temporality, WallMs,
};
use ogive_query::{Engine, EngineOptions};
use proptest::prelude::*;

const STEP_MS: i64 = 10_000;
const STEPS: i64 = 30;

const QUERIES: [&str; 14] = [
    "sum(rate(h[50s]))",
    "sum by (g) (increase(h[35s]))",
    "sum without (n) (rate(h[1m]))",
    "sum(delta(h[50s]))",
    "sum(sum_over_time(h[40s]))",
    "avg(rate(h[1m]))",
    "count(rate(h[1m]))",
    "max(increase(h[1m]))",
    "sum(irate(h[1m]))",
    "histogram_quantile(0.9, sum(rate(h[1m])))",
    "histogram_count(sum(rate(h[1m])))",
    "sum(rate(h[1m] offset 20s))",
    "sum(rate(h[1m] @ 200))",
    "sum(rate(h[1s]))",
];

/// How a store gives its histograms.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Whole,
    Columns,
    /// In several stretches.
    Stretches,
}

struct Store {
    series: Vec<SeriesData>,
    form: Form,
}

struct Set {
    read: ReadSeries,
    form: Form,
}

impl Select for Store {
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        Ok(self.series.iter().map(|series| cut(series, |time| selection.range.contains_ms(time))).collect())
    }

    fn open<'a>(
        &'a self,
        selection: &Selection,
        _opening: &Opening<'_>,
    ) -> Result<Box<dyn SeriesSet + 'a>, SelectError> {
        Ok(Box::new(Set { read: ReadSeries::from(self.select_partial(selection)?), form: self.form }))
    }
}

impl SeriesSet for Set {
    fn count(&self) -> usize {
        self.read.count()
    }

    fn take(&self, number: usize) -> Result<Vec<SeriesData>, SelectError> {
        self.read.take(number)
    }

    fn take_columns(&self, number: usize) -> Result<Option<SeriesColumns>, SelectError> {
        Ok(match self.form {
            Form::Whole => None,
            Form::Columns => self.read.take_columns(number)?,
            Form::Stretches => self.read.take_columns(number)?.map(|found| in_stretches(&found.into_series())),
        })
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

fn cut(series: &SeriesData, keep: impl Fn(i64) -> bool) -> SeriesData {
    let mut out =
        SeriesData { floats: FloatColumn::default(), histograms: HistogramColumn::default(), ..series.clone() };
    for (time, value) in series.floats.times.iter().zip(&series.floats.values).filter(|(time, _)| keep(**time)) {
        out.floats.times.push(*time);
        out.floats.values.push(*value);
    }
    for (at, time) in series.histograms.times.iter().enumerate().filter(|(_, time)| keep(**time)) {
        out.histograms.times.push(*time);
        out.histograms.values.push(series.histograms.values[at].clone());
        out.histograms.starts.extend(series.histograms.starts.get(at));
    }
    out
}

/// Three stretches, of which one may be empty.
fn in_stretches(series: &SeriesData) -> SeriesColumns {
    let ends = [7, 11].map(|steps| steps * STEP_MS);
    let part = |least: i64, most: i64| {
        SeriesColumns::from_series(cut(series, |time| least < time && time <= most)).expect("one layout")
    };
    let mut all = part(i64::MIN, ends[0]);
    for other in [part(ends[0], ends[1]), part(ends[1], i64::MAX)] {
        all.series.histograms.times.extend(other.series.histograms.times);
        all.series.histograms.values.extend(other.series.histograms.values);
        all.series.histograms.starts.extend(other.series.histograms.starts);
        all.stretches.extend(other.stretches);
        all.bins += other.bins;
    }
    all
}

/// Reproducible pseudo-random numbers.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.unit() * limit as f64) as u64
    }

    fn is(&mut self, share: f64) -> bool {
        self.unit() < share
    }
}

fn scheme(random: &mut Random) -> Scheme {
    match random.below(5) {
        0 => Scheme::LogLinear10,
        1 => Scheme::Exp2 { scale: 0 },
        2 => Scheme::Custom { bounds: [0.01, 0.1, 1.0].into() },
        3 => Scheme::log_linear2(4, 0, 1e-3).unwrap(),
        _ => Scheme::Exp2 { scale: 2 },
    }
}

fn recorded(random: &mut Random, into: &mut Histogram) {
    let huge = random.is(0.02);
    for _ in 0..random.below(6) {
        let value = (random.unit() * 6.0 - 4.0).exp() * if random.is(0.3) { -1.0 } else { 1.0 };
        let value = if random.is(0.1) { 0.0 } else { value };
        into.record_n(value, if huge { (1 << 53) + random.below(9) } else { 1 + random.below(3) });
    }
    if random.is(0.05) {
        into.record(f64::NAN);
    }
}

fn hint(random: &mut Random, odd: f64) -> CounterReset {
    if !random.is(odd) {
        return CounterReset::Unknown;
    }
    [CounterReset::Reset, CounterReset::NotReset, CounterReset::Gauge][random.below(3) as usize]
}

fn series(random: &mut Random, number: u64, odd: f64) -> SeriesData {
    let delta = random.is(0.4);
    let temporality = if delta { Temporality::Delta } else { Temporality::Cumulative };
    let labels = [("__name__", "h".to_owned()), ("g", (number % 2).to_string()), ("n", number.to_string())];
    let mut out = SeriesData::new(
        Labels::new(labels).unwrap(),
        SeriesMeta { kind: Kind::Histogram, temporality, unit: String::new(), width_ms: 10_000 },
    );
    let mut total = Histogram::new(scheme(random));
    let (mut began, starts) = (STEP_MS / 2, random.is(0.3));
    for step in 1..=STEPS {
        let time = step * STEP_MS + random.below(3) as i64;
        if random.is(0.1) {
            continue;
        }
        if !delta && random.is(0.08 + odd / 4.0) {
            total = Histogram::new(total.scheme);
            began = time - 1 - random.below(20_000) as i64;
        }
        if delta {
            total = Histogram { zero_threshold: total.zero_threshold, ..Histogram::new(total.scheme) };
        }
        if random.is(odd / 8.0) {
            total = Histogram::new(scheme(random));
        }
        if random.is(odd / 8.0) {
            total.widen_zero(0.001);
        }
        recorded(random, &mut total);
        let mut value = Histogram { reset: hint(random, odd), ..total.clone() };
        if random.is(odd / 8.0) {
            value.sum = Some(f64::from_bits(STALE));
        }
        if random.is(0.1) {
            (value.sum, value.min, value.max) = (None, None, None);
        }
        let as_float = random.is(odd / 20.0);
        let value = if as_float { HistogramValue::Float(value.into_float()) } else { HistogramValue::Integer(value) };
        out.histograms.times.push(time);
        out.histograms.values.push(value);
        if starts {
            out.histograms.starts.push(if random.is(0.1) { 0 } else { began });
        }
        if random.is(odd / 20.0) {
            out.floats.times.push(time + 1);
            out.floats.values.push(1.0);
        }
    }
    out
}

fn answers(store: &Store, threads: usize) -> Vec<String> {
    let engine = Engine::new(EngineOptions { threads, ..EngineOptions::default() });
    let mut out = Vec::new();
    for query in QUERIES {
        let ranged = engine.range(store, query, WallMs(0), WallMs(STEPS * STEP_MS + 60_000), Ms(15_000));
        for answer in [engine.instant(store, query, WallMs(200_000)), ranged] {
            out.push(match answer {
                Ok(found) => format!(
                    "{query}: {:?} {:?} {:?} {} {}",
                    found.value, found.warnings, found.infos, found.stats.series_read, found.stats.samples_read
                ),
                Err(error) => format!("{query}: {error}"),
            });
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn columns_answer_what_whole_histograms_do(seed in any::<u64>(), count in 1..12_u64, odd in 0..3_u8) {
        let mut random = Random(seed);
        let odd = f64::from(odd) / 10.0;
        let series: Vec<SeriesData> = (0..count).map(|number| series(&mut random, number, odd)).collect();
        let asked = |form| answers(&Store { series: series.clone(), form }, 1 + (seed % 2) as usize);
        let expected = asked(Form::Whole);
        for form in [Form::Columns, Form::Stretches] {
            for (found, expected) in asked(form).iter().zip(&expected) {
                prop_assert_eq!(found, expected, "{:?}", form);
            }
        }
    }
}
