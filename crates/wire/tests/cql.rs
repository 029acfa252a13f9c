//! CQL from byte strings: stream ids, errors, prepared statements, the segments of version 5.

mod common;

use common::cql::{message, segment};
use common::{connection, feed};
use ogive_wire::{Class, Side};

const C: Side = Side::Client;
const S: Side = Side::Server;

fn query(version: u8, stream: i16, text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap().to_be_bytes();
    message(version, 0, stream, 7, &[&length[..], text.as_bytes(), &[0, 1, 0]].concat())
}

fn void(version: u8, stream: i16) -> Vec<u8> {
    message(version, 0, stream, 8, &[0, 0, 0, 1])
}

#[test]
fn responses_come_in_any_order_and_events_belong_to_none() {
    let mut connection = connection("cql");
    let error = [&0x2200_u32.to_be_bytes()[..], &[0, 2], b"no"].concat();
    let kept = feed(
        &mut connection,
        &[
            (C, &[query(4, 1, "SELECT * FROM t WHERE a = 1"), query(4, 2, "INSERT INTO t (a) VALUES ('x')")].concat()),
            (S, &message(0x84, 0, -1, 12, b"event")),
            (S, &[message(0x84, 8, 2, 0, &[&[0, 1, 0, 1, b'w'][..], &error].concat()), void(0x84, 1)].concat()),
        ],
    );
    let answers: Vec<_> = kept.answered.iter().map(|e| (e.detail.as_str(), e.status.as_str(), e.class)).collect();
    assert_eq!(
        answers,
        [
            ("INSERT INTO t (a) VALUES (?)", "0x2200", Class::ClientError),
            ("SELECT * FROM t WHERE a = ?", "ok", Class::Ok)
        ]
    );
}

#[test]
fn prepared_statements_keep_their_fingerprint() {
    let mut connection = connection("cql");
    let text = b"SELECT b FROM t WHERE a = ?";
    let prepare = [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text].concat();
    let batch = [&[0, 0, 1, 1, 0, 2][..], b"id", &[0; 4]].concat();
    let kept = feed(
        &mut connection,
        &[
            (C, &message(4, 0, 5, 9, &prepare)),
            (S, &message(0x84, 0, 5, 8, b"\0\0\0\x04\0\x02id....")),
            (C, &[message(4, 0, 5, 10, b"\0\x02id\0\x01\0"), message(4, 0, 6, 13, &batch)].concat()),
            (S, &[void(0x84, 6), void(0x84, 5)].concat()),
        ],
    );
    let ops: Vec<_> = kept.answered.iter().map(|e| (e.op.as_str(), e.detail.as_bytes())).collect();
    assert_eq!(ops, [("PREPARE", &text[..]), ("BATCH", &text[..]), ("EXECUTE", &text[..])]);
}

#[test]
fn version_five_travels_in_segments_after_its_startup() {
    let mut connection = connection("cql");
    let startup = message(5, 0, 0, 1, b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0");
    let two = segment(&[query(5, 1, "SELECT 1"), query(5, 2, "SELECT a")].concat());
    // One large message in two segments.
    let large = message(0x85, 0, 2, 8, &[0; 300]);
    let kept = feed(
        &mut connection,
        &[
            (C, &startup),
            (S, &message(0x85, 0, 0, 2, b"")),
            (C, &two[..20]),
            (C, &two[20..]),
            (S, &segment(&large[..200])),
            (S, &[segment(&large[200..]), segment(&void(0x85, 1))].concat()),
        ],
    );
    let answers: Vec<_> =
        kept.answered.iter().map(|e| (e.op.as_str(), e.response.bytes, e.response.first, e.response.last)).collect();
    assert_eq!(
        answers,
        [("STARTUP", 9, Some(2), Some(2)), ("QUERY", 309, Some(5), Some(6)), ("QUERY", 13, Some(6), Some(6))]
    );
    assert_eq!((kept.answered[2].request.bytes, kept.answered[2].request.last), (9 + 4 + 8 + 3, Some(4)));
    assert_eq!(connection.counts().losses, 0);
}

#[test]
fn compressed_segments_are_not_read_and_the_answer_to_startup_is() {
    let mut connection = connection("cql");
    let kept = feed(
        &mut connection,
        &[
            (C, &message(5, 0, 0, 1, b"\0\x01\0\x0bCOMPRESSION\0\x03lz4")),
            (S, &message(0x85, 0, 0, 2, b"")),
            (C, b"anything"),
        ],
    );
    assert!(connection.is_opaque());
    assert_eq!(kept.answered.len(), 1);
}

#[test]
fn a_lost_side_begins_again_at_a_message_or_a_segment() {
    for (version, wrap) in [(4, (|bytes| bytes) as fn(Vec<u8>) -> Vec<u8>), (5, |bytes| segment(&bytes))] {
        let protocol = ogive_wire::protocol::by_name("cql").unwrap();
        let mut connection = ogive_wire::Connection::from_middle("cql", (protocol.new)());
        let kept = feed(
            &mut connection,
            &[
                (S, b"the rest of something"),
                (C, &wrap(query(version, 3, "SELECT 1"))),
                (S, &wrap(void(0x80 | version, 3))),
            ],
        );
        assert_eq!(kept.answered.len(), 1, "version {version}");
    }
}

#[test]
fn lying_lengths_are_refused() {
    for bytes in
        [&b"\x04\0\0\x01\x07\xff\xff\xff\xff"[..], b"\x04\xff\0\x01\x07\0\0\0\0", b"\x04\0\x80\x01\x07\0\0\0\0"]
    {
        let mut connection = connection("cql");
        let kept = feed(&mut connection, &[(C, bytes)]);
        assert!(kept.answered.is_empty());
        assert_eq!(connection.counts().losses, 1, "{bytes:?}");
    }
}
