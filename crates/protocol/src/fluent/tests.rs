use std::collections::BTreeMap;

use ogive_model::Value as Stored;
use proptest::prelude::*;
use rmp::encode;
use serde_json::{Value, json};

use super::entry::{ENTRY_BYTES_MAX, Entry, TAG_BYTES_MAX, feed};
use super::error::MessageError;
use super::handshake::{Ping, Pong, helo};
use super::message::{CHUNK_BYTES_MAX, MESSAGE_BYTES_MAX, Message, Messages};
use crate::Gather;
use crate::inflate::tests::gzip;
use crate::lines::Fault;
use crate::msgpack::Writer;
use crate::mutations::mutations;

const NOW: i64 = 1_700_000_000_000_000_000;

/// A value of JSON as MessagePack.
fn packed(value: &Value) -> Vec<u8> {
    let writer = Writer::default();
    let written = match value {
        Value::Null => writer.value(&[0xc0]),
        Value::Bool(truth) => writer.bool(*truth),
        Value::String(text) => writer.text(text),
        Value::Number(number) => writer.value(&packed_number(number)),
        Value::Array(values) => {
            let begin = writer.list(values.len() as u32);
            values.iter().fold(begin, |list, value| list.value(&packed(value)))
        }
        Value::Object(members) => {
            let begin = writer.map(members.len() as u32);
            members.iter().fold(begin, |map, (name, value)| map.text(name).value(&packed(value)))
        }
    };
    written.into_bytes()
}

fn packed_number(number: &serde_json::Number) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(whole) = number.as_u64() {
        encode::write_uint(&mut out, whole).unwrap();
    } else if let Some(whole) = number.as_i64() {
        encode::write_sint(&mut out, whole).unwrap();
    } else {
        encode::write_f64(&mut out, number.as_f64().unwrap()).unwrap();
    }
    out
}

fn event_time(seconds: u32, nanoseconds: u32) -> Vec<u8> {
    [&[0xd7_u8, 0][..], &seconds.to_be_bytes(), &nanoseconds.to_be_bytes()].concat()
}

fn list(parts: &[&[u8]]) -> Vec<u8> {
    let begin = Writer::default().list(parts.len() as u32);
    parts.iter().fold(begin, |list, part| list.value(part)).into_bytes()
}

fn text(text: &str) -> Vec<u8> {
    Writer::default().text(text).into_bytes()
}

fn binary(bytes: &[u8]) -> Vec<u8> {
    Writer::default().binary(bytes).into_bytes()
}

/// How the entries of a message are written.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Message,
    Forward,
    Binary,
    Text,
    /// In so many members of gzip, which end inside entries.
    Gzip(usize),
}

const MODES: [Mode; 6] = [Mode::Message, Mode::Forward, Mode::Binary, Mode::Text, Mode::Gzip(1), Mode::Gzip(3)];

/// Messages with these pairs of a time and a record, each as MessagePack.
fn messages(mode: Mode, tag: &str, entries: &[[Vec<u8>; 2]], option: &Value) -> Vec<u8> {
    let (tag, mut option) = (text(tag), option.clone());
    if let Mode::Message = mode {
        let one = |[time, record]: &[Vec<u8>; 2]| list(&[&tag, time, record, &packed(&option)]);
        return entries.iter().flat_map(one).collect();
    }
    let lists: Vec<Vec<u8>> = entries.iter().map(|[time, record]| list(&[time, record])).collect();
    let stream = lists.concat();
    let body = match mode {
        Mode::Forward => list(&lists.iter().map(Vec::as_slice).collect::<Vec<_>>()),
        Mode::Binary => binary(&stream),
        Mode::Text => {
            let mut out = Vec::new();
            encode::write_str_len(&mut out, stream.len() as u32).unwrap();
            [out, stream].concat()
        }
        Mode::Gzip(members) => {
            option["compressed"] = "gzip".into();
            binary(&stream.chunks(stream.len().div_ceil(members).max(1)).flat_map(gzip).collect::<Vec<u8>>())
        }
        Mode::Message => unreachable!("it is above"),
    };
    list(&[&tag, &body, &packed(&option)])
}

