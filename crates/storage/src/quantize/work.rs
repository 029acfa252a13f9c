//! The thread that makes cells of marked windows.
//!
//! Invariants: windows of a rule are made in ascending order, each from everything that the store holds of it. A cell that differs from what is
//! stored becomes the new one: sums, counts, increases and distributions by the part that is missing; what cannot be corrected by adding (a
//! value that becomes smaller) is deleted with the cells around it and written anew, once in [`REWRITE_MS`] at most.
//! Limits: [`SLICE_WINDOWS`] windows are read at once, [`SLICES`] times a turn.
//! Failure: what cannot be read or written stays marked, is counted, and is said on standard error once until it works again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use ogive_model::{
    Batch, BatchId, HistogramValue, Kind, Labels, METRIC_NAME, MatchOp, Matcher, Resolution, Sample, Selection,
    SeriesData, SeriesDef, Temporality, Tenant, TimeRange, Value,
};
use ogive_store::ingest::TIME_AHEAD_MAX;
use ogive_stream::align::{self, Windows, window_end};

use super::rule::matcher;
use super::{Marked, Marks, WATERMARK, lock};
use ogive_door::Door;
use ogive_door::counters::Protocol;
use ogive_door::submission::stored;

/// 600 windows: ten minutes of seconds. If that is too much to read at once, it is halved.
const SLICE_WINDOWS: i64 = 600;

/// 16 slices: a rule that has to catch up with hours lets others take turns.
const SLICES: usize = 16;

/// 10,000,000 samples, a histogram counting as its bins: 160 MB.
const SAMPLES_MAX: usize = 10_000_000;

/// Cells in a batch: enough to make the cost of an fsync negligible.
const BATCH_SAMPLES: usize = 5_000;

/// 30 s: a deletion first flushes memory to blocks.
const REWRITE_MS: i64 = 30_000;

/// A start reprocesses an hour before the position: late samples that were only in the journal.
const RECOVER_MS: i64 = 3_600_000;

/// How far back a start looks for its position: hours, a day, a month.
const RECALL_MS: [i64; 3] = [3_600_000, 86_400_000, 30 * 86_400_000];

/// Samples are dropped so often at most: a deletion is work for the maintenance thread.
const DROP_EVERY_MS: i64 = 600_000;

/// Names that one matcher of a deletion has at the most.
const NAMES_MAX: usize = 50;

/// The running thread.
pub struct Quantizer {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

/// When the periodic work of one rule was last done.
struct Turn {
    rule: usize,
    /// Cells that were to become smaller, by their metrics, and the time of the last deletion.
    rewrite: Option<(BTreeSet<String>, i64, i64)>,
    rewritten_ms: i64,
    dropped_ms: i64,
    has_failed: bool,
    /// There are counters among its series: data before a window is read too.
    has_counters: bool,
    /// Windows from here on cannot have cells yet.
    fresh_ms: i64,
    /// Windows that are read at once now.
    windows: i64,
}

/// A cell to be written.
struct Write {
    series: SeriesDef,
    end_ms: i64,
    value: Value,
    is_correction: bool,
}

/// The cells that are there, by their labels.
type Existing = HashMap<Labels, SeriesData>;

impl Quantizer {
    /// Starts the thread.
    pub fn start(marks: Arc<Marks>, door: Arc<Door>, runtime: tokio::runtime::Handle) -> anyhow::Result<Self> {
        let (stop, stopped) = channel();
        let run = move || Work { marks, door, runtime }.run(&stopped);
        let thread = std::thread::Builder::new().name("quantizer".into()).spawn(run);
        Ok(Self { stop, thread: thread.context("cannot start the quantizer's thread")? })
    }

