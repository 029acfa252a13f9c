//! gRPC: the health service of grpcio over HTTP/2 without and with TLS, and servers that hang, lie and break off.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use super::{directory, gauge, has, latencies, measured, ports, said, says, serve, table, texts};
use crate::common::authority::Authority;
use crate::common::clients::Client;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A status of 200, by its index in HPACK's table.
fn head() -> Vec<u8> {
    frame(HEADERS, END_HEADERS, 1, b"\x88")
}

/// The status 0 of gRPC, in trailers.
fn trailers() -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x00\x0bgrpc-status\x010")
}

/// A server of HTTP/2 that says `answer` to each call, whatever it is, and ends.
fn says_to_each_call(answer: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer_to(stream, &answer);
        }
    });
    port
}

fn answer_to(mut stream: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    stream.write_all(&frame(SETTINGS, 0, 0, &[]))?;
    stream.read_exact(&mut [0; "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len()])?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        stream.read_exact(&mut vec![0; length])?;
        let (flags, id) = (head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]));
        if id == 1 && flags & END_STREAM != 0 {
            break;
        }
    }
    stream.write_all(answer)?;
    stream.shutdown(Shutdown::Write)?;
    // Its end would be a reset, which may overtake the answer.
    stream.read_to_end(&mut Vec::new()).map(drop)
}

#[test]
fn health_is_asked_for_whole_servers_and_services() {
    let directory = directory();
    let authority = Authority::new();
    std::fs::write(directory.path().join("ca.pem"), authority.0.pem()).unwrap();
    authority.certify_until(directory.path(), "grpc", 2090);
    let secret = directory.path().join("token");
    std::fs::write(&secret, "open sesame\n").unwrap();
    let mut health = Client::start("health.py", &[directory.path().to_str().unwrap()]);
    let ports = ports(&mut health, 5);
    let at = |name: &str, keys: &str| format!("target = 'localhost:{}'\n{keys}", ports[name]);
    let ca = format!("tls = true\nca_file = '{}'\n", directory.path().join("ca.pem").display());
    let token = format!("token_file = '{}'", secret.display());
    let checks = [
        table("whole", "grpc", &at("whole", "")),
        table("cart", "grpc", &at("whole", "service = 'shop.Cart'")),
        table("mail", "grpc", &at("whole", "service = 'shop.Mail'")),
        table("nothing", "grpc", &at("whole", "service = 'shop.Nothing'")),
        table("tls", "grpc", &at("tls", &format!("{ca}service = 'shop.Cart'"))),
        table("stranger", "grpc", &at("tls", "tls = true")),
        table("other-name", "grpc", &at("tls", &format!("{ca}server_name = 'other.example'"))),
        table("anyone", "grpc", &at("tls", "tls = true\ninsecure = true")),
        table("token", "grpc", &at("closed", &token)),
        table("no-token", "grpc", &at("closed", "")),
        table("none", "grpc", &at("none", "")),
        table("slow", "grpc", &at("slow", "")),
    ];
    let server = serve(directory.path(), &checks.concat());
    for check in ["whole", "cart", "tls", "anyone", "token"] {
        has(&server, check, "ok");
        for phase in ["resolve", "connect", "request", "total"] {
            measured(&server, check, phase, 1.0);
        }
        gauge(&server, "ogive_check_grpc_serving", check, |state| state == 1.0);
        gauge(&server, "ogive_check_grpc_status", check, |status| status == 0.0);
    }
    measured(&server, "tls", "tls", 1.0);
    gauge(&server, "ogive_check_certificate_valid", "tls", |valid| valid == 1.0);
    gauge(&server, "ogive_check_certificate_valid", "anyone", |valid| valid == 0.0);
    assert_eq!(server.number(&latencies("whole", "tls")), None);
    for (check, result, words) in [
        ("mail", "status", "the service \\\"shop.Mail\\\" is NOT_SERVING"),
        ("nothing", "status", "the server does not know the service \\\"shop.Nothing\\\" (grpc-status 5, NOT_FOUND"),
        ("no-token", "login", "(grpc-status 16, UNAUTHENTICATED: \\\"who are you?\\\")"),
        ("none", "status", "the server has no health service (grpc-status 12, UNIMPLEMENTED"),
        ("stranger", "tls", "tls: "),
        ("other-name", "tls", "tls: "),
    ] {
        has(&server, check, result);
        says(&server, "ogive_check_wrong_answer", check, words);
    }
    gauge(&server, "ogive_check_grpc_serving", "mail", |state| state == 2.0);
    gauge(&server, "ogive_check_grpc_status", "nothing", |status| status == 5.0);
    has(&server, "slow", "timeout");
    measured(&server, "slow", "connect", 1.0);
    assert_eq!(server.number(&latencies("slow", "total")), None);
    let shown = said(&server, "token") + &said(&server, "no-token") + &texts(&server, "ogive_check_up", "token");
    assert!(!shown.contains("sesame"), "{shown}");
}

