//! Who may depend on whom, read from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// The Ogive crates that each Ogive crate may depend on. A crate that is not listed may depend on none.
const ALLOWED: &[(&str, &[&str])] = &[
    ("ogive-hist", &[]),
    ("ogive-journal", &[]),
    ("ogive-model", &["ogive-hist"]),
    ("ogive-probe", &["ogive-hist"]),
    ("ogive-export", &["ogive-hist", "ogive-model", "ogive-probe"]),
    ("ogive-store", &["ogive-hist", "ogive-model", "ogive-journal"]),
    ("ogive-broker", &["ogive-model", "ogive-journal"]),
    ("ogive-text", &[]),
    ("ogive-query", &["ogive-text", "ogive-hist", "ogive-model"]),
    ("ogive-detect", &["ogive-text", "ogive-hist", "ogive-model", "ogive-query"]),
    ("ogive-search", &["ogive-model", "ogive-text"]),
    ("ogive-filter", &["ogive-hist", "ogive-model", "ogive-search", "ogive-stream", "ogive-text"]),
    ("ogive-stream", &["ogive-hist", "ogive-model"]),
    ("ogive-wire", &[]),
    ("ogive-capture", &[]),
    ("ogive-kernel", &["ogive-hist", "ogive-crash", "ogive-journal", "ogive-text"]),
    ("ogive-protocol", &["ogive-hist", "ogive-model", "ogive-stream", "ogive-text"]),
    ("ogive-irondb", &["ogive-hist", "ogive-model", "ogive-stream", "ogive-protocol"]),
    ("ogive-outgoing", &[]),
    ("ogive-snmp", &["ogive-protocol", "ogive-text"]),
    ("ogive-crash", &["ogive-journal", "ogive-probe", "ogive-text"]),
    (
        "ogive-door",
        &[
            "ogive-filter",
            "ogive-hist",
            "ogive-model",
            "ogive-probe",
            "ogive-export",
            "ogive-stream",
            "ogive-protocol",
            "ogive-text",
        ],
    ),
    ("ogive-interchange", &["ogive-hist", "ogive-irondb", "ogive-model", "ogive-protocol", "ogive-text"]),
    ("ogive-fleet", &["ogive-door", "ogive-export", "ogive-journal", "ogive-probe", "ogive-text"]),
    ("ogive-spooling", &["ogive-broker", "ogive-door", "ogive-model", "ogive-probe"]),
    ("ogive-scrape", EDGE),
    ("ogive-checks", EDGE),
    ("ogive-listen", EDGE),
    ("ogive-amqp", EDGE),
    (
        "ogive-cassandra",
        &[
            "ogive-broker",
            "ogive-door",
            "ogive-export",
            "ogive-journal",
            "ogive-model",
            "ogive-outgoing",
            "ogive-probe",
            "ogive-spooling",
            "ogive-store",
            "ogive-text",
        ],
    ),
    (
        "ogive-storage",
        &[
            "ogive-door",
            "ogive-text",
            "ogive-hist",
            "ogive-model",
            "ogive-probe",
            "ogive-journal",
            "ogive-store",
            "ogive-stream",
            "ogive-query",
        ],
    ),
    ("ogive-observe", &["ogive-crash", "ogive-door", "ogive-export", "ogive-model", "ogive-probe", "ogive-storage"]),
    ("ogive-notify", &["ogive-text"]),
    (
        "ogive-alerting",
        &[
            "ogive-notify",
            "ogive-door",
            "ogive-outgoing",
            "ogive-text",
            "ogive-hist",
            "ogive-model",
            "ogive-journal",
            "ogive-query",
            "ogive-detect",
            "ogive-storage",
            "ogive-store",
        ],
    ),
    (
        "ogive-http",
        &[
            "ogive-crash",
            "ogive-alerting",
            "ogive-detect",
            "ogive-door",
            "ogive-export",
            "ogive-fleet",
            "ogive-hist",
            "ogive-irondb",
            "ogive-journal",
            "ogive-model",
            "ogive-observe",
            "ogive-outgoing",
            "ogive-probe",
            "ogive-protocol",
            "ogive-query",
            "ogive-scrape",
            "ogive-search",
            "ogive-storage",
            "ogive-store",
            "ogive-text",
        ],
    ),
    (
        "ogive",
        &[
            "ogive-http",
            "ogive-filter",
            "ogive-fleet",
            "ogive-storage",
            "ogive-crash",
            "ogive-observe",
            "ogive-alerting",
            "ogive-outgoing",
            "ogive-door",
            "ogive-scrape",
            "ogive-checks",
            "ogive-listen",
            "ogive-amqp",
            "ogive-cassandra",
            "ogive-protocol",
            "ogive-broker",
            "ogive-spooling",
            "ogive-detect",
            "ogive-export",
            "ogive-hist",
            "ogive-model",
            "ogive-journal",
            "ogive-probe",
            "ogive-store",
            "ogive-stream",
            "ogive-query",
            "ogive-wire",
            "ogive-capture",
            "ogive-kernel",
            "ogive-interchange",
            "ogive-search",
            "ogive-text",
        ],
    ),
    ("ogive-tidy", &[]),
    // examples/
    ("ogive-matching-engine", &["ogive-hist", "ogive-probe", "ogive-export"]),
];

/// Shows the decoders of all crates to a fuzzer, and is part of nothing: it may depend on everything.
const FUZZ: &str = "ogive-fuzz";

/// What brings samples to the door: each of these knows none of the others.
const EDGE: &[&str] = &[
    "ogive-door",
    "ogive-irondb",
    "ogive-outgoing",
    "ogive-snmp",
    "ogive-text",
    "ogive-protocol",
    "ogive-stream",
    "ogive-export",
    "ogive-hist",
    "ogive-model",
    "ogive-probe",
];

