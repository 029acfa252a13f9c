//! What every role that listens begins and ends with: threads, ports, lines, self observation, and what it fetches by
//! itself.
//!
//! Invariants: the ports are taken before a role looks at its data; what has arrived is handed over before the role
//! closes it.
//! Threads: the async runtime has one thread a processor unless configured; the observer has its own.
//! Failure: what keeps a role from starting is an error of one sentence. SIGINT and SIGTERM end it in order: the
//! listener closes, requests in flight are answered (up to [`DRAIN`]), then lines that have arrived and the last cells
//! are handed over.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ogive_probe::Clock;
use ogive_protocol::remote_write::KnownSeries;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::cli::files::FILES;
use crate::cli::read_file;
use crate::cli::web::WebOptions;
use crate::cli::wire::{WireOptions, WireRole};
use crate::filtering::{self, FilterOptions};
use crate::service_manager;
use ogive_checks as checks;
use ogive_checks::Checks;
use ogive_door::Door;
use ogive_door::audit::{self, Entry};
use ogive_door::backend::Backend;
use ogive_door::counters::Counters;
use ogive_door::metadata::Metadata;
use ogive_door::meters::Meters;
use ogive_door::numbers::Numbers;
use ogive_filter::Stage;
use ogive_http::web::{Hosts, Web};
use ogive_http::{self as http, Limits, Shared};
use ogive_http::{InfluxRules as Rules, Traps};
use ogive_listen as listen;
use ogive_model::MonoNs;
use ogive_observe::Observer;
use ogive_observe::clock::AskKernel;
use ogive_scrape as scrape;
use ogive_scrape::Scraping;
use ogive_storage::live::Live;
use ogive_storage::upkeep::Upkeep;

/// 5 s for requests in flight: a large batch takes one, and a service manager waits ten at most.
pub(crate) const DRAIN: Duration = Duration::from_secs(5);

/// The threads of the listeners: one for each processor by default.
fn runtime(threads: Option<usize>) -> anyhow::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads);
    }
    // Queries, decoding of as many large batches as may be in memory, and eight that wait for disks and others.
    let blocking = Limits::QUERIES + threads.unwrap_or(Limits::READING) + 8;
    builder.enable_all().thread_name("http").max_blocking_threads(blocking);
    builder.build().context("cannot start the threads of the HTTP server")
}

/// The options of every role.
pub(crate) struct Options<'a> {
    /// Each serves the same routes.
    pub(crate) listen: &'a [SocketAddr],
    /// Threads that serve connections, and bodies that are decoded at once.
    pub(crate) threads: Option<usize>,
    pub(crate) batch_series_max: usize,
    /// TLS, users, tokens and names.
    pub(crate) web: &'a WebOptions,
    /// The listen addresses, as they were written.
    pub(crate) listen_names: &'a [String],
    /// Which pages of other sites may read responses.
    pub(crate) cors: Option<&'a http::Cors>,
    pub(crate) otlp: &'a http::OtlpOptions,
    /// StatsD, Graphite and InfluxDB.
    pub(crate) lines: &'a listen::Options,
    /// Rules between listeners and the backend.
    pub(crate) filters: &'a FilterOptions,
    pub(crate) scrape: &'a scrape::ScrapeOptions,
    pub(crate) checks: &'a checks::CheckOptions,
    /// Checks in addition to those of a separate file.
    pub(crate) more_checks: &'a checks::Config,
    pub(crate) wire: &'a WireOptions,
    #[cfg(feature = "kernel")]
    pub(crate) kernel: &'a crate::cli::kernel::KernelOptions,
    #[cfg(feature = "amqp")]
    pub(crate) amqp: &'a ogive_amqp::AmqpOptions,
    /// Addresses for brokers alone.
    pub(crate) fleet_listen: &'a [SocketAddr],
    /// Checks and scrapes also come from a server above.
    pub(crate) is_managed: bool,
}

/// Where checks and scrapes from a server above go.
pub(crate) struct Feeds {
    pub(crate) checks: checks::Feed,
    pub(crate) scrape: watch::Sender<scrape::FedJobs>,
}

