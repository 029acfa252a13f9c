//! `/v1/detections`: what the detectors found; `/v1/detections/run`: the same detectors over a stretch of what is
//! stored.
//!
//! Limits: those of a query; the stretch is read a slice at a time, [`SAMPLES_MAX`] samples each.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use ogive_detect::detectors::feed::feed;
use ogive_detect::detectors::monitor::{Monitor, Options, Reported};
use ogive_detect::detectors::sibling;
use ogive_hist::Histogram;
use ogive_model::{HistogramValue, Labels, Matcher, Ms, Resolution, Selection, SeriesData, Temporality, TimeRange};
use ogive_query::series_bytes;
use serde_json::{Value, json};

use super::App;
use super::ask::{Cancel, ask};
use super::catalog::selector;
use super::error::{ApiError, json as json_answer};
use super::params::Params;
use ogive_alerting::detection::board::{document, finding_document};

/// Ten minutes at once: a whole number of steps.
const SLICE: Ms = Ms::from_secs(600);
/// 10,000,000 samples of a slice, a histogram counting as its bins.
const SAMPLES_MAX: usize = 10_000_000;
/// Series that a run judges.
const SERIES_MAX: usize = 100_000;
/// 10,000 findings: a run with more is not useful.
const FINDINGS_MAX: usize = 10_000;
/// The stretch when the request does not name its start: three hours.
const STRETCH: Ms = Ms::from_secs(3 * 3_600);
/// A week.
const WEEK: Ms = Ms::from_secs(7 * 86_400);

/// Active and recent findings.
pub(super) async fn get(State(app): State<App>, params: Params) -> Response {
    json_answer(StatusCode::OK, app.detection.document(&params.tenant).to_string() + "\n")
}

/// The parameters of a run.
struct Run {
    matchers: Vec<Matcher>,
    range: TimeRange,
    siblings: Option<String>,
    is_week: bool,
}

/// Runs the detectors over stored samples.
pub(super) async fn run(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let now = app.now();
    let end = params.time("end")?.unwrap_or(now).min(now);
    let start = params.time("start")?.unwrap_or_else(|| end.saturating_sub(STRETCH));
    if start >= end {
        return Err(ApiError::bad_data("the start is not before the end"));
    }
    let siblings = params.get("siblings").map(str::to_owned);
    let is_week = params.get("week").is_some_and(|value| value != "0" && value != "false");
    let range = TimeRange { start, end };
    let run = Run { matchers: selector(params.need("match[]")?)?, range, siblings, is_week };
    let timeout = params.duration("timeout")?;
    let body = ask(&app, timeout, move |app, cancel| {
        let (findings, series) = if run.siblings.is_some() || run.is_week {
            compared(app, cancel, &params, &run)?
        } else {
            monitored(app, cancel, &params, &run)?
        };
        Ok(json!({"status": "success", "data": {"series": series, "findings": findings}}).to_string() + "\n")
    });
    Ok(json_answer(StatusCode::OK, body.await?))
}

/// Absence, locked gaps, changes of shape.
fn monitored(app: &App, cancel: &Cancel, params: &Params, run: &Run) -> Result<(Vec<Value>, usize), ApiError> {
    let mut monitor = Monitor::new(Options { series_max: SERIES_MAX, ..Options::default() });
    let mut held = cancel.charge(0)?;
    let mut findings = Vec::new();
    let TimeRange { mut start, end } = run.range;
    while start < end {
        cancel.check()?;
        let range = TimeRange { start, end: start.align_down(SLICE).saturating_add(SLICE).min(end) };
        let mut series: Vec<SeriesData> = Vec::new();
        let mut slice = cancel.charge(0)?;
        cancel.each_series(&*app.backend.of(&params.tenant), &selection(run, range), |one| {
            slice.grow(series_bytes(&one))?;
            series.push(one);
            Ok(())
        })?;
        let found = feed(&mut monitor, &params.tenant, &series, range);
        findings.extend(found.iter().map(document));
        if findings.len() > FINDINGS_MAX {
            return Err(ApiError::execution(format!(
                "more than {FINDINGS_MAX} findings; narrow the selector or the time"
            )));
        }
        held = cancel.charge(monitor.memory_bytes())?;
        start = range.end;
    }
    drop(held);
    Ok((findings, monitor.series()))
}

