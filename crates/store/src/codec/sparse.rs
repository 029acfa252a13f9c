//! Pages of counts most of which are zero: only the others are written, and only they are read.
//!
//! Of the bins of histograms most are rare: in cells of 200 latencies seven of ten counts are zero. An entropy coder
//! spends a step on each of them, and a chunk of `pco` needs some 80 bytes before its first value.
//! Format: two bytes, the orders of the codes below; then each page as bytes: for each value that is not zero, the
//! zeros before it as a Rice code, then the value less 1 as an exponential Golomb code; behind the last one, if there
//! are zeros, their number. Bits from the least significant one on, the last byte filled with zeros.
//! Limits: [`ORDER_MAX`]; a page ends with its number of values.

use crate::bytes::{Broken, Cursor, put_bytes};
use crate::codec::bits::{BitWriter, Bits, low_bits, padded};

/// Gaps of 2,048 zeros and more are too rare to count.
const ORDER_MAX: u32 = 11;
/// So many ones of a Rice code precede a number of 32 bits instead.
const RICE_ONES_MAX: u32 = 16;
/// Bits of a run of zeros that is written as it is.
const RUN_BITS: u32 = 32;
/// A code of more ones is of no number of 64 bits.
const GOLOMB_ONES_MAX: u32 = 63;

/// How gaps and values are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codes {
    gap: u32,
    value: u32,
}

/// The bits of a Rice code.
fn rice_bits(number: u64, order: u32) -> u64 {
    let ones = number >> order;
    if ones < u64::from(RICE_ONES_MAX) { ones + 1 + u64::from(order) } else { u64::from(RICE_ONES_MAX + RUN_BITS) }
}

fn put_rice(out: &mut BitWriter, number: u64, order: u32) {
    debug_assert!(number <= low_bits(RUN_BITS), "{number} values in a page");
    match u32::try_from(number >> order).ok().filter(|ones| *ones < RICE_ONES_MAX) {
        Some(ones) => {
            out.put(low_bits(ones), ones + 1);
            out.put(number & low_bits(order), order);
        }
        None => {
            out.put(low_bits(RICE_ONES_MAX), RICE_ONES_MAX);
            out.put(number, RUN_BITS);
        }
    }
}

#[inline]
fn get_rice(bits: &mut Bits<'_>, order: u32) -> u64 {
    let word = bits.word();
    let ones = word.trailing_ones();
    if ones < RICE_ONES_MAX {
        bits.at += (ones + 1 + order) as usize;
        return u64::from(ones) << order | word >> (ones + 1) & low_bits(order);
    }
    bits.at += RICE_ONES_MAX as usize;
    bits.read(RUN_BITS)
}

/// The bits of an exponential Golomb code; the number is below 2^64 - 1.
fn golomb_bits(number: u64, order: u32) -> u64 {
    u64::from(2 * ((number >> order) + 1).ilog2() + 1 + order)
}

fn put_golomb(out: &mut BitWriter, number: u64, order: u32) {
    let high = (number >> order) + 1;
    let ones = high.ilog2();
    out.put(low_bits(ones), ones + 1);
    out.put(high & low_bits(ones), ones);
    out.put(number & low_bits(order), order);
}

/// None when it is no number of 64 bits.
#[inline]
fn get_golomb(bits: &mut Bits<'_>, order: u32) -> Option<u64> {
    let word = bits.word();
    let ones = word.trailing_ones();
    // 21 + 1 + 21 + 11 bits are in the word.
    if ones > 21 {
        return get_long_golomb(bits, order);
    }
    bits.at += (2 * ones + 1 + order) as usize;
    let rest = word >> (ones + 1);
    let high = rest & low_bits(ones) | 1 << ones;
    Some((high - 1) << order | rest >> ones & low_bits(order))
}

#[cold]
fn get_long_golomb(bits: &mut Bits<'_>, order: u32) -> Option<u64> {
    let mut ones = 0;
    while bits.read(1) == 1 {
        ones += 1;
        if ones > GOLOMB_ONES_MAX {
            return None;
        }
    }
    let high = (bits.read(ones) | 1 << ones) - 1;
    let low = bits.read(order);
    (high.leading_zeros() >= order).then_some(high << order | low)
}

/// The values of each page that are not zero, each behind its gap; and the zeros at the end.
fn each_gap(page: &[i64], mut each: impl FnMut(u64, Option<u64>)) {
    let mut gap = 0;
    for value in page {
        if *value == 0 {
            gap += 1;
        } else {
            each(gap, Some(value.cast_unsigned() - 1));
            gap = 0;
        }
    }
    if gap > 0 {
        each(gap, None);
    }
}

