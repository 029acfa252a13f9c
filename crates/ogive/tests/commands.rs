//! What the commands for people and pipes say: times, units, hints, groups, and how they end.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::programs::{Program, free_address};
use crate::common::terminal::Terminal;
use crate::common::{Server, float, histogram, now_ms};
use serde_json::{Value, json};

/// Exit code, standard output, standard error.
type Ended = (Option<i32>, String, String);

fn run(server: &Server, arguments: &[&str]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_ogive"))
        .args(arguments)
        .env("OGIVE_SERVER", format!("http://{}", server.address))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Commands that run until something ends them, or that print nothing before hours are over.
const WITHOUT_OUTPUT: [&str; 7] = ["serve", "broker", "amqp", "cluster", "kernel", "replay", "tune"];

/// A file beside the data, for commands that read one.
fn written(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// What comes of a command whose reader has left before anything is written.
fn without_reader(server: &Server, arguments: &[&str]) -> Output {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
    command.args(arguments).env("OGIVE_SERVER", format!("http://{}", server.address));
    command.stdin(Stdio::null()).stdout(writer).output().unwrap()
}

/// `ogive status | head -1` ended with a panic, and so did most commands: the macros of the standard library panic when
/// nobody reads.
#[test]
fn no_command_minds_that_nobody_reads() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"));
    let t = now_ms();
    let samples = json!([{"series": 0, "time_ms": t, "float": 1.0}]);
    server.batch(crate::common::SOURCE, 1, json!([float("load")]), samples);
    let rules =
        written(directory.path(), "rules.yml", "groups:\n- name: g\n  rules:\n  - {alert: A, expr: load > 0}\n");
    let tests =
        "rule_files: [rules.yml]\ntests:\n- input_series: []\n  alert_rule_test:\n  - {eval_time: 1m, alertname: A}\n";
    let tests = written(directory.path(), "tests.yml", tests);
    let slo = "slos:\n- name: s\n  objective: 99\n  window: 30d\n  good: load\n  total: load\n";
    let slo = written(directory.path(), "slo.yml", slo);
    let numbers = written(directory.path(), "numbers.txt", "1ms\n2ms\n");
    let config = written(directory.path(), "ogive.toml", "listen = \"127.0.0.1:0\"\n");
    let crashes = directory.path().to_str().unwrap().to_owned();
    let commands: Vec<Vec<&str>> = vec![
        vec!["query", "1"],
        vec!["query", "load", "--start", "-1h", "--plot"],
        vec!["query", "load", "--json"],
        vec!["audit"],
        vec!["stream", "vector(1)", "--values", "1"],
        vec!["event", "a release"],
        vec!["board", "list"],
        vec!["subscribe", "load", "--watermarks", "1"],
        vec!["status"],
        vec!["export", "load", "--format", "openmetrics", "--start", "-1h"],
        vec!["status", "--all"],
        vec!["ops"],
        vec!["top", "--once", "--interval", "100ms"],
        vec!["delete", "nothing", "--yes"],
        vec!["detect", "--selector", "load", "--json"],
        vec!["findings", "--json"],
        vec!["filter", "list"],
        vec!["crash", "list", "--dir", &crashes],
        vec!["disk", "list"],
        vec!["retention", "show"],
        vec!["scrub"],
        vec!["snapshot", "create", "one"],
        vec!["snapshot", "list"],
        vec!["trace", "list", "--json"],
        vec!["logs", "--json"],
        vec!["config", "check", &config],
        vec!["rules", "backtest", &rules],
        vec!["rules", "slo", &slo],
        vec!["test", "rules", &tests],
        vec!["token", "new", "--name", "n", "--allow", "read"],
        vec!["hist", &numbers],
        vec!["hist", "--json", &numbers],
        vec!["clock", "--json"],
        vec!["wire", "--help"],
        vec!["completions", "bash"],
        vec!["help"],
    ];
    for arguments in &commands {
        let output = without_reader(&server, arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked") && !said.to_lowercase().contains("broken pipe"), "{arguments:?}: {said}");
        assert!(matches!(output.status.code(), Some(0..=2)), "{arguments:?}: {:?} {said}", output.status);
    }
    let tried: BTreeSet<&str> = commands.iter().map(|arguments| arguments[0]).chain(WITHOUT_OUTPUT).collect();
    // Of a command that is new here at least its help.
    for name in listed(&server).iter().filter(|name| !tried.contains(name.as_str())) {
        let output = without_reader(&server, &[name, "--help"]);
        assert!(matches!(output.status.code(), Some(0)), "{name} --help: {:?}", output.status);
    }
}

/// The commands that the help lists.
fn listed(server: &Server) -> Vec<String> {
    let (_, help, _) = run(server, &["--help"]);
    let lines =
        help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1).take_while(|line| !line.is_empty());
    let commands = lines.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let names: Vec<String> = commands.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    assert!(names.len() > 20, "{help}");
    names
}

#[test]
fn times_are_relative_to_now() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let t = now_ms();
    let sample = |ago_s: i64, value: f64| json!({"series": 0, "time_ms": t - ago_s * 1_000, "float": value});
    server.batch(
        crate::common::SOURCE,
        1,
        json!([float("load")]),
        json!([sample(7_200, 1.0), sample(1_800, 2.0), sample(1, 3.0)]),
    );
    let value = |arguments: &[&str]| {
        let (code, out, err) = run(&server, arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {err}");
        out
    };
    assert_eq!(value(&["query", "load", "--time", "-121m"]), "no data\n");
    assert_eq!(value(&["query", "load", "--time", "-119m"]), "load  1\n");
    assert_eq!(value(&["query", "load", "--time", "now-29m"]), "load  2\n");
    assert_eq!(value(&["query", "load", "--time", "now"]), "load  3\n");
    let csv = value(&["query", "load", "--start", "-3h", "--end", "now-1h", "--step", "1m", "--format", "csv"]);
    assert!(csv.lines().count() >= 5 && csv.lines().skip(1).all(|line| line.contains(",load,1,")), "{csv}");
    for (arguments, part) in [
        (&["query", "load", "--start", "now-7x"][..], "cannot parse"),
        (&["logs", "--start", "now-7x"], "write a time such as -1h"),
        (&["detect", "--selector", "load", "--start", "-soon"], "write a time such as -1h"),
    ] {
        let (code, _, err) = run(&server, arguments);
        assert!(code == Some(2) && err.contains(part), "{arguments:?}: {code:?} {err}");
    }
    assert_eq!(run(&server, &["logs", "--start", "-1h"]).0, Some(0));
    assert_eq!(run(&server, &["trace", "list", "--start", "-1h", "--end", "now", "--json"]).0, Some(0));
    assert_eq!(run(&server, &["event", "then", "--time", "-5m"]).0, Some(0));
    let (_, events) = server.get(&format!("/v1/events?start={}&end={}", t / 1000 - 400, now_ms() / 1000 - 200));
    assert!(events.to_string().contains("then"), "{events}");
}

#[test]
fn quantiles_have_units_and_the_digits_of_their_bin() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let t = now_ms();
    let bins = json!({"1.2e-3": 50, "3.4e-3": 50});
    let samples = json!([
        {"series": 0, "time_ms": t, "histogram": {"bins": bins}}, {"series": 1, "time_ms": t, "histogram": {"bins": {"1.5e+4": 3}}}
    ]);
    server.batch(crate::common::SOURCE, 1, json!([histogram("rpc_seconds"), histogram("answer_bytes")]), samples);
    let time = (t / 1000).to_string();
    let (_, out, _) = run(&server, &["query", "histogram_quantile(0.9, rpc_seconds)", "--time", &time]);
    assert!(out.starts_with("{}  3.4") && out.contains("ms  (3.4ms … 3.5ms)"), "{out}");
    let (_, out, _) = run(&server, &["query", "histogram_quantile(0.5, answer_bytes)", "--time", &time]);
    assert!(out.contains("kB  (15kB … 16kB)"), "{out}");
    // What is computed has all of its digits, for programs.
    let (_, out, _) = run(&server, &["query", "histogram_count(rpc_seconds) / 3", "--time", &time]);
    assert_eq!(out, "{}  33.333333333333336\n");
}

