//! Runs against a server that says what it says, and what it is asked.

use bson::spec::BinarySubtype;
use bson::{Binary, RawDocument, RawDocumentBuf, rawdoc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::config::{Config, Probe};

/// Where the document of a message begins.
const DOCUMENT_AT: usize = 21;

fn check(keys: &str) -> MongoDb {
    let text = format!("[[check]]\nname = 'a'\nkind = 'mongodb'\ntarget = 'mongodb://h'\n{keys}\n");
    let Probe::MongoDb(check) = Config::parse(&text).unwrap().check.remove(0).ask else { unreachable!() };
    *check
}

/// A message that answers the command of this number.
fn answer(number: usize, document: &RawDocumentBuf) -> Vec<u8> {
    let (document, number) = (document.as_bytes(), u32::try_from(number).unwrap());
    let length = u32::try_from(DOCUMENT_AT + document.len()).unwrap();
    let head = [length, 7, number, 2_013, 0].map(u32::to_le_bytes).concat();
    [&head[..], &[0], document].concat()
}

/// The commands in messages.
fn commands(mut bytes: &[u8]) -> Vec<RawDocumentBuf> {
    let mut out = Vec::new();
    while let Some((length, _)) = bytes.split_first_chunk::<4>() {
        let (message, rest) = bytes.split_at(u32::from_le_bytes(*length) as usize);
        out.push(RawDocument::from_bytes(&message[DOCUMENT_AT..]).unwrap().to_owned());
        bytes = rest;
    }
    out
}

/// How a run ends with a server that answers so, what it stores, and what it asked.
fn outcome(keys: &str, answers: &[RawDocumentBuf]) -> (Result<(), Failure>, Vec<String>, Vec<RawDocumentBuf>) {
    let clock = Clock::manual(1_000, 1_700_000_000_000_000_000);
    let (check, mut run) = (check(keys), Run::begin(clock));
    let bytes: Vec<u8> = answers.iter().enumerate().flat_map(|(at, document)| answer(at + 1, document)).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (end, asked) = runtime.block_on(async {
        let (mut server, client) = tokio::io::duplex(1 << 20);
        server.write_all(&bytes).await.unwrap();
        server.shutdown().await.unwrap();
        let end = replay(&mut run, &check, Box::new(client), clock).await;
        let mut asked = Vec::new();
        server.read_to_end(&mut asked).await.unwrap();
        (end, asked)
    });
    let numbers = run.numbers(&Ok(()));
    let numbers = numbers.into_iter().filter(|number| !number.starts_with("ogive_check_")).collect();
    (end, numbers, commands(&asked))
}

fn step(is_last: bool, payload: &str) -> RawDocumentBuf {
    rawdoc! {"conversationId": 5_i32, "done": is_last, "payload": binary(payload), "ok": 1.0}
}

fn binary(text: &str) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes: text.as_bytes().to_vec() }
}

const LOGIN: &str = "user = 'user'\npassword = 'x'\nfields = []";
/// RFC 7677, section 3.
const FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
const PROOF: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                     p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
const VERIFIER: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

#[test]
fn a_login_is_that_of_the_specification() {
    let ok = rawdoc! {"ok": 1.0};
    let hello = rawdoc! {"saslSupportedMechs": ["SCRAM-SHA-1", "SCRAM-SHA-256"], "ok": 1.0};
    let keys = format!("{LOGIN}\ndatabase = 'shop'");
    let answers = [hello.clone(), step(false, FIRST), step(true, VERIFIER), ok.clone()];
    let (end, _, asked) = outcome(&keys, &answers);
    assert_eq!(end, Ok(()));
    let first = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    let expected = [
        rawdoc! {"hello": 1_i32, "saslSupportedMechs": "shop.user", "$db": "shop"},
        rawdoc! {
            "saslStart": 1_i32, "mechanism": "SCRAM-SHA-256", "payload": binary(first),
            "options": {"skipEmptyExchange": true}, "$db": "shop",
        },
        rawdoc! {"saslContinue": 1_i32, "conversationId": 5_i32, "payload": binary(PROOF), "$db": "shop"},
        rawdoc! {"ping": 1_i32, "$db": "admin"},
    ];
    assert_eq!(asked, expected);
    // A server that does not know the option of the second wants one exchange more.
    let answers = [hello, step(false, FIRST), step(false, VERIFIER), step(true, ""), ok];
    let (end, _, asked) = outcome(LOGIN, &answers);
    assert_eq!((end, asked.len()), (Ok(()), 5));
    assert_eq!(asked[3].get_binary("payload").unwrap().bytes, b"");
}

#[test]
fn logins_that_go_wrong_are_reported() {
    let hello = || rawdoc! {"saslSupportedMechs": ["SCRAM-SHA-256"], "ok": 1.0};
    let refused = |code: i32| rawdoc! {"ok": 0.0, "errmsg": "no", "code": code, "codeName": "x"};
    let no_payload = rawdoc! {"conversationId": 5_i32, "done": true, "ok": 1.0};
    for (answers, reason) in [
        (vec![refused(13)], Reason::Login),
        (vec![refused(59), refused(59)], Reason::Login),
        (vec![rawdoc! {"saslSupportedMechs": ["PLAIN"], "ok": 1.0}], Reason::Login),
        (vec![hello(), refused(18)], Reason::Login),
        (vec![hello(), refused(59)], Reason::Login),
        (vec![hello(), rawdoc! {"ok": 1.0}], Reason::Protocol),
        (vec![hello(), step(false, "x")], Reason::Protocol),
        (vec![hello(), step(false, &FIRST.replace("i=4096", "i=4095"))], Reason::Login),
        (vec![hello(), step(false, FIRST), refused(18)], Reason::Login),
        // It took the proof, but does not know the password.
        (vec![hello(), step(false, FIRST), step(true, "v=x")], Reason::Login),
        (vec![hello(), step(false, FIRST), no_payload], Reason::Login),
        (vec![hello(), step(false, FIRST), step(false, VERIFIER), step(false, "")], Reason::Protocol),
        (vec![hello(), step(false, FIRST)], Reason::Closed),
    ] {
        let (end, ..) = outcome(LOGIN, &answers);
        assert_eq!(end.unwrap_err().reason, reason, "{answers:?}");
    }
}

