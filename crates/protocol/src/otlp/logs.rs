//! A logs request as a batch of texts.
//!
//! Format: docs/formats/log.md. The records of one resource, scope and severity are a series `log`; a record is one
//! line of JSON with its body first.

use std::borrow::Cow;
use std::fmt::Write as _;

use ogive_model::{Kind, Reason, SeriesDef, SeriesMeta, Temporality, Value};

use super::any::{Any, hex, map_json, messages, quoted};
use super::build::{Builder, Identity};
use super::labels::{Pairs, Resource, Scope};
use super::points::Fault;
use super::{Context, DecodedRequest};
use crate::Error;
use crate::protobuf::Fields;

/// The name of the series that log records become.
const NAME: &str = "log";

/// Reads an `ExportLogsServiceRequest`.
///
/// # Errors
/// When its parts cannot be distinguished from each other, or there are too many; a record that breaks a rule is an
/// error in the batch.
pub fn read(message: &[u8], context: &Context<'_>) -> Result<DecodedRequest, Error> {
    let ids = context.known.map(crate::remote_write::KnownSeries::ids);
    let mut builder = Builder::new(context, ids.as_deref(), message.len());
    for group in messages(message, 1, "a resource's logs are not a message") {
        let group = group?;
        let mut resource = Resource::default();
        for field in messages(group, 1, "a resource is not a message") {
            resource = Resource::read(field?)?;
        }
        // Apart from the identities of metrics.
        let identity = builder.root().with(b"log").with(resource.bytes());
        for group in messages(group, 2, "a scope's logs are not a message") {
            let group = group?;
            let mut scope = Scope::default();
            for field in messages(group, 1, "a scope is not a message") {
                scope = Scope::read(field?)?;
            }
            let from = From { resource: &resource, scope, identity: identity.with(scope.message), context };
            for record in messages(group, 2, "a log record is not a message") {
                from.record(record?, &mut builder)?;
            }
        }
    }
    Ok(builder.finish())
}

/// Where records come from.
struct From<'a> {
    resource: &'a Resource<'a>,
    scope: Scope<'a>,
    identity: Identity,
    context: &'a Context<'a>,
}

impl From<'_> {
    fn record(&self, message: &[u8], builder: &mut Builder<'_>) -> Result<(), Error> {
        let number = builder.point();
        let record = match Record::read(message) {
            Ok(record) => record,
            Err(error) => return builder.reject(Some(number), error.into()),
        };
        let text = match record.text() {
            Ok(text) => text,
            Err(error) => {
                let fault = Fault { reason: Reason::PointInvalid, text: error.to_string() };
                return builder.reject(Some(number), fault);
            }
        };
        let severity = record.severity();
        let series = builder.series(self.identity.with(severity.as_bytes()), || self.define(severity))?;
        builder.read.fragments += 1;
        let time_ns = match (record.time_ns, record.observed_ns) {
            (0, 0) => {
                builder.read.untimed += 1;
                self.context.now_ns.max(0).cast_unsigned()
            }
            (0, observed_ns) => observed_ns,
            (time_ns, _) => time_ns,
        };
        builder.push(Some(number), series, 0, time_ns, Value::Text(text))
    }

    fn define(&self, severity: &'static str) -> Result<SeriesDef, ogive_model::Error> {
        let options = self.context.options;
        let mut pairs = Pairs::new(options.translation);
        self.resource.promote(&mut pairs, options)?;
        self.scope.label(&mut pairs, options)?;
        if !options.scope_labels {
            // Which part of a program speaks is what people look for.
            pairs.attribute("otel_scope_name", Cow::Borrowed(self.scope.name))?;
        }
        let [a, b, c] = self.resource.ours(NAME);
        let labels = pairs.labels(&[a, b, c, if severity.is_empty() { ("", "") } else { ("severity", severity) }])?;
        let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        Ok(SeriesDef { labels, meta })
    }
}

/// A `LogRecord`.
#[derive(Default)]
struct Record<'a> {
    message: &'a [u8],
    time_ns: u64,
    observed_ns: u64,
    severity_number: u64,
    severity_text: &'a str,
    body: Option<Any<'a>>,
    trace_id: &'a [u8],
    span_id: &'a [u8],
    event: &'a str,
    has_attributes: bool,
}

impl<'a> Record<'a> {
    fn read(message: &'a [u8]) -> Result<Self, Error> {
        let mut record = Self { message, ..Self::default() };
        for field in Fields::new(message) {
            match field? {
                (1, value) => record.time_ns = value.fixed64("a time is not a 64 bit number")?,
                (2, value) => record.severity_number = value.varint("a severity is not a number")?,
                (3, value) => record.severity_text = value.text("a severity's text is not UTF-8")?,
                (5, value) => record.body = Some(Any::read(value.bytes("a body is not a message")?)?),
                (6, _) => record.has_attributes = true,
                (9, value) => record.trace_id = value.bytes("a trace id is not bytes")?,
                (10, value) => record.span_id = value.bytes("a span id is not bytes")?,
                (11, value) => record.observed_ns = value.fixed64("a time is not a 64 bit number")?,
                (12, value) => record.event = value.text("an event's name is not UTF-8 text")?,
                _ => {}
            }
        }
        Ok(record)
    }

    /// The short name of its severity's range; empty when it has none.
    fn severity(&self) -> &'static str {
        const RANGES: [&str; 6] = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"];
        match self.severity_number {
            number @ 1..=24 => RANGES[(number as usize - 1) / 4],
            _ => match self.severity_text.to_ascii_uppercase().as_str() {
                "WARNING" => "WARN",
                "CRITICAL" => "FATAL",
                text => RANGES.iter().find(|range| **range == text).copied().unwrap_or_default(),
            },
        }
    }

    fn text(&self) -> Result<String, Error> {
        let mut out = String::from("{\"body\":");
        self.body.unwrap_or(Any::Nothing).json(&mut out, 0)?;
        if self.has_attributes {
            out.push_str(",\"attributes\":");
            map_json(&mut out, self.message, 6, 0)?;
        }
        for (name, text) in [("severity", self.severity_text), ("event", self.event)] {
            if !text.is_empty() {
                write!(out, ",\"{name}\":").expect("writes to memory");
                quoted(&mut out, text);
            }
        }
        for (name, id) in [("trace_id", self.trace_id), ("span_id", self.span_id)] {
            if !id.is_empty() {
                write!(out, ",\"{name}\":\"").expect("writes to memory");
                hex(&mut out, id);
                out.push('"');
            }
        }
        for (name, time_ns) in [("time_ns", self.time_ns), ("observed_ns", self.observed_ns)] {
            if time_ns != 0 {
                // A text: 64 bits are more than the numbers of most readers of JSON.
                write!(out, ",\"{name}\":\"{time_ns}\"").expect("writes to memory");
            }
        }
        out.push('}');
        Ok(out)
    }
}
