//! `ogive broker`: the listeners of the server before a spool, and the threads that bring what is in it to every
//! destination.
//!
//! Invariants: a batch is acknowledged when it is durable in the spool; a configuration is taken whole or not at all.
//! Threads: the async runtime's, the observer's, one writer, one that saves cursors, and each destination's senders.
//! Failure: what keeps the broker from starting is one sentence on standard error and exit code 1. SIGINT and SIGTERM
//! end it in order; what is in the spool is sent by the next start. A changed configuration that is wrong changes
//! nothing.

pub(crate) mod audit;
mod callback;
pub(crate) mod config;
mod destination;
mod link;
mod managed;
mod names;
mod reach;
mod shared;
mod spooling;
#[cfg(test)]
mod tests;
mod view;
mod watch;
mod watch_cells;
mod way;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use ogive_broker::{Cursor, Limits, Options, Spool};
use ogive_export::random_source;
use ogive_journal::{Disk, RealDisk};
use ogive_model::{Ms, Ns};
use ogive_probe::Clock;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::read_file;
use crate::crash_reports;
use crate::front::{self, DRAIN, Front, Role};
use config::Config;
use destination::{Destination, DestinationContext};
use ogive_door::backend::Backend;
use ogive_door::differences::shown;
use ogive_door::filtered::FilteredBackend;
use ogive_door::meters::Meters;
use ogive_door::reload::{ConfigKind, Marks, settled};
use ogive_filter::Stage;
use ogive_http as http;
use ogive_observe::clock::AskKernel;
use shared::Broker;
use spooling::Spooling;
use way::Route;

/// 16 MiB a segment: what a destination that is behind has in memory. A small spool has at least 16 segments.
const SEGMENT_BYTES_MAX: u64 = 16 << 20;
/// 64 KiB: a segment is not smaller.
const SEGMENT_BYTES_MIN: u64 = 64 << 10;

/// Reads a broker's file, for who only wants to know whether it is good; what is wrong with it, a sentence each.
///
/// # Errors
/// It cannot be read as a broker's file.
pub fn broker_file(text: &str) -> Result<(), Vec<String>> {
    config::parse(text).map(drop).map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
}

/// A broker whose spool is open.
struct Running {
    broker: Arc<Broker>,
    spooling: Arc<Spooling>,
    writer: JoinHandle<()>,
    /// The background thread that saves the cursors.
    saver: JoinHandle<()>,
    senders: std::sync::Mutex<Vec<JoinHandle<()>>>,
    /// Held until the broker ends.
    _lock: ogive_journal::DirectoryLock,
}

/// Runs until a signal ends it.
pub(crate) fn run(path: &Path, crash: &crash_reports::Options, kernel: AskKernel) -> anyhow::Result<ExitCode> {
    let (config, marks) = config::read_marked(path).map_err(anyhow::Error::msg)?;
    let listeners = &config.listeners;
    let filters = listeners.filters.with_config(Some(path));
    let mut front = Front::open(&front::Options {
        listen: &listeners.listen,
        threads: None,
        batch_series_max: listeners.limit_batch_series,
        web: &listeners.web,
        listen_names: &[],
        cors: listeners.web.web_cors_origin.as_ref(),
        otlp: &listeners.otlp,
        lines: &listeners.lines,
        filters: &filters,
        scrape: &listeners.scrape,
        checks: &listeners.checks,
        more_checks: &config.checks,
        wire: &listeners.wire,
        #[cfg(feature = "kernel")]
        kernel: &listeners.kernel,
        #[cfg(feature = "amqp")]
        amqp: &listeners.amqp,
        fleet_listen: &[],
        is_managed: config.fleet.is_some(),
    })?;
    crash_reports::start(crash, "broker", &config.spool.directory, &shown(&config.flat));
    let running = Arc::new(Running::start(&config, front.clock, &front.meters)?);
    let role = Role {
        engine: ogive_query::Engine::default(),
        query_timeout: http::Limits::QUERY_TIMEOUT,
        query_memory_bytes: http::Limits::QUERY_MEMORY_MIB << 20,
        admin: false,
        upkeep: None,
        live: None,
        flags: http::Flags::default(),
        fleet: None,
    };
    // Behind the filters of the broker's own files.
    let filters = Arc::new(FilteredBackend::new(Stage::default(), running.spooling.clone(), front.clock));
    let (feeds, own_filters) = (front.feeds.take(), front.filter_names());
    let backend: Arc<dyn Backend> = if feeds.is_some() { filters.clone() } else { running.spooling.clone() };
    let ready = front.before(backend, role, kernel)?;
    audit::tell(&ready.app, &running.broker, path, "start", &config);
    let ended = Arc::new(AtomicBool::new(false));
    if let Some(feeds) = feeds {
        let parts = managed::Parts { path, broker: running.broker.clone(), feeds, filters, own_filters };
        managed::start(&config, parts, &ready, &ended)?;
    }
    let hangup = {
        let _in_the_runtime = ready.runtime.enter();
        signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?
    };
    ready.runtime.spawn(reload(running.clone(), ready.app.clone(), path.to_owned(), config.clone(), marks, hangup));
    let spool = config.spool.directory.display();
    let runtime = ready.serve(&format!("as broker {} with its spool in {spool}", config.name))?;
    // ORDERING: Relaxed; the flag guards nothing.
    ended.store(true, Ordering::Relaxed);
    runtime.shutdown_timeout(Duration::from_secs(1));
    if let Ok(running) = Arc::try_unwrap(running).map_err(|running| running.end()) {
        running.end();
    }
    tracing::info!("ended; what is in the spool goes with the next start");
    Ok(ExitCode::SUCCESS)
}

