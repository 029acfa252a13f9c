//! PromQL: lexer, parser, printer and evaluator over the [`ogive_model::Select`] trait.
//!
//! Pure: no clock, no sockets, no runtime. Time is an argument, the store is a trait object.
//!
//! ```text
//! text --lexer--> tokens --parser--> Expr --eval (Select)--> QueryResult
//!                                     '--printer--> text
//! ```
//!
//! ```text
//! parse(text) -> Expr
//! parse_plain_selector(text) -> matchers
//! Engine::new(EngineOptions).instant(store, query, time) -> QueryResult
//!                           .range(store, query, start, end, step) -> QueryResult
//! ```
#![forbid(unsafe_code)]

pub mod annotations;
pub mod ast;
pub mod functions;
pub mod points;
pub mod value;

mod check;
mod classic;
mod error;
mod eval;
mod lexer;
mod parser;
mod plain_selector;
mod printer;
mod threads;

pub use annotations::{Annotation, Annotations, Level};
pub use classic::{BOUNDS_MAX, ClassicViews};
pub use error::{Error, ParseError};
pub use eval::{Engine, EngineOptions, series_bytes};
pub use parser::{DEPTH_MAX, OPERATORS_MAX, PATTERNS_MAX, TEXT_BYTES_MAX, parse};
pub use plain_selector::parse_plain_selector;
pub use threads::on_threads;
pub use value::{MemoryCharge, QueryResult, QueryStats, Value};
