use std::sync::mpsc::{Sender, channel};

use ogive_broker::Options;
use ogive_journal::RealDisk;
use ogive_model::{Kind, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Value, WallMs};

use super::*;

struct Silent;

impl Stamps for Silent {
    fn stamp(&self, _step: Step) {}
}

/// Reports each group.
struct Counting {
    groups: Sender<usize>,
}

impl Owner for Counting {
    fn append(&mut self, spool: &mut Spool, batch: Prepared) -> Result<Appended, SpoolRefusal> {
        spool.append(WallMs(1), batch)
    }

    fn synced(&mut self, _spool: &Spool, _took_ns: u64, is_durable: bool) {
        assert!(is_durable);
    }

    fn durable(&mut self, group: Vec<Committed>) {
        self.groups.send(group.len()).unwrap();
        group.into_iter().for_each(|one| (one.reply)(Ok(one.verdict)));
    }

    fn turn(&mut self, _spool: &mut Spool) {}
}

fn opened(directory: &std::path::Path) -> Spool {
    let options = Options { segment_bytes: 1 << 20, tail_bytes: 1 << 20, mark: 1, first: 0 };
    Spool::open(Arc::new(RealDisk), directory, options).unwrap().0
}

/// With one sample: of a batch without any nothing is written.
fn batch(sequence: u64) -> Batch {
    let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    let sample = Sample { series: 0, time_ns: 1, start_ns: None, value: Value::Float(1.0) };
    let series = vec![Ok(SeriesDef::new([("__name__", "m")], meta).unwrap())];
    Batch { source: SourceId(1), sequence, series, samples: vec![Ok(sample)], ..Batch::default() }
}

fn submit(queue: &Queue, sequence: u64, frame: Option<Vec<u8>>) -> (Result<(), Refusal>, Receiver<u64>) {
    let (sender, receiver) = channel();
    let reply: Reply = Box::new(move |outcome| sender.send(outcome.map_or(u64::MAX, |_| sequence)).unwrap_or(()));
    (queue.submit(batch(sequence), frame, Arc::new(Silent), reply), receiver)
}

#[test]
fn batches_that_wait_together_are_one_group_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let (queue, writer) = Queue::new(opened(directory.path()), Clock::global());
    let waiting: Vec<_> = (1..=5).map(|sequence| submit(&queue, sequence, None)).collect();
    queue.end();
    let (groups, seen) = channel();
    writer.run(Counting { groups });
    assert_eq!(seen.iter().collect::<Vec<_>>(), [5], "one fsync for all");
    for (sequence, (taken, reply)) in (1..=5).zip(waiting) {
        assert_eq!((taken, reply.iter().collect::<Vec<_>>()), (Ok(()), vec![sequence]), "replied to once");
    }
    assert_eq!(opened(directory.path()).board().end(), 5, "all are there at the next start");
    let (late, _) = submit(&queue, 6, None);
    assert!(matches!(late, Err(Refusal::Failed(_))), "{late:?}");
}

#[test]
fn the_queue_is_bounded_in_batches_and_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let (queue, _writer) = Queue::new(opened(directory.path()), Clock::global());
    let mut kept = Vec::new();
    for sequence in 0..QUEUE_BATCHES as u64 {
        let (taken, reply) = submit(&queue, sequence, None);
        assert_eq!(taken, Ok(()));
        kept.push(reply);
    }
    assert_eq!(submit(&queue, 9_999, None).0, Err(Refusal::Busy));

    let other = tempfile::tempdir().unwrap();
    let (queue, _writer) = Queue::new(opened(other.path()), Clock::global());
    let frame = |bytes: u64| Some(vec![0; bytes as usize]);
    assert_eq!(submit(&queue, 1, frame(QUEUE_BYTES_MAX)).0, Ok(()), "at the limit");
    assert_eq!(submit(&queue, 2, frame(1)).0, Err(Refusal::Busy), "one byte above it");
}

#[test]
fn a_spool_that_nobody_needs_shrinks() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = opened(directory.path());
    for (sequence, halves) in [(1, 1), (2, 1), (3, 3)] {
        spool
            .append(WallMs(1), Prepared::new(batch(sequence), vec![7; CAUGHT_UP_BYTES as usize / 2 * halves]))
            .unwrap();
        spool.sync().unwrap();
    }
    let board = spool.board();
    truncate(&mut spool, 1).unwrap();
    assert!(board.segment_of(1).is_some(), "the second is needed");
    truncate(&mut spool, board.end()).unwrap();
    assert_eq!(board.segment_of(2).map(|one| one.range.path), None);
    assert!(board.bytes() <= CAUGHT_UP_BYTES, "{}", board.bytes());
}
