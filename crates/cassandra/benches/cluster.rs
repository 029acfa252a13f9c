//! What does a cell cost on three nodes of Cassandra, and how long does a read take?
//!
//! `cargo bench -p ogive-cassandra` starts them with `scripts/cassandra target/cassandra up 3` (or goes on with those
//! that run) and prints, for each of four rounds (the first, 0, warms Java) in a keyspace of its own: cells a second
//! until they are acknowledged and until a majority has them, CPU a cell of this process and of Cassandra, bytes of a
//! copy on disk, and 100 series of an hour read back at QUORUM. `-- SERIES SECONDS` sets how much is written (1,000
//! series, 600 seconds).
//!
//! A cell is a histogram of 20 latencies in a second. CPU time is the scheduler's for each process, children and
//! compaction included.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use ogive_cassandra::{Address, Cluster, Node, Options};
use ogive_door::backend::{Backend, Refusal, Stamps, Step};
use ogive_hist::Histogram;
use ogive_model::{
    Batch, BatchId, Kind, MatchOp, Matcher, Sample, Selection, SeriesDef, SeriesMeta, Temporality, Tenant, TimeRange,
    Value, Verdict,
};
use ogive_probe::Clock;

/// After one more that warms the machines of Java and is printed too.
const ROUNDS: usize = 3;
/// Seconds of every series in a batch.
const SECONDS_A_BATCH: i64 = 5;
/// Batches that are in flight at once, as of eight senders.
const IN_FLIGHT: usize = 8;
const LATENCIES_A_CELL: u64 = 20;
/// A series is read for so long.
const HOUR: i64 = 3_600;
const READ_SERIES: usize = 100;

struct Unstamped;

