//! Rows made of floats as they are stored: only the samples that a row needs are converted, and none is copied.
//!
//! Invariant: a row equals, bit for bit, what is made of the same samples as a [`SeriesData`](ogive_model::SeriesData).

use std::sync::Arc;

use ogive_model::{Charge, FloatRun, Labels, Memory, MemoryExceeded, RunTimes, RunValues, STALE};

use super::float_row::FloatRow;
use super::functions::{Coverage, RateKind};
use super::histogram::is_stale;
use super::places::TimeCursor;
use super::rows::Grid;
use super::shift::Shift;
use super::window::Windows;
use crate::Error;

/// A time and a value.
type Sample = (i64, f64);

/// The newest floats at the instants of a grid.
pub(super) struct NewestFloats {
    grid: Grid,
    shift: Shift,
    lookback: i64,
    /// One for each instant that was reached; the staleness marker where there is none.
    values: Vec<f64>,
    /// The last one of the runs so far.
    last: Option<Sample>,
    held: Charge,
}

impl NewestFloats {
    /// Within the last `lookback` milliseconds.
    pub(super) fn new(memory: &Arc<Memory>, grid: Grid, shift: Shift, lookback: i64) -> Result<Self, Error> {
        let held = memory.charge(grid.count.saturating_mul(size_of::<f64>()))?;
        Ok(Self { grid, shift, lookback, values: Vec::new(), last: None, held })
    }

    /// Adds the next run.
    pub(super) fn add(&mut self, run: FloatRun<'_>) {
        let FloatRun { times, values } = run;
        self.values.reserve_exact(self.grid.count - self.values.len());
        let (first, last) = (times.first(), times.last());
        let mut place = RunCursor::default();
        for step in self.values.len()..self.grid.count {
            let reference = self.shift.apply(self.grid.time(step));
            if reference > last {
                break;
            }
            let sample = if reference < first {
                self.last
            } else {
                let index = place.to(&times, reference) - 1;
                Some((times.at(index), values.at(index)))
            };
            self.values.push(self.within(sample, reference));
        }
        self.last = Some((last, values.at(times.count() - 1)));
    }

    fn within(&self, sample: Option<Sample>, reference: i64) -> f64 {
        let found = sample.filter(|(time, _)| *time > reference.saturating_sub(self.lookback));
        found.map_or(f64::from_bits(STALE), |(_, value)| value)
    }

    /// The row.
    pub(super) fn finish(mut self, labels: Labels) -> Result<FloatRow, Error> {
        for step in self.values.len()..self.grid.count {
            let reference = self.shift.apply(self.grid.time(step));
            self.values.push(self.within(self.last, reference));
        }
        FloatRow::from_values(labels, self.values, self.held)
    }
}

/// What a window has of the runs so far.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: Sample,
    last: Sample,
    count: usize,
}

/// A value below the one before it.
#[derive(Clone, Copy, Debug)]
struct Fall {
    before: Sample,
    time: i64,
}

/// The increases of floats in the windows of a grid.
pub(super) struct FloatIncreases {
    windows: Windows,
    grid: Grid,
    kind: RateKind,
    /// By instant.
    spans: Vec<Option<Span>>,
    /// The first window that may get more samples.
    open: usize,
    last: Option<Sample>,
    falls: Vec<Fall>,
    /// Samples without staleness markers.
    kept: (Vec<i64>, Vec<f64>),
    /// For spans and falls.
    held: Charge,
    /// There was no memory for falls: then there is no row.
    refused: Option<MemoryExceeded>,
}

impl FloatIncreases {
    pub(super) fn new(memory: &Arc<Memory>, windows: Windows, grid: Grid, kind: RateKind) -> Result<Self, Error> {
        let held = memory.charge(grid.count.saturating_mul(size_of::<Option<Span>>()))?;
        let (spans, falls, kept) = Default::default();
        Ok(Self { windows, grid, kind, spans, open: 0, last: None, falls, kept, held, refused: None })
    }

    /// Adds the next run.
    pub(super) fn add(&mut self, run: FloatRun<'_>) {
        match run.values {
            RunValues::Floats(values) if values.iter().any(|value| is_stale(*value)) => {
                let (mut times, mut kept) = std::mem::take(&mut self.kept);
                times.clear();
                kept.clear();
                for (index, value) in values.iter().enumerate().filter(|(_, value)| !is_stale(**value)) {
                    times.push(run.times.at(index));
                    kept.push(*value);
                }
                if !times.is_empty() {
                    self.add_plain(FloatRun { times: RunTimes::Each(&times), values: RunValues::Floats(&kept) });
                }
                self.kept = (times, kept);
            }
            _ => self.add_plain(run),
        }
    }

