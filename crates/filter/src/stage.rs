//! A batch through the filters.
//!
//! Invariants: the samples that are no lines keep their order and their series; a line is in exactly one of the batches that come of
//! it, or in none and counted. Batches for other tenants have the source and the sequence of the first: sequences are per tenant.
//! Limits: [`EVENT_BYTES_MAX`] of lines that are joined, [`KNOWN_MAX`] series whose labels are remembered for senders that name series
//! by their identity.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use ogive_model::{
    Batch, Exemplar, Kind, Labels, Reason, Sample, SeriesDef, SeriesId, SeriesMeta, Temporality, Tenant, Value,
};
use ogive_search::Line;

use crate::config::{DropRule, FILTERS_MAX, Filter, OWN_PREFIX};
use crate::fields::Fields;
use crate::measure::{Cells, Measured, MeasuredSample, value};
use crate::parse::LINE_BYTES_MAX;
use crate::tally::{Outcome, Tally};

/// 256 KiB of lines that are joined: a stack trace of a thousand frames. Further lines start a new one.
pub const EVENT_BYTES_MAX: usize = 256 << 10;

/// 65,536 series of lines: 20 MB of labels.
const KNOWN_MAX: usize = 1 << 16;

/// The filters, in their order.
#[derive(Debug, Default)]
pub struct Stage {
    filters: Vec<Filter>,
    /// Labels of series of lines by their identity.
    known: Mutex<HashMap<SeriesId, Labels>>,
}

/// The result for a batch.
#[derive(Debug)]
pub enum Filtered {
    /// No filter has anything to do with it.
    Untouched(Batch),
    /// Lines of series that are named by an identity which is not known here: their indexes into the batch's `known`.
    Unknown(Vec<u32>),
    /// The batches that are to be stored instead.
    Changed(Vec<Part>),
}

/// A batch, and for each of its samples the index of its original; None for samples made of numbers.
#[derive(Debug)]
pub struct Part {
    /// To be stored.
    pub batch: Batch,
    /// As long as the batch's samples.
    pub origins: Vec<Option<u32>>,
    /// For each of the batch's `known` its index into the original `known`.
    pub known: Vec<u32>,
}

/// A line on its way.
#[derive(Debug)]
pub(crate) struct Event {
    sample: usize,
    series: usize,
    time_ns: i64,
    pub(crate) text: String,
    pub(crate) labels: Labels,
    is_relabeled: bool,
    is_joined: bool,
    tenant: u16,
    pub(crate) is_stored: bool,
}

/// State shared by the lines of a batch.
struct Work {
    tenants: Vec<Tenant>,
    cells: Cells,
    fields: Fields,
}

impl Stage {
    /// A stage with these filters.
    ///
    /// # Errors
    /// A sentence when a name occurs twice, or there are too many.
    pub fn new(filters: Vec<Filter>) -> Result<Self, String> {
        if filters.len() > FILTERS_MAX {
            return Err(format!("there are more than {FILTERS_MAX} filters"));
        }
        let mut names = BTreeMap::new();
        if let Some(twice) = filters.iter().find(|filter| names.insert(&filter.name, ()).is_some()) {
            return Err(format!("there are two filters {:?}", twice.name));
        }
        let mut filters = filters;
        let measures = filters.iter_mut().flat_map(|filter| &mut filter.measures);
        measures.enumerate().for_each(|(at, measure)| measure.id = at as u32);
        Ok(Self { filters, known: Mutex::default() })
    }

