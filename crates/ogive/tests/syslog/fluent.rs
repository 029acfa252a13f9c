//! Fluent Forward: what its clients send is stored, once where it is acknowledged, whatever becomes of the server.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use super::shippers::{client, record, stored};
use super::{bodies, directory, lines, serve, unreadable_of};
use crate::common::clients::Client;
use crate::common::programs::free_port;
use crate::common::{Server, eventually, now_ms};

/// Of each kind of message.
const COUNT: usize = 200;

fn expected() -> BTreeSet<String> {
    (0..COUNT).map(|at| format!("line {at}")).collect()
}

#[test]
fn the_package_of_python_sends_messages_over_tcp_and_a_unix_socket() {
    let directory = directory();
    let socket = directory.path().join("fluent.sock");
    let unix = format!("unix-stream:{}", socket.display());
    let server = serve(directory.path(), &["--fluent", "127.0.0.1:0", "--fluent", &unix]);
    let address = server.line_address("fluent", "tcp");
    let (host, port) = address.split_once(':').unwrap();
    let started_ms = now_ms();
    let args = [host, port, socket.to_str().unwrap(), &COUNT.to_string()];
    let mut client = Client::start("fluent_lines.py", &args);
    client.wait_for("sent");
    client.finish();
    for tag in ["py.seconds.web", "py.nanos.web", "py.unix.web"] {
        let found = stored(&server, &format!("{{job=\"{tag}\"}}"), COUNT);
        assert_eq!((found.len(), bodies(&found) == expected()), (COUNT, true), "{tag}");
        for line in &found {
            let labels = &line["labels"];
            assert_eq!((&labels["instance"], &labels["severity"]), (&"edge-1".into(), &"warning".into()), "{line}");
            let record = record(line);
            assert_eq!(record["body"], format!("line {}", record["attributes"]["at"]));
            let deep = serde_json::json!({"ok": true, "none": null, "list": [1, -2, 2.5, "ä"], "large": 1_u64 << 63});
            assert_eq!(record["attributes"]["deep"], deep);
            assert!(line["t"].as_f64().unwrap() * 1e3 >= started_ms as f64 - 1e3, "{line}");
        }
    }
    let found = stored(&server, "{job=\"py.logging\"}", COUNT);
    assert_eq!((found.len(), bodies(&found) == expected()), (COUNT, true));
    assert_eq!(found[0]["labels"]["severity"], "error");
    assert!(!found[0]["labels"]["instance"].as_str().unwrap().is_empty(), "{}", found[0]);
    assert_eq!(unreadable_of(&server, "fluent"), [""; 0]);
}

#[test]
fn the_package_of_node_sends_every_mode_and_logs_in() {
    for key in ["", "hunter2"] {
        let directory = directory();
        let with_key = ["--fluent", "127.0.0.1:0", "--fluent-shared-key", key];
        let server = serve(directory.path(), if key.is_empty() { &with_key[..2] } else { &with_key });
        let address = server.line_address("fluent", "tcp");
        let (host, port) = address.split_once(':').unwrap();
        let mut client = Client::start("fluent_forward.cjs", &[host, port, &COUNT.to_string(), key]);
        for mode in ["Message", "Forward", "PackedForward", "CompressedPackedForward"] {
            client.wait_for(mode);
            // It is acknowledged, so it is there: nobody waits.
            let found = lines(&server, &format!("{{job=\"js.{mode}\"}}"));
            assert_eq!((found.len(), bodies(&found) == expected()), (COUNT, true), "{mode}");
            for line in &found {
                let labels = &line["labels"];
                assert_eq!((&labels["instance"], &labels["severity"]), (&"edge-1".into(), &"warning".into()), "{line}");
                let attributes = &record(line)["attributes"];
                assert_eq!(record(line)["body"], format!("line {}", attributes["at"]));
                assert_eq!(attributes["tags"], serde_json::json!(["a", null, 2.5, -7]));
            }
        }
        client.finish();
        assert_eq!(unreadable_of(&server, "fluent"), [""; 0]);
    }
}

