//! Checks types and counts of operands and arguments, with Prometheus' error texts.

use crate::ParseError;
use crate::ast::{AggregateOp, Binary, BinaryOp, Call, Expr, ExprKind, Span, ValueType, VectorSelector};

/// Checks the whole tree.
pub(crate) fn check(text: &str, expr: &Expr) -> Result<(), ParseError> {
    let checker = Checker { text };
    checker.node(expr)
}

struct Checker<'a> {
    text: &'a str,
}

impl Checker<'_> {
    fn node(&self, expr: &Expr) -> Result<(), ParseError> {
        if let ExprKind::Call(call) = &expr.kind {
            return self.call(call, expr.span);
        }
        if let Some(chain) = expr.chain() {
            self.node(chain.base)?;
            return chain.links.into_iter().try_for_each(|(binary, span)| {
                self.node(&binary.right)?;
                self.binary(binary, span)
            });
        }
        for child in expr.children() {
            self.node(child)?;
        }
        match &expr.kind {
            ExprKind::VectorSelector(selector) => self.selector(selector, expr.span),
            ExprKind::MatrixSelector(matrix) => self.selector(&matrix.selector, matrix.selector_span),
            ExprKind::Unary(_, inner) => match inner.value_type() {
                ValueType::Scalar | ValueType::Vector => Ok(()),
                other => self.fail(
                    expr.span,
                    format!(
                        "unary expression only allowed on expressions of type scalar or instant vector, got {:?}",
                        other.name()
                    ),
                ),
            },
            ExprKind::Subquery(subquery) => match subquery.expr.value_type() {
                ValueType::Vector => Ok(()),
                other => self.fail(
                    expr.span,
                    format!("subquery is only allowed on instant vector, got {} instead", other.name()),
                ),
            },
            ExprKind::Aggregate(aggregate) => {
                self.expect(&aggregate.expr, ValueType::Vector, "aggregation expression")?;
                let wanted =
                    if aggregate.op == AggregateOp::CountValues { ValueType::String } else { ValueType::Scalar };
                aggregate
                    .parameter
                    .iter()
                    .try_for_each(|parameter| self.expect(parameter, wanted, "aggregation parameter"))
            }
            ExprKind::Number(_)
            | ExprKind::String(_)
            | ExprKind::Paren(_)
            | ExprKind::Call(_)
            | ExprKind::Binary(_) => Ok(()),
        }
    }

    fn selector(&self, selector: &VectorSelector, span: Span) -> Result<(), ParseError> {
        // Otherwise the selector would read every series.
        if selector.matchers.iter().all(ogive_model::Matcher::matches_empty) {
            return self.fail(span, "vector selector must contain at least one non-empty matcher");
        }
        Ok(())
    }

    fn binary(&self, binary: &Binary, span: Span) -> Result<(), ParseError> {
        let op = binary.op;
        for side in [&binary.left, &binary.right] {
            if !matches!(side.value_type(), ValueType::Scalar | ValueType::Vector) {
                return self.fail(side.span, "binary expression must contain only scalar and instant vector types");
            }
        }
        let scalars = [&binary.left, &binary.right].iter().filter(|e| e.value_type() == ValueType::Scalar).count();
        if scalars == 2 && op.is_comparison() && !binary.return_bool {
            return self.fail(self.operator_span(binary), "comparisons between scalars must use BOOL modifier");
        }
        if scalars == 2 && matches!(op, BinaryOp::TrimUpper | BinaryOp::TrimLower) {
            return self.fail(span, format!("operator {:?} not allowed for Scalar operations", op.text()));
        }
        if scalars > 0 && op.is_set() {
            return self.fail(span, format!("set operator {:?} not allowed in binary scalar expression", op.text()));
        }
        Ok(())
    }

    /// The position of the operator: after the left operand and the space between.
    fn operator_span(&self, binary: &Binary) -> Span {
        let end = binary.left.span.end as usize;
        let between = &self.text[end..binary.right.span.start as usize];
        let start = end + between.find(|c: char| !c.is_whitespace()).unwrap_or(0);
        Span::new(start, start + binary.op.text().len())
    }

    fn call(&self, call: &Call, span: Span) -> Result<(), ParseError> {
        let function = call.function;
        let (found, name) = (call.arguments.len(), function.name);
        let most = function.arguments_max;
        let least = function.arguments_min;
        if most == Some(least) && found != least {
            return self.fail(span, format!("expected {least} argument(s) in call to {name:?}, got {found}"));
        }
        if found < least {
            return self.fail(span, format!("expected at least {least} argument(s) in call to {name:?}, got {found}"));
        }
        if let Some(most) = most.filter(|most| found > *most) {
            return self.fail(span, format!("expected at most {most} argument(s) in call to {name:?}, got {found}"));
        }
        for (at, argument) in call.arguments.iter().enumerate() {
            if name == "info" && at == 1 {
                self.label_selector(argument)?;
                continue;
            }
            self.node(argument)?;
            let wanted = function.arguments[at.min(function.arguments.len() - 1)];
            self.expect(argument, wanted, &format!("call to function {name:?}"))?;
        }
        Ok(())
    }

    /// The second argument of `info()` chooses labels, not series: it has no name and may match everything.
    fn label_selector(&self, argument: &Expr) -> Result<(), ParseError> {
        self.expect(argument, ValueType::Vector, "call to function \"info\"")?;
        match &argument.kind {
            ExprKind::VectorSelector(selector) if selector.name.is_none() => Ok(()),
            _ => self.fail(argument.span, "expected label selectors only, got vector selector instead"),
        }
    }

    fn expect(&self, expr: &Expr, wanted: ValueType, context: &str) -> Result<(), ParseError> {
        let found = expr.value_type();
        if found == wanted {
            return Ok(());
        }
        self.fail(expr.span, format!("expected type {} in {context}, got {}", wanted.name(), found.name()))
    }

    fn fail(&self, span: Span, message: impl Into<String>) -> Result<(), ParseError> {
        Err(ParseError::new(self.text, span, message))
    }
}
