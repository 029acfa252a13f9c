//! `ogive serve --scrape-config` beside a real Prometheus, on a real node exporter and on targets that this test plays.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::common::programs::{Program, free_address};
use crate::common::{Server, eventually, form};
use serde_json::Value;

const TEXT: &str = "text/plain; version=0.0.4";
const OPEN: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROTOBUF: &str = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

fn run(name: &str, args: &[String]) -> Program {
    let mut command = Command::new(name);
    command.args(args);
    Program::start(command)
}

/// What a played target answers: status, content type, body.
type Page = Arc<Mutex<(u16, String, Vec<u8>)>>;

/// A target that answers its page to everybody.
struct Target {
    address: String,
    page: Page,
}

impl Target {
    fn start(kind: &str, body: impl Into<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let page: Page = Arc::new(Mutex::new((200, kind.into(), body.into())));
        let shown = page.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shown = shown.clone();
                std::thread::spawn(move || answer(stream, &shown));
            }
        });
        Self { address, page }
    }

    fn show(&self, status: u16, body: impl Into<Vec<u8>>) {
        let mut page = self.page.lock().unwrap();
        (page.0, page.2) = (status, body.into());
    }
}

fn answer(mut stream: TcpStream, page: &Page) {
    let mut bytes = [0; 4096];
    // A request without a body is one read, or the connection ended.
    while stream.read(&mut bytes).is_ok_and(|length| length > 0) {
        let (status, kind, body) = page.lock().unwrap().clone();
        let head = format!("HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        if sent.is_err() {
            return;
        }
    }
}

fn serve(directory: &Path, config: &str) -> Server {
    let file = directory.join("prometheus.yml");
    std::fs::write(&file, config).unwrap();
    let args = ["--listen", "127.0.0.1:0", "--enable-admin-api", "--scrape-config", file.to_str().unwrap()];
    Server::try_start(&directory.join("data"), &args).unwrap_or_else(|said| panic!("no start: {said}"))
}

/// Names and labels of what an answer lists, but for the server's own measurements of its scrapes. Prometheus 2.42
/// keeps a quantile as the text format writes it; it is written as OpenMetrics has it, as Prometheus 3 does.
fn series(answer: &Value) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for labels in answer["data"].as_array().unwrap() {
        let mut labels = labels.clone();
        let whole =
            labels["quantile"].as_str().filter(|quantile| !quantile.contains('.')).map(|whole| format!("{whole}.0"));
        if let Some(whole) = whole {
            labels["quantile"] = whole.into();
        }
        if labels["__name__"] != "ogive_scrape_seconds" {
            out.insert(labels.to_string());
        }
    }
    out
}

#[test]
fn a_node_exporter_has_the_series_that_prometheus_finds() {
    let directory = tempfile::tempdir().unwrap();
    let node = free_address();
    let _node = run("prometheus-node-exporter", &[format!("--web.listen-address={node}")]);
    let prometheus = free_address();
    let config = format!(
        "global: {{scrape_interval: 1s}}\n\
         scrape_configs:\n\
         - {{job_name: node, static_configs: [{{targets: ['{node}'], labels: {{rack: 7}}}}]}}\n\
         - {{job_name: prometheus, static_configs: [{{targets: ['{prometheus}']}}]}}\n"
    );
    let server = serve(directory.path(), &config);
    let _prometheus = run(
        "prometheus",
        &[
            format!("--config.file={}", directory.path().join("prometheus.yml").display()),
            format!("--storage.tsdb.path={}", directory.path().join("tsdb").display()),
            format!("--web.listen-address={prometheus}"),
        ],
    );
    let match_node = form("{job=\"node\"}");
    let path = format!("/api/v1/series?match[]={match_node}");
    server.becomes("min_over_time(up{job=\"prometheus\"}[2s])", 1.0);
    // Metrics that a node exporter shows from its second answer on are there when both asked twice.
    let (ours, theirs) = eventually("both have the same series", || {
        let ours = series(&server.get(&path).1);
        let theirs = series(&ask(&prometheus, &path)?);
        (ours == theirs && ours.len() > 300).then_some((ours, theirs))
    });
    assert_eq!(ours, theirs);
    // A single scrape may take longer than it may on a busy machine.
    let target = eventually("the target is up", || {
        let target = server.get("/api/v1/targets?scrapePool=node").1["data"]["activeTargets"][0].take();
        (target["health"] == "up" && target["lastError"] == "").then_some(target)
    });
    assert_eq!(target["labels"]["rack"], "7");
    let (_, metadata) = server.get("/api/v1/targets/metadata?metric=node_load1");
    assert_eq!(metadata["data"][0]["type"], "gauge", "{metadata}");
    let (_, pools) = server.get("/api/v1/scrape_pools");
    assert_eq!(pools["data"]["scrapePools"], serde_json::json!(["node", "prometheus"]));
    server.becomes("histogram_count(sum(increase(ogive_scrape_seconds{job=\"node\"}[1h]))) >= bool 2", 1.0);
    let (_, status) = server.get("/v1/status");
    assert_eq!(
        (&status["scrape_rejected_total"], &status["scrape_unreadable_total"]),
        (&0.into(), &0.into()),
        "{status}"
    );
}

