//! Bytes of an agent as text.

/// Bytes as text where they are one, otherwise in hexadecimal, as physical addresses are written; at most `bytes_max`.
#[must_use]
pub fn words(bytes: &[u8], bytes_max: usize) -> String {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    match std::str::from_utf8(&bytes[..end]) {
        Ok(text) if !text.chars().any(char::is_control) => {
            let text = text.trim();
            text[..text.floor_char_boundary(bytes_max)].to_owned()
        }
        // Each takes three bytes.
        _ => bytes.iter().take(bytes_max / 3).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_or_hexadecimal() {
        for (bytes, expected) in [
            (&b"eth0\0"[..], "eth0"),
            (" Gr\u{fc}n ".as_bytes(), "Gr\u{fc}n"),
            (b"\0\x1b\x21\0\xff\x01", "00:1b:21:00:ff:01"),
            (b"a\nb", "61:0a:62"),
            (b"", ""),
        ] {
            assert_eq!(words(bytes, 100), expected, "{bytes:?}");
        }
        assert_eq!(
            (words(b"abc", 2), words("a\u{fc}".as_bytes(), 2), words(&[0xff; 9], 7)),
            ("ab".into(), "a".into(), "ff:ff".into())
        );
    }
}
