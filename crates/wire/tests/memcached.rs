//! Memcached from byte strings: text, meta and binary commands, quiet ones, wrong lengths.

mod common;

use common::{ExchangeLog, connection, feed};
use ogive_wire::{Class, End, Side, Unanswered};

const C: Side = Side::Client;
const S: Side = Side::Server;

fn statuses(kept: &ExchangeLog) -> Vec<(&str, &str)> {
    kept.answered.iter().map(|e| (e.op.as_str(), e.status.as_str())).collect()
}

fn one_way(kept: &ExchangeLog) -> Vec<(&str, Unanswered)> {
    kept.unanswered.iter().map(|(e, why)| (e.op.as_str(), *why)).collect()
}

#[test]
fn text_commands_pair_in_order_across_cuts() {
    let requests =
        b"set a 0 0 5\r\nhe\r\no\r\nget a b\r\nincr n 1\r\nset q 0 0 1 noreply\r\nx\r\nstats\r\nbogus\r\nquit\r\n";
    let answers = b"STORED\r\nVALUE a 0 5\r\nEND\r\n\r\nEND\r\n7\r\nSTAT pid 1\r\nSTAT x 2\r\nEND\r\nERROR\r\n";
    for cut in 1..requests.len().min(answers.len()) {
        let mut connection = connection("memcached");
        let kept = feed(
            &mut connection,
            &[(C, &requests[..cut]), (C, &requests[cut..]), (S, &answers[..cut]), (S, &answers[cut..])],
        );
        let expected = [("set", "STORED"), ("get", "hit1/2"), ("incr", "7"), ("stats", "END"), ("bogus", "ERROR")];
        assert_eq!(statuses(&kept), expected, "cut at {cut}");
        assert_eq!(one_way(&kept), [("set", Unanswered::ByDesign), ("quit", Unanswered::ByDesign)]);
        let bytes: Vec<_> = kept.answered.iter().map(|e| (e.request.bytes, e.response.bytes)).collect();
        assert_eq!(bytes, [(20, 8), (9, 25), (10, 3), (7, 27), (7, 7)]);
    }
}

#[test]
fn a_value_of_the_wrong_length_is_read_as_the_server_reads_it() {
    let mut connection = connection("memcached");
    let kept = feed(
        &mut connection,
        &[
            (C, b"set k 0 0 2\r\nabcdef\r\n"),
            (S, b"CLIENT_ERROR bad data chunk\r\nERROR\r\n"),
            (C, b"get k\r\n"),
            (S, b"END\r\n"),
        ],
    );
    assert_eq!(statuses(&kept), [("set", "CLIENT_ERROR"), ("ef", "ERROR"), ("get", "hit0/1")]);
    assert_eq!(kept.answered[0].class, Class::ClientError);
}

#[test]
fn quiet_meta_commands_are_answered_when_they_can_be_known() {
    let mut first = connection("memcached");
    let kept = feed(
        &mut first,
        &[
            (C, b"mg a v q O1\r\nmg b v q O2\r\nms c 2 q k\r\nxx\r\nmg d v q k\r\nmn\r\n"),
            (S, b"VA 1 O2\r\nz\r\nHD kd\r\nMN\r\n"),
        ],
    );
    assert_eq!(statuses(&kept), [("mg", "VA"), ("mg", "HD"), ("mn", "MN")]);
    assert_eq!(one_way(&kept), [("mg", Unanswered::ByDesign), ("ms", Unanswered::ByDesign)]);

    let mut second = connection("memcached");
    let kept = feed(&mut second, &[(C, b"mg a v q\r\nmg b v\r\n"), (S, b"VA 1\r\nz\r\n"), (S, b"EN\r\n")]);
    assert!(kept.answered.is_empty(), "it could be either's");
    assert_eq!(second.counts().losses, 1);
}

