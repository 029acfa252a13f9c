//! `ogive broker` as it is set up: every protocol in, TLS and tokens out, limits of age, names with several addresses,
//! a changed file.

use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::process::{Command, Stdio};

use crate::common::authority::Authority;
use crate::common::brokers::{broker, configure, destination, state, texts, url};
use crate::common::programs::{Program, free_address};
use crate::common::{JSON, Server, eventually, float, now_ms};
use rcgen::ExtendedKeyUsagePurpose;
use serde_json::{Value, json};

/// Observations by each protocol.
const N: u64 = 300;

fn ask(server: &Server, head: &str, body: &str) -> u16 {
    server.request(head, body.as_bytes()).unwrap().0
}

fn floats(broker: &Server, name: &str, count: u64) {
    for sequence in 1..=count {
        let samples = json!([{"series": 0, "time_ms": now_ms() - 100_000 + sequence as i64, "float": 1}]);
        let (status, answer) = broker.batch(crate::common::SOURCE, sequence, json!([float(name)]), samples);
        assert_eq!(status, 200, "{answer}");
    }
}

/// OTLP, InfluxDB's lines, Graphite and StatsD: what N senders sent is counted N times in each cluster.
#[test]
fn every_protocol_comes_through_once() {
    let held: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let clusters = [Server::start(held[1].path()), Server::start(held[2].path())];
    let to = [("dc1", &[url(&clusters[0])][..], ""), ("dc2", &[url(&clusters[1])][..], "order = \"newest\"")];
    let path = configure(held[0].path(), "127.0.0.1:0", "", &to);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("graphite = [\"127.0.0.1:0\"]\n{text}")).unwrap();
    let broker = broker(&path);
    let (now, base_ns) = (now_ms() / 1000, (now_ms() - 400_000) * 1_000_000);
    for at in 0..N {
        let time_ns = base_ns + at as i64 * 1_000_000_000;
        let point = json!({"asInt": "1", "timeUnixNano": time_ns.to_string(), "startTimeUnixNano": (time_ns - 1_000_000_000).to_string()});
        let metric = json!({"name": "otlp.hits", "sum": {"aggregationTemporality": 1, "isMonotonic": true, "dataPoints": [point]}});
        let body = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]});
        let head = format!("POST /v1/metrics HTTP/1.1\r\ncontent-type: {JSON}");
        assert_eq!(ask(&broker, &head, &body.to_string()), 200);
    }
    let lines: Vec<String> =
        (0..N).map(|at| format!("influx hits=1 {}", base_ns + at as i64 * 1_000_000_000)).collect();
    for some in lines.chunks(50) {
        assert_eq!(ask(&broker, "POST /write?db=x HTTP/1.1", &some.join("\n")), 204);
    }
    let mut graphite = TcpStream::connect(broker.line_address("graphite", "tcp")).unwrap();
    let plain: String = (0..N).map(|at| format!("graphite.hits 1 {}\n", now - 400 + at as i64)).collect();
    graphite.write_all(plain.as_bytes()).unwrap();
    let (udp, statsd) = (UdpSocket::bind("127.0.0.1:0").unwrap(), broker.line_address("statsd", "udp"));
    (0..N).for_each(|_| assert!(udp.send_to(b"statsd.hits:1|c\nstatsd.took:5|ms", &statsd).is_ok()));
    for cluster in &clusters {
        cluster.grows_to("sum(sum_over_time(otlp_hits_total[1h]))", N as f64);
        cluster.grows_to("sum(count_over_time(influx_hits[1h]))", N as f64);
        cluster.grows_to("sum(count_over_time({__name__=~\"graphite.hits\"}[1h]))", N as f64);
        cluster.grows_to("sum(sum_over_time(statsd_hits[1h]))", N as f64);
        cluster.grows_to("sum(histogram_count(sum_over_time(statsd_took[1h])))", N as f64);
    }
}

