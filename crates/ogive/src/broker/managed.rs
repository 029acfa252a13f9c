//! The part of a broker that its server decides: checks, scrapes, filters and limits of its group.
//!
//! Invariants: a configuration is applied whole or not at all; what runs programs or reads files of this machine only
//! with the permission of the broker's own file; limits only lower those of that file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use ogive_door::filtered::FilteredBackend;
use ogive_filter::Stage;
use ogive_fleet::{
    Broker as Above, BrokerStore, Connect, Destination as DestinationReport, Home, Link, Order, Package, Report,
};
use ogive_journal::RealDisk;
use ogive_model::{MonoNs, WallMs};
use ogive_probe::{ProcessMemory, process_cpu_ns};
use ogive_scrape::FedJobs;

use super::config::{Config, Permission};
use super::reach::Reach;
use super::shared::Broker;
use super::view;
use super::watch::Watches;
use crate::cli::files::{FILES, restrict};
use crate::cli::read_file;
use crate::fleet::Document;
use crate::front::{Feeds, Ready};
use crate::log_output;

/// 5 minutes for a check that was asked for: longer than most timeouts.
const CHECK_WAIT: Duration = Duration::from_secs(300);

/// See the module.
pub(super) struct Managed {
    broker: Arc<Broker>,
    feeds: Feeds,
    filters: Arc<FilteredBackend>,
    /// The names of the filters of the broker's own files.
    own_filters: Vec<String>,
    allow: Vec<Permission>,
    reach: Arc<Reach>,
    watches: Arc<Watches>,
    runtime: tokio::runtime::Handle,
    started: WallMs,
    checks: Mutex<GroupChecks>,
    /// When the use of processors was last read, and how many seconds it was.
    cpu: Mutex<(MonoNs, f64)>,
}

/// Checks of the group.
#[derive(Default)]
struct GroupChecks {
    config: ogive_checks::Config,
    /// Those that only some brokers run, and this one may.
    own: BTreeSet<String>,
    running: u64,
}

impl GroupChecks {
    /// What this broker runs of them.
    fn chosen(&mut self) -> ogive_checks::Config {
        let chosen = self.config.of_broker(|name| self.own.contains(name));
        self.running = chosen.len() as u64;
        chosen
    }
}

/// What a broker gives to what its server decides.
pub(super) struct Parts<'p> {
    /// The broker's own file.
    pub(super) path: &'p Path,
    pub(super) broker: Arc<Broker>,
    pub(super) feeds: Feeds,
    pub(super) filters: Arc<FilteredBackend>,
    pub(super) own_filters: Vec<String>,
}

/// Applies the last good configuration, and asks the server for what is new until `ended` says so.
pub(super) fn start(config: &Config, parts: Parts<'_>, ready: &Ready, ended: &Arc<AtomicBool>) -> anyhow::Result<()> {
    let Some(fleet) = &config.fleet else { return Ok(()) };
    let Parts { path, broker, feeds, filters, own_filters } = parts;
    let kept = BrokerStore::open(Arc::new(RealDisk), fleet.directory(&config.spool), restrict);
    let kept = Arc::new(kept.context("cannot read what the server decided")?);
    if kept.credential().is_ok_and(|found| found.is_none()) {
        tracing::warn!(
            "this broker has not enrolled: `ogive broker enroll URL TICKET -c FILE`; it goes on by its file"
        );
    }
    let clock = broker.context.clock;
    let counters = ready.app.counters.clone();
    let runtime = ready.runtime.handle().clone();
    let reach = Reach::new(&broker.context.name, path, &fleet.connect, counters.clone(), runtime.clone());
    let is_allowed = fleet.allow.contains(&Permission::Watch);
    let watches = Watches::new(&broker, path, is_allowed, counters.clone(), runtime.clone());
    let managed = Managed {
        started: broker.context.wall(),
        cpu: Mutex::new((broker.context.now(), used_seconds())),
        broker,
        feeds,
        filters,
        own_filters,
        allow: fleet.allow.clone(),
        reach: Arc::new(reach),
        watches: Arc::new(watches),
        runtime,
        checks: Mutex::default(),
    };
    let link = Link::open(kept, fleet.link(), read_file, Arc::new(managed), counters, clock)
        .context("cannot start a thread")?;
    link.start(ended.clone()).context("cannot start a thread")?;
    Ok(())
}

/// Seconds of processors that this process used.
fn used_seconds() -> f64 {
    process_cpu_ns().unwrap_or(0) as f64 / 1e9
}

/// A configuration that was read completely.
struct Prepared {
    document: Document,
    checks: ogive_checks::Config,
    stage: Stage,
    jobs: FedJobs,
}

impl Managed {
    fn prepare(&self, package: &Package) -> Result<Prepared, (&'static str, String)> {
        let invalid = |why: String| ("invalid", why);
        let group = &package.group;
        let names = (format!("{group}.toml"), PathBuf::from(format!("{group}.yml")));
        let document = Document::parse(&package.contents, &names.0, &names.1.display().to_string());
        let mut document = document.map_err(|mistakes| invalid(mistakes.join("\n")))?;
        self.permit(&document, package, &names.1)?;
        let mut labels = document.labels.clone();
        if !labels.iter().any(|(name, _)| name == "broker") {
            labels.push(("broker".into(), self.broker.context.name.clone()));
        }
        let checks = document.checks.with_labels(&labels).map_err(invalid)?;
        let stage = Stage::new(std::mem::take(&mut document.filters)).map_err(invalid)?;
        if let Some((name, _)) = stage.tallies().find(|(name, _)| self.own_filters.iter().any(|own| own == name)) {
            return Err(invalid(format!("the filter {name:?} is in the broker's own file, too; give it another name")));
        }
        let jobs = match &package.contents.scrape {
            Some(text) => {
                let jobs = FedJobs::parse(&names.1, text, &labels, FILES).map_err(invalid)?;
                jobs.check_files(FILES).map_err(invalid)?;
                jobs
            }
            None => FedJobs::default(),
        };
        Ok(Prepared { document, checks, stage, jobs })
    }

