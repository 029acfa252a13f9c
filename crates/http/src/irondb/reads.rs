//! What reads one stream: `/raw`, `/rollup`, `/histogram`, `/read`.

use std::ops::Range;

use axum::extract::{Request, State};
use axum::response::Response;
use ogive_hist::Histogram;
use ogive_irondb::df4::histogram_object;
use ogive_irondb::identity::Identity;
use ogive_irondb::rollup::{FIELDS, Rollup, rollups};
use ogive_model::{Ms, WallMs};
use ogive_text::duration::seconds_or_units_ms;
use serde_json::{Map, Value as Json, json};

use super::answer::{self, number, seconds};
use super::paths::{self, AccountRequest, instant, periods};
use super::streams::{self, Stream};
use crate::App;
use crate::ask::{Cancel, ask};
use crate::error::ApiError;

/// 5 minutes before a range: from where its first number changes.
pub(super) const BEFORE: Ms = Ms::from_secs(300);

/// Reads on a blocking thread, and answers with the result of `work`.
async fn answered(
    app: App,
    request: Request,
    work: impl FnOnce(&App, &Cancel, &AccountRequest) -> Result<Json, ApiError> + Send + 'static,
) -> Response {
    let asked = match AccountRequest::new(&request) {
        Ok(asked) => asked,
        Err(error) => return answer::refusal(&error),
    };
    let timeout = asked.timeout;
    answer::from_result(ask(&app, timeout, move |app, cancel| work(app, cancel, &asked)).await)
}

pub(super) async fn raw(State(app): State<App>, request: Request) -> Response {
    answered(app, request, |app, cancel, asked| {
        let [_, uuid, name] = asked.parts(3)[..] else { return Err(ApiError::bad_data("ask for /raw/UUID/METRIC")) };
        let (start, end) = range(asked)?;
        let streams = paths::streams(uuid, name)?;
        // Here the end is part of the range.
        let range = start..end.saturating_add(Ms(1));
        let found = streams::read_one(app, cancel, &asked.tenant, &streams, range)?;
        let rows = found.points.iter().take(asked.limit);
        Ok(rows.map(|point| json!([point.time_ms, number(point.value)])).collect())
    })
    .await
}

fn range(asked: &AccountRequest) -> Result<(WallMs, WallMs), ApiError> {
    let of = |name: &str| instant(asked.params.need(name)?, name);
    Ok((of("start_ts")?, of("end_ts")?))
}

pub(super) async fn rollup(State(app): State<App>, request: Request) -> Response {
    answered(app, request, |app, cancel, asked| {
        let [_, uuid, name] = asked.parts(3)[..] else { return Err(ApiError::bad_data("ask for /rollup/UUID/METRIC")) };
        let (start, end) = range(asked)?;
        let span = asked.params.need("rollup_span")?;
        let period = seconds_or_units_ms(span).map(Ms).filter(|period| *period > Ms::ZERO);
        let period = period.ok_or_else(|| ApiError::bad_data(format!("rollup_span {span:?} is not such as 60s")))?;
        let kind = asked.params.get("type").unwrap_or("average");
        let streams = paths::streams(uuid, name)?;
        let found = numbers(app, cancel, asked, &streams, start..end, period)?;
        let rows = found.iter().take(asked.limit).enumerate();
        let row = |(at, found): (usize, &Option<Rollup>)| {
            let time = seconds((start + period * at as i64).0);
            Ok(json!([time, found.as_ref().map_or(Ok(Json::Null), |found| field(found, kind))?]))
        };
        rows.map(row).collect()
    })
    .await
}

/// The rollups of a stream in a range.
fn numbers(
    app: &App,
    cancel: &Cancel,
    asked: &AccountRequest,
    streams: &[Identity],
    range: Range<WallMs>,
    period: Ms,
) -> Result<Vec<Option<Rollup>>, ApiError> {
    let start = range.start;
    let count = periods(start, range.end, period)?;
    let range = start.saturating_sub(BEFORE)..range.end;
    let found = streams::read_one(app, cancel, &asked.tenant, streams, range)?;
    Ok(rollups(&found.numbers(), start.0, period.0, count))
}

/// One field, or an object of all.
fn field(rollup: &Rollup, kind: &str) -> Result<Json, ApiError> {
    if kind == "all" {
        let all = FIELDS.iter().map(|(_, name)| ((*name).to_owned(), rollup.field(name).map_or(Json::Null, number)));
        return Ok(Json::Object(all.collect::<Map<_, _>>()));
    }
    let wrong = || ApiError::bad_data(format!("the type {kind:?} is not known; ask for average, count or all"));
    rollup.field(kind).map(number).ok_or_else(wrong)
}

