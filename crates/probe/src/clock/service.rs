//! The calibration's work: it samples the counter against the operating system's clock and publishes segments.
//!
//! *Threads*: one, `ogive-clock`, started by the first use of the global clock and never joined; or the thread of a
//! host that holds the [`Maintainer`]. Whoever it is, is the latch's only writer. A child of fork has no such thread:
//! when its inherited segment ends, the first reader there starts one. *Limits*: ten samples a second of 24 brackets
//! each, about 1.5 us of CPU; looks at the environment (see [`super::environment`]); comparisons of the CPUs' counters
//! in threads of their own (see [`super::cpus`]). *Failure*: when no thread can be made, the clock stays the operating
//! system's, which is right and slower.

use super::calibrate::{Calibrator, Outcome, Sample};
use super::costs::{self, ReadCosts};
use super::cpus::Comparisons;
use super::crosscheck::{CrossCheck, RawReading};
use super::environment::{Environment, Observation};
use super::os_reason::OsReason;
use super::policy::Policy;
use super::process::{FORKS, GLOBAL, Inner, SERVICE_NONE};
use super::segment::{Mode, Segment};
use super::tick::{TickRate, order};
use crate::counter::Source;
use crate::os;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Brackets in a sample; the tightest is used.
const BRACKETS: usize = 24;
/// Brackets for the wall clock's offset, which changes only when the clock is set.
const WALL_BRACKETS: usize = 4;
/// A counter that was too slow is tried again after a minute.
const TOO_SLOW_NS: u64 = 60_000_000_000;
/// The thread needs a page or two.
const STACK_BYTES: usize = 128 * 1024;
/// A publication that is delayed longer than this is made again: its segment would start in the past.
const HELD_UP_TICKS: u64 = 10_000;
/// How often it is made again before it is published anyway.
const HELD_UP_TRIES: usize = 8;

/// Starts the thread; false when the system cannot create one.
pub(super) fn spawn(inner: &'static Inner, measure_costs: MeasureCosts) -> bool {
    std::thread::Builder::new()
        .name("ogive-clock".into())
        .stack_size(STACK_BYTES)
        .spawn(move || Service::new(inner, measure_costs).run())
        .is_ok()
}

/// The calibration of the global clock by the host program, for hosts that want no other thread in their process.
///
/// The host calls [`Maintainer::turn`] when it is due. A host that fails to do so only loses speed: after two seconds
/// readings come from the operating system's clock. When the maintainer is dropped, the next reading from the operating
/// system's clock starts a thread in its place.
pub struct Maintainer {
    service: Service,
    /// The generation of the process, in a chain of forks, in which it was made.
    generation: u64,
}

impl std::fmt::Debug for Maintainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Maintainer").field("source", &self.service.source).finish_non_exhaustive()
    }
}

impl Maintainer {
    pub(super) fn new(inner: &'static Inner, measure_costs: MeasureCosts) -> Self {
        // ORDERING: Relaxed; only fork changes it, in the child's one thread.
        Self { service: Service::new(inner, measure_costs), generation: FORKS.load(Ordering::Relaxed) }
    }

    /// Takes one sample, publishes the result, and returns when to call again. It takes some microseconds, and once a
    /// minute a tenth of a millisecond; calling it more often does no harm. `None` in a child of fork, where it has no
    /// effect: the clock there calibrates itself.
    ///
    /// Comparisons of the CPUs' counters still happen in short threads of their own, because they must be bound to
    /// CPUs.
    pub fn turn(&mut self) -> Option<Duration> {
        if self.is_lost() {
            return None;
        }
        if self.service.source.is_counter() {
            self.service.turn();
        }
        Some(Duration::from_nanos(self.service.calibrator.period_ns()))
    }

    fn is_lost(&self) -> bool {
        // ORDERING: Relaxed; as in `new`.
        FORKS.load(Ordering::Relaxed) != self.generation
    }
}

impl Drop for Maintainer {
    fn drop(&mut self) {
        if !self.is_lost() {
            // ORDERING: Release; pairs with the AcqRel of the swap in `super::start`: the next writer of the latch
            // comes after everything that this one wrote.
            GLOBAL.service.store(SERVICE_NONE, Ordering::Release);
        }
    }
}

