//! Functions over the samples of a window.

use std::sync::Arc;

use ogive_hist::CounterReset;

use super::Site;
use super::extended::anchored_from;
use super::rate::restarted;
use crate::Error;
use crate::eval::annotate::{self, Operation};
use crate::eval::histogram::{Hist, HistogramMean, HistogramSum, Incompatible, detect_reset, equal};
use crate::eval::kernel::{self, FloatMean, FloatSum, Regression};
use crate::eval::rows::Cell;
use crate::eval::window::Window;
use crate::value::Point;

type Answer = Result<Cell, Error>;

fn float(value: f64) -> Answer {
    Ok(Some(Point::Float(value)))
}

/// Whether both kinds of samples are in the window; if so, adds an annotation.
fn is_mixed(window: &Window<'_>, site: &mut Site<'_>) -> bool {
    let mixed = !window.floats.is_empty() && !window.histograms.is_empty();
    if mixed {
        site.note(annotate::mixed_floats_histograms(site.span, window.metric()));
    }
    mixed
}

/// The floats of a window, for functions that ignore histograms; None when there are none.
fn only_floats<'a>(window: &Window<'a>, site: &mut Site<'_>) -> Option<&'a [f64]> {
    let values = window.float_values();
    if values.is_empty() {
        return None;
    }
    if !window.histograms.is_empty() {
        site.note(annotate::ignored_in_mixed_range(site.span, window.metric()));
    }
    Some(values)
}

