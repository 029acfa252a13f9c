//! Quoted strings.
//!
//! Format: `"` and `'` allow the escapes `\a \b \f \n \r \t \v \\`, the quote itself, `\ooo`, `\xhh`, `\uhhhh` and
//! `\Uhhhhhhhh`, and no line feed; backticks take everything up to the next backtick literally.

use super::{Lexer, TokenKind};
use crate::ParseError;

impl Lexer<'_> {
    /// The string at this place, which starts with `quote`.
    pub(super) fn string(&mut self, quote: char) -> Result<TokenKind, ParseError> {
        let start = self.at;
        self.at += 1;
        if quote == '`' {
            let Some(length) = self.rest().find('`') else {
                return Err(self.error(start, self.text.len(), "unterminated raw string"));
            };
            let value = self.rest()[..length].to_owned();
            self.at += length + 1;
            return Ok(TokenKind::String(value));
        }
        let mut bytes = Vec::new();
        loop {
            let Some(next) = self.rest().chars().next().filter(|c| *c != '\n') else {
                return Err(self.error(start, self.at, "unterminated quoted string"));
            };
            let at = self.at;
            self.at += next.len_utf8();
            if next == quote {
                break;
            }
            if next == '\\' {
                let (length, escaped) = escape(self.rest(), quote)
                    .map_err(|message| self.error(at, self.at, format!("{message} in quoted string")))?;
                self.at += length;
                bytes.extend_from_slice(&escaped);
            } else {
                bytes.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        String::from_utf8(bytes)
            .map(TokenKind::String)
            .map_err(|_| self.error(start, self.at, "the escapes of the string do not make valid UTF-8"))
    }
}

/// The bytes that an escape represents, and its length after the backslash.
fn escape(rest: &str, quote: char) -> Result<(usize, Vec<u8>), String> {
    let Some(letter) = rest.chars().next() else { return Err("escape sequence not terminated".to_owned()) };
    let simple = match letter {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' => b'\\',
        c if c == quote => quote as u8,
        '0'..='7' => return octal(rest),
        'x' => return hex(&rest[1..], 2).map(|value| (3, vec![value as u8])),
        'u' => return unicode(&rest[1..], 4),
        'U' => return unicode(&rest[1..], 8),
        other => return Err(format!("unknown escape sequence {other:?}")),
    };
    Ok((1, vec![simple]))
}

fn octal(rest: &str) -> Result<(usize, Vec<u8>), String> {
    let digits = rest.get(..3).filter(|digits| digits.bytes().all(|byte| matches!(byte, b'0'..=b'7')));
    let value = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
    value.map(|value| (3, vec![value])).ok_or_else(|| "octal escapes are three digits up to 377".to_owned())
}

fn hex(rest: &str, length: usize) -> Result<u32, String> {
    let digits = rest.get(..length).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let value = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    value.ok_or_else(|| format!("the escape needs {length} hexadecimal digits"))
}

fn unicode(rest: &str, length: usize) -> Result<(usize, Vec<u8>), String> {
    let value = hex(rest, length)?;
    let c = char::from_u32(value).ok_or_else(|| "escape sequence is an invalid Unicode code point".to_owned())?;
    Ok((length + 1, c.to_string().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::super::{TokenKind, tokens};

    #[test]
    fn escapes_have_their_bytes() {
        let check = |text: &str, expected: &str| {
            assert_eq!(tokens(text)[0].kind, TokenKind::String(expected.to_owned()), "{text}");
        };
        check(r#""a\a\b\f\n\r\t\v\\\"'""#, "a\x07\x08\x0c\n\r\t\x0b\\\"'");
        check(r#"'\'"'"#, "'\"");
        check(r#""\101\x41\u00e9\U0001F600\xe2\x82\xac""#, "AAé😀€");
        check("`\\n\n\"`", "\\n\n\"");
    }

    #[test]
    fn broken_strings_are_refused() {
        for text in [
            r#"""#,
            r#""\"#,
            "\"a\nb\"",
            "`a",
            r#""\q""#,
            r#""\'""#,
            r#""\x4""#,
            r#""\400""#,
            r#""\ud800""#,
            r#""\xff""#,
            r#""\xé""#,
        ] {
            assert!(matches!(tokens(text).last().unwrap().kind, TokenKind::Wrong(_)), "{text}");
        }
    }
}
