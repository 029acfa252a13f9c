//! Batches of protocols without an acknowledgement, on their way to the store.
//!
//! Invariants: a batch has one (source, sequence) from its making on and is offered under it until the store has it, so
//! that it counts once, however often the store was busy. Batches go in their order.
//! Threads: one task of the async runtime sends; anybody may add.
//! Limits: a batch that has more series than one may have, or more bytes, goes in parts. `WAITING_BYTES_MAX` of encoded
//! batches wait. What is beyond is given up, the oldest first, and counted as unreadable with the reason
//! `waited_too_long`.
//! Failure: a store that is busy, full or failing is retried each `PAUSE`; at the end, for `LAST_TRIES`.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ogive_model::wire::SERIES_MAX;
use ogive_model::{Batch, BatchId, Sample, Tenant, Value};
use ogive_stream::Cell;
use tokio::sync::{Notify, watch};

use crate::Door;
use crate::backend::Refusal;
use crate::counters::Protocol;
use crate::ingest_path::Publisher;
use crate::submission::stored;

/// 64 MiB: a minute of 30,000 histograms a second.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Samples in a batch: an fsync for 5,000 of them costs each a microsecond.
const BATCH_SAMPLES: usize = 5_000;

/// 8 MiB of a batch's texts and bins: a quarter of the largest frame.
const BATCH_BYTES: usize = 8 << 20;

/// The store empties its queue in some 10 ms; freeing disk space takes an operator.
const PAUSE: Duration = Duration::from_millis(100);

/// At the end a busy store gets this long.
const LAST_TRIES: Duration = Duration::from_secs(5);

/// See the module.
pub struct Outbox {
    door: Arc<Door>,
    protocol: Protocol,
    tenant: Tenant,
    waiting: Mutex<Waiting>,
    more: Notify,
}

/// The waiting batches, the oldest first.
#[derive(Default)]
struct Waiting {
    frames: VecDeque<Frame>,
    bytes: usize,
}

/// An encoded batch.
struct Frame {
    bytes: Vec<u8>,
    samples: u64,
}

impl Waiting {
    fn add(&mut self, frame: Frame) -> u64 {
        self.bytes += frame.bytes.len();
        self.frames.push_back(frame);
        let mut given_up = 0;
        while self.bytes > WAITING_BYTES_MAX && self.frames.len() > 1 {
            given_up += self.take().map_or(0, |frame| frame.samples);
        }
        given_up
    }

    fn take(&mut self) -> Option<Frame> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.bytes.len();
        Some(frame)
    }
}

impl Outbox {
    /// An empty one for samples of `protocol`.
    pub fn new(door: Arc<Door>, protocol: Protocol, tenant: Tenant) -> Arc<Self> {
        Arc::new(Self { door, protocol, tenant, waiting: Mutex::default(), more: Notify::new() })
    }