/// Outside crates that only the named Ogive crates may reach, at any distance.
const FENCED: &[(&str, &[&str])] = &[
    (
        "tokio",
        &[
            "ogive",
            "ogive-http",
            "ogive-storage",
            "ogive-observe",
            "ogive-alerting",
            // lettre without its feature of that name: `cargo metadata` lists tokio, `cargo tree -p ogive-notify` does
            // not.
            "ogive-notify",
            "ogive-door",
            "ogive-fleet",
            "ogive-outgoing",
            // Its library has sockets of its own, which are not used.
            "ogive-snmp",
            "ogive-scrape",
            "ogive-checks",
            "ogive-listen",
            "ogive-amqp",
            "ogive-cassandra",
            "ogive-spooling",
        ],
    ),
    ("axum", &["ogive", "ogive-http"]),
    (
        "hyper",
        &[
            "ogive",
            "ogive-http",
            "ogive-alerting",
            "ogive-outgoing",
            "ogive-scrape",
            "ogive-checks",
            "ogive-amqp",
            "ogive-cassandra",
        ],
    ),
    (
        "ureq",
        &[
            "ogive",
            "ogive-http",
            "ogive-crash",
            "ogive-storage",
            "ogive-observe",
            "ogive-alerting",
            "ogive-notify",
            "ogive-door",
            "ogive-fleet",
            "ogive-scrape",
            "ogive-checks",
            "ogive-listen",
            "ogive-amqp",
            "ogive-cassandra",
            "ogive-spooling",
            "ogive-export",
            "ogive-matching-engine",
        ],
    ),
    (
        "serde_json",
        &[
            "ogive",
            "ogive-http",
            "ogive-crash",
            "ogive-storage",
            "ogive-observe",
            "ogive-alerting",
            "ogive-notify",
            "ogive-door",
            "ogive-fleet",
            "ogive-scrape",
            "ogive-checks",
            "ogive-listen",
            "ogive-amqp",
            "ogive-cassandra",
            "ogive-spooling",
            "ogive-protocol",
            "ogive-snmp",
            "ogive-irondb",
            "ogive-interchange",
            "ogive-tidy",
        ],
    ),
];

/// What cargo says of the workspace at `root` and all that it depends on.
///
/// # Panics
/// When cargo does not answer: a test could not go on.
#[must_use]
pub fn metadata(root: &std::path::Path) -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

/// The normal and build dependencies of every package of the workspace's graph, by name.
#[derive(Debug)]
pub struct Graph {
    edges: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// The graph that [`metadata`] describes.
    ///
    /// # Panics
    /// When that has another shape than cargo documents.
    #[must_use]
    pub fn from_metadata(metadata: &Value) -> Self {
        let names: BTreeMap<&str, &str> =
            list(&metadata["packages"]).map(|package| (text(&package["id"]), text(&package["name"]))).collect();
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for node in list(&metadata["resolve"]["nodes"]) {
            let from = edges.entry(names[text(&node["id"])].to_owned()).or_default();
            for dependency in list(&node["deps"]) {
                if list(&dependency["dep_kinds"]).any(|kind| kind["kind"].as_str() != Some("dev")) {
                    from.insert(names[text(&dependency["pkg"])].to_owned());
                }
            }
        }
        Self { edges }
    }

    /// Every rule that is broken, as a sentence.
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        for (name, direct) in self.edges.iter().filter(|(name, _)| is_ours(name) && *name != FUZZ) {
            let allowed = ALLOWED.iter().find(|(listed, _)| listed == name);
            let Some((_, allowed)) = allowed else {
                findings.push(format!("{name} is not in the table of crates of tidy"));
                continue;
            };
            for dependency in direct.iter().filter(|dependency| is_ours(dependency)) {
                if !allowed.contains(&dependency.as_str()) {
                    findings.push(format!("{name} depends on {dependency}, which the design does not allow"));
                }
            }
            let reached = self.reachable(name);
            for (fenced, owners) in FENCED {
                if reached.contains(*fenced) && !owners.contains(&name.as_str()) {
                    findings.push(format!("{name} reaches {fenced}, which is fenced to {owners:?}"));
                }
            }
        }
        findings
    }

    fn reachable(&self, from: &str) -> BTreeSet<String> {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(name) = open.pop() {
            for next in self.edges.get(&name).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        seen
    }
}

pub(crate) fn is_ours(name: &str) -> bool {
    name == "ogive" || name.starts_with("ogive-")
}

pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().expect("cargo metadata has the shape that cargo documents").iter()
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().expect("cargo metadata has the shape that cargo documents")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &[&str])]) -> Graph {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Graph { edges: edges.iter().map(|(from, to)| ((*from).to_string(), set(to))).collect() }
    }

    #[test]
    fn a_forbidden_edge_and_a_fenced_crate_are_found() {
        let bad = graph(&[
            ("ogive-query", &["ogive-store", "ogive-model"]),
            ("ogive-model", &["helper"]),
            ("helper", &["tokio"]),
            ("ogive-new", &[]),
        ]);
        let findings = bad.findings().join("\n");
        assert!(findings.contains("ogive-query depends on ogive-store"), "{findings}");
        assert!(findings.contains("ogive-model reaches tokio"), "{findings}");
        assert!(findings.contains("ogive-new is not in the table"), "{findings}");
        assert_eq!(graph(&[("ogive-query", &["ogive-model"]), ("ogive", &["tokio"])]).findings(), [""; 0]);
    }
}
