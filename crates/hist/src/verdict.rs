//! What a distance between two distributions says: whether they differ, in words, and by how much each quantile
//! changed.
//!
//! The test is the logarithmic distance beside its noise floor (see `distance`): chance alone passes twice the floor
//! about once in fifteen times, three times the floor hardly ever. Where a side has nothing above zero, the
//! Kolmogorov-Smirnov distance stands in.
//!
//! Interval of a change: the true quantile of each side lies between two of its samples in 95 of 100 cases (order
//! statistics, H. A. David and H. N. Nagaraja, "Order Statistics", 2003, 7.1), and both intervals together bound the
//! ratio by the method of variance estimates recovery (G. Y. Zou and A. Donner, Statistics in Medicine 27, 2008) over
//! ln x. Within a bin samples are taken as spread evenly; two quantiles of the same bin are therefore never reported as
//! different.

use crate::{Count, Distance, Histogram, LogDistance, Quantile};

/// The default multiple of its noise floor from which a distance shows a difference.
pub const FLOORS: f64 = 2.0;

/// The 0.975 quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// Above this variance the normal approximation of the binomial distribution is off by at most one rank.
const VARIANCE_EXACT: f64 = 50.0;

/// A change below a thousandth is reported as none.
const CHANGE_LEAST: f64 = 0.0005;

/// Whether two distributions differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The distance is within its noise floor.
    Alike,
    /// It is above its floor, and not by as much as was wanted.
    Undecided,
    /// Samples moved one way.
    Moved,
    /// Samples moved both ways.
    Reshaped,
}

impl Verdict {
    /// One word for the verdict.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Alike => "alike",
            Self::Undecided => "undecided",
            Self::Moved => "moved",
            Self::Reshaped => "reshaped",
        }
    }

    /// More than chance.
    #[must_use]
    pub const fn differs(self) -> bool {
        matches!(self, Self::Moved | Self::Reshaped)
    }
}

impl LogDistance {
    /// How many times its noise floor the distance is; 0 without a floor.
    #[must_use]
    pub fn floors(&self) -> f64 {
        if self.noise > 0.0 { self.emd / self.noise } else { 0.0 }
    }
}

impl Distance {
    /// Whether the distance is beyond chance: more than `limit` times its noise floor.
    #[must_use]
    pub fn verdict(&self, limit: f64) -> Verdict {
        let (found, floor) = match &self.log {
            Some(log) => (log.emd, log.noise),
            None => (self.ks, self.ks_noise),
        };
        let is_one_way = self.log.is_some_and(|log| log.shift.abs() >= log.emd / 2.0);
        match () {
            () if found > limit * floor && is_one_way => Verdict::Moved,
            () if found > limit * floor => Verdict::Reshaped,
            () if found > floor => Verdict::Undecided,
            () => Verdict::Alike,
        }
    }

    /// The verdict as a sentence without its end; `durations` are slower or faster, other values greater or less.
    #[must_use]
    pub fn sentence(&self, limit: f64, durations: bool) -> String {
        let verdict = self.verdict(limit);
        let Some(log) = &self.log else {
            return match verdict {
                Verdict::Alike => "no difference is shown: the distance is within its noise floor".into(),
                Verdict::Undecided => undecided(limit),
                Verdict::Moved | Verdict::Reshaped => "the distributions differ".into(),
            };
        };
        let way = comparative(log.shift, durations);
        let size = log.slower().abs() * 100.0;
        let said = match verdict {
            Verdict::Alike => "no difference is shown: the distance is within its noise floor".into(),
            Verdict::Undecided => undecided(limit),
            Verdict::Moved => format!("after is {size:.1} % {way} than before"),
            Verdict::Reshaped => {
                let moved = log.moved() * 100.0;
                format!("the shape differs: numbers moved by {moved:.1} % both ways, {size:.1} % {way} on the whole")
            }
        };
        let is_near = verdict.differs() && log.floors() < 3.0;
        let chance = if is_near { "; chance alone gives twice the floor about once in fifteen times" } else { "" };
        said + chance
    }
}

fn undecided(limit: f64) -> String {
    format!(
        "undecided: the distance is above its noise floor and not above {limit} times that, as chance alone often is; \
         more numbers decide it"
    )
}

/// The word for a change in this direction.
const fn comparative(change: f64, durations: bool) -> &'static str {
    match (change < 0.0, durations) {
        (true, true) => "faster",
        (false, true) => "slower",
        (true, false) => "less",
        (false, false) => "greater",
    }
}

