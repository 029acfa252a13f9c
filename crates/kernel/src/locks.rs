//! Contended locks: how long threads wait within futex, for which lock, at which place in the program, and for which
//! thread.
//!
//! Invariants: every completed wait is in one histogram, that of its place or of `other`; a call that found the value
//! changed and did not wait is in none. A place is an address together with its call stack (by frame pointers), so one
//! lock may have several.
//! Limits: [`Options::places`] places, the rest is `other`; 4,096 pairs of threads; anything beyond that is counted.
//! How long a lock is held is known only for locks that somebody waited for: the kernel does not see a free lock being
//! taken.
//! Failure: stacks are symbolised while the process lives; afterwards they have no names.

use std::collections::HashMap;
use std::rc::Rc;

use libbpf_rs::{MapCore, MapFlags};
use ogive_hist::Histogram;

use crate::fields::{BINS_BYTES, Bins, Fields, histogram};
use crate::object::{failed, value};
use crate::run_time::RunTime;
use crate::snapshots::{Snapshot, Unwinder};
use crate::tasks::{LOCK_KINDS, Part, TaskOptions, TaskPrograms};
use crate::wait_kind::WaitKind;
use crate::{Error, Filter};

/// Waits and holds.
const KINDS: usize = LOCK_KINDS as usize;

/// What a place costs in the kernel: two histograms of 8 KiB.
pub const PLACE_BYTES: usize = KINDS * BINS_BYTES;

/// Most places that can be asked for: 64 MiB.
pub const PLACES_MAX: u32 = 4096;

/// What is observed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which tasks.
    pub filter: Filter,
    /// Places of their own, 1 to [`PLACES_MAX`].
    pub places: u32,
    /// The text of `/proc/PID/maps`, empty when the process has ended.
    pub maps: fn(u32) -> String,
}

/// Who waited for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The thread that waited.
    pub waiter: u32,
    /// Its name.
    pub waiter_comm: String,
    /// The thread that woke it: it had the lock.
    pub waker: u32,
    /// Its name.
    pub waker_comm: String,
    /// How often.
    pub count: u64,
    /// How long in all.
    pub waited_ns: u64,
}

/// Waits at one place since the last time.
#[derive(Clone, Debug)]
pub struct Lock {
    /// The process; `None` for all that found no place.
    pub process: Option<u32>,
    /// Where the lock is in the memory of the process.
    pub address: u64,
    /// What is waited for, by the names of the frames.
    pub kind: WaitKind,
    /// The place: functions, innermost first. Empty where no stack was sent.
    pub frames: Vec<String>,
    /// How long each waited, in seconds, until it had a CPU again.
    pub waits: Histogram,
    /// How long those that had waited held it, in seconds.
    pub holds: Histogram,
    /// Waits that ended since their time was over.
    pub timeouts: u64,
    /// Who waited for whom, longest first.
    pub pairs: Vec<Pair>,
}

/// What found no room since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Waits whose pair is not known.
    pub pairs: u64,
    /// Places whose stack is not known.
    pub stacks: u64,
}

/// Observes waits while it lives.
pub struct Locks {
    programs: Rc<TaskPrograms>,
    unwinder: Unwinder,
    /// By slot.
    frames: HashMap<u32, Vec<String>>,
    seen: HashMap<u32, SlotTotals>,
}

/// What was counted of a slot until the last time.
struct SlotTotals {
    bins: [Bins; KINDS],
    /// Nanoseconds waited and held, and timeouts.
    sums: [u64; 3],
}

impl std::fmt::Debug for Locks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Locks").field("places", &self.frames.len()).finish_non_exhaustive()
    }
}

impl Locks {
    /// Observes from now on; a wait that goes on already is not seen.
    ///
    /// # Errors
    /// When the kernel refuses the programs, or what is asked for cannot be.
    pub fn start(options: &Options) -> Result<Self, Error> {
        let of_tasks = TaskOptions {
            places: options.places.clamp(1, PLACES_MAX),
            ..TaskOptions::new(&options.filter, &[Part::Locks])
        };
        Self::from_programs(&TaskPrograms::load(&of_tasks)?, options)
    }

    /// With programs that other parts share, which were loaded for as many places.
    ///
    /// # Errors
    /// When the kernel does not attach them, or what is asked for cannot be.
    pub fn from_programs(programs: &Rc<TaskPrograms>, options: &Options) -> Result<Self, Error> {
        if !(1..=PLACES_MAX).contains(&options.places) {
            return Err(Error::Input(format!("{} places: from 1 to {PLACES_MAX} can be", options.places)));
        }
        programs.switch(Part::Locks, true)?;
        let unwinder = Unwinder::new(options.maps);
        Ok(Self { programs: programs.clone(), unwinder, frames: HashMap::new(), seen: HashMap::new() })
    }

    /// The programs, which others may share.
    #[must_use]
    pub fn programs(&self) -> &Rc<TaskPrograms> {
        &self.programs
    }

    /// What the programs cost, by name.
    #[must_use]
    pub fn run_times(&self) -> Vec<(String, RunTime)> {
        self.programs.run_times()
    }

    /// Unwinds and names the stacks that came since the last time, which can only be while their process lives.
    ///
    /// # Errors
    /// When the kernel's ring cannot be read.
    pub fn look_up(&mut self) -> Result<(), Error> {
        let snapshots = Snapshot::drain(self.programs.loaded())?;
        self.frames.extend(self.unwinder.names(snapshots));
        Ok(())
    }