/// Waits until nothing is known of `expr` any more.
fn ends(server: &Server, expr: &str) {
    eventually(&format!("{expr} is gone"), || server.number(expr).is_none().then_some(()));
}

/// What a Prometheus at `address` answers, when it does.
fn ask(address: &str, path: &str) -> Option<Value> {
    let (status, body) = crate::common::request_at(address, &format!("GET {path} HTTP/1.1"), b"").ok()?;
    (status == 200).then(|| serde_json::from_str(&body).unwrap())
}

/// A file that was cut off is often a configuration still, of fewer jobs; what was in force stays so, and it is
/// counted.
fn a_cut_file_changes_nothing(server: &Server, directory: &Path, config: &str, file: &Path) {
    let whole = config.to_owned() + "- {job_name: other, static_configs: [{targets: ['127.0.0.1:1']}]}\n";
    std::fs::write(directory.join("prometheus.yml"), &whole).unwrap();
    assert_eq!(server.request("POST /-/reload HTTP/1.1", b"").unwrap().0, 200);
    let cut = [
        (whole[..whole.find("- {job_name: other").unwrap() - 1].to_owned(), "middle of a line"),
        (String::new(), "became empty"),
        ("global: {scrape_interval: 250ms}\n".to_owned(), "no entry any more"),
        ("global: {scrape_interval: 250ms}\nscrape_configs:\n".to_owned(), "no entry any more"),
    ];
    for (text, word) in &cut {
        std::fs::write(directory.join("prometheus.yml"), text).unwrap();
        let (status, said) = server.request("POST /-/reload HTTP/1.1", b"").unwrap();
        assert!(status == 500 && said.contains(word), "{text:?}: {status} {said}");
        let (_, pools) = server.get("/api/v1/scrape_pools");
        assert_eq!(pools["data"]["scrapePools"].as_array().unwrap().len(), 2, "{text:?}");
    }
    server.becomes("ogive_config_reload_failures_total{config=\"scrape\"}", cut.len() as f64 + 1.0);
    server.becomes("ogive_config_refused{config=\"scrape\"}", 1.0);
    std::fs::write(directory.join("prometheus.yml"), config).unwrap();
    assert_eq!(server.request("POST /-/reload HTTP/1.1", b"").unwrap().0, 200);
    // The file of targets is cut: they stay.
    std::fs::write(file, "- targets: ['127.0.0.1:2']\n- targets: ['127.0.0.1:3']\n").unwrap();
    let targets = |count: usize| {
        let of = || server.get("/api/v1/targets").1["data"]["activeTargets"].as_array().unwrap().len();
        eventually(&format!("{count} targets"), || (of() == count).then_some(()));
    };
    targets(2);
    std::fs::write(file, "- targets: ['127.0.0.1:2']").unwrap();
    server.becomes("count_over_time(up{instance=\"127.0.0.1:3\"}[1h]) > bool 12", 1.0);
    targets(2);
}

