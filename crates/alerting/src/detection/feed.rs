//! What the shards of the store applied of the judged series, held until its second closes.
//!
//! Invariants: a slice that is given holds every sample that was acknowledged before it closed; fragments of a cell are
//! merged. Where that is not certain none is given, and the store is read.
//! Threads: each shard writes its own part under a lock that nobody else holds for longer than taking it away.
//! Limits: `series_max` series; [`BYTES_MAX`] of samples. What is beyond makes its seconds uncertain.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ogive_hist::Histogram;
use ogive_model::{
    HistogramValue, Kind, Labels, Ms, SeriesData, SeriesId, SeriesMeta, Tenant, TimeRange, Value, WallMs, WallNs,
};
use ogive_store::{Followed, Follower};

/// 64 MiB: 5 s of 20,000 histograms of 40 bins.
const BYTES_MAX: usize = 64 << 20;
/// Memory of a sample in addition to its bins.
const SAMPLE_BYTES: usize = 64;
/// Memory of a histogram in addition to its bins.
const HISTOGRAM_BYTES: usize = 200;
/// 1,024 samples: below 100 KiB there is nothing worth freeing.
const PARTS_MIN: usize = 1_024;
/// Memory of the entries of a series in both tables of its shard.
const ENTRIES_BYTES: usize = 112;
/// The watch for the series that the monitor judges; those of the limits follow it.
pub(super) const JUDGED: u64 = 0;

/// A series of the feed.
pub(super) struct FeedSeries {
    tenant: Tenant,
    labels: Labels,
    meta: SeriesMeta,
    is_judged: bool,
    limit: Option<f64>,
    /// Its newest sample, or when it was first seen.
    last_ms: AtomicI64,
}

/// The closed cells of one tenant.
#[derive(Default)]
pub(super) struct ClosedCells {
    pub(super) judged: Vec<SeriesData>,
    /// Numbers that have a limit.
    pub(super) limited: Vec<(SeriesData, f64)>,
}

#[derive(Default)]
struct Shard {
    series: HashMap<SeriesId, Arc<FeedSeries>>,
    /// By the shard's numbers, also of series that were forgotten.
    slots: HashMap<u32, (SeriesId, Arc<FeedSeries>)>,
    parts: Vec<(SeriesId, i64, Value)>,
    bytes: usize,
    /// Ends of seconds with data that is missing here.
    uncertain: BTreeSet<WallMs>,
    passed: WallMs,
    refused: u64,
}

/// See the module.
pub(super) struct Feed {
    shards: Vec<Mutex<Shard>>,
    series_max: usize,
    series: AtomicUsize,
    limits: Vec<f64>,
    /// The newest sample that was applied before the watches began.
    applied_ms: AtomicI64,
    passed: (Mutex<()>, Condvar),
    /// Samples up to here were passed on or are not needed: later arrivals for that time are late, and dropped.
    gone_ms: AtomicI64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Feed {
    pub(super) fn new(shards: usize, series_max: usize, limits: Vec<f64>) -> Arc<Self> {
        Arc::new(Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            series_max,
            series: AtomicUsize::new(0),
            limits,
            applied_ms: AtomicI64::new(i64::MIN),
            passed: Default::default(),
            gone_ms: AtomicI64::new(i64::MIN),
        })
    }

    /// The newest sample that it does not contain because it was applied earlier.
    pub(super) fn applied(&self) -> WallMs {
        // ORDERING: Relaxed; shards wrote it before they passed an instant, whose lock the reader took.
        WallMs(self.applied_ms.load(Ordering::Relaxed))
    }

