//! A command that is run with so many workers, and what the run cost.

use std::io::Read as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};

use anyhow::Context as _;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::unistd::Pid;
use ogive_kernel::growth::Run;
use ogive_model::MonoNs;
use ogive_probe::Clock;

use super::measure::Measure;
use super::observer::Observer;
use super::threads::{INTERVAL, Threads};

/// How much of the end of a command's output is kept: its last number is there.
const OUTPUT_MAX: usize = 64 << 10;

/// The placeholder for the number of workers.
const PLACE: &str = "{}";

/// A command and where its workers run.
pub(super) struct Workload {
    command: Vec<String>,
    measure: Measure,
    cpus: Vec<usize>,
    all_cpus: bool,
}

impl Workload {
    pub(super) fn new(command: &[String], by: Option<Measure>, cpus: Vec<usize>, all_cpus: bool) -> Self {
        let usual = if has_place(command) { Measure::Run } else { Measure::Worker };
        Self { command: command.to_vec(), measure: by.unwrap_or(usual), cpus, all_cpus }
    }

    pub(super) fn measure(&self) -> Measure {
        self.measure
    }

    /// Runs it once.
    pub(super) fn run(&self, workers: u32, mut observer: Option<&mut Observer>) -> anyhow::Result<Run> {
        let clock = Clock::global();
        if let Some(observer) = &mut observer {
            observer.forget()?;
        }
        let before = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let began = clock.now();
        let (children, threads) = self.start(workers)?;
        let (ends, ended, threads) = watch(children, threads)?;
        let wall_s = (ended - began) as f64 / 1e9;
        let after = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let mut waits = threads.waits();
        if let Some(seen) = observer.map(|observer| observer.waits(threads.processes())).transpose()?.flatten() {
            waits = seen;
            waits.lock_s = (waits.lock_s - threads.surplus_s()).max(0.0);
        }
        let used = |field: fn(&Usage) -> f64| field(&after) - field(&before);
        Ok(Run {
            workers,
            work: self.work(workers, wall_s, &ends)?,
            wall_s,
            user_s: used(|usage| seconds(usage.user_time())),
            system_s: used(|usage| seconds(usage.system_time())),
            ready_s: waits.ready_s,
            lock_s: waits.lock_s,
            migrations: waits.migrations,
            voluntary: used(|usage| usage.voluntary_context_switches() as f64),
            involuntary: used(|usage| usage.involuntary_context_switches() as f64),
        })
    }

    /// Starts the processes that the workers need; the calling thread's own CPU affinity is unchanged.
    fn start(&self, workers: u32) -> anyhow::Result<(Vec<Child>, Threads)> {
        let copies = if has_place(&self.command) { 1 } else { workers };
        let mut set = CpuSet::new();
        let count = if self.all_cpus { self.cpus.len() } else { self.cpus.len().min(workers as usize) };
        for cpu in &self.cpus[..count] {
            set.set(*cpu)?;
        }
        // A child has the CPUs of the thread that starts it.
        let started = std::thread::scope(|scope| {
            let starter = scope.spawn(|| -> anyhow::Result<Vec<Child>> {
                sched_setaffinity(Pid::from_raw(0), &set).context("choosing CPUs")?;
                let mut children = Vec::new();
                for _ in 0..copies {
                    match self.command(workers).spawn() {
                        Ok(child) => children.push(child),
                        Err(error) => {
                            end(children);
                            return Err(error).with_context(|| self.command[0].clone());
                        }
                    }
                }
                Ok(children)
            });
            starter.join().expect("the starter does not panic")
        });
        let children = started?;
        let threads = Threads::new(children.iter().map(Child::id), workers);
        Ok((children, threads))
    }

    fn command(&self, workers: u32) -> Command {
        let words: Vec<String> = self.command.iter().map(|word| word.replace(PLACE, &workers.to_string())).collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        command.stdout(if self.is_read() { Stdio::piped() } else { Stdio::null() });
        command
    }

    fn is_read(&self) -> bool {
        matches!(self.measure, Measure::Count | Measure::Rate)
    }

    /// Units of work that a run did.
    fn work(&self, workers: u32, wall_s: f64, ends: &[Vec<u8>]) -> anyhow::Result<f64> {
        let printed = || {
            let numbers = ends.iter().map(|end| {
                let number = last_number(&String::from_utf8_lossy(end)).filter(|number| *number > 0.0);
                number.with_context(|| format!("{} printed no number above zero on standard output", self.command[0]))
            });
            numbers.sum::<anyhow::Result<f64>>()
        };
        Ok(match self.measure {
            Measure::Run => 1.0,
            Measure::Worker => f64::from(workers),
            Measure::Count => printed()?,
            Measure::Rate => printed()? * wall_s,
        })
    }
}

fn has_place(command: &[String]) -> bool {
    command.iter().any(|word| word.contains(PLACE))
}

fn seconds(time: nix::sys::time::TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}

/// The last number in a text, whatever surrounds it.
fn last_number(text: &str) -> Option<f64> {
    let words = text.rsplit(|c: char| c.is_whitespace() || "=:,;/()[]{}\"".contains(c));
    words.filter_map(|word| word.parse().ok()).find(|number: &f64| number.is_finite())
}

/// Reads threads until every child has ended; returns the end of each one's output, and when the last child ended.
fn watch(mut children: Vec<Child>, mut threads: Threads) -> anyhow::Result<(Vec<Vec<u8>>, u64, Threads)> {
    let (ended, wait) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let sampler = scope.spawn(move || {
            let clock = Clock::global();
            loop {
                threads.read(MonoNs(clock.now()));
                match wait.recv_timeout(INTERVAL) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return threads,
                }
            }
        });
        let outputs: Vec<_> =
            children.iter_mut().map(|child| child.stdout.take()).map(|out| scope.spawn(|| tail(out))).collect();
        let statuses: Vec<_> = children.iter_mut().map(Child::wait).collect();
        // A reading of /proc may go on for longer.
        let now = Clock::global().now();
        drop(ended);
        let threads = sampler.join().expect("reading /proc does not panic");
        let mut ends = Vec::new();
        for output in outputs {
            ends.push(output.join().expect("reading a pipe does not panic"));
        }
        for status in statuses {
            let status = status?;
            anyhow::ensure!(status.success(), "the command failed: {status}");
        }
        Ok((ends, now, threads))
    })
}

/// The end of an output, read until it is closed.
fn tail(output: Option<ChildStdout>) -> Vec<u8> {
    let (mut kept, mut buffer) = (Vec::new(), [0; 8192]);
    let Some(mut output) = output else { return kept };
    while let Ok(length @ 1..) = output.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..length]);
        if kept.len() > 2 * OUTPUT_MAX {
            kept.drain(..kept.len() - OUTPUT_MAX);
        }
    }
    kept
}

/// Ends the processes that were started before one failed to start.
fn end(children: Vec<Child>) {
    for mut child in children {
        // One that has already ended is fine too.
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_of_an_output_is_found() {
        for (text, expected) in [
            ("requests/s: 1234.5\n", Some(1234.5)),
            ("1 2 3 done\n", Some(3.0)),
            ("{\"ops\":77}", Some(77.0)),
            ("rate=1e6 nan inf", Some(1e6)),
            ("nothing", None),
            ("", None),
        ] {
            assert_eq!(last_number(text), expected, "{text:?}");
        }
    }
}
