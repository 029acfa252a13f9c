//! `ogive status`: what a server says of itself, in groups.
//!
//! Invariants: without `--all` the figures of [`GROUPS`] that are named there are shown, and every count of something
//! that went wrong that is above zero; with it all of them are.

use std::process::ExitCode;

use anyhow::Context;
use serde_json::{Map, Value};

use super::client::Server;
use super::format::{human, passed, thousands};
use super::scrub::{known, sentence};

/// Shows a server's main figures and everything that went wrong.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
  ogive status
  ogive status --all
  ogive status --json | jq .memory_peak_bytes")]
pub(crate) struct Status {
    #[command(flatten)]
    server: Server,
    /// Show every figure, including those seldom needed.
    #[arg(long)]
    all: bool,
    /// Print the server's JSON object.
    #[arg(long, conflicts_with = "all")]
    json: bool,
}

/// Figures that belong together.
struct Group {
    title: &'static str,
    /// Always shown, in this order.
    main: &'static [&'static str],
    /// Prefixes of the names of further figures.
    prefixes: &'static [&'static str],
}

/// The groups in their order; a figure belongs to the first that matches it.
const GROUPS: [Group; 8] = [
    Group {
        title: "Server",
        main: &["version", "uptime_seconds", "web_config_refused"],
        prefixes: &["web_", "turned_away_", "audit_"],
    },
    Group {
        title: "Samples",
        main: &["received_total", "accepted_total", "duplicate_total", "rejected_total", "refused_total"],
        prefixes: &[
            "batches_",
            "folded_",
            "unreadable_",
            "own_",
            "ingest_bytes",
            "stored_",
            "statsd_",
            "forward_",
            "unknown_",
        ],
    },
    Group {
        title: "Queues",
        main: &["queue_batches", "deletions_pending", "retention_clock_lag_seconds"],
        prefixes: &["live_", "stream_", "queries_", "refused_batches"],
    },
    Group {
        title: "Memory",
        main: &["memory_anonymous_bytes", "memory_peak_bytes", "series_bytes", "head_bytes", "query_memory_bytes"],
        prefixes: &["memory_", "block_index_", "query_cache_", "sequence_bytes", "detect_bytes", "ingest_memory"],
    },
    Group {
        title: "Store",
        main: &["series", "samples_head", "blocks", "block_bytes", "journal_bytes"],
        prefixes: &[
            "block_",
            "compaction",
            "deletion",
            "drop",
            "flush",
            "journal_",
            "recovered_",
            "recovery_",
            "recall_",
            "read_",
            "written_",
            "retention_",
            "rollup",
        ],
    },
    Group { title: "Disks", main: &["disks", "disks_live", "unacknowledged_findings"], prefixes: &["disk_", "scrub_"] },
    Group {
        title: "Cluster",
        main: &[
            "cassandra_clusters",
            "cassandra_clusters_away",
            "cassandra_nodes",
            "cassandra_nodes_connected",
            "spool_records",
            "spool_bytes",
            "cassandra_conflicts_total",
            "cassandra_audit_rows_lost",
            "cassandra_audit_copies_missing",
            "cassandra_minutes_to_repair",
        ],
        prefixes: &["cassandra_", "spool_"],
    },
    Group { title: "Clock", main: &["clock_source", "clock_error_ns"], prefixes: &["clock_"] },
];

/// The heading of figures without a group.
const OTHERS: &str = "Other";

/// Parts of the names of figures that should be zero.
const WRONG: [&str; 7] = ["failure", "lost", "error", "clash", "refused", "unreadable", "dropped"];

/// Runs the command.
pub(crate) fn run(options: &Status) -> anyhow::Result<ExitCode> {
    let body = match options.server.get("/v1/status", &[]) {
        Ok(body) => body,
        Err(failure) => return Ok(failure.report()),
    };
    if options.json {
        print!("{body}");
        return Ok(ExitCode::SUCCESS);
    }
    let figures: Map<String, Value> =
        serde_json::from_str(&body).context("the server's status is not a JSON object")?;
    print!("{}", text(&figures, options.all));
    if figures.contains_key("cassandra_clusters") {
        match options.server.get("/v1/cluster", &[]) {
            Ok(body) => print!("{}", ring(&serde_json::from_str(&body).context("the cluster is no JSON object")?)),
            Err(failure) => return Ok(failure.report()),
        }
    }
    if figures.get("unacknowledged_findings").and_then(Value::as_u64).is_some_and(|count| count > 0) {
        match known(&options.server) {
            Ok(found) => found.iter().for_each(|finding| println!("{}", sentence(finding))),
            Err(failure) => return Ok(failure.report()),
        }
        println!("`ogive scrub --acknowledge` takes note of these findings");
    }
    Ok(ExitCode::SUCCESS)
}

