//! Floats of a series as they are stored, for queries that need few of them: only those are converted.
//!
//! Invariants: times strictly ascend; there are as many values as times, and at least one.

use crate::{SeriesData, Temporality};

/// Consecutive floats of one series.
#[derive(Clone, Copy, Debug)]
pub struct FloatRun<'a> {
    /// Milliseconds.
    pub times: RunTimes<'a>,
    /// One a time.
    pub values: RunValues<'a>,
}

/// The times of a run.
#[derive(Clone, Copy, Debug)]
pub enum RunTimes<'a> {
    /// Evenly spaced ones.
    Regular {
        /// The first.
        first: i64,
        /// Between two; above zero.
        step: i64,
        /// How many.
        count: usize,
    },
    /// Each of them.
    Each(&'a [i64]),
}

/// The values of a run.
#[derive(Clone, Copy, Debug)]
pub enum RunValues<'a> {
    /// Each of them.
    Floats(&'a [f64]),
    /// Integers over a power of ten: none is a staleness marker, and they order as the floats do.
    Decimals {
        /// One a value.
        integers: &'a [i64],
        /// By which each is divided.
        power: f64,
    },
}

/// What a series whose floats were handed out as runs is.
#[derive(Clone, Debug)]
pub struct FloatHead {
    /// The series without its samples.
    pub series: SeriesData,
    /// How many samples the runs had.
    pub samples: usize,
}

impl<'a> FloatRun<'a> {
    /// The samples of a column that has no starts and no aggregates; None when it has, when the series has
    /// other samples too or none, or when its times do not ascend.
    #[must_use]
    pub fn from_series(series: &'a SeriesData) -> Option<Self> {
        let column = &series.floats;
        let is_alone = series.histograms.times.is_empty() && series.texts.times.is_empty();
        let is_plain = is_alone && column.starts.is_empty() && column.aggregates.is_empty() && series.rollup_ms == 0;
        let fits = is_plain && series.meta.temporality != Temporality::Delta && !column.times.is_empty();
        let ascends = fits && column.times.is_sorted_by(|one, next| one < next);
        ascends.then_some(Self { times: RunTimes::Each(&column.times), values: RunValues::Floats(&column.values) })
    }
}

impl RunTimes<'_> {
    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        match self {
            Self::Regular { count, .. } => *count,
            Self::Each(times) => times.len(),
        }
    }

    /// Time number `index`.
    ///
    /// # Panics
    /// When there are not so many.
    #[must_use]
    #[inline]
    pub fn at(&self, index: usize) -> i64 {
        match self {
            Self::Regular { first, step, count } => {
                assert!(index < *count, "time {index} of {count}");
                first.wrapping_add(step.wrapping_mul(index as i64))
            }
            Self::Each(times) => times[index],
        }
    }

    /// How many are at or before `time`.
    #[must_use]
    pub fn count_until(&self, time: i64) -> usize {
        match self {
            Self::Regular { first, .. } if time < *first => 0,
            Self::Regular { first, step, count } => {
                // The difference of two times may not fit a signed integer.
                let steps = time.wrapping_sub(*first).cast_unsigned() / step.cast_unsigned();
                usize::try_from(steps).map_or(*count, |steps| steps.saturating_add(1).min(*count))
            }
            Self::Each(times) => times.partition_point(|one| *one <= time),
        }
    }

    /// The first.
    #[must_use]
    pub fn first(&self) -> i64 {
        self.at(0)
    }

    /// The last.
    #[must_use]
    pub fn last(&self) -> i64 {
        self.at(self.count() - 1)
    }
}

impl RunValues<'_> {
    /// Value number `index`.
    ///
    /// # Panics
    /// When there are not so many.
    #[must_use]
    #[inline]
    pub fn at(&self, index: usize) -> f64 {
        match self {
            Self::Floats(values) => values[index],
            Self::Decimals { integers, power } => integers[index] as f64 / power,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_times_are_those_of_their_step() {
        let times = RunTimes::Regular { first: -5, step: 10, count: 4 };
        let all: Vec<i64> = (0..times.count()).map(|index| times.at(index)).collect();
        assert_eq!(all, [-5, 5, 15, 25]);
        assert_eq!((times.first(), times.last()), (-5, 25));
        let each = RunTimes::Each(&all);
        for time in [i64::MIN, -6, -5, -4, 4, 5, 24, 25, 26, i64::MAX] {
            assert_eq!(times.count_until(time), each.count_until(time), "{time}");
        }
        assert_eq!((each.count(), each.first(), each.last()), (4, -5, 25));
    }

    #[test]
    fn decimals_are_divided_when_they_are_asked_for() {
        let values = RunValues::Decimals { integers: &[1, -25], power: 10.0 };
        assert_eq!([values.at(0), values.at(1)], [0.1, -2.5]);
        assert_eq!(RunValues::Floats(&[3.5]).at(0), 3.5);
    }
}
