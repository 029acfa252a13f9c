//! A traces request as a batch: each span is counted in the cells of its operation, and slow ones are stored as texts
//! too.
//!
//! Format: docs/otlp.md. A span is a fragment of the histogram `traces_span_seconds` of its service, name, kind and
//! status, in the cell of the second in which it ended; a slow one is a text of `traces_span_slow` with the same labels
//! at the same time.
//! Invariants: each span is counted once among `points`, whatever its outcome; one that was stored before becomes no
//! sample.
//! Limits: those of [`SpanTable`]; [`SLOW_MAX`] slow spans per request, [`POINTS_MAX`] points of each,
//! [`NAME_BYTES_MAX`].

use std::sync::Arc;

use ogive_hist::{Histogram, Scheme};
use ogive_model::{Kind, METRIC_NAME, MetricKind, Reason, SeriesDef, SeriesMeta, Temporality, Value};
use twox_hash::XxHash3_128;

use super::any::{hex, messages};
use super::build::{Builder, Identity};
use super::labels::{Pairs, Resource, Scope};
use super::points::Fault;
use super::span_table::{Presence, Reserved, SpanTable};
use super::{Context, DecodedRequest, Metadata};
use crate::Error;
use crate::protobuf::Fields;

/// The histogram of spans.
pub(super) const METRIC: &str = "traces_span_seconds";
/// The texts of slow spans.
pub(super) const SLOW: &str = "traces_span_slow";
/// The name under which operations beyond the limit go.
pub const FOLDED: &str = "(other)";

/// 256 slow spans of a request, some 100 KiB of text: the histograms count all.
pub const SLOW_MAX: usize = 256;
/// 10 events of a slow span are shown: the last stage leads to its end.
const POINTS_MAX: usize = 10;
/// 1 KiB of an operation's name: what is longer has data in it, and is folded.
const NAME_BYTES_MAX: usize = 1_024;

/// A cell is a second wide, as those of senders that measure for themselves.
const CELL_NS: u64 = 1_000_000_000;
const CELL_MS: u32 = 1_000;

/// What spans are read with.
#[derive(Clone)]
pub struct SpanRules<'r> {
    /// What is remembered between requests.
    pub table: Arc<SpanTable>,
    /// A span that takes so long is slow, whatever is usual.
    pub slow_ns: u64,
    /// The text of a slow one.
    pub text: &'r dyn Fn(&SlowSpan<'_>) -> String,
}

/// A span that took longer than usual.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowSpan<'a> {
    /// Its operation.
    pub name: &'a str,
    /// In hexadecimal digits.
    pub trace_id: String,
    /// In hexadecimal digits.
    pub span_id: String,
    /// Since the Unix epoch.
    pub start_ns: u64,
    /// Since the Unix epoch, not before its start.
    pub end_ns: u64,
    /// What it passed.
    pub limit_ns: u64,
    /// Its events between start and end, in the order of their times: `POINTS_MAX` at most.
    pub points: Vec<(&'a str, u64)>,
}

/// What there is to know of the spans of a request beside its batch.
#[derive(Debug)]
pub struct SpanNotes {
    /// Those that become samples, until the batch is stored.
    pub reserved: Reserved,
    /// Those that were stored before.
    pub duplicate: u64,
    /// Those that another request is storing now: nobody knows yet what becomes of them.
    pub in_flight: u64,
    /// Those of operations beyond the limit.
    pub folded: u64,
    /// Slow ones beyond the limit, which are in the histograms alone.
    pub slow_left_out: u64,
}

/// Reads an `ExportTraceServiceRequest`.
///
/// # Errors
/// When its parts cannot be distinguished from each other, or there are too many; a span that breaks a rule is an error
/// in the batch.
pub fn read(
    message: &[u8],
    context: &Context<'_>,
    rules: &SpanRules<'_>,
) -> Result<(DecodedRequest, SpanNotes), Error> {
    let ids = context.known.map(crate::remote_write::KnownSeries::ids);
    let reserved = Reserved::new(rules.table.clone());
    let notes = SpanNotes { reserved, duplicate: 0, in_flight: 0, folded: 0, slow_left_out: 0 };
    let builder = Builder::new(context, ids.as_deref(), message.len());
    let mut reader = Reader { builder, notes, slow: 0, context, rules };
    for group in messages(message, 1, "a resource's spans are not a message") {
        let group = group?;
        let mut resource = Resource::default();
        for field in messages(group, 1, "a resource is not a message") {
            resource = Resource::read(field?)?;
        }
        // Apart from the identities of metrics and logs.
        let identity = reader.builder.root().with(b"span").with(resource.bytes());
        for group in messages(group, 2, "a scope's spans are not a message") {
            let group = group?;
            let mut scope = Scope::default();
            for field in messages(group, 1, "a scope is not a message") {
                scope = Scope::read(field?)?;
            }
            let identity = if context.options.scope_labels { identity.with(scope.message) } else { identity };
            let from = From { resource: &resource, scope, identity };
            for span in messages(group, 2, "a span is not a message") {
                reader.span(&from, span?)?;
            }
        }
    }
    if !reader.builder.read.batch.samples.is_empty() {
        reader.builder.learn(metadata())?;
    }
    Ok((reader.builder.finish(), reader.notes))
}

