//! Makes conditions of a query's text. `OR` binds least, then `AND` or nothing between two terms, then `NOT`.
//!
//! Limits: [`TERMS_MAX`], [`DEPTH_MAX`], [`REGEXES_MAX`], [`REGEX_BYTES_MAX`].

use ogive_model::Matcher;
use regex::{Regex, RegexBuilder};

use crate::compare::Amount;
use crate::error::Error;
use crate::expr::{Anchored, Expr, Test};
use crate::lexer::{Lexer, Operator, Token};
use crate::pattern::Pattern;

/// 1,024 terms: a list of words that a program generated.
pub const TERMS_MAX: usize = 1_024;

/// 32 levels of parentheses and NOT, so that the stack of a thread suffices everywhere.
pub const DEPTH_MAX: usize = 32;

/// 1 MiB for a compiled regular expression, and as much for its cache while it runs.
pub const REGEX_BYTES_MAX: usize = 1 << 20;

/// 16 regular expressions in a query: 32 MiB at most.
pub(crate) const REGEXES_MAX: usize = 16;

/// The conditions of `text`.
pub(crate) fn parse(text: &str) -> Result<Expr, Error> {
    let mut parser = Parser { lexer: Lexer::new(text)?, next: None, at: 0, depth: 0, terms: 0, regexes: 0 };
    parser.advance()?;
    if parser.next.is_none() {
        return Ok(Expr::All(Vec::new()));
    }
    let expr = parser.any()?;
    match parser.next {
        None => Ok(expr),
        Some(_) => {
            Err(parser.wrong("this parenthesis closes none; leave it out, or put it into quotes to look for it"))
        }
    }
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    next: Option<Token>,
    /// Where `next` begins.
    at: usize,
    depth: usize,
    terms: usize,
    regexes: usize,
}

impl Parser<'_> {
    fn advance(&mut self) -> Result<Option<Token>, Error> {
        self.at = self.lexer.here();
        let next = self.lexer.token()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    fn wrong(&self, message: impl Into<String>) -> Error {
        self.lexer.error(self.at, message)
    }

    fn any(&mut self) -> Result<Expr, Error> {
        let mut parts = vec![self.all()?];
        while matches!(self.next, Some(Token::Or)) {
            self.advance()?;
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expr::Any(parts) })
    }

    fn all(&mut self) -> Result<Expr, Error> {
        let mut parts = vec![self.not()?];
        loop {
            match self.next {
                None | Some(Token::Or | Token::Close) => break,
                Some(Token::And) => self.advance().map(|_| ())?,
                Some(_) => {}
            }
            parts.push(self.not()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expr::All(parts) })
    }

    fn not(&mut self) -> Result<Expr, Error> {
        let at = self.at;
        match self.next {
            Some(Token::Not) => {
                self.advance()?;
                self.deeper(at)?;
                let inner = self.not()?;
                self.depth -= 1;
                Ok(Expr::Not(Box::new(inner)))
            }
            Some(Token::Open) => {
                self.advance()?;
                self.deeper(at)?;
                let inner = self.any()?;
                self.depth -= 1;
                match self.next {
                    Some(Token::Close) => self.advance().map(|_| inner),
                    _ => Err(self
                        .lexer
                        .error(at, "this parenthesis is not closed; close it, or put it into quotes to look for it")),
                }
            }
            _ => self.term(),
        }
    }

    fn deeper(&mut self, at: usize) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self
                .lexer
                .error(at, format!("more than {DEPTH_MAX} levels of parentheses and NOT; write it flatter")));
        }
        Ok(())
    }

    fn term(&mut self) -> Result<Expr, Error> {
        let at = self.at;
        self.terms += 1;
        if self.terms > TERMS_MAX {
            return Err(self.wrong(format!("more than {TERMS_MAX} terms; ask in parts")));
        }
        let missing = "here must stand a word, a \"phrase\", a /regular expression/, field=value, {label=\"value\"} or a parenthesis";
        // A word or a phrase may be a field: look for an operator before the following text is parsed as a term.
        let (field, pattern) = match &self.next {
            Some(Token::Word(word)) => (word.clone(), Pattern::from_stars(word)),
            Some(Token::Quoted(pattern, text)) => (text.clone(), pattern.clone()),
            Some(Token::Regex(_) | Token::Labels(_)) => return self.whole_term(at),
            Some(Token::And | Token::Or) => {
                return Err(self.wrong(format!("{missing}; put AND and OR into quotes to look for them")));
            }
            None | Some(Token::Close | Token::Open | Token::Not) => return Err(self.wrong(missing)),
        };
        self.take_term(field, pattern)
    }

    fn whole_term(&mut self, at: usize) -> Result<Expr, Error> {
        match self.advance()? {
            Some(Token::Regex(text)) => self.regex(at, &text).map(Expr::Regex),
            Some(Token::Labels(matchers)) => self.labels(at, matchers),
            _ => Err(self.lexer.error(at, "no term")),
        }
    }

    fn labels(&mut self, at: usize, matchers: Vec<Matcher>) -> Result<Expr, Error> {
        for _ in matchers.iter().filter(|matcher| matcher.is_program()) {
            self.count_regex(at)?;
        }
        Ok(Expr::Labels(matchers))
    }

    fn count_regex(&mut self, at: usize) -> Result<(), Error> {
        self.regexes += 1;
        if self.regexes > REGEXES_MAX {
            let message = format!("more than {REGEXES_MAX} regular expressions; join them with | or use words");
            return Err(self.lexer.error(at, message));
        }
        Ok(())
    }

    fn regex(&mut self, at: usize, text: &str) -> Result<Regex, Error> {
        self.count_regex(at)?;
        let built = RegexBuilder::new(text).size_limit(REGEX_BYTES_MAX).dfa_size_limit(REGEX_BYTES_MAX).build();
        built.map_err(|error| {
            let message = error.to_string();
            let what = message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            self.lexer.error(at, format!("this regular expression is wrong: {what}"))
        })
    }

    /// A word or a phrase; if an operator follows, a test of the field with that name.
    fn take_term(&mut self, field: String, pattern: Pattern) -> Result<Expr, Error> {
        let Some(operator) = self.lexer.operator() else {
            self.advance()?;
            return Ok(Expr::Text(pattern));
        };
        if field.is_empty() {
            return Err(self.wrong("a field has a name; write such as level=error"));
        }
        let at = self.lexer.here();
        let test = match operator {
            Operator::Equal => Test::Equal(self.lexer.value()?),
            Operator::NotEqual => Test::NotEqual(self.lexer.value()?),
            Operator::Regex | Operator::NotRegex => {
                let written = self.lexer.expression()?;
                let regex = self.regex(at, &written).and_then(|_| self.anchored(at, &written))?;
                let anchored = Anchored { written, regex };
                if operator == Operator::Regex { Test::Regex(anchored) } else { Test::NotRegex(anchored) }
            }
            Operator::Order(order) => {
                let written = self.lexer.number()?;
                let wrong = || {
                    self.lexer.error(
                        at,
                        format!(
                            "{written:?} is no number; {} compares numbers and durations such as 500 or 1.5ms",
                            operator.sign()
                        ),
                    )
                };
                Test::Order(order, Amount::parse(&written).ok_or_else(wrong)?, written)
            }
        };
        self.advance()?;
        Ok(Expr::Field(field, test))
    }

    /// The expression for a whole value; the written text must be a valid expression by itself.
    fn anchored(&mut self, at: usize, written: &str) -> Result<Regex, Error> {
        self.regexes -= 1;
        self.regex(at, &format!("^(?s:(?:{written}))$"))
    }
}
