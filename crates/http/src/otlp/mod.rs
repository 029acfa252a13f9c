//! OTLP, the protocol of OpenTelemetry: metrics, logs and traces over HTTP (protobuf and JSON) and gRPC.
//!
//! Format: opentelemetry.io/docs/specs/otlp; what becomes of what is in docs/otlp.md.
//! Invariants: the answer comes after the samples are durable; each sample is counted once, whatever becomes of it; an
//! answer is in the form of its request.
//! Failure: a sender drops what is answered 4xx and sends again what is answered 429 or 503 (gRPC: RESOURCE_EXHAUSTED
//! with the time to wait, UNAVAILABLE). So 400 is for requests of which nothing can be stored; where some of it can,
//! the answer is a success that says how many points were rejected and why.

mod context;
mod grpc;
mod options;
mod slow;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_model::{BatchId, Tenant, WallNs};
use ogive_protocol::otlp::{self as protocol, Context, DecodedRequest, SpanNotes, SpanRules, json};
use ogive_protocol::parts::Layout;
use serde_json::json as object;

pub use context::Otlp;
pub use options::Options;

use super::App;
use super::ask::reading;
use super::batch::unreadable;
use super::body::{self, ChargedBody};
use super::error::ApiError;
use super::params;
use super::parts::{self, DivisibleRequest, PartOutcome, WriteFailure};
use grpc::code;
use ogive_door::backend::Refusal;
use ogive_door::counters::Protocol;
use ogive_door::division::{self, TooMuch};
use ogive_door::ingest_path::OnTheWay;
use ogive_door::numbers::{Content, is_forgotten};
use ogive_door::room::Unfolded;
use ogive_door::senders::Sender;
use ogive_door::submission::stored_within;

/// 5 s until a sender retries on a full disk: space is not freed faster than that.
const RETRY_DISK_SECONDS: u64 = 5;

/// The signal of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    Metrics,
    Logs,
    Traces,
}

impl Signal {
    const fn protocol(self) -> Protocol {
        match self {
            Self::Metrics => Protocol::Otlp,
            Self::Logs => Protocol::OtlpLogs,
            Self::Traces => Protocol::OtlpTraces,
        }
    }

    const fn layout(self) -> Layout {
        match self {
            Self::Metrics => Layout::OtlpMetrics,
            Self::Logs => Layout::OtlpLogs,
            Self::Traces => Layout::OtlpTraces,
        }
    }

    /// Of the request in JSON.
    const fn schema(self) -> &'static json::Schema {
        match self {
            Self::Metrics => &json::METRICS,
            Self::Logs => &json::LOGS,
            Self::Traces => &json::TRACES,
        }
    }

    /// The name of the rejected count in a JSON response.
    const fn rejected(self) -> &'static str {
        match self {
            Self::Metrics => "rejectedDataPoints",
            Self::Logs => "rejectedLogRecords",
            Self::Traces => "rejectedSpans",
        }
    }
}

/// The encoding of a request, and of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Protobuf,
    Json,
    Call,
}

impl Form {
    fn from_headers(headers: &HeaderMap) -> Result<Self, ApiError> {
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

pub(super) async fn traces(State(app): State<App>, request: Request) -> Response {
    post(app, Signal::Traces, request).await
}

pub(super) async fn logs(State(app): State<App>, request: Request) -> Response {
    post(app, Signal::Logs, request).await
}

/// The response to a call of an unknown service or method; None for a request that is not a call.
pub(super) fn unknown_call(headers: &HeaderMap, message: &str) -> Option<Response> {
    let status = protocol::status(code::UNIMPLEMENTED, message, None);
    grpc::is_call(headers).then(|| grpc::failed(code::UNIMPLEMENTED, message, &status))
}

async fn post(app: App, signal: Signal, request: Request) -> Response {
    let mut way = app.meters.ingest.begin();
    let form = Form::from_headers(request.headers());
    // A body of unknown form gets a response in the form that most senders read.
    let reported = *form.as_ref().unwrap_or(&Form::Protobuf);
    let arrived = match form {
        Ok(form) => arrived(&app, signal, form, request, &mut way).await,
        Err(error) => Err(error),
    };
    let stored = match arrived {
        Ok(message) => parts::stored(message, way).await,
        Err(error) => {
            unreadable(&app, signal.protocol(), &error);
            Err(error)
        }
    };
    match stored.and_then(Outcome::partial) {
        Ok(partial) => succeeded(signal, reported, &partial),
        Err(error) => failed(reported, &error),
    }
}

/// The points of a request that were rejected, for its sender.
#[derive(Debug, Default)]
struct PartialSuccess {
    rejected: u64,
    /// About the first of them.
    sentence: String,
}

/// The outcome of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Outcome {
    points: u64,
    rejected: u64,
    /// What is wrong with the first that was rejected.
    first: String,
}

impl Outcome {
    /// With that of the part behind.
    fn and(self, next: Self) -> Self {
        let first = if self.rejected > 0 { self.first } else { next.first };
        Self { points: self.points + next.points, rejected: self.rejected + next.rejected, first }
    }

