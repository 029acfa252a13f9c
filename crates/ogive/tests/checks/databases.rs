//! Values of queries: PostgreSQL and MariaDB, compared with what their own clients print, and queries that are refused,
//! take too long or have too much to say.

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use super::{
    directory, gauge, has, is_root_here, latencies, measured, postgres, psql, said, says, serve, table, texts,
};
use crate::common::authority::Authority;
use crate::common::programs::{Program, free_port, listens};
use crate::common::{Server, eventually};

/// The table that is asked for; both servers take this.
const ORDERS: &str = "create table orders (state varchar(20), amount numeric(10, 2), items int, closed timestamp null); \
                      insert into orders values ('new', 12.50, 3, null), ('new', 7.25, 1, null), \
                      ('paid', 100.00, 7, null), ('lost', null, 0, null);";
const BY_STATE: &str =
    "select state, sum(amount) as amount, sum(items) as items from orders group by state order by state";

/// A `[[check.query]]` table.
fn query(metric: &str, sql: &str, keys: &str) -> String {
    format!("[[check.query]]\nmetric = '{metric}'\nsql = \"{sql}\"\n{keys}\n")
}

fn number(server: &Server, check: &str, metric: &str, labels: &str) -> Option<f64> {
    server.number(&format!("{metric}{{check=\"{check}\"{labels}}}"))
}

/// Compares the values of [`BY_STATE`] with what a client prints, its fields apart by `separator`.
fn orders_agree(server: &Server, check: &str, printed: &str, separator: char) {
    let lines: Vec<Vec<&str>> = printed.lines().map(|line| line.split(separator).collect()).collect();
    assert_eq!(lines.len(), 3, "{printed}");
    for line in lines {
        let [state, amount, items] = line[..] else { panic!("{printed}") };
        let label = format!(",state=\"{state}\"");
        let found = eventually("items", || number(server, check, "shop_orders_items", &label));
        assert_eq!(found, items.parse::<f64>().unwrap(), "{state}");
        let amount = amount.parse::<f64>().ok();
        eventually(&format!("the amount of {state} is {amount:?}"), || {
            (number(server, check, "shop_orders_amount", &label) == amount).then_some(())
        });
    }
    // The sum of nothing but NULL.
    gauge(server, "ogive_check_query_skipped", check, |skipped| skipped == 1.0);
    gauge(server, "ogive_check_query_rows", check, |rows| rows == 3.0);
    let seconds = format!("ogive_check_query_seconds{{check=\"{check}\",query=\"shop_orders\"}}");
    eventually("the query has a latency", || {
        server.number(&format!("sum(histogram_count(sum_over_time({seconds}[1h])))")).filter(|count| *count >= 1.0)
    });
    measured(server, check, "values", 1.0);
}

/// Waits for a counter that a client reads before and after.
fn counter_agrees(server: &Server, check: &str, metric: &str, labels: &str, read: impl Fn() -> f64) {
    let before = read();
    let what = format!("{metric} of {check} passes {before}");
    let found = eventually(&what, || number(server, check, metric, labels).filter(|found| *found >= before));
    let after = read();
    assert!(found <= after, "{metric} is {found}, and its server says {after}");
}

/// Waits for five runs of a check, and until no more than the last two statements are in progress: a busy server may
/// end one late.
fn statements_end(server: &Server, check: &str, in_progress: impl Fn() -> f64) {
    let runs = format!("sum(sum_over_time(ogive_check_runs_total{{check=\"{check}\"}}[1h]))");
    eventually(&format!("{check} ran five times"), || server.number(&runs).filter(|runs| *runs >= 5.0));
    eventually(&format!("the statements of {check} end"), || (in_progress() <= 2.0).then_some(()));
}

/// Waits until these checks have failed, each with its result and words.
fn fail(server: &Server, expected: &[(&str, &str, &str)]) {
    for (check, result, words) in expected {
        has(server, check, result);
        let metric = if matches!(*result, "timeout" | "limit") { "no_answer" } else { "wrong_answer" };
        says(server, &format!("ogive_check_{metric}"), check, words);
    }
}

