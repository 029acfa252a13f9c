//! Rules over samples of remote write beside a real Alertmanager, in four cases: an alert that is pending, fires,
//! ceases and comes again; one that never fires and one that never begins; those that need no or hardly any time; rules
//! on the alerts of others. Times are those of people through thirty.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::alertmanager::{alerts_at, hooked};
use crate::common::clients::Client;
use crate::common::programs::{Program, free_address};
use crate::common::{Server, eventually, form, now_ms, remote};
use ogive_text::calendar::instant_ms;
use serde_json::{Value, json};

const RULES: &str = r#"groups:
- name: PendingAndFiringAndResolved
  interval: 1s
  rules:
  - alert: Simple
    expr: case_one > 10
    for: 20s
    labels: {foo: bar, ba_dum: tss}
    annotations: {description: 'is {{ $value }}', summary: always the same}
- name: PendingAndResolved_AlwaysInactive
  interval: 1s
  rules:
  - alert: Pending
    expr: case_two > 10
    for: 1h
  - alert: Never
    expr: case_two < 0
- name: ZeroFor_SmallFor
  interval: 1s
  rules:
  - alert: ZeroFor
    expr: case_three > 10
    labels:
      upper: '{{ $labels.job | toUpper }}'
      class: '{{ if gt $value 15.0 }}high{{ else }}low{{ end }}'
      nothing: '{{ $labels.nobody }}'
    annotations:
      templated: '{{ define "t" }}<{{ .arg0 }}/{{ .arg1 }}>{{ end }}{{ template "t" (args $labels.job $value) }}'
      queried: '{{ range query "case_three" }}{{ .Labels.job }}={{ .Value | humanize }}{{ end }}'
      failing: '{{ query "(" | first | value }}'
      method: '{{ (now | toTime).Year }}'
  - alert: SmallFor
    expr: case_three > 10
    for: 500ms
- name: NewAlerts_OrderCheck
  interval: 1s
  rules:
  - alert: Before
    expr: ALERTS{alertname="Base"} == 1
  - alert: Base
    expr: case_four > 10
  - alert: Behind
    expr: ALERTS{alertname="Base",alertstate="firing"} == 1
"#;

/// The values that are sent twice a second as series of remote write.
#[derive(Default)]
struct Values {
    now: Mutex<BTreeMap<&'static str, f64>>,
    is_over: AtomicBool,
}

impl Values {
    fn set(&self, name: &'static str, value: f64) {
        self.now.lock().unwrap().insert(name, value);
    }

