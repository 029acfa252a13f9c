//! What do 10,000 idle brokers cost a server, and how soon does a change reach 99 % of 1,000?
//!
//! Starts the real server with an address for brokers, enrols simulated brokers that do nothing but poll, each over a
//! connection of its own, and measures: the processor time of the server's process while all are idle; its memory; and
//! for each of several changes the time from the beginning of the request that applies it to the moment at which a
//! broker had read the whole answer.
//!
//! `cargo bench -p ogive --bench fleet`; `OGIVE_BENCH_BROKERS` (default 1,000) that get the changes, `OGIVE_BENCH_IDLE`
//! (default 10,000) that idle for `OGIVE_BENCH_SECONDS` (default 60). Needs 2 files a broker: `ulimit -n`.

#[path = "../tests/common/mod.rs"]
mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::Server;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CHANGES: u64 = 5;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Processor time of the server so far, in seconds.
fn used(server: &Server) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    let rest = text.rsplit_once(')').unwrap().1;
    let ticks = |at: usize| rest.split_whitespace().nth(at).unwrap().parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

fn post(server: &Server, path: &str, body: &Value) -> Value {
    let head = format!("POST {path} HTTP/1.1\r\ncontent-type: application/json");
    let (status, answer) = server.request(&head, body.to_string().as_bytes()).unwrap();
    assert_eq!(status, 200, "{path}: {answer}");
    serde_json::from_str(&answer).unwrap()
}

/// The SHA-256 of a text, as the server knows a token.
fn sha256(text: &str) -> String {
    ogive_http::web::token_hash(text)
}

struct Fleet {
    /// The version that each broker has, and when it came.
    seen: Vec<AtomicU64>,
    times: Mutex<Vec<(u64, Instant)>>,
    polls: AtomicU64,
}

/// Polls until the process ends.
async fn broker(address: String, token: String, at: usize, fleet: Arc<Fleet>) {
    let mut version = 0;
    let mut pause = Duration::ZERO;
    loop {
        tokio::time::sleep(pause).await;
        pause = Duration::from_millis(500);
        let Ok(mut stream) = TcpStream::connect(&address).await else { continue };
        let _ = stream.set_nodelay(true);
        let mut answer = Vec::new();
        loop {
            let report = json!({"ogive": "0.1.0", "version": version, "spool_bytes": 1_000_000, "cpu": 0.01,
                "destinations": [{"name": "dc1", "lag_seconds": 0.1}]});
            let body = json!({"report": report, "begun": 0}).to_string();
            let request = format!(
                "POST /v1/fleet/poll HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nauthorization: Bearer \
                 {token}\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            if stream.write_all(request.as_bytes()).await.is_err() || !read(&mut stream, &mut answer).await {
                break;
            }
            fleet.polls.fetch_add(1, Ordering::Relaxed);
            let start = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
            let answer: Value = serde_json::from_slice(&answer[start..]).unwrap_or_default();
            if let Some(new) = answer["version"].as_u64().filter(|new| *new > version) {
                version = new;
                fleet.seen[at].store(new, Ordering::Relaxed);
                fleet.times.lock().unwrap().push((new, Instant::now()));
            }
        }
    }
}

/// Reads an answer with its length; false when the connection ended.
async fn read(stream: &mut TcpStream, into: &mut Vec<u8>) -> bool {
    into.clear();
    loop {
        let Ok(1..) = stream.read_buf(into).await else { return false };
        let Some(head) = into.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let text = String::from_utf8_lossy(&into[..head]).to_ascii_lowercase();
        let length = text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.trim().parse().ok());
        let length: usize = length.unwrap_or(0);
        if into.len() >= head + 4 + length {
            return true;
        }
    }
}

fn enrol(server: &Server, count: usize) -> Vec<String> {
    let threads = 8;
    let each = |thread: usize| {
        let mine = (thread..count).step_by(threads);
        mine.map(|at| {
            let ticket = post(server, "/v1/fleet/tickets", &json!({"group": "edge"}))["data"]["ticket"].clone();
            let token = format!("ogb_{at:064x}");
            let body = json!({"ticket": ticket, "name": format!("edge-{at}"), "token_sha256": sha256(&token)});
            post(server, "/v1/fleet/enroll", &body);
            (at, token)
        })
        .collect::<Vec<_>>()
    };
    let mut all: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || each(thread))).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    all.sort();
    all.into_iter().map(|(_, token)| token).collect()
}

