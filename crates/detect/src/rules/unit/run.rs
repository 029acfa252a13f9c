//! Runs unit tests: loads their series step by step, evaluates every group at each step and looks.
//!
//! As in promtool a group's own interval does not count: each is evaluated at every `evaluation_interval`.

use std::sync::Arc;
use std::time::Duration;

use ogive_model::{Labels, Ms, WallMs};
use ogive_query::value;
use ogive_query::{Engine, EngineOptions};

use super::compare::{AlertText, SampleText, alert_lines, expected_alert, found_alert};
use super::file::{AlertTest, ExpressionTest, TestFile, TestGroup};
use super::notation;
use super::report::{Failure, TestReport};
use crate::rules::alert::AlertState;
use crate::rules::context::{EvaluationContext, elements};
use crate::rules::duration;
use crate::rules::file::{RuleFile, RuleKind};
use crate::rules::group::{Group, GroupDefaults};
use crate::rules::rule::Health;
use crate::rules::storage::{MemoryStore, Sample, Storage};
use ogive_query::points::{self, Point};

/// Most evaluations of one test: two years of minutes.
pub const EVALUATIONS_MAX: i64 = 1_000_000;

/// Runs the tests of `file` whose name `wanted` accepts, over the rules of `rules` (path and file).
#[must_use]
pub fn run(
    file: &TestFile,
    rules: &[(String, RuleFile)],
    wanted: &dyn Fn(&str) -> bool,
    debug: bool,
) -> Vec<TestReport> {
    let named = file.tests.iter().enumerate().filter(|(_, test)| wanted(test.name.as_deref().unwrap_or("")));
    named
        .map(|(number, test)| {
            let name = test.name.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| format!("{}", number + 1));
            let mut report = TestReport { name, failures: Vec::new(), steps: Vec::new() };
            if let Err(error) = run_one(file, test, rules, debug, &mut report) {
                report.failures.push(Failure::Error(error));
            }
            report
        })
        .collect()
}

/// Series that are stored as time advances.
struct Input {
    labels: Labels,
    points: std::iter::Peekable<std::vec::IntoIter<(WallMs, Point)>>,
}

fn input(test: &TestGroup, start: WallMs) -> Result<Vec<Input>, String> {
    let mut out = Vec::new();
    for series in &test.input_series {
        let place = |error| format!("{} {}: {error}", series.series, series.values);
        let labels = notation::labels(&series.series).map_err(place)?;
        let points = points::parse(&series.values).map_err(place)?;
        let timed: Vec<_> = (0..).map(|at| start + Ms(at * test.interval)).zip(points).collect();
        out.push(Input { labels, points: timed.into_iter().peekable() });
    }
    Ok(out)
}

fn load(input: &mut [Input], store: &MemoryStore<'_>, time: WallMs) {
    let mut samples = Vec::new();
    for series in input {
        while let Some((at, point)) = series.points.next_if(|(at, _)| *at <= time) {
            let value = match point {
                Point::Missing => continue,
                Point::Float(value) => value::Point::Float(value),
                Point::Histogram(value, _) => value::Point::Histogram(Arc::new(*value)),
            };
            samples.push(Sample { labels: series.labels.clone(), time: at, value });
        }
    }
    store.append(samples).expect("memory takes everything");
}

fn groups(file: &TestFile, rules: &[(String, RuleFile)]) -> Vec<Group> {
    let defaults = GroupDefaults { interval: Ms(file.evaluation_interval), query_offset: Ms::ZERO };
    let mut groups: Vec<Group> = rules
        .iter()
        .flat_map(|(path, rules)| rules.groups.iter().map(move |spec| Group::new(path, spec, defaults)))
        .collect();
    groups.sort_by_key(|group| file.group_eval_order.iter().position(|name| *name == group.name).map_or(0, |at| at));
    groups
}

fn run_one(
    file: &TestFile,
    test: &TestGroup,
    rules: &[(String, RuleFile)],
    debug: bool,
    report: &mut TestReport,
) -> Result<(), String> {
    let interval = file.evaluation_interval;
    let (start, end) = (test.start()?, test.end_ms());
    if end / interval >= EVALUATIONS_MAX {
        return Err(format!("takes more than {EVALUATIONS_MAX} evaluations"));
    }
    let mut input = input(test, start)?;
    let store = MemoryStore::default();
    let engine = Engine::new(EngineOptions { subquery_step: Ms(interval), ..EngineOptions::default() });
    let context = EvaluationContext {
        engine: &engine,
        external_url: test.external_url.as_deref().unwrap_or(""),
        external_labels: &test.external_labels,
        elapsed: &|| Duration::ZERO,
        cancelled: &|| false,
    };
    let mut groups = groups(file, rules);
    let mut errors = Vec::new();
    for at in (0..).map(|step| step * interval).take_while(|at| *at <= end) {
        let time = start + Ms(at);
        load(&mut input, &store, time);
        for group in &mut groups {
            let outcome = group.evaluate(&store, time, &context);
            if debug {
                report.steps.extend(outcome.transitions.iter().map(|(_, one)| {
                    format!(
                        "{} {} {} -> {} value {}",
                        duration::text(at),
                        one.labels,
                        one.from.as_str(),
                        one.to.as_str(),
                        one.value
                    )
                }));
            }
            for rule in &group.rules {
                if let Health::Bad(error) = &rule.health {
                    errors.push(Failure::Error(format!(
                        "rule: {}, time: {}, err: {error}",
                        rule.spec.name,
                        duration::text(at)
                    )));
                }
            }
        }
        for case in test.alert_rule_test.iter().filter(|case| at <= case.eval_time && case.eval_time < at + interval) {
            report.failures.extend(alerts(case, &groups));
        }
    }
    if !errors.is_empty() {
        // promtool stops here too: after a failing rule, further results are not meaningful.
        report.failures = errors;
        return Ok(());
    }
    for case in &test.promql_expr_test {
        report.failures.extend(expression(case, &store, start, file.fuzzy_compare, &context));
    }
    Ok(())
}

