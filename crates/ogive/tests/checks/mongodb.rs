//! MongoDB: a server of its protocol in a Java process (`tests/clients/MongoDb.java`; MongoDB's own is in no package
//! registry), which has no logins; logins with FerretDB, which `scripts/heavy-clients` builds; and what is no such
//! server.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use super::{directory, gauge, has, latencies, measured, ports, said, says, serve, table, texts};
use crate::common::authority::Authority;
use crate::common::clients::{Client, heavy, java_with};
use crate::common::programs::{Program, free_port, listens};
use crate::common::{Server, eventually};

/// A server with three orders in the database `shop`, its port, and that of the same over TLS.
fn server(directory: &Path) -> (Client, u16, u16) {
    let authority = Authority::new();
    std::fs::write(directory.join("ca.pem"), authority.0.pem()).unwrap();
    authority.certify_until(directory, "mongodb", 2090);
    let mut command = java_with("mongodb", 128, "MongoDb.java");
    command.arg(directory.join("mongodb"));
    let mut client = Client::run("MongoDb.java", command);
    let ports = ports(&mut client, 2);
    (client, ports["plain"], ports["tls"])
}

/// A `[[check.run_command]]` table whose number is `shop_NAME`.
fn command(name: &str, command: &str, keys: &str) -> String {
    format!(
        "[[check.run_command]]\nname = '{name}'\ndatabase = 'shop'\ncommand = '{command}'\n\
         extract = [{{name = 'shop_{name}', {keys}}}]\n"
    )
}

fn check(name: &str, target: &str, keys: &str) -> String {
    table(name, "mongodb", &format!("target = '{target}'\n{keys}"))
}

/// Waits until each expression has its value.
fn have(server: &Server, expected: &[(&str, f64)]) {
    for (expr, value) in expected {
        eventually(&format!("{expr} is {value}"), || server.number(expr).filter(|found| found == value));
    }
}

