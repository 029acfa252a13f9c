//! Durations, which may be computed: `[5m + 2s]`, `offset step()`, `[max_of(range(), 1m)]`.
//!
//! Limits: a result outside i64 nanoseconds (292 years) is an error, as in Prometheus.

use ogive_model::Ms;

use super::{Span, UnaryOp};

/// A duration with the text it was read from.
#[derive(Clone, Debug, PartialEq)]
pub struct DurationExpr {
    /// What it is.
    pub kind: DurationKind,
    /// Where it was.
    pub span: Span,
}

/// What a duration is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum DurationKind {
    /// Seconds: `90`, or `1m30s`.
    Literal(f64),
    /// `step()`: the query's step.
    Step,
    /// `range()`: the query's end less its start.
    Range,
    /// A sign before it.
    Unary(UnaryOp, Box<DurationExpr>),
    /// Two combined.
    Binary(DurationOp, Box<DurationExpr>, Box<DurationExpr>),
    /// `(d)`.
    Paren(Box<DurationExpr>),
}

/// How two durations combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DurationOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
    /// `^`
    Power,
    /// `min_of(a, b)`
    MinOf,
    /// `max_of(a, b)`
    MaxOf,
}

/// What a duration may refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationScope {
    /// Between two evaluations; zero for an instant query.
    pub step: Ms,
    /// End less start.
    pub range: Ms,
}

/// Why a duration has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DurationError {
    /// What is wrong.
    pub message: String,
    /// Where.
    pub span: Span,
}

impl DurationExpr {
    /// Its length, of either sign: for `offset`.
    ///
    /// # Errors
    /// Division by zero, or a result out of range.
    pub fn signed(&self, scope: DurationScope) -> Result<Ms, DurationError> {
        let seconds = self.seconds(scope)?;
        // The bound of a duration in Prometheus: i64 nanoseconds.
        if seconds.is_nan() || seconds.abs() >= i64::MAX as f64 / 1e9 {
            return Err(self.error("duration is out of range"));
        }
        // Through nanoseconds, as Prometheus counts: 1.003 s as a float is below 1003 ms.
        Ok(Ms(((seconds * 1e9).round() / 1e6) as i64))
    }

    /// Its length, above zero: for ranges and steps.
    ///
    /// # Errors
    /// As [`DurationExpr::signed`], and when the result is not positive.
    pub fn positive(&self, scope: DurationScope) -> Result<Ms, DurationError> {
        let span = self.signed(scope)?;
        if self.seconds(scope)? <= 0.0 {
            return Err(self.error("duration must be greater than 0"));
        }
        Ok(span)
    }

    /// Whether it has a value without a query.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        match &self.kind {
            DurationKind::Literal(_) => true,
            DurationKind::Step | DurationKind::Range => false,
            DurationKind::Unary(_, inner) | DurationKind::Paren(inner) => inner.is_constant(),
            DurationKind::Binary(_, left, right) => left.is_constant() && right.is_constant(),
        }
    }

    pub(crate) fn erase_spans(&mut self) {
        self.span = Span::default();
        match &mut self.kind {
            DurationKind::Literal(_) | DurationKind::Step | DurationKind::Range => {}
            DurationKind::Unary(_, inner) | DurationKind::Paren(inner) => inner.erase_spans(),
            DurationKind::Binary(_, left, right) => {
                left.erase_spans();
                right.erase_spans();
            }
        }
    }

    fn seconds(&self, scope: DurationScope) -> Result<f64, DurationError> {
        Ok(match &self.kind {
            DurationKind::Literal(seconds) => *seconds,
            DurationKind::Step => scope.step.0 as f64 / 1000.0,
            DurationKind::Range => scope.range.0 as f64 / 1000.0,
            DurationKind::Unary(UnaryOp::Plus, inner) | DurationKind::Paren(inner) => inner.seconds(scope)?,
            DurationKind::Unary(UnaryOp::Minus, inner) => -inner.seconds(scope)?,
            DurationKind::Binary(op, left, right) => self.combined(*op, left.seconds(scope)?, right.seconds(scope)?)?,
        })
    }

    fn combined(&self, op: DurationOp, left: f64, right: f64) -> Result<f64, DurationError> {
        Ok(match op {
            DurationOp::Add => left + right,
            DurationOp::Subtract => left - right,
            DurationOp::Multiply => left * right,
            DurationOp::Divide if right == 0.0 => return Err(self.error("division by zero")),
            DurationOp::Divide => left / right,
            DurationOp::Modulo if right == 0.0 => return Err(self.error("modulo by zero")),
            DurationOp::Modulo => left % right,
            DurationOp::Power => left.powf(right),
            DurationOp::MinOf => left.min(right),
            DurationOp::MaxOf => left.max(right),
        })
    }

    fn error(&self, message: &str) -> DurationError {
        DurationError { message: message.to_owned(), span: self.span }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPE: DurationScope = DurationScope { step: Ms(5000), range: Ms(10_000) };

    fn node(kind: DurationKind) -> Box<DurationExpr> {
        Box::new(DurationExpr { kind, span: Span::new(1, 2) })
    }

    fn binary(op: DurationOp, left: DurationKind, right: DurationKind) -> DurationExpr {
        *node(DurationKind::Binary(op, node(left), node(right)))
    }

    #[test]
    fn arithmetic_has_its_value() {
        use DurationKind::{Literal, Range, Step};
        let check = |op, left, right, expected| assert_eq!(binary(op, left, right).signed(SCOPE), Ok(Ms(expected)));
        check(DurationOp::Add, Step, Literal(1.0), 6000);
        check(DurationOp::Subtract, Literal(1.0), Range, -9000);
        check(DurationOp::Modulo, Literal(5400.0), Literal(3600.0), 1_800_000);
        check(DurationOp::MinOf, Step, Range, 5000);
        check(DurationOp::MaxOf, Step, Range, 10_000);
        check(DurationOp::Power, Literal(2.0), Literal(3.0), 8000);
        check(DurationOp::Multiply, Literal(1.003), Literal(1.0), 1003);
        check(DurationOp::Multiply, Literal(0.0019), Literal(1.0), 1);
    }

    #[test]
    fn what_has_no_value_is_an_error() {
        use DurationKind::Literal;
        let check = |op, left, right, expected: &str| {
            assert_eq!(binary(op, Literal(left), Literal(right)).positive(SCOPE).unwrap_err().message, expected);
        };
        check(DurationOp::Divide, 1.0, 0.0, "division by zero");
        check(DurationOp::Modulo, 1.0, 0.0, "modulo by zero");
        check(DurationOp::Subtract, 1.0, 1.0, "duration must be greater than 0");
        check(DurationOp::Power, 10.0, 300.0, "duration is out of range");
        check(DurationOp::Power, -1.0, 0.5, "duration is out of range");
    }
}
