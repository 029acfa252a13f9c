//! Function calls and aggregations.

use super::{Node, Parser};
use crate::ParseError;
use crate::ast::{Aggregate, AggregateOp, Call, Expr, ExprKind, Span};
use crate::functions;
use crate::lexer::{Symbol, TokenKind};

/// Expressions between parentheses.
struct Arguments {
    list: Vec<Expr>,
    /// Greatest height among them.
    height: usize,
    /// The parentheses with their contents.
    span: Span,
}

impl Parser<'_> {
    /// Whether the name at this position continues like an aggregation. If not, it is a metric's name.
    pub(super) fn aggregate_follows(&self) -> bool {
        match self.tokens.get(self.at + 1) {
            Some(next) if next.kind == TokenKind::Identifier => {
                ["by", "without"].iter().any(|keyword| self.word(next.span).eq_ignore_ascii_case(keyword))
            }
            Some(next) => next.kind == TokenKind::Symbol(Symbol::ParenOpen),
            None => false,
        }
    }

    pub(super) fn aggregate(&mut self, op: AggregateOp) -> Result<Node, ParseError> {
        let start = self.take().span;
        let mut grouping = self.group_by()?;
        self.aggregations += 1;
        let arguments = self.arguments()?;
        self.aggregations -= 1;
        if grouping.is_none() {
            grouping = self.group_by()?;
        }
        let span = start.to(self.last_span());
        let (without, grouping) = grouping.unwrap_or_default();
        let expected = 1 + usize::from(op.has_parameter());
        let count = arguments.list.len();
        if count == 0 {
            return Err(self.error(span, "no arguments for aggregate expression provided"));
        }
        let mut list = arguments.list.into_iter();
        let parameter = if op.has_parameter() { list.next() } else { None };
        let (Some(expr), None) = (list.next(), list.next()) else {
            let message = format!(
                "wrong number of arguments for aggregate expression provided, expected {expected}, got {count}"
            );
            return Err(self.error(span, message));
        };
        let aggregate = Aggregate { op, expr, parameter, without, grouping };
        self.node(arguments.height, ExprKind::Aggregate(Box::new(aggregate)), span)
    }

    /// `by (..)` or `without (..)`: whether it is the latter, and the labels.
    fn group_by(&mut self) -> Result<Option<(bool, Vec<String>)>, ParseError> {
        let without = self.at_keyword("without");
        if without || self.at_keyword("by") {
            self.at += 1;
            return Ok(Some((without, self.label_list()?)));
        }
        Ok(None)
    }

    pub(super) fn call(&mut self) -> Result<Node, ParseError> {
        let name_span = self.take().span;
        let name = self.word(name_span);
        // These four are keywords of the language, and keywords may be written in any case.
        let keyword = ["start", "end", "step", "range"].into_iter().find(|word| name.eq_ignore_ascii_case(word));
        let Some(function) = functions::find(keyword.unwrap_or(name)) else {
            return Err(self.error(name_span, format!("unknown function with name {name:?}")));
        };
        let arguments = self.arguments()?;
        let span = name_span.to(arguments.span);
        let call = Call { function, name_span, arguments: arguments.list };
        self.node(arguments.height, ExprKind::Call(call), span)
    }

    fn arguments(&mut self) -> Result<Arguments, ParseError> {
        let start = self.expect(Symbol::ParenOpen)?;
        let (mut list, mut height) = (Vec::new(), 0);
        if !self.took(Symbol::ParenClose) {
            loop {
                let argument = self.expression(0)?;
                height = height.max(argument.height);
                list.push(argument.expr);
                if !self.took(Symbol::Comma) {
                    break;
                }
                if self.peek().kind == TokenKind::Symbol(Symbol::ParenClose) {
                    return Err(self.error(self.last_span(), "trailing commas not allowed in function call args"));
                }
            }
            self.expect(Symbol::ParenClose)?;
        }
        Ok(Arguments { list, height, span: start.to(self.last_span()) })
    }

    /// `(a, b, "c d")`: names of labels; a comma may follow the last one.
    pub(super) fn label_list(&mut self) -> Result<Vec<String>, ParseError> {
        const PLACE: &str = "grouping opts";
        self.expect_in(Symbol::ParenOpen, PLACE, "\"(\"")?;
        let mut labels = Vec::new();
        while !self.took(Symbol::ParenClose) {
            labels.push(self.label_name(PLACE, "label")?);
            if !self.took(Symbol::Comma) {
                self.expect_in(Symbol::ParenClose, PLACE, "\",\" or \")\"")?;
                break;
            }
        }
        Ok(labels)
    }
}
