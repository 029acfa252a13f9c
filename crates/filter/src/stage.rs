//! A batch through the filters.
//!
//! Invariants: the samples that are no lines keep their order and their series; a line is in exactly one of the batches
//! that come of it, or in none and counted. Batches for other tenants have the source and the sequence of the first:
//! sequences are per tenant.
//! Limits: [`KNOWN_MAX`] series whose labels are remembered for senders that name series by their identity.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use ogive_model::{
    Batch, BatchId, Exemplar, Kind, Labels, MonoNs, Reason, Sample, SeriesDef, SeriesId, SeriesMeta, Tenant, Value,
    WallNs,
};

use crate::config::{DropRule, FILTERS_MAX, Filter};
use crate::event::Event;
use crate::fields::{Fields, line_with};
use crate::measure::{Cells, Measured, value};
use crate::outgoing::{Outgoing, Part};
use crate::parse::{LINE_BYTES_MAX, member};
use crate::rule::OWN_PREFIX;
use crate::session::{Origin, SessionLine, SessionReport};
use crate::tally::{Outcome, Tally};
use crate::time::instant;

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

/// State shared by the lines of a batch.
struct Work {
    tenants: Vec<Tenant>,
    cells: Cells,
    fields: Fields,
    /// None when lines are only explained: sessions do not see them.
    arrival: Option<Arrival>,
}

/// A batch's number, and when it came.
struct Arrival {
    batch: BatchId,
    /// Of a clock that only rises.
    now: MonoNs,
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
        let measures = filters.iter_mut().flat_map(|Filter { measures, sessions, .. }| {
            measures.iter_mut().chain(sessions.iter_mut().map(|session| &mut session.measure))
        });
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

    /// What each rule for sessions did, after those that are too old at `now` are gone.
    pub fn sessions(&self, now: MonoNs) -> impl Iterator<Item = SessionReport<'_>> + '_ {
        self.expire(now);
        self.filters.iter().flat_map(|filter| filter.sessions.iter().map(move |session| session.report(&filter.name)))
    }

    fn expire(&self, now: MonoNs) {
        self.filters.iter().flat_map(|filter| &filter.sessions).for_each(|session| session.expire(now));
    }

    /// Forgets every session, so that one case does not see those of another.
    pub(crate) fn forget_sessions(&self) {
        self.filters.iter().flat_map(|filter| &filter.sessions).for_each(|session| session.forget());
    }

    /// Bytes of the labels that are remembered.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().map(|labels| labels.memory_bytes() + size_of::<(SeriesId, Labels)>()).sum()
    }

    /// A batch through the filters. Sessions expire by `now`.
    #[must_use]
    pub fn apply(&self, batch: Batch, now: MonoNs) -> Filtered {
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
        self.expire(now);
        self.filtered(batch, &series, &applies, now)
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
            known.insert(SeriesId::from_labels(&batch.tenant, Kind::Text, labels), labels.clone());
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
            let fits = |at: &usize| labels.match_all(&matchers[*at]);
            (0..self.filters.len()).filter(fits).collect()
        };
        series.iter().map(|labels| labels.as_ref().map(of).unwrap_or_default()).collect()
    }

    fn filtered(&self, batch: Batch, series: &[Option<Labels>], applies: &[Vec<usize>], now: MonoNs) -> Filtered {
        let arrival = Arrival { batch: batch.id(), now };
        let Batch { source, sequence, tenant, series: declared, known, samples } = batch;
        let mut work = Work::new(tenant, Some(arrival));
        let (mut events, mut others) = (Vec::new(), Vec::new());
        for (at, sample) in samples.into_iter().enumerate() {
            match sample {
                Ok(Sample { series: of, time_ns, value: Value::Text(text), .. })
                    if applies.get(of as usize).is_some_and(|filters| !filters.is_empty()) =>
                {
                    let labels = series[of as usize].clone().expect("a series that filters apply to has labels");
                    events.push(Event::new(at, of as usize, WallNs(time_ns), text, labels));
                }
                other => others.push((at, other)),
            }
        }
        for filter in &self.filters {
            if let Some(join) = &filter.join {
                join.apply(&mut events, &filter.wanted, &filter.tally);
            }
        }
        for event in events.iter_mut().filter(|event| !event.is_joined) {
            self.run(event, Some(&applies[event.series]), &mut work);
        }
        let mut out = Outgoing::new(declared, known);
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
        let mut work = Work::new(Tenant::default(), None);
        let mut event = Event::new(0, 0, WallNs(0), text, labels);
        self.run(&mut event, None, &mut work);
        (event, work.fields)
    }
}

impl Filter {
    fn takes(&self, event: &Event, fields: &Fields) -> bool {
        self.wanted.matches(&line_with(&event.labels, &event.text, fields))
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
            self.read_time(event, &work.fields);
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
        let Work { cells, fields, tenants, arrival } = work;
        let measured = Measured {
            labels: &event.labels,
            fields,
            text: &event.text,
            shown: "line",
            time: event.time,
            tenant: event.tenant,
        };
        self.measures.iter().for_each(|measure| measure.take(&measured, cells, &self.tally));
        if let Some(Arrival { batch, now }) = arrival {
            for session in &self.sessions {
                let origin = Origin { tenant: tenants[0].clone(), batch: *batch, sample: event.sample };
                let tenant = &tenants[usize::from(event.tenant)];
                let own_time = event.own_time.unwrap_or(event.time);
                let line = SessionLine { line: &measured, own_time, tenant, origin, now: *now };
                session.take(line, cells, &self.tally);
            }
        }
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
        if !self.parsers.is_empty() {
            fields.clear();
            let fits = event.text.len() <= LINE_BYTES_MAX
                && self.parsers.iter().any(|parser| parser.read(&event.text, fields));
            self.tally.add(Outcome::Unparsed, u64::from(!fits));
            if !fits {
                return false;
            }
        }
        self.extracts.iter().for_each(|extract| extract.read(&event.labels, &event.text, fields));
        true
    }

    /// Reads the line's own time.
    fn read_time(&self, event: &mut Event, fields: &Fields) {
        let Some(name) = &self.time else { return };
        let own_time = match value(fields, &event.labels, name) {
            Some(text) => instant(text),
            None => match member(&event.text, std::slice::from_ref(name)) {
                Some(text) => instant(&text),
                None => return,
            },
        };
        self.tally.add(Outcome::TimesInvalid, u64::from(own_time.is_none()));
        event.own_time = own_time.or(event.own_time);
    }

    fn drops(&self, event: &Event, fields: &Fields) -> bool {
        match &self.drop {
            DropRule::None => false,
            DropRule::All => true,
            DropRule::Lines(query) => query.matches(&line_with(&event.labels, &event.text, fields)),
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
    fn new(tenant: Tenant, arrival: Option<Arrival>) -> Self {
        Self { tenants: vec![tenant], cells: Cells::default(), fields: Fields::default(), arrival }
    }

    /// The index of a tenant: at most one for each filter, and the batch's own.
    fn tenant(&mut self, tenant: &Tenant) -> u16 {
        let at = self.tenants.iter().position(|known| known == tenant).unwrap_or_else(|| {
            self.tenants.push(tenant.clone());
            self.tenants.len() - 1
        });
        at as u16
    }
}
