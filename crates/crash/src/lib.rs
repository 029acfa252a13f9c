//! Crash reports: what a panic or a fatal signal of this process leaves for the people who mend it.
//!
//! A role starts a **writer**, a child process of the same binary, and keeps a socket to it. Every log record goes
//! through the socket, so that the writer has the last ones whatever happens to the memory of the role. On SIGSEGV,
//! SIGABRT, SIGBUS, SIGILL or SIGFPE the handler sends registers, memory map and a copy of the stack, with calls that a
//! signal handler may make, and waits until the writer has unwound the stack and stored the report. A panic does the
//! same from the panic hook.
//!
//! *Invariants*: the crashing process allocates nothing and takes no lock between signal and report; a report is a
//! whole file or none; a report holds no secret of the configuration (who starts the handler takes them out) and no
//! memory but the addresses of frames. *Threads*: the writer has one. *Limits*: [`catalog::REPORTS_MAX`] reports,
//! [`handler::PANICS_MAX`] panics of one process, [`writer::EVENTS_MAX`] log records, [`handler::STACK_BYTES_MAX`] of
//! the stack. *Failure*: without a writer the process crashes as it would without this crate.
//!
//! `unsafe` stands in `handler.rs` alone. This crate may know disks, clocks and texts; it knows nothing of samples.
#![deny(unsafe_code)]

pub mod activity;
pub mod catalog;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
#[allow(unsafe_code, reason = "signal handlers, and reading this process' registers")]
pub mod handler;
mod message;
#[cfg(test)]
#[path = "../../protocol/src/mutations.rs"]
mod mutations;
pub mod report;
pub mod stack;
pub mod symbols;
mod webhook;
pub mod writer;

/// Why a crash report is not written or not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The child process that writes reports does not start.
    #[error("cannot start the writer of crash reports: {0}")]
    Writer(#[source] std::io::Error),
    /// A signal's handler cannot be set, or the socket to the writer cannot be made.
    #[error("cannot prepare for crashes: {0}")]
    System(#[from] nix::Error),
    /// A file of the directory of reports.
    #[error(transparent)]
    Disk(#[from] ogive_journal::Error),
    /// A file that is no report.
    #[error("{path} is no crash report: {source}")]
    Report {
        /// The file.
        path: String,
        /// What the parser says.
        source: serde_json::Error,
    },
}
