//! Time and space: whatever the order of arrival, and whatever is flushed, compacted, rolled up, dropped, deleted and
//! restarted in between, the answer equals that of a simple model.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use ogive_hist::{Histogram, Scheme};
use ogive_journal::{Disk, Faults, SimulatedDisk};
use ogive_model::{
    Batch, HistogramValue, Kind, Labels, MatchOp, Matcher, Ms, Ns, Opening, Reason, Resolution, RollupUse, Sample,
    Select, Selection, SeriesData, SeriesDef, SeriesMeta, SourceId, Temporality, Tenant, TimeRange, Value, Verdict,
    WallMs, WallNs,
};
use proptest::prelude::*;

use crate::testing::{bits, empty, select_both_ways};
use crate::{Keep, ManualClock, Options, Retention, Store, merge};

/// An instant at which a window of every length begins.
pub(crate) const EPOCH_MS: i64 = 192 * 100_000 * 60_000;
const SECOND: i64 = 1_000_000_000;

/// Windows of a minute, rolled up to 10 s and to a minute.
pub(crate) fn options() -> Options {
    Options {
        group_interval: Duration::ZERO,
        flush_interval: Duration::from_secs(3600),
        window: Ms(60_000),
        lateness: Duration::ZERO,
        compact_blocks: 3,
        rollups: vec![10_000, 60_000],
        float_cell_cost: 0,
        journal_mark: Some(7),
        ..Options::default()
    }
}

pub(crate) struct Rig {
    disk: SimulatedDisk,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) options: Options,
    store: Option<Store>,
    sequence: u64,
}

impl Rig {
    /// A store whose clock stands `second` seconds behind the epoch of these tests.
    pub(crate) fn new(second: i64, options: Options) -> Self {
        let clock = Arc::new(ManualClock::new(WallNs((EPOCH_MS + second * 1000) * 1_000_000)));
        let mut rig = Self { disk: SimulatedDisk::new(1), clock, options, store: None, sequence: 0 };
        rig.restart(false);
        rig
    }

    pub(crate) fn store(&self) -> &Store {
        self.store.as_ref().expect("the store is open")
    }

    pub(crate) fn restart(&mut self, cut: bool) {
        if cut {
            self.disk.cut_power();
        }
        self.store = None;
        self.disk.restart();
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let clock: Arc<dyn crate::Clock> = self.clock.clone();
        self.store = Some(Store::open(disk, Path::new("data"), self.options.clone(), clock).unwrap());
    }

    pub(crate) fn send(&mut self, samples: Vec<(SeriesDef, i64, Value)>) -> Verdict {
        self.send_started(samples.into_iter().map(|(def, second, value)| (def, None, second, value)).collect())
    }

    /// Samples with the second of their start and that of their time.
    pub(crate) fn send_started(&mut self, samples: Vec<(SeriesDef, Option<i64>, i64, Value)>) -> Verdict {
        let mut batch = Batch {
            source: SourceId(1),
            sequence: self.sequence,
            tenant: Tenant::default(),
            series: Vec::new(),
            samples: Vec::new(),
            ..Batch::default()
        };
        self.sequence += 1;
        for (def, start, second, value) in samples {
            let [time_ns, start_ns] = [second, start.unwrap_or(0)].map(|second| EPOCH_MS * 1_000_000 + second * SECOND);
            let start_ns = start.map(|_| start_ns);
            batch.samples.push(Ok(Sample { series: batch.series.len() as u32, time_ns, start_ns, value }));
            batch.series.push(Ok(def));
        }
        let (reply, answer) = mpsc::channel();
        self.store().submit(batch, Box::new(move |result| reply.send(result).unwrap_or(()))).unwrap();
        answer.recv_timeout(Duration::from_secs(120)).expect("a reply comes").expect("it is taken")
    }

    pub(crate) fn flush(&self) {
        self.store().flush().unwrap();
    }

    pub(crate) fn settle(&self) {
        self.store().settle();
    }

    pub(crate) fn read(&self, range: TimeRange, resolution: Resolution) -> Vec<SeriesData> {
        let selection = Selection { resolution, ..Selection::new(Vec::new(), range) };
        select_both_ways(self.store(), &selection).series
    }

    pub(crate) fn all(&self) -> Vec<SeriesData> {
        self.read(TimeRange::ALL, Resolution::Finest)
    }

    fn blocks(&self, resolution_ms: u32) -> usize {
        self.metas().iter().filter(|meta| meta.resolution_ms == resolution_ms).count()
    }

    pub(crate) fn metas(&self) -> Vec<crate::BlockMeta> {
        crate::Manifest::decode(&self.disk.read(Path::new("data/MANIFEST")).unwrap(), Path::new("m")).unwrap().blocks
    }

