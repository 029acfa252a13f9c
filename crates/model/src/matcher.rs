//! Conditions on labels.

use std::sync::Arc;

use crate::Labels;
use crate::pattern::Pattern;

/// How a matcher compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchOp {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `=~`, anchored at both ends.
    Regex,
    /// `!~`, anchored at both ends.
    NotRegex,
}

impl MatchOp {
    /// All of them.
    const ALL: [Self; 4] = [Self::Equal, Self::NotEqual, Self::Regex, Self::NotRegex];

    /// As PromQL writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Regex => "=~",
            Self::NotRegex => "!~",
        }
    }

    /// What [`MatchOp::as_str`] gave.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.as_str() == text)
    }
}

/// One condition; a missing label has the empty value.
///
/// The regular expression is parsed once, when the matcher is made: a list of texts becomes a set, any other is
/// compiled by a linear-time engine.
#[derive(Clone, Debug)]
pub struct Matcher {
    /// The label's name.
    pub name: String,
    /// How to compare.
    pub op: MatchOp,
    /// The value or the pattern, as written.
    pub value: String,
    pattern: Option<Arc<Pattern>>,
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.op, &self.value) == (&other.name, other.op, &other.value)
    }
}

impl Labels {
    /// Whether every condition holds.
    #[must_use]
    pub fn match_all(&self, matchers: &[Matcher]) -> bool {
        matchers.iter().all(|matcher| matcher.matches(self.get(&matcher.name)))
    }
}

impl Matcher {
    /// A matcher; compiles `value` if `op` requires it.
    ///
    /// # Errors
    /// Go's message when the pattern is invalid, and a similar one when its program is larger than
    /// [`program_bytes_max`](crate::pattern::program_bytes_max).
    pub fn new(name: impl Into<String>, op: MatchOp, value: impl Into<String>) -> Result<Self, String> {
        let (name, value) = (name.into(), value.into());
        let pattern = match op {
            MatchOp::Equal | MatchOp::NotEqual => None,
            MatchOp::Regex | MatchOp::NotRegex => Some(Arc::new(Pattern::parse(&value)?)),
        };
        Ok(Self { name, op, value, pattern })
    }

    /// A matcher from stored data: also with a pattern that [`Matcher::new`] accepted once but refuses today; its
    /// meaning is unchanged.
    ///
    /// # Errors
    /// As [`Matcher::new`], when the pattern was never valid.
    pub fn from_stored(name: impl Into<String>, op: MatchOp, value: impl Into<String>) -> Result<Self, String> {
        let (name, value) = (name.into(), value.into());
        let refused = match Self::new(name.clone(), op, value.clone()) {
            Ok(matcher) => return Ok(matcher),
            Err(refused) => refused,
        };
        let pattern = Pattern::from_engine(&value).map_err(|_| refused)?;
        Ok(Self { name, op, value, pattern: Some(Arc::new(pattern)) })
    }

    /// Whether the condition is a compiled pattern, whose memory is not visible from its text.
    #[must_use]
    pub fn is_program(&self) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| matches!(**pattern, Pattern::Program(_)))
    }

    /// The values that satisfy the condition, ascending, if it is `=~` with a list of them.
    #[must_use]
    pub fn listed(&self) -> Option<Vec<&str>> {
        self.pattern.as_ref().filter(|_| self.op == MatchOp::Regex)?.listed()
    }

    /// Whether a label of `value` fulfils the condition.
    #[must_use]
    pub fn matches(&self, value: &str) -> bool {
        let matched = self.pattern.as_ref().map_or_else(|| value == self.value, |pattern| pattern.matches(value));
        matched == matches!(self.op, MatchOp::Equal | MatchOp::Regex)
    }

    /// Whether a series without the label fulfils the condition.
    #[must_use]
    pub fn matches_empty(&self) -> bool {
        self.matches("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operator_compares() {
        let check = |op, pattern: &str, value: &str| Matcher::new("l", op, pattern).unwrap().matches(value);
        assert!(check(MatchOp::Equal, "a", "a") && !check(MatchOp::Equal, "a", "b"));
        assert!(check(MatchOp::NotEqual, "a", "b") && !check(MatchOp::NotEqual, "a", "a"));
        assert!(check(MatchOp::Regex, "a|b.", "bc") && !check(MatchOp::Regex, "a|b", "xa"));
        assert!(check(MatchOp::NotRegex, "a.*", "ba") && !check(MatchOp::NotRegex, "a.*", "a\nb"));
    }

    #[test]
    fn what_was_stored_once_is_read_for_ever() {
        assert!(Matcher::new("l", MatchOp::Regex, "(?x) a b").is_err());
        assert!(Matcher::from_stored("l", MatchOp::Regex, "(?x) a b").unwrap().matches("ab"));
        assert!(Matcher::from_stored("l", MatchOp::NotRegex, "a|b").unwrap().matches("c"));
        assert!(Matcher::from_stored("l", MatchOp::Equal, "(").unwrap().matches("("));
        assert!(Matcher::from_stored("l", MatchOp::Regex, "(").is_err());
    }

    #[test]
    fn a_huge_program_is_refused() {
        assert!(Matcher::new("l", MatchOp::Regex, "((a{1000}){1000}){10}").is_err());
    }
}
