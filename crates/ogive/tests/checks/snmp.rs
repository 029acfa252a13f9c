//! SNMP: Net-SNMP's agent over v2c and v3, and agents that are silent, lie about lengths and go in circles.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

use super::{directory, gauge, has, latencies, measured, said, says, serve, table, texts};
use crate::common::eventually;
use crate::common::programs::{Program, free_port};

const UP_TIME: &str = "{name = 'up_seconds', oid = '1.3.6.1.2.1.1.3.0'}";

/// `snmpd` with the community `open-sesame`, and users of every level of security.
fn snmpd(directory: &Path, port: u16) -> Program {
    let config = "rocommunity open-sesame default\n\
                  createUser open\nrouser open noauth\n\
                  createUser signed SHA \"open sesame\"\nrouser signed auth\n\
                  createUser sealed SHA-256 \"open sesame\" AES \"sesame, open\"\nrouser sealed priv\n\
                  createUser old MD5 \"open sesame\"\nrouser old auth\n\
                  sysLocation here\n";
    let file = directory.join("snmpd.conf");
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new("snmpd");
    // In the foreground, with this file alone and its log beside it.
    command.arg("-f").arg("-C").arg("-c").arg(&file).arg("-Lf").arg(directory.join("snmpd.log"));
    command.arg(format!("udp:127.0.0.1:{port}"));
    command.env("SNMP_PERSISTENT_DIR", directory).env("SNMPCONFPATH", directory).env("MIBS", "");
    Program::start(command)
}

/// A check that has two seconds: a debug build takes a while to make keys of passwords.
fn slow_table(name: &str, keys: &str) -> String {
    format!("[[check]]\nname = '{name}'\nkind = 'snmp'\nperiod = '4s'\ntimeout = '2s'\n{keys}\n")
}

#[test]
fn objects_and_tables_of_an_agent_are_stored() {
    let directory = directory();
    let port = free_port();
    let _snmpd = snmpd(directory.path(), port);
    let secret = directory.path().join("community");
    std::fs::write(&secret, "open-sesame\n").unwrap();
    let at = |keys: &str| format!("target = '127.0.0.1:{port}'\ncommunity_file = '{}'\n{keys}", secret.display());
    let numbers = format!(
        "get = [{UP_TIME}, {{name = 'if_number', oid = '1.3.6.1.2.1.2.1.0'}}, \
         {{name = 'load', oid = '1.3.6.1.4.1.2021.10.1.3.1', labels = {{minutes = '1'}}}}]"
    );
    let interfaces = "walk = [{index = 'row', labels = {interface = '1.3.6.1.2.1.2.2.1.2'}, columns = [\
                      {name = 'if_in_octets', oid = '1.3.6.1.2.1.2.2.1.10', unit = 'By'}, \
                      {name = 'if_mtu', oid = '1.3.6.1.2.1.2.2.1.4'}]}]";
    let missing = format!("get = [{{name = 'nothing', oid = '1.3.6.1.2.1.1.99.0'}}, {UP_TIME}]");
    let stranger = format!("target = '127.0.0.1:{port}'\ncommunity = 'close-sesame'\nget = [{UP_TIME}]");
    let checks = [
        table("numbers", "snmp", &at(&numbers)),
        table("interfaces", "snmp", &at(interfaces)),
        table("missing", "snmp", &at(&missing)),
        table("words", "snmp", &at("get = [{name = 'location', oid = '1.3.6.1.2.1.1.6.0'}]")),
        table("no-table", "snmp", &at("walk = [{columns = [{name = 'rows', oid = '1.3.6.1.2.1.250'}]}]")),
        table("stranger", "snmp", &stranger),
    ];
    let server = serve(directory.path(), &checks.concat());
    for check in ["numbers", "interfaces"] {
        has(&server, check, "ok");
        for phase in ["resolve", "answer", "total"] {
            measured(&server, check, phase, 1.0);
        }
        gauge(&server, "ogive_check_snmp_answer_bytes", check, |bytes| bytes > 40.0);
    }
    measured(&server, "numbers", "get", 1.0);
    measured(&server, "interfaces", "walk", 1.0);
    gauge(&server, "up_seconds", "numbers", |seconds| (0.0..600.0).contains(&seconds));
    gauge(&server, "if_number", "numbers", |count| count >= 1.0);
    gauge(&server, "load", "numbers", |load| load >= 0.0);
    gauge(&server, "ogive_check_snmp_requests", "numbers", |count| count == 1.0);
    for expr in ["if_mtu{interface=\"lo\",row=~\".+\"} >= 1000", "if_in_octets{interface=\"lo\"} > 0"] {
        eventually(expr, || server.number(expr));
    }
    let (_, metadata) = server.get("/api/v1/metadata");
    let kind = |metric: &str| metadata["data"][metric][0]["type"].as_str().map(str::to_owned);
    assert_eq!((kind("if_in_octets").as_deref(), kind("if_mtu").as_deref()), (Some("counter"), Some("gauge")));
    // What is there is stored beside what is missing.
    gauge(&server, "up_seconds", "missing", |seconds| seconds >= 0.0);
    for (check, words) in [
        ("missing", "\\\"nothing\\\": the agent has no "),
        ("words", "\\\"location\\\": the value of 1.3.6.1.2.1.1.6.0 is no number, its type is octet_string"),
        ("no-table", "\\\"rows\\\": the agent has no row of 1.3.6.1.2.1.250"),
    ] {
        has(&server, check, "content");
        says(&server, "ogive_check_wrong_answer", check, words);
    }
    has(&server, "stranger", "timeout");
    says(&server, "ogive_check_no_answer", "stranger", "does not know the community: agents do not answer a wrong one");
    assert_eq!(server.number(&latencies("stranger", "total")), None);
    let shown = said(&server, "stranger") + &said(&server, "missing") + &texts(&server, "ogive_check_up", "numbers");
    assert!(!shown.contains("sesame"), "{shown}");
}

