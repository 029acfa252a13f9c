//! The rules for the samples of one label set of a metric.

use std::collections::HashSet;

use ogive_model::{MetricKind, Temporality};

use super::super::line::LineResult;
use super::super::number::{milliseconds, number};
use super::super::point::Point;

/// What a sample is to its metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// A gauge or something unknown: any value.
    Free,
    State,
    Info,
    Total,
    Quantile,
    Bucket,
    GaugeBucket,
    Count,
    Sum,
    GaugeCount,
    GaugeSum,
    Created,
    /// A distribution in one value.
    Whole,
}

impl Part {
    pub(super) fn from_suffix(kind: MetricKind, suffix: &str, is_composite: bool) -> LineResult<Self> {
        use MetricKind as Type;
        let is_distribution = matches!(kind, Type::Histogram | Type::GaugeHistogram | Type::Summary);
        if is_composite {
            let fits = is_distribution && suffix.is_empty();
            return if fits { Ok(Self::Whole) } else { Err("a value in braces is not for a metric of this type") };
        }
        Ok(match (kind, suffix) {
            (Type::Gauge | Type::Unknown, _) => Self::Free,
            (Type::StateSet, _) => Self::State,
            (Type::Info, _) => Self::Info,
            (_, "_created") => Self::Created,
            (Type::Counter, _) => Self::Total,
            (Type::Summary, "") => Self::Quantile,
            (Type::Histogram, "_bucket") => Self::Bucket,
            (Type::GaugeHistogram, "_bucket") => Self::GaugeBucket,
            (Type::GaugeHistogram, "_gcount") => Self::GaugeCount,
            (Type::GaugeHistogram, "_gsum") => Self::GaugeSum,
            (_, "_count") => Self::Count,
            (_, "_sum") => Self::Sum,
            _ => return Err("a sample of a histogram has neither _bucket, _count, _sum nor a value in braces"),
        })
    }

    pub(super) fn check(
        self,
        value: f64,
        le: Option<&str>,
        quantile: Option<&str>,
        exemplars: usize,
        version: u8,
    ) -> LineResult<()> {
        let is_count = matches!(self, Self::Total | Self::Count | Self::Sum | Self::Bucket);
        if is_count && (value.is_nan() || value < 0.0) {
            return Err("a counter, a count, a sum or a bucket is negative or NaN");
        }
        match self {
            Self::State if value != 0.0 && value != 1.0 => return Err("a state is neither 0 nor 1"),
            Self::Info if value != 1.0 => return Err("an info is not 1"),
            Self::Bucket | Self::GaugeBucket if le.and_then(number).is_none_or(f64::is_nan) => {
                return Err("a bucket has no le that is a number");
            }
            Self::GaugeBucket | Self::GaugeCount if value.is_nan() || value < 0.0 => {
                return Err("a count or a bucket is negative or NaN");
            }
            Self::Quantile if !quantile.and_then(number).is_some_and(|quantile| (0.0..=1.0).contains(&quantile)) => {
                return Err("a sample of a summary has no quantile from 0 to 1");
            }
            _ => {}
        }
        let takes_events = matches!(self, Self::Total | Self::Bucket | Self::GaugeBucket | Self::Whole);
        if exemplars > 0 && !takes_events && version == 1 {
            return Err("an exemplar stands at something else than a counter or a bucket");
        }
        if exemplars > 1 && self != Self::Whole {
            return Err("a sample has more than one exemplar");
        }
        Ok(())
    }
}

/// A label set whose lines are being read, and its newest point.
pub(super) struct Group {
    base: u128,
    kind: MetricKind,
    /// Where its points begin.
    from: usize,
    created: Option<f64>,
    /// When its newest point was, once there is one.
    time: Option<Option<f64>>,
    /// What is there of that point.
    seen: HashSet<(Part, u128)>,
    bounds: Bounds,
}

