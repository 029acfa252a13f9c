//! The relation of each histogram of a series to the previous one, computed once however many windows hold both.
//!
//! Invariant: a relation depends on the two histograms and their times only, not on the window.

use std::cell::{Ref, RefCell};
use std::ops::Range;
use std::sync::Arc;

use ogive_hist::CounterReset;

use super::histogram::{Hist, detect_reset, is_custom};

/// The relations of a series that were computed so far, one for each histogram.
#[derive(Clone, Debug, Default)]
pub(crate) struct Relations(RefCell<Vec<Relation>>);

/// One histogram and the one before it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Relation {
    is_known: bool,
    /// The counter was reset after the previous one; false for the first of a series.
    pub(crate) is_reset: bool,
    /// It is a gauge: a state, not a count since some start.
    pub(crate) is_gauge: bool,
    /// Its bins have explicit bounds.
    pub(crate) is_custom: bool,
}

/// The histograms of a series, their times and their start times.
#[derive(Clone, Copy)]
pub(crate) struct Histograms<'a> {
    pub(crate) times: &'a [i64],
    /// Empty when none is known.
    pub(crate) starts: &'a [i64],
    pub(crate) values: &'a [Arc<Hist>],
}

impl Relation {
    fn from_histograms(Histograms { times, starts, values }: Histograms<'_>, index: usize) -> Self {
        let value = &values[index];
        let is_reset = index > 0 && (restarted(times, starts, index) || detect_reset(value, &values[index - 1]));
        Self { is_known: true, is_reset, is_gauge: value.reset == CounterReset::Gauge, is_custom: is_custom(value) }
    }
}

impl Relations {
    /// The relations of histograms whose bins are elsewhere, where some were found to hold less than in the previous
    /// one (`fell`).
    pub(crate) fn from_heads(all: Histograms<'_>, fell: &[bool]) -> Self {
        assert_eq!(all.values.len(), fell.len(), "of each histogram it is known whether a bin fell");
        let of = |(index, fell): (usize, &bool)| {
            let one = Relation::from_histograms(all, index);
            let is_open = matches!(all.values[index].reset, CounterReset::Unknown | CounterReset::Gauge);
            Relation { is_reset: one.is_reset || (*fell && is_open), ..one }
        };
        Self(RefCell::new(fell.iter().enumerate().map(of).collect()))
    }

    /// The relations of the histograms in `range`; `all` is the same at each call.
    pub(crate) fn of(&self, all: Histograms<'_>, range: Range<usize>) -> Ref<'_, [Relation]> {
        let mut known = self.0.borrow_mut();
        known.resize(all.values.len(), Relation::default());
        for index in range.clone() {
            if !known[index].is_known {
                known[index] = Relation::from_histograms(all, index);
            }
        }
        drop(known);
        Ref::map(self.0.borrow(), |known| &known[range])
    }
}

/// Whether the start time of sample `index` says that its counter began after the sample before.
pub(crate) fn restarted(times: &[i64], starts: &[i64], index: usize) -> bool {
    let (Some(&start), Some(&previous_start)) = (starts.get(index), starts.get(index - 1)) else { return false };
    let before = ogive_model::CounterReading { time: times[index - 1], start: previous_start };
    ogive_model::restarted(before, ogive_model::CounterReading { time: times[index], start })
}
