use super::lines::{Sender, read};
use super::names::{Name, Node, Search, path};
use crate::identity::Identity;
use crate::record::Datum;
use crate::tag_query::Candidate;

const CHECK: &str = "8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e";

fn stream(name: &str) -> Identity {
    Identity::parse(CHECK, name).unwrap()
}

fn finds(query: &crate::tag_query::Query, stream: &Identity) -> bool {
    query.finds(&Candidate { identity: stream, kinds: &["numeric"], check_tags: &[], activity: None })
}

#[test]
fn lines_are_records_of_their_check() {
    let sender = Sender { account: 1, check: CHECK.into(), name: "dev".into() };
    let shown = |line: &str| match read(&sender, line.as_bytes()).next().unwrap() {
        Ok(record) => {
            let Datum::Number(value) = record.value else { panic!("{record:?}") };
            format!("{} {} {value}", record.name, record.time_ms)
        }
        Err((fault, _)) => format!("{fault:?}"),
    };
    for (line, expected) in [
        ("a.b 1.5 1480371755", "graphite.dev.a.b 1480371755000 1.5"),
        ("a.b 1.5 1480371964.123\r", "graphite.dev.a.b 1480371964123 1.5"),
        ("a;z=2;b=1 3 10", "graphite.dev.a|ST[b:1,z:2] 10000 3"),
        ("a 3", "Time"),
        ("a 3 -1", "Time"),
        ("a x 10", "Value"),
        (";b=1 3 10", "Name"),
        ("a;b 3 10", "Tags"),
    ] {
        assert_eq!(shown(line), expected, "{line}");
    }
}

#[test]
fn patterns_find_branches_and_leaves() {
    let check = |(prefix, pattern): (&str, &str), base: &str, expected: Option<Node<'_>>| {
        let search = Search::parse(prefix, pattern).unwrap();
        let found = finds(&search.query().unwrap(), &stream(base)).then(|| search.node(base));
        assert_eq!(found, expected, "{prefix:?} {pattern:?} {base:?}");
    };
    check(("", "graphite.*"), "graphite.dev.load", Some(Node::Branch("graphite.dev")));
    check(("graphite.", "*"), "graphite.dev.load", Some(Node::Branch("dev")));
    check(("graphite.", "dev.load"), "graphite.dev.load", Some(Node::Leaf));
    check(("", "graphite.{dev,prod}.l[oa]ad"), "graphite.prod.load", Some(Node::Leaf));
    check(("", "*"), "load", Some(Node::Leaf));
    check(("", "graphite.d?v"), "graphite.dev", Some(Node::Leaf));
    check(("", "graphite.*"), "graphite", None);
    check(("", "graph"), "graphite.dev", None);
    check(("a.b", "*"), "axb.c", None);
    assert!(Search::parse("", "a[").unwrap().query().is_err());
    assert!(Search::parse("", &"x".repeat(super::QUERY_BYTES_MAX)).is_ok());
    assert!(Search::parse("", &"x".repeat(super::QUERY_BYTES_MAX + 1)).is_err());
}

#[test]
fn a_name_leads_to_its_stream() {
    let tagged = stream("graphite.dev.load|ST[host:a,dc:eu]");
    assert_eq!(path(&tagged), "graphite.dev.load;dc=eu;host=a");
    assert!(Name::parse(&path(&tagged)).is(&tagged));
    assert!(Name::parse(&format!("{CHECK}.graphite.dev.load;host=a;dc=eu")).is(&tagged));
    assert!(!Name::parse("1b988fd7-d1e1-48ec-848e-55709511d43f.graphite.dev.load;host=a;dc=eu").is(&tagged));
    assert!(!Name::parse("graphite.dev.load").is(&tagged));
    assert!(finds(&Name::parse("graphite.dev.load").query(), &tagged));
}

#[test]
fn tag_expressions_all_hold() {
    let tagged = stream("disk.used|ST[host:a1,dc:eu]");
    for (query, expected) in [
        ("host=a1", true),
        ("host=a", false),
        ("host=~a", true),
        ("host=~1", false),
        ("host=~b{1,3}", false),
        ("host=~a{1,3}", true),
        ("host=~a\\d{1,3},dc=eu", true),
        ("host!=a1", false),
        ("rack!=x", true),
        ("host!=~b", true),
        ("rack=,dc!=", true),
        ("name=disk.used", true),
        ("name=~disk", true),
    ] {
        assert_eq!(finds(&super::tags::parse(query).unwrap(), &tagged), expected, "{query}");
    }
    for query in ["", "host", "=x", "host=~(", "!=x"] {
        assert!(super::tags::parse(query).is_err(), "{query}");
    }
    let terms = |count: usize| super::tags::parse(&vec!["a=b"; count].join(","));
    assert!(terms(crate::tag_query::TERMS_MAX).is_ok());
    assert!(terms(crate::tag_query::TERMS_MAX + 1).is_err());
}
