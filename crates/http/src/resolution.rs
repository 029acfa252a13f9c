//! `resolution=auto|1s|1m|1h`: how fine an answer's samples are, when somebody says so.

use ogive_model::{Opening, Partial, Resolution, Select, SelectError, Selection, SeriesData, SeriesSet};

use super::ask::Cancel;
use super::error::ApiError;
use super::params::Params;
use ogive_text::duration;

/// The parameter; `None` leaves the choice to the query.
pub(super) fn resolution(params: &Params) -> Result<Option<Resolution>, ApiError> {
    let wrong = |text: &str| {
        ApiError::bad_data(format!(
            "invalid parameter \"resolution\": {text:?}; give auto, 1s, or a rollup's such as 1m"
        ))
    };
    match params.get("resolution") {
        None | Some("auto" | "") => Ok(None),
        Some("raw") => Ok(Some(Resolution::Width(0))),
        Some(text) => {
            let millis = duration::seconds_or_units_ms(text)
                .and_then(|millis| u32::try_from(millis).ok())
                .ok_or_else(|| wrong(text))?;
            // The original samples are cells of a second, or finer.
            Ok(Some(Resolution::Width(if millis <= 1000 { 0 } else { millis })))
        }
    }
}

/// A store that a query reads in one resolution, at the place where the result is used.
pub(super) struct StoreAtResolution<'a> {
    pub(super) store: &'a dyn Select,
    pub(super) resolution: Option<Resolution>,
    pub(super) cancel: &'a Cancel,
}

impl StoreAtResolution<'_> {
    fn reported(&self, selection: &Selection) -> Selection {
        Selection { resolution: self.resolution.unwrap_or(selection.resolution), ..selection.clone() }
    }
}

impl Select for StoreAtResolution<'_> {
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        self.store.select(&self.reported(selection))
    }

    fn select_partial(&self, selection: &Selection) -> Result<Partial, SelectError> {
        self.store.select_partial(&self.reported(selection))
    }

    fn open<'s>(
        &'s self,
        selection: &Selection,
        opening: &Opening<'_>,
    ) -> Result<Box<dyn SeriesSet + 's>, SelectError> {
        let counted = |series| {
            (opening.counted)(series);
            self.cancel.fit(series, 0);
        };
        let set = self.store.open(&self.reported(selection), &Opening { counted: &counted, ..*opening })?;
        self.cancel.fit(set.count(), set.samples_about());
        Ok(set)
    }
}
