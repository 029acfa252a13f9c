//! The inventory of a snapshot: its files, their lengths and their checksums.

use std::path::{Path, PathBuf};

use ogive_journal::{Disk, Error as DiskError};
use ogive_model::WallMs;

use super::FILES_MAX;
use crate::block::scrub::scrub_block;
use crate::bytes::{Broken, Cursor, put_bytes, put_signed, put_varint};
use crate::layout::JOURNAL_DIRECTORY;
use crate::snapshot::{self, refuse};
use crate::{Error, SnapshotInfo};

/// A file's checksum.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha256(pub [u8; 32]);

impl std::fmt::Display for Sha256 {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Sha256 {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, out)
    }
}

impl std::str::FromStr for Sha256 {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)) {
            return Err(());
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| ())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| ())?;
        }
        Ok(Self(bytes))
    }
}

/// One file of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Where it is in the snapshot: a name, or `journal/` and a name.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// Its checksum.
    pub sha256: Sha256,
}

/// The files of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// The snapshot.
    pub info: SnapshotInfo,
    /// Its files, ascending by path.
    pub files: Vec<FileEntry>,
}

/// Names that a file of a snapshot cannot have: they say what becomes of it.
const RESERVED: [&str; 3] = [snapshot::SNAPSHOT_FILE, snapshot::RECEIVING_FILE, snapshot::ROLLBACK_FILE];

/// Letters, digits and `-_.`, not a dot first: no such name leaves its directory.
fn is_name(name: &str) -> bool {
    let good = |letter: u8| letter.is_ascii_alphanumeric() || b"-_.".contains(&letter);
    !name.is_empty() && name.len() <= 100 && !name.starts_with('.') && name.bytes().all(good)
}

impl FileEntry {
    fn check(&self) -> Result<(), Error> {
        let good = match self.path.split_once('/') {
            Some((directory, name)) => directory == JOURNAL_DIRECTORY && is_name(name),
            None => is_name(&self.path) && self.path != JOURNAL_DIRECTORY && !RESERVED.contains(&self.path.as_str()),
        };
        if good { Ok(()) } else { Err(refuse(format!("{:?} is no path of a file in a snapshot", self.path))) }
    }
}

impl Inventory {
    /// Looks at every file of the snapshot `name`; blocks are scrubbed. `pace` hears the bytes as they are read.
    ///
    /// # Errors
    /// [`Error::Refused`] when there is none; [`Error::Corrupt`] when a block is bad in every copy; the disk's.
    pub fn from_snapshot(
        disk: &dyn Disk,
        directory: &Path,
        name: &str,
        pace: &mut dyn FnMut(u64) -> Result<(), DiskError>,
    ) -> Result<Self, Error> {
        let info = snapshot::need(disk, directory, name)?;
        let inside = snapshot::path_of(directory, name);
        let mut paths = disk.list(&inside)?;
        paths.extend(disk.list(&inside.join(JOURNAL_DIRECTORY))?);
        let mut files = Vec::new();
        for path in paths {
            let inner = path.strip_prefix(&inside).expect("it was listed there");
            let inner = inner.to_str().ok_or_else(|| refuse(format!("{} is no name", path.display())))?;
            if disk.is_directory(&path)? || RESERVED.contains(&inner) || inner.ends_with(".new") {
                continue;
            }
            files.push(entry(disk, &path, inner, pace)?);
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Self { info, files }.checked()
    }

    /// This inventory, if it can be one.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn checked(self) -> Result<Self, Error> {
        snapshot::check_name(&self.info.name)?;
        if self.files.len() > FILES_MAX {
            return Err(refuse(format!(
                "the snapshot has {} files, and a transfer at most {FILES_MAX}",
                self.files.len()
            )));
        }
        self.files.iter().try_for_each(FileEntry::check)?;
        if let Some(two) = self.files.windows(2).find(|two| two[0].path >= two[1].path) {
            return Err(refuse(format!("{:?} is not in the order of paths, or there twice", two[1].path)));
        }
        let total = self.files.iter().try_fold(0_u64, |sum, file| sum.checked_add(file.bytes));
        total.map(|_| ()).ok_or_else(|| refuse("the files are longer than a disk can be".into()))?;
        Ok(self)
    }

    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Where a file of it is on the sender's or the receiver's disk.
    #[must_use]
    pub fn path_in(&self, directory: &Path, file: &FileEntry) -> PathBuf {
        snapshot::path_of(directory, &self.info.name).join(&file.path)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        assert!(self.files.len() <= FILES_MAX, "a reader takes no list of {} files", self.files.len());
        debug_assert!(self.files.is_sorted_by(|one, next| one.path < next.path), "a reader takes ascending paths");
        let SnapshotInfo { name, created, blocks, block_bytes, journal_bytes } = &self.info;
        let mut body = Vec::new();
        put_bytes(&mut body, name.as_bytes());
        put_signed(&mut body, created.0);
        [*blocks, *block_bytes, *journal_bytes].iter().for_each(|number| put_varint(&mut body, *number));
        put_varint(&mut body, self.files.len() as u64);
        for FileEntry { path, bytes, sha256 } in &self.files {
            put_bytes(&mut body, path.as_bytes());
            put_varint(&mut body, *bytes);
            body.extend_from_slice(&sha256.0);
        }
        body
    }

    pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Self, Broken> {
        let name = cursor.text()?.to_owned();
        let created = WallMs(cursor.signed()?);
        let [blocks, block_bytes, journal_bytes] = [cursor.varint()?, cursor.varint()?, cursor.varint()?];
        let count = cursor.count(FILES_MAX, "files")?;
        let mut files = Vec::new();
        for _ in 0..count {
            let (path, bytes) = (cursor.text()?.to_owned(), cursor.varint()?);
            let sha256 = Sha256(cursor.take(32)?.try_into().expect("its size"));
            files.push(FileEntry { path, bytes, sha256 });
        }
        let info = SnapshotInfo { name, created, blocks, block_bytes, journal_bytes };
        Self { info, files }.checked().map_err(|error| cursor.broken(error.to_string()))
    }
}

fn entry(
    disk: &dyn Disk,
    path: &Path,
    inner: &str,
    pace: &mut dyn FnMut(u64) -> Result<(), DiskError>,
) -> Result<FileEntry, Error> {
    let bytes = disk.length(path)?;
    if inner.ends_with(".block") {
        let findings = scrub_block(disk, path, bytes, pace)?;
        if let Some(bad) = findings.into_iter().find(|finding| !finding.healed) {
            return Err(Error::Corrupt { path: bad.path, offset: bad.offset, problem: bad.problem });
        }
    }
    let sha256 = checksum(disk, path, bytes, pace)?;
    Ok(FileEntry { path: inner.to_owned(), bytes, sha256 })
}

/// The checksum of the first `bytes` of a file.
pub(super) fn checksum(
    disk: &dyn Disk,
    path: &Path,
    bytes: u64,
    pace: &mut dyn FnMut(u64) -> Result<(), DiskError>,
) -> Result<Sha256, DiskError> {
    let file = disk.open_read(path)?;
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    let mut buffer = vec![0; super::PIECE_BYTES_MAX];
    let mut offset = 0;
    while offset < bytes {
        let wanted = buffer.len().min(usize::try_from(bytes - offset).unwrap_or(usize::MAX));
        let read = file.read_at(offset, &mut buffer[..wanted])?;
        if read == 0 {
            break;
        }
        context.update(&buffer[..read]);
        offset += read as u64;
        assert!(offset <= bytes, "the checksum is of the first {bytes} bytes, not of {offset}");
        pace(read as u64)?;
    }
    Ok(Sha256(context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")))
}
