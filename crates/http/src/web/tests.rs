use axum::http::{HeaderValue, header};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::*;
use crate::testing::read_file;

/// A directory with a configuration, and a key and a certificate that it may name.
struct Files(tempfile::TempDir);

impl Files {
    fn new(config: &str) -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        files.write("cert.pem", &key.cert.pem());
        files.write("key.pem", &key.signing_key.serialize_pem());
        files.write("web.yml", config);
        files
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).unwrap();
    }

    fn open(&self) -> anyhow::Result<Web> {
        Web::open(Some(&self.0.path().join("web.yml")), read_file, Arc::default())
    }
}

fn refusal(config: &str) -> String {
    Files::new(config).open().err().map_or_else(String::new, |error| format!("{error:#}"))
}

/// A file that somebody broke is read or refused, and names itself.
#[test]
fn mutated_files_are_read_or_refused() {
    let good = format!(
        "http_server_config:\n  http2: true\n  headers: {{X-Frame-Options: deny}}\nbasic_auth_users:\n  alice: {}\n\
         basic_auth_grants:\n  alice: {{tenant: team-a, allow: [read]}}\ntokens:\n- name: x\n  sha256: {}\n  allow: [write]\n  \
         expires: 2027-01-31T00:00:00Z\n",
        bcrypt::hash("x", 4).unwrap(),
        "0".repeat(64)
    );
    let files = Files::new(&good);
    files.open().unwrap();
    let mut refused = 0;
    crate::mutations::mutations(good.as_bytes(), 1_500, 4, b" -:[]{},'\"#&*!|>\n\tax0\xff", |text| {
        std::fs::write(files.0.path().join("web.yml"), text).unwrap();
        if let Err(error) = files.open() {
            assert!(format!("{error:#}").contains("web.yml"), "{error:#}");
            refused += 1;
        }
    });
    assert!((100..1_500).contains(&refused), "{refused} of 1,500 were refused");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let check = |config: &str, words: &[&str]| {
        let said = refusal(config);
        for word in words {
            assert!(said.contains(word), "{word:?} is not in {said:?} of {config}");
        }
    };
    let tls = "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n";
    let sha256 = "0".repeat(64);
    check("tokns: []", &["web.yml", "tokns", "tokens", "line 1"]);
    check("tls_server_config:\n  cert_fil: x", &["cert_fil", "cert_file", "line 2"]);
    check("a: [", &["web.yml"]);
    check("tls_server_config:\n  cert_file: cert.pem", &["key_file is missing"]);
    check("tls_server_config:\n  cert_file: none.pem\n  key_file: key.pem", &["cert_file", "none.pem"]);
    check("tls_server_config:\n  cert_file: key.pem\n  key_file: key.pem", &["no certificate"]);
    check("tls_server_config:\n  cert_file: cert.pem\n  key_file: cert.pem", &["no private key"]);
    check(&format!("{tls}  min_version: TLS10"), &["min_version", "TLS12"]);
    check(&format!("{tls}  min_version: TLS13\n  max_version: TLS12"), &["above"]);
    check(&format!("{tls}  cipher_suites: [RC4]"), &["RC4", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]);
    check(&format!("{tls}  curve_preferences: [P1]"), &["P1", "X25519"]);
    check(&format!("{tls}  client_auth_type: Always"), &["Always", "RequireAndVerifyClientCert"]);
    check(&format!("{tls}  client_auth_type: RequireAndVerifyClientCert"), &["client_ca_file is missing"]);
    check(&format!("{tls}  client_ca_file: cert.pem"), &["need a client_auth_type"]);
    check(&format!("{tls}  client_auth_type: RequestClientCert\n  client_allowed_sans: [a@b]"), &["a@b"]);
    check("http_server_config:\n  headers:\n    X-Other: a", &["X-Other", "x-frame-options"]);
    check("basic_auth_users:\n  alice: secret", &["alice", "htpasswd"]);
    check("basic_auth_grants:\n  bob: {allow: [read]}", &["bob", "basic_auth_users"]);
    let token = |more: &str| format!("tokens:\n  - {{name: a, sha256: \"{sha256}\", allow: [read]{more}}}");
    check(&token(", tenant: \"a/b\""), &["the token \"a\"", "tenant"]);
    check(&token(", expires: soon"), &["expires", "soon"]);
    check(&token(", expires: 2027-02-30"), &["expires", "2027-02-30"]);
    check("tokens:\n  - {name: a, sha256: abc, allow: [read]}", &["64 hexadecimal"]);
    check(&format!("tokens:\n  - {{name: a, sha256: \"{sha256}\", allow: [all]}}"), &["all", "admin"]);
    check(&format!("tokens:\n  - {{name: a, sha256: \"{sha256}\", allow: []}}"), &["nothing is allowed"]);
    let twice = format!("{0}\n  - {{name: b, sha256: \"{sha256}\", allow: [read]}}", token(""));
    check(&twice, &["twice"]);
    for good in [
        String::new(),
        "# nothing\n".into(),
        tls.into(),
        token(", expires: 2027-01-31, tenant: team-a"),
        token(", expires: \"2027-01-31T00:00:00Z\""),
        format!(
            "{tls}  min_version: TLS13\n  cipher_suites: [TLS_AES_128_GCM_SHA256]\n  curve_preferences: [CurveP256]"
        ),
        format!(
            "{tls}  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: cert.pem\n  client_allowed_sans: [a, 10.0.0.1]"
        ),
        "http_server_config:\n  http2: false\n  headers:\n    X-Frame-Options: deny".into(),
        format!("basic_auth_users:\n  alice: {}", bcrypt::hash("x", 4).unwrap()),
    ] {
        assert_eq!(refusal(&good), "", "{good}");
    }
}

