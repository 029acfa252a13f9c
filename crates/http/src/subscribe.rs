//! `/v1/subscribe`: Server-Sent Events with each stored cell of a selector as its second closes, for programs
//! downstream.
//!
//! Format: `event: cell` and `event: correction` with one sample and its series, `event: watermark` with `id: SECOND`
//! behind everything of the seconds up to it that was there, `event: gap` where cells were left out. docs/stream.md has
//! the shapes.
//! Invariants: at least once: who applies every event by (labels, t), the later one wins, has what the store has. Who
//! was cut off goes on behind the watermark whose id it names, and hears of the [`SECONDS`] before again.
//! Threads: one small task a stream. Limits: those of [`super::live`]; [`CELLS_MAX`] cells of [`SECONDS`], [`BACK_MAX`]
//! back.
//! Failure: a wrong selector is a 400; more cells than may be are an `error` event and the end of the stream.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_model::{Matcher, Ms, Ns, Resolution, Selection, SeriesData, Tenant, TimeRange, WallMs, WallNs};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::App;
use super::ask::ask;
use super::catalog::selector;
use super::cells;
use super::error::ApiError;
use super::live::{Events, SECOND, event, last_event, second_end};
use super::params::Params;
use super::peer::Asker;
use super::streams::Guard;
use ogive_storage::live::SECONDS;

/// 200,000 cells of two minutes: 1,600 series each second, 16 bytes for each cell sent.
const CELLS_MAX: usize = 200_000;

/// An hour: a reader that was away for longer reads `/v1/cells`.
const BACK_MAX: Ms = Ms::from_secs(3_600);

/// A minute is read at once while catching up.
const CATCH_UP: Ms = Ms::from_secs(60);

/// A second is read 250 ms after its end unless the request says otherwise.
const LATENESS: Ms = Ms(250);

/// Cells that are written a minute after their end are corrections; a client that waits longer reads the store.
const LATENESS_MAX: Ms = Ms::from_secs(60);

