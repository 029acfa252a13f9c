//! The tokens of a question, each with its position.

use super::mistake::Mistake;

/// A word, a number or a sign, and the bytes before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) at: usize,
    pub(super) end: usize,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A number; with a unit of time it is a duration in nanoseconds.
    Number {
        value: i64,
        is_duration: bool,
    },
    Text(String),
    Name(String),
    Sign(&'static str),
}

/// Longest first.
const SIGNS: [&str; 25] = [
    "||", "&&", "==", "!=", "<=", ">=", "<<", ">>", "->", "|", "&", "^", "<", ">", "+", "-", "*", "/", "%", "!", "~",
    "(", ")", ",", ".",
];

/// Units of numbers, and whether they are durations.
const UNITS: [(&str, i64, bool); 8] = [
    ("ns", 1, true),
    ("us", 1_000, true),
    ("ms", 1_000_000, true),
    ("s", 1_000_000_000, true),
    ("KiB", 1 << 10, false),
    ("MiB", 1 << 20, false),
    ("GiB", 1 << 30, false),
    ("k", 1000, false),
];

/// The tokens of what follows the first `from` bytes.
pub(super) fn tokens(text: &str, from: usize) -> Result<Vec<Token>, Mistake> {
    let mut tokens = Vec::new();
    let mut at = from;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (kind, length) = match first {
            _ if first.is_whitespace() => {
                at += first.len_utf8();
                continue;
            }
            '0'..='9' => number(rest, at)?,
            '"' => quoted(rest, at)?,
            'a'..='z' | 'A'..='Z' | '_' => {
                let length = word_length(rest);
                (Kind::Name(rest[..length].to_owned()), length)
            }
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (Kind::Sign(sign), sign.len()),
                None => return Err(Mistake::new(at, format!("{first:?} has no meaning here"))),
            },
        };
        tokens.push(Token { at, end: at + length, kind });
        at += length;
    }
    Ok(tokens)
}

/// A duration alone, in nanoseconds.
pub(super) fn duration(text: &str) -> Option<i64> {
    match number(text, 0) {
        Ok((Kind::Number { value, is_duration: true }, length)) if length == text.len() => Some(value),
        _ => None,
    }
}

fn word_length(text: &str) -> usize {
    text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(text.len())
}

fn number(rest: &str, at: usize) -> Result<(Kind, usize), Mistake> {
    let length = word_length(rest);
    let word = &rest[..length];
    let no_number = || Mistake::new(at, format!("{word:?} is no number of at most 64 bits with a sign"));
    if let Some(digits) = word.strip_prefix("0x") {
        let value = u64::from_str_radix(digits, 16).map_err(|_| no_number())?;
        return Ok((Kind::Number { value: value.cast_signed(), is_duration: false }, length));
    }
    let digits = word.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(length);
    let (number, unit) = word.split_at(digits);
    let value: i64 = number.parse().map_err(|_| no_number())?;
    if unit.is_empty() {
        return Ok((Kind::Number { value, is_duration: false }, length));
    }
    let Some((_, factor, is_duration)) = UNITS.iter().find(|(name, ..)| *name == unit) else {
        let known: Vec<&str> = UNITS.iter().map(|(name, ..)| *name).collect();
        return Err(Mistake::new(at + digits, format!("{unit:?} is no unit: one of {}", known.join(", "))));
    };
    let value = value.checked_mul(*factor).ok_or_else(no_number)?;
    Ok((Kind::Number { value, is_duration: *is_duration }, length))
}

fn quoted(rest: &str, at: usize) -> Result<(Kind, usize), Mistake> {
    let inside = &rest[1..];
    let end = inside.find('"').ok_or_else(|| Mistake::new(at, "this quotation mark has no second one"))?;
    Ok((Kind::Text(inside[..end].to_owned()), end + 2))
}