/// What came of a stream: entries that were taken and faults, the acknowledgements, and how it ended.
#[derive(Debug, Default)]
struct Outcome {
    gather: Gather,
    faults: Vec<Fault>,
    answers: Vec<u8>,
    ended: Option<Result<bool, MessageError>>,
}

impl Outcome {
    fn read(stream: &[u8], size: usize) -> Self {
        let mut outcome = Self::default();
        let ended = outcome.add(stream, size);
        outcome.ended = Some(ended);
        outcome
    }

    fn add(&mut self, stream: &[u8], size: usize) -> Result<bool, MessageError> {
        let mut messages = Messages::default();
        for mut piece in stream.chunks(size) {
            while let Some(bytes) = messages.next(&mut piece)? {
                self.add_message(bytes)?;
                messages.forget();
            }
            assert!(piece.is_empty());
            assert!(messages.held() <= MESSAGE_BYTES_MAX + size, "{}", messages.held());
        }
        Ok(messages.is_cut())
    }

    fn add_message(&mut self, bytes: &[u8]) -> Result<(), MessageError> {
        let Some(message) = Message::read(bytes)? else { return Ok(()) };
        let mut entries = message.entries();
        while let Some(entry) = entries.next_entry()? {
            let before = self.gather.len();
            match feed(message.tag(), entry, NOW, &mut self.gather) {
                Ok(taken) => {
                    assert_eq!(self.gather.len(), before + 1);
                    assert!(taken.bytes > 0);
                }
                Err(fault) => {
                    assert_eq!(self.gather.len(), before);
                    self.faults.push(fault);
                }
            }
        }
        self.answers.extend(message.acknowledgement().unwrap_or_default());
        Ok(())
    }

    /// The labels, the time and the text of each sample.
    fn samples(&mut self) -> Vec<(String, i64, String)> {
        let batch = self.gather.take(Default::default(), 0, &Default::default());
        let of = |sample: &ogive_model::Sample| {
            let Stored::Text(text) = &sample.value else { panic!("{sample:?}") };
            let series = batch.series[sample.series as usize].as_ref().unwrap();
            (series.labels.to_string(), sample.time_ns, text.clone())
        };
        batch.samples.iter().map(|sample| of(sample.as_ref().unwrap())).collect()
    }
}

