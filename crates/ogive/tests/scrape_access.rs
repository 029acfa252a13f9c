//! Scraping real programs, behind TLS and logins, within limits, of targets that others list.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::authority::Authority;
use crate::common::clients::Client;
use crate::common::programs::free_port;
use crate::common::{Server, eventually};
use rcgen::ExtendedKeyUsagePurpose;

const COUNT: usize = 500;

/// What a played target makes of a request's head: more headers, and the body.
type Answer = dyn Fn(&str) -> (String, Vec<u8>) + Send + Sync;

/// A target that this test plays; gives its address.
pub(crate) fn play(answer: impl Fn(&str) -> (String, Vec<u8>) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer: Arc<Answer> = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            std::thread::spawn(move || serve(stream, &*answer));
        }
    });
    address
}

fn serve(mut stream: TcpStream, answer: &Answer) {
    let mut bytes = [0; 16 * 1024];
    // A request without a body is one read, or the connection ended.
    while let Ok(length @ 1..) = stream.read(&mut bytes) {
        let (headers, body) = answer(&String::from_utf8_lossy(&bytes[..length]));
        let status = if headers.starts_with("HTTP/") { "" } else { "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n" };
        let head = format!("{status}{headers}content-length: {}\r\n\r\n", body.len());
        if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).is_err() {
            return;
        }
    }
}

/// Writes the file of a server that scrapes these jobs.
pub(crate) fn configure(directory: &Path, jobs: &str) -> PathBuf {
    let file = directory.join("prometheus.yml");
    std::fs::write(&file, format!("global: {{scrape_interval: 300ms}}\nscrape_configs:\n{jobs}")).unwrap();
    file
}

pub(crate) fn start(directory: &Path, jobs: &str) -> Server {
    let file = configure(directory, jobs);
    let args = ["--listen", "127.0.0.1:0", "--enable-admin-api", "--scrape-config", file.to_str().unwrap()];
    Server::try_start(&directory.join("data"), &args).unwrap_or_else(|said| panic!("no start: {said}"))
}

/// What the target of `job` failed with.
fn error(server: &Server, job: &str) -> String {
    let (_, targets) = server.get(&format!("/api/v1/targets?scrapePool={job}"));
    targets["data"]["activeTargets"][0]["lastError"].as_str().unwrap_or_default().to_owned()
}

fn says(server: &Server, job: &str, word: &str) {
    eventually(&format!("{job} fails with {word:?}"), || error(server, job).contains(word).then_some(()));
    server.becomes(&format!("up{{job=\"{job}\"}}"), 0.0);
}

#[test]
fn client_libraries_show_what_they_observed() {
    let directory = tempfile::tempdir().unwrap();
    let (python, node) = (free_port(), free_port());
    let jobs = format!(
        "- {{job_name: py, static_configs: [{{targets: ['127.0.0.1:{python}']}}]}}\n\
         - {{job_name: js, static_configs: [{{targets: ['127.0.0.1:{node}']}}]}}\n"
    );
    let server = start(directory.path(), &jobs);
    let count = COUNT.to_string();
    let mut programs = [
        ("py", Client::start("scraped.py", &[&python.to_string(), &count])),
        ("js", Client::start("scraped.cjs", &[&node.to_string(), &count])),
    ];
    for round in 1..=2 {
        for (name, program) in &mut programs {
            if round == 1 {
                program.wait_for("ready");
            }
            program.say("go");
            program.wait_for("done");
            let all = (round * COUNT) as f64;
            server.becomes(&format!("{name}_calls_total{{route=\"/\\\"x\\\"\\\\\"}}"), all);
            server.becomes(&format!("{name}_took_seconds_count"), all);
            server.becomes(&format!("{name}_took_seconds_bucket{{le=\"0.1\"}}"), all / 5.0);
            server.becomes(&format!("{name}_took_seconds_bucket{{le=\"0.5\"}}"), all * 0.6);
            server.becomes(&format!("{name}_took_seconds_bucket{{le=\"+Inf\"}}"), all);
            server.becomes(&format!("{name}_size_bytes_count"), all);
            server.becomes(&format!("{name}_size_bytes_sum"), round as f64 * (COUNT * (COUNT - 1) / 2) as f64);
            server.becomes(&format!("{name}_level"), (COUNT - 1) as f64);
        }
    }
    // Python shows OpenMetrics to who asks for it: created times and exemplars come with it.
    eventually("the last exemplar", || {
        let (_, exemplars) = server.get("/api/v1/query_exemplars?query=py_calls_total&start=0&end=9999999999");
        exemplars.to_string().contains("\"trace_id\":\"t499\"").then_some(())
    });
    assert_eq!(server.number("py_calls_created"), None);
    for (_, program) in programs {
        program.finish();
    }
}

