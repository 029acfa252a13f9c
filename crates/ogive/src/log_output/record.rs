//! One log record, and its forms.

use std::fmt::{self, Write};

use ogive_text::calendar;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// 16 KiB: longer than any message of ours; a program under a check may respond with a page.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// An event with its values.
pub(super) struct Record {
    wall_ns: i64,
    level: Level,
    target: &'static str,
    message: String,
    fields: Vec<(&'static str, Value)>,
}

impl Record {
    /// `wall_ns`: nanoseconds since 1970.
    pub(super) fn new(event: &Event<'_>, wall_ns: i64) -> Self {
        let metadata = event.metadata();
        let mut this = Self {
            wall_ns,
            level: *metadata.level(),
            target: metadata.target(),
            message: String::new(),
            fields: Vec::new(),
        };
        event.record(&mut this);
        this
    }

    /// `ogive: message key=value`.
    pub(super) fn message_alone(&self) -> String {
        let mut line = format!("ogive: {}", self.message);
        self.append_fields(&mut line);
        line.push('\n');
        line
    }

    /// `2026-01-02T03:04:05.123Z WARN message key=value`.
    pub(super) fn text(&self) -> String {
        let mut line = format!("{} {} {}", calendar::iso(self.wall_ns), self.level, safe(&self.message));
        self.append_fields(&mut line);
        line.push('\n');
        line
    }

    /// One JSON object.
    pub(super) fn json(&self) -> String {
        let mut object = Map::new();
        object.insert("time".into(), calendar::iso(self.wall_ns).into());
        object.insert("level".into(), self.level.as_str().to_ascii_lowercase().into());
        object.insert("target".into(), self.target.into());
        object.insert("message".into(), self.message.as_str().into());
        for (name, value) in &self.fields {
            object.entry(*name).or_insert_with(|| value.clone());
        }
        let mut line = Value::Object(object).to_string();
        line.push('\n');
        line
    }

    fn append_fields(&self, line: &mut String) {
        for (name, value) in &self.fields {
            let _ = match value {
                Value::String(text) if !text.is_empty() && !text.contains([' ', '"', '=', '\n']) => {
                    write!(line, " {name}={}", safe(text))
                }
                other => write!(line, " {name}={other}"),
            };
        }
    }

    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => self.fields.push((name, value)),
        }
    }
}

impl Visit for Record {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, cut(format!("{value:?}")).into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, cut(value.to_owned()).into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }
}

/// `text` within [`MESSAGE_BYTES_MAX`], and how much is missing.
fn cut(mut text: String) -> String {
    if text.len() > MESSAGE_BYTES_MAX {
        let more = text.len() - MESSAGE_BYTES_MAX;
        text.truncate(text.floor_char_boundary(MESSAGE_BYTES_MAX));
        let _ = write!(text, " … and {more} bytes more");
    }
    text
}

/// `text` without a character that a terminal obeys, its further lines indented.
fn safe(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\n  "),
            '\t' => out.push('\t'),
            other if other.is_control() => out.extend(other.escape_default()),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

    #[derive(Clone, Default)]
    struct RecordLog(Arc<Mutex<Vec<[String; 3]>>>);

    impl<S: tracing::Subscriber> Layer<S> for RecordLog {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let record = Record::new(event, 1_700_000_000_123_456_789);
            self.0.lock().unwrap().push([record.text(), record.json(), record.message_alone()]);
        }
    }

    fn written(log: impl FnOnce()) -> [String; 3] {
        let kept = RecordLog::default();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(kept.clone()), log);
        let mut all = kept.0.lock().unwrap();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn a_record_has_its_time_level_message_and_fields() {
        let [text, json, alone] =
            written(|| tracing::warn!(job = "api", targets = 3, why = %"a b", "it is {}", "slow"));
        assert_eq!(text, "2023-11-14T22:13:20.123Z WARN it is slow job=api targets=3 why=\"a b\"\n");
        assert_eq!(alone, "ogive: it is slow job=api targets=3 why=\"a b\"\n");
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["level"], "warn");
        assert_eq!(json["time"], "2023-11-14T22:13:20.123Z");
        assert_eq!(json["message"], "it is slow");
        assert_eq!((&json["job"], &json["targets"], &json["why"]), (&"api".into(), &3.into(), &"a b".into()));
        assert!(json["target"].as_str().unwrap().starts_with("ogive::log_output"), "{json}");
    }

    #[test]
    fn no_message_looks_like_another_record_or_commands_a_terminal() {
        let [text, json, _] =
            written(|| tracing::info!("{}", "bad\n2026-01-02T03:04:05.123Z ERROR forged \u{1b}[2J\r"));
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().nth(1).unwrap().starts_with("  2026"), "{text:?}");
        assert!(!text.contains('\u{1b}') && !text.contains('\r'), "{text:?}");
        assert_eq!(json.lines().count(), 1);
    }

    #[test]
    fn a_message_is_cut_above_its_limit() {
        assert_eq!(cut("x".repeat(MESSAGE_BYTES_MAX)).len(), MESSAGE_BYTES_MAX);
        let long = cut(format!("é{}", "é".repeat(MESSAGE_BYTES_MAX)));
        assert!(long.ends_with("bytes more") && long.len() < MESSAGE_BYTES_MAX + 40);
    }
}
