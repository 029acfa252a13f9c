//! One thing that is measured: its histogram or count for the table, and its series for a server where there is one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ogive_hist::Histogram;
use ogive_probe::Recorder;

use super::export::Export;

/// Nanoseconds, whose histogram is in seconds.
const NANO: i32 = -9;

/// The `q` quantile for people: limited to the maximum and the minimum, which are exact.
pub(super) fn quantile(times: &Histogram, q: f64) -> Option<f64> {
    times.quantile(q).map(|found| found.value)
}

/// Durations.
#[derive(Debug)]
pub(super) struct Durations {
    pub(super) all: Histogram,
    recorder: Option<Recorder>,
}

impl Durations {
    /// Durations that are sent under this name, when they are sent.
    pub(super) fn new(export: Option<&Export>, name: &str, labels: &[(&str, &str)]) -> Self {
        let recorder = export.map(|export| {
            let recorder = Recorder::new();
            export.note(export.cells.recorder(name, labels, &recorder));
            recorder
        });
        Self { all: Histogram::log_linear(), recorder }
    }

    /// Counts one, unless it is negative; whether it did.
    pub(super) fn record(&mut self, nanos: i64) -> bool {
        let Ok(unsigned) = u64::try_from(nanos) else { return false };
        self.all.record_int(nanos, NANO);
        if let Some(recorder) = &self.recorder {
            recorder.record_ns(unsigned);
        }
        true
    }
}

/// Sizes in bytes: sent as histograms, and as a total.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    pub(super) total: Count,
    cell: Option<Arc<Mutex<Histogram>>>,
}

impl Sizes {
    /// Sizes whose histogram is sent under `name`, and their sum under it with `_total`.
    pub(super) fn new(export: Option<&Export>, name: &str, labels: &[(&str, &str)]) -> Self {
        let cell = export.map(|export| {
            let cell = Arc::new(Mutex::new(Histogram::log_linear()));
            let taken = cell.clone();
            let take = move || {
                let mut cell = taken.lock().unwrap_or_else(PoisonError::into_inner);
                if cell.is_empty() {
                    Histogram::log_linear()
                } else {
                    std::mem::replace(&mut *cell, Histogram::log_linear())
                }
            };
            export.note(export.cells.histogram(name, labels, "By", take));
            cell
        });
        Self { total: Count::new(export, &format!("{name}_total"), labels), cell }
    }

    pub(super) fn record(&mut self, bytes: u64) {
        self.total.add(bytes);
        if let (Some(cell), Ok(bytes)) = (&self.cell, i64::try_from(bytes)) {
            cell.lock().unwrap_or_else(PoisonError::into_inner).record_int(bytes, 0);
        }
    }
}

/// A count.
#[derive(Debug, Default)]
pub(super) struct Count(Arc<AtomicU64>);

impl Count {
    /// A count that is sent under this name, if there is an export.
    pub(super) fn new(export: Option<&Export>, name: &str, labels: &[(&str, &str)]) -> Self {
        let count = Self::default();
        if let Some(export) = export {
            export.note(export.counter(name, labels, &count.0));
        }
        count
    }

    pub(super) fn add(&self, more: u64) {
        // ORDERING: Relaxed; a counter on its own, here and below.
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Sends it as a state under this name.
    pub(super) fn send_as_state(&self, export: &Export, name: &str, labels: &[(&str, &str)]) {
        let count = self.0.clone();
        #[allow(clippy::cast_precision_loss, reason = "a time in seconds")]
        export.note(export.cells.gauge(name, labels, move || count.load(Ordering::Relaxed) as f64));
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_between_the_least_and_the_greatest_sample() {
        // One sample of a bin, and at its lower edge: an even spread within the bin is above it.
        for nanos in [[120_000_i64; 1].as_slice(), &[120_100, 120_200, 120_300]] {
            let mut times = Histogram::log_linear();
            nanos.iter().for_each(|nanos| times.record_int(*nanos, NANO));
            for q in [0.0, 0.5, 0.99, 1.0] {
                let value = quantile(&times, q).unwrap();
                assert!(times.min.unwrap() <= value && value <= times.max.unwrap(), "{q} of {nanos:?}: {value}");
            }
        }
        assert_eq!(quantile(&Histogram::log_linear(), 0.5), None);
    }
}
