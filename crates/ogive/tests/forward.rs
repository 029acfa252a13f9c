//! `ogive serve --forward` to real servers, and `ogive subscribe`: what is stored here is there once, whatever is
//! killed.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::authority::Authority;
use crate::common::clients::{Client, heavy};
use crate::common::programs::{Program, free_address};
use crate::common::{PATIENCE, SOURCE, Server, eventually, float, histogram, new_token, now_ms};
use rcgen::ExtendedKeyUsagePurpose;
use serde_json::{Value, json};

/// How long after its end a second is read where what comes late is left out or counted: [`send`] may take all but a
/// second of it.
const PUNCTUAL: &str = "6s";

/// A server that forwards to `to`, at this address.
fn forwarding(directory: &Path, address: &str, to: &str, form: &str) -> Server {
    let lateness = if form == "batch" { "1s" } else { PUNCTUAL };
    forwarding_after(lateness, directory, address, to, form)
}

/// As [`forwarding`], where a second is read so long after its end.
fn forwarding_after(lateness: &str, directory: &Path, address: &str, to: &str, form: &str) -> Server {
    let file = directory.join("forward.toml");
    let table = format!(
        "[[forward]]\nname = 'there'\nto = '{to}'\nform = '{form}'\nmatch = ['{{__name__=~\"rpc_.*\"}}']\nlateness = '{lateness}'\ntimeout = '2s'\n"
    );
    std::fs::write(&file, table).unwrap();
    let checked = Command::new(env!("CARGO_BIN_EXE_ogive")).args(["config", "check"]).arg(&file).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    let file = file.to_str().unwrap();
    Server::try_start(&directory.join("data"), &["--listen", address, "--forward", file])
        .unwrap_or_else(|said| panic!("no start: {said}"))
}

/// Cells of this and the last seconds: three observations each, and one that is not forwarded.
fn send(server: &Server, sequence: u64) {
    let series = json!([histogram("rpc_seconds"), float("rpc_depth"), float("other")]);
    let time = now_ms();
    let samples = json!([
        {"series": 0, "time_ms": time, "histogram": {"bins": {"1e-3": 2, "2.5e-1": 1}}},
        {"series": 1, "time_ms": time, "float": sequence},
        {"series": 2, "time_ms": time, "float": 1},
    ]);
    let (status, answer) = server.batch(SOURCE, sequence, series, samples);
    assert_eq!((status, &answer["accepted"]), (200, &json!(3)), "{answer}");
}

const OBSERVED: &str = "histogram_count(sum_over_time(rpc_seconds[1h]))";

#[test]
fn another_ogive_has_every_cell_once_whatever_is_killed() {
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (here_at, there_at) = (free_address(), free_address());
    let mut there = Server::start_at(directories[1].path(), &there_at);
    let url = format!("http://{there_at}");
    let mut here = forwarding(directories[0].path(), &here_at, &url, "batch");
    let mut sent = 0;
    let mut more = |here: &Server, count: u64| {
        (0..count).for_each(|at| send(here, sent + at + 1));
        sent += count;
        sent
    };
    more(&here, 5);
    eventually("the first are there", || (there.number(OBSERVED) == Some(15.0)).then_some(()));
    // The far side is away; then this one is killed with cells that it has not sent.
    there.kill();
    more(&here, 5);
    eventually("requests are sent in vain", || here.number("ogive_forward_failures_total{forward=\"there\"} > 0"));
    here.kill();
    let there = Server::start_at(directories[1].path(), &there_at);
    let here = forwarding(directories[0].path(), &here_at, &url, "batch");
    let all = more(&here, 5);
    eventually("all are there", || (there.number(OBSERVED) == Some(3.0 * all as f64)).then_some(()));
    eventually("the figures say so", || here.number("ogive_forward_samples_total{forward=\"there\"} > 0"));
    // What has come twice would still grow.
    send(&here, all + 1);
    there.grows_to(OBSERVED, 3.0 * (all + 1) as f64);
    assert_eq!(there.number("count(count_over_time(rpc_depth[1h]))"), Some(1.0));
    assert_eq!(there.number("count(count_over_time(other[1h]))"), None);
    let same = "count_over_time(rpc_depth[1h])";
    eventually("as many values here as there", || (here.number(same) == there.number(same)).then_some(()));
}

