//! Converts OTLP's JSON form to its protobuf form, so that one decoder handles both.
//!
//! Format: the JSON mapping of protobuf (protobuf.dev/programming-guides/json) with OTLP's own rules
//! (opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding"): trace and span ids are hexadecimal, enums are numbers
//! (names are accepted too), 64-bit integers may be strings, unknown fields are skipped, `null` is an absent field.
//! Field names may also be written with underscores.
//! Invariants: written while it is read, without a tree; the output is what a sender of protobuf would have sent.
//! Limits: `OUT_BYTES_MAX`; 128 nested objects and lists, enforced by `serde_json`.
//! Failure: a message with line and column.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ogive_text::hex;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::protobuf::write::varint;

/// 32 MiB: what a body of protobuf may have.
const OUT_BYTES_MAX: usize = 32 << 20;

/// A message type.
pub struct Schema(&'static [Field]);

struct Field {
    /// As JSON has it.
    name: &'static str,
    number: u32,
    kind: Kind,
    repeated: bool,
}

/// How a field's value is written.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Base64,
    Hex,
    Bool,
    /// A varint of 64 bits, signed ones in two's complement.
    Varint,
    ZigZag,
    Enum(&'static [(&'static str, u64)]),
    /// 64 bits, signed ones in two's complement.
    Fixed64,
    Fixed32,
    Double,
    Message(&'static Schema),
}

const fn one(name: &'static str, number: u32, kind: Kind) -> Field {
    Field { name, number, kind, repeated: false }
}

const fn many(name: &'static str, number: u32, kind: Kind) -> Field {
    Field { name, number, kind, repeated: true }
}

use Kind::{Base64, Bool, Double, Enum, Fixed32, Fixed64, Hex, Message, Text, Varint, ZigZag};

/// `ExportMetricsServiceRequest`.
pub static METRICS: Schema = Schema(&[many("resourceMetrics", 1, Message(&RESOURCE_METRICS))]);
/// `ExportLogsServiceRequest`.
pub static LOGS: Schema = Schema(&[many("resourceLogs", 1, Message(&RESOURCE_LOGS))]);

/// `ExportTraceServiceRequest`.
pub static TRACES: Schema = Schema(&[many("resourceSpans", 1, Message(&RESOURCE_SPANS))]);

static RESOURCE_METRICS: Schema =
    Schema(&[one("resource", 1, Message(&RESOURCE)), many("scopeMetrics", 2, Message(&SCOPE_METRICS))]);
static SCOPE_METRICS: Schema = Schema(&[one("scope", 1, Message(&SCOPE)), many("metrics", 2, Message(&METRIC))]);
static RESOURCE_LOGS: Schema =
    Schema(&[one("resource", 1, Message(&RESOURCE)), many("scopeLogs", 2, Message(&SCOPE_LOGS))]);
static SCOPE_LOGS: Schema = Schema(&[one("scope", 1, Message(&SCOPE)), many("logRecords", 2, Message(&LOG_RECORD))]);
static RESOURCE_SPANS: Schema =
    Schema(&[one("resource", 1, Message(&RESOURCE)), many("scopeSpans", 2, Message(&SCOPE_SPANS))]);
