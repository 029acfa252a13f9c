//! Conditions on labels.

use crate::pattern;

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

/// One condition: a label that is not there has the empty value.
///
/// The regular expression is compiled once, when the matcher is made, by a linear-time engine.
#[derive(Clone, Debug)]
pub struct Matcher {
    /// The label's name.
    pub name: String,
    /// How to compare.
    pub op: MatchOp,
    /// The value or the pattern, as written.
    pub value: String,
    regex: Option<regex::Regex>,
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.op, &self.value) == (&other.name, other.op, &other.value)
    }
}

impl Matcher {
    /// 1 MiB for a compiled program: far above hand-written patterns, far below what would hurt.
    pub const PROGRAM_BYTES_MAX: usize = pattern::PROGRAM_BYTES_MAX;

    /// A matcher; compiles `value` when `op` asks for it.
    ///
    /// # Errors
    /// The engine's message when the pattern is wrong or larger than [`Matcher::PROGRAM_BYTES_MAX`].
    pub fn new(name: impl Into<String>, op: MatchOp, value: impl Into<String>) -> Result<Self, String> {
        let (name, value) = (name.into(), value.into());
        let regex = match op {
            MatchOp::Equal | MatchOp::NotEqual => None,
            MatchOp::Regex | MatchOp::NotRegex => Some(pattern::anchored(&value)?),
        };
        Ok(Self { name, op, value, regex })
    }

    /// Whether a label of `value` fulfils the condition.
    #[must_use]
    pub fn matches(&self, value: &str) -> bool {
        let matched = self.regex.as_ref().map_or_else(|| value == self.value, |regex| regex.is_match(value));
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
    fn a_huge_program_is_refused() {
        assert!(Matcher::new("l", MatchOp::Regex, "((a{1000}){1000}){10}").is_err());
    }
}
