//! Rings between the threads that have samples and the shards that own their series.
//!
//! Invariants: what a feeder pushes reaches the shard of its series in that order; a shard acts on a feeder's watermark
//! after everything that the feeder pushed before it. A shard's watermark is the lowest of its feeders', without those
//! that have ended.
//! Threads: one for each feeder and each worker.
//! Limits: the slots of a ring.

use ogive_model::{SeriesId, SourceId, WallNs};
use rtrb::{Consumer, Producer, RingBuffer};

use super::sources::Sources;
use super::wait::WaitInProgress;
use super::{Counts, Item, Options, Shard, Sink, WIDTH_NS, Wait};

/// Messages that a worker takes from one ring before it turns to the next one.
const TURN: usize = 1_024;
const _: () = assert!(TURN <= super::shard::REFUSALS_MAX);

/// A message in a ring.
enum Message {
    Item(Item),
    /// The feeder's watermark.
    Until(WallNs),
}

const _: () = assert!(size_of::<Message>() == size_of::<Item>());

/// What happened to items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fed {
    /// They are on their way to their shards.
    pub fed: u64,
    /// Their ring was full and the caller did not wait.
    pub skipped: u64,
    /// Refused: too far ahead of the clock.
    pub ahead: u64,
}

/// Passes items to the shards; see [`stream`].
pub struct Feeder {
    rings: Vec<Producer<Message>>,
    sources: Sources,
    options: Options,
    wait: Wait,
    reported: WallNs,
    total: Fed,
}

/// One shard behind its rings; see [`stream`].
pub struct Worker<S> {
    rings: Vec<Consumer<Message>>,
    /// Each feeder's watermark; None when it is gone.
    untils: Vec<Option<WallNs>>,
    shard: Shard,
    sink: S,
    items: Vec<Item>,
    wait: Wait,
    is_bare: bool,
}

/// Makes `feeders` feeders and a worker for each of `sinks`, with a ring of `places` between each pair.
///
/// # Panics
/// When there is no feeder, no sink or no slot.
pub fn stream<S: Sink>(
    options: Options,
    wait: Wait,
    feeders: usize,
    places: usize,
    sinks: impl IntoIterator<Item = S>,
) -> (Vec<Feeder>, Vec<Worker<S>>) {
    assert!(feeders > 0 && places > 0, "{feeders} feeders, {places} places");
    let mut rings: Vec<Vec<Producer<Message>>> = (0..feeders).map(|_| Vec::new()).collect();
    let mut workers = Vec::new();
    for sink in sinks {
        let mut consumers = Vec::with_capacity(feeders);
        for rings in &mut rings {
            let (producer, consumer) = RingBuffer::new(places);
            rings.push(producer);
            consumers.push(consumer);
        }
        let (untils, shard, items) = (vec![Some(WallNs(0)); feeders], Shard::new(options), Vec::with_capacity(TURN));
        workers.push(Worker { rings: consumers, untils, shard, sink, items, wait, is_bare: false });
    }
    assert!(!workers.is_empty(), "a stream without shards");
    assert!(rings.iter().all(|rings| rings.len() == workers.len()), "a ring between each two");
    let feeder = |rings| Feeder {
        rings,
        sources: Sources::default(),
        options,
        wait,
        reported: WallNs(0),
        total: Fed::default(),
    };
    (rings.into_iter().map(feeder).collect(), workers)
}

/// The shard, of `shards`, that owns a series: by the half of its identity that its place in a table is not found by.
#[must_use]
#[inline]
pub fn shard_of(series: SeriesId, shards: usize) -> usize {
    let high = u64::from((series.0 >> 96) as u32);
    let shard = ((high * shards as u64) >> 32) as usize;
    debug_assert!(shard < shards, "shard {shard} of {shards}");
    shard
}

impl Feeder {
    /// Sends `items` of `source` to the shards, and waits while a ring is full.
    pub fn feed(&mut self, source: SourceId, items: impl IntoIterator<Item = Item>, now: WallNs) -> Fed {
        self.bring(Some(source), items, now, true)
    }

    /// As [`Feeder::feed`], for unordered items: they do not advance any watermark. [`Feeder::until`] does.
    pub fn feed_unordered(&mut self, items: impl IntoIterator<Item = Item>) -> Fed {
        self.bring(None, items, WallNs::MAX, true)
    }

    /// As [`Feeder::feed_unordered`], but skips and counts items for a full ring.
    pub fn offer_unordered(&mut self, items: impl IntoIterator<Item = Item>) -> Fed {
        self.bring(None, items, WallNs::MAX, false)
    }

    /// As [`Feeder::until`], without waiting: false when a ring was full, and its shard did not receive it.
    pub fn offer_until(&mut self, watermark: WallNs) -> bool {
        let mut all = true;
        for shard in 0..self.rings.len() {
            all &= self.push(shard, Message::Until(watermark), false);
        }
        all
    }

    /// Everything before `watermark` was fed.
    pub fn until(&mut self, watermark: WallNs) {
        for shard in 0..self.rings.len() {
            self.push(shard, Message::Until(watermark), true);
        }
    }

    /// As [`Feeder::feed`], but skips and counts items for a full ring.
    pub fn offer(&mut self, source: SourceId, items: impl IntoIterator<Item = Item>, now: WallNs) -> Fed {
        self.bring(Some(source), items, now, false)
    }

