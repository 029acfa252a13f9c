//! A data directory that the server may not write to any more, and may again.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;

use crate::common::programs::{Program, hear, lines_of};
use crate::common::{JSON, SOURCE, now_ms};
use serde_json::{Value, json};

/// "nobody" of Debian: the administrator may write everywhere, so the server runs as somebody else.
const NOBODY: u32 = 65_534;

/// A server as a user whom permissions bind; killed when dropped.
struct Bound {
    _program: Program,
    address: String,
    /// What it says on standard error.
    said: Receiver<String>,
}

impl Bound {
    fn start(place: &Path) -> Self {
        let (program, data) = (place.join("ogive"), place.join("data"));
        let mut command = if fs::metadata(place).unwrap().uid() == 0 {
            chown(&data, Some(NOBODY), Some(NOBODY)).unwrap();
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
            command
        } else {
            Command::new(&program)
        };
        command.args(["serve", "--listen", "127.0.0.1:0", "--replay-max", "1MiB", "--data"]).arg(&data);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = lines_of(child.stderr.take().unwrap());
        let mut bound = Self { _program: Program(child), address: String::new(), said };
        let line = bound.hears("serving http://");
        bound.address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        bound
    }

    /// The next line that it says with `words` in it.
    fn hears(&self, words: &str) -> String {
        hear(&self.said, words)
    }

    /// Sends the batches of `sequences`, each of 100 texts that do not pack well, and sees them acknowledged.
    fn takes(&self, sequences: std::ops::Range<u64>) {
        for sequence in sequences {
            let time_ms = now_ms();
            let text = |at: u64| {
                (0..100)
                    .map(move |word| format!("{:x}", (sequence * 100 + at + word).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            };
            let samples: Vec<Value> = (0..100)
                .map(|at| json!({"series": 0, "time_ms": time_ms, "text": format!("{sequence} {at} {}", text(at).collect::<String>())}))
                .collect();
            let series = json!([{"labels": {"__name__": "kept"}, "kind": "text"}]);
            let body = json!({"source": SOURCE, "sequence": sequence, "series": series, "samples": samples});
            let (status, said) =
                self.ask(&format!("POST /v1/batch HTTP/1.1\r\ncontent-type: {JSON}"), &body.to_string());
            assert_eq!((status, &said["accepted"]), (200, &json!(100)), "{said}");
        }
    }

    fn ask(&self, head: &str, body: &str) -> (u16, Value) {
        let (status, body) = crate::common::request_at(&self.address, head, body.as_bytes()).unwrap();
        (status, serde_json::from_str(&body).unwrap())
    }
}

#[test]
fn permission_that_is_lost_and_comes_back_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_ogive"), place.join("ogive")).unwrap();
    fs::create_dir(place.join("data")).unwrap();
    allow(place, 0o755);
    let server = Bound::start(place);
    server.takes(0..10);
    allow(&place.join("data"), 0o000);
    // More than a megabyte: what was taken is to become a block, and cannot.
    server.takes(10..30);
    let said = server.hears("cannot write blocks");
    assert!(said.contains("Permission denied") && said.contains("data"), "{said}");
    server.takes(30..40);
    allow(&place.join("data"), 0o755);
    server.hears("blocks are written again");
    server.takes(40..50);
    drop(server);
    // As a power cut would: nothing was said to it.
    let server = Bound::start(place);
    let path = format!("/v1/cells?match[]=kept&start={}&end={}", now_ms() / 1000 - 3_600, now_ms() / 1000 + 1);
    let (_, cells) = server.ask(&format!("GET {path} HTTP/1.1"), "");
    assert_eq!(cells["data"]["samples"].as_array().unwrap().len(), 5_000);
}
