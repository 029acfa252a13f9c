//! An error in a question, with its position.

/// A mistake in a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Bytes of the text before it.
    pub at: usize,
    /// What is wrong, and what may have been meant.
    pub message: String,
}

impl Mistake {
    pub(super) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }

    /// The message, and the line with a mark below the place.
    #[must_use]
    pub fn shown_in(&self, text: &str) -> String {
        let before = text.get(..self.at).unwrap_or(text);
        let (line_start, column) = (before.rfind('\n').map_or(0, |end| end + 1), before.chars().count() + 1);
        let line = text[line_start..].lines().next().unwrap_or("");
        let indent = before[line_start..].chars().count();
        format!("position {column}: {}\n  {line}\n  {}^", self.message, " ".repeat(indent))
    }
}
