//! The lexer: text to tokens.
//!
//! Invariants: token spans ascend and do not overlap; the last token is `End`, at the end of the text, or `Wrong`, at
//! the first invalid byte. The parser reports `Wrong` only when it reaches it, after any earlier error.
//! Limits: `parse` checks the text's length beforehand.
//! Failure: the first invalid byte ends lexing with its position and Prometheus' error text; nothing panics.

mod number;
mod string;

use crate::ParseError;
use crate::ast::Span;

/// One token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
}

/// The kind of a token. Keywords are identifiers: whether one has a meaning depends on its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    /// A name or a keyword.
    Identifier,
    /// A number.
    Number(f64),
    /// A duration, in seconds.
    Duration(f64),
    /// A quoted text, unescaped.
    String(String),
    /// An operator or a bracket.
    Symbol(Symbol),
    /// The end of the text.
    End,
    /// The text is not a token from here on, with the reason.
    Wrong(Box<ParseError>),
}

macro_rules! symbols {
    ($($name:ident $text:literal,)*) => {
        /// Operators, brackets and separators.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Symbol { $(#[doc = $text] $name,)* }

        impl Symbol {
            /// A symbol comes before its own prefixes.
            const ALL: &'static [(&'static str, Symbol)] = &[$(($text, Symbol::$name),)*];

            /// As it is written.
            pub(crate) fn text(self) -> &'static str {
                match self { $(Symbol::$name => $text,)* }
            }
        }
    };
}

symbols! {
    Equal "==", NotEqual "!=", Match "=~", NotMatch "!~", LessOrEqual "<=", GreaterOrEqual ">=",
    TrimUpper "</", TrimLower ">/", Assign "=", Less "<", Greater ">", Plus "+", Minus "-", Star "*", Slash "/",
    Percent "%", Caret "^", At "@", ParenOpen "(", ParenClose ")", BraceOpen "{", BraceClose "}",
    BracketOpen "[", BracketClose "]", Comma ",", Colon ":",
}

/// 262,144 tokens: as many as a long generated query has letters. They take some 10 MiB.
pub(crate) const TOKENS_MAX: usize = 256 * 1024;

