//! Tickets of a real server: who may vend shares one address, its holder sees that and nothing else, until it ends.

use std::path::Path;

use crate::common::{Server, eventually, form, new_token};
use serde_json::{Value, json};

struct Guarded {
    directory: tempfile::TempDir,
    server: Server,
    admin: String,
    vendor: String,
    reader: String,
    tokens: String,
}

const KEY: &str = "0123456789abcdef0123456789abcdef";

impl Guarded {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (admin, all) = new_token(&["--name", "root", "--allow", "read,write,admin"]);
        let (vendor, one) = new_token(&["--name", "amy", "--tenant", "team-a", "--allow", "read,vend"]);
        let (reader, two) = new_token(&["--name", "bob", "--tenant", "team-a", "--allow", "read"]);
        let tokens = format!("tokens:\n{all}{one}{two}");
        let path = directory.path();
        std::fs::write(path.join("one.key"), KEY).unwrap();
        std::fs::write(path.join("two.key"), format!("{KEY}{KEY}")).unwrap();
        write(path, &format!("{tokens}tickets:\n  keys: [{{name: one, secret_file: one.key}}]\n"));
        let config = path.join("web.yml");
        let args = ["--listen", "127.0.0.1:0", "--web-config", config.to_str().unwrap()];
        let server = Server::try_start(&path.join("data"), &args).unwrap_or_else(|said| panic!("no start: {said}"));
        Self { directory, server, admin, vendor, reader, tokens }
    }

    fn request(&self, head: &str, token: &str, tenant: &str, body: &str) -> (u16, Value) {
        let login = if token.is_empty() { String::new() } else { format!("\r\nAuthorization: Bearer {token}") };
        let tenant = if tenant.is_empty() { String::new() } else { format!("\r\nX-Scope-OrgID: {tenant}") };
        let kind = if head.starts_with("POST /api") { "application/x-www-form-urlencoded" } else { "application/json" };
        let head = format!("{head} HTTP/1.1{login}{tenant}\r\nContent-Type: {kind}");
        let (status, body) = self.server.request(&head, body.as_bytes()).unwrap();
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    fn vend(&self, token: &str, links: &[&str], expires: &str) -> (u16, Value) {
        self.request("POST /v1/tickets", token, "", &json!({"links": links, "expires": expires}).to_string())
    }

    fn turned_away(&self, reason: &str) -> u64 {
        let (_, status) = self.request("GET /v1/status", &self.admin, "", "");
        status[format!("turned_away_{reason}_total")].as_u64().unwrap_or(0)
    }
}

fn write(directory: &Path, config: &str) {
    std::fs::write(directory.join("web.yml.new"), config).unwrap();
    std::fs::rename(directory.join("web.yml.new"), directory.join("web.yml")).unwrap();
}

/// A number and a secret one, for each of two teams.
fn fill(guarded: &Guarded) {
    for team in ["team-a", "team-b"] {
        let series: Vec<_> =
            ["shown", "secret"].map(|name| json!({"labels": {"__name__": name, "team": team}, "kind": "float"})).into();
        let now_ms = crate::common::now_ms();
        let samples: Vec<_> = (0..2).map(|at| json!({"series": at, "time_ms": now_ms, "float": 7.5})).collect();
        let source = format!("00000000-0000-0000-0000-{:012}", team.len() + usize::from(team == "team-b"));
        let batch = json!({"source": source, "sequence": 1, "series": series, "samples": samples});
        let (status, said) = guarded.request("POST /v1/batch", &guarded.admin, team, &batch.to_string());
        assert_eq!((status, &said["accepted"]), (200, &json!(2)), "{said}");
    }
}

