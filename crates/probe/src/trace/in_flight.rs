//! Messages that are in flight, where a crash handler of the process can read them.
//!
//! A [`InFlight`] holds a place in one table of the process from a message's first stamp until it is dropped; each
//! stamp is stored there besides in the message. [`each_in_flight`] reads the table from a signal handler: it allocates
//! nothing, takes no lock and waits for nobody.
//!
//! *Invariants*: a place belongs to one message; a stamp that another thread is storing is there or is not.
//!
//! *Threads*: any may mark a message. The one that marked it last is remembered by that thread, so that a report can
//! name the message that its own thread worked on.
//!
//! *Limits*: [`IN_FLIGHT_MAX`] messages at a time and [`PATHS_MAX`] paths; what is beyond is not listed and works as
//! before. 7 KiB.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::path::{POINTS_MAX, Point, PointDef, TracePath};

/// 64 messages: as many as a server of some cores processes at once.
pub const IN_FLIGHT_MAX: usize = 64;
/// 16 paths of one process.
pub const PATHS_MAX: usize = 16;

/// The bits of [`MessageSlot::state`] that hold the path, counted from 1; the rest numbers the messages of the process.
const PATH_BITS: u32 = 8;

struct Path {
    name: &'static str,
    points: &'static [PointDef],
}

struct MessageSlot {
    /// 0: free.
    state: AtomicU64,
    /// 0: not stamped.
    ticks: [AtomicU64; POINTS_MAX],
}

static PATHS: [OnceLock<Path>; PATHS_MAX] = [const { OnceLock::new() }; PATHS_MAX];
static PLACES: [MessageSlot; IN_FLIGHT_MAX] =
    [const { MessageSlot { state: AtomicU64::new(0), ticks: [const { AtomicU64::new(0) }; POINTS_MAX] } };
        IN_FLIGHT_MAX];
/// Messages so far.
static MESSAGES: AtomicU64 = AtomicU64::new(0);

// No destructor and a constant start: a signal handler may read it at any time in the life of a thread.
thread_local!(static MARKED_LAST: Cell<u64> = const { Cell::new(0) });

/// A path whose messages are listed while they are in flight.
#[derive(Clone, Copy, Debug)]
pub struct ListedPath {
    /// Counted from 1; 0 when the table of paths was full.
    path: u64,
}

/// The slot of one message, which is free again when this is dropped.
#[derive(Debug)]
#[must_use = "the message is no longer listed when this is dropped"]
pub struct InFlight {
    place: Option<(usize, u64)>,
}

/// A message that is in flight.
#[derive(Clone, Copy, Debug)]
pub struct MessageInFlight {
    /// Of its path.
    pub path: &'static str,
    /// Whether it is the message that the calling thread stamped last.
    pub is_of_thread: bool,
    points: &'static [PointDef],
    ticks: [u64; POINTS_MAX],
}

impl ListedPath {
    /// Lists the messages of `P`.
    #[must_use]
    pub fn new<P: TracePath>() -> Self {
        let position = PATHS.iter().position(|path| {
            let path = path.get_or_init(|| Path { name: P::NAME, points: P::POINTS });
            path.name == P::NAME && path.points == P::POINTS
        });
        Self { path: position.map_or(0, |at| at as u64 + 1) }
    }
}

impl InFlight {
    /// A message of `path`, with the stamps that it has.
    pub fn begin<P: TracePath>(path: ListedPath, message: &P) -> Self {
        if path.path == 0 {
            return Self { place: None };
        }
        // ORDERING: Relaxed; it only has to give each number once.
        let number = MESSAGES.fetch_add(1, Ordering::Relaxed) + 1;
        let state = number << PATH_BITS | path.path;
        let first = number as usize % IN_FLIGHT_MAX;
        let free = (first..first + IN_FLIGHT_MAX).map(|at| at % IN_FLIGHT_MAX).find(|at| {
            // ORDERING: Acquire; the stamps of the message before are gone, as the Release of its drop says.
            PLACES[*at].state.compare_exchange(0, state, Ordering::Acquire, Ordering::Relaxed).is_ok()
        });
        let in_flight = Self { place: free.map(|at| (at, state)) };
        for (point, ticks) in message.stamps().iter().enumerate() {
            if message.seen() & 1 << point != 0 {
                in_flight.mark_index(point, *ticks);
            }
        }
        in_flight
    }

    /// The message reached `point`, which keeps its first stamp.
    pub fn mark<P: TracePath>(&self, point: Point<P>, ticks: u64) {
        self.mark_index(point.index(), ticks);
    }

