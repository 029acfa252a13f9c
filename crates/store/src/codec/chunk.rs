//! Chunk: consecutive samples of one series, encoded and read together.
//!
//! Invariants: times ascend (strictly, except for texts and for delta points with starts); a chunk of histograms has
//! one scheme and count type. Each sample of a series is in one chunk, and no chunk is empty. Starts and aggregates are
//! known of every sample of a column, or of none.
//! Format: docs/formats/block.md, "Chunk". The checksum is in the series page, next to the chunk's position.
//! Limits: the constants below, and those of each kind's module.

use std::ops::Range;

use ogive_model::{FloatColumn, HistogramColumn, Kind, SeriesColumns, SeriesData, TextColumn, TimeRange, Words};

use crate::bytes::{Broken, Cursor, put_varint};
use crate::codec::dictionary::{Dictionary, Packer};
use crate::codec::histograms::HistogramColumns;
use crate::codec::{aggregates, floats, histograms, integers, texts, times};

/// 4,096 floats: `pco` is at its best and one chunk is 68 minutes of 1 s cells, 4 to 8 KiB.
pub(crate) const FLOATS_MAX: usize = 4096;
/// 4,096 texts, within 1 MiB: lines of 256 bytes fill both.
pub(crate) const TEXTS_MAX: usize = 4096;
/// The most samples that a chunk of any kind holds.
pub(crate) const SAMPLES_MAX: usize = 4096;
const _: () = assert!(FLOATS_MAX <= SAMPLES_MAX && TEXTS_MAX <= SAMPLES_MAX);
const _: () = assert!(histograms::CHUNK_CELLS_MAX <= SAMPLES_MAX);
// Columns number the distinct fields of their lines with two bytes.
const _: () = assert!(TEXTS_MAX <= 1 << u16::BITS);

/// Chunks of at least half of the most samples are long: they gain little from more. So are those of 64 KiB.
const LONG_SHARE: usize = 2;
/// See [`LONG_SHARE`].
const LONG_BYTES: usize = 64 << 10;

/// Whether a chunk of so many samples and bytes gains next to nothing when others join it.
pub(crate) const fn is_long(kind: Kind, samples: usize, bytes: usize) -> bool {
    let most = match kind {
        Kind::Float => FLOATS_MAX,
        Kind::Histogram => histograms::CHUNK_CELLS_MAX,
        Kind::Text => TEXTS_MAX,
    };
    samples >= most / LONG_SHARE || bytes >= LONG_BYTES
}

/// How the samples of `series` are cut into chunks.
pub(crate) fn cut(series: &SeriesData) -> Vec<Range<usize>> {
    let count = sample_times(series).len();
    let mut chunks = Vec::new();
    let mut start = 0;
    while start < count {
        let length = match series.meta.kind {
            Kind::Float => FLOATS_MAX.min(count - start),
            Kind::Histogram => histograms::fitting(&series.histograms.values[start..]),
            Kind::Text => fitting_texts(&series.texts.values[start..]),
        };
        assert!(length > 0, "a chunk without samples at {start} of {count}");
        assert!(length <= SAMPLES_MAX, "a reader takes no chunk of {length} samples");
        chunks.push(start..start + length);
        start += length;
    }
    assert_eq!(start, count, "each sample of the column is in one chunk");
    chunks
}

/// The times of the column that the kind of `series` fills.
pub(crate) fn sample_times(series: &SeriesData) -> &[i64] {
    match series.meta.kind {
        Kind::Float => &series.floats.times,
        Kind::Histogram => &series.histograms.times,
        Kind::Text => &series.texts.times,
    }
}

/// Where the last chunk of `series` begins, when there are several: it may get more samples.
pub(crate) fn last_start(series: &SeriesData) -> Option<usize> {
    cut(series).last().map(|rows| rows.start).filter(|start| *start > 0)
}