pub(super) async fn get(
    State(app): State<App>,
    asker: Option<Extension<Asker>>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, ApiError> {
    let matchers = params.all("match[]").chain(params.all("match")).map(selector).collect::<Result<Vec<_>, _>>()?;
    if matchers.is_empty() {
        return Err(ApiError::bad_data("no match[] parameter provided; give a selector such as {ogive_cell=\"1s\"}"));
    }
    let lateness = params.duration("lateness")?.unwrap_or(LATENESS);
    if !(Ms::ZERO..=LATENESS_MAX).contains(&lateness) {
        return Err(ApiError::bad_data(format!(
            "invalid parameter \"lateness\": give a duration up to {} s",
            LATENESS_MAX / SECOND
        )));
    }
    let after = last_event(&headers)?;
    let guard = Guard::new(&app, asker, &headers, &params.tenant);
    // 64 events: cells of a second arrive together.
    let (sender, receiver) = mpsc::channel(64);
    tokio::spawn(async move {
        let (tenant, last) = (params.tenant.clone(), sender.clone());
        let (sent, due) = (BTreeMap::new(), WallNs::MIN);
        let subscription = Subscription { app, matchers, tenant, lateness, sent, due, sender };
        guard.run(last, subscription.run(after)).await;
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    Ok((StatusCode::OK, headers, Body::from_stream(Events::new(receiver))).into_response())
}

struct Subscription {
    app: App,
    matchers: Vec<Vec<Matcher>>,
    tenant: Tenant,
    lateness: Ms,
    /// What was sent: a hash of the cell, by time and series.
    sent: BTreeMap<(WallMs, u64), u64>,
    /// When late data is next searched for.
    due: WallNs,
    sender: mpsc::Sender<Bytes>,
}

/// The reader is gone, or nothing can be read.
struct Over;

impl Subscription {
    async fn run(mut self, after: Option<i64>) {
        let mut ending = self.app.ending.clone();
        let closed = self.closed();
        let oldest = closed - BACK_MAX;
        let begin = after.map_or(closed, second_end);
        if begin < oldest && self.send("gap", None, &gap(begin, oldest)).await.is_err() {
            return;
        }
        // After the last watermark that the reader received; what changed before it meanwhile is sent again.
        let mut until = begin.clamp(oldest, closed);
        let is_over = self.cells(until - SECOND * SECONDS, until, after.is_some()).await.is_err();
        if is_over || self.watermark(until).await.is_err() {
            return;
        }
        loop {
            let wait = (until + SECOND + self.lateness).to_ns() - self.app.wall();
            let ended = self.sender.clone();
            tokio::select! {
                () = tokio::time::sleep(wait.to_duration()) => {}
                _ = ending.wait_for(|ending| *ending) => return,
                () = ended.closed() => return,
            }
            let closed = self.closed();
            if closed <= until {
                continue;
            }
            let next = closed.min(until + CATCH_UP);
            let is_due = next == closed && self.app.wall() >= self.due;
            let from = if is_due { next - SECOND * SECONDS } else { until };
            let began = self.app.wall();
            if self.cells(from.min(until), next, true).await.is_err() {
                return;
            }
            if is_due {
                let ended = self.app.wall();
                self.due = ended + (ended - began).max(Ns::ZERO) * 20;
            }
            if self.watermark(next).await.is_err() {
                return;
            }
            until = next;
        }
    }

    /// The last second that is over, with the lateness allowed.
    fn closed(&self) -> WallMs {
        (self.app.now() - self.lateness).align_down(SECOND)
    }

    async fn send(&self, name: &str, id: Option<i64>, data: &Value) -> Result<(), Over> {
        self.sender.send(event(name, id, data.to_string().as_bytes())).await.map_err(|_| Over)
    }

    async fn watermark(&mut self, until: WallMs) -> Result<(), Over> {
        self.sent = self.sent.split_off(&(until - SECOND * (SECONDS + 1), 0));
        self.send("watermark", Some(until.to_secs()), &json!({"t": until.to_secs()})).await
    }

    /// Sends the cells of (from, to] that are new or have changed. Those from before the stream are only recorded.
    async fn cells(&mut self, from: WallMs, to: WallMs, is_sent: bool) -> Result<(), Over> {
        loop {
            let found = match self.read(from, to).await {
                Ok(found) => found,
                Err(error) if error.status.is_server_error() || error.status == StatusCode::TOO_MANY_REQUESTS => {
                    // The watermark waits for them.
                    self.comment(&error).await?;
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    continue;
                }
                Err(error) => {
                    self.send("error", None, &json!({"error": error.message})).await?;
                    return Err(Over);
                }
            };
            for (time, series, data) in found {
                let mut hasher = DefaultHasher::new();
                data.to_string().hash(&mut hasher);
                let hash = hasher.finish();
                let before = self.sent.insert((time, series), hash);
                if is_sent && before != Some(hash) {
                    let name = if before.is_some() { "correction" } else { "cell" };
                    self.send(name, None, &data).await?;
                }
            }
            return Ok(());
        }
    }

    async fn comment(&self, error: &ApiError) -> Result<(), Over> {
        let comment = format!(": {}\n\n", error.message.replace('\n', " "));
        self.sender.send(comment.into()).await.map_err(|_| Over)
    }

    /// Every cell of (from, to]: its time, a number that identifies its series, and its event, in the order of time.
    async fn read(&self, from: WallMs, to: WallMs) -> Result<Vec<(WallMs, u64, Value)>, ApiError> {
        let (matchers, tenant) = (self.matchers.clone(), self.tenant.clone());
        ask(&self.app, Some(SECOND * 10), move |app, _| {
            let mut out = Vec::new();
            for matchers in matchers {
                let selection = Selection {
                    samples_max: 100 * CELLS_MAX,
                    resolution: Resolution::Width(0),
                    ..Selection::new(matchers, TimeRange { start: from, end: to })
                };
                for series in app.backend.of(&tenant).select(&selection)? {
                    out.extend(events(series));
                }
                if out.len() > CELLS_MAX {
                    return Err(ApiError::bad_data(format!(
                        "the selector has more than {CELLS_MAX} cells in {} s; narrow it",
                        (to - from) / SECOND
                    )));
                }
            }
            out.sort_by_key(|(time, series, _)| (*time, *series));
            out.dedup_by_key(|(time, series, _)| (*time, *series));
            Ok(out)
        })
        .await
    }
}

/// The samples of a series as events; texts have none.
fn events(series: SeriesData) -> Vec<(WallMs, u64, Value)> {
    let mut hasher = DefaultHasher::new();
    (&series.labels, series.meta.kind).hash(&mut hasher);
    let number = hasher.finish();
    let mut document = cells::document(&[series]);
    let declaration = document["series"][0].take();
    let Value::Array(samples) = document["samples"].take() else { return Vec::new() };
    let one = |mut sample: Value| {
        if sample.get("text").is_some() {
            return None;
        }
        let time = WallMs(sample["time_ms"].as_i64()?);
        let out = sample.as_object_mut()?;
        out.remove("series");
        for (name, value) in declaration.as_object()? {
            out.insert(name.clone(), value.clone());
        }
        Some((time, number, sample))
    };
    samples.into_iter().filter_map(one).collect()
}

/// Cells of this time were left out.
fn gap(from: WallMs, to: WallMs) -> Value {
    json!({"from": from.to_secs(), "to": to.to_secs(), "read": "/v1/cells"})
}
