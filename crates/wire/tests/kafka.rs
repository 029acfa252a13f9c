//! Kafka from byte strings: correlation ids, acks 0, flexible headers, topics.

mod common;

use common::{connection, feed};
use ogive_wire::{Reason, Side, Unanswered, operation};

const C: Side = Side::Client;
const S: Side = Side::Server;

fn framed(body: &[u8]) -> Vec<u8> {
    [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], body].concat()
}

/// A request with client `me`, with tagged fields in its header or not.
fn request(api: u16, version: u16, id: u32, is_flexible: bool, rest: &[u8]) -> Vec<u8> {
    let tags: &[u8] = if is_flexible { &[1, 9, 2, 7, 7] } else { &[] };
    framed(&[&api.to_be_bytes()[..], &version.to_be_bytes(), &id.to_be_bytes(), &[0, 2], b"me", tags, rest].concat())
}

fn response(id: u32, rest: &[u8]) -> Vec<u8> {
    framed(&[&id.to_be_bytes()[..], rest].concat())
}

#[test]
fn responses_find_their_requests_by_correlation_id() {
    let mut connection = connection("kafka");
    let answer = response(8, &[0; 40]);
    let kept = feed(
        &mut connection,
        &[
            (C, &[request(18, 3, 7, true, b"\x01\x01\0"), request(3, 1, 8, false, &[0; 4])].concat()),
            (S, &answer[..3]),
            (S, &answer[3..20]),
            (S, &answer[20..]),
            (S, &response(99, b"of a request that was missed")),
            (S, &response(7, &[0; 4])),
        ],
    );
    let answers: Vec<_> = kept.answered.iter().map(|e| (e.op.as_str(), e.response.first, e.response.last)).collect();
    assert_eq!(answers, [("Metadata", Some(2), Some(4)), ("ApiVersions", Some(6), Some(6))]);
}

#[test]
fn produce_without_acks_is_not_answered_by_design() {
    let mut connection = connection("kafka");
    let old = [&[0, 0, 0, 0, 0, 9][..], &[0, 0, 0, 1, 0, 2], b"t1", &[0; 12]].concat();
    let old_acked = [&[0xff, 0xff, 0, 0, 0, 9][..], &[0, 0, 0, 1, 0, 2], b"t1", &[0; 12]].concat();
    let new = [&[0, 0, 0, 0, 0, 0, 9][..], &[2, 3], b"t2", &[0; 12]].concat();
    let kept = feed(
        &mut connection,
        &[
            (C, &request(0, 2, 1, false, &old)),
            (C, &request(0, 9, 2, true, &new)),
            (C, &request(0, 2, 3, false, &old_acked)),
            (S, &response(3, &[0; 8])),
        ],
    );
    let one_way: Vec<_> = kept.unanswered.iter().map(|(e, why)| (operation::name(e), *why)).collect();
    let by_design = Unanswered::ByDesign;
    assert_eq!(one_way, [("Produce t1".to_owned(), by_design), ("Produce t2".to_owned(), by_design)]);
    assert_eq!(kept.answered.len(), 1);
}

#[test]
fn fetch_names_its_topic_where_the_version_has_one() {
    let mut connection = connection("kafka");
    let old = [&[0; 12][..], &[0; 4], &[0], &[0, 0, 0, 1, 0, 5], b"topic", &[0; 8]].concat();
    let new = [&[0; 12][..], &[0; 4], &[0], &[0; 8], &[2, 6], b"topic", &[0; 8]].concat();
    let kept = feed(
        &mut connection,
        &[
            (
                C,
                &[request(1, 4, 1, false, &old), request(1, 12, 2, true, &new), request(1, 16, 3, true, &new)].concat(),
            ),
            (S, &[response(1, b""), response(2, b""), response(3, b"")].concat()),
        ],
    );
    let names: Vec<_> = kept.answered.iter().map(operation::name).collect();
    assert_eq!(names, ["Fetch topic", "Fetch topic", "Fetch"]);
}

#[test]
fn an_id_used_again_gives_up_the_one_before() {
    let mut connection = connection("kafka");
    let kept = feed(
        &mut connection,
        &[(C, &request(3, 1, 1, false, &[0; 4])), (C, &request(3, 1, 1, false, &[0; 4])), (S, &response(1, b""))],
    );
    assert_eq!(kept.discarded.iter().map(|(_, reason)| *reason).collect::<Vec<_>>(), [Reason::Gap]);
    assert_eq!(kept.answered.len(), 1);
    assert_eq!(kept.answered[0].request.first, Some(2));
}

#[test]
fn holes_in_batches_are_skipped_and_a_lost_side_begins_again() {
    let mut connection = connection("kafka");
    let mut kept = feed(&mut connection, &[(C, &request(3, 1, 1, false, &[0; 4]))]);
    let answer = response(1, &[0; 10_000]);
    connection.data(S, &answer[..100], 10, None, &mut kept);
    connection.hole(S, 9_000, &mut kept);
    connection.data(S, &answer[9_100..], 12, None, &mut kept);
    assert_eq!(kept.answered.len(), 1);
    assert_eq!(kept.answered[0].response.bytes, 10_008);
    // A hole over the head of an answer.
    connection.data(C, &request(3, 1, 2, false, &[0; 4]), 20, None, &mut kept);
    connection.hole(S, 8, &mut kept);
    connection.data(C, &request(3, 1, 3, false, &[0; 4]), 21, None, &mut kept);
    connection.data(S, &response(3, b""), 22, None, &mut kept);
    assert_eq!(kept.answered.last().unwrap().request.first, Some(21));
}

#[test]
fn lying_lengths_and_unknown_apis_are_refused() {
    for bytes in [&b"\x7f\xff\xff\xff"[..], b"\0\0\0\x01", b"\xff\xff\xff\xff", &request(9_999, 0, 1, false, b"")] {
        let mut connection = connection("kafka");
        let kept = feed(&mut connection, &[(C, bytes), (C, &[0; 20])]);
        assert!(kept.answered.is_empty());
        assert_eq!(connection.counts().losses, 1, "{bytes:?}");
    }
}
