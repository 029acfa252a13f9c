//! A query's place among those that run: one of a few, and one of fewer once it turns out to read much, so that small queries do not wait
//! behind large ones; and of all of them only some for one client, so that nobody waits behind one client alone.
//!
//! Invariants: what runs has a place. Who waits for one among the large gives its own to others meanwhile, as long as no more than
//! [`WAITING`] wait so; places among the large are given in the order of asking. A client is a tenant, and of it a login and an address;
//! it holds no more than [`share`] of any kind of place.
//! Threads: who waits does so on the thread of its query; [`WAITING`] of those are there beside those of queries that run.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::peer::{Asker, TENANT_HEADER};

/// 4 queries run at once: twice the processors of a small machine; more would only share them.
pub(super) const SMALL: usize = 4;
/// 3 large ones run beside them, two of one client.
pub(super) const LARGE: usize = 3;
/// 16 wait for a place among the large on threads of their own; more keep their places among the others while they wait.
pub(super) const WAITING: usize = 16;
/// 256 queries wait: a page of panels on a few dozen screens. More are told to come back.
pub(super) const ASKED: usize = 256;
/// 10,000 series are gathered within some 20 ms.
const SERIES_SMALL_MAX: usize = 10_000;
/// 4 Mi samples are read and evaluated within some 100 ms.
const SAMPLES_SMALL_MAX: usize = 4 << 20;
/// So often who waits looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);

/// How many of `places` one client may have: three quarters, and never all.
pub(super) const fn share(places: usize) -> usize {
    if places < 8 { places - 1 } else { places - places / 4 }
}

/// Who asks: a text that is the same for all requests of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Client(String);

tokio::task_local! {
    static CLIENT: Client;
}

impl Client {
    fn new(request: &Request) -> Self {
        let tenant = request.headers().get(TENANT_HEADER).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let asker = request.extensions().get::<Asker>().map(ToString::to_string);
        Self(format!("{}\n{}", tenant.unwrap_or_default(), asker.unwrap_or_default()))
    }

    /// Whose request this task answers; the server's own when it answers none.
    pub(super) fn current() -> Self {
        CLIENT.try_with(Self::clone).unwrap_or_default()
    }

    /// Does `work` in the name of the client.
    pub(super) async fn scope<T>(self, work: impl Future<Output = T>) -> T {
        CLIENT.scope(self, work).await
    }
}

/// Answers a request in the name of its client.
pub(super) async fn carry(request: Request, next: Next) -> Response {
    Client::new(&request).scope(next.run(request)).await
}

/// Places of each kind: all that there are, or those of one client.
#[derive(Debug)]
struct Kinds {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    asked: Arc<Semaphore>,
}

impl Kinds {
    fn new(of: impl Fn(usize) -> usize) -> Arc<Self> {
        let [small, large, waiting, asked] =
            [SMALL, LARGE, WAITING, ASKED].map(|places| Arc::new(Semaphore::new(of(places))));
        Arc::new(Self { small, large, waiting, asked })
    }
}

/// All places.
#[derive(Clone)]
pub(super) struct Places {
    all: Arc<Kinds>,
    /// Those of the clients that have any now.
    clients: Arc<Mutex<HashMap<Client, Weak<Kinds>>>>,
}

/// A place and the client's own right to it.
type Held = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// One among those who may ask.
pub(super) struct Asked {
    own: Arc<Kinds>,
    _held: Held,
}

impl Places {
    pub(super) fn new() -> Self {
        Self { all: Kinds::new(|places| places), clients: Arc::default() }
    }

    /// Places among the small that nobody has.
    #[cfg(test)]
    pub(super) fn free_small(&self) -> usize {
        self.all.small.available_permits()
    }