    /// Whether any file of the store holds `needle`.
    fn holds(&self, needle: &[u8]) -> bool {
        let mut files = self.disk.list(Path::new("data")).unwrap();
        files.extend(self.disk.list(Path::new("data/journal")).unwrap());
        files
            .iter()
            .filter_map(|path| self.disk.read(path).ok())
            .any(|bytes| bytes.windows(needle.len()).any(|window| window == needle))
    }
}

pub(crate) fn def(name: &str, kind: Kind, temporality: Temporality) -> SeriesDef {
    let labels = Labels::new([("__name__", name)]).unwrap();
    let width_ms = if temporality == Temporality::Delta { 1000 } else { 0 };
    SeriesDef { labels, meta: SeriesMeta { kind, temporality, unit: "s".into(), width_ms } }
}

fn gauge(name: &str) -> SeriesDef {
    def(name, Kind::Float, Temporality::Gauge)
}

pub(crate) fn cell(values: &[f64], scheme: Scheme) -> Histogram<u64> {
    let mut histogram = Histogram::new(scheme);
    values.iter().for_each(|value| histogram.record(*value));
    histogram
}

pub(crate) fn within(start: i64, end: i64) -> TimeRange {
    TimeRange::from_ms(EPOCH_MS + start * 1000, EPOCH_MS + end * 1000)
}

/// A sample of one of the series of these tests. Values are eighths, so that sums are exact in any order.
fn any_sample() -> impl Strategy<Value = (SeriesDef, i64, Value)> {
    let eighth = (0..800_i32).prop_map(|value| f64::from(value) / 8.0);
    let odd = prop_oneof![Just(f64::NAN), Just(f64::from_bits(ogive_model::STALE)), Just(-0.0)];
    let float = prop_oneof![8 => eighth.clone(), 1 => odd];
    let delta = eighth.clone().prop_map(|value| (def("delta", Kind::Float, Temporality::Delta), Value::Float(value)));
    let gauge = float.clone().prop_map(|value| (gauge("gauge"), Value::Float(value)));
    let counter = float.prop_map(|value| (def("counter", Kind::Float, Temporality::Cumulative), Value::Float(value)));
    let text = "[ab]{0,2}".prop_map(|text| (def("text", Kind::Text, Temporality::Gauge), Value::Text(text)));
    let histogram = (proptest::collection::vec(eighth, 1..4), any::<bool>()).prop_map(|(values, delta)| {
        let (name, temporality) =
            if delta { ("cells", Temporality::Delta) } else { ("native", Temporality::Cumulative) };
        (def(name, Kind::Histogram, temporality), Value::Histogram(Box::new(cell(&values, Scheme::LogLinear10))))
    });
    // Most meet others at their time; some are of another window, a few of another day.
    let second = prop_oneof![6 => 1..40_i64, 3 => 1..400_i64, 1 => 1..20_000_i64];
    (prop_oneof![delta, gauge, counter, text, histogram], second).prop_map(|((def, value), at)| (def, at, value))
}

