//! CAQL, a subset: pipelines of functions over columns of one grid.
//!
//! Format: `find('name', 'and(tag:query)') | histogram:percentile(99) | top(5)`; several pipelines in braces with
//! semicolons between them stand beside each other. Texts are in quotes; durations are numbers with `s`, `M` (minutes),
//! `h`, `d` or `w`. Lines that begin with `#` are left out. docs/irondb.md lists the functions.
//! Invariants: a slot's value is made of its own and of earlier slots alone; what rolls or is windowed reads so many
//! slots before the first that the answer is the same wherever it begins. [`evaluate_last`], which streams, gives the
//! bits that [`evaluate`] gives.
//! Limits: [`BYTES_MAX`], [`STAGES_MAX`], [`DEPTH_MAX`]; [`COLUMNS_MAX`] columns; slots as for `/fetch`, those before
//! the first among them.

mod evaluation;
mod forecasting;
mod functions;
mod histograms;
mod parser;

use crate::frame::{Grid, Output};

pub use evaluation::{evaluate, evaluate_last, sources};
pub use parser::parse;

/// 64 KiB.
pub const BYTES_MAX: usize = 64 * 1024;
/// 256 functions.
pub const STAGES_MAX: usize = 256;
/// 16 levels of braces.
pub const DEPTH_MAX: usize = 16;
/// 10,000 columns.
pub const COLUMNS_MAX: usize = 10_000;

/// Consecutive functions.
pub type Pipeline = Vec<Stage>;

/// A step of a pipeline.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// A function.
    Call(Call),
    /// Parallel pipelines, each with the same input.
    Beside(Vec<Pipeline>),
}

/// A function with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Before the colon.
    pub name: String,
    /// Behind it; empty without one.
    pub method: String,
    /// In their order.
    pub arguments: Vec<Argument>,
    /// Named arguments.
    pub named: Vec<(String, Argument)>,
}

/// An argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A text.
    Text(String),
    /// A number.
    Number(f64),
    /// A duration, milliseconds.
    Duration(i64),
}

/// The input of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineInput<'w> {
    /// The query of tags that finds the streams.
    pub query: &'w str,
    /// `numeric`, `histogram` or `text`.
    pub kind: &'w str,
    /// The transform.
    pub transform: &'w str,
    /// The most streams.
    pub limit: usize,
    /// The slots.
    pub grid: Grid,
    /// The begin of the whole range, milliseconds: streams active since then have a column, and earlier slots hold the
    /// neighbours of the first number. At or before the begin of the slots.
    pub since_ms: i64,
}

/// Where streams are found and read.
pub trait Source {
    /// Returns a column for each stream found.
    ///
    /// # Errors
    /// A sentence.
    fn find(&self, wanted: &PipelineInput<'_>) -> Result<Vec<Output>, String>;
}

#[cfg(test)]
mod tests;
