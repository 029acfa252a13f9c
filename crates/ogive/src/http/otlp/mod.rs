//! OTLP, the protocol of OpenTelemetry: metrics and logs over HTTP (protobuf and JSON) and gRPC.
//!
//! Format: opentelemetry.io/docs/specs/otlp; what becomes of what is in docs/otlp.md.
//! Invariants: the answer comes after the samples are durable; each sample is counted once, whatever becomes of it; an answer is in the
//! form of its request.
//! Failure: a sender drops what is answered 4xx and sends again what is answered 429 or 503 (gRPC: RESOURCE_EXHAUSTED with the
//! time to wait, UNAVAILABLE). So 400 is for requests of which nothing can be stored; where some of it can, the answer is a
//! success that says how many points were rejected and why.

mod grpc;
mod json;
mod options;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_model::{SourceId, Tenant};
use ogive_protocol::otlp::{self as protocol, Context, Read};
use serde_json::json as object;

pub(crate) use options::Options;

use super::App;
use super::ask::reading;
use super::batch::{stored_within, unreadable};
use super::body::{self, Held, Unfolded};
use super::error::ApiError;
use super::params;
use crate::backend::Refusal;
use crate::counters::Protocol;
use crate::ingest_path::{OnTheWay, Publisher};
use crate::numbers::{Content, is_forgotten};
use grpc::code;

/// 5 s until a sender tries a full disk again: nobody makes room faster.
const RETRY_DISK_SECONDS: u64 = 5;

/// What requests have in common.
pub(crate) struct Otlp {
    /// Names and labels.
    options: protocol::Options,
}

impl Otlp {
    pub(crate) fn new(options: protocol::Options) -> Self {
        Self { options }
    }
}

/// What a request brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    Metrics,
    Logs,
}

impl Signal {
    const fn protocol(self) -> Protocol {
        match self {
            Self::Metrics => Protocol::Otlp,
            Self::Logs => Protocol::OtlpLogs,
        }
    }

    /// What the answer in JSON calls that which was rejected.
    const fn rejected(self) -> &'static str {
        match self {
            Self::Metrics => "rejectedDataPoints",
            Self::Logs => "rejectedLogRecords",
        }
    }
}

/// How a request is written, and so its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Protobuf,
    Json,
    Call,
}

impl Form {
    fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let kind = headers.get(header::CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let kind = kind.as_deref().unwrap_or("application/x-protobuf");
        match kind.split(';').next().unwrap_or_default().trim() {
            _ if grpc::is_call(headers) => Ok(Self::Call),
            "application/x-protobuf" => Ok(Self::Protobuf),
            "application/json" => Ok(Self::Json),
            _ => Err(ApiError::unsupported(format!(
                "content type {kind:?}; send application/x-protobuf or application/json, or call over gRPC"
            ))),
        }
    }
}

pub(super) async fn metrics(State(app): State<App>, request: Request) -> Response {
    post(app, Signal::Metrics, request).await
}

pub(super) async fn logs(State(app): State<App>, request: Request) -> Response {
    post(app, Signal::Logs, request).await
}

/// How many points were rejected, and a sentence about the first.
type Partial = (u64, String);

async fn post(app: App, signal: Signal, request: Request) -> Response {
    let mut way = app.meters.ingest.begin();
    let form = Form::of(request.headers());
    // What is of no known form is told so in the one that most senders read.
    let told = *form.as_ref().unwrap_or(&Form::Protobuf);
    let answered = match form {
        Ok(form) => arrived(&app, signal, form, request, &mut way).await,
        Err(error) => Err(error),
    };
    let (message, found) = match answered {
        Ok(arrived) => arrived,
        Err(error) => {
            unreadable(&app, signal.protocol(), &error);
            return failed(told, &error);
        }
    };
    match write(message, found, &way).await {
        Ok(partial) => {
            app.meters.ingest.finish(way, Publisher::Of(signal.protocol()));
            succeeded(signal, told, &partial)
        }
        Err(error) => failed(told, &error),
    }
}

/// A message with what is needed to read it.
struct Message {
    app: App,
    signal: Signal,
    bytes: Held,
    tenant: Tenant,
    number: (SourceId, u64),
    /// Whether the number is made of the bytes.
    is_of_content: bool,
}

