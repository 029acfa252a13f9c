//! The conformance runner: `cargo test -p ogive-query --test promql`.
//!
//! Prints `FILE: N passed, M failed` for each script and a total. A case is one `eval`. The directory comes from
//! `OGIVE_PROMQL_DIR`; without it, it is the project's copy, and a file that passes fewer cases than `floors.txt`
//! says fails the run. A script that cannot be read always does. `OGIVE_PROMQL_VERBOSE=1` prints every failing case,
//! `OGIVE_PROMQL_PLAIN=1` asks each case only as it is written, `OGIVE_PROMQL_FILE=PREFIX` chooses files.

mod run;
mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use run::Outcome;

fn main() -> ExitCode {
    let (directory, own) = support::directory();
    let floors = if own { floors(&directory.join("floors.txt")) } else { BTreeMap::new() };
    let switch = |name| std::env::var_os(name).is_some_and(|value| value == "1");
    let (verbose, plain) = (switch("OGIVE_PROMQL_VERBOSE"), switch("OGIVE_PROMQL_PLAIN"));
    if !verbose {
        // A panic inside the engine is counted as a failed case; its trace would hide the table.
        std::panic::set_hook(Box::new(|_| {}));
    }
    let (mut passed, mut failed, mut good) = (0, 0, true);
    let mut files = support::files(&directory);
    if let Ok(only) = std::env::var("OGIVE_PROMQL_FILE") {
        files.retain(|path| name(path).starts_with(&only));
    }
    for path in files {
        match run::file(&path, plain) {
            Ok(outcome) => {
                good &= report(&path, &outcome, floors.get(&name(&path)).copied().unwrap_or(0), verbose);
                passed += outcome.passed;
                failed += outcome.failures.len();
            }
            Err(error) => {
                println!("{}: unreadable: {error}", name(&path));
                good = false;
            }
        }
    }
    println!("total: {passed} passed, {failed} failed");
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Prints one file's line; false when it is below its floor.
fn report(path: &Path, outcome: &Outcome, floor: usize, verbose: bool) -> bool {
    if verbose {
        for failure in &outcome.failures {
            println!("{}:{}: {}\n    {}", name(path), failure.line, failure.query, failure.reason);
        }
    }
    println!("{}: {} passed, {} failed", name(path), outcome.passed, outcome.failures.len());
    if outcome.passed < floor {
        println!("{}: below its floor of {floor}", name(path));
    }
    outcome.passed >= floor
}

/// `FILE COUNT` a line.
fn floors(path: &Path) -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let line = |line: &str| {
        let (name, count) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?} is not FILE COUNT"));
        (name.to_owned(), count.trim().parse().unwrap_or_else(|error| panic!("{line:?}: {error}")))
    };
    text.lines().filter(|text| !text.is_empty() && !text.starts_with('#')).map(line).collect()
}