/// The samples, one after the other, by the rules of two values at one time.
fn model(samples: &[(SeriesDef, i64, Value)]) -> Vec<SeriesData> {
    let mut all: BTreeMap<(Labels, Kind), SeriesData> = BTreeMap::new();
    for (def, second, value) in samples {
        let mut data = empty(def.labels.clone(), def.meta.kind, def.meta.temporality);
        data.meta = def.meta.clone();
        let time = EPOCH_MS + second * 1000;
        match value.clone() {
            Value::Float(value) => (data.floats.times, data.floats.values) = (vec![time], vec![value]),
            Value::Histogram(value) => {
                (data.histograms.times, data.histograms.values) = (vec![time], vec![HistogramValue::Integer(*value)]);
            }
            Value::Text(value) => (data.texts.times, data.texts.values) = (vec![time], vec![value]),
            Value::FloatHistogram(_) => unreachable!("no sample is one"),
        }
        match all.get_mut(&(def.labels.clone(), def.meta.kind)) {
            Some(there) => assert_eq!(merge::add(there, data), merge::Clash::default()),
            None => {
                all.insert((def.labels.clone(), def.meta.kind), data);
            }
        }
    }
    all.into_values().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// The same samples in two orders, with other batches, flushes, compactions and restarts in between.
    #[test]
    fn the_order_of_arrival_does_not_matter(
        samples in proptest::collection::vec(any_sample(), 1..80).prop_flat_map(|samples| {
            let shuffled = Just(samples.clone()).prop_shuffle();
            (Just(samples), shuffled)
        }),
        events in proptest::collection::vec((0..80_usize, 0..6_u8), 0..12),
        size in 1..9_usize,
    ) {
        let (first, second) = samples;
        let expected = bits(&model(&first));
        for (order, size) in [(first, size), (second, 10 - size)] {
            let mut rig = Rig::new(20_000, options());
            for (at, batch) in order.chunks(size).enumerate() {
                prop_assert_eq!(rig.send(batch.to_vec()).rejected, vec![]);
                for (_, event) in events.iter().filter(|(when, _)| *when == at) {
                    match event {
                        0 | 1 => rig.flush(),
                        2 => rig.settle(),
                        3 => rig.restart(false),
                        4 => rig.restart(true),
                        _ => prop_assert_eq!(rig.all().len(), model(&order[..((at + 1) * size).min(order.len())]).len()),
                    }
                }
            }
            prop_assert_eq!(bits(&rig.all()), expected.clone());
            rig.flush();
            rig.settle();
            prop_assert_eq!(bits(&rig.all()), expected.clone());
            rig.restart(true);
            prop_assert_eq!(bits(&rig.all()), expected.clone());
        }
    }

    /// Over any aligned range, what rollups give together is what the samples themselves give.
    #[test]
    fn rollups_come_to_what_the_samples_come_to(
        samples in proptest::collection::vec(any_sample(), 1..120),
        late in proptest::collection::vec(any_sample(), 0..10),
        (from, length) in (0..4_i64, 1..40_i64),
        width in prop_oneof![Just(10_000_u32), Just(60_000)],
    ) {
        let mut rig = Rig::new(400_000, options());
        for batch in samples.chunks(30) {
            rig.send(batch.to_vec());
            rig.flush();
        }
        // What was made again between the flushes rests; what is being made now would rest from the later time on.
        rig.settle();
        rig.clock.advance(Ns(3600 * SECOND));
        rig.settle();
        prop_assert!(samples.iter().all(|(def, ..)| def.meta.kind == Kind::Text) || rig.blocks(width) > 0);
        // What comes late makes them again; before that they are not used.
        for settled in [false, true] {
            if settled {
                rig.send(late.clone());
                rig.flush();
                rig.settle();
            } else {
                rig.send(late.clone());
            }
            let step = i64::from(width) / 1000;
            let range = within(from * step, (from + length) * step);
            let plain = rig.read(range, Resolution::Finest);
            let aligned = |use_as| Resolution::Aligned { step: Ms(i64::from(width)), use_as };
            let rolled = rig.read(range, aligned(RollupUse::Together));
            prop_assert_eq!(sums(&rolled), sums(&plain));
            let last = rig.read(range, aligned(RollupUse::Last));
            prop_assert_eq!(lasts(&last, i64::from(width)), lasts(&plain, i64::from(width)));
            if settled {
                break;
            }
            rig.restart(true);
        }
    }
}

/// What all samples of each series come to.
pub(crate) fn sums(all: &[SeriesData]) -> Vec<String> {
    let one = |data: &SeriesData| {
        let mut column = data.floats.clone();
        merge::fill_aggregates(&mut column);
        let count: u64 = column.aggregates.iter().map(|one| one.count).sum();
        let known = || column.aggregates.iter().filter(|one| one.count > 0);
        let sum: f64 = known().map(|one| one.sum).sum();
        let least = known().map(|one| one.min).fold(f64::INFINITY, f64::min);
        let greatest = known().map(|one| one.max).fold(f64::NEG_INFINITY, f64::max);
        let first = known().next().map(|one| (one.first.to_bits(), one.first_time));
        let mut whole: Option<HistogramValue> = None;
        if data.meta.temporality == Temporality::Delta {
            for value in &data.histograms.values {
                match &mut whole {
                    Some(whole) => assert!(crate::order::merge_cell(whole, value.clone())),
                    None => whole = Some(value.clone()),
                }
            }
        }
        let texts = &data.texts;
        let native = if data.meta.temporality == Temporality::Delta { 0 } else { data.histograms.times.len() };
        format!("{} {count} {sum:?} {least:?} {greatest:?} {first:?} {whole:?} {native} {texts:?}", data.labels)
    };
    all.iter().map(one).collect()
}

/// The last sample of each cell of each series that is not of cells itself.
fn lasts(all: &[SeriesData], width: i64) -> Vec<String> {
    let one = |data: &SeriesData| {
        let mut last: BTreeMap<i64, String> = BTreeMap::new();
        let end = |time: i64| (time + width - 1).div_euclid(width);
        for (time, value) in data.floats.times.iter().zip(&data.floats.values) {
            last.insert(end(*time), format!("{time} {:x}", value.to_bits()));
        }
        for (time, value) in data.histograms.times.iter().zip(&data.histograms.values) {
            last.insert(end(*time), format!("{time} {value:?}"));
        }
        format!("{} {last:?}", data.labels)
    };
    all.iter().map(one).collect()
}

