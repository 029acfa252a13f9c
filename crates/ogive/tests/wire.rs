//! `ogive wire` on captures and, where the process may capture, live beside a real server.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

fn capture(name: &str) -> String {
    format!("{}/../../vectors/captures/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn wire(arguments: &[&str]) -> (String, String, bool) {
    let output = Command::new(env!("CARGO_BIN_EXE_ogive")).arg("wire").args(arguments).output().expect("ogive runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (text(output.stdout), text(output.stderr), output.status.success())
}

/// `requests` requests and their responses over one connection to `listener`.
fn exchange(listener: TcpListener, requests: usize) {
    let port = listener.local_addr().unwrap().port();
    let serve = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 18];
        for _ in 0..requests {
            stream.read_exact(&mut request).unwrap();
            stream.write_all(b"HTTP/1.1 204 No\r\n\r\n").unwrap();
        }
    });
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut response = [0; 19];
    for _ in 0..requests {
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        client.read_exact(&mut response).unwrap();
    }
    drop(client);
    serve.join().unwrap();
}

#[test]
fn exchanges_are_those_of_the_truth() {
    let (out, error, is_fine) = wire(&["--pcap", &capture("http1_pipeline.pcap.gz"), "--exchanges"]);
    assert!(is_fine, "{error}");
    let truth: Value = serde_json::from_slice(&std::fs::read(capture("http1_pipeline.truth.json")).unwrap()).unwrap();
    let fields = [
        "conn",
        "proto",
        "op",
        "status",
        "req_bytes",
        "t_req_first",
        "t_req_last",
        "rsp_bytes",
        "t_rsp_first",
        "t_rsp_last",
        "n",
    ];
    let row = |value: &Value| fields.map(|field| value[field].to_string()).join(" ");
    let mut expected: Vec<String> = truth["exchanges"].as_array().unwrap().iter().map(row).collect();
    let mut found: Vec<String> = out.lines().map(|line| row(&serde_json::from_str(line).unwrap())).collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn a_dead_keep_alive_connection_is_named_with_its_idle_time() {
    let (out, error, is_fine) = wire(&["--pcap", &capture("http1_dead_keepalive.pcap.gz")]);
    assert!(is_fine, "{error}");
    let finding = out.lines().find(|line| line.contains("reused a dead keep-alive connection after 1.3s idle"));
    assert!(finding.is_some(), "{out}");
    let (out, _, _) = wire(&["--pcap", &capture("http1_dead_keepalive.pcap.gz"), "--summary", "--json"]);
    let summary: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(summary["is_conserved"], true);
    assert_eq!(summary["findings"]["dead_keepalive"], 2);
    assert_eq!((summary["requests"].as_u64(), summary["answered"].as_u64()), (Some(15), Some(11)));
}

#[test]
fn what_is_no_capture_is_refused_in_one_sentence() {
    let (out, error, is_fine) = wire(&["--pcap", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
    assert!(!is_fine && out.is_empty() && error.contains("this is no capture file"), "{error}");
    let (_, error, is_fine) = wire(&["--port", "80=nonsense"]);
    assert!(!is_fine && error.contains("http1"), "{error}");
    let (_, error, is_fine) = wire(&["-i", "nowhere0"]);
    assert!(!is_fine && error.contains("nowhere0"), "{error}");
}

#[test]
fn live_exchanges_are_counted_and_reach_the_server_once() {
    const REQUESTS: usize = 200;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let directory = tempfile::tempdir().unwrap();
    let server = crate::common::Server::start(directory.path());
    let rules = directory.path().join("rules.txt");
    std::fs::write(&rules, "GET / front page\n").unwrap();
    let mut observer = Command::new(env!("CARGO_BIN_EXE_ogive"))
        .args(["wire", "-i", "lo", "--only", &port.to_string(), "--to", &format!("http://{}", server.address)])
        .arg("--operations")
        .arg(&rules)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let is_capturing = is_capturing(&mut observer);
    if !is_capturing {
        let mut said = String::new();
        observer.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.contains("CAP_NET_RAW"), "{said}");
        eprintln!("skipped: {said}");
        return;
    }
    exchange(listener, REQUESTS);
    let killed = Command::new("kill").args(["-INT", &observer.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = observer.wait_with_output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("dropped by the kernel: 0 packets"), "{out}");
    let row = out.lines().find(|line| line.contains("front page")).unwrap_or_else(|| panic!("{out}"));
    assert!(row.split_whitespace().any(|word| word == "200"), "{row}");
}

/// A capture of the observer's own tests.
fn own(name: &str) -> String {
    format!("{}/../wire/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn tls_is_measured_from_outside_and_the_table_says_so() {
    let (out, error, is_fine) = wire(&["--pcap", &own("tls12.pcap")]);
    assert!(is_fine, "{error}");
    let line = |words: &[&str]| out.lines().find(|line| words.iter().all(|word| line.contains(word)));
    let of_http2 =
        line(&["tls  127.0.0.1:21443  shop.example  TLS 1.2  h2", "handshakes 2", "certificate until 2027-03-01"]);
    assert!(of_http2.is_some(), "{out}");
    assert!(line(&["failed handshakes: unknown_ca 1"]).is_some(), "{out}");
    assert!(line(&["bytes 1,840 to it, 5,407 from it; messages are not read"]).is_some(), "{out}");
    let (out, _, _) = wire(&["--pcap", &own("tls13.pcap")]);
    assert!(out.contains("shop.example  TLS 1.3  offered h2,http/1.1  handshakes 1"), "{out}");
    let (out, _, _) = wire(&["--pcap", &own("tls13.pcap"), "--summary", "--json"]);
    let summary: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(summary["tls"], serde_json::json!({"handshakes": 2, "failed_handshakes": 1, "turns": 4}));
    assert_eq!(summary["by_connection"][0]["proto"], "tls");
}

#[test]
fn a_blocked_pipeline_and_a_habit_are_named() {
    let (out, _, _) = wire(&["--pcap", &own("head_of_line.pcap")]);
    let blocked = "finding  head-of-line blocking in a pipeline: 6 requests waited 200ms for one answer";
    assert!(out.contains(blocked), "{out}");
    let (out, _, _) = wire(&["--pcap", &own("connection_per_request.pcap")]);
    assert!(out.contains("finding  the client opens a connection a request, 10 in "), "{out}");
    let (out, _, _) = wire(&["--pcap", &own("zero_window.pcap")]);
    assert!(out.contains("tcp  127.0.0.1:21081  sent again 0, resets 0, zero windows 1"), "{out}");
}

#[test]
fn the_slowest_exchanges_are_shown_with_their_heads() {
    let (out, error, is_fine) = wire(&["--pcap", &own("connection_per_request.pcap"), "--exemplars", "3"]);
    assert!(is_fine, "{error}");
    let slow: Vec<&str> = out.lines().filter(|line| line.starts_with("slow  ")).collect();
    assert_eq!(slow.len(), 3, "{out}");
    let head = "GET /item/{n}; host: 127.0.0.1:21080; user-agent: curl/7.88.1; accept: */*";
    assert!(slow.iter().all(|line| line.contains(head) && line.contains("  200  ")), "{out}");
    // 204,526 ns is the slowest of the twelve, by the capture's own times.
    assert!(slow[0].starts_with("slow  205µs (request 0s, service 205µs, response 0s)"), "{out}");
    let (out, _, _) = wire(&["--pcap", &own("connection_per_request.pcap")]);
    assert!(!out.contains("slow  "), "{out}");
}

/// Waits until the observer captures, or has ended because it may not.
fn is_capturing(observer: &mut Child) -> bool {
    // A socket of the observer in /proc/net/packet says that it captures; without the right it ends.
    loop {
        if observer.try_wait().unwrap().is_some() {
            break false;
        }
        let packet = std::fs::read_to_string("/proc/net/packet").unwrap_or_default();
        let has_ring = || {
            // Its sixth column is 1 once the socket is bound, which is the last step of opening a ring.
            let is_running = |line: &str| line.split_whitespace().nth(5) == Some("1");
            let of = |inode: &String| packet.lines().any(|line| line.ends_with(inode.as_str()) && is_running(line));
            common_sockets(observer.id()).iter().any(of)
        };
        if packet.lines().count() > 1 && has_ring() {
            break true;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn exchanges_and_the_summary_are_live_too() {
    const REQUESTS: usize = 5;
    for arguments in [&["--exchanges"][..], &["--summary", "--json"]] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut observer = Command::new(env!("CARGO_BIN_EXE_ogive"))
            .args(["wire", "-i", "lo", "--only", &port.to_string()])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        if !is_capturing(&mut observer) {
            eprintln!("skipped: no right to capture");
            return;
        }
        exchange(listener, REQUESTS);
        assert!(Command::new("kill").args(["-INT", &observer.id().to_string()]).status().unwrap().success());
        let output = observer.wait_with_output().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        let rows: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
        if arguments[0] == "--exchanges" {
            let numbers: Vec<_> = rows.iter().map(|row| row["n"].as_u64().unwrap()).collect();
            assert_eq!(numbers, [0, 1, 2, 3, 4], "{out}");
            let times = |row: &Value| ["t_req_first", "t_rsp_last"].map(|name| row[name].as_i64().unwrap());
            assert!(rows.iter().map(times).all(|[first, last]| 0 < first && first < last), "{out}");
        } else {
            assert_eq!((rows.len(), rows[0]["answered"].as_u64()), (1, Some(REQUESTS as u64)), "{out}");
            assert_eq!(rows[0]["is_conserved"], true);
        }
    }
}

/// The inodes of a process' sockets.
fn common_sockets(process: u32) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/fd")) else { return Vec::new() };
    let links = entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let name = |link: std::path::PathBuf| {
        link.to_string_lossy().strip_prefix("socket:[").map(|rest| rest.trim_end_matches(']').to_owned())
    };
    links.filter_map(name).collect()
}
