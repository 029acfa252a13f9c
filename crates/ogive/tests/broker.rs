//! `ogive broker` between real clients and real servers: everything arrives once in each cluster, whatever is killed or
//! cut; what is given up is reported; load goes where it can be taken.
//!
//! `OGIVE_FAULT_SECONDS=300 cargo test -p ogive --test system broker:: -- --nocapture` is the long run.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::brokers::{broker, configure, destination, state, texts, url};
use crate::common::programs::free_address;
use crate::common::{JSON, Server, StopAtEnd, eventually, float, histogram, now_ms};
use serde_json::{Value, json};

fn one_batch(server: &Server, name: &str, sequence: u64, count: u64) -> (u16, Value) {
    let samples = json!([{"series": 0, "time_ms": now_ms() - 2000, "histogram": {"bins": {"1e-3": count}}}]);
    server.batch(crate::common::SOURCE, sequence, json!([histogram(name)]), samples)
}

#[test]
fn a_broker_brings_what_it_takes_to_every_cluster_and_says_so() {
    let directories: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let clusters = [Server::start(directories[1].path()), Server::start(directories[2].path())];
    let path = configure(
        directories[0].path(),
        "127.0.0.1:0",
        "",
        &[("dc1", &[url(&clusters[0])], ""), ("dc2", &[url(&clusters[1])], "order = \"newest\"\npacking = \"none\"")],
    );
    let check = std::process::Command::new(env!("CARGO_BIN_EXE_ogive")).args(["config", "check"]).arg(&path).output();
    assert!(check.unwrap().status.success());
    let broker = broker(&path);
    let taken = (200, json!({"accepted": 1, "duplicate": 0, "rejected": []}));
    assert_eq!(one_batch(&broker, "h_seconds", 1, 10), taken);
    assert_eq!(one_batch(&broker, "h_seconds", 1, 10).1["duplicate"], 1);
    assert_eq!(one_batch(&broker, "h_seconds", 2, 5), taken);
    // A series named by its identity alone that nobody declared here.
    let unknown = json!({"source": crate::common::SOURCE, "sequence": 9, "known": ["0000000000000000000000000000abcd"],
        "samples": [{"series": 0, "time_ms": now_ms(), "float": 1}]});
    let (status, answer) = broker.post(JSON, unknown.to_string().as_bytes());
    assert!(status == 409 || status == 400, "{status} {answer}");
    let statsd: SocketAddr = broker.line_address("statsd", "udp").parse().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    (0..50).for_each(|_| assert_eq!(socket.send_to(b"hits:1|c", statsd).unwrap(), 8));
    for cluster in &clusters {
        let counted = || cluster.number("sum(histogram_count(sum_over_time(h_seconds[1h])))").filter(|n| *n == 15.0);
        eventually("both batches, once each", counted);
        let hits = || cluster.number("sum(sum_over_time(hits[1h]))").filter(|n| *n >= 50.0);
        assert_eq!(eventually("all hits", hits), 50.0);
        let own = || cluster.number("sum(sum_over_time(ogive_spool_bytes{broker=\"edge\"}[1h]))");
        eventually("the broker's own series", own);
        let change =
            || texts(cluster, "ogive_config_change").iter().any(|text| text.contains("destination.dc1")).then_some(());
        eventually("the configuration's change", change);
    }
    let (status, answer) = broker.get("/api/v1/query?query=up");
    let word = answer["error"].as_str().unwrap();
    assert!(status == 503 && word.contains("a broker keeps no data; ask http://"), "{status} {word}");
    let (_, metrics) = broker.get("/metrics");
    assert!(metrics.as_str().unwrap().contains("ogive_broker_acknowledged_batches_total{destination=\"dc2\"}"));
    assert!(metrics.as_str().unwrap().contains("\nogive_disk_free_bytes{dir=\""), "{metrics}");
    eventually("the rates are of the same seconds", || {
        let state = state(&broker);
        let rate = |name: &str| destination(&state, "dc2")[name].as_f64().unwrap();
        (rate("acknowledged_bytes_per_second") > rate("acknowledged_per_second")).then_some(())
    });
    let state = state(&broker);
    assert_eq!(destination(&state, "dc1")["gaps"]["made_total"], 0, "{state}");
    assert_eq!(destination(&state, "dc2")["order"], "newest");
    let shown = std::process::Command::new(env!("CARGO_BIN_EXE_ogive"))
        .args(["broker", "status", "--server", &url(&broker)])
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("broker edge: spool") && shown.contains("dc2:"), "{shown}");
    assert_eq!(clusters[0].get("/v1/broker").0, 404);
}

