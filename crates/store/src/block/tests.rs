//! Blocks compared with a model that examines every sample, and damaged blocks.

use std::path::{Path, PathBuf};

use ogive_journal::{Disk, SimulatedDisk};
use ogive_model::{MatchOp, Matcher, SelectError, Selection, SeriesData, TimeRange};
use proptest::prelude::*;

use crate::testing::{any_source, bits, model_select};
use crate::{Block, BlockId, Budget, Error, block};

const DIRECTORY: &str = "/store";

fn write(disk: &dyn Disk, series: &[SeriesData]) -> Option<PathBuf> {
    disk.create_dir_all(Path::new(DIRECTORY)).unwrap();
    let id = BlockId(7);
    let meta = block::write(disk, Path::new(DIRECTORY), id, series.iter().cloned().map(Ok)).unwrap()?;
    let path = Path::new(DIRECTORY).join(block::file_name(id));
    assert_eq!(disk.length(&path).unwrap(), meta.bytes);
    Some(path)
}

fn everything() -> Selection {
    Selection::new(Vec::new(), TimeRange::ALL)
}

fn select(block: &Block, selection: &Selection) -> Result<Vec<SeriesData>, Error> {
    block.select(selection, &mut Budget::new(selection.samples_max))
}

fn any_matcher() -> impl Strategy<Value = Matcher> {
    let op = prop_oneof![Just(MatchOp::Equal), Just(MatchOp::NotEqual), Just(MatchOp::Regex), Just(MatchOp::NotRegex)];
    let name = prop_oneof![Just("__name__"), Just("a"), Just("b"), Just("absent")];
    let value =
        prop_oneof![Just(""), Just("v1"), Just("v2"), Just("m1"), Just("v1|v3"), Just(".+"), Just(".*"), Just("m[01]")];
    (name, op, value).prop_map(|(name, op, value)| Matcher::new(name, op, value).unwrap())
}

fn any_selection() -> impl Strategy<Value = Selection> {
    let range = (-60_000..200_000_i64, 0..100_000_i64, any::<bool>());
    (proptest::collection::vec(any_matcher(), 0..3), range, any::<bool>()).prop_map(
        |(matchers, (start, length, all), labels_only)| {
            let range = if all { TimeRange::ALL } else { TimeRange::from_ms(start, start + length) };
            Selection { labels_only, ..Selection::new(matchers, range) }
        },
    )
}

proptest! {
    #[test]
    fn a_block_answers_as_the_model_does(source in any_source(12, 60), selections in proptest::collection::vec(any_selection(), 1..6)) {
        let disk = SimulatedDisk::new(0);
        if let Some(path) = write(&disk, &source) {
            let block = Block::open(&disk, &path).unwrap();
            block.verify().unwrap();
            let mut stored = Vec::new();
            block.each_series(|def| stored.push((def.labels, def.meta))).unwrap();
            let tenant = ogive_model::Tenant::new("some").unwrap();
            let mut identities = Vec::new();
            block.each_identity(&tenant, |number, id, temporality| identities.push((number, id, temporality))).unwrap();
            let all = model_select(&source, &everything());
            let def = |data: &SeriesData| ogive_model::SeriesDef { labels: data.labels.clone(), meta: data.meta.clone() };
            let expected = all.iter().zip(0..).map(|(data, at)| (at, def(data).id(&tenant), data.meta.temporality));
            prop_assert_eq!(identities, expected.collect::<Vec<_>>());
            let mut odd = Vec::new();
            block.series_at((1..all.len() as u32).step_by(2), |def| odd.push(def)).unwrap();
            prop_assert_eq!(odd, all.iter().skip(1).step_by(2).map(def).collect::<Vec<_>>());
            prop_assert_eq!(stored, all.into_iter().map(|data| (data.labels, data.meta)).collect::<Vec<_>>());
            for selection in selections.iter().chain([&everything()]) {
                let found = select(&block, selection).unwrap();
                prop_assert_eq!(bits(&found), bits(&model_select(&source, selection)), "{:?}", selection);
            }
        } else {
            prop_assert!(model_select(&source, &everything()).is_empty());
        }
    }
}

