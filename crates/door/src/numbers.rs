//! Numbers for batches whose senders give them none.
//!
//! Invariants: no two batches of this process get the same (source, sequence); a number is given once and may stay
//! unused. A request that comes again gets another number: what makes its samples count once is their own identity, not
//! this. Where they have none, the number is made of the request's bytes and the latest time in it, and the store's
//! table of sequences knows it again. Where parts of it have no time at all, it is made of its bytes and of when they
//! first came, which is remembered for `AGAIN_SECONDS`, also over a restart: the store knows which numbers it had.
//! Limits: the table keeps the 1,024 latest requests of each of `CONTENT_SOURCES`; `ARRIVALS_MAX` requests without
//! times are remembered.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ogive_export::random_source;
use ogive_model::sequence::SourceTable;
use ogive_model::{Batch, BatchId, Reason, SourceId, Value, Verdict, WallNs};

/// 256 sources of 1,024 requests: 260,000, a request a second for three days or a hundred for 40 minutes, in 4 MiB at
/// most.
const CONTENT_SOURCES: u128 = 256;

/// "ogive of content" in ASCII, without its last byte.
const CONTENT: u128 = 0x6f67_6976_6520_6f66_2063_6f6e_7465_6e00;

/// "ogive of arrival" in ASCII, without its last byte: that many sources for requests without times.
const ARRIVAL: u128 = 0x6f67_6976_6520_6f66_2061_7272_6976_6100;

/// 5 minutes: as long as an OpenTelemetry collector retries unless configured otherwise (`max_elapsed_time`); SDKs and
/// InfluxDB's clients retry for 1 to 3.
pub const AGAIN_SECONDS: u32 = 300;

/// 65,536 requests without times in [`AGAIN_SECONDS`], 200 a second: 6 MiB. Of more the oldest are forgotten.
const ARRIVALS_MAX: usize = 1 << 16;

/// A request with a part that only the request's bytes distinguish from the same part at another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// The hash of its bytes.
    pub fingerprint: u128,
    /// The latest time in it; None when a part has no time of its own.
    pub time: Option<WallNs>,
}

impl Content {
    /// Of the request that became `batch`. It has events when one of its samples is a text: two equal ones of one time
    /// are two.
    pub fn from_batch(batch: &Batch, is_timed: bool, fingerprint: impl FnOnce() -> u128) -> Option<Self> {
        let samples = || batch.samples.iter().flatten();
        if !samples().any(|sample| matches!(sample.value, Value::Text(_))) {
            return None;
        }
        Self::from_any_batch(batch, is_timed, fingerprint)
    }

    /// As [`Content::from_batch`], for a request that is known to have such a part, whatever its samples are.
    pub fn from_any_batch(batch: &Batch, is_timed: bool, fingerprint: impl FnOnce() -> u128) -> Option<Self> {
        let latest = batch.samples.iter().flatten().map(|sample| sample.time_ns).max()?;
        Some(Self { fingerprint: fingerprint(), time: is_timed.then_some(WallNs(latest)) })
    }
}

/// Whether the number of a request is older than the table remembers: then it is not known whether it was received
/// before.
pub fn is_forgotten(verdict: &Verdict) -> bool {
    verdict.rejected.first().is_some_and(|(_, reason)| *reason == Reason::SequenceTooOld)
}

/// Two requests of one second get one number once in 2^40 pairs.
fn number(sources: u128, fingerprint: u128, seconds: u32) -> BatchId {
    let source = SourceId(sources | ((fingerprint >> 64) % CONTENT_SOURCES));
    BatchId { source, sequence: u64::from(seconds) << 32 | u64::from(fingerprint as u32) }
}

fn seconds(time: WallNs) -> u32 {
    u32::try_from(time.0.div_euclid(1_000_000_000)).unwrap_or_default()
}

/// The source of sequence numbers. One serves every listener.
pub struct Numbers {
    source: SourceId,
    next: AtomicU64,
    arrivals: Mutex<Arrivals>,
}

impl Numbers {
    /// With no request remembered.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "for tests")]
    #[cfg(any(test, feature = "memory"))]
    pub fn new() -> Self {
        Self::recalling(Vec::new())
    }

    /// `arrivals` are the numbers that the store had before this start, as [`recalled`] finds them.
    pub fn recalling(mut arrivals: Vec<BatchId>) -> Self {
        arrivals.sort_unstable_by_key(|id| id.sequence);
        let mut known = Arrivals::default();
        arrivals.into_iter().for_each(|id| known.put(key(id), None, (id.sequence >> 32) as u32));
        Self { source: random_source(), next: AtomicU64::new(0), arrivals: Mutex::new(known) }
    }