/// What differs between roles.
pub(crate) struct Role {
    pub(crate) engine: ogive_query::Engine,
    pub(crate) query_timeout: Duration,
    pub(crate) query_memory_bytes: usize,
    /// Deletion over HTTP is permitted.
    pub(crate) admin: bool,
    pub(crate) upkeep: Option<Upkeep>,
    /// Live cells, if enabled.
    pub(crate) live: Option<Arc<Live>>,
    /// The options as they were written.
    pub(crate) flags: http::Flags,
    /// Brokers under it.
    pub(crate) fleet: Option<Arc<ogive_fleet::Fleet>>,
}

/// Ports that do not answer yet.
pub(crate) struct Front {
    runtime: Runtime,
    pub(crate) clock: Clock,
    pub(crate) meters: Arc<Meters>,
    pub(crate) counters: Arc<Counters>,
    web: Arc<Web>,
    cors: Option<http::Cors>,
    listeners: Vec<TcpListener>,
    urls: Vec<String>,
    lines: listen::Bound,
    filters: Stage,
    fetching: Fetching,
    reading: usize,
    batch_series_max: usize,
    otlp: http::Otlp,
    influx: Rules,
    traps: Traps,
    /// Listeners at which IRONdb's API is served.
    irondb: Vec<TcpListener>,
    /// Listeners of brokers.
    fleet: Vec<TcpListener>,
    /// If a server above decides.
    pub(crate) feeds: Option<Feeds>,
}

impl Front {
    /// Opens the ports, and reads every file that an option names.
    pub(crate) fn open(options: &Options<'_>) -> anyhow::Result<Self> {
        let runtime = runtime(options.threads)?;
        let filters = options.filters.open()?;
        let (fetching, feeds) = Fetching::open(options)?;
        let listeners = runtime.block_on(listen(options.listen))?;
        let irondb = runtime.block_on(listen(&options.lines.irondb))?;
        let fleet = runtime.block_on(listen(options.fleet_listen))?;
        let counters = Arc::<Counters>::default();
        let hosts = Hosts::new(&options.web.hosts, options.listen_names, read_file)?;
        let web = Web::open(options.web.web_config.as_deref(), read_file, counters.clone())?;
        let web = Arc::new(web.with_hosts(hosts));
        let lines = listen::bind(options.lines, FILES.read)?;
        if lines.needs_tls() && web.tls().is_none() {
            anyhow::bail!("an address with tls: needs --web-config with tls_server_config, whose certificate it shows");
        }
        Ok(Self {
            urls: urls(&listeners, if web.tls().is_some() { "https" } else { "http" })?,
            lines,
            filters,
            clock: Clock::global(),
            meters: Arc::default(),
            reading: options.threads.unwrap_or(Limits::READING),
            batch_series_max: options.batch_series_max,
            otlp: http::Otlp::new(options.otlp.decoder(), options.otlp.slow_span()),
            influx: Rules::new(options.lines.line_names, options.lines.influx_db_label.clone()),
            traps: Traps { checks: options.lines.trap_checks(), names: options.lines.line_names },
            runtime,
            counters,
            web,
            cors: options.cors.cloned(),
            listeners,
            irondb,
            fleet,
            feeds,
            fetching,
        })
    }

    /// The names of its filters.
    pub(crate) fn filter_names(&self) -> Vec<String> {
        self.filters.tallies().map(|(name, _)| name.to_owned()).collect()
    }

