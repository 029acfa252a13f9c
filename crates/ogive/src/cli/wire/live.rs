//! Live packets: a thread a ring, one table of what they measured, shown each second and sent to a server.
//!
//! Threads: each ring has one, which alone has its observer; they add to one [`Measures`] under a lock taken once a block.
//! Failure: an interface that goes away ends its thread with a line on standard error, the others go on.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use ogive_capture::{Counts, Fanout, Filter, Frame as RawFrame, Hardware, Ring};
use ogive_export::Exporter;
use ogive_wire::frame::Link;
use ogive_wire::operation::{KEPT, Namer, Rules};
use ogive_wire::{Observer, Options, Totals, file};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::export::Export;
use super::sinks::{Show, Sinks};
use super::table;
use crate::cli::format::thousands;
use crate::cli::terminal::Terminal;

/// How long a ring is waited for at once: a stop is seen as soon.
const WAIT_MS: u16 = 100;

/// What the server is given at the end to take the last cells.
const LAST_CELLS: Duration = Duration::from_secs(5);

/// What a live observation is told.
pub(super) struct Settings {
    pub(super) interfaces: Vec<String>,
    pub(super) filter_ports: Vec<u16>,
    pub(super) shards: u16,
    pub(super) seconds: Option<u64>,
    pub(super) to: Option<String>,
    pub(super) options: Options,
    /// How operations are named.
    pub(super) rules: Rules,
    pub(super) show: Show,
}

/// What the threads share.
#[derive(Debug)]
struct Shared {
    sinks: Mutex<Sinks>,
    stop: AtomicBool,
    drops: Arc<AtomicU64>,
    freezes: Arc<AtomicU64>,
    packets: Arc<AtomicU64>,
    evicted: Arc<AtomicU64>,
}

impl Shared {
    fn new(sinks: Mutex<Sinks>) -> Self {
        let (drops, freezes, packets, evicted) = Default::default();
        Self { sinks, stop: AtomicBool::new(false), drops, freezes, packets, evicted }
    }
}

/// Observes until a signal or the end of the time.
pub(super) fn run(settings: &Settings, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let filter = if settings.filter_ports.is_empty() {
        None
    } else {
        let filter = Filter::from_ports(&settings.filter_ports);
        Some(filter.with_context(|| format!("at most {} ports can be filtered", ogive_capture::MAX_PORTS))?)
    };
    // First, so that no signal is missed once packets are counted.
    let signals = Signals::new()?;
    let mut rings = Vec::new();
    for (number, interface) in settings.interfaces.iter().enumerate() {
        // The process and the interface's place make a group that no other has.
        #[allow(clippy::cast_possible_truncation, reason = "any 16 bits do")]
        let group = (std::process::id() as u16).wrapping_add(number as u16);
        for _ in 0..settings.shards {
            let fanout = (settings.shards > 1).then_some(Fanout { group });
            rings.push(Ring::open(interface, filter.as_ref(), fanout)?);
        }
    }
    let namer = Namer::new(settings.rules.clone(), KEPT);
    let sinks = Mutex::new(Sinks::new(namer, settings.show));
    let shared = Arc::new(Shared::new(sinks));
    let exporter = match &settings.to {
        Some(address) => Some(start_export(address, &shared)?),
        None => None,
    };
    let spawn = |ring: Ring| {
        let (shared, options) = (shared.clone(), settings.options.clone());
        std::thread::Builder::new().name("ogive-wire".into()).spawn(move || observe(ring, options, &shared))
    };
    let threads: Vec<JoinHandle<Totals>> =
        rings.into_iter().map(spawn).collect::<Result<_, _>>().context("starting threads")?;
    let outcome = watch(settings, signals, &shared, terminal);
    // ORDERING: Release; pairs with the Acquire in `observe`; nothing but the flag itself is published.
    shared.stop.store(true, Ordering::Release);
    let mut totals = Totals::default();
    for thread in threads {
        let seen = thread.join().map_err(|_| anyhow::anyhow!("a thread of the observer panicked"))?;
        add(&mut totals, &seen);
    }
    if let Some(exporter) = exporter {
        let status = exporter.shutdown(LAST_CELLS);
        let lost = status.taken.samples - status.acknowledged.samples;
        eprintln!("sent: {} of {} samples, {lost} not acknowledged", status.acknowledged.samples, status.taken.samples);
    }
    outcome?;
    show_end(settings, &shared, &totals, terminal)?;
    Ok(ExitCode::SUCCESS)
}

