//! Requests that are too much for one batch: they are stored in parts, and answered once.
//!
//! Invariants: a request is tried whole first; what is too much for one batch is cut where its body can be
//! ([`Layout`]), before the store has any of it. Each part is durable before the next begins, and a request that is
//! sent again, because its sender heard no answer or a part was refused, has the same parts: what is stored already is
//! a duplicate.
//! Limits: [`PARTS_MAX`]; the part that is being stored stands in memory beside the body, and is counted as bodies are.
//! Failure: a part that the store refuses ends the request with that refusal, and its sender comes back with the whole.
//! What is too much although it is one unit alone is answered 413, with what is stored of the others.

use std::ops::Range;
use std::sync::Arc;

use ogive_protocol::parts::Layout;

use super::body::ChargedBody;
use super::error::ApiError;
use super::{App, ask, batch};
use ogive_door::backend::Refusal;
use ogive_door::counters::Protocol;
use ogive_door::division::TooMuch;
use ogive_door::ingest_path::{OnTheWay, Publisher};

/// 1,024 parts of one request: those of the largest body with `--limit-batch-series` of 1,000, and ten seconds of
/// fsyncs at most.
const PARTS_MAX: usize = 1_024;

/// Why a request gets no verdicts.
pub(super) enum WriteFailure {
    /// The request, or the rest of it, never became samples.
    Unread(ApiError),
    /// Its samples are counted as refused.
    Refused(ApiError),
}

impl From<&Refusal> for WriteFailure {
    fn from(refusal: &Refusal) -> Self {
        Self::Refused(ApiError::from(refusal))
    }
}

impl WriteFailure {
    /// The error; counts the request unless its samples were counted already.
    pub(super) fn counted(self, app: &App, protocol: Protocol) -> ApiError {
        match self {
            Self::Unread(error) => {
                batch::unreadable(app, protocol, &error);
                error
            }
            Self::Refused(error) => error,
        }
    }
}

/// The outcome of a request, or of a part of one.
pub(super) enum PartOutcome<W: DivisibleRequest> {
    Done(W::Answer),
    /// It is too large for one batch, and nothing of it is stored.
    TooMuch(W, TooMuch),
}

/// A request that can be cut.
pub(super) trait DivisibleRequest: Sized + Send {
    /// The contents of its response.
    type Answer: Send;

    fn app(&self) -> &App;
    fn protocol(&self) -> Protocol;
    fn layout(&self) -> Layout;

    /// Its decompressed body, which leaves what is needed to make parts of it.
    fn take_body(&mut self) -> ChargedBody;

    /// A part: `body` in place of the whole body, after `lines_before` of its lines, under a number of its own.
    fn part(&self, body: ChargedBody, lines_before: usize) -> Self;

    /// Reads and stores it, if it is not too much for one batch.
    fn store(self, way: &mut OnTheWay) -> impl Future<Output = Result<PartOutcome<Self>, WriteFailure>> + Send;

    /// The combined answer of two consecutive parts.
    fn joined(first: Self::Answer, second: Self::Answer) -> Self::Answer;
}

/// Stores `whole`, in parts if necessary.
pub(super) async fn stored<W: DivisibleRequest>(whole: W, mut way: OnTheWay) -> Result<W::Answer, ApiError> {
    let (app, protocol) = (whole.app().clone(), whole.protocol());
    let taken = match whole.store(&mut way).await {
        Ok(PartOutcome::Done(answer)) => {
            app.meters.ingest.finish(way, Publisher::Of(protocol));
            return Ok(answer);
        }
        Ok(PartOutcome::TooMuch(whole, why)) => in_parts(whole, why, &way).await,
        Err(failed) => Err(failed),
    };
    taken.map_err(|failed| failed.counted(&app, protocol))
}

