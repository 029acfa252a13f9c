//! Turns of the quantizer over a real store, beside what its samples say.

use ogive_hist::Histogram;
use ogive_model::{FloatColumn, HistogramColumn, SeriesMeta};
use ogive_probe::Clock;
use proptest::prelude::*;
use tokio::sync::watch;

use ogive_door::backend::Backend;
use ogive_door::metadata::Metadata;
use ogive_door::numbers::Numbers;

use super::*;
use crate::embedded::{Embedded, Settings};
use crate::keeping::Keeping;
use crate::limits::IngestLimits as Limits;
use crate::quantize::Options;
use crate::upkeep::Upkeep;

/// A full second, and a full hour.
const EPOCH_MS: i64 = 1_700_002_800_000;

struct Rig {
    work: Work,
    turns: Vec<Turn>,
    sequence: u64,
    clock: Clock,
    _end: watch::Sender<bool>,
    _runtime: tokio::runtime::Runtime,
    _directory: tempfile::TempDir,
}

/// Samples of one time and series.
type Put = (usize, i64, f64);

const NAMES: [(&str, Kind, Temporality); 3] = [
    ("level", Kind::Float, Temporality::Gauge),
    ("things_total", Kind::Float, Temporality::Cumulative),
    ("took_seconds", Kind::Histogram, Temporality::Delta),
];

const LIMITS: Limits = Limits {
    ingest_memory_mib: 64,
    limit_series: 1_000,
    limit_labels: 64,
    limit_label_bytes: 16_384,
    limit_batch_series: 1_000,
};

/// A door in front of `backend`, and what ends it.
fn door(backend: Arc<dyn Backend>, clock: Clock) -> (Arc<Door>, watch::Sender<bool>) {
    let (end, ending) = watch::channel(false);
    let door = Door {
        backend: backend.clone(),
        counters: Arc::default(),
        meters: Arc::default(),
        clock,
        batch_series_max: 1_000,
        numbers: Numbers::recalling(Vec::new()),
        metadata: Arc::new(Metadata::new(backend, clock)),
        ending,
    };
    (Arc::new(door), end)
}

impl Rig {
    fn new(rules: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clock = Clock::manual(1_000, EPOCH_MS * 1_000_000);
        let quantize = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let marks = Marks::new(&Options { quantize }).unwrap().unwrap();
        let upkeep = Upkeep::open(&[directory.path().to_owned()], false, clock).unwrap();
        let keeping = Keeping { replay_bytes_max: 128 << 20, ..Keeping::default() };
        let live = crate::live::Options::default();
        let settings = Settings { limits: &LIMITS, keeping: &keeping, live, query_cache_bytes: 0 };
        let store = Embedded::open(upkeep, settings, Some(Arc::clone(&marks)), clock, &Arc::default()).unwrap();
        let (door, end) = door(Arc::new(store), clock);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let work = Work { marks, door, runtime: runtime.handle().clone() };
        let turns = (0..rules.len()).map(|rule| work.begin(rule)).collect();
        Self { work, turns, sequence: 0, clock, _end: end, _runtime: runtime, _directory: directory }
    }

    fn pass(&self, ms: i64) {
        self.clock.advance(ms as u64 * 1_000_000);
    }

