//! AMQP 0.9.1 from byte strings: questions, confirms, deliveries, closes, holes.

mod common;

use common::{ExchangeLog, connection, feed};
use ogive_wire::{Connection, Reason, Side, Unanswered, operation};

const C: Side = Side::Client;
const S: Side = Side::Server;

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[kind][..], &channel.to_be_bytes(), &length, payload, &[0xce]].concat()
}

fn method(channel: u16, class: u16, number: u16, arguments: &[u8]) -> Vec<u8> {
    frame(1, channel, &[&class.to_be_bytes()[..], &number.to_be_bytes(), arguments].concat())
}

/// A content header and its body in frames of at most 10 bytes.
fn content(channel: u16, body: &[u8]) -> Vec<u8> {
    let size = (body.len() as u64).to_be_bytes();
    let mut out = frame(2, channel, &[&[0, 60, 0, 0][..], &size, &[0, 0]].concat());
    for part in body.chunks(10) {
        out.extend(frame(3, channel, part));
    }
    out
}

fn publish(channel: u16, body: &[u8]) -> Vec<u8> {
    [method(channel, 60, 40, b"\0\0\x02ex\x01k\0"), content(channel, body)].concat()
}

fn deliver(channel: u16, tag: u64) -> Vec<u8> {
    let arguments = [&b"\x04cons"[..], &tag.to_be_bytes(), b"\0\x02ex\x01k"].concat();
    [method(channel, 60, 60, &arguments), content(channel, b"hello")].concat()
}

fn ack(channel: u16, tag: u64, multiple: u8) -> Vec<u8> {
    method(channel, 60, 80, &[&tag.to_be_bytes()[..], &[multiple]].concat())
}

/// A connection with channel 1 open, in confirm mode or not.
fn begun(confirms: bool) -> Connection {
    let mut connection = connection("amqp");
    let confirm: &[(Side, Vec<u8>)] = &[(C, method(1, 85, 10, b"\0")), (S, method(1, 85, 11, b""))];
    let mut pieces = vec![
        (C, b"AMQP\0\0\x09\x01".to_vec()),
        (S, method(0, 10, 10, &[0; 600])),
        (C, method(0, 10, 11, &[0; 300])),
        (S, method(0, 10, 30, &[0; 8])),
        (C, [method(0, 10, 31, &[0; 8]), method(0, 10, 40, b"\x01/\0\0")].concat()),
        (S, method(0, 10, 41, b"\0")),
        (C, method(1, 20, 10, b"\0")),
        (S, method(1, 20, 11, b"\0\0\0\0")),
    ];
    if confirms {
        pieces.extend_from_slice(confirm);
    }
    let pieces: Vec<_> = pieces.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect();
    let kept = feed(&mut connection, &pieces);
    let ops: Vec<_> = kept.answered.iter().map(|e| (e.op.as_str(), e.by_server)).take(3).collect();
    assert_eq!(ops, [("connection.start", true), ("connection.open", false), ("channel.open", false)]);
    connection
}

fn statuses(kept: &ExchangeLog) -> Vec<(String, &str)> {
    kept.answered.iter().map(|e| (operation::name(e), e.status.as_str())).collect()
}

#[test]
fn an_ack_of_several_answers_them_all() {
    let mut connection = begun(true);
    let one = publish(1, &[7; 25]);
    let kept = feed(
        &mut connection,
        &[
            (C, &one),
            (C, &one[..30]),
            (C, &[&one[30..], &one].concat()),
            (S, &ack(1, 2, 1)),
            (S, &method(1, 60, 120, &[&3_u64.to_be_bytes()[..], &[0]].concat())),
            (S, &ack(1, 9, 0)),
        ],
    );
    let name = "basic.publish(confirm) ex".to_owned();
    assert_eq!(statuses(&kept), [(name.clone(), "basic.ack"), (name.clone(), "basic.ack"), (name, "basic.nack")]);
    assert_eq!(kept.answered[1].request.bytes, one.len() as u64);
    assert_eq!((kept.answered[1].request.first, kept.answered[1].request.last), (Some(2), Some(3)));
}

#[test]
fn messages_without_confirms_and_questions_without_wait_are_not_answered_by_design() {
    let mut connection = begun(false);
    let kept = feed(
        &mut connection,
        &[
            (C, &publish(1, b"")),
            (C, &method(1, 50, 10, b"\0\0\x01q\x10\0\0\0\0")),
            (C, &method(1, 50, 10, b"\0\0\x22amq.gen-JzTY20BRgKO-HjmUJj0wLg1234\0\0\0\0\0")),
            (S, &method(1, 50, 11, b"\x01q\0\0\0\0\0\0\0\0")),
        ],
    );
    let one_way: Vec<_> = kept.unanswered.iter().map(|(e, why)| (e.op.as_str(), *why)).collect();
    assert_eq!(one_way, [("basic.publish", Unanswered::ByDesign), ("queue.declare", Unanswered::ByDesign)]);
    assert_eq!(statuses(&kept), [("queue.declare amq.{id}".to_owned(), "queue.declare-ok")]);
}

