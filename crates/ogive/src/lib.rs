//! Ogive's one binary: the command line, configuration files, and the roles `serve` and `broker`, put together of the
//! other crates.
#![forbid(unsafe_code)]

mod allocator;
mod broker;
mod cli;
#[cfg(feature = "cassandra")]
mod cluster_node;
mod crash_reports;
mod filtering;
mod fleet;
mod forward;
mod front;
mod log_output;
#[cfg(test)]
#[path = "../../protocol/src/mutations.rs"]
mod mutations;
mod offline_audit;
mod server;
mod service_manager;
mod tunnel;

#[doc(hidden)]
pub use broker::broker_file;
pub use cli::run;
#[doc(hidden)]
pub use fleet::group_file;
#[doc(hidden)]
pub use forward::forward_input;
