//! Places that clients share fairly: whoever waits and has lately used least gets the next one.
//!
//! Invariants: no asker has more than its share of the places, under however many tenants; of those who wait the one
//! whose asker and tenant have used least gets the next place, and of equal ones the one who came first. What was used
//! is the processor's time of what ran in them (for how long they were held, where nothing is known of that), and half
//! of it is forgotten every [`HALF_LIFE_NS`]: who has used much waits behind those who used little, not for ever.
//! Limits: who waits has been let in to ask before; [`USERS_MAX`] askers and tenants are remembered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ogive_model::{MonoNs, Ns};
use tokio::sync::oneshot;

use super::client::Client;

/// 10 s: a page that is opened again half a minute after a heavy query counts as unused.
const HALF_LIFE_NS: f64 = 10e9;
/// 4,096 askers and tenants: a hundred bytes each. Beyond that, those with negligible use are forgotten.
const USERS_MAX: usize = 4096;
/// 1 ms of use is not notable.
const NOTABLE_NS: f64 = 1e6;

/// How many of `places` one client may occupy: three quarters, and never all.
pub(super) const fn share(places: usize) -> usize {
    if places < 8 { places - 1 } else { places - places / 4 }
}

/// How long askers and tenants have held places lately.
#[derive(Debug, Default)]
pub(super) struct Usage {
    askers: HashMap<String, Used>,
    tenants: HashMap<String, Used>,
}

/// Nanoseconds, as they were at an instant.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    ns: f64,
    at: MonoNs,
}

impl Used {
    fn now(self, now: MonoNs) -> f64 {
        self.ns * (-(now.since(self.at).0 as f64) / HALF_LIFE_NS).exp2()
    }
}

impl Usage {
    /// `client` held a place for `held`.
    pub(super) fn add(&mut self, client: &Client, held: Ns, now: MonoNs) {
        let of_both = [(&mut self.askers, &client.asker), (&mut self.tenants, &client.tenant)];
        for (users, name) in of_both {
            if users.len() >= USERS_MAX {
                users.retain(|_, used| used.now(now) >= NOTABLE_NS);
            }
            let used = users.get(name).copied().unwrap_or_default();
            users.insert(name.clone(), Used { ns: used.now(now) + held.0 as f64, at: now });
        }
    }

    /// The use by the client's asker and tenant.
    pub(super) fn of(&self, client: &Client, now: MonoNs) -> f64 {
        let used = |users: &HashMap<String, Used>, name: &str| users.get(name).map_or(0.0, |used| used.now(now));
        used(&self.askers, &client.asker) + used(&self.tenants, &client.tenant)
    }
}

/// Places of one kind.
#[derive(Clone)]
pub(super) struct Queue {
    shared: Arc<Shared>,
}

struct Shared {
    usage: Arc<Mutex<Usage>>,
    now: fn() -> MonoNs,
    places: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    free: usize,
    /// The number of slots that each asker occupies.
    held: HashMap<String, usize>,
    waiting: Vec<Waiter>,
    next: u64,
}

struct Waiter {
    number: u64,
    client: Client,
    granted: oneshot::Sender<Permit>,
}

/// The right to a place, until it is dropped.
pub(super) struct Permit {
    shared: Arc<Shared>,
    asker: String,
}

impl Queue {
    pub(super) fn new(places: usize, usage: &Arc<Mutex<Usage>>, now: fn() -> MonoNs) -> Self {
        let state = Mutex::new(State { free: places, ..State::default() });
        Self { shared: Arc::new(Shared { usage: Arc::clone(usage), now, places, state }) }
    }

    /// Free slots.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.shared.state().free
    }

    /// Waits for the client's turn and takes a slot.
    pub(super) async fn take(self, client: Client) -> Permit {
        let (granted, receiver) = oneshot::channel();
        let number = self.shared.join(client, granted);
        let _leaving = Leaving { shared: &self.shared, number };
        receiver.await.expect("a waiter stays in the queue until it has its place")
    }
}

