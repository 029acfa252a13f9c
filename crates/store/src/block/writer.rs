//! Writing a block: series come one after another, their chunks are written to the disk immediately.
//!
//! Invariants: each sample that comes is in one chunk, encoded here or copied; the sections, and in them the chunks,
//! lie end to end, and what is there twice lies behind them; a series carries each label, and each label has one list
//! of ascending series.
//! Limits: until the end, memory holds one piece of a series with its samples and the previous chunk, [`BUFFER_BYTES`]
//! of chunks, texts waiting for a dictionary ([`WAITING_BYTES_MAX`] and a piece), and the index: about 100 bytes a
//! series plus its distinct labels.
//! Failure: after an error no file has a block's name; the unfinished file is removed, now or at the next start.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ogive_journal::{Disk, DiskFile};
use ogive_model::{Kind, Labels, SeriesData, Temporality, Tenant, WallMs};

use crate::block::format::{self, PAGE_SERIES, Section, SectionId, Summary};
use crate::block::piece::{Piece, WholeChunk};
use crate::block::series::{self, ChunkEntry, Entry};
use crate::block::{BlockId, BlockMeta, file_name, postings};
use crate::bytes::put_varint;
use crate::codec::chunk;
use crate::codec::dictionary::{self, Effort, Packer};
use crate::window::Window;
use crate::{Error, merge};

/// 1 MiB goes to the disk in one write: few calls, little memory.
const BUFFER_BYTES: usize = 1 << 20;
/// 8 MiB wait until a dictionary is made, or is not: eight times what it is made of, so that 64 KiB of each of a
/// hundred series are enough.
const WAITING_BYTES_MAX: usize = 8 << 20;
const _: () = assert!(WAITING_BYTES_MAX >= dictionary::SAMPLE_BYTES);

/// Writes the samples of `series`, which ascend by (labels, kind), as block `id` into `directory`. A series may come in
/// several pieces that follow each other in time. Series without samples are left out; when nothing is left no file is
/// made. The block is durable when this returns, and no manifest names it yet: tenant, resolution and window are for
/// the caller to say.
///
/// # Errors
/// The first error of `series`, or the disk's.
///
/// # Panics
/// When series or times do not ascend.
pub fn write(
    disk: &dyn Disk,
    directory: &Path,
    id: BlockId,
    series: impl IntoIterator<Item = Result<impl Into<Piece>, Error>>,
) -> Result<Option<BlockMeta>, Error> {
    write_as(disk, directory, id, 0, Effort::Quick, series)
}

