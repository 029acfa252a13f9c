//! The cell of a series of values: their distribution, in as few bytes as possible.
//!
//! Invariants: [`Distribution::histogram`] equals the result of [`Histogram::record`] for each value and
//! [`Histogram::merge`] for each part.
//! Format, in memory only: most cells hold a handful of values. Minimum and maximum hold the first two values, and two
//! more are kept as bin numbers: 40 bytes and no allocation. The fifth value creates an [`Open`]: bins and their counts
//! in four bytes each, ascending, and a log of values not sorted in yet, so that recording a value stores two bytes.
//! Limits: a bin's count above [`COUNT_MAX`] moves all bins into a full histogram, once.

use ogive_hist::{BINS_PER_SIGN, BinPlacement, Histogram, Scheme};

use super::{ItemValue, Refused};
use crate::cells::open::CellState;

/// Numbers of bins: those above zero, those below, and the zero bin.
const NEGATIVE: u16 = BINS_PER_SIGN as u16;
const ZERO: u16 = 2 * NEGATIVE;
const _: () = assert!(2 * BINS_PER_SIGN < u16::MAX as i32);

/// Counts of packed bins have 16 bits.
const COUNT_MAX: u32 = u16::MAX as u32;

/// 48 values of two bytes: sorting them in costs one pass over the bins, which takes about as long with some 40 bins.
const LOG: usize = 48;

/// Values of one series in one second.
#[derive(Debug, Default)]
pub struct Distribution {
    /// Values that were added one by one and fit a bin.
    count: u32,
    /// Bins of the third and the fourth.
    few: [u16; 2],
    sum: f64,
    min: f64,
    max: f64,
    open: Option<Box<Open>>,
}

/// The part that does not fit into a table's entry.
#[derive(Clone, Debug, Default)]
struct Open {
    /// Bin in the upper half, count in the lower one, ascending.
    bins: Vec<u32>,
    log: Log,
    /// NaN values.
    nan: u64,
    /// Parts, and bins that grew beyond their counts.
    whole: Option<Box<Histogram>>,
}

#[derive(Clone, Debug)]
struct Log {
    bins: [u16; LOG],
    length: u8,
}

impl Default for Log {
    fn default() -> Self {
        Self { bins: [0; LOG], length: 0 }
    }
}

// The other fields of a table's entry are 24 bytes: together a cache line.
const _: () = assert!(size_of::<Distribution>() == 40);

fn bin_of(value: f64) -> Option<u16> {
    match Scheme::LogLinear10.place(value, 0.0) {
        BinPlacement::Positive(index) => Some(index as u16),
        BinPlacement::Negative(index) => Some(NEGATIVE + index as u16),
        BinPlacement::Zero => Some(ZERO),
        BinPlacement::Nan => None,
    }
}

impl Distribution {
    /// The number of values, including those of merged parts.
    #[must_use]
    pub fn count(&self) -> u64 {
        let open = self.open.as_ref().map_or(0, |open| open.nan + open.whole.as_ref().map_or(0, |whole| whole.count));
        // Values that were moved to the whole histogram are no longer in `count`.
        u64::from(self.count) + open
    }

