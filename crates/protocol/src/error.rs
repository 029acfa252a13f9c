//! Why received bytes cannot be decoded.

/// What is wrong with a message. Every variant means: refuse it and report it to the sender; sending it again would not
/// help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes end inside a field.
    #[error("the message ends in the middle of {what}")]
    Truncated {
        /// What was being read, as a noun phrase.
        what: &'static str,
    },
    /// The bytes break a rule of their format.
    #[error("{what}")]
    Malformed {
        /// The rule that is broken, as a sentence.
        what: &'static str,
    },
    /// A line of a text breaks a rule.
    #[error("line {line}: {what}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The rule, as a sentence.
        what: &'static str,
    },
    /// A named limit was passed.
    #[error("{what} is {found}, above the limit of {limit}; send less at once")]
    TooLarge {
        /// What is too large, as a noun phrase.
        what: &'static str,
        /// Its size.
        found: u64,
        /// The most that is taken.
        limit: u64,
    },
    /// The body is not a snappy block.
    #[error("the body is not one snappy block: {0}")]
    Snappy(String),
}
