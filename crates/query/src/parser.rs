//! The parser: tokens to a syntax tree (a Pratt parser).
//!
//! Invariants: every tree that `parse` returns has passed the type checks of `check`; its height is at most
//! [`DEPTH_MAX`], so that recursive walks are safe. A run of left-associative operators (`a or b or c`) counts as one
//! level, since tree walks iterate over its links ([`Chain`](crate::ast::Chain)).
//! Limits: [`TEXT_BYTES_MAX`], [`DEPTH_MAX`], [`OPERATORS_MAX`], [`PATTERNS_MAX`], and the lexer's `TOKENS_MAX`.
//! Failure: the first invalid token ends parsing with its position; nothing panics.
//!
//! Precedence of the operators, from the weakest: `or`; `and unless`; comparisons and trims; `+ -`; `* / % atan2`;
//! signs; `^` (right-associative); modifiers and ranges.

mod binary;
mod call;
mod duration;
mod postfix;
mod selector;

use crate::ParseError;
use crate::ast::{AggregateOp, Expr, ExprKind, Number, Span, UnaryOp};
use crate::check::check;
use crate::lexer::{Symbol, Token, TokenKind, tokens};

/// 2 MiB: a dashboard variable with tens of thousands of values in one matcher is some hundreds of KiB, and a matcher
/// of a MiB must still be answered.
pub const TEXT_BYTES_MAX: usize = 2 * 1024 * 1024;

/// 256 regular expressions that are not plain lists of values: hand-written queries have a dozen, and each may take a
/// MiB compiled.
pub const PATTERNS_MAX: usize = 256;

/// 8,192 binary operators: generated queries join some hundreds of selectors; each operand is a look-up of its own.
pub const OPERATORS_MAX: usize = 8_192;

/// A sign binds weaker than `^` and stronger than all other binary operators.
const UNARY_STRENGTH: u8 = 6;

/// 128 nodes on the longest path from the root to a leaf: hand-written queries stay below 20, and parsing a query of
/// that depth takes less than 512 KiB of stack in a debug build, a quarter of a 2 MiB thread.
pub const DEPTH_MAX: usize = 128;

/// Keywords that follow a binary operator: a metric with such a name has to be quoted, `{"bool"}`.
pub(crate) const NOT_NAMES: [&str; 6] = ["atan2", "bool", "on", "ignoring", "group_left", "group_right"];

/// The tree of a query.
///
/// # Errors
/// The error with its position; also for a text longer than [`TEXT_BYTES_MAX`], nested deeper than [`DEPTH_MAX`] or
/// with more operators than [`OPERATORS_MAX`].
pub fn parse(text: &str) -> Result<Expr, ParseError> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("the query has {} bytes, above the limit of {TEXT_BYTES_MAX}", text.len());
        return Err(ParseError::new(text, Span::default(), message));
    }
    let tokens = tokens(text);
    if tokens[0].kind == TokenKind::End {
        return Err(ParseError::new(text, Span::default(), "no expression found in input"));
    }
    let mut parser = Parser { text, tokens, at: 0, depth: 0, operators: 0, patterns: 0, aggregations: 0 };
    let node = parser.expression(0)?;
    if parser.peek().kind != TokenKind::End {
        return Err(parser.unexpected("", ""));
    }
    check(text, &node.expr)?;
    Ok(node.expr)
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    /// Calls of `expression` that have not returned.
    depth: usize,
    /// Binary operators so far.
    operators: usize,
    /// Regular expressions so far that are no lists.
    patterns: usize,
    /// Aggregations whose parentheses are open.
    aggregations: usize,
}

/// An expression with the height of its tree.
struct Node {
    expr: Expr,
    height: usize,
}

