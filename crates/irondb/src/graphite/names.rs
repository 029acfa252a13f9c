//! Names of streams, and what a pattern finds among them.

use crate::glob;
use crate::identity::Identity;
use crate::tag_query::{Pattern, Query};

/// A stream's name: `name;category=value;...`.
#[must_use]
pub fn path(identity: &Identity) -> String {
    let tags = identity.tags.iter().map(|(category, value)| format!(";{category}={value}"));
    std::iter::once(identity.base.clone()).chain(tags).collect()
}

/// A name that datapoints are wanted of, perhaps behind the UUID of a check and a dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The check, if the name contains it.
    pub check: Option<String>,
    /// Without tags.
    pub base: String,
    /// Ascending.
    pub tags: Vec<(String, String)>,
}

impl Name {
    /// Reads a name.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (path, tags) = text.split_once(';').unwrap_or((text, ""));
        let check = path.split_once('.').and_then(|(first, rest)| Some((crate::httptrap::parse_uuid(first)?, rest)));
        let tag = |tag: &str| tag.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut tags: Vec<_> = tags.split(';').filter_map(tag).collect();
        tags.sort_unstable();
        let (check, base) = check.map_or((None, path), |(check, rest)| (Some(check), rest));
        Self { check, base: base.into(), tags }
    }

    /// Whether it names this stream.
    #[must_use]
    pub fn is(&self, stream: &Identity) -> bool {
        let is_of_check = self.check.as_ref().is_none_or(|check| *check == stream.check);
        is_of_check && self.base == stream.base && self.tags == stream.tags
    }

    /// The query that finds its streams, and possibly others.
    #[must_use]
    pub fn query(&self) -> Query {
        Query::And(vec![numeric(), named(Pattern::Exact(self.base.clone()))])
    }
}

fn exact(category: &str) -> Pattern {
    Pattern::Exact(category.into())
}

fn named(pattern: Pattern) -> Query {
    Query::Tag(exact("__name"), pattern)
}

/// Only numbers can be drawn.
pub(super) fn numeric() -> Query {
    Query::Tag(exact("__type"), exact("numeric"))
}

/// A pattern of names: it matches down to the level at which it ends.
#[derive(Debug)]
pub struct Search {
    levels: usize,
    expression: String,
    prefix_bytes: usize,
}

/// The match of a pattern in one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node<'n> {
    /// The name continues below it.
    Branch(&'n str),
    /// The name ends there.
    Leaf,
}

impl Search {
    /// Parses a pattern that follows the literal `prefix`.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub fn parse(prefix: &str, pattern: &str) -> Result<Self, String> {
        let pattern = super::bounded(pattern)?;
        let levels = 1 + prefix.matches('.').count() + pattern.matches('.').count();
        let expression = format!("{}{}", regex::escape(prefix), glob::expression(pattern));
        Ok(Self { levels, expression, prefix_bytes: prefix.len() })
    }

    /// The query for every stream at or below the level.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the pattern.
    pub fn query(&self) -> Result<Query, String> {
        let at_or_below = super::regex(&format!(r"^{}(?:\.|$)", self.expression))?;
        Ok(Query::And(vec![numeric(), named(Pattern::Regex(at_or_below))]))
    }

    /// The match in the name of a stream that its query found; both without the prefix.
    #[must_use]
    pub fn node<'n>(&self, base: &'n str) -> Node<'n> {
        match base.match_indices('.').nth(self.levels - 1) {
            Some((end, _)) => Node::Branch(self.without_prefix(&base[..end])),
            None => Node::Leaf,
        }
    }

    /// A name as the client that gave the prefix sees it.
    #[must_use]
    pub fn without_prefix<'n>(&self, name: &'n str) -> &'n str {
        name.get(self.prefix_bytes..).unwrap_or(name)
    }
}
