//! Ogive's one binary: the command line, the listeners, the HTTP API with its page, and the roles.
#![forbid(unsafe_code)]

mod backend;
mod cli;
mod clock;
mod counters;
mod http;
mod ingest_path;
mod keeping;
mod listen;
#[cfg(test)]
mod memory;
mod metadata;
mod numbers;
mod observe;
mod own_value;
mod scrape;
mod server;
mod storage;
mod upkeep;
mod web;

pub use cli::run;
