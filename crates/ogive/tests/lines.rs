//! StatsD, Graphite and InfluxDB's lines over every transport of the real server: what was sent is what is asked back.

use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};

use crate::common::{Server, eventually, now_ms};

fn start(directory: &std::path::Path, more: &[&str]) -> Server {
    let args: Vec<&str> = ["--listen", "127.0.0.1:0"].iter().chain(more).copied().collect();
    Server::try_start(directory, &args).unwrap_or_else(|said| panic!("no start: {said}"))
}

fn unreadable(server: &Server, protocol: &str) -> Vec<(String, f64)> {
    let (_, text) = server.request("GET /metrics HTTP/1.1", b"").unwrap();
    let begin = "ogive_ingest_unreadable_total{";
    let of = |line: &str| {
        let (labels, count) = line.strip_prefix(begin)?.rsplit_once("} ")?;
        let reason = labels.split("reason=\"").nth(1)?.split('"').next()?.to_owned();
        labels.contains(&format!("protocol=\"{protocol}\"")).then(|| (reason, count.parse().unwrap()))
    };
    text.lines().filter_map(of).filter(|(_, count)| *count > 0.0).collect()
}

#[test]
fn statsd_comes_by_every_transport() {
    let directory = tempfile::tempdir().unwrap();
    let (datagrams, stream) = (directory.path().join("statsd.sock"), directory.path().join("stream.sock"));
    let unix = [format!("unix:{}", datagrams.display()), format!("unix-stream:{}", stream.display())];
    let server =
        start(&directory.path().join("data"), &["--statsd", "127.0.0.1:0", "--statsd", &unix[0], "--statsd", &unix[1]]);
    let lines = |transport: &str| {
        let line = |at: usize| format!("rpc.time:{}|ms|#via:{transport}\nrpc.n:1|c|#via:{transport}\n", at % 100 + 1);
        (0..200).map(line).collect::<Vec<_>>()
    };
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = server.line_address("statsd", "udp");
    lines("udp").iter().for_each(|line| assert_eq!(udp.send_to(line.as_bytes(), &to).unwrap(), line.len()));
    let mut tcp = TcpStream::connect(server.line_address("statsd", "tcp")).unwrap();
    tcp.set_nodelay(true).unwrap();
    // Segments end anywhere.
    lines("tcp").concat().as_bytes().chunks(997).for_each(|piece| tcp.write_all(piece).unwrap());
    let local = UnixDatagram::unbound().unwrap();
    lines("unix").iter().for_each(|line| assert_eq!(local.send_to(line.as_bytes(), &datagrams).unwrap(), line.len()));
    let mut plain = UnixStream::connect(&stream).unwrap();
    plain.write_all(lines("plain").concat().as_bytes()).unwrap();
    let mut framed = UnixStream::connect(&stream).unwrap();
    for line in lines("framed") {
        framed.write_all(&[&(line.len() as u32).to_le_bytes()[..], line.as_bytes()].concat()).unwrap();
    }
    for via in ["udp", "tcp", "unix", "plain", "framed"] {
        server.grows_to(&format!("increase(rpc_n{{via=\"{via}\"}}[5m])"), 200.0);
        server.grows_to(&format!("histogram_count(increase(rpc_time{{via=\"{via}\"}}[5m]))"), 200.0);
    }
    let sum = server.number("histogram_sum(sum(increase(rpc_time[5m])))").unwrap();
    assert!((sum - 50.5).abs() < 1e-9, "milliseconds are seconds: {sum}");
    // What is visible is counted a moment later.
    let status = eventually("all is decided", || {
        let (_, status) = server.get("/v1/status");
        (status["statsd_received_total"] == status["statsd_accepted_total"]).then_some(status)
    });
    assert_eq!(status["statsd_measurements_total"], 2_000, "{status}");
}

#[test]
fn what_arrived_before_the_end_is_stored_and_the_rest_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut server = start(directory.path(), &["--statsd", "127.0.0.1:0", "--graphite", "127.0.0.1:0"]);
    let to = server.line_address("statsd", "udp");
    for line in ["n:1|c", "n:x|c", "n:1|zz", "n:1|c|@2", "v:1,2|h", "", "\n\n"] {
        udp.send_to(line.as_bytes(), &to).unwrap();
    }
    eventually("the lines are counted", || (unreadable(&server, "statsd").len() == 4).then_some(()));
    for reason in ["value_invalid", "type_unknown", "sample_rate", "comma_list"] {
        assert!(unreadable(&server, "statsd").contains(&(reason.into(), 1.0)), "{:?}", unreadable(&server, "statsd"));
    }
    // A datagram and a line just before the end.
    let mut tcp = TcpStream::connect(server.line_address("graphite", "tcp")).unwrap();
    tcp.write_all(format!("a.b;dc=eu 2.5 {}\r\nwhole.not 1", now_ms() / 1000).as_bytes()).unwrap();
    eventually("the line is taken", || server.number("a_b{dc=\"eu\"}"));
    udp.send_to(b"n:1|c\nn:1|c", &to).unwrap();
    server.terminate();
    let server = Server::start(directory.path());
    server.grows_to("increase(n[5m])", 3.0);
    assert_eq!(server.number("a_b{dc=\"eu\"}"), Some(2.5));
    assert_eq!(server.number("whole_not"), None);
}

