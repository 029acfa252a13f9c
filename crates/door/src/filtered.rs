//! A backend behind filters: lines are read, masked, dropped and measured before the store or the spool sees them.
//!
//! Invariants: a sender hears of each of its samples once: what a filter dropped, joined or only measured is accepted.
//! A batch is refused as a whole when a part of it is, and what was stored of it is a duplicate when it comes again:
//! the parts have its number. What filters make of lines is counted by them (`ogive_filter_events_total`), and not to
//! the sender's batch.
//! Threads: filters run on the thread that submits.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ogive_filter::{Filtered, Outcome, Part, SessionOutcome, SessionReport, Stage};
use ogive_model::{Batch, BatchId, Matcher, MonoNs, Tenant, TimeRange, Verdict, WallMs};
use ogive_probe::Clock;

use crate::backend::{Backend, Deletion, Fact, Reader, Refusal, Reply, Stamps};
use crate::own_value::OwnValue;

/// The series that counts what filters did.
pub const METRIC: &str = "ogive_filter_events_total";

/// The series that counts what became of lines of sessions.
pub const SESSIONS_METRIC: &str = "ogive_filter_sessions_total";

/// The series with the lines of sessions that wait for the other one.
pub const SESSIONS_OPEN_METRIC: &str = "ogive_filter_sessions_open";

/// See the module.
pub struct FilteredBackend {
    stage: RwLock<Arc<Stage>>,
    inner: Arc<dyn Backend>,
    clock: Clock,
}

impl FilteredBackend {
    /// `inner` behind the filters of `stage`; sessions expire by `clock`.
    pub fn new(stage: Stage, inner: Arc<dyn Backend>, clock: Clock) -> Self {
        Self { stage: RwLock::new(Arc::new(stage)), inner, clock }
    }

    /// Replaces the filters; batches on their way go through those that they began with. Open sessions are forgotten.
    pub fn replace(&self, stage: Stage) {
        *self.stage.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(stage);
    }

    fn stage(&self) -> Arc<Stage> {
        self.stage.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What each filter did, as own series and in `/metrics`.
    fn outcomes(&self) -> Vec<OwnValue> {
        let of = |(name, tally): (&str, &ogive_filter::Tally)| {
            let value = |outcome: Outcome| {
                let labels = [("filter", name), ("outcome", outcome.name())];
                OwnValue::counter(METRIC, &labels, tally.get(outcome) as f64)
            };
            Outcome::ALL.map(value)
        };
        self.stage().tallies().flat_map(of).collect()
    }

    /// What each rule for sessions did.
    fn sessions(&self) -> Vec<OwnValue> {
        let of = |SessionReport { filter, name, open, tally, .. }: SessionReport<'_>| {
            let value = |outcome: SessionOutcome| {
                let labels = [("filter", filter), ("session", name), ("outcome", outcome.name())];
                OwnValue::counter(SESSIONS_METRIC, &labels, tally.get(outcome) as f64)
            };
            let open = OwnValue::gauge(SESSIONS_OPEN_METRIC, &[("filter", filter), ("session", name)], "", open as f64);
            SessionOutcome::ALL.map(value).into_iter().chain([open]).collect::<Vec<_>>()
        };
        self.stage().sessions(MonoNs(self.clock.now())).flat_map(of).collect()
    }
}

/// The results of the parts of a batch, until all are there.
struct Answers {
    /// Samples of the batch as received.
    samples: u64,
    waiting: usize,
    verdict: Verdict,
    /// Samples of the sender that the completed parts contained.
    answered: u64,
    refusal: Option<Refusal>,
    reply: Option<Reply>,
}

impl Answers {
    fn take(&mut self, origins: &[Option<u32>], known: &[u32], outcome: Result<Verdict, Refusal>) {
        self.waiting -= 1;
        match outcome {
            Ok(verdict) => {
                self.answered += origins.iter().flatten().count() as u64;
                add(&mut self.verdict, origins, verdict);
            }
            Err(Refusal::UnknownSeries { message, unknown }) => {
                let unknown = unknown.iter().filter_map(|at| known.get(*at as usize).copied()).collect();
                self.refusal = Some(Refusal::UnknownSeries { message, unknown });
            }
            Err(refusal) => self.refusal = Some(refusal),
        }
        if self.waiting > 0 {
            return;
        }
        let Some(reply) = self.reply.take() else { return };
        reply(match self.refusal.take() {
            Some(refusal) => Err(refusal),
            None => {
                let mut verdict = std::mem::take(&mut self.verdict);
                // Lines that are in no batch any more.
                verdict.accepted += self.samples - self.answered;
                verdict.rejected.sort_by_key(|(at, _)| *at);
                Ok(verdict)
            }
        });
    }
}

