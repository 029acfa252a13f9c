//! Full parts in the head, compressed: times, starts, and floats as decimals, differences or bits; histograms are in
//! [`super::packed_histograms`], texts in [`super::packed_texts`].
//!
//! Invariants: every bit of a value is restored, NaN payloads and -0 included; regular times take a few bytes, however
//! many. These bytes are never written to a disk, so their format may change.
//! Limits: a part has at most [`COUNT_MAX`] rows. Decimal values have at most nine places, as in a block, and up to
//! [`EXCEPTIONS_MAX`] values may be exceptions; with more, the bits are compressed instead.

use ogive_model::TimeRange;

use crate::bytes::{Cursor, put_signed};
use crate::codec::bits::BitWriter;
use crate::codec::{floats, integers};

/// Positions of exceptions are bytes.
pub(crate) const COUNT_MAX: usize = 256;
/// 8 values of 128: a marker of staleness now and then must not cost the others their packing; each takes 9 bytes.
const EXCEPTIONS_MAX: usize = 8;
/// Form of values that are no decimals; others are the number of their decimal places.
const BITS: u8 = 255;
const _: () = assert!(floats::POWERS.len() <= BITS as usize);
/// Form of integers that rise by the same each.
const REGULAR: u8 = 0;
const OFFSETS: u8 = 1;
const DIFFERENCES: u8 = 2;

/// Rows of a part, in three columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Columns {
    pub(crate) times: Vec<i64>,
    pub(crate) values: Vec<f64>,
    /// Empty when none is known.
    pub(crate) starts: Vec<i64>,
}

/// Packed rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Packed {
    bytes: Box<[u8]>,
    pub(crate) first: i64,
    pub(crate) last: i64,
    count: u16,
    has_starts: bool,
}

/// The rows of a full part.
pub(crate) struct PackedRows<'a> {
    pub(crate) times: Vec<i64>,
    /// Empty when no row has one.
    pub(crate) starts: Vec<i64>,
    /// Where the values are.
    pub(crate) values: Cursor<'a>,
}

impl Packed {
    /// Packs rows of floats of which there is one at least.
    pub(crate) fn from_columns(columns: &Columns) -> Self {
        let Columns { times, values, starts } = columns;
        assert!(times.len() == values.len(), "{} times of {} values", times.len(), values.len());
        Self::new(times, starts, |out| put_values(out, values))
    }

    /// Packs rows of which there is one at least, their values as `put_rows` does.
    pub(crate) fn new(times: &[i64], starts: &[i64], put_rows: impl FnOnce(&mut Vec<u8>)) -> Self {
        assert!(!times.is_empty() && times.len() <= COUNT_MAX, "{} rows", times.len());
        assert!(starts.is_empty() || starts.len() == times.len(), "{} starts of {} rows", starts.len(), times.len());
        let mut out = Vec::with_capacity(4 * times.len());
        put_integers(&mut out, times);
        if !starts.is_empty() {
            // Cells begin a width before they end, counters began at one time.
            let (mut lengths, mut plain) = (Vec::new(), Vec::new());
            let of: Vec<i64> = times.iter().zip(starts).map(|(time, start)| time.wrapping_sub(*start)).collect();
            put_integers(&mut lengths, &of);
            put_integers(&mut plain, starts);
            out.push(u8::from(lengths.len() < plain.len()));
            out.extend_from_slice(if lengths.len() < plain.len() { &lengths } else { &plain });
        }
        put_rows(&mut out);
        Self {
            bytes: out.into(),
            first: times[0],
            last: times[times.len() - 1],
            count: times.len() as u16,
            has_starts: !starts.is_empty(),
        }
    }

    /// The rows of floats.
    pub(crate) fn columns(&self) -> Columns {
        let PackedRows { times, starts, values: mut cursor } = self.open();
        let values = get_values(&mut cursor, times.len()).expect("as it was packed");
        assert!(cursor.is_empty(), "bytes are left over");
        Columns { times, values, starts }
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.count.into()
    }

    /// What it holds, the values yet to be read.
    pub(crate) fn open(&self) -> PackedRows<'_> {
        let count = usize::from(self.count);
        let mut cursor = Cursor::new(&self.bytes);
        let read = |cursor: &mut Cursor<'_>| get_integers(cursor, count).expect("as it was packed");
        let times = read(&mut cursor);
        let mut starts = Vec::new();
        if self.has_starts {
            let lengths = cursor.byte().expect("as it was packed") == 1;
            starts = read(&mut cursor);
            if lengths {
                starts.iter_mut().zip(&times).for_each(|(start, time)| *start = time.wrapping_sub(*start));
            }
        }
        debug_assert_eq!((times[0], times[count - 1]), (self.first, self.last), "times come back as they were packed");
        PackedRows { times, starts, values: cursor }
    }

    /// The times alone.
    pub(crate) fn times(&self) -> Vec<i64> {
        get_integers(&mut Cursor::new(&self.bytes), self.len()).expect("as it was packed")
    }

    /// Whether a row is inside `range`.
    pub(crate) fn is_in(&self, range: TimeRange) -> bool {
        self.times().iter().any(|time| range.contains_ms(*time))
    }

    /// Bytes that it points to.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

