//! What surrounds an evaluation, and the elements of an expression within it.

use std::collections::BTreeMap;

use ogive_model::{Labels, Select, WallMs};
use ogive_query::value::{InstantSample, Point};
use ogive_query::{Engine, Value};

/// The context of an evaluation.
pub struct EvaluationContext<'a> {
    /// Evaluates expressions.
    pub engine: &'a Engine,
    /// Address under which people reach this server.
    pub external_url: &'a str,
    /// Labels of everything that leaves this server.
    pub external_labels: &'a BTreeMap<String, String>,
    /// A clock for how long evaluations take: any origin.
    pub elapsed: &'a dyn Fn() -> std::time::Duration,
    /// Ends an evaluation when it returns true.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// The elements of an expression; a scalar is one without labels.
pub(crate) fn elements(
    store: &dyn Select,
    expr: &str,
    time: WallMs,
    context: &EvaluationContext<'_>,
) -> Result<Vec<InstantSample>, String> {
    let result =
        context.engine.instant_until(store, expr, time, context.cancelled).map_err(|error| error.to_string())?;
    match result.value {
        Value::Vector(samples) => Ok(samples),
        Value::Scalar { time, value } => {
            Ok(vec![InstantSample { labels: Labels::empty(), time, value: Point::Float(value) }])
        }
        Value::String { .. } | Value::Matrix(_) => Err("rule result is not a vector or scalar".to_owned()),
    }
}
