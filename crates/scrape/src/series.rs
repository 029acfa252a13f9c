//! From what a target shows to samples of named series, scrape after scrape.
//!
//! Invariants: a series that was there at the last scrape and is not at this one gets a staleness marker, once. A
//! series comes once a scrape at one time; what comes again is counted. Labels are read and rules applied when a series
//! is seen first; later it is known by the bytes that name it.
//! Limits: those of the job; what is above one fails the scrape as a whole.

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::time::Duration;

use ogive_hist::{Histogram, Scheme};
use ogive_model::STALE;
use ogive_model::{
    Batch, BatchId, Error, Exemplar, Kind, Labels, METRIC_NAME, Reason, Sample, SeriesDef, SeriesId, SeriesMeta,
    Temporality, Tenant, Value, WallNs,
};
use ogive_protocol::exposition::{Exposition, Point, Value as Shown};
use ogive_protocol::remote_write::Counts;

use super::config::Job;
use super::relabel::{self, LabelSet};

/// The series that report each scrape of a target.
const REPORTS: [&str; 5] = [
    "up",
    "scrape_duration_seconds",
    "scrape_samples_scraped",
    "scrape_samples_post_metric_relabeling",
    "scrape_series_added",
];

/// The rules for every series of a target.
pub(super) struct Rules<'a> {
    pub(super) job: &'a Job,
    /// The target's labels.
    pub(super) labels: &'a [(String, String)],
    pub(super) tenant: &'a Tenant,
    /// Between two scrapes: how far apart its samples are to be.
    pub(super) interval: Duration,
}

/// A series that was seen.
struct Entry {
    /// None when a rule drops it.
    id: Option<SeriesId>,
    kind: Kind,
    /// The store has it.
    is_known: bool,
    /// Its last sample was no staleness marker.
    is_live: bool,
    /// It has times of its own.
    is_timed: bool,
    round: u32,
    time: WallNs,
    /// Hashes of the latest events: a target shows each until another replaces it.
    events: Vec<u64>,
}

/// The series of a target.
pub(super) struct Cache {
    entries: HashMap<u128, Entry>,
    /// The entry that represents a series.
    owners: HashMap<SeriesId, u128>,
    /// Series from before the rules changed that were not seen since.
    former: HashMap<SeriesId, Kind>,
    round: u32,
    /// Series of the reports, and whether the store has them.
    reports: Vec<(SeriesDef, bool)>,
}

/// How a batch names an item's series.
#[derive(Clone, Debug, PartialEq)]
enum Name {
    Known(SeriesId),
    Declared(Result<SeriesDef, Error>),
}

/// The origin of an item.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Origin {
    /// Entry, and index of the point.
    Point(u128, usize),
    Report(usize),
    /// An event, a staleness marker.
    Other,
}

/// One sample on its way to the store.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    name: Name,
    origin: Origin,
    time: WallNs,
    start: Option<WallNs>,
    value: Result<Value, Reason>,
    is_flipped: bool,
}

/// A scrape as items.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) items: Vec<Item>,
    /// Points that the target showed.
    pub(super) scraped: u64,
    /// How many of them the rules keep.
    pub(super) kept: u64,
    /// Series that were not there at the last scrape.
    pub(super) added: u64,
    /// Points of a series that was there already at the same time.
    pub(super) duplicates: u64,
    /// Events that cannot be stored.
    pub(super) bad_events: u64,
}

/// The report about one scrape.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Report {
    pub(super) is_up: bool,
    pub(super) seconds: f64,
    pub(super) scraped: u64,
    pub(super) kept: u64,
    pub(super) added: u64,
}

