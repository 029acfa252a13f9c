use ogive_hist::Histogram;
use ogive_model::{Kind, SeriesDef, SeriesMeta, Temporality, Value, WallNs};
use proptest::prelude::*;

use super::*;
use crate::Answer;

const SOURCE: SourceId = SourceId(7);

fn cell(time_s: i64, records: u64) -> Measured {
    let meta = SeriesMeta { kind: Kind::Histogram, temporality: Temporality::Delta, unit: "s".into(), width_ms: 1_000 };
    let mut histogram = Histogram::log_linear();
    (0..records).for_each(|_| histogram.record(0.001));
    Measured {
        series: SeriesDef::new([("__name__", "x_seconds")], meta).unwrap(),
        time: WallNs(time_s * 1_000_000_000),
        value: Value::Histogram(Box::new(histogram)),
    }
}

fn later(in_doubt: bool) -> Outcome {
    Outcome::Later { after: None, in_doubt, detail: "away".into() }
}

fn taken(samples: u64) -> Outcome {
    Outcome::Answered(Answer { accepted: Some(samples), duplicate: Some(0), ..Answer::default() })
}

fn conserved(outbox: &Outbox) -> bool {
    let mut sum = outbox.acknowledged;
    sum += outbox.waiting().0;
    outbox.dropped.values().for_each(|dropped| sum += dropped.amount);
    sum == outbox.taken
}

/// A frame of one cell waits with this many bytes.
fn frame_bytes() -> usize {
    let mut outbox = Outbox::new(SOURCE, Tenant::default(), usize::MAX);
    outbox.push(vec![cell(1, 1)]);
    outbox.bytes()
}

fn sequence(frame: &[u8]) -> u64 {
    Batch::decode(frame).unwrap().sequence
}

#[derive(Clone, Debug)]
enum Step {
    Push(u64),
    Taken,
    Away,
    /// The server has it, and the sender does not know.
    AnswerLost,
    Refused,
    Reject,
    Report,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..5_u64).prop_map(Step::Push),
        3 => Just(Step::Taken),
        2 => Just(Step::Away),
        1 => Just(Step::AnswerLost),
        1 => Just(Step::Refused),
        1 => Just(Step::Reject),
        1 => Just(Step::Report),
    ]
}

/// What a server would hold: records by number, each number once.
#[derive(Default)]
struct Server {
    seen: std::collections::BTreeMap<u64, (Vec<u8>, u64)>,
}

impl Server {
    fn take(&mut self, frame: &[u8]) -> Result<(), TestCaseError> {
        let batch = Batch::decode(frame).unwrap();
        let next = self.seen.last_key_value().map_or(1, |(last, _)| last + 1);
        prop_assert!(batch.sequence <= next, "numbers that a server sees rise by one: {} after {next}", batch.sequence);
        let records = Amount::from_batch(&batch).records;
        let (bytes, _) = self.seen.entry(batch.sequence).or_insert_with(|| (frame.to_vec(), records));
        prop_assert_eq!(&bytes[..], frame, "one number is one batch");
        Ok(())
    }

    fn records(&self) -> u64 {
        self.seen.values().map(|(_, records)| records).sum()
    }
}

proptest! {
    /// Whatever happens: nothing is dropped uncounted, nothing is counted twice, one number has one content, and the
    /// bound holds.
    #[test]
    fn recorded_is_stored_or_dropped(steps in prop::collection::vec(any_step(), 1..80), keep in 0..6_usize) {
        let mut outbox = Outbox::new(SOURCE, Tenant::default(), keep * (frame_bytes() + 8));
        let (mut server, mut recorded, mut time) = (Server::default(), 0, 0);
        for step in steps {
            time += 1;
            match step {
                Step::Push(records) => {
                    recorded += records;
                    outbox.push(vec![cell(time, records)]);
                    // One frame may be beyond the bound: the one that a server may have.
                    let in_doubt = usize::from(!outbox.waiting().1.is_zero());
                    prop_assert!(outbox.bytes() <= outbox.keep_bytes + in_doubt * (frame_bytes() + 8));
                }
                Step::Report => {
                    let report = outbox.unreported();
                    // Its own cell stands for the counters.
                    recorded += u64::from(!report.is_empty());
                    let values = if report.is_empty() { Vec::new() } else { vec![cell(time, 1)] };
                    outbox.push_report(values, report);
                }
                step => {
                    let Some(frame) = outbox.begin() else { continue };
                    if !matches!(step, Step::Away) {
                        server.take(&frame)?;
                    }
                    let number = sequence(&frame);
                    let outcome = match step {
                        Step::Taken => taken(1),
                        Step::Away => later(false),
                        Step::AnswerLost => later(true),
                        Step::Refused => {
                            server.seen.get_mut(&number).unwrap().1 = 0;
                            Outcome::Refused { reason: "status_400".into(), detail: String::new() }
                        }
                        _ => {
                            server.seen.get_mut(&number).unwrap().1 = 0;
                            let rejected = vec![(0, "time_too_new".into())];
                            let (accepted, duplicate) = (Some(0), Some(0));
                            Outcome::Answered(Answer { accepted, duplicate, rejected, error: None })
                        }
                    };
                    outbox.end(outcome);
                }
            }
            prop_assert!(conserved(&outbox));
        }
        while let Some(frame) = outbox.begin() {
            server.take(&frame)?;
            outbox.end(taken(1));
        }
        let dropped: u64 = outbox.dropped.values().map(|dropped| dropped.amount.records).sum();
        prop_assert_eq!(server.records() + dropped, recorded);
        prop_assert_eq!(outbox.sequence(), server.seen.len() as u64);
    }
}

