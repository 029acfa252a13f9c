//! An exporter in a child of fork. Alone in its process: a fork while another test holds a lock would leave it held for
//! ever.
#![cfg(target_os = "linux")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ogive_export::{Amount, Answer, Error, Exporter, Link, Outcome, State};
use ogive_model::Batch;
use ogive_probe::Recorder;

/// Takes everything, and counts the measurements.
fn link(records: &Arc<AtomicU64>) -> impl Link {
    let records = records.clone();
    move |frame: &[u8], _: Duration| {
        let amount = Amount::from_batch(&Batch::decode(frame).expect("a frame"));
        records.fetch_add(amount.records, Ordering::SeqCst);
        Outcome::Answered(Answer { accepted: Some(amount.samples), duplicate: Some(0), ..Answer::default() })
    }
}

fn start(records: &Arc<AtomicU64>) -> (Exporter, Recorder) {
    let hour = Duration::from_secs(3_600);
    let exporter = Exporter::builder("http://none").interval(hour).start_with(link(records)).expect("it starts");
    let recorder = Recorder::new();
    exporter.cells().recorder("x_seconds", &[], &recorder).expect("a good name");
    (exporter, recorder)
}

/// What the child finds, as a number of the first thing that is wrong.
fn child(exporter: Exporter, recorder: &Recorder, records: &Arc<AtomicU64>) -> i32 {
    recorder.record_ns(5);
    if exporter.status().state != State::Forked {
        return 1;
    }
    if !matches!(exporter.cells().recorder("y_seconds", &[], recorder), Err(Error::Forked { .. })) {
        return 2;
    }
    if exporter.shutdown(Duration::from_secs(3_600)).state != State::Forked {
        return 3;
    }
    let before = records.load(Ordering::SeqCst);
    let (own, recorder) = start(records);
    recorder.record_ns(5);
    let status = own.shutdown(Duration::from_secs(60));
    let is_sent = status.acknowledged.records == 1 && records.load(Ordering::SeqCst) == before + 1;
    if is_sent { 0 } else { 4 }
}

#[test]
fn a_child_has_no_exporter_until_it_starts_one() {
    let records = Arc::new(AtomicU64::new(0));
    let (exporter, recorder) = start(&records);
    recorder.record_ns(5);
    // Until the announcement is sent; then both threads wait for an hour.
    while exporter.status().acknowledged.is_zero() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(500));
    // SAFETY: the child uses no lock that another thread of this process may hold now, and ends with `_exit`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let wrong = child(exporter, &recorder, &records);
        // SAFETY: `_exit` ends the child without its parent's handlers.
        unsafe { libc::_exit(wrong) };
    }
    let mut status = -1;
    // SAFETY: `status` is valid for the call.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0, "the child found something wrong: {}", status >> 8);
    let status = exporter.shutdown(Duration::from_secs(60));
    assert_eq!((status.acknowledged.records, records.load(Ordering::SeqCst)), (1, 1), "the parent goes on alone");
}
