//! The scrub: reads every stored byte of manifest, blocks, journal and snapshots, in every copy.
//!
//! Invariants: a finding names file, section and offset; bytes that another copy has right are healed. Files that a
//! flush or a merge releases meanwhile are not findings.
//! Limits: [`FINDINGS_MAX`] are described, all are counted.

use std::path::{Path, PathBuf};

use ogive_journal::{Disk, Error as DiskError, Finding, Until, scrub_journal, segment_number};

use crate::block::scrub::scrub_block;
use crate::layout::JOURNAL_DIRECTORY;
use crate::{BlockMeta, Error, Manifest, SnapshotInfo, retention_clock, snapshot};

/// 1,000 described findings show what happened; a disk that dies has millions.
pub const FINDINGS_MAX: usize = 1000;

/// What was looked at and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes looked at, of one copy.
    pub bytes: u64,
    /// The first [`FINDINGS_MAX`] bad parts.
    pub findings: Vec<Finding>,
    /// All bad parts.
    pub found: u64,
    /// Those that are good again.
    pub healed: u64,
}

/// Called again and again with bytes done and bytes in all; may wait, or end the scrub with an error.
pub type Pace<'a> = &'a mut dyn FnMut(u64, u64) -> Result<(), DiskError>;

pub(crate) struct Scrubber<'a> {
    disk: &'a dyn Disk,
    directory: PathBuf,
    total: u64,
    done: Scrubbed,
    pace: Pace<'a>,
}

/// Looks at everything in `directory`, which nobody has open.
///
/// # Errors
/// The disk's, or [`Error::Corrupt`] when no copy of the manifest is good.
pub fn scrub(disk: &dyn Disk, directory: &Path, pace: Pace<'_>) -> Result<Scrubbed, Error> {
    let mut scrubber = Scrubber::new(disk, directory, pace);
    let read = Manifest::read(disk, directory)?;
    if let Some((manifest, false)) = &read {
        scrubber.manifest(directory, manifest);
    }
    scrubber.add(retention_clock::scrub(disk, directory)?);
    let manifest = read.map_or_else(Manifest::default, |(manifest, _)| manifest);
    scrubber.rest(&manifest.blocks, Until::End, &|_| true)
}

impl<'a> Scrubber<'a> {
    pub(crate) fn new(disk: &'a dyn Disk, directory: &Path, pace: Pace<'a>) -> Self {
        Self { disk, directory: directory.to_owned(), total: 0, done: Scrubbed::default(), pace }
    }

    /// The copies of a manifest that nobody changes now, and that must say what `good` says.
    pub(crate) fn manifest(&mut self, directory: &Path, good: &Manifest) {
        let (found, bytes) = good.scrub(self.disk, directory);
        self.done.bytes += bytes;
        self.add(found);
    }

    /// Blocks, journal and snapshots. A block that is not live any more is no finding.
    pub(crate) fn rest(
        mut self,
        blocks: &[BlockMeta],
        until: Until,
        is_live: &dyn Fn(&BlockMeta) -> bool,
    ) -> Result<Scrubbed, Error> {
        let directory = self.directory.clone();
        self.add(self.disk.check_members());
        let snapshots = snapshot::list(self.disk, &directory)?;
        let own: u64 = blocks.iter().map(|meta| meta.bytes).sum();
        self.total = own + self.journal_bytes(&directory) + snapshots.iter().map(|one| one.journal_bytes).sum::<u64>();
        for meta in blocks {
            self.block(&directory, meta, is_live)?;
        }
        self.journal(&directory, until)?;
        for one in snapshots {
            let before = self.done.clone();
            let looked = self.snapshot(&directory, &one);
            // One that was removed meanwhile has nothing left that could be bad, and neither has one that was made anew
            // in its place.
            let is_there = snapshot::read(self.disk, &directory, &one.name).is_ok_and(|now| now == one);
            if !is_there && (looked.is_err() || self.done.found > before.found) {
                let bytes = self.done.bytes;
                self.done = Scrubbed { bytes, ..before };
                continue;
            }
            looked?;
        }
        Ok(self.done)
    }

    /// What a snapshot has that is not the store's own.
    fn snapshot(&mut self, directory: &Path, one: &SnapshotInfo) -> Result<(), Error> {
        let inside = snapshot::path_of(directory, &one.name);
        let Some((manifest, agreed)) = Manifest::read(self.disk, &inside)? else { return Ok(()) };
        if !agreed {
            self.manifest(&inside, &manifest);
        }
        for meta in &manifest.blocks {
            let path = Manifest::block_path(&inside, meta.id);
            // Another name of a file that was looked at.
            let live = Manifest::block_path(directory, meta.id);
            if !self.disk.same_file(&path, &live).unwrap_or(false) {
                self.total += meta.bytes;
                self.block(&inside, meta, &|_| true)?;
            }
        }
        self.journal(&inside, Until::End)
    }

    fn journal_bytes(&self, directory: &Path) -> u64 {
        let paths = self.disk.list(&directory.join(JOURNAL_DIRECTORY)).unwrap_or_default();
        let segments = paths.iter().filter(|path| segment_number(path).is_some());
        segments.filter_map(|path| self.disk.length(path).ok()).sum()
    }

    fn block(&mut self, directory: &Path, meta: &BlockMeta, is_live: &dyn Fn(&BlockMeta) -> bool) -> Result<(), Error> {
        let path = Manifest::block_path(directory, meta.id);
        let (disk, done, total) = (self.disk, &mut self.done, self.total);
        let pace = &mut self.pace;
        let scrubbed = scrub_block(disk, &path, meta.bytes, &mut |bytes| {
            done.bytes += bytes;
            pace(done.bytes, total)
        });
        match scrubbed {
            Ok(findings) if findings.iter().all(|finding| finding.healed) || is_live(meta) => self.add(findings),
            Ok(_) => {}
            // A merge replaced it meanwhile.
            Err(_) if !is_live(meta) => {}
            Err(Error::Corrupt { path, offset, problem }) => {
                self.add([Finding { path, section: "block".into(), offset, end: meta.bytes, problem, healed: false }]);
            }
            Err(Error::Disk(DiskError::NotFound { path })) => {
                let problem = "the file is not there".into();
                let (section, offset, end, healed) = ("block".into(), 0, meta.bytes, false);
                self.add([Finding { path, section, offset, end, problem, healed }]);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn journal(&mut self, directory: &Path, until: Until) -> Result<(), Error> {
        let (done, total) = (&mut self.done, self.total);
        let pace = &mut self.pace;
        let findings = scrub_journal(self.disk, &directory.join(JOURNAL_DIRECTORY), until, &mut |bytes| {
            done.bytes += bytes;
            pace(done.bytes, total)
        })?;
        self.add(findings);
        Ok(())
    }

    pub(crate) fn add(&mut self, findings: impl IntoIterator<Item = Finding>) {
        for finding in findings {
            self.done.found += 1;
            self.done.healed += u64::from(finding.healed);
            if self.done.findings.len() < FINDINGS_MAX {
                self.done.findings.push(finding);
            }
        }
        assert!(self.done.findings.len() <= FINDINGS_MAX, "{} are described", self.done.findings.len());
        assert!(self.done.healed <= self.done.found, "{} of {} are healed", self.done.healed, self.done.found);
    }
}
