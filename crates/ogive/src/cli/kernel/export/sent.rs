//! Series that come and go while the observer runs: what is measured goes in once a second, and the exporter takes each
//! of it once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ogive_export::{Cells, Error};
use ogive_hist::Histogram;

/// The origin of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli::kernel) enum Source {
    /// Programs in the kernel.
    Bpf,
    /// Files of the kernel that everybody may read.
    Proc,
    /// The observer itself.
    Own,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Self::Bpf => "bpf",
            Self::Proc => "proc",
            Self::Own => "self",
        }
    }
}

/// The cells of an exporter or a server. Clones are the same.
#[derive(Clone)]
pub(in crate::cli::kernel) struct Sent {
    pub(super) cells: Cells,
    /// Series that were refused: too many, or a name that is not a valid label.
    refused: Arc<AtomicU64>,
}

impl Sent {
    pub(in crate::cli::kernel) fn new(cells: Cells) -> Self {
        let sent = Self { cells, refused: Arc::default() };
        let refused = sent.refused.clone();
        // ORDERING: Relaxed; counters on their own, here and below.
        let read = move || refused.load(Ordering::Relaxed);
        // If there is no room for this one either, it cannot be reported.
        let _ = sent.cells.counter("ogive_kernel_refused_series_total", &[("source", "self")], read);
        sent
    }

    /// Counts a series that was refused.
    pub(super) fn note(&self, outcome: Result<(), Error>) {
        self.refused.fetch_add(u64::from(outcome.is_err()), Ordering::Relaxed);
    }
}

/// One series, by the type of its values.
enum Series {
    Times(Arc<Mutex<Option<Histogram>>>),
    Count(Arc<AtomicU64>),
    /// The bits of a float.
    State(Arc<AtomicU64>),
}

type Label<'a> = (&'a str, &'a str);
type OwnLabel = (String, String);

/// Series that have some labels in common, and are forgotten together. Each is created with its first value.
pub(in crate::cli::kernel) struct Family {
    sent: Sent,
    labels: Vec<OwnLabel>,
    series: HashMap<(String, Vec<OwnLabel>), Series>,
}

impl Family {
    pub(in crate::cli::kernel) fn new(sent: &Sent, labels: Vec<(&'static str, String)>) -> Self {
        let labels = labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { sent: sent.clone(), labels, series: HashMap::new() }
    }

    /// Durations, in seconds. Without any, no series is made.
    pub(super) fn times(&mut self, source: Source, name: &str, labels: &[Label<'_>], more: &Histogram) {
        self.distribution(source, name, labels, "s", more);
    }

    /// Values of any unit. Without any, no series is made.
    pub(in crate::cli::kernel) fn distribution(
        &mut self,
        source: Source,
        name: &str,
        labels: &[Label<'_>],
        unit: &'static str,
        more: &Histogram,
    ) {
        if more.is_empty() {
            return;
        }
        if let Series::Times(cell) = self.one(source, name, labels, Kind::Times(unit)) {
            let mut cell = cell.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *cell {
                Some(sum) => sum.merge(more).expect("both are of one scheme"),
                None => *cell = Some(more.clone()),
            }
        }
    }

    /// A count.
    pub(in crate::cli::kernel) fn count(&mut self, source: Source, name: &str, labels: &[Label<'_>], more: u64) {
        if more == 0 {
            return;
        }
        if let Series::Count(count) = self.one(source, name, labels, Kind::Count) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// A state.
    pub(super) fn state(&mut self, source: Source, name: &str, labels: &[Label<'_>], value: f64) {
        if let Series::State(state) = self.one(source, name, labels, Kind::State) {
            state.store(value.to_bits(), Ordering::Relaxed);
        }
    }

    fn one(&mut self, source: Source, name: &str, labels: &[Label<'_>], kind: Kind) -> &Series {
        let mut own: Vec<OwnLabel> =
            labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        own.push(("source".to_owned(), source.name().to_owned()));
        let Self { sent, labels: common, series } = self;
        series.entry((name.to_owned(), own)).or_insert_with_key(|(name, own)| kind.begin(sent, name, &all(common, own)))
    }

    /// Forgets every series, once its last cell has been collected.
    pub(super) fn forget(self) {
        for (name, own) in self.series.keys() {
            self.sent.cells.forget(name, &all(&self.labels, own));
        }
    }
}

fn all<'a>(common: &'a [OwnLabel], own: &'a [OwnLabel]) -> Vec<(&'a str, &'a str)> {
    common.iter().chain(own).map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

#[derive(Clone, Copy)]
enum Kind {
    /// With their unit.
    Times(&'static str),
    Count,
    State,
}

impl Kind {
    fn begin(self, sent: &Sent, name: &str, labels: &[(&str, &str)]) -> Series {
        match self {
            Self::Times(unit) => {
                let cell = Arc::<Mutex<Option<Histogram>>>::default();
                let taken = cell.clone();
                let take = move || {
                    let cell = taken.lock().unwrap_or_else(PoisonError::into_inner).take();
                    cell.unwrap_or_else(Histogram::log_linear)
                };
                sent.note(sent.cells.histogram(name, labels, unit, take));
                Series::Times(cell)
            }
            Self::Count => {
                let count = Arc::<AtomicU64>::default();
                let read = count.clone();
                sent.note(sent.cells.counter(name, labels, move || read.load(Ordering::Relaxed)));
                Series::Count(count)
            }
            Self::State => {
                let state = Arc::<AtomicU64>::default();
                let read = state.clone();
                sent.note(sent.cells.gauge(name, labels, move || f64::from_bits(read.load(Ordering::Relaxed))));
                Series::State(state)
            }
        }
    }
}
