//! Runs on agents that send what a test says.

use async_snmp::Value;
use hyper::body::Bytes;

use super::testing::{UNKNOWN_ENGINE, UNKNOWN_USER, answer, report, too_big, up_time};
use super::*;
use crate::config::{Config, Probe};

const UP_TIME: &str = "1.3.6.1.2.1.1.3.0";
const LOAD: &str = "1.3.6.1.4.1.2021.10.1.3.1";
const WALK: &str = "walk = [{labels = {interface = '1.3.6.1.2.1.2.2.1.2'}, \
                    columns = [{name = 'octets', oid = '1.3.6.1.2.1.2.2.1.10', unit = 'By'}]}]";
const COLUMN: &str = "walk = [{columns = [{name = 'octets', oid = '1.3.6.1.2.1.2.2.1.10'}]}]";

fn check(keys: &str) -> Snmp {
    let text = format!("[[check]]\nname = 'a'\nkind = 'snmp'\ntarget = 'h'\n{keys}");
    match Config::parse(&text).unwrap().check.remove(0).ask {
        Probe::Snmp(check) => *check,
        other => panic!("{other:?}"),
    }
}

fn community(keys: &str) -> Snmp {
    check(&format!("community = 'public'\n{keys}"))
}

fn text(words: &str) -> Value {
    Value::OctetString(Bytes::copy_from_slice(words.as_bytes()))
}

/// What a run on such an agent comes to, and what it stores.
async fn outcome(check: &Snmp, datagrams: Vec<Bytes>) -> (Result<(), Failure>, Vec<String>) {
    let clock = Clock::manual(1_000, 1_700_000_000_000_000_000);
    let mut run = Run::begin(clock);
    let ended = replay(&mut run, check, datagrams, clock).await;
    let numbers = run.numbers(&ended);
    (ended, numbers)
}

/// Those that the check itself names.
fn own(stored: &[String]) -> Vec<&str> {
    stored.iter().map(String::as_str).filter(|line| !line.starts_with("ogive_check_")).collect()
}

#[tokio::test]
async fn objects_and_tables_are_stored() {
    let get =
        format!("get = [{{name = 'up', oid = '{UP_TIME}'}}, {{name = 'load', oid = '{LOAD}', labels = {{m = '1'}}}}]");
    let check = community(&format!("{get}\n{WALK}"));
    let datagrams = vec![
        answer(1, &[(UP_TIME, Value::TimeTicks(250)), (LOAD, text("0.5"))]),
        answer(
            2,
            &[
                ("1.3.6.1.2.1.2.2.1.2.1", text("lo")),
                ("1.3.6.1.2.1.2.2.1.2.2", text("eth0")),
                ("1.3.6.1.2.1.2.2.1.3.1", Value::Integer(24)),
            ],
        ),
        answer(3, &[("1.3.6.1.2.1.2.2.1.10.1", Value::Counter32(7)), ("1.3.6.1.2.1.2.2.1.10.2", Value::Counter32(8))]),
        answer(4, &[("1.3.6.1.2.1.2.2.1.10.3", Value::Counter64(9)), ("1.3.6.1.2.1.2.2.1.10.3", Value::EndOfMibView)]),
    ];
    let (ended, stored) = outcome(&check, datagrams).await;
    assert_eq!(ended, Ok(()));
    let expected = [
        "up 2.5 gauge s",
        "load{m=\"1\"} 0.5 gauge",
        "octets{index=\"1\", interface=\"lo\"} 7 cumulative By",
        "octets{index=\"2\", interface=\"eth0\"} 8 cumulative By",
        "octets{index=\"3\"} 9 cumulative By",
    ];
    assert_eq!(own(&stored), expected);
    for line in
        ["ogive_check_snmp_values 7 gauge", "ogive_check_snmp_requests 4 gauge", "ogive_check_snmp_strays 0 gauge"]
    {
        assert!(stored.iter().any(|stored| stored == line), "{line}: {stored:?}");
    }
}

#[tokio::test]
async fn what_is_missing_fails_the_run_and_the_rest_is_stored() {
    let check = community(&format!("get = [{{name = 'up', oid = '{UP_TIME}'}}, {{name = 'load', oid = '{LOAD}'}}]"));
    for (value, words) in [
        (Value::NoSuchObject, "content: \"up\": the agent has no object 1.3.6.1.2.1.1.3.0, or does not show it"),
        (Value::NoSuchInstance, "content: \"up\": the agent has no instance 1.3.6.1.2.1.1.3.0"),
        (Value::EndOfMibView, "content: \"up\": the agent has nothing at 1.3.6.1.2.1.1.3.0"),
        (text("three"), "content: \"up\": the value of 1.3.6.1.2.1.1.3.0 is no number, its type is octet_string"),
    ] {
        let (ended, stored) = outcome(&check, vec![answer(1, &[(UP_TIME, value), (LOAD, text("0.5"))])]).await;
        let failure = ended.unwrap_err().to_string();
        assert!(failure.starts_with(words), "{failure}");
        assert_eq!(own(&stored), ["load 0.5 gauge"]);
    }
    let (ended, _) =
        outcome(&community(COLUMN), vec![answer(1, &[("1.3.6.1.2.1.2.2.1.11.1", Value::Integer(1))])]).await;
    assert_eq!(ended.unwrap_err().to_string(), "content: \"octets\": the agent has no row of 1.3.6.1.2.1.2.2.1.10");
}

