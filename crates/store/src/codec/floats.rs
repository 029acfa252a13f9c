//! A column of floats, kept bit for bit: NaN payloads, infinities and -0 included.
//!
//! Numbers written by people and programs have few decimal digits, so the column is first tried as integers over a
//! power of ten, with the exceptions stored separately. Otherwise `pco` encodes the floats, and where that does not
//! restore every bit, integer coding encodes their bits.
//! Invariants: as many values are read as were written, each with its own bits.
//! Format: one tag byte, then as the tag says. The number of values is known from outside.

use pco::{DeltaSpec, ModeSpec};

use crate::bytes::{Broken, Cursor};
use crate::codec::integers;

const CONSTANT: u8 = 0;
const DECIMAL: u8 = 1;
const PCO: u8 = 2;
const BITS: u8 = 3;

/// 10^9: nanoseconds in seconds. Each further digit costs 3.3 bits, and past this `pco` is as good.
const EXPONENT_MAX: usize = 9;
/// Powers of ten that a column of decimals may have.
pub(crate) const POWERS: [f64; EXPONENT_MAX + 1] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
/// 2^53: every integer up to it is a float.
const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;
/// One value in 16 may be an exception; each costs 9 bytes.
const EXCEPTIONS_SHIFT: u32 = 4;
/// Below this many values the header of `pco` costs more than it saves.
const PCO_COUNT_MIN: usize = 32;

/// Appends `values` in the first form that holds them exactly.
pub(crate) fn put(out: &mut Vec<u8>, values: &[f64]) {
    put_with(out, values, integers::ANY);
}

/// As [`put`], with `pco` on one of some differences.
pub(crate) fn put_with(out: &mut Vec<u8>, values: &[f64], specs: &'static [DeltaSpec]) {
    let Some((first, rest)) = values.split_first() else { return };
    if let Some(decimal) = Decimal::from_values(values) {
        decimal.put(out, values, specs);
    } else if rest.iter().all(|value| value.to_bits() == first.to_bits()) {
        out.push(CONSTANT);
        out.extend_from_slice(&first.to_bits().to_le_bytes());
    } else if let Some(bytes) = exact_pco(values, specs) {
        out.push(PCO);
        crate::bytes::put_bytes(out, &bytes);
    } else {
        out.push(BITS);
        let bits: Vec<i64> = values.iter().map(|value| value.to_bits() as i64).collect();
        integers::put_with(out, &bits, specs);
    }
}

