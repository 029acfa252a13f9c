//! WebSocket: the servers of `websockets` without and with TLS, and those that hang, lie about lengths and break off.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::{directory, gauge, has, latencies, measured, ports, said, says, serve, table, texts};
use crate::common::authority::Authority;
use crate::common::clients::Client;

#[test]
fn messages_pings_and_closes_are_exchanged() {
    let directory = directory();
    let authority = Authority::new();
    std::fs::write(directory.path().join("ca.pem"), authority.0.pem()).unwrap();
    authority.certify_until(directory.path(), "socket", 2090);
    let secret = directory.path().join("token");
    std::fs::write(&secret, "open sesame\n").unwrap();
    let mut sockets = Client::start("sockets.py", &[directory.path().to_str().unwrap()]);
    let ports = ports(&mut sockets, 2);
    let plain = |path: &str, keys: &str| format!("target = 'ws://localhost:{}/{path}'\n{keys}", ports["plain"]);
    let tls = |keys: &str| format!("target = 'wss://localhost:{}/echo'\n{keys}", ports["tls"]);
    let ca = format!("ca_file = '{}'\n", directory.path().join("ca.pem").display());
    let token = format!("token_file = '{}'\n", secret.display());
    let header = "headers = {authorization = 'Bearer open sesame'}\n";
    let checks = [
        table("alone", "websocket", &plain("echo", "")),
        table("echo", "websocket", &plain("echo", "send = 'hello'\nexpect = ['he', 'lo']\nexpect_regex = '^h.l+o$'")),
        table("any", "websocket", &plain("echo", "send = 'hello'")),
        table("welcome", "websocket", &plain("welcome", "send = 'hello'\nexpect = 'hello'")),
        table("feed", "websocket", &plain("feed", "expect_regex = 'price [34]'")),
        table("tls", "websocket", &tls(&format!("{ca}send = 'hello'\nexpect = 'hello'"))),
        table("anyone", "websocket", &tls("insecure = true")),
        table("stranger", "websocket", &tls("")),
        table("token", "websocket", &plain("secret", &format!("{token}send = 'hunter2'\nexpect = 'hunter'"))),
        table("header", "websocket", &plain("secret", header)),
        table("no-token", "websocket", &plain("secret", "")),
    ];
    let server = serve(directory.path(), &checks.concat());
    for check in ["alone", "echo", "any", "welcome", "feed", "tls", "anyone", "token", "header"] {
        has(&server, check, "ok");
        for phase in ["resolve", "connect", "handshake", "ping", "close", "total"] {
            measured(&server, check, phase, 1.0);
        }
        gauge(&server, "ogive_check_websocket_closed", check, |closed| closed == 1.0);
    }
    for check in ["echo", "any", "welcome", "feed", "tls", "token"] {
        measured(&server, check, "reply", 1.0);
    }
    for (check, phase) in [("alone", "reply"), ("anyone", "reply"), ("echo", "tls")] {
        assert_eq!(server.number(&latencies(check, phase)), None, "{check} has the phase {phase}");
    }
    measured(&server, "tls", "tls", 1.0);
    gauge(&server, "ogive_check_certificate_valid", "tls", |valid| valid == 1.0);
    has(&server, "stranger", "tls");
    has(&server, "no-token", "status");
    says(&server, "ogive_check_wrong_answer", "no-token", "the answer to the handshake has status 401 Unauthorized");
    let shown: Vec<String> = ["token", "header", "no-token"]
        .iter()
        .map(|check| said(&server, check) + &texts(&server, "ogive_check_up", check))
        .collect();
    assert!(!shown.concat().contains("sesame") && !shown.concat().contains("hunter"), "{shown:?}");
}

#[test]
fn what_does_not_speak_as_it_should_is_told_with_its_reason() {
    let directory = directory();
    let authority = Authority::new();
    authority.certify_until(directory.path(), "socket", 2090);
    let mut sockets = Client::start("sockets.py", &[directory.path().to_str().unwrap()]);
    let ports = ports(&mut sockets, 2);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let strange = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = |listener: &TcpListener| format!("target = 'ws://{}/'", listener.local_addr().unwrap());
    let hello = |path: &str| format!("target = 'ws://127.0.0.1:{}/{path}'\nsend = 'hello'\n", ports["plain"]);
    let checks = [
        table("refused", "websocket", "target = 'ws://127.0.0.1:1/'"),
        table("silent", "websocket", &url(&silent)),
        table("gone", "websocket", &url(&gone)),
        table("strange", "websocket", &url(&strange)),
        table("nowhere", "websocket", &hello("nowhere")),
        table("forged", "websocket", &hello("forged")),
        table("content", "websocket", &(hello("echo") + "expect = 'bye'")),
        table("quiet", "websocket", &hello("quiet")),
        table("dismissive", "websocket", &(hello("dismissive") + "expect = 'hello'")),
        table("rude", "websocket", &hello("rude")),
        table("large", "websocket", &hello("large")),
        table("boastful", "websocket", &hello("boastful")),
        table("short", "websocket", &hello("short")),
        table("late", "websocket", &hello("late")),
    ];
    std::thread::spawn(move || gone.incoming().flatten().for_each(drop));
    std::thread::spawn(move || {
        for mut stream in strange.incoming().flatten() {
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(b"what do you want?\r\n");
        }
    });
    let server = serve(directory.path(), &checks.concat());
    for (check, result, words) in [
        ("refused", "refused", "refused: "),
        ("silent", "timeout", "in the phase handshake"),
        ("gone", "closed", "closed: "),
        ("quiet", "timeout", "no message came within"),
        ("late", "timeout", "no message came within"),
        ("rude", "closed", "without a closing handshake"),
        ("short", "closed", "closed: "),
        ("large", "limit", "a message of more than 1048576 bytes"),
        ("boastful", "limit", "a message of more than 1048576 bytes"),
    ] {
        has(&server, check, result);
        says(&server, "ogive_check_no_answer", check, words);
        assert_eq!(server.number(&latencies(check, "total")), None, "{check} has a latency");
    }
    for (check, result, words) in [
        ("strange", "protocol", "protocol: "),
        ("nowhere", "status", "the answer to the handshake has status 404 Not Found"),
        ("forged", "protocol", "no Sec-WebSocket-Accept that belongs to the key"),
        ("content", "content", "1 message came, and none was one to contain \\\"bye\\\""),
        ("dismissive", "status", "closed the connection with the code 1008: \\\"not today\\\""),
    ] {
        has(&server, check, result);
        says(&server, "ogive_check_wrong_answer", check, words);
        measured(&server, check, "total", 1.0);
    }
    measured(&server, "quiet", "handshake", 1.0);
    drop(silent);
}