    fn put(&mut self, puts: &[Put]) {
        self.sequence += 1;
        let mut batch = Batch { source: ogive_model::SourceId(9), sequence: self.sequence, ..Batch::default() };
        for (name, kind, temporality) in NAMES {
            let meta = SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 };
            batch.series.push(SeriesDef::new([(METRIC_NAME, name), ("host", "a")], meta));
        }
        for (series, at, value) in puts {
            let value = match NAMES[*series].1 {
                Kind::Histogram => Value::Histogram(Box::new(distribution(*value))),
                _ => Value::Float(*value),
            };
            let time_ns = (EPOCH_MS + at) * 1_000_000;
            batch.samples.push(Ok(Sample { series: *series as u32, time_ns, start_ns: None, value }));
        }
        let frame = batch.encode().unwrap();
        let way = self.work.door.meters.ingest.begin_made();
        let stored = stored(&self.work.door, Protocol::Batch, batch, frame, &way);
        let verdict = self.work.runtime.block_on(stored).unwrap();
        assert!(verdict.rejected.is_empty(), "{verdict:?}");
    }

    fn turn(&mut self) {
        for turn in &mut self.turns {
            self.work.turn(turn, &self.work.marks.rules()[turn.rule]).unwrap();
        }
    }

    /// As after a kill: nothing is known but what is stored.
    fn restart(&mut self) {
        for marked in self.work.marks.rules() {
            *lock(&marked.dirty) = Default::default();
            marked.closed_ms.store(i64::MIN, Ordering::Relaxed);
            marked.horizon_ms.store(i64::MIN, Ordering::Relaxed);
        }
        self.turns = (0..self.turns.len()).map(|rule| self.work.begin(rule)).collect();
    }

    fn read(&self, name: &str) -> Option<SeriesData> {
        let matchers = vec![matcher(METRIC_NAME, name)];
        self.work.select(&Tenant::default(), matchers, TimeRange::ALL).unwrap().pop()
    }

    fn numbers(&self, name: &str) -> Vec<(i64, f64)> {
        let column = self.read(name).map(|series| series.floats).unwrap_or_default();
        column.times.iter().map(|time| time - EPOCH_MS).zip(column.values).collect()
    }

    fn count(&self, name: &str) -> u64 {
        self.work.marks.rules()[0].counts.figures().iter().find(|figure| figure.1 == name).unwrap().2
    }
}

fn distribution(value: f64) -> Histogram {
    let mut out = Histogram::log_linear();
    out.record(value);
    out
}

#[test]
fn samples_are_dropped_once_they_are_in_cells_and_the_cells_stay() {
    let mut rig = Rig::new(&["{host=\"a\"}=keep=instead,raw=10m,lookback=1m"]);
    rig.put(&[(0, 500, 4.0), (1, 700, 1.0), (1, 1_700, 3.0), (2, 900, 1.0)]);
    rig.pass(60_000);
    rig.turn();
    let cells = (vec![(1_000, 4.0)], vec![(2_000, 2.0)]);
    let old = |cells: Vec<(i64, f64)>| cells.into_iter().filter(|cell| cell.0 < 60_000).collect::<Vec<_>>();
    let both = |rig: &Rig| (old(rig.numbers("level:1s_last")), old(rig.numbers("things_total:1s_increase")));
    assert_eq!(both(&rig), cells);
    // Ten minutes, the minute of the lookback, and the ten minutes between two deletions.
    rig.pass(22 * 60_000);
    rig.put(&[(0, 22 * 60_000, 5.0)]);
    rig.turn();
    assert_eq!(rig.numbers("level"), [(22 * 60_000, 5.0)], "what is old is gone");
    assert!(rig.read("took_seconds").is_none() && rig.numbers("things_total").is_empty());
    assert_eq!(both(&rig), cells);
    // Its window had more than this sample: no cell is made of what is left of it.
    rig.put(&[(0, 800, 9.0)]);
    for _ in 0..2 {
        rig.pass(60_000);
        rig.turn();
        assert_eq!((rig.numbers("level:1s_last")[0], rig.count("too_late")), ((1_000, 4.0), 1));
        assert_eq!(rig.numbers("level")[0], (800, 9.0), "it stays as a sample");
        rig.restart();
    }
}

#[test]
fn a_store_that_refuses_for_a_while_gets_every_cell_once() {
    let mut rig = Rig::new(&["level=number=count"]);
    rig.put(&[(0, 100, 1.0), (0, 200, 1.0)]);
    rig.pass(10_000);
    let limit =
        Arc::get_mut(&mut rig.work.door).map(|app| std::mem::replace(&mut app.batch_series_max, 0)).expect("alone");
    // A batch of one series is above the limit.
    assert!(rig.work.turn(&mut rig.turns[0], &rig.work.marks.rules()[0]).is_err());
    Arc::get_mut(&mut rig.work.door).unwrap().batch_series_max = limit;
    assert_eq!(rig.turns[0].windows, SLICE_WINDOWS / 2, "perhaps it was too much");
    for _ in 0..3 {
        rig.turn();
        assert_eq!(rig.numbers("level:1s_count"), [(1_000, 2.0)]);
    }
}