    /// The source and the sequence of the next batch.
    pub fn next(&self) -> BatchId {
        // ORDERING: Relaxed; only that no two get the same number matters.
        BatchId { source: self.source, sequence: self.next.fetch_add(1, Ordering::Relaxed) }
    }

    /// Whether batches of `source` have numbers that were given here or at a broker, to requests that bring none.
    pub fn is_given(&self, source: SourceId) -> bool {
        source == self.source || [CONTENT, ARRIVAL].contains(&(source.0 & !(CONTENT_SOURCES - 1)))
    }

    /// The number of a request, the same when it is retried.
    pub fn of_content(&self, content: Content, now: WallNs) -> BatchId {
        self.of_content_within(content, AGAIN_SECONDS, now)
    }

    /// As [`Numbers::of_content`], for a request whose sender stops retrying after `again_seconds`, at most five
    /// minutes: later the same bytes are another request.
    pub fn of_content_within(&self, content: Content, again_seconds: u32, now: WallNs) -> BatchId {
        let Content { fingerprint, time } = content;
        if let Some(time) = time {
            return number(CONTENT, fingerprint, seconds(time));
        }
        let now = seconds(now);
        let id = number(ARRIVAL, fingerprint, now);
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        let first = arrivals.first(key(id), (fingerprint >> 32) as u64, again_seconds, now);
        BatchId { sequence: u64::from(first) << 32 | u64::from(id.sequence as u32), ..id }
    }
}

/// The numbers of requests without times that `sources` has.
pub fn recalled(sources: &SourceTable) -> Vec<BatchId> {
    let is_arrival = |source: &SourceId| source.0 & !(CONTENT_SOURCES - 1) == ARRIVAL;
    let each = sources.iter().filter(|(source, _)| is_arrival(source));
    each.map(|(source, sequences)| (source, sequences.runs()))
        .flat_map(|(source, runs)| {
            // A sender that numbers batches of its own from such a source makes long runs.
            let from = |first: u64, last: u64| first.max(last.saturating_sub(ARRIVALS_MAX as u64 - 1));
            runs.iter().flat_map(move |(first, last)| {
                (from(*first, *last)..=*last).map(move |sequence| BatchId { source, sequence })
            })
        })
        .collect()
}

/// The part of a fingerprint that a number contains: 8 bits of the source, 32 of the sequence.
type Key = u64;

fn key(BatchId { source, sequence }: BatchId) -> Key {
    u64::from(source.0 as u8) << 32 | u64::from(sequence as u32)
}

/// When requests without times were first received.
#[derive(Default)]
struct Arrivals {
    /// With 64 more bits of the fingerprint, which a restart forgets.
    first: HashMap<Key, (u32, Option<u64>)>,
    /// In the order of arrival.
    order: VecDeque<(u32, Key)>,
}

impl Arrivals {
    /// When `key` was first received. If that is more than `again` seconds ago, or was with another fingerprint, it is
    /// another request: then now.
    fn first(&mut self, key: Key, more: u64, again: u32, now: u32) -> u32 {
        while let Some((first, _)) = self.order.front()
            && first.saturating_add(AGAIN_SECONDS) < now
        {
            self.forget_oldest();
        }
        match self.first.get(&key) {
            Some((first, known)) if known.is_none_or(|known| known == more) && first.saturating_add(again) >= now => {
                *first
            }
            _ => {
                self.put(key, Some(more), now);
                now
            }
        }
    }

    fn put(&mut self, key: Key, more: Option<u64>, first: u32) {
        if self.order.len() >= ARRIVALS_MAX {
            self.forget_oldest();
        }
        self.first.insert(key, (first, more));
        self.order.push_back((first, key));
    }

