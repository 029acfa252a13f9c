//! The limits of a block at their value and one above, written and opened again.

use std::path::Path;

use ogive_journal::SimulatedDisk;
use ogive_model::{FloatColumn, HistogramColumn, SeriesMeta, TextColumn};

use super::*;
use crate::Block;

fn series(time_ms: i64) -> SeriesData {
    let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    SeriesData {
        labels: Labels::new([("__name__", "a")]).unwrap(),
        meta,
        floats: FloatColumn { times: vec![time_ms], values: vec![1.5], ..FloatColumn::default() },
        histograms: HistogramColumn::default(),
        texts: TextColumn::default(),
        rollup_ms: 0,
    }
}

fn writer(disk: &SimulatedDisk) -> Writer {
    disk.create_dir_all(Path::new("/store")).unwrap();
    Writer::create(disk, "/store/block".into(), Effort::Quick).unwrap()
}

/// Ends a block whose chunks did not come through `add`, which counts.
fn finish(mut writer: Writer) {
    let chunks = writer.entries.iter().flat_map(|entry| &entry.chunks);
    writer.summary.samples = chunks.map(|chunk| u64::from(chunk.samples)).sum();
    (writer.summary.time_min, writer.summary.time_max) = (1_000, 3_000);
    writer.finish(BlockId(1)).unwrap().unwrap();
}

/// A writer with one series of `count` chunks, the last ones of them without bytes.
fn with_chunks(disk: &SimulatedDisk, count: usize) -> Writer {
    let mut writer = writer(disk);
    writer.put(&Part { piece: Piece::Samples(series(1_000)), goes_on: false }).unwrap();
    let entry = &mut writer.entries[0];
    let end = entry.chunks[0].offset + u64::from(entry.chunks[0].length);
    let empty = ChunkEntry { offset: end, length: 0, checksum: 0, samples: 1, time_min: 1_000, time_max: 1_000 };
    entry.chunks.reserve_exact(count);
    entry.chunks.resize(count, empty);
    writer
}

/// The reader's limit was not the writer's: a series of more chunks was written, and then no start could read its
/// block.
#[test]
fn as_many_chunks_as_may_be_are_read_again_and_one_more_is_refused() {
    let disk = SimulatedDisk::new(0);
    let mut writer = with_chunks(&disk, series::CHUNKS_MAX - 1);
    writer.put(&Part { piece: Piece::Samples(series(2_000)), goes_on: true }).unwrap();
    let more = Part { piece: Piece::Samples(series(3_000)), goes_on: true };
    assert!(matches!(writer.put(&more), Err(Error::Refused { .. })));
    finish(writer);
    let block = Block::open(&disk, Path::new("/store/block")).unwrap();
    let mut found = 0;
    block.each_series(|def| found += usize::from(def.labels.metric_name() == "a")).unwrap();
    assert_eq!(found, 1);
}

#[test]
fn a_chunk_as_large_as_may_be_is_read_again_and_a_larger_one_refused() {
    let disk = SimulatedDisk::new(0);
    let mut writer = writer(&disk);
    writer.put(&Part { piece: Piece::Samples(series(1_000)), goes_on: false }).unwrap();
    let offset = writer.offset();
    writer.buffer.resize(writer.buffer.len() + series::CHUNK_BYTES_MAX, 0);
    let bytes = &writer.buffer[writer.buffer.len() - series::CHUNK_BYTES_MAX..];
    assert!(series::check(2, bytes.len()).is_ok());
    let checksum = crc32c::crc32c(bytes);
    let length = series::CHUNK_BYTES_MAX as u32;
    let large = ChunkEntry { offset, length, checksum, samples: 1, time_min: 2_000, time_max: 2_000 };
    writer.entries[0].chunks.push(large);
    assert!(matches!(series::check(2, series::CHUNK_BYTES_MAX + 1), Err(Error::Refused { .. })));
    finish(writer);
    // Its bytes are no samples; that they are the ones that were written is what is looked at.
    Block::open(&disk, Path::new("/store/block")).unwrap().verify().unwrap();
    // What was written without the check is refused by the reader, and not read into memory.
    let mut page = Vec::new();
    let larger = ChunkEntry { length: length + 1, ..large };
    let labels = vec![0];
    let entry = Entry {
        labels,
        kind: Kind::Float,
        temporality: Temporality::Gauge,
        unit: 0,
        width_ms: 0,
        aggregates: false,
        chunks: vec![larger],
    };
    series::put_page(&mut page, &[entry]);
    assert!(series::get_page(&page, 1).unwrap_err().problem.contains("bytes of a chunk"));
}