    /// Every place since the last time, the longest waits first; pairs are those since the beginning. `lives` says
    /// whether a process is still there: the places of one that is not become free.
    ///
    /// # Errors
    /// When the kernel's maps cannot be read.
    pub fn drain(&mut self, lives: impl Fn(u32) -> bool) -> Result<Vec<Lock>, Error> {
        self.look_up()?;
        let mut pairs = self.pairs()?;
        let mut out = Vec::new();
        out.extend(self.drain_slot(0, None, Vec::new())?);
        for place in self.places()? {
            // Looked at before what it did is read: nothing of it comes after.
            let is_alive = lives(place.process);
            let of_slot = pairs.remove(&place.slot).unwrap_or_default();
            if !is_alive {
                self.release(&place, &of_slot)?;
            }
            out.extend(self.drain_slot(place.slot, Some(&place), of_slot)?);
            if !is_alive {
                self.frames.remove(&place.slot);
                self.programs.loaded().offer("free_places", place.slot)?;
            }
        }
        let waited = |lock: &Lock| lock.waits.sum.unwrap_or(0.0);
        out.sort_by(|a, b| waited(b).total_cmp(&waited(a)));
        Ok(out)
    }

    fn drain_slot(&mut self, slot: u32, place: Option<&Place>, mut pairs: Vec<Pair>) -> Result<Option<Lock>, Error> {
        let bytes = value(&self.programs.loaded().map("locks"), slot, "locks")?;
        let mut fields = Fields(&bytes);
        let sums: [u64; 3] = std::array::from_fn(|_| fields.u64());
        let seen =
            self.seen.entry(slot).or_insert_with(|| SlotTotals { bins: [Bins::new(), Bins::new()], sums: [0; 3] });
        let before = std::mem::replace(&mut seen.sums, sums);
        if sums == before {
            return Ok(None);
        }
        let map = self.programs.loaded().map("lock_histograms");
        let mut histograms = Vec::with_capacity(KINDS);
        for (kind, bins) in seen.bins.iter_mut().enumerate() {
            let bytes = value(&map, slot * LOCK_KINDS + kind as u32, "histograms of locks")?;
            histograms.push(histogram(bins.since_last(&bytes), sums[kind].wrapping_sub(before[kind])));
        }
        let [waits, holds] = histograms.try_into().expect("waits and holds");
        pairs.sort_by_key(|pair| (std::cmp::Reverse(pair.waited_ns), pair.waiter, pair.waker));
        let frames = self.frames.get(&slot).cloned().unwrap_or_default();
        let kind = WaitKind::from_frames(&frames);
        let (process, address) = (place.map(|place| place.process), place.map_or(0, |place| place.address));
        let timeouts = sums[2].wrapping_sub(before[2]);
        Ok(Some(Lock { process, address, kind, frames, waits, holds, timeouts, pairs }))
    }

    /// Forgets a place of a process that has ended.
    fn release(&self, place: &Place, pairs: &[Pair]) -> Result<(), Error> {
        self.programs.loaded().map("place_slots").delete(&place.key).map_err(failed("places"))?;
        let map = self.programs.loaded().map("pairs");
        for pair in pairs {
            let key = [place.slot, pair.waiter, pair.waker, 0].map(u32::to_ne_bytes).concat();
            map.delete(&key).map_err(failed("pairs"))?;
        }
        Ok(())
    }

    /// What found no room.
    ///
    /// # Errors
    /// When the kernel's maps cannot be read.
    pub fn lost(&self) -> Result<Losses, Error> {
        let count =
            |index| Ok(Fields(&value(&self.programs.loaded().map("lost_of_locks"), index, "what was lost")?).u64());
        Ok(Losses { pairs: count(0)?, stacks: count(1)? })
    }

    fn places(&self) -> Result<Vec<Place>, Error> {
        let map = self.programs.loaded().map("place_slots");
        let mut places = Vec::new();
        for key in map.keys() {
            if let Some(value) = map.lookup(&key, MapFlags::ANY).map_err(failed("places"))? {
                let mut fields = Fields(&key);
                let (address, process) = (fields.u64(), fields.u32());
                places.push(Place { slot: Fields(&value).u32(), process, address, key });
            }
        }
        Ok(places)
    }

    fn pairs(&self) -> Result<HashMap<u32, Vec<Pair>>, Error> {
        let map = self.programs.loaded().map("pairs");
        let mut pairs: HashMap<u32, Vec<Pair>> = HashMap::new();
        for key in map.keys() {
            let Some(value) = map.lookup(&key, MapFlags::ANY).map_err(failed("pairs"))? else { continue };
            let (mut key, mut sum) = (Fields(&key), Fields(&value));
            let (slot, waiter, waker) = (key.u32(), key.u32(), key.u32());
            let (count, waited_ns) = (sum.u64(), sum.u64());
            let (waiter_comm, waker_comm) = (sum.comm(), sum.comm());
            let pair = Pair { waiter, waiter_comm, waker, waker_comm, count, waited_ns };
            pairs.entry(slot).or_default().push(pair);
        }
        Ok(pairs)
    }
}

/// A place that has a slot.
struct Place {
    slot: u32,
    process: u32,
    address: u64,
    /// `struct place`.
    key: Vec<u8>,
}
