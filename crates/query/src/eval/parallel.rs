//! Evaluates series on several threads; rows are passed on in the order of the series.
//!
//! Invariants: rows, annotations and errors equal those of one thread, whatever the number of threads; the first series
//! that fails ends the query.
//! Threads: those of [`EngineOptions::threads`](crate::EngineOptions::threads), including the caller; all end with the
//! call.
//! Limits: each thread evaluates [`WAVE`] series before their rows are passed on, so that no more than those wait.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ogive_model::{Memory, Opening, SeriesColumns, SeriesData, SeriesSet, TimeRange};

use super::evaluator::{Evaluator, Sink};
use super::fetched::{hint_resets, size};
use super::joined::{JoinedSeries, joined};
use super::memory::{columns_bytes, series_bytes};
use crate::ast::VectorSelector;
use crate::threads::on_threads;
use crate::{Annotations, Error};

/// 64 series for each thread and wave: a day of samples every 30 s is then 3 MB, which stays in a processor's cache;
/// starting a thread, some 20 us, is less than a hundredth of the work.
const WAVE: usize = 64;

/// With fewer series, a second thread does not pay off.
const SERIES_MIN: usize = 8;

/// Evaluates one series.
pub(crate) type EvaluateWhole<'e, T> = dyn Fn(JoinedSeries, &mut Annotations) -> Result<Option<T>, Error> + Sync + 'e;

/// Evaluates one series of histograms whose bins are columns.
pub(crate) type EvaluateColumns<'e, T> =
    dyn Fn(SeriesColumns, &mut Annotations) -> Result<Option<T>, Error> + Sync + 'e;

/// A series of floats that was read as it is stored.
pub(crate) struct TakenFloats<T> {
    pub(crate) samples: usize,
    pub(crate) row: Option<T>,
}

/// Evaluates a label set of floats as they are stored; None when it is not to be had as such, and not read yet.
pub(crate) type EvaluateFloats<'e, T> =
    dyn Fn(&dyn SeriesSet, usize, &mut Annotations) -> Result<Option<TakenFloats<T>>, Error> + Sync + 'e;

/// How series are evaluated.
pub(crate) struct Evaluate<'e, T> {
    pub(crate) whole: &'e EvaluateWhole<'e, T>,
    /// Where histograms are wanted as columns: of those series that have them as such.
    pub(crate) columns: Option<&'e EvaluateColumns<'e, T>>,
    /// Where few samples of floats are needed: of those series that have nothing else.
    pub(crate) floats: Option<&'e EvaluateFloats<'e, T>>,
}

/// Which series are read, and how.
pub(crate) struct SeriesRead {
    /// Cumulative histograms are compared with their predecessors.
    pub(crate) hinted: bool,
    /// Most samples that may be read, a histogram counting as [`super::fetched::value_size`].
    pub(crate) samples_max: usize,
}

/// The result of a thread for its share.
struct Share<T> {
    rows: Vec<T>,
    notes: Annotations,
    series: usize,
    samples: usize,
    rollup_ms: u32,
    error: Option<Error>,
}