static SCOPE_SPANS: Schema = Schema(&[one("scope", 1, Message(&SCOPE)), many("spans", 2, Message(&SPAN))]);
static SPAN: Schema = Schema(&[
    one("traceId", 1, Hex),
    one("spanId", 2, Hex),
    one("name", 5, Text),
    one("kind", 6, Enum(SPAN_KINDS)),
    one("startTimeUnixNano", 7, Fixed64),
    one("endTimeUnixNano", 8, Fixed64),
    many("events", 11, Message(&EVENT)),
    one("status", 15, Message(&STATUS)),
]);
static EVENT: Schema = Schema(&[one("timeUnixNano", 1, Fixed64), one("name", 2, Text)]);
static STATUS: Schema = Schema(&[one("message", 2, Text), one("code", 3, Enum(STATUS_CODES))]);
const SPAN_KINDS: &[(&str, u64)] = &[
    ("SPAN_KIND_UNSPECIFIED", 0),
    ("SPAN_KIND_INTERNAL", 1),
    ("SPAN_KIND_SERVER", 2),
    ("SPAN_KIND_CLIENT", 3),
    ("SPAN_KIND_PRODUCER", 4),
    ("SPAN_KIND_CONSUMER", 5),
];
const STATUS_CODES: &[(&str, u64)] = &[("STATUS_CODE_UNSET", 0), ("STATUS_CODE_OK", 1), ("STATUS_CODE_ERROR", 2)];
static RESOURCE: Schema = Schema(&[many("attributes", 1, Message(&KEY_VALUE))]);
static SCOPE: Schema =
    Schema(&[one("name", 1, Text), one("version", 2, Text), many("attributes", 3, Message(&KEY_VALUE))]);
static KEY_VALUE: Schema = Schema(&[one("key", 1, Text), one("value", 2, Message(&ANY))]);
static ANY: Schema = Schema(&[
    one("stringValue", 1, Text),
    one("boolValue", 2, Bool),
    one("intValue", 3, Varint),
    one("doubleValue", 4, Double),
    one("arrayValue", 5, Message(&LIST)),
    one("kvlistValue", 6, Message(&MAP)),
    one("bytesValue", 7, Base64),
]);
static LIST: Schema = Schema(&[many("values", 1, Message(&ANY))]);
static MAP: Schema = Schema(&[many("values", 1, Message(&KEY_VALUE))]);
static METRIC: Schema = Schema(&[
    one("name", 1, Text),
    one("description", 2, Text),
    one("unit", 3, Text),
    one("gauge", 5, Message(&GAUGE)),
    one("sum", 7, Message(&SUM)),
    one("histogram", 9, Message(&HISTOGRAM)),
    one("exponentialHistogram", 10, Message(&EXPONENTIAL)),
    one("summary", 11, Message(&SUMMARY)),
]);
const TEMPORALITIES: &[(&str, u64)] = &[
    ("AGGREGATION_TEMPORALITY_UNSPECIFIED", 0),
    ("AGGREGATION_TEMPORALITY_DELTA", 1),
    ("AGGREGATION_TEMPORALITY_CUMULATIVE", 2),
];
static GAUGE: Schema = Schema(&[many("dataPoints", 1, Message(&NUMBER_POINT))]);
static SUM: Schema = Schema(&[
    many("dataPoints", 1, Message(&NUMBER_POINT)),
    one("aggregationTemporality", 2, Enum(TEMPORALITIES)),
    one("isMonotonic", 3, Bool),
]);
static HISTOGRAM: Schema =
    Schema(&[many("dataPoints", 1, Message(&HISTOGRAM_POINT)), one("aggregationTemporality", 2, Enum(TEMPORALITIES))]);
