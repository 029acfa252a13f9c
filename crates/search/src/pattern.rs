//! A text to look for, regardless of case, with or without more before and behind it.

use std::fmt;

use ogive_model::Words;
use ogive_model::words::{fold, is_word, spans};

/// A text to search for. In a line it begins and ends at word boundaries; in a field it is the whole value. An open end
/// may continue with anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// As written.
    text: String,
    folded: String,
    open_start: bool,
    open_end: bool,
}

impl Pattern {
    /// Exactly `text`.
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), folded: fold(text), open_start: false, open_end: false }
    }

    /// `text` with a `*` at its ends for anything.
    pub(crate) fn from_stars(text: &str) -> Self {
        let open_start = text.starts_with('*');
        let rest = text.strip_prefix('*').unwrap_or(text);
        let open_end = rest.ends_with('*') || (open_start && rest.is_empty());
        let text = rest.strip_suffix('*').unwrap_or(rest);
        Self { open_start, open_end, ..Self::new(text) }
    }

    /// Whether it occurs in a folded line, as whole words.
    pub(crate) fn stands_in(&self, folded: &str) -> bool {
        let needle = &*self.folded;
        let Some(first) = needle.chars().next() else { return true };
        let (from_word, to_word) = (is_word(first), needle.chars().next_back().is_some_and(is_word));
        let mut from = 0;
        while let Some(at) = folded[from..].find(needle).map(|at| from + at) {
            let end = at + needle.len();
            let inside_before = from_word && folded[..at].chars().next_back().is_some_and(is_word);
            let inside_after = to_word && folded[end..].chars().next().is_some_and(is_word);
            if (self.open_start || !inside_before) && (self.open_end || !inside_after) {
                return true;
            }
            from = at + first.len_utf8();
        }
        false
    }

    /// Whether a value is it.
    pub(crate) fn is_all_of(&self, value: &str) -> bool {
        let (value, needle) = (fold(value), &*self.folded);
        match (self.open_start, self.open_end) {
            (false, false) => value == needle,
            (false, true) => value.starts_with(needle),
            (true, false) => value.ends_with(needle),
            (true, true) => value.contains(needle),
        }
    }

    /// The words that every text with it has.
    pub(crate) fn words(&self) -> Words {
        let end = self.folded.len();
        let whole = |&(from, to): &(usize, usize)| (!self.open_start || from > 0) && (!self.open_end || to < end);
        let words = spans(&self.folded).filter(whole).map(|(from, to)| Words::Word(self.folded[from..to].to_owned()));
        Words::All(words.collect())
    }

    /// As written in a query: a word where that is read as one, else in quotes, in which a star is literal.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>, is_plain: fn(&str) -> bool) -> fmt::Result {
        let (start, end) = (if self.open_start { "*" } else { "" }, if self.open_end { "*" } else { "" });
        let starred = match (self.text.is_empty(), self.open_start && self.open_end) {
            (true, true) => "*".to_owned(),
            _ => format!("{start}{}{end}", self.text),
        };
        if is_plain(&starred) && Self::from_stars(&starred) == *self {
            f.write_str(&starred)
        } else {
            write!(f, "{start}{}{end}", Quoted(&self.text))
        }
    }

    /// With open ends where stars are written outside the quotes.
    pub(crate) fn opened(self, open_start: bool, open_end: bool) -> Self {
        Self { open_start, open_end, ..self }
    }
}

/// A text in quotes.
pub(crate) struct Quoted<'t>(pub(crate) &'t str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '\r' => f.write_str("\\r")?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stands_alone_unless_a_star_opens_it() {
        let check = |pattern: &str, line: &str, expected: bool| {
            assert_eq!(Pattern::from_stars(pattern).stands_in(&fold(line)), expected, "{pattern} in {line}");
        };
        for (pattern, line, expected) in [
            ("error", "an ERROR here", true),
            ("error", "errors", false),
            ("error*", "errors", true),
            ("*rror", "an Error", true),
            ("*rror", "errors", false),
            ("*rro*", "errors", true),
            ("error", "terror, error", true),
            ("10.0.0.1", "from 10.0.0.1:80", true),
            ("10.0.0.1", "from 110.0.0.1", false),
            ("/api", "GET /api/orders", true),
            ("a.", "xa.b a.b", true),
            ("ä", "Ä", true),
            ("ä", "äb", false),
            ("aa", "aaa", false),
            ("*", "", true),
        ] {
            check(pattern, line, expected);
        }
    }

    #[test]
    fn words_at_an_open_end_are_not_asked_for() {
        let check = |pattern: &str, expected: &[&str]| {
            let expected = expected.iter().map(|word| Words::Word((*word).to_owned())).collect();
            assert_eq!(Pattern::from_stars(pattern).words(), Words::All(expected), "{pattern}");
        };
        check("Connection refused", &["connection", "refused"]);
        check("connection refus*", &["connection"]);
        check("*ection refus*", &[]);
        check("one*", &[]);
        check("one-*", &["one"]);
        check("*", &[]);
    }
}
