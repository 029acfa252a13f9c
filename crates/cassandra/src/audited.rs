//! What is known of the rows that a node wrote to a cluster: the minutes that are still to be audited, and the last
//! result.
//!
//! Limits: [`MINUTES_MAX`]; minutes older than that are no longer audited, and counted.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ogive_door::counter::Counter;

use crate::audit::{Findings, ROW_BYTES, ROWS_MAX};

/// A day: as long as manifests are kept.
const MINUTES_MAX: i32 = 1_440;

#[derive(Debug, Default)]
struct State {
    minutes: BTreeSet<i32>,
    last: Findings,
    /// Of the rounds that ended.
    rounds: u64,
}

/// See the module.
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

    /// The minutes that a round looks at, and those that no round looks at any more.
    pub(crate) fn due(&self, now: i32, settled: i32) -> (Vec<i32>, Vec<i32>) {
        let mut state = self.state();
        let kept = state.minutes.split_off(&(now - MINUTES_MAX));
        let old = std::mem::replace(&mut state.minutes, kept);
        self.given_up.add(old.len() as u64);
        (state.minutes.range(..settled).copied().collect(), old.into_iter().collect())
    }

    pub(crate) fn ended(&self, minutes: &[i32], found: Findings) {
        let mut state = self.state();
        (state.last, state.rounds) = (found, state.rounds + 1);
        self.refilled.add(found.refilled);
        if found.is_whole() {
            self.rows.add(found.rows);
            state.minutes.retain(|minute| minutes.binary_search(minute).is_err());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_stays_until_it_is_whole_or_too_old() {
        let audited = Audited::default();
        [100, 101, 103].into_iter().for_each(|minute| audited.written(minute));
        assert_eq!(audited.due(104, 103), (vec![100, 101], vec![]));
        audited.ended(&[100, 101], Findings { rows: 5, copies_missing: 1, refilled: 1, ..Findings::default() });
        assert_eq!((audited.due(104, 103).0, audited.rows.get(), audited.refilled.get()), (vec![100, 101], 0, 1));
        audited.ended(&[100, 101], Findings { rows: 5, ..Findings::default() });
        assert_eq!((audited.due(104, 104).0, audited.rows.get(), audited.last().1), (vec![103], 5, 1));
        assert_eq!(audited.due(103 + MINUTES_MAX, 200).0, [103], "a day old");
        assert_eq!(
            (audited.due(104 + MINUTES_MAX, 200), audited.given_up.get()),
            ((vec![], vec![103]), 1),
            "and a minute"
        );
    }
}