fn metadata() -> Metadata {
    let help = "How long spans took, by service, operation, kind and status.".to_owned();
    Metadata { metric: METRIC.to_owned(), kind: MetricKind::Histogram, help, unit: "s".to_owned() }
}

/// Where spans come from.
struct From<'a> {
    resource: &'a Resource<'a>,
    scope: Scope<'a>,
    identity: Identity,
}

struct Reader<'k, 'c> {
    builder: Builder<'k>,
    notes: SpanNotes,
    /// Slow ones so far.
    slow: usize,
    context: &'c Context<'c>,
    rules: &'c SpanRules<'c>,
}

/// The labels of a span beside those of its resource.
#[derive(Clone, Copy)]
struct Operation<'a> {
    name: &'a str,
    kind: &'static str,
    status: &'static str,
}

impl Reader<'_, '_> {
    fn span(&mut self, from: &From<'_>, message: &[u8]) -> Result<(), Error> {
        let number = self.builder.point();
        let span = match Span::read(message).map_err(Fault::from).and_then(Span::checked) {
            Ok(span) => span,
            Err(fault) => return self.builder.reject(Some(number), fault),
        };
        let tenant = self.context.tenant.as_str().as_bytes();
        match self.notes.reserved.reserve(joined(&[tenant, span.trace_id, span.span_id])) {
            Presence::New => {}
            Presence::Stored => {
                self.notes.duplicate += 1;
                return Ok(());
            }
            Presence::InFlight => {
                self.notes.in_flight += 1;
                return Ok(());
            }
        }
        let took_ns = span.end_ns - span.start_ns;
        let service = joined(&[tenant, from.resource.job().as_bytes()]);
        let judged = self.rules.table.judge(service, joined(&[span.name.as_bytes()]), took_ns, self.rules.slow_ns);
        let is_folded = judged.is_folded || span.name.len() > NAME_BYTES_MAX;
        self.notes.folded += u64::from(is_folded);
        let operation =
            Operation { name: if is_folded { FOLDED } else { span.name }, kind: span.kind(), status: span.status() };
        let identity = from.identity.with(operation.name.as_bytes()).part(span.kind << 8 | span.status);
        self.count(from, identity, operation, number, took_ns, span.end_ns)?;
        match judged.limit_ns {
            Some(limit_ns) => self.slow(from, identity, operation, &span, limit_ns),
            None => Ok(()),
        }
    }

    /// Adds it to the cell in which it ended.
    fn count(
        &mut self,
        from: &From<'_>,
        identity: Identity,
        operation: Operation<'_>,
        number: u32,
        took_ns: u64,
        end_ns: u64,
    ) -> Result<(), Error> {
        let mut cell = Histogram::<u64>::new(Scheme::LogLinear10);
        cell.record(took_ns as f64 / 1e9);
        let context = self.context;
        let meta = SeriesMeta {
            kind: Kind::Histogram,
            temporality: Temporality::Delta,
            unit: "s".to_owned(),
            width_ms: CELL_MS,
        };
        let series = self.builder.series(identity, || from.define(context, operation, METRIC, meta))?;
        self.builder.read.fragments += 1;
        self.builder.push(Some(number), series, 0, cell_of(end_ns), Value::Histogram(Box::new(cell)))
    }

    fn slow(
        &mut self,
        from: &From<'_>,
        identity: Identity,
        operation: Operation<'_>,
        span: &Span<'_>,
        limit_ns: u64,
    ) -> Result<(), Error> {
        if self.slow == SLOW_MAX {
            self.notes.slow_left_out += 1;
            return Ok(());
        }
        // What its events say is a help; a span is not refused for them.
        let Ok(slow) = span.slow(limit_ns) else { return Ok(()) };
        self.slow += 1;
        let context = self.context;
        let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        let series = self.builder.series(identity.with(b"slow"), || from.define(context, operation, SLOW, meta))?;
        self.builder.push(None, series, 0, cell_of(span.end_ns), Value::Text((self.rules.text)(&slow)))
    }
}

