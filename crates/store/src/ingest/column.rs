//! The samples of one series in the head: sealed parts that readers share, and an open one.
//!
//! Invariants: rows ascend over all parts, by time and then in the inserter's order within one time; no sealed part is
//! empty; a sealed part that a reader holds is copied before it is changed. A sealed part is compressed where that
//! makes it smaller. A part changed by a late sample is uncompressed until [`Column::pack_late`]: the head, which is
//! notified of it ([`LateRows`]), bounds how much that is ([`super::late_parts`]). Texts are in [`super::text_runs`].
//! Limits: a part has [`Pack::PART_SAMPLES`] samples, twice as many after late ones; the first ones of a series are
//! shorter ([`Pack::FIRST_SAMPLES`]). A series of few samples takes one allocation; spare room in an allocation is
//! counted.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use ogive_model::TimeRange;

use crate::ingest::packed::{COUNT_MAX, Packed};

/// 4 KiB: an open part grows by as much at most, so that of a kind with large rows no more than a few are room only.
/// Once a part of cells is sealed, the next one has its room.
const ROOM_BYTES_MAX: usize = 4096;

/// Parts of each length below [`Pack::PART_SAMPLES`].
const SHORT_PARTS: usize = 4;

/// How a value that is there stands to another one of the same time.
pub(crate) type Ties<'a, V> = &'a dyn Fn(&V, &V) -> Ordering;

/// What an insertion did to a column.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inserted {
    /// Bytes by which the column's allocations grew.
    pub(crate) grown: i64,
    /// The open part was sealed.
    pub(crate) sealed: bool,
    /// A late sample made rows of a sealed part.
    pub(crate) late_rows: Option<LateRows>,
}

/// A sealed part that a late sample made rows of, or the two that it was divided into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LateRows {
    /// Of a sample of each, milliseconds.
    pub(crate) times: [i64; 2],
    /// What they take.
    pub(crate) bytes: u64,
}

/// Samples that are next to each other in time: `(milliseconds, value)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part<V> {
    Rows(Vec<(i64, V)>),
    Packed(Packed),
}

/// What parts are made of.
pub(crate) trait Pack: Clone {
    /// 128 samples: copying an open part of floats for a reader costs a microsecond, and 32 parts are one block's
    /// chunk.
    const PART_SAMPLES: usize = 128;
    /// The first [`SHORT_PARTS`] parts have so many, the next ones twice as many, up to [`Pack::PART_SAMPLES`]: what is
    /// open, and not packed, is a small part of all.
    const FIRST_SAMPLES: usize = Self::PART_SAMPLES;
    /// So many of the newest samples stay open when a part is sealed, for the fragments that are a little late.
    const OPEN_SAMPLES: usize = 0;

    /// Bytes that it points to.
    fn pointed(&self) -> usize;
    /// The rows packed; none of a kind that is not.
    fn pack(rows: &[(i64, Self)]) -> Option<Packed>;
    /// The rows of what [`Pack::pack`] gave.
    fn unpack(packed: &Packed) -> Vec<(i64, Self)>;
}

