//! What a query asks of a line, and whether a line has it.

use std::fmt;
use std::ops::ControlFlow;

use ogive_model::words::{fold, spans};
use ogive_model::{Matcher, Words};
use regex::Regex;

use crate::compare::{Amount, Order};
use crate::lexer::{is_plain_value, is_plain_word};
use crate::line::Line;
use crate::pattern::{Pattern, Quoted};

/// Conditions, connected.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    /// All must hold. If empty, it always holds.
    All(Vec<Expr>),
    /// At least one must hold.
    Any(Vec<Expr>),
    /// It must not hold.
    Not(Box<Expr>),
    /// A word or a phrase occurs in the line.
    Text(Pattern),
    /// The expression matches somewhere in the line.
    Regex(Regex),
    /// A field passes a test.
    Field(String, Test),
    /// The labels of the line's series fulfil all of these.
    Labels(Vec<Matcher>),
}

/// A condition on the values of a field. A line without the field never passes.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    /// One is it.
    Equal(Pattern),
    /// No value is equal to it.
    NotEqual(Pattern),
    /// One matches from its beginning to its end.
    Regex(Anchored),
    /// No value matches it.
    NotRegex(Anchored),
    /// One is a number in this order to the amount, which was written so.
    Order(Order, Amount, String),
}

/// An expression for a whole value, and its original text.
#[derive(Clone, Debug)]
pub(crate) struct Anchored {
    pub(crate) written: String,
    pub(crate) regex: Regex,
}

impl Expr {
    pub(crate) fn matches(&self, line: &Line<'_>) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.matches(line)),
            Self::Any(parts) => parts.iter().any(|part| part.matches(line)),
            Self::Not(part) => !part.matches(line),
            Self::Text(pattern) => pattern.stands_in(line.folded()),
            Self::Regex(regex) => regex.is_match(line.text),
            Self::Field(name, test) => test.passes(line, name),
            Self::Labels(matchers) => line.labels.match_all(matchers),
        }
    }

    /// The words that every line has that matches.
    pub(crate) fn words(&self) -> Words {
        match self {
            Self::All(parts) => all(parts.iter().map(Self::words)),
            Self::Any(parts) => {
                let parts: Vec<Words> = parts.iter().map(Self::words).collect();
                if parts.iter().any(Words::is_none) { Words::NONE } else { Words::Any(parts) }
            }
            Self::Text(pattern) => pattern.words(),
            Self::Field(name, test) => {
                let name = fold(name);
                let of_name = spans(&name).map(|(start, end)| Words::Word(name[start..end].to_owned()));
                let value = if let Test::Equal(pattern) = test { pattern.words() } else { Words::NONE };
                all(of_name.chain([value]))
            }
            Self::Not(_) | Self::Regex(_) | Self::Labels(_) => Words::NONE,
        }
    }

    /// The conditions on labels that hold for every line that matches.
    pub(crate) fn matchers(&self) -> Vec<Matcher> {
        match self {
            Self::All(parts) => parts.iter().flat_map(Self::matchers).collect(),
            Self::Labels(matchers) => matchers.clone(),
            _ => Vec::new(),
        }
    }

    /// Writes it inside a list of conditions; `or` says whether they are alternatives.
    fn write_part(&self, f: &mut fmt::Formatter<'_>, or: bool) -> fmt::Result {
        let in_parentheses = matches!(self, Self::Any(_)) || (matches!(self, Self::All(_)) && !or);
        if in_parentheses { write!(f, "({self})") } else { write!(f, "{self}") }
    }
}

/// All of these, without empty conditions and without nested lists.
fn all(parts: impl Iterator<Item = Words>) -> Words {
    let mut out = Vec::new();
    for part in parts.filter(|part| !part.is_none()) {
        match part {
            Words::All(parts) => out.extend(parts),
            part => out.push(part),
        }
    }
    Words::All(out)
}

impl Test {
    fn passes(&self, line: &Line<'_>, name: &str) -> bool {
        let any = |holds: &dyn Fn(&str) -> bool| {
            let (mut is_there, mut found) = (false, false);
            line.each_field(&mut |field, value| {
                is_there |= field == name;
                found |= field == name && holds(value);
                if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            (is_there, found)
        };
        match self {
            Self::Equal(pattern) => any(&|value| pattern.is_all_of(value)).1,
            Self::NotEqual(pattern) => any(&|value| pattern.is_all_of(value)) == (true, false),
            Self::Regex(expression) => any(&|value| expression.regex.is_match(value)).1,
            Self::NotRegex(expression) => any(&|value| expression.regex.is_match(value)) == (true, false),
            Self::Order(order, amount, _) => any(&|value| amount.compare(value, *order)).1,
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, parts: &[Self], or: bool| {
            for (at, part) in parts.iter().enumerate() {
                f.write_str(if at == 0 {
                    ""
                } else if or {
                    " OR "
                } else {
                    " "
                })?;
                part.write_part(f, or)?;
            }
            Ok(())
        };
        match self {
            Self::All(parts) => list(f, parts, false),
            Self::Any(parts) => list(f, parts, true),
            Self::Not(part) => {
                f.write_str("NOT ")?;
                part.write_part(f, false)
            }
            Self::Text(pattern) => pattern.write(f, is_plain_word),
            Self::Regex(regex) => slashed(f, regex.as_str()),
            Self::Field(name, test) => {
                if is_plain_word(name) && !name.starts_with('*') && !name.ends_with('!') {
                    f.write_str(name)?
                } else {
                    write!(f, "{}", Quoted(name))?
                }
                write!(f, "{test}")
            }
            Self::Labels(matchers) => braced(f, matchers),
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |f: &mut fmt::Formatter<'_>, sign: &str, pattern: &Pattern| {
            f.write_str(sign)?;
            pattern.write(f, is_plain_value)
        };
        match self {
            Self::Equal(pattern) => value(f, "=", pattern),
            Self::NotEqual(pattern) => value(f, "!=", pattern),
            Self::Regex(expression) => write!(f, "=~{}", Quoted(&expression.written)),
            Self::NotRegex(expression) => write!(f, "!~{}", Quoted(&expression.written)),
            Self::Order(order, _, written) => write!(f, "{}{}", order.sign(), Quoted(written)),
        }
    }
}

/// An expression between slashes.
fn slashed(f: &mut fmt::Formatter<'_>, expression: &str) -> fmt::Result {
    f.write_str("/")?;
    let mut chars = expression.chars();
    while let Some(c) = chars.next() {
        match c {
            '/' => f.write_str("\\/")?,
            '\\' => write!(f, "\\{}", chars.next().map_or_else(String::new, String::from))?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("/")
}

fn braced(f: &mut fmt::Formatter<'_>, matchers: &[Matcher]) -> fmt::Result {
    f.write_str("{")?;
    for (at, matcher) in matchers.iter().enumerate() {
        let sign = matcher.op.as_str();
        write!(f, "{}{}{sign}{}", if at > 0 { ", " } else { "" }, Quoted(&matcher.name), Quoted(&matcher.value))?;
    }
    f.write_str("}")
}