fn start_export(address: &str, shared: &Arc<Shared>) -> anyhow::Result<Exporter> {
    let exporter = Exporter::builder(address).start().context("sending to a server")?;
    let export = Export::new(exporter.cells().clone());
    let counters = [
        ("ogive_wire_kernel_drops_total", &shared.drops),
        ("ogive_wire_ring_freezes_total", &shared.freezes),
        ("ogive_wire_packets_total", &shared.packets),
        ("ogive_wire_evicted_connections_total", &shared.evicted),
    ];
    for (name, counter) in counters {
        export.counter(name, &[], counter).context("a series of the observer")?;
    }
    lock(&shared.sinks).measures.export = Some(export);
    Ok(exporter)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One ring's thread.
fn observe(mut ring: Ring, options: Options, shared: &Shared) -> Totals {
    let mut observer = Observer::new(options);
    let link = match ring.hardware() {
        Hardware::Ethernet => Link::Ethernet,
        Hardware::Ip => Link::Raw,
    };
    let (mut last, mut before, mut evicted) = (0, Counts::default(), 0);
    let (mut is_stopping, mut drained) = (false, 0);
    loop {
        let is_ready = match ring.wait(WAIT_MS) {
            Ok(is_ready) => is_ready,
            Err(error) => {
                eprintln!("ogive: {error}");
                break;
            }
        };
        if is_ready {
            let mut sinks = lock(&shared.sinks);
            ring.read_block(|raw: RawFrame<'_>| {
                last = raw.at;
                sinks.frame(last);
                let frame = file::Frame { at: raw.at, link, bytes: raw.bytes, length: raw.length };
                observer.frame(&frame, &mut *sinks);
            });
        } else {
            // Nothing came for a while, so that much time has passed.
            last += i64::from(WAIT_MS) * 1_000_000;
            observer.tick(last, &mut *lock(&shared.sinks));
            // Every block that was open when the stop came has been handed over by now.
            if is_stopping {
                break;
            }
        }
        let counts = ring.counts();
        // ORDERING: Relaxed throughout; counters that are only read for show and export.
        shared.drops.fetch_add(counts.drops - before.drops, Ordering::Relaxed);
        shared.freezes.fetch_add(counts.freezes - before.freezes, Ordering::Relaxed);
        shared.packets.fetch_add(counts.packets - before.packets, Ordering::Relaxed);
        let total = observer.totals().evicted;
        shared.evicted.fetch_add(total - evicted, Ordering::Relaxed);
        (before, evicted) = (counts, total);
        // ORDERING: Acquire; pairs with the Release in `run`.
        is_stopping = shared.stop.load(Ordering::Acquire);
        drained += usize::from(is_stopping);
        if drained > ogive_capture::BLOCKS {
            // Packets come faster than they are read, or without end.
            break;
        }
    }
    observer.finish(&mut *lock(&shared.sinks));
    observer.totals()
}

fn add(sum: &mut Totals, one: &Totals) {
    sum.frames += one.frames;
    sum.bytes += one.bytes;
    sum.connections += one.connections;
    sum.evicted += one.evicted;
    sum.fragments_dropped += one.fragments_dropped;
    sum.ignored.iter_mut().zip(one.ignored).for_each(|(sum, one)| *sum += one);
    sum.first = [sum.first, one.first].into_iter().flatten().min();
    sum.last = [sum.last, one.last].into_iter().flatten().max();
}

/// The signals that end an observation, taken note of from the moment of their making.
struct Signals {
    runtime: tokio::runtime::Runtime,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (interrupt, terminate) = {
            let _inside = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        Ok(Self { runtime, interrupt, terminate })
    }
}

/// Shows the table each second, until a signal or the end of the time.
fn watch(settings: &Settings, signals: Signals, shared: &Shared, terminal: &Terminal) -> anyhow::Result<()> {
    let Signals { runtime, mut interrupt, mut terminate } = signals;
    let is_watched = io::stdout().is_terminal() && settings.show == Show::Table;
    runtime.block_on(async {
        let mut second = tokio::time::interval(Duration::from_secs(1));
        second.tick().await;
        for passed in 1_u64.. {
            tokio::select! {
                _ = interrupt.recv() => break,
                _ = terminate.recv() => break,
                _ = second.tick() => {}
            }
            if !lock(&shared.sinks).flush() {
                // Nobody reads any more.
                break;
            }
            if is_watched {
                show(settings, shared, terminal, passed)?;
            }
            if settings.seconds.is_some_and(|seconds| passed >= seconds) {
                break;
            }
        }
        anyhow::Ok(())
    })
}

/// Draws the table anew.
fn show(settings: &Settings, shared: &Shared, terminal: &Terminal, passed: u64) -> io::Result<()> {
    let mut lines = {
        let sinks = lock(&shared.sinks);
        let measures = &sinks.measures;
        #[allow(clippy::cast_precision_loss, reason = "seconds of an observation")]
        let mut lines = table::rows(measures, passed as f64, terminal.width);
        let findings =
            measures.findings.iter().rev().take(5).map(|finding| format!("finding  {}", table::sentence(finding)));
        lines.extend(findings);
        lines
    };
    // ORDERING: Relaxed; see `observe`.
    let drops = shared.drops.load(Ordering::Relaxed);
    let packets = thousands(shared.packets.load(Ordering::Relaxed));
    let interfaces = settings.interfaces.join(", ");
    lines.insert(
        0,
        format!(
            "{interfaces}  {packets} packets in {passed} s, {} dropped by the kernel; Ctrl-C ends",
            thousands(drops)
        ),
    );
    lines.truncate(terminal.height.saturating_sub(1).max(5));
    // Home, each line to its end, and what is below.
    let mut text = String::from("\x1b[H");
    for line in lines {
        text.extend(line.chars().take(terminal.width));
        text.push_str("\x1b[K\n");
    }
    text.push_str("\x1b[J");
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn show_end(settings: &Settings, shared: &Shared, totals: &Totals, terminal: &Terminal) -> io::Result<()> {
    let mut sinks = lock(&shared.sinks);
    sinks.finish()?;
    if let Show::Summary { as_json } = settings.show
        && let Some(summary) = &sinks.summary
    {
        summary.print(io::stdout().lock(), totals, as_json)?;
    }
    if settings.show == Show::Table {
        table::print(io::stdout().lock(), &sinks.measures, totals, terminal)?;
    }
    // ORDERING: Relaxed; the threads have ended.
    let (drops, freezes) = (shared.drops.load(Ordering::Relaxed), shared.freezes.load(Ordering::Relaxed));
    let line =
        format!("dropped by the kernel: {} packets, the ring was full {} times", thousands(drops), thousands(freezes));
    if settings.show == Show::Table {
        println!("{line}");
    } else {
        // What is printed is for a program to read.
        eprintln!("{line}");
    }
    Ok(())
}