async fn arrived(
    app: &App,
    signal: Signal,
    form: Form,
    request: Request,
    way: &mut OnTheWay,
) -> Result<(Message, Found), ApiError> {
    let tenant = params::tenant(request.headers())?.unwrap_or_default();
    let encoding = request.headers().get("grpc-encoding").cloned();
    let mut bytes = body::read(app, signal.protocol(), request).await?;
    if form == Form::Call {
        grpc::unwrap(&mut bytes, encoding.as_ref())?;
    }
    way.read();
    let mut message =
        Message { app: app.clone(), signal, bytes, tenant, number: app.numbers.next(), is_of_content: false };
    let read = move || {
        message.bytes.unpack()?;
        if form == Form::Json {
            let schema = if signal == Signal::Metrics { &json::METRICS } else { &json::LOGS };
            let protobuf = json::protobuf(&message.bytes.bytes, schema)
                .map_err(|error| ApiError::bad_data(format!("the body is not an OTLP request: {error}")))?;
            message.bytes.replace(protobuf)?;
        }
        let mut found = message.read(Whose::Known)?;
        message.number_by_content(&mut found.read);
        for told in &found.read.metadata {
            message.app.metadata.learn(&message.tenant, &told.metric, told.kind, &told.help, &told.unit);
        }
        Ok((message, found))
    };
    // Even a small body may unfold to a large one.
    let read = reading(app, "reading the request", read).await;
    way.decoded();
    read
}

/// How the series of a request are named in its batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// By identity, those that were written before.
    Known,
    /// By their labels, all of them.
    Declared,
}

/// The protobuf messages of metrics and of logs that `json` stands for, where it is one.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn of_json(json: &[u8]) -> [Option<Vec<u8>>; 2] {
    [&json::METRICS, &json::LOGS].map(|schema| json::protobuf(json, schema).ok())
}

/// What a message holds, and its room in memory.
struct Found {
    read: Read,
    unfolded: Unfolded,
}

impl Message {
    fn read(&self, whose: Whose) -> Result<Found, ApiError> {
        let unfolded = Unfolded::of(&self.app, self.bytes.bytes.len())?;
        let (source, sequence) = self.number;
        let context = Context {
            tenant: &self.tenant,
            source,
            sequence,
            options: &self.app.otlp.options,
            known: (whose == Whose::Known).then_some(&self.app.written),
            now_ns: self.app.clock.wall(),
        };
        let bytes = &self.bytes.bytes;
        let read = match self.signal {
            Signal::Metrics => protocol::read_metrics(bytes, &context),
            Signal::Logs => protocol::read_logs(bytes, &context),
        };
        let read = read.map_err(|error| match error {
            ogive_protocol::Error::TooLarge { .. } => ApiError::too_large(error.to_string()),
            error => ApiError::bad_data(format!("the body is not an OTLP request: {error}")),
        });
        Ok(Found { read: read?, unfolded })
    }

    /// Gives the request a number that it has again when it comes again, where nothing else would make its samples count once.
    fn number_by_content(&mut self, read: &mut Read) {
        let fingerprint = || ogive_protocol::fingerprint(&self.tenant, "", &self.bytes.bytes);
        let of = if read.fragments > 0 { Content::of_all } else { Content::of };
        let Some(content) = of(&read.batch, read.untimed == 0, fingerprint) else { return };
        self.number = self.app.numbers.of_content(content, self.app.clock.wall());
        self.is_of_content = true;
        (read.batch.source, read.batch.sequence) = self.number;
    }
}

/// 3 attempts: by identity, with all series declared, under a number of its own.
const ATTEMPTS: usize = 3;

/// Stores what was read.
async fn write(mut message: Message, mut found: Found, way: &OnTheWay) -> Result<Partial, ApiError> {
    let app = message.app.clone();
    if found.read.unrecorded > 0 {
        app.counters.of(message.signal.protocol()).unreadable("no_recorded_value", found.read.unrecorded);
    }
    if found.read.batch.samples.is_empty() {
        return Ok((0, String::new()));
    }
    let mut whose = Whose::Known;
    for _ in 1..ATTEMPTS {
        match store(&message, found, way).await {
            Ok(Stored::Whole(answer)) => return answer,
            // So many later requests came that nobody knows whether this one did: it is taken for new.
            Ok(Stored::Forgotten) => (message.number, message.is_of_content) = (app.numbers.next(), false),
            // The store has forgotten some of the series since they were written: say again which they are.
            Err(Refusal::UnknownSeries { .. }) => whose = Whose::Declared,
            Err(refusal) => return Err(error_of(&refusal)),
        }
        (message, found) = reading(&app, "reading the request", move || {
            let found = message.read(whose)?;
            Ok((message, found))
        })
        .await?;
    }
    match store(&message, found, way).await {
        Ok(Stored::Whole(answer)) => answer,
        Ok(Stored::Forgotten) => {
            Err(ApiError::unavailable("the request could not be told from older ones; send it again"))
        }
        Err(refusal) => Err(error_of(&refusal)),
    }
}

