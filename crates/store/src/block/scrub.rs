//! The scrub of a block: reads every byte of every copy, and heals what is bad in one of them.
//!
//! Invariants: pieces are as small as their checksums: a chunk, a page, a section; so two copies that are bad in
//! different pieces heal each other.
//! Failure: what is bad in every copy is reported and left as it is.

use std::ops::Range;
use std::path::Path;

use ogive_journal::{Disk, DiskFile, Error as DiskError, Finding, heal_from, scrub_piece, scrub_presence};

use crate::Error;
use crate::block::format::{self, PAGE_SERIES, Section, SectionId};
use crate::block::index::SeriesPage;
use crate::block::{Block, series};
use crate::bytes::Broken;

/// A look at one block.
struct BlockScrub<'a> {
    file: &'a dyn DiskFile,
    findings: Vec<Finding>,
    pace: &'a mut dyn FnMut(u64) -> Result<(), DiskError>,
}

impl BlockScrub<'_> {
    /// Looks at a piece in every copy; gives its good bytes, if a copy has them.
    fn at(
        &mut self,
        place: Range<u64>,
        name: &str,
        check: impl Fn(&[u8], &Path) -> Result<(), Error>,
    ) -> Result<Option<Vec<u8>>, Error> {
        debug_assert!(place.start <= place.end, "a piece ends behind its beginning: {place:?}");
        let piece = scrub_piece(self.file, place.clone(), check);
        self.findings.extend(piece.bad.into_iter().map(|bad| Finding::from_bad_copy(bad, name, &place)));
        (self.pace)(place.end - place.start)?;
        Ok(piece.bytes)
    }

    /// As [`BlockScrub::at`], of a piece that is at `twin` too: each heals the other.
    fn twice(
        &mut self,
        place: Range<u64>,
        twin: Option<u64>,
        name: &str,
        check: impl Fn(&[u8], &Path) -> Result<(), Error>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let before = self.findings.len();
        let own = self.at(place.clone(), name, &check)?;
        let Some(twin) = twin else { return Ok(own) };
        let between = self.findings.len();
        let other = twin..twin + (place.end - place.start);
        let copy = self.at(other.clone(), &format!("{name} (twin)"), &check)?;
        let (from, bytes, bad) = match (&own, &copy) {
            (None, Some(bytes)) => (place, bytes, before..between),
            (Some(bytes), None) => (other, bytes, between..self.findings.len()),
            _ => return Ok(own),
        };
        if heal_from(self.file, &from, bytes, check) {
            self.findings[bad].iter_mut().for_each(|finding| finding.healed = true);
        }
        Ok(own.or(copy))
    }

    /// Looks at a piece with a checksum, which may be at `twin` too.
    fn section(&mut self, section: Section, twin: Option<u64>, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let place = section.offset..section.offset.saturating_add(section.length);
        self.twice(place, twin, name, |bytes, path| match crc32c::crc32c(bytes) {
            found if found == section.checksum => Ok(()),
            found => Err(Error::Corrupt {
                path: path.to_owned(),
                offset: section.offset,
                problem: format!("in its {name}: checksum {found:08x} where {:08x} was written", section.checksum),
            }),
        })
    }

    /// Header, footer with trailer and the sections of the index; returns whether all of them are good somewhere.
    fn frame(&mut self, bytes: u64, path: &Path) -> Result<bool, Error> {
        let header = 0..format::HEADER_BYTES;
        let check = |bytes: &[u8], path: &Path| format::check_header(bytes, path).map(|_| ());
        // A bad header does not show whether it is there twice.
        let twin = format::header_twin(bytes);
        let of = |at: u64| scrub_piece(self.file, at..at + format::HEADER_BYTES, format::check_header).bytes;
        let good = of(0).or_else(|| of(twin?));
        let version = good.and_then(|good| format::check_header(&good, path).ok());
        let twinned = version.is_some_and(format::has_twins);
        self.twice(header, twin.filter(|_| twinned), "header", check)?;
        let Some(version) = version else { return Ok(false) };
        let start = bytes.saturating_sub(format::END_BYTES);
        let parse =
            |end: &[u8], path: &Path| format::parse_end(end, bytes).map_err(|broken| reported(start, path, broken));
        let twin = format::end_twin(bytes).filter(|_| twinned);
        let end = self.twice(start..bytes, twin, "footer", |end, path| parse(end, path).map(|_| ()))?;
        // What is bad everywhere is reported, and what it leads to cannot be found.
        let Some(end) = end else { return Ok(false) };
        let footer = parse(&end, path)?;
        let sections = format::parse_footer(&end[..footer.length as usize], footer.offset, version)
            .map_err(|broken| reported(footer.offset, path, broken))?;
        let last = sections[SectionId::Summary as usize - 1];
        let distance = format::twin_distance(last.offset + last.length, footer.offset).filter(|_| twinned);
        let mut whole = true;
        for (id, section) in SectionId::ALL.into_iter().zip(sections) {
            if !matches!(id, SectionId::Chunks | SectionId::Series) {
                let twin = distance.map(|distance| section.offset + distance);
                whole &= self.section(section, twin, id.name())?.is_some();
            }
        }
        Ok(whole)
    }
}

fn reported(offset: u64, path: &Path, broken: Broken) -> Error {
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
    let mut look = BlockScrub { file: &*file, findings: scrub_presence(disk, &*file, path, None)?, pace };
    if !look.frame(bytes, path)? {
        return Ok(look.findings);
    }
    let block = Block::open(disk, path)?;
    if let Some(dictionary) = block.dictionary_place() {
        look.section(dictionary, block.twin_of(dictionary), "dictionary")?;
    }
    let index = block.index()?;
    for first in (0..block.series_count() as u32).step_by(PAGE_SERIES) {
        let SeriesPage { place: page, series: described, .. } = index.page_of(first);
        let Some(bytes) = look.section(page, block.twin_of(page), "series page")? else { continue };
        let entries =
            series::get_page(&bytes, described.len()).map_err(|broken| reported(page.offset, path, broken))?;
        for chunk in entries.iter().flat_map(|entry| &entry.chunks) {
            let place = Section { offset: chunk.offset, length: u64::from(chunk.length), checksum: chunk.checksum };
            look.section(place, None, "chunk")?;
        }
    }
    // Last: a copy of a wrong length may have held the only good bytes of a piece.
    look.findings.extend(scrub_presence(disk, &*file, path, Some(bytes))?);
    Ok(look.findings)
}