/// Adds the verdict about the sender's samples in a part.
fn add(sum: &mut Verdict, origins: &[Option<u32>], verdict: Verdict) {
    let of_sender = origins.iter().flatten().count() as u64;
    let rejected: Vec<_> =
        verdict.rejected.into_iter().filter_map(|(at, reason)| Some((origins[at as usize]?, reason))).collect();
    let taken = of_sender - rejected.len() as u64;
    // The verdict does not say which samples were duplicates. Cells are only ever duplicates together with their whole
    // batch.
    let duplicate = verdict.duplicate.min(taken);
    sum.duplicate += duplicate;
    sum.accepted += taken - duplicate;
    sum.folded += verdict.folded.min(taken - duplicate);
    sum.rejected.extend(rejected);
}

impl Backend for FilteredBackend {
    fn admit(&self) -> Result<(), Refusal> {
        self.inner.admit()
    }

    fn submit(
        &self,
        batch: Batch,
        frame: Option<Vec<u8>>,
        stamps: Arc<dyn Stamps>,
        reply: Reply,
    ) -> Result<(), Refusal> {
        let samples = batch.samples.len() as u64;
        let parts = match self.stage().apply(batch, MonoNs(self.clock.now())) {
            Filtered::Untouched(batch) => return self.inner.submit(batch, frame, stamps, reply),
            Filtered::Changed(parts) => parts,
            Filtered::Unknown(unknown) => {
                let message =
                    "filters read the labels of lines; send the series of these with their labels once".into();
                return Err(Refusal::UnknownSeries { message, unknown });
            }
        };
        if parts.is_empty() {
            reply(Ok(Verdict { accepted: samples, ..Verdict::default() }));
            return Ok(());
        }
        let answers = Answers {
            samples,
            waiting: parts.len(),
            verdict: Verdict::default(),
            answered: 0,
            refusal: None,
            reply: Some(reply),
        };
        let answers = Arc::new(Mutex::new(answers));
        for Part { batch, origins, known } in parts {
            let of_part = Arc::new((origins, known));
            let take = |answers: &Mutex<Answers>, of_part: &(Vec<Option<u32>>, Vec<u32>), outcome| {
                let (origins, known) = of_part;
                answers.lock().unwrap_or_else(PoisonError::into_inner).take(origins, known, outcome);
            };
            let (to, of) = (answers.clone(), of_part.clone());
            let reply: Reply = Box::new(move |outcome| take(&to, &of, outcome));
            let frame = batch.encode().map_err(|error| Refusal::TooLarge(error.to_string()));
            let submitted = frame.and_then(|frame| self.inner.submit(batch, Some(frame), stamps.clone(), reply));
            if let Err(refusal) = submitted {
                take(&answers, &of_part, Err(refusal));
            }
        }
        Ok(())
    }

    fn delete(&self, tenant: &Tenant, selectors: &[Vec<Matcher>], range: TimeRange) -> Result<(), Refusal> {
        self.inner.delete(tenant, selectors, range)
    }

    fn correct(&self, tenant: &Tenant, selectors: &[Vec<Matcher>], range: TimeRange) -> Result<(), Refusal> {
        self.inner.correct(tenant, selectors, range)
    }

    fn arrivals(&self) -> Vec<BatchId> {
        self.inner.arrivals()
    }

    fn snapshots_holding(
        &self,
        tenant: &Tenant,
        selectors: &[Vec<Matcher>],
        range: TimeRange,
    ) -> Result<Vec<String>, Refusal> {
        self.inner.snapshots_holding(tenant, selectors, range)
    }

    fn after_deletion(&self, snapshots: &[String], remove: bool, deletion: Deletion<'_>) -> Result<(), Refusal> {
        self.inner.after_deletion(snapshots, remove, deletion)
    }

