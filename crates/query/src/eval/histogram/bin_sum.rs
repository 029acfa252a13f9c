//! Compensated counts by bin.
//!
//! Dense while the bins span at most [`SPAN_MAX`] indexes, so that adding a histogram touches only its own bins. Wider
//! spans, which only very fine exponential scales reach, are sparse.

use ogive_hist::Bins;

use super::arithmetic::zip_bins;
use crate::eval::kernel::kahan_add;

/// 65,536 bins of 16 bytes are 1 MiB; log-linear bins of one sign are 23,040 in all, exponential ones at Prometheus'
/// finest scale span 65,536 for 256 doublings.
const SPAN_MAX: i64 = 1 << 16;

/// Room on either side when a span grows: the next values often lie a little further out.
const SLACK: i64 = 16;

/// Counts with the rounding error of each.
#[derive(Clone, Debug)]
pub(super) enum BinSum {
    /// From index `first` on. `lost` is empty until there is a rounding error, which sums of whole numbers never have.
    Dense { first: i32, sums: Vec<f64>, lost: Vec<f64> },
    /// Both of the same indexes.
    Sparse { sum: Bins<f64>, lost: Bins<f64> },
}

impl BinSum {
    /// The counts of `bins`.
    pub(super) fn new(bins: &Bins<f64>) -> Self {
        let mut out = Self::Dense { first: 0, sums: Vec::new(), lost: Vec::new() };
        out.add(bins);
        out
    }

    /// From counts and errors; the errors' indexes are among those of the counts, or of counts that were removed.
    pub(super) fn from_parts(sum: &Bins<f64>, lost: &Bins<f64>) -> Self {
        let mut out = Self::new(sum);
        // Each error is far smaller than its count's last digit: adding it puts it among the errors again.
        out.add(lost);
        out
    }

    /// Counts and rounding errors.
    pub(super) fn parts(&self) -> (Bins<f64>, Bins<f64>) {
        match self {
            Self::Sparse { sum, lost } => (sum.clone(), lost.clone()),
            Self::Dense { first, sums, lost } => {
                let pair =
                    |(at, sum): (usize, &f64)| (index_at(*first, at), *sum, lost.get(at).copied().unwrap_or(0.0));
                let filled = || sums.iter().enumerate().map(pair).filter(|(_, sum, lost)| *sum != 0.0 || *lost != 0.0);
                (
                    filled().map(|(index, sum, _)| (index, sum)).collect(),
                    filled().map(|(index, _, lost)| (index, lost)).collect(),
                )
            }
        }
    }

    /// Adds the counts of `other`.
    pub(super) fn add(&mut self, other: &Bins<f64>) {
        let (Some(low), Some(high)) = (other.indexes().first(), other.indexes().last()) else { return };
        if !self.cover(i64::from(*low), i64::from(*high)) {
            let (sum, lost) = self.parts();
            *self = Self::Sparse { sum, lost };
        }
        match self {
            Self::Dense { first, sums, lost } => {
                for (index, count) in other.iter() {
                    let at = offset(*first, index);
                    let (total, error) = two_sum(sums[at], count);
                    sums[at] = total;
                    if error != 0.0 {
                        lost.resize(sums.len(), 0.0);
                        lost[at] = if total.is_finite() { lost[at] + error } else { 0.0 };
                    }
                }
            }
            Self::Sparse { sum, lost } => add_sparse(sum, lost, other),
        }
    }

    /// As [`BinSum::add`], of counts in consecutive bins from `first` on, most of which are not zero.
    pub(super) fn add_dense(&mut self, first: i32, counts: &[f64]) {
        let is_filled = |count: &f64| *count != 0.0;
        let (Some(from), Some(to)) = (counts.iter().position(is_filled), counts.iter().rposition(is_filled)) else {
            return;
        };
        let (low, high, counts) = (index_at(first, from), index_at(first, to), &counts[from..=to]);
        if !matches!(self, Self::Dense { .. }) || !self.cover(low.into(), high.into()) {
            return self.add(&(low..).zip(counts.iter().copied()).filter(|(_, count)| *count != 0.0).collect());
        }
        let Self::Dense { first, sums, lost } = self else { return };
        let at = offset(*first, low);
        let totals = &mut sums[at..][..counts.len()];
        if lost.is_empty() {
            if totals.iter().zip(counts).all(|(sum, count)| two_sum(*sum, *count).1 == 0.0) {
                totals.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                return;
            }
            lost.resize(sums.len(), 0.0);
        }
        let totals = &mut sums[at..][..counts.len()];
        for ((sum, lost), count) in totals.iter_mut().zip(&mut lost[at..][..counts.len()]).zip(counts) {
            let (total, error) = two_sum(*sum, *count);
            *sum = total;
            // Where there is no error the loss is not infinite, and stays.
            *lost = if total.abs() < f64::INFINITY { *lost + error } else { 0.0 };
        }
    }

