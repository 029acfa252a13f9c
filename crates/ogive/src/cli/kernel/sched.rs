//! `ogive kernel sched`: the scheduler as histograms.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum;
use ogive_hist::Histogram;
use ogive_kernel::sched::{Drained, GROUPS_MAX, Group, Herd, Interrupt, Options, Scheduler};
use ogive_kernel::{CAUSES, Grouping};
use serde_json::{Value, json};

use super::locks::maps;
use super::tasks::{Tasks, durations, quantile, wait};
use crate::cli::format::{human, thousands};

/// Measures run-queue latency, slices, waits by cause, interrupts and herds, every one of them.
#[derive(clap::Args, Debug)]
pub(crate) struct Sched {
    #[command(flatten)]
    tasks: Tasks,
    /// Observe for this many seconds.
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// What forms a group.
    #[arg(long, value_enum, default_value = "process")]
    by: By,
    /// Number of groups counted separately at a time, 88 KiB of kernel memory each; the rest are merged into
    /// `other`.
    #[arg(long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u32).range(1..=i64::from(GROUPS_MAX)))]
    groups: u32,
    /// Report a herd when one system call wakes this many threads; costs two programs per system call.
    #[arg(long, value_name = "N", default_value = "0")]
    herds: u32,
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum By {
    Process,
    Thread,
    Cgroup,
}

impl By {
    pub(super) fn grouping(self) -> Grouping {
        match self {
            Self::Process => Grouping::Process,
            Self::Thread => Grouping::Thread,
            Self::Cgroup => Grouping::Cgroup,
        }
    }
}

/// Everything since the start.
#[derive(Default)]
struct Sums {
    groups: BTreeMap<(Option<u64>, String), Group>,
    interrupts: Vec<Interrupt>,
    herds: Vec<Herd>,
    lost_herds: u64,
    unseen: u64,
}

pub(super) fn run(options: &Sched) -> anyhow::Result<ExitCode> {
    let grouping = options.by.grouping();
    let filter = options.tasks.filter()?;
    let asked = Options {
        filter,
        grouping,
        groups: options.groups,
        herd_min: options.herds,
        interrupts: true,
        maps: Some(maps),
    };
    let mut scheduler = Scheduler::start(asked)?;
    let lives = |id: u64| grouping == Grouping::Cgroup || Path::new(&format!("/proc/{id}")).exists();
    let mut sums = Sums::default();
    for _ in 0..options.seconds {
        wait(1);
        sums.add(scheduler.drain(lives)?);
    }
    if options.json {
        println!("{}", sums.object());
    } else {
        sums.print();
    }
    Ok(ExitCode::SUCCESS)
}

fn merge(into: &mut Histogram, more: &Histogram) {
    into.merge(more).expect("both are of one scheme");
}

impl Sums {
    fn add(&mut self, drained: Drained) {
        for group in drained.groups {
            let key = (group.id, group.comm.clone());
            match self.groups.get_mut(&key) {
                Some(sum) => add_group(sum, group),
                None => {
                    self.groups.insert(key, group);
                }
            }
        }
        for interrupt in drained.interrupts {
            match self.interrupts.iter_mut().find(|sum| sum.kind == interrupt.kind) {
                Some(sum) => {
                    merge(&mut sum.took, &interrupt.took);
                    sum.cpus_ns.iter_mut().zip(interrupt.cpus_ns).for_each(|(sum, more)| *sum += more);
                }
                None => self.interrupts.push(interrupt),
            }
        }
        // The largest are shown; a thousand are kept.
        self.herds.extend(drained.herds);
        self.herds.sort_by_key(|herd| std::cmp::Reverse(herd.woken));
        self.herds.truncate(1000);
        self.lost_herds += drained.lost_herds;
        self.unseen += drained.unseen;
    }

    fn print(&self) {
        println!(
            "{:>8} {:<15} {:>9} {:>9} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9}  waits for",
            "id", "comm", "voluntary", "preempted", "migr", "rq p50", "rq p99", "rq max", "slice p50", "on CPU"
        );
        let mut groups: Vec<&Group> = self.groups.values().collect();
        groups.sort_by(|a, b| on_cpu(b).total_cmp(&on_cpu(a)));
        for group in &groups {
            println!("{}", row(group));
        }
        let worst = groups.iter().filter_map(|group| group.worst.as_ref()).max_by_key(|worst| worst.waited_ns);
        if let Some(worst) = worst {
            #[allow(clippy::cast_precision_loss, reason = "for people")]
            let waited = human(worst.waited_ns as f64 / 1e9, "s");
            println!(
                "longest wait for a CPU: {waited} of {} ({}), behind {} ({}) on CPU {}",
                worst.comm, worst.tid, worst.by_comm, worst.by_tid, worst.cpu
            );
        }
        println!("{:<12} {:>12} {:>9} {:>9} {:>9} {:>9}", "interrupt", "count", "p50", "p99", "max", "time");
        for interrupt in &self.interrupts {
            let took = &interrupt.took;
            let time = if interrupt.cpus_ns.is_empty() { "-".to_owned() } else { human(took.sum.unwrap_or(0.0), "s") };
            let at = |q| quantile(took, q);
            println!(
                "{:<12} {:>12} {:>9} {:>9} {:>9} {time:>9}",
                interrupt.kind,
                thousands(took.total()),
                at(0.5),
                at(0.99),
                at(1.0)
            );
        }
        for herd in self.herds.iter().take(10) {
            #[allow(clippy::cast_precision_loss, reason = "for people")]
            let took = human(herd.took_ns as f64 / 1e9, "s");
            println!(
                "herd of {}: {} ({}) in {}, {took}{}",
                herd.woken,
                herd.comm,
                herd.tid,
                herd.call,
                path(&herd.frames)
            );
        }
        if self.lost_herds > 0 {
            println!("{} herds did not fit between two readings", self.lost_herds);
        }
    }

