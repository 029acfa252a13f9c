//! Points and fragments of deltas, and cumulative values with their starts: in any order and with repetitions, and
//! whatever is flushed, compacted, rolled up and restarted in between, each point counts once.

use std::collections::{BTreeMap, BTreeSet};

use ogive_hist::Scheme;
use ogive_model::{
    HistogramValue, Kind, Ms, Resolution, RollupUse, SeriesData, SeriesDef, Temporality, TimeRange, Value,
};
use proptest::prelude::*;

use crate::time_tests::{EPOCH_MS, Rig, cell, def, options, sums, within};

/// What is sent of one of the series of these tests: start and time in seconds, and a small number that is the value,
/// or says how often which value is in a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SentPoint {
    series: usize,
    start: Option<i64>,
    end: i64,
    value: u8,
}

const SERIES: [(&str, Kind, Temporality); 4] = [
    ("requests", Kind::Float, Temporality::Delta),
    ("cells", Kind::Histogram, Temporality::Delta),
    ("counter", Kind::Float, Temporality::Cumulative),
    ("native", Kind::Histogram, Temporality::Cumulative),
];

fn definition(series: usize) -> SeriesDef {
    let (name, kind, temporality) = SERIES[series];
    def(name, kind, temporality)
}

impl SentPoint {
    fn value(self) -> Value {
        match SERIES[self.series].1 {
            Kind::Float => Value::Float(f64::from(self.value) / 4.0),
            _ => Value::Histogram(Box::new(cell(&vec![1.5; self.value.into()], Scheme::LogLinear10))),
        }
    }

    fn is_delta(self) -> bool {
        SERIES[self.series].2 == Temporality::Delta
    }

    /// What a duplicate is reported by; a fragment has none.
    fn identity(self) -> Option<Self> {
        self.start.filter(|_| self.is_delta()).map(|_| self)
    }
}

/// Few values, starts and times, so that the same comes again and again; and a long run, so that parts and chunks are
/// full.
fn any_sent() -> impl Strategy<Value = Vec<SentPoint>> {
    let one = (0..4_usize, prop_oneof![Just(None), Just(Some(10)), Just(Some(5))], 1..14_i64, 1..4_u8);
    let one = one.prop_map(|(series, length, place, value)| {
        let end = place * 20;
        SentPoint { series, start: length.map(|length| end - length), end, value }
    });
    let run = (0..4_usize, 1..300_i64).prop_map(|(series, count)| {
        let at = |n: i64| SentPoint { series, start: Some(n - 1), end: n, value: 1 + (n % 3) as u8 };
        (1..=count).map(at).collect::<Vec<_>>()
    });
    let again = proptest::collection::vec(one, 1..80);
    (again, prop_oneof![2 => Just(Vec::new()), 1 => run])
        .prop_flat_map(|(again, run)| Just([again, run].concat()).prop_shuffle())
}

/// All samples of a series by their time: what points, fragments or rewrites come to, and the start that is reported.
fn model(all: &[SentPoint]) -> BTreeMap<usize, Vec<(i64, i64, u64)>> {
    let mut series: BTreeMap<usize, BTreeMap<i64, Vec<SentPoint>>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for sent in all {
        if sent.identity().is_none_or(|identity| seen.insert(identity)) {
            series.entry(sent.series).or_default().entry(sent.end).or_default().push(*sent);
        }
    }
    let ms = |second: i64| EPOCH_MS + second * 1000;
    let start = |sent: &SentPoint| sent.start.map_or(0, ms);
    let row = |(end, sents): (i64, Vec<SentPoint>)| {
        if sents[0].is_delta() {
            let total = sents.iter().map(|sent| u64::from(sent.value)).sum();
            return (ms(end), sents.iter().map(start).min().unwrap(), total);
        }
        let stays = sents.iter().max_by_key(|sent| (sent.value, start(sent))).unwrap();
        (ms(end), start(stays), u64::from(stays.value))
    };
    series.into_iter().map(|(series, cells)| (series, cells.into_iter().map(row).collect())).collect()
}

