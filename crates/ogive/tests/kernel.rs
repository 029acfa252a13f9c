//! The kernel observer as series: `ogive kernel export`, and `[kernel]` in the files of a server and a broker.
//!
//! Needs programs in the kernel (root, BTF); without them each test that does says so in one line and is skipped.
#![cfg(feature = "kernel")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::Receiver;

use crate::common::brokers::{broker, url};
use crate::common::programs::{Program, all_of, hear, lines_of, run_to_end, text_of};
use crate::common::terminal::Terminal;
use crate::common::{PATIENCE, Server, eventually};

/// The program whose work is known, of the observer's own tests.
fn work() -> &'static Path {
    static WORK: OnceLock<PathBuf> = OnceLock::new();
    WORK.get_or_init(|| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("work-{}", std::process::id()));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernel/tests/work.c");
        let status = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).status();
        assert!(status.expect("cc is needed: apt-get install build-essential").success());
        program
    })
}

/// The same under a name of its own, which is one in the kernel.
fn work_named(name: &str) -> (PathBuf, String) {
    let comm = format!("{name}{}", std::process::id());
    assert!(comm.len() <= 15, "{comm}");
    let program = work().with_file_name(&comm);
    let _ = std::fs::remove_file(&program);
    std::fs::hard_link(work(), &program).unwrap();
    (program, comm)
}

/// Whether programs are let into the kernel.
fn is_possible() -> bool {
    let output = Command::new(env!("CARGO_BIN_EXE_ogive")).args(["kernel", "doctor", "--json"]).output().unwrap();
    let families: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let works = |name: &str| {
        families["families"].as_array().unwrap().iter().any(|one| one["family"] == name && one["works"] == true)
    };
    let missing = ["tp_btf", "task storage", "iter/task", "ring buffer"].into_iter().find(|name| !works(name));
    if let Some(missing) = missing {
        println!("SKIPPED: {missing} does not work here");
    }
    missing.is_none()
}

/// `ogive kernel export`, ended when dropped.
struct Export {
    program: Program,
    said: Receiver<Vec<u8>>,
}

impl Export {
    fn start(server: &Server, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
        command.args(["kernel", "export", "--to", &url(server)]).args(arguments).stderr(Stdio::piped());
        let mut program = Program(command.spawn().unwrap());
        let said = all_of(program.0.stderr.take().unwrap());
        Self { program, said }
    }

    /// Ends it by SIGTERM: whether it did well, and what it said.
    fn terminate(mut self) -> (bool, String) {
        let name = "ogive kernel export";
        self.program.signal("TERM");
        (self.program.wait(name).success(), text_of(&self.said, name))
    }
}

fn run(program: &Path, arguments: &[&str]) {
    assert!(Command::new(program).args(arguments).stdout(Stdio::null()).status().unwrap().success());
}

fn over_all(function: &str, series: &str) -> String {
    format!("sum({function}({series}[1h]))")
}

