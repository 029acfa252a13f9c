//! `POST /api/v1/write`: Prometheus remote write, 1.0 and 2.0.
//!
//! Invariants: the answer comes after the samples are durable; each sample is counted once, whatever becomes of it. A
//! request with exemplars is known again by its bytes: two equal texts of two requests would be two.
//! Failure: a sender drops what is answered 4xx and sends again what is answered 429 or 5xx. So 400 is for requests of
//! which a part can never be stored (the rest of it is), 429, 503 and 507 for those to come back with. A sender of 2.0
//! hears how many samples, histograms and exemplars are stored.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_model::{BatchId, Kind, Reason, Tenant, Verdict, WallNs};
use ogive_protocol::parts::Layout;
use ogive_protocol::remote_write::{DecodedRequest, Metadata, v1, v2};

use super::App;
use super::ask::reading;
use super::batch::unreadable;
use super::body::{self, ChargedBody};
use super::error::ApiError;
use super::params;
use super::parts::{self, DivisibleRequest, PartOutcome, WriteFailure};
use ogive_door::backend::Refusal;
use ogive_door::counters::Protocol;
use ogive_door::division::{self, TooMuch};
use ogive_door::ingest_path::OnTheWay;
use ogive_door::numbers::{Content, is_forgotten};
use ogive_door::room::Unfolded;
use ogive_door::submission::stored_within;

/// Which of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// `prometheus.WriteRequest`.
    One,
    /// `io.prometheus.write.v2.Request`.
    Two,
}

/// A message with everything needed to decode it.
struct Message {
    app: App,
    version: Version,
    /// None once it is divided.
    held: Option<ChargedBody>,
    tenant: Tenant,
    number: BatchId,
    /// Whether the number is derived from the bytes.
    is_of_content: bool,
}

/// The decoded message, and its memory.
struct DecodedMessage {
    read: DecodedRequest,
    unfolded: Unfolded,
}

pub(super) async fn post(State(app): State<App>, request: Request) -> Response {
    let mut way = app.meters.ingest.begin();
    let (version, answered) = match arrived(&app, request, &mut way).await {
        Ok(message) => (message.version, parts::stored(message, way).await),
        Err(error) => {
            unreadable(&app, Protocol::RemoteWrite, &error);
            return error.into_response();
        }
    };
    answered.map_or_else(IntoResponse::into_response, |outcome| outcome.answer(version))
}

/// 3 attempts: by identity, with all series declared, under a number of its own.
const ATTEMPTS: usize = 3;

impl DivisibleRequest for Message {
    type Answer = Outcome;

    fn app(&self) -> &App {
        &self.app
    }

    fn protocol(&self) -> Protocol {
        Protocol::RemoteWrite
    }

    fn layout(&self) -> Layout {
        match self.version {
            Version::One => Layout::RemoteWrite1,
            Version::Two => Layout::RemoteWrite2,
        }
    }

    fn take_body(&mut self) -> ChargedBody {
        std::mem::take(&mut self.held).expect("a message has its body until it is cut")
    }

    fn part(&self, body: ChargedBody, _: usize) -> Self {
        let Self { app, version, tenant, .. } = self;
        let (app, tenant, number) = (app.clone(), tenant.clone(), app.numbers.next());
        Self { app, version: *version, held: Some(body), tenant, number, is_of_content: false }
    }

    async fn store(self, way: &mut OnTheWay) -> Result<PartOutcome<Self>, WriteFailure> {
        let read = self.read(SeriesNaming::Known).await;
        way.decoded();
        let (mut message, mut found) = match read.map_err(WriteFailure::Unread)? {
            (message, Ok(found)) => (message, found),
            (message, Err(why)) => return Ok(PartOutcome::TooMuch(message, why)),
        };
        message.number_by_content(&mut found.read);
        message.write(found, way).await
    }

    fn joined(first: Outcome, second: Outcome) -> Outcome {
        first.and(second)
    }
}

async fn arrived(app: &App, request: Request, way: &mut OnTheWay) -> Result<Message, ApiError> {
    let version = version_of(request.headers())?;
    let tenant = params::tenant(request.headers())?.unwrap_or_default();
    let mut held = body::read(app, Protocol::RemoteWrite, request).await?;
    held.assume_snappy();
    way.read();
    let number = app.numbers.next();
    Ok(Message { app: app.clone(), version, held: Some(held), tenant, number, is_of_content: false })
}

