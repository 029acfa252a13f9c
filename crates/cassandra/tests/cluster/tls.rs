//! A cluster that takes TLS alone, from clients with a certificate.

use std::net::IpAddr;
use std::path::Path;

use ogive_cassandra::{Address, Cluster, Error};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};

use crate::faults::{batch, expected, read};
use crate::support::{WithLogin, driven, eventually, node, runtime, send};

/// Who vouches for one side.
fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// The certificate of an address and its key, as PEM.
fn certify(by: &CertifiedIssuer<'static, KeyPair>, address: &str) -> (String, String) {
    let mut params = CertificateParams::new([]).unwrap();
    params.subject_alt_names.push(SanType::IpAddress(address.parse::<IpAddr>().unwrap()));
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, by).unwrap().pem(), key.serialize_pem())
}

fn write(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Nothing is reached without TLS, without a certificate, or where others vouch for the node; with the right files
/// batches come back.
#[test]
fn a_node_is_believed_by_its_certificate_and_believes_ours() {
    let files = tempfile::tempdir().unwrap();
    let at = |name: &str, text: &str| write(files.path(), name, text);
    let (nodes, clients, others) = (authority(), authority(), authority());
    let ((node_pem, node_key), (client_pem, client_key)) =
        (certify(&nodes, "127.0.0.1"), certify(&clients, "127.0.0.2"));
    at("node.pem", &format!("{node_key}{node_pem}"));
    at("ca.pem", &clients.pem());
    let (believed, wrong) = (at("nodes.pem", &nodes.pem()), at("others.pem", &others.pem()));
    let own = format!("&cert-file={}&key-file={}", at("own.pem", &client_pem), at("own.key", &client_key));
    let _node = WithLogin::up_with_tls(files.path());
    let password = at("password", "cassandra\n");
    let store = |tls: &str| {
        let login = format!("user=cassandra&password-file={password}");
        Address::parse(&format!("cassandra://{}/metrics?replicas=1&collect=50ms&{login}{tls}", WithLogin::HOST))
            .unwrap()
    };
    let good = store(&format!("&ca-file={believed}{own}"));
    eventually("the role is there", || runtime().block_on(Cluster::init(&good)).ok());
    for bad in
        ["".to_owned(), format!("&ca-file={believed}"), format!("&ca-file={wrong}{own}"), format!("&tls=on{own}")]
    {
        let refused = runtime().block_on(Cluster::check(&store(&bad))).expect_err("nobody may come in");
        println!("{bad}: {refused}");
        assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
    }
    eventually("the node answers", || {
        runtime().block_on(Cluster::check(&good)).ok().filter(|answering| *answering == (1, 1))
    });
    let directory = tempfile::tempdir().unwrap();
    let node = node(&good, directory.path());
    for sequence in 1..=10 {
        send(&node, batch(sequence)).unwrap();
    }
    driven(&node);
    let found = eventually("a read is answered", || read(&node).ok().filter(|(_, warnings)| warnings.is_empty()));
    assert_eq!(found.0, expected(&(1..=10).collect::<Vec<_>>()));
}
