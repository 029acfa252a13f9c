//! A measured process and a real server: whatever happens to the server and the way there, what was recorded is stored
//! once or counted as dropped.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::programs::free_address;
use crate::common::{PATIENCE, Server, StopAtEnd, eventually, form, now_ms};
use ogive_export::{Builder, DROPPED_BOUND, Exporter, Status};
use ogive_probe::{Clock, Recorder, Threshold, TraceRecorder, trace_path};

fn start_at(address: &str, directory: &Path) -> Server {
    eventually("the address is free", || Server::try_start(directory, &["--listen", address]).ok())
}

fn builder(address: &str) -> Builder {
    Exporter::builder(&format!("http://{address}")).interval(Duration::from_millis(100)).log(|line| println!("{line}"))
}

/// Measurements stored under `expr`, whenever.
fn stored(server: &Server, expr: &str) -> u64 {
    let (start, end) = (now_ms() / 1000 - 3600, now_ms() / 1000 + 60);
    let path = format!("/v1/heatmap?query={}&start={start}&end={end}&step=1", form(expr));
    let (status, body) = server.get(&path);
    assert_eq!(status, 200, "{body}");
    let columns = body["data"]["columns"].as_array().unwrap();
    columns.iter().map(|column| column["count"].as_str().unwrap().parse::<u64>().unwrap()).sum()
}

/// Threads that record until the stop flag is set, and how often they did.
struct Load {
    stop: AtomicBool,
    recorded: AtomicU64,
}

impl Load {
    fn run(recorder: &Recorder, meanwhile: impl FnOnce()) -> u64 {
        let load = Self { stop: AtomicBool::new(false), recorded: AtomicU64::new(0) };
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (writer, load) = (recorder.handle(), &load);
                scope.spawn(move || {
                    let mut count = 0;
                    while !load.stop.load(Ordering::Relaxed) {
                        for _ in 0..100 {
                            writer.record_ns(1_000 * (thread + 1) + count % 7);
                            count += 1;
                        }
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    load.recorded.fetch_add(count, Ordering::Relaxed);
                });
            }
            let stop = StopAtEnd(&load.stop);
            meanwhile();
            drop(stop);
        });
        load.recorded.into_inner()
    }
}

fn start(builder: Builder) -> (Exporter, Recorder) {
    let exporter = builder.label("service", "drill").start().unwrap();
    let recorder = Recorder::new();
    exporter.cells().recorder("drill_seconds", &[], &recorder).unwrap();
    (exporter, recorder)
}

fn assert_conserved(status: &Status, recorded: u64, stored: u64) {
    let dropped = status.dropped_sum().records;
    println!("{recorded} recorded, {stored} stored, {dropped} dropped; {status:?}");
    assert_eq!(status.waiting.records, 0, "{status:?}");
    assert_eq!((status.taken.records, status.acknowledged.records), (recorded, stored), "{status:?}");
    assert_eq!(stored + dropped, recorded, "{status:?}");
}

#[test]
fn a_server_that_is_killed_again_and_again_gets_every_record_once() {
    let directory = tempfile::tempdir().unwrap();
    let address = free_address();
    let mut server = start_at(&address, directory.path());
    let (exporter, recorder) = start(builder(&address));
    let recorded = Load::run(&recorder, || {
        for kill in 0..4 {
            std::thread::sleep(Duration::from_millis(150 + 70 * kill));
            server.kill();
            std::thread::sleep(Duration::from_millis(50 * kill));
            if kill == 3 {
                eventually("it finds nobody", || (exporter.status().failures > 0).then_some(()));
            }
            server = start_at(&address, directory.path());
        }
    });
    let status = exporter.shutdown(PATIENCE);
    assert_conserved(&status, recorded, stored(&server, "drill_seconds"));
    assert!(status.dropped.is_empty(), "{status:?}");
    server.kill();
    let server = start_at(&address, directory.path());
    assert_eq!(stored(&server, "drill_seconds{service=\"drill\"}"), recorded, "what was acknowledged survives");
}

#[test]
fn what_a_long_absence_costs_is_counted_to_the_record_and_told_to_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let address = free_address();
    let mut server = start_at(&address, directory.path());
    let (exporter, recorder) = start(builder(&address).keep_bytes(4_000));
    let recorded = Load::run(&recorder, || {
        eventually("something is stored", || (exporter.status().acknowledged.records > 0).then_some(()));
        server.kill();
        let dropped = || exporter.status().dropped.get(DROPPED_BOUND).map_or(0, |dropped| dropped.amount.batches);
        eventually("the bound is hit", || (dropped() >= 8).then_some(()));
        server = start_at(&address, directory.path());
        eventually("it goes on", || exporter.status().in_doubt.records.eq(&0).then_some(()));
    });
    let status = exporter.shutdown(PATIENCE);
    assert_conserved(&status, recorded, stored(&server, "drill_seconds"));
    assert!(status.dropped_sum().records > 0);
    // The last cell's time is at its end, which may be a moment ahead of the server's now.
    let dropped = status.dropped_sum().records as f64;
    let expr = "sum(increase(ogive_export_dropped_total{what=\"records\"}[1h]))";
    eventually("the server knows what it did not get", || (server.number(expr) == Some(dropped)).then_some(()));
}

