//! Finds the parts of an expression with the same value at every instant.

use crate::ast::{Expr, ExprKind};

/// Functions whose value depends on the instant even when their arguments do not.
const TIME_DEPENDENT: [&str; 16] = [
    "day_of_month",
    "day_of_week",
    "day_of_year",
    "days_in_month",
    "end",
    "hour",
    "minute",
    "month",
    "predict_linear",
    "range",
    "start",
    "start_timestamp",
    "step",
    "time",
    "timestamp",
    "year",
];

/// Whether the value of `expr` is the same at every instant.
pub(crate) fn is_invariant(expr: &Expr) -> bool {
    let mut waiting = vec![expr];
    while let Some(node) = waiting.pop() {
        let decided = match &node.kind {
            ExprKind::Number(_) | ExprKind::String(_) => true,
            ExprKind::VectorSelector(selector) => selector.shift.at.is_some(),
            ExprKind::MatrixSelector(matrix) => matrix.selector.shift.at.is_some(),
            ExprKind::Subquery(subquery) => subquery.shift.at.is_some(),
            ExprKind::Call(call) if TIME_DEPENDENT.contains(&call.function.name) => false,
            _ => {
                waiting.extend(node.children());
                continue;
            }
        };
        if !decided {
            return false;
        }
    }
    true
}

/// Whether evaluating `expr` once saves work: it is the same at every instant, and not a literal.
pub(crate) fn is_worth_sharing(expr: &Expr) -> bool {
    !matches!(expr.kind, ExprKind::Number(_) | ExprKind::String(_)) && is_invariant(expr)
}
