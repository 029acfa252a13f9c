//! A rule with its state, and one evaluation of it.

use std::collections::{BTreeMap, BTreeSet};

use ogive_model::{Labels, METRIC_NAME, Ms, Select, WallMs};
use ogive_query::value::{InstantSample, Point};

use super::alert::{Alert, AlertState, RESOLVED_RETENTION};
use super::context::{EvaluationContext, elements};
use super::extension::{ExpressionValues, NoData, fits};
use super::file::{RuleKind, RuleSpec, VARIABLES};
use super::storage::{Sample, Storage};
use super::template::{Queries, Site, Structure, Template, Value};

/// How the last evaluation ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// Not evaluated yet.
    #[default]
    Unknown,
    /// Well.
    Good,
    /// With this error.
    Bad(String),
}

/// A change of an alert.
#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    /// When.
    pub time: WallMs,
    /// Which.
    pub labels: Labels,
    /// Before.
    pub from: AlertState,
    /// Now.
    pub to: AlertState,
    /// Value of its element.
    pub value: f64,
}

/// A rule with its state.
#[derive(Clone, Debug)]
pub struct Rule {
    /// As its file has it.
    pub spec: RuleSpec,
    /// How its last evaluation ended.
    pub health: Health,
    /// Time of its last evaluation.
    pub evaluated_at: Option<WallMs>,
    /// How long that took.
    pub took: std::time::Duration,
    label_templates: Vec<(String, Template)>,
    annotation_templates: Vec<(String, Template)>,
    /// Alerts by their labels, resolved ones among them until their retention ends.
    pub(crate) alerts: BTreeMap<Labels, Alert>,
    /// Series of the last good evaluation.
    pub(crate) previous: BTreeSet<Labels>,
    /// Label sets that had data, and when they last had: for rules that alert when it is gone.
    pub(crate) seen: BTreeMap<Labels, WallMs>,
}

/// 50,000 alerts of a rule whose group has no limit, some 50 MB with their texts: with more, a condition is always
/// true, or needs aggregation or a limit. The rule fails then and its alerts are unchanged.
pub const ALERTS_MAX: usize = 50_000;
/// A day: data missing for longer counts as gone for good, and its alert ends.
pub const SEEN: Ms = Ms::from_secs(86_400);
/// 100,000 labels with data that a rule remembers; further ones do not alert when they go.
pub const SEEN_MAX: usize = 100_000;

/// The samples of an evaluation, and the changes.
pub(crate) struct Outcome {
    pub(crate) samples: Vec<Sample>,
    pub(crate) transitions: Vec<Transition>,
}

impl Rule {
    /// A rule before its first evaluation.
    ///
    /// # Panics
    /// When a template of `spec` does not parse: files with one are refused.
    #[must_use]
    pub fn new(spec: RuleSpec) -> Self {
        let templates = |texts: &BTreeMap<String, String>| -> Vec<(String, Template)> {
            let parse = |text: &str| Template::parse(&format!("__alert_{}", spec.name), text, &VARIABLES);
            texts.iter().map(|(name, text)| (name.clone(), parse(text).expect("the file was checked"))).collect()
        };
        let alerting = spec.kind == RuleKind::Alert;
        let label_templates = if alerting { templates(&spec.labels) } else { Vec::new() };
        let annotation_templates = templates(&spec.annotations);
        Self {
            spec,
            health: Health::Unknown,
            evaluated_at: None,
            took: std::time::Duration::ZERO,
            label_templates,
            annotation_templates,
            alerts: BTreeMap::new(),
            previous: BTreeSet::new(),
            seen: BTreeMap::new(),
        }
    }

    /// Alerts, including resolved ones that are still kept.
    pub fn alerts(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.values()
    }

    /// The state of its most urgent alert.
    #[must_use]
    pub fn state(&self) -> AlertState {
        self.alerts.values().map(|alert| alert.state).max().unwrap_or(AlertState::Inactive)
    }

