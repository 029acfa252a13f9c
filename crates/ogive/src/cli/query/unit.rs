//! The unit of an expression's result, as far as the names in it let it be known: the same rules as the page has
//! (`ui/src/units.ts`).

use ogive_query::ast::{AggregateOp, Call, Expr, ExprKind};

/// Functions whose result has the unit of their argument.
const KEEP: [&str; 16] = [
    "abs",
    "ceil",
    "floor",
    "round",
    "clamp",
    "clamp_min",
    "clamp_max",
    "increase",
    "delta",
    "idelta",
    "avg_over_time",
    "min_over_time",
    "max_over_time",
    "sum_over_time",
    "last_over_time",
    "quantile_over_time",
];

/// Functions that read a measured value out of a histogram.
const READ: [&str; 3] = ["histogram_quantile", "histogram_avg", "histogram_stddev"];

/// Functions whose result has the unit of their argument, per second.
const RATE: [&str; 3] = ["rate", "irate", "deriv"];

/// What an expression measures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Measure {
    /// Unit of its values: `s`, `B`, `B/s`; empty when it is not known.
    pub(super) unit: &'static str,
    /// Whether its values are read out of histograms, and have no more digits than a bin.
    pub(super) is_of_bins: bool,
}

impl Measure {
    /// That of `text`; unknown if it cannot be parsed.
    pub(super) fn from_expression(text: &str) -> Self {
        let Ok(tree) = ogive_query::parse(text) else { return Self::default() };
        let is_of_bins =
            matches!(&tree.unparenthesised().kind, ExprKind::Call(call) if READ.contains(&call.function.name));
        Self { unit: of_expr(&tree), is_of_bins }
    }

    /// The unit of a distribution's values.
    pub(super) fn distribution_unit(text: &str) -> &'static str {
        ogive_query::parse(text).map_or("", |tree| first_named(&tree))
    }
}

fn of_expr(expr: &Expr) -> &'static str {
    match &expr.kind {
        ExprKind::VectorSelector(selector) => selector.name.as_deref().map_or("", of_name),
        ExprKind::MatrixSelector(matrix) => matrix.selector.name.as_deref().map_or("", of_name),
        ExprKind::Subquery(subquery) => of_expr(&subquery.expr),
        ExprKind::Unary(_, inner) | ExprKind::Paren(inner) => of_expr(inner),
        ExprKind::Aggregate(aggregate) => match aggregate.op {
            AggregateOp::Count | AggregateOp::CountValues | AggregateOp::Group | AggregateOp::Stdvar => "",
            _ => of_expr(&aggregate.expr),
        },
        ExprKind::Call(call) => of_call(call),
        _ => "",
    }
}

fn of_call(call: &Call) -> &'static str {
    let name = call.function.name;
    let vector = || call.arguments.iter().map(of_expr).find(|unit| !unit.is_empty()).unwrap_or("");
    if READ.contains(&name) {
        return call.arguments.iter().map(first_named).find(|unit| !unit.is_empty()).unwrap_or("");
    }
    if RATE.contains(&name) {
        // Seconds a second are a share of the time.
        return if vector() == "B" { "B/s" } else { "" };
    }
    if KEEP.contains(&name) { vector() } else { "" }
}

/// The unit of the first name in `expr` that ends in one.
fn first_named(expr: &Expr) -> &'static str {
    let own = match &expr.kind {
        ExprKind::VectorSelector(selector) => selector.name.as_deref().map_or("", of_name),
        ExprKind::MatrixSelector(matrix) => matrix.selector.name.as_deref().map_or("", of_name),
        _ => "",
    };
    if own.is_empty() {
        expr.children().into_iter().map(first_named).find(|unit| !unit.is_empty()).unwrap_or("")
    } else {
        own
    }
}

/// The unit that a name ends in by the custom of Prometheus.
fn of_name(name: &str) -> &'static str {
    let stem = ["_bucket", "_total", "_sum"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    if stem.ends_with("_seconds") {
        "s"
    } else if stem.ends_with("_bytes") {
        "B"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_come_from_names_and_what_is_done_with_them() {
        for (text, unit, is_of_bins) in [
            ("a_seconds", "s", false),
            ("sum by (x) (a_bytes)", "B", false),
            ("rate(a_bytes_total[5m])", "B/s", false),
            ("rate(a_seconds_sum[5m])", "", false),
            ("histogram_quantile(0.99, sum(increase(a_seconds[5m])))", "s", true),
            ("(histogram_quantile(0.99, sum by (le) (rate(a_bytes_bucket[5m]))))", "B", true),
            ("histogram_avg(a_seconds)", "s", true),
            ("histogram_count(a_seconds)", "", false),
            ("count(a_seconds)", "", false),
            ("a_seconds / b_seconds", "", false),
            ("max_over_time(a_bytes[1h])", "B", false),
            ("quantile(0.9, a_seconds)", "s", false),
            ("sum(", "", false),
        ] {
            assert_eq!(Measure::from_expression(text), Measure { unit, is_of_bins }, "{text}");
        }
        assert_eq!(Measure::distribution_unit("sum(increase(a_bytes[1m]))"), "B");
    }
}
