//! `ogive serve --rules` beside a real Alertmanager, over a kill, and `ogive test rules`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::alertmanager::{alerts_at, silent};
use crate::common::clients::Client;
use crate::common::programs::free_address;
use crate::common::{SOURCE, Server, eventually, now_ms};
use serde_json::{Value, json};

const RULES: &str = "groups:
- name: live
  interval: 1s
  rules:
  - record: job:up:max
    expr: max by (job) (my_up)
  - alert: Down
    expr: job:up:max == 0
    for: 2s
    labels: {severity: page}
    annotations: {summary: '{{ $labels.job }} is down, {{ $value | humanize }}'}
";

/// Each sample is later than those before it: of two at one time only one would stay.
fn put(server: &Server, sequence: u64, value: f64) {
    let series = json!([{"labels": {"__name__": "my_up", "job": "x"}, "kind": "float"}]);
    let samples = json!([{"series": 0, "time_ms": now_ms() + sequence as i64, "float": value}]);
    assert_eq!(server.batch(SOURCE, sequence, series, samples).0, 200);
}

fn state(server: &Server) -> Value {
    server.get("/api/v1/alerts").1["data"]["alerts"][0].clone()
}

#[test]
fn an_alert_outlives_a_kill_and_an_alertmanager_that_comes_late() {
    let directory = tempfile::tempdir().unwrap();
    let rules = directory.path().join("rules.yml");
    std::fs::write(&rules, RULES).unwrap();
    let (manager, data) = (free_address(), directory.path().join("data"));
    let (rules, url) = (rules.to_str().unwrap().to_owned(), format!("http://{manager}"));
    let start = || {
        let more =
            ["--listen", "127.0.0.1:0", "--rules", &rules, "--alerting-alertmanager", &url, "--alerting-wait", "500ms"];
        Server::try_start(&data, &more).unwrap()
    };
    let mut server = start();
    put(&server, 1, 0.0);
    // Nobody hears of it yet: the Alertmanager is not there.
    let fired = eventually("the alert fires", || Some(state(&server)).filter(|alert| alert["state"] == "firing"));
    assert_eq!(fired["annotations"]["summary"], "x is down, 0");
    server.kill();
    drop(server);
    let _manager = silent(directory.path(), &manager);
    let server = start();
    let sent = eventually("the alert is delivered", || alerts_at(&manager)?.into_iter().next());
    assert_eq!(sent["labels"], json!({"alertname": "Down", "job": "x", "severity": "page"}));
    let again = eventually("the alert is there", || Some(state(&server)).filter(|alert| !alert.is_null()));
    assert_eq!((&again["state"], &again["activeAt"]), (&json!("firing"), &fired["activeAt"]));
    let started = &sent["startsAt"];
    server.becomes("ALERTS{alertname=\"Down\",alertstate=\"firing\"}", 1.0);
    assert_eq!(&alerts_at(&manager).unwrap()[0]["startsAt"], started, "it is the same alert");
    put(&server, 2, 1.0);
    eventually("the alert is resolved", || alerts_at(&manager)?.is_empty().then_some(()));
    server.becomes("job:up:max", 1.0);
}

/// Debian's aiosmtpd and a receiver of HTTP, as `ogive-notify` tests with them, and their ports.
fn receivers() -> (Client, u64, u64) {
    let mut command = Command::new("/usr/bin/python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../notify/tests/receivers.py"));
    let mut client = Client::run("receivers.py (scripts/need aiosmtpd)", command);
    let ports: Value = serde_json::from_str(&client.line()).unwrap();
    (client, ports["smtp"].as_u64().unwrap(), ports["http"].as_u64().unwrap())
}

/// Asks for a silence; the status and the answer.
fn post_silence(server: &Server, body: &Value) -> (u16, Value) {
    let head = "POST /v1/silences HTTP/1.1\r\ncontent-type: application/json";
    let (status, body) = server.request(head, body.to_string().as_bytes()).unwrap();
    (status, serde_json::from_str::<Value>(&body).unwrap())
}

