//! The open handles of one file, one on each member.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::disk::file::DiskFile;

pub(super) type Handle = Option<Box<dyn DiskFile>>;

/// The open files of a file, by the member's place. A member that joins gets its own of a file that is being written;
/// one that is only read is opened when it is first asked.
pub(super) struct Handles {
    /// Where the file is now: a writer may keep it over a change of its name.
    path: Mutex<PathBuf>,
    open: RwLock<Vec<Handle>>,
    pub(super) writable: bool,
}

impl Handles {
    pub(super) fn new(path: PathBuf, open: Vec<Handle>, writable: bool) -> Self {
        assert!(writable || open.iter().any(Option::is_some), "{} was opened on a member", path.display());
        Self { path: Mutex::new(path), open: RwLock::new(open), writable }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.path.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn renamed(&self, from: &Path, to: &Path) {
        let mut path = self.path.lock().unwrap_or_else(PoisonError::into_inner);
        if *path == from {
            to.clone_into(&mut path);
        }
    }

    /// Gives the member at `at` its open file.
    pub(super) fn join(&self, at: usize, handle: Box<dyn DiskFile>) {
        Self::put(&mut self.write(), at, handle);
    }

    pub(super) fn put(open: &mut Vec<Handle>, at: usize, handle: Box<dyn DiskFile>) {
        open.resize_with(open.len().max(at + 1), || None);
        open[at] = Some(handle);
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Vec<Handle>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Vec<Handle>> {
        self.open.write().unwrap_or_else(PoisonError::into_inner)
    }
}
