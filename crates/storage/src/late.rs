//! Samples that arrive after a forward has read their second.
//!
//! Invariants: a sample of a forward's series is in what it reads or is late, and never both: whether a batch that
//! arrives during a read is in it cannot be known, so the read is made again ([`Watch::begin`], [`Watch::settle`],
//! [`Watch::commit`]). A batch that was refused, that was there before, or whose sample was rejected has nothing late.
//! Threads: one short lock for each batch, taken by whoever submits it and by the store's writer; none while nothing is
//! forwarded.
//! Limits: [`LATE_MAX`] late samples of a forward wait for it, [`ATTEMPTS`] reads of one stretch.
//! Failure: what is beyond them, and what arrived during the last attempt, is not forwarded and counted as dropped. The
//! samples are in memory until the forward takes them, and in its [`LateLog`] for the next start should this process be
//! killed.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ogive_model::{Batch, BatchId, Kind, Matcher, Sample, SeriesDef, Tenant, Verdict, WallMs};

use crate::late_log::LateLog;
pub use crate::late_sample::{Key, LateSample};

/// 100,000 late samples: twenty requests; of histograms some 50 MB.
pub const LATE_MAX: usize = 100_000;
/// How often a read is repeated when a batch arrived for its seconds meanwhile.
pub const ATTEMPTS: usize = 5;
/// Between two checks whether the store has what was submitted.
const LOOK: Duration = Duration::from_millis(5);
/// 400 checks, 2 s: anything that takes longer waits for a disk, and the forward does not.
const LOOKS_MAX: usize = 400;

/// The watches of all forwards.
#[derive(Default)]
pub struct Watches {
    inner: Mutex<Inner>,
    count: AtomicUsize,
    /// The batches in flight at the end of the previous process that the store has.
    stored: HashSet<(Tenant, BatchId)>,
}

#[derive(Default)]
struct Inner {
    /// The number of the next batch or watch.
    next: u64,
    /// Batches that were submitted and not answered.
    flights: BTreeMap<u64, Flight>,
    watched: Vec<LateWatch>,
}

/// A batch on its way, and the times of its first and last sample.
struct Flight {
    tenant: Tenant,
    first: WallMs,
    last: WallMs,
}

/// Batches below a number that are still in flight may be part of what was read of (`from`, `until`].
#[derive(Clone, Copy, Default)]
struct Unsure {
    below: u64,
    from: WallMs,
    until: WallMs,
}

struct LateWatch {
    id: u64,
    tenant: Tenant,
    matchers: Vec<Vec<Matcher>>,
    /// Everything up to here was read.
    from: WallMs,
    /// Everything up to here was read or is being read.
    until: WallMs,
    /// A batch with samples in (`from`, `until`] was submitted since the read began.
    is_disturbed: bool,
    unsure: Unsure,
    late: Vec<LateSample>,
    dropped: u64,
    log: Option<LateLog>,
}

/// What a forward has read, as the submitters see it; ends when dropped.
pub struct Watch {
    all: Arc<Watches>,
    id: u64,
}

/// A batch between its submission and its result.
pub struct Arrival {
    all: Arc<Watches>,
    id: u64,
    samples: u64,
    /// By watch: the samples that were late when submitted, by their index in the batch.
    late: Vec<(u64, Vec<(u32, LateSample)>)>,
}

impl Watches {
    /// Of the batches that were in flight when the process before ended, the store has `stored`.
    #[must_use]
    pub(crate) fn new(stored: HashSet<(Tenant, BatchId)>) -> Self {
        Self { stored, ..Self::default() }
    }

