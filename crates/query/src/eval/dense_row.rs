//! Rows of histograms of one layout as a matrix of counts: nothing to allocate for each of them.
//!
//! Invariant: the heads have no bins; an instant without a head has none in the matrices either.
//! Limits: [`DENSE_COUNTS_MAX`].

use std::sync::Arc;

use ogive_hist::Bins;
use ogive_model::{Charge, Labels, Memory};

use super::histogram::Hist;
use super::rows::{Grid, ROW_BYTES};
use crate::Error;

/// 1 Mi counts, 8 MiB: with more, histograms that hold few of their bins would take less as such.
pub(crate) const DENSE_COUNTS_MAX: usize = 1 << 20;

/// One series of an intermediate value, all histograms. Its memory is charged to its query.
#[derive(Debug)]
pub(crate) struct DenseRow {
    pub(crate) labels: Labels,
    /// As of a [`super::rows::Row`].
    pub(crate) drop_name: bool,
    /// Everything except the bins, one for each instant.
    pub(crate) heads: Vec<Option<Hist>>,
    pub(crate) negative: DenseBins,
    pub(crate) positive: DenseBins,
    _held: Charge,
}

/// The counts of the bins of one sign, instant after instant.
#[derive(Debug)]
pub(crate) struct DenseBins {
    first: i32,
    width: usize,
    counts: Vec<f64>,
}

/// The histogram of an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DensePoint<'a> {
    pub(crate) head: &'a Hist,
    /// The index of the first bin, and consecutive counts.
    pub(crate) negative: (i32, &'a [f64]),
    pub(crate) positive: (i32, &'a [f64]),
}

/// The bins of both signs that a row may have: the first index, and how many from there on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spans {
    pub(crate) negative: (i32, usize),
    pub(crate) positive: (i32, usize),
}

impl Spans {
    /// Whether a row may have so many at each instant of a grid.
    pub(crate) const fn fit(&self, grid: Grid) -> bool {
        self.negative.1.saturating_add(self.positive.1).saturating_mul(grid.count) <= DENSE_COUNTS_MAX
    }
}

impl DenseRow {
    /// Heads whose bins are empty yet.
    pub(crate) fn new(
        memory: &Arc<Memory>,
        labels: Labels,
        drop_name: bool,
        heads: Vec<Option<Hist>>,
        spans: Spans,
    ) -> Result<Self, Error> {
        let counts = (spans.negative.1 + spans.positive.1) * heads.len() * size_of::<f64>();
        let bytes = counts + heads.len() * size_of::<Option<Hist>>();
        let held = memory.charge(bytes.saturating_add(ROW_BYTES + labels.memory_bytes()))?;
        let bins = |(first, width): (i32, usize)| DenseBins { first, width, counts: vec![0.0; width * heads.len()] };
        let (negative, positive) = (bins(spans.negative), bins(spans.positive));
        Ok(Self { labels, drop_name, heads, negative, positive, _held: held })
    }

    pub(crate) fn relabelled(self, labels: Labels) -> Self {
        Self { labels, ..self }
    }

    /// Marks the name for removal when the query ends.
    pub(crate) fn nameless_later(self) -> Self {
        Self { drop_name: true, ..self }
    }

    /// Whether no instant has a histogram.
    pub(crate) fn is_blank(&self) -> bool {
        self.heads.iter().all(Option::is_none)
    }

    /// The histograms that there are, and their instants.
    pub(crate) fn points(&self) -> impl Iterator<Item = (usize, DensePoint<'_>)> {
        self.heads.iter().enumerate().filter_map(|(step, head)| {
            let (negative, positive) = (self.negative.at(step), self.positive.at(step));
            head.as_ref().map(|head| (step, DensePoint { head, negative, positive }))
        })
    }
}

impl DenseBins {
    fn at(&self, step: usize) -> (i32, &[f64]) {
        (self.first, &self.counts[step * self.width..][..self.width])
    }

    /// The places of one bin, of which each instant's is so far behind the one before.
    pub(crate) fn column_mut(&mut self, index: i32) -> (&mut [f64], usize) {
        let place = usize::try_from(i64::from(index) - i64::from(self.first)).expect("the span covers the index");
        (&mut self.counts[place..], self.width)
    }
}

impl DensePoint<'_> {
    /// The histogram with its bins.
    pub(crate) fn histogram(&self) -> Hist {
        let bins = |(first, counts): (i32, &[f64])| -> Bins<f64> {
            let mut out = Bins::with_capacity(counts.iter().filter(|count| **count != 0.0).count());
            let filled = (first..).zip(counts).filter(|(_, count)| **count != 0.0);
            filled.for_each(|(index, count)| out.push(index, *count));
            out
        };
        Hist { negative: bins(self.negative), positive: bins(self.positive), ..self.head.clone() }
    }

    /// Samples that it counts as.
    pub(crate) fn size(&self) -> usize {
        let filled = |counts: &[f64]| counts.iter().filter(|count| **count != 0.0).count();
        8 + filled(self.negative.1) + filled(self.positive.1)
    }
}
