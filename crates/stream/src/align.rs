//! Alignment: turns the stored samples of one series into cells of a fixed width that end at multiples of it.
//!
//! Invariants: a cell depends only on the set of samples in its window and, for the increase of a counter, on the one
//! sample before it; not on their order of arrival. A sample at t belongs to the cell (end - width, end] that holds t.
//! A window without a sample has no cell. The increase of counters is conserved: the cells of a range add up to the
//! increase over it.
//! Limits: those of the given columns.
//! Failure: a histogram whose bins do not fit those of its cell is counted and left out.

use std::collections::BTreeMap;

use ogive_hist::{Count, CounterReset, Histogram};
use ogive_model::{CounterReading, FloatColumn, HistogramColumn, HistogramValue, Ms, Temporality, WallMs, restarted};

/// How the numbers of a window are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Function {
    /// The last by time.
    Last,
    /// The first by time.
    First,
    /// Sum by count.
    Mean,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// Their sum.
    Sum,
    /// The number of samples.
    Count,
    /// The increase of a counter, counted at the later of two samples.
    Increase,
}

impl Function {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Last, Self::First, Self::Mean, Self::Min, Self::Max, Self::Sum, Self::Count, Self::Increase];

    /// Its name in options and in the metrics that it produces.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Last => "last",
            Self::First => "first",
            Self::Mean => "mean",
            Self::Min => "min",
            Self::Max => "max",
            Self::Sum => "sum",
            Self::Count => "count",
            Self::Increase => "increase",
        }
    }

    /// The default for series of this temporality.
    #[must_use]
    pub const fn from_temporality(temporality: Temporality) -> Self {
        match temporality {
            Temporality::Gauge => Self::Last,
            Temporality::Cumulative => Self::Increase,
            Temporality::Delta => Self::Sum,
        }
    }

    /// That of its cells: parts of sums, counts and increases add up.
    #[must_use]
    pub const fn temporality(self) -> Temporality {
        match self {
            Self::Sum | Self::Count | Self::Increase => Temporality::Delta,
            _ => Temporality::Gauge,
        }
    }
}

/// Windows of one width in a range of time: cells that end after `from` up to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Above 0.
    pub width: Ms,
    /// Excluded; the end of a window.
    pub from: WallMs,
    /// Included; the end of a window.
    pub to: WallMs,
    /// Samples from here on are given: a counter that began to count after this began at zero.
    pub read_from: WallMs,
}

/// The end of the window that contains an instant.
///
/// # Panics
/// When the width is not above 0.
#[must_use]
pub fn window_end(time: WallMs, width: Ms) -> WallMs {
    time.align_up(width)
}

impl Windows {
    /// The end of the window of a column's time, when it is among these.
    fn of(&self, time: i64) -> Option<i64> {
        let end = window_end(WallMs(time), self.width);
        debug_assert!(time <= end.0 || end == WallMs::MAX, "a sample at {time} is in the cell that ends at {}", end.0);
        (self.from < end && end <= self.to).then_some(end.0)
    }

    /// Whether a counter with start `start` (0 when unknown) began at zero within the range that was read.
    fn is_begun(&self, start: i64, time: i64) -> bool {
        start != 0 && start > self.read_from.0 && start < time
    }
}

/// The numbers of one window.
#[derive(Clone, Copy)]
struct Numbers {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
    first: f64,
    last: f64,
}

impl Numbers {
    fn get(&self, function: Function) -> f64 {
        assert!(self.count > 0, "a window without a sample has no cell");
        match function {
            Function::Last => self.last,
            Function::First => self.first,
            Function::Mean => self.sum / self.count as f64,
            Function::Min => self.min,
            Function::Max => self.max,
            Function::Sum | Function::Increase => self.sum,
            Function::Count => self.count as f64,
        }
    }
}

