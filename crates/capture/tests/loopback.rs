//! A ring on loopback sees what goes over it, once. Without CAP_NET_RAW it says how to get it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use ogive_capture::{Error, Filter, Ring, Shape};

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

/// A block is used up when its time is over, with a single packet in it: a ring of 64 blocks was full after 1.3 s of a
/// paused reader, whatever its 64 MiB still had room for.
#[test]
fn a_few_packets_do_not_fill_the_ring_of_a_paused_reader() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let filter = Filter::from_ports(&[receiver.local_addr().unwrap().port()]).unwrap();
    let open = |shape| match Ring::with_shape("lo", Some(&filter), None, shape) {
        Ok(ring) => Some(ring),
        Err(Error::Permission) => None,
        Err(error) => panic!("{error}"),
    };
    let Some(mut ring) = open(Shape::default()) else {
        eprintln!("skipped: no right to capture");
        return;
    };
    let mut small = open(Shape { block_bytes: 1 << 20, blocks: 8, retire_ms: 20 }).expect("as the other one");
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..100 {
        sender.send_to(b"few", receiver.local_addr().unwrap()).unwrap();
        // Longer than a block is filled: each packet gets one of its own.
        std::thread::sleep(Duration::from_millis(30));
    }
    let mut seen = 0;
    while seen < 100 {
        assert!(ring.wait(10_000).unwrap(), "{seen} of 100, {:?}", ring.counts());
        seen += ring.read_block(|_| {}).unwrap_or(0);
    }
    assert_eq!((seen, ring.counts().drops), (100, 0));
    assert!(small.counts().drops > 0, "eight blocks are used up by a few packets: {:?}", small.counts());
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    assert!(matches!(Ring::open("nowhere0", None, None), Err(Error::Interface(name)) if name == "nowhere0"));
}
