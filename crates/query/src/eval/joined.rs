//! Floats and histograms of one label set as one series.
//!
//! A store keeps the two kinds as separate series (docs/decisions/kind-in-identity.md). All code that reads samples for
//! a query goes through this module, so that a metric that changed its kind stays one series in each answer.
//!
//! Invariant: whether samples are cells is known for each kind separately, as one sender may have declared the floats
//! and another the histograms.

use std::ops::Deref;

use ogive_model::{Kind, SeriesData, Temporality};

/// The samples of one label set, of either kind.
#[derive(Clone, Debug)]
pub(crate) struct JoinedSeries {
    pub(crate) data: SeriesData,
    /// Floats are cells.
    pub(crate) floats_delta: bool,
    /// Histograms are cells.
    pub(crate) histograms_delta: bool,
}

impl Deref for JoinedSeries {
    type Target = SeriesData;

    fn deref(&self) -> &SeriesData {
        &self.data
    }
}

impl From<SeriesData> for JoinedSeries {
    fn from(data: SeriesData) -> Self {
        let delta = data.meta.temporality == Temporality::Delta;
        Self { data, floats_delta: delta, histograms_delta: delta }
    }
}

impl JoinedSeries {
    /// Adds the samples of `other`, which has the same labels and another kind.
    fn join(&mut self, other: SeriesData) {
        let delta = other.meta.temporality == Temporality::Delta;
        let data = &mut self.data;
        match other.meta.kind {
            Kind::Float => {
                data.floats = other.floats;
                self.floats_delta = delta;
            }
            Kind::Histogram => {
                data.histograms = other.histograms;
                self.histograms_delta = delta;
            }
            Kind::Text => return,
        }
        data.rollup_ms = data.rollup_ms.max(other.rollup_ms);
        if other.meta.width_ms > 0 {
            data.meta.width_ms = other.meta.width_ms;
        }
    }
}

/// One series for each label set, in order; texts are left out. In `series`, equal labels are adjacent.
pub(crate) fn joined(series: Vec<SeriesData>) -> Vec<JoinedSeries> {
    let mut out: Vec<JoinedSeries> = Vec::with_capacity(series.len());
    for one in series.into_iter().filter(|one| one.meta.kind != Kind::Text) {
        match out.last_mut() {
            Some(last) if last.labels == one.labels => last.join(one),
            _ => out.push(one.into()),
        }
    }
    out
}
