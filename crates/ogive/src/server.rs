//! `ogive serve`: the store behind the listeners, from start to a clean end.
//!
//! Threads: those of [`Front`]; the store has its own.
//! Failure: what keeps the server from starting is one sentence on standard error and exit code 1. At its end, behind
//! what [`Ready::serve`](crate::front::Ready::serve) hands over, what is in memory is written as blocks, and the store
//! closes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use crate::cli::files::{FILES, restrict};
use crate::cli::web::WebOptions;
use crate::cli::wire::WireOptions;
use crate::crash_reports;
use crate::filtering::FilterOptions;
use crate::fleet;
use crate::forward::{self, Forwards};
use crate::front::{self, Front, Ready, Role};
use crate::offline_audit;
use ogive_alerting::alerting::{self, Alerting};
use ogive_alerting::detection::options::Options as DetectOptions;
use ogive_alerting::detection::work::Detector;
use ogive_checks as checks;
use ogive_door::backend::Backend;
use ogive_fleet::Fleet;
use ogive_http as http;
use ogive_http::QueryLimits;
use ogive_journal::RealDisk;
use ogive_listen as listen;
use ogive_observe::clock::AskKernel;
use ogive_scrape as scrape;
use ogive_storage::IngestLimits;
use ogive_storage::keeping::Keeping;
use ogive_storage::live;
use ogive_storage::quantize::{self, Marks, Quantizer};
use ogive_storage::upkeep::Upkeep;
use ogive_storage::{Embedded, Settings};

/// 5 s: a broker that is away shows soon.
const FLEET_TICK: Duration = Duration::from_secs(5);

/// The options of `ogive serve`.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Each serves the same routes.
    pub(crate) listen: Vec<SocketAddr>,
    /// Each holds everything.
    pub(crate) data: Vec<PathBuf>,
    /// Go on without directories that are missing.
    pub(crate) degraded: bool,
    /// Bytes a second of the automatic scrub; 0: there is none.
    pub(crate) scrub_rate: u64,
    pub(crate) limits: IngestLimits,
    pub(crate) keeping: Keeping,
    /// Threads that serve connections, and bodies that are decoded at once.
    pub(crate) listener_threads: Option<usize>,
    /// How live cells are kept.
    pub(crate) live: live::Options,
    /// Which series are aligned to cells.
    pub(crate) quantize: quantize::Options,
    /// The options of the detectors.
    pub(crate) detection: DetectOptions,
    /// Deletion over HTTP is permitted.
    pub(crate) admin: bool,
    pub(crate) queries: QueryLimits,
    /// TLS, users, tokens and names.
    pub(crate) web: WebOptions,
    /// Which pages of other sites may read responses.
    pub(crate) cors: Option<http::Cors>,
    pub(crate) otlp: http::OtlpOptions,
    /// StatsD, Graphite and InfluxDB.
    pub(crate) lines: listen::Options,
    /// Rules between listeners and the store.
    pub(crate) filters: FilterOptions,
    pub(crate) scrape: scrape::ScrapeOptions,
    /// All options as they were written.
    pub(crate) flags: http::Flags,
    /// Rules and the receivers of alerts.
    pub(crate) alerting: alerting::AlertingOptions,
    pub(crate) checks: checks::CheckOptions,
    pub(crate) wire: WireOptions,
    #[cfg(feature = "kernel")]
    pub(crate) kernel: crate::cli::kernel::KernelOptions,
    pub(crate) forward: forward::Options,
    pub(crate) crash: crash_reports::Options,
    #[cfg(feature = "amqp")]
    pub(crate) amqp: ogive_amqp::AmqpOptions,
    /// Addresses for brokers alone.
    pub(crate) fleet_listen: Vec<SocketAddr>,
}

