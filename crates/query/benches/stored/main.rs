//! What does a query cost from a store on disk to its value, without a server?
//!
//! Each store is made once, with its blocks flushed and compacted. Its queries then run some times in turn with each
//! other; printed are CPU milliseconds (least and median) of the thread that asks, and a value of the last instant.
//! Arguments select the queries whose name contains one of them; OGIVE_BENCH_ROUNDS says how often each is asked.
//!
//! `cargo bench -p ogive-query --bench stored`

mod floats;
mod histograms;
mod many;

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use ogive_journal::RealDisk;
use ogive_model::{Batch, Memory, MonoNs, Ms, WallMs, WallNs};
use ogive_query::value::Point;
use ogive_query::{Engine, EngineOptions, Value};
use ogive_store::{Clock, Options, Refusal, Store};

/// How often each query is asked.
const ROUNDS: usize = 9;

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
    let clock: Arc<dyn Clock> = Arc::new(FixedClock(Instant::now()));
    let options = Options { flush_interval: Duration::from_secs(3600), ..Options::default() };
    Store::open(Arc::new(RealDisk), directory, options, clock).expect("the store opens")
}

/// Stores a batch; waits until it is durable.
pub(crate) fn submit(store: &Store, batch: Batch) {
    let (reply, answer) = mpsc::channel();
    let reported = Box::new(move |verdict: Result<_, Refusal>| reply.send(verdict).unwrap_or(()));
    store.submit(batch, reported).expect("there is room");
    answer.recv().expect("a reply comes").expect("the disk works");
}

/// CPU nanoseconds that this thread has run, as the scheduler accounts for them.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(0)
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

    /// Asks in turn, and prints.
    pub(crate) fn ask(&self, store: &Store, questions: &[&Question]) {
        // A million series take more than a server's default.
        let engine = Engine::new(EngineOptions { memory: Memory::unbounded(), ..EngineOptions::default() });
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
    println!("{:>9} {:>9}  query ({} rounds)", "least ms", "median", wanted.rounds);
    floats::ask(&wanted);
    histograms::ask(&wanted);
    many::ask(&wanted);
}
