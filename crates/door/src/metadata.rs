//! What senders say of their metrics: type, help and unit.
//!
//! Format: docs/formats/metadata.md. What is learnt is in memory, and in text series, from which it comes back after a
//! restart.
//! Invariants: what was learnt is answered at once, and stored within some two seconds; an entry is written when it is
//! new and once a day while it is sent.
//! Threads: any thread learns, under one lock; the observer's writes.
//! Limits: `METRICS_MAX` of all tenants, `VARIANTS_MAX` of a metric, `HELP_BYTES_MAX`; beyond the first two nothing
//! more is learnt.
//! Failure: a tenant whose stored metadata cannot be read is learnt anew.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ogive_export::Measured;
use ogive_model::{
    Kind, METRIC_NAME, MatchOp, Matcher, MetricKind, Ms, Selection, SeriesDef, SeriesMeta, Temporality, Tenant,
    TimeRange, Value, WallMs, WallNs,
};
use ogive_probe::Clock;

use crate::backend::Backend;

/// The metric of the series that store the metadata.
pub const SERIES: &str = "ogive_metric_metadata";

/// 200,000 metrics of all tenants, some 300 bytes each: 60 MB in the worst case.
const METRICS_MAX: usize = 200_000;
/// 8 wordings of one metric: senders of different versions.
const VARIANTS_MAX: usize = 8;
/// 4 KiB of help: a paragraph.
const HELP_BYTES_MAX: usize = 4 << 10;
/// At most a million texts are read when a tenant's metadata is restored.
const RESTORED_MAX: usize = 1 << 20;
const DAY: Ms = Ms::from_secs(24 * 3_600);

/// The metadata of a metric.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Counter, gauge and so on.
    pub kind: MetricKind,
    /// Its help text.
    pub help: String,
    /// Its unit; empty when unknown.
    pub unit: String,
}

/// An entry and when it was written and sent last.
struct Variant {
    entry: Entry,
    written: WallMs,
    sent: WallMs,
}

/// A tenant's metrics.
type Metrics = HashMap<String, Vec<Variant>>;

/// See the module.
pub struct Metadata {
    backend: Arc<dyn Backend>,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tenants: HashMap<Tenant, Metrics>,
    metrics: usize,
    /// What is to be written: metrics and entries by tenant.
    due: Vec<(Tenant, String, Entry)>,
}

impl Metadata {
    /// With the default tenant's metadata in `backend`; that of others is loaded when they first send.
    pub fn new(backend: Arc<dyn Backend>, clock: Clock) -> Self {
        let metadata = Self { backend, clock, state: Mutex::default() };
        drop(metadata.state_of(&Tenant::default()));
        metadata
    }

    /// Records what a sender of `tenant` states about `metric`. The first time for a tenant this reads the store: call
    /// it from a blocking thread where that may happen.
    pub fn learn(&self, tenant: &Tenant, metric: &str, kind: MetricKind, help: &str, unit: &str) {
        let (help, now) = (cut(help), self.now());
        let unit = if unit.len() > SeriesDef::UNIT_BYTES_MAX { "" } else { unit };
        if metric.is_empty() || metric.len() > ogive_model::Labels::VALUE_BYTES_MAX {
            return;
        }
        let mut state = self.state_of(tenant);
        let state = &mut *state;
        let metrics = state.tenants.get_mut(tenant).expect("`state_of` makes it");
        let Some(variants) = metrics.get_mut(metric) else {
            if state.metrics < METRICS_MAX {
                state.metrics += 1;
                let entry = Entry { kind, help: help.into_owned(), unit: unit.into() };
                metrics.insert(metric.into(), vec![Variant { entry: entry.clone(), written: now, sent: now }]);
                state.due.push((tenant.clone(), metric.into(), entry));
            }
            return;
        };
        let same = |entry: &Entry| entry.kind == kind && entry.help == help && entry.unit == unit;
        if let Some(known) = variants.iter_mut().find(|variant| same(&variant.entry)) {
            known.sent = now;
            if now - known.written >= DAY {
                known.written = now;
                state.due.push((tenant.clone(), metric.into(), known.entry.clone()));
            }
            return;
        }
        if variants.len() == VARIANTS_MAX {
            let Some(old) = variants.iter().position(|variant| now - variant.sent >= DAY) else { return };
            variants.remove(old);
        }
        let entry = Entry { kind, help: help.into_owned(), unit: unit.into() };
        variants.push(Variant { entry: entry.clone(), written: now, sent: now });
        state.due.push((tenant.clone(), metric.into(), entry));
    }

