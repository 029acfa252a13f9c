//! Findings: stored bytes that differ from what was written.

use std::path::PathBuf;

/// Bytes that are not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, of the copy that is bad.
    pub path: PathBuf,
    /// Which part of it.
    pub section: String,
    /// Where the part begins.
    pub offset: u64,
    /// Where it ends.
    pub end: u64,
    /// What is wrong.
    pub problem: String,
    /// Whether it is good again.
    pub healed: bool,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, section, offset, end, problem, healed } = self;
        let word = if *healed { "healed" } else { "not healed" };
        write!(out, "{}: {section}, bytes {offset}..{end}: {problem} ({word})", path.display())
    }
}
