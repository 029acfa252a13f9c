//! The scrub of the journal: reads every byte of every copy, and heals what is bad in one of them.
//!
//! Invariants: a record is reported as bad only if it must exist: below the first sequence of the next segment, or
//! below what is known to be durable.
//! Failure: what is bad in every copy is reported and left as it is.

use std::ops::Range;
use std::path::Path;

use crate::finding::Finding;
use crate::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::segment::{self, SegmentReader, Step};
use crate::{BadCopy, Disk, DiskFile, Error, scrub_piece};

/// How far the last segment is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Nobody writes: to its last good record. A torn end is no finding; opening the journal reports it.
    End,
    /// Records before this sequence are durable; what lies behind may be half written.
    Durable(u64),
}

/// Looks at all segments in `directory`. `pace` hears the bytes as they are read, and may wait or end it with an error.
///
/// # Errors
/// What the disk or `pace` says.
pub fn scrub_journal(
    disk: &dyn Disk,
    directory: &Path,
    until: Until,
    pace: &mut dyn FnMut(u64) -> Result<(), Error>,
) -> Result<Vec<Finding>, Error> {
    let (mut segments, mut findings) = (Vec::new(), Vec::new());
    let paths = match disk.list(directory) {
        Err(Error::NotFound { .. }) => return Ok(Vec::new()),
        paths => paths?,
    };
    for path in paths.into_iter().filter(|path| segment::segment_number(path).is_some()) {
        // Missing files and headers first: a reader heals headers on its way.
        match scrub_header(disk, &path, &mut findings).and_then(|()| SegmentReader::open(disk, &path)) {
            Ok(reader) => segments.push((path, reader.first())),
            // A flush has let it go meanwhile.
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    for (at, (path, _)) in segments.iter().enumerate() {
        let next = segments[at + 1..].iter().find_map(|(_, first)| *first);
        let limit = match (next, until) {
            (Some(first), _) => Some(first),
            (None, Until::Durable(durable)) => Some(durable),
            (None, Until::End) => None,
        };
        match scrub_segment(disk, path, limit, pace) {
            Ok(found) => findings.extend(found),
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(findings)
}

fn scrub_header(disk: &dyn Disk, path: &Path, findings: &mut Vec<Finding>) -> Result<(), Error> {
    let header = 0..SEGMENT_HEADER_BYTES as u64;
    let file = disk.open_read(path)?;
    findings.extend(scrub_presence(disk, &*file, path, None)?);
    let piece = scrub_piece(&*file, header.clone(), |bytes, path| {
        match SegmentHeader::decode(bytes.try_into().expect("its size")) {
            Some(found) if Some(found.number) == segment::segment_number(path) => Ok(()),
            _ => Err(Problem("the header is not one".into())),
        }
    });
    findings.extend(piece.bad.into_iter().map(|bad| Finding::from_bad_copy(bad, "segment header", &header)));
    Ok(())
}

fn scrub_segment(
    disk: &dyn Disk,
    path: &Path,
    limit: Option<u64>,
    pace: &mut dyn FnMut(u64) -> Result<(), Error>,
) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    let mut reader = SegmentReader::open(disk, path)?;
    loop {
        match reader.step()? {
            Step::Record { sequence, .. } if limit.is_some_and(|limit| sequence >= limit) => break,
            Step::Record { sequence, .. } => {
                let (place, frame) = reader.frame();
                assert_eq!(frame.len() as u64, place.end - place.start, "record {sequence} is looked at whole");
                let piece = scrub_piece(reader.file(), place.clone(), |bytes, _| match bytes == frame {
                    true => Ok(()),
                    false => Err(Problem("it differs from the good record of another copy".into())),
                });
                let section = format!("record {sequence}");
                findings.extend(piece.bad.into_iter().map(|bad| Finding::from_bad_copy(bad, &section, &place)));
                pace(place.end - place.start)?;
            }
            // The start that met the hole reported it.
            Step::Void(bad) => pace(bad.end - bad.offset)?,
            Step::Bad(bad) => {
                let lost = (bad.lost.0, limit.map_or(bad.lost.1, |limit| bad.lost.1.min(limit)));
                if lost.0 < lost.1 {
                    findings.push(bad_records(path, bad.offset..bad.end, lost.0..lost.1));
                }
            }
            Step::End { offset } => {
                let expected = reader.expected();
                if let Some(limit) = limit.filter(|limit| expected < *limit && reader.first().is_some()) {
                    findings.push(bad_records(path, offset..reader.length().max(offset), expected..limit));
                }
                break;
            }
        }
    }
    let of_copy = |(copy, place, healed): (usize, Range<u64>, bool)| {
        let problem = "no good record where another copy has one".into();
        Finding::from_bad_copy(BadCopy { path: reader.file().copy_path(copy), problem, healed }, "record", &place)
    };
    findings.extend(reader.healed.iter().cloned().map(of_copy));
    Ok(findings)
}

fn bad_records(path: &Path, bytes: Range<u64>, lost: Range<u64>) -> Finding {
    assert!(lost.start < lost.end && bytes.start <= bytes.end, "{lost:?} are lost in {bytes:?}");
    let problem = format!("no copy has the records {lost:?}");
    let Range { start: offset, end } = bytes;
    Finding { path: path.to_owned(), section: "records".into(), offset, end, problem, healed: false }
}

/// Looks whether every member has the file at `path`, and makes missing copies anew. With `bytes` it does so with
/// copies of another length too: ask that last, because such a copy may hold good bytes that the others have not.
///
/// # Errors
/// [`Error::NotFound`] when the file was removed meanwhile.
pub fn scrub_presence(
    disk: &dyn Disk,
    file: &dyn DiskFile,
    path: &Path,
    bytes: Option<u64>,
) -> Result<Vec<Finding>, Error> {
    let (mut wrong, mut good) = (Vec::new(), None);
    for copy in 0..file.copies() {
        match file.copy_length(copy) {
            Ok(length) if bytes.is_none_or(|bytes| bytes == length) => good = good.or(Some(copy)),
            Err(Error::NoCopy { .. }) => {}
            Ok(length) => wrong.push((copy, format!("it has {length} bytes, not {}", bytes.unwrap_or(length)))),
            Err(error) => wrong.push((copy, error.to_string())),
        }
    }
    let mut findings = Vec::new();
    for (copy, problem) in wrong {
        let healed = match good.map(|good| disk.restore(path, good, copy)) {
            Some(Ok(true)) => true,
            // It was looked at before it was made.
            Some(Ok(false)) => continue,
            Some(Err(error @ Error::NotFound { .. })) => return Err(error),
            Some(Err(_)) | None => false,
        };
        let (path, section, end) = (file.copy_path(copy), "file".into(), bytes.unwrap_or(0));
        findings.push(Finding { path, section, offset: 0, end, problem, healed });
    }
    Ok(findings)
}

/// Why a check refused bytes.
#[derive(Debug)]
struct Problem(String);

impl std::fmt::Display for Problem {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Journal, Member, MirrorDisk, MirrorOptions, Options, Position, SimulatedDisk};

    fn mirror(disks: &[SimulatedDisk]) -> MirrorDisk {
        let member = |(at, disk): (usize, &SimulatedDisk)| Member {
            root: format!("/{at}").into(),
            disk: Arc::new(disk.clone()),
        };
        let mut random = fastrand::Rng::with_seed(1);
        let options =
            MirrorOptions { degraded: false, random: Box::new(move || random.u64(..)), tell: Arc::new(|_| {}) };
        MirrorDisk::open(disks.iter().enumerate().map(member).collect(), options).unwrap().0
    }

    fn scrub(mirror: &MirrorDisk) -> Vec<Finding> {
        scrub_journal(mirror, Path::new("/0/journal"), Until::End, &mut |_| Ok(())).unwrap()
    }

    /// Every byte of both copies is flipped, never the same one in both at a time: scrubbing finds and heals each, and
    /// a replay without a scrub gives every record too.
    #[test]
    fn a_flipped_byte_in_either_copy_loses_nothing() {
        let disks = [SimulatedDisk::new(1), SimulatedDisk::new(2)];
        let mirror = mirror(&disks);
        let directory = Path::new("/0/journal");
        let options = Options { segment_bytes: 300, ..Options::default() };
        let (mut journal, _) = Journal::open(Arc::new(mirror.clone()), directory, options.clone()).unwrap();
        for n in 0..12_u8 {
            journal.append(&[n; 50]).unwrap();
            journal.sync().unwrap();
        }
        drop(journal);
        assert!(scrub(&mirror).is_empty());
        let files: Vec<_> =
            mirror.list(directory).unwrap().iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        let (mut flips, mut healed) = (0, 0);
        // The last one's records are copied to a new segment by the next start.
        for name in &files[..files.len() - 1] {
            let paths = [Path::new("/0/journal").join(name), Path::new("/1/journal").join(name)];
            let bytes = disks[0].read(&paths[0]).unwrap();
            for at in (0..bytes.len() - 120).step_by(7) {
                // One fault in each copy, in different records.
                disks[0].flip_bit(&paths[0], at * 8);
                disks[1].flip_bit(&paths[1], (at + 110) * 8);
                flips += 2;
                if at % 2 == 0 {
                    let found = scrub(&mirror);
                    assert!(found.len() >= 2 && found.iter().all(|finding| finding.healed), "{name:?} {at}: {found:?}");
                    healed += found.len();
                    assert_eq!(disks[0].read(&paths[0]).unwrap(), bytes, "{name:?} {at}");
                    assert_eq!(disks[1].read(&paths[1]).unwrap(), bytes, "{name:?} {at}");
                } else {
                    let (journal, _) = Journal::open(Arc::new(mirror.clone()), directory, options.clone()).unwrap();
                    let mut records = 0;
                    let replay = journal.replay::<Error>(Position(0), |position, bytes| {
                        assert_eq!(bytes, [position.0 as u8; 50]);
                        records += 1;
                        Ok(())
                    });
                    assert_eq!((records, replay.unwrap().corruption_count), (12, 0), "{name:?} {at}");
                    assert!(scrub(&mirror).iter().all(|finding| finding.healed));
                }
            }
        }
        assert!(flips > 100 && healed > 50, "{flips} {healed}");
        // A copy that is gone is made anew.
        disks[1].remove(&Path::new("/1/journal").join(&files[0])).unwrap();
        assert!(matches!(&scrub(&mirror)[..], [Finding { healed: true, section, .. }] if section == "file"));
        assert!(scrub(&mirror).is_empty());
    }

    /// Scrubs of a life of the store reported, once in some ten thousand, of a copy that "does not exist": the segment
    /// was being removed, from one disk and then from the other. Made anew it would have come back for good.
    #[test]
    fn segments_that_come_and_go_meanwhile_are_no_findings() {
        let disks = [SimulatedDisk::new(1), SimulatedDisk::new(2)];
        let mirror = mirror(&disks);
        let options = Options { segment_bytes: 100, ..Options::default() };
        let (mut journal, _) =
            Journal::open(Arc::new(mirror.clone()), Path::new("/0/journal"), options.clone()).unwrap();
        std::thread::scope(|scope| {
            let writes = scope.spawn(|| {
                for n in 0..3_000_u64 {
                    journal.append(&[n as u8; 50]).unwrap();
                    journal.sync().unwrap();
                    journal.truncate_before(Position(n)).unwrap();
                }
            });
            while !writes.is_finished() {
                let found =
                    scrub_journal(&mirror, Path::new("/0/journal"), Until::Durable(0), &mut |_| Ok(())).unwrap();
                assert!(found.is_empty(), "{found:?}");
            }
        });
        drop(journal);
        let names = |at: usize| disks[at].list(Path::new(&format!("/{at}/journal"))).unwrap().len();
        assert_eq!((names(0), names(1)), (mirror.list(Path::new("/0/journal")).unwrap().len(), names(0)));
    }

    #[test]
    fn what_is_bad_in_every_copy_is_named() {
        let disks = [SimulatedDisk::new(1), SimulatedDisk::new(2)];
        let mirror = mirror(&disks);
        let (mut journal, _) =
            Journal::open(Arc::new(mirror.clone()), Path::new("/0/journal"), Options::default()).unwrap();
        for n in 0..4_u8 {
            journal.append(&[n; 40]).unwrap();
            journal.sync().unwrap();
        }
        // The second record, of 72 bytes as the first.
        let name = mirror.list(Path::new("/0/journal")).unwrap()[0].file_name().unwrap().to_owned();
        disks[0].flip_bit(&Path::new("/0/journal").join(&name), (64 + 72 + 40) * 8);
        disks[1].flip_bit(&Path::new("/1/journal").join(&name), (64 + 72 + 50) * 8);
        let found = scrub(&mirror);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].offset, found[0].end, found[0].healed), (136, 208, false));
        assert!(found[0].to_string().contains("records 1..2"), "{}", found[0]);
        // What is not yet durable may be torn.
        let found = scrub_journal(&mirror, Path::new("/0/journal"), Until::Durable(1), &mut |_| Ok(())).unwrap();
        assert!(found.is_empty(), "{found:?}");
    }
}