/// Compares the alerts that fire.
fn alerts(case: &AlertTest, groups: &[Group]) -> Option<Failure> {
    let time = duration::text(case.eval_time);
    let Some(name) = case.alertname.as_deref().filter(|name| !name.is_empty()) else {
        return Some(Failure::Error(format!(
            "an item under alert_rule_test misses required attribute alertname at eval_time {time}"
        )));
    };
    let rules = groups.iter().flat_map(|group| &group.rules);
    let rules = rules.filter(|rule| rule.spec.kind == RuleKind::Alert && rule.spec.name == name);
    let firing = rules.flat_map(|rule| rule.alerts()).filter(|alert| alert.state == AlertState::Firing);
    let mut found: Vec<AlertText> = firing.map(found_alert).collect();
    let mut expected: Vec<AlertText> = case.exp_alerts.iter().map(|alert| expected_alert(alert, name)).collect();
    found.sort();
    expected.sort();
    if found == expected {
        return None;
    }
    let lines = |alerts: &[AlertText]| alerts.iter().flat_map(alert_lines).collect();
    let what = format!("alertname: {name}, time: {time}");
    Some(Failure::Different { what, expected: lines(&expected), found: lines(&found) })
}

/// Compares the elements of an expression.
fn expression(
    case: &ExpressionTest,
    store: &MemoryStore<'_>,
    start: WallMs,
    fuzzy: bool,
    context: &EvaluationContext<'_>,
) -> Option<Failure> {
    let what = format!("expr: {:?}, time: {}", case.expr, duration::text(case.eval_time));
    let failed = |error: String| Some(Failure::Error(format!("{what}, err: {error}")));
    let found = match elements(store, &case.expr, start + Ms(case.eval_time), context) {
        Ok(found) => found,
        Err(error) => return failed(error),
    };
    let mut found: Vec<SampleText> = found.iter().map(|one| SampleText::found(&one.labels, &one.value)).collect();
    let mut expected = Vec::new();
    for sample in &case.exp_samples {
        match SampleText::expected(sample) {
            Ok(sample) => expected.push(sample),
            Err(error) => return failed(error),
        }
    }
    found.sort_by(|a, b| a.labels.cmp(&b.labels));
    expected.sort_by(|a, b| a.labels.cmp(&b.labels));
    if found.len() == expected.len() && expected.iter().zip(&found).all(|(wanted, got)| wanted.is(got, fuzzy)) {
        return None;
    }
    let lines = |samples: &[SampleText]| samples.iter().map(SampleText::line).collect();
    Some(Failure::Different { expected: lines(&expected), found: lines(&found), what })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "groups:\n- name: a\n  interval: 5m\n  rules:\n  - record: twice\n    expr: up * 2\n  - alert: Down\n    expr: twice == 0\n    for: 2m\n    annotations: {text: '{{ $labels.job }} {{ $value }}'}\n";
    const TEST: &str = "rule_files: [r.yml]\ntests:\n- name: t\n  interval: 1m\n  input_series:\n  - {series: 'up{job=\"x\"}', values: '0x5 1 1'}\n  alert_rule_test:\n  - {eval_time: 1m, alertname: Down}\n  - {eval_time: 2m, alertname: Down, exp_alerts: [{exp_labels: {job: x}, exp_annotations: {text: x 0}}]}\n  - {eval_time: 6m, alertname: Down}\n  promql_expr_test:\n  - {expr: twice, eval_time: 6m, exp_samples: [{labels: 'twice{job=\"x\"}', value: 2}]}\n  - {expr: 'count(ALERTS{alertstate=\"firing\"})', eval_time: 3m, exp_samples: [{labels: '{}', value: 1}]}\n";

    fn failures(rules: &str, test: &str) -> Vec<String> {
        let rules = vec![("r.yml".to_owned(), RuleFile::parse(rules).unwrap())];
        let reports = run(&TestFile::parse(test).unwrap(), &rules, &|_| true, false);
        reports.iter().flat_map(|report| &report.failures).map(ToString::to_string).collect()
    }

    #[test]
    fn a_test_passes_and_each_change_of_it_fails() {
        assert_eq!(failures(RULES, TEST), Vec::<String>::new());
        for (from, to) in [
            ("text: x 0", "text: x 1"),
            ("value: 2}", "value: 3}"),
            ("eval_time: 1m, alertname: Down", "eval_time: 4m, alertname: Down"),
            ("'twice{job", "'thrice{job"),
            ("{job: x}", "{job: y}"),
            ("expr: twice", "expr: up +"),
        ] {
            assert_ne!(failures(RULES, &TEST.replace(from, to)), Vec::<String>::new(), "{from} -> {to}");
        }
        let failing = RULES.replace("up * 2", "up[5m]");
        assert!(
            failures(&failing, TEST)[0].contains("rule: twice, time: 0s, err: rule result is not a vector or scalar")
        );
    }
}