async fn in_parts<W: DivisibleRequest>(mut whole: W, why: TooMuch, way: &OnTheWay) -> Result<W::Answer, WriteFailure> {
    let (app, protocol, layout) = (whole.app().clone(), whole.protocol(), whole.layout());
    let body = Arc::new(whole.take_body());
    let units = {
        let body = body.clone();
        let count = move || layout.units(&body.bytes).map_err(|error| ApiError::bad_data(error.to_string()));
        ask::reading(&app, "reading the request", count).await.map_err(WriteFailure::Unread)?
    };
    let (mut answer, mut tried, mut left) = (None, 0, Vec::new());
    cut(0..units, &why, &mut left).map_err(|error| rest(error, 0, units))?;
    while let Some(wanted) = left.pop() {
        tried += 1;
        if tried > PARTS_MAX {
            let error = ApiError::too_large(format!("it needs more than {PARTS_MAX} batches; {}", why.message));
            return Err(rest(error, wanted.start, units));
        }
        let part = part(&whole, &body, wanted.clone()).await.map_err(|error| rest(error, wanted.start, units))?;
        let mut way = way.another();
        match part.store(&mut way).await {
            Ok(PartOutcome::Done(next)) => {
                app.meters.ingest.finish(way, Publisher::Of(protocol));
                answer = Some(match answer {
                    None => next,
                    Some(before) => W::joined(before, next),
                });
            }
            Ok(PartOutcome::TooMuch(_, why)) => {
                cut(wanted.clone(), &why, &mut left).map_err(|error| rest(error, wanted.start, units))?;
            }
            Err(WriteFailure::Refused(error)) if wanted.end == units => return Err(WriteFailure::Refused(error)),
            Err(WriteFailure::Unread(error) | WriteFailure::Refused(error)) => {
                return Err(rest(error, wanted.start, units));
            }
        }
    }
    answer.ok_or_else(|| WriteFailure::Unread(ApiError::too_large(why.message)))
}

/// The failure of a request whose first `stored` units are stored.
fn rest(error: ApiError, stored: usize, units: usize) -> WriteFailure {
    if stored == 0 {
        return WriteFailure::Unread(error);
    }
    let message = format!("{} (the first {stored} of {units} parts of the request are stored)", error.message);
    WriteFailure::Unread(ApiError { message, ..error })
}

/// Pushes the pieces of `whole` onto `left`, the first on top.
fn cut(whole: Range<usize>, why: &TooMuch, left: &mut Vec<Range<usize>>) -> Result<(), ApiError> {
    if whole.len() <= 1 {
        return Err(ApiError::too_large(why.message.clone()));
    }
    let parts = why.parts.clamp(2, whole.len());
    let at = |part: usize| whole.start + whole.len() * part / parts;
    left.extend((0..parts).rev().map(|part| at(part)..at(part + 1)));
    Ok(())
}

async fn part<W: DivisibleRequest>(whole: &W, body: &Arc<ChargedBody>, wanted: Range<usize>) -> Result<W, ApiError> {
    let (layout, body) = (whole.layout(), body.clone());
    let make = move || {
        let part = layout.part(&body.bytes, wanted).map_err(|error| ApiError::bad_data(error.to_string()))?;
        Ok((body.beside(part.bytes)?, part.lines_before))
    };
    let (bytes, lines_before) = ask::reading(whole.app(), "reading the request", make).await?;
    Ok(whole.part(bytes, lines_before))
}

#[cfg(test)]
mod tests {
    use axum::extract::Request;
    use axum::http::StatusCode;
    use serde_json::{Value, json};

    use super::super::tests::Server;
    use super::*;

    /// More than twice the 1,000 series that the server of these tests takes in a batch.
    const MANY: usize = 2_500;

