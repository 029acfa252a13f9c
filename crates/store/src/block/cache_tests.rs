//! A block with a cache answers as one without, whatever was asked before.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use ogive_hist::{Histogram, Scheme};
use ogive_journal::{Disk, SimulatedDisk};
use ogive_model::{
    Aggregate, HistogramValue, Kind, Labels, MatchOp, Matcher, Memory, MemoryScope, Opening, Selection, SeriesColumns,
    SeriesData, Temporality, TimeRange,
};
use proptest::prelude::*;

use super::*;
use crate::codec::float_run::{Found, RunScratch};
use crate::codec::kept_floats::KeptFloats;
use crate::testing::{bits, empty};
use crate::{Error, block};

/// Series of each shape.
const SHAPES: usize = 11;
/// Of the shape that has its own.
const BOUNDS: usize = 500;
/// The times of most are within so many milliseconds.
const SPAN_MS: i64 = 400_000;

fn series(shape: usize, number: usize, rng: &mut Rng) -> SeriesData {
    let labels = Labels::new([("__name__", format!("m{shape:x}")), ("n", number.to_string())]).unwrap();
    let kind = [Kind::Float, Kind::Histogram][usize::from(shape >= 6)];
    let temporality = if matches!(shape, 3 | 6) { Temporality::Cumulative } else { Temporality::Gauge };
    let mut data = empty(labels, kind, temporality);
    let count = rng.usize(80..400);
    let mut time = rng.i64(0..1000);
    let times: Vec<i64> = (0..count)
        .map(|at| {
            let gap = if at == count / 2 { rng.i64(1..50_000) } else { 0 };
            time += if shape.is_multiple_of(2) { 1000 } else { rng.i64(1..2000) + gap };
            time
        })
        .collect();
    let starts: Vec<i64> = if matches!(shape, 4 | 7) { times.iter().map(|at| at - 500).collect() } else { Vec::new() };
    if kind == Kind::Float {
        data.floats.values = match shape {
            0 | 1 | 4 => times.iter().map(|_| f64::from(rng.i32(-9000..9000)) / 100.0).collect(),
            2 => times.iter().map(|_| f64::from_bits(rng.u64(..))).collect(),
            _ => (0..count).map(|at| at as f64 * 1e9).collect(),
        };
        if shape == 5 {
            let aggregate = |time: &i64| Aggregate { count: 3, sum: 1.5, first_time: time - 9, ..Aggregate::default() };
            data.floats.aggregates = times.iter().map(aggregate).collect();
        }
        (data.floats.times, data.floats.starts) = (times, starts);
        return data;
    }
    let mut total = Histogram::new(Scheme::Exp2 { scale: 3 });
    data.histograms.values = times
        .iter()
        .map(|_| {
            if shape == 10 {
                let bounds = (0..BOUNDS).map(|bound| bound as f64).collect();
                let mut one = Histogram::new(Scheme::Custom { bounds });
                one.positive = [(rng.i32(0..9), rng.u64(1..9)), (BOUNDS as i32, 1)].into_iter().collect();
                return HistogramValue::Integer(one);
            }
            let mut one = if shape == 6 { total.clone() } else { Histogram::log_linear() };
            (0..rng.usize(0..20)).for_each(|_| one.record((rng.f64() - 0.2) * 1e3));
            total = if shape == 6 { one.clone() } else { total.clone() };
            if shape == 9 {
                // More than can be added without care.
                one.positive = [(7, u64::MAX / 2), (9, rng.u64(1..9))].into_iter().collect();
            }
            if shape == 8 { HistogramValue::Float(one.to_float()) } else { HistogramValue::Integer(one) }
        })
        .collect();
    (data.histograms.times, data.histograms.starts) = (times, starts);
    data
}

/// Some series of each shape, in a block.
fn write(disk: &SimulatedDisk, seed: u64) -> PathBuf {
    disk.create_dir_all(Path::new("/store")).unwrap();
    let mut rng = Rng::with_seed(seed);
    let all: Vec<SeriesData> =
        (0..SHAPES).flat_map(|shape| (0..7).map(move |at| (shape, at))).map(|(s, n)| series(s, n, &mut rng)).collect();
    block::write(disk, Path::new("/store"), BlockId(1), all.into_iter().map(Ok)).unwrap();
    Path::new("/store").join(block::file_name(BlockId(1)))
}

fn open(disk: &SimulatedDisk, path: &Path, cache: Option<&Arc<BlockCache>>) -> Block {
    Block::open(disk, path).unwrap().with_cache(cache)
}

