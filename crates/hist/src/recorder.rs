//! Recorders for one writer: a flat array of counts, about a nanosecond a record, and a histogram on demand.
//!
//! Threads: a recorder belongs to one thread (`&mut self`). What is read while it is written is the probe's matter; it
//! uses the same [`NanosecondIndex`] over atomic counters.
//!
//! Invariants: a snapshot holds exactly what was recorded since the last `take`: bins by the rule of the scheme, `min`
//! and `max` exact, `sum` exact in nanoseconds (rounded once to seconds) or a plain sum of doubles.
//!
//! Limits: 16 KiB of counts per recorder.

use std::sync::LazyLock;

use crate::flat::{FLAT_BINS, flat_bin};
use crate::{DecimalBin, Histogram, NanosecondIndex, histogram_of_flat_bins, seconds_of_nanoseconds};

/// Counts durations given in nanoseconds; its histograms are in seconds.
#[derive(Clone, Debug)]
pub struct FlatRecorder {
    counts: Box<[u64; FLAT_BINS]>,
    sum: u128,
    /// Least duration; `u64::MAX` before the first.
    min: u64,
    /// Greatest duration; 0 before the first.
    max: u64,
}

impl Default for FlatRecorder {
    fn default() -> Self {
        Self::new()
    }
}

impl FlatRecorder {
    /// An empty recorder.
    #[must_use]
    pub fn new() -> Self {
        Self { counts: zeroed(), sum: 0, min: u64::MAX, max: 0 }
    }

    /// Counts one duration.
    #[inline]
    pub fn record(&mut self, nanoseconds: u64) {
        let count = &mut self.counts[NanosecondIndex::bin(nanoseconds)];
        // 2^64 records take 500 years at one a nanosecond: no overflow to care for.
        *count = count.wrapping_add(1);
        self.sum = self.sum.wrapping_add(u128::from(nanoseconds));
        self.reach(nanoseconds);
    }

    /// Counts one duration `count` times.
    #[inline]
    pub fn record_n(&mut self, nanoseconds: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.reach(nanoseconds);
        let held = &mut self.counts[NanosecondIndex::bin(nanoseconds)];
        *held = held.saturating_add(count);
        self.sum = self.sum.saturating_add(u128::from(nanoseconds) * u128::from(count));
    }

    /// Makes least and greatest reach a duration. Two comparisons that hardly ever jump are cheaper than two values stored
    /// with every record.
    #[inline]
    fn reach(&mut self, nanoseconds: u64) {
        if nanoseconds < self.min || nanoseconds > self.max {
            self.widen(nanoseconds);
        }
    }

    #[cold]
    fn widen(&mut self, nanoseconds: u64) {
        self.min = self.min.min(nanoseconds);
        self.max = self.max.max(nanoseconds);
    }

    /// What was recorded, in seconds.
    #[must_use]
    pub fn snapshot(&self) -> Histogram {
        let mut histogram = histogram_of_flat_bins(self.counts.iter().copied());
        if histogram.count > 0 {
            histogram.sum = Some(seconds_of_nanoseconds(self.sum));
            histogram.min = Some(seconds_of_nanoseconds(u128::from(self.min)));
            histogram.max = Some(seconds_of_nanoseconds(u128::from(self.max)));
        }
        histogram
    }

    /// What was recorded, in seconds; the recorder begins anew.
    #[must_use]
    pub fn take(&mut self) -> Histogram {
        let histogram = self.snapshot();
        self.counts.fill(0);
        (self.sum, self.min, self.max) = (0, u64::MAX, 0);
        histogram
    }
}

/// Counts values given as doubles: fast between 2e-9 and 6e10, right everywhere.
#[derive(Clone, Debug)]
pub struct FlatFloatRecorder {
    counts: Box<[u64; FLAT_BINS]>,
    table: &'static [u64; FLOAT_CELLS],
    /// Parts of the sum: an addition waits for the one before it, so that four may go on at a time.
    sums: [f64; 4],
    min: f64,
    max: f64,
    /// What has no flat bin: values below zero, tiny, huge or not a number.
    other: Histogram,
}

