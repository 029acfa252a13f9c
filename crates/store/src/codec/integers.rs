//! A column of 64-bit integers: constant, bit-packed, bit-packed differences, or `pco`, whichever is smallest.
//!
//! Invariants: as many values are read as were written; what is packed in a width fits it, in as many bytes as the
//! reader takes.
//! Format: one tag byte, then as the tag says. The number of values is known from outside.

use pco::wrapped::{ChunkDecompressor, FileCompressor, FileDecompressor};
use pco::{ChunkConfig, DeltaSpec, ModeSpec, PagingSpec};

use crate::bytes::{Broken, Cursor, put_bytes, put_signed, put_varint, varint_bytes, zigzag};
use crate::codec::bits::BitWriter;
use crate::codec::counts;
use crate::codec::latents::Latents;
use crate::codec::unpack;

const CONSTANT: u8 = 0;
const PACKED: u8 = 1;
const PACKED_DELTA: u8 = 2;
const PCO: u8 = 3;
/// What else begins with a tag where a column may be has a greater one.
pub(crate) const TAG_MAX: u8 = PCO;

/// 128 values share one least value and one width: an outlier costs its neighbours at most 128 widths.
const PACK_COUNT: usize = 128;
/// Below this `pco` has no room to win: its header is some 20 bytes and its set-up 12 us.
const PCO_COUNT_MIN: usize = 128;
/// Level 4 is within 1 % of level 8 at a third of its time.
const PCO_LEVEL: usize = 4;

/// Appends `values` in the smallest form.
pub(crate) fn put(out: &mut Vec<u8>, values: &[i64]) {
    put_with(out, values, ANY);
}

/// As [`put`], with `pco` on one of some differences.
pub(crate) fn put_with(out: &mut Vec<u8>, values: &[i64], specs: &'static [DeltaSpec]) {
    put_smallest(out, values, &ModeSpec::Auto, |_| specs);
}

/// As [`put`], of counts, whose form is found in less time.
pub(crate) fn put_counts(out: &mut Vec<u8>, values: &[i64]) {
    put_smallest(out, values, &counts::mode(values), |bytes_max| counts::specs(values, &[values.len()], bytes_max));
}

/// With `pco` on one of the differences that are worth trying for less than so many bytes.
fn put_smallest(out: &mut Vec<u8>, values: &[i64], mode: &ModeSpec, specs: impl Fn(usize) -> &'static [DeltaSpec]) {
    let plain = Plain::smallest(values);
    if plain.tag != CONSTANT && values.len() >= PCO_COUNT_MIN {
        let bytes = pco_bytes(values, mode, specs(plain.bytes));
        if let Some(bytes) = bytes.filter(|bytes| 1 + varint_bytes(bytes.len() as u64) + bytes.len() < plain.bytes) {
            out.push(PCO);
            put_bytes(out, &bytes);
            return;
        }
    }
    plain.put(out, values);
}

/// The smallest form without `pco`, known before it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    tag: u8,
    /// Of the form with its tag.
    pub(crate) bytes: usize,
}

impl Plain {
    /// That of `values`.
    pub(crate) fn smallest(values: &[i64]) -> Self {
        let Some((&first, rest)) = values.split_first() else { return Self { tag: CONSTANT, bytes: 0 } };
        let head = 1 + varint_bytes(zigzag(first));
        if rest.iter().all(|value| *value == first) {
            return Self { tag: CONSTANT, bytes: head };
        }
        let mut packed = 1;
        values.chunks(PACK_COUNT).for_each(|block| packed += Span::new(block).bytes(block.len()));
        let mut deltas = head;
        each_delta_block(values, |block| deltas += Span::new(block).bytes(block.len()));
        if deltas < packed { Self { tag: PACKED_DELTA, bytes: deltas } } else { Self { tag: PACKED, bytes: packed } }
    }

    /// Appends the values that it is of.
    pub(crate) fn put(self, out: &mut Vec<u8>, values: &[i64]) {
        let Some(first) = values.first() else { return };
        let start = out.len();
        out.push(self.tag);
        match self.tag {
            CONSTANT => put_signed(out, *first),
            PACKED => values.chunks(PACK_COUNT).for_each(|block| put_block(out, block)),
            _ => {
                put_signed(out, *first);
                each_delta_block(values, |block| put_block(out, block));
            }
        }
        assert_eq!(out.len() - start, self.bytes, "{} values in the form {}", values.len(), self.tag);
    }
}

/// What up to [`PACK_COUNT`] values have in common.
#[derive(Clone, Copy, Debug)]
struct Span {
    least: i64,
    /// Bits of the greatest less the least.
    width: u32,
}

