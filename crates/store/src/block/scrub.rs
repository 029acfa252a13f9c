//! Looking at every byte of a block in every copy, and healing what is bad in one of them.
//!
//! Invariants: pieces are as small as their checksums: a chunk, a page, a section; so two copies that are bad in different pieces
//! heal each other. Failure: what is bad in every copy is reported and left as it is.

use std::ops::Range;
use std::path::Path;

use ogive_journal::{Disk, DiskFile, Error as DiskError, Finding, scrub_piece, scrub_presence};

use crate::Error;
use crate::block::format::{self, PAGE_SERIES, Section, SectionId};
use crate::block::{Block, series};
use crate::bytes::Broken;

/// A look at one block.
struct Look<'a> {
    file: &'a dyn DiskFile,
    findings: Vec<Finding>,
    pace: &'a mut dyn FnMut(u64) -> Result<(), DiskError>,
}

impl Look<'_> {
    /// Looks at a piece in every copy; gives its good bytes, if a copy has them.
    fn at(
        &mut self,
        place: Range<u64>,
        name: &str,
        check: impl Fn(&[u8], &Path) -> Result<(), Error>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let piece = scrub_piece(self.file, place.clone(), check);
        self.findings.extend(piece.bad.into_iter().map(|bad| Finding::of(bad, name, &place)));
        (self.pace)(place.end - place.start)?;
        Ok(piece.bytes)
    }

    /// Looks at a piece with a checksum.
    fn section(&mut self, section: Section, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let place = section.offset..section.offset.saturating_add(section.length);
        self.at(place, name, |bytes, path| match crc32c::crc32c(bytes) {
            found if found == section.checksum => Ok(()),
            found => Err(Error::Corrupt {
                path: path.to_owned(),
                offset: section.offset,
                problem: format!("in its {name}: checksum {found:08x} where {:08x} was written", section.checksum),
            }),
        })
    }

    /// Header, footer with trailer and the sections of the index; tells whether all of them are good in a copy.
    fn frame(&mut self, bytes: u64, path: &Path) -> Result<bool, Error> {
        self.at(0..format::HEADER_BYTES, "header", |bytes, path| format::check_header(bytes, path).map(|_| ()))?;
        let start = bytes.saturating_sub(format::END_BYTES);
        let parse = |end: &[u8], path: &Path| format::parse_end(end, bytes).map_err(|broken| told(start, path, broken));
        let end = self.at(start..bytes, "footer", |end, path| parse(end, path).map(|_| ()))?;
        // What is bad everywhere is reported, and what it leads to cannot be found.
        let Some(end) = end else { return Ok(false) };
        let footer = parse(&end, path)?;
        let sections = format::parse_footer(&end[..footer.length as usize], footer.offset)
            .map_err(|broken| told(footer.offset, path, broken))?;
        let mut whole = true;
        for (id, section) in SectionId::ALL.into_iter().zip(sections) {
            if !matches!(id, SectionId::Chunks | SectionId::Series) {
                whole &= self.section(section, id.name())?.is_some();
            }
        }
        Ok(whole)
    }
}

fn told(offset: u64, path: &Path, broken: Broken) -> Error {
    Error::Corrupt { path: path.to_owned(), offset: offset + broken.offset as u64, problem: broken.problem }
}

/// Looks at the block at `path`, which has `bytes` bytes. `pace` hears the bytes as they are read.
///
/// # Errors
/// What the disk or `pace` says.
pub(crate) fn scrub_block(
    disk: &dyn Disk,
    path: &Path,
    bytes: u64,
    pace: &mut dyn FnMut(u64) -> Result<(), DiskError>,
) -> Result<Vec<Finding>, Error> {
    let file = disk.open_read(path)?;
    let mut look = Look { file: &*file, findings: scrub_presence(disk, &*file, path, None)?, pace };
    if !look.frame(bytes, path)? {
        return Ok(look.findings);
    }
    let block = Block::open(disk, path)?;
    if let Some(dictionary) = block.dictionary_place() {
        look.section(dictionary, "dictionary")?;
    }
    let index = block.index()?;
    for first in (0..block.series_count() as u32).step_by(PAGE_SERIES) {
        let (_, page, described) = index.page_of(first);
        let Some(bytes) = look.section(page, "series page")? else { continue };
        let entries = series::get_page(&bytes, described.len()).map_err(|broken| told(page.offset, path, broken))?;
        for chunk in entries.iter().flat_map(|entry| &entry.chunks) {
            let place = Section { offset: chunk.offset, length: u64::from(chunk.length), checksum: chunk.checksum };
            look.section(place, "chunk")?;
        }
    }
    // Last: a copy of a wrong length may have held the only good bytes of a piece.
    look.findings.extend(scrub_presence(disk, &*file, path, Some(bytes))?);
    Ok(look.findings)
}