    fn forget_oldest(&mut self) {
        let Some((first, key)) = self.order.pop_front() else { return };
        // A later request with the same bytes may have replaced it.
        if self.first.get(&key).is_some_and(|(known, _)| *known == first) {
            self.first.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::{Ns, Tenant};

    use super::*;

    const SECOND: Ns = Ns::from_secs(1);
    const NOW: WallNs = WallNs(1_700_000_000_000_000_000);

    fn timed(fingerprint: u128, time: WallNs) -> Content {
        Content { fingerprint, time: Some(time) }
    }

    #[test]
    fn what_has_the_same_bytes_has_the_same_number() {
        let numbers = Numbers::new();
        let of = |fingerprint: u128, time: WallNs| numbers.of_content(timed(fingerprint, time), WallNs(0));
        let time = NOW + Ns(123_456_789);
        let BatchId { source, sequence } = of(7 << 64 | 5, time);
        assert_eq!((source.0 & 0xff, sequence), (7, 1_700_000_000 << 32 | 5));
        assert_eq!(of(7 << 64 | 5, time), BatchId { source, sequence });
        assert_ne!(of(7 << 64 | 6, time).sequence, sequence);
        assert_ne!(of(8 << 64 | 5, time).source, source);
        assert!(of(5, time + SECOND).sequence > sequence, "later ones are forgotten later");
        assert_eq!(of(5, WallNs(-1)).sequence, 5);
    }

    #[test]
    fn what_has_no_time_is_identified_by_when_it_first_came() {
        let numbers = Numbers::new();
        let again = Ns::from_secs(AGAIN_SECONDS.into());
        let of = |fingerprint: u128, now: WallNs| numbers.of_content(Content { fingerprint, time: None }, now);
        let first = of(5, NOW);
        assert_ne!(first, numbers.of_content(timed(5, NOW), NOW), "apart from those with times");
        assert_eq!((of(5, NOW + SECOND), of(5, NOW + again)), (first, first));
        assert_ne!(of(6, NOW + SECOND), first);
        let later = of(5, NOW + again + SECOND);
        assert!(later.sequence > first.sequence, "{later:?} after {first:?}");
        // It is that of its second time now.
        assert_eq!(of(5, NOW + again * 2), later);
    }

    /// Of a fingerprint forty bits are in a number: among the 60,000 requests without times of five minutes two of them
    /// are the same once a day, and the second one was taken for the first, though its bytes are others.
    #[test]
    fn others_of_the_same_bits_are_others() {
        let numbers = Numbers::new();
        let of = |fingerprint: u128, now: WallNs| numbers.of_content(Content { fingerprint, time: None }, now);
        let (one, other) = (of(5, NOW), of(5 | 1 << 40, NOW + SECOND));
        assert_ne!(one, other);
        assert_eq!(of(5 | 1 << 40, NOW + SECOND * 2), other);
    }

    #[test]
    fn what_came_before_a_restart_is_known_after_it() {
        let mut table = SourceTable::default();
        let before = Numbers::new();
        let content = |fingerprint: u128| Content { fingerprint, time: None };
        let marked: Vec<_> =
            (0..300).map(|at| before.of_content(content(at << 64 | at), NOW + Ns(at as i64))).collect();
        marked.iter().for_each(|id| table.mark(&Tenant::default(), id.source, id.sequence));
        table.mark(&Tenant::default(), SourceId(1), 1);
        let after = Numbers::recalling(recalled(&table));
        for (at, number) in (0..300).zip(marked) {
            assert_eq!(after.of_content(content(at << 64 | at), NOW + SECOND * 10), number);
        }
    }

    #[test]
    fn of_a_long_run_the_end_is_recalled() {
        let mut table = SourceTable::default();
        (0..ARRIVALS_MAX as u64 + 10).for_each(|sequence| table.mark(&Tenant::default(), SourceId(ARRIVAL), sequence));
        let recalled = recalled(&table);
        assert_eq!((recalled.len(), recalled[0]), (ARRIVALS_MAX, BatchId { source: SourceId(ARRIVAL), sequence: 10 }));
    }

    #[test]
    fn so_many_requests_are_remembered() {
        let mut arrivals = Arrivals::default();
        for at in 0..=ARRIVALS_MAX as u64 {
            arrivals.first(at, 1, AGAIN_SECONDS, 7);
        }
        assert_eq!((arrivals.first.len(), arrivals.order.len()), (ARRIVALS_MAX, ARRIVALS_MAX));
        assert_eq!((arrivals.first(1, 1, AGAIN_SECONDS, 8), arrivals.first(0, 1, AGAIN_SECONDS, 8)), (7, 8));
    }

    #[test]
    fn no_two_are_the_same() {
        let (one, other) = (Numbers::new(), Numbers::new());
        let all = [one.next(), one.next(), other.next(), other.next()];
        assert!((1..all.len()).all(|at| !all[..at].contains(&all[at])), "{all:?}");
    }
}
