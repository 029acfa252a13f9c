//! One run of a check: its measurements, its result, and the samples that describe it.
//!
//! Format: every series has the labels `check`, `kind`, `target` and the check's own labels.
//! - `ogive_check_up`: 1 or 0, for every run.
//! - `ogive_check_runs_total{result}`: one for every run, a delta of a second; `result` is `ok` or a [`Reason`].
//! - `ogive_check_seconds{phase}`: duration of each phase, a delta histogram of a second.
//! - `ogive_check_step_seconds{step}`: duration of each step of a check with steps, a delta histogram of a second.
//! - `ogive_check_query_seconds{query}`: duration of each query of a database check, a delta histogram of a second.
//! - `ogive_check_no_answer`, `ogive_check_wrong_answer`: text, `reason: sentence`, when there was no answer or a wrong
//!   one.
//! - further series of the kind.
//!
//! Invariants: a run without an answer has no latency of `phase="total"`, but a text: a missing answer is neither a
//! zero nor a hole. Phases that completed before are still reported.

use std::time::Duration;

use ogive_hist::Histogram;
use ogive_model::{Batch, Kind, METRIC_NAME, MonoNs, Ns, Sample, SeriesDef, SeriesMeta, Temporality, Value, WallNs};
use ogive_probe::Clock;

const SECOND: Ns = Ns::from_secs(1);
/// The cells of latencies and counts: a second.
const WIDTH_MS: u32 = 1_000;
/// 1 KiB of a sentence: what a foreign server says is cut there.
const SENTENCE_BYTES_MAX: usize = 1 << 10;

/// Why a run did not end well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "lua", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Reason {
    /// Nothing came in time.
    Timeout,
    /// Nobody listens there.
    Refused,
    /// No way leads there.
    Unreachable,
    /// The name has no address.
    Dns,
    /// The connection broke.
    Closed,
    /// TLS did not come about, or the certificate is not to be believed.
    Tls,
    /// What came is not of the protocol.
    Protocol,
    /// A status that was not asked for.
    Status,
    /// Content that was not asked for.
    Content,
    /// The login was not taken.
    Login,
    /// The script failed.
    #[cfg(feature = "lua")]
    Script,
    /// A limit of time, memory or size was reached on this side.
    Limit,
    /// This machine cannot ask.
    Local,
    /// The check's last run was still in progress.
    Overrun,
    /// As many checks as may were in progress.
    Crowded,
}

impl Reason {
    /// The value of the label `result`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Dns => "dns",
            Self::Closed => "closed",
            Self::Tls => "tls",
            Self::Protocol => "protocol",
            Self::Status => "status",
            Self::Content => "content",
            Self::Login => "login",
            #[cfg(feature = "lua")]
            Self::Script => "script",
            Self::Limit => "limit",
            Self::Local => "local",
            Self::Overrun => "overrun",
            Self::Crowded => "crowded",
        }
    }

    /// Whether an answer came, though not the right one.
    pub(super) const fn is_answer(self) -> bool {
        matches!(self, Self::Tls | Self::Protocol | Self::Status | Self::Content | Self::Login)
    }

    /// Whether the check was not even begun.
    const fn is_skipped(self) -> bool {
        matches!(self, Self::Overrun | Self::Crowded)
    }
}

/// How a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "lua", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Failure {
    pub(super) reason: Reason,
    pub(super) sentence: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.reason.name(), self.sentence)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    pub(super) fn new(reason: Reason, sentence: impl Into<String>) -> Self {
        Self { reason, sentence: sentence.into() }
    }
}

/// What an error of a socket means.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind as Of;
        let reason = match error.kind() {
            Of::ConnectionRefused => Reason::Refused,
            Of::HostUnreachable | Of::NetworkUnreachable | Of::NetworkDown | Of::AddrNotAvailable => {
                Reason::Unreachable
            }
            Of::TimedOut => Reason::Timeout,
            Of::PermissionDenied => Reason::Local,
            _ => Reason::Closed,
        };
        Self::new(reason, error.to_string())
    }
}

/// A part of a run that has a name of its own.
#[derive(Clone, Debug)]
struct Part {
    kind: PartKind,
    name: String,
}

/// What such a part is.
#[derive(Clone, Copy, Debug)]
enum PartKind {
    Step,
    Query,
}

impl PartKind {
    /// The label that has its name.
    const fn label(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Query => "query",
        }
    }

    /// The histogram of how long it took.
    const fn metric(self) -> &'static str {
        match self {
            Self::Step => "ogive_check_step_seconds",
            Self::Query => "ogive_check_query_seconds",
        }
    }
}

