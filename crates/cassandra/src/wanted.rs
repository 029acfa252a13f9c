//! A series that a query wants, and where its samples come from.

use std::sync::Arc;

use ogive_model::{SeriesData, TimeRange};

use crate::Piece;
use crate::hidden::Hidden;
use crate::index::CatalogSeries;

/// See the module.
pub(crate) struct SeriesPlan {
    pub(crate) known: Arc<CatalogSeries>,
    /// Days on which it has samples, by the cluster's number.
    pub(crate) days: Vec<(usize, Vec<i32>)>,
    pub(crate) pending: Vec<Arc<Piece>>,
    /// What was deleted of it.
    pub(crate) hidden: Hidden,
    /// Times whose samples are read as they came.
    pub(crate) raw: Vec<TimeRange>,
    /// Cells of the other times.
    pub(crate) coarse: Vec<SeriesData>,
}

impl SeriesPlan {
    pub(crate) fn new(known: &Arc<CatalogSeries>) -> Self {
        Self {
            known: Arc::clone(known),
            days: Vec::new(),
            pending: Vec::new(),
            hidden: Hidden::new(),
            raw: Vec::new(),
            coarse: Vec::new(),
        }
    }

    /// Days on which a cluster has it.
    pub(crate) fn days_at(&self, at: usize) -> impl Iterator<Item = i32> {
        self.days.iter().filter(move |(holder, _)| *holder == at).flat_map(|(_, days)| days.iter().copied())
    }
}
