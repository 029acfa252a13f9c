//! Where threads of a workload wait, as /proc has it: read again and again while they live.
//!
//! Run and wait times are the kernel's counters, of which the last reading before a thread's end counts: at most
//! [`INTERVAL`] of each thread are missed. That a thread is in futex is seen at the moments of reading. As many threads
//! as there are more than workers are taken to wait there for no lock: a main thread that joins the others, or a pool
//! that has nothing to do.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::time::Duration;

use ogive_model::MonoNs;

/// Between two readings.
pub(super) const INTERVAL: Duration = Duration::from_millis(25);
/// Readings between two searches for new processes: each goes through all of /proc.
const LOOK_EVERY: u32 = 8;
/// Threads that are remembered, 48 bytes each: of a workload that starts more, the first ones.
const THREADS_MAX: usize = 1 << 18;
/// The number of futex in /proc/PID/syscall.
const FUTEX: &str = if cfg!(target_arch = "x86_64") { "202" } else { "98" };

/// Seconds of all threads together, and their number of CPU migrations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Waits {
    pub(super) ready_s: f64,
    pub(super) lock_s: f64,
    pub(super) migrations: f64,
}

#[derive(Clone, Copy, Default)]
struct ThreadTimes {
    wait_ns: u64,
    migrations: u64,
}

/// The threads of some processes and of their descendants.
pub(super) struct Threads {
    processes: BTreeSet<u32>,
    threads: HashMap<u32, ThreadTimes>,
    workers: usize,
    readings: u32,
    read_at: MonoNs,
    /// Workers in futex, and threads beyond the workers, at the last reading.
    before: (usize, usize),
    /// Seconds of both.
    lock_s: f64,
    surplus_s: f64,
}

impl Threads {
    pub(super) fn new(processes: impl IntoIterator<Item = u32>, workers: u32) -> Self {
        Self {
            processes: processes.into_iter().collect(),
            threads: HashMap::new(),
            workers: workers as usize,
            readings: 0,
            read_at: MonoNs(0),
            before: (0, 0),
            lock_s: 0.0,
            surplus_s: 0.0,
        }
    }

    /// The processes, including those that have ended.
    pub(super) fn processes(&self) -> &BTreeSet<u32> {
        &self.processes
    }

    /// Reads everything once; `now` must never go backwards.
    pub(super) fn read(&mut self, now: MonoNs) {
        if self.readings.is_multiple_of(LOOK_EVERY) {
            add_descendants(&parents(), &mut self.processes);
        }
        let since_s = if self.readings == 0 { 0.0 } else { now.since(self.read_at).0 as f64 / 1e9 };
        (self.readings, self.read_at) = (self.readings + 1, now);
        let (mut alive, mut in_futex) = (0_usize, 0_usize);
        for process in &self.processes {
            let Ok(tasks) = std::fs::read_dir(format!("/proc/{process}/task")) else { continue };
            for task in tasks.flatten() {
                let Some(tid) = task.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
                if self.threads.len() < THREADS_MAX || self.threads.contains_key(&tid) {
                    alive += 1;
                    in_futex += usize::from(read_thread(&task.path(), self.threads.entry(tid).or_default()));
                }
            }
        }
        let surplus = alive.saturating_sub(self.workers);
        let waiting = (in_futex.saturating_sub(surplus), surplus.min(in_futex));
        // A state at one end of the interval counts for half of it.
        self.lock_s += (self.before.0 + waiting.0) as f64 / 2.0 * since_s;
        self.surplus_s += (self.before.1 + waiting.1) as f64 / 2.0 * since_s;
        self.before = waiting;
    }

    /// Seconds in which threads beyond the workers were in futex.
    pub(super) fn surplus_s(&self) -> f64 {
        self.surplus_s
    }

    /// The waits observed so far.
    pub(super) fn waits(&self) -> Waits {
        let sum = |field: fn(&ThreadTimes) -> u64| self.threads.values().map(field).sum::<u64>() as f64;
        Waits { ready_s: sum(|seen| seen.wait_ns) / 1e9, lock_s: self.lock_s, migrations: sum(|seen| seen.migrations) }
    }
}

/// Whether a thread is in futex. If the file is gone, nothing changes.
fn read_thread(directory: &Path, seen: &mut ThreadTimes) -> bool {
    let text = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap_or_default();
    if let Some(wait_ns) = schedstat_wait(&text("schedstat")) {
        seen.wait_ns = wait_ns;
    }
    if let Some(migrations) = migrations(&text("sched")) {
        seen.migrations = migrations;
    }
    text("syscall").split_ascii_whitespace().next() == Some(FUTEX)
}

/// Nanoseconds ready for a CPU: the second number.
fn schedstat_wait(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// `se.nr_migrations  :  7` of /proc/PID/task/TID/sched.
fn migrations(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("se.nr_migrations"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

/// Every process and its parent.
fn parents() -> Vec<(u32, u32)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, parent(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))).collect()
}

/// The fourth field of /proc/PID/stat; the second, a name in brackets, may contain anything.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn add_descendants(parents: &[(u32, u32)], processes: &mut BTreeSet<u32>) {
    loop {
        let before = processes.len();
        let found: Vec<u32> =
            parents.iter().filter(|(_, parent)| processes.contains(parent)).map(|(child, _)| *child).collect();
        processes.extend(found);
        if processes.len() == before {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_proc_are_read_as_the_kernel_writes_them() {
        assert_eq!(schedstat_wait("137837 747933 2\n"), Some(747_933));
        assert_eq!(
            migrations("cat (1, #threads: 1)\nse.nr_migrations                 :    17\nnr_switches : 3\n"),
            Some(17)
        );
        assert_eq!(parent("42 (a ) b (c) S 7 42 42 0 -1"), Some(7));
        for broken in ["", "1", "x y z", "(", ")"] {
            assert_eq!((schedstat_wait(broken), migrations(broken), parent(broken)), (None, None, None), "{broken:?}");
        }
    }

    #[test]
    fn descendants_are_found_in_any_order() {
        let mut processes = BTreeSet::from([10]);
        add_descendants(&[(13, 12), (12, 11), (11, 10), (20, 1), (21, 20)], &mut processes);
        assert_eq!(processes, BTreeSet::from([10, 11, 12, 13]));
    }

    #[test]
    fn a_thread_that_waits_for_a_lock_is_seen_in_it_and_one_too_many_is_not() {
        // A process of its own: other tests wait for locks too.
        let script = "import threading\nl = threading.Lock()\nl.acquire()\nl.acquire()";
        let mut child = std::process::Command::new("python3").args(["-c", script]).spawn().unwrap();
        for (workers, lock_s, surplus_s) in [(1, 4.0, 0.0), (0, 0.0, 4.0)] {
            let mut threads = Threads::new([child.id()], workers);
            // Time stands in the argument; the first second counts once it is there.
            while threads.before == (0, 0) {
                threads.read(MonoNs(0));
                std::thread::sleep(Duration::from_millis(1));
            }
            threads.lock_s = 0.0;
            threads.surplus_s = 0.0;
            for second in 1..=4 {
                threads.read(MonoNs(second * 1_000_000_000));
            }
            assert_eq!((threads.waits().lock_s, threads.surplus_s()), (lock_s, surplus_s));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