/// What a run measured beside the phases.
#[derive(Clone, Debug, PartialEq)]
struct Figure {
    metric: String,
    unit: String,
    labels: Vec<(String, String)>,
    temporality: Temporality,
    /// When it was, if that is not now.
    time: Option<WallNs>,
    value: Value,
}

/// A run in progress.
pub(super) struct Run {
    clock: Clock,
    from: u64,
    /// The end of the cell that it is counted in, where that is not the one in which it ends.
    cell: Option<WallNs>,
    phase: Option<(&'static str, u64)>,
    seconds: Vec<(&'static str, u64)>,
    /// The step or query that was begun last.
    part: Option<Part>,
    part_seconds: Vec<(Part, u64)>,
    figures: Vec<Figure>,
}

impl Run {
    pub(super) fn begin(clock: Clock) -> Self {
        Self {
            clock,
            from: clock.now(),
            cell: None,
            phase: None,
            seconds: Vec::new(),
            part: None,
            part_seconds: Vec::new(),
            figures: Vec::new(),
        }
    }

    /// It is the run of the period that began at `from` of the clock, and is counted in that period's cell where it has
    /// one.
    pub(super) fn of_period(mut self, from: MonoNs, period: Duration) -> Self {
        if has_own_cells(period) {
            let ago = MonoNs(self.clock.now()).since(from);
            // The nearest second: the wall clock may have been set by a little since the first period.
            let from = (WallNs(self.clock.wall()) - ago + SECOND / 2).align_down(SECOND);
            self.cell = Some(from + SECOND);
        }
        self
    }

    /// A phase begins; the one before it ends.
    pub(super) fn phase(&mut self, name: &'static str) {
        let now = self.clock.now();
        self.end_phase(now);
        self.phase = Some((name, now));
    }

    fn end_phase(&mut self, now: u64) {
        if let Some((name, from)) = self.phase.take() {
            self.seconds.push((name, now.saturating_sub(from)));
        }
    }

    /// The phase that did not end, and its step or query.
    fn unfinished(&self) -> String {
        let phase = self.phase.map_or("begin", |(name, _)| name);
        let of = |part: &Part| format!("{phase} of the {} {}", part.kind.label(), part.name);
        self.part.as_ref().map_or(phase.to_owned(), of)
    }

    /// A step begins.
    pub(super) fn step(&mut self, name: &str) {
        self.part = Some(Part { kind: PartKind::Step, name: name.to_owned() });
    }

    /// How long a step took.
    pub(super) fn step_seconds(&mut self, name: &str, ns: u64) {
        self.part_seconds.push((Part { kind: PartKind::Step, name: name.to_owned() }, ns));
    }

    /// A query begins.
    pub(super) fn query(&mut self, name: &str) {
        self.part = Some(Part { kind: PartKind::Query, name: name.to_owned() });
    }

    /// How long a query took.
    pub(super) fn query_seconds(&mut self, name: &str, ns: u64) {
        self.part_seconds.push((Part { kind: PartKind::Query, name: name.to_owned() }, ns));
    }

    /// A latency that was measured in another way.
    pub(super) fn latency(&mut self, phase: &'static str, ns: u64) {
        self.seconds.push((phase, ns));
    }

    /// A state.
    pub(super) fn gauge(&mut self, metric: &str, unit: &str, value: f64) {
        self.labelled(metric, unit, &[], value);
    }

    /// A state with labels of its own.
    pub(super) fn labelled(&mut self, metric: &str, unit: &str, labels: &[(&str, &str)], value: f64) {
        self.figure(metric, unit, labels, None, Value::Float(value));
    }

    /// A state that was reported before.
    #[cfg(feature = "lua")]
    pub(super) fn figure_of(&self, metric: &str) -> Option<f64> {
        let found = self.figures.iter().find(|figure| figure.metric == metric)?;
        if let Value::Float(value) = found.value { Some(value) } else { None }
    }

    /// Anything at any time.
    pub(super) fn figure(
        &mut self,
        metric: &str,
        unit: &str,
        labels: &[(&str, &str)],
        time: Option<WallNs>,
        value: Value,
    ) {
        self.push(metric, unit, labels, Temporality::Gauge, time, value);
    }

    /// A count since some start of the target.
    pub(super) fn counter(&mut self, metric: &str, unit: &str, labels: &[(&str, &str)], value: f64) {
        self.push(metric, unit, labels, Temporality::Cumulative, None, Value::Float(value));
    }

    fn push(
        &mut self,
        metric: &str,
        unit: &str,
        labels: &[(&str, &str)],
        temporality: Temporality,
        time: Option<WallNs>,
        value: Value,
    ) {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (metric, unit) = (metric.to_owned(), unit.to_owned());
        self.figures.push(Figure { metric, unit, labels, temporality, time, value });
    }

    /// How it ended within `timeout`; no word means that it did not.
    pub(super) fn ended(&mut self, end: Option<Result<(), Failure>>, timeout: Duration) -> Result<(), Failure> {
        let now = self.clock.now();
        let end = end.unwrap_or_else(|| {
            let (seconds, phase) = (timeout.as_secs_f64(), self.unfinished());
            Err(Failure::new(Reason::Timeout, format!("no answer within {seconds:.3} s, in the phase {phase}")))
        });
        // A wrong answer has its latency, too; none has not.
        if end.as_ref().err().is_none_or(|failure| failure.reason.is_answer()) {
            self.end_phase(now);
            self.seconds.push(("total", now.saturating_sub(self.from)));
        }
        end
    }

    /// The samples of it, with `labels` in every series; a run is made each `period`.
    pub(super) fn batch(self, end: &Result<(), Failure>, labels: &[(String, String)], period: Duration) -> Batch {
        let now = WallNs(self.clock.wall());
        // A cell is identified by its end.
        let cell = self.cell.unwrap_or(now.align_down(SECOND) + SECOND);
        let mut out = Samples { labels, period, batch: Batch::default(), now, cell };
        let result = end.as_ref().map_or_else(|failure| failure.reason.name(), |()| "ok");
        let is_skipped = end.as_ref().is_err_and(|failure| failure.reason.is_skipped());
        // A run that was skipped says nothing of the target.
        if !is_skipped {
            out.gauge("ogive_check_up", "", &[], f64::from(u8::from(end.is_ok())));
        }
        out.add("ogive_check_runs_total", "", &[("result", result)], Temporality::Delta, Value::Float(1.0));
        if let Err(failure) = end {
            let metric = if failure.reason.is_answer() { "ogive_check_wrong_answer" } else { "ogive_check_no_answer" };
            let text = format!("{result}: {}", cut(&failure.sentence, SENTENCE_BYTES_MAX));
            out.add(metric, "", &[], Temporality::Gauge, Value::Text(text));
        }
        for &(phase, ns) in &self.seconds {
            out.seconds("ogive_check_seconds", ("phase", phase), ns);
        }
        for (part, ns) in &self.part_seconds {
            out.seconds(part.kind.metric(), (part.kind.label(), part.name.as_str()), *ns);
        }
        for Figure { metric, unit, labels, temporality, time, value } in self.figures {
            let labels: Vec<(&str, &str)> =
                labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            // What has a time of its own comes when somebody else measures it.
            let width_ms = if time.is_some() { 0 } else { out.width_ms() };
            let meaning = Meaning { unit: &unit, temporality, width_ms };
            out.at(&metric, meaning, &labels, time.unwrap_or(now), value);
        }
        out.batch
    }
}

/// Whether a check of such a period has a cell for each of them: two of its runs may end in one second, as they are
/// half a period apart at least, and the next second would look as if a run were missing.
pub(super) fn has_own_cells(period: Duration) -> bool {
    period < Duration::from_secs(2)
}

/// How the values of a series are to be read.
struct Meaning<'a> {
    unit: &'a str,
    temporality: Temporality,
    /// How far apart they are to be; a text has none.
    width_ms: u32,
}

/// Samples of one check.
struct Samples<'a> {
    labels: &'a [(String, String)],
    period: Duration,
    batch: Batch,
    now: WallNs,
    cell: WallNs,
}

