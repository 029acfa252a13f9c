//! Snapshots: a directory of hard links to the files of one moment, in `snapshots/NAME` of the store's directory.
//!
//! Invariants: a snapshot exists when its file `SNAPSHOT` does, and is then complete; its files are never written
//! again: blocks are immutable, journal segments were sealed by the cut. It is itself the directory of a store, so a
//! clone is links to its files.
//! Format: docs/formats/snapshot.md.
//! Failure: an unfinished one, without `SNAPSHOT`, is removed by the next snapshot of that name; an interrupted
//! rollback is finished by the next start.

use std::path::{Path, PathBuf};

use ogive_journal::{Disk, Error as DiskError, Member, fill_new, segment_number};
use ogive_model::{Matcher, Selection, TimeRange, WallMs};

use crate::bytes::{Broken, Cursor, put_bytes, put_signed, put_varint};
use crate::deletions::{self, DELETED_FILE, Deletions};
use crate::frame::{frame, read_frame};
use crate::layout::{JOURNAL_DIRECTORY, MANIFEST_FILE};
use crate::{Block, Budget, DeletionScope, Error, Manifest, Tombstone, tombstone};

/// Where the snapshots are in the store's directory.
pub const SNAPSHOTS_DIRECTORY: &str = "snapshots";
pub(crate) const SNAPSHOT_FILE: &str = "SNAPSHOT";
/// The list of files of a snapshot that is, or was, received from another store; see [`crate::transfer`].
pub(crate) const RECEIVING_FILE: &str = "RECEIVING";
pub(crate) const ROLLBACK_FILE: &str = "ROLLBACK";
const SNAPSHOT_MAGIC: [u8; 8] = *b"OGIVESNP";
const ROLLBACK_MAGIC: [u8; 8] = *b"OGIVERBK";
/// 100 bytes of a name: a date, a version and a word.
const NAME_BYTES_MAX: usize = 100;
/// A segment of at most its header holds no record and may still be written: it is copied, never linked. Its header
/// voids what a failed fsync may have left before it.
const SEGMENT_EMPTY_BYTES: u64 = 64;

/// What is known of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: WallMs,
    /// Blocks in it.
    pub blocks: u64,
    /// Bytes of its blocks; most of them are shared.
    pub block_bytes: u64,
    /// Bytes of its journal.
    pub journal_bytes: u64,
}

pub(crate) fn refuse(problem: String) -> Error {
    Error::Refused { problem }
}

/// Where the snapshot `name` is.
#[must_use]
pub fn path_of(directory: &Path, name: &str) -> PathBuf {
    directory.join(SNAPSHOTS_DIRECTORY).join(name)
}

pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let good = |letter: u8| letter.is_ascii_alphanumeric() || b"-_.".contains(&letter);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.starts_with('.') || !name.bytes().all(good) {
        return Err(refuse(format!(
            "{name:?} names no snapshot; use 1 to {NAME_BYTES_MAX} letters, digits and -_. that do not begin with a dot"
        )));
    }
    Ok(())
}