/// Hands each request on and cuts the connection instead of the answer, as long as `cuts` is above zero.
fn proxy(upstream: SocketAddr, cuts: Arc<AtomicU64>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, cuts) = (client.unwrap(), cuts.clone());
            std::thread::spawn(move || {
                let server = TcpStream::connect(upstream).unwrap();
                let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
                pass_answers(server, client, &cuts);
            });
        }
    });
    address
}

fn pass_answers(mut server: TcpStream, mut client: TcpStream, cuts: &AtomicU64) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = server.read(&mut bytes) {
        let cut = cuts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |cuts| cuts.checked_sub(1));
        if cut.is_ok() || client.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    for stream in [server, client] {
        // The other side may have gone first.
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}

#[test]
fn acknowledgements_that_are_lost_count_nothing_twice() {
    const CUTS: u64 = 6;
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let cuts = Arc::new(AtomicU64::new(CUTS));
    let address = proxy(server.address.parse().unwrap(), cuts.clone());
    let (exporter, recorder) = start(builder(&address.to_string()));
    let recorded = Load::run(&recorder, || {
        eventually("all cuts are made", || (cuts.load(Ordering::SeqCst) == 0).then_some(()));
        std::thread::sleep(Duration::from_millis(200));
    });
    let status = exporter.shutdown(PATIENCE);
    assert_conserved(&status, recorded, stored(&server, "drill_seconds"));
    assert!(status.failures >= CUTS && status.dropped.is_empty(), "{status:?}");
    let duplicates = server.get("/v1/status").1["duplicate_total"].as_u64().unwrap();
    assert!(duplicates >= CUTS, "{duplicates} samples came again");
}

trace_path! { DrillPath { recv: infra @ordered, risk: logic, publish: infra @ordered } }

#[test]
fn slow_messages_stand_beside_the_cells_that_count_them() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    // Whose times are known to the nanosecond.
    let clock = Clock::manual(1_000, now_ms() * 1_000_000);
    let exporter = builder(&server.address).interval(Duration::from_secs(1)).label("service", "drill").start().unwrap();
    let traces = TraceRecorder::<DrillPath>::new(clock, Threshold::fixed_ns(2_000_000));
    exporter.cells().traces(&[], &traces).unwrap();
    exporter.cells().clock().unwrap();
    let epoch_before = Clock::global().epoch();
    let writer = traces.handle("engine");
    for at in 0..50 {
        let mut order = DrillPath::begin(clock);
        clock.advance(if at % 10 == 0 { 3_000_000 } else { 1_000 });
        order.mark(clock, DrillPath::risk);
        order.mark(clock, DrillPath::publish);
        writer.finish(&order);
    }
    let status = exporter.shutdown(PATIENCE);
    assert!(status.dropped.is_empty() && status.waiting.is_zero(), "{status:?}");
    let total = "drill_path_seconds{stage=\"total\",service=\"drill\"}";
    let expected = [(total, 50), ("drill_path_seconds{stage=\"risk\",class=\"logic\"}", 50)];
    for (expr, count) in expected.into_iter().chain([("drill_path_seconds{stage=\"gap\",publisher=\"engine\"}", 49)]) {
        assert_eq!(stored(&server, expr), count, "{expr}");
    }
    let (start, end) = (now_ms() / 1000 - 600, now_ms() / 1000 + 60);
    let cells = |expr: &str| {
        let (status, body) = server.get(&format!("/v1/cells?match[]={}&start={start}&end={end}", form(expr)));
        assert_eq!(status, 200, "{body}");
        body["data"]["samples"].as_array().unwrap().clone()
    };
    let counted = cells(total);
    let slow = cells("drill_path_slow{stage=\"total\",service=\"drill\"}");
    assert_eq!(slow.len(), 5, "{slow:?}");
    for text in &slow {
        let trace: ogive_probe::SlowTrace = text["text"].as_str().unwrap().parse().unwrap();
        assert_eq!(trace.path, "DrillPath");
        assert!(counted.iter().any(|cell| cell["time_ms"] == text["time_ms"]), "{text} has no cell");
    }
    // The server has an epoch of its own.
    let epoch = "last_over_time(ogive_clock_epoch{service=\"drill\"}[1h])";
    let epoch = eventually("the cell is over", || server.number(epoch));
    // Somebody may set the machine's clock meanwhile.
    let epochs = f64::from(epoch_before)..=f64::from(Clock::global().epoch());
    assert!(epochs.contains(&epoch), "{epoch} is not in {epochs:?}");
}
