//! The text of a query.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::glob;

use super::{BYTES_MAX, DEPTH_MAX, Pattern, Query, REGEX_BYTES_MAX, TERMS_MAX, Wrong};

/// Reads a query; an empty text finds everything.
///
/// # Errors
/// [`Wrong`].
pub fn parse(text: &str) -> Result<Query, Wrong> {
    if text.len() > BYTES_MAX {
        return Err(Wrong { at: BYTES_MAX, what: format!("it is longer than {BYTES_MAX} bytes") });
    }
    let mut parser = Parser { text, at: 0, terms: 0 };
    parser.blanks();
    if parser.rest().is_empty() {
        return Ok(Query::And(Vec::new()));
    }
    let query = parser.query(0)?;
    parser.blanks();
    if parser.rest().is_empty() { Ok(query) } else { parser.wrong("nothing may follow here") }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    terms: usize,
}

/// The position of a pattern, which determines its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Category,
    Value,
}

/// How a text matches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Default,
    Exact,
    Regex,
    Graphite,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn wrong<T>(&self, what: impl Into<String>) -> Result<T, Wrong> {
        Err(Wrong { at: self.at, what: what.into() })
    }

    fn take(&mut self, token: &str) -> bool {
        let is_here = self.rest().starts_with(token);
        if is_here {
            self.at += token.len();
        }
        is_here
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn query(&mut self, depth: usize) -> Result<Query, Wrong> {
        if depth == DEPTH_MAX {
            return self.wrong(format!("it is nested deeper than {DEPTH_MAX}"));
        }
        self.blanks();
        if self.take("and(") {
            return self.list(depth).map(Query::And);
        }
        if self.take("or(") {
            return self.list(depth).map(Query::Or);
        }
        if self.take("not(") {
            let mut list = self.list(depth)?;
            return match list.len() {
                1 => Ok(Query::Not(Box::new(list.remove(0)))),
                _ => self.wrong("not() takes one query"),
            };
        }
        self.tag()
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Query>, Wrong> {
        let mut all = Vec::new();
        self.blanks();
        if self.take(")") {
            return Ok(all);
        }
        loop {
            all.push(self.query(depth + 1)?);
            self.blanks();
            if self.take(")") {
                return Ok(all);
            }
            if !self.take(",") {
                return self.wrong("a comma or a closing parenthesis is missing");
            }
        }
    }

    fn tag(&mut self) -> Result<Query, Wrong> {
        self.terms += 1;
        if self.terms > TERMS_MAX {
            return self.wrong(format!("it has more than {TERMS_MAX} terms"));
        }
        let category = self.pattern(Side::Category)?;
        let from = self.at;
        let value = if self.take(":") { self.pattern(Side::Value)? } else { Pattern::Any };
        let is_activity = matches!(&category, Pattern::Exact(name) if name == "__activity");
        if !is_activity {
            return Ok(Query::Tag(category, value));
        }
        let range = self.text[from..self.at].trim_start_matches(':').split_once('-');
        let second = |text: &str| text.trim().parse::<f64>().ok().map(|seconds| seconds as i64);
        match range.and_then(|(from, to)| Some((second(from)?, second(to)?))) {
            Some((from, to)) => Ok(Query::Activity(from, to)),
            None => self.wrong("__activity takes two seconds since 1970, as 1700000000-1700003600"),
        }
    }

    fn pattern(&mut self, side: Side) -> Result<Pattern, Wrong> {
        let way = match () {
            () if self.take("[default]") => Way::Default,
            () if self.take("[exact]") => Way::Exact,
            () if self.take("[re]") => Way::Regex,
            () if self.take("[graphite]") => Way::Graphite,
            () => Way::Default,
        };
        if self.take("b\"") {
            let Some(length) = self.rest().find('"') else { return self.wrong("a quotation mark is missing") };
            let text = self.decoded(length)?;
            return self.made(text, way);
        }
        if self.take("b/") {
            // Base64 has slashes of its own: the last one before the end of the part closes it.
            let part = self.until(side);
            let Some(length) = part.rfind('/') else { return self.wrong("a slash is missing") };
            let text = self.decoded(length)?;
            return self.made(text, Way::Regex);
        }
        if way == Way::Default && self.take("/") {
            let length = self.regex_length(side)?;
            let text = self.rest()[..length].to_owned();
            self.at += length + 1;
            return self.made(text, Way::Regex);
        }
        let text = if way == Way::Graphite { self.until_outside_braces(side) } else { self.until(side) }.to_owned();
        self.at += text.len();
        self.made(text, way)
    }

    /// The text before the end of a part.
    fn until(&self, side: Side) -> &'t str {
        let is_end = |c: char| matches!(c, ',' | ')') || c == ':' && side == Side::Category;
        let rest = self.rest();
        rest[..rest.find(is_end).unwrap_or(rest.len())].trim_end()
    }

    /// As `until`, for a pattern that may contain commas in braces.
    fn until_outside_braces(&self, side: Side) -> &'t str {
        let mut is_inside = false;
        let is_end = |c: char| {
            is_inside = c == '{' || is_inside && c != '}';
            !is_inside && (matches!(c, ',' | ')') || c == ':' && side == Side::Category)
        };
        let rest = self.rest();
        rest[..rest.find(is_end).unwrap_or(rest.len())].trim_end()
    }

    /// How long a regular expression is: to a slash with the end of the part behind it.
    fn regex_length(&self, side: Side) -> Result<usize, Wrong> {
        let bytes = self.rest().as_bytes();
        let mut is_escaped = false;
        for (at, byte) in bytes.iter().enumerate() {
            let ends = match bytes[at + 1..].iter().find(|byte| **byte != b' ') {
                None | Some(b',' | b')') => true,
                Some(b':') => side == Side::Category,
                Some(_) => false,
            };
            if *byte == b'/' && !is_escaped && ends {
                return Ok(at);
            }
            is_escaped = *byte == b'\\' && !is_escaped;
        }
        self.wrong("the slash that ends the regular expression is missing")
    }

    /// The next `length` bytes of base64, and their terminator.
    fn decoded(&mut self, length: usize) -> Result<String, Wrong> {
        let bytes = STANDARD.decode(&self.rest()[..length]).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let Some(text) = bytes else { return self.wrong("this is no text in base64") };
        self.at += length + 1;
        Ok(text)
    }

    fn made(&self, text: String, way: Way) -> Result<Pattern, Wrong> {
        let regex = match way {
            Way::Default if text == "*" => return Ok(Pattern::Any),
            Way::Default if text.contains('*') => return Ok(Pattern::Glob(text)),
            Way::Default | Way::Exact => return Ok(Pattern::Exact(text)),
            Way::Regex => text,
            Way::Graphite => format!("^{}$", glob::expression(&text)),
        };
        let built = regex::RegexBuilder::new(&regex).size_limit(REGEX_BYTES_MAX).build();
        match built {
            Ok(regex) => Ok(Pattern::Regex(Box::new(regex))),
            Err(error) => self.wrong(format!("the regular expression {regex:?} cannot be used: {error}")),
        }
    }
}