impl<V: Pack> Part<V> {
    /// The rows inside `range`.
    pub(crate) fn rows(&self, range: TimeRange) -> Cow<'_, [(i64, V)]> {
        match self {
            Self::Rows(rows) => Cow::Borrowed(within_rows(rows, range)),
            Self::Packed(packed) => {
                let mut rows = V::unpack(packed);
                debug_assert_eq!(rows.len(), packed.len(), "each row of a packed part comes back");
                rows.truncate(rows.partition_point(|row| row.0 <= range.end.0));
                rows.drain(..rows.partition_point(|row| row.0 <= range.start.0));
                Cow::Owned(rows)
            }
        }
    }

    fn all(&self) -> Cow<'_, [(i64, V)]> {
        self.rows(TimeRange::ALL)
    }

    /// The times of its rows, ascending.
    pub(crate) fn times(&self) -> Vec<i64> {
        match self {
            Self::Rows(rows) => rows.iter().map(|row| row.0).collect(),
            Self::Packed(packed) => packed.times(),
        }
    }

    pub(crate) fn first(&self) -> i64 {
        match self {
            Self::Rows(rows) => rows[0].0,
            Self::Packed(packed) => packed.first,
        }
    }

    pub(crate) fn last(&self) -> i64 {
        match self {
            Self::Rows(rows) => rows[rows.len() - 1].0,
            Self::Packed(packed) => packed.last,
        }
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.len(),
            Self::Packed(packed) => packed.len(),
        }
    }

    /// Whether a row is inside `range`.
    pub(crate) fn is_in(&self, range: TimeRange) -> bool {
        let inside = || match self {
            Self::Rows(rows) => !within_rows(rows, range).is_empty(),
            Self::Packed(packed) => packed.is_in(range),
        };
        range.contains_ms(self.first()) || range.contains_ms(self.last()) || inside()
    }

    /// Bytes allocated for a sealed part, with itself, its counters and its place.
    pub(crate) fn bytes(&self) -> usize {
        let of_rows = match self {
            Self::Rows(rows) => bytes_of(rows),
            Self::Packed(packed) => packed.bytes(),
        };
        of_rows + size_of::<Self>() + 3 * size_of::<usize>()
    }

    /// Itself, packed if that makes it smaller.
    pub(crate) fn packed(self) -> Self {
        let packed = match &self {
            Self::Rows(rows) => packed_of(rows),
            Self::Packed(_) => None,
        };
        packed.map_or(self, Self::Packed)
    }
}

/// The rows packed, if that makes them smaller.
fn packed_of<V: Pack>(rows: &[(i64, V)]) -> Option<Packed> {
    let packed = V::pack(rows);
    assert!(packed.as_ref().is_none_or(|packed| packed.len() == rows.len()), "each row of a part is packed");
    let bytes = size_of_val(rows) + rows.iter().map(|row| row.1.pointed()).sum::<usize>();
    packed.filter(|packed| packed.bytes() < bytes)
}

pub(crate) fn within_rows<V>(rows: &[(i64, V)], range: TimeRange) -> &[(i64, V)] {
    let from = rows.partition_point(|row| row.0 <= range.start.0);
    &rows[from..rows.partition_point(|row| row.0 <= range.end.0).max(from)]
}

/// Bytes that rows take, with the room for more.
pub(crate) fn bytes_of<V: Pack>(rows: &Vec<(i64, V)>) -> usize {
    room_of(rows) + rows.iter().map(|row| row.1.pointed()).sum::<usize>()
}

/// The same apart from what the values point to.
const fn room_of<V>(rows: &Vec<(i64, V)>) -> usize {
    rows.capacity() * size_of::<(i64, V)>()
}

/// The parts of one series.
#[derive(Clone, Debug)]
pub(crate) struct Column<V> {
    /// A slice and not a vector, since a million series have one each and it grows with each part.
    sealed: Box<[Arc<Part<V>>]>,
    open: Vec<(i64, V)>,
}

impl<V> Default for Column<V> {
    fn default() -> Self {
        Self { sealed: Box::default(), open: Vec::new() }
    }
}

impl<V: Pack> Column<V> {
    /// Samples of the next part that is sealed.
    fn part_samples(&self) -> usize {
        let doublings = (self.sealed.len() / SHORT_PARTS).min(V::PART_SAMPLES.ilog2() as usize);
        (V::FIRST_SAMPLES << doublings).min(V::PART_SAMPLES)
    }

    /// Time of the newest sample.
    pub(crate) fn last(&self) -> Option<i64> {
        let sealed = || self.sealed.last().map(|part| part.last());
        self.open.last().map(|row| row.0).or_else(sealed)
    }

