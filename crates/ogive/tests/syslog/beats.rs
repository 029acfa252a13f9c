//! Beats: what is acknowledged is stored, once, whatever becomes of the server.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use super::shippers::{client, record, stored};
use super::{bodies, certify, directory, lines, lines_by_tls, serve, unreadable_of};
use crate::common::programs::free_port;
use crate::common::{Server, eventually, now_ms};
use ogive_text::calendar::rfc3339;

#[test]
fn elastics_clients_send_windows_plain_compressed_and_with_tls() {
    let directory = directory();
    certify(directory.path());
    let config = directory.path().join("web.yml");
    let more = ["--beats", "127.0.0.1:0", "--beats", "tls:127.0.0.1:0", "--web-config", config.to_str().unwrap()];
    let server = serve(directory.path(), &more);
    let authority = directory.path().join("ca.pem");
    let addresses = [server.line_address("beats", "tcp"), server.line_address("beats", "tls")];
    let args = ["beats", &addresses[0], &addresses[1], authority.to_str().unwrap()];
    let mut client = client(directory.path(), &args);
    for _ in 0..3 {
        let kind = client.line();
        // It is acknowledged, so it is there: nobody waits.
        let found = lines_by_tls(&server, directory.path(), &kind);
        let expected: BTreeSet<String> = (0..1_000).map(|at| format!("{kind} line {at}")).collect();
        assert_eq!((found.len(), bodies(&found) == expected), (1_000, true), "{kind}");
        for line in &found {
            assert_eq!(
                (&line["labels"]["instance"], &line["labels"]["severity"]),
                (&"edge-1".into(), &"warning".into())
            );
            let attributes = &record(line)["attributes"];
            let offset = attributes["log"]["offset"].as_u64().unwrap();
            assert!(line["line"].as_str().unwrap().contains(&format!("{kind} line {offset}\"")), "{line}");
            assert_eq!(
                (&attributes["log"]["file"]["path"], &attributes["@metadata"]["beat"]),
                (&"/var/log/ä".into(), &"filebeat".into())
            );
        }
        client.say("go on");
    }
    client.finish();
}

