//! NATS from byte strings: requests over inboxes, services, verbose connections, pings.

mod common;

use common::{ExchangeLog, connection, feed};
use ogive_wire::{Class, Connection, Side, Unanswered, operation};

const C: Side = Side::Client;
const S: Side = Side::Server;

const INFO: &[u8] = b"INFO {\"server_id\":\"x\",\"headers\":true}\r\n";

fn begun(connect: &[u8]) -> Connection {
    let mut connection = connection("nats");
    feed(&mut connection, &[(S, INFO), (C, connect)]);
    assert_eq!(connection.counts().losses, 0);
    connection
}

fn names(kept: &ExchangeLog) -> Vec<(String, &str)> {
    kept.answered.iter().map(|e| (operation::name(e), e.status.as_str())).collect()
}

#[test]
fn a_request_is_answered_by_the_first_message_to_its_inbox() {
    let mut connection = begun(b"CONNECT {\"verbose\":false}\r\n");
    let kept = feed(
        &mut connection,
        &[
            (C, b"SUB _INBOX.x.* 1\r\nPUB orders.1234.get _INBOX.x.7 2\r\nhi\r\nPUB log 3\r\nabc\r\n"),
            (S, b"MSG _INBOX.x.9 1 2\r\nno\r\n"),
            (S, b"MSG _INBOX.x.7 1 5\r\nhe"),
            (S, b"llo\r\nMSG _INBOX.x.7 1 5\r\nagain\r\n"),
            (C, b"HPUB nobody _INBOX.x.8 12 12\r\nNATS/1.0\r\n\r\n\r\n"),
            (S, b"HMSG _INBOX.x.8 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"),
            (C, b"ping\r\n"),
            (S, b"PONG\r\n"),
        ],
    );
    let expected = [("request orders.{n}.get", "ok"), ("request nobody", "503"), ("PING", "PONG")];
    assert_eq!(names(&kept), expected.map(|(name, status)| (name.to_owned(), status)));
    assert_eq!((kept.answered[0].response.first, kept.answered[0].response.last), (Some(3), Some(4)));
    assert_eq!(kept.answered[0].request.bytes, 34 + 4);
    assert_eq!(kept.answered[1].class, Class::Error);
    let one_way: Vec<_> = kept.unanswered.iter().map(|(e, why)| (operation::name(e), *why)).collect();
    assert_eq!(one_way, [("publish log".to_owned(), Unanswered::ByDesign)]);
}

#[test]
fn for_a_service_the_server_asks() {
    let mut connection = begun(b"CONNECT {}\r\n");
    let kept = feed(
        &mut connection,
        &[
            (S, b"MSG svc 1 _INBOX.a.1 4\r\nwhat\r\nMSG svc 1 _INBOX.a.2 4\r\nelse\r\n"),
            (C, b"PUB _INBOX.a.2 2\r\nok\r\n"),
            (C, b"PUB _INBOX.a.1 2\r\nok\r\n"),
        ],
    );
    let served: Vec<_> = kept.answered.iter().map(|e| (operation::name(e), e.by_server, e.response.first)).collect();
    assert_eq!(served, [("serve svc".to_owned(), true, Some(2)), ("serve svc".to_owned(), true, Some(3))]);
    assert!(kept.unanswered.is_empty());
}

#[test]
fn a_verbose_connection_acknowledges_every_command() {
    let mut connection = connection("nats");
    let kept = feed(
        &mut connection,
        &[
            (S, INFO),
            (C, b"CONNECT {\"verbose\":true}\r\n"),
            (S, b"+OK\r\n"),
            (C, b"SUB a 1\r\nPUB b 0\r\n\r\nPUB q _INBOX.z 0\r\n\r\n"),
            (S, b"+OK\r\n-ERR 'Permissions Violation'\r\n+OK\r\nMSG _INBOX.z 1 0\r\n\r\n"),
        ],
    );
    let expected = [("CONNECT", "+OK"), ("SUB", "+OK"), ("publish b", "-ERR"), ("request q", "ok")];
    assert_eq!(names(&kept), expected.map(|(name, status)| (name.to_owned(), status)));
}

#[test]
fn holes_in_payloads_are_skipped_and_others_give_up_what_was_asked() {
    let mut connection = begun(b"CONNECT {}\r\n");
    let mut kept = feed(&mut connection, &[(C, b"PUB q _INBOX.1 1000\r\nab")]);
    connection.hole(C, 990, &mut kept);
    connection.data(C, b"12345678\r\n", 5, None, &mut kept);
    connection.data(S, b"MSG _INBOX.1 1 0\r\n\r\n", 6, None, &mut kept);
    assert_eq!(names(&kept), [("request q".to_owned(), "ok")]);
    connection.data(C, b"PUB q _INBOX.2 0\r\n\r\nPING\r\n", 7, None, &mut kept);
    connection.hole(S, 20, &mut kept);
    connection.data(S, b"PONG\r\nMSG _INBOX.2 1 0\r\n\r\n", 8, None, &mut kept);
    assert_eq!((kept.answered.len(), kept.discarded.len()), (1, 2));
}

#[test]
fn encryption_ends_the_reading_and_lies_are_refused() {
    let mut first = begun(b"");
    feed(&mut first, &[(C, b"\x16\x03\x01")]);
    assert!(first.is_opaque());
    for bytes in [&b"PUB a 99999999999\r\n"[..], b"PUB a -1\r\n", b"PUB\r\n", b"GET / HTTP/1.1\r\n", &[b'x'; 70_000]] {
        let mut connection = begun(b"CONNECT {}\r\n");
        feed(&mut connection, &[(C, bytes)]);
        assert_eq!(connection.counts().losses, 1, "{:?}", &bytes[..bytes.len().min(20)]);
    }
}
