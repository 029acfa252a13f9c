//! What was acknowledged is there once: after kill -9 at any moment, with everything sent again.
//!
//! `OGIVE_KILLS=200 cargo test -p ogive --release --test system durability:: -- --nocapture` is the long run.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{JSON, PATIENCE, SOURCE, Server, StopAtEnd, float, histogram, now_ms};
use serde_json::json;

#[test]
fn a_batch_sent_again_changes_nothing_also_after_kill_and_restart() {
    let directory = tempfile::tempdir().unwrap();
    let t = now_ms();
    let mut server = Server::start(directory.path());
    let send = |server: &Server, sequence: u64| {
        let series = json!([histogram("h_seconds"), float("f"), {"labels": {"__name__": "w"}, "kind": "text"}]);
        let samples = json!([
            {"series": 0, "time_ms": t, "histogram": {"bins": {"1e-3": 10}}},
            {"series": 1, "time_ms": t, "float": 1}, {"series": 2, "time_ms": t, "text": "word"},
        ]);
        server.batch(SOURCE, sequence, series, samples)
    };
    let taken = (200, json!({"accepted": 3, "duplicate": 0, "rejected": []}));
    let again = (200, json!({"accepted": 0, "duplicate": 3, "rejected": []}));
    let count = |server: &Server| server.number("histogram_count(h_seconds)");
    assert_eq!(send(&server, 5), taken);
    assert_eq!(send(&server, 5), again);
    // Another number is another batch: cells of one second add up.
    assert_eq!(send(&server, 2), taken);
    assert_eq!(count(&server), Some(20.0));
    server.kill();
    let mut server = Server::start(directory.path());
    assert_eq!((send(&server, 5), send(&server, 2)), (again.clone(), again.clone()));
    assert_eq!(count(&server), Some(20.0));
    assert_eq!(server.terminate(), Some(0));
    let server = Server::start(directory.path());
    assert_eq!((send(&server, 5), send(&server, 2)), (again.clone(), again));
    assert_eq!(send(&server, 3), taken);
    assert_eq!(count(&server), Some(30.0));
}

/// What a sender knows.
struct Sender {
    source: String,
    name: String,
    /// Batches acknowledged.
    acknowledged: AtomicU64,
}

/// Measurements in each batch.
const PER_BATCH: u64 = 7;

/// Sends numbered batches until the stop flag is set; one that is not acknowledged is sent again, to whatever server is
/// there.
fn keep_sending(sender: &Sender, address: &Mutex<String>, stop: &AtomicBool, base: i64) {
    let mut sequence = 1;
    loop {
        // Two measurements here, five there: cells that many batches share.
        let cell = base - 1000 * (sequence as i64 % 50);
        let body = json!({
            "source": sender.source, "sequence": sequence, "series": [histogram(&sender.name)],
            "samples": [
                {"series": 0, "time_ms": cell, "histogram": {"bins": {"1e-3": 2}}},
                {"series": 0, "time_ms": cell - 1000, "histogram": {"bins": {"2e-3": PER_BATCH - 2}}},
            ],
        })
        .to_string();
        let from = Instant::now();
        loop {
            let address = address.lock().unwrap().clone();
            if send(&address, body.as_bytes()).is_some() {
                break;
            }
            assert!(from.elapsed() < PATIENCE, "batch {sequence} of {} is not taken", sender.name);
            // Also at the end, what is in doubt is sent until it is acknowledged.
            std::thread::sleep(Duration::from_millis(5));
        }
        sender.acknowledged.fetch_add(1, Ordering::SeqCst);
        if stop.load(Ordering::SeqCst) {
            return;
        }
        sequence += 1;
    }
}

/// Some when the server acknowledged.
fn send(address: &str, body: &[u8]) -> Option<()> {
    let head = format!("POST /v1/batch HTTP/1.1\r\ncontent-type: {JSON}");
    let (status, answer) = crate::common::request_at(address, &head, body).ok()?;
    if status == 429 {
        return None;
    }
    assert_eq!(status, 200, "{answer}");
    let answer: serde_json::Value = serde_json::from_str(&answer).ok()?;
    assert_eq!(answer["rejected"], json!([]));
    assert_eq!(answer["accepted"].as_u64()? + answer["duplicate"].as_u64()?, 2, "{answer}");
    Some(())
}

/// Measurements stored under `name`.
fn stored(server: &Server, name: &str, base: i64) -> u64 {
    let (start, end) = (base / 1000 - 3600, base / 1000 + 60);
    let (status, body) = server.get(&format!("/v1/heatmap?query={name}&start={start}&end={end}&step=1"));
    assert_eq!(status, 200, "{body}");
    let columns = body["data"]["columns"].as_array().unwrap();
    columns.iter().map(|column| column["count"].as_str().unwrap().parse::<u64>().unwrap()).sum()
}

/// A server that flushes all the time, so that kills fall into flushes and compactions too.
fn start_flushing(directory: &Path) -> Server {
    Server::try_start(directory, &["--listen", "127.0.0.1:0", "--replay-max", "16KiB"]).unwrap()
}

/// Flushes and compactions of a server so far.
fn upkeep(server: &Server) -> [u64; 2] {
    let (status, figures) = server.get("/v1/status");
    assert_eq!(status, 200, "{figures}");
    ["flushes_total", "compactions_total"].map(|name| figures[name].as_u64().unwrap_or_else(|| panic!("{figures}")))
}

