//! A full disk: writes are refused with a clear error, reads go on, and with space again all goes on without a restart.
//!
//! The disk is a small tmpfs. Where mounting is not permitted, the test runs itself again in a mount namespace of its
//! own; where that is not permitted either, it fails and says what to permit: a limit on file sizes would give another
//! error than a full disk.

mod common;

use std::path::Path;
use std::process::Command;

use common::{SOURCE, Server, eventually, now_ms};
use serde_json::json;

/// A small file system that goes with the test.
struct Small(std::path::PathBuf);

impl Small {
    fn mount(path: &Path) -> Option<Self> {
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(path).output().ok()?;
        done.status.success().then(|| Self(path.to_owned()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// Runs this test as root of a user namespace with mounts of its own.
fn again_in_a_namespace() {
    assert!(
        std::env::var_os("OGIVE_IN_NAMESPACE").is_none(),
        "this test mounts a small tmpfs: run it as root, or permit unprivileged user namespaces"
    );
    let test = std::env::current_exe().unwrap();
    let status = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount"])
        .arg(test)
        .args(["--exact", "a_full_disk_refuses_writes_and_heals"])
        .env("OGIVE_IN_NAMESPACE", "1")
        .status()
        .expect("unshare of util-linux runs");
    assert!(status.success(), "in a namespace of its own: {status}");
}

#[test]
fn a_full_disk_refuses_writes_and_heals() {
    let directory = tempfile::tempdir().unwrap();
    let Some(_small) = Small::mount(directory.path()) else { return again_in_a_namespace() };
    let data = directory.path().join("data");
    let server = Server::start(&data);
    let t = now_ms();
    let series = || json!([{"labels": {"__name__": "words"}, "kind": "text"}, common::float("f")]);
    let send = |sequence: u64, bytes: usize| {
        let text: String =
            (0..bytes).map(|at| char::from(b'a' + ((at * 7 + sequence as usize * 13) % 26) as u8)).collect();
        let samples =
            json!([{"series": 0, "time_ms": t, "text": text}, {"series": 1, "time_ms": t, "float": sequence}]);
        server.batch(SOURCE, sequence, series(), samples)
    };
    assert_eq!(send(1, 10).0, 200);
    let ballast = directory.path().join("ballast");
    std::fs::write(&ballast, vec![1; 6 << 20]).unwrap();
    let mut sequence = 1;
    let (status, answer) = loop {
        sequence += 1;
        let (status, answer) = send(sequence, 200_000);
        if status != 200 {
            break (status, answer);
        }
        assert!(sequence < 100, "the disk never fills");
    };
    assert_eq!((status, &answer["errorType"]), (507, &json!("disk_full")), "{answer}");
    assert!(answer["error"].as_str().unwrap().contains("full"), "{answer}");
    // Reads go on, and what was acknowledged is there.
    assert_eq!(server.number("f"), Some((sequence - 1) as f64));
    assert_eq!(server.get("/-/ready").0, 200);
    assert_eq!(send(sequence, 200_000).0, 507);
    std::fs::remove_file(&ballast).unwrap();
    // The same batch, sent again, goes through without a restart.
    let accepted = eventually("writing goes on", || {
        let (status, answer) = send(sequence, 200_000);
        (status == 200).then_some(answer)
    });
    assert_eq!(accepted["accepted"], 2, "{accepted}");
    assert_eq!(server.number("f"), Some(sequence as f64));
    let mut server = server;
    server.kill();
    let server = Server::start(&data);
    assert_eq!(server.number("f"), Some(sequence as f64));
}
