//! PostgreSQL from byte strings: pipelines, COPY, errors, start-up.

mod common;

use common::{connection, feed};
use ogive_wire::{Class, End, Side, Unanswered, operation};

const C: Side = Side::Client;
const S: Side = Side::Server;

/// A message of type `kind`.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[kind][..], &length.to_be_bytes(), body].concat()
}

/// A packet of the start-up.
fn packet(code: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 8).unwrap();
    [&length.to_be_bytes()[..], &code.to_be_bytes(), body].concat()
}

fn startup() -> Vec<u8> {
    packet(0x0003_0000, b"user\0me\0\0")
}

fn ready() -> Vec<u8> {
    message(b'Z', b"I")
}

#[test]
fn startup_with_a_password_is_one_exchange_up_to_ready() {
    let mut connection = connection("pgsql");
    let kept = feed(
        &mut connection,
        &[
            (C, &packet(80_877_103, b"")),
            (S, b"N"),
            (C, &startup()),
            (S, &message(b'R', &[0, 0, 0, 3])),
            (C, &message(b'p', b"secret\0")),
            (S, &[message(b'R', &[0; 4]), message(b'S', b"a\0b\0"), ready()].concat()),
        ],
    );
    let ops: Vec<_> = kept.answered.iter().map(|e| (e.op.as_str(), e.status.as_str())).collect();
    assert_eq!(ops, [("SSLRequest", "N"), ("STARTUP", "ok")]);
    let startup_bytes = startup().len() as u64 + 12;
    assert_eq!(kept.answered[1].request.bytes, startup_bytes);
    assert_eq!((kept.answered[1].request.first, kept.answered[1].request.last), (Some(3), Some(5)));
    assert_eq!((kept.answered[1].response.first, kept.answered[1].response.last), (Some(4), Some(6)));
}

#[test]
fn encrypted_connections_are_not_read() {
    let mut connection = connection("pgsql");
    let kept = feed(&mut connection, &[(C, &packet(80_877_103, b"")), (S, b"S"), (C, b"\x16\x03\x01 anything")]);
    assert!(connection.is_opaque());
    assert_eq!(kept.answered.len(), 1);
    assert_eq!(kept.answered[0].status, "S");
}

#[test]
fn queries_are_named_by_their_fingerprint_and_errors_by_their_code() {
    let mut connection = connection("pgsql");
    let kept = feed(
        &mut connection,
        &[
            (C, &startup()),
            (S, &ready()),
            (C, &message(b'Q', b"SELECT * FROM t WHERE id = 42\0")),
            (S, &message(b'E', b"SERROR\0VERROR\0C42P01\0Mrelation does not exist\0\0")),
            (S, &ready()),
            (S, &message(b'A', b"\0\0\0\x01chan\0payload\0")),
            (C, &message(b'Q', b"SELECT 1\0")),
            (S, &[message(b'C', b"SELECT 1\0"), ready()].concat()),
        ],
    );
    assert_eq!(kept.answered.len(), 3);
    assert_eq!((kept.answered[1].op.as_str(), kept.answered[1].status.as_str()), ("Q", "42P01"));
    assert_eq!(kept.answered[1].class, Class::ClientError);
    assert_eq!(operation::name(&kept.answered[1]), "SELECT * FROM t WHERE id = ?");
    assert_eq!((kept.answered[1].response.first, kept.answered[1].response.last), (Some(4), Some(5)));
    assert_eq!(kept.answered[2].response.first, Some(8), "the notification is nobody's");
}

#[test]
fn a_pipeline_of_batches_pairs_in_order_and_remembers_prepared_names() {
    let mut connection = connection("pgsql");
    let batch = |parse: bool| {
        let parse = if parse { message(b'P', b"s1\0SELECT a FROM t WHERE b = $1\0\0\0") } else { Vec::new() };
        [parse, message(b'B', b"\0s1\0\0\0\0\0\0\0"), message(b'E', b"\0\0\0\0\0"), message(b'S', b"")].concat()
    };
    let answer = [message(b'2', b""), message(b'C', b"SELECT 0\0"), ready()].concat();
    let pipeline = [batch(true), batch(false), batch(false)].concat();
    let (head, tail) = pipeline.split_at(pipeline.len() - 3);
    let kept = feed(
        &mut connection,
        &[
            (C, &startup()),
            (S, &ready()),
            (C, head),
            (S, &answer),
            (C, tail),
            (S, &[answer.clone(), answer.clone()].concat()),
        ],
    );
    assert_eq!(kept.answered.len(), 4);
    for exchange in &kept.answered[1..] {
        assert_eq!(exchange.op, "EXT");
        assert_eq!(exchange.detail, "SELECT a FROM t WHERE b = ?");
    }
    let times: Vec<_> =
        kept.answered[1..].iter().map(|e| (e.request.last.unwrap(), e.response.first.unwrap())).collect();
    assert_eq!(times, [(3, 4), (3, 6), (5, 6)]);
}

