//! The commands: `ogive cluster init|check|audit`, and two processes of `ogive serve` over one cluster, which are
//! killed.
//!
//! `OGIVE_BIN` names the binary, built with the feature `cassandra`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::support::{Three, eventually};

fn binary() -> std::ffi::OsString {
    std::env::var_os("OGIVE_BIN").expect("OGIVE_BIN names an ogive built with --features cassandra")
}

/// Runs a command to its end: exit code and everything it printed.
pub(crate) fn ogive(arguments: &[&str]) -> (i32, String) {
    let done = Command::new(binary()).args(arguments).output().expect("OGIVE_BIN runs");
    let printed = [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (done.status.code().expect("no signal ends it"), printed)
}

pub(crate) struct Server {
    child: Child,
    /// What it says after it serves.
    said: Option<JoinHandle<Vec<String>>>,
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(store: &str, directory: &Path) -> Self {
        let directory = directory.to_str().expect("the path is UTF-8");
        Self::run(&["serve", "--listen", "127.0.0.1:0", "--no-crash-reports", "--store", store, "--data", directory])
    }

    /// `ogive` in a role that says where it serves.
    pub(crate) fn run(arguments: &[&str]) -> Self {
        let mut child = Command::new(binary()).args(arguments).stderr(Stdio::piped()).spawn().expect("OGIVE_BIN runs");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let serving = lines.find_map(|line| {
            let line = line.expect("it is text");
            line.split_once("serving http://").map(|(_, rest)| rest.split('/').next().unwrap_or("").to_owned())
        });
        // What it says later must not fill the pipe.
        let said = Some(std::thread::spawn(move || lines.map_while(Result::ok).collect()));
        Self { child, said, address: serving.expect("it says where it serves") }
    }
}

/// Status and body; an error while nobody answers.
pub(crate) fn exchange(address: &str, head: &str, body: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    let length = body.len();
    write!(
        stream,
        "{head} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}",
        address
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Ok((status, answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned()))
}

/// Whether the batch was acknowledged.
pub(crate) fn send(address: &str, source: u32, sequence: u64) -> bool {
    let body = format!(
        r#"{{"source":"00000000-0000-0000-0000-{source:012}","sequence":{sequence},
        "series":[{{"labels":{{"__name__":"jobs","source":"{source}"}},"kind":"float","temporality":"delta","width_ms":1000}}],
        "samples":[{{"series":0,"time_ms":{},"float":1}}]}}"#,
        1_700_000_000_000_u64 + sequence % 60 * 1_000
    );
    matches!(exchange(address, "POST /v1/batch", &body), Ok((200, _)))
}

/// The sum of everything of a source, as the answer has it.
pub(crate) fn sum(address: &str, source: u32) -> Option<String> {
    let query = format!("sum(sum_over_time(jobs%7Bsource=%22{source}%22%7D%5B1h%5D))");
    let path = format!("GET /api/v1/query?time=1700000060&query={query}");
    let (status, body) = exchange(address, &path, "").ok()?;
    let value = body.split("\"value\":[").nth(1)?.split('"').nth(1)?.to_owned();
    (status == 200).then_some(value)
}

