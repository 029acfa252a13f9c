//! `ogive kernel export`: what the kernel's programs measure, as series of a server.

mod groups;
mod kept;
mod machine;
mod observation;
mod parts;
mod process_files;
mod processes;
mod questions;
mod role;
mod sent;
mod stack_series;
mod threads;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use ogive_kernel::sched::GROUPS_MAX;
use ogive_probe::{Clock, HiccupMeter};

use super::sched::By;
use super::tasks::Tasks;
use crate::cli::observed::{Signals, end_export, start_export};
use crate::cli::wire::label_of;
use kept::NamedQuestion;
pub(super) use kept::{QuestionSeries, check_name};
use parts::{Part, Settings};
pub(crate) use role::{KernelOptions, KernelRole};
pub(super) use sent::Sent;
pub(super) use stack_series::StackSeries;

/// Labels of the observer's series.
const OWN_LABELS: [&str; 16] = [
    "call",
    "cause",
    "cgroup",
    "comm",
    "cpu",
    "interrupt",
    "kind",
    "part",
    "pid",
    "place",
    "resource",
    "softirq",
    "source",
    "state",
    "thread",
    "what",
];

/// Sends kernel measurements as series every second, each exactly once: run-queue latency, waits, microstates,
/// interrupts, calls. Where the kernel refuses the programs, sends counters from /proc.
#[derive(clap::Args, Debug)]
pub(crate) struct Export {
    /// URL of a server or broker, such as http://127.0.0.1:6448.
    #[arg(long, value_name = "URL")]
    to: String,
    #[command(flatten)]
    tasks: Tasks,
    /// What to observe.
    #[arg(long, value_name = "PART", value_enum, value_delimiter = ',', default_value = "sched,interrupts,micro")]
    observe: Vec<Part>,
    /// Answer this question and keep its answer as series of this name, as `ogive kernel ask --keep` does.
    /// Repeatable.
    #[arg(long = "ask", value_name = "NAME=QUESTION", value_parser = NamedQuestion::parse)]
    asked: Vec<NamedQuestion>,
    /// What forms a group, and becomes a label.
    #[arg(long, value_enum, default_value = "process")]
    by: By,
    /// Number of groups with their own series; the rest are merged into `other`.
    #[arg(long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u32).range(1..=i64::from(GROUPS_MAX)))]
    groups: u32,
    /// Number of wake-ups within one system call that count as a herd.
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u32).range(2..))]
    herds: u32,
    /// Percent of a core that the observer may use; above that, it first turns off what costs most per system
    /// call.
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = percent)]
    budget: f64,
    /// Label for every series, such as host=web-1. Repeatable.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Stop after this many seconds.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
}

/// A label besides those of the observer, as NAME=VALUE.
pub(super) fn label(text: &str) -> Result<(String, String), String> {
    label_of(text, &OWN_LABELS)
}

/// A percentage above 0, up to 100 for each of 1,024 cores.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<f64>().ok();
    number
        .filter(|number| *number > 0.0 && *number <= 102_400.0)
        .ok_or_else(|| format!("{text:?} is no percentage above 0"))
}

pub(super) fn run(options: &Export) -> anyhow::Result<ExitCode> {
    let settings = Settings {
        parts: options.observe.clone(),
        asked: options.asked.clone(),
        filter: options.tasks.filter()?,
        grouping: options.by.grouping(),
        groups: options.groups,
        herd_min: options.herds,
        core_share_max: options.budget / 100.0,
    };
    settings.check()?;
    let exporter = start_export(&options.to, &options.labels)?;
    let hiccups = HiccupMeter::start(Clock::global()).context("starting the hiccup meter")?;
    for cpu in hiccups.cpus() {
        let labels = [("cpu", &*cpu.cpu().to_string()), ("source", "self")];
        exporter.cells().recorder("ogive_hiccup_seconds", &labels, cpu.recorder())?;
    }
    let (runtime, mut signals) = Signals::new()?;
    let running = observation::start(settings, exporter.cells().clone()).context("starting a thread")?;
    runtime.block_on(signals.end(options.seconds.map(Duration::from_secs)));
    running.stop();
    Ok(end_export(exporter))
}
