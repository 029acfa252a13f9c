//! What the server counted since it started.
//!
//! Invariants: `received` = accepted + duplicate + rejected + refused + what is under way: no sample is lost from
//! sight. A refused one is to be sent again and then counts again.

use std::sync::atomic::{AtomicU64, Ordering};

use ogive_model::{Reason, Verdict};

use crate::backend::Refusal;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        // ORDERING: Relaxed; counters are read on their own and order nothing.
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // ORDERING: Relaxed; as in `add`.
        self.0.load(Ordering::Relaxed)
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Samples in batches that could be read.
    pub(crate) received: Counter,
    pub(crate) accepted: Counter,
    pub(crate) duplicate: Counter,
    /// Of the accepted, those beyond a limit of their tenant.
    pub(crate) folded: Counter,
    rejected: [Counter; Reason::ALL.len()],
    /// Samples of batches that the store refused, by [`REFUSALS`].
    refused: [Counter; REFUSALS.len()],
    /// Batches answered.
    pub(crate) batches: Counter,
    /// Requests to `/v1/batch` in which no batch could be read.
    pub(crate) unreadable: Counter,
    /// Bytes of request bodies with batches.
    pub(crate) ingest_bytes: Counter,
    pub(crate) queries_timed_out: Counter,
    /// Own cells that the store did not take.
    pub(crate) own_lost: Counter,
    /// Own slow traces for which there was no room.
    pub(crate) own_slow_dropped: Counter,
    /// Exemplars of remote write, which are not stored.
    pub(crate) exemplars_ignored: Counter,
}

/// Names of the reasons for a refusal.
const REFUSALS: [&str; 5] = ["busy", "disk_full", "failed", "too_large", "unknown_series"];

impl Counters {
    /// Counts what became of a batch of `samples`.
    pub(crate) fn batch(&self, samples: u64, outcome: &Result<Verdict, Refusal>) {
        self.batches.add(1);
        match outcome {
            Ok(verdict) => {
                let sum = verdict.accepted + verdict.duplicate + verdict.rejected.len() as u64;
                debug_assert_eq!(sum, samples, "a verdict speaks of every sample");
                self.accepted.add(verdict.accepted);
                self.duplicate.add(verdict.duplicate);
                self.folded.add(verdict.folded);
                for (_, reason) in &verdict.rejected {
                    let at = Reason::ALL.iter().position(|known| known == reason).expect("ALL has every reason");
                    self.rejected[at].add(1);
                }
            }
            Err(refusal) => {
                let at = match refusal {
                    Refusal::Busy => 0,
                    Refusal::DiskFull(_) => 1,
                    Refusal::Failed(_) => 2,
                    Refusal::TooLarge(_) => 3,
                    Refusal::UnknownSeries { .. } => 4,
                };
                self.refused[at].add(samples);
            }
        }
    }

    /// The ledger of ingest: `(outcome, reason, samples)`, the reason empty where there is none.
    pub(crate) fn ledger(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        let fixed = [("accepted", "", self.accepted.get()), ("duplicate", "", self.duplicate.get())];
        let rejected = self.rejected().map(|(reason, count)| ("rejected", reason, count));
        let refused = self.refused().map(|(reason, count)| ("refused", reason, count));
        fixed.into_iter().chain(rejected).chain(refused)
    }

    /// `(reason, samples)` for every reason.
    pub(crate) fn rejected(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Reason::ALL.iter().zip(&self.rejected).map(|(reason, counter)| (reason.as_str(), counter.get()))
    }

    /// `(reason, samples)` for every kind of refusal.
    pub(crate) fn refused(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        REFUSALS.iter().zip(&self.refused).map(|(reason, counter)| (*reason, counter.get()))
    }

    pub(crate) fn rejected_total(&self) -> u64 {
        self.rejected().map(|(_, count)| count).sum()
    }

    pub(crate) fn refused_total(&self) -> u64 {
        self.refused().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_counted_once() {
        let counters = Counters::default();
        let rejected = vec![(0, Reason::TimeTooNew), (3, Reason::TimeTooNew), (4, Reason::KindConflict)];
        counters.batch(10, &Ok(Verdict { accepted: 5, duplicate: 2, folded: 1, rejected }));
        counters.batch(7, &Err(Refusal::Busy));
        counters.batch(1, &Err(Refusal::Failed(String::new())));
        assert_eq!((counters.accepted.get(), counters.duplicate.get(), counters.rejected_total()), (5, 2, 3));
        assert_eq!(
            counters.refused().collect::<Vec<_>>(),
            [("busy", 7), ("disk_full", 0), ("failed", 1), ("too_large", 0), ("unknown_series", 0)]
        );
        assert!(counters.rejected().any(|pair| pair == ("time_too_new", 2)));
    }
}
