//! The observer inside a server or a broker: `[wire]` of their files, and its cells among their own.
//!
//! Failure: an interface that cannot be observed is one line of the log and counts in `ogive_wire_failed_interfaces`;
//! the role starts all the same, and SIGHUP tries it again. A file of operations that is wrong keeps the role from
//! starting; at a reload the rules stay as they were.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use anyhow::Context;
use ogive_door::Door;
use ogive_door::reload::{ConfigKind, Marks, settled};
use ogive_wire::operation::{KEPT, Namer, Rules};
use ogive_wire::{Options, Protocol, Totals, protocol};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::export::Export;
use super::rings::{self, Shared, lock};
use super::sinks::{OutputMode, Sinks};
use crate::cli::config_file;

/// What the role observes on the wire.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct WireOptions {
    /// Measure the services on this interface from their packets, as `ogive wire -i` does. Needs CAP_NET_RAW;
    /// SIGHUP retries interfaces that failed. Repeatable.
    #[arg(long, value_name = "INTERFACE", env = "OGIVE_WIRE_INTERFACE", value_delimiter = ',')]
    wire_interface: Vec<String>,
    /// Capture only packets of this port, filtered in the kernel. Repeatable.
    #[arg(long, value_name = "PORT", env = "OGIVE_WIRE_ONLY", value_delimiter = ',')]
    wire_only: Vec<u16>,
    /// Protocol of a port, such as 6432=pgsql. Repeatable.
    #[arg(long, value_name = "PORT=PROTOCOL", env = "OGIVE_WIRE_PORT", value_delimiter = ',', value_parser = port)]
    wire_port: Vec<(u16, &'static Protocol)>,
    /// File with rules that name HTTP operations, as for `ogive wire --operations`. Reread on SIGHUP.
    #[arg(long, value_name = "FILE", env = "OGIVE_WIRE_OPERATIONS")]
    pub(crate) wire_operations: Option<PathBuf>,
    /// Threads per interface; the kernel assigns each a share of the connections.
    #[arg(long, value_name = "N", default_value = "1", env = "OGIVE_WIRE_SHARDS", value_parser = clap::value_parser!(u16).range(1..=64))]
    wire_shards: u16,
    /// Keep the heads of this many of the slowest exchanges per second, with secrets masked, as slow traces and
    /// exemplars.
    #[arg(long, value_name = "N", default_value = "0", env = "OGIVE_WIRE_EXEMPLARS", value_parser = clap::value_parser!(u16).range(..=100))]
    wire_exemplars: u16,
}

/// `PORT=PROTOCOL`.
pub(super) fn port(text: &str) -> Result<(u16, &'static Protocol), String> {
    let (port, name) = text.split_once('=').ok_or("write it as PORT=PROTOCOL")?;
    let port = port.parse().map_err(|_| format!("{port:?} is no port"))?;
    Ok((port, known(name)?))
}

/// The protocol of this name.
pub(super) fn known(name: &str) -> Result<&'static Protocol, String> {
    let all = || protocol::TABLE.iter().map(|protocol| protocol.name).collect::<Vec<_>>().join(", ");
    protocol::by_name(name).ok_or_else(|| format!("{name:?} is none of {}", all()))
}

/// The rules of a file.
pub(crate) fn rules(path: &Path) -> Result<Rules, String> {
    let text = config_file::text(path)?;
    Rules::parse(&text).map_err(|error| format!("{}, {error}", path.display()))
}

/// The rules of a file, and the file's fingerprint.
fn marked_rules(path: &Path) -> Result<(Rules, Marks), String> {
    let rules = rules(path)?;
    let mut marks = Marks::default();
    marks.note(path, config_file::text(path)?.as_bytes());
    Ok((rules, marks))
}

/// The observer of a role, before it runs.
pub(crate) struct WireRole {
    options: WireOptions,
    rules: Rules,
    marks: Marks,
}

impl WireRole {
    /// Reads the files that the options name.
    pub(crate) fn open(options: &WireOptions) -> anyhow::Result<Self> {
        let (rules, marks) = match &options.wire_operations {
            Some(path) => marked_rules(path).map_err(anyhow::Error::msg).context("cannot start the wire observer")?,
            None => Default::default(),
        };
        rings::filter(&options.wire_only)?;
        Ok(Self { options: options.clone(), rules, marks })
    }