/// A line for each cluster, and one for each of its nodes.
fn ring(document: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let all = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut out = String::from("\n");
    for cluster in all(&document["clusters"]) {
        let copies = cluster["copies"].as_object().cloned().unwrap_or_default();
        let copies: Vec<String> = copies.iter().map(|(name, count)| format!("{count} in {name}")).collect();
        let (behind, audit) = (cluster["behind_records"].as_u64().unwrap_or(0), &cluster["audit"]);
        out += &format!(
            "{}: {}, copies {}, {} records behind, {} rows lost, {} copies of rows missing\n",
            text(&cluster["name"]),
            if cluster["away"] == true { "AWAY" } else { "answers" },
            if copies.is_empty() { "unknown".to_owned() } else { copies.join(" and ") },
            thousands(behind),
            audit["rows_lost"],
            audit["copies_missing"],
        );
        let repairs = all(&cluster["repairs"]);
        if let (Some(first), Some(last)) = (repairs.first(), repairs.last()) {
            let time = |minute: &Value| ogive_text::calendar::rfc3339(minute.as_i64().unwrap_or(0) * 60_000);
            out += &format!("  NEEDS REPAIR: {} minutes from {} to {}\n", repairs.len(), time(first), time(last));
        }
        for node in all(&cluster["nodes"]) {
            let state = if node["connected"] == true { "connected" } else { "NOT CONNECTED" };
            out += &format!(
                "  {:21}  {} {}  {state}\n",
                text(&node["address"]),
                text(&node["datacentre"]),
                text(&node["rack"])
            );
        }
    }
    out
}

/// The index of a figure's group; one past the last when none matches.
fn group_of(name: &str) -> usize {
    let is_in =
        |group: &Group| group.main.contains(&name) || group.prefixes.iter().any(|start| name.starts_with(start));
    // The name itself decides before its beginning does.
    let named = GROUPS.iter().position(|group| group.main.contains(&name));
    named.or_else(|| GROUPS.iter().position(is_in)).unwrap_or_else(|| protocol_group(name))
}

/// Figures that the ledger has for each protocol, beside the main ones of the samples.
const OF_PROTOCOLS: [&str; 4] = ["batches_total", "folded_total", "ingest_bytes_total", "unreadable_total"];

/// `otlp_accepted_total` belongs to the samples.
fn protocol_group(name: &str) -> usize {
    let mut sums = GROUPS[1].main.iter().chain(&OF_PROTOCOLS);
    let is_of_protocol = sums.any(|sum| name.strip_suffix(sum).is_some_and(|rest| rest.ends_with('_')));
    if is_of_protocol { 1 } else { GROUPS.len() }
}

fn is_wrong(name: &str, value: &Value) -> bool {
    name.ends_with("_total")
        && value.as_f64().is_some_and(|count| count > 0.0)
        && WRONG.iter().any(|part| name.contains(part))
}

fn text(figures: &Map<String, Value>, is_all: bool) -> String {
    let width = figures.keys().map(String::len).max().unwrap_or(0);
    let (mut out, mut left) = (String::new(), 0);
    for at in 0..=GROUPS.len() {
        let main = GROUPS.get(at).map_or(&[][..], |group| group.main);
        let first = main.iter().filter_map(|name| figures.get_key_value(*name));
        let others = figures.iter().filter(|(name, _)| group_of(name) == at && !main.contains(&name.as_str()));
        let (shown, hidden): (Vec<_>, Vec<_>) = others.partition(|(name, value)| is_all || is_wrong(name, value));
        left += hidden.len();
        let rows: Vec<_> = first.chain(shown).collect();
        if rows.is_empty() {
            continue;
        }
        let title = GROUPS.get(at).map_or(OTHERS, |group| group.title);
        out += &format!("{}{title}\n", if out.is_empty() { "" } else { "\n" });
        for (name, value) in rows {
            out += &format!("  {name:width$}  {}\n", shown_value(name, value));
        }
    }
    if left > 0 {
        out += &format!("\n{left} more with --all\n");
    }
    out
}

