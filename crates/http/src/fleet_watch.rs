//! `/v1/fleet/brokers/{name}/live`: what comes to a broker, each second, as Server-Sent Events for as long as somebody
//! reads them (docs/fleet.md).
//!
//! Format: docs/http.md; between the broker and here docs/formats/fleet.md.
//! Invariants: the stream begins when the broker has connected, so that every refusal is an answer of HTTP; nothing of
//! it is stored; it ends within a second and a little when whoever asked may not any more, or the broker is another or
//! revoked. Each is in the audit when it is refused, when it begins, and when it ends. What a broker sends is passed on
//! only as the columns that it was read as.
//! Threads: one task for each. Limits: those of `ogive_fleet::Connection`, [`EVENTS_WAITING`], [`SILENCE`].

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_fleet::{Connection, Lines, WATCH_BYTES_MAX, Watch, WatchColumn, send_line};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, split};
use tokio::sync::mpsc;

use super::App;
use super::error::ApiError;
use super::fleet::{asker, fleet};
use super::fleet_session::Session;
use super::heatmap::quantiles;
use super::live::{Events, event};
use super::params::{Params, tenant};

/// The name in the audit.
const ACTION: &str = "fleet_watch";
/// 4 events: as many as one slow write may leave waiting.
const EVENTS_WAITING: usize = 4;
/// 10 s: a broker sends a column each second, also an empty one; and who does not read for so long is gone.
const SILENCE: Duration = Duration::from_secs(10);

/// What a request asks for.
fn wanted(parts: &Parts) -> Result<Watch, ApiError> {
    let params = Params::parse(parts.uri.query().unwrap_or_default().as_bytes());
    let tenant = tenant(&parts.headers)?.unwrap_or_default();
    let query = params.need("query")?;
    let wrong = |why: &dyn std::fmt::Display| ApiError::bad_data(format!("invalid parameter \"query\": {why}"));
    ogive_query::parse_plain_selector(query).map_err(|error| wrong(&error))?;
    let watch = Watch { tenant: tenant.as_str().to_owned(), query: query.to_owned(), quantiles: quantiles(&params)? };
    watch.check().map_err(ApiError::bad_data)?;
    Ok(watch)
}

/// Streams what comes to a broker.
pub(super) async fn get(
    State(app): State<App>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let (fleet, by) = (fleet(&app)?, asker(&request));
    let (parts, _) = request.into_parts();
    let watch = wanted(&parts)?;
    let what = format!("broker {name:?}, series {:?} of the tenant {:?}", watch.query, watch.tenant);
    let enrolled_ms = fleet.enrolled_ms(&name);
    let session = Session { app, fleet, name, enrolled_ms, parts, action: ACTION, by, what };
    let asked = session.fleet.watch(&session.name, watch, &session.by);
    let connection = session.connection(asked, "watched").await?;
    let (sender, receiver) = mpsc::channel(EVENTS_WAITING);
    tokio::spawn(serve(session, connection, sender));
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    Ok((StatusCode::OK, headers, Body::from_stream(Events::new(receiver))).into_response())
}

/// What was passed on.
#[derive(Default)]
struct Passed {
    columns: u64,
    bytes: u64,
}

async fn serve(session: Session, connection: Connection, sender: mpsc::Sender<Bytes>) {
    let Connection { stream, place } = connection;
    let mut passed = Passed::default();
    let why = tokio::select! {
        why = pass(stream, &sender, &mut passed) => why,
        why = session.cut() => why,
        () = sender.closed() => "closed by whoever asked".into(),
    };
    // The broker ends with its connection, which `pass` held.
    drop(place);
    let last = json!({"error": format!("the watch of {} has ended: {why}", session.name)}).to_string();
    // Who does not read misses it.
    let _ = sender.try_send(event("error", None, last.as_bytes()));
    let Passed { columns, bytes } = passed;
    session.note(&format!("ended after {columns} s and {bytes} bytes: {why}"));
}

/// Passes columns on until somebody ends it; returns why.
async fn pass(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    sender: &mpsc::Sender<Bytes>,
    passed: &mut Passed,
) -> String {
    let (from, mut to) = split(stream);
    let mut lines = Lines::new(from, WATCH_BYTES_MAX);
    loop {
        let line = match tokio::time::timeout(SILENCE, lines.line()).await {
            Err(_) => return format!("the broker has sent nothing for {} s", SILENCE.as_secs()),
            Ok(Err(error)) => return format!("the connection of the broker broke: {error}"),
            Ok(Ok(None)) => return "the broker has closed it".into(),
            Ok(Ok(Some(line))) => line,
        };
        let column: WatchColumn = match serde_json::from_slice(&line) {
            Ok(column) => column,
            Err(error) => return format!("what the broker sent is no column: {error}"),
        };
        passed.columns += 1;
        passed.bytes += line.len() as u64;
        let data = serde_json::to_vec(&column).expect("numbers and texts are JSON");
        match tokio::time::timeout(SILENCE, sender.send(event("column", None, &data))).await {
            Err(_) => return format!("whoever asked has read nothing for {} s", SILENCE.as_secs()),
            Ok(Err(_)) => return "closed by whoever asked".into(),
            Ok(Ok(())) => {}
        }
        // A broker that is not answered for as long ends by itself.
        match tokio::time::timeout(SILENCE, send_line(&mut to, b"")).await {
            Err(_) => return format!("the broker has taken nothing for {} s", SILENCE.as_secs()),
            Ok(Err(error)) => return format!("the connection of the broker broke: {error}"),
            Ok(Ok(())) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    /// How a watch ends whose broker sends `lines` and is gone, and how many columns were passed on.
    async fn ended(lines: &[&[u8]]) -> (String, u64) {
        let (near, mut far) = duplex(10_000);
        let (sender, mut receiver) = mpsc::channel(EVENTS_WAITING);
        for line in lines {
            send_line(&mut far, line).await.unwrap();
        }
        drop(far);
        let mut passed = Passed::default();
        let why = pass(near, &sender, &mut passed).await;
        drop(sender);
        let mut events = 0;
        while let Some(event) = receiver.recv().await {
            assert!(event.starts_with(b"event: column\ndata: {\"t\":"), "{event:?}");
            events += 1;
        }
        assert_eq!(events, passed.columns);
        (why, events)
    }

    #[tokio::test]
    async fn only_columns_are_passed_on() {
        let (why, columns) = ended(&[br#"{"t":1}"#]).await;
        assert!(why.contains("broke") && columns <= 1, "{why}");
        for wrong in [&b"{}"[..], b"", b"[]", b"{\"t\":1}\revent: x"] {
            let (why, columns) = ended(&[wrong]).await;
            assert!(why.contains("is no column") && columns == 0, "{why}");
        }
    }

    #[tokio::test]
    async fn it_ends_with_whoever_reads() {
        let (near, mut far) = duplex(10_000);
        let (sender, receiver) = mpsc::channel(EVENTS_WAITING);
        send_line(&mut far, br#"{"t":1}"#).await.unwrap();
        drop(receiver);
        assert_eq!(pass(near, &sender, &mut Passed::default()).await, "closed by whoever asked");
    }
}
