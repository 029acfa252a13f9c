//! Reads the parts of a query from its text.
//!
//! What a sign means depends on where it stands (`/` begins a regular expression, but not in `path=/api`), so the
//! parser says what it expects. Limits: [`QUERY_BYTES_MAX`].

use ogive_model::{MatchOp, Matcher};

use crate::compare::Order;
use crate::error::Error;
use crate::pattern::Pattern;

/// 64 KiB: a list of a thousand addresses; a person writes a hundred bytes.
pub const QUERY_BYTES_MAX: usize = 64 * 1024;

/// The words that connect.
const KEYWORDS: [&str; 3] = ["AND", "OR", "NOT"];

/// A part of a query.
#[derive(Clone, Debug)]
pub(crate) enum Token {
    Open,
    Close,
    And,
    Or,
    Not,
    /// Without quotes.
    Word(String),
    Quoted(Pattern, String),
    Regex(String),
    Labels(Vec<Matcher>),
}

/// An operator between a field and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Regex,
    NotRegex,
    Order(Order),
}

/// Symbols of operators; longer ones before their prefixes.
const OPERATORS: [(&str, Operator); 8] = [
    ("=~", Operator::Regex),
    ("!~", Operator::NotRegex),
    ("!=", Operator::NotEqual),
    ("<=", Operator::Order(Order::LessOrEqual)),
    (">=", Operator::Order(Order::GreaterOrEqual)),
    ("<", Operator::Order(Order::Less)),
    (">", Operator::Order(Order::Greater)),
    ("=", Operator::Equal),
];

impl Operator {
    /// As written.
    pub(crate) fn sign(self) -> &'static str {
        OPERATORS.iter().find(|(_, operator)| *operator == self).map_or("", |(sign, _)| *sign)
    }
}

/// Whether a text is read as one word where a term is expected.
pub(crate) fn is_plain_word(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('/') && word_length(text) == text.len() && !KEYWORDS.contains(&text)
}

/// Whether a text reads as one value behind an operator.
pub(crate) fn is_plain_value(text: &str) -> bool {
    let begins_operator = OPERATORS.iter().any(|(sign, _)| text.starts_with(sign)) || text.starts_with('~');
    !text.is_empty() && !begins_operator && value_length(text) == text.len()
}

fn word_length(text: &str) -> usize {
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let ends = c.is_whitespace() || matches!(c, '(' | ')' | '"' | '{' | '}' | '=' | '<' | '>');
        if ends || (c == '!' && matches!(chars.peek(), Some((_, '=' | '~')))) {
            return at;
        }
    }
    text.len()
}

fn value_length(text: &str) -> usize {
    text.find(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | '"')).unwrap_or(text.len())
}

