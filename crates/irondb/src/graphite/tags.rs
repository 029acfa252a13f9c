//! Tag queries as Graphite has them: `name=value`, `!=`, `=~` and `!=~`, with commas between them; all must hold.
//!
//! The tag `name` is the metric's name. An expression matches from the value's start. An empty value is that of a
//! missing tag.

use crate::tag_query::{Pattern, Query, TERMS_MAX};

/// Reads a query.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn parse(text: &str) -> Result<Query, String> {
    let terms = terms(super::bounded(text)?);
    if terms.len() > TERMS_MAX {
        return Err(format!("the query has {} terms, more than {TERMS_MAX}", terms.len()));
    }
    let mut all = vec![super::names::numeric()];
    for term in terms {
        all.push(one(&term)?);
    }
    Ok(Query::And(all))
}

/// A comma without an equals sign behind it belongs to the expression before it, as in `host=~a{1,3}`.
fn terms(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for part in text.split(',') {
        match out.last_mut() {
            Some(last) if !part.contains('=') => {
                last.push(',');
                last.push_str(part);
            }
            _ => out.push(part.trim().to_owned()),
        }
    }
    out
}

fn one(term: &str) -> Result<Query, String> {
    let wrong = || format!("{term:?} is not such as name=value, name!=value, name=~pattern or name!=~pattern");
    let (name, value) = term.split_once('=').ok_or_else(wrong)?;
    let (name, is_not) = name.strip_suffix('!').map_or((name, false), |name| (name, true));
    if name.is_empty() {
        return Err(wrong());
    }
    let category = Pattern::Exact(if name == "name" { "__name" } else { name }.into());
    let (query, is_not) = match value.strip_prefix('~') {
        Some(expression) => {
            (Query::Tag(category, Pattern::Regex(super::regex(&format!("^(?:{expression})"))?)), is_not)
        }
        None if value.is_empty() => (Query::Tag(category, Pattern::Any), !is_not),
        None => (Query::Tag(category, Pattern::Exact(value.into())), is_not),
    };
    Ok(if is_not { Query::Not(Box::new(query)) } else { query })
}
