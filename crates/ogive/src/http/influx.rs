//! `POST /write` and `POST /api/v2/write`: InfluxDB's line protocol, and what its clients ask beside it.
//!
//! Invariants: the answer comes after the samples are durable; each line and each sample is counted once. A request with texts is known
//! again by its bytes: two equal texts of two requests would be two.
//! Failure: as InfluxDB has it. 204 when everything is stored. 400 when a part never can be: the answer names the lines, the rest is
//! stored, and clients do not send it again. 413, 429, 503 and 507: nothing is stored, and clients come back with the last three.

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_model::{SourceId, Tenant, Verdict};
use ogive_protocol::influx::{self, Precision, Read};
use ogive_protocol::lines::Names;
use serde_json::json;

use super::App;
use super::ask::reading;
use super::batch::{refused, stored_within, unreadable};
use super::body::{self, Held, Unfolded};
use super::error::{ApiError, json};
use super::params::{self, Params};
use crate::backend::Refusal;
use crate::counters::Protocol;
use crate::ingest_path::{OnTheWay, Publisher};
use crate::numbers::{Content, is_forgotten};

/// What InfluxDB's clients take us for: the version in which both endpoints behave as here.
const VERSION: &str = "2.7.0-ogive";

/// Lines that an answer tells of.
const LINES_TOLD: usize = 20;

/// How lines are read, for all requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    pub(crate) names: Names,
    /// The label of the database or bucket; empty for none.
    pub(crate) db_label: String,
}

/// Which version's endpoint a request came to: they tell errors differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Api {
    V1,
    V2,
}

pub(super) async fn write_v1(State(app): State<App>, request: Request) -> Response {
    write(app, request, Api::V1).await
}

pub(super) async fn write_v2(State(app): State<App>, request: Request) -> Response {
    write(app, request, Api::V2).await
}

async fn write(app: App, request: Request, api: Api) -> Response {
    let mut way = app.meters.ingest.begin();
    let (mut message, mut found) = match arrived(&app, request, api, &mut way).await {
        Ok(arrived) => arrived,
        Err(error) => {
            unreadable(&app, Protocol::Influx, &error);
            return api.error(&error);
        }
    };
    let ledger = app.counters.of(Protocol::Influx);
    found.read.faults.iter().for_each(|(fault, count)| ledger.unreadable(fault.as_str(), count));
    loop {
        match store(&message, found, &way).await {
            Ok(Stored::Whole(outcome)) => {
                app.meters.ingest.finish(way, Publisher::Of(Protocol::Influx));
                return outcome.answer(api);
            }
            Ok(Stored::Nothing(outcome)) => return outcome.answer(api),
            // So many later requests came that nobody knows whether this one did: it is taken for new.
            Ok(Stored::Forgotten) => (message.number, message.is_of_content) = (app.numbers.next(), false),
            Err(refusal) => return api.refused(&refusal),
        }
        (message, found) = match message.read().await {
            Ok(read) => read,
            Err(error) => return api.error(&error),
        };
    }
}

/// What became of a request.
enum Stored {
    /// Each of its samples has its verdict.
    Whole(Outcome),
    /// There was nothing to store.
    Nothing(Outcome),
    /// Its number, which is made of its content, is older than the table of sequences remembers.
    Forgotten,
}

/// Lines that were not stored: their numbers with what is wrong, and how many of how many.
struct Outcome {
    wrong: Vec<(usize, String)>,
    dropped: u64,
    all: u64,
}

impl Outcome {
    fn answer(mut self, api: Api) -> Response {
        if self.dropped == 0 { no_content() } else { api.partial(&mut self.wrong, self.dropped, self.all) }
    }
}

async fn store(message: &Message, found: Found, way: &OnTheWay) -> Result<Stored, Refusal> {
    let Found { read, unfolded } = found;
    let Read { batch, lines, good, faults, details, .. } = read;
    let wrong = details
        .into_iter()
        .map(|(number, line, fault)| (number, format!("unable to parse '{line}': {fault}")))
        .collect();
    let mut outcome = Outcome { wrong, dropped: faults.total(), all: good + faults.total() };
    if batch.samples.is_empty() {
        return Ok(Stored::Nothing(outcome));
    }
    let frame = batch.encode().map_err(|error| Refusal::TooLarge(error.to_string()))?;
    let verdict = stored_within(&message.app, Protocol::Influx, batch, frame, way, Some(unfolded)).await?;
    if message.is_of_content && is_forgotten(&verdict) {
        return Ok(Stored::Forgotten);
    }
    outcome.dropped += rejected(&verdict, &lines, &mut outcome.wrong);
    Ok(Stored::Whole(outcome))
}

