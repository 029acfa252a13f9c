//! The wire observer inside a server and a broker: `[wire]` of their files, its cells among their own, and what happens
//! without the right.
//!
//! Needs the right to capture on loopback (root); without it the first test says so in one line and is skipped.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use crate::common::brokers::{broker, url};
use crate::common::programs::hear;
use crate::common::{Server, eventually};

const REQUESTS: usize = 40;

/// The first one shows that somebody measures, the second is asked for an exact number of times.
const FIRST: &[u8] = b"GET /a/1?k=hunter2 HTTP/1.1\r\nCookie: hunter2\r\n\r\n";
const SECOND: &[u8] = b"GET /b/1?k=hunter2 HTTP/1.1\r\nCookie: hunter2\r\n\r\n";

/// Answers every request of one connection after another.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut request = [0; FIRST.len()];
            while stream.read_exact(&mut request).is_ok() {
                stream.write_all(b"HTTP/1.1 204 No\r\n\r\n").unwrap();
            }
        }
    });
    port
}

fn ask(port: u16, request: &[u8]) {
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut response = [0; 19];
    for _ in 0..REQUESTS {
        client.write_all(request).unwrap();
        client.read_exact(&mut response).unwrap();
    }
}

/// Whether this process may capture: the capability with the number 13.
fn may_capture() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    u64::from_str_radix(effective, 16).unwrap() >> 13 & 1 == 1
}