    fn send_until_over(&self, address: &str) {
        let url = format!("http://{address}/api/v1/write");
        while !self.is_over.load(Ordering::Relaxed) {
            let now = self.now.lock().unwrap().clone();
            let series = now.into_iter().map(|(name, value)| {
                let mut series = remote::series(name);
                remote::put_float(&mut series, now_ms(), value);
                series
            });
            let (status, body) = remote::post(&url, &remote::write_request(&series.collect::<Vec<_>>()));
            assert!((200..300).contains(&status), "{status} {}", String::from_utf8_lossy(&body));
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

/// Ends the sender, also when an assertion fails.
struct Over(Arc<Values>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// A server with rules, the samples that it is sent, an Alertmanager behind it, and what that posts to people.
struct Cases {
    server: Server,
    values: Arc<Values>,
    _over: Over,
    manager: String,
    _program: Program,
    posts: Client,
    _directory: tempfile::TempDir,
}

impl Cases {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("/usr/bin/python3");
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../notify/tests/receivers.py"));
        let mut posts = Client::run("receivers.py (scripts/need aiosmtpd)", command);
        let ports: Value = serde_json::from_str(&posts.line()).unwrap();
        let address = free_address();
        let program = hooked(directory.path(), &address, ports["http"].as_u64().unwrap());
        let rules = directory.path().join("rules.yml");
        std::fs::write(&rules, RULES).unwrap();
        let url = format!("http://{address}");
        let more = ["--listen", "127.0.0.1:0", "--rules", rules.to_str().unwrap(), "--alerting-resend", "5s"];
        let server = Server::try_start(
            &directory.path().join("data"),
            &[&more[..], &["--alerting-alertmanager", &url, "--alerting-wait", "0s"]].concat(),
        );
        let server = server.unwrap();
        eventually("the Alertmanager answers", || alerts_at(&address));
        let values = Arc::new(Values::default());
        let (sender, at) = (Arc::clone(&values), server.address.clone());
        std::thread::spawn(move || sender.send_until_over(&at));
        let over = Over(Arc::clone(&values));
        Self { server, values, _over: over, manager: address, _program: program, posts, _directory: directory }
    }

    /// The alert of that name as the server shows it.
    fn shown(&self, name: &str) -> Option<Value> {
        let alerts = self.server.get("/api/v1/alerts").1["data"]["alerts"].clone();
        alerts.as_array()?.iter().find(|alert| alert["labels"]["alertname"] == name).cloned()
    }

    /// The alert of that name, once the server shows what `is` says.
    fn comes(&self, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("{name} {what}"), || self.shown(name).filter(|alert| is(alert)))
    }

    /// The state that `/api/v1/rules` shows, and whether its rule is in order.
    fn rule(&self, name: &str) -> (String, String) {
        let groups = self.server.get("/api/v1/rules").1["data"]["groups"].clone();
        let rules = groups.as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap());
        let rule = rules.into_iter().find(|rule| rule["name"] == name).unwrap().clone();
        (rule["state"].as_str().unwrap().to_owned(), rule["health"].as_str().unwrap().to_owned())
    }

    /// The alert of that name as the Alertmanager has it.
    fn managed(&self, name: &str) -> Option<Value> {
        // That it does not answer does not mean that it has none.
        let all = eventually("the Alertmanager answers", || alerts_at(&self.manager));
        all.into_iter().find(|alert| alert["labels"]["alertname"] == name)
    }

    /// What people are sent next of that alert.
    fn posted(&mut self, name: &str) -> Value {
        loop {
            let came: Value = serde_json::from_str(&self.posts.line()).unwrap();
            let alert = &came["body"]["alerts"][0];
            if alert["labels"]["alertname"] == name {
                return alert.clone();
            }
        }
    }

    /// The instants of the first two evaluations in which that alert fired. A server on a busy machine skips slots, so
    /// they may be further apart than an interval.
    fn evaluations(&self, name: &str) -> [i64; 2] {
        let expr = form(&format!("ALERTS{{alertname=\"{name}\",alertstate=\"firing\"}}[10m]"));
        eventually(&format!("{name} was evaluated twice"), || {
            let (_, body) = self.server.get(&format!("/api/v1/query?query={expr}"));
            let samples = body["data"]["result"][0]["values"].as_array()?;
            let at = |number: usize| Some((samples.get(number)?[0].as_f64()? * 1e3).round() as i64);
            Some([at(0)?, at(1)?])
        })
    }

    /// How many series `expr` gives.
    fn count(&self, expr: &str) -> usize {
        let (_, body) = self.server.get(&format!("/api/v1/query?query={}", form(expr)));
        body["data"]["result"].as_array().unwrap_or_else(|| panic!("{expr}: {body}")).len()
    }
}

fn instant(value: &Value) -> i64 {
    instant_ms(value.as_str().unwrap()).unwrap()
}

/// Case 1: pending with texts that follow the value, firing after `for` and sent again and again, resolved, and a
/// second time.
#[test]
fn an_alert_is_pending_fires_ceases_and_comes_again() {
    let mut cases = Cases::start();
    cases.values.set("case_one", 3.0);
    cases.server.becomes("case_one", 3.0);
    assert_eq!((cases.shown("Simple"), cases.rule("Simple").0), (None, "inactive".to_owned()));
    let mut began = 0;
    for cycle in 0..2 {
        cases.values.set("case_one", 15.0);
        let pending = cases.comes("Simple", "is pending", |alert| alert["annotations"]["description"] == "is 15");
        assert_eq!(pending["state"], "pending", "cycle {cycle}");
        assert_eq!(pending["labels"], json!({"alertname": "Simple", "ba_dum": "tss", "foo": "bar", "job": "a"}));
        cases.server.becomes("ALERTS{alertname=\"Simple\",alertstate=\"pending\"}", 1.0);
        assert_eq!(cases.managed("Simple"), None, "nobody hears of what is pending");
        cases.values.set("case_one", 19.0);
        let same = cases.comes("Simple", "follows", |alert| alert["annotations"]["description"] == "is 19");
        assert_eq!((&same["state"], &same["activeAt"]), (&json!("pending"), &pending["activeAt"]), "cycle {cycle}");
        let sent = cases.posted("Simple");
        assert_eq!((&sent["status"], &sent["annotations"]["summary"]), (&json!("firing"), &json!("always the same")));
        let firing = cases.comes("Simple", "fires", |alert| alert["state"] == "firing");
        assert_eq!((&firing["activeAt"], cases.rule("Simple").0), (&pending["activeAt"], "firing".to_owned()));
        let held = instant(&sent["startsAt"]) - instant(&pending["activeAt"]);
        assert!(held >= 20_000, "it fires {held} ms after it began");
        assert!(instant(&pending["activeAt"]) > began, "it is a new one");
        began = instant(&pending["activeAt"]);
        cases.server.becomes("ALERTS{alertname=\"Simple\",alertstate=\"firing\"}", 1.0);
        // It is sent again with the texts of then, and holds for longer.
        let first = eventually("the Alertmanager has it", || cases.managed("Simple"));
        cases.values.set("case_one", 30.0);
        let again = eventually("it is sent again", || {
            cases.managed("Simple").filter(|alert| alert["annotations"]["description"] == "is 30")
        });
        assert_eq!(again["startsAt"], first["startsAt"], "it is the same alert");
        assert!(instant(&again["endsAt"]) > instant(&first["endsAt"]), "{again}");
        cases.values.set("case_one", 5.0);
        let ended = cases.posted("Simple");
        assert_eq!((&ended["status"], &ended["startsAt"]), (&json!("resolved"), &sent["startsAt"]));
        assert!(instant(&ended["endsAt"]) > instant(&ended["startsAt"]), "{ended}");
        eventually("it is gone", || {
            (cases.shown("Simple").is_none() && cases.managed("Simple").is_none()).then_some(())
        });
        eventually("its series ends", || (cases.count("ALERTS{alertname=\"Simple\"}") == 0).then_some(()));
        assert_eq!(cases.rule("Simple"), ("inactive".to_owned(), "ok".to_owned()));
    }
}

/// Case 2: an alert that is over before it fires is never heard of, and one whose condition never holds is never there.
#[test]
fn an_alert_that_does_not_last_is_never_sent() {
    let cases = Cases::start();
    cases.values.set("case_two", 15.0);
    cases.comes("Pending", "is pending", |alert| alert["state"] == "pending");
    cases.server.becomes("ALERTS{alertname=\"Pending\",alertstate=\"pending\"}", 1.0);
    cases.values.set("case_two", 5.0);
    eventually("it is gone", || cases.shown("Pending").is_none().then_some(()));
    eventually("its series ends", || (cases.count("ALERTS{alertname=\"Pending\"}") == 0).then_some(()));
    // What fires later is sent: nothing was before.
    cases.values.set("case_four", 11.0);
    eventually("a later one is sent", || cases.managed("Base"));
    for name in ["Pending", "Never"] {
        assert_eq!((cases.managed(name), cases.rule(name).0), (None, "inactive".to_owned()), "{name}");
        let ever = format!("last_over_time(ALERTS{{alertname=\"{name}\",alertstate=\"firing\"}}[10m])");
        assert_eq!(cases.count(&ever), 0, "{name}");
    }
    assert_eq!(cases.count("last_over_time(ALERTS{alertname=\"Never\"}[10m])"), 0);
}

/// Case 3: without `for` an alert fires as it begins, with less than an interval at the second evaluation; templates
/// give their texts.
#[test]
fn an_alert_without_for_fires_at_once() {
    let mut cases = Cases::start();
    cases.values.set("case_three", 5.0);
    cases.server.becomes("case_three", 5.0);
    cases.values.set("case_three", 16.0);
    let sent = cases.posted("ZeroFor");
    let labels = json!({"alertname": "ZeroFor", "class": "high", "job": "a", "upper": "A"});
    assert_eq!((&sent["status"], &sent["labels"]), (&json!("firing"), &labels));
    let texts = &sent["annotations"];
    assert_eq!((&texts["templated"], &texts["queried"]), (&json!("<a/16>"), &json!("a=16")), "{texts}");
    assert!(texts["failing"].as_str().unwrap().starts_with("<error expanding template: "), "{texts}");
    assert!(texts["method"].as_str().unwrap().parse::<u32>().unwrap() >= 2026, "{texts}");
    let shown = cases.comes("ZeroFor", "is shown", |_| true);
    assert_eq!(instant(&shown["activeAt"]), instant(&sent["startsAt"]), "it was never pending");
    assert_eq!(cases.count("last_over_time(ALERTS{alertname=\"ZeroFor\",alertstate=\"pending\"}[10m])"), 0);
    let small = cases.comes("SmallFor", "fires", |alert| alert["state"] == "firing");
    let fired = eventually("it is sent", || cases.managed("SmallFor"));
    let times = [instant(&small["activeAt"]), instant(&fired["startsAt"])];
    assert_eq!(times, cases.evaluations("ZeroFor"), "it begins at the first evaluation, and fires at the second");
    cases.server.grows_to("count_over_time(ALERTS{alertname=\"SmallFor\",alertstate=\"pending\"}[10m])", 1.0);
    cases.values.set("case_three", 5.0);
    eventually("both are gone", || {
        (cases.managed("ZeroFor").is_none() && cases.managed("SmallFor").is_none()).then_some(())
    });
}

/// Case 4: a rule sees the alerts of the rules before it in the same evaluation, and those of the rules behind it in
/// the next one.
#[test]
fn rules_see_the_alerts_of_those_before_them() {
    let cases = Cases::start();
    cases.values.set("case_four", 5.0);
    cases.server.becomes("case_four", 5.0);
    cases.values.set("case_four", 12.0);
    let [base, behind, before] = ["Base", "Behind", "Before"]
        .map(|name| instant(&eventually(&format!("{name} is sent"), || cases.managed(name))["startsAt"]));
    let [first, second] = cases.evaluations("Base");
    assert_eq!((base, behind, before), (first, first, second));
    // Of an alert's labels the name is its own, whatever the element had.
    let shown = cases.comes("Behind", "is shown", |_| true);
    assert_eq!(shown["labels"], json!({"alertname": "Behind", "alertstate": "firing", "job": "a"}));
    cases.values.set("case_four", 5.0);
    eventually("all are gone", || {
        ["Base", "Behind", "Before"].iter().all(|name| cases.shown(name).is_none()).then_some(())
    });
}
