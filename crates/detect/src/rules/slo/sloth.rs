//! Files of Sloth, `prometheus/v1`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::objective::{AlertTexts, Indicator, Objective, WINDOW, target, whole};
use crate::rules::duration::parse_ms;
use crate::rules::yaml::{FileError, first_document};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: String,
    service: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    slos: Vec<Slo>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Slo {
    name: String,
    objective: f64,
    #[serde(default)]
    description: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    sli: Sli,
    #[serde(default)]
    alerting: Alerting,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sli {
    events: Option<Events>,
    raw: Option<Raw>,
    latency: Option<Latency>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Events {
    error_query: String,
    total_query: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    error_ratio_query: String,
}

/// An extension of ours: a histogram, and the latency limit.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Latency {
    histogram: String,
    threshold: String,
    #[serde(default)]
    by: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Alerting {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    page_alert: Kind,
    #[serde(default)]
    ticket_alert: Kind,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    #[serde(default)]
    disable: bool,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// The objectives of a file.
pub(super) fn objectives(text: &str) -> Result<Vec<Objective>, FileError> {
    let file: File = first_document(text)?;
    if file.version != "prometheus/v1" {
        return Err(whole(format!("version {:?} is not prometheus/v1", file.version)));
    }
    file.slos.into_iter().map(|slo| objective(slo, &file.service, &file.labels)).collect()
}

fn objective(slo: Slo, service: &str, shared: &BTreeMap<String, String>) -> Result<Objective, FileError> {
    let indicator = match (slo.sli.events, slo.sli.raw, slo.sli.latency) {
        (Some(events), None, None) => Indicator::Events { errors: events.error_query, total: events.total_query },
        (None, Some(raw), None) => Indicator::Ratio(raw.error_ratio_query),
        (None, None, Some(latency)) => latency_indicator(&latency, &slo.name)?,
        _ => return Err(whole(format!("{:?}: sli needs one of events, raw, latency", slo.name))),
    };
    let mut labels = shared.clone();
    labels.extend(slo.labels);
    let mut annotations = slo.alerting.annotations;
    annotations.extend(slo.alerting.page_alert.annotations);
    annotations.extend(slo.alerting.ticket_alert.annotations);
    let labels_of = |disable: bool, labels: BTreeMap<_, _>| (!disable).then(|| labels.into_iter().collect());
    Ok(Objective {
        service: service.to_owned(),
        target: target(slo.objective, &slo.name)?,
        name: slo.name,
        description: slo.description,
        indicator,
        labels: labels.into_iter().collect(),
        alert: AlertTexts {
            name: slo.alerting.name.filter(|name| !name.is_empty()),
            labels: slo.alerting.labels.into_iter().collect(),
            annotations: annotations.into_iter().collect(),
            page: labels_of(slo.alerting.page_alert.disable, slo.alerting.page_alert.labels),
            ticket: labels_of(slo.alerting.ticket_alert.disable, slo.alerting.ticket_alert.labels),
        },
    })
}

fn latency_indicator(latency: &Latency, name: &str) -> Result<Indicator, FileError> {
    let seconds =
        parse_ms(&latency.threshold).map_err(|error| whole(format!("{name:?}: threshold: {error}")))? as f64 / 1e3;
    let by = if latency.by.is_empty() { String::new() } else { format!(" by ({})", latency.by.join(", ")) };
    Ok(from_histogram(&latency.histogram, &by, seconds, true))
}

/// Events of a histogram: good ones are at most, or at least, a value.
pub(super) fn from_histogram(selector: &str, by: &str, value: f64, is_below_good: bool) -> Indicator {
    let rate = format!("sum{by} (rate({selector}[{WINDOW}]))");
    let good = if is_below_good {
        format!("histogram_fraction(-Inf, {value}, {rate})")
    } else {
        format!("histogram_fraction({value}, +Inf, {rate})")
    };
    Indicator::Events {
        errors: format!("(1 - {good}) * histogram_count({rate})"),
        total: format!("histogram_count({rate})"),
    }
}
