//! The histograms of an observed capture are those of its truth, bin for bin.

mod common;

use std::collections::BTreeMap;

use common::truth::{Row, captures, frames, observe, truth};
use ogive_hist::Histogram;

/// Nanoseconds, in histograms of seconds.
const NANO: i32 = -9;

/// Service time, total time, time to first byte, and both sizes.
type Five = [Histogram; 5];

/// By protocol, operation and status.
fn histograms<'a>(rows: impl Iterator<Item = &'a Row>) -> BTreeMap<(String, String, String), Five> {
    let mut all: BTreeMap<_, Five> = BTreeMap::new();
    // In one order: the sums are of doubles.
    let mut rows: Vec<&Row> = rows.collect();
    rows.sort();
    for row in rows {
        let key = (row.proto.clone(), row.op.clone(), row.status.clone());
        let five = all.entry(key).or_insert_with(|| std::array::from_fn(|_| Histogram::log_linear()));
        let ((sent, asked_first, requested), (received, answered, ended)) = (row.request, row.response);
        for (histogram, nanos) in
            five.iter_mut().zip([answered - requested, ended - asked_first, answered - asked_first])
        {
            // A response that began early has no service time.
            if nanos >= 0 {
                histogram.record_int(nanos, NANO);
            }
        }
        for (histogram, bytes) in five[3..].iter_mut().zip([sent, received]) {
            histogram.record_int(i64::try_from(bytes).unwrap(), 0);
        }
    }
    all
}

#[test]
fn observed_histograms_equal_those_of_the_truth() {
    let (mut files, mut series, mut records) = (0, 0, 0);
    for (name, path, truth_path) in captures() {
        let truth = truth(&truth_path);
        // With gaps not every exchange can be reported.
        if truth.has_gaps {
            continue;
        }
        let report = observe(&frames(&path), truth.t0);
        let observed = histograms(report.answered.iter().filter(|row| truth.is_of(&row.conn)));
        let expected = histograms(truth.answered.iter().map(|(row, _)| row));
        assert_eq!(observed.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{name}");
        for (key, five) in &expected {
            assert_eq!(&observed[key], five, "{name} {key:?}");
            series += 5;
            records += five.iter().map(Histogram::total).sum::<u64>();
        }
        files += 1;
    }
    assert!(files >= 10 && records > 1_000, "{files} files, {records} values");
    println!("{files} captures: {series} histograms of {records} values are equal, bin for bin");
}
