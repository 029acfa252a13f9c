//! Floats of many series, each by itself: as an integer over a power of ten where that gives back every bit, else its
//! bits.
//!
//! Format: a control byte each, the exponent (15: bits) and, above it, how many bytes follow elsewhere; the bytes are a
//! zigzag integer or the bits, without the zeros at their upper end.
//! Invariants: every bit of a value is restored, NaN payloads and -0 included.

use crate::bytes::{Broken, unzigzag, zigzag};
use crate::codec::floats::{POWERS, decimal_of};

/// The exponent of what is no decimal.
const BITS: u8 = 15;
const _: () = assert!(POWERS.len() <= BITS as usize);
const EXPONENT_MAX: u8 = POWERS.len() as u8 - 1;
/// 2^50 billionths: a value below it that is not so many exactly has more than nine decimal places.
const PLACES_SURE: f64 = 1_125_899.0;

/// Appends a value to the columns of control bytes and of the others.
#[inline]
pub(super) fn put(controls: &mut Vec<u8>, bytes: &mut Vec<u8>, value: f64) {
    let (exponent, word) = decimal(value).map_or((BITS, value.to_bits()), |(exponent, of)| (exponent, zigzag(of)));
    let length = 8 - (word.leading_zeros() / 8) as usize;
    controls.push(exponent | (length as u8) << 4);
    let held = bytes.len();
    // Eight are copied without a branch, and those that are zero taken back.
    bytes.extend_from_slice(&word.to_le_bytes());
    bytes.truncate(held + length);
}

/// The least exponent by which the value is an integer, and that integer.
#[inline]
fn decimal(value: f64) -> Option<(u8, i64)> {
    if let Some(integer) = decimal_of(value, 0) {
        return Some((0, integer));
    }
    // One division instead of ten where all bits of a float are in use.
    if value.abs() < PLACES_SURE && decimal_of(value, usize::from(EXPONENT_MAX)).is_none() {
        return None;
    }
    (1..=EXPONENT_MAX).find_map(|exponent| Some((exponent, decimal_of(value, usize::from(exponent))?)))
}

/// Checks that the control bytes are ones, and that they say how many bytes there are.
pub(super) fn check(controls: &[u8], bytes: &[u8]) -> Result<(), Broken> {
    let is_good = |control: &u8| control >> 4 <= 8 && (control & 15 <= EXPONENT_MAX || control & 15 == BITS);
    let broken = |problem| Err(Broken { offset: 0, problem });
    if !controls.iter().all(is_good) {
        return broken("a control byte is none".to_owned());
    }
    let needed: usize = controls.iter().map(|control| usize::from(control >> 4)).sum();
    if needed != bytes.len() {
        return broken(format!("values of {needed} bytes have {}", bytes.len()));
    }
    Ok(())
}

/// Passes on each value of columns that [`check`] found good.
#[inline]
pub(super) fn each(controls: &[u8], mut bytes: &[u8], mut visit: impl FnMut(f64)) {
    for control in controls {
        let (exponent, length) = (control & 15, usize::from(control >> 4));
        let word = match bytes.first_chunk() {
            Some(word) => u64::from_le_bytes(*word) & MASKS[length],
            None => {
                let mut word = [0; 8];
                word[..length].copy_from_slice(&bytes[..length]);
                u64::from_le_bytes(word)
            }
        };
        bytes = &bytes[length..];
        visit(match POWERS.get(usize::from(exponent)) {
            Some(power) => unzigzag(word) as f64 / power,
            None => f64::from_bits(word),
        });
    }
}

/// The lowest bytes of a word.
const MASKS: [u64; 9] = [
    0,
    0xff,
    0xffff,
    0xff_ffff,
    0xffff_ffff,
    0xff_ffff_ffff,
    0xffff_ffff_ffff,
    0xff_ffff_ffff_ffff,
    0xffff_ffff_ffff_ffff,
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::any_float;

    /// Bytes that the values take.
    fn check_values(values: &[f64]) -> usize {
        let (mut controls, mut bytes) = (Vec::new(), Vec::new());
        values.iter().for_each(|value| put(&mut controls, &mut bytes, *value));
        check(&controls, &bytes).unwrap();
        let mut back = Vec::new();
        each(&controls, &bytes, |value| back.push(value.to_bits()));
        assert_eq!(back, values.iter().map(|value| value.to_bits()).collect::<Vec<_>>());
        controls.len() + bytes.len()
    }

    #[test]
    fn usual_values_take_a_few_bytes() {
        assert_eq!(check_values(&[0.0]), 1);
        assert_eq!(check_values(&[1.0, -64.0]), 4);
        assert_eq!(check_values(&[51.37]), 3, "a gauge of two places");
        assert_eq!(check_values(&[0.002_613]), 3, "a latency in microseconds");
        assert_eq!(check_values(&[1_234_567.0]), 4, "a counter");
        assert_eq!(check_values(&[0.1 + 0.2, f64::NAN, -0.0]), 27, "bits");
        assert_eq!(check_values(&[1_125_898.999_999_999, 9_007_199_254.740_991]), 16, "as many digits as there can be");
        assert_eq!(check_values(&[1e22, f64::INFINITY]), 18);
    }

    proptest! {
        #[test]
        fn any_values_come_back(values in prop::collection::vec(any_float(), 0..50)) {
            check_values(&values);
        }

        #[test]
        fn any_decimals_come_back(
            integers in prop::collection::vec(any::<i64>(), 0..50), shift in 0..63_u32, places in 0..12,
        ) {
            let of = |integer: i64| (integer >> shift) as f64 / 10_f64.powi(places);
            check_values(&integers.into_iter().map(of).collect::<Vec<_>>());
        }

        /// Bytes that are anything are refused or read.
        #[test]
        fn any_bytes_are_refused_or_read(
            controls in prop::collection::vec(any::<u8>(), 0..9), bytes in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            if check(&controls, &bytes).is_ok() {
                let mut count = 0;
                each(&controls, &bytes, |_| count += 1);
                prop_assert_eq!(count, controls.len());
            }
        }
    }
}
