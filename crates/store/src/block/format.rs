//! The frame of a block file: header, sections, footer, trailer.
//!
//! Invariants: header and end have their fixed lengths, by which a reader finds them; what is written is within the
//! limits of the reader.
//! Format: docs/formats/block.md. Everything is little-endian.

use std::path::Path;

use crate::bytes::{Broken, Cursor};
use crate::{Error, bytes};

pub(crate) const MAGIC: [u8; 8] = *b"OGIVEBLK";
pub(crate) const MAGIC_END: [u8; 8] = *b"OGIVEEND";
/// Version 9 leaves out zeros of rare bins, 8 added pages of counts, 7 checksums of filters, 6 the filters, 5 what
/// rollups (4) do not have: the dictionary. From 4 on everything except the chunks is stored twice; 2 and 3 are as 4
/// and 5 without that, and 1 precedes dictionaries. All are read.
pub(crate) const VERSION: u32 = 9;
const VERSION_TWINNED: u32 = 4;
/// Magic, version, checksum of both.
pub(crate) const HEADER_BYTES: u64 = 8 + 4 + 4;
/// Offset and length of the footer, its checksum, magic.
pub(crate) const TRAILER_BYTES: u64 = 8 + 4 + 4 + 8;
/// Footer and trailer.
pub(crate) const END_BYTES: u64 = 24 * SectionId::ALL.len() as u64 + TRAILER_BYTES;
const _: () = assert!(END_BYTES == 168);
const _: () = assert!(HEADER_BYTES == 16 && TRAILER_BYTES == 24);
/// 4 KiB of nothing between a part and its twin: what a disk loses is a sector or a page of it.
pub(crate) const TWIN_DISTANCE: u64 = 4096;
/// The series that one page describes: small enough to decode for one, large enough to share names.
pub(crate) const PAGE_SERIES: usize = 64;
/// 1 GiB: the index of ten million series; past it a block should be several.
pub(crate) const SECTION_BYTES_MAX: u64 = 1 << 30;

/// What the sections are, in the order of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum SectionId {
    /// The chunks of all series, one after the other.
    Chunks = 1,
    /// Pages of 64 series: labels, kind, time range and chunks of each.
    Series = 2,
    /// Where the pages are, with their checksums.
    Pages = 3,
    /// The distinct labels: an fst from name, 0xFF, value to the label's number.
    Labels = 4,
    /// For each label the series that carry it.
    Postings = 5,
    /// Time range, numbers and units.
    Summary = 6,
}

impl SectionId {
    pub(crate) const ALL: [Self; 6] =
        [Self::Chunks, Self::Series, Self::Pages, Self::Labels, Self::Postings, Self::Summary];

    /// Its name in messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Chunks => "chunks",
            Self::Series => "series pages",
            Self::Pages => "places of the pages",
            Self::Labels => "labels",
            Self::Postings => "postings",
            Self::Summary => "summary",
        }
    }
}

/// Whether a reader takes a section of `length` bytes: those that it reads at once have a limit.
///
/// # Errors
/// [`Error::Refused`].
pub(crate) fn check_section(id: SectionId, length: u64) -> Result<(), Error> {
    let at_once = !matches!(id, SectionId::Chunks | SectionId::Series);
    if at_once && length > SECTION_BYTES_MAX {
        let problem = format!(
            "the {} of a block would have {length} bytes where at most {SECTION_BYTES_MAX} can be read; keep fewer series",
            id.name()
        );
        return Err(Error::Refused { problem });
    }
    Ok(())
}

/// Whether a block of `version` says whether it has a dictionary.
pub(crate) const fn tells_dictionary(version: u32) -> bool {
    matches!(version, 3 | 5..=9)
}

/// Whether a block of `version` has twins.
pub(crate) const fn has_twins(version: u32) -> bool {
    version >= VERSION_TWINNED
}

/// Where the twin of the header is, in a file of `file_bytes`.
pub(crate) fn header_twin(file_bytes: u64) -> Option<u64> {
    file_bytes.checked_sub(END_BYTES + TWIN_DISTANCE + END_BYTES + HEADER_BYTES).filter(|at| *at >= HEADER_BYTES)
}

/// Where the twin of footer and trailer is, in a file of `file_bytes`.
pub(crate) fn end_twin(file_bytes: u64) -> Option<u64> {
    header_twin(file_bytes).map(|at| at + HEADER_BYTES)
}

/// How far behind a byte of what is there twice its twin is: they end where the header's twin begins, and what they are
/// of ends at `sections_end`. `footer` is where the footer begins.
pub(crate) fn twin_distance(sections_end: u64, footer: u64) -> Option<u64> {
    header_twin(footer + END_BYTES)?.checked_sub(sections_end)
}

/// Where a section is and what its bytes sum up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) checksum: u32,
}

pub(crate) fn header() -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    let checksum = crc32c::crc32c(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    assert_eq!(out.len() as u64, HEADER_BYTES, "a reader looks for the sections behind the header");
    out
}

