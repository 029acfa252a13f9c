//! Lists of label sets, names and values, and the limits of selections, compared with a map of every sample: in heads
//! and blocks, with deletions, for every limit. Pages of heads are small in tests, so that each list takes several of
//! each shard.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use ogive_hist::Histogram;
use ogive_journal::SimulatedDisk;
use ogive_model::{
    Batch, Kind, Labels, MatchOp, Matcher, Opening, Sample, Select, SelectError, Selection, SeriesDef, SeriesMeta,
    SourceId, Temporality, Tenant, TimeRange, Value, WallMs, WallNs,
};
use proptest::prelude::*;

use crate::{ManualClock, Options, Store};

const WALL_MS: i64 = 1_700_000_000_000;
const LIMITS: [usize; 5] = [0, 1, 2, 5, usize::MAX];

#[derive(Clone, Debug)]
enum Event {
    /// A sample at a second of each of some series of a tenant.
    Put {
        tenant: usize,
        series: BTreeSet<u32>,
        second: i64,
    },
    Flush,
    /// Of the series with this value of `a`, up to a second.
    Delete {
        tenant: usize,
        a: u32,
        until: i64,
    },
    /// Blocks become one, and what was deleted goes.
    Settle,
}

fn any_event() -> impl Strategy<Value = Event> {
    let series = prop::collection::btree_set(0..40_u32, 1..25);
    prop_oneof![
        6 => (0..2_usize, series, 0..9_i64).prop_map(|(tenant, series, second)| Event::Put { tenant, series, second }),
        3 => Just(Event::Flush),
        1 => (0..2_usize, 0..5_u32, 0..9_i64).prop_map(|(tenant, a, until)| Event::Delete { tenant, a, until }),
        1 => Just(Event::Settle),
    ]
}

fn tenant(number: usize) -> Tenant {
    Tenant::new(["one", "two"][number]).unwrap()
}

