//! Syslog of real senders (nginx, rsyslog, logger), GELF, Beats, Fluent Forward, SNMP notifications and journals, and
//! what filters make of their lines: what was sent is what is stored.

mod beats;
mod fluent;
mod journald;
mod sessions;
mod shippers;
mod snmp;

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::authority::Authority;
use crate::common::brokers::{broker, configure, url};
use crate::common::programs::{Program, free_port, listens};
use crate::common::{Server, eventually, form};
use rcgen::ExtendedKeyUsagePurpose;
use serde_json::Value;

/// A directory that servers which give up their rights can reach.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    directory
}

fn serve(directory: &Path, more: &[&str]) -> Server {
    let args: Vec<&str> = ["--listen", "127.0.0.1:0", "--syslog", "127.0.0.1:0"].iter().chain(more).copied().collect();
    Server::try_start(&directory.join("data"), &args).unwrap_or_else(|said| panic!("no start: {said}"))
}

fn port_of(server: &Server, transport: &str) -> u16 {
    server.line_address("syslog", transport).rsplit(':').next().unwrap().parse().unwrap()
}

/// The stored lines of a search.
fn lines(server: &Server, query: &str) -> Vec<Value> {
    let (status, body) = server.get(&format!("/v1/logs?limit=5000&query={}", form(query)));
    assert_eq!(status, 200, "{body}");
    body["data"]["lines"].as_array().unwrap().clone()
}

/// What programs wrote, without what syslog says beside it.
fn bodies(lines: &[Value]) -> BTreeSet<String> {
    let body = |line: &Value| {
        let text = line["line"].as_str().unwrap();
        let record = serde_json::from_str::<Value>(text).ok();
        record.and_then(|record| record["body"].as_str().map(str::to_owned)).unwrap_or_else(|| text.to_owned())
    };
    lines.iter().map(body).collect()
}

