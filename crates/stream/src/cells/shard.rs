//! A shard: the cells of the series that map to it, owned by one thread.
//!
//! Invariants: those of [`crate::cells`]. A cell that ends at or before `closed` is never open. The newest open cell of
//! a series is in its table entry; every other open one, and everything late, is in [`SecondCells`].
//! Limits: `series_max` and `cells_max` of [`Options`], for numbers and values each.

use std::collections::BTreeMap;

use ogive_model::{Ns, SeriesId, WallNs};

use super::open::{CellState, SecondCells};
use super::table::{Entry, Lookup, Table};
use super::{Closed, Content, Distribution, FloatCell, Item, ItemValue, Options, Refused, Sink, WIDTH_NS, cell_of};

/// The statistics of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Items that are in cells.
    pub taken: u64,
    /// How many of them had a cell that was already emitted.
    pub late: u64,
    /// Items that are not, by reason, in the order of [`Refused::ALL`].
    refused: [u64; Refused::ALL.len()],
    /// Cells and fragments that were emitted.
    pub reported: u64,
}

impl Counts {
    /// Items that were refused for `reason`.
    #[must_use]
    pub fn refused(&self, reason: Refused) -> u64 {
        self.refused[reason as usize]
    }

    /// Items that were refused.
    #[must_use]
    pub fn refused_total(&self) -> u64 {
        self.refused.iter().sum()
    }

    pub(crate) fn refuse(&mut self, reason: Refused) {
        self.refused[reason as usize] += 1;
    }

    /// Adds the counts of another one.
    pub fn add(&mut self, other: &Self) {
        self.taken += other.taken;
        self.late += other.late;
        self.reported += other.reported;
        self.refused.iter_mut().zip(other.refused).for_each(|(count, more)| *count += more);
    }
}

/// Cells of one kind.
#[derive(Debug)]
struct KindCells<C> {
    table: Table<C>,
    /// By their end.
    others: BTreeMap<u32, SecondCells<C>>,
    others_len: usize,
    /// `closed` when idle series were last looked for.
    swept: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Shard {
    options: Options,
    numbers: KindCells<FloatCell>,
    values: KindCells<Distribution>,
    /// Cells that end here, in seconds, or before are emitted.
    closed: u32,
    counts: Counts,
    /// The series and times of refused items, until they are collected.
    refusals: Vec<(SeriesId, WallNs)>,
}

/// As many as a worker puts at once, so that it misses none; if they are never collected, no more are kept.
pub(super) const REFUSALS_MAX: usize = 1_024;

impl Shard {
    /// An empty one.
    ///
    /// # Panics
    /// When the look-ahead is 0 or above [`Options::LOOKAHEAD_MAX`].
    #[must_use]
    pub fn new(options: Options) -> Self {
        assert!((1..=Options::LOOKAHEAD_MAX).contains(&options.lookahead), "a look-ahead of {}", options.lookahead);
        Self {
            options,
            numbers: KindCells::new(),
            values: KindCells::new(),
            closed: 0,
            counts: Counts::default(),
            refusals: Vec::new(),
        }
    }

    /// Its statistics so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Series that it holds.
    #[must_use]
    pub fn series(&self) -> usize {
        self.numbers.table.len() + self.values.table.len()
    }

    /// Bytes of its tables: the memory that random look-ups touch.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.numbers.table.bytes() + self.values.table.bytes()
    }

    /// Bytes of open distributions outside the tables.
    #[must_use]
    pub fn values_bytes(&mut self) -> usize {
        self.values.table.iter_mut().map(|entry| entry.cell.heap_bytes()).sum()
    }

    /// Adds items; as many as the look-ahead are looked up together before the first of them is changed.
    pub fn put(&mut self, items: &mut Vec<Item>) {
        let mut rest = items.drain(..);
        let mut batch: [Option<Item>; Options::LOOKAHEAD_MAX] = [const { None }; Options::LOOKAHEAD_MAX];
        loop {
            let mut count = 0;
            for item in rest.by_ref().take(self.options.lookahead) {
                batch[count] = Some(item);
                count += 1;
            }
            if count == 0 {
                return;
            }
            self.put_batch(&mut batch[..count]);
        }
    }

