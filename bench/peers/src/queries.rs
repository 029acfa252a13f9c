//! Queries: a day of 1,000 gauges and 1,000 counters, and 300 histograms, asked of every server in turns.
//!
//! Each server gets the same remote write requests, is restarted, and answers each query in turn with the others: a
//! repeat asks every server, so a busy moment of the machine meets all. Processor time is that of the server's process,
//! less what it uses when nobody asks; the kernel counts it in steps of 10 ms, so cheap queries are asked many times a
//! repeat.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::data::{Sample, Series, Shape};
use crate::profile::Profile;
use crate::requests::Form;
use crate::send::{self, REMOTE_WRITE, Request};
use crate::server::{Peer, Programs, Server, encoded};
use crate::wire::WriteRequest;
use crate::work::{Load, WORKS};

/// A day in steps of 30 s.
const STEPS: usize = 2_880;
const STEP_MS: i64 = 30_000;
/// Samples of one series in a row of a request: ten minutes. More would be refused by servers that take no late
/// samples.
const RUN: usize = 20;

/// A query, how often it is asked in a repeat, and who has the data for it.
struct Query {
    name: &'static str,
    expr: &'static str,
    /// (length, step) in seconds; None for an instant.
    range: Option<(i64, i64)>,
    times: usize,
    data: Data,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    /// Floats, which everybody has.
    Floats,
    /// Cumulative native histograms, which VictoriaMetrics does not answer as such.
    Native,
    /// The same measurements as cells, which only Ogive can store: beside Prometheus' native ones.
    Cells,
}

const ONE: &str = r#"bench_gauge{number="0"}"#;
const HUNDRED: &str = r#"bench_gauge{part="p3"}"#;
const ALL: &str = "bench_gauge";
const SUM: &str = "sum by (dc) (bench_gauge)";
const RATE: &str = "sum by (job) (rate(bench_counter_total[5m]))";
const MAX: &str = r#"max_over_time(bench_gauge{part="p3"}[5m])"#;
const HOUR: Option<(i64, i64)> = Some((3600, 60));
const DAY: Option<(i64, i64)> = Some((86_400, 300));
const NATIVE: &str = r#"histogram_quantile(0.99, sum(rate({__name__=~"bench_.+",run="native"}[5m])))"#;
const CELLS: &str = r#"histogram_quantile(0.99, sum(rate({__name__=~"bench_.+",run="cells"}[5m])))"#;

const fn query(name: &'static str, expr: &'static str, range: Option<(i64, i64)>, times: usize, data: Data) -> Query {
    Query { name, expr, range, times, data }
}

const QUERIES: [Query; 17] = [
    query("instant raw x1", ONE, None, 100, Data::Floats),
    query("instant raw x1000", ALL, None, 10, Data::Floats),
    query("1 h/60 s raw x1", ONE, HOUR, 100, Data::Floats),
    query("1 h raw x100", HUNDRED, HOUR, 20, Data::Floats),
    query("1 h raw x1000", ALL, HOUR, 4, Data::Floats),
    query("1 h sum by (dc) x1000", SUM, HOUR, 10, Data::Floats),
    query("1 h sum by (job)(rate) x1000", RATE, HOUR, 10, Data::Floats),
    query("24 h/300 s raw x1", ONE, DAY, 100, Data::Floats),
    query("24 h raw x100", HUNDRED, DAY, 8, Data::Floats),
    query("24 h raw x1000", ALL, DAY, 1, Data::Floats),
    query("24 h sum by (dc) x1000", SUM, DAY, 3, Data::Floats),
    query("24 h sum by (job)(rate) x1000", RATE, DAY, 3, Data::Floats),
    query("24 h max_over_time[5m] x100", MAX, DAY, 10, Data::Floats),
    query("native p99 of 300, instant", NATIVE, None, 5, Data::Native),
    query("native p99 of 300, 30 min/60 s", NATIVE, Some((1_800, 60)), 2, Data::Native),
    query("cells p99 of 300, instant", CELLS, None, 10, Data::Cells),
    query("cells p99 of 300, 30 min/60 s", CELLS, Some((1_800, 60)), 5, Data::Cells),
];

/// How to measure; where to keep the data for another run, and where profiles of Ogive go.
pub struct Setup<'a> {
    pub scale: f64,
    pub repeats: usize,
    /// VictoriaMetrics may answer from what it answered before.
    pub cached_results: bool,
    pub keep: Option<&'a Path>,
    pub profile: Option<&'a Path>,
}

