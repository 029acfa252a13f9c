//! Errors between a node and its cluster.

/// See the module.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An address that cannot be used: change it.
    #[error("{0}")]
    Address(String),
    /// Stored bytes that are not what was written, or nothing this version reads.
    #[error("a fragment is corrupt: {0}")]
    Corrupt(String),
    /// The keyspace is not there, or not as this version needs it.
    #[error("{0}")]
    Schema(String),
    /// Too few nodes answer: try again.
    #[error("the cluster does not answer: {0}")]
    Unavailable(String),
    /// A local file or directory.
    #[error("{0}")]
    Local(String),
}