pub(super) async fn histogram(State(app): State<App>, request: Request) -> Response {
    answered(app, request, |app, cancel, asked| {
        let [_, start, end, period, uuid, name] = asked.parts(6)[..] else {
            return Err(ApiError::bad_data("ask for /histogram/START/END/PERIOD/UUID/METRIC"));
        };
        let (start, end) = (instant(start, "the start")?, instant(end, "the end")?);
        let period = paths::span(period, "the period")?;
        let count = periods(start, end, period)?;
        let streams = paths::streams(uuid, name)?;
        let found = streams::read_one(app, cancel, &asked.tenant, &streams, start..end)?;
        let merged = merged(&found, start, period, count);
        let rows = merged.iter().enumerate().filter_map(|(at, histogram)| Some((at, histogram.as_ref()?)));
        let row = |(at, histogram): (usize, &Histogram<u64>)| {
            let time = seconds((start + period * at as i64).0);
            json!([time, seconds(period.0), histogram_object(histogram)])
        };
        Ok(rows.take(asked.limit).map(row).collect())
    })
    .await
}

/// The histogram of each period that has one.
fn merged(stream: &Stream, start: WallMs, period: Ms, count: usize) -> Vec<Option<Histogram<u64>>> {
    let mut out: Vec<Option<Histogram<u64>>> = vec![None; count];
    for (time_ms, histogram) in &stream.histograms {
        let at = usize::try_from((time_ms - start.0).div_euclid(period.0)).ok();
        let Some(place) = at.and_then(|at| out.get_mut(at)) else { continue };
        match place {
            None => *place = Some(histogram.clone()),
            Some(all) => all.merge(histogram).expect("all are of one scheme"),
        }
    }
    out
}

pub(super) async fn read(State(app): State<App>, request: Request) -> Response {
    answered(app, request, |app, cancel, asked| {
        let parts = asked.parts(7);
        match parts[..] {
            [_, start, end, uuid, ..] if ogive_irondb::httptrap::parse_uuid(uuid).is_some() => {
                let name = asked.parts(5).get(4).copied().unwrap_or_default();
                texts(app, cancel, asked, start, end, uuid, name)
            }
            [_, start, end, period, uuid, kind, name] => {
                let (start, end) = (instant(start, "the start")?, instant(end, "the end")?);
                let period = paths::span(period, "the period")?;
                let streams = paths::streams(uuid, name)?;
                let found = numbers(app, cancel, asked, &streams, start..end, period)?;
                let rows = found.iter().enumerate().filter_map(|(at, found)| Some((at, found.as_ref()?)));
                let row = |(at, found): (usize, &Rollup)| {
                    Ok(json!([seconds((start + period * at as i64).0), field(found, kind)?]))
                };
                rows.map(row).collect()
            }
            _ => Err(ApiError::bad_data(
                "ask for /read/START/END/UUID/METRIC or /read/START/END/PERIOD/UUID/TYPE/METRIC",
            )),
        }
    })
    .await
}

/// The text before the range, and each that differs from its predecessor.
fn texts(
    app: &App,
    cancel: &Cancel,
    asked: &AccountRequest,
    start: &str,
    end: &str,
    uuid: &str,
    name: &str,
) -> Result<Json, ApiError> {
    let (start, end) = (instant(start, "the start")?, instant(end, "the end")?);
    let streams = paths::streams(uuid, name)?;
    let range = TEXT_BEFORE.max(start.saturating_sub(YEAR))..end;
    let found = streams::read_one(app, cancel, &asked.tenant, &streams, range)?;
    let mut changes: Vec<&(i64, String)> = found.texts.iter().collect();
    changes.dedup_by(|later, earlier| later.1 == earlier.1);
    let first = changes.partition_point(|(time_ms, _)| *time_ms < start.0).saturating_sub(1);
    let rows = changes[first..].iter().take(asked.limit);
    Ok(rows.map(|(time_ms, text)| json!([seconds(*time_ms), text])).collect())
}

/// A year before a range: how far the text that is valid at its start is searched for.
const YEAR: Ms = Ms::from_secs(365 * 86_400);
/// 1970.
const TEXT_BEFORE: WallMs = WallMs(0);
