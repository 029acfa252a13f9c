//! Objectives become rules that fire when the budget burns, and not for the errors of a quiet night.

use super::*;
use crate::rules::unit::{self, TestFile};

const SLOTH: &str = r#"version: "prometheus/v1"
service: shop
labels: {team: x}
slos:
- name: availability
  objective: 99.9
  description: Common SLO
  sli:
    events:
      error_query: sum(rate(errors_total[{{.window}}]))
      total_query: sum(rate(requests_total[{{.window}}]))
  alerting:
    name: ShopErrors
    labels: {category: availability}
    annotations: {runbook: 'https://r.example.org'}
    page_alert: {labels: {routing_key: me}}
    ticket_alert: {disable: true}
- name: latency
  objective: 99
  sli: {latency: {histogram: 'request_seconds{job="x"}', threshold: 300ms, by: [job]}}
"#;

const OPENSLO: &str = "apiVersion: openslo/v1
kind: SLO
metadata: {name: fast, displayName: Fast}
spec:
  service: shop
  indicator:
    metadata: {name: latency}
    spec:
      thresholdMetric:
        metricSource: {type: Prometheus, spec: {query: 'request_seconds'}}
  timeWindow: [{duration: 30d, isRolling: true}]
  budgetingMethod: Occurrences
  objectives: [{op: lte, value: 0.3, target: 0.99}]
---
apiVersion: openslo/v1
kind: SLO
metadata: {name: good}
spec:
  service: shop
  indicator:
    metadata: {name: ratio}
    spec:
      ratioMetric:
        counter: true
        good: {metricSource: {type: Prometheus, spec: {query: 'good_total'}}}
        total: {metricSource: {type: Prometheus, spec: {query: 'requests_total'}}}
  objectives: [{targetPercent: 99.5}]
";

fn failures(slo: &str, test: &str) -> Vec<String> {
    let rules = rules(slo).unwrap_or_else(|errors| panic!("{errors:?}"));
    let rules = vec![("slo.yml".to_owned(), RuleFile::parse(&rules).unwrap())];
    let reports = unit::run(&TestFile::parse(test).unwrap(), &rules, &|_| true, false);
    assert!(!reports.is_empty());
    reports.iter().flat_map(|report| &report.failures).map(ToString::to_string).collect()
}

fn fires(series: &str, at: &str, name: &str) -> bool {
    // A test that expects nothing fails when something fires.
    let test = format!(
        "rule_files: [slo.yml]\ntests:\n- interval: 1m\n  input_series:\n{series}  alert_rule_test:\n  - {{eval_time: {at}, alertname: {name}}}\n"
    );
    let found = failures(SLOTH, &test);
    assert!(found.iter().all(|failure| failure.contains("alertname")), "{found:?}");
    !found.is_empty()
}

#[test]
fn a_fast_burn_pages_and_its_end_ends_it() {
    let series = |errors: &str| {
        format!(
            "  - {{series: requests_total, values: '0+600x200'}}\n  - {{series: errors_total, values: '{errors}'}}\n"
        )
    };
    assert!(fires(&series("0+12x200"), "100m", "ShopErrors"), "2 % is 20 times the budget");
    assert!(!fires(&series("0+0.3x200"), "100m", "ShopErrors"), "0.05 % is half of it");
    assert!(!fires(&series("0+12x60 720x140"), "100m", "ShopErrors"), "the short window says that it is over");
}

#[test]
fn few_events_decide_by_confidence() {
    let series = |errors: &str| {
        format!(
            "  - {{series: requests_total, values: '0 1 1 2 2 3 3 4 4 5 5 6x300'}}\n  - {{series: errors_total, values: '{errors}'}}\n"
        )
    };
    assert!(!fires(&series("0x10 0x300"), "60m", "ShopErrors"), "no error");
    // Six of six in the hour, and none in the last minutes: sure, and nothing contradicts.
    assert!(fires(&series("0 1 1 2 2 3 3 4 4 5 5 6x300"), "40m", "ShopErrors"));
}

#[test]
fn rules_carry_what_the_file_says() {
    let text = rules(SLOTH).unwrap();
    let file = RuleFile::parse(&text).unwrap();
    let names: Vec<&str> = file.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["slo-shop-availability", "slo-shop-latency"]);
    let alerts: Vec<_> = file.groups[0].rules.iter().filter(|rule| rule.name == "ShopErrors").collect();
    assert_eq!(alerts.len(), 1, "tickets are disabled");
    let labels = &alerts[0].labels;
    assert_eq!(
        (labels["routing_key"].as_str(), labels["severity"].as_str(), labels["team"].as_str()),
        ("me", "page", "x")
    );
    assert_eq!(alerts[0].annotations["runbook"], "https://r.example.org");
    assert!(
        text.contains("histogram_fraction(-Inf, 0.3, sum by (job) (rate(request_seconds{job=\\\"x\\\"}[1h])))"),
        "{text}"
    );
    let open = RuleFile::parse(&rules(OPENSLO).unwrap()).unwrap();
    assert_eq!(open.groups.len(), 2);
    assert!(is_slo(SLOTH) && is_slo(OPENSLO) && !is_slo(&text) && !is_slo(""));
}

#[test]
fn a_bad_file_says_what_is_wrong() {
    let check = |text: String, expected: &str| {
        let errors = rules(&text).expect_err(&text);
        assert!(errors.iter().any(|error| error.to_string().contains(expected)), "{expected:?} is not in {errors:?}");
    };
    check(SLOTH.replace("99.9", "100"), "leaves no budget");
    check(SLOTH.replace("v1", "v2"), "is not prometheus/v1");
    check(SLOTH.replace("objective: 99\n", "objektive: 99\n"), "unknown key");
    check(SLOTH.replace("sum(rate(errors", "sum(rate((errors"), "in the rules made of it");
    check(SLOTH.replace("300ms", "soon"), "threshold");
    check(OPENSLO.replace("lte", "context"), "is none of lte");
    check(OPENSLO.replace("Occurrences", "Timeslices"), "budgetingMethod");
    check(OPENSLO.replace("kind: SLO", "kind: Service"), "no document");
    check("version: [".to_owned(), "");
}
