//! Reader of `pco` chunks of i64 in its classic mode, with differences or without: what nearly all columns of integers
//! are. Chunks of counts are small, a few hundred values a page, and the crate allocates and clears some 10 KiB for
//! each of them before it reads a value; this reads them into tables that are used again.
//!
//! Invariants: the values are those that the crate reads; what it refuses, this refuses. Other modes are left to it.
//! Format: github.com/pcodec/pcodec, version 4.1, wrapped: bits from the least significant one on. Metadata: mode (4
//! bits), differences (4; order in 3 and a flag in 1), base-2 logarithm of the table's size (4), number of bins (15),
//! of each its weight less 1, lower end (64) and bits of an offset (7). Page: a moment (64) for each order, four
//! states; and for each 256 values their tANS bits, four states in turn, then their offsets.
//! Limits: [`SIZE_LOG_MAX`], [`ORDER_MAX`].

use crate::codec::bits::{Bits, WORD_BITS, low_bits, padded};

/// The most values whose offsets follow each other.
const BATCH: usize = 256;
/// Values that are decoded in turn, each with its own state.
const STATES: usize = 4;
/// The format's own limit: a table of 16,384 nodes, 256 KiB.
const SIZE_LOG_MAX: u32 = 14;
// Four states read their bits from one word, of which 57 are sure to be there.
const _: () = assert!(STATES as u32 * SIZE_LOG_MAX <= WORD_BITS);
/// 3 bits say it.
const ORDER_MAX: usize = 7;
/// Numbers are written with this bit changed, so that negative ones come first; so are differences.
const SIGN: u64 = 1 << 63;

/// A state of the decoder.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// The least value of its bin, its sign bit changed back.
    lower: u64,
    /// The next state is this and what its bits say.
    next: u16,
    bits: u8,
    offset_bits: u8,
}

/// Part of the values, as many as there are states with its weight.
#[derive(Clone, Copy, Debug)]
struct Bin {
    lower: u64,
    weight: u32,
    offset_bits: u8,
}

/// Reads the pages of one chunk after the other.
#[derive(Debug, Default)]
pub(crate) struct Latents {
    nodes: Vec<Node>,
    size_log: u32,
    order: usize,
    /// Of an offset.
    bits_max: u32,
    bins: Vec<Bin>,
    /// The number of each state's bin.
    symbols: Vec<u16>,
    /// A page, and zeros.
    pub(crate) padded: Vec<u8>,
}

impl Latents {
    /// Reads the metadata of a chunk and says how many bytes they are; `None` for a mode that only the crate reads.
    pub(crate) fn open(&mut self, bytes: &[u8]) -> Result<Option<usize>, String> {
        let mut bits = Bits::new(bytes);
        if bits.read(4) != 0 {
            return Ok(None);
        }
        let is_difference = match bits.read(4) {
            0 => false,
            1 => true,
            _ => return Ok(None),
        };
        self.order = 0;
        if is_difference {
            self.order = bits.read(3) as usize;
            // Whether a second variable has differences: here is none.
            bits.read(1);
        }
        self.size_log = bits.read(4) as u32;
        let count = bits.read(15) as usize;
        // What the crate refuses is its to name.
        let fits = match count {
            0 => false,
            1 => self.size_log == 0,
            _ => self.size_log <= SIZE_LOG_MAX && count <= 1 << self.size_log,
        };
        if !fits || (is_difference && self.order == 0) {
            return Ok(None);
        }
        let bin_bits = self.size_log as usize + 64 + 7;
        if bits.at + count * bin_bits > 8 * bytes.len() {
            return Err(format!("{count} bins in {} bytes", bytes.len()));
        }
        self.bins.clear();
        for _ in 0..count {
            let weight = bits.read(self.size_log) as u32 + 1;
            let (lower, offset_bits) = (bits.read(64) ^ SIGN, bits.read(7) as u8);
            self.bins.push(Bin { lower, weight, offset_bits });
        }
        self.bits_max = self.bins.iter().map(|bin| u32::from(bin.offset_bits)).max().unwrap_or(0);
        if self.bits_max > u64::BITS {
            return Err(format!("offsets of {} bits", self.bits_max));
        }
        if !bits.finish_byte(bytes.len()) {
            return Err("bits behind the metadata".into());
        }
        self.fill_nodes()?;
        Ok(Some(bits.at / 8))
    }

    /// The table of states: those of a bin lie as far from each other as they can.
    fn fill_nodes(&mut self) -> Result<(), String> {
        let size = 1_u32 << self.size_log;
        let total: u64 = self.bins.iter().map(|bin| u64::from(bin.weight)).sum();
        if total != u64::from(size) {
            return Err(format!("weights of {total} for {size} states"));
        }
        let stride = (3 * size / 5) | 1;
        self.symbols.clear();
        self.symbols.resize(size as usize, 0);
        let mut place = 0;
        for (number, bin) in (0..).zip(&self.bins) {
            for _ in 0..bin.weight {
                self.symbols[place as usize] = number;
                place = (place + stride) & (size - 1);
            }
        }
        self.nodes.clear();
        for symbol in &self.symbols {
            let Bin { lower, weight, offset_bits } = &mut self.bins[usize::from(*symbol)];
            let bits = weight.leading_zeros() - size.leading_zeros();
            let next = ((*weight << bits) - size) as u16;
            *weight += 1;
            self.nodes.push(Node { lower: *lower, next, bits: bits as u8, offset_bits: *offset_bits });
        }
        debug_assert_eq!(self.nodes.len(), size as usize, "each state has its node");
        Ok(())
    }

