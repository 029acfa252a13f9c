//! The files of a manifest: `MANIFEST` and its twin, read, compared, replaced and healed.
//!
//! Invariants: each file is always complete (it is replaced by a rename, after an fsync of the new bytes and before one
//! of the directory); a change is done when both files have it, and nothing that the previous manifest names is removed
//! earlier. So a bad byte in one of them costs nothing, and after a crash between the two the newer one counts.
//! Failure: when no copy of the newer file can be read, the other one counts, whose generation may be older if the
//! crash was just then; files that it does not name are set aside and reported, never removed. When neither file can be
//! read, the start fails with [`Error::Corrupt`]: guessing which blocks are live would lose or duplicate samples.

use std::collections::HashSet;
use std::path::Path;

use ogive_journal::{Disk, DiskFile, Error as DiskError, Finding};

use crate::block::{self, BLOCK_SUFFIX, BlockId};
use crate::layout::MANIFEST_FILE;
use crate::{Error, Manifest};

/// Name of its twin: the same bytes, written after it.
pub(crate) const MANIFEST_TWIN: &str = "MANIFEST.2";
/// In the order in which they are written.
const FILES: [&str; 2] = [MANIFEST_FILE, MANIFEST_TWIN];
/// How the names of block files end that were there and that no manifest which could be read names.
const ASIDE_SUFFIX: &str = ".aside";

/// What the files of a manifest say.
struct StoredManifest {
    manifest: Manifest,
    /// Every copy of every file says the same.
    agreed: bool,
    /// Which file the manifest is from.
    from: &'static str,
    /// What is wrong with copies that could not be read.
    bad: Vec<String>,
    /// Of one of the files nothing could be read, though it may have been the newer one.
    doubtful: bool,
}

/// A copy of a file that could not be read, or why there is none.
type Copies = Vec<Result<Manifest, Error>>;

impl Manifest {
    /// The manifest of `directory`, or an empty one when there is none, and removes what no manifest names:
    /// half-written blocks and blocks that were replaced. With it what was found to be bad, one sentence each.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::TooNew`], or the disk's.
    pub fn open(disk: &dyn Disk, directory: &Path) -> Result<(Self, Vec<String>), Error> {
        // What is read may have been renamed by a process that ended before it was durable. A power cut could bring
        // the manifest before it back, which names other files: so nothing is removed until that is ruled out.
        disk.sync_dir(directory)?;
        let Some(read) = read_files(disk, directory)? else {
            Self::default().remove_orphans(disk, directory)?;
            return Ok((Self::default(), Vec::new()));
        };
        let StoredManifest { mut manifest, agreed, from, bad, doubtful } = read;
        let mut findings = Vec::new();
        if doubtful {
            let generation = manifest.generation;
            findings.push(format!(
                "{}; generation {generation} was read from {from}, which has every change that was answered as done",
                bad.join("; ")
            ));
            findings.extend(manifest.set_aside(disk, directory)?);
        }
        remove(disk, directory, is_unfinished)?;
        if !agreed {
            match manifest.replace(disk, directory) {
                // What was read is in one file, whole. Until the next change has written both, what the other one names
                // stays.
                Err(Error::Disk(error)) if error.is_full() => return Ok((manifest, findings)),
                replaced => replaced?,
            }
        }
        manifest.remove_orphans(disk, directory)?;
        Ok((manifest, findings))
    }

    /// Reads the manifest of `directory`, and whether every copy of it says the same; `None` when there is none. After
    /// a crash one copy may be of the change that was not finished: that one counts, and [`Manifest::open`] finishes
    /// it.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::TooNew`], or the disk's: of the first copy, when none can be read.
    pub(crate) fn read(disk: &dyn Disk, directory: &Path) -> Result<Option<(Self, bool)>, Error> {
        Ok(read_files(disk, directory)?.map(|read| (read.manifest, read.agreed)))
    }

    /// Puts this manifest in place of the one in `directory`, in both files. Durable when it returns; on an error the
    /// old one or the new one is there, whole.
    ///
    /// # Errors
    /// [`Error::Refused`] when it could not be read again: then nothing was touched. The disk's.
    pub fn replace(&self, disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
        let bytes = self.to_file()?;
        FILES.into_iter().try_for_each(|name| Ok(disk.replace(&directory.join(name), &bytes)?))
    }

