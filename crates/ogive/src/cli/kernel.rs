//! `ogive kernel`: what the scheduler and the system calls cost a process, measured by the kernel itself.

mod calls;
mod doctor;
mod micro;
mod sched;
mod tasks;

use std::process::ExitCode;

use clap::Subcommand;

use super::terminal::Terminal;

/// Measures the scheduler, threads and system calls with programs in the kernel.
#[derive(Subcommand, Debug)]
#[command(after_help = "Examples:
  ogive kernel doctor                        what works on this machine, and what the rest would need
  ogive kernel sched --seconds 5 -p 1234     run-queue latency, slices and waits by cause, as histograms
  ogive kernel micro --comm nginx            where each thread's time goes
  ogive kernel calls -- ls -l                system calls: counts, errors, latencies")]
pub(crate) enum Kernel {
    Doctor(doctor::Doctor),
    Sched(sched::Sched),
    Micro(micro::Micro),
    Calls(calls::Calls),
}

/// Runs the command.
pub(crate) fn run(command: &Kernel, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    match command {
        Kernel::Doctor(options) => doctor::run(options),
        Kernel::Sched(options) => sched::run(options),
        Kernel::Micro(options) => micro::run(options, terminal),
        Kernel::Calls(options) => calls::run(options),
    }
}
