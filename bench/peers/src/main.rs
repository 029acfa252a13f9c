//! Ogive beside Prometheus and VictoriaMetrics: the same samples to each, one after the other in turns, and what it
//! cost the server's process.
//!
//! `make bench-peers`, or `cargo run --release --manifest-path bench/peers/Cargo.toml -- --help`. Processor time is
//! that of the server's process alone, user and system, from outside; so a busy machine moves it far less than a wall
//! clock. Ogive acknowledges after fsync; Prometheus after a write, VictoriaMetrics before one.

mod data;
mod guard;
mod profile;
mod queries;
mod recorded;
mod report;
mod requests;
mod send;
mod server;
mod wire;
mod work;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Parser;

use guard::Sides;
use profile::Profile;
use recorded::Recording;
use report::{Figures, Report};
use requests::Form;
use server::{Peer, Programs, Server};
use work::{Load, WORKS};

#[derive(Parser)]
struct Options {
    /// What to measure.
    #[arg(value_enum, default_value_t = What::Ingest)]
    what: What,
    #[command(flatten)]
    programs: Programs,
    #[command(flatten)]
    sides: Sides,
    /// Rounds; in each, every server takes every workload.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only these workloads (settled, wide, new, bytes, histograms; recorded-floats, recorded-histograms).
    #[arg(long, value_delimiter = ',')]
    work: Vec<String>,
    /// Only these servers.
    #[arg(long, value_delimiter = ',')]
    peer: Vec<Peer>,
    /// A factor on the number of series.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Repeats of each query, in turns between the servers.
    #[arg(long, default_value_t = 7)]
    repeats: usize,
    /// Let VictoriaMetrics answer a query from its cache of results, which no other server has.
    #[arg(long)]
    cached_results: bool,
    /// Keep the data of queries in this directory, and take what an earlier run left there.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Write where Ogive's processor time went, by workload or query, as folded stacks into this directory. Needs
    /// `perf`, whose own work is not in the figures but on the same processors.
    #[arg(long, value_name = "DIR")]
    profile: Option<PathBuf>,
    /// Instead: kill -9 each server after this many seconds of the first workload and count what was acknowledged and
    /// is gone.
    #[arg(long, value_name = "SECONDS")]
    kill: Option<f64>,
    /// A file of what a server measured of itself, for the recorded workloads.
    #[arg(long, value_name = "FILE")]
    recording: Option<PathBuf>,
    /// Instead: write that file from the last hour of the Ogive at this address.
    #[arg(long, value_name = "HOST:PORT", requires = "recording")]
    record: Option<String>,
}

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Ingest, memory, bytes and restart.
    Ingest,
    /// Queries over a day of data.
    Queries,
    /// Both, for two builds of Ogive: is the second slower than the first?
    Guard,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let peers = if options.peer.is_empty() {
        vec![Peer::Ogive, Peer::Prometheus, Peer::Victoria]
    } else {
        options.peer.clone()
    };
    if options.what == What::Queries {
        let Options { scale, repeats, cached_results, .. } = options;
        let (keep, profile) = (options.keep.as_deref(), options.profile.as_deref());
        let setup = queries::Setup { scale, repeats, cached_results, keep, profile };
        return queries::run(&options.programs, &peers, &setup);
    }
    if let (Some(address), Some(file)) = (&options.record, &options.recording) {
        return recorded::record(address, now_ms() - 5_000, file);
    }
    let loads = loads(&options)?;
    anyhow::ensure!(!loads.is_empty(), "no such workload; see --help");
    if options.what == What::Guard {
        let measured =
            |programs: &Programs, form, load: &Load, round| measure(programs, Peer::Ogive, form, load, round, None);
        let of = (&*options.programs.peers, &*loads);
        return guard::run(&options.sides, of, (options.rounds, options.scale), &measured);
    }
    let mut report = Report::default();
    for round in 0..options.rounds {
        for load in loads.iter().take(if options.kill.is_some() { 1 } else { loads.len() }) {
            for form in [Form::Batch, Form::RemoteWrite] {
                for peer in peers.iter().copied().filter(|peer| form.fits(*peer, load.histograms())) {
                    match options.kill {
                        Some(seconds) => kill(&options, peer, form, load, seconds)?,
                        None => {
                            let profile = options.profile.as_deref().filter(|_| peer == Peer::Ogive && round == 0);
                            let figures = measure(&options.programs, peer, form, load, round, profile)?;
                            eprintln!("round {round}: {} {} {}: {figures}", load.name(), peer.name(), form.name());
                            report.add(load, peer, form, figures);
                        }
                    }
                }
            }
        }
    }
    if options.kill.is_none() {
        print!("{}", report.table(&loads));
    }
    Ok(())
}

