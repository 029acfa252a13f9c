//! One objective, as both kinds of files have it.

use crate::rules::yaml::FileError;

/// 10 events in a short window are significant.
pub const EVENTS_MIN: u32 = 10;

/// One objective, whatever file it is of.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Objective {
    pub(super) service: String,
    pub(super) name: String,
    pub(super) description: String,
    /// Share of events that must be good, between 0 and 1.
    pub(super) target: f64,
    pub(super) indicator: Indicator,
    pub(super) labels: Vec<(String, String)>,
    pub(super) alert: AlertTexts,
}

/// The expressions that count good and bad events; `WINDOW` is the placeholder for the window.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Indicator {
    /// Errors and all events, each a second.
    Events { errors: String, total: String },
    /// A share of errors, without the number of events.
    Ratio(String),
}

/// The texts of alerts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AlertTexts {
    pub(super) name: Option<String>,
    pub(super) labels: Vec<(String, String)>,
    pub(super) annotations: Vec<(String, String)>,
    /// Labels of pages; None disables pages.
    pub(super) page: Option<Vec<(String, String)>>,
    /// Labels of tickets; None disables tickets.
    pub(super) ticket: Option<Vec<(String, String)>>,
}

/// The placeholder for the window.
pub(super) const WINDOW: &str = "{{.window}}";

/// An error of the whole file.
pub(super) fn whole(message: impl Into<String>) -> FileError {
    FileError { line: 0, column: 0, message: message.into() }
}

/// The required share of good events.
pub(super) fn target(percent: f64, name: &str) -> Result<f64, FileError> {
    let target = percent / 100.0;
    if target > 0.0 && target < 1.0 {
        Ok(target)
    } else {
        Err(whole(format!("{name:?}: an objective of {percent} % leaves no budget or no goal")))
    }
}
