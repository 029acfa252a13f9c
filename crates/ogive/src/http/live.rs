//! `/v1/live`: Server-Sent Events, one column for each second that has closed.
//!
//! Invariants: a selector's column is read from closed live cells ([`crate::live`]); where they are not certain, and for every other expression, the
//! store answers the same.
//! Threads: one small task a stream; a reader that is slow makes its own task wait and misses nothing until it is
//! [`BEHIND_MS_MAX`] behind, then seconds are left out.
//! Limits: [`Limits::STREAMS`](super::Limits::STREAMS) streams. A second is read when it has closed, [`LATENESS_MS`] after its end unless configured; its closing is waited
//! for [`CLOSING`] at the most.
//! Failure: a wrong expression is an `error` event and the end of the stream.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use tokio::sync::mpsc;

use super::App;
use super::ask::{ask, blocking};
use super::columns::{self, Merged, Wanted};
use super::error::ApiError;
use super::heatmap::quantiles;
use super::params::Params;
use crate::live::{Answer, LATENESS_MS, Reading};

/// 100 ms: a worker of the cells that is not back by then is starved of CPU, and the store is asked.
const CLOSING: Duration = Duration::from_millis(100);

/// 60 seconds are caught up with; who slept longer asks for a heat map.
const BEHIND_MS_MAX: i64 = 60_000;

/// A comment each 15 s keeps proxies from closing a stream that has nothing to say.
const KEEP_ALIVE_SECONDS: i64 = 15;

const SECOND_MS: i64 = 1_000;

pub(super) async fn get(State(app): State<App>, headers: HeaderMap, params: Params) -> Result<Response, ApiError> {
    let after = last_event(&headers)?;
    let wanted = Wanted {
        query: params.need("query")?.to_owned(),
        start_ms: 0,
        end_ms: 0,
        step_ms: SECOND_MS,
        quantiles: quantiles(&params)?,
        tenant: params.tenant.clone(),
        resolution: None,
    };
    let place = app
        .limits
        .streams
        .clone()
        .try_acquire_owned()
        .map_err(|_| ApiError::busy("too many live streams are open; close one or try again later"))?;
    // 4 events: what one slow write may leave waiting.
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        let _place = place;
        tell(&app, wanted, after, &sender).await;
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    Ok((StatusCode::OK, headers, Body::from_stream(Events(receiver))).into_response())
}

/// What the task says, as a body.
struct Events(mpsc::Receiver<Bytes>);

impl Stream for Events {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|piece| piece.map(Ok))
    }
}

/// The second of the last event that a reader has, who was cut off: browsers send it by themselves.
fn last_event(headers: &HeaderMap) -> Result<Option<i64>, ApiError> {
    let Some(value) = headers.get("last-event-id").filter(|value| !value.is_empty()) else { return Ok(None) };
    let second = value.to_str().ok().and_then(|text| text.parse::<i64>().ok());
    let second = second.filter(|second| (0..=i64::from(u32::MAX)).contains(second));
    let wrong = || ApiError::bad_data("invalid header Last-Event-ID: send the id of an event as it came");
    second.map(Some).ok_or_else(wrong)
}

/// Sends events until the reader or the server goes.
async fn tell(app: &App, mut wanted: Wanted, after: Option<i64>, sender: &mpsc::Sender<Bytes>) {
    let mut ending = app.ending.clone();
    let mut reading = watch(app, &wanted).await;
    let closed = closed_second(app);
    let mut second =
        after.map_or(closed, |after| (after + 1) * SECOND_MS).clamp(closed - BEHIND_MS_MAX, closed + SECOND_MS);
    loop {
        let wait = (second + lateness_ms(app)) * 1_000_000 - app.clock.wall();
        let pause = tokio::time::sleep(Duration::from_nanos(u64::try_from(wait).unwrap_or(0)));
        tokio::select! {
            () = pause => {}
            _ = ending.wait_for(|ending| *ending) => return,
            () = sender.closed() => return,
        }
        (wanted.start_ms, wanted.end_ms) = (second, second);
        let (text, goes_on) = match of_cells(app, &mut reading, &wanted).await {
            Some(text) => (text, true),
            None => event(app, &wanted).await,
        };
        if sender.send(text.into()).await.is_err() || !goes_on {
            return;
        }
        if second / SECOND_MS % KEEP_ALIVE_SECONDS == 0 && sender.send(Bytes::from_static(b":\n\n")).await.is_err() {
            return;
        }
        second = (second + SECOND_MS).max(closed_second(app) - BEHIND_MS_MAX);
    }
}

/// Watches what a selector selects; none of other expressions.
async fn watch(app: &App, wanted: &Wanted) -> Option<Reading> {
    let live = app.backend.live()?;
    let expr = ogive_query::parse(&wanted.query).ok()?;
    let matchers = columns::plain_selector(&expr)?.to_vec();
    let (query, tenant) = (wanted.query.clone(), wanted.tenant.clone());
    let watched = blocking("the live stream", move || Ok(live.watch(&tenant, &query, &matchers))).await;
    // Without one the store answers.
    watched.ok().flatten()
}

/// The event of one second from closed cells, when they are certain. A watch that never is ends.
async fn of_cells(app: &App, reading: &mut Option<Reading>, wanted: &Wanted) -> Option<Vec<u8>> {
    let answer = match reading {
        Some(reading) => reading.second(wanted.end_ms / SECOND_MS, CLOSING).await,
        None => Answer::Ask(None),
    };
    let counts = app.backend.live().map(|live| live.counts().clone());
    match answer {
        Answer::Column(sum) => {
            counts.iter().for_each(|counts| counts.cells.add(1));
            Some(column(wanted, sum.map(|sum| Merged::Integer(*sum)).as_ref()))
        }
        Answer::Open | Answer::Ask(_) => {
            counts.iter().for_each(|counts| counts.asked.add(1));
            if let Answer::Ask(Some(_)) = answer {
                *reading = None;
            }
            None
        }
    }
}

fn lateness_ms(app: &App) -> i64 {
    app.backend.live().map_or(i64::from(LATENESS_MS), |live| live.lateness_ms())
}

/// The last second that is complete, with the lateness allowed.
fn closed_second(app: &App) -> i64 {
    (app.clock.wall().div_euclid(1_000_000) - lateness_ms(app)).div_euclid(SECOND_MS) * SECOND_MS
}

fn column(wanted: &Wanted, sum: Option<&Merged>) -> Vec<u8> {
    let mut out = format!("event: column\nid: {}\ndata: ", wanted.end_ms / SECOND_MS).into_bytes();
    columns::column(&mut out, wanted.end_ms, sum, &wanted.quantiles);
    out.extend_from_slice(b"\n\n");
    out
}

/// The event of one second; false when it is the last one.
async fn event(app: &App, wanted: &Wanted) -> (Vec<u8>, bool) {
    let asked = wanted.clone();
    let answer = ask(app, Some(10 * SECOND_MS), move |app, cancel| {
        let columns = columns::columns(app, &asked, cancel)?;
        Ok(column(&asked, columns.by_time.get(&asked.end_ms)))
    });
    match answer.await {
        Ok(out) => (out, true),
        // Full or slow for the moment: this second is left out, the next may do.
        Err(error) if error.status.is_server_error() || error.status == StatusCode::TOO_MANY_REQUESTS => {
            (format!(": {}\n\n", error.message.replace('\n', " ")).into_bytes(), true)
        }
        Err(error) => {
            let data = serde_json::json!({"error": error.message});
            (format!("event: error\ndata: {data}\n\n").into_bytes(), false)
        }
    }
}