/// All snapshots, by name.
///
/// # Errors
/// The disk's.
pub fn list(disk: &dyn Disk, directory: &Path) -> Result<Vec<SnapshotInfo>, Error> {
    let mut found = Vec::new();
    let paths = match disk.list(&directory.join(SNAPSHOTS_DIRECTORY)) {
        Err(DiskError::NotFound { .. }) => return Ok(found),
        paths => paths?,
    };
    for path in paths {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        match read(disk, directory, name) {
            Ok(info) => found.push(info),
            Err(Error::Disk(DiskError::NotFound { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

pub(crate) fn read(disk: &dyn Disk, directory: &Path, name: &str) -> Result<SnapshotInfo, Error> {
    let path = path_of(directory, name).join(SNAPSHOT_FILE);
    let mut info = read_frame(disk, &path, SNAPSHOT_MAGIC, parse_info)?;
    name.clone_into(&mut info.name);
    Ok(info)
}

/// Makes the snapshot `name` of `manifest`. `journal` puts the sealed segments into the directory that it is given.
pub(crate) fn create(
    disk: &dyn Disk,
    directory: &Path,
    name: &str,
    created: WallMs,
    manifest: &Manifest,
    journal: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<SnapshotInfo, Error> {
    check_name(name)?;
    debug_assert!(
        manifest.blocks.iter().all(|meta| meta.id.0 < manifest.next_block),
        "no store that goes on from the snapshot gives an id again: the next is {}",
        manifest.next_block
    );
    let inside = path_of(directory, name);
    if disk.length(&inside.join(SNAPSHOT_FILE)).is_ok() {
        return Err(refuse(format!("there is a snapshot {name:?} already; choose another name, or delete it")));
    }
    remove_below(disk, &inside)?;
    disk.create_dir_all(&inside.join(JOURNAL_DIRECTORY))?;
    for meta in &manifest.blocks {
        disk.link(&Manifest::block_path(directory, meta.id), &Manifest::block_path(&inside, meta.id))?;
    }
    manifest.replace(disk, &inside)?;
    journal(&inside.join(JOURNAL_DIRECTORY))?;
    disk.sync_dir(&inside.join(JOURNAL_DIRECTORY))?;
    disk.sync_dir(&inside)?;
    let segments = disk.list(&inside.join(JOURNAL_DIRECTORY))?;
    let info = SnapshotInfo {
        name: name.to_owned(),
        created,
        blocks: manifest.blocks.len() as u64,
        block_bytes: manifest.blocks.iter().map(|meta| meta.bytes).sum(),
        journal_bytes: segments.iter().filter_map(|path| disk.length(path).ok()).sum(),
    };
    disk.replace(&inside.join(SNAPSHOT_FILE), &encode_info(&info))?;
    disk.sync_dir(&directory.join(SNAPSHOTS_DIRECTORY))?;
    Ok(info)
}

/// Makes a snapshot of a directory that nobody has open.
///
/// # Errors
/// [`Error::Refused`], [`Error::Corrupt`], or the disk's.
pub fn create_stopped(disk: &dyn Disk, directory: &Path, name: &str, created: WallMs) -> Result<SnapshotInfo, Error> {
    finish_rollback(disk, directory)?;
    if !deletions::left(disk, directory)?.is_empty() {
        return Err(refuse("a rollback's deletions are still pending; start the server once to apply them".into()));
    }
    let manifest = Manifest::read(disk, directory)?.map_or_else(Manifest::default, |(manifest, _)| manifest);
    create(disk, directory, name, created, &manifest, |target| {
        link_segments(disk, &directory.join(JOURNAL_DIRECTORY), target)
    })
}

/// Links the segments that hold something, and copies one that holds nothing yet.
fn link_segments(disk: &dyn Disk, from: &Path, to: &Path) -> Result<(), Error> {
    let paths = match disk.list(from) {
        Err(DiskError::NotFound { .. }) => return Ok(()),
        paths => paths?,
    };
    for path in paths.iter().filter(|path| segment_number(path).is_some()) {
        let target = to.join(path.file_name().expect("a file has a name"));
        if disk.length(path)? > SEGMENT_EMPTY_BYTES {
            disk.link(path, &target)?;
        } else {
            copy_bytes(disk, path, &mut *disk.create(&target)?)?;
        }
    }
    Ok(())
}

/// The snapshots that may hold samples of `scope`, by name. What a snapshot's journal
/// holds, or what of it cannot be read, is not looked through: it may.
///
/// # Errors
/// The disk's.
pub fn holding(disk: &dyn Disk, directory: &Path, scope: DeletionScope<'_>) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for info in list(disk, directory)? {
        let inside = path_of(directory, &info.name);
        match may_hold(disk, &inside, scope) {
            Ok(false) => {}
            Ok(true) | Err(Error::Corrupt { .. } | Error::Unreadable { .. }) => names.push(info.name),
            // It was removed meanwhile.
            Err(_) if read(disk, directory, &info.name).is_err() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(names)
}

fn may_hold(disk: &dyn Disk, inside: &Path, scope: DeletionScope<'_>) -> Result<bool, Error> {
    for path in disk.list(&inside.join(JOURNAL_DIRECTORY))? {
        if segment_number(&path).is_some() && disk.length(&path)? > SEGMENT_EMPTY_BYTES {
            return Ok(true);
        }
    }
    let Some((manifest, _)) = Manifest::read(disk, inside)? else { return Ok(false) };
    for deletion in scope.tombstones(u64::MAX) {
        for meta in manifest.blocks.iter().filter(|meta| deletion.concerns(meta)) {
            let block = Block::open(disk, &Manifest::block_path(inside, meta.id))?;
            let end = scope.range.end.saturating_add(meta.resolution_ms.into());
            let selection = Selection {
                labels_only: true,
                ..Selection::new(deletion.matchers.clone(), TimeRange { end, ..scope.range })
            };
            if !block.select(&selection, &mut Budget::new(usize::MAX))?.is_empty() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Notes in the snapshot `name` that `what` was deleted after it was made, by the deletions `made`.
///
/// # Errors
/// The disk's.
pub(crate) fn note_deletion(
    disk: &dyn Disk,
    directory: &Path,
    name: &str,
    what: &str,
    made: &[Tombstone],
) -> Result<(), Error> {
    deletions::note(disk, &path_of(directory, name), what, made)
}

/// Which deletions came after the snapshot `name` was made and concern it.
///
/// # Errors
/// [`Error::Corrupt`], or the disk's.
pub fn deletions(disk: &dyn Disk, directory: &Path, name: &str) -> Result<Deletions, Error> {
    Deletions::read(disk, &path_of(directory, name))
}

/// Removes a snapshot; the files that nobody else has go with it.
///
/// # Errors
/// [`Error::Refused`] when there is none; the disk's.
pub fn delete(disk: &dyn Disk, directory: &Path, name: &str) -> Result<(), Error> {
    need(disk, directory, name)?;
    let inside = path_of(directory, name);
    // First what says that it is there.
    disk.remove(&inside.join(SNAPSHOT_FILE))?;
    disk.sync_dir(&inside)?;
    remove_below(disk, &inside)?;
    disk.remove_dir(&inside)?;
    Ok(disk.sync_dir(&directory.join(SNAPSHOTS_DIRECTORY))?)
}

pub(crate) fn need(disk: &dyn Disk, directory: &Path, name: &str) -> Result<SnapshotInfo, Error> {
    check_name(name)?;
    match read(disk, directory, name) {
        Err(Error::Disk(DiskError::NotFound { .. })) => {
            Err(refuse(format!("there is no snapshot {name:?}; `ogive snapshot list` names them")))
        }
        read => read,
    }
}

/// Makes `target`, an empty directory, a store of its own with what the snapshot `name` holds: by links where it is in
/// the same file system as one of `sources` (the store's directory on each of its disks), else by copies.
///
/// # Errors
/// [`Error::Refused`], or the disk's; then the directory is not taken for a store.
pub fn clone_to(
    disk: &dyn Disk,
    directory: &Path,
    name: &str,
    sources: &[PathBuf],
    target: &Member,
    drawn: u64,
) -> Result<SnapshotInfo, Error> {
    let info = need(disk, directory, name)?;
    let inside = path_of(directory, name);
    fill_new(target, drawn, || {
        let journal = target.root.join(JOURNAL_DIRECTORY);
        target.disk.create_dir_all(&journal)?;
        let mut files: Vec<PathBuf> = disk.list(&inside.join(JOURNAL_DIRECTORY))?;
        files.extend(disk.list(&inside)?);
        for path in files {
            let inner = path.strip_prefix(&inside).expect("it was listed there");
            let about_it = [SNAPSHOT_FILE, DELETED_FILE, RECEIVING_FILE].map(Path::new);
            if disk.is_directory(&path)? || about_it.contains(&inner) {
                continue;
            }
            let from = path.strip_prefix(directory).expect("snapshots are inside");
            let to = target.root.join(inner);
            let is_written = segment_number(&path).is_some() && disk.length(&path)? <= SEGMENT_EMPTY_BYTES;
            let link = |source: &PathBuf| target.disk.link(&source.join(from), &to).is_ok();
            if is_written || !sources.iter().any(link) {
                let mut copy = target.disk.create(&to)?;
                copy_bytes(disk, &path, &mut *copy)?;
            }
        }
        target.disk.sync_dir(&journal)?;
        target.disk.sync_dir(&target.root)?;
        Ok(info)
    })
}

fn copy_bytes(disk: &dyn Disk, path: &Path, copy: &mut dyn ogive_journal::DiskFile) -> Result<(), DiskError> {
    let file = disk.open_read(path)?;
    // 1 MiB a read.
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    loop {
        let read = file.read_at(offset, &mut buffer)?;
        if read == 0 {
            return copy.sync();
        }
        assert!(read <= buffer.len(), "{read} bytes were read into {}", buffer.len());
        copy.write_all(&buffer[..read])?;
        offset += read as u64;
    }
}

/// Makes the directory, which nobody has open, what it was at the snapshot `name`; what it was now becomes the snapshot
/// `kept`. With `keep_deletions` what was deleted since stays so: the next start deletes it again before anything can
/// be read.
///
/// # Errors
/// [`Error::Refused`], also when not all deletions are known; [`Error::TooManyDeletions`]; [`Error::Corrupt`], or the
/// disk's: then it is as it was, or the next start finishes it.
pub fn rollback(
    disk: &dyn Disk,
    directory: &Path,
    name: &str,
    kept: &str,
    created: WallMs,
    keep_deletions: bool,
) -> Result<(), Error> {
    need(disk, directory, name)?;
    if keep_deletions {
        let all = whole(deletions(disk, directory, name)?, name)?;
        let then = Manifest::read(disk, &path_of(directory, name))?.map_or_else(Manifest::default, |(then, _)| then);
        let selectors: Vec<Vec<Matcher>> = all.into_iter().map(|one| one.matchers).collect();
        tombstone::check_room(&then.tombstones, &selectors)?;
    }
    create_stopped(disk, directory, kept, created)?;
    let now = Manifest::read(disk, directory)?.map_or_else(Manifest::default, |(manifest, _)| manifest);
    // Ids that the snapshot does not know of are in use by the one that is kept.
    let (next_block, generation) = (now.next_block, now.generation);
    let intent = RollbackIntent { name: name.to_owned(), next_block, generation, keep_deletions };
    disk.replace(&directory.join(ROLLBACK_FILE), &intent.encode())?;
    finish_rollback(disk, directory)
}

fn whole(deletions: Deletions, name: &str) -> Result<Vec<Tombstone>, Error> {
    deletions.whole.ok_or_else(|| {
        refuse(format!(
            "not all of the {} deletions since {name} are known as they were made, so that they cannot be kept; roll back without that, and \
             delete again",
            deletions.count
        ))
    })
}

/// Does what a rollback that was begun has left undone.
pub(crate) fn finish_rollback(disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
    let path = directory.join(ROLLBACK_FILE);
    let begun = read_frame(disk, &path, ROLLBACK_MAGIC, RollbackIntent::parse);
    let RollbackIntent { name, next_block, generation, keep_deletions } = match begun {
        Err(Error::Disk(DiskError::NotFound { .. })) => return Ok(()),
        begun => begun?,
    };
    let inside = path_of(directory, &name);
    let read = Manifest::read(disk, &inside)?;
    let (mut manifest, _) = read.ok_or_else(|| refuse(format!("the snapshot {name:?} has no {MANIFEST_FILE}")))?;
    for meta in &manifest.blocks {
        match disk.link(&Manifest::block_path(&inside, meta.id), &Manifest::block_path(directory, meta.id)) {
            // Ids are never used again, so it is the same.
            Ok(()) | Err(DiskError::AlreadyExists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let journal = directory.join(JOURNAL_DIRECTORY);
    disk.create_dir_all(&journal)?;
    remove_below(disk, &journal)?;
    link_segments(disk, &inside.join(JOURNAL_DIRECTORY), &journal)?;
    disk.sync_dir(&journal)?;
    if keep_deletions {
        deletions::leave(disk, directory, &whole(Deletions::read(disk, &inside)?, &name)?)?;
    }
    manifest.next_block = manifest.next_block.max(next_block);
    manifest.generation = manifest.generation.max(generation) + 1;
    debug_assert!(
        manifest.blocks.iter().all(|meta| meta.id.0 < manifest.next_block),
        "no id of a block that comes back is given again: the next is {}",
        manifest.next_block
    );
    manifest.replace(disk, directory)?;
    disk.remove(&path)?;
    Ok(disk.sync_dir(directory)?)
}

pub(crate) fn remove_below(disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
    let paths = match disk.list(directory) {
        Err(DiskError::NotFound { .. }) => return Ok(()),
        paths => paths?,
    };
    for path in paths {
        if disk.is_directory(&path)? {
            remove_below(disk, &path)?;
            disk.remove_dir(&path)?;
        } else {
            disk.remove(&path)?;
        }
    }
    Ok(())
}

pub(crate) fn encode_info(info: &SnapshotInfo) -> Vec<u8> {
    let mut body = Vec::new();
    put_signed(&mut body, info.created.0);
    [info.blocks, info.block_bytes, info.journal_bytes].iter().for_each(|number| put_varint(&mut body, *number));
    frame(SNAPSHOT_MAGIC, &body)
}

/// What `SNAPSHOT` says; its name is the directory's.
fn parse_info(cursor: &mut Cursor<'_>) -> Result<SnapshotInfo, Broken> {
    let created = WallMs(cursor.signed()?);
    let [blocks, block_bytes, journal_bytes] = [cursor.varint()?, cursor.varint()?, cursor.varint()?];
    Ok(SnapshotInfo { name: String::new(), created, blocks, block_bytes, journal_bytes })
}

/// What `ROLLBACK` says: a rollback that was begun.
struct RollbackIntent {
    /// The snapshot.
    name: String,
    /// The next id of a block, and the generation, of the manifest that goes.
    next_block: u64,
    generation: u64,
    /// What was deleted since stays so.
    keep_deletions: bool,
}

impl RollbackIntent {
    fn encode(&self) -> Vec<u8> {
        let name = &self.name;
        debug_assert!(check_name(name).is_ok(), "a rollback goes to a snapshot that can be there: {name:?}");
        let mut body = Vec::new();
        put_bytes(&mut body, name.as_bytes());
        put_varint(&mut body, self.next_block);
        put_varint(&mut body, self.generation);
        if self.keep_deletions {
            body.push(1);
        }
        frame(ROLLBACK_MAGIC, &body)
    }

    fn parse(cursor: &mut Cursor<'_>) -> Result<Self, Broken> {
        let name = cursor.text()?.to_owned();
        let (next_block, generation) = (cursor.varint()?, cursor.varint()?);
        let keep_deletions = !cursor.is_empty() && cursor.byte()? == 1;
        Ok(Self { name, next_block, generation, keep_deletions })
    }
}

#[cfg(test)]
mod tests {
    use ogive_journal::SimulatedDisk;
    use proptest::prelude::*;

    use super::*;

    fn info() -> SnapshotInfo {
        let created = WallMs(1_700_000_000_000);
        SnapshotInfo { name: String::new(), created, blocks: 2, block_bytes: 10_000, journal_bytes: 4096 }
    }

    /// The bytes that docs/formats/snapshot.md shows.
    #[test]
    fn the_examples_of_the_format_page_are_what_is_written_and_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let page = std::fs::read_to_string(root.join("docs/formats/snapshot.md")).unwrap();
        let monday = RollbackIntent { name: "monday".into(), next_block: 12, generation: 40, keep_deletions: false };
        let written = [("SNAPSHOT", encode_info(&info())), ("ROLLBACK", monday.encode())];
        for (name, bytes) in written {
            let kept = std::fs::read(root.join("vectors/snapshot").join(name)).unwrap();
            assert_eq!(bytes, kept, "the format changed: its version must rise");
            crate::testing::check_page(&page, &kept);
        }
    }

    #[test]
    fn damage_is_found() {
        let (disk, path) = (SimulatedDisk::new(1), Path::new("/s/SNAPSHOT"));
        let good = encode_info(&info());
        disk.put(path, good.clone());
        assert_eq!(read_frame(&disk, path, SNAPSHOT_MAGIC, parse_info).unwrap(), info());
        for bit in 0..good.len() * 8 {
            disk.put(path, good.clone());
            disk.flip_bit(path, bit);
            assert!(matches!(read_frame(&disk, path, SNAPSHOT_MAGIC, parse_info), Err(Error::Corrupt { .. })), "{bit}");
        }
        for length in 0..good.len() {
            disk.put(path, good[..length].to_vec());
            assert!(matches!(read_frame(&disk, path, SNAPSHOT_MAGIC, parse_info), Err(Error::Corrupt { .. })));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let (disk, path) = (SimulatedDisk::new(1), Path::new("/s/ROLLBACK"));
            disk.put(path, frame(ROLLBACK_MAGIC, &bytes));
            let _ = read_frame(&disk, path, ROLLBACK_MAGIC, RollbackIntent::parse);
            let _ = read_frame(&disk, path, ROLLBACK_MAGIC, parse_info);
            disk.put(path, bytes);
            prop_assert!(read_frame(&disk, path, ROLLBACK_MAGIC, RollbackIntent::parse).is_err());
        }
    }
}