impl Span {
    fn new(block: &[i64]) -> Self {
        let mut ends = (i64::MAX, i64::MIN);
        block.iter().for_each(|value| ends = (ends.0.min(*value), ends.1.max(*value)));
        assert!(ends.0 <= ends.1, "a block is not empty");
        let widest = ends.1.wrapping_sub(ends.0).cast_unsigned();
        Self { least: ends.0, width: u64::BITS - widest.leading_zeros() }
    }

    /// What a block of `count` values takes.
    fn bytes(self, count: usize) -> usize {
        varint_bytes(zigzag(self.least)) + 1 + (count * self.width as usize).div_ceil(8)
    }
}

/// The differences of neighbours, up to [`PACK_COUNT`] at a time.
fn each_delta_block(values: &[i64], mut each: impl FnMut(&[i64])) {
    let mut room = [0; PACK_COUNT];
    let followers = values.get(1..).unwrap_or_default();
    for (before, after) in values.chunks(PACK_COUNT).zip(followers.chunks(PACK_COUNT)) {
        let deltas = &mut room[..after.len()];
        for ((delta, before), after) in deltas.iter_mut().zip(before).zip(after) {
            *delta = after.wrapping_sub(*before);
        }
        each(deltas);
    }
}

fn put_block(out: &mut Vec<u8>, block: &[i64]) {
    let span = Span::new(block);
    let start = out.len();
    put_signed(out, span.least);
    out.push(span.width as u8);
    if span.width > 0 {
        let mut bits = BitWriter::new(out);
        block.iter().for_each(|value| bits.put(value.wrapping_sub(span.least).cast_unsigned(), span.width));
        bits.finish();
    }
    let (bytes, width) = (span.bytes(block.len()), span.width);
    assert_eq!(out.len() - start, bytes, "a reader takes {bytes} bytes for {} values of {width} bits", block.len());
}

