//! What is stored: series, label names and label values.
//!
//! Format: as the Prometheus API; `match[]` may come several times, and a series is listed when one of them fits.
//! Limits: [`SELECTORS_MAX`] of them. What is listed is charged to the memory of its query, and written while it is
//! sent.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use ogive_model::{Matcher, Opening, Select as _, SelectError, SeriesDef, Tenant, TimeRange};

use super::App;
use super::ask::{Cancel, ask};
use super::error::{ApiError, json};
use super::params::Params;
use super::pieces::{self, Written};
use super::prometheus_json;
use super::views::{Views, shown};
use ogive_door::backend::Reader;

/// The series of a request.
pub(super) struct SeriesFilter {
    /// One list of matchers for each `match[]`; one empty list when there is none.
    pub(super) matchers: Vec<Vec<Matcher>>,
    range: TimeRange,
    pub(super) limit: usize,
    pub(super) tenant: Tenant,
    classic_views: bool,
}

impl SeriesFilter {
    pub(super) fn new(params: &Params) -> Result<Self, ApiError> {
        let mut matchers = selectors(params)?;
        if matchers.is_empty() {
            matchers.push(Vec::new());
        }
        let range = params.range()?;
        let limit = params.limit()?;
        Ok(Self { matchers, range, limit, tenant: params.tenant.clone(), classic_views: shown(params) })
    }

    fn reader<'a>(&'a self, app: &'a App) -> Views<'a> {
        Views::over(app.backend.of(&self.tenant), self.classic_views)
    }

    /// Passes the definition of every matching series to `each`; a series that matches twice is passed twice.
    pub(super) fn each(
        &self,
        app: &App,
        cancel: &Cancel,
        mut each: impl FnMut(SeriesDef) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let reader = self.reader(app);
        self.matchers.iter().try_for_each(|matchers| cancel.each_definition(&reader, matchers, self.range, &mut each))
    }

    /// How many items of a list are enough to know whether there are more than the limit.
    const fn enough(&self) -> usize {
        self.limit.saturating_add(1)
    }

    /// The union of the results of `of` for each list of matchers.
    fn union<T: Ord, Found: IntoIterator<Item = T>>(
        &self,
        cancel: &Cancel,
        of: impl Fn(&[Matcher], &Opening<'_>) -> Result<Found, SelectError>,
    ) -> Result<BTreeSet<T>, ApiError> {
        let mut out = BTreeSet::new();
        for matchers in &self.matchers {
            cancel.check()?;
            out.extend(cancel.opening(|opening| of(matchers, opening))?);
        }
        Ok(out)
    }
}

/// 256: more than the hundred names of a federation's configuration. Each is looked up separately, so many thousands
/// would take minutes.
pub(super) const SELECTORS_MAX: usize = 256;

/// Every `match[]`.
pub(super) fn selectors(params: &Params) -> Result<Vec<Vec<Matcher>>, ApiError> {
    let given = params.all("match[]").count();
    if given > SELECTORS_MAX {
        return Err(ApiError::bad_data(format!(
            "invalid parameter \"match[]\": {given} selectors, more than {SELECTORS_MAX}; join names in one, such as \
             {{__name__=~\"a|b\"}}, or ask several times"
        )));
    }
    params.all("match[]").map(selector).collect()
}

/// The matchers of a plain selector.
pub(super) fn selector(text: &str) -> Result<Vec<Matcher>, ApiError> {
    ogive_query::parse_plain_selector(text)
        .map_err(|error| ApiError::bad_data(format!("invalid parameter \"match[]\": {error}")))
}

pub(super) async fn series(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    if params.all("match[]").next().is_none() {
        return Err(ApiError::bad_data("no match[] parameter provided"));
    }
    listed(app, params, prometheus_json::labels, |wanted, reader, cancel| {
        wanted.union(cancel, |matchers, opening| reader.label_sets(matchers, wanted.range, wanted.enough(), opening))
    })
    .await
}

pub(super) async fn labels(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    listed(app, params, put_text, |wanted, reader, cancel| {
        wanted.union(cancel, |matchers, opening| reader.label_names(matchers, wanted.range, opening))
    })
    .await
}

pub(super) async fn label_values(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
    params: Params,
) -> Result<Response, ApiError> {
    let Path(name) = name?;
    listed(app, params, put_text, move |wanted, reader, cancel| {
        let (range, enough) = (wanted.range, wanted.enough());
        wanted.union(cancel, |matchers, opening| reader.label_values(&name, matchers, range, enough, opening))
    })
    .await
}

#[allow(clippy::ptr_arg, reason = "it is passed where a writer of any item is")]
fn put_text(out: &mut Vec<u8>, text: &String) {
    prometheus_json::string(out, text);
}

/// The response that lists the result of `find`.
async fn listed<T: Ord + Send + Unpin + 'static>(
    app: App,
    params: Params,
    put: fn(&mut Vec<u8>, &T),
    find: impl FnOnce(&SeriesFilter, &Views<'_>, &Cancel) -> Result<BTreeSet<T>, ApiError> + Send + 'static,
) -> Result<Response, ApiError> {
    let timeout = params.duration("timeout")?;
    let found = ask(&app, timeout, move |app, cancel| {
        // A megabyte of selectors is read here, not by the thread of the connection.
        let wanted = SeriesFilter::new(&params)?;
        let found = find(&wanted, &wanted.reader(app), cancel)?;
        Ok((List::new(found, wanted.limit, put), Arc::clone(cancel.memory())))
    });
    let (list, held) = found.await?;
    Ok(json(StatusCode::OK, pieces::body(&app, list, held)))
}

/// The envelope around the first items up to the limit.
struct List<T> {
    items: std::collections::btree_set::IntoIter<T>,
    left: usize,
    is_truncated: bool,
    is_begun: bool,
    put: fn(&mut Vec<u8>, &T),
}

impl<T> List<T> {
    fn new(items: BTreeSet<T>, limit: usize, put: fn(&mut Vec<u8>, &T)) -> Self {
        let is_truncated = items.len() > limit;
        let (items, left) = (items.into_iter(), limit);
        Self { items, left, is_truncated, is_begun: false, put }
    }
}

impl<T: Send + Unpin + 'static> Written for List<T> {
    fn step(&mut self, out: &mut Vec<u8>) -> bool {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        if is_first {
            out.extend_from_slice(b"{\"status\":\"success\",\"data\":[");
        }
        let item = if self.left > 0 { self.items.next() } else { None };
        if let Some(item) = item {
            self.left -= 1;
            if !is_first {
                out.push(b',');
            }
            (self.put)(out, &item);
            return true;
        }
        out.push(b']');
        let warnings: &[String] = if self.is_truncated { &["results truncated due to limit".into()] } else { &[] };
        prometheus_json::notes(out, warnings, &[]);
        out.extend_from_slice(b"}\n");
        false
    }
}
