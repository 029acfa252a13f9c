//! Real servers of the JVM, a real capture, and clients that look at the clock, as in `live.rs`: Apache Kafka, and a
//! server of MongoDB's protocol (mongo-java-server; MongoDB's own is in no package registry). They run where
//! OGIVE_LIVE_LONG is set (`make test-live-long`).

mod common;

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use common::jars::{class_path, is_wanted, java, run};
use common::live::{Capture, Client, Program, directory, free_port, rows_of};
use common::truth::Row;

/// Whether a message with its length in front is whole.
fn is_framed(answer: &[u8]) -> bool {
    let length = answer.get(..4).map(|bytes| u32::from_be_bytes(bytes.try_into().expect("four")) as usize);
    length.is_some_and(|length| answer.len() >= 4 + length)
}

fn kafka_server(directory: &Path, port: u16) -> Program {
    let jars = class_path(directory, "org.apache.kafka", "kafka_2.13", "4.1.0");
    let controller = free_port();
    let properties = format!(
        "process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
         controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@127.0.0.1:{controller}\nlog.dirs={}\n\
         offsets.topic.num.partitions=1\noffsets.topic.replication.factor=1\nnum.partitions=1\n",
        directory.join("logs").display()
    );
    std::fs::write(directory.join("server.properties"), properties).expect("the directory is ours");
    let format = ["kafka.tools.StorageTool", "format", "-t", "b2dpdmUtd2lyZS10ZXN0cw", "-c", "server.properties"];
    run(java(directory, &jars).args(format));
    Program::start(java(directory, &jars).args(["kafka.Kafka", "server.properties"]))
}

/// A request of Kafka: its API, version and correlation id, and what follows the name of the client.
fn kafka(api: u16, version: u16, id: u32, body: &[u8]) -> Vec<u8> {
    let head = [&api.to_be_bytes()[..], &version.to_be_bytes(), &id.to_be_bytes(), &text("ogive")].concat();
    let length = u32::try_from(head.len() + body.len()).expect("short");
    [&length.to_be_bytes()[..], &head, body].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&u16::try_from(text.len()).expect("short").to_be_bytes()[..], text.as_bytes()].concat()
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

/// A batch of magic 2 with one record.
fn batch(value: &str) -> Vec<u8> {
    let value = value.as_bytes();
    // Attributes, times and offsets of nothing, no key (a zigzag -1), the value, no headers; lengths are zigzag too.
    let zigzag = |length: usize| u8::try_from(length * 2).expect("one octet, below 64");
    let record = [&[0, 0, 0, 1, zigzag(value.len())][..], value, &[0]].concat();
    let times = 1_700_000_000_000_u64.to_be_bytes();
    let rest = [
        &[0, 0, 0, 0, 0, 0][..], // attributes, offset of the last record
        &times,
        &times,
        &[0xff; 14], // no producer, epoch or sequence
        &1_u32.to_be_bytes(),
        &[zigzag(record.len())],
        &record,
    ]
    .concat();
    let length = u32::try_from(rest.len() + 9).expect("short");
    [&[0; 8][..], &length.to_be_bytes(), &[0; 4], &[2], &crc32c(&rest).to_be_bytes(), &rest].concat()
}

fn produce(id: u32, acks: u16, value: &str) -> Vec<u8> {
    let records = batch(value);
    let size = u32::try_from(records.len()).expect("short").to_be_bytes();
    let head =
        [&[0xff, 0xff][..], &acks.to_be_bytes(), &10_000_u32.to_be_bytes(), &[0, 0, 0, 1], &text("orders")].concat();
    kafka(0, 3, id, &[&head[..], &[0, 0, 0, 1, 0, 0, 0, 0], &size, &records].concat())
}

fn fetch(id: u32, offset: u64) -> Vec<u8> {
    let limits =
        [&[0xff; 4][..], &100_u32.to_be_bytes(), &1_u32.to_be_bytes(), &65_536_u32.to_be_bytes(), &[0]].concat();
    let topic = [&[0, 0, 0, 1][..], &text("orders"), &[0, 0, 0, 1, 0, 0, 0, 0]].concat();
    kafka(1, 4, id, &[&limits[..], &topic, &offset.to_be_bytes(), &65_536_u32.to_be_bytes()].concat())
}

