//! Parts that share their programs: switched on and off by themselves, and each as exact as alone.
#![cfg(feature = "bpf")]

mod common;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};

use ogive_kernel::calls::Calls;
use ogive_kernel::locks::{self, Locks};
use ogive_kernel::micro::{Faults, Microstates};
use ogive_kernel::sched::{Options, Scheduler};
use ogive_kernel::tasks::{Part, TaskOptions, TaskPrograms};
use ogive_kernel::{Error, Filter};

use common::{all_work, compiled, skip};

/// Without these nothing here can run: a line, and the test is skipped.
fn is_possible() -> bool {
    all_work(None, &["tp_btf", "task storage", "iter/task", "ring buffer"])
}

/// A shell that waits for lines: `work` runs as its child, so that one filter has both.
struct Shell {
    child: Child,
    lines: ChildStdin,
    answers: BufReader<std::process::ChildStdout>,
}

impl Shell {
    fn start(name: &str) -> Self {
        let program = compiled("work.c", name, &["-O1", "-pthread"]);
        let script = "while read count; do \"$0\" calls $count >&2; echo done; done";
        let mut command = Command::new("sh");
        let command = command.args(["-c", script]).arg(&program);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a shell");
        let (lines, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, lines, answers }
    }

    /// So many `getppid` in a process of their own, which has ended.
    fn call(&mut self, count: u64) {
        writeln!(self.lines, "{count}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn getppid(calls: &mut Calls) -> u64 {
    let counted = calls.drain().unwrap();
    let found = counted.iter().find(|call| call.name == "getppid");
    found.map_or(0, |call| {
        assert_eq!(call.count, call.took.total(), "each has returned");
        call.count
    })
}

/// All parts of the tasks of `filter`.
fn everything(filter: &Filter, cpus: &[usize]) -> (Options, TaskOptions) {
    let options =
        Options { filter: filter.clone(), groups: 1024, herd_min: 1000, interrupts: false, ..Options::default() };
    let mut of_tasks = options.of_tasks();
    of_tasks.parts.extend([Part::Microstates, Part::Calls, Part::Locks]);
    of_tasks.places = 64;
    of_tasks.cpus = cpus.to_vec();
    (options, of_tasks)
}

#[test]
fn parts_that_share_programs_are_each_as_exact_as_alone() {
    if !is_possible() {
        return;
    }
    let mut shell = Shell::start("shared-");
    let (options, of_tasks) = everything(&Filter::Everything, &[0]);
    let programs = TaskPrograms::load(&of_tasks).unwrap();
    let maps: fn(u32) -> String = |_| String::new();
    let mut calls = Calls::from_programs(&programs).unwrap();
    let mut micro = Microstates::from_programs(&programs).unwrap();
    let mut scheduler = Scheduler::from_programs(&programs, options.clone()).unwrap();
    let locks = locks::Options { filter: Filter::Everything, places: 64, maps };
    let mut locks = Locks::from_programs(&programs, &locks).unwrap();
    assert!(programs.parts_of("on_call").len() == 4, "{:?}", programs.parts_of("on_call"));
    shell.call(20_000);
    let others = getppid(&mut calls) - 20_000;
    assert!(others < 1000, "{others} by others on this machine");
    let (ended, lost) = micro.take_ended().unwrap();
    assert_eq!((lost.ends, lost.threads), (0, 0));
    let worker = ended.iter().find(|thread| thread.calls >= 20_000).expect("the process that called has ended");
    assert_eq!(worker.states_ns.iter().sum::<u64>(), worker.wall_ns, "states partition time");
    let group = |drained: &ogive_kernel::sched::Drained, id: u32| {
        drained.groups.iter().find(|group| group.id == Some(u64::from(id))).cloned()
    };
    let drained = scheduler.drain(|_| true).unwrap();
    let scheduled = group(&drained, worker.tgid).expect("its group");
    // The last switch comes after its end.
    let switches = worker.voluntary + worker.involuntary;
    let counted = scheduled.voluntary + scheduled.involuntary;
    assert!((switches..=switches + 1).contains(&counted), "{switches} and {counted}");
    assert_eq!((scheduled.slice.total(), scheduled.run_queue.total()), (counted, counted));
    locks.drain(|_| true).unwrap();
}

#[test]
fn a_part_that_is_off_counts_nothing_and_is_on_again_from_then_on() {
    if !is_possible() {
        return;
    }
    let mut shell = Shell::start("switched-");
    let (options, of_tasks) = everything(&Filter::Everything, &[0]);
    let programs = TaskPrograms::load(&of_tasks).unwrap();
    let mut calls = Calls::from_programs(&programs).unwrap();
    let mut micro = Microstates::from_programs(&programs).unwrap();
    let _scheduler = Scheduler::from_programs(&programs, options).unwrap();
    shell.call(1000);
    assert!(getppid(&mut calls) >= 1000);
    programs.switch(Part::Calls, false).unwrap();
    programs.switch(Part::Microstates, false).unwrap();
    getppid(&mut calls);
    micro.take_ended().unwrap();
    shell.call(5000);
    assert_eq!(getppid(&mut calls), 0, "nothing was counted");
    assert!(micro.take_ended().unwrap().0.is_empty());
    // Nobody needs these any more: they are out of the way.
    assert!(programs.parts_of("on_call") == [Part::Herds] && programs.parts_of("on_signal").is_empty());
    programs.switch(Part::Calls, true).unwrap();
    micro.begin().unwrap();
    let shell_id = shell.child.id();
    let thread = micro.read().unwrap().into_iter().find(|thread| thread.tid == shell_id).expect("it is there");
    assert!(thread.states_ns.iter().sum::<u64>() == thread.wall_ns && thread.calls < 1000, "{thread:?}");
    shell.call(2000);
    assert!((2000..3000).contains(&getppid(&mut calls)), "of before, nothing");
    assert!(micro.take_ended().unwrap().0.iter().any(|thread| thread.calls >= 2000));
}

#[test]
fn slots_of_threads_that_end_are_there_for_others() {
    if !is_possible() {
        return;
    }
    let mut shell = Shell::start("slots-");
    let mut micro = Microstates::start(&Filter::Everything, &[0]).unwrap();
    for _ in 0..50 {
        shell.call(1);
    }
    let before = micro.read().unwrap();
    let (ended, lost) = micro.take_ended().unwrap();
    assert!(ended.len() >= 50 && lost == ogive_kernel::micro::Losses::default(), "{} {lost:?}", ended.len());
    let mut ids: Vec<u32> = before.iter().map(|thread| thread.tid).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), before.len(), "each thread once");
    assert!(ended.iter().all(|thread| thread.states_ns.iter().sum::<u64>() == thread.wall_ns));
    assert!(!before.iter().any(|thread| ended.iter().any(|other| other.tid == thread.tid)), "it lives or has ended");
}

