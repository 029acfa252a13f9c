//! One objective, as both kinds of files have it.

use crate::rules::yaml::FileError;

/// 10 events in a short window say something.
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

/// What counts good and bad events; `WINDOW` stands for the window in the expressions.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Indicator {
    /// Errors and all events, each a second.
    Events { errors: String, total: String },
    /// A share of errors: nobody knows of how many events.
    Ratio(String),
}

/// What alerts say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AlertTexts {
    pub(super) name: Option<String>,
    pub(super) labels: Vec<(String, String)>,
    pub(super) annotations: Vec<(String, String)>,
    /// Labels of pages; none when there are to be no pages.
    pub(super) page: Option<Vec<(String, String)>>,
    /// Labels of tickets; none when there are to be none.
    pub(super) ticket: Option<Vec<(String, String)>>,
}

/// What stands for the window.
pub(super) const WINDOW: &str = "{{.window}}";

/// An error of the whole file.
pub(super) fn whole(message: impl Into<String>) -> FileError {
    FileError { line: 0, column: 0, message: message.into() }
}

/// The share of good events that is asked for.
pub(super) fn target(percent: f64, name: &str) -> Result<f64, FileError> {
    let target = percent / 100.0;
    if target > 0.0 && target < 1.0 {
        Ok(target)
    } else {
        Err(whole(format!("{name:?}: an objective of {percent} % leaves no budget or no goal")))
    }
}
