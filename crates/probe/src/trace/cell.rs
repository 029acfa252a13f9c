//! What a snapshot of a [`TraceRecorder`](super::TraceRecorder) gives: plain values.

use super::path::{Class, TracePath};
use super::table::{self, Collected};
use ogive_hist::Histogram;
use std::sync::Arc;

/// Everything that was finished between two snapshots. Histograms are in seconds, with exact sum, least and greatest.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceCell {
    /// From the first point to the last.
    pub total: Histogram,
    /// The sum of each message's stages of class infrastructure.
    pub infrastructure: Histogram,
    /// The sum of each message's stages of class logic.
    pub logic: Histogram,
    /// Each stage, in order.
    pub stages: Vec<StageCell>,
    /// Each publisher that ever had a writer, in the order of their first.
    pub publishers: Vec<PublisherCell>,
    /// Each name of marks, in the order of their numbers.
    pub marks: Vec<MarkCell>,
    /// The counters.
    pub counts: TraceCounts,
    /// Messages that took longer were kept completely.
    pub limit_ns: u64,
}

/// One stage: the time up to a point from the one before.
#[derive(Clone, Debug, PartialEq)]
pub struct StageCell {
    /// The point that it ends at.
    pub name: &'static str,
    /// Its class.
    pub class: Class,
    /// Its times.
    pub times: Histogram,
    /// Finished messages that lacked the stamp at its end.
    pub missing: u64,
}

/// One name of marks.
#[derive(Clone, Debug, PartialEq)]
pub struct MarkCell {
    /// Its name.
    pub name: Arc<str>,
    /// The time from each mark to the next of this name in the same message: for publications, the inter-publish time.
    pub between: Histogram,
}

/// One publisher.
#[derive(Clone, Debug, PartialEq)]
pub struct PublisherCell {
    /// Its name.
    pub name: Arc<str>,
    /// The time from each message's last stamp to that of the next.
    pub gaps: Histogram,
    /// Nanoseconds since its last message, if it has had one and still has a writer: a stall shows here before it ends.
    pub quiet_ns: Option<u64>,
}

/// Messages, and their irregularities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceCounts {
    /// Messages finished.
    pub finished: u64,
    /// Those without a first or a last stamp: not measured.
    pub incomplete: u64,
    /// Those that began in another epoch of the clock: not measured.
    pub straddled: u64,
    /// Those that lack a stamp in between: measured in the total and in the stages with both ends known.
    pub partial: u64,
    /// Stamps that were before an earlier one, and were set to that one.
    pub clamped: u64,
    /// Messages without a gap: a writer's first, the first of an epoch, those without a last stamp.
    pub gaps_skipped: u64,
    /// Those above the threshold.
    pub slow: u64,
    /// Those without the first stamp; for the other points see [`StageCell::missing`].
    pub missing_first: u64,
    /// Points that were stamped again: the first stamp was kept.
    pub repeated: u64,
    /// Marks on the lists of finished messages: those that end an interval, and these three.
    pub listed: u64,
    /// The first marks of their names in a message: they end no interval.
    pub listed_first: u64,
    /// Marks before a break of the clock, with unknown interval.
    pub listed_straddled: u64,
    /// Marks that were overwritten before their message was finished, or made by a marker without a ring.
    pub listed_lost: u64,
}

impl TraceCell {
    pub(super) fn new<P: TracePath>(
        collected: &Collected,
        publishers: &[Arc<str>],
        names: &[Arc<str>],
        quiet: Vec<Option<u64>>,
        limit_ns: u64,
    ) -> Self {
        let histogram = |which: usize| collected.histograms[which].histogram();
        let stage = |(index, point): (usize, &super::PointDef)| StageCell {
            name: point.name,
            class: point.class,
            times: histogram(table::STAGES + index - 1),
            missing: collected.counts[table::MISSING + index],
        };
        let publisher = |(index, name): (usize, &Arc<str>)| {
            let gaps = collected.gaps.iter().find(|(of, _)| *of == index).map(|(_, totals)| totals.histogram());
            PublisherCell {
                name: name.clone(),
                gaps: gaps.unwrap_or_else(Histogram::log_linear),
                quiet_ns: quiet.get(index).copied().flatten(),
            }
        };
        let mark = |(index, name): (usize, &Arc<str>)| {
            let between = collected.between.iter().find(|(of, _)| *of == index).map(|(_, totals)| totals.histogram());
            MarkCell { name: name.clone(), between: between.unwrap_or_else(Histogram::log_linear) }
        };
        Self {
            total: histogram(table::TOTAL),
            infrastructure: histogram(table::INFRASTRUCTURE),
            logic: histogram(table::LOGIC),
            stages: P::POINTS.iter().enumerate().skip(1).map(stage).collect(),
            publishers: publishers.iter().enumerate().map(publisher).collect(),
            marks: names.iter().enumerate().map(mark).collect(),
            counts: TraceCounts::new(collected),
            limit_ns,
        }
    }

