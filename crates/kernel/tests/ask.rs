//! Questions answered by the kernel of this machine, about a program whose calls are known.
#![cfg(feature = "bpf")]

mod common;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use ogive_hist::Histogram;
use ogive_kernel::ask::{Group, Key, Losses, Observer, Options, compile_here, parse};
use ogive_kernel::functions::{Functions, Stopped, linked};
use ogive_kernel::machine::Source;
use ogive_kernel::{Filter, doctor};

use common::{all_work, compiled, skip};

/// Without these nothing here can run: a line, and the test is skipped.
fn is_possible() -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    all_work(doctor::c_library(&maps), &["tp_btf", "task storage", "uprobe"])
}

/// `ask_work.c`, compiled once.
fn work() -> &'static Path {
    static WORK: OnceLock<PathBuf> = OnceLock::new();
    WORK.get_or_init(|| compiled("ask_work.c", "ask", &["-O1", "-fno-optimize-sibling-calls"]))
}

fn started() -> Child {
    Command::new(work()).stdin(Stdio::piped()).spawn().unwrap()
}

/// No tracefs.
struct NoFiles;

impl Source for NoFiles {
    fn read(&self, _: &str) -> Option<String> {
        None
    }

    fn list(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

/// Loads a question about the work, runs the work, and reads the answer.
fn answer(question: &str, groups: u32) -> (Vec<Group>, Losses) {
    let text = question.replace("WORK", work().to_str().unwrap());
    let compiled = match compile_here(&parse(&text).unwrap(), &NoFiles).unwrap() {
        Ok(compiled) => compiled,
        Err(mistake) => panic!("{}", mistake.shown_in(&text)),
    };
    let mut child = started();
    let options = Options { filter: Filter::Process(child.id()), groups, cpus: Vec::new() };
    let mut observer = Observer::start(compiled, &options).unwrap_or_else(|error| panic!("{text}: {error}"));
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());
    observer.stop();
    let groups = observer.drain().unwrap();
    assert!(observer.drain().unwrap().is_empty(), "what was taken is not taken twice");
    (groups, observer.losses().unwrap())
}

/// The program of Debian's Python, whose interpreter has USDT probes.
fn python() -> Option<&'static Path> {
    let program = Path::new("/usr/bin/python3");
    let has_probes = |program: &Path| {
        let text = format!("usdt:{}:python:gc__start count", program.display());
        matches!(compile_here(&parse(&text).unwrap(), &NoFiles), Ok(Ok(_)))
    };
    has_probes(program).then_some(program)
}

/// The only group's count.
fn count(question: &str) -> u64 {
    let (groups, losses) = answer(question, 8);
    assert_eq!(losses, Losses::default(), "{question}");
    assert!(groups.len() <= 1, "{question}: {groups:?}");
    groups.first().map_or(0, |group| group.count)
}

#[test]
fn calls_are_counted_exactly_and_filters_choose_among_them() {
    if !is_possible() {
        return;
    }
    for (question, expected) in [
        ("uprobe:WORK:measured count", 1000),
        ("uprobe:WORK:measured /arg0 >= 250000/ count", 500),
        ("uprobe:WORK:measured /arg0 % 2 == 0 && !(arg0 > (100 * 10 / 2) * 500)/ count", 251),
        ("uprobe:WORK:measured /str(arg1) == \"every fourth\" || arg0 == 1/ count", 251),
        ("uprobe:WORK:measured /str(arg1) != \"usual\"/ count", 250),
        ("uretprobe:WORK:failing /i32(retval) < 0/ count", 249),
        ("uretprobe:WORK:nested /retval == 6 && arg0 == 5 && latency > 0ns && latency < 100s/ count", 100),
        ("syscall:getppid count", 500),
        ("syscall:getppid /retval > 0 && latency > 0ns/ count", 500),
        ("tp_btf:sys_enter /id == 110/ count", 500),
        ("tp_btf:sys_enter /regs->orig_ax == 110 && task->tgid == pid/ count by pid", 500),
        ("tp_btf:sched_process_exit /p->tgid == pid && p->comm == comm/ count", 1),
    ] {
        assert_eq!(count(question), expected, "{question}");
    }
}

