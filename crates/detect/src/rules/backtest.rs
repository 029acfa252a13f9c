//! Backtests: would rules have alerted over what is stored, when, and how often with another `for`?
//!
//! Invariants: groups are evaluated at the slots, in the order, with the queries, templates, limits and states that
//! they have when they run live. They begin without alerts, and do not see what their rules once stored.
//! Limits: [`EVALUATIONS_MAX`] evaluations of rules, [`TRANSITIONS_MAX`] transitions that are listed (all are counted),
//! and what the engine charges.

use std::collections::BTreeSet;

use ogive_model::{Ms, Select, WallMs};

use super::alert::AlertState;
use super::context::EvaluationContext;
use super::file::{RuleFile, RuleKind, RuleSpec};
use super::group::{Group, GroupDefaults};
use super::past::Past;
use super::rule::{Health, Rule, Transition};

/// 5,000,000 evaluations: a hundred rules over a month of minutes.
pub const EVALUATIONS_MAX: i64 = 5_000_000;
/// 20,000 transitions are listed: more than anybody reads.
pub const TRANSITIONS_MAX: usize = 20_000;
/// 16 other `for` at the most.
pub const HOLDS_MAX: usize = 16;

/// What is to be tested.
#[derive(Clone, Debug)]
pub struct Backtest<'a> {
    /// Name of the file: with the name of a group it decides the group's slots.
    pub path: &'a str,
    /// Its rules.
    pub file: &'a RuleFile,
    /// For groups that do not say it themselves.
    pub defaults: GroupDefaults,
    /// Evaluations happen after this instant,
    pub start: WallMs,
    /// up to this one.
    pub end: WallMs,
    /// Other values of `for`: how often would alerts have fired with them?
    pub holds: &'a [Ms],
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BacktestError {
    /// It asks for too much.
    #[error("{0}")]
    TooLarge(String),
    /// The caller no longer waits for it.
    #[error("the backtest was cancelled")]
    Cancelled,
}

/// What became of one rule.
#[derive(Clone, Debug)]
pub struct RuleHistory {
    /// Name of its group.
    pub group: String,
    /// Name of the series or of the alert.
    pub name: String,
    /// Line of the file on which it begins, from 1.
    pub line: u64,
    /// Evaluations.
    pub evaluations: usize,
    /// Those that failed.
    pub failures: usize,
    /// The last error.
    pub last_error: Option<String>,
    /// Of an alerting rule.
    pub alerts: Option<AlertHistory>,
}

/// What became of the alerts of a rule.
#[derive(Clone, Debug, Default)]
pub struct AlertHistory {
    /// `for` of the rule.
    pub hold: Ms,
    /// How often an alert began to fire.
    pub fired: usize,
    /// How long alerts fired, together.
    pub firing: Ms,
    /// How often one would have begun to fire with another `for`.
    pub fired_with: Vec<(Ms, usize)>,
    /// All transitions.
    pub transitions_count: usize,
    /// The first ones, in order of time, with the annotations of those that began to fire.
    pub transitions: Vec<(Transition, Vec<(String, String)>)>,
    /// Alerts that fire at the end.
    pub firing_at_end: usize,
}

/// A rule with another `for`.
struct Shadow {
    rule: Rule,
    fired: usize,
}

struct Tested {
    group: Group,
    next: WallMs,
    /// Of each rule.
    histories: Vec<RuleHistory>,
    shadows: Vec<Vec<Shadow>>,
}

/// Evaluates the rules of `test` over what `store` holds. `elapsed` of the context is not read.
///
/// # Errors
/// See [`BacktestError`]. A rule that fails is part of the result.
pub fn backtest(
    test: &Backtest<'_>,
    store: &dyn Select,
    context: &EvaluationContext<'_>,
) -> Result<Vec<RuleHistory>, BacktestError> {
    let mut tested: Vec<Tested> = test.file.groups.iter().map(|spec| Tested::new(test, spec)).collect();
    check_size(test, &tested)?;
    let rules = || test.file.groups.iter().flat_map(|group| &group.rules);
    let mut own: BTreeSet<String> =
        rules().filter(|rule| rule.kind == RuleKind::Record).map(|rule| rule.name.clone()).collect();
    own.extend(["ALERTS".to_owned(), "ALERTS_FOR_STATE".to_owned()]);
    let extra = |rule: &'_ RuleSpec| -> Vec<String> {
        rule.extension.iter().flat_map(|extension| extension.expressions()).map(str::to_owned).collect()
    };
    let expressions: Vec<String> =
        rules().flat_map(|rule| std::iter::once(rule.expr.clone()).chain(extra(rule))).collect();
    // A template may ask for anything.
    let mut texts = rules().flat_map(|rule| rule.labels.values().chain(rule.annotations.values()));
    let reads_all = texts.any(|text| text.contains("query"));
    let past = Past::new(store, &own, &expressions, reads_all, test.end);
    let mut listed = 0;
    while let Some(next) = tested.iter_mut().filter(|one| one.next <= test.end).min_by_key(|one| one.next) {
        if (context.cancelled)() {
            return Err(BacktestError::Cancelled);
        }
        next.step(&past, context, &mut listed);
    }
    Ok(tested.into_iter().flat_map(|one| one.finish(test.end)).collect())
}