#[test]
fn what_the_kernel_measured_is_sent_exactly_once() {
    if !is_possible() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let (program, comm) = work_named("sent");
    let parts = "sched,interrupts,micro,locks,herds,calls";
    let export = Export::start(&server, &["--comm", &comm, "--observe", parts, "--budget", "100", "--label", "host=a"]);
    server.becomes("count(ogive_kernel_failed == 0)", 6.0);
    run(&program, &["calls", "20000"]);
    run(&program, &["sleep", "200"]);
    let calls = over_all("sum_over_time", "ogive_kernel_calls_total{call=\"getppid\",source=\"bpf\",host=\"a\"}");
    server.becomes(&calls, 20_000.0);
    let times = "histogram_count(sum(sum_over_time(ogive_kernel_call_seconds{call=\"getppid\"}[1h])))";
    server.becomes(times, 20_000.0);
    // Each of the two is a process with a place of its own, by its name.
    let named = format!("ogive_kernel_slice_seconds{{comm=\"{comm}\",source=\"bpf\"}}");
    let pids = format!("count(count by (pid) (sum_over_time({named}[1h])))");
    server.becomes(&pids, 2.0);
    let slept = over_all("sum_over_time", "ogive_kernel_state_nanoseconds_total{state=\"sleep\"}");
    eventually("a sleep of 200 ms", || server.number(&slept).filter(|ns| *ns >= 2e8 && *ns < 5e9));
    // Waits of a thread that its process knows to be one, for a lock that was held 400 ms.
    run(&program, &["lock"]);
    let waits = "histogram_sum(sum(sum_over_time(ogive_kernel_lock_wait_seconds{source=\"bpf\"}[1h])))";
    eventually("a wait for a lock", || server.number(waits).filter(|seconds| *seconds >= 0.3));
    for (series, least) in [
        ("ogive_kernel_interrupt_nanoseconds_total{interrupt=\"local_timer\",cpu=\"0\"}", 1.0),
        ("ogive_kernel_softirqs_total{softirq=\"TIMER\",source=\"proc\"}", 1.0),
        ("ogive_kernel_interrupts_total{source=\"proc\"}", 1.0),
        ("ogive_kernel_switches_total{source=\"bpf\",kind=\"voluntary\"}", 1.0),
    ] {
        let sum = over_all("sum_over_time", series);
        eventually(series, || server.number(&sum).filter(|sum| *sum >= least));
    }
    // What it costs, by the kernel's own measurement, and how late sleeps are.
    server.becomes("max(max_over_time(ogive_kernel_self_measured[1h]))", 1.0);
    let share = "sum(ogive_kernel_self_core_share{part=\"sched\",source=\"self\"})";
    eventually("a share of a core", || server.number(share).filter(|share| *share > 0.0 && *share < 1.0));
    let hiccups = "histogram_count(sum(sum_over_time(ogive_hiccup_seconds{source=\"self\"}[1h])))";
    eventually("hiccups", || server.number(hiccups).filter(|count| *count > 0.0));
    run(&program, &["calls", "1000"]);
    let (is_fine, said) = export.terminate();
    assert!(is_fine && said.contains(" 0 not acknowledged"), "{said}");
    // What came in the last second was sent before the end.
    server.becomes(&calls, 21_000.0);
    server.becomes(times, 21_000.0);
}

#[test]
fn over_its_budget_the_observer_sheds_in_order_and_says_so() {
    if !is_possible() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let (program, comm) = work_named("shed");
    let question = format!("burns=uprobe:{}:burn count", program.display());
    let observe = ["--observe", "sched,interrupts,micro,calls", "--ask", &question];
    let export = Export::start(&server, &[&["--comm", &comm, "--budget", "0.000001"][..], &observe].concat());
    server.becomes("sum(ogive_kernel_shed{source=\"self\"})", 4.0);
    server.becomes("ogive_kernel_shed{part=\"sched\"}", 0.0);
    server.becomes("ogive_kernel_budget_exceeded", 1.0);
    // Not after: two may be shed within the second that one sample stands for.
    let first = |part: &str| {
        let begun = format!("min(min_over_time(timestamp(ogive_kernel_shed{{part=\"{part}\"}} == 1)[1h:1s]))");
        eventually(&begun, || server.number(&begun))
    };
    let [function, call, interrupt] = ["ask_function", "calls", "interrupts"].map(first);
    assert!(function <= call && call <= interrupt, "{function}, {call}, {interrupt}");
    // The scheduler stays; what was shed sees nothing any more.
    run(&program, &["calls", "5000"]);
    run(&program, &["sleep", "100"]);
    let slices = format!("count(count by (pid) (sum_over_time(ogive_kernel_slice_seconds{{comm=\"{comm}\"}}[1h])))");
    server.becomes(&slices, 2.0);
    assert_eq!(server.number("sum(sum_over_time(ogive_kernel_calls_total{call=\"getppid\"}[1h]))"), None);
    let (is_fine, said) = export.terminate();
    assert!(is_fine, "{said}");
    let shed = said.lines().filter_map(|line| line.split_once(" took more than its budget and does without "));
    let order: Vec<&str> = shed.filter_map(|(_, part)| part.split(' ').next()).collect();
    // What costs each call of a function goes first, and what costs each system call next.
    assert_eq!(order, ["ask_function", "calls", "micro", "interrupts"], "{said}");
}

