//! Runs on servers that send what a test says.

use ogive_probe::Clock;

use super::messages::{EXTENDED_RESPONSE, SEARCH_DONE, SEARCH_ENTRY, SEARCH_REFERENCE, element, octets, request};
use super::*;
use crate::config::{Config, Probe};

fn read(keys: &str) -> Result<Ldap, String> {
    let head = "[[check]]\nname = 'a'\nkind = 'ldap'\nlabels = {team = 'x'}\n";
    match Config::parse(&format!("{head}{keys}"))?.check.remove(0).ask {
        Probe::Ldap(check) => Ok(*check),
        other => panic!("{other:?}"),
    }
}

fn check(keys: &str) -> Ldap {
    read(&format!("target = 'ldap://h'\n{keys}")).unwrap()
}

/// A result with a code and a text.
fn result(id: i32, tag: u8, code: u8, said: &str) -> Vec<u8> {
    request(id, &element(tag, &[&element(0x0a, &[&[code]]), &octets(b""), &octets(said.as_bytes())]))
}

fn bound() -> Vec<u8> {
    result(1, BIND_RESPONSE, 0, "")
}

fn done() -> Vec<u8> {
    result(2, SEARCH_DONE, 0, "")
}

/// An entry whose attributes have these values.
fn entry(dn: &str, attributes: &[(&str, &[&str])]) -> Vec<u8> {
    let attribute = |(name, values): &(&str, &[&str])| {
        let values: Vec<u8> = values.iter().flat_map(|value| octets(value.as_bytes())).collect();
        element(0x30, &[&octets(name.as_bytes()), &element(0x31, &[&values])])
    };
    let attributes: Vec<u8> = attributes.iter().flat_map(attribute).collect();
    request(2, &element(SEARCH_ENTRY, &[&octets(dn.as_bytes()), &element(0x30, &[&attributes])]))
}

fn reference() -> Vec<u8> {
    request(2, &element(SEARCH_REFERENCE, &[&octets(b"ldap://h/o=x")]))
}

/// What a run on such a server comes to, and what it stores.
async fn outcome(check: &Ldap, messages: &[Vec<u8>]) -> (Result<(), Failure>, Vec<String>) {
    let mut run = Run::begin(Clock::manual(1_000, 1_700_000_000_000_000_000));
    let stream = Box::new(tokio::io::join(std::io::Cursor::new(messages.concat()), tokio::io::sink()));
    let ended = replay(&mut run, check, stream).await;
    let numbers = run.numbers(&ended);
    let is_of_run = |line: &String| ["ogive_check_up", "ogive_check_runs"].iter().any(|own| line.starts_with(own));
    (ended, numbers.into_iter().filter(|line| !is_of_run(line)).collect())
}

async fn failure(check: &Ldap, messages: &[Vec<u8>]) -> Failure {
    outcome(check, messages).await.0.unwrap_err()
}

const VALUES: &str = "[check.search]\nlabels = {who = 'uid'}\n\
                      values = [{name = 'number', attribute = 'uidNumber', labels = {of = 'y'}}, \
                      {name = 'open_total', attribute = 'monitorCounter', unit = '1', counter = true}]";

#[test]
fn tables_are_read() {
    let plain = check("");
    assert_eq!((plain.place.host.as_str(), plain.place.port, &plain.encryption), ("h", 389, &Encryption::None));
    assert!(plain.account.is_none() && plain.search.is_none());
    let secure = read("target = 'ldaps://[::1]/'\nca_file = '/ca.pem'").unwrap();
    assert_eq!((secure.place.host.as_str(), secure.place.port), ("::1", 636));
    assert!(matches!(secure.encryption, Encryption::Implicit(_)), "{secure:?}");
    let later = read("target = 'ldap://h:1389'\nstarttls = true\ninsecure = true").unwrap();
    assert_eq!(later.place.port, 1389);
    assert!(matches!(later.encryption, Encryption::StartTls(_)), "{later:?}");
    let known = check("user = 'cn=monitor,o=x'\npassword = 'hunter2'\nsearch = {base = 'o=x', scope = 'one'}");
    assert_eq!(known.account.as_ref().unwrap().user, "cn=monitor,o=x");
    assert!(known.search.is_some() && !format!("{known:?}").contains("hunter2"));
}

