//! What can be wrong with a query.

/// Why a text is no query. Reject it and show the position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct Error {
    /// Where, in characters from 1.
    pub column: usize,
    /// What is wrong and what to write instead, as a sentence without a full stop.
    pub message: String,
}

impl Error {
    /// An error at byte `offset` of `text`.
    pub(crate) fn at(text: &str, offset: usize, message: impl Into<String>) -> Self {
        let before = text.get(..offset.min(text.len())).unwrap_or(text);
        Self { column: before.chars().count() + 1, message: message.into() }
    }
}
