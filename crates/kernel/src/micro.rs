//! Microstates of threads: where the time of each goes, including the state that it is in now.
//!
//! Invariants: the states partition time, so that their sum is [`Thread::wall_ns`]; every switch is counted.
//! Failure: a kernel without the tracepoint or the events of page faults has fewer states, see [`Faults`].

use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::fields::Fields;
use crate::mapped::MappedArray;
use crate::object::value;
use crate::run_time::RunTime;
pub use crate::tasks::Faults;
use crate::tasks::{Part, THREADS_MAX, TaskOptions, TaskPrograms, now_ns};
use crate::{CAUSES, Error, Filter};

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

/// `struct micro`: the words that are read here, and all of them.
const THREAD_WORDS: usize = 3 + STATES + 10 + 4;
const SLOT_WORDS: usize = THREAD_WORDS + 9;

/// A thread that is changed just then is read again, so many times at most: the program that changes it takes 50 ns.
const ATTEMPTS: usize = 64;

/// A thread's time since it was first seen, and what it did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
        let (tid, tgid, cgroup, comm) = (self.tid, self.tgid, self.cgroup, self.comm.clone());
        let mut since = Self { tid, tgid, cgroup, comm, ..Self::default() };
        since.add_since(self, Some(before));
        since
    }

    /// Adds what a thread did since an earlier reading of it, or since it was first seen.
    pub fn add_since(&mut self, now: &Self, before: Option<&Self>) {
        let nothing = Self::default();
        let before = before.unwrap_or(&nothing);
        for ((sum, now), before) in self.states_ns.iter_mut().zip(now.states_ns).zip(before.states_ns) {
            *sum += now.saturating_sub(before);
        }
        for (sum, now, before) in [
            (&mut self.wall_ns, now.wall_ns, before.wall_ns),
            (&mut self.voluntary, now.voluntary, before.voluntary),
            (&mut self.involuntary, now.involuntary, before.involuntary),
            (&mut self.migrations, now.migrations, before.migrations),
            (&mut self.calls, now.calls, before.calls),
            (&mut self.signals, now.signals, before.signals),
            (&mut self.minor_faults, now.minor_faults, before.minor_faults),
            (&mut self.major_faults, now.major_faults, before.major_faults),
            (&mut self.text_faults, now.text_faults, before.text_faults),
            (&mut self.data_faults, now.data_faults, before.data_faults),
            (&mut self.stolen_ns, now.stolen_ns, before.stolen_ns),
        ] {
            *sum += now.saturating_sub(before);
        }
    }
}

/// Observes threads while it lives.
#[derive(Debug)]
pub struct Microstates {
    // Before the programs: the memory is the map's.
    threads: MappedArray,
    programs: Rc<TaskPrograms>,
    lost: [u64; 2],
}

/// Threads that the kernel could not keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Ended, between two readings, and found no room.
    pub ends: u64,
    /// Found no place among [`THREADS_MAX`], and are not observed.
    pub threads: u64,
}

fn failed(reason: impl std::fmt::Display) -> Error {
    Error::Read { what: "microstates", reason: reason.to_string() }
}

impl Microstates {
    /// Observes what `filter` names: threads that are there from now on, others from their beginning, or the first
    /// event after which the filter names them. `cpus` are those that are online.
    ///
    /// # Errors
    /// When the kernel refuses the programs, or the filter cannot be.
    pub fn start(filter: &Filter, cpus: &[usize]) -> Result<Self, Error> {
        let options = TaskOptions { cpus: cpus.to_vec(), ..TaskOptions::new(filter, &[Part::Microstates]) };
        Self::from_programs(&TaskPrograms::load(&options)?)
    }

    /// With programs that other parts share.
    ///
    /// # Errors
    /// When the kernel does not attach them, or map its memory.
    pub fn from_programs(programs: &Rc<TaskPrograms>) -> Result<Self, Error> {
        let words = THREADS_MAX as usize * SLOT_WORDS;
        let threads = MappedArray::from_map(programs.loaded().map("threads").as_fd(), words).map_err(failed)?;
        let observed = Self { threads, programs: programs.clone(), lost: [0; 2] };
        observed.begin()?;
        Ok(observed)
    }

    /// Observes from now on, also after [`TaskPrograms::switch`] has switched it off.
    ///
    /// # Errors
    /// When the kernel does not attach the programs, or its iterator cannot be read.
    pub fn begin(&self) -> Result<(), Error> {
        self.programs.switch(Part::Microstates, true)?;
        let loaded = self.programs.loaded();
        let mut iterator =
            libbpf_rs::Iter::new(&loaded.link("note_tasks")).map_err(|error| failed(format!("{error:#}")))?;
        // It notes those that are there, and says nothing.
        iterator.read_to_end(&mut Vec::new()).map_err(failed)?;
        Ok(())
    }

