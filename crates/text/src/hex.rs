//! Bytes as hexadecimal digits, two each.

/// In lower case, as all our texts have them.
#[must_use]
pub fn write(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    digits.map(char::from).collect()
}

/// The bytes of digits in either case; None where there is anything else, or half a byte.
#[must_use]
pub fn parse(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? << 4 | digit(*low)?) as u8);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_two_digits_each() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        assert_eq!(parse(&write(&all)), Some(all));
        assert_eq!((write(&[]), write(&[0, 0x0a, 0xff])), (String::new(), "000aff".to_owned()));
        assert_eq!((parse(""), parse("0AfF")), (Some(vec![]), Some(vec![0x0a, 0xff])));
        for text in ["0", "abc", "0g", "+1", "0x01", "\u{e4}"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
