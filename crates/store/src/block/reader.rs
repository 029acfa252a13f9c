//! Reading a block: its frame when it is opened, its index with the first query, chunks as they are needed.
//!
//! Invariants: nothing is used before its checksum was verified; a selection never returns samples of a part that
//! failed.
//! Threads: any number at once; the index is shared, reads are positioned.
//! Limits: in memory are the index (until [`Block::release_index`]) and the result of a selection, within its
//! [`Budget`] and one chunk.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ogive_journal::{Disk, DiskFile, Verified, read_twinned};
use ogive_model::{
    Kind, Labels, METRIC_NAME, Matcher, Selection, SeriesColumns, SeriesData, SeriesMeta, Temporality, TimeRange,
    WallMs,
};
use roaring::RoaringBitmap;

use crate::Error;
use crate::block::budget::Budget;
use crate::block::cache::{BlockCache, CacheView, KeptPart, Lookup};
use crate::block::format::{self, PAGE_SERIES, Section, SectionId, Summary};
use crate::block::index::{Index, IndexBytes, SeriesPage};
use crate::block::series::{self, ChunkEntry, Entry};
use crate::bytes::Broken;
use crate::codec::chunk::{self, Chunk};
use crate::codec::dictionary::{DICTIONARY_BYTES_MAX, Dictionary};
use crate::codec::float_run::{self, RunScratch};
use crate::codec::kept_floats::KeptFloats;
use crate::codec::kept_histograms::KeptHistograms;
use crate::codec::texts::Beginning;
use crate::first::First;

/// An open block.
pub struct Block {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    version: u32,
    sections: [Section; SectionId::ALL.len()],
    /// How far behind it the twin of each byte is, from the series pages on to the end of the sections, and of the
    /// dictionary.
    twin_distance: Option<u64>,
    summary: Summary,
    index: Mutex<Option<Arc<Index>>>,
    dictionary: Mutex<Option<Arc<Dictionary>>>,
    /// Names of metrics that have histograms; known once somebody asked.
    histograms: Mutex<Option<Vec<String>>>,
    /// Where queries keep what they decode.
    pub(super) cache: Option<CacheView>,
}

impl Block {
    /// Opens the block at `path`: reads its frame and what it says of itself.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::TooNew`], or the disk's.
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<Self, Error> {
        let file = disk.open_read(path)?;
        let mut block = Self {
            path: path.into(),
            file,
            version: 0,
            sections: [Section { offset: 0, length: 0, checksum: 0 }; SectionId::ALL.len()],
            twin_distance: None,
            summary: Summary::default(),
            index: Mutex::default(),
            dictionary: Mutex::default(),
            histograms: Mutex::default(),
            cache: None,
        };
        let twin = block.lengths().into_iter().find_map(format::header_twin);
        let version = block.verified(0..format::HEADER_BYTES, twin, format::check_header)?.value;
        block.version = version;
        let (footer, end) = block.find_footer(version)?;
        block.sections = format::parse_footer(&end[..footer.length as usize], footer.offset, version)
            .map_err(|broken| block.corrupt(footer.offset, broken))?;
        if format::has_twins(version) {
            block.twin_distance = format::twin_distance(block.sections_end(), footer.offset);
        }
        let summary = block.section(SectionId::Summary);
        block.summary = Summary::decode(&block.checked(summary)?, version)
            .map_err(|broken| block.corrupt(summary.offset, broken))?;
        Ok(block)
    }

    /// The block, of which queries keep in `cache` what they decode.
    pub(crate) fn with_cache(self, cache: Option<&Arc<BlockCache>>) -> Self {
        Self { cache: cache.map(CacheView::new), ..self }
    }

    /// The version of its format.
    pub(super) const fn version(&self) -> u32 {
        self.version
    }

    /// The lengths that its copies have.
    fn lengths(&self) -> Vec<u64> {
        let mut lengths: Vec<u64> =
            (0..self.file.copies()).filter_map(|copy| self.file.copy_length(copy).ok()).collect();
        lengths.dedup();
        lengths
    }

    /// Where the last section ends.
    pub(super) fn sections_end(&self) -> u64 {
        let last = self.section(SectionId::Summary);
        last.offset + last.length
    }

