//! `ogive serve --store cassandra://…`: the listeners of the server before a spool and a cluster.
//!
//! Failure: what keeps the node from starting is one sentence on standard error and exit code 1; a cluster that does
//! not answer keeps no node from starting. At its end what is pending is driven for some seconds; the rest goes with
//! the next start.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ogive_cassandra::{Address, Node};
use ogive_door::backend::Backend;
use ogive_observe::clock::AskKernel;

use crate::front::Role;
use crate::server::{self, Options};

/// Prefixes of options that only the embedded store implements. Accepting them silently would promise something that
/// does not happen.
const EMBEDDED: [&str; 14] = [
    "retention",
    "rollups",
    "replay-max",
    "query-cache",
    "journal-arrivals",
    "degraded",
    "scrub-rate",
    "live-",
    "quantize",
    "detect",
    "rules",
    "tenant-rules",
    "alerting-",
    "forward",
];

/// Serves until a signal ends it.
pub(crate) fn run(options: &Options, addresses: Vec<Address>, kernel: AskKernel) -> anyhow::Result<ExitCode> {
    refuse_embedded(options)?;
    let front = server::open_front(options)?;
    server::start_crash_reports(options);
    let directory = options.data.first().expect("there is a directory").clone();
    let place = |address: &Address| format!("{} of {}", address.keyspace, address.hosts.join(" and "));
    let place = addresses.iter().map(place).collect::<Vec<_>>().join(", and ");
    let spool = directory.display().to_string();
    let opened = Node::open(ogive_cassandra::Options { addresses, directory, clock: front.clock });
    let node = Arc::new(opened?);
    let fleet = server::open_fleet(options, &front)?;
    let role = Role {
        engine: ogive_query::Engine::new(options.queries.engine()),
        query_timeout: Duration::from_secs(options.queries.query_timeout_s),
        query_memory_bytes: options.queries.query_memory_bytes(),
        admin: options.admin,
        upkeep: None,
        live: None,
        flags: options.flags.clone(),
        fleet: Some(fleet.clone()),
    };
    ogive_observe::memory::started(ogive_observe::memory_parts(&node.facts()));
    let ready = front.before(node.clone(), role, kernel)?;
    ready.runtime.spawn(server::watch_fleet(fleet, ready.app.clone()));
    let runtime = ready.serve(&format!("as node {} over {place} with its spool in {spool}", node.name()))?;
    node.finish();
    runtime.shutdown_timeout(Duration::from_secs(1));
    if node.is_driven() {
        tracing::info!(
            "ended; a majority of the copies has everything that was acknowledged here: {spool} may be removed"
        );
    } else {
        tracing::warn!(
            "ended; the cluster lacks a part of what was acknowledged here: keep {spool} for the next start"
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn refuse_embedded(options: &Options) -> anyhow::Result<()> {
    let given = options.flags.0.iter().filter(|flag| !flag.is_default);
    let refused: Vec<String> = given
        .filter(|flag| EMBEDDED.iter().any(|begin| flag.name.starts_with(begin)))
        .map(|flag| format!("--{}", flag.name))
        .collect();
    anyhow::ensure!(
        refused.is_empty(),
        "{} needs the embedded store; leave out --store, or see docs/cluster.md for what its address says",
        refused.join(" and ")
    );
    anyhow::ensure!(options.data.len() == 1, "the spool is in one directory; give --data once with --store");
    Ok(())
}
