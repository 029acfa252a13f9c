//! What a broker reports of itself with each poll.
//!
//! Limits: texts are cut to [`TEXT_BYTES_MAX`], lists to [`LIST_MAX`]: a broker that reports more takes no more memory.

use serde::{Deserialize, Serialize};

/// 300 bytes of a sentence.
const TEXT_BYTES_MAX: usize = 300;
/// 16 destinations, as many as a broker may have, and as many findings.
const LIST_MAX: usize = 16;

/// The state of a broker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The version of its program.
    pub ogive: String,
    /// When it started, on its clock.
    pub started_ms: i64,
    /// Its clock when it sent this.
    pub now_ms: i64,
    /// The version of its group's configuration that it runs; 0 for none.
    pub version: u64,
    /// The last version that it could not apply, if that is newer.
    pub refused: Option<Refused>,
    /// How many versions it refused since it started.
    pub refused_total: u64,
    /// The age of the oldest batch that a destination does not have.
    pub lag_seconds: f64,
    /// Bytes in the spool.
    pub spool_bytes: u64,
    /// Its limit.
    pub spool_bytes_max: u64,
    /// Samples in gaps since it started.
    pub gap_samples: u64,
    /// Processors that it used since the last report: 0.02 is two percent of one.
    pub cpu: f64,
    /// Memory that it holds.
    pub memory_bytes: u64,
    /// Checks of the group's configuration that it runs.
    pub checks: u64,
    /// What is wrong with it, a sentence each.
    pub findings: Vec<String>,
    /// Each destination.
    pub destinations: Vec<Destination>,
}

/// A version that was not applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refused {
    /// Which; 0 when that is not known, because nothing of it may be believed.
    pub version: u64,
    /// `signature`, `group`, `older`, `invalid`, `forbidden` or `disk`.
    pub reason: String,
    /// A sentence.
    pub why: String,
}

/// A cluster to which a broker delivers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Destination {
    /// Its name.
    pub name: String,
    /// How far it is behind.
    pub lag_seconds: f64,
    /// The last problem, if it is behind.
    pub problem: Option<String>,
}

impl Report {
    /// Within the limits.
    pub(crate) fn bounded(mut self) -> Self {
        cut(&mut self.ogive);
        if let Some(refused) = &mut self.refused {
            cut(&mut refused.reason);
            cut(&mut refused.why);
        }
        self.findings.truncate(LIST_MAX);
        self.findings.iter_mut().for_each(cut);
        self.destinations.truncate(LIST_MAX);
        for destination in &mut self.destinations {
            cut(&mut destination.name);
            destination.problem.iter_mut().for_each(cut);
        }
        self.findings.shrink_to_fit();
        self.destinations.shrink_to_fit();
        self
    }
}

fn cut(text: &mut String) {
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    text.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_cut_to_its_limits() {
        let long = "ä".repeat(TEXT_BYTES_MAX);
        let refused = Refused { version: 1, reason: long.clone(), why: long.clone() };
        let report = Report {
            ogive: long.clone(),
            refused: Some(refused),
            findings: vec![long.clone(); LIST_MAX + 1],
            destinations: vec![
                Destination { name: long.clone(), problem: Some(long), ..Destination::default() };
                LIST_MAX + 1
            ],
            ..Report::default()
        };
        let report = report.bounded();
        assert_eq!((report.findings.len(), report.destinations.len()), (LIST_MAX, LIST_MAX));
        assert!(serde_json::to_string(&report).unwrap().len() < (3 + 3 * LIST_MAX) * (TEXT_BYTES_MAX + 60) + 1_000);
    }
}
