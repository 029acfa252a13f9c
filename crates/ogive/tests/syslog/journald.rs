//! The journal of systemd: what `systemd-journal-upload` sends is stored, each entry once, whatever becomes of the
//! server.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::shippers::record;
use super::{bodies, directory, lines, unreadable_of};
use crate::common::{Server, eventually, form, now_ms};
use serde_json::Value;

/// An entry in the export format, as `systemd-journal-remote` reads it: each tenth message has two lines.
fn entry(at: u64, time_us: u64) -> Vec<u8> {
    let head = format!(
        "__REALTIME_TIMESTAMP={time_us}\nPRIORITY={}\n_HOSTNAME=edge-1\nSYSLOG_IDENTIFIER=work\n_PID={at}\n\
         _BOOT_ID=0123456789abcdef0123456789abcdef\n",
        at % 8
    );
    let text = message(at);
    let message = if text.contains('\n') {
        [&b"MESSAGE\n"[..], &(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
    } else {
        format!("MESSAGE={text}").into_bytes()
    };
    [head.as_bytes(), &message, b"\n\n"].concat()
}

fn message(at: u64) -> String {
    if at.is_multiple_of(10) { format!("work {at}\nof two lines") } else { format!("work {at}") }
}

/// A journal with so many entries, as systemd writes it.
fn journal(directory: &Path, count: u64) {
    let from_us = (now_ms() as u64 - 60_000) * 1_000;
    let mut remote = Command::new("/lib/systemd/systemd-journal-remote");
    remote.arg(format!("--output={}", directory.join("a.journal").display())).arg("-").stdin(Stdio::piped());
    let mut remote = remote.stderr(Stdio::null()).spawn().expect("scripts/need systemd-journal-remote installs it");
    let all: Vec<u8> = (0..count).flat_map(|at| entry(at, from_us + at * 10)).collect();
    remote.stdin.take().unwrap().write_all(&all).unwrap();
    assert!(remote.wait().unwrap().success());
}

fn uploading(directory: &Path, server: &Server) -> Command {
    let mut upload = Command::new("/lib/systemd/systemd-journal-upload");
    upload.arg("--follow=no").arg(format!("--url=http://{}", server.address));
    upload.arg(format!("--directory={}", directory.display()));
    upload.stdout(Stdio::null());
    upload
}

fn upload(directory: &Path, server: &Server) -> Output {
    uploading(directory, server).output().unwrap()
}

fn serve(directory: &Path) -> Server {
    Server::try_start(&directory.join("data"), &["--listen", "127.0.0.1:0"]).unwrap_or_else(|said| panic!("{said}"))
}

/// How many entries are stored.
fn count(server: &Server) -> u64 {
    let now = now_ms() / 1_000;
    let selector = form("log{job=\"work\"}");
    let path = format!("/v1/logs/columns?match={selector}&start={}&end={}&step=60", now - 3_600, now + 60);
    let (status, body) = server.get(&path);
    assert_eq!(status, 200, "{body}");
    let columns = body["data"]["columns"].as_array().unwrap_or_else(|| panic!("{body}")).iter();
    columns.flat_map(|column| column[1].as_object().unwrap().values().map(|one| one.as_u64().unwrap())).sum()
}

#[test]
fn the_uploader_of_systemd_brings_each_entry_once() {
    let directory = directory();
    let journals = directory.path().join("journals");
    std::fs::create_dir(&journals).unwrap();
    journal(&journals, 3_000);
    let server = serve(directory.path());
    for round in 0..3_u64 {
        let done = upload(&journals, &server);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(count(&server), 3_000);
        let (_, status) = server.get("/v1/status");
        let figure = |name: &str| status[name].as_u64().unwrap();
        assert_eq!((figure("journald_accepted_total"), figure("journald_duplicate_total")), (3_000, round * 3_000));
    }
    let found = lines(&server, "log{job=\"work\"}");
    assert_eq!(bodies(&found), (0..3_000).map(message).collect::<BTreeSet<_>>());
    let of = |text: &str| found.iter().find(|line| record(line)["body"] == *text).unwrap();
    let line = of("work 20\nof two lines");
    let labels = &line["labels"];
    assert_eq!((&labels["instance"], &labels["severity"]), (&"edge-1".into(), &"warning".into()));
    assert_eq!(record(line)["attributes"]["_PID"], "20");
}

#[test]
fn a_server_that_is_killed_in_the_midst_of_an_upload_has_each_entry_once_in_the_end() {
    let directory = directory();
    let journals = directory.path().join("journals");
    std::fs::create_dir(&journals).unwrap();
    const COUNT: u64 = 20_000;
    journal(&journals, COUNT);
    for _ in 0..3 {
        let mut server = serve(directory.path());
        let mut uploader = uploading(&journals, &server).stderr(Stdio::null()).spawn().unwrap();
        eventually("some entries are stored", || (count(&server) > 100).then_some(()));
        server.kill();
        uploader.wait().unwrap();
    }
    let server = serve(directory.path());
    let done = upload(&journals, &server);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(count(&server), COUNT);
}

#[test]
fn what_is_no_journal_is_answered_and_counted_by_its_reason() {
    let directory = directory();
    let server = serve(directory.path());
    let post = |body: &[u8]| {
        server.request("POST /upload HTTP/1.1\r\ncontent-type: application/vnd.fdo.journal", body).unwrap()
    };
    let good = format!("__CURSOR=s=1;i=1\n__REALTIME_TIMESTAMP={}000\nMESSAGE=good\n\n", now_ms());
    let bad = "__REALTIME_TIMESTAMP=1\nMESSAGE=without a cursor\n\n__CURSOR=s=1;i=2\nMESSAGE=without a time\n\n";
    let (status, body) = post(format!("{bad}{good}").as_bytes());
    let counts: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, counts), (200, serde_json::json!({"accepted": 1, "duplicate": 0, "rejected": 2})));
    // What is whole of it is stored; the rest comes again.
    let (status, body) = post(format!("{good}__CURSOR=s=1;i=3\nMESS").as_bytes());
    assert!(status == 400 && body.contains("ends inside an entry"), "{status} {body}");
    let (status, body) = server.request("POST /upload HTTP/1.1\r\ncontent-encoding: lz4", b"x").unwrap();
    assert!(status == 415 && body.contains("Compression="), "{status} {body}");
    assert_eq!(lines(&server, "good").len(), 1);
    let counted = unreadable_of(&server, "journald");
    for reason in ["name_missing", "time_invalid", "malformed", "unsupported"] {
        assert!(counted.iter().any(|line| line.contains(reason) && line.ends_with(" 1")), "{reason}: {counted:?}");
    }
}
