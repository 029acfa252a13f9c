//! Ogive's one binary: the command line, the listeners, the HTTP API with its page, and the roles.
#![forbid(unsafe_code)]

mod allocator;
mod broker;
mod cli;
mod forward;
mod front;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod http;
mod log_output;
#[cfg(test)]
#[path = "../../protocol/src/mutations.rs"]
mod mutations;
mod server;
mod web;

pub use cli::run;
