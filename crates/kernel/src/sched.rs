//! The scheduler as histograms, by process, thread or cgroup; interrupts; thundering herds.
//!
//! Threads: one owner, which drains. Limits: [`Options::groups`] groups at a time, the rest counts in group `other`; a
//! group that has ended frees its place at the next drain. Each costs [`GROUP_BYTES`] in the kernel. Herds that do not
//! fit between two drains are counted as lost.

use std::rc::Rc;

use libbpf_rs::{MapCore, MapFlags};
use ogive_hist::Histogram;

use crate::fields::{BINS_BYTES, Bins, Fields, histogram};
use crate::object::{failed, value, values_of_cpus};
use crate::run_time::RunTime;
use crate::snapshots::{Snapshot, Unwinder};
use crate::tasks::{GROUP_KINDS, Part, TaskOptions, TaskPrograms};
use crate::{CAUSES, Error, Filter, Grouping};

/// Histograms of a group: waits for a CPU after preemption and after a wait, slices, waits by cause.
const KINDS: usize = 3 + CAUSES.len();

const _: () = assert!(KINDS == GROUP_KINDS as usize);

/// What a group costs in the kernel: 11 histograms of 8 KiB.
pub const GROUP_BYTES: usize = KINDS * BINS_BYTES;

/// Most groups that can be asked for: 88 MiB.
pub const GROUPS_MAX: u32 = 1024;

/// Names of interrupts, in the order of `enum interrupt`: the kernel's soft interrupts by their numbers, and three of
/// ours.
pub const INTERRUPTS: [&str; 13] = [
    "hi",
    "timer",
    "net_tx",
    "net_rx",
    "block",
    "irq_poll",
    "tasklet",
    "sched",
    "hrtimer",
    "rcu",
    "hard",
    "local_timer",
    "lateness",
];

/// What is observed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which tasks.
    pub filter: Filter,
    /// What counts as one group.
    pub grouping: Grouping,
    /// Groups of their own, 1 to [`GROUPS_MAX`].
    pub groups: u32,
    /// Wake-ups within one system call that are a herd; 0 does not look for herds, which spares two programs a system
    /// call.
    pub herd_min: u32,
    /// Whether interrupts, soft interrupts and the lateness of timers are measured.
    pub interrupts: bool,
    /// The text of `/proc/PID/maps`, empty when the process has ended: with it, herds have the stacks of who woke them.
    pub maps: Option<fn(u32) -> String>,
}

impl Options {
    /// The programs that this needs, to which other parts may be added.
    #[must_use]
    pub fn of_tasks(&self) -> TaskOptions {
        let parts = [Part::Scheduler, Part::Herds, Part::Interrupts];
        let parts: Vec<Part> = parts.into_iter().filter(|part| self.has(*part)).collect();
        TaskOptions {
            grouping: self.grouping,
            groups: self.groups.clamp(1, GROUPS_MAX),
            herd_min: if self.herd_min == 0 { u32::MAX } else { self.herd_min },
            has_herd_stacks: self.maps.is_some(),
            ..TaskOptions::new(&self.filter, &parts)
        }
    }

    fn has(&self, part: Part) -> bool {
        match part {
            Part::Herds => self.herd_min > 0,
            Part::Interrupts => self.interrupts,
            _ => part == Part::Scheduler,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            filter: Filter::Everything,
            grouping: Grouping::Process,
            groups: 64,
            herd_min: 0,
            interrupts: true,
            maps: None,
        }
    }
}

/// Who waited longest for a CPU, and who had it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worst {
    /// How long.
    pub waited_ns: u64,
    /// The thread that waited.
    pub tid: u32,
    /// Its name.
    pub comm: String,
    /// The thread that took the CPU from it, or had it when it was woken.
    pub by_tid: u32,
    /// Its name.
    pub by_comm: String,
    /// The CPU on which it went on.
    pub cpu: u32,
}

