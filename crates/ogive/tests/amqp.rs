//! `ogive serve --amqp`, `ogive amqp publish` and a broker's destination with a real RabbitMQ: what was sent is counted
//! once, whoever is restarted or blocked.
#![cfg(feature = "amqp")]

mod rabbit;

use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::authority::Authority;
use crate::common::programs::{Program, free_port, hear, lines_of};
use crate::common::{JSON, Server, eventually, eventually_or, now_ms};
use rabbit::Rabbit;
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use serde_json::{Value, json};

const SOURCE: &str = "123e4567-e89b-12d3-a456-4266141740aa";

fn serve(directory: &Path, rabbit: &Rabbit) -> Server {
    serve_with(directory, &rabbit.url(), "")
}

fn serve_with(directory: &Path, url: &str, more: &str) -> Server {
    let file = directory.join("amqp.toml");
    let table = format!("[[amqp.input]]\nurl = '{url}'\nqueue = 'q'\ndeclare = true\n{more}");
    std::fs::write(&file, table).unwrap();
    let args = ["--listen", "127.0.0.1:0", "--amqp", file.to_str().unwrap()];
    Server::try_start(&directory.join("data"), &args).unwrap_or_else(|said| panic!("no start: {said}"))
}

/// `count` batches numbered from `from` on, one a line: each has one sample of 1, of one of ten series.
fn batches(from: u64, count: u64) -> String {
    let base = now_ms();
    let batch = |at: u64| {
        let series = [json!({"labels": {"__name__": "m", "k": (at % 10).to_string()}, "kind": "float"})];
        let samples = json!([{"series": 0, "time_ms": base + at as i64 / 10, "float": 1.0}]);
        json!({"source": SOURCE, "sequence": at, "series": series, "samples": samples}).to_string() + "\n"
    };
    (from..from + count).map(batch).collect()
}

