//! A real `ogive serve` in a directory of its own, and a client that can also be rude.
#![allow(dead_code, unreachable_pub)]

pub mod alertmanager;
pub mod authority;
pub mod brokers;
pub mod clients;
pub mod namespace;
pub mod programs;
pub mod prometheus;
pub mod remote;
pub mod terminal;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub const SOURCE: &str = "123e4567-e89b-12d3-a456-426614174000";
pub const JSON: &str = "application/json";
pub const FRAME: &str = "application/x-ogive-batch-flatbuffer";

/// A second that ended lately, in milliseconds: what a sender would send now.
pub fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_secs() as i64 * 1000
}

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    pub address: String,
    pub directory: PathBuf,
    /// What it said on standard error before it served.
    pub said: String,
}

impl Server {
    pub fn start(directory: &Path) -> Self {
        Self::try_start(directory, &["--listen", "127.0.0.1:0"]).unwrap_or_else(|said| panic!("no start: {said}"))
    }

    /// As [`Server::start`], where another served before: its clients find it again.
    pub fn start_at(directory: &Path, address: &str) -> Self {
        Self::try_start(directory, &["--listen", address]).unwrap_or_else(|said| panic!("no start: {said}"))
    }

    /// As [`Server::try_start`], with the same data in all these directories.
    pub fn start_on(directories: &[&Path], more: &[&str]) -> Result<Self, String> {
        let mut args = vec!["--listen", "127.0.0.1:0"];
        for directory in &directories[1..] {
            args.extend(["--data", directory.to_str().unwrap()]);
        }
        args.extend(more);
        Self::try_start(directories[0], &args)
    }

    /// What the server said instead when it does not start.
    pub fn try_start(directory: &Path, more: &[&str]) -> Result<Self, String> {
        let data = directory.to_str().unwrap();
        Self::try_command(directory, &[&["serve", "--data", data], more].concat())
    }

