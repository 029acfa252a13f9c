//! Positions in a query's text.

/// Bytes `start..end` of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One after the last byte.
    pub end: u32,
}

impl Span {
    /// Bytes `start..end`. Query texts are far below 4 GiB: see `parse`'s limit.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        let narrow = |at: usize| u32::try_from(at).expect("a query's text is below 4 GiB");
        Self { start: narrow(start), end: narrow(end) }
    }

    /// From this one's start to the other's end.
    #[must_use]
    pub const fn to(self, other: Self) -> Self {
        Self { start: self.start, end: other.end }
    }

    /// Line and byte column of the start in `text`, both from 1.
    #[must_use]
    pub fn line_column(self, text: &str) -> (usize, usize) {
        let before = &text.as_bytes()[..text.len().min(self.start as usize)];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        (line, column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one() {
        let check = |at, expected| assert_eq!(Span::new(at, at).line_column("ab\ncd"), expected);
        check(0, (1, 1));
        check(2, (1, 3));
        check(3, (2, 1));
        check(5, (2, 3));
        check(99, (2, 3));
    }
}