fn server_checks(directory: &Path, plain: u16, tls: u16) -> String {
    let target = format!("127.0.0.1:{plain}");
    let ca = format!("tls = true\nca_file = '{}'\n", directory.join("ca.pem").display());
    let group = r#"{"$group": {"_id": null, "amount": {"$sum": "$amount"}}}"#;
    let amount = format!("{{\"aggregate\": \"orders\", \"pipeline\": [{group}], \"cursor\": {{}}}}");
    let all = [
        "fields = ['connections', 'metrics', 'uptime']\n".to_owned(),
        command("new", r#"{"count": "orders", "query": {"state": "new"}}"#, "json = '$.n'"),
        command("amount", &amount, "json = '$.cursor.firstBatch[0].amount'"),
        command("objects", r#"{"dbStats": 1}"#, "json = '$.objects', counter = true"),
    ];
    let checks = [
        check("all", &target, &all.concat()),
        check("parts", &format!("mongodb://{target}/"), "labels = {team = 'x'}"),
        check("ping", &target, "fields = []"),
        check("tls", &format!("localhost:{tls}"), &ca),
        check("stranger", &format!("localhost:{tls}"), "tls = true"),
        check("login", &target, "user = 'monitor'\npassword = 'hunter2'"),
        check("alone", &target, "replica_set = true"),
        check("missing", &target, &command("missing", r#"{"count": "orders"}"#, "json = '$.none'")),
        check(
            "left",
            &target,
            &command("left", r#"{"find": "orders", "batchSize": 1}"#, "json = '$.cursor.firstBatch[0].amount'"),
        ),
        check("unknown", &target, &command("unknown", r#"{"top": 1}"#, "json = '$.totals'")),
        check("refused", "127.0.0.1:1", ""),
    ];
    checks.concat()
}

#[test]
fn numbers_of_a_server_are_stored() {
    let directory = directory();
    let (mongodb, plain, tls) = server(directory.path());
    let server = serve(directory.path(), &server_checks(directory.path(), plain, tls));
    for check in ["all", "parts", "ping", "tls"] {
        has(&server, check, "ok");
        for phase in ["resolve", "connect", "ping", "total"] {
            measured(&server, check, phase, 1.0);
        }
    }
    measured(&server, "all", "values", 1.0);
    measured(&server, "tls", "tls", 1.0);
    for (check, phase) in [("ping", "values"), ("ping", "tls"), ("all", "login")] {
        assert_eq!(server.number(&latencies(check, phase)), None, "{check} has the phase {phase}");
    }
    gauge(&server, "ogive_check_certificate_valid", "tls", |valid| valid == 1.0);
    let expected = [
        ("shop_new{check=\"all\",query=\"new\"}", 2.0),
        ("shop_amount{check=\"all\",query=\"amount\"}", 22.0),
        ("shop_objects{check=\"all\",query=\"objects\"}", 3.0),
        ("mongodb_metrics_cursor_timed_out{check=\"all\"}", 0.0),
        ("shop_left{check=\"left\",query=\"left\"}", 12.0),
    ];
    have(&server, &expected);
    gauge(&server, "mongodb_connections_current", "parts", |count| count >= 1.0);
    gauge(&server, "mongodb_uptime", "parts", |seconds| seconds >= 0.0);
    for query in ["new", "amount", "objects"] {
        let seconds = format!("ogive_check_query_seconds{{check=\"all\",query=\"{query}\"}}");
        eventually(&format!("{query} has a latency"), || {
            server.number(&format!("sum(histogram_count(sum_over_time({seconds}[1h])))")).filter(|count| *count >= 1.0)
        });
    }
    let (_, metadata) = server.get("/api/v1/metadata");
    let kind = |metric: &str| metadata["data"][metric][0]["type"].as_str().map(str::to_owned);
    for (metric, expected) in [
        ("mongodb_connections_current", "gauge"),
        ("mongodb_metrics_cursor_timed_out", "counter"),
        ("mongodb_metrics_cursor_open_total", "gauge"),
        ("shop_new", "gauge"),
        ("shop_objects", "counter"),
    ] {
        assert_eq!(kind(metric).as_deref(), Some(expected), "{metric}");
    }
    what_fails_says_why(&server);
    // Each run of that check leaves a cursor and closes it, but for those that were cut off in between.
    let runs = "sum(sum_over_time(ogive_check_runs_total{check=\"left\",result=\"content\"}[1h]))";
    let open = "mongodb_metrics_cursor_open_total{check=\"all\"}";
    eventually("cursors are closed", || (server.number(runs)? >= server.number(open)? + 5.0).then_some(()));
    drop(mongodb);
    let gone = "sum(sum_over_time(ogive_check_runs_total{check=\"ping\",result=\"refused\"}[1h]))";
    eventually("the server is gone", || server.number(gone).filter(|runs| *runs >= 1.0));
    gauge(&server, "ogive_check_up", "ping", |up| up == 0.0);
}

/// Waits until the checks of [`server_checks`] that cannot be good have failed.
fn what_fails_says_why(server: &Server) {
    for (check, result, words) in [
        ("stranger", "tls", "tls: "),
        ("login", "login", "no such command: 'saslStart'"),
        ("alone", "status", "not running with --replSet"),
        ("missing", "content", "nothing in the answer is at"),
        ("left", "content", "more documents than its first batch"),
        ("unknown", "status", "(59 CommandNotFound)"),
    ] {
        has(server, check, result);
        says(server, "ogive_check_wrong_answer", check, words);
    }
    has(server, "refused", "refused");
    // What else was asked is stored.
    gauge(server, "mongodb_connections_current", "alone", |count| count >= 1.0);
    assert_eq!(server.number(&latencies("login", "ping")), None);
    let shown = said(server, "login") + &texts(server, "ogive_check_up", "login");
    assert!(!shown.contains("hunter"), "{shown}");
}

/// Answers each connection with `bytes`, once it has asked.
fn answers(bytes: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(&bytes);
        }
    });
    address
}

#[test]
fn what_does_not_speak_mongodb_is_told_with_its_reason() {
    /// The header of a message of this length that answers the first command.
    fn header(length: u32, answered: u32) -> Vec<u8> {
        [length, 7, answered, 2_013].map(u32::to_le_bytes).concat()
    }
    let directory = directory();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let garbage = [&header(4 << 20, 1)[..], &vec![0; 4 << 20]].concat();
    let checks = [
        check("timeout", &silent.local_addr().unwrap().to_string(), ""),
        check("closed", &answers(Vec::new()), ""),
        check("short", &answers([&header(100, 1)[..], b"x"].concat()), ""),
        check("protocol", &answers(b"SSH-2.0-x\r\n".to_vec()), ""),
        check("other", &answers(header(100, 2)), ""),
        check("garbage", &answers(garbage), ""),
        check("huge", &answers(header(48_000_000, 1)), ""),
    ];
    let server = serve(directory.path(), &checks.concat());
    for (check, result) in [
        ("closed", "closed"),
        ("short", "closed"),
        ("protocol", "protocol"),
        ("other", "protocol"),
        ("garbage", "protocol"),
    ] {
        has(&server, check, result);
    }
    has(&server, "huge", "limit");
    says(&server, "ogive_check_no_answer", "huge", "the answer has 48000000 bytes, above 4194304");
    has(&server, "timeout", "timeout");
    says(&server, "ogive_check_no_answer", "timeout", "in the phase ping");
    drop(silent);
}

/// FerretDB, which keeps its data in SQLite here, and has a user who has to log in.
fn ferretdb(directory: &Path, port: u16) -> Program {
    let data = directory.join("ferretdb");
    std::fs::create_dir(&data).unwrap();
    let mut command = Command::new(heavy("bin/ferretdb"));
    command.args(["--handler=sqlite", "--debug-addr=-", "--telemetry=disable", "--test-enable-new-auth"]);
    command.args(["--setup-database=shop", "--setup-username=monitor", "--setup-password=open sesame"]);
    command.arg(format!("--listen-addr=127.0.0.1:{port}"));
    command.arg(format!("--sqlite-url=file:{}/", data.display())).arg(format!("--state-dir={}", data.display()));
    let server = Program::start(command);
    listens(port);
    server
}

#[test]
#[ignore = "run by scripts/heavy-clients"]
fn logins_are_taken_and_refused() {
    let (directory, port) = (directory(), free_port());
    let _ferretdb = ferretdb(directory.path(), port);
    let target = format!("mongodb://127.0.0.1:{port}");
    let secret = directory.path().join("secret");
    std::fs::write(&secret, "open sesame\n").unwrap();
    let right = format!("user = 'monitor'\npassword_file = '{}'\n", secret.display());
    let own = format!("{right}database = 'shop'\n");
    let count = command("count", r#"{"count": "orders"}"#, "json = '$.n'");
    let checks = [
        check("right", &target, &format!("{own}fields = ['uptime', 'metrics.commands', 'catalogStats']\n{count}")),
        check("wrong", &target, "user = 'monitor'\npassword = 'hunter2'\ndatabase = 'shop'\n"),
        check("elsewhere", &target, &right),
        check("nobody", &target, ""),
    ];
    let server = serve(directory.path(), &checks.concat());
    has(&server, "right", "ok");
    for phase in ["connect", "login", "ping", "values", "total"] {
        measured(&server, "right", phase, 1.0);
    }
    have(&server, &[("shop_count{check=\"right\"}", 0.0)]);
    gauge(&server, "mongodb_uptime", "right", |seconds| seconds > 0.0);
    let pings = "mongodb_metrics_commands_total{check=\"right\",name=\"ping\"}";
    eventually("pings are counted", || server.number(pings).filter(|count| *count >= 1.0));
    for check in ["wrong", "elsewhere", "nobody"] {
        has(&server, check, "login");
    }
    let shown = said(&server, "wrong") + &said(&server, "elsewhere") + &texts(&server, "ogive_check_up", "right");
    assert!(!shown.contains("hunter") && !shown.contains("sesame"), "{shown}");
}
