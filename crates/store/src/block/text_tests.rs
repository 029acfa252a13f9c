//! Blocks of many short texts: their dictionary, and damage to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ogive_journal::{Disk, SimulatedDisk};
use ogive_model::{Kind, Labels, MatchOp, Matcher, Selection, SeriesData, Temporality, TimeRange, Words};

use crate::block::{scrub, write_as};
use crate::codec::dictionary::Effort;
use crate::testing::{bits, empty};
use crate::{Block, BlockId, Budget, Error, block};

const DIRECTORY: &str = "/store";

fn line(at: i64) -> String {
    let (order, ms, worker) = (at * 7919 % 1000, at % 97, at % 13);
    format!(
        "GET /api/v2/orders/{order} 200 in {ms} ms by worker-{worker} for Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101"
    )
}

/// Series of twenty lines each, and a gauge before and behind them.
fn source(series: i64) -> Vec<SeriesData> {
    let labels = |name: &str, number: i64| Labels::new([("__name__", name), ("n", &format!("{number:04}"))]).unwrap();
    let gauge = |name: &str| {
        let mut data = empty(labels(name, 0), Kind::Float, Temporality::Gauge);
        (data.floats.times, data.floats.values) = ((0..9).collect(), (0..9).map(f64::from).collect());
        data
    };
    let log = |number: i64| {
        let mut data = empty(labels("log", number), Kind::Text, Temporality::Gauge);
        data.texts.times = (0..20).map(|at| number + at * 60_000).collect();
        data.texts.values = (0..20).map(|at| line(number * 31 + at)).collect();
        data
    };
    [gauge("a")].into_iter().chain((0..series).map(log)).chain([gauge("z")]).collect()
}

/// Each series cut into pieces, as a compaction brings them.
fn pieces(source: &[SeriesData]) -> Vec<SeriesData> {
    let cut = |data: &SeriesData| {
        let ranges = [(-1, 300_000), (300_000, 301_000), (301_000, i64::MAX)];
        let part = |(start_ms, end_ms)| crate::testing::cut_to(data, TimeRange::from_ms(start_ms, end_ms));
        ranges.map(part).into_iter().filter(|part| !crate::tombstone::is_empty(part)).collect::<Vec<_>>()
    };
    source.iter().flat_map(cut).collect()
}

fn write(disk: &dyn Disk, source: &[SeriesData], effort: Effort) -> (PathBuf, u64) {
    disk.create_dir_all(Path::new(DIRECTORY)).unwrap();
    let id = BlockId(7);
    let meta = write_as(disk, Path::new(DIRECTORY), id, 0, effort, source.iter().cloned().map(Ok)).unwrap().unwrap();
    (Path::new(DIRECTORY).join(block::file_name(id)), meta.bytes)
}

fn select(block: &Block, name: &str) -> Result<Vec<SeriesData>, Error> {
    let selection = Selection::new(vec![Matcher::new("__name__", MatchOp::Regex, name).unwrap()], TimeRange::ALL);
    block.select(&selection, &mut Budget::new(usize::MAX))
}

#[test]
fn short_texts_of_many_series_share_a_dictionary_and_read_as_ever() {
    let disk = SimulatedDisk::new(0);
    let source = source(400);
    let whole: String = source.iter().flat_map(|data| &data.texts.values).flat_map(|line| [line, "\n"]).collect();
    let mut sizes = Vec::new();
    for (effort, quick_bytes) in [(Effort::Quick, whole.len() as u64 - 400 * 20), (Effort::Hard, 0)] {
        for source_of in [source.clone(), pieces(&source)] {
            let (path, bytes) = write(&disk, &source_of, effort);
            let block = Block::open(&disk, &path).unwrap();
            let dictionary = block.dictionary_place().unwrap();
            assert_eq!(block.quick_text_bytes(), quick_bytes);
            assert_eq!(bits(&select(&block, ".*").unwrap()), bits(&source));
            block.verify().unwrap();
            sizes.push((bytes, dictionary.offset + dictionary.length));
        }
    }
    assert_eq!((sizes[0], sizes[2]), (sizes[1], sizes[3]), "pieces make the same chunks");
    assert!(sizes[2] < sizes[0], "{sizes:?}");
    let alone = |data: &SeriesData| zstd::bulk::compress(data.texts.values.join("\n").as_bytes(), 9).unwrap().len();
    let alone: usize = source.iter().filter(|data| data.meta.kind == Kind::Text).map(alone).sum();
    assert!(sizes[2].1 * 4 < alone as u64 * 3, "{sizes:?} with the dictionary, where {alone} would be texts alone");
}

#[test]
fn more_texts_than_wait_for_a_dictionary_read_as_ever() {
    let disk = SimulatedDisk::new(0);
    let mut source = source(40);
    let long = |at: i64| (0..3000).map(|n| line(at + n)).collect::<Vec<_>>().join(" ");
    for data in source.iter_mut().filter(|data| data.meta.kind == Kind::Text).take(5) {
        data.texts.values = (0..20).map(|at| if at % 3 == 0 { format!("{}\nx", line(at)) } else { long(at) }).collect();
    }
    let (path, _) = write(&disk, &pieces(&source), Effort::Quick);
    let block = Block::open(&disk, &path).unwrap();
    assert_eq!(bits(&select(&block, ".*").unwrap()), bits(&source));
}

