//! One buffer of a writer: counts by flat bin, exact sum, least and greatest, all atomic words with one writer at a
//! time.
//!
//! *Limits*: counts are 32 bits, so that two buffers of a writer stay below 16 KiB; a bin that passes 2^32 records
//! within one cell carries into a table of 64-bit words, which is made then (at a record a nanosecond that takes 4.3 s
//! without a snapshot).

use ogive_hist::{FLAT_BINS, Histogram, NanosecondIndex, histogram_of_flat_bins, seconds_of_nanoseconds};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bins that a `u64` of nanoseconds can fall in: zero, and 20 decades of 90 up to 1.8e19, rounded up to a cache line.
pub(crate) const BINS: usize = 1 + 20 * 90 + 7;

const _: () = assert!(BINS <= FLAT_BINS && BINS.is_multiple_of(16));

/// Where the counts of bins are; one writer at a time, and a reader at any time.
pub(crate) trait Counts: Send + Sync {
    fn new() -> Self;
    /// Adds one; true when the count has passed 2^32 and wrapped to zero.
    fn increment(&self, bin: usize) -> bool;
    /// Adds every count to `totals`: each is some value that it had.
    fn add_to(&self, totals: &mut [u64]);
    /// Makes every count zero.
    fn clear(&self);
}

/// Every bin has its count: 7.2 KB.
#[repr(align(64))]
pub(crate) struct Flat([AtomicU32; BINS]);

impl Counts for Flat {
    fn new() -> Self {
        Self([const { AtomicU32::new(0) }; BINS])
    }

    #[inline(always)]
    fn increment(&self, bin: usize) -> bool {
        // One comparison that is never true; `min` would take three instructions of every record.
        self.0.get(bin).is_some_and(increment)
    }

    fn add_to(&self, totals: &mut [u64]) {
        for (total, word) in totals.iter_mut().zip(&self.0) {
            *total += u64::from(word.load(Ordering::Relaxed));
        }
    }