/// Loads, restarts, asks, prints.
pub fn run(programs: &Programs, peers: &[Peer], setup: &Setup<'_>) -> anyhow::Result<()> {
    let temporary = tempfile::tempdir()?;
    let directory = setup.keep.unwrap_or(temporary.path());
    let now_ms = when(directory)?;
    let mut servers = Vec::new();
    for peer in peers {
        let data = directory.join(peer.name());
        if !data.exists() {
            load(Server::start(*peer, programs, &data)?, now_ms, setup.scale)
                .with_context(|| peer.name())?
                .terminate()?;
        }
        let server = Server::start(*peer, programs, &data)?;
        server.settle()?;
        servers.push(server);
    }
    let idle: Vec<f64> = servers.iter().map(idle).collect::<anyhow::Result<_>>()?;
    println!("| query | {} |", servers.iter().map(|one| one.peer.name()).collect::<Vec<_>>().join(" | "));
    println!("|---|{}", "---|".repeat(servers.len()));
    for query in &QUERIES {
        let mut figures: Vec<Figures> = servers.iter().map(|_| Figures::default()).collect();
        let ogive = servers.iter().find(|server| server.peer == Peer::Ogive);
        let profile = setup.profile.zip(ogive);
        let profile =
            profile.map(|(directory, server)| Profile::start(directory, query.name, server.id())).transpose()?;
        for _ in 0..setup.repeats {
            for (at, server) in servers.iter().enumerate().filter(|(_, server)| query.fits(server.peer)) {
                let path = query.path(server.peer, now_ms, setup.cached_results);
                figures[at].take(server, query, &path, idle[at])?;
            }
        }
        profile.map(Profile::finish).transpose()?;
        println!("| {} | {} |", query.name, row(&figures));
    }
    println!("\nCPU ms a query / p50 wall ms (series); in brackets the CPU of the first column by this one's");
    Ok(())
}

