//! The arguments of function calls, and which of them a function accepts.

use crate::Error;
use crate::ast::{Edges, Expr, ExprKind, Span};

/// Functions that may look at samples outside of their window, as `anchored` selectors give them.
const ANCHORED: [&str; 5] = ["changes", "delta", "increase", "rate", "resets"];
/// The same for `smoothed`.
const SMOOTHED: [&str; 3] = ["delta", "increase", "rate"];

/// Whether a range function returns samples unchanged, so that they keep the metric's name.
pub(crate) fn keeps_name(function: &str) -> bool {
    matches!(function, "last_over_time" | "first_over_time")
}

/// The text of an argument, which the parser has found to be one.
pub(crate) fn text_argument(expr: &Expr) -> &str {
    match &expr.unparenthesised().kind {
        ExprKind::String(text) => text,
        _ => "",
    }
}

/// The position for annotations about a range vector. The samples of a subquery have no position in the text: they are
/// reported at its start, as in Prometheus.
pub(super) fn matrix_span(argument: &Expr) -> Span {
    let argument = argument.unparenthesised();
    if matches!(argument.kind, ExprKind::Subquery(_)) { Span::default() } else { argument.span }
}

pub(crate) fn check_edges(range: &Expr, name: &str) -> Result<(), Error> {
    let ExprKind::MatrixSelector(matrix) = &range.unparenthesised().kind else { return Ok(()) };
    let (edges, allowed): (&str, &[&str]) = match matrix.selector.edges {
        Edges::Plain => return Ok(()),
        Edges::Anchored => ("anchored", &ANCHORED),
        Edges::Smoothed => ("smoothed", &SMOOTHED),
    };
    if allowed.contains(&name) {
        return Ok(());
    }
    let allowed = allowed.join(", ");
    Err(Error::evaluate(format!("{edges} modifier can only be used with: {allowed} - not with {name}")))
}