    /// Puts a value in its place. At one time a value that is there and `value` stand in the order of `ties`, or are
    /// equal without it; one that is equal is instructed to `join` it. Without `ties`, no part is unpacked to be
    /// compared.
    pub(crate) fn insert(
        &mut self,
        time: i64,
        value: V,
        ties: Option<Ties<'_, V>>,
        join: impl FnMut(&mut V, V),
    ) -> Inserted {
        const { assert!(2 * V::PART_SAMPLES <= COUNT_MAX && V::FIRST_SAMPLES <= V::PART_SAMPLES) };
        // Nearly all samples are newer than the last one, which is all that is looked at then.
        if self.open.last().is_some_and(|last| last.0 < time) {
            // A full part stays open for what joins its last sample: the fragments of the current cell.
            let sealed = self.open.len() >= self.part_samples() + V::OPEN_SAMPLES;
            let grown = if sealed { self.seal() } else { 0 } + push(&mut self.open, time, value);
            return Inserted { grown, sealed, late_rows: None };
        }
        let order = |there: &V, value: &V| ties.map_or(Ordering::Equal, |ties| ties(there, value));
        let mut inserted = Inserted::default();
        let place = |row: &(i64, V)| row.0.cmp(&time).then_with(|| order(&row.1, &value));
        let is_late = self.open.first().is_none_or(|first| place(first).is_gt());
        if !is_late || self.sealed.last().is_none_or(|part| place_of_end(part, time, &value, ties).is_lt()) {
            inserted.grown += insert_row(&mut self.open, time, value, order, join);
            if self.open.len() > self.part_samples() + V::OPEN_SAMPLES {
                inserted.grown += self.seal();
                inserted.sealed = true;
            }
            return inserted;
        }
        let at = self.part_of(time, &value, ties);
        let before = self.sealed[at].bytes();
        let was_packed = matches!(*self.sealed[at], Part::Packed(_));
        let mut rows = self.take_rows(at);
        insert_row(&mut rows, time, value, order, join);
        let upper = (rows.len() > 2 * V::PART_SAMPLES).then(|| Part::Rows(rows.split_off(rows.len() / 2)));
        let lower = Part::Rows(rows);
        let after = lower.bytes() + upper.as_ref().map_or(0, Part::bytes);
        inserted.grown += difference(before, after);
        if was_packed || upper.is_some() {
            let times = upper.as_ref().map_or([time; 2], |upper| [lower.last(), upper.first()]);
            inserted.late_rows = Some(LateRows { times, bytes: after as u64 });
        }
        self.sealed[at] = Arc::new(lower);
        debug_assert!(self.sealed[at].len() <= 2 * V::PART_SAMPLES, "a part of {} rows", self.sealed[at].len());
        if let Some(upper) = upper {
            let mut parts = std::mem::take(&mut self.sealed).into_vec();
            parts.insert(at + 1, Arc::new(upper));
            self.sealed = parts.into();
        }
        inserted
    }

    /// Which sealed part a late value belongs into: the last one that begins at or before it, or the first one when
    /// none does.
    fn part_of(&self, time: i64, value: &V, ties: Option<Ties<'_, V>>) -> usize {
        let begins = |part: &Arc<Part<V>>| match (part.first().cmp(&time), ties) {
            (Ordering::Equal, Some(ties)) => ties(&part.all()[0].1, value).is_le(),
            (first, _) => first.is_le(),
        };
        self.sealed.partition_point(begins).saturating_sub(1)
    }

    /// Packs the sealed parts with samples at `times` that are rows, as [`LateRows`] has them. Gives by how many bytes
    /// the column's allocations grew.
    pub(crate) fn pack_late(&mut self, times: [i64; 2]) -> i64 {
        let mut grown = 0;
        for time in times {
            // More than one where points of one time fill several.
            let from = self.sealed.partition_point(|part| part.last() < time);
            let end = self.sealed.partition_point(|part| part.first() <= time);
            for at in from..end {
                grown += self.pack(at);
            }
        }
        grown
    }

    /// Packs a sealed part if it is rows and becomes smaller; a reader that holds it keeps the rows. Gives by how many
    /// bytes it grew.
    fn pack(&mut self, at: usize) -> i64 {
        let part = &self.sealed[at];
        let Part::Rows(rows) = &**part else { return 0 };
        let Some(packed) = packed_of(rows) else { return 0 };
        let packed = Part::<V>::Packed(packed);
        debug_assert_eq!(
            (packed.first(), packed.last()),
            (part.first(), part.last()),
            "a packed part has the times of its rows"
        );
        let grown = difference(part.bytes(), packed.bytes());
        self.sealed[at] = Arc::new(packed);
        grown
    }

