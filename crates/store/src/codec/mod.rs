//! Columns of samples as bytes: the inside of a chunk.
//!
//! Invariants: what was put comes back bit for bit; a decoder given any bytes at all returns values or
//! [`Broken`](crate::bytes::Broken), reserves no more than its limits say, and reads no further than its bytes.
//! Format: docs/formats/block.md, "Chunk".

mod aggregates;
pub(crate) mod chunk;
mod columns;
pub(crate) mod dictionary;
mod filter;
pub(crate) mod floats;
pub(crate) mod histograms;
pub(crate) mod integers;
mod matrix;
pub(crate) mod texts;
mod times;