/// A small block of every kind, whose chunks take every coding, in one place for all tests of damage.
fn small_source() -> Vec<SeriesData> {
    use crate::testing::empty;
    use ogive_hist::Histogram;
    use ogive_model::{HistogramValue, Kind, Labels, Temporality};
    let labels = |name: &str| Labels::new([("__name__", name), ("host", "a")]).unwrap();
    let mut gauge = empty(labels("gauge"), Kind::Float, Temporality::Gauge);
    gauge.floats.times = (0..40).map(|i| i * 1000).collect();
    gauge.floats.values = (0..40).map(|i| f64::from(i).sqrt()).collect();
    let mut counter = empty(labels("requests_total"), Kind::Float, Temporality::Cumulative);
    counter.floats.times = vec![1000, 2000, 4000];
    counter.floats.values = vec![1.5, f64::NAN, 3.0];
    counter.floats.starts = vec![500; 3];
    let mut latency = empty(labels("seconds"), Kind::Histogram, Temporality::Delta);
    latency.histograms.times = vec![1000, 2000];
    for values in [[0.001, 0.002], [0.002, 4.0]] {
        let mut histogram = Histogram::log_linear();
        values.into_iter().for_each(|value| histogram.record(value));
        latency.histograms.values.push(HistogramValue::Integer(histogram));
    }
    let mut log = empty(labels("log"), Kind::Text, Temporality::Gauge);
    log.texts.times = vec![7, 7, 9];
    log.texts.values = vec!["started ".repeat(12), String::new(), "stopped".into()];
    let mut source = vec![gauge, counter, latency, log];
    source.sort_by(|a, b| a.labels.cmp(&b.labels));
    source
}

/// Everything that can be asked of a block, each answer apart.
fn ask(disk: &SimulatedDisk, path: &Path) -> Vec<Result<Vec<String>, Error>> {
    let block = match Block::open(disk, path) {
        Ok(block) => block,
        Err(error) => return vec![Err(error)],
    };
    let mut answers = vec![
        select(&block, &everything()).map(|found| bits(&found)),
        select(&block, &Selection { labels_only: true, ..everything() }).map(|found| bits(&found)),
        block.label_names(&[]),
        block.label_values("__name__", &[Matcher::new("host", MatchOp::Equal, "a").unwrap()]),
    ];
    for name in ["gauge", "requests_total", "seconds", "log"] {
        let matchers = vec![Matcher::new("__name__", MatchOp::Equal, name).unwrap()];
        answers.push(select(&block, &Selection { matchers, ..everything() }).map(|found| bits(&found)));
    }
    answers
}

/// Every answer is `right` or an error that names the file; returns whether there was an error.
fn right_or_corrupt(disk: &SimulatedDisk, path: &Path, right: &[Result<Vec<String>, Error>], damage: &str) -> bool {
    let answers = ask(disk, path);
    let mut failed = false;
    for (at, answer) in answers.iter().enumerate() {
        match answer {
            Ok(answer) => assert_eq!(answer, right[at].as_ref().unwrap(), "{damage}: answer {at} is wrong"),
            Err(Error::Corrupt { path: named, offset, .. }) => {
                assert_eq!(named, path);
                assert!(*offset <= disk.length(path).unwrap(), "{damage}: offset {offset}");
                failed = true;
            }
            Err(Error::TooNew { .. }) => failed = true,
            Err(error) => panic!("{damage}: {error}"),
        }
    }
    failed
}

/// The bytes of the parts of a file that are there twice: from the series pages, or the dictionary before them, to the
/// end of the sections; and how far behind it the twin of each is.
fn twinned(bytes: &[u8]) -> (std::ops::Range<usize>, usize) {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let footer = bytes.len() - 168;
    let (start, end) = (number(footer + 24 + 4), number(footer + 5 * 24 + 4) + number(footer + 5 * 24 + 12));
    (start..end, footer - 4096 - 168 - 16 - end)
}

/// Whether a byte is between twins, where nothing is written but zeros.
fn is_padding(bytes: &[u8], at: usize) -> bool {
    let (twinned, distance) = twinned(bytes);
    let footer = bytes.len() - 168;
    (twinned.end..twinned.start + distance).contains(&at) || (footer - 4096..footer).contains(&at)
}

