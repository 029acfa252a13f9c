//! Two brokers bring the same batches, each by its own path to a node of its own, repeated and out of order: they count
//! once.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::cells::Numbers;
use crate::process::{Server, ogive, send, sum};
use crate::support::{Three, eventually};

const BATCHES: u64 = 600;
/// How far a batch may be from its place.
const DISORDER: usize = 40;

fn configuration(directory: &Path, name: &str, node: &Server) -> PathBuf {
    let path = directory.join(format!("{name}.toml"));
    let spool = directory.join(format!("{name}-spool"));
    let text = format!(
        "name = \"{name}\"\nlisten = [\"127.0.0.1:0\"]\n[spool]\ndirectory = {spool:?}\n\
         [[destination]]\nname = \"cluster\"\nendpoints = [\"http://{}\"]\n",
        node.address
    );
    std::fs::write(&path, text).unwrap();
    path
}

/// Each number at least once, every fifth twice, out of order.
fn order(numbers: &mut Numbers) -> Vec<u64> {
    let mut all: Vec<u64> =
        (1..=BATCHES).flat_map(|one| [one].repeat(if numbers.below(5) == 0 { 2 } else { 1 })).collect();
    for at in 0..all.len() {
        let other = (at + numbers.below(DISORDER as u64) as usize).min(all.len() - 1);
        all.swap(at, other);
    }
    all
}

#[test]
fn what_two_brokers_bring_counts_once() {
    let three = Three::up();
    let keyspace = three.keyspace().keyspace;
    let store = format!("cassandra://127.0.0.1,127.0.0.2,127.0.0.3/{keyspace}?collect=50ms");
    let directory = tempfile::tempdir().unwrap();
    let nodes = ["a", "b"].map(|name| Server::start(&store, &directory.path().join(name)));
    let files = [0, 1].map(|at: usize| configuration(directory.path(), ["east", "west"][at], &nodes[at]));
    let start = |file: &PathBuf| Server::run(&["broker", "-c", file.to_str().unwrap(), "--no-crash-reports"]);
    let brokers = files.each_ref().map(start);
    let addresses = brokers.each_ref().map(|one| Mutex::new(one.address.clone()));
    let mut numbers = Numbers::seeded();
    let orders = [order(&mut numbers), order(&mut numbers)];
    let [first, second] = brokers;
    let again = std::thread::scope(|scope| {
        let loads = [0, 1].map(|at: usize| {
            let (order, address) = (&orders[at], &addresses[at]);
            scope.spawn(move || {
                for sequence in order {
                    eventually("a batch is acknowledged", || {
                        let address = address.lock().unwrap().clone();
                        send(&address, 1, *sequence).then_some(())
                    });
                }
            })
        });
        // SIGKILL, in the middle of a request, and a start on the same spool.
        std::thread::sleep(std::time::Duration::from_millis(500 + numbers.below(1_000)));
        drop(first);
        let again = start(&files[0]);
        addresses[0].lock().unwrap().clone_from(&again.address);
        loads.into_iter().for_each(|load| load.join().unwrap());
        again
    });
    for node in &nodes {
        eventually("each node answers with every batch, once", || {
            let found = sum(&node.address, 1)?.parse::<f64>().unwrap();
            assert!(found <= BATCHES as f64, "doubled: {found}");
            (found == BATCHES as f64).then_some(())
        });
    }
    drop((again, second));
    let report = eventually("every copy has every row", || {
        let (code, printed) = ogive(&["cluster", "audit", "--store", &store, "--since", "10m"]);
        assert!(printed.contains("0 rows lost"), "{printed}");
        (code == 0).then_some(printed)
    });
    println!("{report}");
    println!(
        "{BATCHES} batches over two brokers, {} and {} sent, one killed: 0 lost, 0 doubled",
        orders[0].len(),
        orders[1].len()
    );
}
