//! `ogive clock`, `bench` and `watch` as a user runs them, and the alert on a server's own clock series.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Server, eventually};
use serde_json::Value;

fn ogive() -> Command {
    Command::new(env!("CARGO_BIN_EXE_ogive"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A directory as the kernel has one for its clock sources.
fn kernel(current: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    switch(directory.path(), current);
    std::fs::write(directory.path().join("available_clocksource"), "tsc kvm-clock hpet \n").unwrap();
    directory
}

/// As sysfs does it: the file is never empty for a reader.
fn switch(directory: &Path, name: &str) {
    let new = directory.join("new");
    std::fs::write(&new, format!("{name}\n")).unwrap();
    std::fs::rename(&new, directory.join("current_clocksource")).unwrap();
}

fn current(directory: &Path) -> String {
    std::fs::read_to_string(directory.join("current_clocksource")).unwrap().trim().to_owned()
}

fn one_object(output: &Output) -> Value {
    let out = text(&output.stdout);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out} {}", text(&output.stderr)))
}

#[test]
fn clock_tells_all_figures_and_one_sentence() {
    let output = ogive().args(["clock", "--json"]).output().unwrap();
    let object = one_object(&output);
    let object = object.as_object().unwrap();
    assert!(object.values().all(|value| !value.is_object() && !value.is_array()), "it is flat: {object:?}");
    let trusted = object["trusted"].as_bool().unwrap();
    assert_eq!(output.status.code(), Some(if trusted { 0 } else { 1 }));
    assert_eq!(trusted, object["findings"] == "");
    assert!(object["sentence"].as_str().unwrap().ends_with('.'));
    for key in ["frequency_hertz", "quantum_seconds", "cpus", "order_seconds", "error_seconds"] {
        assert!(object[key].as_f64().unwrap() > 0.0, "{key}: {object:?}");
    }
    for clock in ["ticks", "ticks_ordered", "now_unordered", "now", "monotonic", "realtime", "monotonic_coarse"]
        .into_iter()
        .chain(["std_instant", "monotonic_syscall"])
    {
        let at = |key: String| object[&key].as_f64().unwrap_or_else(|| panic!("{key}: {object:?}"));
        let [p10, median, p90] = ["_p10", "", "_p90"].map(|part| at(format!("read_{clock}{part}_seconds")));
        assert!(0.0 < p10 && p10 <= median && median <= p90 && median < 1.0, "{clock}: {p10} {median} {p90}");
    }
}

#[test]
fn a_slow_clock_source_is_a_finding() {
    let directory = kernel("hpet");
    let output = ogive().arg("clock").arg("--clocksource-dir").arg(directory.path()).output().unwrap();
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{out}");
    let last = out.lines().last().unwrap();
    // Where the counter passes the cross-checks, Ogive keeps it; every other program waits for the slow source.
    let begins = ["finding: Do not trust", "finding: Trust Ogive's own readings"];
    assert!(begins.iter().any(|begin| last.starts_with(begin)), "{out}");
    assert!(last.contains("hpet") && last.contains("administrator"), "{out}");
    assert!(out.contains("OS clock source        hpet (available: tsc kvm-clock hpet)"), "{out}");
    assert!(out.contains("CLOCK_MONOTONIC") && out.contains("std::time::Instant"), "{out}");
}

#[test]
fn bench_compares_every_clock_in_every_section() {
    let output = ogive().args(["clock", "bench", "--threads", "0,2", "--seconds", "0.01", "--json"]).output().unwrap();
    let object = one_object(&output);
    assert_eq!(output.status.code(), Some(0), "{object}");
    let rows = object["contention"].as_array().unwrap();
    let clocks = rows.iter().filter(|row| row["threads"] == 2).count();
    assert!(clocks >= 11 && rows.len() == 2 * clocks, "{object}");
    for clock in ["ticks", "now", "monotonic_raw", "monotonic_syscall", "std_instant", "quanta"] {
        let row = rows.iter().find(|row| row["clock"] == clock && row["threads"] == 2).expect(clock);
        assert!(row["count"].as_u64().unwrap() >= 512, "{row}");
        let [p50, p999, max] = ["p50_seconds", "p999_seconds", "max_seconds"].map(|key| row[key].as_f64().unwrap());
        assert!(p50 <= p999 && p999 <= max * 1.06 && max > 0.0, "{row}");
        assert!(row["steal_ratio"].is_null() || row["steal_ratio"].as_f64().unwrap() <= 1.0, "{row}");
        assert!(object["delays"].as_array().unwrap().iter().filter(|row| row["clock"] == clock).count() == 3);
    }
    let handoffs = object["handoffs"].as_array().unwrap();
    if object["cpus"].as_u64().unwrap() > 1 {
        let now = handoffs.iter().find(|row| row["clock"] == "now").unwrap();
        assert!(now["handoffs"].as_u64().unwrap() > 0 && now["backward"] == 0, "{now}");
    }
    let wrong = ogive().args(["clock", "bench", "--threads", "0,9999"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("0 to 1024"), "{}", text(&wrong.stderr));
}

#[test]
fn bench_switches_through_the_sources_and_back() {
    let directory = kernel("kvm-clock");
    let run = |more: &[&str]| {
        let mut command = ogive();
        command.args(["clock", "bench", "--sources", "--threads", "0", "--seconds", "0.01"]).args(more);
        command.arg("--clocksource-dir").arg(directory.path()).output().unwrap()
    };
    let output = run(&["--json"]);
    let (object, warning) = (one_object(&output), text(&output.stderr));
    let sources: std::collections::BTreeSet<&str> =
        object["contention"].as_array().unwrap().iter().map(|row| row["os_clocksource"].as_str().unwrap()).collect();
    assert_eq!(sources.into_iter().collect::<Vec<_>>(), ["hpet", "kvm-clock", "tsc"]);
    assert_eq!(current(directory.path()), "kvm-clock");
    assert!(warning.contains("whole machine") && warning.contains("echo kvm-clock >"), "{warning}");
    // Without a right to write it is a sentence, and nothing was touched.
    std::fs::remove_file(directory.path().join("current_clocksource")).unwrap();
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("does not say"), "{}", text(&output.stderr));
}

/// Reads of the file `current_clocksource`, until it is `name`.
fn until_current(directory: &Path, name: &str) {
    let what = format!("the clock source {name}");
    eventually(&what, || (current(directory) == name).then_some(()));
}

#[test]
fn a_signal_in_the_middle_of_a_bench_puts_the_source_back() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let directory = kernel("kvm-clock");
        let mut child = ogive()
            .args(["clock", "bench", "--sources", "--threads", "0", "--seconds", "60", "--clocksource-dir"])
            .arg(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until_current(directory.path(), "tsc");
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert_eq!(current(directory.path()), "kvm-clock");
    }
}

/// A watch, and its lines as they come.
fn watch(directory: &Path, more: &[&str]) -> (Child, impl Iterator<Item = Value>) {
    let mut child = ogive()
        .args(["clock", "watch", "--json", "--clocksource-dir"])
        .arg(directory)
        .args(more)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    (child, lines.map(|line| serde_json::from_str(&line).unwrap()))
}

#[test]
fn watch_tells_a_switch_with_what_it_does_to_the_numbers() {
    let directory = kernel("tsc");
    let (mut child, mut lines) = watch(directory.path(), &["--for", "5m"]);
    let start = lines.next().unwrap();
    assert_eq!((&start["event"], &start["os_clocksource"]), (&"start".into(), &"tsc".into()), "{start}");
    assert!(start["read_monotonic_seconds"].as_f64().unwrap() > 0.0, "{start}");
    let mut before = "tsc".to_owned();
    for name in ["kvm-clock", "tsc"] {
        switch(directory.path(), name);
        // The machine's own clock may have events of its own in between.
        let event = lines.find(|line| line["event"] == "clock_source").expect("the watch goes on");
        assert_eq!(event["os_clocksource_before"], before, "{event}");
        assert_eq!(event["os_clocksource"], name, "{event}");
        assert!(event["time"].as_str().unwrap().ends_with('Z'), "{event}");
        for key in ["read_now_seconds_before", "read_now_seconds", "read_monotonic_seconds"] {
            assert!(event[key].as_f64().unwrap() > 0.0, "{event}");
        }
        assert!(event["step_monotonic_seconds"].is_number() || event["step_monotonic_seconds"].is_null(), "{event}");
        before = name.to_owned();
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_quiet_watch_says_how_it_began_and_ends_in_time() {
    let directory = kernel("tsc");
    let from = Instant::now();
    let (mut child, lines) = watch(directory.path(), &["--for", "1s"]);
    let lines: Vec<Value> = lines.collect();
    assert_eq!(lines[0]["event"], "start");
    assert!(lines.iter().all(|line| line["event"] != "clock_source"), "{lines:?}");
    let code = child.wait().unwrap().code();
    let changed = lines.iter().any(|line| line["event"] != "start" && line["event"] != "figures");
    assert_eq!(code, Some(i32::from(changed)), "{lines:?}");
    assert!(from.elapsed() >= Duration::from_secs(1));
}

/// The expressions of docs/clock.md.
const CHANGED: &str = "increase(ogive_clock_source_changes_total[10m]) > 0";
const IN_USE: &str = "ogive_clock_info == 1";

#[test]
fn an_alert_on_the_servers_clock_source_fires_when_it_changes() {
    let (data, directory) = (tempfile::tempdir().unwrap(), kernel("tsc"));
    let page = include_str!("../../../docs/clock.md");
    assert!(page.contains(&format!("expr: {CHANGED}\n")) && page.contains(IN_USE));
    let path = directory.path().to_str().unwrap();
    let server = Server::try_start(data.path(), &["--listen", "127.0.0.1:0", "--clocksource-dir", path]).unwrap();
    // They come in one batch, which is visible series by series. The mode is a label too, and may change as the clock
    // settles.
    eventually("the clock's figures", || server.number("ogive_clock_quantum_seconds"));
    eventually("the cost of a read", || server.number("ogive_clock_read_seconds{clock=\"now\"} > 0"));
    server.becomes("sum(ogive_clock_info{os_clocksource=\"tsc\"})", 1.0);
    server.becomes("ogive_clock_source_changes_total", 0.0);
    assert_eq!(server.number(CHANGED), None);
    for alert in page.lines().filter_map(|line| line.trim().strip_prefix("expr: ")) {
        // It is one that the server understands; whether the host of this test is slow is not the question.
        let _ = server.number(alert);
    }
    switch(directory.path(), "hpet");
    let changes = eventually("the alert", || server.number(CHANGED));
    assert!(changes > 0.0, "{changes}");
    server.becomes(&format!("count({IN_USE})"), 1.0);
    server.becomes("sum(ogive_clock_info{os_clocksource=\"hpet\"})", 1.0);
    let (_, metadata) = server.get("/api/v1/metadata");
    assert_eq!(metadata["data"]["ogive_clock_read_seconds"][0]["unit"], "s", "{metadata}");
    assert_ne!(metadata["data"]["ogive_clock_source_changes_total"][0]["help"], "", "{metadata}");
}