/// What was measured of a group since the last time. Histograms are in seconds.
#[derive(Clone, Debug)]
pub struct Group {
    /// The process, thread or cgroup; `None` for those that found no place.
    pub id: Option<u64>,
    /// Its name, `other` for those that found no place.
    pub comm: String,
    /// From ready to running.
    pub run_queue: Histogram,
    /// The same, of those that were woken alone.
    pub wake_up: Histogram,
    /// On a CPU without a break.
    pub slice: Histogram,
    /// Away from the CPU, by what was waited for, in the order of [`CAUSES`].
    pub off_cpu: Vec<Histogram>,
    /// Switches because it waited for something.
    pub voluntary: u64,
    /// Switches because another took the CPU.
    pub involuntary: u64,
    /// Times that a thread went on on another CPU.
    pub migrations: u64,
    /// Times that a thread was woken.
    pub wake_ups: u64,
    /// The longest wait for a CPU.
    pub worst: Option<Worst>,
}

/// What interrupts of one kind took since the last time.
#[derive(Clone, Debug)]
pub struct Interrupt {
    /// One of [`INTERRUPTS`]; `lateness` is how late timers were, and takes no time.
    pub kind: &'static str,
    /// How long each took, or how late it was, in seconds.
    pub took: Histogram,
    /// Nanoseconds, by CPU.
    pub cpus_ns: Vec<u64>,
}

/// Many threads woken within one system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Herd {
    /// The thread that woke them.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// Its name.
    pub comm: String,
    /// The name of the system call.
    pub call: String,
    /// How many.
    pub woken: u32,
    /// How long the call took; 0 where it is no futex.
    pub took_ns: u64,
    /// The functions that lead to the call, innermost first: none where they are not asked for, or the process has
    /// ended.
    pub frames: Vec<String>,
}

/// What was measured since the last time.
#[derive(Clone, Debug)]
pub struct Drained {
    /// By group, those that did nothing left out.
    pub groups: Vec<Group>,
    /// By kind.
    pub interrupts: Vec<Interrupt>,
    /// As they came.
    pub herds: Vec<Herd>,
    /// Herds that did not fit.
    pub lost_herds: u64,
    /// Switches and wake-ups that the kernel did not show to programs and that are in the histograms by the scheduler's
    /// own notes.
    pub unseen: u64,
}

/// Histograms of a slot, and the counters as they were.
#[derive(Clone)]
struct SlotTotals {
    bins: Vec<Bins>,
    counters: [u64; KINDS + 4],
}

impl SlotTotals {
    fn new() -> Self {
        Self { bins: vec![Bins::new(); KINDS], counters: [0; KINDS + 4] }
    }
}

/// Observes the scheduler while it lives.
pub struct Scheduler {
    programs: Rc<TaskPrograms>,
    unwinder: Option<Unwinder>,
    options: Options,
    seen: Vec<Option<SlotTotals>>,
    seen_interrupts: Vec<(Bins, Vec<u64>)>,
    seen_lost: u64,
    seen_unseen: u64,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Observes from now on.
    ///
    /// # Errors
    /// When the kernel refuses the programs, or what is asked for cannot be.
    pub fn start(options: Options) -> Result<Self, Error> {
        let programs = TaskPrograms::load(&options.of_tasks())?;
        Self::from_programs(&programs, options)
    }

