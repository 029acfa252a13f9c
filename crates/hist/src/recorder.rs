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

use crate::Digest;
use crate::flat::{BIN_SHIFT, CELL_BITS, CELL_SHIFT, FLAT_BINS, NEAR_END, entry_of, flat_bin};
use crate::{DecimalBin, Histogram, NanosecondIndex, histogram_of_flat_bins, seconds_of_nanoseconds};

/// Counts durations given in nanoseconds; its histograms are in seconds.
#[derive(Clone, Debug)]
pub struct FlatRecorder {
    counts: Box<[u64; FLAT_BINS]>,
    /// Nanoseconds in all.
    sum: u128,
    /// Least duration; `u64::MAX` before the first.
    min: u64,
    /// Greatest duration; 0 before the first.
    max: u64,
    /// How many numbers from `min` up to `max` are below [`NEAR_END`]: whether a duration is one of them, so that
    /// neither changes and the bin is found by [`NanosecondIndex::near_bin`], is a single comparison.
    usual: u64,
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
        Self { counts: zeroed(), sum: 0, min: u64::MAX, max: 0, usual: 0 }
    }

    /// Counts one duration.
    ///
    /// In a loop, everything but the counts stays in registers. It would not, and take 1.2 times as long, if the rare
    /// branch passed the recorder to a function: so all of it is inlined.
    #[inline]
    pub fn record(&mut self, nanoseconds: u64) {
        let bin = if nanoseconds.wrapping_sub(self.min) < self.usual {
            NanosecondIndex::near_bin(nanoseconds)
        } else {
            self.reach(nanoseconds);
            NanosecondIndex::bin(nanoseconds)
        };
        let count = &mut self.counts[bin];
        // 2^64 records take 500 years at one a nanosecond: overflow is impossible in practice.
        *count = count.wrapping_add(1);
        self.sum = self.sum.wrapping_add(u128::from(nanoseconds));
    }

    /// Counts many durations; equivalent to `record` for each of them, which it calls on a CPU without AVX-512. With
    /// it, a value of a long batch takes 0.6 of the time of `record`, on a core of its own. It keeps the whole core
    /// busy, so it gains less where another thread shares the core. From 4,096 values on, consecutive equal ones do
    /// not wait for each other (`cargo bench -p ogive-hist`).
    pub fn record_batch(&mut self, nanoseconds: &[u64]) {
        if !NanosecondIndex::is_wide() {
            return nanoseconds.iter().for_each(|nanoseconds| self.record(*nanoseconds));
        }
        for part in nanoseconds.chunks(BATCH_PART) {
            let digest = if part.len() >= BATCH_SPLIT { self.count_split(part) } else { self.count_part(part) };
            self.take_digest(digest);
        }
    }

    /// Counts durations in the recorder's own counts.
    fn count_part(&mut self, nanoseconds: &[u64]) -> Digest {
        let (mut digest, mut bins) = (Digest::EMPTY, [0; BATCH_BINS]);
        for part in nanoseconds.chunks(BATCH_BINS) {
            digest.merge(NanosecondIndex::bins(part, &mut bins));
            for bin in &bins[..part.len()] {
                let count = &mut self.counts[*bin as usize & (FLAT_BINS - 1)];
                *count = count.wrapping_add(1);
            }
        }
        digest
    }

    /// Counts durations in several arrays in turn, and adds them up: consecutive equal durations do not wait for each
    /// other.
    fn count_split(&mut self, nanoseconds: &[u64]) -> Digest {
        let (mut digest, mut bins, mut places) = (Digest::EMPTY, [0; BATCH_BINS], [[0_u32; BATCH_PLACE]; 4]);
        for part in nanoseconds.chunks(BATCH_BINS) {
            digest.merge(NanosecondIndex::bins(part, &mut bins));
            let (fours, rest) = bins[..part.len()].as_chunks::<4>();
            for four in fours {
                (0..4).for_each(|at| places[at][four[at] as usize & (FLAT_BINS - 1)] += 1);
            }
            rest.iter().for_each(|bin| places[0][*bin as usize & (FLAT_BINS - 1)] += 1);
        }
        for (at, count) in self.counts.iter_mut().enumerate() {
            let places: u64 = places.iter().map(|place| u64::from(place[at])).sum();
            *count = count.wrapping_add(places);
        }
        digest
    }

    /// Merges everything except the counts.
    fn take_digest(&mut self, digest: Digest) {
        self.reach(digest.min);
        self.reach(digest.max);
        self.sum = self.sum.wrapping_add(digest.sum);
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

    /// Extends minimum and maximum to a duration.
    #[cold]
    #[inline(always)]
    fn reach(&mut self, nanoseconds: u64) {
        (self.min, self.max) = (self.min.min(nanoseconds), self.max.max(nanoseconds));
        self.usual = (self.max.min(NEAR_END - 1) + 1).saturating_sub(self.min);
    }

    /// The recorded values, in seconds.
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

    /// The recorded values, in seconds; the recorder starts over.
    #[must_use]
    pub fn take(&mut self) -> Histogram {
        let histogram = self.snapshot();
        self.counts.fill(0);
        (self.sum, self.min, self.max, self.usual) = (0, u64::MAX, 0, 0);
        histogram
    }
}

