//! Delivery of alerts: a queue for each destination that survives restarts, and the bodies of its requests.
//!
//! Invariants: of an alert that waits only the latest state is sent; nothing leaves before it is on disk.
//! Limits: [`QUEUE_MAX`] alerts a destination, beyond which the oldest goes and is counted; [`BATCH`] a request;
//! [`TIMEOUT`] an answer, so that a destination that hangs holds up only itself.
//! Failure: what is not taken is sent again after a pause that grows to [`PAUSE_MAX`]; an answer of 400 drops its batch, which
//! an Alertmanager gives when it has taken what it could.

use std::collections::BTreeMap;
use std::time::Duration;

use ogive_detect::rules::template::rfc3339;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::options::AlertingOptions;

/// 10,000 alerts wait at most, as in Prometheus.
pub(super) const QUEUE_MAX: usize = 10_000;
/// 256 alerts a request, as in Prometheus.
const BATCH: usize = 256;
/// 10 s for an answer, as in Prometheus.
const TIMEOUT: Duration = Duration::from_secs(10);
/// 30 s between tries at the most: an Alertmanager that is back hears of what fires well before it would be taken as resolved.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The first pause.
const PAUSE: Duration = Duration::from_millis(500);

/// Who hears of alerts, in which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// API v2 of an Alertmanager: every state of an alert, again and again.
    Alertmanager,
    /// The webhook of an Alertmanager: changes alone.
    Webhook,
}

/// Who hears of alerts.
#[derive(Clone, Debug)]
pub(super) struct Destination {
    pub(super) url: String,
    pub(super) form: Form,
}

/// The destinations of the options.
pub(super) fn destinations(options: &AlertingOptions) -> anyhow::Result<Vec<Destination>> {
    let mut out: Vec<Destination> = Vec::new();
    let managers = options.alerting_alertmanager.iter().map(|url| (url, Form::Alertmanager));
    for (url, form) in managers.chain(options.alerting_webhook.iter().map(|url| (url, Form::Webhook))) {
        let parsed: ureq::http::Uri = url.parse().map_err(|error| anyhow::anyhow!("{url} is no address: {error}"))?;
        let scheme = parsed.scheme_str().unwrap_or_default();
        anyhow::ensure!(
            matches!(scheme, "http" | "https") && parsed.host().is_some(),
            "{url} is no address; give http://HOST:PORT"
        );
        let url = url.trim_end_matches('/').to_owned();
        anyhow::ensure!(!out.iter().any(|other| other.url == url), "{url} is named twice");
        out.push(Destination { url, form });
    }
    Ok(out)
}

/// An alert as it is delivered.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Queued {
    pub(super) labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    starts_ms: i64,
    ends_ms: i64,
    is_resolved: bool,
    generator_url: String,
    /// The state that it is of; it may leave when that is on disk.
    #[serde(skip)]
    pub(super) generation: u64,
}

/// What is known of an alert when it is handed over.
pub(super) struct Handed<'a> {
    pub(super) due: &'a ogive_detect::rules::Due,
    pub(super) expr: &'a str,
    pub(super) valid_until_ms: i64,
}

impl Queued {
    pub(super) fn new(handed: &Handed<'_>, options: &AlertingOptions, generation: u64) -> Self {
        let alert = &handed.due.alert;
        let mut labels: BTreeMap<String, String> =
            alert.labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        for (name, value) in &options.alerting_label {
            labels.entry(name.clone()).or_insert_with(|| value.clone());
        }
        let expr: String = form_urlencoded::byte_serialize(handed.expr.as_bytes()).collect();
        Self {
            labels,
            annotations: alert.annotations.iter().cloned().collect(),
            starts_ms: alert.fired_at_ms.unwrap_or(alert.active_at_ms),
            ends_ms: alert.resolved_at_ms.unwrap_or(handed.valid_until_ms),
            is_resolved: alert.resolved_at_ms.is_some(),
            generator_url: format!("{}/graph?g0.expr={expr}&g0.tab=1", options.alerting_external_url),
            generation,
        }
    }
}

/// What waits for one destination.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) waiting: Vec<Queued>,
    pub(super) failures: u32,
    pub(super) counts: Counts,
    pub(super) last_error: Option<String>,
}

/// What a destination had since the start.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) dropped: u64,
    pub(super) refused: u64,
    pub(super) failed_requests: u64,
}

impl Queue {
    /// Adds an alert; what waits of it already and says the same of its state goes.
    pub(super) fn push(&mut self, alert: Queued, form: Form) {
        let same = |other: &Queued| {
            other.labels == alert.labels && (form == Form::Alertmanager || other.is_resolved == alert.is_resolved)
        };
        self.waiting.retain(|other| !same(other));
        if self.waiting.len() >= QUEUE_MAX {
            self.waiting.remove(0);
            self.counts.dropped += 1;
        }
        self.waiting.push(alert);
    }

    /// The alerts of the next request: those whose state is on disk.
    pub(super) fn next(&self, saved: u64) -> Vec<Queued> {
        self.waiting.iter().filter(|alert| alert.generation <= saved).take(BATCH).cloned().collect()
    }