#[test]
fn mistakes_are_refused() {
    for (keys, sentence) in [
        ("", "target is missing"),
        ("target = 'h'", "target is no ldap or ldaps address"),
        ("target = 'http://h'", "target is no ldap or ldaps address"),
        ("target = 'ldap://'", "is not HOST:PORT"),
        ("target = 'ldap://u:p@h'", "a name does not belong in the target"),
        ("target = 'ldap://h/o=x??sub'", "write a [check.search] table"),
        ("target = 'ldaps://h'\nstarttls = true", "write ldap:// in place of ldaps://"),
        ("target = 'ldap://h'\nca_file = '/ca.pem'", "ca_file means nothing to the kind ldap"),
        ("target = 'ldap://h'\ntls = true", "tls means nothing to the kind ldap"),
        ("target = 'ldap://h'\nuser = 'u'", "password_file is missing"),
        ("target = 'ldap://h'\npassword = 'p'", "user is missing"),
        ("target = 'ldap://h'\nuser = 'u'\npassword = 'a'\npassword_file = '/b'", "not both"),
        ("target = 'ldap://h'\nbase = 'o=x'", "unknown field `base`"),
    ] {
        let found = read(keys).unwrap_err();
        assert!(found.contains(sentence), "{keys}: {found}");
    }
    let tcp = "[[check]]\nname = 'a'\nkind = 'tcp'\ntarget = 'h:1'\nsearch = {}";
    assert!(Config::parse(tcp).unwrap_err().contains("search means nothing to the kind tcp"));
    let user = |bytes: usize| read(&format!("target = 'ldap://h'\nuser = '{}'\npassword = 'p'", "x".repeat(bytes)));
    assert!(user(USER_BYTES_MAX).is_ok());
    assert!(user(USER_BYTES_MAX + 1).unwrap_err().contains("more than 4096 bytes"));
}

#[test]
fn mistakes_in_a_search_are_refused() {
    let search = |keys: &str| read(&format!("target = 'ldap://h'\n[check.search]\n{keys}"));
    for (keys, sentence) in [
        ("scope = 'sub'", "search: scope \"sub\" is none; there are base, one, subtree"),
        ("filter = 'cn=a'", "search: filter \"cn=a\", byte 1: ( is expected"),
        ("entries_max = 10001", "entries_max 10001 is above 10000"),
        ("entries_max = 0", "entries_min 1 is above entries_max 0"),
        ("entries_min = -1", "invalid value"),
        ("labels = {who = 'uid'}", "labels are those of values"),
        ("values = [{name = '', attribute = 'n'}]", "give each of values a name"),
        ("values = [{name = 'ogive_n', attribute = 'n'}]", "begins with ogive_"),
        ("values = [{name = 'n', attribute = 'a b'}]", "\"n\": \"a b\" is no name of an attribute"),
        ("values = [{name = 'n'}]", "missing field `attribute`"),
        ("values = [{name = 'n', attribute = 'n', labels = {dn = 'x'}}]", "the label dn is the check's own"),
        ("values = [{name = 'n', attribute = 'n', labels = {team = 'y'}}]", "the label team is the check's own"),
        ("labels = {kind = 'k'}\nvalues = [{name = 'n', attribute = 'n'}]", "the label kind is the check's own"),
        (
            "labels = {a = 'k'}\nvalues = [{name = 'n', attribute = 'n', labels = {a = 'x'}}]",
            "the label a is that of an attribute",
        ),
        ("values = [{name = 'n', attribute = 'a'}, {name = 'n', attribute = 'b'}]", "twice with the same labels"),
    ] {
        let found = search(keys).unwrap_err();
        assert!(found.contains(sentence), "{keys}: {found}");
    }
    assert!(search("filter = 'cn=a'").unwrap_err().starts_with("line 1: "));
    assert!(search("entries_min = 0\nentries_max = 0").is_ok());
    let values = |count: usize| {
        let all: Vec<String> = (0..count).map(|at| format!("{{name = 'n{at}', attribute = 'a{at}'}}")).collect();
        search(&format!("values = [{}]", all.join(", ")))
    };
    assert!(values(20).is_ok());
    assert!(values(21).unwrap_err().contains("there are 21 values, above 20"));
}

