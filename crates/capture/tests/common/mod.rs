//! What a live capture is tried with: nginx, load from h2load, and an observer on a ring.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ogive_capture::{Counts, Filter, Frame, Ring, Shape};
use ogive_wire::frame::Link;
use ogive_wire::{Exchange, Finding, Observer, Options, Output, Path, Reason, Summary, Unanswered, file};

/// How long a server may take to start on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// One worker of nginx. Each of its places answers with the status that its path ends with, those below /long with
/// 3,000 bytes.
#[derive(Debug)]
pub(crate) struct Nginx {
    child: Child,
    directory: PathBuf,
    pub(crate) port: u16,
}

impl Nginx {
    pub(crate) fn start() -> Self {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback").local_addr().expect("bound").port();
        let directory = std::env::temp_dir().join(format!("ogive-capture-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a temporary directory");
        let body = "x".repeat(3_000);
        let places: String = [200, 404, 503]
            .iter()
            .map(|status| format!("location /{status} {{ return {status} ok; }} location /long/{status} {{ return {status} {body}; }} "))
            .collect();
        let text = format!(
            "daemon off; master_process off; pid {0}/pid; error_log {0}/error; events {{}} http {{ access_log off; \
             keepalive_requests 100000000; server {{ listen 127.0.0.1:{port}; {places} location / {{ return 200 ok; }} \
             }} }}",
            directory.display()
        );
        std::fs::write(directory.join("nginx.conf"), text).expect("its configuration");
        let mut command = Command::new("nginx");
        command.arg("-p").arg(&directory).arg("-c").arg(directory.join("nginx.conf"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.unwrap_or_else(|error| panic!("nginx: {error}: run scripts/need nginx"));
        eventually("nginx listens", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok());
        Self { child, directory, port }
    }

    pub(crate) fn address(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// What was seen of HTTP whose paths name their status.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct HttpCounts {
    pub(crate) answered: u64,
    /// Those whose status is not that of their path.
    pub(crate) mispaired: u64,
    pub(crate) unanswered: u64,
    pub(crate) discarded: u64,
}

impl Output for HttpCounts {
    fn answered(&mut self, _path: &Path, exchange: &Exchange) {
        self.answered += 1;
        let is_right = exchange.op == "GET /" || exchange.op.rsplit('/').next() == Some(&exchange.status);
        self.mispaired += u64::from(!is_right);
    }

    fn unanswered(&mut self, _path: &Path, _exchange: &Exchange, _why: Unanswered) {
        self.unanswered += 1;
    }

    fn discarded(&mut self, _path: &Path, _exchange: &Exchange, _reason: Reason) {
        self.discarded += 1;
    }

    fn connected(&mut self, _path: &Path, _took: i64, _at: i64) {}

    fn finding(&mut self, _finding: &Finding) {}

    fn closed(&mut self, _summary: &Summary) {}
}

/// What a reader of packets is given.
pub(crate) enum Event<'a> {
    Frame(file::Frame<'a>),
    /// Nothing came until now.
    Tick(i64),
}

/// Reads loopback's packets of a port until `is_over`, and then what waits; `ready` is called once packets are taken.
pub(crate) fn read_ring(
    port: u16,
    shape: Shape,
    ready: impl FnOnce(),
    is_over: impl Fn() -> bool,
    mut visit: impl FnMut(Event<'_>),
) -> Counts {
    let filter = Filter::from_ports(&[port]).expect("one port");
    let mut ring = Ring::with_shape("lo", Some(&filter), None, shape).unwrap_or_else(|error| panic!("{error}"));
    ready();
    let mut last = 0;
    loop {
        let was_over = is_over();
        if ring.wait(50).expect("loopback stays") {
            ring.read_block(|raw: Frame<'_>| {
                last = raw.at;
                let (link, length) = (Link::Ethernet, raw.length);
                visit(Event::Frame(file::Frame { at: raw.at, link, bytes: raw.bytes, length }));
            });
        } else if was_over {
            break;
        } else {
            last += 50_000_000;
            visit(Event::Tick(last));
        }
    }
    ring.counts()
}

/// The observer over a ring of the usual shape. `quiet` is called with the frames so far whenever the ring was empty
/// for a while.
#[allow(dead_code, reason = "the bench has its own")]
pub(crate) fn observe(
    port: u16,
    ready: impl FnOnce(),
    is_over: impl Fn() -> bool,
    mut quiet: impl FnMut(u64),
) -> (HttpCounts, Counts, u64) {
    let (mut observer, mut seen) = (Observer::new(Options::default()), HttpCounts::default());
    let counts = read_ring(port, Shape::default(), ready, is_over, |event| match event {
        Event::Frame(frame) => observer.frame(&frame, &mut seen),
        Event::Tick(at) => {
            observer.tick(at, &mut seen);
            quiet(observer.totals().frames);
        }
    });
    observer.finish(&mut seen);
    (seen, counts, observer.totals().frames)
}

/// Ends an observation when it goes, also by a failed test: its thread would be waited for in vain.
pub(crate) struct Ending<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        // ORDERING: Relaxed; a flag on its own.
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends so many requests over HTTP/1 with h2load, four in flight on each of 16 connections; all are answered.
#[allow(dead_code, reason = "the bench has another load")]
pub(crate) fn load(requests: u64, addresses: &[String]) {
    let mut command = Command::new("h2load");
    command.args(["--h1", "-c", "16", "-m", "4", "-n", &requests.to_string()]).args(addresses);
    let output = command.output().expect("run scripts/need h2load");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(&format!("{requests} done")) && text.contains(" 0 errored, 0 timeout"), "{text}");
}