#[derive(Clone, Debug)]
enum Act {
    Put(Vec<Put>),
    Pass(i64),
    Restart,
}

fn any_acts() -> impl Strategy<Value = Vec<Act>> {
    let put =
        (0..3_usize, 1..200_i64, 1..20_u8).prop_map(|(series, place, value)| (series, place * 70, f64::from(value)));
    let act = prop_oneof![
        6 => proptest::collection::vec(put, 1..6).prop_map(Act::Put),
        4 => (1..4_i64).prop_map(|seconds| Act::Pass(seconds * 700)),
        1 => Just(Act::Restart),
    ];
    proptest::collection::vec(act, 1..25)
}

/// The cells of `column` as a slow loop has them.
fn expected(column: &FloatColumn, function: align::Function, temporality: Temporality) -> Vec<(i64, f64)> {
    let windows = Windows { width: Ms(1_000), from: WallMs(0), to: WallMs(EPOCH_MS * 2), read_from: WallMs(0) };
    align::numbers(column, function, temporality, windows)
        .into_iter()
        .map(|(end, value)| (end - EPOCH_MS, value))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Samples in any order, early and late, with turns and restarts in between: in the end the cells are those of the
    /// samples.
    #[test]
    fn cells_are_those_of_the_samples_whatever_came_when(acts in any_acts()) {
        let mut rig = Rig::new(&["{host=\"a\"}=lateness=1s,number=last+min+count", "things_total"]);
        for act in acts {
            match act {
                Act::Put(puts) => rig.put(&puts),
                Act::Pass(ms) => {
                    rig.pass(ms);
                    rig.turn();
                }
                Act::Restart => rig.restart(),
            }
        }
        // A gauge that becomes smaller is written anew once in half a minute.
        for _ in 0..3 {
            rig.pass(31_000);
            rig.turn();
        }
        for (name, _, temporality) in &NAMES[..2] {
            let column = rig.read(name).map(|series| series.floats).unwrap_or_default();
            for function in [align::Function::Last, align::Function::Min, align::Function::Count] {
                let cells = rig.numbers(&format!("{name}:1s_{}", function.as_str()));
                prop_assert_eq!(cells, expected(&column, function, *temporality), "{} {:?}", name, function);
            }
        }
        let column = rig.read("things_total").map(|series| series.floats).unwrap_or_default();
        let increases = rig.numbers("things_total:1s_increase").into_iter().filter(|cell| cell.1 != 0.0);
        let wanted = expected(&column, align::Function::Increase, Temporality::Cumulative);
        prop_assert_eq!(increases.collect::<Vec<_>>(), wanted.into_iter().filter(|cell| cell.1 != 0.0).collect::<Vec<_>>());
        let count = |column: HistogramColumn| column.values.iter().map(|value| match value {
            HistogramValue::Integer(value) => value.count,
            HistogramValue::Float(_) => 0,
        }).sum::<u64>();
        let of = |name: &str| rig.read(name).map(|series| count(series.histograms)).unwrap_or_default();
        prop_assert_eq!(of("took_seconds:1s_histogram"), of("took_seconds"));
    }
}

#[test]
fn a_name_as_a_pattern_matches_itself_alone() {
    let matches = |name: &str, other: &str| Matcher::new("x", MatchOp::Regex, literal(name)).unwrap().matches(other);
    assert!(matches("a.b:1s_last", "a.b:1s_last") && !matches("a.b:1s_last", "axb:1s_last"));
    assert!(matches("ü+(x)", "ü+(x)"));
}
