//! HTTP/2 and gRPC from byte strings: streams, header tables, resets, holes, floods.

mod common;

use common::{ExchangeLog, connection, feed};
use ogive_wire::{Class, Connection, End, Reason, Side, Unanswered, operation};

const C: Side = Side::Client;
const S: Side = Side::Server;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const END: u8 = END_STREAM | END_HEADERS;

/// `GET /a/7`, whose path goes into the table; then the same by its index.
const GET: &[u8] = b"\x82\x86\x44\x04/a/7";
const GET_AGAIN: &[u8] = b"\x82\x86\xbe";
const OK: &[u8] = b"\x88";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A connection whose preface and settings have passed.
fn begun() -> Connection {
    let mut connection = connection("http2");
    let kept = feed(
        &mut connection,
        &[(C, &[PREFACE, &frame(SETTINGS, 0, 0, b"")].concat()), (S, &frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]))],
    );
    assert!(kept.answered.is_empty() && connection.counts().losses == 0);
    connection
}

fn ops(kept: &ExchangeLog) -> Vec<(&str, &str, &str)> {
    kept.answered.iter().map(|e| (e.protocol, e.op.as_str(), e.status.as_str())).collect()
}

#[test]
fn streams_interleave_and_their_frames_are_counted() {
    let mut connection = begun();
    let kept = feed(
        &mut connection,
        &[
            (C, &[frame(HEADERS, END, 1, GET), frame(HEADERS, END_HEADERS, 3, GET_AGAIN)].concat()),
            (C, &frame(DATA, END_STREAM, 3, b"body")),
            (S, &[frame(HEADERS, END_HEADERS, 3, OK), frame(HEADERS, END_HEADERS, 1, b"\x8d")].concat()),
            (S, &[frame(DATA, 0, 3, &[0; 50]), frame(DATA, END_STREAM, 1, &[0; 20])].concat()),
            (S, &frame(DATA, END_STREAM, 3, &[0; 50])),
        ],
    );
    assert_eq!(ops(&kept), [("http2", "GET /a/7", "404"), ("http2", "GET /a/7", "200")]);
    assert_eq!(operation::name(&kept.answered[0]), "GET /a/{n}");
    let last = &kept.answered[1];
    assert_eq!((last.request.bytes, last.request.first, last.request.last), (9 + 3 + 13, Some(1), Some(2)));
    assert_eq!((last.response.bytes, last.response.first, last.response.last), (10 + 59 + 59, Some(3), Some(5)));
}

#[test]
fn grpc_is_known_by_its_content_type_and_classed_by_its_status() {
    let mut connection = begun();
    let trailers = frame(HEADERS, END, 1, b"\x40\x0bgrpc-status\x0214");
    let kept = feed(
        &mut connection,
        &[
            (
                C,
                &[frame(HEADERS, END_HEADERS, 1, b"\x83\x86\x44\x0a/t.S/Echo "), frame(DATA, END_STREAM, 1, &[0; 5])]
                    .concat(),
            ),
            (S, &frame(HEADERS, END_HEADERS, 1, b"\x88\x5f\x10application/grpc")),
            (S, &[frame(DATA, 0, 1, &[0; 7]), trailers].concat()),
        ],
    );
    assert_eq!(ops(&kept), [("grpc", "POST /t.S/Echo ", "200")]);
    assert_eq!((kept.answered[0].class, kept.answered[0].note & 0xffff), (Class::Error, 15));
}

#[test]
fn header_blocks_continue_are_padded_and_follow_interim_responses() {
    let mut connection = begun();
    let padded = [&[4][..], &[0, 0, 0, 0, 16], &GET[..3], &[0; 4]].concat();
    let kept = feed(
        &mut connection,
        &[
            (
                C,
                &[frame(HEADERS, END_STREAM | 0x28, 1, &padded), frame(CONTINUATION, END_HEADERS, 1, &GET[3..])]
                    .concat(),
            ),
            (S, &frame(HEADERS, END_HEADERS, 1, b"\x48\x03103")),
            (S, &frame(HEADERS, END, 1, OK)),
        ],
    );
    assert_eq!(ops(&kept), [("http2", "GET /a/7", "200")]);
    assert_eq!((kept.answered[0].response.bytes, kept.answered[0].response.first), (10, Some(3)));
}

