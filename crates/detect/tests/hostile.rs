//! Files of rules, tests and objectives, and templates, from anybody: refused or bounded, and never a panic. The seeded
//! smoke of the fuzz targets `rules`, `rule_tests`, `slo` and `template`.

use std::collections::BTreeMap;
use std::time::Duration;

use ogive_detect::rules::template::Template;
use ogive_detect::rules::unit::{self, TestFile};
use ogive_detect::rules::{
    ALERTS_MAX, AlertState, EvaluationContext, Group, GroupDefaults, Health, MemoryStore, RuleFile, Sample, Storage,
    slo,
};
use ogive_model::{Labels, Ms, Select, WallMs};
use ogive_query::value::Point;
use ogive_query::{Engine, EngineOptions};

const RULES: &str = "groups:\n- name: a\n  interval: 30s\n  query_offset: 1m\n  limit: 5\n  labels: {team: x}\n  rules:\n  - record: a:b\n    expr: sum by (job) (rate(b{c=~\"d.*\"}[5m]))\n  - alert: C\n    expr: up == 0\n    for: 5m\n    keep_firing_for: 1h\n    labels: {severity: '{{ if gt $value 1.0 }}a{{ end }}'}\n    annotations: {text: '{{ range query \"up\" }}{{ .Value | humanize }}{{ end }}', ogive_clear: up == 1, ogive_no_data: keep}\n";
const TEST: &str = "rule_files: [r.yml]\nevaluation_interval: 1m\ntests:\n- name: t\n  interval: 1m\n  input_series:\n  - {series: 'up{job=\"x\"}', values: '0x5 1+2x3 _ stale'}\n  alert_rule_test:\n  - {eval_time: 2m, alertname: C, exp_alerts: [{exp_labels: {job: x}}]}\n  promql_expr_test:\n  - {expr: up, eval_time: 6m, exp_samples: [{labels: 'up{job=\"x\"}', value: 2}]}\n";
const SLO: &str = "version: prometheus/v1\nservice: shop\nslos:\n- name: a\n  objective: 99.9\n  sli: {events: {error_query: 'sum(rate(e[{{.window}}]))', total_query: 'sum(rate(t[{{.window}}]))'}}\n";
const OPENSLO: &str = "apiVersion: openslo/v1\nkind: SLO\nmetadata: {name: fast}\nspec:\n  service: shop\n  indicator: {spec: {thresholdMetric: {metricSource: {spec: {query: r}}}}}\n  objectives: [{op: lte, value: 0.3, target: 0.99}]\n";
const TEMPLATE: &str = "{{ define \"t\" }}{{ .arg0 }}{{ end }}{{ range $i, $x := query \"a\" | sortByLabel \"b\" }}{{ if and (eq $i 1) true }}{{ printf \"%-5.2f|%q\" $x.Value `c` }}{{ else }}{{ template \"t\" (args 1 \"b\") }}{{ end }}{{ end }}{{ $value | humanizeDuration }}";

/// A generator of changes, from a seed.
struct Changes(u64);

impl Changes {
    fn draw(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }

    fn apply(&mut self, text: &str) -> String {
        let signs: Vec<char> = " \n\t\"'\\{}[]()<>=!~*&|:,-.%#0aä\u{1f600}\u{0}9e".chars().collect();
        let mut chars: Vec<char> = text.chars().collect();
        for _ in 0..=self.draw(5) {
            let (at, sign) = (self.draw(chars.len() + 1), signs[self.draw(signs.len())]);
            match self.draw(5) {
                0 => chars.truncate(at),
                1 | 2 if at < chars.len() => drop(chars.remove(at)),
                3 => {
                    let part: Vec<char> = chars[at..].iter().take(20).copied().collect();
                    chars.splice(at..at, part);
                }
                _ => chars.insert(at, sign),
            }
        }
        chars.into_iter().collect()
    }
}

#[test]
fn changed_files_and_templates_break_nothing() {
    let mut changes = Changes(0x9e37_79b9_7f4a_7c15);
    let mut good = [0; 4];
    let rules = vec![("r.yml".to_owned(), RuleFile::parse(RULES).unwrap())];
    for _ in 0..600 {
        good[0] += usize::from(RuleFile::parse(&changes.apply(RULES)).is_ok());
        good[1] += usize::from(slo::rules(&changes.apply(SLO)).is_ok())
            + usize::from(slo::rules(&changes.apply(OPENSLO)).is_ok());
        good[2] += usize::from(Template::parse("t", &changes.apply(TEMPLATE), &["$value"]).is_ok());
        if let Ok(test) = TestFile::parse(&changes.apply(TEST)) {
            good[3] += 1;
            // One that asks for years of minutes is an error too.
            let reports = unit::run(&test, &rules, &|_| true, false);
            drop(reports);
        }
    }
    assert!(good.iter().all(|count| *count > 10), "{good:?} of the changed texts can be read");
}