    fn bring(
        &mut self,
        source: Option<SourceId>,
        items: impl IntoIterator<Item = Item>,
        now: WallNs,
        waits: bool,
    ) -> Fed {
        let (mut fed, mut newest_ns) = (Fed::default(), i64::MIN);
        let latest_ns = now.saturating_add(self.options.ahead).0;
        for item in items {
            if item.time_ns > latest_ns {
                fed.ahead += 1;
                continue;
            }
            newest_ns = newest_ns.max(item.time_ns);
            let shard = shard_of(item.series, self.rings.len());
            match self.push(shard, Message::Item(item), waits) {
                true => fed.fed += 1,
                false => fed.skipped += 1,
            }
        }
        assert!(newest_ns <= latest_ns, "what is ahead of {latest_ns} is refused");
        if let Some(source) = source.filter(|_| newest_ns > i64::MIN) {
            self.sources.seen(source, WallNs(newest_ns), now);
        }
        self.total.fed += fed.fed;
        self.total.skipped += fed.skipped;
        self.total.ahead += fed.ahead;
        if source.is_some() {
            self.tick_with(now, waits);
        }
        fed
    }

    /// Advances the clock to `now`: notifies the shards when cells can close. Call it several times a second, even when
    /// nothing is fed.
    pub fn tick(&mut self, now: WallNs) {
        self.tick_with(now, false);
    }

    fn tick_with(&mut self, now: WallNs, waits: bool) {
        let watermark = self.sources.watermark(now, &self.options);
        // Nothing closes within a second's cell.
        if (watermark.0 - 1).div_euclid(WIDTH_NS) == (self.reported.0 - 1).div_euclid(WIDTH_NS) {
            return;
        }
        let reported = (0..self.rings.len()).all(|shard| self.push(shard, Message::Until(watermark), waits));
        // A shard whose ring was full is notified with the next tick; a second notification changes nothing.
        if reported {
            assert!(watermark >= self.reported, "a watermark falls from {} to {watermark}", self.reported);
            self.reported = watermark;
        }
    }

    /// Everything was fed: the cells that it holds open close. For the end of a replay.
    pub fn finish(mut self) -> Fed {
        self.until(WallNs::MAX);
        self.total
    }

    fn push(&mut self, shard: usize, message: Message, waits: bool) -> bool {
        let mut waiting = WaitInProgress::new(self.wait);
        let mut message = message;
        loop {
            match self.rings[shard].push(message) {
                Ok(()) => return true,
                Err(_) if !waits || self.rings[shard].is_abandoned() => return false,
                Err(rtrb::PushError::Full(back)) => message = back,
            }
            waiting.pause();
        }
    }

    /// The totals of everything that was passed to it.
    #[must_use]
    pub const fn total(&self) -> Fed {
        self.total
    }

    /// How many sources send.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.sources.len()
    }
}

impl<S: Sink> Worker<S> {
    /// The same without arithmetic and without cells: only rings and tables, for measurements.
    #[must_use]
    pub fn bare(mut self) -> Self {
        self.is_bare = true;
        self
    }

    /// Takes some messages of each ring, and emits what closes. Returns the number of messages.
    pub fn turn(&mut self) -> usize {
        let mut count = 0;
        for (ring, until) in self.rings.iter_mut().zip(&mut self.untils) {
            // Read before the ring: what the feeder pushed last is then seen.
            let is_gone = ring.is_abandoned();
            let ready = ring.slots().min(TURN);
            count += ready;
            if ready > 0 {
                for message in ring.read_chunk(ready).expect("as many are there") {
                    match message {
                        Message::Item(item) => self.items.push(item),
                        // What is before it in the ring is taken below, before anything closes.
                        Message::Until(watermark) => *until = (*until).max(Some(watermark)),
                    }
                }
                if self.is_bare {
                    self.shard.touch(&self.items);
                    self.items.clear();
                } else {
                    self.shard.put(&mut self.items);
                    assert!(self.items.is_empty(), "what stood before a watermark is in cells before it is believed");
                    for (series, time) in self.shard.take_refusals() {
                        self.sink.refused(series, time);
                    }
                }
            } else if is_gone {
                *until = None;
            }
        }
        if let Some(least) = self.untils.iter().flatten().min().filter(|_| !self.is_bare) {
            self.shard.advance(*least, &mut self.sink);
        }
        count
    }

    /// Takes turns until every feeder is gone and its ring is empty; returns the shard's counts and the sink.
    pub fn run(mut self) -> (Counts, S) {
        let mut waiting = WaitInProgress::new(self.wait);
        loop {
            if self.turn() > 0 {
                waiting.done();
            } else if self.is_over() {
                return (self.shard.counts(), self.sink);
            } else {
                waiting.pause();
            }
        }
    }

    /// Whether every feeder is gone and its ring is empty.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.rings.iter().all(|ring| ring.is_abandoned() && ring.is_empty())
    }

    /// The shard, for inspection.
    #[must_use]
    pub fn shard(&mut self) -> &mut Shard {
        &mut self.shard
    }

    /// The sink, for inspection.
    #[must_use]
    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }
}
