//! Two tenants with series of the same names: each route shows a tenant its own, and nothing of the other.
//!
//! The routes are those of the access table: one that is not listed here fails the test.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::time::Instant;

use crate::common::{JSON, PATIENCE, Server, form, now_ms};
use serde_json::{Value, json};

/// Tenants, and a number that stands in what is each one's alone.
const A: (&str, u64) = ("aaa", 6_283_185);
const B: (&str, u64) = ("bbb", 2_718_281);

/// What a route is asked, and what that shows of a tenant.
enum Case {
    /// GET of this path shows the tenant's name in its labels.
    Labels(&'static str),
    /// GET of this path shows the tenant's count.
    Count(&'static str),
    /// POST of a remote read request.
    RemoteRead,
    /// The first event of a stream.
    Stream(&'static str),
    /// It speaks of the server alone, or of what is scraped, which is of a third tenant.
    Server(&'static str),
    /// Brings samples.
    Takes(Body),
    /// Changes what is stored, or is asked for nothing; tested below or elsewhere.
    Other,
}

#[derive(Clone, Copy)]
enum Body {
    Batch,
    RemoteWrite,
    Metrics,
    Logs,
    Traces,
    Lines,
    Journal,
}

use Case::{Count, Labels, Other, RemoteRead, Server as Whole, Stream, Takes};

const CASES: &[(&str, Case)] = &[
    ("/api/v1/query", Labels("/api/v1/query?query=shared")),
    ("/api/v1/query_range", Labels("/api/v1/query_range?query=shared&START&END&step=1")),
    ("/api/v1/series", Labels("/api/v1/series?match[]=shared")),
    ("/api/v1/labels", Labels("/api/v1/labels")),
    ("/api/v1/label/{name}/values", Labels("/api/v1/label/owner/values")),
    ("/api/v1/metadata", Labels("/api/v1/metadata")),
    ("/api/v1/status/tsdb", Labels("/api/v1/status/tsdb")),
    ("/api/v1/query_exemplars", Labels("/api/v1/query_exemplars?query=shared&START&END")),
    ("/federate", Labels("/federate?match[]=shared")),
    ("/v1/cells", Labels("/v1/cells?match[]=shared&START&END")),
    ("/v1/traces", Labels("/v1/traces")),
    ("/v1/logs/columns", Other),
    ("/v1/traces/columns", Count("/v1/traces/columns?query=shared_seconds&START&END&step=1")),
    ("/v1/compare", Count("/v1/compare?query=shared_seconds&START&END&offset=1d")),
    ("/v1/boards", Whole("/v1/boards")),
    ("/v1/boards/{name}", Other),
    ("/v1/queries", Whole("/v1/queries")),
    ("/v1/senders", Labels("/v1/senders")),
    ("/v1/cardinality", Labels("/v1/cardinality?limit=100")),
    ("/v1/explain/related", Whole("/v1/explain/related?query=shared_seconds&START&END&FROM&TO")),
    ("/v1/explain", Count("/v1/explain?query=shared_seconds&START&END&FROM&TO")),
    ("/v1/heatmap", Count("/v1/heatmap?query=shared_seconds&START&END&step=1")),
    ("/v1/heatmap/groups", Count("/v1/heatmap/groups?query=shared_seconds&START&END&step=1")),
    ("/api/v1/read", RemoteRead),
    ("/v1/live", Stream("/v1/live?query=shared_live_seconds")),
    ("/v1/subscribe", Stream("/v1/subscribe?match=shared_live_seconds")),
    ("/api/v1/format_query", Whole("/api/v1/format_query?query=shared")),
    ("/api/v1/parse_query", Whole("/api/v1/parse_query?query=shared")),
    ("/api/v1/status/buildinfo", Whole("/api/v1/status/buildinfo")),
    ("/api/v1/status/config", Whole("/api/v1/status/config")),
    ("/api/v1/status/flags", Whole("/api/v1/status/flags")),
    ("/api/v1/status/runtimeinfo", Whole("/api/v1/status/runtimeinfo")),
    ("/api/v1/status/walreplay", Whole("/api/v1/status/walreplay")),
    ("/api/v1/features", Whole("/api/v1/features")),
    ("/api/v1/alertmanagers", Whole("/api/v1/alertmanagers")),
    ("/api/v1/rules", Whole("/api/v1/rules")),
    ("/api/v1/alerts", Whole("/api/v1/alerts")),
    ("/api/v1/targets", Whole("/api/v1/targets")),
    ("/api/v1/targets/metadata", Whole("/api/v1/targets/metadata")),
    ("/api/v1/scrape_pools", Whole("/api/v1/scrape_pools")),
    ("/v1/status", Whole("/v1/status")),
    ("/v1/disks", Whole("/v1/disks")),
    ("/v1/retention", Whole("/v1/retention")),
    ("/v1/findings", Whole("/v1/findings")),
    ("/v1/detections", Whole("/v1/detections")),
    ("/v1/alerts", Whole("/v1/alerts")),
    ("/v1/silences", Whole("/v1/silences")),
    ("/v1/tickets", Other),
    ("/v1/silences/{id}", Other),
    ("/v1/events", Whole("/v1/events?START&END")),
    ("/v1/stream", Stream("/v1/stream?query=histogram_count(shared_live_seconds)")),
    ("/v1/rules/backtest", Other),
    ("/v1/detections/run", Whole("/v1/detections/run?query=secret_job")),
    ("/v1/logins", Whole("/v1/logins")),
    ("/v1/scrub", Whole("/v1/scrub")),
    ("/v1/snapshots", Whole("/v1/snapshots")),
    ("/metrics", Whole("/metrics")),
    ("/v1/broker", Whole("/v1/broker")),
    ("/v1/cluster", Whole("/v1/cluster")),
    ("/v1/fleet/groups", Whole("/v1/fleet/groups")),
    ("/v1/fleet/groups/{name}", Other),
    ("/v1/fleet/groups/{name}/rollback", Other),
    ("/v1/fleet/brokers", Whole("/v1/fleet/brokers")),
    ("/v1/fleet/brokers/{name}", Other),
    ("/v1/fleet/brokers/{name}/requests", Other),
    ("/v1/fleet/brokers/{name}/connect", Other),
    ("/v1/fleet/brokers/{name}/live", Other),
    ("/v1/fleet/tickets", Whole("/v1/fleet/tickets")),
    ("/v1/fleet/enroll", Other),
    ("/v1/fleet/poll", Other),
    ("/v1/fleet/rotate", Other),
    ("/v1/fleet/outcomes", Other),
    ("/v1/fleet/stream", Other),
    ("/v1/batch", Takes(Body::Batch)),
    ("/api/v1/write", Takes(Body::RemoteWrite)),
    ("/api/v1/otlp/v1/metrics", Takes(Body::Metrics)),
    ("/api/v1/otlp/v1/logs", Takes(Body::Logs)),
    ("/v1/metrics", Takes(Body::Metrics)),
    ("/v1/logs", Takes(Body::Logs)),
    ("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", Takes(Body::Metrics)),
    ("/opentelemetry.proto.collector.logs.v1.LogsService/Export", Takes(Body::Logs)),
    ("/api/v1/otlp/v1/traces", Takes(Body::Traces)),
    ("/opentelemetry.proto.collector.trace.v1.TraceService/Export", Takes(Body::Traces)),
    ("/upload", Takes(Body::Journal)),
    ("/write", Takes(Body::Lines)),
    ("/api/v2/write", Takes(Body::Lines)),
    ("/query", Other),
    ("/ping", Other),
    ("/health", Other),
    ("/-/healthy", Other),
    ("/-/ready", Other),
    ("/-/reload", Other),
    ("/api/v1/admin/tsdb/delete_series", Other),
    ("/api/v1/admin/tsdb/clean_tombstones", Other),
    ("/v1/disks/replace", Other),
    ("/v1/disks/add", Other),
    ("/v1/findings/acknowledge", Other),
    ("/v1/snapshots/clone", Other),
    ("/v1/snapshots/{name}", Other),
];

/// The routes of the access table.
fn routes() -> BTreeSet<&'static str> {
    let table =
        include_str!("../../http/src/access.rs").split("const RULES").nth(1).unwrap().split("];").next().unwrap();
    table.lines().filter_map(|line| line.trim().strip_prefix("(\"")?.split('"').next()).collect()
}

fn request(server: &Server, tenant: &str, line: &str, more: &str, body: &[u8]) -> (u16, String) {
    server.request(&format!("{line} HTTP/1.1\r\nx-scope-orgid: {tenant}{more}"), body).unwrap()
}

fn get(server: &Server, tenant: &str, path: &str) -> (u16, String) {
    let now = now_ms() / 1000;
    let path = path.replace("[]", "%5B%5D").replace("START", &format!("start={}", now - 240));
    let path = path.replace("FROM", &format!("from={}", now - 240)).replace("TO", &format!("to={}", now + 60));
    request(server, tenant, &format!("GET {}", path.replace("END", &format!("end={}", now + 60))), "", b"")
}

/// Floats, a histogram, an exemplar, a slow trace and a description, all named alike and labelled with the tenant.
fn fill(server: &Server, (tenant, count): (&str, u64)) {
    let t = now_ms() - 2_000;
    let of = |name: &str, kind: &str| json!({"labels": {"__name__": name, "owner": tenant, format!("only_{tenant}"): "x"}, "kind": kind});
    let series = json!([
        of("shared", "float"),
        of("shared_seconds", "histogram"),
        of("shared_slow", "text"),
        of("shared_exemplar", "text")
    ]);
    let example = include_str!("../../../vectors/trace/slow.txt").trim_end();
    let exemplar = format!("{{\"labels\":{{\"trace_id\":\"{tenant}\"}},\"value\":1}}");
    let samples = json!([
        {"series": 0, "time_ms": t, "float": count},
        {"series": 1, "time_ms": t, "histogram": {"bins": {"1e-2": count}}},
        {"series": 2, "time_ms": t, "text": example},
        {"series": 3, "time_ms": t, "text": exemplar},
    ]);
    let body =
        json!({"source": crate::common::SOURCE, "sequence": count, "series": series, "samples": samples}).to_string();
    let (status, said) =
        request(server, tenant, "POST /v1/batch", &format!("\r\ncontent-type: {JSON}"), body.as_bytes());
    assert!(status == 200 && said.contains("\"accepted\":4"), "{said}");
    let described = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": [{
        "name": "described", "description": format!("of {tenant}"),
        "gauge": {"dataPoints": [{"timeUnixNano": format!("{t}000000"), "asDouble": 1}]}}]}]}]});
    let (status, said) = request(
        server,
        tenant,
        "POST /v1/metrics",
        &format!("\r\ncontent-type: {JSON}"),
        described.to_string().as_bytes(),
    );
    assert_eq!(status, 200, "{said}");
}

