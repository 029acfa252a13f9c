//! Several directories with the same files, used as one [`Disk`].
//!
//! Invariants: a change is done on every live member before it is reported as done. A member that failed is out, and
//! the labels of all others record that durably before the report, too. So each live member has everything that was
//! acknowledged, and a member that left is known to be stale when it returns.
//! Threads: any number. Changes run concurrently; the set of members changes only between them. Names change one at a
//! time and while no file is being opened, so an opener finds a file on every member that has it, never half created or
//! half removed.
//! Limits: `MEMBERS_MAX` members.
//! Failure: a change that fails everywhere is the caller's error and takes no member out; one that fails on some takes
//! those out, counted and reported. Reads try member after member.
//! Paths are relative to the root that the mirror was opened with; each member has them below its own root.

mod file;
mod handles;
mod label;
mod members;
mod open;
mod rebuild;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{DirectoryLock, Disk, DiskFile, Space};
use crate::{Error, Finding};

use file::MirrorFile;
use handles::Handles;
pub use label::MIRROR_FILE;
pub use members::MemberState;
use members::{End, Shared, Slot};
pub use open::{Member, MirrorOptions, added_members, fill_new};
pub use rebuild::{Pace, Progress};

/// What is known of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorStatus {
    /// Its directory.
    pub path: PathBuf,
    /// How it is.
    pub state: MemberState,
    /// Why it is not live; empty if it is.
    pub why: String,
    /// Operations that failed on it.
    pub failures: u64,
    /// Pieces of files whose bad bytes were overwritten with good ones of another member.
    pub healed: u64,
    /// Their bytes.
    pub healed_bytes: u64,
    /// The room of its file system; none when that cannot be asked.
    pub space: Option<Space>,
}

/// See the module. Clones share it.
#[derive(Clone)]
pub struct MirrorDisk(Arc<Shared>);

impl Shared {
    fn new_file(self: &Arc<Self>, path: &Path, handles: Vec<Option<Box<dyn DiskFile>>>, writable: bool) -> MirrorFile {
        let length = handles.iter().flatten().find_map(|handle| handle.length().ok()).unwrap_or(0);
        let handles = Arc::new(Handles::new(path.to_owned(), handles, writable));
        if writable {
            let mut writers = self.writers();
            writers.retain(|weak| weak.strong_count() > 0);
            writers.push(Arc::downgrade(&handles));
        } else {
            let mut readers = self.readers();
            let of_path = readers.entry(path.to_owned()).or_default();
            of_path.retain(|weak| weak.strong_count() > 0);
            of_path.push(Arc::downgrade(&handles));
        }
        MirrorFile::new(Arc::clone(self), path.to_owned(), handles, length)
    }

    /// Opens a file that is about to be removed for those who read it and have not opened it on this member, which
    /// joined later: when the others fail, they go on reading here.
    fn open_for_readers(&self, path: &Path, at: usize, slot: &Slot) {
        for handles in self.readers().get(path).into_iter().flatten().filter_map(Weak::upgrade) {
            let is_open = matches!(handles.read().get(at), Some(Some(_)));
            if !is_open && let Ok(handle) = slot.disk.open_read(&slot.path(self.inner(path))) {
                handles.join(at, handle);
            }
        }
    }

    /// Opens `path` for writing on every live member.
    fn open_writable(
        self: &Arc<Self>,
        path: &Path,
        act: impl Fn(&Slot, &Path) -> Result<Box<dyn DiskFile>, Error>,
    ) -> Result<Box<dyn DiskFile>, Error> {
        self.settle()?;
        let opened = Mutex::new(Vec::new());
        // The file is among the writers before the members can change.
        let (file, results) = {
            let _names = self.names();
            let state = self.read();
            let keep = |at: usize, handle| opened.lock().unwrap_or_else(PoisonError::into_inner).push((at, handle));
            let open = |(at, slot): (usize, &Slot)| {
                (at, act(slot, &slot.path(self.inner(path))).map(|handle| keep(at, handle)))
            };
            let results: Vec<_> = state.live().map(open).collect();
            let mut handles: Vec<Option<Box<dyn DiskFile>>> = state.slots.iter().map(|_| None).collect();
            for (at, handle) in opened.into_inner().unwrap_or_else(PoisonError::into_inner) {
                assert!(handles[at].is_none(), "member {at} opened {} once", path.display());
                handles[at] = Some(handle);
            }
            let file = self.new_file(path, handles, true);
            self.note(path, 0);
            (file, results)
        };
        self.judge(results)?;
        Ok(Box::new(file))
    }
}