    fn witness(&self, source: u128, time: WallMs) {
        self.inner.witness(source, time);
    }

    fn clean(&self) -> Result<(), Refusal> {
        self.inner.clean()
    }

    fn of<'a>(&'a self, tenant: &'a Tenant) -> Box<dyn Reader + 'a> {
        self.inner.of(tenant)
    }

    fn tenants(&self) -> Vec<Tenant> {
        self.inner.tenants()
    }

    fn facts(&self) -> Vec<Fact> {
        let (mut facts, stage) = (self.inner.facts(), self.stage());
        if stage.is_empty() {
            return facts;
        }
        let total = |outcome| stage.tallies().map(|(_, tally)| tally.get(outcome)).sum::<u64>() as f64;
        let sessions_bytes: usize = stage.sessions(MonoNs(self.clock.now())).map(|session| session.memory_bytes).sum();
        for (name, value) in [
            ("filter_labels_bytes", stage.memory_bytes() as f64),
            ("filter_sessions_bytes", sessions_bytes as f64),
            ("filter_dropped_total", total(Outcome::Dropped)),
            ("filter_unparsed_total", total(Outcome::Unparsed)),
            ("filter_numbers_total", total(Outcome::Numbers)),
        ] {
            // There may be filters behind these.
            match facts.iter_mut().find(|fact| fact.name == name) {
                Some(fact) => fact.value += value,
                None => facts.push(Fact { name, value }),
            }
        }
        facts
    }

    fn own_values(&self) -> Vec<OwnValue> {
        self.inner.own_values().into_iter().chain(self.outcomes()).chain(self.sessions()).collect()
    }

    fn own_label(&self) -> Option<(&'static str, String)> {
        self.inner.own_label()
    }

