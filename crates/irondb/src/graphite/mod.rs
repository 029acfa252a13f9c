//! Numbers as Graphite names, finds and sends them.
//!
//! Format: a stream is `name;category=value;...`, with the levels of its name between dots. What is sent to a check
//! NAME is stored as `graphite.NAME.` and the name that the line has.

pub mod lines;
pub mod names;
pub mod tags;

/// 64 KiB, the limit of IRONdb's own tag queries.
pub const QUERY_BYTES_MAX: usize = crate::tag_query::BYTES_MAX;

/// Refuses a query that is longer than [`QUERY_BYTES_MAX`].
fn bounded(query: &str) -> Result<&str, String> {
    if query.len() <= QUERY_BYTES_MAX {
        return Ok(query);
    }
    Err(format!("the query has {} bytes, more than {QUERY_BYTES_MAX}", query.len()))
}

/// Compiles an expression within the limits of a tag query's.
fn regex(expression: &str) -> Result<Box<regex::Regex>, String> {
    let built = regex::RegexBuilder::new(expression).size_limit(crate::tag_query::REGEX_BYTES_MAX).build();
    built.map(Box::new).map_err(|error| format!("the pattern {expression:?} cannot be used: {error}"))
}

#[cfg(test)]
mod tests;