/// `ogive amqp publish`, fed with lines.
fn publish(rabbit: &Rabbit, lines: String) -> Program {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ogive"))
        .args(["amqp", "publish", "--url", &rabbit.url(), "--queue", "q", "--declare"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    std::thread::spawn(move || input.write_all(lines.as_bytes()));
    Program(child)
}

/// What it printed, once it has ended: a line, which waits in the pipe.
fn published(mut publisher: Program) -> String {
    let status = publisher.wait("ogive amqp publish");
    assert!(status.success(), "{status}");
    let mut printed = String::new();
    publisher.0.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    printed
}

fn status(server: &Server, name: &str) -> u64 {
    let (_, status) = server.get("/v1/status");
    status[name].as_u64().unwrap_or(0)
}

fn accepted(server: &Server, count: u64) {
    eventually(&format!("{count} samples are there"), || {
        (status(server, "amqp_accepted_total") >= count).then_some(())
    });
    assert_eq!(status(server, "amqp_accepted_total"), count);
}

/// How many samples there are.
const STORED: &str = "sum(count_over_time(m[1h]))";

fn stored(server: &Server) -> f64 {
    server.number(STORED).unwrap_or(0.0)
}

/// Waits for them, and says where they are if they do not come.
fn all_stored(server: &Server, rabbit: &Rabbit, count: f64) {
    let state = || {
        let queues = rabbit.control(&["list_queues", "-q", "name", "messages_ready", "messages_unacknowledged"]);
        format!("{} stored; {queues}; {}; {}", stored(server), server.get("/v1/status").1, rabbit.log())
    };
    eventually_or(&format!("{count} samples are stored"), state, || (stored(server) >= count).then_some(()));
}

#[test]
fn queues_give_each_batch_once() {
    let directory = tempfile::tempdir().unwrap();
    let rabbit = Rabbit::start(directory.path());
    let server = serve(directory.path(), &rabbit);
    assert_eq!(published(publish(&rabbit, batches(0, 3_000))), "3000\n");
    accepted(&server, 3_000);
    // The same again, as a publisher that does not know does.
    assert_eq!(published(publish(&rabbit, batches(2_000, 1_000))), "1000\n");
    eventually("they are known", || (status(&server, "amqp_duplicate_total") == 1_000).then_some(()));
    server.becomes(STORED, 3_000.0);
    eventually("all are acknowledged", || {
        rabbit.control(&["list_queues", "-q", "messages"]).lines().any(|line| line.trim() == "0").then_some(())
    });
}

#[test]
fn queues_lose_nothing_when_either_side_is_killed_or_blocked() {
    let directory = tempfile::tempdir().unwrap();
    let mut rabbit = Rabbit::start(directory.path());
    let mut server = serve(directory.path(), &rabbit);
    rabbit.keeps("q");
    let sending = publish(&rabbit, batches(0, 4_000));
    eventually("some are there", || (stored(&server) > 100.0).then_some(()));
    server.kill();
    let server = serve(directory.path(), &rabbit);
    rabbit.kill();
    rabbit.run();
    assert_eq!(published(sending), "4000\n");
    all_stored(&server, &rabbit, 4_000.0);
    // A server that has no memory left takes nothing, and what waits is sent when it has again.
    rabbit.block();
    let mut sending = publish(&rabbit, batches(4_000, 1_000));
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(sending.0.try_wait().unwrap().is_none(), "a blocked server has taken messages");
    rabbit.control(&["set_vm_memory_high_watermark", "0.4"]);
    assert_eq!(published(sending), "1000\n");
    all_stored(&server, &rabbit, 5_000.0);
    assert_eq!(stored(&server), 5_000.0);
}

/// What `ogive amqp bench` prints, a line of JSON each.
fn bench(rabbit: &Rabbit, more: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_ogive"))
        .args(["amqp", "bench", "--json", "--url", &rabbit.url(), "--queue", "q", "--declare"])
        .args(more)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// One connection read one queue, and a body had one sample: nobody could use what RabbitMQ does with several queues.
#[test]
fn several_queues_are_read_over_one_connection() {
    let directory = tempfile::tempdir().unwrap();
    let rabbit = Rabbit::start(directory.path());
    let file = directory.path().join("amqp.toml");
    let table = format!("[[amqp.input]]\nurl = '{}'\nqueues = ['q-1', 'q-2', 'q-3']\ndeclare = true\n", rabbit.url());
    std::fs::write(&file, table).unwrap();
    let args = ["--listen", "127.0.0.1:0", "--amqp", file.to_str().unwrap()];
    let server = Server::try_start(&directory.path().join("data"), &args).unwrap_or_else(|said| panic!("{said}"));
    let url = format!("http://{}", server.address);
    let with = |more: &[&str]| {
        let all = [&["--queues", "3", "--samples", "7", "--messages", "1000", "--server", &url], more].concat();
        let lines = bench(&rabbit, &all);
        assert_eq!(
            lines.iter().map(|line| line["what"].as_str().unwrap()).collect::<Vec<_>>(),
            ["published", "stored"]
        );
    };
    with(&["--publishers", "5"]);
    assert_eq!(status(&server, "amqp_accepted_total"), 7_000);
    let listed = |what: &str, column: &str| rabbit.control(&[what, "-q", column]).lines().skip(1).count();
    // RabbitMQ lists the connection of the publishers for a moment after its end.
    eventually("one connection is left", || (listed("list_connections", "pid") == 1).then_some(()));
    assert_eq!(listed("list_consumers", "queue_name"), 3);
    // A queue that goes away ends the connection, and the next one makes it again.
    rabbit.control(&["delete_queue", "q-2"]);
    eventually("all are read again", || (listed("list_consumers", "queue_name") == 3).then_some(()));
    with(&["--transient"]);
    assert_eq!(status(&server, "amqp_accepted_total"), 14_000);
}

/// A batch of `count` samples, of a series named by `sequence`.
fn large(sequence: u64, count: i64) -> String {
    let base = now_ms();
    let series = [json!({"labels": {"__name__": "m", "k": sequence.to_string()}, "kind": "float"})];
    let samples: Vec<Value> =
        (0..count).map(|at| json!({"series": 0, "time_ms": base - at, "float": at as f64 / 7.0})).collect();
    json!({"source": SOURCE, "sequence": sequence, "series": series, "samples": samples}).to_string() + "\n"
}

/// A message has as many frames as it needs: of some KiB in one, above RabbitMQ's 128 KiB in several, among small ones
/// in their order.
#[test]
fn batches_of_any_size_go_through_queues() {
    let directory = tempfile::tempdir().unwrap();
    let rabbit = Rabbit::start(directory.path());
    let server = serve(directory.path(), &rabbit);
    let counts = [1, 2_000, 1, 4_000, 100_000, 1, 30_000];
    let sum: i64 = counts.iter().sum();
    let lines: Vec<String> = (0..).zip(counts).map(|(at, count)| large(at, count)).collect();
    assert!(lines[1].len() > 64 << 10 && lines[4].len() > 4 << 20);
    assert_eq!(published(publish(&rabbit, lines.concat())), "7\n");
    eventually("all are there", || (stored(&server) >= sum as f64).then_some(()));
    let path = broker_file(directory.path(), &rabbit, free_port());
    let broker = broker(&path);
    let lines: Vec<String> = (10..).zip(counts).map(|(at, count)| large(at, count)).collect();
    send(&broker.address, &lines.concat()).join().unwrap();
    eventually("all are there", || (stored(&server) >= 2.0 * sum as f64).then_some(()));
    assert_eq!(stored(&server), 2.0 * sum as f64);
    let left = server.get("/v1/status").1;
    assert!(left["amqp_unreadable_total"].as_u64().unwrap_or(0) == 0, "{left}");
}

#[test]
fn what_queues_cannot_use_is_rejected_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let rabbit = Rabbit::start(directory.path());
    let server = serve(directory.path(), &rabbit);
    eventually("the queue is there", || rabbit.control(&["list_queues", "-q", "name"]).contains('q').then_some(()));
    let eval = |kind: &str, body: &str| {
        // RabbitMQ's own publisher, on its own side.
        let text = format!(
            "rabbit_basic:publish(rabbit_misc:r(<<\"/\">>, exchange, <<>>), <<\"q\">>, \
             [{{content_type, <<\"{kind}\">>}}], <<\"{body}\">>)."
        );
        rabbit.control(&["eval", &text])
    };
    eval(JSON, "no batch");
    eval("text/html", "{}");
    eval("application/x-ogive-batch-flatbuffer", "OGIV");
    eventually("they are counted", || (status(&server, "amqp_unreadable_total") == 3).then_some(()));
    assert_eq!(published(publish(&rabbit, batches(0, 10))), "10\n");
    accepted(&server, 10);
    let left: Value = server.get("/v1/status").1;
    assert_eq!(left["amqp_refused_total"], 0, "{left}");
}

/// broker.toml with a queue as its destination.
fn broker_file(directory: &Path, rabbit: &Rabbit, listen: u16) -> PathBuf {
    let (path, password) = (directory.join("broker.toml"), directory.join("password"));
    std::fs::write(&password, "guest\n").unwrap();
    let text = format!(
        "name = \"edge\"\nlisten = [\"127.0.0.1:{listen}\"]\n[spool]\ndirectory = {:?}\n[[destination]]\nname = \"queue\"\n\
         endpoints = [\"amqp://127.0.0.1:{}/%2f\"]\nrouting-key = \"q\"\ndeclare = true\nuser = \"guest\"\n\
         password-file = {password:?}\ntimeout = \"5s\"\n",
        directory.join("spool"),
        rabbit.port
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn broker(path: &Path) -> Server {
    let started = Server::try_command(path.parent().unwrap(), &["broker", "-c", path.to_str().unwrap()]);
    started.unwrap_or_else(|said| panic!("no start: {said}"))
}

/// Sends batches to a broker as a client does that sends again until it is answered.
fn send(address: &str, batches: &str) -> std::thread::JoinHandle<()> {
    let (address, batches) = (address.to_owned(), batches.to_owned());
    std::thread::spawn(move || {
        for line in batches.lines() {
            eventually("the broker takes it", || {
                let head = format!("POST /v1/batch HTTP/1.1\r\ncontent-type: {JSON}");
                crate::common::request_at(&address, &head, line.as_bytes()).ok().filter(|(status, _)| *status == 200)
            });
        }
    })
}

/// The destination as `/v1/broker` has it.
fn destination(broker: &Server) -> Value {
    broker.get("/v1/broker").1["destinations"][0].clone()
}

#[test]
fn queues_of_a_broker_lose_nothing_whoever_is_killed_or_blocked() {
    let directory = tempfile::tempdir().unwrap();
    let mut rabbit = Rabbit::start(directory.path());
    let listen = free_port();
    let path = broker_file(directory.path(), &rabbit, listen);
    let mut first = broker(&path);
    let mut server = serve(directory.path(), &rabbit);
    let address = first.address.clone();
    rabbit.keeps("q");
    let sending = send(&address, &batches(0, 600));
    eventually("some are there", || (stored(&server) > 100.0).then_some(()));
    first.kill();
    let second = broker(&path);
    server.kill();
    rabbit.kill();
    let server = serve(directory.path(), &rabbit);
    sending.join().unwrap();
    rabbit.run();
    all_stored(&server, &rabbit, 600.0);
    // A server that has no memory left takes nothing; the broker takes all, and brings it later.
    rabbit.block();
    send(&address, &batches(600, 100)).join().unwrap();
    eventually("the broker says so", || {
        let state = destination(&second);
        let is_said = state["problem"]["text"].as_str()?.contains("takes no messages for now");
        (is_said && state["lag_batches"].as_u64()? >= 100).then_some(())
    });
    assert_eq!(stored(&server), 600.0);
    rabbit.control(&["set_vm_memory_high_watermark", "0.4"]);
    all_stored(&server, &rabbit, 700.0);
    eventually("the broker knows", || (destination(&second)["lag_batches"].as_u64()? < 5).then_some(()));
    assert_eq!(stored(&server), 700.0);
    assert_eq!(destination(&second)["gaps"]["made_total"], 0);
}

/// Waits until a server says that it does not believe the queue's.
fn refuses(directory: &Path, url: &str, more: &str) {
    let file = directory.join("refusing.toml");
    std::fs::write(&file, format!("[[amqp.input]]\nurl = '{url}'\nqueue = 'q'\n{more}")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(directory.join("refusing"));
    let mut server = Program(command.arg("--amqp").arg(&file).stderr(Stdio::piped()).spawn().unwrap());
    hear(&lines_of(server.0.stderr.take().unwrap()), "invalid peer certificate");
}

#[test]
fn queues_are_reached_over_tls_with_a_certificate_of_both() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let (authority, other) = (Authority::new(), Authority::new());
    authority.certify(directory.path(), "localhost", ServerAuth);
    authority.certify(directory.path(), "client", ClientAuth);
    std::fs::write(path("ca.pem"), authority.0.pem()).unwrap();
    std::fs::write(path("other.pem"), other.0.pem()).unwrap();
    let rabbit = Rabbit::start_tls(directory.path());
    let url = rabbit.tls_url();
    let keys = |ca: &str| {
        let [ca, certificate, key] = [ca, "client.pem", "client.key"].map(|name| format!("'{}'", path(name).display()));
        format!("ca_file = {ca}\ncert_file = {certificate}\nkey_file = {key}\n")
    };
    // Who is not vouched for is not believed, and nothing is taken from it.
    refuses(directory.path(), &url, &keys("other.pem"));
    let server = serve_with(directory.path(), &url, &keys("ca.pem"));
    assert_eq!(published(publish(&rabbit, batches(0, 50))), "50\n");
    accepted(&server, 50);
    let listed = rabbit.control(&["list_connections", "-q", "ssl", "ssl_protocol", "peer_cert_subject"]);
    assert!(listed.lines().any(|line| line.starts_with("true") && line.contains("CN=client")), "{listed}");
}
