//! The decoders of outside bytes in this crate, each for any bytes: what `fuzz/` runs with coverage, and `cargo test` with seeded changes
//! to good input.
//!
//! Invariants: none panics, waits or keeps anything of what it was given.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use crate::{broker, http, web};
use ogive_checks as checks;
use ogive_outgoing::Files;
use ogive_scrape as scrape;

thread_local! {
    /// The bytes of the file that is read.
    static FILE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Every path leads to the same bytes, and no pattern to any.
const FILES: Files =
    Files { read: |_| Ok(FILE.with_borrow(Vec::clone)), list: |_| Ok(Vec::new()), owner: |_| String::new() };

/// A DNS answer.
pub fn check_dns(bytes: &[u8]) {
    checks::fuzz::dns(bytes);
}

/// What a PostgreSQL server says.
pub fn check_postgres(bytes: &[u8]) {
    checks::fuzz::postgres(bytes);
}

/// What a Redis server says.
pub fn check_redis(bytes: &[u8]) {
    checks::fuzz::redis(bytes);
}

/// What an HTTP server says.
pub fn check_http(bytes: &[u8]) {
    checks::fuzz::http(bytes);
}

/// A page of CloudWatch.
pub fn check_cloudwatch(bytes: &[u8]) {
    checks::fuzz::cloudwatch(bytes);
}

/// An answer to a ping.
pub fn check_icmp(bytes: &[u8]) {
    checks::fuzz::icmp(bytes);
}

/// A certificate of a server.
pub fn check_certificate(bytes: &[u8]) {
    checks::fuzz::certificate(bytes);
}

/// A file with `[[check]]` tables.
pub fn config_checks(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        checks::fuzz::config(text);
    }
}

/// The file of a broker, and with its listeners the options of a server.
pub fn config_broker(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = broker::config::parse(text);
    }
}

/// A scrape configuration, a list of targets, and what is told of the one that is good.
pub fn config_scrape(bytes: &[u8]) {
    FILE.replace(bytes.to_vec());
    scrape::fuzz(&[PathBuf::from("scrape.yml")], FILES);
}

/// A web configuration.
pub fn config_web(bytes: &[u8]) {
    FILE.replace(bytes.to_vec());
    let _ = web::Web::check(Path::new("web.yml"), FILES.read);
}

/// A batch as JSON: what is read can be written, or is too large.
pub fn batch_json(bytes: &[u8]) {
    if let Ok(decoded) = ogive_protocol::batch_json::decode(bytes) {
        let _ = decoded.batch.encode();
    }
}

/// OTLP's JSON as the protobuf message of metrics, of logs and of traces that it stands for, where it is one.
#[must_use]
pub fn otlp_json(bytes: &[u8]) -> [Option<Vec<u8>>; 3] {
    http::otlp::of_json(bytes)
}

