//! One slow message, whole: what the ring kept, as an owned value. Its text is in [`super::line`].

use super::list::SlowList;
use super::path::{self, Class, POINTS_MAX, TickSource, TracePath};
use super::ring::WORDS;
use crate::{Clock, Status, TickRate};
use std::sync::Arc;

/// Words before the stamps: publisher and list, the gap, the limit.
const HEAD_WORDS: usize = 3;

const _: () = assert!(HEAD_WORDS + POINTS_MAX == WORDS);
const _: () = assert!(super::names::PUBLISHERS_MAX <= 1 << 16, "a publisher's index takes 16 bits");

/// A message that took longer than the threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowTrace {
    /// The name of its path.
    pub path: String,
    /// The publisher.
    pub publisher: String,
    /// When it was published, nanoseconds since the Unix epoch.
    pub published_ns: i64,
    /// From its first stamp to its last.
    pub total_ns: u64,
    /// The same in ticks of the clock.
    pub total_ticks: u64,
    /// It was slow because it took longer than this.
    pub limit_ns: u64,
    /// From the publisher's last message to this one.
    pub gap_ns: Option<u64>,
    /// The clock's epoch in which it began and ended.
    pub epoch: u16,
    /// Stamps that were before an earlier one, and were set to that one.
    pub clamped: u32,
    /// Points that it lacks.
    pub missing: Vec<String>,
    /// The parts of the total: nanoseconds and ticks add up to it exactly.
    pub stages: Vec<SlowStage>,
    /// Marks made on its list.
    pub listed: u64,
    /// How many of those were overwritten before it was finished, the earliest.
    pub listed_lost: u64,
    /// The first of the others, at most [`SLOW_MARKS_MAX`](super::SLOW_MARKS_MAX), in the order in which they were
    /// made.
    pub marks: Vec<SlowMark>,
    /// The clock when the trace was made.
    pub clock: ClockNote,
}

/// The time up to a point, from the last point before that was stamped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowStage {
    /// The point that it ends at.
    pub name: String,
    /// Its class.
    pub class: Class,
    /// Nanoseconds.
    pub ns: u64,
    /// Ticks of the clock.
    pub ticks: u64,
}

/// A mark on a slow message's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowMark {
    /// Its name.
    pub name: String,
    /// Nanoseconds since the message's first stamp.
    pub ns: u64,
    /// The same in ticks of the clock.
    pub ticks: u64,
}

/// The state of the clock, as far as it explains a slow message.
#[derive(Clone, Debug, PartialEq)]
pub struct ClockNote {
    /// The origin of readings, as [`crate::Mode::name`].
    pub mode: String,
    /// The source of ticks, as [`crate::Source::name`].
    pub source: String,
    /// Ticks a second; 0 when not known.
    pub frequency_hz: u64,
    /// Bound on the clock's error.
    pub err_ns: u64,
    /// The cost of one stamp, nanoseconds with one decimal: a stage cannot be shorter.
    pub read_ns: f64,
    /// The clock's epoch.
    pub epoch: u16,
}

/// What is needed to convert stamps, looked up once for many.
pub(super) struct Now {
    rate: TickRate,
    ticks: u64,
    wall_ns: i64,
    clock: ClockNote,
}

impl Now {
    pub(super) fn look<T: TickSource>(source: T) -> Self {
        let clock = source.clock();
        let note = ClockNote::new(clock, &clock.status(), path::reading_ns(source));
        Self { rate: clock.tick_rate(), ticks: source.ticks_ordered(), wall_ns: clock.wall(), clock: note }
    }
}

impl ClockNote {
    fn new(clock: Clock, status: &Status, read_ns: f64) -> Self {
        Self {
            mode: status.mode.name().into(),
            source: status.source.name().into(),
            frequency_hz: status.frequency_hz,
            err_ns: status.err_ns,
            read_ns: (read_ns * 10.0).round() / 10.0,
            epoch: clock.epoch(),
        }
    }
}

/// The number of a message's list in the ring of lists; 0 for none.
pub(super) fn list_number(words: &[u64; WORDS]) -> u16 {
    (words[0] >> 48) as u16
}

/// The words of a message in the ring. `gap` is one more than the gap's ticks, or 0 for none.
pub(super) fn pack<P: TracePath>(message: &P, publisher: usize, list: u16, gap: u64, limit_ns: u64) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    let epoch = u64::from(message.epoch() as u16);
    words[0] = u64::from(message.seen()) | epoch << 16 | (publisher as u64) << 32 | u64::from(list) << 48;
    words[1] = gap;
    words[2] = limit_ns;
    let stamps = message.stamps();
    words[HEAD_WORDS..][..stamps.len()].copy_from_slice(stamps);
    words
}

impl SlowTrace {
    /// With the marks of its list.
    pub(super) fn with_list(mut self, list: &SlowList, names: &[Arc<str>], now: &Now) -> Self {
        self.listed = list.listed;
        self.listed_lost = list.lost;
        let name = |index: usize| names.get(index).map_or_else(String::new, |name| name.to_string());
        let mark =
            |(ticks, index): &(u64, usize)| SlowMark { name: name(*index), ns: now.rate.ns(*ticks), ticks: *ticks };
        self.marks = list.marks.iter().map(mark).collect();
        self
    }

