//! MySQL and MariaDB from byte strings: login, results, prepared statements, LOAD DATA LOCAL.

mod common;

use common::{ExchangeLog, connection, feed};
use ogive_wire::{Connection, Side, Unanswered, operation};

const C: Side = Side::Client;
const S: Side = Side::Server;

const PROTOCOL_41: u32 = 1 << 9;
const SSL: u32 = 1 << 11;
const DEPRECATE_EOF: u32 = 1 << 24;

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(payload.len()).unwrap().to_le_bytes()[..3].to_vec();
    out.push(sequence);
    out.extend(payload);
    out
}

fn greeting() -> Vec<u8> {
    let mut payload = b"\x0a8.0.36\0\x01\0\0\0abcdefgh\0".to_vec();
    payload.extend(0xffff_u16.to_le_bytes());
    payload.extend([45, 2, 0]);
    payload.extend(0x01ff_u16.to_le_bytes());
    payload.extend([21; 30]);
    packet(0, &payload)
}

fn login(capabilities: u32) -> Vec<u8> {
    packet(1, &[&capabilities.to_le_bytes()[..], &[0; 28], b"me\0\0"].concat())
}

fn ok(sequence: u8, flags: u8) -> Vec<u8> {
    packet(sequence, &[0, 0, 0, flags, 0, 0, 0])
}

fn eof(sequence: u8, flags: u8) -> Vec<u8> {
    packet(sequence, &[0xfe, 0, 0, flags, 0])
}

/// The end of a result for clients without EOF packets.
fn ok_end(sequence: u8) -> Vec<u8> {
    packet(sequence, &[0xfe, 0, 0, 2, 0, 0, 0])
}

fn query(text: &str) -> Vec<u8> {
    packet(0, &[&[3], text.as_bytes()].concat())
}

/// A connection that has logged in, and what it fed so far took.
fn logged_in(capabilities: u32) -> (Connection, ExchangeLog) {
    let mut connection = connection("mysql");
    let kept = feed(&mut connection, &[(S, &greeting()), (C, &login(capabilities)), (S, &ok(2, 2))]);
    assert_eq!(kept.answered.len(), 1);
    assert_eq!((kept.answered[0].op.as_str(), kept.answered[0].status.as_str()), ("CONNECT", "ok"));
    (connection, kept)
}

#[test]
fn results_end_with_and_without_eof_packets() {
    for (capabilities, between, end) in
        [(PROTOCOL_41, eof(3, 2), eof(5, 2)), (PROTOCOL_41 | DEPRECATE_EOF, Vec::new(), ok_end(5))]
    {
        let (mut connection, _) = logged_in(capabilities);
        let answer = [packet(1, &[1]), packet(2, b"\x03def column"), between, packet(4, b"\x0212"), end].concat();
        let kept = feed(
            &mut connection,
            &[
                (C, &query("SELECT a FROM t WHERE b = 'x' AND c = \"y\"")),
                (S, &answer),
                (C, &query("SELECT 2")),
                (S, &answer),
            ],
        );
        assert_eq!(kept.answered.len(), 2, "{capabilities:x}");
        assert_eq!(kept.answered[0].response.bytes, answer.len() as u64);
        assert_eq!(operation::name(&kept.answered[0]), "SELECT a FROM t WHERE b = ? AND c = ?");
    }
}

#[test]
fn several_results_are_one_exchange() {
    let (mut connection, _) = logged_in(PROTOCOL_41);
    let result =
        |flags| [packet(1, &[1]), packet(2, b"\x03def"), eof(3, flags), packet(4, b"\x011"), eof(5, flags)].concat();
    let kept = feed(
        &mut connection,
        &[(C, &query("SELECT 1; SELECT 2; DO 1")), (S, &result(8)), (S, &[result(8), ok(6, 0)].concat())],
    );
    assert_eq!(kept.answered.len(), 1);
    assert_eq!((kept.answered[0].response.first, kept.answered[0].response.last), (Some(2), Some(3)));
}

#[test]
fn errors_have_their_code_and_progress_is_no_error() {
    let (mut connection, _) = logged_in(PROTOCOL_41);
    let kept = feed(
        &mut connection,
        &[
            (C, &query("ALTER TABLE t ENGINE=x")),
            (S, &packet(1, b"\xff\xff\xff\x01\x02\x03")),
            (S, &packet(2, b"\xff\x7a\x04#42S02Table doesn't exist")),
            (C, &packet(0, b"\x0e")),
            (S, &ok(1, 2)),
        ],
    );
    let answers: Vec<_> = kept.answered.iter().map(|e| (e.op.as_str(), e.status.as_str())).collect();
    assert_eq!(answers, [("COM_QUERY", "1146"), ("COM_PING", "ok")]);
}