    /// Compares every copy of the files in `directory` with this manifest, which is what they must say, and writes them
    /// anew when one says something else. With it how many bytes were looked at.
    pub(crate) fn scrub(&self, disk: &dyn Disk, directory: &Path) -> (Vec<Finding>, u64) {
        let (mut wrong, mut bytes) = (Vec::new(), 0);
        let is_missing = |name| matches!(disk.length(&directory.join(name)), Err(DiskError::NotFound { .. }));
        if self.generation == 0 && self.blocks.is_empty() && FILES.into_iter().all(is_missing) {
            // A new store has none until its first change.
            return (Vec::new(), 0);
        }
        for name in FILES {
            let path = directory.join(name);
            let file = match disk.open_read(&path) {
                Ok(file) => file,
                Err(error) => {
                    wrong.push((path, error.to_string()));
                    continue;
                }
            };
            bytes += file.length().unwrap_or(0);
            for copy in 0..file.copies() {
                let problem = match read_copy(&*file, copy) {
                    Ok(found) if found == *self => continue,
                    Err(Error::Disk(DiskError::NoCopy { .. })) => continue,
                    Ok(_) => "it is not the newest".to_owned(),
                    Err(error) => error.to_string(),
                };
                wrong.push((file.copy_path(copy), problem));
            }
        }
        let healed = !wrong.is_empty() && self.replace(disk, directory).is_ok();
        let finding =
            |(path, problem)| Finding { path, section: "manifest".into(), offset: 0, end: 0, problem, healed };
        (wrong.into_iter().map(finding).collect(), bytes)
    }

    /// Gives blocks that this manifest does not name, though a newer one may have, names under which nobody removes
    /// them, and sees to it that their ids are not used again. Returns which.
    fn set_aside(&mut self, disk: &dyn Disk, directory: &Path) -> Result<Vec<String>, Error> {
        let mut reported = Vec::new();
        for path in disk.list(directory)? {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let Some(id) = block::parse_file_name(name) else { continue };
            self.next_block = self.next_block.max(id.0.saturating_add(1));
            if self.blocks.iter().all(|meta| meta.id != id) {
                let aside = directory.join(format!("{name}{ASIDE_SUFFIX}"));
                disk.rename(&path, &aside)?;
                reported.push(format!(
                    "the block {name} is in no manifest that can be read; it is kept as {}",
                    aside.display()
                ));
            }
        }
        debug_assert!(self.blocks.iter().all(|meta| meta.id.0 < self.next_block), "no id is used again");
        Ok(reported)
    }

    fn remove_orphans(&self, disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
        let live: HashSet<BlockId> = self.blocks.iter().map(|meta| meta.id).collect();
        let is_dead = |name: &str| block::parse_file_name(name).is_some_and(|id| !live.contains(&id));
        remove(disk, directory, |name| is_unfinished(name) || is_dead(name))
    }
}

/// Whether a file of this name was not finished by a process that ended.
fn is_unfinished(name: &str) -> bool {
    name.ends_with(".new") && (name.contains(BLOCK_SUFFIX) || name.starts_with(MANIFEST_FILE))
}

/// Removes the files of `directory` with names that `is_gone` accepts.
fn remove(disk: &dyn Disk, directory: &Path, is_gone: impl Fn(&str) -> bool) -> Result<(), Error> {
    for path in disk.list(directory)? {
        if path.file_name().and_then(|name| name.to_str()).is_some_and(&is_gone) {
            disk.remove(&path)?;
        }
    }
    Ok(())
}

/// One copy of a file.
fn read_copy(file: &dyn DiskFile, copy: usize) -> Result<Manifest, Error> {
    let length = usize::try_from(file.copy_length(copy)?).expect("a file fits the address space");
    let mut bytes = vec![0; length];
    let read = file.read_copy_at(copy, 0, &mut bytes)?;
    Manifest::decode(&bytes[..read], &file.copy_path(copy))
}

/// All copies of a file that there should be.
fn read_file(disk: &dyn Disk, path: &Path) -> Result<Copies, Error> {
    let file = match disk.open_read(path) {
        Err(DiskError::NotFound { .. }) => return Ok(Vec::new()),
        file => file?,
    };
    let copies = (0..file.copies()).map(|copy| read_copy(&*file, copy));
    Ok(copies.filter(|read| !matches!(read, Err(Error::Disk(DiskError::NoCopy { .. })))).collect())
}