    /// As [`Shard::put`] without calculating or keeping cells: the cost of the look-ups alone.
    pub fn touch(&mut self, items: &[Item]) {
        for batch in items.chunks(self.options.lookahead) {
            self.numbers.make_room(batch.len(), self.closed, &self.options);
            self.values.make_room(batch.len(), self.closed, &self.options);
            let mut places = [FirstPlace::default(); Options::LOOKAHEAD_MAX];
            for (item, place) in batch.iter().zip(&mut places) {
                *place = match item.what {
                    ItemValue::Number(_) => self.numbers.look(item.series.0),
                    ItemValue::Value(_) | ItemValue::Part(_) => self.values.look(item.series.0),
                };
            }
            for (item, place) in batch.iter().zip(places) {
                let series_max = self.options.series_max;
                let end = cell_of(item.time_ns).unwrap_or(1);
                let found = match item.what {
                    ItemValue::Number(_) => self.numbers.touch(item.series.0, end, place, series_max),
                    ItemValue::Value(_) | ItemValue::Part(_) => {
                        self.values.touch(item.series.0, end, place, series_max)
                    }
                };
                match found {
                    Ok(()) => self.counts.taken += 1,
                    Err(reason) => self.counts.refuse(reason),
                }
            }
        }
    }

    fn put_batch(&mut self, batch: &mut [Option<Item>]) {
        debug_assert!(batch.len() <= self.options.lookahead, "{} items at once", batch.len());
        // Nothing grows under the places that are looked up now.
        self.numbers.make_room(batch.len(), self.closed, &self.options);
        self.values.make_room(batch.len(), self.closed, &self.options);
        let mut places = [FirstPlace::default(); Options::LOOKAHEAD_MAX];
        for (item, place) in batch.iter().zip(&mut places) {
            let item = item.as_ref().expect("filled up to its length");
            *place = match item.what {
                ItemValue::Number(_) => self.numbers.look(item.series.0),
                ItemValue::Value(_) | ItemValue::Part(_) => self.values.look(item.series.0),
            };
        }
        for (item, place) in batch.iter_mut().zip(places) {
            let item = item.take().expect("filled up to its length");
            self.put_one(item, place);
        }
    }

    #[inline]
    fn put_one(&mut self, item: Item, place: FirstPlace) {
        let (series, time) = (item.series, WallNs(item.time_ns));
        let taken = match cell_of(item.time_ns) {
            None => Err(Refused::Time),
            Some(_) if matches!(item.what, ItemValue::Number(number) if number.is_nan()) => Err(Refused::NotANumber),
            Some(end) => {
                let at = At { end, closed: self.closed };
                match item.what {
                    ItemValue::Number(_) => self.numbers.put(item, at, place, &self.options),
                    ItemValue::Value(_) | ItemValue::Part(_) => self.values.put(item, at, place, &self.options),
                }
            }
        };
        match taken {
            Ok(is_late) => {
                self.counts.taken += 1;
                self.counts.late += u64::from(is_late);
            }
            Err(reason) => {
                self.counts.refuse(reason);
                if self.refusals.len() < REFUSALS_MAX {
                    self.refusals.push((series, time));
                }
            }
        }
    }

