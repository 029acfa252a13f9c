//! Whether a query finds a stream.

use super::{Pattern, Query};
use crate::identity::Identity;

/// A stream that may be found.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'c> {
    /// Name and tags.
    pub identity: &'c Identity,
    /// Those of `numeric`, `text` and `histogram` that apply.
    pub kinds: &'c [&'c str],
    /// The tags of its check.
    pub check_tags: &'c [(String, String)],
    /// The first and the last second of the requested activity; None when it is not requested.
    pub activity: Option<(i64, i64)>,
}

impl Query {
    /// Whether it finds a stream.
    #[must_use]
    pub fn finds(&self, stream: &Candidate<'_>) -> bool {
        match self {
            Self::And(all) => all.iter().all(|query| query.finds(stream)),
            Self::Or(some) => some.iter().any(|query| query.finds(stream)),
            Self::Not(query) => !query.finds(stream),
            Self::Activity(from, to) => stream.activity.is_none_or(|(first, last)| first <= *to && last >= *from),
            Self::Tag(category, value) => has_tag(stream, category, value),
        }
    }

    /// Whether it has a condition on activity.
    #[must_use]
    pub fn asks_activity(&self) -> bool {
        match self {
            Self::And(all) | Self::Or(all) => all.iter().any(Self::asks_activity),
            Self::Not(query) => query.asks_activity(),
            Self::Activity(..) => true,
            Self::Tag(..) => false,
        }
    }
}

fn has_tag(stream: &Candidate<'_>, category: &Pattern, value: &Pattern) -> bool {
    if let Pattern::Exact(special) = category {
        let identity = stream.identity;
        match &**special {
            "__name" => return value.fits(&identity.base),
            "__check_uuid" => return value.fits(&identity.check),
            "__type" => return stream.kinds.iter().any(|kind| value.fits(kind)),
            "__check_tag" => {
                return stream.check_tags.iter().any(|(name, found)| value.fits(&format!("{name}:{found}")));
            }
            _ => {}
        }
    }
    let all = stream.identity.tags.iter().chain(stream.check_tags);
    all.into_iter().any(|(name, found)| category.fits(name) && value.fits(found))
}

impl Pattern {
    /// Whether `text` matches.
    #[must_use]
    pub fn fits(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(exact) => exact == text,
            Self::Glob(glob) => glob_fits(glob.as_bytes(), text.as_bytes()),
            Self::Regex(regex) => regex.is_match(text),
        }
    }
}

/// Each `*` matches as little as possible; when the rest does not match, the latest takes one byte more.
fn glob_fits(glob: &[u8], text: &[u8]) -> bool {
    let (mut in_glob, mut in_text, mut back) = (0, 0, None);
    while in_text < text.len() {
        match glob.get(in_glob) {
            Some(b'*') => {
                back = Some((in_glob + 1, in_text));
                in_glob += 1;
            }
            Some(byte) if *byte == text[in_text] => (in_glob, in_text) = (in_glob + 1, in_text + 1),
            _ => match back {
                Some((after, from)) => {
                    back = Some((after, from + 1));
                    (in_glob, in_text) = (after, from + 1);
                }
                None => return false,
            },
        }
    }
    glob[in_glob..].iter().all(|byte| *byte == b'*')
}
