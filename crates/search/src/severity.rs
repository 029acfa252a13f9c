//! How serious a line is, as its series or the line itself says.

use std::ops::ControlFlow;

use ogive_model::Labels;

use crate::fields::each_field;

/// How serious a line is, from the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Finest detail.
    Trace,
    /// For finding faults.
    Debug,
    /// Normal operation; also syslog's notice.
    Info,
    /// Something may become wrong.
    Warn,
    /// Something is wrong.
    Error,
    /// The program or the host cannot go on.
    Fatal,
}

/// Labels and fields that contain it.
const NAMES: [&str; 6] = ["severity", "level", "severity_text", "lvl", "loglevel", "log.level"];

/// 160 bytes: if a plain line contains a word for it, it is near the beginning.
const HEAD_BYTES: usize = 160;

impl Severity {
    /// Every one, from the least.
    pub const ALL: [Self; 6] = [Self::Trace, Self::Debug, Self::Info, Self::Warn, Self::Error, Self::Fatal];

    /// Its name in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Fatal => "fatal",
        }
    }

    /// The severity with this name, as programs and syslog use it.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let is = |names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name));
        let of = |names: &[&str], severity| is(names).then_some(severity);
        of(&["info", "information", "informational", "notice"], Self::Info)
            .or_else(|| of(&["error", "err", "severe"], Self::Error))
            .or_else(|| of(&["warn", "warning"], Self::Warn))
            .or_else(|| of(&["debug", "fine"], Self::Debug))
            .or_else(|| of(&["trace", "verbose", "finest"], Self::Trace))
            .or_else(|| of(&["fatal", "critical", "crit", "panic", "alert", "emerg", "emergency"], Self::Fatal))
    }

    /// The severity of a line: from a label, else from a field, else from a word near its beginning in capitals or in
    /// brackets.
    #[must_use]
    pub fn from_line(labels: &Labels, line: &str) -> Option<Self> {
        let label = NAMES.iter().find_map(|name| Self::parse(labels.get(name)));
        label.or_else(|| Self::from_fields(line)).or_else(|| Self::from_words(line))
    }

    fn from_fields(line: &str) -> Option<Self> {
        let mut found = None;
        each_field(line, &mut |name, value| {
            let is_named = NAMES.iter().any(|known| name.eq_ignore_ascii_case(known));
            found = is_named.then(|| Self::parse(value)).flatten();
            if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        found
    }

    fn from_words(line: &str) -> Option<Self> {
        if line.trim_start().starts_with('{') {
            return None;
        }
        let head = &line[..line.floor_char_boundary(HEAD_BYTES)];
        let mut words = head.split(|c: char| c.is_whitespace() || matches!(c, ':' | '|' | ','));
        words.find_map(|word| {
            let inner = word.trim_matches(['[', ']', '<', '>', '(', ')']);
            let is_marked =
                inner.len() > 2 && (inner.len() < word.len() || inner.bytes().all(|b| b.is_ascii_uppercase()));
            if is_marked { Self::parse(inner) } else { None }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_comes_before_a_field_before_a_word() {
        let check = |labels: &[(&str, &str)], line: &str, expected: Option<Severity>| {
            let labels = Labels::new(labels.iter().copied()).unwrap();
            assert_eq!(Severity::from_line(&labels, line), expected, "{line}");
        };
        check(&[("severity", "WARN")], "level=error", Some(Severity::Warn));
        check(&[("job", "x")], "t=1 level=err msg=\"x\"", Some(Severity::Error));
        check(&[], r#"{"Level":"Information"}"#, Some(Severity::Info));
        check(&[], r#"{"body":"ERROR"}"#, None);
        check(&[], "2026-01-02 03:04:05 ERROR it broke", Some(Severity::Error));
        check(&[], "2026/01/02 [warn] 12#0: it may break", Some(Severity::Warn));
        check(&[], "the error is that nothing is marked", None);
        check(&[], "<crit>: out of memory", Some(Severity::Fatal));
        check(&[], "", None);
        check(&[], &format!("{} ERROR", "ä".repeat(100)), None);
    }

    #[test]
    fn names_are_read_back() {
        for severity in Severity::ALL {
            assert_eq!(Severity::parse(severity.name()), Some(severity));
        }
        assert_eq!(Severity::parse("nothing"), None);
    }
}
