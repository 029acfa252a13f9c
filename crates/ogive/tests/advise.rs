//! `ogive kernel advise` as a user runs it, on a cgroup that is at the end of its quota.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// A cgroup with a tenth of a CPU, and something that wants a whole one in it; both are gone when dropped.
struct Throttled {
    directory: PathBuf,
    child: Child,
}

impl Throttled {
    /// `None` where this machine lets nobody make one.
    fn start() -> Option<Self> {
        let name = format!("ogive-advise-{}", std::process::id());
        let unified = PathBuf::from("/sys/fs/cgroup/cgroup.controllers").exists();
        let root = if unified { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/cpu" };
        let directory = PathBuf::from(root).join(name);
        std::fs::create_dir(&directory).ok()?;
        let limit = if unified { ("cpu.max", "10000 100000") } else { ("cpu.cfs_quota_us", "10000") };
        // Whatever else the machine runs: who gets less than the quota is not throttled.
        let weight = if unified { ("cpu.weight", "10000") } else { ("cpu.shares", "262144") };
        if [limit, weight].iter().any(|(name, value)| std::fs::write(directory.join(name), value).is_err()) {
            let _ = std::fs::remove_dir(&directory);
            return None;
        }
        let child = Command::new("sh").args(["-c", "while :; do :; done"]).stdout(Stdio::null()).spawn().unwrap();
        std::fs::write(directory.join("cgroup.procs"), child.id().to_string()).unwrap();
        Some(Self { directory, child })
    }
}

impl Drop for Throttled {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir(&self.directory);
    }
}

fn advise(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_ogive")).args(["kernel", "advise"]).args(arguments).output().unwrap()
}

#[test]
fn a_process_that_is_throttled_is_advised_a_larger_quota() {
    let Some(throttled) = Throttled::start() else {
        eprintln!("SKIPPED: quotas: this machine lets this user make no cgroup");
        return;
    };
    let pid = throttled.child.id().to_string();
    let name = throttled.directory.display().to_string();
    for arguments in [vec!["--json", "--seconds", "2", "-p", pid.as_str()], vec!["--json", "--seconds", "2"]] {
        let output = advise(&arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let all = found["advice"].as_array().unwrap();
        let is_own = |one: &&Value| one["topic"] == "quota" && one["seen"].as_str().unwrap().contains(&name);
        let quota = all.iter().find(is_own).unwrap_or_else(|| panic!("{found:#}"));
        let change = quota["change"][0].as_str().unwrap();
        assert!(change.starts_with("echo ") && change.contains(&name), "{change}");
        // What it says is what can be done: the limit is twice the old one.
        let status = Command::new("sh").args(["-c", change]).status().unwrap();
        assert!(status.success(), "{change}");
    }
}

#[test]
fn text_ends_with_what_was_not_seen_and_nobody_is_no_process() {
    let output = advise(&["--seconds", "1"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && !text.is_empty(), "{text}");
    let is_form = |line: &str| line.contains(": ") || line.starts_with("  ") || line.starts_with("nothing that costs");
    assert!(text.lines().all(is_form), "{text}");
    let output = advise(&["-p", "4194305", "--seconds", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no process 4194305"));
}
