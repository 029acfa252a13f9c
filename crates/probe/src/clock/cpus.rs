//! Do the counters of all CPUs show the same? Stamps handed to and fro between pinned threads show it.
//!
//! A stamp handed from CPU a to b arrives after a delay plus the offset of b's counter, one handed back after a delay
//! minus it. Over many handoffs the smallest of each is the quickest way there is, so half of their difference is the
//! offset.
//!
//! *Threads*: a comparison has two threads of its own, each bound to a CPU; no caller and no calibration waits for it.
//! It happens when the clock is new or broken, when the process may run on other CPUs than before, and each minute
//! while the counters are found to differ. *Limits*: 64 CPUs, each against the first, 1,000 handoffs or 20 ms a pair:
//! 0.2 ms on an idle machine, at worst 1.3 s where every CPU is taken. *Failure*: a pair that gets no CPU in that time
//! says nothing; with no pair at all the comparison is made again after a second, two, four, up to a minute.

use super::tick::order;
use crate::counter::Source;
use crate::{os, threads};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// CPUs compared with the first.
const CPUS_MAX: usize = 64;
/// Handoffs in each direction of a pair, and the minimum number for a valid result.
const HANDOFFS: u32 = 1_000;
const HANDOFFS_MIN: u32 = 50;
/// Nanoseconds for one pair.
const PAIR_NS_MAX: u64 = 20_000_000;
/// Iterations of a spin loop between checks of the time.
const SPINS: u32 = 256;
/// Counters that differ by more are not one clock...
pub(super) const DIFFER_NS: u64 = 100;
/// ...until they differ by less than this.
const EQUAL_NS: u64 = 50;
/// 2^6 s are more than a minute.
const NOTHING_MAX: u32 = 6;
/// Consecutive comparisons that must agree: one may have been disturbed.
const IN_A_ROW: u32 = 2;
/// Nanoseconds to the next comparison after the first that found no difference; it doubles each time.
const SOON_NS: u64 = 1_000_000_000;
/// Nanoseconds between comparisons that found a difference, and between checks for the existing CPUs.
const AGAIN_NS: u64 = 60_000_000_000;
/// The threads need a page or two.
const STACK_BYTES: usize = 128 * 1024;

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offsets {
    /// How many CPUs were compared, the first one included.
    pub(super) cpus: u64,
    /// The largest difference between two of their counters, ticks.
    pub(super) ticks: u64,
}

/// One side's place for the stamp that it hands over, on a line of its own.
#[repr(align(128))]
struct StampCell(AtomicU64);

struct Pair {
    places: [StampCell; 2],
    given_up: AtomicBool,
    end_ns: u64,
}

impl Pair {
    /// Waits for a stamp other than `last`; `None` when the time is up.
    fn wait(&self, side: usize, last: u64) -> Option<u64> {
        loop {
            for _ in 0..SPINS {
                // ORDERING: Acquire; pairs with the Release in `play`: the counter is read here after it was read
                // there.
                let stamp = self.places[side].0.load(Ordering::Acquire);
                if stamp != last {
                    return Some(stamp);
                }
                std::hint::spin_loop();
            }
            // ORDERING: Relaxed; it only ends a wait.
            if self.given_up.load(Ordering::Relaxed) || os::monotonic_ns() > self.end_ns {
                self.given_up.store(true, Ordering::Relaxed);
                return None;
            }
            // No yielding: a handoff is only valid while both sides have their CPUs, and yielding gives one away.
        }
    }

    /// One side's part: the smallest difference between its counter and the other side's stamps, and their number.
    fn play(&self, side: usize, source: Source, cpu: usize) -> (i64, u32) {
        let (mut least, mut handoffs, mut last) = (i64::MAX, 0, 0);
        if !threads::pin_to_cpu(cpu) {
            // ORDERING: Relaxed; as in `wait`.
            self.given_up.store(true, Ordering::Relaxed);
            return (least, 0);
        }
        // Twice the counter, and a bit that changes from one stamp to the next, also where the counter has not moved.
        // ORDERING: Release; pairs with the Acquire in `wait`.
        let hand_over = |turn: u32| {
            self.places[side].0.store(order(source) << 1 | u64::from(!turn & 1), Ordering::Release);
        };
        while handoffs < HANDOFFS {
            if side == 0 {
                hand_over(handoffs);
            }
            let Some(stamp) = self.wait(1 - side, last) else { break };
            least = least.min((order(source) << 1).wrapping_sub(stamp & !1) as i64 >> 1);
            if side == 1 {
                hand_over(handoffs);
            }
            last = stamp;
            handoffs += 1;
        }
        (least, handoffs)
    }
}