impl MirrorDisk {
    /// How each member is.
    #[must_use]
    pub fn members(&self) -> Vec<MirrorStatus> {
        // ORDERING: Relaxed; numbers to look at.
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let status = |slot: &Slot| {
            let status = MirrorStatus {
                path: slot.root.clone(),
                state: slot.state,
                why: slot.why.clone(),
                failures: get(&slot.counts.failures),
                healed: get(&slot.counts.healed),
                healed_bytes: get(&slot.counts.healed_bytes),
                space: None,
            };
            (slot.end(), status)
        };
        let all: Vec<_> = self.0.read().slots.iter().filter(|slot| !slot.gone).map(status).collect();
        all.into_iter().map(|(end, status)| MirrorStatus { space: end.space(Path::new("")).ok(), ..status }).collect()
    }

    /// The epoch of the set of current members.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.0.read().label.epoch
    }

    /// Looks at the label of every live member. One that is gone (the directory was removed, its disk unmounted) takes
    /// its member out, if another stays; one that says something else is written again. Call it now and then: files
    /// that are open go on taking bytes when their names are gone.
    pub fn check(&self) -> Vec<Finding> {
        self.0.sum_healed();
        let expected = {
            let state = self.0.read();
            let of = |(at, slot): (usize, &Slot)| {
                (at, slot.root.clone(), Arc::clone(&slot.disk), state.label.for_member(slot.id).encode())
            };
            state.live().map(of).collect::<Vec<_>>()
        };
        let mut findings = Vec::new();
        for (at, root, disk, label) in expected {
            let path = root.join(MIRROR_FILE);
            let problem = match disk.read(&path) {
                Ok(found) if found == label => continue,
                Ok(_) => "it is not what was written".to_owned(),
                Err(error) => error.to_string(),
            };
            let mut state = self.0.write();
            // The members may have changed meanwhile, and the label with them.
            let current = state.slots[at].state == MemberState::Live
                && !state.unsettled
                && state.label.for_member(state.slots[at].id).encode() == label;
            if !current {
                continue;
            }
            let mut healed = disk.length(&path).is_ok() && disk.replace(&path, &label).is_ok();
            if !healed && state.live().count() > 1 {
                state.put_out(at, &problem, &*self.0.tell);
                healed = state.settle(&*self.0.tell).is_ok();
            }
            let (section, end) = ("label".to_owned(), label.len() as u64);
            findings.push(Finding { path, section, offset: 0, end, problem, healed });
        }
        findings
    }

    /// The directory that paths begin with.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.0.root
    }
}

impl Disk for MirrorDisk {
    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>, Error> {
        self.0.open_writable(path, |slot, path| slot.disk.create(path))
    }

    fn open(&self, path: &Path) -> Result<Box<dyn DiskFile>, Error> {
        self.complete(path)?;
        self.0.open_writable(path, |slot, path| slot.disk.open(path))
    }

