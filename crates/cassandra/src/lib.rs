//! Apache Cassandra as the store: any number of Ogive nodes over one cluster.
//!
//! A batch is acknowledged from the node's own fsynced spool ([`Node`]), split into fragments (one a series, a minute and a
//! batch), and driven to the cluster at QUORUM as rows that say everything about their identity; the spool lets go of a
//! batch only then. A query reads the rows of its series, drops what fails our own checksum, merges the fragments as a set and
//! evaluates what every store's samples are evaluated by.
//!
//! Placement, replication and membership are Cassandra's; identity, label index, checksums and the rules of merging are ours.
#![forbid(unsafe_code)]

mod address;
mod audit;
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
mod schema;
mod shared;
mod spool;
mod tls;

pub use address::Address;
pub use audit::{Audit, Findings};
pub use cluster::{Cluster, Consistent};
pub use error::Error;
pub use fragment::{Fragment, Piece, RowKey};
pub use node::{Node, Options};
pub use tls::Tls;
