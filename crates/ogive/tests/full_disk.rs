//! A full disk: writes are refused with a clear error, reads go on, and with space again all goes on without a restart.
//!
//! The disk is a small tmpfs. Where mounting is not permitted, the test runs itself again in a mount namespace of its
//! own; where that is not permitted either, it fails and says what to permit: a limit on file sizes would give another
//! error than a full disk.

use crate::common::brokers::{broker, configure, destination, state};
use crate::common::namespace::{self, SmallDisk};
use crate::common::programs::free_address;
use crate::common::{SOURCE, Server, eventually, now_ms};
use serde_json::json;

#[test]
fn a_full_disk_refuses_writes_and_heals() {
    let directory = tempfile::tempdir().unwrap();
    let Some(_small) = SmallDisk::mount(directory.path(), 8) else {
        return namespace::again("full_disk::a_full_disk_refuses_writes_and_heals", &[]);
    };
    let data = directory.path().join("data");
    let server = Server::start(&data);
    let t = now_ms();
    let series = || json!([{"labels": {"__name__": "words"}, "kind": "text"}, crate::common::float("f")]);
    let send = |sequence: u64, bytes: usize| {
        let text: String =
            (0..bytes).map(|at| char::from(b'a' + ((at * 7 + sequence as usize * 13) % 26) as u8)).collect();
        let samples =
            json!([{"series": 0, "time_ms": t, "text": text}, {"series": 1, "time_ms": t, "float": sequence}]);
        server.batch(SOURCE, sequence, series(), samples)
    };
    assert_eq!(send(1, 10).0, 200);
    let ballast = directory.path().join("ballast");
    std::fs::write(&ballast, vec![1; 6 << 20]).unwrap();
    let mut sequence = 1;
    let (status, answer) = loop {
        sequence += 1;
        let (status, answer) = send(sequence, 200_000);
        if status != 200 {
            break (status, answer);
        }
        assert!(sequence < 100, "the disk never fills");
    };
    assert_eq!((status, &answer["errorType"]), (507, &json!("disk_full")), "{answer}");
    assert!(answer["error"].as_str().unwrap().contains("full"), "{answer}");
    // Reads go on, and what was acknowledged is there.
    assert_eq!(server.number("f"), Some((sequence - 1) as f64));
    assert_eq!(server.get("/-/ready").0, 200);
    assert_eq!(send(sequence, 200_000).0, 507);
    std::fs::remove_file(&ballast).unwrap();
    // The same batch, sent again, goes through without a restart.
    let accepted = eventually("writing goes on", || {
        let (status, answer) = send(sequence, 200_000);
        (status == 200).then_some(answer)
    });
    assert_eq!(accepted["accepted"], 2, "{accepted}");
    assert_eq!(server.number("f"), Some(sequence as f64));
    let mut server = server;
    server.kill();
    let server = Server::start(&data);
    assert_eq!(server.number("f"), Some(sequence as f64));
}

/// A full disk refused the very request that makes room.
#[test]
fn a_full_disk_takes_a_deletion() {
    let directory = tempfile::tempdir().unwrap();
    let Some(_small) = SmallDisk::mount(directory.path(), 8) else {
        return namespace::again("full_disk::a_full_disk_takes_a_deletion", &[]);
    };
    let data = directory.path().join("data");
    let server = Server::try_start(&data, &["--listen", "127.0.0.1:0", "--enable-admin-api"]).unwrap();
    let t = now_ms();
    let series = || json!([{"labels": {"__name__": "words"}, "kind": "text"}, crate::common::float("f")]);
    let send = |sequence: u64| {
        let letter = |at: usize| char::from(b'a' + ((at * 7 + sequence as usize * 13) % 26) as u8);
        let text: String = (0..200_000).map(letter).collect();
        let samples =
            json!([{"series": 0, "time_ms": t, "text": text}, {"series": 1, "time_ms": t, "float": sequence}]);
        server.batch(SOURCE, sequence, series(), samples)
    };
    let ballast = directory.path().join("ballast");
    std::fs::write(&ballast, vec![1; 4 << 20]).unwrap();
    let full = (1..100).find(|sequence| send(*sequence).0 != 200).expect("the disk fills");
    // Not a byte is left beside the reserve.
    let mut rest = std::fs::OpenOptions::new().append(true).open(&ballast).unwrap();
    while std::io::Write::write(&mut rest, &[1; 4096]).is_ok_and(|taken| taken > 0) {}
    let head = "POST /api/v1/admin/tsdb/delete_series?match[]=f HTTP/1.1";
    let (status, body) = server.request(head, b"").unwrap();
    assert_eq!(status, 204, "{body}");
    assert_eq!(server.number("f"), None);
    let mut server = server;
    server.kill();
    let server = Server::try_start(&data, &["--listen", "127.0.0.1:0"]).unwrap();
    assert_eq!(server.number("f"), None);
    assert_eq!(server.get("/api/v1/series?match[]=words").1["data"].as_array().map(Vec::len), Some(1), "{full}");
}