    /// Writes the cells that have closed, and stops. Open windows are written after the next start.
    pub fn stop(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

struct Work {
    marks: Arc<Marks>,
    door: Arc<Door>,
    runtime: tokio::runtime::Handle,
}

impl Work {
    fn now_ms(&self) -> i64 {
        self.door.clock.wall().div_euclid(1_000_000)
    }

    fn run(&self, stopped: &Receiver<()>) {
        let mut turns: Vec<Turn> = (0..self.marks.rules().len()).map(|rule| self.begin(rule)).collect();
        loop {
            let is_last = !matches!(stopped.recv_timeout(self.pause()), Err(RecvTimeoutError::Timeout));
            for turn in &mut turns {
                let marked = &self.marks.rules()[turn.rule];
                match self.turn(turn, marked) {
                    Ok(()) => turn.has_failed = false,
                    Err(error) => {
                        marked.counts.failures.add(1);
                        if !std::mem::replace(&mut turn.has_failed, true) {
                            tracing::warn!("quantizing {}: {error:#}; it is tried again", marked.rule.text);
                        }
                    }
                }
            }
            if is_last {
                return;
            }
        }
    }

    /// Until the next window closes, of any rule.
    fn pause(&self) -> Duration {
        let now = self.now_ms();
        let next = |marked: &Marked| {
            let (width, lateness) = (marked.rule.width_ms, marked.rule.lateness_ms);
            (now - lateness).div_euclid(width) * width + width + lateness - now
        };
        let wait = self.marks.rules().iter().map(next).min().unwrap_or(1_000).clamp(10, 1_000);
        Duration::from_millis(wait.unsigned_abs())
    }

    /// Marks what may not have been written before the previous process ended.
    fn begin(&self, rule: usize) -> Turn {
        let (marked, now) = (&self.marks.rules()[rule], self.now_ms());
        let width = marked.rule.width_ms;
        let left_off = self.left_off(marked, now);
        let from = left_off.map_or(now, |(watermark_ms, _)| watermark_ms.min(now)) - RECOVER_MS;
        let from = from.max(now - RECALL_MS[2]).div_euclid(width) * width;
        let mut dirty = lock(&marked.dirty);
        let mut horizon = i64::MIN;
        if let Some(raw_ms) = marked.rule.raw_ms {
            // Data cannot have been dropped later than was possible at the last report of the previous process.
            horizon = (left_off.map_or(now, |(_, said_ms)| said_ms + DROP_EVERY_MS).min(now) - raw_ms)
                .div_euclid(width)
                * width;
            marked.horizon_ms.store(horizon, Ordering::Relaxed);
        }
        // Samples may be ahead of the clock.
        dirty.add(from, window_end(now + TIME_AHEAD_MAX.to_ms().0, width));
        dirty.forget(horizon);
        drop(dirty);
        Turn {
            rule,
            rewrite: None,
            rewritten_ms: i64::MIN / 2,
            dropped_ms: now,
            has_failed: false,
            has_counters: false,
            fresh_ms: i64::MAX,
            windows: SLICE_WINDOWS,
        }
    }

    /// The last watermark that was stored, and when.
    fn left_off(&self, marked: &Marked, now: i64) -> Option<(i64, i64)> {
        let matchers = vec![matcher(METRIC_NAME, WATERMARK), matcher("rule", &marked.rule.text)];
        let mut end_ms = now;
        for back in RECALL_MS {
            let range = TimeRange::from_ms(now - back, end_ms);
            let found = self.select(&Tenant::default(), matchers.clone(), range).unwrap_or_default();
            let last =
                found.iter().filter_map(|series| Some((*series.floats.times.last()?, *series.floats.values.last()?)));
            if let Some((time, value)) = last.max_by_key(|last| last.0) {
                return Some(((value * 1e3) as i64, time));
            }
            end_ms = now - back;
        }
        None
    }

    fn turn(&self, turn: &mut Turn, marked: &Marked) -> anyhow::Result<()> {
        let (rule, now) = (&marked.rule, self.now_ms());
        let closed = (now - rule.lateness_ms).div_euclid(rule.width_ms) * rule.width_ms;
        self.rewrite(turn, marked, now)?;
        for _ in 0..SLICES {
            let slice = lock(&marked.dirty).take(closed, turn.windows * rule.width_ms);
            let Some((from, to)) = slice else { break };
            if let Err(error) = self.slice(turn, marked, Slice { from_ms: from, to_ms: to, closed_ms: closed }) {
                lock(&marked.dirty).add(from, to);
                // A part of its cells may be there.
                turn.fresh_ms = i64::MAX;
                turn.windows = (turn.windows / 2).max(1);
                return Err(error);
            }
            turn.windows = (2 * turn.windows).min(SLICE_WINDOWS);
        }
        let dirty = lock(&marked.dirty);
        // A remaining range is from before: fresh data begins after everything.
        if dirty.first().is_none_or(|first| first >= closed) {
            // ORDERING: Relaxed; changes under the lock that is held.
            marked.closed_ms.fetch_max(closed, Ordering::Relaxed);
            turn.fresh_ms = closed;
        }
        drop(dirty);
        self.drop_raw(turn, marked, now)
    }

    fn select(&self, tenant: &Tenant, matchers: Vec<Matcher>, range: TimeRange) -> anyhow::Result<Vec<SeriesData>> {
        // Only original samples, not cells of rollups.
        let resolution = Resolution::Width(0);
        let selection = Selection { matchers, range, samples_max: SAMPLES_MAX, labels_only: false, resolution };
        Ok(self.door.backend.of(tenant).select(&selection)?)
    }

    /// Makes the cells of a slice, and with counters the later ones that a late sample changes.
    fn slice(&self, turn: &mut Turn, marked: &Marked, slice: Slice) -> anyhow::Result<()> {
        let (rule, Slice { from_ms: from, to_ms: to, closed_ms: closed }) = (&marked.rule, slice);
        loop {
            let (back, ahead) = if turn.has_counters { (rule.lookback_ms, rule.lookback_ms) } else { (0, 0) };
            // Fresh data is marked separately, and has no cells yet.
            let until = closed.min(turn.fresh_ms).min(window_end(to.saturating_add(ahead), rule.width_ms)).max(to);
            let read_from_ms = from.saturating_sub(back);
            let raw = self.select(&rule.tenant, rule.raw(), TimeRange::from_ms(read_from_ms, until))?;
            let counts = |series: &SeriesData| {
                let functions = rule.functions(series.meta.temporality);
                let is_number = series.meta.kind == Kind::Float;
                if is_number {
                    functions.contains(&align::Function::Increase)
                } else {
                    series.meta.temporality != Temporality::Delta
                }
            };
            if !turn.has_counters && raw.iter().any(counts) {
                turn.has_counters = true;
                continue;
            }
            let existing = if from >= turn.fresh_ms { Existing::new() } else { self.existing(marked, from, until)? };
            let windows = Windows { width_ms: rule.width_ms, from_ms: from, to_ms: until, read_from_ms };
            let writes = plan(turn, marked, &raw, &existing, windows);
            self.write(marked, writes)?;
            if turn.fresh_ms < i64::MAX {
                turn.fresh_ms = turn.fresh_ms.max(to);
            }
            return Ok(());
        }
    }

    fn existing(&self, marked: &Marked, from: i64, to: i64) -> anyhow::Result<Existing> {
        let found = self.select(&marked.rule.tenant, marked.rule.cells(), TimeRange::from_ms(from, to))?;
        Ok(found.into_iter().map(|series| (series.labels.clone(), series)).collect())
    }

    fn write(&self, marked: &Marked, writes: Vec<Write>) -> anyhow::Result<()> {
        let mut writes = writes.into_iter().peekable();
        let series_max = BATCH_SAMPLES.min(self.door.batch_series_max).max(1);
        while writes.peek().is_some() {
            let BatchId { source, sequence } = self.door.numbers.next();
            let mut batch = Batch { source, sequence, tenant: marked.rule.tenant.clone(), ..Batch::default() };
            let (mut places, mut corrections) = (HashMap::new(), 0);
            while batch.samples.len() < BATCH_SAMPLES && batch.series.len() < series_max {
                let Some(Write { series, end_ms, value, is_correction }) = writes.next() else { break };
                corrections += u64::from(is_correction);
                let place = *places.entry((series.labels.clone(), series.meta.kind)).or_insert_with(|| {
                    batch.series.push(Ok(series));
                    batch.series.len() as u32 - 1
                });
                batch.samples.push(Ok(Sample { series: place, time_ns: end_ms * 1_000_000, start_ns: None, value }));
            }
            let samples = batch.samples.len() as u64;
            let way = self.door.meters.ingest.begin_made();
            let frame = batch.encode().context("the cells make no batch")?;
            let verdict = self.runtime.block_on(stored(&self.door, Protocol::Quantizer, batch, frame, &way));
            let verdict = verdict.map_err(|refusal| anyhow::anyhow!("{refusal}"))?;
            marked.counts.unfit.add(verdict.rejected.len() as u64);
            marked.counts.corrections.add(corrections);
            marked.counts.cells.add(samples - corrections);
        }
        Ok(())
    }

    /// Deletes cells that have become smaller; they are made again.
    fn rewrite(&self, turn: &mut Turn, marked: &Marked, now: i64) -> anyhow::Result<()> {
        if now - turn.rewritten_ms < REWRITE_MS {
            return Ok(());
        }
        let Some((names, from, to)) = turn.rewrite.take() else { return Ok(()) };
        let range = TimeRange::from_ms(from, to);
        let all: Vec<&String> = names.iter().collect();
        let mut selectors = Vec::new();
        for names in all.chunks(NAMES_MAX) {
            let pattern = names.iter().map(|name| literal(name)).collect::<Vec<_>>().join("|");
            let mut matchers = marked.rule.cells();
            matchers.push(Matcher::new(METRIC_NAME, MatchOp::Regex, pattern).map_err(anyhow::Error::msg)?);
            selectors.push(matchers);
        }
        turn.rewritten_ms = now;
        lock(&marked.dirty).add(from, to);
        if let Err(refusal) = self.door.backend.correct(&marked.rule.tenant, &selectors, range) {
            turn.rewrite = Some((names, from, to));
            bail!("{refusal}");
        }
        Ok(())
    }

    /// Drops samples that are in cells and old enough.
    fn drop_raw(&self, turn: &mut Turn, marked: &Marked, now: i64) -> anyhow::Result<()> {
        let Some(raw_ms) = marked.rule.raw_ms else { return Ok(()) };
        let width = marked.rule.width_ms;
        let until = (now - raw_ms).div_euclid(width) * width;
        let dirty = lock(&marked.dirty);
        // ORDERING: Relaxed; changes under the lock that is held.
        let before = marked.horizon_ms.load(Ordering::Relaxed);
        let is_open = turn.rewrite.is_some() || dirty.first().is_some_and(|first| first < until);
        if now - turn.dropped_ms < DROP_EVERY_MS || until <= before || is_open {
            return Ok(());
        }
        // From here on no cells are made before that time, whatever arrives while the deletion runs.
        marked.horizon_ms.store(until, Ordering::Relaxed);
        drop(dirty);
        turn.dropped_ms = now;
        // Counters need the sample before their window.
        let until = until - marked.rule.lookback_ms;
        let range = TimeRange::from_ms(before.saturating_sub(marked.rule.lookback_ms), until);
        let dropped = self.door.backend.delete(&marked.rule.tenant, &[marked.rule.raw()], range);
        dropped.map_err(|refusal| anyhow::anyhow!("{refusal}"))
    }
}

/// A name as a pattern that matches only it.
fn literal(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if r"\.+*?()|[]{}^$".contains(letter) {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

/// (`from_ms`, `to_ms`] of what is dirty; windows that end after `closed_ms` are still open.
#[derive(Clone, Copy)]
struct Slice {
    from_ms: i64,
    to_ms: i64,
    closed_ms: i64,
}

/// The writes that make the cells of `windows` agree with `raw`.
fn plan(turn: &mut Turn, marked: &Marked, raw: &[SeriesData], existing: &Existing, windows: Windows) -> Vec<Write> {
    let mut out = Vec::new();
    for series in raw {
        match series.meta.kind {
            Kind::Text => {}
            Kind::Float => {
                for function in marked.rule.functions(series.meta.temporality) {
                    let cells = align::numbers(&series.floats, function, series.meta.temporality, windows);
                    let cells = cells.into_iter().map(|(end, value)| (end, Cell::Number(value))).collect();
                    let planned = Planned { series, function: Some(function), existing, windows };
                    plan_series(turn, marked, planned, cells, &mut out);
                }
            }
            Kind::Histogram => {
                let (cells, unfit) = align::histograms(&series.histograms, series.meta.temporality, windows);
                marked.counts.unfit.add(unfit);
                let cells = cells.into_iter().map(|(end, value)| (end, Cell::Histogram(Box::new(value)))).collect();
                plan_series(turn, marked, Planned { series, function: None, existing, windows }, cells, &mut out);
            }
        }
    }
    // In a batch, each window of all series comes before the next window.
    out.sort_by_key(|write| write.end_ms);
    out
}

/// A cell of either kind.
#[derive(Clone, Debug)]
enum Cell {
    Number(f64),
    Histogram(Box<HistogramValue>),
}

/// The change that makes a stored cell correct.
#[derive(Debug)]
enum Step {
    Nothing,
    Write(Value),
    /// Adding does not do.
    Rewrite,
}

/// A series, the function that makes cells of its numbers, and the existing cells of its windows.
struct Planned<'a> {
    series: &'a SeriesData,
    function: Option<align::Function>,
    existing: &'a Existing,
    windows: Windows,
}

fn plan_series(
    turn: &mut Turn,
    marked: &Marked,
    planned: Planned<'_>,
    mut cells: BTreeMap<i64, Cell>,
    out: &mut Vec<Write>,
) {
    let Planned { series, function, existing, windows } = planned;
    let Some(def) = marked.rule.cell_series(series, function) else {
        return marked.counts.unfit.add(cells.len() as u64);
    };
    let there = existing.get(&def.labels).map(stored_cells).unwrap_or_default();
    let is_additive = def.meta.temporality == Temporality::Delta;
    // The increase of a counter may move between windows: no old cell is kept.
    if is_additive && function == Some(align::Function::Increase) {
        there.keys().for_each(|end| _ = cells.entry(*end).or_insert(Cell::Number(0.0)));
    }
    for (end_ms, cell) in cells {
        let before = there.get(&end_ms);
        match step(cell, before, is_additive) {
            Step::Nothing => {}
            Step::Write(value) => {
                out.push(Write { series: def.clone(), end_ms, value, is_correction: before.is_some() });
            }
            Step::Rewrite => {
                let from = end_ms - windows.width_ms;
                let (names, first, last) = turn.rewrite.get_or_insert((BTreeSet::new(), from, end_ms));
                names.insert(def.labels.metric_name().to_owned());
                (*first, *last) = ((*first).min(from), (*last).max(end_ms));
            }
        }
    }
}

fn stored_cells(series: &SeriesData) -> BTreeMap<i64, Cell> {
    let numbers =
        series.floats.times.iter().zip(&series.floats.values).map(|(end, value)| (*end, Cell::Number(*value)));
    let histograms = series.histograms.times.iter().zip(&series.histograms.values);
    numbers.chain(histograms.map(|(end, value)| (*end, Cell::Histogram(Box::new(value.clone()))))).collect()
}

fn step(cell: Cell, before: Option<&Cell>, is_additive: bool) -> Step {
    match (cell, before) {
        (Cell::Number(value), None) => Step::Write(Value::Float(value)),
        (Cell::Number(value), Some(Cell::Number(before))) if is_additive => {
            let more = value - before;
            // A rounding error is not a difference.
            let is_same = more.abs() <= f64::EPSILON * 4.0 * value.abs().max(before.abs());
            if is_same { Step::Nothing } else { Step::Write(Value::Float(more)) }
        }
        (Cell::Number(value), Some(Cell::Number(before))) => match value.total_cmp(before) {
            std::cmp::Ordering::Equal => Step::Nothing,
            // Of two gauges at one time the store keeps the greater.
            std::cmp::Ordering::Greater => Step::Write(Value::Float(value)),
            std::cmp::Ordering::Less => Step::Rewrite,
        },
        (Cell::Histogram(value), None) => Step::Write(histogram(*value)),
        (Cell::Histogram(value), Some(Cell::Histogram(before))) => {
            if align::is_equal(&value, before) {
                return Step::Nothing;
            }
            align::difference(&value, before).map_or(Step::Rewrite, |more| Step::Write(histogram(more)))
        }
        // A series has one kind.
        _ => Step::Nothing,
    }
}

fn histogram(value: HistogramValue) -> Value {
    match value {
        HistogramValue::Integer(value) => Value::Histogram(Box::new(value)),
        HistogramValue::Float(value) => Value::FloatHistogram(Box::new(value)),
    }
}

#[cfg(test)]
#[path = "work_tests.rs"]
mod tests;
