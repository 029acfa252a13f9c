//! Why something is refused.

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is wrong.
    #[error("{0}")]
    Wrong(String),
    /// The configuration has mistakes, a sentence each.
    #[error("the configuration is refused: {}", .0.join("; "))]
    Invalid(Vec<String>),
    /// There is no such group, version, broker or ticket.
    #[error("{0}")]
    Unknown(String),
    /// Somebody else was quicker.
    #[error("{0}")]
    Conflict(String),
    /// A limit is reached.
    #[error("{0}")]
    Limit(String),
    /// The credential or the ticket is not accepted.
    #[error("{message}")]
    Denied {
        /// The value of the label `reason`.
        reason: &'static str,
        /// For the client.
        message: String,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    Disk(#[from] ogive_journal::Error),
    /// A file that is there and damaged.
    #[error("{0}")]
    Corrupt(String),
}

impl Error {
    pub(crate) fn denied(reason: &'static str, message: impl Into<String>) -> Self {
        Self::Denied { reason, message: message.into() }
    }
}