#[test]
fn a_forward_that_is_wrong_keeps_the_server_from_starting() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("forward.toml");
    std::fs::write(&file, "[[forward]]\nname = 'x'\nto = 'http://a/'\nmatch = ['rate(x[1m])']\n").unwrap();
    let args = ["--listen", "127.0.0.1:0", "--forward", file.to_str().unwrap()];
    let said = Server::try_start(directory.path(), &args).err().expect("it does not start");
    assert!(said.contains("plain selector") && said.contains("line"), "{said}");
}

/// A sample of a second that is over for long: a part of what `rpc_seconds` had then, by its labels or by its identity.
fn late(server: &Server, sequence: u64, (time, is_known): (i64, bool)) {
    let def = histogram("rpc_seconds");
    let meta = ogive_model::SeriesMeta {
        kind: ogive_model::Kind::Histogram,
        temporality: ogive_model::Temporality::Delta,
        unit: "s".into(),
        width_ms: 1_000,
    };
    let id = ogive_model::SeriesDef::new([("__name__", "rpc_seconds")], meta).unwrap().id(&Default::default());
    let (series, known) =
        if is_known { (json!([]), json!([format!("{:032x}", id.0)])) } else { (json!([def]), json!([])) };
    let samples = json!([{"series": 0, "time_ms": time, "histogram": {"bins": {"1e-3": 1}}}]);
    let body = json!({"source": SOURCE, "sequence": sequence, "series": series, "known": known, "samples": samples});
    let (status, answer) = server.post(crate::common::JSON, body.to_string().as_bytes());
    assert_eq!((status, &answer["accepted"]), (200, &json!(1)), "{answer}");
}

/// What came later than the lateness was not forwarded, and nobody knew.
#[test]
fn what_comes_late_is_merged_by_another_ogive() {
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (here_at, there_at) = (free_address(), free_address());
    let mut there = Server::start_at(directories[1].path(), &there_at);
    let url = format!("http://{there_at}");
    let mut here = forwarding_after(PUNCTUAL, directories[0].path(), &here_at, &url, "batch");
    let time = now_ms();
    send(&here, 1);
    eventually("the cell is there", || (there.number(OBSERVED) == Some(3.0)).then_some(()));
    // A part of the same cell, and one of a second of which nothing was there; by its labels and by its identity.
    for (sequence, of) in [(2, (time, false)), (3, (time - 60_000, false)), (4, (time, true))] {
        late(&here, sequence, of);
    }
    there.grows_to(OBSERVED, 6.0);
    let outcome =
        |outcome: &str| format!("ogive_forward_late_samples_total{{forward=\"there\",outcome=\"{outcome}\"}}");
    here.becomes(&outcome("corrected"), 3.0);
    assert_eq!(here.get("/v1/status").1["forward_late_corrected_total"], 3);
    // Those that come while the far side is away are not forgotten when this one ends in order.
    there.kill();
    late(&here, 5, (time, false));
    here.terminate();
    let there = Server::start_at(directories[1].path(), &there_at);
    let here = forwarding_after(PUNCTUAL, directories[0].path(), &here_at, &url, "batch");
    there.grows_to(OBSERVED, 7.0);
    send(&here, 6);
    there.grows_to(OBSERVED, 10.0);
    assert_eq!(here.number(OBSERVED), Some(10.0));
}

/// Parts of a cell of a minute ago, one after the other, each sent until it is acknowledged, up to `last`: the server
/// is killed and starts again.
fn late_until_acknowledged(address: &str, source: &str, time: i64, last: &AtomicU64) -> u64 {
    let mut sequence = 0;
    // ORDERING: Relaxed; one number that only grows less far away.
    while sequence < last.load(Ordering::Relaxed) {
        sequence += 1;
        let samples = json!([{"series": 0, "time_ms": time, "histogram": {"bins": {"1e-3": 1}}}]);
        let body =
            json!({"source": source, "sequence": sequence, "series": [histogram("rpc_seconds")], "samples": samples});
        let head = format!("POST /v1/batch HTTP/1.1\r\ncontent-type: {}", crate::common::JSON);
        eventually("the batch is acknowledged", || {
            let answer = crate::common::request_at(address, &head, body.to_string().as_bytes());
            answer.is_ok_and(|(status, _)| status == 200).then_some(())
        });
    }
    sequence
}