/// The version that a header names.
pub(crate) fn check_header(header: &[u8], path: &Path) -> Result<u32, Error> {
    let corrupt = |offset: u64, problem: String| Error::Corrupt { path: path.into(), offset, problem };
    let mut cursor = Cursor::new(header);
    let mut read = || Ok::<_, Broken>((cursor.take(MAGIC.len())? == MAGIC, cursor.u32()?, cursor.u32()?));
    let (magic, version, expected) = read().map_err(|broken| corrupt(broken.offset as u64, broken.problem))?;
    if !magic {
        return Err(corrupt(0, "it does not begin as a block does".into()));
    }
    let found = crc32c::crc32c(&header[..12]);
    if found != expected {
        return Err(corrupt(8, format!("checksum {found:08x} where {expected:08x} was written")));
    }
    if version > VERSION {
        return Err(Error::TooNew { path: path.into(), found: version, known: VERSION });
    }
    Ok(version)
}

/// Footer and trailer for `sections`, which end at `offset`.
pub(crate) fn footer(sections: &[Section; SectionId::ALL.len()], offset: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for (id, section) in SectionId::ALL.into_iter().zip(sections) {
        out.extend_from_slice(&(id as u32).to_le_bytes());
        out.extend_from_slice(&section.offset.to_le_bytes());
        out.extend_from_slice(&section.length.to_le_bytes());
        out.extend_from_slice(&section.checksum.to_le_bytes());
    }
    let (length, checksum) = (out.len() as u32, crc32c::crc32c(&out));
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(&MAGIC_END);
    assert_eq!(out.len() as u64, END_BYTES, "a reader looks for the footer that far from the end");
    out
}

/// The place and the checksum of the footer, from the trailer of a file of `file_bytes`.
fn parse_trailer(trailer: &[u8], file_bytes: u64) -> Result<Section, Broken> {
    let mut cursor = Cursor::new(trailer);
    let (offset, length, checksum) = (cursor.u64()?, u64::from(cursor.u32()?), cursor.u32()?);
    if cursor.rest() != MAGIC_END {
        return Err(cursor.broken("it does not end as a block does"));
    }
    let end = offset.checked_add(length).and_then(|end| end.checked_add(TRAILER_BYTES));
    if end != Some(file_bytes) || offset < HEADER_BYTES {
        return Err(Broken { offset: 0, problem: format!("a footer of {length} bytes at {offset} in {file_bytes}") });
    }
    Ok(Section { offset, length, checksum })
}

/// The footer's place, from `end`, the last [`END_BYTES`] of a file of `file_bytes`: footer and trailer. The trailer's
/// fields are believed only when the footer fits them: nothing else says that they are right.
pub(crate) fn parse_end(end: &[u8], file_bytes: u64) -> Result<Section, Broken> {
    let (footer, trailer) = end.split_at(end.len() - TRAILER_BYTES as usize);
    let section = parse_trailer(trailer, file_bytes)?;
    let found = crc32c::crc32c(footer);
    if section.length != footer.len() as u64 || found != section.checksum {
        let problem = format!("checksum {found:08x} of the footer where {:08x} was written", section.checksum);
        return Err(Broken { offset: 0, problem });
    }
    Ok(section)
}

/// The sections, which lie end to end from the header to the footer at `end`, or to what is there twice.
pub(crate) fn parse_footer(bytes: &[u8], end: u64, version: u32) -> Result<[Section; SectionId::ALL.len()], Broken> {
    let mut cursor = Cursor::new(bytes);
    let mut sections = [Section { offset: 0, length: 0, checksum: 0 }; SectionId::ALL.len()];
    let mut next = HEADER_BYTES;
    for (id, section) in SectionId::ALL.into_iter().zip(&mut sections) {
        let found = cursor.u32()?;
        *section = Section { offset: cursor.u64()?, length: cursor.u64()?, checksum: cursor.u32()? };
        if found != id as u32 || section.offset != next || section.length > end - next {
            return Err(cursor.broken(format!("section {found} is {section:?} where {id:?} begins at {next}")));
        }
        next += section.length;
    }
    // Twins are as long as what they are of, and behind it.
    let twinned = next - sections[SectionId::Series as usize - 1].offset;
    let fits = match has_twins(version) {
        true => twin_distance(next, end).is_some_and(|distance| distance >= twinned + TWIN_DISTANCE),
        false => next == end,
    };
    if !fits || !cursor.is_empty() {
        return Err(cursor.broken(format!("the sections end at {next}, which does not fit the footer at {end}")));
    }
    Ok(sections)
}

/// What a block says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) time_min: i64,
    pub(crate) time_max: i64,
    pub(crate) series: u64,
    pub(crate) samples: u64,
    pub(crate) units: Vec<String>,
    /// Bytes of texts that were packed with the lesser effort; 0 for blocks from before it was recorded.
    pub(crate) quick_text_bytes: u64,
    /// Length and checksum of the dictionary that ends the chunks.
    pub(crate) dictionary: Option<(u64, u32)>,
}

