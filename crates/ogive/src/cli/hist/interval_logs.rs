//! What was read of interval logs.

use ogive_hist::hdr::Interval;
use ogive_hist::{Histogram, Scheme};

use super::number::Unit;
use crate::cli::format::thousands;

/// What was read.
pub(super) struct Logs {
    pub(super) tag: Option<String>,
    pub(super) unit: f64,
    /// One histogram for each set of bins found: usually one.
    pub(super) merged: Vec<Histogram>,
    pub(super) intervals: u64,
    pub(super) other_tags: u64,
    pub(super) seconds: f64,
}

impl Logs {
    pub(super) fn new(tag: Option<String>, unit: Unit) -> Self {
        Self { tag, unit: unit.worth(), merged: Vec::new(), intervals: 0, other_tags: 0, seconds: 0.0 }
    }

    /// The only histogram, if all intervals have the same bins.
    pub(super) fn only(&self) -> Option<&Histogram> {
        match &self.merged[..] {
            [one] => Some(one),
            _ => None,
        }
    }

    pub(super) fn take(&mut self, interval: Interval) {
        if self.tag.is_some() && self.tag != interval.tag {
            self.other_tags += 1;
            return;
        }
        self.intervals += 1;
        self.seconds += interval.length;
        if self.merged.iter_mut().all(|merged| merged.merge(&interval.histogram).is_err()) {
            self.merged.push(interval.histogram);
        }
    }

    /// Adds what was read to a histogram of decimal bins, and reports the loss of precision.
    pub(super) fn pour(&self, histogram: &mut Histogram) {
        let (mut off, mut unbounded) = (0.0_f64, 0.0);
        for merged in &self.merged {
            let (converted, bound) = merged.convert(&Scheme::LogLinear10);
            histogram.merge(&converted).expect("both are of the default scheme");
            off = off.max(bound.relative);
            unbounded += bound.unbounded;
        }
        let others = match self.other_tags {
            0 => String::new(),
            others => format!("; {} with other tags left out", thousands(others)),
        };
        let least = match unbounded as u64 {
            0 => String::new(),
            below => format!(", but for {} below the log's least value", thousands(below)),
        };
        let (intervals, off, seconds) = (thousands(self.intervals), off * 100.0, self.seconds);
        eprintln!(
            "ogive hist: {intervals} intervals, {seconds:.3} s{others}; as decimal bins within {off:.1} %{least}"
        );
    }
}

/// The values of jHiccup, and of most others, are nanoseconds.
pub(super) const UNIT: Unit = Unit::NANOSECONDS;
