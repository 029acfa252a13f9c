//! `GET /federate`: the last values of selected series, for another server to scrape.
//!
//! Format: delimited `io.prometheus.client.MetricFamily` messages for who would rather have them, with native
//! histograms; else Prometheus text 0.0.4, where a histogram is classic. Each value has its time. States and counters
//! alone: a delta cell is no state that a scraper could take.
//! Limits: [`LOOKBACK`], [`SAMPLES_MAX`].

mod last;
mod page;

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_model::{
    HistogramValue, Kind, Labels, Matcher, MetricKind, Ms, STALE, Selection, SeriesData, Temporality, Tenant,
    TimeRange, WallMs,
};
use ogive_protocol::families::FamilyKind;

use super::App;
use super::ask::{Cancel, ask, whole};
use super::catalog::selectors;
use super::error::ApiError;
use super::params::Params;
use super::views::Views;
use last::{LastSample, Value};

/// 5 minutes: the lookback of a query without a range.
const LOOKBACK: Ms = Ms::from_secs(5 * 60);
/// 5,000,000 samples are read: 16,000 series with a value a second.
const SAMPLES_MAX: usize = 5_000_000;

/// The text format of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Protobuf,
}

impl Form {
    /// The accepted form with the highest preference; text when neither is requested.
    fn accepted(headers: &HeaderMap) -> Self {
        let mut best = (0.0, Self::Text);
        let kinds = headers.get_all(header::ACCEPT).iter().filter_map(|kinds| kinds.to_str().ok());
        for kind in kinds.flat_map(|kinds| kinds.split(',')) {
            let mut parts = kind.split(';').map(|part| part.trim().to_ascii_lowercase());
            let form = match parts.next().as_deref() {
                Some("application/vnd.google.protobuf") => Self::Protobuf,
                Some("text/plain" | "text/*" | "*/*" | "application/openmetrics-text") => Self::Text,
                _ => continue,
            };
            let (mut weight, mut fits) = (1.0, true);
            for part in parts {
                let (name, value) = part.split_once('=').unwrap_or((&part, ""));
                match name {
                    "q" => weight = value.parse().unwrap_or(0.0),
                    "proto" => fits &= value == "io.prometheus.client.metricfamily",
                    "encoding" => fits &= value == "delimited",
                    _ => {}
                }
            }
            if fits && weight > best.0 {
                best = (weight, form);
            }
        }
        best.1
    }

    const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }
}

pub(super) async fn get(State(app): State<App>, headers: HeaderMap, params: Params) -> Result<Response, ApiError> {
    let selectors = selectors(&params)?;
    if selectors.is_empty() {
        return Err(ApiError::bad_data("no match[] parameter provided"));
    }
    let form = Form::accepted(&headers);
    let now = app.now();
    let page = ask(&app, None, move |app, cancel| {
        let (found, cells) = found(app, &params, selectors, now, cancel)?;
        Ok(match form {
            Form::Text => page::text(&found, cells).into_bytes(),
            Form::Protobuf => page::protobuf(&found),
        })
    })
    .await?;
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, form.content_type())], page).into_response())
}

/// The last sample of each series, by name, kind and labels; and how many series of delta cells were left out.
fn found(
    app: &App,
    params: &Params,
    selectors: Vec<Vec<Matcher>>,
    now: WallMs,
    cancel: &Cancel,
) -> Result<(Vec<LastSample>, usize), ApiError> {
    // With views, so that `M_bucket` can be selected by its name.
    let store = Views::new(app, params);
    let mut all: BTreeMap<Labels, LastSample> = BTreeMap::new();
    let mut cells = 0;
    for matchers in selectors {
        if cancel.is_set() {
            return Err(ApiError::timeout("the query was cancelled"));
        }
        let range = TimeRange { start: now - LOOKBACK, end: now };
        let selection = Selection { samples_max: SAMPLES_MAX, ..Selection::new(matchers, range) };
        let warnings = cancel.each_series(&store, &selection, |series| {
            cells += usize::from(series.meta.temporality == Temporality::Delta && series.meta.kind != Kind::Text);
            let Some(last) = last(app, &params.tenant, series) else { return Ok(()) };
            cancel.hold(last.memory_bytes())?;
            // If a number and a distribution have the same labels, the later one counts.
            match all.get(&last.labels) {
                Some(other) if other.time > last.time => {}
                _ => drop(all.insert(last.labels.clone(), last)),
            }
            Ok(())
        })?;
        whole(warnings)?;
    }
    let mut all: Vec<LastSample> = all.into_values().collect();
    all.sort_by(|a, b| (a.labels.metric_name(), a.kind, &a.labels).cmp(&(b.labels.metric_name(), b.kind, &b.labels)));
    Ok((all, cells))
}

fn last(app: &App, tenant: &Tenant, series: SeriesData) -> Option<LastSample> {
    let SeriesData { labels, meta, mut floats, mut histograms, .. } = series;
    if meta.temporality == Temporality::Delta {
        return None;
    }
    match meta.kind {
        Kind::Float => {
            let (time, value) = floats.times.pop().zip(floats.values.pop())?;
            let known = app.metadata.entries(tenant, Some(labels.metric_name()));
            let kind = match known.values().flatten().map(|entry| entry.kind).next() {
                Some(MetricKind::Counter) => FamilyKind::Counter,
                Some(MetricKind::Gauge) => FamilyKind::Gauge,
                _ => FamilyKind::Untyped,
            };
            (value.to_bits() != STALE).then_some(LastSample {
                labels,
                time: WallMs(time),
                kind,
                value: Value::Float(value),
            })
        }
        Kind::Histogram => {
            let (time, value) = histograms.times.pop().zip(histograms.values.pop())?;
            let sum = match &value {
                HistogramValue::Integer(histogram) => histogram.sum,
                HistogramValue::Float(histogram) => histogram.sum,
            };
            let is_counter = meta.temporality == Temporality::Cumulative;
            let kind = if is_counter { FamilyKind::Histogram } else { FamilyKind::GaugeHistogram };
            let is_stale = sum.is_some_and(|sum| sum.to_bits() == STALE);
            let value = Value::Histogram(Box::new(value));
            (!is_stale).then_some(LastSample { labels, time: WallMs(time), kind, value })
        }
        Kind::Text => None,
    }
}

#[cfg(test)]
mod tests;
