//! From measurements to cells, between the protocols and the store.
//!
//! - [`Quantizer`]: merges measurements of many series into cells of one second.
//! - [`cells`]: turns stored samples, by identity, into live cells that close in order: millions a second on each of
//!   several shards.
//! - [`align`]: turns stored samples, with the jitter of their senders, into cells of a fixed width.
//! - [`Key`]: finds a series by the bytes that a sender names it with, without parsing them as labels.
#![forbid(unsafe_code)]

pub mod align;
pub mod cells;

mod key;
mod quantizer;
mod state;

pub use key::Key;
pub use quantizer::{Counts, Limits, Measured, Quantizer, Refused, Shape, SlotId, cell_end};
pub use state::Cell;