    /// Observes until the role ends. Called within the runtime: signals are handled from then on, not from when this is
    /// polled.
    pub(crate) fn run(self, door: Arc<Door>) -> impl Future<Output = ()> {
        let hangup = (!self.options.wire_interface.is_empty()).then(|| signal(SignalKind::hangup()));
        async move {
            let Some(Ok(hangup)) = hangup else { return };
            let mut running = Running::new(self, &door);
            running.open_missing().await;
            running.reload_until_the_end(hangup, &door).await;
            // What is in the rings is measured before the last cells are collected.
            let Running { threads, shared, .. } = running;
            let stopped = tokio::task::spawn_blocking(move || rings::stop(threads, &shared)).await;
            if let Ok(Err(error)) = stopped {
                tracing::error!("{error}");
            }
        }
    }
}

/// The observer while it runs.
struct Running {
    options: WireOptions,
    marks: Marks,
    shared: Arc<Shared>,
    /// Interfaces that are not observed.
    missing: Vec<String>,
    missing_count: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Totals>>,
}

impl Running {
    fn new(role: WireRole, door: &Door) -> Self {
        let WireRole { options, rules, marks } = role;
        let mut sinks = Sinks::new(Namer::new(rules, KEPT), usize::from(options.wire_exemplars), OutputMode::Nothing);
        let export = Export::new(door.meters.cells.clone());
        let missing_count = Arc::<AtomicU64>::default();
        let count = missing_count.clone();
        // ORDERING: Relaxed; a state for people, here and below.
        #[allow(clippy::cast_precision_loss, reason = "a few interfaces")]
        let read = move || count.load(Ordering::Relaxed) as f64;
        export.note(export.cells.gauge("ogive_wire_failed_interfaces", &[], read));
        sinks.measures.send(export.clone());
        let shared = Arc::new(Shared::new(Mutex::new(sinks)));
        shared.send(&export);
        let missing = options.wire_interface.clone();
        Self { options, marks, shared, missing, missing_count, threads: Vec::new() }
    }

    /// Opens the interfaces that are not observed yet.
    async fn open_missing(&mut self) {
        let (missing, options, shared) = (std::mem::take(&mut self.missing), self.options.clone(), self.shared.clone());
        // Rings of 64 MiB are mapped: not on a thread that others depend on.
        let opening = tokio::task::spawn_blocking(move || {
            let reading = Options {
                ports: options.wire_port.clone(),
                keeps_heads: options.wire_exemplars > 0,
                ..Options::default()
            };
            let (mut threads, mut failed) = (Vec::new(), Vec::new());
            for interface in missing {
                let opened = rings::filter(&options.wire_only)
                    .and_then(|filter| rings::open(&interface, filter.as_ref(), options.wire_shards))
                    .and_then(|opened| Ok(rings::start(opened, &reading, &shared)?));
                match opened {
                    Ok(started) => {
                        tracing::info!("measuring what goes over {interface}");
                        threads.extend(started);
                    }
                    Err(error) => {
                        tracing::warn!("what goes over {interface} is not measured: {error:#}");
                        failed.push(interface);
                    }
                }
            }
            (threads, failed)
        });
        if let Ok((threads, failed)) = opening.await {
            self.threads.extend(threads);
            self.missing = failed;
        }
        self.missing_count.store(self.missing.len() as u64, Ordering::Relaxed);
    }

    async fn reload_until_the_end(&mut self, mut hangup: Signal, door: &Door) {
        let mut ending = door.ending.clone();
        loop {
            tokio::select! {
                _ = hangup.recv() => {
                    self.reload(door).await;
                    self.open_missing().await;
                }
                () = async { drop(ending.wait_for(|ending| *ending).await) } => return,
            }
        }
    }

    async fn reload(&mut self, door: &Door) {
        let Some(path) = self.options.wire_operations.clone() else { return };
        let before = self.marks.clone();
        let reading = tokio::task::spawn_blocking(move || settled(&before, || marked_rules(&path))).await;
        let read = reading.unwrap_or_else(|error| Err(error.to_string()));
        door.counters.reloads.ended(ConfigKind::Wire, read.is_ok());
        match read {
            Ok((rules, marks)) => {
                self.marks = marks;
                lock(&self.shared.sinks).measures.namer = Namer::new(rules, KEPT);
                tracing::info!("the rules of operations on the wire are in force");
            }
            Err(error) => tracing::warn!("{error}; the rules of operations on the wire stay as they were"),
        }
    }
}
