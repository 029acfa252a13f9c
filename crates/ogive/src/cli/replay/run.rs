//! Passes of a recorded journal through the parts of ingest, and what they cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use ogive_journal::SimulatedDisk;
use ogive_model::{Batch, Ns, WallNs};
use ogive_probe::{Clock, process_cpu_ns, thread_cpu_ns};
use ogive_store::{Options as StoreOptions, Refusal, Store};
use ogive_stream::cells::{self, Closed, Content, Counts, Fed, Feeder, Item, Wait, stream};

use super::allocations::{Allocated, counted};
use super::recorded::Recorded;

/// 8,192 places of 48 bytes a ring: a thousandth of a second at the fastest.
const RING_PLACES: usize = 8_192;

/// 10 minutes at most are slept between two frames of a replay with its timing: a recording may have holes of days.
const PAUSE_MAX: Duration = Duration::from_secs(600);

/// How to replay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplayOptions {
    pub(crate) feeders: usize,
    pub(crate) shards: usize,
    pub(crate) passes: u32,
    /// Seed of the order, when it is not that of the journal.
    pub(crate) shuffle: Option<u64>,
    /// The speed as a multiple of the recorded one; None for as fast as possible.
    pub(crate) speed: Option<f64>,
    /// Only rings and tables, without decoding.
    pub(crate) is_bare: bool,
    /// The clock follows the arrivals, and cells close by it as they did then.
    pub(crate) by_arrival: bool,
    /// What threads do while there is no input.
    pub(crate) wait: Wait,
}

/// The cost of passes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cost {
    /// Items that were fed in the passes that count.
    pub(crate) items: u64,
    pub(crate) passed: u64,
    pub(crate) ahead: u64,
    pub(crate) wall_ns: u64,
    /// CPU time of the threads that decode, and of the shards'.
    pub(crate) feeders_cpu_ns: u64,
    pub(crate) shards_cpu_ns: u64,
    pub(crate) counts: Counts,
    pub(crate) series: usize,
    pub(crate) table_bytes: usize,
    pub(crate) cells: u64,
    /// Allocations of the decoding threads and of the shards, if they are counted.
    pub(crate) feeders_allocated: Option<Allocated>,
    pub(crate) shards_allocated: Option<Allocated>,
}

impl Cost {
    /// Million items a second of CPU time, all threads together.
    pub(crate) fn per_core(&self) -> f64 {
        self.items as f64 * 1e3 / (self.feeders_cpu_ns + self.shards_cpu_ns).max(1) as f64
    }

    /// Million items a second.
    pub(crate) fn per_second(&self) -> f64 {
        self.items as f64 * 1e3 / self.wall_ns.max(1) as f64
    }
}

/// xorshift64*: a reproducible order for each seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((u128::from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)) * end as u128) >> 64) as usize
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

/// Decodes everything once and drops it: CPU time and items.
pub(crate) fn decode_only(recorded: &Recorded) -> anyhow::Result<(u64, u64)> {
    let (mut items, mut count) = (Vec::new(), 0);
    let from = thread_cpu_ns();
    for frame in &recorded.frames {
        items.clear();
        count += recorded.items(frame, 0, &mut items).context("a frame that was read before")?.1.items;
        std::hint::black_box(&items);
    }
    Ok((thread_cpu_ns() - from, count))
}

/// Counts cells; the minimum that a consumer does.
struct Tally {
    cells: u64,
    sum: f64,
}

impl cells::Sink for Tally {
    fn cell(&mut self, closed: &Closed<'_>) {
        self.cells += 1;
        self.sum += match closed.content {
            Content::Numbers(cell) => cell.sum,
            Content::Values(cell) => cell.count() as f64,
        };
    }
}

/// Decode and quantizer: `how.passes` passes, each shifted by the recorded duration relative to the previous one, after
/// one that fills the tables and is not counted. With the recorded timing there is only that one pass, and it counts.
pub(crate) fn quantize(recorded: &Recorded, how: ReplayOptions) -> anyhow::Result<Cost> {
    let options = cells::Options {
        // Nothing is too late, and only the sources give the time.
        lateness: Ns::MAX,
        patience: None,
        ahead: Ns::MAX,
        series_max: 16 << 20,
        cells_max: 64 << 20,
        ..cells::Options::default()
    };
    let options = if how.by_arrival {
        cells::Options { series_max: options.series_max, ..cells::Options::default() }
    } else {
        options
    };
    let sinks = (0..how.shards).map(|_| Tally { cells: 0, sum: 0.0 });
    let (feeders, workers) = stream(options, how.wait, how.feeders, RING_PLACES, sinks);
    let wall = Clock::global();
    let (measured, barrier) = (AtomicU64::new(0), std::sync::Barrier::new(how.feeders));
    let outcome = std::thread::scope(|scope| {
        let shards: Vec<_> = workers
            .into_iter()
            .map(|worker| {
                let worker = if how.is_bare { worker.bare() } else { worker };
                let measured = &measured;
                scope.spawn(move || drive(worker, measured))
            })
            .collect();
        let threads: Vec<_> = feeders
            .into_iter()
            .enumerate()
            .map(|(at, feeder)| {
                let (barrier, measured) = (&barrier, &measured);
                scope.spawn(move || feed(recorded, how, at, feeder, barrier, measured))
            })
            .collect();
        let fed: anyhow::Result<Vec<_>> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        let shards: Vec<_> = shards.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        fed.map(|fed| (fed, shards))
    });
    let (fed, shards) = outcome?;
    let nothing = Some(Allocated::default());
    let mut cost = Cost { feeders_allocated: nothing, shards_allocated: nothing, ..Cost::default() };
    for (of_feeder, began) in &fed {
        cost.items += of_feeder.items;
        cost.passed += of_feeder.passed;
        cost.ahead += of_feeder.ahead;
        cost.feeders_cpu_ns += of_feeder.cpu_ns;
        cost.feeders_allocated = Allocated::with(cost.feeders_allocated, of_feeder.allocated);
        cost.wall_ns = cost.wall_ns.max(wall.now().saturating_sub(*began));
    }
    for shard in shards {
        cost.shards_cpu_ns += shard.cpu_ns;
        cost.shards_allocated = Allocated::with(cost.shards_allocated, shard.allocated);
        cost.counts.add(&shard.counts);
        cost.series += shard.series;
        cost.table_bytes += shard.table_bytes;
        cost.cells += shard.cells;
    }
    Ok(cost)
}

