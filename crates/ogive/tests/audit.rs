//! Who did what, also while no server ran.

use std::path::Path;
use std::process::Command;

use crate::common::{Server, eventually, float, now_ms};
use serde_json::{Value, json};

/// `ogive` with these arguments: its exit code and what it printed.
fn ogive(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_ogive")).args(args).env("SUDO_USER", "alice").output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

/// The entries that `ogive audit` prints.
fn entries(args: &[&str]) -> Vec<Value> {
    let (code, out) = ogive(&[&["audit", "--json"], args].concat());
    assert_eq!(code, Some(0), "{out}");
    out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn entries_of<'a>(entries: &'a [Value], action: &str) -> Vec<&'a Value> {
    entries.iter().filter(|entry| entry["action"] == action).collect()
}

fn run(args: &[&str]) {
    let (code, out) = ogive(args);
    assert_eq!(code, Some(0), "{args:?}: {out}");
}

fn check_entry(entries: &[Value], action: &str, words: &[&str]) {
    let found = entries_of(entries, action);
    let [entry] = found[..] else { panic!("{action}: {} entries in {entries:?}", found.len()) };
    let (who, what) = (entry["who"].as_str().unwrap(), entry["what"].as_str().unwrap());
    assert!(who.starts_with("user ") && who.ends_with("by sudo of \"alice\""), "{who}");
    for word in words {
        assert!(what.contains(word), "{action}: {word} in {what}");
    }
}

fn check(entries: &[Value], data: &str) {
    check_entry(entries, "snapshot create", &["monday", data, "\ndone"]);
    check_entry(entries, "scrub", &[data, "\ndone"]);
    check_entry(entries, "snapshot rollback", &["monday", "before-rollback-", "\ndone"]);
    check_entry(entries, "snapshot delete", &["tuesday", "\nfailed: ", "no snapshot"]);
}

/// Nobody could say who had rolled a store back: a command without a server left nothing, only requests to a server
/// did.
#[test]
fn what_is_done_without_a_server_is_in_the_audit_of_the_next_one() {
    let (directory, second, other) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let (data, mirror) = (path(directory.path()), path(second.path()));
    let clone = path(&other.path().join("clone"));
    Server::start_on(&[directory.path(), second.path()], &[]).unwrap().terminate();
    let both = ["--data", &*data, "--data", &*mirror];
    run(&[&["snapshot", "create", "monday"], &both[..]].concat());
    run(&[&["scrub"], &both[..]].concat());
    run(&[&["snapshot", "rollback", "monday", "--yes"], &both[..]].concat());
    assert_eq!(ogive(&[&["snapshot", "delete", "tuesday"], &both[..]].concat()).0, Some(1));
    run(&["snapshot", "clone", "monday", "--from", &data, "--from", &mirror, "--data", &clone]);

    let before = entries(&both);
    check(&before, &data);
    check_entry(&before, "snapshot clone", &[&clone, "\ndone"]);
    check_entry(&entries(&["--data", &clone]), "snapshot clone", &[&data, "\ndone"]);
    assert!(entries(&[&["--since", "0"], &both[..]].concat()).is_empty());

    let mut server = Server::start_on(&[directory.path(), second.path()], &[]).unwrap();
    let url = format!("http://{}", server.address);
    let file = directory.path().join("AUDIT");
    eventually("all entries are stored", || (!file.exists()).then_some(()));
    assert!(!second.path().join("AUDIT").exists());
    let of_server = entries(&["--server", &url]);
    check(&of_server, &data);
    // The start of this server is stored on its own.
    let starts = || entries_of(&entries(&["--server", &url]), "start").len();
    eventually("both starts are in the audit", || (starts() == 2).then_some(()));
    let only = entries(&["--server", &url, "--action", "rollback"]);
    assert_eq!(only.len(), 1, "{only:?}");
    let (code, text) = ogive(&["audit", "--server", &url]);
    assert!(code == Some(0) && text.contains("snapshot rollback: user ") && text.contains("\n    done"), "{text}");

    // A server that is killed before it removes the file stores it again, once.
    let kept = other.path().join("AUDIT");
    server.terminate();
    run(&[&["snapshot", "delete", "monday"], &both[..]].concat());
    std::fs::copy(&file, &kept).unwrap();
    Server::start_on(&[directory.path(), second.path()], &[])
        .map(|mut server| {
            eventually("stored", || (!file.exists()).then_some(()));
            server.kill();
        })
        .unwrap();
    std::fs::copy(&kept, &file).unwrap();
    std::fs::copy(&kept, second.path().join("AUDIT")).unwrap();
    let mut server = Server::start_on(&[directory.path(), second.path()], &[]).unwrap();
    let url = format!("http://{}", server.address);
    eventually("stored again", || (!file.exists()).then_some(()));
    let deleted = entries(&["--server", &url, "--action", "snapshot delete"]);
    assert_eq!(deleted.len(), 2, "tuesday, which was not there, and monday: {deleted:?}");
    server.terminate();

    // A file that nobody can read keeps no server from starting, and is said.
    for directory in [&directory, &second] {
        std::fs::write(directory.path().join("AUDIT"), "broken").unwrap();
    }
    let server = Server::start_on(&[directory.path(), second.path()], &[]).unwrap();
    let url = format!("http://{}", server.address);
    let offline = eventually("the damage is in the audit", || {
        entries(&["--server", &url, "--action", "offline"]).into_iter().next()
    });
    assert!(offline["what"].as_str().unwrap().contains("is not known"), "{offline}");
}

/// A rollback brought back what had been deleted on purpose since its snapshot.
#[test]
fn a_rollback_keeps_what_was_deleted_when_it_is_told_to() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    let start = || {
        let args = ["--listen", "127.0.0.1:0", "--enable-admin-api"];
        Server::try_start(directory.path(), &args).unwrap_or_else(|said| panic!("no start: {said}"))
    };
    let mut server = start();
    let url = format!("http://{}", server.address);
    for (sequence, name) in ["kept", "customer"].into_iter().enumerate() {
        let samples = json!([{"series": 0, "time_ms": now_ms() - 10_000, "float": 1}]);
        assert_eq!(server.batch(crate::common::SOURCE, sequence as u64, json!([float(name)]), samples).0, 200);
    }
    run(&["snapshot", "create", "monday", "--server", &url]);
    run(&["delete", "customer", "--yes", "--clean", "--server", &url]);
    assert_eq!(server.number("count(last_over_time(customer[1h]))"), None);
    server.terminate();
    let (code, out) = ogive(&["snapshot", "rollback", "monday", "--keep-deletions", "--yes", "--data", data]);
    assert!(code == Some(0) && out.contains("made again") && out.contains("customer"), "{out}");
    check_entry(&entries(&["--data", data]), "snapshot rollback", &["keeping deletions", "\ndone"]);
    let mut server = start();
    assert_eq!(server.number("count(last_over_time(kept[1h]))"), Some(1.0));
    assert_eq!(server.number("count(last_over_time(customer[1h]))"), None);
    server.terminate();
    run(&["snapshot", "rollback", "monday", "--yes", "--data", data]);
    assert_eq!(start().number("count(last_over_time(customer[1h]))"), Some(1.0), "it was not asked to keep them");
}
