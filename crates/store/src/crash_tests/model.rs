//! The model: the content of batches, and the answers of a store that accepted some of them. It uses maps from time to
//! value, and none of the store's code.

use std::collections::{BTreeMap, BTreeSet};

use ogive_hist::Histogram;
use ogive_model::{
    Batch, HistogramValue, Kind, Labels, Reason, Sample, SeriesData, SeriesDef, SeriesMeta, SourceId, Temporality,
    Tenant, TimeRange, Value, WallMs,
};

/// When lives begin; a multiple of every width that they use.
pub(super) const BEGIN_MS: i64 = 1_700_000_000_000;
/// Two for the default tenant and one for another.
const SOURCES: u64 = 3;
/// Names that deletions choose from; marks stay and show what was applied.
pub(super) const NAMES: [&str; 7] = ["cell", "gauge", "counter", "histogram", "log", "point", "points"];
/// Every sample of a batch is at most so much later than the batch was made, and its mark is later than all of them.
const SPAN: i64 = 16;

/// A batch: its number, and the second of the life in which it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SentBatch {
    pub(super) n: u64,
    pub(super) second: i64,
}

/// A sample of a batch.
#[derive(Clone)]
pub(super) struct Item {
    pub(super) def: SeriesDef,
    /// 0 is unknown.
    start_ms: i64,
    time_ms: i64,
    value: Value,
}

fn def(name: &str, label: String, kind: Kind, temporality: Temporality) -> SeriesDef {
    let labels = Labels::new([("__name__", name.to_owned()), ("l", label)]).unwrap();
    SeriesDef { labels, meta: SeriesMeta { kind, temporality, unit: "s".into(), width_ms: 1000 } }
}

pub(super) fn tenants() -> [Tenant; 2] {
    [Tenant::default(), Tenant::new("other").unwrap()]
}

impl SentBatch {
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
    pub(super) fn contents(self) -> Vec<Item> {
        let plain = self.plain().into_iter();
        let mut all: Vec<Item> = plain.map(|(def, time_ms, value)| Item { def, start_ms: 0, time_ms, value }).collect();
        all.extend(self.started());
        // Some have what the journal holds in columns, and nothing else.
        if self.n % 6 == 1 {
            all.retain(|item| item.start_ms == 0 && matches!(item.value, Value::Float(_)));
        }
        all
    }

    /// Those whose start is known.
    fn started(self) -> Vec<Item> {
        let n = self.n;
        // What the batches of some seconds send is mostly the same: points that come again.
        let group = self.second / 8 * 8;
        let at = |second: i64| BEGIN_MS + second * 1000;
        let (start_ms, time_ms) = (at(group - 8 - (n % 5 / 4) as i64), at(group));
        let value = group as u64 / 8 % 3 + n % 7 / 6 + 1;
        let mut cell = Histogram::<u64>::log_linear();
        cell.record_n(2.0, value);
        let delta = |name, kind| def(name, String::new(), kind, Temporality::Delta);
        let mut all = vec![
            Item { def: delta("point", Kind::Float), start_ms, time_ms, value: Value::Float(value as f64) },
            Item { def: delta("points", Kind::Histogram), start_ms, time_ms, value: Value::Histogram(Box::new(cell)) },
        ];
        // A fragment beside points, and a counter that shows when it began.
        if n % 4 == 1 {
            all.push(Item { start_ms: 0, ..all[0].clone() });
        }
        let counter = def("created", String::new(), Kind::Float, Temporality::Cumulative);
        all.push(Item { def: counter, start_ms: at(-60 + (n % 3) as i64), time_ms, value: Value::Float(value as f64) });
        all
    }

