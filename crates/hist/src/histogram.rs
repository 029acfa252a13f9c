//! The histogram itself: a scheme, sparse bins of both signs, and what is known exactly beside them.

use crate::powers::power_of_ten;
use crate::{BinPlacement, Bins, Closed, Count, DecimalBin, Scheme};

/// The sender's statement about a cumulative histogram's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CounterReset {
    /// Unknown: compare with the previous histogram.
    #[default]
    Unknown,
    /// A counter reset.
    Reset,
    /// A continuation of the previous one.
    NotReset,
    /// Not a counter: a cell, a rate or another gauge.
    Gauge,
}

/// A distribution of values under one [`Scheme`].
///
/// Invariants: `count` of an integer histogram is the sum of all its bins, `zero` and `nan` (float
/// histograms keep the count with which they arrived); a `sum`, `min` or `max` that is present is exact and covers the
/// samples in a bin or in the zero bin, but not those counted in `nan`. (A sum of doubles is exact up to their
/// rounding.) The sum of an empty histogram is `None`, and so is one with an unknown part.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram<C = u64> {
    /// The rule of the bins.
    pub scheme: Scheme,
    /// Largest distance from zero in the zero bin.
    pub zero_threshold: f64,
    /// Samples in the zero bin.
    pub zero: C,
    /// Samples that are not a number, or beyond the scheme's range.
    pub nan: C,
    /// Bins below zero, by distance from zero.
    pub negative: Bins<C>,
    /// Bins above zero, by distance from zero. `Custom` has all its bins here.
    pub positive: Bins<C>,
    /// All samples, `nan` included.
    pub count: C,
    /// Exact sum of the samples, when it is known.
    pub sum: Option<f64>,
    /// Least sample, when it is known.
    pub min: Option<f64>,
    /// Greatest sample, when it is known.
    pub max: Option<f64>,
    /// The sender's statement about its history.
    pub reset: CounterReset,
}

impl<C: Count> Histogram<C> {
    /// An empty histogram of `scheme`.
    #[must_use]
    pub fn new(scheme: Scheme) -> Self {
        Self {
            zero_threshold: scheme.zero_threshold_least(),
            scheme,
            zero: C::ZERO,
            nan: C::ZERO,
            negative: Bins::new(),
            positive: Bins::new(),
            count: C::ZERO,
            sum: None,
            min: None,
            max: None,
            reset: CounterReset::Unknown,
        }
    }
}

/// One bin of a histogram with its edges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket<C> {
    /// Edge nearer minus infinity.
    pub lo: f64,
    /// Edge nearer plus infinity.
    pub hi: f64,
    /// Samples in it.
    pub count: C,
    /// Which edges belong to it.
    pub closed: Closed,
}

impl Histogram<u64> {
    /// An empty histogram of the default scheme.
    #[must_use]
    pub fn log_linear() -> Self {
        Self::new(Scheme::LogLinear10)
    }

    /// Counts one sample.
    pub fn record(&mut self, value: f64) {
        self.record_n(value, 1);
    }

    /// Counts `value * 10^scale` once. In `LogLinear10` the bin is found in integers, so nanoseconds are
    /// `record_int(nanoseconds, -9)` without any rounding.
    pub fn record_int(&mut self, value: i64, scale: i32) {
        let double = scaled(value, scale);
        if self.scheme != Scheme::LogLinear10 || double.abs() <= self.zero_threshold {
            return self.record_n(double, 1);
        }
        let bin = DecimalBin::from_integer(value, scale);
        let place = match bin.index() {
            Some(index) if value > 0 => BinPlacement::Positive(index),
            Some(index) => BinPlacement::Negative(index),
            None if bin == DecimalBin::ZERO => BinPlacement::Zero,
            None => BinPlacement::Nan,
        };
        self.put(place, double, 1);
    }

    /// Counts `count` samples into a bin of the OpenHistogram scheme, without knowing their values: `sum`, `min` and
    /// `max` become unknown.
    ///
    /// # Panics
    /// When the scheme is not `LogLinear10`, or the bin is not one of the format.
    pub fn record_bin(&mut self, bin: DecimalBin, count: u64) {
        assert_eq!(self.scheme, Scheme::LogLinear10, "decimal bins belong to log-linear-10");
        assert!(bin.is_valid(), "{bin:?} is not a bin of the format");
        if count == 0 {
            return;
        }
        self.count = self.count.plus(count);
        match bin.index() {
            None if bin == DecimalBin::NAN => {
                self.nan = self.nan.plus(count);
                return;
            }
            None => self.zero = self.zero.plus(count),
            Some(index) if bin.val > 0 => self.positive.add(index, count),
            Some(index) => self.negative.add(index, count),
        }
        (self.sum, self.min, self.max) = (None, None, None);
    }