#[test]
fn no_data_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let t = now_ms();
    let series = |job: &str| json!({"labels": {"__name__": "load_average", "job": job}, "kind": "float"});
    let samples =
        json!([{"series": 0, "time_ms": t - 3 * 3_600_000, "float": 1.0}, {"series": 1, "time_ms": t, "float": 1.0}]);
    server.batch(crate::common::SOURCE, 1, json!([series("gone"), series("here")]), samples);
    let said = |expr: &str| {
        let (code, out, err) = run(&server, &["query", expr]);
        assert_eq!((code, &*out), (Some(0), "no data\n"), "{expr}");
        err
    };
    let check = |expr: &str, part: &str| {
        let said = said(expr);
        assert!(said.contains(part), "{expr}: {part:?} is not in {said:?}");
    };
    check("sum(load_averge)", "no series is called \"load_averge\"; did you mean \"load_average\"?");
    check("something_else_entirely", "no series is called \"something_else_entirely\"\n");
    check("load_average{job=\"gone\"}", "load_average{job=\"gone\"} had its last sample 3h ago, at 20");
    check("load_average{job=\"heer\"}", "load_average has no job \"heer\"; did you mean \"here\"?");
    check("load_average{host=\"x\"}", "load_average has no host \"x\"; it has no label host");
    assert_eq!(run(&server, &["query", "load_average{job=\"here\"}"]).2, "");
}