    /// Series beyond the limit.
    pub(super) fn refused(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).refused).sum()
    }

    /// The tenants of its series.
    pub(super) fn tenants(&self) -> BTreeSet<Tenant> {
        self.shards
            .iter()
            .flat_map(|shard| lock(shard).series.values().map(|known| known.tenant.clone()).collect::<BTreeSet<_>>())
            .collect()
    }

    /// Waits until every shard has passed `until`, for at most `patience`; returns whether they have.
    pub(super) fn wait(&self, until: WallMs, patience: Duration) -> bool {
        let is_behind = |_: &mut ()| self.shards.iter().any(|shard| lock(shard).passed < until);
        let (mutex, changed) = &self.passed;
        let waited = changed.wait_timeout_while(lock(mutex), patience, is_behind);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Drops samples up to `until`, which are not needed.
    pub(super) fn skip(&self, until: WallMs) {
        // ORDERING: Relaxed; a shard that does not see it yet holds a late sample until the next slice, as here and
        // below.
        self.gone_ms.fetch_max(until.0, Ordering::Relaxed);
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.uncertain = shard.uncertain.split_off(&(until + Ms(1)));
            drop(shard.take(until));
        }
    }

    /// Removes and returns what closed in a range, by tenant, if that is certain; older samples were late and are
    /// dropped.
    pub(super) fn closed(&self, TimeRange { start, end }: TimeRange) -> Option<BTreeMap<Tenant, ClosedCells>> {
        let (mut is_certain, mut parts) = (true, Vec::new());
        for shard in &self.shards {
            let mut shard = lock(shard);
            is_certain &= shard.uncertain.range(start + Ms(1)..=end).next().is_none();
            shard.uncertain = shard.uncertain.split_off(&(end + Ms(1)));
            for (id, time_ms, value) in shard.take(end) {
                let known = (WallMs(time_ms) > start).then(|| shard.series.get(&id).cloned()).flatten();
                parts.extend(known.map(|known| (id, time_ms, known, value)));
            }
        }
        if !is_certain {
            return None;
        }
        self.gone_ms.fetch_max(end.0, Ordering::Relaxed);
        parts.sort_by_key(|(id, time_ms, ..)| (*id, *time_ms));
        let mut out: BTreeMap<Tenant, ClosedCells> = BTreeMap::new();
        for of_series in parts.chunk_by_mut(|one, other| one.0 == other.0) {
            let known = Arc::clone(&of_series[0].2);
            let data = column(&known, of_series.iter_mut().map(|(_, time_ms, _, value)| (*time_ms, value)))?;
            let closed = out.entry(known.tenant.clone()).or_default();
            if let Some(limit) = known.limit.filter(|_| known.meta.kind == Kind::Float) {
                closed.limited.push((data.clone(), limit));
            }
            if known.is_judged {
                closed.judged.push(data);
            }
        }
        Some(out)
    }

    /// Frees the series that have been silent since `limit`.
    pub(super) fn forget(&self, limit: WallMs) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            let before = shard.series.len();
            // ORDERING: Relaxed; both sides hold the lock of the shard.
            shard.series.retain(|_, known| known.last_ms.load(Ordering::Relaxed) >= limit.0);
            // ORDERING: Relaxed; a count.
            self.series.fetch_sub(before - shard.series.len(), Ordering::Relaxed);
        }
    }

    /// Its approximate memory in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let each = |known: &Arc<FeedSeries>| size_of::<FeedSeries>() + known.labels.memory_bytes() + ENTRIES_BYTES;
        self.shards
            .iter()
            .map(|shard| {
                let shard = lock(shard);
                shard.parts_bytes() + shard.slots.values().map(|(_, known)| each(known)).sum::<usize>()
            })
            .sum()
    }

    fn has_room(&self) -> bool {
        // ORDERING: Relaxed; shards that race let in one more each at the most, which the monitor's own limit holds
        // back.
        self.series.load(Ordering::Relaxed) < self.series_max
    }
}

/// Samples of one series, ascending in time; `None` when fragments of a cell do not fit each other.
fn column<'a>(known: &FeedSeries, parts: impl Iterator<Item = (i64, &'a mut Value)>) -> Option<SeriesData> {
    let mut data = SeriesData::new(known.labels.clone(), known.meta.clone());
    for (time_ms, value) in parts {
        let histogram = match std::mem::replace(value, Value::Float(0.0)) {
            Value::Float(value) => {
                // Either of two numbers at one instant shows that the series is alive; which one is kept is decided by
                // the store.
                if data.floats.times.last() != Some(&time_ms) {
                    data.floats.times.push(time_ms);
                    data.floats.values.push(value);
                }
                continue;
            }
            Value::Histogram(cell) => HistogramValue::Integer(*cell),
            Value::FloatHistogram(cell) => HistogramValue::Float(*cell),
            Value::Text(_) => continue,
        };
        if data.histograms.times.last() == Some(&time_ms) {
            match (data.histograms.values.last_mut(), histogram) {
                (Some(HistogramValue::Integer(sum)), HistogramValue::Integer(part)) => sum.merge(&part).ok()?,
                (Some(HistogramValue::Float(sum)), HistogramValue::Float(part)) => sum.merge(&part).ok()?,
                _ => return None,
            }
        } else {
            data.histograms.times.push(time_ms);
            data.histograms.values.push(histogram);
        }
    }
    Some(data)
}

