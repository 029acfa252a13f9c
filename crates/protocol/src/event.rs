//! A structured log event of another system as a series `log` and the text of a sample.
//!
//! Format: docs/formats/log.md. An event without attributes is stored as its body alone.

use std::fmt::Write as _;

use ogive_model::wire::TEXT_SAMPLE_BYTES_MAX;
use ogive_model::{Kind, Sample, SeriesDef, SeriesMeta, Temporality, Value};
use ogive_stream::Key;

use crate::Gather;
use crate::lines::{Fault, Pairs};
use crate::otlp::quoted;

/// The name of the series.
const NAME: &str = "log";

/// Names of syslog's severities, by number; other protocols use the same numbers.
pub(crate) const SEVERITIES: [&str; 8] = ["emerg", "alert", "crit", "error", "warning", "notice", "info", "debug"];

/// What the series of an event is named by; what an event does not say is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin<'e> {
    pub(crate) job: &'e str,
    pub(crate) host: &'e str,
    pub(crate) severity: &'e str,
}

impl Origin<'_> {
    fn key(&self) -> Key {
        Key::new(0, self.severity.as_bytes()).and(self.job.as_bytes()).and(self.host.as_bytes())
    }

    fn series(&self) -> Result<SeriesDef, Fault> {
        let mut pairs = Pairs::named(NAME.into());
        for (name, value) in [("job", self.job), ("instance", self.host), ("severity", self.severity)] {
            if !value.is_empty() {
                pairs.add(name.into(), value.into())?;
            }
        }
        let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        pairs.series(meta)
    }

    /// Adds the event with this text to `gather`.
    pub(crate) fn push(&self, time_ns: i64, text: String, gather: &mut Gather) -> Result<(), Fault> {
        if text.len() > TEXT_SAMPLE_BYTES_MAX {
            return Err(Fault::TooLong);
        }
        // The owner of the gatherer takes it long before it reaches its limit.
        let number = gather.number(self.key(), || self.series()).map_err(|_| Fault::Cells)??;
        let sample = Sample { series: number, time_ns, start_ns: None, value: Value::Text(text) };
        gather.push_sample(sample).map_err(|_| Fault::Cells)
    }
}

/// The text that is stored; `body` is none when the event has only attributes.
pub(crate) fn text<'e, V: std::fmt::Display>(
    body: Option<&str>,
    attributes: impl Iterator<Item = (&'e str, V)>,
) -> String {
    let mut attributes = attributes.peekable();
    if let (Some(body), None) = (body, attributes.peek()) {
        return body.to_owned();
    }
    let mut out = String::with_capacity(body.map_or(0, str::len) + 256);
    out.push_str("{\"body\":");
    match body {
        Some(body) => quoted(&mut out, body),
        None => out.push_str("null"),
    }
    let mut before = ",\"attributes\":{";
    for (name, value) in attributes {
        out.push_str(before);
        quoted(&mut out, name);
        let _ = write!(out, ":{value}");
        before = ",";
    }
    out.push_str(if before == "," { "}}" } else { "}" });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_records_only_where_there_are_attributes() {
        let none: [(&str, u8); 0] = [];
        assert_eq!(text(Some("a \"b\""), none.into_iter()), "a \"b\"");
        assert_eq!(text(None, none.into_iter()), r#"{"body":null}"#);
        let two = [("a\"b", 1), ("c", 2)];
        assert_eq!(text(Some("x\ny"), two.into_iter()), r#"{"body":"x\ny","attributes":{"a\"b":1,"c":2}}"#);
    }

    #[test]
    fn an_event_that_is_longer_than_a_stored_text_is_a_fault() {
        let push = |size| Origin::default().push(1, "x".repeat(size), &mut Gather::default());
        assert_eq!(push(TEXT_SAMPLE_BYTES_MAX), Ok(()));
        assert_eq!(push(TEXT_SAMPLE_BYTES_MAX + 1), Err(Fault::TooLong));
    }
}