    /// Finds the footer from the file's end, where copies of a wrong length have something else; gives its bytes and
    /// the trailer's.
    fn find_footer(&self, version: u32) -> Result<(Section, Vec<u8>), Error> {
        let mut first = None;
        for bytes in self.lengths() {
            if bytes < format::HEADER_BYTES + format::END_BYTES {
                let problem = format!("{bytes} bytes are too few for a block");
                first = first.or(Some(Error::Corrupt { path: self.path.clone(), offset: 0, problem }));
                continue;
            }
            let offset = bytes - format::END_BYTES;
            let twin = format::end_twin(bytes).filter(|_| format::has_twins(version));
            let end = self.verified(offset..bytes, twin, |end, path| {
                format::parse_end(end, bytes).map_err(|Broken { offset: at, problem }| Error::Corrupt {
                    path: path.to_owned(),
                    offset: offset + at as u64,
                    problem: format!("in its footer: {problem}"),
                })
            });
            match end {
                Ok(end) => {
                    assert_eq!(end.bytes.len() as u64, format::END_BYTES, "all of the end at {offset} was checked");
                    return Ok((end.value, end.bytes));
                }
                Err(error) => first = first.or(Some(error)),
            }
        }
        // No copy has a length: it is gone.
        Err(first.unwrap_or_else(|| ogive_journal::Error::NotFound { path: self.path.clone() }.into()))
    }

    /// Times of the first and the last sample.
    #[must_use]
    pub const fn time_bounds(&self) -> (WallMs, WallMs) {
        (WallMs(self.summary.time_min), WallMs(self.summary.time_max))
    }

    /// Whether a sample of the block can be inside `range`.
    #[must_use]
    pub const fn overlaps(&self, range: TimeRange) -> bool {
        range.start.0 < self.summary.time_max && self.summary.time_min <= range.end.0
    }

    /// Number of series.
    #[must_use]
    pub const fn series_count(&self) -> u64 {
        self.summary.series
    }

    /// Number of samples.
    #[must_use]
    pub const fn sample_count(&self) -> u64 {
        self.summary.samples
    }

    /// Bytes of texts that were packed with the lesser effort.
    #[must_use]
    pub(crate) const fn quick_text_bytes(&self) -> u64 {
        self.summary.quick_text_bytes
    }

    /// Where the dictionary is: it ends the chunks.
    pub(super) fn dictionary_place(&self) -> Option<Section> {
        let (length, checksum) = self.summary.dictionary?;
        let chunks = self.section(SectionId::Chunks);
        Some(Section { offset: (chunks.offset + chunks.length).saturating_sub(length), length, checksum })
    }

    /// The dictionary of its texts, if it has one.
    fn dictionary(&self) -> Result<Option<Arc<Dictionary>>, Error> {
        let Some(place) = self.dictionary_place() else { return Ok(None) };
        let mut held = self.dictionary.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            let parsed = Dictionary::parse(&self.checked(place)?);
            *held = Some(Arc::new(parsed.map_err(|broken| self.corrupt(place.offset, broken))?));
        }
        Ok(held.clone())
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The samples of a series inside the selection, without its labels; None when there are none.
    pub(crate) fn entry_data(
        &self,
        entry: &Entry,
        selection: &Selection,
        budget: &mut Budget,
    ) -> Result<Option<SeriesData>, Error> {
        self.read_series(entry, selection, budget, true)
            .or_else(|error| budget.miss(error, || format!("a series of block {}", self.path.display())).map(|()| None))
    }

    /// As [`Block::entry_data`], behind the samples that `data` has. What cannot be read leaves these as they were.
    pub(crate) fn append_entry(
        &self,
        entry: &Entry,
        selection: &Selection,
        budget: &mut Budget,
        data: &mut SeriesData,
    ) -> Result<(), Error> {
        let held = chunk::sample_times(data).len();
        self.append_series(entry, selection, budget, data, true).map(drop).or_else(|error| {
            chunk::truncate(data, held);
            debug_assert_eq!(chunk::sample_times(data).len(), held, "the samples that were there before stay");
            budget.miss(error, || format!("a series of block {}", self.path.display()))
        })
    }

