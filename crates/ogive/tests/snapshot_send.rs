//! A snapshot on its way to another server: through a pipe, over HTTP, while the receiver is killed.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{SOURCE, Server, eventually, float, now_ms};
use serde_json::json;

fn ogive(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
    command.args(args).env_remove("OGIVE_TOKEN");
    command
}

fn run(args: &[&str]) -> Output {
    ogive(args).output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn expect(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{}", text(output));
    text(output)
}

/// A server that runs, with `batches` batches of 50 samples and a snapshot of them.
fn sender(directory: &Path, batches: u64, name: &str) -> Server {
    let server = Server::start(directory);
    send(&server, 0..batches);
    expect(&run(&["snapshot", "create", name, "--server", &format!("http://{}", server.address)]), 0);
    server
}

fn send(server: &Server, numbers: std::ops::Range<u64>) {
    for n in numbers {
        let at = |second: u64| json!({"series": 0, "time_ms": now_ms() as u64 - 600_000 + n * 100 + second, "float": (n * 50 + second)});
        let (status, body) = server.batch(SOURCE, n, json!([float("f")]), (0..50).map(at).collect());
        assert_eq!(status, 200, "{body}");
    }
}

/// What a server on a clone of the snapshot counts.
fn counted(from: &Path, name: &str, clone: &Path) -> Option<f64> {
    let (from, to) = (from.to_str().unwrap(), clone.to_str().unwrap());
    expect(&run(&["snapshot", "clone", name, "--from", from, "--data", to]), 0);
    Server::start(clone).number("sum(count_over_time(f[1d]))")
}

#[test]
fn a_pipe_brings_a_snapshot_and_then_what_changed() {
    let top = tempfile::tempdir().unwrap();
    let (from, to) = (top.path().join("from"), top.path().join("to"));
    let server = sender(&from, 20, "monday");
    send(&server, 20..30);
    expect(&run(&["snapshot", "create", "tuesday", "--server", &format!("http://{}", server.address)]), 0);
    let (from_text, to_text) = (from.to_str().unwrap(), to.to_str().unwrap());
    let stream = |more: &[&str]| {
        let output = run(&[&["snapshot", "send", "tuesday", "--data", from_text], more].concat());
        assert!(output.status.success(), "{}", text(&output));
        output.stdout
    };
    let (whole, increment) = (stream(&[]), stream(&["--since", "monday"]));
    assert!(increment.len() < whole.len(), "{} of {}", increment.len(), whole.len());
    let receive = |bytes: &[u8]| {
        use std::io::Write;
        let mut command = ogive(&["snapshot", "receive", "--data", to_text]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Who refuses does not read to the end.
        let _ = child.stdin.take().unwrap().write_all(bytes);
        child.wait_with_output().unwrap()
    };
    let said = expect(&receive(&increment), 1);
    assert!(said.contains("tuesday is not whole") && said.contains("are lacking"), "{said}");
    let monday = run(&["snapshot", "send", "monday", "--data", from_text]);
    // What ends in the middle is gone on with.
    let said = expect(&receive(&monday.stdout[..monday.stdout.len() - 30]), 1);
    assert!(said.contains("ends here"), "{said}");
    expect(&receive(&monday.stdout), 0);
    assert_eq!(counted(&to, "monday", &top.path().join("m")), Some(1000.0));
    expect(&receive(&increment), 0);
    assert_eq!(counted(&to, "tuesday", &top.path().join("t")), Some(1500.0));
    assert!(expect(&receive(b"no stream of a snapshot at all"), 1).contains("no stream of a snapshot"));
    assert!(expect(&run(&["snapshot", "send", "friday", "--data", from_text]), 1).contains("no snapshot"));
    let in_use = expect(&run(&["snapshot", "receive", "--data", from_text]), 1);
    assert!(in_use.contains("--to URL"), "{in_use}");
}

/// 40 MiB that do not compress, beside the snapshot's own files: more than four requests.
fn make_long(from: &Path, name: &str) {
    let mut state = 1_u64;
    let next = std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    });
    let bytes: Vec<u8> = next.take(40 << 20).collect();
    std::fs::write(from.join("snapshots").join(name).join("0-long"), bytes).unwrap();
}

fn spawn(args: &[&str]) -> Child {
    ogive(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A way to the receiver that lets so many bytes pass; what is behind them waits for more.
fn gate(receiver: String, budget: Arc<AtomicU64>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            // Without a receiver the connection ends at once.
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(&receiver)) else { continue };
            let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut answers, &mut back);
                let _ = back.shutdown(Shutdown::Both);
            });
            let budget = Arc::clone(&budget);
            std::thread::spawn(move || pass(client, server, &budget));
        }
    });
    url
}