#[test]
fn a_server_and_a_broker_observe_the_kernel_of_their_machine() {
    if !is_possible() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (program, comm) = work_named("role");
    let questions =
        "ask = [\"asked=syscall:nanosleep hist latency by comm, retval\", \"asked_all=syscall:* count by call\"]";
    let kernel =
        format!("[kernel]\nobserve = [\"sched\", \"micro\"]\n{questions}\ncomm = \"{comm}\"\nbudget = \"50\"\n");
    let config = directory.path().join("ogive.toml");
    let data = directory.path().join("data");
    std::fs::write(&config, format!("listen = \"127.0.0.1:0\"\ndata = \"{}\"\n{kernel}", data.display())).unwrap();
    let check = Command::new(env!("CARGO_BIN_EXE_ogive")).args(["config", "check"]).arg(&config).status().unwrap();
    assert!(check.success());
    let server = Server::try_command(directory.path(), &["serve", "-c", config.to_str().unwrap()]).unwrap();
    server.becomes("count(ogive_kernel_failed == 0)", 3.0);
    run(&program, &["sleep", "100"]);
    run(&program, &["calls", "3000"]);
    // A question that stays, each event once.
    let asked = "sum(sum_over_time(asked_all_total{call=\"getppid\",source=\"bpf\"}[1h]))";
    server.becomes(asked, 3000.0);
    let slices = |more: &str| {
        let series = format!("ogive_kernel_slice_seconds{{comm=\"{comm}\"{more}}}");
        format!("histogram_count(sum(sum_over_time({series}[1h])))")
    };
    eventually("slices of the server", || server.number(&slices("")).filter(|count| *count > 0.0));

    let of_broker = tempfile::tempdir().unwrap();
    let path = of_broker.path().join("broker.toml");
    let spool = of_broker.path().join("spool");
    let text = format!(
        "name = \"edge\"\nlisten = \"127.0.0.1:0\"\n{kernel}[spool]\ndirectory = \"{}\"\n[[destination]]\nname = \"dc\"\nendpoints = [{:?}]\n",
        spool.display(),
        url(&server)
    );
    std::fs::write(&path, text).unwrap();
    let _broker = broker(&path);
    eventually("slices of the broker", || {
        run(&program, &["sleep", "100"]);
        server.number(&slices(",broker=\"edge\"")).filter(|count| *count > 0.0)
    });
}

#[test]
fn without_the_right_the_server_starts_and_counts_what_proc_shows() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new("setpriv");
    // No capability at all: the user may be root all the same.
    command.args(["--bounding-set", "-all", "--inh-caps", "-all", env!("CARGO_BIN_EXE_ogive")]);
    let data = directory.path().to_str().unwrap();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data", data, "--kernel-observe", "sched,micro"]);
    let (server, lines) =
        Server::from_command(directory.path(), command).unwrap_or_else(|said| panic!("no start: {said}"));
    // Before it serves or behind that.
    let words = "the kernel observer does without";
    let mut said: Vec<String> = server.said.lines().filter(|line| line.contains(words)).map(str::to_owned).collect();
    while said.len() < 2 {
        said.push(hear(&lines, words));
    }
    assert!(said[0].contains("sched") && said[0].contains("CAP_BPF"), "{said:?}");
    let answers = |query: &str, expected: &str| {
        let head = format!("GET /api/v1/query?query={} HTTP/1.1", crate::common::form(query));
        eventually(query, || {
            let (_, answer) = server.request(&head, b"").ok()?;
            answer.contains(expected).then_some(())
        });
    };
    answers("sum(ogive_kernel_failed)", "\"2\"");
    answers("sum(sum_over_time(ogive_kernel_switches_total{source=\"proc\"}[1h])) > bool 0", "\"1\"");
    answers("sum(sum_over_time(ogive_kernel_on_cpu_nanoseconds_total{source=\"proc\"}[1h])) > bool 0", "\"1\"");
    let delays = std::fs::read_to_string("/proc/sys/kernel/task_delayacct").unwrap_or_default();
    if delays.trim() != "1" {
        answers("absent(max_over_time(ogive_kernel_block_io_delay_nanoseconds_total[1h]))", "\"1\"");
    }
}

/// `ogive kernel ask`, once it counts; ended when dropped.
struct Ask {
    program: Program,
    printed: Receiver<Vec<u8>>,
    said: Receiver<String>,
}