    fn open_read(&self, path: &Path) -> Result<Box<dyn DiskFile>, Error> {
        let _names = self.0.names.read().unwrap_or_else(PoisonError::into_inner);
        let (state, inner) = (self.0.read(), self.0.inner(path));
        let (mut handles, mut first) = (Vec::new(), None);
        handles.resize_with(state.slots.len(), || None);
        for (at, slot) in state.live() {
            match slot.disk.open_read(&slot.path(inner)) {
                Ok(handle) => handles[at] = Some(handle),
                Err(error) => first = first.or(Some(error)),
            }
        }
        if handles.iter().all(Option::is_none) {
            return Err(first.expect("a mirror has a live member"));
        }
        Ok(Box::new(self.0.new_file(path, handles, false)))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        let (inner_from, inner_to) = (self.0.inner(from), self.0.inner(to));
        let renamed =
            |from, to| self.0.writers().iter().filter_map(Weak::upgrade).for_each(|open| open.renamed(from, to));
        // First, so that a member that joins right behind the change finds the file.
        renamed(from, to);
        self.0
            .change(&[from, to], |_, slot| slot.disk.rename(&slot.path(inner_from), &slot.path(inner_to)))
            .inspect_err(|_| renamed(to, from))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<(), Error> {
        let (from, inner) = (self.0.inner(from), self.0.inner(to));
        self.0.change(&[to], |_, slot| slot.disk.link(&slot.path(from), &slot.path(inner)))
    }

    fn same_file(&self, one: &Path, other: &Path) -> Result<bool, Error> {
        let (one, other) = (self.0.inner(one), self.0.inner(other));
        // A file that was made anew on one member is not the same any more there.
        let state = self.0.read();
        let mut each = state.live().map(|(_, slot)| slot.disk.same_file(&slot.path(one), &slot.path(other)));
        each.try_fold(true, |all, same| Ok(all && same?))
    }

    /// What one member does not have needs no removing there.
    fn remove(&self, path: &Path) -> Result<(), Error> {
        let inner = self.0.inner(path);
        let found = std::sync::atomic::AtomicBool::new(false);
        self.0.change(&[path], |at, slot| {
            self.0.open_for_readers(path, at, slot);
            match slot.disk.remove(&slot.path(inner)) {
                Err(Error::NotFound { .. }) => Ok(()),
                // ORDERING: Relaxed; read on this thread.
                removed => removed.inspect(|()| found.store(true, Ordering::Relaxed)),
            }
        })?;
        self.0.readers().remove(path);
        // ORDERING: Relaxed, as above.
        if found.load(Ordering::Relaxed) { Ok(()) } else { Err(Error::NotFound { path: path.to_owned() }) }
    }

    fn remove_dir(&self, directory: &Path) -> Result<(), Error> {
        let inner = self.0.inner(directory);
        self.0.change(&[directory], |_, slot| match slot.disk.remove_dir(&slot.path(inner)) {
            Err(Error::NotFound { .. }) => Ok(()),
            removed => removed,
        })
    }

    fn is_directory(&self, path: &Path) -> Result<bool, Error> {
        let inner = self.0.inner(path);
        self.0.ask(|slot| slot.disk.is_directory(&slot.path(inner)))
    }

    /// What any live member has: a crash may have left a file with one of them, and a bad disk lacks one.
    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>, Error> {
        let inner = self.0.inner(directory);
        let (mut names, mut first) = (None::<BTreeSet<PathBuf>>, None);
        for (_, slot) in self.0.read().live() {
            match slot.disk.list(&slot.path(inner)) {
                Ok(found) => {
                    let named = found.into_iter().filter_map(|path| Some(directory.join(path.file_name()?)));
                    names.get_or_insert_default().extend(named);
                }
                Err(error) => first = first.or(Some(error)),
            }
        }
        names.map(|names| names.into_iter().collect()).ok_or_else(|| first.expect("a mirror has a live member"))
    }

    fn create_dir_all(&self, directory: &Path) -> Result<(), Error> {
        let inner = self.0.inner(directory);
        self.0.change(&[directory], |_, slot| slot.disk.create_dir_all(&slot.path(inner)))
    }

    fn sync_dir(&self, directory: &Path) -> Result<(), Error> {
        let inner = self.0.inner(directory);
        self.0.change(&[], |_, slot| slot.disk.sync_dir(&slot.path(inner)))
    }

    /// Of the member that has the least left, whether it is live or comes back: all must hold what one holds.
    fn space(&self, directory: &Path) -> Result<Space, Error> {
        let inner = self.0.inner(directory);
        // A disk that fails may take its time to answer: nobody waits for it behind the lock.
        let ends: Vec<End> = self.0.read().slots.iter().filter(|slot| !slot.gone).map(Slot::end).collect();
        let least = ends.iter().filter_map(|end| end.space(inner).ok()).min_by_key(|space| space.free_bytes);
        least.map_or_else(|| self.0.ask(|slot| slot.disk.space(&slot.path(inner))), Ok)
    }

    /// The members were locked when the mirror was opened; this keeps a second user of it out.
    fn lock(&self, directory: &Path) -> Result<DirectoryLock, Error> {
        assert!(self.0.inner(directory).as_os_str().is_empty(), "only the root is locked");
        let mut held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *held, true) {
            return Err(Error::Locked { path: directory.to_owned() });
        }
        Ok(DirectoryLock::new(HoldGuard(Arc::clone(&self.0))))
    }

    fn check_members(&self) -> Vec<Finding> {
        self.check()
    }

    fn restore(&self, path: &Path, from: usize, to: usize) -> Result<bool, Error> {
        self.copy_anew(path, from, to)
    }
}

impl MirrorDisk {
    /// Gives the members that lack `path` a copy of it, if others have it.
    fn complete(&self, path: &Path) -> Result<(), Error> {
        let inner = self.0.inner(path);
        let (missing, source) = {
            let state = self.0.read();
            let is_missing = |slot: &Slot| matches!(slot.disk.length(&slot.path(inner)), Err(Error::NotFound { .. }));
            let missing: Vec<usize> = state.live().filter(|(_, slot)| is_missing(slot)).map(|(at, _)| at).collect();
            let source = state.live().find(|(at, _)| !missing.contains(at)).map(|(at, _)| at);
            (missing, source)
        };
        // Nobody has it: the caller hears so.
        let Some(source) = source else { return Ok(()) };
        missing.into_iter().try_for_each(|at| self.restore(path, source, at).map(|_| ()))
    }
}

struct HoldGuard(Arc<Shared>);

impl Drop for HoldGuard {
    fn drop(&mut self) {
        let was_held = std::mem::take(&mut *self.0.held.lock().unwrap_or_else(PoisonError::into_inner));
        debug_assert!(was_held, "the mirror of {} had one holder", self.0.root.display());
    }
}