fn check_size(test: &Backtest<'_>, tested: &[Tested]) -> Result<(), BacktestError> {
    if test.start >= test.end {
        return Err(BacktestError::TooLarge("the start is not before the end".to_owned()));
    }
    if test.holds.len() > HOLDS_MAX {
        return Err(BacktestError::TooLarge(format!("more than {HOLDS_MAX} other values of for")));
    }
    let of = |one: &Tested| {
        let slots = (test.end - test.start) / one.group.interval + 1;
        slots.saturating_mul(i64::try_from(one.group.rules.len()).unwrap_or(i64::MAX))
    };
    let evaluations = tested.iter().map(of).fold(0, i64::saturating_add);
    if evaluations > EVALUATIONS_MAX {
        let message = format!(
            "{evaluations} evaluations are more than {EVALUATIONS_MAX}; test fewer rules, a shorter time or a longer interval"
        );
        return Err(BacktestError::TooLarge(message));
    }
    Ok(())
}

impl Tested {
    fn new(test: &Backtest<'_>, spec: &super::file::GroupSpec) -> Self {
        let group = Group::new(test.path, spec, test.defaults);
        let history = |rule: &Rule| RuleHistory {
            group: spec.name.clone(),
            name: rule.spec.name.clone(),
            line: rule.spec.line,
            evaluations: 0,
            failures: 0,
            last_error: None,
            alerts: (rule.spec.kind == RuleKind::Alert)
                .then(|| AlertHistory { hold: rule.spec.hold, ..AlertHistory::default() }),
        };
        let shadows = |rule: &Rule| {
            let alerting = rule.spec.kind == RuleKind::Alert;
            let holds = test.holds.iter().filter(|hold| alerting && **hold != rule.spec.hold);
            holds
                .map(|hold| {
                    let mut spec = rule.spec.clone();
                    spec.hold = *hold;
                    spec.annotations.clear();
                    Shadow { rule: Rule::new(spec), fired: 0 }
                })
                .collect()
        };
        let next = group.slot_after(test.start);
        let histories = group.rules.iter().map(history).collect();
        let shadows = group.rules.iter().map(shadows).collect();
        Self { group, next, histories, shadows }
    }

    /// One evaluation of the group.
    fn step(&mut self, past: &Past<'_>, context: &EvaluationContext<'_>, listed: &mut usize) {
        let time = self.next;
        past.begin(self.group.interval);
        let outcome = self.group.evaluate(past, time, context);
        for (rule, history) in self.group.rules.iter().zip(&mut self.histories) {
            history.evaluations += 1;
            if let Health::Bad(error) = &rule.health {
                history.failures += 1;
                history.last_error = Some(error.clone());
            }
        }
        for (number, transition) in outcome.transitions {
            let (rule, history) = (&self.group.rules[number], &mut self.histories[number]);
            let alerts = history.alerts.as_mut().expect("only alerting rules have transitions");
            let alert = rule.alerts.get(&transition.labels);
            if transition.to == AlertState::Firing {
                alerts.fired += 1;
            } else if transition.from == AlertState::Firing {
                alerts.firing += time - alert.and_then(|alert| alert.fired_at).unwrap_or(time);
            }
            alerts.transitions_count += 1;
            if *listed < TRANSITIONS_MAX {
                *listed += 1;
                let fires = transition.to == AlertState::Firing;
                let annotations = alert.filter(|_| fires).map(|alert| alert.annotations.clone()).unwrap_or_default();
                alerts.transitions.push((transition, annotations));
            }
        }
        let again = past.again();
        let offset = self.group.query_offset;
        for (rule, shadows) in self.group.rules.iter().zip(&mut self.shadows) {
            let begin = again.position();
            for shadow in shadows {
                again.rewind(begin);
                if let Ok(outcome) = shadow.rule.evaluate(&again, time, offset, self.group.limit, context) {
                    let fires = |one: &&Transition| one.to == AlertState::Firing;
                    shadow.fired += outcome.transitions.iter().filter(fires).count();
                }
            }
            again.rewind(begin);
            let extra = rule.spec.extension.iter().map(|extension| extension.expressions().count()).sum::<usize>();
            again.skip(1 + extra);
        }
        self.next = self.group.slot_after(time);
    }

    fn finish(mut self, end: WallMs) -> Vec<RuleHistory> {
        for ((rule, history), shadows) in self.group.rules.iter().zip(&mut self.histories).zip(self.shadows) {
            let Some(alerts) = &mut history.alerts else { continue };
            let firing = || rule.alerts().filter(|alert| alert.state == AlertState::Firing);
            alerts.firing_at_end = firing().count();
            alerts.firing += firing().map(|alert| end - alert.fired_at.unwrap_or(end)).sum::<Ms>();
            alerts.fired_with = shadows.into_iter().map(|one| (one.rule.spec.hold, one.fired)).collect();
        }
        self.histories
    }
}

#[cfg(test)]
#[path = "backtest_tests.rs"]
mod tests;