impl Stamps for Unstamped {
    fn stamp(&self, _step: Step) {}
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn script(arguments: &[&str]) -> String {
    let mut command = Command::new(workspace().join("scripts/cassandra"));
    let done = command.arg(workspace().join("target/cassandra")).args(arguments).output().expect("python3 is there");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Seconds of CPU of a process, of all its threads.
fn cpu_seconds(pid: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process runs");
    let fields: Vec<&str> = stat[stat.rfind(')').expect("a name in brackets") + 2..].split(' ').collect();
    [11, 12].iter().map(|at| fields[*at].parse::<f64>().expect("ticks") / 100.0).sum()
}

fn pids() -> Vec<String> {
    let status = script(&["status"]);
    let pid = |line: &str| Some(line.split("process ").nth(1)?.split(',').next()?.to_owned());
    status.lines().filter_map(pid).collect()
}

/// Bytes of files below a directory whose path has `part`.
fn bytes_below(directory: &Path, part: &str) -> u64 {
    let entries = std::fs::read_dir(directory).map(Iterator::flatten).into_iter().flatten();
    let one = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes_below(&entry.path(), part),
        _ if entry.path().display().to_string().contains(part) => entry.metadata().map_or(0, |data| data.len()),
        _ => 0,
    };
    entries.map(one).sum()
}

fn series(count: usize) -> Vec<Result<SeriesDef, String>> {
    let meta = SeriesMeta { kind: Kind::Histogram, temporality: Temporality::Delta, unit: "s".into(), width_ms: 1_000 };
    let of = |host: usize| SeriesDef::new([("__name__", "latency"), ("host", &*format!("h{host:06}"))], meta.clone());
    (0..count).map(|host| of(host).map_err(|error| error.to_string())).collect()
}

/// The cell of a series and second: a mode that wanders, and a tail.
fn cell(series: usize, second: i64) -> Box<Histogram> {
    let mut histogram = Histogram::log_linear();
    let mut state = ((series as u64 + 1) * 0x9e37_79b9_7f4a_7c15) ^ second as u64;
    for _ in 0..LATENCIES_A_CELL {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let tail = if state.is_multiple_of(50) { 10.0 } else { 1.0 };
        histogram.record(tail * (1.0 + (state % 1_000) as f64 / 1_000.0) / 1_000.0);
    }
    Box::new(histogram)
}

fn batch(series: &[Result<SeriesDef, String>], from_s: i64, BatchId { source, sequence }: BatchId) -> Batch {
    let places = 0..series.len();
    let samples = places.flat_map(|place| {
        (from_s..from_s + SECONDS_A_BATCH).map(move |second| {
            let value = Value::Histogram(cell(place, second));
            Sample { series: place as u32, time_ns: second * 1_000_000_000, start_ns: None, value }
        })
    });
    let samples = samples.map(Ok).collect();
    let series = series.iter().map(|one| Ok(one.clone().expect("names are short"))).collect();
    Batch { source, sequence, series, samples, ..Batch::default() }
}

/// What one round wrote.
struct Written {
    cells: u64,
    acknowledged: Duration,
    driven: Duration,
    /// Of each batch, to its acknowledgement.
    latencies: Vec<Duration>,
    own_cpu: f64,
    cassandra_cpu: f64,
}

fn write(node: &Node, count: usize, from_s: i64, seconds: i64) -> Written {
    let (series, source) = (series(count), ogive_export::random_source());
    let pids = pids();
    let cpu = || (cpu_seconds("self"), pids.iter().map(|pid| cpu_seconds(pid)).sum::<f64>());
    // Made before the clock runs: a sender's work is not the node's.
    let batches = (from_s..from_s + seconds).step_by(SECONDS_A_BATCH as usize).enumerate();
    let mut batches = batches
        .map(|(at, from)| batch(&series, from, BatchId { source, sequence: at as u64 + 1 }))
        .collect::<Vec<_>>()
        .into_iter();
    let (before, begin) = (cpu(), Instant::now());
    let mut waiting: std::collections::VecDeque<(Instant, Receiver<Result<Verdict, Refusal>>)> =
        std::collections::VecDeque::new();
    let mut latencies = Vec::new();
    loop {
        while waiting.len() < IN_FLIGHT
            && let Some(batch) = batches.next()
        {
            let (sender, receiver) = channel();
            let reply = Box::new(move |outcome| drop(sender.send(outcome)));
            node.submit(batch, None, Arc::new(Unstamped), reply).expect("there is room");
            waiting.push_back((Instant::now(), receiver));
        }
        let Some((sent, receiver)) = waiting.pop_front() else { break };
        let verdict = receiver.recv().expect("each batch is answered").expect("it is taken");
        assert!(verdict.rejected.is_empty() && verdict.duplicate == 0, "{verdict:?}");
        latencies.push(sent.elapsed());
    }
    let acknowledged = begin.elapsed();
    while !node.is_driven() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (driven, after) = (begin.elapsed(), cpu());
    let cells = count as u64 * seconds as u64;
    Written { cells, acknowledged, driven, latencies, own_cpu: after.0 - before.0, cassandra_cpu: after.1 - before.1 }
}

/// Reads an hour of the first series, and says how many cells came.
fn read(node: &Node, from_s: i64) -> (usize, Duration) {
    let begin = Instant::now();
    let hosts: Vec<String> = (0..READ_SERIES).map(|host| format!("h{host:06}")).collect();
    let matchers = [(MatchOp::Equal, "__name__", "latency"), (MatchOp::Regex, "host", &hosts.join("|"))];
    let matchers = matchers.map(|(op, name, value)| Matcher::new(name, op, value).expect("plain words"));
    let range = TimeRange::from_ms(from_s * 1_000 - 1, (from_s + HOUR) * 1_000);
    let selection = Selection::new(matchers.to_vec(), range);
    let found = node.of(&Tenant::default()).select(&selection);
    let cells = found.expect("a majority answers").iter().map(|series| series.histograms.times.len()).sum();
    (cells, begin.elapsed())
}

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|text| text.parse().ok()).collect();
    let (count, seconds) = (*numbers.first().unwrap_or(&1_000), *numbers.get(1).unwrap_or(&600) as i64);
    script(&["up", "3"]);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads start");
    for round in 0..=ROUNDS {
        let keyspace = format!("bench{:x}", ogive_export::random_source().0 as u64);
        let address = format!("cassandra://127.0.0.1,127.0.0.2,127.0.0.3/{keyspace}?audit=0s");
        let address = Address::parse(&address).expect("it is one");
        runtime.block_on(Cluster::init(&address)).expect("the tables are made");
        let directory = tempfile::tempdir().expect("there is room");
        let options =
            Options { addresses: vec![address], directory: directory.path().to_owned(), clock: Clock::global() };
        let node = Node::open(options).expect("the node opens");
        let now_s = Clock::global().wall() / 1_000_000_000;
        let from_s = (now_s - 2 * HOUR) / HOUR * HOUR;
        let mut written = write(&node, count, from_s, seconds);
        written.latencies.sort();
        let at = |share: f64| written.latencies[(share * (written.latencies.len() - 1) as f64) as usize];
        let cells = written.cells as f64;
        println!(
            "round {round}: {} cells, {:.0} a second acknowledged, {:.0} at a majority; acknowledged after {:.1?} (p99 {:.1?}, max {:.1?})",
            written.cells,
            cells / written.acknowledged.as_secs_f64(),
            cells / written.driven.as_secs_f64(),
            at(0.5),
            at(0.99),
            at(1.0),
        );
        for each in 1..=3 {
            script(&["nodetool", &each.to_string(), "flush", &keyspace]);
        }
        let bytes = bytes_below(&workspace().join("target/cassandra"), &format!("/{keyspace}/cells-"));
        println!(
            "  CPU a cell: {:.2} us of Ogive, {:.2} us of Cassandra (3 copies); {:.1} bytes of a copy on disk",
            written.own_cpu / cells * 1e6,
            written.cassandra_cpu / cells * 1e6,
            bytes as f64 / 3.0 / cells,
        );
        let hour = write(&node, READ_SERIES, from_s + HOUR, HOUR);
        assert_eq!(hour.cells, READ_SERIES as u64 * HOUR as u64);
        let mut reads: Vec<(usize, Duration)> = (0..5).map(|_| read(&node, from_s + HOUR)).collect();
        reads.sort_by_key(|(_, took)| *took);
        assert!(reads.iter().all(|(found, _)| *found as u64 >= hour.cells), "{reads:?}");
        println!(
            "  {READ_SERIES} series of an hour: {:.0?} (first to last of five: {:.0?} to {:.0?})",
            reads[2].1, reads[0].1, reads[4].1
        );
    }
}