#[test]
fn a_flipped_bit_gives_the_right_answer_or_an_error_and_is_always_found() {
    let disk = SimulatedDisk::new(0);
    let path = write(&disk, &small_source()).unwrap();
    let right = ask(&disk, &path);
    let bytes = disk.read(&path).unwrap();
    let (twinned, _) = twinned(&bytes);
    let chunks = 16..twinned.start;
    let padding: Vec<bool> = (0..bytes.len()).map(|at| is_padding(&bytes, at)).collect();
    for bit in 0..bytes.len() * 8 {
        let byte = bit / 8;
        // Each bit of what is there once, one of each byte of what is there twice, few of what is nothing.
        let few = if padding[byte] { bit % 2048 != 8 } else { !chunks.contains(&byte) && bit % 8 != byte % 8 };
        if few {
            continue;
        }
        let damage = format!("bit {} of byte {byte}", bit % 8);
        disk.flip_bit(&path, bit);
        let flipped = disk.read(&path).unwrap();
        let failed = right_or_corrupt(&disk, &path, &right, &damage);
        assert!(!failed || chunks.contains(&byte), "{damage}: it is there twice");
        // A reader heals what it met.
        let found = Block::open(&disk, &path).and_then(|block| block.verify());
        assert!(found.is_err() || disk.read(&path).unwrap() == bytes, "{damage}: verify does not see it");
        if bit % 8 != byte % 8 && !padding[byte] {
            disk.put(&path, bytes.clone());
            continue;
        }
        disk.put(&path, flipped);
        let scrubbed = block::scrub::scrub_block(&disk, &path, bytes.len() as u64, &mut |_| Ok(())).unwrap();
        let (is_zero, is_whole) = (padding[byte], disk.read(&path).unwrap() == bytes);
        let expected = if is_zero { Vec::new() } else { vec![!chunks.contains(&byte)] };
        let healed: Vec<bool> = scrubbed.iter().map(|finding| finding.healed).collect();
        assert_eq!(healed, expected, "{damage}: {scrubbed:?}");
        assert_eq!(is_whole, healed == [true], "{damage}");
        disk.put(&path, bytes.clone());
    }
    assert!(!right_or_corrupt(&disk, &path, &right, "none"));
}

/// One series page was bad in both directories, and thirty series were hidden. Now what hides much is in the file
/// twice, so far apart that a lost sector, or a page of memory, takes one of them.
#[test]
fn a_lost_sector_of_the_index_costs_nothing() {
    let disk = SimulatedDisk::new(0);
    let path = write(&disk, &small_source()).unwrap();
    let right = ask(&disk, &path);
    let bytes = disk.read(&path).unwrap();
    let (twinned, distance) = twinned(&bytes);
    assert!(distance >= 4096 && bytes[twinned.clone()] == bytes[twinned.start + distance..][..twinned.len()]);
    // Sectors where they lie on a disk, and everything from the index on that one of that size can cover.
    let sectors = (0..bytes.len()).step_by(512).chain([twinned.start, twinned.end - 1, bytes.len() - 168]);
    for from in sectors.filter(|from| *from >= twinned.start) {
        let mut damaged = bytes.clone();
        let to = (from + 4096).min(bytes.len());
        damaged[from..to].fill(0xa5);
        disk.put(&path, damaged);
        let failed = right_or_corrupt(&disk, &path, &right, &format!("{from}..{to}"));
        assert!(!failed, "{from}..{to} of {}", bytes.len());
        block::scrub::scrub_block(&disk, &path, bytes.len() as u64, &mut |_| Ok(())).unwrap();
        let block = disk.read(&path).unwrap();
        let wrong =
            (0..bytes.len()).find(|at| block[*at] != bytes[*at] && !is_padding(&bytes, *at) && *at >= twinned.start);
        assert_eq!(wrong, None, "{from}..{to}");
    }
    // The header is alone in its sector's place, and has a twin too.
    let mut damaged = bytes.clone();
    damaged[..16].fill(0xa5);
    disk.put(&path, damaged);
    assert!(!right_or_corrupt(&disk, &path, &right, "the header"));
    assert_eq!(disk.read(&path).unwrap(), bytes);
}

/// Its files were there when it was opened.
#[test]
fn a_block_that_is_cut_or_removed_while_it_is_verified_is_an_error() {
    let disk = SimulatedDisk::new(0);
    let path = write(&disk, &small_source()).unwrap();
    let bytes = disk.read(&path).unwrap();
    let block = Block::open(&disk, &path).unwrap();
    block.verify_twins().unwrap();
    let bytes = bytes.len() as u64;
    for length in [bytes - 1, bytes / 2, 4_000, 16, 0] {
        disk.open(&path).unwrap().truncate(length).unwrap();
        assert!(block.verify_twins().is_err(), "{length} of {bytes}");
    }
    disk.remove(&path).unwrap();
    assert!(block.verify_twins().is_err());
}

