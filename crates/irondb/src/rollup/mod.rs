//! What IRONdb says of the numbers of a period.
//!
//! Format: the mean and the population standard deviation of the values; of the changes a second between two
//! neighbours, whose period is that of the later one (`derivative`); of those changes that are not negative
//! (`counter`); and the same of the changes of the changes (`derivative2`, `counter2`). What a sender rolled up itself
//! is taken as it says, weighted by its count.

/// One number, or several that a sender rolled up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// When, milliseconds since 1970.
    pub time_ms: i64,
    /// The number, or the mean.
    pub value: f64,
    /// The number of measurements.
    pub count: f64,
    /// Standard deviation inside it.
    pub stddev: f64,
    /// The changes, if the sender states them: `derivative`, its deviation, `counter`, its deviation.
    pub changes: Option<[f64; 4]>,
}

impl Point {
    /// One number.
    #[must_use]
    pub const fn new(time_ms: i64, value: f64) -> Self {
        Self { time_ms, value, count: 1.0, stddev: 0.0, changes: None }
    }
}

/// The numbers of a period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rollup {
    /// The number of measurements.
    pub count: f64,
    /// Mean and deviation.
    pub value: Spread,
    /// Of the changes a second.
    pub derivative: Spread,
    /// Of the non-negative ones.
    pub counter: Spread,
    /// Of the changes of the changes.
    pub derivative2: Spread,
    /// Of the non-negative ones.
    pub counter2: Spread,
}

/// Mean and population standard deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The mean; 0 for no values.
    pub mean: f64,
    /// The deviation.
    pub stddev: f64,
}

/// The fields of a rollup, by their name as `type` and in an object with all of them.
pub const FIELDS: [(&str, &str); 11] = [
    ("count", "count"),
    ("average", "value"),
    ("average_stddev", "stddev"),
    ("derive", "derivative"),
    ("derive_stddev", "derivative_stddev"),
    ("counter", "counter"),
    ("counter_stddev", "counter_stddev"),
    ("derive2", "derivative2"),
    ("derive2_stddev", "derivative2_stddev"),
    ("counter2", "counter2"),
    ("counter2_stddev", "counter2_stddev"),
];

impl Rollup {
    /// The field of either name of [`FIELDS`].
    #[must_use]
    pub fn field(&self, name: &str) -> Option<f64> {
        Some(match name {
            "count" => self.count,
            "average" | "value" => self.value.mean,
            "average_stddev" | "stddev" => self.value.stddev,
            "derive" | "derivative" => self.derivative.mean,
            "derive_stddev" | "derivative_stddev" => self.derivative.stddev,
            "counter" => self.counter.mean,
            "counter_stddev" => self.counter.stddev,
            "derive2" | "derivative2" => self.derivative2.mean,
            "derive2_stddev" | "derivative2_stddev" => self.derivative2.stddev,
            "counter2" => self.counter2.mean,
            "counter2_stddev" => self.counter2.stddev,
            _ => return None,
        })
    }
}

/// Weighted values whose spread is wanted.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    weight: f64,
    sum: f64,
    squares: f64,
}

impl Sum {
    fn add(&mut self, weight: f64, mean: f64, stddev: f64) {
        self.weight += weight;
        self.sum += weight * mean;
        self.squares += weight * (stddev * stddev + mean * mean);
    }

