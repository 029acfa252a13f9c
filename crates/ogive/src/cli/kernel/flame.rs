//! `ogive kernel flame`: stacks of tasks that run or wait, folded, and as a flame graph.

mod send;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use ogive_kernel::flamegraph::{self, Picture};
use ogive_kernel::folded::Folded;
use ogive_kernel::stacks::{Kind, RATE_MAX, Stacks};

use super::export::label;
use super::tasks::{Tasks, has_ended, online_cpus, wait};
use crate::cli::exit::EXIT_USAGE;
use crate::cli::observed::start_export;

/// Larger files are no folded stacks of ours: 262,144 stacks of 1 KiB.
const FILE_MAX: u64 = 256 << 20;

/// Samples the stacks of running tasks, or measures those of waiting ones: folded on standard output, as a flame graph
/// in a file, or as a series of a server.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ogive kernel flame -p 1234 --svg on.svg                where its CPU time goes
  ogive kernel flame -p 1234 --off-cpu --svg off.svg     where it waits
  ogive kernel flame -p 1234 > before.folded             folded stacks, for a comparison later
  ogive kernel flame -p 1234 --before before.folded --svg change.svg
  ogive kernel flame --from now.folded --before before.folded --svg change.svg
  ogive kernel flame --comm nginx --to http://127.0.0.1:6448 --seconds 86400    a series, for the page flame.html")]
pub(crate) struct Flame {
    #[command(flatten)]
    tasks: Tasks,
    /// Measure how long tasks are off the CPU, instead of sampling those on it.
    #[arg(long)]
    off_cpu: bool,
    /// Record for this many seconds.
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Samples per second and CPU.
    #[arg(long, value_name = "HZ", default_value = "99", value_parser = clap::value_parser!(u32).range(1..=i64::from(RATE_MAX)))]
    rate: u32,
    /// Write a flame graph to this file instead of printing the stacks.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Folded stacks of an earlier recording; the picture shows the difference.
    #[arg(long, value_name = "FILE", requires = "svg")]
    before: Option<PathBuf>,
    /// Draw these folded stacks instead of recording.
    #[arg(long, value_name = "FILE", requires = "svg", conflicts_with_all = ["pid", "comm", "cgroup"])]
    from: Option<PathBuf>,
    /// Send the stacks to this server or broker every ten seconds, as the series ogive_kernel_stacks, until
    /// --seconds have passed or Ctrl-C ends it.
    #[arg(long, value_name = "URL", conflicts_with_all = ["svg", "from"])]
    to: Option<String>,
    /// Label for the series, such as host=web-1. Repeatable.
    #[arg(long = "label", value_name = "NAME=VALUE", requires = "to", value_parser = label)]
    labels: Vec<(String, String)>,
}

pub(super) fn run(options: &Flame) -> anyhow::Result<ExitCode> {
    let tasks = &options.tasks;
    let is_named = tasks.pid.is_some() || tasks.comm.is_some() || tasks.cgroup.is_some();
    if !is_named && options.from.is_none() {
        eprintln!("ogive: name a process with -p, --comm or --cgroup, or a recording with --from");
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    if let Some(url) = &options.to {
        let (filter, exporter) = (tasks.filter()?, start_export(url, &options.labels)?);
        let length = Duration::from_secs(options.seconds);
        return send::run(&filter, kind(options), exporter, length);
    }
    // Before anything is recorded that could not be drawn.
    let before = options.before.as_deref().map(read).transpose()?;
    let stacks = match &options.from {
        Some(path) => read(path)?,
        None => record(options)?,
    };
    let Some(path) = &options.svg else {
        print!("{}", stacks.text());
        return Ok(ExitCode::SUCCESS);
    };
    let picture = Picture { title: &title(options), unit: unit(options), stacks: &stacks, before: before.as_ref() };
    let svg = flamegraph::svg(&picture).context("nothing was counted: there is nothing to draw")?;
    std::fs::write(path, svg).with_context(|| path.display().to_string())?;
    eprintln!("{}: {} {}", path.display(), stacks.total(), unit(options));
    Ok(ExitCode::SUCCESS)
}

fn kind(options: &Flame) -> Kind {
    if options.off_cpu { Kind::OffCpu } else { Kind::OnCpu(options.rate) }
}

fn record(options: &Flame) -> anyhow::Result<Folded> {
    let mut stacks = Stacks::start(&options.tasks.filter()?, kind(options), &online_cpus()?)?;
    for _ in 0..options.seconds {
        wait(1);
        stacks.look_up()?;
        if let Some(pid) = options.tasks.pid.filter(|pid| has_ended(*pid)) {
            eprintln!("ogive: process {pid} has ended");
            break;
        }
    }
    let folded = stacks.drain()?;
    match stacks.lost()? {
        0 => {}
        lost if options.off_cpu => eprintln!("ogive: {:.6} s of waiting found no room", lost as f64 / 1e9),
        lost => eprintln!("ogive: {lost} samples found no room"),
    }
    Ok(folded)
}

fn read(path: &Path) -> anyhow::Result<Folded> {
    let name = || path.display().to_string();
    let length = std::fs::metadata(path).with_context(name)?.len();
    anyhow::ensure!(length <= FILE_MAX, "{}: more than {FILE_MAX} bytes", path.display());
    let text = std::fs::read_to_string(path).with_context(name)?;
    Folded::parse(&text).with_context(name)
}

fn title(options: &Flame) -> String {
    let what = if options.off_cpu { "waiting" } else { "on the CPU" };
    match (&options.from, options.tasks.pid, &options.tasks.comm, &options.tasks.cgroup) {
        (Some(path), ..) => path.display().to_string(),
        (_, Some(pid), ..) => format!("process {pid}, {what}"),
        (_, _, Some(comm), _) => format!("{comm}, {what}"),
        (_, _, _, Some(cgroup)) => format!("{}, {what}", cgroup.display()),
        _ => what.to_owned(),
    }
}

fn unit(options: &Flame) -> &'static str {
    if options.off_cpu { "microseconds" } else { "samples" }
}
