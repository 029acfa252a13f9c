//! The receiving side: lists what is missing, accepts it, and creates the snapshot when all is there.

use std::path::{Path, PathBuf};

use ogive_journal::{Disk, Error as DiskError};

use super::inventory::checksum;
use super::{FileEntry, Inventory, PIECE_BYTES_MAX, StreamReader};
use crate::frame::{FRAME_BYTES_MAX, frame, read_frame};
use crate::layout::JOURNAL_DIRECTORY;
use crate::snapshot::{self, RECEIVING_FILE, SNAPSHOTS_DIRECTORY, refuse};
use crate::{Error, SnapshotInfo};

const RECEIVING_MAGIC: [u8; 8] = *b"OGIVERCV";
const _: () = assert!(super::FILES_MAX * (32 + 5 + 10) < FRAME_BYTES_MAX);

/// A file that is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Which of the inventory's files.
    pub index: usize,
    /// Bytes of it that are there.
    pub offset: u64,
}

/// How far a transfer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// These are lacking.
    Missing(Vec<Missing>),
    /// The snapshot is there.
    Done(SnapshotInfo),
}

fn encoded(inventory: &Inventory) -> Result<Vec<u8>, Error> {
    let body = inventory.encode();
    if body.len() > FRAME_BYTES_MAX {
        return Err(refuse(format!("the list of files has {} bytes, and may have {FRAME_BYTES_MAX}", body.len())));
    }
    Ok(frame(RECEIVING_MAGIC, &body))
}

/// The inventory of the transfer of `name` that was begun, or of the snapshot that was received.
fn known(disk: &dyn Disk, directory: &Path, name: &str) -> Result<Option<Inventory>, Error> {
    let path = snapshot::path_of(directory, name).join(RECEIVING_FILE);
    match read_frame(disk, &path, RECEIVING_MAGIC, Inventory::parse) {
        Err(Error::Disk(DiskError::NotFound { .. })) => Ok(None),
        read => read.map(Some),
    }
}

/// Begins a transfer, or goes on with the one of the same files. Files that are here already get a second name.
///
/// # Errors
/// [`Error::Refused`] when there is another snapshot of that name; the disk's.
pub fn begin(disk: &dyn Disk, directory: &Path, inventory: &Inventory) -> Result<Progress, Error> {
    let (name, bytes) = (&inventory.info.name, encoded(inventory)?);
    snapshot::check_name(name)?;
    let begun = known(disk, directory, name);
    let inside = snapshot::path_of(directory, name);
    if disk.length(&inside.join(snapshot::SNAPSHOT_FILE)).is_ok() {
        return match begun? {
            Some(begun) if begun == *inventory => Ok(Progress::Done(snapshot::read(disk, directory, name)?)),
            _ => Err(refuse(format!(
                "there is another snapshot {name:?} already; delete it, or send under another name"
            ))),
        };
    }
    // What cannot be read, or is of another transfer, is begun anew.
    if !begun.is_ok_and(|begun| begun.as_ref() == Some(inventory)) {
        snapshot::remove_below(disk, &inside)?;
        disk.create_dir_all(&inside.join(JOURNAL_DIRECTORY))?;
        disk.replace(&inside.join(RECEIVING_FILE), &bytes)?;
    }
    // Also when it is gone on with: another snapshot may have come meanwhile.
    link_known(disk, directory, inventory)?;
    missing(disk, directory, inventory).map(Progress::Missing)
}

/// Gives files that are here in other places, by name, length and checksum, a second name.
fn link_known(disk: &dyn Disk, directory: &Path, inventory: &Inventory) -> Result<(), Error> {
    let mut snapshots = Vec::new();
    for one in snapshot::list(disk, directory)? {
        snapshots.push(snapshot::path_of(directory, &one.name));
    }
    let is_absent = |file: &&FileEntry| disk.length(&inventory.path_in(directory, file)).is_err();
    for file in inventory.files.iter().filter(is_absent) {
        let mut candidates: Vec<PathBuf> = snapshots.iter().map(|inside| inside.join(&file.path)).collect();
        if file.path.ends_with(".block") {
            // Blocks are never written again; the journal of the store is.
            candidates.push(directory.join(&file.path));
        }
        for candidate in candidates.iter().rev() {
            if disk.length(candidate).ok() != Some(file.bytes) {
                continue;
            }
            let same = checksum(disk, candidate, file.bytes, &mut |_| Ok(())).is_ok_and(|found| found == file.sha256);
            // It may be removed meanwhile.
            if same && disk.link(candidate, &inventory.path_in(directory, file)).is_ok() {
                break;
            }
        }
    }
    Ok(())
}

fn missing(disk: &dyn Disk, directory: &Path, inventory: &Inventory) -> Result<Vec<Missing>, Error> {
    let mut all = Vec::new();
    for (index, file) in inventory.files.iter().enumerate() {
        let path = inventory.path_in(directory, file);
        let offset = match disk.length(&path) {
            Ok(length) if length > file.bytes => {
                disk.remove(&path)?;
                0
            }
            Ok(length) if length == file.bytes => continue,
            Ok(length) => length,
            Err(DiskError::NotFound { .. }) => 0,
            Err(error) => return Err(error.into()),
        };
        debug_assert!(offset < file.bytes || file.bytes == 0, "what lacks of {} bytes begins at {offset}", file.bytes);
        all.push(Missing { index, offset });
    }
    Ok(all)
}