#[test]
fn series_end_when_they_vanish_fail_or_are_relabelled() {
    let directory = tempfile::tempdir().unwrap();
    let target = Target::start(
        TEXT,
        "# TYPE a counter\na{x=\"1\"} 5\na{x=\"2\"} 6\nsecret 1\nb{job=\"own\"} 1\nb{job=\"own\"} 2\n",
    );
    let address = &target.address;
    let file = directory.path().join("targets.json");
    std::fs::write(&file, format!("[{{\"targets\": [\"{address}\"], \"labels\": {{\"zone\": \"z\"}}}}]")).unwrap();
    let config = |drop: &str| {
        format!(
            "scrape_configs:\n- job_name: t\n  scrape_interval: 250ms\n  file_sd_configs: [{{files: [targets.json]}}]\n  \
             relabel_configs: [{{source_labels: [zone], target_label: area, replacement: 'in-$1'}}]\n  \
             metric_relabel_configs: [{{source_labels: [__name__], regex: {drop}, action: drop}}]\n"
        )
    };
    let server = serve(directory.path(), &config("secret"));
    server.becomes("sum(a{area=\"in-z\",job=\"t\"})", 11.0);
    server.becomes("b{exported_job=\"own\",job=\"t\"}", 1.0);
    assert_eq!(server.number("secret"), None);
    server.becomes("scrape_samples_scraped", 5.0);
    server.becomes("scrape_samples_post_metric_relabeling", 3.0);
    // One of two series vanishes.
    target.show(200, "# TYPE a counter\na{x=\"1\"} 5\n");
    server.becomes("count(a)", 1.0);
    // The target fails, and comes back.
    target.show(500, "");
    server.becomes("up", 0.0);
    ends(&server, "a");
    eventually("it is said why", || {
        let (_, targets) = server.get("/api/v1/targets");
        targets["data"]["activeTargets"][0]["lastError"].as_str().unwrap().contains("500").then_some(())
    });
    target.show(200, "a{x=\"1\"} 5");
    server.becomes("a", 5.0);
    target.show(200, "a{x=1} 5\n");
    server.becomes("up", 0.0);
    // Other rules: what they drop now ends.
    target.show(200, "a 7\nc 8\n");
    server.becomes("c", 8.0);
    std::fs::write(directory.path().join("prometheus.yml"), config("c")).unwrap();
    assert_eq!(server.request("POST /-/reload HTTP/1.1", b"").unwrap().0, 200);
    ends(&server, "c");
    server.becomes("a", 7.0);
    std::fs::write(directory.path().join("prometheus.yml"), "scrape_configs: [{jobname: x}]\n").unwrap();
    let (status, said) = server.request("POST /-/reload HTTP/1.1", b"").unwrap();
    assert!(status == 500 && said.contains("did you mean job_name"), "{status} {said}");
    a_cut_file_changes_nothing(&server, directory.path(), &config("c"), &file);
    // The target leaves its file.
    std::fs::write(&file, "[]").unwrap();
    ends(&server, "up");
    ends(&server, "a");
}

