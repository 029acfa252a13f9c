//! The state of groups as it is kept over restarts.
//!
//! Invariants: what is restored goes on as if nothing had happened: an alert that fired fires on since the same
//! instant, one that is pending stays pending, one that fires on without its element keeps its time.

use std::collections::{BTreeMap, BTreeSet};

use ogive_model::{Labels, Ms, WallMs};
use serde::{Deserialize, Serialize};

use super::alert::{Alert, AlertState};
use super::group::Group;

/// Pending alerts in a state that is older than this start over: 1 h, as in Prometheus. It is not known whether their
/// element existed all the time.
pub const OUTAGE_TOLERANCE: Ms = Ms::from_secs(3_600);

type Pairs = Vec<(String, String)>;

/// State of a group.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct GroupState {
    /// The file it is from.
    pub file: String,
    /// Unique in its file.
    pub name: String,
    evaluated_at_ms: Option<WallMs>,
    rules: Vec<RuleState>,
    vanished: Vec<Pairs>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct RuleState {
    name: String,
    labels: BTreeMap<String, String>,
    alerts: Vec<StoredAlert>,
    previous: Vec<Pairs>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    seen: Vec<(Pairs, WallMs)>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct StoredAlert {
    state: String,
    labels: Pairs,
    annotations: Pairs,
    /// Bits of the number: JSON has no NaN.
    value_bits: u64,
    active_at_ms: WallMs,
    fired_at_ms: Option<WallMs>,
    resolved_at_ms: Option<WallMs>,
    sent_at_ms: Option<WallMs>,
    keep_firing_since_ms: Option<WallMs>,
}

fn pairs(labels: &Labels) -> Pairs {
    labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn all_labels(stored: Vec<Pairs>) -> BTreeSet<Labels> {
    stored.into_iter().filter_map(|pairs| Labels::new(pairs).ok()).collect()
}

impl StoredAlert {
    fn from_alert(alert: &Alert) -> Self {
        Self {
            state: alert.state.as_str().to_owned(),
            labels: pairs(&alert.labels),
            annotations: alert.annotations.clone(),
            value_bits: alert.value.to_bits(),
            active_at_ms: alert.active_at,
            fired_at_ms: alert.fired_at,
            resolved_at_ms: alert.resolved_at,
            sent_at_ms: alert.sent_at,
            keep_firing_since_ms: alert.keep_firing_since,
        }
    }

    fn alert(self) -> Option<Alert> {
        Some(Alert {
            state: AlertState::parse(&self.state)?,
            labels: Labels::new(self.labels).ok()?,
            annotations: self.annotations,
            value: f64::from_bits(self.value_bits),
            active_at: self.active_at_ms,
            fired_at: self.fired_at_ms,
            resolved_at: self.resolved_at_ms,
            sent_at: self.sent_at_ms,
            keep_firing_since: self.keep_firing_since_ms,
        })
    }
}

impl Group {
    /// Its state, to be stored.
    #[must_use]
    pub fn state(&self) -> GroupState {
        let rule = |rule: &super::rule::Rule| RuleState {
            name: rule.spec.name.clone(),
            labels: rule.spec.labels.clone(),
            alerts: rule.alerts.values().map(StoredAlert::from_alert).collect(),
            previous: rule.previous.iter().map(pairs).collect(),
            seen: rule.seen.iter().map(|(labels, last)| (pairs(labels), *last)).collect(),
        };
        GroupState {
            file: self.file.clone(),
            name: self.name.clone(),
            evaluated_at_ms: self.evaluated_at,
            rules: self.rules.iter().map(rule).collect(),
            vanished: self.vanished.iter().map(pairs).collect(),
        }
    }

    /// Takes over a stored state, at `now`. Rules are the same when their name and labels are.
    pub fn restore(&mut self, state: GroupState, now: WallMs) {
        let is_old = state.evaluated_at_ms.is_none_or(|at| now - at > OUTAGE_TOLERANCE);
        let mut stored: Vec<Option<RuleState>> = state.rules.into_iter().map(Some).collect();
        for rule in &mut self.rules {
            let same = |one: &&mut Option<RuleState>| {
                one.as_ref().is_some_and(|one| one.name == rule.spec.name && one.labels == rule.spec.labels)
            };
            let Some(found) = stored.iter_mut().find(same).and_then(Option::take) else { continue };
            let alerts = found.alerts.into_iter().filter_map(StoredAlert::alert);
            let kept = alerts.filter(|alert| !(is_old && alert.state == AlertState::Pending));
            rule.alerts = kept.map(|alert| (alert.labels.clone(), alert)).collect();
            rule.previous = all_labels(found.previous);
            let seen = found.seen.into_iter();
            rule.seen = seen.filter_map(|(pairs, last)| Some((Labels::new(pairs).ok()?, last))).collect();
        }
        self.vanished = all_labels(state.vanished);
        self.vanished.extend(stored.into_iter().flatten().flat_map(|rule| all_labels(rule.previous)));
        self.evaluated_at = state.evaluated_at_ms.filter(|at| *at <= now);
    }
}