/// How much the counter of `there` is before that of `here`, ticks.
fn compare_pair(source: Source, here: usize, there: usize) -> Option<i64> {
    let end_ns = os::monotonic_ns().saturating_add(PAIR_NS_MAX);
    let place = || StampCell(AtomicU64::new(0));
    let pair = Pair { places: [place(), place()], given_up: AtomicBool::new(false), end_ns };
    let (back, forth) = std::thread::scope(|scope| {
        let other = std::thread::Builder::new()
            .name("ogive-clock-cpu".into())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || pair.play(1, source, there))
            .ok()?;
        let back = pair.play(0, source, here);
        Some((back, other.join().ok()?))
    })?;
    if back.1.min(forth.1) < HANDOFFS_MIN {
        return None;
    }
    Some((forth.0.saturating_sub(back.0)) / 2)
}

/// Compares the counters of `cpus`; `None` when no pair had the time.
fn compare(source: Source, cpus: &[usize]) -> Option<Offsets> {
    let (first, others) = cpus.split_first()?;
    let offsets: Vec<i64> =
        others.iter().take(CPUS_MAX).filter_map(|there| compare_pair(source, *first, *there)).collect();
    if offsets.is_empty() && !others.is_empty() {
        return None;
    }
    Some(spread(&offsets))
}

/// The largest difference between two CPUs, from their offsets to the first, whose offset is zero.
fn spread(offsets: &[i64]) -> Offsets {
    let most = offsets.iter().copied().max().unwrap_or(0).max(0);
    let least = offsets.iter().copied().min().unwrap_or(0).min(0);
    Offsets { cpus: offsets.len() as u64 + 1, ticks: most.abs_diff(least) }
}

/// The schedule of comparisons, and their conclusion.
#[derive(Debug)]
pub(super) struct Comparisons {
    running: Option<Receiver<Option<Offsets>>>,
    /// The last comparison: its epoch, and its CPUs.
    epoch: Option<u16>,
    cpus: Vec<usize>,
    cpus_due_ns: u64,
    again_ns: u64,
    /// Comparisons in a row that contradict `differ`.
    contradicted: u32,
    /// Comparisons in a row that found nothing.
    nothing: u32,
    differ: bool,
    /// The kernel has given the counter up.
    is_doubted: bool,
}

impl Comparisons {
    pub(super) fn new() -> Self {
        Self {
            running: None,
            epoch: None,
            cpus: Vec::new(),
            cpus_due_ns: 0,
            again_ns: u64::MAX,
            contradicted: 0,
            nothing: 0,
            differ: false,
            is_doubted: false,
        }
    }

    /// True while the CPUs' counters are not one clock.
    pub(super) fn differ(&self) -> bool {
        self.differ
    }

    /// Compares again now, and every minute while `is_doubted`: the kernel reports that the counter is unreliable.
    pub(super) fn doubt(&mut self, now_ns: u64, is_doubted: bool) {
        if is_doubted && !self.is_doubted {
            self.again_ns = now_ns;
        }
        self.is_doubted = is_doubted;
    }

    /// Starts a comparison when one is due, and gives the outcome of one that has ended: CPUs, nanoseconds.
    pub(super) fn turn(
        &mut self,
        now_ns: u64,
        epoch: u16,
        source: Source,
        ns: impl Fn(u64) -> u64,
    ) -> Option<(u64, u64)> {
        if let Some(running) = &self.running {
            let found = match running.try_recv() {
                Ok(found) => found,
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => None,
            };
            self.running = None;
            return self.take(now_ns, found, ns);
        }
        if now_ns >= self.cpus_due_ns {
            self.cpus_due_ns = now_ns.saturating_add(AGAIN_NS);
            let cpus = threads::allowed_cpus();
            if cpus != self.cpus {
                self.cpus = cpus;
                self.epoch = None;
            }
        }
        if self.epoch == Some(epoch) && now_ns < self.again_ns {
            return None;
        }
        self.epoch = Some(epoch);
        self.again_ns = u64::MAX;
        self.start(source);
        None
    }

    fn start(&mut self, source: Source) {
        let (sender, receiver) = channel();
        let cpus = self.cpus.clone();
        let started = std::thread::Builder::new()
            .name("ogive-clock-cpu".into())
            .stack_size(STACK_BYTES)
            // The receiver may be gone.
            .spawn(move || {
                let _ = sender.send(compare(source, &cpus));
            });
        // Without a thread the sender is dropped, which `turn` treats as a comparison without a difference.
        drop(started);
        self.running = Some(receiver);
    }

