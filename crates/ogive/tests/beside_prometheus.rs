//! The same questions to Ogive and to a real Prometheus over the same data: the answers must be equal.
//!
//! The Prometheus is Debian's (2.42). Versions 2 and 3 differ in whether a window holds a sample that lies just at its
//! start, so no sample and no instant of a subquery does: data stands at odd tenths of seconds, questions at 7 s past.
//! `OGIVE_PROMETHEUS` names another binary.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::common::programs::{Program, free_address};
use crate::common::{Server, eventually, form, now_ms, request_at};
use serde_json::{Value, json};

/// Forty minutes of 10 s.
const STEPS: i64 = 240;
const STEP_MS: i64 = 10_000;
/// Samples lie this much after a whole ten seconds.
const PHASE_MS: i64 = 1_700;

/// One series of the data: name, labels, and its value at each step; None where it has no sample.
struct Series {
    name: &'static str,
    labels: Vec<(&'static str, String)>,
    values: Vec<Option<f64>>,
}

/// Numbers of a seed, the same each time (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % limit
    }
}

/// A demo service on three instances.
fn data() -> Vec<Series> {
    let mut random = Random(42);
    let mut out = Vec::new();
    let mut add = |name, labels: &[(&'static str, &str)], values: Vec<Option<f64>>| {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        out.push(Series { name, labels, values });
    };
    for (number, instance) in ["a:1", "b:2", "c:3"].into_iter().enumerate() {
        let number = number as f64;
        for kind in ["used", "free", "cached"] {
            let base = 1e9 * (number + 1.0) + kind.len() as f64 * 1e7;
            let values = (0..STEPS).map(|at| Some(base + (at as f64 / 9.0).sin() * 1e8 + random.below(1000) as f64));
            add("demo_memory_bytes", &[("instance", instance), ("job", "demo"), ("type", kind)], values.collect());
        }
        for mode in ["user", "system", "idle"] {
            let mut total = random.below(1_000_000) as f64 / 100.0;
            let values = (0..STEPS).map(|at| {
                total += random.below(1000) as f64 / 100.0;
                // A restart of one instance in the middle.
                if at == 120 && number == 1.0 {
                    total = 0.5;
                }
                Some(total)
            });
            let labels = [("instance", instance), ("job", "demo"), ("mode", mode)];
            add("demo_cpu_seconds_total", &labels, values.collect());
        }
        add("demo_cpus", &[("instance", instance), ("job", "demo")], vec![Some(number + 2.0); STEPS as usize]);
        let gaps = (0..STEPS).map(|at| ((at / 50) % 2 == 0).then_some(1.0)).collect();
        add("demo_intermittent", &[("instance", instance), ("job", "demo")], gaps);
        let odd = (0..STEPS)
            .map(|at| Some([f64::NAN, f64::INFINITY, -1.5, 0.0, 3.25, f64::NEG_INFINITY, -0.0][at as usize % 7]));
        add("demo_odd", &[("instance", instance), ("job", "demo")], odd.collect());
        let last = (0..STEPS).map(|at| Some(1.7e9 + (at / 30 * 300) as f64)).collect();
        add("demo_last_success_timestamp", &[("instance", instance), ("job", "demo")], last);
        for method in ["GET", "POST"] {
            for status in ["200", "500"] {
                let bounds = ["0.01", "0.05", "0.1", "0.5", "1", "5", "+Inf"];
                let mut counts = [0.0; 7];
                let mut columns: Vec<Vec<Option<f64>>> = vec![Vec::new(); bounds.len()];
                for _ in 0..STEPS {
                    let from = random.below(bounds.len() as u64) as usize;
                    counts[from..].iter_mut().for_each(|count| *count += random_share(from));
                    columns.iter_mut().zip(counts).for_each(|(column, count)| column.push(Some(count)));
                }
                for (bound, column) in bounds.iter().zip(columns) {
                    let labels = [
                        ("instance", instance),
                        ("job", "demo"),
                        ("le", *bound),
                        ("method", method),
                        ("status", status),
                    ];
                    add("demo_request_seconds_bucket", &labels, column);
                }
            }
        }
    }
    out
}

fn random_share(from: usize) -> f64 {
    [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0][from]
}

/// A Prometheus that has the data in blocks; killed when dropped.
struct Prometheus {
    _program: Program,
    address: String,
}

impl Prometheus {
    fn start(directory: &Path, series: &[Series], begin_ms: i64) -> Self {
        let number = |value: f64| match value {
            _ if value.is_nan() => "NaN".to_owned(),
            _ if value.is_infinite() => format!("{}Inf", if value > 0.0 { '+' } else { '-' }),
            _ => format!("{value:?}"),
        };
        let mut text = String::new();
        for one in series {
            let labels: Vec<String> = one.labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
            let labels = labels.join(",");
            for (at, value) in one.values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?))) {
                let time = begin_ms + at as i64 * STEP_MS;
                let (seconds, millis) = (time / 1000, time % 1000);
                writeln!(text, "{}{{{labels}}} {} {seconds}.{millis:03}", one.name, number(value)).unwrap();
            }
        }
        text.push_str("# EOF\n");
        let (input, storage) = (directory.join("data.om"), directory.join("tsdb"));
        std::fs::write(&input, text).unwrap();
        let made = Command::new("promtool")
            .args(["tsdb", "create-blocks-from", "openmetrics"])
            .args([&input, &storage])
            .output()
            .expect("promtool starts; apt-get install prometheus");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let config = directory.join("prometheus.yml");
        std::fs::write(&config, "global: {scrape_interval: 1h}\n").unwrap();
        let address = free_address();
        let program = std::env::var("OGIVE_PROMETHEUS").unwrap_or_else(|_| "prometheus".into());
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", storage.display()))
            .arg(format!("--web.listen-address={address}"));
        let started = Self { _program: Program::start(command), address };
        eventually("Prometheus is ready", || (started.get("/-/ready").ok()?.0 == 200).then_some(()));
        started
    }

    fn get(&self, path: &str) -> std::io::Result<(u16, String)> {
        request_at(&self.address, &format!("GET {path} HTTP/1.1"), b"")
    }
}