    /// Adds a later cell of the same path: what was finished in either. The quiet times and the limit are taken from
    /// the later one.
    ///
    /// # Panics
    /// When `later` is of another path.
    pub fn merge(&mut self, later: &Self) {
        let add = |into: &mut Histogram, from: &Histogram| into.merge(from).expect("all are in one scheme");
        let names = |cell: &Self| cell.stages.iter().map(|stage| stage.name).collect::<Vec<_>>();
        assert_eq!(names(self), names(later), "cells of one path have the same stages");
        add(&mut self.total, &later.total);
        add(&mut self.infrastructure, &later.infrastructure);
        add(&mut self.logic, &later.logic);
        for (stage, other) in self.stages.iter_mut().zip(&later.stages) {
            add(&mut stage.times, &other.times);
            stage.missing += other.missing;
        }
        self.publishers.iter_mut().for_each(|publisher| publisher.quiet_ns = None);
        for other in &later.publishers {
            match self.publishers.iter_mut().find(|publisher| publisher.name == other.name) {
                Some(publisher) => {
                    add(&mut publisher.gaps, &other.gaps);
                    publisher.quiet_ns = other.quiet_ns;
                }
                None => self.publishers.push(other.clone()),
            }
        }
        for other in &later.marks {
            match self.marks.iter_mut().find(|mark| mark.name == other.name) {
                Some(mark) => add(&mut mark.between, &other.between),
                None => self.marks.push(other.clone()),
            }
        }
        self.counts.add(&later.counts);
        self.limit_ns = later.limit_ns;
    }

    /// Every finished message is accounted for: the invariants of the module, for tests and assertions.
    #[must_use]
    pub fn is_conserved(&self) -> bool {
        let counts = &self.counts;
        let whole = self.total.count.checked_sub(counts.partial);
        let intervals: u64 = self.marks.iter().map(|mark| mark.between.count).sum();
        let gaps: u64 = self.publishers.iter().map(|publisher| publisher.gaps.count).sum();
        self.total.count + counts.straddled + counts.incomplete == counts.finished
            && whole == Some(self.infrastructure.count)
            && whole == Some(self.logic.count)
            && self.stages.iter().all(|stage| whole.is_some_and(|whole| stage.times.count >= whole))
            && gaps + counts.gaps_skipped == counts.finished
            && intervals + counts.listed_first + counts.listed_straddled + counts.listed_lost == counts.listed
    }
}

impl TraceCounts {
    fn add(&mut self, other: &Self) {
        let sums = [
            (&mut self.finished, other.finished),
            (&mut self.incomplete, other.incomplete),
            (&mut self.straddled, other.straddled),
            (&mut self.partial, other.partial),
            (&mut self.clamped, other.clamped),
            (&mut self.gaps_skipped, other.gaps_skipped),
            (&mut self.slow, other.slow),
            (&mut self.missing_first, other.missing_first),
            (&mut self.repeated, other.repeated),
            (&mut self.listed, other.listed),
            (&mut self.listed_first, other.listed_first),
            (&mut self.listed_straddled, other.listed_straddled),
            (&mut self.listed_lost, other.listed_lost),
        ];
        for (sum, count) in sums {
            *sum += count;
        }
    }

    fn new(collected: &Collected) -> Self {
        let count = |which: usize| collected.counts[which];
        Self {
            finished: count(table::FINISHED),
            incomplete: count(table::INCOMPLETE),
            straddled: count(table::STRADDLED),
            partial: count(table::PARTIAL),
            clamped: count(table::CLAMPED),
            gaps_skipped: count(table::GAPS_SKIPPED),
            slow: count(table::SLOW),
            missing_first: count(table::MISSING),
            repeated: count(table::REPEATED),
            listed: count(table::LISTED),
            listed_first: count(table::LISTED_FIRST),
            listed_straddled: count(table::LISTED_STRADDLED),
            listed_lost: count(table::LISTED_LOST),
        }
    }
}
