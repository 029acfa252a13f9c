//! Where rules read and write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock};

use ogive_model::{
    HistogramValue, Kind, Labels, Ms, STALE, Select, SelectError, Selection, SeriesData, SeriesMeta, Temporality,
    WallMs,
};
use ogive_query::value::{InstantSample, Point};

use super::context::{EvaluationContext, elements};

/// The value that ends a series.
#[must_use]
pub const fn stale() -> f64 {
    f64::from_bits(STALE)
}

/// A sample that a rule gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// `__name__` included.
    pub labels: Labels,
    /// When.
    pub time: WallMs,
    /// Its value.
    pub value: Point,
}

/// The store as rules see it: what was appended is visible to the next query.
pub trait Storage {
    /// Its reading side.
    fn select(&self) -> &dyn Select;

    /// Stores samples.
    ///
    /// # Errors
    /// Why it cannot; the rule counts as failed.
    fn append(&self, samples: Vec<Sample>) -> Result<(), String>;

    /// The elements of a rule's expression at `time`; a scalar is one without labels.
    ///
    /// # Errors
    /// Why the query failed; the rule counts as failed.
    fn elements(
        &self,
        expr: &str,
        time: WallMs,
        context: &EvaluationContext<'_>,
    ) -> Result<Vec<InstantSample>, String> {
        elements(self.select(), expr, time, context)
    }
}

/// Series in memory, in front of another store or alone.
///
/// A series that is appended here hides the same names of the store behind: a backtest does not see what its rules
/// wrote earlier.
#[derive(Default)]
pub struct MemoryStore<'a> {
    series: RwLock<BTreeMap<Labels, BTreeMap<WallMs, Point>>>,
    behind: Option<&'a dyn Select>,
    hidden: BTreeSet<String>,
}

impl<'a> MemoryStore<'a> {
    /// In front of `behind`, whose series with the names in `hidden` are not visible.
    #[must_use]
    pub fn in_front_of(behind: &'a dyn Select, hidden: BTreeSet<String>) -> Self {
        Self { series: RwLock::default(), behind: Some(behind), hidden }
    }

    /// Every series that was appended.
    #[must_use]
    pub fn labels(&self) -> Vec<Labels> {
        self.series.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }
}

impl Storage for MemoryStore<'_> {
    fn select(&self) -> &dyn Select {
        self
    }

    fn append(&self, samples: Vec<Sample>) -> Result<(), String> {
        let mut series = self.series.write().unwrap_or_else(PoisonError::into_inner);
        for sample in samples {
            series.entry(sample.labels).or_default().insert(sample.time, sample.value);
        }
        Ok(())
    }
}

impl Select for MemoryStore<'_> {
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        let mut left = selection.samples_max;
        let mut out = Vec::new();
        let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
        let matching = |labels: &Labels| selection.matchers.iter().all(|m| m.matches(labels.get(&m.name)));
        for (labels, samples) in series.iter().filter(|(labels, _)| matching(labels)) {
            let mut data = empty(labels);
            let (start, end) = (selection.range.start.saturating_add(Ms(1)), selection.range.end);
            if start > end {
                continue;
            }
            let mut any = false;
            for (time, value) in samples.range(start..=end) {
                any = true;
                if !selection.labels_only {
                    left = left.checked_sub(1).ok_or(SelectError::TooManySamples { limit: selection.samples_max })?;
                    push(&mut data, time.0, value);
                }
            }
            if any {
                out.push(data);
            }
        }
        if let Some(behind) = self.behind {
            let found = behind.select(selection)?;
            out.extend(found.into_iter().filter(|one| !self.hidden.contains(one.labels.metric_name())));
            out.sort_by(|a, b| (&a.labels, a.meta.kind).cmp(&(&b.labels, b.meta.kind)));
        }
        Ok(out)
    }
}

fn empty(labels: &Labels) -> SeriesData {
    let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Cumulative, unit: String::new(), width_ms: 0 };
    SeriesData::new(labels.clone(), meta)
}

fn push(data: &mut SeriesData, time: i64, value: &Point) {
    match value {
        Point::Float(value) => {
            data.floats.times.push(time);
            data.floats.values.push(*value);
        }
        Point::Histogram(value) => {
            data.meta.kind = Kind::Histogram;
            data.histograms.times.push(time);
            data.histograms.values.push(HistogramValue::Float((**value).clone()));
        }
    }
}
