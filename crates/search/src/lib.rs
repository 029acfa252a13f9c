//! Search in lines of text: the language of queries, and the fields of lines in JSON and logfmt.
//!
//! Pure: a [`Query`] is made of a text, and answers for a line whether it matches. Language: docs/logs.md.
//! Invariants: a line that matches has the words that [`Query::words`] asks for; a query that is printed and parsed
//! again is the same.
//! Limits: [`QUERY_BYTES_MAX`], [`TERMS_MAX`] and [`DEPTH_MAX`] of a query, [`REGEX_BYTES_MAX`] of its regular
//! expressions.
#![forbid(unsafe_code)]

mod compare;
mod error;
mod expr;
mod fields;
mod lexer;
mod line;
mod parser;
mod pattern;
mod query;
mod severity;

pub use error::Error;
pub use fields::{FIELD_DEPTH_MAX, each_field};
pub use lexer::QUERY_BYTES_MAX;
pub use line::{FieldSource, Line};
pub use parser::{DEPTH_MAX, REGEX_BYTES_MAX, TERMS_MAX};
pub use query::Query;
pub use severity::Severity;