/// Adds the lines of which a sample was rejected, and tells how many they are.
fn rejected(verdict: &Verdict, lines: &[usize], wrong: &mut Vec<(usize, String)>) -> u64 {
    let (mut count, mut last) = (0, 0);
    for (sample, reason) in &verdict.rejected {
        let line = lines[*sample as usize];
        if line != last {
            (count, last) = (count + 1, line);
            if count as usize <= LINES_TOLD {
                wrong.push((line, format!("field rejected: {}", reason.as_str())));
            }
        }
    }
    count
}

/// A body with what is needed to read it.
struct Message {
    app: App,
    held: Held,
    tenant: Tenant,
    database: String,
    precision: Precision,
    number: (SourceId, u64),
    /// Whether the number is made of the bytes.
    is_of_content: bool,
}

/// What a body holds, and its room in memory.
struct Found {
    read: Read,
    unfolded: Unfolded,
}

async fn arrived(app: &App, request: Request, api: Api, way: &mut OnTheWay) -> Result<(Message, Found), ApiError> {
    let params = Params::parse(request.uri().query().unwrap_or_default().as_bytes());
    let precision = params.get("precision").unwrap_or_default();
    let precision = Precision::of(precision).ok_or_else(|| {
        ApiError::bad_data(format!("invalid precision {precision:?}; give ns, us, ms, s (m and h in version 1)"))
    })?;
    let database = params.get(if api == Api::V1 { "db" } else { "bucket" }).unwrap_or_default().to_owned();
    let tenant = params::tenant(request.headers())?.unwrap_or_default();
    let held = body::read(app, Protocol::Influx, request).await?;
    way.read();
    let number = app.numbers.next();
    let message = Message { app: app.clone(), held, tenant, database, precision, number, is_of_content: false };
    let read = message.read().await;
    way.decoded();
    let (mut message, mut found) = read?;
    message.number_by_content(&mut found.read);
    Ok((message, found))
}

impl Message {
    async fn read(mut self) -> Result<(Self, Found), ApiError> {
        let app = self.app.clone();
        let read = move || {
            self.held.unpack()?;
            let unfolded = Unfolded::of(&self.app, self.held.bytes.len())?;
            let rules = &self.app.influx;
            let label = Some((&*rules.db_label, &*self.database)).filter(|(name, _)| !name.is_empty());
            let now_ns = self.app.clock.wall();
            let options = influx::Options { precision: self.precision, now_ns, names: rules.names, label };
            let (source, sequence) = self.number;
            let read = influx::read(&self.held.bytes, &self.tenant, source, sequence, &options);
            let read = read.map_err(|error| ApiError::too_large(error.to_string()))?;
            Ok((self, Found { read, unfolded }))
        };
        reading(&app, "reading the lines", read).await
    }

    /// Gives a request with texts a number that it has again when it comes again.
    fn number_by_content(&mut self, read: &mut Read) {
        let about = format!("lines {:?} {}", self.precision, self.database);
        let fingerprint = || ogive_protocol::fingerprint(&self.tenant, &about, &self.held.bytes);
        let Some(content) = Content::of(&read.batch, read.untimed == 0, fingerprint) else { return };
        self.number = self.app.numbers.of_content(content, self.app.clock.wall());
        self.is_of_content = true;
        (read.batch.source, read.batch.sequence) = self.number;
    }
}

impl Api {
    fn answer(self, status: StatusCode, code: &str, message: &str) -> Response {
        let body = match self {
            Self::V1 => json!({ "error": message }),
            Self::V2 => json!({ "code": code, "message": message }),
        };
        let mut answer = versioned(json(status, body.to_string() + "\n"));
        if let (Self::V1, Ok(value)) = (self, HeaderValue::from_str(&message.replace('\n', "; "))) {
            answer.headers_mut().insert("x-influxdb-error", value);
        }
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        answer
    }

