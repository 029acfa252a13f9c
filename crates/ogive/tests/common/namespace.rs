//! What a test may not do to the machine it does in a namespace of its own: mount, and replace what the resolver asks.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Set where a test runs again.
const IS_INSIDE: &str = "OGIVE_IN_NAMESPACE";

/// Whether this process is the one that [`again`] started.
pub fn is_inside() -> bool {
    std::env::var_os(IS_INSIDE).is_some()
}

/// Runs a test again, by its path (`full_disk::a_test`), as root, with mounts of its own and these other namespaces.
pub fn again(test: &str, others: &[&str]) {
    let hint = "run it as root, or permit unprivileged user namespaces";
    assert!(!is_inside(), "in a namespace of its own {test} is not permitted what it needs: {hint}");
    // Whoever may have namespaces without being somebody else needs no user namespace.
    let may = Command::new("unshare")
        .arg("--mount")
        .args(others)
        .arg("true")
        .output()
        .is_ok_and(|tried| tried.status.success());
    let user: &[&str] = if may { &[] } else { &["--user", "--map-root-user"] };
    let output = Command::new("unshare")
        .args(user)
        .arg("--mount")
        .args(others)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(IS_INSIDE, "1")
        .output()
        .expect("unshare of util-linux runs");
    let said = String::from_utf8_lossy(&output.stdout);
    // Of a name that no test has, the harness makes a success.
    let is_run = output.status.success() && said.contains("1 passed");
    assert!(is_run, "{test} in a namespace of its own ({hint}): {said}{}", String::from_utf8_lossy(&output.stderr));
}

/// A small file system that goes with the test.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Of so many MiB, at a directory that is there; None where mounting is not permitted.
    pub fn mount(path: &Path, mib: u32) -> Option<Self> {
        let size = format!("size={mib}m");
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(path).output().ok()?;
        done.status.success().then(|| Self(path.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}
