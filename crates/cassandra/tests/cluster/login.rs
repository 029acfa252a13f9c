//! A cluster that wants a login.

use ogive_cassandra::{Address, Cluster, Error};

use crate::faults::{batch, expected, read};
use crate::support::{WithLogin, driven, eventually, node, runtime, send};

fn store(login: &str) -> Address {
    let host = WithLogin::HOST;
    Address::parse(&format!("cassandra://{host}/metrics?replicas=1&collect=50ms{login}")).unwrap()
}

/// Without a login and with a wrong one nothing is reached, and the sentence says so without the password; with the
/// right one batches come back.
#[test]
fn a_login_is_given_where_cassandra_wants_one() {
    let _node = WithLogin::up();
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, password: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, format!("{password}\n")).unwrap();
        store(&format!("&user=cassandra&password-file={}", path.display()))
    };
    let (good, wrong) = (file("good", "cassandra"), file("wrong", "hunter2"));
    // The role is made some moments after the node takes connections.
    eventually("the role is there", || runtime().block_on(Cluster::init(&good)).ok());
    for address in [&store(""), &wrong] {
        let refused = runtime().block_on(Cluster::check(address)).expect_err("nobody may come in");
        let sentence = refused.to_string();
        println!("{sentence}");
        assert!(matches!(refused, Error::Unavailable(_)), "{sentence}");
        assert!(sentence.to_lowercase().contains("authentication") && !sentence.contains("hunter2"), "{sentence}");
    }
    let missing = store("&user=cassandra&password-file=/nowhere/password");
    assert!(matches!(runtime().block_on(Cluster::check(&missing)), Err(Error::Local(_))));
    assert_eq!(runtime().block_on(Cluster::check(&good)).unwrap(), (1, 1));
    let node = node(&good, &directory.path().join("node"));
    for sequence in 1..=10 {
        send(&node, batch(sequence)).unwrap();
    }
    driven(&node);
    assert_eq!(read(&node).unwrap().0, expected(&(1..=10).collect::<Vec<_>>()));
}
