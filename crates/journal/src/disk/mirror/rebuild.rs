//! Rebuilding a member while the mirror is in use: copy the existing files, then what changed meanwhile, and finally
//! the rest while changes are blocked; then the member is live.
//!
//! Invariants: until the new label is durable, the directory is marked as unfilled; hard links to one file are hard
//! links in the copy too.
//! Threads: one rebuild at a time.
//! Limits: [`ROUNDS_MAX`], [`REST_BYTES_MAX`].
//! Failure: the member stays out, and the next rebuild starts from nothing; the others never wait for more than the
//! rest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::label::{Label, MEMBERS_MAX, is_added, member_id};
use super::members::{Counts, End, MemberState, Slot, State};
use super::open::{DirectoryContents, look, refuse_used};
use super::{MIRROR_FILE, Member, MirrorDisk};
use crate::Error;
use crate::disk::LOCK_FILE;

/// 1 MiB a read: few calls, little memory.
const COPY_BYTES: usize = 1 << 20;
/// 4 MiB are copied while every change waits: some ten milliseconds.
const REST_BYTES_MAX: u64 = 4 << 20;
/// 20 rounds: who changes faster than is copied for that long waits for the rest, however much it is.
const ROUNDS_MAX: usize = 20;

/// How far a rebuild is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes copied.
    pub done: u64,
    /// Bytes to copy, as far as is known.
    pub total: u64,
}

/// Called again and again during a rebuild: may wait, so that the copy goes no faster than is wanted, and may end it
/// with an error.
pub type Pace<'a> = &'a mut dyn FnMut(Progress) -> Result<(), Error>;

/// Copies a file from byte `from` on, whole and durable when it returns; gives the bytes.
fn copy_file(
    source: &End,
    target: &End,
    inner: &Path,
    from: u64,
    moved: &mut dyn FnMut(u64) -> Result<(), Error>,
) -> Result<u64, Error> {
    let path = target.path(inner);
    if from > 0 && target.disk.length(&path).is_ok_and(|length| from <= length) {
        return copy_to(source, target, inner, &path, from, moved);
    }
    let new = beside(&path);
    let bytes = copy_to(source, target, inner, &new, 0, moved)?;
    name_copy(target, &new, &path)?;
    Ok(bytes)
}

/// Where a copy grows that is not whole yet.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".copy.new");
    name.into()
}

/// Gives a whole copy its name, durably.
fn name_copy(target: &End, new: &Path, path: &Path) -> Result<(), Error> {
    assert_eq!(new.parent(), path.parent(), "one fsync makes the name durable");
    target.disk.rename(new, path)?;
    target.disk.sync_dir(path.parent().expect("a file has a directory"))
}

/// Makes the target's file at `to`, from byte `from` on, what the source's `inner` is; durable when it returns. Gives
/// the bytes.
fn copy_to(
    source: &End,
    target: &End,
    inner: &Path,
    to: &Path,
    from: u64,
    moved: &mut dyn FnMut(u64) -> Result<(), Error>,
) -> Result<u64, Error> {
    let file = source.disk.open_read(&source.path(inner))?;
    let mut copy = if from > 0 {
        let mut copy = target.disk.open(to)?;
        copy.truncate(from)?;
        copy
    } else {
        remove_if_there(target, to)?;
        target.disk.create(to)?
    };
    let (mut offset, mut buffer) = (from, vec![0; COPY_BYTES]);
    loop {
        let read = file.read_at(offset, &mut buffer)?;
        if read == 0 {
            break;
        }
        copy.write_all(&buffer[..read])?;
        offset += read as u64;
        moved(read as u64)?;
    }
    copy.sync()?;
    assert!(copy.length()? >= offset, "{} bytes are durable at {}", offset, to.display());
    Ok(offset - from)
}

