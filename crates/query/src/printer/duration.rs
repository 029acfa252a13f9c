//! Durations to text.

use std::fmt::{self, Display, Formatter};

use crate::ast::{DurationExpr, DurationKind, DurationOp, UnaryOp};

impl Display for DurationExpr {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            DurationKind::Literal(seconds) => out.write_str(&literal(*seconds)),
            DurationKind::Step => out.write_str("step()"),
            DurationKind::Range => out.write_str("range()"),
            DurationKind::Unary(UnaryOp::Plus, inner) => write!(out, "+{inner}"),
            DurationKind::Unary(UnaryOp::Minus, inner) => write!(out, "-{inner}"),
            DurationKind::Paren(inner) => write!(out, "({inner})"),
            DurationKind::Binary(DurationOp::MinOf, left, right) => write!(out, "min_of({left}, {right})"),
            DurationKind::Binary(DurationOp::MaxOf, left, right) => write!(out, "max_of({left}, {right})"),
            DurationKind::Binary(op, left, right) => write!(out, "{left} {} {right}", symbol(*op)),
        }
    }
}

fn symbol(op: DurationOp) -> char {
    match op {
        DurationOp::Add => '+',
        DurationOp::Subtract => '-',
        DurationOp::Multiply => '*',
        DurationOp::Divide => '/',
        DurationOp::Modulo => '%',
        DurationOp::Power => '^',
        DurationOp::MinOf | DurationOp::MaxOf => unreachable!("written as calls"),
    }
}

/// Longer durations are out of range for the lexer.
const MILLIS_MAX: f64 = (i64::MAX / 1_000_000) as f64;

/// Seconds as a duration if whole milliseconds represent them exactly, else as a number.
pub(super) fn literal(seconds: f64) -> String {
    let millis = (seconds * 1000.0).round();
    if (0.0..=MILLIS_MAX).contains(&millis) && millis / 1000.0 == seconds {
        ogive_text::duration::write_ms(millis as u64)
    } else {
        seconds.to_string()
    }
}