    fn page(&self) -> &'static str {
        self.inner.page()
    }

    fn cluster(&self) -> Option<serde_json::Value> {
        self.inner.cluster()
    }

    fn broker(&self, tenant: Option<&Tenant>) -> Option<serde_json::Value> {
        self.inner.broker(tenant)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use ogive_filter::File;
    use ogive_model::{
        HistogramValue, Kind, Reason, Sample, Selection, SeriesDef, SeriesMeta, SourceId, Temporality, Value,
    };

    use super::*;
    use crate::memory::Memory;

    const FILTERS: &str = r#"
        [[filter]]
        name = "drop"
        where = 'log{job="app"} level=debug'
        drop = true

        [[filter]]
        name = "route"
        where = 'log{job="app"} team=b'
        tenant = "b"

        [[filter]]
        name = "measure"
        where = 'log{job="app"}'
        parse = "logfmt"

        [[filter.number]]
        name = "took_seconds"
        field = "took"
        labels = ["path"]

        [[filter.count]]
        name = "lines_total"
    "#;

    struct Unheard;

    impl Stamps for Unheard {
        fn stamp(&self, _: ogive_model::Step) {}
    }

    fn backend(filters: &str) -> (FilteredBackend, Arc<Memory>) {
        let memory = Arc::new(Memory::default());
        let stage = Stage::new(File::parse(filters).unwrap().filters).unwrap();
        let clock = Clock::manual(1_000_000_000, 1_700_000_000_000_000_000);
        (FilteredBackend::new(stage, memory.clone(), clock), memory)
    }

    fn text(job: &str) -> SeriesDef {
        let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        SeriesDef::new([("__name__", "log"), ("job", job)], meta).unwrap()
    }

    fn batch(lines: &[&str]) -> Batch {
        let sample = |(at, line): (usize, &&str)| {
            let value = Value::Text((*line).to_owned());
            Ok(Sample { series: 0, time_ns: 1_000_000_000_000 + at as i64 * 1_000_000, start_ns: None, value })
        };
        Batch {
            source: SourceId(7),
            sequence: 1,
            series: vec![Ok(text("app"))],
            samples: lines.iter().enumerate().map(sample).collect(),
            ..Batch::default()
        }
    }

    /// The series of a kind that are there.
    fn labels(memory: &Memory, tenant: &str, kind: Kind) -> Vec<String> {
        let tenant = Tenant::new(tenant).unwrap();
        let everything =
            Selection { labels_only: true, ..Selection::new(Vec::new(), TimeRange::from_ms(i64::MIN, i64::MAX)) };
        let found = memory.of(&tenant).select(&everything).unwrap();
        found.iter().filter(|series| series.meta.kind == kind).map(|series| series.labels.to_string()).collect()
    }

    fn submit(backend: &FilteredBackend, batch: Batch) -> Result<Verdict, Refusal> {
        let (sender, receiver) = mpsc::channel();
        let reply: Reply = Box::new(move |outcome| sender.send(outcome).unwrap());
        backend.submit(batch, None, Arc::new(Unheard), reply)?;
        receiver.try_recv().expect("it was answered once")
    }

    fn outcome(backend: &FilteredBackend, filter: &str, name: &str) -> f64 {
        let values = backend.own_values();
        let found = values.iter().find(|value| value.label("filter") == filter && value.label("outcome") == name);
        found.unwrap().value()
    }

    #[test]
    fn a_sender_hears_of_each_of_its_lines_and_of_nothing_else() {
        let (backend, memory) = backend(FILTERS);
        let lines =
            ["level=debug took=9s", "took=1.5ms path=/a", "team=b took=2s path=/b", "took=2.5ms path=/a", "words"];
        let verdict = submit(&backend, batch(&lines)).unwrap();
        assert_eq!(verdict, Verdict { accepted: 5, ..Verdict::default() });
        let stored = |tenant: &str, kind| labels(&memory, tenant, kind);
        assert_eq!(stored("default", Kind::Histogram), [r#"took_seconds{job="app", path="/a"}"#]);
        assert_eq!(stored("b", Kind::Histogram), [r#"took_seconds{job="app", path="/b"}"#]);
        assert_eq!((stored("default", Kind::Float).len(), stored("b", Kind::Float).len()), (1, 1));
        assert_eq!((outcome(&backend, "drop", "dropped"), outcome(&backend, "route", "routed")), (1.0, 1.0));
        assert_eq!((outcome(&backend, "measure", "numbers"), outcome(&backend, "measure", "unparsed")), (3.0, 1.0));
        // The same again: nothing changes, in neither tenant. What is dropped is dropped again.
        let verdict = submit(&backend, batch(&lines)).unwrap();
        assert_eq!(verdict, Verdict { accepted: 1, duplicate: 4, ..Verdict::default() });
    }

    const CALLS: &str = r#"
        [[filter]]
        name = "calls"
        where = 'log{job="app"}'
        parse = "logfmt"

        [[filter.session]]
        name = "call_seconds"
        id = "id"
        begin = "step=begin"
        end = "step=end"
        timeout = "1m"
    "#;

    /// A batch with a number of its own, and lines of a time.
    fn numbered(sequence: u64, time_ms: i64, lines: &[&str]) -> Batch {
        let mut batch = Batch { sequence, ..batch(lines) };
        batch.samples.iter_mut().flatten().for_each(|sample| sample.time_ns = time_ms * 1_000_000);
        batch
    }

    /// Durations in the store: their number and their sum.
    fn durations(memory: &Memory) -> (u64, f64) {
        let everything = Selection::new(Vec::new(), TimeRange::from_ms(i64::MIN, i64::MAX));
        let found = memory.of(&Tenant::default()).select(&everything).unwrap();
        let (mut count, mut sum) = (0, 0.0);
        for histogram in found.iter().flat_map(|series| &series.histograms.values) {
            let HistogramValue::Integer(histogram) = histogram else { panic!("{histogram:?}") };
            count += histogram.count;
            sum += histogram.sum.unwrap();
        }
        (count, sum)
    }

    /// The batch with the duration was refused, came again, and came once more because its sender did not hear of it.
    #[test]
    fn a_session_counts_once_however_often_its_batches_come() {
        let (backend, memory) = backend(CALLS);
        let (begin, end) = (numbered(1, 5_000, &["id=a step=begin"]), numbered(2, 5_250, &["id=a step=end"]));
        submit(&backend, end.clone()).unwrap();
        *memory.refusal.lock().unwrap() = Some(Refusal::Busy);
        assert_eq!(submit(&backend, begin.clone()), Err(Refusal::Busy));
        *memory.refusal.lock().unwrap() = None;
        assert_eq!(durations(&memory), (0, 0.0));
        assert_eq!(submit(&backend, end.clone()).unwrap().duplicate, 1);
        for duplicate in [0, 1, 1] {
            assert_eq!(submit(&backend, begin.clone()).unwrap().duplicate, duplicate);
            assert_eq!(submit(&backend, end.clone()).unwrap().duplicate, 1);
            assert_eq!(durations(&memory), (1, 0.25));
        }
        let values = backend.own_values();
        let value = |name: &str, outcome: &str| {
            let found = values.iter().find(|value| value.name() == name && value.label("outcome") == outcome);
            found.unwrap().value()
        };
        assert_eq!((value(SESSIONS_METRIC, "matched"), value(SESSIONS_OPEN_METRIC, "")), (1.0, 0.0));
    }

    #[test]
    fn open_sessions_expire_by_the_clock() {
        let (backend, memory) = backend(CALLS);
        submit(&backend, numbered(1, 5_000, &["id=a step=begin", "id=b step=begin"])).unwrap();
        backend.clock.advance(60_000_000_000);
        submit(&backend, numbered(2, 5_500, &["id=a step=end"])).unwrap();
        backend.clock.advance(1);
        submit(&backend, numbered(3, 5_500, &["id=b step=end"])).unwrap();
        assert_eq!(durations(&memory), (1, 0.5));
    }

    #[test]
    fn a_refusal_of_one_part_refuses_the_whole() {
        let (backend, memory) = backend(FILTERS);
        *memory.refusal.lock().unwrap() = Some(Refusal::Busy);
        assert_eq!(submit(&backend, batch(&["a=1", "team=b"])), Err(Refusal::Busy));
        *memory.refusal.lock().unwrap() = None;
        assert_eq!(submit(&backend, batch(&["a=1", "team=b"])).unwrap().accepted, 2);
        assert_eq!(submit(&backend, batch(&["level=debug"])).unwrap().accepted, 1);
    }

    #[test]
    fn what_the_store_rejects_is_named_by_the_senders_index() {
        let (backend, _) = backend(FILTERS);
        let mut batch = batch(&["level=debug", "took=1s", "a=1"]);
        batch.samples.insert(1, Err(Reason::TimeTooNew));
        batch.samples.push(Ok(Sample { series: 9, time_ns: 1, start_ns: None, value: Value::Float(1.0) }));
        let verdict = submit(&backend, batch).unwrap();
        let rejected = vec![(1, Reason::TimeTooNew), (4, Reason::SeriesUnknown)];
        assert_eq!(verdict, Verdict { accepted: 3, rejected, ..Verdict::default() });
    }

    #[test]
    fn a_line_of_a_series_that_is_named_by_its_identity_is_filtered_too() {
        let (backend, _) = backend(FILTERS);
        let mut named = batch(&["level=debug"]);
        named.known = vec![text("app").id(&Tenant::default())];
        named.series.clear();
        let error = submit(&backend, named.clone()).unwrap_err();
        assert!(matches!(&error, Refusal::UnknownSeries { unknown, .. } if unknown == &[0]), "{error:?}");
        submit(&backend, batch(&["a=1"])).unwrap();
        assert_eq!(submit(&backend, named).unwrap().accepted, 1);
        assert_eq!(outcome(&backend, "drop", "dropped"), 1.0);
    }

    #[test]
    fn other_samples_and_own_lines_are_not_touched() {
        let (backend, memory) = backend("[[filter]]\nname = 'all'\nwhere = ''\ndrop = true");
        let meta = text("app").meta;
        let mut batch = batch(&["a", "b", "c"]);
        batch.series.push(SeriesDef::new([("__name__", "ogive_audit")], meta.clone()));
        batch.series.push(SeriesDef::new([("__name__", "took_exemplar")], meta));
        batch.samples[1].as_mut().unwrap().series = 1;
        batch.samples[2].as_mut().unwrap().series = 2;
        assert_eq!(submit(&backend, batch).unwrap().accepted, 3);
        assert_eq!(labels(&memory, "default", Kind::Text), ["ogive_audit", "took_exemplar"]);
    }
}
