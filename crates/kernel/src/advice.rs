//! Advice on the setup of a machine and a process: what a setting costs, and the command that would change it.
//!
//! Pure: two readings of the same machine in, advice out. Nothing is changed. A finding needs a cost that was counted
//! between the two readings; a setting alone is not a finding.

use crate::machine::{Machine, Quota, Task, written};

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What it is about: `interrupts`, `migrations`, `quota`, `sleep`, `frequency`, `numa`, `run queue` or `herd`.
    pub topic: &'static str,
    /// What was seen.
    pub seen: String,
    /// What it costs.
    pub costs: String,
    /// What would change it, in order of preference: commands, or what to do in the program.
    pub change: Vec<String>,
}

/// Interrupts a second of a device below which a CPU hardly notices.
const IRQS_MIN: f64 = 100.0;
/// Share of a CPU's time in interrupts from which on they are worth spreading.
const INTERRUPT_SHARE_MIN: f64 = 0.1;
/// Migrations of a thread in a second of its run time.
const MIGRATIONS_MIN: f64 = 50.0;
/// Wake-ups from a state of so much latency count.
const SLEEP_LATENCY_US_MIN: u64 = 50;
/// Wake-ups a second.
const SLEEPS_MIN: f64 = 10.0;
/// A frequency below this share of the highest costs.
const FREQUENCY_SHARE_MAX: f64 = 0.8;
/// Share of pages on other nodes than the CPUs.
const REMOTE_SHARE_MIN: f64 = 0.1;
/// Share of the time in which a process would run that it is ready and does not.
const WAIT_SHARE_MIN: f64 = 0.1;
/// A process uses so much of a CPU at least before its waits and migrations say anything.
const RUN_SHARE_MIN: f64 = 0.02;

/// What can be said of the time between two readings that are `seconds` apart; `process` is the one that they were made
/// for.
#[must_use]
pub fn advise(before: &Machine, after: &Machine, seconds: f64, process: Option<u32>) -> Vec<Advice> {
    if seconds.is_nan() || seconds <= 0.0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    interrupts(before, after, seconds, &mut found);
    quotas(before, after, seconds, &mut found);
    sleeps(before, after, seconds, &mut found);
    frequencies(after, &mut found);
    if let (Some(process), Some(first), Some(last)) = (process, &before.task, &after.task) {
        task(process, first, last, seconds, after, &mut found);
    }
    found
}

/// The CPUs that a process is held on, when it may not use all.
fn own_cpus(machine: &Machine) -> Option<&[usize]> {
    let allowed = machine.task.as_ref().map(|task| task.allowed.as_slice())?;
    (allowed.len() < machine.online.len() && !allowed.is_empty()).then_some(allowed)
}

#[allow(clippy::cast_precision_loss, reason = "rates and shares")]
fn rate(before: u64, after: u64, seconds: f64) -> f64 {
    after.saturating_sub(before) as f64 / seconds
}

/// Share of a CPU's time in interrupts.
#[allow(clippy::cast_precision_loss, reason = "a share")]
fn interrupt_share(before: &Machine, after: &Machine, cpu: usize) -> f64 {
    let (Some(first), Some(last)) = (before.interrupt_ticks.get(&cpu), after.interrupt_ticks.get(&cpu)) else {
        return 0.0;
    };
    let all = last.1.saturating_sub(first.1);
    if all == 0 { 0.0 } else { last.0.saturating_sub(first.0) as f64 / all as f64 }
}

