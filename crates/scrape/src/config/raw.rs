//! The file as it is written: what each key may hold, with the keys as users of Prometheus know them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::{Deserializer, Error as _, IgnoredAny};
use serde::{Deserialize, Serialize};

use ogive_text::{duration, size};

/// A whole file. Sections for other parts of Prometheus are parsed to be reported, not to be used.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) global: Global,
    #[serde(default)]
    pub(super) scrape_configs: Option<Vec<Scrape>>,
    #[serde(default)]
    pub(super) scrape_config_files: Vec<String>,
    pub(super) rule_files: Option<IgnoredAny>,
    pub(super) alerting: Option<IgnoredAny>,
    pub(super) remote_write: Option<IgnoredAny>,
    pub(super) remote_read: Option<IgnoredAny>,
    pub(super) storage: Option<IgnoredAny>,
    pub(super) tracing: Option<IgnoredAny>,
    pub(super) otlp: Option<IgnoredAny>,
    pub(super) runtime: Option<IgnoredAny>,
}

/// The defaults of all jobs.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "some keys are known and change nothing here")]
pub(super) struct Global {
    pub(super) tenant: Option<Text>,
    pub(super) scrape_interval: Option<Time>,
    pub(super) scrape_timeout: Option<Time>,
    pub(super) scrape_protocols: Option<Vec<String>>,
    pub(super) body_size_limit: Option<Bytes>,
    pub(super) sample_limit: Option<u64>,
    pub(super) target_limit: Option<u64>,
    pub(super) label_limit: Option<u64>,
    pub(super) label_name_length_limit: Option<u64>,
    pub(super) label_value_length_limit: Option<u64>,
    pub(super) keep_dropped_targets: Option<u64>,
    pub(super) scrape_native_histograms: Option<bool>,
    pub(super) always_scrape_classic_histograms: Option<bool>,
    pub(super) external_labels: Option<IgnoredAny>,
    pub(super) evaluation_interval: Option<IgnoredAny>,
    pub(super) rule_query_offset: Option<IgnoredAny>,
    pub(super) query_log_file: Option<IgnoredAny>,
    pub(super) scrape_failure_log_file: Option<IgnoredAny>,
    pub(super) metric_name_validation_scheme: Option<IgnoredAny>,
    pub(super) metric_name_escaping_scheme: Option<IgnoredAny>,
    pub(super) convert_classic_histograms_to_nhcb: Option<bool>,
}

/// A job.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "some keys are known and change nothing here")]
pub(super) struct Scrape {
    pub(super) job_name: Text,
    pub(super) tenant: Option<Text>,
    pub(super) scrape_interval: Option<Time>,
    pub(super) scrape_timeout: Option<Time>,
    pub(super) scrape_protocols: Option<Vec<String>>,
    pub(super) fallback_scrape_protocol: Option<String>,
    pub(super) scrape_native_histograms: Option<bool>,
    #[serde(alias = "scrape_classic_histograms")]
    pub(super) always_scrape_classic_histograms: Option<bool>,
    pub(super) convert_classic_histograms_to_nhcb: Option<bool>,
    pub(super) metrics_path: Option<String>,
    pub(super) scheme: Option<String>,
    #[serde(default)]
    pub(super) params: BTreeMap<String, Vec<Text>>,
    #[serde(default)]
    pub(super) honor_labels: bool,
    pub(super) honor_timestamps: Option<bool>,
    #[serde(default)]
    pub(super) track_timestamps_staleness: bool,
    pub(super) enable_compression: Option<bool>,
    #[serde(default)]
    pub(super) static_configs: Vec<Group>,
    #[serde(default)]
    pub(super) file_sd_configs: Vec<FileSd>,
    #[serde(default)]
    pub(super) http_sd_configs: Vec<HttpSd>,
    #[serde(default)]
    pub(super) dns_sd_configs: Vec<DnsSd>,
    #[serde(default)]
    pub(super) consul_sd_configs: Vec<ConsulSd>,
    #[serde(default)]
    pub(super) relabel_configs: Vec<Relabel>,
    #[serde(default)]
    pub(super) metric_relabel_configs: Vec<Relabel>,
    pub(super) body_size_limit: Option<Bytes>,
    pub(super) sample_limit: Option<u64>,
    pub(super) target_limit: Option<u64>,
    pub(super) label_limit: Option<u64>,
    pub(super) label_name_length_limit: Option<u64>,
    pub(super) label_value_length_limit: Option<u64>,
    pub(super) native_histogram_bucket_limit: Option<u64>,
    pub(super) native_histogram_min_bucket_factor: Option<f64>,
    pub(super) keep_dropped_targets: Option<u64>,
    pub(super) metric_name_validation_scheme: Option<IgnoredAny>,
    pub(super) metric_name_escaping_scheme: Option<IgnoredAny>,
    pub(super) scrape_failure_log_file: Option<IgnoredAny>,
    pub(super) basic_auth: Option<BasicAuth>,
    pub(super) authorization: Option<Authorization>,
    pub(super) bearer_token: Option<Text>,
    pub(super) bearer_token_file: Option<String>,
    pub(super) tls_config: Option<Tls>,
    pub(super) follow_redirects: Option<bool>,
    pub(super) enable_http2: Option<bool>,
    pub(super) proxy_url: Option<String>,
    pub(super) proxy_from_environment: Option<bool>,
    pub(super) no_proxy: Option<IgnoredAny>,
    pub(super) proxy_connect_header: Option<IgnoredAny>,
    pub(super) oauth2: Option<IgnoredAny>,
    #[serde(default)]
    pub(super) http_headers: BTreeMap<String, Header>,
}

