//! What shippers of logs send: syslog with octet counting, Beats' windows, messages of Fluent Forward; with the lines
//! of services or of an access log.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use ogive_text::calendar::rfc3339;

/// Events that are sent at once: Filebeat's largest window.
pub(crate) const WINDOW_EVENTS: usize = 2_048;

/// The level at which Filebeat compresses.
const COMPRESSION_LEVEL: u32 = 3;

const SERVICES: [&str; 8] = ["cart", "catalog", "checkout", "login", "mail", "payment", "search", "shipping"];

/// How events travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// RFC 5424 with octet counting; nothing is acknowledged.
    Syslog,
    /// Windows of lumberjack, version 2.
    Beats,
    /// The same in one compressed frame each.
    BeatsCompressed,
    /// PackedForward with a chunk, which is acknowledged.
    Fluent,
}

/// What the events say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Topic {
    /// Lines of services, in logfmt.
    Services,
    /// Lines of nginx's access log.
    Access,
}

/// An event. No two of a server have the same number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) topic: Topic,
    /// Which of the hosts.
    pub(crate) host: usize,
    pub(crate) number: u64,
    pub(crate) time_ms: i64,
}

impl Event {
    fn service(self) -> &'static str {
        match self.topic {
            Topic::Services => SERVICES[self.number as usize % SERVICES.len()],
            Topic::Access => "nginx",
        }
    }

    fn host(self) -> String {
        format!("web-{}.example.org", self.host)
    }

    fn is_error(self) -> bool {
        self.number.is_multiple_of(50)
    }

    /// As RFC 3339 has it, with milliseconds.
    fn time(self) -> String {
        let second = rfc3339(self.time_ms);
        format!("{}.{:03}Z", second.trim_end_matches('Z'), self.time_ms.rem_euclid(1_000))
    }

    fn line(self) -> String {
        let number = self.number;
        let trace = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (took, part) = (number % 977, number % 10);
        match self.topic {
            Topic::Access => format!(
                "10.0.{}.7 - - [24/Nov/2026:02:03:04 +0000] \"GET /shop/item/{number} HTTP/1.1\" 200 {} \"-\" \
                 \"Mozilla/5.0 (X11; Linux x86_64)\" rt=0.{took:03} urt=0.{:03}",
                number % 250,
                100 + number % 4_000,
                number % 499
            ),
            Topic::Services if self.is_error() => {
                format!("level=error msg=\"no answer within 2 s\" order={number} attempt={part} trace={trace:016x}")
            }
            Topic::Services => format!(
                "level=info msg=\"order placed\" order={number} customer={} took_ms={took}.{part} trace={trace:016x}",
                number % 99_991
            ),
        }
    }

    /// Some 150 bytes for a line of a service.
    fn syslog(self) -> Vec<u8> {
        let (priority, process) = match self.topic {
            Topic::Access => (190, "-"),
            Topic::Services if self.is_error() => (27, "4711"),
            Topic::Services => (30, "4711"),
        };
        let (time, host, program, line) = (self.time(), self.host(), self.service(), self.line());
        let message = format!("<{priority}>1 {time} {host} {program} {process} - - {line}");
        format!("{} {message}", message.len()).into_bytes()
    }

    /// As Filebeat sends it.
    fn json(self) -> String {
        let (time, host, service, number) = (self.time(), self.host(), self.service(), self.number);
        let message = serde_json::Value::String(self.line());
        format!(
            r#"{{"@timestamp":"{time}","@metadata":{{"beat":"filebeat","type":"_doc","version":"8.17.0"}},"message":{message},"log":{{"offset":{number},"file":{{"path":"/var/log/{service}.log"}}}},"service":{{"name":"{service}"}},"host":{{"name":"{host}"}},"ecs":{{"version":"8.0.0"}}}}"#
        )
    }

    /// As Fluent Bit sends the line of a container.
    fn entry(self) -> Vec<u8> {
        let seconds = u32::try_from(self.time_ms.div_euclid(1_000)).expect("the year is below 2106");
        let nanoseconds = self.time_ms.rem_euclid(1_000) as u32 * 1_000_000;
        let mut out = vec![0x92, 0xd7, 0];
        out.extend_from_slice(&seconds.to_be_bytes());
        out.extend_from_slice(&nanoseconds.to_be_bytes());
        out.push(0x84);
        for (name, value) in [
            ("log", self.line()),
            ("host", self.host()),
            ("stream", "stdout".to_owned()),
            ("container_name", format!("/{}", self.service())),
        ] {
            text(&mut out, name);
            text(&mut out, &value);
        }
        out
    }
}

/// A text of MessagePack.
fn text(out: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).expect("texts of the bench are short");
    match length {
        0..32 => out.push(0xa0 | length as u8),
        _ => {
            out.push(0xda);
            out.extend_from_slice(&length.to_be_bytes());
        }
    }
    out.extend_from_slice(text.as_bytes());
}

/// Bytes that are sent at once, and what the server says when all their events are durable.
pub(crate) struct Window {
    pub(crate) bytes: Vec<u8>,
    /// Empty where nothing is acknowledged.
    pub(crate) acknowledgement: Vec<u8>,
}

impl Window {
    /// The events of one window, in the order of their numbers.
    pub(crate) fn new(form: Form, events: &[Event]) -> Self {
        assert!(!events.is_empty(), "a window has events");
        let count = u32::try_from(events.len()).expect("a window is small").to_be_bytes();
        let of_beats = |frames: Vec<u8>| Self {
            bytes: [&b"2W"[..], &count, &frames].concat(),
            acknowledgement: [&b"2A"[..], &count].concat(),
        };
        match form {
            Form::Syslog => {
                let bytes = events.iter().flat_map(|event| event.syslog()).collect();
                Self { bytes, acknowledgement: Vec::new() }
            }
            Form::Beats => of_beats(frames(events)),
            Form::BeatsCompressed => of_beats(compressed(&frames(events))),
            Form::Fluent => message(events),
        }
    }
}

/// The events of a window of Beats, numbered from 1.
fn frames(events: &[Event]) -> Vec<u8> {
    let mut out = Vec::new();
    for (sequence, event) in (1_u32..).zip(events) {
        let json = event.json();
        out.extend_from_slice(b"2J");
        out.extend_from_slice(&sequence.to_be_bytes());
        out.extend_from_slice(&(json.len() as u32).to_be_bytes());
        out.extend_from_slice(json.as_bytes());
    }
    out
}

fn compressed(frames: &[u8]) -> Vec<u8> {
    let mut out = ZlibEncoder::new(Vec::new(), Compression::new(COMPRESSION_LEVEL));
    out.write_all(frames).unwrap();
    let bytes = out.finish().unwrap();
    [&b"2C"[..], &(bytes.len() as u32).to_be_bytes(), &bytes].concat()
}

/// A message of Fluent Forward; its chunk is the number of its first event.
fn message(events: &[Event]) -> Window {
    let entries: Vec<u8> = events.iter().flat_map(|event| event.entry()).collect();
    let chunk = format!("{:016x}", events[0].number);
    let tag = SERVICES[events[0].number as usize / WINDOW_EVENTS % SERVICES.len()];
    let mut bytes = vec![0x93];
    text(&mut bytes, tag);
    bytes.push(0xc6);
    bytes.extend_from_slice(&(entries.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&entries);
    bytes.push(0x81);
    text(&mut bytes, "chunk");
    text(&mut bytes, &chunk);
    let mut acknowledgement = vec![0x81];
    text(&mut acknowledgement, "ack");
    text(&mut acknowledgement, &chunk);
    Window { bytes, acknowledgement }
}
