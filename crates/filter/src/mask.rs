//! What must not be stored: parts of lines that become `***`, before anything else reads the line.
//!
//! Invariants: the expressions are linear; what is masked is in no field, label, number or exemplar of the line.

use std::borrow::Cow;

use regex::{Captures, Regex};

use crate::parse::compile;

/// The replacement.
const STARS: &str = "***";

/// The group of an expression that is replaced, if there is one; otherwise the whole match.
const GROUP: &str = "secret";

/// Masks by name.
const NAMED: &[(&str, &str)] = &[
    ("email", r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+"),
    // 13 to 19 digits, in groups or not; only those with a valid check digit.
    ("card", r"\b[0-9](?:[ -]?[0-9]){12,18}\b"),
    ("bearer", r#"(?i)\b(?:bearer|basic|token)\s+(?<secret>[A-Za-z0-9._~+/=-]{8,})"#),
    (
        "password",
        r#"(?i)\b[a-z0-9_.-]*(?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key)["']?\s*[=:]\s*["']?(?<secret>[^\s"',;&}]+)"#,
    ),
    ("jwt", r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"),
    ("aws-key", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("ip", r"\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b"),
];

/// One rule.
#[derive(Debug)]
pub(crate) struct Mask {
    regex: Regex,
    is_group: bool,
    is_card: bool,
}

impl Mask {
    /// A name, or an expression between slashes.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let expression = match text.strip_prefix('/').and_then(|text| text.strip_suffix('/')) {
            Some(expression) => expression,
            None => {
                let named = NAMED.iter().find(|(name, _)| *name == text);
                let known = || NAMED.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
                let unknown = || {
                    let meant = ogive_text::near::suggestion(NAMED.iter().map(|(name, _)| *name), text);
                    format!("the mask {text:?} is not known{meant}; there are {}, and expressions as /.../", known())
                };
                named.ok_or_else(unknown)?.1
            }
        };
        let regex = compile(expression)?;
        let is_group = regex.capture_names().any(|name| name == Some(GROUP));
        Ok(Self { regex, is_group, is_card: text == "card" })
    }

    /// The line with masked secrets; None when there was nothing to mask.
    pub(crate) fn apply(&self, line: &str) -> Option<String> {
        let mut found = false;
        let masked = self.regex.replace_all(line, |captures: &Captures<'_>| {
            let whole = &captures[0];
            if self.is_card && !has_check_digit(whole) {
                return whole.to_owned();
            }
            found = true;
            if !self.is_group {
                return STARS.to_owned();
            }
            let begin = captures.get(0).map_or(0, |whole| whole.start());
            captures.name(GROUP).map_or_else(
                || STARS.to_owned(),
                |secret| [&whole[..secret.start() - begin], STARS, &whole[secret.end() - begin..]].concat(),
            )
        });
        match masked {
            Cow::Owned(masked) if found => Some(masked),
            _ => None,
        }
    }
}

/// Whether the last digit is the check digit of the others (ISO/IEC 7812-1, annex B).
fn has_check_digit(text: &str) -> bool {
    let digits = text.bytes().rev().filter(u8::is_ascii_digit).map(|byte| u32::from(byte - b'0'));
    let sum: u32 =
        digits.enumerate().map(|(at, digit)| if at % 2 == 1 { digit * 2 / 10 + digit * 2 % 10 } else { digit }).sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_what_is_beside_them_stays() {
        let check = |mask: &str, line: &str, expected: &str| {
            let masked = Mask::parse(mask).unwrap().apply(line);
            assert_eq!(masked.as_deref().unwrap_or(line), expected);
            assert_eq!(masked.is_some(), line != expected);
        };
        check("email", "to a.b+c@mail.example.org: sent", "to ***: sent");
        check("card", "4111 1111 1111 1111 and 4111 1111 1111 1112", "*** and 4111 1111 1111 1112");
        check("bearer", "Authorization: Bearer abcdefgh.ijk x", "Authorization: Bearer *** x");
        check(
            "password",
            r#"{"db_password":"hunter2","a":1} token=x&b=2"#,
            r#"{"db_password":"***","a":1} token=***&b=2"#,
        );
        check("jwt", "t=eyJhbGciOi.eyJzdWIi.c2ln!", "t=***!");
        check("aws-key", "key AKIAIOSFODNN7EXAMPLE.", "key ***.");
        check("ip", "from 10.0.0.7:80", "from ***:80");
        check("/id=(?<secret>[0-9]+)/", "id=12, id=x, id=3", "id=***, id=x, id=***");
        check("/[0-9]+/", "a1b22", "a***b***");
        check("email", "nothing here", "nothing here");
    }

    #[test]
    fn names_that_are_not_known_are_refused() {
        let error = Mask::parse("emial").unwrap_err();
        assert!(error.contains("\"email\"") || error.contains("email?"), "{error}");
        assert!(Mask::parse("/(/").is_err());
    }
}