    /// As [`Block::append_entry`], with the bins as columns. False when they cannot be had as such, also when
    /// something cannot be read.
    pub(crate) fn append_columns(
        &self,
        entry: &Entry,
        range: TimeRange,
        budget: &mut Budget,
        columns: &mut SeriesColumns,
    ) -> Result<bool, Error> {
        for chunk in entry.chunks.iter().filter(|chunk| chunk.touches(range)) {
            let before = columns.bins;
            let Some(length) = self.append_chunk_columns(chunk, range, columns)? else { return Ok(false) };
            if length == 0 {
                continue;
            }
            columns.stretches.last().map_or(Ok(()), |stretch| budget.hold_columns(stretch))?;
            budget.take((columns.bins - before).max(length))?;
        }
        Ok(true)
    }

    /// Appends the histograms of a chunk inside `range`, and returns how many; None when they are no columns.
    fn append_chunk_columns(
        &self,
        chunk: &ChunkEntry,
        range: TimeRange,
        columns: &mut SeriesColumns,
    ) -> Result<Option<usize>, Error> {
        let lookup = self.look_up(chunk);
        if let Lookup::Kept(kept) = &lookup {
            return Ok(Some(KeptHistograms::append(kept, range, columns)));
        }
        let bytes = self.chunk_bytes(chunk)?;
        if matches!(lookup, Lookup::Wanted) {
            // Where this fails, what is asked for may still be had.
            if let Ok(Some(read)) = KeptHistograms::read(&bytes) {
                let kept = Arc::new(read);
                self.keep(chunk, Arc::clone(&kept));
                return Ok(Some(kept.append(range, columns)));
            }
            self.keep_unfit(chunk);
        }
        let corrupt = |broken| self.corrupt(chunk.offset, broken);
        let opened = Chunk::open(&bytes).map_err(corrupt)?;
        let rows = opened.rows(range);
        let length = rows.len();
        let has_columns = length == 0 || opened.columns(rows, columns).map_err(corrupt)?;
        if has_columns {
            self.note(chunk, &lookup);
        }
        Ok(has_columns.then_some(length))
    }

    /// What the cache has of a chunk; of one of floats, which are not those of a rollup.
    pub(crate) fn look_up<T: KeptPart>(&self, chunk: &ChunkEntry) -> Lookup<T> {
        self.cache.as_ref().map_or(Lookup::Nothing, |cache| cache.look_up(chunk.offset, chunk.length.into()))
    }

    /// Notes that a chunk was used, of which the cache had so much.
    pub(crate) fn note<T: KeptPart>(&self, chunk: &ChunkEntry, lookup: &Lookup<T>) {
        if let (Some(cache), Lookup::New) = (&self.cache, lookup) {
            cache.note::<T>(chunk.offset, chunk.length.into());
        }
    }

    /// Keeps what a chunk is.
    pub(super) fn keep<T: KeptPart>(&self, chunk: &ChunkEntry, part: Arc<T>) {
        if let Some(cache) = &self.cache {
            cache.keep(chunk.offset, chunk.length.into(), part);
        }
    }

    /// Remembers that a chunk cannot be kept.
    pub(super) fn keep_unfit(&self, chunk: &ChunkEntry) {
        if let Some(cache) = &self.cache {
            cache.keep_unfit(chunk.offset);
        }
    }

    /// Calls `each` with the number of every series, its labels by number, how many of the first of them are those of
    /// the series before, in its page, and what it is: for who wants nothing of the chunks.
    pub(super) fn each_described(
        &self,
        index: &Index,
        mut each: impl FnMut(u32, &[u32], usize, (Kind, Temporality)) -> Result<(), Broken>,
    ) -> Result<(), Error> {
        for first in (0..self.summary.series as u32).step_by(PAGE_SERIES) {
            let SeriesPage { place, series: mut numbers, .. } = index.page_of(first);
            let bytes = self.checked(place)?;
            let read = series::each_of_page(&bytes, numbers.len(), |labels, shared, what| {
                each(numbers.next().expect("one for each"), labels, shared, what)
            });
            read.map_err(|broken| self.corrupt(place.offset, broken))?;
        }
        Ok(())
    }

