//! Connections through a broker: a real server and a real broker, programs behind it, and everybody who may not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::common::brokers::{broker, texts};
use crate::common::programs::{Program, free_port, listens};
use crate::common::{PATIENCE, Server, eventually, new_token};
use crate::fleet::{Site, said};

/// 10 MiB each way.
const BYTES: usize = 10 << 20;

fn bytes() -> Vec<u8> {
    (0..BYTES).map(|at| (at.wrapping_mul(31) + at / 4_099) as u8).collect()
}

/// `ogive fleet connect`, killed when dropped.
struct Tunnel {
    child: Child,
    address: String,
    said: Arc<Mutex<String>>,
}

impl Tunnel {
    fn open(server: &str, token: Option<&str>, broker: &str, target: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
        command.args(["fleet", "connect", broker, target, "--server", server]);
        if let Some(token) = token {
            command.env("OGIVE_TOKEN", token);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let (errors, all) = (BufReader::new(child.stderr.take().unwrap()), said.clone());
        std::thread::spawn(move || {
            errors.lines().map_while(Result::ok).for_each(|line| *all.lock().unwrap() += &(line + "\n"));
        });
        let address = line.strip_prefix("listening at ").and_then(|rest| rest.split_once(": "));
        let address = address.unwrap_or_else(|| panic!("{line:?} {}", said.lock().unwrap())).0.to_owned();
        Self { child, address, said }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A connection that is closed without a byte, and what is said of it.
    fn refused(&self) -> String {
        let before = self.said.lock().unwrap().len();
        let mut stream = self.connect();
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
        eventually("the refusal is said", || {
            Some(self.said.lock().unwrap()[before..].to_owned()).filter(|said| said.ends_with('\n'))
        })
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn url(site: &Site) -> String {
    format!("http://{}", site.address)
}

/// A program that takes everything up to the end and then answers with it.
fn echo() -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(&all).unwrap();
    });
    (address, serving)
}

fn audit(server: &Server, words: &[&str]) -> String {
    eventually(&format!("{words:?} is in the audit"), || {
        let all = texts(server, "ogive_audit{action=\"fleet_connect\"}");
        all.into_iter().find(|text| words.iter().all(|word| text.contains(word)))
    })
}

/// One command of Redis, and as many bytes of its answer as are expected.
fn redis(stream: &mut TcpStream, words: &[&[u8]], expected: &[u8]) {
    let mut command = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        command.extend(format!("${}\r\n", word.len()).bytes());
        command.extend_from_slice(word);
        command.extend(b"\r\n");
    }
    stream.write_all(&command).unwrap();
    let mut found = vec![0; expected.len()];
    stream.read_exact(&mut found).unwrap();
    assert!(found == expected, "{:?}", String::from_utf8_lossy(&found[..found.len().min(100)]));
}

#[test]
fn a_program_behind_a_broker_is_reached() {
    let site = Site::new();
    let port = free_port();
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    let _redis = Program::start(command);
    listens(port);
    let (target, echoing) = echo();
    let _edge = site.broker("edge-1", &format!("connect = [\"localhost:{port}\", {target:?}]"));
    site.comes("edge-1");
    // A real protocol, by a name that the broker resolves: two connections at once.
    let tunnel = Tunnel::open(&url(&site), None, "edge-1", &format!("localhost:{port}"));
    let (all, mut one, mut two) = (bytes(), tunnel.connect(), tunnel.connect());
    redis(&mut one, &[b"PING"], b"+PONG\r\n");
    redis(&mut two, &[b"SET", b"key", &all], b"+OK\r\n");
    let answer = [format!("${BYTES}\r\n").as_bytes(), &all, b"\r\n"].concat();
    redis(&mut one, &[b"GET", b"key"], &answer);
    eventually("both are counted", || {
        site.server().number("ogive_fleet_connections{broker=\"\"}").filter(|count| *count == 2.0)
    });
    drop((one, two));
    let entry = audit(
        site.server(),
        &[
            "closed by both ends",
            &format!("localhost:{port}"),
            &format!("{} bytes from it", "+PONG\r\n".len() + answer.len()),
        ],
    );
    assert!(entry.starts_with("somebody without a login from 127.0.0.1\nbroker \"edge-1\", target "), "{entry}");
    // The end of one direction arrives and leaves the other open.
    let tunnel = Tunnel::open(&url(&site), None, "edge-1", &target);
    let mut stream = tunnel.connect();
    let (mut sender, sent) = (stream.try_clone().unwrap(), all.clone());
    let sending = std::thread::spawn(move || {
        sender.write_all(&sent).unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
    });
    let mut found = Vec::new();
    stream.read_to_end(&mut found).unwrap();
    sending.join().unwrap();
    echoing.join().unwrap();
    assert!(found == all, "{} bytes came back", found.len());
    audit(
        site.server(),
        &[&target, "closed by both ends", &format!("{BYTES} bytes to the target, {BYTES} bytes from it")],
    );
    assert_eq!(*tunnel.said.lock().unwrap(), "");
}