/// A place in a query's text.
pub(crate) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t str) -> Result<Self, Error> {
        if text.len() > QUERY_BYTES_MAX {
            let message = format!("the query has {} bytes, more than {QUERY_BYTES_MAX}; make it shorter", text.len());
            return Err(Error::at(text, QUERY_BYTES_MAX, message));
        }
        Ok(Self { text, at: 0 })
    }

    /// The position of the next token, in bytes.
    pub(crate) fn here(&mut self) -> usize {
        self.at += self.rest().len() - self.rest().trim_start().len();
        self.at
    }

    pub(crate) fn error(&self, at: usize, message: impl Into<String>) -> Error {
        Error::at(self.text, at, message)
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn take(&mut self, bytes: usize) -> &'t str {
        let taken = &self.rest()[..bytes];
        self.at += bytes;
        taken
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let is_next = self.rest().starts_with(sign);
        self.at += if is_next { sign.len() } else { 0 };
        is_next
    }

    /// The next token; None at the end.
    pub(crate) fn token(&mut self) -> Result<Option<Token>, Error> {
        let at = self.here();
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(None) };
        let token = match first {
            '(' | ')' => {
                self.at += 1;
                if first == '(' { Token::Open } else { Token::Close }
            }
            '/' => Token::Regex(self.regex()?),
            '{' => Token::Labels(self.labels(Vec::new())?),
            '"' => self.quoted()?,
            '*' if rest.starts_with("*\"") => self.quoted()?,
            '=' | '<' | '>' | '}' => {
                return Err(self.error(
                    at,
                    format!(
                        "{first:?} needs a field before it, such as status>=500; put it into quotes to look for it"
                    ),
                ));
            }
            '!' if word_length(rest) == 0 => {
                return Err(self.error(at, "an operator needs a field before it, such as level!=info"));
            }
            _ => self.word()?,
        };
        Ok(Some(token))
    }

    fn word(&mut self) -> Result<Token, Error> {
        let at = self.at;
        let word = self.take(word_length(self.rest()));
        if self.rest().starts_with('{') {
            let name = Matcher::new(ogive_model::METRIC_NAME, MatchOp::Equal, word);
            let name = name.map_err(|message| self.error(at, message))?;
            return Ok(Token::Labels(self.labels(vec![name])?));
        }
        Ok(match word {
            "AND" => Token::And,
            "OR" => Token::Or,
            "NOT" => Token::Not,
            word => Token::Word(word.to_owned()),
        })
    }

    /// A phrase, with the stars at its ends.
    fn quoted(&mut self) -> Result<Token, Error> {
        let open_start = self.take_sign("*");
        let text = self.string()?;
        let open_end = self.take_sign("*");
        Ok(Token::Quoted(Pattern::new(&text).opened(open_start, open_end), text))
    }

    /// The contents of quotes: `\"`, `\\`, `\n`, `\t` and `\r` have their usual meaning, any other backslash is
    /// literal.
    fn string(&mut self) -> Result<String, Error> {
        let start = self.at;
        self.at += 1;
        let mut out = String::new();
        let mut chars = self.rest().char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += at + 1;
                    return Ok(out);
                }
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('n') => out.push('\n'),
                    Some('t') => out.push('\t'),
                    Some('r') => out.push('\r'),
                    Some(c @ ('"' | '\\')) => out.push(c),
                    Some(c) => out.extend(['\\', c]),
                    None => break,
                },
                c => out.push(c),
            }
        }
        Err(self.error(start, "this quote is not closed; write \\\" for one inside"))
    }

    /// The contents between slashes: `\/` is a slash, everything else belongs to the expression.
    fn regex(&mut self) -> Result<String, Error> {
        let start = self.at;
        self.at += 1;
        let mut out = String::new();
        let mut chars = self.rest().char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '/' => {
                    self.at += at + 1;
                    let ends = self.rest().chars().next().is_none_or(|c| c.is_whitespace() || c == ')');
                    let message =
                        "a regular expression ends at this slash; write \\/ for one inside, or put a path into quotes";
                    return if ends { Ok(out) } else { Err(self.error(self.at - 1, message)) };
                }
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('/') => out.push('/'),
                    Some(c) => out.extend(['\\', c]),
                    None => break,
                },
                c => out.push(c),
            }
        }
        Err(self.error(
            start,
            "this slash begins a regular expression that has no end; close it with / or put a path into quotes",
        ))
    }

    /// An operator, if one comes next.
    pub(crate) fn operator(&mut self) -> Option<Operator> {
        self.here();
        OPERATORS.iter().find(|(sign, _)| self.take_sign(sign)).map(|(_, operator)| *operator)
    }

    /// The value behind an operator, in quotes or not.
    pub(crate) fn value(&mut self) -> Result<Pattern, Error> {
        let at = self.here();
        if self.rest().starts_with('"') || self.rest().starts_with("*\"") {
            return match self.quoted()? {
                Token::Quoted(pattern, _) => Ok(pattern),
                _ => Err(self.error(at, "no value")),
            };
        }
        self.plain_value(at).map(Pattern::from_stars)
    }

    /// The value of an operator without wildcards: a number.
    pub(crate) fn number(&mut self) -> Result<String, Error> {
        let at = self.here();
        if self.rest().starts_with('"') { self.string() } else { self.plain_value(at).map(str::to_owned) }
    }

    /// The value of `=~`: between slashes, in quotes, or plain.
    pub(crate) fn expression(&mut self) -> Result<String, Error> {
        let at = self.here();
        match self.rest().bytes().next() {
            Some(b'/') => self.regex(),
            Some(b'"') => self.string(),
            _ => self.plain_value(at).map(str::to_owned),
        }
    }

    fn plain_value(&mut self, at: usize) -> Result<&'t str, Error> {
        let value = self.take(value_length(self.rest()));
        if value.is_empty() {
            return Err(self.error(at, "the operator needs a value behind it; \"\" is the empty one, * is any"));
        }
        if !is_plain_value(value) {
            return Err(self.error(at, format!("{value:?} begins like an operator; put the value into quotes")));
        }
        Ok(value)
    }

    /// Conditions on labels, from their opening brace.
    fn labels(&mut self, mut out: Vec<Matcher>) -> Result<Vec<Matcher>, Error> {
        let start = self.at;
        self.at += 1;
        loop {
            let at = self.here();
            if self.take_sign("}") {
                return Ok(out);
            }
            let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '.' | '-');
            let length = self.rest().find(|c| !is_name(c)).unwrap_or(self.rest().len());
            let name = if self.rest().starts_with('"') { self.string()? } else { self.take(length).to_owned() };
            if self.rest().is_empty() {
                return Err(self.error(start, "this brace is not closed; labels are selected like {job=\"api\"}"));
            }
            if name.is_empty() {
                return Err(self.error(at, "here must stand a label, such as job=\"api\""));
            }
            let op = match self.operator() {
                Some(Operator::Equal) => MatchOp::Equal,
                Some(Operator::NotEqual) => MatchOp::NotEqual,
                Some(Operator::Regex) => MatchOp::Regex,
                Some(Operator::NotRegex) => MatchOp::NotRegex,
                _ => return Err(self.error(self.at, "behind a label must stand =, !=, =~ or !~")),
            };
            let value_at = self.here();
            if !self.rest().starts_with('"') {
                return Err(self.error(value_at, "the value of a label stands in quotes, such as job=\"api\""));
            }
            let value = self.string()?;
            out.push(Matcher::new(name, op, value).map_err(|message| self.error(value_at, message))?);
            self.here();
            if !self.take_sign(",") && !self.rest().starts_with('}') {
                let message = "behind the value of a label must stand a comma, or } where the labels end";
                return Err(self.error(self.at, message));
            }
        }
    }
}
