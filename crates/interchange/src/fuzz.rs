//! The readers for `fuzz/` and for the smoke tests: any bytes, and bytes whose checksums fit so that what stands behind
//! them is reached.

use ogive_model::{SourceId, Tenant};

use crate::blocks::{Block, Meta, ReadAt};
use crate::hdr_log::LogSettings;
use crate::table::Options;
use crate::{Batches, Error, batches, circllhist, csv, hdr_log, irondb, openmetrics, parquet, victoria};

/// Reads with `read`; returns how many samples there were, and how many places were bad.
///
/// # Panics
/// When a batch exceeds its limits, or is not numbered from 1.
pub fn counted(read: impl FnOnce(&mut Batches<'_>) -> Result<(), Error>) -> (u64, u64, Result<(), Error>) {
    let mut last = 0;
    let mut take = |numbered: crate::Numbered| {
        let (batch, places) = (&numbered.batch, &numbered.places);
        assert_eq!((batch.sequence, batch.samples.len()), (last + 1, places.len()));
        assert!(places.len() <= batches::SAMPLES_MAX, "{} samples", places.len());
        last += 1;
        true
    };
    let mut note = |_: u64, _: &'static str, _: &str| {};
    let mut out = Batches::new(SourceId(1), Tenant::default(), &mut take, &mut note);
    let read = read(&mut out);
    let (samples, bad) = out.finish(true);
    (samples, bad.values().map(|bad| bad.count).sum(), read)
}

/// A file of each format.
pub fn file(bytes: &[u8]) {
    let labels = vec![("__name__".to_owned(), "a".to_owned())];
    let meaning = LogSettings { labels, worth: 1e-9, unit: "s".into() };
    let options = Options::default();
    let _ = counted(|out| openmetrics::read(&mut &*bytes, out));
    let _ = counted(|out| victoria::read(&mut &*bytes, out));
    let _ = counted(|out| irondb::read(&mut &*bytes, out));
    let _ = counted(|out| hdr_log::read(&mut &*bytes, &meaning, out));
    let _ = counted(|out| circllhist::read(&mut &*bytes, &meaning, out));
    let _ = counted(|out| csv::read(&mut &*bytes, b',', &options, out));
    if bytes.starts_with(b"PAR1") {
        let _ = counted(|out| parquet::read(bytes::Bytes::copy_from_slice(bytes), &options, out, &mut |_| {}));
    }
}

/// The files of a block in turn: the bytes as they are, and as the contents behind valid checksums of small files.
pub fn block(bytes: &[u8]) {
    let (symbols, entry, chunk) = (symbols(&["", "__name__", "a", "b"]), series(2, 8), floats());
    let whole = |symbols: &[u8], entry: &[u8], chunk: &[u8], tombstones: &[u8]| {
        let _ = read(&index(symbols, &[entry]), &segment(&[chunk]), Some(&sealed_tombstones(tombstones)));
    };
    whole(bytes, &entry, &chunk, b"");
    whole(&symbols, bytes, &chunk, b"");
    whole(&symbols, &entry, bytes, b"");
    whole(&symbols, &entry, &chunk, bytes);
    let _ = read(bytes, &segment(&[&chunk]), None);
    let _ = read(&index(&symbols, &[&entry]), bytes, Some(bytes));
    let _ = Meta::read(bytes);
}

/// Reads a block of these files.
pub fn read(index: &[u8], segment: &[u8], tombstones: Option<&[u8]>) -> (u64, u64, Result<(), Error>) {
    let (index, segment) = (index.to_vec(), segment.to_vec());
    let meta = Meta { min_time: 0, max_time: 3 * 7_200_000, version: 1 };
    let segments = vec![&segment as &dyn ReadAt];
    let block = Block { meta, index: &index, segments, tombstones: tombstones.map(<[u8]>::to_vec) };
    counted(|out| block.read(out, &mut |_| {}))
}

/// The body of a section of symbols.
#[must_use]
pub fn symbols(all: &[&str]) -> Vec<u8> {
    let mut out = (all.len() as u32).to_be_bytes().to_vec();
    for text in all {
        out.push(text.len() as u8);
        out.extend_from_slice(text.as_bytes());
    }
    out
}

/// The body of a series with the name of symbol `name` and a chunk at `place` that holds [`floats`].
#[must_use]
pub fn series(name: u8, place: u8) -> Vec<u8> {
    // One label, `__name__`; one chunk, from 0 on for 30 s.
    let mut out = vec![1, 1, name, 1, 0];
    varint(&mut out, 30_000);
    out.push(place);
    out
}

/// Encoding and bytes of a chunk: 1.5 at 0, 15 and 30 s.
#[must_use]
pub fn floats() -> Vec<u8> {
    let mut out = vec![1, 0, 3, 0];
    out.extend_from_slice(&1.5_f64.to_bits().to_be_bytes());
    varint(&mut out, 15_000);
    // The value is the same; the step is the same, and the value.
    out.push(0);
    out
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// An index of these sections, with the checksums that fit.
#[must_use]
pub fn index(symbols: &[u8], series: &[&[u8]]) -> Vec<u8> {
    let mut out = vec![0xBA, 0xAA, 0xD7, 0x00, 2];
    out.extend_from_slice(&(symbols.len() as u32).to_be_bytes());
    out.extend_from_slice(symbols);
    out.extend_from_slice(&crc32c::crc32c(symbols).to_be_bytes());
    let begin = out.len() as u64;
    for entry in series {
        out.resize(out.len().next_multiple_of(16), 0);
        varint(&mut out, entry.len() as u64);
        out.extend_from_slice(entry);
        out.extend_from_slice(&crc32c::crc32c(entry).to_be_bytes());
    }
    let end = out.len() as u64;
    let toc: Vec<u8> = [5, begin, end, end, end, end].iter().flat_map(|place: &u64| place.to_be_bytes()).collect();
    out.extend_from_slice(&toc);
    out.extend_from_slice(&crc32c::crc32c(&toc).to_be_bytes());
    out
}

/// A segment of these chunks, with the checksums that fit.
#[must_use]
pub fn segment(chunks: &[&[u8]]) -> Vec<u8> {
    let mut out = vec![0x85, 0xBD, 0x40, 0xDD, 1, 0, 0, 0];
    for chunk in chunks {
        varint(&mut out, (chunk.len() as u64).saturating_sub(1));
        out.extend_from_slice(chunk);
        out.extend_from_slice(&crc32c::crc32c(chunk).to_be_bytes());
    }
    out
}

/// Tombstones with these entries, with the checksum that fits.
#[must_use]
pub fn sealed_tombstones(entries: &[u8]) -> Vec<u8> {
    let mut out = vec![0x01, 0x30, 0xBA, 0x30, 1];
    out.extend_from_slice(entries);
    out.extend_from_slice(&crc32c::crc32c(entries).to_be_bytes());
    out
}