/// A way to a server that a test can cut: connections die, and new ones do while it is cut.
struct Wire {
    address: SocketAddr,
    to: Arc<Mutex<String>>,
    open: Arc<AtomicBool>,
    /// What is sent arrives, and the answer does not.
    mute: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Wire {
    fn to(address: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let wire = Self {
            address: listener.local_addr().unwrap(),
            to: Arc::new(Mutex::new(address.to_owned())),
            open: Arc::new(AtomicBool::new(true)),
            mute: Arc::default(),
            streams: Arc::default(),
        };
        let (to, open, streams) = (wire.to.clone(), wire.open.clone(), wire.streams.clone());
        let mute = wire.mute.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let there =
                    if open.load(Ordering::SeqCst) { TcpStream::connect(&*to.lock().unwrap()).ok() } else { None };
                let Some(there) = there else { continue };
                streams.lock().unwrap().extend([stream.try_clone().unwrap(), there.try_clone().unwrap()]);
                pipe(stream.try_clone().unwrap(), there.try_clone().unwrap(), Arc::default());
                pipe(there, stream, mute.clone());
            }
        });
        wire
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn cut(&self) {
        self.open.store(false, Ordering::SeqCst);
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    fn mend(&self) {
        self.open.store(true, Ordering::SeqCst);
    }
}

/// What comes while it is `mute` ends the connection instead of being passed on.
fn pipe(mut from: TcpStream, mut to: TcpStream, mute: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let mut bytes = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if mute.load(Ordering::SeqCst) || to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(std::net::Shutdown::Both), to.shutdown(std::net::Shutdown::Both));
    });
}

/// Sends numbered batches until the stop flag is set; one that is not acknowledged is sent again. Gives the
/// observations.
fn keep_sending(address: &str, source: &str, stop: &AtomicBool, base: i64, sent: &AtomicU64) {
    let mut sequence = 0;
    while !stop.load(Ordering::SeqCst) {
        sequence += 1;
        let count = 1 + sequence % 5;
        let cell = base - 1000 * (sequence as i64 % 40);
        let body = json!({"source": source, "sequence": sequence, "series": [histogram("faults_seconds")],
            "samples": [{"series": 0, "time_ms": cell, "histogram": {"bins": {"1e-3": count}}}]});
        while post(address, body.to_string().as_bytes()).is_none() {
            std::thread::sleep(Duration::from_millis(20));
        }
        // Some hundred batches a second: what a debug build delivers while it is also killed.
        std::thread::sleep(Duration::from_millis(10));
        sent.fetch_add(count, Ordering::SeqCst);
    }
}

/// Some when it was acknowledged.
fn post(address: &str, body: &[u8]) -> Option<()> {
    let head = format!("POST /v1/batch HTTP/1.1\r\ncontent-type: {JSON}");
    let (status, answer) = crate::common::request_at(address, &head, body).ok()?;
    if status >= 429 {
        return None;
    }
    assert_eq!(status, 200, "{answer}");
    Some(())
}

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// What a fault run kills.
struct Run {
    brokered: PathBuf,
    broker: Option<Server>,
    clusters: [Option<Server>; 2],
    addresses: [String; 2],
    directories: [PathBuf; 2],
    wires: [Wire; 2],
    kills: [u64; 3],
}