    /// Those of which no start is known.
    fn plain(self) -> Vec<(SeriesDef, i64, Value)> {
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
        for (at, Item { def, start_ms, time_ms, value }) in contents.into_iter().enumerate() {
            let index = if named(at) { declared + known.len() } else { series.len() };
            let [start_ns, time_ns] = [start_ms, time_ms].map(|ms| ms * 1_000_000);
            let start_ns = Some(start_ns).filter(|start| *start != 0);
            samples.push(Ok(Sample { series: index as u32, time_ns, start_ns, value }));
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
    pub(super) applied: BTreeSet<SentBatch>,
}

impl Deletion {
    fn hits(&self, sent: SentBatch, def: &SeriesDef, time_ms: i64) -> bool {
        self.tenant == sent.tenant()
            && def.labels.metric_name() == self.name
            && self.range.contains(WallMs(time_ms))
            && self.applied.contains(&sent)
    }
}

/// Everything that is at one time: the points once each, and what stays of all else.
#[derive(Default)]
struct Cell {
    points: BTreeMap<(i64, u64), Value>,
    rest: Option<(Value, i64)>,
}

impl Cell {
    fn take(&mut self, item: Item) {
        let Item { def, start_ms, value, .. } = item;
        let delta = def.meta.temporality == Temporality::Delta;
        let number = match &value {
            Value::Float(value) => *value as u64,
            Value::Histogram(value) => value.count,
            _ => unreachable!("texts are apart"),
        };
        if delta && start_ms != 0 {
            self.points.insert((start_ms, number), value);
            return;
        }
        match &mut self.rest {
            None => self.rest = Some((value, start_ms)),
            Some((held, _)) if delta => add(held, &value),
            Some((held, start)) => {
                let greater = match (&*held, &value) {
                    (Value::Float(held), Value::Float(value)) => (held, *start) < (value, start_ms),
                    (Value::Histogram(held), Value::Histogram(value)) => held.count < value.count,
                    _ => unreachable!("a series has one kind"),
                };
                if greater {
                    (*held, *start) = (value, start_ms);
                }
            }
        }
    }

    /// One value and its start, 0 when not all are known.
    fn whole(self) -> (Value, i64) {
        let points = self.points.into_iter().map(|((start, _), value)| (value, start));
        let mut all = self.rest.into_iter().chain(points);
        let mut whole = all.next().expect("something is there");
        for (value, start) in all {
            add(&mut whole.0, &value);
            whole.1 = whole.1.min(start);
        }
        whole
    }
}

fn add(held: &mut Value, value: &Value) {
    match (held, value) {
        (Value::Float(held), Value::Float(value)) => *held += value,
        (Value::Histogram(held), Value::Histogram(value)) => held.merge(value).expect("one scheme"),
        _ => unreachable!("a series has one kind"),
    }
}

enum Column {
    Cells(BTreeMap<i64, Cell>),
    Texts(BTreeMap<i64, Vec<String>>),
}

/// What a tenant's store answers for the times after `after_ms` that took `applied` and then had `deletions`.
pub(super) fn expected(
    tenant: usize,
    applied: &BTreeSet<SentBatch>,
    deletions: &[&Deletion],
    after_ms: i64,
) -> Vec<SeriesData> {
    let mut all: BTreeMap<(Labels, Kind), (SeriesMeta, Column)> = BTreeMap::new();
    for sent in applied.iter().filter(|sent| sent.tenant() == tenant) {
        for item in sent.contents() {
            let time = item.time_ms;
            if time <= after_ms || deletions.iter().any(|deletion| deletion.hits(*sent, &item.def, time)) {
                continue;
            }
            let empty = match item.def.meta.kind {
                Kind::Text => Column::Texts(BTreeMap::new()),
                Kind::Float | Kind::Histogram => Column::Cells(BTreeMap::new()),
            };
            let SeriesDef { labels, meta } = item.def.clone();
            let (_, column) = all.entry((labels, meta.kind)).or_insert((meta, empty));
            match (column, item.value) {
                (Column::Texts(held), Value::Text(value)) => held.entry(time).or_default().push(value),
                (Column::Cells(held), value) => held.entry(time).or_default().take(Item { value, ..item }),
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
        Column::Cells(held) => {
            let mut starts = Vec::new();
            for (time, cell) in held {
                let (value, start) = cell.whole();
                starts.push(start);
                match value {
                    Value::Float(value) => {
                        data.floats.times.push(time);
                        data.floats.values.push(value);
                    }
                    Value::Histogram(value) => {
                        data.histograms.times.push(time);
                        data.histograms.values.push(HistogramValue::Integer(*value));
                    }
                    _ => unreachable!("texts are apart"),
                }
            }
            if starts.iter().any(|start| *start != 0) {
                let floats = data.meta.kind == Kind::Float;
                *(if floats { &mut data.floats.starts } else { &mut data.histograms.starts }) = starts;
            }
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