    /// Whether there is no filter.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Each filter's name and counts.
    pub fn tallies(&self) -> impl Iterator<Item = (&str, &Tally)> + '_ {
        self.filters.iter().map(|filter| (&*filter.name, &filter.tally))
    }

    /// Bytes of the labels that are remembered.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().map(|labels| labels.memory_bytes() + size_of::<(SeriesId, Labels)>()).sum()
    }

    /// A batch through the filters.
    #[must_use]
    pub fn apply(&self, batch: Batch) -> Filtered {
        let is_line = |sample: &Result<Sample, Reason>| matches!(sample, Ok(Sample { value: Value::Text(_), .. }));
        if self.filters.is_empty() || !batch.samples.iter().any(is_line) {
            return Filtered::Untouched(batch);
        }
        let series = match self.series_of_lines(&batch) {
            Ok(series) => series,
            Err(unknown) => return Filtered::Unknown(unknown),
        };
        let applies = self.applies(&series);
        if applies.iter().all(Vec::is_empty) {
            return Filtered::Untouched(batch);
        }
        self.filtered(batch, &series, &applies)
    }

    /// The labels of every series that has lines for filters, by index; or the unknown identities.
    fn series_of_lines(&self, batch: &Batch) -> Result<Vec<Option<Labels>>, Vec<u32>> {
        let mut out: Vec<Option<Labels>> = vec![None; batch.series.len() + batch.known.len()];
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_line =
            |labels: &Labels| !labels.metric_name().starts_with(OWN_PREFIX) && Exemplar::explained(labels).is_none();
        for (at, series) in batch.series.iter().enumerate() {
            let Ok(SeriesDef { labels, meta: SeriesMeta { kind: Kind::Text, .. } }) = series else { continue };
            if known.len() >= KNOWN_MAX {
                known.clear();
            }
            known.insert(SeriesId::of(&batch.tenant, Kind::Text, labels), labels.clone());
            out[at] = Some(labels.clone()).filter(is_line);
        }
        let mut unknown = std::collections::BTreeSet::new();
        for sample in batch.samples.iter().flatten() {
            let at = sample.series as usize;
            if !matches!(sample.value, Value::Text(_)) || at < batch.series.len() || at >= out.len() {
                continue;
            }
            match known.get(&batch.known[at - batch.series.len()]) {
                Some(labels) => out[at] = Some(labels.clone()).filter(is_line),
                None => drop(unknown.insert((at - batch.series.len()) as u32)),
            }
        }
        if unknown.is_empty() { Ok(out) } else { Err(unknown.into_iter().collect()) }
    }

    /// For each series the filters that may match a line of it, by their conditions on labels.
    fn applies(&self, series: &[Option<Labels>]) -> Vec<Vec<usize>> {
        let matchers: Vec<_> = self.filters.iter().map(|filter| filter.wanted.matchers()).collect();
        let of = |labels: &Labels| {
            let fits = |at: &usize| matchers[*at].iter().all(|matcher| matcher.matches(labels.get(&matcher.name)));
            (0..self.filters.len()).filter(fits).collect()
        };
        series.iter().map(|labels| labels.as_ref().map(of).unwrap_or_default()).collect()
    }

    fn filtered(&self, batch: Batch, series: &[Option<Labels>], applies: &[Vec<usize>]) -> Filtered {
        let Batch { source, sequence, tenant, series: declared, known, samples } = batch;
        let mut work = Work { tenants: vec![tenant], cells: Cells::default(), fields: Fields::default() };
        let (mut events, mut others) = (Vec::new(), Vec::new());
        for (at, sample) in samples.into_iter().enumerate() {
            match sample {
                Ok(Sample { series: of, time_ns, value: Value::Text(text), .. })
                    if applies.get(of as usize).is_some_and(|filters| !filters.is_empty()) =>
                {
                    let labels = series[of as usize].clone().expect("a series that filters apply to has labels");
                    events.push(Event::new(at, of as usize, time_ns, text, labels));
                }
                other => others.push((at, other)),
            }
        }
        self.join(&mut events);
        for event in events.iter_mut().filter(|event| !event.is_joined) {
            self.run(event, Some(&applies[event.series]), &mut work);
        }
        let mut out = Outgoing { declared, known, parts: Vec::new() };
        let mut events = events.into_iter().filter(|event| !event.is_joined && event.is_stored).peekable();
        for (at, sample) in others {
            while let Some(event) = events.next_if(|event| event.sample < at) {
                out.event(event);
            }
            out.other(at, sample);
        }
        events.for_each(|event| out.event(event));
        work.cells.finish().for_each(|made| out.made(made));
        Filtered::Changed(out.finish(|batch| Batch { source, sequence, ..batch }, &work.tenants))
    }

    /// Puts the lines that go on together with the line before them, of the same series.
    fn join(&self, events: &mut [Event]) {
        for filter in &self.filters {
            let Some(join) = &filter.join else { continue };
            let mut heads: HashMap<usize, usize> = HashMap::new();
            for at in 0..events.len() {
                let event = &events[at];
                if event.is_joined {
                    continue;
                }
                let head = heads.get(&event.series).copied();
                if let Some(head) = head
                    && join.is_match(&event.text)
                    && events[head].text.len() + event.text.len() < EVENT_BYTES_MAX
                {
                    let more = std::mem::take(&mut events[at].text);
                    events[at].is_joined = true;
                    events[head].text.push('\n');
                    events[head].text.push_str(&more);
                    filter.tally.add(Outcome::Joined, 1);
                } else if filter.wanted.matches(&Line::new(&event.labels, &event.text)) {
                    heads.insert(event.series, at);
                } else {
                    heads.remove(&event.series);
                }
            }
        }
    }

    /// A line through the filters `applies`, or all.
    fn run(&self, event: &mut Event, applies: Option<&[usize]>, work: &mut Work) {
        work.fields.clear();
        for (at, filter) in self.filters.iter().enumerate() {
            let may = event.is_relabeled || applies.is_none_or(|applies| applies.contains(&at));
            if may && filter.takes(event, &work.fields) && !filter.run(event, work) {
                return;
            }
        }
    }

    /// The fields that the filters find in a line, and the resulting line.
    pub(crate) fn explain(&self, labels: Labels, text: String) -> (Event, Fields) {
        let mut work = Work { tenants: vec![Tenant::default()], cells: Cells::default(), fields: Fields::default() };
        let mut event = Event::new(0, 0, 0, text, labels);
        self.run(&mut event, None, &mut work);
        (event, work.fields)
    }
}