impl Run {
    fn fault(&mut self, random: &mut Random) {
        let (what, at) = (random.below(3) as usize, random.below(2) as usize);
        let pause = Duration::from_millis(20 + random.below(600));
        self.kills[what] += 1;
        match what {
            0 => {
                self.broker.as_mut().unwrap().kill();
                std::thread::sleep(pause);
                self.broker = Some(broker(&self.brokered));
            }
            1 => {
                self.wires[at].cut();
                std::thread::sleep(pause);
                self.wires[at].mend();
            }
            _ => {
                self.clusters[at].as_mut().unwrap().kill();
                std::thread::sleep(pause);
                self.clusters[at] = Some(Server::start_at(&self.directories[at], &self.addresses[at]));
            }
        }
        std::thread::sleep(Duration::from_millis(random.below(800)));
    }
}

/// The broker, the ways and the servers are killed and cut in random order while senders send: both clusters count
/// every observation once.
#[test]
fn nothing_is_lost_or_counted_twice_whatever_is_killed() {
    let seconds = std::env::var("OGIVE_FAULT_SECONDS").map_or(20, |text| text.parse().expect("seconds"));
    let seed = std::env::var("OGIVE_FAULT_SEED").map_or(0x0067_1e5e, |text| text.parse().expect("a number"));
    let held: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let directories = [held[1].path().to_owned(), held[2].path().to_owned()];
    let addresses = [free_address(), free_address()];
    let clusters = [0, 1].map(|at| Some(Server::start_at(&directories[at], &addresses[at])));
    let wires = [Wire::to(&addresses[0]), Wire::to(&addresses[1])];
    let listen = free_address();
    let to = [wires[0].url(), wires[1].url()];
    let destinations: [(&str, &[String], &str); 2] = [
        ("dc1", &to[..1], "timeout = \"5s\"\nconnections = 32"),
        ("dc2", &to[1..], "timeout = \"5s\"\nconnections = 32\norder = \"newest\""),
    ];
    let brokered = configure(held[0].path(), &listen, "bytes-max = \"64MiB\"", &destinations);
    let started = Some(broker(&brokered));
    let mut run = Run { brokered, broker: started, clusters, addresses, directories, wires, kills: [0; 3] };
    let (stop, base) = (AtomicBool::new(false), now_ms());
    let sent = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let ended = StopAtEnd(&stop);
        for at in 0..3 {
            let source = format!("123e4567-e89b-12d3-a456-4266141740{at:02}");
            let (listen, stop, sent) = (&listen, &stop, &sent);
            scope.spawn(move || keep_sending(listen, &source, stop, base, sent));
        }
        let (mut random, until) = (Random(seed), Instant::now() + Duration::from_secs(seconds));
        // On a slow machine a kill takes seconds: each kind comes at least once.
        while Instant::now() < until || run.kills.contains(&0) || sent.load(Ordering::SeqCst) <= 100 {
            run.fault(&mut random);
        }
        drop(ended);
    });
    let sent = sent.load(Ordering::SeqCst);
    let broker = run.broker.as_ref().unwrap();
    for (name, cluster) in ["dc1", "dc2"].iter().zip(&run.clusters) {
        // The broker's own cells go on: what was sent is there when the destination is at most a moment behind.
        eventually("everything is delivered", || {
            destination(&state(broker), name)["lag_seconds"].as_f64().filter(|lag| *lag < 1.5)
        });
        let cluster = cluster.as_ref().unwrap();
        let counted = || cluster.number("sum(histogram_count(sum_over_time(faults_seconds[1h])))");
        eventually("every observation", || counted().filter(|count| *count >= sent as f64));
        assert_eq!(counted(), Some(sent as f64), "seed {seed}: {name} counts others than the senders");
        assert_eq!(destination(&state(broker), name)["gaps"]["made_total"], 0);
    }
    let [brokers, ways, servers] = run.kills;
    println!(
        "seed {seed}: {brokers} kills of the broker, {ways} cuts, {servers} kills of servers; {sent} sent and counted"
    );
}

