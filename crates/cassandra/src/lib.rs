//! Apache Cassandra as the store: any number of Ogive nodes share one cluster.
//!
//! A batch is acknowledged from the node's own fsynced spool ([`Node`]), split into fragments (one per series, minute
//! and batch), and written to the cluster at QUORUM as self-identifying rows; only then does the spool release the
//! batch. A query reads the rows of its series, drops those that fail our own checksum, merges the fragments as a set,
//! and evaluates the result like the samples of any other store.
//!
//! A node may keep its data in two clusters that know nothing of each other, each with everything (`site`).
//!
//! Placement, replication and membership are Cassandra's; identity, label index, checksums and merge rules are ours.
#![forbid(unsafe_code)]

mod address;
mod audit;
mod audited;
mod auditor;
mod cluster;
mod coarse;
mod columns;
mod copy;
mod copy_format;
mod deletions;
mod drive;
mod error;
mod fan_out;
mod figures;
mod fragment;
mod hidden;
mod index;
mod keeping;
mod keys;
mod manifest;
#[cfg(test)]
#[path = "../../protocol/src/mutations.rs"]
mod mutations;
mod node;
mod pending;
mod postings;
mod read;
mod removal;
mod retry;
mod ring;
mod roller;
mod rolling;
mod rollup;
mod schema;
mod shared;
mod side_tables;
mod site;
mod spans;
mod spool;
mod statements;
mod stored;
mod table;
mod tls;
mod waiting;
mod wanted;

pub use address::{Address, Overflow};
pub use audit::{Audit, Findings};
pub use cluster::{Cluster, Consistent};
pub use copy::{Copied, check as check_copy, create as create_copy, restore as restore_copy};
pub use copy_format::Contents;
pub use error::Error;
pub use fragment::{Fragment, Piece, RowKey};
pub use keeping::RetentionPeriods;
pub use node::{Node, Options};
pub use roller::make_rollups;
pub use tls::Tls;
