//! The batches that come of a batch, one for each tenant.
//!
//! Invariants: samples keep the order in which they are added; a series is declared once in a batch.

use std::collections::HashMap;

use ogive_model::{Batch, Kind, Labels, Reason, Sample, SeriesDef, SeriesId, SeriesMeta, Temporality, Tenant, Value};

use crate::event::Event;
use crate::measure::MeasuredSample;

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
pub(crate) struct Outgoing {
    declared: Vec<Result<SeriesDef, ogive_model::Error>>,
    known: Vec<SeriesId>,
    parts: Vec<Growing>,
}

impl Outgoing {
    /// Nothing yet of a batch that declares these series.
    pub(crate) fn new(declared: Vec<Result<SeriesDef, ogive_model::Error>>, known: Vec<SeriesId>) -> Self {
        Self { declared, known, parts: Vec::new() }
    }

    /// The index of the part of a tenant.
    fn part(&mut self, tenant: u16) -> usize {
        self.parts.iter().position(|part| part.tenant == tenant).unwrap_or_else(|| {
            self.parts.push(Growing { tenant, ..Growing::default() });
            self.parts.len() - 1
        })
    }

    /// Adds a line, possibly with other labels.
    pub(crate) fn event(&mut self, event: Event) {
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
        let sample = Sample { series: 0, time_ns: event.time.0, start_ns: None, value: Value::Text(event.text) };
        self.parts[part].push(place, Ok(sample), Some(event.sample as u32));
    }

    /// A sample that filters have nothing to do with.
    pub(crate) fn other(&mut self, at: usize, sample: Result<Sample, Reason>) {
        let part = self.part(0);
        let place = sample.as_ref().ok().and_then(|sample| self.place(part, sample.series as usize));
        self.parts[part].push(place, sample, Some(at as u32));
    }

    pub(crate) fn made(&mut self, made: MeasuredSample) {
        let part = self.part(made.tenant);
        let place = self.parts[part].declare(made.series);
        let sample = Sample { series: 0, time_ns: made.time.0, start_ns: None, value: made.value };
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

    pub(crate) fn finish(self, number: impl Fn(Batch) -> Batch, tenants: &[Tenant]) -> Vec<Part> {
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
