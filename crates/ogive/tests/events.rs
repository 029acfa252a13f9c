//! Events of a real server: stored, of their tenant, in the audit, and there after a kill.

use std::process::Command;

use crate::common::{Server, eventually};
use serde_json::{Value, json};

fn ogive(server: &Server, arguments: &[&str]) -> (Option<i32>, String) {
    let url = format!("http://{}", server.address);
    let output = Command::new(env!("CARGO_BIN_EXE_ogive")).args(arguments).args(["--server", &url]).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn events(server: &Server, tenant: &str) -> Vec<Value> {
    let head = format!("GET /v1/events?match[]=ogive_event HTTP/1.1\r\nx-scope-orgid: {tenant}");
    let (status, body) = server.request(&head, b"").unwrap();
    assert_eq!(status, 200, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["data"]["events"].as_array().unwrap().clone()
}

fn post(server: &Server, tenant: &str, body: &Value) -> (u16, String) {
    let head =
        format!("POST /v1/events HTTP/1.1\r\ncontent-type: application/json; charset=utf-8\r\nx-scope-orgid: {tenant}");
    server.request(&head, body.to_string().as_bytes()).unwrap()
}

#[test]
fn events_are_stored_for_their_tenant_and_survive_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path());
    let (code, said) = ogive(&server, &["event", "deploy v42", "--label", "service=checkout"]);
    assert_eq!((code, &*said), (Some(0), ""));
    let (code, said) = ogive(&server, &["event", "x", "--label", "service"]);
    assert!(code != Some(0) && said.contains("NAME=VALUE"), "{said}");
    let (code, said) = ogive(&server, &["event", " "]);
    assert!(code != Some(0) && said.contains("no text"), "{said}");
    let many = json!({"events": [{"text": "one", "kind": "failover"}, {"text": "two", "time_ms": crate::common::now_ms() - 60_000}]});
    assert_eq!(post(&server, "team", &many).0, 200);
    for (body, part) in [
        (json!({"text": 1}), "string"),
        (json!({"events": []}), "0 events"),
        (json!({"events": vec![json!({"text": "x"}); 257]}), "257 events"),
        (json!({"text": "x", "labels": {"kind": "y"}}), "kind"),
        (json!({"text": "x".repeat(4_097)}), "4097 bytes"),
    ] {
        let (status, said) = post(&server, "team", &body);
        assert!(status == 400 && said.contains(part), "{part}: {status} {said}");
    }
    let (status, said) =
        server.request("POST /v1/events HTTP/1.1\r\ncontent-type: text/plain", b"{\"text\":\"x\"}").unwrap();
    assert_eq!(status, 415, "a page of anybody could send it: {said}");
    let audit = |server: &Server| server.get("/v1/cells?match[]=ogive_audit").1.to_string();
    let has_both = |audit: &str| audit.contains("deploy v42") && audit.contains("tenant team");
    // It is written behind the answer.
    eventually("the audit has both", || has_both(&audit(&server)).then_some(()));

    server.kill();
    let server = Server::start(directory.path());
    let own = events(&server, "default");
    assert_eq!(own.len(), 1, "{own:?}");
    assert_eq!((&own[0]["text"], &own[0]["kind"]), (&json!("deploy v42"), &json!("deploy")));
    assert_eq!(own[0]["labels"], json!({"service": "checkout"}));
    let team: Vec<Value> = events(&server, "team").iter().map(|one| one["text"].clone()).collect();
    assert_eq!(team, [json!("two"), json!("one")], "the oldest first, and nothing of others");
    // What the server stores of itself is shown beside them.
    let all = server.get("/v1/events").1;
    let starts =
        |all: &Value| all["data"]["events"].as_array().unwrap().iter().filter(|one| one["kind"] == "start").count();
    assert!(starts(&all) >= 1, "{all:#}");
    let audit = audit(&server);
    assert!(has_both(&audit), "{audit}");
}
