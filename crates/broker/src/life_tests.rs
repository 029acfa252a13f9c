//! The whole life of a broker on a simulated disk, with power cuts at any write: every acknowledged batch is delivered
//! to each destination at least once or is in a delivered gap, and nothing is delivered that was not sent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ogive_journal::{Disk, Faults, SimulatedDisk};
use ogive_model::{Batch, Kind, Ms, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Tenant, Value, WallMs};
use proptest::prelude::*;

use super::*;

const DIRECTORY: &str = "spool";
const SOURCE: SourceId = SourceId(77);
const LIMITS: Limits = Limits { bytes_max: 9_000, age_max: None };

fn def(name: &str) -> SeriesDef {
    let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    SeriesDef::new([("__name__", name)], meta).unwrap()
}

/// Batch `n`: one sample of a series of its own, every third one by its identity alone.
fn batch(n: u64) -> Batch {
    let def = def(&format!("m{}_of_{n}", "x".repeat((n * 37 % 200) as usize)));
    let sample = Sample { series: 0, time_ns: (n as i64 + 1) * 1_000_000, start_ns: None, value: Value::Float(1.0) };
    let mut batch = Batch { source: SOURCE, sequence: n, samples: vec![Ok(sample)], ..Batch::default() };
    if n % 3 == 2 {
        batch.known.push(def.id(&Tenant::default()))
    } else {
        batch.series.push(Ok(def))
    }
    batch
}

fn bytes(job: &Job) -> usize {
    match job {
        Job::Record(entry, _) => entry.frame.len(),
        Job::Gap { .. } => 0,
    }
}

fn prepared(batch: Batch) -> Prepared {
    let frame = batch.encode().unwrap();
    Prepared::new(batch, frame)
}

/// What the world outside knows; it outlives every process.
#[derive(Default)]
struct World {
    next: u64,
    acknowledged: BTreeSet<u64>,
    /// Of each destination: the batches that it was sent, the gaps by number, and whether a gap may be of more than it
    /// says.
    delivered: [BTreeSet<u64>; 2],
    gaps: [BTreeMap<u64, Batch>; 2],
}

/// A process.
struct Broker {
    disk: Arc<dyn Disk>,
    spool: Spool,
    deliveries: Vec<Delivery>,
    now: WallMs,
}

fn cursor_path(at: usize) -> PathBuf {
    Path::new(DIRECTORY).join(format!("d{at}.cursor"))
}

impl Broker {
    fn open(disk: &SimulatedDisk) -> std::result::Result<Self, Error> {
        let disk: Arc<dyn Disk> = Arc::new(disk.process());
        let cursors = (0..2).map(|at| Cursor::read(&*disk, &cursor_path(at)));
        let cursors: Vec<Option<Cursor>> = cursors.collect::<std::result::Result<_, _>>()?;
        let first = cursors.iter().flatten().map(|cursor| cursor.done.end()).max().unwrap_or(0);
        let options = Options { segment_bytes: 2_000, tail_bytes: 1_500, mark: 5, first };
        let (spool, _) = Spool::open(Arc::clone(&disk), Path::new(DIRECTORY), options)?;
        let board = spool.board();
        let delivery = |(at, cursor)| {
            let order = if at == 0 { Order::Oldest } else { Order::Newest };
            Delivery::new(
                cursor,
                Names::new("b", if at == 0 { "d0" } else { "d1" }),
                order,
                SourceId(900 + at as u128),
                &board,
                0,
            )
        };
        let deliveries = cursors.into_iter().enumerate().map(delivery).collect();
        Ok(Self { disk, spool, deliveries, now: WallMs(1_000_000) })
    }

    /// What the first destination is sent next, over its only connection.
    fn request(&mut self, board: &Board, most: Most) -> Vec<Job> {
        let turn = Turn { now: WallMs(1), connections: 1 };
        self.deliveries[0].next_request(board, &*self.disk, turn, most).unwrap()
    }

