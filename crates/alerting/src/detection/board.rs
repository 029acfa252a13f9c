//! What the detectors found, for whoever asks.
//!
//! Limits: [`RECENT_MAX`] findings that are remembered.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ogive_detect::detectors::Finding;
use ogive_detect::detectors::monitor::{Monitor, Reported};
use ogive_model::Labels;
use serde_json::{Value, json};

/// 1,000 findings of some 500 bytes.
const RECENT_MAX: usize = 1_000;

/// What was found, for whoever asks.
#[derive(Default)]
pub struct Board(Mutex<State>);

#[derive(Default)]
struct State {
    active: Vec<Reported>,
    recent: VecDeque<Reported>,
    found: u64,
    figures: Figures,
}

/// How far the detectors are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// The detectors run.
    pub is_on: bool,
    /// Everything up to it was judged, milliseconds since 1970.
    pub watermark_ms: i64,
    /// Series that are judged.
    pub series: u64,
    /// Series beyond the limit.
    pub refused: u64,
    /// Findings that were held back.
    pub suppressed: u64,
    /// Memory of the detectors.
    pub memory_bytes: u64,
    /// Turns that failed.
    pub failures: u64,
}

impl Figures {
    pub(super) fn of(monitor: &Monitor, watermark_ms: i64, (failures, unread): (u64, u64)) -> Self {
        Self {
            is_on: true,
            watermark_ms,
            series: monitor.series() as u64,
            refused: unread,
            suppressed: monitor.suppressed(),
            memory_bytes: monitor.memory_bytes() as u64,
            failures,
        }
    }
}

impl Board {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, found: &[Reported], figures: Figures) {
        let mut state = self.state();
        state.figures = figures;
        for one in found {
            state.found += 1;
            let is_same = |other: &Reported| other.finding.kind == one.finding.kind && other.labels == one.labels;
            state.active.retain(|other| !is_same(other));
            if one.finding.is_active && state.active.len() < RECENT_MAX {
                state.active.push(one.clone());
            }
            if state.recent.len() == RECENT_MAX {
                state.recent.pop_front();
            }
            state.recent.push_back(one.clone());
        }
    }

    /// What is active, what was found lately (the newest first), and how far the detectors are.
    pub fn document(&self) -> Value {
        let state = self.state();
        let figures = state.figures;
        json!({
            "on": figures.is_on,
            "watermark_ms": figures.watermark_ms,
            "series": figures.series,
            "memory_bytes": figures.memory_bytes,
            "refused": figures.refused,
            "suppressed": figures.suppressed,
            "failures": figures.failures,
            "found": state.found,
            "active": state.active.iter().map(document).collect::<Vec<_>>(),
            "recent": state.recent.iter().rev().map(document).collect::<Vec<_>>(),
        })
    }
}

/// One finding.
pub fn document(reported: &Reported) -> Value {
    finding_document(&reported.labels, &reported.finding)
}

/// One finding about `labels`.
pub fn finding_document(labels: &Labels, finding: &Finding) -> Value {
    let labels: serde_json::Map<String, Value> =
        labels.iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let evidence: serde_json::Map<String, Value> =
        finding.evidence.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    json!({
        "kind": finding.kind.as_str(),
        "severity": "info",
        "active": finding.is_active,
        "at_ms": finding.at_ms,
        "began_ms": finding.began_ms,
        "sentence": finding.sentence,
        "labels": labels,
        "evidence": evidence,
    })
}