    /// With programs that other parts share, which [`Options::of_tasks`] asked for.
    ///
    /// # Errors
    /// When the kernel does not attach them, or what is asked for cannot be.
    pub fn from_programs(programs: &Rc<TaskPrograms>, options: Options) -> Result<Self, Error> {
        if !(1..=GROUPS_MAX).contains(&options.groups) {
            return Err(Error::Input(format!("{} groups: from 1 to {GROUPS_MAX} can be", options.groups)));
        }
        let parts = [Part::Scheduler, Part::Herds, Part::Interrupts];
        parts.into_iter().filter(|part| options.has(*part)).try_for_each(|part| programs.switch(part, true))?;
        Ok(Self {
            programs: programs.clone(),
            unwinder: options.maps.map(Unwinder::new),
            seen: vec![None; options.groups as usize + 1],
            options,
            seen_interrupts: Vec::new(),
            seen_lost: 0,
            seen_unseen: 0,
        })
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

    /// What was measured since the last time. `lives` says whether a group of this number is still there; the place of
    /// one that is not becomes free.
    ///
    /// # Errors
    /// When the kernel's maps cannot be read.
    pub fn drain(&mut self, lives: impl Fn(u64) -> bool) -> Result<Drained, Error> {
        let (herds, lost_herds) = self.drain_herds()?;
        let mut groups = Vec::new();
        groups.extend(self.drain_slot(0, None)?);
        for (id, slot) in self.slots()? {
            // Asked before what it did is read: nothing of it comes after.
            let is_alive = lives(id);
            groups.extend(self.drain_slot(slot, Some(id))?);
            if !is_alive {
                self.release(id, slot)?;
            }
        }
        let unseen = Fields(&value(&self.programs.loaded().map("unseen"), 0, "unseen switches")?).u64();
        let unseen = unseen - std::mem::replace(&mut self.seen_unseen, unseen);
        Ok(Drained { groups, interrupts: self.drain_interrupts()?, herds, lost_herds, unseen })
    }

    /// Groups and their slots.
    fn slots(&self) -> Result<Vec<(u64, u32)>, Error> {
        let map = self.programs.loaded().map("group_slots");
        let mut slots = Vec::new();
        for key in map.keys() {
            // One that vanished meanwhile was released by nobody but us.
            if let Some(value) = map.lookup(&key, MapFlags::ANY).map_err(failed("slots"))? {
                slots.push((Fields(&key).u64(), Fields(&value).u32()));
            }
        }
        slots.sort_unstable();
        Ok(slots)
    }

    /// Frees the slot of a group that is gone.
    fn release(&mut self, id: u64, slot: u32) -> Result<(), Error> {
        self.programs.loaded().map("group_slots").delete(&id.to_ne_bytes()).map_err(failed("slots"))?;
        // The counters go on from where they are: the next group is what comes on top.
        self.programs.loaded().offer("free_groups", slot)
    }

    fn drain_slot(&mut self, slot: u32, id: Option<u64>) -> Result<Option<Group>, Error> {
        let map = self.programs.loaded().map("groups");
        let bytes = value(&map, slot, "groups")?;
        let mut fields = Fields(&bytes);
        let counters: [u64; KINDS + 4] = std::array::from_fn(|_| fields.u64());
        let worst = self.take_worst(slot)?;
        let seen = self.seen[slot as usize].get_or_insert_with(SlotTotals::new);
        if counters == seen.counters && worst.is_none() {
            return Ok(None);
        }
        let mut since = counters;
        since.iter_mut().zip(seen.counters).for_each(|(now, before)| *now = now.wrapping_sub(before));
        seen.counters = counters;
        let histograms_of = self.programs.loaded().map("group_histograms");
        let mut counts = Vec::with_capacity(KINDS);
        for (kind, bins) in seen.bins.iter_mut().enumerate() {
            let bytes = value(&histograms_of, slot * GROUP_KINDS + kind as u32, "histograms")?;
            counts.push(bins.since_last(&bytes));
        }
        // Each wait for a CPU is counted once: after preemption, or after a wait.
        let (preempted, woken) = (&counts[0], &counts[1]);
        let all_waits = preempted.iter().zip(woken).map(|(preempted, woken)| preempted + woken).collect();
        let run_queue = histogram(all_waits, since[0] + since[1]);
        let mut histograms = counts.into_iter().zip(since).skip(1).map(|(counts, sum_ns)| histogram(counts, sum_ns));
        let (wake_up, slice) = histograms.next().zip(histograms.next()).expect("two before the causes");
        let off_cpu = histograms.collect();
        let [voluntary, involuntary, migrations, wake_ups] = [0, 1, 2, 3].map(|at| since[KINDS + at]);
        let comm = if id.is_some() { self.comm(slot)? } else { "other".to_owned() };
        Ok(Some(Group {
            id,
            comm,
            run_queue,
            wake_up,
            slice,
            off_cpu,
            voluntary,
            involuntary,
            migrations,
            wake_ups,
            worst,
        }))
    }

    /// The longest wait since the last time, if there was any.
    fn take_worst(&self, slot: u32) -> Result<Option<Worst>, Error> {
        let map = self.programs.loaded().map("worsts");
        let bytes = value(&map, slot, "the longest waits")?;
        let mut fields = Fields(&bytes);
        let (waited_ns, tid, by_tid, cpu, _) = (fields.u64(), fields.u32(), fields.u32(), fields.u32(), fields.u32());
        if waited_ns == 0 {
            return Ok(None);
        }
        let (comm, by_comm) = (fields.comm(), fields.comm());
        map.update(&slot.to_ne_bytes(), &vec![0; bytes.len()], MapFlags::ANY).map_err(failed("the longest waits"))?;
        Ok(Some(Worst { waited_ns, tid, comm, by_tid, by_comm, cpu }))
    }

    fn drain_interrupts(&mut self) -> Result<Vec<Interrupt>, Error> {
        if !self.options.interrupts {
            return Ok(Vec::new());
        }
        let cpus = values_of_cpus(&self.programs.loaded().map("cpus"), 0, "interrupts")?;
        let times: Vec<[u64; INTERRUPTS.len()]> = cpus
            .iter()
            .map(|bytes| {
                let mut fields = Fields(bytes);
                std::array::from_fn(|_| fields.u64())
            })
            .collect();
        self.seen_interrupts.resize_with(INTERRUPTS.len(), || (Bins::new(), vec![0; times.len()]));
        let map = self.programs.loaded().map("interrupt_histograms");
        let mut interrupts = Vec::new();
        for (at, (bins, before)) in self.seen_interrupts.iter_mut().enumerate() {
            let counts = bins.since_last(&value(&map, at as u32, "histograms of interrupts")?);
            let cpus_ns: Vec<u64> = times
                .iter()
                .zip(before)
                .map(|(now, before)| now[at].wrapping_sub(std::mem::replace(before, now[at])))
                .collect();
            let took = histogram(counts, cpus_ns.iter().sum());
            if !took.is_empty() {
                let cpus_ns = if INTERRUPTS[at] == "lateness" { Vec::new() } else { cpus_ns };
                interrupts.push(Interrupt { kind: INTERRUPTS[at], took, cpus_ns });
            }
        }
        Ok(interrupts)
    }

    fn drain_herds(&mut self) -> Result<(Vec<Herd>, u64), Error> {
        if self.options.herd_min == 0 {
            return Ok((Vec::new(), 0));
        }
        let mut herds = self.programs.loaded().records("herds", "herds", herd)?;
        let lost = Fields(&value(&self.programs.loaded().map("lost_herds"), 0, "lost herds")?).u64();
        let lost = lost.wrapping_sub(std::mem::replace(&mut self.seen_lost, lost));
        if let Some(unwinder) = &mut self.unwinder {
            let mut frames = unwinder.names(Snapshot::drain(self.programs.loaded())?);
            herds.iter_mut().for_each(|one| one.herd.frames = frames.remove(&one.number).unwrap_or_default());
        }
        Ok((herds.into_iter().map(|one| one.herd).collect(), lost))
    }

    fn comm(&self, slot: u32) -> Result<String, Error> {
        let name = value(&self.programs.loaded().map("names"), slot, "names")?;
        let mut fields = Fields(&name);
        fields.u64();
        Ok(fields.comm())
    }
}

/// A herd, and the number of its snapshot: `struct herd`.
struct NumberedHerd {
    number: u32,
    herd: Herd,
}

fn herd(bytes: &[u8]) -> NumberedHerd {
    let mut fields = Fields(bytes);
    let (took_ns, call, tid, tgid, woken, number) =
        (fields.u64(), fields.u64(), fields.u32(), fields.u32(), fields.u32(), fields.u32());
    let call = u32::try_from(call).map_or_else(|_| "none".to_owned(), crate::syscalls::name_of);
    let herd = Herd { tid, tgid, comm: fields.comm(), call, woken, took_ns, frames: Vec::new() };
    NumberedHerd { number, herd }
}