#[test]
fn histograms_are_those_of_the_library_bit_for_bit() {
    if !is_possible() {
        return;
    }
    for (question, value) in [
        ("uprobe:WORK:measured hist arg0", (|at| at * at) as fn(i64) -> i64),
        ("uretprobe:WORK:measured hist retval", |at| at * at - 500),
        ("uprobe:WORK:measured hist -arg0 * 3", |at| -at * at * 3),
        ("uprobe:WORK:measured hist (arg0 - 300000) / 7", |at| (at * at - 300_000) / 7),
    ] {
        let (groups, losses) = answer(question, 1);
        let mut expected = Histogram::log_linear();
        (0..1000).for_each(|at| expected.record_int(value(at), 0));
        let found = groups[0].values.as_ref().unwrap();
        assert_eq!((&found.positive, &found.negative), (&expected.positive, &expected.negative), "{question}");
        assert_eq!((found.zero, found.total(), found.sum), (expected.zero, 1000, expected.sum), "{question}");
        assert_eq!(losses, Losses::default());
    }
}

#[test]
fn keys_have_groups_of_their_own_and_the_rest_are_other() {
    if !is_possible() {
        return;
    }
    let text = |text: &str| Key::Text(text.to_owned());
    let (groups, _) = answer("uprobe:WORK:measured sum arg0 by str(arg1), pid == tid", 8);
    let found: Vec<_> = groups.iter().map(|group| (group.key.clone().unwrap(), group.count, group.sum)).collect();
    let squares = |wanted: fn(&i64) -> bool| (0..1000_i64).filter(wanted).map(|at| at * at).sum::<i64>();
    let expected = [
        (vec![text("usual"), Key::Number(1)], 750, squares(|at| at % 4 != 0)),
        (vec![text("every fourth"), Key::Number(1)], 250, squares(|at| at % 4 == 0)),
    ];
    assert_eq!(found, expected);
    let (groups, losses) = answer("uprobe:WORK:measured count by arg0", 10);
    assert_eq!((groups.len(), groups[10].key.clone(), groups[10].count), (11, None, 990));
    assert_eq!(losses, Losses::default());
    // Calls within calls are distinguished by where they are on the stack.
    let (groups, losses) = answer("uretprobe:WORK:nested hist latency by arg0, retval", 8);
    let mut keys: Vec<_> = groups.iter().map(|group| group.key.clone().unwrap()).collect();
    keys.sort();
    let depths = (0..6).map(|depth| vec![Key::Number(depth), Key::Number(depth + 1)]);
    assert_eq!(keys, depths.collect::<Vec<_>>());
    assert!(groups.iter().all(|group| group.count == 100 && group.values.as_ref().unwrap().total() == 100));
    assert_eq!(losses, Losses::default());
    let (groups, _) = answer("syscall:* count by call, comm", 64);
    let comm = work().file_name().unwrap().to_str().unwrap();
    assert_eq!((groups[0].key.clone().unwrap(), groups[0].count), (vec![text("getppid"), text(comm)], 500));
}

#[test]
fn what_cannot_be_read_is_counted_and_shown() {
    if !is_possible() {
        return;
    }
    let (groups, losses) = answer("uprobe:WORK:measured count by str(arg0)", 8);
    assert!(groups.is_empty(), "{groups:?}");
    assert_eq!(losses, Losses { unreadable: 1000, ..Losses::default() });
    // The left side alone decides.
    assert_eq!(count("uprobe:WORK:measured /arg0 < 0 && str(arg0) == \"x\"/ count"), 0);
    assert_eq!(count("uprobe:WORK:measured /arg0 >= 0 || (1 / 0)/ count"), 1000);
}

#[test]
fn what_this_kernel_does_not_have_is_refused_with_what_may_be_meant() {
    if !is_possible() {
        return;
    }
    for (question, said) in [
        ("tp_btf:sched_swich count", "\"sched_switch\""),
        ("tp_btf:sched_switch count by nxt->comm", "\"next\""),
        ("tp_btf:sched_switch count by next->com", "\"comm\""),
        ("tp_btf:sched_switch hist next->se", "no value"),
        ("tp_btf:sched_switch hist latency", "uretprobe:FILE:FUNCTION"),
        ("tp_btf:sched_switch count by arg9", "4 arguments"),
    ] {
        let mistake = compile_here(&parse(question).unwrap(), &NoFiles).unwrap().unwrap_err();
        println!("{}", mistake.shown_in(question));
        assert!(mistake.message.contains(said), "{question}: {}", mistake.message);
    }
    let text = format!("uprobe:{}:measurd count", work().display());
    let compiled = compile_here(&parse(&text).unwrap(), &NoFiles).unwrap().unwrap();
    let options = Options { filter: Filter::Everything, groups: 1, cpus: Vec::new() };
    let error = Observer::start(compiled, &options).unwrap_err().to_string();
    assert!(error.contains("did you mean \"measured\"?"), "{error}");
}