/// From 4,096 values on, several places pay: at the end 8,192 counts are added up.
const BATCH_SPLIT: usize = 1 << 12;

/// Bins that are found before they are counted: 1 KiB, which stays in the first-level cache.
const BATCH_BINS: usize = 512;

/// Words of an array. Not a multiple of 4 KiB: a load whose address differs from that of an earlier store by such a
/// multiple waits for it on many CPUs, as if it were the same.
const BATCH_PLACE: usize = FLAT_BINS + 272;

/// Values that are counted at a time: far below 2^32, so that a place may count with 32 bits.
const BATCH_PART: usize = 1 << 24;

/// Counts values given as doubles: fast between 2e-9 and 6e10, right everywhere.
#[derive(Clone, Debug)]
pub struct FlatFloatRecorder {
    counts: Box<[u64; FLAT_BINS]>,
    table: &'static [u64; FLOAT_CELLS],
    /// Parts of the sum: an addition waits for the one before it, so that four may go on at a time.
    sums: [f64; 4],
    min: f64,
    max: f64,
    /// Values without a flat bin: below zero, tiny, huge or NaN.
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
const FLOAT_CELLS: usize = ((FLOAT_EXPONENT_END - FLOAT_EXPONENT_MIN) as usize) << CELL_BITS;
const FLOAT_CELL_FIRST: u64 = FLOAT_EXPONENT_MIN << CELL_BITS;

/// An entry per cell, as in the index of nanoseconds.
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
        // A sign, a NaN or an infinity makes this number large as well.
        let cell = (bits >> CELL_SHIFT).wrapping_sub(FLOAT_CELL_FIRST) as usize;
        let Some(entry) = self.table.get(cell) else {
            return self.record_other(value);
        };
        let flat = (bits.wrapping_add(*entry) >> BIN_SHIFT) as usize;
        let count = &mut self.counts[flat];
        *count = count.wrapping_add(1);
        self.sums[flat & 3] += value;
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

    /// The recorded values.
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

    /// The recorded values; the recorder starts over.
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
    let first = (cell + FLOAT_CELL_FIRST) << CELL_SHIFT;
    let flat = |bits: u64| {
        let bin = DecimalBin::from_value(f64::from_bits(bits));
        flat_bin(bin).unwrap_or_else(|| panic!("{:e} has no flat bin", f64::from_bits(bits))) as u64
    };
    let (mut low, mut high) = (0, (1_u64 << CELL_SHIFT) - 1);
    let (below, above) = (flat(first), flat(first | high));
    if below == above {
        return entry_of(above, f64::from_bits(first));
    }
    assert_eq!(below + 1, above, "cell {cell} holds two edges");
    // The smallest offset in the upper bin is in (low, high].
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if flat(first | middle) == above {
            high = middle;
        } else {
            low = middle;
        }
    }
    entry_of(above, f64::from_bits(first | high))
}

