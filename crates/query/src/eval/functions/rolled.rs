//! Functions over the floats of a rollup, where each row stands for all samples of a cell.
//!
//! Invariants: over whole cells the answers equal those over the samples, up to the last bits of sums. If the window
//! also has histograms, the kernels of samples are used, with their annotations.

use super::counter::Kind;
use super::rate::{Coverage, start_inside};
use super::{RangeKernel, Site, over_time, rate as sampled};
use crate::Error;
use crate::eval::kernel::FloatSum;
use crate::eval::rows::Cell;
use crate::eval::window::Window;
use crate::value::Point;

type Answer = Result<Cell, Error>;

/// `rolled` for windows that have only floats, otherwise `plain`.
fn floats_or(
    plain: RangeKernel,
    window: &Window<'_>,
    site: &mut Site<'_>,
    rolled: impl FnOnce() -> Option<f64>,
) -> Answer {
    if !window.histograms.is_empty() || window.aggregates().is_empty() {
        return plain(window, &[], site);
    }
    Ok(rolled().map(Point::Float))
}

fn total(window: &Window<'_>) -> f64 {
    let sums: Vec<f64> = window.aggregates().iter().map(|one| one.sum).collect();
    FloatSum::total_of(&sums)
}

fn samples(window: &Window<'_>) -> u64 {
    window.aggregates().iter().map(|one| one.count).sum()
}

pub(super) fn sum(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Answer {
    floats_or(over_time::sum, window, site, || Some(total(window)))
}

pub(super) fn avg(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Answer {
    floats_or(over_time::avg, window, site, || Some(total(window) / samples(window) as f64))
}

pub(super) fn count(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Answer {
    floats_or(over_time::count, window, site, || Some(samples(window) as f64))
}

/// The one that beats all others; NaN only when all are.
fn best(values: impl Iterator<Item = f64>, beats: impl Fn(f64, f64) -> bool) -> Option<f64> {
    values.reduce(|best, value| if beats(value, best) || best.is_nan() { value } else { best })
}

pub(super) fn max(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Answer {
    let greatest = || best(window.aggregates().iter().map(|one| one.max), |value, best| value > best);
    floats_or(over_time::max, window, site, greatest)
}

pub(super) fn min(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Answer {
    let least = || best(window.aggregates().iter().map(|one| one.min), |value, best| value < best);
    floats_or(over_time::min, window, site, least)
}

pub(super) fn first(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Answer {
    floats_or(over_time::first, window, site, || window.aggregates().first().map(|one| one.first))
}

pub(super) fn time_of_first(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Answer {
    let time = || window.aggregates().first().map(|one| one.first_time as f64 / 1000.0);
    floats_or(over_time::time_of_first, window, site, time)
}

pub(super) fn rate(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Answer {
    floats_or(sampled::rate, window, site, || extrapolated(window, Kind::RATE))
}

pub(super) fn increase(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Answer {
    floats_or(sampled::increase, window, site, || extrapolated(window, Kind::INCREASE))
}

pub(super) fn delta(window: &Window<'_>, _: &[f64], site: &mut Site<'_>) -> Answer {
    floats_or(sampled::delta, window, site, || extrapolated(window, Kind::DELTA))
}

/// The result of [`super::rate`] over the samples, computed from what each cell keeps.
fn extrapolated(window: &Window<'_>, kind: Kind) -> Option<f64> {
    let (times, values, cells) = (window.float_times(), window.float_values(), window.aggregates());
    let (first, last) = (cells.first()?, *values.last()?);
    let gaps = usize::try_from(samples(window).saturating_sub(1)).unwrap_or(usize::MAX);
    let coverage = Coverage { first: first.first_time, last: *times.last()?, gaps };
    let mut result = last - first.first;
    if kind.counter {
        let start = |at: usize| window.float_starts().get(at).copied().unwrap_or(0);
        for (at, cell) in cells.iter().enumerate() {
            result += cell.resets;
            let Some(before) = at.checked_sub(1) else { continue };
            let earlier = ogive_model::CounterReading { time: times[before], start: start(before) };
            let now = ogive_model::CounterReading { time: cell.first_time, start: cell.first_start };
            let restarted = ogive_model::restarted(earlier, now);
            if cell.first < values[before] || restarted {
                result += values[before];
            }
        }
    }
    let start = if kind.counter { start_inside(window, &[first.first_start], coverage.first) } else { None };
    coverage.rate(first.first, result, window.ends(), start, kind)
}
