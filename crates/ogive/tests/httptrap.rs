//! The clients that Circonus published, against the real server: what they sent is what is asked back.

use std::path::Path;
use std::process::Command;

use crate::common::clients::Client;
use crate::common::{Server, eventually, now_ms};

const UUID: &str = "8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e";

/// The Go program, built once.
fn client(directory: &Path) -> Command {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/trap");
    let program = directory.join("trap");
    let built = Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(sources).status();
    assert!(built.expect("Go is needed: https://go.dev/dl").success(), "the clients do not build");
    Command::new(program)
}

#[test]
fn what_circonus_clients_send_is_there_once() {
    let directory = tempfile::tempdir().unwrap();
    let args = ["--listen", "127.0.0.1:0", "--httptrap", &format!("{UUID}:s3cret")];
    let server = Server::try_start(&directory.path().join("data"), &args).expect("it starts");
    let mut command = client(directory.path());
    command.arg(format!("http://{}/module/httptrap/{UUID}/s3cret", server.address));
    let said = Client::run("trap", command).finish();
    assert_eq!(
        said,
        [
            "gometrics sent",
            "trapcheck stats=202 filtered=0 error=\"none\"",
            "trapmetrics stats=7 filtered=0 error=\"none\"",
            "more 50 passed 0 failed"
        ]
    );
    let check = format!("check_uuid=\"{UUID}\"");
    for (query, value) in [
        (format!("gometrics_requests{{{check}}}"), 7.0),
        ("gometrics_depth".to_owned(), 12.5),
        ("gometrics_tagged{host=\"a:b\",dc=\"1\"}".to_owned(), 1.0),
        ("histogram_count(sum_over_time(gometrics_seconds[5m]))".to_owned(), 101.0),
        ("check_levels_a_1_b".to_owned(), 2.0),
        ("sum({__name__=~\"check_[0-9]+\"})".to_owned(), (0..200).sum::<i32>().into()),
        ("count_over_time(trapmetrics_depth{route=\"/login\"}[5m])".to_owned(), 3.0),
        ("trapmetrics_requests".to_owned(), 41.0),
        ("histogram_count(sum_over_time(trapmetrics_seconds[5m]))".to_owned(), 50.0),
        ("histogram_count(trapmetrics_all_seconds)".to_owned(), 9.0),
    ] {
        server.becomes(&query, value);
    }
    eventually("both texts", || {
        let (_, cells) = server.get("/v1/cells?match[]={__name__=~%22(gometrics|trapmetrics)_state%22}");
        (cells["data"]["samples"].as_array().unwrap().len() == 2).then_some(())
    });
    // A histogram with a time is known by it, whatever else is in the body.
    let head = |path: &str| format!("PUT /module/httptrap/{UUID}/{path} HTTP/1.1\r\nHost: localhost");
    let time_ms = now_ms() / 1_000 * 1_000;
    for other in 0..3 {
        let body =
            format!(r#"{{"timed": {{"_type": "h", "_ts": {time_ms}, "_value": "AAEMAAAD"}}, "other": {other}}}"#);
        let (status, answer) = server.request(&head("s3cret"), body.as_bytes()).unwrap();
        assert_eq!(status, 200, "{answer}");
    }
    assert_eq!(server.number("histogram_count(sum_over_time(timed[10m]))"), Some(3.0));
    assert_eq!(server.request(&head("wrong"), b"{}").unwrap().0, 403);

    let (_, config) = server.get("/api/v1/status/flags");
    let shown = config["data"]["httptrap"].as_str().unwrap();
    assert_eq!(shown, format!("{UUID}:<secret>"), "the secret is shown to nobody");
}
