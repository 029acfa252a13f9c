//! Arrow files of `ogive query`, read back by pyarrow.

use std::process::{Command, Output};

use crate::common::clients::Client;
use crate::common::{SOURCE, Server, float, histogram, now_ms};
use serde_json::json;

fn ask(server: &Server, arguments: &[&str]) -> Output {
    let address = format!("http://{}", server.address);
    Command::new(env!("CARGO_BIN_EXE_ogive"))
        .arg("query")
        .args(arguments)
        .env("OGIVE_SERVER", address)
        .output()
        .unwrap()
}

/// Twenty seconds of a gauge that goes through zero, of distributions on both sides of it, and labels called as columns
/// are.
fn fill(server: &Server, time_ms: i64) {
    let mut odd = float("try_odd");
    for label in ["time", "value", "label_value", "naïve \"x\""] {
        odd["labels"][label] = json!(format!("{label}'s"));
    }
    let bins = json!({"bins": {"1.2e-3": 4, "3.5e-2": 1, "-0.5": 2, "0": 3}});
    let samples = (0..20).flat_map(|second| {
        let time_ms = time_ms - 1_000 * second;
        let value = (second as f64 - 10.0) / 3.0;
        [
            json!({"series": 0, "time_ms": time_ms, "float": if second == 3 { json!("NaN") } else { json!(value) }}),
            json!({"series": 1, "time_ms": time_ms, "histogram": bins}),
            json!({"series": 2, "time_ms": time_ms, "float": 5e-324}),
        ]
    });
    let series = json!([float("try_gauge"), histogram("try_seconds"), odd]);
    let (status, body) = server.batch(SOURCE, 1, series, samples.collect());
    assert_eq!((status, &body["accepted"]), (200, &json!(60)), "{body}");
}

#[test]
fn what_pyarrow_reads_is_the_answer() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"));
    let now = now_ms();
    fill(&server, now);
    let files = directory.path().join("files");
    std::fs::create_dir(&files).unwrap();
    let (at, from) = (format!("{:.3}", now as f64 / 1e3), format!("{:.3}", (now - 19_000) as f64 / 1e3));
    let range: &[&str] = &["--start", &from, "--end", &at, "--step", "1"];
    let instant: &[&str] = &["--time", &at];
    // 7 series of 11,000 points, which is as many as a range may have: more rows than a batch.
    let many = (0..7).map(|at| format!("label_replace(vector({at}/3), 'job', 'ä{at}', '', '')"));
    let many = many.collect::<Vec<_>>().join(" or ");
    // Rows, rows with a histogram, batches. A gauge of 10 - 10 divides by zero, and 0 / 0 is no number.
    let requested: &[(&str, &str, &[&str], &str)] = &[
        ("all", "{__name__=~'try_.+'}", instant, "3 1 1"),
        ("all_range", "{__name__=~'try_(gauge|odd|seconds)'}", range, "60 20 1"),
        ("empty", "nobody_sent_this", instant, "0 0 0"),
        ("empty_range", "nobody_sent_this", range, "0 0 0"),
        ("infinite", "vector(time()) / (try_gauge * 0) or try_gauge / 0", range, "20 0 1"),
        ("large", &many, &["--start", "0", "--end", "10999", "--step", "1"], "77000 0 2"),
        ("merged", "sum(increase(try_seconds[10s]))", range, "20 20 1"),
        ("noted", "histogram_quantile(2, try_seconds) + rate(try_gauge[5s])", instant, "1 0 1"),
        ("scalar", "-1/3", instant, "1 0 1"),
        ("string", "'a\\n\"b\" ä'", instant, "1 0 1"),
    ];
    let mut expected = Vec::new();
    for (name, expr, when, reported) in requested {
        for format in ["json", "arrow"] {
            let path = files.join(format!("{name}.{format}"));
            let output = ask(&server, &[&[expr, "--format", format, "-o", path.to_str().unwrap()], *when].concat());
            assert!(output.status.success() && output.stdout.is_empty(), "{expr}: {output:?}");
        }
        expected.push(format!("{name} {reported}"));
    }
    let said = Client::start("arrow.py", &[files.to_str().unwrap()]).finish();
    assert_eq!(said, expected);
    // Standard output takes the same bytes, when it is no terminal.
    let whole = ask(&server, &[&[requested[0].1, "--format", "arrow"], requested[0].2].concat());
    assert_eq!(whole.stdout, std::fs::read(files.join("all.arrow")).unwrap());
    let refused = ask(&server, &["up", "--format", "arrow", "--watch", "--repeats", "1"]);
    assert!(
        refused.status.code() == Some(2) && String::from_utf8_lossy(&refused.stderr).contains("--watch"),
        "{refused:?}"
    );
    let refused = ask(&server, &["up", "--format", "csv", "-o", "/nowhere/at/all.csv"]);
    assert!(
        refused.status.code() == Some(2) && String::from_utf8_lossy(&refused.stderr).contains("/nowhere"),
        "{refused:?}"
    );
}