#[test]
fn native_histograms_created_times_and_exemplars_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let now = crate::common::now_ms() / 1000;
    let open = format!(
        "# TYPE rpc counter\n# HELP rpc Calls.\nrpc_total{{a=\"1\"}} 4 # {{trace_id=\"abc\"}} 0.25 {now}\nrpc_created{{a=\"1\"}} {}\n\
         # TYPE lat histogram\nlat {{count:3,sum:1.5,schema:0,zero_threshold:0,zero_count:0,positive_spans:[0:2],positive_buckets:[1,2]}}\n# EOF\n",
        now - 100
    );
    let text = Target::start(OPEN, open);
    // One family: `n`, a histogram of schema 3 with three in one bin, and its classic form of three.
    let native: &[u8] = &[
        28, 0x0a, 1, b'n', 0x18, 4, 0x22, 21, 0x3a, 19, 0x08, 3, 0x11, 0, 0, 0, 0, 0, 0, 0x08, 0x40, 0x28, 6, 0x62, 2,
        0x10, 1, 0x68, 6,
    ];
    let binary = Target::start(PROTOBUF, native);
    let config = format!(
        "global: {{scrape_interval: 250ms}}\nscrape_configs:\n\
         - {{job_name: open, static_configs: [{{targets: ['{}']}}]}}\n\
         - {{job_name: proto, scrape_native_histograms: true, static_configs: [{{targets: ['{}']}}]}}\n",
        text.address, binary.address
    );
    let mut server = serve(directory.path(), &config);
    server.becomes("rpc_total", 4.0);
    server.becomes("histogram_count(lat)", 3.0);
    server.becomes("histogram_count(n)", 3.0);
    server.becomes("histogram_sum(n)", 3.0);
    assert_eq!(server.number("rpc_created"), None);
    eventually("the description", || {
        let (_, metadata) = server.get("/api/v1/metadata?metric=rpc");
        (metadata["data"]["rpc"][0]["help"] == "Calls.").then_some(())
    });
    server.becomes("count_over_time(up{job=\"open\"}[1h]) > bool 3", 1.0);
    let cells = eventually("the exemplar", || {
        let of = format!("/v1/cells?match[]=rpc_total_exemplar&start={}&end={}", now - 10, now + 10);
        Some(server.get(&of).1.to_string()).filter(|cells| cells.contains("abc"))
    });
    assert_eq!(cells.matches("abc").count(), 1, "an exemplar that is shown again is one: {cells}");
    // Killed and started again: the counters go on from where they are.
    server.kill();
    let server = serve(directory.path(), &config);
    text.show(200, "# TYPE rpc counter\nrpc_total{a=\"1\"} 6\n# EOF\n");
    server.becomes("rpc_total", 6.0);
    server.becomes("histogram_count(n)", 3.0);
    let counted = server.number("sum(resets(rpc_total[5m]))");
    assert_eq!(counted, Some(0.0));
}

/// What `expr` is for `tenant`.
fn number_of(server: &Server, tenant: &str, expr: &str) -> Option<f64> {
    let body = get_of(server, tenant, &format!("/api/v1/query?query={}", form(expr)));
    body["data"]["result"][0]["value"][1].as_str().map(|text| text.parse().unwrap())
}

