//! What addresses and headers of a request say.

use axum::extract::Request;
use axum::http::HeaderMap;
use ogive_irondb::httptrap::parse_uuid;
use ogive_irondb::identity::Identity;
use ogive_model::{Ms, Tenant, WallMs};
use ogive_text::duration::seconds_or_units_ms;

use crate::error::ApiError;
use crate::params::{self, Params};

/// The account of the request, the path after its first part, and the parameters.
pub(super) struct AccountRequest {
    pub(super) tenant: Tenant,
    pub(super) params: Params,
    /// As received, still encoded.
    path: String,
    pub(super) timeout: Option<Ms>,
    pub(super) limit: usize,
}

/// 10,000 results, the default of IRONdb.
const LIMIT: usize = 10_000;

impl AccountRequest {
    pub(super) fn new(request: &Request) -> Result<Self, ApiError> {
        let headers = request.headers();
        Ok(Self {
            tenant: params::tenant(headers)?.unwrap_or_default(),
            params: Params::parse(request.uri().query().unwrap_or_default().as_bytes()),
            path: request.uri().path().to_owned(),
            timeout: text(headers, "x-snowth-timeout").and_then(seconds_or_units_ms).map(Ms),
            limit: limit(headers)?,
        })
    }

    /// The parts of the path, still encoded; the last of `count` includes what follows it.
    pub(super) fn parts(&self, count: usize) -> Vec<&str> {
        self.path.trim_start_matches('/').splitn(count, '/').collect()
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn limit(headers: &HeaderMap) -> Result<usize, ApiError> {
    match text(headers, "x-snowth-advisory-limit") {
        None => Ok(LIMIT),
        Some("none" | "-1") => Ok(usize::MAX),
        Some(number) => number.parse().map_err(|_| {
            ApiError::bad_data(format!(
                "invalid header X-Snowth-Advisory-Limit: {number:?} is neither a number nor none"
            ))
        }),
    }
}

/// A check's UUID.
pub(super) fn check(text: &str) -> Result<String, ApiError> {
    parse_uuid(text).ok_or_else(|| ApiError::bad_data(format!("{text:?} is not the UUID of a check")))
}

/// The streams that a check and an encoded name may mean: clients write a blank as `+`, or a plus unencoded.
pub(super) fn streams(uuid: &str, name: &str) -> Result<Vec<Identity>, ApiError> {
    let uuid = check(uuid)?;
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let mut names = vec![decoded(name)];
    if name.contains('+') {
        names.insert(0, decoded(&name.replace('+', " ")));
    }
    let stream = |name: &String| {
        Identity::parse(&uuid, name).map_err(|fault| ApiError::bad_data(format!("the metric's name {name:?}: {fault}")))
    };
    names.iter().map(stream).collect()
}

/// An instant: seconds since 1970, perhaps with milliseconds behind a point.
pub(super) fn instant(text: &str, what: &str) -> Result<WallMs, ApiError> {
    milliseconds(text, what).map(WallMs)
}

/// A length in seconds, perhaps with milliseconds behind a point.
pub(super) fn span(text: &str, what: &str) -> Result<Ms, ApiError> {
    milliseconds(text, what).map(Ms)
}

fn milliseconds(text: &str, what: &str) -> Result<i64, ApiError> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| seconds.abs() < 9e15);
    let ms = seconds.map(|seconds| (seconds * 1_000.0).round() as i64);
    ms.ok_or_else(|| ApiError::bad_data(format!("{what} {text:?} is not seconds since 1970")))
}

/// 11,000 periods, as many as a query of a range has steps.
pub(super) const PERIODS_MAX: i64 = crate::prometheus::POINTS_MAX;

/// The number of periods from `start` to before `end`.
pub(super) fn periods(start: WallMs, end: WallMs, period: Ms) -> Result<usize, ApiError> {
    if period <= Ms::ZERO || end < start {
        return Err(ApiError::bad_data("the period is not above 0, or the end is before the start"));
    }
    let span = end.0.checked_sub(start.0).map(Ms).ok_or_else(|| ApiError::bad_data("the range is too long"))?;
    let count = span / period + i64::from(span % period != Ms::ZERO);
    if count > PERIODS_MAX {
        let message =
            format!("the range has {count} periods, more than {PERIODS_MAX}; ask for longer periods or less time");
        return Err(ApiError::bad_data(message));
    }
    Ok(usize::try_from(count).unwrap_or(0))
}
