//! Syslog: RFC 5424, the older practice that RFC 3164 describes, and the framing of messages in a stream (RFC 6587).
//!
//! Stored format: a series `log` with the labels `job` (the program), `instance` (the host), `facility` and `severity`;
//! the text is the message, or, if there is a process id, a message id or structured data, a record as described in
//! docs/formats/log.md.
//! Invariants: a message is a sample or one [`Fault`]; an accepted message is stored completely.
//! Limits: [`MESSAGE_BYTES_MAX`], and in [`framing`] the lengths that a stream may declare.

pub mod framing;
mod message;

use crate::Gather;
use crate::event::{Origin, Record, SEVERITIES};
use crate::lines::Fault;
use crate::otlp::quoted;
pub use message::Message;

/// 64 KiB: RFC 5424 asks for 2 KiB, rsyslog sends 8 KiB by default.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Names of facilities, by number (RFC 5424, section 6.2.1).
pub(crate) const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "ntp",
    "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];

/// Takes one message, which arrived at `now_ns`.
///
/// # Errors
/// The rule that it breaks.
pub fn feed(bytes: &[u8], now_ns: i64, gather: &mut Gather) -> Result<(), Fault> {
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(Fault::TooLong);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Fault::NotUtf8)?;
    let message = Message::parse(text).ok_or(Fault::Fields)?;
    message.origin().push(message.time_ns.unwrap_or(now_ns), message.text(), gather)
}

impl Message<'_> {
    fn origin(&self) -> Origin<'_> {
        Origin {
            job: self.program,
            host: self.host,
            facility: FACILITIES[usize::from(self.priority >> 3)],
            severity: SEVERITIES[usize::from(self.priority & 7)],
        }
    }

    /// The line that is stored.
    fn text(&self) -> String {
        let mut record = Record::new(self.body);
        for (name, value) in [("pid", self.process), ("msgid", self.message_id)] {
            if !value.is_empty() {
                quoted(record.attribute(name), value);
            }
        }
        for (element, name, value) in self.elements() {
            let attribute = match name {
                "" => record.attribute(element),
                name => record.attribute(&format!("{element}.{name}")),
            };
            quoted(attribute, &value);
        }
        record.into_text()
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::Value;

    use super::*;
    use crate::mutations::mutations;

    const NOW: i64 = 1_700_000_000_000_000_000;

    /// The series, the time in milliseconds behind now (none for now) and the text.
    fn check(bytes: &str, labels: &str, time_ms: Option<i64>, text: &str) {
        let mut gather = Gather::default();
        feed(bytes.as_bytes(), NOW, &mut gather).unwrap_or_else(|fault| panic!("{bytes}: {fault}"));
        let batch = gather.take(Default::default(), 0, &Default::default());
        let sample = batch.samples[0].as_ref().unwrap();
        assert_eq!(batch.series[0].as_ref().unwrap().labels.to_string(), format!("log{{{labels}}}"), "{bytes}");
        assert_eq!(sample.time_ns, time_ms.map_or(NOW, |ms| ms * 1_000_000), "{bytes}");
        assert_eq!(sample.value, Value::Text(text.into()), "{bytes}");
    }

    #[test]
    fn both_standards_are_read() {
        check(
            "<165>1 2003-10-11T22:14:15.003Z web-1 evntslog - - - \u{feff}An event ä",
            r#"facility="local4", instance="web-1", job="evntslog", severity="notice""#,
            Some(1_065_910_455_003),
            "An event ä",
        );
        check(
            r#"<34>1 2003-10-11T22:14:15.003+02:00 h su 77 ID47 [a@1 x="1" y="q\"\]\\"][b@1] 'su root' failed"#,
            r#"facility="auth", instance="h", job="su", severity="crit""#,
            Some(1_065_903_255_003),
            r#"{"body":"'su root' failed","attributes":{"pid":"77","msgid":"ID47","a@1.x":"1","a@1.y":"q\"]\\","b@1":""}}"#,
        );
        check("<0>1 - - - - - -", r#"facility="kern", severity="emerg""#, None, "");
        check("<14>1 - h p - - - ", r#"facility="user", instance="h", job="p", severity="info""#, None, "");
        check(
            "<38>Nov  4 02:03:04 web-1 sshd[12]: Failed password",
            r#"facility="auth", instance="web-1", job="sshd", severity="info""#,
            None,
            r#"{"body":"Failed password","attributes":{"pid":"12"}}"#,
        );
        check(
            "<190>Nov 24 02:03:04 web-1 nginx: 10.0.0.7 - - [x]",
            r#"facility="local7", instance="web-1", job="nginx", severity="info""#,
            None,
            "10.0.0.7 - - [x]",
        );
        check("<13>Nov 24 02:03:04 me: no host", r#"facility="user", job="me", severity="notice""#, None, "no host");
        check(
            "<13>2023-11-14T22:13:20.5+00:00 h app: forwarded",
            r#"facility="user", instance="h", job="app", severity="notice""#,
            Some(1_700_000_000_500),
            "forwarded",
        );
        check("<13>only words", r#"facility="user", severity="notice""#, None, "only words");
    }

    #[test]
    fn what_is_no_message_is_a_fault() {
        for wrong in ["", "no priority", "<", "<>x", "<192>x", "<1234>x", "<-1>x", "<a>x"] {
            assert_eq!(feed(wrong.as_bytes(), NOW, &mut Gather::default()), Err(Fault::Fields), "{wrong}");
        }
        assert_eq!(feed(b"<13>\xff", NOW, &mut Gather::default()), Err(Fault::NotUtf8));
        let long = format!("<13>{}", "x".repeat(MESSAGE_BYTES_MAX - 4));
        assert_eq!(feed(long.as_bytes(), NOW, &mut Gather::default()), Ok(()));
        assert_eq!(feed((long + "x").as_bytes(), NOW, &mut Gather::default()), Err(Fault::TooLong));
        // What looks like structured data and is none is a part of the message: nothing is lost.
        check(
            "<13>1 - h p - - [open msg",
            r#"facility="user", instance="h", job="p", severity="notice""#,
            None,
            "[open msg",
        );
    }

    #[test]
    fn any_message_ends() {
        let good = br#"<34>1 2003-10-11T22:14:15.003+02:00 h su 77 ID47 [a@1 x="1" y="q\"\]\\"][b@1] 'su root' failed"#;
        for good in [&good[..], b"<38>Nov  4 02:03:04 web-1 sshd[12]: Failed password"] {
            mutations(good, 20_000, 6, b" <>[]\":=\\-19:\n\xff", |bytes| {
                let mut gather = Gather::default();
                if feed(bytes, NOW, &mut gather).is_ok() {
                    gather.take(Default::default(), 0, &Default::default()).encode().unwrap();
                }
            });
        }
    }
}