    /// The series and times of what was refused since the last call, the first [`REFUSALS_MAX`].
    pub(super) fn take_refusals(&mut self) -> impl Iterator<Item = (SeriesId, WallNs)> + '_ {
        self.refusals.drain(..)
    }

    /// Nothing before `watermark` is expected any more: reports the cells that ended, in the order of time, and late
    /// additions to those that were already reported.
    pub fn advance(&mut self, watermark: WallNs, sink: &mut impl Sink) {
        // Items at the watermark itself may still arrive.
        let until = (watermark.0.max(0) / WIDTH_NS).min(i64::from(u32::MAX)) as u32;
        let until = until - u32::from(until > 0 && i64::from(until) * WIDTH_NS == watermark.0);
        let (before, until) = (self.closed, until.max(self.closed));
        if until == before && self.numbers.first_other(until).is_none() && self.values.first_other(until).is_none() {
            return;
        }
        assert!(until >= before, "what is closed stays closed");
        self.closed = until;
        let is_one_second = until == before + 1;
        if until > before && !is_one_second {
            // Entries of several seconds are reported in that order.
            self.numbers.move_closed(before, until);
            self.values.move_closed(before, until);
        }
        let (numbers, values, reported) = (&mut self.numbers, &mut self.values, &mut self.counts.reported);
        while let Some(end) = numbers.first_other(until).into_iter().chain(values.first_other(until)).min() {
            assert!(end <= until, "a cell that ends at {end} is open until {until}");
            let is_late = end <= before;
            numbers.report_others(end, is_late, reported, sink);
            values.report_others(end, is_late, reported, sink);
        }
        if is_one_second {
            numbers.report_newest(until, reported, sink);
            values.report_newest(until, reported, sink);
        }
        debug_assert!(self.numbers.is_open_after(until) && self.values.is_open_after(until), "{until} is closed");
        sink.closed(WallNs(i64::from(until) * WIDTH_NS));
    }
}

/// The time of an item.
#[derive(Clone, Copy)]
struct At {
    end: u32,
    closed: u32,
}

/// Where the table first looks for a series, and whether it is there.
#[derive(Clone, Copy, Default)]
struct FirstPlace {
    place: usize,
    is_there: bool,
}

impl<C: CellState> KindCells<C> {
    fn new() -> Self {
        Self { table: Table::new(), others: BTreeMap::new(), others_len: 0, swept: 0 }
    }

    /// Makes room for `more` new series, if the limits permit it.
    fn make_room(&mut self, more: usize, closed: u32, options: &Options) {
        if self.table.has_room(more) {
            return;
        }
        let oldest = closed.saturating_sub(options.idle_seconds);
        let is_used = |entry: &Entry<C>| entry.end >= oldest;
        // At the limit it is looked for idle ones once a minute at the most.
        if self.table.len() < options.series_max || closed >= self.swept.saturating_add(60) {
            self.swept = closed;
            self.table.rebuild(more, is_used);
        }
    }

    /// The first place of a series, and whether it is there.
    #[inline]
    fn look(&self, series: u128) -> FirstPlace {
        let place = self.table.first_place(series);
        FirstPlace { place, is_there: self.table.is_at(place, series) }
    }

    /// The slot of a series; a new one begins at `end`.
    #[inline]
    fn place(&mut self, series: u128, end: u32, first: FirstPlace, series_max: usize) -> Result<usize, Refused> {
        // An item before this one may have filled the entry that was vacant: look again.
        match if first.is_there { Lookup::At(first.place) } else { self.table.find(series, first.place) } {
            Lookup::At(place) => Ok(place),
            Lookup::Vacant(_) if self.table.len() >= series_max || !self.table.has_room(1) => Err(Refused::Series),
            Lookup::Vacant(place) => {
                self.table.insert(place, series, end);
                Ok(place)
            }
        }
    }

    /// Leaves a mark where a series is.
    #[inline]
    fn touch(&mut self, series: u128, end: u32, first: FirstPlace, series_max: usize) -> Result<(), Refused> {
        let place = self.place(series, end, first, series_max)?;
        self.table.entry(place).end = end;
        Ok(())
    }