    /// Bytes that it occupies on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let Some(open) = &self.open else { return 0 };
        let whole = open
            .whole
            .as_ref()
            .map_or(0, |whole| size_of::<Histogram>() + 12 * (whole.positive.len() + whole.negative.len()));
        size_of::<Open>() + 4 * open.bins.capacity() + whole
    }

    /// The distribution.
    #[must_use]
    pub fn histogram(&self) -> Histogram {
        let mut out = match &self.open {
            Some(open) => {
                let mut sorted = Open { bins: open.bins.clone(), log: open.log.clone(), ..Open::default() };
                sorted.sort_in();
                let mut out = self.of_bins(sorted.counts());
                out.nan = open.nan;
                out.count += open.nan;
                out
            }
            None => {
                let mut bins: Vec<u16> = self.few_bins().collect();
                bins.sort_unstable();
                self.of_bins(bins.into_iter().map(|bin| (bin, 1)))
            }
        };
        if let Some(whole) = self.open.as_ref().and_then(|open| open.whole.as_ref()) {
            let mut whole = (**whole).clone();
            if out.count > 0 {
                whole.merge(&out).expect("what does not fit was refused");
            }
            out = whole;
        }
        out
    }

    /// A histogram of `bins`, ascending, some of which may be equal.
    fn of_bins(&self, bins: impl Iterator<Item = (u16, u64)>) -> Histogram {
        let mut out = Histogram::log_linear();
        for (bin, count) in bins {
            out.count += count;
            match bin {
                ZERO => out.zero += count,
                NEGATIVE.. => out.negative.add(i32::from(bin - NEGATIVE), count),
                _ => out.positive.add(i32::from(bin), count),
            }
        }
        if self.count > 0 {
            (out.sum, out.min, out.max) = (Some(self.sum), Some(self.min), Some(self.max));
        }
        out
    }

    /// Bins of at most four values.
    fn few_bins(&self) -> impl Iterator<Item = u16> + '_ {
        let bin = |value| bin_of(value).expect("it had one when it came");
        let ends = [self.min, self.max].into_iter().take(self.count as usize).map(bin);
        let few = self.few.iter().copied().take((self.count as usize).saturating_sub(2));
        ends.chain(few)
    }

    #[inline]
    fn record(&mut self, value: f64) {
        if let Some(whole) = self.open.as_mut().and_then(|open| open.whole.as_mut())
            && whole.scheme != Scheme::LogLinear10
        {
            return whole.record(value);
        }
        let Some(bin) = bin_of(value) else {
            self.opened().nan += 1;
            return;
        };
        if self.open.is_none() {
            match self.count {
                0 => (self.sum, self.min, self.max) = (0.0, value, value),
                1 => {}
                // Which of the three is between the others: the two at the ends stay as they are.
                2 | 3 => {
                    let between = if value < self.min {
                        bin_of(self.min).expect("it had one when it came")
                    } else if value > self.max {
                        bin_of(self.max).expect("it had one when it came")
                    } else {
                        bin
                    };
                    self.few[self.count as usize - 2] = between;
                }
                _ => self.opened().push(bin),
            }
        } else {
            if self.count == 0 {
                (self.sum, self.min, self.max) = (0.0, value, value);
            }
            self.opened().push(bin);
        }
        self.count += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        if self.count == COUNT_MAX {
            self.make_whole();
        }
    }

    /// The allocated part, with everything that was in the entry.
    fn opened(&mut self) -> &mut Open {
        if self.open.is_none() {
            let mut open = Box::<Open>::default();
            self.few_bins().for_each(|bin| open.push(bin));
            self.open = Some(open);
        }
        self.open.as_mut().expect("just made")
    }

    /// Moves the values into the whole histogram, so that no packed count can overflow its bits.
    #[cold]
    fn make_whole(&mut self) {
        let (open, whole) = (self.open.as_mut().and_then(|open| open.whole.take()), self.histogram_of_values());
        let whole = match open {
            Some(mut before) => {
                before.merge(&whole).expect("both are log-linear");
                before
            }
            None => Box::new(whole),
        };
        let open = self.opened();
        open.bins.clear();
        open.log.length = 0;
        assert!(open.bins.is_empty() && open.log.length == 0, "what moved is counted once");
        open.whole = Some(whole);
        self.count = 0;
    }

    /// The values that were added one by one.
    fn histogram_of_values(&mut self) -> Histogram {
        self.opened().sort_in();
        self.of_bins(self.open.iter().flat_map(|open| open.counts()))
    }

    fn part(&mut self, part: Box<Histogram>) -> Result<(), Refused> {
        let has_values = self.count > 0 || self.open.as_ref().is_some_and(|open| open.nan > 0);
        if has_values && part.scheme != Scheme::LogLinear10 {
            return Err(Refused::Scheme);
        }
        let open = self.opened();
        match &mut open.whole {
            Some(whole) => whole.merge(&part).map_err(|_| Refused::Scheme),
            None => {
                open.whole = Some(part);
                Ok(())
            }
        }
    }
}

impl Open {
    #[inline]
    fn push(&mut self, bin: u16) {
        if usize::from(self.log.length) == LOG {
            self.sort_in();
        }
        debug_assert!(bin <= ZERO, "bin {bin}");
        self.log.bins[usize::from(self.log.length)] = bin;
        self.log.length += 1;
    }

    /// Merges the log into the bins.
    fn sort_in(&mut self) {
        let log = &mut self.log.bins[..usize::from(self.log.length)];
        log.sort_unstable();
        let runs = log.chunk_by(|left, right| left == right);
        let (mut merged, mut before) = (Vec::with_capacity(self.bins.len() + 8), self.bins.iter().copied().peekable());
        for run in runs {
            let (bin, count) = (run[0], run.len() as u32);
            while let Some(packed) = before.next_if(|packed| packed >> 16 < u32::from(bin)) {
                merged.push(packed);
            }
            let held = before.next_if(|packed| packed >> 16 == u32::from(bin)).map_or(0, |packed| packed & COUNT_MAX);
            // Below COUNT_MAX: all values together are.
            assert!(held + count <= COUNT_MAX, "{held} and {count} values of bin {bin} pass their bits");
            merged.push(u32::from(bin) << 16 | (held + count));
        }
        merged.extend(before);
        debug_assert!(merged.is_sorted_by(|one, next| one >> 16 < next >> 16), "bins ascend");
        merged.shrink_to_fit();
        self.bins = merged;
        self.log.length = 0;
    }

    /// The bins, ascending, with their counts, except for values in the log.
    fn counts(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.bins.iter().map(|packed| ((packed >> 16) as u16, u64::from(packed & COUNT_MAX)))
    }
}

impl CellState for Distribution {
    #[inline]
    fn add(&mut self, _: i64, what: ItemValue) -> Result<(), Refused> {
        match what {
            ItemValue::Value(value) => {
                self.record(value);
                Ok(())
            }
            ItemValue::Part(part) => self.part(part),
            ItemValue::Number(_) => unreachable!("numbers and values have tables of their own"),
        }
    }

    fn join(&mut self, other: &Self) -> bool {
        self.part(Box::new(other.histogram())).is_ok()
    }

    fn clear(&mut self) {
        self.count = 0;
        if let Some(open) = &mut self.open {
            if open.whole.is_some() {
                // Large ones give their memory back.
                self.open = None;
            } else {
                // The next second of the series likely has as many.
                open.bins.clear();
                (open.log.length, open.nan) = (0, 0);
            }
        }
    }

    fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

impl PartialEq for Distribution {
    fn eq(&self, other: &Self) -> bool {
        self.histogram() == other.histogram()
    }
}