pub(crate) fn put_values(out: &mut Vec<u8>, values: &[f64]) {
    assert!(values.len() <= COUNT_MAX, "positions of {} values have a byte each", values.len());
    let mut integers = Vec::with_capacity(values.len());
    let mut exceptions = Vec::new();
    match decimals(values, &mut integers, &mut exceptions) {
        Some(exponent) => {
            out.extend_from_slice(&[exponent as u8, exceptions.len() as u8]);
            for at in exceptions {
                out.push(at as u8);
                out.extend_from_slice(&values[at].to_bits().to_le_bytes());
            }
        }
        None => {
            out.push(BITS);
            integers.clear();
            integers.extend(values.iter().map(|value| value.to_bits().cast_signed()));
        }
    }
    debug_assert_eq!(integers.len(), values.len(), "each value has its integer");
    put_integers(out, &integers);
}

pub(crate) fn get_values(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<f64>, crate::bytes::Broken> {
    let exponent = cursor.byte()?;
    if exponent == BITS {
        let bits = get_integers(cursor, count)?;
        return Ok(bits.into_iter().map(|bits| f64::from_bits(bits.cast_unsigned())).collect());
    }
    let mut exceptions = Vec::new();
    for _ in 0..cursor.byte()? {
        exceptions.push((usize::from(cursor.byte()?), f64::from_bits(cursor.u64()?)));
    }
    let integers = get_integers(cursor, count)?;
    let power = floats::POWERS[usize::from(exponent)];
    let mut values: Vec<f64> = integers.into_iter().map(|integer| integer as f64 / power).collect();
    for (at, value) in exceptions {
        values[at] = value;
    }
    Ok(values)
}

/// The values as integers over a power of ten, whose exponent it gives; an exception repeats what is before it.
fn decimals(values: &[f64], integers: &mut Vec<i64>, exceptions: &mut Vec<usize>) -> Option<usize> {
    let mut exponent = 0;
    let mut at = 0;
    while at < values.len() {
        if let Some(integer) = floats::decimal_of(values[at], exponent) {
            integers.push(integer);
            at += 1;
            continue;
        }
        let further = exponent + 1..floats::POWERS.len();
        if let Some(fitting) = further.into_iter().find(|more| floats::decimal_of(values[at], *more).is_some()) {
            // What was an integer is one over a greater power, if it is not too large for that.
            exponent = fitting;
            at = 0;
            integers.clear();
            exceptions.clear();
            continue;
        }
        if exceptions.len() == EXCEPTIONS_MAX {
            return None;
        }
        exceptions.push(at);
        integers.push(integers.last().copied().unwrap_or(0));
        at += 1;
    }
    Some(exponent)
}

/// Appends integers as the first and a step, or as what is over the least, or as differences, in as many bits as it
/// takes.
pub(crate) fn put_integers(out: &mut Vec<u8>, values: &[i64]) {
    let first = values[0];
    let (mut least, mut greatest) = (first, first);
    let (mut down, mut up) = (i64::MAX, i64::MIN);
    for pair in values.windows(2) {
        let difference = pair[1].wrapping_sub(pair[0]);
        (least, greatest) = (least.min(pair[1]), greatest.max(pair[1]));
        (down, up) = (down.min(difference), up.max(difference));
    }
    if down >= up {
        out.push(REGULAR);
        put_signed(out, first);
        put_signed(out, if down == up { down } else { 0 });
        return;
    }
    let bits = |least: i64, greatest: i64| 64 - (greatest.wrapping_sub(least) as u64).leading_zeros();
    let (plain, differences) = (bits(least, greatest), bits(down, up));
    if plain <= differences {
        out.extend_from_slice(&[OFFSETS, plain as u8]);
        put_signed(out, least);
        put_bits(out, plain, values.iter().map(|value| value.wrapping_sub(least) as u64));
    } else {
        out.extend_from_slice(&[DIFFERENCES, differences as u8]);
        put_signed(out, first);
        put_signed(out, down);
        let all = values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]).wrapping_sub(down) as u64);
        put_bits(out, differences, all);
    }
}