impl Samples<'_> {
    fn gauge(&mut self, metric: &str, unit: &str, labels: &[(&str, &str)], value: f64) {
        self.add(metric, unit, labels, Temporality::Gauge, Value::Float(value));
    }

    /// A histogram of one duration.
    fn seconds(&mut self, metric: &str, label: (&str, &str), ns: u64) {
        let mut cell = Histogram::log_linear();
        cell.record_int(i64::try_from(ns).unwrap_or(i64::MAX), -9);
        self.add(metric, "s", &[label], Temporality::Delta, Value::Histogram(Box::new(cell)));
    }

    fn add(&mut self, metric: &str, unit: &str, labels: &[(&str, &str)], temporality: Temporality, value: Value) {
        let time = if temporality == Temporality::Delta { self.cell } else { self.now };
        self.at(metric, Meaning { unit, temporality, width_ms: self.width_ms() }, labels, time, value);
    }

    /// How far apart the samples of a check are to be: one a run. A cell is a second at least.
    fn width_ms(&self) -> u32 {
        u32::try_from(self.period.as_millis()).unwrap_or(u32::MAX).max(WIDTH_MS)
    }

    fn at(&mut self, metric: &str, meaning: Meaning<'_>, labels: &[(&str, &str)], time: WallNs, value: Value) {
        let Meaning { unit, temporality, width_ms } = meaning;
        let kind = match value {
            Value::Float(_) => Kind::Float,
            Value::Histogram(_) | Value::FloatHistogram(_) => Kind::Histogram,
            Value::Text(_) => Kind::Text,
        };
        let width_ms = if kind == Kind::Text { 0 } else { width_ms };
        let meta = SeriesMeta { kind, temporality, unit: unit.into(), width_ms };
        let own = self.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let pairs = own.chain(labels.iter().copied()).chain([(METRIC_NAME, metric)]);
        let pairs: Vec<(&str, &str)> = pairs.collect();
        // Labels of scripts and of services may break a rule: such a series is rejected by itself, and counted.
        let def = SeriesDef::new(pairs, meta);
        // Neighbours of one series share its declaration.
        if !matches!((self.batch.series.last(), &def), (Some(Ok(last)), Ok(def)) if last == def) {
            self.batch.series.push(def);
        }
        let series = self.batch.series.len() as u32 - 1;
        self.batch.samples.push(Ok(Sample { series, time_ns: time.0, start_ns: None, value }));
    }
}