#[test]
fn a_server_and_a_broker_measure_what_goes_over_their_interfaces() {
    if !may_capture() {
        println!("skipped: capturing needs CAP_NET_RAW");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let port = serve();
    let rules = directory.path().join("operations.txt");
    std::fs::write(&rules, "GET /a/* an a\nGET /b/* a b\n").unwrap();
    let wire = format!(
        "[wire]\ninterface = \"lo\"\nonly = [\"{port}\"]\noperations = \"{}\"\nexemplars = 5\n",
        rules.display()
    );
    let config = directory.path().join("ogive.toml");
    let data = directory.path().join("data");
    std::fs::write(&config, format!("listen = \"127.0.0.1:0\"\ndata = \"{}\"\n{wire}", data.display())).unwrap();
    let check = Command::new(env!("CARGO_BIN_EXE_ogive")).args(["config", "check"]).arg(&config).status().unwrap();
    assert!(check.success());
    let server = Server::try_command(directory.path(), &["serve", "-c", config.to_str().unwrap()]).unwrap();
    server.becomes("ogive_wire_failed_interfaces", 0.0);
    let of = |name: &str, operation: &str| {
        format!("{name}(sum_over_time(ogive_wire_total_seconds{{operation=\"{operation}\"}}[1h]))")
    };
    let count = |operation: &str| format!("sum({})", of("histogram_count", operation));
    // The ring may open after the server serves: a request that it saw says that it is there.
    eventually("the first request is measured", || {
        ask(port, FIRST);
        server.number(&count("an a")).filter(|seen| *seen > 0.0)
    });
    ask(port, SECOND);
    server.becomes(&count("a b"), REQUESTS as f64);
    let sizes = "sum(histogram_sum(sum_over_time(ogive_wire_request_bytes{operation=\"a b\"}[1h])))";
    server.becomes(sizes, (REQUESTS * SECOND.len()) as f64);
    let connects = "sum(histogram_count(sum_over_time(ogive_wire_tcp_connect_seconds[1h])))";
    eventually("both connects are measured", || server.number(connects).filter(|count| *count >= 2.0));
    the_slowest_are_traces(&server);
    // New rules come into force; wrong ones do not.
    std::fs::write(&rules, "GET /b/* a new b\n").unwrap();
    server.signal("HUP");
    server.becomes("max(max_over_time(ogive_config_reloads_total{config=\"wire\"}[1h]))", 1.0);
    ask(port, SECOND);
    server.becomes(&count("a new b"), REQUESTS as f64);

    a_broker_does_the_same(&server, &wire, port);
}

/// The slowest of each second are slow traces of the histogram, with their heads beside them and without the secrets.
fn the_slowest_are_traces(server: &Server) {
    // A batch is visible series by series: a text may be there before the histogram that it explains.
    let answer = eventually("slow traces and their cells", || {
        let (status, answer) = server.get("/v1/traces?query=ogive_wire_total_seconds");
        assert_eq!(status, 200, "{answer}");
        let is_whole = answer["data"]["traces"].get(0).is_some_and(|trace| !trace["cell"].is_null());
        is_whole.then_some(answer)
    });
    let traces = answer["data"]["traces"].as_array().unwrap();
    assert_eq!(answer["data"]["invalid"], 0, "{answer}");
    let names: Vec<_> =
        traces[0]["stages"].as_array().unwrap().iter().map(|stage| stage["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["request", "service", "response"]);
    assert!(["an a", "a b"].contains(&traces[0]["path"].as_str().unwrap()), "{}", traces[0]);
    let heads = || crate::common::brokers::texts(server, "ogive_wire_total_seconds_exemplar");
    let has_head = |heads: &Vec<String>| heads.iter().any(|text| text.contains("GET /a/{n}?k=***; cookie: ***"));
    let heads = eventually("the head of a first request", || Some(heads()).filter(has_head));
    assert!(!heads.iter().any(|text| text.contains("hunter2")), "{heads:?}");
}

/// A broker brings the cells to the server.
fn a_broker_does_the_same(server: &Server, wire: &str, port: u16) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("broker.toml");
    let spool = directory.path().join("spool");
    let text = format!(
        "name = \"edge\"\nlisten = \"127.0.0.1:0\"\n{wire}[spool]\ndirectory = \"{}\"\n[[destination]]\nname = \"dc\"\nendpoints = [{:?}]\n",
        spool.display(),
        url(server)
    );
    std::fs::write(&path, text).unwrap();
    let _broker = broker(&path);
    let of_broker = "sum(histogram_count(sum_over_time(ogive_wire_total_seconds{broker=\"edge\"}[1h])))";
    eventually("a broker's cells arrive", || {
        ask(port, FIRST);
        server.number(of_broker).filter(|seen| *seen > 0.0)
    });
}

#[test]
fn without_the_right_the_server_starts_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = if may_capture() {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-net_raw", "--inh-caps", "-net_raw", env!("CARGO_BIN_EXE_ogive")]);
        command
    } else {
        Command::new(env!("CARGO_BIN_EXE_ogive"))
    };
    let data = directory.path().to_str().unwrap();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data", data, "--wire-interface", "lo"]);
    let (server, lines) =
        Server::from_command(directory.path(), command).unwrap_or_else(|said| panic!("no start: {said}"));
    // Before it serves or behind that.
    let words = "what goes over lo is not measured";
    let before = server.said.lines().find(|line| line.contains(words)).map(str::to_owned);
    let said = before.unwrap_or_else(|| hear(&lines, words));
    assert!(said.contains("CAP_NET_RAW"), "{said}");
    let query = format!("GET /api/v1/query?query={} HTTP/1.1", crate::common::form("ogive_wire_failed_interfaces"));
    eventually("it is counted", || {
        let (_, answer) = server.request(&query, b"").ok()?;
        answer.contains("\"1\"").then_some(())
    });
}

#[test]
fn mistakes_in_the_table_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let check = |table: &str| {
        let config = directory.path().join("ogive.toml");
        std::fs::write(&config, format!("[wire]\n{table}\n")).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_ogive")).args(["config", "check"]).arg(&config).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    assert!(check("interface = [\"eth0\", \"lo\"]\nport = [\"6432=pgsql\"]\nshards = 2").0);
    let rules = directory.path().join("rules.txt");
    std::fs::write(&rules, "GET\n").unwrap();
    let operations = format!("operations = \"{}\"", rules.display());
    for (table, said) in [
        ("interfaces = \"lo\"", "interface"),
        ("port = \"6432=nonsense\"", "http1"),
        ("only = \"many\"", "line 2"),
        ("shards = 0", "1..=64"),
        (&operations, "line 1"),
    ] {
        let (is_fine, error) = check(table);
        assert!(!is_fine && error.contains(said), "{table}: {error}");
    }
}