impl Entry {
    /// Adds the events of `point`, a sample of the series with `labels`, that were not in the previous scrape.
    fn events(&mut self, point: &Point<'_>, labels: &Labels, time: WallNs, round: &mut Round) {
        let mut hashes = Vec::with_capacity(point.exemplars.len());
        for event in &point.exemplars {
            let hash = number_of(&(&event.labels, event.value.to_bits(), event.time_ms));
            hashes.push(hash);
            if self.events.contains(&hash) {
                continue;
            }
            let time = event.time_ms.map_or(Some(time), wall_from_ms);
            let made = Labels::new(event.labels.iter().map(|(name, value)| (name, value)));
            let text = made.and_then(|labels| Exemplar { labels, value: event.value }.to_text());
            let (Some(time), Ok(text)) = (time, text) else {
                round.bad_events += 1;
                continue;
            };
            round.items.push(Item {
                name: Name::Declared(Ok(Exemplar::series(labels))),
                origin: Origin::Other,
                time,
                start: None,
                value: Ok(Value::Text(text)),
                is_flipped: false,
            });
        }
        self.events = hashes;
    }
}

impl Cache {
    pub(super) fn new(labels: &[(String, String)], interval: Duration) -> Self {
        let width_ms = milliseconds(interval);
        let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms };
        let of = |name: &str| {
            let others = labels.iter().filter(|(label, _)| label != METRIC_NAME);
            let pairs = others.map(|(name, value)| (&**name, &**value)).chain([(METRIC_NAME, name)]);
            SeriesDef::new(pairs, meta.clone()).ok().map(|def| (def, false))
        };
        Self {
            entries: HashMap::new(),
            owners: HashMap::new(),
            former: HashMap::new(),
            round: 0,
            reports: REPORTS.into_iter().filter_map(of).collect(),
        }
    }

    /// The rules changed: every series is processed again, and those that are then missing end.
    pub(super) fn renew(&mut self) {
        let live = self.entries.drain().filter(|(_, entry)| entry.is_live && entry.is_known);
        self.former.extend(live.filter_map(|(_, entry)| entry.id.map(|id| (id, entry.kind))));
        self.owners.clear();
    }

    /// The items of a scrape at `now`.
    pub(super) fn take(&mut self, rules: &Rules<'_>, read: &Exposition<'_>, now: WallNs) -> Result<Round, String> {
        self.round = self.round.wrapping_add(1);
        let mut round = Round { items: Vec::with_capacity(read.points.len() + REPORTS.len()), ..Round::default() };
        for (at, point) in read.points.iter().enumerate() {
            let is_native = matches!(point.value, Shown::Histogram(_));
            let is_wanted = if is_native {
                rules.job.natives
            } else {
                !point.has_native || !rules.job.natives || rules.job.classics
            };
            if is_wanted {
                self.point(rules, at, point, now, &mut round)?;
            }
        }
        self.end_missing(rules, now, &mut round);
        Ok(round)
    }

    fn point(
        &mut self,
        rules: &Rules<'_>,
        at: usize,
        point: &Point<'_>,
        now: WallNs,
        round: &mut Round,
    ) -> Result<(), String> {
        let kind = if matches!(point.value, Shown::Histogram(_)) { Kind::Histogram } else { Kind::Float };
        let key = point.series.key() ^ u128::from(kind as u8).rotate_right(8);
        let own_time = point.time_ms.filter(|_| rules.job.honor_timestamps);
        let time = own_time.map_or(Some(now), wall_from_ms);
        let time = time.ok_or("a sample's time is beyond what can be stored")?;
        round.scraped += 1;
        let mut name = None;
        if !self.entries.contains_key(&key) {
            let Some(found) = self.see(rules, key, point, kind, round)? else { return Ok(()) };
            name = Some(found);
        }
        let entry = self.entries.get_mut(&key).expect("it was seen");
        let came_already = entry.round == self.round && name.is_none();
        if came_already && entry.id.is_some() && entry.time == time {
            round.duplicates += 1;
            return Ok(());
        }
        entry.round = self.round;
        let Some(id) = entry.id else { return Ok(()) };
        round.kept += 1;
        let limit = rules.job.limits.samples;
        if limit > 0 && round.kept > limit {
            return Err(format!("the target has more than sample_limit {limit} samples"));
        }
        round.added += u64::from(!entry.is_live);
        (entry.is_live, entry.is_timed, entry.time) = (true, own_time.is_some(), time);
        let name = match name {
            Some(name) => name,
            None if entry.is_known => Name::Known(id),
            None => Name::Declared(declare(rules, point, kind)?.expect("the rules kept it before")),
        };
        let start = point.start_ms.and_then(wall_from_ms).filter(|start| *start < time);
        let value = value_of(point, rules.job.limits.bins)?;
        if !point.exemplars.is_empty() {
            let declared = match &name {
                Name::Declared(declared) => declared.clone(),
                Name::Known(_) => declare(rules, point, kind)?.expect("the rules kept it before"),
            };
            if let Ok(def) = declared {
                entry.events(point, &def.labels, time, round);
            }
        }
        round.items.push(Item { name, origin: Origin::Point(key, at), time, start, value, is_flipped: false });
        Ok(())
    }

    /// Processes a new series; None when a rule drops it, or another entry represents it.
    fn see(
        &mut self,
        rules: &Rules<'_>,
        key: u128,
        point: &Point<'_>,
        kind: Kind,
        round: &mut Round,
    ) -> Result<Option<Name>, String> {
        let declared = declare(rules, point, kind)?;
        let id = declared.as_ref().and_then(|declared| declared.as_ref().ok()).map(|def| def.id(rules.tenant));
        if let Some(id) = id {
            if let Some(owner) = self.owners.get(&id).copied() {
                if self.entries.get(&owner).is_some_and(|entry| entry.round == self.round) {
                    round.duplicates += 1;
                    return Ok(None);
                }
                // The same series, written in another way.
                self.entries.remove(&owner);
            }
            self.owners.insert(id, key);
        }
        let is_former = id.is_some_and(|id| self.former.remove(&id).is_some());
        let entry = Entry {
            // A series with invalid labels is declared each time, and rejected with its reason.
            id: id.or_else(|| declared.as_ref().map(|_| SeriesId(key))),
            kind,
            is_known: false,
            is_live: is_former,
            is_timed: false,
            round: self.round,
            time: WallNs::MIN,
            events: Vec::new(),
        };
        self.entries.insert(key, entry);
        Ok(declared.map(Name::Declared))
    }

    /// Ends the series that are not there any more.
    fn end_missing(&mut self, rules: &Rules<'_>, now: WallNs, round: &mut Round) {
        let (number, tracks) = (self.round, rules.job.track_timestamps);
        let (owners, items) = (&mut self.owners, &mut round.items);
        self.entries.retain(|key, entry| {
            if entry.round == number {
                return true;
            }
            if let Some(id) = entry.id
                && owners.get(&id) == Some(key)
            {
                owners.remove(&id);
                if entry.is_live && entry.is_known && (!entry.is_timed || tracks) {
                    items.push(stale(id, entry.kind, now));
                }
            }
            false
        });
        items.extend(self.former.drain().map(|(id, kind)| stale(id, kind, now)));
    }

    /// The scrape failed, or the target was removed: every series ends until it is seen again.
    pub(super) fn end_all(&mut self, tracks: bool, now: WallNs) -> Vec<Item> {
        let mut out = Vec::new();
        for entry in self.entries.values_mut().filter(|entry| entry.is_live) {
            let is_tracked = !entry.is_timed || tracks;
            if let Some(id) = entry.id.filter(|_| entry.is_known && is_tracked) {
                out.push(stale(id, entry.kind, now));
            }
            entry.is_live = false;
        }
        out.extend(self.former.drain().map(|(id, kind)| stale(id, kind, now)));
        out
    }

    /// The report about the scrape; None ends the report series.
    pub(super) fn report(&self, tenant: &Tenant, report: Option<Report>, now: WallNs) -> Vec<Item> {
        let values = match report {
            Some(Report { is_up, seconds, scraped, kept, added }) => {
                [f64::from(u8::from(is_up)), seconds, scraped as f64, kept as f64, added as f64]
            }
            None => [f64::from_bits(STALE); REPORTS.len()],
        };
        // A series that the store never received need not be ended.
        let reported =
            self.reports.iter().enumerate().zip(values).filter(|((_, (_, known)), _)| report.is_some() || *known);
        reported
            .map(|((at, (def, is_known)), value)| Item {
                name: if *is_known { Name::Known(def.id(tenant)) } else { Name::Declared(Ok(def.clone())) },
                origin: Origin::Report(at),
                time: now,
                start: None,
                value: Ok(Value::Float(value)),
                is_flipped: false,
            })
            .collect()
    }

    /// The store accepted all of `items` except those in `rejected`: from now on it knows their series.
    pub(super) fn stored(&mut self, items: &[Item], rejected: &[(u32, Reason)]) {
        let is_rejected: HashSet<u32> = rejected.iter().map(|(index, _)| *index).collect();
        for (_, item) in (0..).zip(items).filter(|(index, _)| !is_rejected.contains(index)) {
            match item.origin {
                Origin::Point(key, _) => {
                    if let Some(entry) = self.entries.get_mut(&key) {
                        entry.is_known = true;
                    }
                }
                Origin::Report(at) => self.reports[at].1 = true,
                Origin::Other => {}
            }
        }
    }

    /// The store has forgotten the series of some of `items`, by index among those that name a known one: they are
    /// declared again. An item that only ends a forgotten series is left out.
    pub(super) fn declare_again(
        &mut self,
        rules: &Rules<'_>,
        read: Option<&Exposition<'_>>,
        items: &mut Vec<Item>,
        unknown: &[u32],
    ) {
        let known: Vec<usize> = (0..items.len()).filter(|at| matches!(items[*at].name, Name::Known(_))).collect();
        let mut gone = Vec::new();
        for at in unknown.iter().filter_map(|index| known.get(*index as usize)) {
            let declared = match items[*at].origin {
                Origin::Point(key, index) => read.and_then(|read| {
                    self.entries.get_mut(&key)?.is_known = false;
                    let point = read.points.get(index)?;
                    let kind = self.entries[&key].kind;
                    declare(rules, point, kind).ok().flatten()
                }),
                Origin::Report(report) => {
                    self.reports[report].1 = false;
                    Some(Ok(self.reports[report].0.clone()))
                }
                Origin::Other => None,
            };
            match declared {
                Some(declared) => items[*at].name = Name::Declared(declared),
                None => gone.push(*at),
            }
        }
        gone.sort_unstable();
        gone.iter().rev().for_each(|at| drop(items.remove(*at)));
    }
}

