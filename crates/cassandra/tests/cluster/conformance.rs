//! The embedded store and a cluster, given the same samples, are the same store.
//!
//! `OGIVE_CONFORMANCE_MINUTES=540` makes them a million.

use ogive_door::backend::Backend;
use ogive_model::{Matcher, Opening, Selection, SeriesData, Tenant, TimeRange};

use crate::cells::{Numbers, QUERIES, batches};
use crate::support::{Three, answer, answer_of, driven, embedded, eventually, fact, node, send, store};

/// Everything of a tenant, for comparison.
fn everything() -> Selection {
    let matchers: Vec<Matcher> = Vec::new();
    Selection::new(matchers, TimeRange::ALL)
}

fn sorted(mut all: Vec<SeriesData>) -> Vec<SeriesData> {
    all.sort_by(|a, b| (&a.labels, a.meta.kind).cmp(&(&b.labels, b.meta.kind)));
    all
}

/// Two nodes take the batches in turn, some of them both; a third one, new, answers, and so do the two.
#[test]
fn two_nodes_over_a_cluster_answer_as_the_embedded_store() {
    let three = Three::up();
    let address = three.keyspace();
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let mut numbers = Numbers::seeded();
    // Two hours ago, over the end of a bucket of six hours.
    let from_s = 1_700_006_400 - 150;
    let minutes =
        std::env::var("OGIVE_CONFORMANCE_MINUTES").map(|text| text.parse().expect("it is a number of minutes"));
    let all = batches(&mut numbers, from_s, minutes.unwrap_or(5));
    let (one, two, reference) = (node(&address, &at("one")), node(&address, &at("two")), embedded(&at("store")));
    for batch in &all {
        assert_eq!(store(&reference, batch.clone()).rejected, [], "what one of them rejects is no comparison");
        let which = numbers.below(3);
        if which != 1 {
            send(&one, batch.clone()).expect("the first node takes it");
        }
        if which != 0 {
            send(&two, batch.clone()).expect("the second node takes it");
        }
    }
    let tenant = Tenant::default();
    let expected = sorted(ogive_model::Select::select(&reference.tenant(&tenant), &everything()).unwrap());
    assert_eq!(expected.len(), 24, "every series has samples");
    driven(&one);
    driven(&two);
    let three_nodes = [one, two, node(&address, &at("three"))];
    for node in &three_nodes {
        let found = eventually("the node knows every series", || {
            let found = sorted(node.of(&tenant).select(&everything()).expect("the cluster answers"));
            (found.len() == expected.len()).then_some(found)
        });
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "{}", expected.labels);
        }
        for query in QUERIES {
            for (start, end, step) in [(150, 0, 0), (0, 300, 30), (297, 299, 1)] {
                let times = ((from_s + start) * 1_000, (from_s + end) * 1_000, step * 1_000);
                let is = answer_of(node, &tenant, query, times);
                assert_eq!(is, answer(&reference.tenant(&tenant), query, times), "{query} at {times:?}");
            }
        }
        let (reader, whole) = (node.of(&tenant), Opening::UNBOUNDED);
        assert_eq!(reader.label_names(&[], TimeRange::ALL, &whole).unwrap(), ["__name__", "host"]);
        assert_eq!(reader.label_values("host", &[], TimeRange::ALL, 2, &whole).unwrap(), ["a", "b"]);
        let figure = |name| fact(node, name);
        assert_eq!((figure("cassandra_corrupt_rows_total"), figure("cassandra_conflicts_total")), (0, 0));
    }
    let rows: u64 = three_nodes.iter().map(|node| fact(node, "cassandra_rows_total")).sum();
    let pieces: u64 = three_nodes.iter().map(|node| fact(node, "cassandra_pieces_total")).sum();
    let samples: usize = all.iter().map(|batch| batch.samples.len()).sum();
    println!("{} batches of {samples} samples, {pieces} pieces in {rows} rows", all.len());
    assert!(rows > 0 && rows <= pieces);
}

/// What is acknowledged is in the next answer, before the cluster has it; and tenants do not see each other.
#[test]
fn what_is_acknowledged_is_seen_at_once_and_by_its_tenant_alone() {
    let three = Three::up();
    let mut address = three.keyspace();
    address.collect = std::time::Duration::from_secs(60);
    let directory = tempfile::tempdir().unwrap();
    let node = crate::support::node(&address, directory.path());
    let mut batch = batches(&mut Numbers(7), 1_700_000_000, 1).remove(0);
    let tenant = Tenant::new("other").unwrap();
    batch.tenant = tenant.clone();
    let verdict = send(&node, batch.clone()).unwrap();
    assert_eq!(verdict.accepted, batch.samples.len() as u64);
    let texts = |tenant: &Tenant| {
        let all = node.of(tenant).select(&everything()).unwrap();
        all.iter().map(|one| one.texts.times.len() + one.floats.times.len()).sum::<usize>()
    };
    assert!(texts(&tenant) > 0);
    assert_eq!(texts(&Tenant::default()), 0);
    assert!(!node.is_driven(), "a group waits a minute");
    assert_eq!(send(&node, batch.clone()).unwrap().duplicate, batch.samples.len() as u64);
    let before = sorted(node.of(&tenant).select(&everything()).unwrap());
    // A clean end drives what is pending; another node has never heard of it.
    node.finish();
    let other = tempfile::tempdir().unwrap();
    let next = crate::support::node(&address, other.path());
    assert_eq!(sorted(next.of(&tenant).select(&everything()).unwrap()), before);
}
