//! Watches of a broker: what comes to it is seen at once, once, and by nobody who may not.

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::TcpStream;

use crate::common::brokers::{broker, texts};
use crate::common::programs::free_address;
use crate::common::{SOURCE, Server, eventually, form, histogram, now_ms};
use crate::fleet::{Site, said};
use serde_json::{Value, json};

/// A stream of what comes to a broker.
struct Watched {
    lines: Lines<BufReader<TcpStream>>,
}

fn path(broker: &str, query: &str) -> String {
    format!("/v1/fleet/brokers/{broker}/live?quantiles=0.5,0.99&query={}", form(query))
}

impl Watched {
    /// The status when it is not 200.
    fn try_open(server: &Server, broker: &str, query: &str) -> Result<Self, String> {
        let mut stream = server.connect();
        write!(stream, "GET {} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", path(broker, query)).unwrap();
        let mut lines = BufReader::new(stream).lines();
        let status = lines.next().unwrap().unwrap();
        if status.contains(" 200 ") { Ok(Self { lines }) } else { Err(status) }
    }

    fn open(server: &Server, broker: &str, query: &str) -> Self {
        Self::try_open(server, broker, query).unwrap_or_else(|status| panic!("{status}"))
    }

    /// The next event, its name and its data, while there is one.
    fn event(&mut self) -> Option<(String, Value)> {
        let mut name = String::new();
        loop {
            let line = self.lines.next()?.unwrap();
            if let Some(event) = line.strip_prefix("event: ") {
                event.clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(data).unwrap()));
            }
        }
    }

    fn column(&mut self) -> Value {
        let (name, data) = self.event().expect("it goes on");
        assert_eq!(name, "column", "{data}");
        data
    }

    /// Why it ended; behind that nothing comes.
    fn end(&mut self) -> String {
        loop {
            let (name, data) = self.event().expect("it says why it ends");
            if name == "error" {
                assert!(self.event().is_none());
                return data["error"].as_str().unwrap().to_owned();
            }
        }
    }
}

fn count(column: &Value) -> u64 {
    column["count"].as_str().unwrap().parse().unwrap()
}

fn audit(server: &Server, words: &[&str]) -> String {
    eventually(&format!("{words:?} is in the audit"), || {
        let all = texts(server, "ogive_audit{action=\"fleet_watch\"}");
        all.into_iter().find(|text| words.iter().all(|word| text.contains(word)))
    })
}

/// Measurements of `rpc_seconds` that a server has.
fn stored(server: &Server) -> Option<String> {
    let now = now_ms() / 1_000;
    let path = format!("/v1/heatmap?query=rpc_seconds&start={}&end={}&step=60", now - 1_200, now + 60);
    let (status, body) = server.get(&path);
    assert_eq!(status, 200, "{body}");
    body["data"]["distribution"]["count"].as_str().map(str::to_owned).filter(|count| count != "0")
}

/// A batch of four measurements of each of two hosts.
fn push(edge: &Server, sequence: u64) -> Value {
    let of = |host: &str| {
        let mut series = histogram("rpc_seconds");
        series["labels"]["host"] = json!(host);
        series
    };
    let time_ms = now_ms() - 1_000;
    let sample =
        |series: u32| json!({"series": series, "time_ms": time_ms, "histogram": {"bins": {"1e-3": 3, "2e-2": 1}}});
    let (status, answer) = edge.batch(SOURCE, sequence, json!([of("a"), of("b")]), json!([sample(0), sample(1)]));
    assert_eq!(status, 200, "{answer}");
    answer
}

