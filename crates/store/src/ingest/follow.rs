//! Followers: live views and detectors receive samples as the shards apply them.
//!
//! Invariants: a follower receives each durable, accepted sample of a followed series once, after the shard has applied
//! it and before the batch is acknowledged; never a refused one or a duplicate. Whether a series is followed is decided
//! in the shard's own order: what was applied before is reported as an instant ([`Follower::begin`]), everything after
//! is offered.
//! Threads: a follower belongs to its shard's thread.
//! Limits: the follower's own; without a watch nothing is examined.

use std::sync::Arc;

use ogive_model::{Matcher, SeriesDef, SeriesId, Tenant, Value, WallMs, WallNs};

use crate::ingest::head::{FloatRow, Head, Placed};
use crate::ingest::owned::Owned;

/// Which followers are meant: each audience has its own, one for each shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Live streams.
    Streams,
    /// Continuous queries.
    Queries,
    /// Detectors.
    Detectors,
}

/// A selection whose samples are wanted as they are applied.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Tells it from others of the same audience.
    pub id: u64,
    /// Whose series; none is everybody's.
    pub tenant: Option<Tenant>,
    /// All of them accept a series.
    pub matchers: Vec<Matcher>,
}

/// A series that a watch accepts.
#[derive(Clone, Copy, Debug)]
pub struct Followed<'a> {
    /// The watch.
    pub watch: u64,
    /// What the shard calls the series, until it begins another one under this number.
    pub slot: u32,
    /// Its identity.
    pub series: SeriesId,
    /// Whose it is.
    pub tenant: &'a Tenant,
    /// What it is.
    pub def: &'a SeriesDef,
    /// Samples up to this time may have been applied before.
    pub applied: WallMs,
}

/// Hears of the samples of one shard. Called on the shard's thread, so it must not wait.
pub trait Follower: Send {
    /// A watch accepts a series. Says whether its samples are wanted.
    fn begin(&mut self, followed: Followed<'_>) -> bool;
    /// Whether a sample of this time is of any use to it: asked before one is copied for it.
    fn wants(&self, time: WallMs) -> bool {
        let _ = time;
        true
    }
    /// A sample was applied. It is certain to count unless it has a start and may be in a block already: then reading
    /// it shows.
    fn sample(&mut self, slot: u32, time: WallMs, value: Value, is_certain: bool);
    /// Everything that was acknowledged before [`crate::Store::pass`] was called with this instant was reported.
    fn pass(&mut self, until: WallNs);
}

/// Messages to a shard about the followers of one audience.
pub(crate) enum Follow {
    /// Tell this one, and nobody from before.
    Begin(Box<dyn Follower>),
    /// Samples up to `flushed` may be in blocks.
    Watch {
        watch: Arc<Watch>,
        flushed: WallMs,
    },
    Unwatch(u64),
    Pass(WallNs),
    /// Nobody is notified any more.
    End,
}

/// The follower of one audience.
struct AudienceFollower {
    audience: Audience,
    follower: Box<dyn Follower>,
    watches: Vec<Arc<Watch>>,
    /// The series that it wants.
    slots: Slots,
}

/// Numbers of series, which a shard gives from 0 on: one bit each.
#[derive(Default)]
struct Slots(Vec<u64>);

impl Slots {
    const fn place(slot: u32) -> (usize, u64) {
        (slot as usize / 64, 1 << (slot % 64))
    }

    fn contains(&self, slot: u32) -> bool {
        let (at, bit) = Self::place(slot);
        self.0.get(at).is_some_and(|bits| bits & bit != 0)
    }

    fn insert(&mut self, slot: u32) {
        let (at, bit) = Self::place(slot);
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        self.0[at] |= bit;
        debug_assert!(self.contains(slot), "slot {slot} has a bit of its own");
    }

