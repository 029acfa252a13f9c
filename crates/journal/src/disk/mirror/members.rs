//! The set of members, and how a change is applied to all of them: a member that fails is taken out.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use super::handles::Handles;
use super::label::Label;
use crate::Error;
use crate::disk::file::{DirectoryLock, Disk, Space};

/// How a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It has everything.
    Live,
    /// It failed, or was not there, or is stale: nothing is read from it or written to it.
    Out,
    /// It is being filled.
    Rebuilding,
}

/// A member's directory without its place in the mirror: files are copied with the mirror open for changes.
#[derive(Clone)]
pub(super) struct End {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) root: PathBuf,
}

impl End {
    pub(super) fn path(&self, inner: &Path) -> PathBuf {
        path_in(&self.root, inner)
    }

    /// How much room `inner` has, or the root while there is no such directory.
    pub(super) fn space(&self, inner: &Path) -> Result<Space, Error> {
        self.disk.space(&self.path(inner)).or_else(|_| self.disk.space(&self.root))
    }
}

/// `inner` in a directory, which an empty one names itself.
fn path_in(root: &Path, inner: &Path) -> PathBuf {
    if inner.as_os_str().is_empty() { root.to_owned() } else { root.join(inner) }
}

/// A member as the mirror holds it. It keeps its place as long as the mirror lives.
pub(super) struct Slot {
    pub(super) id: u64,
    pub(super) root: PathBuf,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) state: MemberState,
    pub(super) why: String,
    /// Replaced by another: reported to nobody.
    pub(super) gone: bool,
    pub(super) counts: Arc<Counts>,
    pub(super) lock: Option<DirectoryLock>,
}

#[derive(Default)]
pub(super) struct Counts {
    pub(super) failures: AtomicU64,
    pub(super) healed: AtomicU64,
    pub(super) healed_bytes: AtomicU64,
}

pub(super) struct State {
    pub(super) slots: Vec<Slot>,
    pub(super) label: Label,
    /// The label on the members does not yet say who went: nothing may be reported as done.
    pub(super) unsettled: bool,
    pub(super) random: Box<dyn FnMut() -> u64 + Send + Sync>,
}

pub(super) struct Shared {
    pub(super) root: PathBuf,
    /// Held for writing while a name comes, changes or goes, for reading while a file is opened. Taken before `state`.
    pub(super) names: RwLock<()>,
    pub(super) state: RwLock<State>,
    /// Files open for writing, which a member that joins must be given too.
    pub(super) writers: Mutex<Vec<Weak<Handles>>>,
    /// Files open for reading, by path: one that is removed is opened first on the members that joined since.
    pub(super) readers: Mutex<HashMap<PathBuf, Vec<Weak<Handles>>>>,
    /// While a member is rebuilt: the files that changed, and from which byte on.
    pub(super) changed: Mutex<Option<BTreeMap<PathBuf, u64>>>,
    pub(super) held: Mutex<bool>,
    /// Healed pieces since the last look at the members: those that were reported, and the others.
    pub(super) healed: Mutex<(u64, u64)>,
    pub(super) tell: Arc<dyn Fn(&str) + Send + Sync>,
}

/// 5 healed pieces are listed one by one between two looks at the members: a bad disk has thousands.
const HEALED_REPORTED_MAX: u64 = 5;

impl Shared {
    pub(super) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports a healed piece, or counts it when enough were reported.
    pub(super) fn tell_healed(&self, sentence: &str) {
        let mut healed = self.healed.lock().unwrap_or_else(PoisonError::into_inner);
        if healed.0 < HEALED_REPORTED_MAX {
            healed.0 += 1;
            (self.tell)(sentence);
        } else {
            healed.1 += 1;
        }
    }

    /// Reports how many pieces were healed beside those that were reported.
    pub(super) fn sum_healed(&self) {
        let (_, more) = std::mem::take(&mut *self.healed.lock().unwrap_or_else(PoisonError::into_inner));
        if more > 0 {
            (self.tell)(&format!("{more} more pieces of files were bad and are healed from another copy"));
        }
    }

