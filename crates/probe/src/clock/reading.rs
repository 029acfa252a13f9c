//! Reading the time through a latch, where the quick way does not lead; for the process' own clock and for shared
//! pages.
//!
//! *Invariants*: the operating system's clock, when it has to answer, does not answer below what the line can have
//! shown before. *Failure*: a segment that has ended, or never was, is the operating system's business.

use super::latch::Latch;
use super::segment::{Mode, Segment};
use super::tick::{Bounded, order};
use crate::counter::Source;
use crate::memory::Machine;
use crate::os;

/// A line that ended is a floor for the system's clock only while they differ by less than this: the counter has not
/// jumped, so the line was right until its end.
pub(super) const FLOOR_BELIEVED_NS: u64 = 100_000;
/// Ticks that a reading may be before its segment's start because two CPUs' counters are not quite equal.
pub(super) const SKEW_TICKS: u64 = 4_096;
/// Attempts of the slow path before it uses what it has: each means that a publication came in between.
const SLOW_TURNS: usize = 8;

/// The time; `source` is a counter.
pub(super) fn now(latch: &Latch<Machine>, source: Source) -> u64 {
    let mut reading = 0;
    for _ in 0..SLOW_TURNS {
        let index = latch.index();
        let (segment, ticks) = latch.load_with(|| order(source));
        if let Some(ns) = segment.line(ticks, latch.shift()) {
            return ns;
        }
        reading = floored(&segment, ticks, latch.shift(), os::monotonic_ns());
        if latch.index() == index {
            return reading;
        }
    }
    reading
}

/// Nanoseconds since the Unix epoch; `source` is a counter.
pub(super) fn wall(latch: &Latch<Machine>, source: Source) -> i64 {
    let (segment, ticks) = latch.load_with(|| order(source));
    match segment.line(ticks, latch.shift()) {
        Some(ns) => (ns as i64).wrapping_add(segment.wall_offset_ns),
        None => os::realtime_ns(),
    }
}

/// A reading of the line with its bound; `None` where the line is not valid. `source` is a counter.
pub(super) fn bounded(latch: &Latch<Machine>, source: Source) -> Option<Bounded> {
    let (segment, ticks) = latch.load_with(|| order(source));
    let ns = segment.line(ticks, latch.shift())?;
    let err_ns = segment.err_after(ns.saturating_sub(segment.base_ns));
    Some(Bounded { ns, err_ns, epoch: segment.epoch, mode: Mode::Counter })
}

/// A reading `ns` of the operating system's clock; while a floor holds it back, the difference is the error.
pub(super) fn bounded_os(ns: u64, epoch: u16) -> Bounded {
    Bounded { ns, err_ns: os::monotonic_ns().abs_diff(ns), epoch, mode: Mode::Os }
}

/// `system_ns`, but not below what `segment` can have returned to a reader before `ticks`.
pub(super) fn floored(segment: &Segment, ticks: u64, shift: u32, system_ns: u64) -> u64 {
    if segment.mode == Mode::Os {
        return system_ns.max(segment.base_ns);
    }
    let early = segment.base_ticks.saturating_sub(ticks);
    if early > 0 && early <= SKEW_TICKS {
        return segment.base_ns;
    }
    let end = if early > 0 { 0 } else { segment.max_age };
    let floor = segment.ceiling_at(end, shift);
    if floor.saturating_sub(system_ns) < FLOOR_BELIEVED_NS { system_ns.max(floor) } else { system_ns }
}
