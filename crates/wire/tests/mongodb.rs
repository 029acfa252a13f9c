//! MongoDB from byte strings: commands, errors, unacknowledged writes, older greetings.

mod common;

use common::{connection, feed};
use ogive_wire::{Class, Side, Unanswered, operation};

const C: Side = Side::Client;
const S: Side = Side::Server;

fn document(elements: &[u8]) -> Vec<u8> {
    let length = u32::try_from(elements.len() + 5).unwrap();
    [&length.to_le_bytes()[..], elements, &[0]].concat()
}

fn string(name: &str, value: &str) -> Vec<u8> {
    let length = u32::try_from(value.len() + 1).unwrap();
    [&[2][..], name.as_bytes(), &[0], &length.to_le_bytes(), value.as_bytes(), &[0]].concat()
}

fn int(name: &str, value: i32) -> Vec<u8> {
    [&[16][..], name.as_bytes(), &[0], &value.to_le_bytes()].concat()
}

fn double(name: &str, value: f64) -> Vec<u8> {
    [&[1][..], name.as_bytes(), &[0], &value.to_le_bytes()].concat()
}

fn message(code: u32, id: u32, answers: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 16).unwrap();
    [length, id, answers, code].iter().flat_map(|word| word.to_le_bytes()).chain(body.iter().copied()).collect()
}

fn msg(id: u32, answers: u32, flags: u32, elements: &[u8]) -> Vec<u8> {
    message(2_013, id, answers, &[&flags.to_le_bytes()[..], &[0], &document(elements)].concat())
}

#[test]
fn commands_are_named_with_their_collection_and_errors_by_their_code() {
    let mut connection = connection("mongodb");
    let failed = [double("ok", 0.0), string("errmsg", "no"), int("code", 11_000)].concat();
    let written = [int("n", 0), [&[4][..], b"writeErrors\0", &document(&[])].concat(), double("ok", 1.0)].concat();
    let kept = feed(
        &mut connection,
        &[
            (C, &[msg(1, 0, 0, &string("find", "users")), msg(2, 0, 0, &int("ping", 1))].concat()),
            (C, &msg(3, 0, 0, &string("insert", "users"))),
            (S, &[msg(10, 2, 0, &double("ok", 1.0)), msg(11, 1, 0, &failed), msg(12, 3, 0, &written)].concat()),
        ],
    );
    let answers: Vec<_> = kept.answered.iter().map(|e| (operation::name(e), e.status.as_str(), e.class)).collect();
    assert_eq!(
        answers,
        [
            ("ping".to_owned(), "ok", Class::Ok),
            ("find users".to_owned(), "11000", Class::ClientError),
            ("insert users".to_owned(), "write_errors", Class::ClientError)
        ]
    );
}

#[test]
fn unacknowledged_writes_and_further_answers_of_a_stream_pair_with_nothing() {
    let mut connection = connection("mongodb");
    let kept = feed(
        &mut connection,
        &[
            (C, &msg(1, 0, 2, &string("insert", "log"))),
            (C, &msg(2, 0, 0x1_0000, &int("hello", 1))),
            (S, &msg(10, 2, 2, &double("ok", 1.0))),
            (S, &msg(11, 10, 2, &double("ok", 1.0))),
        ],
    );
    assert_eq!(kept.unanswered.iter().map(|(_, why)| *why).collect::<Vec<_>>(), [Unanswered::ByDesign]);
    assert_eq!(kept.answered.len(), 1);
}

#[test]
fn older_greetings_and_compressed_messages_are_paired() {
    let mut connection = connection("mongodb");
    let query = [&[0; 4][..], b"admin.$cmd\0", &[0; 4], &[0xff; 4], &document(&int("isMaster", 1))].concat();
    let reply = [&[0; 20][..], &document(&double("ok", 1.0))].concat();
    let kept = feed(
        &mut connection,
        &[
            (C, &message(2_004, 1, 0, &query)),
            (S, &message(1, 9, 1, &reply)),
            (C, &message(2_012, 2, 0, b"\xdd\x07\0\0\x64\0\0\0\x02zzzz")),
            (S, &message(2_012, 10, 2, b"\xdd\x07\0\0\x64\0\0\0\x02zzzz")),
        ],
    );
    let ops: Vec<_> = kept.answered.iter().map(|e| e.op.as_str()).collect();
    assert_eq!(ops, ["isMaster", "compressed"]);
}

#[test]
fn holes_in_documents_are_skipped_and_lying_lengths_refused() {
    let mut first = connection("mongodb");
    let mut kept = feed(&mut first, &[(C, &msg(1, 0, 0, &string("find", "t")))]);
    let body = [[&[4][..], b"cursor\0", &document(&[0; 6_000])].concat(), double("ok", 1.0)].concat();
    let answer = msg(9, 1, 0, &body);
    first.data(S, &answer[..1_500], 10, None, &mut kept);
    first.hole(S, 4_000, &mut kept);
    first.data(S, &answer[5_500..], 11, None, &mut kept);
    assert_eq!(kept.answered.len(), 1);
    assert_eq!(kept.answered[0].response.bytes, answer.len() as u64);

    for bytes in [message(2_013, 1, 7, &[0; 20]), message(9_999, 1, 0, &[0; 20]), vec![0xff; 16], vec![0; 16]] {
        let mut connection = connection("mongodb");
        feed(&mut connection, &[(C, &bytes)]);
        assert_eq!(connection.counts().losses, 1, "{bytes:?}");
    }
}
