//! Several directories hold everything: one that fails goes without an interruption, comes back filled, and is replaced
//! while the server goes on.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::namespace::{self, SmallDisk};
use crate::common::{SOURCE, Server, StopAtEnd, eventually, eventually_or, float, now_ms};
use serde_json::{Value, json};

fn send(server: &Server, sequence: u64, time_ms: i64) -> u16 {
    let samples = json!([{"series": 0, "time_ms": time_ms + sequence as i64, "float": sequence}]);
    server.batch(SOURCE, sequence, json!([float("f")]), samples).0
}

fn count(server: &Server) -> u64 {
    server.number("count_over_time(f[1h])").unwrap_or(0.0) as u64
}

fn states(server: &Server) -> Vec<String> {
    let (status, body) = server.get("/v1/disks");
    assert_eq!(status, 200, "{body}");
    let disks = body["data"]["disks"].as_array().unwrap();
    disks.iter().map(|disk| disk["state"].as_str().unwrap().to_owned()).collect()
}

fn filled(server: &Server) {
    let said = || format!("{:?}", server.get("/v1/disks"));
    eventually_or("every directory is live", said, || states(server).iter().all(|state| state == "live").then_some(()));
}

fn ogive(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_ogive")).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_directory_that_fails_goes_and_comes_back_filled() {
    let top = tempfile::tempdir().unwrap();
    let (a, b) = (top.path().join("a"), top.path().join("b"));
    std::fs::create_dir_all(&a).unwrap();
    let Some(_small) = SmallDisk::mount(&a, 4) else {
        return namespace::again("mirror::a_directory_that_fails_goes_and_comes_back_filled", &[]);
    };
    let t = now_ms() - 60_000;
    let mut server = Server::start_on(&[&a, &b], &[]).unwrap();
    assert_eq!(states(&server), ["live", "live"]);
    (1..50).for_each(|n| assert_eq!(send(&server, n, t), 200));
    // The disk of the first is full: the second goes on.
    let ballast = a.join("ballast");
    std::fs::write(&ballast, vec![1; 8 << 20]).unwrap_err();
    (50..100).for_each(|n| assert_eq!(send(&server, n, t), 200));
    assert_eq!((states(&server), count(&server)), (vec!["out".into(), "live".into()], 99));
    let (status, figures) = server.get("/v1/status");
    assert_eq!((status, &figures["disks"], &figures["disks_live"]), (200, &json!(2), &json!(1)));
    let (_, metrics) = server.get("/metrics");
    let small = format!("\nogive_disk_size_bytes{{dir=\"{}\"}} {}\n", a.display(), 4 << 20);
    assert!(metrics.as_str().is_some_and(|text| text.contains(&small)), "{small} is not in {metrics}");
    let (code, out, _) = ogive(&["disk", "list", "--server", &format!("http://{}", server.address)]);
    assert!(code == Some(1) && out.contains("out") && out.contains("no space left"), "{code:?} {out}");
    server.kill();
    std::fs::remove_file(&ballast).unwrap();
    // The stale one alone is refused; a third directory of another store too.
    let said = Server::start_on(&[&a], &[]).err().unwrap();
    assert!(said.contains("was current and is not here") && said.contains("--degraded"), "{said}");
    let mut server = Server::start_on(&[&a, &b], &[]).unwrap();
    (100..150).for_each(|n| assert_eq!(send(&server, n, t), 200));
    filled(&server);
    (150..200).for_each(|n| assert_eq!(send(&server, n, t), 200));
    server.kill();
    // Now the first has everything, alone.
    let server = Server::start_on(&[&a], &["--degraded"]).unwrap();
    assert_eq!(count(&server), 199);
    drop(server);
    // The second went away meanwhile: it is stale, and says so when it is asked alone.
    assert!(Server::start_on(&[&b], &[]).is_err());
}

#[test]
fn a_directory_is_replaced_while_the_server_goes_on() {
    let top = tempfile::tempdir().unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|name| top.path().join(name));
    let t = now_ms() - 600_000;
    let mut server = Server::start_on(&[&a, &b], &[]).unwrap();
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let url = format!("http://{}", server.address);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                assert_eq!(send(&server, sent.load(Ordering::SeqCst) + 1, t), 200);
                sent.fetch_add(1, Ordering::SeqCst);
            }
        });
        let stop = StopAtEnd(&stop);
        eventually("some batches are in", || (sent.load(Ordering::SeqCst) > 20).then_some(()));
        let [old, new] = [&a, &c].map(|path| path.to_str().unwrap().to_owned());
        let (code, out, err) = ogive(&["disk", "replace", &old, &new, "--server", &url]);
        assert_eq!(code, Some(0), "{out} {err}");
        assert!(out.contains(&new) && !out.contains(&format!("{old} ")), "{out}");
        let before = sent.load(Ordering::SeqCst);
        eventually("more batches are in", || (sent.load(Ordering::SeqCst) > before + 20).then_some(()));
        // What makes no sense is said.
        for (old, new) in [(&old, &new), (&new, &new)] {
            let (code, _, err) = ogive(&["disk", "replace", old, new, "--server", &url]);
            assert_eq!(code, Some(2), "{err}");
        }
        drop(stop);
    });
    let sent = sent.load(Ordering::SeqCst);
    let form = server.request("POST /v1/disks/replace HTTP/1.1\r\ncontent-type: text/plain", b"{}").unwrap();
    assert_eq!(form.0, 415, "no form of another page may ask for this");
    server.kill();
    let mut server = Server::start_on(&[&c, &b], &[]).unwrap();
    assert_eq!((states(&server), count(&server)), (vec!["live".into(); 2], sent));
    server.kill();
    let server = Server::start_on(&[&c], &["--degraded"]).unwrap();
    assert_eq!(count(&server), sent);
    let said: Value = server.get("/v1/disks").1;
    assert_eq!(said["data"]["disks"].as_array().unwrap().len(), 1);
}

