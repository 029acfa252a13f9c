//! `ogive kernel` in a binary without the kernel observer: what /proc and /sys say.

use std::process::ExitCode;

use clap::Subcommand;

use super::advise;

/// Reports what /proc and /sys say about the machine's setup; everything else needs a binary built with the feature
/// `kernel`.
#[derive(Subcommand, Debug)]
pub(crate) enum Kernel {
    Advise(advise::Advise),
}

/// Runs the command.
pub(crate) fn run(command: &Kernel) -> anyhow::Result<ExitCode> {
    let Kernel::Advise(options) = command;
    advise::run(options)
}
