//! What the tests on this machine's kernel share.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ogive_kernel::doctor;

/// Says that something is not tested here, also where the output of tests that pass is not shown.
pub(crate) fn skip(what: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}");
}

/// Whether all of `families` work, with those of user space tried on `library`. Without these nothing here can run: a
/// line, and the test is skipped.
pub(crate) fn all_work(library: Option<&Path>, families: &[&str]) -> bool {
    let mut refused = doctor::examine(library).into_iter().filter(|verdict| !verdict.works);
    match refused.find(|verdict| families.contains(&verdict.family.name)) {
        Some(verdict) => {
            skip(format_args!("{}: {}", verdict.family.name, verdict.reason));
            false
        }
        None => true,
    }
}

/// Compiles `source`, a file of `tests`, as a program whose name begins with `name`.
pub(crate) fn compiled(source: &str, name: &str, options: &[&str]) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}{}", std::process::id()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source);
    let status = Command::new("cc").args(options).arg("-o").arg(&program).arg(source).status();
    assert!(status.expect("cc is needed: apt-get install build-essential").success());
    program
}