#[test]
fn users_of_every_level_of_security_are_served() {
    let directory = directory();
    let port = free_port();
    let _snmpd = snmpd(directory.path(), port);
    let secret = directory.path().join("password");
    std::fs::write(&secret, "open sesame\n").unwrap();
    let at = |keys: &str| format!("target = '127.0.0.1:{port}'\n{keys}\nget = [{UP_TIME}]");
    let signed = |user: &str, protocol: &str, password: &str| {
        format!("user = '{user}'\nauthentication = '{protocol}'\npassword = '{password}'")
    };
    let sealed = |password: &str| {
        let file = secret.display();
        format!(
            "user = 'sealed'\nauthentication = 'sha256'\npassword_file = '{file}'\nprivacy = 'aes128'\n\
             privacy_password = '{password}'"
        )
    };
    let table = |name: &str, keys: &str| slow_table(name, &at(keys));
    let walk = "walk = [{labels = {interface = '1.3.6.1.2.1.2.2.1.2'}, \
                columns = [{name = 'if_mtu', oid = '1.3.6.1.2.1.2.2.1.4'}]}]";
    let checks = [
        table("open", "user = 'open'"),
        table("signed", &signed("signed", "sha1", "open sesame")),
        table("old", &signed("old", "md5", "open sesame")),
        table("sealed", &format!("{}\n{walk}", sealed("sesame, open"))),
        table("nobody", "user = 'nobody'"),
        table("nobody-signed", &signed("nobody", "sha1", "open sesame")),
        table("wrong-password", &signed("signed", "sha1", "close sesame")),
        table("unsigned", "user = 'signed'"),
        table("wrong-privacy", &sealed("sesame, close")),
    ];
    let server = serve(directory.path(), &checks.concat());
    for check in ["open", "signed", "old", "sealed"] {
        has(&server, check, "ok");
        gauge(&server, "up_seconds", check, |seconds| (0.0..600.0).contains(&seconds));
    }
    eventually("the interface", || server.number("if_mtu{check=\"sealed\",interface=\"lo\"} >= 1000"));
    for (check, words) in [
        ("nobody", "does not know the user"),
        ("nobody-signed", "does not know the user"),
        ("wrong-password", "refuses the password"),
        ("unsigned", ""),
    ] {
        has(&server, check, "login");
        says(&server, "ogive_check_wrong_answer", check, words);
    }
    // An agent may be silent or report that it cannot decrypt.
    eventually("the wrong password", || said(&server, "wrong-privacy").contains("privacy password").then_some(()));
    assert_eq!(server.number("max_over_time(ogive_check_up{check=\"wrong-privacy\"}[1h])"), Some(0.0));
    let checks = ["signed", "sealed", "wrong-password", "wrong-privacy", "unsigned"];
    let shown: String = checks.iter().map(|check| said(&server, check)).collect();
    assert!(!shown.contains("sesame"), "{shown}");
}

/// A field of BER.
fn field(tag: u8, content: &[&[u8]]) -> Vec<u8> {
    let content = content.concat();
    let length = u16::try_from(content.len()).expect("it fits into a datagram").to_be_bytes();
    [&[tag, 0x82][..], &length, &content].concat()
}

