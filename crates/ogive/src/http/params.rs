//! Parameters of a request, from its query string and, for POST, its form: `application/x-www-form-urlencoded` or
//! `multipart/form-data`.
//!
//! Limits: [`FORM_BYTES_MAX`] for a form; a query string is limited by the HTTP layer.

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, Method, header};
use ogive_model::Tenant;

use super::App;
use super::body;
use super::error::ApiError;
use super::multipart;

/// 6 MiB: the longest expression, each byte of which may be written as three.
const FORM_BYTES_MAX: usize = 3 * ogive_query::TEXT_BYTES_MAX;

/// The header that names a tenant, as Grafana Mimir and Loki have it.
pub(super) const TENANT_HEADER: &str = "x-scope-orgid";

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
    /// Whose data is asked for.
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

    /// An instant, milliseconds.
    pub(crate) fn time(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let wrong = |text: &str| {
            ApiError::bad_data(format!(
                "invalid parameter {name:?}: cannot parse {text:?} to a valid timestamp; give Unix seconds or RFC 3339"
            ))
        };
        self.get(name).map(|text| time_ms(text).ok_or_else(|| wrong(text))).transpose()
    }

    /// A duration, milliseconds.
    pub(crate) fn duration(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let wrong = |text: &str| {
            ApiError::bad_data(format!(
                "invalid parameter {name:?}: cannot parse {text:?} to a valid duration; give seconds or such as 5m"
            ))
        };
        self.get(name).map(|text| duration_ms(text).ok_or_else(|| wrong(text))).transpose()
    }

    /// A limit; 0 and a missing one are none.
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

/// Unix seconds with or without a fraction, or RFC 3339.
pub(crate) fn time_ms(text: &str) -> Option<i64> {
    match text.parse::<f64>() {
        Ok(seconds) => milliseconds(seconds),
        Err(_) => rfc3339_ms(text),
    }
}

/// Seconds, or a duration as PromQL writes it: `1h30m`.
pub(crate) fn duration_ms(text: &str) -> Option<i64> {
    match text.parse::<f64>() {
        Ok(seconds) => milliseconds(seconds),
        Err(_) => prometheus_duration_ms(text),
    }
}

/// Rounded to the nearest millisecond, when it is one that can be meant: within 100,000 years of 1970.
fn milliseconds(seconds: f64) -> Option<i64> {
    let ms = (seconds * 1000.0).round();
    (ms.abs() <= 3.2e15).then_some(ms as i64)
}

/// The units of durations in milliseconds, the largest first.
pub(crate) const DURATION_UNITS: [(&str, i64); 7] = [
    ("y", 365 * 86_400_000),
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// A duration as Prometheus writes it, in milliseconds: whole numbers with units, each unit at most once, the larger ones first.
pub(crate) fn prometheus_duration_ms(text: &str) -> Option<i64> {
    let (mut rest, mut sum, mut units) = (text, 0_i64, &DURATION_UNITS[..]);
    if text.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, behind) = rest.split_at(digits);
        let letters = behind.find(|c: char| c.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, after) = behind.split_at(letters);
        let at = units.iter().position(|(name, _)| *name == unit)?;
        sum = number.parse::<i64>().ok()?.checked_mul(units[at].1)?.checked_add(sum)?;
        (rest, units) = (after, &units[at + 1..]);
    }
    Some(sum)
}

/// `2026-01-02T03:04:05.678+01:00`.
fn rfc3339_ms(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
    };
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if !separators.iter().all(|(at, byte)| bytes.get(*at).map(u8::to_ascii_uppercase) == Some(*byte)) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let mut zone = text.get(19..)?;
    let mut ms = 0;
    if let Some(fraction) = zone.strip_prefix('.') {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        let padded = format!("{:0<3}", &fraction[..digits]);
        (ms, zone) = (padded[..3].parse().ok().filter(|_| digits > 0)?, &fraction[digits..]);
    }
    let offset_minutes = match zone.as_bytes() {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let at = text.len() - 5;
            let minutes = number(at, at + 2)? * 60 + number(at + 3, at + 5)?;
            if *sign == b'-' { -minutes } else { minutes }
        }
        _ => return None,
    };
    let valid = (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60
        && offset_minutes.abs() < 24 * 60;
    let minutes = days_since_epoch(year, month, day) * 1440 + hour * 60 + minute - offset_minutes;
    valid.then_some((minutes * 60 + second) * 1000 + ms)
}

/// `2026-01-02T03:04:05Z`, the second that has begun.
pub(crate) fn rfc3339(ms: i64) -> String {
    let (days, second) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000) / 1_000);
    // Near enough to begin with: then at most a year on.
    let mut year = 1970 + days.div_euclid(366).min(days.div_euclid(365));
    while days_since_epoch(year + 1, 1, 1) <= days {
        year += 1;
    }
    let mut month = 1;
    while month < 12 && days_since_epoch(year, month + 1, 1) <= days {
        month += 1;
    }
    let day = days - days_since_epoch(year, month, 1) + 1;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

fn days_of(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01: years are counted from March, so that the leap day is the last one.
pub(crate) fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_seconds_or_rfc3339() {
        let check = |text: &str, expected: Option<i64>| assert_eq!(time_ms(text), expected, "{text}");
        check("0", Some(0));
        check("1700000001.5", Some(1_700_000_001_500));
        check("1.7e9", Some(1_700_000_000_000));
        check("1970-01-01T00:00:00Z", Some(0));
        check("2000-02-29T12:00:00.25Z", Some(951_825_600_250));
        check("2026-11-21T20:00:00+01:30", Some(1_795_285_800_000));
        check("1969-12-31T23:59:59.999Z", Some(-1));
        for text in [
            "",
            "abc",
            "NaN",
            "1e300",
            "2026-02-29T00:00:00Z",
            "2026-01-01",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00.Z",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn instants_are_written_as_they_are_read() {
        for text in ["1970-01-01T00:00:00Z", "2000-02-29T23:59:59Z", "2026-12-31T12:00:01Z", "1969-12-31T23:00:00Z"] {
            assert_eq!(rfc3339(time_ms(text).unwrap()), text);
        }
        for day in -40_000..80_000_i64 {
            let ms = day * 86_400_000 + 1_000;
            assert_eq!(time_ms(&rfc3339(ms)), Some(ms), "{}", rfc3339(ms));
        }
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (year, month, day, expected) in
            [(1970, 1, 1, 0), (2000, 2, 29, 11_016), (2000, 3, 1, 11_017), (2026, 11, 22, 20_779), (1969, 12, 31, -1)]
        {
            assert_eq!(days_since_epoch(year, month, day), expected, "{year}-{month}-{day}");
        }
    }

    #[test]
    fn durations_are_seconds_or_units() {
        let check = |text: &str, expected: Option<i64>| assert_eq!(duration_ms(text), expected, "{text}");
        check("15", Some(15_000));
        check("0.5", Some(500));
        check("5m", Some(300_000));
        check("1h30m", Some(5_400_000));
        check("1d2ms", Some(86_400_002));
        for text in ["", "m", "5", "30m1h", "5m5m", "5x", "99999999999y"] {
            check(text, if text == "5" { Some(5_000) } else { None });
        }
    }

    #[test]
    fn values_may_come_several_times() {
        let params = Params::parse(b"match[]=a&match%5B%5D=b%20c&x=&x=1");
        assert_eq!(params.all("match[]").collect::<Vec<_>>(), ["a", "b c"]);
        assert_eq!(params.get("x"), Some("1"));
        assert!(params.need("y").is_err());
    }
}