#[test]
fn a_target_behind_tls_is_believed_when_somebody_vouches_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    std::fs::write(directory.path().join("ca.pem"), authority.0.pem()).unwrap();
    authority.certify(directory.path(), "target", ExtendedKeyUsagePurpose::ServerAuth);
    let at = |name: &str| directory.path().join(name).display().to_string();
    let port = free_port().to_string();
    let mut program = Client::start("scraped.py", &[&port, &COUNT.to_string(), &at("target.pem"), &at("target.key")]);
    program.wait_for("ready");
    program.say("go");
    program.wait_for("done");
    let job = |name: &str, tls: &str| {
        format!("- {{job_name: {name}, scheme: https, {tls} static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}\n")
    };
    let jobs = [
        job("vouched", "tls_config: {ca_file: ca.pem},"),
        job("named", "tls_config: {ca_file: ca.pem, server_name: target},"),
        job("misnamed", "tls_config: {ca_file: ca.pem, server_name: other},"),
        job("stranger", ""),
        job("careless", "tls_config: {insecure_skip_verify: true},"),
    ];
    let server = start(directory.path(), &jobs.concat());
    for good in ["vouched", "named", "careless"] {
        server.becomes(&format!("py_calls_total{{job=\"{good}\"}}"), COUNT as f64);
    }
    says(&server, "stranger", "certificate");
    says(&server, "misnamed", "certificate");
    program.finish();
}

#[test]
fn logins_headers_and_packing_reach_the_target() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("secret"), "builder\n").unwrap();
    let address = play(|head| {
        let head = head.to_ascii_lowercase();
        let has = |word: &str| u8::from(head.contains(word));
        let (basic, bearer) = (has("authorization: basic ym9iomj1awxkzxi="), has("authorization: bearer builder"));
        let body = format!("basic {basic}\nbearer {bearer}\nextra {}\nparam {}\n", has("x-extra: yes"), has("?a=b"));
        match has("accept-encoding: gzip") {
            1 => ("content-encoding: gzip\r\n".into(), crate::common::gzip(std::iter::once(body.into_bytes()))),
            _ => (String::new(), body.into_bytes()),
        }
    });
    let job = |name: &str, access: &str| {
        format!("- {{job_name: {name}, {access} static_configs: [{{targets: ['{address}']}}]}}\n")
    };
    let jobs = [
        job("basic", "basic_auth: {username: bob, password: builder},"),
        job("file", "basic_auth: {username: bob, password_file: secret},"),
        job("bearer", "authorization: {credentials_file: secret}, enable_compression: false,"),
        job("more", "http_headers: {X-Extra: {values: ['yes']}}, params: {a: [b]},"),
    ];
    let server = start(directory.path(), &jobs.concat());
    for (job, metric) in
        [("basic", "basic"), ("file", "basic"), ("bearer", "bearer"), ("more", "extra"), ("more", "param")]
    {
        server.becomes(&format!("{metric}{{job=\"{job}\"}}"), 1.0);
    }
    server.becomes("sum(basic)", 2.0);
    server.becomes("sum(bearer)", 1.0);
    // A secret that is replaced is in force at the next scrape.
    std::fs::write(directory.path().join("secret"), "other").unwrap();
    server.becomes("bearer{job=\"bearer\"}", 0.0);
}

#[test]
fn targets_that_an_address_tells_of_are_scraped() {
    let directory = tempfile::tempdir().unwrap();
    let target = play(|_| (String::new(), b"told 1\n".to_vec()));
    let groups = format!("[{{\"targets\": [\"{target}\"], \"labels\": {{\"zone\": \"z\"}}}}]");
    let source =
        play(move |_| ("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n".into(), groups.clone().into_bytes()));
    let jobs = format!(
        "- {{job_name: told, http_sd_configs: [{{url: 'http://{source}/targets', refresh_interval: 1s}}],\n  \
         relabel_configs: [{{source_labels: [__meta_url], regex: '.*/(.*)', target_label: from}}]}}\n"
    );
    let server = start(directory.path(), &jobs);
    server.becomes("told{zone=\"z\",from=\"targets\"}", 1.0);
}

