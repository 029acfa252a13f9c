//! `ogive kernel micro`: where each thread's time goes.

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use ogive_kernel::CAUSES;
use ogive_kernel::micro::{Microstates, Thread};
use serde_json::{Value, json};

use super::tasks::{Tasks, wait};
use crate::cli::terminal::Terminal;

/// Shows the state in which each thread spends its time: user code, system calls, ready, and waits by cause.
#[derive(clap::Args, Debug)]
pub(crate) struct Micro {
    #[command(flatten)]
    tasks: Tasks,
    /// Observe for this many seconds. Without it, a terminal shows each second until Ctrl-C, and a pipe gets one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Number of threads shown, least asleep first.
    #[arg(long, value_name = "N", default_value = "30")]
    rows: usize,
    /// Print every thread as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Micro, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let observed = Microstates::start(&options.tasks.filter()?)?;
    let mut before = observed.read()?;
    let is_live = options.seconds.is_none() && !options.json && std::io::stdout().is_terminal();
    loop {
        wait(options.seconds.unwrap_or(1));
        let now = observed.read()?;
        let threads = since(&before, &now);
        if options.json {
            println!("{}", json!({ "threads": threads.iter().map(object).collect::<Vec<_>>() }));
        } else {
            let rows = if is_live { options.rows.min(terminal.height.saturating_sub(2)) } else { options.rows };
            print(&threads[..threads.len().min(rows)], is_live);
        }
        if !is_live {
            return Ok(ExitCode::SUCCESS);
        }
        before = now;
    }
}

/// What happened between two readings, busiest first.
fn since(before: &[Thread], now: &[Thread]) -> Vec<Thread> {
    let known: HashMap<u32, &Thread> = before.iter().map(|thread| (thread.tid, thread)).collect();
    // A reused number belongs to a younger thread.
    let earlier = |thread: &Thread| known.get(&thread.tid).filter(|known| known.wall_ns <= thread.wall_ns).copied();
    let mut threads: Vec<Thread> =
        now.iter().map(|thread| earlier(thread).map_or_else(|| thread.clone(), |known| thread.since(known))).collect();
    let busy = |thread: &Thread| thread.user_ns() + thread.system_ns() + thread.ready_ns();
    threads.sort_by_key(|thread| (std::cmp::Reverse(busy(thread)), thread.tid));
    threads
}

fn print(threads: &[Thread], is_live: bool) {
    let mut text = String::from(if is_live { "\x1b[H" } else { "" });
    let end = if is_live { "\x1b[K\n" } else { "\n" };
    text += "    PID     TID COMM            USR  SYS  LAT  LCK  DSK  NET  SLP  OTH    VCX    ICX  MIG     SCL  SIG";
    text += end;
    for thread in threads {
        text += &row(thread);
        text += end;
    }
    print!("{text}{}", if is_live { "\x1b[J" } else { "" });
    // A reader that went away ends the command with the next line.
    let _ = std::io::Write::flush(&mut std::io::stdout());
}

fn row(thread: &Thread) -> String {
    #[allow(clippy::cast_precision_loss, reason = "a percentage")]
    let percent = |ns: u64| format!("{:>4.1}", ns as f64 * 100.0 / thread.wall_ns.max(1) as f64);
    let others = ["pipe", "child", "stop", "other"].map(|cause| thread.wait_ns(cause)).iter().sum();
    let states = [
        thread.user_ns(),
        thread.system_ns(),
        thread.ready_ns(),
        thread.wait_ns("lock"),
        thread.wait_ns("disk"),
        thread.wait_ns("network"),
        thread.wait_ns("sleep"),
        others,
    ]
    .map(percent)
    .join(" ");
    format!(
        "{:>7} {:>7} {:<15} {states} {:>6} {:>6} {:>4} {:>7} {:>4}",
        thread.tgid,
        thread.tid,
        thread.comm,
        thread.voluntary,
        thread.involuntary,
        thread.migrations,
        thread.calls,
        thread.signals
    )
}

fn object(thread: &Thread) -> Value {
    let waits: serde_json::Map<String, Value> =
        CAUSES.iter().map(|cause| ((*cause).to_owned(), thread.wait_ns(cause).into())).collect();
    json!({
        "pid": thread.tgid, "tid": thread.tid, "comm": thread.comm, "wall_ns": thread.wall_ns, "user_ns": thread.user_ns(),
        "system_ns": thread.system_ns(), "ready_ns": thread.ready_ns(), "wait_ns": waits, "voluntary": thread.voluntary,
        "involuntary": thread.involuntary, "migrations": thread.migrations, "calls": thread.calls, "signals": thread.signals,
        "stolen_ns": thread.stolen_ns,
    })
}
