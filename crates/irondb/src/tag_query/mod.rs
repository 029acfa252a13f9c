//! The query language of stream tags: `and(..)`, `or(..)`, `not(..)` of `category:value`.
//!
//! Format: a category or a value is a text in which `*` stands for anything, a regular expression between slashes, or
//! either in base64 (`b"..."`, `b/.../`); `[exact]`, `[re]`, `[graphite]` and `[default]` before it choose how it
//! matches. A value that is left out is any. Special categories: `__name`, `__check_uuid`, `__type` (numeric, text,
//! histogram), `__activity:FROM-TO` (seconds since 1970) and `__check_tag`. Tags of the check count as those of its
//! streams.
//! Limits: [`BYTES_MAX`], [`DEPTH_MAX`], [`TERMS_MAX`], and [`REGEX_BYTES_MAX`] for what a regular expression compiles
//! to; matching takes time linear in the text.

mod matching;
mod parser;

pub use matching::Candidate;
pub use parser::parse;

/// 64 KiB: thousands of terms.
pub const BYTES_MAX: usize = 64 * 1024;
/// 32 levels: people nest five.
pub const DEPTH_MAX: usize = 32;
/// 1,024 terms, each of which is compared with each tag of a stream.
pub const TERMS_MAX: usize = 1_024;
/// 1 MiB: a repeated Unicode class is some hundred KiB.
pub const REGEX_BYTES_MAX: usize = 1 << 20;

/// A query.
#[derive(Debug)]
pub enum Query {
    /// All must hold; an empty list matches everything.
    And(Vec<Query>),
    /// At least one must hold.
    Or(Vec<Query>),
    /// It must not hold.
    Not(Box<Query>),
    /// A tag has this category and this value.
    Tag(Pattern, Pattern),
    /// There was activity between these seconds.
    Activity(i64, i64),
}

/// A condition on a category or a value.
#[derive(Debug)]
pub enum Pattern {
    /// Anything.
    Any,
    /// This text.
    Exact(String),
    /// A text with `*` for anything.
    Glob(String),
    /// A regular expression that matches anywhere.
    Regex(Box<regex::Regex>),
}

/// Why a text is no query; a sentence with the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tag query is wrong at character {at}: {what}")]
pub struct Wrong {
    /// Bytes before it.
    pub at: usize,
    /// What is wrong.
    pub what: String,
}

impl Query {
    /// The value that a tag of this category has in every stream that the query finds, if the query requires one.
    #[must_use]
    pub fn required(&self, category: &str) -> Option<&str> {
        match self {
            Self::And(all) => all.iter().find_map(|query| query.required(category)),
            Self::Or(some) if some.len() == 1 => some[0].required(category),
            Self::Tag(Pattern::Exact(name), Pattern::Exact(value)) if name == category => Some(value),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
