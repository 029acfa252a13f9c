//! How far two distributions are from each other.
//!
//! Two figures. The logarithmic earth mover's distance is the area between the two distribution functions over ln x:
//! the mean factor by which samples would have to move, as a logarithm. When all move alike, by 5 %, it is ln 1.05. Its
//! signed form, the difference of the mean logarithms, gives the direction. The Kolmogorov-Smirnov distance is the
//! largest difference between the two functions. Each comes with its noise floor: the value that it is expected to have
//! when both histograms are of one distribution. Chance alone passes twice the floor about once in fifteen times,
//! thrice the floor hardly ever.
//!
//! Within a bin samples are taken as spread evenly over ln x (over x for Kolmogorov-Smirnov). With one scheme on both
//! sides the latter is compared at common edges only, so that it is never more than that of the samples, and less by at
//! most the largest share of a bin. Schemes may differ; what a bin hides then shows as distance.
//!
//! Zero, negative values, NaN: the logarithmic distance compares the samples above zero with each other, each side as a
//! whole of its own, and there is none when a side has none; the shares above zero are given beside it. The
//! Kolmogorov-Smirnov distance compares all samples but `nan`. A bin that reaches to zero, or has no end, counts as if
//! all its samples stood at its finite edge, or at the exact least or greatest sample where that is known: the distance
//! is then a lower bound. Float counts below zero count as zero.

use crate::{Bucket, Count, Histogram};

/// The distance between two histograms; see the module's text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// The logarithmic distance; `None` when a side has no samples above zero.
    pub log: Option<LogDistance>,
    /// Largest difference of the distribution functions, 0..=1.
    pub ks: f64,
    /// The expected `ks` when only the samples differ by chance.
    pub ks_noise: f64,
    /// Samples of both sides, without `nan`.
    pub samples: [f64; 2],
}

/// The distance of the samples above zero, over ln x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogDistance {
    /// Area between the distribution functions: the mean logarithm of how far samples moved.
    pub emd: f64,
    /// Mean ln of the second less that of the first: `emd` with a sign when all samples move in one direction, less
    /// otherwise.
    pub shift: f64,
    /// The expected `emd` when only the samples differ by chance.
    pub noise: f64,
    /// Shares of the samples that are above zero.
    pub above_zero: [f64; 2],
}

impl LogDistance {
    /// By how much the second is greater (slower, for durations), by the geometric mean: 0.05 is 5 % slower, -0.05 is
    /// 5 % faster.
    #[must_use]
    pub fn slower(&self) -> f64 {
        self.shift.exp_m1()
    }

    /// By how much samples differ, whatever the direction: 0.05 is 5 %.
    #[must_use]
    pub fn moved(&self) -> f64 {
        self.emd.exp_m1()
    }
}

impl<C: Count> Histogram<C> {
    /// The distance from this distribution to another, of any scheme. `None` when a side has no samples.
    #[must_use]
    pub fn distance<D: Count>(&self, other: &Histogram<D>) -> Option<Distance> {
        let (left, right) = (Cdf::new(self.spans())?, Cdf::new(other.spans())?);
        let samples = [left.total, right.total];
        let ks = left.differences(&right).map(|step| step.begin.abs().max(step.end.abs())).fold(0.0, f64::max);
        let log = Cdf::new(self.log_spans()).zip(Cdf::new(other.log_spans())).map(|(left, right)| LogDistance {
            above_zero: [left.total / samples[0], right.total / samples[1]],
            ..log_distance(&left, &right)
        });
        Some(Distance { log, ks, ks_noise: KOLMOGOROV_MEAN * spread(samples), samples })
    }

    /// Bins as intervals of the real axis.
    fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        self.filled().map(|bucket| {
            let (lo, hi) = (bucket.lo.max(-f64::MAX), bucket.hi.min(f64::MAX));
            match (bucket.lo.is_finite(), bucket.hi.is_finite()) {
                (true, true) => Span { lo, hi, count: bucket.count.to_f64() },
                (true, false) => Span { lo, hi: lo, count: bucket.count.to_f64() },
                _ => Span { lo: hi, hi, count: bucket.count.to_f64() },
            }
        })
    }

    /// Bins above zero as intervals of ln x.
    fn log_spans(&self) -> impl Iterator<Item = Span> + '_ {
        self.filled().filter(|bucket| bucket.hi > 0.0 && bucket.hi > self.zero_threshold).filter_map(|bucket| {
            let lo = if bucket.lo > 0.0 { bucket.lo } else { self.min.unwrap_or(bucket.hi).min(bucket.hi) };
            let hi = if bucket.hi.is_finite() { bucket.hi } else { self.max.unwrap_or(lo).max(lo) };
            // Minimum at or below zero: the bin's own samples may be anywhere up to its edge.
            let lo = if lo > 0.0 { lo } else { hi };
            (lo.is_finite() && hi.is_finite()).then(|| Span { lo: lo.ln(), hi: hi.ln(), count: bucket.count.to_f64() })
        })
    }

    fn filled(&self) -> impl Iterator<Item = Bucket<C>> + '_ {
        self.buckets().filter(|bucket| bucket.count > C::ZERO)
    }
}