/// Queries that every server answers wrongly or not in time, each in a check of its name.
fn bad_queries(check: impl Fn(&str, &str) -> String) -> String {
    let one = |name: &str, sql: &str| check(name, &query(name, sql, ""));
    [
        check("missing", &(query("gone", "select n from gone", "") + &query("there", "select 7 as n", ""))),
        one("wide", "select 1 as n, repeat('x', 100000) as t"),
        one("writes", "insert into orders values ('x', 1, 1, null)"),
        one("several", "select 1 as n; select 2 as n"),
        one("texts", "select 'x' as t"),
        one("same", "select 1 as n union all select 2"),
    ]
    .concat()
}

#[test]
fn postgres_values_are_those_of_psql() {
    let (directory, port) = (directory(), free_port());
    let _postgres = postgres(directory.path(), port);
    let sql = |sql: &str| psql(directory.path(), port, sql).expect("the server takes it");
    sql(&format!("{ORDERS} grant select, insert on orders to scram;"));
    let secret = directory.path().join("secret");
    std::fs::write(&secret, "open sesame\n").unwrap();
    let login = format!("target = '127.0.0.1:{port}'\nuser = 'scram'\ndatabase = 'postgres'\n");
    let right = format!("{login}password_file = '{}'\n", secret.display());
    let check = |name: &str, queries: &str| table(name, "postgres", &format!("{right}{queries}"));
    let statistics = "select * from pg_stat_database where datname = current_database()";
    let statistics_keys = "counter = true\nvalue_columns = ['xact_commit', 'blks_hit']\nlabel_columns = ['datname']";
    let checks = [
        check("values", &query("shop_orders", BY_STATE, "")),
        check("statistics", &query("pg_stat_database", statistics, statistics_keys)),
        check("all", &query("pg_all", "select * from pg_stat_database", "")),
        check("truth", &query("pg_primary", "select not pg_is_in_recovery() as is_primary", "unit = '1'")),
        check("slow", &query("slow", "select 1 as n, pg_sleep(60)", "")),
        check("huge", &query("huge", "select generate_series(1, 100000000) as n", "")),
        bad_queries(check),
        table("wrong", "postgres", &format!("{login}password = 'x'\n{}", query("m", "select 1 as n", ""))),
    ];
    let server = serve(directory.path(), &checks.concat());
    for check in ["values", "statistics", "all", "truth"] {
        has(&server, check, "ok");
    }
    orders_agree(&server, "values", &sql(BY_STATE), '|');
    counter_agrees(&server, "statistics", "pg_stat_database_xact_commit", ",datname=\"postgres\"", || {
        let committed = "select xact_commit from pg_stat_database where datname = 'postgres'";
        sql(committed).trim().parse().unwrap()
    });
    gauge(&server, "pg_primary", "truth", |is_primary| is_primary == 1.0);
    let expected = [
        ("missing", "status", "does not exist"),
        ("slow", "timeout", "slow"),
        ("huge", "limit", "more than 1000 rows"),
        ("wide", "limit", "more than 64 KiB"),
        ("writes", "status", "read-only transaction"),
        ("several", "content", "write one statement"),
        ("texts", "content", "no column of the result is a number"),
        ("same", "content", "two rows are same"),
        ("wrong", "login", "password authentication failed"),
    ];
    fail(&server, &expected);
    gauge(&server, "there", "missing", |value| value == 7.0);
    assert_eq!(number(&server, "huge", "huge", ""), None);
    assert_eq!(server.number(&latencies("wrong", "values")), None);
    statements_end(&server, "slow", || {
        let active = "select count(*) from pg_stat_activity where state = 'active' and query like '%sleep(60)%' \
                      and pid <> pg_backend_pid()";
        sql(active).trim().parse().unwrap()
    });
    let shown = said(&server, "wrong") + &said(&server, "missing") + &texts(&server, "ogive_check_up", "values");
    assert!(!shown.contains("sesame"), "{shown}");
}