/// A query's name and, by repeat, CPU milliseconds of both builds.
pub type Pairs = (&'static str, Vec<[f64; 2]>);

/// CPU milliseconds of each query that two builds of Ogive answer, by repeat.
pub fn pairs(programs: &[Programs; 2], scale: f64, repeats: usize) -> anyhow::Result<Vec<Pairs>> {
    let directory = tempfile::tempdir()?;
    let now_ms = when(directory.path())?;
    let start = |side: usize| -> anyhow::Result<(Server, f64)> {
        let (programs, data) = (&programs[side], directory.path().join(side.to_string()));
        load(Server::start(Peer::Ogive, programs, &data)?, now_ms, scale)?.terminate()?;
        let server = Server::start(Peer::Ogive, programs, &data)?;
        server.settle()?;
        let idle = idle(&server)?;
        Ok((server, idle))
    };
    let servers = [start(0)?, start(1)?];
    let mut out = Vec::new();
    for query in &QUERIES {
        let mut figures = [Figures::default(), Figures::default()];
        for repeat in 0..repeats {
            for side in order(repeat) {
                let (server, idle) = &servers[side];
                figures[side].take(server, query, &query.path(server.peer, now_ms, false), *idle)?;
            }
        }
        let [a, b] = &figures;
        // The kernel counts steps of 10 ms.
        let least = 10.0 / query.times as f64;
        out.push((query.name, a.cpu_ms.iter().zip(&b.cpu_ms).map(|(a, b)| [a.max(least), b.max(least)]).collect()));
    }
    Ok(out)
}

/// Which side is first in a round.
pub fn order(round: usize) -> [usize; 2] {
    if round.is_multiple_of(2) { [0, 1] } else { [1, 0] }
}

/// The end of the data in `directory`, now when there is none.
fn when(directory: &Path) -> anyhow::Result<i64> {
    let file = directory.join("end_ms");
    if let Ok(text) = fs::read_to_string(&file) {
        return Ok(text.trim().parse()?);
    }
    let now_ms = crate::now_ms().div_euclid(STEP_MS) * STEP_MS;
    fs::create_dir_all(directory)?;
    fs::write(file, now_ms.to_string())?;
    Ok(now_ms)
}

impl Query {
    fn fits(&self, peer: Peer) -> bool {
        self.data == Data::Floats || peer != Peer::Victoria
    }

    /// `cached_results`: VictoriaMetrics may answer from what it answered before.
    fn path(&self, peer: Peer, now_ms: i64, cached_results: bool) -> String {
        let expr = match (self.data, peer) {
            (Data::Cells, Peer::Prometheus) => NATIVE,
            _ => self.expr,
        };
        let (expr, now) = (encoded(expr), now_ms / 1000);
        let cache = if peer == Peer::Victoria && !cached_results { "&nocache=1" } else { "" };
        match self.range {
            None => format!("/api/v1/query?query={expr}&time={now}{cache}"),
            Some((length, step)) => {
                format!("/api/v1/query_range?query={expr}&start={}&end={now}&step={step}{cache}", now - length)
            }
        }
    }
}

/// What a query took of one server, one element a repeat.
#[derive(Default)]
struct Figures {
    cpu_ms: Vec<f64>,
    wall_ms: Vec<f64>,
    series: usize,
}

impl Figures {
    fn take(&mut self, server: &Server, query: &Query, path: &str, idle: f64) -> anyhow::Result<()> {
        let (cpu, began) = (server.cpu()?, Instant::now());
        for _ in 0..query.times {
            let asked = Instant::now();
            let (status, body) = server.get(path)?;
            self.wall_ms.push(asked.elapsed().as_secs_f64() * 1000.0);
            anyhow::ensure!(status == 200, "{}: {}: {body}", server.peer.name(), query.name);
            self.series = body.matches("\"metric\":").count();
        }
        let used = (server.cpu()? - cpu).as_secs_f64() - idle * began.elapsed().as_secs_f64();
        self.cpu_ms.push(used.max(0.0) * 1000.0 / query.times as f64);
        Ok(())
    }

    fn cpu(&self) -> f64 {
        self.cpu_ms.iter().sum::<f64>() / self.cpu_ms.len() as f64
    }
}

fn row(figures: &[Figures]) -> String {
    let of = |one: &Figures| {
        if one.cpu_ms.is_empty() {
            return "-".to_owned();
        }
        let mut walls = one.wall_ms.clone();
        walls.sort_by(f64::total_cmp);
        let ratio = figures[0].cpu() / one.cpu();
        format!("{:.2} / {:.1} ({}) [{ratio:.2}x]", one.cpu(), walls[walls.len() / 2], one.series)
    };
    figures.iter().map(of).collect::<Vec<_>>().join(" | ")
}

/// The share of a processor that the server uses when nobody asks.
fn idle(server: &Server) -> anyhow::Result<f64> {
    let (cpu, began) = (server.cpu()?, Instant::now());
    std::thread::sleep(Duration::from_secs(5));
    Ok((server.cpu()? - cpu).as_secs_f64() / began.elapsed().as_secs_f64())
}

/// Sends everything that the server can take and gives it back.
fn load(server: Server, now_ms: i64, scale: f64) -> anyhow::Result<Server> {
    let count = ((1000.0 * scale) as usize).max(10);
    let mut sent = vec![vec![floats(count, now_ms)]];
    let histograms = WORKS.iter().find(|work| work.histograms).expect("a workload of histograms").scaled(scale);
    let histograms = Load::Generated(histograms);
    if server.peer != Peer::Victoria {
        sent.push(histograms.requests(Form::RemoteWrite, "native", now_ms));
    }
    if server.peer == Peer::Ogive {
        sent.push(histograms.requests(Form::Batch, "cells", now_ms));
    }
    for lanes in sent {
        let samples: usize = lanes.iter().flatten().map(|request| request.samples).sum();
        let acknowledged = send::send(&server.address, &lanes, &AtomicBool::new(false))?;
        anyhow::ensure!(acknowledged == samples as u64, "{acknowledged} of {samples} samples acknowledged");
    }
    Ok(server)
}

/// All floats; ten minutes of each series follow each other, so that all go through the day together. One lane: of two,
/// one might run ahead by more than the hour that Prometheus takes late samples for.
fn floats(count: usize, now_ms: i64) -> Vec<Request> {
    let begin = now_ms - (STEPS as i64 - 1) * STEP_MS;
    let shapes = [(Shape::Gauge, "bench_gauge"), (Shape::Counter, "bench_counter_total")];
    let mut series: Vec<Series> =
        shapes.into_iter().flat_map(|(shape, name)| (0..count).map(move |index| one(shape, name, index))).collect();
    let mut requests = Vec::new();
    for step in (0..STEPS).step_by(RUN) {
        for part in series.chunks_mut(250) {
            let mut message = WriteRequest::default();
            for one in part {
                let time_ms = |step: usize| begin + step as i64 * STEP_MS;
                let samples: Vec<Sample> =
                    (step..step + RUN).map(|step| Sample { time_ms: time_ms(step), value: one.next() }).collect();
                message.floats(&one.labels, &samples);
            }
            let (body, samples) = (message.body(), message.samples);
            requests.push(Request { path: "/api/v1/write", headers: REMOTE_WRITE, body, samples });
        }
    }
    requests
}

fn one(shape: Shape, name: &str, index: usize) -> Series {
    let labels = [
        ("__name__", name.to_owned()),
        ("dc", format!("dc{}", index % 4)),
        ("instance", format!("node-{index:05}.example.org:9100")),
        ("job", format!("service-{}", index % 17)),
        ("number", index.to_string()),
        ("part", format!("p{}", index % 10)),
    ];
    Series::from_labels(shape, labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(), index)
}