    fn mark_index(&self, point: usize, ticks: u64) {
        let Some((at, state)) = self.place else { return };
        MARKED_LAST.set(state);
        if let Some(stamp) = PLACES[at].ticks.get(point) {
            // ORDERING: Relaxed; each stamp is one word that says all there is, and readers take what is there.
            let _ = stamp.compare_exchange(0, ticks.max(1), Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let Some((at, _)) = self.place else { return };
        // ORDERING: Relaxed; the Release below publishes them.
        PLACES[at].ticks.iter().for_each(|stamp| stamp.store(0, Ordering::Relaxed));
        // ORDERING: Release; pairs with the Acquire of whoever takes the place next.
        PLACES[at].state.store(0, Ordering::Release);
    }
}

/// Calls `visit` with each message that is in flight. A signal handler may call it.
pub fn each_in_flight(mut visit: impl FnMut(&MessageInFlight)) {
    for place in &PLACES {
        // ORDERING: Acquire; the stamps are read after the message that they are of, and the second load is not before
        // them.
        let state = place.state.load(Ordering::Acquire);
        let mut ticks = [0; POINTS_MAX];
        for (copy, stamp) in ticks.iter_mut().zip(&place.ticks) {
            // ORDERING: Acquire; keeps the second load of the state behind.
            *copy = stamp.load(Ordering::Acquire);
        }
        // ORDERING: Relaxed; the loads above are Acquire.
        let is_same = place.state.load(Ordering::Relaxed) == state;
        let path = (state as usize & ((1 << PATH_BITS) - 1)).checked_sub(1).and_then(|at| PATHS.get(at)?.get());
        if let (true, Some(path)) = (is_same, path) {
            let is_of_thread = MARKED_LAST.get() == state;
            visit(&MessageInFlight { path: path.name, is_of_thread, points: path.points, ticks });
        }
    }
}

impl MessageInFlight {
    /// Ticks of its first stamp, if it has one.
    #[must_use]
    pub fn began(&self) -> Option<u64> {
        self.ticks.iter().copied().filter(|ticks| *ticks != 0).min()
    }

    /// Names and ticks of the points that it reached, in the order of the path.
    pub fn points(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let names = self.points.iter().map(|point| point.name);
        names.zip(self.ticks).filter(|(_, ticks)| *ticks != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, trace_path};

    trace_path! {
        /// A message of these tests.
        Tested {
            made: infra,
            sent: infra,
            handled: logic,
        }
    }

    trace_path! {
        /// A message of the test that fills the table.
        Many {
            made: infra,
            sent: infra,
        }
    }

    /// The table is the process': one test at a time.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

    fn listed(name: &str) -> Vec<MessageInFlight> {
        let mut found = Vec::new();
        each_in_flight(|message| {
            if message.path == name {
                found.push(*message);
            }
        });
        found
    }

    #[test]
    fn a_message_is_listed_from_its_first_stamp_until_it_is_dropped() {
        let _alone = crate::recorder::lock(&ALONE);
        let clock = Clock::manual(1_000, 0);
        let path = ListedPath::new::<Tested>();
        assert!(listed("Tested").is_empty());
        let message = Tested::begin(clock);
        let place = InFlight::begin(path, &message);
        clock.advance(500);
        let place = std::thread::spawn(move || {
            place.mark(Tested::sent, clock.ticks());
            // The first stamp of a point counts.
            place.mark(Tested::sent, clock.ticks() + 1);
            assert!(listed("Tested")[0].is_of_thread);
            place
        });
        let place = place.join().unwrap();
        let found = listed("Tested");
        assert_eq!(found.len(), 1);
        assert!(found[0].is_of_thread, "it began here");
        drop(InFlight::begin(path, &Tested::begin(clock)));
        assert!(!listed("Tested")[0].is_of_thread, "this thread stamped another one since");
        assert_eq!(found[0].began(), Some(1_000));
        assert_eq!(found[0].points().collect::<Vec<_>>(), [("made", 1_000), ("sent", 1_500)]);
        drop(place);
        assert!(listed("Tested").is_empty());
    }

    #[test]
    fn what_is_beyond_the_table_is_not_listed_and_places_are_free_again() {
        let _alone = crate::recorder::lock(&ALONE);
        let (clock, path) = (Clock::manual(1, 0), ListedPath::new::<Many>());
        for _ in 0..3 {
            let held: Vec<InFlight> =
                (0..IN_FLIGHT_MAX + 10).map(|_| InFlight::begin(path, &Many::begin(clock))).collect();
            assert_eq!(listed("Many").len(), IN_FLIGHT_MAX);
            held.iter().for_each(|place| place.mark(Many::sent, 7));
            drop(held);
            assert!(listed("Many").is_empty());
        }
    }
}