impl<'a> Evaluator<'a> {
    /// Opens the series of `selector` in `window`.
    pub(crate) fn open(
        &mut self,
        selector: &VectorSelector,
        window: TimeRange,
        resolution: ogive_model::Resolution,
    ) -> Result<Box<dyn SeriesSet + 'a>, Error> {
        let opening = Opening {
            series_max: self.options.series_max,
            cancelled: self.cancelled,
            memory: Some(&self.memory),
            ..Opening::UNBOUNDED
        };
        Ok(self.store.open(&self.selection(selector, window, resolution), &opening)?)
    }

    /// Passes the rows that `evaluate` makes of the series of `set` to `sink`, in order.
    pub(crate) fn each_evaluated<T: Send>(
        &mut self,
        set: &dyn SeriesSet,
        read: &SeriesRead,
        evaluate: &Evaluate<'_, T>,
        sink: &mut Sink<'_, 'a, T>,
    ) -> Result<(), Error> {
        let count = set.count();
        let threads = self.options.threads.clamp(1, count.div_ceil(SERIES_MIN).max(1));
        let held = AtomicUsize::new(0);
        let (cancelled, memory) = (self.cancelled, Arc::clone(&self.memory));
        let share = |numbers: Range<usize>| {
            let mut share = Share::new();
            let outcome = numbers.into_iter().try_for_each(|number| {
                if cancelled() {
                    return Err(Error::Cancelled);
                }
                share.take(set, number, read, evaluate, &held, &memory)
            });
            share.error = outcome.err();
            share
        };
        for begin in (0..count).step_by(WAVE * threads) {
            let shares = on_threads(begin..count.min(begin + WAVE * threads), threads, &share);
            for share in shares {
                self.take_share(share, sink)?;
            }
        }
        for warning in set.warnings() {
            self.note_gap(warning);
        }
        Ok(())
    }

    fn take_share<T>(&mut self, share: Share<T>, sink: &mut Sink<'_, 'a, T>) -> Result<(), Error> {
        self.notes_mut().merge(share.notes);
        self.stats.series_read += share.series;
        self.stats.samples_read += share.samples;
        self.stats.rollup_ms = self.stats.rollup_ms.max(share.rollup_ms);
        share.rows.into_iter().try_for_each(|row| sink(self, row))?;
        share.error.map_or(Ok(()), Err)
    }
}

impl<T> Share<T> {
    fn new() -> Self {
        Self { rows: Vec::new(), notes: Annotations::new(), series: 0, samples: 0, rollup_ms: 0, error: None }
    }

    /// Evaluates the series of one label set. `held` is what all threads have read, as limits count it.
    fn take(
        &mut self,
        set: &dyn SeriesSet,
        number: usize,
        read: &SeriesRead,
        evaluate: &Evaluate<'_, T>,
        held: &AtomicUsize,
        memory: &Arc<Memory>,
    ) -> Result<(), Error> {
        if let Some(evaluate) = evaluate.floats
            && let Some(TakenFloats { samples, row }) = evaluate(set, number, &mut self.notes)?
        {
            self.count_samples(samples, samples, read, held)?;
            self.rows.extend(row);
            return Ok(());
        }
        if let Some(evaluate) = evaluate.columns
            && let Some(found) = set.take_columns(number)?
        {
            self.count(&found.series, found.bins, read, held)?;
            let _held = memory.charge(series_bytes(&found.series) + columns_bytes(&found))?;
            self.rows.extend(evaluate(found, &mut self.notes)?);
            return Ok(());
        }
        for mut one in joined(set.take(number)?) {
            self.count(&one, 0, read, held)?;
            let _held = memory.charge(series_bytes(&one))?;
            if read.hinted {
                hint_resets(&mut one.data);
            }
            self.rows.extend((evaluate.whole)(one, &mut self.notes)?);
        }
        Ok(())
    }

    /// Counts a series that was read, of which `bins` are elsewhere.
    fn count(&mut self, one: &SeriesData, bins: usize, read: &SeriesRead, held: &AtomicUsize) -> Result<(), Error> {
        self.count_samples(one.floats.times.len() + one.histograms.times.len(), size(one) + bins, read, held)?;
        self.rollup_ms = self.rollup_ms.max(one.rollup_ms);
        Ok(())
    }

    /// Counts a series of `samples`, which limits count as `size`.
    fn count_samples(
        &mut self,
        samples: usize,
        size: usize,
        read: &SeriesRead,
        held: &AtomicUsize,
    ) -> Result<(), Error> {
        // ORDERING: Relaxed; a sum that guards no other memory.
        let before = held.fetch_add(size, Ordering::Relaxed);
        if before.saturating_add(size) > read.samples_max {
            return Err(Error::TooManySamples { limit: read.samples_max });
        }
        self.series += 1;
        self.samples += samples;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_in_one_share_and_shares_are_in_order() {
        for threads in 1..6 {
            for count in 0..40 {
                let found: Vec<usize> =
                    on_threads(3..3 + count, threads, &|part| part.collect::<Vec<_>>()).into_iter().flatten().collect();
                assert_eq!(found, (3..3 + count).collect::<Vec<_>>(), "{threads} threads");
            }
        }
    }
}
