//! The quantizer compared with a map of everything that was measured.

use std::collections::{BTreeMap, BTreeSet};

use ogive_model::Value;
use proptest::prelude::*;

use super::*;

const SECOND: i64 = 1_000_000_000;

/// `count` nanoseconds after the epoch.
const fn ns(count: i64) -> WallNs {
    WallNs(count)
}

fn series(name: &str, shape: Shape) -> Result<SeriesDef, Error> {
    SeriesDef::new([(METRIC_NAME, name)], shape.meta(""))
}

fn slot(quantizer: &mut Quantizer, name: &str, shape: Shape) -> SlotId {
    let key = Key::new(shape as u64, name.as_bytes());
    quantizer.slot(key, shape, || series(name, shape)).unwrap()
}

fn put(quantizer: &mut Quantizer, name: &str, shape: Shape, time: i64, measured: Measured<'_>) {
    let slot = slot(quantizer, name, shape);
    quantizer.put(slot, ns(time), measured).unwrap();
}

fn floats(cells: &[Cell]) -> Vec<(String, i64, f64)> {
    let of = |cell: &Cell| match cell.value {
        Value::Float(value) => Some((cell.series.labels.to_string(), cell.time.0 / SECOND, value)),
        _ => None,
    };
    cells.iter().filter_map(of).collect()
}

#[test]
fn a_cell_ends_with_its_second() {
    for (time, end) in
        [(0, 0), (1, SECOND), (SECOND, SECOND), (SECOND + 1, 2 * SECOND), (-1, 0), (-SECOND - 1, -SECOND)]
    {
        assert_eq!(cell_end(ns(time)), ns(end), "{time}");
    }
    assert_eq!((cell_end(WallNs::MAX), cell_end(WallNs::MIN)), (WallNs::MAX, ns(i64::MIN + SECOND)));
}

#[test]
fn cells_are_given_away_once_when_their_second_is_over() {
    let mut quantizer = Quantizer::default();
    quantizer.advance(ns(10 * SECOND + 1));
    put(&mut quantizer, "n", Shape::Count, 10 * SECOND + 1, Measured::Add(1.0));
    put(&mut quantizer, "n", Shape::Count, 11 * SECOND, Measured::Add(2.0));
    assert_eq!(quantizer.take(ns(11 * SECOND)), [], "the cell that ends now still goes on");
    assert_eq!(floats(&quantizer.take(ns(11 * SECOND + 1))), [("n".into(), 11, 3.0)]);
    assert_eq!(quantizer.take(ns(12 * SECOND + 1)), []);
    put(&mut quantizer, "n", Shape::Count, 12 * SECOND + 1, Measured::Add(4.0));
    assert_eq!(floats(&quantizer.finish()), [("n".into(), 13, 4.0)]);
}

#[test]
fn a_gauge_keeps_its_level_over_cells() {
    let mut quantizer = Quantizer::default();
    for second in 1..4 {
        quantizer.advance(ns(second * SECOND));
        put(&mut quantizer, "g", Shape::Gauge, second * SECOND, Measured::Shift(2.0));
    }
    let levels: Vec<f64> = floats(&quantizer.finish()).into_iter().map(|(_, _, value)| value).collect();
    assert_eq!(levels, [2.0, 4.0, 6.0]);
}

#[test]
fn series_beyond_the_limit_fold_with_totals_complete() {
    let mut quantizer = Quantizer::new(Limits { series: 2, ..Limits::default() });
    quantizer.advance(ns(SECOND));
    for name in ["a", "b", "c", "d", "a"] {
        put(&mut quantizer, name, Shape::Count, SECOND, Measured::Add(1.0));
        put(&mut quantizer, name, Shape::Histogram, SECOND, Measured::Observe { value: 0.5, weight: 1.0 });
    }
    assert_eq!(quantizer.counts().folded, 6, "a and its histogram had room");
    let cells = quantizer.finish();
    let total: f64 = floats(&cells).iter().map(|(_, _, value)| value).sum();
    let counts: u64 =
        cells.iter().map(|cell| if let Value::Histogram(histogram) = &cell.value { histogram.count } else { 0 }).sum();
    assert_eq!((total, counts), (5.0, 5));
    let folded = r#"ogive_overflow{kind="float", reason="quantizer_series", shape="count", temporality="delta"}"#;
    assert!(floats(&cells).iter().any(|(name, _, value)| name == folded && *value == 3.0), "{cells:?}");
}

#[test]
fn members_beyond_the_limit_are_counted() {
    let mut quantizer = Quantizer::new(Limits { members: 3, ..Limits::default() });
    quantizer.advance(ns(SECOND));
    for member in [b"a", b"b", b"c", b"d", b"a"] {
        put(&mut quantizer, "s", Shape::Distinct, SECOND, Measured::Member(member));
    }
    assert_eq!(quantizer.counts().members_over, 1);
    assert_eq!(floats(&quantizer.take(ns(2 * SECOND))), [("s".into(), 1, 3.0)]);
    // There is room again.
    put(&mut quantizer, "s", Shape::Distinct, 2 * SECOND, Measured::Member(b"d"));
    assert_eq!((floats(&quantizer.finish()), quantizer.counts().members_over), (vec![("s".into(), 2, 1.0)], 1));
}

