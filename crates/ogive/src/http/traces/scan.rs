//! Reading texts backwards in time, a window after the other, so that the newest come first and memory stays small.
//!
//! Invariants: every text of the wanted series in the range comes once, in descending time; those of one instant by labels,
//! then as the store orders them. Limits: [`WINDOW_SAMPLES_MAX`], [`INSTANT_SAMPLES_MAX`].

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use ogive_model::{Charge, Labels, Matcher, SelectError, Selection, SeriesData, TimeRange};
use ogive_query::series_bytes;

use super::super::ask::Cancel;
use super::super::error::ApiError;
use crate::backend::Reader;

/// 2,000 texts in memory at a time: 2 MB of slow traces.
const WINDOW_SAMPLES_MAX: usize = 2_000;

/// 100,000 texts of one millisecond: a cell has one instant, and twenty-four processes may each give it 4,096 traces.
const INSTANT_SAMPLES_MAX: usize = 100_000;

/// The first window: a minute.
const WINDOW_MS: i64 = 60_000;

/// One text where it was found.
pub(super) struct Found {
    pub(super) time_ms: i64,
    pub(super) labels: Labels,
    pub(super) text: String,
}

/// Hands each text of `series` in `range` to `each`, until that breaks.
pub(super) fn backwards(
    store: &dyn Reader,
    cancel: &Cancel,
    matchers: &[Matcher],
    series: &BTreeSet<Labels>,
    range: TimeRange,
    mut each: impl FnMut(Found) -> ControlFlow<()>,
) -> Result<(), ApiError> {
    let (mut end_ms, mut width_ms) = (range.end_ms, WINDOW_MS);
    while end_ms > range.start_ms {
        if cancel.is_set() {
            return Err(ApiError::timeout("the query was cancelled"));
        }
        let start_ms = end_ms.saturating_sub(width_ms).max(range.start_ms);
        let samples_max = if width_ms == 1 { INSTANT_SAMPLES_MAX } else { WINDOW_SAMPLES_MAX };
        let window = TimeRange { start_ms, end_ms };
        let selection = Selection {
            matchers: matchers.to_vec(),
            range: window,
            samples_max,
            labels_only: false,
            resolution: Default::default(),
        };
        let (found, _held) = match read(cancel, store, &selection) {
            Err(SelectError::TooManySamples { .. }) if width_ms > 1 => {
                width_ms = (width_ms / 4).max(1);
                continue;
            }
            read => read?,
        };
        let found = newest_first(found, series);
        if found.len() < WINDOW_SAMPLES_MAX / 8 {
            width_ms = width_ms.saturating_mul(4);
        }
        for one in found {
            if each(one).is_break() {
                return Ok(());
            }
        }
        end_ms = start_ms;
    }
    Ok(())
}

/// All of a window, charged until its texts were handed on.
fn read(cancel: &Cancel, store: &dyn Reader, selection: &Selection) -> Result<(Vec<SeriesData>, Charge), SelectError> {
    let set = cancel.opening(|opening| store.open(selection, opening))?;
    let (mut found, mut held) = (Vec::new(), cancel.memory().empty());
    for number in 0..set.count() {
        for one in set.take(number)? {
            held.grow(series_bytes(&one))?;
            found.push(one);
        }
    }
    match set.warnings().into_iter().next() {
        Some(missing) => Err(SelectError::Unavailable(missing)),
        None => Ok((found, held)),
    }
}

fn newest_first(found: Vec<SeriesData>, series: &BTreeSet<Labels>) -> Vec<Found> {
    let mut out = Vec::new();
    for data in found.into_iter().filter(|data| series.contains(&data.labels)) {
        let texts = data.texts.times.into_iter().zip(data.texts.values);
        out.extend(texts.map(|(time_ms, text)| Found { time_ms, labels: data.labels.clone(), text }));
    }
    // Stable: those of one instant stay by labels and in order.
    out.sort_by_key(|one| std::cmp::Reverse(one.time_ms));
    out
}
