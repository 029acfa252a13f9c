//! A store in memory, as simple as it can be.

use std::collections::BTreeMap;

use ogive_hist::Histogram;
use ogive_model::{HistogramValue, Kind, Labels, Select, SelectError, Selection, SeriesData, SeriesMeta, Temporality};

use super::points::Point;
use super::script::Load;
use super::{classic, hints};

/// A stored value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stored {
    Float(f64),
    Histogram(Box<Histogram<f64>>),
}

/// A sample: its value and when its counting began, 0 when unknown.
pub(crate) type Sample = (Stored, i64);

/// Series by labels, samples by milliseconds.
#[derive(Default)]
pub(crate) struct Memory {
    series: BTreeMap<Labels, BTreeMap<i64, Sample>>,
}

impl Memory {
    /// Stores what a `load` command says.
    pub(crate) fn load(&mut self, load: &Load) -> Result<(), String> {
        let loaded = samples(load)?;
        let converted = if load.with_nhcb { classic::converted(&loaded)? } else { BTreeMap::new() };
        for (labels, samples) in loaded.into_iter().chain(converted) {
            let series = self.series.entry(labels).or_default();
            series.extend(samples);
            hints::rewrite(series);
        }
        Ok(())
    }
}

/// The samples of a `load`; a line replaces an earlier one of the same labels.
fn samples(load: &Load) -> Result<BTreeMap<Labels, BTreeMap<i64, Sample>>, String> {
    let mut out = BTreeMap::new();
    let mut starts: BTreeMap<&Labels, &[Option<i64>]> = BTreeMap::new();
    for line in &load.series {
        if let Some(offsets) = &line.starts {
            starts.insert(&line.labels, offsets);
            continue;
        }
        let offsets = starts.remove(&line.labels);
        if offsets.is_some_and(|offsets| offsets.len() != line.points.len()) {
            return Err(format!("{} has {} points and not as many start times", line.labels, line.points.len()));
        }
        let mut samples = BTreeMap::new();
        for (at, point) in line.points.iter().enumerate() {
            let time = i64::try_from(at).expect("few points") * load.step_ms;
            let start = offsets.and_then(|offsets| offsets[at]).map_or(0, |offset| time + offset);
            match point {
                Point::Missing => continue,
                Point::Float(value) => samples.insert(time, (Stored::Float(*value), start)),
                Point::Histogram(value, _) => samples.insert(time, (Stored::Histogram(value.clone()), start)),
            };
        }
        out.insert(line.labels.clone(), samples);
    }
    match starts.keys().next() {
        Some(labels) => Err(format!("{labels} has start times and no points")),
        None => Ok(out),
    }
}

impl Select for Memory {
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        let mut left = selection.samples_max;
        let mut out = Vec::new();
        for (labels, samples) in &self.series {
            if !labels.match_all(&selection.matchers) {
                continue;
            }
            let inside = samples.iter().filter(|(time, _)| selection.range.contains_ms(**time));
            let mut data = empty(labels);
            for (time, (value, start)) in inside.clone() {
                left = left.checked_sub(1).ok_or(SelectError::TooManySamples { limit: selection.samples_max })?;
                push(&mut data, *time, value, *start);
            }
            if selection.labels_only {
                data = empty(labels);
            }
            if inside.count() > 0 {
                out.push(data);
            }
        }
        Ok(out)
    }
}

fn empty(labels: &Labels) -> SeriesData {
    SeriesData::new(
        labels.clone(),
        SeriesMeta { kind: Kind::Float, temporality: Temporality::Cumulative, unit: String::new(), width_ms: 0 },
    )
}

fn push(data: &mut SeriesData, time: i64, value: &Stored, start: i64) {
    match value {
        Stored::Float(value) => {
            data.floats.times.push(time);
            data.floats.values.push(*value);
            data.floats.starts.push(start);
        }
        Stored::Histogram(value) => {
            data.meta.kind = Kind::Histogram;
            data.histograms.times.push(time);
            data.histograms.values.push(HistogramValue::Float((**value).clone()));
            data.histograms.starts.push(start);
        }
    }
}