#[test]
fn late_data_of_any_age_lands_in_blocks_of_its_own_window_and_few_blocks_stay() {
    let mut rig = Rig::new(100_000, options());
    for second in [99_000, 5, 50_000, 61, 99_030, 7] {
        rig.send(vec![(gauge("g"), second, Value::Float(second as f64))]);
        let made = rig.store().flush().unwrap();
        assert_eq!(made.len(), 1);
        assert!(made[0].window.range().contains(WallMs(EPOCH_MS + second * 1000)));
    }
    rig.settle();
    let raw: Vec<_> = rig.metas().into_iter().filter(|meta| meta.resolution_ms == 0).collect();
    for meta in &raw {
        assert!(meta.window.range().contains(meta.time_min) && meta.window.range().contains(meta.time_max), "{meta:?}");
    }
    // 5 and 7 are together; 61 may stay apart, since its block is smaller.
    assert!(raw.len() <= 4, "{raw:?}");
    assert_eq!(rig.all()[0].floats.values, [5.0, 7.0, 61.0, 50_000.0, 99_000.0, 99_030.0]);
}

fn keep(age: Option<u64>, ages: &[(u32, u64)], bytes: Option<u64>) -> Retention {
    let ages = ages.iter().map(|(resolution, age)| (*resolution, Duration::from_secs(*age))).collect();
    let default = Keep { age: age.map(Duration::from_secs), ages, bytes, ..Keep::default() };
    Retention { default, ..Retention::default() }
}

#[test]
fn what_is_too_old_goes_is_refused_and_stays_gone() {
    let mut rig = Rig::new(
        600,
        Options { retention: keep(Some(300), &[], None), rollups: vec![], compact_blocks: 0, ..options() },
    );
    let at = |second: i64| vec![(gauge("g"), second, Value::Float(second as f64))];
    assert_eq!(rig.send(at(300)).rejected, [(0, Reason::BeyondRetention)]);
    for second in [301, 400, 599] {
        assert_eq!(rig.send(at(second)).accepted, 1);
    }
    rig.flush();
    rig.settle();
    assert_eq!(rig.all()[0].floats.values, [301.0, 400.0, 599.0]);
    // The window of 301 ends at 360; that of 400 at 420.
    rig.clock.advance(Ns(60 * SECOND));
    rig.settle();
    assert_eq!(rig.all()[0].floats.values, [400.0, 599.0]);
    let status = rig.store().status();
    assert_eq!((status.dropped_blocks, status.horizons[0].until), (1, WallMs(EPOCH_MS + 360_000)));
    assert_eq!((status.drops > 0, status.drop_failures), (true, 0));
    assert!(status.dropped_bytes > 0);
    rig.restart(true);
    assert_eq!(rig.send(at(360)).rejected, [(0, Reason::BeyondRetention)]);
    assert_eq!(rig.all()[0].floats.values, [400.0, 599.0]);
}

/// Second-fine numbers were kept for two hours, and with them went logs, the records of gaps and the audit. Texts now
/// go in a time of their own: logs when all data or they are named, gaps and audit only when they are named.
#[test]
fn texts_stay_for_a_time_of_their_own() {
    let mut rig = Rig::new(600, Options { retention: keep(None, &[(0, 300)], None), ..options() });
    let text = |name: &str| def(name, Kind::Text, Temporality::Gauge);
    let names = ["log", "ogive_config_change", "ogive_gap"];
    let write = |rig: &mut Rig, second: i64| {
        let texts = names.map(|name| (text(name), second, Value::Text(format!("{name} at {second}"))));
        let number = (gauge("number"), second, Value::Float(second as f64));
        rig.send(texts.into_iter().chain([number]).collect()).rejected
    };
    for second in [310, 330, 590] {
        assert_eq!(write(&mut rig, second), []);
        rig.flush();
    }
    rig.clock.advance(Ns(120 * SECOND));
    rig.settle();
    let held = |rig: &Rig| {
        let of = |data: SeriesData| {
            let times = [data.floats.times, data.texts.times].concat();
            let seconds: Vec<i64> = times.iter().map(|time| (time - EPOCH_MS) / 1000).collect();
            (data.labels.metric_name().to_owned(), seconds)
        };
        // Cells of ten seconds stand for the numbers that are gone.
        rig.all().into_iter().map(of).collect::<Vec<_>>()
    };
    let all = vec![310, 330, 590];
    let expected = |texts: &[(&str, &Vec<i64>)]| {
        let texts = texts.iter().map(|(name, seconds)| ((*name).to_owned(), (*seconds).clone()));
        texts.filter(|(_, seconds)| !seconds.is_empty()).collect::<Vec<_>>()
    };
    let texts = |rig: &Rig| held(rig).into_iter().filter(|(name, _)| name != "number").collect::<Vec<_>>();
    assert_eq!(texts(&rig), expected(&[("log", &all), ("ogive_config_change", &all), ("ogive_gap", &all)]));
    let raw = rig.read(TimeRange::ALL, Resolution::Width(0));
    assert_eq!(raw.iter().find(|data| data.meta.kind == Kind::Float).unwrap().floats.values, [590.0]);
    let until = TimeRange::from_ms(EPOCH_MS, EPOCH_MS + 340_000);
    assert_eq!(rig.store().label_sets(&[], until, 9, &Opening::UNBOUNDED).unwrap().len(), 4);
    // Late texts are taken where late numbers are not.
    assert_eq!(write(&mut rig, 331), [(3, Reason::BeyondRetention)]);
    rig.flush();
    rig.settle();
    let late = vec![310, 330, 331, 590];
    assert_eq!(texts(&rig), expected(&[("log", &late), ("ogive_config_change", &late), ("ogive_gap", &late)]));
    // All data, so logs too, and gaps by name.
    rig.options.retention = keep(Some(300), &[], None);
    rig.options.retention.default.texts.insert(crate::Class::Gaps, Duration::from_secs(400));
    rig.restart(true);
    rig.clock.advance(Ns(100 * SECOND));
    rig.settle();
    assert_eq!(
        texts(&rig),
        expected(&[("log", &vec![590]), ("ogive_config_change", &late), ("ogive_gap", &vec![590])])
    );
    let drops = rig.store().status().drops;
    rig.settle();
    assert_eq!((rig.store().status().drops, rig.store().status().drop_failures), (drops, 0), "it is at rest");
    rig.options.retention = keep(Some(1), &[], None);
    rig.options
        .retention
        .default
        .texts
        .extend([(crate::Class::Gaps, Duration::from_secs(1)), (crate::Class::Audit, Duration::from_secs(1))]);
    rig.restart(true);
    rig.clock.advance(Ns(100 * SECOND));
    rig.settle();
    assert_eq!(rig.metas(), []);
}