fn said(web: &Web, authorization: &str, now_ms: i64) -> Result<Grant, LoginFailure> {
    let mut headers = HeaderMap::new();
    if !authorization.is_empty() {
        headers.insert(header::AUTHORIZATION, HeaderValue::from_str(authorization).unwrap());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let who = runtime.block_on(web.who(&headers, WallMs(now_ms)));
    who.map(|grant| grant.expect("there is a login")).map_err(|denied| denied.why)
}

#[test]
fn who_somebody_is_decides_what_they_may() {
    let config = format!(
        "basic_auth_users: {{alice: {}, bob: {}}}\nbasic_auth_grants: {{bob: {{tenant: team-b, allow: [read]}}}}\n\
         tokens:\n  - {{name: writer, sha256: {}, allow: [write], tenant: team-a, expires: \"2026-01-01T00:00:00Z\"}}\n",
        bcrypt::hash("wonder", 4).unwrap(),
        bcrypt::hash("builder", 4).unwrap(),
        token_hash("ogive_secret"),
    );
    let web = Files::new(&config).open().unwrap();
    let end = 1_767_225_600_000;
    let basic = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
    let alice = said(&web, &basic("alice:wonder"), 0).unwrap();
    assert_eq!((alice.tenant, alice.allow), (None, Allow::ALL));
    let bob = said(&web, &basic("bob:builder"), 0).unwrap();
    assert_eq!((bob.tenant.unwrap().as_str(), bob.allow.words()), ("team-b", vec!["read"]));
    for scheme in ["Bearer", "bearer", "Token"] {
        let writer = said(&web, &format!("{scheme} ogive_secret"), end - 1).unwrap();
        assert_eq!((writer.tenant.unwrap().as_str(), writer.allow.words()), ("team-a", vec!["write"]));
    }
    let check = |authorization: &str, why| assert_eq!(said(&web, authorization, end), Err(why), "{authorization}");
    check("Bearer ogive_secret", LoginFailure::Expired);
    check("Bearer ogive_secre", LoginFailure::Token);
    check("Bearer ogive_secret2", LoginFailure::Token);
    check("", LoginFailure::Missing);
    for malformed in ["Bearer", "Digest x", "Basic !", "Basic YWxpY2U="] {
        check(malformed, LoginFailure::Malformed);
    }
    for wrong in ["alice:builder", "alice:", "carol:wonder", "carol:"] {
        check(&basic(wrong), LoginFailure::Password);
    }
    assert_eq!(web.challenges().len(), 2);
}

/// bcrypt looks at 72 bytes: of a longer password every one that began alike was right.
#[test]
fn a_password_counts_to_its_last_byte() {
    let (longest, longer) = ("p".repeat(72), "p".repeat(73));
    let hash = bcrypt::hash(&longest, 4).unwrap();
    let web = Files::new(&format!("basic_auth_users:\n  alice: {hash}\n")).open().unwrap();
    let basic = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
    assert!(said(&web, &basic(&format!("alice:{longest}")), 0).is_ok());
    for wrong in [longer.as_str(), &format!("{longest}\0{longest}"), &longest[1..]] {
        assert_eq!(said(&web, &basic(&format!("alice:{wrong}")), 0), Err(LoginFailure::Password), "{wrong:?}");
    }
}

#[test]
fn nobody_has_to_say_who_they_are_without_users_and_tokens() {
    let web = Files::new("").open().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer whatever"));
    assert_eq!(runtime.block_on(web.who(&headers, WallMs(0))), Ok(None));
}

/// Looks as often as it takes: a change is taken when two looks found the same.
fn look_twice(web: &Web) -> bool {
    assert!(!web.look(), "the first look only remembers");
    web.look()
}

/// A new configuration comes into force when it is right, and one that is not leaves the old one, and is reported.
#[test]
fn a_changed_file_is_taken_when_it_is_right() {
    let token = |text: &str| format!("tokens: [{{name: a, sha256: {}, allow: [read]}}]\n", token_hash(text));
    let files = Files::new(&token("first"));
    let web = files.open().unwrap();
    assert!(!look_twice(&web), "nothing changed");
    assert!(said(&web, "Bearer first", 0).is_ok());
    files.write("web.yml", "tokens: [");
    assert!(!look_twice(&web) && !web.look());
    assert!(said(&web, "Bearer first", 0).is_ok());
    assert!(web.refused().is_some_and(|why| why.contains("web.yml")));
    assert_eq!((web.counters.door.reloads.get(), web.counters.door.reloads_failed.get()), (0, 1));
    files.write("web.yml", &token("first"));
    assert!(!web.look() && web.refused().is_none(), "it is again what is in force");
    files.write("web.yml", &token("second"));
    assert!(look_twice(&web) && web.refused().is_none());
    assert_eq!(said(&web, "Bearer first", 0), Err(LoginFailure::Token));
    assert!(said(&web, "Bearer second", 0).is_ok());
    // A file that it names counts too.
    let with_tls = token("second") + "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n";
    files.write("web.yml", &with_tls);
    assert!(look_twice(&web) && web.tls().is_some());
    let other = rcgen::generate_simple_self_signed(["other".to_owned()]).unwrap();
    files.write("cert.pem", &other.cert.pem());
    assert!(!look_twice(&web), "the key is still that of the certificate before");
    files.write("key.pem", &other.signing_key.serialize_pem());
    assert!(look_twice(&web));
    std::fs::remove_file(files.0.path().join("web.yml")).unwrap();
    assert!(!look_twice(&web) && web.tls().is_some(), "what is gone leaves the old one in force");
    assert_eq!((web.counters.door.reloads.get(), web.counters.door.reloads_failed.get()), (3, 3));
}

/// A web configuration that somebody emptied, or that was cut while it was written, turned TLS and login off within
/// three seconds. A running server gives nothing up now, wherever the file is cut: only a start does.
#[test]
fn a_file_that_is_cut_anywhere_opens_nothing() {
    let mut text = format!(
        "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n  min_version: TLS13\n  client_ca_file: cert.pem\n  \
         client_auth_type: RequireAndVerifyClientCert\nbasic_auth_users:\n  alice: {}\nbasic_auth_grants:\n  alice:\n    tenant: team-a\n    \
         allow: [read]\ntokens:\n",
        bcrypt::hash("wonder", 4).unwrap()
    );
    for name in ["one", "two"] {
        let sha256 = token_hash(name);
        text += &format!(
            "- name: {name}\n  sha256: {sha256}\n  allow: [read]\n  tenant: team-a\n  expires: 2027-01-31T00:00:00Z\n"
        );
    }
    let files = Files::new(&text);
    let web = files.open().unwrap();
    let before = web.current().protection.clone();
    let mut refused = 0;
    for length in 0..text.len() {
        files.write("web.yml", &text[..length]);
        let taken = look_twice(&web);
        refused += u32::from(!taken);
        let now = web.current().protection.clone();
        assert_eq!(before.lost_in(&now), None, "cut at {length}");
        assert!(web.tls().is_some() && !web.current().rules.challenges().is_empty(), "cut at {length}");
        if taken {
            // A start puts back what was there.
            files.write("web.yml", &text);
            assert!(look_twice(&web), "cut at {length}");
        }
    }
    assert!(refused > 100, "{refused}");
    for gone in ["", "\n", "# nothing\n", "{}\n", "http_server_config: {}\n"] {
        files.write("web.yml", gone);
        assert!(!look_twice(&web), "{gone:?}");
        assert!(web.refused().unwrap().contains("turn TLS off"), "{gone:?}");
    }
    let path = files.0.path().join("web.yml");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    web.look();
    web.look();
    assert!(web.refused().unwrap().contains("cannot read") && web.tls().is_some());
}
