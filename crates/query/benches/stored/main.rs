//! What does a query cost from a store on disk to its value, without a server?
//!
//! Each store is made once, with its blocks flushed and compacted. Each round opens it again for each of its queries,
//! once without the cache of decoded blocks and once with it, reads the label indexes, and asks the query some times.
//! Printed are CPU milliseconds of the thread that asks, medians of the rounds: without the cache the first time
//! (`off 1`) and later ones (`off`); with it the first time (`on 1`, when it has nothing), the second (`on 2`, when it
//! is filled) and later ones (`warm`, the repeated query); the least of `off` and `warm`; and the ratios of the
//! medians. Then a value of the last instant, and how the cache was used. What is in memory is asked in one store, and
//! has no columns of the cache. Arguments select the queries whose name contains one of them; OGIVE_BENCH_ROUNDS says
//! how many rounds there are.
//!
//! `cargo bench -p ogive-query --bench stored`

mod floats;
mod histograms;
mod many;

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use ogive_journal::RealDisk;
use ogive_model::{Batch, Memory, MonoNs, Ms, Opening, Tenant, TimeRange, WallMs, WallNs};
use ogive_query::value::Point;
use ogive_query::{Engine, EngineOptions, Value};
use ogive_store::{Clock, Options, Refusal, Store};

/// How often each query is asked.
const ROUNDS: usize = 9;
/// How often it is asked in a store that was just opened.
const TURNS: usize = 5;
/// Figures of a query.
const COLUMNS: usize = 5;

/// 2025-06-15, 17:30 UTC, when each store is made: windows of blocks are then cut alike in each run.
pub(crate) const NOW_MS: i64 = 1_750_008_600_000;

/// A clock that begins at [`NOW_MS`].
struct FixedClock(Instant);

impl Clock for FixedClock {
    fn now(&self) -> MonoNs {
        MonoNs(self.0.elapsed().as_nanos() as u64)
    }

    fn wall(&self) -> WallNs {
        WallNs(NOW_MS * 1_000_000 + self.0.elapsed().as_nanos() as i64)
    }
}

/// A store in `directory` that is flushed when a bench says so.
pub(crate) fn open(directory: &Path) -> Store {
    open_with(directory, Options::default().query_cache_bytes)
}

/// As [`open`], with so many bytes for the cache of decoded blocks.
fn open_with(directory: &Path, query_cache_bytes: u64) -> Store {
    let clock: Arc<dyn Clock> = Arc::new(FixedClock(Instant::now()));
    let options = Options { flush_interval: Duration::from_secs(3600), query_cache_bytes, ..Options::default() };
    Store::open(Arc::new(RealDisk), directory, options, clock).expect("the store opens")
}

/// Stores a batch; waits until it is durable.
pub(crate) fn submit(store: &Store, batch: Batch) {
    let (reply, answer) = mpsc::channel();
    let reported = Box::new(move |verdict: Result<_, Refusal>| reply.send(verdict).unwrap_or(()));
    store.submit(batch, reported).expect("there is room");
    answer.recv().expect("a reply comes").expect("the disk works");
}

/// CPU nanoseconds that this thread has run. What the scheduler accounts for in `/proc` is as of its last tick.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A query.
pub(crate) struct Question {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    /// Length and step in seconds; None for an instant.
    pub(crate) range: Option<(i64, i64)>,
}

impl Question {
    /// The value of the first series at its last instant.
    fn ask(&self, engine: &Engine, store: &Store) -> f64 {
        let answer = match self.range {
            None => engine.instant(store, self.text, WallMs(NOW_MS)),
            Some((length, step)) => {
                engine.range(store, self.text, WallMs(NOW_MS - length * 1000), WallMs(NOW_MS), Ms(step * 1000))
            }
        };
        match answer.expect("the queries are right").value {
            Value::Vector(rows) => match &rows[0].value {
                Point::Float(value) => *value,
                Point::Histogram(_) => f64::NAN,
            },
            Value::Matrix(rows) => rows[0].floats.last().expect("a value at the last instant").1,
            _ => f64::NAN,
        }
    }
}

