//! The programs that observe tasks: one at each event of the kernel, for all parts that are observed together.
//!
//! Each program at an event costs the kernel some 70 ns before its first instruction, a reading of the clock 50 ns and
//! a look-up of the task 20 ns. Parts that share their programs share these: [`TaskPrograms`] is handed to each of
//! them.
//! Invariants: a part is switched on and off by itself; while it is off nothing is counted for it, and a program that
//! no part needs is out of the kernel's way. What began before a part was switched on is not counted.
//! Failure: a kernel without the tracepoint or the events of page faults shows fewer microstates, see [`Faults`].

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use libbpf_rs::{MapCore as _, MapFlags};
use nix::time::{ClockId, clock_gettime};

use crate::filter::Config;
use crate::object::{Loaded, Plan, failed};
use crate::run_time::RunTime;
use crate::{Error, Filter, Grouping};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OGIVE_BPF_OBJECTS"), "/tasks.bpf.o"));

/// Histograms of a group of the scheduler, of a place of a lock, and of a copy of those of system calls: as in the
/// programs.
pub(crate) const GROUP_KINDS: u32 = 11;
pub(crate) const LOCK_KINDS: u32 = 2;
pub(crate) const CALLS: u32 = 512;

/// Copies of the histograms of system calls, 4 MiB each: with more CPUs than that, some share one.
const SHARDS_MAX: u32 = 4;

/// Threads whose microstates are observed at a time, 320 bytes each: 10 MiB. Further ones are counted as lost.
pub const THREADS_MAX: u32 = 32_768;

/// 1 MiB: the stacks of 120 herds or places between two drains; further ones have none.
const SNAPSHOTS_BYTES: u32 = 1 << 20;

/// The least that a ring may have, in which no stack finds room.
const PAGE_BYTES: u32 = 4096;

/// What is observed of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Run queues, slices and waits.
    Scheduler,
    /// Many wake-ups within one system call.
    Herds,
    /// Where the time of threads goes.
    Microstates,
    /// System calls.
    Calls,
    /// Waits for locks.
    Locks,
    /// Interrupts, soft interrupts and timers.
    Interrupts,
}

impl Part {
    /// Parts that a moment is kept for, in the order of `struct since`.
    const SINCE: [Self; 5] = [Self::Scheduler, Self::Herds, Self::Microstates, Self::Calls, Self::Locks];

    /// `enum part`.
    const fn bit(self) -> u32 {
        match self {
            Self::Scheduler => 1,
            Self::Herds => 2,
            Self::Microstates => 4,
            Self::Calls => 8,
            Self::Locks => 16,
            Self::Interrupts => 64,
        }
    }
}

/// `enum part`: stacks of herds.
const HERD_STACKS: u32 = 32;
/// What follows the children of a thread; for user space alone.
const COMMAND: u32 = 128;
/// What lets go of threads that end, while anything is loaded for microstates.
const ENDS: u32 = 256;

/// At the end of each page fault, attached to an event of each CPU.
const FAULT_END: &str = "on_fault_end";

/// Every program, with the parts that need it.
const PROGRAMS: &[(&str, u32)] = &[
    ("on_switch", Part::Scheduler.bit() | Part::Microstates.bit()),
    ("on_wakeup", Part::Scheduler.bit() | Part::Microstates.bit()),
    ("on_wakeup_new", Part::Scheduler.bit() | Part::Microstates.bit()),
    ("on_waking", Part::Herds.bit() | Part::Locks.bit()),
    ("on_call", Part::Herds.bit() | Part::Microstates.bit() | Part::Calls.bit() | Part::Locks.bit()),
    ("on_return", Part::Herds.bit() | Part::Microstates.bit() | Part::Calls.bit() | Part::Locks.bit()),
    ("on_fork", COMMAND),
    ("on_exec", Part::Scheduler.bit() | Part::Microstates.bit() | COMMAND),
    ("on_signal", Part::Microstates.bit()),
    ("on_fault", Part::Microstates.bit()),
    (FAULT_END, Part::Microstates.bit()),
    ("on_exit", ENDS),
    ("note_tasks", Part::Microstates.bit()),
    ("on_hard_entry", Part::Interrupts.bit()),
    ("on_hard_exit", Part::Interrupts.bit()),
    ("on_timer_entry", Part::Interrupts.bit()),
    ("on_timer_exit", Part::Interrupts.bit()),
    ("on_soft_entry", Part::Interrupts.bit()),
    ("on_soft_exit", Part::Interrupts.bit()),
    ("on_timer_expiry", Part::Interrupts.bit()),
];