/// One cluster is away until the spool is full: the other goes on, and the one that was away learns what it lacks.
#[test]
fn what_a_full_spool_gives_up_is_told_to_who_lacks_it() {
    let held: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let here = Server::start(held[1].path());
    let away = free_address();
    let path = configure(
        held[0].path(),
        "127.0.0.1:0",
        "bytes-max = \"1MiB\"\nmemory-max = \"64KiB\"",
        &[("here", &[url(&here)], ""), ("away", &[format!("http://{away}")], "order = \"newest\"")],
    );
    let broker = broker(&path);
    // 400 batches of some 10 KB: four times the spool.
    let line = |at: u64| format!("{at} {}", "word ".repeat(2_000));
    let series = json!([{"labels": {"__name__": "lines"}, "kind": "text"}]);
    for at in 1..=400 {
        let samples = json!([{"series": 0, "time_ms": now_ms() - 500_000 + at as i64, "text": line(at)}]);
        let (status, answer) = broker.batch(crate::common::SOURCE, at, series.clone(), samples);
        assert_eq!(status, 200, "{answer}");
        if at % 20 == 0 {
            let is_near = || destination(&state(&broker), "here")["lag_batches"].as_u64().filter(|lag| *lag < 20);
            eventually("the other keeps up", is_near);
        }
    }
    let given_up = || destination(&state(&broker), "away")["gaps"]["samples_total"].as_u64().filter(|lost| *lost > 200);
    eventually("the oldest are given up", given_up);
    eventually("the spool is within its limit", || {
        let state = state(&broker);
        (state["spool"]["bytes"].as_u64() <= Some(1_200_000)).then_some(())
    });
    eventually("the other cluster has all", || (texts(&here, "lines").len() == 400).then_some(()));
    assert_eq!(destination(&state(&broker), "here")["gaps"]["made_total"], 0);
    let back = Server::start_at(held[2].path(), &away);
    eventually("the gap is reported", || {
        let state = state(&broker);
        let away = destination(&state, "away");
        (away["lag_batches"].as_u64()? < 3 && away["gaps"]["waiting"].as_array()?.is_empty()).then_some(())
    });
    let lost = eventually("as many as are missing", || {
        let lost = destination(&state(&broker), "away")["gaps"]["samples_total"].as_f64();
        let reported = back.number("sum(sum_over_time(ogive_gap_samples{broker=\"edge\",destination=\"away\"}[1h]))");
        lost.filter(|_| lost == reported)
    });
    let gaps = destination(&state(&broker), "away")["gaps"]["told"].clone();
    let shown: f64 = gaps.as_array().unwrap().iter().map(|gap| gap["samples"].as_f64().unwrap()).sum();
    assert!(shown <= lost && shown > 0.0 && gaps[0]["reason"] == "spool_bytes" && gaps[0]["series"].as_u64() > Some(0));
    assert!(
        gaps[0]["largest"][0]["series"].is_string() && gaps[0]["from_ms"].as_i64() <= gaps[0]["to_ms"].as_i64(),
        "{gaps}"
    );
    let reported = texts(&back, "ogive_gap").join("\n");
    assert!(
        reported.contains("why=spool_bytes") && reported.lines().any(|line| line.ends_with(" lines")),
        "{reported}"
    );
    // The broker's own cells are among what was given up, so it is more than the lines that are missing.
    let mine = eventually("each line is there or given up", || {
        Some(texts(&back, "lines").len() as f64).filter(|mine| mine + lost >= 400.0)
    });
    assert!(mine < 400.0, "{mine} lines and {lost} given up");
}