#[test]
fn the_status_stands_in_groups() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    server.batch(
        crate::common::SOURCE,
        1,
        json!([float("load")]),
        json!([{"series": 0, "time_ms": now_ms(), "float": 1.0}]),
    );
    let (code, out, _) = run(&server, &["status"]);
    assert_eq!(code, Some(0));
    let headings: Vec<&str> = out.lines().filter(|line| !line.starts_with(' ') && !line.is_empty()).collect();
    assert_eq!(headings[..5], ["Server", "Samples", "Queues", "Memory", "Store"], "{out}");
    assert!(headings.last().unwrap().ends_with("more with --all"), "{out}");
    let of = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{name} ")));
        line.map(|line| line.split_whitespace().last().unwrap().to_owned())
    };
    assert_eq!(of(&out, "accepted_total").as_deref(), Some("1"));
    // In this order: some figures come while it runs.
    let (_, figures, _) = run(&server, &["status", "--json"]);
    let (_, all, _) = run(&server, &["status", "--all"]);
    let figures: Value = serde_json::from_str(&figures).unwrap();
    for name in figures.as_object().unwrap().keys() {
        assert!(of(&all, name).is_some(), "{name} is not in {all}");
    }
    assert!(!all.contains("more with --all") && !all.contains("\nOther\n"), "a figure without a group: {all}");
}

/// 100 requests and 320 statements now; 100 and 200 a week ago.
fn measured(server: &Server) {
    let t = now_ms() - 60_000;
    let week = t - 7 * 86_400_000;
    let cell = |series: usize, time_ms: i64, count: u64| json!({"series": series, "time_ms": time_ms, "histogram": {"bins": {"1.2e-3": count}}});
    let (code, answer) = server.batch(
        crate::common::SOURCE,
        1,
        json!([histogram("request_seconds"), histogram("sql_seconds"), histogram("rare_seconds")]),
        json!([
            cell(0, week, 100),
            cell(1, week, 200),
            cell(2, week, 2),
            cell(0, t, 100),
            cell(1, t, 320),
            cell(2, t, 3)
        ]),
    );
    assert_eq!((code, &answer["accepted"]), (200, &json!(6)), "{answer}");
}

#[test]
fn ops_are_quotients_of_counts_with_their_change() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    measured(&server);
    let of = ["sql_seconds", "rare_seconds", "none_seconds", "sum(increase(sql_seconds[30m]))"];
    let arguments = [&["ops", "--per", "request_seconds", "--range", "30m"][..], &of].concat();
    let (code, out, err) = run(&server, &[&arguments[..], &["--json"]].concat());
    assert_eq!(code, Some(0), "{err}");
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&found["per_count"], &found["per_count_before"]), (&json!(100.0), &json!(100.0)), "{found}");
    let row = |at: usize| &found["rows"][at];
    for at in [0, 3] {
        assert_eq!(
            (&row(at)["each"], &row(at)["each_before"], &row(at)["noise"]),
            (&json!(3.2), &json!(2.0), &json!(false))
        );
        assert!((row(at)["change_percent"].as_f64().unwrap() - 60.0).abs() < 1e-9, "{found}");
    }
    assert_eq!((&row(1)["each"], &row(1)["noise"]), (&json!(0.03), &json!(true)), "3 and 2 differ by chance: {found}");
    assert_eq!((&row(2)["each"], &row(2)["change_percent"]), (&Value::Null, &Value::Null));
    let (code, out, _) = run(&server, &arguments);
    assert!(code == Some(0) && out.starts_with("one request_seconds (100 in 30m, 100 1w before) =\n"), "{out}");
    assert!(
        out.contains("3.2  sql_seconds") && out.contains("2 before      +60 %") && out.contains("the same"),
        "{out}"
    );
    // A limit makes it an alarm; one that nothing is over does not.
    assert_eq!(run(&server, &[&arguments[..], &["--limit", "50"]].concat()).0, Some(1));
    assert_eq!(run(&server, &[&arguments[..], &["--limit", "61%"]].concat()).0, Some(0));
    let (code, _, err) = run(&server, &["ops", "--per", "none_seconds", "sql_seconds"]);
    assert!(code == Some(1) && err.contains("nothing to divide by"), "{err}");
    assert_eq!(run(&server, &["ops", "sql_seconds"]).0, Some(2), "of what?");
    let (code, _, err) = run(&server, &["ops", "--per", "sum(", "x"]);
    assert!(code == Some(2) && err.contains("parse error"), "{err}");
}

