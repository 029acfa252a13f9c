//! The printer: a syntax tree to its canonical text.
//!
//! Invariants: `parse(print(e))` returns `e` again, except for spans, for every tree that `parse` has returned.

mod duration;
mod pretty;

use std::fmt::{self, Display, Formatter, Write};

use ogive_model::{METRIC_NAME, MatchOp, Matcher, WallMs, float};

use crate::ast::{
    Aggregate, AtModifier, Binary, Call, Cardinality, Chain, Edges, Expr, ExprKind, Matching, Number, Subquery,
    TimeShift, VectorSelector,
};
use crate::lexer::{is_plain_label, is_plain_metric};
use crate::parser::NOT_NAMES;

impl Display for Expr {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Number(number) => out.write_str(&number_text(*number)),
            ExprKind::String(text) => quoted(text, out),
            ExprKind::VectorSelector(selector) => {
                series(selector, out)?;
                shift(&selector.shift, out)?;
                edges(selector.edges, out)
            }
            ExprKind::MatrixSelector(matrix) => {
                series(&matrix.selector, out)?;
                write!(out, "[{}]", matrix.range)?;
                shift(&matrix.selector.shift, out)?;
                edges(matrix.selector.edges, out)
            }
            ExprKind::Subquery(subquery) => {
                write!(out, "{}", subquery.expr)?;
                window(subquery, out)
            }
            ExprKind::Unary(op, inner) => write!(out, "{}{inner}", op.text()),
            ExprKind::Binary(_) => {
                let Some(Chain { base, links }) = self.chain() else { return Ok(()) };
                write!(out, "{base}")?;
                links.iter().try_for_each(|(binary, _)| write!(out, " {} {}", binary.operator(), binary.right))
            }
            ExprKind::Aggregate(aggregate) => write!(out, "{aggregate}"),
            ExprKind::Call(call) => write!(out, "{call}"),
            ExprKind::Paren(inner) => write!(out, "({inner})"),
        }
    }
}

impl Binary {
    /// The operator with `bool` and how elements match.
    fn operator(&self) -> String {
        let mut out = self.op.text().to_owned();
        if self.return_bool {
            out.push_str(" bool");
        }
        if let Some(matching) = &self.matching {
            write!(out, "{matching}").expect("writes to memory");
        }
        out
    }
}

impl Subquery {
    /// What follows the expression.
    fn suffix(&self) -> String {
        let mut out = String::new();
        window(self, &mut out).expect("writes to memory");
        out
    }
}

impl Display for Matching {
    /// With a space before each part; empty when nothing was written.
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let group = match self.cardinality {
            Cardinality::ManyToOne => Some("group_left"),
            Cardinality::OneToMany => Some("group_right"),
            Cardinality::OneToOne | Cardinality::ManyToMany => None,
        };
        if self.on || !self.labels.is_empty() || group.is_some() {
            write!(out, " {} ", if self.on { "on" } else { "ignoring" })?;
            label_list(&self.labels, out)?;
        }
        if let Some(group) = group {
            write!(out, " {group} ")?;
            label_list(&self.include, out)?;
        }
        let fill = |value| number_text(Number { value, duration: false });
        match (self.fill_left, self.fill_right) {
            (Some(left), Some(right)) if left.to_bits() == right.to_bits() => write!(out, " fill ({})", fill(left)),
            (left, right) => {
                left.iter().try_for_each(|value| write!(out, " fill_left ({})", fill(*value)))?;
                right.iter().try_for_each(|value| write!(out, " fill_right ({})", fill(*value)))
            }
        }
    }
}

impl Aggregate {
    /// What precedes the parenthesis.
    fn head(&self) -> String {
        let mut out = self.op.name().to_owned();
        if self.without || !self.grouping.is_empty() {
            out.push_str(if self.without { " without " } else { " by " });
            label_list(&self.grouping, &mut out).expect("writes to memory");
            out.push(' ');
        }
        out
    }
}

impl Display for Aggregate {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(&self.head())?;
        match &self.parameter {
            Some(parameter) => write!(out, "({parameter}, {})", self.expr),
            None => write!(out, "({})", self.expr),
        }
    }
}

impl Display for Call {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}(", self.function.name)?;
        for (at, argument) in self.arguments.iter().enumerate() {
            write!(out, "{}{argument}", if at > 0 { ", " } else { "" })?;
        }
        out.write_str(")")
    }
}

/// `name{matchers}` without modifiers.
fn series(selector: &VectorSelector, out: &mut Formatter<'_>) -> fmt::Result {
    let name = selector.name.as_deref();
    let plain = name.filter(|name| is_plain_name(name));
    let quoted_name = if plain.is_none() { name } else { None };
    // The last matcher repeats the name.
    let count = selector.matchers.len() - usize::from(name.is_some());
    assert!(name.is_none_or(|name| selector.matchers[count] == name_matcher(name)), "the name's matcher is not last");
    out.write_str(plain.unwrap_or_default())?;
    if plain.is_some() && count == 0 {
        return Ok(());
    }
    out.write_str("{")?;
    quoted_name.iter().try_for_each(|name| quoted(name, out))?;
    for (at, matcher) in selector.matchers[..count].iter().enumerate() {
        out.write_str(if at > 0 || quoted_name.is_some() { "," } else { "" })?;
        condition(matcher, out)?;
    }
    out.write_str("}")
}

