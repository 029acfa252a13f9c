//! What a trace writer writes: two sides, each with a histogram for every stage, class, total and gap, and counts.
//!
//! *Invariants*, in each side that a snapshot takes: total.count + straddled + incomplete = finished; infrastructure.count
//! = logic.count = total.count - partial; gap.count + gaps_skipped = finished.

use super::path::{Class, POINTS_MAX, TracePath};
use crate::TickRate;
use crate::memory::Machine;
use crate::recorder::buffer::{Buffer, Totals};
use crate::recorder::handover::Sides;
use crate::recorder::turnstile::Turnstile;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const TOTAL: usize = 0;
pub(crate) const INFRASTRUCTURE: usize = 1;
pub(crate) const LOGIC: usize = 2;
pub(crate) const GAP: usize = 3;
/// The stage that ends at point i has the histogram `STAGES + i - 1`.
pub(crate) const STAGES: usize = 4;

pub(crate) const FINISHED: usize = 0;
pub(crate) const INCOMPLETE: usize = 1;
pub(crate) const STRADDLED: usize = 2;
pub(crate) const PARTIAL: usize = 3;
pub(crate) const CLAMPED: usize = 4;
pub(crate) const GAPS_SKIPPED: usize = 5;
pub(crate) const SLOW: usize = 6;
/// How often point i was missing is count `MISSING + i`.
pub(crate) const MISSING: usize = 7;
const COUNTS: usize = MISSING + POINTS_MAX;

/// Histograms of a path of `points` points.
pub(crate) const fn histograms(points: usize) -> usize {
    STAGES + points - 1
}

pub(crate) struct Side {
    counts: [AtomicU64; COUNTS],
    buffers: Box<[Buffer]>,
}

pub(crate) struct Table {
    pub(crate) turnstile: Turnstile<Machine>,
    pub(crate) sides: [Side; 2],
    /// Ticks of the publisher's last message, and whether there is one (in this epoch).
    pub(crate) published: AtomicU64,
    pub(crate) publisher: usize,
}

/// Everything of one snapshot.
pub(crate) struct Collected {
    pub(crate) counts: [u64; COUNTS],
    /// As a side's, but for the gaps.
    pub(crate) histograms: Vec<Totals>,
    /// A histogram of gaps for each publisher that had some.
    pub(crate) gaps: Vec<(usize, Totals)>,
}

/// The times of one message, nanoseconds and ticks. Stages add up to the total exactly, in ticks.
pub(crate) struct Times {
    pub(crate) total_ticks: u64,
    pub(crate) clamped: u64,
}

impl Side {
    fn new(points: usize) -> Self {
        let buffers = (0..histograms(points)).map(|_| Buffer::new()).collect();
        Self { counts: [const { AtomicU64::new(0) }; COUNTS], buffers }
    }

    /// ORDERING: Relaxed; as in [`Buffer::add`].
    #[inline(always)]
    pub(crate) fn count(&self, which: usize, number: u64) {
        let word = &self.counts[which];
        word.store(word.load(Ordering::Relaxed) + number, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn add(&self, histogram: usize, ns: u64) {
        self.buffers[histogram].add(ns);
    }

    /// Counts a message that has every stamp. A stamp before an earlier one is taken for that one.
    #[inline(always)]
    pub(crate) fn add_whole<P: TracePath>(&self, stamps: &[u64], rate: TickRate) -> Times {
        let points = const { P::POINTS.len() };
        let (stamps, buffers) = (&stamps[..points], &self.buffers[..histograms(points)]);
        let (mut at, mut clamped, mut logic) = (stamps[0], 0, 0);
        for (index, point) in P::POINTS.iter().enumerate().skip(1) {
            let stamp = stamps[index];
            clamped += u64::from(stamp < at);
            let ticks = stamp.saturating_sub(at);
            at += ticks;
            if matches!(point.class, Class::Logic) {
                logic += ticks;
            }
            buffers[STAGES + index - 1].add(rate.ns(ticks));
        }
        let total_ticks = at - stamps[0];
        buffers[TOTAL].add(rate.ns(total_ticks));
        buffers[LOGIC].add(rate.ns(logic));
        buffers[INFRASTRUCTURE].add(rate.ns(total_ticks - logic));
        Times { total_ticks, clamped }
    }

    /// Counts a message that lacks stamps between its first and its last: the total is known, and the stages whose two
    /// ends are.
    pub(crate) fn add_partial(&self, stamps: &[u64], seen: u32, rate: TickRate) -> Times {
        let (mut at, mut clamped) = (stamps[0], 0);
        for (index, stamp) in stamps.iter().enumerate().skip(1).filter(|(index, _)| seen & (1 << index) != 0) {
            clamped += u64::from(*stamp < at);
            let ticks = stamp.saturating_sub(at);
            at += ticks;
            if seen & (1 << (index - 1)) != 0 {
                self.add(STAGES + index - 1, rate.ns(ticks));
            }
        }
        let total_ticks = at - stamps[0];
        self.add(TOTAL, rate.ns(total_ticks));
        Times { total_ticks, clamped }
    }
}

impl Table {
    pub(crate) fn new(points: usize, publisher: usize) -> Self {
        let sides = [Side::new(points), Side::new(points)];
        Self { turnstile: Turnstile::new(), sides, published: AtomicU64::new(0), publisher }
    }
}

impl Sides for Table {
    type Totals = Collected;

    fn turnstile(&self) -> &Turnstile<Machine> {
        &self.turnstile
    }

    fn drain(&self, side: usize, into: &mut Collected) {
        let side = &self.sides[side];
        for (total, word) in into.counts.iter_mut().zip(&side.counts) {
            // ORDERING: Relaxed; the turnstile gives the side to one thread at a time.
            *total += word.load(Ordering::Relaxed);
            word.store(0, Ordering::Relaxed);
        }
        for (index, buffer) in side.buffers.iter().enumerate() {
            buffer.drain_into(if index == GAP { into.gaps_of(self.publisher) } else { &mut into.histograms[index] });
        }
    }
}

impl Collected {
    pub(crate) fn new(points: usize) -> Self {
        let histograms = (0..histograms(points)).map(|_| Totals::new()).collect();
        Self { counts: [0; COUNTS], histograms, gaps: Vec::new() }
    }

    pub(crate) fn gaps_of(&mut self, publisher: usize) -> &mut Totals {
        let at = self.gaps.iter().position(|(of, _)| *of == publisher).unwrap_or_else(|| {
            self.gaps.push((publisher, Totals::new()));
            self.gaps.len() - 1
        });
        &mut self.gaps[at].1
    }
}