    fn error(self, error: &ApiError) -> Response {
        let code = match error.status {
            StatusCode::PAYLOAD_TOO_LARGE => "request too large",
            StatusCode::TOO_MANY_REQUESTS => "too many requests",
            StatusCode::UNAUTHORIZED => "unauthorized",
            StatusCode::FORBIDDEN => "forbidden",
            status if status.is_client_error() => "invalid",
            StatusCode::INTERNAL_SERVER_ERROR => "internal error",
            _ => "unavailable",
        };
        self.answer(error.status, code, &error.message)
    }

    fn refused(self, refusal: &Refusal) -> Response {
        let status = refused(refusal).status();
        self.error(&ApiError { status, ..ApiError::unavailable(refusal.to_string()) })
    }

    /// Some of `all` lines were not stored.
    fn partial(self, wrong: &mut Vec<(usize, String)>, dropped: u64, all: u64) -> Response {
        wrong.sort();
        wrong.truncate(LINES_TOLD);
        let told: Vec<String> = wrong.iter().map(|(line, what)| format!("line {line}: {what}")).collect();
        let more = dropped.saturating_sub(told.len() as u64);
        let more = if more > 0 { format!("\nand {more} more lines") } else { String::new() };
        let message = format!("partial write: {dropped} of {all} lines dropped\n{}{more}", told.join("\n"));
        self.answer(StatusCode::BAD_REQUEST, "invalid", &message)
    }
}

fn versioned(mut answer: Response) -> Response {
    answer.headers_mut().insert("x-influxdb-version", HeaderValue::from_static(VERSION));
    answer.headers_mut().insert("x-influxdb-build", HeaderValue::from_static("Ogive"));
    answer
}

fn no_content() -> Response {
    versioned(StatusCode::NO_CONTENT.into_response())
}

/// `/ping`: is anybody there, and who.
pub(super) async fn ping(params: Params) -> Response {
    match params.get("verbose") {
        Some("true" | "1") => versioned(json(StatusCode::OK, json!({ "version": VERSION }).to_string() + "\n")),
        _ => no_content(),
    }
}

/// `/health`, as InfluxDB's clients of version 2 ask it.
pub(super) async fn health(State(app): State<App>) -> Response {
    let ends = *app.ending.borrow();
    let (status, word, message) = match ends {
        false => (StatusCode::OK, "pass", "ready for queries and writes"),
        true => (StatusCode::SERVICE_UNAVAILABLE, "fail", "Ogive is ending"),
    };
    let body = json!({ "name": "influxdb", "message": message, "status": word, "checks": [], "version": VERSION });
    versioned(json(status, body.to_string() + "\n"))
}