impl Parser<'_> {
    /// An expression of operators that bind at least as strongly as `strength`.
    fn expression(&mut self, strength: u8) -> Result<Node, ParseError> {
        self.depth += 1;
        self.within_depth(self.depth)?;
        let mut left = self.operand()?;
        while let Some(op) = self.binary_op(strength) {
            left = self.binary(left, op)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    /// A signed operand, or a primary with what follows it.
    fn operand(&mut self) -> Result<Node, ParseError> {
        let start = self.peek().span;
        let op = match self.peek().kind {
            TokenKind::Symbol(Symbol::Plus) => UnaryOp::Plus,
            TokenKind::Symbol(Symbol::Minus) => UnaryOp::Minus,
            _ => {
                let primary = self.primary()?;
                return self.postfix(primary);
            }
        };
        self.at += 1;
        let inner = self.expression(UNARY_STRENGTH)?;
        let span = start.to(inner.expr.span);
        self.node(inner.height, ExprKind::Unary(op, Box::new(inner.expr)), span)
    }

    fn primary(&mut self) -> Result<Node, ParseError> {
        let Token { kind, span } = self.peek().clone();
        let kind = match kind {
            TokenKind::Number(value) => ExprKind::Number(Number { value, duration: false }),
            TokenKind::Duration(value) => ExprKind::Number(Number { value, duration: true }),
            TokenKind::String(value) => ExprKind::String(value),
            TokenKind::Symbol(Symbol::ParenOpen) => return self.paren(),
            TokenKind::Symbol(Symbol::BraceOpen) => return self.selector(None),
            TokenKind::Identifier => return self.named(),
            TokenKind::Symbol(_) | TokenKind::End | TokenKind::Wrong(_) => return Err(self.unexpected("", "")),
        };
        self.at += 1;
        self.node(0, kind, span)
    }

    fn paren(&mut self) -> Result<Node, ParseError> {
        let start = self.take().span;
        let inner = self.expression(0)?;
        let span = start.to(self.expect(Symbol::ParenClose)?);
        self.node(inner.height, ExprKind::Paren(Box::new(inner.expr)), span)
    }

    /// An expression that starts with a word: a number, an aggregation, a call or a selector.
    fn named(&mut self) -> Result<Node, ParseError> {
        let span = self.peek().span;
        let word = self.word(span);
        if let Some(value) = named_number(word) {
            self.at += 1;
            return self.node(0, ExprKind::Number(Number { value, duration: false }), span);
        }
        if let Some(op) = AggregateOp::from_name(word)
            && self.aggregate_follows()
        {
            return self.aggregate(op);
        }
        if self.peek_after(1) == &TokenKind::Symbol(Symbol::ParenOpen) {
            return self.call();
        }
        if NOT_NAMES.iter().any(|keyword| word.eq_ignore_ascii_case(keyword)) {
            return Err(self.unexpected("", ""));
        }
        self.at += 1;
        self.selector(Some(span))
    }

    /// A node above children of height `below`.
    fn node(&self, below: usize, kind: ExprKind, span: Span) -> Result<Node, ParseError> {
        self.within_depth(below + 1)?;
        Ok(Node { expr: Expr { kind, span }, height: below + 1 })
    }

    fn within_depth(&self, depth: usize) -> Result<(), ParseError> {
        if depth > DEPTH_MAX {
            return Err(self.error(self.peek().span, format!("the query is nested deeper than {DEPTH_MAX} levels")));
        }
        Ok(())
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.at]
    }

    /// The kind of the token `ahead` of this one; `End` past the end.
    fn peek_after(&self, ahead: usize) -> &TokenKind {
        self.tokens.get(self.at + ahead).map_or(&TokenKind::End, |token| &token.kind)
    }

    /// This token, and goes on to the next; stays at the end.
    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        if !matches!(token.kind, TokenKind::End | TokenKind::Wrong(_)) {
            self.at += 1;
        }
        token
    }

    /// Consumes the token if it is `symbol`.
    fn took(&mut self, symbol: Symbol) -> bool {
        let found = self.peek().kind == TokenKind::Symbol(symbol);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: Symbol) -> Result<Span, ParseError> {
        self.expect_in(symbol, "", "")
    }

    /// As [`Parser::expect`]; the error says where it was expected, and what else is allowed there.
    fn expect_in(&mut self, symbol: Symbol, place: &str, expected: &str) -> Result<Span, ParseError> {
        let span = self.peek().span;
        if self.took(symbol) { Ok(span) } else { Err(self.unexpected(place, expected)) }
    }

    /// Whether the next token is the keyword, in any case.
    fn at_keyword(&self, keyword: &str) -> bool {
        self.peek().kind == TokenKind::Identifier && self.word(self.peek().span).eq_ignore_ascii_case(keyword)
    }

    /// Consumes the next token if it is the keyword, in any case.
    fn took_keyword(&mut self, keyword: &str) -> bool {
        let found = self.at_keyword(keyword);
        self.at += usize::from(found);
        found
    }

    fn word(&self, span: Span) -> &str {
        &self.text[span.start as usize..span.end as usize]
    }

    /// Span of the token before this one: where what was just read ends.
    fn last_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    /// Prometheus' message for the token at this position; `place` and `expected` may be empty.
    fn unexpected(&self, place: &str, expected: &str) -> ParseError {
        let token = self.peek();
        if let TokenKind::Wrong(error) = &token.kind {
            return (**error).clone();
        }
        // An aggregation is what Prometheus' parser falls back to from anything inside it.
        let place = if place.is_empty() && self.aggregations > 0 { "aggregation" } else { place };
        let part = |word: &str, text: &str| if text.is_empty() { String::new() } else { format!("{word} {text}") };
        let (place, expected) = (part(" in", place), part(", expected", expected));
        self.error(token.span, format!("unexpected {}{place}{expected}", self.described(token)))
    }

    /// A token as Prometheus names it in errors.
    fn described(&self, token: &Token) -> String {
        let text = self.word(token.span);
        match &token.kind {
            TokenKind::End | TokenKind::Wrong(_) => "end of input".to_owned(),
            TokenKind::String(_) => format!("string {}", shortened(text)),
            TokenKind::Identifier => described_word(text),
            TokenKind::Number(_) => format!("number {}", shortened(text)),
            TokenKind::Duration(_) => format!("duration {}", shortened(text)),
            TokenKind::Symbol(symbol) => match symbol {
                Symbol::Assign
                | Symbol::ParenOpen
                | Symbol::ParenClose
                | Symbol::BraceOpen
                | Symbol::BraceClose
                | Symbol::BracketOpen
                | Symbol::BracketClose
                | Symbol::Comma
                | Symbol::Colon => format!("{text:?}"),
                _ => format!("<op:{text}>"),
            },
        }
    }

    fn error(&self, span: Span, message: impl Into<String>) -> ParseError {
        ParseError::new(self.text, span, message)
    }
}