    /// The metadata of `tenant`, most recently sent first; only of `metric` if it is given.
    pub fn entries(&self, tenant: &Tenant, metric: Option<&str>) -> BTreeMap<String, Vec<Entry>> {
        let state = self.state_of(tenant);
        let metrics = &state.tenants[tenant];
        let wanted = metrics.iter().filter(|(name, _)| metric.is_none_or(|metric| metric == *name));
        let entries = |variants: &[Variant]| {
            let mut sorted: Vec<&Variant> = variants.iter().collect();
            sorted.sort_by_key(|variant| std::cmp::Reverse(variant.sent));
            sorted.into_iter().map(|variant| variant.entry.clone()).collect()
        };
        wanted.map(|(name, variants)| (name.clone(), entries(variants))).collect()
    }

    /// Takes what is to be written at `time`, by tenant.
    pub fn take_due(&self, time: WallNs) -> BTreeMap<Tenant, Vec<Measured>> {
        let due = std::mem::take(&mut self.lock().due);
        let mut out: BTreeMap<Tenant, Vec<Measured>> = BTreeMap::new();
        for (tenant, metric, entry) in due {
            out.entry(tenant).or_default().push(measured(&metric, &entry, time));
        }
        out
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, in which `tenant` has a place.
    fn state_of(&self, tenant: &Tenant) -> MutexGuard<'_, State> {
        let state = self.lock();
        if state.tenants.contains_key(tenant) {
            return state;
        }
        // Reading takes time; others may continue.
        drop(state);
        let stored = self.stored(tenant);
        let mut state = self.lock();
        if !state.tenants.contains_key(tenant) {
            state.metrics += stored.len();
            state.tenants.insert(tenant.clone(), stored);
        }
        state
    }

    /// The stored metadata of `tenant`.
    fn stored(&self, tenant: &Tenant) -> Metrics {
        let named = Matcher::new(METRIC_NAME, MatchOp::Equal, SERIES).expect("a name is no pattern");
        let now = self.now();
        let mut selection = Selection { samples_max: RESTORED_MAX, ..Selection::new(vec![named], TimeRange::ALL) };
        let reader = self.backend.of(tenant);
        let found = reader.select_partial(&selection).or_else(|_| {
            // Two days suffice: metadata that is still sent is written every day.
            selection.range.start = now - DAY * 2;
            reader.select_partial(&selection)
        });
        let mut metrics = Metrics::new();
        for series in found.map(|found| found.series).unwrap_or_default() {
            let mut variants: Vec<Variant> = Vec::new();
            for (time_ms, text) in series.texts.times.iter().zip(&series.texts.values) {
                let Some(entry) = read(text) else { continue };
                variants.retain(|variant| variant.entry != entry);
                let time = WallMs(*time_ms);
                variants.push(Variant { entry, written: time, sent: time });
            }
            let old = variants.len().saturating_sub(VARIANTS_MAX);
            variants.drain(..old);
            if !variants.is_empty() {
                metrics.insert(series.labels.get("metric").to_owned(), variants);
            }
        }
        metrics
    }

    fn now(&self) -> WallMs {
        WallNs(self.clock.wall()).to_ms()
    }
}

/// `help`, truncated to the limit.
fn cut(help: &str) -> std::borrow::Cow<'_, str> {
    if help.len() <= HELP_BYTES_MAX {
        return help.into();
    }
    let end = help.floor_char_boundary(HELP_BYTES_MAX - '…'.len_utf8());
    format!("{}…", &help[..end]).into()
}

fn measured(metric: &str, entry: &Entry, time: WallNs) -> Measured {
    let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    let series = SeriesDef::new([(METRIC_NAME, SERIES), ("metric", metric)], meta).expect("its length was checked");
    let Entry { kind, help, unit } = entry;
    let text = serde_json::json!({"type": kind.as_str(), "help": help, "unit": unit}).to_string();
    Measured { series, time, value: Value::Text(text) }
}

/// The entry in a stored text.
fn read(text: &str) -> Option<Entry> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    let string = |name: &str| value.get(name)?.as_str();
    Some(Entry {
        kind: MetricKind::parse(string("type")?)?,
        help: string("help")?.into(),
        unit: string("unit")?.into(),
    })
}

#[cfg(test)]
mod tests {
    use ogive_export::random_source;

