//! Which tasks a command observes, and durations as its tables and its JSON show them.

use std::time::Duration;

use ogive_hist::Histogram;
use ogive_kernel::ask::Probe;
use ogive_kernel::{Error, Filter};

use crate::cli::format::human;

/// Which tasks are observed.
#[derive(clap::Args, Clone, Debug)]
#[group(multiple = false)]
pub(super) struct Tasks {
    /// Only the threads of this process.
    #[arg(short, long, value_name = "PID")]
    pub(super) pid: Option<u32>,
    /// Only processes with this name, as in /proc/PID/comm: at most 15 bytes.
    #[arg(long, value_name = "NAME")]
    pub(super) comm: Option<String>,
    /// Only tasks of this cgroup, such as /sys/fs/cgroup/system.slice/nginx.service.
    #[arg(long, value_name = "DIR")]
    pub(super) cgroup: Option<std::path::PathBuf>,
}

impl Tasks {
    pub(super) fn filter(&self) -> anyhow::Result<Filter> {
        use std::os::unix::fs::MetadataExt as _;
        Ok(match (self.pid, &self.comm, &self.cgroup) {
            (Some(pid), _, _) => {
                let path = format!("/proc/{pid}");
                anyhow::ensure!(std::path::Path::new(&path).exists(), "there is no process {pid}");
                Filter::Process(pid)
            }
            (_, Some(comm), _) => Filter::Comm(comm.clone()),
            (_, _, Some(directory)) => {
                let found = directory.metadata();
                Filter::Cgroup(found.map_err(|error| anyhow::anyhow!("{}: {error}", directory.display()))?.ino())
            }
            _ => Filter::Everything,
        })
    }
}

/// A quantile of durations as people read it.
pub(super) fn quantile(times: &Histogram, q: f64) -> String {
    times.quantile(q).map_or_else(|| "-".to_owned(), |found| human(found.value, "s"))
}

/// A histogram of durations as JSON: count, sum and some quantiles, in seconds.
pub(super) fn durations(times: &Histogram) -> serde_json::Value {
    let at = |q| times.quantile(q).map(|found| found.value);
    serde_json::json!({
        "count": times.total(), "sum_seconds": times.sum, "p50_seconds": at(0.5), "p90_seconds": at(0.9),
        "p99_seconds": at(0.99), "max_seconds": at(1.0),
    })
}

/// Waits for `seconds`.
pub(super) fn wait(seconds: u64) {
    std::thread::sleep(Duration::from_secs(seconds));
}

/// The CPUs on which a question's clock ticks; none for one without a clock.
pub(super) fn ticking_cpus(probe: &Probe) -> anyhow::Result<Vec<usize>> {
    if matches!(probe, Probe::Profile(_) | Probe::Interval(_)) { Ok(online_cpus()?) } else { Ok(Vec::new()) }
}

/// CPUs that are there, those that this process may not use included.
pub(super) fn online_cpus() -> Result<Vec<usize>, Error> {
    let path = "/sys/devices/system/cpu/online";
    let unread = |error| Error::Read { what: "the list of CPUs", reason: format!("{path}: {error}") };
    Ok(ogive_kernel::machine::list(&std::fs::read_to_string(path).map_err(unread)?))
}

/// Whether a process has ended, also one whose parent has not asked for its outcome yet.
pub(super) fn has_ended(pid: u32) -> bool {
    let Ok(stat) = std::fs::read(format!("/proc/{pid}/stat")) else { return true };
    // The state is behind the name, which may hold anything.
    let state = stat.iter().rposition(|byte| *byte == b')').and_then(|at| stat.get(at + 2));
    // The first thread of a process may end before others do.
    let is_alone = || std::fs::read_dir(format!("/proc/{pid}/task")).map_or(true, |threads| threads.count() <= 1);
    matches!(state, Some(b'Z' | b'X')) && is_alone()
}
