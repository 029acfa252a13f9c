//! What must hold for every query of the conformance scripts, and for queries like them.

mod notation;
#[allow(dead_code)]
#[path = "../promql/support/mod.rs"]
mod support;

use ogive_model::{Ms, WallMs};
use ogive_query::{Engine, EngineOptions};
use support::script::{self, CommandKind};
use support::store::Memory;

/// Queries of the scripts, each once.
fn queries() -> Vec<String> {
    let (directory, _) = support::directory();
    let commands = support::files(&directory).into_iter().flat_map(|path| script::read(&path).expect("a good script"));
    let mut out: Vec<String> = commands
        .filter_map(|command| match command.kind {
            CommandKind::Eval(eval) => Some(eval.query),
            _ => None,
        })
        .collect();
    out.sort();
    out.dedup();
    out
}

#[test]
fn every_query_parses_and_reads_back_from_its_canonical_text() {
    for query in queries() {
        let mut tree = ogive_query::parse(&query).unwrap_or_else(|error| panic!("{query}: {error}"));
        assert_eq!(tree.span.start, 0, "{query}");
        let printed = tree.to_string();
        let mut again = ogive_query::parse(&printed).unwrap_or_else(|error| panic!("{query} as {printed}: {error}"));
        assert_eq!(again.to_string(), printed, "{query}");
        tree.erase_spans();
        again.erase_spans();
        assert_eq!(tree, again, "{query} as {printed}");
    }
}

/// A small generator, so that a seed gives the same texts everywhere (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % limit as u64) as usize
    }
}

/// Texts that mean something to the lexer.
const FRAGMENTS: [&str; 32] = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    "`",
    "\\",
    ":",
    ",",
    "@",
    "-",
    "^",
    "</",
    ">/",
    " offset ",
    " by (",
    "0x",
    "1e",
    "5m",
    "step()",
    "#",
    "\n",
    "é",
    "😀",
    "\0",
    " on(",
    " smoothed",
    "__name__",
    "Inf",
];

fn mutated(query: &str, other: &str, random: &mut Random) -> String {
    let mut text: Vec<char> = query.chars().collect();
    for _ in 0..=random.below(4) {
        let at = random.below(text.len() + 1);
        match random.below(4) {
            0 => drop(text.splice(at..at, FRAGMENTS[random.below(FRAGMENTS.len())].chars())),
            1 => text.truncate(at),
            2 => {
                let end = text.len().min(at + random.below(8));
                text.drain(at..end);
            }
            _ => {
                let tail: Vec<char> = other.chars().collect();
                text.extend(&tail[random.below(tail.len() + 1)..]);
            }
        }
    }
    text.into_iter().collect()
}

#[test]
fn mutated_queries_never_panic_and_read_back() {
    let queries = queries();
    let mut parsed = 0;
    for seed in 0..20_000 {
        let mut random = Random(seed);
        let (query, other) = (&queries[random.below(queries.len())], &queries[random.below(queries.len())]);
        let text = mutated(query, other, &mut random);
        let run = || match ogive_query::parse(&text) {
            Err(error) => {
                assert!(error.span.start <= error.span.end && error.span.end as usize <= text.len());
                0
            }
            Ok(mut tree) => {
                let mut again = ogive_query::parse(&tree.to_string()).expect("its canonical text");
                tree.erase_spans();
                again.erase_spans();
                assert_eq!(tree, again);
                1
            }
        };
        parsed += std::panic::catch_unwind(run).unwrap_or_else(|_| panic!("seed {seed}: {text:?}"));
    }
    // Mutations that are all refused would test nothing but the errors.
    assert!(parsed > 1000, "only {parsed} mutations are queries");
}

/// All data of the scripts in one store: series of one name mix what no single script does.
fn everything() -> Memory {
    let (directory, _) = support::directory();
    let mut store = Memory::default();
    for path in support::files(&directory) {
        for command in script::read(&path).expect("a good script") {
            if let CommandKind::Load(load) = command.kind {
                // Two scripts may say different things of one series: the first one counts.
                let _ = store.load(&load);
            }
        }
    }
    store
}

#[test]
fn mutated_queries_never_panic_in_the_engine_and_stay_within_limits() {
    let queries = queries();
    let store = everything();
    let engine =
        Engine::new(EngineOptions { samples_max: 20_000, samples_read_max: 200_000, ..EngineOptions::default() });
    let mut answered = 0;
    for seed in 0..3000 {
        let mut random = Random(seed);
        let (query, other) = (&queries[random.below(queries.len())], &queries[random.below(queries.len())]);
        let text = mutated(query, other, &mut random);
        let time = i64::try_from(random.below(100)).expect("small") * 30_000;
        let run = || {
            let instant = engine.instant(&store, &text, WallMs(time));
            let range = engine.range(&store, &text, WallMs(time - 90_000), WallMs(time), Ms(45_000));
            u32::from(instant.is_ok()) + u32::from(range.is_ok())
        };
        answered += std::panic::catch_unwind(run).unwrap_or_else(|_| panic!("seed {seed}: {text:?} at {time}"));
    }
    assert!(answered > 300, "only {answered} queries have an answer");
}

#[test]
fn absurd_ranges_and_steps_end_with_an_error() {
    let engine = Engine::new(EngineOptions { samples_max: 20_000, ..EngineOptions::default() });
    let store = Memory::default();
    for query in ["sum_over_time(vector(1)[200y:1ms])", "absent_over_time(vector(time())[290y:1ms] offset 290y)"] {
        assert!(engine.instant(&store, query, WallMs(0)).is_err(), "{query}");
        assert!(engine.instant(&store, query, WallMs(i64::MAX)).is_err(), "{query}");
        assert!(engine.instant(&store, query, WallMs(i64::MIN)).is_err(), "{query}");
    }
    assert!(engine.range(&store, "1", WallMs(i64::MIN), WallMs(i64::MAX), Ms(1)).is_err());
    assert!(engine.range(&store, "vector(time())", WallMs(0), WallMs(i64::MAX), Ms(1)).is_err());
    for query in ["x[290y] offset 290y", "x @ 9223372036854775 offset -290y", "sum(rate(x[1m] offset 290y))"] {
        for time in [i64::MIN, i64::MIN + 1, -1, i64::MAX] {
            let _ = engine.instant(&store, query, WallMs(time));
            let _ = engine.range(&store, query, WallMs(time.saturating_sub(1)), WallMs(time), Ms(1));
        }
    }
}
