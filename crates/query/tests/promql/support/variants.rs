//! The other ways in which an instant query is asked: with `@` on every selector, and as a range query.

use ogive_model::WallMs;
use ogive_query::ast::{AtModifier, Expr, ExprKind, TimeShift};

/// Functions that look at the time of the evaluation although their arguments do not change.
const TIME_DEPENDENT: [&str; 15] = [
    "days_in_month",
    "day_of_month",
    "day_of_week",
    "day_of_year",
    "hour",
    "minute",
    "month",
    "year",
    "predict_linear",
    "time",
    "timestamp",
    "start",
    "end",
    "step",
    "range",
];

/// Texts that mean something else in a range query.
const RANGE_DEPENDENT: [&str; 4] = ["start()", "end()", "range()", "step()"];

/// The query with `@ time` on every selector that has no `@`, and the times at which to ask it; none when the query
/// depends on the time itself.
pub(crate) fn pinned(query: &str, time_ms: i64) -> Option<(String, Vec<i64>)> {
    let mut expr = ogive_query::parse(query).ok()?;
    if !pin(&mut expr, time_ms) {
        return None;
    }
    let times = match time_ms {
        0 => vec![-1000, 0, 1000],
        time => vec![-10 * time, 0, time / 5, time, 10 * time],
    };
    Some((expr.to_string(), times))
}

/// Whether the query may also be asked as a range around its instant.
pub(crate) fn range_safe(query: &str) -> bool {
    !RANGE_DEPENDENT.iter().any(|text| query.to_ascii_lowercase().contains(text))
}

/// False when a function that depends on the time was met.
fn pin(expr: &mut Expr, time_ms: i64) -> bool {
    let set = |shift: &mut TimeShift| shift.at = shift.at.or(Some(AtModifier::Time(WallMs(time_ms))));
    match &mut expr.kind {
        ExprKind::VectorSelector(selector) => set(&mut selector.shift),
        ExprKind::MatrixSelector(matrix) => set(&mut matrix.selector.shift),
        ExprKind::Subquery(subquery) => {
            // What is inside is evaluated at times that no longer move.
            set(&mut subquery.shift);
            return true;
        }
        ExprKind::Call(call) if TIME_DEPENDENT.contains(&call.function.name) => return false,
        _ => {}
    }
    expr.children_mut().into_iter().all(|child| pin(child, time_ms))
}