#[tokio::test]
async fn binds_succeed_or_report_the_code() {
    assert_eq!(outcome(&check(""), &[bound()]).await, (Ok(()), Vec::new()));
    for (answer, reason, words) in [
        (result(1, BIND_RESPONSE, 49, ""), Reason::Login, "the bind fails: invalidCredentials (49)"),
        (result(1, BIND_RESPONSE, 53, "off"), Reason::Status, "the bind fails: unwillingToPerform (53): \"off\""),
        (result(7, BIND_RESPONSE, 0, ""), Reason::Protocol, "answers message 7, and the request was message 1"),
        (result(1, SEARCH_DONE, 0, ""), Reason::Protocol, "a message of the kind 0x65"),
        (result(0, EXTENDED_RESPONSE, 52, "bye"), Reason::Status, "ends the connection: unavailable (52): \"bye\""),
        (result(0, BIND_RESPONSE, 0, ""), Reason::Protocol, "a message of the kind 0x61"),
        (request(1, &element(BIND_RESPONSE, &[])), Reason::Protocol, "malformed"),
        (Vec::new(), Reason::Closed, ""),
    ] {
        let found = failure(&check(""), &[answer]).await;
        assert!(found.reason == reason && found.sentence.contains(words), "{found}");
    }
}

#[tokio::test]
async fn tls_begins_only_where_the_server_agrees_and_nothing_came_before_it() {
    let check = check("starttls = true");
    let good = result(1, EXTENDED_RESPONSE, 0, "");
    for (messages, reason, words) in [
        (vec![result(1, EXTENDED_RESPONSE, 2, "no")], Reason::Tls, "refuses StartTLS: protocolError (2): \"no\""),
        (vec![good.clone(), bound()], Reason::Protocol, "arrived before TLS began"),
        (vec![bound()], Reason::Protocol, "a message of the kind 0x61"),
        // In its place stands the end of what the server says.
        (vec![good], Reason::Closed, ""),
    ] {
        let found = failure(&check, &messages).await;
        assert!(found.reason == reason && found.sentence.contains(words), "{found}");
    }
}

#[tokio::test]
async fn entries_are_counted_and_their_numbers_stored() {
    let ada = entry("uid=ada,o=x", &[("UID", &["ada"]), ("uidNumber", &["7"]), ("monitorCounter", &["3"])]);
    let bob = entry("uid=bob,o=x", &[("uidnumber", &["-8"]), ("mail", &["b@x"])]);
    let messages = [bound(), ada, reference(), bob, done()];
    let (ended, stored) = outcome(&check(VALUES), &messages).await;
    assert_eq!(ended, Ok(()));
    let expected = [
        "number{dn=\"uid=ada,o=x\", of=\"y\", who=\"ada\"} 7 gauge",
        "open_total{dn=\"uid=ada,o=x\", who=\"ada\"} 3 cumulative 1",
        "number{dn=\"uid=bob,o=x\", of=\"y\"} -8 gauge",
        "ogive_check_ldap_entries 2 gauge",
        "ogive_check_ldap_references 1 gauge",
    ];
    assert_eq!(stored, expected);
}