    fn spread(self) -> Spread {
        if self.weight == 0.0 {
            return Spread::default();
        }
        let mean = self.sum / self.weight;
        Spread { mean, stddev: (self.squares / self.weight - mean * mean).max(0.0).sqrt() }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Period {
    value: Sum,
    derivative: Sum,
    counter: Sum,
    derivative2: Sum,
    counter2: Sum,
}

impl Period {
    fn rollup(self) -> Option<Rollup> {
        (self.value.weight > 0.0).then(|| Rollup {
            count: self.value.weight,
            value: self.value.spread(),
            derivative: self.derivative.spread(),
            counter: self.counter.spread(),
            derivative2: self.derivative2.spread(),
            counter2: self.counter2.spread(),
        })
    }
}

/// The rollups of `count` periods from `start_ms` on. `points` ascend; those before the start are the basis for the
/// first changes.
#[must_use]
pub fn rollups(points: &[Point], start_ms: i64, period_ms: i64, count: usize) -> Vec<Option<Rollup>> {
    let mut periods = vec![Period::default(); count];
    let mut before: Option<&Point> = None;
    let mut change_before: Option<(i64, f64)> = None;
    for point in points {
        let at = point.time_ms.checked_sub(start_ms).map(|since| since.div_euclid(period_ms));
        let mut nowhere = Period::default();
        let period =
            at.and_then(|at| usize::try_from(at).ok()).and_then(|at| periods.get_mut(at)).unwrap_or(&mut nowhere);
        period.value.add(point.count, point.value, point.stddev);
        let seconds = before.map(|before| (point.time_ms - before.time_ms) as f64 / 1_000.0);
        let change = before.zip(seconds).filter(|(_, seconds)| *seconds > 0.0);
        let change = change.map(|(before, seconds)| (point.value - before.value) / seconds);
        match (point.changes, change) {
            (Some([derivative, derivative_stddev, counter, counter_stddev]), _) => {
                period.derivative.add(point.count, derivative, derivative_stddev);
                period.counter.add(point.count, counter, counter_stddev);
            }
            (None, Some(change)) => {
                period.derivative.add(1.0, change, 0.0);
                if change >= 0.0 {
                    period.counter.add(1.0, change, 0.0);
                }
            }
            (None, None) => {}
        }
        if let Some(change) = change {
            if let Some((time_ms, earlier)) = change_before {
                let second = (change - earlier) / ((point.time_ms - time_ms) as f64 / 1_000.0);
                period.derivative2.add(1.0, second, 0.0);
                if second >= 0.0 {
                    period.counter2.add(1.0, second, 0.0);
                }
            }
            change_before = Some((point.time_ms, change));
        }
        before = Some(point);
    }
    periods.into_iter().map(Period::rollup).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_hold_their_values_and_the_changes_that_end_in_them() {
        let at = |second: i64, value: f64| Point::new(second * 1_000, value);
        let points = [at(-10, 0.0), at(0, 10.0), at(10, 30.0), at(60, 20.0), at(130, 20.0)];
        let all = rollups(&points, 0, 60_000, 4);
        let first = all[0].unwrap();
        assert_eq!((first.count, first.value), (2.0, Spread { mean: 20.0, stddev: 10.0 }));
        assert_eq!(first.derivative, Spread { mean: 1.5, stddev: 0.5 });
        assert_eq!((first.counter, first.derivative2.mean), (first.derivative, 0.1));
        let second = all[1].unwrap();
        assert_eq!((second.derivative.mean, second.counter), (-0.2, Spread::default()));
        assert_eq!(all[2].unwrap().field("derive"), Some(0.0));
        assert_eq!(all[3], None);
    }

    #[test]
    fn what_was_rolled_up_counts_as_it_says() {
        let rolled = |second: i64, value, count, stddev| Point {
            time_ms: second * 1_000,
            value,
            count,
            stddev,
            changes: Some([2.0, 0.0, 3.0, 0.0]),
        };
        let all = rollups(&[rolled(0, 10.0, 3.0, 0.0), rolled(30, 20.0, 1.0, 0.0)], 0, 60_000, 1);
        let one = all[0].unwrap();
        assert_eq!((one.count, one.value.mean, one.derivative.mean, one.counter.mean), (4.0, 12.5, 2.0, 3.0));
        let alone = rollups(&[rolled(0, 10.0, 5.0, 1.5)], 0, 60_000, 1)[0].unwrap();
        assert_eq!(alone.value, Spread { mean: 10.0, stddev: 1.5 });
        assert!(FIELDS.iter().all(|(name, field)| alone.field(name) == alone.field(field)));
    }
}
