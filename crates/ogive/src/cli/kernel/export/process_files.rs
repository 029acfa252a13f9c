//! Files of `/proc` that say what a process is called and where it belongs.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::cli::config_file;

/// The text of a file; None for a process that has ended.
pub(super) fn text(path: &str) -> Option<String> {
    config_file::text(Path::new(path)).ok()
}

/// The number of a process' cgroup.
pub(super) fn cgroup(pid: u32) -> Option<u64> {
    let text = text(&format!("/proc/{pid}/cgroup"))?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    Path::new(&format!("/sys/fs/cgroup{path}")).metadata().ok().map(|found| found.ino())
}

/// The name of a process.
pub(super) fn comm(pid: u32) -> Option<String> {
    text(&format!("/proc/{pid}/comm")).map(|comm| comm.trim_end_matches('\n').to_owned())
}
