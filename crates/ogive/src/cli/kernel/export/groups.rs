//! The groups whose series are sent: processes, threads or cgroups with a place, and `other` for the rest.
//!
//! Invariants: what was measured is in one family, that of the group or that of `other`, so that they add up to all.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ogive_hist::Histogram;
use ogive_kernel::calls::Call;
use ogive_kernel::locks::Lock;
use ogive_kernel::micro::{STATE_NAMES, Thread};
use ogive_kernel::places::Places;
use ogive_kernel::proc::Scheduling;
use ogive_kernel::sched::Group;
use ogive_kernel::wait_kind::WaitKind;
use ogive_kernel::{CAUSES, Grouping};
use ogive_model::{MonoNs, Ns};

use super::process_files;
use super::sent::{Family, Sent, Source};

/// 10 s, where all tasks are observed: commands of a shell have no series of their own.
pub(super) const SETTLE: Ns = Ns::from_secs(10);

/// 10,000 directories are looked at for the name of a cgroup.
const CGROUPS_MAX: usize = 10_000;

/// Where cgroups are.
const CGROUPS: &str = "/sys/fs/cgroup";

/// The groups.
pub(super) struct Groups {
    grouping: Grouping,
    sent: Sent,
    places: Places,
    own: HashMap<u64, Family>,
    other: Family,
    /// The calls of all observed tasks together.
    all: Family,
    cgroup_paths: HashMap<u64, PathBuf>,
}

/// The label of a group.
fn label(grouping: Grouping) -> &'static str {
    match grouping {
        Grouping::Process => "pid",
        Grouping::Thread => "thread",
        Grouping::Cgroup => "cgroup",
    }
}

impl Groups {
    /// At most `places` groups, each once it has existed for `settle`.
    pub(super) fn new(sent: &Sent, grouping: Grouping, places: u32, settle: Ns) -> Self {
        let mut labels = vec![(label(grouping), "other".to_owned())];
        if grouping != Grouping::Cgroup {
            labels.push(("comm", "other".to_owned()));
        }
        Self {
            grouping,
            sent: sent.clone(),
            places: Places::new(places, settle.0.unsigned_abs()),
            own: HashMap::new(),
            other: Family::new(sent, labels),
            all: Family::new(sent, Vec::new()),
            cgroup_paths: HashMap::new(),
        }
    }

    /// Begins a turn.
    pub(super) fn begin(&mut self, now: MonoNs) {
        self.places.begin(now.0);
    }

    /// Ends a turn: series of groups that are gone are forgotten.
    pub(super) fn end(&mut self) {
        let Self { grouping, cgroup_paths, .. } = self;
        let gone = self.places.end(|id| lives(*grouping, cgroup_paths, id));
        for id in gone {
            self.cgroup_paths.remove(&id);
            if let Some(family) = self.own.remove(&id) {
                family.forget();
            }
        }
        let counts = [("own", self.own.len()), ("other", self.places.without_place())];
        for (place, count) in counts {
            #[allow(clippy::cast_precision_loss, reason = "a few thousand")]
            self.all.state(Source::Own, "ogive_kernel_groups", &[("place", place)], count as f64);
        }
    }

    /// Whether a group is still there.
    pub(super) fn lives(&self, id: u64) -> bool {
        lives(self.grouping, &self.cgroup_paths, id)
    }

    fn family(&mut self, id: Option<u64>, comm: &str) -> &mut Family {
        let Some(id) = id.filter(|id| self.places.has_place(*id)) else { return &mut self.other };
        let Self { grouping, sent, own, cgroup_paths, .. } = self;
        own.entry(id).or_insert_with(|| {
            let mut labels = vec![(label(*grouping), id.to_string())];
            if *grouping == Grouping::Cgroup {
                if let Some(path) = find_cgroup(id) {
                    labels = vec![("cgroup", label_of_cgroup(&path))];
                    cgroup_paths.insert(id, path);
                }
            } else {
                labels.push(("comm", comm.to_owned()));
            }
            Family::new(sent, labels)
        })
    }

    /// Adds the measurements of the scheduler's programs.
    pub(super) fn scheduled(&mut self, group: &Group) {
        let family = self.family(group.id, &group.comm);
        let mut times = |name, labels: &[_], times: &Histogram| family.times(Source::Bpf, name, labels, times);
        times("ogive_kernel_run_queue_seconds", &[], &group.run_queue);
        times("ogive_kernel_wake_up_seconds", &[], &group.wake_up);
        times("ogive_kernel_slice_seconds", &[], &group.slice);
        for (cause, waits) in CAUSES.iter().zip(&group.off_cpu) {
            times("ogive_kernel_off_cpu_seconds", &[("cause", cause)], waits);
        }
        let mut count = |name, labels: &[_], more| family.count(Source::Bpf, name, labels, more);
        count("ogive_kernel_switches_total", &[("kind", "voluntary")], group.voluntary);
        count("ogive_kernel_switches_total", &[("kind", "involuntary")], group.involuntary);
        count("ogive_kernel_migrations_total", &[], group.migrations);
        count("ogive_kernel_wake_ups_total", &[], group.wake_ups);
    }