    fn append(&mut self, world: &mut World, count: u64) -> std::result::Result<(), Error> {
        let mut open = Vec::new();
        for _ in 0..count {
            let n = world.next;
            world.next += 1;
            self.now += Ms(1);
            let whole = |n| Batch {
                series: vec![Ok(def(&format!("m{}_of_{n}", "x".repeat((n * 37 % 200) as usize))))],
                known: vec![],
                ..batch(n)
            };
            let appended = match self.spool.append(self.now, prepared(batch(n))) {
                Err(Refusal::Unknown(unknown)) => {
                    assert_eq!((n % 3, unknown), (2, vec![0]));
                    // The first time it is declared, later only named.
                    let declared = Batch { sequence: n + 1_000_000, ..whole(n) };
                    self.spool
                        .append(self.now, prepared(Batch { samples: whole(n).samples, ..declared }))
                        .and_then(|_| self.spool.append(self.now, prepared(batch(n))))
                }
                other => other,
            };
            match appended {
                Ok(Appended::New(verdict)) => {
                    assert_eq!((verdict.accepted, verdict.rejected.len()), (1, 0));
                    open.push(n);
                    let again = self.spool.append(self.now, prepared(batch(n)));
                    assert!(matches!(again, Ok(Appended::Duplicate(_))), "{again:?}");
                }
                Ok(other) => panic!("{n} was never sent: {other:?}"),
                Err(_) if self.spool.is_poisoned() => {
                    self.spool.abandon();
                    return Ok(());
                }
                Err(_) => {}
            }
        }
        if self.spool.sync().is_ok() {
            world.acknowledged.extend(open);
        }
        Ok(())
    }

    /// Sends up to `count` jobs; `answer` says what becomes of each.
    fn send(&mut self, world: &mut World, at: usize, count: u32, answer: u8) -> std::result::Result<u32, Error> {
        let board = self.spool.board();
        let delivery = &mut self.deliveries[at];
        let mut jobs = Vec::new();
        // The first destination takes one in a request, the others several.
        let most = Most { jobs: 1 + 3 * at, bytes: 700 };
        while jobs.len() < count as usize {
            let request = delivery.next_request(&board, &*self.disk, Turn { now: self.now, connections: 3 }, most)?;
            let bytes: usize = request.iter().map(bytes).sum();
            assert!(request.len() <= most.jobs && (request.len() <= 1 || bytes <= most.bytes), "{request:?}");
            if request.is_empty() {
                break;
            }
            jobs.extend(request);
        }
        let sent = jobs.len() as u32;
        for (index, job) in jobs.into_iter().enumerate() {
            // What fails may have arrived.
            match &job {
                Job::Record(entry, _) => {
                    let got = Batch::decode(&entry.frame).unwrap();
                    let n = got.sequence % 1_000_000;
                    assert!(got.source == SOURCE && n < world.next, "{got:?} was never sent");
                    let Ok(sent) = &got.series[0] else { panic!("{got:?}") };
                    assert!(sent.labels.metric_name().ends_with(&format!("_of_{n}")));
                    world.delivered[at].insert(n);
                }
                Job::Gap { number, batch } => {
                    if let Some(before) = world.gaps[at].insert(*number, batch.clone()) {
                        assert_eq!(&before, batch, "a gap never changes once it was sent");
                    }
                }
            }
            if (usize::from(answer) >> (index % 8)) & 1 == 0 {
                drop(delivery.acknowledged(&job));
            } else {
                delivery.failed(job, true)
            }
        }
        if answer == 255 {
            delivery.fell_behind(&board);
        }
        Ok(sent)
    }

    fn save(&mut self) -> std::result::Result<(), Error> {
        for (at, delivery) in self.deliveries.iter_mut().enumerate() {
            if let Some(snapshot) = delivery.to_save() {
                self.disk.replace(&cursor_path(at), &snapshot.bytes)?;
                delivery.saved(&snapshot);
            }
        }
        let floor = self.deliveries.iter().map(Delivery::saved_floor).min().unwrap();
        self.spool.truncate_before(floor)
    }

