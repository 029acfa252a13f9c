//! What one `scrape_configs` entry says.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ogive_model::Tenant;
use ogive_outgoing::Secret;

use super::super::relabel::Rule;
use super::raw::Group;

/// 256 MiB of a decompressed response, unless `body_size_limit` sets another limit: five times the largest known.
pub(super) const BODY_BYTES_MAX: u64 = 256 << 20;

/// The default interval, as in Prometheus.
pub(super) const INTERVAL: Duration = Duration::from_secs(60);

pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// One `scrape_configs` entry, with all defaults applied.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Job {
    pub(crate) name: String,
    /// The tenant of its targets' series.
    pub(crate) tenant: Tenant,
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    pub(crate) protocols: Vec<Protocol>,
    /// The format that is assumed for a response without a content type.
    pub(crate) fallback: Option<Protocol>,
    /// Accept native histograms.
    pub(crate) natives: bool,
    /// Also accept the classic form of a histogram that has a native form.
    pub(crate) classics: bool,
    pub(crate) metrics_path: String,
    pub(crate) scheme: String,
    pub(crate) params: BTreeMap<String, Vec<String>>,
    pub(crate) honor_labels: bool,
    pub(crate) honor_timestamps: bool,
    pub(crate) track_timestamps: bool,
    pub(crate) compression: bool,
    pub(crate) limits: Limits,
    pub(crate) relabel: Vec<Rule>,
    pub(crate) metric_relabel: Vec<Rule>,
    pub(crate) groups: Vec<Group>,
    /// Patterns of files with groups.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) http: Vec<HttpSource>,
    pub(crate) dns: Vec<DnsSource>,
    pub(crate) consul: Vec<ConsulSource>,
    pub(crate) access: Access,
    /// Labels of its targets that the file does not name; a target's own win.
    pub(crate) labels: Vec<(String, String)>,
}

/// The limits of a scrape; 0 for no limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Limits {
    pub(crate) body_bytes: u64,
    pub(crate) samples: u64,
    pub(crate) targets: u64,
    pub(crate) labels: u64,
    pub(crate) label_name_bytes: u64,
    pub(crate) label_value_bytes: u64,
    pub(crate) bins: u64,
}

/// An address that returns groups as JSON.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HttpSource {
    pub(crate) url: String,
    pub(crate) refresh: Duration,
    pub(crate) access: Access,
}

/// Names whose records are targets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DnsSource {
    pub(crate) names: Vec<String>,
    pub(crate) kind: RecordKind,
    /// The port of the targets, unless a record has its own.
    pub(crate) port: u16,
    pub(crate) refresh: Duration,
}

/// The records that lead to targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    A,
    Aaaa,
    Mx,
    Ns,
    Srv,
}

impl RecordKind {
    /// Every one by its name.
    pub(super) const ALL: [(&'static str, Self); 5] =
        [("A", Self::A), ("AAAA", Self::Aaaa), ("MX", Self::Mx), ("NS", Self::Ns), ("SRV", Self::Srv)];
}

/// A Consul whose services are targets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConsulSource {
    /// Scheme, host, port, and the path before that of its API.
    pub(crate) url: String,
    pub(crate) token: Option<Secret>,
    /// Empty: that of the server. The same holds for the namespace and the partition.
    pub(crate) datacenter: String,
    pub(crate) namespace: String,
    pub(crate) partition: String,
    /// Empty: all of them.
    pub(crate) services: Vec<String>,
    /// An instance must have each.
    pub(crate) tags: Vec<String>,
    pub(crate) tag_separator: String,
    pub(crate) node_meta: BTreeMap<String, String>,
    /// Selects services in the catalog; empty for all.
    pub(crate) filter: String,
    /// Selects instances of each service; empty for all.
    pub(crate) health_filter: String,
    /// Whether a server may answer that is not the leader.
    pub(crate) allow_stale: bool,
    pub(crate) refresh: Duration,
    pub(crate) access: Access,
}

/// How to get in.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Access {
    pub(crate) login: Login,
    pub(crate) tls: Tls,
    pub(crate) redirects: bool,
    pub(crate) headers: Vec<(String, Secret)>,
}

/// The login that is sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Login {
    #[default]
    None,
    Basic {
        user: Secret,
        password: Secret,
    },
    /// A type such as `Bearer`, and its credentials.
    Authorization(String, Secret),
}

/// The trusted authorities, and our certificate.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tls {
    pub(crate) authorities: Option<Pem>,
    pub(crate) certificate: Option<(Pem, Pem)>,
    pub(crate) server_name: Option<String>,
    pub(crate) insecure: bool,
    /// Only TLS 1.3, or only 1.2.
    pub(crate) only: Option<u8>,
}

/// PEM text, or a file that contains it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pem {
    Here(String),
    In(PathBuf),
}

/// The formats that can be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Protobuf,
    OpenMetrics0,
    OpenMetrics1,
    OpenMetrics2,
    Text0,
    Text1,
}

impl Protocol {
    /// Every one by its name in `scrape_protocols`.
    pub(super) const ALL: [(&'static str, Self); 6] = [
        ("PrometheusProto", Self::Protobuf),
        ("OpenMetricsText0.0.1", Self::OpenMetrics0),
        ("OpenMetricsText1.0.0", Self::OpenMetrics1),
        ("OpenMetricsText2.0.0", Self::OpenMetrics2),
        ("PrometheusText0.0.4", Self::Text0),
        ("PrometheusText1.0.0", Self::Text1),
    ];

    pub(super) fn named(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, protocol)| *protocol);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(known, _)| *known).collect();
            format!("{name:?} is no scrape protocol; there are {}", names.join(", "))
        })
    }

    /// As an entry of the `Accept` header.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => {
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
            }
            Self::OpenMetrics0 => "application/openmetrics-text;version=0.0.1",
            Self::OpenMetrics1 => "application/openmetrics-text;version=1.0.0",
            Self::OpenMetrics2 => "application/openmetrics-text;version=2.0.0",
            Self::Text0 => "text/plain;version=0.0.4",
            Self::Text1 => "text/plain;version=1.0.0",
        }
    }
}
