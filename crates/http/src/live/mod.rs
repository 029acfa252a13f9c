//! `/v1/live`: Server-Sent Events, one column for each second that has closed, and a correction when a second changed
//! afterwards.
//!
//! Invariants: a selector's column is read from closed live cells ([`ogive_storage::live`]); where they are not
//! certain, and for every other expression, the store answers the same. A second of which data may still come is
//! `unknown` or `partial`; each of the last [`SECONDS`] that becomes another one is sent again as it is, so that a
//! reader who applies every event has what the store has.
//! Threads: one small task a stream; a reader that is slow makes its own task wait and misses nothing until it is
//! [`BEHIND_MAX`] behind, then seconds are left out.
//! Limits: [`Limits::STREAMS`](super::Limits::STREAMS) streams; one more takes the place of another
//! ([`super::streams`]). A second is read when it has closed, [`LATENESS_MS`] after its end unless configured; its
//! closing is waited for [`CLOSING`] at the most. What came late to a stream that the store answers is looked for after
//! twenty times what looking took.
//! Failure: a wrong expression is an `error` event and the end of the stream.

mod seconds;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use ogive_model::{Ms, Ns, WallMs, WallNs};
use tokio::sync::mpsc;

use super::App;
use super::ask::{ask, blocking};
use super::columns::ColumnQuery;
use super::error::ApiError;
use super::groups::Choice;
use super::heatmap::quantiles;
use super::merged::Merged;
use super::params::Params;
use super::peer::Asker;
use super::streams::Guard;
use ogive_storage::live::{Answer, LATENESS_MS, Reading, SECONDS, SecondState, StreamSeries};
pub(super) use seconds::{SECOND, second_end};
use seconds::{Second, Seconds};

/// 100 ms: a worker of the cells that has not finished by then is starved of CPU, and the store is queried.
const CLOSING: Duration = Duration::from_millis(100);

/// 60 seconds are caught up with; a reader that was away for longer requests a heat map.
const BEHIND_MAX: Ms = Ms::from_secs(60);

/// A comment every 15 s keeps proxies from closing an idle stream.
const KEEP_ALIVE_SECONDS: i64 = 15;

/// 10 s until seconds that were too large to read are queried again.
const PAUSE: Ns = Ns::from_secs(10);

pub(super) async fn get(
    State(app): State<App>,
    asker: Option<Extension<Asker>>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, ApiError> {
    let after = last_event(&headers)?;
    let wanted = ColumnQuery {
        query: params.need("query")?.to_owned(),
        start: WallMs(0),
        end: WallMs(0),
        step: SECOND,
        quantiles: quantiles(&params)?,
        tenant: params.tenant.clone(),
        resolution: None,
        choice: Choice::from_params(&params)?,
        fit: false,
    };
    let guard = Guard::new(&app, asker, &headers, &wanted.tenant);
    // 4 events: as many as one slow write may leave waiting.
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        let work = async { ColumnStream::new(app, wanted).await.run(after, &sender).await };
        guard.run(sender.clone(), work).await;
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    Ok((StatusCode::OK, headers, Body::from_stream(Events(receiver))).into_response())
}

/// The events of the task, as a body.
pub(super) struct Events(mpsc::Receiver<Bytes>);

impl Events {
    pub(super) const fn new(receiver: mpsc::Receiver<Bytes>) -> Self {
        Self(receiver)
    }
}

impl Stream for Events {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|piece| piece.map(Ok))
    }
}

/// The second of the last event that a reader received before it was disconnected: browsers send it automatically.
pub(super) fn last_event(headers: &HeaderMap) -> Result<Option<i64>, ApiError> {
    let Some(value) = headers.get("last-event-id").filter(|value| !value.is_empty()) else { return Ok(None) };
    let second = value.to_str().ok().and_then(|text| text.parse::<i64>().ok());
    let second = second.filter(|second| (0..=i64::from(u32::MAX)).contains(second));
    let wrong = || ApiError::bad_data("invalid header Last-Event-ID: send the id of an event as it came");
    second.map(Some).ok_or_else(wrong)
}

/// What a stream has sent.
struct ColumnStream {
    app: App,
    wanted: ColumnQuery,
    reading: Option<Reading>,
    /// The last change of the reading that was looked at.
    seen: u64,
    /// What was sent for each second: a hash of its event, what was known, and whether it had samples.
    sent: BTreeMap<WallMs, (u64, SecondState, bool)>,
    /// The progress of the series that the store answers for.
    heard: StreamSeries<u64>,
    /// When the store is next queried for late data.
    due: WallNs,
}

/// What becomes of a stream.
enum Next {
    Goes,
    Ends,
}

impl ColumnStream {
    async fn new(app: App, wanted: ColumnQuery) -> Self {
        let reading = watch(&app, &wanted).await;
        let (sent, heard) = (BTreeMap::new(), StreamSeries::default());
        Self { app, wanted, reading, seen: 0, sent, heard, due: WallNs::MIN }
    }

