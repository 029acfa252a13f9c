//! Ogive's one binary: the command line, the listeners, the HTTP API with its page, and the roles.
#![forbid(unsafe_code)]

mod allocator;
#[cfg(feature = "amqp")]
mod amqp;
mod audit;
mod backend;
mod broker;
mod checks;
mod cli;
mod clock;
mod counters;
mod disk_space;
mod front;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod http;
mod ingest_path;
mod keeping;
mod listen;
mod live;
#[cfg(test)]
mod memory;
mod metadata;
#[cfg(test)]
#[path = "../../protocol/src/mutations.rs"]
mod mutations;
mod numbers;
mod observe;
mod outgoing;
mod own_value;
mod quantize;
mod reload;
mod scrape;
mod server;
mod storage;
mod upkeep;
mod web;

pub use cli::run;
