//! What forwards did, as series.

use std::sync::{Arc, Mutex, PoisonError};

use crate::own_value::OwnValue;

/// The statistics of one forward.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figure {
    /// Seconds between now and the newest delivered data.
    pub lag_seconds: f64,
    /// Cells that the far side took.
    pub samples: u64,
    /// Samples of requests that were refused for good.
    pub samples_refused: u64,
    /// Requests that were sent in vain.
    pub failures: u64,
    /// Seconds that have more cells than are read at once.
    pub seconds_skipped: u64,
    /// Cells for which the form has no place.
    pub samples_unfit: u64,
    /// Samples that arrived after the lateness and were sent to a remote server that merges them.
    pub late_corrected: u64,
    /// Late samples for a remote server that does not merge.
    pub late_left_out: u64,
    /// Late samples that were too many at once, or arrived while their second was read.
    pub late_dropped: u64,
}

/// The statistics of all forwards, by name.
#[derive(Clone, Debug, Default)]
pub struct Figures(Arc<Mutex<Vec<(String, Figure)>>>);

/// Their metrics and help texts.
pub const HELP: [(&str, &str); 7] = [
    ("ogive_forward_lag_seconds", "Time between now and the last second that the far side has, by forward."),
    ("ogive_forward_samples_total", "Cells that the far side took, by forward."),
    ("ogive_forward_refused_samples_total", "Cells of requests that the far side refused for good, by forward."),
    ("ogive_forward_failures_total", "Requests that were sent in vain and again, by forward."),
    ("ogive_forward_skipped_seconds_total", "Seconds with more cells than a forward reads, by forward."),
    ("ogive_forward_unfit_samples_total", "Cells for which the form has no place, by forward."),
    (
        LATE,
        "Samples that came later than the lateness, by forward and outcome: corrected over there, left_out as the far side merges nothing, dropped.",
    ),
];

const LATE: &str = "ogive_forward_late_samples_total";

impl Figures {
    /// Changes the statistics of `name`.
    pub fn change(&self, name: &str, change: impl FnOnce(&mut Figure)) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.iter_mut().find(|one| one.0 == name) {
            Some((_, figure)) => change(figure),
            None => {
                let mut figure = Figure::default();
                change(&mut figure);
                all.push((name.to_owned(), figure));
            }
        }
    }

    /// As series.
    pub fn values(&self) -> Vec<OwnValue> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut out = Vec::new();
        for (at, (metric, _)) in HELP.iter().enumerate() {
            for (name, figure) in &all {
                let labels = [("forward", &**name)];
                let counts = [
                    0,
                    figure.samples,
                    figure.samples_refused,
                    figure.failures,
                    figure.seconds_skipped,
                    figure.samples_unfit,
                ];
                if *metric == LATE {
                    for (outcome, count) in figure.late() {
                        let labels = [labels[0], ("outcome", outcome)];
                        out.push(OwnValue::counter(metric, &labels, count as f64));
                    }
                } else if at == 0 {
                    out.push(OwnValue::gauge(metric, &labels, "s", figure.lag_seconds));
                } else {
                    out.push(OwnValue::counter(metric, &labels, counts[at] as f64));
                }
            }
        }
        out
    }

    /// Late samples of all forwards together, by outcome; None without a forward.
    pub fn late(&self) -> Option<[(&'static str, u64); 3]> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let each = all.iter().map(|(_, figure)| figure.late());
        each.reduce(|sum, one| std::array::from_fn(|at| (sum[at].0, sum[at].1 + one[at].1)))
    }
}

impl Figure {
    fn late(&self) -> [(&'static str, u64); 3] {
        [("corrected", self.late_corrected), ("left_out", self.late_left_out), ("dropped", self.late_dropped)]
    }
}
