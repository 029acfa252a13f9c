//! A node over a real cluster: the same answers as the embedded store, also while Cassandra's processes die, hang and
//! corrupt.
//!
//! `scripts/cassandra` starts three nodes below `target/cassandra`, or goes on with those that run there;
//! `OGIVE_CASSANDRA_DIR` names another directory of its. The nodes stay up: `scripts/cassandra target/cassandra down`
//! ends them. `OGIVE_SEED` repeats a run.

mod audit;
mod cells;
mod conformance;
mod faults;
mod keeping;
mod login;
mod process;
mod promql;
mod silence;
mod support;
mod tls;
mod two_brokers;
mod two_clusters;
