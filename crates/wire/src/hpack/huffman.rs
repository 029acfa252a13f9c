//! Huffman strings of HPACK (RFC 7541, section 5.2 and appendix B).
//!
//! The code is canonical: the symbols' lengths alone give it, so the lengths are the only table here. A symbol of up to
//! eight bits is found in one step; the longer ones, rare in headers, by the first code of their length.

/// Code length in bits of each octet, and of the end-of-string symbol last (RFC 7541, appendix B).
#[rustfmt::skip]
const BITS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// 256 octets and the end-of-string symbol.
const SYMBOLS: usize = 257;

/// The end-of-string symbol: only its prefix may appear, as padding.
const END: u16 = 256;

/// The longest code, in bits.
const LONGEST: usize = 30;

/// The canonical code for [`BITS`].
struct Code {
    /// By the next eight bits: the symbol and its length, or a length of 0 when the code is longer.
    short: [(u16, u8); 256],
    /// The first code of each length, and the number of codes.
    first: [(u32, u32); LONGEST + 1],
    /// Where the symbols of each length begin in `symbols`.
    start: [usize; LONGEST + 1],
    /// All symbols, by length and then by value.
    symbols: [u16; SYMBOLS],
}

const CODE: Code = build();

#[allow(clippy::cast_possible_truncation, reason = "symbols are below 257, lengths at most 30")]
const fn build() -> Code {
    let mut code =
        Code { short: [(0, 0); 256], first: [(0, 0); LONGEST + 1], start: [0; LONGEST + 1], symbols: [0; SYMBOLS] };
    let (mut next, mut filled, mut bits) = (0_u32, 0, 1);
    while bits <= LONGEST {
        next <<= 1;
        (code.first[bits].0, code.start[bits]) = (next, filled);
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if BITS[symbol] as usize == bits {
                code.symbols[filled] = symbol as u16;
                let mut tail = 0;
                while bits <= 8 && tail < 1 << (8 - bits) {
                    code.short[((next as usize) << (8 - bits)) + tail] = (symbol as u16, bits as u8);
                    tail += 1;
                }
                filled += 1;
                next += 1;
            }
            symbol += 1;
        }
        code.first[bits].1 = next - code.first[bits].0;
        bits += 1;
    }
    assert!(filled == SYMBOLS && next == 1 << LONGEST, "the code is complete");
    code
}

/// An invalid Huffman string: it contains the end symbol, or its padding is not a prefix of that with fewer than eight
/// bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BadHuffman;

/// Decodes `bytes`, keeps the first `limit` octets in `out`, and returns how many octets the string has.
pub(super) fn decode(bytes: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<usize, BadHuffman> {
    let (mut held, mut count, mut length) = (0_u64, 0_u32, 0);
    let mut rest = bytes.iter();
    loop {
        while count <= 32 {
            let Some(&byte) = rest.next() else { break };
            held = held << 8 | u64::from(byte);
            count += 8;
        }
        // Left-aligned in 32 bits and filled with ones, which are a prefix of the end symbol and of nothing shorter.
        let window = window(held, count);
        let (symbol, bits) = symbol(window);
        if u32::from(bits) > count || symbol == END {
            let padding = count < 8 && window == u32::MAX && rest.as_slice().is_empty();
            return if padding { Ok(length) } else { Err(BadHuffman) };
        }
        count -= u32::from(bits);
        if length < limit {
            out.push(u8::try_from(symbol).map_err(|_| BadHuffman)?);
        }
        length += 1;
    }
}

/// The next 32 bits of `held`, which has `count` bits left, filled with ones.
#[allow(clippy::cast_possible_truncation, reason = "the low 32 bits are what is wanted")]
fn window(held: u64, count: u32) -> u32 {
    if count >= 32 {
        (held >> (count - 32)) as u32
    } else {
        let ones = u64::from(u32::MAX) >> count;
        ((held << (32 - count)) as u32 & !(ones as u32)) | ones as u32
    }
}

/// The symbol at the head of `window`, and its bits.
#[allow(clippy::cast_possible_truncation, reason = "a length is at most 30")]
fn symbol(window: u32) -> (u16, u8) {
    let (symbol, bits) = CODE.short[(window >> 24) as usize];
    if bits > 0 {
        return (symbol, bits);
    }
    for bits in 9..=LONGEST {
        let (first, count) = CODE.first[bits];
        let offset = (window >> (32 - bits)).wrapping_sub(first);
        if offset < count {
            return (CODE.symbols[CODE.start[bits] + offset as usize], bits as u8);
        }
    }
    (END, LONGEST as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Result<Vec<u8>, BadHuffman> {
        let mut out = Vec::new();
        let length = decode(bytes, 1_000, &mut out)?;
        assert_eq!(length, out.len());
        Ok(out)
    }

    /// Encodes with the table itself, one bit at a time.
    fn encoded(text: &[u8]) -> Vec<u8> {
        let mut bits = Vec::new();
        for &octet in text {
            let length = usize::from(BITS[usize::from(octet)]);
            let place = (CODE.start[length]..).find(|&at| CODE.symbols[at] == u16::from(octet)).unwrap();
            let code = CODE.first[length].0 + u32::try_from(place - CODE.start[length]).unwrap();
            bits.extend((0..length).rev().map(|shift| code >> shift & 1 == 1));
        }
        while bits.len() % 8 != 0 {
            bits.push(true);
        }
        bits.chunks(8).map(|chunk| chunk.iter().fold(0, |byte, &bit| byte << 1 | u8::from(bit))).collect()
    }

    #[test]
    fn the_examples_of_the_standard_decode() {
        assert_eq!(
            decoded(&[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff]).unwrap(),
            b"www.example.com"
        );
        assert_eq!(decoded(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]).unwrap(), b"no-cache");
        assert_eq!(decoded(&[0x64, 0x02]).unwrap(), b"302");
        assert_eq!(decoded(&[]).unwrap(), b"");
    }

    #[test]
    fn every_octet_survives_in_pairs_with_every_other() {
        for first in 0..=255_u8 {
            let text: Vec<u8> = (0..=255_u8).flat_map(|second| [first, second]).collect();
            assert_eq!(decoded(&encoded(&text)).unwrap(), text, "octet {first}");
        }
    }

    #[test]
    fn a_string_is_counted_beyond_what_is_kept() {
        let mut out = Vec::new();
        assert_eq!(decode(&encoded(&[b'a'; 500]), 3, &mut out), Ok(500));
        assert_eq!(out, b"aaa");
    }

    #[test]
    fn wrong_padding_and_the_end_symbol_are_refused() {
        assert_eq!(decoded(&[0x18]), Err(BadHuffman), "padding of zeros");
        assert_eq!(decoded(&[0xff]), Err(BadHuffman), "eight bits of padding");
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), Err(BadHuffman), "the end symbol");
    }
}