    /// Whether the broker's own file permits what the configuration does on this machine.
    fn permit(&self, document: &Document, package: &Package, scrape: &Path) -> Result<(), (&'static str, String)> {
        let is_allowed = |need: &str| self.allow.iter().any(|allowed| allowed.word() == need);
        let how = |need: &str| format!("[fleet] of this broker's file permits it with allow = [\"{need}\"]");
        if let Some((name, need)) = document.checks.needs().find(|(_, need)| !is_allowed(need)) {
            let what = if need == "command" { "runs a program" } else { "reads a file of this machine" };
            return Err(("forbidden", format!("check {name:?} {what}; {}", how(need))));
        }
        let text = package.contents.scrape.as_deref().unwrap_or_default();
        if !is_allowed("file") && FedJobs::names_files(scrape, text).unwrap_or(false) {
            let what = "the scrape configuration names files of this machine";
            return Err(("forbidden", format!("{what}; {}", how("file"))));
        }
        Ok(())
    }

    fn checks(&self) -> MutexGuard<'_, GroupChecks> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Processors used since the last report.
    fn cpu(&self) -> f64 {
        let (now, used) = (self.broker.context.now(), used_seconds());
        let mut last = self.cpu.lock().unwrap_or_else(PoisonError::into_inner);
        let (passed, spent) = (now.since(last.0).0 as f64 / 1e9, used - last.1);
        *last = (now, used);
        if passed > 0.0 { (spent / passed).max(0.0) } else { 0.0 }
    }

    fn findings(&self) -> Vec<String> {
        let mut out = Vec::new();
        out.extend(self.broker.problem.lock().unwrap_or_else(PoisonError::into_inner).clone());
        if !*self.broker.reserved.lock().unwrap_or_else(PoisonError::into_inner) {
            out.push("the disk of the spool is full: no batches are accepted".into());
        }
        // ORDERING: Relaxed; a figure for people.
        let failures = self.broker.fsync_failures.load(Ordering::Relaxed);
        if failures > 0 {
            out.push(format!("{failures} fsyncs of the spool failed"));
        }
        out
    }
}

impl Above for Managed {
    fn apply(&self, package: &Package) -> Result<(), (&'static str, String)> {
        let Prepared { document, checks, stage, jobs } = self.prepare(package)?;
        self.filters.replace(stage);
        *self.broker.group_limits.lock().unwrap_or_else(PoisonError::into_inner) = document.limits;
        let mut all = self.checks();
        all.config = checks;
        // Under the lock, so that what comes last is what runs.
        self.feeds.checks.set(all.chosen());
        drop(all);
        self.feeds.scrape.send_replace(jobs);
        Ok(())
    }

    fn run_share(&self, checks: &BTreeSet<String>) {
        let mut all = self.checks();
        all.own.clone_from(checks);
        self.feeds.checks.set(all.chosen());
    }

    fn connect(&self, request: Connect, home: Home) {
        if request.watch.is_some() {
            self.watches.begin(request, home);
        } else {
            self.reach.begin(request, home);
        }
    }

    fn report(&self) -> Report {
        let board = &self.broker.context.board;
        let (mut destinations, mut lag_seconds, mut gap_samples) = (Vec::new(), 0.0_f64, 0);
        for one in self.broker.destinations() {
            let state = one.state();
            let lag = one.lag_seconds(&state.delivery.lag(board));
            let problem = state.figures.problem.as_ref().filter(|_| lag > 1.0).map(|(_, text)| text.clone());
            lag_seconds = lag_seconds.max(lag);
            gap_samples += state.delivery.totals().samples;
            destinations.push(DestinationReport { name: one.config.name.clone(), lag_seconds: lag, problem });
        }
        Report {
            ogive: env!("CARGO_PKG_VERSION").into(),
            started_ms: self.started.0,
            now_ms: self.broker.context.wall().0,
            lag_seconds,
            spool_bytes: board.bytes(),
            spool_bytes_max: self.broker.limits().bytes_max,
            gap_samples,
            cpu: self.cpu(),
            memory_bytes: ProcessMemory::now().map_or(0, |memory| memory.resident_bytes),
            checks: self.checks().running,
            findings: self.findings(),
            destinations,
            ..Report::default()
        }
    }

    fn carry_out(&self, order: &Order) -> Result<String, String> {
        match order {
            Order::Check { name } => {
                let outcome = self.feeds.checks.run_now(name)?;
                let outcome = self.runtime.block_on(async { tokio::time::timeout(CHECK_WAIT, outcome).await });
                let late = |_| format!("the check did not end within {} s", CHECK_WAIT.as_secs());
                outcome.map_err(late)?.map_err(|_| "the checks have ended".to_owned())?
            }
            Order::Status => Ok(view::json(&self.broker, None).to_string()),
            Order::Logs { lines } => Ok(log_output::recent(*lines as usize).join("\n")),
        }
    }
}
