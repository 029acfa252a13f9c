//! `ogive kernel calls`: system calls of a command or a process.

use std::process::{Command, ExitCode};

use ogive_kernel::calls::{Call, Calls as Counter};
use serde_json::{Value, json};

use super::tasks::{Tasks, durations, quantile, wait};
use crate::cli::exit::EXIT_USAGE;
use crate::cli::format::{human, thousands};

/// Counts system calls, with errors and a histogram of durations for each.
#[derive(clap::Args, Debug)]
pub(crate) struct Calls {
    #[command(flatten)]
    tasks: Tasks,
    /// Observe for this many seconds.
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Print the table as JSON.
    #[arg(long)]
    json: bool,
    /// Command to run; its calls and those of its children are counted.
    #[arg(last = true, value_name = "CMD", conflicts_with_all = ["pid", "comm", "cgroup"])]
    command: Vec<String>,
}

pub(super) fn run(options: &Calls) -> anyhow::Result<ExitCode> {
    let Some((program, arguments)) = options.command.split_first() else {
        if options.tasks.pid.is_none() && options.tasks.comm.is_none() && options.tasks.cgroup.is_none() {
            eprintln!("ogive: name a command after --, or a process with -p, --comm or --cgroup");
            return Ok(ExitCode::from(EXIT_USAGE));
        }
        let mut counter = Counter::start(&options.tasks.filter()?)?;
        wait(options.seconds);
        print(&counter.drain()?, options.json);
        return Ok(ExitCode::SUCCESS);
    };
    let (mut counter, mut child) = Counter::of_command(Command::new(program).args(arguments))?;
    let status = child.wait()?;
    print(&counter.drain()?, options.json);
    // As a shell has it: 128 and the signal.
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn print(calls: &[Call], as_json: bool) {
    if as_json {
        println!("{}", json!({ "syscalls": calls.iter().map(object).collect::<Vec<_>>() }));
        return;
    }
    // The command's own output is on standard output.
    eprintln!(
        "{:<20} {:>12} {:>8} {:>9} {:>9} {:>9} {:>9}",
        "system call", "calls", "errors", "time", "p50", "p99", "max"
    );
    for call in calls {
        eprintln!(
            "{:<20} {:>12} {:>8} {:>9} {:>9} {:>9} {:>9}",
            call.name,
            thousands(call.count),
            thousands(call.errors),
            human(call.took.sum.unwrap_or(0.0), "s"),
            quantile(&call.took, 0.5),
            quantile(&call.took, 0.99),
            quantile(&call.took, 1.0),
        );
    }
    eprintln!("{:<20} {:>12}", "in all", thousands(calls.iter().map(|call| call.count).sum()));
}

fn object(call: &Call) -> Value {
    json!({
        "name": call.name, "number": call.number, "count": call.count, "errors": call.errors, "took": durations(&call.took),
    })
}
