use super::*;
use crate::flat::{Node, Writer};
use crate::mutations::mutations;

const CHECK: &str = "00010203-0405-0607-0809-0a0b0c0d0e0f";

fn flat() -> Vec<u8> {
    let stream = Node::Table(vec![
        Node::Flat((0..16).collect(), 1, 16),
        Node::text("m|ST[a:b]"),
        Node::u8(2),
        Node::text("percentile"),
        Node::List(vec![Node::text("99")]),
    ]);
    let reduce = Node::Table(vec![Node::text("all"), Node::text("mean")]);
    let (start, period, count) = (Node::u64(60_000), Node::u32(30_000), Node::u32(10));
    Writer::finish(&Node::Table(vec![start, period, count, Node::List(vec![stream]), Node::List(vec![reduce])]), None)
}

const JSON: &str = r#"{"start":60,"period":30,"count":10,"streams":[{"uuid":"00010203-0405-0607-0809-0a0b0c0d0e0f",
    "name":"m|ST[a:b]","kind":"histogram","transform":"percentile","transform_params":["99"]}],"reduce":[{"label":"all","method":"mean"}]}"#;

#[test]
fn both_forms_say_the_same() {
    let request = Request::from_json(JSON.as_bytes()).unwrap();
    assert_eq!(request.grid, Grid { start_ms: 60_000, period_ms: 30_000, count: 10 });
    assert_eq!((&*request.streams[0].uuid, &*request.reductions[0].method), (CHECK, "mean"));
    assert_eq!(Request::from_flatbuffer(&flat()), Ok(request));
}

#[test]
fn limits_are_checked_at_their_values() {
    let counted =
        |count: usize| Request::from_json(JSON.replace("\"count\":10", &format!("\"count\":{count}")).as_bytes());
    assert!(counted(COUNT_MAX).is_ok() && counted(COUNT_MAX + 1).is_err() && counted(0).is_err());
    for (from, to) in [("\"period\":30", "\"period\":0"), ("\"start\":60", "\"start\":1e300"), ("histogram", "other")] {
        assert!(Request::from_json(JSON.replace(from, to).as_bytes()).is_err(), "{to}");
    }
    let streams = |count: usize| {
        let all = vec!["{\"uuid\":\"x\"}"; count].join(",");
        Request::from_json(format!("{{\"start\":1,\"period\":1,\"count\":1,\"streams\":[{all}]}}").as_bytes())
    };
    assert!(streams(STREAMS_MAX).is_ok() && streams(STREAMS_MAX + 1).is_err());
}

#[test]
fn changed_requests_never_panic() {
    mutations(&flat(), 20_000, 4, &[], |body| drop(Request::from_flatbuffer(body)));
    mutations(JSON.as_bytes(), 5_000, 4, &[], |body| drop(Request::from_json(body)));
}
