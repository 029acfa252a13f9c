//! `ogive cluster`: the tables in Apache Cassandra that `ogive serve --store` needs.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use ogive_cassandra::{Address, Audit, Cluster, Contents, Copied};

use super::exit::EXIT_FINDING;

/// Manages the tables in Apache Cassandra when it is the store.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum ClusterCommand {
    /// Creates the keyspace and its tables; existing ones are left unchanged.
    Init {
        /// cassandra://HOST,HOST/KEYSPACE?name=value (docs/cluster.md); two of independent clusters.
        #[arg(long, value_name = "URL", env = "OGIVE_STORE", required = true, value_delimiter = ' ', value_parser = address)]
        store: Vec<Address>,
    },
    /// Checks the tables and how many nodes answer. Exit code 1 when one does not.
    Check {
        /// cassandra://HOST,HOST/KEYSPACE?name=value (docs/cluster.md); two of independent clusters.
        #[arg(long, value_name = "URL", env = "OGIVE_STORE", required = true, value_delimiter = ' ', value_parser = address)]
        store: Vec<Address>,
    },
    /// Compares what was written with what each copy holds. Exit code 1 when a copy lacks a row or is
    /// unreachable. Rows that one of two clusters has lost are refilled from the other.
    Audit {
        /// cassandra://HOST,HOST/KEYSPACE?name=value (docs/cluster.md); two of independent clusters.
        #[arg(long, value_name = "URL", env = "OGIVE_STORE", required = true, value_delimiter = ' ', value_parser = address)]
        store: Vec<Address>,
        /// How far back, by the time at which rows were written; at most a day.
        #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = since)]
        since: Duration,
        /// Write missing rows to the copy that lacks them, from one that has them.
        #[arg(long)]
        refill: bool,
    },
    /// Makes the rollups of what all nodes have written. Nodes do it by themselves; this is for what one wrote
    /// that will not start again.
    Rollup {
        /// cassandra://HOST,HOST/KEYSPACE?name=value (docs/cluster.md); two of independent clusters.
        #[arg(long, value_name = "URL", env = "OGIVE_STORE", required = true, value_delimiter = ' ', value_parser = address)]
        store: Vec<Address>,
        /// How far back, by the time at which rows were written; at most a day.
        #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = since)]
        since: Duration,
    },
}

/// Manifests are kept for a day.
const SINCE_MAX: Duration = Duration::from_secs(86_400);

fn since(text: &str) -> Result<Duration, String> {
    let since = ogive_text::duration::parse(text).ok_or_else(|| format!("{text} is no duration such as 1h"))?;
    if since <= SINCE_MAX {
        Ok(since)
    } else {
        Err(format!("{text} is more than a day, as long as manifests are kept"))
    }
}

pub(crate) fn address(text: &str) -> Result<Address, String> {
    Address::parse(text).map_err(|error| error.to_string())
}

/// Runs the command.
pub(crate) fn run(command: &ClusterCommand) -> anyhow::Result<ExitCode> {
    let runtime = runtime()?;
    let stores = match command {
        ClusterCommand::Init { store } => {
            for one in store {
                runtime.block_on(Cluster::init(one))?;
                println!("the tables of {} are there", one.keyspace);
            }
            store
        }
        ClusterCommand::Check { store } => store,
        ClusterCommand::Rollup { store, since } => return runtime.block_on(rollup(store, *since)),
        ClusterCommand::Audit { store, since, refill } => return runtime.block_on(audit(store, *since, *refill)),
    };
    let mut is_whole = true;
    for store in stores {
        let (connected, nodes) = runtime.block_on(Cluster::check(store))?;
        println!("keyspace {}: the tables are as they should be; {connected} of {nodes} nodes answer", store.keyspace);
        is_whole &= connected == nodes;
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FINDING) })
}

