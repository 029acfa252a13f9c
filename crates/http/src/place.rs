//! A query's place among those that run: one of a few, and one of fewer once it turns out to read much, so that small
//! queries do not wait behind large ones; and of all of them only some for one client, so that nobody waits behind one
//! client alone.
//!
//! Invariants: what runs has a place. Who waits for one among the large gives its own to others meanwhile, as long as
//! no more than [`WAITING`] wait so. A client is a tenant, and of it a login and an address; it holds no more than
//! [`share`] of any kind of place, and a login and address no more than that under all tenants. A place that several
//! wait for goes to the one who has lately used least ([`super::fair`]).
//! Threads: who waits does so on the thread of its query; [`WAITING`] of those are there beside those of queries that
//! run.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use ogive_model::{MonoNs, Ns};
use ogive_probe::Clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::client::Client;
use super::fair::{Permit, Queue, Usage, share};

/// 4 queries run at once: twice the processors of a small machine; more would only share them.
pub(super) const SMALL: usize = 4;
/// 3 large ones run beside them, two of one client.
pub(super) const LARGE: usize = 3;
/// 16 wait for a slot for large queries on threads of their own; further ones keep their small slots while they wait.
pub(super) const WAITING: usize = 16;
/// 256 queries wait: a page of panels on a few dozen screens. More get an error that says to retry.
pub(super) const ASKED: usize = 256;
/// 10,000 series are gathered within some 20 ms.
const SERIES_SMALL_MAX: usize = 10_000;
/// 4 Mi samples are read and evaluated within some 100 ms.
const SAMPLES_SMALL_MAX: usize = 4 << 20;
/// How often a waiting query checks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);

/// All slots of each kind.
struct All {
    small: Queue,
    large: Queue,
    waiting: Arc<Semaphore>,
    requested: Arc<Semaphore>,
    usage: Arc<Mutex<Usage>>,
}

/// One client's slots of each kind.
#[derive(Debug)]
struct Kinds {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    requested: Arc<Semaphore>,
}

impl Kinds {
    fn new() -> Arc<Self> {
        let [small, large, waiting, requested] =
            [SMALL, LARGE, WAITING, ASKED].map(|places| Arc::new(Semaphore::new(share(places))));
        Arc::new(Self { small, large, waiting, requested })
    }
}

fn now() -> MonoNs {
    MonoNs(Clock::global().now())
}

/// For how long this thread had a processor.
fn thread_cpu() -> Ns {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Ns::from_secs(time.tv_sec) + Ns(time.tv_nsec)
}

/// All places.
#[derive(Clone)]
pub(super) struct QueryPlaces {
    all: Arc<All>,
    /// Those of the clients that have any now.
    clients: Arc<Mutex<HashMap<Client, Weak<Kinds>>>>,
}

/// A place and the client's own right to it.
type HeldPermits = (Permit, OwnedSemaphorePermit);

/// The permission to submit a query.
pub(super) struct Admission {
    client: Client,
    own: Arc<Kinds>,
    _held: (OwnedSemaphorePermit, OwnedSemaphorePermit),
}

impl QueryPlaces {
    pub(super) fn new() -> Self {
        let usage = Arc::default();
        let [small, large] = [SMALL, LARGE].map(|places| Queue::new(places, &usage, now));
        let [waiting, requested] = [WAITING, ASKED].map(|places| Arc::new(Semaphore::new(places)));
        Self { all: Arc::new(All { small, large, waiting, requested, usage }), clients: Arc::default() }
    }

    /// Free slots for small queries.
    #[cfg(test)]
    pub(super) fn free_small(&self) -> usize {
        self.all.small.free()
    }

    fn own(&self, client: &Client) -> Arc<Kinds> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = clients.get(client).and_then(Weak::upgrade) {
            return own;
        }
        clients.retain(|_, own| own.strong_count() > 0);
        let own = Kinds::new();
        clients.insert(client.clone(), Arc::downgrade(&own));
        own
    }

    /// Admits a query of `client`, unless it or all clients together have too many already.
    pub(super) fn ask(&self, client: Client) -> Option<Admission> {
        let own = self.own(&client);
        let of_client = own.requested.clone().try_acquire_owned().ok()?;
        let of_all = self.all.requested.clone().try_acquire_owned().ok()?;
        Some(Admission { client, own, _held: (of_client, of_all) })
    }

    /// The next place among the small.
    pub(super) async fn take(&self, requested: &Admission) -> QueryPlace {
        let own = Arc::clone(&requested.own);
        let held = both(&requested.client, own.small.clone(), self.all.small.clone()).await;
        let client = requested.client.clone();
        let held = Mutex::new((Some(held), false));
        QueryPlace {
            held,
            client,
            own,
            all: Arc::clone(&self.all),
            from: now(),
            waited_ns: AtomicI64::new(0),
            cpu_ns: AtomicI64::new(0),
        }
    }
}