impl From<'_> {
    fn define(
        &self,
        context: &Context<'_>,
        operation: Operation<'_>,
        metric: &str,
        meta: SeriesMeta,
    ) -> Result<SeriesDef, ogive_model::Error> {
        let options = context.options;
        let mut pairs = Pairs::new(options.translation);
        self.resource.promote(&mut pairs, options)?;
        self.scope.label(&mut pairs, options)?;
        let [_, job, instance] = self.resource.ours(metric);
        let Operation { name, kind, status } = operation;
        let labels = pairs.labels(&[
            (METRIC_NAME, metric),
            job,
            instance,
            ("span_name", name),
            ("span_kind", kind),
            ("status_code", status),
        ])?;
        Ok(SeriesDef { labels, meta })
    }
}

/// The end of the second that an instant is in.
const fn cell_of(ns: u64) -> u64 {
    ns.div_ceil(CELL_NS).saturating_mul(CELL_NS)
}

/// The parts as one number, each distinguished from the next.
fn joined(parts: &[&[u8]]) -> u128 {
    parts.iter().fold(0, |hash: u128, part| {
        XxHash3_128::oneshot_with_seed(hash as u64 ^ (hash >> 64) as u64, part) ^ hash.rotate_left(1)
    })
}

/// A `Span`.
#[derive(Default)]
struct Span<'a> {
    message: &'a [u8],
    trace_id: &'a [u8],
    span_id: &'a [u8],
    name: &'a str,
    kind: u64,
    start_ns: u64,
    end_ns: u64,
    status: u64,
}

impl<'a> Span<'a> {
    const EVENTS: u32 = 11;

    fn read(message: &'a [u8]) -> Result<Self, Error> {
        let mut span = Self { message, ..Self::default() };
        for field in Fields::new(message) {
            match field? {
                (1, value) => span.trace_id = value.bytes("a trace id is not bytes")?,
                (2, value) => span.span_id = value.bytes("a span id is not bytes")?,
                (5, value) => span.name = value.text("a span's name is not UTF-8 text")?,
                (6, value) => span.kind = value.varint("a span's kind is not a number")?,
                (7, value) => span.start_ns = value.fixed64("a span's start is not a 64 bit number")?,
                (8, value) => span.end_ns = value.fixed64("a span's end is not a 64 bit number")?,
                (15, value) => {
                    for field in Fields::new(value.bytes("a span's status is not a message")?) {
                        if let (3, value) = field? {
                            span.status = value.varint("a status code is not a number")?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(span)
    }

    fn checked(self) -> Result<Self, Fault> {
        let fault = |text: &str| Err(Fault { reason: Reason::PointInvalid, text: text.into() });
        let is_id = |id: &[u8], bytes: usize| id.len() == bytes && id.iter().any(|byte| *byte != 0);
        if !is_id(self.trace_id, 16) || !is_id(self.span_id, 8) {
            return fault("the span has no trace id of 16 bytes or no span id of 8 that is not all zeros");
        }
        if self.start_ns == 0 || self.end_ns == 0 {
            return fault("the span has no start or no end; set start_time_unix_nano and end_time_unix_nano");
        }
        if self.end_ns < self.start_ns {
            let text = "the span ends before it begins".into();
            return Err(Fault { reason: Reason::StartInvalid, text });
        }
        Ok(self)
    }

    /// As opentelemetry-proto names it, and so do those who make metrics of spans elsewhere.
    const fn kind(&self) -> &'static str {
        match self.kind {
            1 => "SPAN_KIND_INTERNAL",
            2 => "SPAN_KIND_SERVER",
            3 => "SPAN_KIND_CLIENT",
            4 => "SPAN_KIND_PRODUCER",
            5 => "SPAN_KIND_CONSUMER",
            _ => "SPAN_KIND_UNSPECIFIED",
        }
    }

    const fn status(&self) -> &'static str {
        match self.status {
            1 => "STATUS_CODE_OK",
            2 => "STATUS_CODE_ERROR",
            _ => "STATUS_CODE_UNSET",
        }
    }

    fn slow(&self, limit_ns: u64) -> Result<SlowSpan<'a>, Error> {
        let mut points = Vec::new();
        for event in messages(self.message, Self::EVENTS, "an event is not a message") {
            let (mut name, mut time_ns) = ("", 0);
            for field in Fields::new(event?) {
                match field? {
                    (1, value) => time_ns = value.fixed64("an event's time is not a 64 bit number")?,
                    (2, value) => name = value.text("an event's name is not UTF-8 text")?,
                    _ => {}
                }
            }
            if (self.start_ns..=self.end_ns).contains(&time_ns) {
                points.push((name, time_ns));
            }
        }
        points.sort_by_key(|(_, time_ns)| *time_ns);
        points.truncate(POINTS_MAX);
        let ids = [self.trace_id, self.span_id].map(|id| {
            let mut digits = String::new();
            hex(&mut digits, id);
            digits
        });
        let [trace_id, span_id] = ids;
        let Self { name, start_ns, end_ns, .. } = *self;
        Ok(SlowSpan { name, trace_id, span_id, start_ns, end_ns, limit_ns, points })
    }
}
