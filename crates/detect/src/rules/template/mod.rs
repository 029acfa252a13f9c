//! Templates of labels and annotations: the language of Go's `text/template` with the functions of Prometheus.
//!
//! Limits: [`DEPTH_MAX`], [`STEPS_MAX`] and [`OUTPUT_BYTES_MAX`] bound what one template may cost.
//! Failure: a template that is refused when it is parsed refuses its rule file; one that fails while it is expanded
//! leaves its error in the text, as elsewhere.

mod compare;
mod execute;
mod functions;
mod humanize;
mod layout;
mod limits;
mod methods;
mod number;
mod parse;
mod printf;
mod site;
mod time;
mod token;
mod tree;
mod value;

pub use execute::{Template, TemplateError};
pub use limits::{DEPTH_MAX, OUTPUT_BYTES_MAX, STEPS_MAX};
pub use site::{NoQueries, Queries, Site};
pub use time::{rfc3339, timestamp_text};
pub use value::{Structure, Value};
