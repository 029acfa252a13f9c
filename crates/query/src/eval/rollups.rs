//! The resolution that a selector needs, and whether an answer from coarser samples is the same.
//!
//! Invariants: a coarser resolution is requested only where the answer stays the same, up to the last bits of float
//! sums; an approximate answer from a rollup carries an annotation.

use ogive_model::{Ms, Resolution, RollupUse, SeriesData};

use super::rows::Grid;
use super::shift::Shift;
use super::window::{RangeSeries, Windows};

/// How a range function uses the samples of a window; None when it needs each of them.
fn use_of(function: &str) -> Option<RollupUse> {
    Some(match function {
        "rate" | "increase" | "sum_over_time" => RollupUse::Together,
        "avg_over_time"
        | "count_over_time"
        | "min_over_time"
        | "max_over_time"
        | "first_over_time"
        | "ts_of_first_over_time"
        | "present_over_time" => RollupUse::Numbers,
        "last_over_time" | "ts_of_last_over_time" => RollupUse::Last,
        _ => return None,
    })
}

/// The resolution for the windows of `range` that end at the instants of `grid`.
pub(crate) fn for_windows(function: &str, shift: Shift, grid: Grid, range: Ms) -> Resolution {
    let Some(use_as) = use_of(function) else { return Resolution::Finest };
    // One window, or the same at every instant: only the ends of what is read matter.
    let is_one = grid.count == 1 || shift.apply(grid.start) == shift.apply(grid.end());
    let ends = range.greatest_common(Ms(shift.apply(grid.start))).greatest_common(Ms(grid.step));
    Resolution::Aligned { step: if is_one { Ms::ZERO } else { ends }, use_as }
}

/// The resolution for the newest samples at the instants of `grid`.
pub(crate) fn for_instants(shift: Shift, grid: Grid) -> Resolution {
    if grid.count == 1 || shift.apply(grid.start) == shift.apply(grid.end()) {
        // Only a few minutes are read.
        return Resolution::Finest;
    }
    let step = Ms(grid.step).greatest_common(Ms(shift.apply(grid.start)));
    Resolution::Aligned { step, use_as: RollupUse::Last }
}

/// Whether the result for `series` equals that from the original samples.
pub(crate) fn windows_are_exact(series: &RangeSeries, windows: Windows, function: &str, grid: Grid) -> bool {
    let width = i64::from(series.rollup_ms);
    if width == 0 {
        return true;
    }
    let histograms = !series.histogram_times.is_empty();
    let is_right = match use_of(function) {
        None => false,
        Some(RollupUse::Together) => !histograms || series.histograms_delta,
        Some(RollupUse::Numbers) => !histograms,
        Some(RollupUse::Last) => !histograms && !series.floats_delta,
    };
    is_right
        && match windows.resolution() {
            Resolution::Aligned { step, .. } if step > Ms::ZERO => step % Ms(width) == Ms::ZERO,
            // Cells inside the window were requested; where there is nothing finer, one may cross its start.
            Resolution::Aligned { .. } => windows.of(series, grid).flatten().all(|window| {
                let first = window.aggregates().first().map(|one| one.first_time);
                let cell = window.histogram_times().first().copied();
                first.is_none_or(|first| first > window.start)
                    // A lone finer cell at such a time counts as one: then the annotation is added once too often, not
                    // left out.
                    && (i64::from(series.width_ms) != width || cell.is_none_or(|end| end % width != 0 || end - width >= window.start))
            }),
            Resolution::Finest | Resolution::Width(_) => false,
        }
}

/// Whether the newest samples of `series` are the original ones.
pub(crate) fn instants_are_exact(series: &SeriesData, resolution: Resolution) -> bool {
    let width = i64::from(series.rollup_ms);
    width == 0
        || matches!(resolution, Resolution::Aligned { step, .. } if step > Ms::ZERO && step % Ms(width) == Ms::ZERO)
}