#[test]
fn prepared_statements_keep_their_fingerprint_and_close_without_an_answer() {
    for capabilities in [PROTOCOL_41, PROTOCOL_41 | DEPRECATE_EOF] {
        let (mut connection, _) = logged_in(capabilities);
        let with_eof = |sequence| if capabilities & DEPRECATE_EOF == 0 { eof(sequence, 2) } else { Vec::new() };
        let prepared = [
            packet(1, &[0, 7, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0]),
            packet(2, b"\x03def"),
            packet(3, b"\x03def"),
            with_eof(4),
            packet(5, b"\x03def"),
            with_eof(6),
        ]
        .concat();
        let kept = feed(
            &mut connection,
            &[
                (C, &packet(0, b"\x16SELECT a FROM t WHERE b = ? AND c = ?")),
                (S, &prepared),
                (C, &packet(0, b"\x17\x07\0\0\0\0\x01\0\0\0")),
                (S, &ok(1, 2)),
                (C, &packet(0, b"\x19\x07\0\0\0")),
                (C, &packet(0, b"\x01")),
            ],
        );
        let answers: Vec<_> = kept.answered.iter().map(|e| (e.op.as_str(), e.detail.as_str())).collect();
        let text = "SELECT a FROM t WHERE b = ? AND c = ?";
        assert_eq!(answers, [("COM_STMT_PREPARE", text), ("COM_STMT_EXECUTE", text)]);
        assert_eq!(kept.answered[0].response.bytes, prepared.len() as u64);
        let one_way: Vec<_> = kept.unanswered.iter().map(|(e, why)| (e.op.as_str(), *why)).collect();
        assert_eq!(one_way, [("COM_STMT_CLOSE", Unanswered::ByDesign), ("COM_QUIT", Unanswered::ByDesign)]);
    }
}

#[test]
fn the_data_of_a_local_file_belong_to_the_request() {
    let (mut connection, _) = logged_in(PROTOCOL_41);
    let kept = feed(
        &mut connection,
        &[
            (C, &query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t")),
            (S, &packet(1, b"\xfbx")),
            (C, &packet(2, &[b'1'; 300])),
            // The sequence wraps: data with number 0 are no command.
            (C, &packet(0, b"\x03data")),
            (C, &packet(1, b"")),
            (S, &ok(2, 2)),
        ],
    );
    assert_eq!(kept.answered.len(), 1);
    let exchange = &kept.answered[0];
    assert_eq!(exchange.service_time(), Some(-3));
    assert_eq!((exchange.request.last, exchange.response.last), (Some(5), Some(6)));
}

#[test]
fn a_message_of_sixteen_mebibytes_continues_in_the_next_packet() {
    let (mut connection, mut kept) = logged_in(PROTOCOL_41);
    let header = [0xff, 0xff, 0xff, 0];
    connection.data(C, &[&header[..], b"\x03INSERT INTO t VALUES ('", &[b'x'; 2_000]].concat(), 10, Some(0), &mut kept);
    connection.hole(C, 0xff_ffff - 2_024, &mut kept);
    connection.data(C, &packet(1, b"tail')"), 12, None, &mut kept);
    connection.data(S, &ok(2, 2), 13, None, &mut kept);
    let last = kept.answered.last().unwrap();
    assert_eq!((last.request.bytes, last.request.last), (4 + 0xff_ffff + 4 + 6, Some(12)));
    assert_eq!(last.detail, "INSERT INTO t VALUES (?");
}

#[test]
fn encryption_ends_the_reading() {
    let mut connection = connection("mysql");
    let request = packet(1, &[&(PROTOCOL_41 | SSL).to_le_bytes()[..], &[0; 28]].concat());
    let kept = feed(&mut connection, &[(S, &greeting()), (C, &request), (C, b"\x16\x03\x01")]);
    assert!(connection.is_opaque() && kept.answered.is_empty());
}

#[test]
fn a_connection_seen_from_its_middle_begins_at_a_whole_command() {
    let protocol = ogive_wire::protocol::by_name("mysql").unwrap();
    let mut connection = Connection::from_middle("mysql", (protocol.new)());
    let result = [packet(1, &[1]), packet(2, b"\x03def"), eof(3, 2), packet(4, b"\x011"), eof(5, 2)].concat();
    let mut kept = feed(
        &mut connection,
        &[(S, &result[7..]), (C, &query("SELECT 1")), (S, &result), (C, &query("SELECT 2")), (S, &result)],
    );
    assert!(kept.answered.is_empty(), "an older answer may be owed");
    // COM_QUIT: what was before it is answered before the server closes.
    let quit = packet(0, &[1]);
    connection.data(C, &quit, 6, Some(connection.received(S)), &mut kept);
    connection.fin(C, &mut kept);
    connection.finish(ogive_wire::End::Closed, &mut kept);
    assert_eq!(kept.answered.len(), 2);
}

#[test]
fn bytes_of_another_protocol_are_refused() {
    for answer in [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &packet(1, b""), &packet(1, &[0xfc, 0, 0])] {
        let (mut connection, _) = logged_in(PROTOCOL_41);
        let kept = feed(&mut connection, &[(C, &query("SELECT 1")), (S, answer), (S, &[0; 70_000])]);
        assert!(kept.answered.is_empty());
        assert_eq!(connection.counts().losses, 1, "{answer:?}");
    }
}
