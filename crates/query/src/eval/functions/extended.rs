//! Windows whose edges are anchored at the sample before or smoothed between samples: no extrapolation.

use std::sync::Arc;

use ogive_hist::CounterReset;

use super::Site;
use super::counter::{Kind, combined};
use crate::ast::Edges;
use crate::eval::annotate::{self, Operation};
use crate::eval::histogram::{Hist, Incompatible, add, detect_reset, divide, is_custom, subtract};
use crate::eval::rows::Cell;
use crate::eval::smoothing::{interpolate_float, interpolate_histogram};
use crate::eval::window::Window;
use crate::value::Point;

/// The range of relevant samples, as indexes: from the one at or before the start of the window to the last one
/// (smoothed: the one at or after its end). None when all are outside.
fn reach(times: &[i64], window: &Window<'_>) -> Option<(usize, usize)> {
    let smoothed = window.edges == Edges::Smoothed;
    let mut last = times.len() - 1;
    let first = times[..last].partition_point(|time| *time <= window.start).saturating_sub(1);
    if smoothed {
        last = times[..last].partition_point(|time| *time < window.end);
    }
    let outside = times[last] <= window.start || (smoothed && times[first] > window.end);
    (!outside).then_some((first, last))
}

/// Indexes of the samples strictly inside, between the two edges.
fn inner(times: &[i64], window: &Window<'_>, first: usize, last: usize) -> std::ops::Range<usize> {
    let from = if times[first] <= window.start { first + 1 } else { first };
    let to = if times[last] >= window.end { last } else { last + 1 };
    from..to.max(from)
}

fn edge_floats(window: &Window<'_>, first: usize, last: usize, counter: bool) -> (f64, f64) {
    let (times, values) = (window.float_times(), window.float_values());
    let smoothed = window.edges == Edges::Smoothed;
    let at = |index: usize| (times[index], values[index]);
    let left = if smoothed && times[first] < window.start {
        interpolate_float(at(first), at(first + 1), window.start, counter)
    } else {
        values[first]
    };
    let right = if smoothed && last > 0 && times[last] > window.end {
        interpolate_float(at(last - 1), at(last), window.end, counter)
    } else {
        values[last]
    };
    (left, right)
}

pub(super) fn rate(window: &Window<'_>, kind: Kind, site: &mut Site<'_>) -> Cell {
    if window.histograms.is_empty() {
        float_rate(window, kind).map(Point::Float)
    } else {
        histogram_rate(window, kind, site).map(|histogram| Point::Histogram(Arc::new(histogram)))
    }
}

fn float_rate(window: &Window<'_>, kind: Kind) -> Option<f64> {
    let (times, values) = (window.float_times(), window.float_values());
    let (first, last) = reach(times, window)?;
    let (left, right) = edge_floats(window, first, last, kind.counter);
    let mut result = right - left;
    if kind.counter {
        let mut previous = left;
        let inside = &values[inner(times, window, first, last)];
        for value in inside.iter().chain([&right]) {
            if *value < previous {
                result += previous;
            }
            previous = *value;
        }
    }
    Some(if kind.per_second { result / window.seconds() } else { result })
}

/// The samples of a window with its edges as samples, for a query whose result is the range itself.
pub(crate) fn extended_floats(window: &Window<'_>) -> Vec<(i64, f64)> {
    let times = window.float_times();
    if times.is_empty() {
        return Vec::new();
    }
    let Some((first, last)) = reach(times, window) else { return Vec::new() };
    let (left, right) = edge_floats(window, first, last, false);
    let inside = inner(times, window, first, last).map(|index| (times[index], window.float_values()[index]));
    std::iter::once((window.start, left)).chain(inside).chain([(window.end, right)]).collect()
}

