//! Bad input from outside: each kind gets a clear 4xx with its reason, good neighbours are taken, memory stays bounded.

use std::io::Write;
use std::net::Shutdown;
use std::time::Duration;

use crate::common::{FRAME, JSON, SOURCE, Server, float, histogram, now_ms};
use ogive_model::{Batch, Kind, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Value as ModelValue};
use serde_json::{Value, json};

fn server() -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    (directory, server)
}

/// A frame of one float sample.
fn frame(sequence: u64) -> Vec<u8> {
    let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    let series = vec![SeriesDef::new([("__name__", "framed")], meta)];
    let samples =
        vec![Ok(Sample { series: 0, time_ns: now_ms() * 1_000_000, start_ns: None, value: ModelValue::Float(1.0) })];
    Batch { source: SourceId(7), sequence, series, samples, ..Batch::default() }.encode().unwrap()
}

#[test]
fn bodies_that_are_no_batch() {
    let (_directory, server) = server();
    let check = |kind: &str, body: &[u8], expected: u16, word: &str| {
        let (status, answer) = server.post(kind, body);
        let error = answer["error"].as_str().unwrap_or_default();
        assert_eq!((status, &answer["status"]), (expected, &json!("error")), "{answer}");
        assert!(error.contains(word), "{word:?} is not in {error:?}");
    };
    check(JSON, b"", 400, "EOF");
    check(JSON, b"{\"source\":", 400, "line 1 column");
    check(JSON, b"\xff\xfe", 400, "line 1");
    check(JSON, b"null", 400, "null");
    check(
        JSON,
        format!("{{\"source\":\"{SOURCE}\",\"sequence\":1,\"series\":[],\"samples\":[],\"smaples\":[]}}").as_bytes(),
        400,
        "smaples",
    );
    check(JSON, &[b'['; 1_000_000], 400, "");
    check("application/xml", b"<batch/>", 415, "application/json");
    let good = frame(1);
    check(FRAME, b"", 400, "shorter than the frame header");
    check(FRAME, &good[..good.len() - 1], 400, "declares");
    check(FRAME, &[&good[..], b"more"].concat(), 400, "declares");
    let mut wrong = good.clone();
    *wrong.last_mut().unwrap() ^= 0x10;
    check(FRAME, &wrong, 400, "checksum");
    wrong = good.clone();
    wrong[0] = b'X';
    check(FRAME, &wrong, 400, "OGVF");
    wrong = good.clone();
    wrong[4] = 99;
    check(FRAME, &wrong, 400, "version");
    // Right frame, wrong message.
    let mut framed = good[..16].to_vec();
    framed.extend_from_slice(&[0xff; 64]);
    framed[8..12].copy_from_slice(&64_u32.to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&framed[..12]), &framed[16..]);
    framed[12..16].copy_from_slice(&checksum.to_le_bytes());
    check(FRAME, &framed, 400, "not a batch");
    assert_eq!(server.post(FRAME, &good), (200, json!({"accepted": 1, "duplicate": 0, "rejected": []})));
}

