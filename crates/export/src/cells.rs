//! The series of a process: what is measured in it, and the cells made of that each second.
//!
//! *Invariants*: a cell leaves its recorder once. Empty cells are not made. A counter is exported as deltas, so that
//! cells and counts of several processes with equal labels add up; its first sample is there even when it is 0.
//! *Threads*: any thread may add and forget series; cells are taken by one thread at a time. Nothing here is on the
//! path of a measurement. *Limits*: [`SERIES_MAX`]. *Failure*: a function of the user's that panics is not called
//! again, and counted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ogive_hist::Histogram;
use ogive_model::{Kind, SeriesDef, SeriesMeta, Temporality, Value};
use ogive_probe::{Clock, HiccupMeter, Mode, Recorder, TickSource, TracePath, TraceRecorder, snapshot_all};

use crate::Error;
use crate::measured::{CellEnd, Measured, push_cell};
use crate::trace_series::{STAGE, TOTAL};
use crate::traces::{Traces, TracesOf};

/// 100,000 entries: the intended maximum of recorders in a process; at 150 bytes a second each, 15 MB/s.
pub const SERIES_MAX: usize = 100_000;

/// The state of the clock is reported every this many cells.
const CLOCK_CELLS: u64 = 10;

/// The series that are exported. Clones are the same.
#[derive(Clone)]
pub struct Cells {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    labels: Vec<(String, String)>,
    width_ms: u32,
    /// The process that collects the cells.
    process: u32,
    entries: Mutex<Vec<Arc<Entry>>>,
    panics: AtomicU64,
}

/// One measured series.
struct Entry {
    series: SeriesDef,
    leaving: AtomicBool,
    what: Instrument,
}

enum Instrument {
    Recorder(Recorder),
    Counter(Mutex<Counter>),
    Gauge(Mutex<Gauge>),
    Traces(Mutex<Box<dyn Traces>>),
    Histogram(Mutex<Reading<Histogram>>),
    Texts(Mutex<Reading<Vec<Text>>>),
}

/// A user-supplied function; removed after a panic.
type Reading<V> = Option<Box<dyn FnMut() -> V + Send>>;

/// A text that is sent with the cells of one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The series' name.
    pub name: String,
    /// Its labels, in addition to those of the set.
    pub labels: Vec<(String, String)>,
    /// Its contents.
    pub text: String,
}

struct Counter {
    /// Removed after a panic.
    read: Option<Box<dyn FnMut() -> u64 + Send>>,
    before: Option<u64>,
}

struct Gauge {
    read: Option<Box<dyn FnMut() -> f64 + Send>>,
    each: u64,
    turn: u64,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The metadata of a series of cells, deltas, or states.
pub(crate) fn meta(kind: Kind, temporality: Temporality, unit: &str, width_ms: u32) -> SeriesMeta {
    SeriesMeta { kind, temporality, unit: unit.into(), width_ms }
}

impl Cells {
    /// An empty set whose series all have `labels`, and whose cells are `width_ms` wide.
    #[must_use]
    pub fn new(clock: Clock, labels: &[(&str, &str)], width_ms: u32) -> Self {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (entries, panics, process) = (Mutex::default(), AtomicU64::new(0), std::process::id());
        Self { shared: Arc::new(Shared { clock, labels, width_ms, process, entries, panics }) }
    }

    /// Durations: `name` ends in `_seconds`. The counts of several recorders of one series are added.
    ///
    /// # Errors
    /// [`Error::Series`], [`Error::TooManySeries`], or [`Error::Forked`].
    pub fn recorder(&self, name: &str, labels: &[(&str, &str)], recorder: &Recorder) -> Result<(), Error> {
        let series = self.series(name, labels, Kind::Histogram, Temporality::Delta, "s")?;
        self.add(series, Instrument::Recorder(recorder.clone()))
    }

    /// Amounts other than durations, such as bytes: `read` is called once for each cell, in the exporter's thread, and
    /// returns what was measured since the previous call.
    ///
    /// # Errors
    /// As [`Cells::recorder`].
    pub fn histogram(
        &self,
        name: &str,
        labels: &[(&str, &str)],
        unit: &str,
        read: impl FnMut() -> Histogram + Send + 'static,
    ) -> Result<(), Error> {
        let series = self.series(name, labels, Kind::Histogram, Temporality::Delta, unit)?;
        self.add(series, Instrument::Histogram(Mutex::new(Some(Box::new(read)))))
    }

    /// Texts whose series are not known in advance: `read` is called once for each cell, in the exporter's thread, and
    /// returns the texts of that cell. One with invalid labels is left out. `name` names the entry, for forgetting it.
    ///
    /// # Errors
    /// As [`Cells::recorder`].
    pub fn texts(&self, name: &str, read: impl FnMut() -> Vec<Text> + Send + 'static) -> Result<(), Error> {
        let series = self.series(name, &[], Kind::Text, Temporality::Gauge, "")?;
        self.add(series, Instrument::Texts(Mutex::new(Some(Box::new(read)))))
    }

