//! A ring on loopback sees what goes over it, once. Without CAP_NET_RAW it says how to get it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use ogive_capture::{Error, Filter, Ring};

#[test]
fn a_connection_over_loopback_is_seen_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let filter = Filter::from_ports(&[port]).unwrap();
    let mut ring = match Ring::open("lo", Some(&filter), None) {
        Ok(ring) => ring,
        Err(error @ Error::Permission) => {
            assert!(error.to_string().contains("CAP_NET_RAW"));
            eprintln!("skipped: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.write_all(b"a question that is seen").unwrap();
    let mut got = [0; 23];
    server.read_exact(&mut got).unwrap();
    drop((client, server));
    let mut seen = 0;
    // The block is handed over once its time is up; packets to the port are all that passes.
    while seen == 0 {
        ring.wait(100).unwrap();
        while ring
            .read_block(|frame| {
                assert!(filter.passes(frame.bytes));
                seen += usize::from(frame.bytes.windows(23).any(|window| window == b"a question that is seen"));
            })
            .is_some()
        {}
    }
    assert_eq!(seen, 1, "loopback's second sight is passed over");
    assert_eq!(ring.counts().drops, 0);
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    assert!(matches!(Ring::open("nowhere0", None, None), Err(Error::Interface(name)) if name == "nowhere0"));
}
