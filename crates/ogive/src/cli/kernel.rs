//! `ogive kernel`: what the scheduler and the system calls cost a process, measured by the kernel itself.

mod ask;
mod calls;
mod doctor;
mod export;
mod flame;
mod key_texts;
mod locks;
mod micro;
mod sched;
mod tasks;

use std::process::ExitCode;

use clap::Subcommand;

pub(crate) use export::{KernelOptions, KernelRole};

/// Measures the scheduler, threads and system calls with programs inside the kernel.
#[derive(Subcommand, Debug)]
#[command(after_help = "Examples:
  ogive kernel doctor                        what works on this machine, and what is missing for the rest
  ogive kernel sched --seconds 5 -p 1234     run-queue latency, slices and waits by cause, as histograms
  ogive kernel micro --comm nginx            where each thread's time goes
  ogive kernel calls -- ls -l                system calls: counts, errors, latencies
  ogive kernel locks -p 1234                 contended locks: how long, where, and who waits for whom
  ogive kernel export --to http://127.0.0.1:6448 --comm nginx   all of these as series, every second
  ogive kernel flame -p 1234 --svg on.svg    a flame graph of where it runs, or with --off-cpu where it waits
  ogive kernel advise -p 1234                what the machine's setup costs it, and how to change that
  ogive kernel ask 'syscall:read hist latency by comm'   your own question, with filter and keys")]
pub(crate) enum Kernel {
    Doctor(doctor::Doctor),
    Sched(sched::Sched),
    Micro(micro::Micro),
    Calls(calls::Calls),
    Export(export::Export),
    Locks(locks::Locks),
    Flame(flame::Flame),
    Advise(super::advise::Advise),
    Ask(ask::Ask),
}

/// Runs the command.
pub(crate) fn run(command: &Kernel) -> anyhow::Result<ExitCode> {
    match command {
        Kernel::Doctor(options) => doctor::run(options),
        Kernel::Sched(options) => sched::run(options),
        Kernel::Micro(options) => micro::run(options),
        Kernel::Calls(options) => calls::run(options),
        Kernel::Export(options) => export::run(options),
        Kernel::Locks(options) => locks::run(options),
        Kernel::Flame(options) => flame::run(options),
        Kernel::Ask(options) => ask::run(options),
        Kernel::Advise(options) => super::advise::run(options),
    }
}