#[test]
fn what_is_acknowledged_is_stored_once_when_the_server_is_killed() {
    let directory = directory();
    let address = format!("127.0.0.1:{}", free_port());
    let start = || serve(directory.path(), &["--beats", &address]);
    let mut server = start();
    let mut clients =
        ["timed", "untimed"].map(|kind| (kind, client(directory.path(), &["beats-retries", &address, kind])));
    for _ in 0..5 {
        clients[0].1.wait_for("on");
        server.kill();
        server = start();
    }
    for (kind, client) in &mut clients {
        client.wait_for("all are acknowledged");
        let found = lines(&server, &format!("{{job=\"{kind}\"}}"));
        let expected: BTreeSet<String> = (0..3_000).map(|at| format!("{kind} line {at}")).collect();
        assert_eq!((found.len(), bodies(&found) == expected), (3_000, true), "{kind}");
    }
    for (_, client) in clients {
        client.finish();
    }
    // A client that did not hear that its window is stored sends it again, its fields perhaps in another order.
    let mut windows = [String::new(), String::new()];
    for at in 1..=7 {
        let time = rfc3339(now_ms() - 1_000 * i64::from(at));
        windows[0] += &event(at, &format!(r#"{{"@timestamp":"{time}","message":"m","type":"again"}}"#));
        windows[1] += &event(at, &format!(r#"{{"type":"again","message":"m","@timestamp":"{time}"}}"#));
    }
    for (at, window) in windows.iter().cycle().take(4).enumerate() {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(b"2W\0\0\0\x07").unwrap();
        stream.write_all(window.as_bytes()).unwrap();
        let mut answer = [0; 6];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"2A\0\0\0\x07");
        if at == 1 {
            server.kill();
            server = start();
        }
    }
    assert_eq!(lines(&server, "{job=\"again\"}").len(), 7);
}

/// A frame of an event; lengths and numbers are below 128, so that they are text.
fn event(sequence: u8, json: &str) -> String {
    format!("2J\0\0\0{}\0\0\0{}{json}", char::from(sequence), char::from(u8::try_from(json.len()).unwrap()))
}

fn compressed(frames: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    out.write_all(frames).unwrap();
    let bytes = out.finish().unwrap();
    [b"2C", &(bytes.len() as u32).to_be_bytes()[..], &bytes].concat()
}

/// What the server answers until it ends the connection.
fn answer(server: &Server, stream: &[u8]) -> Vec<u8> {
    let mut connection = TcpStream::connect(server.line_address("beats", "tcp")).unwrap();
    // The server may have ended it before all is written.
    let _ = connection.write_all(stream);
    let _ = connection.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = connection.read_to_end(&mut answer);
    answer
}

#[test]
fn beats_that_lie_are_counted_and_the_next_window_is_taken() {
    let directory = directory();
    let server = serve(directory.path(), &["--beats", "127.0.0.1:0"]);
    let spaces = [&b"2W\0\0\0\x022J\0\0\0\x01\x02\0\0\0"[..], &vec![b' '; 40 << 20]].concat();
    let good = event(1, r#"{"message":"still here","host":"h"}"#);
    for (stream, reason) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "frame_unknown"),
        (b"2W\xff\xff\xff\xff".to_vec(), "window_invalid"),
        (b"2W\0\0\0\x022W\0\0\0\x02".to_vec(), "window_invalid"),
        (good.clone().into_bytes(), "sequence_invalid"),
        (b"2W\0\0\0\x012J\0\0\0\x01\xff\xff\xff\xff".to_vec(), "length_invalid"),
        (b"2C\xff\xff\xff\xff".to_vec(), "length_invalid"),
        (compressed(&compressed(b"")), "frame_nested"),
        (compressed(&spaces), "frame_too_large"),
        (b"2C\0\0\0\x04none".to_vec(), "compression_invalid"),
        (format!("2W\0\0\0\x02{good}").into_bytes(), "line_cut"),
    ] {
        assert_eq!(answer(&server, &stream), b"", "{reason}");
    }
    // Events that can never be stored are counted, and acknowledged with those that are.
    let mixed = ["2W\0\0\0\x03", &good, &event(2, "[]"), &event(3, r#"{"@timestamp":"soon"}"#)].concat();
    assert_eq!(answer(&server, mixed.as_bytes()), b"2A\0\0\0\x03");
    let old = b"1W\0\0\0\x011D\0\0\0\x01\0\0\0\x02\0\0\0\x04line\0\0\0\x03old\0\0\0\x04host\0\0\0\x01h";
    assert_eq!(answer(&server, old), b"1A\0\0\0\x01");
    let found = stored(&server, "{instance=\"h\"}", 2);
    assert_eq!(bodies(&found), BTreeSet::from(["still here".to_owned(), "old".to_owned()]));
    for (reason, count) in [
        ("frame_unknown", 1),
        ("window_invalid", 2),
        ("sequence_invalid", 1),
        ("length_invalid", 2),
        ("frame_nested", 1),
        ("frame_too_large", 1),
        ("compression_invalid", 1),
        ("line_cut", 1),
        ("line_too_long", 1),
        ("fields", 1),
        ("time_invalid", 1),
    ] {
        eventually(reason, || {
            let line = format!("reason=\"{reason}\"}} {count}");
            unreadable_of(&server, "beats").iter().any(|found| found.ends_with(&line)).then_some(())
        });
    }
    assert!(server.memory_peak_kib() < 200 << 10, "{} KiB", server.memory_peak_kib());
}

/// Windows larger than what is stored at once are stored, and acknowledged, in pieces: a client that heard of some
/// sends the rest.
#[test]
fn a_large_window_is_stored_and_acknowledged_in_pieces() {
    let directory = directory();
    let server = serve(directory.path(), &["--beats", "127.0.0.1:0"]);
    let window: Vec<u8> = (1..=12_000_u32)
        .flat_map(|at| {
            let json = format!(r#"{{"message":"x","type":"large","at":{at}}}"#);
            [b"2J", &at.to_be_bytes()[..], &(json.len() as u32).to_be_bytes(), json.as_bytes()].concat()
        })
        .collect();
    let stream = [b"2W", &12_000_u32.to_be_bytes()[..], &compressed(&window)].concat();
    let pieces: Vec<u8> =
        [5_000_u32, 10_000, 12_000].iter().flat_map(|at| [b"2A", &at.to_be_bytes()[..]].concat()).collect();
    for _ in 0..2 {
        assert_eq!(answer(&server, &stream), pieces);
    }
    let (_, status) = server.get("/v1/status");
    assert_eq!(status["beats_received_total"], 24_000, "{status}");
    let (_, text) = server.request("GET /metrics HTTP/1.1", b"").unwrap();
    let count = |outcome: &str| {
        let of = |line: &&str| line.contains("protocol=\"beats\"") && line.contains(&format!("outcome=\"{outcome}\""));
        let found: Vec<&str> =
            text.lines().filter(|line| line.starts_with("ogive_ingest_samples_total{")).filter(of).collect();
        found.iter().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum::<u64>()
    };
    assert_eq!((count("accepted"), count("duplicate")), (12_000, 12_000), "{text}");
}
