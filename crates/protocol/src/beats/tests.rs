use ogive_model::Value;

use super::frames::{FRAME_BYTES_MAX, FrameError, Frames, Version, WINDOW_MAX, acknowledgement};
use super::*;
use crate::inflate::tests::zlib;
use crate::mutations::mutations;

const NOW: i64 = 1_700_000_000_000_000_000;

fn frame(kind: &[u8; 2], numbers: &[u32], bytes: &[u8]) -> Vec<u8> {
    let numbers: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    [&kind[..], &numbers, bytes].concat()
}

fn window(count: u32) -> Vec<u8> {
    frame(b"2W", &[count], b"")
}

fn json(sequence: u32, text: &str) -> Vec<u8> {
    frame(b"2J", &[sequence, text.len() as u32], text.as_bytes())
}

fn packed(frames: &[u8]) -> Vec<u8> {
    let bytes = zlib(frames);
    frame(b"2C", &[bytes.len() as u32], &bytes)
}

fn pairs_of(sequence: u32, pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in pairs.iter().flat_map(|(key, value)| [key, value]) {
        bytes.extend_from_slice(&frame(b"xx", &[text.len() as u32], text.as_bytes())[2..]);
    }
    frame(b"1D", &[sequence, pairs.len() as u32], &bytes)
}

/// Sequence, whether it is the last of its window, and the bytes (none for a skipped event) of every event, and how it
/// ended.
type Events = (Vec<(u32, bool, Option<Vec<u8>>)>, Result<bool, FrameError>);

fn read(stream: &[u8], size: usize) -> Events {
    let (mut events, mut frames) = (Vec::new(), Frames::default());
    for mut piece in stream.chunks(size) {
        loop {
            match frames.next(&mut piece) {
                Ok(Some(found)) => {
                    let bytes = match found.content {
                        Content::Json(bytes) | Content::Pairs(bytes) => Some(bytes.to_vec()),
                        Content::TooLong => None,
                    };
                    events.push((found.sequence, found.is_last, bytes));
                }
                Ok(None) => break,
                Err(broken) => return (events, Err(broken)),
            }
        }
        assert!(piece.is_empty());
        assert!(frames.held() <= EVENT_BYTES_MAX + (64 << 10), "{}", frames.held());
    }
    (events, Ok(frames.is_cut()))
}

#[test]
fn events_are_complete_wherever_segments_end() {
    let inner = [json(1, "{\"a\":1}"), json(2, "{}")].concat();
    let pairs = pairs_of(u32::MAX, &[("line", "x"), ("host", "h")]);
    let tail = [window(2), pairs.clone(), json(0, "z")].concat();
    let stream = [window(2), packed(&inner), packed(b""), window(0), tail].concat();
    let expected = vec![
        (1, false, Some(b"{\"a\":1}".to_vec())),
        (2, true, Some(b"{}".to_vec())),
        (u32::MAX, false, Some(pairs[10..].to_vec())),
        (0, true, Some(b"z".to_vec())),
    ];
    for size in 1..=stream.len() {
        assert_eq!(read(&stream, size), (expected.clone(), Ok(false)), "{size}");
    }
    for end in 1..stream.len() {
        let (events, ended) = read(&stream[..end], 5);
        assert_eq!(events, expected[..events.len()], "{end}");
        assert!(ended.is_ok(), "{end}");
        assert!(ended == Ok(true) || [6, 6 + packed(&inner).len()].iter().any(|at| end >= *at), "{end}");
    }
    assert_eq!(acknowledgement(Version::Two, 0x0102_0304), *b"2A\x01\x02\x03\x04");
    assert_eq!(acknowledgement(Version::One, 1), *b"1A\0\0\0\x01");
}