#[test]
fn bad_samples_and_series_spoil_only_themselves() {
    let (_directory, server) = server();
    // What is read below is behind us, the two milliseconds after it too.
    let t = now_ms() - 1_000;
    let labels = |labels: Value| json!({"labels": labels, "kind": "float"});
    let mut series = vec![
        histogram("good_seconds"),
        float("good"),
        labels(json!({"a": "no name"})),
        labels(json!({"__name__": "x", "": "empty name"})),
        labels(json!({"__name__": ""})),
        labels(json!({"zz": "1", "__name__": "unsorted_is_fine", "aa": "2"})),
    ];
    series.push(json!({"labels": {"__name__": "long", "l": "v".repeat(20_000)}, "kind": "float"}));
    let bins = |bins: Value| json!({"series": 0, "time_ms": t, "histogram": {"bins": bins}});
    let number = |series: i64, time: Value, value: Value| json!({"series": series, "time_ms": time, "float": value});
    let half = 9_223_372_036_854_775_808_u64;
    let cases: Vec<(Value, &str)> = vec![
        (bins(json!({"1.2e-3": 1})), ""),
        (bins(json!({"1.2e-3": half, "1.3e-3": half})), "histogram_invalid"),
        (bins(json!({"1.2e-3": -1})), "histogram_invalid"),
        (bins(json!({"1.25e-3": 1})), "histogram_invalid"),
        (bins(json!({"NaN": 1})), ""),
        (json!({"series": 0, "time_ms": t, "histogram": {"bins": {"1": 1}, "sum": "+Inf"}}), "histogram_invalid"),
        (json!({"series": 0, "time_ms": t, "histogram_b64": "AAEKAAAC!"}), "histogram_invalid"),
        (number(1, json!(t), json!(1.0)), ""),
        (number(1, json!(t + 1), json!("NaN")), ""),
        (number(1, json!(t + 2), json!("+Inf")), ""),
        (number(1, json!(t + 1_000_000_000_000_i64), json!(1)), "time_too_new"),
        (number(1, json!(-9_000_000_000_000_000_i64), json!(1)), "time_too_old"),
        (number(1, json!(9_223_372_036_854_775_807_i64), json!(1)), "time_too_new"),
        (number(2, json!(t), json!(1)), "labels_invalid"),
        (number(3, json!(t), json!(1)), "labels_invalid"),
        (number(4, json!(t), json!(1)), "labels_invalid"),
        (number(5, json!(t), json!(1)), ""),
        (number(6, json!(t), json!(1)), "labels_invalid"),
        (number(99, json!(t), json!(1)), "series_unknown"),
        (number(0, json!(t), json!(1)), "kind_conflict"),
        (json!({"series": 1, "time_ms": t, "text": "no float"}), "kind_conflict"),
    ];
    let samples: Vec<Value> = cases.iter().map(|case| case.0.clone()).collect();
    let (status, answer) = server.batch(SOURCE, 1, json!(series), json!(samples));
    assert_eq!(status, 200, "{answer}");
    let expected: Vec<(u64, &str)> =
        cases.iter().enumerate().filter(|(_, case)| !case.1.is_empty()).map(|(at, case)| (at as u64, case.1)).collect();
    let rejected: Vec<(u64, &str)> = answer["rejected"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["sample"].as_u64().unwrap(), one["reason"].as_str().unwrap()))
        .collect();
    assert_eq!(rejected, expected);
    assert_eq!(answer["accepted"].as_u64().unwrap() as usize, cases.len() - expected.len());
    // One count of 2^63 is a count.
    let (status, _) = server.batch(SOURCE, 3, json!([histogram("huge")]), json!([bins(json!({"1.2e-3": half}))]));
    assert_eq!(status, 200);
    assert_eq!(server.number("good + 0"), Some(f64::INFINITY));
    assert_eq!(server.number("histogram_count(good_seconds)"), Some(2.0));
    conserved(&server);
}

/// Two labels of one name cannot be seen in a JSON tree: written out by hand.
#[test]
fn a_label_given_twice_is_named() {
    let (_directory, server) = server();
    let t = now_ms();
    let body = format!(
        r#"{{"source":"{SOURCE}","sequence":2,"series":[{{"labels":{{"__name__":"x","a":"1","a":"2"}},"kind":"float"}}],
            "samples":[{{"series":0,"time_ms":{t},"float":1}}]}}"#
    );
    let (status, answer) = server.post(JSON, body.as_bytes());
    assert_eq!((status, &answer["rejected"][0]["reason"]), (400, &json!("labels_invalid")));
    assert!(answer["rejected"][0]["detail"].as_str().unwrap().contains("twice"), "{answer}");
    conserved(&server);
}

/// Received = accepted + duplicate + rejected.
fn conserved(server: &Server) {
    let (_, ledger) = server.get("/v1/status");
    let figure = |name: &str| ledger[name].as_u64().unwrap();
    let decided = figure("accepted_total") + figure("duplicate_total") + figure("rejected_total");
    assert_eq!(figure("received_total"), decided, "{ledger}");
}

#[test]
fn a_body_of_100_mb_is_refused_and_never_held() {
    let (_directory, server) = server();
    let piece = vec![b' '; 1 << 20];
    // With its length declared.
    let mut stream = server.connect();
    let head = format!(
        "POST /v1/batch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        100 << 20
    );
    stream.write_all(head.as_bytes()).unwrap();
    // A server that has read for as long as it wants answers, and closes under the rest.
    let _ = (0..100).try_for_each(|_| stream.write_all(&piece));
    let (status, body) = crate::common::read_answer(&mut stream).unwrap();
    assert!(status == 413 && body.contains("split"), "{status} {body}");
    // In chunks of unknown sum.
    let mut stream = server.connect();
    stream
        .write_all(b"POST /v1/batch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n")
        .unwrap();
    let chunk = [&b"100000\r\n"[..], &piece, b"\r\n"].concat();
    let _ = (0..100).try_for_each(|_| stream.write_all(&chunk)).and_then(|()| stream.write_all(b"0\r\n\r\n"));
    let (status, body) = crate::common::read_answer(&mut stream).unwrap();
    assert!(status == 413 && body.contains("split"), "{status} {body}");
    let peak = server.memory_peak_kib();
    assert!(peak < 200 * 1024, "the server held {peak} KiB");
    assert_eq!(server.get("/-/ready").0, 200);
}