/// The next mail (`path` is empty) or request that the receivers got.
fn next_of(client: &mut Client, kind: &str, path: &str) -> Value {
    client.find(&format!("{kind} {path}"), |line| {
        let came: Value = serde_json::from_str(line).unwrap();
        (came["kind"] == kind && (path.is_empty() || came["path"] == path)).then_some(came)
    })
}

/// The mail and the heartbeat, once the webhook has heard of the alert, too. Each is sent by a thread of its own, in
/// any order, and who has heard of nothing when it is silenced hears of no end either.
fn heard_by_both(client: &mut Client) -> (Value, Value) {
    let (mut mail, mut beat, mut is_hooked) = (None, None, false);
    client.find("mail, webhook and heartbeat", |line| {
        let came: Value = serde_json::from_str(line).unwrap();
        is_hooked |= came["path"] == "/hook";
        if came["kind"] == "mail" {
            mail = Some(came);
        } else if came["path"] == "/beat" {
            beat = Some(came);
        }
        if is_hooked { mail.clone().zip(beat.clone()) } else { None }
    })
}

#[test]
fn people_hear_by_mail_and_webhook_over_a_kill_and_not_of_what_is_silenced() {
    let directory = tempfile::tempdir().unwrap();
    let rules = directory.path().join("rules.yml");
    std::fs::write(&rules, RULES).unwrap();
    let (mut client, smtp, http) = receivers();
    let (rules, data) = (rules.to_str().unwrap().to_owned(), directory.path().join("data"));
    let (server_url, hook) = (format!("smtp+plain://127.0.0.1:{smtp}"), format!("http://127.0.0.1:{http}/hook"));
    let beat = format!("http://127.0.0.1:{http}/beat");
    let start = |more: &[&str]| {
        let mut all =
            vec!["--listen", "127.0.0.1:0", "--rules", &rules, "--alerting-wait", "0s", "--alerting-webhook", &hook];
        all.extend([
            "--alerting-smtp",
            &server_url,
            "--alerting-email-to",
            "ops@example.org",
            "--alerting-group-by",
            "alertname,job",
        ]);
        all.extend(["--alerting-group-interval", "1s", "--alerting-resend", "1s"]);
        all.extend(more);
        Server::try_start(&data, &all).unwrap()
    };
    // A long wait: nothing is said before the kill.
    let mut server = start(&["--alerting-group-wait", "2s"]);
    put(&server, 1, 0.0);
    eventually("the alert fires", || Some(state(&server)).filter(|alert| alert["state"] == "firing"));
    server.kill();
    drop(server);
    let server =
        start(&["--alerting-group-wait", "2s", "--alerting-heartbeat", &beat, "--alerting-heartbeat-interval", "1s"]);
    let (mail, beat) = heard_by_both(&mut client);
    let mut next = |kind: &str, path: &str| next_of(&mut client, kind, path);
    let data = mail["data"].as_str().unwrap();
    assert!(data.contains("Subject: [FIRING:1] Down (job=x)"), "{data}");
    assert!(data.contains("summary: x is down, 0"), "{data}");
    assert_eq!(beat["body"]["status"], "ok");
    // Who is silenced is shown so, and the reason is kept.
    let body = json!({"match": {"alertname": "Down"}, "for": "1h", "reason": "being repaired"});
    let post = |body: &Value| post_silence(&server, body);
    assert_eq!(post(&json!({"match": {"alertname": "("}, "for": "1h", "reason": "a"})).0, 400);
    assert_eq!(post(&json!({"match": {"alertname": "a"}, "for": "1h", "reason": ""})).0, 400);
    let (status, made) = post(&body);
    assert_eq!(status, 200, "{made}");
    let shown = server.get("/v1/alerts").1["data"]["alerts"][0].clone();
    assert_eq!((&shown["quiet"]["reason"], &shown["state"]), (&json!("being repaired"), &json!("firing")), "{shown}");
    put(&server, 2, 1.0);
    // Who knew that it fired hears that it ceased.
    let ended = eventually("it is resolved", || {
        Some(next("http", "/hook")).filter(|came| came["body"]["status"] == "resolved")
    });
    assert_eq!(ended["body"]["groupLabels"], json!({"alertname": "Down", "job": "x"}));
    put(&server, 3, 0.0);
    eventually("it fires again, quietly", || Some(state(&server)).filter(|alert| alert["state"] == "firing"));
    let id = made["data"]["id"].as_u64().unwrap();
    let (status, _) = server.request(&format!("DELETE /v1/silences/{id} HTTP/1.1"), b"").unwrap();
    assert_eq!(status, 200);
    assert_eq!(next("http", "/hook")["body"]["status"], "firing", "it is heard of when the silence ends");
}