#[test]
fn the_oldest_makes_room_and_the_next_takes_its_number() {
    let mut outbox = Outbox::new(SOURCE, Tenant::default(), 2 * frame_bytes());
    (1..=2).for_each(|time| outbox.push(vec![cell(time, 10)]));
    assert_eq!(sequence(&outbox.begin().unwrap()), 1);
    outbox.end(later(false));
    assert!(outbox.dropped.is_empty(), "two are within the bound");
    outbox.push(vec![cell(3, 10)]);
    let dropped = &outbox.dropped[DROPPED_BOUND];
    assert_eq!(dropped.amount, Amount { batches: 1, samples: 1, cells: 1, records: 10 });
    assert_eq!(dropped.span, Some(SampleSpan::at(WallMs(1_000))));
    let frame = outbox.begin().unwrap();
    let batch = Batch::decode(&frame).unwrap();
    assert_eq!((batch.sequence, batch.samples[0].as_ref().unwrap().time_ns), (1, 2_000_000_000), "no gap");
    outbox.end(taken(1));
    assert_eq!(sequence(&outbox.begin().unwrap()), 2);
}

#[test]
fn what_a_server_may_have_is_kept_until_it_has_spoken() {
    let mut outbox = Outbox::new(SOURCE, Tenant::default(), 2 * frame_bytes());
    outbox.push(vec![cell(1, 10)]);
    let frame = outbox.begin().unwrap();
    outbox.end(later(true));
    (2..=4).for_each(|time| outbox.push(vec![cell(time, 10)]));
    let span = SampleSpan { first: WallMs(2_000), last: WallMs(3_000) };
    assert_eq!(outbox.dropped[DROPPED_BOUND].span, Some(span));
    assert_eq!(outbox.begin().unwrap(), frame, "the same bytes");
    outbox.end(taken(1));
    outbox.close();
    assert_eq!((outbox.dropped[DROPPED_SHUTDOWN].amount.records, outbox.is_empty(), outbox.bytes()), (10, true, 0));
    assert!(conserved(&outbox));
}

#[test]
fn single_samples_that_are_refused_are_counted_by_the_servers_reason() {
    let mut outbox = Outbox::new(SOURCE, Tenant::default(), usize::MAX);
    outbox.push(vec![cell(1, 1), cell(2, 20), cell(3, 300)]);
    outbox.begin();
    let rejected = vec![(1, "time_too_old".into()), (1, "time_too_old".into()), (9, "x".into())];
    let ended = outbox.end(Outcome::Answered(Answer { accepted: Some(0), duplicate: Some(0), rejected, error: None }));
    assert!(matches!(ended, AttemptOutcome::Dropped { .. }), "{ended:?}");
    assert_eq!(outbox.dropped["time_too_old"].amount, Amount { batches: 0, samples: 1, cells: 1, records: 20 });
    assert_eq!(outbox.acknowledged, Amount { batches: 1, samples: 2, cells: 2, records: 301 });
    assert!(conserved(&outbox));
}

#[test]
fn an_answer_to_something_else_acknowledges_nothing() {
    let mut outbox = Outbox::new(SOURCE, Tenant::default(), usize::MAX);
    outbox.push(vec![cell(1, 1)]);
    let frame = outbox.begin().unwrap();
    assert!(matches!(outbox.end(taken(2)), AttemptOutcome::Again { .. }));
    assert_eq!((outbox.begin().unwrap(), outbox.acknowledged), (frame, Amount::default()));
}

#[test]
fn many_samples_travel_in_several_batches_and_large_ones_too() {
    let mut outbox = Outbox::new(SOURCE, Tenant::default(), usize::MAX);
    outbox.push((0..=BATCH_SAMPLES_MAX as i64).map(|time| cell(time, 1)).collect());
    assert_eq!((outbox.waiting().0.batches, outbox.waiting().0.samples), (2, BATCH_SAMPLES_MAX as u64 + 1));
    let text = |bytes: usize| Measured {
        series: SeriesDef { meta: SeriesMeta { kind: Kind::Text, ..cell(1, 1).series.meta }, ..cell(1, 1).series },
        time: WallNs(0),
        value: Value::Text("x".repeat(bytes)),
    };
    let mut outbox = Outbox::new(SOURCE, Tenant::default(), usize::MAX);
    outbox.push(vec![text(20 << 20), text(33 << 20), text(20 << 20)]);
    assert_eq!((outbox.waiting().0.batches, outbox.dropped[DROPPED_TOO_LARGE].amount.samples), (2, 1));
    assert!(conserved(&outbox));
}

#[test]
fn what_was_dropped_is_reported_once_also_when_the_report_is_dropped() {
    let mut outbox = Outbox::new(SOURCE, Tenant::default(), frame_bytes());
    (1..=3).for_each(|time| outbox.push(vec![cell(time, 10)]));
    let report = outbox.unreported();
    assert_eq!(report[0].1.records, 20);
    outbox.push_report(vec![cell(3, 1)], report);
    assert!(outbox.unreported().is_empty() && !outbox.is_empty());
    outbox.push(vec![cell(4, 10)]);
    assert_eq!(
        outbox.unreported()[0].1.records,
        20 + 10 + 1,
        "the report is among what is dropped, and reported again"
    );
}