    /// A request without a single good point is an error.
    fn partial(self) -> Result<PartialSuccess, ApiError> {
        let Self { points, rejected, first } = self;
        if rejected == 0 {
            return Ok(PartialSuccess::default());
        }
        let sentence = format!("{rejected} of {points} were rejected, {first}");
        if rejected == points { Err(ApiError::bad_data(sentence)) } else { Ok(PartialSuccess { rejected, sentence }) }
    }
}

/// A message with everything needed to decode it.
struct Message {
    app: App,
    signal: Signal,
    form: Form,
    /// None once it is divided.
    body: Option<ChargedBody>,
    tenant: Tenant,
    number: BatchId,
    /// Whether the number is derived from the bytes.
    is_of_content: bool,
}

async fn arrived(
    app: &App,
    signal: Signal,
    form: Form,
    request: Request,
    way: &mut OnTheWay,
) -> Result<Message, ApiError> {
    let tenant = params::tenant(request.headers())?.unwrap_or_default();
    let encoding = request.headers().get("grpc-encoding").cloned();
    let mut body = body::read(app, signal.protocol(), request).await?;
    if form == Form::Call {
        grpc::unwrap(&mut body, encoding.as_ref())?;
    }
    way.read();
    let (app, number) = (app.clone(), app.numbers.next());
    Ok(Message { app, signal, form, body: Some(body), tenant, number, is_of_content: false })
}

impl DivisibleRequest for Message {
    type Answer = Outcome;

    fn app(&self) -> &App {
        &self.app
    }

    fn protocol(&self) -> Protocol {
        self.signal.protocol()
    }

    fn layout(&self) -> Layout {
        self.signal.layout()
    }

    fn take_body(&mut self) -> ChargedBody {
        std::mem::take(&mut self.body).expect("a message has its body until it is cut")
    }

    fn part(&self, body: ChargedBody, _: usize) -> Self {
        let Self { app, signal, tenant, .. } = self;
        let (app, tenant, number) = (app.clone(), tenant.clone(), app.numbers.next());
        // A divided message is protobuf by now.
        Self { app, signal: *signal, form: Form::Protobuf, body: Some(body), tenant, number, is_of_content: false }
    }

    async fn store(mut self, way: &mut OnTheWay) -> Result<PartOutcome<Self>, WriteFailure> {
        let app = self.app.clone();
        // Even a small body may unfold to a large one.
        let read = reading(&app, "reading the request", move || {
            self.unpack()?;
            let found = self.read(SeriesNaming::Known)?;
            Ok((self, found))
        });
        let read = read.await;
        way.decoded();
        let (mut message, mut found) = match read.map_err(WriteFailure::Unread)? {
            (message, Ok(found)) => (message, found),
            (message, Err(why)) => return Ok(PartOutcome::TooMuch(message, why)),
        };
        message.number_by_content(&mut found.read);
        for reported in &found.read.metadata {
            app.metadata.learn(&message.tenant, &reported.metric, reported.kind, &reported.help, &reported.unit);
        }
        message.write(found, way).await
    }

