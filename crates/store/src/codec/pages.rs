//! A column of 64-bit integers in pages, each of which can be read without the others.
//!
//! Invariants: each value is in one page, and no page is empty.
//! Format: a tag byte; for [`SHARED`] the metadata of a `pco` chunk as bytes, for [`SPARSE`] two bytes (`sparse.rs`);
//! then each page as bytes. The number of values of each page is known from outside.

use pco::wrapped::{ChunkDecompressor, FileCompressor, FileDecompressor};
use pco::{ChunkConfig, PagingSpec};

use crate::bytes::{Broken, Cursor, put_bytes, put_varint, varint_bytes};
use crate::codec::counts::{self, split};
use crate::codec::integers::{self, PCO_HEADER, Plain};
use crate::codec::latents::Latents;
use crate::codec::sparse::{self, Codes};

/// Each page is a column of integers.
const SEPARATE: u8 = 0;
/// Pages of one `pco` chunk, whose metadata describes all values and is written once.
const SHARED: u8 = 1;
/// Only what is not zero.
const SPARSE: u8 = 2;

/// Appends `values` in the smallest form, as pages of `lengths` values each.
pub(crate) fn put(out: &mut Vec<u8>, values: &[i64], lengths: &[usize]) {
    assert_eq!(lengths.iter().sum::<usize>(), values.len(), "pages hold every value once");
    debug_assert!(lengths.iter().all(|length| *length > 0), "no page is empty: {lengths:?}");
    let plain: Vec<Plain> = split(values, lengths).map(Plain::smallest).collect();
    let separate = 1 + plain.iter().map(|page| varint_bytes(page.bytes as u64) + page.bytes).sum::<usize>();
    let sparse = sparse::encode(values, lengths);
    let mut least = separate.min(sparse.as_ref().map_or(usize::MAX, |pages| 1 + pages.len()));
    let mut best = None;
    let mode = counts::mode(values);
    for spec in counts::specs(values, lengths, least) {
        if let Some(pages) =
            shared(values, lengths, &integers::config(&mode, spec)).filter(|pages| 1 + pages.len() < least)
        {
            least = 1 + pages.len();
            best = Some((SHARED, pages));
        }
    }
    let sparse = sparse.filter(|_| separate > least).map(|pages| (SPARSE, pages));
    if let Some((tag, pages)) = best.or(sparse) {
        out.push(tag);
        out.extend_from_slice(&pages);
        return;
    }
    out.push(SEPARATE);
    for (page, values) in plain.into_iter().zip(split(values, lengths)) {
        put_varint(out, page.bytes as u64);
        page.put(out, values);
    }
}

/// None when `pco` refuses the values.
fn shared(values: &[i64], lengths: &[usize], config: &ChunkConfig) -> Option<Vec<u8>> {
    let config = config.clone().with_paging_spec(PagingSpec::Exact(lengths.to_vec()));
    let mut chunk = FileCompressor::default().chunk_compressor(values, &config).ok()?;
    let (mut out, mut part) = (Vec::new(), Vec::new());
    chunk.write_meta(&mut part).ok()?;
    put_bytes(&mut out, &part);
    for page in 0..lengths.len() {
        part.clear();
        chunk.write_page(page, &mut part).ok()?;
        put_bytes(&mut out, &part);
    }
    Some(out)
}

/// The pages of a column, one after the other.
pub(crate) enum Pages {
    Separate,
    /// In the mode that [`Latents`] reads.
    Classic,
    Shared(Box<ChunkDecompressor<i64>>),
    Sparse(Codes),
}

impl Pages {
    /// Reads what precedes the pages, which are then read with the same `latents`.
    pub(crate) fn open(cursor: &mut Cursor<'_>, latents: &mut Latents) -> Result<Self, Broken> {
        match cursor.byte()? {
            SEPARATE => Ok(Self::Separate),
            SHARED => {
                let bytes = cursor.length_and_bytes()?;
                match latents.open(bytes).map_err(|problem| cursor.broken(problem))? {
                    Some(length) if length == bytes.len() => Ok(Self::Classic),
                    Some(length) => Err(cursor.broken(behind_metadata(bytes.len() - length))),
                    None => {
                        let chunk = chunk(bytes).map_err(|problem| cursor.broken(problem))?;
                        Ok(Self::Shared(Box::new(chunk)))
                    }
                }
            }
            SPARSE => Codes::get(cursor).map(Self::Sparse),
            tag => Err(cursor.broken(format!("{tag} is no coding of pages"))),
        }
    }

