//! Flat bins: every bin that a latency can fall in, as one small array, and a table that finds the bin of a number of
//! nanoseconds without a division or a search.
//!
//! Format: flat bin 0 is the zero bin; flat bin `1 + (exp + 9) * 90 + (val - 10)` is the `LogLinear10` bin
//! `val/10 * 10^exp` seconds, for exp -9..=10: 1,801 bins. The zero bin and that of 1 ns are neighbours, as the
//! one addition needs.
//!
//! Why a table: the leading bits of a binary number (its exponent and seven more) name a cell of at most 1/128 of its
//! value, and a decimal bin is at least 1/99 of its value wide, so that at most one decimal edge lies in a cell. The
//! entry of a cell is the bin above that edge, in its top bits, less the edge. Added to the number, it leaves that
//! bin in the top bits, or borrows one from it if the number is below the edge: no comparison, no mask. Conversion to
//! a double brings the leading bits to their place: on a CPU of which nothing but x86-64 is known, it is cheaper than
//! to count leading zeros and to shift by them. 64 * 128 entries of 8 bytes are 64 KiB, of which a service's
//! latencies touch a few KiB.
//!
//! Invariants: [`NanosecondIndex::bin`] gives the bin of [`DecimalBin::from_integer`] for every `u64` (checked for
//! every edge and by random values).

use crate::{Bins, DecimalBin, Histogram};

/// Room for flat bins: a power of two, so that a mask replaces the bounds check. 16 KiB of `u64` counts.
pub const FLAT_BINS: usize = 2048;

/// Least decimal exponent of a flat bin, in seconds.
pub(crate) const FLAT_EXPONENT_MIN: i32 = -9;

/// Greatest decimal exponent of a flat bin: 2^64 ns are 1.8e10 s.
pub(crate) const FLAT_EXPONENT_MAX: i32 = 10;

const _: () = assert!((FLAT_EXPONENT_MAX - FLAT_EXPONENT_MIN + 1) * 90 < FLAT_BINS as i32);

/// Where the flat bin begins in the sum of an entry and the bits of a double: it has the topmost bits.
pub(crate) const BIN_SHIFT: u32 = u64::BITS - FLAT_BINS.trailing_zeros();

/// Cells per power of two, as bits.
pub(crate) const CELL_BITS: u32 = 7;

/// Bits of a double below those that name its cell.
pub(crate) const CELL_SHIFT: u32 = f64::MANTISSA_DIGITS - 1 - CELL_BITS;

const _: () = assert!(CELL_SHIFT < BIN_SHIFT, "within a cell, less than a bin is borrowed");

/// One and more above here, integers are not all doubles. 104 days.
pub(crate) const NEAR_END: u64 = (1 << f64::MANTISSA_DIGITS) - 1;

/// What far numbers are divided by, six decades: all are near then.
const FAR_UNIT: u64 = 1_000_000;

const _: () = assert!(u64::MAX / FAR_UNIT < NEAR_END);

/// Finds the flat bin of a number of nanoseconds. Stateless: any recorder can use it, also with atomic counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct NanosecondIndex;

impl NanosecondIndex {
    /// The flat bin of `nanoseconds`; below [`FLAT_BINS`].
    #[must_use]
    #[inline(always)]
    pub fn bin(nanoseconds: u64) -> usize {
        if nanoseconds < NEAR_END { Self::near_bin(nanoseconds) } else { far_bin(nanoseconds) }
    }

    /// The flat bin of a number of nanoseconds below [`NEAR_END`]; below [`FLAT_BINS`] for any.
    #[must_use]
    #[inline(always)]
    pub(crate) fn near_bin(nanoseconds: u64) -> usize {
        debug_assert!(nanoseconds < NEAR_END, "{nanoseconds} ns are far");
        // One more: a double has no exponent for zero that would name a cell.
        let bits = ((nanoseconds + 1) as i64 as f64).to_bits();
        let entry = TABLE[(bits >> CELL_SHIFT) as usize & (TABLE.len() - 1)];
        (bits.wrapping_add(entry) >> BIN_SHIFT) as usize
    }
}