    /// Sends events until the reader disconnects or the server stops.
    async fn run(mut self, after: Option<i64>, sender: &mpsc::Sender<Bytes>) {
        let mut ending = self.app.ending.clone();
        let closed = closed_second(&self.app);
        let begin = after.map_or(closed, |after| second_end(after + 1));
        let mut second = begin.clamp(closed - BEHIND_MAX, closed + SECOND);
        // What is too large for two minutes may be possible for a second.
        if let Err(error) = self.baseline(second, after.is_some(), sender).await
            && error.status == StatusCode::BAD_REQUEST
        {
            return refuse(&error, sender).await;
        }
        loop {
            let wait = (second + lateness(&self.app)).to_ns() - self.app.wall();
            let pause = tokio::time::sleep(wait.to_duration());
            tokio::select! {
                () = pause => {}
                _ = ending.wait_for(|ending| *ending) => return,
                () = sender.closed() => return,
            }
            let outcome = match self.column(second, sender).await {
                Ok(Next::Goes) => self.corrections(second, sender).await,
                other => other,
            };
            match outcome {
                Ok(Next::Goes) => {}
                Ok(Next::Ends) => return,
                // Full or slow for the moment: this second is left out, the next may do.
                Err(error) if is_passing(&error) => {
                    let comment = format!(": {}\n\n", error.message.replace('\n', " "));
                    if sender.send(comment.into()).await.is_err() {
                        return;
                    }
                }
                Err(error) => return refuse(&error, sender).await,
            }
            let is_due = second.to_secs() % KEEP_ALIVE_SECONDS == 0;
            if is_due && sender.send(Bytes::from_static(b":\n\n")).await.is_err() {
                return;
            }
            second = (second + SECOND).max(closed_second(&self.app) - BEHIND_MAX);
        }
    }

    /// Records the seconds before the first one. A reader that reconnects gets them again: they may have changed
    /// meanwhile.
    async fn baseline(&mut self, first: WallMs, is_again: bool, sender: &mpsc::Sender<Bytes>) -> Result<(), ApiError> {
        let (from, to) = (first - SECOND * SECONDS, first - SECOND);
        let found = self.read(from, to).await?;
        self.note(&found, to);
        if let Some(reading) = &self.reading {
            self.seen = reading.changes(0).1;
        }
        for (time, second) in &found.by_time {
            let known = self.known(*time, to, second, found.is_selector);
            let data = self.remember(*time, second, known);
            if let Some(data) = data.filter(|_| is_again) {
                let _ = sender.send(event("correction", None, &data)).await;
            }
        }
        Ok(())
    }

    async fn read(&self, start: WallMs, end: WallMs) -> Result<Seconds, ApiError> {
        let wanted = ColumnQuery { start, end, ..self.wanted.clone() };
        ask(&self.app, Some(SECOND * 10), move |app, cancel| seconds::read(app, &wanted, cancel)).await
    }

    fn note(&mut self, found: &Seconds, now: WallMs) {
        for (series, newest, is_wide) in &found.heard {
            self.heard.note(*series, *newest, now.to_secs(), *is_wide);
        }
        self.heard.forget(now.to_secs());
    }

    fn known(&self, time: WallMs, now: WallMs, second: &Second, is_selector: bool) -> SecondState {
        let has_samples = second.has_samples();
        match &self.reading {
            Some(reading) => reading.known(time.to_secs(), has_samples),
            None if is_selector => self.heard.known(time.to_secs(), now.to_secs(), has_samples),
            None if has_samples => SecondState::Whole,
            None => SecondState::Unknown,
        }
    }

    /// The data of a second's event, if it differs from what was last sent.
    fn remember(&mut self, time: WallMs, second: &Second, known: SecondState) -> Option<Vec<u8>> {
        let data = second.json(time, known, &self.wanted.quantiles);
        let mut hasher = DefaultHasher::new();
        hasher.write(&data);
        let now = (hasher.finish(), known, second.has_samples());
        (self.sent.insert(time, now) != Some(now)).then_some(data)
    }

    /// Sends the column of a second that closed.
    async fn column(&mut self, time: WallMs, sender: &mpsc::Sender<Bytes>) -> Result<Next, ApiError> {
        let (second, is_selector) = match self.of_cells(time).await {
            Some(second) => (second, true),
            None => {
                let mut found = self.read(time, time).await?;
                self.note(&found, time);
                (found.by_time.remove(&time).unwrap_or_default(), found.is_selector)
            }
        };
        let known = self.known(time, time, &second, is_selector);
        let data = second.json(time, known, &self.wanted.quantiles);
        self.remember(time, &second, known);
        self.sent = self.sent.split_off(&(time - SECOND * SECONDS));
        let sent = sender.send(event("column", Some(time.to_secs()), &data)).await;
        Ok(if sent.is_ok() { Next::Goes } else { Next::Ends })
    }

