//! Series pages: the description of each series and the positions of its chunks.
//!
//! Invariants: the chunks of a page are contiguous from the page's base, in the order of its series.
//! Format: docs/formats/block.md, "Series page". A series shares its first labels with the previous one.

use ogive_model::{Kind, Temporality, TimeRange};

use crate::Error;
use crate::block::format::PAGE_SERIES;
use crate::bytes::{Broken, Cursor, put_signed, put_varint};
use crate::codec::texts;

/// A series in a block: everything but its samples, labels by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) labels: Vec<u32>,
    pub(crate) kind: Kind,
    pub(crate) temporality: Temporality,
    pub(crate) unit: u32,
    pub(crate) width_ms: u32,
    /// Floats with the aggregates of a rollup.
    pub(crate) aggregates: bool,
    pub(crate) chunks: Vec<ChunkEntry>,
}

/// Where a chunk is and what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkEntry {
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) checksum: u32,
    pub(crate) samples: u32,
    pub(crate) time_min: i64,
    pub(crate) time_max: i64,
}

impl ChunkEntry {
    /// Where its bytes end.
    pub(crate) const fn end(&self) -> u64 {
        self.offset.saturating_add(self.length as u64)
    }

    /// Whether a sample of the chunk can be inside `range`.
    pub(crate) const fn touches(&self, range: TimeRange) -> bool {
        range.start.0 < self.time_max && self.time_min <= range.end.0
    }
}

/// Labels of one series; the model takes no more.
const LABELS_MAX: usize = ogive_model::Labels::COUNT_MAX;
/// 16 Mi chunks of one series in one block: 68 years of 1 s cells.
pub(crate) const CHUNKS_MAX: usize = 1 << 24;
/// 64 MiB: four texts of the largest size that is taken.
pub(crate) const CHUNK_BYTES_MAX: usize = 64 << 20;
const _: () = assert!(CHUNK_BYTES_MAX > texts::CHUNK_BYTES_MAX + texts::TEXT_BYTES_MAX);

/// Whether a series may have so many chunks, and its last one so many bytes: what [`get_page`] reads.
///
/// # Errors
/// [`Error::Refused`]: a block that says more would be written and never read again.
pub(crate) fn check(chunks: usize, chunk_bytes: usize) -> Result<(), Error> {
    for (found, limit, what) in [(chunks, CHUNKS_MAX, "chunks"), (chunk_bytes, CHUNK_BYTES_MAX, "bytes in a chunk")] {
        if found > limit {
            let problem = format!("a series of a block would have {found} {what} where at most {limit} can be read");
            return Err(Error::Refused { problem });
        }
    }
    Ok(())
}

/// Appends a page of at least one and at most [`PAGE_SERIES`] series.
pub(crate) fn put_page(out: &mut Vec<u8>, entries: &[Entry]) {
    assert!(!entries.is_empty() && entries.len() <= PAGE_SERIES, "a page of {} series", entries.len());
    put_varint(out, entries[0].chunks[0].offset);
    let mut before: &[u32] = &[];
    let mut time = 0;
    let mut next = entries[0].chunks[0].offset;
    for entry in entries {
        assert!(entry.labels.len() <= LABELS_MAX, "a reader takes no {} labels of a series", entry.labels.len());
        assert!((1..=CHUNKS_MAX).contains(&entry.chunks.len()), "a series of {} chunks", entry.chunks.len());
        let shared = before.iter().zip(&entry.labels).take_while(|(a, b)| a == b).count();
        put_varint(out, shared as u64);
        put_varint(out, (entry.labels.len() - shared) as u64);
        entry.labels[shared..].iter().for_each(|label| put_varint(out, u64::from(*label)));
        before = &entry.labels;
        let kind = if entry.aggregates { ROLLED_FLOATS } else { entry.kind as u8 };
        out.push(kind | (entry.temporality as u8) << 4);
        put_varint(out, u64::from(entry.unit));
        put_varint(out, u64::from(entry.width_ms));
        put_varint(out, entry.chunks.len() as u64);
        for chunk in &entry.chunks {
            assert_eq!(chunk.offset, next, "a chunk begins where the one before it ends");
            assert!(chunk.time_min <= chunk.time_max, "times from {} to {}", chunk.time_min, chunk.time_max);
            assert!(chunk.samples > 0, "the chunk at {next} has a sample");
            next += u64::from(chunk.length);
            put_varint(out, u64::from(chunk.length));
            out.extend_from_slice(&chunk.checksum.to_le_bytes());
            put_varint(out, u64::from(chunk.samples));
            put_signed(out, chunk.time_min.wrapping_sub(time));
            put_varint(out, chunk.time_max.wrapping_sub(chunk.time_min).cast_unsigned());
            time = chunk.time_min;
        }
    }
}

