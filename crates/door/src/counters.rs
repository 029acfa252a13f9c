//! What the server counted since it started, by protocol.
//!
//! Invariants: for each protocol `received` = accepted + duplicate + rejected + refused + what is in flight: no sample
//! is lost from sight. A refused one is to be sent again and then counts again. What never became a sample (a request,
//! a line or a point that could not be read) is counted as unreadable, with its reason.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, PoisonError};

use ogive_model::{Batch, Reason, Verdict};

use crate::backend::Refusal;
use crate::doorkeeper::Doorkeeper;

pub use crate::counter::Counter;
pub use crate::protocol::Protocol;

/// All counters.
#[derive(Debug, Default)]
pub struct Counters {
    protocols: [Ledger; Protocol::ALL.len()],
    /// The same by sender.
    pub senders: crate::senders::Senders,
    /// Measurements of StatsD senders, before they became samples.
    pub statsd: Measurements,
    /// Queries that took too long.
    pub queries_timed_out: Counter,
    /// Own cells that the store refused.
    pub own_lost: Counter,
    /// Own slow traces that were dropped for lack of space.
    pub own_slow_dropped: Counter,
    /// Refused logins.
    pub door: Doorkeeper,
    /// Audit entries on their way to the store.
    pub audit: Pending,
    /// Reloaded configurations.
    pub reloads: crate::reload::Reloads,
    /// Statistics of forwards.
    pub forwards: crate::forwarded::Figures,
    /// Figures of central management.
    pub fleet: crate::fleet_figures::Figures,
}

/// Entries of the audit on their way to the store.
#[derive(Debug, Default)]
pub struct Pending {
    pub(crate) waiting: AtomicUsize,
    /// Those that the store refused.
    pub lost: Counter,
}

/// Single measurements that merge into samples.
#[derive(Debug, Default)]
pub struct Measurements {
    /// Those that were accepted.
    pub measurements: Counter,
    /// How many of those represent several.
    pub sampled: Counter,
    /// How many of those belong to series beyond a limit.
    pub folded: Counter,
    /// Members of sets beyond a limit.
    pub members_over: Counter,
}

impl Measurements {
    /// The name, help text and value of each.
    pub fn figures(&self) -> [(&'static str, &'static str, u64); 4] {
        [
            ("statsd_measurements_total", "Measurements by StatsD that are in cells.", self.measurements.get()),
            ("statsd_sampled_total", "Of those, measurements that stand for several.", self.sampled.get()),
            ("statsd_folded_total", "Of those, measurements of series beyond --statsd-series.", self.folded.get()),
            ("statsd_members_over_total", "Members of sets that were not counted.", self.members_over.get()),
        ]
    }
}

/// The ledger of one protocol.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Samples in batches that could be read.
    pub received: Counter,
    /// Samples that are stored.
    pub accepted: Counter,
    /// Samples that were stored before.
    pub duplicate: Counter,
    /// How many of the accepted ones were beyond a limit of their tenant.
    pub folded: Counter,
    rejected: [Counter; Reason::ALL.len()],
    /// Samples of batches that the store refused, by [`REFUSALS`].
    refused: [Counter; REFUSALS.len()],
    /// Batches that were answered.
    pub batches: Counter,
    /// Requests, lines or points that yielded no sample, by reason.
    unreadable: Mutex<BTreeMap<&'static str, u64>>,
    /// Bytes as received: of request bodies, datagrams, streams, scraped pages.
    pub bytes: Counter,
}

/// Names of the reasons for a refusal.
const REFUSALS: [&str; 5] = ["busy", "disk_full", "failed", "too_large", "unknown_series"];

/// One number of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The value of the label `protocol`.
    pub protocol: &'static str,
    /// `accepted`, `duplicate`, `rejected` or `refused`.
    pub outcome: &'static str,
    /// Empty if there is none.
    pub reason: &'static str,
    /// How many.
    pub samples: u64,
}

impl Counters {
    /// The ledger of `protocol`.
    pub fn of(&self, protocol: Protocol) -> &Ledger {
        &self.protocols[protocol as usize]
    }