fn limits(config: &Config) -> Limits {
    Limits { bytes_max: config.spool.bytes_max, age_max: config.spool.age_max.map(Ms::from) }
}

impl Running {
    /// Opens the spool and starts every thread of it.
    fn start(config: &Config, clock: Clock, meters: &Arc<Meters>) -> anyhow::Result<Self> {
        let directory = &config.spool.directory;
        let cursors = directory.join("cursors");
        RealDisk.create_dir_all(&cursors).with_context(|| format!("cannot make {}", cursors.display()))?;
        let lock = RealDisk.lock(directory)?;
        let options = Options {
            segment_bytes: (config.spool.bytes_max / 16).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX),
            tail_bytes: usize::try_from(config.spool.memory_max).unwrap_or(usize::MAX),
            mark: random_source().0 as u32,
            first: known_end(&cursors)?,
        };
        let opened = Spool::open(Arc::new(RealDisk), &directory.join("journal"), options);
        let (spool, findings) = opened.with_context(|| format!("cannot open the spool in {}", directory.display()))?;
        findings.iter().for_each(|finding| tracing::warn!("recovery: {finding}"));
        let context = DestinationContext {
            board: spool.board(),
            bell: Arc::default(),
            clock,
            name: config.name.clone(),
            cursors,
        };
        let broker = Arc::new(Broker::new(context, limits(config)));
        broker.lay_by();
        let running = broker.clone();
        let (spooling, writer) = Spooling::start(spool, broker.clone(), meters.clone())?;
        let saver = std::thread::Builder::new().name("cursors".into()).spawn(move || running.keep())?;
        let this =
            Self { broker, spooling: Arc::new(spooling), writer, saver, senders: Default::default(), _lock: lock };
        this.apply(config)?;
        Ok(this)
    }

    /// Makes the destinations those of `config`. Nothing changes when one of them cannot be made.
    fn apply(&self, config: &Config) -> anyhow::Result<()> {
        for before in self.broker.destinations() {
            protects_as_much(&before.config, config)?;
        }
        let links = config.destinations.iter().map(|one| Route::open(one, read_file).map(|link| (one.clone(), link)));
        let links: Vec<_> = links.collect::<anyhow::Result<_>>()?;
        let broker = &self.broker;
        let mut threads = Vec::new();
        // Held until the new ones are in their place: what they need is not let go meanwhile.
        let mut place = broker.destinations.write().unwrap_or_else(PoisonError::into_inner);
        let mut all = Vec::new();
        for (one, link) in links {
            let before = place.iter().find(|before| before.config.name == one.name);
            let made = match before {
                // Its files may hold something else by now, so it is always made anew.
                Some(before) => before.changed(one, link)?,
                None => {
                    // ORDERING: Relaxed; the lock that is held orders it after every `save`.
                    let first = broker.floor.load(std::sync::atomic::Ordering::Relaxed);
                    Destination::open(one, link, broker.context.clone(), first)?
                }
            };
            // Whatever happens next, what it has is durable.
            made.save()?;
            all.push(Arc::new(made));
        }
        place.iter().for_each(|before| before.stop());
        for one in &all {
            threads.extend(one.start(names::system())?);
        }
        *place = all;
        *broker.limits.lock().unwrap_or_else(PoisonError::into_inner) = limits(config);
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        senders.retain(|thread| !thread.is_finished());
        senders.extend(threads);
        Ok(())
    }

    /// Ends: what is on its way is waited for, cursors are saved, the spool is closed.
    fn end(&self) {
        self.spooling.end();
        let destinations = self.broker.destinations();
        destinations.iter().for_each(|one| one.stop());
        let until = self.broker.context.now().saturating_add(Ns::from(DRAIN));
        let is_busy = |one: &Arc<Destination>| one.state().delivery.in_flight() > 0;
        while (destinations.iter().any(is_busy) || !self.writer.is_finished()) && self.broker.context.now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.broker.end();
        while !self.saver.is_finished() && self.broker.context.now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.broker.save();
    }
}

