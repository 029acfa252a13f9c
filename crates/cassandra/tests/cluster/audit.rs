//! A copy loses what it had: the audit finds it, and writes it again, without `nodetool repair`.

use ogive_cassandra::{Audit, Cluster, Findings, Node};

use crate::faults::{batch, expected, read};
use crate::support::{Three, driven, eventually, fact, node, runtime, send};

const BATCHES: u64 = 120;

fn audit(cluster: &Cluster, refill: bool) -> Findings {
    let now = (ogive_probe::Clock::global().wall() / 60_000_000_000) as i32;
    let audit = Audit::new(cluster, None, None, refill);
    runtime().block_on(audit.minutes(now - 10..=now)).expect("a majority answers")
}

/// Removes what node 2 holds of the cells.
fn empty_node_2(three: &Three, keyspace: &str) {
    three.erase(2, keyspace, "cells-");
    three.run(&["start", "2"]);
}

fn filled(three: &Three) -> (ogive_cassandra::Address, tempfile::TempDir, Node) {
    let address = ogive_cassandra::Address { audit: std::time::Duration::ZERO, ..three.keyspace() };
    let directory = tempfile::tempdir().unwrap();
    let node = node(&address, directory.path());
    for sequence in 1..=BATCHES {
        send(&node, batch(sequence)).unwrap();
    }
    driven(&node);
    (address, directory, node)
}

#[test]
fn what_a_copy_lost_is_counted_and_written_again() {
    let three = Three::up();
    let (address, _directory, node) = filled(&three);
    let cluster = runtime().block_on(Cluster::connect(&address)).unwrap();
    let whole = eventually("the copies that a majority did not wait for are there", || {
        let found = audit(&cluster, false);
        assert_eq!(found.lost, 0);
        found.is_whole().then_some(found)
    });
    assert_eq!((whole.rows, whole.copies), (fact(&node, "cassandra_rows_total"), 3 * whole.rows));
    empty_node_2(&three, &address.keyspace);
    let emptied = eventually("all three answer", || {
        let found = audit(&cluster, false);
        (found.copies_unknown == 0).then_some(found)
    });
    assert_eq!((emptied.copies, emptied.copies_missing, emptied.lost), (2 * whole.rows, whole.rows, 0));
    let refilled = audit(&cluster, true);
    assert_eq!((refilled.refilled, refilled.lost), (whole.rows, 0));
    // A copy that is busy is no answer: that it has every row is known once all three answered.
    eventually("every copy has every row, though nobody repaired", || (audit(&cluster, false) == whole).then_some(()));
    assert_eq!(read(&node).unwrap().0, expected(&(1..=BATCHES).collect::<Vec<_>>()));
    println!("{} rows: a node lost them all, the audit wrote all again", whole.rows);
}

/// Rows that nobody holds any more are a number, not a silence.
#[test]
fn rows_that_no_copy_holds_are_counted_as_lost() {
    let three = Three::up();
    let (address, _directory, _node) = filled(&three);
    crate::support::statement(&address, &format!("TRUNCATE {}.cells", address.keyspace));
    let cluster = runtime().block_on(Cluster::connect(&address)).unwrap();
    let found = audit(&cluster, true);
    assert!(found.rows > 0);
    assert_eq!((found.lost, found.refilled, found.copies), (found.rows, 0, 0));
}

/// The node's own task finds what a copy lost while nobody looked, and its figures come back to 0.
#[test]
fn a_node_audits_what_it_wrote() {
    let three = Three::up();
    let (address, directory, node) = filled(&three);
    let rows = fact(&node, "cassandra_rows_total");
    drop(node);
    empty_node_2(&three, &address.keyspace);
    let watched = ogive_cassandra::Address { audit: std::time::Duration::from_secs(1), ..address };
    // A start audits what was written before it, too.
    let node = crate::support::node(&watched, directory.path());
    eventually("what the copy lost is written again", || {
        (fact(&node, "cassandra_audit_refilled_total") >= rows).then_some(())
    });
    eventually("every copy is known to have every row", || {
        let is_whole =
            fact(&node, "cassandra_audit_copies_missing") + fact(&node, "cassandra_audit_copies_unknown") == 0;
        (is_whole && fact(&node, "cassandra_audit_rows_total") >= rows).then_some(())
    });
    assert_eq!(fact(&node, "cassandra_audit_rows_lost"), 0);
}
