//! What a trace writer writes: two sides, each with a histogram for every stage, class, total and gap, and counts.
//!
//! *Invariants*, in each side that a snapshot takes: total.count + straddled + incomplete = finished;
//! infrastructure.count = logic.count = total.count - partial; gap.count + gaps_skipped = finished.

use super::names::MARK_NAMES_MAX;
use super::path::{Class, POINTS_MAX, TracePath};
use crate::TickRate;
use crate::memory::Machine;
use crate::recorder::buffer::{Buffer, Totals};
use crate::recorder::handover::Sides;
use crate::recorder::turnstile::Turnstile;
use std::sync::OnceLock;
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
pub(crate) const REPEATED: usize = 7;
pub(crate) const LISTED: usize = 8;
pub(crate) const LISTED_FIRST: usize = 9;
pub(crate) const LISTED_STRADDLED: usize = 10;
pub(crate) const LISTED_LOST: usize = 11;
/// How often point i was missing is count `MISSING + i`.
pub(crate) const MISSING: usize = 12;
const COUNTS: usize = MISSING + POINTS_MAX;

/// Histograms of a path of `points` points.
pub(crate) const fn histograms(points: usize) -> usize {
    STAGES + points - 1
}

pub(crate) struct Side {
    counts: [AtomicU64; COUNTS],
    buffers: Box<[Buffer]>,
    /// The times between marks of each name, made when a name is first seen twice in a message.
    between: Box<[OnceLock<Box<Buffer>>]>,
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
    /// A histogram for each name of marks that was seen twice in a message.
    pub(crate) between: Vec<(usize, Totals)>,
}

/// The times of a message after it was counted.
pub(crate) struct Times {
    pub(crate) total_ticks: u64,
    pub(crate) clamped: u64,
}

impl Side {
    fn new(points: usize) -> Self {
        let buffers = (0..histograms(points)).map(|_| Buffer::new()).collect();
        let between = (0..MARK_NAMES_MAX).map(|_| OnceLock::new()).collect();
        Self { counts: [const { AtomicU64::new(0) }; COUNTS], buffers, between }
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

    /// Counts the time between two marks of a name.
    #[inline]
    pub(crate) fn add_between(&self, name: usize, ns: u64) {
        self.between[name].get_or_init(|| Box::new(Buffer::new())).add(ns);
    }

    /// Counts a message with every stamp. A stamp before an earlier one is set to that one.
    #[inline(always)]
    pub(crate) fn add_whole<P: TracePath>(&self, stamps: &[u64], rate: TickRate) -> Times {
        let points = const { P::POINTS.len() };
        let stamps = &stamps[..points];
        // Without branches: nearly always all are in order.
        let ordered = (1..points).fold(true, |ordered, index| ordered & (stamps[index] >= stamps[index - 1]));
        if ordered { self.add_ordered::<P>(stamps, 0, rate) } else { self.add_clamped::<P>(stamps, rate) }
    }

    #[cold]
    #[inline(never)]
    fn add_clamped<P: TracePath>(&self, stamps: &[u64], rate: TickRate) -> Times {
        let (mut clamped, mut count) = ([0; POINTS_MAX], 0);
        let mut at = 0;
        for (into, stamp) in clamped.iter_mut().zip(stamps) {
            count += u64::from(*stamp < at);
            at = at.max(*stamp);
            *into = at;
        }
        self.add_ordered::<P>(&clamped[..stamps.len()], count, rate)
    }

    #[inline(always)]
    fn add_ordered<P: TracePath>(&self, stamps: &[u64], clamped: u64, rate: TickRate) -> Times {
        let points = const { P::POINTS.len() };
        let (stamps, buffers) = (&stamps[..points], &self.buffers[..histograms(points)]);
        let ticks = |index: usize| stamps[index].wrapping_sub(stamps[index - 1]);
        // The compiler knows which stages are logic, so this becomes a sum of a few differences.
        let logic_stages = (1..points).filter(|index| matches!(P::POINTS[*index].class, Class::Logic));
        let logic = logic_stages.fold(0_u64, |sum, index| sum.wrapping_add(ticks(index)));
        for index in 1..points {
            buffers[STAGES + index - 1].add(rate.ns(ticks(index)));
        }
        let total_ticks = stamps[points - 1].wrapping_sub(stamps[0]);
        buffers[TOTAL].add(rate.ns(total_ticks));
        buffers[LOGIC].add(rate.ns(logic));
        buffers[INFRASTRUCTURE].add(rate.ns(total_ticks.wrapping_sub(logic)));
        Times { total_ticks, clamped }
    }

    /// Counts a message without some stamps between its first and its last: the total is known, and the stages with
    /// both ends known.
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
        for (name, buffer) in side.between.iter().enumerate() {
            if let Some(buffer) = buffer.get() {
                buffer.drain_into(totals_of(&mut into.between, name));
            }
        }
        for (index, buffer) in side.buffers.iter().enumerate() {
            buffer.drain_into(if index == GAP {
                totals_of(&mut into.gaps, self.publisher)
            } else {
                &mut into.histograms[index]
            });
        }
    }
}

impl Collected {
    pub(crate) fn new(points: usize) -> Self {
        let histograms = (0..histograms(points)).map(|_| Totals::new()).collect();
        Self { counts: [0; COUNTS], histograms, gaps: Vec::new(), between: Vec::new() }
    }
}

fn totals_of(all: &mut Vec<(usize, Totals)>, which: usize) -> &mut Totals {
    let at = all.iter().position(|(of, _)| *of == which).unwrap_or_else(|| {
        all.push((which, Totals::new()));
        all.len() - 1
    });
    &mut all[at].1
}
