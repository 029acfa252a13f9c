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

#[inline]
fn put_rice(out: &mut BitWriter<'_>, number: u64, order: u32) {
    debug_assert!(number <= low_bits(RUN_BITS), "{number} values in a page");
    let ones = (number >> order) as u32;
    if ones < RICE_ONES_MAX {
        out.put(low_bits(ones) | (number & low_bits(order)) << (ones + 1), ones + 1 + order);
    } else {
        out.put(low_bits(RICE_ONES_MAX), RICE_ONES_MAX);
        out.put(number, RUN_BITS);
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

#[inline]
fn put_golomb(out: &mut BitWriter<'_>, number: u64, order: u32) {
    let high = (number >> order) + 1;
    let ones = high.ilog2();
    let (high, low) = (high & low_bits(ones), number & low_bits(order));
    // 21 + 1 + 21 + 11 bits are put at once.
    if ones <= 21 {
        out.put(low_bits(ones) | (high | low << ones) << (ones + 1), 2 * ones + 1 + order);
        return;
    }
    out.put(low_bits(ones), ones + 1);
    out.put(high, ones);
    out.put(low, order);
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

/// The places of the values that are not zero, of which there are `filled`.
///
/// No branch predictor knows which these are: so a place is always written, and only one that is not zero is kept.
fn places_of(values: &[i64], filled: usize) -> Vec<u32> {
    let mut places = vec![0; filled + 1];
    let mut held = 0;
    for (at, value) in (0..).zip(values) {
        places[held] = at;
        held += usize::from(*value != 0);
    }
    assert_eq!(held, filled, "each value that is not zero has its place");
    places.truncate(filled);
    places
}

/// A page as the places of its values that are not zero.
struct Page<'p> {
    places: &'p [u32],
    start: usize,
    end: usize,
}

impl Page<'_> {
    /// The values that are not zero, each behind its gap; and the zeros at the end.
    fn each_gap(&self, values: &[i64], mut each: impl FnMut(u64, Option<u64>)) {
        let mut start = self.start;
        for place in self.places {
            let place = *place as usize;
            each((place - start) as u64, Some(values[place].cast_unsigned() - 1));
            start = place + 1;
        }
        if start < self.end {
            each((self.end - start) as u64, None);
        }
    }
}

fn pages_of<'p>(places: &'p [u32], lengths: &[usize]) -> impl Iterator<Item = Page<'p>> {
    let (mut start, mut left) = (0, places);
    lengths.iter().map(move |length| {
        let end = start + length;
        let (places, rest) = left.split_at(left.partition_point(|place| (*place as usize) < end));
        let page = Page { places, start, end };
        (start, left) = (end, rest);
        page
    })
}

/// Numbers below this are counted, not kept.
const TALLY: usize = 256;

/// Numbers that are to be coded, most of them small.
struct Tally {
    counts: [u64; TALLY],
    others: Vec<u64>,
}

impl Tally {
    const fn new() -> Self {
        Self { counts: [0; TALLY], others: Vec::new() }
    }

    #[inline]
    fn add(&mut self, number: u64) {
        match self.counts.get_mut(number as usize) {
            Some(count) => *count += 1,
            None => self.others.push(number),
        }
    }

    /// The order that takes the fewest bits.
    fn best_order(&self, bits: impl Fn(u64, u32) -> u64) -> u32 {
        let used = self.counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        let cost = |order: &u32| {
            let small = (0..).zip(&self.counts[..used]).map(|(number, count)| count * bits(number, *order));
            small.sum::<u64>() + self.others.iter().map(|number| bits(*number, *order)).sum::<u64>()
        };
        (0..=ORDER_MAX).min_by_key(cost).unwrap_or(0)
    }
}

/// The pages of `values`, of `lengths` values each; None when half of them or more are not zero.
pub(crate) fn encode(values: &[i64], lengths: &[usize]) -> Option<Vec<u8>> {
    let filled = values.iter().filter(|value| **value != 0).count();
    if filled * 2 >= values.len() {
        return None;
    }
    let places = places_of(values, filled);
    let (mut gaps, mut numbers) = (Tally::new(), Tally::new());
    for page in pages_of(&places, lengths) {
        page.each_gap(values, |gap, value| {
            gaps.add(gap);
            value.into_iter().for_each(|value| numbers.add(value));
        });
    }
    let codes = Codes { gap: gaps.best_order(rice_bits), value: numbers.best_order(golomb_bits) };
    let (mut out, mut bytes) = (vec![codes.gap as u8, codes.value as u8], Vec::new());
    for page in pages_of(&places, lengths) {
        bytes.clear();
        let mut bits = BitWriter::new(&mut bytes);
        page.each_gap(values, |gap, value| {
            put_rice(&mut bits, gap, codes.gap);
            if let Some(value) = value {
                put_golomb(&mut bits, value, codes.value);
            }
        });
        bits.finish();
        put_bytes(&mut out, &bytes);
    }
    Some(out)
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
                    let mut bytes = Vec::new();
                    let mut out = BitWriter::new(&mut bytes);
                    put_golomb(&mut out, number, order);
                    let gap = number & low_bits(RUN_BITS);
                    put_rice(&mut out, gap, order);
                    out.finish();
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
        let mut bytes = Vec::new();
        let mut out = BitWriter::new(&mut bytes);
        out.put(low_bits(63), 64);
        out.put(low_bits(63), 63);
        out.put(3, 2);
        out.finish();
        assert_eq!(get_golomb(&mut Bits::new(&bytes), 2), None);
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
        fn the_best_order_is_that_of_all_numbers(
            numbers in proptest::collection::vec(prop_oneof![0..9_u64, 0..600_u64, 0..u64::from(u32::MAX)], 0..60),
        ) {
            let mut tally = Tally::new();
            numbers.iter().for_each(|number| tally.add(*number));
            for bits in [rice_bits, golomb_bits] {
                let cost = |order: &u32| numbers.iter().map(|number| bits(*number, *order)).sum::<u64>();
                prop_assert_eq!(tally.best_order(bits), (0..=ORDER_MAX).min_by_key(cost).unwrap());
            }
        }

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