/// The client's own permit first: while waiting for that it holds no slot of others.
async fn both(client: &Client, own: Arc<Semaphore>, all: Queue) -> HeldPermits {
    let own = own.acquire_owned().await.expect("the semaphore is never closed");
    (all.take(client.clone()).await, own)
}

/// A slot that is held.
pub(super) struct QueryPlace {
    /// And whether it is one among the large.
    held: Mutex<(Option<HeldPermits>, bool)>,
    client: Client,
    own: Arc<Kinds>,
    all: Arc<All>,
    from: MonoNs,
    /// Of the time since then, that without a place.
    waited_ns: AtomicI64,
    /// Time on a processor; 0 while it is not known.
    cpu_ns: AtomicI64,
}

impl Drop for QueryPlace {
    fn drop(&mut self) {
        let now = now();
        // ORDERING: Relaxed; who drops it has it alone.
        let waited = Ns(self.waited_ns.load(Ordering::Relaxed));
        let held = now.since(self.from).saturating_sub(waited).max(Ns::ZERO);
        // A query that held the slot while others had the processor took nothing from them.
        let used = match Ns(self.cpu_ns.load(Ordering::Relaxed)) {
            Ns::ZERO => held,
            cpu => cpu,
        };
        // Before the slot is released: the next client is chosen by the use so far.
        self.all.usage.lock().unwrap_or_else(PoisonError::into_inner).add(&self.client, used, now);
    }
}