#[test]
fn a_million_series_in_one_batch_are_refused() {
    let (_directory, server) = server();
    let t = now_ms();
    let series: Vec<String> =
        (0..1_000_000).map(|i| format!("{{\"labels\":{{\"__name__\":\"s{i}\"}},\"kind\":\"float\"}}")).collect();
    let body = format!("{{\"source\":\"{SOURCE}\",\"sequence\":1,\"series\":[{}],\"samples\":[]}}", series.join(","));
    let (status, answer) = server.post(JSON, body.as_bytes());
    assert!(status == 413 || status == 400, "{answer}");
    // Packed, it fits the body's limit as sent, and not as unpacked.
    let packed = zstd::encode_all(body.as_bytes(), 1).unwrap();
    let head = "POST /v1/batch HTTP/1.1\r\ncontent-type: application/json\r\ncontent-encoding: zstd";
    let (status, answer) = server.request(head, &packed).unwrap();
    assert!(status == 413, "{answer}");
    // Half a million short ones fit the bytes but not the number.
    let series = vec!["{\"labels\":{\"__name__\":\"s\"},\"kind\":\"float\"}"; 500_000].join(",");
    let body = format!("{{\"source\":\"{SOURCE}\",\"sequence\":1,\"series\":[{series}],\"samples\":[]}}");
    let (status, answer) = server.post(JSON, body.as_bytes());
    assert_eq!(status, 400);
    assert!(answer["error"].as_str().unwrap().contains("400000 series"), "{answer}");
    let (status, _) = server.batch(SOURCE, 1, json!([float("fine")]), json!([{"series": 0, "time_ms": t, "float": 1}]));
    assert_eq!(status, 200);
    let peak = server.memory_peak_kib();
    assert!(peak < 400 * 1024, "the server held {peak} KiB");
}

#[test]
fn many_large_bodies_at_once_are_told_to_come_back() {
    let (_directory, server) = server();
    // The worst that fits: empty histograms unfold the most.
    let sample = "{\"series\":0,\"time_ms\":1,\"histogram\":{\"bins\":{}}}";
    let samples = vec![sample; 400_000].join(",");
    let body = format!(
        "{{\"source\":\"{SOURCE}\",\"sequence\":1,\"series\":[{}],\"samples\":[{samples}]}}",
        histogram("worst")
    );
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..12).map(|_| scope.spawn(|| server.post(JSON, body.as_bytes()).0)).collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });
    assert!(statuses.iter().all(|status| [200, 400, 413, 429].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&429), "{statuses:?}");
    let peak = server.memory_peak_kib();
    println!("12 bodies of {} MiB at once: {statuses:?}, at most {} MiB held", body.len() >> 20, peak >> 10);
    assert!(peak < 1_500 * 1024, "the server held {peak} KiB");
    assert_eq!(server.get("/-/ready").0, 200);
}

#[test]
fn rude_connections_hurt_nobody() {
    let (_directory, server) = server();
    let t = now_ms();
    // Half a body, then gone; half a head; bytes that are not HTTP.
    for bytes in [
        &b"POST /v1/batch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"source\""[..],
        b"POST /v1/batch HTTP/1.1\r\nhost",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"POST /v1/batch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"POST /v1/batch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: -5\r\n\r\n",
        b"POST /v1/batch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 99999999999999999999\r\n\r\n",
    ] {
        let mut stream = server.connect();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
        let _ = crate::common::read_answer(&mut stream);
    }
    // Connections that only stand there.
    let idle: Vec<_> = (0..200).map(|_| server.connect()).collect();
    let (status, _) = server.batch(SOURCE, 1, json!([float("fine")]), json!([{"series": 0, "time_ms": t, "float": 1}]));
    assert_eq!(status, 200);
    drop(idle);
    let (status, answer) = server.get(&format!("/api/v1/query?query={}", "(".repeat(20_000)));
    assert!(status == 400 || status == 414 || status == 431, "{answer}");
    let (status, answer) = server.get(&format!("/api/v1/query?query={}", crate::common::form("x{a=~\"(a+)+$\"}")));
    assert_eq!(status, 200, "{answer}");
}