pub(crate) fn get_integers(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<i64>, crate::bytes::Broken> {
    let form = cursor.byte()?;
    if form == REGULAR {
        let (first, step) = (cursor.signed()?, cursor.signed()?);
        return Ok((0..count as i64).map(|at| first.wrapping_add(step.wrapping_mul(at))).collect());
    }
    let width = u32::from(cursor.byte()?);
    debug_assert!(width <= 64, "integers of {width} bits");
    let first = cursor.signed()?;
    let bytes = |count: usize| (count * width as usize).div_ceil(8);
    if form == OFFSETS {
        let packed = cursor.take(bytes(count))?;
        return Ok((0..count).map(|at| first.wrapping_add(integers::bits_at(packed, width, at) as i64)).collect());
    }
    let least = cursor.signed()?;
    let packed = cursor.take(bytes(count - 1))?;
    let mut values = Vec::with_capacity(count);
    let mut value = first;
    values.push(value);
    for at in 0..count - 1 {
        value = value.wrapping_add(least).wrapping_add(integers::bits_at(packed, width, at) as i64);
        values.push(value);
    }
    Ok(values)
}

/// Values below 2^width one after the other.
fn put_bits(out: &mut Vec<u8>, width: u32, values: impl Iterator<Item = u64>) {
    debug_assert!((1..=64).contains(&width), "values of {width} bits");
    let mut bits = BitWriter::new(out);
    for value in values {
        bits.put(value, width);
    }
    bits.finish();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::any_float;

    fn check(columns: &Columns) -> usize {
        let packed = Packed::from_columns(columns);
        let back = packed.columns();
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&back.values), bits(&columns.values));
        assert_eq!((&back.times, &back.starts), (&columns.times, &columns.starts));
        assert_eq!((packed.first, packed.last), (columns.times[0], *columns.times.last().unwrap()));
        packed.bytes()
    }

    fn regular(values: Vec<f64>) -> Columns {
        Columns { times: (0..values.len() as i64).map(|at| at * 15_000).collect(), values, starts: Vec::new() }
    }

    #[test]
    fn usual_series_take_a_few_bytes_a_sample() {
        let of = |value: fn(i64) -> f64| check(&regular((0..128).map(value).collect()));
        assert!(of(|_| 1.0) < 20, "a constant");
        assert!(of(|at| (at * 1000) as f64) < 20, "a steady counter");
        assert!(of(|at| (at * 1000 + at * at % 64) as f64) < 140, "a counter");
        assert!(of(|at| ((at * 7919) % 200) as f64 / 10.0) < 150, "a gauge of one decimal place");
        assert!(of(|at| if at % 40 == 7 { f64::NAN } else { at as f64 * 0.25 }) < 160, "with a gap now and then");
        let mut cells = regular(vec![3.0; 128]);
        cells.starts = cells.times.iter().map(|time| time - 15_000).collect();
        assert!(check(&cells) < 25, "cells with their starts");
        cells.starts = vec![1_700_000_000_000; 128];
        assert!(check(&cells) < 30, "a counter with its start");
    }

    #[test]
    fn odd_values_come_back_bit_for_bit() {
        let odd = [f64::NAN, -0.0, 0.0, f64::INFINITY, f64::MIN_POSITIVE, 1e300, f64::from_bits(0x7ff0_0000_0000_0002)];
        check(&regular(odd.to_vec()));
        check(&regular(vec![-0.0]));
        // Exactly as many exceptions as may be, and one more.
        for count in [EXCEPTIONS_MAX, EXCEPTIONS_MAX + 1] {
            check(&regular((0..128).map(|at| if at < count { f64::NAN } else { 0.5 }).collect()));
        }
        // Integers at the edge of what a float holds, and a place that makes them too large.
        check(&regular(vec![9_007_199_254_740_992.0, -9_007_199_254_740_992.0, 0.1, 1.0]));
        check(&regular((0..COUNT_MAX).map(|at| f64::from_bits((u64::MAX / 7).wrapping_mul(at as u64))).collect()));
    }

    proptest! {
        #[test]
        fn any_rows_come_back(
            values in prop::collection::vec(any_float(), 1..=COUNT_MAX),
            times in prop::collection::vec(any::<i64>(), COUNT_MAX),
            starts in prop::option::of(prop::collection::vec(any::<i64>(), COUNT_MAX)),
            near in any::<bool>(),
        ) {
            let count = values.len();
            let cut = |mut all: Vec<i64>| {
                all.truncate(count);
                all.iter_mut().for_each(|value| *value >>= if near { 45 } else { 0 });
                all
            };
            let mut times = cut(times);
            times.sort_unstable();
            check(&Columns { times, values, starts: starts.map(cut).unwrap_or_default() });
        }

        #[test]
        fn any_decimals_come_back(
            integers in prop::collection::vec(any::<i64>(), 1..=COUNT_MAX), places in 0..12_i32, shift in 0..60_u32,
        ) {
            let value = |integer: i64| (integer >> shift) as f64 / 10_f64.powi(places);
            check(&regular(integers.into_iter().map(value).collect()));
        }
    }
}
