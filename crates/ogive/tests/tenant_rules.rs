//! Rules, alerts, silences and maintenance of several tenants: nothing of one is seen or done by another.

use std::path::Path;

use crate::common::alertmanager::{alerts_at, silent};
use crate::common::programs::free_address;
use crate::common::{SOURCE, Server, eventually, now_ms};
use serde_json::{Value, json};

const RULES: &str = "groups:
- {name: g, interval: 1s, rules: [{record: load2, expr: 2 * load}, {alert: High, expr: load > 10}]}
";

/// A request of a tenant and its answer.
fn request(server: &Server, tenant: &str, method_and_path: &str, body: Option<&Value>) -> (u16, Value) {
    let kind = body.map_or("", |_| "\r\ncontent-type: application/json");
    let head = format!("{method_and_path} HTTP/1.1\r\nX-Scope-OrgID: {tenant}{kind}");
    let body = body.map(Value::to_string).unwrap_or_default();
    let (status, text) = server.request(&head, body.as_bytes()).unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

fn put(server: &Server, tenant: &str, sequence: u64, load: f64) {
    let series = json!([{"labels": {"__name__": "load", "host": "x", "tenant": "of the sender"}, "kind": "float"}]);
    let samples = json!([{"series": 0, "time_ms": now_ms(), "float": load}]);
    let batch = json!({"source": SOURCE, "sequence": sequence, "series": series, "samples": samples});
    let (status, answer) = request(server, tenant, "POST /v1/batch", Some(&batch));
    assert_eq!((status, &answer["accepted"]), (200, &json!(1)), "{answer}");
}

/// The alerts of a tenant, by name.
fn alerts(server: &Server, tenant: &str) -> Vec<Value> {
    request(server, tenant, "GET /v1/alerts", None).1["data"]["alerts"].as_array().unwrap().clone()
}

fn firing(server: &Server, tenant: &str) -> Value {
    eventually("it fires", || alerts(server, tenant).into_iter().find(|alert| alert["state"] == "firing"))
}

fn start(data: &Path, rules: &str, maintenance: &str, alertmanager: &str) -> Server {
    let (a, b) = (format!("a={rules}"), format!("b={rules}"));
    let all = ["--listen", "127.0.0.1:0", "--tenant-rules", &a, "--tenant-rules", &b, "--alerting-wait", "0s"];
    let more = ["--alerting-alertmanager", alertmanager, "--alerting-maintenance", maintenance, "--detect-series", "0"];
    Server::try_start(data, &[&all[..], &more].concat()).unwrap()
}

#[test]
fn each_tenant_has_its_own_rules_alerts_and_silences_over_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (rules, maintenance, address) = (path("rules.yml"), path("maintenance.toml"), free_address());
    std::fs::write(&rules, RULES).unwrap();
    std::fs::write(&maintenance, "").unwrap();
    let (data, manager) = (directory.path().join("data"), format!("http://{address}"));
    let mut server = start(&data, &rules, &maintenance, &manager);
    put(&server, "a", 1, 5.0);
    put(&server, "b", 2, 50.0);
    put(&server, "default", 3, 500.0);
    // One file, two tenants: each is judged by its own series, and the third by none.
    let began = firing(&server, "b")["activeAt"].clone();
    let recorded = |tenant: &str| {
        let (_, answer) = request(&server, tenant, "GET /api/v1/query?query=load2", None);
        answer["data"]["result"][0]["value"][1].as_str().map(str::to_owned)
    };
    assert_eq!(eventually("a's record", || recorded("a")), "10");
    assert_eq!(eventually("b's record", || recorded("b")), "100");
    assert_eq!(recorded("default"), None);
    assert_eq!((alerts(&server, "a"), alerts(&server, "default")), (vec![], vec![]));
    for (tenant, groups) in [("a", 1), ("b", 1), ("default", 0)] {
        let shown = request(&server, tenant, "GET /api/v1/rules", None).1["data"]["groups"].clone();
        assert_eq!(shown.as_array().unwrap().len(), groups, "{tenant}");
    }
    // Silences are their tenant's.
    let silence = json!({"match": {"alertname": "High"}, "for": "1h", "reason": "a is being moved"});
    let id = request(&server, "a", "POST /v1/silences", Some(&silence)).1["data"]["id"].as_u64().unwrap();
    assert_eq!(firing(&server, "b").get("quiet"), None);
    let silences = |tenant: &str| request(&server, tenant, "GET /v1/silences", None).1["data"]["silences"].clone();
    assert_eq!((silences("a").as_array().unwrap().len(), silences("b")), (1, json!([])));
    let end = format!("DELETE /v1/silences/{id}");
    assert_eq!(request(&server, "b", &end, None).0, 404);
    assert_eq!(request(&server, "default", &end, None).0, 404);
    // Killed, and an Alertmanager comes: the alert is the one that fired before, and says whose it is.
    server.kill();
    let _program = silent(directory.path(), &address);
    let text = "[[maintenance]]\nname = \"b's move\"\ntenant = \"b\"\nmatch = { alertname = \"High\" }\nfrom = \"00:00\"\nfor = \"24h\"\n";
    std::fs::write(&maintenance, text).unwrap();
    let server = start(&data, &rules, &maintenance, &manager);
    put(&server, "b", 4, 51.0);
    let alert = firing(&server, "b");
    assert_eq!((&alert["activeAt"], &alert["quiet"]["maintenance"]), (&began, &json!("b's move")), "{alert}");
    put(&server, "a", 5, 52.0);
    let quiet = firing(&server, "a")["quiet"].clone();
    assert_eq!(quiet["reason"], "a is being moved", "the silence outlived the kill, and the maintenance is b's");
    let mut tenants: Vec<Value> = eventually("both are sent", || {
        let all = alerts_at(&address)?;
        (all.len() == 2).then(|| all.iter().map(|alert| alert["labels"]["tenant"].clone()).collect())
    });
    tenants.sort_by_key(ToString::to_string);
    assert_eq!(tenants, ["a", "b"]);
    assert_eq!(request(&server, "a", &end, None).0, 200);
}

#[test]
fn a_wrong_tenant_or_file_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    for (value, message) in [
        ("rules.yml", "give TENANT=FILE"),
        ("a/b=rules.yml", "tenant"),
        ("b=", "no file is named"),
        ("b=missing.yml", "missing.yml"),
    ] {
        let refused = Server::try_start(directory.path(), &["--listen", "127.0.0.1:0", "--tenant-rules", value]);
        let error = refused.err().expect("it is refused");
        assert!(error.contains(message), "{value}: {error}");
    }
}