/// The endpoint asks for a certificate and a token: with both everything arrives; without one of them it waits, and the
/// broker says why.
#[test]
fn certificates_and_tokens_open_the_way() {
    let held: Vec<_> = (0..2).map(|_| tempfile::tempdir().unwrap()).collect();
    let file = |name: &str| held[0].path().join(name).to_str().unwrap().to_owned();
    let authority = Authority::new();
    std::fs::write(file("ca.pem"), authority.0.pem()).unwrap();
    authority.certify(held[0].path(), "server", ExtendedKeyUsagePurpose::ServerAuth);
    authority.certify(held[0].path(), "client", ExtendedKeyUsagePurpose::ClientAuth);
    let made = Command::new(env!("CARGO_BIN_EXE_ogive"))
        .args(["token", "new", "--name", "edge", "--allow", "read,write"])
        .output()
        .unwrap();
    let said = String::from_utf8(made.stdout).unwrap();
    let (token, rest) = said.split_once("\n\n").unwrap();
    let (_, entry) = rest.split_once("tokens:\n").unwrap();
    let tls = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n  client_auth_type: RequireAndVerifyClientCert\n  \
               client_ca_file: ca.pem\n";
    std::fs::write(file("web.yml"), format!("{tls}tokens:\n{entry}")).unwrap();
    let arguments = ["--listen", "127.0.0.1:0", "--web-config", &file("web.yml")];
    let server = Server::try_start(held[1].path(), &arguments).unwrap();
    let to = [format!("https://{}", server.address)];
    let bare = format!("ca-file = {:?}\ntoken-file = {:?}", file("ca.pem"), file("token"));
    let whole = format!("{bare}\ncert-file = {:?}\nkey-file = {:?}", file("client.pem"), file("client.key"));
    std::fs::write(file("token"), "ogive_wrong\n").unwrap();
    let path = configure(held[0].path(), "127.0.0.1:0", "", &[("whole", &to, &whole), ("bare", &to, &bare)]);
    let broker = broker(&path);
    floats(&broker, "guarded", 20);
    let problem = |name: &str| destination(&state(&broker), name)["problem"]["text"].as_str().map(str::to_owned);
    eventually("a wrong token is reported", || problem("whole").filter(|problem| problem.contains("401")));
    eventually("no certificate", || problem("bare").filter(|problem| problem.contains("no response")));
    std::fs::write(file("token"), format!("{token}\n")).unwrap();
    broker.signal("HUP");
    let counted = || {
        let query = format!("https://{}/api/v1/query?query=sum(count_over_time(guarded%5B1h%5D))", server.address);
        let output = Command::new("curl")
            .args(["-s", "--max-time", "30", "--cacert", &file("ca.pem"), "--cert", &file("client.pem")])
            .args(["--key", &file("client.key"), "-H", &format!("authorization: Bearer {token}"), &query])
            .output()
            .expect("curl is there");
        let body: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        body["data"]["result"][0]["value"][1].as_str().map(|text| text.parse::<f64>().unwrap())
    };
    eventually("all of it", || counted().filter(|count| *count == 20.0));
    let state = state(&broker);
    assert!(destination(&state, "bare")["lag_batches"].as_u64() >= Some(20), "{state}");
    assert_eq!(destination(&state, "bare")["acknowledged_batches_total"], 0);
}

/// What waited longer than `age-max` is given up, and the cluster that lacks it says so.
#[test]
fn what_is_too_old_becomes_a_gap_that_its_destination_shows() {
    let held: Vec<_> = (0..2).map(|_| tempfile::tempdir().unwrap()).collect();
    let away = free_address();
    let to = [("away", &[format!("http://{away}")][..], "")];
    let broker = broker(&configure(held[0].path(), "127.0.0.1:0", "age-max = \"2s\"", &to));
    floats(&broker, "aged", 25);
    // 25 of ours, and of the broker's own cells what came with them.
    let end = state(&broker)["spool"]["end"].as_u64().unwrap();
    eventually("they are given up", || {
        let state = state(&broker);
        let gaps = &destination(&state, "away")["gaps"];
        let found = gaps["waiting"].as_array()?.iter().any(|gap| gap["reason"] == "spool_age");
        (found && gaps["samples_total"].as_u64()? >= 25 && state["spool"]["first"].as_u64()? >= end).then_some(())
    });
    // A gap names series, and those are their tenant's.
    let (_, said) = broker.request("GET /v1/broker HTTP/1.1\r\nx-scope-orgid: other", b"").unwrap();
    assert!(said.contains("samples_total") && !said.contains("\"largest\""), "{said}");
    let back = Server::start_at(held[1].path(), &away);
    let reported = || {
        let lines = texts(&back, "ogive_gap{reason=\"spool_age\"}").join("\n");
        let aged = lines.lines().filter(|line| line.ends_with(" aged"));
        aged.map(|line| line.split(' ').next().unwrap().parse::<u64>().unwrap()).sum::<u64>()
    };
    eventually("the gap names the series", || (reported() == 25).then_some(()));
    let samples = "sum(sum_over_time(ogive_gap_samples{broker=\"edge\",reason=\"spool_age\"}[1h]))";
    eventually("it is counted", || back.number(samples).filter(|count| *count >= 25.0));
    assert_eq!(back.number("count_over_time(aged[1h])"), None);
}

