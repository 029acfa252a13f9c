//! `/v1/events`: release marks and other events, stored as texts, for the pictures of the page.
//!
//! Format: POST takes one event, or `{"events": [..]}`: `{"text", "kind", "time_ms", "labels"}`, of which `text` is
//! needed. Each is a text of the series `ogive_event{kind=..}` with its labels. GET answers those of a stretch of time,
//! and by default also what the server stores of itself: starts and changes of configuration (`ogive_config_change`),
//! and what happened to its clock (`ogive_clock_event`).
//! Invariants: an event that was acknowledged is durable, of the tenant that sent it, and in the audit.
//! Limits: [`EVENTS_MAX`] of a request, [`TEXT_BYTES_MAX`] of a text; [`SHOWN_MAX`] of an answer, the newest.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use ogive_door::audit::{self, Entry};
use ogive_door::counters::Protocol;
use ogive_door::submission::stored;
use ogive_model::{
    Batch, BatchId, Kind, METRIC_NAME, MatchOp, Matcher, Ms, Resolution, Sample, Selection, SeriesDef, SeriesMeta,
    Temporality, TimeRange, Value,
};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::App;
use super::ask::ask;
use super::body;
use super::catalog::selector;
use super::error::{ApiError, json as json_answer};
use super::params::{self, Params};
use super::peer::Asker;