    /// As [`Server::try_start`], for so much data that the start may take up to `patience`.
    pub fn try_start_within(directory: &Path, more: &[&str], patience: Duration) -> Result<Self, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
        command.args(["serve", "--data", directory.to_str().unwrap()]).args(more);
        Self::within(directory, command, patience).map(|(server, _)| server)
    }

    /// `ogive` with these arguments; what it said instead when it does not serve.
    pub fn try_command(directory: &Path, arguments: &[&str]) -> Result<Self, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
        command.args(arguments);
        Self::from_command(directory, command).map(|(server, _)| server)
    }

    /// What `command` starts, and the lines that it says once it serves; what it said instead when it does not serve.
    pub fn from_command(directory: &Path, command: Command) -> Result<(Self, Receiver<String>), String> {
        Self::within(directory, command, PATIENCE)
    }

    fn within(directory: &Path, mut command: Command, patience: Duration) -> Result<(Self, Receiver<String>), String> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let lines = programs::lines_of(child.stderr.take().unwrap());
        let mut server = Self { child, address: String::new(), directory: directory.to_owned(), said: String::new() };
        let until = Instant::now() + patience;
        loop {
            let line = match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("{}(it does not serve within {patience:?})", server.said));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let code = server.wait().code();
                    return Err(format!("{}(exit code {code:?})", server.said));
                }
            };
            server.said += &line;
            server.said.push('\n');
            if let Some((_, rest)) = line.split_once("serving http") {
                let rest = rest.trim_start_matches('s').trim_start_matches("://");
                server.address = rest.split('/').next().unwrap().to_owned();
                return Ok((server, lines));
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal, by its name without SIG.
    pub fn signal(&self, name: &str) {
        programs::signal(self.pid(), name);
    }

    /// How it ended, once it has.
    pub fn wait(&mut self) -> ExitStatus {
        let status = programs::ended(&mut self.child);
        status.unwrap_or_else(|| panic!("{} did not end within {PATIENCE:?}", self.directory.display()))
    }

    /// SIGTERM, and the exit code.
    pub fn terminate(&mut self) -> Option<i32> {
        self.signal("TERM");
        self.wait().code()
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// One request on a connection of its own.
    pub fn request(&self, head: &str, body: &[u8]) -> std::io::Result<(u16, String)> {
        request_at(&self.address, head, body)
    }

    pub fn get(&self, path: &str) -> (u16, Value) {
        let (status, body) = self.request(&format!("GET {path} HTTP/1.1"), b"").unwrap();
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    pub fn post(&self, kind: &str, body: &[u8]) -> (u16, Value) {
        let head = format!("POST /v1/batch HTTP/1.1\r\ncontent-type: {kind}");
        let (status, body) = self.request(&head, body).unwrap();
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    pub fn batch(&self, source: &str, sequence: u64, series: Value, samples: Value) -> (u16, Value) {
        let body = json!({"source": source, "sequence": sequence, "series": series, "samples": samples});
        self.post(JSON, body.to_string().as_bytes())
    }

    /// The one number that `expr` gives, if it gives one.
    pub fn number(&self, expr: &str) -> Option<f64> {
        let expr: String = form(expr);
        let (status, body) = self.get(&format!("/api/v1/query?query={expr}"));
        assert_eq!(status, 200, "{body}");
        body["data"]["result"][0]["value"][1].as_str().map(|text| text.parse().unwrap())
    }

    /// Waits until `expr` is `value`.
    pub fn becomes(&self, expr: &str, value: f64) {
        eventually(&format!("{expr} is {value}"), || (self.number(expr) == Some(value)).then_some(()));
    }

    /// Waits until `expr` is `value`; more is a failure at once.
    pub fn grows_to(&self, expr: &str, value: f64) {
        eventually(&format!("{expr} grows to {value}"), || {
            let found = self.number(expr);
            assert!(found.unwrap_or(0.0) <= value, "{expr} is {found:?}, more than {value}");
            (found == Some(value)).then_some(())
        });
    }

    /// The address that it said it takes the lines of `protocol` at, by this transport.
    pub fn line_address(&self, protocol: &str, transport: &str) -> String {
        let line = self.said.lines().find(|line| line.contains(&format!("taking {protocol} at "))).expect("it is said");
        let named = line.split(' ').find_map(|word| word.strip_prefix(&format!("{transport}:")));
        named.unwrap_or_else(|| panic!("{line:?} has no {transport}")).to_owned()
    }

    /// Memory that the server holds now, KiB.
    pub fn memory_kib(&self) -> u64 {
        self.status_kib("VmRSS")
    }

    /// Most memory that the server ever held, KiB.
    pub fn memory_peak_kib(&self) -> u64 {
        self.status_kib("VmHWM")
    }

    fn status_kib(&self, name: &str) -> u64 {
        self.status_word(name).parse().unwrap()
    }

    /// The first word of a line of what Linux says of the process.
    pub fn status_word(&self, name: &str) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sets a flag when dropped: what other threads do until it is set ends when an assertion fails, too.
pub struct StopAtEnd<'a>(pub &'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Percent-encodes what a query string may not hold.
pub fn form(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' => (byte as char).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// One request to whoever listens at `address`, on a connection of its own.
pub fn request_at(address: &str, head: &str, body: &[u8]) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = format!("{head}\r\nhost: localhost\r\nconnection: close\r\n");
    stream.write_all(format!("{head}content-length: {}\r\n\r\n", body.len()).as_bytes())?;
    // A server that answers before it has read everything may close under the rest of the body.
    let sent = stream.write_all(body);
    read_answer(&mut stream).map_err(|error| sent.err().unwrap_or(error))
}

/// Status and body of an answer whose connection closes after it.
pub fn read_answer(stream: &mut TcpStream) -> std::io::Result<(u16, String)> {
    let mut bytes = Vec::new();
    // Who closes with unread bytes of ours resets the connection; what it said before still counts.
    if let Err(error) = stream.read_to_end(&mut bytes)
        && bytes.is_empty()
    {
        return Err(error);
    }
    answer_of(&bytes)
}

/// Status and body of an answer.
pub fn answer_of(bytes: &[u8]) -> std::io::Result<(u16, String)> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let broken = || std::io::Error::other(format!("no answer: {text:?}"));
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(broken)?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(broken)?;
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Ok((status, if chunked { unchunk(body) } else { body.to_owned() }))
}

fn unchunk(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size, 16) else { break };
        out.push_str(rest.get(..size).unwrap_or(rest));
        body = rest.get(size + 2..).unwrap_or("");
    }
    out
}

/// Two minutes: what takes milliseconds on an idle machine may take many seconds on one that builds beside its tests.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `done` gives something.
pub fn eventually<T>(what: &str, done: impl FnMut() -> Option<T>) -> T {
    eventually_or(what, String::new, done)
}

/// Waits until `done` gives something; if it never does, says what `state` is then.
pub fn eventually_or<T>(what: &str, state: impl Fn() -> String, mut done: impl FnMut() -> Option<T>) -> T {
    let from = Instant::now();
    loop {
        if let Some(value) = done() {
            return value;
        }
        assert!(from.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what} {}", state());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A new token of the command line, and its entry.
pub fn new_token(args: &[&str]) -> (String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_ogive")).args(["token", "new"]).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let (token, rest) = text.split_once("\n\n").unwrap();
    let (_, entry) = rest.split_once("tokens:\n").unwrap();
    assert!(!entry.contains(token), "the secret is not in what is kept");
    (token.to_owned(), entry.to_owned())
}

/// The pieces in one gzip stream.
pub fn gzip(pieces: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    pieces.for_each(|piece| encoder.write_all(&piece).unwrap());
    encoder.finish().unwrap()
}

/// A histogram series' declaration.
pub fn histogram(name: &str) -> Value {
    json!({"labels": {"__name__": name}, "kind": "histogram", "temporality": "delta", "unit": "s", "width_ms": 1000})
}

/// A float series' declaration.
pub fn float(name: &str) -> Value {
    json!({"labels": {"__name__": name}, "kind": "float"})
}
