//! A store in memory, for tests of what stands in front of a store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use ogive_model::sequence::{SequenceState, Sequences};
use ogive_model::{
    Batch, HistogramValue, Kind, Labels, Matcher, Opening, Reason, Select, SelectError, Selection, SeriesData,
    SourceId, Tenant, TimeRange, Value, Verdict, WallMs,
};
use ogive_probe::Clock;
use tokio::sync::watch;

use crate::Door;
use crate::backend::{Backend, Fact, Reader, Refusal, Reply, Stamps};
use crate::metadata::Metadata;
use crate::numbers::Numbers;

/// Everything submitted, by tenant, kind and labels.
#[derive(Default)]
pub struct Memory {
    series: Mutex<BTreeMap<(Tenant, Kind, Labels), SeriesData>>,
    seen: Mutex<BTreeMap<(Tenant, SourceId), Sequences>>,
    /// The error to return instead of accepting batches.
    pub refusal: Mutex<Option<Refusal>>,
    /// The error to return before batches are read.
    pub full: Mutex<Option<Refusal>>,
}

impl Door {
    /// One in front of `backend` that nothing has gone through.
    pub fn fresh(backend: Arc<dyn Backend>, clock: Clock, ending: watch::Receiver<bool>) -> Arc<Self> {
        Arc::new(Self {
            counters: Arc::default(),
            meters: Arc::default(),
            clock,
            batch_series_max: 1_000,
            numbers: Numbers::new(),
            metadata: Arc::new(Metadata::new(backend.clone(), clock)),
            backend,
            ending,
        })
    }
}

impl Memory {
    fn apply(&self, batch: Batch) -> Verdict {
        let mut seen = self.seen.lock().unwrap();
        let sequences = seen.entry((batch.tenant.clone(), batch.source)).or_default();
        if sequences.seen(batch.sequence) == SequenceState::Duplicate {
            return Verdict { duplicate: batch.samples.len() as u64, ..Verdict::default() };
        }
        sequences.mark(batch.sequence);
        let mut verdict = Verdict::default();
        for (index, sample) in batch.samples.into_iter().enumerate() {
            let taken = sample.and_then(|sample| {
                let declared = batch.series.get(sample.series as usize).ok_or(Reason::SeriesUnknown)?;
                let series = declared.as_ref().map_err(|_| Reason::LabelsInvalid)?;
                let mut stored = self.series.lock().unwrap();
                let empty = SeriesData::new(series.labels.clone(), series.meta.clone());
                let data =
                    stored.entry((batch.tenant.clone(), series.meta.kind, series.labels.clone())).or_insert(empty);
                let time = sample.time_ms();
                match (series.meta.kind, sample.value) {
                    (Kind::Float, Value::Float(value)) => {
                        data.floats.times.push(time);
                        data.floats.values.push(value);
                    }
                    (Kind::Histogram, Value::Histogram(value)) => {
                        data.histograms.times.push(time);
                        data.histograms.values.push(HistogramValue::Integer(*value));
                    }
                    (Kind::Text, Value::Text(value)) => {
                        data.texts.times.push(time);
                        data.texts.values.push(value);
                    }
                    _ => return Err(Reason::KindConflict),
                }
                Ok(())
            });
            match taken {
                Ok(()) => verdict.accepted += 1,
                Err(reason) => verdict.rejected.push((index as u32, reason)),
            }
        }
        verdict
    }
}

/// One tenant's part.
struct Part<'a>(&'a Memory, &'a Tenant);

impl Select for Part<'_> {
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        let inside = |time: &i64| selection.range.contains(WallMs(*time));
        let mut out = Vec::new();
        for ((tenant, ..), series) in &*self.0.series.lock().unwrap() {
            if tenant != self.1 || !series.labels.match_all(&selection.matchers) {
                continue;
            }
            let mut found = series.clone();
            let keep: Vec<bool> = found.floats.times.iter().map(inside).collect();
            retain(&mut found.floats.times, &keep);
            retain(&mut found.floats.values, &keep);
            let keep: Vec<bool> = found.histograms.times.iter().map(inside).collect();
            retain(&mut found.histograms.times, &keep);
            retain(&mut found.histograms.values, &keep);
            let keep: Vec<bool> = found.texts.times.iter().map(inside).collect();
            retain(&mut found.texts.times, &keep);
            retain(&mut found.texts.values, &keep);
            if found.texts.times.len() > selection.samples_max {
                return Err(SelectError::TooManySamples { limit: selection.samples_max });
            }
            if !found.floats.times.is_empty() || !found.histograms.times.is_empty() || !found.texts.times.is_empty() {
                out.push(found);
            }
        }
        out.sort_by(|left, right| left.labels.cmp(&right.labels));
        Ok(out)
    }
}

fn retain<T>(column: &mut Vec<T>, keep: &[bool]) {
    let mut keep = keep.iter();
    column.retain(|_| *keep.next().unwrap());
}

impl Backend for Memory {
    fn admit(&self) -> Result<(), Refusal> {
        self.full.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    fn submit(&self, batch: Batch, _: Option<Vec<u8>>, _: Arc<dyn Stamps>, reply: Reply) -> Result<(), Refusal> {
        match self.refusal.lock().unwrap().clone() {
            Some(Refusal::Busy) => return Err(Refusal::Busy),
            Some(refusal) => reply(Err(refusal)),
            // It knows no series by identity.
            None if !batch.known.is_empty() => {
                let unknown = (0..batch.known.len() as u32).collect();
                reply(Err(Refusal::UnknownSeries { message: "declare them".into(), unknown }));
            }
            None => reply(Ok(self.apply(batch))),
        }
        Ok(())
    }

    fn of<'a>(&'a self, tenant: &'a Tenant) -> Box<dyn Reader + 'a> {
        Box::new(Part(self, tenant))
    }

    fn facts(&self) -> Vec<Fact> {
        vec![Fact { name: "series", value: self.series.lock().unwrap().len() as f64 }]
    }
}

fn labels_only(matchers: &[Matcher], range: TimeRange) -> Selection {
    Selection { labels_only: true, ..Selection::new(matchers.to_vec(), range) }
}

impl Reader for Part<'_> {
    fn label_names(&self, matchers: &[Matcher], range: TimeRange, _: &Opening<'_>) -> Result<Vec<String>, SelectError> {
        let found = self.select(&labels_only(matchers, range))?;
        let names: BTreeSet<&str> =
            found.iter().flat_map(|series| series.labels.iter().map(|(name, _)| name)).collect();
        Ok(names.into_iter().map(str::to_owned).collect())
    }

    fn label_values(
        &self,
        name: &str,
        matchers: &[Matcher],
        range: TimeRange,
        limit: usize,
        _: &Opening<'_>,
    ) -> Result<Vec<String>, SelectError> {
        let found = self.select(&labels_only(matchers, range))?;
        let values: BTreeSet<&str> = found.iter().map(|series| series.labels.get(name)).collect();
        Ok(values.into_iter().filter(|value| !value.is_empty()).take(limit).map(str::to_owned).collect())
    }
}
