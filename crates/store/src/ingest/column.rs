//! The samples of one series in the head: sealed parts that readers share, and an open one.
//!
//! Invariants: rows ascend over all parts, by time and then as who inserts them orders those of one time; no sealed part is
//! empty; a sealed part that a reader holds is copied before it is changed.
//! Limits: a part has [`PART_SAMPLES`] samples, twice as many after late ones. A series of few samples takes one
//! allocation; the room that an allocation has left over is counted.

use std::cmp::Ordering;
use std::sync::Arc;

use ogive_model::TimeRange;

/// 128 samples: copying the open part for a reader costs a microsecond, and 32 parts are one block's chunk.
const PART_SAMPLES: usize = 128;

/// Samples that are next to each other in time: `(milliseconds, value)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part<V>(Vec<(i64, V)>);

impl<V> Default for Part<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V> Part<V> {
    /// The rows inside `range`.
    pub(crate) fn rows(&self, range: TimeRange) -> &[(i64, V)] {
        let from = self.0.partition_point(|row| row.0 <= range.start_ms);
        &self.0[from..self.0.partition_point(|row| row.0 <= range.end_ms).max(from)]
    }

    fn first(&self) -> i64 {
        self.0[0].0
    }

    pub(crate) fn last(&self) -> Option<i64> {
        self.0.last().map(|row| row.0)
    }

    /// Bytes allocated, apart from what the values point to.
    const fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<(i64, V)>()
    }

    /// Room for one more: two at first, since many series have few samples, then twice as many.
    fn make_room(&mut self) {
        if self.0.len() == self.0.capacity() {
            self.0.reserve_exact(self.0.len().max(2));
        }
    }
}

/// The parts of one series.
#[derive(Clone, Debug)]
pub(crate) struct Column<V> {
    /// A slice and not a vector, since a million series have one each and it grows each 128 samples.
    sealed: Box<[Arc<Part<V>>]>,
    open: Part<V>,
}

impl<V> Default for Column<V> {
    fn default() -> Self {
        Self { sealed: Box::default(), open: Part::default() }
    }
}

impl<V: Clone> Column<V> {
    /// Puts a value in its place. At one time a value that is there and `value` stand in the `order` of the two; one that is
    /// equal is told to `join` it. Gives by how many bytes the column's allocations grew.
    pub(crate) fn insert(
        &mut self,
        time: i64,
        value: V,
        order: impl Fn(&V, &V) -> Ordering,
        join: impl FnMut(&mut V, V),
    ) -> usize {
        let place = |row: &(i64, V)| row.0.cmp(&time).then_with(|| order(&row.1, &value));
        let is_late = self.open.0.first().is_none_or(|first| place(first).is_gt());
        let end = self.sealed.last().and_then(|part| part.0.last());
        if !is_late || end.is_none_or(|end| place(end).is_lt()) {
            let before = self.open.bytes();
            insert(&mut self.open, time, value, order, join);
            let grown = self.open.bytes() - before;
            if self.open.0.len() >= PART_SAMPLES {
                self.seal();
            }
            return grown;
        }
        // The last sealed part that begins at or before the value, or the first one when none does.
        let at = self.sealed.partition_point(|part| place(&part.0[0]).is_le()).saturating_sub(1);
        let part = Arc::make_mut(&mut self.sealed[at]);
        let before = part.bytes();
        insert(part, time, value, order, join);
        let mut after = part.bytes();
        if part.0.len() > 2 * PART_SAMPLES {
            let upper = Part(part.0.split_off(part.0.len() / 2));
            after += upper.bytes();
            let mut parts = std::mem::take(&mut self.sealed).into_vec();
            parts.insert(at + 1, Arc::new(upper));
            self.sealed = parts.into();
        }
        // A part that a reader holds is copied without the room it had left over.
        after.saturating_sub(before)
    }

    fn seal(&mut self) {
        if !self.open.0.is_empty() {
            let mut parts = std::mem::take(&mut self.sealed).into_vec();
            parts.push(Arc::new(std::mem::take(&mut self.open)));
            self.sealed = parts.into();
        }
    }

    /// The same rows with other values.
    pub(crate) fn map<W>(&self, value: impl Fn(&V) -> W) -> Column<W> {
        let map = |part: &Part<V>| Part(part.0.iter().map(|row| (row.0, value(&row.1))).collect());
        Column { sealed: self.sealed.iter().map(|part| Arc::new(map(part))).collect(), open: map(&self.open) }
    }

    /// Bytes allocated, apart from what the values point to.
    pub(crate) fn bytes(&self) -> usize {
        self.sealed.iter().map(|part| part.bytes()).sum::<usize>() + self.open.bytes()
    }

