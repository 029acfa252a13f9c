//! Rules with more than Prometheus has: data that goes, thresholds to end at, small counts.

use std::collections::BTreeMap;
use std::time::Duration;

use ogive_query::Engine;

use super::*;
use crate::rules::file::RuleFile;
use crate::rules::group::{Group, GroupDefaults};
use crate::rules::storage::{MemoryStore, Sample};

/// The states of the alert `A` of `host="a"` at each of the values of `v`, ten minutes apart; NaN is no sample.
fn states(rule: &str, values: &[f64], counts: &[f64]) -> Vec<&'static str> {
    let text = format!("groups:\n- name: g\n  rules:\n  - alert: A\n{rule}");
    let file = RuleFile::parse(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
    let store = MemoryStore::default();
    let defaults = GroupDefaults { interval: Ms(600_000), query_offset: Ms::ZERO };
    let mut group = Group::new("r.yml", &file.groups[0], defaults);
    let (engine, labels) = (Engine::default(), BTreeMap::new());
    let context = EvaluationContext {
        engine: &engine,
        external_url: "",
        external_labels: &labels,
        elapsed: &|| Duration::ZERO,
        cancelled: &|| false,
    };
    let mut out = Vec::new();
    for (at, value) in values.iter().enumerate() {
        let time = WallMs(1_700_000_000_000 + 600_000 * at as i64);
        let mut samples = Vec::new();
        let counted = ("n", counts.get(at).copied().unwrap_or(1.0));
        for (name, value) in [("v", *value), counted].into_iter().filter(|(_, value)| !value.is_nan()) {
            let labels = Labels::new([("__name__", name), ("host", "a")]).unwrap();
            samples.push(Sample { labels, time, value: Point::Float(value) });
        }
        store.append(samples).unwrap();
        group.evaluate(&store, time, &context);
        assert_eq!(group.rules[0].health, Health::Good);
        // Over a restart it goes on as it was.
        let kept = group.state();
        group = Group::new("r.yml", &file.groups[0], defaults);
        group.restore(kept, time);
        out.push(match group.rules[0].state() {
            AlertState::Inactive => "-",
            AlertState::Pending => "p",
            AlertState::Firing => "F",
        });
    }
    out
}

const GONE: f64 = f64::NAN;

#[test]
fn an_alert_clears_at_its_own_threshold() {
    let values = [1.0, 9.0, 6.0, 4.0, 6.0, 2.0, 6.0];
    let plain = "    expr: v > 8\n";
    assert_eq!(states(plain, &values, &[]).concat(), "-F-----");
    let clear = "    expr: v > 8\n    labels: {severity: page}\n    annotations: {ogive_clear: 'v < 3'}\n";
    assert_eq!(states(clear, &values, &[]).concat(), "-FFFF--");
}

#[test]
fn data_that_goes_is_not_a_condition_that_is_false() {
    let values = [9.0, GONE, GONE, 9.0, 1.0, GONE];
    let rule = |policy: &str| {
        format!("    expr: v > 8\n    keep_firing_for: 5m\n    annotations: {{ogive_no_data: {policy}}}\n")
    };
    assert_eq!(states(&rule("resolve"), &values, &[]).concat(), "FF-FF-");
    assert_eq!(states(&rule("keep"), &values, &[]).concat(), "FFFFF F".replace(' ', ""));
    assert_eq!(states(&rule("ok"), &values, &[]).concat(), "F--FF-");
    let alert = "    expr: v > 8\n    annotations: {ogive_no_data: alert}\n";
    assert_eq!(states(alert, &[1.0, GONE, GONE, 1.0, GONE], &[]).concat(), "-FF-F");
    let hold = "    expr: v > 8\n    for: 10m\n    annotations: {ogive_no_data: keep}\n";
    assert_eq!(
        states(hold, &[9.0, GONE, GONE, 9.0], &[]).concat(),
        "pppF",
        "what is pending does not fire without data"
    );
}

#[test]
fn a_small_count_does_not_alert() {
    let rule = "    expr: v > 8\n    annotations: {ogive_min_count: '100', ogive_count: sum by (host) (n)}\n";
    assert_eq!(states(rule, &[9.0, 9.0, 9.0, 9.0], &[5.0, 100.0, GONE, 99.0]).concat(), "-F--");
}