impl Event {
    fn new(sample: usize, series: usize, time_ns: i64, text: String, labels: Labels) -> Self {
        let (is_relabeled, is_joined, tenant, is_stored) = (false, false, 0, true);
        Self { sample, series, time_ns, text, labels, is_relabeled, is_joined, tenant, is_stored }
    }
}

impl Filter {
    fn takes(&self, event: &Event, fields: &Fields) -> bool {
        let line = Line::new(&event.labels, &event.text);
        if fields.is_empty() { self.wanted.matches(&line) } else { self.wanted.matches(&line.with_fields(fields)) }
    }

    /// Applies the filter to the line; false when no further filter sees it.
    fn run(&self, event: &mut Event, work: &mut Work) -> bool {
        let tally = &self.tally;
        tally.add(Outcome::Matched, 1);
        self.mask(event);
        let is_parsed = self.parse(event, &mut work.fields);
        if self.drops(event, &work.fields) {
            tally.add(Outcome::Dropped, 1);
            event.is_stored = false;
            return false;
        }
        if let Some(tenant) = &self.tenant {
            event.tenant = work.tenant(tenant);
            tally.add(Outcome::Routed, u64::from(event.tenant != 0));
        }
        if is_parsed {
            self.relabel(event, &work.fields);
            self.measure(event, work);
        }
        if !self.store {
            tally.add(Outcome::NotStored, u64::from(event.is_stored));
            event.is_stored = false;
        }
        !self.last
    }

    /// Extracts its numbers, counts it, and rewrites it.
    fn measure(&self, event: &mut Event, work: &mut Work) {
        let Work { cells, fields, .. } = work;
        let measured =
            Measured { labels: &event.labels, fields, text: &event.text, time_ns: event.time_ns, tenant: event.tenant };
        self.measures.iter().for_each(|measure| measure.take(&measured, cells, &self.tally));
        if let Some(template) = &self.line {
            let mut line = String::new();
            if template.write(&mut line, |name| value(fields, &event.labels, name)) {
                event.text = line;
            }
        }
    }

    fn mask(&self, event: &mut Event) {
        let mut found = false;
        for mask in &self.masks {
            if let Some(masked) = mask.apply(&event.text) {
                event.text = masked;
                found = true;
            }
        }
        self.tally.add(Outcome::Masked, u64::from(found));
    }

    /// Extracts its fields; false when it matches none of the formats.
    fn parse(&self, event: &Event, fields: &mut Fields) -> bool {
        if self.parsers.is_empty() {
            return true;
        }
        fields.clear();
        let fits =
            event.text.len() <= LINE_BYTES_MAX && self.parsers.iter().any(|parser| parser.read(&event.text, fields));
        self.tally.add(Outcome::Unparsed, u64::from(!fits));
        fits
    }

    fn drops(&self, event: &Event, fields: &Fields) -> bool {
        match &self.drop {
            DropRule::None => false,
            DropRule::All => true,
            DropRule::Lines(query) => {
                let line = Line::new(&event.labels, &event.text);
                if fields.is_empty() { query.matches(&line) } else { query.matches(&line.with_fields(fields)) }
            }
        }
    }

    fn relabel(&self, event: &mut Event, fields: &Fields) {
        if self.labels.is_empty() {
            return;
        }
        let mut labels = event.labels.clone();
        for (name, template) in &self.labels {
            let mut text = String::new();
            // A missing field leaves the label unchanged.
            if !template.write(&mut text, |name| value(fields, &event.labels, name)) {
                continue;
            }
            match labels.try_with(name, crate::measure::cut(&text, Labels::VALUE_BYTES_MAX)) {
                Ok(with) => labels = with,
                Err(_) => self.tally.add(Outcome::LabelsInvalid, 1),
            }
        }
        event.is_relabeled |= labels != event.labels;
        event.labels = labels;
    }
}

impl Work {
    /// The index of a tenant: at most one for each filter, and the batch's own.
    fn tenant(&mut self, tenant: &Tenant) -> u16 {
        let at = self.tenants.iter().position(|known| known == tenant).unwrap_or_else(|| {
            self.tenants.push(tenant.clone());
            self.tenants.len() - 1
        });
        at as u16
    }
}

/// Where the series of a sample is declared.
#[derive(Clone, Copy)]
enum Declaration {
    Declared(u32),
    Known(u32),
}

