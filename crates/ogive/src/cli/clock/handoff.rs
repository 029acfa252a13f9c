//! Readings handed from one CPU to another: does time go back on the way, and how far are the CPUs' clocks apart?
//!
//! Two threads, each bound to its CPU, answer each other: whoever sees the other's reading reads its own clock and
//! hands that on. A reading below the one that it answers is time that went back. *Invariants*: the least delay of each
//! direction holds the offset: `(least forth - least back) / 2`, exact to half the difference of the two true least
//! delays. *Limits*: the readings are below 2^63 (292 years of nanoseconds, 97 of ticks at 3 GHz). *Failure*: where a
//! thread cannot be bound, the counts are right and the offset is not reported.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ogive_probe::{Clock, pin_to_cpu};

use ogive_observe::clock::read::{ClockVisitor, TimeSource};

/// Turns between two checks of the time.
const TURNS: u64 = 64;
/// Iterations of a spin loop before the CPU is yielded: on a busy machine the two threads run alternately.
const SPINS: u32 = 2_000;

/// The measurements of two CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Handoffs {
    /// Readings that responded to another one.
    pub(super) count: u64,
    /// Those that were below the one to which they responded.
    pub(super) backward: u64,
    /// The largest such step, nanoseconds.
    pub(super) worst_ns: u64,
    /// How far the second CPU's clock is ahead of the first's; `None` when a thread was not bound or no reading went
    /// forward.
    pub(super) offset_ns: Option<f64>,
}

/// Hands readings of `read` between two CPUs for `budget`.
pub(super) fn between(cpus: (usize, usize), read: TimeSource, clock: Clock, budget: Duration) -> Handoffs {
    let [first, second] = read.visit(clock, HandoffRun { cpus, clock, budget });
    let ns = |units: u64| read.ns(clock, units);
    let offset_ns = match (first.least, second.least, first.bound && second.bound) {
        // The second player sees the forward steps.
        (Some(back), Some(forth), true) => Some((ns(forth) as f64 - ns(back) as f64) / 2.0),
        _ => None,
    };
    Handoffs {
        count: first.count + second.count,
        backward: first.backward + second.backward,
        worst_ns: ns(first.worst.max(second.worst)),
        offset_ns,
    }
}

/// Pairs that connect `cpus` in a chain from the first, at most `most` of them, evenly chosen.
pub(super) fn pairs(cpus: &[usize], most: usize) -> Vec<(usize, usize)> {
    let Some((first, others)) = cpus.split_first() else { return Vec::new() };
    let step = others.len().div_ceil(most.max(1)).max(1);
    others.iter().step_by(step).map(|other| (*first, *other)).collect()
}

#[derive(Clone, Copy, Debug, Default)]
struct Side {
    count: u64,
    backward: u64,
    worst: u64,
    least: Option<u64>,
    bound: bool,
}

struct HandoffRun {
    cpus: (usize, usize),
    clock: Clock,
    budget: Duration,
}

/// Two words that share no cache line: readings, with a bit that flips each time so that equal readings are
/// distinguished.
#[repr(align(128))]
#[derive(Default)]
struct Word(AtomicU64);

impl ClockVisitor for HandoffRun {
    type Output = [Side; 2];
    fn visit<F: Fn() -> u64 + Sync>(self, read: F) -> [Side; 2] {
        let (words, stop) = ([Word::default(), Word::default()], AtomicBool::new(false));
        let end = self.clock.now() + self.budget.as_nanos() as u64;
        std::thread::scope(|scope| {
            let second = scope.spawn(|| play(self.cpus.1, &words[1], &words[0], &stop, &read, |_| false));
            // A separate thread: binding the caller's thread would affect its later work.
            let first = scope.spawn(|| {
                words[0].0.store(1, Ordering::Release);
                let over = |turn: u64| turn.is_multiple_of(TURNS) && self.clock.now() >= end;
                play(self.cpus.0, &words[0], &words[1], &stop, &read, over)
            });
            [first, second].map(|player| player.join().expect("a player ends well"))
        })
    }
}

fn play<F: Fn() -> u64>(
    cpu: usize,
    own: &Word,
    other: &Word,
    stop: &AtomicBool,
    read: &F,
    over: impl Fn(u64) -> bool,
) -> Side {
    let mut side = Side { bound: pin_to_cpu(cpu), ..Side::default() };
    let (mut seen, mut phase) = (0, own.0.load(Ordering::Relaxed) & 1);
    for turn in 1.. {
        let mut spins = 0;
        let word = loop {
            // ORDERING: Acquire; pairs with the Release below: whoever sees the word learned it from its writer, so
            // that a reading after it may not be below.
            let word = other.0.load(Ordering::Acquire);
            if word != seen {
                break word;
            }
            // ORDERING: Relaxed; it only ends the game.
            if stop.load(Ordering::Relaxed) {
                return side;
            }
            spins += 1;
            if spins % SPINS == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
        };
        let reading = read();
        // The very first word is not a reading.
        if word > 1 {
            side.count(word >> 1, reading);
        }
        (seen, phase) = (word, phase ^ 1);
        // ORDERING: Release; pairs with the Acquire above.
        own.0.store(reading << 1 | phase, Ordering::Release);
        if over(turn) {
            // ORDERING: Relaxed; as above.
            stop.store(true, Ordering::Relaxed);
            return side;
        }
    }
    side
}

impl Side {
    fn count(&mut self, answered: u64, reading: u64) {
        self.count += 1;
        match reading.checked_sub(answered) {
            Some(delay) => self.least = Some(self.least.map_or(delay, |least| least.min(delay))),
            None => {
                self.backward += 1;
                self.worst = self.worst.max(answered - reading);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use ogive_probe::allowed_cpus;

    use super::*;

    #[test]
    fn an_ordered_clock_hands_over_in_order() {
        let cpus = allowed_cpus();
        let pair = (cpus[0], *cpus.last().unwrap());
        let found = between(pair, TimeSource::Now, Clock::global(), Duration::from_millis(30));
        assert!(found.count > 0, "{found:?}");
        assert_eq!((found.backward, found.worst_ns), (0, 0), "{found:?}");
    }

    #[test]
    fn a_clock_that_goes_back_is_caught() {
        let cpus = allowed_cpus();
        // 10, 9, 8 ...: each reading is one below the one that it answers.
        let falling = AtomicU64::new(1 << 40);
        let game = HandoffRun { cpus: (cpus[0], cpus[0]), clock: Clock::global(), budget: Duration::from_millis(20) };
        let sides = game.visit(|| falling.fetch_sub(1, Ordering::Relaxed));
        for side in sides {
            assert!(side.count > 0 && side.backward == side.count && side.worst == 1, "{side:?}");
            assert_eq!(side.least, None);
        }
    }

    #[test]
    fn every_pair_has_the_first_cpu_and_there_are_not_too_many() {
        assert_eq!(pairs(&[], 8), []);
        assert_eq!(pairs(&[3], 8), []);
        assert_eq!(pairs(&[0, 1, 2], 8), [(0, 1), (0, 2)]);
        let many: Vec<usize> = (0..200).collect();
        assert!(pairs(&many, 16).len() <= 16 && pairs(&many, 16).len() > 8);
    }
}
