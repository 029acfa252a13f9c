//! Room in memory for bodies that are arriving, which who stops sending does not keep from others.
//!
//! Invariants: while there is room a body may come as slowly as it likes, within its time. Where there is none, bodies
//! that come slower than [`RATE_MIN`] give theirs to whoever needs it, those of the client that holds most first; a
//! body that has come gives nothing.
//! Limits: the room; [`WAIT`] until those that were asked have gone.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ogive_model::{MonoNs, Ns};
use ogive_probe::Clock;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// 16 KiB/s, a link of 128 kbit/s: a slower client holds a MiB for more than a minute.
pub(super) const RATE_MIN: u64 = 16 << 10;
/// 1 s: the interval over which the rate is measured. A packet loss and its retransmission take less.
const WINDOW: Ns = Ns::from_secs(1);
/// 2 s: a body that is asked to give way does so at once, unless the machine is very busy.
const WAIT: Duration = Duration::from_secs(2);

/// See the module.
pub(super) struct Room {
    /// Kibibytes that are free.
    pub(super) free_kib: Arc<Semaphore>,
    clock: Clock,
    arriving: Mutex<Vec<Arc<Arrival>>>,
}

/// A body that is arriving.
pub(super) struct Arrival {
    client: Option<IpAddr>,
    kib: AtomicU64,
    pace: Mutex<Pace>,
    is_asked: AtomicBool,
    requested: Notify,
}

/// Bytes of the window that began at `from`, and the rate of the one before.
struct Pace {
    from: MonoNs,
    /// When the last byte arrived.
    last: MonoNs,
    bytes: u64,
    before: Option<u64>,
}

/// Bytes a second of those that came in `past`, which is above zero.
fn per_second(bytes: u64, past: Ns) -> u128 {
    u128::from(bytes) * 1_000_000_000 / u128::from(past.0.cast_unsigned())
}

impl Pace {
    fn add(&mut self, bytes: u64, now: MonoNs) {
        let past = now.since(self.from);
        if past >= WINDOW {
            let rate = per_second(self.bytes, past);
            let before = Some(u64::try_from(rate).unwrap_or(u64::MAX));
            *self = Self { from: now, last: now, bytes: 0, before };
        }
        self.bytes += bytes;
        self.last = now;
    }

    fn is_slow(&self, now: MonoNs) -> bool {
        // However much arrived before it stalled.
        if now.since(self.last) >= WINDOW {
            return true;
        }
        let past = now.since(self.from);
        if past >= WINDOW {
            return per_second(self.bytes, past) < u128::from(RATE_MIN);
        }
        self.before.is_some_and(|rate| rate < RATE_MIN) && self.bytes < RATE_MIN
    }
}

/// An [`Arrival`] for as long as its body is arriving.
pub(super) struct ArrivalGuard {
    room: Arc<Room>,
    pub(super) arrival: Arc<Arrival>,
}

impl Drop for ArrivalGuard {
    fn drop(&mut self) {
        self.room.arriving().retain(|other| !Arc::ptr_eq(other, &self.arrival));
    }
}

impl ArrivalGuard {
    /// Records that `bytes` arrived, and how many are held now.
    pub(super) fn came(&self, bytes: usize, held: usize) {
        // ORDERING: Relaxed; who looks at an old figure asks somebody else.
        self.arrival.kib.store(held.div_ceil(1024) as u64, Ordering::Relaxed);
        let mut pace = self.arrival.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.add(bytes as u64, MonoNs(self.room.clock.now()));
    }

    /// Returns when others need the memory of this one.
    pub(super) async fn requested(&self) {
        self.arrival.requested.notified().await;
    }

    /// Gets `kib` that slower bodies release; None when none is slow, or what they hold is not enough.
    pub(super) async fn others_give(&self, kib: u32) -> Option<OwnedSemaphorePermit> {
        if !self.room.ask(&self.arrival, u64::from(kib)) {
            return None;
        }
        let taken = self.room.free_kib.clone().acquire_many_owned(kib);
        tokio::time::timeout(WAIT, taken).await.ok()?.ok()
    }
}

impl Room {
    pub(super) fn new(kib: usize) -> Arc<Self> {
        Arc::new(Self { free_kib: Arc::new(Semaphore::new(kib)), clock: Clock::global(), arriving: Mutex::default() })
    }

