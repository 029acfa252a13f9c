//! `ogive clock bench`: what the clocks of this host do under contention, between CPUs, and with delays that are known.
//!
//! Each section runs all clocks in turn. With `--sources` the contention part is repeated under every clock source of
//! the kernel.

mod contention;
mod delay;
mod host;
mod interrupt;
mod progress;
mod report;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ogive_probe::{Clock, SystemClock, allowed_cpus};

use super::handoff::{self, Handoffs};
use super::kernel::{Directory, Switch};
use super::point::Point;
use super::settled::settled;
use crate::cli::exit::EXIT_FINDING;
use ogive_observe::clock::Figures;
use ogive_observe::clock::read::TimeSource;
use progress::Progress;

/// 1,024: more threads would only measure the scheduler.
const THREADS_MAX: usize = 1_024;
/// The kernel needs a moment to switch to a clock source, and our calibration a second to notice.
const SOURCE_SETTLE: Duration = Duration::from_millis(50);

/// Measures all clocks of this host: contention, handoffs between CPUs, known delays.
#[derive(clap::Args, Debug)]
#[command(after_help = "The exit code is 1 when an ordered clock of Ogive was seen to go back.")]
pub(crate) struct Bench {
    /// Threads that read the clock beside the measuring one; give several numbers for several tables.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "0,1,2,4", value_parser = threads)]
    threads: Vec<usize>,
    /// Seconds per clock and number of threads.
    #[arg(long, value_name = "S", default_value = "0.2", value_parser = seconds)]
    seconds: f64,
    /// Switch the whole machine's kernel clock source to each one in turn, and back; needs root.
    #[arg(long)]
    sources: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    directory: Directory,
}

fn threads(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(number) if number <= THREADS_MAX => Ok(number),
        _ => Err(format!("give numbers from 0 to {THREADS_MAX}, such as 0,1,2,4")),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.001..=3_600.0).contains(&number) => Ok(number),
        _ => Err("give seconds from 0.001 to 3600".into()),
    }
}

/// The contention part under one clock source of the kernel.
#[derive(Debug)]
struct Part {
    source: String,
    tables: Vec<contention::Table>,
    /// By how much CLOCK_MONOTONIC stepped relative to the counter when switching to this source; `None` for the one
    /// that was in use.
    step_ns: Option<f64>,
}

/// All that was measured.
#[derive(Debug)]
struct Measurements {
    figures: Figures,
    cpus: Vec<usize>,
    processor: String,
    load: Option<f64>,
    parts: Vec<Part>,
    handoffs: Vec<(TimeSource, Handoffs)>,
    delays: Vec<delay::Table>,
}

impl Measurements {
    /// An ordered clock of ours went back: between CPUs, or in one thread.
    fn went_back(&self) -> bool {
        let ordered = |read: TimeSource| matches!(read, TimeSource::Now | TimeSource::TicksOrdered);
        let alone = self.parts.iter().flat_map(|part| &part.tables).flat_map(|table| &table.rows);
        alone.into_iter().any(|row| ordered(row.read) && row.backward > 0)
            || self.handoffs.iter().any(|(read, found)| ordered(*read) && found.backward > 0)
    }
}

/// Runs the command.
pub(crate) fn run(options: &Bench) -> anyhow::Result<ExitCode> {
    let clock = settled(&options.directory);
    let kernel = options.directory.ask();
    let sources = if options.sources { kernel.available.len().max(1) } else { 1 };
    let handoff_reads = fine_reads();
    let steps = sources * options.threads.len() * contention::steps(options.seconds) + handoff_reads.len() + 3;
    let mut progress = Progress::new(steps);
    let parts = match options.sources {
        false => vec![part(options, kernel.name(), clock, &mut progress)],
        true => each_source(options, clock, &mut progress)?,
    };
    let cpus = allowed_cpus();
    let handoffs = handoffs(options, &cpus, clock, &handoff_reads, &mut progress);
    let delays = delay::TARGETS_NS.map(|target| {
        progress.step("known delays");
        delay::run(clock, &handoff_reads, target)
    });
    progress.end();
    let found = Measurements {
        figures: Figures::now(clock, options.directory.ask()),
        cpus,
        processor: host::processor(),
        load: host::load(),
        parts,
        handoffs,
        delays: delays.into(),
    };
    if options.json {
        println!("{}", report::json(&found))
    } else {
        print!("{}", report::text(&found))
    }
    Ok(if found.went_back() { ExitCode::from(EXIT_FINDING) } else { ExitCode::SUCCESS })
}

/// The clocks with a resolution of nanoseconds; a coarse one cannot measure handoffs and short delays.
fn fine_reads() -> Vec<TimeSource> {
    TimeSource::all().into_iter().filter(|read| *read != TimeSource::System(SystemClock::MonotonicCoarse)).collect()
}

fn part(options: &Bench, source: &str, clock: Clock, progress: &mut Progress) -> Part {
    let reads = TimeSource::all();
    let measure = |threads: &usize| contention::run(clock, &reads, *threads, options.seconds, progress);
    Part { source: source.to_owned(), tables: options.threads.iter().map(measure).collect(), step_ns: None }
}

fn handoffs(
    options: &Bench,
    cpus: &[usize],
    clock: Clock,
    reads: &[TimeSource],
    progress: &mut Progress,
) -> Vec<(TimeSource, Handoffs)> {
    let [first, .., last] = cpus else { return Vec::new() };
    let budget = Duration::from_secs_f64(options.seconds);
    reads
        .iter()
        .map(|read| {
            progress.step("handoffs between CPUs");
            (*read, handoff::between((*first, *last), *read, clock, budget))
        })
        .collect()
}

/// Runs the contention part under each clock source that the kernel has; the original one is restored in any case.
fn each_source(options: &Bench, clock: Clock, progress: &mut Progress) -> anyhow::Result<Vec<Part>> {
    let kernel = options.directory.ask();
    let switch = Arc::new(Switch::new(&options.directory)?);
    interrupt::restore_on_signal(&switch)?;
    let each = options.seconds * (options.threads.len() * TimeSource::all().len()) as f64;
    eprintln!(
        "ogive: --sources switches the clock source of this whole machine ({}) for some {:.1} s each, then back to {}; after a kill -9, by hand: {}",
        kernel.available.join(", "),
        each,
        kernel.name(),
        switch.by_hand()
    );
    let mut parts = Vec::new();
    for source in &kernel.available {
        let before = Point::now(clock);
        switch.to(source)?;
        std::thread::sleep(SOURCE_SETTLE);
        anyhow::ensure!(
            options.directory.ask().current.as_deref() == Some(source),
            "the kernel did not take the clock source {source}; see `dmesg | grep -i clocksource`"
        );
        let step_ns = before.zip(Point::now(clock)).map(|(before, after)| after.since(before, clock).system_ns);
        let step_ns = step_ns.filter(|_| Some(source) != kernel.current.as_ref());
        parts.push(Part { step_ns, ..part(options, source, clock, progress) });
    }
    switch.close();
    Ok(parts)
}