    pub(super) fn meta(&self, entry: &Entry) -> Result<SeriesMeta, Error> {
        let Entry { kind, temporality, width_ms, .. } = *entry;
        Ok(SeriesMeta { kind, temporality, unit: self.unit(entry.unit)?, width_ms })
    }

    /// The label names of the series that `matchers` accept, ascending.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or the disk's.
    pub fn label_names(&self, matchers: &[Matcher]) -> Result<Vec<String>, Error> {
        let index = self.index()?;
        let among = if matchers.is_empty() { None } else { Some(self.matching(&index, matchers)?) };
        index.names(among.as_ref()).map_err(|broken| self.corrupt_section(SectionId::Labels, broken))
    }

    /// The values of label `name` of the series that `matchers` accept, ascending.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or the disk's.
    pub fn label_values(&self, name: &str, matchers: &[Matcher]) -> Result<Vec<String>, Error> {
        let mut all = First::new(usize::MAX, Default::default());
        self.add_label_values(name, matchers, &mut all)?;
        Ok(all.into_set()?.into_iter().collect())
    }

    /// As [`Block::label_values`], those that are among the first.
    pub(crate) fn add_label_values(
        &self,
        name: &str,
        matchers: &[Matcher],
        first: &mut First<String>,
    ) -> Result<(), Error> {
        let index = self.index()?;
        let among = if matchers.is_empty() { None } else { Some(self.matching(&index, matchers)?) };
        let added = index.each_value_among(name, among.as_ref(), |value| first.add(value));
        added.map_err(|broken| self.corrupt_section(SectionId::Labels, broken))
    }

    /// The names of metrics that have histograms, ascending. The first who asks waits for a look at the kind of every
    /// series, some 200 ms of a million; then they are known for as long as the index is.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or the disk's.
    pub fn histogram_names(&self) -> Result<Vec<String>, Error> {
        let mut held = self.histograms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*held {
            return Ok(known.clone());
        }
        let index = self.index()?;
        let mut carried = RoaringBitmap::new();
        self.each_described(&index, |_, labels, _, (kind, _)| {
            if kind == Kind::Histogram {
                carried.extend(labels);
            }
            Ok(())
        })?;
        let names = index.values_of(METRIC_NAME, |number| carried.contains(number));
        let names = names.map_err(|broken| self.corrupt_section(SectionId::Labels, broken))?;
        Ok(held.insert(names).clone())
    }

    /// Reads every byte and compares every checksum.
    ///
    /// # Errors
    /// The first that differs, as [`Error::Corrupt`].
    pub fn verify(&self) -> Result<(), Error> {
        for section in self.sections {
            let mut checksum = 0;
            let mut done = 0;
            while done < section.length {
                let length = (section.length - done).min(VERIFY_BYTES);
                checksum = crc32c::crc32c_append(checksum, &self.read(section.offset + done, length)?);
                done += length;
            }
            self.compare(section, checksum, &self.path)?;
        }
        self.verify_twins()?;
        self.index().map(|_| ())
    }

    /// Compares what is there twice with its twin, and looks whether nothing but zeros is between them.
    pub(super) fn verify_twins(&self) -> Result<(), Error> {
        let Some(distance) = self.twin_distance else { return Ok(()) };
        let differs = |offset: u64| Broken { offset: 0, problem: format!("the twin of byte {offset} differs") };
        let dictionary = self.dictionary_place();
        let start = dictionary.map_or(self.section(SectionId::Series).offset, |place| place.offset);
        // It was opened with room for them, but files may have been cut or removed since.
        let bytes = self.lengths().first().map_or_else(|| self.file.copy_length(0), |bytes| Ok(*bytes))?;
        let header = format::header_twin(bytes).ok_or_else(|| {
            self.corrupt(bytes, Broken { offset: 0, problem: "the file ends before its twins".into() })
        })?;
        let (end, footer) = (self.sections_end(), bytes - format::END_BYTES);
        let twins = [(start, end, start + distance), (0, format::HEADER_BYTES, header)];
        for (from, to, twin) in twins.into_iter().chain([(footer, bytes, header + format::HEADER_BYTES)]) {
            for done in (0..to - from).step_by(VERIFY_BYTES as usize) {
                let length = (to - from - done).min(VERIFY_BYTES);
                if self.read(from + done, length)? != self.read(twin + done, length)? {
                    return Err(self.corrupt(twin + done, differs(from + done)));
                }
            }
        }
        let between = [(end, start + distance), (header + format::HEADER_BYTES + format::END_BYTES, footer)];
        for (from, to) in between {
            if self.read(from, to - from)?.iter().any(|byte| *byte != 0) {
                return Err(
                    self.corrupt(from, Broken { offset: 0, problem: "something is where nothing is written".into() })
                );
            }
        }
        Ok(())
    }

