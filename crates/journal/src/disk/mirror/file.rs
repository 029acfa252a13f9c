//! A file of a mirror: one open file on each live member.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use super::handles::Handles;
use super::members::{MemberState, Shared, Slot, State};
use crate::Error;
use crate::disk::file::DiskFile;

/// How a change went on each live member, by its place.
type Results = Vec<(usize, Result<(), Error>)>;

pub(super) struct MirrorFile {
    shared: Arc<Shared>,
    path: PathBuf,
    handles: Arc<Handles>,
    /// Bytes that every live member has.
    length: u64,
}

impl MirrorFile {
    pub(super) fn new(shared: Arc<Shared>, path: PathBuf, handles: Arc<Handles>, length: u64) -> Self {
        Self { shared, path, handles, length }
    }

    /// Does `act` with the open file of a member, which is opened if it is only for reading.
    fn with<T>(&self, at: usize, slot: &Slot, act: impl Fn(&dyn DiskFile) -> Result<T, Error>) -> Result<T, Error> {
        if slot.state != MemberState::Live {
            return Err(self.no_copy(at));
        }
        if let Some(Some(handle)) = self.handles.read().get(at) {
            return act(&**handle);
        }
        if self.handles.writable {
            return Err(self.no_copy(at));
        }
        let handle = slot.disk.open_read(&slot.path(self.shared.inner(&self.path)))?;
        let done = act(&*handle);
        self.handles.join(at, handle);
        done
    }

    fn no_copy(&self, copy: usize) -> Error {
        Error::NoCopy { path: self.path.clone(), copy }
    }

    fn of_copy<T>(&self, copy: usize, act: impl Fn(&dyn DiskFile) -> Result<T, Error>) -> Result<T, Error> {
        let state = self.shared.read();
        let slot = state.slots.get(copy).ok_or_else(|| self.no_copy(copy))?;
        self.with(copy, slot, act)
    }

    /// What the first live member says that does not fail.
    fn first<T>(&self, act: impl Fn(&dyn DiskFile) -> Result<T, Error>) -> Result<T, Error> {
        let state = self.shared.read();
        let mut first = None;
        for (at, slot) in state.live() {
            match self.with(at, slot, &act) {
                Ok(value) => return Ok(value),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| self.no_copy(0)))
    }

    /// Does `act` on the open file of each live member; notes a change from byte `from` on.
    fn change(
        &self,
        from: Option<u64>,
        act: impl Fn(&mut dyn DiskFile) -> Result<(), Error>,
    ) -> Result<Results, Error> {
        self.shared.settle()?;
        let state = self.shared.read();
        let mut open = self.handles.write();
        let results = state.live().map(|(at, _)| {
            let done = match open.get_mut(at) {
                Some(Some(handle)) => act(&mut **handle),
                _ => Err(self.no_copy(at)),
            };
            (at, done)
        });
        let results = results.collect();
        if let Some(from) = from {
            self.shared.note(&self.handles.path(), from);
        }
        Ok(results)
    }
}

impl DiskFile for MirrorFile {
    fn path(&self) -> &Path {
        &self.path
    }

