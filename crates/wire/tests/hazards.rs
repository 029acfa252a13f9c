//! Captures that begin late, end early or miss a frame: never an exchange that is not in the truth, never a panic.
//!
//! `OGIVE_CAPTURES_DIR` names another directory; `OGIVE_EVERY_FRAME` tries each frame where large files try a part. All
//! of it: `OGIVE_EVERY_FRAME=1 cargo test --profile hazard -p ogive-wire --test hazards -- --nocapture`.

mod common;

use std::collections::BTreeMap;

use common::truth::{OpenRow, OwnedFrame, Report, Row, Truth, captures, frames, observe, truth};
use ogive_wire::protocol;

/// Tries a file and a hazard; more are spread over the file.
const TRIES: usize = 120;

/// Asked twice with the same id, in `dns_mix`.
const AMBIGUOUS: &str = "A dup.a.test";

/// Answered exchanges that are not in the truth with these times, and unanswered ones that are not in it at all.
///
/// What a capture cannot show is not held against it: when the removed frame was the first copy of a byte, the byte's
/// time is that of the next copy, so a row of a connection with copies is looked for by everything but its times. For
/// the same reason a DNS query that was asked twice ([`AMBIGUOUS`]) may be taken for a retry when the answer between is
/// missing.
fn strange(report: &Report, truth: &Truth) -> Vec<String> {
    let key = |row: &Row| {
        let mut row = row.clone();
        if truth.has_copies(&row.conn) {
            (row.request.1, row.request.2, row.response.1, row.response.2) = (0, 0, 0, 0);
        }
        row
    };
    let open_key = |row: &OpenRow| {
        let mut row = row.clone();
        if truth.has_copies(&row.conn) {
            (row.request.1, row.request.2) = (0, 0);
        }
        row
    };
    let mut left: BTreeMap<Row, usize> = BTreeMap::new();
    for (row, _) in &truth.answered {
        *left.entry(key(row)).or_default() += 1;
    }
    let mut strange = Vec::new();
    for row in report.answered.iter().filter(|row| truth.is_of(&row.conn)) {
        let found = left.get_mut(&key(row)).filter(|count| **count > 0).map(|count| *count -= 1);
        if found.is_none() && row.op != AMBIGUOUS && !is_unnamed(row, &mut left) {
            strange.push(format!("{row:?}"));
        }
    }
    for row in report.unanswered.iter().filter(|row| truth.is_of(&row.conn)) {
        let is_named = |other: &OpenRow| other.op == row.op || row.op == unnamed(&other.op);
        let is_same = |other: &OpenRow| OpenRow { op: row.op.clone(), ..open_key(other) } == open_key(row);
        if !truth.unanswered.iter().any(|other| is_named(other) && is_same(other)) {
            strange.push(format!("{row:?}"));
        }
    }
    strange
}

/// The operation of an HTTP/2 stream whose path is only in a header table's entry from before a hole.
fn unnamed(op: &str) -> String {
    op.split_once(' ').map_or(op.to_owned(), |(method, _)| format!("{method} ?"))
}

/// Whether `row` has no path and is otherwise one of `left`, from which it is then taken.
fn is_unnamed(row: &Row, left: &mut BTreeMap<Row, usize>) -> bool {
    let is_it = |other: &Row| row.op == unnamed(&other.op) && Row { op: row.op.clone(), ..other.clone() } == *row;
    let found = left.iter_mut().find(|(other, count)| **count > 0 && is_it(other));
    found.map(|(_, count)| *count -= 1).is_some()
}

fn positions(count: usize) -> Vec<usize> {
    let step = if std::env::var_os("OGIVE_EVERY_FRAME").is_some() { 1 } else { count.div_ceil(TRIES).max(1) };
    (0..count).step_by(step).collect()
}

fn each_capture(hazard: &str, alter: impl Fn(&[OwnedFrame], usize) -> Vec<&OwnedFrame>) {
    let mut failed = 0;
    for (name, path, truth_path) in captures() {
        let truth = truth(&truth_path);
        if truth
            .answered
            .iter()
            .any(|(row, _)| protocol::by_name(if row.proto == "grpc" { "http2" } else { &row.proto }).is_none())
        {
            println!("{hazard} {name}: skipped, no decoder");
            continue;
        }
        let frames = frames(&path);
        let (mut tried, mut wrong) = (0, 0);
        for position in positions(frames.len()) {
            let report = observe(alter(&frames, position), truth.t0);
            let strange = strange(&report, &truth);
            tried += 1;
            if !strange.is_empty() {
                wrong += 1;
                if wrong <= 3 {
                    println!("    {hazard} {name} at frame {}: {}", position + 1, strange[0]);
                }
            }
        }
        println!("{hazard} {name}: {tried} tried, {wrong} wrong");
        failed += wrong;
    }
    assert_eq!(failed, 0);
}

#[test]
fn a_capture_that_begins_late_invents_nothing() {
    each_capture("begins at", |frames, position| frames[position..].iter().collect());
}

#[test]
fn a_capture_that_ends_early_invents_nothing() {
    each_capture("ends at", |frames, position| frames[..position].iter().collect());
}

#[test]
fn a_capture_without_one_frame_invents_nothing() {
    each_capture("without", |frames, position| {
        frames.iter().enumerate().filter(|(index, _)| *index != position).map(|(_, frame)| frame).collect()
    });
}