    use super::*;
    use crate::backend::{Stamps, Step};
    use crate::memory::Memory;

    const SECOND_NS: u64 = 1_000_000_000;

    struct Unheard;

    impl Stamps for Unheard {
        fn stamp(&self, _: Step) {}
    }

    /// Stores what is due, as the observer does, and returns how many texts there were.
    fn write(metadata: &Metadata, backend: &Memory) -> usize {
        let due = metadata.take_due(WallNs(metadata.clock.wall()));
        let count = due.values().map(Vec::len).sum();
        for (tenant, values) in due {
            let batch = Measured::batch(random_source(), 1, tenant, values);
            backend.submit(batch, None, Arc::new(Unheard), Box::new(|verdict| drop(verdict.unwrap()))).unwrap();
        }
        count
    }

    fn clock() -> Clock {
        Clock::manual(SECOND_NS, 1_700_000_000_000_000_000)
    }

    fn helps(metadata: &Metadata, tenant: &Tenant) -> Vec<String> {
        let entries = metadata.entries(tenant, Some("m"));
        entries.into_values().flatten().map(|entry| entry.help).collect()
    }

    #[test]
    fn what_was_learnt_is_written_once_and_comes_back() {
        let (backend, clock) = (Arc::<Memory>::default(), clock());
        let metadata = Metadata::new(backend.clone(), clock);
        let other = Tenant::new("other").unwrap();
        for _ in 0..3 {
            metadata.learn(&Tenant::default(), "m", MetricKind::Counter, "say \"m\"", "s");
            metadata.learn(&other, "m", MetricKind::Gauge, "theirs", "");
        }
        assert_eq!(write(&metadata, &backend), 2);
        let again = Metadata::new(backend.clone(), clock);
        let entry = Entry { kind: MetricKind::Counter, help: "say \"m\"".into(), unit: "s".into() };
        assert_eq!(again.entries(&Tenant::default(), None), BTreeMap::from([("m".to_owned(), vec![entry])]));
        assert_eq!(helps(&again, &other), ["theirs"]);
        assert!(again.entries(&other, Some("n")).is_empty());
        again.learn(&other, "m", MetricKind::Gauge, "theirs", "");
        assert_eq!(write(&again, &backend), 0);
        // Retention would take it away one day, so it is written again while it is sent.
        clock.advance(SECOND_NS * 24 * 3_600);
        again.learn(&other, "m", MetricKind::Gauge, "theirs", "");
        again.learn(&other, "m", MetricKind::Gauge, "theirs", "");
        assert_eq!(write(&again, &backend), 1);
    }

    #[test]
    fn senders_may_disagree_within_limits() {
        let (backend, clock) = (Arc::<Memory>::default(), clock());
        let metadata = Metadata::new(backend.clone(), clock);
        let tenant = Tenant::default();
        let learn = |help: &str| metadata.learn(&tenant, "m", MetricKind::Gauge, help, "");
        for _ in 0..2 {
            for at in 0..=VARIANTS_MAX {
                clock.advance(SECOND_NS);
                learn(&at.to_string());
            }
        }
        assert_eq!(write(&metadata, &backend), VARIANTS_MAX);
        // The one that was sent last comes first, and the one beyond the limit is not there.
        assert_eq!(helps(&metadata, &tenant), ["7", "6", "5", "4", "3", "2", "1", "0"]);
        clock.advance(SECOND_NS * 24 * 3_600 - 3 * SECOND_NS);
        learn("new");
        assert_eq!(helps(&metadata, &tenant), ["new", "7", "6", "5", "4", "3", "2", "1"]);
        write(&metadata, &backend);
        assert_eq!(helps(&Metadata::new(backend, clock), &tenant)[0], "new");
    }

    #[test]
    fn long_helps_are_cut_between_characters() {
        let metadata = Metadata::new(Arc::<Memory>::default(), clock());
        let tenant = Tenant::default();
        metadata.learn(&tenant, "m", MetricKind::Gauge, &"é".repeat(HELP_BYTES_MAX / 2), "");
        assert_eq!(helps(&metadata, &tenant)[0].len(), HELP_BYTES_MAX);
        metadata.learn(&tenant, "n", MetricKind::Gauge, &"é".repeat(HELP_BYTES_MAX / 2 + 1), "");
        let cut = &metadata.entries(&tenant, Some("n"))["n"][0].help;
        assert!(cut.len() <= HELP_BYTES_MAX && cut.ends_with("é…"), "{} bytes", cut.len());
    }
}