#[test]
fn what_is_not_permitted_or_not_there_is_refused_with_its_reason() {
    let site = Site::new();
    let closed = format!("127.0.0.1:{}", free_port());
    let (target, _) = echo();
    let mut edge = site.broker("edge-1", &format!("connect = [{closed:?}]"));
    site.comes("edge-1");
    let tunnel = |target: &str| Tunnel::open(&url(&site), None, "edge-1", target);
    let said = tunnel(&target).refused();
    for word in ["(403)", "edge-1", &target, "connect of [fleet]", "broker.toml"] {
        assert!(said.contains(word), "{word} is not in {said}");
    }
    audit(site.server(), &[&target, "refused, not_allowed: "]);
    let (_, metrics) = edge.get("/metrics");
    let refused = "\nogive_fleet_connections_refused_total{reason=\"not_allowed\"} 1";
    assert!(metrics.as_str().unwrap().contains(refused), "{metrics}");
    // The name of a permitted address is not permitted.
    let name = closed.replace("127.0.0.1", "localhost");
    assert!(tunnel(&name).refused().contains("permits no connection"));
    assert!(tunnel(&closed).refused().contains("refuses"));
    eventually("refusals are counted", || {
        let count = |reason: &str| {
            site.server().number(&format!("ogive_fleet_connections_refused_total{{reason={reason:?},broker=\"\"}}"))
        };
        (count("not_allowed")? >= 2.0 && count("refused")? >= 1.0).then_some(())
    });
    // Mistakes of whoever asks.
    for (arguments, word) in [
        (["edge-9", "a:1", "127.0.0.1:0"], "there is no broker"),
        (["edge-1", "a", "127.0.0.1:0"], "HOST:PORT"),
        (["edge-1", "a:1", "0.0.0.0:0"], "others can reach"),
    ] {
        let output = site.fleet(&["connect", arguments[0], arguments[1], "--listen", arguments[2]]);
        assert!(
            !output.status.success() && crate::fleet::said(&output).contains(word),
            "{}",
            crate::fleet::said(&output)
        );
    }
    // It was revoked: it is not asked, and what it answers is not taken.
    assert!(site.fleet(&["revoke", "edge-1"]).status.success());
    assert!(tunnel(&closed).refused().contains("was revoked"));
    edge.kill();
    let wrong = site.configure("edge-2", "connect = [\"10.0.0.1/8:22\"]");
    let started = Server::try_command(wrong.parent().unwrap(), &["broker", "-c", wrong.to_str().unwrap()]);
    let said = started.err().unwrap();
    assert!(said.contains("bits behind its prefix"), "{said}");
}

/// A program that answers each byte until its client is gone.
fn steps() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut byte = [0];
                while stream.read_exact(&mut byte).and_then(|()| stream.write_all(&byte)).is_ok() {}
            });
        }
    });
    address
}

fn step(stream: &mut TcpStream) {
    stream.write_all(b"x").unwrap();
    stream.read_exact(&mut [0]).unwrap();
}

/// A connection to [`steps`], once the broker is there.
fn connected(tunnel: &Tunnel) -> TcpStream {
    eventually("the broker takes connections", || {
        let mut stream = tunnel.connect();
        let is_there = stream.write_all(b"x").and_then(|()| stream.read_exact(&mut [0])).is_ok();
        is_there.then_some(stream)
    })
}

/// Waits for the end of a connection, in whatever way.
fn ends(stream: &mut TcpStream) {
    assert!(!matches!(stream.read(&mut [0]), Ok(1..)));
}

