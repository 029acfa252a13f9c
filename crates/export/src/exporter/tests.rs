use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ogive_model::Batch;
use ogive_probe::Recorder;

use super::*;
use crate::{Answer, Outcome};

/// A server in memory: takes each number once, or is away.
#[derive(Clone, Default)]
struct Server {
    batches: Arc<Mutex<BTreeMap<u64, Batch>>>,
    is_away: Arc<AtomicBool>,
    answers_lost: Arc<AtomicBool>,
}

impl Server {
    fn send(&self, frame: &[u8]) -> Outcome {
        let later = |in_doubt| Outcome::Later { after: None, in_doubt, detail: "away".into() };
        if self.is_away.load(Ordering::SeqCst) {
            return later(false);
        }
        let batch = Batch::decode(frame).unwrap();
        let samples = batch.samples.len() as u64;
        let is_new = lock(&self.batches).insert(batch.sequence, batch).is_none();
        if self.answers_lost.load(Ordering::SeqCst) {
            return later(true);
        }
        let (accepted, duplicate) = if is_new { (samples, 0) } else { (0, samples) };
        Outcome::Answered(Answer { accepted: Some(accepted), duplicate: Some(duplicate), ..Answer::default() })
    }

    fn link(&self) -> impl Link {
        let server = self.clone();
        move |frame: &[u8], _: Duration| server.send(frame)
    }

    fn records(&self) -> u64 {
        lock(&self.batches).values().map(|batch| Amount::from_batch(batch).records).sum()
    }

    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let mut sum = 0.0;
        for batch in lock(&self.batches).values() {
            for sample in batch.samples.iter().flatten() {
                let series = &batch.series[sample.series as usize].as_ref().unwrap().labels;
                if series.metric_name() == name
                    && labels.iter().all(|(name, value)| series.get(name) == *value)
                    && let Value::Float(value) = sample.value
                {
                    sum += value;
                }
            }
        }
        sum
    }
}

fn builder() -> Builder {
    Exporter::builder("http://nowhere").interval(Duration::from_millis(10)).log(|_| ())
}

fn start(server: &Server) -> (Exporter, Recorder) {
    let exporter = builder().start_with(server.link()).unwrap();
    let recorder = Recorder::new();
    exporter.cells().recorder("x_seconds", &[], &recorder).unwrap();
    (exporter, recorder)
}

fn conserved(status: &Status) -> bool {
    let mut sum = status.acknowledged;
    sum += status.waiting;
    sum += status.dropped_sum();
    sum == status.taken
}

fn eventually(what: &str, done: impl Fn() -> bool) {
    let turns = (0..3_000).find(|_| {
        std::thread::sleep(Duration::from_millis(5));
        done()
    });
    assert!(turns.is_some(), "{what}");
}

#[test]
fn every_record_arrives_once_the_last_cell_included() {
    let server = Server::default();
    let (exporter, recorder) = start(&server);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let writer = recorder.handle();
            scope.spawn(move || {
                for at in 0..20_000 {
                    writer.record_ns(at);
                    if at % 1_000 == 0 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            });
        }
    });
    let status = exporter.shutdown(Duration::from_secs(30));
    assert_eq!((server.records(), status.acknowledged.records), (60_000, 60_000), "{status:?}");
    assert_eq!((status.state, status.waiting), (State::Stopped, Amount::default()));
    assert!(conserved(&status) && status.dropped.is_empty());
    let numbers: Vec<u64> = lock(&server.batches).keys().copied().collect();
    assert_eq!(numbers, (1..=status.sequence).collect::<Vec<_>>());
}

#[test]
fn a_server_that_comes_back_gets_what_waited() {
    let server = Server::default();
    server.is_away.store(true, Ordering::SeqCst);
    let (exporter, recorder) = start(&server);
    for _ in 0..10 {
        recorder.record_ns(5);
        std::thread::sleep(Duration::from_millis(10));
    }
    let status = exporter.status();
    assert!(conserved(&status) && status.acknowledged.is_zero() && status.sequence == 0, "{status:?}");
    eventually("an attempt failed", || exporter.status().failures > 0);
    assert_eq!(exporter.status().last_error.as_deref(), Some("away"));
    server.is_away.store(false, Ordering::SeqCst);
    let status = exporter.shutdown(Duration::from_secs(30));
    assert_eq!((server.records(), status.dropped_sum()), (10, Amount::default()), "{status:?}");
}

#[test]
fn lost_answers_count_nothing_twice() {
    let server = Server::default();
    server.answers_lost.store(true, Ordering::SeqCst);
    let (exporter, recorder) = start(&server);
    recorder.record_ns(5);
    eventually("the server has it", || !lock(&server.batches).is_empty());
    eventually("the sender is in doubt", || !exporter.status().in_doubt.is_zero());
    server.answers_lost.store(false, Ordering::SeqCst);
    recorder.record_ns(5);
    let status = exporter.shutdown(Duration::from_secs(30));
    assert_eq!((server.records(), status.acknowledged.records), (2, 2));
}

