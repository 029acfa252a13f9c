//! The quantizer: series of jittered senders are aligned to cells of a fixed width as their samples are stored.
//!
//! ```text
//! listener --submit--> store --acknowledged--> Marks (dirty windows) --> thread: read the window, align, write what differs
//! ```
//!
//! Invariants: a cell is a function of the samples that the store holds in its window ([`ogive_stream::align`]), so
//! that jitter, order, late samples, batches sent again and restarts do not change it. A sample is acknowledged as
//! ever, when the store has it; its window is marked in the same moment, and written once its lateness is over. What
//! comes later marks its window again, and the difference is written.
//! Threads: one, `work`; those that submit hold a rule's lock for microseconds.
//! Limits: [`RULES_MAX`] rules, `KNOWN_MAX` series by identity, those of `ranges::Ranges`.
//! Failure: a window that cannot be read or written stays marked and is tried again with the next one; it is counted.

mod ranges;
mod rule;
mod work;

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ogive_model::{Batch, SeriesId, Verdict, WallMs};
use ogive_stream::align::window_end;

use ogive_door::counters::Counter;
use ogive_door::own_value::OwnValue;
use ranges::Ranges;
pub use rule::Rule;
pub use work::Quantizer;

/// 64 rules: each is a bit in the state of a series.
pub const RULES_MAX: usize = 64;

/// 262,144 series that senders name only by identity, 24 bytes each: 12 MiB including the table's spare room. For
/// further ones, every rule is assumed to match: windows are processed unnecessarily, but none is missed.
const KNOWN_MAX: usize = 1 << 18;

/// The watermark of each rule, from which a start knows where to continue.
pub const WATERMARK: &str = "ogive_quantize_watermark_seconds";

/// Samples of each rule by outcome.
pub const SAMPLES: &str = "ogive_quantize_samples_total";

/// Cells of each rule.
pub const CELLS: &str = "ogive_quantize_cells_total";

/// What series are aligned to.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(id = "quantizer")]
pub struct Options {
    /// Align the series of a selector to cells of a fixed width, by default one second:
    /// SELECTOR[=width=1s,lateness=2s,number=last,keep=beside] (docs/quantizer.md). Repeatable; each is one rule.
    #[arg(long, value_name = "SELECTOR[=OPTIONS]", env = "OGIVE_QUANTIZE")]
    pub quantize: Vec<Rule>,
}

/// One rule and its pending work.
pub struct Marked {
    pub(crate) rule: Rule,
    dirty: Mutex<Ranges>,
    /// Windows that end here or before have been written once.
    closed_ms: AtomicI64,
    /// Samples up to here are dropped.
    horizon_ms: AtomicI64,
    pub(crate) counts: RuleCounts,
}

/// Statistics of a rule since the start.
#[derive(Debug, Default)]
pub struct RuleCounts {
    /// Samples of its series in acknowledged batches whose window was open.
    pub on_time: Counter,
    /// Whose window had closed: they are in its cell too.
    pub late: Counter,
    /// Whose batch had been stored before.
    pub duplicate: Counter,
    /// Whose window is behind the horizon: they stay as samples and are in no cell.
    pub too_late: Counter,
    /// Samples that the store rejected.
    pub rejected: Counter,
    /// Cells that were written for the first time, and again because of late samples.
    pub cells: Counter,
    pub(crate) corrections: Counter,
    /// Histograms and series that cannot be put into a cell.
    pub unfit: Counter,
    /// Tries to read or write that failed.
    pub failures: Counter,
}

impl RuleCounts {
    fn figures(&self) -> [(&'static str, &'static str, u64); 9] {
        [
            (SAMPLES, "on_time", self.on_time.get()),
            (SAMPLES, "late", self.late.get()),
            (SAMPLES, "duplicate", self.duplicate.get()),
            (SAMPLES, "too_late", self.too_late.get()),
            (SAMPLES, "rejected", self.rejected.get()),
            (SAMPLES, "unfit", self.unfit.get()),
            (CELLS, "written", self.cells.get()),
            (CELLS, "corrected", self.corrections.get()),
            (CELLS, "failed", self.failures.get()),
        ]
    }
}

/// Pending work, handed from submitters to the thread.
pub struct Marks {
    rules: Vec<Marked>,
    /// The rules of series that were declared, a bit each.
    known: Mutex<HashMap<SeriesId, u64>>,
}

/// The effect of one batch on one rule, until it is acknowledged.
struct Note {
    rule: usize,
    windows: Ranges,
    /// The end of each sample's window.
    ends: Vec<WallMs>,
}