static EXPONENTIAL: Schema = Schema(&[
    many("dataPoints", 1, Message(&EXPONENTIAL_POINT)),
    one("aggregationTemporality", 2, Enum(TEMPORALITIES)),
]);
static SUMMARY: Schema = Schema(&[many("dataPoints", 1, Message(&SUMMARY_POINT))]);
static NUMBER_POINT: Schema = Schema(&[
    many("attributes", 7, Message(&KEY_VALUE)),
    one("startTimeUnixNano", 2, Fixed64),
    one("timeUnixNano", 3, Fixed64),
    one("asDouble", 4, Double),
    one("asInt", 6, Fixed64),
    many("exemplars", 5, Message(&EXEMPLAR)),
    one("flags", 8, Varint),
]);
static HISTOGRAM_POINT: Schema = Schema(&[
    many("attributes", 9, Message(&KEY_VALUE)),
    one("startTimeUnixNano", 2, Fixed64),
    one("timeUnixNano", 3, Fixed64),
    one("count", 4, Fixed64),
    one("sum", 5, Double),
    many("bucketCounts", 6, Fixed64),
    many("explicitBounds", 7, Double),
    many("exemplars", 8, Message(&EXEMPLAR)),
    one("flags", 10, Varint),
    one("min", 11, Double),
    one("max", 12, Double),
]);
static EXPONENTIAL_POINT: Schema = Schema(&[
    many("attributes", 1, Message(&KEY_VALUE)),
    one("startTimeUnixNano", 2, Fixed64),
    one("timeUnixNano", 3, Fixed64),
    one("count", 4, Fixed64),
    one("sum", 5, Double),
    one("scale", 6, ZigZag),
    one("zeroCount", 7, Fixed64),
    one("positive", 8, Message(&BUCKETS)),
    one("negative", 9, Message(&BUCKETS)),
    one("flags", 10, Varint),
    many("exemplars", 11, Message(&EXEMPLAR)),
    one("min", 12, Double),
    one("max", 13, Double),
    one("zeroThreshold", 14, Double),
]);
static BUCKETS: Schema = Schema(&[one("offset", 1, ZigZag), many("bucketCounts", 2, Varint)]);
static SUMMARY_POINT: Schema = Schema(&[
    many("attributes", 7, Message(&KEY_VALUE)),
    one("startTimeUnixNano", 2, Fixed64),
    one("timeUnixNano", 3, Fixed64),
    one("count", 4, Fixed64),
    one("sum", 5, Double),
    many("quantileValues", 6, Message(&QUANTILE)),
    one("flags", 8, Varint),
]);
static QUANTILE: Schema = Schema(&[one("quantile", 1, Double), one("value", 2, Double)]);
static EXEMPLAR: Schema = Schema(&[
    many("filteredAttributes", 7, Message(&KEY_VALUE)),
    one("timeUnixNano", 2, Fixed64),
    one("asDouble", 3, Double),
    one("asInt", 6, Fixed64),
    one("spanId", 4, Hex),
    one("traceId", 5, Hex),
]);
static LOG_RECORD: Schema = Schema(&[
    one("timeUnixNano", 1, Fixed64),
    one("observedTimeUnixNano", 11, Fixed64),
    one("severityNumber", 2, Enum(SEVERITIES)),
    one("severityText", 3, Text),
    one("body", 5, Message(&ANY)),
    many("attributes", 6, Message(&KEY_VALUE)),
    one("flags", 8, Fixed32),
    one("traceId", 9, Hex),
    one("spanId", 10, Hex),
    one("eventName", 12, Text),
]);
/// `SEVERITY_NUMBER_` and what follows; the second to fourth of each range have their number behind the word.
const SEVERITIES: &[(&str, u64)] = &[
    ("SEVERITY_NUMBER_UNSPECIFIED", 0),
    ("SEVERITY_NUMBER_TRACE", 1),
    ("SEVERITY_NUMBER_TRACE2", 2),
    ("SEVERITY_NUMBER_TRACE3", 3),
    ("SEVERITY_NUMBER_TRACE4", 4),
    ("SEVERITY_NUMBER_DEBUG", 5),
    ("SEVERITY_NUMBER_DEBUG2", 6),
    ("SEVERITY_NUMBER_DEBUG3", 7),
    ("SEVERITY_NUMBER_DEBUG4", 8),
    ("SEVERITY_NUMBER_INFO", 9),
    ("SEVERITY_NUMBER_INFO2", 10),
    ("SEVERITY_NUMBER_INFO3", 11),
    ("SEVERITY_NUMBER_INFO4", 12),
    ("SEVERITY_NUMBER_WARN", 13),
    ("SEVERITY_NUMBER_WARN2", 14),
    ("SEVERITY_NUMBER_WARN3", 15),
    ("SEVERITY_NUMBER_WARN4", 16),
    ("SEVERITY_NUMBER_ERROR", 17),
    ("SEVERITY_NUMBER_ERROR2", 18),
    ("SEVERITY_NUMBER_ERROR3", 19),
    ("SEVERITY_NUMBER_ERROR4", 20),
    ("SEVERITY_NUMBER_FATAL", 21),
    ("SEVERITY_NUMBER_FATAL2", 22),
    ("SEVERITY_NUMBER_FATAL3", 23),
    ("SEVERITY_NUMBER_FATAL4", 24),
];