    fn remove(&mut self, slot: u32) {
        let (at, bit) = Self::place(slot);
        if let Some(bits) = self.0.get_mut(at) {
            *bits &= !bit;
        }
    }
}

/// What a shard knows of its followers.
#[derive(Default)]
pub(crate) struct Following {
    ears: Vec<AudienceFollower>,
    /// The newest time of what may be in blocks, as it was when a watch began.
    flushed: Option<WallMs>,
}

impl Following {
    pub(crate) fn obey(&mut self, head: &mut Head, audience: Audience, message: Follow) {
        match message {
            Follow::Begin(follower) => {
                self.end(head, audience);
                debug_assert!(self.ears.iter().all(|ear| ear.audience != audience), "one follower of {audience:?}");
                self.ears.push(AudienceFollower { audience, follower, watches: Vec::new(), slots: Slots::default() });
            }
            Follow::Watch { watch, flushed } => {
                self.flushed = self.flushed.max(Some(flushed));
                let Some(ear) = self.ears.iter_mut().find(|ear| ear.audience == audience) else { return };
                for slot in head.matching(watch.tenant.as_ref(), &watch.matchers) {
                    let owned = Arc::clone(head.owned(slot));
                    let applied = head.newest(slot).max(head.frozen_newest()).max(self.flushed);
                    if ear.begin(&watch, slot, &owned, applied.unwrap_or(WallMs::MIN)) {
                        head.follow(slot, true);
                    }
                }
                ear.watches.push(watch);
            }
            Follow::Unwatch(id) => self.unwatch(head, audience, |watch| watch.id == id),
            Follow::Pass(until) => {
                if let Some(ear) = self.ears.iter_mut().find(|ear| ear.audience == audience) {
                    ear.follower.pass(until);
                }
            }
            Follow::End => self.end(head, audience),
        }
    }

    fn end(&mut self, head: &mut Head, audience: Audience) {
        self.unwatch(head, audience, |_| true);
        self.ears.retain(|ear| ear.audience != audience);
    }

    fn unwatch(&mut self, head: &mut Head, audience: Audience, is_over: impl Fn(&Watch) -> bool) {
        let Some(ear) = self.ears.iter_mut().find(|ear| ear.audience == audience) else { return };
        let gone: Vec<_> = ear.watches.extract_if(.., |watch| is_over(watch)).collect();
        for watch in gone {
            for slot in head.matching(watch.tenant.as_ref(), &watch.matchers) {
                let owned = head.owned(slot);
                let ear = self.ears.iter_mut().find(|ear| ear.audience == audience).expect("it was found above");
                if !ear.watches.iter().any(|watch| accepts(watch, owned)) {
                    ear.slots.remove(slot);
                }
                if !self.ears.iter().any(|ear| ear.slots.contains(slot)) {
                    head.follow(slot, false);
                }
            }
        }
    }

    /// A series is new in its slot.
    pub(crate) fn add_series(&mut self, head: &mut Head, slot: u32, owned: &Owned) {
        debug_assert!(!head.is_followed(slot), "nobody follows the new series in slot {slot} yet");
        // It may have been here before, and its samples be in blocks.
        let applied = head.frozen_newest().max(self.flushed).unwrap_or(WallMs::MIN);
        for ear in &mut self.ears {
            // Whoever followed the series that had this number before does not follow this one by that.
            ear.slots.remove(slot);
            for at in 0..ear.watches.len() {
                let watch = Arc::clone(&ear.watches[at]);
                if accepts(&watch, owned) && ear.begin(&watch, slot, owned, applied) {
                    head.follow(slot, true);
                }
            }
        }
    }

    /// Puts a number without a start into the head, and reports it: each counts.
    pub(crate) fn apply_float(&mut self, head: &mut Head, row: FloatRow) {
        let FloatRow { index: slot, time_ms, value } = row;
        let time = WallMs(time_ms);
        head.apply_float(row);
        if self.ears.is_empty() || !head.is_followed(slot) {
            return;
        }
        for ear in self.ears.iter_mut().filter(|ear| ear.wants(slot, time)) {
            ear.follower.sample(slot, time, Value::Float(value), true);
        }
    }

    /// Puts a sample into the head, and reports it when it counts; false when it is a point that was there already.
    pub(crate) fn apply(&mut self, head: &mut Head, placed: Placed) -> bool {
        let Placed { index: slot, time_ms, start_ms, .. } = placed;
        let time = WallMs(time_ms);
        debug_assert_eq!(
            head.is_followed(slot),
            self.ears.iter().any(|ear| ear.slots.contains(slot)),
            "the head knows whether somebody wants the series in slot {slot}"
        );
        if self.ears.is_empty() || !head.is_followed(slot) || !self.ears.iter().any(|ear| ear.wants(slot, time)) {
            return head.apply(placed);
        }
        let value = placed.value.clone();
        let is_new = head.apply(placed);
        if is_new {
            let is_certain = start_ms == 0 || Some(time) > head.frozen_newest().max(self.flushed);
            let mut ears = self.ears.iter_mut().filter(|ear| ear.wants(slot, time)).peekable();
            let mut value = Some(value);
            while let Some(ear) = ears.next() {
                let value = if ears.peek().is_some() { value.clone() } else { value.take() };
                ear.follower.sample(slot, time, value.expect("taken by the last one"), is_certain);
            }
        }
        is_new
    }
}

impl AudienceFollower {
    fn wants(&self, slot: u32, time: WallMs) -> bool {
        self.slots.contains(slot) && self.follower.wants(time)
    }

