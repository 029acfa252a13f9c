//! YAML as rule files are written: the first document, every scalar as its text, unknown keys refused.

use serde::de::DeserializeOwned;
use serde_saphyr::{Error, Options};

/// A mistake in a file, and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct FileError {
    /// From 1; 0 when it is not known.
    pub line: u64,
    /// From 1; 0 when it is not known.
    pub column: u64,
    /// What is wrong, as a sentence without a full stop.
    pub message: String,
}

/// The first document of `text`.
///
/// # Errors
/// Where and why it is not a `T`.
pub(crate) fn first_document<T: DeserializeOwned + Default>(text: &str) -> Result<T, FileError> {
    let text = first(text);
    if text.lines().all(|line| is_empty(line) || line.starts_with("---")) {
        return Ok(T::default());
    }
    let mut text = std::borrow::Cow::Borrowed(text);
    for _ in 0..SHALLOW_LINES_MAX {
        let mut options = Options::default();
        options.with_snippet = false;
        let error = match serde_saphyr::from_str_with_options(&text, options) {
            Ok(document) => return Ok(document),
            Err(error) => explained(&error),
        };
        if !error.message.contains(SHALLOW) {
            return Err(error);
        }
        text = deeper(&text, error.line).into();
    }
    Err(FileError {
        line: 0,
        column: 0,
        message: format!("more than {SHALLOW_LINES_MAX} lines of quoted texts have a bad indentation"),
    })
}

/// The parser's error for a quoted text whose next line is not indented deeper than its key. Go's parser accepts such
/// lines, and public files have them.
const SHALLOW: &str = "invalid indentation in multiline quoted scalar";

/// Each costs parsing the file up to it.
const SHALLOW_LINES_MAX: usize = 500;

/// The text with one line moved to the right: blanks at the start of a line of a quoted text are not part of its value.
fn deeper(text: &str, line: u64) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    for (number, one) in (1..).zip(text.split_inclusive('\n')) {
        if number == line {
            out.push_str(&" ".repeat(64));
        }
        out.push_str(one);
    }
    out
}

/// The text up to the marker that ends its first document.
fn first(text: &str) -> &str {
    let (mut content, mut at) = (false, 0);
    for line in text.split_inclusive('\n') {
        let marker = line.starts_with("---") && line[3..].starts_with([' ', '\n', '\r', '\t']) || line == "---";
        if content && (marker || line.trim_end() == "...") {
            return &text[..at];
        }
        content |= !marker && !is_empty(line);
        at += line.len();
    }
    text
}

fn is_empty(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

fn explained(error: &Error) -> FileError {
    let error = error.without_snippet();
    let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
    let message = match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            format!("unknown key {field}; known here are {}", expected.join(", "))
        }
        Error::SerdeMissingField { field, .. } => format!("the key {field} is missing"),
        Error::Message { msg, .. } => msg.clone(),
        other => other.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    };
    FileError { line, column, message }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{first, first_document};

    #[test]
    fn a_quoted_text_may_go_on_at_the_depth_of_its_key() {
        let text = "a:\n  b: \"x{\n  y,\n  z\n  }\"\n  c: d\n";
        let read: BTreeMap<String, BTreeMap<String, String>> = first_document(text).unwrap();
        assert_eq!((read["a"]["b"].as_str(), read["a"]["c"].as_str()), ("x{ y, z }", "d"));
        assert!(first_document::<BTreeMap<String, String>>("a: \"x\n b").is_err());
    }

    #[test]
    fn only_the_first_document_counts() {
        assert_eq!(first("# a\n---\nx: 1\n---\ny: 2\n"), "# a\n---\nx: 1\n");
        assert_eq!(first("x: 1\n...\ny"), "x: 1\n");
        assert_eq!(first("x: |\n  ---\n"), "x: |\n  ---\n");
    }
}
