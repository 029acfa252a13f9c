//! What surrounds a template: when and where it is expanded.

use ogive_model::{Labels, WallMs};

/// Executes the queries of a template.
pub trait Queries {
    /// The elements of an instant query at `time`: labels and numbers.
    ///
    /// # Errors
    /// The error, for the text.
    fn query(&self, text: &str, time: WallMs) -> Result<Vec<(Labels, f64)>, String>;
}

/// Refuses every query.
pub struct NoQueries;

impl Queries for NoQueries {
    fn query(&self, _: &str, _: WallMs) -> Result<Vec<(Labels, f64)>, String> {
        Err("there is nothing to query here".to_owned())
    }
}

/// When and where a template is expanded.
pub struct Site<'a> {
    /// Time of the evaluation.
    pub time: WallMs,
    /// Address under which people reach this server.
    pub external_url: &'a str,
    /// Executes `query`.
    pub queries: &'a dyn Queries,
}
