//! `ogive scale`: a workload with more and more workers, the law that its throughput follows, and what grows.
//!
//! Rounds go over every number of workers, one after the other, so that a slow minute of the machine meets all of them.

mod cpus;
mod measure;
mod report;
mod threads;
mod workload;

#[cfg(feature = "kernel")]
mod observer;
#[cfg(not(feature = "kernel"))]
#[path = "no_observer.rs"]
mod observer;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use super::terminal::Terminal;
use measure::Measure;
use observer::Observer;
use workload::Workload;

/// Runs a workload with increasing numbers of workers, fits the Universal Scalability Law, and names what limits it.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ogive scale -- ./work --threads {}               the same work with 1, 2, 3 ... threads, in runs per second
  ogive scale --by count -- ./bench -t {}          work done: the last number that the command prints
  ogive scale --workers 1-8 --oversubscribe -- gzip -k -c big.txt
                                                   one copy of the command per worker
  ogive scale --svg curve.svg -- ./work {}         the curve as a picture")]
pub(crate) struct Scale {
    /// Numbers of workers, such as 1-4 or 1,2,4,8; default: from one to the number of CPUs.
    #[arg(long, value_name = "LIST")]
    workers: Option<String>,
    /// CPUs in the order in which workers get them, such as 0-3 or 0,2,4; default: those this process may use.
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// Allow more workers than CPUs.
    #[arg(long)]
    oversubscribe: bool,
    /// Let every run use all CPUs; by default N workers get the first N.
    #[arg(long)]
    all_cpus: bool,
    /// How to count a run's work; default: `run` for a command with {}, `worker` for copies.
    #[arg(long, value_enum)]
    by: Option<Measure>,
    /// Rounds for each number of workers.
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Use the fastest round instead of the median: for machines with other load.
    #[arg(long)]
    best: bool,
    /// Read only /proc, and load nothing into the kernel.
    #[arg(long)]
    no_bpf: bool,
    /// Write the curve to this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
    /// Command to run; {} is replaced by the number of workers. Without {}, one copy is started per worker.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(options: &Scale, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let cpus = match &options.cpus {
        Some(list) => cpus::allowed(&cpus::list(list, usize::MAX).context("--cpus")?)?,
        None => ogive_probe::allowed_cpus(),
    };
    anyhow::ensure!(!cpus.is_empty(), "the system does not say which CPUs this process may use: name them with --cpus");
    let counts = match &options.workers {
        Some(list) => cpus::workers(list).context("--workers")?,
        None => cpus::up_to(cpus.len()),
    };
    let most = counts.iter().copied().max().unwrap_or(1);
    anyhow::ensure!(
        options.oversubscribe || most as usize <= cpus.len(),
        "{most} workers on {}: add --oversubscribe when that is meant",
        if cpus.len() == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", cpus.len()) }
    );
    let workload = Workload::new(&options.command, options.by, cpus, options.all_cpus);
    let (mut observer, without) = match Observer::start(options.no_bpf) {
        Ok(observer) => (observer, None),
        Err(reason) => (None, Some(reason)),
    };
    if let Some(reason) = &without {
        eprintln!("ogive: waits are read from /proc, 40 times a second: {reason}");
    }
    let mut runs = Vec::new();
    for round in 1..=options.rounds {
        for count in &counts {
            let run = workload.run(*count, observer.as_mut())?;
            eprintln!("round {round}: {count} workers, {:.3} s", run.wall_s);
            runs.push(run);
        }
    }
    let source = if observer.is_some() { "bpf" } else { "proc" };
    let report = report::Report::new(&options.command, workload.measure(), source, runs, options.best);
    if let Some(path) = &options.svg {
        let svg = report.svg().context("nothing was done that could be drawn")?;
        std::fs::write(path, svg).with_context(|| path.display().to_string())?;
    }
    if options.json {
        println!("{}", report.json());
    } else {
        print!("{}", report.text(terminal));
    }
    Ok(ExitCode::SUCCESS)
}
