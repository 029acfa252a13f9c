//! Real servers, a real capture, and clients that look at the clock: `before <= first byte of the request` and `last
//! byte of the response
//! <= after` for each request, and as many exchanges as were asked for.
//!
//! Needs the servers that `scripts/need` installs, and tcpdump with the right to capture on loopback (root, or `sudo
//! -n`).

mod common;

use std::io::Write;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use common::live::{
    Capture, Client, PATIENCE, Program, directory, eventually, free_port, is_root, now, rows_of, statuses,
};
use common::postgres::{self, has_message, message};
use common::truth::Row;

#[test]
fn redis_is_measured_between_the_clients_clocks() {
    let (directory, port) = (directory("redis"), free_port());
    let arguments = ["--save", "", "--bind", "127.0.0.1", "--port"];
    let _server =
        Program::start(Command::new("redis-server").args(arguments).arg(port.to_string()).current_dir(&*directory));
    let mut client = Client::connect(port);
    let capture = Capture::start(&directory, port);
    let mut client_seen = Client::connect(port);
    drop(client.ask(b"PING\r\n", |answer| answer.ends_with(b"\r\n")));
    for round in 0..200 {
        let text = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\n{:03}\r\n", round);
        client_seen.ask(text.as_bytes(), |answer| answer == b"+OK\r\n");
        client_seen.ask(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", |answer| answer.len() == 9);
    }
    client_seen.ask(b"*1\r\n$5\r\nNOSUC\r\n", |answer| answer.ends_with(b"\r\n"));
    let conn = client_seen.stream.local_addr().expect("bound").port();
    let is_seen = |row: &&Row| row.conn.contains(&format!("|{conn}|"));
    let report = capture.report(|report| report.answered.iter().filter(|row| is_seen(row)).count() >= 401);
    client_seen.brackets(&report.answered.iter().filter(is_seen).collect::<Vec<_>>());
}

#[test]
fn memcached_is_measured_between_the_clients_clocks() {
    let (directory, port) = (directory("memcached"), free_port());
    let mut command = Command::new("memcached");
    command.args(["-l", "127.0.0.1", "-U", "0", "-u", "nobody", "-p"]).arg(port.to_string());
    let _server = Program::start(&mut command);
    drop(Client::connect(port));
    let capture = Capture::start(&directory, port);
    let mut client = Client::connect(port);
    let value = "x".repeat(50_000);
    for _ in 0..50 {
        client.ask(format!("set k 0 0 50000\r\n{value}\r\n").as_bytes(), |answer| answer == b"STORED\r\n");
        client.ask(b"get k none\r\n", |answer| answer.ends_with(b"\r\nEND\r\n"));
        client.ask(b"mg k v t\r\n", |answer| answer.len() > 50_000 && answer.ends_with(b"x\r\n"));
    }
    // A wrong length: the server answers twice.
    client.ask(b"set k 0 0 2\r\nabcdef\r\n", |answer| answer.ends_with(b"ERROR\r\n"));
    let report = capture.report(|report| report.answered.len() >= 152);
    let rows = rows_of(&report, "memcached");
    assert_eq!(statuses(&rows)[..3], ["set STORED", "get hit1/2", "mg VA"]);
    assert_eq!(statuses(&rows)[150..], ["set CLIENT_ERROR", "ef ERROR"]);
    let last = client.asked[150];
    client.asked.push(last);
    client.brackets(&rows);

    // The binary protocol: the length of the body is in bytes 8 to 11.
    let capture = Capture::start(&directory, port);
    let mut client = Client::connect(port);
    let is_whole = |answer: &[u8]| answer.len() >= 24 && answer.len() >= 24 + usize::from(answer[11]);
    let mut get = [0; 25];
    (get[0], get[3], get[11], get[24]) = (0x80, 1, 1, b'q');
    for _ in 0..20 {
        assert_eq!(client.ask(&get, is_whole)[7], 1, "not found");
    }
    let report = capture.report(|report| report.answered.len() >= 20);
    client.brackets(&rows_of(&report, "memcached"));
}

#[test]
fn postgres_is_measured_between_the_clients_clocks() {
    let (directory, port) = (directory("postgres"), free_port());
    let _server = postgres::start(&directory, port);
    let capture = Capture::start(&directory, port);
    let mut client = postgres::login(port);
    let whole = |answer: &[u8]| has_message(answer, b'Z');
    for _ in 0..100 {
        client.ask(&message(b'Q', b"SELECT generate_series(1, 2000)\0"), whole);
        let batch = [
            message(b'P', b"\0SELECT $1::int + 1\0\0\0"),
            message(b'B', b"\0\0\0\0\0\x01\0\0\0\x0242\0\0"),
            message(b'E', b"\0\0\0\0\0"),
            message(b'S', b""),
        ];
        client.ask(&batch.concat(), whole);
    }
    client.ask(&message(b'Q', b"SELECT * FROM nosuch\0"), whole);
    let conn = client.stream.local_addr().expect("bound").port();
    let is_seen = |row: &&Row| row.conn.contains(&format!("|{conn}|"));
    let report = capture.report(|report| report.answered.iter().filter(|row| is_seen(row)).count() >= 202);
    let rows: Vec<&Row> = report.answered.iter().filter(is_seen).collect();
    client.brackets(&rows);
    let statuses = statuses(&rows);
    assert_eq!(statuses[..3], ["STARTUP ok", "Q ok", "EXT ok"]);
    assert_eq!(statuses[201], "Q 42P01");
}

/// Whether `answer` is an OK, an error, or rows between two EOF packets.
fn is_mysql_answer(mut answer: &[u8]) -> bool {
    let mut ends = 0;
    let mut first = None;
    while let Some(header) = answer.get(..4) {
        let length = usize::from(header[0]) | usize::from(header[1]) << 8;
        let Some(payload) = answer.get(4..4 + length) else { return false };
        let is_result = *first.get_or_insert(payload[0]) != 0 && first != Some(0xff);
        ends += u32::from(payload[0] == 0xfe && length == 5);
        if !is_result || ends == 2 {
            return true;
        }
        answer = &answer[4 + length..];
    }
    false
}

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    [&u32::try_from(payload.len()).expect("short").to_le_bytes()[..3], &[sequence], payload].concat()
}

