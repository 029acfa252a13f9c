//! A log event of syslog, GELF, Beats, Fluent Forward, SNMP or a journal as a series `log` and the text of a sample.
//!
//! Format: docs/formats/log.md. An event without attributes is stored as its body alone.

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

/// The severity that a program's word for it means; empty when it means none.
pub(crate) fn severity(word: &str) -> &'static str {
    let word = word.to_ascii_lowercase();
    match word.as_str() {
        "warn" => "warning",
        "err" => "error",
        "critical" | "fatal" => "crit",
        "information" => "info",
        "trace" => "debug",
        word => SEVERITIES.into_iter().find(|severity| *severity == word).unwrap_or_default(),
    }
}

/// What the series of an event is named by; what an event does not say is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin<'e> {
    pub(crate) job: &'e str,
    pub(crate) host: &'e str,
    pub(crate) facility: &'e str,
    pub(crate) severity: &'e str,
}

impl Origin<'_> {
    fn key(&self) -> Key {
        let levels = Key::new(0, self.severity.as_bytes()).and(self.facility.as_bytes());
        levels.and(self.job.as_bytes()).and(self.host.as_bytes())
    }

    fn series(&self) -> Result<SeriesDef, Fault> {
        let mut pairs = Pairs::named(NAME.into());
        let labels =
            [("job", self.job), ("instance", self.host), ("facility", self.facility), ("severity", self.severity)];
        for (name, value) in labels {
            if !value.is_empty() {
                pairs.add(name.into(), value.into())?;
            }
        }
        let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        pairs.series(meta)
    }

    /// Adds the event with this text to `gather`.
    ///
    /// # Errors
    /// [`Fault::TooLong`] when the text is longer than a stored one may be, or the rule that a label breaks.
    pub(crate) fn push(&self, time_ns: i64, text: String, gather: &mut Gather) -> Result<(), Fault> {
        if text.len() > TEXT_SAMPLE_BYTES_MAX {
            return Err(Fault::TooLong);
        }
        // The owner of the gatherer takes it long before it reaches its limit.
        let number = gather.number(self.key(), || self.series()).map_err(|_| Fault::Labels)??;
        let sample = Sample { series: number, time_ns, start_ns: None, value: Value::Text(text) };
        gather.push_sample(sample).map_err(|_| Fault::Cells)
    }
}

/// The text of an event: its body alone, or a record where there are attributes.
pub(crate) struct Record<'e> {
    body: &'e str,
    /// The record as far as it goes; empty without attributes.
    out: String,
}

impl<'e> Record<'e> {
    pub(crate) fn new(body: &'e str) -> Self {
        Self { body, out: String::new() }
    }

    /// Begins an attribute; its value, as JSON, is to be written behind what is there.
    pub(crate) fn attribute(&mut self, name: &str) -> &mut String {
        if self.out.is_empty() {
            self.out.reserve(self.body.len() + 64);
            self.out.push_str("{\"body\":");
            quoted(&mut self.out, self.body);
            self.out.push_str(",\"attributes\":{");
        } else {
            self.out.push(',');
        }
        quoted(&mut self.out, name);
        self.out.push(':');
        &mut self.out
    }

    pub(crate) fn into_text(mut self) -> String {
        if self.out.is_empty() {
            return self.body.to_owned();
        }
        self.out.push_str("}}");
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_records_only_where_there_are_attributes() {
        assert_eq!(Record::new("a \"b\"").into_text(), "a \"b\"");
        let mut record = Record::new("x\ny");
        record.attribute("a\"b").push('1');
        quoted(record.attribute("c"), "2");
        assert_eq!(record.into_text(), r#"{"body":"x\ny","attributes":{"a\"b":1,"c":"2"}}"#);
    }

    #[test]
    fn an_event_that_is_longer_than_a_stored_text_is_a_fault() {
        let push = |size| Origin::default().push(1, "x".repeat(size), &mut Gather::default());
        assert_eq!(push(TEXT_SAMPLE_BYTES_MAX), Ok(()));
        assert_eq!(push(TEXT_SAMPLE_BYTES_MAX + 1), Err(Fault::TooLong));
    }
}