fn remove_if_there(target: &End, path: &Path) -> Result<(), Error> {
    match target.disk.remove(path) {
        Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Files and directories below `inner`, directories before what they hold; without those that are a member's own.
fn walk(slot: &End, inner: &Path, out: &mut Vec<(PathBuf, bool)>) -> Result<(), Error> {
    debug_assert!(inner.is_relative(), "{} is below the root", inner.display());
    for path in slot.disk.list(&slot.path(inner))? {
        let Some(name) = path.file_name() else { continue };
        let is_root = inner.as_os_str().is_empty();
        let text = name.to_string_lossy();
        if is_root && (text == LOCK_FILE || text == "lost+found" || text.starts_with(MIRROR_FILE)) {
            continue;
        }
        let is_directory = slot.disk.is_directory(&path)?;
        out.push((inner.join(name), is_directory));
        if is_directory {
            walk(slot, &inner.join(name), out)?;
        }
    }
    Ok(())
}

/// What a copy has to remember from file to file.
#[derive(Default)]
struct Copied {
    progress: Progress,
    /// Files that were copied, by their last name: another name of one of them becomes a link.
    by_name: BTreeMap<PathBuf, Vec<PathBuf>>,
}

impl Copied {
    fn one(&mut self, source: &End, target: &End, inner: &Path, from: u64, pace: Pace<'_>) -> Result<(), Error> {
        let name = PathBuf::from(inner.file_name().expect("a file has a name"));
        let others = self.by_name.entry(name).or_default();
        let is_same = |other: &&PathBuf| {
            *other != inner && source.disk.same_file(&source.path(other), &source.path(inner)).unwrap_or(false)
        };
        if let Some(other) = others.iter().find(is_same) {
            remove_if_there(target, &target.path(inner))?;
            target.disk.link(&target.path(other), &target.path(inner))?;
            return target.disk.sync_dir(target.path(inner).parent().expect("a file has a directory"));
        }
        others.push(inner.to_owned());
        let progress = &mut self.progress;
        copy_file(source, target, inner, from, &mut |bytes| {
            progress.done += bytes;
            progress.total = progress.total.max(progress.done);
            pace(*progress)
        })?;
        Ok(())
    }

    /// Makes the target's `inner` what the source's is: a file, a directory, or nothing.
    fn follow(&mut self, source: &End, target: &End, inner: &Path, from: u64, pace: Pace<'_>) -> Result<(), Error> {
        if source.disk.is_directory(&source.path(inner))? {
            return target.disk.create_dir_all(&target.path(inner));
        }
        match self.one(source, target, inner, from, pace) {
            Err(Error::NotFound { .. }) if source.disk.length(&source.path(inner)).is_err() => {}
            done => return done,
        }
        let path = target.path(inner);
        let removed = match target.disk.is_directory(&path)? {
            true => remove_below(target, inner).and_then(|()| target.disk.remove_dir(&path)),
            false => target.disk.remove(&path),
        };
        match removed {
            Ok(()) => target.disk.sync_dir(path.parent().expect("a file has a directory")),
            Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn remove_below(slot: &End, inner: &Path) -> Result<(), Error> {
    let mut all = Vec::new();
    walk(slot, inner, &mut all)?;
    for (path, is_directory) in all.into_iter().rev() {
        let path = slot.path(&path);
        if is_directory { slot.disk.remove_dir(&path)? } else { slot.disk.remove(&path)? }
    }
    Ok(())
}

impl MirrorDisk {
    /// Fills `new` with everything and makes it live; `old` leaves then, if one is named. `new` is an empty directory,
    /// or a member that is out. `before` is called with each file that is to be copied: the moment to heal it.
    ///
    /// # Errors
    /// [`Error::Mirror`] when it cannot be done now; what the disks or `pace` say.
    pub fn rebuild(
        &self,
        old: Option<&Path>,
        new: Member,
        before: &mut dyn FnMut(&Path),
        pace: Pace<'_>,
    ) -> Result<(), Error> {
        let at = self.begin_rebuild(old, new)?;
        let done = self.fill(at, old, before, pace);
        *self.0.changed() = None;
        if let Err(error) = &done {
            let mut state = self.0.write();
            let slot = &mut state.slots[at];
            (slot.state, slot.why) = (MemberState::Out, format!("it could not be filled: {error}"));
        }
        done
    }

    /// Makes the copy at `to` of a file anew from the one at `from`: most of it while others go on, what was added
    /// meanwhile while nothing changes. See [`Disk::restore`].
    pub(super) fn copy_anew(&self, path: &Path, from: usize, to: usize) -> Result<bool, Error> {
        assert_ne!(from, to, "a copy of {} is made of another one", path.display());
        let inner = self.0.inner(path);
        let ends = |state: &State| -> Result<(End, End), Error> {
            let live = |at: usize| {
                let slot = state.slots.get(at).filter(|slot| slot.state == MemberState::Live);
                slot.map(Slot::end).ok_or_else(|| Error::NoCopy { path: path.to_owned(), copy: at })
            };
            Ok((live(from)?, live(to)?))
        };
        let (source, target) = ends(&self.0.read())?;
        let own = target.path(inner);
        let (new, was_missing) = (beside(&own), target.disk.length(&own).is_err());
        let mut bytes = copy_to(&source, &target, inner, &new, 0, &mut |_| Ok(()))?;

        let (_names, state) = (self.0.names(), self.0.write());
        let (source, target) = ends(&state)?;
        let is_made = was_missing && target.disk.length(&own).is_ok();
        let length = source.disk.length(&source.path(inner));
        if let (Ok(length), false) = (&length, is_made) {
            bytes = bytes.min(*length);
            bytes += copy_to(&source, &target, inner, &new, bytes, &mut |_| Ok(()))?;
            name_copy(&target, &new, &own)?;
            self.reopen(&state.slots[to], to, |of| of == path)?;
            let counts = &state.slots[to].counts;
            // ORDERING: Relaxed; counters publish nothing beside themselves.
            counts.healed.fetch_add(1, Ordering::Relaxed);
            counts.healed_bytes.fetch_add(bytes, Ordering::Relaxed);
            return Ok(true);
        }
        remove_if_there(&target, &new)?;
        length.map(|_| false)
    }

    /// Gives the member at `at` its own open file of each that is being written and that `which` names.
    fn reopen(&self, slot: &Slot, at: usize, which: impl Fn(&Path) -> bool) -> Result<(), Error> {
        for handles in self.0.writers().iter().filter_map(Weak::upgrade).filter(|handles| which(&handles.path())) {
            match slot.disk.open(&slot.path(self.0.inner(&handles.path()))) {
                Ok(handle) => handles.join(at, handle),
                // A file that was removed while it is still open.
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether [`MirrorDisk::rebuild`] could begin now. Nothing is written.
    ///
    /// # Errors
    /// As of a rebuild.
    pub fn check_target(&self, old: Option<&Path>, new: &Member) -> Result<(), Error> {
        self.check_new(&self.0.read(), old, new).map(|_| ())
    }

    /// The place of `new`, if it has one.
    fn check_new(&self, state: &State, old: Option<&Path>, new: &Member) -> Result<Option<usize>, Error> {
        let refuse = |problem: String| Err(Error::Mirror { problem });
        let path = new.root.display().to_string();
        if let Some(old) = old
            && !state.slots.iter().any(|slot| slot.root == old && !slot.gone)
        {
            return refuse(format!("{} is not a directory of this store; `ogive disk list` names them", old.display()));
        }
        if self.0.changed().is_some() {
            return refuse("another directory is being filled; wait until it is done".into());
        }
        let known = state.slots.iter().position(|slot| slot.root == new.root && !slot.gone);
        if known.is_some_and(|at| state.slots[at].state == MemberState::Live) {
            return refuse(format!("{path} is in use and needs no filling"));
        }
        if known.is_none() && old.is_none() && state.slots.iter().filter(|slot| !slot.gone).count() >= MEMBERS_MAX {
            return refuse(format!("a mirror has at most {MEMBERS_MAX} directories"));
        }
        let real = new.disk.real_path(&new.root);
        let others = state.slots.iter().enumerate().filter(|(at, slot)| !slot.gone && Some(*at) != known);
        for (_, slot) in others {
            let other = slot.disk.real_path(&slot.root);
            if other != real && (other.starts_with(&real) || real.starts_with(&other)) {
                let other = slot.root.display();
                return refuse(format!(
                    "{path} holds {other}, which is in use, or is inside of it; name one beside it"
                ));
            }
        }
        // What holds its own lock was looked at when it was opened.
        if known.is_none_or(|at| state.slots[at].lock.is_none()) {
            refuse_used(new, Some(state.label.store))?;
        }
        Ok(known)
    }

    /// Makes the place of a member that is to be filled.
    fn begin_rebuild(&self, old: Option<&Path>, new: Member) -> Result<usize, Error> {
        let refuse = |problem: String| Err(Error::Mirror { problem });
        let path = new.root.display().to_string();
        let mut state = self.0.write();
        let known = self.check_new(&state, old, &new)?;
        let held = known.and_then(|at| state.slots[at].lock.take());
        let lock = match held {
            Some(lock) => lock,
            None => match look(&new)? {
                DirectoryContents::Lost(error) => return refuse(format!("{path} cannot be used: {error}")),
                DirectoryContents::Empty(lock) => lock,
                DirectoryContents::Labelled(lock, label) if label.store == state.label.store => lock,
                DirectoryContents::Labelled(..) | DirectoryContents::Unlabelled(_) => {
                    return refuse(format!("{path} is not empty; empty it or name another directory"));
                }
            },
        };
        let was_added = known.map_or(old.is_none(), |at| is_added(state.slots[at].id));
        let id = member_id((state.random)(), was_added);
        let unfilled = Label { member: id, epoch: 0, current: Vec::new(), history: Vec::new(), ..state.label.clone() };
        unfilled.write(&*new.disk, &new.root)?;
        if let Some(at) = known {
            state.slots[at].gone = true;
        }
        let counts = known.map_or_else(|| Arc::new(Counts::default()), |at| Arc::clone(&state.slots[at].counts));
        let (why, lock) = ("it is being filled".into(), Some(lock));
        state.slots.push(Slot {
            id,
            root: new.root,
            disk: new.disk,
            state: MemberState::Rebuilding,
            why,
            gone: false,
            counts,
            lock,
        });
        let filling = state.slots.iter().filter(|slot| slot.state == MemberState::Rebuilding).count();
        assert_eq!(filling, 1, "one member is filled at a time");
        let before = self.0.changed().replace(BTreeMap::new());
        assert!(before.is_none(), "one rebuild at a time");
        Ok(state.slots.len() - 1)
    }

    fn fill(&self, at: usize, old: Option<&Path>, before: &mut dyn FnMut(&Path), pace: Pace<'_>) -> Result<(), Error> {
        let (source, target) = self.ends(at);
        let (mut copied, mut all) = (Copied::default(), Vec::new());
        remove_below(&target, Path::new(""))?;
        walk(&source, Path::new(""), &mut all)?;
        let lengths = all.iter().filter(|(_, is_directory)| !is_directory).map(|(inner, _)| source.path(inner));
        copied.progress.total = lengths.filter_map(|path| source.disk.length(&path).ok()).sum();
        for (inner, is_directory) in all {
            if !is_directory {
                before(&self.0.root.join(&inner));
            }
            // Members may change between two files, so each is copied from who is live then.
            copied.follow(&self.ends(at).0, &target, &inner, 0, pace)?;
        }
        for _ in 0..ROUNDS_MAX {
            let changed = self.changed_since();
            let done = copied.progress.done;
            for (inner, from) in changed {
                copied.follow(&self.ends(at).0, &target, &inner, from, pace)?;
            }
            if copied.progress.done - done <= REST_BYTES_MAX {
                break;
            }
        }
        self.switch(&mut copied, at, old)
    }

    /// What changed since this was last asked. The higher in the tree first: what lies deeper may be another name of
    /// it.
    fn changed_since(&self) -> Vec<(PathBuf, u64)> {
        let changed = self.0.changed().replace(BTreeMap::new()).unwrap_or_default();
        let mut changed: Vec<(PathBuf, u64)> = changed.into_iter().collect();
        changed.sort_by_key(|(inner, _)| inner.components().count());
        assert!(changed.iter().all(|(inner, _)| inner.is_relative()), "paths below the root");
        changed
    }

    /// Where the copy at `at` comes from now, and where it goes.
    fn ends(&self, at: usize) -> (End, End) {
        let state = self.0.read();
        (state.source(), state.slots[at].end())
    }

    /// Copies the rest while nothing changes, and makes the member live.
    fn switch(&self, copied: &mut Copied, at: usize, old: Option<&Path>) -> Result<(), Error> {
        let mut state = self.0.write();
        let rest = self.changed_since();
        let directories: BTreeSet<PathBuf> =
            rest.iter().filter_map(|(inner, _)| inner.parent()).map(Path::to_owned).collect();
        for (inner, from) in rest {
            copied.follow(&state.source(), &state.slots[at].end(), &inner, from, &mut |_| Ok(()))?;
        }
        for directory in directories {
            let slot = &state.slots[at];
            slot.disk.sync_dir(&slot.path(&directory))?;
        }
        self.reopen(&state.slots[at], at, |_| true)?;
        let slot = &mut state.slots[at];
        assert_eq!(slot.state, MemberState::Rebuilding, "{} was being filled", slot.root.display());
        (slot.state, slot.why) = (MemberState::Live, String::new());
        (self.0.tell)(&format!("{} is filled and in use", slot.root.display()));
        if let Some(old) = old {
            for slot in state.slots[..at].iter_mut().filter(|slot| slot.root == old) {
                (slot.state, slot.gone, slot.why) = (MemberState::Out, true, "it was replaced".into());
                slot.lock = None;
            }
        }
        state.unsettled = true;
        state.settle(&*self.0.tell)
    }
}

impl State {
    fn source(&self) -> End {
        self.live().next().expect("a mirror has a live member").1.end()
    }
}