#[test]
fn usdt_probes_have_the_arguments_of_their_notes_wherever_they_are() {
    if !is_possible() {
        return;
    }
    for (question, expected) in [
        ("usdt:WORK:work:step count", 500),
        ("usdt:WORK:work:step /arg0 < 300 && arg1 == -arg0 && arg4 == -7 && str(arg2) == \"usual\"/ count", 300),
        ("usdt:WORK:work:step /arg0 == -arg1 * 1000 && arg4 == -arg1 && arg3 == 5/ count", 200),
        ("usdt:WORK:work:step /arg3 == i8(arg1)/ count", 300),
        // Reached only while the kernel has raised its semaphore.
        ("usdt:WORK:work:asked /arg0 >= 150/ count", 50),
    ] {
        assert_eq!(count(question), expected, "{question}");
    }
    let (groups, losses) = answer("usdt:WORK:work:step hist arg0 by str(arg2)", 8);
    let mut expected = Histogram::log_linear();
    (0..200).for_each(|at| expected.record_int(at * 1000, 0));
    let found = groups.iter().find(|group| group.key == Some(vec![Key::Text("every fourth".to_owned())])).unwrap();
    let found = found.values.as_ref().unwrap();
    assert_eq!((&found.positive, found.zero, found.sum), (&expected.positive, 1, expected.sum));
    assert_eq!((groups.len(), losses), (2, Losses::default()));
    let mistake = |question: &str| {
        let text = question.replace("WORK", work().to_str().unwrap());
        compile_here(&parse(&text).unwrap(), &NoFiles).unwrap().unwrap_err().message
    };
    assert!(mistake("usdt:WORK:work:stop count").contains("did you mean \"work:step\"?"));
    assert!(mistake("usdt:WORK:work:step count by arg5").contains("5 arguments"));
    assert!(mistake("usdt:/nowhere:work:step count").contains("there is no file"));
    assert!(mistake("usdt:/etc/passwd:work:step count").contains("no program or library"));
}

#[test]
fn usdt_probes_of_a_program_of_the_distribution_are_counted() {
    let Some(program) = python().filter(|_| is_possible()) else {
        skip("USDT probes of python3: it has none here");
        return;
    };
    // At its end it collects all generations.
    let script = "import gc, sys\ngc.disable()\nsys.stdin.readline()\nfor _ in range(1234): gc.collect(1)\n";
    let text = format!("usdt:{}:python:gc__start count by arg0", program.display());
    let compiled = compile_here(&parse(&text).unwrap(), &NoFiles).unwrap().unwrap();
    let mut child = Command::new(program).args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
    let options = Options { filter: Filter::Process(child.id()), groups: 512, cpus: Vec::new() };
    let mut observer = Observer::start(compiled, &options).unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());
    observer.stop();
    let groups = observer.drain().unwrap();
    let young = groups.iter().find(|group| group.key == Some(vec![Key::Number(1)]));
    assert_eq!(young.map(|group| group.count), Some(1234), "{groups:?}");
}

#[test]
fn calls_of_functions_are_counted_exactly_by_where_they_come_from() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    if !is_possible() || !all_work(doctor::c_library(&maps), &["uprobe.multi"]) {
        return;
    }
    let mut command = Command::new(work());
    command.stdin(Stdio::piped());
    Stopped::prepare(&mut command);
    let mut child = command.spawn().unwrap();
    let stopped = Stopped::wait(&child).unwrap();
    let mut functions = Functions::start(child.id(), &linked(work())).unwrap();
    // Of another process nothing counts.
    let mut other = started();
    other.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(other.wait().unwrap().success());
    drop(stopped);
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());
    let counted = functions.drain().unwrap();
    let of = |name: &str| {
        let found =
            counted.iter().find(|function| function.name == name).unwrap_or_else(|| panic!("{name}: {counted:?}"));
        (found.outside, found.inside)
    };
    assert_eq!((of("measured"), of("nested"), of("failing")), ((0, 1000), (0, 600), (0, 1000)));
    // The C library begins the program, and the program calls the C library.
    assert_eq!((of("main"), of("syscall"), of("read")), ((1, 0), (500, 0), (1, 0)));
    assert_eq!(functions.unknown_callers().unwrap(), 0);
    assert!(functions.drain().unwrap().is_empty(), "everything was taken");
}