    pub(crate) fn evaluate(
        &mut self,
        storage: &dyn Storage,
        time: WallMs,
        offset: Ms,
        limit: usize,
        context: &EvaluationContext<'_>,
    ) -> Result<Outcome, String> {
        let found = self.found(storage, time - offset, context)?;
        match self.spec.kind {
            RuleKind::Record => self.record(found.elements, time - offset, limit),
            RuleKind::Alert => self.alert(storage.select(), found, time, offset, limit, context),
        }
    }

    /// The results of its expressions at `time`: always the same ones in the same order.
    fn found(
        &self,
        storage: &dyn Storage,
        time: WallMs,
        context: &EvaluationContext<'_>,
    ) -> Result<ExpressionValues, String> {
        let mut found = ExpressionValues {
            elements: storage.elements(&self.spec.expr, time, context)?,
            ..ExpressionValues::default()
        };
        let Some(extension) = &self.spec.extension else { return Ok(found) };
        if let Some(clear) = &extension.clear {
            found.clear = storage.elements(clear, time, context)?;
        }
        if let Some((least, counted)) = &extension.count {
            let counts = storage.elements(counted, time, context)?;
            found.with_at_least(*least, &counts);
        }
        if let Some(data) = &extension.data {
            found.data = Some(storage.elements(data, time, context)?);
        }
        Ok(found)
    }

    fn record(&self, found: Vec<InstantSample>, time: WallMs, limit: usize) -> Result<Outcome, String> {
        let mut seen = BTreeSet::new();
        let mut samples = Vec::with_capacity(found.len());
        for one in found {
            let mut labels = with(&one.labels, METRIC_NAME, &self.spec.name)?;
            for (name, value) in &self.spec.labels {
                labels = with(&labels, name, value)?;
            }
            if !seen.insert(labels.clone()) {
                return Err("vector contains metrics with the same labelset after applying rule labels".to_owned());
            }
            samples.push(Sample { labels, time, value: one.value });
        }
        if limit > 0 && samples.len() > limit {
            return Err(format!("exceeded limit of {limit} with {} series", samples.len()));
        }
        Ok(Outcome { samples, transitions: Vec::new() })
    }

    fn alert(
        &mut self,
        store: &dyn Select,
        mut found: ExpressionValues,
        time: WallMs,
        offset: Ms,
        limit: usize,
        context: &EvaluationContext<'_>,
    ) -> Result<Outcome, String> {
        let queries = StoreQueries { store, context };
        let site = Site { time, external_url: context.external_url, queries: &queries };
        self.add_vanished(&mut found, time);
        let count = found.elements.len();
        if limit > 0 && count > limit {
            // Before anything is made of them: there may be a million.
            self.alerts.clear();
            return Err(format!("exceeded limit of {limit} with {count} alerts"));
        }
        if limit == 0 && count > ALERTS_MAX {
            return Err(format!(
                "the rule would have {count} alerts, more than {ALERTS_MAX}: aggregate in its expression, or set a limit"
            ));
        }
        let mut now = BTreeMap::new();
        for one in &found.elements {
            let alert = self.pending(one, &site, context)?;
            if now.insert(alert.labels.clone(), alert).is_some() {
                return Err("vector contains metrics with the same labelset after applying alert labels".to_owned());
            }
        }
        let present: BTreeSet<Labels> = now.keys().cloned().collect();
        for (labels, alert) in now {
            match self.alerts.get_mut(&labels) {
                Some(known) if known.state != AlertState::Inactive => {
                    known.value = alert.value;
                    known.annotations = alert.annotations;
                }
                _ => drop(self.alerts.insert(labels, alert)),
            }
        }
        let fates: BTreeMap<Labels, MissingElement> = match &self.spec.extension {
            Some(_) => self.alerts.iter().map(|(labels, alert)| (labels.clone(), self.fate(alert, &found))).collect(),
            None => BTreeMap::new(),
        };
        self.step(&present, &fates, time, offset, limit)
    }

