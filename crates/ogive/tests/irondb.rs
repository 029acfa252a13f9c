//! The client of IRONdb that Circonus published, against the real server: what it wrote is what it reads, once.

use std::path::Path;
use std::process::Command;

use crate::common::clients::Client;
use crate::common::{Server, now_ms, request_at};

/// The Go program, built.
fn client(directory: &Path) -> Command {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/snowth");
    let program = directory.join("snowth");
    let built = Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(sources).status();
    assert!(built.expect("Go is needed: https://go.dev/dl").success(), "the client does not build");
    Command::new(program)
}

#[test]
fn gosnowth_reads_what_it_wrote() {
    let directory = tempfile::tempdir().unwrap();
    let args = ["--listen", "127.0.0.1:0", "--irondb", "127.0.0.1:0"];
    let server = Server::try_start(&directory.path().join("data"), &args).expect("it starts");
    let address = server.line_address("irondb", "tcp");
    let base = (now_ms() / 3_600_000 - 2) * 3_600;
    let mut command = client(directory.path());
    command.arg(format!("http://{address}")).arg(base.to_string());
    let said = Client::run("snowth", command).finish();
    let expected = include_str!("clients/snowth/expected.txt");
    assert_eq!(said.join("\n") + "\n", expected);

    // The same data by the names of Prometheus, and the counts of what came.
    // It began up to three hours ago, and a moment more when the hour ends meanwhile.
    let load = format!("sum(max_over_time(load{{host=\"a\"}}[4h])) + 0 * {base}");
    assert_eq!(server.number(&load), Some(9.0));
    assert_eq!(server.number("histogram_count(sum_over_time({\"latency`seconds\"}[4h]))"), Some(75.0));
    let (_, status) = server.get("/v1/status");
    assert_eq!(
        (&status["irondb_duplicate_total"], &status["irondb_unreadable_total"]),
        (&37.into(), &6.into()),
        "{status}"
    );
    assert_eq!(request_at(&address, "GET /nowhere HTTP/1.1", b"").unwrap().0, 404);
    assert_eq!(request_at(&address, "GET /api/v1/query?query=up HTTP/1.1", b"").unwrap().0, 404);
}
