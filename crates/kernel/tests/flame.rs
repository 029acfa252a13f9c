//! Stacks of a program whose shares are known, from the kernel of this machine.
#![cfg(feature = "bpf")]

mod common;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use ogive_kernel::Filter;
use ogive_kernel::folded::Folded;
use ogive_kernel::stacks::{Kind, Stacks};

use common::{all_work, compiled};

/// Without these nothing here can run: a line, and the test is skipped.
fn is_possible() -> bool {
    all_work(None, &["tp_btf", "task storage"])
}

/// `flame_work.c`, waiting for its line; ended when dropped.
struct Work(Child);

impl Work {
    fn start(mode: &str) -> Self {
        let options = ["-O1", "-g0", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"];
        let program = compiled("flame_work.c", &format!("flame-{mode}-"), &options);
        let mut command = Command::new(&program);
        Self(command.arg(mode).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    fn begin(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What stacks with a function come to.
fn sum_with(folded: &Folded, function: &str) -> u64 {
    folded.stacks().filter(|(stack, _)| stack.split(';').any(|frame| frame == function)).map(|(_, count)| count).sum()
}

#[test]
fn samples_are_where_the_cpu_time_goes() {
    if !is_possible() {
        return;
    }
    let mut work = Work::start("run");
    let cpus: Vec<usize> = (0..std::thread::available_parallelism().unwrap().get()).collect();
    let mut stacks = Stacks::start(&Filter::Process(work.0.id()), Kind::OnCpu(997), &cpus).unwrap();
    work.begin();
    let (mut all, mut much, mut little, mut lines) = (0, 0, 0, String::new());
    while all < 1000 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let folded = stacks.drain().unwrap();
        all += folded.total();
        much += sum_with(&folded, "burn_much");
        little += sum_with(&folded, "burn_little");
        lines = folded.text();
    }
    println!("{much} and {little} of {all}\n{lines}");
    assert!(much + little <= all && (much + little) * 10 >= all * 9, "{much} {little} {all}");
    // Three quarters, by more than five times the spread of a thousand samples.
    let share = much as f64 / (much + little) as f64;
    assert!((0.65..0.85).contains(&share), "{share}");
    let stack = lines.lines().find(|line| line.contains("burn_much")).unwrap();
    let frames: Vec<&str> = stack.split(';').collect();
    let at = |name: &str| {
        frames.iter().position(|frame| frame.starts_with(name)).unwrap_or_else(|| panic!("{name}: {stack}"))
    };
    assert!(frames[0].starts_with("flame-run") && at("main") < at("run") && at("run") < at("burn_much"), "{stack}");
    assert_eq!(stacks.lost().unwrap(), 0);
}

#[test]
fn waits_are_as_long_as_the_program_s_own_clock_has_them() {
    if !is_possible() {
        return;
    }
    let mut work = Work::start("wait");
    let mut stacks = Stacks::start(&Filter::Process(work.0.id()), Kind::OffCpu, &[]).unwrap();
    work.begin();
    let mut line = String::new();
    BufReader::new(work.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let own: Vec<f64> = line.split_ascii_whitespace().map(|word| word.parse().unwrap()).collect();
    let folded = stacks.drain().unwrap();
    println!("{line}{}", folded.text());
    for (function, own, wanted) in [("wait_long", own[0], 0.6), ("wait_short", own[1], 0.2)] {
        let waited = sum_with(&folded, function) as f64 / 1e6;
        // Asleep from just behind the call's beginning on, and until it has a CPU again.
        assert!(waited <= own + 0.001 && waited >= wanted * 0.98, "{function}: {waited}, {own} by its own clock");
    }
    let stack = folded.stacks().find(|(stack, _)| stack.contains("wait_long")).unwrap().0;
    assert!(stack.contains(";main;wait_often;wait_long;") && stack.ends_with("schedule_[k]"), "{stack}");
    assert_eq!(stacks.drain().unwrap().total(), 0, "what was taken is not taken twice");
}

#[test]
fn what_cannot_be_is_refused() {
    for (filter, rate) in [(Filter::Everything, 0), (Filter::Everything, 5001), (Filter::Comm(String::new()), 99)] {
        assert!(Stacks::start(&filter, Kind::OnCpu(rate), &[0]).is_err(), "{filter:?} {rate}");
    }
}