#[test]
fn an_event_that_is_too_long_is_skipped_and_keeps_its_number() {
    let long = "x".repeat(EVENT_BYTES_MAX + 1);
    let inner = [json(1, &long[1..]), json(2, &long), json(3, "{}")].concat();
    for stream in [[window(3), inner.clone()].concat(), [window(3), packed(&inner)].concat()] {
        for size in [1_000, 1 << 24] {
            let (events, ended) = read(&stream, size);
            let found: Vec<_> = events.iter().map(|(at, _, bytes)| (*at, bytes.as_ref().map(Vec::len))).collect();
            assert_eq!(found, [(1, Some(EVENT_BYTES_MAX)), (2, None), (3, Some(2))]);
            assert_eq!(ended, Ok(false));
        }
    }
}

#[test]
fn streams_that_lie_are_broken() {
    let two = [window(2), json(1, "{}")].concat();
    let zeros = zlib(&vec![0; 1_000]);
    let spaces = [window(9), frame(b"2J", &[1, FRAME_BYTES_MAX as u32], &vec![b' '; FRAME_BYTES_MAX])].concat();
    for (stream, broken) in [
        (b"GET / HTTP/1.1".to_vec(), FrameError::Unknown),
        (b"1J".to_vec(), FrameError::Unknown),
        (packed(b"2"), FrameError::Length),
        (packed(b"\0"), FrameError::Unknown),
        (json(1, "{}"), FrameError::Sequence),
        ([&two[..], &json(1, "{}")].concat(), FrameError::Sequence),
        ([&two[..], &json(3, "{}")].concat(), FrameError::Sequence),
        ([&two[..], &json(2, "{}"), &json(3, "{}")].concat(), FrameError::Sequence),
        ([&two[..], &window(1)].concat(), FrameError::Window),
        (window(WINDOW_MAX + 1), FrameError::Window),
        (frame(b"2J", &[1, u32::MAX], b""), FrameError::Length),
        (frame(b"2C", &[u32::MAX], b""), FrameError::Length),
        (frame(b"1D", &[1, u32::MAX], b""), FrameError::Length),
        (frame(b"1D", &[1, 1, u32::MAX], b""), FrameError::Length),
        ([window(1), packed(&json(1, "{}")[..11])].concat(), FrameError::Length),
        (packed(&packed(b"")), FrameError::Nested),
        (packed(&spaces), FrameError::Expanded),
        (packed(&window(0).repeat(FRAME_BYTES_MAX / 6 + 1)), FrameError::Expanded),
        (frame(b"2C", &[0], b""), FrameError::Compression),
        (frame(b"2C", &[4], b"none"), FrameError::Compression),
        (frame(b"2C", &[zeros.len() as u32 - 9], &zeros), FrameError::Unknown),
        (frame(b"2C", &[14], &[&zlib(b"")[..], b"too many"].concat()), FrameError::Compression),
    ] {
        let begin = &stream[..stream.len().min(40)];
        for size in [1 << 26, 1_000] {
            assert_eq!(read(&stream, size).1, Err(broken), "{}", begin.escape_ascii());
        }
    }
}

/// The labels, the time in nanoseconds (none for now) and the text.
fn check(content: Content<'_>, labels: &str, time_ns: Option<i64>, text: &str) {
    let mut gather = Gather::default();
    feed(content, NOW, &mut gather).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    let batch = gather.take(Default::default(), 0, &Default::default());
    let sample = batch.samples[0].as_ref().unwrap();
    assert_eq!(batch.series[0].as_ref().unwrap().labels.to_string(), format!("log{{{labels}}}"), "{text}");
    assert_eq!(sample.time_ns, time_ns.unwrap_or(NOW), "{text}");
    assert_eq!(sample.value, Value::Text(text.into()), "{text}");
}