    fn joined(first: Outcome, second: Outcome) -> Outcome {
        first.and(second)
    }
}

/// How the series of a request are named in its batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SeriesNaming {
    /// By identity, for series that were written before.
    Known,
    /// All of them by their labels.
    Declared,
}

/// The decoded message, and its memory.
struct DecodedMessage {
    read: DecodedRequest,
    unfolded: Unfolded,
    /// Of a request of spans.
    spans: Option<SpanNotes>,
}

impl Message {
    fn bytes(&self) -> &[u8] {
        self.body.as_ref().map_or(&[], |body| &body.bytes)
    }

    /// The body as plain protobuf.
    fn unpack(&mut self) -> Result<(), ApiError> {
        let Some(body) = &mut self.body else { return Ok(()) };
        body.unpack()?;
        if self.form == Form::Json {
            let protobuf = json::protobuf(&body.bytes, self.signal.schema())
                .map_err(|error| ApiError::bad_data(format!("the body is not an OTLP request: {error}")))?;
            body.replace(protobuf)?;
        }
        Ok(())
    }

    /// Its contents, or why it is too large.
    fn read(&self, whose: SeriesNaming) -> Result<Result<DecodedMessage, TooMuch>, ApiError> {
        let unfolded = Unfolded::new(&self.app.limits.unfolded_kib, self.bytes().len())?;
        let BatchId { source, sequence } = self.number;
        let context = Context {
            tenant: &self.tenant,
            source,
            sequence,
            options: &self.app.otlp.options,
            known: (whose == SeriesNaming::Known).then_some(&self.app.written),
            now_ns: self.app.clock.wall(),
        };
        let read = match self.signal {
            Signal::Metrics => protocol::read_metrics(self.bytes(), &context).map(|read| (read, None)),
            Signal::Logs => protocol::read_logs(self.bytes(), &context).map(|read| (read, None)),
            Signal::Traces => {
                let Otlp { spans, slow_span, .. } = &self.app.otlp;
                let slow_ns = slow_span.0.unsigned_abs();
                let rules = SpanRules { table: spans.clone(), slow_ns, text: &slow::text };
                protocol::read_spans(self.bytes(), &context, &rules).map(|(read, notes)| (read, Some(notes)))
            }
        };
        match read {
            Ok((_, Some(notes))) if notes.in_flight > 0 => {
                Err(ApiError::busy("another request is storing some of these spans; send them again in a second"))
            }
            Ok((read, spans)) => Ok(Ok(DecodedMessage { read, unfolded, spans })),
            Err(error @ ogive_protocol::Error::TooLarge { .. }) => Ok(Err(TooMuch::new(error.to_string()))),
            Err(error) => Err(ApiError::bad_data(format!("the body is not an OTLP request: {error}"))),
        }
    }

    /// Stores what was decoded.
    async fn write(mut self, mut found: DecodedMessage, way: &OnTheWay) -> Result<PartOutcome<Self>, WriteFailure> {
        let app = self.app.clone();
        let unrecorded = found.read.unrecorded;
        let mut whose = SeriesNaming::Known;
        for attempt in 1..=ATTEMPTS {
            if found.read.batch.samples.is_empty() {
                self.count_unrecorded(unrecorded);
                let points = u64::from(found.read.points);
                let tenant = &found.read.batch.tenant;
                found.spans.take().into_iter().for_each(|notes| count_spans(&app, tenant.clone(), notes));
                return Ok(PartOutcome::Done(Outcome { points, ..Outcome::default() }));
            }
            let frame = match division::framed(app.batch_series_max, &found.read.batch) {
                Ok(frame) => frame,
                Err(why) => return Ok(PartOutcome::TooMuch(self, why)),
            };
            match store(&self, found, frame, way).await {
                Ok(Some(outcome)) => {
                    self.count_unrecorded(unrecorded);
                    return Ok(PartOutcome::Done(outcome));
                }
                Err(refusal) if attempt == ATTEMPTS => return Err((&refusal).into()),
                // Too many later requests arrived to know whether this one was stored: it counts as new.
                Ok(None) => (self.number, self.is_of_content) = (app.numbers.next(), false),
                // The store has forgotten some of the series since they were written: declare them again.
                Err(Refusal::UnknownSeries { .. }) => whose = SeriesNaming::Declared,
                Err(refusal) => return Err((&refusal).into()),
            }
            let read = reading(&app, "reading the request", move || {
                let found = self.read(whose)?;
                Ok((self, found))
            });
            (self, found) = match read.await.map_err(WriteFailure::Refused)? {
                (message, Ok(found)) => (message, found),
                (message, Err(why)) => return Ok(PartOutcome::TooMuch(message, why)),
            };
        }
        Err(WriteFailure::Refused(ApiError::unavailable(
            "whether the request is a repeated one is not known yet; send it again",
        )))
    }