    fn field(number: u8, inside: &[u8]) -> Vec<u8> {
        let (mut out, mut length) = (vec![number << 3 | 2], inside.len());
        while length >= 0x80 {
            out.push(length as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        out.extend_from_slice(inside);
        out
    }

    /// A remote write request with a sample of each of so many series.
    fn written(series: usize) -> Vec<u8> {
        let label =
            |name: &str, value: &str| field(1, &[field(1, name.as_bytes()), field(2, value.as_bytes())].concat());
        let sample = field(2, &[&[0x09][..], &1.5_f64.to_le_bytes(), b"\x10\x80\xd0\x95\xff\xbc\x31"].concat());
        let one =
            |at: usize| field(1, &[label("__name__", "up"), label("at", &at.to_string()), sample.clone()].concat());
        snap::raw::Encoder::new().compress_vec(&(0..series).flat_map(one).collect::<Vec<u8>>()).unwrap()
    }

    async fn send(server: &Server, path: &str, kind: &str, body: Vec<u8>) -> (StatusCode, Value) {
        let request = Request::post(path).header("content-type", kind).body(body.into()).unwrap();
        let (parts, body) = server.send(request).await.into_parts();
        let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        (parts.status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    async fn count(server: &Server, metric: &str) -> Value {
        let path = format!("/api/v1/query?query=count({metric})&time=1700000000");
        server.get(&path).await.1["data"]["result"][0]["value"][1].clone()
    }

    const PROTOBUF: &str = "application/x-protobuf";

    /// 100,001 series in one remote write were answered with 413, and a Prometheus drops what is.
    #[tokio::test]
    async fn a_request_with_too_many_series_is_stored_in_parts() {
        let server = Server::new();
        assert_eq!(send(&server, "/api/v1/write", PROTOBUF, written(MANY)).await.0, StatusCode::NO_CONTENT);
        assert_eq!(count(&server, "up").await, MANY.to_string());
        let ledger = server.app.counters.of(Protocol::RemoteWrite);
        assert_eq!((ledger.received.get(), ledger.accepted.get()), (MANY as u64, MANY as u64), "each once");
        assert_eq!((ledger.refused_total(), ledger.unreadable_total()), (0, 0));

        let points: Vec<Value> = (0..MANY)
            .map(|at| {
                let attributes = json!([{"key": "at", "value": {"intValue": at}}]);
                json!({"asDouble": 1.5, "timeUnixNano": 1_700_000_000_000_000_000_u64, "attributes": attributes})
            })
            .collect();
        let body = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "gauge", "gauge": {"dataPoints": points}}]}]}]});
        let (status, answer) = send(&server, "/v1/metrics", "application/json", body.to_string().into()).await;
        assert_eq!((status, answer), (StatusCode::OK, json!({})));
        assert_eq!(count(&server, "gauge").await, MANY.to_string());

        let lines: Vec<String> = (0..MANY).map(|at| format!("line,at={at} value=1.5 1700000000\n")).collect();
        let body = lines.concat() + "bad\n";
        let (status, answer) = send(&server, "/write?precision=s", "text/plain", body.into()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        let message = answer["error"].as_str().unwrap();
        assert!(message.starts_with("partial write: 1 of 2501 lines dropped\nline 2501: "), "{message}");
        assert_eq!(count(&server, "line").await, MANY.to_string());
    }

    #[tokio::test]
    async fn a_json_batch_with_too_many_series_is_stored_in_pieces() {
        let server = Server::new();
        let series =
            (0..MANY).map(|at| json!({"labels": {"__name__": "batch", "at": at.to_string()}, "kind": "float"}));
        let mut samples: Vec<Value> =
            (0..MANY).map(|at| json!({"series": at, "time_ms": 1_700_000_000_000_u64, "float": 1.5})).collect();
        samples.insert(2_000, json!({"series": 0, "time_ms": 1, "histogram": {"bins": {"1": -1}}}));
        for (accepted, duplicate, rejected) in [(MANY, 0, 1), (0, MANY + 1, 0)] {
            let (status, answer) = server.batch(7, series.clone().collect(), samples.clone().into()).await;
            assert_eq!((status, &answer["accepted"]), (StatusCode::OK, &json!(accepted)));
            assert_eq!(answer["duplicate"], json!(duplicate), "{answer}");
            let found = answer["rejected"].as_array().unwrap();
            assert_eq!(found.len(), rejected);
            assert!(found.iter().all(|one| one["sample"] == 2_000 && one["reason"] == "histogram_invalid"));
        }
        assert_eq!(count(&server, "batch").await, MANY.to_string());
    }

    /// A broker's frame of more series than `--limit-batch-series` was answered with 413, which a broker gives up for
    /// good.
    #[tokio::test]
    async fn a_binary_batch_with_too_many_series_is_stored_in_pieces() {
        use ogive_model::{Batch, Kind, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Value as Number, wire};

        let server = Server::new();
        let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        let frame = |metric: &str, sequence: u64, series: usize| {
            let def = |at: usize| SeriesDef::new([("__name__", metric), ("at", &at.to_string())], meta.clone());
            let sample = |at: usize| {
                Ok(Sample {
                    series: at as u32,
                    time_ns: 1_700_000_000_000_000_000,
                    start_ns: None,
                    value: Number::Float(1.5),
                })
            };
            let batch = Batch {
                source: SourceId(5),
                sequence,
                series: (0..series).map(def).collect(),
                samples: (0..series).map(sample).collect(),
                ..Batch::default()
            };
            batch.encode_wide().unwrap()
        };
        // 100,001 series, more than the store's own frames have, were a 413.
        let wide = frame("wide", 9, wire::SERIES_MAX + 1);
        let (status, answer) = send(&server, "/v1/batch", batch::FLAT_BUFFER, wide).await;
        assert_eq!((status, &answer["accepted"]), (StatusCode::OK, &json!(wire::SERIES_MAX + 1)), "{answer}");
        for (accepted, duplicate) in [(MANY, 0), (0, MANY)] {
            let (status, answer) = send(&server, "/v1/batch", batch::FLAT_BUFFER, frame("alone", 1, MANY)).await;
            assert_eq!((status, &answer["accepted"]), (StatusCode::OK, &json!(accepted)), "{answer}");
            assert_eq!(answer["duplicate"], json!(duplicate), "{answer}");
        }
        assert_eq!(count(&server, "alone").await, MANY.to_string());
        // Beside others, each answered by itself and in its place.
        let body = [frame("first", 2, 3), frame("much", 3, MANY), frame("last", 4, 2)].concat();
        assert_eq!(wire::frames(&body).unwrap().len(), 3);
        let (status, answer) = send(&server, "/v1/batch", "application/x-ogive-batch-frames", body).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        let accepted: Vec<u64> =
            answer["batches"].as_array().unwrap().iter().map(|one| one["accepted"].as_u64().unwrap()).collect();
        assert_eq!(accepted, [3, MANY as u64, 2], "{answer}");
        assert_eq!(count(&server, "much").await, MANY.to_string());
        let ledger = server.app.counters.of(Protocol::Batch);
        assert_eq!((ledger.refused_total(), ledger.unreadable_total()), (0, 0));
    }

    #[tokio::test]
    async fn what_the_store_refuses_is_sent_again_whole() {
        let server = Server::new();
        *server.memory.refusal.lock().unwrap() = Some(Refusal::DiskFull("full".into()));
        let (status, _) = send(&server, "/api/v1/write", PROTOBUF, written(MANY)).await;
        assert_eq!(status.as_u16(), 507);
        *server.memory.refusal.lock().unwrap() = None;
        assert_eq!(send(&server, "/api/v1/write", PROTOBUF, written(MANY)).await.0, StatusCode::NO_CONTENT);
        assert_eq!(count(&server, "up").await, MANY.to_string());
    }

    /// One line of more fields than a batch may have series cannot be cut.
    #[tokio::test]
    async fn what_is_too_much_alone_is_refused_with_what_was_stored() {
        let server = Server::new();
        let fields: Vec<String> = (0..1_001).map(|field| format!("f{field}=1")).collect();
        let body = format!("a value=1 1700000000\nb {} 1700000000\n", fields.join(","));
        let (status, answer) = send(&server, "/write?precision=s", "text/plain", body.into()).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
        let message = answer["error"].as_str().unwrap();
        assert!(message.contains("1001 series") && message.contains("first 1 of 2"), "{message}");
        let ledger = server.app.counters.of(Protocol::Influx);
        assert_eq!((ledger.accepted.get(), ledger.unreadable_total()), (1, 1));
    }

    #[test]
    fn pieces_are_the_whole_in_its_order() {
        let pieces = |whole: Range<usize>, parts| {
            let mut left = Vec::new();
            cut(whole, &TooMuch { message: "much".into(), parts }, &mut left).unwrap();
            left.reverse();
            left
        };
        assert_eq!(pieces(0..10, 2), [0..5, 5..10]);
        assert_eq!(pieces(3..10, 3), [3..5, 5..7, 7..10]);
        assert_eq!(pieces(0..3, 100), [0..1, 1..2, 2..3]);
        assert_eq!(pieces(0..2, 0), [0..1, 1..2]);
        for alone in [0..0, 4..5] {
            let error = cut(alone, &TooMuch::new("much"), &mut Vec::new()).unwrap_err();
            assert_eq!((error.status.as_u16(), &*error.message), (413, "much"));
        }
    }
}