/// The greatest row up to `at` whose time is another than that of the row before it, if there is one behind the first;
/// chunks that share a time cannot be told apart by it.
pub(crate) fn cut_between_times(series: &SeriesData, at: usize) -> usize {
    let times = sample_times(series);
    (1..=at).rev().find(|row| times[row - 1] < times[*row]).unwrap_or(at)
}

/// Forgets the samples from row `at` on. Columns may be of several lengths.
pub(crate) fn truncate(series: &mut SeriesData, at: usize) {
    let SeriesData { floats, histograms, texts, .. } = series;
    [&mut floats.times, &mut floats.starts, &mut histograms.times, &mut histograms.starts, &mut texts.times]
        .into_iter()
        .for_each(|column| column.truncate(at));
    floats.values.truncate(at);
    floats.aggregates.truncate(at);
    histograms.values.truncate(at);
    texts.values.truncate(at);
}

/// Takes the samples from row `at` on off.
pub(crate) fn split_off(series: &mut SeriesData, at: usize) -> SeriesData {
    fn off<T>(column: &mut Vec<T>, at: usize) -> Vec<T> {
        if column.is_empty() { Vec::new() } else { column.split_off(at) }
    }
    let SeriesData { labels, meta, floats, histograms, texts, rollup_ms } = series;
    SeriesData {
        labels: labels.clone(),
        meta: meta.clone(),
        floats: FloatColumn {
            times: off(&mut floats.times, at),
            values: off(&mut floats.values, at),
            starts: off(&mut floats.starts, at),
            aggregates: off(&mut floats.aggregates, at),
        },
        histograms: HistogramColumn {
            times: off(&mut histograms.times, at),
            values: off(&mut histograms.values, at),
            starts: off(&mut histograms.starts, at),
        },
        texts: TextColumn { times: off(&mut texts.times, at), values: off(&mut texts.values, at) },
        rollup_ms: *rollup_ms,
    }
}

/// Bytes of all texts of `series`.
pub(crate) fn text_bytes(series: &SeriesData) -> usize {
    series.texts.values.iter().map(String::len).sum()
}

/// About what the samples of `series` take in memory.
pub(crate) fn memory_bytes(series: &SeriesData) -> usize {
    let rows = 24 * sample_times(series).len() + 72 * series.floats.aggregates.len();
    let histograms: usize = series.histograms.values.iter().map(|value| 16 * histograms::weight(value)).sum();
    series.labels.memory_bytes() + rows + histograms + text_bytes(series) + 24 * series.texts.values.len()
}

fn fitting_texts(values: &[String]) -> usize {
    let mut bytes = 0;
    let fits = |value: &&String| {
        bytes += value.len();
        bytes <= texts::CHUNK_BYTES_MAX
    };
    values.iter().take(TEXTS_MAX).take_while(fits).count().max(1)
}

/// Appends the samples of `rows` of `series`; texts through `packer`.
pub(crate) fn put(out: &mut Vec<u8>, series: &SeriesData, rows: Range<usize>, packer: &mut Packer) {
    assert!(!rows.is_empty() && rows.len() <= SAMPLES_MAX, "a chunk of the rows {rows:?}");
    put_varint(out, rows.len() as u64);
    times::put(out, &sample_times(series)[rows.clone()]);
    match series.meta.kind {
        Kind::Float => {
            put_starts(out, &series.floats.times, &series.floats.starts, rows.clone());
            floats::put(out, &series.floats.values[rows.clone()]);
            if !series.floats.aggregates.is_empty() {
                let (held, times) = (series.floats.aggregates.len(), series.floats.times.len());
                assert_eq!(held, times, "each cell of a rollup has its aggregate");
                aggregates::put(out, &series.floats.times[rows.clone()], &series.floats.aggregates[rows]);
            }
        }
        Kind::Histogram => {
            put_starts(out, &series.histograms.times, &series.histograms.starts, rows.clone());
            let values = &series.histograms.values[rows];
            histograms::put(out, &histograms::Shape::from_value(&values[0]), values);
        }
        Kind::Text => texts::put(out, &series.texts.values[rows], packer),
    }
}

