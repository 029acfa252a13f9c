//! What the HTTP API shows of rules and alerts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ogive_detect::rules::template::rfc3339;
use ogive_detect::rules::{Alert, AlertState, Group, Health, Rule, RuleKind};
use ogive_model::{Tenant, WallMs, float};
use serde_json::{Map, Value, json};

/// Figures: name, labels, value.
pub type Figures = Vec<(&'static str, Vec<(&'static str, String)>, f64)>;

/// The evaluator of rules.
pub trait Runner: Send + Sync {
    /// Reloads the rule files; `by` is the reason.
    fn reload(&self, by: &str) -> Result<(), String>;

    /// The current state of every group of a tenant.
    fn groups(&self, tenant: &Tenant) -> Vec<Arc<Group>>;

    /// Addresses of the Alertmanagers, and every destination with its waiting notifications.
    fn destinations(&self) -> (Vec<String>, Vec<Value>);

    /// Its figures since the start.
    fn figures(&self) -> Figures;

    /// How it evaluates.
    fn setting(&self) -> Setting;

    /// A tenant's active alerts with what silences them, firing ones first.
    fn alerts(&self, tenant: &Tenant) -> Vec<Value>;

    /// Silences and maintenance windows of a tenant.
    fn silences(&self, tenant: &Tenant) -> Value;

    /// Silences alerts; durable when it returns.
    ///
    /// # Errors
    /// Why it was refused.
    fn silence(&self, wish: SilenceRequest) -> Result<u64, String>;

    /// Ends a silence of a tenant; returns whether it existed.
    ///
    /// # Errors
    /// Why that could not be saved.
    fn unsilence(&self, tenant: &Tenant, id: u64) -> Result<bool, String>;
}

/// A silence to be created.
#[derive(Clone, Debug)]
pub struct SilenceRequest {
    /// Whose alerts.
    pub tenant: Tenant,
    /// Labels and patterns of their values, or the labels of one alert.
    pub labels: BTreeMap<String, String>,
    /// Since when, milliseconds; now when it is missing.
    pub starts_ms: Option<i64>,
    /// Until when, milliseconds.
    pub ends_ms: i64,
    /// Who creates it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// It is of one alert, and ends with it.
    pub is_acknowledgement: bool,
}

/// How rules are evaluated.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The interval of groups that do not set one, milliseconds.
    pub interval_ms: i64,
    /// Address under which people reach this server.
    pub external_url: String,
    /// Labels of everything that leaves this server.
    pub external_labels: BTreeMap<String, String>,
}

/// A minute, as in Prometheus.
impl Default for Setting {
    fn default() -> Self {
        Self { interval_ms: 60_000, external_url: String::new(), external_labels: BTreeMap::new() }
    }
}

/// Access to the evaluator, once it runs.
#[derive(Default)]
pub struct View {
    runner: Mutex<Option<Weak<dyn Runner>>>,
}

/// Which rules are requested; an empty list means all.
#[derive(Default)]
pub struct RuleFilter {
    /// Recording rules or alerts; both when None.
    pub kind: Option<RuleKind>,
    /// Names of rules.
    pub rules: Vec<String>,
    /// Names of groups.
    pub groups: Vec<String>,
    /// Files of rules.
    pub files: Vec<String>,
    /// Alerting rules are shown without their alerts.
    pub without_alerts: bool,
}

