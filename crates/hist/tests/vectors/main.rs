//! Conformance with the OpenHistogram vectors: every record of every file of a directory.
//!
//! The directory is `OGIVE_VECTORS_DIR` (relative to where the test runs or to the workspace; its `openhistogram` when
//! it has one), or the project's `vectors/openhistogram`. Passed and failed records are printed per file; the run fails
//! when a record fails, when a `*.json` file is unknown, and when nothing was tested.
//!
//! Where Ogive's written rule differs from the C library on purpose, a record is held to the rule, by an expectation
//! computed here and not by the code under test; the last column counts those. The list, with reasons, is in
//! `docs/formats/openhistogram.md`.

mod binning;
mod bytes;
mod operations;
mod statistics;
mod support;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::Value;
use support::Outcome;

/// A file's name and what checks one record of it, given the name of its list.
type Checker = fn(list: &str, record: &Value) -> Outcome;

const CHECKERS: [(&str, Checker); 8] = [
    ("adhoc.json", operations::adhoc),
    ("deserialize.json", bytes::deserialize),
    ("double_to_bin.json", binning::double_to_bin),
    ("intscale_to_bin.json", binning::intscale_to_bin),
    ("merge.json", operations::merge),
    ("serialize.json", bytes::serialize),
    ("stats.json", statistics::stats),
    ("transform.json", operations::transform),
];

/// Failures reported per file; more would hide the others.
const FAILURES_SHOWN: usize = 5;

/// Where the vectors are.
fn directory(own: Option<&Path>) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let given = own.map_or_else(|| root.join("vectors"), Path::to_path_buf);
    // Cargo runs a test in its crate's directory; a path is typed in the workspace's.
    let found = if given.is_dir() { given } else { root.join(given) };
    let inner = found.join("openhistogram");
    if inner.is_dir() { inner } else { found }
}

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--list") {
        println!("vectors: test");
        return ExitCode::SUCCESS;
    }
    let own = std::env::var_os("OGIVE_VECTORS_DIR");
    let directory = directory(own.as_deref().map(Path::new));
    println!("vectors in {}", directory.display());
    let files = json_files(&directory);
    let (mut passed, mut failed, mut by_rule) = (0, 0, 0);
    for path in &files {
        let tally = check_file(path);
        passed += tally.passed;
        failed += tally.failed;
        by_rule += tally.by_rule;
    }
    if own.is_none() {
        for (name, _) in CHECKERS {
            if !files.iter().any(|path| path.ends_with(name)) {
                println!("{name}: missing from the project's copy");
                failed += 1;
            }
        }
    }
    println!(
        "total: {passed} passed, {failed} failed ({by_rule} of the passed by Ogive's rule where the library differs)"
    );
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Every `*.json` file of a directory, sorted.
fn json_files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a directory entry is readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    files
}

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    by_rule: usize,
}

/// Checks all records of a file and prints what came of it.
fn check_file(path: &Path) -> Tally {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("").to_owned();
    let mut tally = Tally::default();
    let Some((_, checker)) = CHECKERS.iter().find(|(known, _)| *known == name) else {
        println!("{name}: no test knows this file");
        tally.failed = 1;
        return tally;
    };
    let document = match std::fs::read_to_string(path)
        .map_err(|error| error.to_string())
        .and_then(|text| serde_json::from_str::<Value>(&text).map_err(|error| error.to_string()))
    {
        Ok(document) => document,
        Err(error) => {
            println!("{name}: {error}");
            tally.failed = 1;
            return tally;
        }
    };
    if document["format"] != "ogive-openhistogram-vectors/1" {
        println!("{name}: format {} is not known", document["format"]);
        tally.failed = 1;
        return tally;
    }
    let lists = document.as_object().expect("a vectors file is an object").iter();
    for (list, records) in lists.filter(|(list, _)| list.starts_with("records")) {
        for (at, record) in records.as_array().expect("records are a list").iter().enumerate() {
            let outcome =
                std::panic::catch_unwind(|| checker(list, record)).unwrap_or_else(|_| Err("panicked".to_owned()));
            match outcome {
                Ok(by_rule) => {
                    tally.passed += 1;
                    tally.by_rule += usize::from(by_rule);
                }
                Err(why) => {
                    tally.failed += 1;
                    if tally.failed <= FAILURES_SHOWN {
                        println!("{name}: {list}[{at}]: {why}");
                    }
                }
            }
        }
    }
    if tally.passed + tally.failed == 0 {
        println!("{name}: holds no records");
        tally.failed = 1;
    }
    println!("{name}: {} passed, {} failed ({} by rule)", tally.passed, tally.failed, tally.by_rule);
    tally
}
