//! The process that runs scripts: `ogive lua-worker`, started only by the server.
//!
//! Invariants: it runs one script at a time, each in a Lua state of its own; it ends when its standard input closes,
//! even while a script runs, and leaves nothing behind.
//! Limits, enforced by the system: [`HEADROOM_BYTES`] of address space above the script's memory, the script's time and
//! [`CPU_SPARE_S`] of processor time, [`FILES_MAX`] open files, no file written, no core dump.
//! Failure: running out of memory ends the process; the server reports that as the result of the run.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use ogive_model::{MonoNs, Ns};
use ogive_probe::Clock;
use tokio::runtime::{Builder, Handle};

use super::message::{Job, ScriptOutcome, put_part, read_part};
use super::world::World;
use crate::net::Network;
use crate::run::{Failure, Reason};
use ogive_outgoing::Files;

/// 256 MiB: what connections, the functions of `world` and the stacks of threads take beside the script.
const HEADROOM_BYTES: u64 = 256 << 20;
/// 2 s of processor above the script's time: for connections, and for a clock that differs.
const CPU_SPARE_S: u64 = 2;
/// 64 files: a script has one connection at a time, the system's resolver some more.
const FILES_MAX: u64 = 64;

/// Runs the scripts that standard input brings until it ends.
///
/// # Errors
/// When the system refuses threads, limits or `/proc`.
pub fn work(files: Files) -> anyhow::Result<ExitCode> {
    // The clock asks the operating system: a thread that calibrates it would cost more than some scripts.
    let _maintainer = Clock::maintain();
    let runtime = Builder::new_multi_thread().worker_threads(1).max_blocking_threads(2).enable_all().build()?;
    let (network, handle) = (Arc::new(Network::new(files)), runtime.handle().clone());
    let space_bytes = space_bytes(files)?;
    limit(Resource::RLIMIT_NOFILE, FILES_MAX)?;
    limit(Resource::RLIMIT_FSIZE, 0)?;
    limit(Resource::RLIMIT_CORE, 0)?;
    let (jobs, queue) = channel();
    let scripts = move || run_all(&queue, &network, &handle, space_bytes);
    std::thread::Builder::new().name("check-script".into()).spawn(scripts)?;
    let mut input = io::stdin().lock();
    loop {
        let read = read_part(&mut input).and_then(|job| Ok((job, read_part(&mut input)?)));
        let is_taken = read.is_ok_and(|job| jobs.send(job).is_ok());
        if !is_taken {
            // The thread that runs a script cannot be waited for.
            std::process::exit(0);
        }
    }
}

fn run_all(queue: &Receiver<(Vec<u8>, Vec<u8>)>, network: &Arc<Network>, handle: &Handle, space_bytes: u64) {
    let mut output = io::stdout();
    for (job, source) in queue {
        let done = run(&job, &source, network, handle, space_bytes);
        let mut message = Vec::new();
        let put = |message: &mut Vec<u8>, done: &ScriptOutcome| put_part(message, &serde_json::to_vec(done)?);
        let written = put(&mut message, &done).or_else(|error| {
            let failure = Failure::new(Reason::Limit, format!("what the script reports cannot be sent: {error}"));
            put(&mut message, &ScriptOutcome { figures: Vec::new(), failure: Some(failure) })
        });
        let sent = written.and_then(|()| output.write_all(&message)).and_then(|()| output.flush());
        if sent.is_err() {
            std::process::exit(0);
        }
    }
}

fn run(job: &[u8], source: &[u8], network: &Arc<Network>, handle: &Handle, space_bytes: u64) -> ScriptOutcome {
    let failed =
        |sentence: String| ScriptOutcome { figures: Vec::new(), failure: Some(Failure::new(Reason::Local, sentence)) };
    let job: Job = match serde_json::from_slice(job) {
        Ok(job) => job,
        Err(error) => return failed(format!("the job cannot be read: {error}")),
    };
    if let Err(error) = limit_to(&job, space_bytes) {
        return failed(format!("the process of the script cannot be limited: {error}"));
    }
    let clock = Clock::global();
    let until = MonoNs(clock.now()).saturating_add(Ns::from(Duration::from_millis(job.time_ms)));
    let world = World::new(network.clone(), handle.clone(), clock, until);
    let failure = world.clone().exec(&job, source).err();
    ScriptOutcome { figures: world.take(), failure }
}

/// The limits of one script.
fn limit_to(job: &Job, space_bytes: u64) -> nix::Result<()> {
    limit(Resource::RLIMIT_AS, space_bytes + HEADROOM_BYTES + job.memory_bytes as u64)?;
    let used = getrusage(UsageWho::RUSAGE_SELF)?;
    let used_s = u64::try_from(used.user_time().tv_sec() + used.system_time().tv_sec()).unwrap_or(0);
    limit(Resource::RLIMIT_CPU, used_s + job.time_ms.div_ceil(1_000) + CPU_SPARE_S)
}

/// Lowers or raises what the process may use, as far as it may be raised.
fn limit(resource: Resource, value: u64) -> nix::Result<()> {
    let (_, hard) = getrlimit(resource)?;
    setrlimit(resource, value.min(hard), hard)
}

/// Address space that the process has before any script.
fn space_bytes(files: Files) -> io::Result<u64> {
    let status = (files.read)(Path::new("/proc/self/status"))?;
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    Ok(kib.ok_or_else(|| io::Error::other("/proc/self/status has no VmSize"))? << 10)
}