#[test]
fn kafka_is_measured_between_the_clients_clocks() {
    if !is_wanted("Apache Kafka") {
        return;
    }
    let (directory, port) = (directory("kafka"), free_port());
    let _server = kafka_server(&directory, port);
    drop(Client::connect(port));
    let capture = Capture::start(&directory, port);
    let mut client = Client::connect(port);
    client.ask(&kafka(18, 0, 1, b""), is_framed);
    // The first question makes the topic; its leader is known a moment later.
    let mut id = 1;
    loop {
        id += 1;
        let answer = client.ask(&kafka(3, 4, id, &[&[0, 0, 0, 1][..], &text("orders"), &[1]].concat()), is_framed);
        let name = answer.windows(6).position(|part| part == b"orders").expect("the topic is named");
        // Before its name its error and the name's length.
        if answer[name - 4..name - 2] == [0, 0] {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let metadata = id as usize - 1;
    let mut again = 0;
    for round in 0..100 {
        loop {
            id += 1;
            let answer = client.ask(&produce(id, 1, &format!("order {round}")), is_framed);
            // The error stands behind the topic and the partition's number; a leader may not know yet that it is (6).
            let name = answer.windows(6).position(|part| part == b"orders").expect("the topic is named");
            match answer[name + 14..name + 16] {
                [0, 0] => break,
                [0, 6] if round == 0 => again += 1,
                _ => panic!("it was not stored: {answer:?}"),
            }
        }
        id += 1;
        let fetched = client.ask(&fetch(id, round), is_framed);
        assert!(fetched.windows(5).any(|part| part == b"order"), "{fetched:?}");
    }
    // Without acknowledgement there is no answer.
    client.stream.write_all(&produce(id + 1, 0, "unanswered")).expect("sent");
    client.ask(&kafka(18, 0, id + 2, b""), is_framed);
    let asked = client.asked.len();
    let from = client.stream.local_addr().expect("bound").port();
    let is_asked = |row: &&Row| row.conn.contains(&format!("|{from}|"));
    let report = capture.report(|report| report.answered.iter().filter(is_asked).count() >= asked);
    let rows: Vec<&Row> = report.answered.iter().filter(is_asked).collect();
    client.brackets(&rows);
    let count = |op: &str| rows.iter().filter(|row| row.op == op).count();
    assert_eq!((count("Produce"), count("Fetch"), count("ApiVersions")), (100 + again, 100, 2));
    assert_eq!(count("Metadata"), metadata);
    let silent: Vec<_> = report.unanswered.iter().filter(|row| row.conn.contains(&format!("|{from}|"))).collect();
    assert_eq!(silent.len(), 1);
    assert_eq!((&*silent[0].op, &*silent[0].why), ("Produce", "no_response_by_design"));
}

/// Starts mongo-java-server, which keeps its data in memory.
const MONGO: &str = "import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
public class Main {
    public static void main(String[] arguments) throws Exception {
        new MongoServer(new MemoryBackend()).bind(\"127.0.0.1\", Integer.parseInt(arguments[0]));
        Thread.sleep(Long.MAX_VALUE);
    }
}
";

fn element(kind: u8, name: &str, value: &[u8]) -> Vec<u8> {
    [&[kind][..], name.as_bytes(), &[0], value].concat()
}

fn document(elements: &[Vec<u8>]) -> Vec<u8> {
    let inner = elements.concat();
    [&u32::try_from(inner.len() + 5).expect("short").to_le_bytes()[..], &inner, &[0]].concat()
}

fn string(name: &str, value: &str) -> Vec<u8> {
    let length = u32::try_from(value.len() + 1).expect("short").to_le_bytes();
    element(2, name, &[&length[..], value.as_bytes(), &[0]].concat())
}

fn number(name: &str, value: i32) -> Vec<u8> {
    element(16, name, &value.to_le_bytes())
}

/// An OP_MSG with one document.
fn command(id: u32, mut elements: Vec<Vec<u8>>) -> Vec<u8> {
    elements.push(string("$db", "shop"));
    let body = document(&elements);
    let length = u32::try_from(body.len() + 21).expect("short");
    let head: Vec<u8> = [length, id, 0, 2_013, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    [&head[..], &[0], &body].concat()
}

fn is_message(answer: &[u8]) -> bool {
    let length = answer.get(..4).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four")) as usize);
    length.is_some_and(|length| answer.len() >= length)
}

#[test]
fn mongodb_is_measured_between_the_clients_clocks() {
    if !is_wanted("a server of MongoDB's protocol") {
        return;
    }
    let (directory, port) = (directory("mongodb"), free_port());
    let jars = class_path(&directory, "de.bwaldvogel", "mongo-java-server", "1.47.0");
    std::fs::write(directory.join("Main.java"), MONGO).expect("the directory is ours");
    let _server = Program::start(java(&directory, &jars).args(["Main.java", &port.to_string()]));
    drop(Client::connect(port));
    let capture = Capture::start(&directory, port);
    let mut client = Client::connect(port);
    client.ask(&command(1, vec![number("ping", 1)]), is_message);
    for round in 0..100 {
        let order = document(&[number("_id", round), string("of", "ogive")]);
        let insert = vec![string("insert", "orders"), element(4, "documents", &document(&[element(3, "0", &order)]))];
        client.ask(&command(2, insert), is_message);
        let filter = element(3, "filter", &document(&[number("_id", round)]));
        let found = client.ask(&command(3, vec![string("find", "orders"), filter]), is_message);
        assert!(found.windows(5).any(|part| part == b"ogive"), "{found:?}");
    }
    client.ask(&command(4, vec![number("nosuch", 1)]), is_message);
    let report = capture.report(|report| report.answered.len() >= 202);
    let rows = rows_of(&report, "mongodb");
    client.brackets(&rows);
    let count = |op: &str| rows.iter().filter(|row| row.op.starts_with(op) && row.status == "ok").count();
    assert_eq!((count("ping"), count("insert"), count("find")), (1, 100, 100));
    assert_eq!(rows.iter().filter(|row| row.status == "59").count(), 1, "CommandNotFound");
}
