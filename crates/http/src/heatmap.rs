//! `/v1/heatmap`: merged histograms over time, as columns.
//!
//! Format:
//! `{"status","data":{"start","end","step","unit","series","width","additive","groups":[..],"group","columns":[..],
//! "distribution","no_distribution"},"warnings":[..]}`; only columns with data are listed. By `Accept`, the columns are
//! bytes ([`column_frame`](super::column_frame)). Limits: [`POINTS_MAX`](super::prometheus::POINTS_MAX) columns,
//! [`QUANTILES_MAX`] quantiles.

use std::io::Write as _;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_model::WallMs;
use serde_json::json as value;

use super::App;
use super::ask::ask;
use super::column_frame::{self, Timed};
use super::columns::{self, ColumnQuery, Columns, Distribution};
use super::error::{ApiError, json};
use super::groups::Choice;
use super::params::Params;
use super::resolution::resolution;
use super::{prometheus, prometheus_json};

/// 32 lines over a heat map are more than an eye can follow.
const QUANTILES_MAX: usize = 32;

pub(super) async fn get(State(app): State<App>, headers: HeaderMap, params: Params) -> Result<Response, ApiError> {
    let as_frame = wants_frame(&headers);
    let (start, end, step) = prometheus::range(&params)?;
    let query = params.need("query")?.to_owned();
    let wanted = ColumnQuery {
        query,
        start,
        end,
        step,
        quantiles: quantiles(&params)?,
        tenant: params.tenant.clone(),
        resolution: resolution(&params)?,
        choice: Choice::from_params(&params)?,
        fit: fit(&params)?,
    };
    let answer = ask(&app, params.duration("timeout")?, move |app, cancel| {
        let columns = columns::columns(app, &wanted, cancel)?;
        Ok(if as_frame { framed(&wanted, &columns) } else { answer(&wanted, &columns) })
    });
    Ok(sent(answer.await?, as_frame))
}

/// A response in either form.
pub(super) fn sent(answer: Vec<u8>, as_frame: bool) -> Response {
    let mut response = if as_frame {
        ([(header::CONTENT_TYPE, column_frame::KIND)], answer).into_response()
    } else {
        json(StatusCode::OK, answer)
    };
    response.headers_mut().append(header::VARY, HeaderValue::from_static("Accept"));
    response
}

/// Whether the columns are wanted as bytes.
pub(super) fn wants_frame(headers: &HeaderMap) -> bool {
    let kinds = headers.get_all(header::ACCEPT).iter().filter_map(|kinds| kinds.to_str().ok());
    kinds
        .flat_map(|kinds| kinds.split(','))
        .any(|kind| kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(column_frame::KIND)))
}

/// `fit=true`: columns as wide as the cells, where these are wider than the step.
fn fit(params: &Params) -> Result<bool, ApiError> {
    match params.get("fit") {
        None | Some("" | "false" | "0") => Ok(false),
        Some("true" | "1") => Ok(true),
        Some(text) => Err(ApiError::bad_data(format!("invalid parameter \"fit\": {text:?} is not true or false"))),
    }
}

/// `quantiles=0.5,0.99`; none when it is missing.
pub(super) fn quantiles(params: &Params) -> Result<Vec<f64>, ApiError> {
    let wrong = |text: &str| {
        ApiError::bad_data(format!("invalid parameter \"quantiles\": {text:?} is not a number from 0 to 1"))
    };
    let out = params
        .all("quantiles")
        .flat_map(|text| text.split(','))
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .map(|text| text.parse().ok().filter(|q| (0.0..=1.0).contains(q)).ok_or_else(|| wrong(text)))
        .collect::<Result<Vec<f64>, ApiError>>()?;
    if out.len() > QUANTILES_MAX {
        return Err(ApiError::bad_data(format!("invalid parameter \"quantiles\": more than {QUANTILES_MAX}")));
    }
    Ok(out)
}

fn answer(wanted: &ColumnQuery, columns: &Columns) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 * 1024);
    put_begin(&mut out, columns);
    out.extend_from_slice(b"\"columns\":[");
    for (at, (time, merged)) in columns.by_time.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        columns::column_since(&mut out, WallMs(*time), columns.begin(*time), Some(merged), &wanted.quantiles);
    }
    out.extend_from_slice(b"],\"distribution\":");
    match &columns.distribution {
        Distribution::Exact(merged) => {
            let from = Some(columns.grid.start - columns.grid.step);
            columns::column_since(&mut out, columns.grid.end, from, merged.as_ref(), &wanted.quantiles);
        }
        Distribution::Unknown(_) => out.extend_from_slice(b"null"),
    }
    put_end(&mut out, columns);
    out
}

/// The same as bytes: the columns and the distribution follow the JSON, which states how many quantiles were requested.
fn framed(wanted: &ColumnQuery, columns: &Columns) -> Vec<u8> {
    let mut head = Vec::with_capacity(4 * 1024);
    put_begin(&mut head, columns);
    let distribution = match &columns.distribution {
        Distribution::Exact(merged) => merged.as_ref(),
        Distribution::Unknown(_) => None,
    };
    let about = match (&columns.distribution, distribution) {
        (Distribution::Unknown(_), _) => "none",
        (Distribution::Exact(_), None) => "empty",
        (Distribution::Exact(_), Some(_)) => "last",
    };
    write!(head, "\"quantiles\":{},\"distribution\":\"{about}\"", value!(wanted.quantiles)).expect("writes to memory");
    put_end(&mut head, columns);
    let timed = |(time, value): (&i64, _)| Timed { time: WallMs(*time), from: columns.begin(*time), value };
    let mut list: Vec<Timed<'_>> = columns.by_time.iter().map(timed).collect();
    let (time, begin) = (columns.grid.end, columns.grid.start - columns.grid.step);
    list.extend(distribution.map(|value| Timed { time, from: Some(begin), value }));
    column_frame::frame(&head, &list)
}

/// The envelope up to the columns.
fn put_begin(out: &mut Vec<u8>, columns: &Columns) {
    out.extend_from_slice(b"{\"status\":\"success\",\"data\":{");
    let grid = columns.grid;
    for (name, ms) in [("start", grid.start.0), ("end", grid.end.0), ("step", grid.step.0), ("width", columns.width.0)]
    {
        write!(out, "\"{name}\":").expect("writes to memory");
        prometheus_json::time(out, ms);
        out.push(b',');
    }
    out.extend_from_slice(b"\"unit\":");
    prometheus_json::string(out, &columns.unit);
    write!(out, ",\"series\":{},\"additive\":{},", columns.series, columns.additive).expect("writes to memory");
    columns.groups.write(out);
    out.push(b',');
}

/// The envelope after the columns.
fn put_end(out: &mut Vec<u8>, columns: &Columns) {
    let why = match &columns.distribution {
        Distribution::Exact(_) => None,
        Distribution::Unknown(why) => Some(why),
    };
    out.extend_from_slice(b",\"no_distribution\":");
    serde_json::to_writer(&mut *out, &why).expect("texts are JSON");
    out.extend_from_slice(b"},\"warnings\":");
    serde_json::to_writer(&mut *out, &columns.warnings).expect("texts are JSON");
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests;