/// Targets and labels that they share.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Hash)]
#[serde(deny_unknown_fields)]
pub(crate) struct Group {
    /// Addresses.
    #[serde(default)]
    pub(crate) targets: Vec<Text>,
    /// Labels of all of them.
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileSd {
    pub(super) files: Vec<String>,
    #[serde(rename = "refresh_interval")]
    pub(super) _refresh_interval: Option<Time>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HttpSd {
    pub(super) url: String,
    pub(super) refresh_interval: Option<Time>,
    pub(super) basic_auth: Option<BasicAuth>,
    pub(super) authorization: Option<Authorization>,
    pub(super) tls_config: Option<Tls>,
    pub(super) follow_redirects: Option<bool>,
    pub(super) enable_http2: Option<bool>,
    #[serde(default)]
    pub(super) http_headers: BTreeMap<String, Header>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DnsSd {
    #[serde(default)]
    pub(super) names: Vec<Text>,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) refresh_interval: Option<Time>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "some keys are known and change nothing here")]
pub(super) struct ConsulSd {
    pub(super) server: Option<Text>,
    pub(super) path_prefix: Option<Text>,
    pub(super) token: Option<Text>,
    pub(super) datacenter: Option<Text>,
    pub(super) namespace: Option<Text>,
    pub(super) partition: Option<Text>,
    pub(super) tag_separator: Option<Text>,
    pub(super) scheme: Option<String>,
    pub(super) username: Option<Text>,
    pub(super) password: Option<Text>,
    pub(super) allow_stale: Option<bool>,
    pub(super) refresh_interval: Option<Time>,
    #[serde(default)]
    pub(super) services: Vec<Text>,
    #[serde(default)]
    pub(super) tags: Vec<Text>,
    #[serde(default)]
    pub(super) node_meta: BTreeMap<String, Text>,
    pub(super) filter: Option<Text>,
    pub(super) health_filter: Option<Text>,
    pub(super) basic_auth: Option<BasicAuth>,
    pub(super) authorization: Option<Authorization>,
    pub(super) oauth2: Option<IgnoredAny>,
    pub(super) tls_config: Option<Tls>,
    pub(super) follow_redirects: Option<bool>,
    pub(super) enable_http2: Option<bool>,
    pub(super) proxy_url: Option<String>,
    pub(super) proxy_from_environment: Option<bool>,
    pub(super) no_proxy: Option<IgnoredAny>,
    pub(super) proxy_connect_header: Option<IgnoredAny>,
    #[serde(default)]
    pub(super) http_headers: BTreeMap<String, Header>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Relabel {
    #[serde(default)]
    pub(super) source_labels: Vec<String>,
    pub(super) separator: Option<Text>,
    pub(super) target_label: Option<Text>,
    pub(super) regex: Option<Text>,
    pub(super) modulus: Option<u64>,
    pub(super) replacement: Option<Text>,
    pub(super) action: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BasicAuth {
    pub(super) username: Option<Text>,
    pub(super) username_file: Option<String>,
    pub(super) password: Option<Text>,
    pub(super) password_file: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Authorization {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) credentials: Option<Text>,
    pub(super) credentials_file: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tls {
    pub(super) ca: Option<String>,
    pub(super) ca_file: Option<String>,
    pub(super) cert: Option<String>,
    pub(super) cert_file: Option<String>,
    pub(super) key: Option<String>,
    pub(super) key_file: Option<String>,
    pub(super) server_name: Option<String>,
    #[serde(default)]
    pub(super) insecure_skip_verify: bool,
    pub(super) min_version: Option<String>,
    pub(super) max_version: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    #[serde(default)]
    pub(super) values: Vec<Text>,
    #[serde(default)]
    pub(super) secrets: Vec<Text>,
    #[serde(default)]
    pub(super) files: Vec<String>,
}

/// A text that may look like a number or a boolean: `labels: {replica: 1}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub(crate) struct Text(pub(crate) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(Self)
    }
}

/// A duration such as `1m30s`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time(pub(super) Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(from)?;
        let sentence = || D::Error::custom(format!("{text:?} is no duration; write 15s, 1m30s or 500ms"));
        duration::parse(&text).map(Self).ok_or_else(sentence)
    }
}

/// A number of bytes such as `10MB`; 0 for no limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes(pub(super) u64);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(from)?;
        let sentence = || D::Error::custom(format!("{text:?} is no number of bytes; write 10MB or 512KB"));
        size::parse_prometheus(&text).map(Self).ok_or_else(sentence)
    }
}