/// Measures the cost of each way to read the clock.
pub(super) type MeasureCosts = fn(&'static Inner) -> ReadCosts;

struct Service {
    inner: &'static Inner,
    measure_costs: MeasureCosts,
    source: Source,
    calibrator: Calibrator,
    environment: Environment,
    comparisons: Comparisons,
    /// The evidence for a counter that the kernel has abandoned.
    cross_check: Option<CrossCheck>,
    /// Until then the counter is assumed to be below 1 GHz, which is too slow for the readers.
    too_slow_until_ns: u64,
}

impl Service {
    fn new(inner: &'static Inner, measure_costs: MeasureCosts) -> Self {
        let source = inner.source();
        let current = inner.latch.load();
        // The granularity of the counter is measured here, in the calibration thread; a counter that may not be read
        // has none.
        if source.is_counter() {
            inner.figures.quantum_ticks.set(costs::quantum_ticks(source));
        }
        Self {
            inner,
            measure_costs,
            source,
            calibrator: Calibrator::new(current, inner.latch.shift()),
            environment: Environment::new(),
            comparisons: Comparisons::new(),
            cross_check: None,
            too_slow_until_ns: 0,
        }
    }

    fn run(mut self) {
        loop {
            self.turn();
            std::thread::sleep(Duration::from_nanos(self.calibrator.period_ns()));
        }
    }

    fn turn(&mut self) {
        // A thread that must not read the counter does not: it reports that, and checks again next time.
        if os::counter_traps() {
            self.inner.figures.os_reason.set(OsReason::Trapped as u64);
            if self.calibrator.set_trusted(false) == Outcome::Publish {
                self.publish_os();
            }
            return;
        }
        let sample = self.sample();
        if self.look_around(sample.monotonic_ns) == Outcome::Publish {
            self.publish();
        }
        let mut outcome = self.calibrator.observe(&sample);
        if cfg!(target_arch = "x86_64") && outcome == Outcome::Publish && self.calibrator.shift() > 0 {
            self.too_slow_until_ns = sample.monotonic_ns.saturating_add(TOO_SLOW_NS);
            outcome = self.calibrator.set_trusted(false);
        }
        if outcome == Outcome::Publish {
            self.publish();
        }
        self.report();
        let (inner, measure_costs) = (self.inner, self.measure_costs);
        self.environment.compare_costs(sample.monotonic_ns, &inner.figures, || measure_costs(inner));
    }

    fn look_around(&mut self, now_ns: u64) -> Outcome {
        let inner = self.inner;
        let look = self.environment.look(now_ns, &inner.figures);
        self.comparisons.doubt(now_ns, look.is_demoted);
        self.compare_cpus(now_ns);
        let holds = self.cross_check(look);
        let reason = reason(inner.policy(), look, holds, self.comparisons.differ());
        let reason = if now_ns < self.too_slow_until_ns { Some(OsReason::TooSlow) } else { reason };
        inner.figures.os_reason.set(reason.map_or(0, |reason| reason as u64));
        if look.interrupted {
            inner.figures.interruptions.count();
        }
        match (self.calibrator.set_trusted(reason.is_none()), look.interrupted) {
            (Outcome::Keep, true) => self.calibrator.interrupted(),
            (outcome, _) => outcome,
        }
    }

    /// Whether a counter that the kernel has abandoned still keeps time; true if the kernel has not.
    fn cross_check(&mut self, look: Observation) -> bool {
        if !look.is_demoted {
            self.cross_check = None;
            return true;
        }
        let in_use = self.inner.latch.load().mode == Mode::Counter;
        let reading = look.was_due.then(|| self.raw_reading());
        let check = self.cross_check.get_or_insert_with(|| CrossCheck::new(in_use));
        match reading {
            Some(reading) => check.look(reading),
            None => check.holds(),
        }
    }

    fn raw_reading(&self) -> RawReading {
        let bracket = |_| {
            let ticks_before = order(self.source);
            let raw_ns = os::monotonic_raw_ns();
            RawReading { ticks_before, raw_ns, ticks_after: order(self.source) }
        };
        let width = |reading: &RawReading| reading.ticks_after.wrapping_sub(reading.ticks_before);
        (0..WALL_BRACKETS).map(bracket).min_by_key(width).expect("at least one bracket was taken")
    }

    /// Once the counter is calibrated, and from then on.
    fn compare_cpus(&mut self, now_ns: u64) {
        let inner = self.inner;
        if self.calibrator.tally().used == 0
            || self.inner.figures.frequency_mhz.get() == 0 && !self.comparisons.differ()
        {
            return;
        }
        let epoch = inner.latch.epoch();
        let found = self.comparisons.turn(now_ns, epoch, self.source, |ticks| inner.tick_rate().ns(ticks));
        if let Some((cpus, offset_ns)) = found {
            self.inner.figures.cpus_compared.set(cpus);
            self.inner.figures.cpu_offset_ns.set(offset_ns);
            self.calibrator.set_cpu_offset(offset_ns);
        }
    }

    /// Publishes the operating system's segment without a look at the counter.
    fn publish_os(&mut self) {
        let segment = self.calibrator.segment(self.inner.latch.load().base_ticks);
        self.put(&segment);
        self.calibrator.published(segment, segment.base_ticks);
    }

    /// To this process first: time until the pages have it too counts as a delay.
    fn put(&self, segment: &Segment) {
        self.inner.latch.publish(segment);
        self.inner.shares.publish(segment, self.calibrator.shift());
    }

    fn publish(&mut self) {
        if self.inner.latch.load().mode == Mode::Os {
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
        self.put(&segment);
        if let Some(correction) = self.calibrator.published(segment, order(self.source)) {
            self.put(&correction);
            // A second correction would be of a nanosecond: the first is not slower than the segment it corrects.
            self.calibrator.published(correction, order(self.source));
        }
    }

    fn report(&self) {
        let (tally, figures) = (self.calibrator.tally(), &self.inner.figures);
        figures.fallbacks.set(tally.fallbacks);
        figures.backsteps.set(tally.backsteps);
        figures.rejected.set(tally.rejected);
        figures.calibrations.set(tally.used);
        figures.drift_ppb.set_f64(self.calibrator.drift_ppb());
        figures.calibrated_at_ns.set(self.calibrator.calibrated_at_ns());
        figures.frequency_mhz.set_f64(self.calibrator.rate().map_or(0.0, |rate| 1e3 / rate.ns_per_tick));
        // A rate that was lost with its line remains the best guess until the next one is known.
        if let Some(rate) = self.calibrator.rate() {
            // ORDERING: Relaxed; one word, whole in itself.
            self.inner.tick_rate.store(TickRate::new(rate.ns_per_tick).0, Ordering::Relaxed);
        }
        self.inner.shares.report(figures, self.inner.tick_rate());
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

/// Why the counter must not be used, from the results of the checks.
fn reason(policy: Policy, look: Observation, holds: bool, cpus_differ: bool) -> Option<OsReason> {
    if policy == Policy::Force {
        return None;
    }
    let demoted = (look.is_demoted && !holds).then_some(OsReason::Demoted);
    demoted.or(look.reason).or(cpus_differ.then_some(OsReason::CpusDiffer))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demoted_counter_is_used_while_the_cross_checks_hold_and_always_by_force() {
        use OsReason::{CpusDiffer, Demoted, Emulated};
        let look = |is_demoted, reason| Observation { reason, is_demoted, was_due: true, interrupted: false };
        for (look, holds, cpus_differ, expected) in [
            (look(false, None), true, false, None),
            (look(true, None), true, false, None),
            (look(true, None), false, false, Some(Demoted)),
            (look(true, None), true, true, Some(CpusDiffer)),
            (look(true, Some(Emulated)), true, false, Some(Emulated)),
            (look(false, Some(Emulated)), true, true, Some(Emulated)),
        ] {
            assert_eq!(reason(Policy::Auto, look, holds, cpus_differ), expected, "{look:?} {holds} {cpus_differ}");
            assert_eq!(reason(Policy::Force, look, holds, cpus_differ), None);
        }
    }
}
