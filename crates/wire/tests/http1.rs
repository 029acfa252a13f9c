//! HTTP/1 over the byte streams of one connection.

mod common;

use common::{ExchangeLog, connection, feed};
use ogive_wire::Side::{Client, Server};
use ogive_wire::{End, Reason, Unanswered};

#[test]
fn a_head_request_has_no_body_in_its_answer() {
    let mut http = connection("http1");
    let kept = feed(
        &mut http,
        &[
            (Client, b"HEAD /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\nHost: x"),
            (Client, b"\r\n\r\n"),
            (Server, b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nHTTP/1.1 404 No\r\nContent-Le"),
            (Server, b"ngth: 3\r\n\r\nab"),
            (Server, b"c"),
        ],
    );
    let rows: Vec<_> =
        kept.answered.iter().map(|e| (e.op.as_str(), e.status.as_str(), e.request, e.response)).collect();
    let span = |bytes, first, last| ogive_wire::Span { bytes, first: Some(first), last: Some(last) };
    assert_eq!(
        rows,
        [("HEAD /a", "200", span(20, 1, 1), span(38, 3, 3)), ("GET /b", "404", span(28, 1, 2), span(41, 3, 5))]
    );
}

#[test]
fn chunks_are_skipped_across_a_hole_and_a_cut() {
    let mut http = connection("http1");
    let mut kept = feed(
        &mut http,
        &[
            (Client, b"GET / HTTP/1.1\r\n\r\n"),
            (Server, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nabcd"),
        ],
    );
    http.hole(Server, 10, &mut kept);
    http.cut(Server, 4, 9, &mut kept);
    http.data(Server, b"0\r\n\r\n", 10, None, &mut kept);
    assert_eq!(kept.answered.len(), 1);
    assert_eq!(kept.answered[0].response.bytes, 47 + 4 + 4 + 14 + 5);
    assert_eq!(http.counts().losses, 0);
}

#[test]
fn a_hole_in_a_head_gives_up_one_exchange() {
    let mut http = connection("http1");
    let request = b"GET / HTTP/1.1\r\n\r\n";
    let response = b"HTTP/1.1 204 No\r\n\r\n";
    // A client that was seen to wait for its answers.
    let turn: [(_, &[u8]); 2] = [(Client, request), (Server, response)];
    feed(&mut http, &turn.repeat(3));
    let mut kept = ExchangeLog::default();
    http.hole(Client, 18, &mut kept);
    http.data(Server, response, 1, Some(18 * 4), &mut kept);
    http.data(Client, request, 2, Some(19 * 4), &mut kept);
    http.data(Server, response, 3, Some(18 * 5), &mut kept);
    assert!(kept.answered.is_empty(), "held back until the client speaks again");
    http.data(Client, request, 4, Some(19 * 5), &mut kept);
    assert_eq!(kept.answered.len(), 1);
    assert_eq!((kept.answered[0].request.first, kept.answered[0].response.last), (Some(2), Some(3)));
}

#[test]
fn an_answer_too_many_after_a_hole_takes_back_what_was_held() {
    let mut http = connection("http1");
    let mut kept = ExchangeLog::default();
    let response = b"HTTP/1.1 204 No\r\n\r\n";
    http.hole(Client, 36, &mut kept);
    http.data(Server, response, 1, Some(36), &mut kept);
    http.data(Client, b"GET / HTTP/1.1\r\n\r\n", 2, Some(19), &mut kept);
    http.data(Server, response, 3, Some(54), &mut kept);
    http.data(Server, response, 4, Some(54), &mut kept);
    http.finish(End::Closed, &mut kept);
    assert!(kept.answered.is_empty());
    assert_eq!(kept.discarded.len(), 1);
    assert_eq!(kept.discarded[0].1, Reason::Gap);
}

#[test]
fn half_a_request_is_partial_and_a_reset_is_one() {
    let mut http = connection("http1");
    let mut kept = feed(&mut http, &[(Client, b"GET / HTTP/1.1\r\n\r\n"), (Client, b"POST / HT")]);
    http.finish(End::Reset, &mut kept);
    let rows: Vec<_> = kept.unanswered.iter().map(|(e, why)| (e.op.as_str(), e.request.bytes, *why)).collect();
    assert_eq!(rows, [("GET /", 18, Unanswered::Reset), ("?", 9, Unanswered::PartialRequest)]);
}

#[test]
fn a_body_of_unknown_length_ends_with_the_connection() {
    let mut http = connection("http1");
    let mut kept = feed(
        &mut http,
        &[(Client, b"GET / HTTP/1.0\r\n\r\n"), (Server, b"HTTP/1.0 200 OK\r\n\r\nabc"), (Server, b"def")],
    );
    assert!(kept.answered.is_empty());
    http.fin(Server, &mut kept);
    assert_eq!(kept.answered[0].response.bytes, 25);
    assert_eq!(kept.answered[0].response.last, Some(3));
}

/// h2load kept four requests in flight and sent one for each answer. After drops, each answer was paired with a request
/// three later: whenever one was sent, nothing seemed to be open, which was taken for a client that does not pipeline.
#[test]
fn a_client_that_sends_a_request_for_each_answer_is_not_shifted_by_a_hole() {
    let request = |number: u32| format!("GET /{number} HTTP/1.1\r\n\r\n").into_bytes();
    let answer = |number: u32| format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{number:02}").into_bytes();
    let mut http = connection("http1");
    let mut answered = Vec::new();
    let mut send = |http: &mut ogive_wire::Connection, side, bytes: &[u8]| {
        answered.extend(feed(http, &[(side, bytes)]).answered.iter().map(|exchange| exchange.op.clone()));
    };
    send(&mut http, Client, &[request(10), request(11), request(12)].concat());
    for number in 10..14 {
        send(&mut http, Server, &answer(number));
        send(&mut http, Client, &request(number + 3));
    }
    send(&mut http, Server, &answer(14));
    http.hole(Client, request(17).len() as u64, &mut ExchangeLog::default());
    for number in 15..90 {
        send(&mut http, Server, &answer(number));
        send(&mut http, Client, &request(number + 3));
    }
    assert_eq!(answered, ["GET /10", "GET /11", "GET /12", "GET /13", "GET /14"]);
}