#[test]
fn limits_fail_the_scrape_that_passes_them() {
    let directory = tempfile::tempdir().unwrap();
    let address = play(|_| (String::new(), b"a{x=\"1\",longer_name=\"long value\"} 1\nb 2\nc 3\n".to_vec()));
    let job = |name: &str, limit: &str| {
        format!("- {{job_name: {name}, {limit}, static_configs: [{{targets: ['{address}']}}]}}\n")
    };
    // Of each the largest that fails and the smallest that passes. The labels job and instance count.
    let limits = [
        ("sample_limit", 2, 3, "sample_limit"),
        ("label_limit", 4, 5, "label_limit"),
        ("label_name_length_limit", 10, 11, "label_name_length_limit"),
        ("label_value_length_limit", 9, 30, "label_value_length_limit"),
        ("body_size_limit", 43, 44, "body_size_limit"),
    ];
    let jobs = limits.iter().map(|(name, low, high, _)| {
        job(&format!("low_{name}"), &format!("{name}: {low}"))
            + &job(&format!("high_{name}"), &format!("{name}: {high}"))
    });
    let server = start(directory.path(), &jobs.collect::<String>());
    for (name, _, _, word) in limits {
        server.becomes(&format!("b{{job=\"high_{name}\"}}"), 2.0);
        says(&server, &format!("low_{name}"), word);
        assert_eq!(server.number(&format!("b{{job=\"low_{name}\"}}")), None, "a scrape is taken whole or not at all");
    }
}

#[test]
fn labels_and_times_are_the_targets_when_they_are_honoured() {
    let directory = tempfile::tempdir().unwrap();
    let time_ms = crate::common::now_ms() - 30_000;
    let address = play(move |_| (String::new(), format!("a{{job=\"own\"}} 1\nb 2 {time_ms}\n").into_bytes()));
    let job = |name: &str, more: &str| {
        format!("- {{job_name: {name}, {more} static_configs: [{{targets: ['{address}']}}]}}\n")
    };
    let jobs = job("theirs", "honor_labels: true,") + &job("ours", "honor_timestamps: false,");
    let server = start(directory.path(), &jobs);
    server.becomes("count(a{job=\"own\"})", 1.0);
    server.becomes("count(a{job=\"ours\",exported_job=\"own\"})", 1.0);
    server.becomes("timestamp(b{job=\"theirs\"}) * 1000", time_ms as f64);
    // The target's time is half a minute ago, and more by now.
    server.becomes("time() - timestamp(b{job=\"ours\"}) < bool 20", 1.0);
}

#[test]
fn a_signal_makes_it_read_its_configuration_again() {
    let directory = tempfile::tempdir().unwrap();
    let address = play(|_| (String::new(), b"a 1\nb 2\n".to_vec()));
    let job = |name: &str, drop: &str| {
        format!(
            "- {{job_name: {name}, static_configs: [{{targets: ['{address}']}}],\n  \
             metric_relabel_configs: [{{source_labels: [__name__], regex: {drop}, action: drop}}]}}\n"
        )
    };
    let server = start(directory.path(), &job("first", "b"));
    server.becomes("a{job=\"first\"}", 1.0);
    assert_eq!(server.number("b"), None);
    let file = directory.path().join("prometheus.yml");
    let jobs = format!("global: {{scrape_interval: 300ms}}\nscrape_configs:\n{}", job("second", "a"));
    std::fs::write(&file, jobs).unwrap();
    server.signal("HUP");
    server.becomes("b{job=\"second\"}", 2.0);
    eventually("the first job is gone", || server.number("a").is_none().then_some(()));
    // A mistake changes nothing.
    std::fs::write(&file, "scrape_configs: [{job_name: }]\n").unwrap();
    server.signal("HUP");
    let scrapes = || server.number("count_over_time(b{job=\"second\"}[1h])");
    let from = eventually("it is scraped", scrapes);
    eventually("it is scraped again and again", || scrapes().filter(|scrapes| *scrapes >= from + 5.0));
    let (_, pools) = server.get("/api/v1/scrape_pools");
    assert_eq!(pools["data"]["scrapePools"], serde_json::json!(["second"]));
}