/// How the series of a request are named in its batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SeriesNaming {
    /// By identity, for series that were written before.
    Known,
    /// All of them by their labels.
    Declared,
}

impl Message {
    /// Gives a request with exemplars a number derived from its content, the same on a retry. A request with samples
    /// that can never be stored gets their errors each time.
    fn number_by_content(&mut self, read: &mut DecodedRequest) {
        if read.batch.samples.iter().any(Result::is_err) || read.batch.series.iter().any(Result::is_err) {
            return;
        }
        let fingerprint = || ogive_protocol::fingerprint(&self.tenant, "remote write", self.bytes());
        let Some(content) = Content::from_batch(&read.batch, true, fingerprint) else { return };
        self.number = self.app.numbers.of_content(content, WallNs(self.app.clock.wall()));
        self.is_of_content = true;
        read.batch.set_id(self.number);
    }

    fn bytes(&self) -> &[u8] {
        self.held.as_ref().map_or(&[], |held| &held.bytes)
    }

    /// Stores what was decoded.
    async fn write(mut self, mut found: DecodedMessage, way: &OnTheWay) -> Result<PartOutcome<Self>, WriteFailure> {
        if found.read.batch.samples.is_empty() {
            return Ok(PartOutcome::Done(Outcome::default()));
        }
        let mut whose = SeriesNaming::Known;
        for attempt in 1..=ATTEMPTS {
            let frame = match division::framed(self.app.batch_series_max, &found.read.batch) {
                Ok(frame) => frame,
                Err(why) => return Ok(PartOutcome::TooMuch(self, why)),
            };
            match store(&self.app, self.is_of_content, found, frame, way).await {
                Ok(Some(outcome)) => return Ok(PartOutcome::Done(outcome)),
                Err(refusal) if attempt == ATTEMPTS => return Err((&refusal).into()),
                // Too many later requests arrived to know whether this one was stored: it counts as new.
                Ok(None) => (self.number, self.is_of_content) = (self.app.numbers.next(), false),
                // The store has forgotten some of the series since they were written: declare them again.
                Err(Refusal::UnknownSeries { .. }) => whose = SeriesNaming::Declared,
                Err(refusal) => return Err((&refusal).into()),
            }
            (self, found) = match self.read(whose).await.map_err(WriteFailure::Refused)? {
                (message, Ok(found)) => (message, found),
                (message, Err(why)) => return Ok(PartOutcome::TooMuch(message, why)),
            };
        }
        Err(WriteFailure::Refused(ApiError::unavailable(
            "whether the request is a repeated one is not known yet; send it again",
        )))
    }

    /// Its contents, or why it is too large.
    async fn read(mut self, whose: SeriesNaming) -> Result<(Self, Result<DecodedMessage, TooMuch>), ApiError> {
        let app = self.app.clone();
        // Even a small body may unfold to a large one.
        let read = move || {
            if let Some(held) = &mut self.held {
                held.unpack()?;
            }
            let unfolded = Unfolded::new(&self.app.limits.unfolded_kib, self.bytes().len())?;
            let BatchId { source, sequence } = self.number;
            let known = (whose == SeriesNaming::Known).then_some(&self.app.written);
            let learn = |reported: &Metadata<'_>| {
                self.app.metadata.learn(&self.tenant, reported.family, reported.kind, reported.help, reported.unit);
            };
            let (bytes, tenant) = (self.bytes(), &self.tenant);
            let read = match self.version {
                Version::One => v1::read(bytes, tenant, source, sequence, known, learn),
                Version::Two => v2::read(bytes, tenant, source, sequence, known, learn),
            };
            match read {
                Ok(read) => Ok((self, Ok(DecodedMessage { read, unfolded }))),
                Err(error @ ogive_protocol::Error::TooLarge { .. }) => Ok((self, Err(TooMuch::new(error.to_string())))),
                Err(error) => Err(ApiError::bad_data(format!("the body is not a remote write request: {error}"))),
            }
        };
        reading(&app, "reading the request", read).await
    }
}