#[test]
fn what_is_too_much_goes_from_the_earliest_window_on() {
    let mut rig = Rig::new(6000, Options { rollups: vec![], ..options() });
    let fill = |rig: &mut Rig| {
        for minute in 0..10 {
            let text = (0..500).map(|n| format!("{}", (n * 7919 + minute * 31) % 10_007)).collect::<String>();
            rig.send(vec![(def("t", Kind::Text, Temporality::Gauge), minute * 720 + 1, Value::Text(text))]);
            rig.flush();
        }
    };
    fill(&mut rig);
    rig.settle();
    let bytes = rig.store().status().block_bytes;
    rig.options.retention = keep(None, &[], Some(bytes / 2));
    rig.restart(false);
    rig.settle();
    let left = rig.store().status().block_bytes;
    assert!(left <= bytes / 2 && left > bytes / 4, "{left} of {bytes}");
    let times = rig.all()[0].texts.times.clone();
    assert_eq!(*times.last().unwrap(), EPOCH_MS + (9 * 720 + 1) * 1000);
    assert!(times[0] > EPOCH_MS + 4 * 720_000);
    let old = vec![(gauge("g"), 1, Value::Float(1.0))];
    assert_eq!(rig.send(old).rejected, [(0, Reason::BeyondRetention)]);
}

#[test]
fn rollups_stay_when_what_they_were_made_of_is_gone() {
    let ages = [(0, 3_600), (10_000, 100_000)];
    let mut rig = Rig::new(40, Options { retention: keep(None, &ages, None), ..options() });
    let cells = || def("cells", Kind::Histogram, Temporality::Delta);
    for second in 1..=40_i64 {
        let value = cell(&[second as f64], Scheme::LogLinear10);
        rig.send(vec![
            (cells(), second, Value::Histogram(Box::new(value))),
            (gauge("g"), second, Value::Float(second as f64)),
        ]);
    }
    rig.flush();
    rig.clock.advance(Ns(20_000 * SECOND));
    rig.settle();
    assert_eq!(rig.blocks(0), 0, "raw samples are gone");
    let found = rig.all();
    assert_eq!(found[0].histograms.times, (1..=4).map(|n| EPOCH_MS + n * 10_000).collect::<Vec<_>>());
    assert_eq!((found[0].rollup_ms, found[0].meta.width_ms), (10_000, 10_000));
    assert_eq!(found[1].floats.values, [10.0, 20.0, 30.0, 40.0]);
    assert_eq!(found[1].floats.aggregates[1].sum, (11..=20).sum::<i64>() as f64);
    assert!(rig.read(TimeRange::ALL, Resolution::Width(0)).is_empty());
    assert_eq!(rig.read(TimeRange::ALL, Resolution::Width(60_000))[0].histograms.times, [EPOCH_MS + 60_000]);
    rig.restart(true);
    rig.clock.advance(Ns(100_000 * SECOND));
    rig.settle();
    assert_eq!(rig.all()[0].histograms.times, [EPOCH_MS + 60_000], "the coarsest is left");
}