/// Mean of the Kolmogorov distribution: sqrt(pi/2) * ln 2.
const KOLMOGOROV_MEAN: f64 = 0.868_731_160_636_159_1;

/// Mean distance from zero of a standard normal number: sqrt(2/pi).
const NORMAL_MEAN_DISTANCE: f64 = 0.797_884_560_802_865_4;

/// Standard deviation, in units of sqrt(F(1-F)), of the difference of two empirical distribution functions.
fn spread(samples: [f64; 2]) -> f64 {
    (1.0 / samples[0] + 1.0 / samples[1]).sqrt()
}

fn log_distance(left: &Cdf, right: &Cdf) -> LogDistance {
    let (mut emd, mut shift, mut noise) = (0.0, 0.0, 0.0);
    for step in left.differences(right) {
        emd += step.width * mean_distance(step.begin, step.end);
        shift += step.width * (step.begin + step.end) / 2.0;
        noise += step.width * step.deviation;
    }
    let scale = NORMAL_MEAN_DISTANCE * spread([left.total, right.total]);
    LogDistance { emd, shift, noise: noise * scale, above_zero: [0.0; 2] }
}

/// Mean of |y| along a straight line from `begin` to `end`.
fn mean_distance(begin: f64, end: f64) -> f64 {
    if begin * end >= 0.0 {
        (begin.abs() + end.abs()) / 2.0
    } else {
        (begin * begin + end * end) / (2.0 * (begin - end).abs())
    }
}

/// An interval, or a point, and the samples in it.
#[derive(Clone, Copy, Debug)]
struct Span {
    lo: f64,
    hi: f64,
    count: f64,
}

/// A distribution function: linear within each span, a jump at each point.
struct Cdf {
    /// Ascending, none overlapping another.
    spans: Vec<Span>,
    total: f64,
}

/// Two distribution functions between two neighbouring edges.
struct Step {
    width: f64,
    /// First function less second just behind the lower edge.
    begin: f64,
    /// The same just before the upper edge.
    end: f64,
    /// sqrt(F(1-F)) of both taken together, in the middle.
    deviation: f64,
}

impl Cdf {
    /// `None` when nothing is counted, or the counts have no finite sum.
    fn new(spans: impl Iterator<Item = Span>) -> Option<Self> {
        let mut spans: Vec<Span> = spans.collect();
        spans.sort_by(|left, right| left.lo.total_cmp(&right.lo).then(left.hi.total_cmp(&right.hi)));
        let total: f64 = spans.iter().map(|span| span.count).sum();
        (total > 0.0 && total.is_finite()).then_some(Self { spans, total })
    }

    fn differences<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = Step> + 'a {
        let spans = || self.spans.iter().chain(&other.spans);
        let mut edges: Vec<f64> = spans().flat_map(|span| [span.lo, span.hi]).collect();
        edges.sort_by(f64::total_cmp);
        edges.dedup();
        // A last edge closes the interval behind the last jump.
        edges.extend(edges.last().copied());
        let (mut left, mut right) = (Walk::new(self), Walk::new(other));
        let mut steps = Vec::with_capacity(edges.len());
        for pair in edges.windows(2) {
            let (begin, end) =
                ([left.behind(pair[0]), right.behind(pair[0])], [left.before(pair[1]), right.before(pair[1])]);
            let middle = (begin[0] + end[0]) / 2.0 * self.total + (begin[1] + end[1]) / 2.0 * other.total;
            let middle = (middle / (self.total + other.total)).clamp(0.0, 1.0);
            steps.push(Step {
                width: pair[1] - pair[0],
                begin: begin[0] - begin[1],
                end: end[0] - end[1],
                deviation: (middle * (1.0 - middle)).sqrt(),
            });
        }
        steps.into_iter()
    }
}

/// Reads a distribution function at ascending places.
struct Walk<'a> {
    cdf: &'a Cdf,
    at: usize,
    below: f64,
}

impl<'a> Walk<'a> {
    fn new(cdf: &'a Cdf) -> Self {
        Self { cdf, at: 0, below: 0.0 }
    }

    /// The function just behind `x`: a jump at `x` is passed.
    fn behind(&mut self, x: f64) -> f64 {
        self.advance(|span| span.hi <= x);
        self.value(x)
    }

    /// The function just before `x`: a jump at `x` is not passed.
    fn before(&mut self, x: f64) -> f64 {
        self.advance(|span| span.hi <= x && (span.lo < x || span.hi < x));
        self.value(x)
    }