fn histogram_rate(window: &Window<'_>, kind: Kind, site: &mut Site<'_>) -> Option<Hist> {
    let (times, values) = (window.histogram_times(), window.histogram_values());
    let (first, last) = reach(times, window)?;
    let metric = window.metric();
    for value in &values[first..=last] {
        if is_custom(value) != is_custom(&values[first]) {
            site.note(annotate::mixed_schemes(site.span, metric, Incompatible::ExponentialCustom));
            return None;
        }
        if kind.counter && value.reset == CounterReset::Gauge {
            site.note(annotate::not_a_counter(site.span, metric));
        }
    }
    let smoothed = window.edges == Edges::Smoothed;
    let left = if smoothed && times[first] < window.start {
        between(window, first, window.start, kind.counter, site)?
    } else {
        (*values[first]).clone()
    };
    let right = if smoothed && last > 0 && times[last] > window.end {
        between(window, last - 1, window.end, kind.counter, site)?
    } else {
        (*values[last]).clone()
    };
    let gauges = [&left, &right].map(|histogram| histogram.reset == CounterReset::Gauge);
    if !kind.counter && gauges.contains(&false) {
        site.note(annotate::not_a_gauge(site.span, metric));
    }
    let mut result = right.clone();
    combined(subtract(&mut result, &left), Operation::Subtraction, window, site)?;
    if kind.counter {
        add_resets(&mut result, window, first, last, &left, &right, site)?;
    }
    if kind.per_second {
        divide(&mut result, window.seconds());
    }
    result.reset = CounterReset::Gauge;
    result.compact();
    Some(result)
}

/// The histogram at `time` between samples `index` and `index + 1`.
fn between(window: &Window<'_>, index: usize, time: i64, counter: bool, site: &mut Site<'_>) -> Option<Hist> {
    let (times, values) = (window.histogram_times(), window.histogram_values());
    let (before, after) = ((times[index], &*values[index]), (times[index + 1], &*values[index + 1]));
    match interpolate_histogram(before, after, time, counter) {
        Ok((value, reconciled)) => {
            reconciled.note(site.span, site.notes);
            Some(value)
        }
        Err(why) => {
            site.note(annotate::mixed_schemes(site.span, window.metric(), why));
            None
        }
    }
}

/// Adds what the counter had reached before each reset between the two edges.
fn add_resets(
    result: &mut Hist,
    window: &Window<'_>,
    first: usize,
    last: usize,
    left: &Hist,
    right: &Hist,
    site: &mut Site<'_>,
) -> Option<()> {
    let (times, values) = (window.histogram_times(), window.histogram_values());
    let mut from = first + 1;
    let mut previous = left;
    let spans_reset = window.edges == Edges::Smoothed
        && times[first] < window.start
        && detect_reset(&values[first + 1], &values[first]);
    if spans_reset {
        // The interpolation at the left edge has already handled this reset: continue after it.
        previous = &values[first + 1];
        from += 1;
    }
    // The last sample is represented by the right edge, which carries its hint.
    if from > last {
        return Some(());
    }
    for value in values[from..last].iter().map(|value| &**value).chain([right]) {
        if detect_reset(value, previous) {
            combined(add(result, previous), Operation::Addition, window, site)?;
        }
        previous = value;
    }
    Some(())
}

/// For functions that compare neighbours: where the window's floats and histograms begin when the newest sample at or
/// before the start of the window counts as its first. None when there is nothing after the start.
pub(super) fn anchored_from(window: &Window<'_>) -> Option<(usize, usize)> {
    if window.edges != Edges::Anchored {
        return Some((0, 0));
    }
    let (floats, histograms) = (window.float_times(), window.histogram_times());
    let float = floats.partition_point(|time| *time <= window.start);
    let histogram = histograms.partition_point(|time| *time <= window.start);
    if float >= floats.len() && histogram >= histograms.len() {
        return None;
    }
    let float_before = float.checked_sub(1).map(|index| floats[index]);
    let histogram_before = histogram.checked_sub(1).map(|index| histograms[index]);
    Some(match (float_before, histogram_before) {
        (None, None) => (0, 0),
        (Some(a), b) if b.is_none_or(|b| a >= b) => (float - 1, histogram),
        _ => (float, histogram - 1),
    })
}