fn name_matcher(name: &str) -> Matcher {
    Matcher::new(METRIC_NAME, MatchOp::Equal, name).expect("no pattern to compile")
}

/// Whether `name` can be written without quotes; words with another meaning in place of an operand cannot.
fn is_plain_name(name: &str) -> bool {
    let mut taken = NOT_NAMES.iter().chain(&["inf", "nan"]);
    is_plain_metric(name) && !taken.any(|word| name.eq_ignore_ascii_case(word))
}

fn condition(matcher: &Matcher, out: &mut Formatter<'_>) -> fmt::Result {
    label(&matcher.name, out)?;
    out.write_str(matcher.op.as_str())?;
    quoted(&matcher.value, out)
}

fn window(subquery: &Subquery, out: &mut impl Write) -> fmt::Result {
    write!(out, "[{}:", subquery.range)?;
    subquery.step.iter().try_for_each(|step| write!(out, "{step}"))?;
    out.write_str("]")?;
    shift(&subquery.shift, out)
}

fn shift(shift: &TimeShift, out: &mut impl Write) -> fmt::Result {
    match shift.at {
        None => {}
        Some(AtModifier::Start) => out.write_str(" @ start()")?,
        Some(AtModifier::End) => out.write_str(" @ end()")?,
        Some(AtModifier::Time(WallMs(millis))) => {
            let sign = if millis < 0 { "-" } else { "" };
            let size = millis.unsigned_abs();
            write!(out, " @ {sign}{}.{:03}", size / 1000, size % 1000)?;
        }
    }
    shift.offset.iter().try_for_each(|offset| write!(out, " offset {offset}"))
}

fn edges(edges: Edges, out: &mut Formatter<'_>) -> fmt::Result {
    out.write_str(match edges {
        Edges::Plain => "",
        Edges::Anchored => " anchored",
        Edges::Smoothed => " smoothed",
    })
}

fn label_list(labels: &[String], out: &mut impl Write) -> fmt::Result {
    out.write_str("(")?;
    for (at, name) in labels.iter().enumerate() {
        out.write_str(if at > 0 { ", " } else { "" })?;
        label(name, out)?;
    }
    out.write_str(")")
}

fn label(name: &str, out: &mut impl Write) -> fmt::Result {
    if is_plain_label(name) { out.write_str(name) } else { quoted(name, out) }
}

/// A text in double quotes, with escapes that the lexer knows.
pub(crate) fn quoted(text: &str, out: &mut impl Write) -> fmt::Result {
    out.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(out, "\\{c}")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            c if c.is_control() => write!(out, "\\u{:04x}", c as u32)?,
            c => out.write_char(c)?,
        }
    }
    out.write_char('"')
}

/// A number in a form that the lexer reads.
fn number_text(number: Number) -> String {
    if number.duration {
        return duration::literal(number.value);
    }
    // A sign in front would be an operation.
    float::plain(number.value).trim_start_matches('+').to_owned()
}

#[cfg(test)]
mod tests {
    use crate::parse;

    fn check(text: &str, expected: &str) {
        let tree = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(tree.to_string(), expected);
        let mut again = parse(expected).unwrap_or_else(|error| panic!("{expected}: {error}"));
        let mut tree = tree;
        tree.erase_spans();
        again.erase_spans();
        assert_eq!(tree, again, "{text}");
    }

    #[test]
    fn trees_have_a_canonical_text() {
        check("sum(  rate( x [5m]) )by(a ,b)", "sum by (a, b) (rate(x[5m]))");
        check("a+on(x)group_left b", "a + on (x) group_left () b");
        check("a * ignoring(y) group_right(z) fill(-1) b", "a * ignoring (y) group_right (z) fill (-1) b");
        check("a + fill_right(2) fill_left(1) b", "a + fill_left (1) fill_right (2) b");
        check("a == bool 1", "a == bool 1");
        check("x[1h:1m] offset -5m @ start()", "x[1h:1m] @ start() offset -5m");
        check("x[1h:] @ -0.001", "x[1h:] @ -0.001");
        check("0d + 1", "0s + 1");
        check("x[5m + step() * 2]", "x[5m + step() * 2s]");
        check("{\"my.metric\", \"l.x\"=~'y\"'}", r#"{"my.metric","l.x"=~"y\""}"#);
        check("{__name__=\"inf\"}", "{__name__=\"inf\"}");
        check("{\"inf\"}", "{\"inf\"}");
        check("-x ^ 2 </ 1", "-x ^ 2 </ 1");
        check("1e100 + Inf - 1h30m", &format!("1{} + Inf - 1h30m", "0".repeat(100)));
        check("`\\n` ", r#""\\n""#);
        check("metric @ 100 smoothed", "metric @ 100.000 smoothed");
        check("topk without(\"a b\") (2, x)", "topk without (\"a b\") (2, x)");
    }
}