    /// Adds what the threads of a group did since the last reading.
    pub(super) fn threads(&mut self, id: u64, comm: &str, thread: &Thread) {
        let family = self.family(Some(id), comm);
        for (state, ns) in STATE_NAMES.iter().zip(thread.states_ns) {
            family.count(Source::Bpf, "ogive_kernel_state_nanoseconds_total", &[("state", state)], ns);
        }
        family.count(Source::Bpf, "ogive_kernel_system_calls_total", &[], thread.calls);
        family.count(Source::Bpf, "ogive_kernel_signals_total", &[], thread.signals);
        for (kind, faults) in [("minor", thread.minor_faults), ("major", thread.major_faults)] {
            family.count(Source::Bpf, "ogive_kernel_page_faults_total", &[("kind", kind)], faults);
        }
    }

    /// Adds the change of a group's counters in `/proc` since the last reading.
    pub(super) fn counted(&mut self, id: u64, comm: &str, more: &Scheduling) {
        let family = self.family(Some(id), comm);
        let mut count = |name, labels: &[_], more| family.count(Source::Proc, name, labels, more);
        count("ogive_kernel_on_cpu_nanoseconds_total", &[], more.ran_ns);
        count("ogive_kernel_run_queue_nanoseconds_total", &[], more.ready_ns);
        count("ogive_kernel_slices_total", &[], more.slices);
        count("ogive_kernel_block_io_delay_nanoseconds_total", &[], more.block_io_delay_ns);
        count("ogive_kernel_switches_total", &[("kind", "voluntary")], more.voluntary);
        count("ogive_kernel_switches_total", &[("kind", "involuntary")], more.involuntary);
    }

    /// Waits at a place of a process.
    pub(super) fn locked(&mut self, lock: &Lock) {
        let id = lock.process.and_then(|process| match self.grouping {
            Grouping::Cgroup => process_files::cgroup(process),
            Grouping::Process | Grouping::Thread => Some(process.into()),
        });
        let comm = lock.process.and_then(process_files::comm).unwrap_or_default();
        // A group that has ended has no name any more, and cannot have settled.
        let family = self.family(id.filter(|_| !comm.is_empty()), &comm);
        let labels = [("kind", lock.kind.name())];
        family.times(Source::Bpf, "ogive_kernel_lock_wait_seconds", &labels, &lock.waits);
        if lock.kind == WaitKind::Lock {
            family.times(Source::Bpf, "ogive_kernel_lock_hold_seconds", &[], &lock.holds);
        }
    }

    /// A system call.
    pub(super) fn call(&mut self, call: &Call) {
        let labels = [("call", call.name.as_str())];
        self.all.times(Source::Bpf, "ogive_kernel_call_seconds", &labels, &call.took);
        self.all.count(Source::Bpf, "ogive_kernel_calls_total", &labels, call.count);
        self.all.count(Source::Bpf, "ogive_kernel_call_errors_total", &labels, call.errors);
    }
}

/// Whether a process, a thread or a cgroup still exists. A cgroup without a known path is assumed to exist.
fn lives(grouping: Grouping, cgroup_paths: &HashMap<u64, PathBuf>, id: u64) -> bool {
    match grouping {
        Grouping::Process | Grouping::Thread => Path::new(&format!("/proc/{id}")).exists(),
        Grouping::Cgroup => {
            let same = |path: &PathBuf| path.metadata().is_ok_and(|found| found.ino() == id);
            cgroup_paths.get(&id).is_none_or(same)
        }
    }
}

/// The name of a cgroup, by its number, as the label of a group has it.
pub(super) fn cgroup_name(id: u64) -> Option<String> {
    find_cgroup(id).map(|path| label_of_cgroup(&path))
}

fn label_of_cgroup(path: &Path) -> String {
    format!("/{}", path.strip_prefix(CGROUPS).unwrap_or(path).display())
}

/// The directory of a cgroup, by its number.
fn find_cgroup(id: u64) -> Option<PathBuf> {
    let mut waiting = vec![PathBuf::from(CGROUPS)];
    for _ in 0..CGROUPS_MAX {
        let directory = waiting.pop()?;
        if directory.metadata().is_ok_and(|found| found.ino() == id) {
            return Some(directory);
        }
        let entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
        waiting.extend(
            entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()),
        );
    }
    None
}
