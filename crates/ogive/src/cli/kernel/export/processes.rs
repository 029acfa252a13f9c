//! Threads as `/proc` shows them: what there is without programs in the kernel.

use std::collections::HashMap;

use ogive_kernel::proc::{DELAY_ACCOUNTING, DelayAccounting, Scheduling, block_io_delay_ns};
use ogive_kernel::{Filter, Grouping};

use super::groups::Groups;
use super::process_files::{cgroup, comm, text};

/// 20,000 threads are read: 0.3 s of CPU, which the budget takes into account.
const THREADS_MAX: usize = 20_000;

/// The previous state of the threads.
#[derive(Default)]
pub(super) struct Processes {
    before: HashMap<u32, Scheduling>,
    has_begun: bool,
}

fn numbers(directory: &str) -> Vec<u32> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn is_wanted(filter: &Filter, pid: u32) -> bool {
    match filter {
        Filter::Everything => true,
        Filter::Process(wanted) => pid == *wanted,
        Filter::Comm(wanted) => comm(pid).as_deref() == Some(wanted),
        Filter::Cgroup(wanted) => cgroup(pid) == Some(*wanted),
        Filter::ChildrenOf(_) => false,
    }
}

impl Processes {
    /// Reads every thread that the filter selects, and sends what it did since the last reading.
    pub(super) fn read(&mut self, filter: &Filter, grouping: Grouping, groups: &mut Groups) {
        let has_delays = DelayAccounting::parse(text(DELAY_ACCOUNTING).as_deref()) == DelayAccounting::On;
        let mut now = HashMap::new();
        let pids = match filter {
            Filter::Process(pid) => vec![*pid],
            _ => numbers("/proc"),
        };
        for pid in pids.into_iter().filter(|pid| is_wanted(filter, *pid)) {
            let Some(process) = comm(pid) else { continue };
            let of_cgroup = if grouping == Grouping::Cgroup { cgroup(pid).unwrap_or(0) } else { 0 };
            for tid in numbers(&format!("/proc/{pid}/task")) {
                if now.len() >= THREADS_MAX {
                    break;
                }
                let file = |name| text(&format!("/proc/{pid}/task/{tid}/{name}"));
                let (Some(schedstat), Some(status)) = (file("schedstat"), file("status")) else { continue };
                let Some(mut scheduling) = Scheduling::parse(&schedstat, &status) else { continue };
                let delay_before_ns = self.before.get(&tid).map(|before| before.block_io_delay_ns);
                let delay_ns = if has_delays { file("stat").as_deref().and_then(block_io_delay_ns) } else { None };
                // Switched off, it stays as it was: on again, it goes on from there.
                scheduling.block_io_delay_ns = delay_ns.or(delay_before_ns).unwrap_or(0);
                // Those that existed before the observer: what they did earlier is not part of a series.
                let zero = if self.has_begun { Scheduling::default() } else { scheduling };
                let more = scheduling.since(self.before.get(&tid).unwrap_or(&zero));
                now.insert(tid, scheduling);
                let (id, name) = match grouping {
                    Grouping::Process => (pid.into(), process.clone()),
                    Grouping::Thread => (tid.into(), file("comm").unwrap_or_default().trim_end().to_owned()),
                    Grouping::Cgroup => (of_cgroup, String::new()),
                };
                groups.counted(id, &name, &more);
            }
        }
        self.before = now;
        self.has_begun = true;
    }
}
