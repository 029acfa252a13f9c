//! Captures that begin late, end early or miss a frame: never an exchange that is not in the truth, never a panic.
//!
//! `OGIVE_CAPTURES_DIR` names another directory; `OGIVE_EVERY_FRAME` tries each frame where large files try a part.

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
/// What a capture cannot show is not held against it: when the removed frame was the first copy of a byte, the byte's time is that of
/// the next copy, so a row of a connection with copies is looked for by everything but its times. For the same reason a DNS query that was
/// asked twice ([`AMBIGUOUS`]) may be taken for a retry when the answer between is missing.
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
        match left.get_mut(&key(row)) {
            Some(count) if *count > 0 => *count -= 1,
            _ if row.op == AMBIGUOUS => {}
            _ => strange.push(format!("{row:?}")),
        }
    }
    for row in report.unanswered.iter().filter(|row| truth.is_of(&row.conn)) {
        if !truth.unanswered.iter().any(|other| open_key(other) == open_key(row)) {
            strange.push(format!("{row:?}"));
        }
    }
    strange
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