/// Words with a meaning of their own in Prometheus' grammar.
const KEYWORDS: [&str; 13] = [
    "anchored",
    "bool",
    "by",
    "fill",
    "fill_left",
    "fill_right",
    "group_left",
    "group_right",
    "ignoring",
    "offset",
    "on",
    "smoothed",
    "without",
];

/// A word as Prometheus names it in errors.
fn described_word(word: &str) -> String {
    let lower = word.to_ascii_lowercase();
    if named_number(word).is_some() {
        format!("number {word:?}")
    } else if matches!(&*lower, "and" | "or" | "unless" | "atan2") {
        format!("<op:{word}>")
    } else if AggregateOp::from_name(word).is_some() {
        format!("<aggr:{word}>")
    } else if KEYWORDS.contains(&&*lower) {
        format!("<{word}>")
    } else if word.contains(':') {
        format!("metric identifier {word:?}")
    } else {
        format!("identifier {word:?}")
    }
}

/// A quoted text; if long, only its start.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(10) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// `Inf` and `NaN`, in any case.
fn named_number(word: &str) -> Option<f64> {
    if word.eq_ignore_ascii_case("inf") {
        Some(f64::INFINITY)
    } else if word.eq_ignore_ascii_case("nan") {
        Some(f64::NAN)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