    pub(super) fn new<P: TracePath>(words: &[u64; WORDS], publishers: &[Arc<str>], now: &Now) -> Self {
        let [what, gap, limit_ns, stamps @ ..] = words;
        let (seen, publisher) = (*what & 0xffff, (*what >> 32) as u16 as usize);
        let rate = now.rate;
        let mut trace = Self {
            path: P::NAME.into(),
            publisher: publishers.get(publisher).map_or_else(String::new, |name| name.to_string()),
            published_ns: 0,
            total_ns: 0,
            total_ticks: 0,
            limit_ns: *limit_ns,
            gap_ns: gap.checked_sub(1).map(|ticks| rate.ns(ticks)),
            epoch: (*what >> 16) as u16,
            clamped: 0,
            missing: Vec::new(),
            stages: Vec::new(),
            listed: 0,
            listed_lost: 0,
            marks: Vec::new(),
            clock: now.clock.clone(),
        };
        let first = stamps[0];
        let mut at = first;
        for (index, (point, stamp)) in P::POINTS.iter().zip(stamps).enumerate().skip(1) {
            if seen & (1 << index) == 0 {
                trace.missing.push(point.name.into());
                continue;
            }
            trace.clamped += u32::from(*stamp < at);
            let before = at;
            at = at.max(*stamp);
            // Differences of rounded sums: they add up to the rounded total.
            let ns = rate.ns(at - first) - rate.ns(before - first);
            trace.stages.push(SlowStage { name: point.name.into(), class: point.class, ns, ticks: at - before });
        }
        trace.total_ticks = at - first;
        trace.total_ns = rate.ns(at - first);
        // A stamp from another thread's CPU may be some ticks after our own reading.
        let since = rate.ns(now.ticks.saturating_sub(at)) as i64;
        trace.published_ns = now.wall_ns.saturating_sub(since);
        trace
    }

    /// The part of a stage in the total, in hundredths of a percent, rounded to the nearest.
    #[must_use]
    pub fn basis_points(&self, stage: &SlowStage) -> u64 {
        let total = u128::from(self.total_ticks.max(1));
        ((u128::from(stage.ticks) * 10_000 + total / 2) / total) as u64
    }

    /// The longest stage: where to look first.
    #[must_use]
    pub fn culprit(&self) -> Option<&SlowStage> {
        self.stages.iter().max_by_key(|stage| stage.ticks)
    }

    /// Nanoseconds that the message spent in stages of a class.
    #[must_use]
    pub fn class_ns(&self, class: Class) -> u64 {
        self.stages.iter().filter(|stage| stage.class == class).map(|stage| stage.ns).sum()
    }

    /// A picture for people: one line a stage, with a bar for where it lies in the total, and one a mark of its list,
    /// with the time since the mark before of the same name.
    #[must_use]
    pub fn waterfall(&self) -> String {
        use std::fmt::Write;
        const WIDTH: u64 = 40;
        let column =
            |ticks: u64| (u128::from(ticks) * u128::from(WIDTH) / u128::from(self.total_ticks.max(1))) as usize;
        let mut text = format!(
            "{} of {}: {} ns, limit {} ns; a stamp costs {:.1} ns by {} {}\n",
            self.path,
            self.publisher,
            self.total_ns,
            self.limit_ns,
            self.clock.read_ns,
            self.clock.mode,
            self.clock.source,
        );
        let name_width = self.stages.iter().map(|stage| stage.name.chars().count()).max().unwrap_or(0);
        let mut at = 0;
        for stage in &self.stages {
            let (start, end) = (column(at), column(at + stage.ticks));
            at += stage.ticks;
            let bar = format!("{}{}", " ".repeat(start), "#".repeat((end - start).max(1)));
            let percent = self.basis_points(stage) as f64 / 100.0;
            let (name, class) = (&stage.name, stage.class.name());
            // Writing to a string does not fail.
            let _ = writeln!(text, "  {name:<name_width$} {class:<5} {:>12} ns {percent:>6.2} %  |{bar}", stage.ns);
        }
        self.marks_picture(&mut text, column);
        text
    }

    fn marks_picture(&self, text: &mut String, column: impl Fn(u64) -> usize) {
        use std::fmt::Write;
        if self.listed > 0 {
            let more = self.listed.saturating_sub(self.listed_lost + self.marks.len() as u64);
            // Writing to a string does not fail.
            let _ = writeln!(text, "  {} marks, {} lost, {more} not shown", self.listed, self.listed_lost);
        }
        let name_width = self.marks.iter().map(|mark| mark.name.chars().count()).max().unwrap_or(0);
        for (at, mark) in self.marks.iter().enumerate() {
            let before = self.marks[..at].iter().rev().find(|before| before.name == mark.name);
            let since = before.map_or_else(String::new, |before| format!("+{} ns", mark.ns.saturating_sub(before.ns)));
            let place = " ".repeat(column(mark.ticks.min(self.total_ticks)));
            let _ = writeln!(text, "  * {:<name_width$} {:>12} ns {since:>16}  |{place}^", mark.name, mark.ns);
        }
    }
}
