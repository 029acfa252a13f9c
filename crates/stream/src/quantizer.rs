//! The quantizer: merges measurements of many series into cells of one second.
//!
//! Invariants: each accepted measurement is in exactly one cell, and each cell is returned once. A cell of an earlier
//! or later second than the current one is returned by the next `take`, and again as a further fragment if more arrives
//! for it: fragments of a cell merge in the store.
//! Threads: one owner at a time; it has no clock, the owner passes the time.
//! Limits: [`Limits`]. Series beyond it fold into series called `ogive_overflow`, so that counts and distributions stay
//! complete, and are counted in [`Counts`].
//! Failure: a measurement that is not accepted is a [`Refused`], never silently dropped.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::mem::take;

use ogive_hist::Histogram;
use ogive_model::{Error, Kind, Labels, METRIC_NAME, Ns, SeriesDef, SeriesMeta, Temporality, WallNs};
use twox_hash::XxHash3_64;

use crate::key::{Key, Low};
use crate::state::{Cell, Members, State};

/// Cells are a second wide.
const WIDTH: Ns = Ns::from_secs(1);

/// The series for values beyond a limit; the store has its own of this name for its own limits.
const OVERFLOW_NAME: &str = "ogive_overflow";

/// How many names a series may be known by: the same tags in another order are another name.
const ALIASES_PER_SERIES: usize = 4;

/// The fraction of a weight that was not counted is kept for the next value; this much below a whole number counts as
/// one, because 1 / rate is rounded.
const WEIGHT_SLACK: f64 = 1e-6;

/// The limits of a quantizer.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Series at a time.
    pub series: usize,
    /// Members of all sets in open cells together.
    pub members: usize,
    /// Open cells of seconds other than the current one, and completed cells that were not taken yet, each.
    pub cells: usize,
    /// A series without a measurement for this many seconds is forgotten, and with it the level of a relative gauge.
    pub idle_seconds: i64,
}

impl Default for Limits {
    /// 100,000 series of some 600 bytes with their open histograms are 60 MB; a million members of 16 bytes are 16 MB;
    /// 300,000 cells of some 300 bytes are 90 MB, three seconds of every series. An hour without a measurement is
    /// longer than the usual intervals of flushing senders.
    fn default() -> Self {
        Self { series: 100_000, members: 1_000_000, cells: 300_000, idle_seconds: 3_600 }
    }
}

/// What the measurements of a series are combined to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Their sum: a delta float.
    Count,
    /// The last one: a gauge.
    Gauge,
    /// The number of different ones: a gauge.
    Distinct,
    /// Their distribution: a delta histogram.
    Histogram,
}

impl Shape {
    /// Each shape.
    pub const ALL: [Self; 4] = [Self::Count, Self::Gauge, Self::Distinct, Self::Histogram];

    /// The properties of a series of this shape in addition to its labels.
    #[must_use]
    pub fn meta(self, unit: &str) -> SeriesMeta {
        let (kind, temporality) = match self {
            Self::Count => (Kind::Float, Temporality::Delta),
            Self::Gauge | Self::Distinct => (Kind::Float, Temporality::Gauge),
            Self::Histogram => (Kind::Histogram, Temporality::Delta),
        };
        SeriesMeta { kind, temporality, unit: unit.into(), width_ms: WIDTH.to_ms().0 as u32 }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Gauge => "gauge",
            Self::Distinct => "distinct",
            Self::Histogram => "histogram",
        }
    }

    fn state(self) -> State {
        match self {
            Self::Count => State::Count(0.0),
            Self::Gauge => State::Gauge(0.0),
            Self::Distinct => State::Distinct(Members::default()),
            Self::Histogram => State::Histogram(Box::new(Histogram::log_linear())),
        }
    }
}

/// One measurement. Its kind fits the shape of its series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measured<'a> {
    /// Adds to a count.
    Add(f64),
    /// Sets a gauge.
    Set(f64),
    /// Moves a gauge relative to its value, or to 0 when that is not known.
    Shift(f64),
    /// A member of a set.
    Member(&'a [u8]),
    /// A value of a distribution that represents `weight` of them. Fractions of a weight add up over a series.
    Observe {
        /// The value.
        value: f64,
        /// 1, or more when the sender sampled.
        weight: f64,
    },
}

/// Why a measurement was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The maximum number of cells of other seconds is open.
    Cells,
}

/// Identifies a series of a quantizer until its next `take`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotId(u32);

