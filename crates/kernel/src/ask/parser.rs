//! The grammar of a question:
//!
//! ```text
//! PROBE [/FILTER/] count|sum|hist [EXPRESSION] [by KEY, ...]
//! ```
//!
//! Expressions are those of C without assignment, and `->` is the same as `.`. Within a filter, `/` divides only in
//! brackets.
//! Limits: [`TEXT_MAX`] bytes, [`DEPTH_MAX`] levels of an expression, [`KEYS_MAX`] keys. Failure: a [`Mistake`] with
//! its place.

use ogive_text::near::suggestion;

use super::lexer::{Kind, Token, duration, tokens};
use super::mistake::Mistake;
use super::syntax::{Binary, Expression, Form, Probe, Question, Unary, Verb};

/// Longest question in bytes: one line, with room for long paths.
pub const TEXT_MAX: usize = 8192;

/// Deepest nesting of an expression, far above what fits the registers of the programs.
const DEPTH_MAX: usize = 64;

/// Most keys: three words or texts.
pub const KEYS_MAX: usize = 3;

/// Ticks a second and CPU, at most.
const RATE_MAX: u32 = 5000;

/// Nanoseconds between two ticks of an interval: 100 microseconds to an hour.
const INTERVAL_NS: std::ops::RangeInclusive<u64> = 100_000..=3_600_000_000_000;

const PROBES: [&str; 8] = ["tp_btf", "tracepoint", "uprobe", "uretprobe", "usdt", "syscall", "profile", "interval"];
const VERBS: [&str; 3] = ["count", "sum", "hist"];

/// Parses a question.
///
/// # Errors
/// With the first mistake in it.
pub fn parse(text: &str) -> Result<Question, Mistake> {
    if text.len() > TEXT_MAX {
        return Err(Mistake::new(0, format!("a question has at most {TEXT_MAX} bytes")));
    }
    let probe_at = text.len() - text.trim_start().len();
    let probe_text = text[probe_at..].split_whitespace().next().unwrap_or("");
    let probe = probe(probe_text, probe_at)?;
    let tokens = tokens(text, probe_at + probe_text.len())?;
    let mut parser = Parser { text, tokens, next: 0, open: 0, depth: 0, is_in_filter: false };
    let filter = parser.filter()?;
    let verb = parser.verb()?;
    let value = if verb == Verb::Count { None } else { Some(parser.value(verb)?) };
    let keys = parser.keys()?;
    match parser.peek() {
        None => Ok(Question { probe, probe_at, filter, verb, value, keys }),
        Some(token) => {
            let (at, found) = (token.at, parser.shown(token));
            let hint = if keys.is_empty() { "`by KEYS` or the end" } else { "`,` or the end" };
            Err(Mistake::new(at, format!("{found} where {hint} should be")))
        }
    }
}

