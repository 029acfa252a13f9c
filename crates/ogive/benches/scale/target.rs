//! The server under test: its process, its data, and what it has used.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::time::ClockId;
use nix::unistd::Pid;

use crate::common::Server;
use crate::process::{cpu_seconds, memory};

/// A query ends by itself before its client loses patience; nothing is scrubbed beside the work.
const FLAGS: &[&str] = &["--listen", "127.0.0.1:0", "--query-timeout-s", "100", "--scrub-rate", "0"];
/// What Ogive keeps free for a full disk: 16 MiB that hold no data.
const RESERVE_FILE: &str = "RESERVE";
/// Until a server that has just started has its first measurements behind it.
const CALM: Duration = Duration::from_secs(1);
/// For how long its idle share of a processor is looked at.
const IDLE: Duration = Duration::from_secs(3);
/// It has settled when it takes less than this beyond its idle share, twice in a row.
const SETTLED_SHARE: f64 = 0.05;
const SETTLED_LOOK: Duration = Duration::from_secs(2);
/// An end in order writes what is in memory.
const STOP_MAX: Duration = Duration::from_secs(1_800);
/// A start after a kill reads the journal: some two minutes with 10,000,000 series.
const READY_MAX: Duration = Duration::from_secs(1_800);
const POLL: Duration = Duration::from_millis(10);

/// A reading of the process' CPU clock.
pub(crate) struct Meter {
    cpu_s: f64,
    from: Instant,
}

impl Meter {
    /// Of the wall clock since the reading.
    pub(crate) fn seconds(&self) -> f64 {
        self.from.elapsed().as_secs_f64()
    }
}

/// A server and its data, both gone when dropped.
pub(crate) struct Target {
    pub(crate) server: Server,
    /// The share of a processor that it takes when nobody asks.
    idle: f64,
    /// Anonymous memory of the empty server, bytes.
    pub(crate) memory_empty: f64,
    directory: tempfile::TempDir,
}

impl Target {
    /// Starts a server on an empty directory below `parent`, and looks at it while it is idle.
    pub(crate) fn start(parent: &Path, flags: &[&str]) -> Result<Self, String> {
        let directory = tempfile::tempdir_in(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
        let server = started(&directory.path().join("data"), flags)?;
        std::thread::sleep(CALM);
        let mut target = Self { server, idle: 0.0, memory_empty: 0.0, directory };
        let meter = target.meter();
        std::thread::sleep(IDLE);
        target.idle = target.used(&meter) / meter.seconds();
        target.memory_empty = memory(&target.server);
        Ok(target)
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(crate) fn kill(&mut self) {
        self.server.kill();
    }

    /// Ends the server as an operator would; how many seconds that took.
    pub(crate) fn stop(&mut self) -> f64 {
        let from = Instant::now();
        self.server.signal("TERM");
        while !has_ended(self.server.pid()) && from.elapsed() < STOP_MAX {
            std::thread::sleep(POLL);
        }
        self.server.wait();
        from.elapsed().as_secs_f64()
    }

    /// Starts again on the same data, and waits until it is ready; a meter of the process' whole life.
    pub(crate) fn start_again(&mut self, flags: &[&str]) -> Result<Meter, String> {
        let from = Instant::now();
        self.server = started(&self.data(), flags)?;
        Ok(Meter { cpu_s: 0.0, from })
    }

    /// Processor seconds of the process so far. The clock counts nanoseconds, /proc steps of 10 ms.
    fn cpu_s(&self) -> f64 {
        let pid = i32::try_from(self.server.pid()).ok().map(Pid::from_raw);
        let time = pid.and_then(|pid| ClockId::pid_cpu_clock_id(pid).ok()?.now().ok());
        time.map_or_else(|| cpu_seconds(&self.server), |time| Duration::from(time).as_secs_f64())
    }

    pub(crate) fn meter(&self) -> Meter {
        Meter { cpu_s: self.cpu_s(), from: Instant::now() }
    }

    /// Processor seconds since `meter`, less what the server takes by itself.
    pub(crate) fn used(&self, meter: &Meter) -> f64 {
        (self.cpu_s() - meter.cpu_s - self.idle * meter.seconds()).max(0.0)
    }

    /// Anonymous memory beyond that of the empty server, bytes.
    pub(crate) fn memory_grown(&self) -> f64 {
        (memory(&self.server) - self.memory_empty).max(0.0)
    }

    /// Waits until the server has done what it does in the background; whether it had before `until`.
    pub(crate) fn settle(&self, until: Instant) -> bool {
        let mut quiet = 0;
        while quiet < 2 {
            if Instant::now() >= until {
                eprintln!("the server still works in the background when the time is over");
                return false;
            }
            let meter = self.meter();
            std::thread::sleep(SETTLED_LOOK);
            quiet = if self.used(&meter) < SETTLED_SHARE * meter.seconds() { quiet + 1 } else { 0 };
        }
        true
    }

    /// A figure of `/v1/status`; 0 when it has none.
    pub(crate) fn figure(&self, name: &str) -> f64 {
        let answer = self.server.request("GET /v1/status HTTP/1.1", b"");
        let body = answer.map(|(_, body)| serde_json::from_str::<serde_json::Value>(&body).unwrap_or_default());
        body.ok().and_then(|body| body[name].as_f64()).unwrap_or(0.0)
    }

    /// Bytes of all its files but [`RESERVE_FILE`].
    pub(crate) fn disk_bytes(&self) -> u64 {
        bytes_under(&self.data())
    }
}

fn started(data: &Path, flags: &[&str]) -> Result<Server, String> {
    let server = Server::try_start_within(data, &[FLAGS, flags].concat(), READY_MAX)?;
    let from = Instant::now();
    while !matches!(server.request("GET /-/ready HTTP/1.1", b""), Ok((200, _))) {
        if from.elapsed() > READY_MAX {
            return Err(format!("it is not ready after {READY_MAX:?}"));
        }
        std::thread::sleep(POLL);
    }
    Ok(server)
}

/// Whether a process has ended; nobody has waited for it yet.
fn has_ended(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
}

/// Files that vanish meanwhile count nothing.
fn bytes_under(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = entries.filter(|entry| entry.file_name() != RESERVE_FILE).map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_under(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    bytes.sum()
}