#[test]
fn damage_to_one_series_leaves_the_others_readable() {
    let disk = SimulatedDisk::new(0);
    let path = write(&disk, &small_source()).unwrap();
    let right = ask(&disk, &path);
    // The first chunk begins behind the header: it is the first series'.
    disk.flip_bit(&path, 16 * 8);
    let answers = ask(&disk, &path);
    let wrong = answers.iter().filter(|answer| answer.is_err()).count();
    assert_eq!(wrong, 2, "of everything and of the one series");
    assert_eq!(answers.len(), right.len());
    // Asked for what can be read, it gives the others and says what is missing.
    let mut budget = Budget::partial(usize::MAX);
    let found = Block::open(&disk, &path).unwrap().select(&everything(), &mut budget).unwrap();
    assert_eq!(bits(&found), bits(&small_source()[1..]));
    let gaps = budget.into_gaps();
    assert!(gaps.len() == 1 && gaps[0].contains("byte 16: in its chunks") && gaps[0].contains(" ms"), "{gaps:?}");
    let limited = Block::open(&disk, &path).unwrap().select(&everything(), &mut Budget::partial(3));
    assert!(matches!(limited, Err(Error::Selection(SelectError::TooManySamples { limit: 3 }))), "a limit is not a gap");
}

#[test]
fn a_cut_block_is_an_error_at_every_length() {
    let disk = SimulatedDisk::new(0);
    let path = write(&disk, &small_source()).unwrap();
    let bytes = disk.read(&path).unwrap();
    for length in (0..bytes.len()).filter(|length| !is_padding(&bytes, *length) || length % 256 == 0) {
        disk.put(&path, bytes[..length].to_vec());
        match Block::open(&disk, &path) {
            Err(Error::Corrupt { path: named, .. }) => assert_eq!(named, path),
            other => panic!("cut at {length}: {:?}", other.map(|_| ())),
        }
    }
    let longer = [&bytes[..], &[0]].concat();
    disk.put(&path, longer);
    assert!(matches!(Block::open(&disk, &path), Err(Error::Corrupt { .. })));
}

#[test]
fn mangled_blocks_never_panic() {
    let disk = SimulatedDisk::new(0);
    let path = write(&disk, &small_source()).unwrap();
    let right = ask(&disk, &path);
    let bytes = disk.read(&path).unwrap();
    // A fixed seed: the same mangling at every run.
    let mut rng = fastrand::Rng::with_seed(1);
    let mut random = move |below: usize| rng.usize(..below);
    for round in 0..1000 {
        let mut mangled = bytes.clone();
        for _ in 0..=random(4) {
            let at = random(mangled.len());
            match random(4) {
                0 => mangled[at] = random(256) as u8,
                1 => mangled.truncate(at.max(1)),
                2 => mangled.extend_from_within(at..),
                _ => drop(mangled.drain(at..(at + random(9)).min(mangled.len()))),
            }
            if mangled.is_empty() {
                mangled.push(0);
            }
        }
        disk.put(&path, mangled);
        right_or_corrupt(&disk, &path, &right, &format!("round {round}"));
    }
}

/// Anything behind checksums that say that it is right is read or refused.
#[test]
fn damage_behind_right_checksums_is_read_or_refused() {
    let disk = SimulatedDisk::new(0);
    let path = write(&disk, &small_source()).unwrap();
    let bytes = disk.read(&path).unwrap();
    assert!(block::sealed(&bytes) == bytes, "what is good stays as it is");
    let mut rng = fastrand::Rng::with_seed(1);
    let mut random = move |below: usize| rng.usize(..below);
    let mut verified = 0;
    for _ in 0..2000 {
        let mut changed = bytes.clone();
        for _ in 0..=random(3) {
            let at = random(changed.len());
            changed[at] = random(256) as u8;
        }
        disk.put(&path, block::sealed(&changed));
        verified += u32::from(Block::open(&disk, &path).is_ok_and(|block| block.verify().is_ok()));
        let _ = ask(&disk, &path);
    }
    assert!(verified > 1000, "{verified} of 2000 got past every checksum");
}

#[test]
fn a_selection_stops_at_its_limit() {
    let disk = SimulatedDisk::new(0);
    let path = write(&disk, &small_source()).unwrap();
    let block = Block::open(&disk, &path).unwrap();
    // 40 + 3 floats, 2 + 2 bins, 3 texts.
    for (limit, enough) in [(50, true), (49, false), (0, false)] {
        let found = select(&block, &Selection { samples_max: limit, ..everything() });
        assert_eq!(found.is_ok(), enough, "limit {limit}");
        assert!(
            enough
                || matches!(found, Err(Error::Selection(SelectError::TooManySamples { limit: named })) if named == limit)
        );
    }
    let labels = Selection { samples_max: 0, labels_only: true, ..everything() };
    assert_eq!(select(&block, &labels).unwrap().len(), 4);
}

