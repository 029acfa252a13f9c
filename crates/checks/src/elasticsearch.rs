//! Elasticsearch and OpenSearch: the health of a cluster, and the statistics of its nodes.
//!
//! Format: `GET _cluster/health`, whose numbers become `elasticsearch_cluster_NAME{cluster}`, and its status
//! `elasticsearch_cluster_status`, 0 (green), 1 (yellow) or 2 (red); `GET _nodes/stats/FIELDS`, whose numbers become
//! `elasticsearch_node_PATH{cluster,node}`. The members of [`NAMED`] have names of their own, which become the label
//! `name`. [`is_counter`] is the rule by which a number is a counter. Lists (single disks, histograms) are left out.
//! Limits: those of `readings`, of each answer.

use hyper::Uri;
use serde_json::Value;

use super::http;
use super::net::Network;
use super::raw::Raw;
use super::readings::{Metric, Readings, fields, json_of, numbers, refuse_labels, text_of};
use super::request::{Http, url};
use super::rows::word;
use super::run::{Failure, Reason, Run, cut};

/// The states of a cluster, the best first.
const STATES: [&str; 3] = ["green", "yellow", "red"];
/// The parts of the statistics that are read where a check names none.
const FIELDS: [&str; 9] = ["indices", "os", "process", "jvm", "thread_pool", "fs", "transport", "http", "breaker"];
/// Objects whose members are named after pools, collectors and breakers.
const NAMED: [&[&str]; 5] =
    [&["thread_pool"], &["breakers"], &["jvm", "gc", "collectors"], &["jvm", "mem", "pools"], &["jvm", "buffer_pools"]];
/// How the last name of a counter ends.
const COUNTER_ENDS: [&str; 15] = [
    "_total",
    "_time_in_millis",
    "total_in_millis",
    "total_count",
    "hit_count",
    "miss_count",
    "collection_count",
    "rx_count",
    "tx_count",
    "rx_size_in_bytes",
    "tx_size_in_bytes",
    "cache_count",
    "total_opened",
    "total_loaded_count",
    "total_unloaded_count",
];
/// Last names of counters.
const COUNTERS: [&str; 20] = [
    "total",
    "evictions",
    "rejected",
    "completed",
    "tripped",
    "total_size_in_bytes",
    "time_in_millis",
    "total_time_spent_in_millis",
    "total_wait_time_in_nanos",
    "total_docs",
    "total_operations",
    "total_outbound_connections",
    "total_rejections",
    "index_failed",
    "periodic",
    "unreferenced_file_cleanups_performed",
    "number_of_elapsed_periods",
    "number_of_times_throttled",
    "time_throttled_nanos",
    "usage_nanos",
];

/// A cluster, reached through one of its nodes.
#[derive(Clone, Debug)]
pub(super) struct Elasticsearch {
    health: Box<Http>,
    nodes: Box<Http>,
    /// The worst state that is good, by its place in [`STATES`].
    worst: usize,
}

impl Elasticsearch {
    /// What a table of this kind says.
    pub(super) fn from_raw(raw: &mut Raw) -> Result<Self, String> {
        refuse_labels(raw, &["cluster", "node", "name"])?;
        let base = url(raw)?;
        let wanted = fields(raw, |field| field.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))?;
        let wanted = if wanted.is_empty() { FIELDS.join(",") } else { wanted.join(",") };
        let (health, nodes) = (beneath(&base, "_cluster/health")?, beneath(&base, &format!("_nodes/stats/{wanted}"))?);
        let state = raw.health.take().unwrap_or_else(|| "yellow".into());
        let worst = STATES.iter().position(|known| *known == state);
        let worst = worst.ok_or_else(|| format!("health {state:?} is none of {}", STATES.join(", ")))?;
        let health = Http::statistics(raw, health)?;
        let nodes = Http { url: nodes, ..health.clone() };
        Ok(Self { health: Box::new(health), nodes: Box::new(nodes), worst })
    }
}

/// The address of a part of the server's interface.
fn beneath(base: &Uri, path: &str) -> Result<Uri, String> {
    if base.query().is_some() {
        return Err("target has a query; write the address of the server alone".into());
    }
    format!("{}/{path}", base.to_string().trim_end_matches('/')).parse().map_err(|error| format!("target: {error}"))
}

