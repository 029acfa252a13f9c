//! `ogive serve`: the store, the listener and self observation, from start to a clean end.
//!
//! Threads: the async runtime has one thread a processor; the store and the observer have their own.
//! Failure: what keeps the server from starting is one sentence on standard error and exit code 1. SIGINT and SIGTERM
//! end it in order: the listener closes, requests under way are answered (up to [`DRAIN`]), lines that have arrived and the last cells are stored,
//! what is in memory is written as blocks, the store closes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ogive_probe::Clock;
use ogive_protocol::remote_write::Known;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::backend::Backend;
use crate::cli::files::FILES;
use crate::cli::read_file;
use crate::cli::serve::{Limits as IngestLimits, QueryLimits};
use crate::clock::AskKernel;
use crate::counters::Counters;
use crate::http::influx::Rules;
use crate::http::{self, Limits, Shared};
use crate::keeping::Keeping;
use crate::listen;
use crate::metadata::Metadata;
use crate::numbers::Numbers;
use crate::observe::{Meters, Observer};
use crate::scrape::{self, Scraping};
use crate::storage::Embedded;
use crate::upkeep::Upkeep;
use crate::web::Web;

/// 5 s for requests under way: a large batch takes one, and whoever ends us waits ten at most.
const DRAIN: Duration = Duration::from_secs(5);

/// What `ogive serve` was asked to do.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Each serves the same.
    pub(crate) listen: Vec<SocketAddr>,
    /// Each holds everything.
    pub(crate) data: Vec<PathBuf>,
    /// Go on without directories that are missing.
    pub(crate) degraded: bool,
    /// Bytes a second of the scrub that begins by itself; 0: none does.
    pub(crate) scrub_rate: u64,
    pub(crate) limits: IngestLimits,
    pub(crate) keeping: Keeping,
    /// Deletion may be asked for over HTTP.
    pub(crate) admin: bool,
    pub(crate) queries: QueryLimits,
    /// The file of TLS, users and tokens.
    pub(crate) web: Option<PathBuf>,
    pub(crate) otlp: http::OtlpOptions,
    /// StatsD, Graphite and InfluxDB.
    pub(crate) lines: listen::Options,
    pub(crate) scrape: scrape::ScrapeOptions,
}

/// Serves until a signal ends it.
pub(crate) fn run(options: &Options, kernel: AskKernel) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("http")
        // Queries, and decoding of as many large batches as may be in memory.
        .max_blocking_threads(Limits::QUERIES + 12)
        .build()
        .context("cannot start the threads of the HTTP server")?;
    let clock = Clock::global();
    let scraping = Scraping::open(&options.scrape, FILES)?;
    // The ports first: a second server must not even look at the data of the first.
    let listeners = runtime.block_on(listen(&options.listen))?;
    let counters = Arc::<Counters>::default();
    let web = Arc::new(Web::open(options.web.as_deref(), read_file, counters.clone())?);
    let urls = urls(&listeners, if web.tls().is_some() { "https" } else { "http" })?;
    let lines = listen::bind(&options.lines)?;
    let meters = Arc::<Meters>::default();
    let upkeep = Upkeep::open(&options.data, options.degraded, clock)?;
    let store = Arc::new(Embedded::open(upkeep.clone(), (&options.limits, &options.keeping), clock, &meters)?);
    upkeep.watch(options.scrub_rate)?;
    let backend: Arc<dyn Backend> = store.clone();
    let metadata = Arc::new(Metadata::new(backend.clone(), clock));
    let told = (counters.clone(), metadata.clone());
    let observer = Observer::start(backend.clone(), meters.clone(), told, clock, kernel)?;
    let (end, ending) = watch::channel(false);
    let app = Arc::new(Shared {
        backend,
        engine: ogive_query::Engine::new(options.queries.engine()),
        counters,
        meters,
        clock,
        started_ns: clock.now(),
        limits: Limits::new(Duration::from_secs(options.queries.query_timeout_s)),
        batch_series_max: options.limits.limit_batch_series,
        numbers: Numbers::new(),
        metadata,
        written: Known::default(),
        otlp: http::Otlp::new(options.otlp.decoder()),
        influx: Rules { names: options.lines.line_names, db_label: options.lines.influx_db_label.clone() },
        ending,
        admin: options.admin,
        upkeep: Some(upkeep.clone()),
        web,
        scrape: Arc::default(),
    });
    let lines = lines.start(&app, runtime.handle())?;
    let scraping = runtime.spawn(scraping.run(app.clone()));
    let data: Vec<String> = options.data.iter().map(|path| path.display().to_string()).collect();
    eprintln!("ogive: serving {} with data in {}", urls.join(" and "), data.join(" and "));
    runtime.block_on(serve(listeners, app, end))?;
    runtime.block_on(lines.stop());
    // The ends of what was scraped.
    let _ = runtime.block_on(async { tokio::time::timeout(DRAIN, scraping).await });
    observer.stop();
    store.flush();
    upkeep.stop();
    // What still runs, such as a query without an end, holds the store too.
    runtime.shutdown_timeout(Duration::from_secs(1));
    // Dropping the last handle ends the store after what was submitted is durable.
    drop(store);
    eprintln!("ogive: ended");
    Ok(ExitCode::SUCCESS)
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

async fn serve(listeners: Vec<TcpListener>, app: http::App, end: watch::Sender<bool>) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut ending = app.ending.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        eprintln!("ogive: ending; what was acknowledged is safe");
        let _ = end.send(true);
    });
    let (web, query_timeout) = (app.web.clone(), app.limits.query_timeout());
    tokio::spawn(web.clone().watch(ending.clone()));
    let served = http::serve(listeners, http::router(app), web, query_timeout, ending.clone());
    let late = async move {
        let _ = ending.wait_for(|ending| *ending).await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        () = served => {}
        () = late => {}
    }
    Ok(())
}
