//! Finding series of a block and reading them one after the other: for queries, and for what goes through all of them.
//!
//! Invariants: series come ascending by (labels, kind); what queries decode of their pages goes through the cache, and
//! what walks through a block reads past it.
//! Threads: one a reader; any number of readers at once.
//! Limits: in memory are one page of series, and up to 64 Ki labels.

use std::collections::HashMap;
use std::sync::Arc;

use ogive_model::{
    Kind, Labels, Opening, SelectError, Selection, SeriesData, SeriesDef, Temporality, TimeRange, WallMs,
};
use roaring::RoaringBitmap;

use crate::Error;
use crate::block::budget::Budget;
use crate::block::cache::{KeptPage, Lookup};
use crate::block::format::{PAGE_SERIES, Section, SectionId, VERSION};
use crate::block::index::{Index, SeriesPage};
use crate::block::piece::WholeChunk;
use crate::block::reader::Block;
use crate::block::series::{self, ChunkEntry, Entry};
use crate::bytes::Broken;

impl Block {
    /// The matching series with their samples, ascending by (labels, kind). See [`ogive_model::Select`].
    ///
    /// # Errors
    /// [`SelectError::TooManySamples`], [`Error::Corrupt`], or the disk's.
    pub fn select(&self, selection: &Selection, budget: &mut Budget) -> Result<Vec<SeriesData>, Error> {
        self.select_of(selection, &|_, _| true, budget)
    }

    /// As [`Block::select`], of those kinds and temporalities that `wanted` accepts.
    pub(crate) fn select_of(
        &self,
        selection: &Selection,
        wanted: &dyn Fn(Kind, Temporality) -> bool,
        budget: &mut Budget,
    ) -> Result<Vec<SeriesData>, Error> {
        let mut found = Vec::new();
        self.each_selected(selection, wanted, budget, |data| {
            found.push(data);
            true
        })?;
        Ok(found)
    }

    /// As [`Block::select_of`], one series after the other for as long as `each` wants more.
    pub(crate) fn each_selected(
        &self,
        selection: &Selection,
        wanted: &dyn Fn(Kind, Temporality) -> bool,
        budget: &mut Budget,
        mut each: impl FnMut(SeriesData) -> bool,
    ) -> Result<(), Error> {
        if !self.overlaps(selection.range) {
            return Ok(());
        }
        let index = self.index()?;
        let matching = self.matching(&index, &selection.matchers)?;
        let mut reader = SeriesReader::new(self, index);
        for series in matching {
            let read = reader.seek(series).and_then(|at| {
                let entry = &reader.page.entries[at];
                if wanted(entry.kind, entry.temporality) { reader.read(series, selection, budget) } else { Ok(None) }
            });
            match read {
                Ok(None) => {}
                Ok(Some(data)) => {
                    if !each(data) {
                        break;
                    }
                }
                Err(error) => budget.miss(error, || format!("a series of block {}", self.path().display()))?,
            }
        }
        Ok(())
    }

    /// Fails when more series than `opening` allows match, are `wanted` and may have samples in the range.
    pub(crate) fn check_matching(
        &self,
        selection: &Selection,
        wanted: &dyn Fn(Kind, Temporality) -> bool,
        opening: &Opening<'_>,
    ) -> Result<(), Error> {
        let index = self.index()?;
        let matching = self.matching(&index, &selection.matchers)?;
        self.check_count(&index, &matching, selection.range, wanted, opening)
    }

    /// As [`Block::check_matching`]: counts by kind, without their labels, which is a small part of what finding them
    /// costs.
    fn check_count(
        &self,
        index: &Index,
        matching: &RoaringBitmap,
        range: TimeRange,
        wanted: &dyn Fn(Kind, Temporality) -> bool,
        opening: &Opening<'_>,
    ) -> Result<(), Error> {
        if matching.len() as usize <= opening.series_max {
            return Ok(());
        }
        let mut kinds = [0; Kind::COUNT];
        let mut numbers = matching.iter().peekable();
        while let Some(number) = numbers.peek() {
            let SeriesPage { place, series: described, .. } = index.page_of(*number);
            let bytes = self.checked(place)?;
            let mut requested = [false; PAGE_SERIES];
            while let Some(number) = numbers.next_if(|number| described.contains(number)) {
                requested[(number - described.start) as usize] = true;
            }
            let count = |at: usize, (kind, temporality)| {
                kinds[kind as usize] += usize::from(requested[at] && wanted(kind, temporality));
            };
            series::touching_of_page(&bytes, described.len(), range, count)
                .map_err(|broken| self.corrupt(place.offset, broken))?;
            // Series of one kind have as many label sets.
            opening.check(kinds.into_iter().max().unwrap_or(0))?;
            if (opening.cancelled)() {
                return Err(SelectError::Cancelled.into());
            }
        }
        Ok(())
    }