    /// Reads a page of `count` values of the chunk that was opened, and appends them to `values`; after an error the
    /// appended ones mean nothing.
    pub(crate) fn extend(&mut self, bytes: &[u8], count: usize, values: &mut Vec<i64>) -> Result<(), String> {
        assert!(!self.nodes.is_empty(), "no chunk was opened");
        let mut bits = padded(bytes, &mut self.padded);
        let mut moments = [0; ORDER_MAX];
        moments[..self.order].iter_mut().for_each(|moment| *moment = bits.read(64));
        moments[0] ^= SIGN;
        let mut states: [usize; STATES] = std::array::from_fn(|_| bits.read(self.size_log) as usize);
        if !bits.finish_byte(bytes.len()) {
            return Err("a page ends in its beginning".into());
        }
        let held = values.len();
        values.resize(held + count, 0);
        let coded = count.saturating_sub(self.order);
        for batch in values[held..held + coded].chunks_mut(BATCH) {
            batch_of(&self.nodes, self.bits_max, &mut bits, &mut states, batch);
        }
        for moment in moments[..self.order].iter().rev() {
            add_up(*moment, &mut values[held..]);
        }
        if bits.finish_byte(bytes.len()) && bits.at == 8 * bytes.len() {
            Ok(())
        } else {
            Err(format!("{count} values end at bit {} of {} bytes", bits.at, bytes.len()))
        }
    }
}

/// Decodes values whose offsets follow each other.
fn batch_of(nodes: &[Node], bits_max: u32, bits: &mut Bits<'_>, states: &mut [usize; STATES], batch: &mut [i64]) {
    debug_assert!(batch.len() <= BATCH, "{} values of a batch", batch.len());
    let mut widths = [0_u8; BATCH];
    if nodes.len() == 1 {
        batch.fill(nodes[0].lower.cast_signed());
        widths[..batch.len()].fill(nodes[0].offset_bits);
    } else {
        read_bins(nodes, bits, states, batch, &mut widths);
    }
    if bits_max > WORD_BITS {
        for (value, width) in batch.iter_mut().zip(widths) {
            *value = value.wrapping_add(bits.read(width.into()).cast_signed());
        }
    } else if bits_max > 0 {
        for (value, width) in batch.iter_mut().zip(widths) {
            let offset = bits.word() & low_bits(width.into());
            *value = value.wrapping_add(offset.cast_signed());
            bits.at += usize::from(width);
        }
    }
}

/// Reads the bin of each value: its lower end, and how many bits its offset has.
fn read_bins(
    nodes: &[Node],
    bits: &mut Bits<'_>,
    states: &mut [usize; STATES],
    batch: &mut [i64],
    widths: &mut [u8; BATCH],
) {
    let [mut a, mut b, mut c, mut d] = *states;
    let whole = batch.len() / STATES * STATES;
    for (values, widths) in batch.chunks_exact_mut(STATES).zip(widths.chunks_exact_mut(STATES)) {
        let mut word = bits.word();
        let mut used = 0;
        let mut step = |state: &mut usize, value: &mut i64, width: &mut u8| {
            let node = nodes[*state];
            *value = node.lower.cast_signed();
            *width = node.offset_bits;
            *state = usize::from(node.next) + (word & low_bits(node.bits.into())) as usize;
            word >>= node.bits;
            used += usize::from(node.bits);
        };
        step(&mut a, &mut values[0], &mut widths[0]);
        step(&mut b, &mut values[1], &mut widths[1]);
        step(&mut c, &mut values[2], &mut widths[2]);
        step(&mut d, &mut values[3], &mut widths[3]);
        bits.at += used;
    }
    *states = [a, b, c, d];
    let rest = batch[whole..].iter_mut().zip(&mut widths[whole..]);
    for ((value, width), state) in rest.zip(states) {
        let node = nodes[*state];
        *value = node.lower.cast_signed();
        *width = node.offset_bits;
        *state = usize::from(node.next) + bits.read(node.bits.into()) as usize;
    }
}

/// Differences and the first value become values.
fn add_up(first: u64, values: &mut [i64]) {
    let mut sum = first.cast_signed();
    for value in values {
        let difference = std::mem::replace(value, sum);
        sum = sum.wrapping_add(difference);
    }
}

#[cfg(test)]
mod tests {
    use pco::wrapped::{FileCompressor, FileDecompressor};
    use pco::{ChunkConfig, DeltaSpec, PagingSpec};
    use proptest::prelude::*;

    use super::*;
    use crate::codec::integers::{PCO_HEADER, extend_page};