/// 20 label sets, each of two kinds.
fn def(series: u32) -> SeriesDef {
    let (set, kind) = (series % 20, if series < 20 { Kind::Float } else { Kind::Histogram });
    let value = |prefix: &str, number: u32| if number == 0 { String::new() } else { format!("{prefix}{number}") };
    let pairs = [("__name__", format!("m{}", set % 3)), ("a", value("a", set % 5)), ("b", value("b", set % 4))];
    let meta = SeriesMeta { kind, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    SeriesDef { labels: Labels::new(pairs).unwrap(), meta }
}

fn ms(second: i64) -> i64 {
    WALL_MS + second * 1000
}

type Model = BTreeMap<(usize, u32), BTreeSet<i64>>;

struct Rig {
    store: Store,
    sequence: u64,
    model: Model,
}

impl Rig {
    fn new() -> Self {
        let (group_interval, flush_interval) = (Duration::ZERO, Duration::from_secs(3600));
        let options = Options { group_interval, flush_interval, shards: 3, ..Options::default() };
        let clock = Arc::new(ManualClock::new(WallNs(WALL_MS * 1_000_000)));
        let store = Store::open(Arc::new(SimulatedDisk::new(1)), Path::new("data"), options, clock).unwrap();
        Self { store, sequence: 0, model: Model::new() }
    }

    fn put(&mut self, of: usize, series: &BTreeSet<u32>, second: i64) {
        let value = |series: u32| match def(series).meta.kind {
            Kind::Float => Value::Float(1.0),
            _ => Value::Histogram(Box::new(Histogram::log_linear())),
        };
        let sample = |(at, series): (u32, &u32)| {
            Ok(Sample { series: at, time_ns: ms(second) * 1_000_000, start_ns: None, value: value(*series) })
        };
        self.sequence += 1;
        let batch = Batch {
            source: SourceId(1),
            sequence: self.sequence,
            tenant: tenant(of),
            series: series.iter().map(|series| Ok(def(*series))).collect(),
            samples: (0..).zip(series).map(sample).collect(),
            ..Batch::default()
        };
        let (reply, answer) = mpsc::channel();
        self.store.submit(batch, Box::new(move |result| reply.send(result).unwrap_or(()))).unwrap();
        assert_eq!(answer.recv().unwrap().unwrap().rejected, []);
        for series in series {
            self.model.entry((of, *series)).or_default().insert(second);
        }
    }

    fn play(&mut self, event: &Event) {
        match event {
            Event::Put { tenant, series, second } => self.put(*tenant, series, *second),
            Event::Flush => drop(self.store.flush().unwrap()),
            Event::Settle => self.store.settle(),
            Event::Delete { tenant: of, a, until } => {
                let a = format!("a{a}");
                let matchers = vec![matcher("a", MatchOp::Equal, &a)];
                let range = TimeRange::from_ms(i64::MIN, ms(*until));
                self.store.delete(&tenant(*of), &[matchers], range).unwrap();
                for ((held, series), seconds) in &mut self.model {
                    if held == of && def(*series).labels.get("a") == a {
                        seconds.retain(|second| second > until);
                    }
                }
            }
        }
    }

    /// The label sets that a question is about.
    fn expected(&self, of: usize, matchers: &[Matcher], range: TimeRange) -> BTreeSet<Labels> {
        let is_requested = |labels: &Labels| labels.match_all(matchers);
        let has = |seconds: &BTreeSet<i64>| seconds.iter().any(|second| range.contains(WallMs(ms(*second))));
        let held = self.model.iter().filter(|((tenant, _), seconds)| *tenant == of && has(seconds));
        held.map(|((_, series), _)| def(*series).labels).filter(is_requested).collect()
    }

    fn check(&self, of: usize, matchers: &[Matcher], range: TimeRange, is_exact: bool) {
        let (tenant, expected) = (tenant(of), self.expected(of, matchers, range));
        let view = self.store.tenant(&tenant);
        for limit in LIMITS {
            let found = view.label_sets(matchers, range, limit, &Opening::UNBOUNDED).unwrap();
            assert!(found.iter().eq(expected.iter().take(limit)), "{limit}: {found:?} of {expected:?}");
        }
        if is_exact {
            let names: BTreeSet<&str> = expected.iter().flat_map(|one| one.iter().map(|pair| pair.0)).collect();
            assert!(view.label_names(matchers, range, &Opening::UNBOUNDED).unwrap().iter().eq(names));
            for name in ["__name__", "a", "b", "c"] {
                let values: BTreeSet<&str> = expected.iter().map(|one| one.get(name)).collect();
                for limit in LIMITS {
                    let found = view.label_values(name, matchers, range, limit, &Opening::UNBOUNDED).unwrap();
                    let values = values.iter().filter(|value| !value.is_empty()).take(limit);
                    assert!(found.iter().eq(values), "{name} {limit}: {found:?}");
                }
            }
        }
        let selection = Selection::new(matchers.to_vec(), range);
        let open = |series_max: usize| {
            let set = view.open(&selection, &Opening { series_max, ..Opening::UNBOUNDED })?;
            let with_samples = |number: &usize| !set.take(*number).unwrap().is_empty();
            Ok((set.count(), (0..set.count()).filter(with_samples).count()))
        };
        let (count, with_samples) = open(usize::MAX).unwrap();
        assert_eq!(with_samples, expected.len());
        if !is_exact {
            // What the maintenance thread does meanwhile changes how many may have samples.
            return;
        }
        assert_eq!(open(count), Ok((count, with_samples)));
        if let Some(limit) = count.checked_sub(1) {
            let refused = open(limit);
            assert!(
                matches!(refused, Err(SelectError::TooManySeries { limit: reported, .. }) if reported == limit),
                "{refused:?}"
            );
        }
    }
}

fn matcher(name: &str, op: MatchOp, value: &str) -> Matcher {
    Matcher::new(name, op, value).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn lists_are_those_of_the_samples(events in prop::collection::vec(any_event(), 1..12)) {
        use MatchOp::{Equal, NotEqual, Regex};
        let mut rig = Rig::new();
        let mut was_deleted = false;
        for event in &events {
            rig.play(event);
            was_deleted |= matches!(event, Event::Delete { .. });
        }
        let requested = [
            vec![],
            vec![matcher("__name__", Equal, "m1")],
            vec![matcher("a", Regex, "a[12]")],
            vec![matcher("__name__", Regex, "m.*"), matcher("a", NotEqual, "a1")],
            vec![matcher("b", Equal, ""), matcher("__name__", NotEqual, "m0")],
            vec![matcher("a", Equal, "nothing")],
        ];
        for (tenant, matchers) in [0, 1].into_iter().flat_map(|tenant| requested.iter().map(move |one| (tenant, one))) {
            rig.check(tenant, matchers, TimeRange::ALL, !was_deleted);
            // Names and values are those of whole blocks.
            rig.check(tenant, matchers, TimeRange::from_ms(ms(2), ms(5)), false);
        }
    }
}

/// A query over a million series was refused after every one of them had been gathered and sorted, ten seconds later;
/// its neighbours waited as long. Now series are counted where that is cheap, and what is too much is refused before
/// any of it is gathered.
#[test]
fn what_is_too_much_is_refused_before_it_is_gathered() {
    let mut rig = Rig::new();
    rig.put(0, &(0..20).collect(), 1);
    let tenant = tenant(0);
    let open = |rig: &Rig, series_max| {
        let counted = Mutex::new(Vec::new());
        let hear = |series| counted.lock().unwrap().push(series);
        let selection = Selection::new(Vec::new(), TimeRange::ALL);
        let opening = Opening { series_max, counted: &hear, ..Opening::UNBOUNDED };
        let found = rig.store.tenant(&tenant).open(&selection, &opening).map(|set| set.count());
        (found, counted.into_inner().unwrap())
    };
    let refused = |outcome: (Result<usize, SelectError>, Vec<usize>)| {
        assert!(matches!(outcome.0, Err(SelectError::TooManySeries { .. })), "{outcome:?}");
        outcome.1
    };
    assert_eq!(open(&rig, 20), (Ok(20), vec![20]), "in heads");
    assert_eq!(refused(open(&rig, 19)), []);
    rig.store.flush().unwrap();
    assert_eq!(open(&rig, 20), (Ok(20), vec![20]), "in a block");
    assert_eq!(refused(open(&rig, 19)), []);
    rig.put(0, &(20..40).collect(), 2);
    assert_eq!(open(&rig, 20), (Ok(20), vec![20, 20]), "of two kinds each, in both");
    assert_eq!(refused(open(&rig, 19)), [], "in both, and the block is looked at before the heads are gathered");
    rig.store.flush().unwrap();
    rig.store.settle();
    assert_eq!(open(&rig, 20).0, Ok(20), "of two kinds each, in blocks");
    assert!(refused(open(&rig, 19)).iter().all(|series| *series <= 20));
}
