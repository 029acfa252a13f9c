//! A chunk of floats as a run: times that are evenly spaced are not made, decimals are not divided.
//!
//! Invariant: the run has the times and, bit for bit, the values that
//! [`Chunk::floats`](super::chunk::Chunk::floats) gives.

use std::ops::Range;

use ogive_model::{FloatRun, RunTimes, RunValues, TimeRange};

use crate::bytes::{Broken, Cursor};
use crate::codec::chunk::{NO_STARTS, SAMPLES_MAX};
use crate::codec::floats::{self, Form, Scratch};
use crate::codec::times::{self, Times};

/// What a chunk has of a range.
pub(crate) enum Found<'s> {
    Run(FloatRun<'s>),
    /// No sample.
    Nothing,
    /// Starts, or times that do not ascend: no run has these.
    Unfit,
}

/// Room for a run, used again for the next one.
#[derive(Debug, Default)]
pub(crate) struct RunScratch {
    times: Vec<i64>,
    pub(super) values: Scratch,
}

/// Reads all samples of a chunk of floats, which are not those of a rollup; None when they are no run.
pub(crate) fn read_whole<'s>(bytes: &[u8], scratch: &'s mut RunScratch) -> Result<Option<FloatRun<'s>>, Broken> {
    let mut cursor = Cursor::new(bytes);
    let count = cursor.count(SAMPLES_MAX, "samples")?;
    let read = times::read(&mut cursor, count)?;
    if cursor.byte()? != NO_STARTS {
        return Ok(None);
    }
    let form = floats::read(&mut cursor, count, &mut scratch.values)?;
    if !cursor.is_empty() {
        return Err(cursor.broken("bytes follow the last value"));
    }
    let times = match read {
        Times::Regular(first, step) if step > 0 && count > 0 => RunTimes::Regular { first, step, count },
        Times::Each(times) if times.is_sorted_by(|one, next| one < next) => {
            scratch.times = times;
            RunTimes::Each(&scratch.times)
        }
        // One time is evenly spaced however far from itself.
        Times::Regular(first, _) if count == 1 => RunTimes::Regular { first, step: 1, count },
        Times::Regular(..) | Times::Each(_) => return Ok(None),
    };
    let values = match form {
        Form::Floats => RunValues::Floats(&scratch.values.floats),
        Form::Decimals(power) => RunValues::Decimals { integers: &scratch.values.integers, power },
    };
    Ok(Some(FloatRun { times, values }))
}

/// What a run has inside `range`.
pub(crate) fn inside<'s>(FloatRun { times, values }: FloatRun<'s>, range: TimeRange) -> Found<'s> {
    let rows = rows_of(&times, range);
    if rows.is_empty() {
        return Found::Nothing;
    }
    let values = match values {
        RunValues::Floats(floats) => RunValues::Floats(&floats[rows.clone()]),
        RunValues::Decimals { integers, power } => RunValues::Decimals { integers: &integers[rows.clone()], power },
    };
    Found::Run(FloatRun { times: part(times, rows), values })
}

/// The rows of times that are inside `range`.
pub(super) fn rows_of(times: &RunTimes<'_>, range: TimeRange) -> Range<usize> {
    times.count_until(range.start.0)..times.count_until(range.end.0)
}

/// The times of some rows, at least one.
pub(super) fn part(times: RunTimes<'_>, rows: Range<usize>) -> RunTimes<'_> {
    match times {
        RunTimes::Regular { step, .. } => RunTimes::Regular { first: times.at(rows.start), step, count: rows.len() },
        RunTimes::Each(times) => RunTimes::Each(&times[rows]),
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::{FloatColumn, Kind, Labels, SeriesData, Temporality};
    use proptest::prelude::*;

    use super::*;
    use crate::codec::chunk::{self, Chunk};
    use crate::codec::dictionary::{Effort, Packer};
    use crate::testing::empty;

    fn chunk_of(times: Vec<i64>, values: Vec<f64>) -> Vec<u8> {
        let blank = empty(Labels::empty(), Kind::Float, Temporality::Gauge);
        let rows = 0..times.len();
        let series = SeriesData { floats: FloatColumn { times, values, ..FloatColumn::default() }, ..blank };
        let mut out = Vec::new();
        chunk::put(&mut out, &series, rows, &mut Packer::new(Effort::Quick));
        out
    }

    /// What is read as a run, as a column.
    fn column(bytes: &[u8], range: TimeRange) -> Option<FloatColumn> {
        let mut scratch = RunScratch::default();
        let mut column = FloatColumn::default();
        match inside(read_whole(bytes, &mut scratch).unwrap()?, range) {
            Found::Unfit => unreachable!("it is a run"),
            Found::Nothing => {}
            Found::Run(run) => {
                column.times.extend((0..run.times.count()).map(|at| run.times.at(at)));
                column.values.extend((0..run.times.count()).map(|at| run.values.at(at)));
            }
        }
        Some(column)
    }

    proptest! {
        #[test]
        fn a_run_is_what_the_chunk_is(
            steps in prop_oneof![
                proptest::collection::vec(0..40_i64, 1..200), proptest::collection::vec(Just(10), 1..400),
            ],
            digits in 0..12_i32, odd in proptest::option::of(0..400_usize), from in -50..3000_i64, length in 0..4000_i64,
        ) {
            let times: Vec<i64> = steps.iter().scan(0, |time, step| { *time += step; Some(*time) }).collect();
            let mut values: Vec<f64> =
                (0..times.len()).map(|at| (at * at % 977) as f64 / 10_f64.powi(digits)).collect();
            if let Some(value) = odd.and_then(|at| values.get_mut(at)) {
                *value = f64::from_bits(ogive_model::STALE);
            }
            let ascends = times.is_sorted_by(|one, next| one < next);
            let bytes = chunk_of(times, values);
            let range = TimeRange::from_ms(from, from + length);
            let found = column(&bytes, range);
            prop_assert_eq!(found.is_some(), ascends);
            let Some(found) = found else { return Ok(()) };
            let mut expected = FloatColumn::default();
            let opened = Chunk::open(&bytes).unwrap();
            let rows = opened.rows(range);
            opened.floats(rows, false, &mut expected).unwrap();
            let bits = |column: &FloatColumn| column.values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&found), bits(&expected));
            prop_assert_eq!(found.times, expected.times);
        }

        #[test]
        fn any_bytes_are_a_run_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if !bytes.contains(&3) && !bytes.contains(&2) {
                let _ = read_whole(&bytes, &mut RunScratch::default());
            }
        }
    }
}
