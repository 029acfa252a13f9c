//! `name{label="value", ..}`.

use ogive_model::{METRIC_NAME, MatchOp, Matcher};

use super::{Node, PATTERNS_MAX, Parser};
use crate::ParseError;
use crate::ast::{Edges, ExprKind, Span, TimeShift, VectorSelector};
use crate::lexer::{Symbol, TokenKind};

/// Between braces, as errors call it.
const PLACE: &str = "label matching";

impl Parser<'_> {
    /// The selector whose name, if any, was just read.
    pub(super) fn selector(&mut self, name_span: Option<Span>) -> Result<Node, ParseError> {
        let start = name_span.unwrap_or(self.peek().span);
        let mut name = name_span.map(|span| self.word(span).to_owned());
        let mut matchers = Vec::new();
        if self.took(Symbol::BraceOpen) {
            self.matchers(&mut name, &mut matchers)?;
        }
        let span = start.to(self.last_span());
        if let Some(name) = &name {
            if let Some(other) = matchers.iter().find(|matcher| matcher.name == METRIC_NAME) {
                return Err(self.set_twice(span, name, &other.value));
            }
            matchers.push(Matcher::new(METRIC_NAME, MatchOp::Equal, name.clone()).expect("no pattern to compile"));
        }
        let selector = VectorSelector { name, matchers, shift: TimeShift::default(), edges: Edges::Plain };
        self.node(0, ExprKind::VectorSelector(selector), span)
    }

    /// The contents of the braces, and the closing one.
    fn matchers(&mut self, name: &mut Option<String>, matchers: &mut Vec<Matcher>) -> Result<(), ParseError> {
        while !self.took(Symbol::BraceClose) {
            if let TokenKind::String(text) = &self.peek().kind
                && matches!(self.peek_after(1), TokenKind::Symbol(Symbol::Comma | Symbol::BraceClose))
            {
                let text = text.clone();
                if let Some(first) = name {
                    return Err(self.set_twice(self.peek().span, first, &text));
                }
                *name = Some(text);
                self.at += 1;
            } else {
                matchers.push(self.matcher()?);
            }
            if !self.took(Symbol::Comma) {
                self.expect_in(Symbol::BraceClose, PLACE, "\",\" or \"}\"")?;
                break;
            }
        }
        Ok(())
    }

    fn matcher(&mut self) -> Result<Matcher, ParseError> {
        let start = self.peek().span;
        let label = self.label_name(PLACE, "identifier or \"}\"")?;
        let op = match self.peek().kind {
            TokenKind::Symbol(Symbol::Assign) => MatchOp::Equal,
            TokenKind::Symbol(Symbol::NotEqual) => MatchOp::NotEqual,
            TokenKind::Symbol(Symbol::Match) => MatchOp::Regex,
            TokenKind::Symbol(Symbol::NotMatch) => MatchOp::NotRegex,
            _ => return Err(self.unexpected(PLACE, "label matching operator")),
        };
        self.at += 1;
        let TokenKind::String(value) = self.peek().kind.clone() else { return Err(self.unexpected(PLACE, "string")) };
        self.at += 1;
        let matcher = Matcher::new(label, op, value).map_err(|error| self.error(start.to(self.last_span()), error))?;
        self.patterns += usize::from(matcher.is_program());
        if self.patterns > PATTERNS_MAX {
            let message =
                format!("the query has more than {PATTERNS_MAX} regular expressions; lists such as a|b|c are none");
            return Err(self.error(start.to(self.last_span()), message));
        }
        Ok(matcher)
    }

    /// A label's name: an identifier or a quoted text. `place` and `expected` are for the error.
    pub(super) fn label_name(&mut self, place: &str, expected: &str) -> Result<String, ParseError> {
        let token = self.peek().clone();
        let name = match token.kind {
            TokenKind::Identifier => self.word(token.span).to_owned(),
            TokenKind::String(name) if !name.is_empty() => name,
            _ => return Err(self.unexpected(place, expected)),
        };
        self.at += 1;
        Ok(name)
    }

    fn set_twice(&self, span: Span, first: &str, second: &str) -> ParseError {
        self.error(span, format!("metric name must not be set twice: {first:?} or {second:?}"))
    }
}