    /// The batches in flight at the end of the previous process that the store has.
    #[must_use]
    pub const fn stored(&self) -> &HashSet<(Tenant, BatchId)> {
        &self.stored
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a batch that is about to be submitted; to be [`Arrival::acknowledged`], or dropped if it is refused.
    pub fn arrival(self: &Arc<Self>, batch: &Batch) -> Option<Arrival> {
        // ORDERING: Relaxed; a forward that begins meanwhile reads what is behind now, and no late sample of that is
        // lost.
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let times = || batch.samples.iter().flatten().map(Sample::time_ms).map(WallMs);
        let (first, last) = (times().min()?, times().max()?);
        let mut inner = self.lock();
        if !inner.watched.iter().any(|watched| watched.tenant == batch.tenant) {
            return None;
        }
        let id = inner.next;
        inner.next += 1;
        inner.flights.insert(id, Flight { tenant: batch.tenant.clone(), first, last });
        let mut late = Vec::new();
        for watched in inner.watched.iter_mut().filter(|watched| watched.tenant == batch.tenant) {
            if first > watched.until {
                continue;
            }
            watched.is_disturbed |= times().any(|time| watched.is_read(time));
            let of = watched.late_of(batch);
            if let Some(log) = watched.log.as_mut().filter(|_| !of.is_empty()) {
                log.submit(id, batch, &of);
            }
            late.push((watched.id, of));
        }
        drop(inner);
        Some(Arrival { all: Arc::clone(self), id, samples: batch.samples.len() as u64, late })
    }

    /// Starts to watch for `matchers` of `tenant`, of which everything up to `until` was read; with the log of late
    /// samples, and its contents.
    pub fn watch(
        self: &Arc<Self>,
        tenant: Tenant,
        matchers: Vec<Vec<Matcher>>,
        until: WallMs,
        log: Option<(LateLog, Vec<LateSample>)>,
    ) -> Watch {
        let (log, late) = log.map_or_else(Default::default, |(log, late)| (Some(log), late));
        let mut inner = self.lock();
        let id = inner.next;
        inner.next += 1;
        inner.watched.push(LateWatch {
            id,
            tenant,
            matchers,
            from: until,
            until,
            is_disturbed: false,
            unsure: Unsure::default(),
            late,
            dropped: 0,
            log,
        });
        // ORDERING: Relaxed; as in `arrival`.
        self.count.store(inner.watched.len(), Ordering::Relaxed);
        Watch { all: Arc::clone(self), id }
    }
}

impl LateWatch {
    /// Whether this time is within what is being read.
    fn is_read(&self, time: WallMs) -> bool {
        self.from < time && time <= self.until
    }

    /// The samples of a batch that are late for this one, of declared series that match, and of known ones.
    fn late_of(&self, batch: &Batch) -> Vec<(u32, LateSample)> {
        let accepts = |def: &SeriesDef| {
            let of = |matchers: &Vec<Matcher>| def.labels.match_all(matchers);
            def.meta.kind != Kind::Text && self.matchers.iter().any(of)
        };
        let mut keys: BTreeMap<u32, Option<Key>> = BTreeMap::new();
        let key = |series: u32| match batch.series.get(series as usize) {
            Some(def) => def.as_ref().ok().filter(|def| accepts(def)).map(|def| Key::Declared(def.clone())),
            None => batch.known.get(series as usize - batch.series.len()).map(|id| Key::Known(*id)),
        };
        let mut out = Vec::new();
        for (at, sample) in (0..).zip(&batch.samples) {
            let Ok(sample) = sample else { continue };
            if WallMs(sample.time_ms()) > self.until {
                continue;
            }
            if let Some(key) = keys.entry(sample.series).or_insert_with(|| key(sample.series)) {
                out.push((at, LateSample { key: key.clone(), sample: sample.clone() }));
            }
        }
        out
    }
}

impl Arrival {
    /// The store has the batch, and every reader sees it.
    pub fn acknowledged(mut self, verdict: &Verdict) {
        let late = std::mem::take(&mut self.late);
        let mut inner = self.all.lock();
        inner.flights.remove(&self.id);
        let is_known = verdict.duplicate > 0 && verdict.duplicate == self.samples;
        let rejected: HashSet<u32> = verdict.rejected.iter().map(|(at, _)| *at).collect();
        for (id, late) in late {
            let Some(watched) = inner.watched.iter_mut().find(|watched| watched.id == id) else { continue };
            if let Some(log) = &mut watched.log {
                let places = (0..).zip(&late).filter(|(_, (at, _))| rejected.contains(at)).map(|(place, _)| place);
                log.answer(self.id, (!is_known).then(|| places.collect()));
            }
            if is_known {
                continue;
            }
            for (at, one) in late {
                if !rejected.contains(&at) {
                    watched.take(self.id, one);
                }
            }
        }
    }
}

impl LateWatch {
    fn take(&mut self, arrival: u64, late: LateSample) {
        let time = late.time();
        let Unsure { below, from, until } = self.unsure;
        if time > self.until {
            // Fewer seconds were read than intended: it comes with the next ones.
        } else if (arrival < below && from < time && time <= until) || self.late.len() == LATE_MAX {
            self.dropped += 1;
        } else {
            self.late.push(late);
        }
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        let mut inner = self.all.lock();
        inner.flights.remove(&self.id);
        for (id, _) in &self.late {
            let watched = inner.watched.iter_mut().find(|watched| watched.id == *id);
            if let Some(log) = watched.and_then(|watched| watched.log.as_mut()) {
                log.answer(self.id, None);
            }
        }
    }
}

impl Watch {
    fn with<T>(&self, change: impl FnOnce(&mut LateWatch, &BTreeMap<u64, Flight>, u64) -> T) -> T {
        let mut inner = self.all.lock();
        let Inner { next, flights, watched } = &mut *inner;
        let watched =
            watched.iter_mut().find(|watched| watched.id == self.id).expect("it is watched until it is dropped");
        change(watched, flights, *next)
    }