    /// Adds an item; true when its cell was already emitted.
    #[inline]
    fn put(
        &mut self,
        item: Item,
        At { end, closed }: At,
        first: FirstPlace,
        options: &Options,
    ) -> Result<bool, Refused> {
        let Item { series, time_ns, what } = item;
        if end <= closed {
            if Ns::from_secs((closed - end).into()) >= options.lateness {
                return Err(Refused::TooLate);
            }
            return self.put_other(series.0, end, time_ns, what, options).map(|()| true);
        }
        let place = self.place(series.0, end, first, options.series_max)?;
        let entry = self.table.entry(place);
        debug_assert!(entry.series == series.0 && end > closed, "an open cell of its series");
        if entry.end == end {
            return entry.cell.add(time_ns, what).map(|()| false);
        }
        if entry.end > end {
            return self.put_other(series.0, end, time_ns, what, options).map(|()| false);
        }
        if entry.end > closed {
            if self.others_len >= options.cells_max {
                return Err(Refused::Cells);
            }
            let displaced = (entry.end, entry.cell.take());
            self.others_len += 1;
            self.others.entry(displaced.0).or_default().displaced(series.0, displaced.1);
        }
        entry_begins(self.table.entry(place), end);
        self.table.entry(place).cell.add(time_ns, what).map(|()| false)
    }

    /// Adds an item to a cell that is not the newest of its series.
    #[cold]
    fn put_other(
        &mut self,
        series: u128,
        end: u32,
        time_ns: i64,
        what: ItemValue,
        options: &Options,
    ) -> Result<(), Refused> {
        if self.others_len >= options.cells_max {
            return Err(Refused::Cells);
        }
        let mut cell = C::default();
        cell.add(time_ns, what)?;
        let others = self.others.entry(end).or_default();
        let before = others.len();
        others.push(series, cell);
        assert!(others.len() <= before + 1, "one item makes one cell at most");
        self.others_len = self.others_len + others.len() - before;
        Ok(())
    }

    /// The first second up to `until` that has cells outside the table.
    fn first_other(&self, until: u32) -> Option<u32> {
        self.others.first_key_value().map(|(end, _)| *end).filter(|end| *end <= until)
    }

    /// Whether no cell outside the table ends at `until` or before.
    fn is_open_after(&self, until: u32) -> bool {
        self.others.keys().all(|end| *end > until)
            && self.others_len == self.others.values().map(SecondCells::len).sum::<usize>()
    }

    /// Moves the cells out of the table that closed.
    fn move_closed(&mut self, before: u32, until: u32) {
        for entry in self.table.iter_mut().filter(|entry| before < entry.end && entry.end <= until) {
            self.others_len += 1;
            self.others.entry(entry.end).or_default().displaced(entry.series, entry.cell.take());
        }
    }
}

impl<C: CellState + CellContent> KindCells<C> {
    fn report_others(&mut self, end: u32, is_late: bool, reported: &mut u64, sink: &mut impl Sink) {
        let Some(mut others) = self.others.remove(&end) else { return };
        assert!(self.others_len >= others.len(), "{} cells beside the table", self.others_len);
        self.others_len -= others.len();
        others.merge();
        for (series, cell) in others.iter() {
            report(*series, end, is_late, cell, reported, sink);
        }
    }

    /// Reports the cells of the table that end at `end`.
    fn report_newest(&mut self, end: u32, reported: &mut u64, sink: &mut impl Sink) {
        for entry in self.table.iter_mut().filter(|entry| entry.end == end) {
            report(entry.series, end, false, &entry.cell, reported, sink);
            entry.cell.clear();
        }
    }
}

fn entry_begins<C: CellState>(entry: &mut Entry<C>, end: u32) {
    debug_assert!(entry.end <= end, "the newest cell goes from {} to {end}", entry.end);
    entry.end = end;
    entry.cell.clear();
}

/// A cell that can be reported.
trait CellContent {
    fn content(&self) -> Content<'_>;
}

impl CellContent for FloatCell {
    fn content(&self) -> Content<'_> {
        Content::Numbers(self)
    }
}

impl CellContent for Distribution {
    fn content(&self) -> Content<'_> {
        Content::Values(self)
    }
}

fn report<C: CellContent>(series: u128, end: u32, is_late: bool, cell: &C, reported: &mut u64, sink: &mut impl Sink) {
    *reported += 1;
    let (series, end) = (SeriesId(series), WallNs(i64::from(end) * WIDTH_NS));
    sink.cell(&Closed { series, end, is_late, content: cell.content() });
}