#[test]
fn a_connection_ends_with_the_broker_and_with_its_enrolment() {
    let site = Site::new();
    let target = steps();
    let mut edge = site.broker("edge-1", &format!("connect = [{target:?}]"));
    site.comes("edge-1");
    let tunnel = Tunnel::open(&url(&site), None, "edge-1", &target);
    let mut stream = tunnel.connect();
    step(&mut stream);
    edge.kill();
    ends(&mut stream);
    audit(site.server(), &["broken: from the broker", "1 bytes to the target"]);
    eventually("it is said", || tunnel.said.lock().unwrap().contains("broken").then_some(()));
    // The broker is back, and so are connections.
    let _edge = broker(&site.path("edge-1/broker.toml"));
    let mut stream = connected(&tunnel);
    step(&mut stream);
    let revoked = site.fleet(&["revoke", "edge-1"]);
    assert!(revoked.status.success(), "{}", said(&revoked));
    ends(&mut stream);
    audit(site.server(), &["closed: the broker was revoked or replaced"]);
}

#[test]
fn who_has_no_admin_right_connects_nowhere_and_who_loses_it_is_cut_off() {
    let site = Site::new();
    let target = steps();
    // A server with logins beside the site's; the site's own is not used.
    let directory = site.path("guarded");
    std::fs::create_dir(&directory).unwrap();
    let (admin, root) = new_token(&["--name", "root", "--allow", "read,write,admin"]);
    let (other, amy) = new_token(&["--name", "amy", "--allow", "read,write,admin"]);
    let (reader, bob) = new_token(&["--name", "bob", "--allow", "read,write"]);
    let web = directory.join("web.yml");
    std::fs::write(&web, format!("tokens:\n{root}{amy}{bob}")).unwrap();
    let arguments = ["--listen", "127.0.0.1:0", "--web-config", web.to_str().unwrap()];
    let server = Server::try_start(&directory.join("data"), &arguments).unwrap_or_else(|said| panic!("{said}"));
    let at = format!("http://{}", server.address);
    let ogive = |token: &str, arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_ogive")).args(arguments).env("OGIVE_TOKEN", token).output().unwrap()
    };
    let made = ogive(&admin, &["fleet", "ticket", "--group", "edge", "--server", &at]);
    assert!(made.status.success(), "{}", said(&made));
    let ticket = String::from_utf8(made.stdout).unwrap();
    let config = site.configure("edge-1", &format!("connect = [{target:?}]"));
    let enroled = ogive("", &["broker", "enroll", &at, ticket.trim(), "-c", config.to_str().unwrap()]);
    assert!(enroled.status.success(), "{}", said(&enroled));
    let _edge = broker(&config);
    let tunnel = Tunnel::open(&at, Some(&other), "edge-1", &target);
    let mut stream = connected(&tunnel);
    // Without the right there is not even a listener, and the server refuses the request itself.
    let refused = ogive(&reader, &["fleet", "connect", "edge-1", &target, "--server", &at]);
    assert!(!refused.status.success() && said(&refused).contains("needs admin"), "{}", said(&refused));
    let head = format!(
        "POST /v1/fleet/brokers/edge-1/connect?target={target} HTTP/1.1\r\nauthorization: Bearer {reader}\r\n\
         upgrade: ogive-stream"
    );
    let (status, body) = server.request(&head, b"").unwrap();
    assert_eq!(status, 403, "{body}");
    let watch = format!("GET /v1/fleet/brokers/edge-1/live?query=up HTTP/1.1\r\nauthorization: Bearer {reader}");
    assert_eq!(server.request(&watch, b"").unwrap().0, 403);
    let without = head.replace(&reader, &admin).replace("\r\nupgrade: ogive-stream", "");
    assert_eq!(server.request(&without, b"").unwrap().0, 426);
    // Nobody answers for a broker without its token, or a request that there is none of.
    for login in ["ogb_0", &admin] {
        let head = format!(
            "POST /v1/fleet/stream?id=1 HTTP/1.1\r\nauthorization: Bearer {login}\r\ncontent-type: application/json"
        );
        assert_eq!(server.request(&head, br#"{"reason":"a","text":"b"}"#).unwrap().0, 401);
    }
    step(&mut stream);
    // Her token is removed: the connection ends.
    let next = directory.join("web.yml.new");
    std::fs::write(&next, format!("tokens:\n{root}{bob}")).unwrap();
    std::fs::rename(&next, &web).unwrap();
    ends(&mut stream);
    let path = format!("/v1/cells?match[]={}", crate::common::form("ogive_audit{action=\"fleet_connect\"}"));
    let head = format!("GET {path} HTTP/1.1\r\nauthorization: Bearer {admin}");
    eventually("the end is in the audit", || {
        let (_, body) = server.request(&head, b"").unwrap();
        body.contains("whoever asked may not any more").then_some(())
    });
}