async fn audit(stores: &[Address], since: Duration, refill: bool) -> anyhow::Result<ExitCode> {
    let mut clusters = Vec::new();
    for store in stores {
        clusters.push(Cluster::connect(store).await.with_context(|| store.hosts.join(","))?);
    }
    let mut is_whole = true;
    for (at, (store, cluster)) in stores.iter().zip(&clusters).enumerate() {
        if stores.len() > 1 {
            println!("{}/{}:", store.hosts.join(","), store.keyspace);
        }
        let other = clusters.iter().enumerate().find(|(other, _)| *other != at).map(|(_, cluster)| cluster);
        is_whole &= audit_one(cluster, other, since, refill).await?;
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FINDING) })
}

/// The minutes since 1970 that lie in the last `since`.
fn minutes(since: Duration) -> RangeInclusive<i32> {
    let minute =
        |ago: Duration| (ogive_probe::Clock::global().wall() / 60_000_000_000) as i32 - (ago.as_secs() / 60) as i32;
    // A clock of another node may be a minute ahead.
    minute(since)..=minute(Duration::ZERO) + 1
}

async fn rollup(stores: &[Address], since: Duration) -> anyhow::Result<ExitCode> {
    for store in stores {
        let cluster = Cluster::connect(store).await.with_context(|| store.hosts.join(","))?;
        let made = ogive_cassandra::make_rollups(&cluster, minutes(since)).await?;
        println!("keyspace {}: {made} hours of series have a rollup", store.keyspace);
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether every copy holds every row.
async fn audit_one(cluster: &Cluster, other: Option<&Cluster>, since: Duration, refill: bool) -> anyhow::Result<bool> {
    let found = Audit::new(cluster, other, None, refill).minutes(minutes(since)).await?;
    println!("{} rows in {} manifests, {} rows lost", found.rows, found.manifests, found.lost);
    println!("{} copies hold them; {} miss theirs", found.copies, found.copies_missing);
    if found.copies_unknown > 0 {
        println!("{} copies are on nodes that do not answer", found.copies_unknown);
    }
    if found.manifests_corrupt > 0 {
        println!("{} manifests are not what was written: their rows were not compared", found.manifests_corrupt);
    }
    if refill {
        println!("{} rows were written again to every copy", found.refilled);
    }
    Ok(found.is_whole())
}

/// The file of a copy.
fn file_of(name: &str, directory: &Path) -> anyhow::Result<PathBuf> {
    let is_good =
        (1..=100).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    anyhow::ensure!(is_good, "{name:?} is no name of a snapshot: 1 to 100 letters, digits and -_");
    Ok(directory.join(format!("{name}.ogive-cluster")))
}

/// `ogive snapshot create --store`.
pub(super) fn copy(name: &str, directory: &Path, store: &Address) -> anyhow::Result<ExitCode> {
    let path = file_of(name, directory)?;
    let made = runtime()?.block_on(ogive_cassandra::create_copy(store, &path))?;
    print(&made, &format!("{} holds", path.display()));
    if made.damaged > 0 {
        println!("{} rows are damaged in every copy, and are left out", made.damaged);
        return Ok(ExitCode::from(EXIT_FINDING));
    }
    Ok(ExitCode::SUCCESS)
}

/// `ogive snapshot restore`.
pub(super) fn restore(name: &str, directory: &Path, store: &Address) -> anyhow::Result<ExitCode> {
    let made = runtime()?.block_on(ogive_cassandra::restore_copy(store, &file_of(name, directory)?))?;
    print(&made, &format!("keyspace {} was read back, and holds", store.keyspace));
    if made.expired > 0 {
        println!("{} rows had had their time, and were left out", made.expired);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(made: &Copied, subject: &str) {
    let Contents { rows, rollups, segments, deletions, digest } = made.contents;
    println!(
        "{subject} {rows} rows, {rollups} rollups, {segments} segments of the label index and {deletions} deletions: \
         {} bytes, digest {digest:016x}",
        made.bytes
    );
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the threads of the driver")
}