impl Ask {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
        command.args(["kernel", "ask", "--for", "10m"]).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::from_command(&mut command)
    }

    /// Waits until it counts.
    fn from_command(command: &mut Command) -> Self {
        let mut program = Program(command.spawn().unwrap());
        let printed = all_of(program.0.stdout.take().unwrap());
        let said = lines_of(program.0.stderr.take().unwrap());
        assert_eq!(said.recv_timeout(PATIENCE), Ok("counting".into()));
        Self { program, printed, said }
    }

    /// Ends it as Ctrl-C does: whether it did well, what it printed, and what it said.
    fn interrupt(mut self) -> (bool, String, String) {
        self.program.signal("INT");
        let status = self.program.wait("ogive kernel ask");
        let said: Vec<String> = std::iter::from_fn(|| self.said.recv_timeout(PATIENCE).ok()).collect();
        (status.success(), text_of(&self.printed, "ogive kernel ask"), said.join("\n"))
    }
}

/// What the stored stacks of a name come to: samples, or microseconds.
fn stored_stacks(server: &Server, comm: &str, kind: &str) -> u64 {
    let selector = format!("ogive_kernel_stacks{{comm=\"{comm}\",kind=\"{kind}\",source=\"bpf\"}}");
    let (_, body) = server.get(&format!("/v1/cells?match[]={}", crate::common::form(&selector)));
    let samples = body["data"]["samples"].as_array().cloned().unwrap_or_default();
    let lines = samples.iter().filter_map(|sample| sample["text"].as_str()).flat_map(str::lines);
    lines.map(|line| line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?}")).1.parse::<u64>().unwrap()).sum()
}

#[test]
fn stacks_are_texts_that_add_up() {
    if !is_possible() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let (program, comm) = work_named("stack");
    let export = Export::start(&server, &["--comm", &comm, "--observe", "stacks", "--budget", "100"]);
    server.becomes("count(ogive_kernel_failed{part=\"stacks\"} == 0)", 1.0);
    run(&program, &["burn", "1000"]);
    run(&program, &["sleep", "300"]);
    let (is_fine, said) = export.terminate();
    assert!(is_fine && said.contains(" 0 not acknowledged"), "{said}");
    // A second of CPU time, 49 times a second.
    let samples = stored_stacks(&server, &comm, "on_cpu");
    assert!((20..=100).contains(&samples), "{samples}");
    let waited = stored_stacks(&server, &comm, "off_cpu");
    assert!(waited >= 300_000, "{waited}");
    // And of one recording, 99 times a second.
    let (program, comm) = work_named("flame");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
    command.args(["kernel", "flame", "--seconds", "100", "--comm", &comm, "--to", &url(&server)]);
    let flame = Ask::from_command(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    run(&program, &["burn", "1000"]);
    let (is_fine, _, said) = flame.interrupt();
    assert!(is_fine && said.contains(" 0 not acknowledged"), "{said}");
    let samples = stored_stacks(&server, &comm, "on_cpu");
    assert!((40..=200).contains(&samples), "{samples}");
    // A process that ends before is the end: its stacks are sent, and somebody is told.
    let mut burns = Command::new(&program).args(["burn", "5000"]).stdout(Stdio::null()).spawn().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
    command.args(["kernel", "flame", "--seconds", "3600", "-p", &burns.id().to_string(), "--to", &url(&server)]);
    let (status, _, said) = run_to_end(command);
    assert!(status.success(), "{said}");
    let line = format!("ogive: process {} has ended\n", burns.id());
    assert!(said.contains(&line) && said.contains(" 0 not acknowledged"), "{said}");
    burns.wait().unwrap();
    // Those of a whole machine are refused.
    let output = Command::new(env!("CARGO_BIN_EXE_ogive"))
        .args(["kernel", "export", "--observe", "stacks", "--to", &url(&server)])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("name one"), "{said}");
}

