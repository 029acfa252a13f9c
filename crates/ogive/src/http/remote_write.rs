//! `POST /api/v1/write`: Prometheus remote write, 1.0 and 2.0.
//!
//! Invariants: the answer comes after the samples are durable; each sample is counted once, whatever becomes of it. A request with
//! exemplars is known again by its bytes: two equal texts of two requests would be two.
//! Failure: a sender drops what is answered 4xx and sends again what is answered 429 or 5xx. So 400 is for requests of which
//! a part can never be stored (the rest of it is), 429, 503 and 507 for those to come back with. A sender of 2.0 hears how
//! many samples, histograms and exemplars are stored.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_model::{Kind, Reason, SourceId, Tenant, Verdict};
use ogive_protocol::remote_write::{Metadata, Read, v1, v2};

use super::App;
use super::ask::reading;
use super::batch::{refused, stored_within, unreadable};
use super::body::{self, Held, Unfolded};
use super::error::ApiError;
use super::params;
use crate::backend::Refusal;
use crate::counters::Protocol;
use crate::ingest_path::{OnTheWay, Publisher};
use crate::numbers::{Content, is_forgotten};

/// Which of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// `prometheus.WriteRequest`.
    One,
    /// `io.prometheus.write.v2.Request`.
    Two,
}

/// A message with what is needed to read it.
struct Message {
    app: App,
    version: Version,
    held: Held,
    tenant: Tenant,
    number: (SourceId, u64),
    /// Whether the number is made of the bytes.
    is_of_content: bool,
}

/// What a message holds, and its room in memory.
struct Found {
    read: Read,
    unfolded: Unfolded,
}

pub(super) async fn post(State(app): State<App>, request: Request) -> Response {
    let mut way = app.meters.ingest.begin();
    let answered = match arrived(&app, request, &mut way).await {
        Ok((message, found)) => write(message, found, &way).await,
        Err(error) => {
            unreadable(&app, Protocol::RemoteWrite, &error);
            return error.into_response();
        }
    };
    match answered {
        Ok(Some(answer)) => {
            app.meters.ingest.finish(way, Publisher::Of(Protocol::RemoteWrite));
            answer
        }
        Ok(None) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => error,
    }
}

/// 3 attempts: by identity, with all series declared, under a number of its own.
const ATTEMPTS: usize = 3;

/// Stores what was read; no answer when there is nothing to store.
async fn write(mut message: Message, mut found: Found, way: &OnTheWay) -> Result<Option<Response>, Response> {
    let app = message.app.clone();
    let version = message.version;
    if found.read.batch.samples.is_empty() {
        return Ok(None);
    }
    let mut whose = Whose::Known;
    for attempt in 1..=ATTEMPTS {
        match store(&app, version, message.is_of_content, found, way).await {
            Ok(Some(answer)) => return Ok(Some(answer)),
            Err(refusal) if attempt == ATTEMPTS => return Err(refused(&refusal)),
            // So many later requests came that nobody knows whether this one did: it is taken for new.
            Ok(None) => (message.number, message.is_of_content) = (app.numbers.next(), false),
            // The store has forgotten some of the series since they were written: say again which they are.
            Err(Refusal::UnknownSeries { .. }) => whose = Whose::Declared,
            Err(refusal) => return Err(refused(&refusal)),
        }
        (message, found) = message.read(whose).await.map_err(IntoResponse::into_response)?;
    }
    Err(ApiError::unavailable("the request could not be told from older ones; send it again").into_response())
}

/// No answer when the number, which is made of the content, is older than the table of sequences remembers.
async fn store(
    app: &App,
    version: Version,
    is_of_content: bool,
    found: Found,
    way: &OnTheWay,
) -> Result<Option<Response>, Refusal> {
    let Found { read, unfolded } = found;
    let frame = read.batch.encode().map_err(|error| Refusal::TooLarge(error.to_string()))?;
    let verdict = stored_within(app, Protocol::RemoteWrite, read.batch, frame, way, Some(unfolded)).await?;
    if is_of_content && is_forgotten(&verdict) {
        return Ok(None);
    }
    if verdict.folded == 0 && verdict.rejected.is_empty() {
        app.written.remember(&read.declared);
    }
    Ok(Some(answer(version, &verdict, &read.kinds, &read.details)))
}

