//! A group of rules, evaluated in order at its slots.
//!
//! Invariants: rules see what those before them gave in the same slot; a series that a rule no longer gives ends with a
//! stale marker; a rule that fails keeps its alerts and series and the others go on.

use std::collections::{BTreeMap, BTreeSet};

use ogive_model::{Labels, Ms, WallMs};
use ogive_query::value::Point;
use twox_hash::XxHash64;

use super::alert::Alert;
use super::context::EvaluationContext;
use super::file::GroupSpec;
use super::rule::{Health, Rule, Transition};
use super::storage::{Sample, Storage, stale};

/// A group with its state.
#[derive(Clone, Debug)]
pub struct Group {
    /// The file it is from.
    pub file: String,
    /// Unique in its file.
    pub name: String,
    /// Between evaluations; above 0.
    pub interval: Ms,
    /// How far before the time of an evaluation its queries are evaluated.
    pub query_offset: Ms,
    /// Most series or alerts of a rule; 0 is no limit.
    pub limit: usize,
    /// In order of evaluation.
    pub rules: Vec<Rule>,
    /// Time of its last evaluation.
    pub evaluated_at: Option<WallMs>,
    /// How long that took.
    pub took: std::time::Duration,
    /// Series of rules that are no longer there: they end at the next evaluation.
    pub(crate) vanished: BTreeSet<Labels>,
}

/// The defaults from the configuration for groups that do not set a value.
#[derive(Clone, Copy, Debug)]
pub struct GroupDefaults {
    /// Between evaluations.
    pub interval: Ms,
    /// How far before the time of an evaluation its queries are evaluated.
    pub query_offset: Ms,
}

/// The outcome of an evaluation of a group.
#[derive(Clone, Debug, Default)]
pub struct GroupOutcome {
    /// Changes of alerts: number of the rule, and the change.
    pub transitions: Vec<(usize, Transition)>,
    /// Rules that failed.
    pub failures: usize,
    /// Samples that were stored, stale markers included.
    pub samples: usize,
}

/// An alert that is to be delivered.
#[derive(Clone, Debug, PartialEq)]
pub struct DueAlert {
    /// Number of its rule.
    pub rule: usize,
    /// The alert.
    pub alert: Alert,
    /// It began or stopped firing since it was last delivered; otherwise it is sent again so that it does not expire.
    pub is_change: bool,
}

impl Group {
    /// A group before its first evaluation.
    #[must_use]
    pub fn new(file: &str, spec: &GroupSpec, defaults: GroupDefaults) -> Self {
        Self {
            file: file.to_owned(),
            name: spec.name.clone(),
            interval: spec.interval.unwrap_or(defaults.interval).max(Ms(1)),
            query_offset: spec.query_offset.unwrap_or(defaults.query_offset),
            limit: spec.limit,
            rules: spec.rules.iter().cloned().map(Rule::new).collect(),
            evaluated_at: None,
            took: std::time::Duration::ZERO,
            vanished: BTreeSet::new(),
        }
    }

    /// A number for its file and name, always the same.
    #[must_use]
    pub fn number(&self) -> u64 {
        XxHash64::oneshot(0, format!("{}\0{}", self.file, self.name).as_bytes())
    }

    /// The first slot after `time`. Groups of one interval are spread over it by the hash of their name and file.
    #[must_use]
    pub fn slot_after(&self, time: WallMs) -> WallMs {
        let interval = self.interval;
        let offset = Ms(i64::try_from(self.number() % interval.0.unsigned_abs()).expect("below an i64"));
        (time - offset).align_down(interval) + interval + offset
    }