/// A broker on a full disk: senders get an error that says to retry, what it acknowledged is delivered, and delivering
/// makes room.
#[test]
fn a_full_spool_disk_refuses_batches_and_heals() {
    let directory = tempfile::tempdir().unwrap();
    let Some(_small) = SmallDisk::mount(directory.path(), 8) else {
        return namespace::again("full_disk::a_full_spool_disk_refuses_batches_and_heals", &[]);
    };
    let held: Vec<_> = (0..2).map(|_| tempfile::tempdir().unwrap()).collect();
    let away = free_address();
    let to = [("away", &[format!("http://{away}")][..], "")];
    let path = configure(held[0].path(), "127.0.0.1:0", "bytes-max = \"1GiB\"", &to);
    let text = std::fs::read_to_string(&path).unwrap();
    let here = directory.path().join("spool");
    std::fs::write(&path, text.replace(held[0].path().join("spool").to_str().unwrap(), here.to_str().unwrap()))
        .unwrap();
    let broker = broker(&path);
    let t = now_ms();
    let words = || json!([{"labels": {"__name__": "words"}, "kind": "text"}, crate::common::float("f")]);
    let send = |sequence: u64| {
        let letter = |at: u64| char::from(b'a' + ((at * 7 + at / 26 * sequence) % 26) as u8);
        let text: String = (0..100_000).map(letter).collect();
        let time_ms = t - 200_000 + sequence as i64;
        let samples =
            json!([{"series": 0, "time_ms": time_ms, "text": text}, {"series": 1, "time_ms": time_ms, "float": 1}]);
        broker.batch(SOURCE, sequence, words(), samples)
    };
    let mut taken = 0;
    let answer = loop {
        let (status, answer) = send(taken + 1);
        if status != 200 {
            assert_eq!(status, 507, "{answer}");
            break answer;
        }
        taken += 1;
        assert!(taken < 200, "the disk never fills");
    };
    assert!(answer["error"].as_str().unwrap().contains("full") && taken > 20, "{taken} {answer}");
    // Other senders hear what makes them send again; 2,000 series are more than the few bytes that may be left.
    let time = ((t - 1_000) * 1_000_000).to_string();
    let point = |at: usize| {
        let x = format!("{}{at}", "x".repeat(100));
        json!({"asDouble": 1, "timeUnixNano": time, "attributes": [{"key": "x", "value": {"stringValue": x}}]})
    };
    let points: Vec<_> = (0..2_000).map(point).collect();
    let otlp =
        json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "g", "gauge": {"dataPoints": points}}]}]}]});
    let head = "POST /v1/metrics HTTP/1.1\r\ncontent-type: application/json";
    let (status, said) = broker.request(head, otlp.to_string().as_bytes()).unwrap();
    assert_eq!(status, 503, "{said}");
    assert_eq!(broker.get("/-/ready").0, 200);
    // The cluster comes back, takes all, and with that there is room again.
    let back = Server::start_at(held[1].path(), &away);
    let again = eventually("writing goes on", || Some(send(taken + 1)).filter(|(status, _)| *status == 200));
    assert_eq!(again.1["accepted"], 2, "{again:?}");
    let all = (taken + 1) as f64;
    eventually("all that was acknowledged", || back.number("count_over_time(f[1h])").filter(|count| *count >= all));
    assert_eq!(back.number("count_over_time(f[1h])"), Some(all));
    assert_eq!(destination(&state(&broker), "away")["gaps"]["made_total"], 0);
}
