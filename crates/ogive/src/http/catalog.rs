//! What is stored: series, label names and label values.
//!
//! Format: as the Prometheus API; `match[]` may come several times, and a series is listed when one of them fits.

use std::collections::BTreeSet;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use ogive_model::{Matcher, Select, SelectError, Selection, SeriesData, Tenant, TimeRange};
use ogive_query::ast::ExprKind;

use super::App;
use super::ask::{Cancel, ask};
use super::error::{ApiError, json};
use super::params::Params;
use super::prometheus_json;
use super::views::{Views, shown};
use crate::backend::Reader;

/// Which series are asked for.
pub(super) struct Wanted {
    /// One list of matchers for each `match[]`; one empty list when there is none.
    pub(super) matchers: Vec<Vec<Matcher>>,
    range: TimeRange,
    pub(super) limit: usize,
    pub(super) timeout_ms: Option<i64>,
    pub(super) tenant: Tenant,
    classic_views: bool,
}

impl Wanted {
    pub(super) fn new(params: &Params) -> Result<Self, ApiError> {
        let mut matchers = Vec::new();
        for text in params.all("match[]") {
            matchers.push(selector(text)?);
        }
        if matchers.is_empty() {
            matchers.push(Vec::new());
        }
        // The start is part of the range here, unlike in a selection.
        let start_ms = params.time("start")?.map_or(i64::MIN, |start| start - 1);
        let range = TimeRange { start_ms, end_ms: params.time("end")?.unwrap_or(i64::MAX) };
        let (limit, timeout_ms) = (params.limit()?, params.duration("timeout")?);
        Ok(Self { matchers, range, limit, timeout_ms, tenant: params.tenant.clone(), classic_views: shown(params) })
    }

    fn reader<'a>(&'a self, app: &'a App) -> Views<'a> {
        Views::over(app.backend.of(&self.tenant), self.classic_views)
    }

    /// Hands every fitting series to `each`; a series that fits twice comes twice.
    pub(super) fn each(&self, app: &App, cancel: &Cancel, mut each: impl FnMut(SeriesData)) -> Result<(), ApiError> {
        for matchers in self.matchers(cancel) {
            let matchers = matchers?.to_vec();
            let selection = Selection {
                matchers,
                range: self.range,
                samples_max: usize::MAX,
                labels_only: true,
                resolution: Default::default(),
            };
            self.reader(app).select(&selection)?.into_iter().for_each(&mut each);
        }
        Ok(())
    }

    /// How many of a list are enough to tell whether there are more than the limit.
    const fn enough(&self) -> usize {
        self.limit.saturating_add(1)
    }

    /// The union of what `of` gives for each list of matchers.
    fn union<T: Ord, Found: IntoIterator<Item = T>>(
        &self,
        cancel: &Cancel,
        of: impl Fn(&[Matcher], TimeRange) -> Result<Found, SelectError>,
    ) -> Result<BTreeSet<T>, ApiError> {
        let mut out = BTreeSet::new();
        for matchers in self.matchers(cancel) {
            out.extend(of(matchers?, self.range)?);
        }
        Ok(out)
    }

    fn matchers<'a>(&'a self, cancel: &'a Cancel) -> impl Iterator<Item = Result<&'a [Matcher], ApiError>> {
        self.matchers.iter().map(|matchers| {
            if cancel.is_set() { Err(ApiError::timeout("the query was cancelled")) } else { Ok(&**matchers) }
        })
    }
}

/// The matchers of a plain selector.
pub(super) fn selector(text: &str) -> Result<Vec<Matcher>, ApiError> {
    let wrong = |error: &dyn std::fmt::Display| ApiError::bad_data(format!("invalid parameter \"match[]\": {error}"));
    let expr = ogive_query::parse(text).map_err(|error| wrong(&error))?;
    match expr.kind {
        ExprKind::VectorSelector(selector) => Ok(selector.matchers),
        _ => Err(wrong(&format!("{text:?} is not a plain selector such as up{{job=\"a\"}}"))),
    }
}

pub(super) async fn series(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    if params.all("match[]").next().is_none() {
        return Err(ApiError::bad_data("no match[] parameter provided"));
    }
    let wanted = Wanted::new(&params)?;
    let answer = ask(&app, wanted.timeout_ms, move |app, cancel| {
        let reader = wanted.reader(app);
        let found = wanted.union(cancel, |matchers, range| reader.label_sets(matchers, range, wanted.enough()))?;
        Ok(list(found.iter(), wanted.limit, prometheus_json::labels))
    });
    Ok(json(StatusCode::OK, answer.await?))
}

pub(super) async fn labels(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let wanted = Wanted::new(&params)?;
    let answer = ask(&app, wanted.timeout_ms, move |app, cancel| {
        let reader = wanted.reader(app);
        let found = wanted.union(cancel, |matchers, range| reader.label_names(matchers, range))?;
        Ok(list(found.iter(), wanted.limit, |out, name| prometheus_json::string(out, name)))
    });
    Ok(json(StatusCode::OK, answer.await?))
}

pub(super) async fn label_values(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
    params: Params,
) -> Result<Response, ApiError> {
    let (Path(name), wanted) = (name?, Wanted::new(&params)?);
    let answer = ask(&app, wanted.timeout_ms, move |app, cancel| {
        let reader = wanted.reader(app);
        let found =
            wanted.union(cancel, |matchers, range| reader.label_values(&name, matchers, range, wanted.enough()))?;
        Ok(list(found.iter(), wanted.limit, |out, value| prometheus_json::string(out, value)))
    });
    Ok(json(StatusCode::OK, answer.await?))
}

/// The envelope around the first `limit` of the items.
fn list<T>(items: impl ExactSizeIterator<Item = T>, limit: usize, each: impl Fn(&mut Vec<u8>, T)) -> Vec<u8> {
    let truncated = items.len() > limit;
    let mut out = b"{\"status\":\"success\",\"data\":[".to_vec();
    for (at, item) in items.take(limit).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        each(&mut out, item);
    }
    out.push(b']');
    let warnings: &[String] = if truncated { &["results truncated due to limit".into()] } else { &[] };
    prometheus_json::notes(&mut out, warnings, &[]);
    out.extend_from_slice(b"}\n");
    out
}
