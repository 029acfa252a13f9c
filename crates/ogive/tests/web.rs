//! TLS, login and tenants as users set them up, asked by the tools that they have: curl, openssl, the command line, the
//! exporter.

use std::process::{Command, Stdio};

use crate::common::authority::Authority;
use crate::common::{Server, eventually, new_token, now_ms};
use rcgen::ExtendedKeyUsagePurpose;
use serde_json::{Value, json};

/// A server behind `config`, in a directory with `ca.pem`, and certificates of `server`, `client` and `other`.
struct Guarded {
    files: tempfile::TempDir,
    _data: tempfile::TempDir,
    authority: Authority,
    server: Server,
}

const TLS: &str = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n";

impl Guarded {
    fn new(config: &str) -> Self {
        let (files, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let authority = Authority::new();
        std::fs::write(files.path().join("ca.pem"), authority.0.pem()).unwrap();
        authority.certify(files.path(), "server", ExtendedKeyUsagePurpose::ServerAuth);
        authority.certify(files.path(), "client", ExtendedKeyUsagePurpose::ClientAuth);
        authority.certify(files.path(), "other", ExtendedKeyUsagePurpose::ClientAuth);
        let path = files.path().join("web.yml");
        std::fs::write(&path, config).unwrap();
        let args = ["--listen", "127.0.0.1:0", "--enable-admin-api", "--web-config", path.to_str().unwrap()];
        let server = Server::try_start(data.path(), &args).unwrap_or_else(|said| panic!("no start: {said}"));
        Self { files, _data: data, authority, server }
    }

    fn file(&self, name: &str) -> String {
        self.files.path().join(name).to_str().unwrap().to_owned()
    }

    /// Puts another configuration in the place of the first, whole at any moment.
    fn configure(&self, config: &str) {
        std::fs::write(self.file("web.yml.new"), config).unwrap();
        std::fs::rename(self.file("web.yml.new"), self.file("web.yml")).unwrap();
    }

    /// What curl gets: the status, or 0 when there is no answer, the version of HTTP, and the body.
    fn curl(&self, path: &str, more: &[&str]) -> (u16, String, String) {
        let scheme = if self.server.said.contains("https://") { "https" } else { "http" };
        let url = format!("{scheme}://{}{path}", self.server.address);
        let output = Command::new("curl")
            .args(["-s", "--max-time", "60", "-w", "\n%{http_code} %{http_version}", "--cacert", &self.file("ca.pem")])
            .args(more)
            .arg(url)
            .output()
            .expect("curl is there");
        let said = String::from_utf8(output.stdout).unwrap();
        let (body, last) = said.rsplit_once('\n').unwrap();
        let (status, version) = last.split_once(' ').unwrap();
        (status.parse().unwrap(), version.to_owned(), body.to_owned())
    }

    fn status(&self, path: &str, more: &[&str]) -> u16 {
        self.curl(path, more).0
    }

    fn turned_away(&self, reason: &str, more: &[&str]) -> u64 {
        let (status, _, text) = self.curl("/metrics", more);
        assert_eq!(status, 200, "{text}");
        let line = format!("ogive_turned_away_total{{reason=\"{reason}\"}} ");
        text.lines().find_map(|found| found.strip_prefix(&line)).expect("it is counted").parse().unwrap()
    }
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}")
}

fn one(sequence: u64, name: &str) -> String {
    let series = json!([{"labels": {"__name__": name}, "kind": "float"}]);
    let samples = json!([{"series": 0, "time_ms": now_ms(), "float": 1}]);
    json!({"source": crate::common::SOURCE, "sequence": sequence, "series": series, "samples": samples}).to_string()
}

#[test]
fn both_versions_of_http_are_encrypted_and_plain_http_is_told_so() {
    let guarded = Guarded::new(&format!("{TLS}http_server_config:\n  headers:\n    X-Frame-Options: deny\n"));
    assert!(guarded.server.said.contains("serving https://"), "{}", guarded.server.said);
    assert_eq!(guarded.curl("/-/ready", &["--http1.1"]).1, "1.1");
    let (status, version, body) = guarded.curl("/-/ready", &["-i"]);
    assert_eq!((status, &*version), (200, "2"), "curl and the server agree on HTTP/2");
    assert!(body.contains("x-frame-options: deny"), "{body}");
    let (status, _) = guarded.server.request("GET /-/ready HTTP/1.1", b"").unwrap();
    assert_eq!(status, 400);
    assert_eq!(guarded.status("/-/ready", &["--cacert", &guarded.file("client.pem")]), 0, "curl trusts nobody else");
    // Curl goes without waiting for the server to have heard why.
    eventually("both are counted", || (guarded.turned_away("tls", &[]) >= 2).then_some(()));
}