    /// Makes room for the indexes from `low` to `high`; false when they span too much.
    fn cover(&mut self, low: i64, high: i64) -> bool {
        let Self::Dense { first, sums, lost } = self else { return true };
        if sums.is_empty() {
            let length = high - low + 1;
            if length > SPAN_MAX {
                return false;
            }
            *first = narrow(low);
            let length = usize::try_from(length).expect("high is at or above low");
            *sums = vec![0.0; length];
            return true;
        }
        let (start, end) = (i64::from(*first), i64::from(*first) + sums.len() as i64 - 1);
        if start <= low && high <= end {
            return true;
        }
        let (new_start, new_end) = (start.min(low), end.max(high));
        if new_end - new_start + 1 > SPAN_MAX {
            return false;
        }
        let new_start = if new_start < start { (new_start - SLACK).max(i64::from(i32::MIN)) } else { start };
        let new_end = if new_end > end { (new_end + SLACK).min(i64::from(i32::MAX)) } else { end };
        let front = usize::try_from(start - new_start).expect("the start only goes down");
        let length = usize::try_from(new_end - new_start + 1).expect("the end is above the start");
        for column in [sums, lost].into_iter().filter(|column| !column.is_empty()) {
            let mut wider = vec![0.0; length];
            wider[front..front + column.len()].copy_from_slice(column);
            *column = wider;
        }
        *first = narrow(new_start);
        true
    }

    /// The counts with their rounding errors added; empty bins are left out.
    pub(super) fn bins(&self) -> Bins<f64> {
        match self {
            Self::Sparse { sum, lost } => {
                let mut out = zip_bins(sum, lost, |count, lost| count + lost);
                out.retain(|_, count| count != 0.0);
                out
            }
            Self::Dense { first, sums, lost } => {
                let mut out = Bins::with_capacity(sums.iter().filter(|sum| **sum != 0.0).count());
                for (at, sum) in sums.iter().enumerate() {
                    let count = sum + lost.get(at).copied().unwrap_or(0.0);
                    if count != 0.0 {
                        out.push(index_at(*first, at), count);
                    }
                }
                out
            }
        }
    }

    /// Changes every count and error.
    pub(super) fn each(&mut self, change: impl Fn(f64) -> f64) {
        let columns: [&mut [f64]; 2] = match self {
            Self::Dense { sums, lost, .. } => [sums, lost],
            Self::Sparse { sum, lost } => [sum.counts_mut(), lost.counts_mut()],
        };
        for count in columns.into_iter().flatten() {
            *count = change(*count);
        }
    }

    /// Whether some count is infinite.
    pub(super) fn overflows(&self) -> bool {
        match self {
            Self::Dense { sums, .. } => sums.iter().any(|sum| sum.is_infinite()),
            Self::Sparse { sum, .. } => sum.counts().iter().any(|sum| sum.is_infinite()),
        }
    }

    /// How many bins are held, empty ones included.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Dense { sums, .. } => sums.len(),
            Self::Sparse { sum, .. } => sum.len(),
        }
    }
}

/// A sum and its rounding error, exactly (Knuth).
#[inline]
fn two_sum(before: f64, count: f64) -> (f64, f64) {
    let total = before + count;
    let share = total - before;
    (total, (before - (total - share)) + (count - share))
}

fn index_at(first: i32, at: usize) -> i32 {
    narrow(i64::from(first) + i64::try_from(at).expect("a span is short"))
}

fn offset(first: i32, index: i32) -> usize {
    usize::try_from(i64::from(index) - i64::from(first)).expect("the span covers the index")
}

fn narrow(index: i64) -> i32 {
    i32::try_from(index).expect("an index of a bin")
}

fn add_sparse(sum: &mut Bins<f64>, lost: &mut Bins<f64>, other: &Bins<f64>) {
    *sum = zip_bins(sum, other, |sum, _| sum);
    *lost = zip_bins(lost, other, |lost, _| lost);
    let mut at = 0;
    for (index, count) in other.iter() {
        while sum.indexes()[at] != index {
            at += 1;
        }
        let (total, rest) = kahan_add(count, sum.counts()[at], lost.counts()[at]);
        sum.counts_mut()[at] = total;
        lost.counts_mut()[at] = rest;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn dense_and_sparse_sums_equal_plain_ones(
            source in proptest::collection::vec(
                proptest::collection::btree_map(prop_oneof![-300..300_i32, -200_000..200_000_i32], 1..1000_u32, 0..20),
                1..12,
            ),
        ) {
            let bins = |map: &std::collections::BTreeMap<i32, u32>| -> Bins<f64> {
                map.iter().map(|(index, count)| (*index, f64::from(*count))).collect()
            };
            let mut sum = BinSum::new(&bins(&source[0]));
            source[1..].iter().for_each(|map| sum.add(&bins(map)));
            let expected: Bins<f64> =
                source.iter().flatten().map(|(index, count)| (*index, f64::from(*count))).collect();
            prop_assert_eq!(sum.bins(), expected);
        }
    }
}
