//! The maintenance thread comes to rest: after any history, a bounded number of steps leaves nothing to do.

use std::collections::BTreeMap;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use ogive_model::{Kind, MatchOp, Matcher, Ms, Ns, SeriesDef, Temporality, Tenant, TimeRange, Value, WallMs};
use proptest::prelude::*;

use crate::time_tests::{EPOCH_MS, Rig, def, options};
use crate::{Keep, Options, Retention};

const SECOND_NS: i64 = 1_000_000_000;
/// "A day" of these tests: the shortest window of the rollup to a minute.
const DAY: i64 = 2880;

/// Steps of the maintenance thread so far.
fn taken(rig: &Rig) -> u64 {
    let status = rig.store().status();
    status.rollups + status.drops + status.compactions + status.erasures
}

/// Waits until the maintenance thread has nothing left to do, which takes it at most `steps_max` steps.
fn rest(rig: &Rig, steps_max: u64) {
    let before = taken(rig);
    let done = rig.store().settling();
    while done.recv_timeout(Duration::from_millis(5)) == Err(RecvTimeoutError::Timeout) {
        let more = taken(rig) - before;
        assert!(more <= steps_max, "{more} steps, and there is still something to do: {:?}", rig.store().status());
    }
}

fn keep(age: Option<u64>, ages: &[(u32, u64)], bytes: Option<u64>) -> Keep {
    let ages = ages.iter().map(|(resolution, age)| (*resolution, Duration::from_secs(*age))).collect();
    Keep { age: age.map(Duration::from_secs), ages, bytes, ..Keep::default() }
}

fn retention(default: Keep) -> Retention {
    Retention { default, ..Retention::default() }
}

fn gauge(second: i64) -> (SeriesDef, i64, Value) {
    (def("g", Kind::Float, Temporality::Gauge), second, Value::Float(second as f64))
}

/// A sample of two days ago and some of today, restarted with a retention of a third of a day. The minutes of today
/// waited for their hour, which is made when the day is over, and kept those of two days ago from being dropped; the
/// hour of these was dropped, was due again as long as its minutes were there, and was made and dropped 200 times a
/// second. Now what was dropped is not due, and what waits for its rollup holds back nothing that is older.
#[test]
fn what_retention_drops_is_not_made_again() {
    let mut rig = Rig::new(2 * DAY + 2000, options());
    rig.send(vec![gauge(100), gauge(2 * DAY + 10), gauge(2 * DAY + 1990)]);
    rig.flush();
    rest(&rig, 100);
    rig.options.retention = retention(keep(Some(960), &[], None));
    rig.restart(false);
    rest(&rig, 100);
    let held: Vec<i64> = rig.all().iter().flat_map(|data| data.floats.times.clone()).collect();
    assert_eq!(held.first().map(|time| (time - EPOCH_MS) / 1000), Some(2 * DAY + 1990), "{held:?}");
    let old: Vec<_> =
        rig.metas().into_iter().filter(|meta| meta.window.end() <= WallMs(EPOCH_MS + DAY * 1000)).collect();
    assert!(old.is_empty(), "{old:?}");
    let before = taken(&rig);
    rest(&rig, 0);
    assert_eq!(taken(&rig), before, "it is at rest");
    // When the day is over its hour holds the minutes, and they go too.
    rig.clock.advance(Ns(960 * SECOND_NS));
    rest(&rig, 100);
    rig.clock.advance(Ns(2 * DAY * SECOND_NS));
    rest(&rig, 100);
    assert_eq!(rig.metas(), []);
}

/// The wall clock jumps a month ahead, while the store is open and while it is not. Nothing goes by that alone.
#[test]
fn a_clock_that_jumps_drops_nothing_until_it_is_confirmed() {
    let mut rig = Rig::new(700, Options { retention: retention(keep(Some(960), &[], None)), ..options() });
    let month_ns = 30 * 86_400 * SECOND_NS;
    rig.send(vec![gauge(600)]);
    rig.flush();
    rest(&rig, 100);
    rig.clock.set(Ns(month_ns));
    rest(&rig, 100);
    rig.restart(false);
    rest(&rig, 100);
    let status = rig.store().status();
    assert_eq!((status.drops, status.drops_held, status.retention_lag), (0, true, Ms(30 * 86_400_000)));
    assert_eq!(rig.send(vec![gauge(601)]).accepted, 1, "what has the time of before is not beyond retention");
    let wall_ms = crate::Clock::wall(&*rig.clock).to_ms();
    [1, 2].into_iter().for_each(|source| rig.store().witness(source, wall_ms));
    rest(&rig, 100);
    let status = rig.store().status();
    assert_eq!((status.drops > 0, status.drops_held, status.retention_lag), (true, false, Ms::ZERO));
    rig.clock.set(Ns(month_ns));
    assert_eq!(rig.store().believe_clock(), Ms(30 * 86_400_000));
    assert_eq!(rig.store().status().retention_lag, Ms(0));
}

