//! `/v1/heatmap`: merged histograms over time, as columns.
//!
//! Format: `{"status","data":{"start","end","step","unit","series","columns":[..]},"warnings":[..]}`; only columns with
//! data are listed. Limits: [`POINTS_MAX`](super::prometheus::POINTS_MAX) columns, [`QUANTILES_MAX`] quantiles.

use std::io::Write as _;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::App;
use super::ask::ask;
use super::columns::{self, Columns, Wanted};
use super::error::{ApiError, json};
use super::params::Params;
use super::resolution::resolution;
use super::{prometheus, prometheus_json};

/// 32 lines over a heat map are more than an eye can follow.
const QUANTILES_MAX: usize = 32;

pub(super) async fn get(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let (start_ms, end_ms, step_ms) = prometheus::range(&params)?;
    let query = params.need("query")?.to_owned();
    let wanted = Wanted {
        query,
        start_ms,
        end_ms,
        step_ms,
        quantiles: quantiles(&params)?,
        tenant: params.tenant.clone(),
        resolution: resolution(&params)?,
    };
    let answer = ask(&app, params.duration("timeout")?, move |app, cancel| {
        let columns = columns::columns(app, &wanted, cancel)?;
        Ok(answer(&wanted, &columns))
    });
    Ok(json(StatusCode::OK, answer.await?))
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

fn answer(wanted: &Wanted, columns: &Columns) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 * 1024);
    out.extend_from_slice(b"{\"status\":\"success\",\"data\":{");
    for (name, ms) in [("start", wanted.start_ms), ("end", wanted.end_ms), ("step", wanted.step_ms)] {
        write!(out, "\"{name}\":").expect("writes to memory");
        prometheus_json::time(&mut out, ms);
        out.push(b',');
    }
    out.extend_from_slice(b"\"unit\":");
    prometheus_json::string(&mut out, &columns.unit);
    write!(out, ",\"series\":{},\"columns\":[", columns.series).expect("writes to memory");
    for (at, (time, merged)) in columns.by_time.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        columns::column(&mut out, *time, Some(merged), &wanted.quantiles);
    }
    out.extend_from_slice(b"]},\"warnings\":");
    serde_json::to_writer(&mut out, &columns.warnings).expect("texts are JSON");
    out.extend_from_slice(b"}\n");
    out
}