fn interrupts(before: &Machine, after: &Machine, seconds: f64, found: &mut Vec<Advice>) {
    let own = own_cpus(after);
    for irq in &after.irqs {
        let Some(earlier) = before.irqs.iter().find(|other| other.number == irq.number) else { continue };
        for (cpu, count) in &irq.counts {
            let rate = rate(earlier.counts.get(cpu).copied().unwrap_or(*count), *count, seconds);
            let share = interrupt_share(before, after, *cpu);
            let is_own = own.is_some_and(|own| own.contains(cpu));
            if rate < IRQS_MIN || !(is_own || (own.is_none() && share >= INTERRUPT_SHARE_MIN)) {
                continue;
            }
            let away = |other: &usize| if is_own { !own.is_some_and(|own| own.contains(other)) } else { other != cpu };
            let others: Vec<usize> = after.online.iter().copied().filter(away).collect();
            let where_it_is = if is_own { "where the process is held" } else { "the busiest with interrupts" };
            let change = if others.is_empty() {
                vec![
                    "there is no other CPU: fewer interrupts by coalescing, ethtool -C INTERFACE adaptive-rx on"
                        .to_owned(),
                ]
            } else {
                vec![format!("echo {} > /proc/irq/{}/smp_affinity_list", written(&others), irq.number)]
            };
            found.push(Advice {
                topic: "interrupts",
                seen: format!(
                    "interrupt {} ({}) comes {rate:.0} times a second to CPU {cpu}, {where_it_is}",
                    irq.number, irq.name
                ),
                costs: format!(
                    "CPU {cpu} spends {:.1} % of its time in interrupts, this one's among them",
                    share * 100.0
                ),
                change,
            });
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "rates and shares")]
fn quotas(before: &Machine, after: &Machine, seconds: f64, found: &mut Vec<Advice>) {
    for (path, quota) in &after.quotas {
        let Some(earlier) = before.quotas.get(path) else { continue };
        let throttled = quota.throttled.saturating_sub(earlier.throttled);
        if throttled == 0 {
            continue;
        }
        let periods = quota.periods.saturating_sub(earlier.periods).max(throttled);
        let held_s = rate(earlier.throttled_ns, quota.throttled_ns, seconds) / 1e9;
        let limit = quota
            .limit_us
            .map_or_else(String::new, |(period, quota)| format!(", which gets {quota} of each {period} microseconds"));
        found.push(Advice {
            topic: "quota",
            seen: format!("cgroup {path}{limit}, was stopped in {throttled} of {periods} periods"),
            costs: format!(
                "its tasks stood still for {:.1} ms of each second, at most one period at a time",
                held_s * 1e3
            ),
            change: more_quota(path, quota, throttled as f64 / periods as f64),
        });
    }
}

/// Half more, or twice as much where most periods ended early.
fn more_quota(path: &str, quota: &Quota, share: f64) -> Vec<String> {
    let Some((period, now)) = quota.limit_us else {
        return vec![format!("a higher limit in a cgroup above {path}")];
    };
    let more = if share > 0.5 { now.saturating_mul(2) } else { now.saturating_add(now / 2) };
    let mut change = if quota.is_unified {
        vec![format!("echo '{more} {period}' > {path}/cpu.max")]
    } else {
        vec![format!("echo {more} > {path}/cpu.cfs_quota_us")]
    };
    let unit = path.rsplit('/').next().unwrap_or_default();
    if unit.ends_with(".service") || unit.ends_with(".slice") {
        let percent = more.saturating_mul(100) / period.max(1);
        change.insert(0, format!("systemctl set-property {unit} CPUQuota={percent}%"));
    }
    change
}

#[allow(clippy::cast_precision_loss, reason = "rates")]
fn sleeps(before: &Machine, after: &Machine, seconds: f64, found: &mut Vec<Advice>) {
    let own = own_cpus(after);
    let mut by_state: std::collections::BTreeMap<(usize, &str, u64), (f64, Vec<usize>)> = Default::default();
    for sleep in after.sleeps.iter().filter(|sleep| sleep.latency_us >= SLEEP_LATENCY_US_MIN) {
        let is_same = |other: &&crate::machine::Sleep| (other.cpu, other.state) == (sleep.cpu, sleep.state);
        let Some(earlier) = before.sleeps.iter().find(is_same) else { continue };
        let rate = rate(earlier.usage, sleep.usage, seconds);
        if rate >= SLEEPS_MIN && own.is_none_or(|own| own.contains(&sleep.cpu)) {
            let sum = by_state.entry((sleep.state, &sleep.name, sleep.latency_us)).or_default();
            sum.0 += rate;
            sum.1.push(sleep.cpu);
        }
    }
    for ((state, name, latency_us), (rate, cpus)) in by_state {
        let cpus = written(&cpus);
        found.push(Advice {
            topic: "sleep",
            seen: format!("CPUs {cpus} go into {name} {rate:.0} times a second"),
            costs: format!("each wake-up from it takes up to {latency_us} microseconds before the first instruction"),
            change: vec![
                format!("cpupower -c {cpus} idle-set -d {state}"),
                format!(
                    "for c in {}; do echo 1 > /sys/devices/system/cpu/cpu$c/cpuidle/state{state}/disable; done",
                    cpus_in_shell(&cpus)
                ),
            ],
        });
    }
}

/// `0-2,8` as words for a loop.
fn cpus_in_shell(cpus: &str) -> String {
    crate::machine::list(cpus).iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
}

#[allow(clippy::cast_precision_loss, reason = "a share")]
fn frequencies(after: &Machine, found: &mut Vec<Advice>) {
    let own = own_cpus(after);
    let mut by_governor: std::collections::BTreeMap<&str, (f64, Vec<usize>)> = Default::default();
    for (cpu, frequency) in &after.frequencies {
        let share = frequency.now_khz as f64 / frequency.most_khz.max(1) as f64;
        let is_slow = frequency.governor != "performance" && share < FREQUENCY_SHARE_MAX;
        if is_slow && own.is_none_or(|own| own.contains(cpu)) {
            let lowest = by_governor.entry(&frequency.governor).or_insert((1.0, Vec::new()));
            lowest.0 = lowest.0.min(share);
            lowest.1.push(*cpu);
        }
    }
    for (governor, (share, cpus)) in by_governor {
        let cpus = written(&cpus);
        found.push(Advice {
            topic: "frequency",
            seen: format!("the governor {governor} has CPUs {cpus} below their highest frequency"),
            costs: format!(
                "they run at {:.0} % of it and more: the first work after a pause takes that much longer",
                share * 100.0
            ),
            change: vec![format!("cpupower -c {cpus} frequency-set -g performance")],
        });
    }
}

#[allow(clippy::cast_precision_loss, reason = "rates and shares")]
fn task(process: u32, first: &Task, last: &Task, seconds: f64, machine: &Machine, found: &mut Vec<Advice>) {
    let run_s = rate(first.run_ns, last.run_ns, 1e9);
    let wait_s = rate(first.wait_ns, last.wait_ns, 1e9);
    let migrations = rate(first.migrations, last.migrations, 1.0);
    if run_s >= RUN_SHARE_MIN * seconds && migrations / run_s >= MIGRATIONS_MIN {
        found.push(Advice {
            topic: "migrations",
            seen: format!("{} threads changed their CPU {:.0} times a second", last.threads, migrations / seconds),
            costs: format!("once in each {:.2} ms that they ran, and then with cold caches", run_s / migrations * 1e3),
            change: vec![format!("taskset -apc {} {process}", written(pinned(last, machine)))],
        });
    }
    let wanted_s = run_s + wait_s;
    if wanted_s >= RUN_SHARE_MIN * seconds && wait_s / wanted_s >= WAIT_SHARE_MIN {
        let mut change = vec![format!("renice -n -5 -p {process}")];
        if let Some(own) = own_cpus(machine) {
            let all = written(&machine.online);
            change.insert(0, format!("taskset -apc {all} {process}  # it is held on {}", written(own)));
        }
        found.push(Advice {
            topic: "run queue",
            seen: format!(
                "it is ready and another has the CPU in {:.0} % of the time in which it would run",
                wait_s / wanted_s * 100.0
            ),
            costs: format!("{:.1} ms of each second, of all its threads together", wait_s / seconds * 1e3),
            change,
        });
    }
    remote_pages(process, last, machine, found);
}

/// As many CPUs as threads, of those that it may use.
fn pinned<'a>(task: &'a Task, machine: &'a Machine) -> &'a [usize] {
    let cpus = if task.allowed.is_empty() { &machine.online } else { &task.allowed };
    let count = usize::try_from(task.threads).unwrap_or(usize::MAX).clamp(1, cpus.len().max(1));
    &cpus[..count.min(cpus.len())]
}

#[allow(clippy::cast_precision_loss, reason = "a share")]
fn remote_pages(process: u32, task: &Task, machine: &Machine, found: &mut Vec<Advice>) {
    let is_near =
        |node: &usize| machine.nodes.get(node).is_some_and(|cpus| cpus.iter().any(|cpu| task.allowed.contains(cpu)));
    let all: u64 = task.pages.values().sum();
    let remote: u64 = task.pages.iter().filter(|(node, _)| !is_near(node)).map(|(_, pages)| pages).sum();
    let near: Vec<usize> = machine.nodes.keys().copied().filter(|node| is_near(node)).collect();
    if all == 0 || near.is_empty() || (remote as f64) < REMOTE_SHARE_MIN * all as f64 {
        return;
    }
    found.push(Advice {
        topic: "numa",
        seen: format!("{remote} of {all} pages are on nodes of memory of which the process may use no CPU"),
        costs: format!("{:.0} % of its memory is read through another node", remote as f64 / all as f64 * 100.0),
        change: vec![
            format!("migratepages {process} all {}", written(&near)),
            format!("numactl --cpunodebind={0} --membind={0} CMD, at its start", written(&near)),
        ],
    });
}

/// What a herd is, and what would end it: only the program can.
#[must_use]
pub fn herd(comm: &str, call: &str, woken: u32, took_us: f64, times: u64) -> Advice {
    let change = match call {
        "futex" => "in the program: pthread_cond_signal for each piece of work instead of a broadcast",
        "epoll_wait" | "epoll_pwait" | "accept" | "accept4" | "poll" | "ppoll" | "select" => {
            "in the program: EPOLLEXCLUSIVE, or a listening socket for each thread with SO_REUSEPORT"
        }
        _ => "in the program: wake one waiter for each piece of work",
    };
    let took =
        if took_us > 0.0 { format!("the call alone took {took_us:.0} microseconds, and then ") } else { String::new() };
    Advice {
        topic: "herd",
        seen: format!("{comm} woke up to {woken} threads within one {call}, {times} times"),
        costs: format!("{took}they all want a CPU for the work of one"),
        change: vec![change.to_owned()],
    }
}

#[cfg(test)]
mod tests;