impl QueryPlace {
    /// Runs the work of the slot on this thread, and measures its processor time.
    pub(super) fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let from = thread_cpu();
        let done = work();
        // ORDERING: Relaxed; read by who drops the place, behind all that use it.
        self.cpu_ns.fetch_add((thread_cpu() - from).max(Ns::ZERO).0, Ordering::Relaxed);
        done
    }

    /// Changes the slot of a query that reads `series` and `samples` to one for large queries, if these are many. Gives
    /// up when the client is gone.
    pub(super) fn fit(&self, series: usize, samples: usize, is_gone: impl Fn() -> bool) {
        if series <= SERIES_SMALL_MAX && samples <= SAMPLES_SMALL_MAX {
            return;
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.1 {
            return;
        }
        let waiting = self.own.waiting.clone().try_acquire_owned().ok();
        let waiting = waiting.and_then(|own| Some((own, self.all.waiting.clone().try_acquire_owned().ok()?)));
        if waiting.is_some() {
            held.0 = None;
        }
        let from = now();
        let large = wait(both(&self.client, self.own.large.clone(), self.all.large.clone()), is_gone);
        // ORDERING: Relaxed; it is read when nobody else has the place.
        self.waited_ns.fetch_add(now().since(from).0, Ordering::Relaxed);
        if let Some(large) = large {
            *held = (Some(large), true);
        }
    }
}

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on this thread for the result of a future, unless it is no longer wanted.
fn wait<T>(future: impl Future<Output = T>, is_gone: impl Fn() -> bool) -> Option<T> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(found) = future.as_mut().poll(&mut context) {
            return Some(found);
        }
        if is_gone() {
            return None;
        }
        std::thread::park_timeout(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn free(all: &All) -> [usize; 3] {
        [all.small.free(), all.large.free(), all.waiting.available_permits()]
    }

    fn client(name: &str) -> Client {
        Client { asker: name.into(), ..Client::default() }
    }

    async fn taken(places: &QueryPlaces, name: &str) -> QueryPlace {
        let requested = places.ask(client(name)).expect("few ask");
        places.take(&requested).await
    }

    /// Four queries over a million series had all places for ten seconds, and a dashboard waited behind them.
    #[tokio::test]
    async fn large_queries_wait_for_each_other_and_small_ones_go_by() {
        let places = QueryPlaces::new();
        let mut all = Vec::new();
        for at in 0..LARGE {
            let place = taken(&places, &at.to_string()).await;
            place.fit(SERIES_SMALL_MAX, SAMPLES_SMALL_MAX, || unreachable!("it is small"));
            assert_eq!(free(&places.all)[0], SMALL - 1);
            place.fit(SERIES_SMALL_MAX + 1, 0, || unreachable!("there is room"));
            place.fit(0, SAMPLES_SMALL_MAX + 1, || unreachable!("it is large already"));
            assert_eq!(free(&places.all)[0], SMALL);
            all.push(place);
        }
        assert_eq!(free(&places.all), [SMALL, 0, WAITING]);
        let (next, gone) = (Arc::new(taken(&places, "next").await), Arc::new(AtomicBool::new(false)));
        let (waits, reported) = (next.clone(), gone.clone());
        // ORDERING: SeqCst, here and below; a test.
        let thread = std::thread::spawn(move || waits.fit(usize::MAX, 0, || reported.load(Ordering::SeqCst)));
        while free(&places.all) != [SMALL, 0, WAITING - 1] {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        gone.store(true, Ordering::SeqCst);
        thread.join().unwrap();
        assert_eq!(free(&places.all), [SMALL, 0, WAITING], "it gave up");
        let waits = next.clone();
        let thread = std::thread::spawn(move || waits.fit(usize::MAX, 0, || false));
        drop(all.pop());
        thread.join().unwrap();
        assert_eq!(free(&places.all), [SMALL, 0, WAITING], "it has the place of the one that ended");
        drop((all, next));
        assert_eq!(free(&places.all), [SMALL, LARGE, WAITING]);
    }

    /// A query that waited for a busy processor or a disk was charged as if it had worked.
    #[tokio::test]
    async fn who_waits_for_a_processor_is_not_charged() {
        let places = QueryPlaces::new();
        let used = |name: &str| places.all.usage.lock().unwrap().of(&client(name), now());
        taken(&places, "sleeps").await.run(|| std::thread::sleep(Duration::from_millis(200)));
        let works = taken(&places, "works").await;
        works.run(|| {
            let from = thread_cpu();
            while thread_cpu() - from < Ns(50_000_000) {}
        });
        drop(works);
        assert!(used("sleeps") < used("works"), "{} {}", used("sleeps"), used("works"));
        // Work that nobody measured: for as long as it held its place.
        let place = taken(&places, "holds").await;
        std::thread::sleep(Duration::from_millis(2));
        drop(place);
        assert!(used("holds") > 1e6, "{}", used("holds"));
    }

    #[tokio::test]
    async fn more_than_may_wait_keep_their_places() {
        let places = QueryPlaces::new();
        let mut large = Vec::new();
        for at in 0..LARGE {
            large.push(places.all.large.clone().take(client(&at.to_string())).await);
        }
        let _waiting = places.all.waiting.acquire_many(WAITING as u32).await;
        let place = taken(&places, "").await;
        place.fit(usize::MAX, 0, || true);
        assert_eq!(free(&places.all)[0], SMALL - 1);
    }

    /// Who asked four slow questions at once had every place, and everybody else waited for them to end.
    #[tokio::test]
    async fn one_client_leaves_a_place_of_each_kind_to_others() {
        let places = QueryPlaces::new();
        let mut small = Vec::new();
        for _ in 0..share(SMALL) {
            small.push(taken(&places, "many").await);
        }
        let requested = places.ask(client("many")).unwrap();
        let mut next = Box::pin(places.take(&requested));
        let mut context = Context::from_waker(Waker::noop());
        assert!(next.as_mut().poll(&mut context).is_pending(), "its share is used up");
        assert!(free(&places.all)[0] > 0);
        let other = taken(&places, "other").await;
        drop((small.pop(), other));
        drop(next.await);
        let large: Vec<QueryPlace> = small.drain(..).inspect(|place| place.fit(usize::MAX, 0, || false)).collect();
        assert_eq!((large.len(), free(&places.all)[1]), (share(LARGE), LARGE - share(LARGE)));
        drop(requested);
        let requested: Vec<_> = std::iter::from_fn(|| places.ask(client("many"))).collect();
        assert_eq!(requested.len(), share(ASKED));
        assert!(places.ask(client("other")).is_some());
        drop((requested, large));
        drop(places.ask(client("new")));
        assert_eq!(places.clients.lock().unwrap().len(), 1, "who has nothing is forgotten");
    }

    /// Under a tenant of each query one address had all places.
    #[tokio::test]
    async fn one_address_leaves_a_place_to_others_under_all_its_tenants() {
        let places = QueryPlaces::new();
        let of = |tenant: usize, asker: &str| Client { tenant: tenant.to_string(), asker: asker.into() };
        let mut held = Vec::new();
        for tenant in 0..share(SMALL) {
            let requested = places.ask(of(tenant, "10.0.0.1")).unwrap();
            held.push(places.take(&requested).await);
        }
        let requested = places.ask(of(9, "10.0.0.1")).unwrap();
        let mut next = Box::pin(places.take(&requested));
        let mut context = Context::from_waker(Waker::noop());
        assert!(next.as_mut().poll(&mut context).is_pending(), "the share of its address is used up");
        let other = places.ask(of(9, "10.0.0.2")).unwrap();
        let other = places.take(&other).await;
        assert_eq!(free(&places.all)[0], 0);
        drop(held.pop());
        assert!(next.as_mut().poll(&mut context).is_ready());
        drop((held, other, next));
        assert_eq!(free(&places.all)[0], SMALL);
    }

    #[test]
    fn a_share_is_never_everything() {
        assert_eq!([SMALL, LARGE, WAITING, ASKED].map(share), [3, 2, 12, 192]);
    }
}
