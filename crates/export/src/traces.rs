//! A traced path as series: cells of its stages, and its slow messages as texts beside the cells that count them.
//!
//! *Format*: histograms and texts as [`trace_series`](crate::trace_series) names them. Counters beside them:
//! `_unmeasured_total{reason}` (messages `incomplete`, `straddled`; once there are any, marks of lists `marks_lost`,
//! `marks_straddled`, and points `repeated`) and `_slow_dropped_total{reason}` (`overwritten`, `limit`). *Invariants*:
//! a slow message is at the time of the cell that counted it. *Limits*: [`SLOW_MAX`] slow messages a cell; the slowest
//! stay.

use ogive_model::{Kind, SeriesDef, Temporality, Value, WallNs};
use ogive_probe::{Class, SlowTrace, TickSource, TraceCell, TracePath, TraceRecorder};

use crate::Error;
use crate::measured::{CellEnd, Measured, push_cell};
use crate::trace_series::{BETWEEN, CLASS, GAP, MARK, PUBLISHER, STAGE, TOTAL, class_stage, slow_name, stem};

/// 256 slow messages a second and path, some 200 KiB of text: more than anybody reads, and the histograms count all.
pub const SLOW_MAX: usize = 256;

/// Counters of a path, and how many of them exist from the beginning.
const ODD: usize = 7;
const ALWAYS: usize = 4;

/// A path, whatever its type.
pub(crate) trait Traces: Send {
    /// Collects what was finished since the last turn.
    fn take(&mut self, turn: CellEnd, out: &mut Vec<Measured>);
}

/// One path.
pub(crate) struct TracesOf<P, T> {
    recorder: TraceRecorder<P, T>,
    total: SeriesDef,
    /// In the order of [`TraceCell::stages`].
    stages: Vec<SeriesDef>,
    infrastructure: SeriesDef,
    logic: SeriesDef,
    /// Of a publisher; its label is replaced.
    gap: SeriesDef,
    /// Of a name of marks; its label is replaced.
    between: SeriesDef,
    slow: SeriesDef,
    /// Why a message was not measured, or its text is missing: the counter, and its previous value.
    odd: [(SeriesDef, Option<u64>); ODD],
    /// Drained before the cell that counts them was collected.
    pending: Vec<SlowTrace>,
    unmeasured: [u64; 5],
    limited: u64,
}

impl<P: TracePath, T: TickSource> TracesOf<P, T> {
    /// `series` makes a series of labels in addition to the user's.
    pub(crate) fn new(
        name: &str,
        recorder: TraceRecorder<P, T>,
        series: impl Fn(&[(&str, &str)], &str, Kind, Temporality, &str) -> Result<SeriesDef, Error>,
    ) -> Result<Self, Error> {
        let cells = |labels: &[(&str, &str)]| series(labels, name, Kind::Histogram, Temporality::Delta, "s");
        let counter = |what: &str, reason: &str| {
            let name = format!("{}_{what}_total", stem(name));
            series(&[("reason", reason)], &name, Kind::Float, Temporality::Delta, "").map(|series| (series, None))
        };
        let stages = P::POINTS.iter().skip(1);
        Ok(Self {
            total: cells(&[(STAGE, TOTAL)])?,
            stages: stages
                .map(|point| cells(&[(STAGE, point.name), (CLASS, point.class.name())]))
                .collect::<Result<_, _>>()?,
            infrastructure: cells(&[(STAGE, class_stage(Class::Infrastructure))])?,
            logic: cells(&[(STAGE, class_stage(Class::Logic))])?,
            gap: cells(&[(STAGE, GAP), (PUBLISHER, "-")])?,
            between: cells(&[(STAGE, BETWEEN), (MARK, "-")])?,
            slow: series(&[(STAGE, TOTAL)], &slow_name(name), Kind::Text, Temporality::Gauge, "")?,
            odd: [
                counter("unmeasured", "incomplete")?,
                counter("unmeasured", "straddled")?,
                counter("slow_dropped", "overwritten")?,
                counter("slow_dropped", "limit")?,
                counter("unmeasured", "marks_lost")?,
                counter("unmeasured", "marks_straddled")?,
                counter("unmeasured", "repeated")?,
            ],
            recorder,
            pending: Vec::new(),
            unmeasured: [0; 5],
            limited: 0,
        })
    }

    /// The slow messages that belong to the cell, which counted `counted`.
    fn slow(&mut self, counted: u64, is_last: bool) -> Vec<SlowTrace> {
        let mut slow = std::mem::take(&mut self.pending);
        let waited = slow.len();
        slow.append(&mut self.recorder.drain());
        if !is_last {
            // What was finished between the snapshot and the draining belongs to the next cell. It waits for one cell,
            // not for the count of a writer that ended inside `finish`.
            let counted = usize::try_from(counted).unwrap_or(usize::MAX).max(waited);
            self.pending = slow.split_off(counted.min(slow.len()));
        }
        if slow.len() > SLOW_MAX {
            slow.sort_by_key(|trace| std::cmp::Reverse(trace.total_ns));
            self.limited += (slow.len() - SLOW_MAX) as u64;
            slow.truncate(SLOW_MAX);
            slow.sort_by_key(|trace| trace.published_ns);
        }
        slow
    }

    fn cells(&self, cell: TraceCell, time: WallNs, out: &mut Vec<Measured>) {
        push_cell(out, &self.total, time, cell.total);
        for (series, stage) in self.stages.iter().zip(cell.stages) {
            push_cell(out, series, time, stage.times);
        }
        push_cell(out, &self.infrastructure, time, cell.infrastructure);
        push_cell(out, &self.logic, time, cell.logic);
        for publisher in cell.publishers.into_iter().filter(|publisher| publisher.gaps.count > 0) {
            let labels = self.gap.labels.with(PUBLISHER, &publisher.name);
            push_cell(out, &SeriesDef { labels, ..self.gap.clone() }, time, publisher.gaps);
        }
        for mark in cell.marks.into_iter().filter(|mark| mark.between.count > 0) {
            let labels = self.between.labels.with(MARK, &mark.name);
            push_cell(out, &SeriesDef { labels, ..self.between.clone() }, time, mark.between);
        }
    }
}

impl<P: TracePath, T: TickSource> Traces for TracesOf<P, T> {
    fn take(&mut self, turn: CellEnd, out: &mut Vec<Measured>) {
        let cell = self.recorder.snapshot();
        let counts = cell.counts;
        self.cells(cell, turn.time, out);
        for trace in self.slow(counts.slow, turn.is_last) {
            let value = Value::Text(trace.to_string());
            out.push(Measured { series: self.slow.clone(), time: turn.time, value });
        }
        let more = [counts.incomplete, counts.straddled, counts.listed_lost, counts.listed_straddled, counts.repeated];
        self.unmeasured.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        let [incomplete, straddled, lost, marks_straddled, repeated] = self.unmeasured;
        let overwritten = self.recorder.dumps().overwritten;
        let now = [incomplete, straddled, overwritten, self.limited, lost, marks_straddled, repeated];
        for (at, ((series, before), now)) in self.odd.iter_mut().zip(now).enumerate() {
            let more = now - before.unwrap_or(0);
            // Counters that only lists have do not exist until they are above zero.
            if more > 0 || before.is_none() && at < ALWAYS {
                let value = Value::Float(more as f64);
                out.push(Measured { series: series.clone(), time: turn.time, value });
            }
            *before = Some(now);
        }
    }
}
