//! A backtest as the API and the command line show it.

use std::collections::BTreeMap;

use ogive_detect::rules::duration;
use ogive_detect::rules::template::rfc3339;
use ogive_detect::rules::{AlertHistory, Backtest, RuleHistory, Transition};
use serde_json::{Map, Value, json};

/// One JSON object.
#[must_use]
pub fn report(test: &Backtest<'_>, found: &[RuleHistory]) -> Value {
    json!({
        "start": rfc3339(test.start.0),
        "end": rfc3339(test.end.0),
        "rules": found.iter().map(rule).collect::<Vec<_>>(),
    })
}

fn rule(found: &RuleHistory) -> Value {
    let mut out = Map::new();
    let mut set = |name: &str, value: Value| drop(out.insert(name.to_owned(), value));
    set("group", json!(found.group));
    set("name", json!(found.name));
    set("line", json!(found.line));
    set("type", json!(if found.alerts.is_some() { "alerting" } else { "recording" }));
    set("evaluations", json!(found.evaluations));
    set("failures", json!(found.failures));
    if let Some(error) = &found.last_error {
        set("lastError", json!(error));
    }
    if let Some(alerts) = &found.alerts {
        set("for", json!(duration::text(alerts.hold.0)));
        set("fired", json!(alerts.fired));
        set("firingSeconds", json!(alerts.firing.0 as f64 / 1e3));
        set("firingAtEnd", json!(alerts.firing_at_end));
        let with = alerts.fired_with.iter();
        set("firedWith", with.map(|(hold, fired)| json!({"for": duration::text(hold.0), "fired": fired})).collect());
        set("transitionsCount", json!(alerts.transitions_count));
        set("transitions", alerts.transitions.iter().map(|(one, texts)| transition(one, texts)).collect());
        set("summary", json!(summary(alerts)));
    }
    Value::Object(out)
}

fn transition(one: &Transition, annotations: &[(String, String)]) -> Value {
    let labels: BTreeMap<&str, &str> = one.labels.iter().collect();
    let mut out = json!({
        "time": rfc3339(one.time.0),
        "labels": labels,
        "from": one.from.as_str(),
        "to": one.to.as_str(),
        // JSON has no NaN.
        "value": if one.value.is_finite() { json!(one.value) } else { json!(one.value.to_string()) },
    });
    if !annotations.is_empty() {
        out["annotations"] =
            annotations.iter().map(|(name, text)| (name.clone(), json!(text))).collect::<Map<_, _>>().into();
    }
    out
}

/// One sentence: `fired 12 times; with for: 2m 3 times`.
fn summary(alerts: &AlertHistory) -> String {
    let times = |count: usize| if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let mut out = format!("fired {}", times(alerts.fired));
    for (at, (hold, fired)) in alerts.fired_with.iter().enumerate() {
        out += if at == 0 { "; with " } else { ", with " };
        out += &format!("for: {} {}", duration::text(hold.0), times(*fired));
    }
    out
}
