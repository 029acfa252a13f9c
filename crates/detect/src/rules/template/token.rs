//! Splits a template into texts and actions, and an action into tokens.

use super::value::Value;

/// A part of the text.
#[derive(Debug, PartialEq)]
pub(crate) enum Piece<'t> {
    Text(&'t str),
    /// The text between the delimiters, and its line.
    Action(&'t str, usize),
}

/// A token, and whether a blank precedes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) spaced: bool,
}

/// The kind of a token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    Dot,
    Field(String),
    Variable(String),
    Word(String),
    Constant(Value),
    Pipe,
    Open,
    Close,
    Comma,
    Declare,
    Assign,
}

/// The texts and actions of a template, without comments and trimmed according to its markers.
pub(crate) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let (mut out, mut at, mut line, mut trim) = (Vec::new(), 0, 1, false);
    while at < text.len() {
        let rest = &text[at..];
        let open = rest.find("{{");
        let mut plain = &rest[..open.unwrap_or(rest.len())];
        line += plain.matches('\n').count();
        if trim {
            plain = plain.trim_start();
        }
        let Some(open) = open else {
            out.push(Piece::Text(plain));
            break;
        };
        let inside = &rest[open + 2..];
        let trims_before = inside.strip_prefix('-').is_some_and(|rest| rest.starts_with(blank));
        if trims_before {
            plain = plain.trim_end();
        }
        if !plain.is_empty() {
            out.push(Piece::Text(plain));
        }
        let start = if trims_before { &inside[1..] } else { inside };
        let length = action_length(start).map_err(|error| format!("{line}: {error}"))?;
        let mut action = &start[..length];
        trim = action.strip_suffix('-').is_some_and(|rest| rest.ends_with(blank));
        if trim {
            action = &action[..action.len() - 1];
        }
        let comment = action.trim();
        if !(comment.starts_with("/*") && comment.ends_with("*/")) {
            out.push(Piece::Action(action, line));
        }
        line += start[..length].matches('\n').count();
        at = text.len() - start.len() + length + 2;
    }
    Ok(out)
}

fn blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// Bytes up to the closing delimiter, which may also occur in texts and comments.
fn action_length(text: &str) -> Result<usize, String> {
    if text.trim_start().starts_with("/*") {
        let end = text.find("*/").ok_or("unclosed comment")? + 2;
        let close = text[end..].find("}}").ok_or("comment ends before closing delimiter")?;
        return if text[end..end + close].trim_matches(|c| blank(c) || c == '-').is_empty() {
            Ok(end + close)
        } else {
            Err("comment ends before closing delimiter".to_owned())
        };
    }
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let c = rest.chars().next().expect("at is on a character");
        match c {
            '"' | '`' | '\'' => at += quoted_length(rest, c)?,
            _ if rest.starts_with("}}") => return Ok(at),
            _ => at += c.len_utf8(),
        }
    }
    Err("unclosed action".to_owned())
}

/// Bytes of a quoted text with its quotes.
fn quoted_length(text: &str, quote: char) -> Result<usize, String> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote != '`' => escaped = true,
            '\n' if quote != '`' => break,
            c if c == quote => return Ok(at + 1),
            _ => {}
        }
    }
    Err(if quote == '`' { "unterminated raw quoted string" } else { "unterminated quoted string" }.to_owned())
}

/// The tokens of an action.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let (mut out, mut at, mut spaced) = (Vec::new(), 0, true);
    while at < text.len() {
        let rest = &text[at..];
        let c = rest.chars().next().expect("at is on a character");
        if blank(c) {
            (spaced, at) = (true, at + 1);
            continue;
        }
        let (kind, length) = token(rest, c)?;
        out.push(Token { kind, spaced });
        (spaced, at) = (false, at + length);
    }
    Ok(out)
}

