//! Names of metrics with stream tags: `name|ST[category:value,...]`.
//!
//! Format: the name, then sections `|ST[...]` (stream tags, part of the identity) and `|MT{...}` (measurement tags,
//! which are parsed and not stored). Tags are separated by commas, a category from its value by the first colon; either
//! may be base64 between `b"` and `"`.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ogive_protocol::lines::Fault;

/// 4,095 bytes: IRONdb's own limit of a name with its tags.
pub const NAME_BYTES_MAX: usize = 4095;

/// A name and its stream tags, in the order of the sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricName<'a> {
    /// Without tags.
    pub base: &'a str,
    /// Category and value; the value of a tag without one is empty.
    pub tags: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

/// Parses a name.
///
/// # Errors
/// [`Fault::Name`] for an empty or too long one, [`Fault::Tags`] for a section that violates the format.
pub fn parse(name: &str) -> Result<MetricName<'_>, Fault> {
    let start = ["|ST[", "|MT{"].iter().filter_map(|section| name.find(section)).min();
    let (base, mut sections) = name.split_at(start.unwrap_or(name.len()));
    if base.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Fault::Name);
    }
    let mut tags = Vec::new();
    while !sections.is_empty() {
        let (is_stored, close) = match sections.get(..4) {
            Some("|ST[") => (true, ']'),
            Some("|MT{") => (false, '}'),
            _ => return Err(Fault::Tags),
        };
        let end = sections.find(close).ok_or(Fault::Tags)?;
        for tag in sections[4..end].split(',').filter(|tag| !tag.is_empty()) {
            let (category, value) = tag.split_once(':').unwrap_or((tag, ""));
            let tag = (part(category)?, part(value)?);
            if tag.0.is_empty() {
                return Err(Fault::Tags);
            }
            if is_stored && !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        sections = &sections[end + 1..];
    }
    Ok(MetricName { base, tags })
}

/// A category or a value: plain, or base64 between `b"` and `"`.
fn part(text: &str) -> Result<Cow<'_, str>, Fault> {
    let Some(coded) = text.strip_prefix("b\"") else { return Ok(Cow::Borrowed(text)) };
    let coded = coded.strip_suffix('"').ok_or(Fault::Tags)?;
    let bytes = STANDARD.decode(coded).map_err(|_| Fault::Tags)?;
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| Fault::Tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(name: &str) -> Result<(String, Vec<(String, String)>), Fault> {
        let MetricName { base, tags } = parse(name)?;
        Ok((base.into(), tags.into_iter().map(|(category, value)| (category.into(), value.into())).collect()))
    }

    #[test]
    fn tags_are_separated_from_the_name() {
        let pair = |category: &str, value: &str| (category.to_owned(), value.to_owned());
        assert_eq!(tags("cpu`user"), Ok(("cpu`user".into(), vec![])));
        assert_eq!(tags("a|ST[x:1,y:2:3]"), Ok(("a".into(), vec![pair("x", "1"), pair("y", "2:3")])));
        assert_eq!(tags("a|ST[x:1]|MT{z:9}"), Ok(("a".into(), vec![pair("x", "1")])));
        assert_eq!(tags("a|MT{z:9}|ST[x:1,x:1]"), Ok(("a".into(), vec![pair("x", "1")])));
        assert_eq!(
            tags("a|ST[b\"aGVsbG8=\":b\"eCx5\",lone]"),
            Ok(("a".into(), vec![pair("hello", "x,y"), pair("lone", "")]))
        );
        assert_eq!(tags("a|b"), Ok(("a|b".into(), vec![])));
    }

    #[test]
    fn broken_names_are_faults() {
        assert_eq!(tags(""), Err(Fault::Name));
        assert_eq!(tags("|ST[a:b]"), Err(Fault::Name));
        assert_eq!(tags(&"x".repeat(4096)), Err(Fault::Name));
        for name in
            ["a|ST[x:1", "a|ST[:1]", "a|ST[b\"***\":1]", "a|ST[b\"aGVsbG8=:1]", "a|ST[x:1]rest", "a|ST[b\"/w==\":1]"]
        {
            assert_eq!(tags(name), Err(Fault::Tags), "{name}");
        }
    }
}