/// The same of an answer.
fn rows(answer: &[SeriesData]) -> BTreeMap<usize, Vec<(i64, i64, u64)>> {
    let of = |data: &SeriesData| {
        let number = SERIES.iter().position(|series| series.0 == data.labels.metric_name()).unwrap();
        let (times, starts) = match data.meta.kind {
            Kind::Float => (&data.floats.times, &data.floats.starts),
            _ => (&data.histograms.times, &data.histograms.starts),
        };
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "one row a time: {times:?}");
        let value = |at: usize| match data.histograms.values.get(at) {
            Some(HistogramValue::Integer(histogram)) => histogram.count,
            Some(HistogramValue::Float(_)) => panic!("float counts were never sent"),
            None => (data.floats.values[at] * 4.0) as u64,
        };
        let row = |at: usize| (times[at], starts.get(at).copied().unwrap_or(0), value(at));
        (number, (0..times.len()).map(row).collect())
    };
    answer.iter().map(of).collect()
}

/// Sends a batch; gives how many of it were reported to be duplicates.
fn send(rig: &mut Rig, batch: &[SentPoint]) -> u64 {
    let samples = batch.iter().map(|sent| (definition(sent.series), sent.start, sent.end, sent.value())).collect();
    let verdict = rig.send_started(samples);
    assert_eq!((verdict.rejected.len(), verdict.folded), (0, 0));
    assert_eq!(verdict.accepted + verdict.duplicate, batch.len() as u64);
    verdict.duplicate
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn each_point_counts_once(
        sent in any_sent(),
        events in proptest::collection::vec((0..60_usize, 0..4_u8), 0..10),
        size in 1..30_usize,
    ) {
        let mut rig = Rig::new(20_000, options());
        // What is in memory, where a point that comes again is instructed to be a duplicate.
        let mut held = BTreeSet::new();
        for (at, batch) in sent.chunks(size).enumerate() {
            let known = batch.iter().filter_map(|sent| sent.identity()).filter(|identity| !held.insert(*identity)).count();
            prop_assert_eq!(send(&mut rig, batch), known as u64);
            for (_, event) in events.iter().filter(|(when, _)| *when == at) {
                match event {
                    0 => {
                        rig.flush();
                        held.clear();
                    }
                    1 => rig.settle(),
                    2 => rig.restart(true),
                    _ => prop_assert_eq!(rows(&rig.all()), model(&sent[..((at + 1) * size).min(sent.len())])),
                }
            }
        }
        let expected = model(&sent);
        prop_assert_eq!(rows(&rig.all()), expected.clone());
        rig.flush();
        rig.settle();
        prop_assert_eq!(rows(&rig.all()), expected.clone());
        let read = |rig: &Rig, range: TimeRange| {
            let use_as = RollupUse::Together;
            let finest = rig.read(range, Resolution::Finest);
            (sums(&finest), sums(&rig.read(range, Resolution::Aligned { step: Ms(60_000), use_as })))
        };
        let (finest, rolled) = read(&rig, within(0, 300));
        prop_assert_eq!(rolled, finest);
        // Once more, all of it: it is in blocks and rollups, and rollups are made again.
        for batch in sent.chunks(size) {
            send(&mut rig, batch);
        }
        let points_alone: Vec<SentPoint> = sent.iter().chain(&sent).copied().collect();
        let expected = model(&points_alone);
        prop_assert_eq!(rows(&rig.all()), expected.clone());
        let (finest, rolled) = read(&rig, within(0, 300));
        prop_assert_eq!(rolled, finest, "blocks, rollups and memory together");
        rig.restart(true);
        rig.flush();
        rig.settle();
        prop_assert_eq!(rows(&rig.all()), expected);
        let (finest, rolled) = read(&rig, within(0, 300));
        prop_assert_eq!(rolled, finest);
    }
}

#[test]
fn a_start_in_the_millisecond_of_its_time_makes_no_point() {
    let mut rig = Rig::new(20_000, options());
    let value = || Value::Float(1.0);
    let requests = || def("requests", Kind::Float, Temporality::Delta);
    let verdict = rig.send_started(vec![(requests(), Some(7), 7, value()), (requests(), Some(9), 8, value())]);
    assert_eq!(verdict.rejected.len(), 2, "a start is before its time");
    let mut sample =
        ogive_model::Sample { series: 0, time_ns: 5_000_000, start_ns: Some(4_000_001), value: Value::Float(1.0) };
    assert_eq!((sample.start_ms(), sample.time_ms()), (0, 5));
    sample.start_ns = Some(4_000_000);
    assert_eq!(sample.start_ms(), 4);
}