/// Samples of the next seconds, stored before their time comes: what an evaluation sees does not depend on when it is
/// run. Gives the instant of the first one (milliseconds), or none where it came before the answer.
fn put_ahead(server: &Server, values: &[f64]) -> Option<i64> {
    let begin_ms = now_ms() + 5_000;
    let series = json!([{"labels": {"__name__": "my_up", "job": "x"}, "kind": "float"}]);
    let at = |(second, value): (usize, &f64)| json!({"series": 0, "time_ms": begin_ms + 1_000 * second as i64, "float": value});
    let samples: Value = values.iter().enumerate().map(at).collect();
    let (status, body) = server.batch(SOURCE, 1, series, samples);
    assert_eq!((status, &body["accepted"]), (200, &json!(values.len())), "{body}");
    (now_ms() < begin_ms).then_some(begin_ms)
}

/// The instants (milliseconds) of the samples that a rule stored, and the labels of each.
fn stored(server: &Server, selector: &str) -> BTreeMap<i64, Value> {
    let range = crate::common::form(&format!("{selector}[5m]"));
    let (_, body) = server.get(&format!("/api/v1/query?query={range}"));
    let mut out = BTreeMap::new();
    for series in body["data"]["result"].as_array().unwrap() {
        for point in series["values"].as_array().unwrap() {
            let time_ms = (point[0].as_f64().unwrap() * 1e3).round() as i64;
            out.insert(time_ms, series["metric"].clone());
        }
    }
    out
}

/// Whether each second was evaluated: a busy machine leaves evaluations out, a backtest does not.
fn is_whole(server: &Server, begin_ms: i64, end_ms: i64) -> bool {
    let times: Vec<i64> = stored(server, "job:up:max").into_keys().take_while(|time_ms| *time_ms <= end_ms).collect();
    let (first, last) = (times.first().copied().unwrap_or(i64::MAX), times.last().copied().unwrap_or(0));
    first < begin_ms + 1_000 && last > end_ms - 1_000 && times.windows(2).all(|pair| pair[1] == pair[0] + 1_000)
}

/// A server whose rules have judged these values, one a second, where its data are, and the instant of the first one.
/// Begins again where the machine was too busy for what is compared.
fn ran_live(directory: &Path, rules: &str, values: &[f64]) -> (Server, PathBuf, i64) {
    for attempt in 0..10 {
        let data = directory.join(format!("data-{attempt}"));
        let more = ["--listen", "127.0.0.1:0", "--rules", rules, "--alerting-wait", "0s"];
        let server = Server::try_start(&data, &more).unwrap();
        let Some(begin_ms) = put_ahead(&server, values) else { continue };
        let end_ms = begin_ms + 1_000 * values.len() as i64;
        let evaluated = || {
            let group = server.get("/api/v1/rules").1["data"]["groups"][0]["lastEvaluation"].clone();
            ogive_text::calendar::instant_ms(group.as_str().unwrap()).unwrap()
        };
        eventually("all of it is evaluated", || (evaluated() > end_ms).then_some(()));
        if is_whole(&server, begin_ms, end_ms) {
            return (server, data, begin_ms);
        }
    }
    panic!("the machine is too slow to compare");
}

