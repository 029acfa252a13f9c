//! State kept between requests of spans: the spans received, the operations of each service, and how long each
//! operation usually takes.
//!
//! Invariants: a span is stored once: one that is stored already is a duplicate, and one that another request is
//! storing is neither until that request has a result. A span that was reserved and not stored is free again.
//! Threads: any; each call takes one short lock.
//! Limits: [`SPANS_MAX`] spans are remembered, [`OPERATIONS_MAX`] operations of one service and [`OPERATIONS_ALL_MAX`]
//! of all; further ones are folded into one.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::remote_write::known::LowHalfHasher;

/// 524,288 spans, a minute of 8,700 a second, which is how long senders try again: 16 MiB.
pub const SPANS_MAX: usize = 1 << 19;

/// 1,000 operations of a service: routes and queries are tens or hundreds; names with numbers in them are without end.
pub const OPERATIONS_MAX: usize = 1_000;

/// 100,000 operations of all services: 20 MiB.
const OPERATIONS_ALL_MAX: usize = 100_000;

/// 100 spans of an operation are seen before it is said what is usual for it.
const USUAL_AFTER: u32 = 100;

/// Counts are halved at 16,384: what was usual an hour ago fades.
const HALVED_AT: u32 = 1 << 14;

/// 10 ms: what is shorter is not worth a look, however unusual.
const FLOOR_NS: u64 = 10_000_000;

type Keys = HashSet<u128, BuildHasherDefault<LowHalfHasher>>;

/// See the module.
#[derive(Debug, Default)]
pub struct SpanTable(Mutex<SpanState>);

#[derive(Debug, Default)]
struct SpanState {
    stored: Keys,
    /// Oldest first.
    order: VecDeque<u128>,
    in_flight: Keys,
    /// By tenant and service, by name.
    services: HashMap<u128, HashMap<u128, Usual, BuildHasherDefault<LowHalfHasher>>, BuildHasherDefault<LowHalfHasher>>,
    operations: usize,
}

/// Whether a span came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// It did not, and is reserved now.
    New,
    Stored,
    /// Another request is storing it.
    InFlight,
}

/// What an operation's time is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    /// The operation is one more than there may be.
    pub(super) is_folded: bool,
    /// What the span passed, if it is slow.
    pub(super) limit_ns: Option<u64>,
}

/// How long spans of an operation take: counts by powers of two.
#[derive(Clone, Debug)]
struct Usual {
    counts: [u16; 65],
    total: u32,
}

impl Default for Usual {
    fn default() -> Self {
        Self { counts: [0; 65], total: 0 }
    }
}

impl Usual {
    fn add(&mut self, ns: u64) {
        self.counts[64 - ns.leading_zeros() as usize] += 1;
        self.total += 1;
        if self.total == HALVED_AT {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().map(|count| u32::from(*count)).sum();
        }
    }

    /// Three times what 99 of 100 stay below, once enough are known.
    fn limit_ns(&self) -> Option<u64> {
        if self.total < USUAL_AFTER {
            return None;
        }
        let (mut seen, wanted) = (0, self.total - self.total / 100);
        let octave = self.counts.iter().position(|count| {
            seen += u32::from(*count);
            seen >= wanted
        })?;
        let above = 1_u64.checked_shl(octave as u32).unwrap_or(u64::MAX);
        Some(above.saturating_mul(3).max(FLOOR_NS))
    }
}

impl SpanTable {
    fn lock(&self) -> MutexGuard<'_, SpanState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Judges a span of `name`, an operation of `service`, that took `ns`. One of `slow_ns` is slow whatever is usual.
    pub(super) fn judge(&self, service: u128, name: u128, ns: u64, slow_ns: u64) -> Judgement {
        let mut inside = self.lock();
        let SpanState { services, operations, .. } = &mut *inside;
        let names = services.entry(service).or_default();
        if !names.contains_key(&name) {
            if names.len() >= OPERATIONS_MAX || *operations >= OPERATIONS_ALL_MAX {
                return Judgement { is_folded: true, limit_ns: (ns >= slow_ns).then_some(slow_ns) };
            }
            *operations += 1;
        }
        let usual = names.entry(name).or_default();
        let limit_ns = usual.limit_ns().map_or(slow_ns, |limit_ns| limit_ns.min(slow_ns));
        usual.add(ns);
        Judgement { is_folded: false, limit_ns: (ns >= limit_ns).then_some(limit_ns) }
    }
}

