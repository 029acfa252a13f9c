//! Partitions by time: which buckets some minutes or hours are in, and what of each bucket.

use std::ops::RangeInclusive;

/// Minutes or hours of one bucket, of the same unit as the bucket's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketSpan {
    pub(crate) bucket: i32,
    pub(crate) first: i32,
    /// Included.
    pub(crate) last: i32,
}

/// The parts of a range by buckets of `length`. None for an empty range.
pub(crate) fn spans(range: RangeInclusive<i32>, length: i32) -> impl Iterator<Item = BucketSpan> {
    let (first, last) = range.into_inner();
    let buckets = (first <= last).then(|| first.div_euclid(length)..=last.div_euclid(length));
    buckets.into_iter().flatten().map(move |bucket| BucketSpan {
        bucket,
        first: first.max(bucket * length),
        last: last.min(bucket * length + length - 1),
    })
}

/// Those parts of a range that are on one of `days`, each `of_day` long.
pub(crate) fn spans_of_days(
    days: &[i32],
    range: &RangeInclusive<i32>,
    length: i32,
    of_day: i32,
) -> impl Iterator<Item = BucketSpan> {
    let (first, last) = (*range.start(), *range.end());
    days.iter().flat_map(move |day| spans((day * of_day).max(first)..=(day * of_day + of_day - 1).min(last), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_clipped_at_both_ends() {
        let span = |bucket, first, last| BucketSpan { bucket, first, last };
        let of = |first, last| spans(first..=last, 360).collect::<Vec<_>>();
        assert_eq!(of(-1, 360), [span(-1, -1, -1), span(0, 0, 359), span(1, 360, 360)]);
        assert_eq!((of(5, 5), of(6, 5), of(360, 0)), (vec![span(0, 5, 5)], vec![], vec![]));
        let found: Vec<_> = spans_of_days(&[0, 2], &(100..=4_000), 360, 1_440).collect();
        assert_eq!(found[0], span(0, 100, 359));
        assert_eq!(found.last(), Some(&span(11, 3_960, 4_000)));
        assert!(found.iter().all(|span| span.first / 1_440 != 1 && span.last / 1_440 != 1));
    }
}