/// Takes the bytes of a file from `offset` on; gives how many are there now. Bytes that are there are not written
/// again.
///
/// # Errors
/// [`Error::Refused`] when no transfer of that name was begun, it has no such file, or bytes before `offset` are not
/// here; the disk's, and then the same call may be made again.
pub fn put(
    disk: &dyn Disk,
    directory: &Path,
    inventory: &Inventory,
    file: &FileEntry,
    offset: u64,
    bytes: &[u8],
) -> Result<u64, Error> {
    let path = inventory.path_in(directory, file);
    if bytes.len() > PIECE_BYTES_MAX {
        return Err(refuse(format!("a piece of {} bytes; the most is {PIECE_BYTES_MAX}", bytes.len())));
    }
    let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= file.bytes);
    let end = end.ok_or_else(|| refuse(format!("{} has {} bytes and no more", file.path, file.bytes)))?;
    let there = match disk.length(&path) {
        Err(DiskError::NotFound { .. }) => 0,
        length => length?,
    };
    if offset > there {
        return Err(refuse(format!("{} is here up to byte {there}, and the piece begins at {offset}", file.path)));
    }
    if end <= there && there > 0 {
        return Ok(there);
    }
    let mut copy = match disk.open(&path) {
        Err(DiskError::NotFound { .. }) => disk.create(&path)?,
        opened => opened?,
    };
    let new = &bytes[usize::try_from(there - offset).expect("inside the piece")..];
    debug_assert_eq!(there + new.len() as u64, end, "the piece goes on where the file ends");
    if let Err(error) = copy.write_all(new) {
        // A piece that is there in part would be taken for bytes of the file: they are, but only up to here.
        let _ = copy.truncate(there);
        return Err(error.into());
    }
    if end == file.bytes {
        copy.sync()?;
    }
    Ok(end)
}

/// The inventory of the transfer of `name` that was begun.
///
/// # Errors
/// [`Error::Refused`] when none was; the disk's.
pub fn begun(disk: &dyn Disk, directory: &Path, name: &str) -> Result<Inventory, Error> {
    snapshot::check_name(name)?;
    let found = known(disk, directory, name)?;
    found.ok_or_else(|| refuse(format!("no transfer of a snapshot {name:?} was begun; send its list of files first")))
}

/// Makes the snapshot when every file is here with its checksum. A file with another one is removed and lacking.
///
/// # Errors
/// The disk's.
pub fn finish(disk: &dyn Disk, directory: &Path, inventory: &Inventory) -> Result<Progress, Error> {
    let inside = snapshot::path_of(directory, &inventory.info.name);
    for file in inventory.files.iter().filter(|file| file.bytes == 0) {
        match disk.create(&inventory.path_in(directory, file)) {
            Ok(_) | Err(DiskError::AlreadyExists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut lacking = missing(disk, directory, inventory)?;
    if lacking.is_empty() {
        for (index, file) in inventory.files.iter().enumerate() {
            let path = inventory.path_in(directory, file);
            // Before it is read back: what another process wrote may be in memory alone.
            disk.open(&path)?.sync()?;
            if checksum(disk, &path, file.bytes, &mut |_| Ok(()))? != file.sha256 {
                disk.remove(&path)?;
                lacking.push(Missing { index, offset: 0 });
            }
        }
    }
    if !lacking.is_empty() {
        return Ok(Progress::Missing(lacking));
    }
    disk.sync_dir(&inside.join(JOURNAL_DIRECTORY))?;
    disk.sync_dir(&inside)?;
    disk.replace(&inside.join(snapshot::SNAPSHOT_FILE), &snapshot::encode_info(&inventory.info))?;
    disk.sync_dir(&directory.join(SNAPSHOTS_DIRECTORY))?;
    Ok(Progress::Done(inventory.info.clone()))
}

/// Takes a stream: begins or goes on with its transfer, and makes the snapshot when nothing is lacking at its end.
///
/// # Errors
/// As [`begin`] and [`put`]; [`Error::Refused`] when the stream ends too soon or is damaged: what came before that is
/// kept.
pub fn receive(disk: &dyn Disk, directory: &Path, input: impl std::io::Read) -> Result<(Inventory, Progress), Error> {
    let broken = |error: std::io::Error| refuse(format!("the stream ends here: {error}; what came before is kept"));
    let mut stream = StreamReader::begin(input).map_err(broken)?;
    let inventory = stream.inventory().clone();
    let done = matches!(begin(disk, directory, &inventory)?, Progress::Done(_));
    while let Some(piece) = stream.piece().map_err(broken)? {
        if !done {
            put(disk, directory, &inventory, &inventory.files[piece.file], piece.offset, piece.bytes)?;
        }
    }
    let progress = match begin(disk, directory, &inventory)? {
        Progress::Missing(_) => finish(disk, directory, &inventory)?,
        done @ Progress::Done(_) => done,
    };
    Ok((inventory, progress))
}