    /// Records what has data, and adds an element for what had data and has none, where the rule alerts on that.
    fn add_vanished(&mut self, found: &mut ExpressionValues, time: WallMs) {
        let alerts = self.spec.extension.as_ref().is_some_and(|extension| extension.no_data == NoData::Alert);
        let Some(data) = found.data.as_ref().filter(|_| alerts) else { return };
        for one in data {
            let labels = one.labels.filtered(|name| name != METRIC_NAME);
            if self.seen.len() < SEEN_MAX || self.seen.contains_key(&labels) {
                self.seen.insert(labels, time);
            }
        }
        self.seen.retain(|_, last| time - *last <= SEEN);
        let gone = self.seen.iter().filter(|(_, last)| **last != time);
        let gone =
            gone.map(|(labels, _)| InstantSample { labels: labels.clone(), time, value: Point::Float(f64::NAN) });
        found.elements.extend(gone);
    }

    /// What happens to an alert whose element is gone.
    fn fate(&self, alert: &Alert, found: &ExpressionValues) -> MissingElement {
        let Some(extension) = &self.spec.extension else { return MissingElement::Usual };
        let changed: Vec<&str> = self.spec.labels.keys().map(String::as_str).collect();
        let fits_alert = |one: &InstantSample| fits(one, &alert.labels, &changed);
        if found.data.as_ref().is_some_and(|data| !data.iter().any(fits_alert)) {
            return match extension.no_data {
                NoData::Resolve => MissingElement::Usual,
                NoData::Keep | NoData::Alert => MissingElement::Stays,
                NoData::Ok => MissingElement::Ends,
            };
        }
        let is_held = extension.clear.is_some() && alert.state == AlertState::Firing;
        if is_held && !found.clear.iter().any(fits_alert) { MissingElement::Stays } else { MissingElement::Usual }
    }

    /// The alert of an element, as new.
    fn pending(&self, one: &InstantSample, site: &Site<'_>, context: &EvaluationContext<'_>) -> Result<Alert, String> {
        let (number, value) = match &one.value {
            Point::Float(value) => (*value, Value::Float(*value)),
            Point::Histogram(histogram) => {
                let sum = histogram.sum.unwrap_or(f64::NAN);
                let text =
                    format!("{{count:{}, sum:{}}}", Value::Float(histogram.count).print(), Value::Float(sum).print());
                (0.0, Value::text(&text))
            }
        };
        let external = Value::Texts(std::sync::Arc::new(context.external_labels.clone()));
        let values = [Value::labels(&one.labels), external, Value::text(context.external_url), value];
        let fields = ["Labels", "ExternalLabels", "ExternalURL", "Value"].into_iter().zip(values.clone()).collect();
        let data = Value::Structure(std::sync::Arc::new(Structure { type_name: "struct", fields }));
        let expand = |template: &Template| {
            template.expand(&data, &values, site).unwrap_or_else(|error| format!("<error expanding template: {error}>"))
        };
        let mut labels = one.labels.filtered(|name| name != METRIC_NAME);
        for (name, template) in &self.label_templates {
            labels = with(&labels, name, &expand(template))?;
        }
        let annotations =
            self.annotation_templates.iter().map(|(name, template)| (name.clone(), expand(template))).collect();
        let labels = with(&labels, "alertname", &self.spec.name)?;
        can_have_state(&labels)?;
        Ok(Alert {
            state: AlertState::Pending,
            labels,
            annotations,
            value: number,
            active_at: site.time,
            fired_at: None,
            resolved_at: None,
            sent_at: None,
            keep_firing_since: None,
        })
    }