    /// Evaluates every rule at `time`.
    pub fn evaluate(&mut self, storage: &dyn Storage, time: WallMs, context: &EvaluationContext<'_>) -> GroupOutcome {
        assert!(self.evaluated_at.is_none_or(|before| before <= time), "time goes on");
        let (began, mut out) = ((context.elapsed)(), GroupOutcome::default());
        for number in 0..self.rules.len() {
            let rule_began = (context.elapsed)();
            let done = self.evaluate_rule(number, storage, time, context);
            let rule = &mut self.rules[number];
            rule.took = (context.elapsed)().saturating_sub(rule_began);
            rule.evaluated_at = Some(time);
            rule.health = match done {
                Ok((samples, transitions)) => {
                    out.samples += samples;
                    out.transitions.extend(transitions.into_iter().map(|one| (number, one)));
                    Health::Good
                }
                Err(error) => {
                    out.failures += 1;
                    Health::Bad(error)
                }
            };
        }
        let gone = ends(std::mem::take(&mut self.vanished), &BTreeSet::new(), time - self.query_offset);
        if !gone.is_empty() && storage.append(gone).is_err() {
            out.failures += 1;
        }
        self.evaluated_at = Some(time);
        self.took = (context.elapsed)().saturating_sub(began);
        out
    }

    fn evaluate_rule(
        &mut self,
        number: usize,
        storage: &dyn Storage,
        time: WallMs,
        context: &EvaluationContext<'_>,
    ) -> Result<(usize, Vec<Transition>), String> {
        let (offset, limit) = (self.query_offset, self.limit);
        let rule = &mut self.rules[number];
        let outcome = rule.evaluate(storage, time, offset, limit, context)?;
        let now: BTreeSet<Labels> = outcome.samples.iter().map(|sample| sample.labels.clone()).collect();
        let mut samples = outcome.samples;
        samples.extend(ends(std::mem::take(&mut rule.previous), &now, time - offset));
        rule.previous = now;
        let count = samples.len();
        if count > 0 {
            storage.append(samples)?;
        }
        Ok((count, outcome.transitions))
    }

    /// The alerts that are to be handed to delivery at `time`; they count as sent.
    pub fn take_due(&mut self, time: WallMs, resend_delay: Ms) -> Vec<DueAlert> {
        let mut out = Vec::new();
        for (number, rule) in self.rules.iter_mut().enumerate() {
            // A failing rule does not change its alerts.
            if matches!(rule.health, Health::Bad(_)) {
                continue;
            }
            for alert in rule.alerts.values_mut().filter(|alert| alert.needs_sending(time, resend_delay)) {
                let is_change = alert.sent_at.is_none_or(|sent_at| alert.resolved_at.is_some_and(|at| at > sent_at));
                alert.sent_at = Some(time);
                out.push(DueAlert { rule: number, alert: alert.clone(), is_change });
            }
        }
        out
    }

    /// Until when a firing alert that is sent at `time` is valid unless it is sent again: four times the longer of
    /// interval and delay, so that two failed deliveries do not end it.
    #[must_use]
    pub fn valid_until(&self, time: WallMs, resend_delay: Ms) -> WallMs {
        time + self.interval.max(resend_delay) * 4
    }

    /// Takes over the state of `before`: rules are the same when their name and labels are. Series that are not taken
    /// over end at the next evaluation.
    pub fn take_over(&mut self, before: Self) {
        let mut old: BTreeMap<(String, BTreeMap<String, String>), Vec<Rule>> = BTreeMap::new();
        for rule in before.rules.into_iter().rev() {
            old.entry((rule.spec.name.clone(), rule.spec.labels.clone())).or_default().push(rule);
        }
        for rule in &mut self.rules {
            let found = old.get_mut(&(rule.spec.name.clone(), rule.spec.labels.clone()));
            let Some(known) = found.and_then(Vec::pop) else { continue };
            if known.spec.kind != rule.spec.kind {
                self.vanished.extend(known.previous);
                continue;
            }
            rule.alerts = known.alerts;
            rule.previous = known.previous;
            rule.seen = known.seen;
            rule.health = known.health;
            rule.evaluated_at = known.evaluated_at;
            rule.took = known.took;
        }
        self.vanished.extend(before.vanished);
        self.vanished.extend(old.into_values().flatten().flat_map(|rule| rule.previous));
        self.evaluated_at = before.evaluated_at;
        self.took = before.took;
    }
}

/// Staleness markers of series that existed before and no longer do.
fn ends(before: BTreeSet<Labels>, now: &BTreeSet<Labels>, time: WallMs) -> Vec<Sample> {
    let gone = before.into_iter().filter(|labels| !now.contains(labels));
    gone.map(|labels| Sample { labels, time, value: Point::Float(stale()) }).collect()
}
