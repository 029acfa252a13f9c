//! `/v1/traces`: the slow traces that a selector means, read and linked to the histograms that they explain; and
//! `/v1/traces/columns`: how many there are in each column of a heat map.
//!
//! Format: docs/http.md; the texts are those of docs/formats/trace.md, linked as [`link`](crate::link) says.
//! Invariants: a text that is no slow trace is answered as it is, with what is wrong with it, and counted.
//! Limits: [`TRACES_MAX`] an answer, [`EXAMINED_MAX`] texts read for it; more is said by `complete: false`, and a
//! cursor leads on.

mod answer;
mod found;
mod series;

pub(super) use series::selectors;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use ogive_model::{Labels, Ms, Ns, TimeRange, WallMs};

use super::App;
use super::ask::{Cancel, ask, whole};
use super::error::{ApiError, json};
use super::params::Params;
use super::texts::{Cursor, Direction, FoundText, Scan, column_end};
use super::{prometheus, prometheus_json};
use found::{Order, ParsedText, TraceFilter, Traces};
use ogive_door::backend::Reader;

/// 1,000 traces: some 2 MB of JSON; a person reads ten.
const TRACES_MAX: usize = 1_000;

/// When the request names no limit.
const TRACES_USUAL: usize = 100;

/// 100,000 texts read for one answer: half a second of work; fewer in tests, which reach it.
const EXAMINED_MAX: usize = if cfg!(test) { 5_000 } else { 100_000 };

/// When the request names no start: a quarter of an hour.
const RANGE: Ms = Ms::from_secs(15 * 60);

impl TraceFilter {
    fn new(app: &App, params: &Params) -> Result<Self, ApiError> {
        let wrong = |name: &str, what: &str| ApiError::bad_data(format!("invalid parameter {name:?}: {what}"));
        let selectors = params.get("query").map(series::selectors).transpose()?.unwrap_or_default();
        let end = params.time("end")?.unwrap_or_else(|| app.now() + Ms::from_secs(1));
        let start = params.time("start")?.unwrap_or_else(|| end.saturating_sub(RANGE));
        if end < start {
            return Err(wrong("end", "it is before the start"));
        }
        let order = match params.get("order").unwrap_or("newest") {
            "newest" => Order::Newest,
            "slowest" => Order::Slowest,
            other => return Err(wrong("order", &format!("{other:?} is neither newest nor slowest"))),
        };
        let min_ms: f64 = match params.get("min_ms").unwrap_or("0").parse() {
            Ok(ms) if (0.0..=1e15).contains(&ms) => ms,
            _ => return Err(wrong("min_ms", "give milliseconds, such as 1.5")),
        };
        let cursor = match params.get("cursor") {
            None => None,
            Some(_) if order == Order::Slowest => {
                return Err(wrong("cursor", "\"slowest\" has no cursor; give a larger limit or a shorter range"));
            }
            Some(text) => Some(Cursor::parse(text).ok_or_else(|| wrong("cursor", "give the answer's next"))?),
        };
        let limit = match params.limit()? {
            usize::MAX => TRACES_USUAL,
            limit => limit.min(TRACES_MAX),
        };
        let range = TimeRange { start, end };
        Ok(Self { selectors, range, order, limit, shortest: Ns((min_ms * 1e6) as i64), cursor })
    }

    fn read(&self, store: &dyn Reader, cancel: &Cancel) -> Result<(Traces, BTreeMap<Labels, Labels>), ApiError> {
        let series = series::wanted(cancel, store, &self.selectors, self.range)?;
        let mut out = Traces { series: series.len(), ..Traces::default() };
        let (range, cursor) = (self.range, self.cursor);
        let scan = Scan { store, cancel, series: &series, range, direction: Direction::Backward, cursor, words: None };
        let missing = scan.run(|found, here| {
            if out.examined == EXAMINED_MAX || (self.order == Order::Newest && out.list.len() == self.limit) {
                out.next = Some(here);
                return ControlFlow::Break(());
            }
            self.take(&mut out, ParsedText::new(found));
            ControlFlow::Continue(())
        })?;
        whole(missing)?;
        self.cut(&mut out);
        let named = out.list.iter().map(|read| read.found.labels.clone()).collect();
        Ok((out, series::explained(cancel, store, &named, self.range)?))
    }

    fn take(&self, out: &mut Traces, read: ParsedText) {
        out.examined += 1;
        out.invalid += usize::from(read.trace.is_err());
        if read.total().is_none_or(|total| total >= self.shortest) {
            out.list.push(read);
        }
        if out.list.len() >= 2 * TRACES_MAX {
            self.cut(out);
        }
    }

    /// Keeps what the answer has room for.
    fn cut(&self, out: &mut Traces) {
        if self.order == Order::Slowest {
            out.list.sort_by_key(|read| std::cmp::Reverse(read.total()));
        }
        out.list.truncate(self.limit);
    }
}

pub(super) async fn get(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let (wanted, timeout) = (TraceFilter::new(&app, &params)?, params.duration("timeout")?);
    let answer = ask(&app, timeout, move |app, cancel| {
        let (traces, explained) = wanted.read(&*app.backend.of(&params.tenant), cancel)?;
        Ok(answer::document(&wanted, &traces, &explained))
    });
    Ok(json(StatusCode::OK, answer.await?))
}

/// `{"series", "complete", "columns": [[t, count], ...]}`: only columns that have slow traces.
pub(super) async fn columns(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let (start, end, step) = prometheus::range(&params)?;
    let (selectors, timeout) = (series::selectors(params.need("query")?)?, params.duration("timeout")?);
    let answer = ask(&app, timeout, move |app, cancel| {
        let range = TimeRange { start: start.saturating_sub(step), end };
        let store = app.backend.of(&params.tenant);
        let series = series::wanted(cancel, &*store, &selectors, range)?;
        let (mut counts, mut examined, mut complete) = (BTreeMap::<WallMs, u64>::new(), 0, true);
        let each = |found: FoundText, _| {
            if examined == EXAMINED_MAX {
                complete = false;
                return ControlFlow::Break(());
            }
            examined += 1;
            *counts.entry(column_end(found.time, start, step)).or_default() += 1;
            ControlFlow::Continue(())
        };
        let (store, direction) = (&*store, Direction::Backward);
        whole(Scan { store, cancel, series: &series, range, direction, cursor: None, words: None }.run(each)?)?;
        Ok(counted(series.len(), &counts, complete))
    });
    Ok(json(StatusCode::OK, answer.await?))
}

fn counted(series: usize, counts: &BTreeMap<WallMs, u64>, complete: bool) -> Vec<u8> {
    let head = format!("{{\"status\":\"success\",\"data\":{{\"series\":{series},\"complete\":{complete},\"columns\":[");
    let mut out = head.into_bytes();
    for (at, (time, count)) in counts.iter().enumerate() {
        out.extend_from_slice(if at > 0 { b",[" } else { b"[" });
        prometheus_json::time(&mut out, time.0);
        out.extend_from_slice(format!(",{count}]").as_bytes());
    }
    out.extend_from_slice(b"]}}\n");
    out
}
