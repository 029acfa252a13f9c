//! `ogive serve --checks` on real servers: nginx, PostgreSQL, MariaDB, Redis, dnsmasq, snmpd, slapd, HAProxy, Varnish
//! and others from Debian, OpenSearch and a server of MongoDB's protocol from Maven, the kernel's own echo, and on what
//! refuses, hangs and breaks off.

mod cluster_health;
mod commands;
mod databases;
mod greetings;
mod grpc;
mod haproxy;
mod jolokia;
mod ldap;
mod mongodb;
mod snmp;
mod steps;
mod varnish;
mod websocket;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::authority::Authority;
use crate::common::programs::{Program, free_port, listens};
use crate::common::{PATIENCE, Server, clients, eventually, form};

/// A directory that servers which give up their rights can reach.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    directory
}

fn serve(directory: &Path, checks: &str) -> Server {
    let file = directory.join("checks.toml");
    std::fs::write(&file, checks).unwrap();
    let args = ["--listen", "127.0.0.1:0", "--checks", file.to_str().unwrap()];
    Server::try_start(&directory.join("data"), &args).unwrap_or_else(|said| panic!("no start: {said}"))
}

/// A table of a check that runs each second.
fn table(name: &str, kind: &str, keys: &str) -> String {
    format!("[[check]]\nname = '{name}'\nkind = '{kind}'\nperiod = '1s'\ntimeout = '500ms'\n{keys}\n")
}