impl Shard {
    /// Removes and returns what ended up to `until`.
    fn take(&mut self, until: WallMs) -> Vec<(SeriesId, i64, Value)> {
        let taken: Vec<_> = self.parts.extract_if(.., |(_, time_ms, _)| *time_ms <= until.0).collect();
        self.bytes -= taken.iter().map(|(.., value)| weight(value)).sum::<usize>();
        let held = self.parts.len().max(PARTS_MIN);
        if self.parts.capacity() > 4 * held {
            self.parts.shrink_to(2 * held);
        }
        taken
    }

    /// Memory of the samples, including spare capacity.
    fn parts_bytes(&self) -> usize {
        let beside = self.parts.len() * SAMPLE_BYTES;
        debug_assert!(self.bytes >= beside, "{} bytes of {} samples", self.bytes, self.parts.len());
        self.bytes - beside + self.parts.capacity() * size_of::<(SeriesId, i64, Value)>()
    }
}

fn weight(value: &Value) -> usize {
    fn bins<C: ogive_hist::Count>(cell: &Histogram<C>) -> usize {
        HISTOGRAM_BYTES + (cell.positive.len() + cell.negative.len()) * 12
    }
    SAMPLE_BYTES
        + match value {
            Value::Histogram(cell) => bins(cell),
            Value::FloatHistogram(cell) => bins(cell),
            Value::Float(_) | Value::Text(_) => 0,
        }
}

/// Feeds what one shard applies.
pub(super) struct Tap {
    feed: Arc<Feed>,
    shard: usize,
}

impl Tap {
    pub(super) fn new(feed: &Arc<Feed>, shard: usize) -> Self {
        Self { feed: Arc::clone(feed), shard }
    }
}

impl Follower for Tap {
    fn begin(&mut self, followed: Followed<'_>) -> bool {
        let Followed { watch, slot, series, tenant, def, applied } = followed;
        if def.meta.kind == Kind::Text {
            return false;
        }
        let mut shard = lock(&self.feed.shards[self.shard]);
        if shard.passed == WallMs::default() {
            // ORDERING: Relaxed; see `Feed::applied`.
            self.feed.applied_ms.fetch_max(applied.0, Ordering::Relaxed);
        }
        let before = shard.series.get(&series);
        if before.is_none() && !self.feed.has_room() {
            shard.refused += 1;
            return false;
        }
        if before.is_none() {
            // ORDERING: Relaxed; a count.
            self.feed.series.fetch_add(1, Ordering::Relaxed);
        }
        let limit = watch.checked_sub(JUDGED + 1).and_then(|at| self.feed.limits.get(at as usize)).copied();
        let known = FeedSeries {
            tenant: tenant.clone(),
            labels: def.labels.clone(),
            meta: def.meta.clone(),
            is_judged: watch == JUDGED || before.is_some_and(|known| known.is_judged),
            limit: limit.or_else(|| before.and_then(|known| known.limit)),
            last_ms: AtomicI64::new(shard.passed.max(applied).0),
        };
        let known = Arc::new(known);
        shard.series.insert(series, Arc::clone(&known));
        shard.slots.insert(slot, (series, known));
        true
    }

    /// Late samples are not judged: a backfill would otherwise fill the feed and be dropped.
    fn wants(&self, time: WallMs) -> bool {
        // ORDERING: Relaxed; see `Feed::skip`.
        time.0 > self.feed.gone_ms.load(Ordering::Relaxed)
    }

    fn sample(&mut self, slot: u32, time: WallMs, value: Value, is_certain: bool) {
        let mut shard = lock(&self.feed.shards[self.shard]);
        let Some((id, known)) = shard.slots.get(&slot).cloned() else { return };
        if !shard.series.contains_key(&id) {
            // It was forgotten, and is back.
            if !self.feed.has_room() {
                shard.refused += 1;
                return;
            }
            // ORDERING: Relaxed; a count.
            self.feed.series.fetch_add(1, Ordering::Relaxed);
            shard.series.insert(id, Arc::clone(&known));
        }
        // ORDERING: Relaxed; both sides hold the lock of the shard.
        known.last_ms.fetch_max(time.0, Ordering::Relaxed);
        let bytes = weight(&value);
        if !is_certain || (shard.bytes + bytes) * self.feed.shards.len() > BYTES_MAX {
            shard.uncertain.insert(time.align_up(Ms(1_000)));
            return;
        }
        shard.bytes += bytes;
        shard.parts.push((id, time.0, value));
    }