    fn advance(&mut self, passed: impl Fn(&Span) -> bool) {
        while let Some(span) = self.cdf.spans.get(self.at).filter(|span| passed(span)) {
            self.below += span.count;
            self.at += 1;
        }
    }

    fn value(&self, x: f64) -> f64 {
        let part = match self.cdf.spans.get(self.at) {
            Some(span) if span.lo < x && x < span.hi => span.count * ((x - span.lo) / (span.hi - span.lo)),
            _ => 0.0,
        };
        (self.below + part) / self.cdf.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scheme;

    fn histogram_of(values: &[f64]) -> Histogram {
        let mut histogram = Histogram::log_linear();
        values.iter().for_each(|value| histogram.record_n(*value, 1000));
        histogram
    }

    #[test]
    fn a_histogram_is_at_no_distance_from_itself() {
        let histogram = histogram_of(&[-2.0, 0.0, 1.0, 3.3, 700.0]);
        let found = histogram.distance(&histogram).unwrap();
        let log = found.log.unwrap();
        assert_eq!((log.emd, log.shift, found.ks), (0.0, 0.0, 0.0));
        assert_eq!((log.above_zero, found.samples), ([0.6, 0.6], [5000.0, 5000.0]));
        assert!(log.noise > 0.0 && found.ks_noise > 0.0);
    }

    #[test]
    fn all_that_moves_moves_the_distance() {
        // Ten times slower: every bin goes to the like one a decade above.
        let (left, right) = (histogram_of(&[1.2, 3.4, 5.6]), histogram_of(&[12.0, 34.0, 56.0]));
        let log = left.distance(&right).unwrap().log.unwrap();
        assert!((log.emd - 10_f64.ln()).abs() < 1e-12 && (log.slower() - 9.0).abs() < 1e-9, "{log:?}");
        let back = right.distance(&left).unwrap().log.unwrap();
        assert!((back.emd - 10_f64.ln()).abs() < 1e-12 && (back.slower() + 0.9).abs() < 1e-9, "{back:?}");
        // One up, one down: no shift, but a distance.
        let log = histogram_of(&[1.2, 34.0]).distance(&histogram_of(&[12.0, 3.4])).unwrap().log.unwrap();
        assert!(log.shift.abs() < 1e-12 && log.emd > 1.0, "{log:?}");
    }

    #[test]
    fn what_is_not_above_zero_shows_in_the_other_distance_alone() {
        let found = histogram_of(&[1.0, 1.0, 0.0, -5.0]).distance(&histogram_of(&[1.0])).unwrap();
        let log = found.log.unwrap();
        assert_eq!((log.emd, log.above_zero, found.ks), (0.0, [0.5, 1.0], 0.5));
        let found = histogram_of(&[0.0]).distance(&histogram_of(&[-1.0, f64::NAN])).unwrap();
        assert_eq!((found.log, found.ks, found.samples), (None, 1.0, [1000.0, 1000.0]));
        assert_eq!(histogram_of(&[f64::NAN]).distance(&histogram_of(&[1.0])), None);
        assert_eq!(histogram_of(&[]).distance(&histogram_of(&[1.0])), None);
    }

    #[test]
    fn bins_without_an_end_stand_at_the_end_they_have() {
        let custom = |bins: &[(i32, u64)]| {
            let mut histogram = Histogram::<u64>::new(Scheme::custom(vec![1.0, 10.0]).unwrap());
            bins.iter().for_each(|(index, count)| histogram.positive.add(*index, *count));
            histogram
        };
        // (-Inf, 1] against (10, Inf): at least a factor of ten.
        let found = custom(&[(0, 100)]).distance(&custom(&[(2, 100)])).unwrap();
        let log = found.log.unwrap();
        assert!((log.emd - 10_f64.ln()).abs() < 1e-12, "{log:?}");
        assert_eq!(found.ks, 1.0);
        // The greatest sample is known: (10, 1000].
        let mut far = custom(&[(2, 100)]);
        far.max = Some(1000.0);
        let log = custom(&[(0, 100)]).distance(&far).unwrap().log.unwrap();
        assert!((log.emd - 100_f64.ln()).abs() < 1e-12, "{log:?}");
    }

    #[test]
    fn the_mean_distance_along_a_line_is_that_of_small_steps() {
        for (begin, end) in [(1.0, 2.0), (-1.0, 3.0), (0.0, 0.5), (-2.0, -1.0), (2.0, -2.0), (0.0, 0.0)] {
            let steps = (0..10_000).map(|step| (begin + (end - begin) * (f64::from(step) + 0.5) / 1e4_f64).abs());
            assert!((mean_distance(begin, end) - steps.sum::<f64>() / 1e4).abs() < 1e-6, "{begin} {end}");
        }
    }
}
