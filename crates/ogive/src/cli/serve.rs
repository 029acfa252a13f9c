//! `ogive serve`: options and their checks.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;

use ogive_probe::Clock;
use ogive_text::size;

use super::clock::kernel::Directory;
use super::clock::page::ClockPage;
#[cfg(feature = "cassandra")]
use crate::cluster_node;
use crate::filtering::FilterOptions;
use crate::{crash_reports, forward, log_output, server};
use ogive_alerting::{alerting, detection};
use ogive_checks as checks;
use ogive_http::{self as http, QueryLimits};
use ogive_listen as listen;
use ogive_scrape as scrape;
use ogive_storage::keeping::{self, Ages, Keeping, PerTenant, Widths};
use ogive_storage::{IngestLimits as Limits, live, quantize};

/// Runs the server: HTTP API, page, store, and measurements of itself and its host.
#[derive(clap::Args, Debug)]
pub(crate) struct Serve {
    /// Configuration file (TOML) with options named as on the command line, without the dashes (docs/config.md).
    /// The command line and the environment take precedence.
    #[arg(short, long, value_name = "FILE", env = "OGIVE_CONFIG")]
    config: Option<PathBuf>,
    /// Data directory; created when missing. Repeatable: each directory then holds everything.
    #[arg(long, value_name = "DIR", default_value = "./ogive-data", env = "OGIVE_DATA")]
    data: Vec<PathBuf>,
    /// Start although a directory that was current is missing: data that only it holds is lost.
    #[arg(long, env = "OGIVE_DEGRADED")]
    degraded: bool,
    /// Rate limit of the daily scrub, which verifies all stored bytes; 0 turns it off.
    #[arg(long, value_name = "BYTES/s", default_value = "10MiB/s", env = "OGIVE_SCRUB_RATE", value_parser = size::parse)]
    scrub_rate: u64,
    /// Address of the HTTP server (HTTP/1.1 and HTTP/2); port 0 picks a free port. Repeatable, or separated by
    /// commas; all addresses serve the same.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6448", env = "OGIVE_LISTEN", value_delimiter = ',', value_parser = address)]
    listen: Vec<SocketAddr>,
    /// Address for brokers alone, whose polls wait there (docs/fleet.md). Repeatable. They may also use --listen,
    /// where up to 128 can wait.
    #[arg(long, value_name = "HOST:PORT", env = "OGIVE_FLEET_LISTEN", value_delimiter = ',', value_parser = address)]
    fleet_listen: Vec<SocketAddr>,
    /// How long to keep data: 30d, or by resolution 1s=15d,1m=90d,1h=3y (1s is data as received), and
    /// logs=30d,gaps=1y,audit=5y for texts; TENANT:30d for one tenant. Default: forever; gaps and audit are kept
    /// forever unless named.
    #[arg(long, value_name = "TIME", env = "OGIVE_RETENTION", value_parser = keeping::ages)]
    retention: Vec<PerTenant<Ages>>,
    /// Maximum bytes of a tenant's blocks, such as 50GiB; TENANT:1GiB for one tenant.
    #[arg(long, value_name = "BYTES", env = "OGIVE_RETENTION_SIZE", value_parser = keeping::size)]
    retention_size: Vec<PerTenant<u64>>,
    /// Widths of rollups, the coarser cells made from finer ones; off for none.
    #[arg(long, value_name = "WIDTHS", default_value = "1m,1h", env = "OGIVE_ROLLUPS", value_parser = keeping::rollups)]
    rollups: Widths,
    /// Maximum bytes of journal to replay when starting after a crash.
    #[arg(long, value_name = "BYTES", default_value = "128MiB", env = "OGIVE_REPLAY_MAX", value_parser = size::parse)]
    replay_max: u64,
    /// Record in the journal when batches arrived, to the millisecond, for `ogive replay --by-arrival`: about 100
    /// bytes for each millisecond with a batch.
    #[arg(long, env = "OGIVE_JOURNAL_ARRIVALS")]
    journal_arrivals: bool,
    /// Let everyone who reaches the HTTP API delete data.
    #[arg(long, env = "OGIVE_ENABLE_ADMIN_API")]
    enable_admin_api: bool,
    #[command(flatten)]
    web: super::web::WebOptions,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    queries: QueryLimits,
    /// Threads that serve connections; the same number of bodies is decoded at once. `ogive tune` recommends a
    /// number. Default: as many threads as processors, and 4 bodies.
    #[arg(long, value_name = "N", env = "OGIVE_LISTENER_THREADS", value_parser = clap::value_parser!(u16).range(1..=64))]
    listener_threads: Option<u16>,
    #[command(flatten)]
    live: live::Options,
    #[command(flatten)]
    quantize: quantize::Options,
    #[command(flatten)]
    detection: detection::options::Options,
    #[command(flatten)]
    otlp: http::OtlpOptions,
    #[command(flatten)]
    lines: listen::Options,
    #[command(flatten)]
    filters: FilterOptions,
    #[command(flatten)]
    scrape: scrape::ScrapeOptions,
    #[cfg(feature = "amqp")]
    #[command(flatten)]
    amqp: ogive_amqp::AmqpOptions,
    /// Use Apache Cassandra as the store: cassandra://HOST,HOST/KEYSPACE?name=value (docs/cluster.md). --data
    /// then holds the spool. Given twice (or with a space between), each of two independent clusters gets everything,
    /// and either may be lost.
    #[cfg(feature = "cassandra")]
    #[arg(long, value_name = "URL", env = "OGIVE_STORE", value_delimiter = ' ', value_parser = super::cluster::address)]
    store: Vec<ogive_cassandra::Address>,
    #[command(flatten)]
    alerting: alerting::AlertingOptions,
    #[command(flatten)]
    checks: checks::CheckOptions,
    #[command(flatten)]
    wire: super::wire::WireOptions,
    #[cfg(feature = "kernel")]
    #[command(flatten)]
    observer: super::kernel::KernelOptions,
    #[command(flatten)]
    forward: forward::Options,
    #[command(flatten)]
    log: log_output::Options,
    #[command(flatten)]
    crash: crash_reports::Options,
    #[command(flatten)]
    kernel: Directory,
    #[command(flatten)]
    clock_page: ClockPage,
}

pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let mut found =
        text.to_socket_addrs().map_err(|error| format!("{error}; give HOST:PORT such as 127.0.0.1:6448"))?;
    found.next().ok_or_else(|| "the host has no address".into())
}

/// Runs the command.
pub(crate) fn run(options: &Serve, flags: http::Flags) -> anyhow::Result<ExitCode> {
    log_output::start(&options.log);
    options.kernel.apply(Clock::global());
    options.clock_page.publish()?;
    let ask = options.kernel.asker();
    let Serve { listen, data, degraded, scrub_rate, limits, queries, .. } = options;
    let (listen, data, degraded, scrub_rate, limits) = (listen.clone(), data.clone(), *degraded, *scrub_rate, *limits);
    let keeping = Keeping {
        retention: keeping::retention(&options.retention, &options.retention_size),
        rollups: options.rollups.0.clone(),
        replay_bytes_max: options.replay_max,
        arrivals: options.journal_arrivals,
    };
    if let Some(path) = &options.config {
        tracing::info!("options of {}", path.display());
    }
    let (queries, otlp) = (*queries, options.otlp.clone());
    let admin = options.enable_admin_api;
    let (web, lines, scrape) = (options.web.clone(), options.lines.clone(), options.scrape.clone());
    #[cfg(feature = "cassandra")]
    let store = options.store.clone();
    let options = server::Options {
        listen,
        data,
        degraded,
        scrub_rate,
        limits,
        queries,
        keeping,
        listener_threads: options.listener_threads.map(usize::from),
        live: options.live,
        quantize: options.quantize.clone(),
        detection: options.detection.clone(),
        admin,
        otlp,
        web,
        cors: options.web.web_cors_origin.clone(),
        lines,
        filters: options.filters.with_config(options.config.as_deref()),
        scrape,
        flags,
        alerting: options.alerting.clone(),
        checks: options.checks.clone(),
        wire: options.wire.clone(),
        #[cfg(feature = "kernel")]
        kernel: options.observer.clone(),
        forward: options.forward.clone(),
        crash: options.crash.clone(),
        #[cfg(feature = "amqp")]
        amqp: options.amqp.clone(),
        fleet_listen: options.fleet_listen.clone(),
    };
    #[cfg(feature = "cassandra")]
    if !store.is_empty() {
        return cluster_node::run(&options, store, ask);
    }
    server::run(&options, ask)
}