/// The pages of `values`, of `lengths` values each; None when half of them or more are not zero.
pub(crate) fn encode(values: &[i64], lengths: &[usize]) -> Option<Vec<u8>> {
    let filled = values.iter().filter(|value| **value != 0).count();
    if filled * 2 >= values.len() {
        return None;
    }
    let (mut gaps, mut numbers) = (Vec::with_capacity(filled + lengths.len()), Vec::with_capacity(filled));
    for page in pages_of(values, lengths) {
        each_gap(page, |gap, value| {
            gaps.push(gap);
            numbers.extend(value);
        });
    }
    let best = |numbers: &[u64], bits: fn(u64, u32) -> u64| {
        let cost = |order: &u32| numbers.iter().map(|number| bits(*number, *order)).sum::<u64>();
        (0..=ORDER_MAX).min_by_key(cost).unwrap_or(0)
    };
    let codes = Codes { gap: best(&gaps, rice_bits), value: best(&numbers, golomb_bits) };
    let mut out = vec![codes.gap as u8, codes.value as u8];
    for page in pages_of(values, lengths) {
        let mut bits = BitWriter::default();
        each_gap(page, |gap, value| {
            put_rice(&mut bits, gap, codes.gap);
            if let Some(value) = value {
                put_golomb(&mut bits, value, codes.value);
            }
        });
        put_bytes(&mut out, &bits.into_bytes());
    }
    Some(out)
}

fn pages_of<'v>(values: &'v [i64], lengths: &[usize]) -> impl Iterator<Item = &'v [i64]> {
    let mut rest = values;
    lengths.iter().map(move |length| {
        let (page, behind) = rest.split_at(*length);
        rest = behind;
        page
    })
}

impl Codes {
    /// Reads what precedes the pages.
    pub(crate) fn get(cursor: &mut Cursor<'_>) -> Result<Self, Broken> {
        let mut order = || {
            let order = u32::from(cursor.byte()?);
            if order <= ORDER_MAX { Ok(order) } else { Err(cursor.broken(format!("codes of order {order}"))) }
        };
        Ok(Self { gap: order()?, value: order()? })
    }

    /// Calls `each` with the place and the value of each that is not zero, of a page of `count`; `room` is used for a
    /// copy of the page.
    pub(crate) fn each(
        self,
        bytes: &[u8],
        count: usize,
        room: &mut Vec<u8>,
        mut each: impl FnMut(usize, i64),
    ) -> Result<(), String> {
        let mut bits = padded(bytes, room);
        let (mut place, end) = (0_usize, 8 * bytes.len());
        while place < count && bits.at <= end {
            let gap = get_rice(&mut bits, self.gap);
            place = usize::try_from(gap).map_or(usize::MAX, |gap| place.saturating_add(gap));
            if place >= count {
                break;
            }
            let less_one = get_golomb(&mut bits, self.value).and_then(|number| number.checked_add(1));
            let Some(value) = less_one else { return Err("a code of more than 64 bits".into()) };
            each(place, value.cast_signed());
            place += 1;
        }
        if place == count && bits.finish_byte(bytes.len()) && bits.at == end {
            Ok(())
        } else {
            Err(format!("{place} of {count} values end at bit {} of {} bytes", bits.at, bytes.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_of_every_size_come_back_from_their_codes() {
        for order in 0..=ORDER_MAX {
            for width in 0..64 {
                for number in [1_u64 << width, (1 << width) - 1, (1 << width) + 1, u64::MAX >> width, u64::MAX - 1] {
                    let number = number.min(u64::MAX - 1);
                    let mut out = BitWriter::default();
                    put_golomb(&mut out, number, order);
                    let gap = number & low_bits(RUN_BITS);
                    put_rice(&mut out, gap, order);
                    let bytes = out.into_bytes();
                    let expected = golomb_bits(number, order) + rice_bits(gap, order);
                    assert_eq!(bytes.len() as u64, expected.div_ceil(8));
                    let mut bits = Bits::new(&bytes);
                    assert_eq!(get_golomb(&mut bits, order), Some(number), "order {order}");
                    assert_eq!((get_rice(&mut bits, order), bits.at as u64), (gap, expected));
                }
            }
        }
        assert_eq!(get_golomb(&mut Bits::new(&[0xff; 16]), 0), None);
        // 63 ones, a zero, the highest number and two bits more.
        let mut out = BitWriter::default();
        out.put(low_bits(63), 64);
        out.put(low_bits(63), 63);
        out.put(3, 2);
        assert_eq!(get_golomb(&mut Bits::new(&out.into_bytes()), 2), None);
    }

    #[test]
    fn the_example_of_the_format_page_is_read() {
        let mut found = [0; 9];
        let codes = Codes { gap: 2, value: 0 };
        codes.each(&[0x45, 0x15], 9, &mut Vec::new(), |place, value| found[place] = value).unwrap();
        assert_eq!(found, [0, 0, 0, 0, 0, 1, 0, 3, 0]);
        let ignored = |bytes: &[u8], count| codes.each(bytes, count, &mut Vec::new(), |_, _| ());
        assert!(ignored(&[0x45], 9).is_err(), "cut");
        assert!(ignored(&[0x45, 0x15], 8).is_err(), "the last zeros end behind the page");
        assert!(ignored(&[0x45, 0x55], 9).is_err(), "a bit behind the last");
        assert!(ignored(&[0x45, 0x15, 0], 9).is_err(), "a byte more");
    }

    proptest! {
        #[test]
        fn any_bytes_are_values_or_an_error(
            bytes in proptest::collection::vec(any::<u8>(), 0..60), count in 0..400_usize,
            gap in 0..12_u32, value in 0..12_u32,
        ) {
            let mut last = None;
            let read = Codes { gap, value }.each(&bytes, count, &mut Vec::new(), |place, value| {
                assert!(value != 0 && place < count && last.is_none_or(|last| last < place));
                last = Some(place);
            });
            prop_assert!(read.is_err() || last.is_none_or(|last| last < count));
        }
    }
}
