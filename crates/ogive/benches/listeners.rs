//! How many events of logs does a CPU-second of the server take in through syslog, Beats and Fluent Forward; what do
//! filters cost; and does its memory stay flat when ten times as many come?
//!
//! Starts the real server on the disk of the temporary directory, once as it is and once with the filters for nginx,
//! and sends prepared bytes over several connections. Beats and Fluent Forward go on when a window is acknowledged,
//! that is durable; syslog has no acknowledgement and is held by back-pressure. A round ends when the server has
//! counted each event as accepted; an event that was rejected, unreadable or a duplicate is a failure. Accepted events
//! are divided by the processor time of the server's process (user and system, self observation included). The kinds
//! take turns, so that a busy machine hurts all alike.
//!
//! `cargo bench -p ogive --bench listeners`; `OGIVE_BENCH_ROUNDS` (default 3) rounds of each kind,
//! `OGIVE_BENCH_WINDOWS` (default 25) windows of 2,048 events a connection and round, `OGIVE_BENCH_TIMES` (default 10)
//! times as many events for the memory of a server of its own, 0 for none.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "common/process.rs"]
mod process;
#[path = "common/shippers.rs"]
mod shippers;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::{PATIENCE, Server, now_ms};
use process::{cpu_seconds, memory, spread};
use shippers::{Event, Form, Topic, WINDOW_EVENTS, Window};

const CONNECTIONS: usize = 4;

/// Events of a round have the times of the minute before it.
const SPAN_MS: i64 = 60_000;

/// What is sent in one kind of round, and to which server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Load {
    form: Form,
    topic: Topic,
    /// To the server with filters.
    is_filtered: bool,
}

const fn services(form: Form) -> Load {
    Load { form, topic: Topic::Services, is_filtered: false }
}

const fn access(is_filtered: bool) -> Load {
    Load { form: Form::Syslog, topic: Topic::Access, is_filtered }
}

/// The last two differ in the filters alone.
const LOADS: [Load; 6] = [
    services(Form::Syslog),
    services(Form::Beats),
    services(Form::BeatsCompressed),
    services(Form::Fluent),
    access(false),
    access(true),
];

impl Load {
    fn name(self) -> String {
        let topic = if self.topic == Topic::Services { "services" } else { "access log" };
        format!("{:?}, {topic}{}", self.form, if self.is_filtered { ", filters" } else { "" })
    }

    /// The `protocol` of the server's counters.
    fn protocol(self) -> &'static str {
        match self.form {
            Form::Syslog => "syslog",
            Form::Beats | Form::BeatsCompressed => "beats",
            Form::Fluent => "fluent",
        }
    }

    /// `count` windows of a host, whose first event has the number `first`.
    fn windows(self, host: usize, count: usize, first: u64) -> Vec<Window> {
        let total = (count * WINDOW_EVENTS) as i64;
        let start_ms = now_ms() - SPAN_MS;
        let event = |at: usize| Event {
            topic: self.topic,
            host,
            number: first + at as u64,
            time_ms: start_ms + at as i64 * SPAN_MS / total,
        };
        let events: Vec<Event> = (0..count * WINDOW_EVENTS).map(event).collect();
        events.chunks(WINDOW_EVENTS).map(|events| Window::new(self.form, events)).collect()
    }
}

/// A server with its data, and the number of the next event that it gets.
struct Target {
    server: Server,
    next: u64,
    _directory: tempfile::TempDir,
}

/// What the server counted of a protocol.
#[derive(Clone, Copy)]
struct Counts {
    accepted: u64,
    /// Rejected, duplicate or unreadable.
    lost: u64,
}

impl Target {
    fn start(is_filtered: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut arguments = vec!["--listen", "127.0.0.1:0"];
        ["--syslog", "--beats", "--fluent"].iter().for_each(|option| arguments.extend([*option, "127.0.0.1:0"]));
        if is_filtered {
            arguments.extend(["--filters", "nginx"]);
        }
        let server = Server::try_start(&directory.path().join("data"), &arguments);
        let server = server.unwrap_or_else(|said| panic!("no start: {said}"));
        std::thread::sleep(Duration::from_secs(1));
        Self { server, next: 1, _directory: directory }
    }

    fn counts(&self, protocol: &str) -> Counts {
        let (status, body) = self.server.get("/v1/status");
        assert_eq!(status, 200, "{body}");
        // A protocol without traffic is not in it.
        let of = |name: &str| body[format!("{protocol}_{name}_total")].as_u64().unwrap_or(0);
        Counts { accepted: of("accepted"), lost: of("rejected") + of("duplicate") + of("unreadable") }
    }

    /// A count of the filter for access logs.
    fn filtered(&self, outcome: &str) -> u64 {
        let (_, text) = self.server.request("GET /metrics HTTP/1.1", b"").unwrap();
        let begin = format!("ogive_filter_events_total{{filter=\"nginx-access\",outcome=\"{outcome}\"}} ");
        let found = text.lines().find_map(|line| line.strip_prefix(&begin));
        found.unwrap_or_else(|| panic!("no {begin}")).parse::<f64>().unwrap() as u64
    }

