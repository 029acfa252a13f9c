//! A tenant's part of the store, for callers that know only one tenant.

use ogive_model::{Matcher, Opening, Reader, SelectError, TimeRange};

use crate::TenantView;

impl Reader for TenantView<'_> {
    fn label_names(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        opening: &Opening<'_>,
    ) -> Result<Vec<String>, SelectError> {
        TenantView::label_names(self, matchers, range, opening)
    }

    fn label_values(
        &self,
        name: &str,
        matchers: &[Matcher],
        range: TimeRange,
        limit: usize,
        opening: &Opening<'_>,
    ) -> Result<Vec<String>, SelectError> {
        TenantView::label_values(self, name, matchers, range, limit, opening)
    }
}
