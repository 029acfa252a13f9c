//! An in-memory disk whose faults follow from a seed, for tests that cannot wait for a real disk to fail.
//!
//! Invariants: with one thread, one seed and one order of calls give one outcome. What `sync` and `sync_dir` made
//! durable survives every power cut; only [`SimulatedDisk::flip_bit`] and [`SimulatedDisk::put`] alter it. Directories
//! are durable once created.
//! Limits: [`SimulatedDisk::set_capacity`], over all files.
//! Failure: those of [`Faults`], power cuts ([`SimulatedDisk::cut_power_after`]), and process deaths.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::medium::{Loss, Medium};
use super::{DirectoryLock, Disk, DiskFile, Space};
use crate::Error;

/// How often, in a thousand calls, an operation goes wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A write fails and writes nothing.
    pub write_error: u32,
    /// A write takes only a part of its bytes.
    pub short_write: u32,
    /// A file's fsync fails and loses some of what it should have saved.
    pub sync_error: u32,
    /// Creating, renaming or removing a file fails, or a directory's fsync.
    pub name_error: u32,
    /// A cut fails.
    pub truncate_error: u32,
}

/// A whole disk in memory. Clones share it.
#[derive(Clone)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
    /// The incarnation of the process that uses this clone; `None` for whoever looks from outside.
    process: Option<u64>,
}

enum NameChange {
    Link { path: PathBuf, file: u64 },
    Unlink { path: PathBuf },
    Rename { from: PathBuf, to: PathBuf, file: u64 },
}

struct State {
    random: fastrand::Rng,
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    pending: Vec<NameChange>,
    directories: BTreeSet<PathBuf>,
    files: BTreeMap<u64, Medium>,
    file_next: u64,
    faults: Faults,
    capacity: Option<u64>,
    /// Handles and locks of an earlier incarnation of the process are dead.
    incarnation: u64,
    powered: bool,
    changes: u64,
    cut_at: Option<u64>,
    locks: BTreeSet<PathBuf>,
    /// What somebody removes, and after how many more openings for reading.
    vanishing: Option<(PathBuf, u32)>,
}

/// What a changing operation is to do.
enum Turn {
    Go,
    /// Do it, then the power is gone and the caller gets an error.
    Last,
}

impl SimulatedDisk {
    /// An empty disk.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let state = State {
            random: fastrand::Rng::with_seed(seed),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending: Vec::new(),
            directories: BTreeSet::new(),
            files: BTreeMap::new(),
            file_next: 0,
            faults: Faults::default(),
            capacity: None,
            incarnation: 0,
            powered: true,
            changes: 0,
            cut_at: None,
            locks: BTreeSet::new(),
            vanishing: None,
        };
        Self { state: Arc::new(Mutex::new(state)), process: None }
    }

    /// The disk as the process that runs now has it: once that is over, everything that it tries fails.
    #[must_use]
    pub fn process(&self) -> Self {
        Self { state: Arc::clone(&self.state), process: Some(self.state().incarnation) }
    }

    /// A panic of another test thread must not hide behind a poisoned lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, for an operation of a process: power is on and the process still runs.
    fn enter(&self, operation: &'static str, path: &Path) -> Result<MutexGuard<'_, State>, Error> {
        let state = self.state();
        state.powered(operation, path)?;
        if self.process.is_some_and(|process| process != state.incarnation) {
            return Err(failure(operation, path, "the process has ended"));
        }
        Ok(state)
    }

    /// Sets how often what goes wrong.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Sets the bytes that all files may hold together; `None` for no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Bytes in all files.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.state().used()
    }

    /// Number of changing operations (writes, cuts, fsyncs, changes of names) so far.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Cuts the power in the middle of the `count`th changing operation from now, counted from one.
    pub fn cut_power_after(&self, count: u64) {
        assert!(count > 0, "the operation before the next one is over");
        let mut state = self.state();
        state.cut_at = Some(state.changes + count);
    }

    /// Cuts the power now: what was not durable is lost in parts, and everything fails until
    /// [`SimulatedDisk::restart`].
    pub fn cut_power(&self) {
        self.state().cut_power();
    }

    /// Whether the power is on.
    #[must_use]
    pub fn is_powered(&self) -> bool {
        self.state().powered
    }

    /// Power is on again and a new process begins: old handles and locks are dead, faults are off.
    pub fn restart(&self) {
        let mut state = self.state();
        state.powered = true;
        state.cut_at = None;
        state.faults = Faults::default();
        state.incarnation += 1;
        state.locks.clear();
    }

    /// Ends the process as `kill -9` does: handles and locks die, nothing written is lost.
    pub fn kill_process(&self) {
        self.restart();
    }

    /// Flips bit `bit` of a file.
    ///
    /// # Panics
    /// When there is no such file.
    pub fn flip_bit(&self, path: &Path, bit: usize) {
        let mut state = self.state();
        let file = state.names[path];
        state.files.get_mut(&file).expect("names have files").flip(bit);
    }

    /// Puts a durable file at `path`, replacing what is there.
    pub fn put(&self, path: &Path, bytes: Vec<u8>) {
        let mut state = self.state();
        let file = state.new_file(Medium::durable(bytes));
        state.names.insert(path.to_owned(), file);
        state.durable_names.insert(path.to_owned(), file);
        state.directories.extend(path.ancestors().skip(1).map(Path::to_owned));
    }

    /// Removes the name `path` right after it was opened for reading `openings` more times, as another process may.
    pub fn vanish_after(&self, path: &Path, openings: u32) {
        self.state().vanishing = Some((path.to_owned(), openings));
    }

    fn change<T>(
        &self,
        operation: &'static str,
        path: &Path,
        act: impl FnOnce(&mut State) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut state = self.enter(operation, path)?;
        let turn = state.turn();
        let done = act(&mut state);
        match turn {
            Turn::Go => done,
            Turn::Last => {
                state.cut_power();
                Err(power_is_off(operation, path))
            }
        }
    }

    fn handle(&self, path: &Path, state: &State, writable: bool) -> Result<Box<dyn DiskFile>, Error> {
        let file = *state.names.get(path).ok_or_else(|| Error::NotFound { path: path.to_owned() })?;
        assert!(state.files.contains_key(&file), "the name {} has a file", path.display());
        let (disk, path) = (self.clone(), path.to_owned());
        Ok(Box::new(SimulatedFile { disk, path, file, incarnation: state.incarnation, writable }))
    }
}