#[test]
fn a_question_is_answered_and_its_answer_kept_as_series() {
    if !is_possible() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let (program, comm) = work_named("ask");
    let to = url(&server);
    let keep = ["--comm", &comm, "--to", &to, "--keep"];
    let counted = Ask::start(&[&["syscall:getppid count by comm"][..], &keep, &["asked"]].concat());
    let timed = Ask::start(&[&["syscall:getppid hist latency by call, retval > 0"][..], &keep, &["took"]].concat());
    let printed = Ask::start(&["syscall:getppid hist latency by comm, pid - pid", "--json", "--comm", &comm]);
    run(&program, &["calls", "20000"]);
    let count = format!("sum(sum_over_time(asked_total{{comm=\"{comm}\",source=\"bpf\"}}[1h]))");
    let times = "histogram_count(sum(sum_over_time(took{call=\"getppid\",retval_0=\"1\"}[1h])))";
    server.becomes(&count, 20_000.0);
    server.becomes(times, 20_000.0);
    run(&program, &["calls", "1000"]);
    for ask in [counted, timed] {
        let (is_fine, _, said) = ask.interrupt();
        assert!(is_fine && said.contains(" 0 not acknowledged"), "{said}");
    }
    server.becomes(&count, 21_000.0);
    server.becomes(times, 21_000.0);
    let (is_fine, printed, said) = printed.interrupt();
    assert!(is_fine, "{said}");
    let answer: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let group = &answer["groups"][0];
    assert_eq!((&group["key"]["comm"], &group["key"]["pid - pid"]), (&comm.as_str().into(), &0.into()));
    assert_eq!((&group["count"], &answer["lost"]["unmatched"]), (&21_000.into(), &0.into()));
    let in_bins: u64 = group["bins"].as_array().unwrap().iter().map(|bin| bin[2].as_u64().unwrap()).sum();
    assert_eq!((in_bins, &answer["unit"]), (21_000, &"s".into()));
}

/// With tracefs, in a mount namespace of its own: what others see of the machine does not change.
fn with_tracefs() -> Command {
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", "mount -t tracefs none /sys/kernel/tracing && exec \"$@\"", "sh"]);
    command
}

#[test]
fn records_of_tracepoints_and_ticks_of_an_interval_are_counted() {
    let has_tracefs = with_tracefs().arg("true").output().is_ok_and(|output| output.status.success());
    if !is_possible() || !has_tracefs {
        return println!("SKIPPED: tracefs cannot be mounted here");
    }
    let (program, comm) = work_named("record");
    let ask = |question: &str, arguments: &[&str]| -> serde_json::Value {
        let mut command = with_tracefs();
        command.arg(env!("CARGO_BIN_EXE_ogive")).args(["kernel", "ask", question, "--json", "--for", "10m"]);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let ask = Ask::from_command(&mut command);
        run(&program, &["calls", "20000"]);
        let (is_fine, printed, said) = ask.interrupt();
        assert!(is_fine, "{said}");
        serde_json::from_str(&printed).unwrap()
    };
    let answer = ask("tracepoint:raw_syscalls:sys_enter /id == 110/ count by comm", &["--comm", &comm]);
    let group = &answer["groups"][0];
    assert_eq!((&group["key"]["comm"], &group["count"]), (&comm.as_str().into(), &20_000.into()));
    let answer = ask("tracepoint:sched:sched_process_exec count by comm, filename, pid - old_pid", &["--comm", &comm]);
    let path: String = program.to_str().unwrap().chars().take(31).collect();
    let key = &answer["groups"][0]["key"];
    assert_eq!((&key["comm"], &key["filename"]), (&comm.as_str().into(), &path.as_str().into()), "{answer}");
    // On one CPU, and not more often than it should.
    let answer = ask("interval:1ms count by cpu", &[]);
    let seconds = answer["seconds"].as_f64().unwrap();
    let (groups, count) = (answer["groups"].as_array().unwrap(), answer["groups"][0]["count"].as_u64().unwrap());
    assert_eq!(groups.len(), 1, "{answer}");
    assert!(count > 0 && count as f64 <= seconds * 1000.0 + 1000.0, "{answer}");
}

