//! The observer inside a server or a broker: `[kernel]` of their files, and its cells among their own.
//!
//! Failure: what the kernel refuses is one line of the log and `ogive_kernel_failed`; the role starts all the same, and
//! SIGHUP tries it again. Off means off: without a part or a question no thread runs and nothing is loaded.

use std::path::PathBuf;
use std::sync::Arc;

use ogive_door::Door;
use ogive_kernel::sched::GROUPS_MAX;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::super::sched::By;
use super::super::tasks::Tasks;
use super::kept::NamedQuestion;
use super::observation::{self, Message};
use super::parts::{Part, Settings};
use super::percent;

/// What the role observes in the kernel.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct KernelOptions {
    /// Observe this of the machine's kernel, as `ogive kernel export` does: sched, interrupts, micro, locks,
    /// herds, calls, stacks. Needs root, or CAP_BPF and CAP_PERFMON; otherwise counters from /proc are sent.
    #[arg(long, value_name = "PART", env = "OGIVE_KERNEL_OBSERVE", value_enum, value_delimiter = ',')]
    kernel_observe: Vec<Part>,
    /// Answer this question and keep its answer as series of this name, as `ogive kernel ask --keep` does.
    /// Repeatable; in the variable, one a line.
    #[arg(long, value_name = "NAME=QUESTION", env = "OGIVE_KERNEL_ASK", value_delimiter = '\n', value_parser = NamedQuestion::parse)]
    kernel_ask: Vec<NamedQuestion>,
    /// Only processes with this name, as in /proc/PID/comm.
    #[arg(long, value_name = "NAME", env = "OGIVE_KERNEL_COMM", conflicts_with = "kernel_cgroup")]
    kernel_comm: Option<String>,
    /// Only tasks of this cgroup, such as /sys/fs/cgroup/system.slice/nginx.service.
    #[arg(long, value_name = "DIR", env = "OGIVE_KERNEL_CGROUP")]
    kernel_cgroup: Option<PathBuf>,
    /// What forms a group, and becomes a label.
    #[arg(long, value_enum, default_value = "process", env = "OGIVE_KERNEL_BY")]
    kernel_by: By,
    /// Number of groups with their own series; the rest are merged into `other`.
    #[arg(long, value_name = "N", default_value = "64", env = "OGIVE_KERNEL_GROUPS", value_parser = clap::value_parser!(u32).range(1..=i64::from(GROUPS_MAX)))]
    kernel_groups: u32,
    /// Number of wake-ups within one system call that count as a herd.
    #[arg(long, value_name = "N", default_value = "16", env = "OGIVE_KERNEL_HERDS", value_parser = clap::value_parser!(u32).range(2..))]
    kernel_herds: u32,
    /// Percent of a core that the observer may use.
    #[arg(long, value_name = "PERCENT", default_value = "1", env = "OGIVE_KERNEL_BUDGET", value_parser = percent)]
    kernel_budget: f64,
}

/// The observer of a role, before it runs.
pub(crate) struct KernelRole {
    settings: Option<Settings>,
}

impl KernelRole {
    /// Validates the options.
    pub(crate) fn open(options: &KernelOptions) -> anyhow::Result<Self> {
        if options.kernel_observe.is_empty() && options.kernel_ask.is_empty() {
            return Ok(Self { settings: None });
        }
        let tasks = Tasks { pid: None, comm: options.kernel_comm.clone(), cgroup: options.kernel_cgroup.clone() };
        let filter = tasks.filter()?;
        let settings = Settings {
            parts: options.kernel_observe.clone(),
            asked: options.kernel_ask.clone(),
            filter,
            grouping: options.kernel_by.grouping(),
            groups: options.kernel_groups,
            herd_min: options.kernel_herds,
            core_share_max: options.kernel_budget / 100.0,
        };
        settings.check()?;
        Ok(Self { settings: Some(settings) })
    }

    /// Observes until the role ends. Called within the runtime: signals are handled from then on, not from when this is
    /// polled.
    pub(crate) fn run(self, door: Arc<Door>) -> impl Future<Output = ()> {
        let started = self.settings.map(|settings| {
            let running = observation::start(settings, door.meters.cells.clone());
            running.and_then(|running| Ok((running, signal(SignalKind::hangup())?)))
        });
        async move {
            let (running, hangup) = match started {
                None => return,
                Some(Ok(started)) => started,
                Some(Err(error)) => return tracing::warn!("the kernel is not observed: {error}"),
            };
            retry_until_the_end(&running.messages, hangup, &door).await;
            // What was measured is in the cells before the last ones are collected.
            let _ = tokio::task::spawn_blocking(move || running.stop()).await;
        }
    }
}

async fn retry_until_the_end(messages: &std::sync::mpsc::Sender<Message>, mut hangup: Signal, door: &Door) {
    let mut ending = door.ending.clone();
    loop {
        tokio::select! {
            _ = hangup.recv() => {
                // A thread that has ended has reported why.
                let _ = messages.send(Message::Retry);
            }
            () = async { drop(ending.wait_for(|ending| *ending).await) } => return,
        }
    }
}