/// Reads a page of `count` series.
pub(crate) fn get_page(bytes: &[u8], count: usize) -> Result<Vec<Entry>, Broken> {
    let mut cursor = Cursor::new(bytes);
    let mut place = ChunkLocation { offset: cursor.varint()?, time: 0 };
    let mut entries: Vec<Entry> = Vec::with_capacity(count.min(PAGE_SERIES));
    let mut labels = Vec::new();
    for _ in 0..count {
        let mut chunks = Vec::new();
        let described = get_entry(&mut cursor, &mut labels, &mut place, |chunk, _| chunks.push(chunk))?;
        let Described { kind, temporality, unit, width_ms, aggregates, .. } = described;
        entries.push(Entry { labels: labels.clone(), kind, temporality, unit, width_ms, aggregates, chunks });
    }
    if cursor.is_empty() { Ok(entries) } else { Err(cursor.broken("bytes follow the last series")) }
}

/// Calls `each` with the labels of each of `count` series of a page, how many of the first of them are those of the one
/// before, and what it is: [`get_page`] for who wants nothing of the chunks.
pub(crate) fn each_of_page(
    bytes: &[u8],
    count: usize,
    mut each: impl FnMut(&[u32], usize, (Kind, Temporality)) -> Result<(), Broken>,
) -> Result<(), Broken> {
    let mut cursor = Cursor::new(bytes);
    let mut place = ChunkLocation { offset: cursor.varint()?, time: 0 };
    let mut labels = Vec::new();
    for _ in 0..count {
        let Described { shared, kind, temporality, .. } = get_entry(&mut cursor, &mut labels, &mut place, |_, _| ())?;
        each(&labels, shared, (kind, temporality))?;
    }
    if cursor.is_empty() { Ok(()) } else { Err(cursor.broken("bytes follow the last series")) }
}

/// Calls `each` with the chunks of `count` series of a page and where in it the checksum of each stands.
pub(crate) fn each_chunk(bytes: &[u8], count: usize, mut each: impl FnMut(ChunkEntry, usize)) -> Result<(), Broken> {
    let mut cursor = Cursor::new(bytes);
    let mut place = ChunkLocation { offset: cursor.varint()?, time: 0 };
    let mut labels = Vec::new();
    (0..count).try_for_each(|_| get_entry(&mut cursor, &mut labels, &mut place, &mut each).map(drop))
}

/// Calls `each` with each of `count` series of a page that has a chunk which touches `range`, by its place: to count
/// them.
pub(crate) fn touching_of_page(
    bytes: &[u8],
    count: usize,
    range: TimeRange,
    mut each: impl FnMut(usize, (Kind, Temporality)),
) -> Result<(), Broken> {
    let mut cursor = Cursor::new(bytes);
    let mut place = ChunkLocation { offset: cursor.varint()?, time: 0 };
    let mut labels = Vec::new();
    for at in 0..count {
        let mut touches = false;
        let chunk = |chunk: ChunkEntry, _| touches |= chunk.touches(range);
        let Described { kind, temporality, .. } = get_entry(&mut cursor, &mut labels, &mut place, chunk)?;
        if touches {
            each(at, (kind, temporality));
        }
    }
    if cursor.is_empty() { Ok(()) } else { Err(cursor.broken("bytes follow the last series")) }
}

struct ChunkLocation {
    offset: u64,
    time: i64,
}

/// A series but for its labels and chunks.
struct Described {
    /// How many of its first labels are those of the one before.
    shared: usize,
    kind: Kind,
    temporality: Temporality,
    unit: u32,
    width_ms: u32,
    aggregates: bool,
}