/// The parameters of a query, and what they say of times.
pub fn params(bytes: &[u8]) {
    let params = http::params::Params::parse(bytes);
    for name in ["time", "start", "end", "step", "timeout", "limit"] {
        let _ = (params.time(name), params.duration(name), params.number(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutations::mutations;

    /// Letters that files and answers are made of.
    const TEXT: &[u8] = b" -:[]{},.'\"#&*!|>=\n\tax0e\xff";

    fn smoke(read: fn(&[u8]), good: &[u8], rounds: u32, alphabet: &[u8]) {
        read(good);
        mutations(good, rounds, 5, alphabet, read);
    }

    #[test]
    fn answers_of_names_pings_and_certificates_may_be_anything() {
        let dns = b"\0\x07\x81\x80\0\x01\0\x02\0\0\0\0\x01a\x07example\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01\
                    \xc0\x0c\0\x10\0\x01\0\0\0\x3c\0\x06\x05v=1 x";
        smoke(check_dns, dns, 5_000, &[]);
        smoke(check_icmp, &[&[0x45][..], &[0; 19], &[0; 8], &[3; 56]].concat(), 2_000, &[]);
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        smoke(check_certificate, made.cert.der(), 5_000, &[]);
    }

    #[test]
    fn answers_of_databases_may_be_anything() {
        let message = |kind: u8, body: &[u8]| [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat();
        let [sasl, first] =
            [&b"\0\0\0\x0aSCRAM-SHA-256\0\0"[..], b"\0\0\0\x0br=x,s=W22Z,i=1"].map(|body| message(b'R', body));
        let (taken, row, ready) = (message(b'R', &[0; 4]), message(b'D', b"\0\x01\0\0\0\x011"), message(b'Z', b"I"));
        let no = message(b'E', b"SFATAL\0C28P01\0Mno entry\0\0");
        smoke(check_postgres, &[&taken[..], &row, &ready].concat(), 3_000, &[]);
        smoke(check_postgres, &[&sasl[..], &first, &taken, &no, &ready].concat(), 3_000, &[]);
        smoke(check_redis, b"+OK\r\n-NOAUTH no\r\n+PONG\r\n", 3_000, b"+-\r\n$*0 \xff");
    }

    #[test]
    fn answers_over_http_may_be_anything() {
        let good =
            b"HTTP/1.1 302 Found\r\nLocation: ../b?c#d\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nok 1\r\n0\r\n\r\n";
        smoke(check_http, good, 3_000, b" :/\r\n0;aA.?#\xff");
        smoke(check_http, b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nok 1", 3_000, b" :/\r\n0;aA.?#\xff");
        let page = br#"{"MetricDataResults":[{"Id":"m0","Timestamps":[1.7e9,1700000300],"Values":[1.5,-2e3]}],"NextToken":"x"}"#;
        smoke(check_cloudwatch, page, 3_000, TEXT);
    }

    #[test]
    fn files_may_hold_anything() {
        let checks = b"[[check]]\nname = 'a'\nkind = 'http'\ntarget = 'https://[::1]:8/x'\nperiod = '30s'\nlabels = {b = 'c'}\n\
                       status = [200, 204]\nheaders = {accept = '*'}\n[[check]]\nname = 'b'\nkind = 'dns'\nquery = 'x.y'\nrecord = 'MX'\n";
        smoke(config_checks, checks, 1_500, TEXT);
        let broker = include_bytes!("../../../packaging/broker.toml");
        smoke(config_broker, broker, 300, TEXT);
        let scrape = b"global: {scrape_interval: 15s}\nscrape_configs:\n- job_name: a\n  static_configs:\n  - targets: [b:1]\n    labels: {c: d}\n  \
                       - {targets: []}\n  relabel_configs: [{source_labels: [c], regex: '(.)', target_label: e}]\n";
        smoke(config_scrape, scrape, 1_500, TEXT);
        let web =
            b"http_server_config: {http2: true, headers: {X-Frame-Options: deny}}\nbasic_auth_users: {a: $2y$04$x}\n\
                    tokens:\n- {name: x, sha256: '00', allow: [write], expires: 2027-01-31T00:00:00Z}\n";
        smoke(config_web, web, 1_500, TEXT);
    }

    #[test]
    fn requests_may_hold_anything() {
        let batch = br#"{"source":"7f9c2c1e-6f0a-4e3b-9a55-0c8f0a4b2d11","sequence":1,"series":[{"labels":{"__name__":"a"},"kind":"histogram",
            "temporality":"delta","unit":"s","width_ms":1000}],"samples":[{"series":0,"time_ms":1700000001000,"histogram":{"bins":{"1.2e-3":4}}},
            {"series":0,"time_ms":1,"float":1.5},{"series":0,"time_ms":2,"text":"x\u00e9"},{"series":0,"time_ms":3,"histogram_b64":"AAA="}]}"#;
        smoke(batch_json, batch, 5_000, TEXT);
        smoke(
            params,
            b"time=1700000000.5&start=2026-01-31T00%3A00:00.5Z&end=-1e3&step=1h5m&timeout=1y&limit=10",
            5_000,
            b"=&%+-.:TZ0129eymsd\xff",
        );
        let metrics = br#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","gauge":{"dataPoints":[{"asInt":"1"}]}}]}]}]}"#;
        smoke(
            |bytes| assert!(otlp_json(bytes).iter().flatten().all(|message| message.len() <= 9 * bytes.len())),
            metrics,
            3_000,
            TEXT,
        );
    }
}
