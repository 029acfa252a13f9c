//! Values of SNMP as numbers and labels.
//!
//! Format: counters are cumulative, everything else is a gauge. Hundredths of a second (TimeTicks) become seconds. A
//! text that is a number, and the floating-point numbers that Net-SNMP hides in an Opaque, count as numbers.
//! Limits: [`LABEL_BYTES_MAX`].

use async_snmp::Value;
use ogive_snmp::words;

use super::tables::Object;
use crate::run::{Failure, LABEL_BYTES_MAX, Reason, Run, cut};

/// A number, and how it is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number {
    value: f64,
    is_counter: bool,
    is_seconds: bool,
}

impl Number {
    const fn gauge(value: f64) -> Self {
        Self { value, is_counter: false, is_seconds: false }
    }

    const fn counter(value: f64) -> Self {
        Self { value, is_counter: true, is_seconds: false }
    }
}

/// A value as a number, if it is one.
pub(super) fn number(value: &Value) -> Option<Number> {
    match value {
        Value::Counter32(count) => Some(Number::counter(f64::from(*count))),
        // Above 2^53 it loses its last digits, which a rate does not show.
        Value::Counter64(count) => Some(Number::counter(*count as f64)),
        Value::TimeTicks(ticks) => {
            Some(Number { value: f64::from(*ticks) / 100.0, is_counter: false, is_seconds: true })
        }
        Value::Integer(number) => Some(Number::gauge(f64::from(*number))),
        Value::Gauge32(number) | Value::UInteger32(number) => Some(Number::gauge(f64::from(*number))),
        Value::OctetString(bytes) => {
            let number: f64 = std::str::from_utf8(bytes).ok()?.trim().parse().ok()?;
            number.is_finite().then(|| Number::gauge(number))
        }
        Value::Opaque(_) => {
            let number = value.as_opaque_float().map(f64::from).or_else(|| value.as_opaque_double())?;
            number.is_finite().then(|| Number::gauge(number))
        }
        _ => None,
    }
}

/// Stores the number of an object.
pub(super) fn store(run: &mut Run, object: &Object, labels: &[(&str, &str)], number: Number) {
    let unit = if object.unit.is_empty() && number.is_seconds { "s" } else { object.unit.as_str() };
    let own = object.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let labels: Vec<(&str, &str)> = own.chain(labels.iter().copied()).collect();
    if number.is_counter {
        run.counter(&object.name, unit, &labels, number.value);
    } else {
        run.labelled(&object.name, unit, &labels, number.value);
    }
}

/// Why there is no number.
pub(super) fn unfit(object: &Object, oid: &str, value: &Value) -> Failure {
    let what = match value {
        Value::NoSuchObject => format!("the agent has no object {oid}, or does not show it (noSuchObject)"),
        Value::NoSuchInstance => format!("the agent has no instance {oid} (noSuchInstance)"),
        Value::EndOfMibView => format!("the agent has nothing at {oid} (endOfMibView)"),
        other => format!("the value of {oid} is no number, its type is {}", other.kind()),
    };
    Failure::new(Reason::Content, format!("{:?}: {what}", object.name))
}

/// A value as a label; none of what is none.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::OctetString(bytes) => Some(words(bytes, LABEL_BYTES_MAX)),
        Value::Integer(number) => Some(number.to_string()),
        Value::Counter32(number) | Value::Gauge32(number) | Value::UInteger32(number) | Value::TimeTicks(number) => {
            Some(number.to_string())
        }
        Value::Counter64(number) => Some(number.to_string()),
        Value::IpAddress(address) => Some(std::net::Ipv4Addr::from(*address).to_string()),
        Value::ObjectIdentifier(oid) => Some(cut(&oid.to_string(), LABEL_BYTES_MAX).to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Bytes;

    fn string(bytes: &'static [u8]) -> Value {
        Value::OctetString(Bytes::from_static(bytes))
    }

    #[test]
    fn numbers_are_gauges_counters_and_seconds() {
        let pi = Value::Opaque(Bytes::from_static(&[0x9f, 0x78, 4, 0x40, 0x49, 0x0f, 0xdb]));
        for (value, expected) in [
            (Value::Integer(-3), Some(Number::gauge(-3.0))),
            (Value::Gauge32(u32::MAX), Some(Number::gauge(4_294_967_295.0))),
            (Value::Counter32(7), Some(Number::counter(7.0))),
            (Value::Counter64(1 << 40), Some(Number::counter(1_099_511_627_776.0))),
            (Value::TimeTicks(250), Some(Number { value: 2.5, is_counter: false, is_seconds: true })),
            (string(b" 0.25\n"), Some(Number::gauge(0.25))),
            (pi, Some(Number::gauge(f64::from(std::f32::consts::PI)))),
            (string(b"inf"), None),
            (string(b"eth0"), None),
            (string(b"\xff"), None),
            (Value::Null, None),
            (Value::IpAddress([127, 0, 0, 1]), None),
            (Value::NoSuchInstance, None),
        ] {
            assert_eq!(number(&value), expected, "{value:?}");
        }
    }

    #[test]
    fn labels_are_texts_or_hexadecimal() {
        for (value, expected) in [
            (string(b"eth0\0"), Some("eth0")),
            (string("Gr\u{fc}n".as_bytes()), Some("Gr\u{fc}n")),
            (string(b"\0\x1b\x21\0\xff\x01"), Some("00:1b:21:00:ff:01")),
            (string(b"a\nb"), Some("61:0a:62")),
            (string(b""), Some("")),
            (Value::Integer(6), Some("6")),
            (Value::IpAddress([192, 0, 2, 1]), Some("192.0.2.1")),
            (Value::ObjectIdentifier(async_snmp::Oid::from_slice(&[1, 3, 6])), Some("1.3.6")),
            (Value::EndOfMibView, None),
        ] {
            assert_eq!(text(&value).as_deref(), expected, "{value:?}");
        }
        let long = |length: usize| text(&Value::OctetString(vec![b'x'; length].into())).unwrap().len();
        assert_eq!((long(LABEL_BYTES_MAX), long(LABEL_BYTES_MAX + 1)), (LABEL_BYTES_MAX, LABEL_BYTES_MAX));
        let binary = text(&Value::OctetString(vec![0xff; 1_000].into())).unwrap();
        assert!(binary.len() <= LABEL_BYTES_MAX && binary.ends_with(":ff"), "{binary}");
    }
}