    /// As [`Histogram::to_float`], in the memory that the counts are in.
    #[must_use]
    pub fn into_float(self) -> Histogram<f64> {
        Histogram {
            scheme: self.scheme,
            zero_threshold: self.zero_threshold,
            zero: self.zero as f64,
            nan: self.nan as f64,
            negative: self.negative.into_counts(|count| count as f64),
            positive: self.positive.into_counts(|count| count as f64),
            count: self.count as f64,
            sum: self.sum,
            min: self.min,
            max: self.max,
            reset: self.reset,
        }
    }

    /// The same distribution with float counts.
    #[must_use]
    pub fn to_float(&self) -> Histogram<f64> {
        Histogram {
            scheme: self.scheme.clone(),
            zero_threshold: self.zero_threshold,
            zero: self.zero as f64,
            nan: self.nan as f64,
            negative: self.negative.map_counts(|count| count as f64),
            positive: self.positive.map_counts(|count| count as f64),
            count: self.count as f64,
            sum: self.sum,
            min: self.min,
            max: self.max,
            reset: self.reset,
        }
    }
}

impl Histogram<f64> {
    /// Multiplies every count, and the sum, by `factor`.
    pub fn scale_by(&mut self, factor: f64) {
        self.zero *= factor;
        self.nan *= factor;
        self.count *= factor;
        for count in self.negative.counts_mut().iter_mut().chain(self.positive.counts_mut()) {
            *count *= factor;
        }
        self.sum = self.sum.map(|sum| sum * factor);
    }
}

impl<C: Count> Histogram<C> {
    /// Counts a sample `count` times.
    pub fn record_n(&mut self, value: f64, count: C) {
        self.put(self.scheme.place(value, self.zero_threshold), value, count);
    }

    /// Counts samples at a known place, and updates sum and extremes.
    fn put(&mut self, place: BinPlacement, value: f64, count: C) {
        if count == C::ZERO {
            return;
        }
        let first = self.count == self.nan;
        self.count = self.count.plus(count);
        match place {
            BinPlacement::Nan => {
                self.nan = self.nan.plus(count);
                return;
            }
            BinPlacement::Zero => self.zero = self.zero.plus(count),
            BinPlacement::Negative(index) => self.negative.add(index, count),
            BinPlacement::Positive(index) => self.positive.add(index, count),
        }
        let sum = value * count.to_f64();
        if first {
            (self.sum, self.min, self.max) = (Some(sum), Some(value), Some(value));
        } else {
            self.sum = self.sum.map(|before| before + sum);
            self.min = self.min.map(|before| before.min(value));
            self.max = self.max.map(|before| before.max(value));
        }
    }

    /// Samples in the bins and the zero bin: all but `nan`.
    #[must_use]
    pub fn total(&self) -> C {
        self.negative.total().plus(self.zero).plus(self.positive.total())
    }

    /// True when nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == C::ZERO && self.nan == C::ZERO && self.total() == C::ZERO
    }

    /// Sets `count` to the sum of the bins, the zero bin and `nan`: for callers that fill the bins themselves.
    pub fn recount(&mut self) {
        self.count = self.total().plus(self.nan);
    }

    /// Drops the bins that count nothing.
    pub fn compact(&mut self) {
        self.negative.retain(|_, count| count != C::ZERO);
        self.positive.retain(|_, count| count != C::ZERO);
    }

    /// The bins that count something, in ascending real-axis order, the zero bin among them.
    pub fn buckets(&self) -> impl DoubleEndedIterator<Item = Bucket<C>> + '_ {
        let bins = |positive: bool| {
            let closed = self.scheme.closed(positive);
            let custom = matches!(self.scheme, Scheme::Custom { .. });
            move |(index, count): (i32, C)| {
                let (lo, hi) = self.scheme.bounds(positive, index);
                // The first custom bin includes everything up to its bound, even minus infinity.
                let closed = if custom && index == 0 { Closed::Both } else { closed };
                Bucket { lo, hi, count, closed }
            }
        };
        let zero = Bucket { lo: -self.zero_threshold, hi: self.zero_threshold, count: self.zero, closed: Closed::Both };
        let negative = self.negative.iter().rev().map(bins(false));
        let positive = self.positive.iter().map(bins(true));
        negative.chain(std::iter::once(zero)).chain(positive).filter(|bucket| bucket.count != C::ZERO)
    }
}

/// The double nearest `value * 10^scale`.
fn scaled(value: i64, scale: i32) -> f64 {
    // Below 2^53 the integer is an exact double, and so is 10^22: one rounding remains.
    match scale {
        _ if value.unsigned_abs() >= 1 << 53 => decimal(value, scale),
        0..=22 => value as f64 * power_of_ten(scale),
        -22..=-1 => value as f64 / power_of_ten(-scale),
        _ => decimal(value, scale),
    }
}

/// The same by way of its decimal form.
fn decimal(value: i64, scale: i32) -> f64 {
    format!("{value}e{scale}").parse().expect("a decimal number parses")
}
