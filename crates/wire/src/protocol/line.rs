//! Lines and numbers, as text protocols write them.

/// The length of the first line with its end, if the end is there.
pub(super) fn line_len(bytes: &[u8]) -> Option<usize> {
    memchr::memchr(b'\n', bytes).map(|at| at + 1)
}

/// A line without its end (`\r\n` or `\n`).
pub(super) fn trim_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A decimal number of at most 18 digits, and nothing else.
pub(super) fn decimal(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 18 || !bytes.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(bytes.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')))
}

/// A hexadecimal number of at most 15 digits, and nothing else.
pub(super) fn hexadecimal(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 15 {
        return None;
    }
    bytes.iter().try_fold(0, |value, digit| Some(value * 16 + u64::from(char::from(*digit).to_digit(16)?)))
}

/// Appends at most `limit` bytes as text; invalid UTF-8 becomes the replacement character.
pub(super) fn push_text(text: &mut String, bytes: &[u8], limit: usize) {
    let bytes = &bytes[..bytes.len().min(limit)];
    match std::str::from_utf8(bytes) {
        Ok(valid) => text.push_str(valid),
        Err(_) => text.push_str(&String::from_utf8_lossy(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_limit() {
        assert_eq!(decimal(b"0"), Some(0));
        assert_eq!(decimal(b"999999999999999999"), Some(999_999_999_999_999_999));
        assert_eq!(decimal(b"1000000000000000000"), None);
        assert_eq!(decimal(b""), None);
        assert_eq!(decimal(b"+1"), None);
        assert_eq!(hexadecimal(b"fFf"), Some(0xfff));
        assert_eq!(hexadecimal(b"fffffffffffffff"), Some((1 << 60) - 1));
        assert_eq!(hexadecimal(b"1000000000000000"), None);
        assert_eq!(hexadecimal(b"g"), None);
    }

    #[test]
    fn lines_end_with_either_ending() {
        assert_eq!(line_len(b"a\r\nb"), Some(3));
        assert_eq!(line_len(b"a"), None);
        assert_eq!(trim_end(b"a\r\n"), b"a");
        assert_eq!(trim_end(b"a\n"), b"a");
    }
}
