//! What a test found, as text and as JUnit XML.

use std::fmt::{self, Display, Formatter};

/// The results of a test.
#[derive(Clone, Debug, Default)]
pub struct TestReport {
    /// Name of the test, or its number from 1.
    pub name: String,
    /// Why it failed; empty when it passed.
    pub failures: Vec<Failure>,
    /// What was evaluated, one line for each step; only if requested.
    pub steps: Vec<String>,
}

/// Why a test failed.
#[derive(Clone, Debug)]
pub enum Failure {
    /// It could not be run.
    Error(String),
    /// The result differs.
    Different {
        /// What was evaluated, and when.
        what: String,
        /// The expected lines.
        expected: Vec<String>,
        /// The actual lines.
        found: Vec<String>,
    },
}

impl Display for Failure {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(text) => write!(out, "    {text}"),
            Self::Different { what, expected, found } => {
                writeln!(out, "    {what},")?;
                writeln!(out, "        exp:{}", bracketed(expected))?;
                write!(out, "        got:{}", bracketed(found))
            }
        }
    }
}

fn bracketed(lines: &[String]) -> String {
    if lines.is_empty() {
        return "[]".to_owned();
    }
    format!(
        "[\n{}\n            ]",
        lines.iter().map(|line| format!("            {line}")).collect::<Vec<_>>().join("\n")
    )
}

impl Failure {
    /// The failure with the differing lines marked: `-` was expected, `+` is the actual result.
    #[must_use]
    pub fn diff(&self) -> String {
        let Self::Different { what, expected, found } = self else { return self.to_string() };
        let mut out = format!("    {what},\n        diff (-expected +got):");
        for (mark, line) in differences(expected, found) {
            out.push_str(&format!("\n        {mark} {line}"));
        }
        out
    }
}

/// The lines of both texts in order, by their longest common subsequence. Texts of more than 2,000 lines are shown one
/// after the other.
fn differences<'t>(left: &'t [String], right: &'t [String]) -> Vec<(char, &'t str)> {
    const LINES_MAX: usize = 2000;
    let mut common =
        vec![vec![0_u32; right.len() + 1]; if left.len().max(right.len()) > LINES_MAX { 0 } else { left.len() + 1 }];
    for at in (0..common.len().saturating_sub(1)).rev() {
        for other in (0..right.len()).rev() {
            common[at][other] = if left[at] == right[other] {
                common[at + 1][other + 1] + 1
            } else {
                common[at + 1][other].max(common[at][other + 1])
            };
        }
    }
    let (mut out, mut at, mut other) = (Vec::new(), 0, 0);
    while at < left.len() && other < right.len() && !common.is_empty() {
        if left[at] == right[other] {
            out.push((' ', left[at].as_str()));
            (at, other) = (at + 1, other + 1);
        } else if common[at + 1][other] >= common[at][other + 1] {
            out.push(('-', left[at].as_str()));
            at += 1;
        } else {
            out.push(('+', right[other].as_str()));
            other += 1;
        }
    }
    out.extend(left[at..].iter().map(|line| ('-', line.as_str())));
    out.extend(right[other..].iter().map(|line| ('+', line.as_str())));
    out
}

/// Reports of files as JUnit XML: a suite a file, a case a test.
#[must_use]
pub fn junit(files: &[(String, Vec<TestReport>)]) -> String {
    let failed = |reports: &[TestReport]| reports.iter().filter(|report| !report.failures.is_empty()).count();
    let (tests, failures) = files
        .iter()
        .fold((0, 0), |(tests, failures), (_, reports)| (tests + reports.len(), failures + failed(reports)));
    let mut out =
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"{tests}\" failures=\"{failures}\">\n");
    for (file, reports) in files {
        let (count, failures) = (reports.len(), failed(reports));
        out.push_str(&format!("  <testsuite name=\"{}\" tests=\"{count}\" failures=\"{failures}\">\n", escaped(file)));
        for report in reports {
            out.push_str(&format!("    <testcase name=\"{}\">\n", escaped(&report.name)));
            for failure in &report.failures {
                out.push_str(&format!(
                    "      <failure message=\"failed\">{}</failure>\n",
                    escaped(&failure.to_string())
                ));
            }
            out.push_str("    </testcase>\n");
        }
        out.push_str("  </testsuite>\n");
    }
    out + "</testsuites>\n"
}

/// A text inside XML; characters that XML does not have become U+FFFD.
fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if u32::from(c) < 0x20 || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
        out
    })
}