#[test]
fn what_is_no_health_service_is_told_with_its_reason() {
    let directory = directory();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let rude = TcpListener::bind("127.0.0.1:0").unwrap();
    let strange = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let message = |bytes: &[u8]| frame(DATA, 0, 1, bytes);
    let cut = [head(), message(b"\0\0\0\0\x64\x08\x01")[..12].to_vec()].concat();
    let answers = [
        ("good", [head(), message(b"\0\0\0\0\x02\x08\x01"), trailers()].concat()),
        ("lies", [head(), message(b"\0\0\0\0\x64\x08\x01"), trailers()].concat()),
        ("more", [head(), message(b"\0\0\0\0\x02\x08\x01\0"), trailers()].concat()),
        ("no-health", [head(), message(b"\0\0\0\0\x02\x08\x80"), trailers()].concat()),
        ("no-message", [head(), trailers()].concat()),
        ("no-status", [head(), frame(DATA, END_STREAM, 1, b"\0\0\0\0\x02\x08\x01")].concat()),
        ("large", [head(), message(&[0; 5_000]), trailers()].concat()),
        ("cut", cut),
        // `:status: 404`, by its index.
        ("http", frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x8d")),
    ];
    let mut checks = [
        table("refused", "grpc", "target = '127.0.0.1:1'"),
        table("timeout", "grpc", &format!("target = '127.0.0.1:{}'", port(&silent))),
        table("closed", "grpc", &format!("target = '127.0.0.1:{}'", port(&rude))),
        table("strange", "grpc", &format!("target = '127.0.0.1:{}'", port(&strange))),
    ]
    .concat();
    for (name, answer) in answers {
        checks += &table(name, "grpc", &format!("target = '127.0.0.1:{}'", says_to_each_call(answer)));
    }
    std::thread::spawn(move || rude.incoming().flatten().for_each(drop));
    std::thread::spawn(move || {
        for mut stream in strange.incoming().flatten() {
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let server = serve(directory.path(), &checks);
    has(&server, "good", "ok");
    for check in ["refused", "timeout", "closed"] {
        has(&server, check, check);
        says(&server, "ogive_check_no_answer", check, &format!("{check}: "));
    }
    says(&server, "ogive_check_no_answer", "timeout", "in the phase request");
    has(&server, "cut", "closed");
    has(&server, "large", "limit");
    says(&server, "ogive_check_no_answer", "large", "more than 4096 bytes");
    for (check, result, words) in [
        ("strange", "protocol", "protocol: "),
        ("lies", "protocol", "declares 100 bytes and has 2"),
        ("more", "protocol", "declares 2 bytes and has 3"),
        ("no-health", "protocol", "none of the health service"),
        ("no-message", "protocol", "no message"),
        ("no-status", "protocol", "no status of gRPC"),
        ("http", "status", "404 Not Found"),
    ] {
        has(&server, check, result);
        says(&server, "ogive_check_wrong_answer", check, words);
    }
    for check in ["refused", "timeout", "closed", "cut"] {
        assert_eq!(server.number(&latencies(check, "total")), None, "{check} has a latency");
    }
    drop(silent);
}