    /// (from, until] is about to be read, everything up to `from` was.
    pub fn begin(&self, from: WallMs, until: WallMs) {
        assert!(from <= until, "{from:?}..{until:?}");
        self.with(|watched, _, _| {
            (watched.from, watched.until) = (from, until);
            watched.late.retain(|late| late.time() <= until);
        });
    }

    /// Waits until the store has everything that was submitted for what is about to be read. That is then part of the
    /// read.
    pub fn settle(&self) {
        for look in 0.. {
            let is_settled = self.with(|watched, flights, _| {
                let is_near = |flight: &Flight| {
                    flight.tenant == watched.tenant && flight.first <= watched.until && flight.last > watched.from
                };
                let waits = flights.values().any(is_near);
                if !waits || look == LOOKS_MAX {
                    let from = watched.from;
                    watched.late.retain(|late| late.time() <= from);
                    watched.is_disturbed = waits;
                }
                !waits || look == LOOKS_MAX
            });
            if is_settled {
                return;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Marks it as read: true unless a batch arrived for it meanwhile. The last attempt counts, and what arrived is
    /// dropped.
    pub fn commit(&self, is_last: bool) -> bool {
        self.with(|watched, _, next| {
            if watched.is_disturbed && !is_last {
                return false;
            }
            let (from, until) = (watched.from, watched.until);
            if watched.is_disturbed {
                let before = watched.late.len();
                watched.late.retain(|late| late.time() <= from);
                watched.dropped += (before - watched.late.len()) as u64;
                watched.unsure = Unsure { below: next, from, until };
            }
            watched.from = until;
            if let Some(log) = &mut watched.log {
                log.read(from, until);
            }
            true
        })
    }

    /// The late samples since the last call, and how many were dropped. The forward's next request gets the number
    /// `sequence`.
    pub fn take(&self, sequence: u64) -> (Vec<LateSample>, u64) {
        self.with(|watched, _, _| {
            debug_assert_eq!(watched.from, watched.until, "nothing is being read");
            if let Some(log) = watched.log.as_mut().filter(|_| !watched.late.is_empty()) {
                log.take(sequence);
            }
            (std::mem::take(&mut watched.late), std::mem::take(&mut watched.dropped))
        })
    }
}

impl Watch {
    /// Continues for the same forward, of which everything up to `until` was read, with its new selection: what is late
    /// or in flight between the two is not lost.
    pub fn select(&self, matchers: Vec<Vec<Matcher>>, until: WallMs) {
        self.begin(until, until);
        self.with(|watched, _, _| watched.matchers = matchers);
    }

    /// Replaces the log of late samples from now on, with its current contents; None for no log.
    pub fn replace_log(&self, log: Option<(LateLog, Vec<LateSample>)>) {
        let (log, late) = log.map_or_else(Default::default, |(log, late)| (Some(log), late));
        self.with(|watched, _, _| {
            watched.log = log;
            watched.late.extend(late);
        });
    }

    /// What was taken is stored in the forward's file.
    pub fn settle_taken(&self) {
        self.with(|watched, _, _| watched.log.iter_mut().for_each(LateLog::settle));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut inner = self.all.lock();
        inner.watched.retain(|watched| watched.id != self.id);
        // ORDERING: Relaxed; as in `Watches::arrival`.
        self.all.count.store(inner.watched.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::{MatchOp, SeriesMeta, SourceId, Temporality, Value};

    use super::*;

    fn matchers() -> Vec<Vec<Matcher>> {
        vec![vec![Matcher::new("__name__", MatchOp::Equal, "a").unwrap()]]
    }

    /// A batch with a sample of `a` and one of `b` at each time.
    fn batch(times: &[i64]) -> Batch {
        let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        let series = ["a", "b"].map(|name| SeriesDef::new([("__name__", name)], meta.clone()));
        let sample = |series: u32, time: &i64| {
            Ok(Sample { series, time_ns: time * 1_000_000, start_ns: None, value: Value::Float(*time as f64) })
        };
        let samples = times.iter().flat_map(|time| [sample(0, time), sample(1, time)]).collect();
        Batch { source: SourceId(1), series: series.into(), samples, ..Batch::default() }
    }

    fn taken(watch: &Watch) -> (Vec<i64>, u64) {
        let (late, dropped) = watch.take(1);
        (late.iter().map(|late| late.sample.time_ms()).collect(), dropped)
    }

    fn accepted(count: u64) -> Verdict {
        Verdict { accepted: count, ..Verdict::default() }
    }

    #[test]
    fn what_comes_behind_a_read_is_late_once() {
        let all = Arc::new(Watches::default());
        assert!(all.arrival(&batch(&[500])).is_none(), "nobody watches");
        let watch = all.watch(Tenant::default(), matchers(), WallMs(1_000), None);
        // What is in time, what is late, what was rejected, refused or there before.
        all.arrival(&batch(&[500, 1_500])).unwrap().acknowledged(&accepted(4));
        assert_eq!(taken(&watch), (vec![500], 0));
        let rejected =
            Verdict { accepted: 1, rejected: vec![(0, ogive_model::Reason::LabelsInvalid)], ..Verdict::default() };
        all.arrival(&batch(&[600])).unwrap().acknowledged(&rejected);
        drop(all.arrival(&batch(&[700])).unwrap());
        all.arrival(&batch(&[800])).unwrap().acknowledged(&Verdict { duplicate: 2, ..Verdict::default() });
        assert_eq!(taken(&watch), (vec![], 0));
        // Another tenant's are not looked at.
        let other = Batch { tenant: Tenant::new("other").unwrap(), ..batch(&[500]) };
        assert!(all.arrival(&other).is_none());
        drop(watch);
        assert!(all.arrival(&batch(&[500])).is_none(), "nobody watches any more");
    }

    /// A batch that arrives during a read may be in it or not: the read is made again, and then has it.
    #[test]
    fn a_read_that_a_batch_disturbs_is_made_again() {
        let all = Arc::new(Watches::default());
        let watch = all.watch(Tenant::default(), matchers(), WallMs(1_000), None);
        let before = all.arrival(&batch(&[1_500])).unwrap();
        watch.begin(WallMs(1_000), WallMs(2_000));
        before.acknowledged(&accepted(2));
        watch.settle();
        assert!(watch.commit(false));
        assert_eq!(taken(&watch), (vec![], 0), "it was in the read");
        watch.begin(WallMs(2_000), WallMs(3_000));
        watch.settle();
        let during = all.arrival(&batch(&[900, 2_500])).unwrap();
        assert!(!watch.commit(false));
        during.acknowledged(&accepted(4));
        watch.settle();
        assert!(watch.commit(false));
        assert_eq!(taken(&watch), (vec![900], 0), "one was late before, the other is in the second read");
        // The last attempt is taken as it is, and what may be in it is not forwarded again.
        watch.begin(WallMs(3_000), WallMs(4_000));
        watch.settle();
        let during = [all.arrival(&batch(&[3_500])).unwrap(), all.arrival(&batch(&[3_600])).unwrap()];
        let [one, other] = during;
        one.acknowledged(&accepted(2));
        assert!(watch.commit(true));
        other.acknowledged(&accepted(2));
        assert_eq!(taken(&watch), (vec![], 2));
    }

    /// A forward that was changed began to watch anew, and what was in flight then was nobody's.
    #[test]
    fn a_forward_that_changes_keeps_what_is_late_and_in_flight() {
        let all = Arc::new(Watches::default());
        let watch = all.watch(Tenant::default(), matchers(), WallMs(1_000), None);
        let in_flight = all.arrival(&batch(&[500])).unwrap();
        all.arrival(&batch(&[600])).unwrap().acknowledged(&accepted(2));
        let other = vec![vec![Matcher::new("__name__", MatchOp::Equal, "b").unwrap()]];
        watch.select(other, WallMs(1_000));
        watch.replace_log(None);
        in_flight.acknowledged(&accepted(2));
        all.arrival(&batch(&[700])).unwrap().acknowledged(&accepted(2));
        let (late, dropped) = watch.take(1);
        let name = |late: &LateSample| match &late.key {
            Key::Declared(def) => (late.sample.time_ms(), def.labels.metric_name().to_owned()),
            Key::Known(id) => panic!("{id:?}"),
        };
        let expected = [(600, "a"), (500, "a"), (700, "b")].map(|(time, name)| (time, name.to_owned()));
        assert_eq!((late.iter().map(name).collect::<Vec<_>>(), dropped), (expected.into(), 0));
    }

    #[test]
    fn fewer_seconds_than_meant_leave_the_rest_for_the_next_read() {
        let all = Arc::new(Watches::default());
        let watch = all.watch(Tenant::default(), matchers(), WallMs(0), None);
        watch.begin(WallMs(0), WallMs(4_000));
        watch.settle();
        let during = all.arrival(&batch(&[3_000])).unwrap();
        watch.begin(WallMs(0), WallMs(2_000));
        during.acknowledged(&accepted(2));
        watch.settle();
        assert!(watch.commit(false));
        assert_eq!(taken(&watch), (vec![], 0));
    }

    #[test]
    fn as_many_late_samples_wait_as_may() {
        let all = Arc::new(Watches::default());
        let watch = all.watch(Tenant::default(), matchers(), WallMs(i64::MAX / 2_000_000), None);
        let many: Vec<i64> = (1..=LATE_MAX as i64 + 1).collect();
        all.arrival(&batch(&many)).unwrap().acknowledged(&accepted(2 * many.len() as u64));
        let (late, dropped) = taken(&watch);
        assert_eq!((late.len(), dropped), (LATE_MAX, 1));
    }
}