#[test]
fn mariadb_is_measured_between_the_clients_clocks() {
    let (directory, port) = (directory("mariadb"), free_port());
    let data = format!("--datadir={}", directory.join("data").display());
    let user = if is_root() { "--user=root" } else { "--skip-test-db" };
    let mut command = Command::new("mariadb-install-db");
    command.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", &data, user]);
    let made = command.output().expect("run scripts/need mariadbd");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut command = Command::new("mariadbd");
    command.args(["--no-defaults", "--bind-address=127.0.0.1", &data, &format!("--port={port}")]);
    command.arg(format!("--socket={}", directory.join("s").display()));
    if is_root() {
        command.arg("--user=root");
    }
    let _server = Program::start(&mut command);
    drop(Client::connect(port));
    let capture = Capture::start(&directory, port);
    let mut client = Client::connect(port);
    client.read(|greeting| greeting.len() > 4 && greeting.len() >= 4 + usize::from(greeting[0]));
    let mut login = 0x0008_8201_u32.to_le_bytes().to_vec();
    login.extend([&[0, 0, 0, 1, 33][..], &[0; 23], b"root\0\0mysql_native_password\0"].concat());
    let answer = client.ask(&packet(1, &login), is_mysql_answer);
    assert_eq!(answer[4], 0, "{}", String::from_utf8_lossy(&answer));
    for _ in 0..100 {
        client.ask(&packet(0, b"\x03SELECT seq FROM mysql.help_topic, (SELECT 1 seq) s LIMIT 40"), is_mysql_answer);
        client.ask(&packet(0, b"\x0e"), is_mysql_answer);
    }
    client.ask(&packet(0, b"\x03SELECT nosuch"), is_mysql_answer);
    let report = capture.report(|report| report.answered.len() >= 202);
    let rows = rows_of(&report, "mysql");
    client.brackets(&rows);
    let statuses = statuses(&rows);
    assert_eq!(statuses[..3], ["CONNECT ok", "COM_QUERY ok", "COM_PING ok"]);
    assert_eq!(statuses[201], "COM_QUERY 1054");
}

#[test]
fn nats_is_measured_between_the_clients_clocks() {
    let (directory, port) = (directory("nats"), free_port());
    let mut command = Command::new("nats-server");
    let _server =
        Program::start(command.args(["-a", "127.0.0.1", "-p"]).arg(port.to_string()).current_dir(&*directory));
    drop(Client::connect(port));
    let capture = Capture::start(&directory, port);
    let mut client = Client::connect(port);
    client.read(|info| info.ends_with(b"\r\n"));
    client.ask(b"CONNECT {\"verbose\":false}\r\nSUB _INBOX.me.* 1\r\nPING\r\n", |answer| answer.ends_with(b"PONG\r\n"));
    let mut service = Client::connect(port);
    service.read(|info| info.ends_with(b"\r\n"));
    service.ask(b"CONNECT {\"verbose\":false}\r\nSUB double 1\r\nPING\r\n", |answer| answer.ends_with(b"PONG\r\n"));
    for round in 0..100 {
        let before = now();
        client.stream.write_all(format!("PUB double _INBOX.me.{round} 2\r\n21\r\n").as_bytes()).expect("sent");
        service.read(|asked| asked.ends_with(b"21\r\n"));
        service.stream.write_all(format!("PUB _INBOX.me.{round} 2\r\n42\r\n").as_bytes()).expect("sent");
        client.read(|answer| answer.ends_with(b"42\r\n"));
        client.asked.push((before, now()));
    }
    let report = capture.report(|report| report.answered.len() >= 202);
    let rows = rows_of(&report, "nats");
    let asked: Vec<&Row> = rows.iter().copied().filter(|row| row.op == "request").collect();
    client.asked.remove(0);
    client.brackets(&asked);
    // The service answers within the request.
    let served: Vec<&Row> = rows.iter().copied().filter(|row| row.op == "serve").collect();
    client.brackets(&served);
    assert_eq!(rows.len(), 202);
}

