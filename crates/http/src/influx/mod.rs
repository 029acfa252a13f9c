//! `POST /write` and `POST /api/v2/write`: InfluxDB's line protocol, and what its clients ask beside it.
//!
//! Invariants: the answer comes after the samples are durable; each line and each sample is counted once. A request
//! with texts is known again by its bytes: two equal texts of two requests would be two.
//! Failure: as InfluxDB has it. 204 when everything is stored. 400 when a part never can be: the answer names the
//! lines, the rest is stored, and clients do not send it again. 413, 429, 503 and 507: nothing is stored, and clients
//! come back with the last three.

mod query;
mod rules;
mod version;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ogive_model::{BatchId, Tenant, Verdict, WallNs};
use ogive_protocol::influx::{self, DecodedBody, Precision};
use ogive_protocol::parts::Layout;
use serde_json::json;

pub(super) use query::query;

pub use rules::Rules;

use super::App;
use super::ask::reading;
use super::batch::unreadable;
use super::body::{self, ChargedBody};
use super::error::{ApiError, json};
use super::params::{self, Params};
use super::parts::{self, DivisibleRequest, PartOutcome, WriteFailure};
use ogive_door::backend::Refusal;
use ogive_door::counters::Protocol;
use ogive_door::division::{self, TooMuch};
use ogive_door::ingest_path::OnTheWay;
use ogive_door::numbers::{Content, is_forgotten};
use ogive_door::room::Unfolded;
use ogive_door::submission::stored_within;
use version::{Api, LINES_TOLD, VERSION, versioned};

pub(super) async fn write_v1(State(app): State<App>, request: Request) -> Response {
    write(app, request, Api::V1).await
}

pub(super) async fn write_v2(State(app): State<App>, request: Request) -> Response {
    write(app, request, Api::V2).await
}

async fn write(app: App, request: Request, api: Api) -> Response {
    let mut way = app.meters.ingest.begin();
    match arrived(&app, request, api, &mut way).await {
        Ok(message) => match parts::stored(message, way).await {
            Ok(outcome) => outcome.answer(api),
            Err(error) => api.error(&error),
        },
        Err(error) => {
            unreadable(&app, Protocol::Influx, &error);
            api.error(&error)
        }
    }
}

/// Lines that were not stored: their numbers and errors, and how many of how many.
#[derive(Default)]
struct Outcome {
    wrong: Vec<(usize, String)>,
    dropped: u64,
    all: u64,
}

impl Outcome {
    /// With that of the part behind.
    fn and(mut self, next: Self) -> Self {
        self.wrong.extend(next.wrong);
        self.wrong.sort();
        self.wrong.truncate(LINES_TOLD);
        Self { wrong: self.wrong, dropped: self.dropped + next.dropped, all: self.all + next.all }
    }

    fn answer(mut self, api: Api) -> Response {
        if self.dropped == 0 { no_content() } else { api.partial(&mut self.wrong, self.dropped, self.all) }
    }
}

/// 2 attempts: under the number of its content, and under one of its own.
const ATTEMPTS: usize = 2;

impl DivisibleRequest for Message {
    type Answer = Outcome;

    fn app(&self) -> &App {
        &self.app
    }

    fn protocol(&self) -> Protocol {
        Protocol::Influx
    }

    fn layout(&self) -> Layout {
        Layout::Lines
    }

    fn take_body(&mut self) -> ChargedBody {
        std::mem::take(&mut self.held).expect("a message has its body until it is cut")
    }

    fn part(&self, body: ChargedBody, lines_before: usize) -> Self {
        let Self { app, tenant, database, precision, .. } = self;
        let (app, tenant, number) = (app.clone(), tenant.clone(), app.numbers.next());
        let (database, precision, held) = (database.clone(), *precision, Some(body));
        Self { app, held, tenant, database, precision, number, is_of_content: false, lines_before }
    }