    /// What the kernel shows of page faults.
    #[must_use]
    pub fn faults(&self) -> Faults {
        self.programs.faults()
    }

    /// The programs, which others may share.
    #[must_use]
    pub fn programs(&self) -> &Rc<TaskPrograms> {
        &self.programs
    }

    /// Sees page faults of the CPUs that are online, which may be others than before.
    ///
    /// # Errors
    /// When the kernel refuses the events of a CPU, once for each time that it comes.
    pub fn follow_cpus(&self, online: &[usize]) -> Result<(), Error> {
        self.programs.follow_cpus(online)
    }

    /// What the programs cost, by name.
    #[must_use]
    pub fn run_times(&self) -> Vec<(String, RunTime)> {
        self.programs.run_times()
    }

    /// Threads that ended since the last time, as they were then, and what was lost.
    ///
    /// # Errors
    /// When the kernel's ring cannot be read.
    pub fn take_ended(&mut self) -> Result<(Vec<Thread>, Losses), Error> {
        let loaded = self.programs.loaded();
        let ended = loaded.records("ended", "threads that ended", ended)?;
        let mut since = [0; 2];
        for ((index, since), before) in (0..).zip(&mut since).zip(&mut self.lost) {
            let lost = Fields(&value(&loaded.map("lost_threads"), index, "threads that were lost")?).u64();
            *since = lost - std::mem::replace(before, lost);
        }
        Ok((ended, Losses { ends: since[0], threads: since[1] }))
    }

    /// Every observed thread that lives, by process and thread.
    ///
    /// # Errors
    /// When the kernel's map cannot be read.
    pub fn read(&self) -> Result<Vec<Thread>, Error> {
        let used = Fields(&value(&self.programs.loaded().map("threads_used"), 0, "microstates")?).u64();
        let used = usize::try_from(used).unwrap_or(usize::MAX);
        let (now, slots) = (now_ns(), self.threads.words().chunks_exact(SLOT_WORDS).skip(1).take(used));
        let mut threads: Vec<Thread> = slots.filter_map(words_of).map(|words| thread(&words, now)).collect();
        threads.sort_unstable_by_key(|thread| (thread.tgid, thread.tid));
        Ok(threads)
    }
}

/// What a slot has, where a thread has the slot. A program may change it meanwhile: its version says so.
fn words_of(slot: &[AtomicU64]) -> Option<[u64; THREAD_WORDS]> {
    let mut words = [0; THREAD_WORDS];
    for attempt in 0..ATTEMPTS {
        // ORDERING: Acquire; pairs with the stores of `enter` in the programs, which x86-64 shows in their order.
        words[0] = slot[0].load(Ordering::Acquire);
        for (word, at) in words.iter_mut().zip(slot).skip(1) {
            // ORDERING: Relaxed; the fence orders all of them before the second look at the version.
            *word = at.load(Ordering::Relaxed);
        }
        // ORDERING: Acquire; nothing from below is read before what is above.
        fence(Ordering::Acquire);
        // ORDERING: Relaxed; after the fence.
        let is_same = slot[0].load(Ordering::Relaxed) == words[0];
        // A program that was interrupted in its midst by another leaves the version odd for as long as its thread
        // sleeps.
        if is_same && (words[0] & 1 == 0 || attempt >= ATTEMPTS / 2) {
            break;
        }
        std::hint::spin_loop();
    }
    (words[2] != 0).then_some(words)
}

/// A record of a thread that ended: `struct end`.
fn ended(record: &[u8]) -> Thread {
    let mut fields = Fields(record);
    let now = fields.u64();
    thread(&std::array::from_fn(|_| fields.u64()), now)
}

/// The public words of `struct micro`, at a moment.
fn thread(words: &[u64; THREAD_WORDS], now: u64) -> Thread {
    let mut rest = words.iter().copied();
    let mut next = || rest.next().expect("as many as are read");
    let (state, since, first) = (next() >> 32, next(), next());
    let mut states_ns: [u64; STATES] = std::array::from_fn(|_| next());
    // The state that goes on.
    if let Some(state) = usize::try_from(state).ok().and_then(|state| states_ns.get_mut(state)) {
        *state += now.saturating_sub(since);
    }
    let [voluntary, involuntary, migrations, calls, signals] = std::array::from_fn(|_| next());
    let [text_faults, data_faults, stolen_ns, minor_faults, major_faults] = std::array::from_fn(|_| next());
    let (ids, cgroup, name) = (next(), next(), [next(), next()].map(u64::to_ne_bytes).concat());
    Thread {
        tid: ids as u32,
        tgid: (ids >> 32) as u32,
        cgroup,
        comm: Fields(&name).comm(),
        wall_ns: now.max(since).saturating_sub(first),
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
        assert_eq!(SLOT_WORDS * 8, 320, "as the compiler lays it out");
    }
}
