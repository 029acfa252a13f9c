//! What people read: subjects and lines.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ogive_text::calendar::iso;

use crate::grouping::Notification;
use crate::notice::Notice;

/// 50 alerts of a group are written out; beyond that only the number of further ones is given.
const ALERTS_MAX: usize = 50;
/// 2,000 bytes of an annotation are shown.
const TEXT_BYTES_MAX: usize = 2_000;

/// `FIRING:2` or `RESOLVED`.
pub(crate) fn state(alerts: &[Notice]) -> String {
    match alerts.iter().filter(|alert| !alert.is_resolved).count() {
        0 => "RESOLVED".to_owned(),
        count => format!("FIRING:{count}"),
    }
}

/// `Down (job=x)`: the group's alerts by name and the labels that define the group.
pub(crate) fn title(group: &Notification) -> String {
    let mut names: Vec<&str> = group.alerts.iter().map(Notice::name).collect();
    names.sort_unstable();
    names.dedup();
    let more = names.len().saturating_sub(3);
    names.truncate(3);
    let mut out = names.join(", ");
    if more > 0 {
        let _ = write!(out, " and {more} more");
    }
    let labels: Vec<String> = group.labels.iter().filter(|(name, _)| *name != "alertname").map(pair).collect();
    if !labels.is_empty() {
        let _ = write!(out, " ({})", labels.join(", "));
    }
    one_line(&out)
}

/// The subject of a digest.
pub(crate) fn subject(groups: &[Notification]) -> String {
    let alerts: Vec<Notice> = groups.iter().flat_map(|group| group.alerts.clone()).collect();
    let first = groups.first().map(title).unwrap_or_default();
    let more = match groups.len() {
        0 | 1 => String::new(),
        count => format!(" and {} more groups", count - 1),
    };
    format!("[{}] {first}{more}", state(&alerts))
}

/// The lines of a group: what its alerts have in common, then each.
pub(crate) fn lines(group: &Notification) -> Vec<String> {
    let common = common(&group.alerts, |alert| &alert.labels);
    let mut out = Vec::new();
    let shared: Vec<String> = common.iter().filter(|(name, _)| *name != "alertname").map(pair).collect();
    if !shared.is_empty() {
        out.push(format!("all: {}", shared.join(" ")));
    }
    for alert in group.alerts.iter().take(ALERTS_MAX) {
        let state = if alert.is_resolved { "resolved" } else { "firing" };
        let own: Vec<String> = alert.labels.iter().filter(|(name, _)| !common.contains_key(*name)).map(pair).collect();
        let until = if alert.is_resolved { format!(" until {}", time(alert.ends_ms)) } else { String::new() };
        out.push(
            format!("{state} {} since {}{until} {}", alert.name(), time(alert.starts_ms), own.join(" "))
                .trim_end()
                .to_owned(),
        );
        let for_people = alert.annotations.iter().filter(|(name, _)| !name.starts_with("ogive_"));
        out.extend(for_people.map(|(name, text)| format!("    {name}: {}", shortened(text))));
        if !alert.generator_url.is_empty() {
            out.push(format!("    {}", alert.generator_url));
        }
    }
    if let Some(more) = group.alerts.len().checked_sub(ALERTS_MAX).filter(|more| *more > 0) {
        out.push(format!("and {more} more alerts"));
    }
    out
}

/// The pairs that all alerts have in common.
pub(crate) fn common(alerts: &[Notice], of: fn(&Notice) -> &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut out = alerts.first().map(of).cloned().unwrap_or_default();
    out.retain(|name, value| alerts.iter().all(|alert| of(alert).get(name) == Some(value)));
    out
}

pub(crate) fn time(ms: i64) -> String {
    iso(ms.saturating_mul(1_000_000))
}

fn pair((name, value): (&String, &String)) -> String {
    format!("{name}={value}")
}

fn shortened(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_owned();
    }
    format!("{}...", &text[..text.floor_char_boundary(TEXT_BYTES_MAX)])
}

/// Without line breaks, and no longer than a subject may be.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notice::example;

    #[test]
    fn a_group_is_written_with_what_is_common_said_once() {
        let mut alerts = vec![example("Down", false), example("Down", true)];
        for (at, alert) in alerts.iter_mut().enumerate() {
            alert.labels.extend([("job".to_owned(), "x".to_owned()), ("host".to_owned(), at.to_string())]);
            alert.annotations.insert("summary".to_owned(), "it is\ndown".to_owned());
        }
        let group = Notification { labels: [("job".to_owned(), "x".to_owned())].into(), alerts, is_repeat: false };
        assert_eq!(subject(&[group.clone(), group.clone()]), "[FIRING:2] Down (job=x) and 1 more groups");
        let lines = lines(&group);
        assert_eq!(lines[0], "all: job=x");
        assert_eq!(lines[1], "firing Down since 1970-01-01T00:00:00.000Z host=0");
        assert_eq!(lines[3], "resolved Down since 1970-01-01T00:00:00.000Z until 1970-01-12T13:46:40.000Z host=1");
    }

    #[test]
    fn a_name_breaks_no_header_and_a_group_has_an_end() {
        let alerts: Vec<Notice> = (0..60).map(|_| example("a\r\nBcc: x@y.z", false)).collect();
        let group = Notification { labels: BTreeMap::new(), alerts, is_repeat: false };
        assert_eq!(title(&group), "a  Bcc: x@y.z");
        assert_eq!(lines(&group).last().unwrap(), "and 10 more alerts");
    }
}
