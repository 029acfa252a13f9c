//! `/v1/cells`: stored samples as they are, not evaluated: cells, numbers and texts of a plain selector.
//!
//! Format: the shape of a batch, so that what is read can be sent again: `{"status","data":{"series":[..],"samples":
//! [..]}}`, or by `Accept: application/x-ogive-batch-flatbuffer` a frame with source and sequence 0, which keeps every
//! scheme and count bit for bit. In JSON a LogLinear10 histogram with whole counts has `bins`; any other has `buckets`,
//! each `[rule, lower, upper, count]`. A sample whose start is known has it as `start_ms`.
//! Limits: [`SAMPLES_MAX`] samples, or the smaller `limit` of the request; more are refused, never cut off. JSON is
//! written while the series are read, one at a time; what is held beside that is which series there are.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_hist::{Count, DecimalBin, Histogram, Scheme, openhistogram};
use ogive_model::{Batch, HistogramValue, Sample, Selection, SeriesData, SeriesDef, Tenant, Value, float};
use ogive_query::series_bytes;
use serde_json::{Map, Value as Json, json};

use super::App;
use super::ask::{Cancel, ask, whole};
use super::batch::FLAT_BUFFER;
use super::catalog::selector;
use super::error::{ApiError, json as json_answer};
use super::params::Params;
use super::pieces::{self, Out};
use super::resolution::resolution;

/// 1,000,000 samples, a histogram counting as its bins: some 30 MB of JSON.
const SAMPLES_MAX: usize = 1_000_000;

pub(super) async fn get(State(app): State<App>, headers: HeaderMap, params: Params) -> Result<Response, ApiError> {
    let matchers = selector(params.need("match[]")?)?;
    let range = params.range()?;
    let samples_max = params.limit()?.min(SAMPLES_MAX);
    let wants_frame = headers.get(header::ACCEPT).is_some_and(|accept| accept.as_bytes() == FLAT_BUFFER.as_bytes());
    let timeout = params.duration("timeout")?;
    let reported = resolution(&params)?.unwrap_or_default();
    let selection = Selection { samples_max, resolution: reported, ..Selection::new(matchers, range) };
    if wants_frame {
        let body = ask(&app, timeout, move |app, cancel| frame(app, cancel, &params.tenant, &selection)).await?;
        return Ok((StatusCode::OK, [(header::CONTENT_TYPE, FLAT_BUFFER)], body).into_response());
    }
    let body =
        pieces::stream(&app, timeout, move |app, cancel, out| write(app, cancel, out, &params.tenant, &selection));
    Ok(json_answer(StatusCode::OK, body.await?))
}

/// A frame cannot carry warnings: it is complete, or an error.
fn frame(app: &App, cancel: &Cancel, tenant: &Tenant, selection: &Selection) -> Result<Vec<u8>, ApiError> {
    let mut out = Batch::default();
    let warnings = cancel.each_series(&*app.backend.of(tenant), selection, |series| {
        let samples = series.floats.times.len() + series.histograms.times.len() + series.texts.times.len();
        // Once in the batch, and twice in the frame while it is written.
        cancel.hold(3 * (series_bytes(&series) + samples * size_of::<Sample>()))?;
        put(&mut out, series);
        Ok(())
    })?;
    whole(warnings)?;
    out.encode_in_tables().map_err(|error| ApiError::execution(format!("{error}; narrow the time range")))
}

/// Writes the samples as they are read, and then the series to which they belong.
fn write(app: &App, cancel: &Cancel, out: &Out, tenant: &Tenant, selection: &Selection) -> Result<(), ApiError> {
    // Only reading shows what is too large; it is then refused before anything was sent. Reading is a small part of the
    // cost.
    let mut declared_bytes = 0;
    cancel.each_series(&*app.backend.of(tenant), selection, |series| {
        declared_bytes += size_of::<SeriesDef>() + series.labels.memory_bytes() + series.meta.unit.len();
        Ok(())
    })?;
    cancel.hold(declared_bytes)?;
    let mut text = b"{\"data\":{\"samples\":[".to_vec();
    let mut declared: Vec<SeriesDef> = Vec::new();
    let mut is_first = true;
    let warnings = cancel.each_series(&*app.backend.of(tenant), selection, |series| {
        samples(&series, declared.len(), |sample| {
            if !std::mem::take(&mut is_first) {
                text.push(b',');
            }
            serde_json::to_writer(&mut text, &sample).expect("samples are JSON");
            out.flush(&mut text)
        })?;
        declared.push(SeriesDef { labels: series.labels, meta: series.meta });
        Ok(())
    })?;
    text.extend_from_slice(b"],\"series\":[");
    for (at, series) in declared.iter().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        serde_json::to_writer(&mut text, &declaration(series)).expect("labels are JSON");
        out.flush(&mut text)?;
    }
    text.extend_from_slice(b"]},\"status\":\"success\",\"warnings\":");
    serde_json::to_writer(&mut text, &warnings).expect("texts are JSON");
    text.push(b'}');
    out.send(text)
}

