//! A real server whose client keeps several requests in flight and sends one for each answer, captured and read from
//! each frame on: what is reported then is what happened, as it is seen from the connection's first frame.
//!
//! PostgreSQL: it sends each answer before it reads the next query. (Redis answers all that it has read at once.)
//!
//! Needs the servers that `scripts/need` installs, and tcpdump with the right to capture on loopback (root, or `sudo
//! -n`).

mod common;

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use common::live::{Capture, directory, free_port};
use common::postgres::{self, message};
use common::truth::{Report, observe_with};
use ogive_wire::{Options, protocol};

const DEPTH: usize = 4;
const QUERIES: usize = 160;

/// Sleeps in the server, so that it always owes answers.
fn query(number: usize) -> Vec<u8> {
    message(b'Q', format!("SELECT pg_sleep(0.00{})\0", 2 + number % 3).as_bytes())
}

fn pairs(report: &Report) -> BTreeSet<(i64, i64)> {
    report.answered.iter().map(|row| (row.request.1, row.response.1)).collect()
}

#[test]
fn a_pipeline_of_postgres_is_never_mispaired() {
    let (directory, port) = (directory("middle"), free_port());
    let _server = postgres::start(&directory, port);
    drop(postgres::login(port));
    let capture = Capture::start(&directory, port);
    let mut client = postgres::login(port);
    let length = client.ask(&query(0), |answer| answer.len() > 5 && answer[answer.len() - 6] == b'Z').len();
    // Answers are all as long, and what was read of the next one is kept.
    let mut rest = 0;
    for number in 0..QUERIES + DEPTH {
        if number >= DEPTH {
            let wanted = length - rest.min(length);
            rest =
                rest.saturating_sub(length) + client.read(|answer| answer.len() >= wanted).len().max(wanted) - wanted;
            std::thread::sleep(Duration::from_micros(number as u64 * 37 % 600));
        }
        if number < QUERIES {
            client.stream.write_all(&query(number)).expect("sent");
        }
    }
    // The login, the first query and the pipeline.
    let (frames, whole) = capture.frames_and_report(|report| report.answered.len() >= QUERIES + 2);
    let truth = pairs(&whole);
    assert_eq!(truth.len(), QUERIES + 2);
    // The roles of a connection seen from its middle are known by the port.
    let ports = vec![(port, protocol::by_name("pgsql").expect("the protocol is in the table"))];
    let options = Options { ports, ..Options::default() };
    let (mut seen, mut wrong) = (0, Vec::new());
    for first in 1..frames.len() {
        let report = observe_with(options.clone(), &frames[first..], 0);
        seen += report.summaries.iter().map(|summary| summary.requests).sum::<u64>();
        let strange = pairs(&report).difference(&truth).count();
        if strange > 0 {
            wrong.push(format!("from frame {first}: {strange} mispaired"));
        }
    }
    assert!(seen > frames.len() as u64, "requests were read, if not reported: {seen}");
    assert!(wrong.is_empty(), "{} of {}: {:?}", wrong.len(), frames.len(), &wrong[..3.min(wrong.len())]);
}
