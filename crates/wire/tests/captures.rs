//! Captures of real servers and clients beside what is true of them.
//!
//! `OGIVE_CAPTURES_DIR` names another directory of the same shape. Each file prints `FILE: N equal, M differ, K
//! missing, J false`.

mod common;

use std::collections::BTreeSet;

use common::truth::{Comparison, captures, compare, frames, observe, truth};
use ogive_wire::protocol;

/// Exchanges whose truth was taken from the capture before frames were removed, although the first copy of the request
/// is among the removed ones: (file, request's first byte in truth, in the file). The definition of a byte's time, that
/// of the first captured frame with it, gives the second; nothing in the file tells of the first. They are counted
/// apart.
const RETIMED: &[(&str, i64, i64)] = &[("http1_capture_holes", 452_195_944, 662_675_224)];

/// `OGIVE_CAPTURES` names the files to look at, by a part of their names.
fn is_chosen(name: &str) -> bool {
    std::env::var("OGIVE_CAPTURES").is_ok_and(|part| !name.contains(&part))
}

#[test]
fn every_capture_equals_its_truth() {
    let mut total = Comparison::default();
    let mut failed = Vec::new();
    let mut skipped = BTreeSet::new();
    for (name, path, truth_path) in captures() {
        if is_chosen(&name) {
            continue;
        }
        let mut truth = truth(&truth_path);
        for (row, _) in &mut truth.answered {
            if let Some((_, _, seen)) =
                RETIMED.iter().find(|(file, reported, _)| *file == name && *reported == row.request.1)
            {
                println!("{name}: a request at {} is first seen at {seen}, by its retransmission", row.request.1);
                row.request = (row.request.0, *seen, *seen);
            }
        }
        let wanted = truth
            .answered
            .iter()
            .map(|(row, _)| row.proto.as_str())
            .map(|proto| if proto == "grpc" { "http2" } else { proto });
        let unread: BTreeSet<String> =
            wanted.filter(|proto| protocol::by_name(proto).is_none()).map(str::to_owned).collect();
        if !unread.is_empty() {
            println!("{name}: skipped, no decoder of {unread:?}");
            skipped.extend(unread);
            continue;
        }
        let report = observe(&frames(&path), truth.t0);
        let comparison = compare(&report, &truth);
        println!("{name}: {}", comparison.line());
        for row in comparison.differ.iter().chain(&comparison.invented).chain(&comparison.missing).take(6) {
            println!("    {row}");
        }
        // After a gap one exchange may be given up, to find the place again.
        let losses: u64 =
            report.summaries.iter().map(|summary| summary.losses.max(u64::from(!summary.from_start))).sum();
        let allowed = if truth.has_gaps { usize::try_from(losses).expect("few") } else { 0 };
        if !comparison.differ.is_empty() || !comparison.invented.is_empty() || comparison.missing.len() > allowed {
            failed.push(name);
        }
        total.equal += comparison.equal;
        total.differ.extend(comparison.differ);
        total.missing.extend(comparison.missing);
        total.invented.extend(comparison.invented);
    }
    println!("total: {}", total.line());
    println!("skipped protocols: {skipped:?}");
    assert!(failed.is_empty(), "{failed:?}");
}