#[test]
fn what_is_acknowledged_is_stored_once_when_the_server_is_killed() {
    let directory = directory();
    let address = format!("127.0.0.1:{}", free_port());
    let start = || serve(directory.path(), &["--fluent", &address]);
    let mut server = start();
    let mut clients =
        ["seconds", "nanoseconds"].map(|kind| (kind, client(directory.path(), &["fluent-retries", &address, kind])));
    for _ in 0..5 {
        clients[0].1.wait_for("on");
        server.kill();
        server = start();
    }
    for (kind, client) in &mut clients {
        client.wait_for("all are acknowledged");
        let found = lines(&server, &format!("{{job=\"{kind}\"}}"));
        let expected: BTreeSet<String> = (0..300).map(|at| format!("{kind} line {at}")).collect();
        assert_eq!((found.len(), bodies(&found) == expected), (300, true), "{kind}");
    }
    for (_, client) in clients {
        client.finish();
    }
    // A client that did not hear that its message is stored sends it again.
    for (name, mode) in [("list", List), ("packed", Packed), ("gzip", Gzip(1)), ("members", Gzip(3))] {
        let message = message(name, mode, 7, Some("cGllY2U="));
        for at in 0..4 {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.write_all(&message).unwrap();
            let mut answer = [0; ACKNOWLEDGEMENT.len()];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, ACKNOWLEDGEMENT);
            if at == 1 {
                server.kill();
                server = start();
            }
        }
        assert_eq!(lines(&server, &format!("{{job=\"{name}\"}}")).len(), 7, "{name}");
    }
}

/// `{"ack": "cGllY2U="}`
const ACKNOWLEDGEMENT: &[u8; 14] = b"\x81\xa3ack\xa8cGllY2U=";

/// How entries are written.
#[derive(Clone, Copy)]
enum Mode {
    List,
    Packed,
    /// In so many members, which end inside entries.
    Gzip(usize),
}

use Mode::{Gzip, List, Packed};

fn text(text: &str) -> Vec<u8> {
    assert!(text.len() < 32, "{text:?} is not short");
    [&[0xa0 + text.len() as u8][..], text.as_bytes()].concat()
}

/// An entry of this second with the fields `log` and `host`.
fn entry(line: &str) -> Vec<u8> {
    let seconds = u32::try_from(now_ms() / 1_000).unwrap();
    let time = [&[0x92_u8, 0xd7, 0][..], &seconds.to_be_bytes(), &250_000_000_u32.to_be_bytes()].concat();
    [time, vec![0x82], text("log"), text(line), text("host"), text("h")].concat()
}

