//! The words of texts, and which of them a text must have to be wanted: by this a store skips what a search cannot
//! find.
//!
//! A word is a longest run of letters, digits and `_` in the text after [`fold`]. A text with backslashes also has the
//! words that it has without its escapes, so that a value of a JSON string is found by the words that it means.
//!
//! Invariants: [`each_word`] hands on every word of a text at least once; [`Words::may_match`] is false only when a
//! text without the words that are missing cannot match.

use std::borrow::Cow;

/// Whether `c` is part of a word.
#[must_use]
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The text in lower case, character by character: for comparisons that ignore case.
#[must_use]
pub fn fold(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { text.chars().flat_map(char::to_lowercase).collect() }
}

/// The position of each word of a folded text, in bytes.
pub fn spans(folded: &str) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let mut start = None;
        while let Some((is_word, bytes)) = character_at(folded, at) {
            match (is_word, start) {
                (true, None) => start = Some(at),
                (false, Some(_)) => break,
                _ => {}
            }
            at += bytes;
        }
        start.map(|start| (start, at))
    })
}

/// Whether the character at a byte is part of a word, and its length; none at the end.
fn character_at(text: &str, at: usize) -> Option<(bool, usize)> {
    let byte = *text.as_bytes().get(at)?;
    if byte.is_ascii() {
        return Some((byte.is_ascii_alphanumeric() || byte == b'_', 1));
    }
    text[at..].chars().next().map(|c| (is_word(c), c.len_utf8()))
}

/// Passes each word of `text` to `each`, folded, as often as it occurs.
pub fn each_word(text: &str, mut each: impl FnMut(&str)) {
    let mut words = |folded: &str| spans(folded).for_each(|(start, end)| each(&folded[start..end]));
    words(&fold(text));
    if let Cow::Owned(plain) = unescaped(text) {
        words(&fold(&plain));
    }
}

/// The text with the escapes of JSON strings replaced by their meaning; a backslash that begins none stays.
#[must_use]
pub fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let plain = match rest.bytes().next() {
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b @ (b'"' | b'\\' | b'/')) => char::from(b),
            Some(b'u') if hex(rest).is_some() => {
                let (c, bytes) = character(rest);
                out.push(c);
                rest = &rest[bytes..];
                continue;
            }
            _ => {
                out.push('\\');
                continue;
            }
        };
        out.push(plain);
        rest = &rest[1..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The 16 bits of `uXXXX` at the start of a text.
fn hex(text: &str) -> Option<u32> {
    let digits = text.strip_prefix('u')?.get(..4)?;
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

/// The character that `uXXXX`, or a pair of surrogates, represents, and its length in bytes; U+FFFD for half a pair.
fn character(text: &str) -> (char, usize) {
    let first = hex(text).unwrap_or(0xFFFD);
    if let Some(c) = char::from_u32(first) {
        return (c, 5);
    }
    let second = text[5..].strip_prefix('\\').and_then(hex);
    match second {
        Some(low @ 0xDC00..=0xDFFF) if first < 0xDC00 => {
            let c = char::from_u32(0x1_0000 + ((first - 0xD800) << 10) + (low - 0xDC00));
            (c.unwrap_or(char::REPLACEMENT_CHARACTER), 11)
        }
        _ => (char::REPLACEMENT_CHARACTER, 5),
    }
}

/// Words that a text must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Words {
    /// This one, folded.
    Word(String),
    /// All of these. If empty, any text will do.
    All(Vec<Words>),
    /// Any of these.
    Any(Vec<Words>),
}

impl Words {
    /// Any text will do.
    pub const NONE: Self = Self::All(Vec::new());

    /// Whether any text will do.
    #[must_use]
    pub fn is_none(&self) -> bool {
        match self {
            Self::Word(_) => false,
            Self::All(parts) => parts.iter().all(Self::is_none),
            Self::Any(parts) => parts.iter().any(Self::is_none),
        }
    }

    /// Whether a text may match that has the words for which `has` is true.
    #[must_use]
    pub fn may_match(&self, has: &dyn Fn(&str) -> bool) -> bool {
        match self {
            Self::Word(word) => has(word),
            Self::All(parts) => parts.iter().all(|part| part.may_match(has)),
            Self::Any(parts) => parts.iter().any(|part| part.may_match(has)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut out = Vec::new();
        each_word(text, |word| out.push(word.to_owned()));
        out
    }

    #[test]
    fn words_are_runs_of_letters_digits_and_underscores() {
        let check = |text: &str, expected: &[&str]| assert_eq!(words(text), expected, "{text}");
        check("", &[]);
        check("--", &[]);
        check("GET /api/Orders_7 10.0.0.1", &["get", "api", "orders_7", "10", "0", "0", "1"]);
        check("Ärger über-Σ", &["ärger", "über", "σ"]);
        check(r"a\nb", &["a", "nb", "a", "b"]);
        check(r"\u00e4x \ud83d\ude00y", &["u00e4x", "ud83d", "ude00y", "äx", "y"]);
    }

    #[test]
    fn escapes_mean_what_they_mean_in_json() {
        let check = |text: &str, expected: &str| assert_eq!(unescaped(text), expected, "{text}");
        check("plain", "plain");
        check(r#"\" \\ \/ \b\f\n\r\t"#, "\" \\ / \u{8}\u{c}\n\r\t");
        check(r"\u0041\u00e4\ud83d\ude00", "Aä\u{1f600}");
        check(r"\ud83d \ude00 \ud83dA", "\u{fffd} \u{fffd} \u{fffd}A");
        check(r"C:\x \u12 \", r"C:\x \u12 \");
        check(r"\ud83d\u0041", "\u{fffd}A");
        check(r"\uä123", r"\uä123");
    }

    #[test]
    fn a_text_may_match_when_the_words_it_must_have_are_there() {
        let word = |word: &str| Words::Word(word.into());
        let wanted = Words::All(vec![word("a"), Words::Any(vec![word("b"), word("c")])]);
        let may = |has: &[&str]| wanted.may_match(&|word| has.contains(&word));
        assert!(may(&["a", "b"]) && may(&["a", "c"]));
        assert!(!may(&["a"]) && !may(&["b", "c"]));
        assert!(!wanted.is_none() && Words::NONE.is_none() && Words::NONE.may_match(&|_| false));
        assert!(Words::Any(vec![word("a"), Words::NONE]).is_none());
        assert!(!Words::Any(Vec::new()).may_match(&|_| true), "one of none is never there");
    }
}