/// What became of a request.
enum Stored {
    /// Each of its samples has its verdict. A request of which nothing is good is an error.
    Whole(Result<Partial, ApiError>),
    /// Its number is older than the table of sequences remembers.
    Forgotten,
}

async fn store(message: &Message, found: Found, way: &OnTheWay) -> Result<Stored, Refusal> {
    let Found { mut read, unfolded } = found;
    let app = &message.app;
    let batch = std::mem::take(&mut read.batch);
    let frame = batch.encode().map_err(|error| Refusal::TooLarge(error.to_string()))?;
    let verdict = stored_within(app, message.signal.protocol(), batch, frame, way, Some(unfolded)).await?;
    if message.is_of_content && is_forgotten(&verdict) {
        return Ok(Stored::Forgotten);
    }
    if verdict.folded == 0 && verdict.rejected.is_empty() {
        app.written.remember(&read.declared);
    }
    let (rejected, first) = read.rejected(&verdict.rejected);
    if rejected == 0 {
        return Ok(Stored::Whole(Ok((0, String::new()))));
    }
    let points = u64::from(read.points);
    let sentence = format!("{rejected} of {points} were rejected, {first}");
    let answer = if rejected == points { Err(ApiError::bad_data(sentence)) } else { Ok((rejected, sentence)) };
    Ok(Stored::Whole(answer))
}

fn error_of(refusal: &Refusal) -> ApiError {
    let message = refusal.to_string();
    match refusal {
        Refusal::Busy => ApiError::busy(message),
        Refusal::DiskFull(_) => ApiError::disk_full(message),
        Refusal::TooLarge(_) => ApiError::too_large(message),
        Refusal::UnknownSeries { .. } | Refusal::Failed(_) => ApiError::unavailable(message),
    }
}

fn succeeded(signal: Signal, form: Form, (rejected, sentence): &Partial) -> Response {
    let protobuf = || protocol::partial_success(*rejected, sentence);
    match form {
        Form::Call => grpc::answer(&protobuf()),
        Form::Protobuf => answer(StatusCode::OK, "application/x-protobuf", protobuf()),
        Form::Json => {
            let mut whole = object!({});
            if *rejected > 0 {
                whole["partialSuccess"] = object!({signal.rejected(): rejected.to_string(), "errorMessage": sentence});
            }
            answer(StatusCode::OK, "application/json", whole.to_string().into_bytes())
        }
    }
}

fn answer(status: StatusCode, kind: &'static str, body: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, kind)], body).into_response()
}

/// The codes that OTLP has for an error: of HTTP and of gRPC, and in how many seconds to send again.
fn codes(error: &ApiError) -> (StatusCode, u32, Option<u64>) {
    match error.status {
        StatusCode::TOO_MANY_REQUESTS => (error.status, code::RESOURCE_EXHAUSTED, Some(1)),
        // OTLP knows 502, 503 and 504 as what will pass, and no other of the 500s.
        StatusCode::INSUFFICIENT_STORAGE => {
            (StatusCode::SERVICE_UNAVAILABLE, code::UNAVAILABLE, Some(RETRY_DISK_SECONDS))
        }
        StatusCode::SERVICE_UNAVAILABLE => (error.status, code::UNAVAILABLE, Some(1)),
        StatusCode::REQUEST_TIMEOUT => (error.status, code::DEADLINE_EXCEEDED, None),
        StatusCode::UNAUTHORIZED => (error.status, code::UNAUTHENTICATED, None),
        StatusCode::FORBIDDEN => (error.status, code::PERMISSION_DENIED, None),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => (error.status, code::UNIMPLEMENTED, None),
        status if status.is_client_error() => (status, code::INVALID_ARGUMENT, None),
        status => (status, code::INTERNAL, None),
    }
}

/// A `google.rpc.Status` in the form of the request.
fn failed(form: Form, error: &ApiError) -> Response {
    let (http, grpc, retry) = codes(error);
    let status = protocol::status(grpc, &error.message, retry.filter(|_| form == Form::Call));
    let mut response = match form {
        Form::Call => return grpc::failed(grpc, &error.message, &status),
        Form::Protobuf => answer(http, "application/x-protobuf", status),
        Form::Json => {
            let body = object!({"code": grpc, "message": error.message});
            answer(http, "application/json", body.to_string().into_bytes())
        }
    };
    if let Some(seconds) = retry {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

#[cfg(test)]
mod tests;