    /// How long to wait before the next try.
    pub(super) fn pause(&self) -> Duration {
        if self.failures == 0 { Duration::ZERO } else { PAUSE_MAX.min(PAUSE * 2_u32.pow(self.failures.min(10) - 1)) }
    }
}

/// How a request ended.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Taken,
    /// It will never be taken so.
    Refused(String),
    /// Send it again.
    Failed(String),
}

/// What sends.
pub(super) struct Sender {
    agent: ureq::Agent,
    url: String,
    form: Form,
}

impl Sender {
    pub(super) fn new(destination: &Destination) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(TIMEOUT)).build();
        let url = match destination.form {
            Form::Alertmanager => format!("{}/api/v2/alerts", destination.url),
            Form::Webhook => destination.url.clone(),
        };
        Self { agent: config.into(), url, form: destination.form }
    }

    pub(super) fn send(&self, alerts: &[Queued], external_url: &str) -> Answer {
        let body = match self.form {
            Form::Alertmanager => Value::Array(alerts.iter().map(manager_alert).collect()),
            Form::Webhook => webhook(alerts, external_url),
        };
        let request = self.agent.post(&self.url).header("content-type", "application/json");
        match request.send(body.to_string()) {
            Err(error) => Answer::Failed(format!("{}: {error}", self.url)),
            Ok(mut answer) => {
                let status = answer.status().as_u16();
                // 1 KiB: the sentence of an error.
                let text = answer.body_mut().with_config().limit(1024).read_to_string().unwrap_or_default();
                let sentence = format!("{}: status {status} {}", self.url, text.trim());
                match status {
                    200..300 => Answer::Taken,
                    // Too many requests, and a timeout, pass.
                    400..500 if status != 429 && status != 408 => Answer::Refused(sentence),
                    _ => Answer::Failed(sentence),
                }
            }
        }
    }
}

fn manager_alert(alert: &Queued) -> Value {
    json!({
        "labels": alert.labels,
        "annotations": alert.annotations,
        "startsAt": rfc3339(alert.starts_ms),
        "endsAt": rfc3339(alert.ends_ms),
        "generatorURL": alert.generator_url,
    })
}

/// The body of an Alertmanager's webhook, version 4.
fn webhook(alerts: &[Queued], external_url: &str) -> Value {
    let common = |of: fn(&Queued) -> &BTreeMap<String, String>| -> BTreeMap<String, String> {
        let mut out = alerts.first().map(of).cloned().unwrap_or_default();
        out.retain(|name, value| alerts.iter().all(|alert| of(alert).get(name) == Some(value)));
        out
    };
    let one = |alert: &Queued| {
        let ends = if alert.is_resolved { rfc3339(alert.ends_ms) } else { "0001-01-01T00:00:00Z".to_owned() };
        json!({
            "status": if alert.is_resolved { "resolved" } else { "firing" },
            "labels": alert.labels,
            "annotations": alert.annotations,
            "startsAt": rfc3339(alert.starts_ms),
            "endsAt": ends,
            "generatorURL": alert.generator_url,
            "fingerprint": fingerprint(&alert.labels),
        })
    };
    json!({
        "version": "4",
        "groupKey": "{}",
        "truncatedAlerts": 0,
        "status": if alerts.iter().all(|alert| alert.is_resolved) { "resolved" } else { "firing" },
        "receiver": "webhook",
        "groupLabels": {},
        "commonLabels": common(|alert| &alert.labels),
        "commonAnnotations": common(|alert| &alert.annotations),
        "externalURL": external_url,
        "alerts": alerts.iter().map(one).collect::<Vec<_>>(),
    })
}

/// 16 hexadecimal digits that are the same for the same labels (FNV-1a of names and values with 0xff behind each).
fn fingerprint(labels: &BTreeMap<String, String>) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let bytes = labels.iter().flat_map(|(name, value)| name.bytes().chain([0xff]).chain(value.bytes()).chain([0xff]));
    format!("{:016x}", bytes.fold(0xcbf2_9ce4_8422_2325, step))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queued(name: &str, is_resolved: bool) -> Queued {
        Queued {
            labels: BTreeMap::from([("alertname".to_owned(), name.to_owned())]),
            annotations: BTreeMap::new(),
            starts_ms: 0,
            ends_ms: 0,
            is_resolved,
            generator_url: String::new(),
            generation: 1,
        }
    }

    #[test]
    fn the_latest_state_of_an_alert_waits_and_the_queue_has_an_end() {
        let mut queue = Queue::default();
        queue.push(queued("a", false), Form::Alertmanager);
        queue.push(queued("b", false), Form::Alertmanager);
        queue.push(queued("a", true), Form::Alertmanager);
        assert_eq!(queue.waiting, [queued("b", false), queued("a", true)]);
        assert!(queue.next(0).is_empty(), "nothing leaves before it is on disk");
        assert_eq!(queue.next(1).len(), 2);
        queue.push(queued("a", false), Form::Webhook);
        assert_eq!(queue.waiting.len(), 3, "a webhook hears of each change");
        for number in 0..=QUEUE_MAX {
            queue.push(queued(&number.to_string(), false), Form::Alertmanager);
        }
        assert_eq!((queue.waiting.len(), queue.counts.dropped), (QUEUE_MAX, 4));
    }
}
