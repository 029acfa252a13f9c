//! Clients that people use, against the real server: each sends N observations, and N are asked back.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::clients::{Client, heavy};
use crate::common::programs::{Program, free_address, free_port};
use crate::common::{Server, eventually, now_ms};

const COUNT: usize = 500;

/// The port that the server said it takes `protocol` at.
fn port(server: &Server, protocol: &str) -> String {
    let address = server.line_address(protocol, "udp");
    address.rsplit(':').next().unwrap().to_owned()
}

fn start(directory: &Path, more: &[&str]) -> Server {
    let args: Vec<&str> = ["--listen", "127.0.0.1:0"].iter().chain(more).copied().collect();
    Server::try_start(directory, &args).unwrap_or_else(|said| panic!("no start: {said}"))
}

/// Lets the client go on after each part of so many measurements once the server has all of them: a kernel that nobody
/// reads from holds some four hundred datagrams.
fn part_by_part(client: &mut Client, server: &Server, parts: u64, each: u64) {
    for part in 1..=parts {
        client.wait_for("part");
        eventually(&format!("part {part} is taken"), || {
            let taken = server.get("/v1/status").1["statsd_measurements_total"].as_u64();
            (taken >= Some(part * each)).then_some(())
        });
        client.say("more");
    }
}

#[test]
fn the_statsd_package() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--statsd", "127.0.0.1:0"]);
    let args = ["127.0.0.1", &port(&server, "statsd"), &COUNT.to_string(), "parts"];
    let mut client = Client::start("statsd_lines.py", &args);
    part_by_part(&mut client, &server, 5, 50 * 2);
    client.wait_for("sent");
    client.finish();
    for via in ["udp", "tcp"] {
        server.grows_to(&format!("histogram_count(increase(py_{via}_time[5m]))"), COUNT as f64);
        server.grows_to(&format!("increase(py_{via}_n[5m])"), COUNT as f64);
        server.grows_to(&format!("max_over_time(py_{via}_users[5m])"), 7.0);
        server.grows_to(&format!("py_{via}_level"), 42.0);
        server.grows_to(&format!("increase(py_{via}_sampled[5m])"), 3.0);
    }
    let largest = server.number("histogram_quantile(1, increase(py_udp_time[5m]))").unwrap();
    assert!((0.09..=0.11).contains(&largest), "100 ms are {largest} s");
}

#[test]
fn the_datadog_package() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("dog.sock");
    let unix = format!("unix:{}", socket.display());
    let server = start(&directory.path().join("data"), &["--statsd", "127.0.0.1:0", "--statsd", &unix]);
    let args = ["127.0.0.1", &port(&server, "statsd"), socket.to_str().unwrap(), &COUNT.to_string(), "parts"];
    let mut client = Client::start("dogstatsd.py", &args);
    part_by_part(&mut client, &server, 10, 50 * 4);
    client.wait_for("sent");
    client.finish();
    for via in ["udp", "unix"] {
        for name in ["dog_size", "dog_wait", "dog_time"] {
            server.grows_to(&format!("histogram_count(increase({name}{{via=\"{via}\"}}[5m]))"), COUNT as f64);
        }
        server.grows_to(&format!("increase(dog_n{{via=\"{via}\",route=\"/x\"}}[5m])"), COUNT as f64);
        server.grows_to(&format!("dog_level{{via=\"{via}\"}}"), 1.5);
        server.grows_to(&format!("dog_users{{via=\"{via}\"}}"), 1.0);
        server.grows_to(&format!("dogstatsd_service_check{{check=\"dog.up\",via=\"{via}\"}}"), 2.0);
    }
    let wait = server.number("histogram_sum(sum(increase(dog_wait[5m])))");
    assert_eq!(wait, Some(0.25 * 2.0 * COUNT as f64), "a distribution keeps its unit");
    let texts = eventually("an event by each", || {
        let (_, cells) = server.get("/v1/cells?match[]=dogstatsd_event");
        let texts = cells["data"]["samples"].as_array().unwrap().clone();
        assert!(texts.len() <= 2, "{cells}");
        (texts.len() == 2).then_some(texts)
    });
    assert!(texts.iter().all(|sample| sample["text"] == "restarted\nversion 7\nis live"), "{texts:?}");
}

