//! Every listener at once gets more than the server can take: it stays alive and answers, holds no more memory than it
//! may, slows those down who wait for an answer and loses nothing of theirs, counts the datagrams that nobody could
//! take, and takes the next batch as if nothing had been when the flood ends. Nothing here asserts a time.
//!
//! `OGIVE_FLOOD_SECONDS=180 OGIVE_FLOOD_CONNECTIONS=64 OGIVE_FLOOD_PICTURE=flood.svg cargo test -p ogive --release
//! --test system flood:: -- --nocapture` is the long run, with the curve of the memory.

mod picture;
mod ways;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Server, eventually, float, now_ms};
use serde_json::json;
use ways::{Http, SAMPLES, SERIES, WAYS};

/// 64 MiB of samples that are not in blocks yet, far less than the flood brings.
const INGEST_MIB: u64 = 64;

/// What the server may hold in a debug build: samples, 64 MiB of bodies that take up to five times that while they are
/// decoded, 64 MiB of lines that wait, and 100 MiB for itself.
const MEMORY_MIB_MAX: u64 = INGEST_MIB + 64 * 5 + 64 + 100;

/// A line of a datagram.
const DATAGRAM: &str = "flood_udp:1|c\n";
/// Lines of a datagram: each has as many, as the kernel counts datagrams.
const LINES: usize = 20;

/// What somebody sent, and how it went.
#[derive(Default)]
struct Sent {
    /// Samples that were acknowledged, or given to a socket.
    samples: AtomicU64,
    /// Times that somebody heard "later".
    later: AtomicU64,
}

impl Sent {
    fn add(&self, samples: u64) {
        // ORDERING: Relaxed; a counter that is read when its threads have ended.
        self.samples.fetch_add(samples, Ordering::Relaxed);
    }

    fn samples(&self) -> u64 {
        // ORDERING: Relaxed; see `add`.
        self.samples.load(Ordering::Relaxed)
    }
}

/// The flood goes on until this is set.
static OVER: AtomicBool = AtomicBool::new(false);

fn over() -> bool {
    // ORDERING: Relaxed; whoever sees it late sends a little more.
    OVER.load(Ordering::Relaxed)
}

/// Sends numbered bodies of `way` over one connection, each until it is acknowledged; `lane` is the connection's own.
fn post(server: &Server, way: &ways::Way, lane: usize, base_ms: i64, sent: &Sent) {
    let mut http = Http::connect(&server.address);
    for number in 0.. {
        if over() {
            return;
        }
        let body = (way.body)(lane, number, base_ms);
        loop {
            let (status, answer) = http.post(way.head, &body);
            match status {
                200 | 204 => break,
                429 => {
                    // ORDERING: Relaxed; see `Sent::add`.
                    sent.later.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(20));
                }
                _ => panic!("{}: {status} {answer}", way.name),
            }
        }
        sent.add(SAMPLES as u64);
    }
}

/// Writes lines without an end; the server reads as fast as it can. What was written is stored.
fn stream(address: &str, line: impl Fn(u64) -> String, sent: &Sent) {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut number = 0;
    while !over() {
        let lines: String = (number..number + 100).map(&line).collect();
        stream.write_all(lines.as_bytes()).unwrap();
        number += 100;
        sent.add(100);
    }
    // It has read everything when it closes too.
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
}

fn datagrams(address: &str, sent: &Sent) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let lines = DATAGRAM.repeat(LINES);
    while !over() {
        if socket.send_to(lines.as_bytes(), address).is_ok() {
            sent.add(LINES as u64);
        }
    }
}

/// The counts of a line of `/metrics` whose labels hold all of `labels`.
fn metric(server: &Server, name: &str, labels: &[&str]) -> f64 {
    let (_, text) = server.request("GET /metrics HTTP/1.1", b"").unwrap();
    let of = |line: &str| {
        let (said, count) = line.strip_prefix(name)?.rsplit_once(' ')?;
        labels.iter().all(|label| said.contains(label)).then(|| count.parse::<f64>().unwrap())
    };
    text.lines().filter_map(of).sum()
}

