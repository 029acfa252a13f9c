//! What a load generator does to nginx is seen to the last request; and an observer that is stopped for two seconds
//! says what the kernel dropped, pairs nothing wrongly, and sees everything again afterwards.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Ending, Nginx, load, observe};

/// Set in the process that observes for `an_observer_that_is_stopped…`: the port.
const OBSERVED: &str = "OGIVE_CAPTURE_OBSERVED";

#[test]
fn every_request_of_a_load_generator_is_counted() {
    let nginx = Nginx::start();
    let (port, over, ready) = (nginx.port, AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // ORDERING: Relaxed throughout; flags on their own.
        let observer = scope
            .spawn(|| observe(port, || ready.store(true, Ordering::Relaxed), || over.load(Ordering::Relaxed), |_| {}));
        let ending = Ending(&over);
        common::eventually("the ring is open", || ready.load(Ordering::Relaxed).then_some(()));
        // All of it fits the ring, however late the observer gets to run.
        load(40_000, &[nginx.address("/"), nginx.address("/404"), nginx.address("/503")]);
        drop(ending);
        let (seen, counts, _) = observer.join().expect("it observes");
        println!("{seen:?} {counts:?}");
        assert_eq!((counts.drops, counts.freezes), (0, 0));
        assert_eq!((seen.answered, seen.mispaired, seen.unanswered, seen.discarded), (40_000, 0, 0, 0));
    });
}

/// The observing process: says "ready", how many frames there were when the ring was empty, and what it saw once its
/// input closes.
#[test]
fn child() {
    let Some(port) = std::env::var(OBSERVED).ok().and_then(|port| port.parse().ok()) else { return };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            // ORDERING: Relaxed; a flag on its own.
            over.store(true, Ordering::Relaxed);
        });
        let (seen, counts, _) =
            observe(port, || say("ready"), || over.load(Ordering::Relaxed), |frames| say(&format!("empty {frames}")));
        say(&format!("seen {} {} {}", seen.answered, seen.mispaired, counts.drops));
    });
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n@ {line}").and_then(|()| out.flush()).expect("a parent that listens");
}

struct Observing {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Observing {
    fn start(port: u16) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", "child", "--nocapture"]).env(OBSERVED, port.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("itself");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut observing = Self { child, lines };
        assert_eq!(observing.heard(), "ready");
        observing
    }

    fn heard(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).expect("its output") > 0, "the observing process ended");
            if let Some(said) = line.strip_prefix("@ ") {
                return said.trim_end().to_owned();
            }
        }
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status().expect("kill");
        assert!(status.success());
    }

    /// Waits until the ring is empty after more frames than these.
    fn drained(&mut self, least: u64) {
        let frames = |said: &str| said.strip_prefix("empty ").and_then(|frames| frames.parse().ok()).unwrap_or(0);
        while frames(&self.heard()) <= least {}
    }

    /// Answered, mispaired, dropped.
    fn end(&mut self) -> [u64; 3] {
        drop(self.child.stdin.take());
        let said = loop {
            let said = self.heard();
            if said.starts_with("seen ") {
                break said;
            }
        };
        let numbers = said.split(' ').skip(1).map(|number| number.parse().expect("a number"));
        numbers.collect::<Vec<u64>>().try_into().expect("three numbers")
    }
}

impl Drop for Observing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_observer_that_is_stopped_reports_drops_and_pairs_nothing_wrongly() {
    let nginx = Nginx::start();
    let addresses = ["/long/200", "/long/404", "/long/503"].map(|path| nginx.address(path));
    let mut observing = Observing::start(nginx.port);
    load(3_000, &addresses);
    observing.signal("-STOP");
    let stopped = Instant::now();
    // Twice the ring of 64 MiB.
    load(45_000, &addresses);
    while stopped.elapsed() < Duration::from_secs(2) {
        load(300, &addresses);
    }
    observing.signal("-CONT");
    // The load before the stop made fewer frames than these, and the full ring holds more. What begins now is seen from
    // its first packet: of connections whose beginning was dropped, a pipeline that never runs empty may be read with a
    // shift (docs/wire.md).
    observing.drained(14_000);
    load(3_000, &addresses);
    let [answered, mispaired, drops] = observing.end();
    println!("answered {answered}, mispaired {mispaired}, dropped by the kernel {drops}");
    assert!(drops > 0, "a ring that nobody reads for two seconds of load overflows");
    assert_eq!(mispaired, 0);
    assert!(answered > 3_000, "{answered}: what was seen before the stop, at least");
    assert!(answered < 51_000, "{answered}: what was dropped is not made up");
}
