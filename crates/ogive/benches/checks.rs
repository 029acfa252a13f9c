//! What do 10,000 checks each minute cost a server, and are they spread evenly over it?
//!
//! Starts the real server with a file of checks, half of them `http` and half `tcp`, of an address that answers at
//! once, and measures: the processor time of the server's process with them and of one without any; its memory; how
//! many checks begin in each second; and that none of them failed or was left out.
//!
//! `cargo bench -p ogive --bench checks`; `OGIVE_BENCH_CHECKS` (default 10,000), `OGIVE_BENCH_PERIOD` (default 60 s),
//! `OGIVE_BENCH_PERIODS` that are measured (default 2).

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "common/process.rs"]
mod process;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::Server;
use process::{cpu_seconds, memory, spread};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Answers requests of HTTP until the other side closes.
async fn answer(mut stream: TcpStream) {
    let mut request = Vec::new();
    while let Ok(1..) = stream.read_buf(&mut request).await {
        if request.ends_with(b"\r\n\r\n") {
            request.clear();
            if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n").await.is_err() {
                return;
            }
        }
    }
}

/// Notes when each connection comes.
async fn listen(listener: TcpListener, arrivals: Arc<Mutex<Vec<Instant>>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        arrivals.lock().unwrap().push(Instant::now());
        tokio::spawn(answer(stream));
    }
}

/// The checks, as a file has them.
fn checks(count: u64, period: u64, address: &str) -> String {
    let mut toml = String::new();
    for at in 0..count {
        let (kind, target) =
            if at % 2 == 0 { ("http", format!("http://{address}/")) } else { ("tcp", address.to_owned()) };
        writeln!(
            toml,
            "[[check]]\nname = \"c{at}\"\nkind = \"{kind}\"\ntarget = \"{target}\"\nperiod = \"{period}s\"\ntimeout = \"5s\"\n"
        )
        .unwrap();
    }
    toml
}

/// Cores that the server takes over `time`.
fn share(server: &Server, time: Duration) -> f64 {
    let before = cpu_seconds(server);
    std::thread::sleep(time);
    (cpu_seconds(server) - before) / time.as_secs_f64()
}

fn main() {
    let (count, period) = (number("OGIVE_BENCH_CHECKS", 10_000), number("OGIVE_BENCH_PERIOD", 60).max(1));
    let periods = number("OGIVE_BENCH_PERIODS", 2).max(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let arrivals = Arc::new(Mutex::new(Vec::new()));
    runtime.spawn(listen(listener, arrivals.clone()));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("checks.toml");
    std::fs::write(&file, checks(count, period, &address)).unwrap();
    let start = |name: &str, more: &[&str]| {
        let flags = [&["--listen", "127.0.0.1:0"], more].concat();
        Server::try_start(&directory.path().join(name), &flags).unwrap_or_else(|said| panic!("{said}"))
    };
    let alone = start("alone", &[]);
    let server = start("data", &["--checks", file.to_str().unwrap()]);
    // Each check has run once, and its series are there.
    std::thread::sleep(Duration::from_secs(period + 5));
    arrivals.lock().unwrap().clear();
    let begin = Instant::now();
    let mut cores = Vec::new();
    let mut more = Vec::new();
    for _ in 0..periods {
        let (with, without) = std::thread::scope(|scope| {
            let without = scope.spawn(|| share(&alone, Duration::from_secs(period)));
            (share(&server, Duration::from_secs(period)), without.join().unwrap())
        });
        cores.push(100.0 * with);
        more.push(100.0 * (with - without));
    }
    let mut seconds = vec![0_u32; (periods * period) as usize];
    for at in arrivals.lock().unwrap().iter() {
        if let Some(second) = seconds.get_mut(at.duration_since(begin).as_secs() as usize) {
            *second += 1;
        }
    }
    let total: u32 = seconds.iter().sum();
    println!(
        "{count} checks each {period} s: {} % of a core, {} more than without; {:.0} MiB of anonymous memory",
        spread(cores),
        spread(more),
        memory(&server) / f64::from(1 << 20)
    );
    println!(
        "{total} began in {} s: {:.1} a second on average, {} to {} in one",
        seconds.len(),
        f64::from(total) / seconds.len() as f64,
        seconds.iter().min().unwrap(),
        seconds.iter().max().unwrap()
    );
    let number = |query: &str| server.number(query).unwrap_or_default();
    println!(
        "up {} of {}, p99 of their total {:.1} ms",
        number("sum(ogive_check_up)"),
        number("count(ogive_check_up)"),
        1e3 * number("histogram_quantile(0.99, sum(sum_over_time(ogive_check_seconds{phase=\"total\"}[5m])))")
    );
}