    /// A counter: `name` ends in `_total`. `read` is called once for each cell, in the exporter's thread.
    ///
    /// # Errors
    /// As [`Cells::recorder`].
    pub fn counter(
        &self,
        name: &str,
        labels: &[(&str, &str)],
        read: impl FnMut() -> u64 + Send + 'static,
    ) -> Result<(), Error> {
        let series = self.series(name, labels, Kind::Float, Temporality::Delta, "")?;
        self.add(series, Instrument::Counter(Mutex::new(Counter { read: Some(Box::new(read)), before: None })))
    }

    /// A state. `read` is called once for each cell, in the exporter's thread.
    ///
    /// # Errors
    /// As [`Cells::recorder`].
    pub fn gauge(
        &self,
        name: &str,
        labels: &[(&str, &str)],
        read: impl FnMut() -> f64 + Send + 'static,
    ) -> Result<(), Error> {
        self.gauge_each(1, name, labels, read)
    }

    fn gauge_each(
        &self,
        each: u64,
        name: &str,
        labels: &[(&str, &str)],
        read: impl FnMut() -> f64 + Send + 'static,
    ) -> Result<(), Error> {
        let series = self.series(name, labels, Kind::Float, Temporality::Gauge, "")?;
        self.add(series, Instrument::Gauge(Mutex::new(Gauge { read: Some(Box::new(read)), each, turn: 0 })))
    }

    /// How late each CPU wakes a sleeping thread: `ogive_hiccup_seconds{cpu}`.
    ///
    /// # Errors
    /// As [`Cells::recorder`].
    pub fn hiccups(&self, meter: &HiccupMeter) -> Result<(), Error> {
        for cpu in meter.cpus() {
            self.recorder("ogive_hiccup_seconds", &[("cpu", &cpu.cpu().to_string())], cpu.recorder())?;
        }
        Ok(())
    }

    /// The messages of a path: each stage's cells and the complete slow messages, under the path's name in snake case
    /// and `_seconds`.
    ///
    /// # Errors
    /// As [`Cells::recorder`]; the labels `stage`, `class` and `publisher` are reserved.
    pub fn traces<P: TracePath, T: TickSource>(
        &self,
        labels: &[(&str, &str)],
        recorder: &TraceRecorder<P, T>,
    ) -> Result<(), Error> {
        self.traces_named(&format!("{}_seconds", snake_case(P::NAME)), labels, recorder)
    }

    /// As [`Cells::traces`], under a name of your own, which ends in `_seconds`.
    ///
    /// # Errors
    /// As [`Cells::traces`].
    pub fn traces_named<P: TracePath, T: TickSource>(
        &self,
        name: &str,
        labels: &[(&str, &str)],
        recorder: &TraceRecorder<P, T>,
    ) -> Result<(), Error> {
        let with = |more: &[(&str, &str)], name: &str, kind: Kind, temporality: Temporality, unit: &str| {
            self.series(name, &[labels, more].concat(), kind, temporality, unit)
        };
        let traces = TracesOf::new(name, recorder.clone(), with)?;
        let series = with(&[(STAGE, TOTAL)], name, Kind::Histogram, Temporality::Delta, "s")?;
        self.add(series, Instrument::Traces(Mutex::new(Box::new(traces))))
    }

    /// The state of the measuring clock, every ten cells, as the server reports its own: `ogive_clock_info{mode}` (1
    /// for the one in use, `counter` or `os`), `ogive_clock_epoch` and `ogive_clock_error_seconds`.
    ///
    /// # Errors
    /// As [`Cells::recorder`].
    pub fn clock(&self) -> Result<(), Error> {
        let clock = self.shared.clock;
        for mode in [Mode::Counter, Mode::Os] {
            let is_read = move || f64::from(u8::from(clock.status().mode == mode));
            self.gauge_each(CLOCK_CELLS, "ogive_clock_info", &[("mode", mode.name())], is_read)?;
        }
        self.gauge_each(CLOCK_CELLS, "ogive_clock_epoch", &[], move || f64::from(clock.epoch()))?;
        self.gauge_each(CLOCK_CELLS, "ogive_clock_error_seconds", &[], move || clock.status().err_ns as f64 / 1e9)
    }