#[test]
fn a_ticket_shows_one_address_of_one_tenant_until_it_ends() {
    let guarded = Guarded::new();
    fill(&guarded);
    let (start, end) = (crate::common::now_ms() / 1_000 - 600, crate::common::now_ms() / 1_000 + 600);
    let link = format!("/v1/cells?match[]={}&start={start}&end={end}", form("shown{team=~\".*\"}"));
    let (status, said) = guarded.vend(&guarded.vendor, &[&link], "1h");
    assert_eq!(status, 200, "{said}");
    let ticket = said["ticket"].as_str().unwrap();
    let opened = said["links"][0].as_str().unwrap();
    let get = |address: &str, tenant: &str| guarded.request(&format!("GET {address}"), "", tenant, "");
    // The link works as it is, for its tenant alone, and so does the ticket as a token.
    let (status, body) = get(opened, "");
    let text = body.to_string();
    assert!(
        status == 200 && text.contains("team-a") && !text.contains("team-b") && !text.contains("secret"),
        "{status} {body}"
    );
    assert_eq!(guarded.request(&format!("GET {link}"), ticket, "", "").0, 200);
    let narrower =
        format!("/v1/cells?match[]={}&start={}&end={end}&ticket={ticket}", form("shown{team=~\".*\"}"), start + 60);
    assert_eq!(get(&narrower, "").0, 200);
    // Everything else is refused, and counted by what it was.
    let widened = [
        format!("/v1/cells?match[]=secret&start={start}&end={end}&ticket={ticket}"),
        format!("{opened}&match[]=secret"),
        format!("/v1/cells?match[]={}&start=0&end={end}&ticket={ticket}", form("shown{team=~\".*\"}")),
        format!("/v1/cells?match[]={}&ticket={ticket}", form("shown{team=~\".*\"}")),
        format!("/api/v1/query?query=secret&ticket={ticket}"),
        format!("/v1/status?ticket={ticket}"),
        format!("/?ticket={ticket}"),
    ];
    let before = guarded.turned_away("ticket_scope");
    for address in &widened {
        let (status, said) = get(address, "");
        assert_eq!(status, 403, "{address}: {said}");
    }
    assert_eq!(guarded.turned_away("ticket_scope"), before + widened.len() as u64);
    assert_eq!((get(opened, "team-b").0, guarded.turned_away("tenant")), (403, 1));
    assert_eq!(guarded.request(&format!("POST {opened}"), "", "", "").0, 403);
    let stolen = opened.replace("ticket=ogt_", "ticket=ogt_e");
    assert_eq!((get(&stolen, "").0, guarded.turned_away("ticket")), (401, 1));
    assert_eq!((get(&link, "").0, guarded.turned_away("missing")), (401, 1));
    // A ticket vends nothing, and who may only read does not either.
    assert_eq!(guarded.vend(ticket, &[&link], "1h").0, 403);
    assert_eq!(guarded.vend(&guarded.reader, &[&link], "1h").0, 403);
    for (links, expires) in
        [(vec![link.as_str()], "32d"), (vec![], "1h"), (vec!["/v1/live?query=shown"], "1h"), (vec!["x"], "1h")]
    {
        assert_eq!(guarded.vend(&guarded.vendor, &links, expires).0, 400, "{links:?} {expires}");
    }
    let write = json!({"links": ["/v1/batch"], "expires": "1h", "allow": "write"}).to_string();
    assert_eq!(guarded.request("POST /v1/tickets", &guarded.vendor, "", &write).0, 403, "amy may not write herself");
    let (_, short) = guarded.vend(&guarded.vendor, &[&link], "1s");
    let short = short["links"][0].as_str().unwrap();
    eventually("it ends", || (get(short, "").0 == 401).then_some(()));
    assert!(guarded.turned_away("expired") > 0);
}

#[test]
fn a_body_cannot_widen_a_ticket() {
    let guarded = Guarded::new();
    fill(&guarded);
    let (_, said) = guarded.vend(&guarded.vendor, &["/api/v1/query?query=shown"], "1h");
    let link = said["links"][0].as_str().unwrap();
    let (status, body) = guarded.request(&format!("GET {link}"), "", "", "");
    assert!(status == 200 && body.to_string().contains("shown"), "{body}");
    // A form's values win over those of the address.
    let (status, body) = guarded.request(&format!("POST {link}"), "", "", "query=secret");
    assert_eq!(status, 403, "{body}");
    assert_eq!(guarded.turned_away("not_allowed"), 1);
}

#[test]
fn keys_rotate_and_tickets_are_revoked_while_the_server_runs() {
    let guarded = Guarded::new();
    fill(&guarded);
    let link = "/v1/cells?match[]=shown&start=0&end=9999999999";
    let vend = || {
        let (status, said) = guarded.vend(&guarded.vendor, &[link], "1h");
        assert_eq!(status, 200, "{said}");
        (said["id"].as_str().unwrap().to_owned(), said["links"][0].as_str().unwrap().to_owned())
    };
    let status = |link: &str| guarded.request(&format!("GET {link}"), "", "", "").0;
    let configure =
        |tickets: &str| write(guarded.directory.path(), &format!("{}tickets:\n{tickets}\n", guarded.tokens));
    let ((first, one), (_, other)) = (vend(), vend());
    let old = "{name: one, secret_file: one.key}";
    configure(&format!("  keys: [{{name: two, secret_file: two.key}}, {old}]\n  revoked: [{first}]"));
    eventually("it is revoked", || (status(&one) == 401).then_some(()));
    assert!(guarded.turned_away("revoked") > 0);
    assert_eq!(status(&other), 200, "the key before still counts");
    let (_, newer) = vend();
    configure(&format!("  keys: [{{name: two, secret_file: two.key}}]\n  revoked: [{first}]"));
    eventually("the key before is gone", || (status(&other) == 401).then_some(()));
    assert_eq!(status(&newer), 200, "the newer key signed it");
    // A list that has lost an id is not taken.
    configure("  keys: [{name: two, secret_file: two.key}]");
    eventually("it is refused", || {
        let (_, said) = guarded.request("GET /v1/status", &guarded.admin, "", "");
        said["web_config_refused"].as_str().filter(|why| why.contains("revoked")).map(|_| ())
    });
}
