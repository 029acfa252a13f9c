//! The thread that makes cells of marked windows.
//!
//! Invariants: windows of a rule are made in ascending order, each from everything that the store holds of it. A cell
//! that differs from what is stored becomes the new one: sums, counts, increases and distributions by the part that is
//! missing; what cannot be corrected by adding (a value that becomes smaller) is deleted with the cells around it and
//! written anew, once in [`REWRITE`] at most.
//! Limits: [`SLICE_WINDOWS`] windows are read at once, [`SLICES`] times a turn.
//! Failure: what cannot be read or written stays marked, is counted, and is said on standard error once until it works
//! again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use ogive_model::{
    Batch, BatchId, HistogramValue, Kind, Labels, METRIC_NAME, MatchOp, Matcher, Ms, Resolution, Sample, Selection,
    SeriesData, SeriesDef, Temporality, Tenant, TimeRange, Value, WallMs, WallNs,
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
const REWRITE: Ms = Ms::from_secs(30);

/// A start reprocesses an hour before the position: late samples that were only in the journal.
const RECOVER: Ms = Ms::from_secs(3_600);

/// How far back a start looks for its position: hours, a day, a month.
const RECALL: [Ms; 3] = [Ms::from_secs(3_600), Ms::from_secs(86_400), Ms::from_secs(30 * 86_400)];

/// Samples are dropped so often at most: a deletion is work for the maintenance thread.
const DROP_EVERY: Ms = Ms::from_secs(600);

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
    rewrite: Option<(BTreeSet<String>, WallMs, WallMs)>,
    rewritten: WallMs,
    dropped: WallMs,
    has_failed: bool,
    /// There are counters among its series: data before a window is read too.
    has_counters: bool,
    /// Windows from here on cannot have cells yet.
    fresh: WallMs,
    /// Windows that are read at once now.
    windows: i64,
}

/// Where the previous process was.
#[derive(Clone, Copy)]
struct StoredWatermark {
    watermark: WallMs,
    /// When it was stored.
    reported: WallMs,
}

/// A cell to be written.
struct Write {
    series: SeriesDef,
    end: WallMs,
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
    fn now(&self) -> WallMs {
        WallNs(self.door.clock.wall()).to_ms()
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
        let now = self.now();
        let next = |marked: &Marked| {
            let (width, lateness) = (marked.rule.width, marked.rule.lateness);
            (now - lateness).align_down(width) + width + lateness - now
        };
        let wait = self.marks.rules().iter().map(next).min().unwrap_or(Ms(1_000));
        wait.clamp(Ms(10), Ms(1_000)).to_duration()
    }

    /// Marks what may not have been written before the previous process ended.
    fn begin(&self, rule: usize) -> Turn {
        let (marked, now) = (&self.marks.rules()[rule], self.now());
        let width = marked.rule.width;
        let left_off = self.left_off(marked, now);
        let from = left_off.map_or(now, |left| left.watermark.min(now)).saturating_sub(RECOVER);
        let from = from.max(now - RECALL[2]).align_down(width);
        let mut dirty = lock(&marked.dirty);
        let mut horizon = WallMs::MIN;
        if let Some(raw_age) = marked.rule.raw_age {
            // Data cannot have been dropped later than was possible at the last report of the previous process.
            let dropped = left_off.map_or(now, |left| left.reported.saturating_add(DROP_EVERY)).min(now);
            horizon = dropped.saturating_sub(raw_age).align_down(width);
            marked.horizon_ms.store(horizon.0, Ordering::Relaxed);
        }
        // Samples may be ahead of the clock.
        dirty.add(from, window_end(now + TIME_AHEAD_MAX.to_ms(), width));
        dirty.forget(horizon);
        drop(dirty);
        Turn {
            rule,
            rewrite: None,
            rewritten: WallMs::MIN,
            dropped: now,
            has_failed: false,
            has_counters: false,
            fresh: WallMs::MAX,
            windows: SLICE_WINDOWS,
        }
    }

    /// The last watermark that was stored, and when.
    fn left_off(&self, marked: &Marked, now: WallMs) -> Option<StoredWatermark> {
        let matchers = vec![matcher(METRIC_NAME, WATERMARK), matcher("rule", &marked.rule.text)];
        let mut end = now;
        for back in RECALL {
            let range = TimeRange { start: now - back, end };
            let found = self.select(&Tenant::default(), matchers.clone(), range).unwrap_or_default();
            let last =
                found.iter().filter_map(|series| Some((*series.floats.times.last()?, *series.floats.values.last()?)));
            if let Some((time, value)) = last.max_by_key(|last| last.0) {
                return Some(StoredWatermark { watermark: WallMs((value * 1e3) as i64), reported: WallMs(time) });
            }
            end = now - back;
        }
        None
    }

    fn turn(&self, turn: &mut Turn, marked: &Marked) -> anyhow::Result<()> {
        let (rule, now) = (&marked.rule, self.now());
        let closed = (now - rule.lateness).align_down(rule.width);
        self.rewrite(turn, marked, now)?;
        for _ in 0..SLICES {
            let slice = lock(&marked.dirty).take(closed, rule.width * turn.windows);
            let Some((from, to)) = slice else { break };
            if let Err(error) = self.slice(turn, marked, Slice { from, to, closed }) {
                lock(&marked.dirty).add(from, to);
                // A part of its cells may be there.
                turn.fresh = WallMs::MAX;
                turn.windows = (turn.windows / 2).max(1);
                return Err(error);
            }
            turn.windows = (2 * turn.windows).min(SLICE_WINDOWS);
        }
        let dirty = lock(&marked.dirty);
        // A remaining range is from before: fresh data begins after everything.
        if dirty.first().is_none_or(|first| first >= closed) {
            // ORDERING: Relaxed; changes under the lock that is held.
            marked.closed_ms.fetch_max(closed.0, Ordering::Relaxed);
            turn.fresh = closed;
        }
        drop(dirty);
        self.drop_raw(turn, marked, now)
    }

