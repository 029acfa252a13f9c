//! The processes that run scripts, as managed by the server.
//!
//! Invariants: at the end of a run its process is either kept idle or killed and reaped: dropping a [`Process`] kills
//! it. When the server ends, however that happens, standard input closes and the process ends by itself.
//! Limits: a check keeps one idle process; a removed check keeps none.

use std::collections::BTreeMap;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::message::{Job, ScriptOutcome, part_length, put_part};
use crate::run::{Failure, Reason};

/// What a process is given of the server's environment: where names and authorities are found. Passwords stay with the
/// server.
const ENVIRONMENT: [&str; 6] = ["LANG", "LOCALDOMAIN", "PATH", "RES_OPTIONS", "SSL_CERT_DIR", "SSL_CERT_FILE"];

/// A process that runs scripts one after the other.
pub(super) struct Process {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Process {
    /// Starts one from the program that is running, also when its file was replaced meanwhile.
    pub(super) fn start() -> Result<Self, Failure> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("ogive").arg("lua-worker").env_clear();
        command.envs(ENVIRONMENT.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        // Of its own group: what a terminal sends to the server's, the server answers.
        command.process_group(0);
        let started = command.spawn();
        let mut child = started.map_err(|error| {
            Failure::new(Reason::Local, format!("no process for the script can be started: {error}"))
        })?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        Ok(Self { child, input: input.expect("it is piped"), output: output.expect("it is piped") })
    }

    /// Runs a script and gives what it reported.
    ///
    /// # Errors
    /// When the process ended or answers otherwise than it should: it is not to be used again.
    pub(super) async fn run(&mut self, job: &Job, source: &[u8]) -> io::Result<ScriptOutcome> {
        let mut message = Vec::new();
        put_part(&mut message, &serde_json::to_vec(job)?)?;
        put_part(&mut message, source)?;
        self.input.write_all(&message).await?;
        self.input.flush().await?;
        let mut header = [0; 4];
        self.output.read_exact(&mut header).await?;
        let mut answer = vec![0; part_length(header)?];
        self.output.read_exact(&mut answer).await?;
        Ok(serde_json::from_slice(&answer)?)
    }

    pub(super) async fn kill(mut self) {
        // An error says that it ended by itself meanwhile.
        let _ = self.child.kill().await;
    }

    /// Why it did not answer.
    pub(super) async fn ended(mut self, error: &io::Error) -> Failure {
        let _ = self.child.start_kill();
        let how = match self.child.wait().await {
            Ok(status) => described(status),
            Err(_) => error.to_string(),
        };
        Failure::new(Reason::Limit, format!("the script's process ended: {how}"))
    }
}

/// What the end of a process says of its script.
fn described(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match status.signal() {
        Some(signal) if signal == nix::sys::signal::Signal::SIGABRT as i32 => "it had no memory left".into(),
        Some(signal) if signal == nix::sys::signal::Signal::SIGXCPU as i32 => "it used up its processor time".into(),
        Some(signal) => format!("it was killed by signal {signal}"),
        None => status.to_string(),
    }
}

/// Idle processes, by check.
#[derive(Default)]
pub(crate) struct Processes {
    idle: Mutex<BTreeMap<String, Process>>,
}

impl Processes {
    /// The process of a check, if it has one that lives.
    pub(super) fn take(&self, check: &str) -> Option<Process> {
        let mut process = self.idle.lock().unwrap_or_else(PoisonError::into_inner).remove(check)?;
        matches!(process.child.try_wait(), Ok(None)).then_some(process)
    }

    pub(super) fn put(&self, check: &str, process: Process) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).insert(check.to_owned(), process);
    }

    /// Ends those of checks that are gone.
    pub(crate) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).retain(|check, _| is_there(check));
    }
}