/// The effect of a batch, until it is acknowledged.
pub struct Notes {
    marks: Arc<Marks>,
    notes: Vec<Note>,
    samples: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Marks {
    /// None when there is no rule.
    ///
    /// # Errors
    /// Too many rules.
    pub fn new(options: &Options) -> anyhow::Result<Option<Arc<Self>>> {
        let count = options.quantize.len();
        anyhow::ensure!(count <= RULES_MAX, "--quantize is given {count} times, at most {RULES_MAX} rules may be");
        let of = |rule: &Rule| Marked {
            rule: rule.clone(),
            dirty: Mutex::default(),
            closed_ms: AtomicI64::new(i64::MIN),
            horizon_ms: AtomicI64::new(i64::MIN),
            counts: RuleCounts::default(),
        };
        let rules: Vec<Marked> = options.quantize.iter().map(of).collect();
        Ok((!rules.is_empty()).then(|| Arc::new(Self { rules, known: Mutex::default() })))
    }

    pub(crate) fn rules(&self) -> &[Marked] {
        &self.rules
    }

    /// The effect of `batch`; to be [`Notes::acknowledged`].
    pub fn note(self: &Arc<Self>, batch: &Batch) -> Notes {
        let samples = batch.samples.len() as u64;
        let about = self.about(batch);
        let mut notes = Vec::new();
        for (at, marked) in self.rules.iter().enumerate() {
            let mut note = Note { rule: at, windows: Ranges::default(), ends: Vec::new() };
            for sample in batch.samples.iter().flatten() {
                if about.get(sample.series as usize).is_some_and(|rules| rules >> at & 1 == 1) {
                    let end = window_end(WallMs(sample.time_ms()), marked.rule.width);
                    note.windows.add(end.saturating_sub(marked.rule.width), end);
                    note.ends.push(end);
                }
            }
            if !note.ends.is_empty() {
                notes.push(note);
            }
        }
        Notes { marks: Arc::clone(self), notes, samples }
    }

    /// The rules of each series of a batch, a bit each.
    fn about(&self, batch: &Batch) -> Vec<u64> {
        let of_tenant: u64 =
            self.rules.iter().enumerate().map(|(at, marked)| u64::from(marked.rule.tenant == batch.tenant) << at).sum();
        if of_tenant == 0 {
            return Vec::new();
        }
        let mut known = lock(&self.known);
        let mut out = Vec::with_capacity(batch.series.len() + batch.known.len());
        for series in &batch.series {
            let rules = series.as_ref().map_or(0, |def| {
                let accepts = |(at, marked): (usize, &Marked)| u64::from(marked.rule.accepts(def)) << at;
                let rules = self.rules.iter().enumerate().map(accepts).sum::<u64>() & of_tenant;
                if known.len() < KNOWN_MAX {
                    known.insert(def.id(&batch.tenant), rules);
                }
                rules
            });
            out.push(rules);
        }
        out.extend(batch.known.iter().map(|series| known.get(series).copied().unwrap_or(of_tenant)));
        out
    }

    /// Figures of each rule.
    pub fn own_values(&self) -> Vec<OwnValue> {
        let mut out = Vec::new();
        for marked in &self.rules {
            let rule = &*marked.rule.text;
            for (name, outcome, value) in marked.counts.figures() {
                out.push(OwnValue::counter(name, &[("rule", rule), ("outcome", outcome)], value as f64));
            }
            if let Some(watermark) = marked.watermark() {
                out.push(OwnValue::gauge(WATERMARK, &[("rule", rule)], "s", watermark.0 as f64 / 1e3));
            }
        }
        // The samples of a family must be consecutive.
        out.sort_by(|one, other| one.name().cmp(other.name()));
        out
    }
}

impl Notes {
    /// The store has the batch, and every reader sees it.
    pub fn acknowledged(self, verdict: &Verdict) {
        let is_duplicate = verdict.duplicate > 0 && verdict.duplicate == self.samples;
        // Which samples were rejected is known by position; here only their number matters, so that none is unaccounted
        // for.
        let rejected = verdict.rejected.len() as u64;
        for Note { rule, windows, ends } in self.notes {
            let marked = &self.marks.rules[rule];
            if is_duplicate {
                marked.counts.duplicate.add(ends.len() as u64);
                continue;
            }
            marked.take(&windows, &ends, rejected.min(ends.len() as u64));
        }
    }
}

impl Marked {
    fn take(&self, windows: &Ranges, ends: &[WallMs], rejected: u64) {
        let mut dirty = lock(&self.dirty);
        // ORDERING: Relaxed; both change under the lock that is held.
        let (closed, horizon) = (self.closed_ms.load(Ordering::Relaxed), self.horizon_ms.load(Ordering::Relaxed));
        let (closed, horizon) = (WallMs(closed), WallMs(horizon));
        let too_late = ends.iter().filter(|end| **end <= horizon).count() as u64;
        let late = ends.iter().filter(|end| horizon < **end && **end <= closed).count() as u64;
        let mut windows = windows.clone();
        windows.forget(horizon);
        dirty.add_all(&windows);
        drop(dirty);
        self.counts.too_late.add(too_late);
        self.counts.rejected.add(rejected);
        self.counts.late.add(late);
        self.counts.on_time.add((ends.len() as u64).saturating_sub(too_late + late + rejected));
    }

    /// Everything before it is in cells; None before the first second has passed.
    fn watermark(&self) -> Option<WallMs> {
        let dirty = lock(&self.dirty);
        // ORDERING: Relaxed; changes under the lock that is held.
        let closed = WallMs(self.closed_ms.load(Ordering::Relaxed));
        (closed > WallMs::MIN).then(|| dirty.first().map_or(closed, |first| first.min(closed)))
    }
}

#[cfg(test)]
mod tests;