#[test]
fn ops_of_ogive_itself_are_those_of_its_own_counters() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    server.batch(
        crate::common::SOURCE,
        1,
        json!([float("load")]),
        json!([{"series": 0, "time_ms": now_ms(), "float": 1.0}]),
    );
    crate::common::eventually("own counters with a request, a batch and a sample", || {
        let (_, out, _) = run(&server, &["ops", "--json"]);
        let found: Value = serde_json::from_str(&out).ok()?;
        let count = |name: &str| {
            let rows = found["rows"].as_array().unwrap();
            rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name} in {found}"))["count"]
                .as_f64()
        };
        let is_there = found["per_count"].as_f64()? >= 1.0 && count("batches")? >= 1.0 && count("queries")? >= 1.0;
        assert!(count("samples accepted").is_none_or(|samples| samples < 1.5), "{found}");
        (is_there && count("fsyncs")? >= 1.0 && found["per"] == "request").then_some(())
    });
}

/// A Prometheus that scrapes itself: its own counters are divided, and its names are offered.
#[test]
fn a_prometheus_has_ops_and_hints_too() {
    let directory = tempfile::tempdir().unwrap();
    let address = free_address();
    let config = "global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: self\n  static_configs: [{targets: ['ADDRESS']}]\n";
    let config = written(directory.path(), "prometheus.yml", &config.replace("ADDRESS", &address));
    let mut command = Command::new(std::env::var("OGIVE_PROMETHEUS").unwrap_or_else(|_| "prometheus".into()));
    command
        .arg(format!("--config.file={config}"))
        .arg(format!("--storage.tsdb.path={}", directory.path().join("tsdb").display()))
        .arg(format!("--web.listen-address={address}"));
    let _prometheus = Program::start(command);
    let ogive = |arguments: &[&str]| {
        let url = format!("http://{address}");
        let output =
            Command::new(env!("CARGO_BIN_EXE_ogive")).args(arguments).args(["--server", &url]).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let ops = [
        "ops",
        "--per",
        "prometheus_http_requests_total",
        "prometheus_tsdb_head_samples_appended_total",
        "--range",
        "1m",
        "--json",
    ];
    crate::common::eventually("samples for each request of a Prometheus", || {
        let (code, out, _) = ogive(&ops);
        let found: Value = serde_json::from_str(&out).ok()?;
        let each = found["rows"][0]["each"].as_f64()?;
        // It appends hundreds of samples for each scrape, and little else asks it.
        (code == Some(0) && each > 5.0 && found["rows"][0]["change_percent"].is_null()).then_some(())
    });
    let (code, out, err) = ogive(&["query", "prometheus_http_request_total"]);
    assert_eq!((code, &*out), (Some(0), "no data\n"));
    assert!(err.contains("did you mean \"prometheus_http_requests_total\"?"), "{err}");
}

#[test]
fn top_shows_a_server_once_and_live() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("a"));
    server.batch(
        crate::common::SOURCE,
        1,
        json!([float("load")]),
        json!([{"series": 0, "time_ms": now_ms(), "float": 1.0}]),
    );
    for _ in 0..3 {
        assert_eq!(server.get("/api/v1/query?query=sum(load)").0, 200);
    }
    let (code, out, err) = run(&server, &["top", "--once", "--interval", "200ms"]);
    assert_eq!(code, Some(0), "{err}");
    let data = directory.path().join("a");
    for part in ["ogive ", "samples ", "queries ", "memory ", "queues ", &format!("disk     {} live", data.display())] {
        assert!(out.contains(part), "{part:?} is not in\n{out}");
    }
    let row =
        out.lines().find(|line| line.ends_with("  sum(load)")).unwrap_or_else(|| panic!("no expression in\n{out}"));
    assert_eq!(row.split_whitespace().nth(2), Some("3"), "{row}");
    // Without a terminal it is as with --once.
    assert!(run(&server, &["top", "--interval", "100ms"]).1.contains("sum(load)"));
    let mut terminal = Terminal::start(&format!("top --interval 100ms --server http://{}", server.address));
    terminal.until("the expression", |screen| screen.contents().contains("sum(load)") && screen.alternate_screen());
    assert_eq!(server.get("/api/v1/query?query=count(load)").0, 200);
    terminal.until("what is asked meanwhile", |screen| screen.contents().contains("count(load)"));
    // By how often: three before one.
    terminal.press(b"n");
    terminal.until("the order by how often", |screen| {
        let text = screen.contents();
        text.find("sum(load)").zip(text.find("count(load)")).is_some_and(|(often, once)| often < once)
    });
    terminal.press(b"q");
    assert!(terminal.end());
    let (code, _, err) = run(&server, &["top", "--once", "--server", "http://127.0.0.1:9"]);
    assert!(code == Some(3) && err.contains("ogive serve"), "{err}");
}
