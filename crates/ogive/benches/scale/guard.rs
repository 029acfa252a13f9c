//! The bounds of a run, and the resource that ended when it reached one.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::sys::statvfs::statvfs;

/// 2 GiB stay free: a flush and a compaction in flight write before they remove.
const DISK_FREE_BYTES_MIN: u64 = 2 << 30;
/// Letters of the server's answer that are shown.
const EVIDENCE_LETTERS_MAX: usize = 300;

/// What may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// Resident memory of the server.
    Memory,
    /// What the server grants to series and samples that are in no block yet.
    IngestMemory,
    Disk,
    /// Series that the server tells apart.
    Identities,
    Time,
    /// Its process is gone, or does not start.
    Server,
    /// An answer that is none of the above.
    Refusal,
}

impl Resource {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory (RSS)",
            Self::IngestMemory => "memory for ingest (--ingest-memory-mib)",
            Self::Disk => "disk",
            Self::Identities => "identities",
            Self::Time => "CPU (time for the run)",
            Self::Server => "the server's process",
            Self::Refusal => "the server's patience",
        }
    }
}

/// A resource that ended, and the evidence.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) resource: Resource,
    pub(crate) evidence: String,
}

impl End {
    pub(crate) fn new(resource: Resource, evidence: &str) -> Self {
        Self { resource, evidence: evidence.trim().chars().take(EVIDENCE_LETTERS_MAX).collect() }
    }

    /// Of a server that does not start.
    pub(crate) fn no_start(said: &str) -> Self {
        Self::new(Resource::Server, said)
    }
}

impl fmt::Display for End {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ended: {}", self.resource.as_str(), self.evidence)
    }
}

/// What a run may take.
pub(crate) struct Guard {
    /// Resident, of the server.
    pub(crate) memory_bytes_max: u64,
    /// On the disk with the data.
    pub(crate) directory: PathBuf,
    pub(crate) until: Instant,
}

impl Guard {
    /// Looks at every resource of the process `pid`.
    pub(crate) fn check(&self, pid: u32) -> Result<(), End> {
        if Instant::now() >= self.until {
            return Err(End::new(Resource::Time, "the time that OGIVE_BENCH_MINUTES gives is over"));
        }
        let Some(held) = resident_bytes(pid) else { return Err(End::new(Resource::Server, "the process is gone")) };
        if held > self.memory_bytes_max {
            let (held, most) = (held >> 20, self.memory_bytes_max >> 20);
            return Err(End::new(Resource::Memory, &format!("{held} MiB resident, of {most} MiB that it may have")));
        }
        let free = disk_free_bytes(&self.directory);
        if free < DISK_FREE_BYTES_MIN {
            return Err(End::new(Resource::Disk, &format!("{} MiB are free", free >> 20)));
        }
        Ok(())
    }
}

/// Resident bytes of a process; `None` when it has ended.
fn resident_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// Free bytes of the disk with `directory`; all there could be when the system does not report it.
pub(crate) fn disk_free_bytes(directory: &Path) -> u64 {
    statvfs(directory).map_or(u64::MAX, |stat| stat.blocks_available().saturating_mul(stat.fragment_size()))
}