/// Counts at zero, without passing 16 KiB through the stack.
fn zeroed() -> Box<[u64; FLAT_BINS]> {
    vec![0; FLAT_BINS].into_boxed_slice().try_into().expect("the vector has that length")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn randoms(seed: u64) -> impl Iterator<Item = u64> {
        let mut rng = fastrand::Rng::with_seed(seed);
        std::iter::repeat_with(move || rng.u64(..))
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
        assert!(sum > 1 << 64, "the high half of the sum is tried");
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
    fn a_batch_is_counted_as_its_values_one_by_one() {
        let values: Vec<u64> = randoms(3).take(30_000).enumerate().map(|(at, v)| v >> (at % 64)).collect();
        let mut lengths = vec![0, 1, 2, 7, BATCH_SPLIT - 1, BATCH_SPLIT, BATCH_SPLIT + 1, 9001];
        lengths.extend(randoms(9).take(40).map(|random| random as usize % 6000));
        let (mut batches, mut singles) = (FlatRecorder::new(), FlatRecorder::new());
        for (round, length) in lengths.into_iter().enumerate() {
            let from = (round * 977) % (values.len() - length);
            let part = &values[from..from + length];
            batches.record_batch(part);
            part.iter().for_each(|value| singles.record(*value));
            if round % 3 == 0 {
                // Interleaved with single records, and from the start.
                batches.record(u64::MAX >> (round % 64));
                singles.record(u64::MAX >> (round % 64));
            }
            assert_eq!(batches.snapshot(), singles.snapshot(), "round {round}, {length} values");
            if round % 7 == 6 {
                assert_eq!(batches.take(), singles.take());
            }
        }
        for values in [&[u64::MAX; 5000][..], &[0; 5000], &[u64::MAX], &[0], &[5, u64::MAX], &[u64::MAX, 5]] {
            let _ = (batches.take(), singles.take());
            batches.record_batch(values);
            values.iter().for_each(|value| singles.record(*value));
            assert_eq!(batches.snapshot(), singles.snapshot());
        }
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
        for values in [
            &[u64::MAX][..],
            &[0],
            &[5],
            &[5, 3],
            &[3, 5],
            &[0, u64::MAX],
            &[u64::MAX, 0, 7],
            &[7, 7, 7],
            &[u64::MAX, u64::MAX - 1],
            &[u64::MAX - 1, u64::MAX],
            &[u64::MAX, u64::MAX, 1],
            &[0, 0, 1],
            &[NEAR_END, NEAR_END - 1],
        ] {
            values.iter().for_each(|value| recorder.record(*value));
            let histogram = recorder.take();
            let exact = |value: Option<&u64>| value.map(|value| seconds_of_nanoseconds(u128::from(*value)));
            assert_eq!((histogram.min, histogram.max), (exact(values.iter().min()), exact(values.iter().max())));
        }
    }

    #[test]
    fn near_and_far_durations_are_counted_in_any_order() {
        let ends = [0, 1, 99, 100, NEAR_END - 2, NEAR_END - 1, NEAR_END, NEAR_END + 1, u64::MAX - 1, u64::MAX];
        let (mut recorder, mut batches, mut counted) = (FlatRecorder::new(), FlatRecorder::new(), FlatRecorder::new());
        for [a, b, c] in ends.map(|a| ends.map(|b| ends.map(|c| [a, b, c]))).into_iter().flatten().flatten() {
            let mut model = Histogram::log_linear();
            let mut sum = 0;
            for value in [a, b, c] {
                recorder.record(value);
                batches.record_batch(&[value]);
                counted.record_n(value, 1);
                sum += u128::from(value);
                // A number above i64 has the bin of a tenth of it, one decade up.
                let far = value > i64::MAX as u64;
                let (digits, exponent) = if far { (value / 10, -8) } else { (value, -9) };
                model.record_bin(DecimalBin::from_integer(digits as i64, exponent), 1);
                let exact = |value: Option<u64>| value.map(|value| seconds_of_nanoseconds(u128::from(value)));
                let found = recorder.snapshot();
                let so_far = &[a, b, c][..found.count as usize];
                model.min = exact(so_far.iter().min().copied());
                model.max = exact(so_far.iter().max().copied());
                model.sum = Some(seconds_of_nanoseconds(sum));
                assert_eq!(found, model, "{so_far:?}");
            }
            assert_eq!(recorder.take(), model);
            assert_eq!(batches.take(), model);
            assert_eq!(counted.take(), model);
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