/// Waits until `check` has had `result`, and was up if that is `ok`; in no other case it ever was. A machine that is
/// busy may let single runs time out, and what a run reports need not be seen all at once.
fn has(server: &Server, check: &str, result: &str) {
    let runs = format!("sum(sum_over_time(ogive_check_runs_total{{check=\"{check}\",result=\"{result}\"}}[1h]))");
    let up = format!("max_over_time(ogive_check_up{{check=\"{check}\"}}[1h])");
    let is_ok = result == "ok";
    let from = Instant::now();
    while !(server.number(&runs) > Some(0.0) && server.number(&up) >= Some(f64::from(u8::from(is_ok)))) {
        assert!(from.elapsed() < PATIENCE, "{check} has no {result}: {}", said(server, check));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(is_ok || server.number(&up) == Some(0.0), "{check} was up, and had {result}");
}

/// The number of measurements of a phase.
fn latencies(check: &str, phase: &str) -> String {
    format!("sum(histogram_count(sum_over_time(ogive_check_seconds{{check=\"{check}\",phase=\"{phase}\"}}[1h])))")
}

/// Waits until a phase was measured so often.
fn measured(server: &Server, check: &str, phase: &str, count: f64) {
    eventually(&format!("{check} {phase}"), || server.number(&latencies(check, phase)).filter(|found| *found >= count));
}

/// Waits for a state of a check.
fn gauge(server: &Server, metric: &str, check: &str, is_it: impl Fn(f64) -> bool) {
    let expr = format!("{metric}{{check=\"{check}\"}}");
    eventually(&expr, || server.number(&expr).filter(|value| is_it(*value)));
}

/// Waits until a text of a check holds `words`.
fn says(server: &Server, metric: &str, check: &str, words: &str) {
    eventually(&format!("{check} says {words}"), || texts(server, metric, check).contains(words).then_some(()));
}

/// The ports that a client says, each in a line behind a name.
fn ports(client: &mut clients::Client, count: usize) -> BTreeMap<String, u16> {
    let named = |line: String| {
        let (name, port) = line.split_once(' ').expect("a name and a port");
        (name.to_owned(), port.parse().expect("a port"))
    };
    (0..count).map(|_| named(client.line())).collect()
}

/// Why a check was not up.
fn said(server: &Server, check: &str) -> String {
    texts(server, "ogive_check_no_answer", check) + &texts(server, "ogive_check_wrong_answer", check)
}

/// Everything that the texts of a check say.
fn texts(server: &Server, metric: &str, check: &str) -> String {
    let selector = form(&format!("{metric}{{check=\"{check}\"}}"));
    let (status, body) = server.get(&format!("/v1/cells?match[]={selector}&start=0&end=9999999999"));
    assert_eq!(status, 200, "{body}");
    body.to_string()
}

/// nginx with a page over HTTP, over TLS, and over TLS with a certificate that is over.
fn nginx(directory: &Path, ports: [u16; 3]) -> Program {
    let authority = Authority::new();
    std::fs::write(directory.join("ca.pem"), authority.0.pem()).unwrap();
    authority.certify_until(directory, "good", 2090);
    authority.certify_until(directory, "old", 2024);
    let [plain, good, old] = ports;
    let place = directory.display();
    let tls = |port, name| {
        format!(
            "server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {place}/{name}.pem; \
             ssl_certificate_key {place}/{name}.key; location / {{ return 200 'all is well'; }} }}"
        )
    };
    let plain = format!(
        "server {{ listen 127.0.0.1:{plain}; location / {{ return 200 'all is well'; }} \
         location /moved {{ return 302 /; }} location /broken {{ return 503 'no'; }} }}"
    );
    let program = nginx_of(directory, &[plain, tls(good, "good"), tls(old, "old")].concat());
    ports.into_iter().for_each(listens);
    program
}

/// nginx with these servers.
fn nginx_of(directory: &Path, servers: &str) -> Program {
    let place = directory.display();
    let config = format!(
        "daemon off; master_process off; pid {place}/nginx.pid; error_log {place}/nginx.log; events {{}} http {{ access_log off; \
         client_body_temp_path {place}/b; proxy_temp_path {place}/p; fastcgi_temp_path {place}/f; \
         uwsgi_temp_path {place}/u; scgi_temp_path {place}/s; {servers} }}"
    );
    std::fs::write(directory.join("nginx.conf"), config).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-c").arg(directory.join("nginx.conf")).arg("-e").arg(directory.join("nginx.log"));
    Program::start(command)
}

#[test]
fn nginx_is_asked_over_http_and_tls() {
    let directory = directory();
    let ports = [free_port(), free_port(), free_port()];
    let _nginx = nginx(directory.path(), ports);
    let [plain, good, old] = ports;
    let ca = format!("ca_file = '{}'", directory.path().join("ca.pem").display());
    let url = |port: u16, path: &str| format!("target = 'http://127.0.0.1:{port}{path}'");
    let tls = |port: u16| format!("target = 'https://localhost:{port}/'");
    let checks = [
        table("page", "http", &format!("{}\nbody_regex = 'all is w.ll'\nlabels = {{team = 'x'}}", url(plain, "/"))),
        table("moved", "http", &format!("{}\nredirects = 1\nbody_regex = 'well'", url(plain, "/moved"))),
        table("status", "http", &url(plain, "/broken")),
        table("wanted-status", "http", &format!("{}\nstatus = [503]", url(plain, "/broken"))),
        table("content", "http", &format!("{}\nbody_regex = 'ill'", url(plain, "/"))),
        table("good", "http", &format!("{}\n{ca}", tls(good))),
        table("unknown", "http", &tls(good)),
        table("old", "tls", &format!("target = 'localhost:{old}'\n{ca}")),
        table("port", "tcp", &format!("target = '127.0.0.1:{plain}'")),
    ];
    let server = serve(directory.path(), &checks.concat());
    for check in ["page", "moved", "wanted-status", "good", "port"] {
        has(&server, check, "ok");
        measured(&server, check, "total", 1.0);
    }
    for (check, result) in [("status", "status"), ("content", "content"), ("unknown", "tls"), ("old", "tls")] {
        has(&server, check, result);
        says(&server, "ogive_check_wrong_answer", check, &format!("{result}: "));
        measured(&server, check, "total", 1.0);
    }
    for phase in ["resolve", "connect", "tls", "first_byte", "body", "total"] {
        measured(&server, "good", phase, 1.0);
    }
    assert_eq!(server.number(&latencies("page", "tls")), None);
    gauge(&server, "ogive_check_http_status", "status", |status| status == 503.0);
    gauge(&server, "ogive_check_body_bytes", "page", |bytes| bytes == 11.0);
    let year = 365.0 * 86_400.0;
    gauge(&server, "ogive_check_certificate_seconds", "good", |left| left > 30.0 * year);
    gauge(&server, "ogive_check_certificate_seconds", "old", |left| left < -year / 4.0);
    gauge(&server, "ogive_check_certificate_valid", "good", |valid| valid == 1.0);
    gauge(&server, "ogive_check_certificate_valid", "old", |valid| valid == 0.0);
    let labels = form("{check=\"page\"}");
    let (_, found) = server.get(&format!("/api/v1/query?query=ogive_check_up{labels}"));
    let labels = &found["data"]["result"][0]["metric"];
    assert_eq!((&labels["kind"], &labels["team"]), (&"http".into(), &"x".into()), "{labels}");
}

#[test]
fn what_does_not_answer_is_told_with_its_reason() {
    let directory = directory();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let rude = TcpListener::bind("127.0.0.1:0").unwrap();
    let strange = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let http = |port: u16| format!("target = 'http://127.0.0.1:{port}/'");
    let checks = [
        table("refused", "tcp", "target = '127.0.0.1:1'"),
        table("timeout", "http", &http(port(&silent))),
        table("closed", "http", &http(port(&rude))),
        table("protocol", "http", &http(port(&strange))),
        table("dns", "http", "target = 'http://no.such.name.invalid/'"),
        table("redis-protocol", "redis", &format!("target = '127.0.0.1:{}'", port(&strange))),
    ];
    std::thread::spawn(move || rude.incoming().flatten().for_each(drop));
    std::thread::spawn(move || {
        for mut stream in strange.incoming().flatten() {
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(b"what do you want?\r\n");
        }
    });
    let server = serve(directory.path(), &checks.concat());
    for check in ["refused", "timeout", "closed"] {
        has(&server, check, check);
        says(&server, "ogive_check_no_answer", check, &format!("{check}: "));
    }
    // A resolver that is not there is waited for, until the time is over.
    gauge(&server, "ogive_check_up", "dns", |up| up == 0.0);
    eventually("dns says why", || {
        let said = texts(&server, "ogive_check_no_answer", "dns");
        ["dns: ", "timeout: "].iter().any(|reason| said.contains(reason)).then_some(())
    });
    has(&server, "protocol", "protocol");
    has(&server, "redis-protocol", "protocol");
    // What was there is reported.
    measured(&server, "timeout", "connect", 1.0);
    for check in ["refused", "timeout", "closed", "dns"] {
        assert_eq!(server.number(&latencies(check, "total")), None, "{check} has a latency");
    }
    drop(silent);
}

#[test]
fn postgres_and_redis_answer_to_who_may_ask() {
    let directory = directory();
    let (postgres_port, redis_port) = (free_port(), free_port());
    let _postgres = postgres(directory.path(), postgres_port);
    let mut redis = Command::new("redis-server");
    let words =
        ["--port", &redis_port.to_string(), "--bind", "127.0.0.1", "--requirepass", "open sesame", "--save", ""];
    redis.args(words).current_dir(directory.path());
    let _redis = Program::start(redis);
    listens(redis_port);
    let secret = directory.path().join("secret");
    std::fs::write(&secret, "open sesame\n").unwrap();
    let redis = format!("target = '127.0.0.1:{redis_port}'\n");
    let postgres = format!("target = '127.0.0.1:{postgres_port}'\n");
    let right = format!("password_file = '{}'", secret.display());
    let checks = [
        table("redis", "redis", &format!("{redis}{right}")),
        table("redis-wrong", "redis", &format!("{redis}password = 'x'")),
        table("redis-none", "redis", &redis),
        table("scram", "postgres", &format!("{postgres}user = 'scram'\ndatabase = 'postgres'\n{right}")),
        table("scram-wrong", "postgres", &format!("{postgres}user = 'scram'\ndatabase = 'postgres'\npassword = 'x'")),
        table("md5", "postgres", &format!("{postgres}user = 'hashed'\ndatabase = 'postgres'\n{right}")),
        table("plain", "postgres", &format!("{postgres}user = 'plain'\ndatabase = 'postgres'\n{right}")),
        table("no-database", "postgres", &format!("{postgres}user = 'scram'\ndatabase = 'none'\n{right}")),
        table("no-tls", "postgres", &format!("{postgres}user = 'scram'\ntls = true\n{right}")),
    ];
    let server = serve(directory.path(), &checks.concat());
    for check in ["redis", "scram", "md5", "plain"] {
        has(&server, check, "ok");
        for phase in ["connect", "login", "query", "total"] {
            measured(&server, check, phase, 1.0);
        }
    }
    for check in ["redis-wrong", "redis-none", "scram-wrong", "no-database"] {
        has(&server, check, "login");
    }
    has(&server, "no-tls", "tls");
}

/// A PostgreSQL whose users log in with SCRAM, with MD5 and with the password itself. It does not run as root.
fn postgres(directory: &Path, port: u16) -> Program {
    let data = directory.join("postgres");
    let mut command = postgres_program(directory, "initdb");
    // Whatever locale the machine asks for, it need not have it.
    let arguments = ["-U", "postgres", "--auth=trust", "--no-sync", "--no-locale", "-E", "UTF8"];
    let made = command.arg("-D").arg(&data).args(arguments).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    // Before it starts: it reads them again some time after the signal.
    let rules =
        "local all all trust\nhost all scram all scram-sha-256\nhost all hashed all md5\nhost all plain all password\n";
    std::fs::write(data.join("pg_hba.conf"), rules).unwrap();
    let mut command = postgres_program(directory, "postgres");
    command.arg("-D").arg(&data).arg("-k").arg(directory).args(["-p", &port.to_string(), "-F"]);
    let server = Program::start(command);
    listens(port);
    let roles = "create role scram login password 'open sesame'; create role plain login password 'open sesame'; \
                 set password_encryption = md5; create role hashed login password 'open sesame';";
    eventually("PostgreSQL takes roles", || psql(directory, port, roles));
    server
}

/// One of PostgreSQL's programs, as its own user where this is root.
fn postgres_program(directory: &Path, name: &str) -> Command {
    let mut versions: Vec<PathBuf> =
        std::fs::read_dir("/usr/lib/postgresql").unwrap().map(|entry| entry.unwrap().path()).collect();
    versions.sort();
    let path = versions.last().expect("run scripts/need postgres").join("bin").join(name);
    let is_root = is_root_here();
    let mut command = Command::new(if is_root { Path::new("runuser") } else { &path });
    if is_root {
        command.args(["-u", "postgres", "--"]).arg(&path);
    }
    command.current_dir(directory);
    command
}

/// What PostgreSQL's own client prints, fields between bars; none when the server refuses.
fn psql(directory: &Path, port: u16, sql: &str) -> Option<String> {
    let mut command = postgres_program(directory, "psql");
    command.arg("-h").arg(directory).args(["-p", &port.to_string(), "-U", "postgres", "-qAtc", sql]);
    let output = command.output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

fn is_root_here() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    String::from_utf8_lossy(&id.stdout).trim() == "0"
}

#[test]
fn names_and_hosts_answer() {
    let directory = directory();
    let port = free_port();
    let mut dnsmasq = Command::new("dnsmasq");
    dnsmasq.args([
        "--keep-in-foreground",
        "--no-resolv",
        "--no-hosts",
        "--listen-address=127.0.0.1",
        "--bind-interfaces",
    ]);
    dnsmasq.args(["--conf-file=/dev/null", "--pid-file=", "--host-record=a.example,192.0.2.7", "--log-facility=-"]);
    dnsmasq.args(["--mx-host=a.example,mail.example,10", "--txt-record=a.example,v=1", "--local=/example/"]);
    // More than fits into a datagram of 512 bytes.
    dnsmasq.args((0..60).map(|at| format!("--host-record=many.example,192.0.2.{}", at + 1)));
    dnsmasq.arg(format!("--port={port}"));
    let _dnsmasq = Program::start(dnsmasq);
    listens(port);
    let ask = |keys: &str| format!("target = '127.0.0.1:{port}'\n{keys}");
    let checks = [
        table("address", "dns", &ask("query = 'a.example'\nexpect = ['192.0.2.7']")),
        table("mail", "dns", &ask("query = 'a.example'\nrecord = 'MX'\nexpect = ['10 mail.example']")),
        table("text", "dns", &ask("query = 'a.example'\nrecord = 'TXT'\nexpect = ['v=1']")),
        table("many", "dns", &ask("query = 'many.example'\nexpect = ['192.0.2.60']")),
        table("other", "dns", &ask("query = 'a.example'\nexpect = ['192.0.2.8']")),
        table("none", "dns", &ask("query = 'b.example'")),
        table("nobody", "dns", "target = '127.0.0.1:1'\nquery = 'a.example'"),
        table("ping", "icmp", "target = '127.0.0.1'\ncount = 2"),
    ];
    let server = serve(directory.path(), &checks.concat());
    for check in ["address", "mail", "text", "many"] {
        has(&server, check, "ok");
    }
    gauge(&server, "ogive_check_dns_answers", "many", |count| count == 60.0);
    for (check, result) in [("other", "content"), ("none", "status"), ("nobody", "refused")] {
        has(&server, check, result);
    }
    pings(&server, "ping");
}

/// Waits for a run of two pings that both come back. The kernel may forbid them; then it is said how to allow them.
fn pings(server: &Server, check: &str) {
    let forbidden = "local: the kernel does not let this process ping";
    let lost = format!("min_over_time(ogive_check_icmp_lost{{check=\"{check}\"}}[1h])");
    let is_allowed = eventually("the pings come back, or are forbidden", || {
        let allowed = (server.number(&lost) == Some(0.0)).then_some(true);
        allowed.or_else(|| texts(server, "ogive_check_no_answer", check).contains(forbidden).then_some(false))
    });
    if is_allowed {
        measured(server, check, "echo", 2.0);
        has(server, check, "ok");
    } else {
        has(server, check, "local");
    }
}

#[test]
fn a_reload_changes_what_is_checked_and_mistakes_change_nothing() {
    let directory = directory();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("target = '{}'", listener.local_addr().unwrap());
    let server = serve(directory.path(), &table("first", "tcp", &target));
    // Four more runs take longer than the second that a count is of.
    let goes_on = |check: &str| {
        let runs = || server.number(&format!("count_over_time(ogive_check_up{{check=\"{check}\"}}[1h])"));
        let from = eventually(&format!("{check} runs"), runs);
        eventually(&format!("{check} goes on"), || runs().filter(|runs| *runs >= from + 4.0));
    };
    has(&server, "first", "ok");
    let reload = |text: &str| {
        std::fs::write(directory.path().join("checks.toml"), text).unwrap();
        server.signal("HUP");
    };
    reload("[[check]]\nname = 'x'");
    goes_on("first");
    reload(&table("second", "tcp", &target));
    has(&server, "second", "ok");
    // The first is not asked any more, and has no state: not even that of its last run.
    eventually("the first has ended", || server.number("ogive_check_up{check=\"first\"}").is_none().then_some(()));
    let runs = || server.number("sum(sum_over_time(ogive_check_runs_total{check=\"first\"}[1h]))").unwrap();
    // The count of its last run is seen when its second is over, and the mark that it ended at once.
    goes_on("second");
    let before = runs();
    goes_on("second");
    assert_eq!(runs(), before);
    // A file that was cut off is one of fewer checks; those in force go on.
    let both = table("second", "tcp", &target) + &table("third", "tcp", &target);
    reload(&both);
    has(&server, "third", "ok");
    for (failures, text) in [(2.0, both.find("[[check]]\nname = 'third'").map(|at| &both[..at - 1])), (3.0, Some(""))] {
        reload(text.expect("it is in the file"));
        server.becomes("ogive_config_reload_failures_total{config=\"checks\"}", failures);
        goes_on("third");
    }
    server.becomes("ogive_config_refused{config=\"checks\"}", 1.0);
    reload("check = []\n");
    eventually("all have ended, as it says", || server.number("sum(ogive_check_up)").is_none().then_some(()));
    server.becomes("ogive_config_refused{config=\"checks\"}", 0.0);
}

/// Everything that is reached by a host and a port, by the other version of the Internet Protocol.
#[test]
fn version_6_of_the_protocol_is_spoken_too() {
    let directory = directory();
    let Ok(listener) = TcpListener::bind("[::1]:0") else {
        return eprintln!("NOT CHECKED: this machine has no address ::1");
    };
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
            let mut request = [0; 4096];
            if stream.read(&mut request).is_ok_and(|length| {
                request[..length]
                    .windows(9)
                    .any(|word| word == b"host: [::".as_slice() || word == b"Host: [::".as_slice())
            }) {
                let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
            }
        }
    });
    let names = free_port();
    let mut dnsmasq = Command::new("dnsmasq");
    dnsmasq.args(["--keep-in-foreground", "--no-resolv", "--no-hosts", "--listen-address=::1", "--bind-interfaces"]);
    dnsmasq.args(["--conf-file=/dev/null", "--pid-file=", "--host-record=a.example,2001:db8::7", "--log-facility=-"]);
    dnsmasq.arg(format!("--port={names}"));
    let _dnsmasq = Program::start(dnsmasq);
    eventually("dnsmasq listens", || TcpStream::connect((std::net::Ipv6Addr::LOCALHOST, names)).ok());
    let checks = [
        table("tcp", "tcp", &format!("target = '[::1]:{port}'")),
        table("http", "http", &format!("target = 'http://[::1]:{port}/'\nstatus = [204]")),
        table(
            "dns",
            "dns",
            &format!("target = '[::1]:{names}'\nquery = 'a.example'\nrecord = 'AAAA'\nexpect = ['2001:db8::7']"),
        ),
        table("ping", "icmp", "target = '::1'\ncount = 2"),
    ];
    let server = serve(directory.path(), &checks.concat());
    for check in ["tcp", "http", "dns"] {
        has(&server, check, "ok");
    }
    pings(&server, "ping");
}