#[test]
fn http2_counts_what_h2load_counts() {
    let (directory, port) = (directory("nginx"), free_port());
    let text = format!(
        "daemon off; master_process off; pid {0}/pid; error_log {0}/error; events {{}} http {{ access_log off; \
         server {{ listen 127.0.0.1:{port} http2; location /a {{ return 200 ok; }} }} }}",
        directory.display()
    );
    std::fs::write(directory.join("nginx.conf"), text).expect("its configuration");
    let _server =
        Program::start(Command::new("nginx").arg("-p").arg(&*directory).arg("-c").arg(directory.join("nginx.conf")));
    drop(Client::connect(port));
    let capture = Capture::start(&directory, port);
    let target = [format!("http://127.0.0.1:{port}/a/1"), format!("http://127.0.0.1:{port}/none")];
    let load = Command::new("h2load").args(["-n", "1000", "-c", "4", "-m", "8"]).args(&target).output();
    let load = load.expect("run scripts/need h2load");
    let text = String::from_utf8_lossy(&load.stdout);
    assert!(text.contains("500 2xx, 0 3xx, 500 4xx"), "{text}");
    let report = capture.report(|report| report.answered.len() >= 1_000);
    let count = |op: &str, status: &str| {
        report.answered.iter().filter(|row| row.proto == "http2" && row.op == op && row.status == status).count()
    };
    assert_eq!((count("GET /a/1", "200"), count("GET /none", "404"), report.answered.len()), (500, 500, 1_000));
}

#[test]
fn dns_is_measured_between_the_clients_clocks() {
    let directory = directory("dns");
    // DNS over UDP is known by its port; the address is this process's own.
    let [.., high, low] = std::process::id().to_be_bytes();
    let (ip, port) = (Ipv4Addr::new(127, 53, high, low.max(2)), 5_353);
    let mut command = Command::new("dnsmasq");
    command.args(["--keep-in-foreground", "--no-resolv", "--no-hosts", "--bind-interfaces", "--conf-file=/dev/null"]);
    command.args(["--address=/shop.test/10.1.2.3", &format!("--listen-address={ip}"), &format!("--port={port}")]);
    command.arg(format!("--pid-file={}", directory.join("pid").display()));
    let _server = Program::start(&mut command);
    let query = |id: u16, name: &[&str]| {
        let labels: Vec<u8> = name
            .iter()
            .flat_map(|label| [&[u8::try_from(label.len()).expect("short")], label.as_bytes()].concat())
            .collect();
        [&id.to_be_bytes()[..], b"\x01\0\0\x01\0\0\0\0\0\0", &labels, b"\0\0\x01\0\x01"].concat()
    };
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let mut answer = [0; 512];
    eventually("dnsmasq answers: run scripts/need dnsmasq", || {
        socket.send_to(&query(1, &["shop", "test"]), (ip, port)).ok()?;
        socket.recv_from(&mut answer).ok()
    });
    let capture = Capture::start(&directory, port);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut asked = Vec::new();
    for round in 0..100 {
        let name = if round % 2 == 0 { ["shop", "test"] } else { ["gone", "nowhere"] };
        let before = now();
        socket.send_to(&query(round, &name), (ip, port)).expect("sent");
        let (length, _) = socket.recv_from(&mut answer).expect("an answer in time");
        asked.push((before, now()));
        assert_eq!((length > 12, answer[..2] == round.to_be_bytes()), (true, true));
    }
    let from = socket.local_addr().expect("bound").port();
    let is_asked = |row: &&Row| row.conn.contains(&format!("|{from}|"));
    let report = capture.report(|report| report.answered.iter().filter(is_asked).count() >= 100);
    let mut rows: Vec<&Row> = report.answered.iter().filter(is_asked).collect();
    rows.sort_by_key(|row| row.request.1);
    assert_eq!(rows.len(), 100);
    for (row, (before, after)) in rows.iter().zip(&asked) {
        assert!(*before <= row.request.1 && row.response.2 <= *after, "{before} <= {row:?} <= {after}");
    }
    assert_eq!((&*rows[0].op, &*rows[0].status), ("A shop.test", "0"));
    assert!(rows.iter().skip(1).step_by(2).all(|row| row.op == "A gone.nowhere" && row.status != "0"), "{rows:?}");
}