/// A name with two addresses, of which only one answers: everything arrives, and the other is shown.
#[test]
fn every_address_of_a_name_is_an_endpoint() {
    let held: Vec<_> = (0..2).map(|_| tempfile::tempdir().unwrap()).collect();
    let server = Server::start(held[1].path());
    let port = server.address.rsplit(':').next().unwrap();
    let to = [("dc", &[format!("http://localhost:{port}")][..], "connections = 4")];
    let broker = broker(&configure(held[0].path(), "127.0.0.1:0", "", &to));
    floats(&broker, "named", 50);
    server.grows_to("count_over_time(named[1h])", 50.0);
    let four = format!("127.0.0.1:{port}");
    eventually("what was sent is counted", || {
        let endpoints = destination(&state(&broker), "dc")["endpoints"].clone();
        let found = endpoints.as_array().unwrap().iter().find(|one| one["address"] == *four).cloned();
        found.filter(|one| one["sent_total"].as_u64() > Some(0))
    });
}

/// A supervisor that signalled a server to end, or to read its configuration again, as soon as it logged that it
/// serves, killed it: the signals were listened for only then. Now they are before.
#[test]
fn signals_are_heard_when_it_says_that_it_serves() {
    let held = tempfile::tempdir().unwrap();
    let brokered = configure(held.path(), "127.0.0.1:0", "", &[("dc", &["http://127.0.0.1:1".into()], "")]);
    let scrape = held.path().join("prometheus.yml");
    std::fs::write(&scrape, "scrape_configs: []\n").unwrap();
    let data = held.path().join("data");
    let [brokered, scrape, data] = [&brokered, &scrape, &data].map(|path| path.to_str().unwrap());
    let serve = ["serve", "--data", data, "--listen", "127.0.0.1:0", "--scrape-config", scrape];
    for times in 0..5 {
        for arguments in [&["broker", "-c", brokered][..], &serve] {
            let server = Server::try_command(held.path(), arguments).unwrap_or_else(|said| panic!("no start: {said}"));
            let caught = server.status_word("SigCgt");
            let caught = u64::from_str_radix(&caught, 16).unwrap();
            for (name, number) in [("HUP", 1), ("INT", 2), ("TERM", 15)] {
                assert!(caught >> (number - 1) & 1 == 1, "{times}: SIG{name} kills {arguments:?}: {caught:x}");
            }
        }
    }
}

/// What only a restart changes is said at a reload, each time, while the rest is in force.
#[test]
fn a_reload_says_what_needs_a_restart() {
    let held: Vec<_> = (0..2).map(|_| tempfile::tempdir().unwrap()).collect();
    let server = Server::start(held[1].path());
    let to = |connections: u32| format!("connections = {connections}");
    let path = configure(held[0].path(), "127.0.0.1:0", "", &[("dc", &[url(&server)], &to(1))]);
    let log = held[0].path().join("log");
    let child = Command::new(env!("CARGO_BIN_EXE_ogive"))
        .args(["broker", "-c", path.to_str().unwrap()])
        .stdin(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let child = Program(child);
    let said = |what: &str| std::fs::read_to_string(&log).unwrap().matches(what).count();
    eventually("it serves", || (said("serving http://") == 1).then_some(()));
    let changed = configure(held[0].path(), "127.0.0.1:0", "", &[("dc", &[url(&server)], &to(2))]);
    let text = std::fs::read_to_string(&changed).unwrap();
    std::fs::write(&changed, format!("graphite = [\"127.0.0.1:0\"]\n{text}")).unwrap();
    for times in 1..=2 {
        child.signal("HUP");
        eventually("it says so", || (said("graphite changes only with a restart") == times).then_some(()));
    }
    eventually("the rest is in force", || (said("the configuration was read again") == 2).then_some(()));
    configure(held[0].path(), "127.0.0.1:0", "", &[("dc", &[url(&server)], &to(2))]);
    child.signal("HUP");
    eventually("it is read", || (said("the configuration was read again") == 3).then_some(()));
    assert_eq!(said("only with a restart"), 2, "the listeners are as they were");
}