#[test]
fn fields_become_labels_and_attributes() {
    check(
        Content::Json(
            br#"{"@timestamp":"2023-11-14T22:13:20.250Z","message":"hello","host":{"name":"web-1"},"service":{"name":"shop"},
                "log":{"level":"WARN","offset":7}}"#,
        ),
        r#"instance="web-1", job="shop", severity="warning""#,
        Some(NOW + 250_000_000),
        r#"{"body":"hello","attributes":{"host":{"name":"web-1"},"service":{"name":"shop"},"log":{"level":"WARN","offset":7}}}"#,
    );
    check(Content::Json(br#"{"message":"a","host":"h"}"#), r#"instance="h""#, None, "a");
    check(
        Content::Json(br#"{"message":5,"level":"?","hostname":"h"}"#),
        r#"instance="h""#,
        None,
        r#"{"body":"","attributes":{"message":5,"level":"?","hostname":"h"}}"#,
    );
    let pairs = pairs_of(1, &[("line", "old"), ("host", "h"), ("file", "/a")]);
    check(Content::Pairs(&pairs[10..]), r#"instance="h""#, None, r#"{"body":"old","attributes":{"file":"/a"}}"#);
}

#[test]
fn an_event_is_known_again_however_its_fields_are_ordered() {
    let of = |json: &str| feed(Content::Json(json.as_bytes()), NOW, &mut Gather::default()).unwrap();
    let first = of(r#"{"@timestamp":"2023-11-14T22:13:20Z","message":"a","host":{"name":"h","ip":["1","2"]},"n":1}"#);
    let again = of(r#"{"n":1,"host":{"ip":["1","2"],"name":"h"},"message":"a","@timestamp":"2023-11-14T22:13:20Z"}"#);
    assert_eq!((first, first.is_timed), (again, true));
    for other in [
        r#"{"@timestamp":"2023-11-14T22:13:21Z","message":"a","host":{"name":"h","ip":["1","2"]},"n":1}"#,
        r#"{"@timestamp":"2023-11-14T22:13:20Z","message":"b","host":{"name":"h","ip":["1","2"]},"n":1}"#,
        r#"{"@timestamp":"2023-11-14T22:13:20Z","message":"a","host":{"name":"h","ip":["2","1"]},"n":1}"#,
        r#"{"@timestamp":"2023-11-14T22:13:20Z","message":"a","host":{"name":"h","ip":["1","2"]},"m":1}"#,
        r#"{"message":"a","host":{"name":"h","ip":["1","2"]},"n":1}"#,
    ] {
        assert_ne!(of(other).fingerprint, first.fingerprint, "{other}");
    }
    assert!(!of(r#"{"message":"a"}"#).is_timed);
}

#[test]
fn what_is_no_event_is_a_fault() {
    for (wrong, fault) in [
        (Content::Json(b""), Fault::Fields),
        (Content::Json(b"[]"), Fault::Fields),
        (Content::Json(b"{\"a\":\"\xff\"}"), Fault::NotUtf8),
        (Content::Json(br#"{"@timestamp":"soon"}"#), Fault::Time),
        (Content::Pairs(b"\0\0\0\x01a"), Fault::Fields),
        (Content::Pairs(b"\0\0\0\x02a"), Fault::Fields),
        (Content::Pairs(b"\0\0\0\x01\xff\0\0\0\0"), Fault::NotUtf8),
        (Content::TooLong, Fault::TooLong),
    ] {
        assert_eq!(feed(wrong, NOW, &mut Gather::default()), Err(fault), "{wrong:?}");
    }
}

#[test]
fn any_stream_ends() {
    let inner = [json(1, r#"{"message":"a","host":{"name":"h"},"@timestamp":"2023-11-14T22:13:20Z"}"#), json(2, "{}")];
    let plain = [window(3), inner.concat(), pairs_of(3, &[("line", "x"), ("host", "h")])].concat();
    for good in [plain, [window(2), packed(&inner.concat())].concat()] {
        mutations(&good, 1_000, 5, b"", |bytes| {
            let (small, whole) = (read(bytes, 7), read(bytes, bytes.len().max(1)));
            // Damage to compressed bytes is noticed sooner when more of them are there.
            if small.1 != Err(FrameError::Compression) && whole.1 != Err(FrameError::Compression) {
                assert_eq!(small, whole);
            }
            let mut gather = Gather::default();
            for content in read(bytes, 64).0.iter().filter_map(|(_, _, bytes)| bytes.as_deref()) {
                let _ = feed(Content::Json(content), NOW, &mut gather);
                let _ = feed(Content::Pairs(content), NOW, &mut gather);
            }
            gather.take(Default::default(), 0, &Default::default()).encode().unwrap();
        });
    }
}