/// Spans that a request is storing.
#[derive(Debug)]
pub struct Reserved {
    table: Arc<SpanTable>,
    keys: Vec<u128>,
    /// The same, to find one among them.
    own: Keys,
}

impl Reserved {
    pub(super) fn new(table: Arc<SpanTable>) -> Self {
        Self { table, keys: Vec::new(), own: Keys::default() }
    }

    pub(super) fn reserve(&mut self, key: u128) -> Presence {
        let mut inside = self.table.lock();
        if inside.stored.contains(&key) {
            return Presence::Stored;
        }
        if !inside.in_flight.insert(key) {
            drop(inside);
            // Twice in one request: the first is stored or nothing is.
            return if self.own.contains(&key) { Presence::Stored } else { Presence::InFlight };
        }
        drop(inside);
        self.keys.push(key);
        self.own.insert(key);
        Presence::New
    }

    /// They are stored.
    pub fn stored(mut self) {
        let keys = std::mem::take(&mut self.keys);
        let mut inside = self.table.lock();
        for key in keys {
            inside.in_flight.remove(&key);
            if inside.order.len() == SPANS_MAX
                && let Some(oldest) = inside.order.pop_front()
            {
                inside.stored.remove(&oldest);
            }
            if inside.stored.insert(key) {
                inside.order.push_back(key);
            }
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.keys.is_empty() {
            return;
        }
        let mut inside = self.table.lock();
        self.keys.iter().for_each(|key| {
            inside.in_flight.remove(key);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_stored_once() {
        let table = Arc::<SpanTable>::default();
        let mut one = Reserved::new(table.clone());
        assert_eq!([one.reserve(1), one.reserve(2), one.reserve(1)], [Presence::New, Presence::New, Presence::Stored]);
        let mut other = Reserved::new(table.clone());
        assert_eq!([other.reserve(1), other.reserve(3)], [Presence::InFlight, Presence::New]);
        // The store refused it: it may come again.
        drop(one);
        assert_eq!(other.reserve(1), Presence::New);
        other.stored();
        let mut again = Reserved::new(table.clone());
        let found = [again.reserve(1), again.reserve(2), again.reserve(3)];
        assert_eq!(found, [Presence::Stored, Presence::New, Presence::Stored]);
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let table = Arc::<SpanTable>::default();
        let store = |keys: std::ops::Range<u128>| {
            let mut reserved = Reserved::new(table.clone());
            keys.for_each(|key| assert_eq!(reserved.reserve(key), Presence::New));
            reserved.stored();
        };
        store(0..SPANS_MAX as u128);
        assert_eq!(Reserved::new(table.clone()).reserve(0), Presence::Stored);
        store(SPANS_MAX as u128..SPANS_MAX as u128 + 1);
        assert_eq!(Reserved::new(table.clone()).reserve(0), Presence::New);
        assert_eq!(Reserved::new(table.clone()).reserve(1), Presence::Stored);
        let inside = table.lock();
        assert_eq!((inside.stored.len(), inside.order.len(), inside.in_flight.len()), (SPANS_MAX, SPANS_MAX, 0));
    }

    #[test]
    fn so_many_operations_are_kept_apart() {
        let table = SpanTable::default();
        let is_folded = |service: u128, name: u128| table.judge(service, name, 1, u64::MAX).is_folded;
        assert!((0..OPERATIONS_MAX as u128).all(|name| !is_folded(1, name)));
        assert!(is_folded(1, OPERATIONS_MAX as u128) && !is_folded(1, 0) && !is_folded(2, OPERATIONS_MAX as u128));
    }

    #[test]
    fn what_is_slow_follows_what_is_usual() {
        const MS: u64 = 1_000_000;
        let table = SpanTable::default();
        let limit = |ns: u64| table.judge(1, 1, ns, 1_000 * MS).limit_ns;
        assert_eq!((limit(999 * MS), limit(1_000 * MS)), (None, Some(1_000 * MS)), "nothing is usual yet");
        (0..1_000).for_each(|_| assert_eq!(limit(20 * MS), None));
        // 20 ms are below 2^25 ns.
        assert_eq!((limit(100 * MS), limit(101 * MS)), (None, Some(3 << 25)));
        (0..40_000).for_each(|_| assert!(limit(MS / 1_000).is_none()));
        assert_eq!((limit(9 * MS), limit(10 * MS)), (None, Some(FLOOR_NS)), "what was usual fades");
    }
}