    fn pass(&mut self, until: WallNs) {
        lock(&self.feed.shards[self.shard]).passed = until.to_ms();
        let (mutex, changed) = &self.feed.passed;
        drop(lock(mutex));
        changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::{SeriesDef, Temporality};

    use super::*;

    fn cell(value: f64) -> Value {
        let mut cell = Histogram::log_linear();
        cell.record(value);
        Value::Histogram(Box::new(cell))
    }

    fn begin(tap: &mut Tap, watch: u64, slot: u32, name: &str, kind: Kind) -> bool {
        let meta = SeriesMeta { kind, temporality: Temporality::Delta, unit: String::new(), width_ms: 1_000 };
        let def = SeriesDef::new([("__name__", name)], meta).unwrap();
        let tenant = Tenant::default();
        tap.begin(Followed { watch, slot, series: def.id(&tenant), tenant: &tenant, def: &def, applied: WallMs(500) })
    }

    #[test]
    fn fragments_merge_and_a_second_is_given_once() {
        let feed = Feed::new(2, 10, vec![100.0]);
        let (mut a, mut b) = (Tap::new(&feed, 0), Tap::new(&feed, 1));
        assert!(begin(&mut a, JUDGED, 1, "a", Kind::Histogram) && begin(&mut b, JUDGED, 1, "b", Kind::Float));
        assert!(begin(&mut b, JUDGED + 1, 1, "b", Kind::Float), "it has a limit too");
        assert!(!begin(&mut b, JUDGED, 2, "c", Kind::Text));
        assert_eq!(feed.applied(), WallMs(500));
        a.sample(1, WallMs(1_000), cell(1.0), true);
        a.sample(1, WallMs(1_000), cell(2.0), true);
        a.sample(1, WallMs(2_000), cell(3.0), true);
        b.sample(1, WallMs(700), Value::Float(7.0), true);
        a.pass(WallNs(1_000_000_000));
        assert!(!feed.wait(WallMs(1_000), Duration::from_millis(1)), "the other shard has not passed");
        b.pass(WallNs(1_000_000_000));
        assert!(feed.wait(WallMs(1_000), Duration::ZERO));
        let closed = feed.closed(TimeRange::from_ms(0, 1_000)).expect("certain").remove(&Tenant::default()).unwrap();
        let total: Vec<(i64, u64)> = closed
            .judged
            .iter()
            .flat_map(|one| one.histograms.times.iter().zip(&one.histograms.values))
            .map(|(time, value)| match value {
                HistogramValue::Integer(cell) => (*time, cell.total()),
                HistogramValue::Float(_) => unreachable!("counts are whole"),
            })
            .collect();
        assert_eq!(total, [(1_000, 2)]);
        assert_eq!(
            (closed.judged.len(), closed.limited[0].1, &closed.limited[0].0.floats.values[..]),
            (2, 100.0, &[7.0][..])
        );
        assert!(feed.closed(TimeRange::from_ms(0, 1_000)).expect("certain").is_empty());
        let late = feed.closed(TimeRange::from_ms(1_000, 2_000)).expect("certain");
        assert_eq!(late[&Tenant::default()].judged[0].histograms.times, [2_000]);
    }

    /// A feed kept the room of the most samples that it had ever held, and did not count it: 12 to 23 MiB of 11,000
    /// series stayed for good after a load of a few seconds, and `detect_bytes` was 5 MiB.
    #[test]
    fn the_room_of_a_load_is_counted_and_given_back() {
        const SAMPLES: usize = 200_000;
        let feed = Feed::new(1, 10, Vec::new());
        let mut tap = Tap::new(&feed, 0);
        assert!(begin(&mut tap, JUDGED, 1, "a", Kind::Float));
        let before = feed.memory_bytes();
        (0..SAMPLES).for_each(|at| tap.sample(1, WallMs(at as i64 + 1), Value::Float(1.0), true));
        let during = feed.memory_bytes();
        assert!(during - before >= SAMPLES * size_of::<(SeriesId, i64, Value)>(), "{during}");
        feed.skip(WallMs(SAMPLES as i64 - 10));
        let after = feed.memory_bytes();
        assert!(after - before < 256 << 10, "{before} {during} {after}");
        assert_eq!(
            feed.closed(TimeRange::from_ms(0, SAMPLES as i64)).expect("certain").len(),
            1,
            "what was not skipped is there"
        );
    }

    #[test]
    fn what_is_not_certain_or_does_not_fit_is_not_given() {
        let feed = Feed::new(1, 1, Vec::new());
        let mut tap = Tap::new(&feed, 0);
        assert!(begin(&mut tap, JUDGED, 1, "a", Kind::Histogram));
        assert!(!begin(&mut tap, JUDGED, 2, "b", Kind::Histogram), "beyond the limit");
        assert_eq!(feed.refused(), 1);
        tap.sample(1, WallMs(1_500), cell(1.0), false);
        assert!(feed.closed(TimeRange::from_ms(0, 1_000)).is_some());
        assert!(feed.closed(TimeRange::from_ms(1_000, 2_000)).is_none(), "it may count twice");
        assert!(feed.closed(TimeRange::from_ms(2_000, 3_000)).is_some(), "once");
        let other = Histogram::new(ogive_hist::Scheme::Custom { bounds: [1.0].into() });
        tap.sample(1, WallMs(4_000), cell(1.0), true);
        tap.sample(1, WallMs(4_000), Value::Histogram(Box::new(other)), true);
        assert!(feed.closed(TimeRange::from_ms(3_000, 4_000)).is_none(), "bins that do not fit each other");
    }

    /// A load of four million samples of the past took a seventh of the server's processor time here, for nothing.
    #[test]
    fn what_comes_after_its_second_closed_is_not_wanted() {
        let feed = Feed::new(1, 1, Vec::new());
        let mut tap = Tap::new(&feed, 0);
        assert!(begin(&mut tap, JUDGED, 1, "a", Kind::Float));
        assert!(tap.wants(WallMs(-5)));
        feed.skip(WallMs(1_000));
        assert!(!tap.wants(WallMs(1_000)) && tap.wants(WallMs(1_001)));
        tap.sample(1, WallMs(1_500), Value::Float(1.0), false);
        assert!(feed.closed(TimeRange::from_ms(1_000, 2_000)).is_none());
        assert!(tap.wants(WallMs(1_001)), "it is read again, and more of it may come until then");
        assert!(feed.closed(TimeRange::from_ms(1_000, 2_000)).is_some());
        assert!(!tap.wants(WallMs(2_000)) && tap.wants(WallMs(2_001)));
        feed.skip(WallMs(500));
        assert!(!tap.wants(WallMs(2_000)), "what is gone does not come back");
    }

    #[test]
    fn a_series_that_is_gone_makes_room_and_may_come_back() {
        let feed = Feed::new(1, 1, Vec::new());
        let mut tap = Tap::new(&feed, 0);
        assert!(begin(&mut tap, JUDGED, 1, "a", Kind::Float));
        tap.sample(1, WallMs(1_000), Value::Float(1.0), true);
        feed.forget(WallMs(1_000));
        assert!(!begin(&mut tap, JUDGED, 2, "b", Kind::Float), "a is not gone yet");
        feed.forget(WallMs(1_001));
        assert!(begin(&mut tap, JUDGED, 2, "b", Kind::Float));
        tap.sample(1, WallMs(2_000), Value::Float(1.0), true);
        tap.sample(2, WallMs(2_000), Value::Float(1.0), true);
        assert_eq!(
            feed.closed(TimeRange::from_ms(1_000, 2_000)).expect("certain")[&Tenant::default()].judged.len(),
            1,
            "b took its place"
        );
        feed.forget(WallMs(2_001));
        tap.sample(1, WallMs(3_000), Value::Float(1.0), true);
        assert_eq!(
            feed.closed(TimeRange::from_ms(2_000, 3_000)).expect("certain")[&Tenant::default()].judged.len(),
            1,
            "a is back"
        );
    }

    #[test]
    fn samples_beyond_the_room_are_read_from_the_store() {
        let feed = Feed::new(1, 1, Vec::new());
        let mut tap = Tap::new(&feed, 0);
        assert!(begin(&mut tap, JUDGED, 1, "a", Kind::Float));
        let count = BYTES_MAX / SAMPLE_BYTES;
        for at in 0..count {
            tap.sample(1, WallMs(1_000 + at as i64 % 2), Value::Float(1.0), true);
        }
        assert!(lock(&feed.shards[0]).uncertain.is_empty(), "at its value");
        tap.sample(1, WallMs(5_000), Value::Float(1.0), true);
        assert!(feed.closed(TimeRange::from_ms(0, 2_000)).is_some(), "what is whole is given");
        assert!(feed.closed(TimeRange::from_ms(2_000, 5_000)).is_none(), "one above");
        feed.skip(WallMs(5_000));
        assert_eq!(lock(&feed.shards[0]).bytes, 0);
    }
}