/// Some series with their samples, as a batch has them.
pub(super) fn document(series: &[SeriesData]) -> Json {
    let mut all = Vec::new();
    let declared = series.iter().map(|one| SeriesDef { labels: one.labels.clone(), meta: one.meta.clone() });
    let declared: Vec<Json> = declared.map(|one| declaration(&one)).collect();
    for (index, one) in series.iter().enumerate() {
        let put = |sample| {
            all.push(sample);
            Ok(())
        };
        samples(one, index, put).expect("a list takes every sample");
    }
    json!({"series": declared, "samples": all})
}

/// Passes each sample of a series to `each`.
fn samples(
    series: &SeriesData,
    index: usize,
    mut each: impl FnMut(Json) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    let mut push = |time: i64, start: Option<&i64>, name: &str, value: Json| {
        let mut sample = json!({"series": index, "time_ms": time, name: value});
        if let Some(start) = start.filter(|start| **start != 0) {
            sample["start_ms"] = (*start).into();
        }
        each(sample)
    };
    for (at, (time, value)) in series.floats.times.iter().zip(&series.floats.values).enumerate() {
        push(*time, series.floats.starts.get(at), "float", number(*value))?;
    }
    for (at, (time, value)) in series.histograms.times.iter().zip(&series.histograms.values).enumerate() {
        let histogram = match value {
            HistogramValue::Integer(histogram) => integer(histogram),
            HistogramValue::Float(histogram) => buckets(histogram, |count| number(*count)),
        };
        push(*time, series.histograms.starts.get(at), "histogram", histogram)?;
    }
    for (time, value) in series.texts.times.iter().zip(&series.texts.values) {
        push(*time, None, "text", value.as_str().into())?;
    }
    Ok(())
}

fn declaration(series: &SeriesDef) -> Json {
    let labels: BTreeMap<&str, &str> = series.labels.iter().collect();
    let (kind, temporality) = (series.meta.kind.as_str(), series.meta.temporality.as_str());
    let (unit, width_ms) = (&series.meta.unit, series.meta.width_ms);
    json!({"labels": labels, "kind": kind, "temporality": temporality, "unit": unit, "width_ms": width_ms})
}

/// JSON has no NaN and no infinity: they are written in the form that a batch accepts.
fn number(value: f64) -> Json {
    float::word(value).map_or_else(|| value.into(), Json::from)
}

fn integer(histogram: &Histogram) -> Json {
    if histogram.scheme != Scheme::LogLinear10 {
        return buckets(histogram, |count| (*count).into());
    }
    let mut bins = Map::new();
    for (positive, side) in [(false, &histogram.negative), (true, &histogram.positive)] {
        for (index, count) in side.iter() {
            bins.insert(openhistogram::label_of_bin(DecimalBin::from_index(positive, index)), count.into());
        }
    }
    for (bin, count) in [(DecimalBin::ZERO, histogram.zero), (DecimalBin::NAN, histogram.nan)] {
        if count > 0 {
            bins.insert(openhistogram::label_of_bin(bin), count.into());
        }
    }
    let mut out = Map::new();
    out.insert("bins".into(), bins.into());
    known(&mut out, histogram);
    out.into()
}

fn buckets<C: Count>(histogram: &Histogram<C>, count: impl Fn(&C) -> Json) -> Json {
    let each = |bucket: ogive_hist::Bucket<C>| {
        json!([bucket.closed.prometheus_rule(), number(bucket.lo), number(bucket.hi), count(&bucket.count)])
    };
    let mut out = Map::new();
    out.insert("buckets".into(), histogram.buckets().map(each).collect());
    out.insert("count".into(), count(&histogram.count));
    known(&mut out, histogram);
    out.into()
}

fn known<C: Count>(out: &mut Map<String, Json>, histogram: &Histogram<C>) {
    for (name, value) in [("sum", histogram.sum), ("min", histogram.min), ("max", histogram.max)] {
        if let Some(value) = value {
            out.insert(name.into(), number(value));
        }
    }
}

/// Adds a series with its samples.
fn put(out: &mut Batch, series: SeriesData) {
    let index = out.series.len();
    out.series.push(Ok(SeriesDef { labels: series.labels, meta: series.meta }));
    let mut push = |time_ms: i64, start_ms: Option<&i64>, value: Value| {
        let time_ns = time_ms.saturating_mul(1_000_000);
        let start_ns = start_ms.filter(|start| **start != 0).map(|start| start.saturating_mul(1_000_000));
        out.samples.push(Ok(Sample { series: index as u32, time_ns, start_ns, value }));
    };
    for (at, (time, value)) in series.floats.times.into_iter().zip(series.floats.values).enumerate() {
        push(time, series.floats.starts.get(at), Value::Float(value));
    }
    for (at, (time, value)) in series.histograms.times.into_iter().zip(series.histograms.values).enumerate() {
        push(
            time,
            series.histograms.starts.get(at),
            match value {
                HistogramValue::Integer(histogram) => Value::Histogram(Box::new(histogram)),
                HistogramValue::Float(histogram) => Value::FloatHistogram(Box::new(histogram)),
            },
        );
    }
    let texts = series.texts.times.into_iter().zip(series.texts.values);
    texts.for_each(|(time, value)| push(time, None, Value::Text(value)));
}