/// Reads a column of `count` values.
pub(crate) fn get(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<i64>, Broken> {
    let mut values = Vec::new();
    extend(cursor, count, &mut values)?;
    debug_assert_eq!(values.len(), count, "a column has as many values as were asked for");
    Ok(values)
}

/// As [`get`], behind what `values` hold; after an error they hold more of no meaning.
pub(crate) fn extend(cursor: &mut Cursor<'_>, count: usize, values: &mut Vec<i64>) -> Result<(), Broken> {
    if count == 0 {
        return Ok(());
    }
    match cursor.byte()? {
        CONSTANT => {
            let value = cursor.signed()?;
            values.resize(values.len() + count, value);
            Ok(())
        }
        PACKED => extend_packed(cursor, count, values),
        PACKED_DELTA => {
            let mut value = cursor.signed()?;
            let held = values.len();
            values.push(value);
            extend_packed(cursor, count - 1, values)?;
            for delta in &mut values[held + 1..] {
                value = value.wrapping_add(*delta);
                *delta = value;
            }
            Ok(())
        }
        PCO => {
            let bytes = cursor.length_and_bytes()?;
            extend_classic(bytes, count, values).map_err(|error| cursor.broken(error))
        }
        tag => Err(cursor.broken(format!("{tag} is no integer coding"))),
    }
}

/// What `pco` finds by itself, from patterns that repeat at a distance too.
pub(crate) const ANY: &[DeltaSpec] = &[DeltaSpec::Auto];

/// `pco` without its file header, which is the block's own, on the differences of `specs` that take the fewest bytes.
/// None when it refuses the values.
pub(crate) fn pco_bytes<T: pco::data_types::Number>(
    values: &[T],
    mode: &ModeSpec,
    specs: &[DeltaSpec],
) -> Option<Vec<u8>> {
    let bytes = |spec| {
        let config = config(mode, spec).with_paging_spec(PagingSpec::Exact(vec![values.len()]));
        let mut chunk = FileCompressor::default().chunk_compressor(values, &config).ok()?;
        let mut out = Vec::new();
        chunk.write_meta(&mut out).ok()?;
        chunk.write_page(0, &mut out).ok()?;
        Some(out)
    };
    specs.iter().filter_map(bytes).min_by_key(Vec::len)
}

/// How `pco` codes here.
pub(crate) fn config(mode: &ModeSpec, spec: &DeltaSpec) -> ChunkConfig {
    let config = ChunkConfig::default().with_compression_level(PCO_LEVEL);
    config.with_mode_spec(mode.clone()).with_delta_spec(spec.clone())
}

/// Inverse of [`pco_bytes`].
pub(crate) fn pco_values<T: pco::data_types::Number>(bytes: &[u8], count: usize) -> Result<Vec<T>, String> {
    let mut values = Vec::new();
    extend_pco(bytes, count, &mut values)?;
    Ok(values)
}

/// As [`extend_pco`], with fewer allocations where the mode allows.
fn extend_classic(bytes: &[u8], count: usize, values: &mut Vec<i64>) -> Result<(), String> {
    let mut latents = Latents::default();
    match latents.open(bytes)? {
        Some(length) => latents.extend(&bytes[length..], count, values),
        None => extend_pco(bytes, count, values),
    }
}

/// As [`pco_values`], behind what `values` hold.
pub(crate) fn extend_pco<T: pco::data_types::Number>(
    bytes: &[u8],
    count: usize,
    values: &mut Vec<T>,
) -> Result<(), String> {
    let text = |error: pco::errors::PcoError| error.to_string();
    let (file, _) = FileDecompressor::new(PCO_HEADER).map_err(text)?;
    let (mut chunk, rest) = file.chunk_decompressor::<T, _>(bytes).map_err(text)?;
    extend_page(&mut chunk, rest, count, values)
}

/// Reads a page of `chunk`, of `count` values, and appends them to `values`.
pub(crate) fn extend_page<T: pco::data_types::Number>(
    chunk: &mut ChunkDecompressor<T>,
    bytes: &[u8],
    count: usize,
    values: &mut Vec<T>,
) -> Result<(), String> {
    let text = |error: pco::errors::PcoError| error.to_string();
    let held = values.len();
    values.resize(held + count, T::default());
    let mut page = chunk.page_decompressor(bytes, count).map_err(text)?;
    let progress = page.read(&mut values[held..]).map_err(text)?;
    let left = page.into_src().len();
    if !progress.finished || progress.n_processed != count || left != 0 {
        return Err(format!("{} of {count} values and {left} bytes more", progress.n_processed));
    }
    Ok(())
}

/// The header of pco's format version 4.1; a test compares it with what the crate writes.
pub(crate) const PCO_HEADER: &[u8] = &[4, 1];

fn extend_packed(cursor: &mut Cursor<'_>, count: usize, values: &mut Vec<i64>) -> Result<(), Broken> {
    values.reserve(count);
    let end = values.len() + count;
    while values.len() < end {
        let block = PACK_COUNT.min(end - values.len());
        let least = cursor.signed()?;
        let width = u32::from(cursor.byte()?);
        if width > 64 {
            return Err(cursor.broken(format!("values of {width} bits")));
        }
        let bytes = cursor.take((block * width as usize).div_ceil(8))?;
        let whole = unpack::groups(bytes, width, block, least, values);
        values.extend((whole..block).map(|at| least.wrapping_add(bits_at(bytes, width, at) as i64)));
    }
    Ok(())
}

/// Number `at` of those that are packed in `width` bits each.
pub(crate) fn bits_at(bytes: &[u8], width: u32, at: usize) -> u64 {
    let bit = at * width as usize;
    debug_assert!(bit + width as usize <= 8 * bytes.len(), "bits from {bit} on, {width} of {} bytes", bytes.len());
    let (byte, shift) = (bit / 8, bit % 8);
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    if let Some(word) = bytes.get(byte..byte + 8).filter(|_| width <= 56) {
        return (u64::from_le_bytes(word.try_into().expect("eight bytes")) >> shift) & mask;
    }
    let end = bytes.len().min(byte + 9);
    let word = bytes[byte.min(end)..end].iter().rev().fold(0_u128, |all, byte| all << 8 | u128::from(*byte));
    (word >> shift) as u64 & mask
}

/// Appends a varint count and then sorted distinct positions as differences.
pub(crate) fn put_positions(out: &mut Vec<u8>, positions: &[usize]) {
    debug_assert!(positions.is_sorted_by(|one, next| one < next), "positions ascend: {positions:?}");
    put_varint(out, positions.len() as u64);
    let mut last = 0;
    for position in positions {
        put_varint(out, (position - last) as u64);
        last = *position;
    }
}

/// Reads ascending positions below `limit`.
pub(crate) fn get_positions(cursor: &mut Cursor<'_>, limit: usize) -> Result<Vec<usize>, Broken> {
    let count = cursor.count(limit, "positions")?;
    let mut positions = Vec::with_capacity(count);
    let mut last = 0_usize;
    for _ in 0..count {
        last = last.saturating_add(cursor.count(limit, "as a position")?);
        if last >= limit {
            return Err(cursor.broken(format!("position {last} where {limit} values are")));
        }
        positions.push(last);
    }
    Ok(positions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(values: &[i64]) -> usize {
        let mut out = Vec::new();
        put(&mut out, values);
        let mut cursor = Cursor::new(&out);
        assert_eq!(get(&mut cursor, values.len()).unwrap(), values);
        assert!(cursor.is_empty());
        for cut in 0..out.len() {
            assert!(get(&mut Cursor::new(&out[..cut]), values.len()).is_err(), "cut at {cut} of {}", out.len());
        }
        out.len()
    }

    #[test]
    fn shapes_take_the_bytes_that_they_should() {
        assert_eq!(check(&[]), 0);
        assert_eq!(check(&[-3; 1000]), 2);
        // Tag, first, and for each 128 differences their least and the width 0.
        assert_eq!(check(&(0..129).map(|i| i * 1000).collect::<Vec<_>>()), 1 + 1 + 3);
        // Differences wrap: from the least to the greatest is one step down.
        assert_eq!(check(&[i64::MIN, i64::MAX]), 1 + 10 + 1 + 1);
        assert_eq!(check(&[i64::MIN, i64::MAX, 0, -1]), 1 + 10 + 1 + 4 * 8);
        assert!(check(&(0..4096).map(|i| (i * i) % 7).collect::<Vec<_>>()) < 4096 / 2);
    }

    /// What blocks of 128 take, counted with numbers that cannot overflow.
    fn packed_bytes(values: &[i64]) -> usize {
        let block = |block: &[i64]| {
            let (least, most) = (*block.iter().min().unwrap(), *block.iter().max().unwrap());
            let width = 128 - (i128::from(most) - i128::from(least)).leading_zeros() as usize;
            let mut head = Vec::new();
            put_signed(&mut head, least);
            head.len() + 1 + (block.len() * width).div_ceil(8)
        };
        values.chunks(128).map(block).sum()
    }

    fn check_plain(values: &[i64]) {
        let deltas: Vec<i64> = values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        let mut first = Vec::new();
        put_signed(&mut first, values[0]);
        let expected = 1 + packed_bytes(values).min(first.len() + packed_bytes(&deltas));
        let plain = Plain::smallest(values);
        if plain.tag != CONSTANT {
            assert_eq!(plain.bytes, expected);
        }
        let mut out = Vec::new();
        plain.put(&mut out, values);
        assert_eq!(out.len(), plain.bytes);
        assert_eq!(get(&mut Cursor::new(&out), values.len()).unwrap(), values);
    }

    /// Two pages of `pco`, had it the choice, of which the first was written.
    #[test]
    fn more_values_than_a_page_has_come_back() {
        let many = (1 << 18) + 1;
        let rare: Vec<i64> = (0..many).map(|at| i64::from(at % 300 == 0)).collect();
        let mut out = Vec::new();
        put_counts(&mut out, &rare);
        assert_eq!(out[0], PCO, "the form that was cut");
        assert!(get(&mut Cursor::new(&out), rare.len()).unwrap() == rare);
        check(&rare);
        let bytes = pco_bytes(&vec![1.5_f64; many], &ModeSpec::Auto, ANY).unwrap();
        assert!(pco_values::<f64>(&bytes, many).unwrap() == vec![1.5; many]);
    }

    #[test]
    fn the_pco_header_is_what_the_crate_writes() {
        assert_eq!(FileCompressor::default().write_header(Vec::new()).unwrap(), PCO_HEADER);
    }

    proptest! {
        #[test]
        fn any_column_comes_back(values in proptest::collection::vec(any::<i64>(), 0..300)) {
            check(&values);
        }

        #[test]
        fn the_smaller_plain_form_is_known_before_it_is_written(
            any in proptest::collection::vec(any::<i64>(), 1..300),
            narrow in proptest::collection::vec(-9..90_i64, 1..300),
        ) {
            check_plain(&any);
            check_plain(&narrow);
            check_plain(&narrow.iter().scan(0, |sum, value| { *sum += value; Some(*sum) }).collect::<Vec<_>>());
        }

        #[test]
        fn any_narrow_column_comes_back(values in proptest::collection::vec(-9..90_i64, 0..600), scale in 1..1_000_000_i64) {
            check(&values.iter().map(|value| value * scale).collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_are_values_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), count in 0..400_usize) {
            // `pco` is reached only behind a checksum; here its own checks are trusted with nothing.
            if bytes.first() != Some(&PCO) {
                let _ = get(&mut Cursor::new(&bytes), count);
            }
        }
    }
}