fn fill(server: &Server, series: &[Series], begin_ms: i64) {
    let declared: Vec<Value> = series
        .iter()
        .map(|one| {
            let mut labels: BTreeMap<&str, &str> = one.labels.iter().map(|(name, value)| (*name, &**value)).collect();
            labels.insert("__name__", one.name);
            let counter = one.name.ends_with("_total") || one.name.ends_with("_bucket");
            json!({"labels": labels, "kind": "float", "temporality": if counter { "cumulative" } else { "gauge" }})
        })
        .collect();
    let mut samples = Vec::new();
    for (number, one) in series.iter().enumerate() {
        for (at, value) in one.values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?))) {
            let value = if value.is_finite() {
                json!(value)
            } else if value.is_nan() {
                json!("NaN")
            } else {
                json!(if value > 0.0 { "+Inf" } else { "-Inf" })
            };
            samples.push(json!({"series": number, "time_ms": begin_ms + at as i64 * STEP_MS, "float": value}));
        }
    }
    let count = samples.len();
    let (status, body) = server.batch(crate::common::SOURCE, 1, json!(declared), json!(samples));
    assert_eq!((status, &body["accepted"]), (200, &json!(count)), "{body}");
}

/// Every question, each as an instant and as a range. `R` stands for several ranges.
fn queries() -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let text = include_str!("beside_prometheus/queries.txt");
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut lines = vec![line.to_owned()];
        // {a|b|c} stands for one query with each.
        while let Some((before, options, after)) = lines.iter().find_map(|line| alternatives(line)) {
            lines = lines
                .iter()
                .flat_map(|line| match alternatives(line) {
                    Some(_) if line.starts_with(&before) => {
                        options.iter().map(|option| format!("{before}{option}{after}")).collect()
                    }
                    _ => vec![line.clone()],
                })
                .collect();
        }
        out.extend(lines);
    }
    out
}

/// `before<<a|b>>after` taken apart.
fn alternatives(line: &str) -> Option<(String, Vec<String>, String)> {
    let (before, rest) = line.split_once("<<")?;
    let (options, after) = rest.split_once(">>")?;
    Some((before.to_owned(), options.split('|').map(str::to_owned).collect(), after.to_owned()))
}

