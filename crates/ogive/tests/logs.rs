//! Stored lines as a user meets them: sent as texts and as log records, searched and followed on the command line, with
//! a restart between.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use crate::common::{PATIENCE, SOURCE, Server, now_ms};
use serde_json::{Value, json};

fn ogive(server: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
    command.arg("logs").args(arguments).env("OGIVE_SERVER", format!("http://{server}"));
    command
}

/// `ogive logs` with these arguments: exit code, standard output, standard error.
fn run(server: &Server, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = ogive(&server.address, arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn send(server: &Server, sequence: u64, lines: &[(&str, i64, &str)]) {
    let of_job = |job: &str| json!({"labels": {"__name__": "app_log", "job": job}, "kind": "text"});
    let series = json!([of_job("api"), of_job("web")]);
    let sample = |(job, time_ms, text): &(&str, i64, &str)| json!({"series": u8::from(*job == "web"), "time_ms": time_ms, "text": text});
    let (status, body) = server.batch(SOURCE, sequence, series, lines.iter().map(sample).collect());
    assert_eq!((status, &body["accepted"]), (200, &json!(lines.len())), "{body}");
}

#[test]
fn lines_are_searched_on_the_command_line() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path());
    let (code, out, err) = run(&server, &["-s", "app_log"]);
    assert!(code == Some(0) && out.is_empty() && err.contains("nothing found"), "{out}{err}");
    let t = now_ms() - 20_000;
    send(
        &server,
        1,
        &[
            ("api", t, "level=info msg=\"listening\""),
            ("web", t + 1, "{\"level\":\"error\",\"status\":503,\"msg\":\"no route to host\"}"),
            ("api", t + 2, "level=error status=404 \x1b[2Jwiped"),
        ],
    );
    for round in ["from memory and the journal", "after a restart"] {
        let (code, out, _) = run(&server, &["level=error"]);
        assert_eq!((code, out.lines().count()), (Some(0), 2), "{round}: {out}");
        assert!(
            out.lines()
                .next()
                .unwrap()
                .ends_with(r#"app_log{job="web"}  {"level":"error","status":503,"msg":"no route to host"}"#),
            "{out}"
        );
        assert!(out.contains("\\u{1b}[2Jwiped") && !out.contains('\x1b'), "{out}");
        let (_, out, _) = run(&server, &["status>=500 OR listening", "-s", "app_log", "--json"]);
        let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{round}: {out}");
        assert_eq!((&lines[0]["severity"], &lines[0]["labels"]["job"]), (&json!("info"), &json!("api")));
        assert_eq!(lines[1]["fields"][1], json!(["status", "503"]));
        let (_, out, err) = run(&server, &["-n", "1", "-s", "app_log{job=\"api\"}", "-s", "app_log{job=\"web\"}"]);
        assert!(out.lines().count() == 1 && out.contains("wiped") && err.contains("more"), "{out}{err}");
        if round.starts_with("from") {
            server.terminate();
            server = Server::start(directory.path());
        }
    }
    let (code, _, err) = run(&server, &["level=error status>=many"]);
    assert!(code == Some(2) && err.contains("column 21"), "{err}");
    assert_eq!(run(&server, &["--since", "soon"]).0, Some(2));
    assert_eq!(run(&server, &["--server", "http://127.0.0.1:9"]).0, Some(3));
}

/// A command that runs until it is let go.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A window of a minute with long lines did not fit the memory of a query, which failed although it wanted one of them.
#[test]
fn long_lines_are_searched_a_few_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let memory = ["--listen", "127.0.0.1:0", "--query-memory-mib", "4"];
    let server = Server::try_start(directory.path(), &memory).unwrap();
    let (start, long) = (now_ms() - 60_000, "x".repeat(400_000));
    let line = |at: i64| format!("level={} {long}", if at == 3 { "error" } else { "info" });
    for sequence in 0..2 {
        let lines: Vec<(i64, String)> = (sequence * 20..sequence * 20 + 20).map(|at| (at, line(at))).collect();
        let lines: Vec<_> = lines.iter().map(|(at, text)| ("api", start + at * 1_000, text.as_str())).collect();
        send(&server, sequence as u64 + 1, &lines);
    }
    let (code, out, err) = run(&server, &["level=error", "-s", "app_log"]);
    assert_eq!((code, out.lines().count()), (Some(0), 1), "{err}");
}

/// The bug to guard against: a line that is of the instant of one that was shown, or that comes late, was lost or shown
/// twice.
#[test]
fn new_lines_are_followed_each_once_late_ones_too() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let t = now_ms();
    send(&server, 1, &[("api", t - 60_000, "error zero"), ("api", t, "error one"), ("api", t, "fine")]);
    let mut child = ogive(&server.address, &["error", "-s", "app_log", "--follow"]);
    let mut child = Running(child.stdout(Stdio::piped()).spawn().unwrap());
    let (sender, receiver) = mpsc::channel();
    let out = BufReader::new(child.0.stdout.take().unwrap());
    std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let next = || {
        let line = receiver.recv_timeout(PATIENCE).expect("a line is shown");
        line.rsplit_once("  ").unwrap().1.to_owned()
    };
    assert_eq!([next(), next()], ["error zero", "error one"]);
    send(
        &server,
        2,
        &[("api", t, "error two"), ("web", t - 2_000, "error three"), ("api", t, "error one"), ("web", t, "fine")],
    );
    let mut three = [next(), next(), next()];
    three.sort();
    assert_eq!(three, ["error one", "error three", "error two"]);
    send(&server, 3, &[("api", t + 1, "error four")]);
    assert_eq!(next(), "error four", "nothing was shown twice before it");
}