    /// Reads the next page, of `count` values, and appends them to `values`; after an error the appended ones mean
    /// nothing.
    pub(crate) fn extend(
        &mut self,
        cursor: &mut Cursor<'_>,
        count: usize,
        values: &mut Vec<i64>,
        latents: &mut Latents,
    ) -> Result<(), Broken> {
        let bytes = cursor.length_and_bytes()?;
        match self {
            Self::Sparse(codes) => {
                let held = values.len();
                values.resize(held + count, 0);
                let places = &mut values[held..];
                let read = codes.each(bytes, count, &mut latents.padded, |place, value| places[place] = value);
                read.map_err(|problem| cursor.broken(problem))
            }
            Self::Classic => latents.extend(bytes, count, values).map_err(|problem| cursor.broken(problem)),
            Self::Separate => {
                let mut page = Cursor::new(bytes);
                integers::extend(&mut page, count, values).map_err(|broken| cursor.broken(broken.problem))?;
                if page.is_empty() { Ok(()) } else { Err(cursor.broken("bytes follow the last value of a page")) }
            }
            Self::Shared(chunk) => {
                integers::extend_page(chunk, bytes, count, values).map_err(|problem| cursor.broken(problem))
            }
        }
    }

    /// Skips the next page.
    pub(crate) fn skip(cursor: &mut Cursor<'_>) -> Result<(), Broken> {
        cursor.length_and_bytes().map(drop)
    }
}

fn chunk(bytes: &[u8]) -> Result<ChunkDecompressor<i64>, String> {
    let text = |error: pco::errors::PcoError| error.to_string();
    let (file, _) = FileDecompressor::new(PCO_HEADER).map_err(text)?;
    let (chunk, rest) = file.chunk_decompressor::<i64, _>(bytes).map_err(text)?;
    if rest.is_empty() { Ok(chunk) } else { Err(behind_metadata(rest.len())) }
}

fn behind_metadata(bytes: usize) -> String {
    format!("{bytes} bytes behind the metadata of pages")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Puts and reads them, all and each alone, and gives the tag.
    fn check(values: &[i64], lengths: &[usize]) -> u8 {
        let mut out = Vec::new();
        put(&mut out, values, lengths);
        for only in std::iter::once(None).chain((0..lengths.len()).map(Some)) {
            let mut cursor = Cursor::new(&out);
            let mut latents = Latents::default();
            let mut pages = Pages::open(&mut cursor, &mut latents).unwrap();
            let (mut found, mut expected, mut at) = (Vec::new(), Vec::new(), 0);
            for (page, length) in lengths.iter().enumerate() {
                if only.is_none_or(|only| only == page) {
                    pages.extend(&mut cursor, *length, &mut found, &mut latents).unwrap();
                    expected.extend_from_slice(&values[at..at + length]);
                } else {
                    Pages::skip(&mut cursor).unwrap();
                }
                at += length;
            }
            assert_eq!(found, expected, "page {only:?}");
            assert!(cursor.is_empty());
        }
        for cut in 0..out.len() {
            assert!(all(&out[..cut], lengths).is_err(), "cut at {cut} of {}", out.len());
        }
        out[0]
    }

    fn all(bytes: &[u8], lengths: &[usize]) -> Result<Vec<i64>, Broken> {
        let mut cursor = Cursor::new(bytes);
        let mut latents = Latents::default();
        let mut pages = Pages::open(&mut cursor, &mut latents)?;
        let mut found = Vec::new();
        for length in lengths {
            pages.extend(&mut cursor, *length, &mut found, &mut latents)?;
        }
        Ok(found)
    }

    #[test]
    fn each_shape_finds_its_form() {
        assert_eq!(check(&[7; 90], &[30, 30, 30]), SEPARATE);
        assert_eq!(check(&[i64::MIN, i64::MAX, 3], &[1, 2]), SEPARATE);
        let random = |i: i64| i * i * 7919 % 1009;
        let skewed: Vec<i64> = (0..2048).map(|i| (1 + random(i) / 300) * (1 + 7 * (random(i) / 950))).collect();
        assert_eq!(check(&skewed, &[256; 8]), SHARED);
        let rare: Vec<i64> = (0..2048).map(|i| random(i) / 900 * (i % 7 / 6) * (1 + i % 3)).collect();
        assert_eq!(check(&rare, &[256; 8]), SPARSE);
    }

    #[test]
    fn what_is_no_page_is_an_error() {
        assert!(Pages::open(&mut Cursor::new(&[3]), &mut Latents::default()).is_err());
        let mut out = Vec::new();
        put(&mut out, &[7; 20], &[10, 10]);
        // The first page: its length, the tag of a constant, 14 as zigzag.
        assert_eq!(out[..4], [SEPARATE, 2, 0, 14]);
        out[1] = 3;
        assert!(all(&out, &[10, 10]).is_err(), "a byte behind the last value");
    }

    proptest! {
        #[test]
        fn any_pages_come_back(
            lengths in proptest::collection::vec(prop_oneof![3 => 1..40_usize, 1 => 1..300_usize], 1..6),
            seed in any::<u64>(),
            width in 0..64_u32,
        ) {
            let mut random = fastrand::Rng::with_seed(seed);
            let values: Vec<i64> = (0..lengths.iter().sum()).map(|_| random.i64(..) >> width).collect();
            check(&values, &lengths);
        }
    }
}