#[tokio::test]
async fn answers_that_do_not_fit_are_halved_and_circles_end() {
    let row = |at: u32| format!("1.3.6.1.2.1.2.2.1.10.{at}");
    let one = |id: i32, at: u32| answer(id, &[(row(at).as_str(), Value::Counter32(at))]);
    let end = answer(3, &[("1.3.6.1.2.1.2.2.1.11.1", Value::Integer(1))]);
    let (ended, stored) = outcome(&community(COLUMN), vec![too_big(1), one(2, 1), end]).await;
    assert_eq!((ended, own(&stored)), (Ok(()), vec!["octets{index=\"1\"} 1 cumulative"]));
    // 25, 12, 6, 3 and 1.
    let (ended, _) = outcome(&community(COLUMN), (1..=5).map(too_big).collect()).await;
    assert_eq!(ended.unwrap_err().to_string(), "status: the agent answers with the error tooBig");
    let (ended, _) = outcome(&community(COLUMN), vec![one(1, 2), one(2, 2)]).await;
    assert!(ended.unwrap_err().to_string().starts_with("protocol: the agent's OIDs do not increase"));
    let (ended, _) = outcome(&community(COLUMN), (1..=1_001).map(|id| one(id, id as u32)).collect()).await;
    assert!(ended.unwrap_err().to_string().starts_with("limit: the agent's answers are so short that 1000 requests"));
}

#[tokio::test]
async fn a_run_has_a_limit_of_bytes() {
    let long = text(&"x".repeat(60_000));
    let of = |id: i32| answer(id, &[(format!("1.3.6.1.2.1.2.2.1.10.{id}").as_str(), long.clone())]);
    let (ended, _) = outcome(&community(COLUMN), (1..=70).map(of).collect()).await;
    assert_eq!(ended.unwrap_err().to_string(), "limit: the agent sends more than 4194304 bytes");
}

#[tokio::test]
async fn what_is_no_answer_is_passed_over_and_counted() {
    let check = community(&format!("get = [{{name = 'up', oid = '{UP_TIME}'}}]"));
    let good = answer(1, &[(UP_TIME, Value::TimeTicks(100))]);
    let mut stranger = good.to_vec();
    let at = stranger.windows(6).position(|part| part == b"public").unwrap();
    stranger[at] = b'P';
    let mut long = good.to_vec();
    // The last length, that of a number of one byte.
    let at = long.len() - 2;
    long[at] = 100;
    let strays = [
        answer(7, &[(UP_TIME, Value::TimeTicks(1))]),
        stranger.into(),
        long.into(),
        Bytes::from_static(b"HTTP/1.1 400"),
    ];
    let (ended, stored) = outcome(&check, strays.into_iter().chain([good]).collect()).await;
    assert_eq!((ended, own(&stored)), (Ok(()), vec!["up 1 gauge s"]));
    assert!(stored.iter().any(|line| line == "ogive_check_snmp_strays 4 gauge"), "{stored:?}");
}

#[tokio::test]
async fn users_are_known_or_refused() {
    let check = check(&format!("user = 'u'\nget = [{{name = 'up', oid = '{UP_TIME}'}}]"));
    // The request has the number 1, and the messages the numbers 2 and 3.
    let (ended, stored) = outcome(&check, vec![report(2, "", UNKNOWN_ENGINE), up_time(3, "u", 1)]).await;
    assert_eq!((ended, own(&stored)), (Ok(()), vec!["up 0.07 gauge s"]));
    let (ended, _) = outcome(&check, vec![report(2, "", UNKNOWN_ENGINE), report(3, "u", UNKNOWN_USER)]).await;
    assert_eq!(ended.unwrap_err().to_string(), "login: the agent does not know the user");
}

/// A session after so much happened on the wire.
fn silent(check: &Snmp, tally: Tally, left: usize) -> String {
    let exchange = Exchange::scripted(Vec::new(), Clock::manual(1_000, 0));
    *lock(&exchange.tally()) = tally;
    let mut session = Session::open(Auth::v2c("hunter2"), exchange, check, Duration::from_secs(3)).unwrap();
    session.left = left;
    session.silence().to_string()
}

#[test]
fn silence_has_several_reasons() {
    let get = format!("get = [{{name = 'up', oid = '{UP_TIME}'}}]");
    let user = check(&format!(
        "user = 'u'\nauthentication = 'sha256'\npassword = 'hunter2hunter2'\nprivacy = 'aes128'\n\
         privacy_password = 'hunter2hunter2'\n{get}"
    ));
    let community = community(&get);
    let heard = |answers: usize| Tally { requests: 3, round_trips: vec![1; answers], ..Tally::default() };
    let unreadable = Tally { strays: 3, unreadable: Some("nonsense".into()), ..Tally::default() };
    for (check, tally, left, words) in [
        (&community, heard(0), VALUES_MAX, "timeout: 0 answers to 3 requests came within 3.000 s: "),
        (&community, heard(0), VALUES_MAX, "does not know the community: agents do not answer a wrong one"),
        (&community, heard(2), 7, "the agent stopped answering"),
        (&community, unreadable, VALUES_MAX, "protocol: 3 datagrams came from the agent and are no answers: nonsense"),
        (&user, heard(0), VALUES_MAX, "has no SNMP v3"),
        (&user, heard(2), VALUES_MAX, "the privacy password may be wrong"),
        (&user, heard(2), 7, "the agent stopped answering"),
    ] {
        let found = silent(check, tally, left);
        assert!(found.contains(words) && !found.contains("hunter2"), "{found}");
    }
}