#[test]
fn a_reset_stream_is_unanswered_unless_its_answer_was_on_its_way() {
    let mut connection = begun();
    let reset = |stream| frame(RESET, 0, stream, &[0, 0, 0, 8]);
    let mut kept = feed(
        &mut connection,
        &[
            (
                C,
                &[frame(HEADERS, END, 1, GET), frame(HEADERS, END, 3, GET_AGAIN), frame(HEADERS, END, 5, GET_AGAIN)]
                    .concat(),
            ),
            (C, &[reset(1), reset(3)].concat()),
            (S, &[frame(HEADERS, END, 1, OK), reset(1)].concat()),
            (S, &reset(5)),
        ],
    );
    assert_eq!(kept.answered.len(), 1);
    assert_eq!((kept.answered[0].request.bytes, kept.answered[0].request.last), (17 + 13, Some(1)));
    assert_eq!(kept.answered[0].response.bytes, 10 + 13);
    connection.fin(S, &mut kept);
    connection.finish(End::Closed, &mut kept);
    assert_eq!(kept.unanswered.iter().map(|(_, why)| *why).collect::<Vec<_>>(), [Unanswered::Reset; 2]);
}

#[test]
fn holes_in_data_are_skipped_and_others_give_up_what_was_open() {
    let mut connection = begun();
    let mut kept =
        feed(&mut connection, &[(C, &frame(HEADERS, END, 1, GET)), (S, &frame(HEADERS, END_HEADERS, 1, OK))]);
    let body = frame(DATA, END_STREAM, 1, &[0; 5_000]);
    connection.data(S, &body[..50], 10, None, &mut kept);
    connection.hole(S, 4_000, &mut kept);
    connection.data(S, &body[4_050..], 12, None, &mut kept);
    assert_eq!(kept.answered.len(), 1);
    assert_eq!(kept.answered[0].response.bytes, 10 + 5_009);

    connection.data(C, &frame(HEADERS, END, 3, GET_AGAIN), 20, None, &mut kept);
    connection.hole(S, 100, &mut kept);
    connection.data(C, &frame(HEADERS, END, 5, GET_AGAIN), 21, None, &mut kept);
    // The headers of stream 5 were in the hole: its data say nothing.
    connection.data(S, &frame(DATA, END_STREAM, 5, b"x"), 22, None, &mut kept);
    connection.data(C, &frame(HEADERS, END, 7, GET_AGAIN), 23, None, &mut kept);
    connection.data(S, &frame(HEADERS, END, 7, OK), 24, None, &mut kept);
    assert_eq!(kept.answered.len(), 2);
    assert_eq!(kept.answered[1].request.first, Some(23));
    assert_eq!(kept.discarded.iter().map(|(_, reason)| *reason).collect::<Vec<_>>(), [Reason::Gap; 2]);
}

#[test]
fn after_a_lost_block_an_unknown_path_is_a_question_mark() {
    let mut connection = begun();
    let mut kept = feed(&mut connection, &[(C, &frame(HEADERS, END, 1, GET)), (S, &frame(HEADERS, END, 1, OK))]);
    connection.hole(C, 30, &mut kept);
    connection.data(C, &frame(HEADERS, END, 5, GET_AGAIN), 10, None, &mut kept);
    connection.data(C, &frame(HEADERS, END, 7, b"\x82\x44\x02/n"), 11, None, &mut kept);
    connection.data(S, &[frame(HEADERS, END, 5, OK), frame(HEADERS, END, 7, OK)].concat(), 12, None, &mut kept);
    let ops: Vec<_> = kept.answered[1..].iter().map(|e| e.op.as_str()).collect();
    assert_eq!(ops, ["GET ?", "GET /n"]);
}

#[test]
fn a_flood_of_continuation_holds_a_bounded_block() {
    let mut connection = begun();
    let mut kept = ExchangeLog::default();
    connection.data(C, &frame(HEADERS, END_STREAM, 1, GET), 1, None, &mut kept);
    for round in 0..2_000 {
        connection.data(C, &frame(CONTINUATION, 0, 1, &[0x40; 1_000]), round, None, &mut kept);
    }
    connection.data(C, &frame(CONTINUATION, END_HEADERS, 1, b""), 3_000, None, &mut kept);
    connection.data(C, &frame(HEADERS, END, 3, GET), 3_001, None, &mut kept);
    connection.data(S, &[frame(HEADERS, END, 1, OK), frame(HEADERS, END, 3, OK)].concat(), 3_002, None, &mut kept);
    assert_eq!(ops(&kept), [("http2", "? ?", "200"), ("http2", "GET /a/7", "200")]);
}

#[test]
fn frames_that_cannot_be_are_refused() {
    for bytes in [
        &frame(DATA, 0, 0, b"x")[..],
        &frame(SETTINGS, 0, 1, b""),
        &frame(RESET, 0, 1, b"x"),
        &frame(CONTINUATION, 4, 1, b""),
        &[frame(HEADERS, 0, 1, GET), frame(DATA, 0, 1, b"")].concat(),
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let mut connection = begun();
        let kept = feed(&mut connection, &[(C, bytes)]);
        assert!(kept.answered.is_empty());
        assert_eq!(connection.counts().losses, 1, "{bytes:?}");
    }
}