/// An engine for which a million series are not too much.
fn unbounded() -> Engine {
    Engine::new(EngineOptions { memory: Memory::unbounded(), ..EngineOptions::default() })
}

/// The questions that were asked for.
pub(crate) struct Wanted {
    names: Vec<String>,
    rounds: usize,
}

impl Wanted {
    fn from_arguments() -> Self {
        let names = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
        let rounds = std::env::var("OGIVE_BENCH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
        Self { names, rounds }
    }

    /// Those of `all` that were asked for.
    pub(crate) fn of<'q>(&self, all: &'q [Question]) -> Vec<&'q Question> {
        let is_wanted =
            |one: &&Question| self.names.is_empty() || self.names.iter().any(|name| one.name.contains(name));
        all.iter().filter(is_wanted).collect()
    }

    /// Asks a store on disk that nobody has open, and prints.
    pub(crate) fn ask_stored(&self, directory: &Path, questions: &[&Question]) {
        let engine = unbounded();
        let mut times = vec![[const { Vec::new() }; COLUMNS]; questions.len()];
        let (mut values, mut figures) = (vec![f64::NAN; questions.len()], vec![String::new(); questions.len()]);
        for round in 0..self.rounds {
            for (at, question) in questions.iter().enumerate() {
                let mut in_turn = [0, Options::default().query_cache_bytes];
                // What the one leaves of the allocator is not always the other's.
                in_turn.rotate_left(round % 2);
                for cache_bytes in in_turn {
                    let store = open_with(directory, cache_bytes);
                    let tenant = Tenant::default();
                    let names = store.tenant(&tenant).label_names(&[], TimeRange::ALL, &Opening::UNBOUNDED);
                    assert!(!names.expect("the indexes are good").is_empty(), "there are series");
                    for turn in 0..TURNS {
                        let before = cpu_ns();
                        values[at] = question.ask(&engine, &store);
                        let column = if cache_bytes == 0 { turn.min(1) } else { 2 + turn.min(2) };
                        times[at][column].push((cpu_ns() - before) as f64 / 1e6);
                    }
                    let status = store.status();
                    let (hits, misses) = (status.query_cache_hits, status.query_cache_misses);
                    if cache_bytes == 0 {
                        continue;
                    }
                    figures[at] = format!("{hits} hits, {misses} misses, {} KiB", status.query_cache_bytes >> 10);
                }
            }
        }
        let titles = ["off 1", "off", "on 1", "on 2", "warm", "least off", "and warm", "on/off 1", "warm/off"];
        println!("{}  query ({} rounds)", titles.map(|title| format!("{title:>10}")).join(""), self.rounds);
        for (((question, times), value), figures) in questions.iter().zip(&mut times).zip(values).zip(figures) {
            times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
            let [off_first, off, first, second, warm] = times.each_ref().map(|times| times[times.len() / 2]);
            let (least_off, least_warm) = (times[1][0], times[4][0]);
            let ratios = [first / off_first, warm / off];
            let row = [off_first, off, first, second, warm, least_off, least_warm].into_iter().chain(ratios);
            let row: String = row.map(|figure| format!("{figure:10.2}")).collect();
            println!("{row}  {} = {value} ({figures})", question.name);
        }
    }

    /// Asks in turn, and prints least and median.
    pub(crate) fn ask(&self, store: &Store, questions: &[&Question]) {
        let engine = unbounded();
        let mut times = vec![Vec::new(); questions.len()];
        let mut values = vec![f64::NAN; questions.len()];
        for _ in 0..self.rounds {
            for (at, question) in questions.iter().enumerate() {
                let before = cpu_ns();
                values[at] = question.ask(&engine, store);
                times[at].push((cpu_ns() - before) as f64 / 1e6);
            }
        }
        for ((question, times), value) in questions.iter().zip(&mut times).zip(values) {
            times.sort_by(f64::total_cmp);
            println!("{:9.2} {:9.2}  {} = {value}", times[0], times[times.len() / 2], question.name);
        }
    }
}

fn main() {
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let wanted = Wanted::from_arguments();
    floats::ask(&wanted);
    histograms::ask(&wanted);
    many::ask(&wanted);
}