/// `labels` are those of the series before, and then its own. Each chunk is reported with where its checksum stands.
fn get_entry(
    cursor: &mut Cursor<'_>,
    labels: &mut Vec<u32>,
    place: &mut ChunkLocation,
    mut chunk: impl FnMut(ChunkEntry, usize),
) -> Result<Described, Broken> {
    let shared = cursor.count(labels.len(), "labels shared")?;
    let own = cursor.count(LABELS_MAX, "labels")?;
    labels.truncate(shared);
    for _ in 0..own {
        labels.push(cursor.count(u32::MAX as usize, "as a label")? as u32);
    }
    let byte = cursor.byte()?;
    let aggregates = byte & 15 == ROLLED_FLOATS;
    let kind = if aggregates { Some(Kind::Float) } else { kind_of(byte & 15) };
    let (Some(kind), Some(temporality)) = (kind, temporality_of(byte >> 4)) else {
        return Err(cursor.broken(format!("{byte:#04x} is no kind and temporality")));
    };
    let unit = cursor.count(u32::MAX as usize, "as a unit")? as u32;
    let width_ms = cursor.count(u32::MAX as usize, "milliseconds")? as u32;
    for _ in 0..cursor.count(CHUNKS_MAX, "chunks")? {
        let length = cursor.count(CHUNK_BYTES_MAX, "bytes of a chunk")? as u32;
        let at = cursor.position();
        let checksum = cursor.u32()?;
        let samples = cursor.count(u32::MAX as usize, "samples")? as u32;
        let time_min = place.time.wrapping_add(cursor.signed()?);
        let time_max = time_min.wrapping_add(cursor.varint()?.cast_signed());
        chunk(ChunkEntry { offset: place.offset, length, checksum, samples, time_min, time_max }, at);
        place.offset = place.offset.saturating_add(u64::from(length));
        place.time = time_min;
    }
    Ok(Described { shared, kind, temporality, unit, width_ms, aggregates })
}

/// The kind of floats that a rollup made.
const ROLLED_FLOATS: u8 = 3;
// Kind and temporality share a byte.
const _: () = assert!(ROLLED_FLOATS as usize >= Kind::COUNT && ROLLED_FLOATS < 16);

const fn kind_of(code: u8) -> Option<Kind> {
    match code {
        0 => Some(Kind::Float),
        1 => Some(Kind::Histogram),
        2 => Some(Kind::Text),
        _ => None,
    }
}

const fn temporality_of(code: u8) -> Option<Temporality> {
    match code {
        0 => Some(Temporality::Gauge),
        1 => Some(Temporality::Cumulative),
        2 => Some(Temporality::Delta),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(labels: Vec<u32>, chunks: Vec<(u32, i64, i64)>) -> Entry {
        let mut offset = 0;
        let chunks = chunks.into_iter().map(|(length, a, b)| {
            let chunk =
                ChunkEntry { offset, length, checksum: length ^ 7, samples: 3, time_min: a.min(b), time_max: a.max(b) };
            offset += u64::from(length);
            chunk
        });
        let chunks: Vec<ChunkEntry> = chunks.collect();
        let aggregates = chunks.len() % 2 == 1;
        let kind = if aggregates { Kind::Float } else { Kind::Text };
        Entry { labels, kind, temporality: Temporality::Delta, unit: 3, width_ms: 1000, aggregates, chunks }
    }

    proptest! {
        #[test]
        fn any_page_comes_back(shapes in proptest::collection::vec((
            proptest::collection::vec(0..40_u32, 0..6),
            proptest::collection::vec((0..9000_u32, any::<i64>(), any::<i64>()), 1..4),
        ), 1..PAGE_SERIES)) {
            let mut entries: Vec<Entry> = shapes.into_iter().map(|(labels, chunks)| entry(labels, chunks)).collect();
            let mut offset = 700;
            for chunk in entries.iter_mut().flat_map(|entry| &mut entry.chunks) {
                chunk.offset = offset;
                offset += u64::from(chunk.length);
            }
            let mut out = Vec::new();
            put_page(&mut out, &entries);
            prop_assert_eq!(&get_page(&out, entries.len()).unwrap(), &entries);
            let mut rest = &entries[..];
            let mut before: &[u32] = &[];
            each_of_page(&out, entries.len(), |labels, shared, of| {
                let (first, others) = rest.split_first().unwrap();
                assert_eq!((labels, &before[..shared]), (&first.labels[..], &labels[..shared]));
                assert_eq!(of, (first.kind, first.temporality));
                (rest, before) = (others, &first.labels);
                Ok(())
            }).unwrap();
            prop_assert!(rest.is_empty());
            let range = TimeRange::from_ms(0, i64::MAX / 2);
            let touching = entries.iter().enumerate().filter(|(_, one)| one.chunks.iter().any(|chunk| chunk.touches(range)));
            let touching: Vec<_> = touching.map(|(at, one)| (at, (one.kind, one.temporality))).collect();
            let mut counted = Vec::new();
            touching_of_page(&out, entries.len(), range, |at, of| counted.push((at, of))).unwrap();
            prop_assert_eq!(counted, touching);
        }

        #[test]
        fn any_bytes_are_a_page_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300), count in 0..70_usize) {
            let page = get_page(&bytes, count).map(drop);
            prop_assert_eq!(&each_of_page(&bytes, count, |_, _, _| Ok(())), &page);
            prop_assert_eq!(touching_of_page(&bytes, count, TimeRange::ALL, |_, _| ()), page);
        }
    }
}