#[test]
fn a_range_between_two_samples_has_no_series() {
    let disk = SimulatedDisk::new(0);
    let path = write(&disk, &small_source()).unwrap();
    let block = Block::open(&disk, &path).unwrap();
    let matchers = vec![Matcher::new("__name__", MatchOp::Equal, "requests_total").unwrap()];
    for (start_ms, end_ms, some) in [(2000, 3999, false), (1999, 3999, true), (2000, 4000, true), (0, 999, false)] {
        let range = TimeRange::from_ms(start_ms, end_ms);
        let selection = Selection { samples_max: 10, labels_only: true, ..Selection::new(matchers.clone(), range) };
        assert_eq!(select(&block, &selection).unwrap().len(), usize::from(some), "({start_ms}, {end_ms}]");
    }
}

#[test]
fn a_failed_write_leaves_no_block() {
    // Power goes after each change in turn: then either the block is whole or it is not there.
    let source = small_source();
    for run in 0_u64.. {
        let changes = 1 + run / 8;
        let disk = SimulatedDisk::new(run);
        disk.create_dir_all(Path::new(DIRECTORY)).unwrap();
        disk.cut_power_after(changes);
        let written = block::write(&disk, Path::new(DIRECTORY), BlockId(7), source.iter().cloned().map(Ok));
        let powered = disk.is_powered();
        disk.cut_power();
        disk.restart();
        let path = Path::new(DIRECTORY).join(block::file_name(BlockId(7)));
        match Block::open(&disk, &path) {
            Ok(block) => assert_eq!(bits(&select(&block, &everything()).unwrap()), bits(&source)),
            Err(Error::Disk(ogive_journal::Error::NotFound { .. })) => {
                assert!(written.is_err(), "an acknowledged block is gone")
            }
            Err(error) => panic!("after {changes} changes: {error}"),
        }
        if powered && run % 8 == 7 {
            assert!(changes >= 4, "{changes} changes are too few for a block");
            break;
        }
    }
}

/// The block that docs/formats/block.md shows byte by byte.
fn example() -> Vec<SeriesData> {
    use crate::testing::empty;
    use ogive_hist::Histogram;
    use ogive_model::{HistogramValue, Kind, Labels, Temporality};
    let labels = |name: &str| Labels::new([("__name__", name), ("host", "a")]).unwrap();
    let mut seconds = empty(labels("rpc_seconds"), Kind::Histogram, Temporality::Delta);
    seconds.histograms.times = vec![1000, 2000, 4000];
    for counts in [[3, 0], [2, 1], [0, 1]] {
        let mut histogram = Histogram::log_linear();
        histogram.record_n(0.0012, counts[0]);
        histogram.record_n(0.035, counts[1]);
        (histogram.sum, histogram.min, histogram.max) = (None, None, None);
        seconds.histograms.values.push(HistogramValue::Integer(histogram));
    }
    let mut up = empty(labels("up"), Kind::Float, Temporality::Gauge);
    up.meta.unit = String::new();
    up.floats.times = vec![1000, 2000, 3000];
    up.floats.values = vec![1.0, 0.25, 1.0];
    vec![seconds, up]
}

fn vector(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/block").join(name)
}

#[test]
fn the_example_of_the_format_page_is_what_is_written_and_read() {
    let disk = SimulatedDisk::new(0);
    let path = write(&disk, &example()).unwrap();
    let kept = std::fs::read(vector("0000000000000009.block")).unwrap();
    assert!(disk.read(&path).unwrap() == kept, "the format changed: its version must rise");
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/block.md"));
    let page = page.unwrap();
    crate::testing::check_page(&page, &kept);
    disk.put(&path, kept);
    let block = Block::open(&disk, &path).unwrap();
    block.verify().unwrap();
    assert_eq!(bits(&select(&block, &everything()).unwrap()), bits(&example()));
}

