//! The evaluator: expressions over the series of a [`Select`](ogive_model::Select).
//!
//! ```text
//! Engine --- Evaluator (one query) --- selectors   fetch once, pick per step
//!                |                  |- window      ranges that slide over the columns
//!                |                  |- dense_call  the same over bins as columns, for aggregations
//!                |                  |- functions   kernels over ranges and vectors
//!                |                  |- binary      matching and operators
//!                |                  '- aggregate   groups
//!                '- Grid (the instants), Row (labels and one cell an instant)
//! ```
//!
//! Every node is evaluated once for all instants of its grid; what does not depend on the instant is evaluated at one
//! of them. Each selector reads the store once, a series at a time, on several threads (`parallel`).
//!
//! Invariants: rows hold one cell for each instant of their grid; row order is the store's until an operator changes
//! it.
//! Limits: samples read, points held by one intermediate value, bytes held by the whole query (charged before they are
//! allocated: rows with their labels, samples read, groups, answers), and a check for cancellation once a series.
//! Failure: [`Error`](crate::Error); doubts become annotations.

mod absent;
mod aggregate;
mod annotate;
mod arguments;
mod binary;
mod call;
mod delta;
mod dense_call;
mod dense_row;
mod engine;
mod evaluator;
mod fetched;
mod float_row;
mod float_runs;
mod functions;
pub(crate) mod histogram;
mod info;
mod invariant;
mod joined;
pub(crate) mod kernel;
mod looked;
mod matching;
mod memory;
mod options;
mod parallel;
mod places;
mod range_call;
mod range_vector;
mod relations;
mod rollups;
mod rows;
mod selectors;
mod shift;
mod slices;
mod smoothing;
mod stream;
mod subquery;
mod topk;
mod window;

pub use engine::Engine;
pub(crate) use kernel::general_to;
pub use memory::series_bytes;
pub use options::EngineOptions;
