//! Durations: `5m`, `1h + 30s`, `step()`, `max_of(range(), 1m)`.

use ogive_model::Ms;

use super::Parser;
use crate::ParseError;
use crate::ast::{DurationExpr, DurationKind, DurationOp, DurationScope, Span, UnaryOp};
use crate::lexer::{Symbol, TokenKind};

/// For durations that do not use it.
const NO_SCOPE: DurationScope = DurationScope { step: Ms::ZERO, range: Ms::ZERO };

const POWER_STRENGTH: u8 = 3;

impl Parser<'_> {
    /// The duration of a range or of a step: any arithmetic.
    pub(super) fn range_duration(
        &mut self,
        place: &'static str,
        expected: &'static str,
    ) -> Result<DurationExpr, ParseError> {
        let duration = self.duration_expression(0).map_err(|error| self.placed(error, place, expected))?;
        if duration.is_constant() {
            duration.positive(NO_SCOPE).map_err(|error| self.error(error.span, error.message))?;
        }
        Ok(duration)
    }

    /// The duration of an offset: arithmetic only in parentheses, since `x offset 5m + 2` adds 2 to the values.
    pub(super) fn offset_duration(&mut self) -> Result<DurationExpr, ParseError> {
        let expected = "number, duration, step(), or range()";
        let duration = self.offset_operand().map_err(|error| self.placed(error, "offset", expected))?;
        if duration.is_constant() {
            duration.signed(NO_SCOPE).map_err(|error| self.error(error.span, error.message))?;
        }
        Ok(duration)
    }

    /// An error about an unexpected token, with its context.
    fn placed(&self, error: ParseError, place: &str, expected: &str) -> ParseError {
        let is_about_token = error.span == self.peek().span && error.message.starts_with("unexpected ");
        if is_about_token { self.unexpected(place, expected) } else { error }
    }

    fn offset_operand(&mut self) -> Result<DurationExpr, ParseError> {
        let start = self.peek().span;
        let Some(op) = self.duration_sign() else { return self.duration_primary() };
        self.depth += 1;
        self.within_depth(self.depth)?;
        let inner = self.offset_operand()?;
        self.depth -= 1;
        Ok(signed(op, start, inner))
    }

    fn duration_expression(&mut self, least: u8) -> Result<DurationExpr, ParseError> {
        self.depth += 1;
        self.within_depth(self.depth)?;
        let mut left = self.duration_operand()?;
        let mut height = 0;
        while let Some((op, strength)) = self.duration_op().filter(|(_, strength)| *strength >= least) {
            height += 1;
            self.within_depth(self.depth + height)?;
            self.at += 1;
            let right = self.duration_expression(if op == DurationOp::Power { strength } else { strength + 1 })?;
            let span = left.span.to(right.span);
            left = DurationExpr { kind: DurationKind::Binary(op, Box::new(left), Box::new(right)), span };
        }
        self.depth -= 1;
        Ok(left)
    }

    fn duration_operand(&mut self) -> Result<DurationExpr, ParseError> {
        let start = self.peek().span;
        match self.duration_sign() {
            Some(op) => Ok(signed(op, start, self.duration_expression(POWER_STRENGTH)?)),
            None => self.duration_primary(),
        }
    }

    fn duration_primary(&mut self) -> Result<DurationExpr, ParseError> {
        let token = self.peek().clone();
        match token.kind {
            TokenKind::Number(seconds) | TokenKind::Duration(seconds) => {
                self.at += 1;
                Ok(DurationExpr { kind: DurationKind::Literal(seconds), span: token.span })
            }
            TokenKind::Symbol(Symbol::ParenOpen) => {
                self.at += 1;
                let inner = self.duration_expression(0)?;
                let span = token.span.to(self.expect(Symbol::ParenClose)?);
                Ok(DurationExpr { kind: DurationKind::Paren(Box::new(inner)), span })
            }
            TokenKind::Identifier => self.duration_call(),
            _ => Err(self.unexpected("", "")),
        }
    }

    fn duration_call(&mut self) -> Result<DurationExpr, ParseError> {
        let start = self.peek().span;
        let name = self.word(start).to_ascii_lowercase();
        let kind = match name.as_str() {
            "step" | "range" => {
                self.at += 1;
                self.expect(Symbol::ParenOpen)?;
                if name == "step" { DurationKind::Step } else { DurationKind::Range }
            }
            "min_of" | "max_of" => {
                self.at += 1;
                self.expect(Symbol::ParenOpen)?;
                let left = self.duration_expression(0)?;
                self.expect(Symbol::Comma)?;
                let right = self.duration_expression(0)?;
                let op = if name == "min_of" { DurationOp::MinOf } else { DurationOp::MaxOf };
                DurationKind::Binary(op, Box::new(left), Box::new(right))
            }
            _ => return Err(self.unexpected("", "")),
        };
        let span = start.to(self.expect(Symbol::ParenClose)?);
        Ok(DurationExpr { kind, span })
    }

    fn duration_sign(&mut self) -> Option<UnaryOp> {
        if self.took(Symbol::Minus) {
            Some(UnaryOp::Minus)
        } else if self.took(Symbol::Plus) {
            Some(UnaryOp::Plus)
        } else {
            None
        }
    }

    fn duration_op(&self) -> Option<(DurationOp, u8)> {
        let TokenKind::Symbol(symbol) = self.peek().kind else { return None };
        Some(match symbol {
            Symbol::Plus => (DurationOp::Add, 1),
            Symbol::Minus => (DurationOp::Subtract, 1),
            Symbol::Star => (DurationOp::Multiply, 2),
            Symbol::Slash => (DurationOp::Divide, 2),
            Symbol::Percent => (DurationOp::Modulo, 2),
            Symbol::Caret => (DurationOp::Power, POWER_STRENGTH),
            _ => return None,
        })
    }
}

fn signed(op: UnaryOp, start: Span, inner: DurationExpr) -> DurationExpr {
    let span = start.to(inner.span);
    DurationExpr { kind: DurationKind::Unary(op, Box::new(inner)), span }
}