fn pass(mut client: TcpStream, mut server: TcpStream, budget: &AtomicU64) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = client.read(&mut bytes) {
        let spend = || {
            let left = |all: u64| all.checked_sub(count as u64);
            budget.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_ok()
        };
        while !spend() {
            std::thread::sleep(Duration::from_millis(5));
        }
        if server.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

/// The receiver is killed in the middle of the transfer, twice, and the sender once: the command goes on, and what
/// arrived is what was sent.
#[test]
fn a_receiver_and_a_sender_that_are_killed_go_on() {
    let top = tempfile::tempdir().unwrap();
    let (from, to) = (top.path().join("from"), top.path().join("to"));
    let _sender = sender(&from, 20, "monday");
    make_long(&from, "monday");
    let mut receiver = Server::start(&to);
    let address = receiver.address.clone();
    // A request and a half: the transfer is in its middle until there is more.
    let budget = Arc::new(AtomicU64::new(12 << 20));
    let url = gate(address.clone(), Arc::clone(&budget));
    let args = ["snapshot", "send", "monday", "--data", from.to_str().unwrap(), "--to", &url];
    let partial: PathBuf = to.join("snapshots/monday/0-long");
    let longer_than = |bytes: u64| {
        let longer = || std::fs::metadata(&partial).ok().filter(|meta| meta.len() > bytes).map(|meta| meta.len());
        eventually("a part of the file is there", longer)
    };
    let mut child = spawn(&args);
    let first = longer_than(0);
    receiver.kill();
    receiver = Server::start_at(&to, &address);
    assert!(std::fs::metadata(&partial).unwrap().len() >= first, "what came is kept");
    budget.store(12 << 20, Ordering::SeqCst);
    longer_than(first);
    child.kill().unwrap();
    child.wait().unwrap();
    let child = spawn(&args);
    receiver.kill();
    let receiver = Server::start_at(&to, &address);
    budget.store(u64::MAX, Ordering::SeqCst);
    let done = child.wait_with_output().unwrap();
    let said = expect(&done, 0);
    assert!(said.contains("monday is there"), "{said}");
    for file in ["0-long", "MANIFEST"] {
        let read = |directory: &Path| std::fs::read(directory.join("snapshots/monday").join(file)).unwrap();
        assert!(read(&from) == read(&to), "{file}");
    }
    let (status, listed) = receiver.get("/v1/snapshots");
    assert_eq!((status, &listed["data"]["snapshots"][0]["name"]), (200, &json!("monday")));
    // Again: nothing is sent.
    let said = expect(&run(&args), 0);
    assert!(said.contains("monday is there: 0B of its") || said.contains("monday is there: 0 B of its"), "{said}");
    assert_eq!(receiver.get("/v1/findings").0, 200);
    drop(receiver);
    assert_eq!(counted(&to, "monday", &top.path().join("clone")), Some(1000.0));
}

#[test]
fn only_an_administrator_sends_and_nonsense_is_refused() {
    let top = tempfile::tempdir().unwrap();
    let (from, to) = (top.path().join("from"), top.path().join("to"));
    let _sender = sender(&from, 3, "monday");
    let token = |allow: &str| {
        let output = run(&["token", "new", "--name", allow, "--allow", allow]);
        let all = String::from_utf8(output.stdout).unwrap();
        let (token, rest) = all.split_once("\n\n").unwrap();
        (token.to_owned(), rest.split_once("tokens:\n").unwrap().1.to_owned())
    };
    let ((admin, one), (write, other)) = (token("admin"), token("write"));
    let web = top.path().join("web.yml");
    std::fs::write(&web, format!("tokens:\n{one}{other}")).unwrap();
    let receiver = Server::try_start(&to, &["--listen", "127.0.0.1:0", "--web-config", web.to_str().unwrap()]).unwrap();
    let url = format!("http://{}", receiver.address);
    let send = |token: Option<&str>| {
        let mut command = ogive(&["snapshot", "send", "monday", "--data", from.to_str().unwrap(), "--to", &url]);
        command.envs(token.map(|token| ("OGIVE_TOKEN", token))).output().unwrap()
    };
    assert!(expect(&send(None), 2).contains("401"));
    assert!(expect(&send(Some(&write)), 2).contains("403"));
    assert!(!to.join("snapshots").exists(), "who may not send leaves nothing");
    let post = |kind: &str, body: &[u8]| {
        let head = format!(
            "POST /v1/snapshots/receive HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {admin}\r\ncontent-type: {kind}"
        );
        receiver.request(&head, body).unwrap().0
    };
    let stream = run(&["snapshot", "send", "monday", "--data", from.to_str().unwrap()]).stdout;
    assert_eq!(post("text/plain", &stream), 415, "a page of another site can send this");
    assert_eq!(post("application/octet-stream", b""), 400);
    assert_eq!(post("application/octet-stream", &stream[..stream.len() - 7]), 400);
    let mut bad = stream.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    assert_eq!(post("application/octet-stream", &bad), 400);
    assert!(expect(&send(Some(&admin)), 0).contains("monday is there"));
}
