//! What the programs cost those that they observe: the CPU time of loops of `tests/work.c`, as a ratio to the same loop
//! without an observer, in interleaved rounds.
//!
//! `cargo bench -p ogive-kernel --features bpf --bench cost -- [ROUNDS]`, as root; needs cc. 9 rounds when left out.
//! `scripts/kernel-figures` does the same with the binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use ogive_kernel::Filter;
use ogive_kernel::micro::Microstates;
use ogive_kernel::tasks::{Part, TaskOptions, TaskPrograms};

/// The name of the program that works, for observers by name.
const NAME: &str = "kernelwork";

/// A loop: what is printed of it, its mode, how often, and who observes it.
type Loop = (&'static str, &'static str, u32, &'static [Observer]);

/// An observer: its name, whether it observes by name, and its parts.
type Observer = (&'static str, bool, &'static [Part]);

const SCHED: &[Part] = &[Part::Scheduler, Part::Interrupts];
const EXPORT: &[Part] = &[Part::Scheduler, Part::Interrupts, Part::Microstates];
const ALL: &[Part] = &[Part::Scheduler, Part::Interrupts, Part::Microstates, Part::Locks, Part::Herds, Part::Calls];

const LOOPS: &[Loop] = &[
    (
        "getppid",
        "calls",
        500_000,
        &[
            ("sched of every task", false, SCHED),
            ("calls by name", true, &[Part::Calls]),
            ("micro by name", true, &[Part::Microstates]),
            ("all six parts by name", true, ALL),
        ],
    ),
    (
        "bytes there and back through pipes on one CPU",
        "pingpong",
        40_000,
        &[
            ("sched of every task", false, SCHED),
            ("sched by name", true, SCHED),
            ("sched, interrupts, micro of every task", false, EXPORT),
            ("all six parts by name", true, ALL),
        ],
    ),
    (
        "first touches of a page",
        "faults",
        200_000,
        &[("calls by name", true, &[Part::Calls]), ("micro by name", true, &[Part::Microstates])],
    ),
];

/// CPU seconds of all children that have ended.
fn of_children() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the kernel accounts for children");
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

/// CPU seconds of a program.
fn cpu_of(program: &Path, mode: &str, count: u32) -> f64 {
    let before = of_children();
    let status = Command::new(program).args([mode, &count.to_string()]).stdout(Stdio::null()).status();
    assert!(status.expect("it starts").success());
    of_children() - before
}

/// Observes while it lives.
fn observe((_, is_by_name, parts): Observer, cpus: &[usize]) -> (Rc<TaskPrograms>, Option<Microstates>) {
    let filter = if is_by_name { Filter::Comm(NAME.to_owned()) } else { Filter::Everything };
    let options =
        TaskOptions { groups: 64, herd_min: 16, places: 256, cpus: cpus.to_vec(), ..TaskOptions::new(&filter, parts) };
    let programs = TaskPrograms::load(&options).expect("the kernel lets them in");
    let micro =
        programs.has(Part::Microstates).then(|| Microstates::from_programs(&programs).expect("it maps its memory"));
    parts.iter().for_each(|part| programs.switch(*part, true).expect("it attaches them"));
    (programs, micro)
}

fn shown(mut values: Vec<f64>, digits: usize) -> String {
    values.sort_by(f64::total_cmp);
    let (low, median, high) = (values[0], values[values.len() / 2], values[values.len() - 1]);
    format!("{median:.digits$} ({low:.digits$} to {high:.digits$})")
}

fn compare((what, mode, count, observers): Loop, program: &Path, rounds: usize, cpus: &[usize]) {
    let (mut alone, mut observed, mut after) = (Vec::new(), vec![Vec::new(); observers.len()], Vec::new());
    for _ in 0..rounds {
        alone.push(cpu_of(program, mode, count));
        for (observer, times) in observers.iter().zip(&mut observed) {
            let observing = observe(*observer, cpus);
            times.push(cpu_of(program, mode, count));
            drop(observing);
        }
        after.push(cpu_of(program, mode, count));
    }
    let each_ns = |seconds: &[f64]| seconds.iter().map(|seconds| seconds * 1e9 / f64::from(count)).collect();
    println!("\n{count} {what}, {rounds} rounds, {} ns each", shown(each_ns(&alone), 0));
    let names = observers.iter().map(|(name, ..)| *name).chain(["none any more"]);
    for (name, times) in names.zip(observed.iter().chain([&after])) {
        let ratios = times.iter().zip(&alone).map(|(time, alone)| time / alone).collect();
        let more: Vec<f64> = times.iter().zip(&alone).map(|(time, alone)| time - alone).collect();
        println!("  {name:<40} {:<24} adds {} ns", shown(ratios, 2), shown(each_ns(&more), 0));
    }
}

fn main() {
    let rounds = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(9);
    let directory = tempfile::tempdir().expect("a directory");
    let program: PathBuf = directory.path().join(NAME);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/work.c");
    let compiled = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).status();
    assert!(compiled.expect("cc is needed").success());
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").expect("a list of CPUs");
    let cpus = ogive_kernel::machine::list(&online);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("{} CPUs, load {}", cpus.len(), load.split(' ').next().unwrap_or_default());
    for one in LOOPS {
        compare(*one, &program, rounds, &cpus);
    }
}
