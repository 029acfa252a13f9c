//! Microstates of threads: where the time of each goes, including the state that it is in now.
//!
//! Invariants: the states partition time, so that their sum is [`Thread::wall_ns`]; every switch is counted.
//! Failure: a kernel without the tracepoint or the events of page faults has fewer states, see [`Faults`].

use std::io::Read as _;

use crate::fields::Fields;
use crate::filter::{CONFIG_BYTES, Config};
use crate::object::{Loaded, Plan, value};
use crate::run_time::RunTime;
use crate::{CAUSES, Error, Filter, Grouping};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OGIVE_BPF_OBJECTS"), "/micro.bpf.o"));

/// States of a thread, in the order of `enum state`: user code; system calls; ready for a CPU that another has; page
/// faults of user code, on a CPU; waits by their cause, [`CAUSES`]; sleep within page faults for text and for data.
pub const STATE_NAMES: [&str; STATES] = [
    "user",
    "system",
    "ready",
    "trap",
    "lock",
    "disk",
    "network",
    "sleep",
    "pipe",
    "child",
    "stop",
    "other",
    "text_fault",
    "data_fault",
];

/// The first wait of [`STATE_NAMES`].
const WAITS: usize = 4;

/// Number of states.
pub const STATES: usize = WAITS + CAUSES.len() + 2;

/// Length of `struct record`: its head, and `struct thread` up to the states and from there on.
const RECORD_BYTES: usize = (24 + 4 * 8) + (8 + 16) + STATES * 8 + (9 * 8 + 8) + (3 * 8 + 3 * 8);

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
    /// Page faults without a read of a disk, as getrusage(2) counts them: those within system calls included.
    pub minor_faults: u64,
    /// Page faults with a read of a disk, likewise.
    pub major_faults: u64,
    /// Page faults of user code for an instruction, those that failed included.
    pub text_faults: u64,
    /// Page faults of user code for data, likewise.
    pub data_faults: u64,
    /// Nanoseconds of `user`, `system` and `trap` in which the hypervisor, or interrupts where the kernel accounts for
    /// them, had its CPU: up to its last switch, and 0 where the kernel does not show its clocks.
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

    /// Page faults of user code, on a CPU (TRP); 0 unless [`Faults::Timed`].
    #[must_use]
    pub fn trap_ns(&self) -> u64 {
        self.states_ns[3]
    }

    /// Waits of a cause of [`CAUSES`].
    #[must_use]
    pub fn wait_ns(&self, cause: &str) -> u64 {
        CAUSES.iter().position(|known| *known == cause).map_or(0, |at| self.states_ns[WAITS + at])
    }

    /// Sleep within page faults of user code for an instruction (TFL); 0 when [`Faults::Unseen`].
    #[must_use]
    pub fn text_fault_ns(&self) -> u64 {
        self.states_ns[STATES - 2]
    }

    /// Sleep within page faults of user code for data (DFL).
    #[must_use]
    pub fn data_fault_ns(&self) -> u64 {
        self.states_ns[STATES - 1]
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
        since.minor_faults = self.minor_faults.saturating_sub(before.minor_faults);
        since.major_faults = self.major_faults.saturating_sub(before.major_faults);
        since.text_faults = self.text_faults.saturating_sub(before.text_faults);
        since.data_faults = self.data_faults.saturating_sub(before.data_faults);
        since.stolen_ns = self.stolen_ns.saturating_sub(before.stolen_ns);
        since
    }
}

/// Observes threads while it lives.
#[derive(Debug)]
pub struct Microstates {
    loaded: Loaded,
    faults: Faults,
    lost: u64,
}

impl Microstates {
    /// Observes what `filter` names: threads that are there from now on, others from their beginning. `cpus` are those on
    /// which they may run.
    ///
    /// # Errors
    /// When the kernel refuses the programs, or the filter cannot be.
    pub fn start(filter: &Filter, cpus: &[usize]) -> Result<Self, Error> {
        filter.check()?;
        let config = Config { filter, grouping: Grouping::Thread, herd_min: 0, shard_mask: 0 }.bytes();
        let load = |faults| Self::load(config, faults, cpus);
        let loaded = load(Faults::Timed).or_else(|_| load(Faults::Begun));
        let observed = loaded.or_else(|_| load(Faults::Unseen))?;
        // The iterator notes those that are there.
        observed.read()?;
        Ok(observed)
    }

    /// Loads and attaches the programs, with those for page faults that `faults` takes.
    fn load(config: [u8; CONFIG_BYTES], faults: Faults, cpus: &[usize]) -> Result<Self, Error> {
        const END: &str = "on_fault_end";
        let without: &[&str] = match faults {
            Faults::Timed => &[],
            Faults::Begun => &[END],
            Faults::Unseen => &["on_fault", END],
        };
        let sees_ends = u32::from(faults == Faults::Timed).to_ne_bytes();
        let plan = Plan { object: OBJECT, config, without, sizes: &[] };
        let mut loaded = Loaded::load_with(&plan, &[(".ends", &sees_ends[..])], None)?;
        loaded.attach(&[END])?;
        if faults == Faults::Timed {
            for cpu in cpus {
                loaded.attach_fault_ends(END, *cpu)?;
            }
        }
        Ok(Self { loaded, faults, lost: 0 })
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
    let [cgroup, minor_faults, major_faults] = std::array::from_fn(|_| fields.u64());
    let (_version, state, since, first) = (fields.u32(), fields.u32(), fields.u64(), fields.u64());
    let mut states_ns: [u64; STATES] = std::array::from_fn(|_| fields.u64());
    // The state that goes on.
    if let Some(state) = states_ns.get_mut(state as usize) {
        *state += now.saturating_sub(since);
    }
    let [voluntary, involuntary, migrations, calls, signals] = std::array::from_fn(|_| fields.u64());
    let [text_faults, data_faults, stolen_ns] = std::array::from_fn(|_| fields.u64());
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
        minor_faults,
        major_faults,
        text_faults,
        data_faults,
        stolen_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_named_by_their_causes() {
        assert_eq!(STATE_NAMES[WAITS..STATES - 2], CAUSES);
        assert_eq!(RECORD_BYTES, 320, "as the compiler lays it out");
    }
}
