//! `ogive kernel` in a binary without the kernel observer: what /proc and /sys say.

use std::process::ExitCode;

use clap::Subcommand;

use super::advise;
use super::terminal::Terminal;

/// Says what the kernel's own files say of how a machine is set up; the rest needs a binary with the feature `kernel`.
#[derive(Subcommand, Debug)]
pub(crate) enum Kernel {
    Advise(advise::Advise),
}

/// Runs the command.
pub(crate) fn run(command: &Kernel, _: &Terminal) -> anyhow::Result<ExitCode> {
    let Kernel::Advise(options) = command;
    advise::run(options)
}
