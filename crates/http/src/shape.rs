//! What an expression draws: which cells it counts, how often, and in which groups.
//!
//! Invariants: a leaf is named only where the expression's histograms are sums of its cells, so that the cells of a
//! range, each taken once, are the exact distribution of what the expression shows of that range. Everything else says
//! why it is not.

use ogive_model::{Labels, METRIC_NAME, Matcher, Ms};
use ogive_query::ast::{Aggregate, AggregateOp, Call, DurationScope, Expr, ExprKind, UnaryOp, VectorSelector};

/// The label of a classic bucket's bound.
pub(super) const BOUND: &str = "le";

/// How a heat map of an expression is made.
#[derive(Debug)]
pub(super) enum Shape<'e> {
    /// Each cell belongs to one column.
    Cells(Leaf<'e>),
    /// Each column is evaluated and looks back over a window; windows overlap or leave gaps.
    Windows(Leaf<'e>),
    /// Each column is evaluated; the reason why there is no exact distribution.
    Evaluated(String),
}

/// The selector that an expression sums.
#[derive(Debug)]
pub(super) struct Leaf<'e> {
    pub(super) matchers: &'e [Matcher],
    /// How far the cells lie before the columns that show them.
    pub(super) offset: Ms,
    /// From the innermost `sum` outwards.
    pub(super) groupings: Vec<Grouping<'e>>,
}

/// `by (labels)` or `without (labels)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grouping<'e> {
    without: bool,
    labels: &'e [String],
}

impl Leaf<'_> {
    /// The group of a series; everything is one group without `by` and `without`.
    pub(super) fn group(&self, labels: &Labels) -> Labels {
        if self.groupings.is_empty() {
            return Labels::empty();
        }
        self.groupings.iter().fold(labels.clone(), |labels, grouping| grouping.of(&labels))
    }
}

impl Grouping<'_> {
    fn of(&self, labels: &Labels) -> Labels {
        labels.filtered(|name| {
            let listed = self.labels.iter().any(|label| label == name);
            // A bound is a part of the distribution, not of a group.
            name != METRIC_NAME && name != BOUND && listed != self.without
        })
    }
}

/// Whether the expression separates its series into groups with `by` or `without`.
pub(super) fn is_grouped(expr: &Expr) -> bool {
    let own = matches!(&expr.kind, ExprKind::Aggregate(aggregate) if separates(aggregate));
    own || expr.children().into_iter().any(is_grouped)
}

fn separates(aggregate: &Aggregate) -> bool {
    aggregate.without || aggregate.grouping.iter().any(|label| label != BOUND)
}

/// What `expr` draws when it is evaluated every `scope.step`.
pub(super) fn shape(expr: &Expr, scope: DurationScope) -> Shape<'_> {
    found(expr, scope).unwrap_or_else(Shape::Evaluated)
}

fn found(expr: &Expr, scope: DurationScope) -> Result<Shape<'_>, String> {
    match &expr.kind {
        ExprKind::Paren(inner) | ExprKind::Unary(UnaryOp::Plus, inner) => found(inner, scope),
        ExprKind::VectorSelector(selector) => Ok(Shape::Cells(leaf(selector, scope)?)),
        ExprKind::Aggregate(aggregate) => summed(aggregate, scope),
        ExprKind::Call(call) => called(call, scope),
        ExprKind::Subquery(_) => Err("a subquery evaluates at its own instants and counts samples repeatedly".into()),
        ExprKind::Binary(_) | ExprKind::Unary(..) => {
            Err("an operator combines histograms, and the counts are no longer those of samples".into())
        }
        ExprKind::MatrixSelector(_) | ExprKind::Number(_) | ExprKind::String(_) => {
            Err("the expression selects no histograms at an instant".into())
        }
    }
}

fn leaf(selector: &VectorSelector, scope: DurationScope) -> Result<Leaf<'_>, String> {
    if selector.shift.at.is_some() {
        return Err("`@` shows one instant in every column".into());
    }
    let offset = selector.shift.offset.as_ref().map_or(Ok(Ms::ZERO), |offset| offset.signed(scope));
    let offset = offset.map_err(|error| error.to_string())?;
    Ok(Leaf { matchers: &selector.matchers, offset, groupings: Vec::new() })
}