fn binary(bytes: &[u8]) -> Vec<u8> {
    [&[0xc6_u8][..], &(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// A message with this many entries (below 16), and the option.
fn message(tag: &str, mode: Mode, count: usize, chunk: Option<&str>) -> Vec<u8> {
    let entries: Vec<u8> = (0..count).flat_map(|at| entry(&format!("line {at}"))).collect();
    let (body, is_compressed) = match mode {
        List => ([vec![0x90 + count as u8], entries].concat(), false),
        Packed => (binary(&entries), false),
        Gzip(members) => {
            let parts = entries.chunks(entries.len().div_ceil(members)).map(compressed);
            (binary(&parts.collect::<Vec<_>>().concat()), true)
        }
    };
    let mut options: Vec<Vec<u8>> = chunk.iter().map(|chunk| [text("chunk"), text(chunk)].concat()).collect();
    if is_compressed {
        options.push([text("compressed"), text("gzip")].concat());
    }
    let option = [vec![0x80 + options.len() as u8], options.concat()].concat();
    [vec![0x93], text(tag), body, option].concat()
}

/// What the server answers until it ends the connection.
fn answer(server: &Server, stream: &[u8]) -> Vec<u8> {
    let mut connection = TcpStream::connect(server.line_address("fluent", "tcp")).unwrap();
    // The server may have ended it before all is written.
    let _ = connection.write_all(stream);
    let _ = connection.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = connection.read_to_end(&mut answer);
    answer
}

/// A message with these bytes as its compressed entries.
fn gzip_of(bytes: &[u8], word: &str) -> Vec<u8> {
    [vec![0x93], text("t"), binary(bytes), vec![0x81], text("compressed"), text(word)].concat()
}

#[test]
fn messages_that_lie_are_counted_and_the_next_is_taken() {
    let directory = directory();
    let server = serve(directory.path(), &["--fluent", "127.0.0.1:0"]);
    // One entry of 300 MiB of zeros, of which members of one each are sent.
    let zeros = compressed(&vec![0_u8; 1 << 20]).repeat(300);
    let bomb = [compressed(&[&[0xc6_u8][..], &(300_u32 << 20).to_be_bytes()].concat()), zeros].concat();
    let cut = [&b"\x92\xa1t"[..], &binary(&entry("x")[..9])].concat();
    for (stream, reason) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "message_invalid"),
        (b"\xc1".to_vec(), "msgpack_invalid"),
        (vec![0x91; 200], "depth_limit"),
        (b"\x92\xa1t\xc6\xff\xff\xff\xff".to_vec(), "message_too_large"),
        (gzip_of(b"none", "gzip"), "compression_invalid"),
        (gzip_of(b"none", "zstd"), "compression_unknown"),
        (gzip_of(&bomb, "gzip"), "expanded_too_large"),
        (cut, "entry_cut"),
        (message("t", Packed, 3, Some("cGllY2U="))[..30].to_vec(), "line_cut"),
    ] {
        assert_eq!(answer(&server, &stream), b"", "{reason}");
    }
    // Entries that can never be stored are counted, and acknowledged with those that are.
    let entries =
        [entry("still here"), b"\x92\xa4soon\x80".to_vec(), b"\x07".to_vec(), b"\x92\x05\x81\xa3log\xa1\xff".to_vec()];
    let option = [vec![0x81], text("chunk"), text("cGllY2U=")].concat();
    let mixed = [vec![0x93], text("mixed"), binary(&entries.concat()), option].concat();
    // A nil is no message.
    assert_eq!(answer(&server, &[&b"\xc0"[..], &mixed].concat()), ACKNOWLEDGEMENT);
    assert_eq!(bodies(&stored(&server, "{job=\"mixed\"}", 1)), BTreeSet::from(["still here".to_owned()]));
    for (reason, count) in [
        ("message_invalid", 1),
        ("msgpack_invalid", 1),
        ("depth_limit", 1),
        ("message_too_large", 1),
        ("compression_invalid", 1),
        ("compression_unknown", 1),
        ("expanded_too_large", 1),
        ("entry_cut", 1),
        ("line_cut", 1),
        ("time_invalid", 1),
        ("fields", 1),
        ("not_utf8", 1),
    ] {
        eventually(reason, || {
            let line = format!("reason=\"{reason}\"}} {count}");
            unreadable_of(&server, "fluent").iter().any(|found| found.ends_with(&line)).then_some(())
        });
    }
    assert!(server.memory_peak_kib() < 200 << 10, "{} KiB", server.memory_peak_kib());
}

/// Without a chunk nothing is sent again: equal messages are messages of their own, as when a program writes a line
/// twice.
#[test]
fn equal_messages_without_a_chunk_are_all_stored() {
    let directory = directory();
    let mut server = serve(directory.path(), &["--fluent", "127.0.0.1:0"]);
    let message = message("twice", List, 2, None);
    assert_eq!(answer(&server, &message.repeat(3)), b"");
    assert_eq!(stored(&server, "{job=\"twice\"}", 6).len(), 6);
    // What has arrived when the server is asked to end is stored.
    let mut stream = TcpStream::connect(server.line_address("fluent", "tcp")).unwrap();
    stream.write_all(&message).unwrap();
    stored(&server, "{job=\"twice\"}", 8);
    stream.write_all(&message.repeat(1_000)).unwrap();
    assert_eq!(server.terminate(), Some(0));
    let server = serve(directory.path(), &["--fluent", "127.0.0.1:0"]);
    assert_eq!(stored(&server, "{job=\"twice\"}", 2_008).len(), 2_008);
}

#[test]
fn a_client_without_the_shared_key_is_turned_away() {
    let directory = directory();
    let server = serve(directory.path(), &["--fluent", "127.0.0.1:0", "--fluent-shared-key", "hunter2"]);
    let found = answer(&server, &message("t", List, 2, Some("cGllY2U=")));
    assert!(found.starts_with(b"\x92\xa4HELO"), "{}", found.escape_ascii());
    assert!(found.windows(6).any(|part| part == b"\xa4PONG\xc2"), "{}", found.escape_ascii());
    eventually("it is counted", || {
        let line = "reason=\"login_failed\"} 1";
        unreadable_of(&server, "fluent").iter().any(|found| found.ends_with(line)).then_some(())
    });
    let (status, flags) = server.get("/api/v1/status/flags");
    assert!(status == 200 && !flags.to_string().contains("hunter2"), "{flags}");
    assert_eq!(lines(&server, "{job=\"t\"}").len(), 0);
}