/// `shows` holds what is `mine`, if it should, and nothing that is `theirs`.
fn check(path: &str, answer: &(u16, String), mine: Option<String>, theirs: (&str, u64)) {
    let (status, said) = answer;
    assert_eq!(*status, 200, "{path}: {said}");
    assert!(mine.is_none_or(|mine| said.contains(&mine)), "{path} does not show what is there: {said}");
    assert!(!said.contains(theirs.0) && !said.contains(&theirs.1.to_string()), "{path} shows of {}: {said}", theirs.0);
}

fn field(number: u8, inside: impl AsRef<[u8]>) -> Vec<u8> {
    let inside = inside.as_ref();
    assert!(inside.len() < 128);
    [&[number << 3 | 2, inside.len() as u8][..], inside].concat()
}

fn snappy(bytes: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(bytes).unwrap()
}

fn varint(number: u8, mut value: u64) -> Vec<u8> {
    let mut out = vec![number << 3];
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn remote_read(server: &Server, tenant: &str) -> (u16, String) {
    let matcher = [varint(1, 0), field(2, "__name__"), field(3, "shared")].concat();
    let (start, end) = (now_ms() as u64 - 60_000, now_ms() as u64 + 60_000);
    let query = field(1, [varint(1, start), varint(2, end), field(3, matcher)].concat());
    request(server, tenant, "POST /api/v1/read", "", &snappy(&query))
}

/// What a stream answers until somebody's cells are in it, which go on arriving.
fn stream(server: &Server, tenant: &str, path: &str) -> (u16, String) {
    let mut stream = server.connect();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nx-scope-orgid: {tenant}\r\n\r\n").unwrap();
    let mut said = String::new();
    let mut bytes = [0; 4096];
    let mut last = 0;
    let from = Instant::now();
    while from.elapsed() < PATIENCE {
        // The second that runs, once: its column is emitted when it is over.
        let t = now_ms() + 1_000;
        for (tenant, count) in [A, B].iter().filter(|_| t != last) {
            let series = json!([{"labels": {"__name__": "shared_live_seconds", "owner": tenant}, "kind": "histogram"}]);
            let samples = json!([{"series": 0, "time_ms": t, "histogram": {"bins": {"1e-2": count}}}]);
            let batch = json!({"source": crate::common::SOURCE, "sequence": t * 2 + i64::from(*tenant == A.0), "series": series, "samples": samples});
            let kind = format!("\r\ncontent-type: {JSON}");
            request(server, tenant, "POST /v1/batch", &kind, batch.to_string().as_bytes());
        }
        last = t;
        let length = stream.read(&mut bytes).unwrap();
        said.push_str(&String::from_utf8_lossy(&bytes[..length]));
        if [A, B].iter().any(|(_, count)| said.contains(&count.to_string())) || length == 0 {
            break;
        }
    }
    (if said.starts_with("HTTP/1.1 200") { 200 } else { 0 }, said)
}

#[test]
fn each_tenant_sees_its_own_on_every_route() {
    let reported: BTreeSet<&str> = CASES.iter().map(|(route, _)| *route).collect();
    assert_eq!(reported, routes(), "every route of the access table says here what it shows of a tenant");
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("prometheus.yml");
    std::fs::write(&config, "scrape_configs: [{job_name: secret_job, static_configs: [{targets: ['127.0.0.1:9']}]}]\n")
        .unwrap();
    let args = ["--listen", "127.0.0.1:0", "--enable-admin-api", "--scrape-config", config.to_str().unwrap()];
    let server = Server::try_start(&directory.path().join("data"), &args).unwrap();
    fill(&server, A);
    fill(&server, B);
    for (mine, theirs) in [(A, B), (B, A)] {
        for (_, case) in CASES {
            match case {
                Labels(path) => check(path, &get(&server, mine.0, path), Some(mine.0.into()), theirs),
                Count(path) if path.contains("traces") => check(path, &get(&server, mine.0, path), None, theirs),
                Count(path) => check(path, &get(&server, mine.0, path), Some(mine.1.to_string()), theirs),
                Stream(path) => check(path, &stream(&server, mine.0, path), Some(mine.1.to_string()), theirs),
                RemoteRead => check("remote read", &remote_read(&server, mine.0), Some(mine.0.into()), theirs),
                Whole(path) => {
                    let (status, said) = get(&server, mine.0, path);
                    assert!(status < 500, "{path}: {said}");
                    assert!([A.0, B.0, "secret_job"].iter().all(|word| !said.contains(word)), "{path}: {said}");
                }
                Takes(_) | Other => {}
            }
        }
    }
    let (_, pools) = server.get("/api/v1/scrape_pools");
    assert_eq!(pools["data"]["scrapePools"], json!(["secret_job"]), "whose it is sees it");
    // Deleting what one tenant has leaves the other's.
    let path = "/api/v1/admin/tsdb/delete_series?match%5B%5D=shared";
    assert_eq!(request(&server, A.0, &format!("POST {path}"), "", b"").0, 204);
    let shown = |tenant: &str| get(&server, tenant, "/api/v1/query?query=shared").1.contains(tenant);
    assert!(!shown(A.0) && shown(B.0));
}

/// A body with one sample of the series `name`, and how it is sent.
fn body(kind: Body, name: &str) -> (String, Vec<u8>) {
    let t = now_ms() - 1_000;
    let json = |body: Value| (format!("\r\ncontent-type: {JSON}"), body.to_string().into_bytes());
    match kind {
        Body::Batch => {
            json(json!({"source": crate::common::SOURCE, "sequence": 1, "series": [crate::common::float(name)],
            "samples": [{"series": 0, "time_ms": t, "float": 1}]}))
        }
        Body::RemoteWrite => {
            let label = field(1, [field(1, "__name__"), field(2, name)].concat());
            let sample = field(2, [&[0x09][..], &1_f64.to_le_bytes(), &varint(2, t as u64)].concat());
            ("\r\ncontent-type: application/x-protobuf".into(), snappy(&field(1, [label, sample].concat())))
        }
        Body::Metrics => json(json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": name,
            "gauge": {"dataPoints": [{"timeUnixNano": format!("{t}000000"), "asDouble": 1}]}}]}]}]})),
        Body::Logs => json(json!({"resourceLogs": [{"scopeLogs": [{"scope": {"name": name}, "logRecords": [
            {"timeUnixNano": format!("{t}000000"), "body": {"stringValue": "said"}}]}]}]})),
        Body::Traces => json(json!({"resourceSpans": [{"scopeSpans": [{"spans": [{"name": name,
            // Each name is another span.
            "traceId": format!("{:0>32}", name.trim_start_matches(|letter: char| !letter.is_ascii_digit())),
            "spanId": "00000000000000a1", "startTimeUnixNano": format!("{}000000", t - 5), "endTimeUnixNano": format!("{t}000000")}]}]}]})),
        Body::Journal => {
            let entry =
                format!("__CURSOR=s=1;i=1\n__REALTIME_TIMESTAMP={t}000\nSYSLOG_IDENTIFIER={name}\nMESSAGE=said\n\n");
            (String::new(), entry.into_bytes())
        }
        Body::Lines => (String::new(), format!("{name} value=1 {t}000000\n").into_bytes()),
    }
}