fn summed(aggregate: &Aggregate, scope: DurationScope) -> Result<Shape<'_>, String> {
    if aggregate.op != AggregateOp::Sum {
        return Err(format!("`{}` is no sum of samples", aggregate.op.name()));
    }
    let mut shape = found(&aggregate.expr, scope)?;
    if let Shape::Cells(leaf) | Shape::Windows(leaf) = &mut shape {
        leaf.groupings.push(Grouping { without: aggregate.without, labels: &aggregate.grouping });
    }
    Ok(shape)
}

fn called(call: &Call, scope: DurationScope) -> Result<Shape<'_>, String> {
    let name = call.function.name;
    let Some(argument) = call.arguments.first() else { return Err(format!("`{name}` selects no histograms")) };
    match name {
        "sort" | "sort_desc" | "sort_by_label" | "sort_by_label_desc" => found(argument, scope),
        "rate" | "increase" => match &argument.unparenthesised().kind {
            ExprKind::MatrixSelector(matrix) => Ok(Shape::Windows(leaf(&matrix.selector, scope)?)),
            _ => found(argument, scope),
        },
        _ => Err(format!("`{name}` gives no sum of samples")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(query: &str) -> String {
        let expr = ogive_query::parse(query).unwrap();
        match shape(&expr, DurationScope { step: Ms(1_000), range: Ms(60_000) }) {
            Shape::Cells(leaf) => format!("cells {} {}", leaf.offset.0, leaf.groupings.len()),
            Shape::Windows(leaf) => format!("windows {} {}", leaf.offset.0, leaf.groupings.len()),
            Shape::Evaluated(why) => why,
        }
    }

    #[test]
    fn sums_of_cells_are_told_from_everything_else() {
        for query in ["x", "(x)", "+x", "sort(x)"] {
            assert_eq!(of(query), "cells 0 0", "{query}");
        }
        assert_eq!(of("sum by (a) (sum without (b) (x offset 1d))"), "cells 86400000 2");
        assert_eq!(of("sum(increase(x[1m]))"), "windows 0 1");
        assert_eq!(of("rate(x[5m] offset -1m)"), "windows -60000 0");
        for (query, word) in [
            ("x @ 1700000000", "`@`"),
            ("increase(x[5m] @ end())", "`@`"),
            ("increase(x[1h:1m])", "subquery"),
            ("x * 2", "operator"),
            ("-x", "operator"),
            ("avg(x)", "`avg`"),
            ("topk(2, x)", "`topk`"),
            ("irate(x[1m])", "`irate`"),
            ("avg_over_time(x[1m])", "`avg_over_time`"),
        ] {
            assert!(of(query).contains(word), "{query}: {}", of(query));
        }
    }

    #[test]
    fn groups_are_what_by_and_without_leave() {
        let labels = Labels::new([("__name__", "x"), ("a", "1"), ("b", "2"), ("c", "3"), ("le", "4")]).unwrap();
        let group = |query: &str| {
            let expr = ogive_query::parse(query).unwrap();
            let Shape::Cells(leaf) = shape(&expr, DurationScope { step: Ms(1), range: Ms(1) }) else {
                panic!("{query}")
            };
            leaf.group(&labels).iter().map(|(name, _)| name).collect::<String>()
        };
        assert_eq!(group("x"), "");
        assert_eq!(group("sum(x)"), "");
        assert_eq!(group("sum by (b, le) (x)"), "b");
        assert_eq!(group("sum without (b) (x)"), "ac");
        assert_eq!(group("sum by (a) (sum without (b) (x))"), "a");
        assert_eq!(group("sum by (b) (sum without (b) (x))"), "");
        let grouped = |query: &str| is_grouped(&ogive_query::parse(query).unwrap());
        assert!(grouped("sum by (a) (x) * 2") && grouped("sum(sum without (a) (x))"));
        assert!(!grouped("sum(x)") && !grouped("sum by (le) (rate(x[1m]))") && !grouped("x"));
    }
}