    fn arriving(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Arrival>>> {
        self.arriving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called when a body of `client` begins to arrive.
    pub(super) fn begin(self: &Arc<Self>, client: Option<IpAddr>) -> ArrivalGuard {
        let now = MonoNs(self.clock.now());
        let arrival = Arc::new(Arrival {
            client,
            kib: AtomicU64::new(0),
            pace: Mutex::new(Pace { from: now, last: now, bytes: 0, before: None }),
            is_asked: AtomicBool::new(false),
            requested: Notify::new(),
        });
        self.arriving().push(arrival.clone());
        ArrivalGuard { room: self.clone(), arrival }
    }

    /// Asks as many slow bodies as necessary to give way; false when theirs and what is free is not enough.
    fn ask(&self, own: &Arc<Arrival>, kib: u64) -> bool {
        let (all, now) = (self.arriving(), MonoNs(self.clock.now()));
        // ORDERING: Relaxed; see `came`. The lock orders who is asked.
        let held = |one: &Arrival| one.kib.load(Ordering::Relaxed);
        let is_asked = |one: &Arrival| one.is_asked.load(Ordering::Relaxed);
        let mut of_client: HashMap<Option<IpAddr>, u64> = HashMap::new();
        all.iter().for_each(|one| *of_client.entry(one.client).or_default() += held(one));
        let is_slow = |one: &Arrival| one.pace.lock().unwrap_or_else(PoisonError::into_inner).is_slow(now);
        let mut slow: Vec<&Arc<Arrival>> = all
            .iter()
            .filter(|one| !Arc::ptr_eq(one, own) && !is_asked(one) && held(one) > 0 && is_slow(one))
            .collect();
        slow.sort_by_key(|one| std::cmp::Reverse((of_client[&one.client], held(one))));
        let mut coming = self.free_kib.available_permits() as u64;
        coming += all.iter().filter(|one| is_asked(one)).map(|one| held(one)).sum::<u64>();
        if coming + slow.iter().map(|one| held(one)).sum::<u64>() < kib {
            return false;
        }
        for one in slow {
            if coming >= kib {
                break;
            }
            coming += held(one);
            one.is_asked.store(true, Ordering::Relaxed);
            one.requested.notify_one();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sends_little_is_slow_and_who_has_just_begun_is_not() {
        let at = |seconds: i64, ns: i64| MonoNs(0).saturating_add(WINDOW * seconds + Ns(ns));
        let mut pace = Pace { from: at(0, 0), last: at(0, 0), bytes: 0, before: None };
        pace.add(1 << 30, at(0, 0));
        assert!(!pace.is_slow(at(0, 0)) && !pace.is_slow(at(1, -1)));
        assert!(pace.is_slow(at(1, 0)), "it came at once, and then nothing");
        pace.add(1, at(1, 0));
        assert!(!pace.is_slow(at(1, 1)), "the window before was fast");
        assert!(pace.is_slow(at(2, 0)), "a byte a second");
        pace.add(1, at(2, 0));
        assert!(pace.is_slow(at(2, 1)));
        pace.add(RATE_MIN, at(2, 2));
        assert!(!pace.is_slow(at(2, 3)), "it goes on");
        assert!(pace.is_slow(at(1_000, 0)));
    }

    #[test]
    fn the_slow_of_the_client_that_holds_most_are_asked_first_and_no_more_than_needed() {
        let room = Room::new(100);
        let _held = room.free_kib.clone().try_acquire_many_owned(100).unwrap();
        let client = |last: u8| Some(IpAddr::from([10, 0, 0, last]));
        let begin = |last, kib: usize, is_slow: bool| {
            let arriving = room.begin(client(last));
            arriving.came(kib << 10, kib << 10);
            if is_slow {
                let mut pace = arriving.arrival.pace.lock().unwrap();
                let now = MonoNs(room.clock.now());
                *pace = Pace { from: now, last: now, bytes: 0, before: Some(0) };
            }
            arriving
        };
        let (fast, one) = (begin(1, 50, false), begin(1, 10, true));
        let (large, small) = (begin(2, 20, true), begin(2, 5, true));
        let own = begin(3, 1, true);
        let requested = |one: &ArrivalGuard| one.arrival.is_asked.load(Ordering::Relaxed);
        assert!(!room.ask(&own.arrival, 36), "the slow hold 35");
        assert!(![&fast, &one, &large, &small].into_iter().any(requested));
        assert!(room.ask(&own.arrival, 9));
        assert!(requested(&one) && !requested(&large), "client 1 holds most");
        assert!(room.ask(&own.arrival, 10), "what is on its way counts");
        assert!(!requested(&large) && room.ask(&own.arrival, 11));
        assert!(requested(&large) && !requested(&small) && !requested(&fast) && !requested(&own));
        drop((fast, one, large, small, own));
        assert!(room.arriving().is_empty());
    }
}