    /// The sum of `each` over the protocols.
    pub fn total(&self, each: impl Fn(&Ledger) -> u64) -> u64 {
        self.protocols.iter().map(each).sum()
    }

    /// The ledger of each protocol.
    pub fn ledgers(&self) -> impl Iterator<Item = (Protocol, &Ledger)> {
        Protocol::ALL.into_iter().map(|protocol| (protocol, self.of(protocol)))
    }

    /// The ledger of ingest: every number of every protocol, including those that are 0.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.ledgers().flat_map(|(protocol, ledger)| {
            let protocol = protocol.name();
            ledger.entries().map(move |(outcome, reason, samples)| Entry { protocol, outcome, reason, samples })
        })
    }

    /// `(protocol, reason, count)` of unreadable input; the reason `malformed` is always included.
    pub fn unreadable(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        self.ledgers().flat_map(|(protocol, ledger)| {
            let mut counts = ledger.unreadable.lock().unwrap_or_else(PoisonError::into_inner).clone();
            counts.entry(MALFORMED).or_default();
            counts.into_iter().map(move |(reason, count)| (protocol.name(), reason, count))
        })
    }
}

/// The reason for input that violates its protocol.
pub const MALFORMED: &str = "malformed";

impl Ledger {
    /// Counts the outcome of a batch of `samples`.
    pub fn batch(&self, samples: u64, outcome: &Result<Verdict, Refusal>) {
        self.batches.add(1);
        match outcome {
            Ok(verdict) => {
                let sum = verdict.accepted + verdict.duplicate + verdict.rejected.len() as u64;
                debug_assert_eq!(sum, samples, "a verdict speaks of every sample");
                self.accepted.add(verdict.accepted);
                self.duplicate.add(verdict.duplicate);
                self.folded.add(verdict.folded);
                for (_, reason) in &verdict.rejected {
                    self.reject(*reason);
                }
            }
            Err(refusal) => {
                let reason = refusal.reason();
                let at = REFUSALS.iter().position(|known| *known == reason).expect("REFUSALS has every reason");
                self.refused[at].add(samples);
            }
        }
    }

    /// Counts a sample that was rejected.
    fn reject(&self, reason: Reason) {
        let at = Reason::ALL.iter().position(|known| *known == reason).expect("ALL has every reason");
        self.rejected[at].add(1);
    }

    /// Counts the samples of `batch` that its frame leaves out, and returns their number.
    pub fn leave_out(&self, batch: &Batch) -> u64 {
        let count = batch.left_out().inspect(|reason| self.reject(*reason)).count() as u64;
        self.received.add(count);
        count
    }

