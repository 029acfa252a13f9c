//! A crash report: one JSON object, `docs/formats/crash.md`.

use serde::{Deserialize, Serialize};
use twox_hash::XxHash64;

/// Version of the form.
pub const FORMAT: u32 = 1;
/// 4: a crash that comes by another way is still the same crash; a helper near the top is not all of it.
const SIGNATURE_FRAMES: usize = 4;

/// What the writer is given when its role begins.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Start {
    /// `server` or `broker`.
    pub role: String,
    /// Of the program.
    pub version: String,
    /// Process that is watched.
    pub pid: u32,
    /// Where reports are stored.
    pub directory: String,
    /// Whom to notify of a crash, besides the directory.
    pub webhook: Option<String>,
    /// Options that are not their defaults, without secrets.
    pub configuration: Vec<(String, String)>,
}

/// What the panic hook knows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Panic {
    /// The first thousand characters.
    pub message: String,
    /// `file:line:column`.
    pub location: String,
}

/// One address of the stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// File that was mapped there; empty when none was.
    pub module: String,
    /// Of the module, in hexadecimal; empty when it has none.
    pub build_id: String,
    /// Within the module, as its symbols count; the absolute one when there is no module.
    pub address: u64,
}

/// A message of a measured path that was in flight, such as a batch on its way into the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceInFlight {
    /// Name of its path.
    pub path: String,
    /// Whether it is the message that the crashed thread stamped last.
    pub is_of_thread: bool,
    /// From its first stamp to the crash.
    pub age_seconds: f64,
    /// Points that it reached, in the order of the path.
    pub points: Vec<TracePoint>,
}

/// A stamp of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TracePoint {
    /// Name of the point.
    pub name: String,
    /// Since the message's first stamp.
    pub seconds: f64,
}

/// What happened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// Running number in its directory, from 1.
    pub number: u64,
    /// UTC, ISO 8601.
    pub time: String,
    /// `panic` or `signal`.
    pub kind: String,
    /// `SIGSEGV`; none for a panic.
    pub signal: Option<String>,
    /// `si_code` of the signal: above 0 the processor's, else somebody sent it.
    pub code: Option<i32>,
    /// What the signal says of the address, in hexadecimal.
    pub fault_address: Option<String>,
    /// The panic.
    pub panic: Option<Panic>,
    /// Name of the thread.
    pub thread: String,
    /// What the thread worked on; empty when it is not known.
    pub activity: String,
    /// Messages that were in flight, that of the crashed thread first.
    #[serde(default)]
    pub traces: Vec<TraceInFlight>,
    /// `server` or `broker`.
    pub role: String,
    /// Of the program.
    pub version: String,
    /// Of the program, in hexadecimal.
    pub build_id: String,
    /// The process.
    pub pid: u32,
    /// Seconds since the role began.
    pub uptime_seconds: f64,
    /// Options that are not their defaults, without secrets.
    pub configuration: Vec<(String, String)>,
    /// Innermost first.
    pub frames: Vec<Frame>,
    /// The last log records, the newest last.
    pub events: Vec<String>,
    /// The same for crashes of one cause: hash of kind, signal, a panic's place, and the first frames of the program.
    pub signature: String,
}

impl Report {
    /// What it is, in one line.
    #[must_use]
    pub fn title(&self) -> String {
        match (&self.panic, &self.signal) {
            (Some(panic), _) => {
                format!("panic at {}: {}", panic.location, panic.message.lines().next().unwrap_or_default())
            }
            (None, Some(signal)) => match &self.fault_address {
                Some(address) if self.code.is_some_and(|code| code > 0) => format!("{signal} at address {address}"),
                _ => format!("{signal}, sent to the process"),
            },
            (None, None) => self.kind.clone(),
        }
    }

    /// Makes [`Report::signature`] of the rest.
    pub(crate) fn sign(&mut self) {
        let mut text = format!("{}\n{}\n", self.kind, self.signal.as_deref().unwrap_or_default());
        if let Some(panic) = &self.panic {
            text += &panic.location;
        } else {
            let own = self.frames.iter().filter(|frame| !frame.build_id.is_empty() && frame.build_id == self.build_id);
            for frame in own.take(SIGNATURE_FRAMES) {
                text += &format!("{}+{:x}\n", frame.build_id, frame.address);
            }
        }
        self.signature = format!("{:016x}", XxHash64::oneshot(0, text.as_bytes()));
    }
}