/// What was asked for: generated, and recorded when there is a recording.
fn loads(options: &Options) -> anyhow::Result<Vec<Load>> {
    let mut loads: Vec<Load> = WORKS.into_iter().map(|work| Load::Generated(work.scaled(options.scale))).collect();
    if let Some(file) = &options.recording {
        let [floats, histograms] = Recording::load(file)?;
        for (name, kind, recording) in
            [("recorded-floats", "numbers", floats), ("recorded-histograms", "histograms", histograms)]
        {
            let what =
                format!("{} {kind} of {} series, as a server measured itself", recording.samples(), recording.series());
            loads.push(Load::Recorded(name, what, recording));
        }
    }
    loads.retain(|load| options.work.is_empty() || options.work.iter().any(|name| name == load.name()));
    Ok(loads)
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    now.as_secs() as i64 * 1000
}

/// 3 s: what a server does once at its start, such as a first look of Ogive's detectors at the series that are there,
/// is not the work's.
const STARTED: Duration = Duration::from_secs(3);

/// Starts a server of its own, sends the work, and looks at what it took; with a profile of it in a directory.
fn measure(
    programs: &Programs,
    peer: Peer,
    form: Form,
    load: &Load,
    round: usize,
    profile: Option<&Path>,
) -> anyhow::Result<Figures> {
    let directory = tempfile::tempdir()?;
    let lanes = load.requests(form, &format!("r{round}"), now_ms());
    let server = Server::start(peer, programs, &directory.path().join("data"))?;
    std::thread::sleep(STARTED);
    let idle_memory = server.memory()?;
    let name = format!("{} {}", load.name(), form.name());
    let profile = profile.map(|directory| Profile::start(directory, &name, server.id())).transpose()?;
    let (cpu, began) = (server.cpu()?, Instant::now());
    let acknowledged = send::send(&server.address, &lanes, &AtomicBool::new(false))?;
    let (acked_cpu, wall) = (server.cpu()? - cpu, began.elapsed());
    let memory = server.memory()?.saturating_sub(idle_memory);
    anyhow::ensure!(acknowledged == load.samples() as u64, "{acknowledged} samples acknowledged");
    // The server's own measurements of an idle second are not the work's: they are taken off.
    let (before, began) = (server.cpu()?, Instant::now());
    server.settle()?;
    let settled_cpu = acked_cpu
        + (server.cpu()? - before).saturating_sub(Duration::from_millis(20) * began.elapsed().as_secs() as u32);
    profile.map(Profile::finish).transpose()?;
    let found = if load.histograms() { load.samples() as f64 } else { shown(&server, load)? };
    anyhow::ensure!(found == load.samples() as f64, "{} holds {found} of {} samples", peer.name(), load.samples());
    let data = server.data.clone();
    let (data_cpu, stored) = (server.cpu()?, server.store()?);
    let stored_cpu = settled_cpu + stored.cpu.saturating_sub(data_cpu);
    let restart = restart(programs, peer, &data)?;
    Ok(Figures {
        samples: load.samples(),
        series: load.series(),
        acked_cpu,
        settled_cpu,
        stored_cpu,
        wall,
        memory,
        bytes: stored.bytes,
        restart,
    })
}

/// As [`stored`], once it is everything: VictoriaMetrics shows seconds later what it took, on a busy machine many.
fn shown(server: &Server, load: &Load) -> anyhow::Result<f64> {
    let began = Instant::now();
    loop {
        let found = stored(server, load)?;
        if found == load.samples() as f64 || began.elapsed() > SHOWN_WITHIN {
            return Ok(found);
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// A minute: ten times what was seen with twenty processes on two processors.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);

/// How many samples a server has of what was sent.
fn stored(server: &Server, load: &Load) -> anyhow::Result<f64> {
    let counts = load.metrics().into_iter().map(|metric| server.number(&format!("sum(count_over_time({metric}[3h]))")));
    counts.sum()
}

/// Processor time from start to ready.
fn restart(programs: &Programs, peer: Peer, data: &Path) -> anyhow::Result<Duration> {
    Server::start(peer, programs, data)?.cpu()
}

fn kill(options: &Options, peer: Peer, form: Form, load: &Load, seconds: f64) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let data = directory.path().join("data");
    let lanes = load.requests(form, "kill", now_ms());
    let server = Server::start(peer, &options.programs, &data)?;
    let address = server.address.clone();
    let stop = AtomicBool::new(false);
    let acknowledged = std::thread::scope(|scope| {
        let sender = scope.spawn(|| send::send(&address, &lanes, &stop));
        std::thread::sleep(Duration::from_secs_f64(seconds));
        // ORDERING: Relaxed; the senders look at it after each request, and a broken connection stops them too.
        stop.store(true, Ordering::Relaxed);
        server.kill()?;
        sender.join().expect("a sender does not panic").context("sending")
    })?;
    let server = Server::start(peer, &options.programs, &data)?;
    let found = stored(&server, load)?;
    let lost = (acknowledged as f64 - found).max(0.0);
    println!(
        "{} {}: {acknowledged} acknowledged, {found} found after kill -9, {lost} lost ({:.1} %)",
        peer.name(),
        form.name(),
        100.0 * lost / acknowledged.max(1) as f64
    );
    Ok(())
}
