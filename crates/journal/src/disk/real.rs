//! The machine's own disk: the only place in Ogive that calls `std::fs`.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::{DirectoryLock, Disk, DiskFile, Space};
use crate::Error;

/// The file system of the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

/// Name of the file whose lock stands for its directory.
pub const LOCK_FILE: &str = "LOCK";

fn failure(operation: &'static str, path: &Path, source: std::io::Error) -> Error {
    let path = path.to_owned();
    match source.kind() {
        ErrorKind::NotFound => Error::NotFound { path },
        ErrorKind::AlreadyExists => Error::AlreadyExists { path },
        // Names need space too.
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::Full { path, offset: 0 },
        _ => Error::Io { operation, path, source },
    }
}

fn is_full(source: &std::io::Error) -> bool {
    matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

impl RealDisk {
    fn handle(path: &Path, file: File) -> Result<Box<dyn DiskFile>, Error> {
        let length = file.metadata().map_err(|error| failure("measure", path, error))?.len();
        Ok(Box::new(RealFile { path: path.to_owned(), file, length }))
    }
}

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>, Error> {
        let opened = OpenOptions::new().read(true).append(true).create_new(true).open(path);
        Self::handle(path, opened.map_err(|error| failure("create", path, error))?)
    }

    fn open(&self, path: &Path) -> Result<Box<dyn DiskFile>, Error> {
        let opened = OpenOptions::new().read(true).append(true).open(path);
        Self::handle(path, opened.map_err(|error| failure("open", path, error))?)
    }

    fn open_read(&self, path: &Path) -> Result<Box<dyn DiskFile>, Error> {
        Self::handle(path, File::open(path).map_err(|error| failure("open", path, error))?)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        std::fs::rename(from, to).map_err(|error| failure("rename", from, error))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<(), Error> {
        std::fs::hard_link(from, to).map_err(|error| failure("link", if to.exists() { to } else { from }, error))
    }

    fn same_file(&self, one: &Path, other: &Path) -> Result<bool, Error> {
        let identity = |path: &Path| {
            let metadata = std::fs::metadata(path).map_err(|error| failure("measure", path, error))?;
            Ok::<_, Error>((metadata.dev(), metadata.ino()))
        };
        Ok(identity(one)? == identity(other)?)
    }

    fn remove_dir(&self, directory: &Path) -> Result<(), Error> {
        std::fs::remove_dir(directory).map_err(|error| failure("remove", directory, error))
    }

    fn is_directory(&self, path: &Path) -> Result<bool, Error> {
        match std::fs::metadata(path) {
            Ok(metadata) => Ok(metadata.is_dir()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failure("measure", path, error)),
        }
    }

    fn real_path(&self, path: &Path) -> PathBuf {
        // What is not there yet has no links.
        let there = path.ancestors().find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
        match there {
            Some((above, real)) => match path.strip_prefix(above) {
                Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
                _ => real,
            },
            None => path.to_owned(),
        }
    }

    fn remove(&self, path: &Path) -> Result<(), Error> {
        std::fs::remove_file(path).map_err(|error| failure("remove", path, error))
    }

    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>, Error> {
        let entries = std::fs::read_dir(directory).map_err(|error| failure("list", directory, error))?;
        let mut paths = entries
            .map(|entry| entry.map(|entry| entry.path()).map_err(|error| failure("list", directory, error)))
            .collect::<Result<Vec<_>, _>>()?;
        paths.sort();
        Ok(paths)
    }

    fn create_dir_all(&self, directory: &Path) -> Result<(), Error> {
        // The topmost new directory is named in one that was there before.
        let missing: Vec<&Path> = directory.ancestors().take_while(|path| !path.exists()).collect();
        std::fs::create_dir_all(directory).map_err(|error| failure("create the directory", directory, error))?;
        for made in missing {
            match made.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => self.sync_dir(parent)?,
                Some(_) => self.sync_dir(Path::new("."))?,
                None => {}
            }
        }
        Ok(())
    }

    fn sync_dir(&self, directory: &Path) -> Result<(), Error> {
        let opened = File::open(directory).map_err(|error| failure("open", directory, error))?;
        opened.sync_all().map_err(|error| failure("fsync", directory, error))
    }

    fn space(&self, directory: &Path) -> Result<Space, Error> {
        let stat = rustix::fs::statvfs(directory)
            .map_err(|error| failure("ask for the free space of", directory, error.into()))?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(Space { free_bytes: bytes(stat.f_bavail), size_bytes: bytes(stat.f_blocks), free_files: stat.f_favail })
    }

    fn lock(&self, directory: &Path) -> Result<DirectoryLock, Error> {
        let path = directory.join(LOCK_FILE);
        // Not cut and never removed: its content means nothing, and a removed lock file would let two in.
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(|error| failure("create", &path, error))?;
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(DirectoryLock::new(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Locked { path: directory.to_owned() }),
            Err(error) => Err(failure("lock", &path, error.into())),
        }
    }

    fn length(&self, path: &Path) -> Result<u64, Error> {
        Ok(std::fs::metadata(path).map_err(|error| failure("measure", path, error))?.len())
    }
}

