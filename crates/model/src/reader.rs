//! What a store knows of one tenant beside its samples.

use crate::{Matcher, Opening, Select, SelectError, TimeRange};

/// One tenant's part of a store.
pub trait Reader: Select {
    /// Label names of the series that `matchers` accept and that have samples in `range`, ascending.
    ///
    /// # Errors
    /// See [`SelectError`].
    fn label_names(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        opening: &Opening<'_>,
    ) -> Result<Vec<String>, SelectError>;

    /// The first `limit` values of the label `name`, as [`Reader::label_names`].
    ///
    /// # Errors
    /// See [`SelectError`].
    fn label_values(
        &self,
        name: &str,
        matchers: &[Matcher],
        range: TimeRange,
        limit: usize,
        opening: &Opening<'_>,
    ) -> Result<Vec<String>, SelectError>;
}
