//! Live cells: samples of millions of series, in any order, become cells of one second that close once and in order.
//!
//! ```text
//! Feeder --ring--> Worker (Shard: tables, open cells) --> Sink
//! Feeder --ring-->   |
//! ```
//!
//! A [`Feeder`] belongs to a thread that has samples (a listener, the store's journal writer, a replay); it tracks the
//! progress of each of its sources. A [`Worker`] owns one [`Shard`]: the series whose identities map to it. [`stream`]
//! creates both, with a bounded ring between each pair. With a single thread, use a [`Shard`] without them.
//!
//! Invariants: each accepted item is in exactly one cell; a refused one is counted by reason ([`Refused`]), so that
//! measured = in cells + refused. Cells of one second are emitted in any order, seconds in ascending order. A cell is
//! emitted once, and again, as a fragment marked as late, for each `advance` that finds late items of it. Merged by
//! series and end, the emitted cells do not depend on the order of arrival, on the number of shards, or on which feeder
//! was used (sums of doubles: up to rounding).
//! Threads: a shard has one owner, a ring one writer and one reader; nothing else is shared.
//! Limits: [`Options`].
//! Failure: a full ring makes [`Feeder::feed`] wait and [`Feeder::offer`] skip and count.

mod feeder;
mod float;
mod open;
mod shard;
mod sources;
mod table;
mod values;
mod wait;

#[cfg(test)]
mod tests;

use ogive_hist::Histogram;
use ogive_model::{Ns, SeriesId, WallNs};

pub use feeder::{Fed, Feeder, Worker, shard_of, stream};
pub use float::FloatCell;
pub use shard::{Counts, Shard};
pub use values::Distribution;
pub use wait::{Hybrid, Wait};

/// Cells are a second wide.
pub(crate) const WIDTH_NS: i64 = 1_000_000_000;

/// A sample or measurement of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Whose it is. A series has numbers or values, never both.
    pub series: SeriesId,
    /// When it was, nanoseconds since the Unix epoch: as a sample has it.
    pub time_ns: i64,
    /// What it is.
    pub what: ItemValue,
}

/// What an [`Item`] is.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemValue {
    /// A number: its series gets count, sum, least, greatest and last.
    Number(f64),
    /// One value of a distribution.
    Value(f64),
    /// A part of a distribution that was made elsewhere.
    Part(Box<Histogram>),
}

// A ring's places and a batch's: one number more would make them four thirds as large.
const _: () = assert!(size_of::<Item>() == 48);

/// Why an item was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refused {
    /// Its time is before 1970, after 2106, or further ahead of the clock than may be.
    Time,
    /// Its cell closed longer ago than the lateness.
    TooLate,
    /// As many series as may be are there, and none is idle.
    Series,
    /// As many cells beside the newest ones of their series are open as may be.
    Cells,
    /// A number that is not one: a marker of staleness, or a sensor's fault.
    NotANumber,
    /// A part whose bins do not fit those that its cell has.
    Scheme,
}

impl Refused {
    /// Each reason.
    pub const ALL: [Self; 6] = [Self::Time, Self::TooLate, Self::Series, Self::Cells, Self::NotANumber, Self::Scheme];

    /// Name in figures and labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::TooLate => "too_late",
            Self::Series => "series_limit",
            Self::Cells => "cells_limit",
            Self::NotANumber => "not_a_number",
            Self::Scheme => "scheme",
        }
    }
}

/// A cell that is reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Closed<'a> {
    /// Its series.
    pub series: SeriesId,
    /// Its end: it covers the second before.
    pub end: WallNs,
    /// What came after the cell was emitted: a fragment to be merged with it.
    pub is_late: bool,
    /// What happened in it.
    pub content: Content<'a>,
}

/// What happened in a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Content<'a> {
    /// Of a series of numbers.
    Numbers(&'a FloatCell),
    /// Of a series of values.
    Values(&'a Distribution),
}

/// Hears of cells that close. Called on the shard's thread, so it should not wait.
pub trait Sink {
    /// A cell closed, or a fragment of a closed one came.
    fn cell(&mut self, closed: &Closed<'_>);

    /// Every cell that ends at or before `end` was emitted.
    fn closed(&mut self, _end: WallNs) {}

    /// An item was refused: the cell of its series and time lacks it.
    fn refused(&mut self, _series: SeriesId, _time: WallNs) {}
}

impl<F: FnMut(&Closed<'_>)> Sink for F {
    fn cell(&mut self, closed: &Closed<'_>) {
        self(closed);
    }
}

/// How a stream behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How far a source's own samples may come out of their order: its watermark stays so far behind its newest sample.
    pub disorder: Ns,
    /// How long after a cell closed items of it are still taken, as late fragments.
    pub lateness: Ns,
    /// By the wall clock, nobody is waited for longer than this after a cell's end. `None`: watermarks of sources alone
    /// decide, for a replay.
    pub patience: Option<Ns>,
    /// A source that sent nothing for so long holds no watermark back.
    pub idle: Ns,
    /// Samples further ahead of the clock than this are refused: one of them would make everything else late.
    pub ahead: Ns,
    /// Series of a shard, of each kind.
    pub series_max: usize,
    /// Cells of a shard, of each kind, that are open beside the newest one of their series.
    pub cells_max: usize,
    /// A series without an item for so many seconds makes room when there is none.
    pub idle_seconds: u32,
    /// Items that are looked up together, so that their cache misses overlap; 1 looks each one up alone.
    pub lookahead: usize,
}

impl Options {
    /// More than 64 gain nothing: a core has some 16 to 48 misses in flight.
    pub const LOOKAHEAD_MAX: usize = 64;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            disorder: Ns::ZERO,
            // A minute: a sender that was cut off for a moment; what is later is in the store all the same.
            lateness: Ns::from_secs(60),
            // 250 ms: cells made on this machine arrive within some 20 ms of their end; a sender on the same network
            // within a few more.
            patience: Some(Ns(WIDTH_NS / 4)),
            idle: Ns::from_secs(5),
            ahead: Ns::from_secs(10),
            // 2 Mi series take 4 Mi places of 64 bytes at the most: 256 MiB.
            series_max: 2 << 20,
            // 2 Mi cells of 64 bytes: 128 MiB.
            cells_max: 2 << 20,
            idle_seconds: 3_600,
            lookahead: 32,
        }
    }
}

/// The number of the cell that an instant belongs to, by its end in seconds: cell n is (n - 1 s, n].
fn cell_of(time_ns: i64) -> Option<u32> {
    if time_ns <= 0 {
        return None;
    }
    u32::try_from((time_ns - 1) / WIDTH_NS + 1).ok()
}
