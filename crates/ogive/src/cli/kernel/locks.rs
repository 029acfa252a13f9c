//! `ogive kernel locks`: contended locks, by place in the program, with who waits for whom.

use std::process::ExitCode;

use ogive_kernel::locks::{Lock, Locks as Observer, Losses, Options, PLACES_MAX};
use ogive_kernel::wait_kind::WaitKind;
use serde_json::{Value, json};

use super::tasks::{Tasks, durations, quantile, wait};
use crate::cli::exit::EXIT_USAGE;
use crate::cli::format::{human, thousands};

/// Frames and pairs that the table shows of a place.
const SHOWN: usize = 5;

/// Measures waits for mutexes and read-write locks (futex): every wait, with its place in the program, its duration,
/// and the holder.
#[derive(clap::Args, Debug)]
pub(crate) struct Locks {
    #[command(flatten)]
    tasks: Tasks,
    /// Observe for this many seconds.
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Number of places counted separately, 16 KiB of kernel memory each; the rest are merged into `other`.
    #[arg(long, value_name = "N", default_value = "256", value_parser = clap::value_parser!(u32).range(1..=i64::from(PLACES_MAX)))]
    places: u32,
    /// Also show what is known not to be a lock: condition variables and semaphores, in which idle threads wait,
    /// and joins.
    #[arg(long)]
    all: bool,
    /// Print every place as JSON.
    #[arg(long)]
    json: bool,
}

/// The memory map of a process, by which its stacks are unwound.
pub(super) fn maps(process: u32) -> String {
    std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default()
}

pub(super) fn run(options: &Locks) -> anyhow::Result<ExitCode> {
    if options.tasks.pid.is_none() && options.tasks.comm.is_none() && options.tasks.cgroup.is_none() {
        eprintln!("ogive: name a process with -p, --comm or --cgroup");
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    let wanted = Options { filter: options.tasks.filter()?, places: options.places, maps };
    let mut observer = Observer::start(&wanted)?;
    for _ in 0..options.seconds {
        wait(1);
        // When a process ends, the names of its functions are lost.
        observer.look_up()?;
    }
    let (locks, lost) = (observer.drain(|_| true)?, observer.lost()?);
    if options.json {
        let Losses { pairs, stacks } = lost;
        let places: Vec<Value> = locks.iter().map(object).collect();
        println!("{}", json!({ "places": places, "lost": { "pairs": pairs, "stacks": stacks } }));
        return Ok(ExitCode::SUCCESS);
    }
    let is_lock = |lock: &&Lock| options.all || matches!(lock.kind, WaitKind::Lock | WaitKind::Unknown);
    let shown: Vec<&Lock> = locks.iter().filter(is_lock).collect();
    print(&shown);
    if shown.len() < locks.len() {
        println!("{} places are conditions, semaphores or joins: --all shows them", locks.len() - shown.len());
    }
    if lost != Losses::default() {
        println!("{} waits without their pair, {} places without their stack: no room", lost.pairs, lost.stacks);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(locks: &[&Lock]) {
    println!(
        "{:>7} {:<9} {:>18} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "PID", "kind", "address", "waits", "waited", "p50", "p99", "max", "held p50", "held max"
    );
    for lock in locks {
        println!(
            "{:>7} {:<9} {:>#18x} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            lock.process.map_or_else(|| "other".to_owned(), |process| process.to_string()),
            lock.kind.name(),
            lock.address,
            thousands(lock.waits.total()),
            human(lock.waits.sum.unwrap_or(0.0), "s"),
            quantile(&lock.waits, 0.5),
            quantile(&lock.waits, 0.99),
            quantile(&lock.waits, 1.0),
            quantile(&lock.holds, 0.5),
            quantile(&lock.holds, 1.0),
        );
        let named: Vec<&str> = lock.frames.iter().map(String::as_str).skip_while(|name| *name == "[unknown]").collect();
        if !named.is_empty() {
            println!("        at {}", named[..named.len().min(SHOWN)].join(" < "));
        }
        for pair in lock.pairs.iter().take(SHOWN) {
            #[allow(clippy::cast_precision_loss, reason = "for people")]
            let waited = human(pair.waited_ns as f64 / 1e9, "s");
            println!(
                "        {} ({}) waited {waited} in {} times for {} ({})",
                pair.waiter_comm,
                pair.waiter,
                thousands(pair.count),
                pair.waker_comm,
                pair.waker
            );
        }
    }
}

fn object(lock: &Lock) -> Value {
    let pairs: Vec<Value> = lock
        .pairs
        .iter()
        .map(|pair| {
            json!({
                "waiter": pair.waiter, "waiter_comm": pair.waiter_comm, "waker": pair.waker, "waker_comm": pair.waker_comm,
                "count": pair.count, "waited_ns": pair.waited_ns,
            })
        })
        .collect();
    json!({
        "pid": lock.process, "address": format!("{:#x}", lock.address), "kind": lock.kind.name(), "frames": lock.frames,
        "waits": durations(&lock.waits), "holds": durations(&lock.holds), "timeouts": lock.timeouts, "pairs": pairs,
    })
}
