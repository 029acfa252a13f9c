//! Filters: what happens to lines between a listener and the store, or the spool of a broker.
//!
//! Pure: a [`Stage`] takes a batch and gives the batches that are to be stored. Configuration: docs/filters.md.
//! Invariants: samples that are no texts pass as they are, and so do the server's own texts and exemplars; each line is
//! stored, dropped or joined, and counted by the filter that did it; what numbers become travels in the batch of their
//! lines, under its number, so that a batch that is sent again counts once. Work and memory for a line are linear in
//! it. Between batches a stage keeps labels of series and the open lines of sessions.
//! Limits: see [`parse`](LINE_BYTES_MAX), [`FIELDS_MAX`], [`CELLS_MAX`], [`EVENT_BYTES_MAX`].
#![forbid(unsafe_code)]

mod case;
mod case_check;
mod config;
mod event;
mod extract;
mod fields;
mod join;
mod mask;
mod measure;
mod outgoing;
mod parse;
mod ready;
mod rule;
mod session;
mod stage;
mod tally;
mod template;
mod time;

pub use case::Case;
pub use case_check::Failure;
pub use config::{FILE_BYTES_MAX, FILTERS_MAX, File, Filter};
pub use event::EVENT_BYTES_MAX;
pub use fields::{FIELDS_BYTES_MAX, FIELDS_MAX, Fields};
pub use measure::{CELLS_MAX, OTHER};
pub use outgoing::Part;
pub use parse::LINE_BYTES_MAX;
pub use ready::{NAMES, text};
pub use session::{SessionOutcome, SessionReport, SessionTally};
pub use stage::{Filtered, Stage};
pub use tally::{Outcome, Tally};
