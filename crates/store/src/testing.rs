//! Series of all kinds for tests, generated from proptest's seeds.

use std::collections::BTreeMap;

use ogive_hist::{CounterReset, Histogram, Scheme};
use ogive_model::{
    FloatColumn, FloatHead, FloatRun, HistogramValue, Kind, Labels, Opening, Partial, Select, Selection, SeriesData,
    SeriesMeta, Temporality, Tenant, TimeRange, WallMs,
};
use proptest::prelude::*;

use crate::codec::histograms::bins_of;
use crate::window::Window;
use crate::{BlockId, BlockMeta};

/// Any float, with the odd ones often.
pub(crate) fn any_float() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-1000..100_000_i32).prop_map(|value| f64::from(value) / 8.0),
        1 => any::<u64>().prop_map(f64::from_bits),
        1 => prop_oneof![Just(-0.0), Just(f64::NAN), Just(f64::from_bits(0x7ff0_0000_0000_0002)), Just(f64::INFINITY)],
    ]
}

fn any_optional() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![Just(None), any_float().prop_map(Some)]
}

fn any_scheme() -> impl Strategy<Value = Scheme> {
    prop_oneof![
        Just(Scheme::LogLinear10),
        (-4..20_i8).prop_map(|scale| Scheme::Exp2 { scale }),
        Just(Scheme::Custom { bounds: [0.005, 0.1, 2.5].into() }),
        (0..18_u8).prop_map(|grouping| Scheme::LogLinear2 { grouping, shift: 3, unit: 1e-9 }),
        (1.001..3.0_f64).prop_map(|gamma| Scheme::Gamma { gamma, offset: -0.25 }),
    ]
}

fn any_reset() -> impl Strategy<Value = CounterReset> {
    prop_oneof![
        Just(CounterReset::Unknown),
        Just(CounterReset::Reset),
        Just(CounterReset::NotReset),
        Just(CounterReset::Gauge)
    ]
}

/// What a histogram has beside its counts.
fn any_frame() -> impl Strategy<Value = Histogram<u64>> {
    let optional = (any_optional(), any_optional(), any_optional());
    (any_scheme(), any_reset(), 0..3_u8, optional).prop_map(|(scheme, reset, threshold, (sum, min, max))| {
        let zero_threshold = f64::from(threshold) * 1e-9;
        Histogram { zero_threshold, sum, min, max, reset, ..Histogram::new(scheme) }
    })
}

/// Any histogram without bins that hold zero, as the store keeps them.
pub(crate) fn any_histogram() -> impl Strategy<Value = HistogramValue> {
    let bins = || proptest::collection::btree_map(-40..4000_i32, 1..200_u64, 0..8);
    (
        any_frame(),
        bins(),
        bins(),
        0..3_u64,
        any::<bool>(),
        prop_oneof![4 => Just(None), 1 => any::<u64>().prop_map(Some)],
    )
        .prop_map(|(mut histogram, negative, positive, zero, float, count)| {
            histogram.zero = zero;
            histogram.negative = negative.into_iter().collect();
            histogram.positive = positive.into_iter().collect();
            histogram.count = zero + histogram.negative.counts().iter().chain(histogram.positive.counts()).sum::<u64>();
            match (float, count) {
                (true, count) => {
                    let mut histogram = histogram.to_float();
                    histogram.count = count.map_or(histogram.count, f64::from_bits);
                    HistogramValue::Float(histogram)
                }
                (false, count) => {
                    histogram.count = count.unwrap_or(histogram.count);
                    HistogramValue::Integer(histogram)
                }
            }
        })
}

/// Times of a cell grid with gaps, or of nothing regular.
fn any_times(count: usize) -> impl Strategy<Value = Vec<i64>> {
    prop_oneof![
        proptest::collection::btree_set(0..120_i64, 0..count)
            .prop_map(|cells| cells.into_iter().map(|cell| cell * 1000).collect()),
        proptest::collection::btree_set(-50_000..200_000_i64, 0..count).prop_map(|times| times.into_iter().collect()),
    ]
}

/// A series of any kind; it may be empty.
pub(crate) fn any_series(count: usize) -> impl Strategy<Value = SeriesData> {
    let labels = (0..3_u8, 0..4_u8, 0..4_u8).prop_map(|(name, a, b)| {
        let value = |number: u8| if number == 0 { String::new() } else { format!("v{number}") };
        Labels::new([("__name__", format!("m{name}")), ("a", value(a)), ("b", value(b))]).unwrap()
    });
    let floats = (any_times(count), proptest::collection::vec(any_float(), count));
    let histograms = (any_times(count / 4 + 1), proptest::collection::vec(any_histogram(), count / 4 + 1));
    let texts = (any_times(count), proptest::collection::vec("[a-z ä]{0,12}", count));
    (labels, 0..3_u8, 0..3_u8, floats, histograms, texts, any::<bool>()).prop_map(
        |(labels, kind, temporality, floats, histograms, texts, starts)| {
            let temporality =
                [Temporality::Gauge, Temporality::Cumulative, Temporality::Delta][usize::from(temporality)];
            let kind = [Kind::Float, Kind::Histogram, Kind::Text][usize::from(kind)];
            let mut data = empty(labels, kind, temporality);
            let starts_of = |times: &[i64]| {
                if starts { times.iter().map(|time| time / 7000 * 7000 + 1).collect() } else { Vec::new() }
            };
            match kind {
                Kind::Float => {
                    data.floats.starts = starts_of(&floats.0);
                    data.floats.values = floats.1[..floats.0.len()].to_vec();
                    data.floats.times = floats.0;
                }
                Kind::Histogram => {
                    data.histograms.starts = starts_of(&histograms.0);
                    data.histograms.values = histograms.1[..histograms.0.len()].to_vec();
                    data.histograms.times = histograms.0;
                }
                Kind::Text => {
                    data.texts.values = texts.1[..texts.0.len()].to_vec();
                    // Equal times are allowed: halves of a second collapse.
                    data.texts.times = texts.0.into_iter().map(|time| time.div_euclid(2000)).collect();
                    crate::order::sort_texts(&mut data.texts);
                }
            }
            data
        },
    )
}

