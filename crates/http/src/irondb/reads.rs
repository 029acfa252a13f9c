//! What reads one stream: `/raw`, `/rollup`, `/histogram`, `/read`.

use axum::extract::{Request, State};
use axum::response::Response;
use ogive_hist::Histogram;
use ogive_irondb::df4::histogram_object;
use ogive_irondb::identity::Identity;
use ogive_irondb::rollup::{FIELDS, Rollup, rollups};
use ogive_text::duration::seconds_or_units_ms;
use serde_json::{Map, Value as Json, json};

use super::answer::{self, number, seconds};
use super::paths::{self, AccountRequest, milliseconds, periods};
use super::streams::{self, Stream};
use crate::App;
use crate::ask::{Cancel, ask};
use crate::error::ApiError;

/// 5 minutes before a range: from where its first number changes.
pub(super) const BEFORE_MS: i64 = 300_000;

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
    answer::of(ask(&app, timeout, move |app, cancel| work(app, cancel, &asked)).await)
}

pub(super) async fn raw(State(app): State<App>, request: Request) -> Response {
    answered(app, request, |app, cancel, asked| {
        let [_, uuid, name] = asked.parts(3)[..] else { return Err(ApiError::bad_data("ask for /raw/UUID/METRIC")) };
        let (start_ms, end_ms) = range(asked)?;
        let streams = paths::streams(uuid, name)?;
        let found = streams::read_one(app, cancel, &asked.tenant, &streams, start_ms, end_ms.saturating_add(1))?;
        let rows = found.points.iter().take(asked.limit);
        Ok(rows.map(|point| json!([point.time_ms, number(point.value)])).collect())
    })
    .await
}

fn range(asked: &AccountRequest) -> Result<(i64, i64), ApiError> {
    let of = |name: &str| milliseconds(asked.params.need(name)?, name);
    Ok((of("start_ts")?, of("end_ts")?))
}

pub(super) async fn rollup(State(app): State<App>, request: Request) -> Response {
    answered(app, request, |app, cancel, asked| {
        let [_, uuid, name] = asked.parts(3)[..] else { return Err(ApiError::bad_data("ask for /rollup/UUID/METRIC")) };
        let (start_ms, end_ms) = range(asked)?;
        let span = asked.params.need("rollup_span")?;
        let period_ms = seconds_or_units_ms(span).filter(|ms| *ms > 0);
        let period_ms =
            period_ms.ok_or_else(|| ApiError::bad_data(format!("rollup_span {span:?} is not such as 60s")))?;
        let kind = asked.params.get("type").unwrap_or("average");
        let streams = paths::streams(uuid, name)?;
        let found = numbers(app, cancel, asked, &streams, start_ms, end_ms, period_ms)?;
        let rows = found.iter().take(asked.limit).enumerate();
        let row = |(at, found): (usize, &Option<Rollup>)| {
            let time = seconds(start_ms + period_ms * at as i64);
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
    start_ms: i64,
    end_ms: i64,
    period_ms: i64,
) -> Result<Vec<Option<Rollup>>, ApiError> {
    let count = periods(start_ms, end_ms, period_ms)?;
    let from_ms = start_ms.saturating_sub(BEFORE_MS);
    let found = streams::read_one(app, cancel, &asked.tenant, streams, from_ms, end_ms)?;
    Ok(rollups(&found.numbers(), start_ms, period_ms, count))
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
        let (start_ms, end_ms) = (milliseconds(start, "the start")?, milliseconds(end, "the end")?);
        let period_ms = milliseconds(period, "the period")?;
        let count = periods(start_ms, end_ms, period_ms)?;
        let streams = paths::streams(uuid, name)?;
        let found = streams::read_one(app, cancel, &asked.tenant, &streams, start_ms, end_ms)?;
        let merged = merged(&found, start_ms, period_ms, count);
        let rows = merged.iter().enumerate().filter_map(|(at, histogram)| Some((at, histogram.as_ref()?)));
        let row = |(at, histogram): (usize, &Histogram<u64>)| {
            json!([seconds(start_ms + period_ms * at as i64), seconds(period_ms), histogram_object(histogram)])
        };
        Ok(rows.take(asked.limit).map(row).collect())
    })
    .await
}

/// The histogram of each period that has one.
pub(super) fn merged(stream: &Stream, start_ms: i64, period_ms: i64, count: usize) -> Vec<Option<Histogram<u64>>> {
    let mut out: Vec<Option<Histogram<u64>>> = vec![None; count];
    for (time_ms, histogram) in &stream.histograms {
        let at = usize::try_from((time_ms - start_ms).div_euclid(period_ms)).ok();
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
                let (start_ms, end_ms) = (milliseconds(start, "the start")?, milliseconds(end, "the end")?);
                let period_ms = milliseconds(period, "the period")?;
                let streams = paths::streams(uuid, name)?;
                let found = numbers(app, cancel, asked, &streams, start_ms, end_ms, period_ms)?;
                let rows = found.iter().enumerate().filter_map(|(at, found)| Some((at, found.as_ref()?)));
                let row = |(at, found)| Ok(json!([seconds(start_ms + period_ms * at as i64), field(found, kind)?]));
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
    let (start_ms, end_ms) = (milliseconds(start, "the start")?, milliseconds(end, "the end")?);
    let streams = paths::streams(uuid, name)?;
    let found = streams::read_one(
        app,
        cancel,
        &asked.tenant,
        &streams,
        TEXT_BEFORE.max(start_ms.saturating_sub(YEAR_MS)),
        end_ms,
    )?;
    let mut changes: Vec<&(i64, String)> = found.texts.iter().collect();
    changes.dedup_by(|later, earlier| later.1 == earlier.1);
    let first = changes.partition_point(|(time_ms, _)| *time_ms < start_ms).saturating_sub(1);
    let rows = changes[first..].iter().take(asked.limit);
    Ok(rows.map(|(time_ms, text)| json!([seconds(*time_ms), text])).collect())
}

/// A year before a range: how far the text that is valid at its start is searched for.
const YEAR_MS: i64 = 365 * 86_400_000;
/// 1970.
const TEXT_BEFORE: i64 = 0;