/// No starts are known.
pub(crate) const NO_STARTS: u8 = 0;
/// A start a sample.
const STARTS: u8 = 1;
/// As [`STARTS`], and times may be equal: who does not know that would take the samples of a time for one.
const STARTS_OF_POINTS: u8 = 2;

fn put_starts(out: &mut Vec<u8>, times: &[i64], starts: &[i64], rows: Range<usize>) {
    assert!(starts.is_empty() || starts.len() == times.len(), "{} starts of {} times", starts.len(), times.len());
    let points = times[rows.clone()].windows(2).any(|pair| pair[0] == pair[1]);
    let known = starts.get(rows).filter(|starts| starts.iter().any(|start| *start != 0));
    out.push(match known {
        None => NO_STARTS,
        Some(_) if points => STARTS_OF_POINTS,
        Some(_) => STARTS,
    });
    integers::put(out, known.unwrap_or_default());
}

/// What the first bytes of a chunk of texts say of `words`. Nothing of them has been compared with the chunk's
/// checksum: the filter has its own, and where it is not found the whole is read.
pub(crate) fn beginning(bytes: &[u8], words: &Words) -> texts::Beginning {
    let mut cursor = Cursor::new(bytes);
    let count = cursor.count(SAMPLES_MAX, "samples");
    match count.and_then(|count| times::get(&mut cursor, count)) {
        Ok(_) => texts::beginning(cursor, words),
        Err(_) => texts::Beginning::MayMatch,
    }
}

/// A chunk whose times are decoded and whose values are not yet.
pub(crate) struct Chunk<'a> {
    cursor: Cursor<'a>,
    times: Vec<i64>,
}

impl<'a> Chunk<'a> {
    /// Reads the times of a chunk.
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self, Broken> {
        let mut cursor = Cursor::new(bytes);
        let count = cursor.count(SAMPLES_MAX, "samples")?;
        let times = times::get(&mut cursor, count)?;
        Ok(Self { cursor, times })
    }

    /// Fails unless it has `count` samples.
    pub(crate) fn check_count(&self, count: usize) -> Result<(), Broken> {
        let found = self.times.len();
        if found == count { Ok(()) } else { Err(self.cursor.broken(format!("{found} samples where {count} are said"))) }
    }

    /// The samples inside `range`.
    pub(crate) fn rows(&self, range: TimeRange) -> Range<usize> {
        rows_inside(&self.times, range)
    }

    /// Appends the floats of `rows` to `column`; `rolled` ones have aggregates.
    pub(crate) fn floats(mut self, rows: Range<usize>, rolled: bool, column: &mut FloatColumn) -> Result<(), Broken> {
        let starts = self.starts()?;
        if rows.len() == self.times.len() {
            floats::extend(&mut self.cursor, rows.len(), &mut column.values)?;
        } else {
            // The column need not have room for what is not in it.
            let values = floats::get(&mut self.cursor, self.times.len())?;
            column.values.extend_from_slice(&values[rows.clone()]);
        }
        if rolled {
            let aggregates = aggregates::get(&mut self.cursor, &self.times)?;
            column.aggregates.extend_from_slice(&aggregates[rows.clone()]);
        }
        self.end()?;
        extend_starts(&mut column.starts, column.times.len(), &starts, rows.clone());
        column.times.extend_from_slice(&self.times[rows]);
        debug_assert_eq!(column.times.len(), column.values.len(), "each time has its float");
        Ok(())
    }

    /// Appends the histograms of `rows` to `column` and returns what they weigh.
    pub(crate) fn histograms(mut self, rows: Range<usize>, column: &mut HistogramColumn) -> Result<usize, Broken> {
        let starts = self.starts()?;
        let values = histograms::get(&mut self.cursor, self.times.len(), rows.clone())?;
        self.end()?;
        let weight = values.iter().map(histograms::weight).sum();
        extend_starts(&mut column.starts, column.times.len(), &starts, rows.clone());
        column.times.extend_from_slice(&self.times[rows]);
        column.values.extend(values);
        debug_assert_eq!(column.times.len(), column.values.len(), "each time has its histogram");
        Ok(weight)
    }