#[test]
fn a_server_that_names_no_mechanism_gets_the_older() {
    // Older than `hello`, too.
    let unknown = rawdoc! {"ok": 0.0, "errmsg": "no such command", "code": 59_i32};
    let (end, _, asked) = outcome(LOGIN, &[unknown, rawdoc! {"ismaster": true, "ok": 1.0}]);
    assert_eq!(end.unwrap_err().reason, Reason::Closed);
    assert_eq!(asked[1].get_i32("isMaster").unwrap(), 1);
    assert_eq!(asked[2].get_str("mechanism").unwrap(), "SCRAM-SHA-1");
}

const COMMAND: &str = "[[check.run_command]]\nname = 'orders'\ndatabase = 'shop'\ncommand = '{\"count\": \"orders\"}'\n\
                       extract = [{name = 'shop_orders', json = '$.n'}]\n";

#[test]
fn what_is_wanted_is_asked_and_stored() {
    let ok = rawdoc! {"ok": 1.0};
    let status = rawdoc! {"connections": {"current": 4_i32}, "ok": 1.0};
    let member = rawdoc! {"name": "a:1", "health": 1.0, "state": 1_i32};
    let set = rawdoc! {"set": "rs0", "myState": 1_i32, "members": [member], "ok": 1.0};
    let count = rawdoc! {"n": 12_i64, "ok": 1.0};
    let keys = format!("replica_set = true\n{COMMAND}");
    let (end, numbers, asked) = outcome(&keys, &[ok.clone(), status, set, count]);
    assert_eq!(end, Ok(()));
    let expected = [
        "mongodb_connections_current 4 gauge",
        "mongodb_replica_set_state{replica_set=\"rs0\"} 1 gauge",
        "mongodb_replica_set_member_state{member=\"a:1\", replica_set=\"rs0\"} 1 gauge",
        "mongodb_replica_set_member_health{member=\"a:1\", replica_set=\"rs0\"} 1 gauge",
        "shop_orders{query=\"orders\"} 12 gauge",
    ];
    assert_eq!(numbers, expected);
    let preference = rawdoc! {"mode": "primaryPreferred"};
    let expected = [
        rawdoc! {"ping": 1_i32, "$db": "admin"},
        rawdoc! {"serverStatus": 1_i32, "$db": "admin"},
        rawdoc! {"replSetGetStatus": 1_i32, "$db": "admin"},
        rawdoc! {"count": "orders", "maxTimeMS": 900_i64, "$readPreference": preference, "$db": "shop"},
    ];
    assert_eq!(asked, expected);
    let (end, numbers, asked) = outcome("fields = []", &[ok]);
    assert_eq!((end, numbers.len(), asked.len()), (Ok(()), 0, 1));
}

#[test]
fn a_refused_command_does_not_keep_others_from_being_asked() {
    let ok = rawdoc! {"ok": 1.0};
    let refused = |code: i32| rawdoc! {"ok": 0.0, "errmsg": "no", "code": code, "codeName": "x"};
    let count = || rawdoc! {"n": 12_i64, "ok": 1.0};
    for (status, reason) in [
        (refused(13), Reason::Login),
        (refused(76), Reason::Status),
        (refused(50), Reason::Timeout),
        (ok.clone(), Reason::Content),
    ] {
        let (end, numbers, asked) = outcome(COMMAND, &[ok.clone(), status, count()]);
        assert_eq!(end.unwrap_err().reason, reason);
        assert_eq!((numbers, asked.len()), (vec!["shop_orders{query=\"orders\"} 12 gauge".to_owned()], 3));
    }
    // Over a connection that is broken nothing more is.
    let (end, numbers, asked) = outcome(COMMAND, &[ok]);
    assert_eq!((end.unwrap_err().reason, numbers.len(), asked.len()), (Reason::Closed, 0, 2));
}

#[test]
fn a_cursor_that_is_left_is_closed() {
    let ok = rawdoc! {"ok": 1.0};
    let keys = format!("fields = []\n{}", COMMAND.replace("$.n", "$.cursor.firstBatch[0].n"));
    let batch = |id: i64| rawdoc! {"cursor": {"id": id, "ns": "shop.a.b", "firstBatch": [{"n": 3_i32}]}, "ok": 1.0};
    let (end, numbers, asked) = outcome(&keys, &[ok.clone(), batch(0)]);
    assert_eq!((end, numbers, asked.len()), (Ok(()), vec!["shop_orders{query=\"orders\"} 3 gauge".to_owned()], 2));
    let (end, numbers, asked) = outcome(&keys, &[ok.clone(), batch(9), ok]);
    let failure = end.unwrap_err();
    assert!(failure.reason == Reason::Content && failure.sentence.contains("first batch"), "{failure}");
    assert_eq!(numbers, ["shop_orders{query=\"orders\"} 3 gauge"]);
    assert_eq!(asked[2], rawdoc! {"killCursors": "a.b", "cursors": [9_i64], "$db": "shop"});
}
