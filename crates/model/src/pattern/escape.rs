//! Escaped characters such as `\n`, `\x{6e}` and `\.`, and what is said of a wrong one.

/// A message as Go words it.
pub(super) fn wrong(what: &str, text: &str) -> String {
    format!("error parsing regexp: {what}: `{text}`")
}

/// The character that the escape at the start of `rest` represents, and the escape's length.
pub(super) fn character(rest: &str) -> Result<(usize, char), String> {
    let mut chars = rest[1..].char_indices();
    let Some((_, letter)) = chars.next() else { return Err(wrong("trailing backslash at end of expression", "")) };
    let invalid = |length: usize| Err(wrong("invalid escape sequence", &rest[..length.min(rest.len())]));
    let digits = |from: usize, most: usize, radix: u32| {
        rest[from..].chars().take(most).take_while(|c| c.is_digit(radix)).count()
    };
    let simple = |c: char| Ok((2, c));
    match letter {
        // One digit would be a reference to a group.
        '1'..='7' if digits(2, 1, 8) == 0 => invalid(2),
        '0'..='7' => {
            let length = digits(1, 3, 8);
            let value = u32::from_str_radix(&rest[1..1 + length], 8).unwrap_or_default();
            Ok((1 + length, char::from_u32(value).unwrap_or_default()))
        }
        'x' => {
            let (from, length, end) = match rest[2..].strip_prefix('{') {
                Some(behind) => (3, behind.chars().take_while(char::is_ascii_hexdigit).count(), 1),
                None => (2, digits(2, 2, 16), 0),
            };
            let closed = end == 0 || rest[from + length..].starts_with('}');
            let complete = if end == 0 { length == 2 } else { length > 0 };
            let value = u32::from_str_radix(&rest[from..from + length], 16).ok();
            match value.and_then(char::from_u32).filter(|_| closed && complete) {
                Some(c) => Ok((from + length + end, c)),
                None => {
                    let next = rest[from + length..].chars().next().map_or(0, char::len_utf8);
                    invalid(from + length + next)
                }
            }
        }
        'a' => simple('\x07'),
        'f' => simple('\x0c'),
        'n' => simple('\n'),
        'r' => simple('\r'),
        't' => simple('\t'),
        'v' => simple('\x0b'),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => simple(c),
        c => invalid(1 + c.len_utf8()),
    }
}
