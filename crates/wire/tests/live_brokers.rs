//! Real message brokers, a real capture, and clients that look at the clock, as in `live.rs`.
//!
//! Needs the servers that `scripts/need` installs, and tcpdump with the right to capture on loopback (root, or `sudo
//! -n`).

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::live::{Capture, Client, Program, directory, free_port};
use common::truth::Row;

/// RabbitMQ in a directory of its own. The script that starts it waits for Erlang, its child, which is ended first.
struct Rabbit(Program);

impl Rabbit {
    fn start(directory: &Path, port: u16) -> Self {
        let versions = std::fs::read_dir("/usr/lib/rabbitmq/lib").expect("run scripts/need rabbitmq-server");
        let mut versions: Vec<PathBuf> = versions.map(|version| version.expect("read").path()).collect();
        versions.sort();
        // Debian's wrapper would give up its rights and its directory.
        let mut command =
            Command::new(versions.last().expect("run scripts/need rabbitmq-server").join("sbin/rabbitmq-server"));
        command
            .env("HOME", directory)
            .env("RABBITMQ_NODENAME", format!("ogive-wire-{port}@localhost"))
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", port.to_string())
            .env("ERL_EPMD_PORT", free_port().to_string())
            .env("RABBITMQ_DIST_PORT", free_port().to_string())
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-setcookie ogive")
            .env("ERL_CRASH_DUMP_SECONDS", "0");
        for (name, file) in [("MNESIA_BASE", "mnesia"), ("LOG_BASE", "log"), ("ENABLED_PLUGINS_FILE", "plugins")] {
            command.env(format!("RABBITMQ_{name}"), directory.join(file));
        }
        for (name, file) in [("CONFIG_FILE", "rabbitmq.conf"), ("CONF_ENV_FILE", "environment")] {
            command.env(format!("RABBITMQ_{name}"), directory.join(file));
        }
        Self(Program::start(&mut command))
    }
}

impl Drop for Rabbit {
    fn drop(&mut self) {
        let _ = Command::new("pkill").args(["-KILL", "-P", &self.0.0.id().to_string()]).status();
    }
}

fn amqp_frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&[kind][..], &channel.to_be_bytes(), &length, payload, &[0xce]].concat()
}

fn method(channel: u16, class: u16, number: u16, arguments: &[u8]) -> Vec<u8> {
    amqp_frame(1, channel, &[&class.to_be_bytes()[..], &number.to_be_bytes(), arguments].concat())
}

/// Whether the frames of `answer` end with the method (or, for a message, with its body).
fn ends_with_method(mut answer: &[u8], class: u16, number: u16) -> bool {
    let mut last = None;
    while let Some(head) = answer.get(..7) {
        let length = u32::from_be_bytes(head[3..7].try_into().expect("four")) as usize;
        // With the octet that ends it.
        let Some(payload) = answer.get(7..8 + length) else { return false };
        if head[0] == 1 {
            last = payload
                .get(..4)
                .map(|head| (u16::from_be_bytes([head[0], head[1]]), u16::from_be_bytes([head[2], head[3]])));
        } else if head[0] == 3 {
            last = Some((60, 71));
        } else if head[0] == 2 {
            last = None;
        }
        answer = answer.get(8 + length..).unwrap_or_default();
    }
    answer.is_empty() && last == Some((class, number))
}

#[test]
fn rabbitmq_is_measured_between_the_clients_clocks() {
    let (directory, port) = (directory("rabbitmq"), free_port());
    let _server = Rabbit::start(&directory, port);
    drop(Client::connect(port));
    let capture = Capture::start(&directory, port);
    let mut client = Client::connect(port);
    client.stream.write_all(b"AMQP\0\0\x09\x01").expect("sent");
    client.read(|start| ends_with_method(start, 10, 10));
    let start_ok = [&[0, 0, 0, 0, 5][..], b"PLAIN", &[0, 0, 0, 12], b"\0guest\0guest", b"\x05en_US"].concat();
    client.stream.write_all(&method(0, 10, 11, &start_ok)).expect("sent");
    client.read(|tune| ends_with_method(tune, 10, 30));
    // RabbitMQ refuses more than its own limit of channels; 128 KiB a frame, no heartbeats.
    client.stream.write_all(&method(0, 10, 31, &[0x07, 0xff, 0, 2, 0, 0, 0, 0])).expect("sent");
    client.ask(&method(0, 10, 40, b"\x01/\0\0"), |answer| ends_with_method(answer, 10, 41));
    client.ask(&method(1, 20, 10, b"\0"), |answer| ends_with_method(answer, 20, 11));
    client.ask(&method(1, 50, 10, b"\0\0\x06orders\0\0\0\0\0"), |answer| ends_with_method(answer, 50, 11));
    client.ask(&method(1, 85, 10, b"\0"), |answer| ends_with_method(answer, 85, 11));
    for round in 0..100 {
        let body = format!("order {round}");
        let size = u64::try_from(body.len()).expect("short").to_be_bytes();
        let publish = [
            method(1, 60, 40, b"\0\0\0\x06orders\0"),
            amqp_frame(2, 1, &[&[0, 60, 0, 0][..], &size, &[0, 0]].concat()),
            amqp_frame(3, 1, body.as_bytes()),
        ];
        client.ask(&publish.concat(), |answer| ends_with_method(answer, 60, 80));
        let get = method(1, 60, 70, b"\0\0\x06orders\x01");
        client.ask(&get, |answer| ends_with_method(answer, 60, 71) && answer.len() > 60);
    }
    client.ask(&method(1, 20, 40, &[0, 200, 0, 0, 0, 0, 0]), |answer| ends_with_method(answer, 20, 41));
    let port = client.stream.local_addr().expect("bound").port();
    // The handshake's exchanges are the server's.
    let is_asked = |row: &&Row| row.conn.contains(&format!("|{port}|")) && !row.op.starts_with("connection.");
    let report = capture.report(|report| report.answered.iter().filter(is_asked).count() >= 204);
    let rows: Vec<&Row> = report.answered.iter().filter(is_asked).collect();
    client.asked.remove(0);
    client.brackets(&rows);
    let count = |op: &str| rows.iter().filter(|row| row.op.starts_with(op)).count();
    assert_eq!((count("basic.publish"), count("basic.get"), count("queue.declare")), (100, 100, 1), "{rows:?}");
}