    /// The rows of a sealed part to change them: copied when a reader holds them.
    fn take_rows(&mut self, at: usize) -> Vec<(i64, V)> {
        let part = std::mem::replace(&mut self.sealed[at], Arc::new(Part::Rows(Vec::new())));
        let count = part.len();
        let rows = match Arc::try_unwrap(part) {
            Ok(Part::Rows(rows)) => rows,
            Ok(Part::Packed(packed)) => V::unpack(&packed),
            Err(shared) => shared.all().into_owned(),
        };
        assert_eq!(rows.len(), count, "each row of a part that is changed comes back");
        rows
    }

    /// Seals the open part, packed. Gives by how many bytes the column's allocations grew.
    fn seal(&mut self) -> i64 {
        let before = bytes_of(&self.open);
        let count = self.part_samples().min(self.open.len());
        let part = match packed_of(&self.open[..count]) {
            Some(packed) => {
                if V::OPEN_SAMPLES > 0 {
                    // Rows of cells are large: what follows takes their room, which would grow in many steps again. The
                    // next flush gives it back.
                    self.open.drain(..count);
                } else {
                    self.open = self.open.split_off(count);
                    if V::FIRST_SAMPLES < V::PART_SAMPLES {
                        // Short parts follow each other often, and as many samples will come: fewer steps.
                        self.open.reserve_exact(V::FIRST_SAMPLES / 2);
                    }
                }
                Part::Packed(packed)
            }
            None => {
                let rest = self.open.split_off(count);
                let mut rows = std::mem::replace(&mut self.open, rest);
                rows.shrink_to_fit();
                Part::Rows(rows)
            }
        };
        debug_assert!(
            self.open.first().is_none_or(|row| part.last() <= row.0),
            "a part up to {} precedes what stays open",
            part.last()
        );
        let grown = difference(before, part.bytes() + bytes_of(&self.open));
        self.push(part);
        grown
    }

    fn push(&mut self, part: Part<V>) {
        assert!(part.len() > 0, "no sealed part is empty");
        let before = self.sealed.last().map(|before| before.last());
        debug_assert!(before <= Some(part.first()), "a part from {} on follows {before:?}", part.first());
        let mut parts = std::mem::take(&mut self.sealed).into_vec();
        parts.reserve_exact(1);
        parts.push(Arc::new(part));
        self.sealed = parts.into();
    }

    /// The same rows with other values.
    pub(crate) fn map<W: Pack>(&self, value: impl Fn(&V) -> W) -> Column<W> {
        let map = |rows: &[(i64, V)]| rows.iter().map(|row| (row.0, value(&row.1))).collect::<Vec<_>>();
        let part = |part: &Arc<Part<V>>| match &**part {
            Part::Rows(rows) => Arc::new(Part::Rows(map(rows))),
            Part::Packed(_) => Arc::new(Part::Rows(map(&part.all())).packed()),
        };
        Column { sealed: self.sealed.iter().map(part).collect(), open: map(&self.open) }
    }

    /// Bytes allocated.
    pub(crate) fn bytes(&self) -> usize {
        self.sealed.iter().map(|part| part.bytes()).sum::<usize>() + bytes_of(&self.open)
    }

    /// Bytes of the sealed parts that are rows.
    #[cfg(test)]
    pub(crate) fn rows_bytes(&self) -> usize {
        let rows = self.sealed.iter().filter(|part| matches!(***part, Part::Rows(_)));
        rows.map(|part| part.bytes()).sum()
    }

    /// All samples so far, as shared parts; the column is empty then.
    pub(crate) fn take(&mut self) -> Box<[Arc<Part<V>>]> {
        if !self.open.is_empty() {
            // As rows: what is made of them next is a block.
            let rows = std::mem::take(&mut self.open);
            self.push(Part::Rows(rows));
        }
        std::mem::take(&mut self.sealed)
    }

    /// The parts with samples inside `range`. Only the open one is copied.
    pub(crate) fn read(&self, range: TimeRange) -> Box<[Arc<Part<V>>]> {
        let mut parts = within(&self.sealed, range);
        let rows = within_rows(&self.open, range);
        if !rows.is_empty() {
            parts.push(Arc::new(Part::Rows(rows.to_vec())));
        }
        parts.into()
    }

    /// Whether [`Column::read`] finds anything.
    pub(crate) fn holds(&self, range: TimeRange) -> bool {
        !within_rows(&self.open, range).is_empty() || holds(&self.sealed, range)
    }
}

