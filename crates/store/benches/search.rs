//! What does the filter of words save a search for a rare word, and what does it cost on the disk?
//!
//! `cargo bench -p ogive-store --bench search` writes a block of log lines to a directory (1 GiB of lines, or
//! OGIVE_SEARCH_BYTES), ten of which have a word that no other has, and reads it for that word a window after the
//! other, as `/v1/logs` does, with the words passed to the block and without: both sides in turn, five times. Lines are
//! a generated access log, or those of the file that OGIVE_BENCH_LOG names, again and again, each time with other
//! numbers in front. Bytes read are those that the process had from the system (`rchar`).

use std::sync::Arc;
use std::time::Instant;

use ogive_journal::RealDisk;
use ogive_model::words::{each_word, fold};
use ogive_model::{Kind, Labels, Selection, SeriesData, SeriesMeta, Temporality, TextColumn, TimeRange, Words};
use ogive_store::block::Effort;
use ogive_store::{Block, BlockId, Budget, Error, block};

const ROUNDS: usize = 5;
const WORD: &str = "deadlock";
/// Lines of a piece and of a window.
const LINES: usize = 20_000;
/// Of lines.
const STEP_MS: i64 = 20;

fn generated(count: usize) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(1);
    let line = |random: &mut fastrand::Rng| {
        let (a, b, c) = (random.u64(..), random.u64(..), random.u64(..));
        format!(
            "10.{}.{}.{} - - \"GET /api/v2/{}/{} HTTP/1.1\" {} {} \"Mozilla/5.0 (X11; Linux x86_64) Chrome/{}.0.0.0\" 0.{:03}",
            a % 4,
            a / 7 % 256,
            a / 77 % 256,
            ["orders", "users", "items", "carts"][b as usize % 4],
            b / 5 % 100_000,
            [200, 200, 200, 404, 500][c as usize % 5],
            c / 7 % 5_000,
            110 + c / 11 % 20,
            c / 13 % 1_000
        )
    };
    (0..count).map(|_| line(&mut random)).collect()
}

fn main() {
    let bytes_wanted: usize =
        std::env::var("OGIVE_SEARCH_BYTES").map_or(1 << 30, |text| text.parse().expect("a number"));
    let source = match std::env::var("OGIVE_BENCH_LOG") {
        Ok(path) => {
            String::from_utf8_lossy(&std::fs::read(path).expect("a readable file")).lines().map(str::to_owned).collect()
        }
        Err(_) => generated(200_000),
    };
    let directory = tempfile::tempdir().expect("a directory");
    let each = source.iter().map(String::len).sum::<usize>() / source.len() + 8;
    let lines = bytes_wanted / each;
    let line = |at: usize| {
        let rare = if at % (lines / 10) == lines / 20 { " deadlock" } else { "" };
        format!("{:07}{}{rare}", at / source.len() * 7919 + at % 977, source[at % source.len()])
    };
    let piece = |from: usize| {
        let rows = from..(from + LINES).min(lines);
        SeriesData {
            labels: Labels::new([("__name__", "log")]).expect("labels"),
            meta: SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 },
            floats: Default::default(),
            histograms: Default::default(),
            texts: TextColumn {
                times: rows.clone().map(|at| at as i64 * STEP_MS).collect(),
                values: rows.map(line).collect(),
            },
            rollup_ms: 0,
        }
    };
    let pieces = (0..lines).step_by(LINES).map(|from| Ok::<_, Error>(piece(from)));
    let from = Instant::now();
    let meta =
        block::write_as(&RealDisk, directory.path(), BlockId(1), 0, Effort::Quick, pieces).expect("it is written");
    let meta = meta.expect("there are lines");
    println!(
        "{lines} lines, {:.0} MiB, {:.1} MiB in the block, written in {:.1} s",
        (lines * each) as f64 / 1048576.0,
        meta.bytes as f64 / 1048576.0,
        from.elapsed().as_secs_f64()
    );
    let block = Block::open(&RealDisk, &directory.path().join(block::file_name(BlockId(1)))).expect("a block");
    let words = Arc::new(Words::Word(WORD.to_owned()));
    let mut seconds = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (side, words) in [None, Some(&words)].into_iter().enumerate() {
            let (from, bytes_before, mut read, mut found) = (Instant::now(), bytes_read(), 0, 0);
            for start in (0..lines).step_by(LINES) {
                let texts = window(&block, start as i64 * STEP_MS - 1, words);
                read += texts.len();
                found += texts.iter().filter(|text| has(text)).count();
            }
            seconds[side].push(from.elapsed().as_secs_f64());
            let mib = (bytes_read() - bytes_before) as f64 / 1048576.0;
            assert_eq!(found, 10, "{read} lines read");
            if seconds[side].len() == 1 {
                println!("{read} lines, {mib:.1} MiB read {}", if side == 0 { "without words" } else { "with words" });
            }
        }
    }
    for (name, seconds) in ["without", "with"].iter().zip(&mut seconds) {
        seconds.sort_by(f64::total_cmp);
        println!("{name}: {:.3} s, {:.3} to {:.3}", seconds[ROUNDS / 2], seconds[0], seconds[ROUNDS - 1]);
    }
    println!("ratio {:.1}", seconds[0][ROUNDS / 2] / seconds[1][ROUNDS / 2]);
}

/// Of this process, also from the system's cache.
fn bytes_read() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").expect("Linux");
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("bytes read");
    line.parse().expect("a number")
}

fn window(block: &Block, start_ms: i64, words: Option<&Arc<Words>>) -> Vec<String> {
    let range = TimeRange::from_ms(start_ms, start_ms + LINES as i64 * STEP_MS);
    let selection = Selection::new(Vec::new(), range);
    let mut budget = Budget::new(usize::MAX).with_words(words.cloned());
    let found = block.select(&selection, &mut budget).expect("it is read");
    found.into_iter().flat_map(|data| data.texts.values).collect()
}

/// As a search looks: folded, and then word by word where it could be.
fn has(text: &str) -> bool {
    let mut found = false;
    if fold(text).contains(WORD) {
        each_word(text, |word| found |= word == WORD);
    }
    found
}
