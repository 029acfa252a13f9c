//! The cell of a series of numbers.

use ogive_model::WallNs;

use super::{ItemValue, Refused, WIDTH_NS};
use crate::cells::open::CellState;

/// A summary of a number in one second. Cells of a series and a second merge in any order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloatCell {
    /// The number of values: one second of one thread has far fewer than 2^32.
    pub count: u32,
    /// The time of the last one, nanoseconds after the cell's start.
    last_offset: u32,
    /// Their sum.
    pub sum: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The last by time; of two at the same instant the greater one, whatever the order of arrival.
    pub last: f64,
}

impl Default for FloatCell {
    fn default() -> Self {
        Self { count: 0, last_offset: 0, sum: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY, last: f64::NEG_INFINITY }
    }
}

impl FloatCell {
    /// When the last one was, in a cell that ends at `end`.
    #[must_use]
    pub fn last_at(&self, end: WallNs) -> WallNs {
        debug_assert!(i64::from(self.last_offset) <= WIDTH_NS, "{} ns after a cell's begin", self.last_offset);
        WallNs(end.0 - WIDTH_NS + i64::from(self.last_offset))
    }

    /// Merges another cell of the same series and second.
    pub fn merge(&mut self, other: &Self) {
        debug_assert!(other.count == 0 || other.min <= other.max, "{} to {}", other.min, other.max);
        self.count = self.count.saturating_add(other.count);
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.follow(other.last_offset, other.last);
    }

    #[inline]
    fn follow(&mut self, offset: u32, value: f64) {
        if offset > self.last_offset || (offset == self.last_offset && value.total_cmp(&self.last).is_gt()) {
            (self.last_offset, self.last) = (offset, value);
        }
    }
}

impl CellState for FloatCell {
    #[inline]
    fn add(&mut self, time_ns: i64, what: ItemValue) -> Result<(), Refused> {
        let ItemValue::Number(value) = what else { unreachable!("numbers and values have tables of their own") };
        debug_assert!(!value.is_nan(), "refused before");
        self.count = self.count.saturating_add(1);
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        // In 1..=10^9: the cell's start is not part of it.
        let offset = ((time_ns - 1) % WIDTH_NS + 1) as u32;
        debug_assert!((1..=WIDTH_NS).contains(&i64::from(offset)), "{offset} ns after a cell's begin");
        self.follow(offset, value);
        Ok(())
    }

    fn join(&mut self, other: &Self) -> bool {
        self.merge(other);
        true
    }

    fn clear(&mut self) {
        *self = Self::default();
    }

    fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}
