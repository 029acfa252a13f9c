//! A clock that its host calibrates: no thread, the counter's line while the host turns, the system's clock when it
//! does not, and a thread again when the host has given it up. Alone in its process, because there is one global clock.

#![cfg(target_os = "linux")]

use ogive_probe::{Clock, Mode, OsReason};
use std::time::{Duration, Instant};

fn threads_named(wanted: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux shows the threads");
    let names = tasks.flatten().map(|task| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default());
    names.filter(|name| name.trim() == wanted).count()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed().as_secs() < 120, "{what} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Reads through the whole story and checks that no reading falls.
struct Reader {
    clock: Clock,
    last: u64,
}

impl Reader {
    fn read(&mut self) {
        let now = self.clock.now();
        assert!(now >= self.last, "{now} after {}", self.last);
        self.last = now;
    }
}

#[test]
fn a_host_calibrates_stops_and_gives_up() {
    let mut maintainer = Clock::maintain().expect("nobody has read the clock");
    assert!(Clock::maintain().is_none(), "one at a time");
    let clock = Clock::global();
    let mut reader = Reader { clock, last: 0 };
    if !clock.status().source.is_counter() {
        assert!(maintainer.turn().is_some(), "without a counter there is nothing to do, and no harm");
        return;
    }
    until("the counter", || {
        reader.read();
        let wait = maintainer.turn().expect("this is no child");
        assert!(wait >= Duration::from_millis(1) && wait <= Duration::from_millis(100));
        clock.status().mode == Mode::Counter
    });
    assert_eq!(threads_named("ogive-clock"), 0, "the host asked for no thread");
    let published = clock.status().published;
    (0..200).for_each(|_| {
        maintainer.turn();
        reader.read();
    });
    assert!(clock.status().published >= published + 100, "each turn publishes");

    until("the end of the segment", || {
        reader.read();
        clock.status().os_reason == Some(OsReason::Starved)
    });
    until("the counter again", || {
        reader.read();
        maintainer.turn();
        clock.status().mode == Mode::Counter
    });

    drop(maintainer);
    until("a thread in the host's place", || {
        reader.read();
        threads_named("ogive-clock") == 1
    });
    let published = clock.status().published;
    until("its publications", || {
        reader.read();
        clock.status().published > published + 2
    });
    assert!(Clock::maintain().is_none(), "the thread has it now");
}