/// The rejected items whose series is stored with another temporality than declared, now declared with
/// that one: a metric may have changed its type, or come by another protocol before.
pub(super) fn flipped(items: &[Item], rejected: &[(u32, Reason)]) -> Vec<Item> {
    let conflicts = rejected.iter().filter(|(_, reason)| *reason == Reason::KindConflict);
    let of = |(index, _): &(u32, Reason)| {
        let mut item = items.get(*index as usize).filter(|item| !item.is_flipped)?.clone();
        let Name::Declared(Ok(def)) = &mut item.name else { return None };
        def.meta.temporality = match def.meta.temporality {
            Temporality::Gauge => Temporality::Cumulative,
            Temporality::Cumulative | Temporality::Delta => Temporality::Gauge,
        };
        item.is_flipped = true;
        Some(item)
    };
    conflicts.filter_map(of).collect()
}

/// The items as one batch.
pub(super) fn batch(items: &[Item], tenant: &Tenant, BatchId { source, sequence }: BatchId) -> Batch {
    let declared = items.iter().filter(|item| matches!(item.name, Name::Declared(_))).count() as u32;
    let mut out = Batch { source, sequence, tenant: tenant.clone(), ..Batch::default() };
    for item in items {
        let series = match &item.name {
            Name::Declared(def) => {
                out.series.push(def.clone());
                out.series.len() as u32 - 1
            }
            Name::Known(id) => {
                out.known.push(*id);
                declared + out.known.len() as u32 - 1
            }
        };
        let (time_ns, start_ns) = (item.time.0, item.start.map(|start| start.0));
        out.samples.push(item.value.clone().map(|value| Sample { series, time_ns, start_ns, value }));
    }
    out
}