type Points = BTreeMap<String, Vec<(f64, f64)>>;

/// The answer's numbers by labels, or why there are none.
fn points(body: &Value) -> Result<Points, String> {
    if body["status"] != "success" {
        return Err(body["errorType"].as_str().unwrap_or("no error type").to_owned());
    }
    let number = |pair: &Value| {
        let value = pair[1].as_str().unwrap();
        (pair[0].as_f64().unwrap(), value.replace("Inf", "inf").parse().unwrap_or(f64::NAN))
    };
    let data = &body["data"];
    let mut out = BTreeMap::new();
    match data["resultType"].as_str().unwrap() {
        "scalar" => {
            out.insert("scalar".to_owned(), vec![number(&data["result"])]);
        }
        "string" => {
            out.insert(data["result"][1].to_string(), Vec::new());
        }
        _ => {
            for one in data["result"].as_array().unwrap() {
                let values = match one["values"].as_array() {
                    Some(values) => values.iter().map(number).collect(),
                    None => vec![number(&one["value"])],
                };
                out.insert(one["metric"].to_string(), values);
            }
        }
    }
    Ok(out)
}

fn same(a: f64, b: f64) -> bool {
    // Zero by another order of additions is a small number.
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * (a.abs() + b.abs()) || (a - b).abs() < 1e-12
}

/// What differs, in one line.
fn difference(ours: &Value, theirs: &Value) -> Option<String> {
    let (ours, theirs) = match (points(ours), points(theirs)) {
        (Ok(ours), Ok(theirs)) => (ours, theirs),
        (Err(ours), Err(theirs)) if ours == theirs => return None,
        (ours, theirs) => return Some(format!("{:?} here, {:?} there", ours.map(|_| "data"), theirs.map(|_| "data"))),
    };
    if !ours.keys().eq(theirs.keys()) {
        let only = |a: &Points, b: &Points| a.keys().filter(|key| !b.contains_key(*key)).cloned().collect::<Vec<_>>();
        return Some(format!("only here {:?}, only there {:?}", only(&ours, &theirs), only(&theirs, &ours)));
    }
    ours.iter().zip(theirs.values()).find_map(|((labels, ours), theirs)| {
        if ours.len() != theirs.len() {
            return Some(format!("{labels}: {} points here, {} there", ours.len(), theirs.len()));
        }
        let pairs = ours.iter().zip(theirs);
        let wrong = pairs.clone().find(|(a, b)| a.0 != b.0 || !same(a.1, b.1));
        wrong.map(|(a, b)| format!("{labels}: {a:?} here, {b:?} there"))
    })
}

#[test]
fn answers_are_those_of_prometheus() {
    let directory = tempfile::tempdir().unwrap();
    // Two hours ago, so that the day's change does not matter and nothing is too new.
    let begin_ms = (now_ms() - 7_200_000).div_euclid(600_000) * 600_000 + PHASE_MS;
    let series = data();
    let prometheus = Prometheus::start(directory.path(), &series, begin_ms);
    let server = Server::start(&directory.path().join("ogive"));
    fill(&server, &series, begin_ms);
    let at = |seconds: i64| (begin_ms - PHASE_MS) / 1000 + seconds + 7;
    let mut wrong = Vec::new();
    let all = queries();
    assert!(all.len() >= 200, "{} queries", all.len());
    for query in &all {
        let query_text = query.replace("START", &at(600).to_string());
        let encoded = form(&query_text);
        let instant = format!("/api/v1/query?query={encoded}&time={}", at(1_500));
        let range = format!(
            "/api/v1/query_range?query={encoded}&start={}&end={}&step=50",
            at(300),
            at(STEPS * STEP_MS / 1000 + 400)
        );
        for path in [instant, range] {
            let theirs: Value = serde_json::from_str(&prometheus.get(&path).unwrap().1).unwrap();
            let (_, ours) = server.get(&path);
            if let Some(difference) = difference(&ours, &theirs) {
                let kind = if path.contains("query_range") { "range" } else { "instant" };
                wrong.push(format!("{query_text} ({kind}): {difference}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} answers differ:\n{}", wrong.len(), 2 * all.len(), wrong.join("\n"));
}
