//! CAQL of a real server as periods close: each streamed period is what a query answers later, also behind gaps and
//! late samples.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{PATIENCE, Server, StopAtEnd, now_ms, request_at};
use crate::stream::{Stream, encoded};

const UUID: &str = "8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e";

/// Sources of all kinds, what looks back, what depends on the whole range, and what combines columns.
const QUERIES: [&str; 12] = [
    "find('load*')",
    "find('load*') | rolling:mean(5s) | rolling:stddev(3s)",
    "find('load*') | window:sum(4s) | diff()",
    "{find('load') | fill(3); find('sparse')} | op:div()",
    "find:counter('load*') | stats:sum()",
    "find('*') | integrate()",
    "find('*') | fill:forward() | top(2)",
    "find('load*') | forecasting:holt_winters(0.5, 0.3, 0.1, 2s, period=3s)",
    "find('load') | forecasting:regression(3s, 8s)",
    "find:histogram('latency') | histogram:rolling(5s) | histogram:percentile(50, 99)",
    "find:histogram('*') | aggregate:merge() | window:merge(4s) | histogram:mean()",
    "find:text('state')",
];

fn line(second: i64, name: &str, value: f64) -> String {
    format!("M\t{second}.250\tx`http`c_1_7::http`{UUID}\t{name}\tn\t{value}\n")
}

/// What comes in a second: a stream that never pauses, one that does, and samples of three seconds ago.
fn lines_of(second: i64) -> String {
    let value = |factor: i64| ((second * factor) % 97) as f64 / 7.0;
    let mut out = line(second, "load|ST[host:a]", value(13));
    if second % 4 != 1 {
        out += &line(second, "load|ST[host:b]", value(29));
    }
    if second % 3 == 0 {
        out += &line(second, "sparse", value(31));
    }
    out += &line(second - 3, "load|ST[host:late]", value(17));
    out += &format!("H1\t{second}.500\t{UUID}\tlatency\tAAIUAAAFHgAAAg==\n");
    out + &format!("M\t{second}.100\tx`http`c_1_7::http`{UUID}\tstate\ts\tstate {}\n", second % 5)
}

/// The last period of a query over a range, as a stream has it.
fn queried(address: &str, query: &str, (start, end): (i64, i64)) -> Value {
    let path = format!("/extension/lua/public/caql_v1?q={}&start_time={start}&end_time={end}&period=1", encoded(query));
    let (status, body) = request_at(address, &format!("GET {path} HTTP/1.1"), b"").unwrap();
    assert_eq!(status, 200, "{query}: {body}");
    let mut answer: Value = serde_json::from_str(&body).unwrap();
    for column in answer["data"].as_array_mut().unwrap() {
        let last = column.as_array().unwrap().last().unwrap().clone();
        *column = serde_json::json!([last]);
    }
    answer["head"] = serde_json::json!({"count": 1, "start": end - 1, "period": 1});
    answer
}

fn send(address: &str, is_over: &AtomicBool) {
    let mut sent = now_ms() / 1_000 - 20;
    while !is_over.load(Ordering::Relaxed) {
        while sent < now_ms() / 1_000 {
            sent += 1;
            let (status, body) = request_at(address, "POST /raw HTTP/1.1", lines_of(sent).as_bytes()).unwrap();
            assert_eq!(status, 200, "{body}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn each_streamed_period_is_what_a_query_answers_later() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::try_start(directory.path(), &["--listen", "127.0.0.1:0", "--irondb", "127.0.0.1:0"]).unwrap();
    let address = server.line_address("irondb", "tcp");
    let start = now_ms() / 1_000 - 6;
    let is_over = AtomicBool::new(false);
    let (mut compared, mut corrected) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| send(&address, &is_over));
        let over = StopAtEnd(&is_over);
        let open = |query: &&'static str| {
            let path = format!("/extension/lua/public/caql_v1/stream?q={}&start_time={start}&period=1", encoded(query));
            (
                *query,
                Stream::from_connection(TcpStream::connect(&*address).unwrap(), &path, None),
                BTreeMap::<i64, Value>::new(),
            )
        };
        let mut streams: Vec<_> = QUERIES.iter().map(open).collect();
        // Late samples are three seconds behind.
        for (query, stream, periods) in &mut streams {
            while periods.len() < 6 {
                let (name, second, data) = stream.event().unwrap_or_else(|| panic!("{query}: no stream"));
                assert!(["value", "correction"].contains(&&*name), "{query}: {name}: {data}");
                corrected += u32::from(name == "correction");
                periods.insert(second, serde_json::from_str(&data).unwrap());
            }
        }
        drop(over);
        for (query, stream, periods) in &mut streams {
            let from = Instant::now();
            for second in periods.keys().copied().collect::<Vec<_>>() {
                loop {
                    let later = queried(&address, query, (start, second));
                    if periods[&second] == later {
                        compared += 1;
                        break;
                    }
                    assert!(from.elapsed() < PATIENCE, "{query} at {second}:\n{}\n{later}", periods[&second]);
                    let (name, second, data) = stream.event().expect("the stream goes on");
                    corrected += u32::from(name == "correction");
                    periods.insert(second, serde_json::from_str(&data).unwrap());
                }
            }
        }
    });
    assert!(compared >= 6 * QUERIES.len() && corrected > 0, "{compared} periods, {corrected} corrections");
    println!("{} queries: {compared} periods equal, {corrected} corrections", QUERIES.len());
    for wrong in ["find(", "find()", "#lang=\"promql\" up"] {
        let path = format!("GET /extension/lua/public/caql_v1/stream?q={} HTTP/1.1", encoded(wrong));
        let (status, body) = request_at(&address, &path, b"").unwrap();
        assert!(status == 400 && body.contains("user_error"), "{wrong}: {status} {body}");
    }
}