/// The flat bin of a number from [`NEAR_END`] on: that of a millionth of it, six decades up. Both have the same leading
/// digits, truncated at the same position. Inlined, because a caller without calls saves no registers.
#[inline(always)]
fn far_bin(nanoseconds: u64) -> usize {
    (NanosecondIndex::near_bin(nanoseconds / FAR_UNIT) + 6 * 90) & (FLAT_BINS - 1)
}

/// The scheme's index of a flat bin above the zero bin.
#[must_use]
pub(crate) fn scheme_index(flat: usize) -> i32 {
    debug_assert!(flat > 0, "flat bin 0 is the zero bin");
    (FLAT_EXPONENT_MIN + 128) * 90 + flat as i32 - 1
}

/// The flat bin of a bin, if it has one.
#[must_use]
pub(crate) fn flat_bin(bin: DecimalBin) -> Option<usize> {
    let exponent = i32::from(bin.exp);
    match bin {
        DecimalBin::ZERO => Some(0),
        DecimalBin { val: 10..=99, .. } if (FLAT_EXPONENT_MIN..=FLAT_EXPONENT_MAX).contains(&exponent) => {
            Some(1 + (exponent - FLAT_EXPONENT_MIN) as usize * 90 + bin.val as usize - 10)
        }
        _ => None,
    }
}

/// A histogram, in seconds, of the counts of flat bins; `sum`, `min` and `max` are unknown.
///
/// # Panics
/// When there are more than [`FLAT_BINS`] counts.
#[must_use]
pub fn histogram_of_flat_bins(counts: impl IntoIterator<Item = u64>) -> Histogram {
    let mut histogram = Histogram::log_linear();
    let mut bins = Bins::new();
    for (flat, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
        assert!(flat < FLAT_BINS, "flat bin {flat} is not below {FLAT_BINS}");
        match flat {
            0 => histogram.zero = count,
            _ => bins.push(scheme_index(flat), count),
        }
    }
    histogram.positive = bins;
    histogram.recount();
    histogram
}

/// The double nearest to a number of nanoseconds in seconds.
#[must_use]
pub fn seconds_of_nanoseconds(nanoseconds: u128) -> f64 {
    // Below 2^53 (104 days) the number is an exact double; above, the decimal form rounds once as well.
    if nanoseconds < 1 << 53 {
        nanoseconds as f64 / 1e9
    } else {
        format!("{nanoseconds}e-9").parse().expect("a decimal number parses")
    }
}

/// One entry for each cell, by the low bits of exponent and mantissa of a number plus one.
static TABLE: [u64; 64 << CELL_BITS] = build();

const fn build() -> [u64; 64 << CELL_BITS] {
    let mut table = [0; 64 << CELL_BITS];
    let mut exponent = 0;
    while exponent < f64::MANTISSA_DIGITS {
        let mut part = 0;
        while part < 1 << CELL_BITS {
            let cell = ((exponent as usize + 1023) << CELL_BITS) + part as usize;
            table[cell & ((64 << CELL_BITS) - 1)] = entry(exponent, part);
            part += 1;
        }
        exponent += 1;
    }
    table
}

/// The entry of the cell of numbers with highest bit `exponent`, followed by the bits of `part`; one more than what is
/// counted. A cell without an edge begins with one.
const fn entry(exponent: u32, part: u64) -> u64 {
    let leading = (1 << CELL_BITS) | part;
    let (first, last) = match exponent {
        // A small number has fewer bits than a cell's index; the cell contains only that number.
        0..CELL_BITS => (leading >> (CELL_BITS - exponent), leading >> (CELL_BITS - exponent)),
        _ => {
            let first = leading << (exponent - CELL_BITS);
            (first, first + ((1 << (exponent - CELL_BITS)) - 1))
        }
    };
    let (below, (bin, least)) = (flat_of_integer(first - 1).0, flat_of_integer(last - 1));
    assert!(bin - below <= 1, "a cell holds two edges");
    let edge = if below < bin { least + 1 } else { first };
    entry_of(bin, edge as f64)
}

/// The entry of a cell whose numbers from `edge` on are in `bin`, and those below in the bin before.
pub(crate) const fn entry_of(bin: u64, edge: f64) -> u64 {
    (bin << BIN_SHIFT).wrapping_sub(edge.to_bits())
}