/// The part of a timeout after which a check ends by itself, nine tenths: what came until then says more than that it
/// is over.
pub(super) fn usable(timeout: Duration) -> Duration {
    timeout.mul_f64(0.9)
}

/// 256 bytes of a label that a target names: names of databases, queues, interfaces (64) and mounted disks (128) are
/// shorter.
pub(super) const LABEL_BYTES_MAX: usize = 256;

/// The beginning of what somebody said.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
impl Run {
    /// The numbers of it, each as its series, value, temporality and unit.
    pub(super) fn numbers(self, end: &Result<(), Failure>) -> Vec<String> {
        let batch = self.batch(end, &[], Duration::from_secs(60));
        let shown = |sample: &Result<Sample, ogive_model::Reason>| {
            let sample = sample.as_ref().unwrap();
            let series = batch.series[sample.series as usize].as_ref().unwrap();
            let Value::Float(value) = sample.value else { return None };
            let (temporality, unit) = (series.meta.temporality.as_str(), &series.meta.unit);
            Some(format!("{} {value} {temporality} {unit}", series.labels).trim_end().to_owned())
        };
        batch.samples.iter().filter_map(shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Check, Config};

    fn check() -> Check {
        let text =
            "[[check]]\nname = \"a\"\nkind = \"tcp\"\ntarget = \"h:1\"\nlabels = {team = \"x\"}\ntimeout = \"2s\"";
        Config::parse(text).unwrap().check.remove(0)
    }

    fn reported(batch: &Batch) -> Vec<String> {
        let of = |sample: &Result<Sample, ogive_model::Reason>| {
            let sample = sample.as_ref().unwrap();
            let series = batch.series[sample.series as usize].as_ref().unwrap();
            let labels = series.labels.filtered(|name| !matches!(name, "check" | "kind" | "target" | "team"));
            assert_eq!(series.labels.len() - labels.len(), 4, "{}", series.labels);
            match &sample.value {
                Value::Float(value) => format!("{labels} {value}"),
                Value::Text(text) => format!("{labels} {text}"),
                Value::Histogram(cell) => format!("{labels} {} x {}", cell.count, cell.sum.unwrap()),
                Value::FloatHistogram(_) => unreachable!("nobody makes one"),
            }
        };
        batch.samples.iter().map(of).collect()
    }

    /// What a run reports that begins at a quarter of a second, takes these steps and so comes to its end.
    fn tells(expected: &[&str], steps: impl FnOnce(Clock, &mut Run, &Check) -> Result<(), Failure>) -> Batch {
        let (clock, check) = (Clock::manual(1_000, 1_700_000_000_250_000_000), check());
        let mut run = Run::begin(clock);
        let end = steps(clock, &mut run, &check);
        let batch = run.batch(&end, &check.labels, check.period);
        assert_eq!(reported(&batch), expected);
        batch
    }

    #[test]
    fn a_good_run_tells_all_its_phases() {
        let expected = [
            "ogive_check_up 1",
            "ogive_check_runs_total{result=\"ok\"} 1",
            "ogive_check_seconds{phase=\"resolve\"} 1 x 0.001",
            "ogive_check_seconds{phase=\"connect\"} 1 x 0.002",
            "ogive_check_seconds{phase=\"total\"} 1 x 0.003",
            "ogive_check_bytes 7",
        ];
        let batch = tells(&expected, |clock, run, check| {
            run.phase("resolve");
            clock.advance(1_000_000);
            run.phase("connect");
            clock.advance(2_000_000);
            run.gauge("ogive_check_bytes", "By", 7.0);
            run.ended(Some(Ok(())), check.timeout)
        });
        let times: Vec<i64> = batch.samples.iter().map(|sample| sample.as_ref().unwrap().time_ms() % 10_000).collect();
        assert_eq!(times, [253, 1_000, 1_000, 1_000, 1_000, 253]);
    }

    /// A check of each second was counted twice in every third second, and not in the next: `presence` of a target that
    /// always answered was 0.6 to 0.73.
    #[test]
    fn runs_of_every_second_have_a_cell_each() {
        let wall_ns = 1_700_000_000_250_000_000_i64;
        for period_ms in [1_000, 1_300, 1_999] {
            let clock = Clock::manual(1_000, wall_ns);
            let period = Duration::from_millis(period_ms);
            let mut plan = crate::plan::Plan::new(period_ms);
            plan.add("a", Ns::from(period), MonoNs(1_000 + 750_000_000));
            let mut cells = std::collections::BTreeSet::new();
            for _ in 0..200 {
                clock.advance(plan.next_due().unwrap().0 - clock.now());
                let due = plan.take(MonoNs(clock.now())).remove(0);
                let run = Run::begin(clock).of_period(due.period_from, period);
                // It takes as long as it may.
                clock.advance(period_ms * 1_000_000 / 2 - 1);
                let check = check();
                let batch = run.batch(&Ok(()), &check.labels, period);
                let end_ns = batch.samples[1].as_ref().unwrap().time_ns;
                let early_ns = wall_ns + (due.due.0 - 1_000) as i64 - (end_ns - SECOND.0);
                assert!((-SECOND.0 / 2..SECOND.0 * 5 / 2).contains(&early_ns), "{early_ns}");
                assert!(cells.insert(end_ns), "{period_ms}: two runs in the cell of {end_ns}");
            }
        }
    }

    #[test]
    fn no_answer_is_neither_a_zero_nor_a_hole() {
        let expected = [
            "ogive_check_up 0",
            "ogive_check_runs_total{result=\"timeout\"} 1",
            "ogive_check_no_answer timeout: no answer within 2.000 s, in the phase connect",
            "ogive_check_seconds{phase=\"resolve\"} 1 x 0.001",
        ];
        tells(&expected, |clock, run, check| {
            run.phase("resolve");
            clock.advance(1_000_000);
            run.phase("connect");
            clock.advance(2_000_000_000);
            run.ended(None, check.timeout)
        });
    }

    #[test]
    fn a_wrong_answer_has_its_latency() {
        let expected = [
            "ogive_check_up 0",
            "ogive_check_runs_total{result=\"status\"} 1",
            "ogive_check_wrong_answer status: 500",
            "ogive_check_seconds{phase=\"total\"} 1 x 0",
        ];
        tells(&expected, |_, run, check| run.ended(Some(Err(Failure::new(Reason::Status, "500"))), check.timeout));
    }

    #[test]
    fn a_run_that_was_skipped_says_nothing_of_its_target() {
        let expected = [
            "ogive_check_runs_total{result=\"overrun\"} 1",
            "ogive_check_no_answer overrun: the last run is still in progress",
        ];
        tells(&expected, |_, _, _| Err(Failure::new(Reason::Overrun, "the last run is still in progress")));
    }

    #[test]
    fn a_long_sentence_is_cut_between_letters() {
        let long = "\u{e4}".repeat(SENTENCE_BYTES_MAX);
        assert_eq!(cut(&long, SENTENCE_BYTES_MAX).len(), SENTENCE_BYTES_MAX);
        assert_eq!(cut(&format!("x{long}"), SENTENCE_BYTES_MAX).len(), SENTENCE_BYTES_MAX - 1);
    }
}
