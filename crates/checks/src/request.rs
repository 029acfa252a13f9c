//! An HTTP request and the expected response, as described by a table.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, Uri};
use ogive_outgoing::Origin;
use regex::Regex;

use super::account::Account;
use super::extract::Extract;
use super::raw::{ExtractTable, Raw};
use super::readings::ANSWER_BYTES_MAX;
use super::target::{Trust, target, trust};

/// 10 redirects, as browsers have it.
const REDIRECTS_MAX: u32 = 10;
/// 1 MiB of a body: a page of health, not a download.
pub(super) const BODY_BYTES_MAX: usize = 1 << 20;

/// A request and what its answer is to be.
#[derive(Clone, Debug)]
pub(super) struct Http {
    pub(super) url: Uri,
    pub(super) method: Method,
    pub(super) headers: Vec<(String, String)>,
    pub(super) token: Option<PathBuf>,
    /// For `Authorization: Basic`.
    pub(super) login: Option<Account>,
    pub(super) body: String,
    /// What is behind it in the body of an answer is not read.
    pub(super) body_bytes_max: usize,
    /// Empty: any below 400.
    pub(super) status: Vec<u16>,
    pub(super) pattern: Option<Regex>,
    pub(super) redirects: u32,
    pub(super) trust: Trust,
    pub(super) extract: Vec<Extract>,
}

/// The keys of a request that a check and each of its steps may have.
#[derive(Default)]
pub(super) struct RequestKeys {
    pub(super) method: Option<String>,
    pub(super) headers: Option<BTreeMap<String, String>>,
    pub(super) body: Option<String>,
    pub(super) status: Option<Vec<u16>>,
    pub(super) body_regex: Option<String>,
    pub(super) redirects: Option<u32>,
    pub(super) extract: Option<Vec<ExtractTable>>,
}

impl Http {
    /// What a table of this kind says.
    pub(super) fn from_raw(raw: &mut Raw) -> Result<Self, String> {
        let url = url(raw)?;
        let keys = RequestKeys {
            method: raw.method.take(),
            headers: raw.headers.take(),
            body: raw.body.take(),
            status: raw.status.take(),
            body_regex: raw.body_regex.take(),
            redirects: raw.redirects.take(),
            extract: raw.extract.take(),
        };
        let token = raw.token_file.take();
        Ok(Self { token, trust: trust(raw), ..Self::to(url, keys)? })
    }

    /// A request to `url` for statistics of a program: headers, a token or a login, and TLS are those of the table.
    pub(super) fn statistics(raw: &mut Raw, url: Uri) -> Result<Self, String> {
        let keys = RequestKeys { headers: raw.headers.take(), ..RequestKeys::default() };
        let (login, token) = (basic(raw)?, raw.token_file.take());
        if login.is_some() && token.is_some() {
            return Err("give user or token_file, not both".into());
        }
        let (trust, body_bytes_max) = (trust(raw), ANSWER_BYTES_MAX);
        Ok(Self { login, token, trust, body_bytes_max, ..Self::to(url, keys)? })
    }

    /// A request to `url`, without a token and with the usual trust.
    pub(super) fn to(url: Uri, keys: RequestKeys) -> Result<Self, String> {
        let method = keys.method.unwrap_or_else(|| "GET".into());
        let method = Method::from_bytes(method.as_bytes()).map_err(|_| format!("method {method:?} is none"))?;
        let pattern = match keys.body_regex {
            Some(text) => Some(Regex::new(&text).map_err(|error| format!("body_regex: {error}"))?),
            None => None,
        };
        let status = keys.status.unwrap_or_default();
        if let Some(wrong) = status.iter().find(|status| !(100..600).contains(*status)) {
            return Err(format!("status {wrong} is none"));
        }
        let redirects = keys.redirects.unwrap_or(0);
        if redirects > REDIRECTS_MAX {
            return Err(format!("redirects {redirects} is above {REDIRECTS_MAX}"));
        }
        let headers = headers(keys.headers)?;
        let (body, extract) = (keys.body.unwrap_or_default(), Extract::all(keys.extract)?);
        Ok(Self {
            url,
            method,
            headers,
            token: None,
            login: None,
            body,
            body_bytes_max: BODY_BYTES_MAX,
            status,
            pattern,
            redirects,
            trust: Trust::default(),
            extract,
        })
    }
}

/// The login of `Authorization: Basic`.
fn basic(raw: &mut Raw) -> Result<Option<Account>, String> {
    let account = Account::from_raw(raw)?;
    match &account {
        Some(Account { user, .. }) if user.contains(':') => {
            Err(format!("user {user:?}: a colon ends the name in a request"))
        }
        _ => Ok(account),
    }
}

/// The headers of a request, each of which may be sent.
pub(super) fn headers(table: Option<BTreeMap<String, String>>) -> Result<Vec<(String, String)>, String> {
    let headers: Vec<(String, String)> = table.unwrap_or_default().into_iter().collect();
    for (name, value) in &headers {
        HeaderName::try_from(name).map_err(|_| format!("header {name:?} is none"))?;
        HeaderValue::try_from(value).map_err(|_| format!("the value of header {name:?} is none"))?;
    }
    Ok(headers)
}

/// The address that a check is aimed at.
pub(super) fn url(raw: &mut Raw) -> Result<Uri, String> {
    let target = target(raw)?;
    let url: Uri = target.parse().map_err(|error| format!("target {target:?}: {error}"))?;
    Origin::from_url(&url).map_err(|sentence| format!("target {target:?}: {sentence}"))?;
    if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("a password does not belong in an address; use headers or token_file".into());
    }
    Ok(url)
}