async fn arrived(app: &App, request: Request, way: &mut OnTheWay) -> Result<(Message, Found), ApiError> {
    let version = version_of(request.headers())?;
    let tenant = params::tenant(request.headers())?.unwrap_or_default();
    let mut held = body::read(app, Protocol::RemoteWrite, request).await?;
    held.assume_snappy();
    way.read();
    let number = app.numbers.next();
    let message = Message { app: app.clone(), version, held, tenant, number, is_of_content: false };
    let read = message.read(Whose::Known).await;
    way.decoded();
    let (mut message, mut found) = read?;
    message.number_by_content(&mut found.read);
    Ok((message, found))
}

/// How the series of a request are named in its batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// By identity, those that were written before.
    Known,
    /// By their labels, all of them.
    Declared,
}

impl Message {
    /// Gives a request with exemplars a number that it has again when it comes again. One with samples that can never be stored hears each
    /// time which.
    fn number_by_content(&mut self, read: &mut Read) {
        if read.batch.samples.iter().any(Result::is_err) || read.batch.series.iter().any(Result::is_err) {
            return;
        }
        let fingerprint = || ogive_protocol::fingerprint(&self.tenant, "remote write", &self.held.bytes);
        let Some(content) = Content::of(&read.batch, true, fingerprint) else { return };
        self.number = self.app.numbers.of_content(content, self.app.clock.wall());
        self.is_of_content = true;
        (read.batch.source, read.batch.sequence) = self.number;
    }

    async fn read(mut self, whose: Whose) -> Result<(Self, Found), ApiError> {
        let app = self.app.clone();
        // Even a small body may unfold to a large one.
        let read = move || {
            self.held.unpack()?;
            let unfolded = Unfolded::of(&self.app, self.held.bytes.len())?;
            let (source, sequence) = self.number;
            let known = (whose == Whose::Known).then_some(&self.app.written);
            let learn = |told: &Metadata<'_>| {
                self.app.metadata.learn(&self.tenant, told.family, told.kind, told.help, told.unit);
            };
            let (bytes, tenant) = (&self.held.bytes, &self.tenant);
            let read = match self.version {
                Version::One => v1::read(bytes, tenant, source, sequence, known, learn),
                Version::Two => v2::read(bytes, tenant, source, sequence, known, learn),
            };
            let read = read.map_err(|error| match error {
                ogive_protocol::Error::TooLarge { .. } => ApiError::too_large(error.to_string()),
                error => ApiError::bad_data(format!("the body is not a remote write request: {error}")),
            })?;
            Ok((self, Found { read, unfolded }))
        };
        reading(&app, "reading the request", read).await
    }
}

/// The message that the headers announce. A sender that says nothing of its message means version 1.0.
fn version_of(headers: &HeaderMap) -> Result<Version, ApiError> {
    // Both versions ask for snappy; what some senders try first is unpacked too, but for what the specification's tests want
    // refused.
    if headers.get(header::CONTENT_ENCODING).is_some_and(|packing| packing == "gzip") {
        return Err(ApiError::unsupported("content encoding \"gzip\" is not part of remote write; send snappy"));
    }
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return Ok(Version::One) };
    let kind = String::from_utf8_lossy(kind.as_bytes());
    let mut parts = kind.split(';').map(str::trim);
    let is_protobuf = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/x-protobuf"));
    let message = parts.find_map(|part| part.strip_prefix("proto=")).map(|message| message.trim_matches('"'));
    match message.unwrap_or("prometheus.WriteRequest") {
        "prometheus.WriteRequest" if is_protobuf => Ok(Version::One),
        "io.prometheus.write.v2.Request" if is_protobuf => Ok(Version::Two),
        _ => Err(ApiError::unsupported(format!(
            "content type {kind:?}; send application/x-protobuf with a prometheus.WriteRequest (remote write 1.0) or an \
             io.prometheus.write.v2.Request (2.0)"
        ))),
    }
}