#[test]
fn the_bound_drops_the_oldest_counts_them_and_tells_the_server() {
    let server = Server::default();
    server.is_away.store(true, Ordering::SeqCst);
    let exporter = builder().keep_bytes(3_000).tenant("team").label("service", "t").start_with(server.link()).unwrap();
    let recorder = Recorder::new();
    exporter.cells().recorder("x_seconds", &[], &recorder).unwrap();
    let recorded = AtomicU64::new(0);
    eventually("ten batches are dropped, and the rest is within the bound", || {
        recorder.record_ns(5);
        recorded.fetch_add(1, Ordering::Relaxed);
        // A report of what was dropped makes no room itself: the cell after it does.
        let status = exporter.status();
        status.dropped_sum().batches >= 10 && status.waiting_bytes <= 3_000
    });
    server.is_away.store(false, Ordering::SeqCst);
    let status = exporter.shutdown(Duration::from_secs(30));
    let dropped = status.dropped_sum();
    assert_eq!(server.records() + dropped.records, recorded.into_inner(), "{status:?}");
    assert!(conserved(&status) && status.waiting.is_zero());
    let span = status.dropped[DROPPED_BOUND].span.unwrap();
    assert!(span.first <= span.last && span.first.0 > 1_700_000_000_000);
    assert!(lock(&server.batches).values().all(|batch| batch.tenant.as_str() == "team"));
    let reported = server.sum(DROPPED_TOTAL, &[("what", "records"), ("reason", "bound"), ("service", "t")]);
    assert_eq!(reported as u64, dropped.records, "the server knows what it did not get");
}

#[test]
fn shutdown_does_not_wait_for_a_server_that_is_away() {
    let server = Server::default();
    server.is_away.store(true, Ordering::SeqCst);
    let (exporter, recorder) = start(&server);
    recorder.record_ns(5);
    let status = exporter.shutdown(Duration::from_millis(50));
    assert_eq!(status.dropped[crate::DROPPED_SHUTDOWN].amount.records, 1, "{status:?}");
    assert!(conserved(&status) && status.waiting.is_zero());
}

#[test]
fn without_time_to_shut_down_everything_is_counted_too() {
    for at in 0..20 {
        // One for each: what is in doubt may still arrive when the next begins.
        let server = Server::default();
        server.is_away.store(at % 2 == 0, Ordering::SeqCst);
        let (exporter, recorder) = start(&server);
        recorder.record_ns(5);
        let status = exporter.shutdown(Duration::ZERO);
        assert!(conserved(&status), "{status:?}");
        assert_eq!((status.taken.records, status.waiting - status.in_doubt), (1, Amount::default()), "{status:?}");
        assert!(server.records() <= 1 - status.dropped_sum().records, "{status:?}");
    }
}

#[test]
fn a_link_or_a_log_that_panics_stops_nothing() {
    let server = Server::default();
    let panics = Arc::new(AtomicU64::new(3));
    let (taker, left) = (server.clone(), panics.clone());
    let link = move |frame: &[u8], _: Duration| {
        let outcome = taker.send(frame);
        let panics = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        assert!(panics.is_err(), "as the test wants");
        outcome
    };
    let exporter = builder().log(|_| panic!("as the test wants")).start_with(link).unwrap();
    let recorder = Recorder::new();
    exporter.cells().recorder("x_seconds", &[], &recorder).unwrap();
    recorder.record_ns(5);
    let status = exporter.shutdown(Duration::from_secs(30));
    assert_eq!((server.records(), status.acknowledged.records, panics.load(Ordering::SeqCst)), (1, 1, 0), "{status:?}");
}

#[test]
fn what_will_never_be_taken_is_given_up_and_reported_once() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let reported = lines.clone();
    let link =
        |_: &[u8], _: Duration| Outcome::Refused { reason: "status_400".into(), detail: "status 400: cut".into() };
    let exporter = builder().log(move |line| lock(&reported).push(line.to_owned())).start_with(link).unwrap();
    let recorder = Recorder::new();
    exporter.cells().recorder("x_seconds", &[], &recorder).unwrap();
    eventually("three batches are refused", || {
        recorder.record_ns(5);
        exporter.status().dropped.get("status_400").is_some_and(|dropped| dropped.amount.batches >= 3)
    });
    let status = exporter.shutdown(Duration::from_secs(30));
    assert!(conserved(&status) && status.acknowledged.is_zero());
    let lines = lock(&lines);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("status 400: cut; sending it again would not help"));
}

#[test]
fn a_child_of_fork_waits_for_nobody_and_says_so() {
    let server = Server::default();
    let (mut exporter, recorder) = start(&server);
    // As in a child: another process started the threads, and one of them holds the lock for ever.
    let shared = exporter.shared.clone();
    let _held = shared.lock();
    let inner = Inner::new(Outbox::new(SourceId(1), Tenant::default(), 0));
    let (stop, work, ended) = (Condvar::new(), Condvar::new(), Condvar::new());
    let child =
        Shared { process: 1, source: shared.source, clock: shared.clock, inner: Mutex::new(inner), stop, work, ended };
    let child = Arc::new(child);
    let _held_by_nobody = child.lock();
    let parents = std::mem::replace(&mut exporter.shared, child.clone());
    assert_eq!(exporter.status().state, State::Forked);
    assert_eq!(exporter.shutdown(Duration::from_secs(1_000)).state, State::Forked);
    drop(_held);
    recorder.record_ns(1);
    Exporter { shared: parents, cells: Cells::new(shared.clock, &[], 10) }.shutdown(Duration::from_secs(30));
    assert_eq!(server.records(), 1, "the parent goes on");
}

#[test]
fn settings_out_of_range_are_refused() {
    let server = Server::default();
    let start = |builder: Builder| builder.start_with(server.link()).map(|_| ());
    assert!(matches!(start(builder().interval(Duration::from_millis(9))), Err(Error::Setting { .. })));
    assert!(matches!(start(builder().interval(Duration::from_millis(3_600_001))), Err(Error::Setting { .. })));
    assert!(matches!(start(builder().tenant("a b")), Err(Error::Setting { .. })));
    assert!(matches!(start(builder().label("", "x")), Err(Error::Series { .. })));
    assert!(matches!(Exporter::builder("host").start(), Err(Error::Address { .. })));
}
