//! PromQL: lexer, parser, printer and evaluator over the [`ogive_model::Select`] trait.
//!
//! Pure: no clock, no sockets, no runtime. Time is an argument, the store is a trait object.
//!
//! ```text
//! text --lexer--> tokens --parser--> Expr --eval (Select)--> QueryResult
//!                                     '--printer--> text
//! ```
//!
//! The parser and the engine (in `eval`):
//!
//! ```text
//! pub fn parse(text: &str) -> Result<Expr, ParseError>;
//! pub struct Options { lookback_ms, samples_max, subquery_step_ms, delayed_name_removal, .. } // Default
//! pub struct Engine { .. }                                                                    // Send + Sync
//! impl Engine {
//!     pub fn new(options: Options) -> Engine;
//!     pub fn instant(&self, store: &dyn Select, query: &str, time_ms: i64) -> Result<QueryResult, Error>;
//!     pub fn range(&self, store: &dyn Select, query: &str, start_ms: i64, end_ms: i64, step_ms: i64)
//!         -> Result<QueryResult, Error>;
//! }
//! ```
#![forbid(unsafe_code)]

pub mod annotations;
pub mod ast;
pub mod functions;
pub mod value;

mod check;
mod error;
mod lexer;
mod parser;
mod printer;

pub use annotations::{Annotation, Annotations, Level};
pub use error::{Error, ParseError};
pub use parser::{DEPTH_MAX, TEXT_BYTES_MAX, parse};
pub use value::{QueryResult, Value};