/// A destination that was killed with requests in flight had stored up to thousands of samples that its gap counted as
/// missing. What arrived without an answer is in doubt, and a gap counts no more than that too many.
#[test]
fn what_arrived_without_an_answer_is_in_doubt() {
    let held: Vec<_> = (0..2).map(|_| tempfile::tempdir().unwrap()).collect();
    let server = Server::start(held[1].path());
    let wire = Wire::to(url(&server).trim_start_matches("http://"));
    let path = configure(
        held[0].path(),
        "127.0.0.1:0",
        "bytes-max = \"1MiB\"\nmemory-max = \"64KiB\"",
        &[("dc1", &[wire.url()], "")],
    );
    let broker = broker(&path);
    // What the broker says of itself comes first: unanswered, each of those records would have to fail before a line is
    // sent.
    eventually("nothing waits", || (destination(&state(&broker), "dc1")["lag_batches"].as_u64()? == 0).then_some(()));
    wire.mute.store(true, Ordering::SeqCst);
    let series = json!([{"labels": {"__name__": "lines"}, "kind": "text"}]);
    for at in 1..=300 {
        let text = format!("{at} {}", "word ".repeat(2_000));
        let samples = json!([{"series": 0, "time_ms": now_ms() - 500_000 + at as i64, "text": text}]);
        let (status, answer) = broker.batch(crate::common::SOURCE, at, series.clone(), samples);
        assert_eq!(status, 200, "{answer}");
        if at == 20 {
            eventually("some arrive, and nobody hears of it", || (!texts(&server, "lines").is_empty()).then_some(()));
        }
    }
    let given_up = || destination(&state(&broker), "dc1")["gaps"]["samples_total"].as_u64().filter(|lost| *lost > 150);
    eventually("the oldest are given up", given_up);
    wire.mute.store(false, Ordering::SeqCst);
    eventually("the gap is reported", || {
        let state = state(&broker);
        let there = destination(&state, "dc1");
        (there["lag_batches"].as_u64()? < 3 && there["gaps"]["waiting"].as_array()?.is_empty()).then_some(())
    });
    let gaps = texts(&server, "ogive_gap");
    let number = |line: &str, key: &str| -> u64 {
        line.split(' ').find_map(|field| field.strip_prefix(key)).map_or(0, |number| number.parse().unwrap())
    };
    let in_doubt: u64 = gaps.iter().map(|gap| number(gap, "in_doubt=")).sum();
    let lines = gaps.iter().flat_map(|gap| gap.lines()).filter(|line| line.ends_with(" lines"));
    let reported: u64 = lines.map(|line| line.split(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    // The last lines may still be in flight.
    let missing = eventually("some of those in doubt had arrived", || {
        Some(300 - texts(&server, "lines").len() as u64).filter(|missing| *missing < reported)
    });
    assert!(reported - missing <= in_doubt, "{reported} reported, {missing} missing, {in_doubt} in doubt");
    println!("{reported} lines reported, {missing} missing, {in_doubt} samples in doubt");
}

/// An endpoint that answers 429, and counts.
fn busy_endpoint(busy: Arc<AtomicBool>, requested: Arc<AtomicU64>, to: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (busy, requested, to) = (busy.clone(), requested.clone(), to.clone());
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                // One request a connection: its head, then as many bytes as it says.
                while let Ok(length) = read_request(&mut stream, &mut bytes) {
                    requested.fetch_add(1, Ordering::SeqCst);
                    let request: Vec<u8> = bytes.drain(..length).collect();
                    let answer = if busy.load(Ordering::SeqCst) {
                        b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 2\r\n\r\n{}".to_vec()
                    } else {
                        forward(&to, &request)
                    };
                    if stream.write_all(&answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    format!("http://{address}")
}

fn read_request(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> std::io::Result<usize> {
    loop {
        if let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
            let whole = head + 4 + length.unwrap_or(0);
            if bytes.len() >= whole {
                return Ok(whole);
            }
        }
        let mut piece = [0; 16 * 1024];
        match stream.read(&mut piece)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

/// The answer of `to` with a length, so that the connection can be kept.
fn forward(to: &str, request: &[u8]) -> Vec<u8> {
    let head = request.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let text = String::from_utf8_lossy(&request[..head]).into_owned();
    let mut stream = TcpStream::connect(to).unwrap();
    stream.write_all(format!("{text}\r\nconnection: close\r\n\r\n").as_bytes()).unwrap();
    stream.write_all(&request[head + 4..]).unwrap();
    let (status, body) = crate::common::read_answer(&mut stream).unwrap();
    format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[test]
fn load_leaves_an_endpoint_that_asks_for_less_and_comes_back() {
    let held: Vec<_> = (0..2).map(|_| tempfile::tempdir().unwrap()).collect();
    let server = Server::start(held[1].path());
    let (busy, requested) =
        (Arc::new(AtomicBool::new(false)), [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))]);
    let one = busy_endpoint(busy.clone(), requested[0].clone(), server.address.clone());
    let other = busy_endpoint(Arc::default(), requested[1].clone(), server.address.clone());
    let path =
        configure(held[0].path(), "127.0.0.1:0", "", &[("dc", &[one, other], "connections = 2\nrequest-batches = 1")]);
    let broker = broker(&path);
    let mut sequence = 0;
    let mut send = |count: u64| -> [u64; 2] {
        let before = [0, 1].map(|at| requested[at].load(Ordering::SeqCst));
        for _ in 0..count {
            sequence += 1;
            let samples = json!([{"series": 0, "time_ms": now_ms() - 100_000 + sequence as i64, "float": 1}]);
            assert_eq!(broker.batch(crate::common::SOURCE, sequence, json!([float("f")]), samples).0, 200);
        }
        let all = || server.number("count_over_time(f[1h])").filter(|count| *count == sequence as f64);
        eventually("all are there", all);
        [0, 1].map(|at| requested[at].load(Ordering::SeqCst) - before[at])
    };
    // An answer that the machine was long in giving turns load away for some requests, so that a round may be uneven.
    eventually("both get their share", || send(100).iter().all(|got| *got >= 20).then_some(()));
    busy.store(true, Ordering::SeqCst);
    eventually("the other gets what one does not want", || {
        let shifted = send(100);
        assert!(shifted[1] >= 100, "{shifted:?}");
        (shifted[0] < 40).then_some(())
    });
    busy.store(false, Ordering::SeqCst);
    eventually("its weight is back", || {
        destination(&state(&broker), "dc")["endpoints"][0]["weight"].as_f64().filter(|weight| *weight > 0.9)
    });
    eventually("it gets its share again", || (send(100)[0] >= 20).then_some(()));
}

/// A destination joins with SIGHUP and another leaves; the change is reported, a wrong file changes nothing.
#[test]
fn destinations_change_without_a_restart() {
    let held: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let servers = [Server::start(held[1].path()), Server::start(held[2].path())];
    let path = configure(held[0].path(), "127.0.0.1:0", "", &[("one", &[url(&servers[0])], "")]);
    let broker = broker(&path);
    assert_eq!(one_batch(&broker, "h_seconds", 1, 1).0, 200);
    let counted = |server: &Server| server.number("sum(histogram_count(sum_over_time(h_seconds[1h])))");
    eventually("the first", || counted(&servers[0]).filter(|count| *count == 1.0));
    std::fs::write(&path, "[spool]\ndirectroy = 'x'\n").unwrap();
    broker.signal("HUP");
    configure(held[0].path(), "127.0.0.1:0", "", &[("two", &[url(&servers[1])], "connections = 2")]);
    broker.signal("HUP");
    eventually("the new one is there", || (state(&broker)["destinations"][0]["name"] == "two").then_some(()));
    assert_eq!(one_batch(&broker, "h_seconds", 2, 4).0, 200);
    eventually("the second", || counted(&servers[1]).filter(|count| *count >= 4.0));
    assert_eq!(counted(&servers[0]), Some(1.0));
    eventually("the change is recorded", || {
        let texts = texts(&servers[1], "ogive_config_change");
        texts.iter().any(|text| text.contains("- destination.one.name")).then_some(())
    });
}