/// MariaDB with an account that may log in anyhow, and one that has to use TLS.
fn mariadb(directory: &Path, port: u16) -> Program {
    let authority = Authority::new();
    std::fs::write(directory.join("ca.pem"), authority.0.pem()).unwrap();
    authority.certify_until(directory, "mariadb", 2090);
    let data = format!("--datadir={}", directory.join("mariadb").display());
    let user = is_root_here().then_some("--user=root");
    let mut command = Command::new("mariadb-install-db");
    command.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", &data]).args(user);
    let made = command.output().expect("run scripts/need mariadbd");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut command = Command::new("mariadbd");
    command.args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve", &data]).args(user);
    command.arg(format!("--port={port}")).arg(format!("--socket={}", directory.join("s").display()));
    command.arg(format!("--ssl-cert={}", directory.join("mariadb.pem").display()));
    command.arg(format!("--ssl-key={}", directory.join("mariadb.key").display()));
    let server = Program::start(command);
    listens(port);
    let accounts = "create database shop; \
                    create user monitor@'%' identified by 'open sesame'; \
                    create user private@'%' identified by 'open sesame' require ssl; \
                    grant select, insert on shop.* to monitor@'%'; \
                    grant select on shop.* to private@'%'; use shop;";
    eventually("MariaDB takes accounts", || mariadb_says(directory, &format!("{accounts} {ORDERS}")));
    server
}

