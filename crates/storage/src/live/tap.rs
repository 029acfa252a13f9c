//! The two ends of the cells: what a shard of the store puts in, and what comes out when they close.

use std::collections::HashMap;
use std::sync::Arc;

use ogive_model::{Kind, SeriesId, Temporality, Value, WallMs, WallNs};
use ogive_store::{Followed, Follower};
use ogive_stream::cells::{Closed, Content, Feeder, Item, ItemValue, Sink};

use super::board::{Board, UnfitReason, second_of};

/// Feeds what a shard of the store applies.
pub(super) struct Tap {
    board: Arc<Board>,
    feeder: Feeder,
    /// The series by the shard's numbers.
    slots: HashMap<u32, SeriesId>,
}

impl Tap {
    pub(super) fn new(board: Arc<Board>, feeder: Feeder) -> Self {
        Self { board, feeder, slots: HashMap::new() }
    }
}

impl Follower for Tap {
    fn begin(&mut self, followed: Followed<'_>) -> bool {
        let Followed { watch, slot, series, def, applied, .. } = followed;
        if def.meta.kind == Kind::Text {
            return false;
        }
        // Numbers are not part of a column, but a reader that finds nothing else is notified.
        if def.meta.kind == Kind::Float || def.meta.temporality != Temporality::Delta {
            self.board.unfit(watch, UnfitReason::Kind);
            return false;
        }
        let is_wide = !(1..=1_000).contains(&def.meta.width_ms);
        let is_wanted = self.board.begin(watch, series, applied, is_wide);
        if is_wanted {
            self.slots.insert(slot, series);
        }
        is_wanted
    }

    fn sample(&mut self, slot: u32, time: WallMs, value: Value, is_certain: bool) {
        let series = self.slots[&slot];
        let part = match value {
            Value::Histogram(part) => part,
            Value::FloatHistogram(_) => return self.board.unfit_series(series, UnfitReason::Kind),
            Value::Float(_) | Value::Text(_) => unreachable!("a series of histograms has no other values"),
        };
        let item = Item { series, time_ns: time.to_ns().0, what: ItemValue::Part(part) };
        if is_certain && self.feeder.offer_unordered([item]).fed == 1 {
            self.board.counts.fed.add(1);
        } else {
            self.board.doubt(series, time);
        }
    }

    fn pass(&mut self, until: WallNs) {
        // If the ring is full, the next one reports it; a reader waiting for the second reads it from the store.
        self.feeder.offer_until(until);
    }
}

/// Puts closed cells on the board.
pub(super) struct BoardWriter {
    board: Arc<Board>,
    worker: usize,
}

impl BoardWriter {
    pub(super) fn new(board: Arc<Board>, worker: usize) -> Self {
        Self { board, worker }
    }
}

impl Sink for BoardWriter {
    fn cell(&mut self, closed: &Closed<'_>) {
        if let Content::Values(cell) = closed.content {
            self.board.cell(closed.series, closed.end.0 / 1_000_000_000, closed.is_late, cell.histogram());
        }
    }

    fn closed(&mut self, end: WallNs) {
        self.board.reported(self.worker, end.0 / 1_000_000_000);
    }

    fn refused(&mut self, series: SeriesId, time: WallNs) {
        let time_ms = time.to_ms();
        debug_assert_eq!(second_of(time_ms), (time.0 - 1).div_euclid(1_000_000_000) + 1, "whole milliseconds");
        self.board.doubt(series, time_ms);
    }
}