#[test]
fn a_version_that_is_too_old_is_refused() {
    let guarded = Guarded::new(&format!("{TLS}  min_version: TLS13\n"));
    let shake = |version: &str| {
        let output = Command::new("openssl")
            .args(["s_client", "-connect", &guarded.server.address, version, "-CAfile", &guarded.file("ca.pem")])
            .args(["-verify_return_error", "-alpn", "h2"])
            .stdin(Stdio::null())
            .output()
            .expect("openssl is there");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (done, said) = shake("-tls1_3");
    assert!(done && said.contains("Verify return code: 0") && said.contains("ALPN protocol: h2"), "{said}");
    assert!(!shake("-tls1_2").0);
    // Left out, it is TLS 1.2.
    let guarded = Guarded::new(TLS);
    assert_eq!(guarded.status("/-/ready", &["--tlsv1.2", "--tls-max", "1.2"]), 200);
    assert_eq!(guarded.status("/-/ready", &["--tlsv1.0", "--tls-max", "1.1", "--ciphers", "ALL:@SECLEVEL=0"]), 0);
}

#[test]
fn certificates_of_clients_are_asked_for_and_checked() {
    let checked = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n";
    let guarded = Guarded::new(&format!("{TLS}{checked}  client_allowed_sans: [client]\n"));
    let shown = |name: &str| {
        let (certificate, key) = (guarded.file(&format!("{name}.pem")), guarded.file(&format!("{name}.key")));
        guarded.status("/api/v1/query?query=1", &["--cert", &certificate, "--key", &key])
    };
    assert_eq!(shown("client"), 200);
    assert_eq!(shown("other"), 0, "its name is not among those that may");
    assert_eq!(guarded.status("/-/ready", &[]), 0, "no certificate");
    let stranger = Authority::new();
    stranger.certify(guarded.files.path(), "client", ExtendedKeyUsagePurpose::ClientAuth);
    assert_eq!(shown("client"), 0, "the right name, and somebody else vouches for it");
}

#[test]
fn users_say_their_password_and_are_held_to_their_grant() {
    let hash = |password: &str| bcrypt::hash(password, 4).unwrap();
    let config = format!(
        "{TLS}basic_auth_users:\n  alice: {}\n  bob: {}\nbasic_auth_grants:\n  bob: {{tenant: team-b, allow: [read]}}\n",
        hash("wonder"),
        hash("builder")
    );
    let guarded = Guarded::new(&config);
    let asks = |user: &str, path: &str, more: &[&str]| guarded.status(path, &[&["-u", user], more].concat());
    let query = "/api/v1/query?query=1";
    assert_eq!(asks("alice:wonder", query, &[]), 200);
    assert_eq!(asks("alice:wonder", query, &["-H", "X-Scope-OrgID: any"]), 200);
    assert_eq!(asks("alice:builder", query, &[]), 401);
    assert_eq!(asks("nobody:builder", query, &[]), 401);
    assert_eq!(asks("bob:builder", query, &[]), 200);
    assert_eq!(asks("bob:builder", query, &["-H", "X-Scope-OrgID: team-a"]), 403);
    assert_eq!(asks("bob:builder", "/v1/batch", &["-d", &one(1, "x"), "-H", "content-type: application/json"]), 403);
    assert_eq!(guarded.status("/", &[]), 401, "the page asks too");
    assert_eq!(guarded.status("/-/healthy", &[]) + guarded.status("/-/ready", &[]), 400, "open to who watches");
    let (_, _, head) = guarded.curl(query, &["-i"]);
    assert!(head.to_ascii_lowercase().contains("www-authenticate: basic"), "{head}");
    let counted = |reason| guarded.turned_away(reason, &["-u", "alice:wonder"]);
    assert_eq!((counted("password"), counted("missing")), (2, 2));
    assert_eq!((counted("tenant"), counted("not_allowed")), (1, 1));
}

/// Every route that reads or writes, under a token of one tenant.
#[test]
fn a_token_reaches_its_tenant_alone() {
    let (writer_a, entry) = new_token(&["--name", "writer-a", "--tenant", "a", "--allow", "write", "--expires", "90d"]);
    let mut entries = entry;
    let mut tokens = Vec::new();
    for args in [
        ["--name", "reader-a", "--tenant", "a", "--allow", "read"],
        ["--name", "reader-b", "--tenant", "b", "--allow", "read"],
        ["--name", "both-b", "--tenant", "b", "--allow", "read,write"],
    ] {
        let (token, entry) = new_token(&args);
        tokens.push(token);
        entries.push_str(&entry);
    }
    let guarded = Guarded::new(&format!("{TLS}tokens:\n{entries}"));
    let ask = |token: &str, path: &str, more: &[&str]| guarded.curl(path, &[&["-H", &*bearer(token)], more].concat());
    let kind = ["-H", "content-type: application/json"];
    let body = one(1, "mine");
    assert_eq!(ask(&writer_a, "/v1/batch", &[&kind[..], &["-d", &body]].concat()).0, 200);
    let (reader_a, reader_b, both_b) = (&tokens[0], &tokens[1], &tokens[2]);
    let selector = crate::common::form("{__name__=\"mine\"}");
    let now = now_ms() / 1000;
    let (start, end) = (now - 60, now + 60);
    for path in [
        format!("/api/v1/query?query={selector}&time={end}"),
        format!("/api/v1/query_range?query={selector}&start={start}&end={end}&step=1"),
        format!("/api/v1/series?match[]={selector}"),
        format!("/api/v1/labels?match[]={selector}"),
        "/api/v1/label/__name__/values".into(),
        "/api/v1/metadata".into(),
        format!("/v1/cells?match[]={selector}&start={start}&end={end}"),
    ] {
        let path = path.replace("[]", "%5B%5D");
        let (status, _, mine) = ask(reader_a, &path, &[]);
        assert!(status == 200 && (mine.contains("mine") || mine.contains("__name__")), "{path}: {mine}");
        let (status, _, other) = ask(reader_b, &path, &[]);
        assert!(status == 200 && !other.contains("mine") && !other.contains("__name__"), "{path}: {other}");
        assert_eq!(ask(reader_b, &path, &["-H", "X-Scope-OrgID: a"]).0, 403, "{path}");
        assert_eq!(ask(&writer_a, &path, &[]).0, 403, "a token that writes does not read: {path}");
    }
    for path in [
        "/v1/batch",
        "/api/v1/write",
        "/v1/metrics",
        "/v1/logs",
        "/api/v1/otlp/v1/metrics",
        "/api/v1/otlp/v1/logs",
        "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    ] {
        assert_eq!(ask(reader_a, path, &["-d", "x"]).0, 403, "{path}");
        assert_eq!(ask(both_b, path, &["-d", "x", "-H", "X-Scope-OrgID: a"]).0, 403, "{path}");
    }
    // The batch itself may not name another tenant either.
    let mut named: Value = serde_json::from_str(&one(2, "sneaked")).unwrap();
    named["tenant"] = "a".into();
    assert_eq!(ask(both_b, "/v1/batch", &[&kind[..], &["-d", &named.to_string()]].concat()).0, 400);
    for path in ["/api/v1/admin/tsdb/delete_series?match%5B%5D=mine", "/v1/snapshots", "/v1/scrub", "/v1/disks/replace"]
    {
        assert_eq!(ask(both_b, path, &["-X", "POST"]).0, 403, "{path}");
    }
    assert_eq!(ask("ogive_unknown", "/metrics", &[]).0, 401);
    assert_eq!(ask(reader_a, "/metrics", &[]).0, 200);
}

/// Names and rights for who may administer, and nothing to log in with.
#[test]
fn logins_are_listed_without_their_secrets() {
    let (operator, entry) = new_token(&["--name", "operator", "--allow", "read,admin"]);
    let (sender, second) = new_token(&["--name", "sender-1", "--tenant", "a", "--allow", "write", "--expires", "90d"]);
    let hash = bcrypt::hash("a password", 4).unwrap();
    let past = "  - {name: past, sha256: 0000000000000000000000000000000000000000000000000000000000000000, allow: [read], expires: 2026-01-01T00:00:00Z}\n";
    let guarded = Guarded::new(&format!("{TLS}basic_auth_users:\n  alice: {hash}\ntokens:\n{entry}{second}{past}"));
    let (status, _, body) = guarded.curl("/v1/logins", &["-H", &bearer(&operator)]);
    assert_eq!(status, 200, "{body}");
    let found: Value = serde_json::from_str(&body).unwrap();
    let shown: Vec<Value> = found["data"]["logins"]
        .as_array()
        .unwrap()
        .iter()
        .map(|login| {
            json!([
                login["kind"],
                login["name"],
                login["tenant"],
                login["allow"],
                login["expires"].is_string(),
                login["expired"]
            ])
        })
        .collect();
    let expected = json!([
        ["user", "alice", null, ["read", "write", "admin", "vend"], false, false],
        ["token", "operator", null, ["read", "admin"], false, false],
        ["token", "sender-1", "a", ["write"], true, false],
        ["token", "past", null, ["read"], true, true],
    ]);
    assert_eq!((Value::Array(shown), &found["data"]["open"]), (expected, &json!(false)));
    let hashes = [&entry, &second].map(|entry| entry.split("sha256: ").nth(1).unwrap()[..64].to_owned());
    for secret in hashes.iter().chain([&operator, &sender, &hash]) {
        assert!(!body.contains(secret), "{secret} is in {body}");
    }
    let (status, _, said) = guarded.curl("/v1/logins", &["-H", &bearer(&sender)]);
    assert!(status == 403 && said.contains("admin"), "{said}");
    assert_eq!(guarded.curl("/v1/logins", &[]).0, 401);
}

#[test]
fn a_token_ends_when_it_expires() {
    let (token, entry) = new_token(&["--name", "short", "--allow", "read", "--expires", "1h"]);
    let past = entry.lines().map(|line| match line.split_once("expires: ") {
        Some((indent, _)) => format!("{indent}expires: 2026-01-01T00:00:00Z\n"),
        None => format!("{line}\n"),
    });
    let past: String = past.collect();
    let guarded = Guarded::new(&format!("{TLS}tokens:\n{past}"));
    let query = "/api/v1/query?query=1";
    let (status, _, said) = guarded.curl(query, &["-H", &bearer(&token)]);
    assert!(status == 401 && said.contains("\"short\\\"") && said.contains("expired"), "{said}");
    // Renewed, it is good again; nobody starts the server anew.
    guarded.configure(&format!("{TLS}tokens:\n{entry}"));
    eventually("the new list", || (guarded.status(query, &["-H", &bearer(&token)]) == 200).then_some(()));
    assert_eq!(guarded.turned_away("expired", &["-H", &bearer(&token)]).min(1), 1);
}

/// A browser asks a person for a name and a password, and can show nothing else: the password may be a token.
#[test]
fn a_token_is_a_password_too() {
    let (token, entry) = new_token(&["--name", "person", "--tenant", "a", "--allow", "read"]);
    let guarded = Guarded::new(&format!("{TLS}tokens:\n{entry}"));
    let (status, _, head) = guarded.curl("/", &["-i"]);
    let head = head.to_ascii_lowercase();
    assert!(status == 401 && head.contains("www-authenticate: basic") && head.contains("bearer"), "{head}");
    let query = "/api/v1/query?query=1";
    for name in ["", "person", "whoever"] {
        let login = format!("{name}:{token}");
        assert_eq!(guarded.status(query, &["-u", &login]), 200, "{name:?}");
        assert_eq!(guarded.status(query, &["-u", &login, "-H", "X-Scope-OrgID: b"]), 403, "its tenant holds");
        assert_eq!(guarded.status("/v1/batch", &["-u", &login, "-d", "x"]), 403, "so does what it may");
    }
    assert_eq!(guarded.status(query, &["-u", "person:ogive_wrong"]), 401);
    assert_eq!(guarded.status(query, &["-u", &format!("{token}:")]), 401, "a token is no name");
    // Beside users, their passwords are theirs.
    let users = format!("basic_auth_users:\n  alice: {}\n", bcrypt::hash("wonder", 4).unwrap());
    guarded.configure(&format!("{TLS}{users}tokens:\n{entry}"));
    eventually("the users", || (guarded.status(query, &["-u", "alice:wonder"]) == 200).then_some(()));
    assert_eq!(guarded.status(query, &["-u", &format!("person:{token}")]), 200);
    assert_eq!(guarded.status(query, &["-u", "nobody:wonder"]), 401);
    assert_eq!(guarded.status(query, &["-u", "alice:other"]), 401);
}

/// The certificate is replaced while a connection is open: that one goes on, the next one sees the new certificate.
#[test]
fn a_certificate_is_replaced_while_serving() {
    use std::io::{Read, Write};
    let guarded = Guarded::new(TLS);
    let mut kept = Command::new("openssl")
        .args(["s_client", "-connect", &guarded.server.address, "-CAfile", &guarded.file("ca.pem"), "-quiet"])
        .args(["-verify_return_error"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl is there");
    let (mut input, mut output) = (kept.stdin.take().unwrap(), kept.stdout.take().unwrap());
    let mut ask = || {
        input.write_all(b"GET /-/ready HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let (mut bytes, mut said) = ([0; 1024], String::new());
        while !said.ends_with("is ready.\n") {
            let read = output.read(&mut bytes).unwrap();
            assert!(read > 0, "the connection ended: {said}");
            said.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    };
    ask();
    // The next certificate is of another authority, which curl then gets.
    let next = Authority::new();
    next.certify(guarded.files.path(), "server", ExtendedKeyUsagePurpose::ServerAuth);
    let path = guarded.file("next-ca.pem");
    std::fs::write(&path, next.0.pem()).unwrap();
    eventually("the new certificate", || (guarded.status("/-/ready", &["--cacert", &path]) == 200).then_some(()));
    assert_eq!(guarded.status("/-/ready", &[]), 0, "the old authority vouches for it no more");
    ask();
    kept.kill().unwrap();
    kept.wait().unwrap();
    drop(guarded.authority);
}

/// A web configuration that became empty, cut or unreadable turned TLS and login off within three seconds.
#[test]
fn a_file_that_was_emptied_or_cut_turns_nothing_off() {
    let (token, entry) = new_token(&["--name", "reader", "--tenant", "team-a", "--allow", "read"]);
    let text = format!("{TLS}tokens:\n{entry}");
    let guarded = Guarded::new(&text);
    let (path, login) = (guarded.file("web.yml"), bearer(&token));
    let refused = || {
        let (status, _, said) = guarded.curl("/v1/status", &["-H", &login]);
        assert_eq!(status, 200, "{said}");
        let figures: Value = serde_json::from_str(&said).unwrap();
        figures["web_config_refused"].as_str().map(str::to_owned)
    };
    let cut_tenant = text.split_once("tenant:").map(|(before, _)| before.trim_end_matches(' ').to_owned());
    let cuts =
        [Some(String::new()), Some("{}\n".into()), Some(TLS.into()), Some(text[..TLS.len() / 2].into()), cut_tenant];
    for cut in cuts.iter().flatten() {
        std::fs::write(&path, cut).unwrap();
        let why = eventually("the refusal", &refused);
        assert!(why.contains("web.yml"), "{why}");
        assert_eq!(guarded.status("/v1/status", &[]), 401, "{cut:?}");
        let plain = Command::new("curl")
            .args([
                "-s",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                &format!("http://{}/v1/status", guarded.server.address),
            ])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&plain.stdout), "400", "{cut:?}");
        let metrics = guarded.curl("/metrics", &["-H", &login]).2;
        assert!(metrics.contains("\nogive_web_config_refused 1\n"), "{cut:?}");
        guarded.configure(&text);
        eventually("what is in force", || refused().is_none().then_some(()));
    }
    std::fs::remove_file(&path).unwrap();
    eventually("the refusal", refused);
    assert_eq!(guarded.status("/v1/status", &[]), 401);
}

/// A live stream went on for as long as its connection, whatever became of the token.
#[test]
fn a_stream_ends_with_its_token() {
    use std::io::{Read, Write};
    let (token, entry) = new_token(&["--name", "viewer", "--allow", "read"]);
    let (_, other) = new_token(&["--name", "other", "--allow", "read"]);
    let guarded = Guarded::new(&format!("tokens:\n{entry}{other}"));
    let mut stream = guarded.server.connect();
    stream.set_read_timeout(Some(crate::common::PATIENCE)).unwrap();
    let head = format!(
        "GET /v1/live?query=ogive_hiccup_seconds HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut said = String::new();
    let mut until = |word: &str| {
        let mut bytes = [0; 4096];
        while !said.contains(word) {
            let read = stream.read(&mut bytes).unwrap();
            assert!(read > 0, "it ended before {word:?}: {said}");
            said.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    };
    until("event: column");
    guarded.configure(&format!("tokens:\n{other}"));
    until("event: error\ndata: {\"error\":\"this token is not known here\"}");
    until("0\r\n\r\n");
}

/// Any page could read from a server without a login by a name of its own, and make snapshots; and `Origin` was not
/// looked at.
#[test]
fn names_and_pages_of_others_are_refused() {
    let data = tempfile::tempdir().unwrap();
    let args = ["--listen", "127.0.0.1:0", "--web-allow-host", "metrics.example.com,*.corp.example.com"];
    let args = [&args[..], &["--web-external-url", "https://ogive.example.org/"]].concat();
    let server = Server::try_start(data.path(), &args).unwrap();
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    let snapshot = r#"{"name":"stolen"}"#;
    let ask = |line: &str, host: &str, more: &str, body: &str| {
        let mut stream = server.connect();
        let head = format!(
            "{line} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{more}content-length: {}\r\n\r\n",
            body.len()
        );
        std::io::Write::write_all(&mut stream, format!("{head}{body}").as_bytes()).unwrap();
        crate::common::read_answer(&mut stream).unwrap()
    };
    let json_type = "content-type: application/json\r\n";
    for host in [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        "ogive".into(),
        "127.0.0.1.evil.example".into(),
        "a b".into(),
    ] {
        for line in
            ["GET /api/v1/query?query=1", "GET /v1/status", "GET /", "GET /metrics", "POST /api/v1/query?query=1"]
        {
            let (status, said) = ask(line, &host, "", "");
            assert!(status == 421 && said.contains("--web-allow-host"), "{host} {line}: {status} {said}");
        }
        assert_eq!(ask("POST /v1/snapshots", &host, json_type, snapshot).0, 421, "{host}");
        // Who brings something comes again instead of dropping it.
        let (status, said) = ask("POST /v1/batch", &host, json_type, &one(1, "brought"));
        assert!(status == 503 && said.contains("--web-allow-host"), "{host}: {status} {said}");
        assert_eq!(ask("GET /-/ready", &host, "", "").0, 200, "{host}");
    }
    let own =
        [format!("localhost:{port}"), "localhost".into(), server.address.clone(), "[::1]".into(), "10.2.3.4:80".into()];
    for host in own.iter().map(String::as_str).chain(["metrics.example.com", "a.corp.example.com", "ogive.example.org"])
    {
        assert_eq!(ask("GET /api/v1/query?query=1", host, "", "").0, 200, "{host}");
    }
    for origin in ["http://evil.example", "null", "http://localhost:3000", "https://metrics.example.com.evil.example"] {
        let more = format!("{json_type}origin: {origin}\r\n");
        assert_eq!(ask("POST /v1/snapshots", "localhost", &more, snapshot).0, 403, "{origin}");
        assert_eq!(ask("POST /v1/batch", "localhost", &more, &one(1, "brought")).0, 403, "{origin}");
        assert_eq!(
            ask("POST /write?db=x", "localhost", &format!("origin: {origin}\r\n"), "brought v=1").0,
            403,
            "{origin}"
        );
    }
    for (sequence, origin) in
        ["http://localhost", "https://ogive.example.org", "https://metrics.example.com"].iter().enumerate()
    {
        let more = format!("{json_type}origin: {origin}\r\n");
        assert_eq!(ask("POST /v1/batch", "localhost", &more, &one(sequence as u64, "brought")).0, 200, "{origin}");
    }
    assert_eq!(ask("POST /v1/batch", "localhost", "", &one(9, "brought")).0, 415);
    let (_, said) = ask("GET /v1/status", "localhost", "", "");
    let figures: Value = serde_json::from_str(&said).unwrap();
    assert!(figures["turned_away_host_total"].as_u64() >= Some(30), "{figures}");
    assert!(figures["turned_away_origin_total"].as_u64() >= Some(12), "{figures}");
}

/// A server noted nowhere who changed what: snapshots, deletions and reloads left no trace, nor did a change in the
/// file of checks.
#[test]
fn who_changed_what_is_stored() {
    let (data, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (token, entry) = new_token(&["--name", "operator", "--allow", "read,admin"]);
    let (_, other) = new_token(&["--name", "other", "--allow", "read"]);
    let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let check = |period: &str| {
        let table = "name = 'edge'\nkind = 'redis'\ntarget = '127.0.0.1:1'\npassword = 'hunter2'\ntimeout = '1s'";
        std::fs::write(path("checks.toml"), format!("[[check]]\n{table}\nperiod = '{period}'\n")).unwrap();
    };
    std::fs::write(path("web.yml"), format!("tokens:\n{entry}")).unwrap();
    check("10s");
    let args = [
        "--listen",
        "127.0.0.1:0",
        "--enable-admin-api",
        "--web-config",
        &path("web.yml"),
        "--checks",
        &path("checks.toml"),
    ];
    let server = Server::try_start(data.path(), &args).unwrap_or_else(|said| panic!("no start: {said}"));
    let login = format!("authorization: Bearer {token}");
    let ask = |line: &str, more: &str, body: &str| {
        let (status, said) = server.request(&format!("{line} HTTP/1.1\r\n{login}{more}"), body.as_bytes()).unwrap();
        assert!((200..300).contains(&status), "{line}: {status} {said}");
        said
    };
    let find = |words: &[&str]| {
        let selector = crate::common::form("{__name__=~\"ogive_audit|ogive_config_change\"}");
        eventually(&format!("{words:?}"), || {
            let said = ask(&format!("GET /v1/cells?match%5B%5D={selector}&start=0&end=9999999999"), "", "");
            assert!(!said.contains("hunter2") && !said.contains(&token));
            let cells: Value = serde_json::from_str(&said).unwrap();
            let texts = cells["data"]["samples"].as_array()?.iter().filter_map(|sample| sample["text"].as_str());
            texts.filter(|text| words.iter().all(|word| text.contains(word))).map(str::to_owned).next()
        })
    };
    find(&["version", "enable-admin-api"]);
    let json_type = "\r\ncontent-type: application/json";
    ask("POST /v1/snapshots", json_type, r#"{"name":"before"}"#);
    find(&["\"operator\" from 127.0.0.1", "POST /v1/snapshots", r#"{"name":"before"}"#, "answered 201"]);
    ask("POST /api/v1/admin/tsdb/delete_series?match%5B%5D=nothing", "", "");
    find(&["\"operator\"", "delete_series?match", "answered 204"]);
    check("20s");
    server.signal("HUP");
    find(&["owner_uid=", "check.edge.period", "20s"]);
    std::fs::write(path("web.yml"), format!("tokens:\n{entry}{other}")).unwrap();
    find(&["owner_uid=", "+ token other"]);
    std::fs::write(path("web.yml"), "").unwrap();
    find(&["owner_uid=", "everybody in"]);
}

#[test]
fn the_command_line_and_the_exporter_log_in() {
    let (token, entry) = new_token(&["--name", "all", "--allow", "read,write"]);
    let checked = "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: ca.pem\n";
    let guarded = Guarded::new(&format!("{TLS}{checked}tokens:\n{entry}"));
    let url = format!("https://{}", guarded.server.address);
    let run = |arguments: &[&str], token: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
        command.args(arguments).env("OGIVE_SERVER", &url).env("OGIVE_TOKEN", token);
        let output = command.env("OGIVE_CA_FILE", guarded.file("ca.pem")).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, out, err) = run(&["query", "1 + 1"], &token);
    assert!(code == Some(0) && out.contains('2'), "{out}{err}");
    let (certificate, key) = (guarded.file("client.pem"), guarded.file("client.key"));
    assert_eq!(run(&["status", "--cert-file", &certificate, "--key-file", &key], &token).0, Some(0));
    let (code, _, err) = run(&["status"], "ogive_wrong");
    assert!(code == Some(2) && err.contains("401") && err.contains("--token"), "{err}");
    let (code, _, err) = run(&["status", "--ca-file", &certificate], &token);
    assert_eq!(code, Some(3), "{err}");
    let (code, _, err) = run(&["status", "--ca-file", &key], &token);
    assert!(code == Some(2) && err.contains("no certificate"), "{err}");
    // The exporter of a measured process.
    let recorder = ogive_probe::Recorder::default();
    let pem = std::fs::read(guarded.file("ca.pem")).unwrap();
    let exporter = ogive_export::Exporter::builder(&url).token(&token).ca_pem(&pem).start().unwrap();
    exporter.cells().recorder("sent_seconds", &[], &recorder).unwrap();
    recorder.record_ns(1_000_000);
    let status = exporter.shutdown(crate::common::PATIENCE);
    assert!(status.acknowledged.cells > 0 && status.dropped.is_empty(), "{status:?}");
    eventually("what was sent", || {
        let (_, out, _) = run(&["query", "histogram_count(sum_over_time(sent_seconds[1h]))"], &token);
        out.trim_end().ends_with(" 1").then_some(())
    });
}
