//! `ogive kernel micro`: where each thread's time goes.

mod difference;
mod screen;
mod table;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use ogive_kernel::CAUSES;
use ogive_kernel::micro::{Faults, Microstates, Thread};
use serde_json::{Value, json};

use self::difference::since;
use self::table::{HEAD, Sort, row};
use super::tasks::{Tasks, online_cpus, wait};

/// Shows the state in which each thread spends its time: user code, system calls, page faults, ready, and waits by
/// cause.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Keys on a terminal: sort by b busy or ready, u USR, s SYS, f faults, l LAT, k LCK, v VCX, i ICX, c SCL; q quits.")]
pub(crate) struct Micro {
    #[command(flatten)]
    tasks: Tasks,
    /// Observe for this many seconds. Without it, a terminal shows each second until q, and a pipe gets one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Number of threads shown, least asleep first; a terminal shows as many as it has lines.
    #[arg(long, value_name = "N", default_value = "30")]
    rows: usize,
    /// Print every thread as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Micro) -> anyhow::Result<ExitCode> {
    let observed = Microstates::start(&options.tasks.filter()?, &online_cpus()?)?;
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if options.seconds.is_none() && !options.json && is_terminal {
        screen::run(&observed)?;
        return Ok(ExitCode::SUCCESS);
    }
    let before = observed.read()?;
    for _ in 0..options.seconds.unwrap_or(1) {
        wait(1);
        observed.follow_cpus(&online_cpus()?)?;
    }
    let mut threads = since(&before, &observed.read()?);
    Sort::default().sort(&mut threads);
    let faults = observed.faults();
    if options.json {
        let threads: Vec<Value> = threads.iter().map(|thread| object(thread, faults)).collect();
        println!("{}", json!({ "threads": threads }));
    } else {
        println!("{HEAD}");
        threads.iter().take(options.rows).for_each(|thread| println!("{}", row(thread, faults)));
    }
    Ok(ExitCode::SUCCESS)
}

/// A thread's figures; what the kernel does not show of page faults is null.
fn object(thread: &Thread, faults: Faults) -> Value {
    let waits: serde_json::Map<String, Value> =
        CAUSES.iter().map(|cause| ((*cause).to_owned(), thread.wait_ns(cause).into())).collect();
    let begun = |figure: u64| (faults != Faults::Unseen).then_some(figure);
    json!({
        "pid": thread.tgid, "tid": thread.tid, "comm": thread.comm, "wall_ns": thread.wall_ns, "user_ns": thread.user_ns(),
        "system_ns": thread.system_ns(), "ready_ns": thread.ready_ns(), "wait_ns": waits, "voluntary": thread.voluntary,
        "trap_ns": (faults == Faults::Timed).then_some(thread.trap_ns()), "text_fault_ns": begun(thread.text_fault_ns()),
        "data_fault_ns": thread.data_fault_ns(), "text_faults": begun(thread.text_faults),
        "data_faults": begun(thread.data_faults), "minor_faults": thread.minor_faults,
        "major_faults": thread.major_faults, "involuntary": thread.involuntary, "migrations": thread.migrations,
        "calls": thread.calls, "signals": thread.signals, "stolen_ns": thread.stolen_ns,
    })
}
