//! Microstates of threads: where the time of each goes, including the state that it is in now.
//!
//! Invariants: the states partition time, so that their sum is [`Thread::wall_ns`]; every switch is counted.

use std::io::Read as _;

use crate::fields::Fields;
use crate::filter::Config;
use crate::object::{Loaded, Plan, value};
use crate::run_time::RunTime;
use crate::{CAUSES, Error, Filter, Grouping};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OGIVE_BPF_OBJECTS"), "/micro.bpf.o"));

/// States of a thread: user code, system calls and page faults of the kernel's own, ready for a CPU that another has, and then
/// waits by their cause, [`CAUSES`].
pub const STATES: usize = 3 + CAUSES.len();

/// Length of `struct record`.
const RECORD_BYTES: usize = 24 + 8 + 8 + 8 + 16 + STATES * 8 + 7 * 8 + 8 + 3 * 8;

/// A thread's time since it was first seen, and what it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// The number of its cgroup.
    pub cgroup: u64,
    /// Its name.
    pub comm: String,
    /// Nanoseconds since it was first seen.
    pub wall_ns: u64,
    /// Nanoseconds in each state.
    pub states_ns: [u64; STATES],
    /// Switches because it waited for something.
    pub voluntary: u64,
    /// Switches because another took the CPU.
    pub involuntary: u64,
    /// Times that it went on on another CPU.
    pub migrations: u64,
    /// System calls.
    pub calls: u64,
    /// Signals that it was given.
    pub signals: u64,
    /// Nanoseconds of `user` and `system` in which the hypervisor, or interrupts where the kernel accounts for them, had its
    /// CPU: up to its last switch, and 0 where the kernel does not show its clocks.
    pub stolen_ns: u64,
}

impl Thread {
    /// User code (USR).
    #[must_use]
    pub fn user_ns(&self) -> u64 {
        self.states_ns[0]
    }

    /// System calls (SYS).
    #[must_use]
    pub fn system_ns(&self) -> u64 {
        self.states_ns[1]
    }

    /// Ready, while another has the CPU (LAT).
    #[must_use]
    pub fn ready_ns(&self) -> u64 {
        self.states_ns[2]
    }

    /// Waits of a cause of [`CAUSES`].
    #[must_use]
    pub fn wait_ns(&self, cause: &str) -> u64 {
        CAUSES.iter().position(|known| *known == cause).map_or(0, |at| self.states_ns[3 + at])
    }

    /// What happened between an earlier reading of the same thread and this one.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        since.wall_ns = self.wall_ns.saturating_sub(before.wall_ns);
        for (state, before) in since.states_ns.iter_mut().zip(before.states_ns) {
            *state = state.saturating_sub(before);
        }
        since.voluntary = self.voluntary.saturating_sub(before.voluntary);
        since.involuntary = self.involuntary.saturating_sub(before.involuntary);
        since.migrations = self.migrations.saturating_sub(before.migrations);
        since.calls = self.calls.saturating_sub(before.calls);
        since.signals = self.signals.saturating_sub(before.signals);
        since.stolen_ns = self.stolen_ns.saturating_sub(before.stolen_ns);
        since
    }
}

/// Observes threads while it lives.
#[derive(Debug)]
pub struct Microstates {
    loaded: Loaded,
    lost: u64,
}

impl Microstates {
    /// Observes what `filter` names: threads that are there from now on, others from their beginning.
    ///
    /// # Errors
    /// When the kernel refuses the programs, or the filter cannot be.
    pub fn start(filter: &Filter) -> Result<Self, Error> {
        filter.check()?;
        let config = Config { filter, grouping: Grouping::Thread, herd_min: 0, shard_mask: 0 };
        let mut loaded = Loaded::load(&Plan { object: OBJECT, config: config.bytes(), without: &[], sizes: &[] })?;
        loaded.attach(&[])?;
        let observed = Self { loaded, lost: 0 };
        // The iterator notes those that are there.
        observed.read()?;
        Ok(observed)
    }

    /// What the programs cost, by name.
    #[must_use]
    pub fn run_times(&self) -> Vec<(String, RunTime)> {
        self.loaded.run_times()
    }

    /// Threads that ended since the last time, as they were then, and how many more did that found no room.
    ///
    /// # Errors
    /// When the kernel's ring cannot be read.
    pub fn take_ended(&mut self) -> Result<(Vec<Thread>, u64), Error> {
        let ended = self.loaded.records("ended", "threads that ended", thread)?;
        let lost = Fields(&value(&self.loaded.map("lost_ends"), 0, "threads that ended")?).u64();
        Ok((ended, lost - std::mem::replace(&mut self.lost, lost)))
    }

    /// Every observed thread that lives, by process and thread.
    ///
    /// # Errors
    /// When the kernel's iterator cannot be read.
    pub fn read(&self) -> Result<Vec<Thread>, Error> {
        let failed = |reason: String| Error::Read { what: "microstates", reason };
        let link = self.loaded.link("read_threads");
        let mut iterator = libbpf_rs::Iter::new(link).map_err(|error| failed(format!("{error:#}")))?;
        let mut bytes = Vec::new();
        iterator.read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
        if bytes.len() % RECORD_BYTES != 0 {
            return Err(failed(format!("{} bytes are no whole records", bytes.len())));
        }
        let mut threads: Vec<Thread> = bytes.chunks_exact(RECORD_BYTES).map(thread).collect();
        threads.sort_by_key(|thread| (thread.tgid, thread.tid));
        Ok(threads)
    }
}

/// A record of `micro.bpf.c`.
fn thread(record: &[u8]) -> Thread {
    let mut fields = Fields(record);
    let (tid, tgid, comm, now) = (fields.u32(), fields.u32(), fields.comm(), fields.u64());
    let cgroup = fields.u64();
    let (_version, state, since, first) = (fields.u32(), fields.u32(), fields.u64(), fields.u64());
    let mut states_ns: [u64; STATES] = std::array::from_fn(|_| fields.u64());
    // The state that goes on.
    if let Some(state) = states_ns.get_mut(state as usize) {
        *state += now.saturating_sub(since);
    }
    let [voluntary, involuntary, migrations, calls, signals, stolen_ns] = std::array::from_fn(|_| fields.u64());
    let wall_ns = now.max(since).saturating_sub(first);
    Thread {
        tid,
        tgid,
        cgroup,
        comm,
        wall_ns,
        states_ns,
        voluntary,
        involuntary,
        migrations,
        calls,
        signals,
        stolen_ns,
    }
}
