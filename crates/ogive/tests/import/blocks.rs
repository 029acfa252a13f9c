//! Blocks that Prometheus' own programs made.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{T, cells, import, started, write};
use crate::common::prometheus::{Prometheus, alike, growing};
use crate::common::remote::{post, put_float, put_histogram, series, write_request};
use crate::common::{form, now_ms};

fn promtool(arguments: &[&str]) -> String {
    let output =
        Command::new("promtool").args(arguments).output().expect("promtool starts; run scripts/need prometheus");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Blocks in `directory` of an OpenMetrics file.
pub(crate) fn create(file: &str, directory: &Path) -> String {
    let blocks = directory.to_str().unwrap();
    promtool(&["tsdb", "create-blocks-from", "openmetrics", file, blocks]);
    blocks.to_owned()
}

#[test]
fn blocks_of_promtool_are_read_whole_and_stored_once() {
    let (directory, server) = started();
    // Five hours of three series, one with a gap: several blocks and windows, chunks across their edges.
    let (mut text, mut expected) = (String::from("# TYPE jobs counter\n"), BTreeMap::new());
    for (number, host) in ["a", "b", "ä \\\\ \\\"c"].iter().enumerate() {
        for at in (0..1_200_i64).filter(|at| number != 1 || !(300..700).contains(at)) {
            let value = (at * at % 977) as f64 / 3.0 + at as f64;
            writeln!(text, "jobs_total{{host=\"{host}\"}} {value} {}.{:03}", T + 15 * at, at % 1000).unwrap();
            expected.entry(number).or_insert_with(Vec::new).push(((T + 15 * at) * 1000 + at % 1000, value));
        }
    }
    text += "# EOF\n";
    let blocks = create(&write(directory.path(), "a.om", text), &directory.path().join("blocks"));
    let (found, code) = import(&server, &["prometheus-blocks", &blocks]);
    let count: u64 = found.as_array().unwrap().iter().map(|block| block["accepted"].as_u64().unwrap()).sum();
    assert_eq!((count, code), (3 * 1_200 - 400, 0), "{found}");
    assert!(found.as_array().unwrap().len() > 1, "{found}");
    for (host, expected) in ["a", "b", "ä \\\\ \\\"c"].iter().zip(expected.values()) {
        let (series, samples) = cells(&server, &format!("jobs_total{{host=\"{host}\"}}"));
        assert_eq!(series[0]["temporality"], "cumulative");
        let read: Vec<_> =
            samples.iter().map(|one| (one["time_ms"].as_i64().unwrap(), one["float"].as_f64().unwrap())).collect();
        assert_eq!(&read, expected, "{host}");
    }
    let (again, code) = import(&server, &["prometheus-blocks", &blocks]);
    let all = again.as_array().unwrap();
    assert!(code == 0 && all.iter().all(|block| block["accepted"] == 0 && block["duplicate"] != 0), "{again}");
    // A block that is damaged names it, and what is good of it is there.
    let block = std::fs::read_dir(&blocks).unwrap().next().unwrap().unwrap().path();
    let chunks = block.join("chunks/000001");
    let mut bytes = std::fs::read(&chunks).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&chunks, bytes).unwrap();
    let (damaged, code) = import(&server, &["prometheus-blocks", block.to_str().unwrap()]);
    assert_eq!((&damaged[0]["bad"]["chunk_damaged"]["count"], code), (&json!(1), 1), "{damaged}");
    let index = block.join("index");
    let mut bytes = std::fs::read(&index).unwrap();
    let at = bytes.len() - 60;
    bytes.truncate(at);
    std::fs::write(&index, bytes).unwrap();
    let (damaged, code) = import(&server, &["prometheus-blocks", block.to_str().unwrap()]);
    assert!(code == 1 && damaged[0]["broken"].as_str().unwrap().contains("index"), "{damaged}");
}

/// Floats, native histograms with integers and with floats, a marker of an end, a deletion: what Prometheus answers is
/// answered here.
#[test]
fn a_snapshot_of_prometheus_answers_as_it_does() {
    let (_directory, server) = started();
    let prometheus = Prometheus::start("global: {}\n");
    let now = now_ms() / 15_000 * 15_000;
    let (mut float, mut whole, mut quarters) = (series("try_float"), series("try_whole"), series("try_quarters"));
    let (mut gone, mut ended) = (series("try_gone"), series("try_ended"));
    for step in 0..200_u64 {
        let time = now - 15_000 * (200 - step as i64) + (step as i64 * 37) % 11;
        put_float(&mut float, time, (step * step % 7) as f64 / 3.0);
        let [positive, negative] = growing(step % 120);
        put_histogram(&mut whole, time, [&positive, &negative], step, false);
        put_histogram(&mut quarters, time, [&positive, &negative], step, true);
        put_float(&mut gone, time, step as f64);
        put_float(&mut ended, time, if step == 150 { f64::from_bits(0x7ff0_0000_0000_0002) } else { step as f64 });
    }
    let request = write_request(&[float, whole, quarters, gone, ended]);
    let (status, said) = post(&format!("http://{}/api/v1/write", prometheus.address), &request);
    assert_eq!(status, 204, "{}", String::from_utf8_lossy(&said));
    let deleted = now - 15_000 * 100;
    prometheus.post(&format!("/api/v1/admin/tsdb/delete_series?match[]=try_gone&start={}", deleted as f64 / 1e3));
    let snapshot = prometheus.snapshot();
    let (found, code) = import(&server, &["prometheus-blocks", snapshot.to_str().unwrap()]);
    assert_eq!(code, 0, "{found}");
    for expr in [
        "try_float",
        "rate(try_float[5m])",
        "try_whole",
        "try_quarters",
        // Not rates and quantiles: Prometheus 3 changed them.
        "histogram_count(try_whole)",
        "histogram_count(try_quarters)",
        "histogram_sum(try_whole)",
        "count_over_time(try_whole[40m])",
        "count_over_time(try_ended[1h])",
        "try_ended",
    ] {
        for minutes in [0, 7, 12, 26, 33] {
            // Between two samples: versions of Prometheus differ over a sample at the edge of a window.
            let time = now - minutes * 60_000 - 7_500;
            let theirs = prometheus.query(expr, time);
            let (_, body) = server.get(&format!("/api/v1/query?query={}&time={}", form(expr), time as f64 / 1e3));
            let ours: &Value = &body["data"]["result"];
            assert!(alike(ours, &theirs), "{expr} {minutes} minutes ago: {ours}, and Prometheus {theirs}");
        }
    }
    // By what was sent, not by what Prometheus answers while it runs: its head may still give a sample that was
    // deleted.
    let left = cells(&server, "try_gone").1;
    assert!(
        left.len() == 100 && left.iter().all(|one| one["time_ms"].as_i64().unwrap() < deleted),
        "{} are left",
        left.len()
    );
}