#[test]
fn page_faults_end_on_cpus_that_come_later_as_well() {
    if !is_possible() {
        return;
    }
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let cpus = ogive_kernel::machine::list(&online);
    let [first, .., last] = cpus[..] else { return skip("one CPU") };
    // As if the others had come after the beginning.
    let micro = Microstates::start(&Filter::Everything, &[first]).unwrap();
    if micro.faults() != Faults::Timed {
        return skip("the ends of page faults are not shown");
    }
    let program = compiled("work.c", "later-", &["-O1", "-pthread"]);
    let trap_on = |cpu: usize| {
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu.to_string()]).arg(&program).args(["touch", "4096"]).stdout(Stdio::piped());
        let mut child = command.stdin(Stdio::piped()).spawn().expect("taskset");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let threads = micro.read().unwrap();
        let thread = threads.into_iter().find(|thread| thread.tid == child.id()).expect("it waits");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(thread.data_faults >= 4096, "{thread:?}");
        // It computes between its faults: without their ends, that would count as theirs.
        thread.trap_ns() as f64 / (thread.trap_ns() + thread.user_ns()) as f64
    };
    let (seen, unseen) = (trap_on(first), trap_on(last));
    micro.follow_cpus(&cpus).unwrap();
    let now_seen = trap_on(last);
    println!("{seen} {unseen} {now_seen}");
    assert!(unseen > 0.9 && seen < 0.9 && now_seen < 0.9, "{seen} {unseen} {now_seen}");
}

#[test]
fn a_filter_that_cannot_be_loads_nothing() {
    let options = TaskOptions::new(&Filter::Comm(String::new()), &[Part::Calls]);
    assert!(matches!(TaskPrograms::load(&options), Err(Error::Input(_))));
}
