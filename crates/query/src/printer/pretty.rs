//! A syntax tree over several lines, formatted as by Prometheus' `format_query`.
//!
//! Format: a node whose text fits [`LINE_CHARS_MAX`] is on one line; a longer one has its parts on lines of their own,
//! indented by two more spaces. Selectors are never broken.

use std::fmt::Write;

use crate::DEPTH_MAX;
use crate::ast::{Chain, Expr, ExprKind, Subquery};

/// 100 bytes, as in Prometheus.
const LINE_CHARS_MAX: usize = 100;

impl Expr {
    /// The canonical text, broken into lines where it is long.
    #[must_use]
    pub fn pretty(&self) -> String {
        self.pretty_at(0)
    }

    fn pretty_at(&self, depth: usize) -> String {
        if let Some(chain) = self.chain() {
            return broken_chain(&chain, depth);
        }
        let margin = margin(depth);
        let text = self.to_string();
        if text.len() <= LINE_CHARS_MAX {
            return margin + &text;
        }
        match &self.kind {
            ExprKind::Number(_)
            | ExprKind::String(_)
            | ExprKind::VectorSelector(_)
            | ExprKind::MatrixSelector(_)
            | ExprKind::Binary(_) => margin + &text,
            ExprKind::Subquery(subquery) => broken_subquery(subquery, depth),
            ExprKind::Unary(op, inner) => {
                let inner = inner.pretty_at(depth);
                format!("{margin}{}{}", op.text(), inner.trim_start())
            }
            ExprKind::Aggregate(aggregate) => {
                let inside = aggregate.parameter.iter().chain([&aggregate.expr]);
                format!("{margin}{}({}\n{margin})", aggregate.head(), lines(inside, depth + 1))
            }
            ExprKind::Call(call) => {
                format!("{margin}{}({}\n{margin})", call.function.name, lines(call.arguments.iter(), depth + 1))
            }
            ExprKind::Paren(inner) => format!("{margin}(\n{}\n{margin})", inner.pretty_at(depth + 1)),
        }
    }
}

/// Each on its own line, after a line break, with commas between.
fn lines<'a>(parts: impl Iterator<Item = &'a Expr>, depth: usize) -> String {
    let parts: Vec<String> = parts.map(|part| format!("\n{}", part.pretty_at(depth))).collect();
    parts.join(",")
}

/// The indentation of a part at `depth`; chains of operators longer than the depth limit are not indented further.
fn margin(depth: usize) -> String {
    "  ".repeat(depth.min(DEPTH_MAX))
}

/// A chain of operators: each is one level deeper than the one after it. The part of its start that fits a line is one
/// line.
fn broken_chain(chain: &Chain<'_>, depth: usize) -> String {
    let links = &chain.links;
    let mut line = chain.base.to_string();
    let mut fit = 0;
    for (binary, _) in links {
        let longer = format!("{line} {} {}", binary.operator(), binary.right);
        if longer.len() > LINE_CHARS_MAX {
            break;
        }
        line = longer;
        fit += 1;
    }
    let level = |links_before: usize| depth + links.len() - links_before;
    let mut out = if fit > 0 { margin(level(fit)) + &line } else { chain.base.pretty_at(level(0)) };
    for (at, (binary, _)) in links.iter().enumerate().skip(fit) {
        let level = level(at + 1);
        write!(out, "\n{}{}\n", margin(level), binary.operator()).expect("writes to memory");
        out += &binary.right.pretty_at(level + 1);
    }
    out
}

fn broken_subquery(subquery: &Subquery, depth: usize) -> String {
    subquery.expr.pretty_at(depth) + &subquery.suffix()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::parse;

    fn check(text: &str, expected: &str) {
        assert_eq!(parse(text).unwrap().pretty(), expected);
    }

    #[test]
    fn what_is_long_is_broken_where_its_parts_meet() {
        check("sum by(a)(rate(x[5m]))>bool 1", "sum by (a) (rate(x[5m])) > bool 1");
        let (a, b) = ("a".repeat(60), "b".repeat(60));
        check(&format!("{a}+on(x)group_left {b}"), &format!("  {a}\n+ on (x) group_left ()\n  {b}"));
        check(
            &format!("topk by (job) (3, -({a} - {b}))"),
            &format!("topk by (job) (\n  3,\n  -(\n      {a}\n    -\n      {b}\n  )\n)"),
        );
        check(
            &format!("label_join({a}, \"{b}\", \",\")[1h:5m] offset 1m"),
            &format!("label_join(\n  {a},\n  \"{b}\",\n  \",\"\n)[1h:5m] offset 1m"),
        );
        check(&format!("{a}{{{b}=\"1\"}}[5m]"), &format!("{a}{{{b}=\"1\"}}[5m]"));
    }

    proptest! {
        /// However the text is broken into lines, it is the same tree.
        #[test]
        fn broken_text_is_the_same_tree(names in prop::collection::vec("[a-z]{1,40}", 1..12), shape in any::<u64>()) {
            let mut text = names[0].clone();
            for (at, name) in names[1..].iter().enumerate() {
                text = match (shape >> (at * 3)) & 7 {
                    0 => format!("sum by (l) ({text})"),
                    1 => format!("({text} + on (x) {name}_m)"),
                    2 => format!("quantile(0.5, {text})"),
                    3 => format!("-({text})"),
                    4 => format!("rate(({text})[1h:5m])"),
                    5 => format!("clamp({text}, 1, 2)"),
                    6 => format!("{name}_m / {text}"),
                    _ => format!("label_replace({text}, \"a\", \"b\", \"c\", \"d\")"),
                };
            }
            let Ok(mut tree) = parse(&text) else { return Ok(()) };
            let pretty = tree.pretty();
            let mut again = parse(&pretty).unwrap_or_else(|error| panic!("{pretty}: {error}"));
            tree.erase_spans();
            again.erase_spans();
            prop_assert_eq!(tree, again);
        }
    }
}