/// Removes a waiter from the queue that no longer waits.
struct Leaving<'a> {
    shared: &'a Arc<Shared>,
    number: u64,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.shared.state().waiting.retain(|waiter| waiter.number != self.number);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.free += 1;
        assert!(state.free <= self.shared.places, "{} of {} places are free", state.free, self.shared.places);
        if let Some(held) = state.held.get_mut(&self.asker) {
            *held -= 1;
            if *held == 0 {
                state.held.remove(&self.asker);
            }
        }
        drop(state);
        self.shared.grant();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(self: &Arc<Self>, client: Client, granted: oneshot::Sender<Permit>) -> u64 {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.waiting.push(Waiter { number, client, granted });
        drop(state);
        self.grant();
        number
    }

    /// Hands out the free slots.
    fn grant(self: &Arc<Self>) {
        while let Some((waiter, permit)) = self.next() {
            // A waiter that is gone returns it when it is dropped.
            drop(waiter.granted.send(permit));
        }
    }

    /// The waiter that gets the next free slot.
    fn next(self: &Arc<Self>) -> Option<(Waiter, Permit)> {
        let mut state = self.state();
        if state.free == 0 {
            return None;
        }
        let now = (self.now)();
        let usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let share = share(self.places);
        let may = |waiter: &Waiter| state.held.get(&waiter.client.asker).is_none_or(|held| *held < share);
        let weight = |waiter: &Waiter| (usage.of(&waiter.client, now), waiter.number);
        let eligible = state.waiting.iter().enumerate().filter(|(_, waiter)| may(waiter));
        let least = eligible.map(|(at, waiter)| (weight(waiter), at));
        let (_, at) = least.min_by(|(one, _), (other, _)| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)))?;
        let waiter = state.waiting.swap_remove(at);
        state.free -= 1;
        let asker = waiter.client.asker.clone();
        *state.held.entry(asker.clone()).or_default() += 1;
        Some((waiter, Permit { shared: Arc::clone(self), asker }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn client(tenant: &str, asker: &str) -> Client {
        Client { tenant: tenant.into(), asker: asker.into() }
    }

    fn queue(places: usize) -> (Queue, Arc<Mutex<Usage>>) {
        let usage = Arc::<Mutex<Usage>>::default();
        (Queue::new(places, &usage, || MonoNs(0)), usage)
    }

    /// Lets all ask, in this order, of a queue of so many places; each works for as long as it says and is charged for
    /// it. The order in which they ended.
    fn order(places: usize, requested: &[(Client, Ns)]) -> Vec<usize> {
        let (queue, usage) = queue(places);
        let mut futures: Vec<_> =
            requested.iter().map(|(client, _)| Some(Box::pin(queue.clone().take(client.clone())))).collect();
        let mut context = Context::from_waker(Waker::noop());
        let mut order = Vec::new();
        while order.len() < requested.len() {
            let mut ended = Vec::new();
            for (at, future) in futures.iter_mut().enumerate() {
                if let Some(waits) = future
                    && let Poll::Ready(permit) = waits.as_mut().poll(&mut context)
                {
                    *future = None;
                    ended.push((at, permit));
                }
            }
            assert!(!ended.is_empty(), "somebody has a place: {order:?}");
            for (at, permit) in ended {
                let (client, held) = &requested[at];
                usage.lock().unwrap().add(client, *held, MonoNs(0));
                drop(permit);
                order.push(at);
            }
        }
        assert_eq!(queue.free(), places);
        order
    }

    /// Forty queries of one address, each of another tenant, had all places one after the other; whoever asked next
    /// waited for all of them.
    #[test]
    fn who_has_used_little_goes_before_who_waits_longer() {
        let heavy = |at: usize| (client(&format!("tenant-{at}"), "10.0.0.1"), Ns::from_secs(1));
        let mut requested: Vec<_> = (0..40).map(heavy).collect();
        requested.push((client("other", "10.0.0.2"), Ns(1_000_000)));
        let order = order(4, &requested);
        let tiny = order.iter().position(|at| *at == 40).unwrap();
        assert!(tiny <= 3, "it has the place that the other may not have: {order:?}");
        let heavy: Vec<usize> = order.into_iter().filter(|at| *at < 40).collect();
        assert_eq!(heavy, (0..40).collect::<Vec<_>>(), "equal ones go in the order of asking");
    }

    #[test]
    fn among_several_heavy_askers_the_light_one_is_next() {
        let mut requested = Vec::new();
        for at in 0..30 {
            requested.push((client("default", &format!("10.0.0.{}", at % 3)), Ns::from_secs(1)));
        }
        requested.push((client("default", "10.0.0.9"), Ns(1_000_000)));
        let order = order(2, &requested);
        let tiny = order.iter().position(|at| *at == 30).unwrap();
        assert!(
            tiny <= 3,
            "the two that had the places at first, and those that nobody had used anything before: {order:?}"
        );
    }

    #[test]
    fn a_tenant_behind_the_same_proxy_does_not_wait_for_another() {
        let mut requested: Vec<_> = (0..20).map(|_| (client("loud", "proxy"), Ns::from_secs(1))).collect();
        requested.push((client("quiet", "proxy"), Ns(1_000_000)));
        let order = order(4, &requested);
        let quiet = order.iter().position(|at| *at == 20).unwrap();
        assert!(quiet < 2 * share(4), "those that worked when it came, and what was handed out with it: {order:?}");
    }

    #[test]
    fn what_was_used_is_forgotten_by_halves() {
        let mut usage = Usage::default();
        let one = client("t", "a");
        usage.add(&one, Ns::from_secs(8), MonoNs(0));
        let half_life = HALF_LIFE_NS as u64;
        let all = [0, 1, 2, 3].map(|times| (usage.of(&one, MonoNs(times * half_life)) / 1e9).round());
        assert_eq!(all, [16.0, 8.0, 4.0, 2.0], "of the asker and of the tenant");
        for at in 0..2 * USERS_MAX {
            usage.add(&client(&format!("t{at}"), &format!("a{at}")), Ns(1000), MonoNs(half_life));
        }
        assert!(usage.askers.len() <= USERS_MAX && usage.tenants.len() <= USERS_MAX, "{}", usage.askers.len());
        assert!(usage.of(&one, MonoNs(half_life)) > 7e9, "who used much is remembered");
    }

    #[test]
    fn who_goes_gives_back_what_is_on_its_way() {
        static NOW: AtomicU64 = AtomicU64::new(0);
        let usage = Arc::<Mutex<Usage>>::default();
        // ORDERING: Relaxed; one thread.
        let queue = Queue::new(2, &usage, || MonoNs(NOW.load(Ordering::Relaxed)));
        let mut context = Context::from_waker(Waker::noop());
        let mut poll = |client: Client| {
            let mut future = Box::pin(queue.clone().take(client));
            let polled = future.as_mut().poll(&mut context);
            (future, polled)
        };
        let (_, Poll::Ready(first)) = poll(client("", "a")) else { panic!("it is free") };
        let (second, Poll::Pending) = poll(client("", "a")) else { panic!("its share is one of two") };
        assert_eq!(queue.free(), 1);
        drop(first);
        assert_eq!(queue.free(), 1, "the second has it, and has not looked yet");
        drop(second);
        assert_eq!(queue.free(), 2);
        assert!(queue.shared.state().waiting.is_empty() && queue.shared.state().held.is_empty());
    }
}