/// Reads a column of `count` values.
pub(crate) fn get(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<f64>, Broken> {
    let mut values = Vec::new();
    extend(cursor, count, &mut values)?;
    debug_assert_eq!(values.len(), count, "a column has as many values as were asked for");
    Ok(values)
}

/// As [`get`], behind what `values` hold; after an error they hold more of no meaning.
pub(crate) fn extend(cursor: &mut Cursor<'_>, count: usize, values: &mut Vec<f64>) -> Result<(), Broken> {
    if count == 0 {
        return Ok(());
    }
    match cursor.byte()? {
        CONSTANT => {
            let value = f64::from_bits(cursor.u64()?);
            values.resize(values.len() + count, value);
            Ok(())
        }
        DECIMAL => extend_decimal(cursor, count, values),
        PCO => {
            let bytes = cursor.length_and_bytes()?;
            integers::extend_pco(bytes, count, values).map_err(|error| cursor.broken(error))
        }
        BITS => {
            values.extend(integers::get(cursor, count)?.into_iter().map(|bits| f64::from_bits(bits as u64)));
            Ok(())
        }
        tag => Err(cursor.broken(format!("{tag} is no float coding"))),
    }
}

/// A column as integers over a power of ten, with exceptions.
struct Decimal {
    exponent: usize,
    /// One a value; an exception repeats the value before it.
    integers: Vec<i64>,
    exceptions: Vec<usize>,
}

impl Decimal {
    fn from_values(values: &[f64]) -> Option<Self> {
        let exceptions_max = values.len() >> EXCEPTIONS_SHIFT;
        let mut exponent = 0;
        let mut misses = 0;
        for value in values {
            match (exponent..=EXPONENT_MAX).find(|exponent| decimal_of(*value, *exponent).is_some()) {
                Some(fitting) => exponent = fitting,
                None => misses += 1,
            }
            if misses > exceptions_max {
                return None;
            }
        }
        let mut column = Self { exponent, integers: Vec::with_capacity(values.len()), exceptions: Vec::new() };
        for (at, value) in values.iter().enumerate() {
            let integer = decimal_of(*value, exponent).unwrap_or_else(|| {
                column.exceptions.push(at);
                column.integers.last().copied().unwrap_or(0)
            });
            column.integers.push(integer);
        }
        (column.exceptions.len() <= exceptions_max).then_some(column)
    }

    fn put(&self, out: &mut Vec<u8>, values: &[f64], specs: &'static [DeltaSpec]) {
        assert_eq!(self.integers.len(), values.len(), "each value has its integer");
        out.extend_from_slice(&[DECIMAL, self.exponent as u8]);
        integers::put_positions(out, &self.exceptions);
        for at in &self.exceptions {
            out.extend_from_slice(&values[*at].to_bits().to_le_bytes());
        }
        integers::put_with(out, &self.integers, specs);
    }
}

/// The nearest integer; as is when it is too large to have a fraction. Without SSE 4.1 `round_ties_even` is a call into
/// the C library, which costs as much as all the rest.
fn rounded(value: f64) -> f64 {
    /// 1.5 * 2^52: a sum near it has no bits left for a fraction.
    const NO_FRACTION: f64 = 6_755_399_441_055_744.0;
    // From 2^51 on the sum would lose bits of the integer too.
    if value.abs() < 2_251_799_813_685_248.0 { value + NO_FRACTION - NO_FRACTION } else { value.round_ties_even() }
}

/// The integer that gives back every bit of `value` when it is divided by the power of ten.
pub(crate) fn decimal_of(value: f64, exponent: usize) -> Option<i64> {
    let scaled = rounded(value * POWERS[exponent]);
    // NaN and infinities become integers too, and do not come back from them.
    let integer = scaled as i64;
    let exact = scaled.abs() <= INTEGER_MAX && (integer as f64 / POWERS[exponent]).to_bits() == value.to_bits();
    exact.then_some(integer)
}

fn extend_decimal(cursor: &mut Cursor<'_>, count: usize, values: &mut Vec<f64>) -> Result<(), Broken> {
    let DecimalHeader { power, exceptions } = decimal_header(cursor, count)?;
    let held = values.len();
    extend_divided(values, &integers::get(cursor, count)?, power);
    put_exceptions(&exceptions, &mut values[held..]);
    Ok(())
}

/// What precedes the integers of a column of decimals.
struct DecimalHeader {
    power: f64,
    /// Places with the bits that are there.
    exceptions: Vec<(usize, u64)>,
}

fn decimal_header(cursor: &mut Cursor<'_>, count: usize) -> Result<DecimalHeader, Broken> {
    let exponent = usize::from(cursor.byte()?);
    let Some(power) = POWERS.get(exponent).copied() else {
        return Err(cursor.broken(format!("a power of ten of {exponent}")));
    };
    let places = integers::get_positions(cursor, count)?;
    let exceptions = places.into_iter().map(|at| Ok((at, cursor.u64()?))).collect::<Result<_, _>>()?;
    Ok(DecimalHeader { power, exceptions })
}

fn put_exceptions(exceptions: &[(usize, u64)], values: &mut [f64]) {
    exceptions.iter().for_each(|(at, bits)| values[*at] = f64::from_bits(*bits));
}

/// Values that were read into a [`Scratch`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    /// Its floats.
    Floats,
    /// Its integers, by this power of ten.
    Decimals(f64),
}

/// Room for a column, used again for the next one.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) integers: Vec<i64>,
    pub(crate) floats: Vec<f64>,
}

/// As [`get`], into `scratch`; decimals are not divided yet when each of them is one.
pub(crate) fn read(cursor: &mut Cursor<'_>, count: usize, scratch: &mut Scratch) -> Result<Form, Broken> {
    scratch.floats.clear();
    if cursor.peek() != Some(DECIMAL) || count == 0 {
        extend(cursor, count, &mut scratch.floats)?;
        return Ok(Form::Floats);
    }
    cursor.byte()?;
    let DecimalHeader { power, exceptions } = decimal_header(cursor, count)?;
    scratch.integers.clear();
    integers::extend(cursor, count, &mut scratch.integers)?;
    if exceptions.is_empty() {
        return Ok(Form::Decimals(power));
    }
    extend_divided(&mut scratch.floats, &scratch.integers, power);
    put_exceptions(&exceptions, &mut scratch.floats);
    Ok(Form::Floats)
}