/// A part that is off: as in the programs.
const OFF: u64 = u64::MAX;

/// What the kernel shows of page faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    /// Their beginning and end.
    Timed,
    /// Their beginning: sleep within them has its kind, their time on a CPU counts as user code.
    Begun,
    /// Neither: sleep within them counts as one for data, their time on a CPU as user code.
    Unseen,
}

/// For what programs are loaded.
#[derive(Clone, Debug)]
pub struct TaskOptions {
    /// Which tasks.
    pub filter: Filter,
    /// What counts as one group of the scheduler.
    pub grouping: Grouping,
    /// Which parts; each is off until it is handed the programs.
    pub parts: Vec<Part>,
    /// Groups of the scheduler with a place of their own.
    pub groups: u32,
    /// Wake-ups within one system call that are a herd.
    pub herd_min: u32,
    /// Whether stacks of herds are sent.
    pub has_herd_stacks: bool,
    /// Places of locks with a place of their own.
    pub places: u32,
    /// CPUs that are there now, for microstates.
    pub cpus: Vec<usize>,
}

impl TaskOptions {
    /// Of some parts, with nothing else set.
    #[must_use]
    pub fn new(filter: &Filter, parts: &[Part]) -> Self {
        Self {
            filter: filter.clone(),
            grouping: Grouping::Process,
            parts: parts.to_vec(),
            groups: 1,
            herd_min: u32::MAX,
            has_herd_stacks: false,
            places: 1,
            cpus: Vec::new(),
        }
    }

    fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    fn bits(&self) -> u32 {
        let parts = self.parts.iter().fold(0, |bits, part| bits | part.bit());
        let stacks = if self.has(Part::Herds) && self.has_herd_stacks { HERD_STACKS } else { 0 };
        let command = if matches!(self.filter, Filter::ChildrenOf(_)) { COMMAND } else { 0 };
        let ends = if self.has(Part::Microstates) { ENDS } else { 0 };
        parts | stacks | command | ends
    }

    /// Maps that need more than one entry.
    fn sizes(&self, shards: u32) -> Vec<(&'static str, u32)> {
        let mut sizes = Vec::new();
        // Slot 0 is that of all that found none.
        if self.has(Part::Scheduler) {
            let slots = self.groups + 1;
            sizes.extend([("group_slots", self.groups), ("free_groups", self.groups), ("groups", slots)]);
            sizes.extend([("names", slots), ("worsts", slots), ("group_histograms", slots * GROUP_KINDS)]);
        }
        if self.has(Part::Locks) {
            let slots = self.places + 1;
            sizes.extend([("place_slots", self.places), ("free_places", self.places), ("locks", slots)]);
            sizes.push(("lock_histograms", slots * LOCK_KINDS));
        }
        if self.has(Part::Calls) {
            sizes.push(("call_histograms", shards * CALLS));
        }
        if self.has(Part::Microstates) {
            sizes.extend([("threads", THREADS_MAX), ("free_threads", THREADS_MAX - 1)]);
        }
        let has_stacks = self.has(Part::Locks) || self.bits() & HERD_STACKS != 0;
        sizes.push(("snapshots", if has_stacks { SNAPSHOTS_BYTES } else { PAGE_BYTES }));
        sizes
    }
}

/// Programs in the kernel, for all parts of one observer. Dropped, they are out of it.
#[derive(Debug)]
pub struct TaskPrograms {
    loaded: Loaded,
    /// For which parts they were loaded, and which of them are on, as bits.
    bits: u32,
    on: Cell<u32>,
    faults: Faults,
    /// CPUs on which ends of page faults are asked for.
    cpus: RefCell<Vec<usize>>,
    shards: u32,
}