impl Default for FlatFloatRecorder {
    fn default() -> Self {
        Self::new()
    }
}

/// The fast path holds [2^-29, 2^36), that is 1.9e-9..6.9e10.
const FLOAT_EXPONENT_MIN: u64 = 1023 - 29;
const FLOAT_EXPONENT_END: u64 = 1023 + 36;

/// Exponent and seven bits of the mantissa name a cell, as in the index of nanoseconds.
const FLOAT_CELL_SHIFT: u32 = 52 - 7;
const FLOAT_CELLS: usize = ((FLOAT_EXPONENT_END - FLOAT_EXPONENT_MIN) as usize) << 7;
const FLOAT_CELL_FIRST: u64 = FLOAT_EXPONENT_MIN << 7;

/// An entry per cell: the edge within it as the low 45 bits of a double, times 2^11, and the flat bin below that edge.
static FLOAT_TABLE: LazyLock<Box<[u64; FLOAT_CELLS]>> = LazyLock::new(|| {
    let entries: Vec<u64> = (0..FLOAT_CELLS as u64).map(float_entry).collect();
    entries.into_boxed_slice().try_into().expect("one entry per cell")
});

impl FlatFloatRecorder {
    /// An empty recorder. The first one of a process computes a table of 65 KiB (about a millisecond).
    #[must_use]
    pub fn new() -> Self {
        Self {
            counts: zeroed(),
            table: &FLOAT_TABLE,
            sums: [0.0; 4],
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            other: Histogram::log_linear(),
        }
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: f64) {
        let bits = value.to_bits();
        // A sign, a NaN or an infinity makes this number large too.
        let cell = (bits >> FLOAT_CELL_SHIFT).wrapping_sub(FLOAT_CELL_FIRST) as usize;
        let Some(entry) = self.table.get(cell) else {
            return self.record_other(value);
        };
        let within = (bits & ((1 << FLOAT_CELL_SHIFT) - 1)) << 11;
        // The lowest bits are set for the comparison, as in the index of nanoseconds.
        let flat = entry.wrapping_add(u64::from(within | 2047 >= *entry));
        let count = &mut self.counts[flat as usize & (FLAT_BINS - 1)];
        *count = count.wrapping_add(1);
        self.sums[flat as usize & 3] += value;
        if value < self.min || value > self.max {
            self.widen(value);
        }
    }

    #[cold]
    fn widen(&mut self, value: f64) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Counts a value that has no flat bin.
    #[cold]
    fn record_other(&mut self, value: f64) {
        self.other.record(value);
    }

    /// What was recorded.
    #[must_use]
    pub fn snapshot(&self) -> Histogram {
        let mut histogram = histogram_of_flat_bins(self.counts.iter().copied());
        if histogram.count > 0 {
            (histogram.sum, histogram.min, histogram.max) =
                (Some(self.sums.iter().sum()), Some(self.min), Some(self.max));
        }
        histogram.merge(&self.other).expect("both are of the default scheme");
        histogram
    }

    /// What was recorded; the recorder begins anew.
    #[must_use]
    pub fn take(&mut self) -> Histogram {
        let histogram = self.snapshot();
        self.counts.fill(0);
        (self.sums, self.min, self.max) = ([0.0; 4], f64::INFINITY, f64::NEG_INFINITY);
        self.other = Histogram::log_linear();
        histogram
    }
}

/// The entry of a cell of doubles: the edge is searched with the binning rule itself, so that its slack is in it.
fn float_entry(cell: u64) -> u64 {
    let first = (cell + FLOAT_CELL_FIRST) << FLOAT_CELL_SHIFT;
    let flat = |bits: u64| {
        let bin = DecimalBin::of(f64::from_bits(bits));
        flat_bin(bin).unwrap_or_else(|| panic!("{:e} has no flat bin", f64::from_bits(bits))) as u64
    };
    let (mut low, mut high) = (0, (1_u64 << FLOAT_CELL_SHIFT) - 1);
    let (below, above) = (flat(first), flat(first | high));
    if below == above {
        return below - 1;
    }
    assert_eq!(below + 1, above, "cell {cell} holds two edges");
    // The least offset that is in the upper bin lies in (low, high].
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if flat(first | middle) == above {
            high = middle;
        } else {
            low = middle;
        }
    }
    high << 11 | below
}