/// The series of events.
const METRIC: &str = "ogive_event";
/// Other series that are shown with them: `action` and `kind` say what happened.
const SHOWN: &str = "ogive_event|ogive_config_change|ogive_clock_event";
/// 256 events: a day of releases that is sent again.
const EVENTS_MAX: usize = 256;
/// 4 KiB: an event is a mark with some words, not a log.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// 2 MiB: [`EVENTS_MAX`] events of the longest text.
const BODY_BYTES_MAX: usize = 2 << 20;
/// 1,000 marks: a picture has as many columns.
const SHOWN_MAX: usize = 1_000;
/// 100,000 texts are read for a response.
const SAMPLES_MAX: usize = 100_000;
/// When the request names no start: a day.
const STRETCH: Ms = Ms::from_secs(86_400);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Event {
    text: String,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    time_ms: Option<i64>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Events {
    Many { events: Vec<Event> },
    One(Event),
}

/// Stores events.
pub(super) async fn post(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    // Without a type any page could send one: browsers make a preflight request only for a type that forms do not have.
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    if kind.split(';').next().is_none_or(|kind| kind.trim() != "application/json") {
        return Err(ApiError::unsupported(format!("content type {kind:?}; send application/json")));
    }
    let tenant = params::tenant(request.headers())?.unwrap_or_default();
    let asker = request.extensions().get::<Asker>().cloned().unwrap_or_default();
    let held = body::form(&app, request, BODY_BYTES_MAX).await?;
    let events = match serde_json::from_slice(&held.bytes) {
        Ok(Events::Many { events }) => events,
        Ok(Events::One(event)) => vec![event],
        Err(_) => return Err(ApiError::bad_data(wrong(&held.bytes))),
    };
    if events.is_empty() || events.len() > EVENTS_MAX {
        return Err(ApiError::bad_data(format!("{} events; send 1 to {EVENTS_MAX} at once", events.len())));
    }
    let now = app.now();
    let BatchId { source, sequence } = app.numbers.next();
    let mut batch = Batch { source, sequence, tenant: tenant.clone(), ..Batch::default() };
    let mut noted = String::new();
    for (at, event) in events.iter().enumerate() {
        let def = definition(event).map_err(|error| ApiError::bad_data(format!("event {at}: {error}")))?;
        let series = u32::try_from(batch.series.len()).expect("few events");
        let time_ms = event.time_ms.unwrap_or(now.0);
        let time_ns = time_ms.checked_mul(1_000_000).ok_or_else(|| {
            ApiError::bad_data(format!("event {at}: {time_ms} is no time in milliseconds since 1970"))
        })?;
        noted.push_str(&format!("{} {}: {}\n", time_ms, event.kind.as_deref().unwrap_or("event"), event.text));
        batch.series.push(Ok(def));
        batch.samples.push(Ok(Sample { series, time_ns, start_ns: None, value: Value::Text(event.text.clone()) }));
    }
    let way = app.meters.ingest.begin_made();
    let frame = batch.encode().map_err(|error| ApiError::bad_data(error.to_string()))?;
    let verdict = stored(&app, Protocol::Batch, batch, frame, &way).await.map_err(|error| ApiError::from(&error))?;
    audit::note(&app, Entry::from_request("event", &asker.to_string(), &format!("tenant {tenant}\n{noted}")));
    let rejected: Vec<String> = verdict.rejected.iter().map(|one| format!("{one:?}")).collect();
    if verdict.accepted == 0 && !rejected.is_empty() {
        return Err(ApiError::bad_data(format!("the store refused it: {}", rejected.join("; "))));
    }
    Ok(json_answer(StatusCode::OK, json!({"accepted": verdict.accepted, "rejected": rejected}).to_string() + "\n"))
}

/// What is wrong with a body that is in neither form.
fn wrong(bytes: &[u8]) -> String {
    let error = match serde_json::from_slice::<Json>(bytes) {
        Err(error) => error.to_string(),
        Ok(body) if body.get("events").is_some() => serde_json::from_value::<Vec<Event>>(body["events"].clone())
            .err()
            .map_or_else(|| "beside \"events\" there is something else".to_owned(), |error| error.to_string()),
        Ok(body) => serde_json::from_value::<Event>(body).err().map_or_else(String::new, |error| error.to_string()),
    };
    format!(
        "the body is no event: {error}; send {{\"text\": \"deploy v42\", \"kind\": \"deploy\", \"labels\": {{..}}}}"
    )
}

fn definition(event: &Event) -> Result<SeriesDef, String> {
    if event.text.trim().is_empty() {
        return Err("it has no text".into());
    }
    if event.text.len() > TEXT_BYTES_MAX {
        return Err(format!("its text has {} bytes, more than {TEXT_BYTES_MAX}", event.text.len()));
    }
    if let Some(name) = [METRIC_NAME, "kind"].into_iter().find(|name| event.labels.contains_key(*name)) {
        return Err(format!("{name:?} is no label of its own"));
    }
    let own = [(METRIC_NAME, METRIC), ("kind", event.kind.as_deref().unwrap_or("event"))];
    let labels = event.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain(own);
    let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    SeriesDef::new(labels.filter(|(_, value)| !value.is_empty()), meta).map_err(|error| error.to_string())
}

/// Events of a stretch of time, the oldest first.
pub(super) async fn get(
    State(app): State<App>,
    _: Option<Extension<Asker>>,
    _: HeaderMap,
    params: Params,
) -> Result<Response, ApiError> {
    let end = params.time("end")?.unwrap_or_else(|| app.now());
    let start = params.time("start")?.unwrap_or_else(|| end.saturating_sub(STRETCH));
    if start >= end {
        return Err(ApiError::bad_data("the start is not before the end"));
    }
    let mut selectors = params.all("match[]").map(selector).collect::<Result<Vec<_>, _>>()?;
    if selectors.is_empty() {
        selectors.push(vec![Matcher::new(METRIC_NAME, MatchOp::Regex, SHOWN).expect("it is valid")]);
    }
    let limit = params.limit()?.min(SHOWN_MAX);
    let timeout = params.duration("timeout")?;
    let body = ask(&app, timeout, move |app, cancel| {
        let range = TimeRange { start, end };
        let mut found: Vec<(i64, Json)> = Vec::new();
        let mut warnings = Vec::new();
        for matchers in &selectors {
            let (matchers, resolution) = (matchers.clone(), Resolution::Width(0));
            let selection = Selection { samples_max: SAMPLES_MAX, resolution, ..Selection::new(matchers, range) };
            warnings.extend(cancel.each_series(&*app.backend.of(&params.tenant), &selection, |one| {
                let of_series = one.texts.times.iter().zip(&one.texts.values);
                for (time_ms, text) in of_series.rev().take(limit) {
                    cancel.hold(text.len() + 512)?;
                    found.push((*time_ms, shown(&one.labels, *time_ms, text)));
                }
                Ok(())
            })?);
        }
        found.sort_by_key(|(time_ms, _)| *time_ms);
        let is_whole = found.len() <= limit;
        let from = found.len().saturating_sub(limit);
        let events: Vec<Json> = found.drain(from..).map(|(_, event)| event).collect();
        let data = json!({"events": events, "complete": is_whole});
        Ok(json!({"status": "success", "data": data, "warnings": warnings}).to_string() + "\n")
    });
    Ok(json_answer(StatusCode::OK, body.await?))
}

/// An event as it appears in the response.
fn shown(labels: &ogive_model::Labels, time_ms: i64, text: &str) -> Json {
    let kind = ["kind", "action", "event"].into_iter().map(|name| labels.get(name)).find(|kind| !kind.is_empty());
    let others: serde_json::Map<String, Json> = labels
        .iter()
        .filter(|(name, _)| ![METRIC_NAME, "kind"].contains(name))
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    json!({
        "time_ms": time_ms, "kind": kind.unwrap_or(labels.metric_name()), "text": text, "labels": others,
        "series": labels.metric_name(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str, labels: &[(&str, &str)]) -> Event {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Event { text: text.into(), kind: None, time_ms: None, labels }
    }

    #[test]
    fn an_event_is_a_text_of_its_series() {
        let def = definition(&event("deploy v42", &[("service", "checkout")])).unwrap();
        assert_eq!(def.labels.to_string(), "ogive_event{kind=\"event\", service=\"checkout\"}");
        assert_eq!(definition(&event(&"x".repeat(TEXT_BYTES_MAX), &[])).map(|_| ()), Ok(()));
        for (event, part) in [
            (event(" ", &[]), "no text"),
            (event(&"x".repeat(TEXT_BYTES_MAX + 1), &[]), "4097 bytes"),
            (event("x", &[("kind", "y")]), "\"kind\""),
            (event("x", &[("__name__", "y")]), "__name__"),
        ] {
            let error = definition(&event).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (body, part) in [
            ("", "EOF"),
            ("{\"txt\": \"x\"}", "unknown field `txt`"),
            ("{\"kind\": \"x\"}", "missing field `text`"),
            ("{\"events\": [{\"text\": 1}]}", "expected a string"),
            ("{\"events\": [], \"more\": 1}", "something else"),
        ] {
            let said = wrong(body.as_bytes());
            assert!(said.contains(part), "{body}: {said}");
        }
    }
}