/// Waits until all have `version`, for two minutes at most.
fn wait(fleet: &Fleet, count: usize, version: u64) {
    let until = Instant::now() + Duration::from_secs(120);
    let has = || fleet.seen[..count].iter().filter(|seen| seen.load(Ordering::Relaxed) >= version).count();
    while has() < count && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    if has() < count {
        println!("only {} of {count} have version {version}", has());
    }
}

/// Applies a change; when it began to.
fn apply(server: &Server, version: u64) -> Instant {
    let check = format!(
        "[[check]]\nname = \"shop-{version}\"\nkind = \"http\"\ntarget = \"https://shop.example.com/health\"\n"
    );
    // Brokers are answered before whoever applies it is.
    let begin = Instant::now();
    post(server, "/v1/fleet/groups/edge", &json!({"toml": check, "why": "bench"}));
    begin
}

fn main() {
    let (brokers, idle) = (number("OGIVE_BENCH_BROKERS", 1_000) as usize, number("OGIVE_BENCH_IDLE", 10_000) as usize);
    let seconds = number("OGIVE_BENCH_SECONDS", 60);
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--listen", "127.0.0.1:0", "--fleet-listen", "127.0.0.1:0"];
    let server = Server::try_start(&directory.path().join("data"), &arguments).unwrap_or_else(|said| panic!("{said}"));
    let address = server.line_address("brokers", "tcp");
    // What the server costs with nobody under it.
    std::thread::sleep(Duration::from_secs(5));
    let (before, memory) = (used(&server), server.memory_kib());
    std::thread::sleep(Duration::from_secs(20));
    let alone = (used(&server) - before) / 20.0;
    let total = brokers.max(idle);
    let tokens = enrol(&server, total);
    let fleet = Arc::new(Fleet {
        seen: (0..total).map(|_| AtomicU64::new(0)).collect(),
        times: Mutex::default(),
        polls: AtomicU64::new(0),
    });
    apply(&server, 1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let start = |from: usize, to: usize| {
        for (at, token) in tokens[from..to].iter().enumerate() {
            runtime.spawn(broker(address.clone(), token.clone(), from + at, fleet.clone()));
            if at % 50 == 49 {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    };
    start(0, brokers);
    wait(&fleet, brokers, 1);
    for change in 2..2 + CHANGES {
        std::thread::sleep(Duration::from_secs(2));
        let from = apply(&server, change);
        wait(&fleet, brokers, change);
        let times = fleet.times.lock().unwrap();
        let mut took: Vec<Duration> = times
            .iter()
            .filter(|(version, _)| *version == change)
            .map(|(_, at)| at.saturating_duration_since(from))
            .collect();
        took.sort();
        let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64();
        println!(
            "change {change} to {} of {brokers} brokers: p50 {:.3} s, p99 {:.3} s, max {:.3} s",
            took.len(),
            at(0.5),
            at(0.99),
            at(1.0)
        );
    }
    start(brokers, total);
    wait(&fleet, total, 1 + CHANGES);
    // The first polls came together; they part over the next ones.
    std::thread::sleep(Duration::from_secs(60));
    let (cpu, polls) = (used(&server), fleet.polls.load(Ordering::Relaxed));
    std::thread::sleep(Duration::from_secs(seconds));
    let share = (used(&server) - cpu) / seconds as f64;
    let polls = (fleet.polls.load(Ordering::Relaxed) - polls) as f64 / seconds as f64;
    println!(
        "{total} idle brokers: {:.1} % of a core more than the {:.1} % of the server alone, {polls:.0} polls/s, {:.0} MiB more memory",
        100.0 * (share - alone),
        100.0 * alone,
        (server.memory_kib() - memory) as f64 / 1024.0
    );
    runtime.shutdown_background();
}