/// As [`write()`], a rollup to cells of `resolution_ms`, or samples as they came when that is 0; texts are packed with
/// `effort`.
///
/// # Errors
/// As [`write()`].
///
/// # Panics
/// As [`write()`].
pub fn write_as(
    disk: &dyn Disk,
    directory: &Path,
    id: BlockId,
    resolution_ms: u32,
    effort: Effort,
    series: impl IntoIterator<Item = Result<impl Into<Piece>, Error>>,
) -> Result<Option<BlockMeta>, Error> {
    let path = directory.join(file_name(id));
    let temporary = directory.join(format!("{}.new", file_name(id)));
    match disk.remove(&temporary) {
        Ok(()) | Err(ogive_journal::Error::NotFound { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let written = Writer::create(disk, temporary.clone(), effort).and_then(|mut writer| {
        for series in series {
            writer.add(series?.into())?;
        }
        Ok(writer.finish(id)?.map(|meta| BlockMeta { resolution_ms, ..meta }))
    });
    if !matches!(written, Ok(Some(_))) {
        // Best effort: what stays is removed at the next start, and the first error is what counts.
        let _ = disk.remove(&temporary);
        return written;
    }
    disk.rename(&temporary, &path)?;
    disk.sync_dir(directory)?;
    written
}

struct Writer {
    file: Box<dyn DiskFile>,
    buffer: Vec<u8>,
    /// Bytes before the buffer.
    written: u64,
    /// Checksum of the section that is being written.
    checksum: u32,
    entries: Vec<Entry>,
    labels: LabelTable,
    summary: Summary,
    /// The next one is above it.
    last: Option<LastSeries>,
    /// What is left of the last series when whole chunks are cut off.
    open: Option<OpenPart>,
    packing: Packing,
}

/// The last series that was taken.
#[derive(Debug)]
struct LastSeries {
    labels: Labels,
    kind: Kind,
    /// The time of its last sample.
    time: i64,
}

/// Consecutive samples of a series, which become chunks together.
struct Part {
    piece: Piece,
    /// There were others before.
    goes_on: bool,
}

/// The samples of a series behind its last whole chunk.
struct OpenPart {
    data: SeriesData,
    /// There were others before.
    goes_on: bool,
}

/// How far the choice of a dictionary is.
enum Packing {
    /// No text has come. From the first one on everything waits until there are enough of them.
    Undecided {
        effort: Effort,
        waiting: Vec<Part>,
        bytes: usize,
        text_bytes: usize,
    },
    Decided {
        packer: Packer,
        dictionary: Vec<u8>,
    },
}

impl Writer {
    fn create(disk: &dyn Disk, path: PathBuf, effort: Effort) -> Result<Self, Error> {
        let mut file = disk.create(&path)?;
        let header = format::header();
        file.write_all(&header)?;
        let summary =
            Summary { time_min: i64::MAX, time_max: i64::MIN, units: vec![String::new()], ..Summary::default() };
        Ok(Self {
            file,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            written: header.len() as u64,
            checksum: 0,
            entries: Vec::new(),
            labels: LabelTable::default(),
            summary,
            last: None,
            open: None,
            packing: Packing::Undecided { effort, waiting: Vec::new(), bytes: 0, text_bytes: 0 },
        })
    }

    fn offset(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Takes a piece of a series.
    fn add(&mut self, piece: Piece) -> Result<(), Error> {
        let Some((first, last, samples)) = piece.extent() else { return Ok(()) };
        let goes_on = check_series(&piece, (first, last), self.last.as_ref());
        self.summary.time_min = self.summary.time_min.min(first);
        self.summary.time_max = self.summary.time_max.max(last);
        self.summary.samples += samples as u64;
        let series = piece.series();
        self.last = Some(LastSeries { labels: series.labels.clone(), kind: series.meta.kind, time: last });
        match piece {
            Piece::Samples(data) => self.add_samples(data, goes_on),
            Piece::Chunk(chunk) => self.add_chunk(chunk, goes_on),
        }
    }

    /// Chunks are cut from what the samples of a series make together.
    fn add_samples(&mut self, data: SeriesData, goes_on: bool) -> Result<(), Error> {
        let mut part = self.join(data, goes_on)?;
        if let Some(start) = chunk::last_start(&part.data) {
            let rest = chunk::split_off(&mut part.data, start);
            self.take_samples(part)?;
            part = OpenPart { data: rest, goes_on: true };
        }
        self.open = Some(part);
        Ok(())
    }

    /// A chunk stays as it is, unless samples before it would be left with a short one, at this and each later writing:
    /// those and the chunk become one chunk, or two of like length. Where the scheme of histograms changes in between
    /// they cannot.
    fn add_chunk(&mut self, chunk: WholeChunk, goes_on: bool) -> Result<(), Error> {
        let open = self.open.as_ref().filter(|_| goes_on).map_or(0, |part| chunk::sample_times(&part.data).len());
        if open == 0 || chunk::is_long(chunk.series.meta.kind, open, 0) {
            self.take_open()?;
            return self.take(Part { piece: Piece::Chunk(chunk), goes_on });
        }
        let mut part = self.join(chunk.decode()?, goes_on)?;
        let Some(last_start) = chunk::last_start(&part.data) else { return self.take_samples(part) };
        let both = chunk::sample_times(&part.data).len();
        let half = if last_start == open { open } else { chunk::cut_between_times(&part.data, both / 2) };
        let data = chunk::split_off(&mut part.data, half);
        self.take_samples(part)?;
        let piece = if last_start == open { Piece::Chunk(chunk) } else { Piece::Samples(data) };
        self.take(Part { piece, goes_on: true })
    }

    /// The samples behind those of the same series that are open; others that are open are taken.
    fn join(&mut self, data: SeriesData, goes_on: bool) -> Result<OpenPart, Error> {
        if !goes_on {
            self.take_open()?;
        }
        let Some(mut part) = self.open.take() else { return Ok(OpenPart { data, goes_on }) };
        // They follow each other: nothing meets.
        let (held, added) = (chunk::sample_times(&part.data).len(), chunk::sample_times(&data).len());
        let _ = merge::add(&mut part.data, data);
        let now = chunk::sample_times(&part.data).len();
        assert_eq!(now, held + added, "a piece of {added} samples behind {held} is lost in none");
        Ok(part)
    }

    fn take_open(&mut self) -> Result<(), Error> {
        self.open.take().map_or(Ok(()), |part| self.take_samples(part))
    }

    fn take_samples(&mut self, OpenPart { data, goes_on }: OpenPart) -> Result<(), Error> {
        self.take(Part { piece: Piece::Samples(data), goes_on })
    }

    /// Writes a part, or lets it wait.
    fn take(&mut self, part: Part) -> Result<(), Error> {
        let series = part.piece.series();
        let is_text = series.meta.kind == Kind::Text;
        match &mut self.packing {
            Packing::Undecided { waiting, bytes, text_bytes, .. } if is_text || !waiting.is_empty() => {
                *bytes += part.piece.memory_bytes();
                *text_bytes += chunk::text_bytes(series).min(dictionary::SAMPLE_BYTES_EACH);
                waiting.push(part);
                if *bytes > WAITING_BYTES_MAX || *text_bytes > dictionary::SAMPLE_BYTES {
                    self.decide()
                } else {
                    Ok(())
                }
            }
            _ => self.put(&part),
        }
    }

    /// Makes a dictionary of what waits, if that pays, and writes it.
    fn decide(&mut self) -> Result<(), Error> {
        let Packing::Undecided { effort, waiting, .. } = &mut self.packing else { return Ok(()) };
        let (effort, waiting) = (*effort, std::mem::take(waiting));
        let texts = waiting.iter().map(|part| part.piece.series()).filter(|series| series.meta.kind == Kind::Text);
        let texts: Vec<Vec<u8>> = texts.map(|series| series.texts.values.join("\n").into_bytes()).collect();
        let (dictionary, packer) =
            dictionary::train(&texts, effort).unwrap_or_else(|| (Vec::new(), Packer::new(effort)));
        self.packing = Packing::Decided { packer, dictionary };
        waiting.iter().try_for_each(|part| self.put(part))
    }

    fn put(&mut self, part: &Part) -> Result<(), Error> {
        let held = self.entries.last().filter(|_| part.goes_on).map_or(0, |entry| entry.chunks.len());
        let (chunks, aggregates) = match &part.piece {
            Piece::Samples(data) => (self.put_samples(data, held)?, !data.floats.aggregates.is_empty()),
            Piece::Chunk(chunk) => (vec![self.put_chunk(chunk, held)?], chunk.aggregates),
        };
        if part.goes_on {
            let entry = self.entries.last_mut().expect("a series that goes on has begun");
            assert_eq!(entry.aggregates, aggregates, "each chunk of a series has aggregates, or none has");
            entry.chunks.extend(chunks);
            return Ok(());
        }
        let SeriesData { labels, meta, .. } = part.piece.series();
        self.summary.series += 1;
        let series = u32::try_from(self.entries.len()).expect("a block has below 2^32 series");
        let unit = self.unit(&meta.unit);
        self.entries.push(Entry {
            labels: labels.iter().map(|(name, value)| self.labels.number(name, value, series)).collect(),
            kind: meta.kind,
            temporality: meta.temporality,
            unit,
            width_ms: meta.width_ms,
            aggregates,
            chunks,
        });
        Ok(())
    }

    /// Encodes samples as chunks of a series that has `held` of them.
    fn put_samples(&mut self, data: &SeriesData, held: usize) -> Result<Vec<ChunkEntry>, Error> {
        let times = chunk::sample_times(data);
        let mut none = Packer::new(Effort::Quick);
        let mut chunks = Vec::new();
        for rows in chunk::cut(data) {
            let (start, offset) = (self.buffer.len(), self.offset());
            let packer = match &mut self.packing {
                Packing::Decided { packer, .. } => packer,
                Packing::Undecided { .. } => &mut none,
            };
            chunk::put(&mut self.buffer, data, rows.clone(), packer);
            let bytes = &self.buffer[start..];
            series::check(held + chunks.len() + 1, bytes.len())?;
            chunks.push(ChunkEntry {
                offset,
                length: u32::try_from(bytes.len()).expect("chunks are limited"),
                checksum: crc32c::crc32c(bytes),
                samples: rows.len() as u32,
                time_min: times[rows.start],
                time_max: times[rows.end - 1],
            });
            self.spill(BUFFER_BYTES)?;
        }
        if matches!(&self.packing, Packing::Decided { packer, .. } if packer.effort() == Effort::Quick) {
            self.summary.quick_text_bytes += chunk::text_bytes(data) as u64;
        }
        Ok(chunks)
    }

    /// Copies a chunk of a series that has `held` of them.
    fn put_chunk(&mut self, chunk: &WholeChunk, held: usize) -> Result<ChunkEntry, Error> {
        series::check(held + 1, chunk.bytes.len())?;
        assert_eq!(chunk.bytes.len(), chunk.entry.length as usize, "a whole chunk");
        let entry = ChunkEntry { offset: self.offset(), ..chunk.entry };
        self.buffer.extend_from_slice(&chunk.bytes);
        self.spill(BUFFER_BYTES)?;
        Ok(entry)
    }

    /// Number of a unit; 0 is the empty one, and what is too much becomes empty: a unit only says what a reader
    /// prints.
    fn unit(&mut self, unit: &str) -> u32 {
        let units = &mut self.summary.units;
        if let Some(at) = units.iter().position(|held| held == unit) {
            return at as u32;
        }
        if units.len() == format::UNITS_MAX {
            return 0;
        }
        units.push(unit.to_owned());
        units.len() as u32 - 1
    }

    /// Writes the buffer out once it holds `least` bytes.
    fn spill(&mut self, least: usize) -> Result<(), Error> {
        if self.buffer.len() < least {
            return Ok(());
        }
        self.checksum = crc32c::crc32c_append(self.checksum, &self.buffer);
        self.file.write_all(&self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Ends the section that began at `start`.
    fn end_section(&mut self, start: u64) -> Result<Section, Error> {
        self.spill(0)?;
        assert!(start <= self.written, "a section that begins at {start} where {} bytes are written", self.written);
        let section = Section { offset: start, length: self.written - start, checksum: self.checksum };
        self.checksum = 0;
        Ok(section)
    }

    fn finish(mut self, id: BlockId) -> Result<Option<BlockMeta>, Error> {
        self.take_open()?;
        self.decide()?;
        if self.entries.is_empty() {
            return Ok(None);
        }
        postings::check(self.labels.lists.len())?;
        assert_eq!(self.summary.series, self.entries.len() as u64, "each series has one entry");
        debug_assert_eq!(
            self.entries.iter().flat_map(|entry| &entry.chunks).map(|chunk| u64::from(chunk.samples)).sum::<u64>(),
            self.summary.samples,
            "each sample that came is in a chunk"
        );
        self.put_dictionary();
        let chunks = self.end_section(format::HEADER_BYTES)?;
        let (labels, lists) = std::mem::take(&mut self.labels).into_sorted(&mut self.entries);
        let (series, pages) = self.write_pages()?;
        let pages = self.write_section(pages)?;
        let labels = self.write_section(labels)?;
        let mut bytes = Vec::new();
        postings::put(&mut bytes, lists.iter().map(Vec::as_slice));
        let postings = self.write_section(bytes)?;
        let summary = self.write_section(self.summary.encode())?;
        self.write_end(&[chunks, series, pages, labels, postings, summary])?;
        self.file.sync()?;
        Ok(Some(BlockMeta {
            tenant: Tenant::default(),
            id,
            resolution_ms: 0,
            window: Window::NONE,
            arrived: 0,
            cleaned: 0,
            rolled: 0,
            time_min: WallMs(self.summary.time_min),
            time_max: WallMs(self.summary.time_max),
            series: self.summary.series,
            samples: self.summary.samples,
            bytes: self.written,
        }))
    }

    /// Writes everything but the chunks once more, which are read back for it, and the footer.
    fn write_end(&mut self, sections: &[Section; SectionId::ALL.len()]) -> Result<(), Error> {
        let mut next = format::HEADER_BYTES;
        for (id, section) in SectionId::ALL.into_iter().zip(sections) {
            assert_eq!(section.offset, next, "the {} begin where the section before ends", id.name());
            format::check_section(id, section.length)?;
            next += section.length;
        }
        let dictionary = self.summary.dictionary.map_or(0, |(length, _)| length);
        let (start, end) = (sections[SectionId::Series as usize - 1].offset - dictionary, self.written);
        assert_eq!(next, end, "the sections end where everything written does");
        self.buffer.resize(format::TWIN_DISTANCE as usize, 0);
        for offset in (start..end).step_by(BUFFER_BYTES) {
            let held = self.buffer.len();
            self.buffer.resize(held + (end - offset).min(BUFFER_BYTES as u64) as usize, 0);
            self.file.read_exact_at(offset, &mut self.buffer[held..])?;
            self.spill(BUFFER_BYTES)?;
        }
        self.buffer.extend_from_slice(&format::header());
        // The twin of the footer comes first, and says where the footer is.
        let at = self.offset() + format::END_BYTES + format::TWIN_DISTANCE;
        let twins = format::twin_distance(end, at).map(|distance| start + distance);
        assert_eq!(twins, Some(end + format::TWIN_DISTANCE), "a reader finds the twins behind the sections");
        let footer = format::footer(sections, at);
        self.buffer.extend_from_slice(&footer);
        self.buffer.resize(self.buffer.len() + format::TWIN_DISTANCE as usize, 0);
        self.buffer.extend_from_slice(&footer);
        self.spill(0)
    }

    /// Ends the chunks with the dictionary that texts were packed with.
    fn put_dictionary(&mut self) {
        if let Packing::Decided { dictionary, .. } = &self.packing
            && !dictionary.is_empty()
        {
            self.summary.dictionary = Some((dictionary.len() as u64, crc32c::crc32c(dictionary)));
            self.buffer.extend_from_slice(dictionary);
        }
    }

    fn write_section(&mut self, bytes: Vec<u8>) -> Result<Section, Error> {
        let start = self.offset();
        self.buffer.extend_from_slice(&bytes);
        self.end_section(start)
    }

    /// Writes the series pages and returns their section beside the bytes that name them.
    fn write_pages(&mut self) -> Result<(Section, Vec<u8>), Error> {
        let start = self.offset();
        let mut names = Vec::new();
        for entries in std::mem::take(&mut self.entries).chunks(PAGE_SERIES) {
            let page = self.buffer.len();
            series::put_page(&mut self.buffer, entries);
            let bytes = &self.buffer[page..];
            put_varint(&mut names, bytes.len() as u64);
            names.extend_from_slice(&crc32c::crc32c(bytes).to_le_bytes());
            self.spill(BUFFER_BYTES)?;
        }
        Ok((self.end_section(start)?, names))
    }
}

/// What a writer asserts of a piece with samples from `first` to `end`. Returns whether it is another one of the last
/// series.
fn check_series(piece: &Piece, (first, end): (i64, i64), last: Option<&LastSeries>) -> bool {
    let series = piece.series();
    let key = (&series.labels, series.meta.kind);
    let goes_on = last.is_some_and(|last| (&last.labels, last.kind) == key);
    if let Some(last) = last {
        assert!((&last.labels, last.kind) <= key, "series {key:?} follows {last:?}");
        assert!(!goes_on || last.time < first, "{first} to {end} of {key:?} follow {}", last.time);
    }
    match piece {
        Piece::Samples(data) => check_columns(data),
        Piece::Chunk(chunk) => assert!(first <= end && chunk.series.meta.kind != Kind::Text, "{key:?} is copied"),
    }
    goes_on
}

/// What a writer asserts of samples.
fn check_columns(data: &SeriesData) {
    let times = chunk::sample_times(data);
    let values = match data.meta.kind {
        Kind::Float => data.floats.values.len(),
        Kind::Histogram => data.histograms.values.len(),
        Kind::Text => data.texts.values.len(),
    };
    assert!(times.len() == values, "{} times and {values} values of {:?}", times.len(), data.labels);
    let starts = match data.meta.kind {
        Kind::Float => &data.floats.starts[..],
        Kind::Histogram => &data.histograms.starts,
        Kind::Text => &[],
    };
    let delta = data.meta.temporality == Temporality::Delta;
    // Of delta points that have starts, several may end at one time; the fragments at a time are one, in front.
    let equal = |at: usize| {
        times[at - 1] == times[at]
            && (data.meta.kind == Kind::Text
                || (delta && starts.get(at).is_some_and(|start| *start != 0 && starts[at - 1] <= *start)))
    };
    let ascend = (1..times.len()).all(|at| times[at - 1] < times[at] || equal(at));
    assert!(ascend, "times of {:?} do not ascend", data.labels);
}

/// The distinct labels in the order in which they were met, with the series that carry each.
#[derive(Default)]
struct LabelTable {
    numbers: HashMap<Box<[u8]>, u32>,
    lists: Vec<Vec<u32>>,
}

impl LabelTable {
    fn number(&mut self, name: &str, value: &str, series: u32) -> u32 {
        let next = u32::try_from(self.lists.len()).expect("a block has below 2^32 labels");
        let key = super::label_key(name, value);
        let number = match self.numbers.get(&key[..]) {
            Some(number) => *number,
            None => {
                self.numbers.insert(key.into(), next);
                self.lists.push(Vec::new());
                next
            }
        };
        let last = self.lists[number as usize].last();
        debug_assert!(
            last.is_none_or(|last| *last < series),
            "series {series} follows {last:?} in the list of a label"
        );
        self.lists[number as usize].push(series);
        number
    }

    /// The fst of all labels and their lists, both in the order of their keys; `entries` are renumbered.
    fn into_sorted(mut self, entries: &mut [Entry]) -> (Vec<u8>, Vec<Vec<u32>>) {
        let mut sorted: Vec<(Box<[u8]>, u32)> = self.numbers.drain().collect();
        sorted.sort_unstable();
        assert_eq!(sorted.len(), self.lists.len(), "each label has one list");
        let mut renumbered = vec![0; sorted.len()];
        let mut lists = Vec::with_capacity(sorted.len());
        let mut fst = fst::MapBuilder::memory();
        for (number, (key, met)) in sorted.iter().enumerate() {
            renumbered[*met as usize] = number as u32;
            lists.push(std::mem::take(&mut self.lists[*met as usize]));
            fst.insert(key, number as u64).expect("distinct sorted keys go into memory");
        }
        for label in entries.iter_mut().flat_map(|entry| &mut entry.labels) {
            *label = renumbered[*label as usize];
        }
        debug_assert!(lists.iter().all(|list| !list.is_empty()), "a series carries each label");
        (fst.into_inner().expect("memory takes every write"), lists)
    }
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod limit_tests;
