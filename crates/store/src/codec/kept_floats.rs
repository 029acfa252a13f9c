//! All floats of a chunk in memory, to be read again: times that are evenly spaced are not made, decimals are integers
//! in few bytes.
//!
//! Invariant: its runs have the times and, bit for bit, the values that
//! [`Chunk::floats`](super::chunk::Chunk::floats) gives.

use ogive_model::{FloatColumn, FloatRun, RunTimes, RunValues, TimeRange};

use crate::codec::chunk::extend_starts;
use crate::codec::float_run::{Found, RunScratch, part, rows_of};
use crate::codec::floats;
use crate::codec::narrow::NarrowColumn;

/// See the module.
#[derive(Debug)]
pub(crate) struct KeptFloats {
    times: KeptTimes,
    values: KeptValues,
}

#[derive(Debug)]
enum KeptTimes {
    Regular { first: i64, step: i64, count: usize },
    Each(Box<[i64]>),
}

#[derive(Debug)]
enum KeptValues {
    Floats(Box<[f64]>),
    Decimals { integers: NarrowColumn, power: f64 },
}

impl KeptFloats {
    /// Keeps the samples of a run.
    pub(crate) fn new(run: &FloatRun<'_>) -> Self {
        let times = match run.times {
            RunTimes::Regular { first, step, count } => KeptTimes::Regular { first, step, count },
            RunTimes::Each(times) => KeptTimes::Each(times.into()),
        };
        let values = match run.values {
            RunValues::Floats(floats) => KeptValues::Floats(floats.into()),
            RunValues::Decimals { integers, power } => {
                KeptValues::Decimals { integers: NarrowColumn::new(integers.iter().copied()), power }
            }
        };
        Self { times, values }
    }

    fn times(&self) -> RunTimes<'_> {
        match &self.times {
            KeptTimes::Regular { first, step, count } => {
                RunTimes::Regular { first: *first, step: *step, count: *count }
            }
            KeptTimes::Each(times) => RunTimes::Each(times),
        }
    }

    /// The samples inside `range`.
    pub(crate) fn run<'s>(&'s self, range: TimeRange, scratch: &'s mut RunScratch) -> Found<'s> {
        let rows = rows_of(&self.times(), range);
        if rows.is_empty() {
            return Found::Nothing;
        }
        let values = match &self.values {
            KeptValues::Floats(floats) => RunValues::Floats(&floats[rows.clone()]),
            KeptValues::Decimals { integers: narrow, power } => {
                let integers = &mut scratch.values.integers;
                integers.resize(rows.len(), 0);
                narrow.read(rows.clone(), integers, |integer| integer);
                RunValues::Decimals { integers, power: *power }
            }
        };
        Found::Run(FloatRun { times: part(self.times(), rows), values })
    }

    /// How many samples are inside `range`.
    pub(crate) fn count_inside(&self, range: TimeRange) -> usize {
        rows_of(&self.times(), range).len()
    }

    /// Appends the samples inside `range` to `column`.
    pub(crate) fn append(&self, range: TimeRange, column: &mut FloatColumn) {
        let mut scratch = RunScratch::default();
        let Found::Run(run) = self.run(range, &mut scratch) else { return };
        let (held, count) = (column.times.len(), run.times.count());
        match run.times {
            RunTimes::Regular { .. } => column.times.extend((0..count).map(|at| run.times.at(at))),
            RunTimes::Each(times) => column.times.extend_from_slice(times),
        }
        match run.values {
            RunValues::Floats(floats) => column.values.extend_from_slice(floats),
            RunValues::Decimals { integers, power } => floats::extend_divided(&mut column.values, integers, power),
        }
        extend_starts(&mut column.starts, held, &[], 0..count);
    }

    /// Bytes beside those of the type itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        let times = match &self.times {
            KeptTimes::Regular { .. } => 0,
            KeptTimes::Each(times) => size_of_val(&**times),
        };
        let values = match &self.values {
            KeptValues::Floats(floats) => size_of_val(&**floats),
            KeptValues::Decimals { integers, .. } => integers.heap_bytes(),
        };
        times + values
    }
}