fn power_is_off(operation: &'static str, path: &Path) -> Error {
    failure(operation, path, "the power is off")
}

fn failure(operation: &'static str, path: &Path, what: &str) -> Error {
    Error::Io { operation, path: path.to_owned(), source: std::io::Error::other(what) }
}

impl State {
    fn used(&self) -> u64 {
        self.names.values().map(|file| self.files[file].live.len() as u64).sum()
    }

    fn new_file(&mut self, medium: Medium) -> u64 {
        self.file_next += 1;
        let before = self.files.insert(self.file_next, medium);
        assert!(before.is_none(), "a file's number is its own");
        self.file_next
    }

    fn powered(&self, operation: &'static str, path: &Path) -> Result<(), Error> {
        if self.powered { Ok(()) } else { Err(power_is_off(operation, path)) }
    }

    fn turn(&mut self) -> Turn {
        self.changes += 1;
        if self.cut_at == Some(self.changes) { Turn::Last } else { Turn::Go }
    }

    fn opened(&mut self, path: &Path) {
        if let Some((_, left)) = self.vanishing.as_mut().filter(|(vanishing, _)| vanishing == path) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.names.remove(path);
            }
        }
    }

    fn name_fault(&mut self, operation: &'static str, path: &Path) -> Result<(), Error> {
        if self.random.u32(..1000) < self.faults.name_error {
            return Err(failure(operation, path, "simulated error"));
        }
        Ok(())
    }

    fn cut_power(&mut self) {
        self.powered = false;
        let loss = Loss::any(&mut self.random);
        let pending = std::mem::take(&mut self.pending);
        let in_order = self.random.usize(..=pending.len());
        for (at, change) in pending.into_iter().enumerate() {
            let survives = match loss {
                Loss::Everything => false,
                Loss::Nothing => true,
                Loss::Tail => at < in_order,
                Loss::Scattered => self.random.u32(..1000) < 600,
            };
            if survives {
                change.apply(&mut self.durable_names);
            }
        }
        self.names.clone_from(&self.durable_names);
        let named: BTreeSet<u64> = self.names.values().copied().collect();
        self.files.retain(|file, _| named.contains(file));
        assert_eq!(self.files.len(), named.len(), "every durable name has a file");
        for medium in self.files.values_mut() {
            medium.power_cut(loss, &mut self.random);
        }
    }
}

impl NameChange {
    fn directory(&self) -> Option<&Path> {
        match self {
            Self::Link { path, .. } | Self::Unlink { path } => path.parent(),
            Self::Rename { to, .. } => to.parent(),
        }
    }

    fn apply(self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Self::Link { path, file } => {
                names.insert(path, file);
            }
            Self::Unlink { path } => {
                names.remove(&path);
            }
            Self::Rename { from, to, file } => {
                if names.get(&from) == Some(&file) {
                    names.remove(&from);
                }
                names.insert(to, file);
            }
        }
    }
}