#[test]
fn copy_belongs_to_the_request_and_the_answer_may_begin_first() {
    let mut connection = connection("pgsql");
    let kept = feed(
        &mut connection,
        &[
            (C, &startup()),
            (S, &ready()),
            (C, &message(b'Q', b"COPY t FROM STDIN\0")),
            (S, &message(b'G', &[0, 0, 0])),
            (C, &message(b'd', b"1\n")),
            (C, &[message(b'd', b"2\n"), message(b'c', b"")].concat()),
            (S, &[message(b'C', b"COPY 2\0"), ready()].concat()),
            // The same by the extended protocol, whose first Sync the server ignores.
            (
                C,
                &[message(b'P', b"\0COPY t FROM STDIN\0\0\0"), message(b'E', b"\0\0\0\0\0"), message(b'S', b"")]
                    .concat(),
            ),
            (S, &message(b'G', &[0, 0, 0])),
            (C, &[message(b'd', b"3\n"), message(b'c', b""), message(b'S', b"")].concat()),
            (S, &[message(b'C', b"COPY 1\0"), ready()].concat()),
            (C, &message(b'Q', b"SELECT 1\0")),
            (S, &[message(b'C', b"SELECT 1\0"), ready()].concat()),
        ],
    );
    let ops: Vec<_> = kept.answered.iter().map(|e| e.op.as_str()).collect();
    assert_eq!(ops, ["STARTUP", "Q", "EXT", "Q"]);
    assert_eq!(kept.answered[1].service_time(), Some(-2));
    assert_eq!(kept.answered[1].request.bytes, 5 + 18 + 5 + 2 + 5 + 2 + 5);
    assert_eq!((kept.answered[2].request.last, kept.answered[2].response.first), (Some(10), Some(9)));
}

#[test]
fn a_server_that_gives_up_leaves_its_request_without_ready() {
    let mut connection = connection("pgsql");
    let mut kept = feed(&mut connection, &[(C, &startup()), (S, &message(b'E', b"SFATAL\0VFATAL\0C28000\0Mno\0\0"))]);
    connection.fin(S, &mut kept);
    connection.fin(C, &mut kept);
    connection.finish(End::Closed, &mut kept);
    assert!(kept.answered.is_empty());
    assert_eq!(kept.unanswered.len(), 1);
    assert_eq!((kept.unanswered[0].1, kept.unanswered[0].0.status.as_str()), (Unanswered::NoReadyForQuery, "28000"));
}

#[test]
fn holes_in_rows_are_skipped_and_holes_in_heads_lose_one_exchange() {
    let mut connection = connection("pgsql");
    let mut kept = feed(&mut connection, &[(C, &startup()), (S, &ready()), (C, &message(b'Q', b"SELECT 1\0"))]);
    let row = message(b'D', &[0; 995]);
    connection.data(S, &row[..100], 10, None, &mut kept);
    connection.hole(S, 800, &mut kept);
    connection.data(S, &[&row[900..], &ready()].concat(), 12, None, &mut kept);
    assert_eq!(kept.answered.len(), 2);
    assert_eq!((kept.answered[1].response.bytes, kept.answered[1].response.last), (1_006, Some(12)));

    let server = connection.received(S);
    connection.data(C, &message(b'Q', b"SELECT 2\0"), 20, Some(server), &mut kept);
    connection.hole(S, 30, &mut kept);
    connection.data(S, &ready(), 21, None, &mut kept);
    for (round, at) in [(3_u8, 30), (4, 40)] {
        let server = connection.received(S);
        connection.data(
            C,
            &message(b'Q', &[b"SELECT ", &[b'0' + round][..], b"\0"].concat()),
            at,
            Some(server),
            &mut kept,
        );
        connection.data(S, &[message(b'C', b"SELECT 1\0"), ready()].concat(), at + 1, None, &mut kept);
    }
    let mut more = common::ExchangeLog::default();
    connection.fin(C, &mut more);
    connection.finish(End::Closed, &mut more);
    let times: Vec<_> = kept.answered.iter().chain(&more.answered).map(|e| e.request.first.unwrap()).collect();
    assert_eq!(
        times,
        [1, 3, 40],
        "the query whose answer has a hole is given up, and the next: a Flush may have stood before it"
    );
}

#[test]
fn lying_lengths_are_refused() {
    for bytes in [&b"Q\xff\xff\xff\xff"[..], b"Q\0\0\0\x03", b"\0\0\0\x04", b"\x7f\xff\xff\xff\0\x03\0\0"] {
        let mut connection = connection("pgsql");
        let kept = feed(&mut connection, &[(C, &startup()), (S, &ready()), (C, bytes), (C, bytes)]);
        assert_eq!(kept.answered.len(), 1, "{bytes:?}");
        assert_eq!(connection.counts().losses, 1, "{bytes:?}");
    }
}