pub(super) async fn run(network: &Network, run: &mut Run, cluster: &Elasticsearch) -> Result<(), Failure> {
    let health = http::text(network, run, &cluster.health).await?;
    let judged = report_health(run, cluster, &health);
    // The statistics of a cluster that is not well are wanted most.
    if judged.as_ref().is_err_and(|failure| failure.reason != Reason::Status) {
        return judged;
    }
    let nodes = http::text(network, run, &cluster.nodes).await?;
    judged.and(report_nodes(run, &nodes))
}

/// Reports the health of the cluster.
pub(super) fn report_health(run: &mut Run, cluster: &Elasticsearch, text: &str) -> Result<(), Failure> {
    let answer = json_of(text)?;
    let said = text_of(&answer, "status");
    let Some(state) = STATES.iter().position(|known| *known == said) else {
        let sentence = format!("the cluster has the status {:?}, none of {}", cut(said, 64), STATES.join(", "));
        return Err(Failure::new(Reason::Protocol, sentence));
    };
    let labels = [("cluster", text_of(&answer, "cluster_name"))];
    let mut readings = Readings::new(run);
    readings.add(&metric("cluster", &["status"]), &labels, state as f64)?;
    let mut each = |path: &[&str], number: f64| readings.add(&metric("cluster", path), &labels, number);
    numbers(&answer, &mut Vec::new(), &mut each)?;
    readings.end()?;
    if state > cluster.worst {
        let unassigned = answer.get("unassigned_shards").and_then(Value::as_u64).unwrap_or_default();
        let sentence =
            format!("the cluster is {said}, worse than {}; unassigned shards: {unassigned}", STATES[cluster.worst]);
        return Err(Failure::new(Reason::Status, sentence));
    }
    Ok(())
}

/// Reports the statistics of the nodes.
pub(super) fn report_nodes(run: &mut Run, text: &str) -> Result<(), Failure> {
    let answer = json_of(text)?;
    let Some(nodes) = answer.get("nodes").and_then(Value::as_object) else {
        return Err(Failure::new(Reason::Protocol, "the answer has no nodes"));
    };
    let cluster = text_of(&answer, "cluster_name");
    let mut readings = Readings::new(run);
    for (id, node) in nodes {
        let name = Some(text_of(node, "name")).filter(|name| !name.is_empty()).unwrap_or(id);
        let mut each = |path: &[&str], number: f64| {
            // When the node answered; and one for each route and action that was ever used.
            let is_left_out = path.last() == Some(&"timestamp")
                || matches!(path, ["http", "routes", ..] | ["transport", "actions", ..]);
            if is_left_out {
                return Ok(());
            }
            let (path, member) = apart(path);
            readings.add(&metric("node", &path), &[("cluster", cluster), ("node", name), ("name", member)], number)
        };
        numbers(node, &mut Vec::new(), &mut each)?;
    }
    if readings.count() == 0 {
        return Err(Failure::new(Reason::Content, "there is no number of a node in the answer"));
    }
    readings.end()
}

/// A path without the name of a member of [`NAMED`], and that name.
fn apart<'a>(path: &[&'a str]) -> (Vec<&'a str>, &'a str) {
    let parent = NAMED.iter().find(|parent| path.len() > parent.len() + 1 && path.starts_with(parent));
    match parent {
        Some(parent) => {
            let at = parent.len();
            ([&path[..at], &path[at + 1..]].concat(), path[at])
        }
        None => (path.to_vec(), ""),
    }
}

fn metric(of: &str, path: &[&str]) -> Metric {
    let last = path.last().copied().unwrap_or_default();
    let words: Vec<String> = path.iter().map(|name| word(name)).collect();
    let unit = match last {
        last if last.ends_with("_in_bytes") => "By",
        last if last.ends_with("_in_millis") => "ms",
        last if last.ends_with("_nanos") => "ns",
        last if last.ends_with("_micros") => "us",
        last if last.ends_with("percent") => "%",
        _ => "",
    };
    let is_counter = of == "node" && is_counter(path);
    Metric { name: format!("elasticsearch_{of}_{}", words.join("_")), unit: unit.into(), is_counter }
}

