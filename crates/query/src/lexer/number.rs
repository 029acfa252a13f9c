//! Numbers and durations.
//!
//! Format: decimal, with `_` between digits, fraction and exponent; `0x` hexadecimal and leading-zero octal integers;
//! durations are whole numbers with units y w d h m s ms in falling order, each at most once.

use ogive_text::duration;

use super::{Lexer, TokenKind};
use crate::ParseError;

/// i64 nanoseconds, in milliseconds: what a duration may hold in Prometheus.
const DURATION_MS_MAX: u64 = i64::MAX as u64 / 1_000_000;

impl Lexer<'_> {
    /// The number or duration at this place, which starts with a digit or a dot.
    pub(super) fn number(&mut self) -> Result<TokenKind, ParseError> {
        let start = self.at;
        let length = word_length(self.rest());
        let word = self.rest()[..length].to_owned();
        self.at += length;
        if let Some(value) = number_value(&word) {
            return Ok(TokenKind::Number(value));
        }
        match duration_ms(&word) {
            Some(Ok(millis)) => Ok(TokenKind::Duration(millis as f64 / 1000.0)),
            Some(Err(())) => Err(self.error(start, self.at, format!("duration out of range: {word:?}"))),
            None => Err(self.error(start, self.at, format!("bad number or duration syntax: {word:?}"))),
        }
    }
}

/// Bytes of the word at the start of `rest`: letters, digits, dots, and a sign after a decimal exponent.
fn word_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let hex = rest.len() > 1 && bytes[0] == b'0' && bytes[1] | 32 == b'x';
    let mut at = 0;
    while at < bytes.len() {
        let sign = matches!(bytes[at], b'+' | b'-') && !hex && at > 0 && bytes[at - 1] | 32 == b'e';
        if !(bytes[at].is_ascii_alphanumeric() || matches!(bytes[at], b'.' | b'_') || sign) {
            break;
        }
        at += 1;
    }
    at
}

/// The value of a number literal; None when it is not one.
pub(crate) fn number_value(word: &str) -> Option<f64> {
    let digits = without_underscores(word)?;
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        return i64::from_str_radix(hex, 16).ok().map(|value| value as f64).filter(|_| !hex.starts_with(['+', '-']));
    }
    if digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|byte| matches!(byte, b'0'..=b'7')) {
        return i64::from_str_radix(&digits, 8).ok().map(|value| value as f64);
    }
    let shape = digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    if shape { digits.parse().ok() } else { None }
}

/// The word without underscores, which are allowed only between two digits (or after the `0x`).
fn without_underscores(word: &str) -> Option<String> {
    let bytes = word.as_bytes();
    let good = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'_').all(|(at, _)| {
        let before = at > 0 && bytes[at - 1].is_ascii_alphanumeric();
        let after = bytes.get(at + 1).is_some_and(u8::is_ascii_hexdigit);
        before && after
    });
    good.then(|| word.replace('_', ""))
}

/// Milliseconds of a duration literal; None when it is not one, an error when it is too long.
fn duration_ms(word: &str) -> Option<Result<u64, ()>> {
    match duration::parse_ms(word) {
        Ok(ms) if ms <= DURATION_MS_MAX => Some(Ok(ms)),
        Ok(_) | Err(duration::Error::TooLong) => Some(Err(())),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_value() {
        let check = |word, expected: f64| assert_eq!(number_value(word), Some(expected), "{word}");
        check("0", 0.0);
        check("1_000", 1000.0);
        check("0x1F", 31.0);
        check("0x_ff", 255.0);
        check("010", 8.0);
        check("09", 9.0);
        check("1.5e3", 1500.0);
        check("1e-3", 0.001);
        check(".5", 0.5);
        check("5.", 5.0);
        for wrong in ["1__0", "1_", "0x", "0xg", "1e", "1.2.3", "5m", "1x"] {
            assert_eq!(number_value(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn durations_have_their_milliseconds() {
        let check = |word, expected| assert_eq!(duration_ms(word), expected, "{word}");
        check("1h30m", Some(Ok(5_400_000)));
        check("1y2w3d", Some(Ok((365 + 14 + 3) * 86_400_000)));
        check("5m30s500ms", Some(Ok(330_500)));
        check("0s", Some(Ok(0)));
        check("292y", Some(Ok(292 * 365 * 86_400_000)));
        check("293y", Some(Err(())));
        check("99999999999999999999s", Some(Err(())));
        for wrong in ["", "m", "5", "1m1h", "1m1m", "1.5m", "5x", "5mm"] {
            check(wrong, None);
        }
    }

    #[test]
    fn a_duration_reads_back_as_it_was() {
        for millis in [0, 1, 999, 1000, 61_000, 3_600_001, 7 * 86_400_000, 400 * 86_400_000, 365 * 86_400_000] {
            assert_eq!(duration_ms(&duration::write_ms(millis)), Some(Ok(millis)), "{}", duration::write_ms(millis));
        }
        assert_eq!(duration::write_ms(5_400_000), "1h30m");
    }

    #[test]
    fn words_end_where_they_should() {
        let check = |rest, expected| assert_eq!(word_length(rest), expected, "{rest}");
        check("1+2", 1);
        check("1e+2", 4);
        check("1e3+2", 3);
        check("0xe+1", 3);
        check("5m:1m", 2);
    }
}
