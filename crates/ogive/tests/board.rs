//! Boards of a real server: files in, versions out, of their tenant, in the audit, there after a kill and beyond any
//! retention.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::common::{Server, eventually};
use serde_json::{Value, json};

fn start(directory: &std::path::Path) -> Server {
    let options = ["--listen", "127.0.0.1:0", "--retention", "1s=1h,logs=1s,audit=1s,gaps=1s"];
    Server::try_start(directory, &options).unwrap_or_else(|said| panic!("no start: {said}"))
}

fn ogive(server: &Server, arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
    let url = format!("http://{}", server.address);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
    command
        .args(arguments)
        .args(["--server", &url])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that reads nothing may have ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn board(title: &str) -> String {
    json!({"name": "shop", "title": title, "variables": [], "panels": [
        {"title": "Up", "queries": ["up"], "kind": "lines", "x": 0, "y": 0, "w": 6, "h": 4}]})
    .to_string()
}

fn of_tenant(server: &Server, tenant: &str, path: &str) -> (u16, Value) {
    let (status, body) = server.request(&format!("GET {path} HTTP/1.1\r\nx-scope-orgid: {tenant}"), b"").unwrap();
    (status, serde_json::from_str(&body).unwrap())
}

#[test]
fn boards_are_files_with_versions() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = start(directory.path());
    let file = directory.path().join("shop.json");
    let path = file.display().to_string();
    for (title, version) in [("One", 1), ("One", 1), ("Two", 2)] {
        std::fs::write(&file, board(title)).unwrap();
        let (code, out, _) = ogive(&server, &["board", "apply", &path], "");
        assert_eq!((code, out), (Some(0), format!("{path}: version {version}\n")));
    }
    let (code, out, _) = ogive(&server, &["board", "list"], "");
    assert!(code == Some(0) && out.starts_with("shop ") && out.contains("version 2"), "{out}");
    for (input, part) in [("{", "not JSON"), ("{}", "missing field"), (&*board("x").replace("shop", "a b"), "name")] {
        let (code, _, said) = ogive(&server, &["board", "apply", "-"], input);
        assert!(code == Some(2) && said.contains(part), "{part}: {code:?} {said}");
    }
    // What somebody arranged survives a kill, and a retention that drops all other texts after a second.
    server.kill();
    let server = start(directory.path());
    let (code, shown, said) = ogive(&server, &["board", "show", "shop"], "");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["title"], "Two");
    let (_, first, _) = ogive(&server, &["board", "show", "shop", "--revision", "1"], "");
    let (code, out, said) = ogive(&server, &["board", "apply", "-"], &first);
    assert_eq!((code, &*out), (Some(0), "-: version 3\n"), "{said}");
    // Another tenant has boards of its own.
    assert_eq!(of_tenant(&server, "team", "/v1/boards").1["data"]["boards"], json!([]));
    assert_eq!(of_tenant(&server, "team", "/v1/boards/shop").0, 404);
    let (code, _, _) = ogive(&server, &["board", "delete", "shop"], "");
    assert_eq!(code, Some(0));
    let (code, _, said) = ogive(&server, &["board", "show", "shop"], "");
    assert!(code == Some(2) && said.contains("no board"), "{said}");
}

#[test]
fn who_changed_a_board_is_in_the_audit() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    assert_eq!(ogive(&server, &["board", "apply", "-"], &board("One")).0, Some(0));
    assert_eq!(ogive(&server, &["board", "delete", "shop"], "").0, Some(0));
    let audit = || {
        let (code, out, _) = ogive(&server, &["audit"], "");
        (code == Some(0) && out.contains("POST /v1/boards") && out.contains("DELETE /v1/boards/shop")).then_some(out)
    };
    let said = eventually("both in the audit", audit);
    assert!(said.contains("answered 200"), "{said}");
}