/// What MariaDB's own client prints, fields between tabs; none when the server refuses.
fn mariadb_says(directory: &Path, sql: &str) -> Option<String> {
    let mut command = Command::new("mariadb");
    command.arg("--no-defaults").arg(format!("--socket={}", directory.join("s").display()));
    command.args(["--user=root", "--batch", "--skip-column-names", "--execute", sql]);
    let output = command.output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

/// Checks of a MariaDB with all that may go right and wrong.
fn mariadb_checks(directory: &Path, port: u16) -> String {
    let secret = directory.join("secret");
    std::fs::write(&secret, "open sesame\n").unwrap();
    let target = format!("target = '127.0.0.1:{port}'\n");
    let password = format!("password_file = '{}'\n", secret.display());
    let right = format!("{target}{password}user = 'monitor'\n");
    let check = |name: &str, queries: &str| table(name, "mysql", &format!("{right}database = 'shop'\n{queries}"));
    let ca = format!("ca_file = '{}'\nserver_name = 'localhost'\n", directory.join("ca.pem").display());
    let private = format!("{target}{password}user = 'private'\n");
    let status = "show global status where Variable_name in ('Connections', 'Uptime')";
    let settings = "show global variables where Variable_name in ('max_connections', 'version')";
    let checks = [
        table("alone", "mysql", &right),
        check("values", &query("shop_orders", BY_STATE, "")),
        check("status", &query("mysql_status", status, "counter = true\nvalue_columns = ['Value']")),
        check("settings", &query("mysql_settings", settings, "value_columns = ['value']")),
        check("slow", &query("slow", "select sleep(60) as n", "")),
        check("huge", &query("huge", "select seq as n from seq_1_to_100000000", "")),
        check("nothing", &query("nothing", "do 1", "")),
        bad_queries(check),
        table("wrong", "mysql", &format!("{target}user = 'monitor'\npassword = 'x'\n")),
        table("no-password", "mysql", &format!("{target}user = 'monitor'\n")),
        table("no-database", "mysql", &format!("{right}database = 'none'\n")),
        table("tls", "mysql", &format!("{private}tls = true\n{ca}{}", query("n", "select 8 as n", ""))),
        table("anyone", "mysql", &format!("{private}tls = true\ninsecure = true\n")),
        table("stranger", "mysql", &format!("{private}tls = true\n")),
        table("plain", "mysql", &private),
    ];
    checks.concat()
}

#[test]
fn mariadb_values_are_those_of_its_client() {
    let (directory, port) = (directory(), free_port());
    let _mariadb = mariadb(directory.path(), port);
    let sql = |sql: &str| mariadb_says(directory.path(), sql).expect("the server takes it");
    let server = serve(directory.path(), &mariadb_checks(directory.path(), port));
    for check in ["alone", "values", "status", "settings", "tls", "anyone"] {
        has(&server, check, "ok");
        for phase in ["resolve", "connect", "greeting", "login", "ping", "total"] {
            measured(&server, check, phase, 1.0);
        }
    }
    measured(&server, "tls", "tls", 1.0);
    gauge(&server, "ogive_check_certificate_valid", "tls", |valid| valid == 1.0);
    for (check, phase) in [("alone", "tls"), ("alone", "values"), ("wrong", "ping")] {
        assert_eq!(server.number(&latencies(check, phase)), None, "{check} has the phase {phase}");
    }
    orders_agree(&server, "values", &sql(&format!("use shop; {BY_STATE}")), '\t');
    counter_agrees(&server, "status", "mysql_status", ",variable_name=\"Connections\"", || {
        let line = sql("show global status like 'Connections'");
        line.trim().split('\t').next_back().unwrap().parse().unwrap()
    });
    let connections: f64 = sql("select @@global.max_connections").trim().parse().unwrap();
    gauge(&server, "mysql_settings", "settings", |value| value == connections);
    gauge(&server, "ogive_check_query_skipped", "settings", |skipped| skipped == 1.0);
    gauge(&server, "n", "tls", |value| value == 8.0);
    let expected = [
        ("missing", "status", "doesn't exist"),
        ("slow", "timeout", "slow"),
        ("huge", "limit", "more than 1000 rows"),
        ("wide", "limit", "more than 65536 bytes"),
        ("writes", "status", "READ ONLY transaction"),
        ("several", "status", "SQL syntax"),
        ("texts", "content", "no column of the result is a number"),
        ("same", "content", "two rows are same"),
        ("nothing", "content", "sql has no result"),
        ("wrong", "login", "Access denied"),
        ("no-password", "login", "Access denied"),
        ("no-database", "login", "'none'"),
        ("stranger", "tls", "tls: "),
        ("plain", "login", "Access denied"),
    ];
    fail(&server, &expected);
    gauge(&server, "there", "missing", |value| value == 7.0);
    assert_eq!(number(&server, "huge", "huge", ""), None);
    statements_end(&server, "slow", || {
        let active = "select count(*) from information_schema.processlist where info like 'select sleep(60)%'";
        sql(active).trim().parse().unwrap()
    });
    let shown = said(&server, "wrong") + &said(&server, "plain") + &texts(&server, "ogive_check_up", "values");
    assert!(!shown.contains("sesame"), "{shown}");
}

#[test]
fn what_does_not_speak_mysql_is_told_with_its_reason() {
    let directory = directory();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let strange = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = |listener: &TcpListener| format!("target = '{}'\nuser = 'u'", listener.local_addr().unwrap());
    let checks = [
        table("refused", "mysql", "target = '127.0.0.1:1'\nuser = 'u'"),
        table("timeout", "mysql", &target(&silent)),
        table("busy", "mysql", &target(&busy)),
        table("strange", "mysql", &target(&strange)),
    ];
    for (listener, words) in [(busy, &b"\x17\0\0\0\xff\x10\x04Too many connections"[..]), (strange, b"SSH-2.0-x\r\n")] {
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.write_all(words);
            }
        });
    }
    let server = serve(directory.path(), &checks.concat());
    has(&server, "refused", "refused");
    has(&server, "timeout", "timeout");
    says(&server, "ogive_check_no_answer", "timeout", "in the phase greeting");
    has(&server, "busy", "status");
    says(&server, "ogive_check_wrong_answer", "busy", "Too many connections");
    has(&server, "strange", "protocol");
    drop(silent);
}