#[test]
fn what_cannot_be_asked_is_refused_in_a_line() {
    let without_right = || {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-all", "--inh-caps", "-all", env!("CARGO_BIN_EXE_ogive")]);
        command
    };
    let output = without_right().args(["kernel", "ask", "tp_btf:sched_switch count"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.lines().count() == 1 && said.contains("CAP_BPF"), "{said}");
    for (arguments, expected) in [
        (&["tp_btf:sched_switch cuont"][..], "position 21: \"cuont\" where count, sum or hist should be"),
        (&["tp_btf:sched_swich count"], "did you mean \"sched_switch\"?"),
        (&["syscall:* sum retval", "--keep", "a", "--to", "http://127.0.0.1:1"], "keep hist instead"),
        (&["syscall:* count", "--keep", "a b", "--to", "http://127.0.0.1:1"], "no name of series"),
        (&["syscall:* hist retval", "--groups", "5000"], "at most 4096 groups"),
        (&["syscall:* count", "--keep", "a"], "--to"),
    ] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_ogive")).args(["kernel", "ask"]).args(arguments).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn mistakes_in_the_table_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let check = |table: &str| {
        let config = directory.path().join("ogive.toml");
        std::fs::write(&config, format!("[kernel]\n{table}\n")).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_ogive")).args(["config", "check"]).arg(&config).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    assert!(check("observe = [\"sched\", \"micro\"]\nby = \"cgroup\"\ngroups = 10\nbudget = \"0.5\"").0);
    for (table, said) in [
        ("observe = \"everything\"", "sched"),
        ("observes = \"sched\"", "observe"),
        ("budget = \"0\"", "percentage"),
        ("groups = 0", "1..=1024"),
        ("by = \"user\"", "cgroup"),
        ("ask = \"reads\"", "NAME=QUESTION"),
        ("ask = [\"reads=syscall:read cuont\"]", "count, sum or hist"),
        ("ask = [\"a=syscall:read sum retval\"]", "keep hist instead"),
        ("ask = [\"1=syscall:read count\"]", "no name of series"),
    ] {
        let (is_fine, error) = check(table);
        assert!(!is_fine && error.contains(said), "{table}: {error}");
    }
}

/// The threads and their voluntary switches on a screen of `ogive kernel micro`.
fn switches(screen: &str) -> Vec<u64> {
    let head = screen.lines().position(|line| line.contains("TID COMM")).unwrap_or_else(|| panic!("{screen}"));
    let rows = screen.lines().skip(head + 1).take_while(|line| !line.contains("q quit"));
    // A name may have spaces: from the right, VCX is the fifth.
    rows.filter_map(|line| line.split_whitespace().rev().nth(4)?.parse().ok()).collect()
}

#[test]
fn microstates_are_a_live_table_that_is_sorted_by_keys() {
    if !is_possible() {
        return;
    }
    let mut busy = Command::new("yes").stdout(Stdio::null()).spawn().unwrap();
    let mut terminal = Terminal::start("kernel micro");
    let screen = terminal.until("the busiest thread first", |screen| {
        let text = screen.contents();
        let first = text.lines().nth(1).is_some_and(|line| line.contains(" yes "));
        screen.alternate_screen() && first && text.contains("threads by busy or ready")
    });
    assert!(screen.lines().count() > 2, "{screen}");
    terminal.press(b"v");
    terminal.until("the order of switches", |screen| {
        let text = screen.contents();
        let switches = switches(&text);
        text.contains("threads by VCX") && switches.len() > 2 && switches.is_sorted_by(|a, b| a >= b) && switches[0] > 0
    });
    terminal.press(b"q");
    assert!(terminal.end());
    busy.kill().unwrap();
    busy.wait().unwrap();
    // A pipe gets a second of it.
    let output = Command::new(env!("CARGO_BIN_EXE_ogive")).args(["kernel", "micro", "--rows", "3"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.starts_with("    PID ") && text.lines().count() == 4, "{text}");
}

#[test]
fn the_same_words_in_four_languages_take_ever_more_calls() {
    if !is_possible() {
        return;
    }
    let compare = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/complexity/compare");
    let output = Command::new(compare).env("OGIVE", env!("CARGO_BIN_EXE_ogive")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    if text.contains("uprobe") {
        println!("SKIPPED: uprobes do not work here: {text}");
        return;
    }
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next().expect("a language").to_owned();
        (name, words.map(|word| word.parse().unwrap_or_else(|_| panic!("{text}"))).collect::<Vec<u64>>())
    };
    let rows: Vec<(String, Vec<u64>)> = text.lines().skip(1).map(row).collect();
    let names: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["C", "Perl", "Python", "Java"]);
    for column in 0..3 {
        let counts: Vec<u64> = rows.iter().map(|(_, counts)| counts[column]).collect();
        assert!(counts[0] > 0 && counts.is_sorted_by(|a, b| a < b), "{text}");
    }
}
