//! A query's place among those that run: one of a few, and one of fewer once it turns out to read much, so that small queries do not wait
//! behind large ones.
//!
//! Invariants: what runs has a place. Who waits for one among the large gives its own to others meanwhile, as long as no more than
//! [`WAITING`] wait so; places among the large are given in the order of asking.
//! Threads: who waits does so on the thread of its query; [`WAITING`] of those are there beside those of queries that run.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// 4 queries run at once: twice the processors of a small machine; more would only share them.
pub(super) const SMALL: usize = 4;
/// 2 large ones run beside them.
pub(super) const LARGE: usize = 2;
/// 16 wait for a place among the large on threads of their own; more keep their places among the others while they wait.
pub(super) const WAITING: usize = 16;
/// 10,000 series are gathered within some 20 ms.
const SERIES_SMALL_MAX: usize = 10_000;
/// 4 Mi samples are read and evaluated within some 100 ms.
const SAMPLES_SMALL_MAX: usize = 4 << 20;
/// So often who waits looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);

/// All places.
#[derive(Clone)]
pub(super) struct Places {
    pub(super) small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Places {
    pub(super) fn new() -> Self {
        let [small, large, waiting] = [SMALL, LARGE, WAITING].map(|places| Arc::new(Semaphore::new(places)));
        Self { small, large, waiting }
    }

    /// The next place among the small.
    pub(super) async fn take(&self) -> Place {
        let held = self.small.clone().acquire_owned().await.expect("the semaphore is never closed");
        Place { held: Mutex::new((Some(held), false)), all: self.clone() }
    }
}

/// A place that is held.
pub(super) struct Place {
    /// And whether it is one among the large.
    held: Mutex<(Option<OwnedSemaphorePermit>, bool)>,
    all: Places,
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
        let waiting = self.all.waiting.clone().try_acquire_owned();
        if waiting.is_ok() {
            held.0 = None;
        }
        let large = self.all.large.clone().acquire_owned();
        if let Some(large) = wait(large, is_gone) {
            *held = (Some(large.expect("the semaphore is never closed")), true);
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

    fn free(places: &Places) -> [usize; 3] {
        [&places.small, &places.large, &places.waiting].map(|one| one.available_permits())
    }

    /// Four queries over a million series had all places for ten seconds, and a dashboard waited behind them.
    #[tokio::test]
    async fn large_queries_wait_for_each_other_and_small_ones_go_by() {
        let places = Places::new();
        let mut all = Vec::new();
        for _ in 0..LARGE {
            let place = places.take().await;
            place.fit(SERIES_SMALL_MAX, SAMPLES_SMALL_MAX, || unreachable!("it is small"));
            assert_eq!(free(&places)[0], SMALL - 1);
            place.fit(SERIES_SMALL_MAX + 1, 0, || unreachable!("there is room"));
            place.fit(0, SAMPLES_SMALL_MAX + 1, || unreachable!("it is large already"));
            assert_eq!(free(&places)[0], SMALL);
            all.push(place);
        }
        assert_eq!(free(&places), [SMALL, 0, WAITING]);
        let (third, gone) = (Arc::new(places.take().await), Arc::new(AtomicBool::new(false)));
        let (waits, told) = (third.clone(), gone.clone());
        // ORDERING: SeqCst, here and below; a test.
        let thread = std::thread::spawn(move || waits.fit(usize::MAX, 0, || told.load(Ordering::SeqCst)));
        while free(&places) != [SMALL, 0, WAITING - 1] {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        gone.store(true, Ordering::SeqCst);
        thread.join().unwrap();
        assert_eq!(free(&places), [SMALL, 0, WAITING], "it gave up");
        let waits = third.clone();
        let thread = std::thread::spawn(move || waits.fit(usize::MAX, 0, || false));
        drop(all.pop());
        thread.join().unwrap();
        assert_eq!(free(&places), [SMALL, 0, WAITING], "it has the place of the one that ended");
        drop((all, third));
        assert_eq!(free(&places), [SMALL, LARGE, WAITING]);
    }

    #[tokio::test]
    async fn more_than_may_wait_keep_their_places() {
        let places = Places::new();
        let (_large, _waiting) =
            (places.large.clone().acquire_many_owned(2).await, places.waiting.acquire_many(16).await);
        let place = places.take().await;
        place.fit(usize::MAX, 0, || true);
        assert_eq!(free(&places)[0], SMALL - 1);
    }
}