    /// Connects `backend` to the ports; nothing is accepted before [`Ready::serve`].
    pub(crate) fn before(self, backend: Arc<dyn Backend>, role: Role, kernel: AskKernel) -> anyhow::Result<Ready> {
        let Self { runtime, clock, meters, counters, web, listeners, urls, lines, fetching, .. } = self;
        let backend = filtering::before(self.filters, backend, clock);
        let metadata = Arc::new(Metadata::new(backend.clone(), clock));
        let numbers = Numbers::recalling(backend.arrivals());
        let (backends, figures) = (backend.clone(), counters.clone());
        let observer = Observer::start(backends, meters.clone(), figures, metadata.clone(), clock, kernel)?;
        let (end, ending) = watch::channel(false);
        let door = Arc::new(Door {
            backend,
            counters,
            meters,
            clock,
            batch_series_max: self.batch_series_max,
            numbers,
            metadata,
            ending,
        });
        let app = Arc::new(Shared {
            door,
            live: role.live,
            engine: role.engine,
            started: MonoNs(clock.now()),
            limits: Limits::new(role.query_timeout)
                .with_reading(self.reading)
                .with_query_memory(role.query_memory_bytes),
            written: KnownSeries::default(),
            otlp: self.otlp,
            influx: self.influx,
            traps: self.traps,
            admin: role.admin,
            upkeep: role.upkeep,
            web,
            cors: self.cors,
            alerting: Arc::default(),
            scrape: Arc::default(),
            flags: role.flags,
            slowest: ogive_http::Slowest::default(),
            detection: Arc::default(),
            fleet: role.fleet,
        });
        let listeners = Listeners::new(listeners, self.irondb, self.fleet)?;
        Ok(Ready { app, runtime, listeners, urls, lines, fetching, observer, end })
    }
}

/// A role that is ready to serve.
pub(crate) struct Ready {
    pub(crate) app: http::App,
    pub(crate) runtime: Runtime,
    listeners: Listeners,
    urls: Vec<String>,
    lines: listen::Bound,
    fetching: Fetching,
    observer: Observer,
    end: watch::Sender<bool>,
}

impl Ready {
    /// Serves until a signal arrives and everything received is handed over. `what` ends the log sentence about the
    /// addresses. Work that still runs in the runtime, such as a query without an end, holds the backend.
    pub(crate) fn serve(self, what: &str) -> anyhow::Result<Runtime> {
        let Self { app, runtime, listeners, urls, lines, fetching, observer, end } = self;
        let web = app.web.clone();
        let lines = lines.start(&app, runtime.handle(), Arc::new(move || web.tls()))?;
        // Signals are handled before the start is announced: an unhandled one would end the process.
        let in_the_runtime = runtime.enter();
        let signals = Signals::listen()?;
        let fetching = runtime.spawn(fetching.run(app.clone()));
        let given = app.flags.0.iter().filter(|flag| !flag.is_default);
        let given: Vec<String> = given.map(|flag| format!("{} = {}", flag.name, flag.values.join(","))).collect();
        audit::note(&app, Entry::started(&given.join("\n")));
        drop(in_the_runtime);
        tracing::info!("serving {} {what}", urls.join(" and "));
        service_manager::notify(service_manager::State::Ready);
        runtime.block_on(until_signal(listeners, app, signals, end));
        runtime.block_on(lines.stop());
        // The final samples of what was scraped, and check results that the backend did not have yet.
        let _ = runtime.block_on(async { tokio::time::timeout(DRAIN, fetching).await });
        observer.stop();
        Ok(runtime)
    }
}

/// What a role fetches on its own.
struct Fetching {
    scraping: Scraping,
    checks: Vec<Checks>,
    wire: WireRole,
    #[cfg(feature = "kernel")]
    kernel: crate::cli::kernel::KernelRole,
    #[cfg(feature = "amqp")]
    queues: ogive_amqp::Inputs,
}

impl Fetching {
    fn open(options: &Options<'_>) -> anyhow::Result<(Self, Option<Feeds>)> {
        let mut scraping = Scraping::open(options.scrape, FILES)?;
        let mut all = vec![Checks::new(options.checks, FILES)?, Checks::open(options.more_checks, FILES)];
        let feeds = options.is_managed.then(|| {
            let (fed, checks) = Checks::fed(FILES);
            all.push(fed);
            Feeds { checks, scrape: scraping.feed() }
        });
        let this = Self {
            scraping,
            checks: all,
            wire: WireRole::open(options.wire)?,
            #[cfg(feature = "kernel")]
            kernel: crate::cli::kernel::KernelRole::open(options.kernel)?,
            #[cfg(feature = "amqp")]
            queues: ogive_amqp::Inputs::open(options.amqp, FILES)?,
        };
        Ok((this, feeds))
    }

