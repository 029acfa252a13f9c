//! Splits a body into lines, and lines into their parts.
//!
//! Invariants: each byte is examined a bounded number of times, whatever quotes and backslashes there are.

/// `text` up to the first of `ends` that has no backslash before it, and what follows that.
pub(super) fn until<'a>(text: &'a str, ends: &[u8]) -> (&'a str, Option<&'a str>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            // Two bytes, or one at the end; a character of several bytes has none of the ends in it.
            b'\\' => at += 2,
            byte if ends.contains(&byte) => return (&text[..at], Some(&text[at + 1..])),
            _ => at += 1,
        }
    }
    (text, None)
}

/// Where the quote that ends a text is.
pub(super) fn quote_end(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'"' => return Some(at),
            _ => at += 1,
        }
    }
    None
}

/// A line and its number, counted from 1 in lines as an editor shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered<'a> {
    /// Of its beginning.
    pub number: usize,
    /// Without its end.
    pub line: &'a [u8],
}

/// The lines of `body` that are neither empty nor comments.
pub fn numbered(body: &[u8]) -> impl Iterator<Item = Numbered<'_>> {
    Lines { rest: body, number: 1, quotes_span: true }.filter(|found| !found.line.is_empty() && found.line[0] != b'#')
}

struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
    /// False when a quote was never closed: then every line ends at its end, so that it alone is lost.
    quotes_span: bool,
}

impl<'a> Iterator for Lines<'a> {
    type Item = Numbered<'a>;

    fn next(&mut self) -> Option<Numbered<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let number = self.number;
        let short = self.rest.iter().position(|byte| *byte == b'\n').unwrap_or(self.rest.len());
        let end = match &self.rest[..short] {
            line if !self.quotes_span || line.trim_ascii_start().first() == Some(&b'#') || !line.contains(&b'"') => {
                short
            }
            _ => line_end(self.rest).unwrap_or_else(|| {
                self.quotes_span = false;
                short
            }),
        };
        let line = &self.rest[..end];
        self.number += 1 + line.iter().filter(|byte| **byte == b'\n').count();
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        let line = crate::lines::trim_end(line);
        Some(Numbered { number, line: line.trim_ascii_start() })
    }
}

/// Where the line at the beginning of `text` ends, past new lines in quoted texts; none when a quote is not closed.
fn line_end(text: &[u8]) -> Option<usize> {
    let (mut at, mut in_fields, mut begins_value) = (0, false, false);
    while at < text.len() {
        match text[at] {
            b'\n' => return Some(at),
            b'\\' => {
                (at, begins_value) = (at + 2, false);
                continue;
            }
            // A quote means something where a field's value begins, and nowhere else.
            b'"' if begins_value => {
                (at, begins_value) = (at + 2 + quote_end(&text[at + 1..])?, false);
                continue;
            }
            b' ' => in_fields = true,
            _ => {}
        }
        begins_value = in_fields && text[at] == b'=';
        at += 1;
    }
    Some(text.len())
}