    /// Counts `count` requests, lines or points that yielded no sample. Takes a lock: callers that count lines first
    /// add up those of a datagram or a page.
    pub fn unreadable(&self, reason: &'static str, count: u64) {
        *self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).entry(reason).or_default() += count;
    }

    /// `(outcome, reason, samples)`, the reason empty if there is none.
    fn entries(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        let fixed = [("accepted", "", self.accepted.get()), ("duplicate", "", self.duplicate.get())];
        let rejected = self.rejected().map(|(reason, count)| ("rejected", reason, count));
        let refused = self.refused().map(|(reason, count)| ("refused", reason, count));
        fixed.into_iter().chain(rejected).chain(refused)
    }

    /// `(reason, samples)` for every reason.
    pub fn rejected(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Reason::ALL.iter().zip(&self.rejected).map(|(reason, counter)| (reason.as_str(), counter.get()))
    }

    /// `(reason, samples)` for every kind of refusal.
    pub fn refused(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        REFUSALS.iter().zip(&self.refused).map(|(reason, counter)| (*reason, counter.get()))
    }

    /// Samples that were rejected, for whatever reason.
    pub fn rejected_total(&self) -> u64 {
        self.rejected().map(|(_, count)| count).sum()
    }

    /// Samples of batches that were refused.
    pub fn refused_total(&self) -> u64 {
        self.refused().map(|(_, count)| count).sum()
    }

    /// The total of unreadable input.
    pub fn unreadable_total(&self) -> u64 {
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    /// Its sums with their names in `/v1/status`.
    pub fn sums(&self) -> [(&'static str, u64); 9] {
        [
            ("received_total", self.received.get()),
            ("accepted_total", self.accepted.get()),
            ("duplicate_total", self.duplicate.get()),
            ("folded_total", self.folded.get()),
            ("rejected_total", self.rejected_total()),
            ("refused_total", self.refused_total()),
            ("batches_total", self.batches.get()),
            ("unreadable_total", self.unreadable_total()),
            ("ingest_bytes_total", self.bytes.get()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::{Kind, Sample, SeriesDef, SeriesMeta, Temporality, Value};

    use super::*;

    #[test]
    fn every_sample_is_counted_once() {
        let counters = Counters::default();
        let ledger = counters.of(Protocol::Influx);
        let rejected = vec![(0, Reason::TimeTooNew), (3, Reason::TimeTooNew), (4, Reason::KindConflict)];
        ledger.batch(10, &Ok(Verdict { accepted: 5, duplicate: 2, folded: 1, rejected }));
        ledger.batch(7, &Err(Refusal::Busy));
        ledger.batch(1, &Err(Refusal::Failed(String::new())));
        assert_eq!((ledger.accepted.get(), ledger.duplicate.get(), ledger.rejected_total()), (5, 2, 3));
        assert_eq!(
            ledger.refused().collect::<Vec<_>>(),
            [("busy", 7), ("disk_full", 0), ("failed", 1), ("too_large", 0), ("unknown_series", 0)]
        );
        assert!(ledger.rejected().any(|pair| pair == ("time_too_new", 2)));
        let entry = Entry { protocol: "influx", outcome: "refused", reason: "busy", samples: 7 };
        assert!(counters.entries().any(|found| found == entry));
        assert_eq!(counters.entries().map(|entry| entry.samples).sum::<u64>(), 18);
    }

    #[test]
    fn each_protocol_has_a_place_and_a_name_of_its_own() {
        for (at, protocol) in Protocol::ALL.into_iter().enumerate() {
            assert_eq!(protocol as usize, at);
            assert!(Protocol::ALL[..at].iter().all(|before| before.name() != protocol.name()));
        }
    }

    #[test]
    fn what_cannot_be_encoded_is_counted_by_reason() {
        let float = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        let series = |name| SeriesDef::new([("__name__", "up"), (name, "a")], float.clone());
        let sample = |series| Ok(Sample { series, time_ns: 1, start_ns: None, value: Value::Float(1.0) });
        let samples = vec![sample(0), sample(1), sample(2), Err(Reason::TimeTooOld), sample(0)];
        let batch = Batch { series: vec![series("job"), series("")], samples, ..Batch::default() };
        let ledger = Ledger::default();
        assert_eq!(ledger.leave_out(&batch), 3);
        assert_eq!((ledger.received.get(), ledger.rejected_total()), (3, 3));
        let found: Vec<_> = ledger.rejected().filter(|(_, count)| *count > 0).collect();
        assert_eq!(found, [("labels_invalid", 1), ("series_unknown", 1), ("time_too_old", 1)]);
        // The rest is what a frame holds.
        let frame = Batch::decode(&batch.encode().unwrap()).unwrap();
        assert_eq!(frame.samples.len(), 2);
    }

    #[test]
    fn what_cannot_be_read_is_counted_by_reason() {
        let counters = Counters::default();
        counters.of(Protocol::Statsd).unreadable("sample_rate", 2);
        counters.of(Protocol::Statsd).unreadable("sample_rate", 1);
        counters.of(Protocol::Graphite).unreadable(MALFORMED, 1);
        let found: Vec<_> = counters.unreadable().filter(|(.., count)| *count > 0).collect();
        assert_eq!(found, [("statsd", "sample_rate", 3), ("graphite", MALFORMED, 1)]);
        assert_eq!(counters.total(Ledger::unreadable_total), 4);
    }
}
