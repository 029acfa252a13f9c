//! A file of rules that name operations, where the templates of URLs are not what is wanted.
//!
//! A line is a method, a pattern and, if it is to have one, a name: `GET /users/*/orders/** orders of a user`. `*`
//! stands for any method or any one segment, `**` at the end for all further ones, and what a segment's `*` stands
//! beside must fit (`v*`). Without a name the pattern is the name. The first line that fits decides. Empty lines and
//! lines that begin with `#` say nothing.

/// Lines of a file; each exchange is compared with them in turn.
const RULES_MAX: usize = 1_000;

/// Bytes of a line.
const LINE_MAX: usize = 1_024;

/// An error in a file of rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct RuleError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: &'static str,
}

/// Rules in the order of their file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    /// Empty for any.
    method: String,
    segments: Vec<String>,
    /// All further segments fit.
    is_open: bool,
    name: String,
}

impl Rules {
    /// Parses a file's text.
    ///
    /// # Errors
    /// The first line that is not a rule, is too long, or exceeds the limit.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let mut rules = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line_text = line.trim();
            if line_text.is_empty() || line_text.starts_with('#') {
                continue;
            }
            let rule = Rule::parse(line_text).map_err(|what| RuleError { line: index + 1, what })?;
            if rules.len() == RULES_MAX {
                return Err(RuleError { line: index + 1, what: "more than 1,000 rules" });
            }
            rules.push(rule);
        }
        Ok(Self { rules })
    }

    /// The name of a request with this method and target, if a rule matches.
    #[must_use]
    pub fn name(&self, method: &str, target: &str) -> Option<&str> {
        let path = target.split(['?', '#']).next().unwrap_or_default();
        self.rules.iter().find(|rule| rule.fits(method, path)).map(|rule| rule.name.as_str())
    }
}

impl Rule {
    fn parse(line: &str) -> Result<Self, &'static str> {
        if line.len() > LINE_MAX {
            return Err("longer than 1,024 bytes");
        }
        let mut words = line.splitn(3, char::is_whitespace).map(str::trim);
        let (Some(method), Some(pattern)) = (words.next(), words.next()) else {
            return Err("write it as METHOD PATTERN NAME, such as: GET /users/*/orders orders of a user");
        };
        let Some(path) = pattern.strip_prefix('/') else { return Err("a pattern begins with /") };
        let mut segments: Vec<String> = path.split('/').map(str::to_owned).collect();
        let is_open = segments.last().is_some_and(|segment| segment == "**");
        if is_open {
            segments.pop();
        }
        if segments.iter().any(|segment| segment.contains("**")) {
            return Err("** stands at the end only");
        }
        if segments.iter().any(|segment| segment.matches('*').count() > 1) {
            return Err("a segment has one * at most");
        }
        let name = match words.next().filter(|name| !name.is_empty()) {
            Some(name) => name.to_owned(),
            None => format!("{method} {pattern}"),
        };
        let method = if method == "*" { String::new() } else { method.to_ascii_uppercase() };
        Ok(Self { method, segments, is_open, name })
    }

    fn fits(&self, method: &str, path: &str) -> bool {
        let Some(path) = path.strip_prefix('/') else { return false };
        if !self.method.is_empty() && self.method != method {
            return false;
        }
        let mut actual = path.split('/');
        for segment in &self.segments {
            if !actual.next().is_some_and(|actual| segment_fits(segment, actual)) {
                return false;
            }
        }
        self.is_open || actual.next().is_none()
    }
}

fn segment_fits(pattern: &str, segment: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == segment,
        Some((before, after)) => {
            segment.len() >= before.len() + after.len() && segment.starts_with(before) && segment.ends_with(after)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_names_the_request() {
        let rules = Rules::parse(
            "# ours\n\nget /users/*/orders/** orders of a user\n* /static/**\nGET /v*/x.js scripts\n* / home\nPOST /a/*\n",
        )
        .unwrap();
        for (method, target, name) in [
            ("GET", "/users/7/orders", Some("orders of a user")),
            ("GET", "/users/7/orders/9/items?x=/", Some("orders of a user")),
            ("POST", "/users/7/orders", None),
            ("PUT", "/static/", Some("* /static/**")),
            ("GET", "/v12/x.js", Some("scripts")),
            ("GET", "/v12/y.js", None),
            ("GET", "/?q=1", Some("home")),
            ("POST", "/a/b", Some("POST /a/*")),
            ("POST", "/a/b/c", None),
            ("GET", "*", None),
        ] {
            assert_eq!(rules.name(method, target), name, "{method} {target}");
        }
    }

    #[test]
    fn what_is_no_rule_is_named_with_its_line() {
        for (text, line) in [
            ("GET", 1),
            ("\nGET users", 2),
            ("GET /a/**/b", 1),
            ("GET /a*b*c", 1),
            (&format!("GET /{}", "x".repeat(2_000)), 1),
            (&"GET /a\n".repeat(1_001), 1_001),
        ] {
            assert_eq!(Rules::parse(text).unwrap_err().line, line, "{}", &text[..text.len().min(30)]);
        }
    }
}
