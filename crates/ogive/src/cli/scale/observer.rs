//! Waits of a workload as the kernel observer has them: every one of them.

use std::collections::BTreeSet;

use ogive_kernel::sched::{Options, Scheduler};

use super::threads::Waits;

/// Processes with histograms of their own, 88 KiB each: 22 MiB. The workload's are among the running ones.
const GROUPS: u32 = 256;

/// Observes every process, because those of a workload have no process id before they start.
pub(super) struct Observer {
    scheduler: Scheduler,
}

impl Observer {
    /// `None` when it is not wanted, the reason when it is not possible.
    pub(super) fn start(is_unwanted: bool) -> Result<Option<Self>, String> {
        if is_unwanted {
            return Ok(None);
        }
        let options = Options { groups: GROUPS, interrupts: false, ..Options::default() };
        match Scheduler::start(options) {
            Ok(scheduler) => Ok(Some(Self { scheduler })),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Discards the measurements so far.
    pub(super) fn forget(&mut self) -> anyhow::Result<()> {
        self.scheduler.drain(is_alive)?;
        Ok(())
    }

    /// The waits of some processes since the last call; `None` when one of them found no slot.
    pub(super) fn waits(&mut self, processes: &BTreeSet<u32>) -> anyhow::Result<Option<Waits>> {
        let drained = self.scheduler.drain(is_alive)?;
        let mut waits = Waits::default();
        let mut found = 0;
        for group in drained.groups {
            if group.id.and_then(|id| u32::try_from(id).ok()).is_some_and(|id| processes.contains(&id)) {
                found += 1;
                waits.ready_s += group.run_queue.sum.unwrap_or(0.0);
                // The first cause is the lock.
                waits.lock_s += group.off_cpu.first().and_then(|lock| lock.sum).unwrap_or(0.0);
                waits.migrations += group.migrations as f64;
            }
        }
        Ok((found == processes.len()).then_some(waits))
    }
}

fn is_alive(process: u64) -> bool {
    std::path::Path::new(&format!("/proc/{process}")).exists()
}
