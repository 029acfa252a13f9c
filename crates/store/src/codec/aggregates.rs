//! The aggregates of a rollup besides the last float of each cell, one column for each field.
//!
//! Invariants: every field is restored bit for bit; each cell has its aggregate.
//! Format: docs/formats/block.md, "Aggregates".

use ogive_model::Aggregate;

use crate::bytes::{Broken, Cursor};
use crate::codec::{floats, integers};

/// Appends the aggregates of the samples at `times`.
pub(crate) fn put(out: &mut Vec<u8>, times: &[i64], aggregates: &[Aggregate]) {
    assert_eq!(times.len(), aggregates.len(), "each cell has its aggregate");
    let column = |field: fn(&Aggregate) -> f64| aggregates.iter().map(field).collect::<Vec<f64>>();
    integers::put(out, &aggregates.iter().map(|one| one.count.cast_signed()).collect::<Vec<_>>());
    let fields: [fn(&Aggregate) -> f64; 5] =
        [|one| one.sum, |one| one.min, |one| one.max, |one| one.first, |one| one.resets];
    fields.into_iter().for_each(|field| floats::put(out, &column(field)));
    // From the first sample to the row's time: of a regular series all are the same.
    let spans = aggregates.iter().zip(times).map(|(one, time)| time.wrapping_sub(one.first_time));
    integers::put(out, &spans.collect::<Vec<_>>());
    integers::put(out, &aggregates.iter().map(|one| one.first_start).collect::<Vec<_>>());
}

/// Reads the aggregates of the samples at `times`.
pub(crate) fn get(cursor: &mut Cursor<'_>, times: &[i64]) -> Result<Vec<Aggregate>, Broken> {
    let count = times.len();
    let counts = integers::get(cursor, count)?;
    let (sums, mins, maxs) = (floats::get(cursor, count)?, floats::get(cursor, count)?, floats::get(cursor, count)?);
    let (firsts, resets) = (floats::get(cursor, count)?, floats::get(cursor, count)?);
    let (spans, starts) = (integers::get(cursor, count)?, integers::get(cursor, count)?);
    let aggregate = |at: usize| Aggregate {
        count: counts[at].cast_unsigned(),
        sum: sums[at],
        min: mins[at],
        max: maxs[at],
        first: firsts[at],
        first_time: times[at].wrapping_sub(spans[at]),
        first_start: starts[at],
        resets: resets[at],
    };
    Ok((0..count).map(aggregate).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::any_float;

    proptest! {
        #[test]
        fn aggregates_come_back_bit_for_bit(rows in proptest::collection::vec(
            (any::<i64>(), any::<u64>(), [any_float(), any_float(), any_float(), any_float(), any_float()], any::<i64>(), any::<i64>()), 0..60,
        )) {
            let times: Vec<i64> = rows.iter().map(|row| row.0).collect();
            let mut aggregates = Vec::new();
            for (_, count, [sum, min, max, first, resets], first_time, first_start) in rows {
                aggregates.push(Aggregate { count, sum, min, max, first, first_time, first_start, resets });
            }
            let mut out = Vec::new();
            put(&mut out, &times, &aggregates);
            let mut cursor = Cursor::new(&out);
            let found = get(&mut cursor, &times).unwrap();
            prop_assert!(cursor.is_empty());
            let bits = |one: &Aggregate| {
                let floats = [one.sum, one.min, one.max, one.first, one.resets].map(f64::to_bits);
                (one.count, floats, one.first_time, one.first_start)
            };
            prop_assert_eq!(found.iter().map(bits).collect::<Vec<_>>(), aggregates.iter().map(bits).collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_are_aggregates_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), count in 0..40_usize) {
            let _ = get(&mut Cursor::new(&bytes), &vec![1000; count]);
        }
    }
}
