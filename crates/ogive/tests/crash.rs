//! Crash reports of a real server and of the command that tries them: what is written, shown, counted and logged.

use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::Server;
use serde_json::Value;

fn crash(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
    command.arg("crash").args(arguments).arg("--dir").arg(directory).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_server_that_crashed_says_so_when_it_starts_again() {
    let held = tempfile::tempdir().unwrap();
    let directory = held.path().join("crash");
    let rules = held.path().join("rules.yml");
    std::fs::write(&rules, "groups: [{name: g, rules: [{alert: Never, expr: vector(0) > 1}]}]").unwrap();
    let webhook = "http://user:geheim@127.0.0.1:1/very/secret";
    let options = ["--listen", "127.0.0.1:0", "--rules", rules.to_str().unwrap(), "--alerting-webhook", webhook];
    let mut server = Server::try_start(held.path(), &options).unwrap_or_else(|said| panic!("{said}"));
    // A batch whose body does not come: the server has begun to read it when it says so.
    let mut sender = server.connect();
    let head = "POST /v1/batch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n";
    sender.write_all(head.as_bytes()).unwrap();
    let mut asked = [0; 12];
    sender.read_exact(&mut asked).unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100");
    server.signal("SEGV");
    assert_eq!(server.wait().signal(), Some(11));
    let listed = crash(&["list", "--json"], &directory);
    assert_eq!(listed.status.code(), Some(1), "there is one");
    let cause: Value = serde_json::from_slice(&listed.stdout).unwrap_or_else(|_| panic!("{}", text(&listed.stdout)));
    assert_eq!((&cause["count"], &cause["role"]), (&1.into(), &"server".into()));
    let report: Value = serde_json::from_slice(&crash(&["show", "1", "--json"], &directory).stdout).unwrap();
    assert_eq!(report["signal"], "SIGSEGV");
    let is_waiting = |trace: &&Value| {
        let points = trace["points"].as_array().unwrap();
        trace["path"] == "OgiveIngest" && points.len() == 1 && points[0]["name"] == "received"
    };
    assert_eq!(report["traces"].as_array().unwrap().iter().filter(is_waiting).count(), 1, "{report}");
    let shown = text(&crash(&["show", "1"], &directory).stdout);
    assert!(shown.contains("in progress\n") && shown.contains("received 0.000000"), "{shown}");
    assert!(report["frames"].as_array().unwrap().len() > 2, "{report}");
    let events = report["events"].as_array().unwrap();
    assert!(events.iter().any(|event| event.as_str().unwrap().contains("serving http://")), "{report}");
    let all = report.to_string();
    assert!(all.contains("alerting-webhook") && !all.contains("geheim") && !all.contains("/very"), "{all}");
    let again = Server::start(held.path());
    assert!(again.said.contains("an earlier start crashed") && again.said.contains("SIGSEGV"), "{}", again.said);
    // The first start may have stored its 0 before it crashed; that value stands until this start reports its own.
    crate::common::eventually("the crash is counted in a series", || {
        let (_, body) = again.get("/api/v1/query?query=ogive_crash_total");
        (body["data"]["result"][0]["value"][1] == "1").then_some(())
    });
    drop(again);
    let third = Server::start(held.path());
    assert!(!third.said.contains("crashed"), "it is said once: {}", third.said);
}

#[test]
fn each_way_to_crash_is_shown_with_names() {
    let held = tempfile::tempdir().unwrap();
    let none = crash(&["list"], held.path());
    assert_eq!(none.status.code(), Some(0), "{}", text(&none.stderr));
    for (fault, signal) in [("address", Some(11)), ("overflow", Some(6)), ("abort", Some(6)), ("panic", None)] {
        let output = crash(&["test", fault], held.path());
        assert_eq!(output.status.signal(), signal, "{fault}: {}", text(&output.stderr));
    }
    let listed = text(&crash(&["list"], held.path()).stdout);
    assert_eq!(listed.lines().filter(|line| line.contains("report ")).count(), 4, "{listed}");
    for (number, title) in [("1", "SIGSEGV at address 0x8"), ("2", "SIGSEGV"), ("3", "SIGABRT"), ("4", "panic at ")] {
        let shown = text(&crash(&["show", number], held.path()).stdout);
        assert!(shown.starts_with(title), "{shown}");
        assert!(shown.contains("ogive_crash::handler::"), "{shown}");
    }
    let missing = crash(&["show", "9"], held.path());
    assert_eq!(missing.status.code(), Some(1));
}