/// The message version that the headers announce. Without a statement it is version 1.0.
fn version_of(headers: &HeaderMap) -> Result<Version, ApiError> {
    // Both versions require snappy; other encodings that some senders try first are decompressed too, except those that
    // the specification's tests want refused.
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
    fn new(kinds: &[Kind], verdict: &Verdict) -> Self {
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

    fn and(self, other: Self) -> Self {
        Self {
            samples: self.samples + other.samples,
            histograms: self.histograms + other.histograms,
            exemplars: self.exemplars + other.exemplars,
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

/// The outcome of a request. Exemplars that cannot be stored are counted and fail nothing, as in Prometheus, unless
/// their series is invalid.
#[derive(Clone, Debug, Default, PartialEq)]
struct Outcome {
    written: Written,
    samples: u64,
    rejected: u64,
    /// The first sample that fails the request, and why.
    first: Option<(u64, String)>,
}

impl Outcome {
    fn new(verdict: &Verdict, kinds: &[Kind], details: &[(u32, String)]) -> Self {
        let fails = |(sample, reason): &&(u32, Reason)| {
            kinds[*sample as usize] != Kind::Text || *reason == Reason::LabelsInvalid
        };
        let first = verdict.rejected.iter().find(fails).map(|(first, reason)| {
            let detail = details.iter().find(|(sample, _)| sample == first).map(|(_, text)| format!(" ({text})"));
            (u64::from(*first), format!("{}{}", reason.as_str(), detail.unwrap_or_default()))
        });
        let written = Written::new(kinds, verdict);
        Self { written, samples: kinds.len() as u64, rejected: verdict.rejected.len() as u64, first }
    }

    /// With that of the part behind.
    fn and(self, next: Self) -> Self {
        let first = self.first.or_else(|| next.first.map(|(sample, why)| (sample + self.samples, why)));
        let (samples, rejected) = (self.samples + next.samples, self.rejected + next.rejected);
        Self { written: self.written.and(next.written), samples, rejected, first }
    }

    fn answer(self, version: Version) -> Response {
        let Self { written, samples, rejected, first } = self;
        let mut response = match first {
            None => StatusCode::NO_CONTENT.into_response(),
            Some((first, why)) => {
                let stored = samples - rejected;
                ApiError::bad_data(format!(
                    "{rejected} of {samples} samples were rejected, the first, number {first}, as {why}; the other {stored} are \
                     stored"
                ))
                .into_response()
            }
        };
        if version == Version::Two && samples > 0 {
            written.put(response.headers_mut());
        }
        response
    }
}

/// None when the number, which is derived from the content, is older than the table of sequences remembers.
async fn store(
    app: &App,
    is_of_content: bool,
    found: DecodedMessage,
    frame: Vec<u8>,
    way: &OnTheWay,
) -> Result<Option<Outcome>, Refusal> {
    let DecodedMessage { read, unfolded } = found;
    let verdict = stored_within(app, Protocol::RemoteWrite, read.batch, frame, way, Some(unfolded)).await?;
    if is_of_content && is_forgotten(&verdict) {
        return Ok(None);
    }
    if verdict.folded == 0 && verdict.rejected.is_empty() {
        app.written.remember(&read.declared);
    }
    Ok(Some(Outcome::new(&verdict, &read.kinds, &read.details)))
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
        let reported = |version, rejected: &[(u32, Reason)]| {
            let accepted = kinds.len() as u64 - rejected.len() as u64;
            let verdict = Verdict { accepted, rejected: rejected.into(), ..Verdict::default() };
            let response = Outcome::new(&verdict, &kinds, &[]).answer(version);
            let count = |kind: &str| {
                let value = response.headers().get(format!("x-prometheus-remote-write-{kind}-written"))?;
                value.to_str().ok()?.parse::<u32>().ok()
            };
            (response.status().as_u16(), ["samples", "histograms", "exemplars"].map(count))
        };
        assert_eq!(reported(Version::Two, &[]), (204, [Some(2), Some(1), Some(2)]));
        assert_eq!(reported(Version::One, &[]), (204, [None; 3]));
        assert_eq!(reported(Version::Two, &[(3, Reason::BeyondRetention)]), (204, [Some(2), Some(1), Some(1)]));
        assert_eq!(reported(Version::Two, &[(4, Reason::LabelsInvalid)]), (400, [Some(2), Some(1), Some(1)]));
        let both = [(0, Reason::TimeTooNew), (2, Reason::HistogramInvalid)];
        assert_eq!(reported(Version::Two, &both), (400, [Some(1), Some(0), Some(2)]));
    }
}
