//! The background task that audits what this node wrote.
//!
//! Invariants: a minute is audited repeatedly until every replica holds every row written in it.
//! Limits: [`MINUTES_MAX`]; minutes older than that are no longer audited, and counted.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ogive_door::counter::Counter;
use ogive_probe::Clock;
use tokio::sync::watch;

use crate::audit::{Audit, Findings, ROW_BYTES, ROWS_MAX};
use crate::cluster::Cluster;
use crate::schema::minute;
use crate::site::Site;

/// A day: as long as manifests are kept.
const MINUTES_MAX: i32 = 1_440;
/// An hour of what was written before a start is audited again: what a killed node had not audited yet.
const START_MINUTES: i32 = 60;
/// 1 min: copies that did not take a row at once may have got it by a hint then.
const SETTLED: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct State {
    minutes: BTreeSet<i32>,
    last: Findings,
    /// Of the rounds that ended.
    rounds: u64,
}

/// What is known of the rows that this node wrote.
#[derive(Debug, Default)]
pub(crate) struct Audited {
    state: Mutex<State>,
    /// Rows whose every copy was found.
    pub(crate) rows: Counter,
    /// Rows that were written again.
    pub(crate) refilled: Counter,
    /// Minutes that became too old before they were whole.
    pub(crate) given_up: Counter,
}

impl Audited {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rows were written in this minute.
    pub(crate) fn written(&self, minute: i32) {
        self.state().minutes.insert(minute);
    }

    /// What the last round found, and how many minutes are not known to be whole.
    pub(crate) fn last(&self) -> (Findings, usize) {
        let state = self.state();
        (state.last, state.minutes.len())
    }

    /// Most bytes that a round holds.
    pub(crate) fn bytes(&self) -> u64 {
        self.state().last.rows.min(ROWS_MAX as u64) * ROW_BYTES
    }

    /// The minutes that a round looks at.
    fn due(&self, now: i32, settled: i32) -> Vec<i32> {
        let mut state = self.state();
        let kept = state.minutes.split_off(&(now - MINUTES_MAX));
        let old = std::mem::replace(&mut state.minutes, kept);
        self.given_up.add(old.len() as u64);
        state.minutes.range(..settled).copied().collect()
    }

    fn ended(&self, minutes: &[i32], found: Findings) {
        let mut state = self.state();
        (state.last, state.rounds) = (found, state.rounds + 1);
        self.refilled.add(found.refilled);
        if found.is_whole() {
            self.rows.add(found.rows);
            state.minutes.retain(|minute| minutes.binary_search(minute).is_err());
        }
    }
}

/// See the module.
pub(crate) struct Auditor {
    pub(crate) site: Arc<Site>,
    /// Of the node's other cluster, from which lost rows come back.
    pub(crate) other: Option<Arc<Site>>,
    pub(crate) writer: u128,
    pub(crate) clock: Clock,
}

impl Auditor {
    /// Audits until `ending` is true.
    pub(crate) async fn run(self, mut ending: watch::Receiver<bool>) {
        let now = self.minute(Duration::ZERO);
        (now - START_MINUTES..=now).for_each(|minute| self.site.audited.written(minute));
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.site.address.audit) => {}
                _ = ending.wait_for(|ending| *ending) => return,
            }
            if let Some(cluster) = self.site.cluster.get() {
                tokio::select! {
                    () = self.round(cluster) => {}
                    _ = ending.wait_for(|ending| *ending) => return,
                }
            }
        }
    }

    async fn round(&self, cluster: &Cluster) {
        let minutes =
            self.site.audited.due(self.minute(Duration::ZERO), self.minute(SETTLED.min(self.site.address.audit)));
        if minutes.is_empty() {
            return;
        }
        let other = self.other.as_ref().and_then(|site| site.present());
        let audit = Audit { cluster, other, writer: Some(self.writer), refill: true };
        match audit.minutes(minutes.iter().copied()).await {
            Ok(found) => {
                if found.lost > 0 || found.manifests_corrupt > 0 {
                    tracing::error!("audit: {found:?}");
                }
                self.site.audited.ended(&minutes, found);
            }
            Err(error) => tracing::debug!("the audit is tried again: {error}"),
        }
    }

    /// The minute that was so long ago.
    fn minute(&self, ago: Duration) -> i32 {
        minute(self.clock.wall().div_euclid(1_000_000) - ago.as_millis() as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_stays_until_it_is_whole_or_too_old() {
        let audited = Audited::default();
        [100, 101, 103].into_iter().for_each(|minute| audited.written(minute));
        assert_eq!(audited.due(104, 103), [100, 101]);
        audited.ended(&[100, 101], Findings { rows: 5, copies_missing: 1, refilled: 1, ..Findings::default() });
        assert_eq!((audited.due(104, 103), audited.rows.get(), audited.refilled.get()), (vec![100, 101], 0, 1));
        audited.ended(&[100, 101], Findings { rows: 5, ..Findings::default() });
        assert_eq!((audited.due(104, 104), audited.rows.get(), audited.last().1), (vec![103], 5, 1));
        assert_eq!(audited.due(103 + MINUTES_MAX, 200), [103], "a day old");
        assert_eq!((audited.due(104 + MINUTES_MAX, 200), audited.given_up.get()), (vec![], 1), "and a minute");
    }
}