/// The series of `point` after the rules; None when one of them drops it. A label limit fails the scrape.
fn declare(rules: &Rules<'_>, point: &Point<'_>, kind: Kind) -> Result<Option<Result<SeriesDef, Error>>, String> {
    let mut labels = LabelSet::default();
    for (name, value) in point.series.labels() {
        if !labels.get(&name).is_empty() {
            return Ok(Some(Err(Error::DuplicateLabel { name: name.into_owned() })));
        }
        labels.push(name.into_owned(), value.into_owned());
    }
    join(&mut labels, rules.labels, rules.job.honor_labels);
    if !relabel::apply(&rules.job.metric_relabel, &mut labels) || labels.len() == 0 {
        return Ok(None);
    }
    check(&labels, rules.job)?;
    let width_ms = milliseconds(rules.interval);
    let meta = SeriesMeta { kind, temporality: point.temporality, unit: String::new(), width_ms };
    Ok(Some(SeriesDef::new(labels.iter(), meta)))
}

fn milliseconds(interval: Duration) -> u32 {
    u32::try_from(interval.as_millis()).unwrap_or(u32::MAX)
}

/// Adds the target's labels to those of a sample. On a conflict the sample's label stays if `honors` is true; otherwise
/// it is renamed to `exported_`.
fn join(labels: &mut LabelSet, target: &[(String, String)], honors: bool) {
    for (name, value) in target {
        let own = labels.get(name).to_owned();
        if honors && !own.is_empty() {
            continue;
        }
        labels.set(name, value);
        if own.is_empty() {
            continue;
        }
        let mut moved = format!("exported_{name}");
        while !labels.get(&moved).is_empty() || target.iter().any(|(name, _)| *name == moved) {
            moved.insert_str(0, "exported_");
        }
        labels.set(&moved, &own);
    }
}

