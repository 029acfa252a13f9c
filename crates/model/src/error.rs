//! What can be wrong with data from outside.

/// Why labels or a batch cannot be accepted. Every variant means: reject the input and report it to the sender.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two labels of one name.
    #[error("label {name:?} is given twice; keep one")]
    DuplicateLabel {
        /// The name.
        name: String,
    },
    /// A label without a name.
    #[error("a label has an empty name; every label needs one")]
    EmptyLabelName,
    /// No metric name.
    #[error("the series has no __name__ label; add one")]
    NoMetricName,
    /// Not a tenant's name.
    #[error("{name:?} names no tenant; use 1 to 150 letters, digits and !-_.*'(), neither \".\" nor \"..\"")]
    Tenant {
        /// The given name.
        name: String,
    },
    /// A named limit was passed.
    #[error("{what} is {found}, above the limit of {limit}; send less at once")]
    TooLarge {
        /// What is too large, as a noun phrase.
        what: &'static str,
        /// Its size.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// The bytes are not a batch frame.
    #[error("not a batch: {0}")]
    Malformed(String),
    /// The frame's checksum does not fit its bytes.
    #[error("the batch's checksum is {found:08x} where its bytes give {expected:08x}; send it again")]
    Checksum {
        /// Computed over the bytes.
        expected: u32,
        /// Written in the header.
        found: u32,
    },
}

/// Checks `found` against a named limit.
pub(crate) fn within(what: &'static str, found: usize, limit: usize) -> Result<(), Error> {
    if found > limit { Err(Error::TooLarge { what, found, limit }) } else { Ok(()) }
}