/// `/query`: clients of version 1 create their database before they write; there is nothing to create.
pub(super) async fn query(params: Params) -> Response {
    let query = params.get("q").unwrap_or_default().trim_start().to_ascii_uppercase();
    if query.starts_with("CREATE DATABASE") {
        return versioned(json(StatusCode::OK, "{\"results\":[{\"statement_id\":0}]}\n"));
    }
    let message = "InfluxQL is not spoken here; ask in PromQL at /api/v1/query";
    Api::V1.answer(StatusCode::BAD_REQUEST, "invalid", message)
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use serde_json::Value;

    use super::super::tests::Server;
    use super::*;

    async fn send(server: &Server, path: &str, body: &str) -> (StatusCode, Value, Response<()>) {
        let request = Request::post(path).body(body.to_owned().into()).unwrap();
        let (parts, body) = server.send(request).await.into_parts();
        let bytes = to_bytes(body, 1 << 20).await.unwrap();
        let value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        (parts.status, value, Response::from_parts(parts, ()))
    }

    #[tokio::test]
    async fn good_lines_are_stored_and_answered_with_nothing() {
        let server = Server::new();
        let (status, body, head) =
            send(&server, "/write?db=site&precision=s", "cpu,host=a user=1.5,idle=3i 1700000000").await;
        assert_eq!((status, body), (StatusCode::NO_CONTENT, Value::Null));
        assert_eq!(head.headers()["x-influxdb-version"], VERSION);
        let (_, answer) = server.get("/api/v1/query?query=cpu_user&time=1700000000").await;
        let metric = &answer["data"]["result"][0]["metric"];
        assert_eq!(metric, &json!({"__name__": "cpu_user", "host": "a", "db": "site"}));
        let ledger = server.app.counters.of(Protocol::Influx);
        assert_eq!((ledger.received.get(), ledger.accepted.get()), (2, 2));
        let (status, ..) = send(&server, "/api/v2/write?org=o&bucket=b", "# nothing\n\n").await;
        assert_eq!(status, StatusCode::NO_CONTENT);
    }

    #[tokio::test]
    async fn bad_lines_are_named_and_the_others_stored() {
        let server = Server::new();
        let body = "cpu v=1 1700000000\nbad\ncpu v=NaN 1700000000\ncpu v=2 1700000001\n";
        let (status, answer, _) = send(&server, "/api/v2/write?bucket=b&precision=s", body).await;
        assert_eq!((status, &answer["code"]), (StatusCode::BAD_REQUEST, &json!("invalid")));
        let expected = "partial write: 2 of 4 lines dropped\nline 2: unable to parse 'bad': missing fields\n\
                        line 3: unable to parse 'cpu v=NaN 1700000000': invalid field format";
        assert_eq!(answer["message"], expected);
        let (status, answer, head) = send(&server, "/write?db=x", "bad\n").await;
        assert_eq!(
            (status, answer),
            (
                StatusCode::BAD_REQUEST,
                json!({"error": "partial write: 1 of 1 lines dropped\nline 1: unable to parse 'bad': missing fields"})
            )
        );
        assert!(head.headers()["x-influxdb-error"].to_str().unwrap().contains("line 1"));
        let ledger = server.app.counters.of(Protocol::Influx);
        assert_eq!((ledger.accepted.get(), ledger.unreadable_total()), (2, 3));
    }

    #[tokio::test]
    async fn what_the_store_refuses_is_told_so_that_clients_come_back() {
        for (refusal, status, code) in [
            (Refusal::Busy, 429, "too many requests"),
            (Refusal::DiskFull("full".into()), 507, "unavailable"),
            (Refusal::Failed("broken".into()), 503, "unavailable"),
        ] {
            let server = Server::new();
            *server.memory.refusal.lock().unwrap() = Some(refusal);
            let (found, answer, head) = send(&server, "/api/v2/write", "cpu v=1").await;
            assert_eq!((found.as_u16(), &answer["code"]), (status, &json!(code)));
            assert_eq!(head.headers().contains_key("retry-after"), status != 507);
        }
    }

    #[tokio::test]
    async fn wrong_requests_say_why() {
        let server = Server::new();
        let (status, answer, _) = send(&server, "/write?precision=days", "cpu v=1").await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(answer["error"].as_str().unwrap().contains("precision"), "{answer}");
        let fields: Vec<String> = (0..4_000).map(|field| format!("f{field}=1")).collect();
        let body = format!("m,t={} {}", "x".repeat(16_000), fields.join(","));
        let (status, answer, _) = send(&server, "/api/v2/write", &body).await;
        assert_eq!((status, &answer["code"]), (StatusCode::PAYLOAD_TOO_LARGE, &json!("request too large")));
    }

    #[tokio::test]
    async fn clients_find_what_they_ask_for() {
        let server = Server::new();
        let get = |path: &str| server.send(Request::get(path).body(axum::body::Body::empty()).unwrap());
        assert_eq!(get("/ping").await.status(), StatusCode::NO_CONTENT);
        assert_eq!(server.get("/ping?verbose=true").await.1, json!({ "version": VERSION }));
        let (status, health) = server.get("/health").await;
        assert_eq!((status, &health["status"]), (StatusCode::OK, &json!("pass")));
        let (status, answer, _) = send(&server, "/query?q=CREATE+DATABASE+%22x%22", "").await;
        assert_eq!((status, answer), (StatusCode::OK, json!({"results": [{"statement_id": 0}]})));
        let (status, answer) = server.get("/query?q=SELECT+1").await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(answer["error"].as_str().unwrap().contains("PromQL"));
    }
}
