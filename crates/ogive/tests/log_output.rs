//! The log of server and broker: its two forms, its levels, and what stays off it.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::Server;
use serde_json::Value;

/// Everything that a server writes to standard error until it serves.
fn log(directory: &Path, more: &[&str]) -> String {
    let mut server = Server::try_start(directory, more).unwrap_or_else(|said| panic!("no start: {said}"));
    assert_eq!(server.terminate(), Some(0));
    server.said.clone()
}

#[test]
fn text_begins_with_time_and_level() {
    let held = tempfile::tempdir().unwrap();
    let said = log(held.path(), &["--listen", "127.0.0.1:0"]);
    let line = said.lines().find(|line| line.contains("serving http://")).unwrap();
    let words: Vec<&str> = line.split(' ').take(3).collect();
    assert!(is_time(words[0]), "{line}");
    assert_eq!((words[1], words[2]), ("INFO", "serving"), "{line}");
}

/// `2026-01-02T03:04:05.678Z`
fn is_time(word: &str) -> bool {
    let shape: String = word.chars().map(|one| if one.is_ascii_digit() { '0' } else { one }).collect();
    shape == "0000-00-00T00:00:00.000Z"
}

#[test]
fn json_is_one_object_a_line_the_refusal_to_start_included() {
    let held = tempfile::tempdir().unwrap();
    let json = ["--log-format", "json"];
    let said = log(held.path(), &[&["--listen", "127.0.0.1:0"], &json[..]].concat());
    let objects: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let serving = objects.iter().find(|one| one["message"].as_str().unwrap().starts_with("serving ")).unwrap();
    assert_eq!((&serving["level"], &serving["target"]), (&"info".into(), &"ogive::front".into()));
    assert!(objects.iter().all(|one| is_time(one["time"].as_str().unwrap())), "{said}");
    // A start that fails is an error record.
    let file = held.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    let refused = Command::new(env!("CARGO_BIN_EXE_ogive"))
        .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--data"])
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let text = String::from_utf8(refused.stderr).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).expect(&text);
    assert_eq!(last["level"], "error");
}

#[test]
fn levels_leave_out_what_is_less_important() {
    let held = tempfile::tempdir().unwrap();
    let broken = held.path().join("broken");
    std::fs::write(&broken, "").unwrap();
    let run = |level: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
        command.env("OGIVE_LOG", level).args(["serve", "--listen", "127.0.0.1:0", "--config"]);
        let options = held.path().join("ogive.toml");
        std::fs::write(&options, "[query]\nsamples = 100\n").unwrap();
        let output = command.arg(options).arg("--data").arg(&broken).stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, all) = run("info");
    assert!(code == Some(1) && all.contains("INFO options of") && all.contains(" ERROR "), "{all}");
    let (code, few) = run("error");
    assert!(code == Some(1) && !few.contains("INFO") && few.contains(" ERROR "), "{few}");
    let (code, none) = run("off");
    assert_eq!((code, &*none), (Some(1), ""));
    let (code, wrong) = run("loud");
    assert!(code == Some(2) && wrong.contains("known are off, error, warn"), "{wrong}");
}