    fn object(&self) -> Value {
        let interrupt = |interrupt: &Interrupt| json!({ "kind": interrupt.kind, "took": durations(&interrupt.took), "cpus_ns": interrupt.cpus_ns });
        let herd = |herd: &Herd| json!({ "tid": herd.tid, "pid": herd.tgid, "comm": herd.comm, "call": herd.call, "woken": herd.woken, "took_ns": herd.took_ns, "frames": herd.frames });
        json!({
            "groups": self.groups.values().map(object).collect::<Vec<_>>(),
            "interrupts": self.interrupts.iter().map(interrupt).collect::<Vec<_>>(),
            "herds": self.herds.iter().map(herd).collect::<Vec<_>>(),
            "lost_herds": self.lost_herds,
            "unseen": self.unseen,
        })
    }
}

/// The functions that lead there, the nearest first.
fn path(frames: &[String]) -> String {
    if frames.is_empty() { String::new() } else { format!(", from {}", frames.join(" < ")) }
}

fn add_group(sum: &mut Group, more: Group) {
    for (into, from) in
        [(&mut sum.run_queue, &more.run_queue), (&mut sum.wake_up, &more.wake_up), (&mut sum.slice, &more.slice)]
    {
        merge(into, from);
    }
    sum.off_cpu.iter_mut().zip(&more.off_cpu).for_each(|(into, from)| merge(into, from));
    sum.voluntary += more.voluntary;
    sum.involuntary += more.involuntary;
    sum.migrations += more.migrations;
    sum.wake_ups += more.wake_ups;
    let waited = |worst: &Option<_>| worst.as_ref().map_or(0, |worst: &ogive_kernel::sched::Worst| worst.waited_ns);
    if waited(&more.worst) > waited(&sum.worst) {
        sum.worst = more.worst;
    }
}

fn on_cpu(group: &Group) -> f64 {
    group.slice.sum.unwrap_or(0.0)
}

fn row(group: &Group) -> String {
    let mut waits: Vec<(f64, &str)> =
        group.off_cpu.iter().zip(CAUSES).map(|(times, cause)| (times.sum.unwrap_or(0.0), cause)).collect();
    waits.sort_by(|a, b| b.0.total_cmp(&a.0));
    let waits: Vec<String> = waits
        .iter()
        .filter(|(seconds, _)| *seconds > 0.0)
        .take(3)
        .map(|(seconds, cause)| format!("{cause} {}", human(*seconds, "s")))
        .collect();
    format!(
        "{:>8} {:<15} {:>9} {:>9} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9}  {}",
        group.id.map_or_else(|| "-".to_owned(), |id| id.to_string()),
        group.comm,
        thousands(group.voluntary),
        thousands(group.involuntary),
        thousands(group.migrations),
        quantile(&group.run_queue, 0.5),
        quantile(&group.run_queue, 0.99),
        quantile(&group.run_queue, 1.0),
        quantile(&group.slice, 0.5),
        human(on_cpu(group), "s"),
        waits.join(", "),
    )
}

fn object(group: &Group) -> Value {
    let off_cpu: serde_json::Map<String, Value> =
        CAUSES.iter().zip(&group.off_cpu).map(|(cause, times)| ((*cause).to_owned(), durations(times))).collect();
    let worst = group.worst.as_ref().map(|worst| {
        json!({
            "waited_ns": worst.waited_ns, "tid": worst.tid, "comm": worst.comm, "by_tid": worst.by_tid,
            "by_comm": worst.by_comm, "cpu": worst.cpu,
        })
    });
    json!({
        "id": group.id, "comm": group.comm, "run_queue": durations(&group.run_queue), "wake_up": durations(&group.wake_up),
        "slice": durations(&group.slice), "off_cpu": off_cpu, "voluntary": group.voluntary, "involuntary": group.involuntary,
        "migrations": group.migrations, "wake_ups": group.wake_ups, "worst": worst,
    })
}
