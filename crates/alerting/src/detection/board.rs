//! What the detectors found, for whoever asks.
//!
//! Limits: `RECENT_MAX` findings of each tenant that are remembered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ogive_detect::detectors::Finding;
use ogive_detect::detectors::monitor::{Monitor, Reported};
use ogive_model::{Labels, Tenant, WallMs};
use serde_json::{Value, json};

/// 1,000 findings of some 500 bytes.
const RECENT_MAX: usize = 1_000;

/// The findings, for the API.
#[derive(Default)]
pub struct Board(Mutex<State>);

#[derive(Default)]
struct State {
    tenants: BTreeMap<Tenant, TenantFindings>,
    figures: Figures,
}

/// The findings of one tenant.
#[derive(Default)]
struct TenantFindings {
    active: Vec<Reported>,
    recent: VecDeque<Reported>,
    found: u64,
    own: TenantUsage,
}

/// How far the detectors are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// The detectors run.
    pub is_on: bool,
    /// Everything up to it was judged.
    pub watermark: WallMs,
    /// Series beyond the limit, of all tenants.
    pub refused: u64,
    /// Reads and writes that failed.
    pub failures: u64,
    /// Approximate memory of the detectors in bytes, of all tenants.
    pub memory_bytes: u64,
    /// Seconds that were judged as they closed, and those that were read from the store.
    pub seconds: (u64, u64),
}

/// What the detectors hold for one tenant.
#[derive(Clone, Copy, Debug, Default)]
pub struct TenantUsage {
    series: u64,
    suppressed: u64,
    memory_bytes: u64,
}

impl TenantUsage {
    pub(super) fn from_monitor(monitor: &Monitor) -> Self {
        Self {
            series: monitor.series() as u64,
            suppressed: monitor.suppressed(),
            memory_bytes: monitor.memory_bytes() as u64,
        }
    }
}

impl Board {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Approximate memory of the detectors in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.state().figures.memory_bytes
    }

    /// How far all is.
    pub(super) fn set(&self, figures: Figures) {
        self.state().figures = figures;
    }

    /// Adds findings of a tenant; `own` if it was recounted.
    pub(super) fn add(&self, tenant: &Tenant, found: &[Reported], own: Option<TenantUsage>) {
        let mut state = self.state();
        let of_tenant = state.tenants.entry(tenant.clone()).or_default();
        of_tenant.own = own.unwrap_or(of_tenant.own);
        for one in found {
            of_tenant.found += 1;
            let is_same = |other: &Reported| other.finding.kind == one.finding.kind && other.labels == one.labels;
            of_tenant.active.retain(|other| !is_same(other));
            if one.finding.is_active && of_tenant.active.len() < RECENT_MAX {
                of_tenant.active.push(one.clone());
            }
            if of_tenant.recent.len() == RECENT_MAX {
                of_tenant.recent.pop_front();
            }
            of_tenant.recent.push_back(one.clone());
        }
    }

    /// The active and recent findings of `tenant` (the newest first), and the progress of the detectors.
    pub fn document(&self, tenant: &Tenant) -> Value {
        let state = self.state();
        let nothing = TenantFindings::default();
        let (figures, found) = (state.figures, state.tenants.get(tenant).unwrap_or(&nothing));
        json!({
            "on": figures.is_on,
            "watermark_ms": figures.watermark,
            "series": found.own.series,
            "memory_bytes": found.own.memory_bytes,
            "refused": figures.refused,
            "suppressed": found.own.suppressed,
            "failures": figures.failures,
            "seconds_live": figures.seconds.0,
            "seconds_read": figures.seconds.1,
            "found": found.found,
            "active": found.active.iter().map(document).collect::<Vec<_>>(),
            "recent": found.recent.iter().rev().map(document).collect::<Vec<_>>(),
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
        "at_ms": finding.at,
        "began_ms": finding.began,
        "sentence": finding.sentence,
        "labels": labels,
        "evidence": evidence,
    })
}
