//! What keeps alerts quiet, and alerts as the page shows them.

use std::collections::BTreeMap;

use ogive_detect::rules::template::rfc3339;
use ogive_detect::rules::{Alert, AlertState, Group, RuleSpec};
use ogive_model::Tenant;
use ogive_notify::{Maintenance, Silence, Silences};
use serde_json::{Value, json};

/// 5,000 alerts are listed: more than anybody reads. All are counted.
const LISTED_MAX: usize = 5_000;

/// The name of a tenant in notices, silences and the state on disk: the default tenant has an empty one.
pub(super) fn short_name(tenant: &Tenant) -> &str {
    if tenant.is_default() { "" } else { tenant.as_str() }
}

/// See the module.
pub(super) struct Quiet<'s> {
    pub(super) silences: &'s Silences,
    pub(super) maintenance: &'s [Maintenance],
    pub(super) now_ms: i64,
}

/// Why an alert is quiet.
pub(super) enum QuietReason<'s> {
    Silence(&'s Silence),
    Maintenance(&'s str),
}

impl<'s> Quiet<'s> {
    /// Why a tenant's alert of these labels is quiet, if it is.
    pub(super) fn of(&self, tenant: &str, labels: &BTreeMap<String, String>) -> Option<QuietReason<'s>> {
        if let Some(silence) = self.silences.of(tenant, labels, self.now_ms) {
            return Some(QuietReason::Silence(silence));
        }
        let window = self.maintenance.iter().find(|window| window.keeps_quiet(tenant, labels, self.now_ms));
        window.map(|window| QuietReason::Maintenance(&window.name))
    }
}

/// Active alerts of a tenant, firing ones first, the newest of them at the top.
pub(super) fn alerts<'g>(
    tenant: &Tenant,
    groups: impl Iterator<Item = &'g Group>,
    quiet: &Quiet<'_>,
    external: &[(String, String)],
) -> Vec<Value> {
    let rules = groups.flat_map(|group| group.rules.iter().map(move |rule| (group, rule)));
    let mut active: Vec<(&Group, &RuleSpec, &Alert)> = rules
        .flat_map(|(group, rule)| rule.alerts().map(move |alert| (group, &rule.spec, alert)))
        .filter(|(_, _, alert)| alert.state != AlertState::Inactive)
        .collect();
    active.sort_by_key(|(_, _, alert)| (std::cmp::Reverse(alert.state), std::cmp::Reverse(alert.active_at)));
    active.truncate(LISTED_MAX);
    active.into_iter().map(|(group, spec, alert)| alert_json(group, spec, alert, tenant, quiet, external)).collect()
}

fn alert_json(
    group: &Group,
    spec: &RuleSpec,
    alert: &Alert,
    tenant: &Tenant,
    quiet: &Quiet<'_>,
    external: &[(String, String)],
) -> Value {
    let own: BTreeMap<String, String> =
        alert.labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut sent = own.clone();
    for (name, value) in external {
        sent.entry(name.clone()).or_insert_with(|| value.clone());
    }
    let annotations: BTreeMap<&str, &str> = alert.annotations.iter().map(|(name, text)| (&**name, &**text)).collect();
    let mut out = json!({
        "labels": own,
        "annotations": annotations,
        "state": alert.state.as_str(),
        "activeAt": rfc3339(alert.active_at.0),
        "firedAt": alert.fired_at.map(|at| rfc3339(at.0)),
        "value": if alert.value.is_finite() { json!(alert.value) } else { json!(alert.value.to_string()) },
        "group": group.name,
        "file": group.file,
        "query": spec.expr,
        // Everything up to here was there when the rule was last evaluated.
        "watermark": group.evaluated_at.map(|at| rfc3339((at - group.query_offset).0)),
    });
    match quiet.of(short_name(tenant), &sent) {
        Some(QuietReason::Silence(silence)) => out["quiet"] = silence_json(silence, quiet.now_ms),
        Some(QuietReason::Maintenance(name)) => out["quiet"] = json!({"maintenance": name}),
        None => {}
    }
    out
}

fn silence_json(silence: &Silence, now_ms: i64) -> Value {
    json!({
        "id": silence.id,
        "match": silence.matchers,
        "start": rfc3339(silence.starts_ms),
        "end": rfc3339(silence.ends_ms),
        "by": silence.by,
        "reason": silence.reason,
        "acknowledgement": silence.is_acknowledgement,
        "inForce": silence.starts_ms <= now_ms,
    })
}

/// Silences and maintenance windows of a tenant.
pub(super) fn document(tenant: &Tenant, silences: &Silences, maintenance: &[Maintenance], now_ms: i64) -> Value {
    let own = short_name(tenant);
    let windows = maintenance.iter().filter(|window| window.may_concern(own));
    let windows = windows.map(|window| json!({"name": window.name, "open": window.is_open(now_ms)}));
    json!({
        "silences": silences.of_tenant(own).map(|one| silence_json(one, now_ms)).collect::<Vec<_>>(),
        "maintenance": windows.collect::<Vec<_>>(),
    })
}