/// Serves until a signal ends it.
pub(crate) fn run(options: &Options, kernel: AskKernel) -> anyhow::Result<ExitCode> {
    // The ports first: a second server must not even read the data of the first.
    let rules = Alerting::open(&options.alerting, FILES)?;
    let front = open_front(options)?;
    start_crash_reports(options);
    let forwards = Forwards::open(&options.forward, FILES)?;
    let upkeep = Upkeep::open(&options.data, options.degraded, front.clock)?;
    let settings = Settings {
        limits: &options.limits,
        keeping: &options.keeping,
        live: options.live,
        query_cache_bytes: options.queries.query_cache_bytes(),
    };
    let marks = Marks::new(&options.quantize)?;
    let store = Arc::new(Embedded::open(upkeep.clone(), settings, marks.clone(), front.clock, &front.meters)?);
    upkeep.watch(options.scrub_rate)?;
    let fleet = open_fleet(options, &front)?;
    let role = Role { fleet: Some(fleet.clone()), ..role(options, &upkeep, &store) };
    ogive_observe::memory::started(ogive_observe::memory_parts(&store.facts()));
    let ready = front.before(store.clone(), role, kernel)?;
    ready.runtime.spawn(watch_fleet(fleet, ready.app.clone()));
    offline_audit::deliver(ready.runtime.handle(), &ready.app.door, &upkeep.mirror);
    let start = |marks| Quantizer::start(marks, ready.app.door.clone(), ready.runtime.handle().clone());
    let quantizer = marks.map(start).transpose()?;
    let detector = Detector::start(
        &options.detection,
        Arc::clone(&ready.app.door),
        Arc::clone(&ready.app.detection),
        store.store(),
        ready.runtime.handle().clone(),
    )?;
    let start = |rules: Alerting| rules.start(alerting_context(&ready, &upkeep, &store));
    let rules = rules.map(start).transpose()?;
    let data: Vec<String> = options.data.iter().map(|path| path.display().to_string()).collect();
    let forwards = {
        let _in_the_runtime = ready.runtime.enter();
        forwards.start(&ready.app.door, store.watches(), options.data.first().expect("there is a directory"))?
    };
    let runtime = ready.serve(&format!("with data in {}", data.join(" and ")))?;
    if let Some(detector) = detector {
        detector.stop();
    }
    if let Some(rules) = rules {
        rules.stop();
    }
    if let Some(quantizer) = quantizer {
        quantizer.stop();
    }
    forwards.stop();
    store.finish();
    upkeep.stop();
    runtime.shutdown_timeout(Duration::from_secs(1));
    // Dropping the last handle closes the store once what was submitted is durable.
    drop(store);
    tracing::info!("ended");
    Ok(ExitCode::SUCCESS)
}

/// Opens the ports, and reads every file that an option names.
pub(crate) fn open_front(options: &Options) -> anyhow::Result<Front> {
    Front::open(&front::Options {
        listen: &options.listen,
        threads: options.listener_threads,
        batch_series_max: options.limits.limit_batch_series,
        web: &options.web,
        listen_names: &options.flags.of("listen"),
        cors: options.cors.as_ref(),
        otlp: &options.otlp,
        lines: &options.lines,
        filters: &options.filters,
        scrape: &options.scrape,
        checks: &options.checks,
        more_checks: &checks::Config::default(),
        wire: &options.wire,
        #[cfg(feature = "kernel")]
        kernel: &options.kernel,
        #[cfg(feature = "amqp")]
        amqp: &options.amqp,
        fleet_listen: &options.fleet_listen,
        is_managed: false,
    })
}

/// What brokers under this server shall do, beside its data.
pub(crate) fn open_fleet(options: &Options, front: &Front) -> anyhow::Result<Arc<Fleet>> {
    let directories = options.data.iter().map(|data| data.join("fleet")).collect();
    let (disk, counters) = (Arc::new(RealDisk), front.counters.clone());
    let opened = Fleet::open(disk, directories, restrict, fleet::validate, counters, front.clock);
    let opened = opened.context("cannot read the configurations of brokers")?;
    opened.damaged().iter().for_each(|damaged| tracing::error!("fleet: {damaged}"));
    Ok(Arc::new(opened))
}

/// Counts the brokers by state every few seconds, until the server ends.
pub(crate) async fn watch_fleet(fleet: Arc<Fleet>, app: http::App) {
    let mut ending = app.ending.clone();
    loop {
        fleet.tick(app.clock.wall().div_euclid(1_000_000));
        tokio::select! {
            () = tokio::time::sleep(FLEET_TICK) => {}
            // What it finds is a lock, which no wait may outlive.
            () = async { drop(ending.wait_for(|ending| *ending).await) } => return,
        }
    }
}

/// Reports crashes with the options that were given.
pub(crate) fn start_crash_reports(options: &Options) {
    let given = options.flags.0.iter().filter(|flag| !flag.is_default);
    let given: Vec<_> = given.map(|flag| (flag.name.clone(), flag.values.join(","))).collect();
    crash_reports::start(&options.crash, "server", options.data.first().expect("there is a directory"), &given);
}

/// What rules are evaluated with.
fn alerting_context(ready: &Ready, upkeep: &Upkeep, store: &Embedded) -> alerting::Context {
    alerting::Context {
        door: Arc::clone(&ready.app.door),
        engine: ready.app.engine.clone(),
        query_timeout: ready.app.limits.query_timeout(),
        upkeep: upkeep.clone(),
        runtime: ready.runtime.handle().clone(),
        sources: store.source_times(),
        view: Arc::clone(&ready.app.alerting),
    }
}

/// The parts of a server behind the listeners: its engine, its limits, and the maintenance of its store.
fn role(options: &Options, upkeep: &Upkeep, store: &Embedded) -> Role {
    Role {
        engine: ogive_query::Engine::new(options.queries.engine()),
        query_timeout: Duration::from_secs(options.queries.query_timeout_s),
        query_memory_bytes: options.queries.query_memory_bytes(),
        admin: options.admin,
        upkeep: Some(upkeep.clone()),
        live: Some(store.live()),
        flags: options.flags.clone(),
        fleet: None,
    }
}