    /// All samples so far, as shared parts; the column is empty then.
    pub(crate) fn take(&mut self) -> Box<[Arc<Part<V>>]> {
        self.seal();
        std::mem::take(&mut self.sealed)
    }

    /// The parts with samples inside `range`. Only the open one is copied.
    pub(crate) fn read(&self, range: TimeRange) -> Box<[Arc<Part<V>>]> {
        let mut parts = within(&self.sealed, range);
        let rows = self.open.rows(range);
        if !rows.is_empty() {
            parts.push(Arc::new(Part(rows.to_vec())));
        }
        parts.into()
    }
}

/// Those of `parts` with samples inside `range`.
pub(crate) fn within<V>(parts: &[Arc<Part<V>>], range: TimeRange) -> Vec<Arc<Part<V>>> {
    let from = parts.partition_point(|part| part.last().is_some_and(|last| last <= range.start_ms));
    let begun = parts[from..].iter().take_while(|part| part.first() <= range.end_ms);
    begun.filter(|part| !part.rows(range).is_empty()).cloned().collect()
}

fn insert<V>(
    part: &mut Part<V>,
    time: i64,
    value: V,
    order: impl Fn(&V, &V) -> Ordering,
    mut join: impl FnMut(&mut V, V),
) {
    if part.last().is_none_or(|last| last < time) {
        part.make_room();
        part.0.push((time, value));
        return;
    }
    let place = |row: &(i64, V)| row.0.cmp(&time).then_with(|| order(&row.1, &value));
    let after = part.0.partition_point(|row| place(row).is_le());
    if after > 0 && place(&part.0[after - 1]).is_eq() {
        join(&mut part.0[after - 1].1, value);
    } else {
        part.make_room();
        part.0.insert(after, (time, value));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As points with starts are kept: a set in order, however it is parted.
    #[test]
    fn rows_of_one_time_are_a_set_over_all_parts() {
        let mut column = Column::default();
        let mut model = std::collections::BTreeSet::new();
        let (mut met, mut state) = (0, 1_u64);
        for _ in 0..4000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (time, value) = ((state >> 33) as i64 % 3, (state >> 40) as i64 % 600);
            let before = met;
            column.insert(time, value, i64::cmp, |_, _| met += 1);
            assert_eq!(met == before, model.insert((time, value)));
        }
        let held = samples(&column.read(TimeRange::ALL), TimeRange::ALL);
        assert!(column.sealed.len() > 5 && held.len() > 1500);
        assert_eq!(held, model.into_iter().collect::<Vec<_>>());
    }

    fn samples(parts: &[Arc<Part<i64>>], range: TimeRange) -> Vec<(i64, i64)> {
        parts.iter().flat_map(|part| part.rows(range).to_vec()).collect()
    }

    proptest! {
        /// Against a map (or a stable sort, when equal times are kept), with readers that hold parts meanwhile.
        #[test]
        fn a_column_is_a_sorted_map(
            times in prop::collection::vec(prop_oneof![0..2000_i64, 0..40_i64], 0..1500),
            keep in any::<bool>(),
            bounds in (-10..2010_i64, -10..2010_i64),
        ) {
            let mut column = Column::default();
            let mut held = Vec::new();
            let mut model: Vec<(i64, i64)> = Vec::new();
            for (n, time) in times.iter().enumerate() {
                if n % 97 == 0 {
                    let seen = column.read(TimeRange::ALL);
                    held.push((samples(&seen, TimeRange::ALL), seen));
                }
                let value = n as i64;
                let after = model.partition_point(|row| row.0 <= *time);
                match after.checked_sub(1).map(|at| &mut model[at]) {
                    Some(row) if row.0 == *time && !keep => row.1 += value,
                    _ => model.insert(after, (*time, value)),
                }
                let order = |_: &i64, _: &i64| if keep { Ordering::Less } else { Ordering::Equal };
                column.insert(*time, value, order, |there, value| *there += value);
            }
            let range = TimeRange { start_ms: bounds.0, end_ms: bounds.1 };
            let inside: Vec<_> = model.iter().copied().filter(|row| range.contains(row.0)).collect();
            prop_assert_eq!(column.read(range).is_empty(), inside.is_empty());
            prop_assert_eq!(samples(&column.read(range), range), inside);
            for (then, parts) in held {
                prop_assert_eq!(samples(&parts, TimeRange::ALL), then, "what a reader holds does not change");
            }
            prop_assert_eq!(samples(&column.take(), TimeRange::ALL), model);
            prop_assert!(column.read(TimeRange::ALL).is_empty());
        }
    }
}