    /// Bytes of the index that is in memory.
    #[must_use]
    pub fn index_bytes(&self) -> usize {
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let dictionary = self.dictionary.lock().unwrap_or_else(PoisonError::into_inner);
        index.as_ref().map_or(0, |index| index.memory_bytes())
            + usize::from(dictionary.is_some()) * DICTIONARY_BYTES_MAX
    }

    /// Forgets the index until the next question, and returns how many bytes it took.
    pub fn release_index(&self) -> usize {
        let bytes = self.index_bytes();
        *self.index.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.dictionary.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.histograms.lock().unwrap_or_else(PoisonError::into_inner) = None;
        bytes
    }

    pub(super) fn matching(&self, index: &Index, matchers: &[Matcher]) -> Result<RoaringBitmap, Error> {
        index.matching(matchers).map_err(|broken| self.corrupt_section(SectionId::Postings, broken))
    }

    pub(super) fn index(&self) -> Result<Arc<Index>, Error> {
        let mut held = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = &*held {
            return Ok(Arc::clone(index));
        }
        let bytes = IndexBytes {
            pages: self.checked(self.section(SectionId::Pages))?,
            labels: self.checked(self.section(SectionId::Labels))?,
            postings: self.checked(self.section(SectionId::Postings))?,
        };
        let index = Index::parse(bytes, &self.summary, self.section(SectionId::Series))
            .map_err(|broken| self.corrupt_section(SectionId::Pages, broken))?;
        let index = Arc::new(index);
        *held = Some(Arc::clone(&index));
        Ok(index)
    }

    /// The samples of one series inside the selection, without its labels; None when there are none. Through the cache
    /// when it is `cached`.
    pub(super) fn read_series(
        &self,
        entry: &Entry,
        selection: &Selection,
        budget: &mut Budget,
        cached: bool,
    ) -> Result<Option<SeriesData>, Error> {
        let mut data = self.blank(entry)?;
        let any = self.append_series(entry, selection, budget, &mut data, cached)?;
        Ok(any.then_some(data))
    }

    /// A series without labels and samples.
    pub(crate) fn blank(&self, entry: &Entry) -> Result<SeriesData, Error> {
        Ok(SeriesData::new(Labels::empty(), self.meta(entry)?))
    }

    /// Whether a series of this block is what `meta` says.
    pub(crate) fn is_of(&self, entry: &Entry, meta: &SeriesMeta) -> bool {
        entry.kind == meta.kind
            && entry.temporality == meta.temporality
            && entry.width_ms == meta.width_ms
            && self.summary.units.get(entry.unit as usize) == Some(&meta.unit)
    }

    /// Appends the samples of one series inside the selection to `data`; returns whether there are any.
    fn append_series(
        &self,
        entry: &Entry,
        selection: &Selection,
        budget: &mut Budget,
        data: &mut SeriesData,
        cached: bool,
    ) -> Result<bool, Error> {
        let range = selection.range;
        let cached = cached && entry.kind == Kind::Float && !entry.aggregates;
        let mut any = false;
        for chunk in entry.chunks.iter().filter(|chunk| chunk.touches(range)) {
            if !selection.labels_only {
                if cached && let Some(kept) = self.kept_floats(chunk) {
                    let count = kept.count_inside(range);
                    budget.take(count)?;
                    kept.append(range, &mut data.floats);
                    any |= count > 0;
                    continue;
                }
                if data.meta.kind == Kind::Text && self.is_ruled_out(chunk, budget) {
                    continue;
                }
                match self.chunk_bytes(chunk) {
                    Ok(bytes) => any |= self.read_chunk(chunk, entry.aggregates, &bytes, range, budget, data)?,
                    Err(error) => budget.miss(error, || {
                        format!(
                            "{} samples of a series from {} to {} ms",
                            chunk.samples, chunk.time_min, chunk.time_max
                        )
                    })?,
                }
            } else if range.contains_ms(chunk.time_min) || range.contains_ms(chunk.time_max) {
                any = true;
            } else {
                // The range is inside the chunk and may fall between two samples: only the times can show it.
                let bytes = self.chunk_bytes(chunk)?;
                let opened = Chunk::open(&bytes).map_err(|broken| self.corrupt(chunk.offset, broken))?;
                any |= !opened.rows(range).is_empty();
            }
            if any && selection.labels_only {
                break;
            }
        }
        Ok(any)
    }