/// The protobuf form of the `schema` message that `json` holds.
///
/// # Errors
/// A sentence with line and column.
pub fn protobuf(json: &[u8], schema: &'static Schema) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(json);
    MessageSeed { schema, out: &mut out }.deserialize(&mut reader).map_err(|error| error.to_string())?;
    reader.end().map_err(|error| error.to_string())?;
    Ok(out)
}

/// Reads an object as a message.
struct MessageSeed<'o> {
    schema: &'static Schema,
    out: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for MessageSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MessageSeed<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Name(name)) = map.next_key()? {
            match self.schema.field(&name) {
                Some(field) => map.next_value_seed(FieldSeed { field, inside: false, out: self.out })?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// A field's name, without a copy where the text has no escapes.
struct Name<'de>(Cow<'de, str>);

impl<'de> de::Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a name")
            }
            fn visit_borrowed_str<E: de::Error>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(name)))
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

impl Schema {
    fn field(&self, name: &str) -> Option<&'static Field> {
        self.0.iter().find(|field| field.name == name || (name.contains('_') && is_snake(field.name, name)))
    }
}

/// Whether `snake` is `camel` with underscores.
fn is_snake(camel: &str, snake: &str) -> bool {
    let mut letters = snake.chars();
    camel.chars().all(|letter| match letter {
        'A'..='Z' => letters.next() == Some('_') && letters.next() == Some(letter.to_ascii_lowercase()),
        _ => letters.next() == Some(letter),
    }) && letters.next().is_none()
}

/// Reads a field's value, or one of a repeated field's.
struct FieldSeed<'o> {
    field: &'static Field,
    /// Inside the list of a repeated field.
    inside: bool,
    out: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl FieldSeed<'_> {
    fn wrong<E: de::Error>(&self, found: &str) -> E {
        E::custom(format!("{} of field {} is not what it must be", found, self.field.name))
    }

    fn varint<E: de::Error>(self, value: u64) -> Result<(), E> {
        varint(self.out, u64::from(self.field.number) << 3);
        varint(self.out, value);
        within(self.out)
    }

    fn fixed64<E: de::Error>(self, bits: u64) -> Result<(), E> {
        varint(self.out, u64::from(self.field.number) << 3 | 1);
        self.out.extend_from_slice(&bits.to_le_bytes());
        within(self.out)
    }

    fn bytes<E: de::Error>(self, bytes: &[u8]) -> Result<(), E> {
        varint(self.out, u64::from(self.field.number) << 3 | 2);
        varint(self.out, bytes.len() as u64);
        self.out.extend_from_slice(bytes);
        within(self.out)
    }

    /// A whole number, by its bits and its value.
    fn integer<E: de::Error>(self, value: i128) -> Result<(), E> {
        let bits = u64::try_from(value).ok().or_else(|| i64::try_from(value).ok().map(i64::cast_unsigned));
        let Some(bits) = bits else { return Err(self.wrong("the number")) };
        match self.field.kind {
            Kind::Varint | Kind::Enum(_) => self.varint(bits),
            Kind::ZigZag => {
                let Ok(value) = i64::try_from(value) else { return Err(self.wrong("the number")) };
                self.varint(((value << 1) ^ (value >> 63)).cast_unsigned())
            }
            Kind::Fixed64 => self.fixed64(bits),
            Kind::Fixed32 => {
                let Ok(value) = u32::try_from(value) else { return Err(self.wrong("the number")) };
                varint(self.out, u64::from(self.field.number) << 3 | 5);
                self.out.extend_from_slice(&value.to_le_bytes());
                within(self.out)
            }
            Kind::Double => self.fixed64((value as f64).to_bits()),
            _ => Err(self.wrong("the number")),
        }
    }
}

