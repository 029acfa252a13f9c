//! Files as users have them, and what is said of those that are wrong.

use std::io;

use std::time::Duration;

use super::job::BODY_BYTES_MAX;
use super::*;

fn parsed(text: impl AsRef<[u8]>) -> Result<Config, String> {
    thread_local!(static TEXT: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) });
    TEXT.replace(text.as_ref().to_vec());
    let read = |path: &Path| match path.to_str() {
        Some("/etc/p/prometheus.yml") => Ok(TEXT.with_borrow(Vec::clone)),
        Some("/etc/p/more/a.yml") => Ok(b"scrape_configs: [{job_name: more}]".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    let list = |_: &Path| Ok(vec![PathBuf::from("/etc/p/more/a.yml")]);
    load(&[PathBuf::from("/etc/p/prometheus.yml")], Files { read, list, owner: |_| String::new() })
}

const GOOD: &str = "
global:
  scrape_interval: 15s
  evaluation_interval: 15s
  external_labels: {site: here}
rule_files: ['*.rules']
alerting: {alertmanagers: [{static_configs: [{targets: ['am:9093']}]}]}
remote_write: [{url: 'http://x/write'}]
scrape_config_files: ['more/*.yml']
scrape_configs:
  - job_name: node
    static_configs: [{targets: ['a:9100', 'b:9100'], labels: {rack: 1, on: true}}]
  - job_name: door
    scrape_interval: 5s
    scrape_timeout: 4s
    scrape_protocols: [PrometheusProto, PrometheusText0.0.4]
    fallback_scrape_protocol: PrometheusText0.0.4
    metrics_path: /probe
    scheme: https
    params: {module: [http_2xx], n: [1]}
    honor_labels: true
    honor_timestamps: false
    body_size_limit: 10MB
    sample_limit: 100
    basic_auth: {username: u, password_file: secrets/p}
    tls_config: {ca_file: ca.pem, insecure_skip_verify: true, min_version: TLS13}
    file_sd_configs: [{files: ['targets/*.json'], refresh_interval: 1m}]
    relabel_configs:
      - source_labels: [__address__]
        regex: '(.*):\\d+'
        target_label: host
      - {action: labeldrop, regex: 'x.*'}
    metric_relabel_configs: [{source_labels: [__name__], regex: 'go_.*', action: drop}]
";

/// What is shown of jobs can be read again, and says everything but secrets.
#[test]
fn what_is_reported_of_jobs_is_what_they_are() {
    let secret = "
  - job_name: secret
    basic_auth: {username: u, password: hush}
    tls_config: {cert_file: c.pem, key_file: k.pem, server_name: s, max_version: TLS12}
    http_headers: {X-A: {secrets: [hush]}, X-B: {files: [b]}}
    http_sd_configs: [{url: 'http://u:hush@sd/x', authorization: {credentials: hush}, refresh_interval: 90s}]
    dns_sd_configs: [{names: [_m._tcp.a, b.], refresh_interval: 5s}, {names: [c], type: mx, port: 25}]
    consul_sd_configs:
      - {server: 'c:8500', token: hush, scheme: https, path_prefix: /x/y, datacenter: d, namespace: n,
         partition: p, tag_separator: ;, username: u, password: hush, allow_stale: false, refresh_interval: 9s,
         services: [s], tags: [t], node_meta: {k: 1}, filter: 'a == 1', health_filter: b, tls_config: {ca_file: x}}
      - {}
    scrape_native_histograms: true
    always_scrape_classic_histograms: true
    track_timestamps_staleness: true
    label_limit: 7
    tenant: blue
";
    let reported = |config: &Config| super::effective_yaml(config.jobs.iter());
    let (read, hidden) = (parsed(GOOD).unwrap(), parsed(format!("{GOOD}{secret}")).unwrap());
    let text = reported(&read);
    let again = parsed(text.replace("/etc/p/more", "/none")).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(again.jobs, read.jobs, "{text}");
    let text = reported(&hidden);
    assert!(!text.contains("hush"), "{text}");
    assert_eq!(text.matches("<secret>").count(), 6, "{text}");
    let again = parsed(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(reported(&again), text);
    assert_eq!(reported(&Config::default()), "");
}

/// A group without targets has no key that is shown, and the jobs were never begun: the list had an item of no line.
#[test]
fn what_holds_nothing_is_reported_too() {
    let text =
        "scrape_configs: [{job_name: a, static_configs: [{targets: []}, {}, {labels: {'': x}}], params: {'': [y]}}]";
    let read = parsed(text).unwrap();
    let reported = super::effective_yaml(read.jobs.iter());
    let again = parsed(&reported).unwrap_or_else(|error| panic!("{error}\n{reported}"));
    assert_eq!(again.jobs, read.jobs, "{reported}");
}

/// A file that somebody broke is read, or refused with the place of the fault.
#[test]
fn mutated_files_are_read_or_refused() {
    let mut refused = 0;
    crate::mutations::mutations(GOOD.as_bytes(), 1_500, 4, b" -:[]{},'\"#&*!|>\n\tax0\xff", |text| {
        if let Err(sentence) = parsed(text) {
            assert!(sentence.starts_with("/etc/p/prometheus.yml"), "{sentence}");
            refused += 1;
        }
    });
    assert!((100..1_500).contains(&refused), "{refused} of 1,500 were refused");
}

/// Ten lines that stand for a thousand million, and lists in lists: refused before they are unfolded.
#[test]
fn aliases_and_depth_are_bounded() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for at in 1..10 {
        let aliases = vec![format!("*a{}", at - 1); 10].join(", ");
        bomb.push_str(&format!("a{at}: &a{at} [{aliases}]\n"));
    }
    assert!(parsed(&bomb).is_err());
    assert!(parsed(format!("scrape_configs: [{{job_name: x, params: {{a: *a9}}}}]\n{bomb}")).is_err());
    for open in ["[", "{a: ", "- "] {
        let deep = format!("scrape_configs: {}", open.repeat(100_000));
        assert!(parsed(&deep).is_err());
        let reported: Result<Vec<Group>, String> = yaml(Path::new("http://x"), deep.as_bytes());
        assert!(reported.is_err());
    }
}

#[test]
fn a_file_of_a_prometheus_works() {
    let config = parsed(GOOD).unwrap();
    assert_eq!(config.warnings.len(), 1);
    for section in ["rule_files", "alerting", "remote_write", "external_labels"] {
        assert!(config.warnings[0].contains(section), "{:?}", config.warnings);
    }
    let [node, door, more] = &config.jobs[..] else { panic!("{:?}", config.jobs) };
    assert_eq!((node.interval, node.timeout), (Duration::from_secs(15), Duration::from_secs(10)));
    assert_eq!(node.protocols[0], Protocol::OpenMetrics1);
    assert_eq!((node.metrics_path.as_str(), node.scheme.as_str(), node.honor_timestamps), ("/metrics", "http", true));
    assert_eq!(node.groups[0].targets[1].0, "b:9100");
    assert_eq!((node.groups[0].labels["rack"].0.as_str(), node.groups[0].labels["on"].0.as_str()), ("1", "true"));
    assert_eq!(node.limits.body_bytes, BODY_BYTES_MAX);
    assert_eq!((door.interval, door.timeout), (Duration::from_secs(5), Duration::from_secs(4)));
    assert_eq!(door.protocols, [Protocol::Protobuf, Protocol::Text0]);
    assert_eq!((door.limits.body_bytes, door.limits.samples, door.honor_timestamps), (10 << 20, 100, false));
    assert_eq!(door.params["n"], ["1"]);
    let password = Secret::In("/etc/p/secrets/p".into());
    assert_eq!(door.access.login, Login::Basic { user: Secret::Here("u".into()), password });
    assert_eq!(door.access.tls.authorities, Some(Pem::In("/etc/p/ca.pem".into())));
    assert_eq!((door.access.tls.insecure, door.access.tls.only), (true, Some(3)));
    assert_eq!(door.files, [PathBuf::from("/etc/p/targets/*.json")]);
    assert_eq!((door.relabel.len(), door.metric_relabel.len(), more.name.as_str()), (2, 1, "more"));
    assert!(!format!("{door:?}").contains("secrets/p\")") && format!("{door:?}").contains("(secret"));
}

#[test]
fn native_histograms_are_asked_for_by_name() {
    let config = parsed("global: {scrape_native_histograms: true}\nscrape_configs: [{job_name: a}, {job_name: b, scrape_native_histograms: false}]").unwrap();
    assert_eq!((config.jobs[0].protocols[0], config.jobs[0].natives), (Protocol::Protobuf, true));
    assert_eq!((config.jobs[1].protocols[0], config.jobs[1].natives), (Protocol::OpenMetrics1, false));
    assert!(parsed("").unwrap().jobs.is_empty());
}

#[test]
fn names_and_services_have_the_defaults_of_prometheus() {
    let text = "scrape_configs: [{job_name: a, dns_sd_configs: [{names: [x]}, {names: [y], type: aaaa, port: 9100}], \
                consul_sd_configs: [{}, {server: 'https://c:8501/', path_prefix: p}, {server: 'http://c', scheme: https}]}]";
    let config = parsed(text).unwrap();
    let job = &config.jobs[0];
    let [srv, aaaa] = &job.dns[..] else { panic!("{:?}", job.dns) };
    assert_eq!((srv.kind, srv.port, srv.refresh), (RecordKind::Srv, 0, Duration::from_secs(30)));
    assert_eq!((aaaa.kind, aaaa.port), (RecordKind::Aaaa, 9100));
    let [usual, tls, upgraded] = &job.consul[..] else { panic!("{:?}", job.consul) };
    assert_eq!((usual.url.as_str(), usual.tag_separator.as_str()), ("http://localhost:8500", ","));
    assert_eq!((usual.allow_stale, usual.refresh), (true, Duration::from_secs(30)));
    assert_eq!((usual.token.is_none(), &usual.access.login), (true, &Login::None));
    assert_eq!((tls.url.as_str(), upgraded.url.as_str()), ("https://c:8501/p", "https://c"));
}

/// A file that is refused with these words.
fn says(text: &str, words: &[&str]) {
    let error = parsed(text).map(|config| config.jobs.len()).unwrap_err();
    for word in words {
        assert!(error.contains(word), "{text}{error}: does not say {word:?}");
    }
}

#[test]
fn what_is_wrong_with_discovery_is_named() {
    for (text, words) in [
        (
            "scrape_configs:\n- job_name: a\n  dns_sd_configs:\n  - name: [x]\n",
            &[":4:", "unknown key name", "did you mean names?"][..],
        ),
        ("scrape_configs: [{job_name: a, dns_sd_configs: [{}]}]\n", &["dns_sd_configs", "names"]),
        ("scrape_configs: [{job_name: a, dns_sd_configs: [{names: [x], type: A}]}]\n", &["type A", "port"]),
        ("scrape_configs: [{job_name: a, dns_sd_configs: [{names: [x], type: SVR}]}]\n", &["SVR", "did you mean SRV?"]),
        (
            "scrape_configs:\n- job_name: a\n  consul_sd_configs:\n  - servers: x\n",
            &[":4:", "unknown key servers", "did you mean server?"],
        ),
        ("scrape_configs: [{job_name: a, consul_sd_configs: [{server: ' '}]}]\n", &["consul_sd_configs", "server"]),
        ("scrape_configs: [{job_name: a, consul_sd_configs: [{server: 'unix:///x'}]}]\n", &["neither http nor https"]),
        (
            "scrape_configs: [{job_name: a, consul_sd_configs: [{server: 'u:p@c'}]}]\n",
            &["consul_sd_configs", "username"],
        ),
        ("scrape_configs: [{job_name: a, consul_sd_configs: [{oauth2: {}}]}]\n", &["consul_sd_configs", "oauth2"]),
        (
            "scrape_configs: [{job_name: a, consul_sd_configs: [{username: u, basic_auth: {username: v}}]}]\n",
            &["username", "basic_auth"],
        ),
        (
            "scrape_configs: [{job_name: a, consul_sd_configs: [{token: t, authorization: {credentials: x}}]}]\n",
            &["token", "authorization"],
        ),
    ] {
        says(text, words);
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, words) in [
        (
            "scrape_configs:\n- job_name: a\n  scrape_intervall: 5s\n",
            &["prometheus.yml:3:", "scrape_intervall", "did you mean scrape_interval?"][..],
        ),
        ("scrap_configs: []\n", &[":1:", "did you mean scrape_configs?"]),
        (
            "scrape_configs:\n- job_name: a\n  kubernetes_sd_configs: [{role: pod}]\n",
            &[":3:", "kubernetes_sd_configs", "file_sd_configs"],
        ),
        ("scrape_configs:\n- job_name: a\n  scrape_interval: 5\n", &[":3:", "no duration"]),
        ("scrape_configs:\n- scheme: http\n", &["job_name is missing"]),
        ("scrape_configs: [{job_name: a}, {job_name: a}]\n", &["there twice"]),
        ("scrape_configs: [{job_name: a, scheme: ftp}]\n", &["job \"a\"", "neither http nor https"]),
        (
            "scrape_configs: [{job_name: a, scrape_interval: 5s, scrape_timeout: 6s}]\n",
            &["longer than the scrape_interval"],
        ),
        (
            "scrape_configs: [{job_name: a, relabel_configs: [{action: replce, target_label: x}]}]\n",
            &["rule 1", "did you mean replace?"],
        ),
        ("scrape_configs: [{job_name: a, relabel_configs: [{regex: '('}]}]\n", &["cannot be read"]),
        (
            "scrape_configs: [{job_name: a, metric_relabel_configs: [{action: hashmod, target_label: x}]}]\n",
            &["metric_relabel_configs, rule 1", "modulus"],
        ),
        ("scrape_configs: [{job_name: a, scrape_protocols: [Thrift]}]\n", &["Thrift", "PrometheusProto"]),
        ("scrape_configs: [{job_name: a, basic_auth: {}, authorization: {credentials: x}}]\n", &["at most one"]),
        (
            "scrape_configs: [{job_name: a, basic_auth: {password: x, password_file: y}}]\n",
            &["password and password_file"],
        ),
        ("scrape_configs: [{job_name: a, tls_config: {cert_file: x}}]\n", &["both cert_file and key_file"]),
        ("scrape_configs: [{job_name: a, oauth2: {client_id: x}}]\n", &["oauth2"]),
        ("scrape_configs: [{job_name: a, proxy_url: 'http://x'}]\n", &["proxy"]),
        ("scrape_configs: [{job_name: a, file_sd_configs: [{files: [x.txt]}]}]\n", &["x.txt", ".json"]),
        ("scrape_configs:\n  - job_name: a\n - b\n", &["prometheus.yml:3:"]),
        ("a: [", &["prometheus.yml:"]),
    ] {
        says(text, words);
    }
    let nothing = load(
        &[PathBuf::from("/none.yml")],
        Files { read: |_| Err(io::ErrorKind::NotFound.into()), list: |_| Ok(vec![]), owner: |_| String::new() },
    );
    assert!(nothing.unwrap_err().starts_with("/none.yml: "));
}