/// Lets those who send [`late_until_acknowledged`] end, when an assertion fails, too.
struct LastAtEnd<'a>(&'a AtomicU64);

impl Drop for LastAtEnd<'_> {
    fn drop(&mut self) {
        // ORDERING: Relaxed; as in `late_until_acknowledged`.
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Late samples that were acknowledged in the last second before a kill were stored here, and never forwarded.
#[test]
fn what_came_late_is_forwarded_once_whenever_it_is_killed() {
    let kills: u64 = std::env::var("OGIVE_KILLS").map_or(5, |text| text.parse().unwrap());
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (here_at, there_at) = (free_address(), free_address());
    let there = Server::start_at(directories[1].path(), &there_at);
    let mut here = forwarding(directories[0].path(), &here_at, &format!("http://{there_at}"), "batch");
    let (time, last) = (now_ms() - 60_000, AtomicU64::new(u64::MAX));
    let sources = [SOURCE, "7f2c1e60-95a4-4c0f-8a2b-3f9d5b6c7d8e"];
    let sent: u64 = std::thread::scope(|scope| {
        let senders = sources.map(|source| scope.spawn(|| late_until_acknowledged(&here_at, source, time, &last)));
        let last = LastAtEnd(&last);
        let mut moment = now_ms().unsigned_abs();
        for _ in 0..kills {
            // Anywhere within the second and a half of a few turns of the forward.
            moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            std::thread::sleep(Duration::from_millis(100 + (moment >> 33) % 1_500));
            here.kill();
            here = forwarding(directories[0].path(), &here_at, &format!("http://{there_at}"), "batch");
        }
        drop(last);
        senders.into_iter().map(|sender| sender.join().unwrap()).sum()
    });
    assert!(sent > kills, "{sent} late samples");
    assert_eq!(here.number(OBSERVED), Some(sent as f64), "what was acknowledged is here");
    there.grows_to(OBSERVED, sent as f64);
    // What had come twice would still grow.
    send(&here, 1 << 40);
    there.grows_to(OBSERVED, (sent + 3) as f64);
}

/// Late samples that were in flight or came between the end of a forward that was changed and its new beginning were
/// nobody's.
#[test]
fn what_comes_late_while_the_file_is_taken_again_is_forwarded_once() {
    const RELOADS: u64 = 8;
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (here_at, there_at) = (free_address(), free_address());
    let there = Server::start_at(directories[1].path(), &there_at);
    let here = forwarding(directories[0].path(), &here_at, &format!("http://{there_at}"), "batch");
    let file = directories[0].path().join("forward.toml");
    let table = std::fs::read_to_string(&file).unwrap();
    let (time, last) = (now_ms() - 60_000, AtomicU64::new(u64::MAX));
    let sources: Vec<String> = (0..4).map(|at| format!("7f2c1e60-95a4-4c0f-8a2b-3f9d5b6c7d{at:02x}")).collect();
    let sent: u64 = std::thread::scope(|scope| {
        let (at, last) = (&here_at, &last);
        let one = |source| scope.spawn(move || late_until_acknowledged(at, source, time, last));
        let senders: Vec<_> = sources.iter().map(|source| one(source)).collect();
        let last = LastAtEnd(last);
        for reload in 1..=RELOADS {
            std::fs::write(&file, table.replace("timeout = '2s'", &format!("timeout = '{}s'", 2 + reload))).unwrap();
            here.signal("HUP");
            here.becomes("ogive_config_reloads_total{config=\"forwards\"}", reload as f64);
        }
        drop(last);
        senders.into_iter().map(|sender| sender.join().unwrap()).sum()
    });
    assert!(sent > RELOADS, "{sent} late samples");
    assert_eq!(here.number(OBSERVED), Some(sent as f64), "what was acknowledged is here");
    there.grows_to(OBSERVED, sent as f64);
    // What had come twice would still grow.
    send(&here, 1 << 40);
    there.grows_to(OBSERVED, (sent + 3) as f64);
}

#[test]
fn what_comes_late_for_remote_write_is_counted() {
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (here_at, there_at) = (free_address(), free_address());
    let there = Server::start_at(directories[1].path(), &there_at);
    let here = forwarding(directories[0].path(), &here_at, &format!("http://{there_at}/api/v1/write"), "remote-write");
    send(&here, 1);
    eventually("the cell is there", || (there.number("rpc_depth") == Some(1.0)).then_some(()));
    late(&here, 2, (now_ms() - 60_000, false));
    here.becomes("ogive_forward_late_samples_total{outcome=\"left_out\"}", 1.0);
    assert_eq!(here.get("/v1/status").1["forward_late_left_out_total"], 1);
    assert_eq!(there.number("count_over_time(rpc_seconds[1h])"), Some(1.0));
}

/// OTLP as its own messages read it, in a program that is not ours.
#[test]
fn an_otlp_receiver_has_every_cell() {
    otlp_receiver_has_every_cell("otlp", &[]);
}

/// The same in calls; the receiver says to the first that it should come later.
#[test]
fn an_otlp_receiver_has_every_cell_by_grpc() {
    otlp_receiver_has_every_cell("otlp-grpc", &["grpc"]);
}

fn otlp_receiver_has_every_cell(form: &str, how: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let (here_at, there_at) = (free_address(), free_address());
    let port = there_at.rsplit(':').next().unwrap().to_owned();
    let mut receiver = Client::start("otlp_receiver.py", &[&[&*port], how].concat());
    receiver.wait_for("listening");
    let here = forwarding(directory.path(), &here_at, &format!("http://{there_at}/v1/metrics"), form);
    let series = json!([
        {"labels": {"__name__": "rpc_seconds", "job": "shop"}, "kind": "histogram", "temporality": "delta", "unit": "s", "width_ms": 1000},
        {"labels": {"__name__": "rpc_depth", "job": "shop"}, "kind": "float"},
        float("rpc_bad"),
    ]);
    let time = now_ms();
    let samples = json!([
        {"series": 0, "time_ms": time, "histogram": {"bins": {"1e-3": 2, "2.5e-1": 1}, "sum": 0.252}},
        {"series": 1, "time_ms": time, "float": 1.0},
        {"series": 2, "time_ms": time, "float": 1.0},
        {"series": 2, "time_ms": time - 10, "float": 1.0},
    ]);
    let (status, answer) = here.batch(SOURCE, 1, series, samples);
    assert_eq!((status, &answer["accepted"]), (200, &json!(4)), "{answer}");
    receiver.wait_for("observations 3 sum 0.252 gauges 1 last 1.0 of shop");
    here.becomes("ogive_forward_samples_total", 2.0);
    here.becomes("ogive_forward_refused_samples_total", 2.0);
    assert_eq!(here.number("ogive_forward_unfit_samples_total"), Some(0.0));
}

/// A changed file needed a restart, and a restart with a file that was half written did not come.
/// Our own listener of gRPC, behind TLS and a token, which goes away and comes back.
#[test]
fn another_ogive_takes_calls_of_otlp_behind_tls() {
    let (files, directories) =
        (tempfile::tempdir().unwrap(), [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()]);
    let authority = Authority::new();
    let file = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(file("ca.pem"), authority.0.pem()).unwrap();
    authority.certify(files.path(), "server", ExtendedKeyUsagePurpose::ServerAuth);
    let (token, entry) = new_token(&["--name", "forward", "--allow", "write"]);
    std::fs::write(file("token"), token).unwrap();
    let tls = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n";
    let users = format!("basic_auth_users:\n  reader: {}\n", bcrypt::hash("builder", 4).unwrap());
    std::fs::write(file("web.yml"), format!("{tls}{users}tokens:\n{entry}")).unwrap();
    let (here_at, there_at) = (free_address(), free_address());
    let arguments = ["--listen", &there_at, "--web-config", &file("web.yml")];
    let start =
        || Server::try_start(directories[1].path(), &arguments).unwrap_or_else(|said| panic!("no start: {said}"));
    let mut there = start();
    let port = there_at.rsplit(':').next().unwrap();
    let table = format!(
        "[[forward]]\nname = 'there'\nto = 'https://127.0.0.1:{port}'\nform = 'otlp-grpc'\nmatch = ['{{__name__=~\"rpc_.*\"}}']\n\
         lateness = '{PUNCTUAL}'\ntimeout = '5s'\nca-file = {:?}\ntoken-file = {:?}\n",
        file("ca.pem"),
        file("token")
    );
    std::fs::write(file("forward.toml"), table).unwrap();
    let here = Server::try_start(directories[0].path(), &["--listen", &here_at, "--forward", &file("forward.toml")]);
    let here = here.unwrap_or_else(|said| panic!("no start: {said}"));
    let observed = |wanted: f64| {
        eventually("all observations are there", || {
            let query = format!("https://127.0.0.1:{port}/api/v1/query?query={}", crate::common::form(OBSERVED));
            let output = Command::new("curl")
                .args(["-s", "--cacert", &file("ca.pem"), "-u", "reader:builder", &query])
                .output()
                .unwrap();
            let body: Value = serde_json::from_slice(&output.stdout).ok()?;
            let found: Option<f64> = body["data"]["result"][0]["value"][1].as_str().map(|text| text.parse().unwrap());
            assert!(found.unwrap_or(0.0) <= wanted, "{found:?}, more than {wanted}");
            (found == Some(wanted)).then_some(())
        });
    };
    (1..=3).for_each(|sequence| send(&here, sequence));
    observed(9.0);
    there.kill();
    send(&here, 4);
    eventually("a call is made in vain", || here.number("ogive_forward_failures_total{forward=\"there\"} > 0"));
    let _there = start();
    observed(12.0);
    assert_eq!(here.get("/v1/status").1["forward_refused_total"].as_u64().unwrap_or(0), 0);
}

#[test]
fn the_file_is_taken_again_and_a_broken_one_refused() {
    let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [here_at, one_at, other_at] = [(); 3].map(|()| free_address());
    let one = Server::start_at(directories[1].path(), &one_at);
    let other = Server::start_at(directories[2].path(), &other_at);
    let here = forwarding(directories[0].path(), &here_at, &format!("http://{one_at}"), "batch");
    send(&here, 1);
    one.becomes(OBSERVED, 3.0);
    let file = directories[0].path().join("forward.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    let table = before.replace("'there'", "'second'").replace(&one_at, &other_at);
    let reloads = |name: &str| format!("ogive_config_{name}{{config=\"forwards\"}}");
    // A second one begins, and the first goes on.
    std::fs::write(&file, format!("{before}{table}")).unwrap();
    here.signal("HUP");
    here.becomes(&reloads("reloads_total"), 1.0);
    send(&here, 2);
    other.grows_to(OBSERVED, 3.0);
    one.grows_to(OBSERVED, 6.0);
    // A file that is wrong, or was cut off, changes nothing.
    for (at, broken) in
        [before.replace("rpc_.*", "rpc_(*"), before[..before.len() - 20].to_owned(), String::new()].iter().enumerate()
    {
        std::fs::write(&file, broken).unwrap();
        here.signal("HUP");
        here.becomes(&reloads("reload_failures_total"), at as f64 + 1.0);
    }
    here.becomes(&reloads("refused"), 1.0);
    send(&here, 3);
    other.grows_to(OBSERVED, 6.0);
    one.grows_to(OBSERVED, 9.0);
    // One that is gone ends.
    std::fs::write(&file, &table).unwrap();
    here.signal("HUP");
    here.becomes(&reloads("reloads_total"), 2.0);
    here.becomes(&reloads("refused"), 0.0);
    send(&here, 4);
    other.grows_to(OBSERVED, 9.0);
    assert_eq!(one.number(OBSERVED), Some(9.0));
}

/// What a Prometheus at `address` answers to `expr`.
fn ask(address: &str, expr: &str) -> Option<f64> {
    let path = format!("/api/v1/query?query={}", crate::common::form(expr));
    let (status, body) = crate::common::request_at(address, &format!("GET {path} HTTP/1.1"), b"").ok()?;
    let body: Value = serde_json::from_str(&body).ok().filter(|_| status == 200)?;
    body["data"]["result"][0]["value"][1].as_str()?.parse().ok()
}

/// Remote write 2.0 to a real Prometheus: native histograms and numbers, each once, through a crash of either.
#[test]
#[ignore = "run by scripts/heavy-clients"]
fn a_prometheus_has_every_cell_once() {
    let directory = tempfile::tempdir().unwrap();
    let (here_at, there_at) = (free_address(), free_address());
    let config = directory.path().join("prometheus.yml");
    std::fs::write(&config, "global: {scrape_interval: 1h}\n").unwrap();
    let prometheus = || {
        let mut command = Command::new(heavy("bin/prometheus"));
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", directory.path().join("tsdb").display()));
        command.args(["--enable-feature=native-histograms", "--web.enable-remote-write-receiver"]);
        command.arg(format!("--web.listen-address={there_at}"));
        Program::start(command)
    };
    let there = prometheus();
    let url = format!("http://{there_at}/api/v1/write");
    let mut here = forwarding(directory.path(), &here_at, &url, "remote-write");
    (1..=5).for_each(|at| send(&here, at));
    eventually("the first are there", || (ask(&there_at, OBSERVED) == Some(15.0)).then_some(()));
    drop(there);
    (6..=10).for_each(|at| send(&here, at));
    eventually("requests are sent in vain", || here.number("ogive_forward_failures_total{forward=\"there\"} > 0"));
    here.kill();
    let _there = prometheus();
    let here = forwarding(directory.path(), &here_at, &url, "remote-write");
    (11..=15).for_each(|at| send(&here, at));
    eventually("all are there", || (ask(&there_at, OBSERVED) == Some(45.0)).then_some(()));
    eventually("the last value is there", || (ask(&there_at, "rpc_depth") == Some(15.0)).then_some(()));
    let of = "count_over_time(rpc_depth[1h])";
    assert_eq!(ask(&there_at, of), here.number(of));
    assert_eq!(ask(&there_at, "count(count_over_time(other[1h]))"), None);
    let quantile = "histogram_quantile(0.5, sum_over_time(rpc_seconds[1h]))";
    let (theirs, ours) = (ask(&there_at, quantile).unwrap(), here.number(quantile).unwrap());
    assert!((theirs / ours - 1.0).abs() < 0.1, "{theirs} there, {ours} here");
}

/// A subscriber; killed when dropped.
struct Subscriber(Child, std::sync::mpsc::Receiver<Value>);

impl Subscriber {
    fn start(address: &str, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ogive"))
            .args(["subscribe", "{__name__=~\"rpc_.*\"}", "--server", &format!("http://{address}")])
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if sender.send(serde_json::from_str(&line).expect("a line is JSON")).is_err() {
                    return;
                }
            }
        });
        Self(child, receiver)
    }

    /// The next event of this name, and the cells before it.
    fn until(&self, name: &str) -> (Value, Vec<Value>) {
        let (from, mut cells) = (Instant::now(), Vec::new());
        loop {
            let event = self.1.recv_timeout(PATIENCE).expect("an event comes");
            if event["event"] == name {
                return (event, cells);
            }
            cells.push(event);
            assert!(from.elapsed() < PATIENCE, "no {name}, but {cells:?}");
        }
    }

    /// Cells, up to the watermark behind that of `rpc_depth` with this value.
    fn until_depth(&self, depth: f64) -> Vec<Value> {
        let (from, mut cells) = (Instant::now(), Vec::new());
        let is_it = |cell: &Value| cell["labels"]["__name__"] == "rpc_depth" && cell["float"] == depth;
        while !cells.iter().any(is_it) {
            assert!(from.elapsed() < PATIENCE, "no depth {depth}, but {cells:?}");
            cells.extend(self.until("watermark").1);
        }
        cells
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

#[test]
fn a_subscriber_prints_each_cell_and_goes_on_where_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let address = free_address();
    let mut server = Server::start_at(&directory.path().join("data"), &address);
    let state = directory.path().join("id");
    let more = ["--lateness", "500ms", "--state", state.to_str().unwrap()];
    let subscriber = Subscriber::start(&address, &more);
    subscriber.until("watermark");
    send(&server, 1);
    let (cell, _) = subscriber.until("cell");
    assert!(cell["labels"]["__name__"].as_str().unwrap().starts_with("rpc_") && cell["time_ms"].is_i64(), "{cell}");
    // The server is killed and comes back: the same subscriber goes on, and prints nothing twice.
    let (watermark, _) = subscriber.until("watermark");
    server.kill();
    let server = Server::start_at(&directory.path().join("data"), &address);
    send(&server, 2);
    let seen = subscriber.until_depth(2.0);
    assert!(!seen.contains(&cell), "{cell} was printed before {watermark}");
    drop(subscriber);
    // What came while nobody subscribed comes behind the id in the file.
    send(&server, 3);
    let next = Subscriber::start(&address, &[&more[..], &["--watermarks", "30"]].concat());
    next.until_depth(3.0);
    let wrong = Command::new(env!("CARGO_BIN_EXE_ogive"))
        .args(["subscribe", "rate(x[1m])", "--server", &format!("http://{address}")])
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}
