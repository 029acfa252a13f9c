//! Readings of a machine and of one process from /proc and /sys: counters, read twice to see what happened in between.
//!
//! Pure: files come through a [`Source`]. Limits: [`CGROUPS_MAX`] cgroups, [`THREADS_MAX`] threads. Files that are
//! missing, or not in the kernel's format, are skipped.

use std::collections::BTreeMap;

/// Cgroups that are looked at; a machine with more has their parents' figures.
pub const CGROUPS_MAX: usize = 2000;
/// Threads of the process that are looked at.
pub const THREADS_MAX: usize = 5000;
/// Levels of cgroups below the root.
const DEPTH_MAX: usize = 8;

/// Where the files are.
pub trait Source {
    /// The text of a file; `None` when it cannot be read.
    fn read(&self, path: &str) -> Option<String>;
    /// Names in a directory; none when it cannot be read.
    fn list(&self, path: &str) -> Vec<String>;
}

/// An interrupt of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Irq {
    /// Its number.
    pub number: u32,
    /// The device.
    pub name: String,
    /// How often, by CPU.
    pub counts: BTreeMap<usize, u64>,
}

/// How often a cgroup was held back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Periods in which it wanted to run.
    pub periods: u64,
    /// Periods in which it was stopped until the next.
    pub throttled: u64,
    /// For how long in all.
    pub throttled_ns: u64,
    /// Whether it is of the second generation of cgroups.
    pub is_unified: bool,
    /// Microseconds of a period, and those of them that it gets, of all CPUs together; `None` without a limit.
    pub limit_us: Option<(u64, u64)>,
}

/// A state in which a CPU sleeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// The CPU.
    pub cpu: usize,
    /// The state's number.
    pub state: usize,
    /// Its name.
    pub name: String,
    /// What it takes to come back, as the driver has it.
    pub latency_us: u64,
    /// How often.
    pub usage: u64,
}

/// How fast a CPU is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frequency {
    /// Who chooses.
    pub governor: String,
    /// What it runs at.
    pub now_khz: u64,
    /// What it could run at.
    pub most_khz: u64,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// CPUs that it may use.
    pub allowed: Vec<usize>,
    /// Threads.
    pub threads: u64,
    /// Times that they went on on another CPU.
    pub migrations: u64,
    /// Nanoseconds on a CPU.
    pub run_ns: u64,
    /// Nanoseconds ready for one.
    pub wait_ns: u64,
    /// Pages by node of memory.
    pub pages: BTreeMap<usize, u64>,
    /// Its cgroups, as [`Machine::quotas`] names them.
    pub cgroups: Vec<String>,
}

/// One reading of everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// CPUs that are there.
    pub online: Vec<usize>,
    /// Interrupts of devices.
    pub irqs: Vec<Irq>,
    /// Hundredths of a second by CPU: hard and soft interrupts, and all.
    pub interrupt_ticks: BTreeMap<usize, (u64, u64)>,
    /// By directory.
    pub quotas: BTreeMap<String, Quota>,
    /// Sleeping states.
    pub sleeps: Vec<Sleep>,
    /// By CPU.
    pub frequencies: BTreeMap<usize, Frequency>,
    /// CPUs by node of memory.
    pub nodes: BTreeMap<usize, Vec<usize>>,
    /// The process that was named.
    pub task: Option<Task>,
}

impl Machine {
    /// Reads everything, of a process as well when one is named.
    #[must_use]
    pub fn read(source: &dyn Source, process: Option<u32>) -> Self {
        let text = |path: &str| source.read(path).unwrap_or_default();
        let online = list(&text("/sys/devices/system/cpu/online"));
        let task = process.and_then(|process| task(source, process));
        let mut machine = Self {
            irqs: irqs(&text("/proc/interrupts")),
            interrupt_ticks: interrupt_ticks(&text("/proc/stat")),
            quotas: quotas(source, task.as_ref()),
            task,
            ..Self::default()
        };
        for cpu in &online {
            machine.sleeps.extend(sleeps(source, *cpu));
            machine.frequencies.extend(frequency(source, *cpu).map(|frequency| (*cpu, frequency)));
        }
        for node in list(&text("/sys/devices/system/node/online")) {
            machine.nodes.insert(node, list(&text(&format!("/sys/devices/system/node/node{node}/cpulist"))));
        }
        machine.online = online;
        machine
    }
}

/// `0-3,8`, as the kernel writes sets of CPUs; empty when it is none.
#[must_use]
pub fn list(text: &str) -> Vec<usize> {
    // CONFIG_NR_CPUS is 8192 at most.
    const MOST: usize = 8192;
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (Ok(from), Ok(to)) = (from.parse::<usize>(), to.parse::<usize>()) else { return Vec::new() };
        if from > to || to >= MOST {
            return Vec::new();
        }
        numbers.extend(from..=to);
    }
    numbers
}

