//! Blocks with valid checksums around arbitrary content, for fuzzing: the code behind a checksum must cope with any
//! bytes, too.

use std::ops::Range;

use crate::block::format::{self, END_BYTES, HEADER_BYTES, PAGE_SERIES, Section, SectionId, Summary, TRAILER_BYTES};
use crate::block::index::parse_pages;
use crate::block::series;

/// Bytes of a section in the footer, and where its checksum is among them.
const SECTION_BYTES: usize = 24;
const SECTION_CHECKSUM: usize = 20;

/// `bytes` with every checksum as it has to be, as far as its parts can be distinguished from each other. For fuzzing.
#[must_use]
pub fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    // What cannot be distinguished from each other is refused before its checksums are looked at.
    let _ = seal(&mut out);
    out
}

fn seal(out: &mut [u8]) -> Option<()> {
    let footer = out.len().checked_sub(END_BYTES as usize).filter(|at| *at as u64 >= HEADER_BYTES)?;
    let trailer = out.len() - TRAILER_BYTES as usize;
    let version = u32::from_le_bytes(out[8..12].try_into().ok()?);
    put(out, 12, 0..12);
    out[trailer..trailer + 8].copy_from_slice(&(footer as u64).to_le_bytes());
    out[trailer + 8..trailer + 12].copy_from_slice(&((trailer - footer) as u32).to_le_bytes());
    out[trailer + 16..].copy_from_slice(&format::MAGIC_END);
    let parsed = format::parse_footer(&out[footer..trailer], footer as u64, version);
    if let Ok(sections) = parsed {
        let _ = seal_pages(out, &sections, version);
        for (at, section) in sections.into_iter().enumerate() {
            put(out, footer + at * SECTION_BYTES + SECTION_CHECKSUM, place(section));
        }
    }
    put(out, trailer + 12, footer..trailer);
    seal_twins(out, &parsed.ok()?, footer, version)
}

/// Makes the twins of what is there twice the same.
fn seal_twins(out: &mut [u8], sections: &[Section; SectionId::ALL.len()], footer: usize, version: u32) -> Option<()> {
    if !format::has_twins(version) {
        return Some(());
    }
    let [_, series, .., last] = sections;
    let end = last.offset + last.length;
    let distance = format::twin_distance(end, footer as u64)? as usize;
    let summary = Summary::decode(&out[place(*last)], version).ok();
    let dictionary = summary.and_then(|summary| summary.dictionary).map_or(0, |(length, _)| length);
    let start = series.offset.checked_sub(dictionary).unwrap_or(series.offset) as usize;
    out.copy_within(start..end as usize, start + distance);
    let header = format::header_twin(out.len() as u64)? as usize;
    out.copy_within(..HEADER_BYTES as usize, header);
    out.copy_within(footer.., header + HEADER_BYTES as usize);
    out[end as usize..start + distance].fill(0);
    out[header + (HEADER_BYTES + END_BYTES) as usize..footer].fill(0);
    Some(())
}

/// The dictionary, the chunks, and the pages that hold their checksums.
fn seal_pages(out: &mut [u8], sections: &[Section; SectionId::ALL.len()], version: u32) -> Option<()> {
    let of = |id: SectionId| sections[id as usize - 1];
    let (summary_at, chunks) = (place(of(SectionId::Summary)), place(of(SectionId::Chunks)));
    let (summary, checksum_at) = Summary::decode_to(&out[summary_at.clone()], version).ok()?;
    if let Some((length, _)) = summary.dictionary
        && let Some(from) = chunks.end.checked_sub(usize::try_from(length).ok()?)
    {
        put(out, summary_at.start + checksum_at - 4, from..chunks.end);
    }
    let names = place(of(SectionId::Pages));
    let pages = parse_pages(&out[names.clone()], summary.series as usize, of(SectionId::Series)).ok()?;
    let mut at = names.start;
    for (number, page) in pages.into_iter().enumerate() {
        let bytes = place(page);
        let count = (summary.series as usize - number * PAGE_SERIES).min(PAGE_SERIES);
        let mut reported = Vec::new();
        // Of a page that ends in the middle, the chunks before are sealed.
        let _ = series::each_chunk(out.get(bytes.clone())?, count, |chunk, at| reported.push((chunk, at)));
        for (chunk, at) in reported {
            let from = usize::try_from(chunk.offset).ok()?;
            put(out, bytes.start + at, from..from.saturating_add(chunk.length as usize));
        }
        // A length of up to ten bytes stands before the checksum.
        at += out[at..].iter().take_while(|byte| **byte >= 0x80).count() + 1;
        put(out, at, bytes);
        at += 4;
    }
    Some(())
}

fn place(section: Section) -> Range<usize> {
    section.offset as usize..section.offset.saturating_add(section.length) as usize
}

/// Writes the checksum of `of` to `at`, where there are such bytes.
fn put(out: &mut [u8], at: usize, of: Range<usize>) {
    let Some(checksum) = out.get(of).map(crc32c::crc32c) else { return };
    if let Some(bytes) = out.get_mut(at..at.saturating_add(4)) {
        bytes.copy_from_slice(&checksum.to_le_bytes());
    }
}
