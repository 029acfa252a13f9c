//! `/v1/heatmap`: merged histograms over time, as columns.
//!
//! Format: `{"status","data":{"start","end","step","unit","series","width","additive","groups":[..],"group","columns":[..],
//! "distribution","no_distribution"},"warnings":[..]}`; only columns with data are listed. Limits: [`POINTS_MAX`](super::prometheus::POINTS_MAX) columns, [`QUANTILES_MAX`] quantiles.

use std::io::Write as _;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::App;
use super::ask::ask;
use super::columns::{self, Columns, Distribution, Wanted};
use super::error::{ApiError, json};
use super::groups::Choice;
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
        choice: Choice::of(&params)?,
        fit: fit(&params)?,
    };
    let answer = ask(&app, params.duration("timeout")?, move |app, cancel| {
        let columns = columns::columns(app, &wanted, cancel)?;
        Ok(answer(&wanted, &columns))
    });
    Ok(json(StatusCode::OK, answer.await?))
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

fn answer(wanted: &Wanted, columns: &Columns) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 * 1024);
    out.extend_from_slice(b"{\"status\":\"success\",\"data\":{");
    let grid = columns.grid;
    for (name, ms) in
        [("start", grid.start_ms), ("end", grid.end_ms), ("step", grid.step_ms), ("width", columns.width_ms)]
    {
        write!(out, "\"{name}\":").expect("writes to memory");
        prometheus_json::time(&mut out, ms);
        out.push(b',');
    }
    out.extend_from_slice(b"\"unit\":");
    prometheus_json::string(&mut out, &columns.unit);
    write!(out, ",\"series\":{},\"additive\":{},", columns.series, columns.additive).expect("writes to memory");
    columns.groups.write(&mut out);
    out.extend_from_slice(b",\"columns\":[");
    for (at, (time, merged)) in columns.by_time.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let from_ms = columns.covered.get(time).and_then(|cover| cover.begin_ms());
        columns::column_since(&mut out, *time, from_ms, Some(merged), &wanted.quantiles);
    }
    out.extend_from_slice(b"],\"distribution\":");
    let why = match &columns.distribution {
        Distribution::Exact(merged) => {
            let from_ms = grid.start_ms - grid.step_ms;
            columns::column_since(&mut out, grid.end_ms, Some(from_ms), merged.as_ref(), &wanted.quantiles);
            None
        }
        Distribution::Unknown(why) => {
            out.extend_from_slice(b"null");
            Some(why)
        }
    };
    out.extend_from_slice(b",\"no_distribution\":");
    serde_json::to_writer(&mut out, &why).expect("texts are JSON");
    out.extend_from_slice(b"},\"warnings\":");
    serde_json::to_writer(&mut out, &columns.warnings).expect("texts are JSON");
    out.extend_from_slice(b"}\n");
    out
}

#[cfg(test)]
mod tests;
