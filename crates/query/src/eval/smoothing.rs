//! Values between two samples, for `smoothed` and `anchored`.

use std::sync::Arc;

use ogive_hist::CounterReset;
use ogive_model::SeriesData;

use super::annotate::{self, Operation};
use super::histogram::{
    Hist, Incompatible, add, detect_reset, is_custom, is_stale, is_stale_histogram, scale, subtract, to_float,
};
use super::rows::Cell;
use crate::annotations::Annotations;
use crate::ast::Span;
use crate::value::Point;

/// Why smoothing has no result.
pub(super) enum Problem {
    Mixed,
    Schemes(Incompatible),
}

/// The samples of one series without staleness markers.
pub(super) struct Smoothing {
    floats: Vec<(i64, f64)>,
    histograms: Vec<(i64, Arc<Hist>)>,
}

impl Smoothing {
    pub(super) fn new(series: &SeriesData) -> Self {
        let floats = series.floats.times.iter().copied().zip(series.floats.values.iter().copied());
        let histograms = series.histograms.times.iter().copied().zip(&series.histograms.values);
        Self {
            floats: floats.filter(|(_, value)| !is_stale(*value)).collect(),
            histograms: histograms
                .filter(|(_, value)| !is_stale_histogram(value))
                .map(|(time, value)| (time, Arc::new(to_float(value))))
                .collect(),
        }
    }

    pub(super) fn at(&self, time: i64, lookback: i64) -> (Cell, Option<Problem>, Reconciled) {
        let nothing = Reconciled::default();
        let floats = around(&self.floats, time, lookback);
        let histograms = around(&self.histograms, time, lookback);
        match (floats.is_empty(), histograms.is_empty()) {
            (false, false) => (None, Some(Problem::Mixed), nothing),
            (false, true) => (smoothed_float(floats, time).map(Point::Float), None, nothing),
            (true, _) => match smoothed_histogram(histograms, time) {
                Ok((value, reconciled)) => (value.map(Point::Histogram), None, reconciled),
                Err(problem) => (None, Some(problem), nothing),
            },
        }
    }
}

/// The samples in (time - lookback, time + lookback].
fn around<T>(samples: &[(i64, T)], time: i64, lookback: i64) -> &[(i64, T)] {
    let from = samples.partition_point(|sample| sample.0 <= time.saturating_sub(lookback));
    let to = samples.partition_point(|sample| sample.0 <= time.saturating_add(lookback));
    &samples[from..to]
}

fn smoothed_float(samples: &[(i64, f64)], time: i64) -> Option<f64> {
    let next = samples.partition_point(|sample| sample.0 < time);
    match (next.checked_sub(1).map(|index| samples[index]), samples.get(next)) {
        (_, Some((at, value))) if *at == time => Some(*value),
        (Some(before), Some(after)) => Some(interpolate_float(before, *after, time, false)),
        (Some((_, value)), None) => Some(value),
        (None, _) => None,
    }
}

/// The histogram at `time`; also what had to be reconciled for it.
fn smoothed_histogram(samples: &[(i64, Arc<Hist>)], time: i64) -> Result<(Option<Arc<Hist>>, Reconciled), Problem> {
    let next = samples.partition_point(|sample| sample.0 < time);
    match (next.checked_sub(1).map(|index| &samples[index]), samples.get(next)) {
        (_, Some((at, value))) if *at == time => Ok((Some(value.clone()), Reconciled::default())),
        (Some((from, before)), Some((to, after))) => {
            let counter = before.reset != CounterReset::Gauge || after.reset != CounterReset::Gauge;
            match interpolate_histogram((*from, before), (*to, after), time, counter) {
                Ok((value, reconciled)) => Ok((Some(Arc::new(value)), reconciled)),
                Err(why) => Err(Problem::Schemes(why)),
            }
        }
        (Some((_, value)), None) => Ok((Some(value.clone()), Reconciled::default())),
        (None, _) => Ok((None, Reconciled::default())),
    }
}

/// The value at `time` on the line between two samples. A counter that fell begins at zero.
pub(crate) fn interpolate_float(before: (i64, f64), after: (i64, f64), time: i64, counter: bool) -> f64 {
    let from = if counter && after.1 < before.1 { 0.0 } else { before.1 };
    from + (after.1 - from) * (time - before.0) as f64 / (after.0 - before.0) as f64
}

/// The operations for which custom bounds were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reconciled {
    subtraction: bool,
    addition: bool,
}

impl Reconciled {
    /// Adds annotations about the expression at `span`.
    pub(crate) fn note(self, span: Span, notes: &mut Annotations) {
        let both = [(self.subtraction, Operation::Subtraction), (self.addition, Operation::Addition)];
        for (_, operation) in both.into_iter().filter(|(found, _)| *found) {
            notes.add(annotate::reconciled_bounds(span, operation));
        }
    }
}

/// As [`interpolate_float`]. Also what had to be reconciled.
pub(crate) fn interpolate_histogram(
    before: (i64, &Hist),
    after: (i64, &Hist),
    time: i64,
    counter: bool,
) -> Result<(Hist, Reconciled), Incompatible> {
    if time == before.0 {
        return Ok((before.1.clone(), Reconciled::default()));
    }
    if time == after.0 {
        return Ok((after.1.clone(), Reconciled::default()));
    }
    // Checked before resets: histograms that do not mix would look like a reset.
    if is_custom(before.1) != is_custom(after.1) {
        return Err(Incompatible::ExponentialCustom);
    }
    let share = (time - before.0) as f64 / (after.0 - before.0) as f64;
    let mut value = after.1.clone();
    if counter && detect_reset(after.1, before.1) {
        scale(&mut value, share);
        return Ok((value, Reconciled::default()));
    }
    let difference = subtract(&mut value, before.1)?;
    scale(&mut value, share);
    let sum = add(&mut value, before.1)?;
    Ok((value, Reconciled { subtraction: difference.reconciled, addition: sum.reconciled }))
}
