//! Hours of series whose rollups are to be made: those in which this node has written rows.
//!
//! Limits: [`HOURS_MAX`]; hours beyond it are not noted, and counted. `ogive cluster rollup` makes their rollups.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ogive_door::counter::Counter;
use ogive_model::SeriesId;

use crate::index::CatalogSeries;
use crate::rollup::hours_of;

/// 500,000 hours of series, of some 64 bytes and their labels.
const HOURS_MAX: usize = 500_000;

#[derive(Debug, Default)]
struct State {
    /// By hour: those that are over are made first.
    hours: BTreeMap<i32, BTreeMap<SeriesId, Arc<CatalogSeries>>>,
    count: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Rolling {
    state: Mutex<State>,
    /// Rollups that were made.
    pub(crate) made: Counter,
    /// Hours that were not noted.
    pub(crate) passed_over: Counter,
}

impl Rolling {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rows of these minutes of a series were written.
    pub(crate) fn written(&self, known: &Arc<CatalogSeries>, minutes: impl IntoIterator<Item = i32>) {
        let hours: BTreeSet<i32> = minutes.into_iter().flat_map(hours_of).collect();
        hours.into_iter().for_each(|hour| self.note(known, hour));
    }

    /// The rollup of an hour is to be made.
    pub(crate) fn note(&self, known: &Arc<CatalogSeries>, hour: i32) {
        let mut state = self.state();
        if state.hours.get(&hour).is_some_and(|all| all.contains_key(&known.id)) {
            return;
        }
        if state.count >= HOURS_MAX {
            return self.passed_over.add(1);
        }
        state.hours.entry(hour).or_default().insert(known.id, Arc::clone(known));
        state.count += 1;
    }

    /// Takes at most `count` of those before `hour`.
    pub(crate) fn take(&self, hour: i32, count: usize) -> Vec<(Arc<CatalogSeries>, i32)> {
        let mut state = self.state();
        let mut out = Vec::new();
        while out.len() < count
            && let Some(mut first) = state.hours.first_entry()
            && *first.key() < hour
        {
            let at = *first.key();
            match first.get_mut().pop_first() {
                Some((_, known)) => out.push((known, at)),
                None => drop(first.remove()),
            }
        }
        state.count -= out.len();
        out
    }

    /// Hours that wait, those that are not over among them.
    pub(crate) fn waiting(&self) -> usize {
        self.state().count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ogive_model::{Kind, SeriesDef, SeriesMeta, Temporality, Tenant};

    #[test]
    fn hours_that_are_over_are_taken_once() {
        let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        let def = SeriesDef::new([("__name__", "m")], meta).unwrap();
        let known = Arc::new(CatalogSeries { tenant: Tenant::default(), id: def.id(&Tenant::default()), def });
        let rolling = Rolling::default();
        rolling.written(&known, [59, 60, 61, 120, 121]);
        assert_eq!(rolling.waiting(), 3);
        let hours = |before| rolling.take(before, 10).into_iter().map(|(_, hour)| hour).collect::<Vec<_>>();
        assert_eq!((hours(2), hours(2), hours(3)), (vec![0, 1], vec![], vec![2]));
        assert_eq!(rolling.waiting(), 0);
    }
}
