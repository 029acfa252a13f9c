//! A node of Cassandra that says nothing: it hangs, or the network drops what is sent to it. Nobody waits for it, and
//! nothing is lost.
//!
//! `OGIVE_SILENCE_SECONDS=60` makes the silence as long as that; without it, it ends when a majority has taken rows.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::faults::{SERIES, assert_same, during, expected, read};
use crate::support::{Three, driven, eventually, fact, node};

/// At least so long, once a majority has taken rows.
fn length() -> Duration {
    let seconds = std::env::var("OGIVE_SILENCE_SECONDS").map(|text| text.parse().expect("it is a number of seconds"));
    Duration::from_secs(seconds.unwrap_or(0))
}

/// Samples come before, while and after node 3 is silent, which `begin` makes it and the end of what it returns ends.
fn silent<S>(begin: impl FnOnce(&Three) -> S, end: impl FnOnce(&Three, S)) {
    let three = Three::up();
    let address = three.keyspace();
    let directory = tempfile::tempdir().unwrap();
    let node = node(&address, directory.path());
    let rows = || fact(&node, "cassandra_rows_total");
    let takes = |more: u64| {
        let before = rows();
        eventually("a majority takes rows of each series", || (rows() >= before + more).then_some(()));
    };
    let mut acknowledged = during(&node, 1, || takes(SERIES as u64));
    driven(&node);
    let silence = begin(&three);
    let begun = Instant::now();
    acknowledged.extend(during(&node, 100_000, || {
        takes(SERIES as u64);
        std::thread::sleep(length().saturating_sub(begun.elapsed()));
    }));
    println!("silent for {:?}", begun.elapsed());
    driven(&node);
    assert_same(&read(&node).expect("a majority answers").0, &expected(&acknowledged));
    end(&three, silence);
    acknowledged.extend(during(&node, 200_000, || takes(SERIES as u64)));
    driven(&node);
    let other = tempfile::tempdir().unwrap();
    let fresh = crate::support::node(&address, other.path());
    assert_same(&read(&fresh).expect("a majority answers").0, &expected(&acknowledged));
    println!("{} batches acknowledged, 0 lost, 0 doubled", acknowledged.len());
}

#[test]
fn a_node_that_hangs_holds_nobody_up() {
    silent(|three| three.run(&["pause", "3"]), |three, ()| three.run(&["resume", "3"]));
}

/// Drops what is sent to an address, without a word to its sender, while it lives.
struct BlackHole(&'static str);

impl BlackHole {
    fn new(address: &'static str) -> Self {
        Self::rule("-I", address);
        Self(address)
    }

    fn rule(verb: &str, address: &str) {
        let done = Command::new("iptables").args([verb, "INPUT", "-d", address, "-j", "DROP"]).output();
        let done = done.expect("the test needs iptables: apt-get install iptables");
        assert!(done.status.success(), "iptables (as root): {}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Drop for BlackHole {
    fn drop(&mut self) {
        Self::rule("-D", self.0);
    }
}

#[test]
fn a_node_behind_a_network_that_drops_everything_holds_nobody_up() {
    silent(|_| BlackHole::new("127.0.0.3"), |_, hole| drop(hole));
}