/// `0-3,8` of a set of CPUs.
#[must_use]
pub fn written(cpus: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for cpu in cpus {
        match parts.last_mut() {
            Some((_, to)) if *to + 1 == *cpu => *to = *cpu,
            _ => parts.push((*cpu, *cpu)),
        }
    }
    let text = parts.iter().map(|(from, to)| if from == to { from.to_string() } else { format!("{from}-{to}") });
    text.collect::<Vec<_>>().join(",")
}

/// /proc/interrupts: a line of CPUs, then a line for each interrupt. Those of devices have numbers.
fn irqs(text: &str) -> Vec<Irq> {
    let mut lines = text.lines();
    let names = lines.next().unwrap_or_default().split_ascii_whitespace();
    let cpus: Vec<usize> = names.filter_map(|name| name.strip_prefix("CPU")?.parse().ok()).collect();
    let irq = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let number = number.trim().parse().ok()?;
        let mut words = rest.split_ascii_whitespace();
        let counts = cpus.iter().map(|cpu| Some((*cpu, words.next()?.parse().ok()?))).collect::<Option<_>>()?;
        Some(Irq { number, name: words.last().unwrap_or("?").to_owned(), counts })
    };
    lines.filter_map(irq).collect()
}

/// /proc/stat: `cpu0 user nice system idle iowait irq softirq steal ...`.
fn interrupt_ticks(text: &str) -> BTreeMap<usize, (u64, u64)> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        let ticks: Vec<u64> = words.take(8).map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let interrupts = ticks.get(5)?.saturating_add(*ticks.get(6)?);
        Some((cpu, (interrupts, ticks.iter().fold(0, |sum: u64, ticks| sum.saturating_add(*ticks)))))
    };
    text.lines().filter_map(line).collect()
}

/// `name value`, a line each.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix([' ', ':', '\t']))?;
    line.trim_start_matches([' ', ':', '\t']).split_ascii_whitespace().next()?.parse().ok()
}

/// Every cgroup with a quota that has been at its end; those of the process first.
fn quotas(source: &dyn Source, task: Option<&Task>) -> BTreeMap<String, Quota> {
    let mut quotas = BTreeMap::new();
    let mut next: Vec<(String, usize)> = Vec::new();
    if let Some(task) = task {
        next.extend(task.cgroups.iter().map(|path| (path.clone(), DEPTH_MAX)));
    } else {
        next.extend(CPU_ROOTS.iter().map(|root| ((*root).to_owned(), 0)));
    }
    let mut looked = 0;
    while let Some((path, depth)) = next.pop() {
        looked += 1;
        if looked > CGROUPS_MAX {
            break;
        }
        quotas.extend(quota(source, &path).map(|quota| (path.clone(), quota)));
        if depth < DEPTH_MAX {
            let is_cgroup = |name: &String| !name.contains('.') || UNITS.iter().any(|unit| name.ends_with(unit));
            let below = source.list(&path).into_iter().filter(is_cgroup);
            next.extend(below.map(|name| (format!("{path}/{name}"), depth + 1)));
        }
    }
    quotas
}

/// Where cgroups with a quota are: of the second generation, then of the first.
const CPU_ROOTS: [&str; 3] = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];

/// Cgroups whose names have a dot; other names with one are files.
const UNITS: [&str; 6] = [".slice", ".service", ".scope", ".mount", ".socket", ".swap"];

fn quota(source: &dyn Source, path: &str) -> Option<Quota> {
    let stat = source.read(&format!("{path}/cpu.stat"))?;
    let number = |name: &str| source.read(&format!("{path}/{name}"))?.trim().parse::<u64>().ok();
    let is_unified = field(&stat, "throttled_time").is_none();
    let limit_us = if is_unified {
        let text = source.read(&format!("{path}/cpu.max")).unwrap_or_default();
        let (quota, period) = text.trim().split_once(' ').unwrap_or(("max", ""));
        Some((period.parse().ok(), quota.parse().ok()))
    } else {
        Some((number("cpu.cfs_period_us"), number("cpu.cfs_quota_us")))
    };
    Some(Quota {
        periods: field(&stat, "nr_periods")?,
        throttled: field(&stat, "nr_throttled")?,
        throttled_ns: field(&stat, "throttled_time")
            .or_else(|| field(&stat, "throttled_usec").map(|us| us.saturating_mul(1000)))?,
        is_unified,
        limit_us: limit_us.and_then(|(period, quota)| Some((period?, quota?))),
    })
}

fn sleeps(source: &dyn Source, cpu: usize) -> Vec<Sleep> {
    let directory = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
    let sleep = |entry: String| {
        let state = entry.strip_prefix("state")?.parse().ok()?;
        let text = |name: &str| source.read(&format!("{directory}/{entry}/{name}"));
        let number = |name: &str| text(name)?.trim().parse::<u64>().ok();
        if number("disable").unwrap_or(0) != 0 {
            return None;
        }
        let name = text("name")?.trim().to_owned();
        Some(Sleep { cpu, state, name, latency_us: number("latency")?, usage: number("usage")? })
    };
    source.list(&directory).into_iter().filter_map(sleep).collect()
}

