//! A heavy group of rules and an Alertmanager that hangs hold up nobody else.

use std::net::TcpListener;

use crate::common::alertmanager::{alerts_at, silent};
use crate::common::programs::free_address;
use crate::common::{Server, eventually, now_ms, remote};
use serde_json::Value;

/// Alerts that wait for a destination, and that a rule without a limit has, at most: docs/alerts.md.
const QUEUE_MAX: usize = 10_000;
const ALERTS_MAX: usize = 50_000;

const RULES: &str = "groups:
- {name: many, interval: 5s, rules: [{record: 'many:count', expr: count(many)}, {alert: Many, expr: many > 0}]}
- {name: limited, interval: 5s, limit: 10, rules: [{alert: Limited, expr: many > 0}]}
- {name: other, interval: 1s, rules: [{alert: Other, expr: other > 0}]}
";

/// `OGIVE_RULE_SERIES`, or 20,000: twice what waits for a destination.
fn series_count() -> usize {
    std::env::var("OGIVE_RULE_SERIES").map_or(20_000, |count| count.parse().unwrap())
}

fn send_many(url: &str, names: std::ops::Range<usize>) {
    let series = names.map(|at| {
        let mut series = Vec::new();
        for (name, value) in [("__name__", "many"), ("host", &*at.to_string())] {
            let mut label = Vec::new();
            remote::bytes(&mut label, 1, name.as_bytes());
            remote::bytes(&mut label, 2, value.as_bytes());
            remote::bytes(&mut series, 1, &label);
        }
        remote::put_float(&mut series, now_ms(), 1.0);
        series
    });
    let (status, body) = remote::post(url, &remote::write_request(&series.collect::<Vec<_>>()));
    assert!((200..300).contains(&status), "{status} {}", String::from_utf8_lossy(&body));
}

/// Health and last error of the rule of that name.
fn health(server: &Server, name: &str) -> (Value, String) {
    let groups = server.get("/api/v1/rules?exclude_alerts=true").1["data"]["groups"].clone();
    let rules = groups.as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap());
    let rule = rules.into_iter().find(|rule| rule["name"] == name).unwrap().clone();
    (rule["health"].clone(), rule["lastError"].as_str().unwrap_or_default().to_owned())
}

/// Once, when one group had tens of thousands of alerts and one Alertmanager hung, the alert of another group came
/// minutes later or never: its notice stood behind the others, the state of all was written again for each request, and
/// on a busy machine evaluations were cut after an interval. What is too much is counted and reported; another group's
/// alert comes to the other Alertmanager.
#[test]
fn a_rule_of_many_series_and_a_manager_that_hangs_hold_up_nobody() {
    let count = series_count();
    let directory = tempfile::tempdir().unwrap();
    let rules = directory.path().join("rules.yml");
    std::fs::write(&rules, RULES).unwrap();
    let address = free_address();
    // Connections to it are never answered.
    let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
    let (good, bad) = (format!("http://{address}"), format!("http://{}", hanging.local_addr().unwrap()));
    let _program = silent(directory.path(), &address);
    let all = ["--listen", "127.0.0.1:0", "--rules", rules.to_str().unwrap(), "--alerting-alertmanager", &bad];
    let more = ["--alerting-alertmanager", &good, "--alerting-wait", "0s", "--detect-series", "0"];
    let server = Server::try_start(&directory.path().join("data"), &[&all[..], &more].concat()).unwrap();
    let url = format!("http://{}/api/v1/write", server.address);
    (0..count).step_by(10_000).for_each(|from| send_many(&url, from..count.min(from + 10_000)));
    server.becomes("many:count", count as f64);
    if count > ALERTS_MAX {
        let failed = || Some(health(&server, "Many")).filter(|(state, _)| state == "err");
        let (_, error) = eventually("the rule of too many fails", failed);
        assert!(error.contains(&format!("{count} alerts")), "{error}");
    } else {
        eventually("the alerts fire", || {
            server.number("sum(ALERTS{alertname=\"Many\"})").filter(|n| *n == count as f64)
        });
    }
    let (_, error) =
        eventually("the limit is exceeded", || Some(health(&server, "Limited")).filter(|(state, _)| state == "err"));
    assert!(error.contains("exceeded limit of 10"), "{error}");
    let mut other = remote::series("other");
    remote::put_float(&mut other, now_ms(), 1.0);
    assert_eq!(remote::post(&url, &remote::write_request(&[other])).0 / 100, 2);
    let came = eventually("the alert of the other group is sent", || {
        alerts_at(&address)?.into_iter().find(|alert| alert["labels"]["alertname"] == "Other")
    });
    assert_eq!(came["status"]["state"], "active");
    let at_least = |expr: &str, least: f64| {
        eventually(&format!("{expr} is {least} or more"), || server.number(expr).filter(|found| *found >= least))
    };
    at_least("sum(ogive_rule_failures_total)", 1.0);
    at_least(&format!("ogive_alert_requests_failed_total{{destination={bad:?}}}"), 1.0);
    if (QUEUE_MAX..=ALERTS_MAX).contains(&count) {
        at_least(&format!("ogive_alerts_dropped_total{{destination={bad:?}}}"), (count - QUEUE_MAX) as f64);
    }
    println!("{count} series, {} MiB at most", server.memory_peak_kib() / 1_024);
}