#[test]
fn every_mode_has_the_same_entries() {
    let record = |at: u32| packed(&json!({"log": format!("line {at}"), "at": at}));
    let entries: Vec<[Vec<u8>; 2]> = (1..=20).map(|at| [event_time(at, 7), record(at)]).collect();
    let expected: Vec<_> = (1..=20_i64)
        .map(|at| {
            let text = format!(r#"{{"body":"line {at}","attributes":{{"at":{at}}}}}"#);
            ("log{job=\"app.web\"}".to_owned(), at * 1_000_000_000 + 7, text)
        })
        .collect();
    for mode in MODES {
        let stream = messages(mode, "app.web", &entries, &json!({"size": 20, "chunk": "cGllY2U="}));
        for size in [1, 2, 13, stream.len()] {
            let mut outcome = Outcome::read(&stream, size);
            assert_eq!((outcome.samples(), &outcome.faults), (expected.clone(), &vec![]), "{mode:?} by {size}");
            let count = if let Mode::Message = mode { 20 } else { 1 };
            assert_eq!(outcome.answers, b"\x81\xa3ack\xa8cGllY2U=".repeat(count), "{mode:?}");
            assert_eq!(outcome.ended, Some(Ok(false)), "{mode:?}");
        }
        for end in 1..stream.len().min(400) {
            assert!(matches!(Outcome::read(&stream[..end], 7).ended, Some(Ok(_))), "{mode:?} until {end}");
        }
    }
}

/// The labels, the time in nanoseconds and the text of one entry.
fn check(entry: &[u8], labels: &str, time_ns: i64, expected: &str) {
    let mut outcome = Outcome::read(&list(&[&text("t"), &list(&[entry])]), 1 << 20);
    assert_eq!((&outcome.faults, outcome.ended), (&vec![], Some(Ok(false))), "{expected}");
    assert_eq!(outcome.samples(), [(format!("log{{{labels}}}"), time_ns, expected.to_owned())]);
}

#[test]
fn fields_become_labels_and_attributes() {
    let one = |time: &[u8], record: Value| list(&[time, &packed(&record)]);
    let second = 1_000_000_000;
    check(
        &one(&event_time(5, 250), json!({"log": "hello\n", "host": "web-1", "level": "WARN", "n": 1.5})),
        r#"instance="web-1", job="t", severity="warning""#,
        5 * second + 250,
        r#"{"body":"hello","attributes":{"level":"WARN","n":1.5}}"#,
    );
    check(&one(&[5], json!({"message": "a"})), r#"job="t""#, 5 * second, "a");
    check(
        &one(&[0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0], json!({"host": "", "hostname": "h", "msg": 5})),
        r#"instance="h", job="t""#,
        1_500_000_000,
        r#"{"body":"","attributes":{"host":"","hostname":"h","msg":5}}"#,
    );
    let signed = [&[0xd3][..], &5_i64.to_be_bytes()].concat();
    check(&one(&signed, json!({"log": "x"})), r#"job="t""#, 5 * second, "x");
    // No time is the arrival, as Fluentd has it.
    for none in [vec![0], vec![0xc0], event_time(0, 0)] {
        check(&one(&none, json!({"log": "x"})), r#"job="t""#, NOW, "x");
    }
    // Fluent Bit puts what it knows beside the record next to the time.
    let beside = |metadata: Value| list(&[&event_time(5, 0), &packed(&metadata)]);
    check(&one(&beside(json!({})), json!({"log": "x"})), r#"job="t""#, 5 * second, "x");
    check(
        &one(&beside(json!({"otlp": 1})), json!({"log": "x"})),
        r#"job="t""#,
        5 * second,
        r#"{"body":"x","attributes":{"metadata":{"otlp":1}}}"#,
    );
}

#[test]
fn what_json_has_not_is_kept() {
    let record = Writer::default().map(6).text("log").binary("bytes".as_bytes());
    let record = record.text("raw").binary(b"\xff\x00").text("time").value(&event_time(1, 2));
    let record = record.value(&[7]).value(&[0xff]).value(&[0xc0]).value(&[0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0]);
    let record = record.text("deep").value(&[0x91, 0x81, 0xc3, 0x90]).into_bytes();
    check(
        &list(&[&[1], &record]),
        r#"job="t""#,
        1_000_000_000,
        r#"{"body":"bytes","attributes":{"raw":"/wA=","time":{"type":0,"data":"AAAAAQAAAAI="},"7":-1,"null":"NaN","deep":[{"true":[]}]}}"#,
    );
}

#[test]
fn what_is_no_entry_is_a_fault() {
    let record = packed(&json!({"log": "x"}));
    let nested = |depth: usize| [&[0x81_u8, 0xa1, b'a'][..], &vec![0x91; depth], &[0x01]].concat();
    let many = |count: u32| {
        let pairs = (0..count).fold(Writer::default().map(count), |map, at| map.text(&at.to_string()).value(&[1]));
        pairs.into_bytes()
    };
    let long = |length: usize| packed(&json!({"log": "x".repeat(length)}));
    let broken = |text: &[u8]| [&[0x81, 0xa3, b'l', b'o', b'g', 0xa0 + text.len() as u8][..], text].concat();
    for (entry, fault) in [
        (list(&[&[5], &record]), None),
        (list(&[&[5], &nested(32)]), None),
        (list(&[&[5], &many(1_024)]), None),
        (list(&[&[5], &long(ENTRY_BYTES_MAX - 12)]), None),
        (vec![7], Some(Fault::Fields)),
        (list(&[&[5]]), Some(Fault::Fields)),
        (list(&[&[5], &record, &[1]]), Some(Fault::Fields)),
        (list(&[&[5], &[1]]), Some(Fault::Fields)),
        (list(&[&[5], &list(&[])]), Some(Fault::Fields)),
        (list(&[&[5], &nested(33)]), Some(Fault::Fields)),
        (list(&[&[5], &many(1_025)]), Some(Fault::Fields)),
        (list(&[&[5], &[0x81, 0x90, 1]]), Some(Fault::Fields)),
        (list(&[&[5], &long(ENTRY_BYTES_MAX)]), Some(Fault::TooLong)),
        (list(&[&[5], &broken(b"\xff")]), Some(Fault::NotUtf8)),
        (list(&[&[0xff], &record]), Some(Fault::Time)),
        (list(&[&text("soon"), &record]), Some(Fault::Time)),
        (list(&[&event_time(1, 1_000_000_000), &record]), Some(Fault::Time)),
        (list(&[&[0xd6, 0, 0, 0, 0, 1], &record]), Some(Fault::Time)),
        (list(&[&[0xd7, 1, 0, 0, 0, 1, 0, 0, 0, 1], &record]), Some(Fault::Time)),
        (list(&[&[0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], &record]), Some(Fault::Time)),
    ] {
        // A fault of one entry is none of its neighbours.
        let good = list(&[&[9], &record]);
        for body in [list(&[&entry, &good]), binary(&[entry.clone(), good.clone()].concat())] {
            let mut outcome = Outcome::read(&list(&[&text("t"), &body]), 4_096);
            let begin = entry[..entry.len().min(30)].escape_ascii();
            assert_eq!(outcome.ended, Some(Ok(false)), "{begin}");
            assert_eq!(outcome.faults, Vec::from_iter(fault), "{begin}");
            assert_eq!(outcome.samples().len(), if fault.is_some() { 1 } else { 2 }, "{begin}");
        }
    }
    let tagged = |length: usize| Outcome::read(&list(&[&text(&"t".repeat(length)), &[5], &record]), 4_096).faults;
    assert_eq!((tagged(TAG_BYTES_MAX), tagged(TAG_BYTES_MAX + 1)), (vec![], vec![Fault::Labels]));
    assert_eq!(feed("t", Entry::TooLong, NOW, &mut Gather::default()), Err(Fault::TooLong));
}

#[test]
fn streams_that_lie_are_broken() {
    let record = packed(&json!({"log": "x"}));
    let entry = list(&[&[5], &record]);
    let tag = text("t");
    let gzipped = gzip(&entry);
    let with = |body: &[u8], option: Value| list(&[&tag, body, &packed(&option)]);
    let gzip_of = |bytes: &[u8]| with(&binary(bytes), json!({"compressed": "gzip"}));
    let chunk = "c".repeat(CHUNK_BYTES_MAX + 1);
    for (stream, error) in [
        (b"GET / HTTP/1.1\r\n".to_vec(), MessageError::Form),
        (b"{\"a\":1}".to_vec(), MessageError::Form),
        (vec![0xc1], MessageError::Msgpack),
        ([vec![0x91; 200], vec![0xc0]].concat(), MessageError::Depth),
        (vec![0x90], MessageError::Form),
        (list(&[&tag]), MessageError::Form),
        (list(&[&tag, &[5]]), MessageError::Form),
        (list(&[&[5], &[5], &record]), MessageError::Form),
        (list(&[&[0xa1, 0xff], &[5], &record]), MessageError::Form),
        (list(&[&tag, &[5], &record, &[0x80], &[1]]), MessageError::Form),
        (list(&[&tag, &list(&[&entry]), &[0x80], &[1]]), MessageError::Form),
        (list(&[&tag, &list(&[&entry]), &[1]]), MessageError::Form),
        (with(&list(&[&entry]), json!({"chunk": 5})), MessageError::Form),
        (with(&list(&[&entry]), json!({"chunk": chunk})), MessageError::Form),
        (with(&binary(&entry), json!({"compressed": "zstd"})), MessageError::CompressionUnknown),
        (with(&binary(&entry), json!({"compressed": true})), MessageError::CompressionUnknown),
        (with(&binary(&entry[..entry.len() - 1]), json!({})), MessageError::Cut),
        (with(&binary(&[0xc1]), json!({})), MessageError::Msgpack),
        (gzip_of(b"none"), MessageError::Compression),
        (gzip_of(&gzipped[..gzipped.len() - 1]), MessageError::Compression),
        (gzip_of(&[&gzipped[..], b"more"].concat()), MessageError::Compression),
        (gzip_of(&gzip(&entry[..entry.len() - 1])), MessageError::Cut),
        (gzip_of(&gzip(&[0xc1])), MessageError::Msgpack),
        (vec![0x92, 0xa1, b't', 0xc6, 0xff, 0xff, 0xff, 0xff], MessageError::TooLarge),
        (list(&[&tag, &binary(&vec![0; MESSAGE_BYTES_MAX])]), MessageError::TooLarge),
    ] {
        let begin = &stream[..stream.len().min(40)];
        for size in [1_000, 1 << 26] {
            assert_eq!(Outcome::read(&stream, size).ended, Some(Err(error)), "{}", begin.escape_ascii());
        }
    }
    // A message may be as large as that.
    let large = list(&[&tag, &list(&[&entry, &binary(&vec![0; MESSAGE_BYTES_MAX - 100])])]);
    let outcome = Outcome::read(&large, 1 << 16);
    assert_eq!((outcome.ended, outcome.faults), (Some(Ok(false)), vec![Fault::TooLong]));
}

#[test]
fn options_are_optional_and_a_nil_is_a_sign_of_life() {
    let record = packed(&json!({"log": "x"}));
    let entry = list(&[&[5], &record]);
    let tag = text("t");
    let stream = [
        vec![0xc0],
        list(&[&tag, &[5], &record]),
        list(&[&tag, &[5], &record, &[0xc0]]),
        list(&[&tag, &list(&[&entry])]),
        list(&[&tag, &binary(&entry)]),
        list(&[&tag, &binary(&[])]),
        list(&[&tag, &list(&[])]),
        list(&[
            &tag,
            &binary(&entry),
            &packed(&json!({"compressed": "text", "else": [1, {"a": 2}], "fluent_signal": 0})),
        ]),
    ];
    let outcome = Outcome::read(&stream.concat(), 9);
    assert_eq!((outcome.gather.len(), outcome.answers.len(), outcome.ended), (5, 0, Some(Ok(false))));
    let is_log = |signal: u8| {
        let message = list(&[&tag, &binary(&[]), &packed(&json!({"fluent_signal": signal}))]);
        Message::read(&message).unwrap().unwrap().is_log()
    };
    assert_eq!([is_log(0), is_log(1), is_log(2)], [true, false, false]);
    // The chunk comes back as it was written.
    let message = list(&[&tag, &binary(&[]), &Writer::default().map(1).text("chunk").binary(b"\xff").into_bytes()]);
    let message = Message::read(&message).unwrap().unwrap();
    assert_eq!(
        (message.chunk(), message.acknowledgement()),
        (Some(&b"\xc4\x01\xff"[..]), Some(b"\x81\xa3ack\xc4\x01\xff".to_vec()))
    );
}

#[test]
fn an_entry_is_known_again_by_its_bytes() {
    let of = |time: u8, text: &str| {
        let bytes = list(&[&[time], &packed(&json!({"log": text}))]);
        feed("t", Entry::List(&bytes), NOW, &mut Gather::default()).unwrap()
    };
    assert_eq!(of(1, "a"), of(1, "a"));
    assert!(of(1, "a").is_timed && !of(0, "a").is_timed);
    assert_ne!(of(1, "a").fingerprint, of(2, "a").fingerprint);
    assert_ne!(of(1, "a").fingerprint, of(1, "b").fingerprint);
}

#[test]
fn a_handshake_is_read_and_written() {
    assert_eq!(helo(b"nonce"), b"\x92\xa4HELO\x83\xa5nonce\xc4\x05nonce\xa4auth\xa0\xa9keepalive\xc3");
    let ping = list(&[&text("PING"), &text("host"), &binary(b"\xff"), &text("abc"), &text(""), &text("")]);
    assert_eq!(Ping::read(&ping), Ok(Ping { hostname: b"host", salt: b"\xff", digest: b"abc" }));
    for wrong in [list(&[&text("PING")]), list(&[&[0xc0][..]; 6]), list(&[&text("PONG")[..]; 6]), vec![0xc0]] {
        assert_eq!(Ping::read(&wrong), Err(MessageError::Login), "{}", wrong.escape_ascii());
    }
    assert_eq!(Pong::Right("d").encode(), b"\x95\xa4PONG\xc3\xa0\xacogive-server\xa1d");
    assert_eq!(Pong::Wrong("no").encode(), b"\x95\xa4PONG\xc2\xa2no\xa0\xa0");
}

#[test]
fn any_stream_ends() {
    let record = packed(&json!({"log": "line", "host": "h", "deep": {"list": [1, -2, 2.5, null, "x"]}}));
    let entries = [[event_time(7, 8), record.clone()], [vec![9], record]];
    for mode in MODES {
        let good = messages(mode, "tag", &entries, &json!({"chunk": "c"}));
        mutations(&good, 1_000, 5, b"", |bytes| {
            let (mut small, mut whole) = (Outcome::read(bytes, 3), Outcome::read(bytes, bytes.len().max(1)));
            assert_eq!((small.samples(), &small.faults), (whole.samples(), &whole.faults));
            assert_eq!((&small.answers, small.ended), (&whole.answers, whole.ended));
            let mut again = Outcome::read(bytes, 64);
            again.gather.take(Default::default(), 0, &Default::default()).encode().unwrap();
            let _ = Ping::read(bytes);
        });
    }
}

/// An entry as a sender means it.
#[derive(Clone, Debug)]
struct Meant {
    seconds: u32,
    nanoseconds: Option<u32>,
    body: String,
    attributes: BTreeMap<String, Value>,
}

impl Meant {
    fn encode(&self) -> [Vec<u8>; 2] {
        let time = match self.nanoseconds {
            Some(nanoseconds) => event_time(self.seconds, nanoseconds),
            None => packed(&self.seconds.into()),
        };
        let mut record = json!(self.attributes);
        record["log"] = self.body.clone().into();
        [time, packed(&record)]
    }

    fn time_ns(&self) -> i64 {
        i64::from(self.seconds) * 1_000_000_000 + i64::from(self.nanoseconds.unwrap_or(0))
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i32>().prop_map(|whole| Value::from(f64::from(whole) + 0.5)),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 20, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
            prop::collection::btree_map("[a-d\"\n]{0,3}", inner, 0..5).prop_map(|members| json!(members)),
        ]
    })
}

prop_compose! {
    fn meant()(
        seconds in 1_u32..,
        nanoseconds in prop::option::of(0..1_000_000_000_u32),
        body in "[^\n]{1,40}",
        attributes in prop::collection::btree_map("[a-d]{1,3}", value(), 0..4),
    ) -> Meant {
        Meant { seconds, nanoseconds, body, attributes }
    }
}

proptest! {
    /// Whatever the mode, the members of gzip and the pieces in which it arrives: what was meant is what is stored, in
    /// order.
    #[test]
    fn what_was_meant_is_stored(
        meant in prop::collection::vec(meant(), 1..30),
        mode in prop::sample::select(MODES.to_vec()),
        size in 1_usize..5_000,
    ) {
        let entries: Vec<[Vec<u8>; 2]> = meant.iter().map(Meant::encode).collect();
        let mut outcome = Outcome::read(&messages(mode, "t", &entries, &json!({"chunk": "c"})), size);
        prop_assert_eq!((&outcome.faults, outcome.ended), (&vec![], Some(Ok(false))));
        let samples = outcome.samples();
        prop_assert_eq!(samples.len(), meant.len());
        for ((_, time_ns, text), meant) in samples.iter().zip(&meant) {
            prop_assert_eq!(*time_ns, meant.time_ns());
            if meant.attributes.is_empty() {
                prop_assert_eq!(text, &meant.body);
            } else {
                let stored: Value = serde_json::from_str(text).unwrap();
                prop_assert_eq!(stored, json!({"body": meant.body, "attributes": meant.attributes}));
            }
        }
    }
}
