//! Sends what a process measures to an Ogive server or broker: each second its cells, each slow trace whole, exactly
//! once.
//!
//! Register recorders, counters, traces and meters of `ogive-probe` with [`Exporter::cells`]; nothing on the path of a
//! measurement changes. What cannot be sent waits in memory up to a bound; what the bound costs is counted, exported as
//! `ogive_export_dropped_total{reason,what}` and shown by [`Exporter::status`].
//!
//! - [`Exporter`]: the two threads and their handle.
//! - [`Cells`]: the series of the process, which a program may also take itself.
//! - [`Link`]: the way to a server; HTTP unless you bring your own. [`Client`]: that HTTP for who sends frames himself.
//! - [`trace_series`]: what the series of a traced path are called.
//!
//! See docs/export.md for an example, and docs/decisions/export.md for why it is a crate of its own with two threads.
#![forbid(unsafe_code)]

mod amount;
mod answer;
mod backoff;
mod cells;
mod error;
mod exporter;
mod http;
mod link;
mod measured;
mod outbox;
pub mod trace_series;
mod traces;

pub use amount::Amount;
pub use answer::Answer;
pub use cells::{Cells, SERIES_MAX, Text};
pub use error::Error;
pub use exporter::{Builder, Exporter, State, Status};
pub use http::{Body, Client, ClientOptions, FRAME, FRAMES, NoReply, Reply, refuses_everywhere};
pub use link::{Link, Outcome};
pub use measured::{CellEnd, Measured, random_source};
pub use outbox::{DROPPED_BOUND, DROPPED_SHUTDOWN, DROPPED_TOO_LARGE, Dropped, SampleSpan};
pub use traces::SLOW_MAX;

/// The examples of docs/export.md, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/export.md")]
struct Guide;