/// How many of each kind are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Written {
    samples: usize,
    histograms: usize,
    exemplars: usize,
}

impl Written {
    /// Of samples of these kinds without the rejected ones.
    fn of(kinds: &[Kind], verdict: &Verdict) -> Self {
        let mut written = Self::default();
        kinds.iter().for_each(|kind| *written.place(*kind) += 1);
        verdict.rejected.iter().for_each(|(sample, _)| *written.place(kinds[*sample as usize]) -= 1);
        written
    }

    fn place(&mut self, kind: Kind) -> &mut usize {
        match kind {
            Kind::Float => &mut self.samples,
            Kind::Histogram => &mut self.histograms,
            Kind::Text => &mut self.exemplars,
        }
    }

    fn put(self, headers: &mut HeaderMap) {
        for (name, count) in [
            ("x-prometheus-remote-write-samples-written", self.samples),
            ("x-prometheus-remote-write-histograms-written", self.histograms),
            ("x-prometheus-remote-write-exemplars-written", self.exemplars),
        ] {
            headers.insert(name, count.into());
        }
    }
}

/// What became of the request. Exemplars that cannot be stored are counted and fail nothing, as in Prometheus, unless their
/// series is none.
fn answer(version: Version, verdict: &Verdict, kinds: &[Kind], details: &[(u32, String)]) -> Response {
    let fails =
        |(sample, reason): &&(u32, Reason)| kinds[*sample as usize] != Kind::Text || *reason == Reason::LabelsInvalid;
    let mut response = match verdict.rejected.iter().find(fails) {
        None => StatusCode::NO_CONTENT.into_response(),
        Some((first, reason)) => {
            let detail = details.iter().find(|(sample, _)| sample == first).map(|(_, text)| format!(" ({text})"));
            let (rejected, stored) = (verdict.rejected.len(), verdict.accepted + verdict.duplicate);
            let message = format!(
                "{rejected} of {} samples were rejected, the first, number {first}, as {}{}; the other {stored} are stored",
                rejected as u64 + stored,
                reason.as_str(),
                detail.unwrap_or_default(),
            );
            ApiError::bad_data(message).into_response()
        }
    };
    if version == Version::Two {
        Written::of(kinds, verdict).put(response.headers_mut());
    }
    response
}

#[cfg(test)]
mod tests {
    use super::super::tests::Server;
    use super::*;
    use axum::http::HeaderValue;

    /// `up` at `time` as one snappy block: a literal of 36 bytes.
    fn body(value: f64, time_ms: u64) -> Vec<u8> {
        let mut body = vec![36, 35 << 2, 0x0a, 34, 0x0a, 14, 0x0a, 8];
        body.extend_from_slice(b"__name__\x12\x02up\x12\x10\x09");
        body.extend_from_slice(&value.to_le_bytes());
        body.push(0x10);
        // Times of these years have six groups of seven bits.
        body.extend((0..6).map(|group| (time_ms >> (7 * group)) as u8 & 0x7f | if group < 5 { 0x80 } else { 0 }));
        body
    }

    #[tokio::test]
    async fn series_that_the_store_forgot_are_declared_again() {
        let server = Server::new();
        for (sent, time_ms) in [(1, 1_700_000_000_000), (2, 1_700_000_001_000)] {
            let request = Request::post("/api/v1/write").body(body(1.5, time_ms).into()).unwrap();
            assert_eq!(server.send(request).await.status(), StatusCode::NO_CONTENT);
            assert_eq!(server.app.written.len(), 1);
            // The store of these tests refuses every identity: the second request was tried with one and read again.
            let ledger = server.app.counters.of(Protocol::RemoteWrite);
            assert_eq!((ledger.accepted.get(), ledger.refused_total()), (sent, sent - 1));
        }
    }