/// One behind the highest position that a cursor knows of: the spool gives none of those out again.
fn known_end(cursors: &Path) -> anyhow::Result<u64> {
    let mut end = 0;
    for path in RealDisk.list(cursors)? {
        if path.extension().is_some_and(|ending| ending == "cursor") {
            match Cursor::read(&RealDisk, &path) {
                Ok(cursor) => end = end.max(cursor.map_or(0, |cursor| cursor.done.end())),
                // Its destination shows when it is opened.
                Err(ogive_broker::Error::Cursor { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(end)
}

/// A file that was cut is often still right, without what stands behind the cut: a destination keeps its token, its
/// certificate and its authorities while the broker runs, and one of them stays.
fn protects_as_much(before: &config::Destination, next: &Config) -> anyhow::Result<()> {
    const HOW: &str = "a file that was cut looks like this; put it right, or start the broker anew if it is meant";
    anyhow::ensure!(!next.destinations.is_empty(), "no destination is left; {HOW}");
    let Some(after) = next.destinations.iter().find(|after| after.name == before.name) else { return Ok(()) };
    for (key, was, is) in [
        ("token-file", &before.token_file, &after.token_file),
        ("ca-file", &before.ca_file, &after.ca_file),
        ("cert-file", &before.cert_file, &after.cert_file),
        ("key-file", &before.key_file, &after.key_file),
    ] {
        anyhow::ensure!(was.is_none() || is.is_some(), "{}: {key} is gone; {HOW}", before.name);
    }
    Ok(())
}

/// The first words of the keys that differ and that only a restart changes.
fn awaits_restart(started: &Config, now: &Config) -> BTreeSet<String> {
    let is_other = |one: &Config, entry: &(String, String)| !one.flat.contains(entry);
    let gone = started.flat.iter().filter(|entry| is_other(now, entry));
    let new = now.flat.iter().filter(|entry| is_other(started, entry));
    let words = gone.chain(new).filter_map(|(key, _)| key.split('.').next());
    words.filter(|word| !matches!(*word, "spool" | "destination")).map(str::to_owned).collect()
}

/// Takes the configuration again at each SIGHUP. `started` is what the listeners have.
async fn reload(
    running: Arc<Running>,
    app: http::App,
    path: PathBuf,
    started: Config,
    mut marks: Marks,
    mut hangup: Signal,
) {
    let mut ending = app.ending.clone();
    loop {
        tokio::select! {
            _ = ending.wait_for(|ending| *ending) => return,
            _ = hangup.recv() => {}
        }
        let (running, path, before, marked) = (running.clone(), path.clone(), started.clone(), marks.clone());
        let shared = app.clone();
        let again = move || -> anyhow::Result<Marks> {
            let read = settled(&marked, || config::read_marked(&path));
            let (config, marks) = read.map_err(anyhow::Error::msg)?;
            anyhow::ensure!(config.name == before.name, "the broker's name changes only with a restart");
            anyhow::ensure!(config.spool.directory == before.spool.directory, "the spool moves only with a restart");
            running.apply(&config)?;
            let waiting: Vec<String> = awaits_restart(&before, &config).into_iter().collect();
            if !waiting.is_empty() {
                let keys = waiting.join(", ");
                tracing::warn!("{keys} changes only with a restart; destinations and limits are in force");
            }
            audit::tell(&shared, &running.broker, &path, "signal HUP", &config);
            Ok(marks)
        };
        let read = tokio::task::spawn_blocking(again).await;
        app.counters.reloads.ended(ConfigKind::Broker, matches!(read, Ok(Ok(_))));
        match read {
            Ok(Ok(next)) => {
                marks = next;
                tracing::info!("the configuration was read again");
            }
            Ok(Err(error)) => tracing::error!("the old configuration stays: {error:#}"),
            Err(_) => tracing::error!("the old configuration stays: taking the new one failed"),
        }
    }
}