    fn limit(&mut self) -> std::result::Result<(), Error> {
        while let Some((segment, _)) = self.spool.excess(self.now, LIMITS) {
            self.spool.rotate()?;
            let board = self.spool.board();
            for delivery in &mut self.deliveries {
                delivery.give_up(&board, &*self.disk, &segment, GapReason::SpoolBytes, self.now);
            }
            self.save()?;
            if self.spool.board().first() < segment.range.end.0 {
                break;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Step {
    Append(u64),
    Send(usize, u32, u8),
    Save,
    Limit,
    Restart,
    Cut(u64),
    Faults(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..9_u64).prop_map(Step::Append),
        6 => (0..2_usize, 1..12_u32, any::<u8>()).prop_map(|(at, count, answer)| Step::Send(at, count, answer & 0x55)),
        1 => (0..2_usize).prop_map(|at| Step::Send(at, 3, 255)),
        2 => Just(Step::Save),
        2 => Just(Step::Limit),
        1 => Just(Step::Restart),
        2 => (1..40_u64).prop_map(Step::Cut),
        1 => (0..120_u32).prop_map(Step::Faults),
    ]
}

fn reopen(disk: &SimulatedDisk) -> Broker {
    disk.set_faults(Faults::default());
    disk.restart();
    Broker::open(disk).unwrap()
}

fn live(seed: u64, steps: &[Step]) {
    let disk = SimulatedDisk::new(seed);
    let mut world = World::default();
    let mut broker = Broker::open(&disk).unwrap();
    for step in steps {
        let done = match *step {
            Step::Append(count) => broker.append(&mut world, count),
            Step::Send(at, count, answer) => broker.send(&mut world, at, count, answer).map(|_| ()),
            Step::Save => broker.save(),
            Step::Limit => broker.limit(),
            Step::Restart => {
                broker = reopen(&disk);
                Ok(())
            }
            Step::Cut(after) => {
                disk.cut_power_after(after);
                Ok(())
            }
            Step::Faults(rate) => {
                disk.set_faults(Faults { write_error: rate, sync_error: rate, name_error: rate, ..Faults::default() });
                Ok(())
            }
        };
        if done.is_err() && !disk.is_powered() {
            broker = reopen(&disk);
        }
    }
    broker = reopen(&disk);
    // Until both have everything; gaps wait until they are saved.
    loop {
        broker.save().unwrap();
        let sent: u32 = (0..2).map(|at| broker.send(&mut world, at, 50, 0).unwrap()).sum();
        if sent == 0 {
            break;
        }
    }
    for at in 0..2 {
        let gaps = &world.gaps[at];
        let texts: String = gaps.values().map(text).collect::<Vec<_>>().join("\n");
        let reported: f64 = gaps.values().map(count).sum();
        for n in world.acknowledged.difference(&world.delivered[at]) {
            assert!(
                texts.lines().any(|line| line.ends_with(&format!("_of_{n}"))),
                "{n} is neither at {at} nor in {texts}"
            );
        }
        let missing = world.acknowledged.difference(&world.delivered[at]).count();
        assert!(reported >= missing as f64, "{reported} of {missing}");
        let lag = broker.deliveries[at].lag(&broker.spool.board());
        assert_eq!(lag, Lag::default());
    }
    // What nobody needs goes.
    broker.spool.rotate().unwrap();
    broker.save().unwrap();
    broker.save().unwrap();
    assert!(broker.spool.board().segments().len() <= 1, "{:?}", broker.spool.board().segments());
}

fn text(batch: &Batch) -> &str {
    match &batch.samples[1].as_ref().unwrap().value {
        Value::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

fn count(batch: &Batch) -> f64 {
    match &batch.samples[0].as_ref().unwrap().value {
        Value::Float(count) => *count,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 2_000, ..ProptestConfig::default() })]
    #[test]
    fn what_is_acknowledged_is_delivered_or_reported_as_a_gap(seed: u64, steps in prop::collection::vec(step(), 1..80)) {
        live(seed, &steps);
    }
}

#[test]
fn live_data_does_not_wait_for_the_backlog_and_the_backlog_goes_in_its_order() {
    let disk = SimulatedDisk::new(3);
    let (mut world, mut broker) = (World::default(), Broker::open(&disk).unwrap());
    broker.append(&mut world, 60).unwrap();
    let mut broker = reopen(&disk);
    broker.append(&mut world, 3).unwrap();
    let board = broker.spool.board();
    let order = |broker: &mut Broker, at: usize| -> Vec<(u64, Lane)> {
        std::iter::from_fn(|| {
            match broker.deliveries[at].next(&board, &*broker.disk, Turn { now: WallMs(0), connections: 1 }).unwrap()? {
                job @ Job::Record(..) => {
                    let Job::Record(entry, lane) = &job else { unreachable!() };
                    let found = (Batch::decode(&entry.frame).unwrap().sequence, *lane);
                    broker.deliveries[at].acknowledged(&job);
                    Some(found)
                }
                Job::Gap { .. } => panic!("nothing was given up"),
            }
        })
        .collect()
    };
    let oldest = order(&mut broker, 0);
    assert!(oldest[..3].iter().all(|(_, lane)| *lane == Lane::Live), "{oldest:?}");
    let backlog: Vec<u64> = oldest[4..].iter().filter(|(_, lane)| *lane == Lane::Backlog).map(|(n, _)| *n).collect();
    assert!(
        backlog.len() >= 59 && backlog.windows(2).all(|pair| pair[0] % 1_000_000 <= pair[1] % 1_000_000),
        "{backlog:?}"
    );
    let newest = order(&mut broker, 1);
    let backlog: Vec<u64> = newest[4..].iter().filter(|(_, lane)| *lane == Lane::Backlog).map(|(n, _)| *n).collect();
    assert!(backlog.windows(2).all(|pair| pair[0] % 1_000_000 >= pair[1] % 1_000_000), "{backlog:?}");
}

#[test]
fn a_bad_segment_and_refused_batches_are_reported_as_gaps() {
    let disk = SimulatedDisk::new(4);
    let (mut world, mut broker) = (World::default(), Broker::open(&disk).unwrap());
    broker.append(&mut world, 40).unwrap();
    let segment = broker.spool.board().segments()[1].clone();
    let mut broker = reopen(&disk);
    // The first record of the second segment: behind the segment's header and the record's.
    disk.flip_bit(&segment.range.path, (64 + 32) * 8);
    let board = broker.spool.board();
    let mut refused = 0;
    while let Some(job) =
        broker.deliveries[0].next(&board, &*broker.disk, Turn { now: WallMs(5), connections: 1 }).unwrap()
    {
        if matches!(&job, Job::Record(..)) && refused < 2 {
            refused += 1;
            broker.deliveries[0].refused(&job, WallMs(6));
        } else {
            broker.deliveries[0].acknowledged(&job);
        }
    }
    let mut reported: Vec<(GapReason, u64, u64)> =
        broker.deliveries[0].gaps().map(|gap| (gap.why, gap.records, gap.samples)).collect();
    reported.sort_unstable();
    assert_eq!(reported, [(GapReason::Corrupt, 1, 0), (GapReason::Refused, 2, 2)]);
    assert_eq!(broker.deliveries[0].totals().records, 3);
    // They go once the cursor with them is durable.
    broker.save().unwrap();
    assert_eq!(broker.send(&mut world, 0, 10, 0).unwrap(), 1);
    assert_eq!(broker.send(&mut world, 0, 10, 0).unwrap(), 1);
    assert_eq!(world.gaps[0].len(), 2);
}

/// A broker of few batches: its only segment is far from full, and what is in it becomes too old all the same.
#[test]
fn few_batches_become_too_old_too() {
    let options = Options { segment_bytes: 1 << 20, tail_bytes: 1_500, mark: 5, first: 0 };
    let (mut spool, _) = Spool::open(Arc::new(SimulatedDisk::new(5)), Path::new(DIRECTORY), options).unwrap();
    let limits = Limits { bytes_max: u64::MAX, age_max: Some(Ms(16_000)) };
    let mut given_up = 0;
    for second in 0..100 {
        let now = WallMs(second * 1_000);
        spool.append(now, prepared(batch(3 * second as u64))).unwrap();
        spool.sync().unwrap();
        spool.rotate_by_age(now, limits).unwrap();
        while let Some((segment, is_age)) = spool.excess(now, limits) {
            assert!(is_age && segment.positions().end < spool.board().end());
            given_up = segment.positions().end;
            spool.truncate_before(given_up).unwrap();
        }
    }
    // One a second: all but those of 16 s, and of the second that a segment spans.
    assert!((81..=84).contains(&given_up), "{given_up}");
}

/// What a destination is sent until nothing more comes, by the numbers of the batches.
fn drain(broker: &mut Broker, disk: &dyn Disk, now: WallMs) -> Vec<u64> {
    let board = broker.spool.board();
    let mut got = Vec::new();
    while let Some(job) = broker.deliveries[0].next(&board, disk, Turn { now, connections: 1 }).unwrap() {
        if let Job::Record(entry, _) = &job {
            got.push(Batch::decode(&entry.frame).unwrap().sequence % 1_000_000);
        }
        broker.deliveries[0].acknowledged(&job);
    }
    got
}

/// A server answered 500 to one batch, and nothing but that batch was sent to it any more: it was the oldest of what
/// was to be sent again, always. What fails waits longer each time, and everything else goes past it.
#[test]
fn a_batch_that_always_fails_holds_up_no_other() {
    let disk = SimulatedDisk::new(6);
    let (mut world, mut broker) = (World::default(), Broker::open(&disk).unwrap());
    broker.append(&mut world, 40).unwrap();
    let board = broker.spool.board();
    let (mut delivered, mut tries, mut jobs_most) = (BTreeSet::new(), 0, 4);
    for turn in 0..300 {
        if turn == 100 {
            broker.append(&mut world, 20).unwrap();
        }
        let most = Most { jobs: jobs_most, bytes: 10_000 };
        let request = broker.request(&board, most);
        let number = |job: &Job| match job {
            Job::Record(entry, _) => Batch::decode(&entry.frame).unwrap().sequence,
            Job::Gap { .. } => panic!("nothing was given up"),
        };
        // The whole request fails, as that of a server which ends in the middle of it.
        let is_bad = request.iter().any(|job| number(job) == 7);
        tries += u32::from(is_bad);
        for job in request {
            if is_bad {
                broker.deliveries[0].failed(job, true);
            } else {
                delivered.insert(number(&job) % 1_000_000);
                broker.deliveries[0].acknowledged(&job);
            }
        }
        jobs_most = if is_bad { 1 } else { 4 };
    }
    assert_eq!(delivered, (0..60).filter(|n| *n != 7).collect());
    assert!(tries > 10, "it is tried on: {tries}");
    assert_eq!(broker.deliveries[0].lag(&board).records, 1);
}

/// Each of a dozen had failed only a few times, so that one of them was always due: nothing else was sent for minutes.
#[test]
fn many_that_fail_leave_every_second_request_to_the_others() {
    let disk = SimulatedDisk::new(12);
    let (mut world, mut broker) = (World::default(), Broker::open(&disk).unwrap());
    broker.append(&mut world, 12).unwrap();
    let board = broker.spool.board();
    let most = |jobs: usize| Most { jobs, bytes: 1_000_000 };
    let (many, end) = (broker.deliveries[0].lag(&board).records, board.end());
    for _ in 0..2 {
        // All are on their way, and all fail.
        let mut jobs = Vec::new();
        while (jobs.len() as u64) < many {
            jobs.extend(broker.request(&board, most(64)));
        }
        jobs.into_iter().for_each(|job| broker.deliveries[0].failed(job, true));
    }
    broker.append(&mut world, 5).unwrap();
    let others = broker.deliveries[0].lag(&board).records - many;
    let (mut seen, mut requests) = (BTreeSet::new(), 0);
    while (seen.len() as u64) < others {
        for job in broker.request(&board, most(1)) {
            let Job::Record(entry, _) = &job else { panic!("nothing was given up") };
            seen.extend(Some(entry.position).filter(|position| *position >= end));
            broker.deliveries[0].failed(job, true);
        }
        requests += 1;
        assert!(requests < 1_000, "{} of {others} records were sent", seen.len());
    }
    // Each is sent, and sent again at once; then one of the many.
    assert!(requests <= 3 * others + 1, "{requests} requests for {others} records");
}

/// A queue's server that came back after a minute got what had waited one by one, each with the confirmation of its
/// own.
#[test]
fn what_failed_while_nobody_was_there_is_soon_through_when_somebody_is() {
    let disk = SimulatedDisk::new(11);
    let (mut world, mut broker) = (World::default(), Broker::open(&disk).unwrap());
    broker.append(&mut world, 200).unwrap();
    let board = broker.spool.board();
    let most = Most { jobs: 64, bytes: 1_000_000 };
    for _ in 0..100 {
        broker.request(&board, most).into_iter().for_each(|job| broker.deliveries[0].failed(job, true));
    }
    let mut requests = 0;
    while broker.deliveries[0].lag(&board).records > 0 {
        for job in broker.request(&board, most) {
            broker.deliveries[0].acknowledged(&job);
        }
        requests += 1;
    }
    assert!(requests < 20, "{requests}");
}

/// As a batch, so a gap: it was sent before anything else, always.
#[test]
fn a_gap_that_always_fails_holds_up_no_batch() {
    let disk = SimulatedDisk::new(10);
    let (mut world, mut broker) = (World::default(), Broker::open(&disk).unwrap());
    broker.append(&mut world, 40).unwrap();
    broker.limit().unwrap();
    let board = broker.spool.board();
    let (mut delivered, mut tries) = (0, 0);
    for _ in 0..200 {
        match broker.deliveries[0].next(&board, &*broker.disk, Turn { now: WallMs(1), connections: 1 }).unwrap() {
            Some(job @ Job::Gap { .. }) => {
                tries += 1;
                broker.deliveries[0].failed(job, true);
            }
            Some(job) => {
                delivered += 1;
                broker.deliveries[0].acknowledged(&job);
            }
            None => panic!("the gap is to be sent"),
        }
    }
    assert_eq!(delivered, board.end() - board.first());
    assert!(tries > 20, "alone it need not wait: {tries}");
}

/// Somebody removed a file of the spool: what was in it was asked for again and again, in silence, and nothing behind
/// it was sent.
#[test]
fn a_segment_that_somebody_removed_is_reported_as_a_gap() {
    let disk = SimulatedDisk::new(7);
    let (mut world, mut broker) = (World::default(), Broker::open(&disk).unwrap());
    broker.append(&mut world, 40).unwrap();
    let segments = broker.spool.board().segments();
    let mut broker = reopen(&disk);
    broker.disk.remove(&segments[1].range.path).unwrap();
    let lost = segments[1].positions();
    let count = lost.end - lost.start;
    let live = broker.disk.clone();
    let got = drain(&mut broker, &*live, WallMs(5));
    assert_eq!(got.len() as u64 + count, broker.spool.board().end());
    let reported: Vec<(GapReason, u64)> = broker.deliveries[0].gaps().map(|gap| (gap.why, gap.records)).collect();
    assert_eq!(reported, [(GapReason::Missing, count)]);
    // The other destination needs the room: a limit goes past the hole, too.
    broker.limit().unwrap();
    assert!(broker.spool.board().bytes() <= LIMITS.bytes_max);
}

/// A disk that did not give one segment held up all behind it, and kept the spool from being held to its limits.
#[test]
fn a_segment_that_cannot_be_read_is_gone_past_and_given_up_at_a_limit() {
    let disk = SimulatedDisk::new(8);
    let (mut world, mut broker) = (World::default(), Broker::open(&disk).unwrap());
    broker.append(&mut world, 40).unwrap();
    // Whatever a process that is over asks for fails.
    let dead = broker.disk.clone();
    let mut broker = reopen(&disk);
    let board = broker.spool.board();
    let first = board.segments()[0].clone();
    let count = first.positions().end - first.positions().start;
    assert!(broker.deliveries[0].next(&board, &*dead, Turn { now: WallMs(1_000), connections: 1 }).is_err());
    let live = broker.disk.clone();
    let got = drain(&mut broker, &*live, WallMs(2_000));
    assert_eq!(got.len() as u64 + count, board.end());
    assert_eq!(drain(&mut broker, &*live, WallMs(61_000)).len() as u64, count, "it is tried again a minute later");
    let given_up = broker.deliveries[1].give_up(&board, &*dead, &first, GapReason::SpoolBytes, WallMs(3));
    assert_eq!(given_up, count);
    let reported: Vec<(GapReason, u64)> = broker.deliveries[1].gaps().map(|gap| (gap.why, gap.records)).collect();
    assert_eq!(reported, [(GapReason::Corrupt, count)]);
}

/// A batch came with a sample that breaks a rule: its sender was notified, and the destination said the same of it.
/// That is no gap.
#[test]
fn what_its_sender_knows_to_be_refused_is_no_gap() {
    let disk = SimulatedDisk::new(9);
    let (mut world, mut broker) = (World::default(), Broker::open(&disk).unwrap());
    broker.append(&mut world, 2).unwrap();
    let board = broker.spool.board();
    let Some(Job::Record(entry, _)) =
        broker.deliveries[0].next(&board, &*broker.disk, Turn { now: WallMs(1), connections: 1 }).unwrap()
    else {
        panic!()
    };
    broker.deliveries[0].samples_refused(&[5], &entry, WallMs(1));
    assert_eq!(broker.deliveries[0].totals().gaps, 0);
    broker.deliveries[0].samples_refused(&[0], &entry, WallMs(1));
    assert_eq!((broker.deliveries[0].totals().gaps, broker.deliveries[0].totals().samples), (1, 1));
}

/// Whoever knew the source of another tenant's sender could use its numbers first, and its series by their identity:
/// the broker answered the sender's batch as a duplicate, and completed a stranger's with the labels of the sender's
/// series.
#[test]
fn one_tenant_uses_neither_numbers_nor_series_of_another() {
    let mut broker = Broker::open(&SimulatedDisk::new(10)).unwrap();
    let of = |tenant: &str, batch: Batch| Batch { tenant: Tenant::new(tenant).unwrap(), ..batch };
    let mut append = |batch: Batch, is_group_over: bool| {
        let appended = broker.spool.append(WallMs(1), prepared(batch));
        if is_group_over {
            broker.spool.sync().unwrap();
        }
        appended
    };
    for (number, is_group_over) in [(0, false), (1, true)] {
        for tenant in ["team-a", "team-b", "default"] {
            let appended = append(of(tenant, batch(number)), is_group_over);
            assert!(matches!(&appended, Ok(Appended::New(verdict)) if verdict.accepted == 1), "{tenant}: {appended:?}");
            let again = append(of(tenant, batch(number)), is_group_over);
            assert!(matches!(again, Ok(Appended::Duplicate(_))), "{tenant}: {again:?}");
        }
    }
    let secret = def("secret");
    let declaring = Batch { series: vec![Ok(secret.clone())], sequence: 9, ..batch(0) };
    assert!(append(of("team-a", declaring), true).is_ok());
    let naming =
        Batch { series: vec![], known: vec![secret.id(&Tenant::new("team-a").unwrap())], sequence: 10, ..batch(0) };
    assert_eq!(append(of("team-b", naming.clone()), true), Err(Refusal::Unknown(vec![0])));
    assert!(append(of("team-a", naming), true).is_ok());
}

/// A destination that was killed with requests in flight had stored them, and the gap counted them as missing: of the
/// samples of a gap those that may have arrived are known, also after the broker itself was killed.
#[test]
fn what_was_sent_without_an_answer_is_in_doubt_also_after_a_restart() {
    for is_restarted in [false, true] {
        let disk = SimulatedDisk::new(12);
        let (mut world, mut broker) = (World::default(), Broker::open(&disk).unwrap());
        broker.append(&mut world, 60).unwrap();
        let board = broker.spool.board();
        let mut next = || {
            broker.deliveries[1]
                .next_request(
                    &board,
                    &*broker.disk,
                    Turn { now: WallMs(1), connections: 1 },
                    Most { jobs: 1, bytes: 0 },
                )
                .unwrap()
        };
        // The second one takes the last first; what is given up here is the oldest.
        let mut jobs: Vec<Job> = std::iter::repeat_with(&mut next).take(200).flatten().collect();
        let position = |job: &Job| match job {
            Job::Record(entry, _) => entry.position,
            Job::Gap { .. } => panic!("nothing was given up"),
        };
        jobs.sort_by_key(position);
        let mut jobs = jobs.into_iter();
        // Three without an answer, of which one is acknowledged later; two that were not taken for sure; the rest is on
        // its way.
        let (first, second, third) = (jobs.next().unwrap(), jobs.next().unwrap(), jobs.next().unwrap());
        let delivery = &mut broker.deliveries[1];
        for job in [first, second.clone(), third] {
            delivery.failed(job, true);
        }
        delivery.acknowledged(&second);
        for job in jobs.by_ref().take(2) {
            delivery.failed(job, false);
        }
        let on_their_way = jobs.next().map(|job| position(&job)).unwrap();
        jobs.for_each(|job| delivery.put_off(job));
        assert_eq!(on_their_way, 5);
        broker.save().unwrap();
        if is_restarted {
            broker = reopen(&disk);
        }
        let board = broker.spool.board();
        let segments: Vec<SegmentState> =
            board.segments().into_iter().take_while(|segment| segment.positions().start <= 5).collect();
        broker.spool.rotate().unwrap();
        for segment in &segments {
            broker.deliveries[1].give_up(&board, &*broker.disk, segment, GapReason::SpoolBytes, WallMs(9));
        }
        let gaps: Vec<&Gap> = broker.deliveries[1].gaps().collect();
        let in_doubt: u64 = gaps.iter().map(|gap| gap.in_doubt).sum();
        let samples: u64 = gaps.iter().map(|gap| gap.samples).sum();
        assert_eq!(in_doubt, 3, "restarted: {is_restarted}; {gaps:?}");
        assert!(samples >= 5, "{samples}");
    }
}