fn kill_while_sending(directory: &Path, kills: u64) {
    let base = now_ms() - 60_000;
    let mut server = start_flushing(directory);
    let address = Mutex::new(server.address.clone());
    let stop = AtomicBool::new(false);
    let [mut kill, mut flushes, mut compactions] = [0; 3];
    let senders: Vec<Sender> = (0..6)
        .map(|at| Sender {
            source: format!("00000000-0000-0000-0000-00000000000{at}"),
            name: format!("sender{at}_seconds"),
            acknowledged: AtomicU64::new(0),
        })
        .collect();
    let all = || senders.iter().map(|sender| sender.acknowledged.load(Ordering::SeqCst)).sum::<u64>();
    std::thread::scope(|scope| {
        for sender in &senders {
            scope.spawn(|| keep_sending(sender, &address, &stop, base));
        }
        let stop = StopAtEnd(&stop);
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        // On a slow machine it takes more of them until a flush was in progress.
        while kill < kills || flushes == 0 {
            assert!(kill < kills + 100, "no flush was in progress");
            kill += 1;
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            std::thread::sleep(Duration::from_millis(20 + (random >> 33) % 300));
            let before: Vec<u64> = senders.iter().map(|sender| sender.acknowledged.load(Ordering::SeqCst)).collect();
            let [more_flushes, more_compactions] = upkeep(&server);
            (flushes, compactions) = (flushes + more_flushes, compactions + more_compactions);
            server.kill();
            server = start_flushing(directory);
            // Nobody reaches this one yet: what is there is what was acknowledged, and at most the one in doubt.
            for (sender, before) in senders.iter().zip(before) {
                let after = sender.acknowledged.load(Ordering::SeqCst);
                let found = stored(&server, &sender.name, base);
                assert!(found >= before * PER_BATCH, "kill {kill}: {found} of {} are there", before * PER_BATCH);
                assert!(found <= (after + 1) * PER_BATCH, "kill {kill}: {found} are more than were sent");
                assert_eq!(found % PER_BATCH, 0, "kill {kill}: a part of a batch");
            }
            *address.lock().unwrap() = server.address.clone();
        }
        std::thread::sleep(Duration::from_millis(200));
        drop(stop);
    });
    server.kill();
    let server = Server::start(directory);
    for sender in &senders {
        let expected = sender.acknowledged.load(Ordering::SeqCst) * PER_BATCH;
        assert_eq!(stored(&server, &sender.name, base), expected, "{} after {kill} kills", sender.name);
    }
    println!(
        "{kill} kills among {flushes} flushes and {compactions} compactions: {} batches of {PER_BATCH} acknowledged, none lost, \
         none twice",
        all()
    );
}

#[test]
fn kill_nine_at_any_moment_loses_and_doubles_nothing() {
    let kills = std::env::var("OGIVE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let directory = tempfile::tempdir().unwrap();
    kill_while_sending(directory.path(), kills);
}

/// A byte in the middle of the journal went bad while the server was down. It says so with path and offset, what is
/// around it is served, and the batch that it cost counts when it is sent again.
#[test]
fn a_journal_with_a_bad_middle_is_told_and_what_is_around_it_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let base = now_ms() - 60_000;
    let mut server = Server::start(directory.path());
    let send = |server: &Server, n: u64| {
        let series = json!([float("f"), {"labels": {"__name__": "w"}, "kind": "text"}]);
        let time_ms = base + n as i64;
        let samples = json!([
            {"series": 0, "time_ms": time_ms, "float": n},
            {"series": 1, "time_ms": time_ms, "text": format!("word number {n:03}")},
        ]);
        server.batch(SOURCE, n, series, samples)
    };
    (1..=30).for_each(|n| assert_eq!(send(&server, n).0, 200));
    server.kill();
    let needle = b"word number 015";
    let journal = std::fs::read_dir(directory.path().join("journal")).unwrap();
    let (path, mut bytes, at) = journal
        .map(|entry| entry.unwrap().path())
        .filter_map(|path| {
            let bytes = std::fs::read(&path).unwrap();
            let at = bytes.windows(needle.len()).position(|window| window == needle)?;
            Some((path, bytes, at))
        })
        .next()
        .expect("the journal holds the batch");
    bytes[at + 3] ^= 4;
    std::fs::write(&path, bytes).unwrap();
    let server = Server::start(directory.path());
    let line = server.said.lines().find(|line| line.contains("recovery:")).unwrap_or_else(|| panic!("{}", server.said));
    assert!(line.contains(path.to_str().unwrap()), "{line}");
    let numbers = line.rsplit(path.to_str().unwrap()).next().unwrap().split(|letter: char| !letter.is_ascii_digit());
    let near = |number: u64| number <= at as u64 && number + 4096 > at as u64;
    assert!(numbers.filter_map(|digits| digits.parse().ok()).any(near), "{at}: {line}");
    let (status, figures) = server.get("/v1/status");
    assert_eq!((status, &figures["recovery_findings"]), (200, &json!(1)), "{figures}");
    let sum = |server: &Server| server.number("sum_over_time(f[1h])");
    assert_eq!(sum(&server), Some(f64::from((1..=30).sum::<i32>() - 15)));
    assert_eq!(send(&server, 15), (200, json!({"accepted": 2, "duplicate": 0, "rejected": []})));
    assert_eq!(send(&server, 16), (200, json!({"accepted": 0, "duplicate": 2, "rejected": []})));
    assert_eq!(sum(&server), Some(f64::from((1..=30).sum::<i32>())));
}