impl Disk for SimulatedDisk {
    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>, Error> {
        self.change("create", path, |state| {
            state.name_fault("create", path)?;
            if !path.parent().is_some_and(|directory| state.directories.contains(directory)) {
                return Err(Error::NotFound { path: path.to_owned() });
            }
            if state.names.contains_key(path) {
                return Err(Error::AlreadyExists { path: path.to_owned() });
            }
            let file = state.new_file(Medium::default());
            state.names.insert(path.to_owned(), file);
            state.pending.push(NameChange::Link { path: path.to_owned(), file });
            self.handle(path, state, true)
        })
    }

    fn open(&self, path: &Path) -> Result<Box<dyn DiskFile>, Error> {
        let state = self.enter("open", path)?;
        self.handle(path, &state, true)
    }

    fn open_read(&self, path: &Path) -> Result<Box<dyn DiskFile>, Error> {
        let mut state = self.enter("open", path)?;
        let handle = self.handle(path, &state, false);
        state.opened(path);
        handle
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        self.change("rename", from, |state| {
            state.name_fault("rename", from)?;
            let file = state.names.remove(from).ok_or_else(|| Error::NotFound { path: from.to_owned() })?;
            state.names.insert(to.to_owned(), file);
            state.pending.push(NameChange::Rename { from: from.to_owned(), to: to.to_owned(), file });
            Ok(())
        })
    }

    fn link(&self, from: &Path, to: &Path) -> Result<(), Error> {
        self.change("link", from, |state| {
            state.name_fault("link", from)?;
            let file = *state.names.get(from).ok_or_else(|| Error::NotFound { path: from.to_owned() })?;
            if state.names.contains_key(to) {
                return Err(Error::AlreadyExists { path: to.to_owned() });
            }
            state.names.insert(to.to_owned(), file);
            state.pending.push(NameChange::Link { path: to.to_owned(), file });
            Ok(())
        })
    }

    fn same_file(&self, one: &Path, other: &Path) -> Result<bool, Error> {
        let state = self.enter("measure", one)?;
        let file =
            |path: &Path| state.names.get(path).copied().ok_or_else(|| Error::NotFound { path: path.to_owned() });
        Ok(file(one)? == file(other)?)
    }

    fn remove_dir(&self, directory: &Path) -> Result<(), Error> {
        self.change("remove", directory, |state| {
            let holds = |path: &&PathBuf| path.parent() == Some(directory);
            if state.names.keys().chain(&state.directories).any(|path| holds(&path)) {
                return Err(failure("remove", directory, "it is not empty"));
            }
            match state.directories.remove(directory) {
                true => Ok(()),
                false => Err(Error::NotFound { path: directory.to_owned() }),
            }
        })
    }

    fn is_directory(&self, path: &Path) -> Result<bool, Error> {
        let state = self.enter("measure", path)?;
        Ok(state.directories.contains(path))
    }

    fn remove(&self, path: &Path) -> Result<(), Error> {
        self.change("remove", path, |state| {
            state.name_fault("remove", path)?;
            state.names.remove(path).ok_or_else(|| Error::NotFound { path: path.to_owned() })?;
            state.pending.push(NameChange::Unlink { path: path.to_owned() });
            Ok(())
        })
    }

    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>, Error> {
        let state = self.enter("list", directory)?;
        if !state.directories.contains(directory) {
            return Err(Error::NotFound { path: directory.to_owned() });
        }
        let all: BTreeSet<&PathBuf> = state.names.keys().chain(&state.directories).collect();
        Ok(all.into_iter().filter(|path| path.parent() == Some(directory)).cloned().collect())
    }

    fn create_dir_all(&self, directory: &Path) -> Result<(), Error> {
        self.change("create the directory", directory, |state| {
            state.directories.extend(directory.ancestors().map(Path::to_owned));
            Ok(())
        })
    }

    fn sync_dir(&self, directory: &Path) -> Result<(), Error> {
        self.change("fsync", directory, |state| {
            state.name_fault("fsync", directory)?;
            // In a cut's middle it may not happen.
            if state.cut_at == Some(state.changes) && state.random.u32(..1000) < 500 {
                return Ok(());
            }
            let pending = std::mem::take(&mut state.pending);
            for change in pending {
                if change.directory() == Some(directory) {
                    change.apply(&mut state.durable_names);
                } else {
                    state.pending.push(change);
                }
            }
            Ok(())
        })
    }