/// The cells of a series of numbers, by their end in milliseconds. Staleness markers and other NaN are not samples.
#[must_use]
pub fn numbers(
    column: &FloatColumn,
    function: Function,
    temporality: Temporality,
    windows: Windows,
) -> BTreeMap<i64, f64> {
    debug_assert!(column.times.is_sorted(), "what a counter adds is between neighbours");
    let is_difference = function == Function::Increase && temporality != Temporality::Delta;
    let mut out: BTreeMap<i64, Numbers> = BTreeMap::new();
    let mut before: Option<(CounterReading, f64)> = None;
    for (at, (&time, &value)) in column.times.iter().zip(&column.values).enumerate() {
        if value.is_nan() {
            continue;
        }
        let start = column.starts.get(at).copied().unwrap_or(0);
        let counts = match (is_difference, before.replace((CounterReading { time, start }, value))) {
            (false, _) => Some(value),
            (true, Some((earlier, less))) => {
                let began_anew = value < less || restarted(earlier, CounterReading { time, start });
                Some(if began_anew { value } else { value - less })
            }
            (true, None) => windows.is_begun(start, time).then_some(value),
        };
        let (Some(end), Some(value)) = (windows.of(time), counts) else { continue };
        let all =
            out.entry(end).or_insert(Numbers { count: 0, sum: 0.0, min: value, max: value, first: value, last: value });
        all.count += 1;
        all.sum += value;
        all.min = all.min.min(value);
        all.max = all.max.max(value);
        all.last = value;
    }
    out.into_iter().map(|(end, all)| (end, all.get(function))).collect()
}

/// The cells of a series of histograms, by their end in milliseconds, and how many of them lack a part whose bins do
/// not fit.
#[must_use]
pub fn histograms(
    column: &HistogramColumn,
    temporality: Temporality,
    windows: Windows,
) -> (BTreeMap<i64, HistogramValue>, u64) {
    debug_assert!(column.times.is_sorted(), "what a histogram adds is between neighbours");
    assert!(column.starts.is_empty() || column.starts.len() == column.times.len(), "a start for each or for none");
    let (mut out, mut unfit) = (BTreeMap::new(), 0);
    let mut before: Option<(CounterReading, &HistogramValue)> = None;
    for (at, (&time, value)) in column.times.iter().zip(&column.values).enumerate() {
        if is_stale(value) {
            continue;
        }
        let start = column.starts.get(at).copied().unwrap_or(0);
        let counts = match (temporality, before.replace((CounterReading { time, start }, value))) {
            (Temporality::Delta, _) => Some(value.clone()),
            (_, Some((earlier, less))) => Some(if restarted(earlier, CounterReading { time, start }) {
                value.clone()
            } else {
                since(value, less)
            }),
            (_, None) => windows.is_begun(start, time).then(|| value.clone()),
        };
        let (Some(end), Some(value)) = (windows.of(time), counts) else { continue };
        match out.entry(end) {
            std::collections::btree_map::Entry::Vacant(place) => _ = place.insert(value),
            std::collections::btree_map::Entry::Occupied(mut place) => {
                unfit += u64::from(!join(place.get_mut(), &value))
            }
        }
    }
    (out, unfit)
}

fn is_stale(value: &HistogramValue) -> bool {
    match value {
        HistogramValue::Integer(value) => value.sum.is_some_and(f64::is_nan) && value.count == 0,
        HistogramValue::Float(value) => value.sum.is_some_and(f64::is_nan) && value.count == 0.0,
    }
}

/// Adds `more`; false, and nothing has changed, when its bins do not fit.
#[must_use]
pub fn join(sum: &mut HistogramValue, more: &HistogramValue) -> bool {
    let joined = match (&mut *sum, more) {
        (HistogramValue::Integer(sum), HistogramValue::Integer(more)) => return sum.merge(more).is_ok(),
        (HistogramValue::Float(sum), HistogramValue::Float(more)) => return sum.merge(more).is_ok(),
        (HistogramValue::Float(sum), HistogramValue::Integer(more)) => return sum.merge(&more.to_float()).is_ok(),
        (HistogramValue::Integer(sum), HistogramValue::Float(more)) => {
            let mut sum = sum.to_float();
            sum.merge(more).is_ok().then_some(sum)
        }
    };
    match joined {
        Some(joined) => {
            *sum = HistogramValue::Float(joined);
            true
        }
        None => false,
    }
}