/// How a quantile of one distribution differs from that of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantileChange {
    /// Which quantile.
    pub q: f64,
    /// The first side's.
    pub before: Quantile,
    /// The second side's.
    pub after: Quantile,
    /// The second divided by the first, minus one; `None` unless both are above zero.
    pub change: Option<f64>,
    /// Bounds of the change in 95 of 100 cases; `None` where there are too few samples to bound both sides.
    pub bounds: Option<(f64, f64)>,
}

impl QuantileChange {
    /// Whether the change exceeds both chance and the resolution of a bin; `None` when that cannot be decided.
    #[must_use]
    pub fn differs(&self) -> Option<bool> {
        let (low, high) = self.bounds?;
        let is_one_bin = self.before.lo.max(self.after.lo) < self.before.hi.min(self.after.hi);
        Some((low > 0.0 || high < 0.0) && !is_one_bin)
    }

    /// `p50 4 % slower (3 to 5 %)`, `p99 the same`, `p99.9 has too few samples`.
    #[must_use]
    pub fn words(&self, durations: bool) -> String {
        let name = format!("p{}", (self.q * 1e6).round() / 1e4);
        let (Some(differs), Some(change), Some((low, high))) = (self.differs(), self.change, self.bounds) else {
            return format!("{name} has too few samples");
        };
        if !differs || change.abs() < CHANGE_LEAST {
            return format!("{name} the same");
        }
        let (near, far) = if change < 0.0 { (-high, -low) } else { (low, high) };
        let way = comparative(change, durations);
        // With as many digits as distinguish the bounds.
        let digits = usize::from(far < 0.0995 || far - near < 0.02);
        let [change, near, far] = [change.abs(), near, far].map(|share| format!("{:.digits$}", share * 100.0));
        format!("{name} {change} % {way} ({near} to {far} %)")
    }
}

impl<C: Count> Histogram<C> {
    /// How each of `qs` changed from this distribution to `other`; those that one side does not have are left out.
    #[must_use]
    pub fn changes<D: Count>(&self, other: &Histogram<D>, qs: &[f64]) -> Vec<QuantileChange> {
        qs.iter().filter_map(|q| change(self, other, *q)).collect()
    }

    /// Logarithms of the bounds of the true `q` quantile in 95 of 100 cases; `None` where the samples do not bound it.
    fn log_interval(&self, q: f64) -> Option<(f64, f64)> {
        let total = self.total_as_float().round();
        let (low, high) = ranks(total, q);
        let value =
            |rank: f64| self.quantile((rank - 0.5) / total).map(|found| found.value).filter(|value| *value > 0.0);
        if low < 1.0 || high > total {
            return None;
        }
        Some((value(low)?.ln(), value(high)?.ln()))
    }
}

fn change<C: Count, D: Count>(left: &Histogram<C>, right: &Histogram<D>, q: f64) -> Option<QuantileChange> {
    let (before, after) = (left.quantile(q)?, right.quantile(q)?);
    if before.value <= 0.0 || after.value <= 0.0 {
        return Some(QuantileChange { q, before, after, change: None, bounds: None });
    }
    let (from, to) = (before.value.ln(), after.value.ln());
    let bounds = left.log_interval(q).zip(right.log_interval(q)).map(|((a, b), (c, d))| {
        let below = (to - c).max(0.0).hypot((b - from).max(0.0));
        let above = (d - to).max(0.0).hypot((from - a).max(0.0));
        ((to - from - below).exp_m1(), (to - from + above).exp_m1())
    });
    Some(QuantileChange { q, before, after, change: Some((to - from).exp_m1()), bounds })
}

/// Ranks between whose samples the true `q` quantile of `n` samples lies in 95 of 100 cases: 0 when no sample is low
/// enough, n + 1 when none is high enough.
fn ranks(n: f64, q: f64) -> (f64, f64) {
    let variance = n * q * (1.0 - q);
    if variance > VARIANCE_EXACT {
        let half = Z * variance.sqrt();
        return ((n * q - half).floor().max(0.0), (n * q + half + 1.0).ceil().min(n + 1.0));
    }
    if q > 0.5 {
        let (low, high) = ranks(n, 1.0 - q);
        return (n + 1.0 - high, n + 1.0 - low);
    }
    (binomial_at(n, q, 0.025), binomial_at(n, q, 0.975) + 1.0)
}