/// What was refused or lost because of limits so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Measurements of series beyond the limit: they are in `ogive_overflow`.
    pub folded: u64,
    /// Members beyond the limit: their sets are larger than stored.
    pub members_over: u64,
    /// Cells that were not taken in time.
    pub cells_lost: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Quantizer {
    limits: Limits,
    /// Slots by the names that senders gave them.
    aliases: HashMap<u128, u32, BuildHasherDefault<Low>>,
    /// Slots by labels and shape.
    identities: HashMap<(Labels, Shape), u32>,
    slots: Vec<Slot>,
    /// Slots with something in the current cell.
    touched: Vec<u32>,
    /// End of the current cell.
    end: WallNs,
    /// Cells of other seconds.
    others: HashMap<(u32, WallNs), State>,
    closed: Vec<Cell>,
    /// Members in open cells.
    members: usize,
    counts: Counts,
    /// When idle series were last looked for.
    swept: WallNs,
}

#[derive(Debug)]
struct Slot {
    series: SeriesDef,
    shape: Shape,
    is_overflow: bool,
    /// Of the current cell.
    state: State,
    /// The part of a weight that is not counted yet.
    rest: f64,
    /// The value of a gauge.
    level: f64,
    /// The cell of its newest measurement.
    last: WallNs,
}

/// End of the cell that an event belongs to: (end - 1 s, end].
#[must_use]
pub fn cell_end(time: WallNs) -> WallNs {
    let beyond = Ns(time.0.rem_euclid(WIDTH.0));
    if beyond == Ns::ZERO { time } else { time.saturating_sub(beyond).saturating_add(WIDTH) }
}