    /// Sends `count` windows over each connection, and waits until all their events are accepted.
    fn round(&mut self, load: Load, count: usize) -> Round {
        let of_connection = (count * WINDOW_EVENTS) as u64;
        let prepared: Vec<Vec<Window>> =
            (0..CONNECTIONS).map(|host| load.windows(host, count, self.next + host as u64 * of_connection)).collect();
        let sent = CONNECTIONS as u64 * of_connection;
        self.next += sent;
        let bytes: usize = prepared.iter().flatten().map(|window| window.bytes.len()).sum();
        let address = &self.server.line_address(load.protocol(), "tcp");
        let before = self.counts(load.protocol());
        let (cpu, from) = (cpu_seconds(&self.server), Instant::now());
        std::thread::scope(|scope| {
            for windows in &prepared {
                scope.spawn(move || send(address, windows));
            }
        });
        self.accepted(load.protocol(), before, sent);
        Round {
            events: sent as f64,
            wall: from.elapsed().as_secs_f64(),
            cpu: cpu_seconds(&self.server) - cpu,
            bytes: bytes as f64 / sent as f64,
        }
    }

    /// Waits until `sent` events more than `before` are accepted; no other outcome will do.
    fn accepted(&self, protocol: &str, before: Counts, sent: u64) {
        let from = Instant::now();
        loop {
            let now = self.counts(protocol);
            assert_eq!(now.lost, before.lost, "{protocol}: events were rejected, duplicate or unreadable");
            let accepted = now.accepted - before.accepted;
            assert!(accepted <= sent, "{accepted} events of {sent} are accepted");
            if accepted == sent {
                return;
            }
            assert!(from.elapsed() < PATIENCE, "{protocol}: {accepted} events of {sent} are accepted");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Figures of one round.
struct Round {
    events: f64,
    cpu: f64,
    wall: f64,
    /// Of an event on the wire.
    bytes: f64,
}

impl Round {
    fn cpu_per_event(&self) -> f64 {
        self.cpu.max(0.01) / self.events
    }
}

/// Sends windows over a connection of its own, each when the one before is acknowledged.
fn send(address: &str, windows: &[Window]) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    for window in windows {
        stream.write_all(&window.bytes).unwrap();
        let mut answer = vec![0; window.acknowledgement.len()];
        loop {
            stream.read_exact(&mut answer).unwrap();
            if answer == window.acknowledgement {
                break;
            }
            // While the store has no room, a client of Beats hears that nothing of its window is stored yet.
            assert_eq!(answer, b"2A\0\0\0\0", "{}", answer.escape_ascii());
        }
    }
}

/// The memory of a server of its own after one round of a load, and after `times` as many.
fn show_memory(load: Load, windows: usize, times: u64) {
    let mut target = Target::start(load.is_filtered);
    let measured = |target: &Target| {
        // The allocator returns what is free.
        std::thread::sleep(Duration::from_secs(3));
        let (_, status) = target.server.get("/v1/status");
        let mib = |bytes: f64| bytes / (1 << 20) as f64;
        (mib(memory(&target.server)), mib(status["head_bytes"].as_f64().unwrap_or_default()))
    };
    target.round(load, windows);
    let (once, head_once) = measured(&target);
    for _ in 1..times {
        target.round(load, windows);
    }
    let (finally, head_finally) = measured(&target);
    println!(
        "{:28} anonymous memory {once:.0} MiB after {} events, {finally:.0} MiB after {times} times as many: {:.2} of it \
         (of which not in blocks yet: {head_once:.0} and {head_finally:.0} MiB); at most {} MiB resident",
        load.name(),
        CONNECTIONS * windows * WINDOW_EVENTS,
        finally / once,
        target.server.memory_peak_kib() >> 10
    );
}

fn show(figures: &[Vec<Round>]) {
    for (load, rounds) in LOADS.iter().zip(figures) {
        let per = |of: fn(&Round) -> f64| spread(rounds.iter().map(of).collect());
        println!(
            "{:28} {} events a CPU-second; {} a second of wall time; {:.0} bytes each on the wire",
            load.name(),
            per(|round| 1.0 / round.cpu_per_event()),
            per(|round| round.events / round.wall),
            rounds[0].bytes
        );
    }
    let [.., plain, filtered] = figures else { unreachable!("there are loads") };
    let percent =
        plain.iter().zip(filtered).map(|(plain, filtered)| 100.0 * filtered.cpu_per_event() / plain.cpu_per_event());
    println!("with filters, an event of an access log takes {} % of the CPU without", spread(percent.collect()));
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn main() {
    let rounds = number("OGIVE_BENCH_ROUNDS", 3).max(1);
    let windows = number("OGIVE_BENCH_WINDOWS", 25).max(1) as usize;
    let mut targets = [false, true].map(Target::start);
    let mut figures: Vec<Vec<Round>> = LOADS.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (load, figures) in LOADS.iter().zip(&mut figures) {
            figures.push(targets[usize::from(load.is_filtered)].round(*load, windows));
        }
    }
    println!(
        "{CONNECTIONS} connections, {rounds} rounds of {} events: median (least..greatest)",
        CONNECTIONS * windows * WINDOW_EVENTS
    );
    show(&figures);
    // The filters have read each of their lines.
    let filtered = &targets[1];
    assert_eq!((filtered.filtered("matched"), filtered.filtered("unparsed")), (filtered.next - 1, 0));
    drop(targets);
    let times = number("OGIVE_BENCH_TIMES", 10);
    if times > 0 {
        LOADS.iter().for_each(|load| show_memory(*load, windows, times));
    }
}