#[test]
fn a_directory_is_added_while_the_server_goes_on_and_found_again() {
    let top = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| top.path().join(name));
    let t = now_ms() - 600_000;
    let mut server = Server::start_on(&[&a], &[]).unwrap();
    (1..30).for_each(|n| assert_eq!(send(&server, n, t), 200));
    let url = format!("http://{}", server.address);
    let inside = a.join("inside");
    let (code, _, err) = ogive(&["disk", "add", inside.to_str().unwrap(), "--server", &url]);
    assert!(code == Some(2) && err.contains("inside of it") && !inside.exists(), "{code:?} {err}");
    let (code, _, err) = ogive(&["disk", "add", a.to_str().unwrap(), "--server", &url]);
    assert!(code == Some(2) && err.contains("already"), "{code:?} {err}");
    let (code, out, err) = ogive(&["disk", "add", b.to_str().unwrap(), "--server", &url]);
    assert_eq!(code, Some(0), "{out} {err}");
    assert_eq!(states(&server), ["live", "live"]);
    (30..60).for_each(|n| assert_eq!(send(&server, n, t), 200));
    server.kill();
    // The options name the first alone, as before.
    let mut server = Server::start_on(&[&a], &[]).unwrap();
    assert_eq!((states(&server), count(&server)), (vec!["live".into(); 2], 59));
    server.kill();
    std::fs::remove_dir_all(&a).unwrap();
    let server = Server::start_on(&[&b], &["--degraded"]).unwrap();
    assert_eq!(count(&server), 59);
}

#[test]
fn a_directory_that_is_removed_is_missed_and_kill_nine_loses_nothing() {
    let top = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| top.path().join(name));
    let t = now_ms() - 600_000;
    let mut sent = 0;
    // Killed again and again under two directories.
    for kill in 0..4 {
        let mut server = Server::start_on(&[&a, &b], &[]).unwrap();
        assert_eq!((count(&server), states(&server)), (sent, vec!["live".into(); 2]), "kill {kill}");
        (0..25).for_each(|_| {
            sent += 1;
            assert_eq!(send(&server, sent, t), 200);
        });
        server.kill();
    }
    let mut server = Server::start_on(&[&a, &b], &[]).unwrap();
    // A second server is refused whichever directory it names.
    for directory in [&a, &b] {
        let said = Server::start_on(&[directory], &[]).err().unwrap();
        assert!(said.contains("in use by another server"), "{said}");
    }
    std::fs::remove_dir_all(&a).unwrap();
    eventually("the directory is missed", || (states(&server)[0] == "out").then_some(()));
    assert_eq!((send(&server, sent + 1, t), count(&server)), (200, sent + 1));
    server.kill();
    let server = Server::start_on(&[&a, &b], &[]).unwrap();
    filled(&server);
    assert_eq!(count(&server), sent + 1);
}

/// Without a disk that can be written there is no start, and the reason is a sentence; with it again there is.
#[test]
fn a_disk_that_is_read_only_is_told() {
    let top = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| top.path().join(name));
    std::fs::create_dir_all(&a).unwrap();
    let Some(_small) = SmallDisk::mount(&a, 4) else {
        return namespace::again("mirror::a_disk_that_is_read_only_is_told", &[]);
    };
    let t = now_ms() - 60_000;
    let remount = |how: &str| {
        let done = Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(&a).status().unwrap();
        assert!(done.success());
    };
    let mut server = Server::start_on(&[&a], &[]).unwrap();
    (1..20).for_each(|n| assert_eq!(send(&server, n, t), 200));
    server.kill();
    remount("ro");
    let said = Server::start_on(&[&a], &[]).err().unwrap();
    assert!(said.contains("Read-only") && said.contains(a.to_str().unwrap()), "{said}");
    // Beside an empty directory it is not left out in silence either: it holds everything.
    assert!(Server::start_on(&[&a, &b], &[]).is_err());
    remount("rw");
    let server = Server::start_on(&[&a, &b], &[]).unwrap();
    assert_eq!(count(&server), 19);
    filled(&server);
}