    /// Adds a run without staleness markers.
    fn add_plain(&mut self, run: FloatRun<'_>) {
        if self.kind.counter && self.refused.is_none() {
            let before = self.falls.len();
            self.note_falls(run);
            self.refused = self.held.grow((self.falls.len() - before) * size_of::<Fall>()).err();
        }
        let FloatRun { times, values } = run;
        self.spans.resize(self.grid.count, None);
        let (first, last) = (times.first(), times.last());
        let (mut from, mut to) = (RunCursor::default(), RunCursor::default());
        for step in self.open..self.grid.count {
            let (start, end) = self.windows.ends(self.grid.time(step));
            if start >= last {
                break;
            }
            if end >= first {
                let range = from.to(&times, start)..to.to(&times, end);
                if !range.is_empty() {
                    let sample = |index| (times.at(index), values.at(index));
                    let (first, count) =
                        self.spans[step].map_or((sample(range.start), 0), |span| (span.first, span.count));
                    let last = sample(range.end - 1);
                    self.spans[step] = Some(Span { first, last, count: count + range.len() });
                }
            }
            if end <= last {
                self.open = step + 1;
            }
        }
        self.last = Some((last, values.at(times.count() - 1)));
    }

    fn note_falls(&mut self, run: FloatRun<'_>) {
        let FloatRun { times, values } = run;
        let sample = |index| (times.at(index), values.at(index));
        if let Some(before) = self.last.filter(|last| values.at(0) < last.1) {
            self.falls.push(Fall { before, time: times.first() });
        }
        if may_fall(values) {
            let falls = (1..times.count()).filter(|index| values.at(*index) < values.at(index - 1));
            self.falls.extend(falls.map(|index| Fall { before: sample(index - 1), time: times.at(index) }));
        }
    }

    /// The row.
    pub(super) fn finish(self, memory: &Arc<Memory>, labels: Labels) -> Result<FloatRow, Error> {
        if let Some(refused) = self.refused {
            return Err(refused.into());
        }
        let mut row = FloatRow::reserved(memory, labels, false, self.grid.count)?;
        let mut falls = &self.falls[..];
        for (step, span) in self.spans.iter().enumerate() {
            let Some(Span { first, last, count }) = *span else {
                row.push(None);
                continue;
            };
            // Windows only move forward.
            let gone = falls.iter().take_while(|fall| fall.before.0 < first.0).count();
            falls = &falls[gone..];
            let mut increase = last.1 - first.1;
            falls.iter().take_while(|fall| fall.time <= last.0).for_each(|fall| increase += fall.before.1);
            let window = self.windows.ends(self.grid.time(step));
            let coverage = Coverage { first: first.0, last: last.0, gaps: count - 1 };
            row.push(coverage.rate(first.1, increase, window, None, self.kind));
        }
        (self.spans.len()..self.grid.count).for_each(|_| row.push(None));
        drop(self.held);
        Ok(row)
    }
}

/// False when no value is below the one before it.
fn may_fall(values: RunValues<'_>) -> bool {
    let RunValues::Decimals { integers, .. } = values else { return true };
    // Larger ones may differ by more than an integer holds.
    let large = integers.iter().fold(0, |all, integer| all | (integer ^ (integer >> 63)));
    // A negative difference sets the upper bit.
    let pairs = integers.iter().zip(integers.iter().skip(1));
    let differences = pairs.fold(0, |all, (before, now)| all | now.wrapping_sub(*before));
    large >> 62 != 0 || differences < 0
}

/// How many times of a run are at or before a limit that never decreases.
#[derive(Default)]
struct RunCursor {
    at: usize,
    /// How far the previous call advanced.
    stride: usize,
    each: TimeCursor,
}

impl RunCursor {
    fn to(&mut self, times: &RunTimes<'_>, limit: i64) -> usize {
        let (count, step) = match times {
            RunTimes::Each(times) => return self.each.to(times, limit),
            RunTimes::Regular { count, step, .. } => (*count, *step),
        };
        // Tried first, as dividing costs more.
        let guess = self.at + self.stride;
        let is_right = (1..count).contains(&guess) && {
            let next = times.at(guess);
            limit < next && next.wrapping_sub(step) <= limit
        };
        let to = if is_right { guess } else { times.count_until(limit) };
        self.stride = to - self.at;
        self.at = to;
        to
    }
}