    /// Counts points without a recorded value once the rest is stored: until then they may be retried, or divided.
    fn count_unrecorded(&self, unrecorded: u64) {
        if unrecorded > 0 {
            self.app.counters.of(self.signal.protocol()).unreadable("no_recorded_value", unrecorded);
        }
    }

    /// Gives the request a number derived from its content, the same on a retry, where nothing else makes its samples
    /// count once.
    fn number_by_content(&mut self, read: &mut DecodedRequest) {
        let fingerprint = || ogive_protocol::fingerprint(&self.tenant, "", self.bytes());
        let of = if read.fragments > 0 { Content::from_any_batch } else { Content::from_batch };
        let Some(content) = of(&read.batch, read.untimed == 0, fingerprint) else { return };
        self.number = self.app.numbers.of_content(content, WallNs(self.app.clock.wall()));
        self.is_of_content = true;
        read.batch.set_id(self.number);
    }
}

/// 3 attempts: by identity, with all series declared, under a number of its own.
const ATTEMPTS: usize = 3;

/// No outcome when the number is older than the table of sequences remembers.
async fn store(
    message: &Message,
    found: DecodedMessage,
    frame: Vec<u8>,
    way: &OnTheWay,
) -> Result<Option<Outcome>, Refusal> {
    let DecodedMessage { mut read, unfolded, spans } = found;
    let app = &message.app;
    let batch = std::mem::take(&mut read.batch);
    let tenant = batch.tenant.clone();
    let verdict = stored_within(app, message.signal.protocol(), batch, frame, way, Some(unfolded)).await?;
    if message.is_of_content && is_forgotten(&verdict) {
        return Ok(None);
    }
    if verdict.folded == 0 && verdict.rejected.is_empty() {
        app.written.remember(&read.declared);
    }
    spans.into_iter().for_each(|notes| count_spans(app, tenant.clone(), notes));
    let (rejected, first) = read.rejected(&verdict.rejected);
    Ok(Some(Outcome { points: u64::from(read.points), rejected, first }))
}

/// Called when the request's spans are stored: they are remembered from now on, and those that became no sample are
/// counted.
fn count_spans(app: &App, tenant: Tenant, notes: SpanNotes) {
    let SpanNotes { reserved, duplicate, folded, slow_left_out, .. } = notes;
    reserved.stored();
    let ledger = app.counters.of(Protocol::OtlpTraces);
    ledger.received.add(duplicate);
    ledger.duplicate.add(duplicate);
    ledger.folded.add(folded);
    if duplicate > 0 {
        let sender = Sender::current(tenant, Protocol::OtlpTraces, None);
        app.counters.senders.duplicate(&sender, duplicate, WallNs(app.clock.wall()));
    }
    if slow_left_out > 0 {
        ledger.unreadable("slow_trace_limit", slow_left_out);
    }
}

fn succeeded(signal: Signal, form: Form, partial: &PartialSuccess) -> Response {
    let PartialSuccess { rejected, sentence } = partial;
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

/// OTLP's codes for an error: of HTTP and of gRPC, and after how many seconds to retry.
fn codes(error: &ApiError) -> (StatusCode, u32, Option<u64>) {
    match error.status {
        StatusCode::TOO_MANY_REQUESTS => (error.status, code::RESOURCE_EXHAUSTED, Some(1)),
        // OTLP retries on 502, 503 and 504, and on no other 5xx.
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