    /// What is kept of a chunk of floats, or is from now on; None when it is to be read.
    fn kept_floats(&self, chunk: &ChunkEntry) -> Option<Arc<KeptFloats>> {
        let lookup = self.look_up(chunk);
        match lookup {
            Lookup::Kept(kept) => Some(kept),
            Lookup::New | Lookup::Nothing => {
                self.note(chunk, &lookup);
                None
            }
            Lookup::Wanted => {
                // Whoever reads it then reports what is wrong with it.
                let (bytes, mut scratch) = (self.chunk_bytes(chunk).ok()?, RunScratch::default());
                let Some(run) = float_run::read_whole(&bytes, &mut scratch).ok()? else {
                    self.keep_unfit(chunk);
                    return None;
                };
                let kept = Arc::new(KeptFloats::new(&run));
                self.keep(chunk, Arc::clone(&kept));
                Some(kept)
            }
        }
    }

    /// Whether the filter of a chunk of texts says that it has nothing that is looked for. Only its first bytes are
    /// read.
    fn is_ruled_out(&self, chunk: &ChunkEntry, budget: &Budget) -> bool {
        let Some(words) = budget.words() else { return false };
        let mut length = BEGINNING_BYTES;
        // Where the filter is half of it, reading the whole at once is as quick.
        while length <= u64::from(chunk.length) / 2 {
            let Ok(bytes) = self.read(chunk.offset, length) else { return false };
            match chunk::beginning(&bytes, words) {
                Beginning::RuledOut => return true,
                Beginning::MayMatch => return false,
                Beginning::Short(more) => length += more as u64,
            }
        }
        false
    }

    /// Appends the samples of a chunk inside `range` to `data`; returns whether there were any.
    fn read_chunk(
        &self,
        chunk: &ChunkEntry,
        rolled: bool,
        bytes: &[u8],
        range: TimeRange,
        budget: &mut Budget,
        data: &mut SeriesData,
    ) -> Result<bool, Error> {
        let corrupt = |broken| self.corrupt(chunk.offset, broken);
        let opened = Chunk::open(bytes).map_err(corrupt)?;
        let rows = opened.rows(range);
        let any = !rows.is_empty();
        match data.meta.kind {
            Kind::Float => {
                budget.take(rows.len())?;
                opened.floats(rows, rolled, &mut data.floats).map_err(corrupt)?;
                debug_assert_eq!(data.floats.times.len(), data.floats.values.len(), "each time has its float");
            }
            Kind::Histogram => {
                budget.take(opened.histograms(rows, &mut data.histograms).map_err(corrupt)?)?;
            }
            Kind::Text => {
                if let Some(words) = budget.words()
                    && any
                    && !opened.may_match(words).map_err(corrupt)?
                {
                    return Ok(false);
                }
                budget.take(rows.len())?;
                let dictionary = self.dictionary()?;
                let before = data.texts.values.len();
                opened.texts(rows, dictionary.as_deref(), &mut data.texts).map_err(corrupt)?;
                budget.hold(&data.texts.values[before..])?;
                debug_assert_eq!(data.texts.times.len(), data.texts.values.len(), "each time has its text");
            }
        }
        Ok(any)
    }

    pub(super) fn chunk_bytes(&self, chunk: &ChunkEntry) -> Result<Vec<u8>, Error> {
        self.checked(Section { offset: chunk.offset, length: u64::from(chunk.length), checksum: chunk.checksum })
    }