/// Asks as a load balancer and a person do, and gives the samples of the memory curve.
fn watch(server: &Server, from: Instant) -> Vec<(f64, u64)> {
    let mut curve = Vec::new();
    let (mut requested, mut slowest) = (0, Duration::ZERO);
    while !over() {
        let begin = Instant::now();
        assert_eq!(server.get("/-/ready").0, 200);
        let (status, answer) = server.get("/api/v1/query?query=sum(ogive_ingest_samples_total)");
        assert_eq!(status, 200, "{answer}");
        (requested, slowest) = (requested + 1, slowest.max(begin.elapsed()));
        curve.push((from.elapsed().as_secs_f64(), server.memory_kib() >> 10));
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("{requested} times ready and a query answered, slowest {slowest:?}");
    curve
}

/// A number that the environment may raise for the long run.
fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[test]
fn a_flood_at_every_listener_costs_nobody_anything() {
    let directory = tempfile::tempdir().unwrap();
    let memory = INGEST_MIB.to_string();
    let args = ["--listen", "127.0.0.1:0", "--ingest-memory-mib", &memory, "--statsd", "127.0.0.1:0"];
    let server = Server::try_start(directory.path(), &[&args[..], &["--graphite", "127.0.0.1:0"]].concat()).unwrap();
    let base_ms = now_ms() - 3_000_000;
    let posted: Vec<Sent> = WAYS.iter().map(|_| Sent::default()).collect();
    let [graphite, statsd, udp] = [(); 3].map(|()| Sent::default());
    // Of each protocol over HTTP; each sends as fast as it is answered.
    let connections = setting("OGIVE_FLOOD_CONNECTIONS", 8) as usize;
    let from = Instant::now();
    let mut curve = std::thread::scope(|scope| {
        for (way, sent) in WAYS.iter().zip(&posted) {
            for lane in 0..connections {
                let server = &server;
                scope.spawn(move || post(server, way, lane, base_ms, sent));
            }
        }
        let path = |number: u64| {
            let (series, at_ms) = (number % SERIES as u64, base_ms / 1000 + (number / SERIES as u64) as i64 % 3_000);
            // A new series each 3,000 points: the same time twice would be the same point.
            format!("flood_graphite;i={series};turn={} 1 {at_ms}\n", number / (3_000 * SERIES as u64))
        };
        let (graphite, statsd, udp) = (&graphite, &statsd, &udp);
        let [graphite_to, statsd_to, udp_to] =
            [("graphite", "tcp"), ("statsd", "tcp"), ("statsd", "udp")].map(|(of, by)| server.line_address(of, by));
        scope.spawn(move || stream(&graphite_to, path, graphite));
        scope.spawn(move || stream(&statsd_to, |number| format!("flood_statsd:{}|ms\n", number % 100 + 1), statsd));
        (0..2).for_each(|_| {
            let to = udp_to.clone();
            scope.spawn(move || datagrams(&to, udp));
        });
        let watching = scope.spawn(|| watch(&server, from));
        std::thread::sleep(Duration::from_secs(setting("OGIVE_FLOOD_SECONDS", 3)));
        // ORDERING: Relaxed; see `over`.
        OVER.store(true, Ordering::Relaxed);
        watching.join().unwrap()
    });
    // The next one is taken.
    let ended = Instant::now();
    let one = json!([{"series": 0, "time_ms": now_ms(), "float": 1}]);
    eventually("a batch after the flood is taken", || {
        (server.batch(crate::common::SOURCE, 1, json!([float("after")]), one.clone()).0 == 200).then_some(())
    });
    println!("{:?} after the flood the next batch was taken", ended.elapsed());
    for (way, sent) in WAYS.iter().zip(&posted) {
        // ORDERING: Relaxed; see `Sent::add`.
        let later = sent.later.load(Ordering::Relaxed);
        println!("{:12} {:>11} samples acknowledged, {later} times answered \"later\"", way.name, sent.samples());
        assert_eq!(stored(&server, way.name), sent.samples(), "{}", way.name);
    }
    println!("{:12} {:>11} lines", "graphite", graphite.samples());
    eventually("each line of Graphite is stored", || {
        (stored(&server, "flood_graphite") == graphite.samples()).then_some(())
    });
    println!("{:12} {:>11} measurements", "statsd, tcp", statsd.samples());
    eventually("each measurement of the stream is stored", || {
        let count = server.number("histogram_count(increase(flood_statsd[2h]))");
        (count == Some(statsd.samples() as f64)).then_some(())
    });
    datagrams_are_accounted_for(&server, &udp);
    curve.push((from.elapsed().as_secs_f64(), server.memory_kib() >> 10));
    let peak = server.memory_peak_kib() >> 10;
    println!("memory: {peak} MiB at most");
    if let Ok(path) = std::env::var("OGIVE_FLOOD_PICTURE") {
        std::fs::write(path, picture::svg(&curve, ended.duration_since(from).as_secs_f64(), MEMORY_MIB_MAX)).unwrap();
    }
    assert!(peak < MEMORY_MIB_MAX, "the server had held {peak} MiB, more than {MEMORY_MIB_MAX}");
}

/// Samples of `name`, series by series: the answer to one question has a limit.
fn stored(server: &Server, name: &str) -> u64 {
    let of =
        |series| server.number(&format!("sum(count_over_time({name}{{i=\"{series}\"}}[2h]))")).unwrap_or(0.0) as u64;
    (0..SERIES).map(of).sum()
}

/// Each measurement by datagram is stored or counted as dropped. The kernel says how many it dropped with the next
/// datagram, which may be dropped as well.
fn datagrams_are_accounted_for(server: &Server, sent: &Sent) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = server.line_address("statsd", "udp");
    let (mut dropped, mut count) = (0.0, 0.0);
    // A cell is stored when its second is over, and later on a busy machine: one datagram for many looks.
    let mut looks = 0..;
    eventually("each datagram is stored or counted", || {
        if looks.next()? % 50 == 0 {
            socket.send_to(DATAGRAM.repeat(LINES).as_bytes(), &to).unwrap();
            sent.add(LINES as u64);
        }
        dropped = metric(server, "ogive_ingest_unreadable_total{", &["\"statsd\"", "\"kernel_dropped\""]);
        dropped *= LINES as f64;
        dropped += metric(server, "ogive_ingest_unreadable_total{", &["\"statsd\"", "\"busy\""]);
        count = server.number("sum(increase(flood_udp[2h]))").unwrap_or(0.0);
        (count + dropped == sent.samples() as f64).then_some(())
    });
    println!("{:12} {:>11} measurements, {dropped} of them dropped and counted", "statsd, udp", sent.samples());
}