    async fn store(self, way: &mut OnTheWay) -> Result<PartOutcome<Self>, WriteFailure> {
        let read = self.read().await;
        way.decoded();
        let (mut message, mut found) = match read.map_err(WriteFailure::Unread)? {
            (message, Ok(found)) => (message, found),
            (message, Err(why)) => return Ok(PartOutcome::TooMuch(message, why)),
        };
        message.number_by_content(&mut found.read);
        for attempt in 1..=ATTEMPTS {
            let frame = match division::framed(message.app.batch_series_max, &found.read.batch) {
                Ok(frame) => frame,
                Err(why) => return Ok(PartOutcome::TooMuch(message, why)),
            };
            let faults = found.read.faults.clone();
            match store(&message, found, frame, way).await {
                Ok(Some(outcome)) => {
                    let ledger = message.app.counters.of(Protocol::Influx);
                    faults.iter().for_each(|(fault, count)| ledger.unreadable(fault.as_str(), count));
                    return Ok(PartOutcome::Done(outcome));
                }
                Err(refusal) => return Err((&refusal).into()),
                Ok(None) if attempt == ATTEMPTS => break,
                // Too many later requests arrived to know whether this one was stored: it counts as new.
                Ok(None) => (message.number, message.is_of_content) = (message.app.numbers.next(), false),
            }
            (message, found) = match message.read().await.map_err(WriteFailure::Refused)? {
                (message, Ok(found)) => (message, found),
                (message, Err(why)) => return Ok(PartOutcome::TooMuch(message, why)),
            };
        }
        Err(WriteFailure::Refused(ApiError::unavailable(
            "whether the request is a repeated one is not known yet; send it again",
        )))
    }

    fn joined(first: Outcome, second: Outcome) -> Outcome {
        first.and(second)
    }
}

/// None when the number, which is derived from the content, is older than the table of sequences remembers.
async fn store(
    message: &Message,
    found: DecodedMessage,
    frame: Vec<u8>,
    way: &OnTheWay,
) -> Result<Option<Outcome>, Refusal> {
    let DecodedMessage { read, unfolded } = found;
    let DecodedBody { batch, lines, good, faults, details, .. } = read;
    let wrong = details
        .into_iter()
        .map(|(number, line, fault)| (number, format!("unable to parse '{line}': {fault}")))
        .collect();
    let mut outcome = Outcome { wrong, dropped: faults.total(), all: good + faults.total() };
    if !batch.samples.is_empty() {
        let verdict = stored_within(&message.app, Protocol::Influx, batch, frame, way, Some(unfolded)).await?;
        if message.is_of_content && is_forgotten(&verdict) {
            return Ok(None);
        }
        outcome.dropped += rejected(&verdict, &lines, &mut outcome.wrong);
    }
    outcome.wrong.iter_mut().for_each(|(line, _)| *line += message.lines_before);
    Ok(Some(outcome))
}

/// Adds the lines with a rejected sample, and returns how many they are.
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

/// A body with everything needed to parse it.
struct Message {
    app: App,
    /// None once it is divided.
    held: Option<ChargedBody>,
    tenant: Tenant,
    database: String,
    precision: Precision,
    number: BatchId,
    /// Whether the number is derived from the bytes.
    is_of_content: bool,
    /// Lines of the request in front of its first.
    lines_before: usize,
}

/// The decoded body, and its memory.
struct DecodedMessage {
    read: DecodedBody,
    unfolded: Unfolded,
}

async fn arrived(app: &App, request: Request, api: Api, way: &mut OnTheWay) -> Result<Message, ApiError> {
    let params = Params::parse(request.uri().query().unwrap_or_default().as_bytes());
    let precision = params.get("precision").unwrap_or_default();
    let precision = Precision::parse(precision).ok_or_else(|| {
        ApiError::bad_data(format!("invalid precision {precision:?}; give ns, us, ms, s (m and h in version 1)"))
    })?;
    let database = params.get(if api == Api::V1 { "db" } else { "bucket" }).unwrap_or_default().to_owned();
    let tenant = params::tenant(request.headers())?.unwrap_or_default();
    let held = body::read(app, Protocol::Influx, request).await?;
    way.read();
    let number = app.numbers.next();
    let (app, held) = (app.clone(), Some(held));
    Ok(Message { app, held, tenant, database, precision, number, is_of_content: false, lines_before: 0 })
}

impl Message {
    fn bytes(&self) -> &[u8] {
        self.held.as_ref().map_or(&[], |held| &held.bytes)
    }