fn within<E: de::Error>(out: &[u8]) -> Result<(), E> {
    if out.len() <= OUT_BYTES_MAX {
        return Ok(());
    }
    Err(E::custom(format!("the request has more than {OUT_BYTES_MAX} bytes as protobuf; send less at once")))
}

impl<'de> Visitor<'de> for FieldSeed<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a value of field {}", self.field.name)
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: de::Error>(self, truth: bool) -> Result<(), E> {
        match self.field.kind {
            Kind::Bool => self.varint(u64::from(truth)),
            _ => Err(self.wrong("the truth value")),
        }
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        self.integer(value.into())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        self.integer(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        match self.field.kind {
            Kind::Double => self.fixed64(value.to_bits()),
            // `1e3` is a whole number too.
            _ if value.fract() == 0.0 && value.abs() < 2.0_f64.powi(64) => self.integer(value as i128),
            _ => Err(self.wrong("the number")),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        match self.field.kind {
            Kind::Text => self.bytes(text.as_bytes()),
            Kind::Base64 => match STANDARD.decode(text) {
                Ok(bytes) => self.bytes(&bytes),
                Err(_) => Err(self.wrong("the base64 text")),
            },
            Kind::Hex => match hex::parse(text) {
                Some(bytes) => self.bytes(&bytes),
                None => Err(self.wrong("the hexadecimal text")),
            },
            Kind::Enum(names) => match names.iter().find(|(name, _)| *name == text) {
                Some((_, value)) => self.varint(*value),
                None => Err(self.wrong("the name")),
            },
            Kind::Double => match text {
                "NaN" => self.fixed64(f64::NAN.to_bits()),
                "Infinity" => self.fixed64(f64::INFINITY.to_bits()),
                "-Infinity" => self.fixed64(f64::NEG_INFINITY.to_bits()),
                _ => match text.parse::<f64>() {
                    Ok(value) => self.fixed64(value.to_bits()),
                    Err(_) => Err(self.wrong("the text")),
                },
            },
            _ => match text.parse::<i128>() {
                Ok(value) => self.integer(value),
                Err(_) => Err(self.wrong("the text")),
            },
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if !self.field.repeated || self.inside {
            return Err(self.wrong("the list"));
        }
        while list.next_element_seed(FieldSeed { field: self.field, inside: true, out: &mut *self.out })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let Kind::Message(schema) = self.field.kind else { return Err(self.wrong("the object")) };
        if self.field.repeated != self.inside {
            return Err(self.wrong("the object"));
        }
        let mut message = Vec::new();
        MessageSeed { schema, out: &mut message }.visit_map(map)?;
        self.bytes(&message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, schema: &'static Schema, expected: &[u8]) {
        assert_eq!(protobuf(json.as_bytes(), schema).unwrap(), expected, "{json}");
    }

    #[test]
    fn values_become_what_protobuf_has_for_them() {
        check(r#"{"stringValue":"a"}"#, &ANY, b"\x0a\x01a");
        check(r#"{"boolValue":true}"#, &ANY, b"\x10\x01");
        check(r#"{"intValue":"-1"}"#, &ANY, b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
        check(r#"{"intValue":300}"#, &ANY, b"\x18\xac\x02");
        check(r#"{"doubleValue":1}"#, &ANY, &[&[0x21][..], &1.0_f64.to_le_bytes()].concat());
        check(r#"{"doubleValue":"-Infinity"}"#, &ANY, &[&[0x21][..], &f64::NEG_INFINITY.to_le_bytes()].concat());
        check(r#"{"bytesValue":"aGk="}"#, &ANY, b"\x3a\x02hi");
        check(r#"{"arrayValue":{"values":[{"stringValue":"a"},{}]}}"#, &ANY, b"\x2a\x07\x0a\x03\x0a\x01a\x0a\x00");
        check(r#"{"offset":-3,"bucketCounts":["1",2]}"#, &BUCKETS, b"\x08\x05\x10\x01\x10\x02");
        check(r#"{"offset":1e1}"#, &BUCKETS, b"\x08\x14");
        check(r#"{"spanId":"00F0"}"#, &EXEMPLAR, b"\x22\x02\x00\xf0");
        check(
            r#"{"aggregation_temporality":"AGGREGATION_TEMPORALITY_DELTA","isMonotonic":true}"#,
            &SUM,
            b"\x10\x01\x18\x01",
        );
        check(r#"{"aggregationTemporality":2,"what":[{"is":"this"}],"isMonotonic":null}"#, &SUM, b"\x10\x02");
        check(r#"{"severityNumber":"SEVERITY_NUMBER_FATAL4","flags":1}"#, &LOG_RECORD, b"\x10\x18\x45\x01\x00\x00\x00");
    }

    #[test]
    fn what_is_not_of_the_shape_says_where() {
        for (json, schema) in [
            ("{", &METRICS),
            ("[]", &METRICS),
            ("{} {}", &METRICS),
            (r#"{"resourceMetrics":{}}"#, &METRICS),
            (r#"{"resourceMetrics":[[]]}"#, &METRICS),
            (r#"{"resource":[]}"#, &RESOURCE_METRICS),
            (r#"{"intValue":"1.5"}"#, &ANY),
            (r#"{"intValue":"99999999999999999999999999"}"#, &ANY),
            (r#"{"stringValue":1}"#, &ANY),
            (r#"{"boolValue":"x"}"#, &ANY),
            (r#"{"bytesValue":"?"}"#, &ANY),
            (r#"{"spanId":"0"}"#, &EXEMPLAR),
            (r#"{"spanId":"0g"}"#, &EXEMPLAR),
            (r#"{"aggregationTemporality":"DELTA"}"#, &SUM),
            (r#"{"offset":18446744073709551615}"#, &BUCKETS),
            (r#"{"flags":-1}"#, &LOG_RECORD),
        ] {
            let error = protobuf(json.as_bytes(), schema).unwrap_err();
            assert!(error.contains("line 1 column"), "{json}: {error}");
        }
        let deep = "{\"arrayValue\":{\"values\":[".repeat(1_000);
        assert!(protobuf(deep.as_bytes(), &ANY).unwrap_err().contains("recursion limit"));
    }

    #[test]
    fn what_unfolds_to_too_much_is_refused() {
        // Two characters of JSON become nine bytes.
        let json = format!("{{\"explicitBounds\":[{}0]}}", "0,".repeat(OUT_BYTES_MAX / 9));
        assert!(protobuf(json.as_bytes(), &HISTOGRAM_POINT).unwrap_err().contains("send less"));
    }

    /// Mutated requests end, and what is read is protobuf that the decoder can walk.
    #[test]
    fn mutated_requests_are_read_or_refused() {
        let good = br#"{"resourceMetrics":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"cart"}}]},
            "scopeMetrics":[{"scope":{"name":"lib"},"metrics":[{"name":"m","unit":"s","exponentialHistogram":{"dataPoints":[{"count":"3",
            "timeUnixNano":"1700000000000000000","scale":3,"zeroCount":1,"positive":{"offset":-4,"bucketCounts":["1","1"]}}],
            "aggregationTemporality":1}}]}]}]}"#;
        assert!(protobuf(good, &METRICS).is_ok());
        crate::mutations::mutations(good, 10_000, 3, b"{}[]\",:0e-\\x\xff", |body| {
            if let Ok(message) = protobuf(body, &METRICS) {
                assert!(message.len() <= 9 * body.len());
            }
        });
    }

    /// Any bytes are read as metrics, as logs and as traces, or refused.
    #[test]
    fn changed_requests_unfold_to_little_whatever_they_are_read_as() {
        let metrics = br#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","gauge":{"dataPoints":[{"asInt":"1"}]}}]}]}]}"#;
        crate::mutations::mutations(metrics, 3_000, 5, b" -:[]{},.'\"#&*!|>=\n\tax0e\xff", |bytes| {
            for schema in [&METRICS, &LOGS, &TRACES] {
                assert!(protobuf(bytes, schema).map_or(true, |message| message.len() <= 9 * bytes.len()));
            }
        });
    }
}