impl Default for Quantizer {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Quantizer {
    /// An empty one.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            aliases: HashMap::default(),
            identities: HashMap::new(),
            slots: Vec::new(),
            touched: Vec::new(),
            end: WallNs(0),
            others: HashMap::new(),
            closed: Vec::new(),
            members: 0,
            counts: Counts::default(),
            swept: WallNs(0),
        }
    }

    /// What was refused or lost because of limits so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Series that it holds.
    #[must_use]
    pub fn series(&self) -> usize {
        self.slots.len()
    }

    /// The series with the name `key`; `define` defines it the first time.
    ///
    /// # Errors
    /// Those of `define`.
    pub fn slot<E>(
        &mut self,
        key: Key,
        shape: Shape,
        define: impl FnOnce() -> Result<SeriesDef, E>,
    ) -> Result<SlotId, E> {
        if let Some(slot) = self.aliases.get(&key.0) {
            return Ok(SlotId(*slot));
        }
        let series = define()?;
        let slot = match self.identities.get(&(series.labels.clone(), shape)) {
            Some(slot) => *slot,
            None if self.slots.len() >= self.limits.series => return Ok(SlotId(self.overflow(shape))),
            None => self.add(series, shape, false),
        };
        if self.aliases.len() >= ALIASES_PER_SERIES * self.limits.series {
            self.aliases.clear();
        }
        assert!((slot as usize) < self.slots.len(), "slot {slot} of {}", self.slots.len());
        self.aliases.insert(key.0, slot);
        Ok(SlotId(slot))
    }

    fn overflow(&mut self, shape: Shape) -> u32 {
        let series = overflow_series(shape).expect("own labels keep the rules");
        match self.identities.get(&(series.labels.clone(), shape)) {
            Some(slot) => *slot,
            None => self.add(series, shape, true),
        }
    }

    fn add(&mut self, series: SeriesDef, shape: Shape, is_overflow: bool) -> u32 {
        let slot = self.slots.len() as u32;
        let before = self.identities.insert((series.labels.clone(), shape), slot);
        assert!(before.is_none(), "a series has one slot");
        let (rest, level, last) = (0.0, 0.0, WallNs::MIN);
        self.slots.push(Slot { series, shape, is_overflow, state: State::Empty, rest, level, last });
        slot
    }

    /// Adds a measurement of `slot` made at `time`.
    ///
    /// # Errors
    /// [`Refused`] when it was not added.
    ///
    /// # Panics
    /// When the measurement does not fit the shape of the slot.
    pub fn put(&mut self, slot: SlotId, time: WallNs, measured: Measured<'_>) -> Result<(), Refused> {
        let (index, end) = (slot.0, cell_end(time));
        debug_assert!(end >= time || end == WallNs::MAX, "a cell holds what is before its end");
        let held = &mut self.slots[index as usize];
        let state = if end == self.end {
            if matches!(held.state, State::Empty) {
                held.state = held.shape.state();
                self.touched.push(index);
            }
            &mut held.state
        } else {
            if self.others.len() >= self.limits.cells && !self.others.contains_key(&(index, end)) {
                return Err(Refused::Cells);
            }
            self.others.entry((index, end)).or_insert_with(|| held.shape.state())
        };
        held.last = held.last.max(end);
        self.counts.folded += u64::from(held.is_overflow);
        match (state, measured) {
            (State::Count(sum), Measured::Add(amount)) => *sum += amount,
            (State::Gauge(value), Measured::Set(level)) => {
                held.level = level;
                *value = level;
            }
            (State::Gauge(value), Measured::Shift(by)) => {
                held.level += by;
                *value = held.level;
            }
            (State::Distinct(members), Measured::Member(member)) => {
                let member = XxHash3_64::oneshot(member);
                if self.members < self.limits.members {
                    self.members += usize::from(members.insert(member));
                } else if !members.contains(&member) {
                    self.counts.members_over += 1;
                }
            }
            (State::Histogram(histogram), Measured::Observe { value, weight }) => {
                let weight = weight + held.rest;
                let whole = (weight + WEIGHT_SLACK).floor();
                held.rest = (weight - whole).max(0.0);
                debug_assert!(held.rest < 1.0 || !weight.is_finite(), "a rest of {} counts", held.rest);
                histogram.record_n(value, whole as u64);
            }
            (state, measured) => panic!("{measured:?} does not fit {state:?}"),
        }
        Ok(())
    }

    /// Advances the time to `now`: the cells before the one that contains it are complete.
    pub fn advance(&mut self, now: WallNs) {
        let end = cell_end(now);
        if end <= self.end {
            return;
        }
        let (before, touched) = (self.end, take(&mut self.touched));
        for slot in touched {
            let held = &mut self.slots[slot as usize];
            let (series, state) = (held.series.clone(), take(&mut held.state));
            self.close(series, before, state);
        }
        assert!(self.touched.is_empty() && before < end, "nothing of the cell at {before} is open");
        self.end = end;
    }

    fn close(&mut self, series: SeriesDef, time: WallNs, state: State) {
        assert!(self.members >= state.members(), "{} members in open cells", self.members);
        self.members -= state.members();
        let Some(value) = state.value() else { return };
        if self.closed.len() >= self.limits.cells {
            self.counts.cells_lost += 1;
            return;
        }
        self.closed.push(Cell { series, time, value });
    }

    /// The cells that are complete at `now`, and those of seconds other than the current one as far as they are known.
    #[must_use]
    pub fn take(&mut self, now: WallNs) -> Vec<Cell> {
        self.advance(now);
        for ((slot, end), state) in take(&mut self.others) {
            let series = self.slots[slot as usize].series.clone();
            self.close(series, end, state);
        }
        assert!(self.others.is_empty(), "cells of other seconds are given away");
        if self.end.since(self.swept) >= Ns::from_secs(60) {
            self.sweep();
        }
        take(&mut self.closed)
    }

    /// Every cell, including the one that is still open: for the end.
    #[must_use]
    pub fn finish(&mut self) -> Vec<Cell> {
        self.take(self.end.saturating_add(Ns(1)))
    }

    /// Forgets series without a measurement for a while. They have no open cells: `take` was called before.
    fn sweep(&mut self) {
        self.swept = self.end;
        let oldest = self.end.saturating_sub(Ns::from_secs(self.limits.idle_seconds));
        let kept = |slot: &Slot| slot.last >= oldest || !matches!(slot.state, State::Empty);
        if self.slots.iter().all(kept) {
            return;
        }
        self.slots.retain(kept);
        self.aliases.clear();
        let named = self.slots.iter().enumerate();
        self.identities = named.map(|(at, slot)| ((slot.series.labels.clone(), slot.shape), at as u32)).collect();
        let open = self.slots.iter().enumerate().filter(|(_, slot)| !matches!(slot.state, State::Empty));
        self.touched = open.map(|(at, _)| at as u32).collect();
        assert_eq!(self.identities.len(), self.slots.len(), "each series has one slot");
    }
}

fn overflow_series(shape: Shape) -> Result<SeriesDef, Error> {
    let meta = shape.meta("");
    let pairs = [
        (METRIC_NAME, OVERFLOW_NAME),
        ("kind", meta.kind.as_str()),
        ("reason", "quantizer_series"),
        ("shape", shape.name()),
        ("temporality", meta.temporality.as_str()),
    ];
    SeriesDef::new(pairs, meta)
}

#[cfg(test)]
mod tests;
