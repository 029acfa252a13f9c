//! A column of ascending times; regular ones take a few bytes, however many.
//!
//! Invariants: times ascend before they are written, and after they are read whatever their bytes are.
//! Format: the first time, the greatest common step of the differences, and the differences in steps: omitted when all
//! are 1, as runs of ones with the exceptions when gaps are few, otherwise as integers.

use crate::bytes::{Broken, Cursor, put_signed, put_varint};
use crate::codec::integers;

const REGULAR: u8 = 0;
const RUNS: u8 = 1;
const STEPS: u8 = 2;

/// Appends `times`, which ascend; equal neighbours are taken.
pub(crate) fn put(out: &mut Vec<u8>, times: &[i64]) {
    let Some(first) = times.first() else { return };
    let differences: Vec<u64> = times.windows(2).map(|pair| difference(pair[0], pair[1])).collect();
    let step = differences.iter().fold(0, |all, difference| gcd(all, *difference)).max(1);
    let steps: Vec<i64> = differences.iter().map(|difference| (difference / step) as i64).collect();
    debug_assert_eq!(
        steps.iter().map(|steps| i128::from(*steps as u64) * i128::from(step)).sum::<i128>(),
        i128::from(times[times.len() - 1]) - i128::from(*first),
        "steps of {step} lead from the first time to the last"
    );
    if steps.iter().all(|steps| *steps == 1) {
        out.push(REGULAR);
        put_signed(out, *first);
        put_varint(out, step);
        return;
    }
    let (mut runs, mut columns) = (Vec::new(), Vec::new());
    put_runs(&mut runs, &steps);
    integers::put(&mut columns, &steps);
    let (tag, body) = if runs.len() <= columns.len() { (RUNS, runs) } else { (STEPS, columns) };
    out.push(tag);
    put_signed(out, *first);
    put_varint(out, step);
    out.extend_from_slice(&body);
}

/// Times as they are written.
pub(crate) enum Times {
    /// Evenly spaced: the first, and what is between two.
    Regular(i64, i64),
    Each(Vec<i64>),
}

/// Reads `count` times.
pub(crate) fn get(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<i64>, Broken> {
    Ok(match read(cursor, count)? {
        Times::Regular(first, step) => (0..count as u64)
            .map(|at| first.wrapping_add(step.cast_unsigned().wrapping_mul(at).cast_signed()))
            .collect(),
        Times::Each(times) => times,
    })
}

/// As [`get`], without those that follow from others.
pub(crate) fn read(cursor: &mut Cursor<'_>, count: usize) -> Result<Times, Broken> {
    if count == 0 {
        return Ok(Times::Each(Vec::new()));
    }
    let tag = cursor.byte()?;
    let (first, step) = (cursor.signed()?, cursor.varint()?);
    if tag == REGULAR {
        let last = i128::from(first) + i128::from(step) * (count as i128 - 1);
        i64::try_from(last).map_err(|_| cursor.broken(format!("a time of {last}")))?;
        return Ok(Times::Regular(first, step.cast_signed()));
    }
    let steps = match tag {
        RUNS => get_runs(cursor, count - 1)?,
        STEPS => integers::get(cursor, count - 1)?,
        tag => return Err(cursor.broken(format!("{tag} is no coding of times"))),
    };
    let mut times = Vec::with_capacity(count);
    times.push(first);
    let mut last = i128::from(first);
    for steps in steps {
        last += i128::from(steps as u64) * i128::from(step);
        times.push(i64::try_from(last).map_err(|_| cursor.broken(format!("a time of {last}")))?);
    }
    debug_assert!(times.is_sorted(), "times that were read ascend, whatever their bytes are");
    debug_assert_eq!(times.len(), count, "a column has as many times as were asked for");
    Ok(Times::Each(times))
}

fn difference(before: i64, after: i64) -> u64 {
    assert!(before <= after, "time {after} follows {before}");
    after.wrapping_sub(before) as u64
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Pairs of a run of ones and the steps that end it; the last run stands alone.
fn put_runs(out: &mut Vec<u8>, steps: &[i64]) {
    let mut run = 0;
    for steps in steps {
        if *steps == 1 {
            run += 1;
        } else {
            put_varint(out, run);
            put_varint(out, *steps as u64);
            run = 0;
        }
    }
    put_varint(out, run);
}

fn get_runs(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<i64>, Broken> {
    let mut steps = Vec::with_capacity(count);
    loop {
        let run = cursor.count(count - steps.len(), "steps of one")?;
        steps.resize(steps.len() + run, 1);
        if steps.len() == count {
            return Ok(steps);
        }
        steps.push(cursor.varint()? as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(times: &[i64]) -> usize {
        let mut out = Vec::new();
        put(&mut out, times);
        let mut cursor = Cursor::new(&out);
        assert_eq!(get(&mut cursor, times.len()).unwrap(), times);
        assert!(cursor.is_empty());
        out.len()
    }

    #[test]
    fn regular_times_take_no_room_and_gaps_little() {
        let regular: Vec<i64> = (0..3600).map(|i| 1_700_000_000_000 + i * 1000).collect();
        assert_eq!(check(&regular), 1 + 6 + 2);
        let gaps: Vec<i64> = regular.iter().copied().filter(|time| time / 1000 % 900 != 7).collect();
        assert!(check(&gaps) < 30);
        assert_eq!(check(&[5]), 3);
        check(&[5, 5, 5]);
        check(&[1, 4, 4, 7]);
        check(&[i64::MIN, 0, i64::MAX]);
        check(&[i64::MIN, i64::MAX]);
        // The last time ends a run: the run after it is empty and written.
        check(&[1, 2, 3, 9]);
    }

    proptest! {
        #[test]
        fn any_ascending_times_come_back(mut times in proptest::collection::vec(any::<i64>(), 0..300)) {
            times.sort_unstable();
            check(&times);
        }

        #[test]
        fn any_jittered_times_come_back(jitter in proptest::collection::vec(0..40_i64, 0..300)) {
            let times: Vec<i64> = jitter.iter().enumerate().map(|(i, jitter)| i as i64 * 100 + jitter).collect();
            check(&times);
        }

        #[test]
        fn any_bytes_are_ascending_times_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..100), count in 0..400_usize) {
            if !bytes.contains(&3)
                && let Ok(times) = get(&mut Cursor::new(&bytes), count)
            {
                assert!(times.is_sorted());
            }
        }
    }
}