struct OfShard {
    cpu_ns: u64,
    allocated: Option<Allocated>,
    counts: Counts,
    series: usize,
    table_bytes: usize,
    cells: u64,
}

/// Works until every feeder is gone; counts its CPU time and allocations from the first counted pass on.
fn drive(mut worker: cells::Worker<Tally>, measured: &AtomicU64) -> OfShard {
    // ORDERING: Relaxed; when the count begins need not be exact to the turn.
    turns(&mut worker, || measured.load(Ordering::Relaxed) > 0);
    let from = thread_cpu_ns();
    let ((), allocated) = counted(|| turns(&mut worker, || false));
    let cpu_ns = thread_cpu_ns() - from;
    let cells = worker.sink().cells;
    let shard = worker.shard();
    let (counts, series, table_bytes) = (shard.counts(), shard.series(), shard.table_bytes());
    OfShard { cpu_ns, allocated, counts, series, table_bytes, cells }
}

/// Takes turns until every feeder is gone, or `is_done`.
fn turns(worker: &mut cells::Worker<Tally>, is_done: impl Fn() -> bool) {
    while !is_done() {
        if worker.turn() == 0 {
            if worker.is_over() {
                return;
            }
            std::thread::yield_now();
        }
    }
}

#[derive(Clone, Copy, Default)]
struct OfFeeder {
    items: u64,
    passed: u64,
    /// Refused: further ahead of their arrival than may be.
    ahead: u64,
    cpu_ns: u64,
    allocated: Option<Allocated>,
}

/// A feeder on its way through its part of the journal.
struct Feeding<'a> {
    recorded: &'a Recorded,
    how: ReplayOptions,
    feeder: Feeder,
    random: Option<Random>,
    /// Its frames.
    order: Vec<usize>,
    items: Vec<Item>,
    /// The newest time so far: the samples' own times are the clock.
    now: WallNs,
    cost: OfFeeder,
}