    /// Whether a sender that can be slowed down may go on: half of the room is free.
    pub fn has_room(&self) -> bool {
        self.lock().bytes < WAITING_BYTES_MAX / 2
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds cells, in batches of a bounded size.
    pub fn add_cells(&self, cells: Vec<Cell>) {
        let series_max = self.door.batch_series_max.max(1);
        let (mut batch, mut bytes) = (Batch::default(), 0);
        for cell in cells {
            bytes += match &cell.value {
                Value::Text(text) => text.len(),
                Value::Histogram(histogram) => 16 * (histogram.positive.len() + histogram.negative.len()),
                _ => 0,
            };
            let series = batch.series.len() as u32;
            batch.series.push(Ok(cell.series));
            batch.samples.push(Ok(Sample { series, time_ns: cell.time.0, start_ns: None, value: cell.value }));
            if batch.samples.len() >= BATCH_SAMPLES.min(series_max) || bytes >= BATCH_BYTES {
                self.add(std::mem::take(&mut batch));
                bytes = 0;
            }
        }
        self.add(batch);
    }

    /// Adds the samples and series of a batch; source, number and tenant are given here.
    pub fn add(&self, batch: Batch) {
        let ledger = self.door.counters.of(self.protocol);
        // Only valid samples can be encoded.
        let samples = batch.samples.len() as u64 - ledger.leave_out(&batch);
        if samples == 0 {
            return;
        }
        let (parts, lost) = parts(batch, &self.tenant, self.door.batch_series_max, || self.door.numbers.next());
        let mut given_up = 0;
        for frame in parts {
            given_up += self.lock().add(frame);
        }
        if given_up > 0 {
            ledger.unreadable("waited_too_long", given_up);
        }
        if lost > 0 {
            ledger.unreadable("too_large", lost);
        }
        self.more.notify_one();
    }

    /// Sends until `ending` is signalled and nothing waits.
    pub async fn run(self: Arc<Self>, mut ending: watch::Receiver<bool>) {
        loop {
            let next = self.lock().take();
            if let Some(frame) = next {
                self.send(frame, &mut ending).await;
                continue;
            }
            if *ending.borrow() {
                return;
            }
            tokio::select! {
                () = self.more.notified() => {}
                _ = ending.changed() => {}
            }
        }
    }

    async fn send(&self, frame: Frame, ending: &mut watch::Receiver<bool>) {
        let mut last_tries = (LAST_TRIES.as_millis() / PAUSE.as_millis()) as usize;
        loop {
            let way = self.door.meters.ingest.begin_made();
            let batch = Batch::decode(&frame.bytes).expect("what was encoded here is a batch");
            match stored(&self.door, self.protocol, batch, frame.bytes.clone(), &way).await {
                Ok(_) => {
                    self.door.meters.ingest.finish(way, Publisher::Of(self.protocol));
                    return;
                }
                // The ledger has counted it as refused, and nothing would change that.
                Err(Refusal::TooLarge(_) | Refusal::UnknownSeries { .. }) => return,
                Err(Refusal::Busy | Refusal::DiskFull(_) | Refusal::Failed(_)) => {}
            }
            if *ending.borrow() {
                last_tries -= 1;
                if last_tries == 0 {
                    self.door.counters.of(self.protocol).unreadable("waited_too_long", frame.samples);
                    return;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The batch in as many frames as it needs, each under a number of its own; and how many samples are too large even
/// alone.
fn parts(
    mut batch: Batch,
    tenant: &Tenant,
    series_max: usize,
    mut number: impl FnMut() -> BatchId,
) -> (Vec<Frame>, u64) {
    batch.tenant = tenant.clone();
    let (mut out, mut lost, mut left) = (Vec::new(), 0, vec![batch]);
    // Numbers without holes: one that a part was too large for is the next one's.
    let mut free = None;
    while let Some(mut batch) = left.pop() {
        let samples = (batch.samples.len() - batch.left_out().count()) as u64;
        let fits = batch.series.len() <= series_max.min(SERIES_MAX);
        let is_one = samples <= 1;
        if fits || is_one {
            batch.set_id(*free.get_or_insert_with(&mut number));
            match batch.encode() {
                Ok(bytes) => {
                    free = None;
                    out.push(Frame { bytes, samples });
                    continue;
                }
                Err(_) if is_one => {
                    lost += samples;
                    continue;
                }
                Err(_) => {}
            }
        }
        let [first, second] = halves(batch);
        left.extend([second, first]);
    }
    (out, lost)
}

/// The valid samples of a batch in two halves, each with the series that it references.
fn halves(batch: Batch) -> [Batch; 2] {
    let Batch { tenant, series, samples, .. } = batch;
    let is_good = |sample: &Sample| matches!(series.get(sample.series as usize), Some(Ok(_)));
    let mut first: Vec<Sample> = samples.into_iter().flatten().filter(is_good).collect();
    let second = first.split_off(first.len() / 2);
    [first, second].map(|samples| {
        let mut half = Batch { tenant: tenant.clone(), ..Batch::default() };
        let mut places = HashMap::new();
        for mut sample in samples {
            sample.series = *places.entry(sample.series).or_insert_with_key(|at| {
                half.series.push(series[*at as usize].clone());
                half.series.len() as u32 - 1
            });
            half.samples.push(Ok(sample));
        }
        half
    })
}

#[cfg(test)]
mod tests {
    use ogive_model::{Kind, SeriesDef, SeriesMeta, SourceId, Temporality};

    use super::*;

    /// A check reported 120,000 values, each with a series of its own: more than a batch may declare. What had been
    /// encoded could not be read again, the task that sends ended with a panic, and no check was heard of from then on.
    #[test]
    fn what_is_too_much_for_one_batch_goes_in_parts() {
        let def = |name: &str, other: &str| {
            let meta =
                SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
            SeriesDef::new([("__name__", name), (other, "x")], meta)
        };
        let check = |count: u32, text: &str, series_max, frames: usize, lost: u64| {
            let sample = |at| {
                Ok(Sample {
                    series: at,
                    time_ns: i64::from(at) + 1,
                    start_ns: None,
                    value: Value::Text(format!("{text}{at}")),
                })
            };
            let batch = Batch {
                series: (0..count).map(|at| def(&format!("m{at}"), "l")).chain([def("twice", "__name__")]).collect(),
                samples: (0..=count).map(sample).collect(),
                ..Batch::default()
            };
            let mut numbers = 0..;
            let number = || BatchId { source: SourceId(7), sequence: numbers.next().unwrap() };
            let (parts, found) = parts(batch, &Tenant::new("t").unwrap(), series_max, number);
            assert_eq!((parts.len(), found), (frames, lost));
            let mut times = Vec::new();
            for (at, part) in parts.iter().enumerate() {
                let batch = Batch::decode(&part.bytes).unwrap();
                assert!(batch.tenant.as_str() == "t" && batch.series.len() <= series_max.min(SERIES_MAX));
                assert_eq!((batch.sequence, batch.samples.len() as u64), (at as u64, part.samples));
                for sample in batch.samples.into_iter().map(Result::unwrap) {
                    let name = batch.series[sample.series as usize].as_ref().unwrap().labels.metric_name().to_owned();
                    assert_eq!(name, format!("m{}", sample.time_ns - 1));
                    times.push(sample.time_ns);
                }
            }
            assert_eq!(times, (1..=i64::from(count) - lost as i64).collect::<Vec<_>>());
        };
        check(10, "x", 11, 1, 0);
        check(10, "x", 10, 2, 0);
        check(10, "x", 3, 4, 0);
        check(SERIES_MAX as u32 + 1, "x", usize::MAX, 2, 0);
        check(40, &"x".repeat((1 << 20) - 2), usize::MAX, 2, 0);
    }

    #[test]
    fn the_oldest_are_given_up_beyond_the_limit() {
        let mut waiting = Waiting::default();
        let frame = |samples| Frame { bytes: vec![0; WAITING_BYTES_MAX / 2], samples };
        assert_eq!((waiting.add(frame(1)), waiting.add(frame(2))), (0, 0));
        assert_eq!(waiting.add(frame(3)), 1);
        assert_eq!(waiting.take().map(|frame| frame.samples), Some(2));
        assert_eq!(waiting.add(frame(4)), 0);
        assert_eq!((waiting.frames.len(), waiting.bytes), (2, WAITING_BYTES_MAX));
    }
}
