//! The calibration thread: samples the counter against the operating system's clock and publishes segments.
//!
//! *Threads*: one, `ogive-clock`, started by the first use of the global clock and never joined. It is the latch's only
//! writer. A child of fork has no such thread: when its inherited segment ends, the first reader there starts one.
//! *Limits*: ten samples a second of 24 brackets each, about 1.5 us of CPU; a look at the kernel's clock source each
//! second; a comparison of costs each minute. *Failure*: when no thread can be made, the clock stays the operating
//! system's, which is right and slower.

use super::calibrate::{Calibrator, Outcome, Sample};
use super::{Inner, Segment, TickRate, order};
use crate::counter::Source;
use crate::os;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Brackets in a sample; the tightest is used.
const BRACKETS: usize = 24;
/// Brackets for the wall clock's offset, which changes only when somebody sets the clock.
const WALL_BRACKETS: usize = 4;
/// Seconds between looks at the kernel's clock source.
const ENVIRONMENT_PERIOD_NS: u64 = 1_000_000_000;
/// Seconds between comparisons of the counter's cost with the system clock's.
const COST_PERIOD_NS: u64 = 60_000_000_000;
/// Batches in a comparison of costs, and reads in a batch: 31 * 32 * 2 reads, about 45 us a minute.
const COST_BATCHES: usize = 31;
const COST_READS: u32 = 32;
/// The thread needs a page or two.
const STACK_BYTES: usize = 128 * 1024;
/// A publication held up longer than this is made again: its segment would start in the past.
const HELD_UP_TICKS: u64 = 10_000;
/// How often it is made again before it goes out as it is.
const HELD_UP_TRIES: usize = 8;
/// CLOCK_BOOTTIME moved this much against CLOCK_MONOTONIC: the machine was suspended.
const SUSPENDED_NS: u64 = 10_000_000;

/// Starts the thread; false when the system has none to give.
pub(super) fn spawn(inner: &'static Inner) -> bool {
    std::thread::Builder::new()
        .name("ogive-clock".into())
        .stack_size(STACK_BYTES)
        .spawn(move || Service::new(inner).run())
        .is_ok()
}

struct Service {
    inner: &'static Inner,
    source: Source,
    calibrator: Calibrator,
    clock_source: Option<os::ClockSourceFile>,
    environment_due_ns: u64,
    cost_due_ns: u64,
    /// Reading the counter costs more than asking the system: it is emulated.
    emulated: bool,
    /// The counter is below 1 GHz where the readers count on more.
    too_slow: bool,
    suspended_ns: u64,
}

impl Service {
    fn new(inner: &'static Inner) -> Self {
        let source = inner.source();
        let current = inner.latch.load();
        Self {
            inner,
            source,
            calibrator: Calibrator::new(current, inner.latch.shift()),
            clock_source: os::ClockSourceFile::open(),
            environment_due_ns: 0,
            cost_due_ns: 0,
            emulated: false,
            too_slow: false,
            suspended_ns: suspended_ns(),
        }
    }

    fn run(mut self) {
        let quantum = quantum_ticks(self.source);
        // ORDERING: Relaxed; a figure for the status, which orders nothing.
        self.inner.quantum_ticks.store(quantum, Ordering::Relaxed);
        loop {
            self.turn();
            std::thread::sleep(Duration::from_nanos(self.calibrator.period_ns()));
        }
    }

    fn turn(&mut self) {
        let sample = self.sample();
        if self.look_around(sample.monotonic_ns) == Outcome::Publish {
            self.publish();
        }
        let mut outcome = self.calibrator.observe(&sample);
        if cfg!(target_arch = "x86_64") && self.calibrator.shift() > 0 {
            self.too_slow = true;
            outcome = self.calibrator.set_trusted(false);
        }
        if outcome == Outcome::Publish {
            self.publish();
        }
        self.report();
    }

    /// The environment: suspension, the kernel's opinion of the counter, the cost of reading it.
    fn look_around(&mut self, now_ns: u64) -> Outcome {
        if now_ns < self.environment_due_ns {
            return Outcome::Keep;
        }
        self.environment_due_ns = now_ns.saturating_add(ENVIRONMENT_PERIOD_NS);
        if now_ns >= self.cost_due_ns {
            self.cost_due_ns = now_ns.saturating_add(COST_PERIOD_NS);
            self.emulated = is_emulated(self.source, self.emulated);
        }
        let name = self.clock_source.as_ref().and_then(os::ClockSourceFile::read);
        let trusted = !self.emulated && !self.too_slow && name.as_deref().is_none_or(is_sound);
        let suspended_ns = suspended_ns();
        let moved = suspended_ns.abs_diff(self.suspended_ns) > SUSPENDED_NS;
        self.suspended_ns = suspended_ns;
        match (self.calibrator.set_trusted(trusted), moved) {
            (Outcome::Keep, true) => self.calibrator.interrupted(),
            (outcome, _) => outcome,
        }
    }