/// Where the last row of a part stands to a value at `time`.
fn place_of_end<V: Pack>(part: &Part<V>, time: i64, value: &V, ties: Option<Ties<'_, V>>) -> Ordering {
    match (part.last().cmp(&time), ties) {
        (Ordering::Equal, Some(ties)) => ties(&part.all().last().expect("a part is not empty").1, value),
        (last, _) => last,
    }
}

/// Bytes by which something grew.
pub(crate) const fn difference(before: usize, after: usize) -> i64 {
    after as i64 - before as i64
}

/// Those of `parts` with samples inside `range`.
pub(crate) fn within<V: Pack>(parts: &[Arc<Part<V>>], range: TimeRange) -> Vec<Arc<Part<V>>> {
    parts_in(parts, range).cloned().collect()
}

/// Whether a sample of `parts` is inside `range`.
pub(crate) fn holds<V: Pack>(parts: &[Arc<Part<V>>], range: TimeRange) -> bool {
    parts_in(parts, range).next().is_some()
}

fn parts_in<V: Pack>(parts: &[Arc<Part<V>>], range: TimeRange) -> impl Iterator<Item = &Arc<Part<V>>> {
    let from = parts.partition_point(|part| part.last() <= range.start.0);
    let begun = parts[from..].iter().take_while(move |part| part.first() <= range.end.0);
    begun.filter(move |part| part.is_in(range))
}

/// Puts a value behind the others. Gives by how many bytes the rows grew.
fn push<V: Pack>(rows: &mut Vec<(i64, V)>, time: i64, value: V) -> i64 {
    debug_assert!(rows.last().is_none_or(|last| last.0 < time), "the sample at {time} is not the newest");
    let before = room_of(rows);
    make_room(rows);
    let pointed = value.pointed();
    rows.push((time, value));
    difference(before, room_of(rows) + pointed)
}

/// Puts a value among rows, as [`Column::insert`] has it. Gives by how many bytes they grew.
pub(crate) fn insert_row<V: Pack>(
    rows: &mut Vec<(i64, V)>,
    time: i64,
    value: V,
    order: impl Fn(&V, &V) -> Ordering,
    mut join: impl FnMut(&mut V, V),
) -> i64 {
    if rows.last().is_none_or(|last| last.0 < time) {
        return push(rows, time, value);
    }
    let before = room_of(rows);
    let place = |row: &(i64, V)| row.0.cmp(&time).then_with(|| order(&row.1, &value));
    let after = rows.partition_point(|row| place(row).is_le());
    if after > 0 && place(&rows[after - 1]).is_eq() {
        let there = &mut rows[after - 1].1;
        let before = there.pointed();
        join(there, value);
        difference(before, there.pointed())
    } else {
        make_room(rows);
        let pointed = value.pointed();
        rows.insert(after, (time, value));
        debug_assert!(after == 0 || rows[after - 1].0 <= time, "the sample at {time} follows a later one");
        debug_assert!(
            rows.get(after + 1).is_none_or(|next| time <= next.0),
            "the sample at {time} precedes an earlier one"
        );
        difference(before, room_of(rows) + pointed)
    }
}

