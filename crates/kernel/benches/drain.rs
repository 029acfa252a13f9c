//! The CPU time of one reading while a process has 10,000 threads: histograms of the scheduler, and microstates.
//!
//! `cargo bench -p ogive-kernel --features bpf --bench drain`, as root; needs cc. A reading a second is a share of a
//! core.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use ogive_kernel::micro::Microstates;
use ogive_kernel::sched::{Options, Scheduler};
use ogive_kernel::{Filter, Grouping};

const THREADS: &str = "10000";
const ROUNDS: usize = 7;

/// The kernel accounts for a thread's time at its ticks: many readings are one round.
const READINGS: u64 = 30;

/// CPU time of this thread, by the kernel.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("CONFIG_SCHED_INFO");
    text.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).expect("nanoseconds")
}

/// Medians of some readings, with their spread.
fn measure(what: &str, mut read: impl FnMut() -> usize) {
    let mut all = Vec::new();
    let mut rows = 0;
    for _ in 0..ROUNDS {
        // A thread that slept is accounted for.
        std::thread::sleep(std::time::Duration::from_millis(10));
        let began = cpu_ns();
        (0..READINGS).for_each(|_| rows = read());
        std::thread::sleep(std::time::Duration::from_millis(10));
        all.push((cpu_ns() - began) / READINGS);
    }
    all.sort_unstable();
    let ms = |ns: u64| ns as f64 / 1e6;
    let (low, median, high) = (ms(all[0]), ms(all[ROUNDS / 2]), ms(all[ROUNDS - 1]));
    println!("{what:<40} {rows:>6} rows {median:>8.3} ms ({low:.3} to {high:.3}): {:.2} % of a core", median / 10.0);
}

fn main() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("work");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/work.c");
    let compiled = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).status();
    assert!(compiled.expect("cc is needed").success());
    let mut child = Command::new(&program).args(["many", THREADS]).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("its line");
    let filter = Filter::Process(child.id());
    for (what, grouping, groups) in
        [("sched by process", Grouping::Process, 64), ("sched by thread, 1024 groups", Grouping::Thread, 1024)]
    {
        let options = Options { filter: filter.clone(), grouping, groups, ..Options::default() };
        let mut scheduler = Scheduler::start(options).expect("the kernel lets it in");
        measure(what, || scheduler.drain(|_| true).expect("maps are read").groups.len());
    }
    let cpus: Vec<usize> = (0..std::thread::available_parallelism().map_or(1, usize::from)).collect();
    let microstates = Microstates::start(&filter, &cpus).expect("the kernel lets it in");
    measure("micro", || microstates.read().expect("an iterator").len());
    drop(microstates);
    let everything = Microstates::start(&Filter::Everything, &cpus).expect("the kernel lets it in");
    measure("micro of the machine", || everything.read().expect("an iterator").len());
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}
