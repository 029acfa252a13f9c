//! What batches hold, and what a store that took some of them must answer: maps from time to value, and nothing of the store's
//! own code.

use std::collections::{BTreeMap, BTreeSet};

use ogive_hist::Histogram;
use ogive_model::{
    Batch, HistogramValue, Kind, Labels, Reason, Sample, SeriesData, SeriesDef, SeriesMeta, SourceId, Temporality,
    Tenant, TimeRange, Value,
};

/// When lives begin; a multiple of every width that they use.
pub(super) const BEGIN_MS: i64 = 1_700_000_000_000;
/// Two for the default tenant and one for another.
const SOURCES: u64 = 3;
/// Names that deletions choose from; marks stay, they tell what was applied.
pub(super) const NAMES: [&str; 5] = ["cell", "gauge", "counter", "histogram", "log"];
/// Every sample of a batch is at most so much later than the batch was made, and its mark is later than all of them.
const SPAN: i64 = 16;

/// SplitMix64, so that a life follows from its seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// A batch: its number, and the second of the life in which it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sent {
    pub(super) n: u64,
    pub(super) second: i64,
}

fn def(name: &str, label: String, kind: Kind, temporality: Temporality) -> SeriesDef {
    let labels = Labels::new([("__name__", name.to_owned()), ("l", label)]).unwrap();
    SeriesDef { labels, meta: SeriesMeta { kind, temporality, unit: "s".into(), width_ms: 1000 } }
}

pub(super) fn tenants() -> [Tenant; 2] {
    [Tenant::default(), Tenant::new("other").unwrap()]
}

impl Sent {
    /// The time of its mark: no other batch has it, and no sample of the batch is later.
    pub(super) fn mark_ms(self) -> i64 {
        assert!(self.n < 1000, "two marks could meet");
        BEGIN_MS + (self.second + SPAN + 4) * 1000 + self.n as i64
    }

    /// Which of [`tenants`] it is of.
    pub(super) fn tenant(self) -> usize {
        usize::from(self.n % SOURCES == 2)
    }

    /// Its series and samples that a store accepts.
    pub(super) fn contents(self) -> Vec<(SeriesDef, i64, Value)> {
        let n = self.n;
        let at = |second: i64| BEGIN_MS + (self.second + second) * 1000;
        let fresh = (n * 5 % SPAN as u64) as i64;
        let late = if n.is_multiple_of(4) { fresh - 70 } else { fresh };
        let mut cell = Histogram::<u64>::log_linear();
        cell.record_n(0.5 + (n % 7) as f64, n % 3 + 1);
        let mut native = Histogram::<u64>::log_linear();
        native.record_n(1.0, n + 1);
        let mut all = vec![
            (def("mark", String::new(), Kind::Float, Temporality::Delta), self.mark_ms(), Value::Float(1.0)),
            // Many batches share a cell, in any order.
            (
                def("cell", String::new(), Kind::Float, Temporality::Delta),
                at(late / 5 * 5),
                Value::Float((n % 9) as f64),
            ),
            (
                def("histogram", String::new(), Kind::Histogram, Temporality::Delta),
                at(late / 5 * 5),
                Value::Histogram(Box::new(cell)),
            ),
            (def("log", String::new(), Kind::Text, Temporality::Gauge), at(fresh), Value::Text(format!("batch {n}"))),
            // Rewritten again and again: the greater value stays.
            (
                def("gauge", (n % 2).to_string(), Kind::Float, Temporality::Gauge),
                at(fresh / 4 * 4),
                Value::Float((n * 37 % 101) as f64),
            ),
        ];
        match n % 6 {
            1 => all.push((
                def("counter", (n % 4).to_string(), Kind::Float, Temporality::Cumulative),
                at(late),
                Value::Float(n as f64),
            )),
            4 => all.push((
                def("native", String::new(), Kind::Histogram, Temporality::Cumulative),
                at(fresh / 8 * 8),
                Value::Histogram(Box::new(native)),
            )),
            _ => {}
        }
        all
    }

    /// The batch as it is sent, with some that a store refuses. `by_identity`: most series are named and not declared.
    pub(super) fn batch(self, by_identity: bool) -> Batch {
        let tenant = tenants()[self.tenant()].clone();
        let contents = self.contents();
        let named = |at: usize| by_identity && at > 0;
        let declared = contents.iter().enumerate().filter(|(at, _)| !named(*at)).count();
        let (mut series, mut known, mut samples) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (def, time_ms, value)) in contents.into_iter().enumerate() {
            let index = if named(at) { declared + known.len() } else { series.len() };
            samples.push(Ok(Sample { series: index as u32, time_ns: time_ms * 1_000_000, start_ns: None, value }));
            if named(at) { known.push(def.id(&tenant)) } else { series.push(Ok(def)) }
        }
        if self.n % 5 == 2 && !by_identity {
            series.push(Ok(def("refused", self.n.to_string(), Kind::Float, Temporality::Gauge)));
            let far = (BEGIN_MS + 1_000_000_000_000) * 1_000_000;
            samples.push(Ok(Sample {
                series: series.len() as u32 - 1,
                time_ns: far,
                start_ns: None,
                value: Value::Float(1.0),
            }));
            samples.insert(0, Err(Reason::HistogramInvalid));
        }
        let (source, sequence) = (SourceId(u128::from(self.n % SOURCES)), self.n / SOURCES);
        Batch { source, sequence, tenant, series, known, samples }
    }
}

