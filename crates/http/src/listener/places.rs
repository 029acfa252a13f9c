//! Places of connections: who comes when all are taken gets the place of the connection that has been idle longest.
//!
//! Invariants: a connection whose request is being worked on keeps its place; one that waits for its client, for a
//! head, for the next bytes of a body or to read its answer, gives it up to others. The client address with most
//! connections gives first. Where all are at work, [`Limits::reserve`] more answer whoever asks for the health of the
//! process, and nothing else.
//! Threads: a lock around a table of at most a thousand; it is walked only when all places are taken.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ogive_model::{MonoNs, Ns};
use ogive_probe::Clock;
use tokio::sync::Notify;

/// 1 s without a byte: the client has stopped in the middle of a body or a response.
const STALLED: Ns = Ns::from_secs(1);

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) connections: usize,
    /// Those of them that are reserved for health requests.
    pub(super) reserve: usize,
    /// Connections that are being ended.
    pub(super) leaving: usize,
}

/// See the module.
pub(super) struct ConnectionPlaces {
    limits: Limits,
    clock: Clock,
    all: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next: u64,
    slots: HashMap<u64, Arc<Slot>>,
    /// Those that have been evicted and are not closed yet.
    leaving: usize,
}

/// The state of a connection.
pub(super) struct Slot {
    address: IpAddr,
    /// It has a place of the reserve.
    pub(super) is_reserve: bool,
    moved_ns: AtomicU64,
    /// Requests between the end of their head and the end of their answer.
    in_flight: AtomicUsize,
    /// The ones of them whose body is awaited.
    bodies: AtomicUsize,
    /// The client does not read.
    is_unread: AtomicBool,
    is_evicted: AtomicBool,
    /// It carries another protocol, and keeps its place.
    is_switched: AtomicBool,
    evicted: Notify,
    clock: Clock,
}

/// A slot; it is free again when this is dropped.
pub(super) struct ConnectionPlace {
    id: u64,
    pub(super) slot: Arc<Slot>,
    places: Arc<ConnectionPlaces>,
}

/// A request that is being answered.
pub(super) struct InFlight(Arc<Slot>);

impl ConnectionPlaces {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, clock: Clock::global(), all: Mutex::default() })
    }

    fn table(&self) -> std::sync::MutexGuard<'_, Table> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for a connection from `address`, and whether another connection was evicted for it; None when there is
    /// none.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Option<(ConnectionPlace, bool)> {
        let mut table = self.table();
        if table.slots.len() < self.limits.connections {
            return Some((self.put(&mut table, address, false), false));
        }
        if table.leaving < self.limits.leaving
            && let Some(id) = victim(&table.slots, MonoNs(self.clock.now()))
        {
            let slot = table.slots.remove(&id).expect("it was just found");
            table.leaving += 1;
            // ORDERING: Relaxed; the lock orders it before the drop of its place looks.
            slot.is_evicted.store(true, Ordering::Relaxed);
            slot.evicted.notify_one();
            return Some((self.put(&mut table, address, slot.is_reserve), true));
        }
        let has_room = table.slots.len() < self.limits.connections + self.limits.reserve;
        has_room.then(|| (self.put(&mut table, address, true), false))
    }

    fn put(self: &Arc<Self>, table: &mut Table, address: IpAddr, is_reserve: bool) -> ConnectionPlace {
        let id = table.next;
        table.next += 1;
        let slot = Arc::new(Slot {
            address,
            is_reserve,
            moved_ns: AtomicU64::new(self.clock.now()),
            in_flight: AtomicUsize::new(0),
            bodies: AtomicUsize::new(0),
            is_unread: AtomicBool::new(false),
            is_evicted: AtomicBool::new(false),
            is_switched: AtomicBool::new(false),
            evicted: Notify::new(),
            clock: self.clock,
        });
        table.slots.insert(id, slot.clone());
        assert!(table.slots.len() <= self.limits.connections + self.limits.reserve, "{} places", table.slots.len());
        ConnectionPlace { id, slot, places: self.clone() }
    }

    /// Connections whose requests are being answered.
    #[cfg(test)]
    pub(super) fn at_work(&self) -> usize {
        // ORDERING: Relaxed; tests look again until it is so.
        self.table().slots.values().filter(|slot| slot.in_flight.load(Ordering::Relaxed) > 0).count()
    }

    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        self.table().slots.len()
    }
}

/// Of the connections that wait for their client: those of the address with the most connections, and of these the one
/// idle longest.
fn victim(slots: &HashMap<u64, Arc<Slot>>, now: MonoNs) -> Option<u64> {
    let mut of_address: HashMap<IpAddr, usize> = HashMap::new();
    slots.values().for_each(|slot| *of_address.entry(slot.address).or_default() += 1);
    let idle = slots.iter().filter_map(|(id, slot)| Some((of_address[&slot.address], slot.idle(now)?, *id)));
    idle.max().map(|(_, _, id)| id)
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut table = self.places.table();
        // ORDERING: Relaxed; the lock orders it behind the eviction.
        match self.slot.is_evicted.load(Ordering::Relaxed) {
            true => table.leaving -= 1,
            false => drop(table.slots.remove(&self.id)),
        }
    }
}

