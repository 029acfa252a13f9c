//! Checks written in Lua (LuaJIT in its GC64 mode): a script measures and reports its own values (docs/checks.md).
//!
//! - `message`: messages between server and process; `process`: the server's side; `worker`: the process; `world`: the
//!   functions available to the script.
//!
//! Invariants: a script runs in a process of its own, which is killed when the script does not end in time: nothing
//! that a script does can block a thread of the server. A process runs one script at a time and keeps no state between
//! runs.
//! Limits: the check's timeout, `memory_mib`, [`SCRIPTS_MAX`] at once, [`SOURCE_BYTES_MAX`], and those of `world` and
//! `worker`.
//! Failure: a script that fails, is stopped or is killed is a failed run; other scripts are unaffected.

mod message;
mod process;
mod worker;
mod world;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::raw::Raw;
use super::run::{Failure, Reason, Run};
use message::{Job, ScriptOutcome};
use ogive_outgoing::Files;
use process::Process;
pub(super) use process::Processes;
pub use worker::work;

/// 16 scripts at once, with 32 MiB each at the usual limit: half a GiB at the worst.
const SCRIPTS_MAX: usize = 16;
/// 32 MiB: a page of a MiB as a table, several times.
const MEMORY_MIB: u32 = 32;
/// 512 MiB for who asks for it.
const MEMORY_MIB_MAX: u32 = 512;
/// 1 MiB of a script.
const SOURCE_BYTES_MAX: usize = 1 << 20;

static PLACES: Semaphore = Semaphore::const_new(SCRIPTS_MAX);

/// Which script, with what.
#[derive(Clone, Debug)]
pub(super) struct Script {
    path: PathBuf,
    target: String,
    arguments: BTreeMap<String, String>,
    memory_bytes: usize,
}

impl Script {
    /// What a table of this kind says.
    pub(super) fn from_raw(raw: &mut Raw) -> Result<Self, String> {
        let path = raw.script.take().ok_or("script is missing: the file of the script")?;
        let memory = raw.memory_mib.take().unwrap_or(MEMORY_MIB);
        if !(1..=MEMORY_MIB_MAX).contains(&memory) {
            return Err(format!("memory_mib {memory} is not between 1 and {MEMORY_MIB_MAX}"));
        }
        let arguments = raw.arguments.take().unwrap_or_default();
        let target = raw.target.take().unwrap_or_default();
        Ok(Self { path, target, arguments, memory_bytes: (memory as usize) << 20 })
    }

    fn job(&self, time: Duration) -> Job {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (target, arguments) = (self.target.clone(), self.arguments.clone());
        Job { name, target, arguments, memory_bytes: self.memory_bytes, time_ms }
    }
}

/// Runs the script of the check `name` in the process that the check has, or in a new one.
pub(super) async fn run(
    processes: &Processes,
    files: Files,
    run: &mut Run,
    name: &str,
    script: &Script,
    timeout: Duration,
) -> Result<(), Failure> {
    run.phase("script");
    let Ok(_place) = PLACES.try_acquire() else {
        return Err(Failure::new(Reason::Crowded, format!("{SCRIPTS_MAX} other scripts are running")));
    };
    let source = files.read(&script.path).await.map_err(|sentence| Failure::new(Reason::Local, sentence))?;
    if source.len() > SOURCE_BYTES_MAX {
        return Err(Failure::new(Reason::Limit, format!("the script has more than {SOURCE_BYTES_MAX} bytes")));
    }
    // A little before the check's own end, so that the run says which script was stopped and where; half of what is
    // left is for the process to stop it, the other half to kill a process that cannot.
    let patience = timeout - (timeout / 10).min(Duration::from_millis(200));
    let grace = (timeout - patience) / 2;
    let mut process = match processes.take(name) {
        Some(process) => process,
        None => Process::start()?,
    };
    match tokio::time::timeout(patience + grace, process.run(&script.job(patience), &source)).await {
        Ok(Ok(ScriptOutcome { figures, failure })) => {
            processes.put(name, process);
            for figure in figures {
                let labels: Vec<(&str, &str)> =
                    figure.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                run.figure(&figure.metric, &figure.unit, &labels, None, figure.value);
            }
            failure.map_or(Ok(()), Err)
        }
        Ok(Err(error)) => Err(process.ended(&error).await),
        Err(_) => {
            process.kill().await;
            let seconds = (patience + grace).as_secs_f64();
            let sentence = format!("the script could not be stopped; its process was killed after {seconds:.3} s");
            Err(Failure::new(Reason::Limit, sentence))
        }
    }
}