    /// Whether the follower wants the series.
    fn begin(&mut self, watch: &Watch, slot: u32, owned: &Owned, applied: WallMs) -> bool {
        debug_assert!(accepts(watch, owned), "watch {} does not ask for the series in slot {slot}", watch.id);
        let (tenant, def) = (owned.tenant(), owned.def());
        let followed = Followed { watch: watch.id, slot, series: def.id(tenant), tenant, def: &def, applied };
        let is_wanted = self.follower.begin(followed);
        if is_wanted {
            self.slots.insert(slot);
        }
        is_wanted
    }
}

fn accepts(watch: &Watch, owned: &Owned) -> bool {
    watch.tenant.as_ref().is_none_or(|tenant| tenant == owned.tenant()) && owned.matches(&watch.matchers)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use ogive_hist::Histogram;
    use ogive_journal::SimulatedDisk;
    use ogive_model::{Batch, Kind, MatchOp, Sample, SeriesMeta, SourceId, Temporality};

    use super::*;
    use crate::{ManualClock, Options, Store};

    const NOW_MS: i64 = 1_700_000_000_000;

    #[derive(Debug, PartialEq)]
    enum FollowEvent {
        Begin(u64, SeriesId, i64),
        Sample(i64, bool),
        Pass(i64),
        End,
    }

    /// Hears of what is newer than the instant.
    struct Late(Listener, i64);

    impl Follower for Late {
        fn begin(&mut self, followed: Followed<'_>) -> bool {
            self.0.begin(followed)
        }

        fn wants(&self, time: WallMs) -> bool {
            time > WallMs(self.1)
        }

        fn sample(&mut self, slot: u32, time: WallMs, value: Value, is_certain: bool) {
            self.0.sample(slot, time, value, is_certain);
        }

        fn pass(&mut self, until: WallNs) {
            self.0.pass(until);
        }
    }

    #[test]
    fn what_a_follower_has_no_use_for_is_stored_and_not_reported() {
        let clock = Arc::new(ManualClock::new(WallNs(NOW_MS * 1_000_000)));
        let options = Options { shards: 1, ..Options::default() };
        let store = Store::open(Arc::new(SimulatedDisk::new(1)), "data".as_ref(), options, clock).unwrap();
        let (ear, heard) = channel();
        let (other, all) = channel();
        store.follow(Audience::Detectors, || Box::new(Late(Listener(ear.clone()), NOW_MS + 200)));
        store.watch(Audience::Detectors, watch(1, tenant(), "a"));
        put(&store, 1, "a", None, 200);
        put(&store, 2, "a", None, 201);
        store.follow(Audience::Streams, || Box::new(Listener(other.clone())));
        store.watch(Audience::Streams, watch(1, tenant(), "a"));
        put(&store, 3, "a", None, 150);
        put(&store, 4, "a", None, 250);
        store.pass(Audience::Detectors, WallNs(7));
        store.pass(Audience::Streams, WallNs(7));
        let samples = |heard: std::sync::mpsc::Receiver<FollowEvent>| -> Vec<FollowEvent> {
            let until = heard.into_iter().take_while(|heard| *heard != FollowEvent::Pass(7));
            until.filter(|heard| matches!(heard, FollowEvent::Sample(..))).collect()
        };
        assert_eq!(samples(heard), [FollowEvent::Sample(201, true), FollowEvent::Sample(250, true)]);
        assert_eq!(samples(all), [FollowEvent::Sample(150, true), FollowEvent::Sample(250, true)]);
        assert_eq!(store.status().head_samples, 4);
    }

    #[test]
    fn slots_are_a_set_of_numbers() {
        let mut slots = Slots::default();
        for slot in [0, 63, 64, 1_000] {
            assert!(!slots.contains(slot));
            slots.insert(slot);
            assert!(slots.contains(slot) && !slots.contains(slot + 1));
        }
        slots.remove(64);
        slots.remove(5_000);
        assert!(slots.contains(63) && !slots.contains(64) && slots.contains(1_000));
    }

    struct Listener(Sender<FollowEvent>);

    impl Follower for Listener {
        fn begin(&mut self, followed: Followed<'_>) -> bool {
            self.0.send(FollowEvent::Begin(followed.watch, followed.series, followed.applied.0)).unwrap();
            true
        }

        fn sample(&mut self, _: u32, time: WallMs, _: Value, is_certain: bool) {
            self.0.send(FollowEvent::Sample(time.0 - NOW_MS, is_certain)).unwrap();
        }

        fn pass(&mut self, until: WallNs) {
            self.0.send(FollowEvent::Pass(until.0)).unwrap();
        }
    }

    impl Drop for Listener {
        fn drop(&mut self) {
            let _ = self.0.send(FollowEvent::End);
        }
    }

    fn def(name: &str) -> SeriesDef {
        let meta =
            SeriesMeta { kind: Kind::Histogram, temporality: Temporality::Delta, unit: String::new(), width_ms: 0 };
        SeriesDef::new([("__name__", name)], meta).unwrap()
    }

    fn tenant() -> Tenant {
        Tenant::new("team").unwrap()
    }

    fn put(store: &Store, sequence: u64, name: &str, start_ms: Option<i64>, time_ms: i64) {
        let ns = |ms: i64| (NOW_MS + ms) * 1_000_000;
        let mut value = Histogram::log_linear();
        value.record(1.0);
        let value = Value::Histogram(Box::new(value));
        let sample = Sample { series: 0, time_ns: ns(time_ms), start_ns: start_ms.map(ns), value };
        let (series, samples) = (vec![Ok(def(name))], vec![Ok(sample)]);
        let batch = Batch { source: SourceId(1), sequence, tenant: tenant(), series, samples, ..Batch::default() };
        let (sender, done) = channel();
        store.submit(batch, Box::new(move |outcome| sender.send(outcome).unwrap())).unwrap();
        done.recv().unwrap().unwrap();
    }

    fn watch(id: u64, tenant: Tenant, name: &str) -> Watch {
        Watch { id, tenant: Some(tenant), matchers: vec![Matcher::new("__name__", MatchOp::Equal, name).unwrap()] }
    }

    #[test]
    fn a_follower_hears_what_is_new_of_what_is_watched() {
        let clock = Arc::new(ManualClock::new(WallNs(NOW_MS * 1_000_000)));
        let options = Options { shards: 1, ..Options::default() };
        let store = Store::open(Arc::new(SimulatedDisk::new(1)), "data".as_ref(), options, clock).unwrap();
        let (ear, heard) = channel();
        let reported = || {
            store.pass(Audience::Streams, WallNs(7));
            heard.iter().take_while(|heard| *heard != FollowEvent::Pass(7)).collect::<Vec<_>>()
        };
        put(&store, 1, "a", None, 100);
        store.follow(Audience::Streams, || Box::new(Listener(ear.clone())));
        store.watch(Audience::Streams, watch(1, Tenant::default(), "a"));
        put(&store, 2, "a", None, 200);
        assert_eq!(reported(), [], "another tenant's");
        store.watch(Audience::Streams, watch(2, tenant(), "a"));
        store.watch(Audience::Streams, watch(3, tenant(), "b"));
        let (a, b) = (def("a").id(&tenant()), def("b").id(&tenant()));
        assert_eq!(reported(), [FollowEvent::Begin(2, a, NOW_MS + 200)]);
        put(&store, 3, "a", Some(200), 300);
        put(&store, 4, "a", Some(200), 300);
        put(&store, 4, "a", None, 310);
        put(&store, 5, "b", None, 320);
        put(&store, 6, "c", None, 330);
        let expected =
            [FollowEvent::Sample(300, true), FollowEvent::Begin(3, b, i64::MIN), FollowEvent::Sample(320, true)];
        assert_eq!(reported(), expected, "the same point, the same number and what nobody watches are not reported");
        store.flush().unwrap();
        put(&store, 7, "a", Some(200), 300);
        put(&store, 8, "a", Some(300), 400);
        put(&store, 9, "a", None, 250);
        let expected =
            [FollowEvent::Sample(300, false), FollowEvent::Sample(400, true), FollowEvent::Sample(250, true)];
        assert_eq!(reported(), expected, "a point that may be in a block is not certain, a fragment always is");
        store.watch(Audience::Streams, watch(4, tenant(), "b"));
        assert_eq!(reported(), [FollowEvent::Begin(4, b, NOW_MS + 330)], "what is in a block was applied before");
        store.unwatch(Audience::Streams, 2);
        store.unwatch(Audience::Streams, 3);
        put(&store, 10, "a", None, 500);
        put(&store, 11, "b", None, 500);
        assert_eq!(reported(), [FollowEvent::Sample(500, true)], "the other watch of b goes on");
        store.unfollow(Audience::Streams);
        assert_eq!(heard.recv(), Ok(FollowEvent::End));
        put(&store, 12, "b", None, 600);
        assert_eq!(heard.try_recv().ok(), None);
    }
}
