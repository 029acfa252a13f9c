//! Live cells of a store whose disk is memory, beside what the same store answers.

use std::sync::mpsc;

use ogive_hist::{Histogram, Scheme};
use ogive_journal::SimulatedDisk;
use ogive_model::{
    Batch, HistogramValue, Kind, MatchOp, Sample, Select, Selection, SeriesDef, SeriesMeta, SourceId, Temporality,
    TimeRange, Value, Verdict,
};
use ogive_store::{Audience, Options as StoreOptions};
use proptest::prelude::*;

use super::*;

/// End of the second before those of these tests.
const EPOCH: i64 = 1_700_000_000;

struct Wall;

impl ogive_store::Clock for Wall {
    fn now(&self) -> ogive_model::MonoNs {
        ogive_model::MonoNs(Clock::global().now())
    }

    fn wall(&self) -> ogive_model::WallNs {
        ogive_model::WallNs((EPOCH + 60) * 1_000_000_000)
    }
}

fn matchers() -> Vec<Matcher> {
    vec![Matcher::new("__name__", MatchOp::Equal, "rpc_seconds").unwrap()]
}

fn def(at: usize, temporality: Temporality) -> SeriesDef {
    let meta = SeriesMeta { kind: Kind::Histogram, temporality, unit: "s".into(), width_ms: 1_000 };
    SeriesDef::new([("__name__", "rpc_seconds".to_owned()), ("at", at.to_string())], meta).unwrap()
}

/// A store, a board that it feeds, and the workers between them.
struct Rig {
    store: Store,
    board: Arc<Board>,
    workers: Vec<std::thread::JoinHandle<()>>,
    sequence: u64,
}

impl Rig {
    fn new(shards: usize, workers: usize, places: usize) -> Self {
        let options = StoreOptions { shards, ..StoreOptions::default() };
        let store = Store::open(Arc::new(SimulatedDisk::new(1)), "live".as_ref(), options, Arc::new(Wall)).unwrap();
        let board = Arc::new(Board::new(workers, 100, Counts::default()));
        board.pass(EPOCH);
        let sinks = (0..workers).map(|worker| BoardWriter::new(Arc::clone(&board), worker));
        let options = cells::Options { patience: None, ..cells::Options::default() };
        let (feeders, workers) = stream(options, Wait::Park, shards, places, sinks);
        let mut taps = feeders.into_iter().map(|feeder| Box::new(Tap::new(Arc::clone(&board), feeder)));
        store.follow(Audience::Streams, || taps.next().unwrap());
        let run = |worker: cells::Worker<BoardWriter>| std::thread::spawn(move || _ = worker.run());
        Self { store, board, workers: workers.into_iter().map(run).collect(), sequence: 0 }
    }

    fn watch(&self, id: u64) {
        self.board.add(id);
        self.store.watch(Audience::Streams, Watch { id, tenant: Some(Tenant::default()), matchers: matchers() });
    }

    fn send(&self, sequence: u64, series: SeriesDef, start_ms: Option<i64>, time_ms: i64, value: Value) -> Verdict {
        let ns = |ms: i64| (EPOCH * 1_000 + ms) * 1_000_000;
        let sample = Sample { series: 0, time_ns: ns(time_ms), start_ns: start_ms.map(ns), value };
        let batch = Batch {
            source: SourceId(7),
            sequence,
            series: vec![Ok(series)],
            samples: vec![Ok(sample)],
            ..Batch::default()
        };
        let (sender, verdict) = mpsc::channel();
        self.store.submit(batch, Box::new(move |outcome| sender.send(outcome).unwrap())).unwrap();
        verdict.recv().unwrap().unwrap()
    }

    fn put(&mut self, series: usize, start_ms: Option<i64>, time_ms: i64, values: &[f64]) -> Verdict {
        self.sequence += 1;
        self.send(
            self.sequence,
            def(series, Temporality::Delta),
            start_ms,
            time_ms,
            Value::Histogram(Box::new(histogram_of(values))),
        )
    }

