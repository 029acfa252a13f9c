//! What batches mark, and what becomes of it.

use ogive_model::{Kind, Reason, Sample, SeriesDef, SeriesMeta, Temporality, Tenant, Value};

use super::*;

fn marks(rules: &[&str]) -> Arc<Marks> {
    let quantize = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    Marks::new(&Options { quantize }).unwrap().unwrap()
}

fn def(name: &str, labels: &[(&str, &str)]) -> SeriesDef {
    let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    SeriesDef::new(labels.iter().copied().chain([("__name__", name)]), meta).unwrap()
}

fn sample(series: u32, time_ms: i64) -> Result<Sample, Reason> {
    Ok(Sample { series, time_ns: time_ms * 1_000_000, start_ns: None, value: Value::Float(1.0) })
}

fn count(marks: &Marks, rule: usize, outcome: &str) -> u64 {
    let figures = marks.rules[rule].counts.figures();
    figures.into_iter().find(|figure| figure.1 == outcome).unwrap().2
}

#[test]
fn only_acknowledged_samples_of_a_rules_series_mark_their_windows() {
    let marks = marks(&["a", "a=width=5s,tenant=t"]);
    let id = def("b", &[]).id(&Tenant::default());
    let batch = Batch {
        series: vec![Ok(def("a", &[])), Ok(def("b", &[])), Ok(def("a", &[("ogive_cell", "1s")]))],
        samples: vec![sample(0, 1_500), sample(0, 9_000), sample(1, 20_000), sample(2, 30_000)],
        ..Batch::default()
    };
    let notes = marks.note(&batch);
    assert!(lock(&marks.rules[0].dirty).is_empty(), "nothing is marked before the store has it");
    notes.acknowledged(&Verdict { accepted: 4, ..Verdict::default() });
    let mut expected = Ranges::default();
    expected.add(WallMs(1_000), WallMs(2_000));
    expected.add(WallMs(8_000), WallMs(9_000));
    assert_eq!(*lock(&marks.rules[0].dirty), expected);
    assert!(lock(&marks.rules[1].dirty).is_empty(), "another tenant's rule");
    let again = Verdict { duplicate: 4, ..Verdict::default() };
    marks.note(&batch).acknowledged(&again);
    assert_eq!((count(&marks, 0, "on_time"), count(&marks, 0, "duplicate")), (2, 2));
    // A series that is named by its identity is known from its declaration; of one that is not, every rule is asked.
    let batch = Batch {
        known: vec![id, ogive_model::SeriesId(7)],
        samples: vec![sample(0, 41_000), sample(1, 43_000)],
        ..Batch::default()
    };
    marks.note(&batch).acknowledged(&Verdict::default());
    expected.add(WallMs(42_000), WallMs(43_000));
    assert_eq!(*lock(&marks.rules[0].dirty), expected);
}

#[test]
fn what_comes_late_is_counted_and_what_is_behind_the_horizon_marks_nothing() {
    let marks = marks(&["a=keep=instead"]);
    marks.rules[0].closed_ms.store(10_000, Ordering::Relaxed);
    marks.rules[0].horizon_ms.store(3_000, Ordering::Relaxed);
    let samples = vec![sample(0, 2_500), sample(0, 3_500), sample(0, 10_500)];
    let batch = Batch { series: vec![Ok(def("a", &[]))], samples, ..Batch::default() };
    marks.note(&batch).acknowledged(&Verdict { accepted: 3, ..Verdict::default() });
    let counts = ["too_late", "late", "on_time"].map(|outcome| count(&marks, 0, outcome));
    assert_eq!(counts, [1, 1, 1]);
    assert_eq!(marks.rules[0].watermark(), Some(WallMs(3_000)));
}

#[test]
fn there_may_be_so_many_rules_and_no_more() {
    let rules = |count: usize| Options { quantize: (0..count).map(|at| format!("m{at}").parse().unwrap()).collect() };
    assert!(Marks::new(&rules(RULES_MAX)).unwrap().is_some());
    assert!(Marks::new(&rules(RULES_MAX + 1)).is_err());
    assert!(Marks::new(&rules(0)).unwrap().is_none());
}
