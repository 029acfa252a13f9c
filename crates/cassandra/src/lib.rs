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
mod columns;
mod drive;
mod error;
mod figures;
mod fragment;
mod index;
mod manifest;
mod node;
mod pending;
mod read;
mod retry;
mod ring;
mod schema;
mod shared;
mod site;
mod sites;
mod spool;
mod tls;
mod waiting;

pub use address::Address;
pub use audit::{Audit, Findings};
pub use cluster::{Cluster, Consistent};
pub use error::Error;
pub use fragment::{Fragment, Piece, RowKey};
pub use node::{Node, Options};
pub use tls::Tls;