    /// Its contents, or why it is too large.
    async fn read(mut self) -> Result<(Self, Result<DecodedMessage, TooMuch>), ApiError> {
        let app = self.app.clone();
        let read = move || {
            if let Some(held) = &mut self.held {
                held.unpack()?;
            }
            let unfolded = Unfolded::new(&self.app.limits.unfolded_kib, self.bytes().len())?;
            let rules = &self.app.influx;
            let label = Some((&*rules.db_label, &*self.database)).filter(|(name, _)| !name.is_empty());
            let now_ns = self.app.clock.wall();
            let options = influx::Options { precision: self.precision, now_ns, names: rules.names, label };
            let BatchId { source, sequence } = self.number;
            match influx::read(self.bytes(), &self.tenant, source, sequence, &options) {
                Ok(read) => Ok((self, Ok(DecodedMessage { read, unfolded }))),
                Err(error) => Ok((self, Err(TooMuch::new(error.to_string())))),
            }
        };
        reading(&app, "reading the lines", read).await
    }

    /// Gives a request with texts a number derived from its content, the same on a retry.
    fn number_by_content(&mut self, read: &mut DecodedBody) {
        let about = format!("lines {:?} {}", self.precision, self.database);
        let fingerprint = || ogive_protocol::fingerprint(&self.tenant, &about, self.bytes());
        let Some(content) = Content::from_batch(&read.batch, read.untimed == 0, fingerprint) else { return };
        self.number = self.app.numbers.of_content(content, WallNs(self.app.clock.wall()));
        self.is_of_content = true;
        read.batch.set_id(self.number);
    }
}

fn no_content() -> Response {
    versioned(StatusCode::NO_CONTENT.into_response())
}

/// `/ping`: whether the server is up, and its version.
pub(super) async fn ping(params: Params) -> Response {
    match params.get("verbose") {
        Some("true" | "1") => versioned(json(StatusCode::OK, json!({ "version": VERSION }).to_string() + "\n")),
        _ => no_content(),
    }
}

/// `/health`, which clients of InfluxDB 2 request.
pub(super) async fn health(State(app): State<App>) -> Response {
    let ends = *app.ending.borrow();
    let (status, word, message) = match ends {
        false => (StatusCode::OK, "pass", "ready for queries and writes"),
        true => (StatusCode::SERVICE_UNAVAILABLE, "fail", "Ogive is ending"),
    };
    let body = json!({ "name": "influxdb", "message": message, "status": word, "checks": [], "version": VERSION });
    versioned(json(status, body.to_string() + "\n"))
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
        let (status, answer) = server.get("/query?q=SELECT+1").await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(answer["error"].as_str().unwrap().contains("PromQL"));
    }

    /// The `influxdb` package for Python posts `CREATE DATABASE` in the address, with the type of a JSON body that is
    /// not there, and was answered with 415.
    #[tokio::test]
    async fn clients_create_their_database_first() {
        let server = Server::new();
        send(&server, "/write?db=written", "cpu v=1 1700000000000000000").await;
        let post = async |path: &str, kind: Option<&str>, body: &str| {
            let mut request = Request::post(path);
            if let Some(kind) = kind {
                request = request.header("content-type", kind);
            }
            let response = server.send(request.body(body.to_owned().into()).unwrap()).await;
            let status = response.status();
            let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
            (status, serde_json::from_slice::<Value>(&bytes).unwrap())
        };
        const FORM: &str = "application/x-www-form-urlencoded";
        for (path, kind, body) in [
            ("/query?q=CREATE+DATABASE+%22x%22", None, ""),
            ("/query?q=CREATE+DATABASE+%22x%22&db=x", Some("application/json"), ""),
            ("/query?q=CREATE+DATABASE+x", Some("text/plain"), "whatever"),
            ("/query", Some(FORM), "q=CREATE+DATABASE+x"),
            ("/query", None, "q=CREATE+DATABASE+x"),
        ] {
            let answer = post(path, kind, body).await;
            assert_eq!(answer, (StatusCode::OK, json!({"results": [{"statement_id": 0}]})), "{path} {kind:?}");
        }
        let (status, answer) = post("/query?q=SHOW+DATABASES", Some("application/json"), "").await;
        let series = json!({"name": "databases", "columns": ["name"], "values": [["written"], ["x"]]});
        assert_eq!((status, &answer["results"][0]["series"][0]), (StatusCode::OK, &series));
        let (status, answer) = post("/query?q=DROP+DATABASE+x", Some("application/json"), "").await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(answer["error"].as_str().unwrap().contains("not supported"), "{answer}");
    }
}