    /// Lets seconds pass, and waits until they are reported.
    fn pass(&self, second: i64) {
        self.board.pass(EPOCH + second);
        let closed = self.board.closed();
        // One that finds a full ring is reported again; later and later, as those that wait in a ring leave less room
        // in it.
        for times in 0..120_u64 {
            self.store.pass(Audience::Streams, ogive_model::WallNs((EPOCH + second) * 1_000_000_000 + 1));
            for _ in 0..1 << times.min(10) {
                if *closed.borrow() >= EPOCH + second {
                    return;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        panic!("second {second} was never reported");
    }

    /// What the store answers of a second.
    fn stored(&self, second: i64) -> Option<Histogram> {
        let end_ms = (EPOCH + second) * 1_000;
        let selection = Selection {
            samples_max: 1_000_000,
            ..Selection::new(matchers(), TimeRange::from_ms(end_ms - 1_000, end_ms))
        };
        let series = self.store.select(&selection).unwrap();
        let values = series.into_iter().flat_map(|data| data.histograms.values);
        values
            .map(|value| match value {
                HistogramValue::Integer(value) => value,
                HistogramValue::Float(_) => panic!("whole counts were sent"),
            })
            .reduce(|mut sum, value| {
                sum.merge(&value).unwrap();
                sum
            })
    }

    /// The seconds that the cells are certain of; each of them is what the store says.
    fn certain(&self, watch: u64, seconds: std::ops::RangeInclusive<i64>) -> Vec<i64> {
        let mut certain = Vec::new();
        for second in seconds {
            match self.board.answer(watch, EPOCH + second) {
                Answer::Column(sum) => {
                    assert_eq!(sum.as_deref().map(shown), self.stored(second).as_ref().map(shown), "second {second}");
                    certain.push(second);
                }
                Answer::Ask(None) => {}
                other => panic!("second {second}: {other:?}"),
            }
        }
        certain
    }

    fn end(mut self) {
        self.store.unfollow(Audience::Streams);
        self.workers.drain(..).for_each(|worker| worker.join().unwrap());
    }
}

fn histogram_of(values: &[f64]) -> Histogram {
    let mut out = Histogram::log_linear();
    values.iter().for_each(|value| out.record(*value));
    out
}

/// What a column shows.
fn shown(histogram: &Histogram) -> (u64, [Option<f64>; 3], Vec<(f64, u64)>) {
    let bins = histogram.buckets().map(|bucket| (bucket.lo, bucket.count)).collect();
    (histogram.count, [histogram.sum, histogram.min, histogram.max], bins)
}

#[test]
fn what_counts_is_in_the_cells_once_and_what_does_not_is_not() {
    let mut rig = Rig::new(2, 2, 64);
    rig.put(0, None, 300, &[1.0]);
    rig.watch(1);
    assert_eq!(rig.put(0, Some(1_000), 1_500, &[2.0]).accepted, 1);
    assert_eq!(rig.put(0, Some(1_000), 1_500, &[2.0]).duplicate, 1, "the same point");
    assert_eq!(rig.put(1, None, 1_500, &[4.0]).accepted, 1, "a series that is new");
    let again = rig.send(
        rig.sequence,
        def(1, Temporality::Delta),
        None,
        1_600,
        Value::Histogram(Box::new(histogram_of(&[8.0]))),
    );
    assert_eq!(again.duplicate, 1, "the same number");
    let other = |rig: &mut Rig, time_ms| {
        rig.sequence += 1;
        let value = Histogram::new(Scheme::Custom { bounds: [1.0].into() });
        rig.send(rig.sequence, def(1, Temporality::Delta), None, time_ms, Value::Histogram(Box::new(value)))
    };
    assert_eq!(other(&mut rig, 1_400).rejected.len(), 1, "bins that do not fit what is there");
    rig.put(1, None, 2_200, &[4.0]);
    assert_eq!(other(&mut rig, 2_600).accepted, 1, "later ones may, but one cell cannot hold both");
    rig.pass(3);
    assert_eq!(rig.certain(1, 1..=2), [2], "the watch began within the first");
    assert_eq!(rig.board.answer(1, EPOCH + 3), Answer::Ask(None));
    let Answer::Column(Some(second)) = rig.board.answer(1, EPOCH + 2) else { panic!() };
    assert_eq!((second.count, second.sum), (2, Some(6.0)));
    rig.put(0, None, 1_900, &[16.0]);
    rig.pass(4);
    assert_eq!(rig.certain(1, 2..=2), [2], "late, and merged");
    let expected = [("live_fed_total", 5), ("live_late_total", 1), ("live_doubts_total", 1)];
    assert_eq!(rig.board.counts.figures()[2..5], expected);
    rig.end();
}

#[test]
fn a_point_that_may_be_in_a_block_is_not_counted_twice() {
    let mut rig = Rig::new(1, 1, 64);
    rig.watch(1);
    rig.put(0, Some(1_000), 1_500, &[2.0]);
    rig.store.flush().unwrap();
    assert_eq!(rig.put(0, Some(1_000), 1_500, &[2.0]).accepted, 1, "the head does not know it any more");
    rig.put(0, Some(1_500), 2_500, &[4.0]);
    rig.pass(3);
    assert_eq!(rig.certain(1, 1..=3), [1, 3]);
    assert_eq!(rig.stored(2).unwrap().count, 1);
    rig.end();
}

#[test]
fn a_full_ring_loses_nothing_in_silence() {
    let mut rig = Rig::new(1, 1, 1);
    rig.watch(1);
    for at in 0..200 {
        rig.put(at % 7, None, 1_000 + at as i64 * 5, &[1.0]);
    }
    rig.pass(3);
    let (fed, doubts) = (rig.board.counts.fed.get(), rig.board.counts.doubts.get());
    assert_eq!(fed + doubts, 200);
    assert_eq!(rig.certain(1, 1..=3).len(), if doubts > 0 { 2 } else { 3 });
    rig.end();
}

#[test]
fn a_watch_that_cells_cannot_answer_says_so() {
    let mut rig = Rig::new(1, 1, 64);
    rig.put(0, None, 100, &[1.0]);
    rig.watch(1);
    rig.sequence += 1;
    rig.send(
        rig.sequence,
        def(1, Temporality::Cumulative),
        None,
        1_500,
        Value::Histogram(Box::new(histogram_of(&[1.0]))),
    );
    rig.pass(2);
    assert_eq!(rig.board.answer(1, EPOCH + 2), Answer::Ask(Some(board::UnfitReason::Kind)));
    assert_eq!(rig.board.counts.series.get(), 0);
    rig.end();
}

#[test]
fn streams_share_a_watch_and_the_last_one_ends_everything() {
    let store = Store::open(Arc::new(SimulatedDisk::new(1)), "live".as_ref(), StoreOptions::default(), Arc::new(Wall));
    let store = Arc::new(store.unwrap());
    let live = Live::new(&store, Clock::global(), Options::default());
    let watch = |query: &str| live.watch(&Tenant::default(), query, &matchers()).unwrap();
    let (first, second, third) = (watch("rpc_seconds"), watch("rpc_seconds"), watch("(rpc_seconds)"));
    assert_eq!((first.id, second.id, third.id), (1, 1, 2));
    drop(first);
    assert_eq!(live.state().watches.len(), 2);
    drop((second, third));
    assert!(live.state().board.is_none() && live.state().watches.is_empty());
    let later = watch("rpc_seconds");
    live.end();
    drop(later);
    assert!(live.watch(&Tenant::default(), "rpc_seconds", &matchers()).is_none(), "the server has ended");
    let off = Live::new(&store, Clock::global(), Options { live_series: 0, ..Options::default() });
    assert!(off.watch(&Tenant::default(), "rpc_seconds", &matchers()).is_none());
}

#[derive(Clone, Debug)]
enum Act {
    Put { series: usize, start: Option<i64>, time: i64, value: u8 },
    Flush,
    Pass,
}

fn any_acts() -> impl Strategy<Value = Vec<Act>> {
    let put = (0..5_usize, prop_oneof![Just(None), Just(Some(250))], 1..48_i64, 1..4_u8).prop_map(
        |(series, length, place, value)| {
            let time = place * 250;
            Act::Put { series, start: length.map(|length| time - length), time, value }
        },
    );
    proptest::collection::vec(prop_oneof![20 => put, 1 => Just(Act::Flush), 3 => Just(Act::Pass)], 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Points and fragments in any order, sent again and again, with flushes and seconds that pass in between, through
    /// any number of threads and rings of any size: a column that the cells give is what the store gives.
    #[test]
    fn cells_say_what_the_store_says(
        before in any_acts(), after in any_acts(), shards in 1..3_usize, workers in 1..3_usize, places in prop_oneof![Just(2_usize), Just(512)],
    ) {
        let mut rig = Rig::new(shards, workers, places);
        let mut passed = 0;
        for (watched, acts) in [(false, before), (true, after)] {
            if watched {
                rig.watch(1);
            }
            for act in acts {
                match act {
                    Act::Put { series, start, time, value } => {
                        rig.put(series, start, time, &vec![f64::from(value) / 8.0; value.into()]);
                    }
                    Act::Flush => _ = rig.store.flush().unwrap(),
                    Act::Pass if passed < 10 => {
                        passed += 1;
                        rig.pass(passed);
                    }
                    Act::Pass => {}
                }
            }
        }
        rig.pass(14);
        let certain = rig.certain(1, 1..=14);
        prop_assert!(certain.contains(&14), "nothing came that late: {certain:?}");
        rig.end();
    }
}
