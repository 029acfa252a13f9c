//! A backtest equals what the groups do when they are evaluated one slot after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use ogive_model::Labels;
use ogive_query::Engine;
use ogive_query::value::Point;

use super::*;
use crate::rules::storage::{MemoryStore, Sample, Storage};

const RULES: &str = "groups:
- name: chained
  interval: 30s
  limit: 4
  rules:
  - {record: 'job:errors:sum', expr: 'sum by (job) (errors{job=~\"[0-3]\"})'}
  - alert: Errors
    expr: job:errors:sum > 5
    for: 1m
    keep_firing_for: 2m
    labels: {severity: '{{ if gt $value 8.0 }}page{{ else }}ticket{{ end }}'}
    annotations: {text: '{{ with query \"max(errors)\" }}{{ . | first | value | humanize }}{{ end }}'}
  - {alert: Many, expr: 'count(ALERTS{alertname=\"Errors\",alertstate=\"firing\"}) > 1'}
- name: alone
  interval: 45s
  query_offset: 30s
  rules:
  - {alert: Above, expr: errors > 5, for: 1m}
  - {alert: Bad, expr: errors * on(job) errors}
";

const START: WallMs = WallMs(1_700_000_000_000);
const END: WallMs = WallMs(START.0 + 2 * 3_600_000);

/// Six jobs, whose errors come and go, from a seed.
fn store() -> MemoryStore<'static> {
    let store = MemoryStore::default();
    let mut state = 7_u64;
    let mut samples = Vec::new();
    for job in 0..6 {
        let mut value = 3.0;
        for at in 0..2 * 240 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let draw = (state >> 33) as f64 / f64::from(1_u32 << 31);
            value = f64::clamp(value + 3.0 * (draw - 0.5), 0.0, 10.0);
            for instance in ["a", "b"] {
                let labels = Labels::new([("__name__", "errors"), ("job", &job.to_string()), ("instance", instance)]);
                let value = if instance == "a" { value } else { 0.5 };
                samples.push(Sample {
                    labels: labels.unwrap(),
                    time: START + Ms(at * 15_000),
                    value: Point::Float(value),
                });
            }
        }
    }
    store.append(samples).unwrap();
    store
}

fn test<T>(run: impl FnOnce(&EvaluationContext<'_>) -> T) -> T {
    let (engine, labels) = (Engine::default(), BTreeMap::new());
    run(&EvaluationContext {
        engine: &engine,
        external_url: "",
        external_labels: &labels,
        elapsed: &|| Duration::ZERO,
        cancelled: &|| false,
    })
}

fn requested(file: &RuleFile) -> Backtest<'_> {
    let defaults = GroupDefaults { interval: Ms(60_000), query_offset: Ms::ZERO };
    Backtest { path: "r.yml", file, defaults, start: START, end: END, holds: &[Ms(0), Ms(120_000)] }
}

#[test]
fn a_backtest_is_what_ran_transition_for_transition() {
    let file = RuleFile::parse(RULES).unwrap();
    let stored = store();
    let found = test(|context| backtest(&requested(&file), &stored, context)).unwrap();
    // As a server does it: one group after the other, everything that the rules give stored beside what they read.
    let mut live: BTreeMap<String, Vec<Transition>> = BTreeMap::new();
    test(|context| {
        let mut groups: Vec<Group> =
            file.groups.iter().map(|spec| Group::new("r.yml", spec, requested(&file).defaults)).collect();
        let mut next: Vec<WallMs> = groups.iter().map(|group| group.slot_after(START)).collect();
        loop {
            let at = (0..2).min_by_key(|at| next[*at]).unwrap();
            if next[at] > END {
                break;
            }
            for (rule, one) in groups[at].evaluate(&stored, next[at], context).transitions {
                live.entry(groups[at].rules[rule].spec.name.clone()).or_default().push(one);
            }
            next[at] = groups[at].slot_after(next[at]);
        }
    });
    for history in &found {
        let Some(alerts) = &history.alerts else { continue };
        let transitions: Vec<Transition> = alerts.transitions.iter().map(|(one, _)| one.clone()).collect();
        assert_eq!(Some(&transitions), live.get(&history.name).or(Some(&Vec::new())), "{}", history.name);
    }
    let named = |name: &str| found.iter().find(|one| one.name == name).unwrap();
    let errors = named("Errors").alerts.as_ref().unwrap();
    assert!(errors.fired > 5 && errors.firing > Ms::ZERO, "{errors:?}");
    assert!(named("Errors").failures > 0, "the limit is exceeded now and then");
    assert!(named("Many").alerts.as_ref().unwrap().fired > 0);
    assert_eq!(named("Bad").failures, named("Bad").evaluations);
    assert!(named("Bad").last_error.is_some());
    let text = &errors.transitions.iter().find(|(one, _)| one.to == AlertState::Firing).unwrap().1[0].1;
    assert!(text.parse::<f64>().is_ok(), "{text}");
}

#[test]
fn another_hold_counts_as_a_rule_that_has_it() {
    let file = RuleFile::parse(RULES).unwrap();
    let stored = store();
    let found = test(|context| backtest(&requested(&file), &stored, context)).unwrap();
    let with = |name: &str| found.iter().find(|one| one.name == name).unwrap().alerts.clone().unwrap();
    let other = RULES.replace("for: 1m", "for: 2m");
    let other = RuleFile::parse(&other).unwrap();
    let again = test(|context| backtest(&requested(&other), &stored, context)).unwrap();
    for name in ["Errors", "Above"] {
        let fired = again.iter().find(|one| one.name == name).unwrap().alerts.as_ref().unwrap().fired;
        assert!(with(name).fired_with.contains(&(Ms(120_000), fired)), "{name}: {:?} {fired}", with(name).fired_with);
        assert!(with(name).fired_with[0].1 > fired, "a hold leaves alerts out");
    }
}

#[test]
fn what_is_too_much_is_refused() {
    let file = RuleFile::parse(RULES).unwrap();
    let stored = MemoryStore::default();
    let year = Backtest { end: START + Ms::from_secs(4_000 * 86_400), ..requested(&file) };
    let error = test(|context| backtest(&year, &stored, context)).unwrap_err();
    assert!(error.to_string().contains("evaluations are more than 5000000"), "{error}");
    let back = Backtest { end: START, ..requested(&file) };
    assert!(test(|context| backtest(&back, &stored, context)).is_err());
}