fn read_files(disk: &dyn Disk, directory: &Path) -> Result<Option<StoredManifest>, Error> {
    let (mut best, mut agreed) = (None::<(Manifest, &'static str)>, true);
    let (mut bad, mut first, mut doubtful) = (Vec::new(), None, false);
    for name in FILES {
        let (mut any, mut failed) = (false, false);
        let copies = read_file(disk, &directory.join(name)).unwrap_or_else(|error| vec![Err(error)]);
        // Stores from before there were twins have none; without the first there never was one.
        agreed &= !copies.is_empty();
        for copy in copies {
            match copy {
                Ok(found) => {
                    any = true;
                    agreed &= best.as_ref().is_none_or(|(best, _)| *best == found);
                    if best.as_ref().is_none_or(|(best, _)| best.generation < found.generation) {
                        best = Some((found, name));
                    }
                }
                Err(error) => {
                    (agreed, failed) = (false, true);
                    bad.push(error.to_string());
                    first = first.or(Some(error));
                }
            }
        }
        doubtful |= failed && !any;
    }
    match (best, first) {
        (None, Some(error)) => Err(error),
        (Some((manifest, from)), _) => Ok(Some(StoredManifest { manifest, agreed, from, bad, doubtful })),
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use ogive_journal::SimulatedDisk;

    use super::*;
    use crate::BlockMeta;
    use crate::manifest::tests::sample;

    const DIRECTORY: &str = "/store";

    /// A byte of `MANIFEST` went bad, and no start was possible. Now its twin has all, the first is written again, and
    /// the start says so; and the same the other way round, and when the file is gone, cut or empty.
    #[test]
    fn a_bad_file_is_healed_from_its_twin() {
        let directory = Path::new(DIRECTORY);
        for name in FILES {
            for damage in 0..5 {
                let disk = SimulatedDisk::new(damage);
                disk.create_dir_all(directory).unwrap();
                sample(2).replace(&disk, directory).unwrap();
                disk.put(&Manifest::block_path(directory, BlockId(0)), vec![1]);
                let path = directory.join(name);
                let bytes = disk.read(&path).unwrap();
                match damage {
                    0 => disk.remove(&path).unwrap(),
                    1 => disk.put(&path, Vec::new()),
                    2 => disk.put(&path, bytes[..bytes.len() / 2].to_vec()),
                    _ => disk.flip_bit(&path, 100 * damage as usize),
                }
                let (found, reported) = Manifest::open(&disk, directory).unwrap();
                assert_eq!(found, sample(2));
                assert_eq!(reported.len(), usize::from(damage > 0), "{name} {damage}: {reported:?}");
                assert!(reported.iter().all(|one| one.contains("generation 9") && one.contains(name)), "{reported:?}");
                assert_eq!(disk.read(&path).unwrap(), bytes, "it is whole again");
                assert!(disk.length(&Manifest::block_path(directory, BlockId(0))).is_ok());
            }
        }
    }

    /// A disk without space: the file that is good is enough to start with, and nothing is removed that the other may
    /// name.
    #[test]
    fn a_full_disk_is_no_reason_not_to_start() {
        let (disk, directory) = (SimulatedDisk::new(1), Path::new(DIRECTORY));
        disk.create_dir_all(directory).unwrap();
        sample(2).replace(&disk, directory).unwrap();
        let newer = Manifest { generation: 10, ..sample(1) };
        disk.put(&directory.join(MANIFEST_FILE), newer.encode());
        [0, 3].into_iter().for_each(|id| disk.put(&Manifest::block_path(directory, BlockId(id)), vec![1]));
        disk.set_capacity(Some(disk.used_bytes()));
        assert_eq!(Manifest::open(&disk, directory).unwrap(), (newer.clone(), Vec::new()));
        assert!(disk.length(&Manifest::block_path(directory, BlockId(3))).is_ok());
        disk.set_capacity(None);
        assert_eq!(Manifest::open(&disk, directory).unwrap(), (newer, Vec::new()));
        assert!(disk.length(&Manifest::block_path(directory, BlockId(3))).is_err());
    }

    /// The newer generation is in the bad file, which may be after a crash between the two: what only it named is kept.
    #[test]
    fn blocks_of_a_generation_that_cannot_be_read_are_set_aside() {
        let (disk, directory) = (SimulatedDisk::new(1), Path::new(DIRECTORY));
        disk.create_dir_all(directory).unwrap();
        sample(2).replace(&disk, directory).unwrap();
        let newer = Manifest { generation: 10, ..sample(3) };
        disk.put(&directory.join(MANIFEST_FILE), newer.encode());
        [0, 3, 6].into_iter().for_each(|id| disk.put(&Manifest::block_path(directory, BlockId(id)), vec![1]));
        disk.flip_bit(&directory.join(MANIFEST_FILE), 300);
        let (found, reported) = Manifest::open(&disk, directory).unwrap();
        assert_eq!((found.generation, found.blocks.len(), found.next_block), (9, 2, 7));
        assert!(reported.len() == 2 && reported[1].contains("0000000000000006.block.aside"), "{reported:?}");
        assert_eq!(disk.length(&directory.join("0000000000000006.block.aside")).unwrap(), 1);
        let (again, reported) = Manifest::open(&disk, directory).unwrap();
        assert_eq!((again, reported), (found, Vec::new()));
        // Both are bad: nobody guesses.
        for name in FILES {
            disk.flip_bit(&directory.join(name), 300);
        }
        assert!(matches!(Manifest::open(&disk, directory), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn scrubbing_compares_with_what_the_files_must_say() {
        let (disk, directory) = (SimulatedDisk::new(1), Path::new(DIRECTORY));
        disk.create_dir_all(directory).unwrap();
        sample(2).replace(&disk, directory).unwrap();
        assert_eq!(sample(2).scrub(&disk, directory).0, []);
        for name in FILES {
            let path = directory.join(name);
            disk.flip_bit(&path, 333);
            let (found, bytes) = sample(2).scrub(&disk, directory);
            assert!(found.len() == 1 && found[0].healed && found[0].path == path && bytes > 100, "{found:?}");
            disk.put(&path, sample(1).encode());
            let (found, _) = sample(2).scrub(&disk, directory);
            assert!(found.len() == 1 && found[0].healed && found[0].problem.contains("newest"), "{found:?}");
            disk.remove(&path).unwrap();
            assert_eq!(sample(2).scrub(&disk, directory).0.len(), 1);
            assert_eq!(sample(2).scrub(&disk, directory).0, []);
        }
    }

    #[test]
    fn replacing_is_whole_whenever_the_power_goes() {
        let directory = Path::new("/store");
        for run in 0_u64.. {
            let changes = 1 + run / 8;
            let disk = SimulatedDisk::new(run);
            disk.create_dir_all(directory).unwrap();
            sample(1).replace(&disk, directory).unwrap();
            disk.cut_power_after(changes);
            let replaced = sample(2).replace(&disk, directory);
            let powered = disk.is_powered();
            disk.cut_power();
            disk.restart();
            let (found, _) = Manifest::open(&disk, directory).unwrap();
            assert!(found == sample(2) || (replaced.is_err() && found == sample(1)), "{changes}: {found:?}");
            if powered && run % 8 == 7 {
                assert!(changes > 4, "{changes} changes are too few to replace a file");
                break;
            }
        }
    }

    /// A process replaced two blocks by one, renamed its manifest, and was killed before it had fsynced the
    /// directory. The next one read that manifest and removed the two blocks; then the power went, and the manifest
    /// before it was back without its blocks. Now nothing is removed before what was read is durable.
    #[test]
    fn blocks_of_the_manifest_before_are_removed_only_when_it_cannot_come_back() {
        let directory = Path::new("/store");
        let named = |id| Manifest {
            blocks: vec![BlockMeta { id: BlockId(id), ..sample(1).blocks[0].clone() }],
            next_block: 9,
            ..sample(0)
        };
        for seed in 0..50 {
            let disk = SimulatedDisk::new(seed);
            disk.create_dir_all(directory).unwrap();
            (1..3).for_each(|id| disk.put(&Manifest::block_path(directory, BlockId(id)), vec![1]));
            named(1).replace(&disk, directory).unwrap();
            let new = directory.join("MANIFEST.new");
            let mut file = disk.create(&new).unwrap();
            file.write_all(&named(2).encode()).unwrap();
            file.sync().unwrap();
            disk.rename(&new, &directory.join(MANIFEST_FILE)).unwrap();
            disk.kill_process();
            assert_eq!(Manifest::open(&disk, directory).unwrap(), (named(2), Vec::new()));
            disk.cut_power();
            disk.restart();
            let (found, _) = Manifest::open(&disk, directory).unwrap();
            let path = Manifest::block_path(directory, found.blocks[0].id);
            assert!(disk.length(&path).is_ok(), "seed {seed}: {} is gone", path.display());
        }
    }

    #[test]
    fn files_that_no_manifest_names_are_removed_and_others_stay() {
        let (disk, directory) = (SimulatedDisk::new(0), Path::new("/store"));
        disk.create_dir_all(directory).unwrap();
        sample(2).replace(&disk, directory).unwrap();
        let names = [
            ("0000000000000003.block", true),
            ("0000000000000004.block", false),
            ("0000000000000005.block.new", false),
            ("MANIFEST.new", false),
            ("LOCK", true),
            ("000000000000000A.block", true),
            ("notes.new", true),
        ];
        names.iter().for_each(|(name, _)| disk.put(&directory.join(name), Vec::new()));
        Manifest::open(&disk, directory).unwrap();
        let left = disk.list(directory).unwrap();
        for (name, stays) in names {
            assert_eq!(left.contains(&directory.join(name)), stays, "{name}");
        }
    }
}