/// What the manifest knows of a block of which nothing matters but its id.
pub(crate) fn meta(id: u64) -> BlockMeta {
    BlockMeta {
        id: BlockId(id),
        tenant: Tenant::default(),
        resolution_ms: 0,
        window: Window::NONE,
        time_min: WallMs(1),
        time_max: WallMs(2),
        series: 1,
        samples: 1,
        bytes: 1,
        arrived: 0,
        cleaned: 0,
        rolled: 0,
    }
}

/// A series without samples.
pub(crate) fn empty(labels: Labels, kind: Kind, temporality: Temporality) -> SeriesData {
    SeriesData::new(labels, SeriesMeta { kind, temporality, unit: "s".into(), width_ms: 1000 })
}

/// Distinct series ascending by (labels, kind): what a block is made of.
pub(crate) fn any_source(series: usize, samples: usize) -> impl Strategy<Value = Vec<SeriesData>> {
    proptest::collection::vec(any_series(samples), 0..series).prop_map(|all| {
        let distinct: BTreeMap<(Labels, Kind), SeriesData> =
            all.into_iter().map(|data| ((data.labels.clone(), data.meta.kind), data)).collect();
        distinct.into_values().collect()
    })
}

/// The samples of `data` inside `range`, by looking at each.
pub(crate) fn cut_to(data: &SeriesData, range: TimeRange) -> SeriesData {
    let mut out = empty(data.labels.clone(), data.meta.kind, data.meta.temporality);
    for (at, time) in data.floats.times.iter().enumerate().filter(|(_, time)| range.contains(WallMs(**time))) {
        out.floats.times.push(*time);
        out.floats.values.push(data.floats.values[at]);
        out.floats.starts.extend(data.floats.starts.get(at));
    }
    for (at, time) in data.histograms.times.iter().enumerate().filter(|(_, time)| range.contains(WallMs(**time))) {
        out.histograms.times.push(*time);
        out.histograms.values.push(data.histograms.values[at].clone());
        out.histograms.starts.extend(data.histograms.starts.get(at));
    }
    for (at, time) in data.texts.times.iter().enumerate().filter(|(_, time)| range.contains(WallMs(**time))) {
        out.texts.times.push(*time);
        out.texts.values.push(data.texts.values[at].clone());
    }
    out
}

/// The samples of `source` that `selection` asks for, by looking at each.
pub(crate) fn model_select(source: &[SeriesData], selection: &Selection) -> Vec<SeriesData> {
    let matches = |data: &&SeriesData| data.labels.match_all(&selection.matchers);
    let cut = source.iter().filter(matches).map(|data| cut_to(data, selection.range));
    let some = cut.filter(|data| data.floats.times.len() + data.histograms.times.len() + data.texts.times.len() > 0);
    some.map(
        |data| if selection.labels_only { empty(data.labels, data.meta.kind, data.meta.temporality) } else { data },
    )
    .collect()
}

/// Everything of `series` that equality must see: NaN is not equal to itself, its bits are.
pub(crate) fn bits(series: &[SeriesData]) -> Vec<String> {
    series.iter().map(bits_of).collect()
}

/// What a store answers to a selection as a whole, which is what it gives one label set at a time.
pub(crate) fn select_both_ways(store: &dyn Select, selection: &Selection) -> Partial {
    let mut whole = store.select_partial(selection).unwrap();
    for _ in 0..10_000 {
        let set = store.open(selection, &Opening::UNBOUNDED).unwrap();
        let taken: Vec<Vec<SeriesData>> = (0..set.count()).rev().map(|number| set.take(number).unwrap()).collect();
        let taken: Vec<SeriesData> = taken.into_iter().rev().flatten().collect();
        assert!((0..set.count()).all(|number| set.take(number).unwrap().is_empty()), "each is given once");
        let (runs, columns) = (taken_as_runs(store, selection), taken_as_columns(store, selection));
        // What writers and the maintenance thread did meanwhile may be in one of them and not in the other.
        let before = std::mem::replace(&mut whole, store.select_partial(selection).unwrap());
        if bits(&before.series) != bits(&whole.series) || before.warnings != whole.warnings {
            continue;
        }
        assert_eq!(bits(&taken), bits(&whole.series));
        let sorted = |mut gaps: Vec<String>| {
            gaps.sort();
            gaps
        };
        assert_eq!(sorted(set.warnings()), sorted(whole.warnings.clone()));
        assert_eq!(bits(&runs), bits(&taken));
        assert_eq!(bits(&compact(columns)), bits(&compact(taken)));
        let coarsest = whole.series.iter().map(|one| one.rollup_ms).max().unwrap_or(0);
        assert!(set.rollup_ms() >= coarsest, "{} of {coarsest}", set.rollup_ms());
        return whole;
    }
    panic!("the store never rests");
}