#[test]
fn what_a_tenant_brings_is_its_own_by_every_way() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    for (at, (route, case)) in CASES.iter().enumerate() {
        let Takes(kind) = case else { continue };
        let name = format!("brought_{at}");
        let (head, bytes) = body(*kind, &name);
        let (status, said) = request(&server, A.0, &format!("POST {route}"), &head, &bytes);
        assert!([200, 204].contains(&status), "{route}: {status} {said}");
        let selector = match kind {
            Body::Logs => format!("log{{otel_scope_name=\"{name}\"}}"),
            Body::Journal => format!("log{{job=\"{name}\"}}"),
            Body::Traces => format!("traces_span_seconds{{span_name=\"{name}\"}}"),
            _ => name.clone(),
        };
        let requested = format!("/v1/cells?match[]={}&START&END", form(&selector));
        assert!(get(&server, A.0, &requested).1.contains(&name), "{route}: {}", get(&server, A.0, &requested).1);
        for other in [B.0, "default"] {
            assert!(!get(&server, other, &requested).1.contains(&name), "{route} brings it to {other} too");
        }
    }
}

/// Whoever knew the source of another tenant's sender could use its numbers first: the sender's batch was answered as a
/// duplicate and never stored.
#[test]
fn numbers_of_one_tenant_suppress_nothing_of_another() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::try_start(data.path(), &["--listen", "127.0.0.1:0"]).unwrap();
    let send = |tenant: &str| {
        let samples = json!([{"series": 0, "time_ms": now_ms(), "float": 1}]);
        let series = json!([{"labels": {"__name__": "of_a_sender"}, "kind": "float"}]);
        let body = json!({"source": crate::common::SOURCE, "sequence": 5, "series": series, "samples": samples});
        let (status, said) = request(
            &server,
            tenant,
            "POST /v1/batch",
            &format!("\r\ncontent-type: {JSON}"),
            body.to_string().as_bytes(),
        );
        assert_eq!(status, 200, "{said}");
        serde_json::from_str::<Value>(&said).unwrap()
    };
    for tenant in ["thief", "owner", "default"] {
        assert_eq!(send(tenant)["accepted"], 1, "{tenant}");
        assert_eq!(send(tenant)["duplicate"], 1, "{tenant}");
        let (_, said) = get(&server, tenant, "/api/v1/query?query=count(of_a_sender)");
        assert!(said.contains("\"1\""), "{tenant}: {said}");
    }
}
