//! Files of OpenSLO, `openslo/v1`: SLOs whose indicator stands in them.

use serde::Deserialize;

use super::objective::{AlertTexts, Indicator, Objective, WINDOW, target, whole};
use super::sloth::from_histogram;
use crate::rules::yaml::{FileError, first_document};

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Slo {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Default, Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    description: String,
    service: String,
    indicator: Option<Inline>,
    indicator_ref: Option<String>,
    #[serde(default)]
    budgeting_method: String,
    objectives: Vec<Goal>,
}

#[derive(Deserialize)]
struct Inline {
    spec: Sli,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sli {
    ratio_metric: Option<Ratio>,
    threshold_metric: Option<Metric>,
}

#[derive(Deserialize)]
struct Ratio {
    #[serde(default)]
    counter: bool,
    good: Option<Metric>,
    bad: Option<Metric>,
    total: Option<Metric>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metric {
    metric_source: Source,
}

#[derive(Deserialize)]
struct Source {
    spec: Query,
}

#[derive(Deserialize)]
struct Query {
    query: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Goal {
    #[serde(default)]
    display_name: String,
    target: Option<f64>,
    target_percent: Option<f64>,
    op: Option<String>,
    value: Option<f64>,
}

/// The documents of a file, separated by lines of three dashes.
pub(super) fn objectives(text: &str) -> Result<Vec<Objective>, FileError> {
    let mut out = Vec::new();
    let mut documents = vec![String::new()];
    for line in text.lines() {
        if line.trim_end() == "---" {
            documents.push(String::new());
        } else {
            let last = documents.last_mut().expect("there is one");
            last.push_str(line);
            last.push('\n');
        }
    }
    for document in documents {
        if document.lines().any(|line| line.trim() == "kind: SLO") {
            out.extend(objectives_from(first_document(&document)?)?);
        }
    }
    if out.is_empty() { Err(whole("there is no document with kind: SLO")) } else { Ok(out) }
}

fn objectives_from(slo: Slo) -> Result<Vec<Objective>, FileError> {
    let name = slo.metadata.name;
    let wrong = |why: &str| whole(format!("{name:?}: {why}"));
    if slo.api_version != "openslo/v1" || slo.kind != "SLO" {
        return Err(wrong("apiVersion is not openslo/v1"));
    }
    if !matches!(slo.spec.budgeting_method.as_str(), "" | "Occurrences") {
        return Err(wrong("budgetingMethod must be Occurrences"));
    }
    if slo.spec.indicator_ref.is_some() {
        return Err(wrong("indicatorRef is not supported; write the indicator into the SLO"));
    }
    let sli = slo.spec.indicator.ok_or_else(|| wrong("it has no indicator"))?.spec;
    let count = slo.spec.objectives.len();
    let mut out = Vec::new();
    for (number, goal) in slo.spec.objectives.into_iter().enumerate() {
        let percent = goal.target_percent.or_else(|| goal.target.map(|share| share * 100.0));
        let percent = percent.ok_or_else(|| wrong("an objective has no target"))?;
        let own = if goal.display_name.is_empty() { format!("{}", number + 1) } else { goal.display_name.clone() };
        out.push(Objective {
            service: slo.spec.service.clone(),
            name: if count == 1 { name.clone() } else { format!("{name}-{own}") },
            description: slo.spec.description.clone(),
            target: target(percent, &name)?,
            indicator: indicator(&sli, &goal).map_err(|why| wrong(&why))?,
            labels: Vec::new(),
            alert: AlertTexts { page: Some(Vec::new()), ticket: Some(Vec::new()), ..AlertTexts::default() },
        });
    }
    Ok(out)
}

fn indicator(sli: &Sli, goal: &Goal) -> Result<Indicator, String> {
    let query = |metric: &Metric| metric.metric_source.spec.query.trim().to_owned();
    match (&sli.ratio_metric, &sli.threshold_metric) {
        (Some(ratio), None) => {
            let rate = |metric: &Metric| {
                let query = query(metric);
                // A counter of events; a query with a window is a rate already.
                if query.contains(WINDOW) || !ratio.counter { query } else { format!("sum(rate({query}[{WINDOW}]))") }
            };
            let total = rate(ratio.total.as_ref().ok_or("ratioMetric has no total")?);
            let errors = match (&ratio.bad, &ratio.good) {
                (Some(bad), None) => rate(bad),
                (None, Some(good)) => format!("({total}) - ({})", rate(good)),
                _ => return Err("ratioMetric needs one of good and bad".to_owned()),
            };
            Ok(Indicator::Events { errors, total })
        }
        (None, Some(metric)) => {
            let value = goal.value.ok_or("an objective of a thresholdMetric needs op and value")?;
            let is_below_good = match goal.op.as_deref() {
                Some("lte" | "lt") => true,
                Some("gte" | "gt") => false,
                other => return Err(format!("op {other:?} is none of lte, lt, gte, gt")),
            };
            Ok(from_histogram(&query(metric), "", value, is_below_good))
        }
        _ => Err("the indicator needs one of ratioMetric and thresholdMetric".to_owned()),
    }
}