    #[tokio::test]
    async fn exemplars_that_are_sent_again_are_stored_once() {
        let field = |number: u8, inside: &[u8]| [&[number << 3 | 2, inside.len() as u8][..], inside].concat();
        let label =
            |name: &str, value: &str| field(1, &[field(1, name.as_bytes()), field(2, value.as_bytes())].concat());
        let (value, time) = ([&[0x09][..], &1.5_f64.to_le_bytes()].concat(), b"\x80\xd0\x95\xff\xbc\x31");
        let value_of_two = [&[0x11][..], &1.5_f64.to_le_bytes()].concat();
        let sample = field(2, &[&value[..], &[0x10], time].concat());
        let exemplar = field(3, &[&label("trace_id", "a")[..], &value_of_two, &[0x18], time].concat());
        let message = field(1, &[label("__name__", "jobs_total"), sample, exemplar].concat());
        // One literal of more than 60 bytes.
        let length = message.len() as u8;
        let body = [&[length, 60 << 2, length - 1][..], &message].concat();
        let server = Server::new();
        for (accepted, duplicate) in [(2, 0), (2, 2)] {
            let request = Request::post("/api/v1/write").body(body.clone().into()).unwrap();
            assert_eq!(server.send(request).await.status(), StatusCode::NO_CONTENT);
            let ledger = server.app.counters.of(Protocol::RemoteWrite);
            assert_eq!((ledger.accepted.get(), ledger.duplicate.get()), (accepted, duplicate));
        }
    }

    #[test]
    fn the_message_is_told_from_others() {
        let check = |kind: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            version_of(&headers)
        };
        assert_eq!(version_of(&HeaderMap::new()), Ok(Version::One));
        assert_eq!(check("application/x-protobuf"), Ok(Version::One));
        assert_eq!(check("application/x-protobuf; proto=prometheus.WriteRequest"), Ok(Version::One));
        assert_eq!(check("application/x-protobuf;proto=io.prometheus.write.v2.Request"), Ok(Version::Two));
        assert_eq!(check("application/x-protobuf;proto=\"io.prometheus.write.v2.Request\""), Ok(Version::Two));
        for other in [
            "application/json",
            "application/x-protobuf;proto=io.prometheus.write.v3.Request",
            "",
            "application/json;proto=prometheus.WriteRequest",
        ] {
            assert_eq!(check(other).unwrap_err().status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{other:?}");
        }
    }

    #[test]
    fn what_is_written_is_told_to_senders_of_2() {
        let kinds = [Kind::Float, Kind::Float, Kind::Histogram, Kind::Text, Kind::Text];
        let told = |version, rejected: &[(u32, Reason)]| {
            let accepted = kinds.len() as u64 - rejected.len() as u64;
            let response =
                answer(version, &Verdict { accepted, rejected: rejected.into(), ..Verdict::default() }, &kinds, &[]);
            let count = |kind: &str| {
                let value = response.headers().get(format!("x-prometheus-remote-write-{kind}-written"))?;
                value.to_str().ok()?.parse::<u32>().ok()
            };
            (response.status().as_u16(), ["samples", "histograms", "exemplars"].map(count))
        };
        assert_eq!(told(Version::Two, &[]), (204, [Some(2), Some(1), Some(2)]));
        assert_eq!(told(Version::One, &[]), (204, [None; 3]));
        assert_eq!(told(Version::Two, &[(3, Reason::BeyondRetention)]), (204, [Some(2), Some(1), Some(1)]));
        assert_eq!(told(Version::Two, &[(4, Reason::LabelsInvalid)]), (400, [Some(2), Some(1), Some(1)]));
        let both = [(0, Reason::TimeTooNew), (2, Reason::HistogramInvalid)];
        assert_eq!(told(Version::Two, &both), (400, [Some(1), Some(0), Some(2)]));
    }
}
