//! Positions in ascending times that only move forward, as the instants of a query do.
//!
//! Samples of one series are usually evenly spaced, so the position usually advances by as much as the last time. That
//! is tried first, and two comparisons find the position however many samples a step has.

/// How many times are at or before a limit that never decreases.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeCursor {
    at: usize,
    /// How far the previous call advanced.
    stride: usize,
}

impl TimeCursor {
    /// The number of `times` at or before `limit`. Since the previous call, `limit` has not decreased, and `times`
    /// still begins with the times up to the last place.
    pub(crate) fn to(&mut self, times: &[i64], limit: i64) -> usize {
        let from = self.at;
        let guess = from + self.stride;
        if guess > from && times.get(guess - 1).is_some_and(|time| *time <= limit) {
            self.at = guess;
        }
        while times.get(self.at).is_some_and(|time| *time <= limit) {
            self.at += 1;
        }
        self.stride = self.at - from;
        self.at
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_place_is_how_many_times_are_at_or_before_it(
            mut times in proptest::collection::vec(0..200_i64, 0..80), mut limits in proptest::collection::vec(-5..230_i64, 0..40),
        ) {
            times.sort_unstable();
            limits.sort_unstable();
            let mut place = TimeCursor::default();
            for limit in limits {
                prop_assert_eq!(place.to(&times, limit), times.iter().filter(|time| **time <= limit).count());
            }
        }

        #[test]
        fn so_it_is_where_times_are_even(step in 1..9_i64, stride in 1..40_i64) {
            let times: Vec<i64> = (0..300).map(|at| at * step).collect();
            let mut place = TimeCursor::default();
            for limit in (0..400).map(|at| at * stride) {
                prop_assert_eq!(place.to(&times, limit), times.partition_point(|time| *time <= limit));
            }
        }
    }
}
