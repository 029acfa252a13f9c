//! Ogive's one binary: the command line, the listeners, the HTTP API with its page, and the roles.
#![forbid(unsafe_code)]

mod cli;

pub use cli::run;