#[test]
fn what_comes_is_seen_while_its_destination_is_unreachable_and_is_stored_once() {
    let site = Site::new();
    let destination = free_address();
    let config = site.configure("edge-1", "allow = [\"watch\"]");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace(&site.address, &destination)).unwrap();
    let enroled = site.enrol(&site.ticket(&[]), &config);
    assert!(enroled.status.success(), "{}", said(&enroled));
    let edge = broker(&config);
    site.comes("edge-1");
    // What came before somebody watched is not shown.
    push(&edge, 1);
    let mut watch = Watched::open(site.server(), "edge-1", "rpc_seconds{host!=\"b\"}");
    let first = watch.column();
    assert_eq!((count(&first), &first["cells"]), (0, &json!([])), "{first}");
    for sequence in 2..=21 {
        assert_eq!(push(&edge, sequence)["accepted"], 2);
        if sequence % 5 == 0 {
            assert_eq!(push(&edge, sequence)["duplicate"], 2);
        }
    }
    let (mut whole, mut of_cells) = (0, 0);
    while whole < 80 {
        let column = watch.column();
        whole += count(&column);
        for cell in column["cells"].as_array().unwrap() {
            assert_eq!((&cell["labels"]["host"], &cell["unit"]), (&json!("a"), &json!("s")), "{cell}");
            assert!(cell["quantiles"].as_array().unwrap().len() == 2 && cell["temporality"] == "delta", "{cell}");
            of_cells += count(cell);
        }
        let bins = column["bins"].as_array().unwrap().iter().map(|bin| bin[2].as_f64().unwrap()).sum::<f64>();
        assert_eq!(bins, count(&column) as f64, "{column}");
        let none = json!({"batches": 0, "samples": 0, "texts": 0, "schemes": 0, "bins": 0, "deltas": 0});
        assert_eq!(column["left_out"], none, "{column}");
    }
    assert_eq!((whole, of_cells, stored(site.server())), (80, 80, None));
    // The destination gets each batch once, and that is seen by nobody again.
    let target = Server::start_at(&site.path("target"), &destination);
    eventually("the destination has everything", || stored(&target).filter(|count| count == "168"));
    // Columns from before are waiting to be read.
    let delivered = now_ms() / 1_000;
    loop {
        let column = watch.column();
        assert_eq!(count(&column), 0, "{column}");
        if column["t"].as_i64().unwrap() > delivered + 1 {
            break;
        }
    }
    assert_eq!((stored(&target).as_deref(), stored(site.server())), (Some("168"), None));
    // In a terminal.
    let shown = site.fleet(&["watch", "edge-1", "rpc_seconds", "--seconds", "2"]);
    assert!(shown.status.success() && said(&shown).matches("nothing came").count() == 2, "{}", said(&shown));
    let shown = site.fleet(&["watch", "edge-1", "{broker=\"edge-1\"}", "--seconds", "1", "--json"]);
    let column: Value = serde_json::from_str(said(&shown).trim()).unwrap();
    assert!(column["t"].is_i64() && column["cells"].is_array(), "{column}");
}

/// Waits until the broker's own series of watches has this value.
fn watches(edge: &Server, value: u32) {
    let line = format!("\nogive_fleet_watches {value}");
    eventually(&format!("{value} watch"), || edge.get("/metrics").1.as_str()?.contains(&line).then_some(()));
}

#[test]
fn a_watch_ends_with_whoever_reads_with_the_broker_and_with_its_enrolment() {
    let site = Site::new();
    let mut edge = site.broker("edge-1", "allow = [\"watch\"]");
    site.comes("edge-1");
    let mut watch = Watched::open(site.server(), "edge-1", "up");
    watch.column();
    watches(&edge, 1);
    audit(site.server(), &["somebody without a login from 127.0.0.1\nbroker \"edge-1\", series \"up\"", "\nwatched"]);
    drop(watch);
    watches(&edge, 0);
    audit(site.server(), &["series \"up\"", "closed by whoever asked"]);
    // The broker is killed.
    let mut watch = Watched::open(site.server(), "edge-1", "up");
    watch.column();
    edge.kill();
    let why = watch.end();
    assert!(why.contains("the watch of edge-1 has ended: the connection of the broker broke"), "{why}");
    // It is back and revoked.
    let edge = broker(&site.path("edge-1/broker.toml"));
    let mut watch = eventually("it can be watched", || Watched::try_open(site.server(), "edge-1", "up").ok());
    watch.column();
    let revoked = site.fleet(&["revoke", "edge-1"]);
    assert!(revoked.status.success(), "{}", said(&revoked));
    assert!(watch.end().contains("the broker was revoked or replaced"));
    watches(&edge, 0);
}

#[test]
fn who_may_not_watch_learns_why() {
    let site = Site::new();
    let _closed = site.broker("edge-1", "");
    let _open = site.broker("edge-2", "allow = [\"watch\", \"file\"]");
    site.comes("edge-1");
    site.comes("edge-2");
    let refused = |broker: &str, query: &str, status: u16, words: &[&str]| {
        let (found, body) = site.server().get(&path(broker, query));
        assert_eq!(found, status, "{body}");
        for word in words {
            assert!(body["error"].as_str().unwrap().contains(word), "{word:?} is not in {body}");
        }
    };
    refused("edge-1", "up", 403, &["lets nobody watch", "allow of [fleet]", "broker.toml"]);
    audit(site.server(), &["broker \"edge-1\"", "refused, not_allowed: "]);
    refused("edge-9", "up", 404, &["there is no broker"]);
    refused("edge-2", "sum(up)", 400, &["not a plain selector"]);
    refused("edge-2", "up offset 1m", 400, &["not a plain selector"]);
    refused("edge-2", "", 400, &["\"query\" is missing"]);
    let output = site.fleet(&["watch", "edge-1", "up"]);
    assert!(!output.status.success() && said(&output).contains("lets nobody watch"), "{}", said(&output));
    let mut all: Vec<Watched> = (0..4).map(|_| Watched::open(site.server(), "edge-2", "up")).collect();
    all.iter_mut().for_each(|watch| drop(watch.column()));
    refused("edge-2", "up", 429, &["4 people watch", "edge-2"]);
    all.pop();
    all.push(eventually("a place is free again", || Watched::try_open(site.server(), "edge-2", "up").ok()));
}