/// Room for one more: two at first, since many series have few samples, then twice as many, up to [`ROOM_BYTES_MAX`]
/// more.
fn make_room<V>(rows: &mut Vec<(i64, V)>) {
    if rows.len() == rows.capacity() {
        let most = (ROOM_BYTES_MAX / size_of::<(i64, V)>()).max(2);
        rows.reserve_exact(rows.len().clamp(2, most));
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::WallMs;
    use proptest::prelude::*;

    use super::*;
    use crate::ingest::packed::Columns;

    const PART_SAMPLES: usize = <i64 as Pack>::PART_SAMPLES;

    /// As floats are packed: bit for bit.
    impl Pack for i64 {
        fn pointed(&self) -> usize {
            0
        }

        fn pack(rows: &[(i64, Self)]) -> Option<Packed> {
            let (times, values) = rows.iter().map(|row| (row.0, f64::from_bits(row.1 as u64))).unzip();
            Some(Packed::from_columns(&Columns { times, values, starts: Vec::new() }))
        }

        fn unpack(packed: &Packed) -> Vec<(i64, Self)> {
            let Columns { times, values, .. } = packed.columns();
            times.into_iter().zip(values.into_iter().map(|value| value.to_bits() as i64)).collect()
        }
    }

    #[test]
    fn full_parts_are_packed_and_late_samples_find_them() {
        let mut column = Column::default();
        let add = |column: &mut Column<i64>, time: i64| column.insert(time, 1, None, |there, value| *there += value);
        let add_all = |column: &mut Column<i64>, times: std::ops::Range<i64>| {
            times.for_each(|time| assert!(add(column, time * 10).late_rows.is_none()));
        };
        add_all(&mut column, 0..1000);
        let packed =
            |column: &Column<i64>| column.sealed.iter().filter(|part| matches!(&***part, Part::Packed(_))).count();
        assert_eq!((column.sealed.len(), packed(&column), column.open.len()), (7, 7, 1000 - 7 * PART_SAMPLES));
        assert!(column.bytes() < 7 * 200 + PART_SAMPLES * 16, "{} bytes", column.bytes());
        // The current cell's fragments do not touch what is sealed, an older one's make rows of one part.
        add_all(&mut column, 999..1000);
        assert_eq!(packed(&column), 7);
        let rows = add(&mut column, 8950).late_rows.expect("a packed part became rows");
        assert_eq!((packed(&column), rows.bytes as usize), (6, column.rows_bytes()));
        assert!(add(&mut column, 8945).late_rows.is_none(), "it is rows already");
        add_all(&mut column, 1000..1100);
        assert_eq!((column.sealed.len(), packed(&column)), (8, 7), "it stays so until it is packed");
        let (before, held) = (column.bytes() as i64, column.read(TimeRange::ALL));
        let then = samples(&held, TimeRange::ALL);
        let grown = column.pack_late(rows.times);
        assert_eq!((packed(&column), before + grown), (8, column.bytes() as i64), "also while a reader holds it");
        assert_eq!((samples(&held, TimeRange::ALL), column.pack_late(rows.times)), (then, 0));
    }

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
            let inserted = column.insert(time, value, Some(&i64::cmp), |_, _| met += 1);
            if let Some(rows) = inserted.late_rows.filter(|_| state.is_multiple_of(2)) {
                column.pack_late(rows.times);
            }
            assert_eq!(met == before, model.insert((time, value)));
        }
        let held = samples(&column.read(TimeRange::ALL), TimeRange::ALL);
        assert!(column.sealed.len() > 5 && held.len() > 1500);
        assert_eq!(held, model.into_iter().collect::<Vec<_>>());
    }

    fn samples(parts: &[Arc<Part<i64>>], range: TimeRange) -> Vec<(i64, i64)> {
        parts.iter().flat_map(|part| part.rows(range).into_owned()).collect()
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
            let mut bytes = 0;
            let (mut held, mut late) = (Vec::new(), Vec::new());
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
                let behind = |_: &i64, _: &i64| Ordering::Less;
                let ties: Option<Ties<'_, i64>> = if keep { Some(&behind) } else { None };
                let inserted = column.insert(*time, value, ties, |there, value| *there += value);
                bytes += inserted.grown;
                late.extend(inserted.late_rows);
                // In another order than they became rows, and some never.
                if n.is_multiple_of(3)
                    && let Some(rows) = late.pop() {
                    bytes += column.pack_late(rows.times);
                }
            }
            prop_assert_eq!(bytes, column.bytes() as i64, "what grew is what is there");
            let range = TimeRange::from_ms(bounds.0, bounds.1);
            let inside: Vec<_> = model.iter().copied().filter(|row| range.contains(WallMs(row.0))).collect();
            prop_assert_eq!(column.read(range).is_empty(), inside.is_empty());
            prop_assert_eq!(column.holds(range), !inside.is_empty());
            prop_assert_eq!(samples(&column.read(range), range), inside);
            for (then, parts) in held {
                prop_assert_eq!(samples(&parts, TimeRange::ALL), then, "what a reader holds does not change");
            }
            prop_assert_eq!(samples(&column.take(), TimeRange::ALL), model);
            prop_assert!(column.read(TimeRange::ALL).is_empty());
        }
    }
}