    fn clear(&self) {
        for word in self.0.iter().filter(|word| word.load(Ordering::Relaxed) != 0) {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// Adds one; true when the count has passed 2^32.
///
/// ORDERING: Relaxed; the turnstile gives the buffer to one thread at a time and orders the turns.
#[inline(always)]
pub(crate) fn increment(word: &AtomicU32) -> bool {
    let count = word.load(Ordering::Relaxed).wrapping_add(1);
    word.store(count, Ordering::Relaxed);
    count == 0
}

pub(crate) struct Buffer<C = Flat> {
    sum_low: AtomicU64,
    sum_high: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
    /// How often each count passed 2^32, times 2^32.
    carried: OnceLock<Box<[AtomicU64]>>,
    pub(crate) counts: C,
}

impl<C: Counts> Buffer<C> {
    pub(crate) fn new() -> Self {
        Self {
            sum_low: AtomicU64::new(0),
            sum_high: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
            carried: OnceLock::new(),
            counts: C::new(),
        }
    }

    /// Counts one value. Only the writer whose turn it is.
    ///
    /// ORDERING: Relaxed throughout; the turnstile gives the buffer to one thread at a time and orders the turns.
    #[inline(always)]
    pub(crate) fn add(&self, ns: u64) {
        let bin = NanosecondIndex::bin(ns);
        if self.counts.increment(bin) {
            self.carry(bin);
        }
        let (low, carry) = self.sum_low.load(Ordering::Relaxed).overflowing_add(ns);
        self.sum_low.store(low, Ordering::Relaxed);
        if carry {
            self.sum_high.store(self.sum_high.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        if ns < self.min.load(Ordering::Relaxed) {
            self.min.store(ns, Ordering::Relaxed);
        }
        if ns > self.max.load(Ordering::Relaxed) {
            self.max.store(ns, Ordering::Relaxed);
        }
    }

    #[cold]
    fn carry(&self, bin: usize) {
        let carried = self.carried.get_or_init(|| (0..BINS).map(|_| AtomicU64::new(0)).collect());
        let word = &carried[bin];
        word.store(word.load(Ordering::Relaxed) + (1 << 32), Ordering::Relaxed);
    }

    /// Adds everything to `totals` and empties the buffer. Only for the reader whose turn it is.
    pub(crate) fn drain_into(&self, totals: &mut Totals) {
        self.add_counts_to(totals);
        totals.sum += u128::from(self.sum_high.load(Ordering::Relaxed)) << 64;
        totals.sum += u128::from(self.sum_low.load(Ordering::Relaxed));
        totals.min = totals.min.min(self.min.load(Ordering::Relaxed));
        totals.max = totals.max.max(self.max.load(Ordering::Relaxed));
        self.counts.clear();
        for word in self.carried.get().into_iter().flatten() {
            word.store(0, Ordering::Relaxed);
        }
        self.sum_low.store(0, Ordering::Relaxed);
        self.sum_high.store(0, Ordering::Relaxed);
        self.min.store(u64::MAX, Ordering::Relaxed);
        self.max.store(0, Ordering::Relaxed);
    }

    /// Adds the counts to `totals`, at any time: each count is some value that it had.
    pub(crate) fn add_counts_to(&self, totals: &mut Totals) {
        self.counts.add_to(&mut totals.counts);
        for (total, word) in totals.counts.iter_mut().zip(self.carried.get().into_iter().flatten()) {
            *total += word.load(Ordering::Relaxed);
        }
    }
}

/// The sum of buffers, for one cell.
pub(crate) struct Totals {
    counts: Box<[u64]>,
    sum: u128,
    min: u64,
    max: u64,
}

impl Totals {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; BINS].into_boxed_slice(), sum: 0, min: u64::MAX, max: 0 }
    }

    pub(crate) fn add(&mut self, ns: u64) {
        self.counts[NanosecondIndex::bin(ns)] += 1;
        self.sum += u128::from(ns);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Adds the counts of `other`, and nothing else of it.
    pub(crate) fn add_counts(&mut self, other: &Self) {
        for (total, count) in self.counts.iter_mut().zip(&other.counts) {
            *total += count;
        }
    }

    /// As a histogram of seconds, with exact sum, least and greatest.
    pub(crate) fn histogram(&self) -> Histogram {
        let mut histogram = self.histogram_of_counts();
        if histogram.count > 0 {
            histogram.sum = Some(seconds_of_nanoseconds(self.sum));
            histogram.min = Some(seconds_of_nanoseconds(u128::from(self.min)));
            histogram.max = Some(seconds_of_nanoseconds(u128::from(self.max)));
        }
        histogram
    }

    /// As a histogram of seconds, with only the counts.
    pub(crate) fn histogram_of_counts(&self) -> Histogram {
        histogram_of_flat_bins(self.counts.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drained(buffer: &Buffer) -> Totals {
        let mut totals = Totals::new();
        buffer.drain_into(&mut totals);
        totals
    }

    #[test]
    fn extremes_have_their_bins_and_sums() {
        let buffer = Buffer::<Flat>::new();
        for ns in [0, 1, u64::MAX, u64::MAX, 10_000_000_000_000_000_000] {
            buffer.add(ns);
        }
        let totals = drained(&buffer);
        assert_eq!(totals.counts.iter().sum::<u64>(), 5);
        assert_eq!(totals.sum, 1 + 2 * u128::from(u64::MAX) + 10_000_000_000_000_000_000);
        assert_eq!((totals.min, totals.max), (0, u64::MAX));
        assert!(NanosecondIndex::bin(u64::MAX) < BINS);
        let again = drained(&buffer).histogram();
        assert_eq!((again.count, again.sum, again.min, again.max), (0, None, None, None), "it was emptied");
    }

    #[test]
    fn a_count_that_passes_32_bits_is_kept() {
        let buffer = Buffer::<Flat>::new();
        for carries in 1..3_u64 {
            buffer.counts.0[NanosecondIndex::bin(77)].store(u32::MAX - 1, Ordering::Relaxed);
            for _ in 0..3 {
                buffer.add(77);
            }
            let mut live = Totals::new();
            buffer.add_counts_to(&mut live);
            assert_eq!(live.counts.iter().sum::<u64>(), carries * (1 << 32) + 1);
        }
        let totals = drained(&buffer);
        assert_eq!(totals.counts[NanosecondIndex::bin(77)], 2 * (1 << 32) + 1);
        assert_eq!(drained(&buffer).counts.iter().sum::<u64>(), 0, "it was emptied");
    }
}