/// The number of a request of SNMP v2c, as a field, and whether the request is a GETBULK.
fn request_of(datagram: &[u8]) -> (Vec<u8>, bool) {
    // Requests are short: every length is one byte. The version has three, and the community stands behind it.
    let pdu = &datagram[5 + 2 + usize::from(datagram[6])..];
    let id = &pdu[2..4 + usize::from(pdu[3])];
    (id.to_vec(), pdu[0] == 0xa5)
}

/// An answer to the request with that number.
fn answer(id: &[u8], values: &[Vec<u8>]) -> Vec<u8> {
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    let zero = b"\x02\x01\0";
    let pdu = field(0xa2, &[id, zero, zero, &field(0x30, &values)]);
    field(0x30, &[b"\x02\x01\x01", &field(4, &[b"public"]), &pdu])
}

/// The value 7 in the row `row` of the column 1.3.6.1.9.1.
fn row(row: u16) -> Vec<u8> {
    let arcs = [0x80 | (row >> 7) as u8, row as u8 & 0x7f];
    // A leading zero is no part of a number.
    let arcs = if row < 128 { &arcs[1..] } else { &arcs[..] };
    assert!(row < 1 << 14, "row {row} has more than two bytes");
    field(0x30, &[&field(6, &[b"\x2b\x06\x01\x09\x01", arcs]), b"\x02\x01\x07"])
}

/// An agent that says what `says` makes of each request.
fn agent(mut says: impl FnMut(&[u8]) -> Vec<u8> + Send + 'static) -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut request = [0; 2_048];
        while let Ok((length, from)) = socket.recv_from(&mut request) {
            let _ = socket.send_to(&says(&request[..length]), from);
        }
    });
    port
}

#[test]
fn agents_that_lie_end_the_run() {
    let directory = directory();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let walk = "community = 'public'\nwalk = [{columns = [{name = 'lies', oid = '1.3.6.1.9.1'}]}]";
    let check = |name: &str, port: u16| table(name, "snmp", &format!("target = '127.0.0.1:{port}'\n{walk}"));
    let honest = agent(|request| {
        let (id, is_bulk) = request_of(request);
        assert!(is_bulk, "a walk asks with GETBULK");
        let end = field(0x30, &[&field(6, &[b"\x2b\x06\x01\x09\x02"]), b"\x02\x01\x07"]);
        answer(&id, &[row(1), row(200), end])
    });
    let lengths = agent(|request| {
        let oid = field(6, &[b"\x2b\x06\x01\x09\x01\x01"]);
        // A text that is said to have 64 KiB.
        answer(&request_of(request).0, &[field(0x30, &[&oid, b"\x04\x82\xff\xffabc"])])
    });
    let outer = agent(|request| {
        let mut good = answer(&request_of(request).0, &[row(1)]);
        good[2] = 0x7f;
        good
    });
    let circle = agent(|request| answer(&request_of(request).0, &[row(1)]));
    let mut next = 0;
    let endless = agent(move |request| {
        next = (next + 1_000) % 15_000;
        answer(&request_of(request).0, &(next..next + 1_000).map(row).collect::<Vec<_>>())
    });
    let empty = agent(|request| answer(&request_of(request).0, &[]));
    let stranger = agent(|_| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec());
    let checks = [
        check("honest", honest),
        check("refused", 1),
        check("silent", silent.local_addr().unwrap().port()),
        check("lengths", lengths),
        check("outer", outer),
        check("circle", circle),
        check("endless", endless),
        check("empty", empty),
        check("stranger", stranger),
    ];
    let server = serve(directory.path(), &checks.concat());
    has(&server, "honest", "ok");
    gauge(&server, "ogive_check_snmp_values", "honest", |count| count == 2.0);
    eventually("both rows", || server.number("count(lies{check=\"honest\"} == 7)").filter(|count| *count == 2.0));
    has(&server, "refused", "refused");
    has(&server, "silent", "timeout");
    says(&server, "ogive_check_no_answer", "silent", "0 answers to 3 requests came within ");
    for (check, words) in [
        ("lengths", "datagrams came from the agent and are no answers: "),
        ("outer", "datagrams came from the agent and are no answers: "),
        ("stranger", "datagrams came from the agent and are no answers: "),
        ("circle", "the agent's OIDs do not increase: 1.3.6.1.9.1.1 came behind 1.3.6.1.9.1.1"),
        ("empty", "the agent's answer behind 1.3.6.1.9.1 is empty"),
    ] {
        has(&server, check, "protocol");
        says(&server, "ogive_check_wrong_answer", check, words);
    }
    gauge(&server, "ogive_check_snmp_strays", "lengths", |count| count >= 1.0);
    has(&server, "endless", "limit");
    says(&server, "ogive_check_no_answer", "endless", "more than 10000 values");
    drop(silent);
}