#[test]
fn hot_shots() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--statsd", "127.0.0.1:0", "--statsd-comma-lists"]);
    let mut client = Client::start("hot_shots.cjs", &["127.0.0.1", &port(&server, "statsd"), &COUNT.to_string()]);
    client.wait_for("sent");
    client.finish();
    server.grows_to("histogram_count(increase(js_time{via=\"udp\"}[5m]))", COUNT as f64);
    server.grows_to("histogram_count(increase(js_size[5m]))", COUNT as f64);
    server.grows_to("increase(js_n[5m])", COUNT as f64);
    server.grows_to("histogram_count(increase(js_list[5m]))", 2.0);
}

#[test]
fn influxdb_client_through_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    // While the server is away, nobody else gets it.
    let address = free_address();
    let mut server = Server::start_at(directory.path(), &address);
    let from = (now_ms() - 100_000).to_string() + "000000";
    let mut client = Client::start("influx_lines.py", &[&format!("http://{address}"), &from, &COUNT.to_string()]);
    client.wait_for("half");
    // What was answered is safe, what was not is sent again.
    server.kill();
    client.say("more");
    let server = Server::start_at(directory.path(), &address);
    client.wait_for("sent");
    client.finish();
    let labels = "site=\"a,b =c\",db=\"site\"";
    server.grows_to(&format!("count_over_time(tank_level_litres{{{labels}}}[5m])"), COUNT as f64);
    server.grows_to(&format!("count_over_time(tank_level_valve{{{labels}}}[5m])"), COUNT as f64);
    let sum: usize = (0..COUNT).sum();
    server.grows_to("sum_over_time(tank_level_valve[5m])", sum as f64);
}

/// Its first call, `create_database`, was answered with 415.
#[test]
fn influxdb_package_of_version_1() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let (host, port) = server.address.split_once(':').unwrap();
    let from = (now_ms() - 100_000).to_string() + "000000";
    let mut client = Client::start("influx_v1.py", &[host, port, &from, &COUNT.to_string()]);
    client.wait_for("sent");
    client.finish();
    server.grows_to("count_over_time(boiler_bar{site=\"a\",db=\"plant\"}[5m])", COUNT as f64);
}

/// A collectd that takes values from a socket and writes them as Graphite's lines; killed when dropped.
struct Collectd {
    _program: Program,
}

impl Collectd {
    fn start(directory: &Path, port: &str) -> Self {
        let at = |name: &str| directory.join(name).display().to_string();
        let config = format!(
            "Hostname \"h\"\nFQDNLookup false\nBaseDir \"{0}\"\nPIDFile \"{0}/pid\"\nInterval 1\n\
             LoadPlugin unixsock\n<Plugin unixsock>\n  SocketFile \"{1}\"\n  DeleteSocket true\n</Plugin>\n\
             LoadPlugin write_graphite\n<Plugin write_graphite>\n  <Node \"ogive\">\n    Host \"127.0.0.1\"\n    Port \"{port}\"\n\
             \x20   Protocol \"tcp\"\n    Prefix \"collectd.\"\n  </Node>\n</Plugin>\n",
            at("."),
            at("sock"),
        );
        std::fs::write(at("conf"), config).unwrap();
        let mut command = Command::new("collectd");
        command.args(["-f", "-C", &at("conf")]);
        Self { _program: Program::start(command) }
    }
}

#[test]
fn collectd_by_graphite() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(&directory.path().join("data"), &["--graphite", "127.0.0.1:0"]);
    let _collectd = Collectd::start(directory.path(), &port(&server, "graphite"));
    let socket = directory.path().join("sock");
    let stream = eventually("collectd listens", || UnixStream::connect(&socket).ok());
    let (mut writer, mut reader) = (stream.try_clone().unwrap(), BufReader::new(stream));
    let mut command = |text: &str| {
        writeln!(writer, "{text}").unwrap();
        let mut answer = String::new();
        reader.read_line(&mut answer).unwrap();
        assert!(answer.starts_with('0'), "{text}: {answer}");
    };
    let from = now_ms() / 1000 - 200;
    (0..200).for_each(|at| command(&format!("PUTVAL h/tank/gauge-level {}:{at}.5", from + at)));
    let mut last = None;
    eventually("200 values", || {
        // Its threads write when they like: a flush sends what they wrote so far.
        command("FLUSH plugin=write_graphite/ogive");
        last = server.number("count_over_time(collectd_h_tank_gauge_level[5m])");
        assert!(last.unwrap_or(0.0) <= 200.0, "{last:?}");
        (last == Some(200.0)).then_some(())
    });
    let sum: i64 = (0..200).sum();
    assert_eq!(server.number("sum_over_time(collectd_h_tank_gauge_level[5m])"), Some(sum as f64 + 100.0));
}

