//! Elasticsearch and OpenSearch: a node of OpenSearch in a Java process (`tests/clients/OpenSearch.java`), which the
//! test asks for the same numbers, and nginx before it, which wants a login.

use std::path::Path;

use serde_json::Value;

use super::{directory, gauge, has, measured, nginx_of, ports, said, says, serve, table};
use crate::common::clients::{Client, java_with};
use crate::common::programs::{Program, free_port, listens};
use crate::common::{JSON, Server, eventually, request_at};

/// A node that is a cluster of its own, `shop`; killed when dropped.
struct Node {
    _process: Client,
    port: u16,
}

impl Node {
    fn start(directory: &Path) -> Self {
        let mut command = java_with("opensearch", 256, "OpenSearch.java");
        command.arg(directory.join("opensearch"));
        let mut process = Client::run("OpenSearch.java", command);
        let port = ports(&mut process, 1)["http"];
        Self { _process: process, port }
    }

    /// What it answers to a request that it takes.
    fn ask(&self, request: &str, body: &str) -> Value {
        let head = format!("{request} HTTP/1.1\r\ncontent-type: {JSON}");
        let (status, answer) = request_at(&format!("127.0.0.1:{}", self.port), &head, body.as_bytes()).unwrap();
        assert!((200..300).contains(&status), "{request}: {status} {answer}");
        serde_json::from_str(&answer).unwrap()
    }

    /// Three orders in an index whose copy has no second node to be on, and an index that no node may have.
    fn fill(&self) {
        let index = |name: &str, more: &str| {
            let settings = format!("{{\"settings\": {{\"number_of_shards\": 1, \"number_of_replicas\": 1{more}}}}}");
            self.ask(&format!("PUT /{name}?wait_for_active_shards=0"), &settings);
        };
        index("orders", "");
        index("lost", ", \"index.routing.allocation.require._name\": \"nobody\"");
        for state in ["new", "new", "paid"] {
            self.ask("POST /orders/_doc?refresh=true", &format!("{{\"state\": \"{state}\"}}"));
        }
        let found = self.ask("GET /orders/_search?q=state:new", "");
        assert_eq!(found["hits"]["total"]["value"], 2, "{found}");
    }
}

/// nginx before the node at `port`, which lets `monitor` in; its own port.
fn nginx_before(directory: &Path, port: u16) -> (Program, u16) {
    let (place, own) = (directory.display(), free_port());
    std::fs::write(directory.join("logins"), "monitor:{PLAIN}open-sesame\n").unwrap();
    let program = nginx_of(
        directory,
        &format!(
            "server {{ listen 127.0.0.1:{own}; location / {{ auth_basic search; auth_basic_user_file {place}/logins; \
             proxy_pass http://127.0.0.1:{port}; }} }}"
        ),
    );
    listens(own);
    (program, own)
}

/// The number of a value that is one.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_bool().map(|is_so| f64::from(u8::from(is_so))))
}

/// Waits until the cluster has this status, and all that the node says of its health is stored.
fn health_is(server: &Server, node: &Node, status: &str, stored: f64) {
    let health = || node.ask("GET /_cluster/health", "");
    let first = eventually(status, || Some(health()).filter(|health| health["status"] == status));
    gauge(server, "elasticsearch_cluster_status", "any", |found| found == stored);
    let numbers = first.as_object().unwrap().iter().filter(|(_, value)| number(value).is_some());
    let names: Vec<&String> = numbers.map(|(name, _)| name).collect();
    assert!(names.len() >= 10, "{first}");
    for name in names {
        let expr = format!("elasticsearch_cluster_{name}{{check=\"any\",cluster=\"shop\"}}");
        // Asked each time: tasks come and go.
        eventually(&format!("{expr} is as the node says"), || {
            (server.number(&expr)? == number(&health()[name])?).then_some(())
        });
    }
}

/// Waits until numbers of the node are stored as it says them itself.
fn statistics_agree(server: &Server, node: &Node) {
    let count = node.ask("GET /orders/_count", "");
    assert_eq!(count["count"], 3, "{count}");
    gauge(server, "elasticsearch_node_indices_docs_count", "any", |count| count == 3.0);
    let of_node = |path: &str| {
        let answer = node.ask("GET /_nodes/stats", "");
        let node = answer["nodes"].as_object().unwrap().values().next().expect("there is one");
        number(node.pointer(path)?)
    };
    for (path, metric, name) in [
        ("/indices/docs/count", "indices_docs_count", ""),
        ("/indices/indexing/index_total", "indices_indexing_index_total", ""),
        ("/indices/search/query_total", "indices_search_query_total", ""),
        ("/jvm/mem/heap_max_in_bytes", "jvm_mem_heap_max_in_bytes", ""),
        ("/jvm/mem/pools/old/max_in_bytes", "jvm_mem_pools_max_in_bytes", "old"),
        ("/jvm/gc/collectors/young/collection_count", "jvm_gc_collectors_collection_count", "young"),
        ("/os/mem/total_in_bytes", "os_mem_total_in_bytes", ""),
        ("/process/max_file_descriptors", "process_max_file_descriptors", ""),
        ("/thread_pool/write/completed", "thread_pool_completed", "write"),
        ("/breakers/parent/limit_size_in_bytes", "breakers_limit_size_in_bytes", "parent"),
    ] {
        let labels = format!("check=\"any\",cluster=\"shop\",node=\"node-0\",name=\"{name}\"");
        let expr = format!("elasticsearch_node_{metric}{{{labels}}}");
        eventually(&format!("{expr} is as the node says"), || (server.number(&expr)? == of_node(path)?).then_some(()));
    }
    // Of some four hundred, by the parts that a machine has.
    let all = server.number("count({__name__=~\"elasticsearch_node_.*\",check=\"any\"})");
    assert!(all >= Some(200.0), "{all:?} numbers");
    let (_, metadata) = server.get("/api/v1/metadata");
    for (metric, kind) in [
        ("indices_docs_count", "gauge"),
        ("indices_search_query_total", "counter"),
        ("indices_get_time_in_millis", "counter"),
        ("thread_pool_queue", "gauge"),
        ("thread_pool_completed", "counter"),
    ] {
        assert_eq!(metadata["data"][format!("elasticsearch_node_{metric}")][0]["type"], kind, "{metric}");
    }
}

