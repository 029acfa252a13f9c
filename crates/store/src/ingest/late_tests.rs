//! Late samples in a head, against simple models: how many bytes they leave uncompressed, and how often they decompress
//! a part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ogive_hist::Histogram;
use ogive_model::{Kind, Labels, Ms, SeriesData, SeriesDef, SeriesMeta, Temporality, Tenant, TimeRange, Value, WallMs};
use proptest::prelude::*;

use crate::block::Budget;
use crate::ingest::head::{Cursor, FloatRow, Give, Head, Placed, by_window, data_of};
use crate::ingest::owned::{Family, Owned};
use crate::ingest::request::{PAGE_SERIES, ReadRequest};
use crate::window::Ladder;

const BYTES_MAX: usize = 64 << 10;
/// 256 rows of a float with room, and what a part takes itself.
const FLOAT_PART_BYTES: usize = 2 * 128 * 16 + 128;

/// Times are above it, so that a start is never 0.
const BASE_MS: i64 = 100_000;

/// A head of some series of one kind, which keeps about `bytes_max` bytes of parts as rows for late samples.
fn head(bytes_max: usize, series: u32, kind: Kind, temporality: Temporality) -> Head {
    let mut head = Head::bounded(bytes_max as u64);
    for index in 0..series {
        let labels = Labels::new([("__name__", format!("s{index:03}"))]).unwrap();
        let meta = SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 };
        let family = Family::new(&Tenant::default(), &SeriesDef { labels: labels.clone(), meta });
        let owned = Owned::new(&family, &labels);
        head.add_series(index, Arc::new(owned));
    }
    head
}

/// All samples of the series, of which there is a page at most.
fn data(head: &Head) -> Vec<SeriesData> {
    let (tenant, matchers, range) = (Tenant::default(), Vec::new(), TimeRange::ALL);
    let page = head.select(&ReadRequest { tenant, matchers, range, flushed: 0 }, Cursor::default(), Give::Samples);
    assert!(page.next.is_none(), "there are more series than in a page");
    let mut budget = Budget::new(usize::MAX);
    page.found.iter().map(|found| found.data(range, false, &mut budget).unwrap()).collect()
}

fn float(head: &mut Head, index: u32, time_ms: i64, value: f64) {
    head.apply_float(FloatRow { index, time_ms, value });
}

fn placed(index: u32, time_ms: i64, start_ms: i64, value: Value) -> Placed {
    Placed { index, batch: 0, time_ms, start_ms, value }
}