    fn select(&self, tenant: &Tenant, matchers: Vec<Matcher>, range: TimeRange) -> anyhow::Result<Vec<SeriesData>> {
        // Only original samples, not cells of rollups.
        let resolution = Resolution::Width(0);
        let selection = Selection { samples_max: SAMPLES_MAX, resolution, ..Selection::new(matchers, range) };
        Ok(self.door.backend.of(tenant).select(&selection)?)
    }

    /// Makes the cells of a slice, and with counters the later ones that a late sample changes.
    fn slice(&self, turn: &mut Turn, marked: &Marked, slice: Slice) -> anyhow::Result<()> {
        let (rule, Slice { from, to, closed }) = (&marked.rule, slice);
        loop {
            // As far before and after it as a counter looks back.
            let around = if turn.has_counters { rule.lookback } else { Ms::ZERO };
            // Fresh data is marked separately, and has no cells yet.
            let end = window_end(to.saturating_add(around), rule.width);
            let until = closed.min(turn.fresh).min(end).max(to);
            let read_from = from.saturating_sub(around);
            let raw = self.select(&rule.tenant, rule.raw(), TimeRange { start: read_from, end: until })?;
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
            let existing = if from >= turn.fresh { Existing::new() } else { self.existing(marked, from, until)? };
            let windows = Windows { width: rule.width, from, to: until, read_from };
            let writes = plan(turn, marked, &raw, &existing, windows);
            self.write(marked, writes)?;
            if turn.fresh < WallMs::MAX {
                turn.fresh = turn.fresh.max(to);
            }
            return Ok(());
        }
    }

    fn existing(&self, marked: &Marked, from: WallMs, to: WallMs) -> anyhow::Result<Existing> {
        let range = TimeRange { start: from, end: to };
        let found = self.select(&marked.rule.tenant, marked.rule.cells(), range)?;
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
                let Some(Write { series, end, value, is_correction }) = writes.next() else { break };
                corrections += u64::from(is_correction);
                let place = *places.entry((series.labels.clone(), series.meta.kind)).or_insert_with(|| {
                    batch.series.push(Ok(series));
                    batch.series.len() as u32 - 1
                });
                batch.samples.push(Ok(Sample { series: place, time_ns: end.to_ns().0, start_ns: None, value }));
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
    fn rewrite(&self, turn: &mut Turn, marked: &Marked, now: WallMs) -> anyhow::Result<()> {
        if now.since(turn.rewritten) < REWRITE {
            return Ok(());
        }
        let Some((names, from, to)) = turn.rewrite.take() else { return Ok(()) };
        let range = TimeRange { start: from, end: to };
        let all: Vec<&String> = names.iter().collect();
        let mut selectors = Vec::new();
        for names in all.chunks(NAMES_MAX) {
            let pattern = names.iter().map(|name| literal(name)).collect::<Vec<_>>().join("|");
            let mut matchers = marked.rule.cells();
            matchers.push(Matcher::new(METRIC_NAME, MatchOp::Regex, pattern).map_err(anyhow::Error::msg)?);
            selectors.push(matchers);
        }
        turn.rewritten = now;
        lock(&marked.dirty).add(from, to);
        if let Err(refusal) = self.door.backend.correct(&marked.rule.tenant, &selectors, range) {
            turn.rewrite = Some((names, from, to));
            bail!("{refusal}");
        }
        Ok(())
    }

    /// Drops samples that are in cells and old enough.
    fn drop_raw(&self, turn: &mut Turn, marked: &Marked, now: WallMs) -> anyhow::Result<()> {
        let Some(raw_age) = marked.rule.raw_age else { return Ok(()) };
        let until = now.saturating_sub(raw_age).align_down(marked.rule.width);
        let dirty = lock(&marked.dirty);
        // ORDERING: Relaxed; changes under the lock that is held.
        let before = WallMs(marked.horizon_ms.load(Ordering::Relaxed));
        let is_open = turn.rewrite.is_some() || dirty.first().is_some_and(|first| first < until);
        if now - turn.dropped < DROP_EVERY || until <= before || is_open {
            return Ok(());
        }
        // From here on no cells are made before that time, whatever arrives while the deletion runs.
        marked.horizon_ms.store(until.0, Ordering::Relaxed);
        drop(dirty);
        turn.dropped = now;
        // Counters need the sample before their window.
        let lookback = marked.rule.lookback;
        let range = TimeRange { start: before.saturating_sub(lookback), end: until.saturating_sub(lookback) };
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

/// (`from`, `to`] of what is dirty; windows that end after `closed` are still open.
#[derive(Clone, Copy)]
struct Slice {
    from: WallMs,
    to: WallMs,
    closed: WallMs,
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
    out.sort_by_key(|write| write.end);
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
    for (end, cell) in cells {
        let (before, end) = (there.get(&end), WallMs(end));
        match step(cell, before, is_additive) {
            Step::Nothing => {}
            Step::Write(value) => {
                out.push(Write { series: def.clone(), end, value, is_correction: before.is_some() });
            }
            Step::Rewrite => {
                let from = end - windows.width;
                let (names, first, last) = turn.rewrite.get_or_insert((BTreeSet::new(), from, end));
                names.insert(def.labels.metric_name().to_owned());
                (*first, *last) = ((*first).min(from), (*last).max(end));
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