fn checks(node: u16, nginx: u16) -> String {
    let check = |name: &str, keys: &str| {
        table(name, "elasticsearch", &format!("target = 'http://127.0.0.1:{node}'\nhealth = 'red'\n{keys}"))
    };
    let before = |name: &str, password: &str| {
        let keys = format!("health = 'red'\nuser = 'monitor'\npassword = '{password}'");
        table(name, "elasticsearch", &format!("target = 'http://127.0.0.1:{nginx}/'\n{keys}"))
    };
    let judged =
        |name: &str, keys: &str| table(name, "elasticsearch", &format!("target = 'http://127.0.0.1:{node}/'\n{keys}"));
    let checks = [
        check("any", ""),
        check("part", "fields = ['jvm']"),
        check("unknown", "fields = ['weather']"),
        judged("usual", ""),
        judged("strict", "health = 'green'"),
        before("login", "open-sesame"),
        before("stranger", "hunter2"),
        table("elsewhere", "elasticsearch", &format!("target = 'http://127.0.0.1:{node}/none'")),
        table("refused", "elasticsearch", "target = 'http://127.0.0.1:1/'"),
    ];
    checks.concat()
}

#[test]
fn a_cluster_is_stored_as_its_node_says_and_judged() {
    let directory = directory();
    let node = Node::start(directory.path());
    node.fill();
    let (_nginx, before) = nginx_before(directory.path(), node.port);
    let server = serve(directory.path(), &checks(node.port, before));
    for check in ["any", "part", "login"] {
        has(&server, check, "ok");
        measured(&server, check, "body", 2.0);
    }
    health_is(&server, &node, "red", 2.0);
    statistics_agree(&server, &node);
    gauge(&server, "elasticsearch_node_jvm_mem_heap_max_in_bytes", "part", |bytes| bytes > 0.0);
    assert_eq!(server.number("elasticsearch_node_os_mem_total_in_bytes{check=\"part\"}"), None);
    what_fails_says_why(&server);
    node.ask("DELETE /lost", "");
    health_is(&server, &node, "yellow", 1.0);
    has(&server, "usual", "ok");
    has(&server, "strict", "status");
    let words = "the cluster is yellow, worse than green; unassigned shards: 1";
    says(&server, "ogive_check_wrong_answer", "strict", words);
    node.ask("PUT /orders/_settings", "{\"index\": {\"number_of_replicas\": 0}}");
    health_is(&server, &node, "green", 0.0);
    has(&server, "strict", "ok");
    drop(node);
    let gone = "sum(sum_over_time(ogive_check_runs_total{check=\"any\",result=\"refused\"}[1h]))";
    eventually("the node is gone", || server.number(gone).filter(|runs| *runs >= 1.0));
    gauge(&server, "ogive_check_up", "any", |up| up == 0.0);
    says(&server, "ogive_check_no_answer", "any", "refused: ");
    says(&server, "ogive_check_wrong_answer", "login", "status: the answer has status 502");
}

/// Waits until the checks that cannot be good have failed, while the cluster is red.
fn what_fails_says_why(server: &Server) {
    for (check, result, words) in [
        ("usual", "status", "the cluster is red, worse than yellow; unassigned shards: 3"),
        ("unknown", "status", "the answer has status 400"),
        ("elsewhere", "status", "the answer has status 400"),
        ("stranger", "login", "the answer has status 401"),
    ] {
        has(server, check, result);
        says(server, "ogive_check_wrong_answer", check, &format!("{result}: {words}"));
    }
    has(server, "refused", "refused");
    // The statistics of a cluster that is not well are wanted most; and what came before a failure is stored.
    gauge(server, "elasticsearch_node_indices_docs_count", "usual", |count| count == 3.0);
    gauge(server, "elasticsearch_cluster_status", "unknown", |status| status == 2.0);
    assert!(!said(server, "stranger").contains("hunter"));
}