#[test]
fn cells_that_nobody_takes_are_bounded_and_counted() {
    let mut quantizer = Quantizer::new(Limits { cells: 2, ..Limits::default() });
    for second in 1..=4 {
        quantizer.advance(ns(second * SECOND));
        put(&mut quantizer, "n", Shape::Count, second * SECOND, Measured::Add(1.0));
    }
    assert_eq!((quantizer.finish().len(), quantizer.counts().cells_lost), (2, 2));
}

#[test]
fn idle_series_make_room() {
    let mut quantizer = Quantizer::new(Limits { idle_seconds: 60, ..Limits::default() });
    quantizer.advance(ns(SECOND));
    put(&mut quantizer, "old", Shape::Count, SECOND, Measured::Add(1.0));
    put(&mut quantizer, "new", Shape::Count, SECOND, Measured::Add(1.0));
    assert_eq!(quantizer.take(ns(100 * SECOND)).len(), 2);
    put(&mut quantizer, "new", Shape::Count, 100 * SECOND, Measured::Add(2.0));
    assert_eq!(quantizer.take(ns(160 * SECOND)).len(), 1);
    assert_eq!(quantizer.series(), 1);
    put(&mut quantizer, "old", Shape::Count, 160 * SECOND, Measured::Add(3.0));
    put(&mut quantizer, "new", Shape::Count, 160 * SECOND, Measured::Add(4.0));
    let mut found = floats(&quantizer.finish());
    found.sort_by(|left, right| left.0.cmp(&right.0));
    assert_eq!(found, [("new".into(), 160, 4.0), ("old".into(), 160, 3.0)]);
}

/// What happens: to which of three series, how many milliseconds after the last, how much earlier it was measured, how
/// much.
fn event() -> impl Strategy<Value = (usize, i64, i64, u32)> {
    (0..3_usize, 0..400_i64, prop_oneof![9 => Just(0_i64), 1 => 0..3_000_i64], 0..50_u32)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Cells of one series and end add up to what a map of all measurements has, whenever they are taken.
    #[test]
    fn every_measurement_is_in_one_cell(events in prop::collection::vec(event(), 1..200), take_each in 1..40_usize) {
        let mut quantizer = Quantizer::default();
        let (mut sums, mut sets) = (BTreeMap::<_, f64>::new(), BTreeMap::<_, BTreeSet<u32>>::new());
        let (mut histograms, mut cells) = (BTreeMap::<_, Histogram>::new(), Vec::new());
        let mut now = 1_000 * SECOND;
        for (at, (name, later_ms, earlier_ms, amount)) in events.into_iter().enumerate() {
            now += later_ms * 1_000_000;
            quantizer.advance(ns(now));
            let (time, value) = (now - earlier_ms * 1_000_000, f64::from(amount));
            let (name, end) = (["a", "b", "c"][name], cell_end(ns(time)));
            put(&mut quantizer, name, Shape::Count, time, Measured::Add(value));
            put(&mut quantizer, name, Shape::Distinct, time, Measured::Member(&amount.to_le_bytes()));
            put(&mut quantizer, name, Shape::Histogram, time, Measured::Observe { value, weight: 2.0 });
            *sums.entry((name.to_string(), end)).or_default() += value;
            sets.entry((name.to_string(), end)).or_default().insert(amount);
            histograms.entry((name.to_string(), end)).or_insert_with(Histogram::log_linear).record_n(value, 2);
            if at % take_each == 0 {
                cells.extend(quantizer.take(ns(now)));
            }
        }
        cells.extend(quantizer.finish());
        let (mut found, mut most, mut merged) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::<_, Histogram>::new());
        for cell in cells {
            let key = (cell.series.labels.to_string(), cell.time);
            match (cell.value, cell.series.meta.temporality) {
                (Value::Float(value), Temporality::Delta) => *found.entry(key).or_insert(0.0) += value,
                (Value::Float(value), _) => {
                    let held: &mut f64 = most.entry(key).or_default();
                    *held = held.max(value);
                }
                (Value::Histogram(cell), _) => {
                    merged.entry(key).or_insert_with(Histogram::log_linear).merge(&cell).unwrap();
                }
                (other, _) => panic!("{other:?}"),
            }
        }
        prop_assert_eq!(found, sums);
        prop_assert_eq!(merged, histograms);
        prop_assert!(most.iter().all(|(key, count)| *count <= sets[key].len() as f64 && *count >= 1.0));
        prop_assert_eq!(most.len(), sets.len());
    }
}