/// A figure in the unit that its name ends in.
fn shown_value(name: &str, value: &Value) -> String {
    let Some(number) = value.as_f64() else { return value.as_str().map_or_else(|| value.to_string(), str::to_owned) };
    if name.ends_with("_bytes") || name.ends_with("_bytes_max") || name.ends_with("_bytes_total") {
        return human(number, "B");
    }
    if name.ends_with("_time_seconds") && number > 0.0 {
        #[allow(clippy::cast_possible_truncation, reason = "seconds since 1970")]
        return ogive_text::calendar::rfc3339(number as i64 * 1_000);
    }
    if name.ends_with("_seconds") && !name.ends_with("_time_seconds") {
        return passed(number);
    }
    value.as_u64().map_or_else(|| value.to_string(), thousands)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn figures(value: Value) -> Map<String, Value> {
        let Value::Object(figures) = value else { panic!("not an object") };
        figures
    }

    #[test]
    fn figures_stand_in_groups_and_what_is_wrong_is_never_hidden() {
        let figures = figures(json!({
            "version": "0.1.0", "uptime_seconds": 90_061, "accepted_total": 12_345, "otlp_accepted_total": 12_345, "own_lost_total": 3,
            "flush_failures_total": 0, "memory_peak_bytes": 61_022_208, "scrub_completed_time_seconds": 0, "something_new": 7
        }));
        let short = text(&figures, false);
        let expected = [
            "Server",
            "  version                       0.1.0",
            "  uptime_seconds                1d1h",
            "",
            "Samples",
            "  accepted_total                12,345",
            "  own_lost_total                3",
            "",
            "Memory",
            "  memory_peak_bytes             61MB",
            "",
            "4 more with --all",
        ];
        assert_eq!(short.lines().collect::<Vec<_>>(), expected, "{short}");
        let all = text(&figures, true);
        let at = |part: &str| all.find(part).unwrap_or_else(|| panic!("{part} is not in {all}"));
        assert!(at("otlp_accepted_total") < at("Memory") && at("flush_failures_total") < at("Disks"));
        assert!(at("something_new") > at("Other") && !all.contains("more with"));
    }

    #[test]
    fn every_figure_is_in_one_group() {
        for (name, expected) in [
            ("version", "Server"),
            ("stored_total", "Samples"),
            ("refused_batches_total", "Queues"),
            ("refused_total", "Samples"),
            ("deletions_pending", "Queues"),
            ("deletion_failures_total", "Store"),
            ("block_index_bytes", "Memory"),
            ("block_bytes", "Store"),
            ("statsd_rejected_total", "Samples"),
            ("clock_hz", "Clock"),
            ("what", OTHERS),
        ] {
            assert_eq!(GROUPS.get(group_of(name)).map_or(OTHERS, |group| group.title), expected, "{name}");
        }
    }

    #[test]
    fn a_cluster_has_a_line_and_each_of_its_nodes_one() {
        let node = |address: &str, connected: bool| json!({"address": address, "datacentre": "dc1", "rack": "r1", "connected": connected});
        let cluster = |name: &str, away: bool, copies: Value, nodes: Value| {
            let audit = json!({"rows_lost": 1, "copies_missing": 2});
            let repairs = if away { json!([]) } else { json!([29_000_000, 29_000_003]) };
            json!({"name": name, "away": away, "behind_records": 12_345, "copies": copies, "nodes": nodes,
                "audit": audit, "repairs": repairs})
        };
        let nodes = json!([node("10.0.0.1:9042", true), node("10.0.0.2:9042", false)]);
        let all = [cluster("a/k", false, json!({"dc1": 3}), nodes), cluster("b/k", true, json!({}), json!([]))];
        assert_eq!(
            ring(&json!({ "clusters": all })),
            "\na/k: answers, copies 3 in dc1, 12,345 records behind, 1 rows lost, 2 copies of rows missing\n  \
             NEEDS REPAIR: 2 minutes from 2025-02-19T21:20:00Z to 2025-02-19T21:23:00Z\n  \
             10.0.0.1:9042          dc1 r1  connected\n  10.0.0.2:9042          dc1 r1  NOT CONNECTED\n\
             b/k: AWAY, copies unknown, 12,345 records behind, 1 rows lost, 2 copies of rows missing\n"
        );
    }
}
