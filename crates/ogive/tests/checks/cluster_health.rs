//! Elasticsearch and OpenSearch. Neither is packaged by Debian or Maven as a server that a test could start, so this one
//! is not the real thing: answers in the shape of the reference documentation ("Cluster health", "Nodes stats"),
//! shortened, from a server of the test.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::{directory, gauge, has, measured, said, says, serve, table};
use crate::common::eventually;

const NODES: &str = r#"{"_nodes": {"total": 1, "successful": 1, "failed": 0}, "cluster_name": "shop", "nodes": {
    "USpTGYaBSIKbgSUJR2Z9lg": {"timestamp": 1700000000000, "name": "node-0", "transport_address": "127.0.0.1:9300",
        "host": "127.0.0.1", "roles": ["data", "master"],
        "indices": {"docs": {"count": 111, "deleted": 3}, "search": {"query_total": 42, "query_current": 0}},
        "jvm": {"mem": {"heap_used_in_bytes": 1048576, "pools": {"young": {"used_in_bytes": 512}}},
                "gc": {"collectors": {"young": {"collection_count": 5, "collection_time_in_millis": 60}}}},
        "thread_pool": {"write": {"threads": 2, "queue": 1, "rejected": 6}}}}}"#;

/// Serves the two answers of a cluster with this status behind a password; its port.
fn cluster(status: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let health = format!(
        "{{\"cluster_name\": \"shop\", \"status\": \"{status}\", \"timed_out\": false, \"number_of_nodes\": 1, \
         \"active_shards\": 7, \"unassigned_shards\": 2, \"active_shards_percent_as_number\": 77.7}}"
    );
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut bytes, mut length) = ([0; 4096], 0);
            while !bytes[..length].windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut bytes[length..]) {
                    Ok(more @ 1..) => length += more,
                    _ => break,
                }
            }
            let head = String::from_utf8_lossy(&bytes[..length]).into_owned();
            // monitor:open-sesame
            let (code, body) = if !head.contains("Basic bW9uaXRvcjpvcGVuLXNlc2FtZQ==") {
                ("401 Unauthorized", "{}")
            } else if head.starts_with("GET /_cluster/health ") {
                ("200 OK", health.as_str())
            } else if head.starts_with("GET /_nodes/stats/indices,jvm,thread_pool ") {
                ("200 OK", NODES)
            } else {
                ("404 Not Found", "{}")
            };
            let length = body.len();
            let _ = write!(stream, "HTTP/1.1 {code}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
        }
    });
    port
}

#[test]
fn health_and_statistics_are_stored() {
    let directory = directory();
    let check = |name: &str, port: u16, keys: &str| {
        let fields = "fields = ['indices', 'jvm', 'thread_pool']\nuser = 'monitor'";
        table(name, "elasticsearch", &format!("target = 'http://127.0.0.1:{port}'\n{fields}\n{keys}\n"))
    };
    let right = "password = 'open-sesame'\n";
    let (yellow, red) = (cluster("yellow"), cluster("red"));
    let checks = [
        check("yellow", yellow, right),
        check("strict", yellow, &format!("{right}health = 'green'")),
        check("red", red, right),
        check("any", red, &format!("{right}health = 'red'")),
        check("stranger", yellow, "password = 'hunter2'"),
        table("refused", "elasticsearch", "target = 'http://127.0.0.1:1/'"),
    ];
    let server = serve(directory.path(), &checks.concat());
    has(&server, "yellow", "ok");
    has(&server, "any", "ok");
    measured(&server, "yellow", "body", 2.0);
    for (check, words) in [("strict", "the cluster is yellow, worse than green"), ("red", "the cluster is red")] {
        has(&server, check, "status");
        says(&server, "ogive_check_wrong_answer", check, words);
        // They are wanted most then.
        gauge(&server, "elasticsearch_node_indices_docs_count", check, |count| count == 111.0);
    }
    has(&server, "stranger", "login");
    has(&server, "refused", "refused");
    for (expr, value) in [
        ("elasticsearch_cluster_status{check=\"red\",cluster=\"shop\"}", 2.0),
        ("elasticsearch_cluster_unassigned_shards{check=\"yellow\"}", 2.0),
        ("elasticsearch_node_indices_search_query_total{check=\"yellow\",cluster=\"shop\",node=\"node-0\"}", 42.0),
        ("elasticsearch_node_jvm_gc_collectors_collection_count{check=\"yellow\",name=\"young\"}", 5.0),
        ("elasticsearch_node_thread_pool_rejected{check=\"yellow\",name=\"write\"}", 6.0),
    ] {
        eventually(&format!("{expr} is {value}"), || server.number(expr).filter(|found| *found == value));
    }
    let (_, metadata) = server.get("/api/v1/metadata");
    let kind = |metric: &str| metadata["data"][metric][0]["type"].as_str().map(str::to_owned);
    let total = kind("elasticsearch_node_indices_search_query_total");
    let count = kind("elasticsearch_node_indices_docs_count");
    assert_eq!((total.as_deref(), count.as_deref()), (Some("counter"), Some("gauge")));
    assert!(!said(&server, "stranger").contains("hunter"));
}
