//! What does it cost ingest that somebody watches?
//!
//! `cargo bench -p ogive-store --bench follow` sends histogram cells, and floats, to a store whose disk is memory, in
//! turn while nobody watches, while a watch accepts other series, and while every histogram is fed through rings to a
//! worker of live cells whose cells are dropped (numbers are watched in vain). CPU time is the whole process's, the
//! worker's included; the median round and the range of each, and its ratio to nobody in the same round.

mod common;

use std::sync::{Arc, mpsc};
use std::time::Instant;

use common::{cell, cpu_seconds};
use ogive_journal::SimulatedDisk;
use ogive_model::{
    Batch, Kind, Labels, MatchOp, Matcher, MonoNs, Ns, Sample, SeriesDef, SeriesId, SeriesMeta, SourceId, Temporality,
    Tenant, Value, WallMs, WallNs,
};
use ogive_store::{Audience, Clock, Followed, Follower, Options, Refusal, Store, Watch};
use ogive_stream::cells::{self, Closed, Feeder, Item, ItemValue, Wait, stream};

const ROUNDS: usize = 7;
const BATCHES: u64 = 150;
const WIDTH: u32 = 1_000;
/// Of a sample in the last batch; nothing is in the future.
const WALL_NS: i64 = 1_700_000_000_000_000_000;

struct Wall(Instant);

impl Clock for Wall {
    fn now(&self) -> MonoNs {
        MonoNs(self.0.elapsed().as_nanos() as u64)
    }

    fn wall(&self) -> WallNs {
        WallNs(WALL_NS)
    }
}

fn value(kind: Kind, seed: u64) -> Value {
    if kind == Kind::Float {
        return Value::Float(seed as f64);
    }
    cell(seed, 50)
}

fn frames(kind: Kind) -> Vec<Vec<u8>> {
    let temporality = if kind == Kind::Float { Temporality::Gauge } else { Temporality::Delta };
    let meta = SeriesMeta { kind, temporality, unit: "s".into(), width_ms: 1000 };
    let series = |number: u32| {
        let pairs =
            [("__name__", "rpc_seconds".to_owned()), ("instance", format!("10.2.{}.{}", number / 250, number % 250))];
        SeriesDef { labels: Labels::new(pairs).expect("labels are valid"), meta: meta.clone() }
    };
    let known: Vec<SeriesId> = (0..WIDTH).map(|number| series(number).id(&Tenant::default())).collect();
    let frame = |sequence: u64| {
        let time_ns = WALL_NS - (BATCHES - sequence) as i64 * 1_000_000_000;
        let sample = |number: u32| {
            let value = value(kind, u64::from(number % 64) + sequence * 1_000);
            Ok(Sample { series: number, time_ns, start_ns: None, value })
        };
        let mut batch =
            Batch { source: SourceId(1), sequence, samples: (0..WIDTH).map(sample).collect(), ..Batch::default() };
        if sequence == 1 {
            batch.series = (0..WIDTH).map(|number| Ok(series(number))).collect();
        } else {
            batch.known.clone_from(&known);
        }
        batch.encode().expect("it fits")
    };
    (1..=BATCHES).map(frame).collect()
}

fn drop_cell(_: &Closed<'_>) {}

struct Tap(Feeder, Vec<SeriesId>);

impl Follower for Tap {
    fn begin(&mut self, followed: Followed<'_>) -> bool {
        let at = followed.slot as usize;
        self.1.resize(self.1.len().max(at + 1), SeriesId(0));
        self.1[at] = followed.series;
        true
    }

    fn sample(&mut self, slot: u32, time_ms: WallMs, value: Value, _: bool) {
        let Value::Histogram(part) = value else { return };
        let item = Item { series: self.1[slot as usize], time_ns: time_ms.to_ns().0, what: ItemValue::Part(part) };
        self.0.offer_unordered([item]);
        self.0.offer_until(time_ms.to_ns() - Ns::from_secs(1));
    }

    fn pass(&mut self, until_ns: WallNs) {
        self.0.until(until_ns);
    }
}

/// CPU microseconds a sample.
fn run(frames: &[Vec<u8>], watched: Option<&str>, is_fed: bool) -> f64 {
    let options = Options::default();
    let store = Store::open(Arc::new(SimulatedDisk::new(1)), "bench".as_ref(), options, Arc::new(Wall(Instant::now())));
    let store = store.expect("the store opens");
    let (done, answers) = mpsc::channel();
    let mut worker = None;
    if let Some(name) = watched {
        let options = cells::Options { patience: None, ..cells::Options::default() };
        let (feeders, workers) = stream(options, Wait::Park, store.shards(), 8_192, [drop_cell as fn(&Closed<'_>)]);
        let mut taps = feeders.into_iter().map(|feeder| Box::new(Tap(feeder, Vec::new())));
        store.follow(Audience::Streams, || taps.next().expect("one for each shard"));
        let matchers = vec![Matcher::new("__name__", MatchOp::Equal, name).expect("it is valid")];
        store.watch(Audience::Streams, Watch { id: 1, tenant: Some(Tenant::default()), matchers });
        let run = |worker: cells::Worker<fn(&Closed<'_>)>| std::thread::spawn(move || worker.run().0);
        worker = workers.into_iter().map(run).next();
    }
    let cpu = cpu_seconds();
    for frame in frames {
        let batch = Batch::decode(frame).expect("a frame of our own");
        let reply = || {
            let done = done.clone();
            Box::new(move |verdict: Result<ogive_model::Verdict, Refusal>| {
                done.send(verdict.expect("the disk works").accepted).unwrap_or(());
            })
        };
        while let Err(refusal) = store.submit_framed(batch.clone(), frame.clone(), reply()) {
            assert!(refusal == Refusal::Busy, "{refusal}");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
    let accepted: u64 = answers.iter().take(frames.len()).sum();
    store.unfollow(Audience::Streams);
    if let Some(counts) = worker.map(|worker| worker.join().expect("no panic")) {
        let fed = counts.taken;
        // A full ring skips; numbers are reported to nobody.
        assert!(fed > 0 || !is_fed, "{fed} of {accepted} were fed");
    }
    (cpu_seconds() - cpu) * 1e6 / accepted as f64
}

fn main() {
    for (name, kind) in [("histograms of 30 bins", Kind::Histogram), ("floats", Kind::Float)] {
        let frames = frames(kind);
        let is_fed = kind == Kind::Histogram;
        run(&frames, None, false);
        let mut rounds: Vec<[f64; 3]> = Vec::new();
        for _ in 0..ROUNDS {
            let (nobody, others) = (run(&frames, None, false), run(&frames, Some("other"), false));
            rounds.push([nobody, others, run(&frames, Some("rpc_seconds"), is_fed)]);
        }
        let reported = |what: &str, each: &dyn Fn(&[f64; 3]) -> f64| {
            let mut all: Vec<f64> = rounds.iter().map(each).collect();
            all.sort_by(f64::total_cmp);
            println!("{name}, {what}: {:.3} ({:.3} to {:.3})", all[ROUNDS / 2], all[0], all[ROUNDS - 1]);
        };
        reported("CPU us a sample, nobody watches", &|round| round[0]);
        reported("CPU us a sample, other series are watched", &|round| round[1]);
        reported("CPU us a sample, every series is watched", &|round| round[2]);
        reported("others watched / nobody", &|round| round[1] / round[0]);
        reported("watched / nobody", &|round| round[2] / round[0]);
    }
}