impl Server {
    /// SIGTERM, and what it says until its end.
    fn terminate(mut self) -> Vec<String> {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
        let ended = self.child.wait().expect("it is a child");
        assert!(ended.success(), "{ended}");
        self.said.take().expect("it ends once").join().expect("its words are text")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends numbers from 1 on until the flag is set, each until it is acknowledged; the last one.
pub(crate) fn load(address: &Mutex<String>, source: u32, end: &AtomicBool) -> u64 {
    let mut sequence = 0;
    // ORDERING: Relaxed; a flag alone.
    while !end.load(Ordering::Relaxed) {
        sequence += 1;
        eventually("a batch is acknowledged", || {
            let address = address.lock().unwrap().clone();
            send(&address, source, sequence).then_some(())
        });
    }
    sequence
}

/// Tables are missing, made, there; one node of three is dead.
#[test]
fn the_commands_make_and_check_the_tables() {
    let three = Three::up();
    let name = format!("t{:x}", ogive_export::random_source().0 as u64);
    let store = format!("cassandra://127.0.0.1,127.0.0.2,127.0.0.3/{name}");
    let (code, printed) = ogive(&["cluster", "check", "--store", &store]);
    assert!(code != 0 && printed.contains("ogive cluster init --store"), "{code}: {printed}");
    // A node that is busy may not answer in time.
    let says = |command: &str, expected: i32, part: &str| {
        eventually(&format!("{command} says {part:?}"), || {
            let (code, printed) = ogive(&["cluster", command, "--store", &store]);
            println!("{code}: {printed}");
            (code == expected && printed.contains(part)).then_some(())
        });
    };
    for _ in 0..2 {
        says("init", 0, "3 of 3 nodes answer");
    }
    three.run(&["kill", "3"]);
    says("check", 1, "2 of 3 nodes answer");
    three.run(&["start", "3"]);
    let (code, printed) = ogive(&["cluster", "check", "--store", "cassandra://127.0.0.1:1/none"]);
    assert!(code != 0 && printed.contains("127.0.0.1:1"), "{code}: {printed}");
}

/// A node of ours is killed three times while both take batches, a third one is added, and one is taken away with its
/// disk: each answers with everything, once, and the audit agrees.
#[test]
fn an_ogive_node_killed_under_load_loses_and_doubles_nothing() {
    let three = Three::up();
    let keyspace = three.keyspace().keyspace;
    let store = format!("cassandra://127.0.0.1,127.0.0.2,127.0.0.3/{keyspace}?collect=1s");
    let directory = tempfile::tempdir().unwrap();
    let (a, b) = (directory.path().join("a"), directory.path().join("b"));
    let (first, second) = (Server::start(&store, &a), Server::start(&store, &b));
    let addresses = [&first, &second].map(|one| Mutex::new(one.address.clone()));
    let (end, mut first, mut second, mut third) = (AtomicBool::new(false), Some(first), Some(second), None);
    let sent = std::thread::scope(|scope| {
        let loads = [scope.spawn(|| load(&addresses[0], 1, &end)), scope.spawn(|| load(&addresses[1], 2, &end))];
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(1_500));
            // SIGKILL, in the middle of a request, and a start on the same directory.
            drop(first.take());
            let again = Server::start(&store, &a);
            addresses[0].lock().unwrap().clone_from(&again.address);
            first = Some(again);
        }
        let added = Server::start(&store, &directory.path().join("c"));
        addresses[1].lock().unwrap().clone_from(&added.address);
        third = Some(added);
        // What it acknowledged is in the cluster when it has ended, so nobody needs its spool.
        let said = second.take().expect("it was not taken away before").terminate();
        assert!(said.iter().any(|line| line.contains("may be removed")), "{said:?}");
        std::fs::remove_dir_all(&b).unwrap();
        std::thread::sleep(Duration::from_secs(1));
        // ORDERING: Relaxed; see `load`.
        end.store(true, Ordering::Relaxed);
        loads.map(|load| load.join().unwrap())
    });
    let (first, third) = (first.expect("it was started again"), third.expect("it was added"));
    for server in [&first, &third] {
        for (source, sent) in [(1, sent[0]), (2, sent[1])] {
            eventually("each node answers with everything, once", || {
                let found = sum(&server.address, source);
                assert!(
                    found.as_ref().is_none_or(|sum| sum.parse::<f64>().unwrap() <= sent as f64),
                    "doubled: {found:?}"
                );
                (found == Some(sent.to_string())).then_some(())
            });
        }
    }
    let audit = || ogive(&["cluster", "audit", "--store", &store, "--since", "10m"]);
    let report = eventually("every copy has every row", || {
        let (code, printed) = audit();
        assert!(printed.contains("0 rows lost"), "{printed}");
        (code == 0).then_some(printed)
    });
    println!("{report}");
    println!("killed 3 times, one taken away: {} and {} batches acknowledged, 0 lost, 0 doubled", sent[0], sent[1]);
}
