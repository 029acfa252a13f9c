//! What follows an expression: ranges, subqueries, `offset`, `@`, `anchored` and `smoothed`.

use ogive_model::WallMs;

use super::{Node, Parser};
use crate::ParseError;
use crate::ast::{AtModifier, Edges, Expr, ExprKind, MatrixSelector, Span, Subquery, TimeShift, VectorSelector};
use crate::lexer::{Symbol, TokenKind};

/// Instants beyond this many milliseconds do not fit i64: the bound of `@` in Prometheus.
const AT_MS_MAX: f64 = i64::MAX as f64;

/// What a range may be, in the words of errors; then a step, which may be missing; and where that is allowed.
const UNITS: &str = "number, duration, step(), or range()";
const UNITS_OR_END: &str = "number, duration, step(), range(), or \"]\"";
const STEP: &str = "subquery selector";

impl Parser<'_> {
    /// The expression with everything after it that belongs to it.
    pub(super) fn postfix(&mut self, mut node: Node) -> Result<Node, ParseError> {
        loop {
            if self.peek().kind == TokenKind::Symbol(Symbol::BracketOpen) {
                node = self.bracket(node)?;
            } else if self.took(Symbol::At) {
                self.at_modifier(&mut node.expr)?;
            } else if self.took_keyword("offset") {
                self.offset(&mut node.expr)?;
            } else if self.took_keyword("anchored") {
                self.edges(&mut node.expr, Edges::Anchored)?;
            } else if self.took_keyword("smoothed") {
                self.edges(&mut node.expr, Edges::Smoothed)?;
            } else {
                return Ok(node);
            }
        }
    }

    fn bracket(&mut self, node: Node) -> Result<Node, ParseError> {
        self.expect(Symbol::BracketOpen)?;
        let range = self.range_duration("subquery or range selector", UNITS)?;
        if self.took(Symbol::Colon) {
            let closed = self.peek().kind == TokenKind::Symbol(Symbol::BracketClose);
            let step = if closed { None } else { Some(self.range_duration(STEP, UNITS_OR_END)?) };
            let span = node.expr.span.to(self.expect_in(Symbol::BracketClose, STEP, "\"]\"")?);
            let subquery = Subquery { expr: node.expr, range, step, shift: TimeShift::default() };
            return self.node(node.height, ExprKind::Subquery(Box::new(subquery)), span);
        }
        let end = self.expect_in(Symbol::BracketClose, "subquery or range", "\":\" or \"]\"")?;
        let selector_span = node.expr.span;
        let ExprKind::VectorSelector(selector) = node.expr.kind else {
            return Err(self.error(selector_span.to(end), "ranges only allowed for vector selectors"));
        };
        self.check_bare(&selector, selector_span.to(end))?;
        let matrix = MatrixSelector { selector, selector_span, range };
        self.node(0, ExprKind::MatrixSelector(matrix), selector_span.to(end))
    }

    /// Checks that modifiers come after the range.
    fn check_bare(&self, selector: &VectorSelector, span: Span) -> Result<(), ParseError> {
        let message = if selector.shift.offset.is_some() {
            "no offset modifiers allowed before range"
        } else if selector.shift.at.is_some() {
            "no @ modifiers allowed before range"
        } else {
            return Ok(());
        };
        Err(self.error(span, message))
    }

    fn offset(&mut self, expr: &mut Expr) -> Result<(), ParseError> {
        let duration = self.offset_duration()?;
        let end = self.last_span();
        let Some(shift) = time_shift(expr) else { return Err(self.misplaced("offset modifier", expr)) };
        if shift.offset.is_some() {
            return Err(self.error(expr.span, "offset may not be set multiple times"));
        }
        shift.offset = Some(duration);
        expr.span = expr.span.to(end);
        Ok(())
    }

    fn at_modifier(&mut self, expr: &mut Expr) -> Result<(), ParseError> {
        let at = self.at_instant()?;
        let end = self.last_span();
        let Some(shift) = time_shift(expr) else { return Err(self.misplaced("@ modifier", expr)) };
        if shift.at.is_some() {
            return Err(self.error(expr.span, "@ <timestamp> may not be set multiple times"));
        }
        shift.at = Some(at);
        expr.span = expr.span.to(end);
        Ok(())
    }

    fn at_instant(&mut self) -> Result<AtModifier, ParseError> {
        for (keyword, at) in [("start", AtModifier::Start), ("end", AtModifier::End)] {
            if self.took_keyword(keyword) {
                self.expect(Symbol::ParenOpen)?;
                self.expect(Symbol::ParenClose)?;
                return Ok(at);
            }
        }
        let start = self.peek().span;
        let seconds = self.signed_number("@", "timestamp")?;
        let millis = (seconds * 1000.0).round();
        if millis.is_nan() || millis.abs() >= AT_MS_MAX {
            let message = format!("timestamp out of bounds for @ modifier: {seconds}");
            return Err(self.error(start.to(self.last_span()), message));
        }
        Ok(AtModifier::Time(WallMs(millis as i64)))
    }

    fn edges(&mut self, expr: &mut Expr, edges: Edges) -> Result<(), ParseError> {
        let end = self.last_span();
        let word = if edges == Edges::Anchored { "anchored" } else { "smoothed" };
        let selector = match &mut expr.kind {
            ExprKind::VectorSelector(selector) => selector,
            ExprKind::MatrixSelector(matrix) => &mut matrix.selector,
            ExprKind::Subquery(_) => {
                return Err(self.error(expr.span, format!("{word} modifier is not supported for subqueries")));
            }
            _ => return Err(self.error(expr.span, format!("{word} modifier not implemented"))),
        };
        if selector.edges != Edges::Plain && selector.edges != edges {
            return Err(self.error(expr.span, "anchored and smoothed modifiers cannot be used together"));
        }
        selector.edges = edges;
        expr.span = expr.span.to(end);
        Ok(())
    }

    fn misplaced(&self, modifier: &str, expr: &Expr) -> ParseError {
        let message =
            format!("{modifier} must be preceded by an instant vector selector or range vector selector or a subquery");
        self.error(expr.span, message)
    }
}

/// Where this node stores `offset` and `@`, if it can have them.
fn time_shift(expr: &mut Expr) -> Option<&mut TimeShift> {
    match &mut expr.kind {
        ExprKind::VectorSelector(selector) => Some(&mut selector.shift),
        ExprKind::MatrixSelector(matrix) => Some(&mut matrix.selector.shift),
        ExprKind::Subquery(subquery) => Some(&mut subquery.shift),
        _ => None,
    }
}