pub(super) fn sum(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Answer {
    if is_mixed(window, site) {
        return Ok(None);
    }
    if window.histograms.is_empty() {
        return float(FloatSum::total_of(window.float_values()));
    }
    let values = window.histogram_values();
    let mut total = HistogramSum::new(&values[0]);
    let outcome = values[1..].iter().try_for_each(|value| total.add(value));
    let reconciled = total.reconciled();
    Ok(reported(outcome, reconciled, window, site).map(|()| Point::Histogram(Arc::new(total.finish()))))
}

pub(super) fn avg(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Answer {
    if is_mixed(window, site) {
        return Ok(None);
    }
    if window.histograms.is_empty() {
        return float(FloatMean::mean_of(window.float_values()));
    }
    let values = window.histogram_values();
    let mut mean = HistogramMean::new(&values[0]);
    let outcome = values[1..].iter().try_for_each(|value| mean.add(value));
    let reconciled = mean.reconciled();
    Ok(reported(outcome, reconciled, window, site).map(|()| Point::Histogram(Arc::new(mean.finish()))))
}

/// Adds the annotations of combining all histograms of a window; None when they do not combine.
fn reported(
    outcome: Result<(), Incompatible>,
    reconciled: bool,
    window: &Window<'_>,
    site: &mut Site<'_>,
) -> Option<()> {
    if let Err(why) = outcome {
        site.note(annotate::mixed_schemes(site.span, window.metric(), why));
        return None;
    }
    if reset_hints_collide(window.histogram_values().iter().map(|value| &**value)) {
        site.note(annotate::reset_collision(site.span, Operation::Aggregation));
    }
    if reconciled {
        site.note(annotate::reconciled_bounds(site.span, Operation::Aggregation));
    }
    Some(())
}

/// Whether some of `histograms` state a reset and others that there was none.
pub(crate) fn reset_hints_collide<'a>(histograms: impl Iterator<Item = &'a Hist>) -> bool {
    let (mut reset, mut not_reset) = (false, false);
    for histogram in histograms {
        reset |= histogram.reset == CounterReset::Reset;
        not_reset |= histogram.reset == CounterReset::NotReset;
    }
    reset && not_reset
}

pub(super) fn count(window: &Window<'_>, _: &[f64], _: &mut Site<'_>) -> Answer {
    float((window.floats.len() + window.histograms.len()) as f64)
}

pub(super) fn present(_: &Window<'_>, _: &[f64], _: &mut Site<'_>) -> Answer {
    float(1.0)
}

pub(super) fn first(window: &Window<'_>, _: &[f64], _: &mut Site<'_>) -> Answer {
    let (floats, histograms) = (window.float_times(), window.histogram_times());
    let float_first = match (floats.first(), histograms.first()) {
        (Some(float), Some(histogram)) => float < histogram,
        (float, _) => float.is_some(),
    };
    Ok(Some(if float_first {
        Point::Float(window.float_values()[0])
    } else {
        Point::Histogram(window.histogram_values()[0].clone())
    }))
}

pub(super) fn last(window: &Window<'_>, _: &[f64], _: &mut Site<'_>) -> Answer {
    let float_last = window.float_times().last() > window.histogram_times().last();
    Ok(if float_last {
        window.float_values().last().map(|value| Point::Float(*value))
    } else {
        window.histogram_values().last().map(|value| Point::Histogram(value.clone()))
    })
}

pub(super) fn time_of_first(window: &Window<'_>, _: &[f64], _: &mut Site<'_>) -> Answer {
    let first = window.float_times().first().into_iter().chain(window.histogram_times().first()).min();
    Ok(first.map(|time| Point::Float(*time as f64 / 1000.0)))
}

pub(super) fn time_of_last(window: &Window<'_>, _: &[f64], _: &mut Site<'_>) -> Answer {
    let last = window.float_times().last().max(window.histogram_times().last());
    Ok(last.map(|time| Point::Float(*time as f64 / 1000.0)))
}

/// Index of the value that beats all before it.
fn winner(values: &[f64], beats: impl Fn(f64, f64) -> bool) -> usize {
    let mut best = 0;
    for (index, value) in values.iter().enumerate() {
        if beats(*value, values[best]) || values[best].is_nan() {
            best = index;
        }
    }
    best
}

fn best(window: &Window<'_>, site: &mut Site<'_>, beats: impl Fn(f64, f64) -> bool) -> Answer {
    let Some(values) = only_floats(window, site) else { return Ok(None) };
    float(values[winner(values, beats)])
}

fn time_of_best(window: &Window<'_>, site: &mut Site<'_>, beats: impl Fn(f64, f64) -> bool) -> Answer {
    let Some(values) = only_floats(window, site) else { return Ok(None) };
    float(window.float_times()[winner(values, beats)] as f64 / 1000.0)
}

pub(super) fn max(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Answer {
    best(window, site, |value, best| value > best)
}

pub(super) fn min(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Answer {
    best(window, site, |value, best| value < best)
}

pub(super) fn time_of_max(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Answer {
    time_of_best(window, site, |value, best| value >= best)
}

pub(super) fn time_of_min(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Answer {
    time_of_best(window, site, |value, best| value <= best)
}

pub(super) fn stdvar(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Answer {
    let Some(values) = only_floats(window, site) else { return Ok(None) };
    float(kernel::variance(values))
}

pub(super) fn stddev(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Answer {
    let Some(values) = only_floats(window, site) else { return Ok(None) };
    float(kernel::variance(values).sqrt())
}

/// The median distance from the median.
pub(super) fn mad(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Answer {
    let Some(values) = only_floats(window, site) else { return Ok(None) };
    if values.iter().any(|value| value.is_nan()) {
        return float(f64::NAN);
    }
    let mut values = values.to_vec();
    let median = kernel::quantile(0.5, &mut values);
    values.iter_mut().for_each(|value| *value = (*value - median).abs());
    float(kernel::quantile(0.5, &mut values))
}

pub(super) fn quantile(window: &Window<'_>, parameters: &[f64], site: &mut Site<'_>) -> Answer {
    if window.floats.is_empty() {
        return Ok(None);
    }
    let q = parameters[0];
    if !(0.0..=1.0).contains(&q) {
        site.note(annotate::invalid_quantile(site.span, q));
    }
    let Some(values) = only_floats(window, site) else { return Ok(None) };
    float(kernel::quantile(q, &mut values.to_vec()))
}

/// The floats of a window when there are at least two.
fn two_floats<'a>(window: &Window<'a>, site: &mut Site<'_>) -> Option<&'a [f64]> {
    only_floats(window, site).filter(|values| values.len() > 1)
}

pub(super) fn deriv(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Answer {
    let Some(values) = two_floats(window, site) else { return Ok(None) };
    let times = window.float_times();
    // Times relative to the samples keep the sums accurate.
    float(Regression::from_samples(times, values, times[0]).slope)
}

pub(super) fn predict_linear(window: &Window<'_>, parameters: &[f64], site: &mut Site<'_>) -> Answer {
    let Some(values) = two_floats(window, site) else { return Ok(None) };
    let line = Regression::from_samples(window.float_times(), values, window.time);
    float(line.slope * parameters[0] + line.intercept)
}

/// Holt's linear trend: a smoothed level and a smoothed slope.
pub(super) fn double_exponential_smoothing(window: &Window<'_>, parameters: &[f64], site: &mut Site<'_>) -> Answer {
    let (smoothing, trend) = (parameters[0], parameters[1]);
    for (name, factor) in [("smoothing", smoothing), ("trend", trend)] {
        if factor <= 0.0 || factor >= 1.0 {
            let letter = &name[..1];
            let message = format!("invalid {name} factor. Expected: 0 < {letter}f < 1, got: {factor:.6}");
            return Err(Error::evaluate(message));
        }
    }
    let Some(values) = two_floats(window, site) else { return Ok(None) };
    let (mut before, mut level, mut rise) = (0.0, values[0], values[1] - values[0]);
    for (index, value) in values.iter().enumerate().skip(1) {
        if index > 1 {
            rise = trend * (level - before) + (1.0 - trend) * rise;
        }
        let next = smoothing * value + (1.0 - smoothing) * (level + rise);
        (before, level) = (level, next);
    }
    float(level)
}

/// A sample of a window, by its index among those of its kind.
#[derive(Clone, Copy)]
enum Sample {
    Float(usize),
    Histogram(usize),
}

/// Counts the pairs of neighbours, of whichever kind, that `differ` accepts; a change of kind always counts.
fn count_pairs(
    window: &Window<'_>,
    floats_differ: impl Fn(usize, usize) -> bool,
    histograms_differ: impl Fn(usize, usize) -> bool,
) -> Answer {
    let Some((mut float_at, mut histogram_at)) = anchored_from(window) else { return Ok(None) };
    let (float_times, histogram_times) = (window.float_times(), window.histogram_times());
    let mut previous: Option<Sample> = None;
    let mut found = 0.0;
    while float_at < float_times.len() || histogram_at < histogram_times.len() {
        let float_next = match (float_times.get(float_at), histogram_times.get(histogram_at)) {
            (Some(float), Some(histogram)) => float < histogram,
            (float, _) => float.is_some(),
        };
        let current = if float_next { Sample::Float(float_at) } else { Sample::Histogram(histogram_at) };
        match current {
            Sample::Float(_) => float_at += 1,
            Sample::Histogram(_) => histogram_at += 1,
        }
        let differ = match (previous, current) {
            (None, _) => false,
            (Some(Sample::Float(a)), Sample::Float(b)) => floats_differ(a, b),
            (Some(Sample::Histogram(a)), Sample::Histogram(b)) => histograms_differ(a, b),
            _ => true,
        };
        found += f64::from(u8::from(differ));
        previous = Some(current);
    }
    float(found)
}

pub(super) fn resets(window: &Window<'_>, _: &[f64], _: &mut Site<'_>) -> Answer {
    let (floats, histograms) = (window.float_values(), window.histogram_values());
    let float_starts = window.float_starts();
    let histogram_starts = window.histogram_starts();
    count_pairs(
        window,
        |a, b| floats[b] < floats[a] || restarted(window.float_times(), float_starts, b),
        |a, b| restarted(window.histogram_times(), histogram_starts, b) || detect_reset(&histograms[b], &histograms[a]),
    )
}

pub(super) fn changes(window: &Window<'_>, _: &[f64], _: &mut Site<'_>) -> Answer {
    let (floats, histograms) = (window.float_values(), window.histogram_values());
    count_pairs(
        window,
        |a, b| floats[a] != floats[b] && !(floats[a].is_nan() && floats[b].is_nan()),
        |a, b| !equal(&histograms[a], &histograms[b]),
    )
}