/// Feeds every n-th frame, in each pass; returns the cost and when the first counted pass began.
fn feed(
    recorded: &Recorded,
    how: ReplayOptions,
    at: usize,
    feeder: Feeder,
    barrier: &std::sync::Barrier,
    measured: &AtomicU64,
) -> anyhow::Result<(OfFeeder, u64)> {
    let seeded = |seed: u64| Random(seed.wrapping_add(at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let order = (at..recorded.frames.len()).step_by(how.feeders).collect();
    let (random, items, cost) = (how.shuffle.map(seeded), Vec::new(), OfFeeder::default());
    let mut feeding = Feeding { recorded, how, feeder, random, order, items, now: WallNs(0), cost };
    let (warm, passes) = if how.speed.is_none() { (1, 1 + how.passes) } else { (0, 1) };
    // An error here would leave the other threads at the barrier.
    let warmed = (0..warm).try_for_each(|pass| feeding.pass(pass));
    barrier.wait();
    warmed?;
    // ORDERING: Relaxed; see `drive`.
    measured.store(1, Ordering::Relaxed);
    feeding.cost = OfFeeder::default();
    let (began, from) = (Clock::global().now(), thread_cpu_ns());
    let (fed, allocated) = counted(|| (warm..passes).try_for_each(|pass| feeding.pass(pass)));
    fed?;
    let Feeding { feeder, cost, .. } = feeding;
    let cost = OfFeeder { cpu_ns: thread_cpu_ns() - from, allocated, ..cost };
    let Fed { skipped, ahead, .. } = feeder.finish();
    assert!(
        skipped == 0 && (ahead == 0 || how.by_arrival),
        "a replay waits, and no sample is ahead of the end of time"
    );
    let cost = OfFeeder { ahead, ..cost };
    Ok((cost, began))
}

impl Feeding<'_> {
    /// Feeds its frames once.
    fn pass(&mut self, pass: u32) -> anyhow::Result<()> {
        let Self { recorded, how, feeder, random, order, items, now, cost } = self;
        if let Some(random) = random {
            random.shuffle(order);
        }
        let shift_ns = i64::from(pass).saturating_mul(recorded.span_ns());
        let clock = Clock::global();
        let started = clock.now();
        for frame in order {
            items.clear();
            let (source, decoded) = recorded.items(&recorded.frames[*frame], shift_ns, items)?;
            if let Some(speed) = how.speed {
                let arrival = how.by_arrival.then(|| recorded.arrivals[*frame]);
                pace(items, recorded, arrival, speed, clock.now().saturating_sub(started));
            }
            if let Some(random) = random {
                random.shuffle(items);
            }
            cost.items += decoded.items;
            cost.passed += decoded.passed;
            if how.by_arrival {
                *now = (*now).max(WallNs(recorded.arrivals[*frame].saturating_add(shift_ns)));
                // The clock has closed the cells that it had closed when this frame arrived.
                feeder.tick(*now);
                feeder.feed(source, items.drain(..), *now);
            } else if how.shuffle.is_some() {
                feeder.feed_unordered(items.drain(..));
            } else {
                *now = items.iter().map(|item| WallNs(item.time_ns)).fold(*now, WallNs::max);
                feeder.feed(source, items.drain(..), *now);
            }
        }
        if how.shuffle.is_some() {
            feeder.until(WallNs(recorded.last_ns.saturating_add(shift_ns).saturating_add(1)));
        }
        Ok(())
    }
}

/// Sleeps until a frame is due: by its arrival, or by the newest of `items`.
fn pace(items: &[Item], recorded: &Recorded, arrival: Option<i64>, speed: f64, passed_ns: u64) {
    let first_ns = arrival.map_or(recorded.first_ns, |_| recorded.arrivals[0]);
    let Some(newest_ns) = arrival.or_else(|| items.iter().map(|item| item.time_ns).max()) else { return };
    let due_ns = (newest_ns.saturating_sub(first_ns) as f64 / speed) as u64;
    std::thread::sleep(Duration::from_nanos(due_ns.saturating_sub(passed_ns)).min(PAUSE_MAX));
}

/// The cost of a temporary store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoreCost {
    pub(crate) samples: u64,
    pub(crate) accepted: u64,
    /// CPU time of the whole process during that.
    pub(crate) cpu_ns: u64,
    pub(crate) head_bytes: u64,
}

/// The probe's clock, fixed at the end of the recording.
struct FixedClock(i64);

impl ogive_store::Clock for FixedClock {
    fn now(&self) -> ogive_model::MonoNs {
        ogive_model::MonoNs(Clock::global().now())
    }

    fn wall(&self) -> WallNs {
        WallNs(self.0)
    }
}

/// 64 batches wait for their verdict at a time: enough that the journal's groups are full.
const WAITING_MAX: usize = 64;

/// Decode and head: everything once into a store whose disk is memory.
pub(crate) fn head(recorded: &Recorded) -> anyhow::Result<StoreCost> {
    let options = StoreOptions {
        head_bytes_max: 4 << 30,
        flush_interval: Duration::from_secs(86_400),
        // One flush of texts unpacks them: not more than some GiB at once.
        replay_bytes_max: 1 << 30,
        series_max: 16 << 20,
        tenant_limits: ogive_store::TenantLimits::NONE,
        ..StoreOptions::default()
    };
    let clock = Arc::new(FixedClock(recorded.last_ns.saturating_add(1_000_000_000)));
    let store = Store::open(Arc::new(SimulatedDisk::new(1)), std::path::Path::new("replay"), options, clock)?;
    let (sender, verdicts) = std::sync::mpsc::channel();
    let (mut headed, mut waiting, from) = (StoreCost::default(), 0_usize, process_cpu_ns().unwrap_or(0));
    let mut declared = std::collections::HashSet::new();
    for frame in &recorded.frames {
        let mut batch = Batch::decode(frame).context("a frame that was read before")?;
        headed.samples += batch.samples.len() as u64;
        // The first batch that names a series declares it.
        if batch.known.iter().any(|id| !declared.contains(id)) {
            declared.extend(batch.known.iter().copied());
            batch = recorded.declared(batch);
        }
        loop {
            let sender = sender.clone();
            let reply: ogive_store::Reply = Box::new(move |outcome| _ = sender.send(outcome));
            match store.submit(batch.clone(), reply) {
                Ok(()) => break,
                Err(Refusal::Busy) => std::thread::sleep(Duration::from_millis(1)),
                Err(refusal) => return Err(refusal.into()),
            }
        }
        waiting += 1;
        while waiting > WAITING_MAX {
            headed.accepted += verdicts.recv()??.accepted;
            waiting -= 1;
        }
    }
    for _ in 0..waiting {
        headed.accepted += verdicts.recv()??.accepted;
    }
    (headed.cpu_ns, headed.head_bytes) =
        (process_cpu_ns().unwrap_or(0).saturating_sub(from), store.status().head_bytes);
    Ok(headed)
}