    pub(super) fn names(&self) -> RwLockWriteGuard<'_, ()> {
        self.names.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn writers(&self) -> MutexGuard<'_, Vec<Weak<Handles>>> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn readers(&self) -> MutexGuard<'_, HashMap<PathBuf, Vec<Weak<Handles>>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn changed(&self) -> MutexGuard<'_, Option<BTreeMap<PathBuf, u64>>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part of `path` that every member has below its root.
    pub(super) fn inner<'a>(&self, path: &'a Path) -> &'a Path {
        let inner = path.strip_prefix(&self.root);
        inner.unwrap_or_else(|_| panic!("{} is not in the mirror of {}", path.display(), self.root.display()))
    }

    /// Notes that `path` changed from byte `from` on. Called after the change, before anybody may wait for it.
    pub(super) fn note(&self, path: &Path, from: u64) {
        if let Some(changed) = &mut *self.changed() {
            let held = changed.entry(self.inner(path).to_owned()).or_insert(from);
            *held = from.min(*held);
            assert!(*held <= from, "all from {from} on is copied again");
        }
    }

    /// Does `act` on every live member and takes those out that fail while others do not. `touched` are the files that
    /// change by it.
    pub(super) fn change<T>(
        &self,
        touched: &[&Path],
        act: impl Fn(usize, &Slot) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.settle()?;
        let results: Vec<(usize, Result<T, Error>)> = {
            let _names = (!touched.is_empty()).then(|| self.names());
            let state = self.read();
            let results = state.live().map(|(at, slot)| (at, act(at, slot))).collect();
            touched.iter().for_each(|path| self.note(path, 0));
            results
        };
        self.judge(results)
    }

    /// The value of a change, once everybody whom it failed on is out.
    pub(super) fn judge<T>(&self, results: Vec<(usize, Result<T, Error>)>) -> Result<T, Error> {
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for (at, result) in results {
            match result {
                Ok(value) => done.push((at, value)),
                Err(error) => failed.push((at, error)),
            }
        }
        if failed.is_empty() || done.is_empty() {
            self.count_failures(&failed);
            return match done.into_iter().next() {
                Some((_, value)) => Ok(value),
                None => Err(failed.into_iter().next().expect("a mirror has a live member").1),
            };
        }
        assert!(done.iter().all(|(at, _)| failed.iter().all(|(out, _)| at != out)), "a member did it or did not");
        self.take_out(failed, |state| done.iter().any(|(at, _)| state.slots[*at].state == MemberState::Live))?;
        Ok(done.into_iter().next().expect("it is not empty").1)
    }

    /// Counts what each member failed on. That a name is free, or taken, is an answer: a member that alone gives it
    /// is taken out for it, but its disk did not fail.
    pub(super) fn count_failures(&self, failed: &[(usize, Error)]) {
        let state = self.read();
        let answers = |error: &Error| matches!(error, Error::NotFound { .. } | Error::AlreadyExists { .. });
        for (at, _) in failed.iter().filter(|(_, error)| !answers(error)) {
            // ORDERING: Relaxed; a counter publishes nothing beside itself.
            state.slots[*at].counts.failures.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the membership of those that `failed`, durably. `others_did` says whether a live member did what they did
    /// not; if none did, nobody goes and their error is the answer.
    pub(super) fn take_out(
        &self,
        failed: Vec<(usize, Error)>,
        others_did: impl Fn(&State) -> bool,
    ) -> Result<(), Error> {
        assert!(!failed.is_empty(), "nobody goes without a failure");
        self.count_failures(&failed);
        let mut state = self.write();
        if !others_did(&state) {
            return Err(failed.into_iter().next().expect("somebody failed").1);
        }
        for (at, error) in failed {
            state.put_out(at, &error.to_string(), &*self.tell);
        }
        assert!(state.live().next().is_some(), "the last member is not taken out");
        state.settle(&*self.tell)
    }

    /// Makes the labels say who is live, if they do not yet.
    pub(super) fn settle(&self) -> Result<(), Error> {
        if self.read().unsettled { self.write().settle(&*self.tell) } else { Ok(()) }
    }

    /// What the first live member says that does not fail.
    pub(super) fn ask<T>(&self, act: impl Fn(&Slot) -> Result<T, Error>) -> Result<T, Error> {
        let state = self.read();
        let mut first = None;
        for (_, slot) in state.live() {
            match act(slot) {
                Ok(value) => return Ok(value),
                Err(error) => {
                    if !matches!(error, Error::NotFound { .. }) {
                        // ORDERING: Relaxed; a counter publishes nothing beside itself.
                        slot.counts.failures.fetch_add(1, Ordering::Relaxed);
                    }
                    first = first.or(Some(error));
                }
            }
        }
        Err(first.expect("a mirror has a live member"))
    }
}

impl Slot {
    pub(super) fn end(&self) -> End {
        End { disk: Arc::clone(&self.disk), root: self.root.clone() }
    }

    pub(super) fn path(&self, inner: &Path) -> PathBuf {
        path_in(&self.root, inner)
    }
}

impl State {
    pub(super) fn live(&self) -> impl Iterator<Item = (usize, &Slot)> {
        self.slots.iter().enumerate().filter(|(_, slot)| slot.state == MemberState::Live)
    }

    /// Ends a membership in memory; [`State::settle`] must follow.
    pub(super) fn put_out(&mut self, at: usize, why: &str, tell: &dyn Fn(&str)) {
        let slot = &mut self.slots[at];
        if slot.state == MemberState::Live {
            (slot.state, slot.why) = (MemberState::Out, why.to_owned());
            self.unsettled = true;
            tell(&format!("{} is out of the mirror: {why}", slot.root.display()));
        }
    }

    /// Writes the label of a new epoch to every live member. Who does not take it is out too, if somebody does.
    pub(super) fn settle(&mut self, tell: &dyn Fn(&str)) -> Result<(), Error> {
        while self.unsettled {
            let current = self.live().map(|(_, slot)| (slot.id, slot.root.clone())).collect();
            let label = self.label.next(current, (self.random)());
            assert!(!label.current.is_empty(), "epoch {} has a current member", label.epoch);
            let wrote = |(at, slot): (usize, &Slot)| (at, label.for_member(slot.id).write(&*slot.disk, &slot.root));
            let results: Vec<(usize, Result<(), Error>)> = self.live().map(wrote).collect();
            let (done, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(|(_, result)| result.is_ok());
            assert!(label.epoch > self.label.epoch, "epoch {} comes behind {}", label.epoch, self.label.epoch);
            // An epoch that a member may have seen is never used again.
            self.label = label;
            if done.is_empty() {
                return Err(failed
                    .into_iter()
                    .find_map(|(_, result)| result.err())
                    .expect("a mirror has a live member"));
            }
            self.unsettled = false;
            for (at, error) in failed.into_iter().filter_map(|(at, result)| result.err().map(|error| (at, error))) {
                self.put_out(at, &error.to_string(), tell);
            }
        }
        Ok(())
    }
}