/// Samples that somebody deleted: those of `name` in `range` of the batches that were there.
#[derive(Clone, Debug)]
pub(super) struct Deletion {
    pub(super) tenant: usize,
    pub(super) name: &'static str,
    pub(super) range: TimeRange,
    pub(super) applied: BTreeSet<Sent>,
}

impl Deletion {
    fn hits(&self, sent: Sent, def: &SeriesDef, time_ms: i64) -> bool {
        self.tenant == sent.tenant()
            && def.labels.metric_name() == self.name
            && self.range.contains(time_ms)
            && self.applied.contains(&sent)
    }
}

enum Column {
    Floats(BTreeMap<i64, f64>),
    Histograms(BTreeMap<i64, Histogram<u64>>),
    Texts(BTreeMap<i64, Vec<String>>),
}

/// What a tenant's store answers for the times after `after_ms` that took `applied` and then had `deletions`.
pub(super) fn expected(
    tenant: usize,
    applied: &BTreeSet<Sent>,
    deletions: &[&Deletion],
    after_ms: i64,
) -> Vec<SeriesData> {
    let mut all: BTreeMap<(Labels, Kind), (SeriesMeta, Column)> = BTreeMap::new();
    for sent in applied.iter().filter(|sent| sent.tenant() == tenant) {
        for (def, time, value) in sent.contents() {
            if time <= after_ms || deletions.iter().any(|deletion| deletion.hits(*sent, &def, time)) {
                continue;
            }
            let delta = def.meta.temporality == Temporality::Delta;
            let empty = match def.meta.kind {
                Kind::Float => Column::Floats(BTreeMap::new()),
                Kind::Histogram => Column::Histograms(BTreeMap::new()),
                Kind::Text => Column::Texts(BTreeMap::new()),
            };
            let (_, column) = all.entry((def.labels, def.meta.kind)).or_insert((def.meta, empty));
            match (column, value) {
                (Column::Floats(held), Value::Float(value)) => {
                    let join = |held: &mut f64| *held = if delta { *held + value } else { held.max(value) };
                    held.entry(time).and_modify(join).or_insert(value);
                }
                (Column::Histograms(held), Value::Histogram(value)) => {
                    let join = |held: &mut Histogram<u64>| match delta {
                        true => held.merge(&value).expect("one scheme"),
                        false if value.count > held.count => *held = (*value).clone(),
                        false => {}
                    };
                    held.entry(time).and_modify(join).or_insert_with(|| (*value).clone());
                }
                (Column::Texts(held), Value::Text(value)) => held.entry(time).or_default().push(value),
                _ => unreachable!("a series has one kind"),
            }
        }
    }
    all.into_iter().map(|((labels, _), (meta, column))| data_of(labels, meta, column)).collect()
}

fn data_of(labels: Labels, meta: SeriesMeta, column: Column) -> SeriesData {
    let mut data = crate::testing::empty(labels, meta.kind, meta.temporality);
    data.meta = meta;
    match column {
        Column::Floats(held) => (data.floats.times, data.floats.values) = held.into_iter().unzip(),
        Column::Histograms(held) => {
            (data.histograms.times, data.histograms.values) =
                held.into_iter().map(|(time, value)| (time, HistogramValue::Integer(value))).unzip();
        }
        Column::Texts(held) => {
            for (time, mut values) in held {
                values.sort_unstable();
                for value in values {
                    data.texts.times.push(time);
                    data.texts.values.push(value);
                }
            }
        }
    }
    data
}

/// What all samples of each float series and of each series of delta histograms come to: rollups must come to the same.
pub(super) fn totals(all: &[SeriesData]) -> Vec<String> {
    let floats = |data: &SeriesData| {
        let (mut count, mut sum, mut least, mut greatest) = (0, 0.0, f64::INFINITY, f64::NEG_INFINITY);
        for (at, value) in data.floats.values.iter().enumerate() {
            let (more, plus, min, max) = data
                .floats
                .aggregates
                .get(at)
                .map_or((1, *value, *value, *value), |one| (one.count, one.sum, one.min, one.max));
            (count, sum, least, greatest) = (count + more, sum + plus, min.min(least), max.max(greatest));
        }
        format!("{} {count} {sum} {least} {greatest}", data.labels)
    };
    let histograms = |data: &SeriesData| {
        let mut whole: Option<Histogram<u64>> = None;
        for value in &data.histograms.values {
            let HistogramValue::Integer(value) = value else { panic!("float counts were never sent") };
            match &mut whole {
                Some(whole) => whole.merge(value).expect("one scheme"),
                None => whole = Some(value.clone()),
            }
        }
        format!("{} {whole:?}", data.labels)
    };
    let one = |data: &SeriesData| match (data.meta.kind, data.meta.temporality) {
        (Kind::Float, _) => Some(floats(data)),
        (Kind::Histogram, Temporality::Delta) => Some(histograms(data)),
        _ => None,
    };
    all.iter().filter_map(one).collect()
}