    fn publish(&mut self) {
        if self.inner.latch.load().mode == super::Mode::Os {
            self.inner.latch.set_shift(self.calibrator.shift());
        }
        let mut segment = Segment::os(0, 0, 0);
        for _ in 0..HELD_UP_TRIES {
            let start = order(self.source);
            segment = self.calibrator.segment(start);
            if order(self.source).wrapping_sub(start) < HELD_UP_TICKS {
                break;
            }
        }
        self.inner.latch.publish(&segment);
        if let Some(correction) = self.calibrator.published(segment, order(self.source)) {
            self.inner.latch.publish(&correction);
            // A second correction would be of a nanosecond: the first is not slower than the segment it corrects.
            self.calibrator.published(correction, order(self.source));
        }
    }

    fn report(&self) {
        let tally = self.calibrator.tally();
        let counters = [
            (&self.inner.fallbacks, tally.fallbacks),
            (&self.inner.backsteps, tally.backsteps),
            (&self.inner.rejected, tally.rejected),
            (
                &self.inner.frequency_mhz_bits,
                self.calibrator.rate().map_or(0, |rate| (1e3 / rate.ns_per_tick).to_bits()),
            ),
            (&self.inner.tick_rate, self.calibrator.rate().map_or(0, |rate| TickRate::new(rate.ns_per_tick).0)),
        ];
        for (counter, value) in counters {
            // ORDERING: Relaxed; figures for the status and for `tick_rate`, each whole in itself.
            counter.store(value, Ordering::Relaxed);
        }
    }

    fn sample(&self) -> Sample {
        let (wall_offset_ns, wall_width_ns) = wall_offset();
        let mut best: Option<Sample> = None;
        for _ in 0..BRACKETS {
            let ticks_before = order(self.source);
            let monotonic_ns = os::monotonic_ns();
            let ticks_after = order(self.source);
            let width = ticks_after.wrapping_sub(ticks_before);
            if best.is_none_or(|best| width < best.ticks_after.wrapping_sub(best.ticks_before)) {
                best = Some(Sample { ticks_before, monotonic_ns, ticks_after, wall_offset_ns, wall_width_ns });
            }
        }
        best.expect("at least one bracket was taken")
    }
}

/// CLOCK_REALTIME - CLOCK_MONOTONIC and how far it may be off.
pub(super) fn wall_offset() -> (i64, u64) {
    (0..WALL_BRACKETS)
        .map(|_| {
            let before = os::monotonic_ns();
            let wall = os::realtime_ns();
            let width = os::monotonic_ns().saturating_sub(before);
            (wall.wrapping_sub(before as i64).wrapping_sub((width / 2) as i64), width)
        })
        .min_by_key(|(_, width)| *width)
        .expect("at least one bracket was taken")
}

fn suspended_ns() -> u64 {
    os::boottime_ns().saturating_sub(os::monotonic_ns())
}

/// Names of kernel clock sources under which an invariant counter keeps good time: the counter itself, and the
/// hypervisors' own scalings of it. Others (hpet, acpi_pm, jiffies) are what the kernel takes when it has found
/// the counter unstable.
fn is_sound(name: &str) -> bool {
    matches!(name, "tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page" | "xen" | "arch_sys_counter")
}

/// True when an ordered read costs clearly more than the system's clock: then something traps it (valgrind, rr, gVisor,
/// some hypervisors). Between the two thresholds it stays what it was, so that noise does not flip it.
fn is_emulated(source: Source, before: bool) -> bool {
    let mut ratios: Vec<u64> = (0..COST_BATCHES)
        .map(|_| {
            let start = os::monotonic_ns();
            for _ in 0..COST_READS {
                std::hint::black_box(order(source));
            }
            let middle = os::monotonic_ns();
            for _ in 0..COST_READS {
                std::hint::black_box(os::monotonic_ns());
            }
            let end = os::monotonic_ns();
            (middle - start) * 100 / (end - middle).max(1)
        })
        .collect();
    ratios.sort_unstable();
    let percent = ratios[COST_BATCHES / 2];
    percent > if before { 120 } else { 200 }
}

/// The step of the counter, ticks: the greatest common divisor of differences. Some machines count by 26 at a time.
fn quantum_ticks(source: Source) -> u64 {
    let mut last = order(source);
    let mut quantum = 0;
    for _ in 0..1_000 {
        let now = order(source);
        quantum = greatest_common_divisor(now.wrapping_sub(last), quantum);
        last = now;
    }
    quantum.max(1)
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_counters_own_clock_sources_are_sound() {
        for (name, sound) in
            [("tsc", true), ("kvm-clock", true), ("hpet", false), ("acpi_pm", false), ("jiffies", false)]
        {
            assert_eq!(is_sound(name), sound, "{name}");
        }
    }

    #[test]
    fn common_divisors() {
        for (a, b, divisor) in [(0, 0, 0), (5, 0, 5), (26, 52, 26), (52, 78, 26), (7, 3, 1)] {
            assert_eq!(greatest_common_divisor(a, b), divisor);
        }
    }
}