fn get_of(server: &Server, tenant: &str, path: &str) -> Value {
    let (status, body) = server.request(&format!("GET {path} HTTP/1.1\r\nx-scope-orgid: {tenant}"), b"").unwrap();
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// The addresses that `tenant` sees scraped.
fn targets_of(server: &Server, tenant: &str) -> Vec<String> {
    let body = get_of(server, tenant, "/api/v1/targets");
    let all = body["data"]["activeTargets"].as_array().unwrap();
    all.iter().map(|target| target["labels"]["instance"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_job_brings_its_tenants_series() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Target::start(TEXT, "m 1\n"), Target::start(TEXT, "m 2\n"));
    let config = |tenant: &str| {
        format!(
            "global: {{scrape_interval: 250ms}}\nscrape_configs:\n\
             - {{job_name: ours, static_configs: [{{targets: ['{}']}}]}}\n\
             - {{job_name: theirs, tenant: {tenant}, static_configs: [{{targets: ['{}']}}]}}\n",
            ours.address, theirs.address
        )
    };
    let server = serve(directory.path(), &config("team-a"));
    server.becomes("sum(m)", 1.0);
    eventually("the tenant has its series", || (number_of(&server, "team-a", "sum(m)") == Some(2.0)).then_some(()));
    eventually("its target is up", || (number_of(&server, "team-a", "sum(up)") == Some(1.0)).then_some(()));
    server.becomes("sum(up)", 1.0);
    assert_eq!((number_of(&server, "team-a", "count(up)"), server.number("count(up)")), (Some(1.0), Some(1.0)));
    assert_eq!(targets_of(&server, "default"), std::slice::from_ref(&ours.address));
    assert_eq!(targets_of(&server, "team-a"), std::slice::from_ref(&theirs.address));
    assert_eq!(get_of(&server, "team-b", "/api/v1/scrape_pools")["data"]["scrapePools"], serde_json::json!([]));
    // Given to another, the series of the first end.
    std::fs::write(directory.path().join("prometheus.yml"), config("team-b")).unwrap();
    assert_eq!(server.request("POST /-/reload HTTP/1.1", b"").unwrap().0, 200);
    eventually("the other has them", || (number_of(&server, "team-b", "sum(m)") == Some(2.0)).then_some(()));
    for ended in ["m", "up"] {
        eventually("those of the first end", || number_of(&server, "team-a", ended).is_none().then_some(()));
    }
    server.becomes("m", 1.0);
    std::fs::write(directory.path().join("prometheus.yml"), config("'a/b'")).unwrap();
    let (status, said) = server.request("POST /-/reload HTTP/1.1", b"").unwrap();
    assert!(status == 500 && said.contains("theirs") && said.contains("tenant"), "{status} {said}");
}

#[test]
fn limits_of_targets_and_bins_fail_a_scrape() {
    let directory = tempfile::tempdir().unwrap();
    let page = |bins: usize| {
        format!(
            "# TYPE lat histogram\nlat {{count:{bins},sum:1.5,schema:0,zero_threshold:0,zero_count:0,\
             positive_spans:[0:{bins}],positive_buckets:[{}]}}\n# EOF\n",
            vec!["1"; bins].join(",")
        )
    };
    let (fine, other) = (Target::start(OPEN, page(3)), Target::start(OPEN, page(3)));
    let file = directory.path().join("targets.json");
    let write = |targets: &[&str]| {
        std::fs::write(&file, serde_json::json!([{ "targets": targets }]).to_string()).unwrap();
    };
    write(&[&fine.address]);
    let config = "scrape_configs:\n- job_name: t\n  scrape_interval: 250ms\n  target_limit: 1\n  native_histogram_bucket_limit: 3\n  \
                  file_sd_configs: [{files: [targets.json]}]\n";
    let server = serve(directory.path(), config);
    let fails = |count: f64, word: &str| {
        server.becomes("count(up == 0)", count);
        eventually(word, || {
            let (_, targets) = server.get("/api/v1/targets");
            let all = targets["data"]["activeTargets"].as_array().unwrap().clone();
            all.iter().all(|target| target["lastError"].as_str().unwrap().contains(word)).then_some(())
        });
    };
    server.becomes("histogram_count(lat)", 3.0);
    fine.show(200, page(4));
    fails(1.0, "a histogram has 4 bins, above native_histogram_bucket_limit 3");
    eventually("it is counted", || {
        let (_, metrics) = server.request("GET /metrics HTTP/1.1", b"").unwrap();
        metrics.contains("ogive_ingest_unreadable_total{protocol=\"scrape\",reason=\"limit\"}").then_some(())
    });
    fine.show(200, page(2));
    server.becomes("histogram_count(lat)", 2.0);
    // One target too many: all of them fail, as in Prometheus.
    write(&[&fine.address, &other.address]);
    fails(2.0, "the job has 2 targets, above target_limit 1");
    ends(&server, "lat");
    write(&[&fine.address]);
    server.becomes("histogram_count(lat)", 2.0);
    server.becomes("count(up == 1)", 1.0);
}

#[test]
fn a_bad_configuration_keeps_the_server_from_starting() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bad.yml");
    std::fs::write(&file, "scrape_configs:\n- job_name: a\n  scrape_intervall: 5s\n").unwrap();
    let args = ["--listen", "127.0.0.1:0", "--scrape-config", file.to_str().unwrap()];
    let said = Server::try_start(&directory.path().join("data"), &args).err().expect("no start");
    assert!(said.contains("bad.yml:3:") && said.contains("did you mean scrape_interval?"), "{said}");
    assert!(said.contains("exit code Some(1)"), "{said}");
    assert!(!directory.path().join("data").exists(), "the data is not touched");
}