/// A count of the filters.
fn outcome(server: &Server, filter: &str, outcome: &str) -> f64 {
    let (_, text) = server.request("GET /metrics HTTP/1.1", b"").unwrap();
    let begin = format!("ogive_filter_events_total{{filter=\"{filter}\",outcome=\"{outcome}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&begin)).unwrap_or_else(|| panic!("no {begin}")).parse().unwrap()
}

fn unreadable(server: &Server) -> Vec<String> {
    unreadable_of(server, "syslog")
}

fn unreadable_of(server: &Server, protocol: &str) -> Vec<String> {
    let (_, text) = server.request("GET /metrics HTTP/1.1", b"").unwrap();
    let protocol = format!("protocol=\"{protocol}\"");
    let is_found = |line: &&str| {
        line.starts_with("ogive_ingest_unreadable_total{") && line.contains(&protocol) && !line.ends_with(" 0")
    };
    text.lines().filter(is_found).map(str::to_owned).collect()
}

#[test]
fn lines_of_nginx_become_histograms() {
    let directory = directory();
    let server = serve(directory.path(), &["--filters", "nginx"]);
    let (place, port, syslog) = (directory.path().display(), free_port(), port_of(&server, "udp"));
    let config = format!(
        "daemon off; master_process off; pid {place}/nginx.pid; events {{}} error_log syslog:server=127.0.0.1:{syslog},tag=nginx error; http {{ \
         log_format ogive '$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
         \"$http_referer\" \"$http_user_agent\" rt=$request_time urt=$upstream_response_time'; \
         access_log syslog:server=127.0.0.1:{syslog},tag=nginx,severity=info ogive; \
         client_body_temp_path {place}/b; proxy_temp_path {place}/p; fastcgi_temp_path {place}/f; \
         uwsgi_temp_path {place}/u; scgi_temp_path {place}/s; \
         server {{ listen 127.0.0.1:{port}; location / {{ return 200 'all is well'; }} \
         location /broken {{ return 503 'no'; }} location /gone {{ root /nonexistent; }} }} }}"
    );
    std::fs::write(directory.path().join("nginx.conf"), config).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-c").arg(directory.path().join("nginx.conf")).arg("-e").arg(directory.path().join("nginx.log"));
    let _nginx = Program::start(command);
    listens(port);
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
    };
    for at in 0..150 {
        ask(&format!("/a?at={at}&password=hunter2"));
    }
    (0..40).for_each(|_| ask("/broken"));
    (0..10).for_each(|_| ask("/gone"));
    server.grows_to("sum(increase(nginx_requests_total[5m]))", 200.0);
    server.grows_to("sum(increase(nginx_requests_total{status=\"503\", method=\"GET\"}[5m]))", 40.0);
    server.grows_to("histogram_count(sum(increase(nginx_request_seconds[5m])))", 200.0);
    server.grows_to("sum(increase(nginx_errors_total{level=\"error\"}[5m]))", 10.0);
    // Every body has its bytes: 150 of `all is well`, 40 of `no`, 10 of nginx's own page.
    // Their histograms come in one batch, which is visible series by series.
    server.grows_to("histogram_count(sum(increase(nginx_response_bytes[5m])))", 200.0);
    let bytes = server.number("histogram_sum(sum(increase(nginx_response_bytes{status=~\"200|503\"}[5m])))").unwrap();
    assert!((bytes - (150.0 * 11.0 + 40.0 * 2.0)).abs() < 1e-6, "{bytes}");
    assert_eq!(shippers::stored(&server, r#"log{job="nginx"}"#, 210).len(), 210);
    let masked = lines(&server, r#"log{job="nginx"} password"#);
    assert_eq!(masked.len(), 150);
    assert!(masked.iter().all(|line| line["line"].as_str().unwrap().contains("&password=*** HTTP")), "{}", masked[0]);
    assert_eq!(
        (outcome(&server, "nginx-access", "unparsed"), outcome(&server, "nginx-access", "matched")),
        (0.0, 200.0)
    );
    let (_, status) = server.get("/v1/status");
    assert_eq!(
        (&status["syslog_received_total"], &status["syslog_unreadable_total"]),
        (&210.into(), &0.into()),
        "{status}"
    );
}

/// Writes the certificate of a server, its authority and the configuration that names it.
fn certify(directory: &Path) {
    let authority = Authority::new();
    std::fs::write(directory.join("ca.pem"), authority.0.pem()).unwrap();
    authority.certify(directory, "server", ExtendedKeyUsagePurpose::ServerAuth);
    let config = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n";
    std::fs::write(directory.join("web.yml"), config).unwrap();
}

/// The stored lines of a job, from a server that `certify` has certified.
fn lines_by_tls(server: &Server, directory: &Path, job: &str) -> Vec<Value> {
    let url = format!("https://{}/v1/logs?limit=5000&query={}", server.address, form(&format!("{{job=\"{job}\"}}")));
    let output =
        Command::new("curl").args(["-s", "--cacert"]).arg(directory.join("ca.pem")).arg(&url).output().unwrap();
    let body: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    body["data"]["lines"].as_array().cloned().unwrap_or_default()
}

/// rsyslog with this configuration; what it cannot do is in its file of errors.
fn rsyslog(directory: &Path, config: &str) -> Program {
    let path = directory.join("rsyslog.conf");
    let work = directory.join("rsyslog");
    std::fs::create_dir_all(&work).unwrap();
    std::fs::write(&path, format!("global(workDirectory=\"{}\" localHostname=\"edge-1\")\n{config}\n", work.display()))
        .unwrap();
    let mut command = Command::new("rsyslogd");
    command.args(["-n", "-f"]).arg(&path).arg("-i").arg(directory.join("rsyslog.pid"));
    Program::start(command)
}

#[test]
fn rsyslog_brings_every_line_by_tcp_and_with_tls() {
    let directory = directory();
    let place = directory.path().display().to_string();
    certify(directory.path());
    let server = serve(directory.path(), &["--syslog", "tls:127.0.0.1:0", "--web-config", &format!("{place}/web.yml")]);
    let (tcp, tls) = (port_of(&server, "tcp"), server.said.split("tls:127.0.0.1:").nth(1).unwrap());
    let tls: u16 = tls.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
    let expected: BTreeSet<String> =
        (0..1_000).map(|at| format!("line {at} says \"ä\" {}", "x".repeat(at % 300))).collect();
    for name in ["plain", "tls"] {
        let text: String = expected.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let config = format!(
        "global(defaultNetstreamDriverCAFile=\"{place}/ca.pem\")\nmodule(load=\"imfile\" mode=\"polling\" pollingInterval=\"1\")\n\
         input(type=\"imfile\" File=\"{place}/plain\" Tag=\"plain:\" Severity=\"warning\" Facility=\"local3\" ruleset=\"tcp\")\n\
         input(type=\"imfile\" File=\"{place}/tls\" Tag=\"tls:\" Severity=\"info\" Facility=\"local0\" ruleset=\"tls\")\n\
         ruleset(name=\"tcp\") {{ action(type=\"omfwd\" Target=\"127.0.0.1\" Port=\"{tcp}\" Protocol=\"tcp\" \
         TCP_Framing=\"octet-counted\" Template=\"RSYSLOG_SyslogProtocol23Format\") }}\n\
         ruleset(name=\"tls\") {{ action(type=\"omfwd\" Target=\"127.0.0.1\" Port=\"{tls}\" Protocol=\"tcp\" \
         StreamDriver=\"gtls\" StreamDriverMode=\"1\" StreamDriverAuthMode=\"x509/name\" StreamDriverPermittedPeers=\"server\" \
         Template=\"RSYSLOG_ForwardFormat\") }}"
    );
    let _rsyslog = rsyslog(directory.path(), &config);
    let stored = |job: &str| lines_by_tls(&server, directory.path(), job);
    for (job, labels) in [("plain", ["local3", "warning"]), ("tls", ["local0", "info"])] {
        let found = eventually(job, || Some(stored(job)).filter(|found| found.len() >= expected.len()));
        assert_eq!((found.len(), bodies(&found) == expected), (expected.len(), true), "{job}: {}", found[0]);
        let of = |name: &str| found[0]["labels"][name].as_str().unwrap().to_owned();
        assert_eq!([of("facility"), of("severity")], labels);
        assert_eq!(of("instance"), "edge-1");
    }
}

#[test]
fn logger_sends_both_standards_by_every_transport() {
    let directory = directory();
    let server = serve(directory.path(), &[]);
    let (udp, tcp) = (port_of(&server, "udp").to_string(), port_of(&server, "tcp").to_string());
    for standard in ["--rfc3164", "--rfc5424=notq"] {
        for (transport, port) in [(&["-d"][..], &udp), (&["-T"], &tcp), (&["-T", "--octet-count"], &tcp)] {
            let tag = format!("{}{}", &standard[5..9], transport.concat().replace('-', ""));
            let mut command = Command::new("logger");
            command
                .args(["-n", "127.0.0.1", "-P", port, standard, "-t", &tag, "-p", "auth.err", "--id=77"])
                .args(transport);
            assert!(command.arg(format!("hello from {tag}")).status().expect("run scripts/need").success());
            let found = eventually(&tag, || {
                Some(lines(&server, &format!("{{job=\"{tag}\"}}"))).filter(|found| !found.is_empty())
            });
            assert_eq!((found.len(), bodies(&found)), (1, BTreeSet::from([format!("hello from {tag}")])));
            assert!(found[0]["line"].as_str().unwrap().contains("\"pid\":\"77\""), "{}", found[0]);
            assert_eq!((&found[0]["labels"]["facility"], &found[0]["severity"]), (&"auth".into(), &"error".into()));
        }
    }
    assert_eq!(unreadable(&server), [""; 0]);
}

#[test]
fn lengths_that_lie_end_the_connection_and_are_counted() {
    let directory = directory();
    let server = serve(directory.path(), &["--line-connections", "64"]);
    for lie in ["99999999 <13>x", "9999999999999 <13>x", "12x<13>y", "no priority\n", "70000 <13>z"] {
        let mut stream = TcpStream::connect(server.line_address("syslog", "tcp")).unwrap();
        stream.write_all(lie.as_bytes()).unwrap();
    }
    let found = |reason: &str, count: u32| {
        eventually(reason, || {
            let line = format!("reason=\"{reason}\"}} {count}");
            unreadable(&server).iter().any(|found| found.ends_with(&line)).then_some(())
        });
    };
    found("length_invalid", 3);
    found("fields", 1);
    found("line_too_long", 1);
    let mut stream = TcpStream::connect(server.line_address("syslog", "tcp")).unwrap();
    stream.write_all(b"<13>Nov 24 02:03:04 h app: still here\n").unwrap();
    eventually("the line", || (lines(&server, "{job=\"app\"}").len() == 1).then_some(()));
}

/// A program of PostgreSQL; it does not run as root.
fn postgres(directory: &Path, name: &str) -> Command {
    let versions = std::fs::read_dir("/usr/lib/postgresql").expect("run scripts/need postgres");
    let mut versions: Vec<PathBuf> = versions.map(|entry| entry.unwrap().path()).collect();
    versions.sort();
    let path = versions.last().unwrap().join("bin").join(name);
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout.trim_ascii() == b"0";
    let mut command = Command::new(if is_root { Path::new("runuser") } else { &path });
    if is_root {
        command.args(["-u", "postgres", "--"]).arg(&path);
    }
    command.current_dir(directory);
    command
}

/// Lines that PostgreSQL writes about statements, one of them with a line's end inside.
fn lines_of_postgresql(directory: &Path) -> String {
    let data = directory.join("postgres");
    let arguments = ["-U", "postgres", "--auth=trust", "--no-sync", "--no-locale", "-E", "UTF8"];
    let made = postgres(directory, "initdb").arg("-D").arg(&data).args(arguments).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let options = ["-c", "log_min_duration_statement=0", "-c", "log_line_prefix=%m [%p] %q%u@%d ", "-F", "-j"];
    let mut command = postgres(directory, "postgres");
    command.args(["--single", "-D"]).arg(&data).args(options).arg("postgres");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let sql = "select 1;\n\nselect pg_sleep(0.05);\n\nselect 2,\n 3;\n\nselect * from nowhere;\n\n";
    child.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap()
}

/// A broker's own filters work before its spool: what is dropped there is never sent.
#[test]
fn lines_of_postgresql_become_histograms_on_a_broker() {
    let directory = directory();
    let text = lines_of_postgresql(directory.path());
    let durations = text.lines().filter(|line| line.contains("LOG:  duration: ")).count();
    assert_eq!(durations, 3, "{text}");
    let server = Server::start(&directory.path().join("data"));
    let edge = directory.path().join("edge");
    std::fs::create_dir(&edge).unwrap();
    let path = configure(&edge, "127.0.0.1:0", "", &[("main", &[url(&server)], "")]);
    let before = "syslog = [\"127.0.0.1:0\"]\nfilters = [\"postgresql\"]\n";
    let behind = "[[filter]]\nname = \"quiet\"\nwhere = '{job=\"postgresql\"} NOT duration NOT ERROR'\ndrop = true\n";
    let config = format!("{before}{}{behind}", std::fs::read_to_string(&path).unwrap());
    std::fs::write(&path, config).unwrap();
    let broker = broker(&path);
    let mut stream = TcpStream::connect(broker.line_address("syslog", "tcp")).unwrap();
    // As a shipper does: what goes on with a tab is of the line before it, one octet-counted message a line.
    for line in text.lines() {
        let message = format!("<134>1 - db-1 postgresql - - - {line}");
        stream.write_all(format!("{} {message}", message.len()).as_bytes()).unwrap();
    }
    server.grows_to("histogram_count(sum(increase(postgresql_statement_seconds{instance=\"db-1\"}[5m])))", 3.0);
    server.grows_to("sum(increase(postgresql_messages_total{level=\"ERROR\"}[5m]))", 1.0);
    let slow = server.number("histogram_sum(sum(increase(postgresql_statement_seconds[5m])))").unwrap();
    assert!(slow > 0.05, "one slept for 50 ms: {slow}");
    // What is behind a line says that it is whole; numbers and lines go in batches of their own.
    let found = eventually("the line of two lines", || {
        let found = bodies(&lines(&server, "log{job=\"postgresql\"}"));
        found.iter().any(|line| line.contains("select 2,\n\t 3")).then_some(found)
    });
    assert!(found.iter().all(|line| line.contains("duration: ") || line.contains("ERROR:")), "{found:?}");
    eventually("the filter drops", || (outcome(&broker, "quiet", "dropped") > 0.0).then_some(()));
}