#[test]
fn samples_wait_for_a_rollup_that_a_bad_disk_delayed() {
    let ages = [(0, 3_600), (10_000, 100_000)];
    let mut rig = Rig::new(40, Options { retention: keep(None, &ages, None), ..options() });
    for second in 1..=40_i64 {
        rig.send(vec![(gauge("g"), second, Value::Float(second as f64))]);
    }
    rig.flush();
    rig.disk.set_faults(Faults { name_error: 1000, ..Faults::default() });
    rig.clock.advance(Ns(20_000 * SECOND));
    rig.settle();
    assert!(rig.store().status().rollup_failures > 0);
    rig.disk.set_faults(Faults::default());
    rig.settle();
    assert!(rig.blocks(0) > 0 && rig.blocks(10_000) == 0, "nothing goes before its rollup is there");
    rig.clock.advance(Ns(600 * SECOND));
    rig.settle();
    assert_eq!((rig.blocks(0), rig.store().status().rollup_failures > 0), (0, true));
    assert_eq!(rig.all()[0].floats.values, [10.0, 20.0, 30.0, 40.0]);
}

#[test]
fn a_rollup_is_left_out_where_its_cells_would_take_longer_to_read_than_the_samples() {
    for (step, resolution_ms) in [(1, 10_000), (10, 0)] {
        let mut rig = Rig::new(1000, Options { float_cell_cost: 8, ..options() });
        for second in (step..=60).step_by(step as usize) {
            rig.send(vec![(gauge("g"), second, Value::Float(second as f64))]);
        }
        rig.flush();
        rig.settle();
        for use_as in [RollupUse::Together, RollupUse::Numbers, RollupUse::Last] {
            let read = rig.read(within(0, 60), Resolution::Aligned { step: Ms(60_000), use_as });
            assert_eq!(read[0].rollup_ms, resolution_ms, "{use_as:?}, a sample each {step} s");
        }
        let width = rig.read(within(0, 60), Resolution::Width(10_000));
        assert_eq!((width[0].rollup_ms, width[0].floats.times.len()), (10_000, 6), "who names a width gets it");
    }
}

#[test]
fn a_rollup_is_not_used_for_a_window_of_which_a_head_holds_samples() {
    let mut rig = Rig::new(1000, options());
    for second in 1..=9 {
        rig.send(vec![(gauge("g"), second, Value::Float(second as f64))]);
    }
    rig.flush();
    rig.settle();
    let sum = |rig: &Rig| {
        let rolled = rig.read(within(0, 60), Resolution::Aligned { step: Ms(60_000), use_as: RollupUse::Together });
        let mut column = rolled[0].floats.clone();
        merge::fill_aggregates(&mut column);
        let sum: f64 = column.aggregates.iter().map(|one| one.sum).sum();
        (column.aggregates.iter().map(|one| one.count).sum::<u64>(), sum, rolled[0].rollup_ms)
    };
    assert_eq!(sum(&rig), (9, 45.0, 10_000));
    // The greater value takes the place of 5: a rollup that had counted 5 cannot take it back.
    rig.send(vec![(gauge("g"), 5, Value::Float(100.0))]);
    assert_eq!(sum(&rig), (9, 140.0, 0));
    rig.flush();
    rig.settle();
    assert_eq!(sum(&rig), (9, 140.0, 10_000));
}

#[test]
fn a_deletion_holds_at_once_and_later_data_stays() {
    let mut rig = Rig::new(1000, options());
    let secret =
        || vec![(def("secret", Kind::Text, Temporality::Gauge), 5, Value::Text("the-password-of-anna".into()))];
    let at = |second: i64, value: f64| vec![(gauge("g"), second, Value::Float(value))];
    for second in [5, 6, 70, 80] {
        rig.send(at(second, second as f64));
    }
    rig.send(secret());
    rig.flush();
    rig.settle();
    rig.send(at(7, 7.0));
    assert!(rig.holds(b"the-password-of-anna"));
    let matching = |pattern: &str| vec![vec![Matcher::new("__name__", MatchOp::Regex, pattern).unwrap()]];
    let delete =
        |rig: &Rig, pattern: &str, range| rig.store().delete(&Tenant::default(), &matching(pattern), range).unwrap();
    delete(&rig, "g|secret", within(5, 70));
    let values = |rig: &Rig| rig.all().iter().map(|data| data.floats.values.clone()).collect::<Vec<_>>();
    let left = |rig: &Rig| (rig.all().len(), values(rig)[0].clone());
    // 5 is before the range, which is open at its start.
    assert_eq!((left(&rig), rig.all()[0].floats.times.len()), ((2, vec![5.0, 80.0]), 2));
    delete(&rig, "secret", within(4, 5));
    assert_eq!(left(&rig), (1, vec![5.0, 80.0]));
    let selection =
        Selection { samples_max: 9, labels_only: true, ..Selection::new(matching("secret").remove(0), TimeRange::ALL) };
    assert_eq!(rig.store().select(&selection).unwrap(), []);
    // What arrives after the deletion is not meant.
    rig.send(at(6, 60.0));
    rig.settle();
    assert!(!rig.holds(b"the-password-of-anna"), "neither a block nor the journal holds it");
    assert_eq!(left(&rig), (1, vec![5.0, 60.0, 80.0]));
    rig.restart(true);
    assert_eq!(left(&rig), (1, vec![5.0, 60.0, 80.0]));
    rig.flush();
    rig.settle();
    assert_eq!(left(&rig), (1, vec![5.0, 60.0, 80.0]));
    assert_eq!((rig.store().status().tombstones, rig.store().status().erasure_failures), (0, 0));
    assert!(!rig.holds(b"the-password-of-anna") && !rig.holds(b"secret"), "nothing of it is left on the disk");
    // The rollups were made again, for the sample that came behind the deletion too, once they had rested.
    rig.clock.advance(Ns(3600 * SECOND));
    rig.settle();
    let rolled = rig.read(within(0, 60), Resolution::Aligned { step: Ms(60_000), use_as: RollupUse::Together });
    assert_eq!((rolled[0].floats.aggregates[0].count, rolled[0].floats.aggregates[0].sum), (2, 65.0));
}

