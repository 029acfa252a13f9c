//! A real Cassandra, a real capture, and clients of CQL 4 and 5 that look at the clock, as in `live.rs`. It comes from
//! Maven and runs where OGIVE_LIVE_LONG is set (`make test-live-long`).

mod common;

use std::path::Path;

use common::cql::{message, segment};
use common::jars::{class_path, is_wanted, java};
use common::live::{Capture, Client, Program, directory, free_port};
use common::truth::Row;

/// Packages that Cassandra 5 uses and a JVM of 17 keeps closed.
const EXPORTED: [&str; 10] = [
    "java.base/java.lang.ref",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.attach/sun.tools.attach",
    "jdk.unsupported/sun.misc",
];
const OPENED: [&str; 16] = [
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
];

/// One node that knows no other.
fn cassandra(directory: &Path, port: u16) -> Program {
    let jars = class_path(directory, "org.apache.cassandra", "cassandra-all", "5.0.9");
    let data = directory.join("data");
    let (storage, management) = (free_port(), free_port());
    let places: String = ["commitlog", "hints", "saved_caches", "cdc_raw"]
        .iter()
        .map(|name| format!("{name}_directory: {}\n", data.join(name).display()))
        .collect();
    let text = format!(
        "cluster_name: ogive\npartitioner: org.apache.cassandra.dht.Murmur3Partitioner\nnum_tokens: 1\nauto_bootstrap: false\n\
         seed_provider:\n  - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n    parameters: [{{seeds: \"127.0.0.1:{storage}\"}}]\n\
         listen_address: 127.0.0.1\nrpc_address: 127.0.0.1\nstorage_port: {storage}\nnative_transport_port: {port}\n\
         endpoint_snitch: SimpleSnitch\ncommitlog_sync: periodic\ncommitlog_sync_period: 10s\ncommitlog_segment_size: 8MiB\n\
         data_file_directories: [\"{}\"]\n{places}",
        data.join("data").display()
    );
    std::fs::write(directory.join("cassandra.yaml"), text).expect("the directory is ours");
    let mut command = java(directory, &jars);
    command.args(EXPORTED.map(|package| format!("--add-exports={package}=ALL-UNNAMED")));
    command.args(OPENED.map(|package| format!("--add-opens={package}=ALL-UNNAMED")));
    let jamm = jars.split(':').find(|jar| jar.contains("/jamm-")).expect("Cassandra measures objects by jamm");
    command.arg(format!("-javaagent:{jamm}"));
    let directory = directory.display();
    for (name, value) in [
        ("cassandra.config", format!("file://{directory}/cassandra.yaml")),
        ("cassandra.storagedir", format!("{directory}/data")),
        ("cassandra.logdir", format!("{directory}/data")),
        ("cassandra.jmx.local.port", management.to_string()),
        ("cassandra-foreground", "yes".to_owned()),
        ("cassandra.ring_delay_ms", "1000".to_owned()),
        ("cassandra.skip_wait_for_gossip_to_settle", "0".to_owned()),
        ("jdk.attach.allowAttachSelf", "true".to_owned()),
    ] {
        command.arg(format!("-D{name}={value}"));
    }
    Program::start(command.arg("org.apache.cassandra.service.CassandraDaemon"))
}

/// A query with consistency ONE. Its flags are four octets from version 5 on, which puts it into a segment.
fn query(version: u8, stream: i16, text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).expect("short").to_be_bytes();
    let flags: &[u8] = if version < 5 { &[0] } else { &[0; 4] };
    let whole = message(version, 0, stream, 7, &[&length[..], text.as_bytes(), &[0, 1], flags].concat());
    if version < 5 { whole } else { segment(&whole) }
}

fn startup(version: u8) -> Vec<u8> {
    message(version, 0, 0, 1, b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0")
}

const ERROR: u8 = 0;
const READY: u8 = 2;
const RESULT: u8 = 8;

/// Whether a message is whole, or segments that end with one.
fn is_whole(version: u8, answer: &[u8]) -> bool {
    if version < 5 {
        let length = answer.get(5..9).map(|bytes| u32::from_be_bytes(bytes.try_into().expect("four")) as usize);
        return length.is_some_and(|length| answer.len() >= 9 + length);
    }
    let payload = answer.get(..3).map(|head| usize::from(head[0]) | usize::from(head[1]) << 8);
    payload.is_some_and(|payload| answer.len() >= 6 + payload + 4)
}

/// The opcode of an answer.
fn opcode(version: u8, answer: &[u8]) -> u8 {
    answer[4 + if version < 5 { 0 } else { 6 }]
}

#[test]
fn cassandra_is_measured_between_the_clients_clocks() {
    if !is_wanted("Cassandra") {
        return;
    }
    let (directory, port) = (directory("cassandra"), free_port());
    let _server = cassandra(&directory, port);
    drop(Client::connect(port));
    let capture = Capture::start(&directory, port);
    let mut clients = Vec::new();
    for version in [4, 5] {
        let mut client = Client::connect(port);
        // The answer to the start-up stands outside of segments.
        let ready = client.ask(&startup(version), |answer| is_whole(4, answer));
        assert_eq!(opcode(4, &ready), READY, "{}", String::from_utf8_lossy(&ready));
        let mut ask = |text: &str, expected: u8| {
            let answer = client.ask(&query(version, 1, text), |answer| is_whole(version, answer));
            assert_eq!(opcode(version, &answer), expected, "{text}: {}", String::from_utf8_lossy(&answer));
        };
        let strategy = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        ask(&format!("CREATE KEYSPACE IF NOT EXISTS shop WITH replication = {strategy}"), RESULT);
        ask("CREATE TABLE IF NOT EXISTS shop.orders (id int PRIMARY KEY, name text)", RESULT);
        for round in 0..50 {
            ask(&format!("INSERT INTO shop.orders (id, name) VALUES ({round}, 'ogive')"), RESULT);
            ask(&format!("SELECT name FROM shop.orders WHERE id = {round}"), RESULT);
        }
        ask("SELECT * FROM shop.nosuch", ERROR);
        clients.push(client);
    }
    let of = |client: &Client| format!("|{}|", client.stream.local_addr().expect("bound").port());
    let count = |rows: &[Row], client: &Client| rows.iter().filter(|row| row.conn.contains(&of(client))).count();
    let report = capture.report(|report| clients.iter().all(|client| count(&report.answered, client) >= 104));
    for client in &clients {
        let rows: Vec<&Row> = report.answered.iter().filter(|row| row.conn.contains(&of(client))).collect();
        client.brackets(&rows);
        let count =
            |op: &str, is_ok: bool| rows.iter().filter(|row| row.op == op && (row.status == "ok") == is_ok).count();
        assert_eq!((count("STARTUP", true), count("QUERY", true), count("QUERY", false)), (1, 102, 1));
    }
}
