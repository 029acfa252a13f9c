//! Columns of one grid of time: what `/fetch` and CAQL answer with, and compute with.

mod reduce;
mod transform;

use ogive_hist::Histogram;

pub use reduce::reduce;
pub(crate) use reduce::statistic;
pub use transform::{Data, transform};

/// The slots of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The first, milliseconds since 1970.
    pub start_ms: i64,
    /// The length of each, milliseconds; above 0.
    pub period_ms: i64,
    /// How many.
    pub count: usize,
}

impl Grid {
    /// Where it ends; excluded.
    #[must_use]
    pub const fn end_ms(&self) -> i64 {
        self.start_ms.saturating_add(self.period_ms.saturating_mul(self.count as i64))
    }

    /// The slot of a time.
    #[must_use]
    pub fn slot(&self, time_ms: i64) -> Option<usize> {
        let at = time_ms.checked_sub(self.start_ms)?.div_euclid(self.period_ms);
        usize::try_from(at).ok().filter(|at| *at < self.count)
    }
}

/// Texts of a slot: the offset into it in milliseconds, and the text.
pub type Texts = Vec<(i64, String)>;

/// The values of one stream, one a slot.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Numbers.
    Numbers(Vec<Option<f64>>),
    /// Distributions.
    Histograms(Vec<Option<Histogram<u64>>>),
    /// Texts.
    Texts(Vec<Texts>),
}

impl Column {
    /// The name of its kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Numbers(_) => "numeric",
            Self::Histograms(_) => "histogram",
            Self::Texts(_) => "text",
        }
    }

    /// Its approximate memory in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Numbers(all) => 16 * all.len(),
            Self::Histograms(all) => {
                let bins = |histogram: &Histogram<u64>| 12 * (histogram.positive.len() + histogram.negative.len());
                all.iter().map(|one| size_of::<Option<Histogram<u64>>>() + one.as_ref().map_or(0, bins)).sum()
            }
            Self::Texts(all) => all.iter().flatten().map(|(_, text)| 40 + text.len()).sum::<usize>() + 24 * all.len(),
        }
    }
}

/// A column and its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Its name.
    pub label: String,
    /// Categories and values.
    pub tags: Vec<(String, String)>,
    /// Its values.
    pub column: Column,
}

/// A numeric parameter.
pub(crate) fn parameter(params: &[String], at: usize, what: &str) -> Result<f64, String> {
    let text = params.get(at).ok_or_else(|| format!("{what} needs a parameter"))?;
    text.trim().parse().map_err(|_| format!("{what}: {text:?} is not a number"))
}

#[cfg(test)]
mod tests;