    /// Sends the seconds that changed since they were sent.
    async fn corrections(&mut self, now: WallMs, sender: &mpsc::Sender<Bytes>) -> Result<Next, ApiError> {
        let oldest = now - SECOND * (SECONDS - 1);
        let Some((from, to, seen)) = self.changed(now) else { return Ok(Next::Goes) };
        let (from, to) = (from.max(oldest), to.min(now));
        if from > to {
            return Ok(Next::Goes);
        }
        let began = self.app.wall();
        let found = self.read(from, to).await;
        let ended = self.app.wall();
        self.due = ended + (ended - began).max(Ns::ZERO) * 20;
        let mut found = match found {
            Ok(found) => found,
            Err(error) => {
                // What is too large now is queried again when it may be smaller; the columns continue.
                self.due = self.due.max(ended + PAUSE);
                return Err(ApiError::busy(format!("late seconds cannot be read: {}", error.message)));
            }
        };
        self.seen = seen;
        self.note(&found, now);
        for time in (from.0..=to.0).step_by(SECOND.0 as usize).map(WallMs) {
            let second = found.by_time.remove(&time).unwrap_or_default();
            // For empty seconds from before the stream, nothing was ever sent.
            if !second.has_samples() && !self.sent.contains_key(&time) {
                continue;
            }
            let known = self.known(time, now, &second, found.is_selector);
            let Some(data) = self.remember(time, &second, known) else { continue };
            if sender.send(event("correction", None, &data)).await.is_err() {
                return Ok(Next::Ends);
            }
        }
        Ok(Next::Goes)
    }

    /// First and last of the seconds that may have changed, and the change number that this covers.
    fn changed(&self, now: WallMs) -> Option<(WallMs, WallMs, u64)> {
        let Some(reading) = &self.reading else {
            // When behind, the present comes first.
            let is_due = self.app.wall() >= self.due && now >= closed_second(&self.app);
            return is_due.then_some((now - SECOND * (SECONDS - 1), now, 0));
        };
        if self.app.wall() < self.due {
            return None;
        }
        let (changed, seen) = reading.changes(self.seen);
        let moved = |(time, (_, known, has_samples)): (&WallMs, &(u64, SecondState, bool))| {
            (reading.known(time.to_secs(), *has_samples) != *known).then_some(*time)
        };
        let moved = self.sent.iter().filter_map(moved);
        let changed = changed.into_iter().flat_map(|(first, last)| [second_end(first), second_end(last)]);
        let widest = |(a, b): (WallMs, WallMs), time| (a.min(time), b.max(time));
        let (first, last) = moved.chain(changed).fold((WallMs::MAX, WallMs::MIN), widest);
        (first <= last).then_some((first, last, seen))
    }

    /// A second from closed cells, if they are certain. A watch that never is certain ends.
    async fn of_cells(&mut self, time: WallMs) -> Option<Second> {
        let answer = match &self.reading {
            Some(reading) => reading.second(time.to_secs(), CLOSING).await,
            None => Answer::Ask(None),
        };
        let counts = self.app.live.as_ref().map(|live| live.counts().clone());
        match answer {
            Answer::Column(sum) => {
                counts.iter().for_each(|counts| counts.cells.add(1));
                Some(Second::new(sum.map(|sum| Merged::Integer(*sum))))
            }
            Answer::Open | Answer::Ask(_) => {
                counts.iter().for_each(|counts| counts.requested.add(1));
                if let Answer::Ask(Some(_)) = answer {
                    self.reading = None;
                }
                None
            }
        }
    }
}

/// An error that may no longer occur in a second.
fn is_passing(error: &ApiError) -> bool {
    error.status.is_server_error() || error.status == StatusCode::TOO_MANY_REQUESTS
}

async fn refuse(error: &ApiError, sender: &mpsc::Sender<Bytes>) {
    let data = serde_json::json!({"error": error.message}).to_string();
    let _ = sender.send(event("error", None, data.as_bytes())).await;
}

pub(super) fn event(name: &str, id: Option<i64>, data: &[u8]) -> Bytes {
    let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    let mut out = format!("event: {name}\n{id}data: ").into_bytes();
    out.extend_from_slice(data);
    out.extend_from_slice(b"\n\n");
    out.into()
}

/// Watches the series of a selector; None for other expressions.
async fn watch(app: &App, wanted: &ColumnQuery) -> Option<Reading> {
    let live = app.live.clone()?;
    let expr = ogive_query::parse(&wanted.query).ok()?;
    let matchers = expr.plain_selector()?.to_vec();
    let (query, tenant) = (wanted.query.clone(), wanted.tenant.clone());
    let watched = blocking("the live stream", move || Ok(live.watch(&tenant, &query, &matchers))).await;
    // Without one the store answers.
    watched.ok().flatten()
}

fn lateness(app: &App) -> Ms {
    app.live.as_ref().map_or(Ms::from(LATENESS_MS), |live| live.lateness())
}

/// The last second that is complete, with the lateness allowed.
fn closed_second(app: &App) -> WallMs {
    (app.now() - lateness(app)).align_down(SECOND)
}
