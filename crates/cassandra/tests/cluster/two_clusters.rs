//! Two clusters that know nothing of each other, each with everything: either is lost and comes back.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ogive_cassandra::{Address, Error, Node, Options};
use ogive_probe::Clock;

use crate::faults::{batch, during, expected, read};
use crate::process::{Server, exchange, load, ogive, sum};
use crate::support::{Pair, driven, eventually, fact, node, node_over, send, statement};

/// What is there once every cluster answers, or every one but the named one.
fn whole(node: &Node, silent: Option<&str>) -> crate::faults::Work {
    eventually("the clusters that are there answer", || {
        let (found, warnings) = read(node).ok()?;
        let is_as_told = match silent {
            None => warnings.is_empty(),
            Some(name) => warnings.len() == 1 && warnings[0].contains(name) && warnings[0].contains("did not answer"),
        };
        is_as_told.then_some(found)
    })
}

/// The first is lost under load, for longer than its batches fit into memory: batches are acknowledged and seen, and
/// the second has them. Back, it gets what it lacks from the spool; then the second is lost, and the first alone
/// answers with everything, once.
#[test]
fn either_of_two_clusters_is_lost_and_comes_back() {
    let pair = Pair::up();
    let stores = pair.stores(["&pending=100KiB", ""]);
    let addresses = stores.map(|store| Address::parse(&store).unwrap());
    let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let node = node_over(&addresses, directories[0].path());
    for sequence in 1..=20 {
        send(&node, batch(sequence)).unwrap();
    }
    driven(&node);
    let mut sent: Vec<u64> = (1..=20).collect();
    assert_eq!(whole(&node, None), expected(&sent));
    sent.extend(during(&node, 21, || {
        std::thread::sleep(Duration::from_millis(300));
        pair.run(0, &["kill", "1"]);
        // Queries come beside batches.
        let from = Instant::now();
        let mut longest = Duration::ZERO;
        while from.elapsed() < Duration::from_secs(4) {
            let begun = Instant::now();
            read(&node).expect("one cluster is left");
            longest = longest.max(begun.elapsed());
        }
        println!("one cluster lost: the longest query took {longest:?}");
        whole(&node, Some("127.0.0.1:9542"));
    }));
    assert_eq!(whole(&node, Some("127.0.0.1:9542")), expected(&sent), "the first is dead");
    assert!(!node.is_driven() && fact(&node, "cassandra_clusters_away") == 1);
    // One that has nothing of its own reads the second.
    let fresh = node_over(&addresses, directories[1].path());
    eventually("the second has everything", || {
        (whole(&fresh, Some("127.0.0.1:9542")) == expected(&sent)).then_some(())
    });
    pair.run(0, &["start", "1"]);
    driven(&node);
    assert_eq!(whole(&node, None), expected(&sent));
    pair.run(1, &["kill", "1"]);
    let other = node_over(&addresses, directories[2].path());
    assert_eq!(whole(&other, Some("127.0.0.1:9642")), expected(&sent), "the second is dead");
    pair.run(1, &["start", "1"]);
    assert_eq!(whole(&other, None), expected(&sent));
    println!("each cluster lost once: {} batches acknowledged, 0 lost, 0 doubled", sent.len());
}

/// `ogive serve --store 'A B'`, killed while one of the two is down: it starts again, and each sample counts once.
#[test]
fn a_process_over_two_clusters_is_killed_while_one_is_down() {
    let pair = Pair::up();
    let store = pair.stores(["", ""]).join(" ");
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&store, directory.path());
    let status = |address: &str, figure: &str| {
        let (_, body) = exchange(address, "GET /v1/status", "").unwrap();
        let rest = body.split(&format!("\"{figure}\":")).nth(1).unwrap_or_else(|| panic!("no {figure} in {body}"));
        rest.split([',', '}']).next().unwrap().trim().parse::<f64>().unwrap()
    };
    assert_eq!(status(&server.address, "cassandra_clusters"), 2.0);
    let (address, end) = (Mutex::new(server.address.clone()), AtomicBool::new(false));
    let (server, sent) = std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(&address, 1, &end));
        pair.run(1, &["kill", "1"]);
        drop(server);
        let again = Server::start(&store, directory.path());
        address.lock().unwrap().clone_from(&again.address);
        std::thread::sleep(Duration::from_secs(2));
        // ORDERING: Relaxed; see `load`.
        end.store(true, Ordering::Relaxed);
        (again, loading.join().unwrap())
    });
    eventually("the one that is left answers with everything", || {
        (sum(&server.address, 1)? == sent.to_string()).then_some(())
    });
    pair.run(1, &["start", "1"]);
    eventually("both have everything", || (status(&server.address, "spool_records") == 0.0).then_some(()));
    pair.run(0, &["kill", "1"]);
    eventually("the other one answers alone with everything", || {
        (sum(&server.address, 1)? == sent.to_string()).then_some(())
    });
    println!("killed with one cluster down: {sent} batches acknowledged, 0 lost, 0 doubled");
}

/// One of the two has lost its rows, whoever did it: the audit brings them back from the other, as they were.
#[test]
fn rows_that_one_cluster_lost_come_back_from_the_other() {
    let pair = Pair::up();
    let stores = pair.stores(["&audit=0s", "&audit=0s"]);
    let addresses = [0, 1].map(|which: usize| Address::parse(&stores[which]).unwrap());
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let over = node_over(&addresses, directories[0].path());
    let sent: Vec<u64> = (1..=60).collect();
    for sequence in &sent {
        send(&over, batch(*sequence)).unwrap();
    }
    driven(&over);
    statement(&addresses[0], &format!("TRUNCATE {}.cells", addresses[0].keyspace));
    let alone = node(&addresses[0], directories[1].path());
    assert!(whole(&alone, None).values().all(Vec::is_empty), "nothing is left in the first");
    let audit =
        |store: &str, more: &[&str]| ogive(&[&["cluster", "audit", "--store", store, "--since", "10m"], more].concat());
    let (code, printed) = audit(&stores[0], &["--refill"]);
    assert!(code == 1 && !printed.contains(" 0 rows lost"), "alone it cannot: {printed}");
    let (_, printed) = audit(&stores.join(" "), &["--refill"]);
    println!("{printed}");
    let (code, printed) = audit(&stores.join(" "), &[]);
    assert!(code == 0 && printed.matches(" 0 rows lost").count() == 2, "{code}: {printed}");
    assert_eq!(whole(&alone, None), expected(&sent));
}

/// Twice the same is no second copy.
#[test]
fn one_cluster_is_not_given_twice() {
    let directory = tempfile::tempdir().unwrap();
    let open = |stores: &[&str]| {
        let addresses = stores.iter().map(|store| Address::parse(store).unwrap()).collect();
        Node::open(Options { addresses, directory: directory.path().to_owned(), clock: Clock::global() }).err().unwrap()
    };
    let a = "cassandra://10.0.0.1,10.0.0.2/k";
    for (stores, part) in
        [(&[a, "cassandra://10.0.0.2/k"][..], "twice"), (&[][..], "0 clusters"), (&[a; 3][..], "3 clusters")]
    {
        let error = open(stores);
        assert!(matches!(error, Error::Address(_)) && error.to_string().contains(part), "{error}");
    }
}