fn token(rest: &str, c: char) -> Result<(TokenKind, usize), String> {
    let word = |text: &str| text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    Ok(match c {
        '|' => (TokenKind::Pipe, 1),
        '(' => (TokenKind::Open, 1),
        ')' => (TokenKind::Close, 1),
        ',' => (TokenKind::Comma, 1),
        ':' if rest.starts_with(":=") => (TokenKind::Declare, 2),
        '=' => (TokenKind::Assign, 1),
        '$' => {
            let length = 1 + word(&rest[1..]);
            (TokenKind::Variable(rest[..length].to_owned()), length)
        }
        '"' | '`' => {
            let length = quoted_length(rest, c)?;
            (TokenKind::Constant(Value::text(&unquoted(&rest[..length])?)), length)
        }
        '\'' => {
            let length = quoted_length(rest, c)?;
            let text = unquoted(&rest[..length])?;
            let mut chars = text.chars();
            let (Some(c), None) = (chars.next(), chars.next()) else {
                return Err(format!("malformed character constant: {}", &rest[..length]));
            };
            (TokenKind::Constant(Value::Int(i64::from(u32::from(c)))), length)
        }
        '.' if !rest[1..].starts_with(|c: char| c.is_ascii_digit()) => match word(&rest[1..]) {
            0 => (TokenKind::Dot, 1),
            length => (TokenKind::Field(rest[1..=length].to_owned()), length + 1),
        },
        '0'..='9' | '.' | '+' | '-' => number(rest)?,
        c if c.is_alphabetic() || c == '_' => {
            let length = word(rest);
            (TokenKind::Word(rest[..length].to_owned()), length)
        }
        c => return Err(format!("unexpected {c:?} in command")),
    })
}

fn number(rest: &str) -> Result<(TokenKind, usize), String> {
    let hex = rest.trim_start_matches(['+', '-']).starts_with("0x");
    let mut length = rest.len();
    let mut before = ' ';
    for (at, c) in rest.char_indices() {
        let sign = (c == '+' || c == '-') && (at == 0 || (!hex && matches!(before, 'e' | 'E')));
        if !(sign || c.is_alphanumeric() || c == '.' || c == '_') {
            length = at;
            break;
        }
        before = c;
    }
    let text = &rest[..length];
    let bad = || format!("bad number syntax: {text:?}");
    let plain = text.replace('_', "");
    let digits = plain.trim_start_matches(['+', '-']);
    let sign = if plain.starts_with('-') { -1 } else { 1 };
    let radix = match digits.get(..2) {
        Some("0x" | "0X") => Some(16),
        Some("0b" | "0B") => Some(2),
        Some("0o" | "0O") => Some(8),
        _ => None,
    };
    let value = match radix {
        Some(radix) => Value::Int(sign * i64::from_str_radix(&digits[2..], radix).map_err(|_| bad())?),
        None => match plain.parse::<i64>() {
            Ok(value) => Value::Int(value),
            Err(_) if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
                Value::Float(plain.parse().map_err(|_| bad())?)
            }
            Err(_) => return Err(bad()),
        },
    };
    Ok((TokenKind::Constant(value), length))
}

/// The text inside quotes.
fn unquoted(text: &str) -> Result<String, String> {
    let quote = text.chars().next().expect("a quoted text has a quote");
    let inner = &text[1..text.len() - 1];
    if quote == '`' {
        return Ok(inner.replace('\r', ""));
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        let used = escape(rest, &mut out).ok_or_else(|| format!("unknown escape in {text}"))?;
        rest = &rest[used..];
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Appends the character that the escape at the start of `text` represents, and returns its length in bytes.
fn escape(text: &str, out: &mut Vec<u8>) -> Option<usize> {
    let c = text.chars().next()?;
    let digits = |from: usize, count: usize, radix: u32| u32::from_str_radix(text.get(from..from + count)?, radix).ok();
    let plain = match c {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' | '\'' | '"' => c as u8,
        'x' => {
            out.push(u8::try_from(digits(1, 2, 16)?).ok()?);
            return Some(3);
        }
        '0'..='7' => {
            out.push(u8::try_from(digits(0, 3, 8)?).ok()?);
            return Some(3);
        }
        'u' | 'U' => {
            let count = if c == 'u' { 4 } else { 8 };
            let mut bytes = [0; 4];
            out.extend_from_slice(char::from_u32(digits(1, count, 16)?)?.encode_utf8(&mut bytes).as_bytes());
            return Some(1 + count);
        }
        _ => return None,
    };
    out.push(plain);
    Some(1)
}