/// Late data in every flush read all samples of its window again each time. Now a rollup is made again at once and then
/// rests; and while one of ten seconds rests, the one of a minute that is made of it does not pass for whole, nor does
/// one that compaction makes of its neighbours.
#[test]
fn late_data_of_many_flushes_makes_a_rollup_again_once_an_hour() {
    let mut rig = Rig::new(40_000, options());
    for second in (0..3000).step_by(7) {
        rig.send(vec![(gauge("g"), second, Value::Float(1.0))]);
    }
    rig.flush();
    rig.settle();
    let check = |rig: &Rig, expected: u64| {
        let range = within(0, 2880);
        for step_ms in [10_000, 60_000] {
            let rolled = rig.read(range, Resolution::Aligned { step: Ms(step_ms), use_as: RollupUse::Together });
            assert_eq!(sums(&rolled), sums(&rig.read(range, Resolution::Finest)), "{expected}");
        }
        assert_eq!(rig.read(range, Resolution::Finest)[0].floats.times.len() as u64, expected);
    };
    let made = |rig: &Rig| rig.store().status().rollups;
    let before = made(&rig);
    check(&rig, 411);
    for late in 1..=20 {
        rig.send(vec![(gauge("g"), late * 7 + 1, Value::Float(2.0))]);
        rig.flush();
        rig.settle();
        check(&rig, 411 + late as u64);
    }
    assert_eq!(made(&rig) - before, 2, "one of each resolution");
    rig.clock.advance(Ns(3600 * SECOND));
    rig.settle();
    assert_eq!(made(&rig) - before, 4);
    check(&rig, 431);
}

/// The power goes at each change of the disk in turn, while blocks are compacted, rolled up, dropped and cleaned: what
/// was acknowledged and not deleted or too old is there once, whatever step was cut.
#[test]
fn the_power_may_go_at_each_step_of_the_keeper() {
    let deleted = [vec![Matcher::new("__name__", MatchOp::Equal, "gone").unwrap()]];
    for cut in 1..400_u64 {
        let ages = [(0, 20_000)];
        let mut rig = Rig::new(0, Options { retention: keep(None, &ages, None), compact_blocks: 2, ..options() });
        for second in [1, 2, 65, 70, 15_000, 15_001] {
            let value = cell(&[second as f64], Scheme::LogLinear10);
            rig.send(vec![
                (def("cells", Kind::Histogram, Temporality::Delta), second, Value::Histogram(Box::new(value))),
                (gauge("gone"), second, Value::Float(1.0)),
            ]);
            rig.flush();
        }
        rig.store().delete(&Tenant::default(), &deleted, TimeRange::ALL).unwrap();
        rig.disk.cut_power_after(cut);
        rig.clock.advance(Ns(25_000 * SECOND));
        rig.settle();
        let powered = rig.disk.is_powered();
        rig.restart(true);
        for _ in 0..2 {
            let found = rig.all();
            assert_eq!(found.len(), 1, "cut at {cut}");
            let HistogramValue::Integer(whole) = found[0]
                .histograms
                .values
                .iter()
                .cloned()
                .reduce(|mut whole, value| {
                    assert!(crate::order::merge_cell(&mut whole, value));
                    whole
                })
                .unwrap()
            else {
                panic!("integer counts")
            };
            assert_eq!((whole.count, whole.sum), (6, Some(30_139.0)), "cut at {cut}");
            rig.settle();
        }
        let status = rig.store().status();
        assert_eq!((status.tombstones, status.block_failures.len()), (0, 0), "cut at {cut}");
        if powered {
            assert!(cut > 20, "{cut} changes are too few");
            return;
        }
    }
    panic!("the maintenance thread never ended");
}