/// The increase of a cumulative histogram since `before`: all of it after a reset.
fn since(now: &HistogramValue, before: &HistogramValue) -> HistogramValue {
    let anew = match now {
        HistogramValue::Integer(now) => now.reset == CounterReset::Reset,
        HistogramValue::Float(now) => now.reset == CounterReset::Reset,
    };
    if anew { now.clone() } else { difference(now, before).unwrap_or_else(|| now.clone()) }
}

/// `now` without `before`; None when that is not a part of it.
#[must_use]
pub fn difference(now: &HistogramValue, before: &HistogramValue) -> Option<HistogramValue> {
    fn subtracted<C: Count>(now: &Histogram<C>, before: &Histogram<C>) -> Option<Histogram<C>> {
        let mut out = now.clone();
        let is_whole = out.subtract(before).ok()?.is_none() && out.buckets().all(|bucket| bucket.count >= C::ZERO);
        is_whole.then_some(out)
    }
    Some(match (now, before) {
        (HistogramValue::Integer(now), HistogramValue::Integer(before)) => {
            HistogramValue::Integer(subtracted(now, before)?)
        }
        (now, before) => HistogramValue::Float(subtracted(&float(now), &float(before))?),
    })
}

fn float(value: &HistogramValue) -> Histogram<f64> {
    match value {
        HistogramValue::Integer(value) => value.to_float(),
        HistogramValue::Float(value) => value.clone(),
    }
}

