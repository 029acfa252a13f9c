//! What threads did between two readings, added up by group.
//!
//! Invariants: what a thread did is in one sum, once. A thread that ended between the two halves of a reading is known
//! for one more, which has its end.

use std::collections::HashMap;

use ogive_kernel::Grouping;
use ogive_kernel::micro::Thread;

struct KnownThread {
    thread: Thread,
    /// Not among the living at the last reading, nor among those that had ended.
    is_gone: bool,
}

/// What the threads of a group did.
pub(super) struct GroupSum {
    /// The name of the process or the thread.
    pub(super) comm: String,
    pub(super) sum: Thread,
}

/// Threads as they were read last.
#[derive(Default)]
pub(super) struct Threads(HashMap<u32, KnownThread>);

impl Threads {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// What happened since the last reading, by group: of those that have ended, and of those that live.
    pub(super) fn add_up(
        &mut self,
        ended: Vec<Thread>,
        now: Vec<Thread>,
        grouping: Grouping,
    ) -> HashMap<u64, GroupSum> {
        let mut groups = HashMap::new();
        for thread in &ended {
            add(&mut groups, grouping, thread, self.before(thread));
            self.0.remove(&thread.tid);
        }
        let mut known = HashMap::with_capacity(now.len());
        for thread in now {
            add(&mut groups, grouping, &thread, self.before(&thread));
            self.0.remove(&thread.tid);
            known.insert(thread.tid, KnownThread { thread, is_gone: false });
        }
        let gone = self.0.drain().filter(|(_, gone)| !gone.is_gone);
        for (tid, KnownThread { thread, .. }) in gone {
            known.insert(tid, KnownThread { thread, is_gone: true });
        }
        self.0 = known;
        groups
    }

    /// The earlier reading of a thread. A reused number belongs to a younger one.
    fn before(&self, thread: &Thread) -> Option<&Thread> {
        let known = self.0.get(&thread.tid).map(|known| &known.thread);
        known.filter(|before| before.wall_ns <= thread.wall_ns)
    }
}

fn add(groups: &mut HashMap<u64, GroupSum>, grouping: Grouping, thread: &Thread, before: Option<&Thread>) {
    let id = match grouping {
        Grouping::Process => thread.tgid.into(),
        Grouping::Thread => thread.tid.into(),
        Grouping::Cgroup => thread.cgroup,
    };
    let new = || GroupSum { comm: thread.comm.clone(), sum: Thread::default() };
    let group = groups.entry(id).or_insert_with(new);
    // A process has the name of its first thread.
    if thread.tid == thread.tgid && group.comm != thread.comm {
        group.comm.clone_from(&thread.comm);
    }
    group.sum.add_since(thread, before);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tgid: u32, tid: u32, comm: &str, wall_ns: u64, calls: u64) -> Thread {
        Thread { tgid, tid, comm: comm.to_owned(), wall_ns, calls, ..Thread::default() }
    }

    fn calls(groups: &HashMap<u64, GroupSum>) -> Vec<(u64, &str, u64)> {
        let mut all: Vec<_> = groups.iter().map(|(id, group)| (*id, group.comm.as_str(), group.sum.calls)).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn each_call_is_in_one_sum_once() {
        let mut threads = Threads::default();
        let both = vec![thread(7, 7, "main", 10, 100), thread(7, 8, "worker", 5, 50)];
        assert_eq!(calls(&threads.add_up(Vec::new(), both, Grouping::Process)), [(7, "main", 150)]);
        // The worker has ended, and its number belongs to another.
        let ended = vec![thread(7, 8, "worker", 9, 60)];
        let now = vec![thread(7, 7, "main", 20, 101), thread(9, 8, "other", 1, 5)];
        assert_eq!(calls(&threads.add_up(ended, now, Grouping::Process)), [(7, "main", 11), (9, "other", 5)]);
    }

    #[test]
    fn a_thread_that_ends_between_both_halves_of_a_reading_counts_once() {
        let mut threads = Threads::default();
        threads.add_up(Vec::new(), vec![thread(7, 7, "main", 10, 100)], Grouping::Thread);
        assert!(threads.add_up(Vec::new(), Vec::new(), Grouping::Thread).is_empty());
        let ended = vec![thread(7, 7, "main", 12, 103)];
        assert_eq!(calls(&threads.add_up(ended, Vec::new(), Grouping::Thread)), [(7, "main", 3)]);
        assert!(threads.is_empty());
    }

    #[test]
    fn one_whose_end_was_lost_is_forgotten() {
        let mut threads = Threads::default();
        threads.add_up(Vec::new(), vec![thread(7, 7, "main", 10, 100)], Grouping::Cgroup);
        threads.add_up(Vec::new(), Vec::new(), Grouping::Cgroup);
        threads.add_up(Vec::new(), Vec::new(), Grouping::Cgroup);
        assert!(threads.is_empty());
    }
}