    /// Calls `each` with every series that matches, is `wanted` and may have samples in the range, ascending by
    /// (labels, kind); its entry has the chunks that touch the range. An error of `each` ends it. More of them than
    /// `opening` allows are none.
    pub(crate) fn each_matching(
        &self,
        selection: &Selection,
        wanted: &dyn Fn(Kind, Temporality) -> bool,
        budget: &mut Budget,
        opening: &Opening<'_>,
        mut each: impl FnMut(Labels, Entry) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let index = self.index()?;
        let matching = self.matching(&index, &selection.matchers)?;
        let range = selection.range;
        let counted = self.check_count(&index, &matching, range, wanted, opening);
        // Of what cannot be read, the series that it belongs to are reported.
        if let Err(error @ Error::Selection(_)) = counted {
            return Err(error);
        }
        (opening.counted)(matching.len() as usize);
        let mut reader = SeriesReader::new(self, index).with_cache();
        for series in matching {
            let found = reader.seek(series).and_then(|at| {
                let entry = &reader.page.entries[at];
                let chunks: Vec<ChunkEntry> =
                    entry.chunks.iter().filter(|chunk| chunk.touches(range)).copied().collect();
                if chunks.is_empty() || !wanted(entry.kind, entry.temporality) {
                    return Ok(None);
                }
                // The labels are here as a text, and not needed as numbers any more.
                let entry = Entry { labels: Vec::new(), chunks, ..*entry };
                Ok(Some((reader.labels(at)?, entry)))
            });
            match found {
                Ok(Some((labels, entry))) => each(labels, entry)?,
                Ok(None) => {}
                Err(error) => budget.miss(error, || format!("a series of block {}", self.path().display()))?,
            }
        }
        reader.keep_page();
        Ok(())
    }

    /// Calls `each` with every series, ascending by (labels, kind).
    ///
    /// # Errors
    /// [`Error::Corrupt`] or the disk's.
    pub fn each_series(&self, mut each: impl FnMut(SeriesDef)) -> Result<(), Error> {
        let mut reader = SeriesReader::new(self, self.index()?);
        for series in 0..self.series_count() as u32 {
            each(reader.def(series)?);
        }
        Ok(())
    }

    /// A walk through all series, ascending by (labels, kind).
    ///
    /// # Errors
    /// When the index cannot be read.
    pub(crate) fn walk(&self) -> Result<Walk<'_>, Error> {
        Ok(Walk { reader: SeriesReader::new(self, self.index()?), next: 0, def: None })
    }
}

/// 64 Ki labels, some 8 MiB, are kept while series are read; then they are looked up anew.
const LABELS_KNOWN_MAX: usize = 1 << 16;

/// Reads series by number. Those that ascend share the pages and labels that were read before.
pub(super) struct SeriesReader<'a> {
    block: &'a Block,
    index: Arc<Index>,
    /// Number and place of the page that was read last.
    place: Option<(usize, Section)>,
    page: Arc<KeptPage>,
    known: HashMap<u32, (String, String)>,
    page_state: PageState,
    /// Whether pages are kept for others.
    is_cached: bool,
}

/// What the cache has of a page.
enum PageState {
    /// Nothing.
    Own,
    Kept,
    /// Less than it is to have.
    Wanted,
}

impl<'a> SeriesReader<'a> {
    pub(super) fn new(block: &'a Block, index: Arc<Index>) -> Self {
        let page = Arc::new(KeptPage::new(Vec::new()));
        let page_state = PageState::Own;
        Self { block, index, place: None, page, page_state, known: HashMap::new(), is_cached: false }
    }

    /// Through the cache of the block, if it has one.
    fn with_cache(self) -> Self {
        Self { is_cached: self.block.cache.is_some(), ..self }
    }

    /// Makes `series` one of the entries and returns which.
    fn seek(&mut self, series: u32) -> Result<usize, Error> {
        let SeriesPage { number, place, series: described } = self.index.page_of(series);
        if self.place.is_none_or(|(held, _)| held != number) {
            self.keep_page();
            self.page = self.page_at(place, described.len())?;
            self.place = Some((number, place));
        }
        let entries = self.page.entries.len();
        debug_assert_eq!(entries, described.len(), "page {number} describes the series {described:?}");
        Ok((series - described.start) as usize)
    }

    /// The page at `place`, of `count` series.
    fn page_at(&mut self, place: Section, count: usize) -> Result<Arc<KeptPage>, Error> {
        if let Some(cache) = self.block.cache.as_ref().filter(|_| self.is_cached) {
            match cache.look_up(place.offset, place.length) {
                Lookup::Kept(page) => {
                    self.page_state = PageState::Kept;
                    return Ok(page);
                }
                Lookup::Wanted => self.page_state = PageState::Wanted,
                Lookup::New => cache.note::<KeptPage>(place.offset, place.length),
                Lookup::Nothing => {}
            }
        }
        let entries = series::get_page(&self.block.checked(place)?, count);
        let entries = entries.map_err(|broken| self.block.corrupt(place.offset, broken))?;
        Ok(Arc::new(KeptPage::new(entries)))
    }

    /// Keeps the page if it is to be: it is read to the end.
    fn keep_page(&mut self) {
        let state = std::mem::replace(&mut self.page_state, PageState::Own);
        if let (Some(cache), Some((number, place)), PageState::Wanted) = (&self.block.cache, self.place.take(), state) {
            let KeptPage { entries, labels } = &*self.page;
            assert_eq!(entries.len(), labels.len(), "each series of page {number} has a place for its labels");
            cache.keep(place.offset, place.length, Arc::clone(&self.page));
        }
    }