/// All tokens of `text`.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let mut lexer = Lexer { text, at: 0, in_brackets: false, in_braces: false, open: 0 };
    let mut out = Vec::new();
    loop {
        let token =
            lexer.next().unwrap_or_else(|error| Token { span: error.span, kind: TokenKind::Wrong(Box::new(error)) });
        let end = matches!(token.kind, TokenKind::End | TokenKind::Wrong(_));
        if out.len() == TOKENS_MAX && !end {
            let message = format!("the query has more than {TOKENS_MAX} tokens");
            let error = ParseError::new(text, token.span, message);
            out.push(Token { span: token.span, kind: TokenKind::Wrong(Box::new(error)) });
            return out;
        }
        out.push(token);
        if end {
            return out;
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// In `[..]` a colon separates range and step; elsewhere it belongs to names.
    in_brackets: bool,
    /// `{..}` contains only matchers.
    in_braces: bool,
    /// Parentheses that are open.
    open: usize,
}

impl Lexer<'_> {
    fn next(&mut self) -> Result<Token, ParseError> {
        self.skip_blanks();
        let start = self.at;
        let kind = self.kind()?;
        assert!(kind == TokenKind::End || self.at > start, "the lexer stands still at byte {start}");
        Ok(Token { kind, span: Span::new(start, self.at) })
    }

    fn kind(&mut self) -> Result<TokenKind, ParseError> {
        let Some(first) = self.rest().chars().next() else { return self.end() };
        if self.in_braces {
            return self.in_braces(first);
        }
        let dot_number = first == '.' && self.rest()[1..].starts_with(|c: char| c.is_ascii_digit());
        if first.is_ascii_digit() || dot_number {
            return self.number();
        }
        if is_name_start(first) || (first == ':' && !self.in_brackets) {
            self.at += self.name_length();
            return Ok(TokenKind::Identifier);
        }
        if matches!(first, '"' | '\'' | '`') {
            return self.string(first);
        }
        let Some(&(text, symbol)) = Symbol::ALL.iter().find(|(text, _)| self.rest().starts_with(text)) else {
            return Err(match first {
                '!' => self.unexpected("character after '!':", self.rest()[1..].chars().next()),
                _ => self.unexpected("character:", Some(first)),
            });
        };
        match symbol {
            Symbol::BracketOpen if self.in_brackets => return Err(self.unexpected("left bracket", Some(first))),
            Symbol::BracketClose if !self.in_brackets => return Err(self.unexpected("right bracket", Some(first))),
            Symbol::ParenClose if self.open == 0 => return Err(self.unexpected("right parenthesis", Some(first))),
            Symbol::BraceClose => return Err(self.unexpected("character:", Some(first))),
            Symbol::Match => return Err(self.unexpected("character after '=':", Some('~'))),
            Symbol::NotMatch => return Err(self.unexpected("character after '!':", Some('~'))),
            Symbol::BracketOpen => self.in_brackets = true,
            Symbol::BracketClose => self.in_brackets = false,
            Symbol::ParenOpen => self.open += 1,
            Symbol::ParenClose => self.open -= 1,
            Symbol::BraceOpen => self.in_braces = true,
            _ => {}
        }
        self.at += text.len();
        Ok(TokenKind::Symbol(symbol))
    }

    /// The end of the text, where nothing may be left open.
    fn end(&self) -> Result<TokenKind, ParseError> {
        let message = if self.in_braces {
            "unexpected end of input inside braces"
        } else if self.open > 0 {
            "unclosed left parenthesis"
        } else if self.in_brackets {
            "unclosed left bracket"
        } else {
            return Ok(TokenKind::End);
        };
        Err(self.error(self.at, self.at, message))
    }

    /// A token between braces, which begins with `first`.
    fn in_braces(&mut self, first: char) -> Result<TokenKind, ParseError> {
        if is_name_start(first) {
            let rest = self.rest();
            self.at += rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            return Ok(TokenKind::Identifier);
        }
        if matches!(first, '"' | '\'' | '`') {
            return self.string(first);
        }
        let symbols =
            [Symbol::NotEqual, Symbol::Match, Symbol::NotMatch, Symbol::Assign, Symbol::Comma, Symbol::BraceClose];
        let Some(symbol) = symbols.into_iter().find(|symbol| self.rest().starts_with(symbol.text())) else {
            return Err(match first {
                '{' => self.unexpected("left brace", Some(first)),
                '!' => self.unexpected("character after '!' inside braces:", self.rest()[1..].chars().next()),
                _ => self.unexpected("character inside braces:", Some(first)),
            });
        };
        self.in_braces = symbol != Symbol::BraceClose;
        self.at += symbol.text().len();
        Ok(TokenKind::Symbol(symbol))
    }

    /// The error at this position, about a character; None is the end of the text.
    fn unexpected(&self, what: &str, c: Option<char>) -> ParseError {
        let shown = c.map_or_else(|| "end of input".to_owned(), |c| format!("{c:?}"));
        let length = self.rest().chars().next().map_or(0, char::len_utf8);
        self.error(self.at, self.at + length, format!("unexpected {what} {shown}"))
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r']);
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with('#') {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn name_length(&self) -> usize {
        let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || (c == ':' && !self.in_brackets);
        self.rest().find(|c| !inside(c)).unwrap_or(self.rest().len())
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn error(&self, start: usize, end: usize, message: impl Into<String>) -> ParseError {
        ParseError::new(self.text, Span::new(start, end), message)
    }
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// Whether `name` can be written as a label's name without quotes.
pub(crate) fn is_plain_label(name: &str) -> bool {
    name.starts_with(is_name_start) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether `name` can be written as a metric's name without quotes.
pub(crate) fn is_plain_metric(name: &str) -> bool {
    name.starts_with(|c| is_name_start(c) || c == ':')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind> {
        tokens(text).into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn symbols_take_the_longest_text() {
        use Symbol::*;
        let expected = [LessOrEqual, TrimUpper, Less, GreaterOrEqual, TrimLower, Greater, Equal, Assign, NotEqual];
        let got = kinds("<= </ < >= >/ > == = !=");
        let expected: Vec<_> = expected.into_iter().map(TokenKind::Symbol).chain([TokenKind::End]).collect();
        assert_eq!(got, expected);
        for (at, (text, symbol)) in Symbol::ALL.iter().enumerate() {
            assert_eq!(symbol.text(), *text);
            let hidden = Symbol::ALL[..at].iter().any(|(earlier, _)| text.starts_with(earlier));
            assert!(!hidden, "{text} is hidden by a shorter symbol before it");
        }
    }

    #[test]
    fn colons_belong_to_names_outside_brackets() {
        let spans = |text: &str| {
            tokens(text).iter().map(|t| text[t.span.start as usize..t.span.end as usize].to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(spans("a:b:c [5m:step()]"), ["a:b:c", "[", "5m", ":", "step", "(", ")", "]", ""]);
    }

    #[test]
    fn comments_and_blanks_are_skipped() {
        assert_eq!(kinds("# all\n\t1 # one\r\n#"), [TokenKind::Number(1.0), TokenKind::End]);
    }

    #[test]
    fn tokens_hold_at_their_limit_and_not_above() {
        let found = kinds(&"1 ".repeat(TOKENS_MAX));
        assert_eq!((found.len(), found.last()), (TOKENS_MAX + 1, Some(&TokenKind::End)));
        let found = kinds(&"1 ".repeat(TOKENS_MAX + 1));
        let Some(TokenKind::Wrong(error)) = found.last() else { panic!("no error") };
        assert!(error.message.contains("more than 262144 tokens"), "{error}");
    }

    #[test]
    fn wrong_characters_are_refused_with_their_place() {
        let found = kinds("a +\n é");
        let Some(TokenKind::Wrong(error)) = found.last() else { panic!("{found:?}") };
        assert_eq!((error.line, error.column), (2, 2));
    }
}
