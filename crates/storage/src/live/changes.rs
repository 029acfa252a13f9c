//! From what time on something changed that a continuous query reads: the oldest sample that came since it looked last.
//!
//! Invariants: a sample of a watched series is reported after queries see it, so that a query made after looking reads
//! everything that was not reported before. Threads: the shards' followers and the readers share one number a watch,
//! without a lock on the way of samples.
//! Limits: `series_max` places of series in all; a watch beyond it says that anything may have changed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ogive_model::{Kind, Matcher, SeriesId, Tenant, Value, WallMs, WallNs};
use ogive_store::{Audience, Followed, Follower, Store, Watch};

/// Nothing arrived.
const NOTHING: i64 = i64::MAX;
/// Anything may have arrived, and may still arrive.
const ANYTHING: i64 = i64::MIN;

/// See the module.
pub struct Changes {
    store: Weak<Store>,
    series_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    watches: Arc<Watches>,
    count: usize,
    has_ended: bool,
}

/// What a watch is for, and its oldest change.
#[derive(Clone)]
struct Watching {
    oldest_ms: Arc<AtomicI64>,
    reads_texts: bool,
}

/// The oldest change of each watch, for the followers.
#[derive(Default)]
struct Watches {
    by_id: Mutex<HashMap<u64, Watching>>,
    /// Places of series that followers have.
    places: AtomicUsize,
    series_max: usize,
}

impl Watches {
    fn all(&self) -> MutexGuard<'_, HashMap<u64, Watching>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a query reads, watched until it is dropped.
pub struct Changing {
    changes: Arc<Changes>,
    id: u64,
    oldest_ms: Arc<AtomicI64>,
}

impl Changes {
    pub(super) fn new(store: Weak<Store>, series_max: usize) -> Arc<Self> {
        Arc::new(Self { store, series_max, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches the series of one of `selectors`, those of texts only if the query `reads_texts`; None when the store
    /// has ended. Waits for the store's shards.
    pub fn watch(
        self: &Arc<Self>,
        tenant: &Tenant,
        selectors: Vec<Vec<Matcher>>,
        reads_texts: bool,
    ) -> Option<Changing> {
        let store = self.store.upgrade()?;
        let mut state = self.state();
        if state.has_ended {
            return None;
        }
        if state.count == 0 {
            let watches = Arc::new(Watches { series_max: self.series_max, ..Watches::default() });
            state.watches = Arc::clone(&watches);
            store.follow(Audience::Queries, || Box::new(Tap { watches: Arc::clone(&watches), slots: HashMap::new() }));
        }
        state.next += 1;
        state.count += 1;
        let (id, oldest_ms) = (state.next, Arc::new(AtomicI64::new(NOTHING)));
        state.watches.all().insert(id, Watching { oldest_ms: Arc::clone(&oldest_ms), reads_texts });
        for matchers in selectors {
            store.watch(Audience::Queries, Watch { id, tenant: Some(tenant.clone()), matchers });
        }
        drop(state);
        Some(Changing { changes: Arc::clone(self), id, oldest_ms })
    }

    /// The server ends.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.has_ended = true;
        if let Some(store) = self.store.upgrade().filter(|_| state.count > 0) {
            store.unfollow(Audience::Queries);
        }
    }

    fn unwatch(&self, id: u64) {
        let mut state = self.state();
        state.watches.all().remove(&id);
        state.count -= 1;
        let Some(store) = self.store.upgrade().filter(|_| !state.has_ended) else { return };
        if state.count == 0 {
            store.unfollow(Audience::Queries);
        } else {
            store.unwatch(Audience::Queries, id);
        }
    }
}

impl Changing {
    /// The time of the oldest sample that arrived since the last call; [`WallMs::MIN`] when that is not known.
    pub fn take(&self) -> Option<WallMs> {
        // ORDERING: Acquire; pairs with the Release of `Tap::sample`: the query that is made next reads the sample,
        // which was applied before.
        let oldest_ms = self.oldest_ms.swap(NOTHING, Ordering::Acquire);
        if oldest_ms == ANYTHING {
            // ORDERING: Relaxed; it stays so.
            self.oldest_ms.store(ANYTHING, Ordering::Relaxed);
        }
        (oldest_ms != NOTHING).then_some(WallMs(oldest_ms))
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        let (changes, id) = (Arc::clone(&self.changes), self.id);
        // Shards may be busy: not on a thread that serves others.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => _ = runtime.spawn_blocking(move || changes.unwatch(id)),
            Err(_) => changes.unwatch(id),
        }
    }
}

/// The watches of a series.
struct SeriesWatches {
    series: SeriesId,
    by: Vec<Arc<AtomicI64>>,
}

struct Tap {
    watches: Arc<Watches>,
    slots: HashMap<u32, SeriesWatches>,
}

impl Follower for Tap {
    fn begin(&mut self, followed: Followed<'_>) -> bool {
        let Followed { watch, slot, series, def, .. } = followed;
        let Some(Watching { oldest_ms, reads_texts }) = self.watches.all().get(&watch).cloned() else { return false };
        if def.meta.kind == Kind::Text && !reads_texts {
            return false;
        }
        // ORDERING: Relaxed; a count that bounds memory.
        if self.watches.places.fetch_add(1, Ordering::Relaxed) >= self.watches.series_max {
            // ORDERING: Relaxed; a count, and a flag that is looked at again and again.
            self.watches.places.fetch_sub(1, Ordering::Relaxed);
            oldest_ms.store(ANYTHING, Ordering::Relaxed);
            return self.slots.get(&slot).is_some_and(|watched| watched.series == series);
        }
        let watched = self.slots.entry(slot).or_insert_with(|| SeriesWatches { series, by: Vec::new() });
        if watched.series != series {
            // ORDERING: Relaxed; a count.
            self.watches.places.fetch_sub(watched.by.len(), Ordering::Relaxed);
            *watched = SeriesWatches { series, by: Vec::new() };
        }
        // Entries whose watches have all ended are removed.
        let before = watched.by.len();
        watched.by.retain(|one| Arc::strong_count(one) > 1 && !Arc::ptr_eq(one, &oldest_ms));
        // ORDERING: Relaxed; a count.
        self.watches.places.fetch_sub(before - watched.by.len(), Ordering::Relaxed);
        watched.by.push(oldest_ms);
        true
    }

    fn sample(&mut self, slot: u32, time: WallMs, _: Value, _: bool) {
        for oldest_ms in self.slots.get(&slot).into_iter().flat_map(|watched| &watched.by) {
            // ORDERING: Release; pairs with the Acquire of `Changing::take`.
            oldest_ms.fetch_min(time.0, Ordering::Release);
        }
    }

    fn pass(&mut self, _: WallNs) {}
}