    fn own(&self, client: Client) -> Arc<Kinds> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = clients.get(&client).and_then(Weak::upgrade) {
            return own;
        }
        clients.retain(|_, own| own.strong_count() > 0);
        let own = Kinds::new(share);
        clients.insert(client, Arc::downgrade(&own));
        own
    }

    /// Lets `client` ask, unless it or all together ask for much already.
    pub(super) fn ask(&self, client: Client) -> Option<Asked> {
        let own = self.own(client);
        let of_client = own.asked.clone().try_acquire_owned().ok()?;
        let of_all = self.all.asked.clone().try_acquire_owned().ok()?;
        Some(Asked { own, _held: (of_client, of_all) })
    }

    /// The next place among the small.
    pub(super) async fn take(&self, asked: &Asked) -> Place {
        let own = Arc::clone(&asked.own);
        let held = both(own.small.clone(), self.all.small.clone()).await;
        Place { held: Mutex::new((Some(held), false)), own, all: Arc::clone(&self.all) }
    }
}

/// The client's right first: who waits for that takes nobody else's place.
async fn both(own: Arc<Semaphore>, all: Arc<Semaphore>) -> Held {
    let own = own.acquire_owned().await.expect("the semaphore is never closed");
    (own, all.acquire_owned().await.expect("the semaphore is never closed"))
}

/// A place that is held.
pub(super) struct Place {
    /// And whether it is one among the large.
    held: Mutex<(Option<Held>, bool)>,
    own: Arc<Kinds>,
    all: Arc<Kinds>,
}

impl Place {
    /// Makes a place of one who reads so many series and samples one among the large, if these are many. Gives up when nobody waits for
    /// the answer any more.
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
        if let Some(large) = wait(both(self.own.large.clone(), self.all.large.clone()), is_gone) {
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

/// Waits on this thread for what a future gives, unless nobody wants it any more.
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
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn free(kinds: &Kinds) -> [usize; 3] {
        [&kinds.small, &kinds.large, &kinds.waiting].map(|one| one.available_permits())
    }

    fn client(name: &str) -> Client {
        Client(name.into())
    }

    async fn taken(places: &Places, name: &str) -> Place {
        let asked = places.ask(client(name)).expect("few ask");
        places.take(&asked).await
    }

    /// Four queries over a million series had all places for ten seconds, and a dashboard waited behind them.
    #[tokio::test]
    async fn large_queries_wait_for_each_other_and_small_ones_go_by() {
        let places = Places::new();
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
        let (waits, told) = (next.clone(), gone.clone());
        // ORDERING: SeqCst, here and below; a test.
        let thread = std::thread::spawn(move || waits.fit(usize::MAX, 0, || told.load(Ordering::SeqCst)));
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

    #[tokio::test]
    async fn more_than_may_wait_keep_their_places() {
        let places = Places::new();
        let (_large, _waiting) = (
            places.all.large.clone().acquire_many_owned(LARGE as u32).await,
            places.all.waiting.acquire_many(WAITING as u32).await,
        );
        let place = taken(&places, "").await;
        place.fit(usize::MAX, 0, || true);
        assert_eq!(free(&places.all)[0], SMALL - 1);
    }

    /// Who asked four slow questions at once had every place, and everybody else waited for them to end.
    #[tokio::test]
    async fn one_client_leaves_a_place_of_each_kind_to_others() {
        let places = Places::new();
        let mut small = Vec::new();
        for _ in 0..share(SMALL) {
            small.push(taken(&places, "many").await);
        }
        let asked = places.ask(client("many")).unwrap();
        let mut next = Box::pin(places.take(&asked));
        let mut context = Context::from_waker(Waker::noop());
        assert!(next.as_mut().poll(&mut context).is_pending(), "its share is used up");
        assert!(free(&places.all)[0] > 0);
        let other = taken(&places, "other").await;
        drop((small.pop(), other));
        drop(next.await);
        let large: Vec<Place> = small.drain(..).inspect(|place| place.fit(usize::MAX, 0, || false)).collect();
        assert_eq!((large.len(), free(&places.all)[1]), (share(LARGE), LARGE - share(LARGE)));
        drop(asked);
        let asked: Vec<_> = std::iter::from_fn(|| places.ask(client("many"))).collect();
        assert_eq!(asked.len(), share(ASKED));
        assert!(places.ask(client("other")).is_some());
        drop((asked, large));
        drop(places.ask(client("new")));
        assert_eq!(places.clients.lock().unwrap().len(), 1, "who has nothing is forgotten");
    }

    #[test]
    fn a_share_is_never_everything() {
        assert_eq!([SMALL, LARGE, WAITING, ASKED].map(share), [3, 2, 12, 192]);
    }
}