#[test]
fn a_bad_dictionary_is_named_and_leaves_what_does_not_need_it() {
    let disk = SimulatedDisk::new(0);
    let source = source(60);
    let (path, bytes) = write(&disk, &source, Effort::Hard);
    let place = Block::open(&disk, &path).unwrap().dictionary_place().unwrap();
    let twin = Block::open(&disk, &path).unwrap().twin_of(place).unwrap();
    let good = disk.read(&path).unwrap();
    for byte in [0, place.length / 2, place.length - 1] {
        disk.flip_bit(&path, (place.offset + byte) as usize * 8 + 3);
        let block = Block::open(&disk, &path).unwrap();
        assert_eq!(bits(&select(&block, ".*").unwrap()), bits(&source), "its twin is good");
        assert!(disk.read(&path).unwrap() == good, "it is healed");
        [place.offset, twin].into_iter().for_each(|at| disk.flip_bit(&path, (at + byte) as usize * 8 + 3));
        let block = Block::open(&disk, &path).unwrap();
        assert_eq!(bits(&select(&block, "a|z").unwrap()).len(), 2);
        assert!(matches!(select(&block, "log"), Err(Error::Corrupt { offset, .. }) if offset == place.offset));
        let findings = scrub::scrub_block(&disk, &path, bytes, &mut |_| Ok(())).unwrap();
        assert!(
            findings.len() == 2 && findings.iter().all(|one| one.to_string().contains("dictionary")),
            "{findings:?}"
        );
        disk.put(&path, good.clone());
    }
}

/// A search for a word that only one of many chunks has reads that one, and a few for nothing; it never misses one.
#[test]
fn a_search_skips_chunks_without_its_words() {
    let disk = SimulatedDisk::new(0);
    let mut log = empty(Labels::new([("__name__", "log")]).unwrap(), Kind::Text, Temporality::Gauge);
    log.texts.times = (0..60_000).collect();
    log.texts.values = (0..60_000).map(line).collect();
    log.texts.values[31_234] = "Kernel: PANIC at \\u00e4rger".to_owned();
    let (path, _) = write(&disk, std::slice::from_ref(&log), Effort::Quick);
    let block = Block::open(&disk, &path).unwrap();
    let found = |words: Words| {
        let selection = Selection::new(Vec::new(), TimeRange::ALL);
        let mut budget = Budget::new(usize::MAX).with_words(Some(Arc::new(words)));
        let found = block.select(&selection, &mut budget).unwrap();
        found.first().map_or((0, false), |data| (data.texts.times.len(), data.texts.times.contains(&31_234)))
    };
    let word = |word: &str| Words::Word(word.to_owned());
    for rare in [word("panic"), word("kernel"), word("ärger"), Words::All(vec![word("panic"), word("at")])] {
        let (count, has) = found(rare.clone());
        assert!(has && count < 60_000 / 4, "{rare:?}: {count}");
    }
    assert_eq!(found(Words::NONE), (60_000, true));
    assert_eq!(found(word("worker")).0, 60_000);
    assert!(found(Words::Any(vec![word("nowhere"), word("panic")])).1);
    let nowhere = ["nowhere", "notthere", "neither"].map(|one| found(word(one)).0);
    assert!(nowhere.iter().sum::<usize>() < 60_000, "{nowhere:?}: almost nothing is read");
}

/// A chunk that the filter rules out was read whole all the same, and its checksum compared.
#[test]
fn a_chunk_that_is_ruled_out_is_not_read_and_scrubbed_still() {
    let disk = SimulatedDisk::new(0);
    let mut log = empty(Labels::new([("__name__", "log")]).unwrap(), Kind::Text, Temporality::Gauge);
    log.texts.times = (0..60_000).collect();
    // Of words that do not repeat, so that a chunk is larger than what is read of it for its filter.
    let numbered =
        |at: i64| format!("{} {:x} {:x}", line(at), at.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64), at * at * 7919);
    log.texts.values = (0..60_000).map(numbered).collect();
    let (path, bytes) = write(&disk, std::slice::from_ref(&log), Effort::Quick);
    // In the middle of the chunks, and so behind the filter of one.
    disk.flip_bit(&path, bytes as usize / 2 * 8 / 2);
    let block = Block::open(&disk, &path).unwrap();
    let found = |word: &str| {
        let selection = Selection::new(Vec::new(), TimeRange::ALL);
        let mut budget = Budget::new(usize::MAX).with_words(Some(Arc::new(Words::Word(word.to_owned()))));
        block.select(&selection, &mut budget).map(|found| found.first().map_or(0, |data| data.texts.times.len()))
    };
    // A filter is wrong about one of some twenty words.
    let absent = ["nowhere", "notthere", "neither", "nobody", "nothing"].map(found);
    assert!(absent.iter().filter(|found| matches!(found, Ok(0))).count() > 2, "{absent:?}");
    assert!(matches!(found("worker"), Err(Error::Corrupt { .. })), "who wants the chunk hears that it is bad");
    assert!(matches!(block.verify(), Err(Error::Corrupt { .. })));
    assert_eq!(scrub::scrub_block(&disk, &path, bytes, &mut |_| Ok(())).unwrap().len(), 1);
}
