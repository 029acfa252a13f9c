//! Partitions by time: which buckets some minutes or hours are in, and what of each bucket.

use std::ops::RangeInclusive;

/// A bucket, and the first and the last place of it that are meant.
pub(crate) type BucketSpan = (i32, (i32, i32));

/// The buckets of `length` places that a range is in. None for an empty range.
pub(crate) fn spans(range: RangeInclusive<i32>, length: i32) -> impl Iterator<Item = BucketSpan> {
    let (first, last) = range.into_inner();
    let buckets = (first <= last).then(|| first.div_euclid(length)..=last.div_euclid(length));
    buckets.into_iter().flatten().map(move |at| (at, (first.max(at * length), last.min(at * length + length - 1))))
}

/// Those of the parts of a range that are on one of `days`, which have `of_day` places each.
pub(crate) fn spans_of_days(
    days: &[i32],
    range: &RangeInclusive<i32>,
    (length, of_day): (i32, i32),
) -> impl Iterator<Item = BucketSpan> {
    let (first, last) = (*range.start(), *range.end());
    days.iter().flat_map(move |day| spans((day * of_day).max(first)..=(day * of_day + of_day - 1).min(last), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_clipped_at_both_ends() {
        let of = |first, last| spans(first..=last, 360).collect::<Vec<_>>();
        assert_eq!(of(-1, 360), [(-1, (-1, -1)), (0, (0, 359)), (1, (360, 360))]);
        assert_eq!((of(5, 5), of(6, 5), of(360, 0)), (vec![(0, (5, 5))], vec![], vec![]));
        let found: Vec<_> = spans_of_days(&[0, 2], &(100..=4_000), (360, 1_440)).collect();
        assert_eq!(found[0], (0, (100, 359)));
        assert_eq!(found.last(), Some(&(11, (3_960, 4_000))));
        assert!(found.iter().all(|(_, (from, to))| from / 1_440 != 1 && to / 1_440 != 1));
    }
}