impl TaskPrograms {
    /// Loads them, with every part off.
    ///
    /// # Errors
    /// When the kernel refuses the programs, or the filter cannot be.
    pub fn load(options: &TaskOptions) -> Result<Rc<Self>, Error> {
        options.filter.check()?;
        if !options.has(Part::Microstates) {
            return Self::load_with(options, Faults::Unseen);
        }
        let load = |faults| {
            let programs = Self::load_with(options, faults)?;
            // Whether they can be attached shows here, and not where another part is already observed.
            programs.switch(Part::Microstates, true)?;
            programs.switch(Part::Microstates, false)?;
            Ok(programs)
        };
        let loaded = load(Faults::Timed).or_else(|_: Error| load(Faults::Begun));
        loaded.or_else(|_| load(Faults::Unseen))
    }

    fn load_with(options: &TaskOptions, faults: Faults) -> Result<Rc<Self>, Error> {
        let cpus = libbpf_rs::num_possible_cpus().map_or(1, |cpus| u32::try_from(cpus).unwrap_or(u32::MAX));
        let shards = cpus.clamp(1, SHARDS_MAX).next_power_of_two();
        let bits = options.bits();
        let (filter, grouping, herd_min) = (&options.filter, options.grouping, options.herd_min);
        let config = Config { filter, grouping, herd_min, shard_mask: shards - 1, parts: bits }.bytes();
        let is_seen = |name: &str| match faults {
            Faults::Timed => true,
            Faults::Begun => name != FAULT_END,
            Faults::Unseen => name != FAULT_END && name != "on_fault",
        };
        let unwanted = PROGRAMS.iter().filter(|(name, needed_by)| needed_by & bits == 0 || !is_seen(name));
        let without: Vec<&str> = unwanted.map(|(name, _)| *name).collect();
        let sees_ends = u32::from(faults == Faults::Timed).to_ne_bytes();
        let plan = Plan { object: OBJECT, config, without: &without, sizes: &options.sizes(shards) };
        let loaded = Loaded::load_with(&plan, &[(".ends", &sees_ends[..])], None)?;
        for (part, slots, last) in
            [(Part::Scheduler, "free_groups", options.groups), (Part::Locks, "free_places", options.places)]
        {
            for slot in (1..=last).filter(|_| options.has(part)) {
                loaded.offer(slots, slot)?;
            }
        }
        let cpus = RefCell::new(options.cpus.clone());
        Ok(Rc::new(Self { loaded, bits, on: Cell::new(0), faults, cpus, shards }))
    }

    /// Whether they were loaded for a part.
    #[must_use]
    pub fn has(&self, part: Part) -> bool {
        self.bits & part.bit() != 0
    }

    /// Whether a part is on.
    #[must_use]
    pub fn is_on(&self, part: Part) -> bool {
        self.on.get() & part.bit() != 0
    }

    /// Observes a part from now on, or no longer. A part for which they were not loaded stays off.
    ///
    /// # Errors
    /// When the kernel does not attach a program: the part is off then.
    pub fn switch(&self, part: Part, is_on: bool) -> Result<(), Error> {
        if !self.has(part) || self.is_on(part) == is_on {
            return Ok(());
        }
        let before = self.on.get();
        self.on.set(before ^ part.bit());
        let outcome = if is_on { self.note_since(part).and_then(|()| self.attach()) } else { self.note_since(part) };
        if outcome.is_err() {
            self.on.set(before & !part.bit());
            self.note_since(part)?;
        }
        self.detach();
        outcome
    }

