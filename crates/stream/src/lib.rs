//! What happens between a measurement and the store: single measurements become cells.
//!
//! - [`Quantizer`]: merges measurements of many series into cells of one second.
//! - [`cells`]: samples that were stored already, by identity, into live cells that close in order: millions a second on each of
//!   several shards.
//! - [`align`]: samples that are stored already, jittered as their senders are, into cells of a fixed width.
//! - [`Key`]: finds a series by the bytes that a sender named it with, without reading them as labels.
#![forbid(unsafe_code)]

pub mod align;
pub mod cells;

mod key;
mod quantizer;
mod state;

pub use key::Key;
pub use quantizer::{Counts, Limits, Measured, Quantizer, Refused, Shape, SlotId, cell_end};
pub use state::Cell;
