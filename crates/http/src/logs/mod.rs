//! `/v1/logs`: the stored lines that a search finds, page by page; and `/v1/logs/columns`: how many there are over
//! time, by severity.
//!
//! Format: docs/logs.md. Invariants: going on from `next` until there is none gives every line that was there before
//! the first page once. Limits: [`LINES_MAX`] and [`ANSWER_BYTES_MAX`] an answer, [`SCANNED_BYTES_MAX`] looked at for
//! it: what ends an answer is said, and a cursor leads on.

mod answer;
mod lines;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use ogive_model::{Kind, Labels, Matcher, Ms, TimeRange, WallMs, Words};
use ogive_search::{Line, Query, Severity};

use super::App;
use super::ask::{Cancel, ask};
use super::error::{ApiError, json};
use super::params::Params;
use super::texts::{Cursor, Direction, FoundText, Scan, column_end, named};
use super::{prometheus, traces};
use lines::{Counts, LineQuery, Lines, Scanned};
use ogive_door::backend::Reader;

/// 5,000 lines: 2 MB of JSON; a person reads a hundred.
const LINES_MAX: usize = 5_000;

/// When the request names no limit.
const LINES_USUAL: usize = 100;

/// 8 MiB of lines in an answer, and the one that goes beyond: a line may have 16 MiB.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// 256 MiB of lines looked at for one answer: about a second of work; less in tests, which reach it.
const SCANNED_BYTES_MAX: usize = if cfg!(test) { 64 << 10 } else { 256 << 20 };

/// When the request names no start: an hour.
const RANGE: Ms = Ms::from_secs(60 * 60);

fn wrong(name: &str, what: impl std::fmt::Display) -> ApiError {
    ApiError::bad_data(format!("invalid parameter {name:?}: {what}"))
}

/// The search, and the selectors of `match`, of which one has to fit.
fn search(params: &Params) -> Result<(Query, Vec<Vec<Matcher>>), ApiError> {
    let query = params.get("query").unwrap_or("");
    let query = Query::parse(query).map_err(|error| wrong("query", error))?;
    let mut selectors = Vec::new();
    for text in params.all("match").chain(params.all("match[]")).filter(|text| !text.is_empty()) {
        selectors
            .extend(traces::selectors(text).map_err(|_| wrong("match", "give a selector such as log{job=\"api\"}"))?);
    }
    Ok((query, selectors))
}

/// The series of texts that one of `selectors` selects, and whose labels the query may find.
fn series(
    cancel: &Cancel,
    store: &dyn Reader,
    query: &Query,
    selectors: &[Vec<Matcher>],
    range: TimeRange,
) -> Result<BTreeSet<Labels>, ApiError> {
    let (of_query, any) = (query.matchers(), [Vec::new()]);
    let mut out = BTreeSet::new();
    for selector in if selectors.is_empty() { &any[..] } else { selectors } {
        let matchers: Vec<Matcher> = selector.iter().chain(&of_query).cloned().collect();
        let found = named(cancel, store, &matchers, range, |series| series.meta.kind == Kind::Text)?;
        out.extend(found.into_iter().map(|series| series.labels));
    }
    Ok(out)
}

/// What the store is requested to leave out.
fn words(query: &Query) -> Option<Arc<Words>> {
    Some(query.words()).filter(|words| !words.is_none()).map(Arc::new)
}

impl Scanned {
    /// Counts a text that is to be looked at; false when that would be more than may be.
    fn add(&mut self, found: &FoundText) -> bool {
        self.is_partial = self.bytes >= SCANNED_BYTES_MAX;
        if !self.is_partial {
            self.lines += 1;
            self.bytes += found.text.len();
        }
        !self.is_partial
    }
}

impl LineQuery {
    fn new(app: &App, params: &Params) -> Result<Self, ApiError> {
        let (query, selectors) = search(params)?;
        let end = params.time("end")?.unwrap_or_else(|| app.now() + Ms::from_secs(1));
        let start = params.time("start")?.unwrap_or_else(|| end.saturating_sub(RANGE));
        if end < start {
            return Err(wrong("end", "it is before the start"));
        }
        let direction = match params.get("direction").unwrap_or("backward") {
            "backward" => Direction::Backward,
            "forward" => Direction::Forward,
            other => return Err(wrong("direction", format!("{other:?} is neither backward nor forward"))),
        };
        let cursor = |text| Cursor::parse(text).ok_or_else(|| wrong("cursor", "give the answer's next"));
        let cursor = params.get("cursor").map(cursor).transpose()?;
        let limit = match params.limit()? {
            usize::MAX => LINES_USUAL,
            limit => limit.min(LINES_MAX),
        };
        Ok(Self { selectors, query, range: TimeRange { start, end }, direction, limit, cursor })
    }

    fn read(&self, store: &dyn Reader, cancel: &Cancel) -> Result<Lines, ApiError> {
        let series = series(cancel, store, &self.query, &self.selectors, self.range)?;
        let (mut out, mut bytes, mut full) = (Lines::default(), 0, Ok(()));
        let (range, direction, cursor) = (self.range, self.direction, self.cursor);
        let words = words(&self.query);
        let scan = Scan { store, cancel, series: &series, range, direction, cursor, words };
        let warnings = scan.run(|found, here| {
            let is_full = out.list.len() == self.limit || bytes >= ANSWER_BYTES_MAX;
            if is_full || !out.scanned.add(&found) {
                out.next = Some(here);
                return ControlFlow::Break(());
            }
            if self.query.matches(&Line::new(&found.labels, &found.text)) {
                full = cancel.hold(size_of::<FoundText>() + found.text.len());
                bytes += found.text.len();
                out.list.push(found);
            }
            if full.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        full?;
        out.scanned = Scanned { series: series.len(), warnings, ..out.scanned };
        Ok(out)
    }
}

pub(super) async fn get(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let (wanted, timeout) = (LineQuery::new(&app, &params)?, params.duration("timeout")?);
    let answer = ask(&app, timeout, move |app, cancel| {
        let lines = wanted.read(&*app.backend.of(&params.tenant), cancel)?;
        Ok(answer::document(&wanted, &lines))
    });
    Ok(json(StatusCode::OK, answer.await?))
}

pub(super) async fn columns(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let (start, end, step) = prometheus::range(&params)?;
    let ((query, selectors), timeout) = (search(&params)?, params.duration("timeout")?);
    let answer = ask(&app, timeout, move |app, cancel| {
        let range = TimeRange { start: start.saturating_sub(step), end };
        let store = app.backend.of(&params.tenant);
        let series = series(cancel, &*store, &query, &selectors, range)?;
        let (mut columns, mut scanned, mut from) = (BTreeMap::<WallMs, Counts>::new(), Scanned::default(), None);
        let (store, direction) = (&*store, Direction::Backward);
        let scan = Scan { store, cancel, series: &series, range, direction, cursor: None, words: words(&query) };
        let warnings = scan.run(|found, _| {
            if !scanned.add(&found) {
                from = Some(found.time);
                return ControlFlow::Break(());
            }
            if query.matches(&Line::new(&found.labels, &found.text)) {
                let severity = Severity::from_line(&found.labels, &found.text);
                *columns.entry(column_end(found.time, start, step)).or_default().entry(severity).or_default() += 1;
            }
            ControlFlow::Continue(())
        })?;
        scanned = Scanned { series: series.len(), warnings, ..scanned };
        Ok(answer::columns(&columns, &scanned, from))
    });
    Ok(json(StatusCode::OK, answer.await?))
}
