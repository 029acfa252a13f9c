//! `ogive clock`: which clock this host runs on, and whether it can be trusted.

mod bench;
mod handoff;
pub(crate) mod kernel;
pub(crate) mod kernel_log;
pub(crate) mod page;
mod point;
mod report;
mod settled;
#[cfg(test)]
mod testing;
mod trust;
mod watch;

use std::process::ExitCode;
use std::time::Duration;

use ogive_probe::{Clock, allowed_cpus};

use super::exit::EXIT_FINDING;
use super::terminal::Terminal;
use handoff::Handoffs;
use kernel::Directory;
use ogive_observe::clock::Figures;
use ogive_observe::clock::cost::{Effort, measure};
use ogive_observe::clock::read::TimeSource;
use settled::settled;
use trust::Evidence;

/// Pairs of CPUs that are compared: at 20 ms each, a third of a second on the largest machine.
const PAIRS_MAX: usize = 16;
const PAIR_BUDGET: Duration = Duration::from_millis(20);

/// Shows which clock this host runs on, what reads cost, and whether it can be trusted.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[command(
    after_help = "Exit codes: 0 the clock can be trusted, 1 a finding (the last line says which), 2 wrong usage."
)]
pub(crate) struct ClockCommand {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print one flat JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    directory: Directory,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Bench(bench::Bench),
    Watch(watch::Watch),
}

/// Runs the command.
pub(crate) fn run(options: &ClockCommand, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    match &options.command {
        None => show(options, terminal),
        Some(Command::Bench(bench)) => bench::run(bench),
        Some(Command::Watch(watch)) => watch::run(watch),
    }
}

fn show(options: &ClockCommand, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let clock = settled(&options.directory);
    let costs = measure(clock, &TimeSource::COSTS, Effort::FULL);
    let cpus = allowed_cpus();
    let handoffs = compare(&cpus, clock);
    let figures = Figures::now(clock, options.directory.ask());
    let offset_ns = handoffs.iter().filter_map(|found| found.offset_ns).max_by(|a, b| a.abs().total_cmp(&b.abs()));
    let backward = handoffs.iter().map(|found| found.backward).sum();
    let evidence = Evidence { figures: &figures, costs: &costs, offset_ns, backward };
    let verdict = trust::judge(&evidence);
    if options.json {
        let object = report::json(&evidence, handoffs.len(), cpus.len(), &verdict);
        println!("{}", serde_json::Value::Object(object));
    } else {
        print!("{}", report::text(&evidence, handoffs.len(), cpus.len(), &verdict, terminal));
    }
    Ok(if verdict.trusted() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FINDING) })
}

/// Exchanges ordered readings between the first CPU and the others.
fn compare(cpus: &[usize], clock: Clock) -> Vec<Handoffs> {
    let pairs = handoff::pairs(cpus, PAIRS_MAX);
    pairs.into_iter().map(|pair| handoff::between(pair, TimeSource::TicksOrdered, clock, PAIR_BUDGET)).collect()
}