/// Counts at zero, without passing 16 KiB through the stack.
fn zeroed() -> Box<[u64; FLAT_BINS]> {
    vec![0; FLAT_BINS].into_boxed_slice().try_into().expect("the vector has that length")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn randoms(seed: u64) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(seed), |state| {
            Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
        })
        .map(|state| state ^ state >> 31)
    }

    #[test]
    fn nanoseconds_are_counted_as_the_histogram_counts_them() {
        let mut recorder = FlatRecorder::new();
        let mut model = Histogram::log_linear();
        let mut sum = 0_u128;
        for (at, random) in randoms(11).take(50_000).enumerate() {
            let nanoseconds = random >> (1 + at % 63);
            recorder.record(nanoseconds);
            model.record_int(nanoseconds as i64, -9);
            sum += u128::from(nanoseconds);
        }
        recorder.record_n(1500, 7);
        recorder.record_n(u64::MAX, 0);
        (0..7).for_each(|_| model.record_int(1500, -9));
        sum += 7 * 1500;
        let found = recorder.snapshot();
        assert_eq!(found.sum, Some(seconds_of_nanoseconds(sum)));
        assert_eq!((found.min, found.max), (model.min, model.max));
        model.sum = found.sum;
        assert_eq!(found, model);
        assert_eq!(recorder.take(), model);
        assert_eq!(recorder.take(), Histogram::log_linear());
    }

    #[test]
    fn doubles_are_counted_as_the_histogram_counts_them() {
        let mut recorder = FlatFloatRecorder::new();
        let mut model = Histogram::log_linear();
        let edges = (-12..12).flat_map(|exponent| (10..100).map(move |digits| format!("{digits}e{exponent}")));
        let edges = edges.map(|text| text.parse::<f64>().unwrap());
        let edges = edges.flat_map(|edge| [edge, edge.next_down(), edge.next_up(), edge * (1.0 - 5e-15)]);
        let odd = [0.0, -0.0, -1.5, f64::NAN, f64::INFINITY, 1e-300, 1e200, 5e-324, 7e10, 1e-10];
        let random = randoms(5).take(50_000).map(|bits| f64::from_bits((bits >> 12) | (1000 + (bits & 31)) << 52));
        for value in edges.chain(odd).chain(random) {
            recorder.record(value);
            model.record(value);
        }
        let found = recorder.take();
        let sums = (found.sum.unwrap() - model.sum.unwrap()).abs() / model.sum.unwrap().abs();
        assert!(sums < 1e-12, "{sums:e}");
        model.sum = found.sum;
        assert_eq!(found, model);
        assert_eq!(recorder.take(), Histogram::log_linear());
    }

    #[test]
    fn least_and_greatest_are_exact_from_the_first_record_on() {
        let mut recorder = FlatRecorder::new();
        for values in [&[u64::MAX][..], &[0], &[5], &[5, 3], &[3, 5], &[0, u64::MAX], &[u64::MAX, 0, 7], &[7, 7, 7]] {
            values.iter().for_each(|value| recorder.record(*value));
            let histogram = recorder.take();
            let exact = |value: Option<&u64>| value.map(|value| seconds_of_nanoseconds(u128::from(*value)));
            assert_eq!((histogram.min, histogram.max), (exact(values.iter().min()), exact(values.iter().max())));
        }
    }

    #[test]
    fn records_after_a_take_are_in_their_bins() {
        // The C library's fast histogram kept its old index after a reset: the next 1.0 landed in another bin.
        let mut recorder = FlatRecorder::new();
        for round in 0..3 {
            recorder.record(1_000_000_000 + round);
            let histogram = recorder.take();
            assert_eq!(histogram.count_nearby(1.0), 1);
            assert_eq!((histogram.count, histogram.positive.len()), (1, 1));
        }
    }
}