    /// Notes that a part is on from now, or off.
    fn note_since(&self, part: Part) -> Result<(), Error> {
        let Some(at) = Part::SINCE.iter().position(|known| *known == part) else { return Ok(()) };
        let since = if self.is_on(part) { now_ns() } else { OFF };
        let map = self.loaded.map(".data.since");
        let mut all = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).map_err(failed("parts"))?.unwrap_or_default();
        assert_eq!(all.len(), Part::SINCE.len() * 8, "`struct since`");
        all[at * 8..][..8].copy_from_slice(&since.to_ne_bytes());
        map.update(&0_u32.to_ne_bytes(), &all, MapFlags::ANY).map_err(failed("parts"))
    }

    /// Programs that no part needs which is on. The end of threads is seen to as long as they have slots.
    fn idle(&self) -> Vec<&'static str> {
        let on = self.on.get() | (self.bits & (COMMAND | ENDS));
        PROGRAMS.iter().filter(|(_, needed_by)| needed_by & on == 0).map(|(name, _)| *name).collect()
    }

    fn attach(&self) -> Result<(), Error> {
        let mut without = self.idle();
        without.push(FAULT_END);
        self.loaded.attach(&without)?;
        if self.is_on(Part::Microstates) {
            let cpus = self.cpus.borrow();
            for cpu in cpus.iter().filter(|_| self.faults == Faults::Timed) {
                self.attach_fault_end(*cpu)?;
            }
        }
        Ok(())
    }

    fn detach(&self) {
        let idle = self.idle();
        self.loaded.detach(&idle);
        if idle.contains(&FAULT_END) {
            self.cpus.borrow().iter().for_each(|cpu| self.loaded.detach(&[fault_end_of(*cpu).as_str()]));
        }
    }

    fn attach_fault_end(&self, cpu: usize) -> Result<(), Error> {
        let key = fault_end_of(cpu);
        // Both its events, or none.
        self.loaded.detach(&[key.as_str()]);
        self.loaded.attach_fault_ends(&key, FAULT_END, cpu)
    }

    /// Sees ends of page faults on these CPUs: some may have come since the last time, and some gone.
    ///
    /// # Errors
    /// When the kernel refuses the events of a new one, once for each time that it comes.
    pub(crate) fn follow_cpus(&self, online: &[usize]) -> Result<(), Error> {
        if *self.cpus.borrow() == online {
            return Ok(());
        }
        let before = self.cpus.replace(online.to_vec());
        if self.faults != Faults::Timed || !self.is_on(Part::Microstates) {
            return Ok(());
        }
        // Events of a CPU that was away do not come back with it.
        before
            .iter()
            .filter(|cpu| !online.contains(cpu))
            .for_each(|cpu| self.loaded.detach(&[fault_end_of(*cpu).as_str()]));
        online.iter().filter(|cpu| !before.contains(cpu)).try_for_each(|cpu| self.attach_fault_end(*cpu))
    }

    /// What the kernel shows of page faults.
    #[must_use]
    pub fn faults(&self) -> Faults {
        self.faults
    }

    /// What the programs cost, by name.
    #[must_use]
    pub fn run_times(&self) -> Vec<(String, RunTime)> {
        self.loaded.run_times()
    }

    /// The parts that are on and need a program: its cost is theirs together.
    #[must_use]
    pub fn parts_of(&self, program: &str) -> Vec<Part> {
        let needed_by = PROGRAMS.iter().find(|(name, _)| *name == program).map_or(0, |(_, parts)| *parts);
        let all = Part::SINCE.into_iter().chain([Part::Interrupts]);
        all.filter(|part| part.bit() & needed_by & self.on.get() != 0).collect()
    }

    pub(crate) fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Copies of the histograms of system calls.
    pub(crate) fn shards(&self) -> u32 {
        self.shards
    }
}

/// What [`Loaded::detach`] knows the ends of page faults of a CPU by.
fn fault_end_of(cpu: usize) -> String {
    format!("{FAULT_END} {cpu}")
}

/// The clock of programs.
pub(crate) fn now_ns() -> u64 {
    // Linux has this clock since 2.6, and refuses it to nobody.
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(std::time::Duration::from).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_has_its_programs_and_a_bit_of_its_own() {
        let mut bits = HERD_STACKS | COMMAND | ENDS;
        for part in Part::SINCE.into_iter().chain([Part::Interrupts]) {
            assert_eq!(bits & part.bit(), 0, "{part:?}");
            bits |= part.bit();
            assert!(PROGRAMS.iter().any(|(_, needed_by)| needed_by & part.bit() != 0), "{part:?}");
        }
    }
}
