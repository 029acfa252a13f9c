//! Live packets as a command: the table of what was measured, shown each second and sent to a server.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use ogive_export::Exporter;
use ogive_wire::operation::{KEPT, Namer, Rules};
use ogive_wire::{Options, Totals};
use tokio::runtime::Runtime;

use super::export::Export;
use super::rings::{self, Shared, lock};
use super::screen::{KeyRequest, Screen};
use super::sinks::{OutputMode, Sinks};
use super::table;
use crate::cli::format::thousands;
use crate::cli::observed::{self, Signals};
use crate::cli::standard_output::StandardOutput;
use crate::cli::terminal::Terminal;

/// The settings of a live observation.
pub(super) struct Settings {
    pub(super) interfaces: Vec<String>,
    pub(super) filter_ports: Vec<u16>,
    pub(super) shards: u16,
    pub(super) seconds: Option<u64>,
    pub(super) to: Option<String>,
    /// Labels of every series that is sent.
    pub(super) labels: Vec<(String, String)>,
    pub(super) options: Options,
    /// How operations are named.
    pub(super) rules: Rules,
    pub(super) show: OutputMode,
    /// How many of the slowest exchanges are kept.
    pub(super) exemplars: usize,
}

/// Observes until a signal or the end of the time.
pub(super) fn run(settings: &Settings, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    // First, so that no signal is missed once packets are counted.
    let signals = Signals::new()?;
    let filter = rings::filter(&settings.filter_ports)?;
    let mut opened = Vec::new();
    for interface in &settings.interfaces {
        opened.extend(rings::open(interface, filter.as_ref(), settings.shards)?);
    }
    let namer = Namer::new(settings.rules.clone(), KEPT);
    let sinks = Mutex::new(Sinks::new(namer, settings.exemplars, settings.show));
    let shared = Arc::new(Shared::new(sinks));
    let exporter = match &settings.to {
        Some(address) => Some(start_export(address, &settings.labels, &shared)?),
        None => None,
    };
    let threads = rings::start(opened, &settings.options, &shared).context("starting threads")?;
    let outcome = watch(settings, signals, &shared);
    let totals = rings::stop(threads, &shared)?;
    if let Some(exporter) = exporter {
        observed::end_export(exporter);
    }
    outcome?;
    show_end(settings, &shared, &totals, terminal)?;
    Ok(ExitCode::SUCCESS)
}

fn start_export(address: &str, labels: &[(String, String)], shared: &Arc<Shared>) -> anyhow::Result<Exporter> {
    let exporter = observed::start_export(address, labels)?;
    let export = Export::new(exporter.cells().clone());
    shared.send(&export);
    lock(&shared.sinks).measures.send(export);
    Ok(exporter)
}

/// Shows the table in a terminal every second, until a signal or the end of the time.
fn watch(settings: &Settings, (runtime, mut signals): (Runtime, Signals), shared: &Shared) -> anyhow::Result<()> {
    // A terminal that cannot be used does not prevent the observation.
    let is_watched = io::stdin().is_terminal() && io::stdout().is_terminal() && settings.show == OutputMode::Table;
    let mut screen = if is_watched { Screen::open().ok() } else { None };
    runtime.block_on(async {
        let mut second = tokio::time::interval(Duration::from_secs(1));
        second.tick().await;
        let mut passed = 0_u64;
        draw(settings, shared, &mut screen, passed)?;
        loop {
            tokio::select! {
                () = signals.end(None) => break,
                wish = wish(&mut screen) => match wish {
                    KeyRequest::End => break,
                    KeyRequest::Draw => {
                        draw(settings, shared, &mut screen, passed)?;
                        continue;
                    }
                },
                _ = second.tick() => passed += 1,
            }
            if !lock(&shared.sinks).flush() {
                // The reader is gone.
                break;
            }
            if let Some(screen) = &mut screen {
                screen.count(&lock(&shared.sinks).measures);
            }
            draw(settings, shared, &mut screen, passed)?;
            if settings.seconds.is_some_and(|seconds| passed >= seconds) {
                break;
            }
        }
        anyhow::Ok(())
    })
}

/// The wish of a key press; pending forever without a screen.
async fn wish(screen: &mut Option<Screen>) -> KeyRequest {
    match screen {
        Some(screen) => screen.wish().await,
        None => std::future::pending().await,
    }
}

/// Draws the screen, if there is one.
fn draw(settings: &Settings, shared: &Shared, screen: &mut Option<Screen>, passed: u64) -> io::Result<()> {
    let Some(screen) = screen else { return Ok(()) };
    // ORDERING: Relaxed; see `observe`.
    let drops = thousands(shared.drops.load(Ordering::Relaxed));
    let packets = thousands(shared.packets.load(Ordering::Relaxed));
    let interfaces = settings.interfaces.join(", ");
    let head = format!("{interfaces}  {packets} packets in {passed} s, {drops} dropped by the kernel");
    screen.draw(&lock(&shared.sinks).measures, &head)
}

fn show_end(settings: &Settings, shared: &Shared, totals: &Totals, terminal: &Terminal) -> io::Result<()> {
    let mut sinks = lock(&shared.sinks);
    sinks.finish()?;
    if let OutputMode::Summary { as_json } = settings.show
        && let Some(summary) = &sinks.summary
    {
        summary.print(StandardOutput, totals, as_json)?;
    }
    if settings.show == OutputMode::Table {
        table::print(StandardOutput, &sinks.measures, totals, terminal)?;
    }
    // ORDERING: Relaxed; the threads have ended.
    let (drops, freezes) = (shared.drops.load(Ordering::Relaxed), shared.freezes.load(Ordering::Relaxed));
    let line =
        format!("dropped by the kernel: {} packets, the ring was full {} times", thousands(drops), thousands(freezes));
    if settings.show == OutputMode::Table {
        println!("{line}");
    } else {
        // The printed output is for a program to read.
        eprintln!("{line}");
    }
    Ok(())
}
