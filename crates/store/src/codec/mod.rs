//! Columns of samples as bytes: the content of a chunk.
//!
//! Invariants: values are restored bit for bit; a decoder returns values or [`Broken`](crate::bytes::Broken) for any
//! bytes, reserves no more than its limits, and never reads past its bytes.
//! Format: docs/formats/block.md, "Chunk".

mod aggregates;
pub(crate) mod bits;
pub(crate) mod chunk;
mod columns;
mod counts;
pub(crate) mod dictionary;
mod filter;
pub(crate) mod float_run;
pub(crate) mod floats;
pub(crate) mod histograms;
pub(crate) mod integers;
pub(crate) mod kept_floats;
pub(crate) mod kept_histograms;
mod latents;
mod matrix;
mod narrow;
mod pages;
mod sparse;
pub(crate) mod texts;
mod times;
pub(crate) mod union;
mod unpack;