/// The buckets of a point.
#[derive(Default)]
struct Bounds {
    /// Last upper bound and its count.
    last: Option<(f64, f64)>,
    count: Option<f64>,
    sum: Option<f64>,
    has_negative: bool,
}

impl Group {
    pub(super) fn new(base: u128, kind: MetricKind, from: usize) -> Self {
        let (created, time, seen, bounds) = (None, None, HashSet::new(), Bounds::default());
        Self { base, kind, from, created, time, seen, bounds }
    }

    pub(super) fn base(&self) -> u128 {
        self.base
    }

    /// One more sample.
    pub(super) fn add(
        &mut self,
        part: Part,
        labels: u128,
        le: Option<&str>,
        value: f64,
        time: Option<f64>,
    ) -> LineResult<()> {
        if self.time != Some(time) {
            match (self.time.flatten(), time) {
                _ if self.time.is_none() => {}
                (Some(before), Some(now)) if now > before => {}
                (Some(_), Some(_)) => return Err("times of a label set go backwards"),
                _ => return Err("a label set has samples with a time and others without"),
            }
            self.end_point()?;
            self.time = Some(time);
        }
        if !self.seen.insert((part, labels)) {
            return Err("a series comes twice at one time");
        }
        match part {
            Part::Bucket | Part::GaugeBucket => {
                let le = le.and_then(number).expect("a bucket's bound was checked");
                self.bounds.add(le, value)
            }
            Part::Count | Part::GaugeCount => {
                self.bounds.count = Some(value);
                Ok(())
            }
            Part::Sum | Part::GaugeSum => {
                self.bounds.sum = Some(value);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Its counts began at `seconds`.
    pub(super) fn created(&mut self, seconds: f64) -> LineResult<()> {
        if !seconds.is_finite() {
            return Err("a _created is not a time");
        }
        self.created = Some(seconds);
        Ok(())
    }

    fn end_point(&mut self) -> LineResult<()> {
        let has_other = |part: &(Part, u128)| !matches!(part.0, Part::Whole | Part::Created);
        let is_histogram = matches!(self.kind, MetricKind::Histogram | MetricKind::GaugeHistogram);
        if is_histogram && self.seen.iter().any(has_other) {
            self.bounds.end(self.kind)?;
        }
        self.bounds = Bounds::default();
        self.seen.clear();
        Ok(())
    }

    /// No more samples: what is known of its beginning belongs to all of its points.
    pub(super) fn end(mut self, points: &mut [Point<'_>]) -> LineResult<()> {
        self.end_point()?;
        if let Some(created) = self.created {
            let start_ms = milliseconds(created).ok_or("a time is beyond what can be stored")?;
            let counted = |point: &&mut Point<'_>| point.temporality == Temporality::Cumulative;
            points[self.from..].iter_mut().filter(counted).for_each(|point| point.start_ms = Some(start_ms));
        }
        Ok(())
    }
}

impl Bounds {
    fn add(&mut self, le: f64, count: f64) -> LineResult<()> {
        if let Some((before, counted)) = self.last {
            if le <= before {
                return Err("the buckets of a histogram do not ascend by le");
            }
            if count < counted {
                return Err("a bucket of a histogram counts less than the one before");
            }
        }
        self.has_negative |= le < 0.0;
        self.last = Some((le, count));
        Ok(())
    }

    fn end(&self, kind: MetricKind) -> LineResult<()> {
        let Some((f64::INFINITY, all)) = self.last else { return Err("a histogram has no bucket with le=\"+Inf\"") };
        if self.count.is_some_and(|count| count != all) {
            return Err("the count of a histogram is not that of its bucket with le=\"+Inf\"");
        }
        if self.sum.is_some() != self.count.is_some() {
            return Err("a histogram has a sum without a count, or a count without a sum");
        }
        if self.has_negative && kind == MetricKind::Histogram && self.sum.is_some() {
            return Err("a histogram with negative bounds has a sum, which cannot be a counter");
        }
        Ok(())
    }
}