/// Which series each sample is of, and when it was taken: in order with some that are late, in rounds that go back, or
/// at random.
fn any_times() -> impl Strategy<Value = Vec<(u32, i64)>> {
    let late = prop_oneof![12 => Just(0), 2 => 0..10_i64, 1 => 0..900_i64];
    let ordered = prop::collection::vec(late, 0..1500)
        .prop_map(|late| (0_i64..).zip(late).map(|(at, late)| at - late).collect::<Vec<i64>>());
    let rounds = (0..1500_i64, 1..700_i64).prop_map(|(count, of)| (0..count).map(|at| at % of).collect::<Vec<i64>>());
    let times = prop_oneof![ordered, rounds, prop::collection::vec(0..1500_i64, 0..1500)];
    (times, 1..=PAGE_SERIES as u32).prop_map(|(times, series)| {
        let of = |(at, time): (usize, i64)| (at as u32 / 2 % series, BASE_MS + time);
        times.into_iter().enumerate().map(of).collect::<Vec<(u32, i64)>>()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Against a map, with any limit, also when one sample has a start and its series gets room for those.
    #[test]
    fn late_gauges_are_a_map(
        times in any_times(),
        started in 0..1500_usize,
        values in prop::collection::vec(0..50_u8, 1500),
        bytes_max in prop_oneof![0..20_000_usize, Just(usize::MAX)],
    ) {
        let mut head = head(bytes_max, PAGE_SERIES as u32, Kind::Float, Temporality::Gauge);
        let mut model: BTreeMap<u32, BTreeMap<i64, f64>> = BTreeMap::new();
        for (at, ((series, time), value)) in times.iter().zip(&values).enumerate() {
            let value = f64::from(*value) / 4.0;
            if at == started {
                head.apply(placed(*series, *time, 1, Value::Float(value)));
            } else {
                float(&mut head, *series, *time, value);
            }
            let there = model.entry(*series).or_default().entry(*time).or_insert(value);
            *there = there.max(value);
        }
        prop_assert_eq!(head.bytes, head.column_bytes() as u64);
        prop_assert_eq!(head.samples, model.values().map(|times| times.len() as u64).sum::<u64>());
        let found = data(&head);
        prop_assert_eq!(found.len(), model.len());
        for (found, model) in found.iter().zip(model.values()) {
            prop_assert_eq!(&found.floats.times, &model.keys().copied().collect::<Vec<_>>());
            prop_assert_eq!(&found.floats.values, &model.values().copied().collect::<Vec<_>>());
        }
    }

    /// Each point counts once, whatever was packed between it and its repetition.
    #[test]
    fn late_points_are_a_set(
        times in any_times(),
        values in prop::collection::vec((1..4_u8, 0..3_i64), 1500),
        bytes_max in prop_oneof![0..20_000_usize, Just(usize::MAX)],
    ) {
        let mut head = head(bytes_max, PAGE_SERIES as u32, Kind::Float, Temporality::Delta);
        let mut model: BTreeMap<u32, BTreeSet<(i64, i64, u8)>> = BTreeMap::new();
        for ((series, time), (value, start)) in times.iter().zip(&values) {
            let start = time - 1000 + start;
            let is_new = head.apply(placed(*series, *time, start, Value::Float(f64::from(*value))));
            prop_assert_eq!(is_new, model.entry(*series).or_default().insert((*time, start, *value)));
        }
        prop_assert_eq!(head.bytes, head.column_bytes() as u64);
        let found = data(&head);
        prop_assert_eq!(found.len(), model.len());
        for (found, model) in found.iter().zip(model.values()) {
            let columns = &found.floats;
            let rows = columns.times.iter().zip(&columns.starts).zip(&columns.values);
            let rows: Vec<_> = rows.map(|((time, start), value)| (*time, *start, *value as u8)).collect();
            prop_assert_eq!(rows, model.iter().copied().collect::<Vec<_>>());
        }
    }

    /// Late texts come from the parts of several runs, before and after these are frozen, and in each window of a
    /// flush.
    #[test]
    fn late_texts_are_read_and_flushed_in_order(
        times in any_times(),
        texts in prop::collection::vec("[a-d]{0,2}", 1500),
    ) {
        let mut head = head(0, PAGE_SERIES as u32, Kind::Text, Temporality::Gauge);
        let mut model: BTreeMap<u32, Vec<(i64, String)>> = BTreeMap::new();
        for ((series, time), text) in times.iter().zip(&texts) {
            prop_assert!(head.apply(placed(*series, *time, 0, Value::Text(text.clone()))));
            model.entry(*series).or_default().push((*time, text.clone()));
        }
        model.values_mut().for_each(|rows| rows.sort_unstable());
        let rows = |data: &SeriesData| -> Vec<(i64, String)> {
            data.texts.times.iter().copied().zip(data.texts.values.iter().cloned()).collect()
        };
        let expected: Vec<_> = model.values().cloned().collect();
        prop_assert_eq!(data(&head).iter().map(rows).collect::<Vec<_>>(), expected.clone());
        for (index, rows) in &model {
            prop_assert_eq!(head.newest(*index), rows.last().map(|row| WallMs(row.0)));
        }
        let frozen = head.freeze(1);
        prop_assert_eq!(data(&head).iter().map(rows).collect::<Vec<_>>(), expected.clone(), "while they are frozen");
        prop_assert_eq!(head.bytes, 0);
        let mut flushed: BTreeMap<Labels, Vec<(i64, String)>> = BTreeMap::new();
        for ((_, window), series) in by_window(&[frozen], Ladder::new(Ms(100))) {
            for series in series {
                let part = data_of(series, window.range());
                flushed.entry(part.labels.clone()).or_default().extend(rows(&part));
            }
        }
        prop_assert_eq!(flushed.into_values().collect::<Vec<_>>(), expected, "windows ascend, and so do their texts");
    }
}

/// Rounds that each go through all old times divide its parts again and again, and halves stayed uncompressed. The
/// bytes that are rows have a limit now, however many rounds there are, and each part is decompressed once a round.
#[test]
fn rounds_that_go_back_leave_no_more_than_the_limit_uncompressed() {
    let mut head = head(BYTES_MAX, 1, Kind::Float, Temporality::Gauge);
    for round in 0..10 {
        for at in 0..10_000_i64 {
            float(&mut head, 0, at * 10 + round, at as f64);
            if at % 97 == 0 {
                let rows = head.rows_bytes();
                assert!(rows <= 3 * BYTES_MAX, "{rows} bytes are rows in round {round} at {at}");
            }
        }
    }
    assert_eq!(head.samples, 100_000);
    // 100,000 rows are 800 parts at most at the end, and were as many divisions.
    assert!(head.late_parts() <= 10 * 800, "{} parts became rows", head.late_parts());
}

/// A sender that goes over to later parts of each series leaves what it was at, and only that.
#[test]
fn histograms_that_late_fragments_change_are_packed_again() {
    let mut head = head(BYTES_MAX, 1, Kind::Histogram, Temporality::Delta);
    let cell = |at: i64| {
        let mut histogram = Histogram::log_linear();
        for value in 1..20 {
            histogram.record_n(f64::from(value), at as u64 % 50 + 1);
        }
        Value::Histogram(Box::new(histogram))
    };
    for round in 0..3 {
        for at in 0..2_000_i64 {
            head.apply(placed(0, at, 0, cell(at)));
            let rows = head.rows_bytes();
            assert!(rows <= 3 * BYTES_MAX, "{rows} bytes are rows in round {round} at {at}");
        }
    }
    assert!(head.bytes < 400_000, "{} bytes", head.bytes);
    assert_eq!((head.samples, head.clashes, data(&head)[0].histograms.times.len()), (2_000, 0, 2_000));
}

/// A late sender of many series, each of whose parts alone is above the limit, finds the part of each as it left it.
#[test]
fn a_part_of_many_series_is_decompressed_once_by_a_sender_in_order() {
    const SERIES: u32 = 40;
    let mut head = head(0, SERIES, Kind::Float, Temporality::Gauge);
    for at in 0..1280 {
        (0..SERIES).for_each(|series| float(&mut head, series, at * 10, 1.0));
    }
    assert_eq!((head.late_parts(), head.rows_bytes()), (0, 0));
    for at in (0..1280).step_by(2) {
        (0..SERIES).for_each(|series| float(&mut head, series, at * 10 + 5, 1.0));
        let (rows, most) = (head.rows_bytes(), 2 * SERIES as usize * FLOAT_PART_BYTES);
        assert!(rows <= most, "{rows} bytes are rows, of at most {most}");
    }
    // 1,280 samples are four parts of 32, four of 64 and seven of 128.
    assert!(head.late_parts() <= SERIES * 16, "{} parts became rows", head.late_parts());
    // When the burst is over, what is in order packs the rest.
    for at in 1280..1280 + 4 * 128 {
        (0..SERIES).for_each(|series| float(&mut head, series, at * 10, 1.0));
    }
    assert_eq!(head.rows_bytes(), 0);
    assert_eq!(head.bytes, head.column_bytes() as u64);
}

#[test]
fn a_sender_of_two_old_times_decompresses_their_parts_once() {
    let mut head = head(BYTES_MAX, 1, Kind::Float, Temporality::Delta);
    (0..10_000).for_each(|at| float(&mut head, 0, at, 1.0));
    (0..10_000).for_each(|at| float(&mut head, 0, [127, 9_000][(at % 2) as usize], 1.0));
    assert_eq!(head.late_parts(), 2);
    assert_eq!(data(&head)[0].floats.values.iter().sum::<f64>(), 20_000.0);
    // What was counted goes with what is frozen.
    head.freeze(1);
    assert_eq!((head.bytes, head.rows_bytes()), (0, 0));
    (0..10_000).for_each(|at| float(&mut head, 0, at, 1.0));
    float(&mut head, 0, 5, 1.0);
    assert_eq!((head.late_parts(), head.samples), (3, 10_000));
}