/// When the alerts of a rule in a report changed, from what and to what.
fn transitions(rule: &Value) -> Vec<(i64, String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all = rule["transitions"].as_array().unwrap().iter();
    all.map(|one| {
        (ogive_text::calendar::instant_ms(&text(&one["time"])).unwrap(), text(&one["from"]), text(&one["to"]))
    })
    .collect()
}

/// Runs `ogive rules backtest` with these arguments; the exit code, and what it printed.
type Backtest<'a> = &'a dyn Fn(&[&str]) -> (Option<i32>, String);

/// A backtest over the directory of the server, once that has ended, is the same.
fn over_directories(mut server: Server, directory: &str, document: &Value, backtest: Backtest<'_>) {
    let data = |more: &[&'static str]| backtest(&[&["--data", directory][..], more].concat());
    let (code, said) = data(&[]);
    assert!(code == Some(2) && said.contains("in use by another server"), "{code:?} {said}");
    assert_eq!(server.terminate(), Some(0));
    drop(server);
    let (code, said) = data(&["--json", "--rule", "Down", "--for", "3s", "--for", "6s"]);
    assert_eq!(code, Some(0), "{said}");
    let offline: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(&offline, document);
    let (code, said) = data(&["--tenant", "other", "--rule", "Down"]);
    assert!(code == Some(0) && said.starts_with("Down: fired 0 times"), "{code:?} {said}");
    let (code, said) = backtest(&["--data", "/nobody/has/this"]);
    assert!(code == Some(2) && said.contains("/nobody/has/this is no directory"), "{code:?} {said}");
    let (code, said) = data(&["--for", "soon"]);
    assert!(code == Some(2) && said.contains("for: "), "{code:?} {said}");
}

#[test]
fn a_backtest_equals_what_ran_live() {
    let directory = tempfile::tempdir().unwrap();
    let rules = directory.path().join("rules.yml");
    std::fs::write(&rules, RULES.replace("    for: 2s\n", "    for: 2s\n    keep_firing_for: 3s\n")).unwrap();
    let rules = rules.to_str().unwrap();
    // Too short to fire, a blink that `keep_firing_for` covers, an end.
    let values: Vec<f64> =
        "1100111000010000111111100011111111".chars().map(|one| f64::from(one as u8 - b'0')).collect();
    let (server, data, begin_ms) = ran_live(directory.path(), rules, &values);
    let end_ms = begin_ms + 1_000 * values.len() as i64;
    let state = |labels: Value| labels["alertstate"].as_str().unwrap().to_owned();
    let alerts = stored(&server, "ALERTS{alertname=\"Down\"}");
    let live: BTreeMap<i64, String> = alerts.into_iter().map(|(at, labels)| (at, state(labels))).collect();
    let first = *live.keys().next().expect("it was pending");
    let mut expected = Vec::new();
    let mut before = "inactive".to_owned();
    for at in (0..).map(|second| first + 1_000 * second).take_while(|at| *at <= end_ms) {
        let now = live.get(&at).cloned().unwrap_or_else(|| "inactive".to_owned());
        if now != before {
            expected.push((at, before, now.clone()));
        }
        before = now;
    }
    assert!(expected.len() >= 6, "{expected:?}");
    let url = format!("http://{}", server.address);
    let (start, end) = ((begin_ms / 1_000 - 1).to_string(), (end_ms / 1_000).to_string());
    let backtest = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
        command.args(["rules", "backtest", rules, "--start", &start, "--end", &end]).args(more);
        command.env("OGIVE_SERVER", &url);
        let done = command.output().unwrap();
        (done.status.code(), String::from_utf8(done.stdout).unwrap() + &String::from_utf8_lossy(&done.stderr))
    };
    let (code, said) = backtest(&["--json", "--rule", "Down", "--for", "3s", "--for", "6s"]);
    assert_eq!(code, Some(0), "{said}");
    let document: Value = serde_json::from_str(&said).unwrap();
    let rule = &document["rules"][0];
    assert_eq!(transitions(rule), expected);
    // The four zeros in a row last 3 s; a pending alert does not outlive the blink behind them. promtool fires as
    // often.
    let with = json!([{"for": "3s", "fired": 1}, {"for": "6s", "fired": 0}]);
    assert_eq!((&rule["fired"], &rule["firedWith"]), (&json!(2), &with), "{rule}");
    let (code, said) = backtest(&["--for", "4s"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("Down: fired 2 times; with for: 4s "), "{said}");
    assert!(said.contains("inactive -> pending {job=\"x\",severity=\"page\"} value 0\n"), "{said}");
    over_directories(server, data.to_str().unwrap(), &document, &backtest);
    std::fs::write(rules, "groups: [{name: a, rules: [{alert: B, expr: 'up =='}]}]").unwrap();
    let (code, said) = backtest(&["--data", data.to_str().unwrap()]);
    assert!(code == Some(2) && said.contains("could not parse expression"), "{code:?} {said}");
    let server = Server::try_start(&data, &["--listen", "127.0.0.1:0"]).unwrap();
    let url = format!("http://{}", server.address);
    let (code, said) = backtest(&["--server", &url]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("could not parse expression"), "{said}");
}

#[test]
fn rules_are_reloaded_and_bad_ones_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rules.yml");
    std::fs::write(&path, RULES).unwrap();
    let more = ["--listen", "127.0.0.1:0", "--rules", path.to_str().unwrap()];
    let server = Server::try_start(&directory.path().join("data"), &more).unwrap();
    let names = || {
        let groups = server.get("/api/v1/rules").1["data"]["groups"].clone();
        groups[0]["rules"].as_array().unwrap().iter().map(|rule| rule["name"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(), ["\"job:up:max\"", "\"Down\""]);
    std::fs::write(&path, RULES.replace("Down", "Gone")).unwrap();
    server.signal("HUP");
    eventually("the new rules are in force", || names().contains(&"\"Gone\"".to_owned()).then_some(()));
    std::fs::write(&path, RULES.replace("expr: max", "expr: nax(")).unwrap();
    let bad = Server::try_start(&directory.path().join("other"), &more).map(drop).unwrap_err();
    assert!(
        bad.contains("rules.yml:6:11: group \"live\", rule 1, \"job:up:max\": could not parse expression"),
        "{bad}"
    );
}

/// The rules for a server itself do what their tests say.
#[test]
fn the_rules_that_are_shipped_pass_their_tests() {
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules/ogive_test.yml");
    let done = Command::new(env!("CARGO_BIN_EXE_ogive")).args(["test", "rules", tests, "--diff"]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}

#[test]
fn unit_tests_of_rules_pass_and_fail() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("rules.yml"), RULES).unwrap();
    let test = "rule_files: [rules.yml]
tests:
- interval: 1m
  input_series: [{series: 'my_up{job=\"x\"}', values: '0x5'}]
  alert_rule_test:
  - eval_time: 2m
    alertname: Down
    exp_alerts: [{exp_labels: {job: x, severity: page}, exp_annotations: {summary: 'x is down, 0'}}]
";
    let path = directory.path().join("test.yml");
    let report = directory.path().join("report.xml");
    let run = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
        let done =
            command.args(["test", "rules"]).arg(&path).arg("--diff").arg("--junit").arg(&report).output().unwrap();
        (done.status.code(), String::from_utf8(done.stdout).unwrap())
    };
    let (code, said) = run(test);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("SUCCESS"), "{said}");
    let (code, said) = run(&test.replace("is down, 0", "is down, 1"));
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("- Annotations:{summary=\"x is down, 1\"}")
            && said.contains("+ Annotations:{summary=\"x is down, 0\"}"),
        "{said}"
    );
    assert!(std::fs::read_to_string(&report).unwrap().contains("failures=\"1\""));
}
