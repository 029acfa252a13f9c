//! `/v1/live`: Server-Sent Events, one column for each second that has closed.
//!
//! Threads: one small task a stream; a reader that is slow makes its own task wait and misses nothing until it is
//! [`BEHIND_MS_MAX`] behind, then seconds are left out.
//! Limits: [`Limits::STREAMS`](super::Limits::STREAMS) streams. A second is read [`LATENESS_MS`] after its end.
//! Failure: a wrong expression is an `error` event and the end of the stream.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use tokio::sync::mpsc;

use super::App;
use super::ask::ask;
use super::columns::{self, Wanted};
use super::error::ApiError;
use super::heatmap::quantiles;
use super::params::Params;

/// 250 ms: own cells arrive within some 20 ms of their end; a sender on the same network within a few more.
const LATENESS_MS: i64 = 250;

/// 60 seconds are caught up with; who slept longer asks for a heat map.
const BEHIND_MS_MAX: i64 = 60_000;

/// A comment each 15 s keeps proxies from closing a stream that has nothing to say.
const KEEP_ALIVE_SECONDS: i64 = 15;

const SECOND_MS: i64 = 1_000;

pub(super) async fn get(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
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
        tell(&app, wanted, &sender).await;
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

/// Sends events until the reader or the server goes.
async fn tell(app: &App, mut wanted: Wanted, sender: &mpsc::Sender<Bytes>) {
    let mut ending = app.ending.clone();
    let mut second = closed_second(app);
    loop {
        (wanted.start_ms, wanted.end_ms) = (second, second);
        let (text, goes_on) = event(app, &wanted).await;
        if sender.send(text.into()).await.is_err() || !goes_on {
            return;
        }
        if second / SECOND_MS % KEEP_ALIVE_SECONDS == 0 && sender.send(Bytes::from_static(b":\n\n")).await.is_err() {
            return;
        }
        second = (second + SECOND_MS).max(closed_second(app) - BEHIND_MS_MAX);
        let wait = (second + LATENESS_MS) * 1_000_000 - app.clock.wall();
        let pause = tokio::time::sleep(Duration::from_nanos(u64::try_from(wait).unwrap_or(0)));
        tokio::select! {
            () = pause => {}
            _ = ending.wait_for(|ending| *ending) => return,
            () = sender.closed() => return,
        }
    }
}

/// The last second that is complete, with the lateness allowed.
fn closed_second(app: &App) -> i64 {
    (app.clock.wall().div_euclid(1_000_000) - LATENESS_MS).div_euclid(SECOND_MS) * SECOND_MS
}

/// The event of one second; false when it is the last one.
async fn event(app: &App, wanted: &Wanted) -> (Vec<u8>, bool) {
    let asked = wanted.clone();
    let answer = ask(app, Some(10 * SECOND_MS), move |app, cancel| {
        let columns = columns::columns(app, &asked, cancel)?;
        let mut out = format!("event: column\nid: {}\ndata: ", asked.end_ms / SECOND_MS).into_bytes();
        columns::column(&mut out, asked.end_ms, columns.by_time.get(&asked.end_ms), &asked.quantiles);
        out.extend_from_slice(b"\n\n");
        Ok(out)
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