/// A store that does not keep what rules give: to look for a series in memory takes as long as there are series.
struct Unchanging(MemoryStore<'static>);

impl Storage for Unchanging {
    fn select(&self) -> &dyn Select {
        &self.0
    }

    fn append(&self, _: Vec<Sample>) -> Result<(), String> {
        Ok(())
    }
}

fn evaluate(groups: &mut [Group], store: &dyn Storage, options: EngineOptions) {
    let (engine, labels) = (Engine::new(options), BTreeMap::new());
    let context = EvaluationContext {
        engine: &engine,
        external_url: "",
        external_labels: &labels,
        elapsed: &|| Duration::ZERO,
        cancelled: &|| false,
    };
    for group in groups {
        group.evaluate(store, WallMs(1_700_000_000_000), &context);
    }
}

fn store(series: usize) -> MemoryStore<'static> {
    let store = MemoryStore::default();
    let sample = |at: usize| Sample {
        labels: Labels::new([("__name__", "up"), ("host", &at.to_string())]).unwrap(),
        time: WallMs(1_700_000_000_000),
        value: Point::Float(0.0),
    };
    store.append((0..series).map(sample).collect()).unwrap();
    store
}

fn groups(text: &str) -> Vec<Group> {
    let defaults = GroupDefaults { interval: Ms(60_000), query_offset: Ms::ZERO };
    let file = RuleFile::parse(text).unwrap_or_else(|errors| panic!("{errors:?}"));
    file.groups.iter().map(|spec| Group::new("r.yml", spec, defaults)).collect()
}

#[test]
fn ten_thousand_rules_are_read_and_evaluated() {
    let mut text = String::from("groups:\n- name: many\n  rules:\n");
    for number in 0..10_000 {
        text += &format!("  - {{alert: A{number}, expr: up == 0, labels: {{n: '{{{{ $value }}}}'}}}}\n");
    }
    let mut many = groups(&text);
    evaluate(&mut many, &Unchanging(store(1)), EngineOptions::default());
    let firing = many[0].rules.iter().filter(|rule| rule.state() == AlertState::Firing).count();
    assert_eq!(firing, 10_000);
}

/// A rule that matches more series than a query may read, one whose template does not end and one that makes a text
/// without end fail or are cut, and the others go on.
#[test]
fn a_rule_that_takes_too_much_fails_alone() {
    let text = "groups:\n- name: g\n  rules:\n  - {alert: All, expr: up == 0}\n  - {record: b, expr: 'sum(up{host=\"7\"})'}\n  - alert: Text\n    expr: b == 0\n    annotations:\n      a: '{{ define \"t\" }}{{ template \"t\" . }}{{ end }}{{ template \"t\" . }}'\n      b: '{{ range query \"{__name__=~`up`}\" }}x{{ end }}'\n      c: '{{ printf \"%999999999d\" 1 }}'\n";
    let mut bombs = groups(text);
    evaluate(&mut bombs, &store(2_000), EngineOptions { series_max: 1_000, ..EngineOptions::default() });
    let rules = &bombs[0].rules;
    assert!(matches!(&rules[0].health, Health::Bad(error) if error.contains("series")), "{:?}", rules[0].health);
    assert_eq!(rules[1].health, Health::Good);
    let alert = rules[2].alerts().next().expect("it fires").clone();
    for (name, text) in &alert.annotations {
        assert!(text.len() < 1 << 20, "{name} has {} bytes", text.len());
    }
    assert!(alert.annotations[0].1.contains("<error expanding template"), "{:?}", alert.annotations[0]);
}

/// A rule of as many alerts as it may have, and one of one more, which fails, has none, and lets the next go on.
#[test]
fn a_rule_has_a_bounded_number_of_alerts() {
    let text = "groups:\n- name: g\n  rules:\n  - {alert: Most, expr: 'up{host!=\"0\"} == 0'}\n  - {alert: More, expr: up == 0}\n  - {record: b, expr: count(up)}\n";
    let mut many = groups(text);
    evaluate(&mut many, &Unchanging(store(ALERTS_MAX + 1)), EngineOptions::default());
    let rules = &many[0].rules;
    assert_eq!((rules[0].alerts().count(), &rules[0].health), (ALERTS_MAX, &Health::Good));
    assert!(matches!(&rules[1].health, Health::Bad(error) if error.contains("50001 alerts")), "{:?}", rules[1].health);
    assert_eq!((rules[1].alerts().count(), &rules[2].health), (0, &Health::Good));
}

/// `ALERTS` of an alert has two labels more than the alert: a series with more than the limit could not be stored.
#[test]
fn an_alert_whose_labels_leave_no_room_for_its_state_fails_its_rule() {
    let store = MemoryStore::default();
    let wide = |metric: &str, count: usize| Sample {
        labels: Labels::new(
            (1..count).map(|at| (format!("l{at}"), "x".to_owned())).chain([("__name__".into(), metric.into())]),
        )
        .unwrap(),
        time: WallMs(1_700_000_000_000),
        value: Point::Float(0.0),
    };
    // The alert has `alertname` where its series has a name; `ALERTS` has a name and the state besides.
    store.append(vec![wide("fits", Labels::COUNT_MAX - 2), wide("full", Labels::COUNT_MAX - 1)]).unwrap();
    let mut both =
        groups("groups:\n- name: g\n  rules:\n  - {alert: A, expr: fits == 0}\n  - {alert: B, expr: full == 0}\n");
    evaluate(&mut both, &store, EngineOptions::default());
    let rules = &both[0].rules;
    assert_eq!((rules[0].alerts().count(), &rules[0].health), (1, &Health::Good));
    assert!(matches!(&rules[1].health, Health::Bad(error) if error.contains("ALERTS")), "{:?}", rules[1].health);
}