    fn space(&self, directory: &Path) -> Result<Space, Error> {
        let state = self.enter("ask for the free space of", directory)?;
        let size_bytes = state.capacity.unwrap_or(u64::MAX);
        let free_bytes = state.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(state.used()));
        Ok(Space { free_bytes, size_bytes, free_files: u64::MAX })
    }

    fn lock(&self, directory: &Path) -> Result<DirectoryLock, Error> {
        let mut state = self.enter("lock", directory)?;
        if !state.locks.insert(directory.to_owned()) {
            return Err(Error::Locked { path: directory.to_owned() });
        }
        let incarnation = state.incarnation;
        Ok(DirectoryLock::new(SimulatedLock { disk: self.clone(), directory: directory.to_owned(), incarnation }))
    }
}

struct SimulatedLock {
    disk: SimulatedDisk,
    directory: PathBuf,
    incarnation: u64,
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.incarnation == self.incarnation {
            let was_held = state.locks.remove(&self.directory);
            debug_assert!(was_held, "{} had one holder", self.directory.display());
        }
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    path: PathBuf,
    file: u64,
    incarnation: u64,
    writable: bool,
}

impl SimulatedFile {
    fn change<T>(&self, operation: &'static str, act: impl FnOnce(&mut State) -> Result<T, Error>) -> Result<T, Error> {
        self.disk.change(operation, &self.path, |state| {
            self.alive(state, operation)?;
            if !self.writable {
                return Err(failure(operation, &self.path, "opened for reading only"));
            }
            act(state)
        })
    }

    fn alive(&self, state: &State, operation: &'static str) -> Result<(), Error> {
        if self.incarnation == state.incarnation {
            return Ok(());
        }
        Err(failure(operation, &self.path, "the process that opened it has ended"))
    }

    fn read<T>(&self, operation: &'static str, act: impl FnOnce(&Medium) -> T) -> Result<T, Error> {
        let state = self.disk.state();
        state.powered(operation, &self.path)?;
        self.alive(&state, operation)?;
        Ok(act(&state.files[&self.file]))
    }
}

impl DiskFile for SimulatedFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        self.change("write", |state| {
            let faults = state.faults;
            if state.random.u32(..1000) < faults.write_error {
                return Err(failure("write", &self.path, "simulated error"));
            }
            let mut take = bytes.len();
            let short = state.random.u32(..1000) < faults.short_write || state.cut_at == Some(state.changes);
            if short && take > 1 {
                take = 1 + state.random.usize(..take);
            }
            if let Some(capacity) = state.capacity {
                take = take.min(capacity.saturating_sub(state.used()) as usize);
            }
            let medium = state.files.get_mut(&self.file).expect("an open file is there");
            if take == 0 && !bytes.is_empty() {
                return Err(Error::Full { path: self.path.clone(), offset: medium.live.len() as u64 });
            }
            assert!(take <= bytes.len() && (take > 0 || bytes.is_empty()), "a write takes something");
            medium.append(&bytes[..take]);
            Ok(take)
        })
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.change("fsync", |state| {
            let faults = state.faults;
            let medium = state.files.get_mut(&self.file).expect("an open file is there");
            if state.random.u32(..1000) < faults.sync_error {
                medium.sync_failed(&mut state.random);
                return Err(failure("fsync", &self.path, "simulated error"));
            }
            // In a cut's middle it may not happen.
            if state.cut_at != Some(state.changes) || state.random.u32(..1000) < 500 {
                medium.sync();
            }
            Ok(())
        })
    }

    fn truncate(&mut self, length: u64) -> Result<(), Error> {
        self.change("cut", |state| {
            let faults = state.faults;
            if state.random.u32(..1000) < faults.truncate_error {
                return Err(failure("cut", &self.path, "simulated error"));
            }
            let medium = state.files.get_mut(&self.file).expect("an open file is there");
            assert!(length <= medium.live.len() as u64, "{} is cut to {length}", self.path.display());
            medium.cut(length as usize);
            Ok(())
        })
    }

    fn length(&self) -> Result<u64, Error> {
        self.read("measure", |medium| medium.live.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        self.read("read", |medium| {
            let from = medium.live.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
            let read = buffer.len().min(medium.live.len() - from);
            buffer[..read].copy_from_slice(&medium.live[from..from + read]);
            read
        })
    }

    /// Durable at once.
    fn heal(&self, _copy: usize, place: Range<u64>, bytes: &[u8]) -> Result<(), Error> {
        self.disk.change("heal", &self.path, |state| {
            self.alive(state, "heal")?;
            let medium = state.files.get_mut(&self.file).expect("an open file is there");
            assert_eq!(bytes.len() as u64, place.end - place.start, "{place:?} is overwritten whole");
            medium.overwrite(place.start as usize, bytes);
            Ok(())
        })
    }
}