    /// Metadata and pages as the crate writes them.
    fn written(values: &[i64], lengths: &[usize], delta: DeltaSpec) -> (Vec<u8>, Vec<Vec<u8>>) {
        let config =
            ChunkConfig::default().with_delta_spec(delta).with_paging_spec(PagingSpec::Exact(lengths.to_vec()));
        let mut chunk = FileCompressor::default().chunk_compressor(values, &config).unwrap();
        let mut meta = Vec::new();
        chunk.write_meta(&mut meta).unwrap();
        let page = |page| {
            let mut out = Vec::new();
            chunk.write_page(page, &mut out).unwrap();
            out
        };
        (meta, (0..lengths.len()).map(page).collect())
    }

    /// What the crate reads.
    fn expected(meta: &[u8], page: &[u8], count: usize) -> Result<Vec<i64>, String> {
        let text = |error: pco::errors::PcoError| error.to_string();
        let (file, _) = FileDecompressor::new(PCO_HEADER).map_err(text)?;
        let (mut chunk, rest) = file.chunk_decompressor::<i64, _>(meta).map_err(text)?;
        if !rest.is_empty() {
            return Err("more than metadata".into());
        }
        let mut values = Vec::new();
        extend_page(&mut chunk, page, count, &mut values)?;
        Ok(values)
    }

    /// What this reads; `None` when it leaves them to the crate.
    fn read(latents: &mut Latents, meta: &[u8], page: &[u8], count: usize) -> Option<Result<Vec<i64>, String>> {
        match latents.open(meta) {
            Ok(None) => return None,
            Ok(Some(length)) if length == meta.len() => {}
            Ok(Some(_)) => return Some(Err("more than metadata".into())),
            Err(problem) => return Some(Err(problem)),
        }
        let mut values = Vec::new();
        Some(latents.extend(page, count, &mut values).map(|()| values))
    }

    fn check(values: &[i64], lengths: &[usize], delta: DeltaSpec) -> bool {
        let (meta, pages) = written(values, lengths, delta);
        let (mut latents, mut at, mut own) = (Latents::default(), 0, false);
        for (page, length) in pages.iter().zip(lengths) {
            if let Some(found) = read(&mut latents, &meta, page, *length) {
                assert_eq!(found.unwrap(), &values[at..at + length]);
                own = true;
            }
            at += length;
        }
        own
    }

    #[test]
    fn counts_and_their_sums_are_read_here() {
        let counts: Vec<i64> = (0..1024).map(|i: i64| (i * i * 7919 % 1009 / 300) * (i % 5 / 3)).collect();
        let mut sum = 0;
        let sums: Vec<i64> = counts
            .iter()
            .map(|count| {
                sum += count;
                sum
            })
            .collect();
        for lengths in [vec![1024], vec![256; 4], vec![1, 1000, 3, 20]] {
            assert!(check(&counts, &lengths, DeltaSpec::NoOp));
            assert!(check(&sums, &lengths, DeltaSpec::TryConsecutive(1)));
            assert!(check(&sums, &lengths, DeltaSpec::TryConsecutive(2)));
        }
        assert!(check(&[7; 300], &[300], DeltaSpec::NoOp), "one bin");
    }

    #[test]
    fn each_cut_and_each_changed_bit_is_read_as_the_crate_reads_it() {
        let counts: Vec<i64> = (0..512).map(|i: i64| i * i * 7919 % 1009 / 300 * (1 + i % 40)).collect();
        for delta in [DeltaSpec::NoOp, DeltaSpec::TryConsecutive(1)] {
            let (meta, pages) = written(&counts, &[320, 192], delta);
            let mut latents = Latents::default();
            let mut same = |meta: &[u8], page: &[u8]| {
                if let Some(found) = read(&mut latents, meta, page, 320) {
                    assert_eq!(found.ok(), expected(meta, page, 320).ok());
                }
            };
            for cut in 0..pages[0].len() {
                same(&meta, &pages[0][..cut]);
            }
            for cut in 0..meta.len() {
                same(&meta[..cut], &pages[0]);
            }
            for bit in 0..8 * meta.len() {
                let mut other = meta.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                same(&other, &pages[0]);
            }
            for bit in 0..8 * pages[0].len() {
                let mut other = pages[0].clone();
                other[bit / 8] ^= 1 << (bit % 8);
                same(&meta, &other);
            }
        }
    }

    proptest! {
        #[test]
        fn any_values_are_read_as_the_crate_reads_them(
            lengths in proptest::collection::vec(1..700_usize, 1..5), seed in any::<u64>(), width in 0..64_u32,
            order in 0..4_usize, steps in any::<bool>(),
        ) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut last = 0_i64;
            let values: Vec<i64> = (0..lengths.iter().sum()).map(|_| {
                let value = random.i64(..) >> width;
                last = if steps { last.wrapping_add(value) } else { value };
                last
            }).collect();
            let delta = if order == 0 { DeltaSpec::NoOp } else { DeltaSpec::TryConsecutive(order) };
            check(&values, &lengths, delta);
        }
    }
}