#[test]
fn deliveries_are_asked_by_the_server_and_need_no_ack_where_the_consumer_says_so() {
    let mut connection = begun(false);
    let kept = feed(
        &mut connection,
        &[
            (C, &method(1, 60, 20, b"\0\0\x01q\x04cons\0\0\0\0\0")),
            (S, &[method(1, 60, 21, b"\x04cons"), deliver(1, 1), deliver(1, 2), deliver(1, 3)].concat()),
            (C, &method(1, 60, 90, &[&2_u64.to_be_bytes()[..], &[1]].concat())),
            (C, &ack(1, 0, 1)),
        ],
    );
    let statuses: Vec<_> = kept.answered[1..].iter().map(|e| (e.by_server, e.status.as_str())).collect();
    assert_eq!(statuses, [(true, "basic.reject"), (true, "basic.ack"), (true, "basic.ack")]);

    let mut connection = begun(false);
    let kept = feed(
        &mut connection,
        &[
            (C, &method(1, 60, 20, b"\0\0\x01q\0\x02\0\0\0\0")),
            (S, &[method(1, 60, 21, b"\x04cons"), deliver(1, 1)].concat()),
        ],
    );
    assert_eq!(kept.unanswered.iter().map(|(_, why)| *why).collect::<Vec<_>>(), [Unanswered::ByDesign]);
}

#[test]
fn a_get_is_answered_by_a_message_or_by_none() {
    let mut connection = begun(false);
    let found = [method(1, 60, 71, b"\0\0\0\0\0\0\0\x05\0\x02ex\x01k\0\0\0\0"), content(1, b"hello")].concat();
    let get = method(1, 60, 70, b"\0\0\x01q\0");
    let kept = feed(
        &mut connection,
        &[(C, &get), (S, &found), (C, &[ack(1, 5, 0), get.clone()].concat()), (S, &method(1, 60, 72, b"\0"))],
    );
    let expected = [("basic.get q", "basic.get-ok"), ("basic.get-ok", "basic.ack"), ("basic.get q", "basic.get-empty")];
    assert_eq!(statuses(&kept), expected.map(|(op, status)| (op.to_owned(), status)));
    assert_eq!(kept.answered[0].response.bytes, found.len() as u64);
    assert_eq!(kept.answered[1].request.bytes, found.len() as u64);
}

#[test]
fn a_close_by_the_server_answers_what_was_asked() {
    let mut connection = begun(true);
    let kept = feed(
        &mut connection,
        &[
            (C, &publish(1, b"x")),
            (C, &method(1, 50, 10, b"\0\0\x01q\x01\0\0\0\0")),
            (S, &method(1, 20, 40, b"\x01\x94\x04none\0\x32\0\x0a")),
            (C, &method(1, 20, 41, b"")),
        ],
    );
    let expected = [("queue.declare q", "channel.close 404"), ("channel.close", "channel.close-ok")];
    assert_eq!(statuses(&kept), expected.map(|(op, status)| (op.to_owned(), status)));
    assert_eq!(kept.unanswered.iter().map(|(_, why)| *why).collect::<Vec<_>>(), [Unanswered::NoResponse]);
}

#[test]
fn after_a_hole_in_the_clients_bytes_its_messages_have_no_numbers() {
    let mut connection = begun(true);
    let mut kept = feed(&mut connection, &[(C, &publish(1, b"1"))]);
    connection.hole(C, 50, &mut kept);
    connection.data(C, &publish(1, b"3"), 10, None, &mut kept);
    connection.data(S, &[ack(1, 1, 0), ack(1, 2, 0)].concat(), 11, None, &mut kept);
    assert_eq!(statuses(&kept), [("basic.publish(confirm) ex".to_owned(), "basic.ack")]);
    assert_eq!(kept.answered[0].request.first, Some(1));
    assert_eq!(kept.discarded.iter().map(|(_, reason)| *reason).collect::<Vec<_>>(), [Reason::Gap]);
}

#[test]
fn frames_without_their_end_and_lying_lengths_are_refused() {
    let mut open_end = method(1, 20, 20, b"\x01");
    *open_end.last_mut().unwrap() = 0;
    let too_much =
        [method(1, 60, 40, b"\0\0\0\0\0"), frame(2, 1, b"\0\x3c\0\0\0\0\0\0\0\0\0\x02\0\0"), frame(3, 1, b"more")]
            .concat();
    for bytes in [&open_end[..], b"\x01\0\x01\xff\xff\xff\xff", b"\x07\0\0\0\0\0\0", b"AMQP\0\0\x09\x01", &too_much] {
        let mut connection = begun(false);
        feed(&mut connection, &[(C, bytes)]);
        assert_eq!(connection.counts().losses, 1, "{bytes:?}");
    }
}
