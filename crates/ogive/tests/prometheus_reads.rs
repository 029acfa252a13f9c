//! What a real Prometheus takes out of the server: `/federate`, and remote read, whose chunks are compared with its
//! own.

use std::collections::BTreeMap;

use crate::common::prometheus::{Prometheus, alike, growing};
use crate::common::remote::{frames, post, put_float, put_histogram, read_request, series, write_request};
use crate::common::{Server, eventually, form, now_ms};

#[test]
fn chunks_are_those_that_a_prometheus_makes() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"));
    let prometheus = Prometheus::start("global: {}\n");
    // Five minutes of the same two hours of UTC: a Prometheus begins new chunks with each two.
    let (now, window) = (now_ms(), 7_200_000);
    let now = if now.rem_euclid(window) < 300_000 { now - now.rem_euclid(window) } else { now };
    // Fewer samples than Prometheus would cut into two chunks by guessing when its next one ends.
    let (mut float, mut whole, mut quarters) = (series("try_float"), series("try_whole"), series("try_quarters"));
    for step in 0..20_u64 {
        let time = now - 15_000 * (20 - step as i64) + (step as i64 * 37) % 11;
        put_float(&mut float, time, (step * step % 7) as f64 / 3.0);
        let [positive, negative] = growing(step);
        put_histogram(&mut whole, time, [&positive, &negative], step, false);
        put_histogram(&mut quarters, time, [&positive, &negative], step, true);
    }
    let request = write_request(&[float, whole, quarters]);
    let requested = read_request("try_.*", now - 600_000, now);
    let answers = [&server.address, &prometheus.address].map(|address| {
        let (status, said) = post(&format!("http://{address}/api/v1/write"), &request);
        assert_eq!(status, 204, "{}", String::from_utf8_lossy(&said));
        let (status, answer) = post(&format!("http://{address}/api/v1/read"), &requested);
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
        frames(&answer)
    });
    assert_eq!(answers[0].len(), 3);
    for (ours, theirs) in answers[0].iter().zip(&answers[1]) {
        assert_eq!(ours, theirs, "ours, and those of Prometheus: {:x?} {:x?}", ours, theirs);
    }
    assert_eq!(answers[1].len(), 3);
}

#[test]
fn days_are_more_than_a_frame_and_a_prometheus_reads_them() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"));
    let url = format!("http://{}/api/v1/read", server.address);
    // A minute, which it waits by itself, is little for a debug build on a busy machine.
    let config = format!("remote_read: [{{url: '{url}', read_recent: true, remote_timeout: 5m}}]\n");
    let prometheus = Prometheus::start(&config);
    // Three days, a sample each second, of numbers that no chunk makes short.
    let (count, now) = (3 * 86_400_u64, now_ms());
    let mut one = series("days");
    for at in 0..count {
        let noise = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 12;
        put_float(&mut one, now - 1_000 * (count - 1 - at) as i64, noise as f64 / 7.0);
    }
    let (status, said) = post(&format!("http://{}/api/v1/write", server.address), &write_request(&[one]));
    assert_eq!(status, 204, "{}", String::from_utf8_lossy(&said));
    let (status, answer) = post(&format!("http://{}/api/v1/read", server.address), &read_request("days", 0, now));
    assert_eq!(status, 200);
    let frames = frames(&answer);
    assert!(frames.len() > 1 && frames.iter().all(|frame| frame.len() <= 1 << 20), "{}", frames.len());
    assert!(answer.len() as u64 > 6 * count, "{} bytes are too few for noise", answer.len());
    for expr in ["count_over_time(days[4d])", "sum_over_time(days[4d])", "max_over_time(days[26h])"] {
        let found = prometheus.query(expr, now);
        let (_, body) = server.get(&format!("/api/v1/query?query={}&time={}", form(expr), now as f64 / 1e3));
        assert_eq!(found, body["data"]["result"], "{expr}");
    }
    assert_eq!(prometheus.query("count_over_time(days[4d])", now)[0]["value"][1], count.to_string());
}

#[test]
fn a_prometheus_federates_native_histograms() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"));
    let now = now_ms();
    let (mut whole, mut quarters, mut float) = (series("try_whole"), series("try_quarters"), series("try_float"));
    let [positive, negative] = growing(12);
    put_histogram(&mut whole, now, [&positive, &negative], 3, false);
    put_histogram(&mut quarters, now, [&positive, &BTreeMap::new()], 0, true);
    put_float(&mut float, now, 2.5);
    let (status, said) =
        post(&format!("http://{}/api/v1/write", server.address), &write_request(&[whole, quarters, float]));
    assert_eq!(status, 204, "{}", String::from_utf8_lossy(&said));
    let prometheus = Prometheus::start(&format!(
        "scrape_configs: [{{job_name: federate, scrape_interval: 1s, honor_labels: true, metrics_path: /federate, \
         params: {{'match[]': ['{{__name__=~\"try_.*\"}}']}}, static_configs: [{{targets: ['{}']}}]}}]\n",
        server.address
    ));
    let found = eventually("a scrape", || {
        let found = prometheus.query("try_whole", now + 1_000);
        (found.as_array().is_some_and(|all| !all.is_empty())).then_some(found)
    });
    let ask = |expr: &str| {
        let (_, body) = server.get(&format!("/api/v1/query?query={}&time={}", form(expr), (now + 1_000) as f64 / 1e3));
        body["data"]["result"].clone()
    };
    let count = 3 + positive.values().chain(negative.values()).sum::<u64>();
    assert_eq!(found[0]["histogram"][1]["count"], count.to_string(), "{found}");
    let ours = ask("try_whole");
    assert!(alike(&ours, &found), "{ours}, there {found}");
    for expr in ["try_quarters", "try_float", "histogram_sum(try_whole)"] {
        let (ours, theirs) = (ask(expr), prometheus.query(expr, now + 1_000));
        assert!(alike(&ours, &theirs) && !ours.as_array().unwrap().is_empty(), "{expr}: {ours}, there {theirs}");
    }
    // Who takes text gets the classic form.
    let (_, page) = server.get("/federate?match[]=try_whole");
    let page = page.as_str().unwrap();
    assert!(page.contains(&format!("try_whole_count{{job=\"a\",instance=\"\"}} {count} {now}\n")), "{page}");
    assert!(page.contains(&format!("le=\"+Inf\"}} {count} {now}\n")), "{page}");
}