/// A Telegraf that takes lines at a port and writes them in all the ways that a server here understands; killed when
/// dropped.
struct Telegraf {
    _program: Program,
    port: u16,
}

impl Telegraf {
    fn start(directory: &Path, server: &str) -> Self {
        let port = free_port();
        let config = format!(
            "[agent]\ninterval = '200ms'\nflush_interval = '200ms'\nmetric_batch_size = 50\nomit_hostname = true\n\
             [[inputs.socket_listener]]\nservice_address = 'tcp://127.0.0.1:{port}'\ndata_format = 'influx'\n\
             [[outputs.influxdb_v2]]\nurls = ['http://{server}']\ntoken = 'none'\norganization = 'o'\nbucket = 'site'\n\
             name_prefix = 'v2_'\n\
             [[outputs.influxdb]]\nurls = ['http://{server}']\ndatabase = 'site'\nname_prefix = 'v1_'\n\
             [[outputs.opentelemetry]]\nservice_address = '{server}'\nname_prefix = 'otel_'\n\
             [[outputs.http]]\nurl = 'http://{server}/api/v1/write'\ndata_format = 'prometheusremotewrite'\n\
             name_prefix = 'rw_'\n[outputs.http.headers]\nContent-Type = 'application/x-protobuf'\n\
             Content-Encoding = 'snappy'\nX-Prometheus-Remote-Write-Version = '0.1.0'\n",
        );
        let file = directory.join("telegraf.conf");
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new(heavy("bin/telegraf"));
        command.arg("--config").arg(&file).env("NO_PROXY", "127.0.0.1").stdin(Stdio::null()).stdout(Stdio::null());
        let said = std::fs::File::create(directory.join("telegraf.log")).unwrap();
        Self { _program: Program(command.stderr(said).spawn().unwrap()), port }
    }

    /// Points of a series each: its form of remote write brings the latest point of a series alone.
    fn send(&self, from_ns: i64, points: std::ops::Range<usize>) {
        let address = ("127.0.0.1", self.port);
        let mut stream = eventually("telegraf listens", || TcpStream::connect(address).ok());
        for at in points {
            let time = from_ns + at as i64 * 1_000_000;
            writeln!(stream, "tank,at={at} litres={at}.5,valve={at}i {time}").unwrap();
        }
    }
}

/// Its outputs keep what was not answered, and send it again to the server that comes after.
#[test]
#[ignore = "run by scripts/heavy-clients"]
fn telegraf_through_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let address = free_address();
    let mut server = Server::start_at(&data, &address);
    let telegraf = Telegraf::start(directory.path(), &address);
    let from_ns = (now_ms() - 100_000) * 1_000_000;
    telegraf.send(from_ns, 0..COUNT / 2);
    eventually("a part has come by each way", || {
        let some = |way: &str| server.number(&format!("count({way}_tank_litres)"));
        ["v1", "v2", "otel", "rw"].into_iter().try_for_each(|way| some(way).map(drop))
    });
    server.kill();
    telegraf.send(from_ns, COUNT / 2..COUNT);
    let server = Server::start_at(&data, &address);
    let sum: usize = (0..COUNT).sum();
    for way in ["v1", "v2", "otel", "rw"] {
        server.grows_to(&format!("sum(count_over_time({way}_tank_litres[10m]))"), COUNT as f64);
        server.grows_to(&format!("sum(sum_over_time({way}_tank_valve[10m]))"), sum as f64);
    }
    let (_, status) = server.get("/v1/status");
    assert_eq!((&status["rejected_total"], &status["unreadable_total"]), (&0.into(), &0.into()), "{status}");
}

/// What `nc` does: a line, and the end.
#[test]
fn a_line_and_a_closed_connection() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--graphite", "127.0.0.1:0", "--statsd", "127.0.0.1:0"]);
    for (protocol, line) in [("graphite", "shell.made 7 -1\n"), ("statsd", "shell.n:3|c\n")] {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", port(&server, protocol))).unwrap();
        stream.write_all(line.as_bytes()).unwrap();
    }
    server.grows_to("shell_made", 7.0);
    server.grows_to("increase(shell_n[5m])", 3.0);
}