    /// As [`Chunk::histograms`], with the bins as another stretch of `columns`; false when these histograms do not have
    /// them as such.
    pub(crate) fn columns(mut self, rows: Range<usize>, columns: &mut SeriesColumns) -> Result<bool, Broken> {
        let starts = self.starts()?;
        let Some(found) = histograms::get_columns(&mut self.cursor, self.times.len(), rows.clone())? else {
            return Ok(false);
        };
        self.end()?;
        let column = &mut columns.series.histograms;
        extend_starts(&mut column.starts, column.times.len(), &starts, rows.clone());
        column.times.extend_from_slice(&self.times[rows]);
        column.values.extend(found.heads);
        columns.stretches.push(found.stretch);
        columns.bins += found.bins;
        debug_assert_eq!(column.times.len(), column.values.len(), "each time has its histogram");
        Ok(true)
    }

    /// All histograms of the chunk; None as of [`Chunk::columns`].
    pub(super) fn all_columns(mut self) -> Result<Option<AllColumns>, Broken> {
        let (starts, count) = (self.starts()?, self.times.len());
        let Some(found) = histograms::get_columns(&mut self.cursor, count, 0..count)? else { return Ok(None) };
        self.end()?;
        Ok(Some(AllColumns { times: self.times, starts, found }))
    }

    /// Whether texts of the chunk may match that are asked for `words`.
    pub(crate) fn may_match(&self, words: &Words) -> Result<bool, Broken> {
        texts::may_match(self.cursor.clone(), words)
    }

    /// Appends the texts of `rows` to `column`.
    pub(crate) fn texts(
        mut self,
        rows: Range<usize>,
        dictionary: Option<&Dictionary>,
        column: &mut TextColumn,
    ) -> Result<(), Broken> {
        let values = texts::get(&mut self.cursor, self.times.len(), dictionary)?;
        self.end()?;
        column.times.extend_from_slice(&self.times[rows.clone()]);
        column.values.extend(values.into_iter().skip(rows.start).take(rows.len()));
        debug_assert_eq!(column.times.len(), column.values.len(), "each time has its text");
        Ok(())
    }

    fn starts(&mut self) -> Result<Vec<i64>, Broken> {
        match self.cursor.byte()? {
            NO_STARTS => Ok(Vec::new()),
            STARTS | STARTS_OF_POINTS => integers::get(&mut self.cursor, self.times.len()),
            tag => Err(self.cursor.broken(format!("{tag} does not say whether starts are written"))),
        }
    }

    fn end(&self) -> Result<(), Broken> {
        if self.cursor.is_empty() { Ok(()) } else { Err(self.cursor.broken("bytes follow the last value")) }
    }
}

/// The rows of ascending times that are inside `range`.
pub(super) fn rows_inside(times: &[i64], range: TimeRange) -> Range<usize> {
    let end = times.partition_point(|time| *time <= range.end.0);
    let start = times.partition_point(|time| *time <= range.start.0);
    start.min(end)..end
}

/// All histograms of a chunk.
pub(super) struct AllColumns {
    pub(super) times: Vec<i64>,
    /// One a time, or none.
    pub(super) starts: Vec<i64>,
    pub(super) found: HistogramColumns,
}

/// Keeps starts empty as long as none is known, and one a time from then on.
pub(super) fn extend_starts(column: &mut Vec<i64>, held: usize, starts: &[i64], rows: Range<usize>) {
    if column.is_empty() && starts.is_empty() {
        return;
    }
    debug_assert!(column.is_empty() || column.len() == held, "{} starts of {held} times", column.len());
    column.resize(held, 0);
    match starts.get(rows.clone()) {
        Some(starts) => column.extend_from_slice(starts),
        None => column.resize(held + rows.len(), 0),
    }
}