/// Appends `integers` by `power`.
///
/// Processors of the oldest kind that is built for convert integers one at a time. Those below 2^51 become the low bits
/// of a float near 2^52 instead, two or four at once, which is exact.
pub(super) fn extend_divided(values: &mut Vec<f64>, integers: &[i64], power: f64) {
    const LIFT: i64 = 1 << 51;
    const BASE: f64 = 4_503_599_627_370_496.0;
    let lifted = |integer: i64| integer.wrapping_add(LIFT).cast_unsigned();
    let all = integers.iter().fold(0, |all, integer| all | lifted(*integer));
    if all >= 1 << 52 {
        values.extend(integers.iter().map(|integer| *integer as f64 / power));
        return;
    }
    let float = |integer: i64| f64::from_bits(lifted(integer) | BASE.to_bits()) - (BASE + LIFT as f64);
    debug_assert!(integers.iter().all(|integer| float(*integer) == *integer as f64), "the conversion is exact");
    values.extend(integers.iter().map(|integer| float(*integer) / power));
}

/// `pco` on floats, when it returns every bit.
fn exact_pco(values: &[f64], specs: &[DeltaSpec]) -> Option<Vec<u8>> {
    if values.len() < PCO_COUNT_MIN {
        return None;
    }
    let bytes = integers::pco_bytes(values, &ModeSpec::Auto, specs)?;
    let back = integers::pco_values::<f64>(&bytes, values.len()).ok()?;
    assert_eq!(back.len(), values.len(), "every value is compared");
    let exact = back.iter().zip(values).all(|(back, value)| back.to_bits() == value.to_bits());
    exact.then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes that the column takes.
    fn check(values: &[f64]) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, values);
        let mut cursor = Cursor::new(&out);
        let back = get(&mut cursor, values.len()).unwrap();
        assert!(cursor.is_empty());
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&back), bits(values));
        let (mut cursor, mut scratch) = (Cursor::new(&out), Scratch::default());
        let form = read(&mut cursor, values.len(), &mut scratch).unwrap();
        assert!(cursor.is_empty());
        let read = match form {
            Form::Floats => scratch.floats,
            Form::Decimals(power) => scratch.integers.iter().map(|integer| *integer as f64 / power).collect(),
        };
        assert_eq!(bits(&read), bits(values));
        out
    }

    #[test]
    fn each_shape_finds_its_coding() {
        assert_eq!(check(&[-0.0; 100]).len(), 9);
        assert_eq!(check(&[2.5; 100]), [DECIMAL, 1, 0, 0, 50]);
        assert_eq!(check(&[1.1, 2.2, 3.25])[..2], [DECIMAL, 2]);
        assert_eq!(check(&[0.000_000_001, 1.5])[..2], [DECIMAL, 9]);
        let roots: Vec<f64> = (0..500).map(|i| f64::from(i).sqrt()).collect();
        assert_eq!(check(&roots)[0], PCO);
        assert_eq!(check(&roots[..20])[0], BITS);
    }

    #[test]
    fn integers_of_any_size_are_divided_as_they_are_converted() {
        let edge = 1_i64 << 51;
        for integers in [vec![0, 1, -1, 12_345, -99], vec![edge - 1, -edge], vec![edge, 3], vec![i64::MAX, i64::MIN]] {
            for power in POWERS {
                let mut found = vec![7.5];
                extend_divided(&mut found, &integers, power);
                let expected = std::iter::once(7.5).chain(integers.iter().map(|integer| *integer as f64 / power));
                let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&found), bits(&expected.collect::<Vec<_>>()), "{integers:?} by {power}");
            }
        }
    }

    #[test]
    fn odd_values_are_exceptions_and_come_back() {
        let stale = f64::from_bits(0x7ff0_0000_0000_0002);
        let mut values: Vec<f64> = (0..160).map(f64::from).collect();
        for (at, odd) in [(0, stale), (3, -0.0), (77, f64::NEG_INFINITY), (159, f64::MIN_POSITIVE / 8.0)] {
            values[at] = odd;
        }
        assert_eq!(check(&values)[0], DECIMAL);
        assert_eq!(check(&[stale, -0.0, 0.0, f64::MAX, f64::from_bits(u64::MAX)])[0], BITS);
        assert_eq!(check(&[9_007_199_254_740_993.0, 1.0])[0], DECIMAL);
        assert_eq!(check(&[9_007_199_254_740_994.0, 1.0])[0], BITS);
    }

    proptest! {
        #[test]
        fn any_bits_come_back(bits in proptest::collection::vec(any::<u64>(), 0..200)) {
            check(&bits.into_iter().map(f64::from_bits).collect::<Vec<_>>());
        }

        #[test]
        fn any_decimals_come_back(values in proptest::collection::vec(-1_000_000..1_000_000_i32, 1..300), digits in 0..12_i32) {
            check(&values.into_iter().map(|value| f64::from(value) / 10_f64.powi(digits)).collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_are_values_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), count in 0..400_usize) {
            if bytes.first() != Some(&PCO) && !bytes.contains(&3) {
                let _ = get(&mut Cursor::new(&bytes), count);
            }
        }
    }
}