fn selection(run: &Run, range: TimeRange) -> Selection {
    Selection {
        samples_max: SAMPLES_MAX,
        resolution: Resolution::Width(0),
        ..Selection::new(run.matchers.clone(), range)
    }
}

/// The outlier among the values of a label, or this range compared with the same range a week before.
fn compared(app: &App, cancel: &Cancel, params: &Params, run: &Run) -> Result<(Vec<Value>, usize), ApiError> {
    let label = run.siblings.as_deref();
    let TimeRange { start, end } = run.range;
    let (now, unit) = merged(app, cancel, params, run, run.range, label)?;
    let mut findings: Vec<Reported> = Vec::new();
    if let Some(label) = label {
        for (others, members) in &now {
            let (values, histograms): (Vec<&String>, Vec<Histogram<f64>>) =
                members.iter().map(|(value, histogram)| (value, histogram.clone())).unzip();
            let odd = sibling::odd_ones(&histograms).map_err(|error| ApiError::execution(error.to_string()))?;
            findings.extend(odd.iter().filter_map(|odd| {
                let labels = others.try_with(label, values[odd.at]).ok()?;
                let name = format!("{label}={:?}", values[odd.at]);
                Some(Reported { labels, finding: odd.finding(end, start, &name, &unit) })
            }));
        }
    }
    if run.is_week {
        let earlier = TimeRange { start: start.saturating_sub(WEEK), end: end.saturating_sub(WEEK) };
        let (before, _) = merged(app, cancel, params, run, earlier, label)?;
        for (labels, members) in &now {
            for (value, histogram) in members {
                let Some(week_ago) = before.get(labels).and_then(|members| members.get(value)) else { continue };
                let finding = sibling::since_last_week(week_ago, histogram, end, start, &unit);
                findings.extend(finding.map(|finding| {
                    let labels =
                        label.and_then(|label| labels.try_with(label, value).ok()).unwrap_or_else(|| labels.clone());
                    Reported { labels, finding }
                }));
            }
        }
    }
    let series = now.values().map(BTreeMap::len).sum();
    Ok((findings.iter().map(|one| finding_document(&one.labels, &one.finding)).collect(), series))
}

/// Histograms by the other labels, and by the value of the compared one.
type Siblings = BTreeMap<Labels, BTreeMap<String, Histogram<f64>>>;

fn merged(
    app: &App,
    cancel: &Cancel,
    params: &Params,
    run: &Run,
    range: TimeRange,
    label: Option<&str>,
) -> Result<(Siblings, String), ApiError> {
    let (mut out, mut unit) = (Siblings::new(), String::new());
    let mut unfit = None;
    cancel.each_series(&*app.backend.of(&params.tenant), &selection(run, range), |one| {
        if one.meta.temporality != Temporality::Delta || one.histograms.values.is_empty() {
            return Ok(());
        }
        unit.clone_from(&one.meta.unit);
        let value = label.map_or("", |label| one.labels.get(label)).to_owned();
        let labels = one.labels.filtered(|name| Some(name) != label);
        let is_new = !out.get(&labels).is_some_and(|members| members.contains_key(&value));
        if is_new {
            cancel.hold(4_096)?;
        }
        for cell in one.histograms.values {
            let cell = match cell {
                HistogramValue::Integer(cell) => cell.to_float(),
                HistogramValue::Float(cell) => cell,
            };
            let members = out.entry(labels.clone()).or_default();
            match members.get_mut(&value) {
                Some(sum) => {
                    if let Err(error) = sum.merge(&cell) {
                        unfit = Some(error.to_string());
                    }
                }
                None => _ = members.insert(value.clone(), cell),
            }
        }
        Ok(())
    })?;
    unfit.map_or(Ok((out, unit)), |error| Err(ApiError::execution(error)))
}