    /// Fetches until the role ends. Called within the runtime, as are the functions it calls.
    fn run(self, app: http::App) -> impl Future<Output = ()> {
        #[cfg(feature = "amqp")]
        tokio::spawn(self.queues.run(app.door.clone()));
        // Before anything else runs: signals are handled from here on.
        let checks: Vec<_> = self.checks.into_iter().map(|checks| tokio::spawn(checks.run(app.door.clone()))).collect();
        let checks = async move {
            for running in checks {
                let _ = running.await;
            }
        };
        let scraping = self.scraping.run(app.door.clone(), app.scrape.clone());
        let wire = self.wire.run(app.door.clone());
        #[cfg(feature = "kernel")]
        let kernel = self.kernel.run(app.door.clone());
        #[cfg(not(feature = "kernel"))]
        let kernel = std::future::ready(());
        async move {
            tokio::join!(scraping, checks, wire, kernel);
        }
    }
}

/// The signals that end a role in order.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?,
            terminate: signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?,
        })
    }

    async fn any(mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

async fn listen(addresses: &[SocketAddr]) -> anyhow::Result<Vec<TcpListener>> {
    let mut out = Vec::new();
    for address in addresses {
        let bound = TcpListener::bind(address).await.map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                anyhow::anyhow!("{address} is in use by another program; end it or choose another with --listen")
            }
            _ => anyhow::Error::new(error).context(format!("cannot listen on {address}")),
        });
        out.push(bound?);
    }
    Ok(out)
}

fn urls(listeners: &[TcpListener], scheme: &str) -> anyhow::Result<Vec<String>> {
    let addresses = listeners.iter().map(TcpListener::local_addr);
    let urls = addresses.map(|address| address.map(|address| format!("{scheme}://{address}/")));
    urls.collect::<std::io::Result<_>>().context("cannot tell the address that was bound")
}

/// Every listener, and which of them serve IRONdb's API.
struct Listeners {
    all: Vec<TcpListener>,
    irondb: Vec<SocketAddr>,
    fleet: Vec<TcpListener>,
}

impl Listeners {
    fn new(mut all: Vec<TcpListener>, irondb: Vec<TcpListener>, fleet: Vec<TcpListener>) -> anyhow::Result<Self> {
        let addresses = irondb.iter().map(TcpListener::local_addr).collect::<std::io::Result<Vec<_>>>();
        let addresses = addresses.context("cannot tell the address that was bound")?;
        for address in &addresses {
            tracing::info!("taking irondb at tcp:{address}");
        }
        all.extend(irondb);
        for address in fleet.iter().map(TcpListener::local_addr) {
            tracing::info!("taking brokers at tcp:{}", address.context("cannot tell the address that was bound")?);
        }
        Ok(Self { all, irondb: addresses, fleet })
    }
}

async fn until_signal(listeners: Listeners, app: http::App, signals: Signals, end: watch::Sender<bool>) {
    let mut ending = app.ending.clone();
    tokio::spawn(async move {
        signals.any().await;
        tracing::info!("ending; what was acknowledged is safe");
        service_manager::notify(service_manager::State::Stopping);
        let _ = end.send(true);
    });
    let (web, query_timeout) = (app.web.clone(), app.limits.query_timeout());
    let reported = app.clone();
    let tell = move |path: &std::path::Path, action: &str, what: &str| {
        audit::note(&reported, Entry::config(path, &(FILES.owner)(path), action, "file change", what));
    };
    tokio::spawn(web.clone().watch(ending.clone(), tell));
    let brokers = http::fleet_router(app.clone());
    let brokers = http::serve_fleet(listeners.fleet, brokers, web.clone(), open_files(), ending.clone());
    let routes = http::Routes::from(http::router(app.clone())).with(&listeners.irondb, &http::irondb_router(app));
    let served = http::serve(listeners.all, routes, web, query_timeout, ending.clone());
    let served = async { tokio::join!(served, brokers) };
    let late = async move {
        let _ = ending.wait_for(|ending| *ending).await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        _ = served => {}
        () = late => {}
    }
}

/// Files that the process may have open.
fn open_files() -> usize {
    let found = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE);
    found.map_or(1_024, |(soft, _)| usize::try_from(soft).unwrap_or(usize::MAX))
}