/// The series of a selection, those that have their bins as columns read as such.
fn taken_as_columns(store: &dyn Select, selection: &Selection) -> Vec<SeriesData> {
    let set = store.open(selection, &Opening::UNBOUNDED).unwrap();
    let taken = |number| {
        let Some(columns) = set.take_columns(number).unwrap() else { return set.take(number).unwrap() };
        assert!(set.take(number).unwrap().is_empty(), "each is given once");
        let bins = columns.bins;
        let series = columns.into_series();
        assert_eq!(bins, series.histograms.values.iter().map(bins_of).sum::<usize>());
        vec![series]
    };
    (0..set.count()).flat_map(taken).collect()
}

/// The series of a selection, those of which the floats are runs read as such.
fn taken_as_runs(store: &dyn Select, selection: &Selection) -> Vec<SeriesData> {
    let set = store.open(selection, &Opening::UNBOUNDED).unwrap();
    let taken = |number| {
        let mut floats = FloatColumn::default();
        let found = set.take_floats(number, &mut |FloatRun { times, values }| {
            floats.times.extend((0..times.count()).map(|at| times.at(at)));
            floats.values.extend((0..times.count()).map(|at| values.at(at)));
        });
        let Some(FloatHead { series, samples }) = found.unwrap() else { return set.take(number).unwrap() };
        assert!(set.take(number).unwrap().is_empty(), "each is given once");
        assert_eq!(samples, floats.times.len());
        vec![SeriesData { floats, ..series }]
    };
    (0..set.count()).flat_map(taken).collect()
}

/// Without the bins that hold nothing, which columns do not keep.
fn compact(mut all: Vec<SeriesData>) -> Vec<SeriesData> {
    for value in all.iter_mut().flat_map(|series| &mut series.histograms.values) {
        match value {
            HistogramValue::Integer(value) => value.compact(),
            HistogramValue::Float(value) => value.compact(),
        }
    }
    all
}

fn bits_of(data: &SeriesData) -> String {
    use std::fmt::Write;
    let mut out = format!(
        "{:?} {:?} {:?} {:?} {:?}\n",
        data.labels, data.meta, data.floats.times, data.floats.starts, data.texts
    );
    data.floats.values.iter().for_each(|value| write!(out, "{:016x} ", value.to_bits()).unwrap());
    write!(out, "\n{:?} {:?}", data.histograms.times, data.histograms.starts).unwrap();
    let mut last = None;
    for value in &data.histograms.values {
        // Hundreds of bounds, mostly those of the value before.
        let scheme = match value {
            HistogramValue::Integer(value) => &value.scheme,
            HistogramValue::Float(value) => &value.scheme,
        };
        if last.replace(scheme) != Some(scheme) {
            write!(out, "\n{scheme:?}").unwrap();
        }
        match value {
            HistogramValue::Integer(value) => histogram_bits(&mut out, value, |count| count),
            HistogramValue::Float(value) => histogram_bits(&mut out, value, f64::to_bits),
        }
    }
    out
}

fn histogram_bits<C: ogive_hist::Count>(out: &mut String, value: &Histogram<C>, bits: impl Fn(C) -> u64) {
    use std::fmt::Write;
    let optional = [value.sum, value.min, value.max].map(|value| value.map(f64::to_bits));
    write!(out, "\n{:?} {optional:x?} {:x}", value.reset, value.zero_threshold.to_bits()).unwrap();
    write!(out, " zero {} nan {} count {}", bits(value.zero), bits(value.nan), bits(value.count)).unwrap();
    for (index, count) in value.negative.iter().chain(value.positive.iter()) {
        write!(out, " {index}:{}", bits(count)).unwrap();
    }
}

/// Checks that a format page shows `bytes`, 16 a line as `xxd -g 4` does.
pub(crate) fn check_page(page: &str, bytes: &[u8]) {
    let mut before: &[u8] = &[];
    for (at, line) in bytes.chunks(16).enumerate() {
        // As a dump does, the page shows one of many lines of zeros.
        let again = line == std::mem::replace(&mut before, line) && line.iter().all(|byte| *byte == 0);
        if again {
            continue;
        }
        let group = |group: &[u8]| group.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let groups: Vec<String> = line.chunks(4).map(group).collect();
        let shown = format!("{:08x}: {}", at * 16, groups.join(" "));
        assert!(page.contains(&shown), "the page does not show {shown}");
    }
}