fn frequency(source: &dyn Source, cpu: usize) -> Option<Frequency> {
    let text = |name: &str| source.read(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/{name}"));
    let number = |name: &str| text(name)?.trim().parse::<u64>().ok();
    let governor = text("scaling_governor")?.trim().to_owned();
    Some(Frequency { governor, now_khz: number("scaling_cur_freq")?, most_khz: number("cpuinfo_max_freq")? })
}

fn task(source: &dyn Source, process: u32) -> Option<Task> {
    let status = source.read(&format!("/proc/{process}/status"))?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(list).unwrap_or_default();
    let mut task = Task { allowed, ..Task::default() };
    for thread in source.list(&format!("/proc/{process}/task")).into_iter().take(THREADS_MAX) {
        let text = |name: &str| source.read(&format!("/proc/{process}/task/{thread}/{name}")).unwrap_or_default();
        let times: Vec<u64> = text("schedstat").split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
        task.threads += 1;
        task.run_ns = task.run_ns.saturating_add(times.first().copied().unwrap_or(0));
        task.wait_ns = task.wait_ns.saturating_add(times.get(1).copied().unwrap_or(0));
        task.migrations = task.migrations.saturating_add(field(&text("sched"), "se.nr_migrations").unwrap_or(0));
    }
    for word in source.read(&format!("/proc/{process}/numa_maps")).unwrap_or_default().split_ascii_whitespace() {
        let pages = word.strip_prefix('N').and_then(|word| word.split_once('='));
        if let Some((Ok(node), Ok(pages))) = pages.map(|(node, pages)| (node.parse(), pages.parse::<u64>())) {
            let sum: &mut u64 = task.pages.entry(node).or_default();
            *sum = sum.saturating_add(pages);
        }
    }
    task.cgroups = cgroups(&source.read(&format!("/proc/{process}/cgroup")).unwrap_or_default());
    Some(task)
}

/// /proc/PID/cgroup: the directories of those that may have a quota, their parents included.
fn cgroups(text: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let roots: &[&str] = match controllers {
            "" => &["/sys/fs/cgroup"],
            _ if controllers.split(',').any(|controller| controller == "cpu") => &CPU_ROOTS[1..],
            _ => continue,
        };
        let path = path.trim_end_matches('/');
        let ends = path.match_indices('/').skip(1).map(|(at, _)| at).chain([path.len()]).filter(|end| *end > 0);
        paths.extend(ends.flat_map(|end| roots.iter().map(move |root| format!("{root}{}", &path[..end]))));
    }
    paths.truncate(CGROUPS_MAX);
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_cpus_are_read_and_written() {
        assert_eq!(list("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(written(&[0, 1, 2, 8, 10, 11]), "0-2,8,10-11");
        for broken in ["", "a", "3-1", "0-99999999999", "1-", "0-8192"] {
            assert_eq!(list(broken), [0_usize; 0], "{broken:?}");
        }
    }

    #[test]
    fn interrupts_of_devices_are_those_with_numbers() {
        let text = "           CPU0       CPU2\n 36:   5   6920710 PCI-MSIX-0000:00:02.0 1-edge virtio1-req.0\nLOC: 1 2 Local\n 40: 7\n";
        let found = irqs(text);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].number, found[0].name.as_str()), (36, "virtio1-req.0"));
        assert_eq!(found[0].counts, BTreeMap::from([(0, 5), (2, 6_920_710)]));
    }

    #[test]
    fn ticks_and_fields_are_found() {
        let ticks = interrupt_ticks("cpu  1 2 3 4 5 6 7 8 0 0\ncpu1 1 2 3 4 5 6 7 8 0 0\nintr 5\ncpu2 1\n");
        assert_eq!(ticks, BTreeMap::from([(1, (13, 36))]));
        assert_eq!(field("nr_periods 5\nnr_throttled 3\n", "nr_throttled"), Some(3));
        assert_eq!(field("se.nr_migrations           :     17\n", "se.nr_migrations"), Some(17));
        assert_eq!(field("nr_throttled_more 3\n", "nr_throttled"), None);
    }

    #[test]
    fn cgroups_of_both_generations_have_their_parents_with_them() {
        let found = cgroups("4:cpu,cpuacct:/a/b\n3:memory:/x\n0::/user.slice/y.scope\n");
        assert_eq!(
            found,
            [
                "/sys/fs/cgroup/cpu/a",
                "/sys/fs/cgroup/cpu,cpuacct/a",
                "/sys/fs/cgroup/cpu/a/b",
                "/sys/fs/cgroup/cpu,cpuacct/a/b",
                "/sys/fs/cgroup/user.slice",
                "/sys/fs/cgroup/user.slice/y.scope",
            ]
        );
        assert_eq!(cgroups("0::/\nbroken\n"), [""; 0]);
    }
}
