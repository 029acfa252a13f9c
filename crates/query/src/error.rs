//! Errors of queries.

use ogive_model::{MemoryExceeded, SelectError};

use crate::ast::Span;

/// Why a text is not a query. Reject it and show the position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: parse error: {message}")]
pub struct ParseError {
    /// What is wrong, as a sentence without a full stop.
    pub message: String,
    /// Where, as bytes of the text.
    pub span: Span,
    /// Line of the start, from 1.
    pub line: usize,
    /// Byte column of the start, from 1.
    pub column: usize,
}

impl ParseError {
    /// An error at `span` of `text`.
    #[must_use]
    pub fn new(text: &str, span: Span, message: impl Into<String>) -> Self {
        let (line, column) = span.line_column(text);
        Self { message: message.into(), span, line, column }
    }
}

/// Why a query has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reject: the text is not a query.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// Reject: the query has a value at an instant, but none that a range of time could have.
    #[error("{0}")]
    NoRange(String),
    /// Reject: the query cannot be evaluated over this data or at these times.
    #[error("{message}")]
    Evaluate {
        /// What is wrong.
        message: String,
        /// Where in the text, when it is known.
        span: Option<Span>,
    },
    /// Reject: the query would hold more samples in memory than the engine allows.
    #[error("query processing would load too many samples into memory in query execution (limit {limit})")]
    TooManySamples {
        /// The limit.
        limit: usize,
    },
    /// Reject: a selector matches more series than the engine allows.
    #[error("the selector matches {found} series or more, more than {limit}; narrow it")]
    TooManySeries {
        /// How many were found before the query was stopped.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// Reject, or retry when it is the budget of all queries: the query would exceed the memory budget.
    #[error(transparent)]
    TooMuchMemory(#[from] MemoryExceeded),
    /// Retry, or stop: the caller no longer waits.
    #[error("the query was cancelled before it had its answer")]
    Cancelled,
    /// The store cannot answer: see [`SelectError`].
    #[error(transparent)]
    Select(SelectError),
}

impl From<SelectError> for Error {
    fn from(error: SelectError) -> Self {
        match error {
            SelectError::TooManySeries { found, limit } => Self::TooManySeries { found, limit },
            SelectError::TooMuchMemory(exceeded) => Self::TooMuchMemory(exceeded),
            SelectError::Cancelled => Self::Cancelled,
            error => Self::Select(error),
        }
    }
}

impl Error {
    /// An evaluation error without a position.
    #[must_use]
    pub fn evaluate(message: impl Into<String>) -> Self {
        Self::Evaluate { message: message.into(), span: None }
    }
}