/// GetMetricData with dimensions, asked of moto with signed requests; the values were put there by the client of AWS.
#[test]
fn cloudwatch_metrics_come_with_their_dimensions() {
    let directory = directory();
    let port = free_port();
    let mut moto = clients::moto("moto_server");
    moto.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
    let _moto = Program::start(moto);
    listens(port);
    let endpoint = format!("http://127.0.0.1:{port}");
    let mut put = clients::moto("python");
    put.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/cloudwatch.py")).arg(&endpoint);
    let put = put.output().unwrap();
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    let metric = |dimension: &str, more: &str| {
        format!(
            "[[check.metric]]\nnamespace = 'Shop'\nname = 'QueueAge'\ndimensions = {{QueueName = '{dimension}'}}\n{more}\n"
        )
    };
    let keys = "region = 'eu-west-1'\naccess_key_id = 'id'\nsecret_access_key = 'secret'\ndelay = '1s'";
    // What is asked on a busy machine may take its time.
    let table = |name: &str, endpoint: &str| {
        let head = "kind = 'cloudwatch'\nperiod = '20s'\ntimeout = '9s'";
        format!("[[check]]\nname = '{name}'\n{head}\nendpoint = '{endpoint}'\n{keys}\n")
    };
    let requested = table("shop", &endpoint)
        + &metric("orders", "statistics = ['Sum', 'Average', 'SampleCount']")
        + &metric("mail", "statistics = ['Sum']")
        + &metric("nobody", "statistics = ['Sum']");
    let server = serve(directory.path(), &requested);
    let value = |queue: &str, statistic: &str| {
        let selector = format!(
            "aws_shop_queue_age{{dimension_QueueName=\"{queue}\",statistic=\"{statistic}\",region=\"eu-west-1\"}}"
        );
        server.number(&format!("last_over_time({selector}[10m])"))
    };
    let all =
        [("orders", "Sum", 4.0), ("orders", "Average", 2.0), ("orders", "SampleCount", 2.0), ("mail", "Sum", 7.0)];
    for (queue, statistic, expected) in all {
        let found = eventually(&format!("{statistic} of {queue}"), || value(queue, statistic));
        assert_eq!(found, expected, "{statistic} of {queue}");
    }
    let points = |queue: &str| {
        let selector = format!("{{dimension_QueueName=\"{queue}\",statistic=\"Sum\"}}");
        format!("max(max_over_time(ogive_check_cloudwatch_points{selector}[1h]))")
    };
    server.becomes(&points("orders"), 1.0);
    server.becomes(&points("nobody"), 0.0);
    assert_eq!(value("nobody", "Sum"), None);
}

#[test]
fn a_file_with_a_mistake_starts_no_server() {
    let directory = directory();
    let file = directory.path().join("checks.toml");
    std::fs::write(&file, "\n[[check]]\nname = 'a'\nkind = 'tpc'\n").unwrap();
    let args = ["--listen", "127.0.0.1:0", "--checks", file.to_str().unwrap()];
    let said = Server::try_start(&directory.path().join("data"), &args).err().expect("it does not start");
    assert!(said.contains("checks.toml, line 2: check \"a\": there is no kind \"tpc\""), "{said}");
}
