//! Grok: expressions that name others, `%{PATTERN}`, `%{PATTERN:field}` and `%{PATTERN:field:type}` (the type is not
//! needed here).
//!
//! The patterns have the names that grok's users know and are written for a linear engine: none looks ahead or behind.
//! Limits: [`DEPTH_MAX`] patterns inside each other, [`EXPRESSION_BYTES_MAX`] of what comes of it.

use std::collections::BTreeMap;

use super::expression::EXPRESSION_BYTES_MAX;

/// The prefix of group names that represent a field; a number follows.
pub(super) const GROUP: &str = "ogive_field_";

/// 16 levels: grok's own deepest pattern has six.
const DEPTH_MAX: usize = 16;

/// Patterns by name.
const PATTERNS: &[(&str, &str)] = &[
    ("WORD", r"\b\w+\b"),
    ("NOTSPACE", r"\S+"),
    ("SPACE", r"\s*"),
    ("DATA", r".*?"),
    ("GREEDYDATA", r".*"),
    ("INT", r"[+-]?[0-9]+"),
    ("POSINT", r"\b[1-9][0-9]*\b"),
    ("NONNEGINT", r"\b[0-9]+\b"),
    ("NUMBER", r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"),
    ("BASE10NUM", r"%{NUMBER}"),
    ("BASE16NUM", r"(?:0[xX])?[0-9a-fA-F]+"),
    ("QUOTEDSTRING", r#"(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"#),
    ("QS", r"%{QUOTEDSTRING}"),
    ("UUID", r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"),
    ("MAC", r"(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}"),
    ("IPV4", r"\b(?:(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\b"),
    ("IPV6", r"(?:[0-9A-Fa-f]{0,4}:){2,7}(?:%{IPV4}|[0-9A-Fa-f]{0,4})(?:%[0-9A-Za-z]+)?"),
    ("IP", r"(?:%{IPV6}|%{IPV4})"),
    ("HOSTNAME", r"\b[0-9A-Za-z][0-9A-Za-z_-]{0,62}(?:\.[0-9A-Za-z][0-9A-Za-z_-]{0,62})*\.?"),
    ("IPORHOST", r"(?:%{IP}|%{HOSTNAME})"),
    ("HOSTPORT", r"%{IPORHOST}:%{POSINT}"),
    ("USERNAME", r"[a-zA-Z0-9._-]+"),
    ("USER", r"%{USERNAME}"),
    ("EMAILADDRESS", r"[a-zA-Z0-9!#$%&'*+/=?^_`{|}~.-]+@%{HOSTNAME}"),
    ("PATH", r"(?:/[^\s/]*)+"),
    ("UNIXPATH", r"%{PATH}"),
    ("URIPROTO", r"[A-Za-z][A-Za-z0-9+.-]*"),
    ("URIHOST", r"%{IPORHOST}(?::[0-9]+)?"),
    ("URIPATH", r"(?:/[A-Za-z0-9$.+!*'(){},~:;=@#%&_\-|]*)+"),
    ("URIPARAM", r"\?[^\s#]*"),
    ("URIPATHPARAM", r"%{URIPATH}(?:%{URIPARAM})?"),
    ("URI", r"%{URIPROTO}://(?:[^\s@/]+@)?%{URIHOST}(?:%{URIPATHPARAM})?"),
    ("MONTH", r"\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\b"),
    ("MONTHNUM", r"(?:0?[1-9]|1[0-2])"),
    ("MONTHDAY", r"(?:0[1-9]|[12][0-9]|3[01]|[1-9])"),
    ("DAY", r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*\b"),
    ("YEAR", r"[0-9]{4}"),
    ("HOUR", r"(?:2[0-3]|[01]?[0-9])"),
    ("MINUTE", r"[0-5][0-9]"),
    ("SECOND", r"(?:[0-5]?[0-9]|60)(?:[:.,][0-9]+)?"),
    ("TIME", r"%{HOUR}:%{MINUTE}:%{SECOND}"),
    ("ISO8601_TIMEZONE", r"(?:Z|[+-]%{HOUR}:?%{MINUTE})"),
    (
        "TIMESTAMP_ISO8601",
        r"%{YEAR}-%{MONTHNUM}-%{MONTHDAY}[T ]%{HOUR}:?%{MINUTE}(?::?%{SECOND})?(?: ?%{ISO8601_TIMEZONE})?",
    ),
    ("HTTPDATE", r"%{MONTHDAY}/%{MONTH}/%{YEAR}:%{TIME} %{INT}"),
    ("SYSLOGTIMESTAMP", r"%{MONTH} +%{MONTHDAY} %{TIME}"),
    ("TZ", r"[A-Z]{3,4}"),
    (
        "LOGLEVEL",
        r"(?i:trace|debug|info|information|notice|warn|warning|err|error|crit|critical|severe|fatal|alert|emerg|emergency|panic)",
    ),
    ("PROG", r"[!-Z\\^-~]+"),
    ("SYSLOGPROG", r"%{PROG:program}(?:\[%{POSINT:pid}\])?"),
    ("SYSLOGHOST", r"%{IPORHOST}"),
    ("HTTPDUSER", r"(?:%{EMAILADDRESS}|%{USER})"),
    (
        "COMMONAPACHELOG",
        r#"%{IPORHOST:clientip} %{HTTPDUSER:ident} %{HTTPDUSER:auth} \[%{HTTPDATE:timestamp}\] "(?:%{WORD:verb} %{NOTSPACE:request}(?: HTTP/%{NUMBER:httpversion})?|%{DATA:rawrequest})" %{NUMBER:response} (?:%{NUMBER:bytes}|-)"#,
    ),
    ("COMBINEDAPACHELOG", r"%{COMMONAPACHELOG} %{QS:referrer} %{QS:agent}"),
];

/// The expression of a pattern, and the names of the fields whose groups are [`GROUP`] and their number.
pub(super) fn expand(pattern: &str, own: &BTreeMap<String, String>) -> Result<(String, Vec<String>), String> {
    let mut out = Expansion { own, text: String::new(), fields: Vec::new() };
    out.put(pattern, 0)?;
    Ok((out.text, out.fields))
}

struct Expansion<'p> {
    own: &'p BTreeMap<String, String>,
    text: String,
    fields: Vec<String>,
}

impl Expansion<'_> {
    fn put(&mut self, pattern: &str, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("patterns stand in patterns deeper than {DEPTH_MAX}: does one name itself?"));
        }
        let mut rest = pattern;
        while let Some(at) = rest.find("%{") {
            self.text.push_str(&rest[..at]);
            let (inner, after) = rest[at + 2..].split_once('}').ok_or("%{ has no }")?;
            self.named(inner, depth)?;
            rest = after;
        }
        self.text.push_str(rest);
        match self.text.len() > EXPRESSION_BYTES_MAX {
            true => Err(format!("an expression has {EXPRESSION_BYTES_MAX} bytes at most, with its patterns put in")),
            false => Ok(()),
        }
    }

    /// `PATTERN`, `PATTERN:field` or `PATTERN:field:type`.
    fn named(&mut self, inner: &str, depth: usize) -> Result<(), String> {
        let mut parts = inner.splitn(3, ':');
        let name = parts.next().unwrap_or("");
        let shipped = || PATTERNS.iter().find(|(known, _)| *known == name).map(|(_, pattern)| (*pattern).to_owned());
        let pattern = self.own.get(name).cloned().or_else(shipped).ok_or_else(|| {
            let known = self.own.keys().map(String::as_str).chain(PATTERNS.iter().map(|(name, _)| *name));
            format!("%{{{name}}} is not known{}", ogive_text::near::suggestion(known, name))
        })?;
        match parts.next().filter(|field| !field.is_empty()) {
            Some(field) => {
                self.text.push_str(&format!("(?P<{GROUP}{}>", self.fields.len()));
                self.fields.push(field.to_owned());
            }
            None => self.text.push_str("(?:"),
        }
        self.put(&pattern, depth + 1)?;
        self.text.push(')');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles_and_fits_what_it_is_named_after() {
        let examples = [
            ("IP", "2001:db8::1"),
            ("IP", "10.0.0.255"),
            ("UUID", "8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e"),
            ("NUMBER", "-1.5e3"),
            ("QS", r#""a \" b""#),
            ("HOSTPORT", "db-1.example.com:5432"),
            ("URI", "https://user@host:80/a/b?c=d"),
            ("TIMESTAMP_ISO8601", "2026-11-24T02:03:04.567+01:00"),
            ("TIMESTAMP_ISO8601", "2026-11-24 02:03:04,567"),
            ("HTTPDATE", "24/Nov/2026:02:03:04 +0000"),
            ("SYSLOGTIMESTAMP", "Nov  4 02:03:04"),
            ("LOGLEVEL", "WARNING"),
            ("SYSLOGPROG", "sshd[12]"),
            ("COMBINEDAPACHELOG", r#"10.0.0.7 - - [24/Nov/2026:02:03:04 +0000] "GET / HTTP/1.1" 200 5 "-" "curl/8""#),
        ];
        for (name, _) in PATTERNS {
            let (expression, _) = expand(&format!("^%{{{name}}}$"), &BTreeMap::new()).unwrap();
            let compiled =
                super::super::expression::compile(&expression).unwrap_or_else(|error| panic!("{name}: {error}"));
            for (_, text) in examples.iter().filter(|(of, _)| of == name) {
                assert!(compiled.is_match(text), "{name} does not fit {text}");
            }
        }
    }

    #[test]
    fn patterns_that_name_themselves_and_bombs_are_refused() {
        let own = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, pattern)| ((*name).to_owned(), (*pattern).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let error = expand("%{A}", &own(&[("A", "x%{B}"), ("B", "%{A}")])).unwrap_err();
        assert!(error.contains("name itself"), "{error}");
        let bomb: Vec<(String, String)> =
            (0..10).map(|at| (format!("L{at}"), format!("%{{L{}}}", at + 1).repeat(10))).collect();
        let mut bomb: BTreeMap<_, _> = bomb.into_iter().collect();
        bomb.insert("L10".into(), "x".into());
        assert!(expand("%{L0}", &bomb).unwrap_err().contains("at most"));
        assert!(expand("%{WROD}", &BTreeMap::new()).unwrap_err().contains("WORD"));
        assert!(expand("%{WORD", &BTreeMap::new()).unwrap_err().contains("no }"));
    }
}
