//! The conformance scripts: their notation, a store for their data, and the rules of comparison.
//!
//! Shared by the runner (`main.rs`) and by the tests over all queries of the scripts (`../../scripts`).
//! The notation and the rules are those of promqltest, the script language of prometheus/prometheus.

pub(crate) mod classic;
pub(crate) mod compare;
pub(crate) mod hints;
pub(crate) mod notation;
pub(crate) mod points;
pub(crate) mod script;
pub(crate) mod store;
pub(crate) mod variants;

use std::path::{Path, PathBuf};

/// The directory of the scripts: `OGIVE_PROMQL_DIR`, relative to the working directory or to the workspace, or the
/// project's copy. The flag says whether it is the latter.
pub(crate) fn directory() -> (PathBuf, bool) {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match std::env::var_os("OGIVE_PROMQL_DIR") {
        None => (workspace.join("vectors/promql"), true),
        Some(given) if Path::new(&given).is_dir() => (given.into(), false),
        Some(given) => (workspace.join(given), false),
    }
}

/// The script files of a directory, by name.
///
/// # Panics
/// When the directory cannot be read or has no script: nothing would be tested.
pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable directory").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "test"));
    files.sort();
    assert!(!files.is_empty(), "{} has no *.test file", directory.display());
    files
}
