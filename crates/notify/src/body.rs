//! The JSON bodies of requests.

use serde_json::{Value, json};

use crate::grouping::Notification;
use crate::notice::Notice;
use crate::text::{common, lines, state, time, title};

/// 20 groups are attachments of one message, as Slack recommends; beyond that only the number of further ones is given.
const ATTACHMENTS_MAX: usize = 20;
/// 3,000 characters of an attachment.
const ATTACHMENT_CHARS_MAX: usize = 3_000;

/// The body for the API v2 of an Alertmanager.
pub(crate) fn manager(alerts: &[Notice]) -> Value {
    let one = |alert: &Notice| {
        json!({
            "labels": alert.labels,
            "annotations": alert.annotations,
            "startsAt": time(alert.starts_ms),
            "endsAt": time(alert.ends_ms),
            "generatorURL": alert.generator_url,
        })
    };
    Value::Array(alerts.iter().map(one).collect())
}

/// The body of an Alertmanager's webhook, version 4.
pub(crate) fn webhook(group: &Notification, external_url: &str) -> Value {
    let one = |alert: &Notice| {
        let ends = if alert.is_resolved { time(alert.ends_ms) } else { "0001-01-01T00:00:00Z".to_owned() };
        json!({
            "status": if alert.is_resolved { "resolved" } else { "firing" },
            "labels": alert.labels,
            "annotations": alert.annotations,
            "startsAt": time(alert.starts_ms),
            "endsAt": ends,
            "generatorURL": alert.generator_url,
            "fingerprint": alert.fingerprint(),
        })
    };
    let key: Vec<String> = group.labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    json!({
        "version": "4",
        "groupKey": format!("{{}}:{{{}}}", key.join(", ")),
        "truncatedAlerts": 0,
        "status": if group.is_resolved() { "resolved" } else { "firing" },
        "receiver": "webhook",
        "groupLabels": group.labels,
        "commonLabels": common(&group.alerts, |alert| &alert.labels),
        "commonAnnotations": common(&group.alerts, |alert| &alert.annotations),
        "externalURL": external_url,
        "alerts": group.alerts.iter().map(one).collect::<Vec<_>>(),
    })
}

/// A message of Slack: one for all groups.
pub(crate) fn slack(groups: &[Notification], channel: Option<&str>, external_url: &str) -> Value {
    let attachment = |group: &Notification| {
        let heading = format!("[{}] {}", state(&group.alerts), title(group));
        let text: String = lines(group).join("\n").chars().take(ATTACHMENT_CHARS_MAX).collect();
        json!({
            "title": escaped(&heading),
            "title_link": external_url,
            "text": escaped(&text),
            "fallback": heading,
            "color": if group.is_resolved() { "good" } else { "danger" },
            "mrkdwn_in": [],
        })
    };
    let mut out = json!({
        "username": "Ogive",
        "attachments": groups.iter().take(ATTACHMENTS_MAX).map(attachment).collect::<Vec<_>>(),
    });
    if let Some(channel) = channel {
        out["channel"] = json!(channel);
    }
    if let Some(more) = groups.len().checked_sub(ATTACHMENTS_MAX).filter(|more| *more > 0) {
        out["text"] = json!(format!("and {more} more groups"));
    }
    out
}

/// Escapes the three characters with a special meaning in Slack's texts.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notice::example;

    #[test]
    fn slack_gets_one_message_and_no_mentions() {
        let mut alert = example("Down", false);
        alert.annotations.insert("summary".to_owned(), "<!channel> a & b".to_owned());
        let group = Notification { labels: [].into(), alerts: vec![alert], is_repeat: false };
        let message = slack(&vec![group; 22], Some("#ops"), "");
        assert_eq!(message["attachments"].as_array().unwrap().len(), 20);
        assert_eq!((&message["text"], &message["channel"]), (&json!("and 2 more groups"), &json!("#ops")));
        let text = message["attachments"][0]["text"].as_str().unwrap();
        assert!(text.contains("&lt;!channel&gt; a &amp; b"), "{text}");
        assert_eq!(message["attachments"][0]["title"], "[FIRING:1] Down");
    }
}
