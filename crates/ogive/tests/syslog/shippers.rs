//! Log shippers of other makers: what a client sent is what is stored, once.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{bodies, directory, lines, serve, unreadable_of};
use crate::common::clients::Client;
use crate::common::{Server, eventually};

/// The Go program with the clients and what it is to do.
pub(super) fn client(directory: &Path, args: &[&str]) -> Client {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/shippers");
    let program = directory.join("shippers");
    if !program.exists() {
        let built = Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(sources).status();
        assert!(built.expect("run scripts/need go").success(), "the clients do not build");
    }
    let mut command = Command::new(program);
    command.args(args);
    Client::run("shippers", command)
}

/// Waits until `query` finds `count` lines.
pub(super) fn stored(server: &Server, query: &str, count: usize) -> Vec<Value> {
    eventually(&format!("{count} lines of {query}"), || Some(lines(server, query)).filter(|found| found.len() >= count))
}

pub(super) fn record(line: &Value) -> Value {
    serde_json::from_str(line["line"].as_str().unwrap()).unwrap()
}

#[test]
fn graylogs_client_sends_gelf_compressed_in_chunks_and_by_tcp() {
    let directory = directory();
    let server = serve(directory.path(), &["--gelf", "127.0.0.1:0"]);
    let (udp, tcp) = (server.line_address("gelf", "udp"), server.line_address("gelf", "tcp"));
    let mut client = client(directory.path(), &["gelf", &udp, &tcp]);
    for _ in 0..4 {
        let kind = client.line();
        let (count, large) = if kind == "tcp" { (501, 800_000) } else { (51, 80_000) };
        let found = stored(&server, &format!("{{job=\"{kind}\"}}"), count);
        let mut expected: BTreeSet<String> = (0..count - 1).map(|at| format!("line {at}")).collect();
        let bodies = bodies(&found);
        expected.extend(bodies.iter().filter(|body| body.len() == large).cloned());
        assert_eq!((found.len(), bodies.len(), bodies == expected), (count, count, true), "{kind}");
        for line in &found {
            let record = record(line);
            let at = record["attributes"]["at"].as_u64().unwrap();
            let severities = ["", "alert", "crit", "error", "warning", "notice", "info", "debug"];
            assert_eq!(line["labels"]["severity"].as_str().unwrap_or_default(), severities[at as usize % 8]);
            assert_eq!(
                (&line["labels"]["instance"], &record["attributes"]["user"]),
                (&"edge-1".into(), &"ä \"b\"".into())
            );
            let sent = record["attributes"]["sent"].as_f64().unwrap() + 0.5;
            assert_eq!(line["t"].as_f64(), Some(sent), "{line}");
        }
        client.say("go on");
    }
    client.finish();
    assert_eq!(unreadable_of(&server, "gelf"), [""; 0]);
}

#[test]
fn gelf_that_lies_is_counted_and_the_next_message_is_taken() {
    let directory = directory();
    let server = serve(directory.path(), &["--gelf", "127.0.0.1:0"]);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.connect(server.line_address("gelf", "udp")).unwrap();
    let mut bomb = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    bomb.write_all(&vec![b' '; 40 << 20]).unwrap();
    let bomb = bomb.finish().unwrap();
    for datagram in
        [&b"\x1e\x0f12345678\x00\x02half"[..], b"\x1e\x0f12345678\x05\x02x", b"\x1f\x8bnonsense", &bomb, b"{}"]
    {
        udp.send(datagram).unwrap();
    }
    let mut tcp = TcpStream::connect(server.line_address("gelf", "tcp")).unwrap();
    tcp.write_all(&vec![b'x'; 3 << 20]).unwrap();
    tcp.write_all(b"\0{\"host\":\"h\",\"short_message\":\"still here\"}\0{\"host\":").unwrap();
    assert_eq!(bodies(&stored(&server, "{instance=\"h\"}", 1)), BTreeSet::from(["still here".to_owned()]));
    drop(tcp);
    for (reason, count) in [
        ("chunk_invalid", 1),
        ("compression_invalid", 1),
        ("line_too_long", 2),
        ("fields", 1),
        ("line_cut", 1),
        ("chunks_missing", 1),
    ] {
        eventually(reason, || {
            let line = format!("reason=\"{reason}\"}} {count}");
            unreadable_of(&server, "gelf").iter().any(|found| found.ends_with(&line)).then_some(())
        });
    }
    assert!(server.memory_peak_kib() < 200 << 10, "{} KiB", server.memory_peak_kib());
}
