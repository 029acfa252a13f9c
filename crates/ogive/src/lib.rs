//! Ogive's one binary: the command line, the listeners, the HTTP API with its page, and the roles.
#![forbid(unsafe_code)]

mod alerting;
mod allocator;
mod broker;
mod cli;
mod clock;
mod detection;
mod disk_space;
mod facts;
mod forward;
mod front;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod http;
mod keeping;
mod live;
#[cfg(test)]
#[path = "../../protocol/src/mutations.rs"]
mod mutations;
mod observe;
mod quantize;
mod rules_view;
mod server;
mod source_times;
mod storage;
mod upkeep;
mod web;

pub use cli::run;
