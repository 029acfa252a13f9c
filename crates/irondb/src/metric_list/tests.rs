use super::*;
use crate::flat::{Node, Writer};

const CHECK: &str = "8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e";

/// A list of one metric of generation 1, with the value `kind`.
pub(crate) fn first(kind: u8, value: Node) -> Vec<u8> {
    let tags = Node::List(vec![Node::text("host:a")]);
    let value = Node::Table(vec![Node::text("m"), Node::u64(0), Node::u8(kind), value, Node::None, tags]);
    let metric = Node::Table(vec![Node::u64(1_700_000_000_123), Node::None, Node::text(CHECK), Node::u32(7), value]);
    Writer::finish(&Node::Table(vec![Node::List(vec![metric])]), Some(*b"CIML"))
}

/// A list of one metric of generation 2, with two samples of the value `kind`.
pub(crate) fn second(kind: u8, value: &Node) -> Vec<u8> {
    let uuid: Vec<u8> = (0..16).collect();
    let samples = [0, 1_700_000_001_000].map(|time| Node::Table(vec![Node::u64(time), Node::u8(kind), value.clone()]));
    let value = Node::Table(vec![Node::text("m|ST[a:b]"), Node::None, Node::List(samples.into())]);
    let metric = Node::Table(vec![
        Node::u64(1_700_000_000_000),
        Node::text("check"),
        Node::Flat(uuid, 1, 16),
        Node::u32(7),
        value,
    ]);
    Writer::finish(&Node::Table(vec![Node::List(vec![metric])]), Some(*b"CMLS"))
}

/// The bins 1.2 (three times) and 3.4 (five times), as a histogram of each generation.
pub(crate) fn bins() -> (Node, Node) {
    let tables = [(12, 3), (34, 5)].map(|(val, count)| Node::Table(vec![Node::u8(val), Node::u8(0), Node::u64(count)]));
    let mut structs = Vec::new();
    for (val, count) in [(12_u8, 3_u64), (34, 5)] {
        structs.extend(count.to_le_bytes());
        structs.extend([val, 0, 0, 0, 0, 0, 0, 0]);
    }
    (Node::Table(vec![Node::List(tables.into())]), Node::Table(vec![Node::Flat(structs, 8, 2), Node::u8(1)]))
}

fn shown(body: &[u8]) -> Result<Vec<String>, Malformed> {
    let mut all = Vec::new();
    read::<Malformed>(body, &mut |record| {
        let mut check = String::new();
        record.check.write(&mut check).map_err(|_| Malformed("uuid"))?;
        let value = match &record.value {
            Datum::Number(number) => number.to_string(),
            Datum::Text(text) => text.to_string(),
            Datum::Bins(bins, counting) => {
                let mut text = format!("{counting:?}");
                bins.each(|bin, count| text.push_str(&format!(" {}e{}={count}", bin.val, bin.exp)))?;
                text
            }
            other => format!("{other:?}"),
        };
        let tags: Vec<&str> = match &record.tags {
            Tags::InName => Vec::new(),
            Tags::Vector(tags) => tags.texts().collect::<Result<_, _>>()?,
        };
        all.push(format!("{} {} {} {tags:?} {} {value}", record.account, &check[..8], record.name, record.time_ms));
        Ok(())
    })?;
    Ok(all)
}

#[test]
fn both_generations_say_the_same() {
    let (tables, structs) = bins();
    let int = Node::Table(vec![Node::u32(u32::MAX)]);
    let long = Node::Table(vec![Node::u64(u64::MAX)]);
    let double = Node::Table(vec![Node::f64(1.25)]);
    let text = Node::Table(vec![Node::text("on")]);
    for (kind, value, expected) in [
        (1, int.clone(), "-1"),
        (2, int, "4294967295"),
        (3, long.clone(), "-1"),
        (4, long, "18446744073709552000"),
        (5, double, "1.25"),
        (6, text, "on"),
        (8, Node::None, "NoNumber"),
        (9, Node::None, "Nothing"),
    ] {
        assert_eq!(
            shown(&first(kind, value.clone())),
            Ok(vec![format!("7 8b9d2b4e m [\"host:a\"] 1700000000123 {expected}")])
        );
        let line = |time: u64| format!("7 00010203 m|ST[a:b] [] {time} {expected}");
        assert_eq!(shown(&second(kind, &value)), Ok(vec![line(1_700_000_000_000), line(1_700_000_001_000)]));
    }
    assert_eq!(shown(&first(7, tables)).unwrap()[0], "7 8b9d2b4e m [\"host:a\"] 1700000000123 Since 12e0=3 34e0=5");
    assert_eq!(shown(&second(7, &structs)).unwrap()[0], "7 00010203 m|ST[a:b] [] 1700000000000 On 12e0=3 34e0=5");
}

/// A small buffer whose offsets all lead to one large table would unfold to gigabytes.
#[test]
fn what_is_shared_is_bounded() {
    let mut body = first(5, Node::Table(vec![Node::f64(1.0)]));
    let mut text = "x".repeat(2_000);
    text.push('y');
    let long = first(6, Node::Table(vec![Node::text(text)]));
    assert!(shown(&long).is_ok());
    // A list of 100,000 metrics, all of them the first.
    let list = body.len();
    body.extend(100_000_u32.to_le_bytes());
    let metric = u32::from_le_bytes(body[8..12].try_into().unwrap());
    let _ = metric;
    let root = u32::from_le_bytes(body[..4].try_into().unwrap()) as usize;
    let vector = root + 4 + u32::from_le_bytes(body[root + 4..root + 8].try_into().unwrap()) as usize;
    let first = vector + 4 + u32::from_le_bytes(body[vector + 4..vector + 8].try_into().unwrap()) as usize;
    // Offsets lead forward alone, so that the metric is copied behind.
    let metrics = body[first - 14..list].to_vec();
    let target = list + 4 + 400_000;
    for number in 0..100_000_usize {
        let at = list + 4 + 4 * number;
        body.extend(((target + 14 - at) as u32).to_le_bytes());
    }
    body.extend(metrics);
    body[root + 4..root + 8].copy_from_slice(&((list - root - 4) as u32).to_le_bytes());
    assert!(matches!(shown(&body), Err(Malformed(_))));
}

#[test]
fn what_is_no_list_is_refused() {
    for body in
        [&b""[..], b"CIML", b"\0\0\0\0CIML", b"\x08\0\0\0CIML\0\0\0\0", b"\xff\xff\xff\xffCIML\0\0\0\0", b"{\"a\":1}"]
    {
        assert!(shown(body).is_err(), "{body:?}");
    }
}