/// The flat bin of a number of nanoseconds, and the least number in it.
const fn flat_of_integer(nanoseconds: u64) -> (u64, u64) {
    if nanoseconds == 0 {
        return (0, 0);
    }
    let (mut digits, mut unit, mut exponent) = (nanoseconds, 1, 1);
    if digits < 10 {
        (digits, exponent) = (digits * 10, 0);
    }
    while digits >= 100 {
        digits /= 10;
        unit *= 10;
        exponent += 1;
    }
    let least = if exponent == 0 { nanoseconds } else { digits * unit };
    let decades = exponent - 9 - FLAT_EXPONENT_MIN as i64;
    (1 + decades as u64 * 90 + digits - 10, least)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(nanoseconds: u64) -> usize {
        if nanoseconds <= i64::MAX as u64 {
            return flat_bin(DecimalBin::from_integer(nanoseconds as i64, -9)).unwrap();
        }
        // Above i64 the last digit decides nothing: the third digit and all below are cut off anyway.
        flat_bin(DecimalBin::from_integer((nanoseconds / 10) as i64, -8)).unwrap()
    }

    #[test]
    fn every_edge_of_every_decade_is_exact() {
        let mut checked = 0;
        let mut unit = 1_u64;
        loop {
            for digits in 1..=100_u64 {
                let Some(edge) = unit.checked_mul(digits) else { break };
                for value in [edge.saturating_sub(2), edge - 1, edge, edge.saturating_add(1)] {
                    assert_eq!(NanosecondIndex::bin(value), expected(value), "{value}");
                    checked += 1;
                }
            }
            let Some(next) = unit.checked_mul(10) else { break };
            unit = next;
        }
        assert!(checked > 7000, "{checked}");
        let near_ends = [NEAR_END - 2, NEAR_END - 1, NEAR_END, NEAR_END + 1];
        for value in near_ends.into_iter().chain([0, 1, u64::MAX, u64::MAX - 1, i64::MAX as u64, i64::MAX as u64 + 1]) {
            assert_eq!(NanosecondIndex::bin(value), expected(value), "{value}");
        }
    }

    #[test]
    fn numbers_of_every_size_have_the_bin_of_the_integer_rule() {
        let mut rng = fastrand::Rng::with_seed(1);
        for round in 0..400_000 {
            let value = rng.u64(..) >> (round % 64);
            assert_eq!(NanosecondIndex::bin(value), expected(value), "{value}");
        }
        for value in 0..200_000 {
            assert_eq!(NanosecondIndex::bin(value), expected(value), "{value}");
        }
        // The ends of every cell.
        for exponent in 7..64_u32 {
            for part in 0..128_u64 {
                let first = (128 | part) << (exponent - 7);
                for value in [first, first - 1, first - 2, first | ((1 << (exponent - 7)) - 1)] {
                    assert_eq!(NanosecondIndex::bin(value), expected(value), "{value}");
                }
            }
        }
    }

    #[test]
    fn flat_bins_become_the_bins_in_seconds() {
        let mut counts = vec![0; FLAT_BINS];
        counts[NanosecondIndex::bin(0)] += 1;
        counts[NanosecondIndex::bin(1_250_000)] += 2;
        counts[NanosecondIndex::bin(u64::MAX)] += 3;
        let histogram = histogram_of_flat_bins(counts);
        let mut model = Histogram::log_linear();
        model.record_bin(DecimalBin::ZERO, 1);
        model.record_bin(DecimalBin { val: 12, exp: -3 }, 2);
        model.record_bin(DecimalBin { val: 18, exp: 10 }, 3);
        assert_eq!(histogram, model);
    }

    #[test]
    fn nanoseconds_become_seconds() {
        for (nanoseconds, seconds) in [
            (0, 0.0),
            (1, 1e-9),
            (1_234_567_891, 1.234_567_891),
            (9_007_199_254_740_993, 9_007_199.254_740_993),
            // Rounding to a double first, then dividing, gives ..448_084.
            (61_983_035_790_448_089, 61_983_035.790_448_09),
            (u128::from(u64::MAX), 18_446_744_073.709_553),
        ] {
            assert_eq!(seconds_of_nanoseconds(nanoseconds), seconds, "{nanoseconds}");
        }
    }
}