impl Slot {
    /// Records that bytes were received or sent.
    pub(super) fn moved(&self) {
        // ORDERING: Relaxed here and below; each figure is read on its own, and an old one only makes the choice a
        // worse one.
        self.moved_ns.store(self.clock.now(), Ordering::Relaxed);
    }

    /// Sets whether the client is not reading what is sent.
    pub(super) fn set_unread(&self, is_unread: bool) {
        self.is_unread.store(is_unread, Ordering::Relaxed);
    }

    /// Its handler makes it one of another protocol, of which there are few.
    pub(super) fn switch(&self) {
        self.is_switched.store(true, Ordering::Relaxed);
    }

    /// Whether it carries another protocol.
    pub(super) fn is_switched(&self) -> bool {
        self.is_switched.load(Ordering::Relaxed)
    }

    /// How long it has been waiting for its client; None while the server is working for it.
    fn idle(&self, now: MonoNs) -> Option<Ns> {
        if self.is_switched() {
            return None;
        }
        let idle = now.since(MonoNs(self.moved_ns.load(Ordering::Relaxed)));
        let (in_flight, bodies) = (self.in_flight.load(Ordering::Relaxed), self.bodies.load(Ordering::Relaxed));
        let is_stalled = bodies >= in_flight || self.is_unread.load(Ordering::Relaxed);
        (in_flight == 0 || (is_stalled && idle >= STALLED)).then_some(idle)
    }

    pub(super) fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(self.clone())
    }

    pub(super) fn body_waits(&self, waits: bool) {
        match waits {
            true => self.bodies.fetch_add(1, Ordering::Relaxed),
            false => self.bodies.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// Returns when another needs the place.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn the_idlest_of_the_address_with_most_gives_its_place() {
        let places = ConnectionPlaces::new(Limits { connections: 4, reserve: 1, leaving: 2 });
        let take = |last| places.take(address(last));
        let (alone, _) = take(1).unwrap();
        let mut many: Vec<ConnectionPlace> = (0..3).map(|_| take(2).unwrap().0).collect();
        many[0].slot.moved();
        let (third, is_evicted) = take(3).unwrap();
        let evicted = |place: &ConnectionPlace| place.slot.is_evicted.load(Ordering::Relaxed);
        assert!(
            is_evicted && evicted(&many[1]) && !evicted(&alone) && !evicted(&many[0]),
            "{:?}",
            many.iter().map(evicted).collect::<Vec<_>>()
        );
        // Who is at work keeps its place; who stalls in the middle does not.
        let busy: Vec<InFlight> =
            [&alone, &many[0], &many[2], &third].map(|place| place.slot.begin()).into_iter().collect();
        let (reserve, is_evicted) = take(4).unwrap();
        assert!(!is_evicted && reserve.slot.is_reserve && !third.slot.is_reserve);
        let _probe = reserve.slot.begin();
        assert!(take(5).is_none(), "one more than there may be");
        third.slot.body_waits(true);
        assert!(take(5).is_none(), "its last byte has just come");
        third.slot.moved_ns.store(0, Ordering::Relaxed);
        let (fifth, is_evicted) = take(5).unwrap();
        assert!(is_evicted && evicted(&third) && !fifth.slot.is_reserve);
        assert!(take(6).is_none(), "two are leaving already");
        drop((busy, third));
        drop(many.remove(1));
        assert!(take(6).unwrap().1);
        drop((alone, many, reserve, fifth));
        assert_eq!((places.taken(), places.table().leaving), (0, 0));
    }

    #[test]
    fn an_answer_that_is_not_read_gives_its_place_up() {
        let places = ConnectionPlaces::new(Limits { connections: 1, reserve: 0, leaving: 1 });
        let (first, _) = places.take(address(1)).unwrap();
        let _answering = first.slot.begin();
        first.slot.moved_ns.store(0, Ordering::Relaxed);
        assert!(places.take(address(1)).is_none());
        first.slot.set_unread(true);
        assert!(places.take(address(1)).unwrap().1);
    }

    #[test]
    fn a_connection_of_another_protocol_keeps_its_place() {
        let places = ConnectionPlaces::new(Limits { connections: 1, reserve: 0, leaving: 1 });
        let (first, _) = places.take(address(1)).unwrap();
        first.slot.moved_ns.store(0, Ordering::Relaxed);
        first.slot.switch();
        assert!(places.take(address(1)).is_none());
        drop(first);
        assert!(!places.take(address(1)).unwrap().1);
    }
}