/// Cells of 100 seconds: more than a page, the last one not full; with a bin that is always there, some that are rare,
/// and sums.
fn paged_source() -> Vec<SeriesData> {
    use crate::testing::empty;
    use ogive_hist::Histogram;
    use ogive_model::{HistogramValue, Kind, Labels, Temporality};
    let mut seconds = empty(Labels::new([("__name__", "rpc_seconds")]).unwrap(), Kind::Histogram, Temporality::Delta);
    for cell in 0..100_u64 {
        let mut histogram = Histogram::log_linear();
        for bin in 0..12_u32 {
            let count = (cell * 7919 + u64::from(bin) * 104_729) % (3 + 40 * u64::from(bin));
            histogram.record_n(0.001 * 1.3_f64.powi(bin as i32), count.saturating_sub(u64::from(bin)));
        }
        histogram.record_n(-2.0, u64::from(cell % 37 == 5));
        seconds.histograms.times.push(cell as i64 * 1000);
        seconds.histograms.values.push(HistogramValue::Integer(histogram));
    }
    vec![seconds]
}

#[test]
fn any_time_of_histograms_in_pages_is_read() {
    let disk = SimulatedDisk::new(0);
    let source = paged_source();
    let path = write(&disk, &source).unwrap();
    let kept = std::fs::read(vector("0000000000000109.block")).unwrap();
    assert!(disk.read(&path).unwrap() == kept, "the format changed: its version must rise");
    let block = Block::open(&disk, &path).unwrap();
    let whole = &source[0].histograms;
    for start in (0..100).step_by(3) {
        for length in [1, 2, 31, 32, 33, 64, 100] {
            // Before the range, and up to its end.
            let range = TimeRange::from_ms(start as i64 * 1000 - 1, (start + length) as i64 * 1000 - 1);
            let found = select(&block, &Selection { range, ..everything() }).unwrap();
            let rows = start..100.min(start + length);
            assert_eq!(found[0].histograms.times, whole.times[rows.clone()], "{range:?}");
            assert_eq!(found[0].histograms.values, whole.values[rows], "{range:?}");
        }
    }
}

#[test]
fn pages_of_before_zeros_were_left_out_are_read() {
    let disk = SimulatedDisk::new(0);
    disk.create_dir_all(Path::new(DIRECTORY)).unwrap();
    let path = Path::new(DIRECTORY).join(block::file_name(BlockId(0x108)));
    disk.put(&path, std::fs::read(vector("0000000000000108.block")).unwrap());
    let block = Block::open(&disk, &path).unwrap();
    block.verify().unwrap();
    assert_eq!(bits(&select(&block, &everything()).unwrap()), bits(&paged_source()));
}

/// Of before there were filters, before these had checksums, before the counts of histograms had pages, and before
/// pages left out zeros.
#[test]
fn blocks_of_versions_5_to_8_are_read() {
    for id in [5, 6, 7, 8] {
        let disk = SimulatedDisk::new(0);
        let path = Path::new(DIRECTORY).join(block::file_name(BlockId(id)));
        disk.create_dir_all(Path::new(DIRECTORY)).unwrap();
        let bytes = std::fs::read(vector(&block::file_name(BlockId(id)))).unwrap();
        assert_eq!(u64::from(bytes[8]), id, "its version");
        disk.put(&path, bytes.clone());
        let block = Block::open(&disk, &path).unwrap();
        block.verify().unwrap();
        assert_eq!(bits(&select(&block, &everything()).unwrap()), bits(&example()));
        assert!(block::sealed(&bytes) == bytes);
    }
}

/// Version 1 is what stores of before there were dictionaries are made of; 2, a rollup, and 3 are of before there were
/// twins.
#[test]
fn blocks_of_earlier_versions_are_read() {
    for (id, source) in [(1, example()), (2, example()), (3, small_source())] {
        let disk = SimulatedDisk::new(0);
        let path = Path::new(DIRECTORY).join(block::file_name(BlockId(id)));
        disk.create_dir_all(Path::new(DIRECTORY)).unwrap();
        let bytes = std::fs::read(vector(&block::file_name(BlockId(id)))).unwrap();
        assert_eq!(bytes[8], id as u8, "its version");
        disk.put(&path, bytes.clone());
        let block = Block::open(&disk, &path).unwrap();
        block.verify().unwrap();
        assert_eq!(bits(&select(&block, &everything()).unwrap()), bits(&source));
        assert!(block::scrub::scrub_block(&disk, &path, bytes.len() as u64, &mut |_| Ok(())).unwrap().is_empty());
        assert!(block::sealed(&bytes) == bytes);
        for bit in 0..bytes.len() * 8 {
            disk.flip_bit(&path, bit);
            let found = Block::open(&disk, &path).and_then(|block| block.verify());
            assert!(found.is_err(), "bit {bit} of version {id}");
            disk.flip_bit(&path, bit);
        }
    }
}