#[test]
fn graphite_comes_by_both_transports_at_its_own_times() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--graphite", "127.0.0.1:0", "--line-names", "utf8"]);
    let from = now_ms() / 1000 - 100;
    let line = |at: i64| format!("servers.web1.load {at}.5 {}\n", from + at);
    let mut tcp = TcpStream::connect(server.line_address("graphite", "tcp")).unwrap();
    (0..50).for_each(|at| tcp.write_all(line(at).as_bytes()).unwrap());
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = server.line_address("graphite", "udp");
    (50..100).for_each(|at| assert!(udp.send_to(line(at).as_bytes(), &to).unwrap() > 0));
    server.grows_to("count_over_time({\"servers.web1.load\"}[5m])", 100.0);
    assert_eq!(server.number("sum_over_time({\"servers.web1.load\"}[5m])"), Some(5_000.0));
}

#[test]
fn an_address_that_is_taken_is_said_before_the_data_is_touched() {
    let directory = tempfile::tempdir().unwrap();
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data = directory.path().join("data");
    let said = Server::try_start(&data, &["--listen", "127.0.0.1:0", "--statsd", &address]).map(drop).unwrap_err();
    assert!(said.contains(&format!("cannot listen on {address}")) && said.contains("--statsd"), "{said}");
    assert!(!data.exists());
}

#[test]
fn influx_lines_are_stored_once_however_often_they_come() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let from = now_ms() / 1000 - 100;
    let body: String = (0..100).map(|at| format!("cpu,host=a usage={at}.5,ok=t {}\n", from + at)).collect();
    for _ in 0..2 {
        let write = "POST /api/v2/write?org=o&bucket=site&precision=s HTTP/1.1";
        assert_eq!(server.request(write, body.as_bytes()).unwrap().0, 204);
    }
    assert_eq!(server.number("count_over_time(cpu_usage{host=\"a\",db=\"site\"}[5m])"), Some(100.0));
    assert_eq!(server.number("sum_over_time(cpu_ok[5m])"), Some(100.0));
    let (status, answer) = server.request("POST /write?db=site HTTP/1.1", b"m v=1\nm v=\n").unwrap();
    assert!(status == 400 && answer.contains("line 2"), "{status} {answer}");
    assert_eq!(unreadable(&server, "influx"), [("value_invalid".into(), 1.0)]);
}

/// Texts have nothing that distinguishes one from an equal one of the same time: a request with them is known again by
/// its bytes, with times and without, also when the server was killed between the two.
#[test]
fn influx_texts_count_once_when_the_answer_was_lost_in_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let from = now_ms() / 1000 - 100;
    let timed: String =
        (0..50).map(|at| format!("door,id=a state=\"open {at}\",turns={at}i {}\n", from + at)).collect();
    let untimed = "bell,id=a said=\"ding\"\nbell,id=b said=\"dong\",loud=t\n";
    let write = "POST /api/v2/write?org=o&bucket=site&precision=s HTTP/1.1";
    let send = |server: &Server| {
        for body in [&timed, untimed] {
            assert_eq!(server.request(write, body.as_bytes()).unwrap().0, 204);
        }
        let texts = |name: &str| {
            let (_, cells) = server.get(&format!("/v1/cells?match%5B%5D={name}&start=0&end=9999999999"));
            cells["data"]["samples"].as_array().map_or(0, Vec::len)
        };
        (texts("door_state"), texts("bell_said"), server.number("count_over_time(door_turns[5m])"))
    };
    let mut server = Server::start(directory.path());
    assert_eq!((send(&server), send(&server)), ((50, 2, Some(50.0)), (50, 2, Some(50.0))));
    server.kill();
    let server = Server::start(directory.path());
    assert_eq!(send(&server), (50, 2, Some(50.0)));
    assert_eq!(server.number("count_over_time(bell_loud[5m])"), Some(1.0));
    let (_, status) = server.get("/v1/status");
    assert_eq!(status["influx_duplicate_total"], 103, "{status}");
    // Another database's are others.
    let other = "POST /api/v2/write?org=o&bucket=other&precision=s HTTP/1.1";
    assert_eq!(server.request(other, untimed.as_bytes()).unwrap().0, 204);
    let (_, status) = server.get("/v1/status");
    assert_eq!(status["influx_accepted_total"], 3, "{status}");
}
