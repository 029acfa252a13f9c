//! Service level objectives, as Sloth or OpenSLO files have them, made into rules: burn rates of the error budget over
//! several windows.
//!
//! Format: `prometheus/v1` of Sloth with events or a ratio, and with `latency` (a histogram and a threshold) beside
//! them; `openslo/v1` SLOs with an indicator of their own, ratio or threshold. The windows and factors are those of the
//! SRE workbook, chapter 5: 2 % of the budget of 30 days in an hour and 5 % in six page, 10 % in a day and 10 % in
//! three make a ticket. With few events the confidence decides: an alert needs the lower bound of the share of errors
//! (Wilson 1927, one-sided 95 %) in its long window above the limit, and its short window contradicts only with
//! [`EVENTS_MIN`] events or more.

mod objective;
mod openslo;
mod sloth;
mod write;

use objective::whole;

use super::file::RuleFile;
use super::yaml::FileError;

pub use objective::EVENTS_MIN;

/// 200 objectives in a file make 4,400 rules.
pub const OBJECTIVES_MAX: usize = 200;

/// Whether a text is a file of objectives rather than rules: its first key decides.
#[must_use]
pub fn is_slo(text: &str) -> bool {
    let mut keys =
        text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with(['#', ' ', '-', '%']));
    keys.next().is_some_and(|line| line.starts_with("apiVersion:") || line.starts_with("version:"))
}

/// The rules of a file of objectives, as a rule file.
///
/// # Errors
/// Where and why it is invalid.
pub fn rules(text: &str) -> Result<String, Vec<FileError>> {
    let objectives = if text.lines().any(|line| line.starts_with("apiVersion:")) {
        openslo::objectives(text)
    } else {
        sloth::objectives(text)
    };
    let objectives = objectives.map_err(|error| vec![error])?;
    if objectives.len() > OBJECTIVES_MAX {
        return Err(vec![whole(format!("{} objectives are more than {OBJECTIVES_MAX}", objectives.len()))]);
    }
    let written = write::file(&objectives);
    // Parts of it may not be valid expressions.
    RuleFile::parse(&written).map_err(|errors| {
        errors.into_iter().map(|error| whole(format!("in the rules made of it: {}", error.message))).collect::<Vec<_>>()
    })?;
    Ok(written)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