impl View {
    /// Shows the state of `runner`, for as long as that lives.
    pub fn run_by(&self, runner: &Arc<dyn Runner>) {
        *self.runner.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::downgrade(runner));
    }

    fn work(&self) -> Option<Arc<dyn Runner>> {
        self.runner.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(Weak::upgrade)
    }

    /// Reloads the rule files; None when there are no rules.
    pub fn reload(&self, by: &str) -> Option<Result<(), String>> {
        self.work().map(|work| work.reload(by))
    }

    /// Every group of a tenant, as `/api/v1/rules` has them.
    pub fn groups(&self, tenant: &Tenant, wanted: &RuleFilter) -> Value {
        let Some(work) = self.work() else { return json!([]) };
        let accepts = |names: &[String], name: &str| names.is_empty() || names.iter().any(|one| one == name);
        let groups = work.groups(tenant);
        let groups =
            groups.iter().filter(|group| accepts(&wanted.groups, &group.name) && accepts(&wanted.files, &group.file));
        let shown = groups.filter_map(|group| {
            let of_group = group.rules.iter().filter(|rule| {
                wanted.kind.is_none_or(|kind| kind == rule.spec.kind) && accepts(&wanted.rules, &rule.spec.name)
            });
            let rules: Vec<Value> = of_group.map(|rule| rule_json(rule, wanted.without_alerts)).collect();
            let narrowed = wanted.kind.is_some() || !wanted.rules.is_empty();
            (!(narrowed && rules.is_empty())).then(|| group_json(group, rules))
        });
        Value::Array(shown.collect())
    }

    /// Every active alert of a tenant, firing ones first.
    pub fn alerts(&self, tenant: &Tenant) -> Value {
        let Some(work) = self.work() else { return json!([]) };
        let groups = work.groups(tenant);
        let mut active: Vec<&Alert> = groups.iter().flat_map(|group| &group.rules).flat_map(active).collect();
        active.sort_by_key(|alert| (std::cmp::Reverse(alert.state), alert.active_at));
        Value::Array(active.into_iter().map(alert_json).collect())
    }

    /// Addresses of the Alertmanagers, and every destination with its waiting notifications.
    pub fn destinations(&self) -> (Vec<String>, Vec<Value>) {
        self.work().map_or_else(Default::default, |work| work.destinations())
    }

    /// A tenant's active alerts with what silences them, firing ones first.
    #[must_use]
    pub fn quiet_alerts(&self, tenant: &Tenant) -> Vec<Value> {
        self.work().map_or_else(Vec::new, |work| work.alerts(tenant))
    }

    /// Silences and maintenance windows of a tenant.
    #[must_use]
    pub fn silences(&self, tenant: &Tenant) -> Value {
        self.work().map_or_else(|| json!({"silences": [], "maintenance": []}), |work| work.silences(tenant))
    }

    /// Silences alerts; None when there are no rules.
    #[must_use]
    pub fn silence(&self, wish: SilenceRequest) -> Option<Result<u64, String>> {
        self.work().map(|work| work.silence(wish))
    }

    /// Ends a silence of a tenant; None when there are no rules.
    #[must_use]
    pub fn unsilence(&self, tenant: &Tenant, id: u64) -> Option<Result<bool, String>> {
        self.work().map(|work| work.unsilence(tenant, id))
    }

    /// How rules are evaluated here.
    pub fn setting(&self) -> Setting {
        self.work().map_or_else(Setting::default, |work| work.setting())
    }

    /// The figures of rules and delivery: name, labels, value.
    pub fn figures(&self) -> Figures {
        self.work().map_or_else(Vec::new, |work| work.figures())
    }
}

fn active(rule: &Rule) -> impl Iterator<Item = &Alert> {
    rule.alerts().filter(|alert| alert.state != AlertState::Inactive)
}

fn group_json(group: &Group, rules: Vec<Value>) -> Value {
    json!({
        "name": group.name,
        "file": group.file,
        "rules": rules,
        "interval": group.interval.0 as f64 / 1e3,
        "limit": group.limit,
        "evaluationTime": group.took.as_secs_f64(),
        "lastEvaluation": time(group.evaluated_at),
    })
}

fn time(at: Option<WallMs>) -> String {
    at.map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), |at| rfc3339(at.0))
}

fn rule_json(rule: &Rule, without_alerts: bool) -> Value {
    let spec = &rule.spec;
    let mut out = Map::new();
    let mut set = |name: &str, value: Value| drop(out.insert(name.to_owned(), value));
    set("name", json!(spec.name));
    set("query", json!(spec.expr));
    set("labels", json!(spec.labels));
    let (health, error) = match &rule.health {
        Health::Unknown => ("unknown", None),
        Health::Good => ("ok", None),
        Health::Bad(error) => ("err", Some(error)),
    };
    set("health", json!(health));
    if let Some(error) = error {
        set("lastError", json!(error));
    }
    set("evaluationTime", json!(rule.took.as_secs_f64()));
    set("lastEvaluation", json!(time(rule.evaluated_at)));
    if spec.kind == RuleKind::Record {
        set("type", json!("recording"));
        return Value::Object(out);
    }
    set("type", json!("alerting"));
    set("state", json!(rule.state().as_str()));
    set("duration", json!(spec.hold.0 as f64 / 1e3));
    set("keepFiringFor", json!(spec.keep_firing_for.0 as f64 / 1e3));
    set("annotations", json!(spec.annotations));
    let alerts: Vec<Value> = if without_alerts { Vec::new() } else { active(rule).map(alert_json).collect() };
    set("alerts", Value::Array(alerts));
    Value::Object(out)
}

fn alert_json(alert: &Alert) -> Value {
    let labels: BTreeMap<&str, &str> = alert.labels.iter().collect();
    let annotations: BTreeMap<&str, &str> = alert.annotations.iter().map(|(name, value)| (&**name, &**value)).collect();
    let mut out = json!({
        "labels": labels,
        "annotations": annotations,
        "state": alert.state.as_str(),
        "activeAt": rfc3339(alert.active_at.0),
        // As Prometheus writes it here: `1e+00`.
        "value": float::scientific(alert.value),
    });
    if let Some(since) = alert.keep_firing_since {
        out["keepFiringSince"] = json!(rfc3339(since.0));
    }
    out
}