/// A message of the binary protocol.
fn binary(magic: u8, code: u8, status: u16, opaque: u32, key: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut out = vec![magic, code];
    out.extend(u16::try_from(key.len()).unwrap().to_be_bytes());
    out.extend([0, 0]);
    out.extend(status.to_be_bytes());
    out.extend(u32::try_from(key.len() + rest.len()).unwrap().to_be_bytes());
    out.extend(opaque.to_be_bytes());
    out.extend([0; 8]);
    out.extend(key);
    out.extend(rest);
    out
}

#[test]
fn binary_commands_pair_in_order_and_quiet_misses_have_no_answer() {
    let mut connection = connection("memcached");
    let requests = [
        binary(0x80, 0x00, 0, 1, b"a", b""),
        binary(0x80, 0x09, 0, 2, b"b", b""),
        binary(0x80, 0x09, 0, 3, b"c", b""),
        binary(0x80, 0x0d, 0, 9, b"d", b""),
        binary(0x80, 0x0d, 0, 9, b"e", b""),
        binary(0x80, 0x0a, 0, 4, b"", b""),
        binary(0x80, 0x10, 0, 5, b"", b""),
        binary(0x80, 0x17, 0, 6, b"", b""),
    ];
    let answers = [
        binary(0x81, 0x00, 1, 1, b"", b"Not found"),
        binary(0x81, 0x09, 0, 3, b"", &[0; 5_000]),
        binary(0x81, 0x0d, 0, 9, b"e", b"v"),
        binary(0x81, 0x0a, 0, 4, b"", b""),
        binary(0x81, 0x10, 0, 5, b"pid", b"1"),
        binary(0x81, 0x10, 0, 5, b"", b""),
    ];
    let mut kept = feed(&mut connection, &[(C, &requests.concat()), (S, &answers.concat())]);
    let expected = [("get", "not_found"), ("getq", "ok"), ("getkq", "ok"), ("noop", "ok"), ("stat", "ok")];
    assert_eq!(statuses(&kept), expected);
    let by_design = Unanswered::ByDesign;
    assert_eq!(one_way(&kept), [("quitq", by_design), ("getq", by_design), ("getkq", by_design)]);
    assert_eq!(kept.answered[1].response.bytes, 5_024);
    connection.finish(End::Closed, &mut kept);
    assert_eq!(kept.answered.len(), 5);
}

#[test]
fn two_quiet_gets_that_look_alike_are_not_guessed() {
    let mut connection = connection("memcached");
    let same = |key| binary(0x80, 0x09, 0, 0, key, b"");
    let kept = feed(
        &mut connection,
        &[
            (C, &[same(b"a"), same(b"b"), binary(0x80, 0x0a, 0, 0, b"", b"")].concat()),
            (S, &[binary(0x81, 0x09, 0, 0, b"", b"v"), binary(0x81, 0x0a, 0, 0, b"", b"")].concat()),
        ],
    );
    assert!(kept.answered.is_empty());
    assert_eq!(connection.counts().losses, 1);
}

#[test]
fn holes_in_values_are_skipped_and_lying_lengths_refused() {
    let mut first = connection("memcached");
    let mut kept = feed(&mut first, &[(C, b"set k 0 0 1000\r\nab")]);
    first.hole(C, 990, &mut kept);
    first.data(C, b"yy123456\r\nget k\r\n", 9, None, &mut kept);
    first.data(S, b"STORED\r\nVALUE k 0 1000\r\n", 10, None, &mut kept);
    first.hole(S, 1_002, &mut kept);
    first.data(S, b"END\r\n", 11, None, &mut kept);
    assert_eq!(statuses(&kept), [("set", "STORED"), ("get", "hit1/1")]);

    for bytes in [binary(0x80, 0, 0, 0, b"k", b"")[..8].to_vec(), vec![b'x'; 70_000]] {
        let mut connection = connection("memcached");
        let mut lie = bytes;
        if lie.len() == 8 {
            lie.extend([0xff; 16]);
        }
        feed(&mut connection, &[(C, &lie)]);
        assert_eq!(connection.counts().losses, 1);
    }
}