/// 4,096 distinct units: a thousand times what one meets.
pub(crate) const UNITS_MAX: usize = 4096;

impl Summary {
    pub(crate) fn encode(&self) -> Vec<u8> {
        assert!(self.units.len() <= UNITS_MAX, "a reader takes no {} units", self.units.len());
        assert!(self.time_min <= self.time_max, "times from {} to {}", self.time_min, self.time_max);
        assert!(self.dictionary.is_none_or(|(length, _)| length > 0), "a length of 0 stands for no dictionary");
        let mut out = Vec::new();
        bytes::put_signed(&mut out, self.time_min);
        bytes::put_signed(&mut out, self.time_max);
        bytes::put_varint(&mut out, self.series);
        bytes::put_varint(&mut out, self.samples);
        bytes::put_varint(&mut out, self.units.len() as u64);
        self.units.iter().for_each(|unit| bytes::put_bytes(&mut out, unit.as_bytes()));
        bytes::put_varint(&mut out, self.quick_text_bytes);
        bytes::put_varint(&mut out, self.dictionary.map_or(0, |(length, _)| length));
        out.extend(self.dictionary.iter().flat_map(|(_, checksum)| checksum.to_le_bytes()));
        out
    }

    pub(crate) fn decode(bytes: &[u8], version: u32) -> Result<Self, Broken> {
        Ok(Self::decode_to(bytes, version)?.0)
    }

    /// With how many bytes it took: the last of them are the checksum of the dictionary, if there is one.
    pub(crate) fn decode_to(bytes: &[u8], version: u32) -> Result<(Self, usize), Broken> {
        let mut cursor = Cursor::new(bytes);
        let mut summary = Self {
            time_min: cursor.signed()?,
            time_max: cursor.signed()?,
            series: cursor.varint()?,
            samples: cursor.varint()?,
            ..Self::default()
        };
        for _ in 0..cursor.count(UNITS_MAX, "units")? {
            let unit = std::str::from_utf8(cursor.length_and_bytes()?);
            summary.units.push(unit.map_err(|error| cursor.broken(error.to_string()))?.to_owned());
        }
        if tells_dictionary(version) {
            summary.quick_text_bytes = cursor.varint()?;
            let length = cursor.varint()?;
            summary.dictionary = if length > 0 { Some((length, cursor.u32()?)) } else { None };
        }
        Ok((summary, cursor.position()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sections() -> [Section; 6] {
        let mut next = HEADER_BYTES;
        [5, 0, 7, 9, 1, 2].map(|length| {
            let section = Section { offset: next, length, checksum: 3 };
            next += length;
            section
        })
    }

    #[test]
    fn a_footer_comes_back_and_sections_that_do_not_fill_the_file_are_an_error() {
        let end = HEADER_BYTES + 24;
        let bytes = footer(&sections(), end);
        let (body, trailer) = bytes.split_at(144);
        let place = parse_trailer(trailer, end + bytes.len() as u64).unwrap();
        assert_eq!((place.offset, place.length, place.checksum), (end, 144, crc32c::crc32c(body)));
        assert_eq!(parse_footer(body, end, 3).unwrap(), sections());
        assert!(parse_footer(body, end, VERSION).is_err(), "without twins");
        let behind = end + TWIN_DISTANCE + 19 + HEADER_BYTES + END_BYTES + TWIN_DISTANCE;
        let twinned = footer(&sections(), behind);
        assert_eq!(parse_footer(&twinned[..144], behind, VERSION).unwrap(), sections());
        assert!(parse_footer(&twinned[..144], behind - 1, VERSION).is_err());
        for wrong in [end - 1, end + 1] {
            assert!(parse_footer(body, wrong, 3).is_err());
            assert!(parse_trailer(trailer, wrong + bytes.len() as u64).is_err());
        }
        let mut gap = sections();
        gap[3].offset += 1;
        assert!(parse_footer(&footer(&gap, end)[..144], end, 3).is_err());
        assert!(parse_footer(&footer(&sections(), end)[..143], end, 3).is_err());
    }

    #[test]
    fn a_section_is_written_up_to_what_is_read_at_once() {
        for id in SectionId::ALL {
            let is_whole = !matches!(id, SectionId::Chunks | SectionId::Series);
            assert!(check_section(id, SECTION_BYTES_MAX).is_ok());
            assert_eq!(matches!(check_section(id, SECTION_BYTES_MAX + 1), Err(Error::Refused { .. })), is_whole);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), end in any::<u64>()) {
            for version in 1..=VERSION {
                let _ = parse_footer(&bytes, end.clamp(HEADER_BYTES, u64::MAX / 2), version);
            }
            let _ = parse_trailer(&bytes, end);
            for version in 1..=VERSION {
                let _ = Summary::decode(&bytes, version);
            }
            let _ = check_header(&bytes, Path::new("x"));
        }
    }
}