    /// Advances every alert to `time`; `present` have their element, the others their fate.
    fn step(
        &mut self,
        present: &BTreeSet<Labels>,
        fates: &BTreeMap<Labels, MissingElement>,
        time: WallMs,
        offset: Ms,
        limit: usize,
    ) -> Result<Outcome, String> {
        let (hold, keep) = (self.spec.hold, self.spec.keep_firing_for);
        let mut out = Outcome { samples: Vec::new(), transitions: Vec::new() };
        let mut active = 0;
        self.alerts.retain(|labels, alert| {
            let before =
                if alert.active_at == time && alert.fired_at.is_none() { AlertState::Inactive } else { alert.state };
            let stays = if present.contains(labels) {
                alert.keep_firing_since = None;
                true
            } else {
                match fates.get(labels) {
                    Some(MissingElement::Stays) => alert.state != AlertState::Inactive,
                    Some(MissingElement::Ends) => absent(alert, time, Ms::ZERO),
                    Some(MissingElement::Usual) | None => absent(alert, time, keep),
                }
            };
            // Only an alert with its element can begin to fire.
            let is_present = stays && present.contains(labels);
            if alert.state == AlertState::Pending && is_present && time - alert.active_at >= hold {
                alert.state = AlertState::Firing;
                alert.fired_at = Some(time);
            }
            if alert.state != before {
                let (labels, from, to) = (labels.clone(), before, alert.state);
                out.transitions.push(Transition { time, labels, from, to, value: alert.value });
            }
            if alert.state != AlertState::Inactive {
                active += 1;
                out.samples.extend(state_samples(alert, time - offset));
            }
            let over = alert.resolved_at.is_some_and(|at| time - at > RESOLVED_RETENTION);
            // A pending alert was never notified, so its end need not be either.
            alert.state != AlertState::Inactive || (alert.fired_at.is_some() && !over)
        });
        if limit > 0 && active > limit {
            self.alerts.clear();
            return Err(format!("exceeded limit of {limit} with {active} alerts"));
        }
        Ok(out)
    }
}

/// What happens to an alert whose element is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MissingElement {
    /// It ends, after `keep_firing_for`.
    Usual,
    /// It keeps its state.
    Stays,
    /// It ends at once.
    Ends,
}

/// Updates an alert without its element; returns whether it stays active.
fn absent(alert: &mut Alert, time: WallMs, keep_firing_for: Ms) -> bool {
    if alert.state == AlertState::Firing && keep_firing_for > Ms::ZERO {
        let since = *alert.keep_firing_since.get_or_insert(time);
        if time - since < keep_firing_for {
            return true;
        }
    }
    if alert.state != AlertState::Inactive {
        alert.state = AlertState::Inactive;
        alert.resolved_at = Some(time);
    }
    false
}

/// The label of `ALERTS` with the state.
const ALERT_STATE: &str = "alertstate";

/// Whether an alert's labels leave room for those that `ALERTS` adds. They are counted and not added: this is asked for
/// each alert at each evaluation.
fn can_have_state(labels: &Labels) -> Result<(), String> {
    let added = [METRIC_NAME, ALERT_STATE].into_iter().filter(|name| labels.get(name).is_empty()).count();
    let (count, most) = (labels.len() + added, Labels::COUNT_MAX);
    if count > most { Err(format!("the alert would have {count} labels in ALERTS, above {most}")) } else { Ok(()) }
}

/// `ALERTS` and `ALERTS_FOR_STATE` of an alert.
fn state_samples(alert: &Alert, time: WallMs) -> [Sample; 2] {
    let named = |name: &str| alert.labels.with(METRIC_NAME, name);
    let state = named("ALERTS").with(ALERT_STATE, alert.state.as_str());
    let since = alert.active_at.to_secs() as f64;
    [
        Sample { labels: state, time, value: Point::Float(1.0) },
        Sample { labels: named("ALERTS_FOR_STATE"), time, value: Point::Float(since) },
    ]
}

/// `labels` with one set, or without it when the value is empty.
fn with(labels: &Labels, name: &str, value: &str) -> Result<Labels, String> {
    if value.is_empty() {
        return Ok(labels.filtered(|other| other != name));
    }
    labels.try_with(name, value).map_err(|error| error.to_string())
}

/// Queries of templates, answered by the store.
struct StoreQueries<'a> {
    store: &'a dyn Select,
    context: &'a EvaluationContext<'a>,
}

impl Queries for StoreQueries<'_> {
    fn query(&self, text: &str, time: WallMs) -> Result<Vec<(Labels, f64)>, String> {
        let found = elements(self.store, text, time, self.context)?;
        let number = |point: &Point| if let Point::Float(value) = point { *value } else { 0.0 };
        Ok(found.into_iter().map(|one| (one.labels, number(&one.value))).collect())
    }
}

#[cfg(test)]
#[path = "extension_tests.rs"]
mod extension_tests;
