//! Parameters of a request, from its query string and, for POST, its form: `application/x-www-form-urlencoded` or
//! `multipart/form-data`.
//!
//! Limits: [`FORM_BYTES_MAX`] for a form; a query string is limited by the HTTP layer.

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, Method, header};
use ogive_model::{Ms, Tenant, TimeRange, WallMs};
use ogive_text::calendar::instant_ms;
use ogive_text::duration::seconds_or_units_ms;

use super::App;
use super::body;
use super::error::ApiError;
use super::multipart;
use super::peer::TENANT_HEADER;
use super::slowest;

/// 6 MiB: the longest expression, with each byte written as three.
const FORM_BYTES_MAX: usize = 3 * ogive_query::TEXT_BYTES_MAX;

/// The tenant that a request names.
pub(crate) fn tenant(headers: &HeaderMap) -> Result<Option<Tenant>, ApiError> {
    let Some(value) = headers.get(TENANT_HEADER) else { return Ok(None) };
    let name = String::from_utf8_lossy(value.as_bytes());
    let wrong = |error: ogive_model::Error| ApiError::bad_data(format!("invalid header X-Scope-OrgID: {error}"));
    Tenant::new(&name).map(Some).map_err(wrong)
}

/// Names and values in the order given; a name may come several times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params {
    pairs: Vec<(String, String)>,
    /// The tenant whose data is requested.
    pub(crate) tenant: Tenant,
}

impl FromRequest<App> for Params {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let mut params = Self::parse(request.uri().query().unwrap_or_default().as_bytes());
        params.tenant = tenant(request.headers())?.unwrap_or_default();
        if request.method() == Method::POST {
            let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
            let (kind, essence) = (kind.to_owned(), kind.split(';').next().unwrap_or("").trim().to_ascii_lowercase());
            let is_multipart = essence == "multipart/form-data";
            if !is_multipart && !essence.is_empty() && essence != "application/x-www-form-urlencoded" {
                return Err(ApiError::unsupported(format!(
                    "content type {kind:?}; send application/x-www-form-urlencoded or multipart/form-data"
                )));
            }
            let form = body::form(app, request, FORM_BYTES_MAX).await?;
            let pairs = if is_multipart {
                multipart::fields(&kind, &form.bytes).map_err(ApiError::bad_data)?
            } else {
                Self::parse(&form.bytes).pairs
            };
            // A form's values win, as in Go's `FormValue`.
            params.pairs.splice(0..0, pairs);
        }
        if let Some(query) = params.get("query") {
            slowest::wants(query);
        }
        Ok(params)
    }
}

impl Params {
    pub(crate) fn parse(text: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(text).map(|(name, value)| (name.into_owned(), value.into_owned()));
        Self { pairs: pairs.collect(), tenant: Tenant::default() }
    }

    /// The first value of `name` that is not empty.
    pub(crate) fn get<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.all(name).find(|value| !value.is_empty())
    }

    /// Every value of `name`.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |pair| pair.0 == name).map(|pair| &*pair.1)
    }

    /// The value of `name`, which must be there.
    pub(crate) fn need<'a>(&'a self, name: &'a str) -> Result<&'a str, ApiError> {
        self.get(name).ok_or_else(|| ApiError::bad_data(format!("the parameter {name:?} is missing")))
    }

    /// An instant.
    pub(crate) fn time(&self, name: &str) -> Result<Option<WallMs>, ApiError> {
        let wrong = |text: &str| {
            ApiError::bad_data(format!(
                "invalid parameter {name:?}: cannot parse {text:?} to a valid timestamp; give Unix seconds or RFC 3339"
            ))
        };
        self.get(name).map(|text| instant_ms(text).map(WallMs).ok_or_else(|| wrong(text))).transpose()
    }

    /// From `start` to `end`, both of them inside; without them, all of time.
    pub(crate) fn range(&self) -> Result<TimeRange, ApiError> {
        let start = self.time("start")?.map_or(WallMs::MIN, |start| start.saturating_sub(Ms(1)));
        Ok(TimeRange { start, end: self.time("end")?.unwrap_or(WallMs::MAX) })
    }

    /// An instant, which may also be given as how long before `now` it is: `-30d`.
    pub(crate) fn ago(&self, name: &str, now: WallMs) -> Result<Option<WallMs>, ApiError> {
        let back = |text: &str| {
            text.strip_prefix('-').filter(|rest| rest.ends_with(char::is_alphabetic)).and_then(seconds_or_units_ms)
        };
        match self.get(name).and_then(back) {
            Some(ms) => Ok(Some(now.saturating_sub(Ms(ms)))),
            None => self.time(name),
        }
    }

    /// A duration.
    pub(crate) fn duration(&self, name: &str) -> Result<Option<Ms>, ApiError> {
        let wrong = |text: &str| {
            ApiError::bad_data(format!(
                "invalid parameter {name:?}: cannot parse {text:?} to a valid duration; give seconds or such as 5m"
            ))
        };
        self.get(name).map(|text| seconds_or_units_ms(text).map(Ms).ok_or_else(|| wrong(text))).transpose()
    }

    /// A limit; 0 and a missing one mean no limit.
    pub(crate) fn limit(&self) -> Result<usize, ApiError> {
        self.number("limit")
    }

    /// A limit called `name`.
    pub(crate) fn number(&self, name: &str) -> Result<usize, ApiError> {
        let Some(text) = self.get(name) else { return Ok(usize::MAX) };
        match text.parse() {
            Ok(0) => Ok(usize::MAX),
            Ok(limit) => Ok(limit),
            Err(_) => {
                Err(ApiError::bad_data(format!("invalid parameter {name:?}: {name} must be a whole number from 0")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_come_several_times() {
        let params = Params::parse(b"match[]=a&match%5B%5D=b%20c&x=&x=1");
        assert_eq!(params.all("match[]").collect::<Vec<_>>(), ["a", "b c"]);
        assert_eq!(params.get("x"), Some("1"));
        assert!(params.need("y").is_err());
    }
}