/// What happens to a store.
#[derive(Clone, Debug)]
enum Step {
    /// Samples so many seconds ago, of a gauge, a cell or a text.
    Send(Vec<(u8, i64)>),
    Flush,
    /// Samples of so many seconds ago and before are deleted.
    Delete(i64, i64),
    /// Time passes.
    Pass(u64),
    /// The wall clock is set.
    Set(i64),
    /// It is opened again, with these.
    Restart(bool, Keep, Vec<u32>),
    Rest,
}

fn any_keep() -> impl Strategy<Value = Keep> {
    let age = || prop_oneof![Just(300_u64), 60..20_000_u64];
    let of = |resolution: u32| proptest::option::of(age().prop_map(move |age| (resolution, age)));
    let bytes = prop_oneof![3 => Just(None), 1 => (500..20_000_u64).prop_map(Some)];
    (proptest::option::of(age()), of(0), of(10_000), of(60_000), bytes).prop_map(|(age, raw, tens, minutes, bytes)| {
        let ages: BTreeMap<u32, u64> = [raw, tens, minutes].into_iter().flatten().collect();
        keep(age, &ages.into_iter().collect::<Vec<_>>(), bytes)
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    let ago = || prop_oneof![0..600_i64, 0..12_000_i64];
    let widths = prop_oneof![
        3 => Just(vec![10_000, 60_000]),
        1 => Just(vec![]),
        1 => Just(vec![10_000]),
        1 => Just(vec![60_000]),
    ];
    prop_oneof![
        6 => proptest::collection::vec((0..3_u8, ago()), 1..6).prop_map(Step::Send),
        3 => Just(Step::Flush),
        1 => (ago(), 1..3000_i64).prop_map(|(from, length)| Step::Delete(from, length)),
        3 => (1..4000_u64).prop_map(Step::Pass),
        1 => (-4000..4000_i64).prop_map(Step::Set),
        3 => (any::<bool>(), any_keep(), widths).prop_map(|(cut, keep, widths)| Step::Restart(cut, keep, widths)),
        2 => Just(Step::Rest),
    ]
}

/// A window that is rolled up has 48 parts at most, of which each may be a step, for each of three resolutions; a
/// history has few windows.
const STEPS_MAX: u64 = 3000;

fn run(steps: Vec<Step>) {
    let mut rig = Rig::new(4 * DAY + 700, Options { retention: retention(Keep::default()), ..options() });
    let now = |rig: &Rig| (crate::Clock::wall(&*rig.clock).to_ms().0 - EPOCH_MS) / 1000;
    for step in steps {
        match step {
            Step::Send(samples) => {
                let now = now(&rig);
                let sample = |(kind, ago): (u8, i64)| {
                    let second = now - ago;
                    match kind {
                        0 => gauge(second),
                        1 => (def("c", Kind::Float, Temporality::Delta), second, Value::Float(1.0)),
                        _ => (def("t", Kind::Text, Temporality::Gauge), second, Value::Text(format!("at {second}"))),
                    }
                };
                rig.send(samples.into_iter().map(sample).collect());
            }
            Step::Flush => rig.flush(),
            Step::Delete(from, length) => {
                let end_ms = EPOCH_MS + (now(&rig) - from) * 1000;
                let range = TimeRange::from_ms(end_ms - length * 1000, end_ms);
                let any = Matcher::new("__name__", MatchOp::NotEqual, "t").unwrap();
                rig.store().delete(&Tenant::default(), &[vec![any]], range).unwrap();
            }
            Step::Pass(seconds) => rig.clock.advance(Ns(seconds as i64 * SECOND_NS)),
            Step::Set(seconds) => rig.clock.set(Ns(seconds * SECOND_NS)),
            Step::Restart(cut, keep, widths) => {
                (rig.options.retention, rig.options.rollups) = (retention(keep), widths);
                rig.restart(cut);
            }
            Step::Rest => rest(&rig, STEPS_MAX),
        }
    }
    rig.flush();
    rest(&rig, STEPS_MAX);
    let before = taken(&rig);
    rest(&rig, 0);
    assert_eq!(taken(&rig), before, "it is at rest");
    let status = rig.store().status();
    assert_eq!((status.rollup_failures, status.drop_failures, status.compaction_failures), (0, 0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn the_keeper_comes_to_rest_after_any_history(steps in proptest::collection::vec(any_step(), 1..25)) {
        run(steps);
    }
}