/// What a query reads, in each way; `room` are the bytes that it may charge.
fn read(block: &Block, selection: &Selection, room: usize) -> Result<Vec<String>, String> {
    let memory = Memory::new(MemoryScope::Query, room);
    let mut budget = Budget::new(selection.samples_max).with_memory(Some(&memory));
    let mut found = Vec::new();
    let each = |labels: Labels, entry: Entry| {
        found.push((labels, entry));
        Ok(())
    };
    let opened = block.each_matching(selection, &|_, _| true, &mut budget, &Opening::UNBOUNDED, each);
    opened.map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    for (labels, entry) in found {
        let read = read_entry(block, &entry, selection, &mut budget).map_err(|error| error.to_string())?;
        out.push(format!("{labels} {read:?}, {} left of {}", budget.left(), memory.used()));
    }
    Ok(out)
}

fn read_entry(block: &Block, entry: &Entry, selection: &Selection, budget: &mut Budget) -> Result<Vec<String>, Error> {
    let range = selection.range;
    let whole = block.entry_data(entry, selection, budget)?;
    let mut out = bits(&whole.iter().cloned().collect::<Vec<_>>());
    out.extend(whole.iter().map(|data| format!("{:?}", data.floats.aggregates)));
    if entry.kind == Kind::Histogram {
        let mut columns = SeriesColumns { series: block.blank(entry)?, stretches: Vec::new(), bins: 0 };
        let has_columns = block.append_columns(entry, range, budget, &mut columns)?;
        let SeriesColumns { series, stretches, bins } = columns;
        out.extend(bits(std::slice::from_ref(&series)));
        out.push(format!("{has_columns} {} {:?} {stretches:?} {bins}", series.rollup_ms, series.floats.aggregates));
    } else if !entry.aggregates {
        for chunk in entry.chunks.iter().filter(|chunk| chunk.touches(range)) {
            let (lookup, mut scratch) = (block.look_up(chunk), RunScratch::default());
            let found = match &lookup {
                Lookup::Kept(kept) => KeptFloats::run(kept, range, &mut scratch),
                lookup => block.float_run(chunk, &Ahead::default(), range, &mut scratch, lookup)?,
            };
            out.push(match found {
                Found::Run(run) => {
                    let sample = |at| (run.times.at(at), run.values.at(at).to_bits());
                    format!("{:?}", (0..run.times.count()).map(sample).collect::<Vec<_>>())
                }
                Found::Nothing => "nothing".into(),
                Found::Unfit => "no run".into(),
            });
        }
    }
    Ok(out)
}

fn selection(name: &str, range: TimeRange, samples_max: usize) -> Selection {
    Selection { samples_max, ..Selection::new(vec![Matcher::new("__name__", MatchOp::Regex, name).unwrap()], range) }
}

/// A selection and the bytes that it may charge.
fn any_question() -> impl Strategy<Value = (Selection, usize)> {
    let name = prop_oneof![Just(".*".to_owned()), (0..SHAPES).prop_map(|shape| format!("m{shape:x}"))];
    let range = prop_oneof![
        Just(TimeRange::ALL),
        (0..SPAN_MS, 0..SPAN_MS).prop_map(|(start, length)| TimeRange::from_ms(start, start + length)),
    ];
    let samples_max = prop_oneof![3 => Just(usize::MAX), 1 => 0..20_000_usize];
    let room = prop_oneof![3 => Just(usize::MAX), 1 => 0..200_000_usize];
    (name, range, samples_max, room).prop_map(|(name, range, most, room)| (selection(&name, range, most), room))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5, ..ProptestConfig::default() })]
    #[test]
    fn any_questions_have_the_same_answers_and_errors_with_a_cache(
        seed in any::<u64>(), questions in proptest::collection::vec(any_question(), 1..6),
    ) {
        let disk = SimulatedDisk::new(0);
        let path = write(&disk, seed);
        let plain = open(&disk, &path, None);
        let answers: Vec<_> = questions.iter().map(|(selection, room)| read(&plain, selection, *room)).collect();
        for bytes in [1, 100 << 10, 64 << 20] {
            let cache = BlockCache::new(bytes).unwrap();
            let block = open(&disk, &path, Some(&cache));
            for _ in 0..3 {
                for ((selection, room), answer) in questions.iter().zip(&answers) {
                    prop_assert_eq!(&read(&block, selection, *room), answer);
                    prop_assert!(cache.figures().bytes <= bytes, "{:?} of {}", cache.figures(), bytes);
                }
            }
        }
    }
}