#[tokio::test]
async fn what_is_not_as_it_should_be_fails_the_run() {
    let one = || entry("cn=1", &[("uidNumber", &["1"]), ("monitorCounter", &["TRUE"])]);
    let with = |dn: &str, values: &[&str]| entry(dn, &[("uidNumber", values), ("monitorCounter", &["1"])]);
    let few = "[check.search]\nentries_min = 2\nentries_max = 3";
    for (keys, messages, reason, words) in [
        (few, vec![one(), done()], Reason::Content, "finds fewer entries than 2: 1"),
        (few, vec![one(), one(), one(), one()], Reason::Content, "finds more than 3 entries"),
        ("search = {}", vec![done()], Reason::Content, "finds fewer entries than 1: 0"),
        (VALUES, vec![one(), one(), done()], Reason::Content, "two entries have the name \"cn=1\""),
        (VALUES, vec![with("cn=2", &["x"]), done()], Reason::Content, "uidnumber of \"cn=2\" is no number: \"x\""),
        (VALUES, vec![with("cn=2", &["inf"]), done()], Reason::Content, "is no number: \"inf\""),
        (VALUES, vec![with("cn=2", &["1", "2"]), done()], Reason::Content, "of \"cn=2\" has 2 values"),
        (VALUES, vec![with("cn=2", &[]), done()], Reason::Content, "\"number\": no entry has the attribute uidnumber"),
        (few, vec![result(2, SEARCH_DONE, 32, "")], Reason::Status, "the search fails: noSuchObject (32)"),
        (few, vec![result(2, SEARCH_DONE, 50, "")], Reason::Login, "insufficientAccessRights (50)"),
        (few, vec![one()], Reason::Closed, ""),
        (few, vec![request(2, &element(SEARCH_ENTRY, &[]))], Reason::Protocol, "malformed"),
        (few, vec![result(2, BIND_RESPONSE, 0, "")], Reason::Protocol, "a message of the kind 0x61"),
    ] {
        let found = failure(&check(keys), &[vec![bound()], messages].concat()).await;
        assert!(found.reason == reason && found.sentence.contains(words), "{found}");
    }
    // What is good is stored beside what is not.
    let (_, stored) = outcome(&check(VALUES), &[bound(), with("cn=2", &["x"]), one(), done()]).await;
    assert!(stored.contains(&"number{dn=\"cn=1\", of=\"y\"} 1 gauge".to_owned()), "{stored:?}");
}

#[tokio::test]
async fn limits_hold_at_their_values() {
    let any = check("search = {entries_min = 0}");
    let references = |count: usize| [vec![bound()], vec![reference(); count], vec![done()]].concat();
    assert_eq!(outcome(&any, &references(1_000)).await.0, Ok(()));
    let found = failure(&any, &references(1_001)).await;
    assert!(found.reason == Reason::Limit && found.sentence.contains("more than 1000 references"), "{found}");
    let entries = |count: usize| [vec![bound()], vec![entry("cn=1", &[]); count], vec![done()]].concat();
    assert_eq!(outcome(&any, &entries(10_000)).await.0, Ok(()));
    let found = failure(&any, &entries(10_001)).await;
    assert!(found.reason == Reason::Limit && found.sentence.contains("more than 10000 entries"), "{found}");
    let large = entry("cn=1", &[("description", &["x".repeat(200_000).as_str()])]);
    let found = failure(&any, &[vec![bound()], vec![large; 21]].concat()).await;
    assert!(found.reason == Reason::Limit && found.sentence.contains("more than 4194304 bytes"), "{found}");
    let all: Vec<String> = (0..20).map(|at| format!("{{name = 'n{at}', attribute = 'n'}}")).collect();
    let numbers = check(&format!("[check.search]\nvalues = [{}]", all.join(", ")));
    let entries = |count: usize| {
        let all = (0..count).map(|at| entry(&format!("cn={at}"), &[("n", &["1"])]));
        [vec![bound()], all.collect(), vec![done()]].concat()
    };
    assert_eq!(outcome(&numbers, &entries(250)).await.0, Ok(()));
    let found = failure(&numbers, &entries(251)).await;
    assert!(found.reason == Reason::Limit && found.sentence.contains("more than 5000 numbers"), "{found}");
}