    /// Forgets a series, once its last cell is collected. For traces, name the series with `stage="total"`.
    pub fn forget(&self, name: &str, labels: &[(&str, &str)]) {
        let Ok(sought) = self.series(name, labels, Kind::Float, Temporality::Gauge, "") else { return };
        if self.check_process().is_ok() {
            for entry in lock(&self.shared.entries).iter().filter(|entry| entry.series.labels == sought.labels) {
                // ORDERING: Relaxed; the lock of the entries orders it.
                entry.leaving.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Functions of the user's that panicked.
    pub(crate) fn panics(&self) -> u64 {
        // ORDERING: Relaxed; a figure for people.
        self.shared.panics.load(Ordering::Relaxed)
    }

    /// A series with the common labels added.
    pub(crate) fn series(
        &self,
        name: &str,
        labels: &[(&str, &str)],
        kind: Kind,
        temporality: Temporality,
        unit: &str,
    ) -> Result<SeriesDef, Error> {
        let of_all = self.shared.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let pairs = of_all.chain(labels.iter().copied()).chain([("__name__", name)]);
        SeriesDef::new(pairs, meta(kind, temporality, unit, self.shared.width_ms))
            .map_err(|source| Error::Series { name: name.into(), source })
    }

    /// In a child of fork, the lock may be held by a thread that does not exist there.
    fn check_process(&self) -> Result<(), Error> {
        let parent = self.shared.process;
        if std::process::id() == parent { Ok(()) } else { Err(Error::Forked { parent }) }
    }

    fn add(&self, series: SeriesDef, what: Instrument) -> Result<(), Error> {
        self.check_process()?;
        let mut entries = lock(&self.shared.entries);
        if entries.len() >= SERIES_MAX {
            return Err(Error::TooManySeries { limit: SERIES_MAX });
        }
        entries.push(Arc::new(Entry { series, leaving: AtomicBool::new(false), what }));
        Ok(())
    }

    /// Collects what was measured since the last turn. An [`Exporter`](crate::Exporter) does so for its own set; for a
    /// set that you made, collect the cells in one thread. Each value is returned only once.
    #[must_use]
    pub fn take(&self, turn: CellEnd) -> Vec<Measured> {
        let entries = {
            let mut entries = lock(&self.shared.entries);
            let taken = entries.clone();
            // ORDERING: Relaxed; as in `forget`.
            entries.retain(|entry| !entry.leaving.load(Ordering::Relaxed));
            taken
        };
        let mut out = Vec::with_capacity(entries.len());
        let recorders = entries.iter().filter_map(|entry| match &entry.what {
            Instrument::Recorder(recorder) => Some((&entry.series, recorder)),
            _ => None,
        });
        let (series, recorders): (Vec<_>, Vec<_>) = recorders.unzip();
        for (series, cell) in series.into_iter().zip(snapshot_all(recorders)) {
            push_cell(&mut out, series, turn.time, cell);
        }
        for entry in &entries {
            self.take_other(entry, turn, &mut out);
        }
        out
    }

    fn take_other(&self, entry: &Entry, turn: CellEnd, out: &mut Vec<Measured>) {
        let mut float = |value| {
            out.push(Measured { series: entry.series.clone(), time: turn.time, value: Value::Float(value) });
        };
        match &entry.what {
            Instrument::Recorder(_) => {}
            Instrument::Counter(counter) => {
                let mut counter = lock(counter);
                let Some(now) = self.ask(&mut counter.read) else { return };
                let before = counter.before.replace(now);
                // A counter that fell was reset.
                let more = now.checked_sub(before.unwrap_or(0)).unwrap_or(now);
                if more > 0 || before.is_none() {
                    float(more as f64);
                }
            }
            Instrument::Gauge(gauge) => {
                let mut gauge = lock(gauge);
                gauge.turn += 1;
                let is_due = (gauge.turn - 1).is_multiple_of(gauge.each);
                if let Some(value) = is_due.then(|| self.ask(&mut gauge.read)).flatten() {
                    float(value);
                }
            }
            Instrument::Traces(traces) => lock(traces).take(turn, out),
            Instrument::Histogram(read) => {
                if let Some(cell) = self.ask(&mut lock(read)) {
                    push_cell(out, &entry.series, turn.time, cell);
                }
            }
            Instrument::Texts(read) => {
                for Text { name, labels, text } in self.ask(&mut lock(read)).unwrap_or_default() {
                    let labels: Vec<(&str, &str)> =
                        labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                    if let Ok(series) = self.series(&name, &labels, Kind::Text, Temporality::Gauge, "") {
                        out.push(Measured { series, time: turn.time, value: Value::Text(text) });
                    }
                }
            }
        }
    }

    /// Calls a user-supplied function; one that panicked is never called again.
    fn ask<V>(&self, read: &mut Option<Box<dyn FnMut() -> V + Send>>) -> Option<V> {
        let value = catch_unwind(AssertUnwindSafe(read.as_mut()?)).ok();
        if value.is_none() {
            *read = None;
            // ORDERING: Relaxed; a figure for people.
            self.shared.panics.fetch_add(1, Ordering::Relaxed);
        }
        value
    }
}

impl std::fmt::Debug for Cells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cells").field("labels", &self.shared.labels).finish_non_exhaustive()
    }
}

/// `OrderPath` as `order_path`; other characters than letters and digits become `_`.
fn snake_case(name: &str) -> String {
    let mut out = String::new();
    let mut before_is_small = false;
    for character in name.chars() {
        if character.is_ascii_uppercase() && before_is_small {
            out.push('_');
        }
        before_is_small = character.is_ascii_lowercase() || character.is_ascii_digit();
        out.push(if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '_' });
    }
    out
}

#[cfg(test)]
mod tests;
