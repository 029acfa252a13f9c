//! The traits for a directory tree and its files, through which all of Ogive reaches the disk.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::{Error, Finding};

/// The room of a file system, as a user without privileges has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that can still be written.
    pub free_bytes: u64,
    /// Bytes in all.
    pub size_bytes: u64,
    /// Files and directories that can still be made; 0 also where the file system has no such limit.
    pub free_files: u64,
}

/// A directory tree. Shared as `Arc<dyn Disk>`.
pub trait Disk: Send + Sync {
    /// Creates an empty file, for appending and reading; [`Error::AlreadyExists`] when there is one.
    ///
    /// # Errors
    /// See [`Error`]; so for every operation here.
    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>, Error>;

    /// Opens an existing file for appending and reading.
    fn open(&self, path: &Path) -> Result<Box<dyn DiskFile>, Error>;

    /// Opens an existing file for reading only.
    fn open_read(&self, path: &Path) -> Result<Box<dyn DiskFile>, Error>;

    /// Moves a file to a name in the same file system, replacing what is there, at once for every reader.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), Error>;

    /// Gives a file a second name in the same file system; [`Error::AlreadyExists`] when there is one.
    fn link(&self, from: &Path, to: &Path) -> Result<(), Error>;

    /// Whether two names are of one file.
    fn same_file(&self, one: &Path, other: &Path) -> Result<bool, Error>;

    /// Removes a file. Open handles keep reading it.
    fn remove(&self, path: &Path) -> Result<(), Error>;

    /// Removes an empty directory.
    fn remove_dir(&self, directory: &Path) -> Result<(), Error>;

    /// Whether `path` is there and a directory.
    fn is_directory(&self, path: &Path) -> Result<bool, Error>;

    /// Where `path` lies when every link in what is there of it is followed.
    fn real_path(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    /// Full paths of a directory's files and directories, ascending.
    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>, Error>;

    /// Makes a directory and those above it, and fsyncs what names them.
    fn create_dir_all(&self, directory: &Path) -> Result<(), Error>;

    /// Makes the directory's names durable.
    fn sync_dir(&self, directory: &Path) -> Result<(), Error>;

    /// How much room the file system of `directory` has.
    fn space(&self, directory: &Path) -> Result<Space, Error>;

    /// Bytes that can still be written below `directory`.
    fn free_bytes(&self, directory: &Path) -> Result<u64, Error> {
        Ok(self.space(directory)?.free_bytes)
    }

    /// Takes the directory for oneself until the lock is dropped or the process ends; [`Error::Locked`] when
    /// somebody else has it.
    fn lock(&self, directory: &Path) -> Result<DirectoryLock, Error>;

    /// Looks whether every directory is there and says of itself what it must. Only a mirror has something to look at.
    fn check_members(&self) -> Vec<Finding> {
        Vec::new()
    }

    /// Makes the copy `to` of a file anew from the copy `from`, whole; false when it was missing, and somebody made it
    /// meanwhile. [`Error::NotFound`] when the file was removed meanwhile. Only where there are copies.
    fn restore(&self, path: &Path, from: usize, to: usize) -> Result<bool, Error> {
        Err(Error::NoCopy { path: path.to_owned(), copy: from.max(to) })
    }

    /// Bytes of a file.
    fn length(&self, path: &Path) -> Result<u64, Error> {
        self.open_read(path)?.length()
    }

    /// The whole of a file. Only for files that Ogive itself keeps small.
    fn read(&self, path: &Path) -> Result<Vec<u8>, Error> {
        let file = self.open_read(path)?;
        let length = usize::try_from(file.length()?).expect("a file fits the address space");
        let mut bytes = vec![0; length];
        file.read_exact_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Puts `bytes` at `path` whole or not at all: writes `path` with `.new` appended, fsyncs it, renames it
    /// over, fsyncs the directory. Durable when it returns.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let new = PathBuf::from(name);
        match self.remove(&new) {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut file = self.create(&new)?;
        file.write_all(bytes)?;
        debug_assert!(
            file.length().map_or(true, |length| length == bytes.len() as u64),
            "{} holds the {} bytes, and no others, before it gets its name",
            new.display(),
            bytes.len()
        );
        file.sync()?;
        self.rename(&new, path)?;
        self.sync_dir(path.parent().expect("a file has a directory"))
    }
}

/// An open file. Writing goes to its end.
pub trait DiskFile: Send + Sync {
    /// The path that it was opened with.
    fn path(&self) -> &Path;

    /// Appends a prefix of `bytes` and returns how many: at least one unless `bytes` is empty.
    ///
    /// # Errors
    /// [`Error::Full`] when not even one byte fits; so for every operation here.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error>;

    /// Makes everything written so far durable (fdatasync).
    fn sync(&mut self) -> Result<(), Error>;

    /// Cuts the file to `length` bytes, which it has.
    fn truncate(&mut self, length: u64) -> Result<(), Error>;

    /// Bytes in the file.
    fn length(&self) -> Result<u64, Error>;

    /// Reads at `offset`; fewer bytes than asked only at the file's end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Error>;

    /// How many copies of the file there may be, readable or not: above one on a mirror.
    fn copies(&self) -> usize {
        1
    }

    /// Where copy `copy` lies.
    fn copy_path(&self, _copy: usize) -> PathBuf {
        self.path().to_owned()
    }

    /// Bytes of copy `copy`.
    fn copy_length(&self, _copy: usize) -> Result<u64, Error> {
        self.length()
    }

    /// As [`DiskFile::read_at`], from copy `copy`.
    fn read_copy_at(&self, _copy: usize, offset: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        self.read_at(offset, buffer)
    }

    /// Overwrites bytes of copy `copy`, which fail their checksum, with those that another copy holds, durably.
    fn heal(&self, copy: usize, _place: Range<u64>, _bytes: &[u8]) -> Result<(), Error> {
        Err(Error::NoCopy { path: self.path().to_owned(), copy })
    }

    /// Appends all of `bytes`, or fails with a part of them possibly written.
    fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let taken = self.write(bytes)?;
            assert!(0 < taken && taken <= bytes.len(), "a write took {taken} of {} bytes", bytes.len());
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Fills `buffer` from `offset`, or [`Error::Truncated`].
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let read = self.read_at(offset, buffer)?;
        assert!(read <= buffer.len(), "{read} bytes were read into {}", buffer.len());
        if read < buffer.len() {
            let end = offset.saturating_add(buffer.len() as u64);
            return Err(Error::Truncated { path: self.path().to_owned(), offset, end });
        }
        Ok(())
    }
}

/// Holds a directory; dropping it lets the next one in.
pub struct DirectoryLock(#[expect(dead_code, reason = "held for its drop")] Box<dyn std::any::Any + Send + Sync>);

impl DirectoryLock {
    /// A lock that lasts as long as `holder`. For implementations of [`Disk`].
    pub fn new(holder: impl std::any::Any + Send + Sync) -> Self {
        Self(Box::new(holder))
    }
}

impl std::fmt::Debug for DirectoryLock {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("DirectoryLock")
    }
}
