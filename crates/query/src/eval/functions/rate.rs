//! `rate`, `increase`, `delta` and their instant forms.
//!
//! Between the first and the last sample of a window the increase is exact, resets included; it is then
//! extrapolated to the edges of the window when the samples come close to them (closer than 1.1 of their mean
//! spacing), else by half a spacing, and for counters never below zero. A start time inside the window stands for
//! a sample of zero.

use std::sync::Arc;

use ogive_hist::CounterReset;

use super::Site;
use super::counter::{Kind, combined};
use super::extended;
use crate::Error;
use crate::ast::Edges;
use crate::eval::annotate::{self, Operation};
use crate::eval::histogram::{Hist, Incompatible, add, detect_reset, difference, divide, is_custom, scale, subtract};
pub(super) use crate::eval::relations::restarted;
use crate::eval::rows::Cell;
use crate::eval::window::Window;
use crate::value::Point;

pub(super) fn rate(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Result<Cell, Error> {
    Ok(extrapolated(window, Kind::RATE, site))
}

pub(super) fn increase(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Result<Cell, Error> {
    Ok(extrapolated(window, Kind::INCREASE, site))
}

pub(super) fn delta(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Result<Cell, Error> {
    Ok(extrapolated(window, Kind::DELTA, site))
}

fn extrapolated(window: &Window<'_>, kind: Kind, site: &mut Site<'_>) -> Cell {
    if !window.floats.is_empty() && !window.histograms.is_empty() {
        site.note(annotate::mixed_floats_histograms(site.span, window.metric()));
        return None;
    }
    if window.edges != Edges::Plain {
        return extended::rate(window, kind, site);
    }
    if window.histograms.is_empty() { float_rate(window, kind, site) } else { histogram_rate(window, kind, site) }
}

/// Geometry of the samples in a window.
pub(crate) struct Coverage {
    /// Time of the first.
    pub(crate) first: i64,
    /// Time of the last.
    pub(crate) last: i64,
    /// Intervals between samples.
    pub(crate) gaps: usize,
}

impl Coverage {
    fn from_times(times: &[i64]) -> Self {
        Self { first: times[0], last: times[times.len() - 1], gaps: times.len() - 1 }
    }

    /// The factor by which the increase between the samples is multiplied. `start` is a start time inside the window
    /// before the first sample; `zero_before` is how many seconds before the first sample the counter was zero.
    fn factor(&self, window: (i64, i64), start: Option<i64>, zero_before: Option<f64>) -> f64 {
        let seconds = |from: i64, to: i64| (to - from) as f64 / 1000.0;
        let mut to_start = seconds(window.0, self.first);
        let mut to_end = seconds(self.last, window.1);
        let mut sampled = seconds(self.first, self.last);
        let mean = if self.gaps > 0 { sampled / self.gaps as f64 } else { 0.0 };
        let close = mean * 1.1;
        if let Some(start) = start {
            to_start = 0.0;
            sampled = seconds(start, self.last);
        } else {
            if to_start >= close {
                to_start = mean / 2.0;
            }
            if let Some(zero) = zero_before {
                to_start = to_start.min(zero);
            }
        }
        if to_end >= close {
            to_end = mean / 2.0;
        }
        if sampled == 0.0 { 1.0 } else { (sampled + to_start + to_end) / sampled }
    }

    /// The increase between floats, of which the first is `first`, as one of `window`, or per second; `start` is a
    /// start time inside the window before the first sample.
    pub(crate) fn rate(
        &self,
        first: f64,
        increase: f64,
        window: (i64, i64),
        start: Option<i64>,
        kind: Kind,
    ) -> Option<f64> {
        let mut result = increase;
        if start.is_some() {
            result += first;
        } else if self.gaps == 0 {
            return None;
        }
        let sampled = (self.last - self.first) as f64 / 1000.0;
        let zero = (kind.counter && result > 0.0 && first >= 0.0).then(|| sampled * (first / result));
        let mut factor = self.factor(window, start, zero);
        if kind.per_second {
            factor /= (window.1 - window.0) as f64 / 1000.0;
        }
        Some(result * factor)
    }
}

/// The start time of the first sample when it lies inside the window.
pub(super) fn start_inside(window: &Window<'_>, starts: &[i64], first: i64) -> Option<i64> {
    starts.first().copied().filter(|start| *start != 0 && *start > window.start && *start < first)
}

fn float_rate(window: &Window<'_>, kind: Kind, site: &mut Site<'_>) -> Cell {
    let (times, values) = (window.float_times(), window.float_values());
    let starts = window.float_starts();
    let coverage = Coverage::from_times(times);
    let (first, last) = (values[0], values[values.len() - 1]);
    let mut result = last - first;
    if kind.counter {
        note_overlap(window, times, starts, site);
        if starts.is_empty() {
            let falls = values.windows(2).filter(|pair| pair[1] < pair[0]);
            falls.for_each(|pair| result += pair[0]);
        } else {
            let began = (1..values.len())
                .filter(|index| values[*index] < values[index - 1] || restarted(times, starts, *index));
            began.for_each(|index| result += values[index - 1]);
        }
    }
    let start = if kind.counter { start_inside(window, starts, coverage.first) } else { None };
    coverage.rate(first, result, window.ends(), start, kind).map(Point::Float)
}

/// Which histograms of a window make up an increase, so that their bins can be combined elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// The one that is subtracted.
    pub(crate) base: Option<usize>,
    /// The one from which it is subtracted.
    pub(crate) last: usize,
    /// Those that are added after that, in this order.
    pub(crate) added: Vec<usize>,
    /// By which the result is multiplied.
    pub(crate) factor: f64,
}

/// `rate`, `increase` or `delta` of a window that has only histograms and plain edges, and what its bins are made of.
pub(crate) fn traced_rate(window: &Window<'_>, kind: Kind, site: &mut Site<'_>) -> Option<(Hist, Trace)> {
    assert!(!window.histograms.is_empty() && window.floats.is_empty(), "a window of histograms alone");
    let mut trace = Trace::default();
    let result = histogram_rate_of(window, kind, site, &mut trace)?;
    Some((result, trace))
}

fn histogram_rate(window: &Window<'_>, kind: Kind, site: &mut Site<'_>) -> Cell {
    let result = histogram_rate_of(window, kind, site, &mut Trace::default())?;
    Some(Point::Histogram(Arc::new(result)))
}

fn histogram_rate_of(window: &Window<'_>, kind: Kind, site: &mut Site<'_>, trace: &mut Trace) -> Option<Hist> {
    let (times, values) = (window.histogram_times(), window.histogram_values());
    let starts = window.histogram_starts();
    let coverage = Coverage::from_times(times);
    let mut result = if values.len() > 1 { Some(histogram_increase(window, kind.counter, site, trace)?) } else { None };
    let start = if kind.counter { start_inside(window, starts, coverage.first) } else { None };
    if start.is_some() {
        match &mut result {
            // The trace begins as that of the first one.
            None => result = Some((*values[0]).clone()),
            Some(sum) => {
                trace.added.push(0);
                combined(add(sum, &values[0]), Operation::Addition, window, site)?;
            }
        }
    }
    let mut result = result?;
    let sampled = (coverage.last - coverage.first) as f64 / 1000.0;
    let first = values[0].count;
    let zero = (kind.counter && result.count > 0.0 && first >= 0.0).then(|| sampled * (first / result.count));
    let mut factor = coverage.factor(window.ends(), start, zero);
    if kind.per_second {
        factor /= window.seconds();
    }
    scale(&mut result, factor);
    trace.factor = factor;
    result.reset = CounterReset::Gauge;
    Some(result)
}

/// The increase between the first and the last of at least two histograms.
fn histogram_increase(window: &Window<'_>, counter: bool, site: &mut Site<'_>, trace: &mut Trace) -> Option<Hist> {
    let values = window.histogram_values();
    let (first, last) = (&values[0], &values[values.len() - 1]);
    (trace.base, trace.last) = (Some(0), values.len() - 1);
    let mixed = |span| annotate::mixed_schemes(span, window.metric(), Incompatible::ExponentialCustom);
    if !counter {
        let gauge = |histogram: &Hist| histogram.reset == CounterReset::Gauge;
        if is_custom(first) != is_custom(last) {
            site.note(mixed(site.span));
            return None;
        }
        if !gauge(first) || !gauge(last) {
            site.note(annotate::not_a_gauge(site.span, window.metric()));
        }
        return change(window, first, last, site);
    }
    let relations = window.series.relations(window.histograms.clone());
    // If the counter was reset after the first sample, its bins do not matter: only that it came before.
    let nothing = Hist::new(values[1].scheme.clone());
    trace.base = (!relations[1].is_reset).then_some(0);
    let base: &Hist = if relations[1].is_reset { &nothing } else { first };
    let custom = is_custom(base);
    if relations[0].is_gauge {
        site.note(annotate::not_a_counter(site.span, window.metric()));
    }
    let (tail, between) = relations[1..].split_last()?;
    for one in std::iter::once(tail).chain(between) {
        if one.is_gauge {
            site.note(annotate::not_a_counter(site.span, window.metric()));
        }
        if one.is_custom != custom {
            site.note(mixed(site.span));
            return None;
        }
    }
    let mut result = change(window, base, last, site)?;
    note_overlap(window, window.histogram_times(), window.histogram_starts(), site);
    for index in (2..values.len()).filter(|index| relations[*index].is_reset) {
        trace.added.push(index - 1);
        combined(add(&mut result, &values[index - 1]), Operation::Addition, window, site)?;
    }
    result.reset = CounterReset::Gauge;
    result.compact();
    Some(result)
}

/// `last` less `first`.
fn change(window: &Window<'_>, first: &Hist, last: &Hist, site: &mut Site<'_>) -> Option<Hist> {
    let (difference, outcome) = match difference(last, first) {
        Ok((difference, outcome)) => (Some(difference), Ok(outcome)),
        Err(why) => (None, Err(why)),
    };
    combined(outcome, Operation::Subtraction, window, site)?;
    let mut difference = difference?;
    difference.reset = CounterReset::Gauge;
    Some(difference)
}

/// Warns once about a sample whose start is before the end of the previous one but differs from that one's start.
fn note_overlap(window: &Window<'_>, times: &[i64], starts: &[i64], site: &mut Site<'_>) {
    let overlaps = |index: usize| {
        let (start, previous) = (starts[index], starts[index - 1]);
        start != 0 && start < times[index - 1] && start != previous
    };
    if (1..starts.len()).any(overlaps) {
        site.note(annotate::start_overlap(site.span, window.metric()));
    }
}

pub(super) fn irate(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Result<Cell, Error> {
    Ok(between_last_two(window, true, site))
}

pub(super) fn idelta(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Result<Cell, Error> {
    Ok(between_last_two(window, false, site))
}

/// A sample of either kind, by its index in the window.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sample {
    Float(usize),
    Histogram(usize),
}

fn between_last_two(window: &Window<'_>, counter: bool, site: &mut Site<'_>) -> Cell {
    let tail = |count: usize| count.saturating_sub(2)..count;
    let floats = tail(window.floats.len()).map(|index| (window.float_times()[index], Sample::Float(index)));
    let histograms =
        tail(window.histograms.len()).map(|index| (window.histogram_times()[index], Sample::Histogram(index)));
    let mut samples: Vec<(i64, Sample)> = floats.chain(histograms).collect();
    samples.sort_unstable();
    let [.., (from, before), (to, after)] = samples[..] else { return None };
    if from == to {
        return None;
    }
    let seconds = (to - from) as f64 / 1000.0;
    match (before, after) {
        (Sample::Float(before), Sample::Float(after)) => {
            let values = window.float_values();
            let (old, new) = (values[before], values[after]);
            let reset = counter && (new < old || restarted(window.float_times(), window.float_starts(), after));
            let change = if reset { new } else { new - old };
            Some(Point::Float(if counter { change / seconds } else { change }))
        }
        (Sample::Histogram(before), Sample::Histogram(after)) => {
            let change = histogram_change(window, before, after, counter, site)?;
            Some(Point::Histogram(Arc::new(if counter { divided(change, seconds) } else { change })))
        }
        _ => {
            site.note(annotate::mixed_floats_histograms(site.span, window.metric()));
            None
        }
    }
}

fn divided(mut histogram: Hist, by: f64) -> Hist {
    divide(&mut histogram, by);
    histogram
}

fn histogram_change(
    window: &Window<'_>,
    before: usize,
    after: usize,
    counter: bool,
    site: &mut Site<'_>,
) -> Option<Hist> {
    let values = window.histogram_values();
    let (old, new) = (&values[before], &values[after]);
    let gauges = [old, new].map(|histogram| histogram.reset == CounterReset::Gauge);
    if counter && gauges.contains(&true) {
        site.note(annotate::not_a_counter(site.span, window.metric()));
    }
    if !counter && gauges.contains(&false) {
        site.note(annotate::not_a_gauge(site.span, window.metric()));
    }
    let mut change = (**new).clone();
    let restarts = restarted(window.histogram_times(), window.histogram_starts(), after);
    if !counter || !(restarts || detect_reset(new, old)) {
        combined(subtract(&mut change, old), Operation::Subtraction, window, site)?;
    }
    change.reset = CounterReset::Gauge;
    change.compact();
    Some(change)
}