    /// All of `bytes` on every live member, or nothing: a part of them is cut off again.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let length = self.length;
        // Those whose part could not be cut off again.
        let torn = Mutex::new(Vec::new());
        let results = self.change(Some(length), |handle| {
            handle.write_all(bytes).inspect_err(|_| {
                if let Err(error) = handle.truncate(length) {
                    torn.lock().unwrap_or_else(PoisonError::into_inner).push((handle.path().to_owned(), error));
                }
            })
        })?;
        let torn = torn.into_inner().unwrap_or_else(PoisonError::into_inner);
        assert!(torn.len() <= results.len(), "each member was written to once");
        let all_failed = results.iter().all(|(_, result)| result.is_err());
        if all_failed && !torn.is_empty() && torn.len() < results.len() {
            let places = results.iter().map(|(at, _)| *at);
            let is_torn = |at: &usize| {
                let open = self.handles.read();
                open[*at].as_ref().is_some_and(|handle| torn.iter().any(|(path, _)| path == handle.path()))
            };
            let (out, whole): (Vec<usize>, Vec<usize>) = places.partition(is_torn);
            let failed = out.into_iter().map(|at| (at, self.no_copy(at))).collect();
            let others = |state: &State| whole.iter().any(|at| state.slots[*at].state == MemberState::Live);
            self.shared.take_out(failed, others)?;
        }
        self.shared.judge(results)?;
        self.length += bytes.len() as u64;
        Ok(bytes.len())
    }

    /// On all members at once: an fsync is waiting, and they wait side by side.
    fn sync(&mut self) -> Result<(), Error> {
        self.shared.settle()?;
        let results = {
            let state = self.shared.read();
            let live: Vec<usize> = state.live().map(|(at, _)| at).collect();
            let mut open = self.handles.write();
            let mut handles: Vec<(usize, &mut Box<dyn DiskFile>)> = open
                .iter_mut()
                .enumerate()
                .filter_map(|(at, handle)| handle.as_mut().map(|handle| (at, handle)))
                .filter(|(at, _)| live.contains(at))
                .collect();
            let mut results: Results = match &mut handles[..] {
                [(at, one)] => vec![(*at, one.sync())],
                several => std::thread::scope(|scope| {
                    let started: Vec<_> =
                        several.iter_mut().map(|(at, handle)| (*at, scope.spawn(|| handle.sync()))).collect();
                    started.into_iter().map(|(at, thread)| (at, thread.join().expect("fsync does not panic"))).collect()
                }),
            };
            let lacking = live.iter().filter(|at| results.iter().all(|(there, _)| there != *at));
            let lacking: Vec<_> = lacking.map(|at| (*at, Err(self.no_copy(*at)))).collect();
            results.extend(lacking);
            assert_eq!(results.len(), live.len(), "each live member is synced or fails");
            results
        };
        self.shared.judge(results)
    }

    fn truncate(&mut self, length: u64) -> Result<(), Error> {
        let results = self.change(Some(length), |handle| handle.truncate(length))?;
        self.shared.judge(results)?;
        assert!(length <= self.length, "{} is cut from {} to {length}", self.path.display(), self.length);
        self.length = length;
        Ok(())
    }

    fn length(&self) -> Result<u64, Error> {
        self.first(|handle| handle.length())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        let buffer = Mutex::new(buffer);
        self.first(|handle| handle.read_at(offset, &mut buffer.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn copies(&self) -> usize {
        self.shared.read().slots.len()
    }

    fn copy_path(&self, copy: usize) -> PathBuf {
        let state = self.shared.read();
        let slot = state.slots.get(copy);
        slot.map_or_else(|| self.path.clone(), |slot| slot.path(self.shared.inner(&self.path)))
    }

    fn copy_length(&self, copy: usize) -> Result<u64, Error> {
        self.of_copy(copy, |handle| handle.length())
    }

    fn read_copy_at(&self, copy: usize, offset: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        let buffer = Mutex::new(buffer);
        self.of_copy(copy, |handle| handle.read_at(offset, &mut buffer.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn heal(&self, copy: usize, place: Range<u64>, bytes: &[u8]) -> Result<(), Error> {
        assert_eq!(bytes.len() as u64, place.end - place.start, "{place:?} is overwritten whole");
        self.of_copy(copy, |handle| handle.heal(0, place.clone(), bytes))?;
        let state = self.shared.read();
        let slot = &state.slots[copy];
        // ORDERING: Relaxed; counters publish nothing beside themselves.
        slot.counts.healed.fetch_add(1, Ordering::Relaxed);
        slot.counts.healed_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let path = slot.path(self.shared.inner(&self.path));
        self.shared.tell_healed(&format!(
            "{}: bytes {}..{} were bad and are healed from another copy",
            path.display(),
            place.start,
            place.end
        ));
        Ok(())
    }
}