/// Whether two distributions are equal: every bin, and the sums where both are known.
#[must_use]
pub fn is_equal(one: &HistogramValue, other: &HistogramValue) -> bool {
    fn are_equal<C: Count>(one: &Histogram<C>, other: &Histogram<C>) -> bool {
        one.count == other.count
            && one.nan == other.nan
            && one
                .buckets()
                .filter(|b| b.count != C::ZERO)
                .map(|b| (b.lo, b.hi, b.count))
                .eq(other.buckets().filter(|b| b.count != C::ZERO).map(|b| (b.lo, b.hi, b.count)))
    }
    match (one, other) {
        (HistogramValue::Integer(one), HistogramValue::Integer(other)) => are_equal(one, other),
        _ => are_equal(&float(one), &float(other)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn windows(width: i64, from: i64, to: i64) -> Windows {
        Windows { width: Ms(width), from: WallMs(from), to: WallMs(to), read_from: WallMs(from - 10_000) }
    }

    fn column(samples: &[(i64, f64)]) -> FloatColumn {
        FloatColumn {
            times: samples.iter().map(|sample| sample.0).collect(),
            values: samples.iter().map(|sample| sample.1).collect(),
            ..FloatColumn::default()
        }
    }

    #[test]
    fn a_window_ends_with_its_last_instant() {
        for (time, end) in [(1, 1_000), (999, 1_000), (1_000, 1_000), (1_001, 2_000), (0, 0), (-1, 0), (-1_000, -1_000)]
        {
            assert_eq!(window_end(WallMs(time), Ms(1_000)), WallMs(end), "{time}");
        }
    }

    #[test]
    fn jittered_gauges_are_aligned_by_each_function() {
        let samples = column(&[(1_020, 4.0), (1_700, 1.0), (2_000, 2.0), (2_001, 8.0), (3_500, f64::NAN)]);
        let of = |function| {
            let cells = numbers(&samples, function, Temporality::Gauge, windows(1_000, 1_000, 4_000));
            cells.into_iter().collect::<Vec<_>>()
        };
        let check = |function, expected: f64| assert_eq!(of(function), [(2_000, expected), (3_000, of(function)[1].1)]);
        check(Function::Last, 2.0);
        check(Function::First, 4.0);
        check(Function::Mean, 7.0 / 3.0);
        check(Function::Min, 1.0);
        check(Function::Max, 4.0);
        check(Function::Sum, 7.0);
        check(Function::Count, 3.0);
        assert_eq!(of(Function::Mean)[1], (3_000, 8.0));
    }

    #[test]
    fn what_a_counter_adds_is_conserved_over_resets_and_gaps() {
        let samples = column(&[(500, 10.0), (1_100, 13.0), (1_900, 15.0), (6_200, 20.0), (7_100, 4.0)]);
        let cells = numbers(&samples, Function::Increase, Temporality::Cumulative, windows(1_000, 1_000, 8_000));
        assert_eq!(cells.into_iter().collect::<Vec<_>>(), [(2_000, 5.0), (7_000, 5.0), (8_000, 4.0)]);
        let mut begun = column(&[(1_500, 3.0)]);
        assert!(numbers(&begun, Function::Increase, Temporality::Cumulative, windows(1_000, 1_000, 2_000)).is_empty());
        begun.starts = vec![1_200];
        let cells = numbers(&begun, Function::Increase, Temporality::Cumulative, windows(1_000, 1_000, 2_000));
        assert_eq!(cells[&2_000], 3.0, "it began at zero a moment ago");
    }

    fn histogram(values: &[f64]) -> HistogramValue {
        let mut out = Histogram::log_linear();
        values.iter().for_each(|value| out.record(*value));
        HistogramValue::Integer(out)
    }

    #[test]
    fn histograms_merge_or_are_taken_apart() {
        let column = HistogramColumn {
            times: vec![900, 1_400, 1_800, 2_300],
            values: vec![histogram(&[1.0]), histogram(&[1.0, 2.0]), histogram(&[1.0, 2.0, 3.0]), histogram(&[9.0])],
            starts: Vec::new(),
        };
        let (delta, unfit) = histograms(&column, Temporality::Delta, windows(1_000, 1_000, 3_000));
        assert!(is_equal(&delta[&2_000], &histogram(&[1.0, 1.0, 2.0, 2.0, 3.0])) && unfit == 0);
        let (cumulative, _) = histograms(&column, Temporality::Cumulative, windows(1_000, 1_000, 3_000));
        assert!(is_equal(&cumulative[&2_000], &histogram(&[2.0, 3.0])));
        assert!(is_equal(&cumulative[&3_000], &histogram(&[9.0])), "it began anew");
        assert!(difference(&histogram(&[1.0]), &histogram(&[2.0])).is_none());
    }

    proptest! {
        /// The cells of two parts of a range are those of the whole; a slow loop agrees.
        #[test]
        fn cells_do_not_depend_on_how_a_range_is_cut(
            values in proptest::collection::btree_map(1..20_000_i64, 0..100_u32, 1..60), cut in 1..19_i64, width in prop_oneof![Just(1_000_i64), Just(5_000)],
        ) {
            let samples: Vec<(i64, f64)> = values.iter().map(|(time, value)| (*time, f64::from(*value))).collect();
            let column = column(&samples);
            let cut = window_end(WallMs(cut * 1_000), Ms(width)).0;
            for function in Function::ALL {
                let temporality = if function == Function::Increase { Temporality::Cumulative } else { Temporality::Gauge };
                let of = |from, to| numbers(&column, function, temporality, windows(width, from, to));
                let (whole, mut parts) = (of(0, 20_000), of(0, cut.min(20_000)));
                parts.extend(of(cut.min(20_000), 20_000));
                prop_assert_eq!(&whole, &parts);
                let ends: std::collections::BTreeSet<i64> = samples[usize::from(function == Function::Increase)..].iter().map(|sample| window_end(WallMs(sample.0), Ms(width)).0).collect();
                prop_assert!(whole.keys().eq(ends.iter()));
            }
        }
    }
}