/// An open file and its length, which only this handle changes.
struct RealFile {
    path: PathBuf,
    file: File,
    length: u64,
}

impl DiskFile for RealFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        loop {
            match self.file.write(bytes) {
                Ok(0) if !bytes.is_empty() => return Err(Error::Full { path: self.path.clone(), offset: self.length }),
                Ok(taken) => {
                    assert!(taken <= bytes.len(), "a write took {taken} of {} bytes", bytes.len());
                    self.length += taken as u64;
                    return Ok(taken);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_full(&error) => {
                    return Err(Error::Full { path: self.path.clone(), offset: self.length });
                }
                Err(error) => return Err(failure("write", &self.path, error)),
            }
        }
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.file.sync_data().map_err(|error| match is_full(&error) {
            true => Error::Full { path: self.path.clone(), offset: self.length },
            false => failure("fsync", &self.path, error),
        })
    }

    fn truncate(&mut self, length: u64) -> Result<(), Error> {
        assert!(length <= self.length, "{} is cut from {} to {length}", self.path.display(), self.length);
        self.file.set_len(length).map_err(|error| failure("cut", &self.path, error))?;
        self.length = length;
        Ok(())
    }

    fn length(&self) -> Result<u64, Error> {
        Ok(self.file.metadata().map_err(|error| failure("measure", &self.path, error))?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failure("read", &self.path, error)),
            }
        }
        assert!(filled <= buffer.len(), "{filled} bytes were read into {}", buffer.len());
        Ok(filled)
    }

    /// Opens the file anew: this handle may be for reading, or append.
    fn heal(&self, _copy: usize, place: Range<u64>, bytes: &[u8]) -> Result<(), Error> {
        assert_eq!(bytes.len() as u64, place.end - place.start, "{place:?} is overwritten whole");
        let opened = OpenOptions::new().write(true).open(&self.path);
        let file = opened.map_err(|error| failure("open", &self.path, error))?;
        file.write_all_at(bytes, place.start).map_err(|error| failure("heal", &self.path, error))?;
        file.sync_data().map_err(|error| failure("fsync", &self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_names_move() {
        let directory = tempfile::tempdir().unwrap();
        let (a, b) = (directory.path().join("a"), directory.path().join("b"));
        let mut file = RealDisk.create(&a).unwrap();
        file.write_all(b"hello world").unwrap();
        file.truncate(5).unwrap();
        file.write_all(b"!").unwrap();
        file.sync().unwrap();
        assert!(matches!(RealDisk.create(&a), Err(Error::AlreadyExists { .. })));
        RealDisk.rename(&a, &b).unwrap();
        RealDisk.sync_dir(directory.path()).unwrap();
        assert_eq!(RealDisk.read(&b).unwrap(), b"hello!");
        assert_eq!(RealDisk.length(&b).unwrap(), 6);
        assert_eq!(RealDisk.list(directory.path()).unwrap(), std::slice::from_ref(&b));
        let mut past_end = [0; 4];
        assert_eq!(RealDisk.open_read(&b).unwrap().read_at(4, &mut past_end).unwrap(), 2);
        assert!(matches!(file.read_exact_at(4, &mut past_end), Err(Error::Truncated { offset: 4, end: 8, .. })));
        RealDisk.remove(&b).unwrap();
        assert!(matches!(RealDisk.open(&b), Err(Error::NotFound { .. })));
    }

    #[test]
    fn replace_leaves_the_new_bytes_and_no_remains() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("MANIFEST");
        std::fs::write(directory.path().join("MANIFEST.new"), b"left over").unwrap();
        RealDisk.replace(&path, b"one").unwrap();
        RealDisk.replace(&path, b"two").unwrap();
        assert_eq!(RealDisk.read(&path).unwrap(), b"two");
        assert_eq!(RealDisk.list(directory.path()).unwrap(), [path]);
    }

    #[test]
    fn a_directory_has_one_holder() {
        let directory = tempfile::tempdir().unwrap();
        let held = RealDisk.lock(directory.path()).unwrap();
        assert!(matches!(RealDisk.lock(directory.path()), Err(Error::Locked { .. })));
        drop(held);
        assert!(RealDisk.lock(directory.path()).is_ok());
    }

    #[test]
    fn a_full_device_is_full() {
        // /dev/full refuses every write with ENOSPC.
        let mut file = RealDisk.open(Path::new("/dev/full")).unwrap();
        assert!(matches!(file.write(b"x"), Err(Error::Full { offset: 0, .. })));
    }

    #[test]
    fn directories_are_made_with_their_parents() {
        let directory = tempfile::tempdir().unwrap();
        RealDisk.create_dir_all(&directory.path().join("x/y")).unwrap();
        RealDisk.create_dir_all(&directory.path().join("x/y")).unwrap();
        assert_eq!(RealDisk.list(directory.path()).unwrap(), [directory.path().join("x")]);
        assert!(RealDisk.free_bytes(directory.path()).unwrap() > 0);
    }
}