fn check(labels: &LabelSet, job: &Job) -> Result<(), String> {
    let limits = &job.limits;
    let (count, limit) = (labels.len() as u64, limits.labels);
    let metric = labels.get(METRIC_NAME);
    if limit > 0 && count > limit {
        return Err(format!("a series of {metric} has {count} labels, above label_limit {limit}"));
    }
    for (name, value) in labels.iter() {
        for (what, length, limit) in [
            ("label_name_length_limit", name.len() as u64, limits.label_name_bytes),
            ("label_value_length_limit", value.len() as u64, limits.label_value_bytes),
        ] {
            if limit > 0 && length > limit {
                return Err(format!("label {name} of a series of {metric} has {length} bytes, above {what} {limit}"));
            }
        }
    }
    Ok(())
}

fn value_of(point: &Point<'_>, bins_max: u64) -> Result<Result<Value, Reason>, String> {
    let (value, bins) = match &point.value {
        Shown::Float(value) => return Ok(Ok(Value::Float(*value))),
        Shown::Histogram(Err(_)) => return Ok(Err(Reason::HistogramInvalid)),
        Shown::Histogram(Ok(Counts::Integer(histogram))) => {
            (Value::Histogram(histogram.clone()), histogram.negative.len() + histogram.positive.len())
        }
        Shown::Histogram(Ok(Counts::Float(histogram))) => {
            (Value::FloatHistogram(histogram.clone()), histogram.negative.len() + histogram.positive.len())
        }
    };
    if bins_max > 0 && bins as u64 > bins_max {
        return Err(format!("a histogram has {bins} bins, above native_histogram_bucket_limit {bins_max}"));
    }
    Ok(Ok(value))
}

/// The instant of a page's milliseconds; None beyond what can be stored.
fn wall_from_ms(ms: i64) -> Option<WallNs> {
    ms.checked_mul(1_000_000).map(WallNs)
}

/// The end of a series.
fn stale(id: SeriesId, kind: Kind, time: WallNs) -> Item {
    let marker = f64::from_bits(STALE);
    let value = match kind {
        Kind::Histogram => {
            let mut histogram = Histogram::new(Scheme::Exp2 { scale: 0 });
            histogram.sum = Some(marker);
            Value::Histogram(Box::new(histogram))
        }
        _ => Value::Float(marker),
    };
    Item { name: Name::Known(id), origin: Origin::Other, time, start: None, value: Ok(value), is_flipped: false }
}

/// A number for a target: where in an interval it is scraped, and whether it is the same as another.
pub(super) fn number_of(what: &impl Hash) -> u64 {
    // The default hasher's keys are fixed: a restart scrapes at the same offsets.
    let mut hasher = std::hash::DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}
