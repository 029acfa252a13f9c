//! `ogive cluster`: the tables in Apache Cassandra that `ogive serve --store` needs.

use std::process::ExitCode;

use anyhow::Context;
use ogive_cassandra::{Address, Cluster};

use super::exit::EXIT_FINDING;

/// Looks after the tables of a cluster of Apache Cassandra that is the store.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum ClusterCommand {
    /// Makes the keyspace and its tables; what is there stays as it is.
    Init {
        /// cassandra://HOST,HOST/KEYSPACE?name=value (docs/cluster.md).
        #[arg(long, value_name = "URL", env = "OGIVE_STORE", value_parser = address)]
        store: Address,
    },
    /// Reports whether the tables are as they should be, and how many nodes answer; exit code 1 when one does not.
    Check {
        /// cassandra://HOST,HOST/KEYSPACE?name=value (docs/cluster.md).
        #[arg(long, value_name = "URL", env = "OGIVE_STORE", value_parser = address)]
        store: Address,
    },
}

pub(crate) fn address(text: &str) -> Result<Address, String> {
    Address::parse(text).map_err(|error| error.to_string())
}

/// Runs the command.
pub(crate) fn run(command: &ClusterCommand) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the threads of the driver")?;
    let store = match command {
        ClusterCommand::Init { store } => {
            runtime.block_on(Cluster::init(store))?;
            println!("the tables of {} are there", store.keyspace);
            store
        }
        ClusterCommand::Check { store } => store,
    };
    let (connected, nodes) = runtime.block_on(Cluster::check(store))?;
    println!("keyspace {}: the tables are as they should be; {connected} of {nodes} nodes answer", store.keyspace);
    Ok(if connected < nodes { ExitCode::from(EXIT_FINDING) } else { ExitCode::SUCCESS })
}