/// Least k with P(X <= k) >= `share`, X binomial (`n`, `p`), `p` at most one half and the variance at most
/// [`VARIANCE_EXACT`].
fn binomial_at(n: f64, p: f64, share: f64) -> f64 {
    // (1 - p)^n, also where 1 - p would be rounded to 1.
    let mut probability = (n * (-p).ln_1p()).exp();
    let (mut sum, mut k) = (probability, 0.0);
    while sum < share && k < n {
        probability *= ((n - k) / (k + 1.0)) * (p / (1.0 - p));
        sum += probability;
        k += 1.0;
    }
    k
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scheme;

    fn histogram_of(values: impl IntoIterator<Item = f64>) -> Histogram<u64> {
        let mut out = Histogram::new(Scheme::LogLinear10);
        for value in values {
            out.record(value);
        }
        out
    }

    /// Exponential values of mean 1, spread evenly over the distribution.
    fn exponential(n: u32, factor: f64) -> Histogram<u64> {
        histogram_of((0..n).map(|i| -factor * (1.0 - (f64::from(i) + 0.5) / f64::from(n)).ln()))
    }

    #[test]
    fn ranks_are_those_of_order_statistics() {
        // Tables of confidence intervals for the median: of 10 samples the 2nd and the 9th, of 100 the 40th and the
        // 61st.
        assert_eq!(ranks(10.0, 0.5), (2.0, 9.0));
        assert_eq!(ranks(100.0, 0.5), (40.0, 61.0));
        // Too few for p99 on either side of the greatest.
        assert_eq!(ranks(12.0, 0.99).1, 13.0);
        let (low, high) = ranks(1e6, 0.99);
        assert!((low - 989_804.0).abs() < 3.0 && (high - 990_197.0).abs() < 3.0, "{low} {high}");
    }

    #[test]
    fn what_changed_is_said_with_its_bounds() {
        let (before, slower) = (exponential(100_000, 0.001), exponential(100_000, 0.0013));
        let changes = before.changes(&slower, &[0.5, 0.99]);
        for change in &changes {
            let (low, high) = change.bounds.unwrap();
            assert!(low < 0.3 && 0.3 < high && high - low < 0.2, "{change:?}");
            assert_eq!(change.differs(), Some(true));
        }
        assert!(
            changes[0].words(true).starts_with("p50 3") && changes[0].words(true).contains("slower ("),
            "{}",
            changes[0].words(true)
        );
        assert!(changes[1].words(false).contains("greater"), "{}", changes[1].words(false));
        let back = slower.changes(&before, &[0.5]);
        assert!(back[0].words(true).contains("faster"), "{}", back[0].words(true));
        let same = before.changes(&before, &[0.5, 0.99]);
        assert_eq!(same[0].words(true), "p50 the same");
        let few = exponential(12, 1.0);
        assert_eq!(few.changes(&few, &[0.999])[0].words(true), "p99.9 has too few samples");
        // Nothing above zero has no ratio.
        let none = histogram_of([-1.0, -2.0]);
        assert_eq!(none.changes(&none, &[0.5])[0].change, None);
        assert!(Histogram::<u64>::new(Scheme::LogLinear10).changes(&before, &[0.5]).is_empty());
    }

    #[test]
    fn the_verdict_is_the_distance_beside_its_floor() {
        let (before, slower) = (exponential(100_000, 0.001), exponential(100_000, 0.0013));
        let distance = before.distance(&slower).unwrap();
        assert_eq!(distance.verdict(FLOORS), Verdict::Moved);
        assert!(distance.sentence(FLOORS, true).starts_with("after is 30."), "{}", distance.sentence(FLOORS, true));
        let same = before.distance(&before).unwrap();
        assert_eq!((same.verdict(FLOORS), same.verdict(0.0)), (Verdict::Alike, Verdict::Alike));
        let two = histogram_of((0..1000).map(|i| if i % 2 == 0 { 0.1 } else { 10.0 }));
        let one = histogram_of((0..1000).map(|_| 1.0));
        assert_eq!(one.distance(&two).unwrap().verdict(FLOORS), Verdict::Reshaped);
        let below = histogram_of([-1.0, -2.0]);
        assert_eq!(below.distance(&below).unwrap().sentence(FLOORS, true), same.sentence(FLOORS, true));
    }
}