/// The batch of one tenant while it is built.
#[derive(Default)]
struct Growing {
    tenant: u16,
    series: Vec<Result<SeriesDef, ogive_model::Error>>,
    /// Where the series of the original batch are, by their indexes there.
    places: HashMap<usize, Declaration>,
    known: Vec<SeriesId>,
    known_before: Vec<u32>,
    by_labels: HashMap<(Kind, Labels), u32>,
    samples: Vec<Result<(Declaration, Sample), Reason>>,
    origins: Vec<Option<u32>>,
}

/// The output, by tenant.
struct Outgoing {
    declared: Vec<Result<SeriesDef, ogive_model::Error>>,
    known: Vec<SeriesId>,
    parts: Vec<Growing>,
}

impl Outgoing {
    /// The index of the part of a tenant.
    fn part(&mut self, tenant: u16) -> usize {
        self.parts.iter().position(|part| part.tenant == tenant).unwrap_or_else(|| {
            self.parts.push(Growing { tenant, ..Growing::default() });
            self.parts.len() - 1
        })
    }

    /// Adds a line, possibly with other labels.
    fn event(&mut self, event: Event) {
        let part = self.part(event.tenant);
        let is_as_it_was = !event.is_relabeled && event.tenant == 0;
        let place = if is_as_it_was {
            self.place(part, event.series)
        } else {
            let meta = match self.declared.get(event.series) {
                Some(Ok(series)) => series.meta.clone(),
                _ => SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 },
            };
            Some(self.parts[part].declare(SeriesDef { labels: event.labels, meta }))
        };
        let sample = Sample { series: 0, time_ns: event.time_ns, start_ns: None, value: Value::Text(event.text) };
        self.parts[part].push(place, Ok(sample), Some(event.sample as u32));
    }

    /// A sample that filters have nothing to do with.
    fn other(&mut self, at: usize, sample: Result<Sample, Reason>) {
        let part = self.part(0);
        let place = sample.as_ref().ok().and_then(|sample| self.place(part, sample.series as usize));
        self.parts[part].push(place, sample, Some(at as u32));
    }

    fn made(&mut self, made: MeasuredSample) {
        let part = self.part(made.tenant);
        let place = self.parts[part].declare(made.series);
        let sample = Sample { series: 0, time_ns: made.time_ns, start_ns: None, value: made.value };
        self.parts[part].push(Some(place), Ok(sample), None);
    }

    /// The place of a series of the original batch; None when it has none.
    fn place(&mut self, part: usize, series: usize) -> Option<Declaration> {
        let part = &mut self.parts[part];
        if let Some(place) = part.places.get(&series) {
            return Some(*place);
        }
        let place = match self.declared.get(series) {
            Some(Ok(series)) => part.declare(series.clone()),
            Some(Err(error)) => {
                part.series.push(Err(error.clone()));
                Declaration::Declared(part.series.len() as u32 - 1)
            }
            None => {
                let before = series - self.declared.len();
                part.known.push(*self.known.get(before)?);
                part.known_before.push(before as u32);
                Declaration::Known(part.known.len() as u32 - 1)
            }
        };
        part.places.insert(series, place);
        Some(place)
    }

    fn finish(self, number: impl Fn(Batch) -> Batch, tenants: &[Tenant]) -> Vec<Part> {
        let part = |part: Growing| {
            let Growing { tenant, series, known, known_before, samples, origins, .. } = part;
            let declared = series.len() as u32;
            let sample = |(place, sample): (Declaration, Sample)| Sample {
                series: match place {
                    Declaration::Declared(at) => at,
                    Declaration::Known(at) => declared + at,
                },
                ..sample
            };
            let samples = samples.into_iter().map(|found| found.map(sample)).collect();
            let tenant = tenants[usize::from(tenant)].clone();
            let batch = number(Batch { tenant, series, known, samples, ..Batch::default() });
            Part { batch, origins, known: known_before }
        };
        self.parts.into_iter().map(part).collect()
    }
}

impl Growing {
    fn declare(&mut self, series: SeriesDef) -> Declaration {
        let Self { series: list, by_labels, .. } = self;
        let at = *by_labels.entry((series.meta.kind, series.labels.clone())).or_insert_with(|| {
            list.push(Ok(series));
            list.len() as u32 - 1
        });
        Declaration::Declared(at)
    }

    fn push(&mut self, place: Option<Declaration>, sample: Result<Sample, Reason>, origin: Option<u32>) {
        self.samples.push(match (place, sample) {
            (Some(place), Ok(sample)) => Ok((place, sample)),
            (None, Ok(_)) => Err(Reason::SeriesUnknown),
            (_, Err(reason)) => Err(reason),
        });
        self.origins.push(origin);
    }
}