    /// Processes an outcome; returns CPUs and nanoseconds if there was one.
    fn take(&mut self, now_ns: u64, found: Option<Offsets>, ns: impl Fn(u64) -> u64) -> Option<(u64, u64)> {
        let Some(found) = found else {
            self.again_ns = now_ns.saturating_add((SOON_NS << self.nothing).min(AGAIN_NS));
            self.nothing = (self.nothing + 1).min(NOTHING_MAX);
            return None;
        };
        self.nothing = 0;
        let offset_ns = ns(found.ticks);
        let contradicts = if self.differ { offset_ns < EQUAL_NS } else { offset_ns > DIFFER_NS };
        self.contradicted = if contradicts { self.contradicted + 1 } else { 0 };
        if self.contradicted >= IN_A_ROW {
            self.differ = !self.differ;
            self.contradicted = 0;
        }
        if self.contradicted > 0 {
            self.again_ns = now_ns;
        } else if self.differ || self.is_doubted {
            self.again_ns = now_ns.saturating_add(AGAIN_NS);
        }
        Some((found.cpus, offset_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_between_any_two() {
        for (offsets, ticks) in
            [(&[][..], 0), (&[5], 5), (&[-5], 5), (&[3, 9], 9), (&[-4, 9], 13), (&[i64::MIN, i64::MAX], u64::MAX)]
        {
            assert_eq!(spread(offsets), Offsets { cpus: offsets.len() as u64 + 1, ticks }, "{offsets:?}");
        }
    }

    #[test]
    fn two_comparisons_in_a_row_decide_either_way() {
        let mut comparisons = Comparisons::new();
        let found = |ticks| Some(Offsets { cpus: 2, ticks });
        let ns = |ticks| ticks / 2;
        let steps = [
            (found(200), false, u64::MAX, "100 ns are within"),
            (found(202), false, 7, "over once: again at once"),
            (found(40), false, 7, "it had been disturbed"),
            (found(5_000), false, 7, "over once"),
            (found(5_000), true, 7 + AGAIN_NS, "over twice: not one clock, asked again after a minute"),
            (found(150), true, 7 + AGAIN_NS, "75 ns: not yet equal"),
            (None, true, 7 + SOON_NS, "nobody had time"),
            (None, true, 7 + 2 * SOON_NS, "again nobody"),
            (found(98), true, 7, "equal once"),
            (found(98), false, 7, "equal twice"),
        ];
        for (offsets, differ, again_ns, why) in steps {
            let given = comparisons.take(7, offsets, ns);
            assert_eq!(given, offsets.map(|offsets| (2, offsets.ticks / 2)));
            assert_eq!((comparisons.differ(), comparisons.again_ns), (differ, again_ns), "{why}");
        }
    }

    /// The machines that run this have synchronous counters or none; a pair that gets no CPU says nothing.
    #[test]
    fn the_counters_here_are_compared() {
        let source = crate::counter::detect();
        let cpus = threads::allowed_cpus();
        if source.is_counter() && cpus.len() > 1 {
            if let Some(offsets) = compare(source, &cpus) {
                println!("{offsets:?}");
                assert!(offsets.cpus >= 2);
            }
            assert_eq!(compare(source, &[cpus[0], usize::MAX]), None, "no such CPU");
        }
        assert_eq!(compare(source, &[]), None);
        assert_eq!(compare(source, &cpus[..cpus.len().min(1)]).map(|offsets| offsets.ticks), cpus.first().map(|_| 0));
    }

    #[test]
    fn a_comparison_is_made_for_each_epoch_and_not_waited_for() {
        let source = crate::counter::detect();
        if !source.is_counter() {
            return;
        }
        let mut comparisons = Comparisons::new();
        assert_eq!(comparisons.turn(1, 0, source, |ticks| ticks), None);
        assert!(comparisons.running.is_some());
        let done = |comparisons: &mut Comparisons| {
            while comparisons.running.is_some() {
                comparisons.turn(2, 0, source, |_| 0);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        };
        done(&mut comparisons);
        comparisons.again_ns = u64::MAX;
        comparisons.turn(3, 0, source, |ticks| ticks);
        assert!(comparisons.running.is_none(), "the same epoch");
        comparisons.turn(4, 1, source, |ticks| ticks);
        assert!(comparisons.running.is_some(), "another epoch");
        done(&mut comparisons);
    }
}