    fn unit(&self, unit: u32) -> Result<String, Error> {
        let found = self.summary.units.get(unit as usize).cloned();
        found.ok_or_else(|| {
            let problem = format!("unit {unit} of {}", self.summary.units.len());
            self.corrupt_section(SectionId::Series, Broken { offset: 0, problem })
        })
    }

    const fn section(&self, id: SectionId) -> Section {
        self.sections[id as usize - 1]
    }

    /// The bytes of a section, compared with their checksum.
    pub(super) fn checked(&self, section: Section) -> Result<Vec<u8>, Error> {
        if section.length > format::SECTION_BYTES_MAX {
            let problem = format!("{} bytes to read at once", section.length);
            return Err(Error::Corrupt { path: self.path.clone(), offset: section.offset, problem });
        }
        let place = section.offset..section.offset.saturating_add(section.length);
        let twin = self.twin_of(section);
        let bytes = self.verified(place, twin, |bytes, path| self.check(section, bytes, path))?.bytes;
        assert_eq!(bytes.len() as u64, section.length, "all of {section:?} was checked");
        Ok(bytes)
    }

    /// Where the twin of a part is, if it is there twice.
    pub(super) fn twin_of(&self, part: Section) -> Option<u64> {
        let distance = self.twin_distance?;
        let is_index = part.offset >= self.section(SectionId::Series).offset
            && part.offset.checked_add(part.length).is_some_and(|end| end <= self.sections_end());
        (is_index || self.dictionary_place() == Some(part)).then(|| part.offset + distance)
    }

    /// Bytes that `check` accepts, from whichever copy has them, or from their twin.
    fn verified<T>(
        &self,
        place: Range<u64>,
        twin: Option<u64>,
        check: impl Fn(&[u8], &Path) -> Result<T, Error>,
    ) -> Result<Verified<T>, Error> {
        read_twinned(&*self.file, place, twin, check).map_err(|error| match error {
            Error::Disk(ogive_journal::Error::Truncated { path, offset, end }) => {
                Error::Corrupt { path, offset, problem: format!("the file ends before byte {end}") }
            }
            error => error,
        })
    }

    /// Whether `bytes`, read from `path`, are what was written as `section`.
    fn check(&self, section: Section, bytes: &[u8], path: &Path) -> Result<(), Error> {
        self.compare(section, crc32c::crc32c(bytes), path)
    }

    fn compare(&self, section: Section, found: u32, path: &Path) -> Result<(), Error> {
        if found == section.checksum {
            return Ok(());
        }
        let problem = format!(
            "in its {}: the checksum of {} bytes is {found:08x} where {:08x} was written",
            self.part_at(section.offset),
            section.length,
            section.checksum
        );
        Err(Error::Corrupt { path: path.to_owned(), offset: section.offset, problem })
    }

    /// What the part of the file at `offset` is called.
    fn part_at(&self, offset: u64) -> &'static str {
        let holds = |id: &SectionId| {
            let section = self.section(*id);
            (section.offset..section.offset + section.length).contains(&offset)
        };
        SectionId::ALL.into_iter().find(holds).map_or("footer", SectionId::name)
    }

    /// Whether `bytes` could be filled from `offset` on.
    pub(super) fn read_into(&self, offset: u64, bytes: &mut [u8]) -> bool {
        self.file.read_exact_at(offset, bytes).is_ok()
    }

    fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; usize::try_from(length).expect("a section fits memory")];
        match self.file.read_exact_at(offset, &mut bytes) {
            Ok(()) => Ok(bytes),
            Err(ogive_journal::Error::Truncated { end, .. }) => {
                let problem = format!("the file ends before byte {end}");
                Err(Error::Corrupt { path: self.path.clone(), offset, problem })
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn corrupt(&self, base: u64, broken: Broken) -> Error {
        Error::Corrupt { path: self.path.clone(), offset: base + broken.offset as u64, problem: broken.problem }
    }

    pub(super) fn corrupt_section(&self, id: SectionId, broken: Broken) -> Error {
        self.corrupt(self.section(id).offset, broken)
    }
}

/// 12 KiB: the times and the filter of most chunks of log lines, which have 100 KiB and more.
const BEGINNING_BYTES: u64 = 12 << 10;
/// 1 MiB a read of the whole file.
const VERIFY_BYTES: u64 = 1 << 20;
