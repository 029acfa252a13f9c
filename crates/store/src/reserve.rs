//! The reserve: a file of meaningless bytes that is released when the disk is full, so that operations which free space
//! can be written.
//!
//! Invariants: deletions (and the work that carries them out), retention and flushes, which free more than they write,
//! get the reserve's space when there is no other; while they use it the journal accepts nothing, and what they leave
//! is restored.
//! Limits: the size it was created with, an eighth of the disk, and at first an eighth of the free space.
//! Failure: a disk without space for it has none, or a smaller one; whatever exists is used.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ogive_journal::{Disk, Error as DiskError};

use crate::Error;

/// Name of the file in the store's directory.
const RESERVE_FILE: &str = "RESERVE";
/// 64 KiB in one write, and left free beside the reserve: names need space too.
const STEP_BYTES: u64 = 64 << 10;

/// See the module.
pub(crate) struct Reserve {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    bytes: u64,
    /// Somebody uses its space now.
    is_lent: AtomicBool,
}

impl Reserve {
    /// A reserve of up to `bytes` in `directory`; 0 for none.
    pub(crate) fn new(disk: Arc<dyn Disk>, directory: &Path, bytes: u64) -> Self {
        let space = disk.space(directory).ok();
        let (size, free) = space.map_or((u64::MAX, 0), |space| (space.size_bytes, space.free_bytes));
        let bytes = bytes.min(size / 8);
        let reserve = Self { disk, directory: directory.to_owned(), bytes, is_lent: AtomicBool::new(false) };
        if bytes > 0 {
            reserve.grow(bytes.min(free / 8));
        }
        reserve
    }

    fn path(&self) -> PathBuf {
        self.directory.join(RESERVE_FILE)
    }

    /// Whether its space is in use: who can wait does so.
    pub(crate) fn is_lent(&self) -> bool {
        // ORDERING: Relaxed; the flag guards no other memory.
        self.is_lent.load(Ordering::Relaxed)
    }

    /// Does `act`, and once more with the reserve's space when there was none.
    pub(crate) fn spend<T>(&self, mut act: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        let first = act();
        // ORDERING: Relaxed; who comes second while it is lent has its own error.
        if !first.as_ref().is_err_and(Error::is_full) || self.bytes == 0 || self.is_lent.swap(true, Ordering::Relaxed) {
            return first;
        }
        let second = match self.disk.remove(&self.path()) {
            Ok(()) => act(),
            Err(_) => first,
        };
        // Before anybody else takes what is left.
        self.restore();
        // ORDERING: Relaxed, as above.
        let was_lent = self.is_lent.swap(false, Ordering::Relaxed);
        assert!(was_lent, "whoever borrowed the reserve gives it back, and nobody else");
        second
    }

    /// Makes it what it was, as far as there is space.
    pub(crate) fn restore(&self) {
        if self.bytes == 0 {
            return;
        }
        let held = self.disk.length(&self.path()).unwrap_or(0);
        if held < self.bytes {
            let free = self.disk.free_bytes(&self.directory).unwrap_or(0);
            self.grow(self.bytes.min(held + free.saturating_sub(STEP_BYTES)));
        }
    }

    /// Writes up to `bytes` bytes. There was room: a disk of a mirror that had none would be left out of it.
    fn grow(&self, bytes: u64) {
        let path = self.path();
        let file = match self.disk.open(&path) {
            Err(DiskError::NotFound { .. }) if bytes > 0 => self.disk.create(&path),
            opened => opened,
        };
        let Ok(mut file) = file else { return };
        let mut held = file.length().unwrap_or(bytes);
        // Nothing that a file system could compress.
        let mut random = fastrand::Rng::with_seed(held);
        let mut step = vec![0; STEP_BYTES as usize];
        while held < bytes {
            random.fill(&mut step);
            let count = (bytes - held).min(STEP_BYTES);
            if file.write_all(&step[..count as usize]).is_err() {
                break;
            }
            held += count;
        }
        let _ = (file.sync(), self.disk.sync_dir(&self.directory));
    }
}

#[cfg(test)]
mod tests {
    use ogive_journal::SimulatedDisk;

    use super::*;

    #[test]
    fn it_gives_way_and_comes_back() {
        let (disk, directory) = (SimulatedDisk::new(1), Path::new("/s"));
        disk.create_dir_all(directory).unwrap();
        let open = |bytes| Reserve::new(Arc::new(disk.clone()), directory, bytes);
        let length = || disk.length(&directory.join(RESERVE_FILE)).unwrap_or(0);
        disk.set_capacity(Some(disk.used_bytes() + (1 << 20)));
        let reserve = open(1 << 20);
        let size = disk.space(directory).unwrap().size_bytes;
        assert_eq!(length(), 128 << 10, "an eighth of what was free");
        let write =
            |name: &str, bytes: usize| disk.replace(&directory.join(name), &vec![1; bytes]).map_err(Error::from);
        write("ballast", 896 << 10).unwrap();
        assert!(write("more", 1000).is_err_and(|error| error.is_full()));
        reserve.spend(|| write("manifest", 1000)).unwrap();
        assert!(!reserve.is_lent() && length() > 60 << 10, "{} are left of it", length());
        assert!(reserve.spend(|| write("large", 1 << 20)).is_err_and(|error| error.is_full()));
        disk.remove(&directory.join("ballast")).unwrap();
        reserve.restore();
        assert_eq!(length(), size / 8, "no more of a small disk");
        drop(open(0));
        assert!(length() > 0, "nobody takes what is there");
    }
}