#[test]
fn what_is_used_once_is_not_kept_and_what_is_used_again_is_read_once_more() {
    let disk = SimulatedDisk::new(0);
    let path = write(&disk, 7);
    let cache = BlockCache::new(64 << 20).unwrap();
    let block = open(&disk, &path, Some(&cache));
    // Runs, plain columns and pages: nothing of these is looked up twice by one question.
    let ask = || {
        let opening = Opening::UNBOUNDED;
        let (selection, mut budget) = (selection("m[016]", TimeRange::ALL, usize::MAX), Budget::new(usize::MAX));
        let mut found = Vec::new();
        let each = |labels, entry| {
            found.push((labels, entry));
            Ok(())
        };
        block.each_matching(&selection, &|_, _| true, &mut budget, &opening, each).unwrap();
        for (_, entry) in &found {
            let mut columns = SeriesColumns { series: block.blank(entry).unwrap(), stretches: Vec::new(), bins: 0 };
            match entry.kind {
                Kind::Histogram => {
                    assert!(block.append_columns(entry, TimeRange::ALL, &mut budget, &mut columns).unwrap())
                }
                _ => assert!(block.entry_data(entry, &selection, &mut budget).unwrap().is_some()),
            }
        }
        found.iter().map(|(_, entry)| entry.chunks.len() as u64).sum::<u64>()
    };
    let chunks = ask();
    let first = cache.figures();
    assert!(first.hits == 0 && first.misses > chunks / 2, "{chunks} chunks, some of them short, and pages: {first:?}");
    assert_eq!(first.bytes, 128 * first.misses, "notes alone");
    ask();
    let second = cache.figures();
    assert_eq!((second.hits, second.misses), (0, 2 * first.misses));
    assert!(second.bytes > 500 * chunks, "{second:?}");
    ask();
    let third = cache.figures();
    assert_eq!((third.hits, third.misses), (first.misses, second.misses));
    assert_eq!(third.bytes, second.bytes);
    // Another block of the same file shares nothing with it.
    let other = open(&disk, &path, Some(&cache));
    read(&other, &selection("m0", TimeRange::ALL, usize::MAX), usize::MAX).unwrap();
    assert_eq!(cache.figures().hits, third.hits);
}

#[test]
fn the_bounds_of_a_scheme_count() {
    let disk = SimulatedDisk::new(0);
    let path = write(&disk, 11);
    let cache = BlockCache::new(64 << 20).unwrap();
    let block = open(&disk, &path, Some(&cache));
    let custom = selection("ma", TimeRange::ALL, usize::MAX);
    (0..3).for_each(|_| drop(read(&block, &custom, usize::MAX).unwrap()));
    let CacheFigures { hits, bytes, .. } = cache.figures();
    assert!(hits >= 7 && bytes >= 7 * (BOUNDS * size_of::<f64>()) as u64, "{hits} hits, {bytes} bytes");
}

#[test]
fn a_damaged_chunk_is_never_kept() {
    let disk = SimulatedDisk::new(0);
    let path = write(&disk, 3);
    let whole = open(&disk, &path, None);
    let mut bytes = disk.read(&path).unwrap();
    let m6 = selection("m6", TimeRange::ALL, usize::MAX);
    let mut entries = Vec::new();
    let each = |_, entry: Entry| {
        entries.push(entry);
        Ok(())
    };
    whole.each_matching(&m6, &|_, _| true, &mut Budget::new(1), &Opening::UNBOUNDED, each).unwrap();
    let chunk = entries[0].chunks[0];
    bytes[chunk.offset as usize + 50] ^= 1;
    disk.put(&path, bytes);
    let cache = BlockCache::new(64 << 20).unwrap();
    let (damaged, plain) = (open(&disk, &path, Some(&cache)), open(&disk, &path, None));
    for _ in 0..4 {
        let (found, expected) = (read(&damaged, &m6, usize::MAX), read(&plain, &m6, usize::MAX));
        assert!(expected.as_ref().is_err_and(|error| error.contains("checksum")), "{expected:?}");
        assert_eq!(found, expected);
    }
}

#[test]
fn two_threads_share_a_cache() {
    let disk = SimulatedDisk::new(0);
    let path = write(&disk, 5);
    let plain = open(&disk, &path, None);
    let questions: Vec<Selection> = (0..SHAPES as i64)
        .map(|at| selection(&format!("m{at:x}|m0"), TimeRange::from_ms(at * 9000, at * 9000 + 150_000), usize::MAX))
        .collect();
    let answers: Vec<_> = questions.iter().map(|question| read(&plain, question, usize::MAX)).collect();
    // One that holds some of it, and one that holds all.
    for bytes in [300 << 10, 64 << 20] {
        let cache = BlockCache::new(bytes).unwrap();
        let block = open(&disk, &path, Some(&cache));
        std::thread::scope(|scope| {
            for first in [0, 3] {
                let (block, questions, answers) = (&block, &questions, &answers);
                scope.spawn(move || {
                    for at in (first..first + 4 * SHAPES).map(|at| at % SHAPES) {
                        assert_eq!(read(block, &questions[at], usize::MAX), answers[at]);
                    }
                });
            }
        });
        assert!(cache.figures().bytes <= bytes && cache.figures().hits > 0, "{:?}", cache.figures());
    }
}