/// Whether a number of a node counts since its start: by its last name, except for parts of which all count, and those
/// that say how many there are now.
fn is_counter(path: &[&str]) -> bool {
    let last = path.last().copied().unwrap_or_default();
    match path {
        ["indices", "docs" | "shard_stats" | "mappings", ..] | [.., "avg_time_in_millis"] => false,
        ["fs", "io_stats", "total", _]
        | [.., "doc_status" | "total_download_size" | "total_upload_size" | "total_uploads", _] => true,
        _ => COUNTERS.contains(&last) || COUNTER_ENDS.iter().any(|end| last.ends_with(end)),
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::{Temporality, Value};
    use ogive_probe::Clock;

    use super::*;
    use crate::config::{Config, Probe};

    fn check(keys: &str) -> Elasticsearch {
        let text = format!("[[check]]\nname = 'a'\nkind = 'elasticsearch'\ntarget = 'http://h:9200/es/'\n{keys}\n");
        let Probe::Elasticsearch(check) = Config::parse(&text).unwrap().check.remove(0).ask else { unreachable!() };
        check
    }

    /// How a run ends, and each series with its value, counters with a `+`.
    fn found(report: impl FnOnce(&mut Run) -> Result<(), Failure>) -> (Result<(), Failure>, Vec<String>) {
        let mut run = Run::begin(Clock::manual(1_000, 1_700_000_000_000_000_000));
        let end = report(&mut run);
        let batch = run.batch(&Ok(()), &[], std::time::Duration::from_secs(60));
        let shown = batch.samples.iter().flatten().filter_map(|sample| {
            let series = batch.series[sample.series as usize].as_ref().unwrap();
            let Value::Float(value) = sample.value else { return None };
            let sign = if series.meta.temporality == Temporality::Cumulative { "+" } else { "" };
            let label = |name: &str| series.labels.get(name).to_owned();
            let of = [label("cluster"), label("node"), label("name")].join("/");
            let name = label("__name__");
            name.starts_with("elasticsearch_").then(|| format!("{name} {of} {sign}{value}"))
        });
        (end, shown.collect())
    }

    #[test]
    fn health_is_judged() {
        let text = |status: &str| {
            format!(
                "{{\"cluster_name\": \"c\", \"status\": \"{status}\", \"timed_out\": false, \"unassigned_shards\": 3, \
                 \"active_shards_percent_as_number\": 62.5}}"
            )
        };
        let outcome = |keys: &str, status: &str| found(|run| report_health(run, &check(keys), &text(status)));
        let (end, lines) = outcome("", "yellow");
        assert_eq!(end, Ok(()));
        assert_eq!(
            lines,
            [
                "elasticsearch_cluster_status c// 1",
                "elasticsearch_cluster_active_shards_percent_as_number c// 62.5",
                "elasticsearch_cluster_timed_out c// 0",
                "elasticsearch_cluster_unassigned_shards c// 3",
            ]
        );
        let (end, lines) = outcome("health = 'green'", "yellow");
        let sentence = "the cluster is yellow, worse than green; unassigned shards: 3";
        assert_eq!((end, lines.len()), (Err(Failure::new(Reason::Status, sentence)), 4));
        assert_eq!(outcome("", "red").0.unwrap_err().reason, Reason::Status);
        assert_eq!(outcome("health = 'red'", "red").0, Ok(()));
        assert_eq!(outcome("", "blue").0.unwrap_err().reason, Reason::Protocol);
    }

    #[test]
    fn statistics_become_series() {
        let text = r#"{"cluster_name": "c", "nodes": {"id7": {"timestamp": 1700000000000, "name": "n",
            "roles": ["data"], "indices": {"docs": {"count": 9, "total_size_in_bytes": 7},
                "mappings": {"total_count": 3}, "bulk": {"avg_time_in_millis": 2}, "search": {"query_total": 4}},
            "http": {"total_opened": 1, "routes": {"/": {"requests": {"count": 5}}}},
            "transport": {"rx_count": 6, "actions": {"a": {"requests": {"count": 5}}}},
            "jvm": {"timestamp": 1700000000000, "mem": {"heap_used_in_bytes": 5, "pools": {"old": {"used_in_bytes": 3}}},
                    "gc": {"collectors": {"young": {"collection_count": 2, "collection_time_in_millis": 8}}}},
            "thread_pool": {"write": {"queue": 1, "rejected": 6}},
            "fs": {"total": {"free_in_bytes": 11}, "data": [{"free_in_bytes": 11}]}}}}"#;
        let (end, lines) = found(|run| report_nodes(run, text));
        assert_eq!(end, Ok(()));
        assert_eq!(
            lines,
            [
                "elasticsearch_node_fs_total_free_in_bytes c/n/ 11",
                "elasticsearch_node_http_total_opened c/n/ +1",
                "elasticsearch_node_indices_bulk_avg_time_in_millis c/n/ 2",
                "elasticsearch_node_indices_docs_count c/n/ 9",
                "elasticsearch_node_indices_docs_total_size_in_bytes c/n/ 7",
                "elasticsearch_node_indices_mappings_total_count c/n/ 3",
                "elasticsearch_node_indices_search_query_total c/n/ +4",
                "elasticsearch_node_jvm_gc_collectors_collection_count c/n/young +2",
                "elasticsearch_node_jvm_gc_collectors_collection_time_in_millis c/n/young +8",
                "elasticsearch_node_jvm_mem_heap_used_in_bytes c/n/ 5",
                "elasticsearch_node_jvm_mem_pools_used_in_bytes c/n/old 3",
                "elasticsearch_node_thread_pool_queue c/n/write 1",
                "elasticsearch_node_thread_pool_rejected c/n/write +6",
                "elasticsearch_node_transport_rx_count c/n/ +6",
            ]
        );
        for (text, reason) in [
            ("", Reason::Protocol),
            ("{}", Reason::Protocol),
            (r#"{"nodes": {}}"#, Reason::Content),
            (r#"{"nodes": {"a": 7, "b": {"A": 1, "a": 1}}}"#, Reason::Content),
        ] {
            assert_eq!(found(|run| report_nodes(run, text)).0.unwrap_err().reason, reason, "{text}");
        }
    }

    /// Numbers of OpenSearch 2.19.
    #[test]
    fn what_counts_since_a_start_is_a_counter() {
        for (path, expected) in [
            ("fs io_stats total queue_size", true),
            ("fs total free_in_bytes", false),
            ("indices flush periodic", true),
            ("indices get time_in_millis", true),
            ("indices indexing doc_status 2xx", true),
            ("indices indexing index_failed", true),
            ("indices merges current_docs", false),
            ("indices merges total_auto_throttle_in_bytes", false),
            ("indices merges total_docs", true),
            ("indices search request took current", false),
            ("indices search request took time_in_millis", true),
            ("indices segments remote_store upload pressure total_rejections", true),
            ("indices segments remote_store upload refresh_size_lag total_bytes", false),
            ("indices segments remote_store upload total_time_spent_in_millis", true),
            ("indices segments remote_store upload total_upload_size failed_bytes", true),
            ("indices translog operations", false),
            ("jvm uptime_in_millis", false),
            ("os cgroup cpu cfs_period_micros", false),
            ("os cgroup cpu stat time_throttled_nanos", true),
            ("os cgroup cpuacct usage_nanos", true),
            ("thread_pool search largest", false),
            ("thread_pool search total_wait_time_in_nanos", true),
            ("transport server_open", false),
            ("transport total_outbound_connections", true),
        ] {
            assert_eq!(is_counter(&path.split(' ').collect::<Vec<_>>()), expected, "{path}");
        }
    }

    #[test]
    fn addresses_lie_beneath_the_target() {
        let of = |keys: &str| {
            let check = check(keys);
            [check.health.url.to_string(), check.nodes.url.to_string()]
        };
        let all = "indices,os,process,jvm,thread_pool,fs,transport,http,breaker";
        assert_eq!(of("")[0], "http://h:9200/es/_cluster/health");
        assert_eq!(of("")[1], format!("http://h:9200/es/_nodes/stats/{all}"));
        assert_eq!(of("fields = ['jvm', 'os']")[1], "http://h:9200/es/_nodes/stats/jvm,os");
    }
}