    /// What a series is.
    pub(super) fn def(&mut self, series: u32) -> Result<SeriesDef, Error> {
        let at = self.seek(series)?;
        Ok(SeriesDef { labels: self.labels(at)?, meta: self.block.meta(&self.page.entries[at])? })
    }

    /// What the selection holds of a series.
    fn read(&mut self, series: u32, selection: &Selection, budget: &mut Budget) -> Result<Option<SeriesData>, Error> {
        let at = self.seek(series)?;
        let mut data = self.block.read_series(&self.page.entries[at], selection, budget, false)?;
        if let Some(data) = &mut data {
            data.labels = self.labels(at)?;
        }
        Ok(data)
    }

    /// The labels of an entry.
    fn labels(&mut self, at: usize) -> Result<Labels, Error> {
        if let Some(labels) = &self.page.labels[at] {
            return Ok(labels.clone());
        }
        let labels = self.make_labels(at)?;
        if self.is_cached {
            if matches!(self.page_state, PageState::Kept) {
                self.page_state = PageState::Wanted;
            }
            // Of a page that others share, a copy gets them.
            Arc::make_mut(&mut self.page).labels[at] = Some(labels.clone());
        }
        Ok(labels)
    }

    fn make_labels(&mut self, at: usize) -> Result<Labels, Error> {
        let corrupt = |problem: String| self.block.corrupt_section(SectionId::Labels, Broken { offset: 0, problem });
        if self.known.len() > LABELS_KNOWN_MAX {
            self.known.clear();
        }
        let numbers = &self.page.entries[at].labels;
        if let Some(pairs) = numbers.iter().map(|number| self.index.text(*number)).collect::<Option<Vec<_>>>() {
            return Labels::new(pairs).map_err(|error| corrupt(error.to_string()));
        }
        for number in numbers {
            if !self.known.contains_key(number) {
                let label =
                    self.index.label(*number).ok_or_else(|| corrupt(format!("no label has number {number}")))?;
                self.known.insert(*number, label);
            }
        }
        let labels = numbers.iter().map(|number| {
            let (name, value) = &self.known[number];
            (name, value)
        });
        Labels::new(labels).map_err(|error| corrupt(error.to_string()))
    }
}

/// Goes through the series of a block, one after the other, and reads each in pieces.
pub(crate) struct Walk<'a> {
    reader: SeriesReader<'a>,
    next: u32,
    def: Option<SeriesDef>,
}

impl Walk<'_> {
    /// The series that the walk stands at; `None` behind the last.
    pub(crate) fn series(&mut self) -> Result<Option<&SeriesDef>, Error> {
        if self.def.is_none() && u64::from(self.next) < self.reader.block.series_count() {
            self.def = Some(self.reader.def(self.next)?);
        }
        Ok(self.def.as_ref())
    }

    /// Goes on to the next series.
    pub(crate) fn advance(&mut self) {
        debug_assert!(u64::from(self.next) < self.reader.block.series_count(), "series {} is the last", self.next);
        self.def = None;
        self.next += 1;
    }

    /// What the block says of the series.
    pub(crate) fn entry(&mut self) -> Result<&Entry, Error> {
        let at = self.reader.seek(self.next)?;
        Ok(&self.reader.page.entries[at])
    }

    /// Whether what it reads is encoded as blocks are written today.
    pub(crate) fn is_of_today(&self) -> bool {
        self.reader.block.version() == VERSION
    }

    /// A chunk of the series, as it is.
    pub(crate) fn whole(&mut self, chunk: ChunkEntry) -> Result<WholeChunk, Error> {
        let def = self.series()?.expect("the walk stands at a series");
        let series = SeriesData::new(def.labels.clone(), def.meta.clone());
        let entry = self.entry()?;
        debug_assert!(entry.chunks.contains(&chunk), "a chunk of another series is taken: {chunk:?}");
        let aggregates = entry.aggregates;
        let block = self.reader.block;
        let bytes = block.chunk_bytes(&chunk)?;
        Ok(WholeChunk { series, aggregates, entry: chunk, bytes, path: block.path().to_owned() })
    }

    /// A time of the series after `after`, before which it has no sample after `after`.
    pub(crate) fn next_time(&mut self, WallMs(after): WallMs) -> Result<Option<WallMs>, Error> {
        let chunks = &self.entry()?.chunks;
        let chunk = chunks.get(chunks.partition_point(|chunk| chunk.time_max <= after));
        let next = chunk.map(|chunk| WallMs(chunk.time_min.max(after.saturating_add(1))));
        assert!(next.is_none_or(|next| next.0 > after), "the time after {after} is {next:?}");
        Ok(next)
    }

    /// The samples of the series inside `range`.
    pub(crate) fn read(&mut self, range: TimeRange) -> Result<Option<SeriesData>, Error> {
        let whole = Selection::new(Vec::new(), range);
        self.reader.read(self.next, &whole, &mut Budget::new(usize::MAX))
    }
}
