//! An open-addressing table: for each series one cache line with its identity, the end of its newest cell, and that
//! cell.
//!
//! Invariants: a series has one slot; probing from its first slot meets no vacant one before it. At most three quarters
//! of the slots are filled.
//! Why no separate tags: a million series in random order cost one cache miss each, and a table of tags would add a
//! second one for no gain, because the first slot is mostly the right one. Identities are hashes, so their lower bits
//! are the slot.

use crate::cells::open::CellState;

/// Places of an empty table: a page.
const PLACES_MIN: usize = 64;

/// A place. Vacant when `end` is 0, which is no cell's.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Entry<C> {
    pub(crate) series: u128,
    /// End of the newest cell, seconds; the cell is open when that is after what is closed.
    pub(crate) end: u32,
    pub(crate) cell: C,
}

const _: () = assert!(size_of::<Entry<super::FloatCell>>() == 64);
const _: () = assert!(size_of::<Entry<super::Distribution>>() == 64);

/// See the module.
#[derive(Debug)]
pub(crate) struct Table<C> {
    entries: Vec<Entry<C>>,
    len: usize,
    /// 64 less the bits of a place.
    shift: u32,
}

/// Where a series is, or would be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Lookup {
    At(usize),
    Vacant(usize),
}

impl<C: CellState> Table<C> {
    pub(crate) fn new() -> Self {
        Self::with_places(PLACES_MIN)
    }

    fn with_places(places: usize) -> Self {
        assert!(places.is_power_of_two() && places >= PLACES_MIN, "{places} places");
        let entries = std::iter::repeat_with(|| Entry { series: 0, end: 0, cell: C::default() }).take(places).collect();
        Self { entries, len: 0, shift: 64 - places.trailing_zeros() }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of the table.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry<C>>()
    }

    /// Whether `more` series fit.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        (self.len + more) * 4 <= self.entries.len() * 3
    }

    #[inline]
    pub(crate) fn first_place(&self, series: u128) -> usize {
        let place = (series as u64 >> self.shift) as usize;
        debug_assert!(place < self.entries.len(), "place {place} of {}", self.entries.len());
        place
    }

    /// Whether the series is in its first slot. Each look-up waits for a cache line, but not for the previous look-up.
    #[inline]
    pub(crate) fn is_at(&self, place: usize, series: u128) -> bool {
        let entry = &self.entries[place];
        entry.series == series && entry.end != 0
    }

    #[inline]
    pub(crate) fn find(&self, series: u128, first: usize) -> Lookup {
        debug_assert!(self.len < self.entries.len(), "a probe ends at a vacant place");
        let mask = self.entries.len() - 1;
        let mut place = first;
        loop {
            let entry = &self.entries[place];
            if entry.end == 0 {
                return Lookup::Vacant(place);
            }
            if entry.series == series {
                return Lookup::At(place);
            }
            place = (place + 1) & mask;
        }
    }

    #[inline]
    pub(crate) fn entry(&mut self, place: usize) -> &mut Entry<C> {
        &mut self.entries[place]
    }

    /// Puts a series into a vacant place.
    pub(crate) fn insert(&mut self, place: usize, series: u128, end: u32) -> &mut Entry<C> {
        assert!(self.entries[place].end == 0 && end > 0, "place {place} is taken");
        assert!(self.has_room(1), "{} of {} places are taken", self.len, self.entries.len());
        self.len += 1;
        let entry = &mut self.entries[place];
        (entry.series, entry.end) = (series, end);
        entry
    }

    /// Every series.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry<C>> {
        self.entries.iter_mut().filter(|entry| entry.end != 0)
    }

    /// Rebuilds the table with the series that `keep` accepts, with room for `more`, and doubles the slots when these
    /// fill more than three eighths.
    pub(crate) fn rebuild(&mut self, more: usize, keep: impl Fn(&Entry<C>) -> bool) {
        let kept = self.entries.iter().filter(|entry| entry.end != 0 && keep(entry)).count();
        let mut places = if kept * 8 > self.entries.len() * 3 { self.entries.len() * 2 } else { self.entries.len() };
        while (kept + more) * 4 > places * 3 {
            places *= 2;
        }
        let mut grown = Self::with_places(places);
        for entry in self.entries.iter_mut().filter(|entry| entry.end != 0) {
            if keep(entry) {
                let Lookup::Vacant(place) = grown.find(entry.series, grown.first_place(entry.series)) else {
                    panic!("{:032x} is in the table twice", entry.series)
                };
                grown.insert(place, entry.series, entry.end).cell = entry.cell.take();
            }
        }
        assert_eq!(grown.len, kept, "every series that is kept has a place");
        assert!(grown.has_room(more), "{kept} and {more} series in {} places", grown.entries.len());
        *self = grown;
    }
}