/// A tenant with one block a day has nothing to compact: its texts stayed as the flush had packed them.
#[test]
fn texts_of_a_block_that_stays_alone_are_packed_harder_once_its_day_is_over() {
    let mut rig = Rig::new(0, Options { rollups: Vec::new(), ..options() });
    let log = def("log", Kind::Text, Temporality::Gauge);
    let line = |at: i64| Value::Text(format!("worker {} took {} ms for /orders/{}", at % 7, at * 31 % 97, at * 7919));
    rig.send((1..50).map(|at| (log.clone(), at, line(at))).collect());
    rig.flush();
    let right = bits(&rig.all());
    let state = |rig: &Rig| {
        let metas = rig.metas();
        assert_eq!(metas.len(), 1);
        let path = crate::Manifest::block_path(Path::new("data"), metas[0].id);
        (metas[0].id, crate::Block::open(&rig.disk, &path).unwrap().quick_text_bytes() > 0)
    };
    let first = state(&rig);
    assert!(first.1);
    for (seconds, packed) in [(61, false), (650, false), (10, true), (10, true), (20_000, true)] {
        rig.clock.advance(Ns(seconds * SECOND));
        rig.settle();
        let now = state(&rig);
        assert_eq!(now.1, !packed, "{seconds}");
        assert_eq!(now.0.0, first.0.0 + u64::from(packed), "written again once and not more often");
        assert_eq!(bits(&rig.all()), right);
        rig.restart(packed);
        assert_eq!(bits(&rig.all()), right);
    }
    assert_eq!(rig.store().status().compaction_failures, 0);
}

/// Blocks of a day are written for the last time: their texts are packed hard at once.
#[test]
fn texts_of_a_compacted_day_are_packed_hard_and_a_few_do_not_rewrite_much_else() {
    let mut rig = Rig::new(0, Options { rollups: Vec::new(), ..options() });
    let log = def("log", Kind::Text, Temporality::Gauge);
    for minute in 0..12 {
        let text = |at: i64| Value::Text(format!("minute {minute} worker {} took {} ms", at % 7, at * 31 % 97));
        rig.send((1..40).map(|at| (log.clone(), minute * 60 + at, text(at))).collect());
        rig.flush();
    }
    let right = bits(&rig.all());
    rig.clock.advance(Ns(721 * SECOND));
    rig.settle();
    let metas = rig.metas();
    assert_eq!(metas.len(), 1);
    let path = crate::Manifest::block_path(Path::new("data"), metas[0].id);
    assert_eq!(crate::Block::open(&rig.disk, &path).unwrap().quick_text_bytes(), 0);
    assert_eq!(bits(&rig.all()), right);
    // Of another day: much of something else, and a line.
    let mut random = 1_u64;
    let mut noise = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Value::Float(f64::from_bits(random >> 2))
    };
    let mut samples: Vec<_> = (1..60).map(|at| (gauge("noise"), 721 + at, noise())).collect();
    samples.push((log, 730, Value::Text("a line".into())));
    rig.send(samples);
    rig.flush();
    let ids = |rig: &Rig| rig.metas().iter().map(|meta| meta.id).collect::<Vec<_>>();
    let before = ids(&rig);
    rig.clock.advance(Ns(2000 * SECOND));
    rig.settle();
    assert_eq!(ids(&rig), before);
}

/// A restart forgets which scheme a series had, so fragments of a cell may meet in blocks that do not merge: one of
/// them was missing from every answer, and nobody was notified.
#[test]
fn fragments_whose_schemes_do_not_merge_are_reported_and_counted() {
    let mut rig = Rig::new(0, Options { rollups: Vec::new(), compact_blocks: 8, ..options() });
    let part = |scheme: Scheme, second| {
        let series = def("cells", Kind::Histogram, Temporality::Delta);
        (series, second, Value::Histogram(Box::new(cell(&[0.5], scheme))))
    };
    rig.send(vec![part(Scheme::LogLinear10, 5), part(Scheme::LogLinear10, 6)]);
    rig.flush();
    rig.restart(false);
    // Blocks become one where the greatest is no greater than the others together.
    rig.send(vec![(gauge("of another block"), 7, Value::Float(1.0))]);
    rig.flush();
    assert_eq!(rig.send(vec![part(Scheme::custom(vec![1.0]).unwrap(), 5)]).accepted, 1);
    let all = Selection::new(Vec::new(), TimeRange::ALL);
    for requested in 1..3 {
        let partial = rig.store().select_partial(&all).unwrap();
        assert_eq!(partial.series[0].histograms.times.len(), 2);
        assert!(partial.warnings.len() == 1 && partial.warnings[0].contains("cells of"), "{:?}", partial.warnings);
        let status = rig.store().status();
        assert_eq!((status.read_clashes, status.written_clashes), (requested, 0));
        rig.flush();
    }
    rig.clock.advance(Ns(61 * SECOND));
    rig.settle();
    assert_eq!((rig.blocks(0), rig.store().status().written_clashes), (1, 1));
    assert!(rig.store().select_partial(&all).unwrap().warnings.is_empty(), "what is gone was counted when it went");
}
