//! A short conversation in each protocol: what mutations begin with.

use ogive_wire::Side;

const C: Side = Side::Client;
const S: Side = Side::Server;

type Pieces = &'static [(Side, &'static [u8])];

/// The pieces of a conversation in the protocol of this name, in order.
pub(crate) fn conversation(name: &str) -> Vec<(Side, Vec<u8>)> {
    let pieces = web(name).or_else(|| stored(name)).unwrap_or_else(|| panic!("write a conversation in {name}"));
    pieces.iter().map(|(side, bytes)| (*side, bytes.to_vec())).collect()
}

fn web(name: &str) -> Option<Pieces> {
    Some(match name {
        "http1" => &[
            (C, b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /b HTTP/1.1\r\n\r\n"),
            (S, b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 304 No\r\n\r\n"),
        ],
        "redis" => {
            &[(C, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n"), (S, b"$2\r\nhi\r\n+PONG\r\n>2\r\n+push\r\n:1\r\n")]
        }
        "dns" => &[
            (C, b"\0\x1d\0\x07\x01\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01"),
            (S, b"\0\x1d\0\x07\x81\x80\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01"),
        ],
        "http2" => &[
            (C, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x08\x01\x04\0\0\0\x01\x83\x86\x44\x04/a/b"),
            (C, b"\0\0\x07\0\x01\0\0\0\x01\0\0\0\0\x02hi"),
            (S, b"\0\0\0\x04\0\0\0\0\0\0\0\x13\x01\x04\0\0\0\x01\x88\x5f\x10application/grpc"),
            (S, b"\0\0\x01\0\0\0\0\0\x01x\0\0\x0f\x01\x05\0\0\0\x01\x40\x0bgrpc-status\x010"),
        ],
        _ => return None,
    })
}

fn stored(name: &str) -> Option<Pieces> {
    Some(match name {
        "pgsql" => &[
            (C, b"\0\0\0\x08\x04\xd2\x16\x2f"),
            (S, b"N"),
            (C, b"\0\0\0\x12\0\x03\0\0user\0me\0\0\0"),
            (S, b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"),
            (C, b"Q\0\0\0\x0dSELECT 1\0P\0\0\0\x11s\0SELECT 2\0\0\0B\0\0\0\x0d\0s\0\0\0\0\0\0\0S\0\0\0\x04"),
            (S, b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05IE\0\0\0\x1dSERROR\0VERROR\0C42P01\0Mx\0\0Z\0\0\0\x05I"),
        ],
        "mysql" => &[
            (S, b"\x27\0\0\0\x0a8.0.36\0\x01\0\0\0abcdefgh\0\xff\xff\x2d\x02\0\xff\x01\x15\0\0\0\0\0\0\0\0\0\0"),
            (C, b"\x24\0\0\x01\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0me\0\0"),
            (S, b"\x07\0\0\x02\0\0\0\x02\0\0\0"),
            (C, b"\x09\0\0\0\x03SELECT 1"),
            (S, b"\x01\0\0\x01\x01\x04\0\0\x02\x03def\x05\0\0\x03\xfe\0\0\x02\0\x02\0\0\x04\x011\x05\0\0\x05\xfe\0\0\x02\0"),
        ],
        "mongodb" => &[
            (C, b"\x28\0\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0\x13\0\0\0\x02find\0\x04\0\0\0abc\0\0"),
            (S, b"\x26\0\0\0\x09\0\0\0\x01\0\0\0\xdd\x07\0\0\0\0\0\0\0\x11\0\0\0\x01ok\0\0\0\0\0\0\0\xf0\x3f\0"),
        ],
        "nats" => &[
            (S, b"INFO {}\r\n"),
            (C, b"CONNECT {\"verbose\":true}\r\nPING\r\nPUB a _INBOX.1 2\r\nhi\r\n"),
            (S, b"+OK\r\nPONG\r\n+OK\r\nHMSG _INBOX.1 1 14 14\r\nNATS/1.0 503\r\n\r\nMSG s 1 r 0\r\n\r\n"),
            (C, b"PUB r 0\r\n\r\n"),
        ],
        "memcached" => &[
            (C, b"set a 0 0 2\r\nhi\r\nget a b\r\nmg a v q O1\r\nmn\r\nstats\r\n"),
            (S, b"STORED\r\nVALUE a 0 2\r\nhi\r\nEND\r\nVA 2 O1\r\nhi\r\nMN\r\nSTAT a 1\r\nEND\r\n"),
        ],
        "kafka" => &[
            (C, b"\0\0\0\x0e\0\x03\0\x01\0\0\0\x01\0\x02me\0\0\0\x20\0\0\0\x03\0\0\0\x02\0\x02me\xff\xff\0\0\0\0\0\0\0\0\0\x01\0\x02t1\0\0"),
            (S, b"\0\0\0\x06\0\0\0\x01\0\0"),
        ],
        "cql" => &[
            (C, b"\x04\0\0\x01\x07\0\0\0\x0f\0\0\0\x08SELECT 1\0\x01\0"),
            (S, b"\x84\0\0\x01\x08\0\0\0\x04\0\0\0\x01"),
            (C, b"\x05\0\0\0\x01\0\0\0\x16\0\x01\0\x0bCQL_VERSION\0\x053.0.0"),
            (S, b"\x85\0\0\0\x02\0\0\0\0"),
        ],
        "amqp" => &[
            (C, b"AMQP\0\0\x09\x01"),
            (S, b"\x01\0\0\0\0\0\x05\0\x0a\0\x0a\0\xce"),
            (C, b"\x01\0\0\0\0\0\x05\0\x0a\0\x0b\0\xce\x01\0\x01\0\0\0\x05\0\x14\0\x0a\0\xce"),
            (S, b"\x01\0\x01\0\0\0\x04\0\x14\0\x0b\xce"),
            (C, b"\x01\0\x01\0\0\0\x05\0\x55\0\x0a\0\xce\x01\0\x01\0\0\0\x09\0\x3c\0\x28\0\0\0\0\0\xce"),
            (C, b"\x02\0\x01\0\0\0\x0e\0\x3c\0\0\0\0\0\0\0\0\0\x02\0\0\xce\x03\0\x01\0\0\0\x02hi\xce"),
            (S, b"\x01\0\x01\0\0\0\x04\0\x55\0\x0b\xce\x01\0\x01\0\0\0\x0d\0\x3c\0\x50\0\0\0\0\0\0\0\x01\x01\xce"),
        ],
        _ => return None,
    })
}