fn probe(text: &str, at: usize) -> Result<Probe, Mistake> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let rest_at = at + kind.len() + 1;
    let missing = |form: &str| Err(Mistake::new(at, format!("a probe of this kind is {form}")));
    match kind {
        "tp_btf" if is_word(rest) => Ok(Probe::Point(rest.to_owned())),
        "tp_btf" => missing("tp_btf:NAME, as in tp_btf:sched_switch"),
        "uprobe" | "uretprobe" => match rest.rsplit_once(':') {
            Some((path, symbol)) if !path.is_empty() && !symbol.is_empty() => {
                Ok(Probe::Function { path: path.to_owned(), symbol: symbol.to_owned(), at_return: kind == "uretprobe" })
            }
            _ => missing(&format!("{kind}:FILE:FUNCTION, as in {kind}:libc.so.6:malloc")),
        },
        "usdt" => match rest.rsplitn(3, ':').collect::<Vec<_>>()[..] {
            [name, provider, path] if ![name, provider, path].contains(&"") => {
                let [path, provider, name] = [path, provider, name].map(ToOwned::to_owned);
                Ok(Probe::Usdt { path, provider, name })
            }
            _ => missing("usdt:FILE:PROVIDER:NAME, as in usdt:/usr/bin/python3:python:gc__start"),
        },
        "syscall" if rest == "*" => Ok(Probe::Call(None)),
        "syscall" if is_word(rest) => Ok(Probe::Call(Some(rest.to_owned()))),
        "syscall" => missing("syscall:NAME, or syscall:* for all"),
        "profile" => match rest.parse() {
            Ok(rate) if (1..=RATE_MAX).contains(&rate) => Ok(Probe::Profile(rate)),
            _ => Err(Mistake::new(rest_at.min(at + text.len()), format!("profile:HZ has a rate of 1 to {RATE_MAX}"))),
        },
        "interval" => match duration(rest).and_then(|ns| u64::try_from(ns).ok()) {
            Some(ns) if INTERVAL_NS.contains(&ns) => Ok(Probe::Interval(ns)),
            _ => {
                let message = "interval:DURATION is between 100us and 3600s, as in interval:10ms";
                Err(Mistake::new(rest_at.min(at + text.len()), message))
            }
        },
        "tracepoint" => match rest.split_once(':') {
            Some((category, name)) if is_word(category) && is_word(name) => {
                Ok(Probe::Record { category: category.to_owned(), name: name.to_owned() })
            }
            _ => missing("tracepoint:CATEGORY:NAME, as in tracepoint:sched:sched_switch"),
        },
        "" => Err(Mistake::new(at, "a question begins with a probe, as in tp_btf:sched_switch count by comm")),
        _ => {
            let meant = suggestion(PROBES, kind);
            Err(Mistake::new(at, format!("{kind:?} is no kind of probe: {}{meant}", PROBES.join(", "))))
        }
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    next: usize,
    /// Brackets that are open.
    open: usize,
    depth: usize,
    is_in_filter: bool,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    /// Where the next token is, or the end.
    fn at(&self) -> usize {
        self.peek().map_or(self.text.len(), |token| token.at)
    }

    fn shown(&self, token: &Token) -> String {
        format!("{:?}", &self.text[token.at..token.end])
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Token { kind: Kind::Sign(found), .. }) if *found == sign);
        self.next += usize::from(is_next);
        is_next
    }

    fn expected(&self, what: &str) -> Mistake {
        let found = self.peek().map_or_else(|| "the end".to_owned(), |token| self.shown(token));
        Mistake::new(self.at(), format!("{found} where {what} should be"))
    }

    fn filter(&mut self) -> Result<Option<Expression>, Mistake> {
        let at = self.at();
        if !self.takes("/") {
            return Ok(None);
        }
        self.is_in_filter = true;
        let filter = self.expression(1)?;
        self.is_in_filter = false;
        if self.takes("/") {
            return Ok(Some(filter));
        }
        let end = self.expected("the `/` that ends the filter");
        Err(if self.peek().is_none() { Mistake::new(at, "this filter has no `/` at its end") } else { end })
    }

    fn verb(&mut self) -> Result<Verb, Mistake> {
        let verb = match self.peek() {
            Some(Token { kind: Kind::Name(name), at, .. }) => match name.as_str() {
                "count" => Verb::Count,
                "sum" => Verb::Sum,
                "hist" => Verb::Histogram,
                _ => {
                    let meant = suggestion(VERBS, name);
                    return Err(Mistake::new(*at, format!("{name:?} where count, sum or hist should be{meant}")));
                }
            },
            _ => return Err(self.expected("a `/FILTER/`, count, sum or hist")),
        };
        self.next += 1;
        Ok(verb)
    }

    fn value(&mut self, verb: Verb) -> Result<Expression, Mistake> {
        let what = if verb == Verb::Sum { "the value to add up" } else { "the value of the histogram" };
        match self.peek() {
            None => Err(self.expected(what)),
            Some(Token { kind: Kind::Name(name), .. }) if name == "by" => Err(self.expected(what)),
            Some(_) => self.expression(1),
        }
    }

    fn keys(&mut self) -> Result<Vec<(String, Expression)>, Mistake> {
        let mut keys = Vec::new();
        if !matches!(self.peek(), Some(Token { kind: Kind::Name(name), .. }) if name == "by") {
            return Ok(keys);
        }
        self.next += 1;
        loop {
            let at = self.at();
            if keys.len() == KEYS_MAX {
                return Err(Mistake::new(at, format!("a question has at most {KEYS_MAX} keys")));
            }
            let key = self.expression(1)?;
            let end = self.tokens[self.next - 1].end;
            keys.push((self.text[at..end].to_owned(), key));
            if !self.takes(",") {
                return Ok(keys);
            }
        }
    }

    fn expression(&mut self, rank_min: u8) -> Result<Expression, Mistake> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Mistake::new(self.at(), format!("an expression is at most {DEPTH_MAX} levels deep")));
        }
        let mut left = self.unary()?;
        while let Some(operator) = self.operator().filter(|operator| operator.rank() >= rank_min) {
            self.next += 1;
            let right = self.expression(operator.rank() + 1)?;
            left = Expression { at: left.at, form: Form::Binary(operator, Box::new(left), Box::new(right)) };
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operator(&self) -> Option<Binary> {
        match self.peek()?.kind {
            // The end of the filter.
            Kind::Sign("/") if self.is_in_filter && self.open == 0 => None,
            Kind::Sign(sign) => Binary::from_sign(sign),
            _ => None,
        }
    }

    fn unary(&mut self) -> Result<Expression, Mistake> {
        let at = self.at();
        for (sign, operator) in [("!", Unary::Not), ("-", Unary::Negative), ("~", Unary::Complement)] {
            if self.takes(sign) {
                self.depth += 1;
                if self.depth > DEPTH_MAX {
                    return Err(Mistake::new(at, format!("an expression is at most {DEPTH_MAX} levels deep")));
                }
                let operand = self.unary()?;
                self.depth -= 1;
                return Ok(Expression { at, form: Form::Unary(operator, Box::new(operand)) });
            }
        }
        let mut value = self.primary()?;
        // Fields of fields: as many as the text has, and each is a level.
        let mut fields = 0;
        while self.takes("->") || self.takes(".") {
            fields += 1;
            if fields > DEPTH_MAX {
                return Err(Mistake::new(self.at(), format!("an expression is at most {DEPTH_MAX} levels deep")));
            }
            let field_at = self.at();
            let Some(Token { kind: Kind::Name(name), .. }) = self.peek() else {
                return Err(self.expected("the name of a field"));
            };
            let form = Form::Field(Box::new(value), name.clone());
            self.next += 1;
            value = Expression { at: field_at, form };
        }
        Ok(value)
    }

    fn primary(&mut self) -> Result<Expression, Mistake> {
        let at = self.at();
        if self.takes("(") {
            return self.in_brackets();
        }
        let form = match self.peek().map(|token| &token.kind) {
            Some(Kind::Number { value, is_duration }) => Form::Number { value: *value, is_duration: *is_duration },
            Some(Kind::Text(text)) => Form::Text(text.clone()),
            Some(Kind::Name(name)) => Form::Name(name.clone()),
            _ => return Err(self.expected("a value")),
        };
        self.next += 1;
        let Form::Name(name) = form else { return Ok(Expression { at, form }) };
        if !self.takes("(") {
            return Ok(Expression { at, form: Form::Name(name) });
        }
        let argument = self.in_brackets()?;
        Ok(Expression { at, form: Form::Function(name, Box::new(argument)) })
    }

    /// What follows an opening bracket, up to the closing one.
    fn in_brackets(&mut self) -> Result<Expression, Mistake> {
        self.open += 1;
        let inside = self.expression(1)?;
        self.open -= 1;
        if self.takes(")") { Ok(inside) } else { Err(self.expected("`)`")) }
    }
}

#[cfg(test)]
#[path = "parser_tests.rs"]
mod tests;
